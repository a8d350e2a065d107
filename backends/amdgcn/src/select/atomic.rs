//! Indivisible updates, and what they order.
//!
//! ```text
//! release   caches write back (buffer_wbl2), then wait for all memory of the wavefront
//! update    the atomic instruction; sc1 reaches all devices, where there is such a bit
//! acquire   wait for it, then caches forget (buffer_inv)
//! ```
//!
//! What each scope asks of the caches follows the memory model that LLVM's "User Guide for AMDGPU Backend" gives for these chips. Floats of 16
//! bits are added in pairs: the other one gets a negative zero, which changes nothing.

use super::error::{Computation, Reason, SelectError};
use super::selector::{Done, Home, Selector, part};
use crate::chip::Chip;
use crate::isa::Opcode;
use crate::mir::{Inst, Mods, Operand, Span};
use tilelift_ir::{AtomicOp, Scalar, Scope};
use tilelift_lane::{Atomic, AtomicKind, LTy, Opcode as LaneOpcode, Space};

/// Without and with what was there, of global memory and of shared memory.
struct UpdateCodes {
    global: [Opcode; 2],
    shared: [Opcode; 2],
}

macro_rules! codes {
    ($global:ident $returns:ident, $shared:ident $shared_returns:ident) => {
        Some(UpdateCodes { global: [Opcode::$global, Opcode::$returns], shared: [Opcode::$shared, Opcode::$shared_returns] })
    };
}

/// The instructions of an update.
fn codes(op: AtomicOp, ty: Scalar) -> Option<UpdateCodes> {
    match (op, ty) {
        (AtomicOp::Add, Scalar::I32) => codes!(GlobalAtomicAdd GlobalAtomicAddRtn, DsAddU32 DsAddRtnU32),
        (AtomicOp::Min, Scalar::I32) => codes!(GlobalAtomicSmin GlobalAtomicSminRtn, DsMinI32 DsMinRtnI32),
        (AtomicOp::Max, Scalar::I32) => codes!(GlobalAtomicSmax GlobalAtomicSmaxRtn, DsMaxI32 DsMaxRtnI32),
        (AtomicOp::Umin, Scalar::I32) => codes!(GlobalAtomicUmin GlobalAtomicUminRtn, DsMinU32 DsMinRtnU32),
        (AtomicOp::Umax, Scalar::I32) => codes!(GlobalAtomicUmax GlobalAtomicUmaxRtn, DsMaxU32 DsMaxRtnU32),
        (AtomicOp::And, Scalar::I32) => codes!(GlobalAtomicAnd GlobalAtomicAndRtn, DsAndB32 DsAndRtnB32),
        (AtomicOp::Or, Scalar::I32) => codes!(GlobalAtomicOr GlobalAtomicOrRtn, DsOrB32 DsOrRtnB32),
        (AtomicOp::Xor, Scalar::I32) => codes!(GlobalAtomicXor GlobalAtomicXorRtn, DsXorB32 DsXorRtnB32),
        (AtomicOp::Xchg, Scalar::I32 | Scalar::F32) => codes!(GlobalAtomicSwap GlobalAtomicSwapRtn, DsWriteB32 DsWrxchgRtnB32),
        (AtomicOp::Add, Scalar::I64) => codes!(GlobalAtomicAddX2 GlobalAtomicAddX2Rtn, DsAddU64 DsAddRtnU64),
        (AtomicOp::Min, Scalar::I64) => codes!(GlobalAtomicSminX2 GlobalAtomicSminX2Rtn, DsMinI64 DsMinRtnI64),
        (AtomicOp::Max, Scalar::I64) => codes!(GlobalAtomicSmaxX2 GlobalAtomicSmaxX2Rtn, DsMaxI64 DsMaxRtnI64),
        (AtomicOp::Umin, Scalar::I64) => codes!(GlobalAtomicUminX2 GlobalAtomicUminX2Rtn, DsMinU64 DsMinRtnU64),
        (AtomicOp::Umax, Scalar::I64) => codes!(GlobalAtomicUmaxX2 GlobalAtomicUmaxX2Rtn, DsMaxU64 DsMaxRtnU64),
        (AtomicOp::And, Scalar::I64) => codes!(GlobalAtomicAndX2 GlobalAtomicAndX2Rtn, DsAndB64 DsAndRtnB64),
        (AtomicOp::Or, Scalar::I64) => codes!(GlobalAtomicOrX2 GlobalAtomicOrX2Rtn, DsOrB64 DsOrRtnB64),
        (AtomicOp::Xor, Scalar::I64) => codes!(GlobalAtomicXorX2 GlobalAtomicXorX2Rtn, DsXorB64 DsXorRtnB64),
        (AtomicOp::Xchg, Scalar::I64 | Scalar::F64) => codes!(GlobalAtomicSwapX2 GlobalAtomicSwapX2Rtn, DsWriteB64 DsWrxchgRtnB64),
        (AtomicOp::Add, Scalar::F32) => codes!(GlobalAtomicAddF32 GlobalAtomicAddF32Rtn, DsAddF32 DsAddRtnF32),
        (AtomicOp::Add, Scalar::F64) => codes!(GlobalAtomicAddF64 GlobalAtomicAddF64Rtn, DsAddF64 DsAddRtnF64),
        (AtomicOp::Add, Scalar::F16) => codes!(GlobalAtomicPkAddF16 GlobalAtomicPkAddF16Rtn, DsPkAddF16 DsPkAddRtnF16),
        (AtomicOp::Add, Scalar::BF16) => codes!(GlobalAtomicPkAddBf16 GlobalAtomicPkAddBf16Rtn, DsPkAddBf16 DsPkAddRtnBf16),
        _ => None,
    }
}

