//! Views that a program only reads: a load of one gives the same number wherever it stands, whoever does it.
//!
//! Views are as apart as the language says that they are: what is stored through one is not read through another.

use super::makers::Makers;
use tilelift_lane::hash::{Map, Set};
use tilelift_lane::visit::blocks;
use tilelift_lane::{BinOp, Block, Inst, LVal, ParamSource, Program, Space, Unit};

/// Who writes global memory.
#[derive(Default)]
pub(super) struct Unwritten {
    written: Set<u32>,
    /// Something is stored at an address of which nobody knows the view.
    anywhere: bool,
    /// The views of addresses that were asked for.
    views: Map<LVal, Option<u32>>,
}

/// So many sums lie between an address and its pointer at most.
const SUMS: u32 = 64;

impl Unwritten {
    /// Goes through all stores of a program, whose computed values come from the instructions of `makers`.
    pub fn new(program: &Program, makers: &Makers<'_>) -> Unwritten {
        let mut out = Unwritten::default();
        out.block(program, makers, &program.body);
        out
    }

    /// The view that an address points into.
    fn view(&mut self, program: &Program, makers: &Makers<'_>, address: LVal, depth: u32) -> Option<u32> {
        if let Some(&known) = self.views.get(&address) {
            return known;
        }
        let found = match makers.get(address)? {
            Inst::Param { index, .. } => match program.params.get(*index as usize)?.source {
                ParamSource::Pointer(v) => Some(v),
                _ => None,
            },
            // An address is a pointer and a distance, which comes from no pointer.
            Inst::Bin { op: BinOp::Add, a, b, .. } if depth > 0 => {
                let [a, b] = [a, b].map(|&v| self.view(program, makers, v, depth - 1));
                if a.is_some() && b.is_some() { None } else { a.or(b) }
            }
            Inst::MadWide { c, .. } if depth > 0 => self.view(program, makers, *c, depth - 1),
            _ => None,
        };
        self.views.insert(address, found);
        found
    }

    fn block(&mut self, program: &Program, makers: &Makers<'_>, block: &Block) {
        for inst in block {
            let to = match inst {
                Inst::StoreGlobal { addr, .. } => self.view(program, makers, *addr, SUMS),
                Inst::Atomic(a) if a.space == Space::Global => self.view(program, makers, a.addr, SUMS),
                Inst::Unit(u) => match **u {
                    Unit::BulkStore { map, .. } => match program.params.get(map as usize).map(|p| p.source) {
                        Some(ParamSource::Tensor(t)) => Some(t.view),
                        _ => None,
                    },
                    _ => continue,
                },
                other => {
                    blocks(other).for_each(|b| self.block(program, makers, b));
                    continue;
                }
            };
            match to {
                Some(v) => _ = self.written.insert(v),
                None => self.anywhere = true,
            }
        }
    }

    /// True if nothing of the program writes what an address points to.
    pub fn is_read_only(&mut self, program: &Program, makers: &Makers<'_>, address: LVal) -> bool {
        !self.anywhere && self.view(program, makers, address, SUMS).is_some_and(|v| !self.written.contains(&v))
    }
}
