//! Loops, choices, and the copies between values that could not share a register.
//!
//! ```text
//! for:    copies of the initial values        while:  copies of the initial values
//!         skip if lo >= hi                    $L1:    the test
//! $L1:    body                                        leave unless it holds
//!         copies of the next values                   body, copies of the next values
//!         back if another step is left                back
//! $L2:                                        $L2:
//! ```
//!
//! Control is uniform over the program instance, so all branches are `bra.uni`.

use super::state::Emitter;
use super::text::{Opnd, Reg};
use crate::analysis::Def;
use crate::class::Class;
use crate::error::EmitError;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::num;
use tilelift_isel::lane::visit::{blocks, results};
use tilelift_isel::lane::{Block, Carried, Effect, For, If, Inst, LTy, LVal, OperandA, Space, Unit, While};

/// How a loop knows that another step is left.
enum Latch {
    /// `iv + step < hi`, which can't wrap.
    Compare,
    /// `hi - iv > step`, unsigned, before the step: right for every bound.
    Distance,
}

/// How a loop goes round.
struct LoopRound<'a> {
    /// The index and how another step is known.
    index: (Reg, Latch),
    /// The end and the step.
    bounds: [Opnd; 2],
    /// What of the carried values is copied.
    copied: &'a dyn Fn(&Carried) -> bool,
    /// Products are waited for in front of that.
    lands: bool,
}

