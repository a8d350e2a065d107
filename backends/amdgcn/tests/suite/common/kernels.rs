//! Small programs.

use super::judge::program;
use cranelift_entity::PrimaryMap;
use tilelift_amdgcn::Chip;
use tilelift_amdgcn::isa::Opcode;
use tilelift_amdgcn::mir::{ArgKind, Block, BlockData, Entry, File, Inst, KernArg, Operand, Program, Span, Spilled};

fn s(first: u16, words: u8) -> Operand {
    Span::physical(File::Scalar, first, words).into()
}

fn v(first: u16) -> Operand {
    Span::physical(File::Vector, first, 1).into()
}

/// A loop with a way out in its middle, and arguments of several sizes.
pub fn branches(chip: Chip) -> Program {
    use Opcode::*;
    let to = |block: u32| Operand::Block(Block::from_u32(block));
    let inst = |op, operands: Vec<Operand>| Inst::new(op, operands);
    let blocks = [
        vec![
            inst(SLoadDwordx4, vec![s(4, 4), s(0, 2), 0.into()]),
            inst(SMovB32, vec![s(8, 1), 1000.into()]),
            inst(SWaitcnt, vec![0xc07f.into()]),
        ],
        vec![inst(SSubU32, vec![s(8, 1), s(8, 1), 1.into()]), inst(SCmpEqU32, vec![s(8, 1), 7.into()]), inst(SCbranchScc1, vec![to(3)])],
        vec![inst(VAddF32, vec![v(1), s(8, 1), v(1)]), inst(SCmpLgU32, vec![s(8, 1), 0.into()]), inst(SCbranchScc1, vec![to(1)])],
        vec![inst(GlobalStoreDword, vec![v(0), v(1), s(4, 2)]), inst(SEndpgm, vec![])],
    ];
    let mut list = PrimaryMap::new();
    for insts in blocks {
        list.push(BlockData { insts, ..BlockData::default() });
    }
    let args = [(0, 8, true), (8, 8, true), (16, 4, false), (20, 2, false), (22, 1, false)];
    Program {
        name: "loop_of_two".to_owned(),
        waves: 4,
        lds_bytes: 4096,
        args: args
            .into_iter()
            .map(|(offset, size, pointer)| KernArg { offset, size, kind: if pointer { ArgKind::Pointer } else { ArgKind::Value } })
            .collect(),
        blocks: list,
        entry: Entry { workgroup: [true, true, false] },
        scratch_bytes: 16,
        spilled: Spilled::default(),
        ..program(chip, Vec::new())
    }
}

/// Programs that take from few to all registers of each file.
pub fn every_size(chip: Chip) -> Vec<Program> {
    let sizes = [(3, 1, 0), (17, 4, 0), (24, 5, 4), (42, 64, 0), (90, 128, 128), (102, 256, 3), (96, 255, 256), (33, 9, 17)];
    sizes
        .into_iter()
        .map(|(scalars, vectors, accs)| {
            let mut insts =
                vec![Inst::new(Opcode::SMovB32, [s(scalars - 1, 1), 0.into()]), Inst::new(Opcode::VMovB32, [v(vectors - 1), 0.into()])];
            if accs > 0 {
                let acc = Span::physical(File::Acc, accs - 1, 1);
                insts.push(Inst::new(Opcode::VAccvgprWriteB32, [acc.into(), 0.into()]));
            }
            insts.push(Inst::new(Opcode::SEndpgm, []));
            Program { waves: 2, lds_bytes: u32::from(scalars) * 64, ..program(chip, insts) }
        })
        .collect()
}
