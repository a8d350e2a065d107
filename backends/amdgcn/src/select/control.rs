//! Loops and choices. Control flow is the same in all lanes: conditions become `scc`, and what is carried is copied side by side where registers
//! differ.
//!
//! ```text
//! for     index = lo, carried = init;  lo >= hi? ─► exit          while   carried = init
//!  body:  ...                                                      test:  ...  condition? no ─► exit
//!         carried = next                                           body:  ...  carried = next ─► test
//!         left = hi - index; index += step; left > step? ─► body
//!  exit:  results are what is carried
//! ```
//!
//! What is left of a counted loop is compared with the increment before that is added, so that nothing overflows; where the index is not negative, its next value does not, as
//! a number without sign, and is compared with the end.

use super::selector::{Done, Home, Selector, part};
use crate::isa::Opcode;
use crate::mir::{Operand, Span};
use tilelift_lane::{BinOp, Carried, For, If, Inst, LTy, LVal, While};

/// A copy: where to, what, of which type.
pub(super) type Copy = (Span, Home, LTy);

fn meet(a: Span, b: Span) -> bool {
    a.reg == b.reg && a.first < b.first + b.words && b.first < a.first + a.words
}

impl Selector<'_> {
    /// Copies side by side: all are read before any is written.
    pub(super) fn hand(&mut self, mut pending: Vec<Copy>) {
        pending.retain(|(to, from, _)| *from != Home::Reg(*to));
        while !pending.is_empty() {
            let free = pending.iter().position(|(to, ..)| {
                pending.iter().all(|(other, from, _)| other == to || !matches!(from, Home::Reg(span) if meet(*span, *to)))
            });
            match free {
                Some(i) => {
                    let (to, from, ty) = pending.remove(i);
                    self.copy(to, from, ty);
                }
                None => {
                    // A circle: what one of them reads moves away.
                    let Some((_, Home::Reg(span), ty)) = pending.first().copied() else { return };
                    let away = self.fresh(self.file(span), span.words);
                    self.copy(away, Home::Reg(span), ty);
                    pending[0].1 = Home::Reg(away);
                }
            }
        }
    }

    fn copies(&mut self, pairs: impl Iterator<Item = (LVal, LVal)>) -> Vec<Copy> {
        pairs
            .filter_map(|(to, from)| match self.home(to) {
                Home::Reg(span) => Some((span, self.home(from), self.ty(to))),
                Home::Const(_) | Home::Nowhere => None,
            })
            .collect()
    }

    fn enter(&mut self, carried: &[Carried]) {
        let from: Vec<Home> = carried.iter().map(|c| self.settled(c.init)).collect();
        let pending = carried.iter().zip(from).map(|(c, from)| (self.def(c.param), from, self.ty(c.param))).collect();
        self.hand(pending);
    }

    fn again(&mut self, carried: &[Carried]) {
        let pending = self.copies(carried.iter().map(|c| (c.param, c.next)));
        self.hand(pending);
    }

    fn leave(&mut self, carried: &[Carried]) {
        let from: Vec<Home> = carried.iter().map(|c| self.home(c.param)).collect();
        let pending = carried
            .iter()
            .zip(from)
            .map(|(c, from)| {
                let to = match (self.placed(c.result), from) {
                    (None, Home::Reg(span)) if !self.live.read(c.result) => {
                        self.homes[c.result] = Some(from);
                        span
                    }
                    _ => self.def(c.result),
                };
                (to, from, self.ty(c.result))
            })
            .collect();
        self.hand(pending);
    }

    /// A counted loop.
    pub(super) fn for_loop(&mut self, l: &For) -> Done {
        let words = self.words(l.iv);
        let lo = self.scalar(l.lo);
        // The end and the increment must be the same after every iteration.
        let [hi, step] = [l.hi, l.step].map(|v| self.scalar(v));
        let exit = self.label();
        let known = match (self.constant(l.lo), self.constant(l.hi)) {
            (Some(lo), Some(hi)) => (lo as i64) < hi as i64,
            _ => l.runs,
        };
        self.enter(&l.carried);
        let iv = self.def(l.iv);
        if words == 2 {
            let lo = self.in_scalar_regs(lo, 2);
            self.emit(Opcode::SMovB64, [iv.into(), lo.into()]);
        } else {
            self.salu(Opcode::SMovB32, Some(iv), &[lo]);
        }
        if !known {
            if words == 2 {
                // Scalar registers compare 64 bits for equality alone.
                let low = self.mask_of(Opcode::VCmpLtI64, &[lo, hi]);
                self.salu(Opcode::SCmpLgU64, None, &[low.into(), 0.into()]);
                self.branch(Opcode::SCbranchScc0, exit);
            } else {
                self.salu(Opcode::SCmpGeI32, None, &[lo, hi]);
                self.branch(Opcode::SCbranchScc1, exit);
            }
        }
        let body = self.label();
        self.depth += 1;
        self.start(body);
        self.block(&l.body)?;
        self.again(&l.carried);
        if self.counts_up(l) {
            let next = self.stepped(l);
            self.salu(
                if next.is_some() { Opcode::SMovB32 } else { Opcode::SAddU32 },
                Some(iv),
                &match next {
                    Some(next) => vec![next.into()],
                    None => vec![iv.into(), step],
                },
            );
            self.salu(Opcode::SCmpLtU32, None, &[iv.into(), hi]);
            self.branch_back(Opcode::SCbranchScc1, body, exit);
            self.leave(&l.carried);
            return Ok(());
        }
        let left = self.fresh(crate::mir::File::Scalar, words);
        self.salu(Opcode::SSubU32, Some(left.part(0, 1)), &[part(hi, 0), iv.part(0, 1).into()]);
        if words == 2 {
            self.salu(Opcode::SSubbU32, Some(left.part(1, 1)), &[part(hi, 1), iv.part(1, 1).into()]);
        }
        self.salu(Opcode::SAddU32, Some(iv.part(0, 1)), &[iv.part(0, 1).into(), part(step, 0)]);
        if words == 2 {
            self.salu(Opcode::SAddcU32, Some(iv.part(1, 1)), &[iv.part(1, 1).into(), part(step, 1)]);
            // A borrow says that more is left than the increment.
            let over = self.s2();
            self.salu(Opcode::SSubU32, Some(over.part(0, 1)), &[part(step, 0), left.part(0, 1).into()]);
            self.salu(Opcode::SSubbU32, Some(over.part(1, 1)), &[part(step, 1), left.part(1, 1).into()]);
        } else {
            self.salu(Opcode::SCmpGtU32, None, &[left.into(), step]);
        }
        self.branch_back(Opcode::SCbranchScc1, body, exit);
        self.leave(&l.carried);
        Ok(())
    }

    /// True if the index is not negative and its next value, as a number without sign, does not overflow.
    fn counts_up(&self, l: &For) -> bool {
        let number = |v: LVal| self.constant(v).map(|bits| bits as u32 as i32);
        self.words(l.iv) == 1 && number(l.lo).is_some_and(|lo| lo >= 0) && number(l.step).is_some_and(|step| step > 0)
    }

    /// Registers in which the body has computed the next index, if that is so, and nothing else is ever there.
    fn stepped(&self, l: &For) -> Option<Span> {
        let step = self.constant(l.step)?;
        let next = l.body.iter().find_map(|inst| match inst {
            Inst::Bin { dst, op: BinOp::Add, a, b } if *a == l.iv && self.constant(*b) == Some(step) => Some(*dst),
            Inst::Bin { dst, op: BinOp::Add, a, b } if *b == l.iv && self.constant(*a) == Some(step) => Some(*dst),
            _ => None,
        })?;
        match self.homes[next] {
            Some(Home::Reg(span)) if self.in_scalars(next) && self.webs.place(next).is_none() => Some(span),
            _ => None,
        }
    }

    /// The end of a loop: back if `scc` says so, else to what follows.
    fn branch_back(&mut self, op: Opcode, to: crate::mir::Block, exit: crate::mir::Block) {
        self.emit(op, [Operand::Block(to)]);
        self.goes_to(to);
        self.depth -= 1;
        self.start(exit);
    }

    /// A loop on a condition.
    pub(super) fn while_loop(&mut self, l: &While) -> Done {
        self.enter(&l.carried);
        let (test, exit) = (self.label(), self.label());
        self.depth += 1;
        self.start(test);
        self.block(&l.test)?;
        self.holds(l.condition);
        self.branch(Opcode::SCbranchScc0, exit);
        self.block(&l.body)?;
        self.again(&l.carried);
        self.jump(test);
        self.depth -= 1;
        self.start(exit);
        self.leave(&l.carried);
        Ok(())
    }

    /// Sets `scc` if a condition holds, which is alike in all lanes.
    fn holds(&mut self, condition: LVal) {
        let mask = self.op(condition);
        self.salu(Opcode::SCmpLgU64, None, &[mask, 0.into()]);
    }

    /// A choice.
    pub(super) fn choice(&mut self, c: &If) -> Done {
        self.holds(c.condition);
        let otherwise = self.label();
        self.branch(Opcode::SCbranchScc0, otherwise);
        self.arms(c, otherwise)
    }

    /// What a choice chooses from, behind the branches to the second one.
    pub(super) fn arms(&mut self, c: &If, otherwise: crate::mir::Block) -> Done {
        let end = self.label();
        self.block(&c.then)?;
        let results: Vec<Span> = c.results.iter().map(|r| self.def(r.0)).collect();
        let pending = self.copies(c.results.iter().map(|&(r, a, _)| (r, a)));
        self.hand(pending);
        if c.otherwise.is_empty() && c.results.is_empty() {
            self.start(otherwise);
            return Ok(());
        }
        self.jump(end);
        self.start(otherwise);
        self.block(&c.otherwise)?;
        for (&(r, ..), &span) in c.results.iter().zip(&results) {
            self.homes[r] = Some(Home::Reg(span));
        }
        let pending = self.copies(c.results.iter().map(|&(r, _, b)| (r, b)));
        self.hand(pending);
        self.start(end);
        Ok(())
    }

    /// Stops the launch if the condition does not hold in a lane.
    pub(super) fn assert(&mut self, condition: LVal) -> Done {
        let mask = self.op(condition);
        self.salu(Opcode::SCmpEqU64, None, &[mask, (-1).into()]);
        let on = self.label();
        self.branch(Opcode::SCbranchScc1, on);
        self.emit(Opcode::STrap, [2.into()]);
        self.start(on);
        Ok(())
    }
}
