//! Rounds whose masks hold everywhere come first, in a loop that doesn't ask.
//!
//! ```text
//! for i = lo to hi by s:                 for i = lo to min(hi, end - a) by s:  … x …
//!   … if i + a < end: x                  for i = behind it to hi by s:         … if i + a < end: x
//!     else: select mask x y …                                                    else: select mask x y …
//! ```
//!
//! A branch over a mask costs little, but nothing moves across it: neither do exponentials go up to where products are awaited, nor conversions down.
//! So in loops of products beside which lanes compute, the rounds in which all such questions are answered with yes are a loop of their own. The other one
//! goes on from there, and asks as before: it has the round that a tail of keys or a diagonal cuts.
//!
//! The assembler wants the warps of a group at one product: what the end of the first loop follows from is alike in all lanes of the role.

use super::inst::{Block, Control, For, If, Inst, Roles};
use super::op::BinOp;
use super::program::Program;
use super::sweep::sweep;
use super::unit::Unit;
use super::value::{Carried, LTy, LVal, Special};
use super::visit::{blocks, results};
use crate::hash::{Map, Set};
use cranelift_entity::{EntityRef, SecondaryMap};
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{CmpOp, Scalar};

const I32: LTy = LTy::Num(Scalar::I32);

/// Instructions of a body that is written twice, at most.
const MOST: usize = 6000;

/// A question that is answered with yes as long as the index is small.
#[derive(Clone, Copy)]
enum Term {
    /// The index and a number are below a value, or equal to it, that the loop doesn't change.
    Below { ahead: i64, end: LVal, or_equal: bool },
    /// The index and a number are no less than the index: the sum doesn't overflow.
    Sum(i64),
    /// Something that the loop doesn't change.
    Fixed(LVal),
}

/// How values come about, in the blocks around what is looked at and in front of it.
#[derive(Default)]
struct Makers<'p> {
    computed: Map<LVal, &'p Inst>,
    loops: Map<LVal, &'p For>,
}

impl Makers<'_> {
    fn literal(&self, v: LVal) -> Option<i64> {
        match self.computed.get(&v) {
            Some(Inst::Const { bits, .. }) => Some(*bits as i64),
            _ => None,
        }
    }

    /// True for what is alike in all lanes of a role: it follows from parameters, the place in the grid, and indices of loops between such bounds.
    fn uniform(&self, v: LVal, known: &mut Map<LVal, bool>) -> bool {
        if let Some(&known) = known.get(&v) {
            return known;
        }
        let found = match self.computed.get(&v) {
            Some(Inst::Const { .. } | Inst::Param { .. }) => true,
            Some(Inst::Special { what, .. }) => match what {
                Special::ProgramId(_) | Special::NumPrograms(_) | Special::Worker | Special::Workers | Special::ClusterRank => true,
                Special::Lane | Special::Warp | Special::Replica => false,
            },
            Some(
                made @ (Inst::Un { .. }
                | Inst::Bin { .. }
                | Inst::Fma { .. }
                | Inst::MadWide { .. }
                | Inst::MadWideU { .. }
                | Inst::Cmp { .. }
                | Inst::Select { .. }
                | Inst::Cvt { .. }),
            ) => {
                let mut of = Vec::new();
                made.operands(|v, _| of.push(v));
                of.into_iter().all(|v| self.uniform(v, known))
            }
            Some(_) => false,
            None => self.loops.get(&v).is_some_and(|l| [l.lo, l.hi, l.step].into_iter().all(|v| self.uniform(v, known))),
        };
        known.insert(v, found);
        found
    }
}

/// The rewriting.
struct Split<'p> {
    makers: Makers<'p>,
    vals: Vec<LTy>,
    /// Loops that are two now.
    split: usize,
}

impl<'p> Split<'p> {
    fn fresh(&mut self, ty: LTy) -> LVal {
        self.vals.push(ty);
        LVal::new(self.vals.len() - 1)
    }

