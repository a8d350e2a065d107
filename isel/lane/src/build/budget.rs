//! How large a program may become. A tile op is as many lane instructions as a lane has elements, so a short text may mean gigabytes.
//!
//! ```text
//! units       16 per lane instruction, times its size in the table, which is more than 1 where it becomes many of the machine; 1 per name
//!             of a register, and per question for an equal instruction
//! spent       nothing is added any more: every value that is asked for is the spare one of its type; whoever builds throws the program away
//! ```
//!
//! So memory is bounded wherever the growth happens, and no method of the builder has to be able to fail.

use crate::inst::Inst;
use crate::value::{LTy, LVal};

/// Units of an instruction.
const UNITS: u64 = 16;

/// Lane instructions of a program, counted by their sizes, that nobody asked for.
pub const INSTRUCTIONS: u64 = 300_000;

/// What is left for a program to grow by.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Units asked for so far, and the most there may be.
    used: u64,
    limit: u64,
    /// A value per type that was asked for when nothing was left.
    spares: Vec<(LTy, LVal)>,
}

impl Budget {
    /// A budget of so many instructions.
    pub fn new(instructions: u64) -> Budget {
        Budget { used: 0, limit: instructions.saturating_mul(UNITS), spares: Vec::new() }
    }

    /// Takes what an instruction costs.
    #[inline]
    pub fn take(&mut self, inst: &Inst) {
        self.used = self.used.saturating_add(inst.size() * UNITS);
    }

    /// Takes what so many register names cost.
    #[inline]
    pub fn take_names(&mut self, names: usize) {
        self.used = self.used.saturating_add(names as u64);
    }

    /// True if nothing is left.
    #[inline]
    pub fn spent(&self) -> bool {
        self.used > self.limit
    }

    /// The instructions asked for so far, and how many there may be, if those are too many.
    pub fn exceeded(&self) -> Option<(u64, u64)> {
        self.spent().then_some((self.used.div_ceil(UNITS), self.limit / UNITS))
    }

    /// The spare value of a type.
    pub fn spare(&self, ty: LTy) -> Option<LVal> {
        self.spares.iter().find(|s| s.0 == ty).map(|s| s.1)
    }

    /// Says which value that is.
    pub fn set_spare(&mut self, ty: LTy, v: LVal) {
        self.spares.push((ty, v));
    }
}
