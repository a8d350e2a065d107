//! Selection: a lane program becomes a machine program with virtual registers.
//!
//! ```text
//! lane::Program ── uniform: which values are alike in all lanes ── reorder, where too many would be alive ─┐
//!   ┌──────────────────────────────────────────────────────────────────────────────────────────────────────┘
//!   └► live: where values begin and end ── webs ─► selector: entry, control, memory, compute ... ─► mir::Program
//!
//! source     what is done once for all reaches
//! uniform    masks, scalar or vector registers          entry       arguments, where the wavefront stands
//! live       lives of values                            control     loops, choices, copies side by side
//! demote     what leaves scalar registers; reorder      rows        operations of one instruction
//! webs       values in one register; tuple              memory      loads, stores, guards;  atomic: updates
//! selector   blocks, registers, values; operands       compute     rows, int, wide, float, quotient, convert, compare, bits
//! lanes      shuffles                                   matrix      matrix instructions
//! halves     words of halves of others                  pairs       loads two by two;  packs, packed: computations
//! words      64-bit values put together of words        windows     accesses with bounds of their own
//! extremes   of several numbers                         triples     those of three;  fused: words of two conversions
//! conditions comparisons beside who asks                constants   those of loops in front of them
//! role       kinds of instructions                      ops         kinds of operations
//! ```
//!
//! All lanes of a wavefront take part everywhere but in guarded memory instructions. Subnormal numbers are kept and rounding is to nearest
//! even, as the kernel's descriptor asks for.

mod atomic;
mod begun;
mod bits;
mod codes;
mod compare;
mod compute;
mod conditions;
mod constants;
mod control;
mod convert;
mod copies;
mod demote;
mod entry;
mod error;
mod extremes;
mod float;
mod fused;
mod halves;
mod int;
mod lanes;
mod live;
mod matrix;
mod memory;
mod operands;
mod ops;
mod packed;
mod packs;
mod pairs;
mod quotient;
mod rearrange;
mod reorder;
mod role;
mod rows;
mod selector;
mod source;
#[cfg(test)]
mod tests;
mod triples;
mod tuple;
mod uniform;
mod webs;
mod wide;
mod wide_divide;
mod windows;
mod words;

pub use error::{Computation, Reason, SelectError};
pub use pairs::Reach;
pub use source::Source;

use crate::chip::Chip;
use crate::mir;
use live::Live;
use selector::{Done, Selector};
use tilelift_ir::Scalar;
use tilelift_lane::{BinOp, Block, Effect, Inst, Program};
use webs::Webs;
use windows::Windows;

/// Selects instructions of a chip for a program that was lowered for its target.
///
/// # Errors
/// A program that the lane verifier refuses, and what has no instructions.
pub fn select(program: &Program, chip: Chip) -> Result<mir::Program, SelectError> {
    select_within(&Source::new(program, chip)?, Reach::Far)
}

/// The same, with loads of shared memory in pairs within a reach.
///
/// # Errors
/// What has no instructions.
pub fn select_within(source: &Source<'_>, reach: Reach) -> Result<mir::Program, SelectError> {
    let program = &*source.within(reach);
    let live = Live::new(program);
    let mut uniform = source.uniform(program);
    demote::demote(program, &live, &mut uniform);
    let packs = source.packs(reach);
    let webs = Webs::new(program, &live, &uniform, packs);
    let windows = Windows::new(program, &uniform);
    let mut s = Selector::new((program, source.chip, &source.target), &live, &uniform, (&webs, &windows, packs));
    s.prologue()?;
    s.block(&program.body)?;
    s.end();
    let mut program = s.finish();
    constants::in_front_of_loops(&mut program);
    debug_assert_eq!(mir::verify(&program), Ok(()));
    Ok(program)
}

