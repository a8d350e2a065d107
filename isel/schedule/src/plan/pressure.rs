//! Registers that a step holds where it holds most: accumulators, operands A of products that run, and what lanes compute between them.
//!
//! Each part of a [`step_order`](super::step_order) makes values and looks at others; from its making to its last use a value takes its
//! elements, spread over the lanes. Elementwise results take the place of operands that nobody wants any more.

use super::late_products::Late;
use super::products::operand_registers;
use super::replay::needs;
use super::step_order::StepPart;
use std::collections::BTreeMap;
use tilelift_ir::{Effects, Inst, Kernel, Op, Region, Value, ValueDef};
use tilelift_lane::hash::{Map, Set};

/// Values that take no registers, and operands A that products find in shared memory.
type NoRegisters<'a> = (&'a dyn Fn(Value) -> bool, &'a dyn Fn(Inst, Value) -> bool);

/// Registers per lane of the tiles of a step that is done in this order, with accumulators beside the products if lanes add to them; `lanes_of` says
/// over how many lanes what an instruction makes is spread, `elsewhere` names values that take none, and `stored` operands A that products find in
/// shared memory. Of `late` products a step holds what those of the step before take, too.
///
/// Masks and other numbers that follow from indices count nothing, nor do vectors from memory: lanes make them in pieces, where they want them.
pub(super) fn pressure(
    kernel: &Kernel,
    region: Region,
    order: &[StepPart],
    lanes_of: &dyn Fn(Option<Inst>) -> u32,
    promoted: bool,
    late: Option<&Late>,
    (elsewhere, stored): NoRegisters<'_>,
) -> u32 {
    // Who is in registers, and under whose name.
    let root = |mut v: Value| {
        while let Some(i) = kernel.def_inst(v).filter(|&i| matches!(kernel.insts[i].op, Op::Broadcast | Op::Reshape | Op::Transpose)) {
            v = kernel.insts[i].args[0];
        }
        v
    };
    let mut cheap = Cheap { kernel, of_indices: Map::default(), from_memory: Map::default() };
    for part in order {
        if let StepPart::Compute(i) | StepPart::Begin(i) = *part {
            needs(kernel, i, &mut |v| _ = cheap.known(v));
            kernel.insts[i].results.iter().for_each(|&v| _ = cheap.known(v));
        }
    }
    let size = |v: Value| {
        let Some(t) = kernel.ty(v).as_tile() else { return 0 };
        let wide = t.shape.iter().filter(|&&e| e > 1).count() > 1;
        let [indices, memory] = [&cheap.of_indices, &cheap.from_memory].map(|known| known.get(&v) == Some(&true));
        if elsewhere(v) || indices || !wide && memory {
            return 0;
        }
        let lanes = lanes_of(kernel.def_inst(v));
        // What all columns share is there once for the lanes of a row.
        operand_registers(kernel, v, if wide { lanes } else { lanes / LANES_OF_ROW }).max(1)
    };
    // The last part that looks at each value.
    let end = order.len();
    let mut last: BTreeMap<Value, usize> = BTreeMap::new();
    let mut begun: BTreeMap<Inst, Value> = BTreeMap::new();
    for (at, part) in order.iter().enumerate() {
        match *part {
            StepPart::Begin(i) => {
                let a = kernel.insts[i].args[0];
                last.insert(root(a), at);
                if !stored(i, a) {
                    begun.insert(i, root(a));
                }
                last.insert(root(kernel.insts[i].args[1]), at);
                last.insert(root(kernel.insts[i].args[2]), at);
            }
            StepPart::Wait(i, _) => {
                begun.get(&i).map(|&a| last.insert(a, at));
                if promoted {
                    last.insert(root(kernel.insts[i].args[2]), at);
                }
            }
            StepPart::Compute(i) => needs(kernel, i, &mut |v| _ = last.insert(root(v), at)),
            StepPart::WaitBefore(..) | StepPart::After | StepPart::Cut => {}
        }
    }
    // What runs on into the next step, and what this step finds of that: sizes, and up to where.
    let mut before: Vec<(u32, usize)> = Vec::new();
    for &i in late.iter().flat_map(|l| &l.products) {
        let [a, made] = [root(kernel.insts[i].args[0]), kernel.insts[i].results[0]];
        last.insert(made, end);
        if !stored(i, kernel.insts[i].args[0]) {
            last.insert(a, end);
            before.push((size(a), order.iter().position(|p| matches!(p, StepPart::WaitBefore(j, _) if *j == i)).unwrap_or(end)));
        }
        if late.is_some_and(|l| l.carried_as(i).is_none()) {
            before.push((size(made), order.iter().position(|p| *p == StepPart::After).unwrap_or(end)));
        }
    }
    let left = |at: usize| before.iter().filter(|b| b.1 >= at).map(|b| b.0).sum::<u32>();
    kernel.yields(region).iter().for_each(|&v| _ = last.insert(root(v), end));
    // What the step finds: values of others last as long as the loop, carried ones until nobody looks at them.
    let body: Set<Inst> = kernel.regions[region].insts.iter().copied().collect();
    let inside = |v: Value| matches!(kernel.values[v].def, ValueDef::Result(i, _) if body.contains(&i));
    let carried = &kernel.regions[region].params;
    for (&v, at) in last.iter_mut() {
        if !inside(v) && !carried.contains(&v) {
            *at = end;
        }
    }
    let mut ending: BTreeMap<usize, Vec<Value>> = BTreeMap::new();
    last.iter().for_each(|(&v, &at)| ending.entry(at).or_default().push(v));
    let mut held = StepRegisters { ending, sizes: Map::default(), now: 0 };
    last.keys().filter(|v| !inside(**v)).for_each(|&v| held.takes(v, size(v)));
    let mut most: u32 = held.now + left(0);
    for (at, part) in order.iter().enumerate() {
        let (made, gone_first) = match *part {
            StepPart::Begin(i) => (kernel.insts[i].results[0], true),
            StepPart::Wait(..) => {
                held.ends(at);
                continue;
            }
            StepPart::Compute(i) => match kernel.insts[i].results.first() {
                Some(&v) => (v, kernel.insts[i].regions.is_empty()),
                None => continue,
            },
            StepPart::WaitBefore(..) | StepPart::After | StepPart::Cut => continue,
        };
        if gone_first {
            held.ends(at);
        }
        if root(made) == made && last.contains_key(&made) {
            held.takes(made, size(made));
        }
        most = most.max(held.now + left(at));
        held.ends(at);
    }
    most
}

