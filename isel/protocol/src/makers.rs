//! Who makes what a program computes, by the value's number: as many are asked for as there are instructions.

use cranelift_entity::SecondaryMap;
use tilelift_lane::{Inst, LVal, Program};

/// The instruction behind each value that is computed, or read from global memory.
pub(super) struct Makers<'a>(SecondaryMap<LVal, Option<&'a Inst>>);

impl<'a> Makers<'a> {
    /// None yet, with room for the values of a program.
    pub fn of(program: &Program) -> Makers<'a> {
        let mut all = SecondaryMap::new();
        all.resize(program.vals.len());
        Makers(all)
    }

    /// Notes who makes a value.
    pub fn insert(&mut self, v: LVal, inst: &'a Inst) {
        self.0[v] = Some(inst);
    }

    /// Who makes a value, if it was noted.
    pub fn get(&self, v: LVal) -> Option<&'a Inst> {
        self.0[v]
    }
}