    fn bin(&mut self, out: &mut Block, op: BinOp, a: LVal, b: LVal) -> LVal {
        let dst = self.fresh(I32);
        out.push(Inst::Bin { dst, op, a, b });
        dst
    }

    fn literal(&mut self, out: &mut Block, n: i64) -> LVal {
        let dst = self.fresh(I32);
        out.push(Inst::Const { dst, bits: n as u64 });
        dst
    }

    fn block(&mut self, block: &'p Block) -> Block {
        let mut out = Block::with_capacity(block.len() + 4);
        for inst in block {
            match inst.control() {
                Some(Control::For(l)) => self.counted(l, &mut out),
                Some(Control::If(c)) => {
                    let (then, otherwise) = (self.block(&c.then), self.block(&c.otherwise));
                    out.push(Inst::If(Box::new(If { then, otherwise, condition: c.condition, results: c.results.clone() })));
                }
                Some(Control::While(_)) => out.push(inst.clone()),
                Some(Control::Roles(r)) => {
                    let roles = r.roles.iter().map(|r| super::inst::Role { body: self.block(&r.body), name: r.name.clone(), ..*r });
                    let roles = roles.collect();
                    out.push(Inst::Roles(Box::new(Roles { roles })));
                }
                None => {
                    inst.results().iter().for_each(|&v| _ = self.makers.computed.insert(v, inst));
                    out.push(inst.clone());
                }
            }
        }
        out
    }

    fn counted(&mut self, l: &'p For, out: &mut Block) {
        self.makers.loops.insert(l.iv, l);
        let small = self.vals[l.iv.index()] == I32 && l.body.len() <= MOST;
        let whole = if small && multiplies(&l.body) { self.whole(l) } else { None };
        let Some((terms, choices)) = whole else {
            let body = self.block(&l.body);
            out.push(Inst::For(Box::new(For { body, carried: l.carried.clone(), ..*l })));
            return;
        };
        self.split += 1;
        let end = self.end(l, &terms, out);
        let mut names: Map<LVal, LVal> = Map::default();
        let (first, behind) = self.first(l, end, &choices, &mut names);
        let carried = l.carried.iter().zip(&first.carried).map(|(c, f)| Carried { init: f.result, ..*c }).collect();
        out.push(Inst::For(Box::new(first)));
        // Its own loops have none in which products are begun: they stay.
        out.push(Inst::For(Box::new(For { lo: behind, runs: false, carried, body: l.body.clone(), ..*l })));
    }

    /// What has to hold in a whole round, and the choices that are taken then; `None` if there are none.
    fn whole(&self, l: &'p For) -> Option<(Vec<Term>, Set<usize>)> {
        let step = self.makers.literal(l.step).filter(|s| (1..1 << 20).contains(s))?;
        let mut inside: Map<LVal, Option<&Inst>> = Map::default();
        inside.insert(l.iv, None);
        l.carried.iter().for_each(|c| _ = inside.insert(c.param, None));
        let mut known = Map::default();
        let (mut terms, mut choices) = (Vec::new(), Set::default());
        for (n, inst) in l.body.iter().enumerate() {
            let own = results(inst);
            own.into_iter().for_each(|v| _ = inside.insert(v, Some(inst)));
            let Inst::If(c) = inst else { continue };
            let mut asked = Vec::new();
            if self.terms(l.iv, c.condition, &inside, &mut asked, 16) && !c.results.is_empty() {
                let alike = asked.iter().all(|t| match *t {
                    Term::Below { end: v, .. } | Term::Fixed(v) => v == l.hi || self.makers.uniform(v, &mut known),
                    Term::Sum(_) => true,
                });
                // A round is passed whole, so that the next index is no larger than a sum that is known to be none too large.
                let far = asked.iter().filter_map(|t| match *t {
                    Term::Below { ahead, .. } if ahead >= step - 1 && ahead > 0 => Some(ahead),
                    _ => None,
                });
                let most = far.max();
                let sums = asked.iter().all(|t| !matches!(*t, Term::Sum(n) if most.is_none_or(|m| n > m)));
                if alike && most.is_some() && sums && free(&l.body, n) {
                    terms.extend(asked);
                    choices.insert(n);
                }
            }
        }
        (!choices.is_empty()).then_some((terms, choices))
    }

