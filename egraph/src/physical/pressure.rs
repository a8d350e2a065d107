//! Registers of a whole choice: what is live at once, against what the machine has.
//!
//! A variant of a value lives from where the value is made to its last reader; one that is made outside a loop and read inside lives
//! as long as the loop runs. What lanes compute with is counted for itself, too, where the machine has registers in which they don't.

use super::forest::{LayoutChoice, LayoutForest, Pick, positions, regions, weights};
use super::problem::{CostModel, Problem};
use cranelift_entity::SecondaryMap;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use tilelift_ir::{Inst, Kernel, Op, Region, Value};

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
    let loops = Loops::of(kernel, &at);
    let mut done = BTreeMap::new();
    f.done.iter().for_each(|d| _ = done.entry(d.0).or_insert(d.1));
    let mut last: Vec<u32> = f.classes.iter().map(|c| c.value.map_or(0, |v| made[v])).collect();
    let mut touch = |c: u32, user: u32| {
        let Some(v) = f.classes[c as usize].value else { return };
        last[c as usize] = last[c as usize].max(loops.until(made[v], user));
    };
    for (n, class) in f.classes.iter().enumerate().filter(|(n, _)| needed[*n]) {
        let user = match class.value {
            Some(v) => made[v],
            None => done.get(&(n as u32)).map_or(0, |&i| at[i]),
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
        classes.sort_by_key(|&n| Reverse(held(n)));
    }
    Crowd { over, classes }
}

/// The loops of a kernel, by positions.
struct Loops {
    /// First and last position of each, and the loop around it.
    spans: Vec<(u32, u32, Option<usize>)>,
    /// The innermost loop at each position.
    inner: Vec<Option<usize>>,
}

impl Loops {
    fn of(kernel: &Kernel, at: &SecondaryMap<Inst, u32>) -> Loops {
        /// The first position of a region's instructions; loops in it come in front of those around them.
        fn visit(kernel: &Kernel, r: Region, at: &SecondaryMap<Inst, u32>, spans: &mut Vec<(u32, u32)>) -> u32 {
            let mut first = u32::MAX;
            for &i in &kernel.regions[r].insts {
                let d = &kernel.insts[i];
                let from = d.regions.iter().map(|&r| visit(kernel, r, at, spans)).fold(at[i], u32::min);
                if matches!(d.op, Op::For | Op::While) {
                    spans.push((from, at[i]));
                }
                first = first.min(from);
            }
            first
        }
        let mut spans = Vec::new();
        visit(kernel, kernel.body, at, &mut spans);
        spans.sort_unstable_by_key(|&(from, to)| (from, Reverse(to)));
        let mut loops = Loops { spans: Vec::new(), inner: vec![None; at.values().copied().max().unwrap_or(0) as usize + 1] };
        let (mut open, mut rest): (Option<usize>, _) = (None, spans.into_iter().peekable());
        for p in 0..loops.inner.len() {
            while let Some(n) = open.filter(|&n| (loops.spans[n].1 as usize) < p) {
                open = loops.spans[n].2;
            }
            while let Some((from, to)) = rest.next_if(|l| l.0 as usize == p) {
                loops.spans.push((from, to, open));
                open = Some(loops.spans.len() - 1);
            }
            loops.inner[p] = open;
        }
        loops
    }

    /// How long a value lives that is made here and read there: to the end of the outermost loop around the reader that begins behind it.
    fn until(&self, made: u32, user: u32) -> u32 {
        let mut until = user;
        let mut around = self.inner.get(user as usize).copied().flatten();
        while let Some((_, to, next)) = around.map(|n| self.spans[n]).filter(|&(from, ..)| made < from) {
            (until, around) = (to, next);
        }
        until
    }
}
