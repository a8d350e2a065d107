//! Registers of a whole choice: what is live at once, against what the machine has.
//!
//! A variant of a value lives from where the value is made to its last reader; one that is made outside a loop and read inside lives
//! as long as the loop runs.

use super::forest::{Choice, Forest, Pick, positions, regions, weights};
use super::problem::{CostModel, Problem};
use cranelift_entity::SecondaryMap;
use tilelift_ir::{Inst, Kernel, Op, Value};

/// Registers that do not fit, times the weight of the region where that is worst.
pub(crate) fn spills(f: &Forest, problem: &Problem<'_>, model: &dyn CostModel, choice: &Choice) -> u64 {
    let kernel = problem.kernel;
    let Some(needed) = f.needed(&choice.controls, &choice.picks) else { return 0 };
    let (at, made) = positions(kernel);
    let (region, weight) = (regions(kernel), weights(kernel));
    let ends = ends(kernel, &at);
    let mut last: Vec<u32> = f.classes.iter().map(|c| c.value.map_or(0, |v| made[v])).collect();
    let mut touch = |c: u32, user: u32| {
        let Some(v) = f.classes[c as usize].value else { return };
        // Read inside a loop that begins behind the value: until the loop ends.
        let until = ends.iter().filter(|&&(from, to)| made[v] < from && from <= user && user <= to).map(|e| e.1).max().unwrap_or(user);
        last[c as usize] = last[c as usize].max(until);
    };
    for (n, class) in f.classes.iter().enumerate().filter(|(n, _)| needed[*n]) {
        let user = match class.value {
            Some(v) => made[v],
            None => f.done.iter().find(|d| d.0 as usize == n).map_or(0, |d| at[d.1]),
        };
        match choice.picks[n] {
            Pick::Way(w) => class.ways[w as usize].kids.iter().for_each(|&k| touch(k, user)),
            Pick::Convert(x) => touch(class.converts[x as usize].0, user),
            Pick::Given | Pick::None => {}
        }
    }
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        if d.op == Op::Yield {
            let values: Vec<Value> = d.args.to_vec();
            values.iter().flat_map(|&v| f.of[v].iter()).filter(|&&c| needed[c as usize]).for_each(|&c| touch(c, at[i]));
        }
    });
    // Changes of the number of live registers by position.
    let most = at.values().copied().max().unwrap_or(0) as usize + 2;
    let mut change = vec![0i64; most + 1];
    for (n, class) in f.classes.iter().enumerate().filter(|(n, _)| needed[*n]) {
        let Some(v) = class.value else { continue };
        change[made[v] as usize] += f.registers[n] as i64;
        change[(last[n] as usize + 1).min(most)] -= f.registers[n] as i64;
    }
    let mut by_position = vec![1u64; most + 1];
    kernel.walk(kernel.body, &mut |i: Inst| by_position[at[i] as usize] = weight[region[i]]);
    let (mut live, mut worst) = (0i64, 0u64);
    for (p, c) in change.iter().enumerate() {
        live += c;
        let over = (live.max(0) as u64).saturating_sub(model.registers());
        worst = worst.max(over.saturating_mul(by_position[p]));
    }
    worst
}

/// First and last position of every loop.
fn ends(kernel: &Kernel, at: &SecondaryMap<Inst, u32>) -> Vec<(u32, u32)> {
    let mut out = Vec::new();
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        if !matches!(d.op, Op::For | Op::While) {
            return;
        }
        let mut from = at[i];
        for &r in &d.regions {
            kernel.walk(r, &mut |j| from = from.min(at[j]));
        }
        out.push((from, at[i]));
    });
    out
}