impl Emitter<'_> {
    pub(super) fn label(&mut self) -> u32 {
        self.labels += 1;
        self.labels
    }

    pub(super) fn place(&mut self, label: u32) {
        self.body.s("$L").n(label).s(":\n");
    }

    pub(super) fn branch(&mut self, label: u32) {
        self.body.op("bra.uni $L").n(label).end();
    }

    pub(super) fn branch_if(&mut self, p: Reg, holds: bool, label: u32) {
        self.body.s(if holds { "\t@" } else { "\t@!" }).r(p).s(" bra.uni $L").n(label).end();
    }

    pub(super) fn for_loop(&mut self, l: &For) -> Result<(), EmitError> {
        let ty = self.program.vals[l.iv];
        let iv = self.home(l.iv);
        let mut copies = self.initial(&l.carried);
        copies.push((iv, self.operand(l.lo)));
        self.copies(copies);
        let constant = |v| self.defs.constant(v).map(|c| c as i64);
        let (lo, hi, step) = (constant(l.lo), constant(l.hi), constant(l.step));
        let runs = lo.zip(hi).map(|(lo, hi)| lo < hi);
        if runs == Some(false) {
            return Ok(());
        }
        let hi_operand = self.operand(l.hi);
        let step_operand = self.operand(l.step);
        // Bytes are kept sign-extended in 16 bits, in which their arithmetic does not wrap.
        let bits = ty.bits().max(16);
        let (head, exit) = (self.label(), self.label());
        if runs.is_none() && !l.runs {
            let p = self.fresh(Class::P);
            self.body.op("setp.ge.s").n(bits).s(" ").r(p).then(iv).s(", ").o(hi_operand).end();
            self.branch_if(p, true, exit);
        }
        self.place(head);
        if keeps_rolled(&l.body) {
            self.body.s("\t.pragma \"nounroll\";\n");
        }
        let webs = self.webs;
        let flying = webs.rounds.get(&l.iv);
        let carried = flying.filter(|f| !f.made).map(|f| &f.carried);
        let swapped = carried.map_or_else(Vec::new, |carried| self.alternating(l, carried));
        if let Some(flying) = carried.filter(|f| f.len() == swapped.len()) {
            // Each iteration computes into the registers that the one before does not multiply from.
            let between = self.label();
            let others = |c: &Carried| !flying.contains(&c.param);
            let round = LoopRound { index: (iv, latch(ty, hi, step)), bounds: [hi_operand, step_operand], copied: &others, lands: false };
            let again = self.step(l, &round)?;
            self.branch_if(again, false, between);
            swapped.iter().for_each(|&(a, b)| self.swap(a, b));
            let again = self.step(l, &round)?;
            swapped.iter().for_each(|&(a, b)| self.swap(a, b));
            self.branch_if(again, true, head);
            self.branch(exit);
            // Behind the loop its results are where they are after an even number of iterations.
            self.place(between);
            self.land();
            let left = self.moves(l.carried.iter().filter(|c| !others(c)).map(|c| (c.param, c.next)));
            self.copies(left);
            self.place(exit);
            return Ok(());
        }
        // What is copied on the way round, or made once more, must have landed.
        let lands = flying.is_some();
        let round = LoopRound { index: (iv, latch(ty, hi, step)), bounds: [hi_operand, step_operand], copied: &|_| true, lands };
        if rotates(l) {
            let again = self.step(l, &round)?;
            self.branch_if(again, false, exit);
        }
        let again = self.step(l, &round)?;
        self.branch_if(again, true, head);
        self.place(exit);
        Ok(())
    }

    /// True if registers are copied that products of a block fill: they may still be in flight.
    fn copies_products(&self, block: &Block, copies: &[(Reg, Opnd)]) -> bool {
        let mut copied: Vec<Reg> = copies.iter().filter_map(|c| if let Opnd::Reg(r) = c.1 { Some(r) } else { None }).collect();
        if copied.is_empty() {
            return false;
        }
        copied.sort_unstable();
        let products = block.iter().filter_map(|i| if let Inst::Unit(u) = i { Some(&**u) } else { None });
        let mut filled = products.flat_map(|u| if let Unit::Multiply(m) = u { &m.dsts[..] } else { &[] });
        filled.any(|&v| self.known_home(v).is_some_and(|r| copied.binary_search(&r).is_ok()))
    }

    /// Waits for all products.
    fn land(&mut self) {
        self.body.op("wgmma.wait_group.sync.aligned 0").end();
    }

    /// Pairs of values whose registers a loop may exchange after each iteration, for what is carried and still read then: nothing else that it carries
    /// is in them.
    fn alternating(&self, l: &For, flying: &BTreeSet<LVal>) -> Vec<(LVal, LVal)> {
        let home = |v: LVal| self.webs.representative(self.defs.root(v));
        let mut times: BTreeMap<LVal, u32> = BTreeMap::new();
        l.carried.iter().flat_map(|c| [c.param, c.next]).for_each(|v| *times.entry(home(v)).or_default() += 1);
        let alone = |v: LVal| times.get(&home(v)) == Some(&1) && self.defs.def(self.defs.root(v)) == Def::Register;
        let pairs = l.carried.iter().filter(|c| flying.contains(&c.param) && alone(c.param) && alone(c.next));
        pairs.map(|c| (home(c.param), home(c.next))).collect()
    }

    /// Exchanges the registers of two webs, for what is printed from here on.
    fn swap(&mut self, a: LVal, b: LVal) {
        [a, b].into_iter().for_each(|v| _ = self.home(v));
        let (x, y) = (self.registers[a], self.registers[b]);
        (self.registers[a], self.registers[b]) = (y, x);
    }

    /// A step of a loop; gives whether another one is left.
    fn step(&mut self, l: &For, round: &LoopRound<'_>) -> Result<Reg, EmitError> {
        let LoopRound { index: (iv, ref latch), bounds: [hi, step], copied, lands } = *round;
        let bits = self.program.vals[l.iv].bits().max(16);
        self.block_with(&l.body, self.renewals.of(l.iv))?;
        let next = self.moves(l.carried.iter().filter(|c| copied(c)).map(|c| (c.param, c.next)));
        if lands || self.copies_products(&l.body, &next) {
            self.land();
        }
        self.copies(next);
        let again = self.fresh(Class::P);
        match latch {
            Latch::Compare => {
                self.body.op("add.s").n(bits).s(" ").r(iv).then(iv).s(", ").o(step).end();
                self.body.op("setp.lt.s").n(bits).s(" ").r(again).then(iv).s(", ").o(hi).end();
            }
            Latch::Distance => {
                let left = self.fresh(iv.0);
                self.body.op("sub.s").n(bits).s(" ").r(left).s(", ").o(hi).then(iv).end();
                self.body.op("setp.gt.u").n(bits).s(" ").r(again).then(left).s(", ").o(step).end();
                self.body.op("add.s").n(bits).s(" ").r(iv).then(iv).s(", ").o(step).end();
            }
        }
        Ok(again)
    }

    pub(super) fn while_loop(&mut self, l: &While) -> Result<(), EmitError> {
        let initial = self.initial(&l.carried);
        self.copies(initial);
        let (head, exit) = (self.label(), self.label());
        self.place(head);
        // The body sees what the test computed, so the test's block stays open.
        self.blocks += 1;
        self.open.push(self.blocks);
        let renewal = self.renewals.of(l.condition);
        for (at, inst) in l.test.iter().enumerate() {
            if let Some(r) = renewal.filter(|r| r.before == at) {
                self.renew(r);
            }
            self.inst(inst)?;
        }
        let p = self.reg(l.condition);
        self.branch_if(p, false, exit);
        self.block(&l.body)?;
        self.open.pop();
        let next = self.next(&l.carried);
        self.copies(next);
        self.branch(head);
        self.place(exit);
        Ok(())
    }

    pub(super) fn choice(&mut self, i: &If) -> Result<(), EmitError> {
        if let Some(c) = self.defs.constant(i.condition) {
            self.block(if c != 0 { &i.then } else { &i.otherwise })?;
            let taken = self.picked(i, c != 0);
            self.copies(taken);
            return Ok(());
        }
        let p = self.reg(i.condition);
        // Copies are known before the blocks are printed, because registers are decided by the webs.
        let (a, b) = (self.picked(i, true), self.picked(i, false));
        let (empty_then, empty_else) = (i.then.is_empty() && a.is_empty(), i.otherwise.is_empty() && b.is_empty());
        let end = self.label();
        match (empty_then, empty_else) {
            (true, true) => return Ok(()),
            (false, true) => {
                self.branch_if(p, false, end);
                self.block(&i.then)?;
                self.copies(a);
            }
            (true, false) => {
                self.branch_if(p, true, end);
                self.block(&i.otherwise)?;
                self.copies(b);
            }
            (false, false) => {
                let other = self.label();
                self.branch_if(p, false, other);
                self.block(&i.then)?;
                self.copies(a);
                self.branch(end);
                self.place(other);
                self.block(&i.otherwise)?;
                self.copies(b);
            }
        }
        self.place(end);
        Ok(())
    }

    /// What a loop begins with. Sums that begin at nothing (their first product overwrites them) begin at zero where the assembler asks for it.
    fn initial(&mut self, carried: &[Carried]) -> Vec<(Reg, Opnd)> {
        let (open, given): (Vec<&Carried>, Vec<&Carried>) =
            carried.iter().partition(|c| self.begins_sums && self.undefined.contains(&c.init));
        let mut copies = self.moves(given.iter().map(|c| (c.param, c.init)));
        for c in open {
            let to = self.home(c.param);
            copies.push((to, Opnd::Imm(to.0, 0)));
        }
        copies
    }

    fn next(&mut self, carried: &[Carried]) -> Vec<(Reg, Opnd)> {
        self.moves(carried.iter().map(|c| (c.param, c.next)))
    }

    fn picked(&mut self, i: &If, then: bool) -> Vec<(Reg, Opnd)> {
        self.moves(i.results.iter().map(|&(r, a, b)| (r, if then { a } else { b })))
    }

    fn moves(&mut self, pairs: impl Iterator<Item = (LVal, LVal)>) -> Vec<(Reg, Opnd)> {
        let mut out = Vec::new();
        for (to, from) in pairs {
            let (to, from) = (self.home(to), self.operand(from));
            if from != Opnd::Reg(to) {
                out.push((to, from));
            }
        }
        out
    }

    /// Copies as if all at once: a register is written when no copy left reads it; a ring goes through a scratch register.
    fn copies(&mut self, mut left: Vec<(Reg, Opnd)>) {
        left.retain(|&(to, from)| from != Opnd::Reg(to));
        while !left.is_empty() {
            let mut read: Vec<Reg> = left.iter().filter_map(|&(_, from)| if let Opnd::Reg(r) = from { Some(r) } else { None }).collect();
            read.sort_unstable();
            let before = left.len();
            let mut waiting = Vec::new();
            for (to, from) in left {
                if read.binary_search(&to).is_ok() {
                    waiting.push((to, from));
                } else {
                    self.copy(to, from);
                }
            }
            if waiting.len() == before {
                let (to, from) = waiting[0];
                let scratch = self.fresh(to.0);
                self.copy(scratch, from);
                waiting[0].1 = Opnd::Reg(scratch);
            }
            left = waiting;
        }
    }

    fn copy(&mut self, to: Reg, from: Opnd) {
        match from {
            Opnd::Imm(Class::P, _) => self.body.op("setp.ne.b32 ").r(to).s(", ").o(from).s(", 0").end(),
            Opnd::Imm(..) | Opnd::Reg(_) => self.body.op(to.0.mov()).r(to).s(", ").o(from).end(),
        }
    }
}

