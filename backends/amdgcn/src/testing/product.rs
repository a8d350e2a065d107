//! A loop of products of tiles, as kernels have it.

use crate::chip::Chip;
use crate::isa::Opcode;
use crate::mir::{Block, BlockData, File, Inst, Operand, Program, Reg, Span, VRegData};
use crate::testing::generate::empty;
use cranelift_entity::EntityRef;

/// A loop of a matrix product: `rows` × `columns` tiles of 32×32 sums per wavefront, loads from memory of the next step in flight.
pub(crate) fn product(waves: u32, rows: usize, columns: usize, steps: usize) -> Program {
    let mut p = empty(Chip::Gfx942, waves);
    let reg = |p: &mut Program, file: File, words: u8, either: bool| {
        let align = if words == 1 { 1 } else { 2 };
        Span::whole(p.vregs.push(VRegData { file, either, words, align }), words)
    };
    let (mut head, mut body, mut tail) = (BlockData::default(), BlockData { depth: 1, ..BlockData::default() }, BlockData::default());
    let base = reg(&mut p, File::Scalar, 2, false);
    head.insts.push(Inst::new(Opcode::SLoadDwordx2, [base.into(), Span::physical(File::Scalar, 0, 2).into(), Operand::Imm(0)]));
    let lane = reg(&mut p, File::Vector, 1, false);
    head.insts.push(Inst::new(Opcode::VAndB32, [lane.into(), Operand::Imm(63), Span::physical(File::Vector, 0, 1).into()]));
    let sums: Vec<Span> = (0..rows * columns).map(|_| reg(&mut p, File::Vector, 16, true)).collect();
    for sum in &sums {
        for word in 0..16 {
            head.insts.push(Inst::new(Opcode::VMovB32, [sum.part(word, 1).into(), Operand::Imm(0)]));
        }
    }
    if rows * columns > 12 {
        // Sums that no vector instruction touches.
        head.insts.truncate(2);
        let zero: Vec<Inst> = sums
            .iter()
            .flat_map(|s| (0..16).map(|w| Inst::new(Opcode::VAccvgprWriteB32, [s.part(w, 1).into(), Operand::Imm(0)])))
            .collect();
        head.insts.extend(zero);
        for sum in &sums {
            if let Reg::Virtual(r) = sum.reg {
                (p.vregs[r].file, p.vregs[r].either) = (File::Acc, false);
            }
        }
    }
    let counter = reg(&mut p, File::Scalar, 1, false);
    head.insts.push(Inst::new(Opcode::SMovB32, [counter.into(), Operand::Imm(9)]));
    let next: Vec<Span> = (0..rows + columns).map(|_| reg(&mut p, File::Vector, 4, false)).collect();
    let load = |to: Span| Inst::new(Opcode::GlobalLoadDwordx4, [to.into(), lane.into(), base.into()]);
    head.insts.extend(next.iter().map(|&n| load(n)));
    for _ in 0..steps {
        body.insts.extend(next.iter().map(|&n| Inst::new(Opcode::DsWriteB128, [lane.into(), n.into()])));
        body.insts.push(Inst::new(Opcode::SBarrier, []));
        body.insts.extend(next.iter().map(|&n| load(n)));
        let parts: Vec<Span> = (0..rows + columns).map(|_| reg(&mut p, File::Vector, 4, true)).collect();
        body.insts.extend(parts.iter().map(|&to| Inst::new(Opcode::DsReadB128, [to.into(), lane.into()])));
        for half in [0, 2] {
            for (i, &sum) in sums.iter().enumerate() {
                let (a, b) = (parts[i % rows].part(half, 2), parts[rows + i / rows].part(half, 2));
                body.insts.push(Inst::new(Opcode::VMfmaF32_32x32x8F16, [sum.into(), a.into(), b.into(), sum.into()]));
            }
        }
        body.insts.push(Inst::new(Opcode::SBarrier, []));
    }
    let body_block = Block::new(1);
    body.insts.push(Inst::new(Opcode::SSubU32, [counter.into(), counter.into(), Operand::Imm(1)]));
    body.insts.push(Inst::new(Opcode::SCmpLgU32, [counter.into(), Operand::Imm(0)]));
    body.insts.push(Inst::new(Opcode::SCbranchScc1, [Operand::Block(body_block)]));
    for sum in &sums {
        tail.insts.extend((0..4).map(|i| Inst::new(Opcode::GlobalStoreDwordx4, [lane.into(), sum.part(4 * i, 4).into(), base.into()])));
    }
    tail.insts.push(Inst::new(Opcode::SEndpgm, []));
    head.next.push(body_block);
    body.next.extend([body_block, Block::new(2)]);
    p.blocks.push(head);
    p.blocks.push(body);
    p.blocks.push(tail);
    p
}