impl Selector<'_> {
    fn block(&mut self, block: &Block) -> Done {
        let mut at = 0;
        while let Some(inst) = block.get(at) {
            let together = self.several(&block[at..])?;
            if together == 0 {
                self.inst(inst)?;
            }
            at += together.max(1);
        }
        Ok(())
    }

    /// Takes the first instructions at once, if there is one instruction for them; says how many.
    fn several(&mut self, block: &[Inst]) -> Result<usize, SelectError> {
        let [first, second, ..] = block else { return Ok(0) };
        if matches!(first, Inst::Cmp { .. }) {
            return self.asked(block);
        }
        if let Some(pair) = pairs::pair(self.program, first, second) {
            return Ok(if self.load_pair(&pair)? { 2 } else { 0 });
        }
        if let Some(pair) = pairs::stores(self.program, first, second) {
            return Ok(if self.store_pair(&pair)? { 2 } else { 0 });
        }
        if let Some(triple) = triples::triple(self.program, self.live, first, second) {
            return Ok(if self.extreme_of_three(&triple)? { 2 } else { 0 });
        }
        if let Some(word) = codes::word(self.live, block) {
            self.word_of_codes(&word)?;
            return Ok(3);
        }
        let pack = self.packs.pack(self.program, first, second);
        Ok(if pack.is_some_and(|pack| self.computed_together(&pack)) { 2 } else { 0 })
    }

    fn inst(&mut self, inst: &Inst) -> Done {
        // What nobody reads is not made.
        let effect = inst.effect();
        if effect.removable() && !inst.results().iter().any(|&v| self.live.read(v)) {
            return Ok(());
        }
        match inst {
            Inst::Undefined { dst } => {
                self.literal(*dst, 0);
                Ok(())
            }
            Inst::Const { dst, bits } => {
                self.literal(*dst, *bits);
                Ok(())
            }
            Inst::SharedAddr { dst, alloc } => {
                self.literal(*dst, self.program.allocs[*alloc].offset.into());
                Ok(())
            }
            Inst::Param { dst, index } => self.param(*dst, *index),
            Inst::Special { dst, what } => self.special(*dst, *what),
            Inst::Un { dst, op, a } => self.un(*dst, *op, *a),
            Inst::Bin { dst, op, a, b } => self.bin(*dst, *op, *a, *b),
            Inst::Fma { dst, a, b, c } => self.fma(*dst, *a, *b, *c),
            Inst::MadWide { dst, a, b, c } => self.mad_wide(*dst, *a, *b, *c, true),
            Inst::MadWideU { dst, a, b, c } => self.mad_wide(*dst, *a, *b, *c, false),
            Inst::Funnel { dst, high, low, by } => self.funnel(*dst, *high, *low, *by),
            Inst::FmaF16x2 { dst, a, b, c } => self.fma_halves(*dst, [*a, *b, *c]),
            Inst::Permute { dst, low, high, picks } => self.permute(*dst, *low, *high, *picks),
            Inst::MaskFlip { dst, a, mask, flip } => self.mask_flip(*dst, *a, *mask, *flip),
            Inst::Cmp { dst, op, a, b } => self.compare(*dst, *op, *a, *b),
            Inst::Select { dst, c, a, b } => self.select(*dst, *c, *a, *b),
            Inst::Divide { dsts, a, b } => dsts.iter().zip(a.iter().zip(b)).try_for_each(|(&d, (&a, &b))| self.bin(d, BinOp::Div, a, b)),
            Inst::Cvt { dst, a } => self.convert(*dst, *a),
            Inst::RoundTf32 { dst, a } => self.round_tf32(*dst, *a),
            Inst::Bitcast { dst, a } => self.bitcast(*dst, *a),
            Inst::Pack { dst, parts } => self.pack(*dst, parts),
            Inst::Unpack { dsts, a } => self.unpack(dsts, *a),
            Inst::LoadGlobal { dsts, addr, offset, guard, other, cache } => self.load_global(dsts, (*addr, *offset), *guard, other, *cache),
            Inst::StoreGlobal { addr, offset, guard, srcs, cache } => self.store_global(srcs, (*addr, *offset), *guard, *cache),
            Inst::Atomic(a) => self.atomic(a),
            Inst::LoadShared { dsts, addr, offset } => self.load_shared(dsts, *addr, *offset),
            Inst::StoreShared { addr, offset, guard, srcs } => self.store_shared(srcs, *addr, *offset, *guard),
            Inst::CopyAsync { shared, offset, global, global_offset, bytes, valid } => {
                self.copy_async((*shared, *offset), (*global, *global_offset), *bytes, *valid)
            }
            // Waits are for all of them.
            Inst::CommitCopies => Ok(()),
            Inst::WaitCopies { .. } => self.wait_copies(),
            Inst::Barrier => {
                self.emit(crate::isa::Opcode::SBarrier, []);
                Ok(())
            }
            Inst::Assert { condition } => self.assert(*condition),
            Inst::Shuffle { dst, a, from } => self.shuffle(*dst, *a, *from),
            Inst::Matrix(m) => self.matrix(&m.dsts, m.instr, [&m.a, &m.b, &m.c], &m.scales),
            Inst::For(l) => self.for_loop(l),
            Inst::While(l) => self.while_loop(l),
            Inst::If(c) => self.choice(c),
            Inst::CvtF16x2 { dst, low, high } => self.halves_of(*dst, [*low, *high], Scalar::F16),
            Inst::CvtBf16x2 { dst, low, high } => self.halves_of(*dst, [*low, *high], Scalar::BF16),
            Inst::CvtE4M3x2 { dst, low, high } => self.code_pair(*dst, [*low, *high], false),
            Inst::CvtE5M2x2 { dst, low, high } => self.code_pair(*dst, [*low, *high], true),
            // What is for speed alone, these chips do without; what else is not named here is of machinery that they lack.
            other if other.effect() == Effect::Hint => Ok(()),
            other => Err(SelectError::Instruction(other.code(), Reason::NoMachinery)),
        }
    }
}