/// `s_waitcnt vmcnt(0) lgkmcnt(0)`.
const ALL_DONE: i64 = 0x0070;

impl Selector<'_> {
    fn wait(&mut self) {
        self.emit(Opcode::SWaitcnt, [Operand::Imm(ALL_DONE)]);
    }

    fn cache(&mut self, op: Opcode, sc0: bool, sc1: bool) {
        self.push(Inst::new(op, []).with(Mods { sc0, sc1, ..Mods::default() }));
    }

    /// What was written before is there for the scope.
    fn release(&mut self, scope: Scope) {
        match (self.chip, scope) {
            (_, Scope::Cta) | (Chip::Gfx90a, Scope::Gpu) => {}
            (Chip::Gfx90a, Scope::Sys) => self.cache(Opcode::BufferWbl2, false, false),
            (_, Scope::Gpu) => self.cache(Opcode::BufferWbl2, false, true),
            (_, Scope::Sys) => self.cache(Opcode::BufferWbl2, true, true),
        }
        self.wait();
    }

    /// What is read behind is as new as the update.
    fn acquire(&mut self, scope: Scope) {
        self.wait();
        match (self.chip, scope) {
            (_, Scope::Cta) => {}
            (Chip::Gfx90a, Scope::Gpu) => self.cache(Opcode::BufferWbinvl1Vol, false, false),
            (Chip::Gfx90a, Scope::Sys) => {
                self.cache(Opcode::BufferInvl2, false, false);
                self.cache(Opcode::BufferWbinvl1Vol, false, false);
            }
            (_, Scope::Gpu) => self.cache(Opcode::BufferInv, false, true),
            (_, Scope::Sys) => self.cache(Opcode::BufferInv, true, true),
        }
    }

    /// An update of one value in memory.
    pub(super) fn atomic(&mut self, a: &Atomic) -> Done {
        let ty = self.ty(a.value);
        let LTy::Num(s) = ty else { return Self::refuse(Computation::Other(LaneOpcode::Atomic), ty, Reason::Type) };
        let mask = self.guard_mask(a.guard);
        let words = self.words(a.value);
        let half = ty.bits() == 16;
        let dst = a.dst.filter(|&d| self.live.read(d));
        // Where it is, which half of the word, and what is added there.
        let (mut data, mut upper) = (self.op(a.value), None);
        let (global, shared);
        if half {
            let (place, at) = self.halves(a)?;
            (global, shared) = place;
            let value = self.in_vector(data, 1);
            let low = self.v();
            self.valu(Opcode::VPermB32, low, &[Operand::Imm(0x8000), value.into(), Operand::Imm(0x0504_0100)]);
            let high = self.v();
            self.valu(Opcode::VPermB32, high, &[value.into(), Operand::Imm(0x8000), Operand::Imm(0x0504_0100)]);
            let word = self.v();
            self.pick(word, at, high.into(), low.into());
            data = word.into();
            upper = Some(at);
        } else if a.space == Space::Global {
            global = Some(self.global_address(a.addr, a.offset));
            shared = None;
        } else {
            global = None;
            shared = Some(self.shared_address(a.addr, a.offset, i32::MAX));
        }
        let data = self.in_vector(data, words);
        let returned = dst.map(|_| {
            let old = self.vs(words);
            // Zero where the guard is false.
            if mask.is_some() {
                for w in 0..words {
                    self.emit(Opcode::VMovB32, [old.part(w, 1).into(), 0.into()]);
                }
            }
            old
        });
        let inst = match a.kind {
            AtomicKind::Op(op) => {
                let Some(codes) = codes(op, s) else { return Self::refuse(Computation::Other(LaneOpcode::Atomic), ty, Reason::Type) };
                let code = if a.space == Space::Global { codes.global } else { codes.shared }[usize::from(returned.is_some())];
                Self::update(code, returned, &global, &shared, &[data])?
            }
            AtomicKind::Cas(expected) => {
                let expected = self.op(expected);
                match (a.space, words) {
                    (Space::Global, _) => {
                        let both = self.vs(2 * words);
                        for w in 0..words {
                            self.emit(Opcode::VMovB32, [both.part(w, 1).into(), data.part(w, 1).into()]);
                            self.emit(Opcode::VMovB32, [both.part(words + w, 1).into(), part(expected, w)]);
                        }
                        let code = match (words, returned.is_some()) {
                            (1, false) => Opcode::GlobalAtomicCmpswap,
                            (1, true) => Opcode::GlobalAtomicCmpswapRtn,
                            (_, false) => Opcode::GlobalAtomicCmpswapX2,
                            (_, true) => Opcode::GlobalAtomicCmpswapX2Rtn,
                        };
                        Self::update(code, returned, &global, &shared, &[both])?
                    }
                    (Space::Shared, _) => {
                        let expected = self.in_vector(expected, words);
                        let code = match (words, returned.is_some()) {
                            (1, false) => Opcode::DsCmpstB32,
                            (1, true) => Opcode::DsCmpstRtnB32,
                            (_, false) => Opcode::DsCmpstB64,
                            (_, true) => Opcode::DsCmpstRtnB64,
                        };
                        Self::update(code, returned, &global, &shared, &[expected, data])?
                    }
                }
            }
        };
        if inst.op.desc().number(self.chip).is_none() {
            return Self::refuse(Computation::Other(LaneOpcode::Atomic), ty, Reason::Chip(self.chip));
        }
        if a.order.releases() {
            self.release(a.scope);
        }
        let far = a.space == Space::Global && a.scope == Scope::Sys && self.chip != Chip::Gfx90a;
        let mods = Mods { sc1: far, ..inst.mods };
        let g = self.guard(mask);
        self.push(inst.with(mods));
        self.unguard(g);
        if a.order.acquires() {
            self.acquire(a.scope);
        }
        let (Some(dst), Some(mut old)) = (dst, returned) else { return Ok(()) };
        if let Some(upper) = upper {
            let high = self.v_of(Opcode::VLshrrevB32, &[16.into(), old.into()]);
            let t = self.v();
            self.pick(t, upper, high.into(), old.into());
            old = t;
            if let Some(mask) = mask {
                let t = self.v();
                self.pick(t, mask, old.into(), 0.into());
                old = t;
            }
        }
        self.is(dst, Home::Reg(old));
        Ok(())
    }

    #[allow(clippy::type_complexity)]
    fn halves(&mut self, a: &Atomic) -> Result<((Option<(Operand, Operand, i32)>, Option<(Span, i32)>), Span), SelectError> {
        let base = self.op(a.addr);
        let low = self.v_of(Opcode::VAddU32, &[Operand::Imm(a.offset.into()), part(base, 0)]);
        let bit = self.v_of(Opcode::VAndB32, &[2.into(), low.into()]);
        let upper = self.mask_of(Opcode::VCmpNeU32, &[0.into(), bit.into()]);
        if a.space == Space::Shared {
            let word = self.v_of(Opcode::VAndB32, &[(-4).into(), low.into()]);
            return Ok(((None, Some((word, 0))), upper));
        }
        let sum = self.vs(2);
        let by = Operand::Imm(a.offset.into());
        self.plus(sum, [part(base, 0), part(base, 1)], [part(by, 0), part(by, 1)]);
        let word = self.vs(2);
        self.valu(Opcode::VAndB32, word.part(0, 1), &[(-4).into(), sum.part(0, 1).into()]);
        self.valu(Opcode::VMovB32, word.part(1, 1), &[sum.part(1, 1).into()]);
        Ok(((Some((word.into(), Operand::Off, 0)), None), upper))
    }

    fn update(
        code: Opcode,
        returned: Option<Span>,
        global: &Option<(Operand, Operand, i32)>,
        shared: &Option<(Span, i32)>,
        data: &[Span],
    ) -> Result<Inst, SelectError> {
        let mut operands: Vec<Operand> = returned.into_iter().map(Operand::Reg).collect();
        let offset = match (global, shared) {
            (Some((at, base, offset)), _) => {
                operands.push(*at);
                operands.extend(data.iter().map(|&d| Operand::Reg(d)));
                operands.push(*base);
                *offset
            }
            (None, Some((at, offset))) => {
                operands.push(Operand::Reg(*at));
                operands.extend(data.iter().map(|&d| Operand::Reg(d)));
                *offset
            }
            (None, None) => return Err(SelectError::Instruction(LaneOpcode::Atomic, Reason::Undefined)),
        };
        Ok(Inst::new(code, operands).with(Mods { offset, ..Mods::default() }))
    }
}
