//! Registers of a whole choice: what is live at once, against what the machine has.
//!
//! A variant of a value lives from where the value is made to its last reader; one that is made outside a loop and read inside lives
//! as long as the loop runs. What lanes compute with is counted for itself, too, where the machine has registers in which they don't.

use super::forest::{LayoutChoice, LayoutForest, Pick, positions, regions, weights};
use super::problem::{CostModel, Problem};
use cranelift_entity::SecondaryMap;
use tilelift_ir::{Inst, Kernel, Op, Value};

/// What does not fit the registers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crowd {
    /// Registers that do not fit, times the weight of the region where that is worst.
    pub over: u64,
    /// The classes that are live there, where those of lanes' own are too few: what takes most of them comes first.
    pub classes: Vec<u32>,
}

/// What of a choice does not fit the registers.
pub(crate) fn crowd(f: &LayoutForest, problem: &Problem<'_>, model: &dyn CostModel, choice: &LayoutChoice) -> Crowd {
    let kernel = problem.kernel;
    let Some(needed) = f.needed(&choice.controls, &choice.picks) else { return Crowd::default() };
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
    let mut change = vec![[0i64; 2]; most + 1];
    let lives: Vec<(u32, [usize; 2])> = (0..f.classes.len())
        .filter(|&n| needed[n])
        .filter_map(|n| Some((n as u32, [made[f.classes[n].value?] as usize, (last[n] as usize + 1).min(most)])))
        .collect();
    for &(n, [from, to]) in &lives {
        for (kind, &held) in f.registers[n as usize].iter().enumerate() {
            change[from][kind] += held as i64;
            change[to][kind] -= held as i64;
        }
    }
    let mut by_position = vec![1u64; most + 1];
    kernel.walk(kernel.body, &mut |i: Inst| by_position[at[i] as usize] = weight[region[i]]);
    let (has, mut live, mut over, mut worst) = (model.registers(), [0i64; 2], 0u64, None);
    for (p, c) in change.iter().enumerate() {
        for kind in 0..has.len() {
            live[kind] += c[kind];
            let here = (live[kind].max(0) as u64).saturating_sub(has[kind]).saturating_mul(by_position[p]);
            if here > over {
                (over, worst) = (here, Some((p, kind)));
            }
        }
    }
    let mut classes = Vec::new();
    if let Some((p, 1)) = worst {
        let held = |n: u32| f.registers[n as usize][1];
        classes.extend(lives.iter().filter(|&&(n, [from, to])| from <= p && p < to && held(n) > 0).map(|l| l.0));
        classes.sort_by_key(|&n| std::cmp::Reverse(held(n)));
    }
    Crowd { over, classes }
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