    /// The questions of which a condition is made, if it holds where each is answered with yes, and those are of the index and of what the loop doesn't change.
    fn terms(&self, iv: LVal, v: LVal, inside: &Map<LVal, Option<&Inst>>, out: &mut Vec<Term>, depth: u32) -> bool {
        let Some(made) = inside.get(&v) else {
            out.push(Term::Fixed(v));
            return true;
        };
        // The index, or so much more.
        let ahead = |v: LVal| match inside.get(&v) {
            _ if v == iv => Some(0),
            Some(&Some(&Inst::Bin { op: BinOp::Add, a, b, .. })) if a == iv => self.makers.literal(b),
            Some(&Some(&Inst::Bin { op: BinOp::Add, a, b, .. })) if b == iv => self.makers.literal(a),
            _ => None,
        };
        match *made {
            Some(&Inst::Bin { op: BinOp::And, a, b, .. }) if depth > 0 => {
                self.terms(iv, a, inside, out, depth - 1) && self.terms(iv, b, inside, out, depth - 1)
            }
            Some(&Inst::Cmp { op, a, b, .. }) => {
                let (op, a, b) = match op {
                    CmpOp::Gt => (CmpOp::Lt, b, a),
                    CmpOp::Ge => (CmpOp::Le, b, a),
                    op => (op, a, b),
                };
                let term = match (op, ahead(a), ahead(b)) {
                    (CmpOp::Le, Some(0), Some(n)) if n >= 0 => Term::Sum(n),
                    (CmpOp::Lt | CmpOp::Le, Some(ahead), None) if ahead >= 0 && !inside.contains_key(&b) => {
                        Term::Below { ahead, end: b, or_equal: op == CmpOp::Le }
                    }
                    _ => return false,
                };
                out.push(term);
                true
            }
            _ => false,
        }
    }

    /// The end of the whole rounds: no more than the loop's, and the last index at which all holds is below it.
    fn end(&mut self, l: &For, terms: &[Term], out: &mut Block) -> LVal {
        let mut end = l.hi;
        for t in terms {
            if let Term::Below { ahead, end: v, or_equal } = *t {
                // A number so small that nothing is below it together with what is ahead has no whole rounds.
                let least = self.literal(out, i64::from(i32::MIN) + ahead);
                let kept = self.bin(out, BinOp::Maximum, v, least);
                let by = self.literal(out, i64::from(or_equal) - ahead);
                let own = self.bin(out, BinOp::Add, kept, by);
                end = self.bin(out, BinOp::Minimum, end, own);
            }
        }
        for t in terms {
            if let Term::Fixed(c) = *t {
                let dst = self.fresh(I32);
                out.push(Inst::Select { dst, a: end, b: l.lo, c });
                end = dst;
            }
        }
        end
    }

