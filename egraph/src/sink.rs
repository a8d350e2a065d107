//! Values wait for loops in their narrower form: a conversion to a wider type whose result is first needed behind a loop is done behind it.
//!
//! ```text
//! a = cast x : f32          ─►    loop { … }
//! loop { … }                      a = cast x : f32
//! use a                           use a
//! ```
//!
//! Nothing else moves: what is computed in front of a loop is where its author or the extraction put it.

use std::collections::BTreeMap;
use tilelift_ir::{Inst, Kernel, Op, Region, Value};

/// Moves conversions that widen behind the loops that stand in front of their first use.
pub(crate) fn widening(kernel: &mut Kernel) {
    let mut regions = vec![kernel.body];
    while let Some(region) = regions.pop() {
        regions.extend(kernel.regions[region].insts.iter().flat_map(|&i| kernel.insts[i].regions.iter().copied()));
        if widens_in_front_of_a_loop(kernel, region) {
            sunk(kernel, region);
        }
    }
}

/// True if there may be something to move.
fn widens_in_front_of_a_loop(kernel: &Kernel, region: Region) -> bool {
    let insts = &kernel.regions[region].insts;
    let last = insts.iter().rposition(|&i| is_loop(kernel, i)).unwrap_or(0);
    insts[..last].iter().any(|&i| widens(kernel, i))
}

fn is_loop(kernel: &Kernel, i: Inst) -> bool {
    matches!(kernel.insts[i].op, Op::For | Op::While)
}

/// True for a conversion of a tile to a type of more bits.
fn widens(kernel: &Kernel, i: Inst) -> bool {
    let d = &kernel.insts[i];
    let bits = |v: Value| kernel.ty(v).as_tile().map(|t| t.elem.bits());
    d.op == Op::Cast && bits(d.args[0]).zip(bits(d.results[0])).is_some_and(|(from, to)| from < to)
}

fn sunk(kernel: &mut Kernel, region: Region) {
    let insts = kernel.regions[region].insts.clone();
    // Where the results of conversions are needed first, themselves or in what stands there.
    let mut first: BTreeMap<Value, usize> = BTreeMap::new();
    for (at, &i) in insts.iter().enumerate() {
        let mut see = |j: Inst| {
            for &v in &kernel.insts[j].args {
                first.entry(v).or_insert(at);
            }
        };
        see(i);
        for &r in &kernel.insts[i].regions {
            kernel.walk(r, &mut see);
        }
    }
    let loops: Vec<usize> = (0..insts.len()).filter(|&n| is_loop(kernel, insts[n])).collect();
    let mut moved: BTreeMap<usize, Vec<Inst>> = BTreeMap::new();
    let mut left = vec![true; insts.len()];
    for (at, &i) in insts.iter().enumerate().filter(|(_, i)| widens(kernel, **i)) {
        let Some(&to) = first.get(&kernel.insts[i].results[0]) else { continue };
        if loops.iter().any(|&l| at < l && l < to) {
            moved.entry(to).or_default().push(i);
            left[at] = false;
        }
    }
    if moved.is_empty() {
        return;
    }
    let mut order = Vec::with_capacity(insts.len());
    for (at, &i) in insts.iter().enumerate() {
        order.extend(moved.remove(&at).unwrap_or_default());
        if left[at] {
            order.push(i);
        }
    }
    kernel.regions[region].insts = order;
}

#[cfg(test)]
mod tests {
    use tilelift_ir::{Kernel, text};

    fn sunk(body: &str) -> String {
        let source = format!("kernel @k(v0: view<bf16, [?]>, v1: view<f32, [?]>) {{\n{body}\n}}\n");
        let module = text::parse(&source).expect("it parses");
        let mut kernel: Kernel = module.kernels[0].clone();
        super::widening(&mut kernel);
        assert!(tilelift_ir::verify(&kernel).is_ok());
        text::print(&kernel)
    }

    #[test]
    fn a_conversion_waits_behind_the_loop_unless_the_loop_needs_it() {
        let body = |used: &str| {
            format!(
                "v2 = load v0[0] : tile<16xbf16>\nv3 = cast v2 : tile<16xf32>\nv4 = splat 0.0 : tile<16xf32>\n\
                 v5 = for v6 in 0..4 step 1 carry v7 = v4 {{\nv8 = add v7, {used}\nyield v8\n}}\nv9 = add v5, v3\nstore v1[0], v9"
            )
        };
        let place = |text: &str, what: &str| text.find(what).expect("it is there");
        let free = sunk(&body("v4"));
        assert!(place(&free, " = for ") < place(&free, " = cast "), "{free}");
        let needed = sunk(&body("v3"));
        assert!(place(&needed, " = cast ") < place(&needed, " = for "), "{needed}");
    }
}
