//! One instruction of one wave: decode, check registers, flights and hazards, execute, note.

use super::launch::{Cache, Group};
use crate::decode::inst::{Access, File, Inst, Op, Program, Role};
use crate::decode::{DecodeError, decode};
use crate::exec::{Ctx, Flow};
use crate::fault::{FaultKind, Result};
use crate::isa::memory::{MemKind, Space};
use crate::object::Kernel;
use crate::record::What;
use crate::state::device::Device;
use crate::state::wave::{Status, Wave};
use std::rc::Rc;

fn name(file: File, n: usize) -> String {
    let letter = match file {
        File::S => 's',
        File::V => 'v',
        File::A => 'a',
    };
    format!("{letter}{n}")
}

/// Registers must exist, and tuples begin where they may.
fn counts(kernel: &Kernel, a: &Access, op: &Op) -> Result<()> {
    let d = &kernel.descriptor;
    let (first, end) = (u32::from(a.first), u32::from(a.first) + u32::from(a.count));
    let available = match a.file {
        // Registers with names of their own always exist.
        File::S if first >= 102 => 128,
        File::S => d.sgprs.min(102),
        File::V => d.vgprs(),
        File::A => d.agprs(),
    };
    if end > available {
        let n = (available.max(first)) as usize;
        return Err(FaultKind::RegisterCount { register: name(a.file, n), available });
    }
    let even = match (a.file, op) {
        (File::S, Op::Smem(_)) if a.write => match a.count {
            1 => 1,
            2 => 2,
            _ => 4,
        },
        (File::S, Op::Mem(m)) if m.space == Space::Buffer && a.count == 4 => 4,
        (File::S, _) => {
            if a.count > 1 {
                2
            } else {
                1
            }
        }
        _ => {
            if a.count > 1 {
                2
            } else {
                1
            }
        }
    };
    if first % even != 0 {
        return Err(FaultKind::TupleAlignment { register: name(a.file, a.first.into()) });
    }
    debug_assert!(a.role != Role::Tuple || a.count > 1);
    Ok(())
}

fn in_flight(w: &Wave, inst: &Inst) -> Result<()> {
    let loads = matches!(&inst.op, Op::Mem(m) if matches!(m.kind, MemKind::Load(_)) && m.space != Space::Flat);
    for a in &inst.access {
        let vector = a.file != File::S;
        let first = if vector { w.slot(a.file, a.first) } else { usize::from(a.first) };
        if let Some((at, counter, from)) = w.flight.conflict(vector, first, usize::from(a.count), loads && a.write) {
            let register = name(a.file, usize::from(a.first) + at - first);
            return Err(FaultKind::InFlight { register, counter, from });
        }
    }
    Ok(())
}

impl Group {
    fn decoded(&self, device: &Device<'_>, cache: &mut Cache, kernel: &Kernel, pc: u64) -> Result<Rc<Inst>> {
        if let Some(i) = cache.get(&pc) {
            return Ok(i.clone());
        }
        if !pc.is_multiple_of(4) {
            return Err(FaultKind::OutsideCode { pc });
        }
        let inst = decode(device.chip, pc, &|a| device.module.word(a)).map_err(|(e, words)| match e {
            DecodeError::Ends => FaultKind::OutsideCode { pc },
            DecodeError::Unknown => FaultKind::Unsupported { words: words.to_vec() },
        })?;
        // Checked once: they depend on the instruction only.
        let inst = Rc::new(inst);
        cache.insert(pc, inst.clone());
        inst.access.iter().try_for_each(|a| counts(kernel, a, &inst.op))?;
        Ok(inst)
    }

    pub(super) fn step(&mut self, device: &mut Device<'_>, kernel: &Kernel, cache: &mut Cache, wave: usize) -> Result<()> {
        let inst = self.decoded(device, cache, kernel, self.waves[wave].pc)?;
        let w = &mut self.waves[wave];
        in_flight(w, &inst)?;
        let accum = w.accum;
        let slot = move |file: File, n: u16| if file == File::A { accum + usize::from(n) } else { usize::from(n) };
        w.hazards.check(&inst, &slot)?;
        device.report.count(device.chip, &inst, &mut w.cycles, w.priority > 0);
        let flow = Ctx { inst: &inst, wave: w, lds: &mut self.lds, device, group: self.number as u32 }.run()?;
        self.shared.issue(device.chip, wave, &inst, w.cycles.added());
        let states = match inst.op {
            Op::Program(_, Program::Nop(n)) => u64::from(n & 15) + 1,
            _ => 1,
        };
        w.hazards.note(&inst, states, &slot);
        w.steps += 1;
        if let Some(r) = &mut device.record {
            r.instructions += 1;
            match flow {
                Flow::Barrier => r.push(self.number, inst.address, What::Waits { wave: w.index }),
                Flow::End => r.push(self.number, inst.address, What::Ended { wave: w.index }),
                Flow::Next | Flow::Jump(_) => {}
            }
        }
        match flow {
            Flow::Next => w.pc = inst.next(),
            Flow::Jump(to) => w.pc = to,
            Flow::Barrier => {
                w.pc = inst.next();
                w.status = Status::AtBarrier;
            }
            Flow::End => {
                w.status = Status::Ended;
                Ctx { inst: &inst, wave: w, lds: &mut self.lds, device, group: self.number as u32 }.wait(0, 0);
            }
        }
        Ok(())
    }
}
