//! Operands that are loaded for one product at a time, where shared memory does not hold all of them side by side.
//!
//! ```text
//! k = load K[…]; s = dot q, kᵀ; p = exp s; o = dot p, k        k = load K[…]; s = dot q, kᵀ; p = exp s; k' = load K[…]; o = dot p, k'
//! ```
//!
//! A tile that two products take waits in shared memory from the one to the other, and so does all that is loaded before it is wanted. Loaded right in
//! front of each product that takes it, a tile is there for that product alone: the second time it comes out of a cache. That is done with loads of tensors
//! that the kernel does not write, in the block of the product; what is loaded in front of a loop stays there. The rewrite is from tile IR to tile IR.

use crate::plan::{staged_loads, written_views};
use crate::rewrite::Rewrite;
use std::collections::BTreeMap;
use tilelift_ir::{Inst, Kernel, Op, Region, Value, ValueDef};

/// The kernel with operands loaded for each product; `None` if none is loaded otherwise than it was.
pub fn operands_apart(kernel: &Kernel) -> Option<Kernel> {
    if kernel.is_explicit() {
        return None;
    }
    let (staged, written) = (staged_loads(kernel), written_views(kernel));
    let mut found = Vec::new();
    regions(kernel, kernel.body, &mut |region| {
        let here = &kernel.regions[region].insts;
        for &dot in here.iter().filter(|&&i| kernel.insts[i].op == Op::Dot) {
            for at in 0..2 {
                let chain = chain(kernel, kernel.insts[dot].args[at]);
                let Some(&load) = chain.last().filter(|&&i| staged[i] && !written.contains(&kernel.insts[i].args[0])) else { continue };
                if chain.iter().all(|i| here.contains(i)) {
                    found.push((region, dot, at, chain, load));
                }
            }
        }
    });
    if found.is_empty() {
        return None;
    }
    let mut out = Rewrite::of(kernel);
    for (region, dot, at, chain, _) in &found {
        let mut own: BTreeMap<Value, Value> = BTreeMap::new();
        let list: Vec<Inst> = chain.iter().rev().copied().collect();
        out.again(&list, (*region, *dot), &mut own);
        let operand = &mut out.kernel.insts[*dot].args[*at];
        *operand = own.get(operand).copied().unwrap_or(*operand);
    }
    // Nobody reads what they were: the ones behind before those that they read.
    for (region, _, _, chain, _) in &found {
        for &i in chain {
            let read = out.kernel.insts[i].results.iter().any(|v| is_read(&out.kernel, *v));
            if !read {
                out.kernel.regions[*region].insts.retain(|&j| j != i);
            }
        }
    }
    Some(out.finish())
}

/// The instructions that an operand is the last result of, back to its load: transposes and reshapes, the last one first.
fn chain(kernel: &Kernel, operand: Value) -> Vec<Inst> {
    let (mut v, mut out) = (operand, Vec::new());
    while let ValueDef::Result(i, _) = kernel.values[v].def {
        out.push(i);
        match kernel.insts[i].op {
            Op::Transpose | Op::Reshape => v = kernel.insts[i].args[0],
            _ => break,
        }
    }
    out
}

/// All regions of a kernel from one on.
fn regions(kernel: &Kernel, region: Region, take: &mut dyn FnMut(Region)) {
    take(region);
    for &i in &kernel.regions[region].insts {
        kernel.insts[i].regions.iter().for_each(|&r| regions(kernel, r, take));
    }
}

/// True if an instruction that is there reads a value.
fn is_read(kernel: &Kernel, v: Value) -> bool {
    let mut found = false;
    kernel.walk(kernel.body, &mut |i| found |= kernel.insts[i].args.contains(&v));
    found
}
