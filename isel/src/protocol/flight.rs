//! Registers of asynchronous multiplications: nobody reads a result before the wait that covers it, and what ordinary instructions have
//! written is fenced before a multiplication takes it from registers.
//!
//! ```text
//! multiply ── results fly, in the open group ── commit ── group 1 ── commit ── group 2 …       wait n: groups beyond n have landed
//! ordinary instruction ── its results are dirty ── fence ── clean
//! ```
//!
//! One pass over the blocks of a role; loops until nothing changes. Where paths meet, a value flies if it does on one of them, in the
//! newest group.

use super::ProtocolError;
use super::streams::matters;
use crate::lane::print::inst_text;
use crate::lane::visit::{blocks, computed, reads, results};
use crate::lane::{Block, For, Inst, LVal, LeftOperand, Multiply, Program, Unit};
use cranelift_entity::EntityRef;
use std::collections::BTreeMap;

/// Groups beyond which age does not count: more than any wait names.
const OLDEST: u32 = 64;

#[derive(Clone, PartialEq, Eq)]
struct Registers {
    /// Results under way, and how many groups have been closed since.
    flying: BTreeMap<LVal, u32>,
    /// What ordinary instructions have written since the last fence, a bit each.
    dirty: Vec<u64>,
    /// No fence has come yet.
    unfenced: bool,
}

impl Registers {
    fn meet(&mut self, other: &Registers) {
        for (&v, &age) in &other.flying {
            self.flying.entry(v).and_modify(|a| *a = age.min(*a)).or_insert(age);
        }
        self.dirty.iter_mut().zip(&other.dirty).for_each(|(a, b)| *a |= b);
        self.unfenced |= other.unfenced;
    }

    /// `to` is another name of `from`, as it was in `at`.
    fn name(&mut self, to: LVal, from: LVal, at: &Registers) {
        if let Some(&age) = at.flying.get(&from) {
            self.flying.entry(to).and_modify(|a| *a = age.min(*a)).or_insert(age);
        }
        if at.is_dirty(from) {
            self.soil(to);
        }
    }

    fn is_dirty(&self, v: LVal) -> bool {
        self.dirty[v.index() / 64] >> (v.index() % 64) & 1 == 1
    }

    fn soil(&mut self, v: LVal) {
        self.dirty[v.index() / 64] |= 1 << (v.index() % 64);
    }
}

struct Pass<'a> {
    program: &'a Program,
    name: &'a str,
}

/// Checks the body of a role, or what all warps run.
pub(super) fn check(program: &Program, name: &str, body: &Block) -> Result<(), ProtocolError> {
    if !multiplies(body) {
        return Ok(());
    }
    let dirty = vec![0; program.vals.len().div_ceil(64)];
    let mut registers = Registers { flying: BTreeMap::new(), dirty, unfenced: true };
    Pass { program, name }.block(body, &mut registers)
}

/// True if there is anything to follow.
fn multiplies(block: &Block) -> bool {
    block.iter().any(|i| match i {
        Inst::Unit(u) => matches!(**u, Unit::Multiply(_)),
        Inst::While(_) => true,
        other => blocks(other).into_iter().any(multiplies),
    })
}

