//! What cannot be encoded is refused, and the error names the reason.

use crate::common::judge::program;
use cranelift_entity::PrimaryMap;
use tilelift_amdgcn::Chip;
use tilelift_amdgcn::encode::{EncodeReason, Misfit, Modifier, check, encode};
use tilelift_amdgcn::isa::Opcode::{self, *};
use tilelift_amdgcn::isa::{NoConstant, Wait};
use tilelift_amdgcn::mir::{Block, BlockData, File, Inst, Mods, Operand, Program, Span, VReg};

fn s(first: u16, words: u8) -> Operand {
    Span::physical(File::Scalar, first, words).into()
}

fn v(first: u16, words: u8) -> Operand {
    Span::physical(File::Vector, first, words).into()
}

fn a(first: u16, words: u8) -> Operand {
    Span::physical(File::Acc, first, words).into()
}

fn refused(op: Opcode, operands: &[Operand], mods: Mods, reason: EncodeReason) {
    assert_eq!(check(&Inst::new(op, operands.iter().copied()).with(mods), Chip::Gfx942), Err(reason), "{op:?}");
}

#[test]
fn operands_that_cannot_stand_there() {
    let plain = Mods::default();
    let operand = |at, misfit| EncodeReason::Operand(at, misfit);
    let vcc = Operand::Reg(Span::VCC);
    refused(SAddU32, &[s(0, 1), s(1, 1)], plain, EncodeReason::Operands(2));
    refused(SAddU32, &[s(0, 1), v(1, 1), s(1, 1)], plain, operand(1, Misfit::Kind));
    refused(SAddU32, &[s(102, 1), s(1, 1), s(1, 1)], plain, operand(0, Misfit::Range));
    refused(SMovB64, &[s(1, 2), s(2, 2)], plain, operand(0, Misfit::Alignment));
    refused(SMovB64, &[s(2, 2), (-200).into()], plain, operand(1, Misfit::Constant(NoConstant::NoLiteral)));
    refused(SMovB32, &[s(2, 1), (1 << 32).into()], plain, operand(1, Misfit::Constant(NoConstant::TooWide)));
    refused(SLoadDwordx4, &[s(6, 4), s(0, 2), 0.into()], plain, operand(0, Misfit::Alignment));
    refused(SLoadDword, &[s(6, 1), s(0, 2), (1 << 20).into()], plain, operand(2, Misfit::Field));
    refused(SMovkI32, &[s(0, 1), 0x1_0000.into()], plain, operand(1, Misfit::Field));
    refused(VMovB32, &[Span::whole(VReg::from_u32(0), 1).into(), 0.into()], plain, operand(0, Misfit::Virtual));
    refused(VMovB32, &[v(0, 2), 0.into()], plain, operand(0, Misfit::Words));
    refused(VMovB32, &[a(0, 1), 0.into()], plain, operand(0, Misfit::Kind));
    refused(VAddF64, &[v(1, 2), v(2, 2), v(4, 2)], plain, operand(0, Misfit::Alignment));
    refused(VFmaF32, &[v(0, 1), v(1, 1), v(2, 1), 0x1234.into()], plain, operand(3, Misfit::Literal));
    refused(VAddF32, &[v(0, 1), v(1, 1), 0x1234.into()], plain, operand(2, Misfit::Literal));
    refused(VPkFmacF16, &[v(0, 1), v(1, 1), s(0, 1)], plain, operand(2, Misfit::Kind));
    refused(GlobalLoadDword, &[v(0, 1), v(2, 1), Operand::Off], plain, operand(1, Misfit::Words));
    refused(GlobalLoadDword, &[v(0, 1), v(2, 2), s(0, 2)], plain, operand(1, Misfit::Words));
    refused(BufferLoadDword, &[v(0, 1), v(1, 1), s(4, 4), 0x1234.into()], plain, operand(3, Misfit::Literal));
    refused(VReadfirstlaneB32, &[Operand::Reg(Span::M0), v(0, 1)], plain, operand(0, Misfit::Kind));
    refused(VMfmaF32_32x32x8F16, &[a(0, 16), v(0, 2), v(2, 2), 0x1234.into()], plain, operand(3, Misfit::Literal));
    refused(VCndmaskB32, &[v(0, 1), s(0, 1), v(1, 1), vcc], plain, EncodeReason::ScalarReads);
}

#[test]
fn combinations_that_cannot_be() {
    let plain = Mods::default();
    refused(SAddU32, &[s(0, 1), 100.into(), 101.into()], plain, EncodeReason::TwoLiterals);
    assert_eq!(check(&Inst::new(SAddU32, [s(0, 1), 100.into(), 100.into()]), Chip::Gfx942), Ok(()));
    refused(VFmaF32, &[v(0, 1), s(1, 1), s(2, 1), v(0, 1)], plain, EncodeReason::ScalarReads);
    refused(VAddU32, &[v(0, 1), 100.into(), s(2, 1)], plain, EncodeReason::ScalarReads);
    refused(VDivFmasF32, &[v(0, 1), s(1, 1), v(2, 1), v(0, 1)], plain, EncodeReason::ScalarReads);
    refused(DsWrite2B32, &[v(0, 1), v(1, 1), a(2, 1)], plain, EncodeReason::TwoFiles);
    refused(VMfmaF32_32x32x8F16, &[a(0, 16), v(0, 2), v(2, 2), v(16, 16)], plain, EncodeReason::TwoFiles);
    refused(VMfmaF32_32x32x8F16, &[a(0, 16), v(0, 2), v(2, 2), a(8, 16)], plain, EncodeReason::Overlap);
    let missing = check(&Inst::new(VCvtPkBf16F32, [v(0, 1), v(1, 1), v(2, 1)]), Chip::Gfx942);
    assert_eq!(missing, Err(EncodeReason::Missing));
}

