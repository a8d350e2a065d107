//! Execution of one instruction of one wave.
//!
//! [`Ctx`] is what an instruction may touch. Checks of registers, flights and hazards have been made before; see [`crate::run`].

mod atomic;
mod dpp;
mod ds;
mod matrix;
mod salu;
mod smem;
mod valu;
mod vmem;

use crate::check::flight::{Kind, Pending};
use crate::decode::inst::{Inst, Op, Program, Src};
use crate::fault::{FaultKind, Result, Use};
use crate::record::{Moves, What};
use crate::state::device::Device;
use crate::state::lds::Lds;
use crate::state::wave::Wave;

/// What an instruction may touch.
pub(crate) struct Ctx<'a, 'm> {
    pub inst: &'a Inst,
    pub wave: &'a mut Wave,
    pub lds: &'a mut Lds,
    pub device: &'a mut Device<'m>,
    /// The number of the workgroup.
    pub group: u32,
}

/// What follows an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    Next,
    Jump(u64),
    Barrier,
    End,
}

/// The bits of an inline constant, for an operand of so many bits; float constants have the operand's width.
pub(crate) fn inline(code: u8, width: u32) -> u64 {
    match code {
        128..=192 => u64::from(code) - 128,
        193..=208 => (192 - i64::from(code)) as u64 & crate::num::ones(width.max(32)),
        _ => {
            let v =
                [0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0, std::f64::consts::FRAC_1_PI / 2.0][usize::from(code.clamp(240, 248)) - 240];
            match width {
                16 => u64::from(crate::num::F16.encode(v)),
                64 => v.to_bits(),
                _ => u64::from((v as f32).to_bits()),
            }
        }
    }
}

impl Ctx<'_, '_> {
    /// A scalar source of so many dwords: its bits, and which of them are defined.
    pub fn scalar(&self, src: Src, dwords: u8) -> (u64, u64) {
        let narrow = if dwords < 2 { 0xffff_ffff } else { u64::MAX };
        match src {
            Src::S(n) if dwords < 2 => (u64::from(self.wave.s[usize::from(n)]), u64::from(self.wave.s_defined[usize::from(n)]) | !narrow),
            Src::S(n) => (self.wave.s64(n), self.wave.s64_defined(n)),
            Src::Inline(c) => (inline(c, u32::from(dwords) * 32) & narrow, u64::MAX),
            // A literal of a 64-bit operand is sign-extended for integers; the assembler allows no other that matters here.
            Src::Literal(v) if dwords < 2 => (u64::from(v), u64::MAX),
            Src::Literal(v) => (i64::from(v as i32) as u64, u64::MAX),
            Src::Computed(c) => (self.computed(c) & narrow, u64::MAX),
            Src::No | Src::V(_) | Src::A(_) => (0, u64::MAX),
        }
    }

    fn computed(&self, code: u8) -> u64 {
        match code {
            235 => crate::state::device::SHARED_BASE,
            236 => crate::state::device::SHARED_BASE + 0xffff_ffff,
            237 => crate::state::device::PRIVATE_BASE,
            238 => crate::state::device::PRIVATE_BASE + 0xffff_ffff,
            251 => u64::from(self.wave.vcc() == 0),
            252 => u64::from(self.wave.exec() == 0),
            _ => u64::from(self.wave.scc),
        }
    }

    /// The value of a scalar register that an address is made of.
    pub fn address_part(&self, n: u8, dwords: u8) -> Result<u64> {
        let (v, d) = self.scalar(Src::S(n), dwords);
        if d == u64::MAX { Ok(v) } else { Err(FaultKind::Undefined { used_as: Use::Address, lane: None }) }
    }

    /// Executes the instruction.
    pub fn run(&mut self) -> Result<Flow> {
        match &self.inst.op {
            Op::Scalar(s) => self.salu(s),
            Op::Program(_, p) => self.program(*p),
            Op::Smem(s) => self.smem(s).map(|()| Flow::Next),
            Op::Vector(v) => self.valu(v).map(|()| Flow::Next),
            Op::Matrix(m) => self.matrix(m).map(|()| Flow::Next),
            Op::Ds(d) => self.ds(d).map(|()| Flow::Next),
            Op::Mem(m) => self.vmem(m).map(|()| Flow::Next),
        }
    }

