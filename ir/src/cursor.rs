//! A place to insert instructions: passes use it to edit a kernel, the builder to make one.

use crate::entities::{Inst, Region};
use crate::kernel::Kernel;

/// A position in a region: new instructions go in front of instruction number `at`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cursor {
    /// The region.
    pub region: Region,
    /// Position in its instruction list; its length means the end.
    pub at: usize,
}

impl Cursor {
    /// The end of a region.
    pub fn end(kernel: &Kernel, region: Region) -> Cursor {
        Cursor { region, at: kernel.regions[region].insts.len() }
    }
    /// The start of a region.
    pub fn start(region: Region) -> Cursor {
        Cursor { region, at: 0 }
    }
    /// Inserts an instruction and moves behind it.
    pub fn insert(&mut self, kernel: &mut Kernel, inst: Inst) {
        kernel.regions[self.region].insts.insert(self.at, inst);
        self.at += 1;
    }
    /// Removes the instruction at the position and returns it; it stays in the arena. `None` at the end.
    pub fn remove(&mut self, kernel: &mut Kernel) -> Option<Inst> {
        let insts = &mut kernel.regions[self.region].insts;
        (self.at < insts.len()).then(|| insts.remove(self.at))
    }
}
