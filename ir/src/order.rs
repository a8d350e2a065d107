//! A kernel's instructions in program order, written down once: what asks about regions again and again looks at slices of it.

use crate::entities::{Inst, Region};
use crate::kernel::Kernel;
use crate::ops::Op;
use cranelift_entity::SecondaryMap;

/// The instructions of a kernel in program order, with their ops. Those of a region, and of the regions inside it, stand side by side.
#[derive(Clone, Debug)]
pub struct ProgramOrder {
    insts: Vec<Inst>,
    ops: Vec<Op>,
    /// Where the instructions of a region begin and end.
    regions: SecondaryMap<Region, [u32; 2]>,
}

impl ProgramOrder {
    /// That of a kernel.
    pub fn of(kernel: &Kernel) -> ProgramOrder {
        let many = kernel.insts.len();
        let mut regions = SecondaryMap::new();
        regions.resize(kernel.regions.len());
        let mut order = ProgramOrder { insts: Vec::with_capacity(many), ops: Vec::with_capacity(many), regions };
        order.add(kernel, kernel.body);
        order
    }

    fn add(&mut self, kernel: &Kernel, r: Region) {
        let first = self.insts.len() as u32;
        for &i in &kernel.regions[r].insts {
            let d = &kernel.insts[i];
            self.insts.push(i);
            self.ops.push(d.op);
            d.regions.iter().for_each(|&inner| self.add(kernel, inner));
        }
        self.regions[r] = [first, self.insts.len() as u32];
    }

    fn range(&self, r: Region) -> std::ops::Range<usize> {
        let [first, end] = self.regions[r];
        first as usize..end as usize
    }

    /// The instructions of a region and of those inside it.
    pub fn insts(&self, r: Region) -> &[Inst] {
        &self.insts[self.range(r)]
    }

    /// True if a region, or one inside it, has such an op.
    pub fn has(&self, r: Region, is: impl Fn(Op) -> bool) -> bool {
        self.ops[self.range(r)].iter().any(|&op| is(op))
    }

    /// The instructions of a region, and of those inside it, with such an op.
    pub fn with<'o>(&'o self, r: Region, is: impl Fn(Op) -> bool + 'o) -> impl Iterator<Item = Inst> + 'o {
        let range = self.range(r);
        self.insts[range.clone()].iter().zip(&self.ops[range]).filter(move |(_, op)| is(**op)).map(|(&i, _)| i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    #[test]
    fn the_order_is_that_of_a_walk_and_regions_are_parts_of_it() {
        let source = "kernel @k(v0: view<f32, [?]>, v1: i32) {\n\
            v2 = for v3 in 0..v1 step 1 carry v4 = v1 {\nv5 = add v4, v3\nv6 = mul v5, v3\nyield v6\n}\n\
            v7 = add v2, v1\nv8 = cmp lt v7, v1\nv9 = if v8 {\nv10 = mul v7, v7\nyield v10\n} else {\nyield v7\n}\n}";
        let k = text::parse(source).unwrap_or_else(|e| panic!("{e}")).kernels.remove(0);
        let order = ProgramOrder::of(&k);
        for r in k.regions.keys() {
            let mut walked = Vec::new();
            k.walk(r, &mut |i| walked.push(i));
            assert_eq!(order.insts(r), walked);
            for op in Op::ALL.iter().copied() {
                let with: Vec<Inst> = walked.iter().copied().filter(|&i| k.insts[i].op == op).collect();
                assert_eq!(order.has(r, |o| o == op), k.has(r, &|o| o == op));
                assert_eq!(order.with(r, |o| o == op).collect::<Vec<_>>(), with);
            }
        }
    }
}