    fn program(&mut self, p: Program) -> Result<Flow> {
        use crate::decode::inst::Condition;
        let undefined = |d: bool| if d { Ok(()) } else { Err(FaultKind::Undefined { used_as: Use::Condition, lane: None }) };
        match p {
            Program::Nop(_) | Program::Hint => Ok(Flow::Next),
            Program::Priority(to) => {
                self.wave.priority = to;
                Ok(Flow::Next)
            }
            Program::End => Ok(Flow::End),
            Program::Barrier => Ok(Flow::Barrier),
            Program::Wait(w) => {
                let (vm, _, lgkm) = crate::decode::wait_counts(w);
                self.wait(vm, lgkm);
                Ok(Flow::Next)
            }
            Program::Trap => Err(FaultKind::Trap),
            Program::Refused => Err(FaultKind::Unsupported { words: self.inst.words.to_vec() }),
            Program::Branch(to, condition) => {
                let w = &self.wave;
                // A mask is known to be nonzero by any bit that is set and defined.
                let zero = |mask: u64, defined: u64| {
                    undefined(defined == u64::MAX || mask & defined != 0)?;
                    Ok::<bool, FaultKind>(mask == 0)
                };
                let taken = match condition {
                    Condition::Always => true,
                    Condition::Scc(set) => {
                        undefined(w.scc_defined)?;
                        w.scc == set
                    }
                    Condition::Vccz(z) => zero(w.vcc(), w.s64_defined(crate::decode::inst::VCC))? == z,
                    Condition::Execz(z) => zero(w.exec(), w.s64_defined(crate::decode::inst::EXEC))? == z,
                };
                let target = self.inst.next().wrapping_add_signed(4 * i64::from(to));
                Ok(if taken { Flow::Jump(target) } else { Flow::Next })
            }
        }
    }

    /// Puts an operation in flight.
    pub fn issue(&mut self, p: Pending) {
        let id = match &mut self.device.record {
            Some(r) => {
                let (moves, bytes) = moved(&p);
                r.issued((self.group.into(), self.wave.index), p.from, moves, bytes)
            }
            None => 0,
        };
        self.wave.flight.issue(Pending { id, ..p });
    }

    /// Waits until at most so many operations are in flight, and lets the rest complete.
    pub fn wait(&mut self, vm: u16, lgkm: u16) {
        for p in self.wave.flight.wait(vm, lgkm) {
            if let Some(r) = &mut self.device.record {
                r.push(self.group.into(), self.inst.address, What::Landed { id: p.id });
            }
            for span in p.spans {
                self.lds.complete(self.wave.index, span);
            }
            self.device.complete(self.group, self.wave.index, self.lds.epoch, &p.global);
        }
    }

    /// The active lanes; a fault if it is not known which they are.
    pub fn active(&self) -> Result<u64> {
        if self.wave.s64_defined(crate::decode::inst::EXEC) == u64::MAX {
            Ok(self.wave.exec())
        } else {
            Err(FaultKind::Undefined { used_as: Use::Exec, lane: None })
        }
    }
}

/// What an operation moves, and how many bytes.
fn moved(p: &Pending) -> (Moves, u64) {
    let memory: u64 = p.global.iter().map(|g| u64::from(g.1)).sum();
    let lds: u64 = p.spans.iter().map(|s| u64::from(s.len)).sum();
    match p.kind {
        Kind::Smem => (Moves::Scalar, memory),
        Kind::Ds => (Moves::Lds, lds),
        Kind::Vm if !p.spans.is_empty() => (Moves::ToLds, memory),
        Kind::Vm if p.global.iter().any(|g| g.2) => (Moves::Store, memory),
        Kind::Vm => (Moves::Load, memory),
    }
}

/// The numbers of the set bits.
pub(crate) fn lanes(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = (mask != 0).then(|| mask.trailing_zeros() as usize);
        mask &= mask.wrapping_sub(1);
        lane
    })
}
