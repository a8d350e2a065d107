//! The rules of machine programs, checked: what selection makes and what allocation relies on.
//!
//! ```text
//! operands   as many as the row has, each of its kind and size; parts lie in their registers, tuples are aligned
//! values     every word of a virtual register that is read was written on every path that leads there
//! flow       branches stand at ends of blocks, and a block's successors are where its branches go and what it falls into
//! ```
//!
//! A write under a mask counts as a write: what the other lanes hold is not followed.

use super::inst::{Block, Inst, Operand};
use super::program::Program;
use super::reg::{File, Reg, Span, VReg};
use crate::isa::{Access, Fixed, Kind, Opcode, Slot};
use cranelift_entity::EntityRef;
use rustc_hash::FxHashMap;
use std::fmt;

/// A broken rule, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MirError {
    /// The block.
    pub block: Block,
    /// The instruction's number in it.
    pub inst: usize,
    /// What is wrong.
    pub problem: MirProblem,
}

/// What is wrong with an instruction or a block.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MirProblem {
    /// More or fewer operands than the row has.
    Count {
        /// The instruction.
        op: Opcode,
        /// Operands that it has.
        got: usize,
        /// Operands that its row has.
        want: usize,
    },
    /// An operand of another kind than its place takes.
    Kind {
        /// The instruction.
        op: Opcode,
        /// The operand's number.
        operand: usize,
    },
    /// An operand of another size.
    Words {
        /// The instruction.
        op: Opcode,
        /// The operand's number.
        operand: usize,
        /// Its words.
        got: u8,
    },
    /// A register that the program does not have, or words behind its end.
    Part(Span),
    /// A tuple that begins where the chip does not let it begin.
    Align(Span),
    /// A word that is read and not written on every path.
    Undefined {
        /// The register.
        reg: VReg,
        /// The word.
        word: u8,
    },
    /// An instruction behind a branch.
    Behind,
    /// The successors are others than branches and order say.
    Next,
    /// The chip lacks the instruction.
    Missing(Opcode),
    /// The block goes back to the kernel's beginning, which finds no longer what it began with.
    Again,
}

impl fmt::Display for MirError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, instruction {}: ", self.block, self.inst)?;
        match &self.problem {
            MirProblem::Count { op, got, want } => write!(f, "{op:?} has {got} operands, its row {want}"),
            MirProblem::Kind { op, operand } => write!(f, "operand {operand} of {op:?} is of another kind"),
            MirProblem::Words { op, operand, got } => write!(f, "operand {operand} of {op:?} has {got} words"),
            MirProblem::Part(span) => write!(f, "{span:?} is no part of its register"),
            MirProblem::Align(span) => write!(f, "{span:?} is not aligned"),
            MirProblem::Undefined { reg, word } => write!(f, "word {word} of {reg} is read and not written on every path"),
            MirProblem::Behind => f.write_str("it stands behind a branch"),
            MirProblem::Next => f.write_str("the block's successors are others than its branches and the order of blocks say"),
            MirProblem::Again => f.write_str("the block goes back to the kernel's beginning"),
            MirProblem::Missing(op) => write!(f, "the chip lacks {op:?}"),
        }
    }
}

impl std::error::Error for MirError {}

/// Checks a program.
///
/// # Errors
/// The first broken rule.
pub fn verify(program: &Program) -> Result<(), MirError> {
    for (block, data) in program.blocks.iter() {
        for (at, inst) in data.insts.iter().enumerate() {
            operands(program, inst).map_err(|problem| MirError { block, inst: at, problem })?;
        }
        flow(program, block).map_err(|(inst, problem)| MirError { block, inst, problem })?;
    }
    WrittenWords::new(program).check()
}

fn operands(program: &Program, inst: &Inst) -> Result<(), MirProblem> {
    let desc = inst.op.desc();
    if desc.number(program.chip).is_none() {
        return Err(MirProblem::Missing(inst.op));
    }
    if desc.slots.len() != inst.operands.len() {
        return Err(MirProblem::Count { op: inst.op, got: inst.operands.len(), want: desc.slots.len() });
    }
    for (i, (operand, slot)) in inst.operands.iter().zip(desc.slots).enumerate() {
        if !fits(program, operand, slot) {
            return Err(MirProblem::Kind { op: inst.op, operand: i });
        }
        if let Operand::Reg(span) = operand {
            part(program, *span)?;
            if span.words != inst.words_of(i, slot) {
                return Err(MirProblem::Words { op: inst.op, operand: i, got: span.words });
            }
        }
    }
    Ok(())
}

