//! Registers of asynchronous multiplications: nobody reads a result before the wait that covers it, and what ordinary instructions have
//! written is fenced before a multiplication takes it from registers.
//!
//! ```text
//! multiply ── results in flight, in the open group ── commit ── group 1 ── commit ── group 2 …       wait n: groups beyond n have landed
//! ordinary instruction ── its results are dirty ── fence ── clean
//! ```
//!
//! Until then nobody writes the registers of its results, or of an operand A that it takes from registers: in the next iteration of a loop
//! the same instruction would. A result in flight goes on as the accumulator of the next multiplication, or as what a loop carries.
//! At the end none is in flight.
//!
//! One pass over the blocks of a role; loops until nothing changes. Where paths meet, a value is in flight if it is on one of them, in the
//! newest group.

mod registers;

use super::error::{ProtocolError, Spot};
use super::trip_classes::matters;
use crate::problem::Problem;
use registers::{Flight, RegisterState, Registers};
use tilelift_lane::visit::{blocks, reads};
use tilelift_lane::{Block, Carried, For, Inst, LVal, Multiply, OperandA, Program, Unit};

struct Pass<'a> {
    program: &'a Program,
    name: &'a str,
}

/// Checks the body of a role, or what all warps run.
pub(super) fn check(program: &Program, name: &str, body: &Block) -> Result<(), ProtocolError> {
    if !multiplies(body) {
        return Ok(());
    }
    let mut registers = Registers::new(program.vals.len(), body);
    let pass = Pass { program, name };
    pass.block(body, &mut registers)?;
    match registers.flying.first() {
        Some(f) => pass.error(Problem::ProductAtEnd, f.by),
        None => Ok(()),
    }
}

/// True if there is anything to follow.
fn multiplies(block: &Block) -> bool {
    block.iter().any(|i| match i {
        Inst::Unit(u) => matches!(**u, Unit::Multiply(_)),
        Inst::While(_) => true,
        other => blocks(other).any(multiplies),
    })
}

impl<'a> Pass<'a> {
    fn spot(&self, inst: &Inst) -> Box<Spot> {
        Spot::inst(self.program, inst, self.name)
    }

    fn error<T>(&self, problem: Problem, here: &Inst) -> Result<T, ProtocolError> {
        Err(ProtocolError { problem, here: self.spot(here), other: None })
    }

    fn block(&self, block: &'a Block, s: &mut Registers<'a>) -> Result<(), ProtocolError> {
        block.iter().try_for_each(|i| self.inst(i, s))
    }

    fn landed(&self, v: LVal, s: &Registers<'a>, here: &Inst) -> Result<(), ProtocolError> {
        match s.flying.get(v) {
            Some(f) if f.left => self.error(Problem::ReadInFlight, here),
            Some(_) => self.error(Problem::ResultInFlight, here),
            None => Ok(()),
        }
    }

    /// An instruction gives a value its register anew.
    #[inline]
    fn written(&self, v: LVal, s: &mut Registers<'a>, here: &Inst) -> Result<(), ProtocolError> {
        match s.flying.remove(v) {
            Some(f) if !f.moved => self.written_in_flight(f, here),
            _ => Ok(()),
        }
    }

    #[cold]
    fn written_in_flight(&self, f: Flight<'_>, here: &Inst) -> Result<(), ProtocolError> {
        Err(ProtocolError { problem: Problem::WrittenInFlight, here: self.spot(here), other: Some(self.spot(f.by)) })
    }

    /// A loop gives the values that it carries their registers for the next iteration, side by side, as they are in `at`. What a product in flight still
    /// reads has its register as long: the next iteration computes into it, as backends exchange both, and not before that has landed.
    fn pass(&self, pairs: &[(LVal, LVal)], s: &mut Registers<'a>, at: &Registers<'a>, here: &Inst) -> Result<(), ProtocolError> {
        for &(to, from) in pairs.iter().filter(|(to, from)| to != from) {
            match s.flying.get(to) {
                Some(f) if f.left && !f.moved && s.flying.get(from).is_none() => {
                    s.flying.remove(to);
                    s.join(from, f);
                }
                _ => self.written(to, s, here)?,
            }
        }
        pairs.iter().for_each(|&(to, from)| s.name(to, from, at.known(from)));
        Ok(())
    }

