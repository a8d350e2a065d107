//! Registers of a specialised loop's producer and consumers.

use super::products::operand_registers;
use super::replay::around;
use crate::reason::NotSpecialised;
use tilelift_ir::{Inst, Kernel, Op, Value};
use tilelift_lane::{Registers, Target, Units};

/// Registers of who transposes operands: what it holds of a tile, and its places.
pub const TRANSPOSER_REGISTERS: u32 = 112;

/// Registers that consumers need beside their accumulators: addresses, the ring, the epilogue.
pub(super) const BESIDE_ACCUMULATORS: u32 = 26;

/// Lanes over which an accumulator's row is spread: the others hold the same of what all rows share.
const LANES_OF_ROW: u32 = 4;

/// What is loaded behind the main loop, while its accumulators are held.
fn loads_behind(kernel: &Kernel, main: Inst) -> impl Iterator<Item = Value> + '_ {
    let place =
        around(kernel, main).last().and_then(|&i| kernel.insts[i].regions.iter().find(|&&r| kernel.regions[r].insts.contains(&main)));
    let body = &kernel.regions[place.copied().unwrap_or(kernel.body)].insts;
    let behind = body.iter().skip_while(move |&&i| i != main).skip(1).filter(|&&i| kernel.insts[i].op == Op::Load);
    behind.map(|&i| kernel.insts[i].results[0])
}

fn is_matrix(kernel: &Kernel, v: Value) -> bool {
    kernel.ty(v).as_tile().is_some_and(|t| t.shape.len() > 1)
}

/// Registers per lane of tiles that are loaded behind the main loop, while its accumulators are held.
pub(super) fn loaded_behind(kernel: &Kernel, main: Inst, lanes: u32) -> u32 {
    loads_behind(kernel, main).map(|v| operand_registers(kernel, v, if is_matrix(kernel, v) { lanes } else { LANES_OF_ROW })).sum()
}

/// The same of matrices alone: of rows a lane loads what it needs next.
pub(super) fn matrices_behind(kernel: &Kernel, main: Inst, lanes: u32) -> u32 {
    loads_behind(kernel, main).filter(|&v| is_matrix(kernel, v)).map(|v| operand_registers(kernel, v, lanes)).sum()
}

/// What consumers hold, in registers per lane.
pub struct Held {
    /// Tiles.
    pub all: u32,
    /// What is to be left over beside these, addresses and the epilogue.
    pub spare: u32,
    /// Tiles that are loaded while they are held, a piece at a time where not all fit.
    pub beside: u32,
    /// Pieces that each lane of the producer copies in a step, whose addresses it keeps.
    pub copied: u32,
}

impl Held {
    /// Tiles of which nobody asked when each is held: what stands between takes more.
    pub fn summed(all: u32, beside: u32) -> Held {
        Held { all, spare: BESIDE_ACCUMULATORS / 2, beside, copied: 0 }
    }
}

/// Registers of producer and consumers, with so many groups of consumers, and of those who transpose operands.
///
/// # Errors
/// They are too few.
pub fn budget(target: &Target, units: &Units, [consumers, transposers]: [u32; 2], held: Held) -> Result<Option<[u32; 2]>, NotSpecialised> {
    let pool = &units.registers;
    let entry = Registers::of(target, units, (consumers + 1 + transposers) * units.group_warps).entry;
    let Held { all: held, spare, beside, copied } = held;
    let need = held + BESIDE_ACCUMULATORS;
    if need <= entry && consumers == 1 && transposers == 0 {
        return Ok(None);
    }
    // A full house of accumulators takes what the producer can spare, and so do tiles that do not fit beside them.
    let mut found = None;
    let usual = [pool.producer, pool.least];
    // An address of 64 bits of each piece.
    let copying = [(pool.producer + 2 * copied).next_multiple_of(pool.unit).min(entry), pool.producer];
    for producer in if copied > 0 { copying } else { usual } {
        let all = (entry * (consumers + 1 + transposers)).saturating_sub(producer + transposers * TRANSPOSER_REGISTERS);
        let each = (all / consumers / pool.unit * pool.unit).min(pool.most);
        if each > entry && need + spare <= each && producer <= entry {
            found = Some([producer, each]);
            if beside == 0 || need + beside <= each {
                break;
            }
        }
    }
    found.map(Some).ok_or(NotSpecialised::Accumulators { held, groups: consumers })
}
