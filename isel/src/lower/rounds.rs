//! Rounds over a row: counted loops, all iterations of which but the last are whole.

use cranelift_entity::SecondaryMap;
use tilelift_ir::{Inst, Kernel, Op, Region};

/// The instructions that stand in bodies of such loops without products; and with them, where `products` says so.
pub(super) fn in_rounds(kernel: &Kernel, products: bool) -> SecondaryMap<Inst, bool> {
    let mut out = SecondaryMap::new();
    multiplies(kernel, kernel.body, products, &mut out);
    out
}

/// True if a region multiplies; takes note of what stands in rounds inside it.
fn multiplies(kernel: &Kernel, r: Region, with: bool, out: &mut SecondaryMap<Inst, bool>) -> bool {
    let mut products = false;
    for &i in &kernel.regions[r].insts {
        let d = &kernel.insts[i];
        products |= d.op.factors().is_some();
        for (n, &inner) in d.regions.iter().enumerate() {
            let inside = multiplies(kernel, inner, with, out);
            if d.op == Op::For && n == 0 && (with || !inside) {
                kernel.regions[inner].insts.iter().for_each(|&j| out[j] = true);
            }
            products |= inside;
        }
    }
    products
}
