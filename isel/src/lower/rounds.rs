//! Rounds over a row: counted loops without products, all iterations of which but the last are whole.

use cranelift_entity::SecondaryMap;
use tilelift_ir::{Inst, Kernel, Op, Region};

/// The instructions that stand in bodies of such loops.
pub(super) fn in_rounds(kernel: &Kernel) -> SecondaryMap<Inst, bool> {
    let mut out = SecondaryMap::new();
    multiplies(kernel, kernel.body, &mut out);
    out
}

/// True if a region multiplies; takes note of what stands in rounds inside it.
fn multiplies(kernel: &Kernel, r: Region, out: &mut SecondaryMap<Inst, bool>) -> bool {
    let mut products = false;
    for &i in &kernel.regions[r].insts {
        let d = &kernel.insts[i];
        products |= d.op.factors().is_some();
        for (n, &inner) in d.regions.iter().enumerate() {
            let inside = multiplies(kernel, inner, out);
            if d.op == Op::For && n == 0 && !inside {
                kernel.regions[inner].insts.iter().for_each(|&j| out[j] = true);
            }
            products |= inside;
        }
    }
    products
}
