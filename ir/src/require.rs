//! Layouts that the author of a kernel requires: how they are said, and which values they bind.
//!
//! ```text
//! v2 = require_layout v1, blocked(size=[1, 8], lanes=[4, 8], warps=[4, 1], order=[1, 0])
//! v3 = add v2, v4                       held, too: what is computed element by element from a held tile
//! v5 = release_layout v3                free again
//! ```
//!
//! A requirement binds its result, what ops make of it that leave it where it lies ([`Pass::stays`](crate::propagate::Pass::stays): elementwise
//! ops, flips, scans, accumulation), and what loops and choices carry of that, up to a release. Two requirements written differently must not meet in one value.
//!
//! `swizzle(n)` is of another kind: it says how the tile lies in shared memory on its way between global memory and a matrix unit, and binds the
//! load in front of it or the store behind it alone.

use crate::entities::{Inst, Value};
use crate::kernel::Kernel;
use crate::layout::LayoutSpec;
use crate::ops::{Attr, Op};
use crate::propagate::{Touch, carried, passage};
use crate::types::Type;
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// Two requirements that meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meeting {
    /// The value that would have to be held in both.
    pub value: Value,
    /// The instruction where they meet.
    pub at: Inst,
    /// The `require_layout` instructions.
    pub sites: [Inst; 2],
}

/// The requirement that holds each value: its `require_layout`.
pub type Requirements = SecondaryMap<Value, Option<Inst>>;

/// What a requirement asks for.
pub fn spec(kernel: &Kernel, site: Inst) -> Option<&LayoutSpec> {
    match kernel.insts[site].attrs.first() {
        Some(Attr::Layout(l)) => Some(l),
        Some(_) | None => None,
    }
}

/// Which requirement holds each value of a kernel whose values and regions are in order.
///
/// # Errors
/// Two different requirements that meet in one value.
pub fn requirements(kernel: &Kernel) -> Result<Requirements, Meeting> {
    let flow = Flow::over(kernel);
    match flow.meeting {
        Some(m) => Err(m),
        None => Ok(flow.held),
    }
}

struct Flow<'k> {
    kernel: &'k Kernel,
    held: Requirements,
    /// Values that are held since the last look.
    fresh: Vec<Value>,
    meeting: Option<Meeting>,
    /// Instructions that were looked at.
    looks: usize,
}

impl<'k> Flow<'k> {
    /// What all requirements of a kernel hold, up to the first that meet.
    fn over(kernel: &'k Kernel) -> Flow<'k> {
        let mut flow = Flow { kernel, held: SecondaryMap::new(), fresh: Vec::new(), meeting: None, looks: 0 };
        if !kernel.has(kernel.body, &|op| op == Op::RequireLayout) {
            return flow;
        }
        let mut list: Vec<Inst> = Vec::with_capacity(kernel.insts.len());
        kernel.walk(kernel.body, &mut |i| list.push(i));
        // Who looks at a value: the instructions that take it, and what carries it.
        let mut looks: SecondaryMap<Value, SmallVec<[u32; 2]>> = SecondaryMap::new();
        for (n, &i) in list.iter().enumerate() {
            kernel.insts[i].args.iter().for_each(|&v| looks[v].push(n as u32));
            for &r in &kernel.insts[i].regions {
                kernel.regions[r].params.iter().chain(kernel.yields(r)).for_each(|&v| looks[v].push(n as u32));
            }
        }
        // A requirement is new to a value once, so this ends.
        let mut work: BTreeSet<u32> = (0..list.len() as u32).collect();
        while let Some(i) = work.pop_first().and_then(|n| list.get(n as usize))
            && flow.meeting.is_none()
        {
            flow.inst(*i);
            while let Some(v) = flow.fresh.pop() {
                work.extend(&looks[v]);
            }
        }
        flow
    }

    /// The requirement of one value spreads to another at an instruction.
    fn spread(&mut self, from: Value, to: Value, at: Inst) {
        // What lies in shared memory says nothing of registers.
        if let Some(site) = self.held[from].filter(|&s| !matches!(spec(self.kernel, s), Some(LayoutSpec::Swizzle(_)))) {
            self.hold(to, site, at);
        }
    }

    fn hold(&mut self, v: Value, site: Inst, at: Inst) {
        // Elements of 4 bits share bytes with their neighbours: their layout follows from that of the bytes.
        if !matches!(self.kernel.ty(v), Type::Tile(t) if !t.elem.is_packed()) {
            return;
        }
        match self.held[v] {
            None => {
                self.held[v] = Some(site);
                self.fresh.push(v);
            }
            Some(old) if spec(self.kernel, old) == spec(self.kernel, site) => {}
            Some(old) => {
                self.meeting.get_or_insert(Meeting { value: v, at, sites: [old, site] });
            }
        }
    }

    fn inst(&mut self, i: Inst) {
        self.looks += 1;
        let kernel = self.kernel;
        if kernel.insts[i].op == Op::RequireLayout {
            self.hold(kernel.insts[i].results[0], i, i);
        }
        for c in carried(kernel, i) {
            c.flows().for_each(|(from, to)| self.spread(from, to, i));
        }
        // What any other op makes lies as it pleases.
        let Some(p) = passage(kernel, i).filter(|p| p.pass.stays()) else { return };
        let values =
            |results: bool| p.near.iter().filter(move |t| matches!(t, Touch::Result(_)) == results).filter_map(|t| t.value(kernel, i));
        for to in values(true) {
            values(false).for_each(|from| self.spread(from, to, i));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Flow, requirements};
    use crate::text;

    /// Loops behind each other, whose carried tiles are held by what they yield: each instruction is looked at a few times.
    #[test]
    fn requirements_take_looks_in_the_length_of_the_kernel() {
        let spec = "blocked(size=[1, 8], lanes=[8, 4], warps=[1, 1], order=[1, 0])";
        let mut code =
            format!("v2 = load v0[0, 0] : tile<8x32xf32>\nv3 = require_layout v2, {spec}\nv4 = load v0[0, 0] : tile<8x32xf32>\n");
        let mut last = 3;
        for k in 0..400 {
            let v = 10 + 4 * k;
            code += &format!("v{v} = for v{} in 0..v1 step 1 carry v{} = v4 {{\n", v + 1, v + 2);
            code += &format!("v{} = add v{}, v{last}\nyield v{}\n}}\n", v + 3, v + 2, v + 3);
            last = v;
        }
        let source = format!("kernel @k(v0: view<f32, [?, ?]>, v1: i32) {{\n{code}}}");
        let k = text::parse(&source).unwrap_or_else(|e| panic!("{e}")).kernels.remove(0);
        let flow = Flow::over(&k);
        assert!(flow.looks <= 5 * k.insts.len(), "{} looks at {} instructions", flow.looks, k.insts.len());
        let held = requirements(&k).expect("one requirement");
        let results = k.insts.values().filter(|d| !d.regions.is_empty()).map(|d| d.results[0]);
        assert!(results.into_iter().all(|v| held[v].is_some()), "all loops carry what is held");
    }
}