fn latch(ty: LTy, hi: Option<i64>, step: Option<i64>) -> Latch {
    let max = match ty {
        LTy::Num(s) => num::wrap(i64::MAX.checked_shr(64 - s.bits()).unwrap_or(i64::MAX), s),
        LTy::B32 => i64::from(i32::MAX),
    };
    match (hi, step) {
        // The index is below the end, so one more can't pass it.
        (_, Some(1)) => Latch::Compare,
        (Some(hi), Some(step)) if hi <= max - step => Latch::Compare,
        (Some(_) | None, Some(_) | None) => Latch::Distance,
    }
}

/// True for an innermost loop that carries what asynchronous products read from registers, and what it loads a step ahead: printed twice, it goes round
/// without a copy of what is being loaded, which would wait for it.
fn rotates(l: &For) -> bool {
    let carried = |v: &LVal| l.carried.iter().any(|c| c.param == *v && c.next != *v);
    let read = l.body.iter().any(|i| match i {
        Inst::Unit(u) => matches!(&**u, Unit::Multiply(m) if matches!(&m.a, OperandA::Regs(a) if a.iter().any(carried))),
        _ => false,
    });
    read && loads_ahead(l, &l.body) && !goes_round(&l.body)
}

/// True for a block with a loop in it.
fn goes_round(block: &Block) -> bool {
    block.iter().any(|i| matches!(i, Inst::For(_) | Inst::While(_)) || blocks(i).any(goes_round))
}

