//! Random instructions, from a seed: operands by slot, modifiers by format. Not all of them can be encoded.

use tilelift_amdgcn::Chip;
use tilelift_amdgcn::isa::{Access, Format, Kind, Opcode, Slot, Value, Variant};
use tilelift_amdgcn::mir::{Dpp, File, Inst, Mods, Operand, Part, Rest, Sdwa, Span};

/// Numbers from a seed.
pub struct Numbers(pub u64);

impl Numbers {
    /// The next one: splitmix64.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// One below a bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

/// An instruction that can be encoded, or none after some attempts.
pub fn encodable(op: Opcode, chip: Chip, numbers: &mut Numbers) -> Option<Inst> {
    (0..60).map(|_| inst(op, numbers)).find(|i| tilelift_amdgcn::encode::check(i, chip).is_ok())
}

/// An instruction.
pub fn inst(op: Opcode, n: &mut Numbers) -> Inst {
    let desc = op.desc();
    let mods = mods(op, n);
    let mut acc = n.once_in(3);
    let based = n.once_in(2);
    let mut operands = Vec::new();
    for (at, slot) in desc.slots.iter().enumerate() {
        if desc.form.format == Format::Mai || desc.form.format == Format::Vop3px2 {
            acc = if at == 1 || at == 2 { n.once_in(2) } else { acc && (at != 1 && at != 2) };
        }
        let mut slot = *slot;
        if desc.form.variant == Variant::Narrow && slot.kind == Kind::VectorOrAcc && slot.access == Access::Use {
            slot.words = [8, 8, 6, 6, 4][usize::from(if at == 1 { mods.cbsz } else { mods.blgp }.min(4))];
        }
        operands.push(operand(&slot, n, acc, based));
    }
    if matches!(desc.form.format, Format::Mai | Format::Vop3px2) && operands.len() > 3 {
        // C and D are of one file, and overlap in whole or not at all.
        if let (Operand::Reg(d), Operand::Reg(_)) = (operands[0], operands[3])
            && n.once_in(2)
        {
            operands[3] = Operand::Reg(d);
        }
    }
    Inst::new(op, operands).with(mods)
}

fn vector(n: &mut Numbers, file: File, words: u8) -> Operand {
    let limit = (256 - u64::from(words)) / if words > 1 { 2 } else { 1 };
    let first = match n.below(8) {
        0 => 0,
        1 => limit,
        _ => n.below(limit + 1),
    };
    Operand::Reg(Span::physical(file, (first * if words > 1 { 2 } else { 1 }) as u16, words))
}

fn scalar(n: &mut Numbers, words: u8) -> Operand {
    match (n.below(10), words) {
        (0, 1) => return Operand::Reg(Span::M0),
        (1, 1) => return Operand::Reg(Span::VCC.part(n.below(2) as u8, 1)),
        (2, 1) => return Operand::Reg(Span::EXEC.part(n.below(2) as u8, 1)),
        (3, 1) => return Operand::Reg(Span::FLAT_SCRATCH.part(n.below(2) as u8, 1)),
        (0 | 1 | 3 | 4, 2) => return Operand::Reg(Span::VCC),
        (2, 2) => return Operand::Reg(Span::EXEC),
        (5, 2) => return Operand::Reg(Span::FLAT_SCRATCH),
        _ => {}
    }
    let align = u64::from(words.min(4));
    let slots = (102 - u64::from(words)) / align + 1;
    Operand::Reg(Span::physical(File::Scalar, (n.below(slots) * align) as u16, words))
}

fn constant(n: &mut Numbers, value: Value, words: u8) -> Operand {
    let wide = words >= 2 && !matches!(value, Value::PackedF32 | Value::PackedBits);
    let half = matches!(value, Value::F16 | Value::I16 | Value::PackedF16 | Value::PackedI16);
    let float: f64 = n.pick(&[0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0, 3.0, 100.0, -0.375]);
    let bits = match n.below(4) {
        0 => n.below(90) as i64 - 20,
        1 if half => i64::from(n.pick(&[0x3800u16, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118, 0x4200])),
        1 if wide => n.pick(&[float.to_bits() as i64, 0x3fc4_5f30_6dc9_c882]),
        1 => i64::from(n.pick(&[(float as f32).to_bits(), 0x3e22_f983])),
        2 if half => n.below(0x1_0000) as i64,
        2 if wide && value == Value::F64 => (n.bits() & 0xffff_ffff_0000_0000) as i64,
        2 if wide => n.below(1 << 31) as i64,
        2 => n.below(1 << 32) as i64,
        _ => i64::from(n.pick(&[0u8, 1, 64])),
    };
    Operand::Imm(bits)
}

fn operand(slot: &Slot, n: &mut Numbers, acc: bool, based: bool) -> Operand {
    let words = slot.words;
    let file = if acc { File::Acc } else { File::Vector };
    match slot.kind {
        Kind::Vector => vector(n, File::Vector, words),
        Kind::VectorOrAcc => vector(n, file, words),
        Kind::Acc => vector(n, File::Acc, words),
        Kind::Source => match n.below(5) {
            0 => scalar(n, words),
            1 => constant(n, slot.value, words),
            _ => vector(n, File::Vector, words),
        },
        Kind::AccSource if n.once_in(3) => constant(n, slot.value, if slot.value == Value::F64 { 2 } else { 1 }),
        Kind::AccSource => vector(n, file, words),
        Kind::VectorOrOff if n.once_in(3) => Operand::Off,
        Kind::VectorOrOff => vector(n, File::Vector, words),
        Kind::Address => vector(n, File::Vector, if based { 1 } else { 2 }),
        Kind::Scalar => scalar(n, words),
        Kind::ScalarOrOff if words == 2 && !based => Operand::Off,
        Kind::ScalarOrOff if words == 1 && n.once_in(2) => Operand::Off,
        Kind::ScalarOrOff => scalar(n, words),
        Kind::ScalarSource if n.once_in(2) => constant(n, slot.value, words),
        Kind::ScalarSource => scalar(n, words),
        Kind::ScalarOffset if n.once_in(3) => scalar(n, words),
        Kind::ScalarOffset => Operand::Imm(n.below(1 << 21) as i64 - (1 << 20)),
        Kind::Field => Operand::Imm(n.below(0x1_0000) as i64),
        Kind::Literal => Operand::Imm(n.below(1 << 32) as i64),
        Kind::Target => Operand::Block(tilelift_amdgcn::mir::Block::from_u32(0)),
    }
}

fn mods(op: Opcode, n: &mut Numbers) -> Mods {
    let form = op.desc().form;
    let mut m = Mods::default();
    match form.format {
        Format::Smem if n.once_in(3) => m.offset = n.below(1 << 21) as i32 - (1 << 20),
        Format::Ds if form.variant == Variant::TwoOffsets => (m.offset, m.offset1) = (n.below(256) as i32, n.below(256) as u8),
        Format::Ds => m.offset = n.below(0x1_0000) as i32,
        Format::Global | Format::Scratch => m.offset = n.below(0x2000) as i32 - 0x1000,
        Format::Mubuf => m.offset = n.below(0x1000) as i32,
        _ => {}
    }
    if n.once_in(3) {
        return Mods::default();
    }
    match form.format {
        Format::Global | Format::Scratch | Format::Mubuf => {
            (m.sc0, m.sc1, m.nt) = (n.once_in(3), n.once_in(3), n.once_in(3));
        }
        Format::Vop1 | Format::Vop2 | Format::Vopc if n.once_in(3) => {
            if n.once_in(2) {
                let ctrl = n.pick(&[0u16, 0x1b, 0xb1, 0x101, 0x10f, 0x113, 0x128, 0x140, 0x141, 0x142, 0x143, 0x150, 0x15f]);
                m.dpp = Some(Dpp { ctrl, row_mask: n.below(16) as u8, bank_mask: n.below(16) as u8, bound_ctrl: n.once_in(2) });
            } else {
                let parts = [Part::Byte0, Part::Byte1, Part::Byte2, Part::Byte3, Part::Word0, Part::Word1, Part::Dword];
                let one =
                    op.desc().slots.iter().filter(|s| s.access == Access::Use && matches!(s.kind, Kind::Source | Kind::Vector)).count()
                        == 1;
                let whole = form.format == Format::Vopc || form.variant == Variant::Halves;
                m.sdwa = Some(Sdwa {
                    dst: if whole { Part::Dword } else { n.pick(&parts) },
                    rest: if whole { Rest::Zero } else { n.pick(&[Rest::Zero, Rest::Sign, Rest::Keep]) },
                    src: [n.pick(&parts), if one { Part::Dword } else { n.pick(&parts) }],
                    signed: n.below(4) as u8 & if n.once_in(2) { 3 } else { 0 },
                });
            }
            (m.neg, m.abs) = if n.once_in(2) { (n.below(4) as u8, n.below(4) as u8) } else { (0, 0) };
        }
        Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3a | Format::Vop3b => {
            m.neg = n.below(8) as u8 & if n.once_in(2) { 7 } else { 0 };
            m.abs = n.below(8) as u8 & if n.once_in(3) { 7 } else { 0 };
            m.clamp = n.once_in(4);
            m.op_sel = n.below(16) as u8 & if n.once_in(2) { 15 } else { 0 };
        }
        Format::Vop3p => {
            let mixed = form.variant == Variant::Mix;
            m.neg = n.below(8) as u8 & if n.once_in(2) { 7 } else { 0 };
            m.neg_hi = n.below(8) as u8 & if n.once_in(2) && !mixed { 7 } else { 0 };
            m.abs = n.below(8) as u8 & if n.once_in(2) && mixed { 7 } else { 0 };
            m.op_sel = n.below(8) as u8 & if n.once_in(2) { 7 } else { 0 };
            m.op_sel_hi = n.below(8) as u8 & if n.once_in(2) && mixed { 7 } else { 0 };
            m.op_sel_hi_off = n.below(8) as u8 & if n.once_in(2) && !mixed { 7 } else { 0 };
            m.clamp = n.once_in(4);
        }
        Format::Mai | Format::Vop3px2 => {
            let narrow = form.variant == Variant::Narrow;
            m.cbsz = n.below(if narrow { 5 } else { 8 }) as u8;
            m.abid = if narrow { 0 } else { n.below(16) as u8 };
            m.blgp = n.below(if narrow { 5 } else { 8 }) as u8;
            if form.format == Format::Vop3px2 {
                (m.op_sel, m.op_sel_hi) = (n.below(4) as u8, n.below(4) as u8);
            }
            if !narrow && n.once_in(2) {
                (m.cbsz, m.abid, m.blgp) = (0, 0, n.below(8) as u8);
            }
        }
        _ => {}
    }
    m
}