    /// The whole rounds, and the index behind them.
    fn first(&mut self, l: &For, end: LVal, choices: &Set<usize>, names: &mut Map<LVal, LVal>) -> (For, LVal) {
        let mut body = Block::with_capacity(l.body.len() + 1);
        let iv = self.named(l.iv, names);
        l.carried.iter().for_each(|c| _ = self.named(c.param, names));
        for (n, inst) in l.body.iter().enumerate() {
            match inst {
                Inst::If(c) if choices.contains(&n) => {
                    c.then.iter().for_each(|i| self.copy(i, names, &mut body));
                    for &(result, yes, _) in &c.results {
                        let yes = names.get(&yes).copied().unwrap_or(yes);
                        names.insert(result, yes);
                    }
                }
                inst => self.copy(inst, names, &mut body),
            }
        }
        let next = self.bin(&mut body, BinOp::Add, iv, l.step);
        let name = |v: LVal, names: &Map<LVal, LVal>| names.get(&v).copied().unwrap_or(v);
        let mut carried: Vec<Carried> = Vec::with_capacity(l.carried.len() + 1);
        for c in &l.carried {
            let result = self.fresh(self.vals[c.result.index()]);
            carried.push(Carried { param: name(c.param, names), init: c.init, next: name(c.next, names), result });
        }
        let (param, result) = (self.fresh(I32), self.fresh(I32));
        carried.push(Carried { param, init: l.lo, next, result });
        (For { iv, lo: l.lo, hi: end, step: l.step, runs: false, carried, body }, result)
    }

    fn named(&mut self, v: LVal, names: &mut Map<LVal, LVal>) -> LVal {
        let new = self.fresh(self.vals[v.index()]);
        names.insert(v, new);
        new
    }

    /// A copy of an instruction under names of its own.
    fn copy(&mut self, inst: &Inst, names: &mut Map<LVal, LVal>, out: &mut Block) {
        self.define(inst, names);
        let mut made = inst.clone();
        made.rename(&mut |v| *v = names.get(v).copied().unwrap_or(*v));
        out.push(made);
    }

    /// Names for all that an instruction makes, in its blocks, too.
    fn define(&mut self, inst: &Inst, names: &mut Map<LVal, LVal>) {
        results(inst).into_iter().for_each(|v| _ = self.named(v, names));
        match inst.control() {
            Some(Control::For(l)) => {
                self.named(l.iv, names);
                l.carried.iter().for_each(|c| _ = self.named(c.param, names));
            }
            Some(Control::While(l)) => l.carried.iter().for_each(|c| _ = self.named(c.param, names)),
            Some(Control::If(_) | Control::Roles(_)) | None => {}
        }
        for block in blocks(inst) {
            block.iter().for_each(|i| self.define(i, names));
        }
    }
}

/// True for a choice with no less behind it than in front of it, between one wait for products and the next. What is computed in front of a branch stays in
/// front of the wait behind it; without the branch the assembler has it wait, too (exponentials of a backward pass: 1.8% slower).
fn free(body: &Block, choice: usize) -> bool {
    let awaits = |i: &&Inst| matches!(i, Inst::Unit(u) if matches!(**u, Unit::WaitMatrices { .. } | Unit::Multiply(_)));
    let front = body[..choice].iter().rev().take_while(|i| !awaits(i)).count();
    body[choice + 1..].iter().take_while(|i| !awaits(i)).count() >= front
}

/// True for a body that begins products itself, and has awaited all of them at its end.
fn multiplies(body: &Block) -> bool {
    let mut found = (false, false);
    for inst in body {
        if let Inst::Unit(u) = inst {
            match **u {
                Unit::Multiply(_) => found = (true, true),
                Unit::WaitMatrices { pending: 0, .. } => found.1 = false,
                _ => {}
            }
        }
    }
    found == (true, false)
}

/// The program with whole rounds in loops of their own; `None` if it has no loop that is two then. It does the same.
pub fn whole_rounds(program: &Program) -> Option<Program> {
    program.roles()?;
    let vals = program.vals.values().copied().collect();
    let mut split = Split { makers: Makers::default(), vals, split: 0 };
    let mut body = split.block(&program.body);
    if split.split == 0 {
        return None;
    }
    taken(Decision::WholeRounds, || Told::of(format!("{} loops have their whole rounds in front of the others", split.split)));
    let mut live = SecondaryMap::with_capacity(split.vals.len());
    sweep(&mut body, &mut live);
    let vals = split.vals.iter().copied().collect();
    let (name, params, allocs) = (program.name.clone(), program.params.clone(), program.allocs.clone());
    Some(Program { name, params, allocs, vals, body, ..*program })
}