/// What is in registers at a part of a step.
struct StepRegisters {
    /// What is looked at last by each part.
    ending: BTreeMap<usize, Vec<Value>>,
    sizes: Map<Value, u32>,
    now: u32,
}

impl StepRegisters {
    fn takes(&mut self, v: Value, size: u32) {
        self.now += size;
        self.now -= self.sizes.insert(v, size).unwrap_or(0);
    }

    /// Nobody looks behind this part at what it looked at last.
    fn ends(&mut self, at: usize) {
        for v in self.ending.get(&at).into_iter().flatten() {
            self.now -= self.sizes.remove(v).unwrap_or(0);
        }
    }
}

/// Lanes that hold parts of one row of an accumulator.
const LANES_OF_ROW: u32 = 4;

/// What lanes make in pieces, where they want it.
struct Cheap<'k> {
    kernel: &'k Kernel,
    /// What follows from indices and numbers alone.
    of_indices: Map<Value, bool>,
    /// What follows from those, and from memory.
    from_memory: Map<Value, bool>,
}

impl Cheap<'_> {
    /// Whether a value follows from indices alone, and whether from memory as well.
    fn known(&mut self, v: Value) -> [bool; 2] {
        if let (Some(&indices), Some(&memory)) = (self.of_indices.get(&v), self.from_memory.get(&v)) {
            return [indices, memory];
        }
        let kernel = self.kernel;
        // What stands behind stands in front, so that this ends; what is deep is looked at from its beginning.
        let mut open = vec![v];
        while let Some(&at) = open.last() {
            let scalar = kernel.ty(at).as_tile().is_none();
            let of = kernel.def_inst(at).map(|i| &kernel.insts[i]).filter(|d| !scalar && d.regions.is_empty());
            let load = of.is_some_and(|d| d.op == Op::Load);
            let args = of.filter(|d| !load && d.op.info().effects == Effects::Pure && d.op != Op::Dot).map(|d| &d.args[..]);
            let missing: Vec<Value> = args.unwrap_or_default().iter().copied().filter(|v| !self.of_indices.contains_key(v)).collect();
            if missing.is_empty() {
                let all = |known: &Map<Value, bool>| scalar || args.is_some_and(|a| a.iter().all(|v| known[v]));
                let [indices, memory] = [all(&self.of_indices), load || all(&self.from_memory)];
                self.of_indices.insert(at, indices);
                self.from_memory.insert(at, memory);
                open.pop();
            }
            open.extend(missing);
        }
        [self.of_indices[&v], self.from_memory[&v]]
    }
}
