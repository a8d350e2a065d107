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

use super::inst::{Block, Control, For, Inst};
use super::op::BinOp;
use super::program::Program;
use super::unit::Unit;
use super::value::{Carried, LTy, LVal, Special};
use super::visit::{blocks, blocks_mut, reads, results};
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

/// What is known of values in front of what is looked at, and around it.
#[derive(Default)]
struct KnownValues {
    literals: SecondaryMap<LVal, Option<i64>>,
    /// Alike in all lanes of a role: it follows from parameters, the place in the grid, and indices of loops between such bounds.
    uniform: SecondaryMap<LVal, bool>,
}

impl KnownValues {
    fn look(&mut self, inst: &Inst) {
        let dst = match *inst {
            Inst::Const { dst, bits } => {
                self.literals[dst] = Some(bits as i64);
                dst
            }
            Inst::Param { dst, .. } => dst,
            Inst::Special { dst, what } => match what {
                Special::ProgramId(_) | Special::NumPrograms(_) | Special::Worker | Special::Workers | Special::ClusterRank => dst,
                Special::Lane | Special::Warp | Special::Replica => return,
            },
            Inst::Un { dst, .. }
            | Inst::Bin { dst, .. }
            | Inst::Fma { dst, .. }
            | Inst::MadWide { dst, .. }
            | Inst::MadWideU { dst, .. }
            | Inst::Cmp { dst, .. }
            | Inst::Select { dst, .. }
            | Inst::Cvt { dst, .. } => {
                let mut all = true;
                inst.operands(|v, _| all &= self.uniform[v]);
                if !all {
                    return;
                }
                dst
            }
            _ => return,
        };
        self.uniform[dst] = true;
    }
}

/// Where a loop makes its values.
struct LoopPlaces<'l> {
    l: &'l For,
    /// Of what an instruction of its body makes, the number of the instruction, from 1 on; of what the loop makes itself, [`LOOP`]; 0 of all else.
    made: SecondaryMap<LVal, u32>,
}

/// The place of what is made by no instruction of a loop's body, but by the loop.
const LOOP: u32 = u32::MAX;

impl<'l> LoopPlaces<'l> {
    /// Those of a loop of a program of so many values.
    fn of(l: &'l For, values: usize) -> LoopPlaces<'l> {
        let mut made = SecondaryMap::new();
        made.resize(values);
        made[l.iv] = LOOP;
        l.carried.iter().for_each(|c| made[c.param] = LOOP);
        for (n, inst) in l.body.iter().enumerate() {
            let mut here = |v: LVal| made[v] = n as u32 + 1;
            match inst.control() {
                None => inst.results().iter().for_each(|&v| here(v)),
                Some(_) => results(inst).into_iter().for_each(here),
            }
        }
        LoopPlaces { l, made }
    }

    /// The instruction of the body that makes a value; none that has blocks.
    fn maker(&self, v: LVal) -> Option<&'l Inst> {
        let place = self.made[v].checked_sub(1)? as usize;
        self.l.body.get(place).filter(|i| i.control().is_none())
    }
}

/// The rewriting.
struct Split<'p> {
    known: KnownValues,
    /// Types of what there was, and of what is new.
    old: &'p [LTy],
    new: Vec<LTy>,
    /// What values of a loop are called in its copy.
    names: SecondaryMap<LVal, Option<LVal>>,
    /// Loops that are two now.
    split: usize,
}

