//! Instructions with operands that they can have.
//!
//! A scalar instruction takes one literal. A vector instruction reads one scalar register or literal at most, and literals only in its short form.
//! What is too much is loaded or copied in front of it.

use super::selector::Selector;
use crate::isa::{Constant, Format, Kind, Opcode, Value};
use crate::mir::{File, Fixed, Inst, Mods, Operand, Reg, Span};
use smallvec::SmallVec;

impl Selector<'_> {
    /// An instruction as it is.
    pub(super) fn emit(&mut self, op: Opcode, operands: impl IntoIterator<Item = Operand>) {
        self.push(Inst::new(op, operands));
    }

    /// The same, with modifiers.
    pub(super) fn push(&mut self, inst: Inst) {
        self.mir.blocks[self.at].insts.push(inst);
    }

    /// A scalar instruction: what literals are too many, or too long, are loaded first.
    pub(super) fn salu(&mut self, op: Opcode, to: Option<Span>, from: &[Operand]) {
        let desc = op.desc();
        let first = usize::from(to.is_some());
        let mut literal = None;
        let mut operands: SmallVec<[Operand; 5]> = to.into_iter().map(Operand::Reg).collect();
        for (i, &source) in from.iter().enumerate() {
            let slot = desc.slots.get(first + i);
            let words = slot.map_or(1, |s| s.words);
            let takes_any = slot.is_some_and(|s| s.kind == Kind::ScalarSource);
            let mut source = self.in_scalar(source, words);
            if let Operand::Imm(bits) = source
                && takes_any
                && !(-16..=64).contains(&bits)
            {
                if words == 1 && literal.is_none_or(|l| l == bits) {
                    literal = Some(bits);
                } else {
                    source = self.scalar_const(bits as u64, words).into();
                }
            }
            operands.push(source);
        }
        self.emit(op, operands);
    }

    /// A scalar instruction with a result of one word.
    pub(super) fn s_of(&mut self, op: Opcode, from: &[Operand]) -> Span {
        let to = self.s();
        self.salu(op, Some(to), from);
        to
    }

    /// A scalar instruction with a result of two words.
    pub(super) fn s2_of(&mut self, op: Opcode, from: &[Operand]) -> Span {
        let to = self.s2();
        self.salu(op, Some(to), from);
        to
    }

    /// A vector instruction with a result.
    pub(super) fn valu(&mut self, op: Opcode, to: Span, from: &[Operand]) {
        self.valu_with(op, &[to], from, Mods::default());
    }

    /// A vector instruction with a result of one word.
    pub(super) fn v_of(&mut self, op: Opcode, from: &[Operand]) -> Span {
        let to = self.v();
        self.valu(op, to, from);
        to
    }

    /// A vector instruction with a result of two words.
    pub(super) fn v2_of(&mut self, op: Opcode, from: &[Operand]) -> Span {
        let to = self.vs(2);
        self.valu(op, to, from);
        to
    }

    /// A comparison of lanes.
    pub(super) fn mask_of(&mut self, op: Opcode, from: &[Operand]) -> Span {
        let to = self.s2();
        self.valu(op, to, from);
        to
    }

    /// A vector instruction with results and modifiers.
    pub(super) fn valu_with(&mut self, op: Opcode, to: &[Span], from: &[Operand], mods: Mods) {
        let desc = op.desc();
        let slots = desc.slots.get(to.len()..).unwrap_or(&[]);
        // Masks, and what only a scalar register can hold, come first: nothing takes their place.
        let mut bus: Option<Operand> = from.iter().zip(slots).find(|(_, s)| s.kind == Kind::Scalar).map(|(o, _)| *o);
        let short = matches!(desc.form.format, Format::Vop1 | Format::Vop2 | Format::Vopc) && mods == Mods::default();
        let others_vector = |sel: &Selector<'_>, at: usize| {
            from.iter()
                .zip(slots)
                .enumerate()
                .all(|(i, (o, s))| i == at || s.kind != Kind::Source || matches!(o, Operand::Reg(r) if sel.file(*r) == File::Vector))
        };
        let mut operands: SmallVec<[Operand; 5]> = to.iter().map(|&t| Operand::Reg(t)).collect();
        for (i, (&source, slot)) in from.iter().zip(slots).enumerate() {
            let words = slot.words;
            // Only a register's sign can be changed.
            let signed = (mods.neg | mods.abs) >> i & 1 == 1;
            let source = match (source, slot.kind) {
                (Operand::Reg(span), Kind::Source) if self.file(span) != File::Vector => match bus {
                    Some(taken) if taken != source => self.in_vector(source, words).into(),
                    _ => {
                        bus = Some(source);
                        source
                    }
                },
                (Operand::Imm(bits), Kind::Source) if signed || !inline(bits, words, slot.value) => {
                    // Only one-word operands of the short form take literals as they are.
                    let in_place = i == 0 && short && bus.is_none() && words == 1 && others_vector(self, i) && plain(desc.form.format, to);
                    if in_place {
                        bus = Some(source);
                        source
                    } else if bus.is_none() {
                        let loaded = Operand::Reg(self.scalar_const(bits as u64, words));
                        bus = Some(loaded);
                        loaded
                    } else {
                        self.in_vector(source, words).into()
                    }
                }
                (Operand::Reg(_) | Operand::Imm(_), Kind::Vector) => self.in_vector(source, words).into(),
                _ => source,
            };
            operands.push(source);
        }
        self.push(Inst { op, operands, mods });
    }
}

/// True if the short form can write there: masks only to `vcc`.
fn plain(format: Format, to: &[Span]) -> bool {
    match format {
        Format::Vopc => to.iter().all(|t| t.reg == Reg::Fixed(Fixed::Vcc)),
        _ => to.len() == 1,
    }
}

/// True for constants that an operand holds without a literal.
pub(super) fn inline(bits: i64, words: u8, value: Value) -> bool {
    matches!(Constant::of(bits, value, words), Ok(Constant::Integer(_) | Constant::Float(_)))
}