impl Pass<'_> {
    fn error<T>(&self, problem: impl Into<String>, here: &Inst) -> Result<T, ProtocolError> {
        let here = format!("`{}` of {}", inst_text(self.program, here), self.name);
        Err(ProtocolError { problem: problem.into(), here, other: None })
    }

    fn block(&self, block: &Block, s: &mut Registers) -> Result<(), ProtocolError> {
        block.iter().try_for_each(|i| self.inst(i, s))
    }

    fn landed(&self, v: LVal, s: &Registers, here: &Inst) -> Result<(), ProtocolError> {
        if s.flying.contains_key(&v) {
            return self.error(format!("{v} is read before the multiplication that makes it is waited for,"), here);
        }
        Ok(())
    }

    fn inst(&self, inst: &Inst, s: &mut Registers) -> Result<(), ProtocolError> {
        match inst {
            Inst::For(l) => {
                [l.lo, l.hi, l.step].into_iter().try_for_each(|v| self.landed(v, s, inst))?;
                self.turns(l, s)
            }
            Inst::If(c) => {
                self.landed(c.condition, s, inst)?;
                let mut other = s.clone();
                self.block(&c.then, s)?;
                self.block(&c.otherwise, &mut other)?;
                let (then, otherwise) = (s.clone(), other.clone());
                s.meet(&other);
                for &(result, a, b) in &c.results {
                    s.name(result, a, &then);
                    s.name(result, b, &otherwise);
                }
                Ok(())
            }
            Inst::While(l) if matters(&l.test, false) || matters(&l.body, false) => {
                self.error("multiplications are used in a loop without a count, which the proof does not follow,", inst)
            }
            Inst::Unit(u) => self.unit(u, inst, s),
            // Its register is not written.
            Inst::Undefined { .. } => Ok(()),
            _ => {
                let mut early = None;
                reads(inst, &mut |v| early = early.or(s.flying.contains_key(&v).then_some(v)));
                early.map_or(Ok(()), |v| self.landed(v, s, inst))?;
                match computed(inst) {
                    Some(made) => made.iter().for_each(|&v| s.soil(v)),
                    None => results(inst).into_iter().for_each(|v| s.soil(v)),
                }
                Ok(())
            }
        }
    }

    /// A loop: what it begins with is what is in front of it, or what a turn leaves.
    fn turns(&self, l: &For, s: &mut Registers) -> Result<(), ProtocolError> {
        let front = s.clone();
        let mut head = front.clone();
        l.carried.iter().for_each(|c| head.name(c.param, c.init, &front));
        loop {
            let mut end = head.clone();
            self.block(&l.body, &mut end)?;
            let mut next = head.clone();
            // What a turn has named is gone with it.
            let kept = Registers {
                flying: end.flying.iter().filter(|(v, _)| front.flying.contains_key(v)).map(|(&v, &a)| (v, a)).collect(),
                dirty: end.dirty.iter().zip(&front.dirty).map(|(a, b)| a & b).collect(),
                unfenced: end.unfenced,
            };
            next.meet(&kept);
            l.carried.iter().for_each(|c| next.name(c.param, c.next, &end));
            if next == head {
                *s = kept;
                l.carried.iter().for_each(|c| s.name(c.result, c.next, &end));
                if !l.runs {
                    s.meet(&front);
                    l.carried.iter().for_each(|c| s.name(c.result, c.init, &front));
                }
                return Ok(());
            }
            head = next;
        }
    }

    fn unit(&self, u: &Unit, inst: &Inst, s: &mut Registers) -> Result<(), ProtocolError> {
        match u {
            Unit::Multiply(m) => return self.multiply(m, inst, s),
            Unit::CommitMatrices => s.flying.values_mut().for_each(|age| *age = (*age + 1).min(OLDEST)),
            Unit::WaitMatrices { pending } => s.flying.retain(|_, age| *age == 0 || *age <= *pending),
            Unit::FenceMatrices => {
                s.dirty.fill(0);
                s.unfenced = false;
            }
            _ => {
                let mut early = None;
                u.operands(|v, _| early = early.or(s.flying.contains_key(&v).then_some(v)));
                early.map_or(Ok(()), |v| self.landed(v, s, inst))?;
            }
        }
        Ok(())
    }

    fn multiply(&self, m: &Multiply, inst: &Inst, s: &mut Registers) -> Result<(), ProtocolError> {
        if s.unfenced {
            return self.error("no fence of the registers comes before a multiplication,", inst);
        }
        let left: &[LVal] = match &m.a {
            LeftOperand::Regs(words) => words,
            LeftOperand::Shared(o) => std::slice::from_ref(&o.at.addr),
        };
        [m.b.at.addr].iter().chain(left).chain(&m.accumulate).try_for_each(|&v| self.landed(v, s, inst))?;
        let words = if matches!(m.a, LeftOperand::Regs(_)) { left } else { &[] };
        if let Some(v) = words.iter().chain(&m.c).find(|v| s.is_dirty(**v)) {
            return self.error(format!("{v} was written by ordinary instructions after the last fence of the registers,"), inst);
        }
        s.flying.extend(m.dsts.iter().map(|&v| (v, 0)));
        Ok(())
    }
}
