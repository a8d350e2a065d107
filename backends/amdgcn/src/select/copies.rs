//! Copies from global memory to local data share that run by themselves: loads that fill it, past all registers.
//!
//! ```text
//! shared   alike in all lanes + 16 * lane      m0 = what is alike + offset
//! global   a window                            buffer_load_dwordx4 at, [base, bytes] lds:  lane l fills 16 bytes from m0 + 16 l on, with zeros from outside
//! wait     for all of them                     s_waitcnt vmcnt(0); a barrier waits by itself
//! ```
//!
//! The selection reads off the addresses whether that is so ([`super::windows`]). What is otherwise goes through registers there and then.

use super::selector::{Done, Selector};
use crate::isa::{Opcode, Wait};
use crate::mir::{Inst, Mods, Span};
use tilelift_lane::{LVal, Vals};

impl Selector<'_> {
    /// Begins a copy of `bytes` bytes of each lane; zeros where `valid` does not hold.
    pub(super) fn copy_async(&mut self, shared: (LVal, i32), global: (LVal, i32), bytes: u32, valid: Option<LVal>) -> Done {
        let (row, window) = (self.windows.row(shared.0), self.windows.of(global.0, valid).filter(|_| global.1 == 0));
        match (row, window) {
            (Some(row), Some(window)) if bytes == 16 && self.has(Opcode::BufferLoadDwordx4Lds) => {
                let row = row.to_vec();
                self.fill_begin(shared.0, &row, shared.1);
                let (at, resource) = (self.vector(window.at), self.buffer(window.base, window.bytes));
                self.emit(Opcode::BufferLoadDwordx4Lds, [at.into(), resource.into(), 0.into()]);
            }
            _ => self.copy_through_registers(shared, global, bytes, valid),
        }
        Ok(())
    }

    fn has(&self, op: Opcode) -> bool {
        op.desc().number(self.chip).is_some()
    }

    /// `m0` becomes the sum of values that are alike in all lanes, and an offset.
    fn fill_begin(&mut self, addr: LVal, alike: &[LVal], offset: i32) {
        let (base, constant) = self.row_base(addr, alike);
        let constant = constant + i64::from(offset);
        match base {
            Some(base) if constant != 0 => self.salu(Opcode::SAddU32, Some(Span::M0), &[base.into(), constant.into()]),
            Some(base) => self.salu(Opcode::SMovB32, Some(Span::M0), &[base.into()]),
            None => self.salu(Opcode::SMovB32, Some(Span::M0), &[constant.into()]),
        }
    }

    /// The sum of values that are alike in all lanes: what is no constant, made once in a block, and the constants.
    fn row_base(&mut self, addr: LVal, alike: &[LVal]) -> (Option<Span>, i64) {
        let constants: i64 = alike.iter().filter_map(|&v| self.constant(v)).map(|bits| i64::from(bits as i32)).sum();
        if let Some(known) = self.known_row(addr) {
            return (Some(known), constants);
        }
        let varying: Vec<LVal> = alike.iter().copied().filter(|&v| self.constant(v).is_none()).collect();
        let Some((&first, rest)) = varying.split_first() else { return (None, constants) };
        let first = self.scalar(first);
        let mut sum = self.in_scalar_regs(first, 1);
        for &term in rest {
            let term = self.scalar(term);
            sum = self.s_of(Opcode::SAddU32, &[sum.into(), term]);
        }
        self.know_row(addr, sum);
        (Some(sum), constants)
    }

    /// The same by a load and a store.
    fn copy_through_registers(&mut self, shared: (LVal, i32), global: (LVal, i32), bytes: u32, valid: Option<LVal>) {
        let (load, store) = match bytes {
            4 => (Opcode::GlobalLoadDword, Opcode::DsWriteB32),
            8 => (Opcode::GlobalLoadDwordx2, Opcode::DsWriteB64),
            _ => (Opcode::GlobalLoadDwordx4, Opcode::DsWriteB128),
        };
        let mask = self.guard_mask(valid);
        let (at, base, offset) = self.global_address(global.0, global.1);
        let through = self.vs((bytes / 4) as u8);
        if mask.is_some() {
            self.zeros(through);
        }
        let g = self.guard(mask);
        self.push(Inst::new(load, [through.into(), at, base]).with(Mods { offset, ..Mods::default() }));
        self.unguard(g);
        let (to, offset) = self.shared_address(shared.0, shared.1, i32::MAX);
        self.push(Inst::new(store, [to.into(), through.into()]).with(Mods { offset, ..Mods::default() }));
    }

    fn zeros(&mut self, target: Span) {
        self.fill(target, &Vals::new(), true);
    }

    /// Waits for copies. Groups complete in order, and all of vector memory is counted together: none is left out.
    pub(super) fn wait_copies(&mut self) -> Done {
        self.emit(Opcode::SWaitcnt, [i64::from(Wait { vector: 0, ..Wait::NONE }.bits()).into()]);
        Ok(())
    }
}
