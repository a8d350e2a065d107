//! Products that end a step later than they begin: while they run, the next step's products begin behind them, and lanes do what that step begins with.
//!
//! ```text
//! a step:   begin a product of this step ─ wait for those of the step before ─ what looks at them ─ … ─ begin products that end in the next step
//!
//! accumulators   carried by the loop, and looked at by nothing else in their step
//! the others     only what others see (stores, atomic sums) looks at them, by way of what lanes compute of them and of the index, and of nothing else of their step
//! ```
//!
//! Everything that others see keeps its order: where some of it can't be done a step later, none is.

use super::late_products::Late;
use super::products::accumulates;
use super::replay::needs;
use super::step_order::{StepPart, keeps_place, late_order};
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::{Effects, Inst, Kernel, Op, Region, Value, ValueDef};
use tilelift_lane::hash::Set;

/// Where the products of a loop find their operands.
pub(super) struct Operands<'a> {
    /// For each tile that lanes store in every step, the products that read it.
    pub staged: Vec<BTreeSet<Inst>>,
    /// True for products whose operand A is in shared memory.
    pub a_in_memory: &'a dyn Fn(Inst) -> bool,
}

/// What may end a step later of a loop in whose steps `computed` says what is done.
pub(super) fn late(
    kernel: &Kernel,
    region: Region,
    written: &Set<Value>,
    computed: &dyn Fn(Inst) -> bool,
    operands: Operands<'_>,
) -> Option<Late> {
    let insts = &kernel.regions[region].insts;
    let body: Vec<Inst> = insts.iter().copied().filter(|&i| computed(i)).collect();
    let inside: BTreeSet<Inst> = insts.iter().copied().collect();
    let mut users: BTreeMap<Value, BTreeSet<Inst>> = BTreeMap::new();
    for &i in insts.iter().filter(|&&i| computed(i) || kernel.insts[i].op == Op::Yield) {
        needs(kernel, i, &mut |v| _ = users.entry(v).or_default().insert(i));
    }
    let made_in = |v: Value| match kernel.values[v].def {
        ValueDef::Result(i, _) if inside.contains(&i) => Some(i),
        _ => None,
    };
    let index = kernel.regions[region].params[0];
    // A number of the loop, the index, or what is outside.
    let given = |v: Value| v == index || made_in(v).is_none() && !kernel.regions[region].params.contains(&v);
    let mut again: BTreeSet<Inst> = BTreeSet::new();
    for &i in insts {
        let d = &kernel.insts[i];
        let pure = d.op.info().effects == Effects::Pure && d.op != Op::Dot && d.regions.is_empty();
        let from = |v: &Value| given(*v) || made_in(*v).is_some_and(|j| again.contains(&j));
        if pure && d.args.iter().all(from) {
            again.insert(i);
        }
    }
    // What only others see, and what is computed for that alone.
    let mut sinks: BTreeSet<Inst> =
        body.iter().copied().filter(|&i| kernel.insts[i].op != Op::Dot && kernel.insts[i].regions.is_empty()).collect();
    // What somebody looks at in its own step.
    let mut looked_at: Set<Value> = users.iter().filter(|(_, u)| u.iter().any(|j| !sinks.contains(j))).map(|(&v, _)| v).collect();
    // Each is asked again when what it looks at, or who looks at it, has turned out to be none.
    let mut open: Vec<Inst> = body.clone();
    while let Some(i) = open.pop() {
        let fits = |v: &Value| {
            let later = |j: Inst| {
                again.contains(&j) || sinks.contains(&j) || kernel.insts[j].op == Op::Dot && computed(j) && !looked_at.contains(v)
            };
            given(*v) || made_in(*v).is_some_and(later)
        };
        let d = &kernel.insts[i];
        if !sinks.contains(&i) || d.results.iter().all(|v| !looked_at.contains(v)) && d.args.iter().all(fits) {
            continue;
        }
        sinks.remove(&i);
        open.extend(d.results.iter().filter_map(|v| users.get(v)).flatten());
        needs(kernel, i, &mut |v| {
            let Some(j) = made_in(v).filter(|_| looked_at.insert(v)) else { return };
            open.push(j);
            // Nobody else looks a step later at a product that somebody looks at in its own.
            if kernel.insts[j].op == Op::Dot {
                open.extend(users.get(&v).into_iter().flatten());
            }
        });
    }
    let mut after: Set<Inst> = Set::default();
    for &i in body.iter().filter(|i| sinks.contains(i)) {
        let of_product = |v: &Value| made_in(*v).is_some_and(|j| kernel.insts[j].op == Op::Dot || after.contains(&j));
        if kernel.insts[i].args.iter().any(of_product) {
            after.insert(i);
        }
    }
    // What was loaded for the products' own step would be held in registers beside accumulators that change places, which the assembler serialises.
    let of_own_step = |&v: &Value| made_in(v).is_some_and(|j| kernel.insts[j].op != Op::Dot && !again.contains(&j) && !after.contains(&j));
    let held = after.iter().any(|&i| kernel.insts[i].args.iter().any(of_own_step));
    if held || body.iter().any(|&i| keeps_place(kernel, i, written) && !after.contains(&i)) {
        after.clear();
    }
    let yields = kernel.yields(region);
    // A product adds to one in flight where that began: in the same place of the loop.
    let goes_on = |k: usize, i: Inst| {
        let param = kernel.regions[region].params[k + 1];
        let added_to = body.iter().any(|&j| kernel.insts[j].op == Op::Dot && kernel.insts[j].args[2] == param);
        !added_to || accumulates(kernel, region, i)
    };
    let (mut products, mut carried) = (Vec::new(), Vec::new());
    for &i in body.iter().filter(|&&i| kernel.insts[i].op == Op::Dot) {
        let v = kernel.insts[i].results[0];
        let (Some(by), mut places) = (users.get(&v), (0..yields.len()).filter(|&k| yields[k] == v)) else { continue };
        let only = (places.next(), places.next());
        match only {
            (Some(k), None) if by.len() == 1 && goes_on(k, i) => {
                products.push(i);
                carried.push(Some(k));
            }
            (None, _) if by.iter().all(|j| after.contains(j)) => {
                products.push(i);
                carried.push(None);
            }
            _ => {}
        }
    }
    let wanted = |i: &Inst| again.contains(i) && !after.contains(i);
    let again = insts.iter().copied().filter(wanted).collect();
    let after = body.iter().copied().filter(|i| after.contains(i)).collect();
    let mut late = Late { products, carried, after, again, together: operands.staged.clone(), spare: true };
    late.spare = spare(kernel, &body, &late, &operands);
    // A product that is over sooner, since a later one is waited for, is none of them.
    while !late.products.is_empty() {
        let running = match late_order(kernel, region, written, computed, &late) {
            Ok((order, _)) => {
                let keeps = |i: Inst| keeps_registers(kernel, i, &order, &users, &operands);
                return order
                    .iter()
                    .take_while(|p| **p != StepPart::Cut)
                    .all(|p| if let StepPart::Begin(i) = *p { keeps(i) } else { true })
                    .then_some(late);
            }
            Err(running) => running,
        };
        let before = late.products.clone();
        late.only(&running);
        if late.products == before {
            return None;
        }
    }
    None
}