#[test]
fn modifiers_without_a_field() {
    let modifier = EncodeReason::Modifier;
    let add = [v(0, 1), v(1, 1), v(2, 1)];
    refused(VAddU32, &add, Mods { neg: 1, ..Mods::default() }, modifier(Modifier::Neg));
    refused(VAndB32, &add, Mods { clamp: true, ..Mods::default() }, modifier(Modifier::Clamp));
    refused(VAddF32, &add, Mods { op_sel: 1, ..Mods::default() }, modifier(Modifier::OpSel));
    refused(VAddF32, &add, Mods { offset: 4, ..Mods::default() }, modifier(Modifier::Offset));
    refused(VAddF32, &[v(0, 1), 0x3f80_0000.into(), v(2, 1)], Mods { neg: 1, ..Mods::default() }, modifier(Modifier::Neg));
    refused(DsReadB32, &[v(0, 1), v(1, 1)], Mods { offset: 0x1_0000, ..Mods::default() }, modifier(Modifier::Offset));
    refused(DsReadB32, &[v(0, 1), v(1, 1)], Mods { offset: -4, ..Mods::default() }, modifier(Modifier::Offset));
    refused(DsRead2B32, &[v(0, 2), v(1, 1)], Mods { offset: 256, ..Mods::default() }, modifier(Modifier::Offset));
    refused(GlobalLoadDword, &[v(0, 1), v(2, 2), Operand::Off], Mods { offset: 4096, ..Mods::default() }, modifier(Modifier::Offset));
    let buffer = [v(0, 1), v(1, 1), s(4, 4), 0.into()];
    refused(BufferLoadDword, &buffer, Mods { offset: 4096, ..Mods::default() }, modifier(Modifier::Offset));
    refused(BufferAtomicAdd, &buffer, Mods { sc0: true, ..Mods::default() }, modifier(Modifier::Sc0));
    refused(SEndpgm, &[], Mods { nt: true, ..Mods::default() }, modifier(Modifier::Nt));
}

/// A program with a branch over so many instructions of a word.
fn branch_over(words: usize) -> Program {
    let mut blocks = PrimaryMap::new();
    let filler = Inst::new(SNop, [0.into()]);
    let insts = [vec![Inst::new(SBranch, [Operand::Block(Block::from_u32(2))])], vec![filler; words], vec![Inst::new(SEndpgm, [])]];
    for insts in insts {
        blocks.push(BlockData { insts, ..BlockData::default() });
    }
    Program { blocks, ..program(Chip::Gfx942, Vec::new()) }
}

#[test]
fn branches_that_are_too_far() {
    assert!(encode(&branch_over(0x7fff)).is_ok());
    let error = encode(&branch_over(0x8000)).unwrap_err();
    assert_eq!((error.block, error.inst, error.op, error.reason), (Block::from_u32(0), 0, SBranch, EncodeReason::Branch(0x8000)));
    let nowhere = program(Chip::Gfx942, vec![Inst::new(SBranch, [Operand::Block(Block::from_u32(9))])]);
    assert_eq!(encode(&nowhere).unwrap_err().reason, EncodeReason::NoBlock(Block::from_u32(9)));
}

#[test]
fn errors_name_block_and_instruction() {
    let wait = Inst::new(SWaitcnt, [i64::from(Wait::NONE.bits()).into()]);
    let bad = Inst::new(VMovB32, [s(0, 1), 0.into()]);
    let error = encode(&program(Chip::Gfx942, vec![wait, bad])).unwrap_err();
    assert_eq!(error.to_string(), "bb0, instruction 1, VMovB32: operand 0 cannot stand there");
}

/// What one chip names beside the offset of scratch memory, others do not, and the address that kernels make there is no register of theirs.
#[test]
fn scratch_memory_of_each_chip() {
    let load = |base| Inst::new(ScratchLoadDword, [v(0, 1), Operand::Off, base]);
    let low = Operand::Reg(Span::FLAT_SCRATCH.part(0, 1));
    let sum = Inst::new(SAddU32, [low, s(2, 1), s(6, 1)]);
    assert_eq!(check(&load(s(8, 1)), Chip::Gfx90a), Ok(()));
    assert_eq!(check(&load(Operand::Off), Chip::Gfx90a), Err(EncodeReason::Operand(2, Misfit::Kind)));
    assert_eq!(check(&sum, Chip::Gfx90a), Ok(()));
    for chip in [Chip::Gfx942, Chip::Gfx950] {
        assert_eq!(check(&load(Operand::Off), chip), Ok(()));
        assert_eq!(check(&sum, chip), Err(EncodeReason::Operand(0, Misfit::Kind)));
    }
}
