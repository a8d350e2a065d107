//! Accesses of shared memory from one register, two by two: an instruction that reads, or writes, at two distances counts once where two do.
//!
//! ```text
//! load.shared v at a        ds_read2st64_b64   v w, a offset1:16
//! load.shared w at a+8192
//! ```

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tilelift_lane::{Block, Inst, LTy, LVal, Program, Vals};

use super::rearrange::{BlockOrder, rearranged};
use crate::isa::Opcode;

/// Two loads as one instruction.
pub(super) struct Pair {
    pub(super) op: Opcode,
    pub(super) addr: LVal,
    /// In units of the instruction.
    pub(super) offsets: [u8; 2],
    /// What both make, in order.
    pub(super) dsts: Vals,
    /// Words of each.
    pub(super) words: u8,
}

/// The instructions: bytes of each access, the unit of their offsets.
type Pairs = [(u32, i32, Opcode); 4];
const READS: Pairs =
    [(4, 4, Opcode::DsRead2B32), (4, 256, Opcode::DsRead2st64B32), (8, 8, Opcode::DsRead2B64), (8, 512, Opcode::DsRead2st64B64)];
const WRITES: Pairs =
    [(4, 4, Opcode::DsWrite2B32), (4, 256, Opcode::DsWrite2st64B32), (8, 8, Opcode::DsWrite2B64), (8, 512, Opcode::DsWrite2st64B64)];

/// The instruction for accesses of so many bytes each at two distances, and those in its unit.
fn at_two_distances(of: &Pairs, bytes: u32, [from, to]: [i32; 2]) -> Option<(Opcode, [u8; 2])> {
    let fits = |at: i32, unit: i32| (at % unit == 0).then(|| u8::try_from(at / unit).ok()).flatten();
    of.iter().filter(|r| r.0 == bytes).find_map(|r| Some((r.2, [fits(from, r.1)?, fits(to, r.1)?])))
}

/// Bytes of values that are whole words.
fn whole_words(program: &Program, vals: &Vals) -> Option<u32> {
    let bytes = vals.iter().map(|&d| if program.vals[d] == LTy::I1 { 0 } else { program.vals[d].bits() / 8 });
    bytes.clone().all(|n| n >= 4).then(|| bytes.sum())
}

/// Two stores as one instruction.
pub(super) struct StorePair<'a> {
    pub(super) op: Opcode,
    pub(super) addr: LVal,
    /// In units of the instruction.
    pub(super) offsets: [u8; 2],
    pub(super) srcs: [&'a Vals; 2],
}

/// Two stores, one behind the other, as one instruction.
pub(super) fn stores<'a>(program: &Program, first: &'a Inst, second: &'a Inst) -> Option<StorePair<'a>> {
    let store = |inst: &'a Inst| match inst {
        Inst::StoreShared { addr, offset, guard: None, srcs } => Some((srcs, *addr, *offset, whole_words(program, srcs)?)),
        _ => None,
    };
    let ((a, addr, from, bytes), (b, other, to, same)) = (store(first)?, store(second)?);
    let (op, offsets) = at_two_distances(&WRITES, bytes, [from, to]).filter(|_| addr == other && bytes == same && from != to)?;
    Some(StorePair { op, addr, offsets, srcs: [a, b] })
}

/// A load of whole words: what it makes, where it reads, how many bytes.
fn load<'a>(program: &Program, inst: &'a Inst) -> Option<(&'a Vals, LVal, i32, u32)> {
    let Inst::LoadShared { dsts, addr, offset } = inst else { return None };
    Some((dsts, *addr, *offset, whole_words(program, dsts)?))
}

/// Two loads, one behind the other, as one instruction.
pub(super) fn pair(program: &Program, first: &Inst, second: &Inst) -> Option<Pair> {
    let ((a, addr, from, bytes), (b, other, to, same)) = (load(program, first)?, load(program, second)?);
    if addr != other || bytes != same {
        return None;
    }
    let (op, offsets) = at_two_distances(&READS, bytes, [from, to])?;
    Some(Pair { op, addr, offsets, dsts: a.iter().chain(b).copied().collect(), words: (bytes / 4) as u8 })
}

/// How far the second of two loads goes up to the first one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reach {
    /// As far as nothing may change what is there.
    #[default]
    Far,
    /// Past no matrix instruction: fewer fragments are there at a time.
    Near,
}

/// The program's body with the second of such loads right behind the first, where nothing between them may change what is there; nothing where it
/// stays as it is.
pub(super) fn adjacent(program: &Program, reach: Reach) -> Option<Block> {
    rearranged(&program.body, &|block, _| order(program, block, reach))
}

/// Words of the operands of matrix instructions of which values are parts.
fn parts_of_operands(program: &Program, block: &Block) -> FxHashMap<LVal, u32> {
    let mut out = FxHashMap::default();
    for inst in block {
        if let Inst::Matrix(m) = inst {
            for vals in [&m.a, &m.b] {
                let words = vals.iter().map(|&v| program.vals[v].bits() / 32).sum();
                out.extend(vals.iter().map(|&v| (v, words)));
            }
        }
    }
    out
}

fn order(program: &Program, old: &Block, reach: Reach) -> BlockOrder {
    let mut changed = false;
    // The load that goes behind each, and those that go.
    let (mut behind, mut gone) = (vec![None; old.len()], vec![false; old.len()]);
    let parts = parts_of_operands(program, old);
    let mut waiting: FxHashMap<LVal, SmallVec<[usize; 4]>> = FxHashMap::default();
    for (i, inst) in old.iter().enumerate() {
        let passes = match inst {
            Inst::LoadShared { .. } | Inst::LoadGlobal { .. } => true,
            Inst::Matrix(_) => reach == Reach::Far,
            _ => inst.effect().computes(),
        };
        if !passes {
            waiting.clear();
        }
        let Some((vals, addr, _, bytes)) = load(program, inst) else { continue };
        // What a matrix instruction takes beside other words stands beside those, and not beside the other load's.
        if vals.first().and_then(|v| parts.get(v)).is_some_and(|&words| 4 * words > bytes) {
            continue;
        }
        let list = waiting.entry(addr).or_default();
        match list.iter().position(|&first| pair(program, &old[first], inst).is_some()) {
            Some(at) => {
                let first = list.remove(at);
                (behind[first], gone[i]) = (Some(i), true);
                changed |= i != first + 1;
            }
            // As many as a tile has at one address; others stay alone.
            None if list.len() < 16 => list.push(i),
            None => {}
        }
    }
    let stays = (0..old.len()).filter(|&i| !gone[i]);
    changed.then(|| stays.flat_map(|i| [Some(i), behind[i]].into_iter().flatten()).collect())
}
