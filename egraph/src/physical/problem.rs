//! The question and the answer: a kernel with its plain layouts, what a machine says of costs, and what was chosen.

use crate::options::Stop;
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use std::rc::Rc;
use tilelift_ir::layout::Layout;
use tilelift_ir::{Inst, Kernel, Scalar, Value};

/// Layouts of operands or results; `None` for what has none: scalars, views, tiles outside of registers.
pub type Layouts = SmallVec<[Option<Rc<Layout>>; 4]>;

/// A run of an instruction: the layouts that its operands come in and its results go out in.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct InstLayouts {
    /// One per operand.
    pub operands: Layouts,
    /// One per result.
    pub results: Layouts,
}

/// What anything costs. All costs are of one run, in sixteenths of a cycle of one multiprocessor, for all warps of a program.
pub trait CostModel {
    /// The ways that an instruction proposes by itself: fragments of a matrix instruction, coalesced accesses.
    fn anchors(&self, inst: Inst) -> Vec<InstLayouts>;
    /// True if an instruction runs in no other way than those.
    fn fixed(&self, inst: Inst) -> bool;
    /// The cost of a way to run an instruction; `None` if the machine can't.
    fn run(&self, inst: Inst, run: &InstLayouts) -> Option<u64>;
    /// The cost of a conversion, as far as it can be told quickly; `None` if there is none.
    fn convert(&self, from: &Layout, to: &Layout, elem: Scalar) -> Option<u64>;
    /// The cost of a conversion that the search means to take, which is looked at more closely.
    fn convert_exactly(&self, from: &Layout, to: &Layout, elem: Scalar) -> Option<u64> {
        self.convert(from, to, elem)
    }
    /// 32-bit registers of a lane that tiles may take, and those of them in which lanes compute.
    fn registers(&self) -> [u64; 2];
    /// Registers of a lane that a value takes in a layout, of so many words, and those of them in which lanes compute.
    fn held(&self, _value: Value, _layout: &Layout, words: u64) -> [u64; 2] {
        [words, 0]
    }
    /// The cost of keeping one register in memory and fetching it back.
    fn spill(&self) -> u64;
}

/// A kernel with the layouts that the plain assignment gave it.
pub struct Problem<'k> {
    /// The kernel.
    pub kernel: &'k Kernel,
    /// Layouts of the plain assignment; `None` for values that are no tiles in registers.
    pub base: SecondaryMap<Value, Option<Rc<Layout>>>,
    /// Values that are made, and carried, in no other layout than the plain one: what the author requires.
    pub pinned: SecondaryMap<Value, bool>,
}

/// Bounds of the search.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Candidate layouts of a value.
    pub layouts: usize,
    /// Nodes of the graph.
    pub nodes: usize,
    /// Iterations of a phase.
    pub iterations: usize,
    /// Evaluations of the whole program.
    pub trials: usize,
    /// Programs that are kept for the last ranking.
    pub keep: usize,
    /// Searches with prices of conversions corrected: each looks more closely at those that the one before took.
    pub corrections: usize,
    /// For tests: this rule only, beside conversions and what ties values together.
    pub only: Option<&'static str>,
    /// For tests: prices are random numbers from this seed, so that any program of the graph may be taken.
    pub chaos: Option<u64>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { layouts: 6, nodes: 8000, iterations: 64, trials: 64, keep: 4, corrections: 6, only: None, chaos: None }
    }
}

/// How a value comes to be in a layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The instruction makes it: the number of the run.
    Run(usize),
    /// Control carries it so.
    Given,
    /// It is converted, from the layout of this number of the same value.
    Convert(usize),
}

/// A value in a layout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variant {
    /// The layout.
    pub layout: Rc<Layout>,
    /// How it gets there.
    pub source: Source,
    /// The cost of that, loops counted.
    pub cost: u64,
    /// The rule that proposed the layout for this value, and where it came from.
    pub rule: &'static str,
}

/// What was chosen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Solution {
    /// Per value its layouts in the order in which they are made: those that are run or given, then conversions.
    pub values: SecondaryMap<Value, Vec<Variant>>,
    /// Per instruction the ways in which it runs: one, or several where that is cheaper than a conversion.
    pub runs: SecondaryMap<Inst, Vec<InstLayouts>>,
    /// The cost of the program, and what it would cost if every value had the plain assignment's layout.
    pub cost: u64,
    /// See [`Solution::cost`]; `None` if the machine can't do that.
    pub plain: Option<u64>,
    /// Nodes and classes of the graph.
    pub size: [usize; 2],
    /// Why the search for candidates ended.
    pub stop: Option<Stop>,
    /// Runners-up: the cost of each.
    pub others: Vec<u64>,
}

impl Solution {
    /// True if it is cheaper than the plain assignment, or that is impossible.
    pub fn gains(&self) -> bool {
        self.plain.is_none_or(|plain| self.cost < plain)
    }
}
