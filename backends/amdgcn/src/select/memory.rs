//! Loads and stores of global and shared memory, and guards.
//!
//! ```text
//! address    alike in all lanes   saddr, and a vector register with zero; else 64 bits in vector registers
//!            the offset           in the instruction, 13 bits with sign (global), 16 bits without (shared); what is beyond is added
//! guard      the operands are prepared, then  s_and_saveexec, the instruction, exec back; a load's registers hold the other values before
//! ```
//!
//! Values below 32 bits are packed into words in memory order: two halves or four bytes each.

use super::selector::{Done, Home, Selector, extended, part};
use crate::isa::Opcode;
use crate::mir::{Inst, Mods, Operand, Span};
use tilelift_ir::{CacheHint, Scalar};
use tilelift_lane::{LTy, LVal, Vals};

/// Lanes that are switched off, and what was there before.
pub(super) struct Guarded(Option<Span>);

/// Instructions by bytes: 1 to 16.
const fn global_load(bytes: u32, ty: LTy) -> Opcode {
    match (bytes, ty) {
        (1, LTy::I1) => Opcode::GlobalLoadUbyte,
        (1, _) => Opcode::GlobalLoadSbyte,
        (2, LTy::Num(Scalar::I16)) => Opcode::GlobalLoadSshort,
        (2, _) => Opcode::GlobalLoadUshort,
        (4, _) => Opcode::GlobalLoadDword,
        (8, _) => Opcode::GlobalLoadDwordx2,
        (12, _) => Opcode::GlobalLoadDwordx3,
        _ => Opcode::GlobalLoadDwordx4,
    }
}

const fn global_store(bytes: u32) -> Opcode {
    match bytes {
        1 => Opcode::GlobalStoreByte,
        2 => Opcode::GlobalStoreShort,
        4 => Opcode::GlobalStoreDword,
        8 => Opcode::GlobalStoreDwordx2,
        12 => Opcode::GlobalStoreDwordx3,
        _ => Opcode::GlobalStoreDwordx4,
    }
}

const fn buffer_load(bytes: u32, ty: LTy) -> Opcode {
    match (bytes, ty) {
        (1, LTy::I1) => Opcode::BufferLoadUbyte,
        (1, _) => Opcode::BufferLoadSbyte,
        (2, LTy::Num(Scalar::I16)) => Opcode::BufferLoadSshort,
        (2, _) => Opcode::BufferLoadUshort,
        (4, _) => Opcode::BufferLoadDword,
        (8, _) => Opcode::BufferLoadDwordx2,
        (12, _) => Opcode::BufferLoadDwordx3,
        _ => Opcode::BufferLoadDwordx4,
    }
}

const fn buffer_store(bytes: u32) -> Opcode {
    match bytes {
        1 => Opcode::BufferStoreByte,
        2 => Opcode::BufferStoreShort,
        4 => Opcode::BufferStoreDword,
        8 => Opcode::BufferStoreDwordx2,
        12 => Opcode::BufferStoreDwordx3,
        _ => Opcode::BufferStoreDwordx4,
    }
}

const fn shared_load(bytes: u32, ty: LTy) -> Opcode {
    match (bytes, ty) {
        (1, LTy::I1) => Opcode::DsReadU8,
        (1, _) => Opcode::DsReadI8,
        (2, LTy::Num(Scalar::I16)) => Opcode::DsReadI16,
        (2, _) => Opcode::DsReadU16,
        (4, _) => Opcode::DsReadB32,
        (8, _) => Opcode::DsReadB64,
        (12, _) => Opcode::DsReadB96,
        _ => Opcode::DsReadB128,
    }
}

const fn shared_store(bytes: u32) -> Opcode {
    match bytes {
        1 => Opcode::DsWriteB8,
        2 => Opcode::DsWriteB16,
        4 => Opcode::DsWriteB32,
        8 => Opcode::DsWriteB64,
        12 => Opcode::DsWriteB96,
        _ => Opcode::DsWriteB128,
    }
}