fn file(program: &Program, span: Span) -> Option<File> {
    match span.reg {
        Reg::Virtual(v) => program.vregs.get(v).map(|d| d.file),
        Reg::Physical(file, _) => Some(file),
        Reg::Fixed(_) => Some(File::Scalar),
    }
}

fn fits(program: &Program, operand: &Operand, slot: &Slot) -> bool {
    let of = |span: &Span| file(program, *span);
    match (operand, slot.kind) {
        (Operand::Reg(s), Kind::Vector | Kind::VectorOrOff | Kind::Address) => of(s) == Some(File::Vector),
        (Operand::Reg(s), Kind::VectorOrAcc | Kind::AccSource) => matches!(of(s), Some(File::Vector | File::Acc)),
        (Operand::Reg(s), Kind::Acc) => of(s) == Some(File::Acc),
        (Operand::Reg(s), Kind::Source) => matches!(of(s), Some(File::Vector | File::Scalar)),
        (Operand::Reg(s), Kind::Scalar | Kind::ScalarOrOff | Kind::ScalarSource | Kind::ScalarOffset) => of(s) == Some(File::Scalar),
        (Operand::Imm(_), kind) => {
            matches!(kind, Kind::Source | Kind::AccSource | Kind::ScalarSource | Kind::ScalarOffset | Kind::Field | Kind::Literal)
        }
        (Operand::Block(_), kind) => kind == Kind::Target,
        (Operand::Off, kind) => matches!(kind, Kind::VectorOrOff | Kind::ScalarOrOff),
        (Operand::Reg(_), Kind::Field | Kind::Literal | Kind::Target) => false,
    }
}

fn part(program: &Program, span: Span) -> Result<(), MirProblem> {
    let (words, aligned) = match span.reg {
        Reg::Virtual(v) => match program.vregs.get(v) {
            Some(d) => (d.words, d.align >= 2),
            None => return Err(MirProblem::Part(span)),
        },
        Reg::Physical(_, first) => (255, first.is_multiple_of(2)),
        Reg::Fixed(Fixed::Vcc | Fixed::Exec | Fixed::FlatScratch) => (2, true),
        Reg::Fixed(Fixed::M0) => (1, true),
        Reg::Fixed(Fixed::Scc) => (0, true),
    };
    if span.words == 0 || u16::from(span.first) + u16::from(span.words) > u16::from(words) {
        return Err(MirProblem::Part(span));
    }
    if span.words > 1 && !(aligned && span.first.is_multiple_of(2)) {
        return Err(MirProblem::Align(span));
    }
    Ok(())
}

/// Whether control goes to an instruction's block, and whether it goes on behind it.
fn branches(op: Opcode) -> (bool, bool) {
    match op {
        Opcode::SBranch => (true, false),
        Opcode::SEndpgm => (false, false),
        _ => (op.desc().slots.iter().any(|s| s.kind == Kind::Target), true),
    }
}

fn flow(program: &Program, block: Block) -> Result<(), (usize, MirProblem)> {
    let data = &program.blocks[block];
    let mut next: Vec<Block> = Vec::new();
    let (mut on, mut branched) = (true, false);
    for (at, inst) in data.insts.iter().enumerate() {
        let (goes, stays) = branches(inst.op);
        if !on || (branched && !goes) {
            return Err((at, MirProblem::Behind));
        }
        next.extend(inst.operands.iter().filter_map(|o| match o {
            Operand::Block(b) => Some(*b),
            _ => None,
        }));
        branched |= goes;
        on = stays;
    }
    let behind = Block::new(block.index() + 1);
    if on {
        next.push(behind);
    }
    let known = next.iter().all(|&b| program.blocks.get(b).is_some());
    let same = next.iter().all(|b| data.next.contains(b)) && data.next.iter().all(|b| next.contains(b));
    let problem = if !known || !same { MirProblem::Next } else { MirProblem::Again };
    if known && same && !next.contains(&Block::new(0)) { Ok(()) } else { Err((data.insts.len(), problem)) }
}

/// Which words were written on every path, block by block.
struct WrittenWords<'a> {
    program: &'a Program,
    /// Where the words of a register begin among all words.
    first: FxHashMap<VReg, usize>,
    count: usize,
}

