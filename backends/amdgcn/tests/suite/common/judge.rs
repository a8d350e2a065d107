//! Our bytes beside LLVM's.

use cranelift_entity::PrimaryMap;
use std::collections::BTreeMap;
use tilelift_amdgcn::mir::{BlockData, Entry, Inst, Program, Spilled};
use tilelift_amdgcn::{Chip, encode, text};

/// A program of one block.
pub fn program(chip: Chip, insts: Vec<Inst>) -> Program {
    let mut blocks = PrimaryMap::new();
    blocks.push(BlockData { insts, ..BlockData::default() });
    Program {
        name: "k".to_owned(),
        chip,
        waves: 1,
        lds_bytes: 0,
        args: Vec::new(),
        vregs: PrimaryMap::new(),
        blocks,
        entry: Entry::default(),
        scratch_bytes: 0,
        spilled: Spilled::default(),
    }
}

/// True if there is no assembler for the chip, which is an error where oracles are required.
pub fn is_missing(chip: Chip) -> bool {
    let missing = !tilelift_oracle::assembles(chip.name());
    if missing {
        assert!(!tilelift_oracle::required(), "TILELIFT_REQUIRE_ORACLES is set, and there is no assembler for {chip}");
        eprintln!("no assembler for {chip}");
    }
    missing
}

/// Instructions whose bytes LLVM's assembler does not agree with: by opcode how many, and the first of them.
pub fn disagreements(chip: Chip, insts: &[Inst]) -> Vec<String> {
    let mut found: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for batch in insts.chunks(20_000) {
        let code = encode::encode(&program(chip, batch.to_vec())).unwrap();
        let ends = code.starts.iter().skip(1).copied().chain([code.bytes.len() as u32]);
        let lines: Vec<String> = batch.iter().map(|i| text::inst(i, chip)).collect();
        let answers = tilelift_oracle::encodings(chip.name(), &lines).unwrap();
        for ((((inst, line), answer), &start), end) in batch.iter().zip(&lines).zip(answers).zip(&code.starts).zip(ends) {
            let ours = &code.bytes[start as usize..end as usize];
            if answer.as_deref() != Ok(ours) {
                let theirs = answer.map_or_else(|e| e, |bytes| hex(&bytes));
                let entry =
                    found.entry(format!("{:?}", inst.op)).or_insert((0, format!("{line}\n    ours   {}\n    theirs {theirs}", hex(ours))));
                entry.0 += 1;
            }
        }
    }
    found.into_iter().map(|(op, (count, first))| format!("{chip} {op} ({count}): {first}")).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.chunks(4).map(|w| w.iter().rev().map(|b| format!("{b:02x}")).collect::<String>()).collect::<Vec<_>>().join(" ")
}