/// The bits that a hint sets.
fn cached(hint: CacheHint) -> Mods {
    let nt = match hint {
        CacheHint::Normal | CacheHint::EvictLast => false,
        CacheHint::Streaming | CacheHint::EvictFirst | CacheHint::Bypass => true,
    };
    Mods { nt, ..Mods::default() }
}

impl Selector<'_> {
    /// Switches off the lanes in which a guard does not hold. Until they are back, nothing may be made that other lanes need.
    pub(super) fn guard(&mut self, mask: Option<Span>) -> Guarded {
        let Some(mask) = mask else { return Guarded(None) };
        let before = self.s2();
        self.emit(Opcode::SAndSaveexecB64, [before.into(), mask.into()]);
        Guarded(Some(before))
    }

    /// All lanes take part again.
    pub(super) fn unguard(&mut self, g: Guarded) {
        if let Guarded(Some(before)) = g {
            self.emit(Opcode::SMovB64, [Span::EXEC.into(), before.into()]);
        }
    }

    /// A guard in registers; nothing if it holds always.
    pub(super) fn guard_mask(&mut self, guard: Option<LVal>) -> Option<Span> {
        let guard = guard?;
        match self.constant(guard) {
            Some(bits) if bits != 0 => None,
            _ => Some(self.mask(guard)),
        }
    }

    /// A global address: the operands for address and base, and the offset in the instruction.
    pub(super) fn global_address(&mut self, addr: LVal, offset: i32) -> (Operand, Operand, i32) {
        let fits = (-4096..4096).contains(&offset);
        let scalar = self.in_scalars(addr);
        let mut base = self.op(addr);
        if !fits {
            let by = i64::from(offset);
            base = if scalar {
                let base = self.in_scalar(base, 2);
                let sum = self.s2();
                self.salu(Opcode::SAddU32, Some(sum.part(0, 1)), &[part(base, 0), part(Operand::Imm(by), 0)]);
                self.salu(Opcode::SAddcU32, Some(sum.part(1, 1)), &[part(base, 1), part(Operand::Imm(by), 1)]);
                sum.into()
            } else {
                let sum = self.vs(2);
                let words = [part(base, 0), part(base, 1)];
                self.plus(sum, words, [part(Operand::Imm(by), 0), part(Operand::Imm(by), 1)]);
                sum.into()
            };
        }
        let offset = if fits { offset } else { 0 };
        if scalar {
            let base = self.in_scalar_regs(base, 2);
            let zero = self.in_vector(0.into(), 1);
            (zero.into(), base.into(), offset)
        } else {
            (self.in_vector(base, 2).into(), Operand::Off, offset)
        }
    }

    /// A shared address in a vector register, and the offset in the instruction.
    pub(super) fn shared_address(&mut self, addr: LVal, offset: i32, mut most: i32) -> (Span, i32) {
        most = most.min(65535);
        if let Some(bits) = self.constant(addr) {
            let at = (bits as i32).wrapping_add(offset);
            if (0..=most).contains(&at) {
                return (self.in_vector(0.into(), 1), at);
            }
            if at > 65535 {
                return (self.in_vector(Operand::Imm(at.into()), 1), 0);
            }
        }
        let base = self.op(addr);
        if (0..=most).contains(&offset) {
            return (self.in_vector(base, 1), offset);
        }
        (self.v_of(Opcode::VAddU32, &[Operand::Imm(offset.into()), base]), 0)
    }

    /// How many words consecutive values take, and their bytes.
    fn extent(&self, vals: &Vals) -> (u8, u32) {
        let bytes = vals.first().map_or(0, |&v| self.ty(v).bytes()) * vals.len() as u32;
        (bytes.div_ceil(4) as u8, bytes)
    }

    /// The registers that a load fills: those of the values, if they are consecutive words in their places.
    fn load_target(&mut self, dsts: &Vals, words: u8) -> (Span, bool) {
        let ty = dsts.first().map_or(LTy::B32, |&v| self.ty(v));
        if ty != LTy::I1 && ty.bits() >= 32 {
            if let Some(span) = self.together(dsts, words) {
                return (span, true);
            }
            if dsts.iter().all(|&d| self.webs.place(d).is_none()) {
                return (self.vs(words), false);
            }
        }
        (self.vs(words), false)
    }

    /// The registers of values that are placed side by side, at an even distance from the first of their register.
    pub(super) fn together(&mut self, vals: &Vals, words: u8) -> Option<Span> {
        let first = self.placed(*vals.first()?)?;
        let mut at = 0;
        for &v in vals {
            if self.placed(v)? != first.part(at, self.words(v)) {
                return None;
            }
            at += self.words(v);
        }
        (words == 1 || first.first.is_multiple_of(2)).then(|| first.part(0, words))
    }

    /// What masked lanes hold, word by word, before a load.
    pub(super) fn fill(&mut self, target: Span, other: &Vals, whole: bool) {
        let mut at = 0;
        let mut fills: Vec<Operand> = Vec::new();
        for &o in other {
            if !whole {
                break;
            }
            for w in 0..self.words(o) {
                fills.push(self.word(o, w));
            }
        }
        while at < target.words {
            let from = fills.get(usize::from(at)).copied().unwrap_or(Operand::Imm(0));
            self.emit(Opcode::VMovB32, [target.part(at, 1).into(), from]);
            at += 1;
        }
    }

    /// Makes the values of what a load left in registers. `other` replaces what masked lanes hold, where the load could not leave it there.
    fn spread(&mut self, dsts: &Vals, loaded: Span, in_place: bool, masked: Option<(Span, &Vals)>) -> Done {
        let mut at = 0;
        for (i, &d) in dsts.iter().enumerate() {
            let ty = self.ty(d);
            let bits = ty.bits();
            if in_place {
                self.homes[d] = Some(Home::Reg(loaded.part(at, self.words(d))));
                self.forget(loaded);
                at += self.words(d);
                continue;
            }
            if bits >= 32 && ty != LTy::I1 {
                let words = self.words(d);
                self.is(d, Home::Reg(loaded.part(at, words)));
                at += words;
                continue;
            }
            let per = 32 / bits;
            let word = Operand::Reg(loaded.part((i as u32 / per) as u8, 1));
            let number = i as u32 % per;
            let single = dsts.len() as u32 * bits <= bits;
            let other = masked.and_then(|(mask, other)| other.get(i).map(|&o| (mask, o)));
            let other = other.filter(|&(_, o)| self.constant(o) != Some(0));
            if ty == LTy::I1 {
                let byte =
                    if single { word } else { self.v_of(Opcode::VBfeU32, &[word, Operand::Imm(i64::from(8 * number)), 8.into()]).into() };
                let mut held = self.mask_of(Opcode::VCmpNeU32, &[0.into(), byte]);
                if let Some((mask, o)) = other {
                    let o = self.op(o);
                    let yes = self.s2_of(Opcode::SAndB64, &[held.into(), mask.into()]);
                    let no = self.s2_of(Opcode::SAndn2B64, &[o, mask.into()]);
                    held = self.s2_of(Opcode::SOrB64, &[yes.into(), no.into()]);
                }
                self.is(d, Home::Reg(held));
                continue;
            }
            let half = matches!(ty, LTy::Num(Scalar::F16 | Scalar::BF16));
            let value = if single || (half && number == 0) {
                word
            } else {
                let t = self.v();
                self.field(t, word, number, bits);
                t.into()
            };
            let Operand::Reg(mut span) = value else { continue };
            if let Some((mask, o)) = other {
                let o = self.op(o);
                let t = self.v();
                self.pick(t, mask, value, o);
                span = t;
            }
            self.is(d, Home::Reg(span));
        }
        Ok(())
    }

    pub(super) fn load_global(
        &mut self,
        dsts: &Vals,
        (addr, offset): (LVal, i32),
        guard: Option<LVal>,
        other: &Vals,
        cache: CacheHint,
    ) -> Done {
        let (words, bytes) = self.extent(dsts);
        let ty = dsts.first().map_or(LTy::B32, |&v| self.ty(v));
        if let Some(window) = self.windows.of(addr, guard) {
            let (at, resource) = (self.vector(window.at), self.buffer(window.base, window.bytes));
            let (target, in_place) = self.load_target(dsts, words);
            let load = Inst::new(buffer_load(bytes, ty), [target.into(), at.into(), resource.into(), 0.into()]);
            self.push(load.with(cached(cache)));
            return self.spread(dsts, target, in_place, None);
        }
        let mask = self.guard_mask(guard);
        let (at, base, offset) = self.global_address(addr, offset);
        let (target, in_place) = self.load_target(dsts, words);
        let whole = ty != LTy::I1 && ty.bits() >= 32;
        if mask.is_some() {
            self.fill(target, other, whole);
        }
        let g = self.guard(mask);
        self.push(Inst::new(global_load(bytes, ty), [target.into(), at, base]).with(Mods { offset, ..cached(cache) }));
        self.unguard(g);
        self.spread(dsts, target, in_place, mask.filter(|_| !whole && !other.is_empty()).map(|m| (m, other)))
    }

    pub(super) fn load_shared(&mut self, dsts: &Vals, addr: LVal, offset: i32) -> Done {
        let (words, bytes) = self.extent(dsts);
        let ty = dsts.first().map_or(LTy::B32, |&v| self.ty(v));
        let (at, offset) = self.shared_address(addr, offset, i32::MAX);
        let (target, in_place) = self.load_target(dsts, words);
        self.push(Inst::new(shared_load(bytes, ty), [target.into(), at.into()]).with(Mods { offset, ..Mods::default() }));
        self.spread(dsts, target, in_place, None)
    }

    /// Two loads as one instruction, if what they make stands, or may stand, side by side.
    pub(super) fn load_pair(&mut self, pair: &super::pairs::Pair) -> Result<bool, super::error::SelectError> {
        let apart = |s: &Self| pair.dsts.iter().any(|&d| s.webs.place(d).is_some() || !s.live.read(d));
        let words = 2 * pair.words;
        let (target, in_place) = match self.together(&pair.dsts, words) {
            Some(span) => (span, true),
            None if apart(self) => return Ok(false),
            None => (self.vs(words), false),
        };
        let (at, offset) = self.shared_address(pair.addr, 0, 0);
        if offset != 0 {
            return Ok(false);
        }
        let mods = Mods { offset: pair.offsets[0].into(), offset1: pair.offsets[1], ..Mods::default() };
        self.push(Inst::new(pair.op, [target.into(), at.into()]).with(mods));
        self.spread(&pair.dsts, target, in_place, None)?;
        Ok(true)
    }

    /// Two stores as one instruction, if the address needs no other offset.
    pub(super) fn store_pair(&mut self, pair: &super::pairs::StorePair<'_>) -> Result<bool, super::error::SelectError> {
        if self.constant(pair.addr).is_some() {
            return Ok(false);
        }
        let (at, _) = self.shared_address(pair.addr, 0, 0);
        let [a, b] = [self.stored(pair.srcs[0])?, self.stored(pair.srcs[1])?];
        let mods = Mods { offset: pair.offsets[0].into(), offset1: pair.offsets[1], ..Mods::default() };
        self.push(Inst::new(pair.op, [at.into(), a.into(), b.into()]).with(mods));
        Ok(true)
    }

    /// The values of a store, as words in a row of vector registers.
    fn stored(&mut self, srcs: &Vals) -> Result<Span, super::error::SelectError> {
        let (words, _) = self.extent(srcs);
        let ty = srcs.first().map_or(LTy::B32, |&v| self.ty(v));
        if ty == LTy::I1 {
            let bytes: Vec<Operand> = srcs
                .iter()
                .map(|&v| {
                    let mask = self.mask(v);
                    let byte = self.v();
                    self.pick(byte, mask, 1.into(), 0.into());
                    byte.into()
                })
                .collect();
            return self.words_of_parts(&bytes, 8, words);
        }
        if ty.bits() < 32 {
            let parts: Vec<Operand> = srcs.iter().map(|&v| self.op(v)).collect();
            return self.words_of_parts(&parts, ty.bits(), words);
        }
        Ok(self.tuple(srcs, words))
    }

    /// Words of 8- or 16-bit parts.
    fn words_of_parts(&mut self, parts: &[Operand], bits: u32, words: u8) -> Result<Span, super::error::SelectError> {
        if let [one] = *parts {
            return Ok(self.in_vector(one, 1));
        }
        let to = self.vs(words);
        let per = (32 / bits) as usize;
        for (w, chunk) in parts.chunks(per).enumerate() {
            // A word that is not full has any bits behind: two bytes are stored as a half.
            let mut chunk = chunk.to_vec();
            while chunk.len() < per {
                chunk.push(0.into());
            }
            self.packed(to.part(w as u8, 1), &chunk)?;
        }
        Ok(to)
    }

    /// Values as words in a row: where they are, if that is so, else copied together.
    pub(super) fn tuple(&mut self, vals: &[LVal], words: u8) -> Span {
        if let [one] = *vals {
            return self.vector(one);
        }
        for &v in vals {
            self.settled(v);
        }
        if let Some(span) = self.in_a_row(vals, words) {
            return span;
        }
        let to = self.vs(words);
        let mut at = 0;
        for &v in vals {
            for w in 0..self.words(v) {
                let from = self.word(v, w);
                self.emit(Opcode::VMovB32, [to.part(at, 1).into(), from]);
                at += 1;
            }
        }
        to
    }

    pub(super) fn in_a_row(&self, vals: &[LVal], words: u8) -> Option<Span> {
        let Home::Reg(first) = self.home(*vals.first()?) else { return None };
        if self.file(first) != crate::mir::File::Vector || !first.first.is_multiple_of(2) {
            return None;
        }
        let mut at = 0;
        for &v in vals {
            if self.home(v) != Home::Reg(first.part(at, self.words(v))) {
                return None;
            }
            at += self.words(v);
        }
        (at == words).then_some(Span { words, ..first })
    }

    pub(super) fn store_global(&mut self, srcs: &Vals, (addr, offset): (LVal, i32), guard: Option<LVal>, cache: CacheHint) -> Done {
        let (_, bytes) = self.extent(srcs);
        if let Some(window) = self.windows.of(addr, guard) {
            let (at, resource) = (self.vector(window.at), self.buffer(window.base, window.bytes));
            let data = self.stored(srcs)?;
            self.push(Inst::new(buffer_store(bytes), [data.into(), at.into(), resource.into(), 0.into()]).with(cached(cache)));
            return Ok(());
        }
        let mask = self.guard_mask(guard);
        let (at, base, offset) = self.global_address(addr, offset);
        let data = self.stored(srcs)?;
        let g = self.guard(mask);
        self.push(Inst::new(global_store(bytes), [at, data.into(), base]).with(Mods { offset, ..cached(cache) }));
        self.unguard(g);
        Ok(())
    }

    pub(super) fn store_shared(&mut self, srcs: &Vals, addr: LVal, offset: i32, guard: Option<LVal>) -> Done {
        let (_, bytes) = self.extent(srcs);
        let mask = self.guard_mask(guard);
        let (at, offset) = self.shared_address(addr, offset, i32::MAX);
        let data = self.stored(srcs)?;
        let g = self.guard(mask);
        self.push(Inst::new(shared_store(bytes), [at.into(), data.into()]).with(Mods { offset, ..Mods::default() }));
        self.unguard(g);
        Ok(())
    }

    /// A constant in its home.
    pub(super) fn literal(&mut self, dst: LVal, bits: u64) {
        let home = Home::Const(extended(bits, self.ty(dst)));
        self.is(dst, home);
    }
}
