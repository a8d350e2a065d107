//! The encoder's bytes are LLVM's, for every instruction on every chip.

use crate::common::judge::{disagreements, is_missing};
use crate::common::random::{Numbers, encodable};
use tilelift_amdgcn::Chip;
use tilelift_amdgcn::encode::check;
use tilelift_amdgcn::isa::{Kind, Opcode};
use tilelift_amdgcn::mir::{File, Inst, Mods, Operand, Span};

/// Rows that a chip has, without branches: those have no bytes without a program around them.
fn rows(chip: Chip) -> impl Iterator<Item = Opcode> {
    Opcode::all().filter(move |op| op.desc().number(chip).is_some() && op.desc().slots.iter().all(|s| s.kind != Kind::Target))
}

/// So many instructions of each row, or fewer where operands leave no choice.
fn sample(chip: Chip, seed: u64, each: usize) -> Vec<Inst> {
    let mut numbers = Numbers(seed);
    let mut insts = Vec::new();
    for op in rows(chip) {
        let before = insts.len();
        insts.extend((0..each).filter_map(|_| encodable(op, chip, &mut numbers)));
        assert!(insts.len() > before, "{op:?} has no encoding on {chip}");
    }
    insts
}

/// Compares what is made for each chip, and says how many that were.
fn compare(make: impl Fn(Chip) -> Vec<Inst>) -> usize {
    let mut count = 0;
    let mut all = Vec::new();
    for chip in Chip::ALL.into_iter().filter(|&chip| !is_missing(chip)) {
        let insts = make(chip);
        count += insts.len();
        all.extend(disagreements(chip, &insts));
    }
    assert!(all.is_empty(), "{} rows disagree with LLVM\n{}", all.len(), all.join("\n"));
    count
}

#[test]
fn a_sample_of_every_row() {
    compare(|chip| sample(chip, 17, 6));
}

/// From instructions without modifiers, those in which one operand is each of all kinds that can stand there.
fn every_operand(chip: Chip) -> Vec<Inst> {
    let mut numbers = Numbers(3);
    let mut insts = Vec::new();
    for op in rows(chip) {
        let plain: Vec<Inst> =
            (0..40).filter_map(|_| encodable(op, chip, &mut numbers)).filter(|i| i.mods == Mods::default()).take(4).collect();
        assert!(!plain.is_empty(), "{op:?} has no encoding without modifiers on {chip}");
        for at in 0..op.desc().slots.len() {
            let before = insts.len();
            for inst in &plain {
                let words = match inst.operands[at] {
                    Operand::Reg(span) => span.words,
                    _ => op.desc().slots[at].words,
                };
                insts.extend(choices(words).filter_map(|operand| {
                    let mut inst = inst.clone();
                    inst.operands[at] = operand;
                    check(&inst, chip).ok().map(|()| inst)
                }));
            }
            assert!(insts.len() > before, "{op:?}: nothing can be operand {at} on {chip}");
        }
    }
    insts
}

/// Operands of so many words.
fn choices(words: u8) -> impl Iterator<Item = Operand> {
    let last = |limit: u16, align: u16| (limit - u16::from(words)) / align * align;
    let even = if words > 1 { 2 } else { 1 };
    let registers = [
        Span::physical(File::Vector, 0, words),
        Span::physical(File::Vector, last(256, even), words),
        Span::physical(File::Acc, 0, words),
        Span::physical(File::Acc, last(256, even), words),
        Span::physical(File::Scalar, 0, words),
        Span::physical(File::Scalar, last(102, u16::from(words.clamp(1, 4))), words),
        Span::VCC.part(0, words),
        Span::VCC.part(1, words),
        Span::EXEC.part(0, words),
        Span::EXEC.part(1, words),
        Span::FLAT_SCRATCH.part(0, words),
        Span::FLAT_SCRATCH.part(1, words),
        Span::M0,
    ];
    let integers = [
        -20,
        -17,
        -16,
        -1,
        0,
        1,
        64,
        65,
        0x3c00,
        0x3118,
        0x7fff,
        0xffff,
        0x12345,
        0xfffff,
        0x3f80_0000,
        0x3e22_f983,
        0x7fff_ffff,
        0xffff_ffff,
    ];
    let doubles = [0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0, 100.0, std::f64::consts::FRAC_1_PI / 2.0];
    let constants = integers.into_iter().chain(doubles.map(|d: f64| d.to_bits() as i64)).map(Operand::Imm);
    registers.into_iter().map(Operand::Reg).chain(constants).chain([Operand::Off])
}

#[test]
fn every_kind_of_operand() {
    compare(every_operand);
}

#[test]
fn a_hundred_thousand_random_instructions() {
    let count = compare(|chip| sample(chip, 0x5eed, 40));
    assert!(count > 100_000 || tilelift_oracle::zig().is_none(), "{count}");
}