/// True for a block that loads what a loop carries, by itself or in an arm of a choice.
fn loads_ahead(l: &For, block: &Block) -> bool {
    let taken = |v: LVal| l.carried.iter().any(|c| c.next == v);
    block.iter().any(|i| match i {
        Inst::If(c) => c.results.iter().any(|r| taken(r.0)) && [&c.then, &c.otherwise].iter().any(|b| b.iter().any(reads_memory)),
        _ => reads_memory(i) && results(i).iter().any(|&v| taken(v)),
    })
}

/// True for a load of global memory.
fn reads_memory(i: &Inst) -> bool {
    matches!(i.effect(), Effect::Read(Space::Global))
}

/// True for loops that the assembler should not unroll: main loops with matrix instructions, copies or barriers, which the lowering
/// has already shaped; unrolling them costs compile time and registers.
fn keeps_rolled(block: &Block) -> bool {
    block.iter().any(|inst| match inst.effect() {
        _ if matches!(inst, Inst::Unit(_) | Inst::Roles(_)) => true,
        Effect::Matrix | Effect::Copy | Effect::Meet | Effect::Update(_) | Effect::Start | Effect::Remote => true,
        Effect::Control => blocks(inst).any(keeps_rolled),
        Effect::Compute | Effect::Stay | Effect::Read(_) | Effect::Write(_) | Effect::Exchange => false,
        Effect::Order | Effect::Check | Effect::Hint => false,
    })
}