    fn inst(&self, inst: &'a Inst, s: &mut Registers<'a>) -> Result<(), ProtocolError> {
        match inst {
            Inst::For(l) => {
                [l.lo, l.hi, l.step].into_iter().try_for_each(|v| self.landed(v, s, inst))?;
                self.iterations(l, inst, s)
            }
            Inst::If(c) => {
                self.landed(c.condition, s, inst)?;
                let mut other = s.clone();
                self.block(&c.then, s)?;
                self.block(&c.otherwise, &mut other)?;
                let known: Vec<[RegisterState<'_>; 2]> = c.results.iter().map(|&(_, a, b)| [s.known(a), other.known(b)]).collect();
                s.meet(&other);
                for &(result, ..) in &c.results {
                    self.written(result, s, inst)?;
                }
                for (&(result, a, b), [then, otherwise]) in c.results.iter().zip(known) {
                    s.name(result, a, then);
                    s.name(result, b, otherwise);
                }
                Ok(())
            }
            Inst::While(l) if matters(&l.test, false) || matters(&l.body, false) => self.error(Problem::EndlessProducts, inst),
            Inst::Unit(u) => self.unit(u, inst, s),
            // Its register is not written.
            Inst::Undefined { .. } => Ok(()),
            _ => {
                let in_flight = !s.flying.is_empty();
                if in_flight {
                    let mut early = None;
                    let mut read = |v| early = early.or(s.flying.get(v).map(|_| v));
                    match inst {
                        Inst::While(_) => reads(inst, &mut read),
                        inst => inst.operands(|v, _| read(v)),
                    }
                    early.map_or(Ok(()), |v| self.landed(v, s, inst))?;
                }
                let made = |v: LVal| {
                    s.soil(v);
                    if in_flight { self.written(v, s, inst) } else { Ok(()) }
                };
                match inst {
                    Inst::While(l) => l.carried.iter().map(|c| c.result).try_for_each(made),
                    inst => inst.results().iter().copied().try_for_each(made),
                }
            }
        }
    }

    /// A loop: what it begins with is what is in front of it, or what an iteration leaves.
    fn iterations(&self, l: &'a For, inst: &'a Inst, s: &mut Registers<'a>) -> Result<(), ProtocolError> {
        let pairs = |from: &dyn Fn(&Carried) -> LVal| -> Vec<(LVal, LVal)> { l.carried.iter().map(|c| (c.param, from(c))).collect() };
        let (first, more) = (pairs(&|c| c.init), pairs(&|c| c.next));
        let mut head = s.clone();
        self.pass(&first, &mut head, s, inst)?;
        loop {
            let mut end = head.clone();
            self.block(&l.body, &mut end)?;
            // What an iteration has written is written again before it is used; what is in flight stays so into the next iteration.
            let mut back = end.clone();
            back.keep_dirty(s);
            self.pass(&more, &mut back, &end, inst)?;
            if !head.meet(&back) {
                let last: Vec<RegisterState<'_>> = l.carried.iter().map(|c| end.known(c.next)).collect();
                end.keep_dirty(s);
                let front = std::mem::replace(s, end);
                for c in &l.carried {
                    self.written(c.result, s, inst)?;
                }
                l.carried.iter().zip(last).for_each(|(c, last)| s.name(c.result, c.next, last));
                if !l.runs {
                    s.meet(&front);
                    l.carried.iter().for_each(|c| s.name(c.result, c.init, front.known(c.init)));
                }
                return Ok(());
            }
        }
    }

    fn unit(&self, u: &Unit, inst: &'a Inst, s: &mut Registers<'a>) -> Result<(), ProtocolError> {
        match u {
            Unit::Multiply(m) => return self.multiply(m, inst, s),
            Unit::CommitMatrices => s.flying.commit(),
            Unit::WaitMatrices { pending } => s.flying.wait(*pending),
            Unit::FenceMatrices => s.fence(),
            _ => {
                let mut early = None;
                u.operands(|v, _| early = early.or(s.flying.get(v).map(|_| v)));
                early.map_or(Ok(()), |v| self.landed(v, s, inst))?;
                for v in u.results() {
                    self.written(*v, s, inst)?;
                }
            }
        }
        Ok(())
    }

    fn multiply(&self, m: &Multiply, inst: &'a Inst, s: &mut Registers<'a>) -> Result<(), ProtocolError> {
        if s.unfenced {
            return self.error(Problem::NoRegisterFence, inst);
        }
        let (mbarriers, left): (&[LVal], _) = match &m.a {
            OperandA::Regs(mbarriers) => (mbarriers, None),
            OperandA::Shared(o) => (&[], Some(o.at.addr)),
        };
        // Another one may take the same mbarriers.
        let others = mbarriers.iter().copied().filter(|v| s.flying.get(*v).is_some_and(|f| !f.left));
        [m.b.at.addr].into_iter().chain(left).chain(m.accumulate).chain(others).try_for_each(|v| self.landed(v, s, inst))?;
        if mbarriers.iter().chain(&m.c).any(|v| s.is_dirty(*v)) {
            return self.error(Problem::WrittenBehindFence, inst);
        }
        // It goes on with the registers of an accumulator that is in flight: one does.
        for &v in &m.c {
            match s.flying.get_mut(v) {
                Some(f) if f.left || f.moved => return self.landed(v, s, inst),
                Some(f) => f.moved = true,
                None => {}
            }
        }
        let by = |left: bool| Flight { age: 0, left, moved: false, by: inst };
        s.flying.reserve(mbarriers.len() + m.dsts.len());
        mbarriers.iter().for_each(|&v| s.flying.insert(v, by(true)));
        for &v in &m.dsts {
            self.written(v, s, inst)?;
            s.flying.insert(v, by(false));
        }
        Ok(())
    }
}
