//! The order of computations in blocks that would need too many registers: what is computed is computed where it is read first.
//!
//! A tile's values come operation by operation: all elements take the first one, then all the second. Where a lane has many elements, that keeps
//! several values of each alive. Element by element, few are; and nothing is lost, since a vector instruction's result is there for the next one.
//! What touches memory, other lanes or matrices keeps its place.

use super::rearrange::{BlockOrder, rearranged};
use super::role::Role;
use super::uniform::{RegisterClass, Uniform};
use cranelift_entity::SecondaryMap;
use std::borrow::Cow;
use tilelift_lane::{Block, LVal, Program, visit};

/// Vector registers, and scalar ones, up to which a block stays as it is.
const ENOUGH: [u32; 2] = [160, 64];

/// The program, with blocks that need many registers in another order if that needs fewer.
pub(super) fn reordered<'p>(program: &'p Program, uniform: &Uniform<'_>) -> Cow<'p, Program> {
    match rearranged(&program.body, &|insts, handed| order(program, uniform, insts, handed)) {
        Some(body) => Cow::Owned(with_body(program, body)),
        None => Cow::Borrowed(program),
    }
}

/// The same program with another body.
pub(super) fn with_body(program: &Program, body: Block) -> Program {
    Program {
        name: program.name.clone(),
        params: program.params.clone(),
        warps: program.warps,
        lanes: program.lanes,
        cluster: program.cluster,
        positions: program.positions,
        allocs: program.allocs.clone(),
        shared_bytes: program.shared_bytes,
        vals: program.vals.clone(),
        body,
    }
}

/// Another order of a block that takes too many registers, if that takes fewer. `handed` are values that are read behind its end.
fn order(program: &Program, uniform: &Uniform<'_>, insts: &Block, handed: &[LVal]) -> BlockOrder {
    let plain: Vec<usize> = (0..insts.len()).collect();
    let before = pressure(program, uniform, insts, &plain, handed);
    if before[0] <= ENOUGH[0] && before[1] <= ENOUGH[1] {
        return None;
    }
    let other = by_demand(insts);
    let after = pressure(program, uniform, insts, &other, handed);
    // What is beyond what is enough counts, in shares of it.
    let excess = |p: [u32; 2]| p[0].saturating_sub(ENOUGH[0]) * ENOUGH[1] + p[1].saturating_sub(ENOUGH[1]) * ENOUGH[0];
    (excess(after) < excess(before)).then_some(other)
}

/// Each computation in front of the first instruction that reads it.
fn by_demand(insts: &Block) -> Vec<usize> {
    let mut maker: SecondaryMap<LVal, Option<u32>> = SecondaryMap::new();
    for (i, inst) in insts.iter().enumerate() {
        if inst.effect().computes() {
            inst.results().iter().for_each(|&v| maker[v] = Some(i as u32));
        }
    }
    let mut done = vec![false; insts.len()];
    let mut out = Vec::with_capacity(insts.len());
    let needs = |i: usize| {
        let mut all = Vec::new();
        visit::reads(&insts[i], &mut |v| all.extend(maker[v].map(|m| m as usize)));
        all
    };
    let mut place = |root: usize, done: &mut Vec<bool>| {
        // An instruction, and what it still needs, last first.
        let mut stack = vec![(root, needs(root))];
        while let Some((i, left)) = stack.last_mut() {
            let i = *i;
            match left.iter().position(|&n| !done[n] && n != i) {
                Some(at) => {
                    let n = left.remove(at);
                    stack.push((n, needs(n)));
                }
                None => {
                    if !done[i] {
                        done[i] = true;
                        out.push(i);
                    }
                    stack.pop();
                }
            }
        }
    };
    for (i, inst) in insts.iter().enumerate() {
        if !inst.effect().computes() {
            place(i, &mut done);
        }
    }
    // What blocks around it read.
    (0..insts.len()).for_each(|i| place(i, &mut done));
    out
}

/// The most registers that values of the block take at a time: vector registers, and scalar ones.
fn pressure(program: &Program, uniform: &Uniform<'_>, insts: &Block, order: &[usize], handed: &[LVal]) -> [u32; 2] {
    let mut last: SecondaryMap<LVal, u32> = SecondaryMap::new();
    for (at, &i) in order.iter().enumerate() {
        visit::reads(&insts[i], &mut |v| last[v] = at as u32);
    }
    handed.iter().for_each(|&v| last[v] = u32::MAX);
    let words = |v: LVal| match uniform.class(v) {
        RegisterClass::Vector => [program.vals[v].bits().div_ceil(32), 0],
        RegisterClass::Scalar => [0, program.vals[v].bits().div_ceil(32)],
        RegisterClass::Mask => [0, 2],
    };
    let (mut alive, mut most) = ([0; 2], [0; 2]);
    let mut ends = vec![[0u32; 2]; order.len() + 1];
    for (at, &i) in order.iter().enumerate() {
        // Constants are made where they are read.
        let constant = matches!(Role::of(&insts[i]), Role::Literal(_));
        for v in visit::results(&insts[i]).into_iter().filter(|_| !constant) {
            let end = last[v];
            if end > at as u32 {
                for file in 0..2 {
                    alive[file] += words(v)[file];
                    if let Some(e) = ends.get_mut(end as usize) {
                        e[file] += words(v)[file];
                    }
                }
            }
        }
        for file in 0..2 {
            most[file] = most[file].max(alive[file]);
            alive[file] -= ends[at][file];
        }
    }
    most
}
