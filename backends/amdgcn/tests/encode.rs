//! The encoder's bytes are LLVM's, for every instruction on every chip.

mod common;

use common::judge::{disagreements, is_missing};
use common::random::{Numbers, encodable};
use tilelift_amdgcn::Chip;
use tilelift_amdgcn::isa::{Kind, Opcode};
use tilelift_amdgcn::mir::Inst;

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

fn compare(seed: u64, each: usize) -> usize {
    let mut count = 0;
    let mut all = Vec::new();
    for chip in Chip::ALL.into_iter().filter(|&chip| !is_missing(chip)) {
        let insts = sample(chip, seed, each);
        count += insts.len();
        all.extend(disagreements(chip, &insts));
    }
    assert!(all.is_empty(), "{} rows disagree with LLVM\n{}", all.len(), all.join("\n"));
    count
}

#[test]
fn a_sample_of_every_row() {
    compare(17, 6);
}

/// `cargo test -p tilelift-amdgcn --test encode -- --ignored`
#[test]
#[ignore = "takes a minute"]
fn a_hundred_thousand_random_instructions() {
    let count = compare(0x5eed, 40);
    assert!(count > 100_000 || tilelift_oracle::zig().is_none(), "{count}");
}