/// True if an assembler finds registers for products that run across the end of the loop: it holds the operands A of several twice there, and what
/// masks follow from.
fn spare(kernel: &Kernel, body: &[Inst], late: &Late, operands: &Operands<'_>) -> bool {
    let masks = body.iter().any(|&i| kernel.insts[i].op == Op::Select);
    !masks && late.products.iter().filter(|&&p| !(operands.a_in_memory)(p)).count() < 2
}

/// True for a product in flight where the loop goes round whose registers are the same in each of its steps. A product that lanes wait for behind that
/// is over in front of the next one, unless it goes on as an accumulator; one that runs longer reads an operand A from registers only if these are
/// filled again behind its end.
fn keeps_registers(kernel: &Kernel, i: Inst, order: &[StepPart], users: &BTreeMap<Value, BTreeSet<Inst>>, operands: &Operands<'_>) -> bool {
    let (first, rest) = order.split_at(order.iter().position(|p| *p == StepPart::Cut).unwrap_or(0));
    let waits = |part: &StepPart| matches!(part, StepPart::Wait(j, _) if *j == i);
    let v = kernel.insts[i].results[0];
    let goes_on = |j: &Inst| kernel.insts[*j].op == Op::Yield || kernel.insts[*j].op == Op::Dot && kernel.insts[*j].args[2] == v;
    if first.iter().any(waits) {
        return true;
    }
    if rest.iter().any(waits) {
        return !users.get(&v).is_some_and(|u| u.iter().any(goes_on));
    }
    let mut a = kernel.insts[i].args[0];
    while let Some(j) = kernel.def_inst(a).filter(|&j| matches!(kernel.insts[j].op, Op::Broadcast | Op::Reshape | Op::Transpose)) {
        a = kernel.insts[j].args[0];
    }
    let over = first.iter().position(|p| matches!(p, StepPart::WaitBefore(j, _) if *j == i));
    let made = kernel.def_inst(a).and_then(|j| first.iter().position(|p| *p == StepPart::Compute(j)));
    (operands.a_in_memory)(i) || over.zip(made).is_some_and(|(over, made)| over < made)
}