impl<'a> WrittenWords<'a> {
    fn new(program: &'a Program) -> WrittenWords<'a> {
        let (mut first, mut count) = (FxHashMap::default(), 0);
        for (v, data) in program.vregs.iter() {
            first.insert(v, count);
            count += usize::from(data.words);
        }
        WrittenWords { program, first, count }
    }

    fn words(&self, span: Span) -> std::ops::Range<usize> {
        match span.reg {
            Reg::Virtual(v) => {
                let first = self.first.get(&v).copied().unwrap_or(0) + usize::from(span.first);
                first..first + usize::from(span.words)
            }
            Reg::Physical(..) | Reg::Fixed(_) => 0..0,
        }
    }

    /// Goes through a block; says what is read and not there.
    fn block(&self, block: Block, there: &mut [bool]) -> Result<(), MirError> {
        for (at, inst) in self.program.blocks[block].insts.iter().enumerate() {
            let slots = inst.op.desc().slots;
            let spans = |wanted: fn(Access) -> bool| {
                inst.operands.iter().zip(slots).enumerate().filter(move |(_, (_, s))| wanted(s.access)).filter_map(|(at, (o, _))| match o {
                    Operand::Reg(span) => Some(inst.selected(at, *span)),
                    _ => None,
                })
            };
            for span in spans(|a| a != Access::Def) {
                for (i, word) in self.words(span).enumerate() {
                    if let (false, Reg::Virtual(reg)) = (there[word], span.reg) {
                        let problem = MirProblem::Undefined { reg, word: span.first + i as u8 };
                        return Err(MirError { block, inst: at, problem });
                    }
                }
            }
            for span in spans(|a| a != Access::Use) {
                there[self.words(span)].iter_mut().for_each(|w| *w = true);
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), MirError> {
        // What is there at a block's beginning: everything, until a path says otherwise.
        let mut begin: Vec<Option<Vec<bool>>> = vec![None; self.program.blocks.len()];
        let Some(entry) = begin.first_mut() else { return Ok(()) };
        *entry = Some(vec![false; self.count]);
        let mut left: Vec<Block> = vec![Block::new(0)];
        while let Some(block) = left.pop() {
            let Some(mut there) = begin[block.index()].clone() else { continue };
            self.block(block, &mut there)?;
            for &next in &self.program.blocks[block].next {
                let changed = match &mut begin[next.index()] {
                    Some(known) => {
                        let before = known.iter().filter(|&&w| w).count();
                        known.iter_mut().zip(&there).for_each(|(k, &t)| *k &= t);
                        before != known.iter().filter(|&&w| w).count()
                    }
                    unknown => {
                        *unknown = Some(there.clone());
                        true
                    }
                };
                if changed {
                    left.push(next);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::Chip;
    use crate::mir::{BlockData, Spilled, VRegData};

    /// `r0`, `r1`: a vector register and a pair of them; `r2`, `r3`: a scalar register and a pair.
    fn program(blocks: Vec<(Vec<Inst>, Vec<u32>)>) -> Program {
        let mut p = Program {
            name: "k".to_owned(),
            chip: Chip::Gfx942,
            waves: 1,
            lds_bytes: 0,
            args: Vec::new(),
            vregs: Default::default(),
            blocks: Default::default(),
            entry: Default::default(),
            scratch_bytes: 0,
            spilled: Spilled::default(),
        };
        for (file, words) in [(File::Vector, 1), (File::Vector, 2), (File::Scalar, 1), (File::Scalar, 2)] {
            p.vregs.push(VRegData { file, either: false, words, align: words });
        }
        for (insts, next) in blocks {
            p.blocks.push(BlockData { insts, next: next.into_iter().map(Block::from_u32).collect(), depth: 0 });
        }
        p
    }

    fn r(number: u32, words: u8) -> Operand {
        Span::whole(VReg::from_u32(number), words).into()
    }

    fn inst(op: Opcode, operands: &[Operand]) -> Inst {
        Inst::new(op, operands.iter().copied())
    }

    fn end() -> Inst {
        inst(Opcode::SEndpgm, &[])
    }

    fn problem(insts: Vec<Inst>) -> Option<MirProblem> {
        verify(&program(vec![(insts, vec![])])).err().map(|e| e.problem)
    }

    #[test]
    fn operands_fit_their_places() {
        let mov = |operands: &[Operand]| problem(vec![inst(Opcode::VMovB32, operands), end()]);
        let v = Opcode::VMovB32;
        assert_eq!(mov(&[r(0, 1), 5.into()]), None);
        assert_eq!(mov(&[r(0, 1)]), Some(MirProblem::Count { op: v, got: 1, want: 2 }));
        assert_eq!(mov(&[r(2, 1), 5.into()]), Some(MirProblem::Kind { op: v, operand: 0 }));
        assert_eq!(mov(&[r(1, 2), 5.into()]), Some(MirProblem::Words { op: v, operand: 0, got: 2 }));
        assert!(matches!(mov(&[r(0, 2), 5.into()]), Some(MirProblem::Part(_))));
        assert!(matches!(mov(&[r(9, 1), 5.into()]), Some(MirProblem::Kind { .. })));
        let odd = Operand::Reg(Span { reg: Reg::Physical(File::Vector, 3), first: 0, words: 2 });
        assert!(matches!(problem(vec![inst(Opcode::VMovB64, &[odd, 0.into()]), end()]), Some(MirProblem::Align(_))));
    }

    #[test]
    fn words_are_written_on_every_path() {
        let read = || inst(Opcode::VMovB32, &[r(0, 1), Span::whole(VReg::from_u32(1), 2).part(1, 1).into()]);
        let write = |w| inst(Opcode::VMovB32, &[Span::whole(VReg::from_u32(1), 2).part(w, 1).into(), 0.into()]);
        let reg = VReg::from_u32(1);
        assert_eq!(problem(vec![read(), end()]), Some(MirProblem::Undefined { reg, word: 1 }));
        assert_eq!(problem(vec![write(0), read(), end()]), Some(MirProblem::Undefined { reg, word: 1 }));
        assert_eq!(problem(vec![write(1), read(), end()]), None);
        // One way leads past the write.
        let branch = |to| inst(Opcode::SCbranchScc1, &[Operand::Block(Block::from_u32(to))]);
        let compare = || inst(Opcode::SCmpEqU32, &[0.into(), 0.into()]);
        let around = |first: Vec<Inst>| program(vec![(first, vec![1, 2]), (vec![write(1)], vec![2]), (vec![read(), end()], vec![])]);
        let error = verify(&around(vec![compare(), branch(2)])).err().map(|e| (e.block.as_u32(), e.problem));
        assert_eq!(error, Some((2, MirProblem::Undefined { reg, word: 1 })));
        assert_eq!(verify(&around(vec![write(1), compare(), branch(2)])), Ok(()));
    }

    #[test]
    fn successors_are_where_branches_go() {
        let branch = |op, to| inst(op, &[Operand::Block(Block::from_u32(to))]);
        let of = |insts: Vec<Inst>, next| verify(&program(vec![(insts, next), (vec![end()], vec![])])).err().map(|e| e.problem);
        assert_eq!(of(vec![], vec![1]), None);
        assert_eq!(of(vec![], vec![]), Some(MirProblem::Next));
        assert_eq!(of(vec![branch(Opcode::SBranch, 1)], vec![1]), None);
        assert_eq!(of(vec![branch(Opcode::SBranch, 0)], vec![0, 1]), Some(MirProblem::Next));
        assert_eq!(of(vec![branch(Opcode::SCbranchScc0, 0)], vec![1]), Some(MirProblem::Next));
        assert_eq!(of(vec![branch(Opcode::SCbranchScc0, 5)], vec![1]), Some(MirProblem::Next));
        assert_eq!(of(vec![branch(Opcode::SCbranchScc0, 0)], vec![0, 1]), Some(MirProblem::Again));
        let nop = inst(Opcode::SNop, &[0.into()]);
        assert_eq!(of(vec![branch(Opcode::SCbranchScc0, 0), nop], vec![0, 1]), Some(MirProblem::Behind));
    }

    #[test]
    fn chips_have_their_instructions() {
        let mut p = program(vec![(vec![inst(Opcode::VMovB64, &[r(1, 2), 0.into()]), end()], vec![])]);
        assert_eq!(verify(&p), Ok(()));
        p.chip = Chip::Gfx90a;
        assert_eq!(verify(&p).err().map(|e| e.problem), Some(MirProblem::Missing(Opcode::VMovB64)));
    }
}
