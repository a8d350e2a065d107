//! What loops and choices carry: values that are one in the author's eyes.

use crate::entities::{Inst, Value};
use crate::kernel::Kernel;
use crate::ops::Op;
use smallvec::SmallVec;

/// A value that a loop or a choice carries.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Carried {
    /// What comes out.
    pub result: Value,
    /// What goes into a loop.
    pub init: Option<Value>,
    /// The loop's parameters of it, in order: where it enters first.
    pub params: SmallVec<[Value; 2]>,
    /// What a loop hands on, or the arms of a choice yield.
    pub yields: SmallVec<[Value; 2]>,
}

impl Carried {
    /// Whence the value comes to where, in the order of the program.
    pub fn flows(&self) -> impl Iterator<Item = (Value, Value)> + '_ {
        let first = self.params.first().copied();
        let into = first.unwrap_or(self.result);
        let enters = self.init.iter().chain(&self.yields).map(move |&v| (v, into));
        let inside = self.params.iter().skip(1).map(move |&p| (into, p));
        enters.chain(inside).chain(first.map(|p| (p, self.result)))
    }
}

/// What an instruction with regions carries, one entry per result; nothing for other instructions.
pub fn carried(kernel: &Kernel, inst: Inst) -> Vec<Carried> {
    let d = &kernel.insts[inst];
    // Operands in front of the initial values, parameters in front of the carried ones.
    let (skip, index) = match d.op {
        Op::For => (3, 1),
        Op::While | Op::If => (0, 0),
        _ => return Vec::new(),
    };
    let arms = d.op == Op::If;
    let list = d.results.iter().enumerate().map(|(k, &result)| {
        let param = |&r: &_| kernel.regions[r].params.get(k + index).copied();
        let yielded = |&r: &_| kernel.yields(r).get(k).copied();
        let last = d.regions.len().saturating_sub(1);
        Carried {
            result,
            init: if arms { None } else { d.args.get(skip + k).copied() },
            params: if arms { SmallVec::new() } else { d.regions.iter().filter_map(param).collect() },
            yields: d.regions.iter().skip(if arms { 0 } else { last }).filter_map(yielded).collect(),
        }
    });
    list.collect()
}