impl Split<'_> {
    fn ty(&self, v: LVal) -> LTy {
        self.old.get(v.index()).copied().unwrap_or_else(|| self.new[v.index() - self.old.len()])
    }

    fn fresh(&mut self, ty: LTy) -> LVal {
        self.new.push(ty);
        LVal::new(self.old.len() + self.new.len() - 1)
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

    fn block(&mut self, block: &mut Block) {
        let mut at = 0;
        while at < block.len() {
            match &mut block[at] {
                Inst::For(l) => {
                    self.known.uniform[l.iv] = [l.lo, l.hi, l.step].iter().all(|&v| self.known.uniform[v]);
                    let small = self.ty(l.iv) == I32 && l.body.len() <= MOST;
                    let whole = if small && multiplies(&l.body) { self.whole(l) } else { None };
                    match whole {
                        None => self.block(&mut l.body),
                        Some((terms, choices)) => {
                            let front = self.rounds(l, &terms, &choices);
                            at += front.len();
                            block.reserve_exact(front.len());
                            block.splice(at - front.len()..at - front.len(), front);
                        }
                    }
                }
                inst if inst.control().is_some() => blocks_mut(inst).into_iter().for_each(|b| self.block(b)),
                inst => self.known.look(inst),
            }
            at += 1;
        }
    }

    /// The whole rounds, and what their end follows from. The loop goes on behind them. Products are begun in none of the loops inside: they stay.
    fn rounds(&mut self, l: &mut For, terms: &[Term], choices: &[usize]) -> Block {
        self.split += 1;
        let mut front = Block::new();
        let end = self.end(l, terms, &mut front);
        let (first, behind) = self.first(l, end, choices);
        for (c, f) in l.carried.iter_mut().zip(&first.carried) {
            c.init = f.result;
        }
        (l.lo, l.runs) = (behind, false);
        front.push(Inst::For(Box::new(first)));
        front
    }

    /// What has to hold in a whole round, and the choices that are taken then; `None` if there are none.
    fn whole(&self, l: &For) -> Option<(Vec<Term>, Vec<usize>)> {
        let step = self.known.literals[l.step].filter(|s| (1..1 << 20).contains(s))?;
        let (mut terms, mut choices) = (Vec::new(), Vec::new());
        let mut places = None;
        for (n, inst) in l.body.iter().enumerate() {
            let Inst::If(c) = inst else { continue };
            if c.results.is_empty() || !free(&l.body, n) {
                continue;
            }
            let mut asked = Vec::new();
            let places = &*places.get_or_insert_with(|| LoopPlaces::of(l, self.old.len()));
            if !self.terms(places, c.condition, &mut asked, 16) {
                continue;
            }
            let alike = asked.iter().all(|t| match *t {
                Term::Below { end: v, .. } | Term::Fixed(v) => v == l.hi || self.known.uniform[v],
                Term::Sum(_) => true,
            });
            // A round is passed whole, so that the next index is no larger than a sum that is known to be none too large.
            let far = asked.iter().filter_map(|t| match *t {
                Term::Below { ahead, .. } if ahead >= step - 1 && ahead > 0 => Some(ahead),
                _ => None,
            });
            let most = far.max();
            let sums = asked.iter().all(|t| !matches!(*t, Term::Sum(n) if most.is_none_or(|m| n > m)));
            if alike && most.is_some() && sums {
                terms.extend(asked);
                choices.push(n);
            }
        }
        (!choices.is_empty()).then_some((terms, choices))
    }

    /// The questions of which a condition is made, if it holds where each is answered with yes, and those are of the index and of what the loop doesn't change.
    fn terms(&self, places: &LoopPlaces<'_>, v: LVal, out: &mut Vec<Term>, depth: u32) -> bool {
        let LoopPlaces { l, .. } = *places;
        let maker = |v: LVal| places.maker(v);
        let inside = |v: LVal| places.made[v] != 0;
        // The index, or so much more.
        let ahead = |v: LVal| match maker(v) {
            _ if v == l.iv => Some(0),
            Some(&Inst::Bin { op: BinOp::Add, a, b, .. }) if a == l.iv => self.known.literals[b],
            Some(&Inst::Bin { op: BinOp::Add, a, b, .. }) if b == l.iv => self.known.literals[a],
            _ => None,
        };
        let term = match maker(v) {
            Some(&Inst::Bin { op: BinOp::And, a, b, .. }) if depth > 0 => {
                return self.terms(places, a, out, depth - 1) && self.terms(places, b, out, depth - 1);
            }
            Some(&Inst::Cmp { op, a, b, .. }) => {
                let (op, a, b) = match op {
                    CmpOp::Gt => (CmpOp::Lt, b, a),
                    CmpOp::Ge => (CmpOp::Le, b, a),
                    op => (op, a, b),
                };
                match (op, ahead(a), ahead(b)) {
                    (CmpOp::Le, Some(0), Some(n)) if n >= 0 => Term::Sum(n),
                    (CmpOp::Lt | CmpOp::Le, Some(ahead), None) if ahead >= 0 && !inside(b) => {
                        Term::Below { ahead, end: b, or_equal: op == CmpOp::Le }
                    }
                    _ => return false,
                }
            }
            None if !inside(v) => Term::Fixed(v),
            _ => return false,
        };
        out.push(term);
        true
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
    fn first(&mut self, l: &For, end: LVal, choices: &[usize]) -> (For, LVal) {
        let wanted = wanted(l, choices);
        let mut body = Block::with_capacity(l.body.len() + 1);
        let iv = self.named(l.iv);
        l.carried.iter().for_each(|c| _ = self.named(c.param));
        for (n, inst) in l.body.iter().enumerate().filter(|x| wanted[x.0]) {
            match inst {
                Inst::If(c) if choices.contains(&n) => {
                    c.then.iter().for_each(|i| self.copy(i, &mut body));
                    for &(result, yes, _) in &c.results {
                        self.names[result] = Some(self.name(yes));
                    }
                }
                inst => self.copy(inst, &mut body),
            }
        }
        let next = self.bin(&mut body, BinOp::Add, iv, l.step);
        let mut carried: Vec<Carried> = Vec::with_capacity(l.carried.len() + 1);
        for c in &l.carried {
            let result = self.fresh(self.ty(c.result));
            carried.push(Carried { param: self.name(c.param), init: c.init, next: self.name(c.next), result });
        }
        let (param, result) = (self.fresh(I32), self.fresh(I32));
        carried.push(Carried { param, init: l.lo, next, result });
        (For { iv, lo: l.lo, hi: end, step: l.step, runs: false, carried, body }, result)
    }

    fn name(&self, v: LVal) -> LVal {
        self.names[v].unwrap_or(v)
    }

    fn named(&mut self, v: LVal) -> LVal {
        let new = self.fresh(self.ty(v));
        self.names[v] = Some(new);
        new
    }

    /// A copy of an instruction under names of its own.
    fn copy(&mut self, inst: &Inst, out: &mut Block) {
        self.define(inst);
        let mut made = inst.clone();
        made.rename(&mut |v| *v = self.name(*v));
        out.push(made);
    }

    /// Names for all that an instruction makes, in its blocks, too.
    fn define(&mut self, inst: &Inst) {
        match inst.control() {
            None => return inst.results().iter().for_each(|&v| _ = self.named(v)),
            Some(Control::For(l)) => {
                self.named(l.iv);
                l.carried.iter().for_each(|c| _ = self.named(c.param));
            }
            Some(Control::While(l)) => l.carried.iter().for_each(|c| _ = self.named(c.param)),
            Some(Control::If(_) | Control::Roles(_)) => {}
        }
        results(inst).into_iter().for_each(|v| _ = self.named(v));
        for block in blocks(inst) {
            block.iter().for_each(|i| self.define(i));
        }
    }
}

/// The instructions of a body that are still wanted where these choices are taken: not those of which only the questions are made.
fn wanted(l: &For, choices: &[usize]) -> Vec<bool> {
    let mut read: SecondaryMap<LVal, bool> = SecondaryMap::new();
    l.carried.iter().for_each(|c| read[c.next] = true);
    let mut wanted = vec![true; l.body.len()];
    for (n, inst) in l.body.iter().enumerate().rev() {
        match inst {
            Inst::If(c) if choices.contains(&n) => {
                c.results.iter().for_each(|&(_, yes, _)| read[yes] = true);
                c.then.iter().for_each(|i| reads(i, &mut |v| read[v] = true));
            }
            inst => {
                wanted[n] = !inst.effect().removable() || inst.results().iter().any(|&v| read[v]);
                if wanted[n] {
                    reads(inst, &mut |v| read[v] = true);
                }
            }
        }
    }
    wanted
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
    let (mut begun, mut open) = (false, false);
    for inst in body {
        let Inst::Unit(u) = inst else { continue };
        let begins = matches!(**u, Unit::Multiply(_));
        begun |= begins;
        open = begins || open && !matches!(**u, Unit::WaitMatrices { pending: 0 });
    }
    begun && !open
}

/// True if a loop of a block may be two.
fn any(block: &Block) -> bool {
    block.iter().any(|inst| match inst {
        Inst::For(l) if multiplies(&l.body) => l.body.iter().any(|i| matches!(i, Inst::If(c) if !c.results.is_empty())),
        inst => blocks(inst).any(any),
    })
}

/// The program with whole rounds in loops of their own; `None` if it has no loop that is two then. It does the same.
///
/// `made` is the program as another rewriting has made it, if one has.
pub fn whole_rounds(program: &Program, made: Option<Program>) -> Option<Program> {
    if !any(&made.as_ref().unwrap_or(program).body) {
        return made;
    }
    let was = made.is_some();
    let mut out = made.unwrap_or_else(|| program.clone());
    let old: Vec<LTy> = out.vals.values().copied().collect();
    let mut known = KnownValues::default();
    known.uniform.resize(old.len());
    known.literals.resize(old.len());
    let mut split = Split { known, old: &old, new: Vec::new(), names: SecondaryMap::new(), split: 0 };
    split.names.resize(old.len());
    split.block(&mut out.body);
    let (new, loops) = (split.new, split.split);
    if loops == 0 {
        return was.then_some(out);
    }
    taken(Decision::WholeRounds, || Told::of(format!("{loops} loops have their whole rounds in front of the others")));
    new.into_iter().for_each(|ty| _ = out.vals.push(ty));
    Some(out)
}
