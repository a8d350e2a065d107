//! The walk through the main loop: as its products need it, as any loop, or with its first step in front.

use super::walk::{At, Refused, Walk, Walked};
use tilelift_ir::{Inst, Region, Value};
use tilelift_schedule::plan::{Overlap, is_zero};

impl Walk<'_> {
    /// The main loop.
    pub fn main(&mut self, i: Inst) -> Walked {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let region = d.regions[0];
        let params = &kernel.regions[region].params[1..];
        let ring = self.ring;
        self.values[kernel.regions[region].params[0]] = Some(At::Scalar);
        if !ring.mixed {
            // Sums are carried as the loop finds them.
            self.wanted(&d.args[3..], &d.args[3..])?;
            self.in_block(|w| {
                w.in_block(|w| {
                    params.iter().zip(&d.args[3..]).try_for_each(|(&p, &a)| w.layout_of(a).map(|l| w.set(p, l)))?;
                    w.region(region)
                })
            })?;
            return d.results.iter().zip(&d.args[3..]).try_for_each(|(&r, &a)| self.layout_of(a).map(|l| self.set(r, l)));
        }
        // Operands A that stand in front of the loop.
        for &(i, _) in &ring.dots {
            let a = kernel.insts[i].args[0];
            if let (Some(At::Tile(_)), Some(dot)) = (&self.values[a], self.assigned.dots[i].clone()) {
                self.tile(a, &dot.a)?;
            }
        }
        match &ring.overlap {
            Some(parts) => self.overlapped(i, parts),
            None => self.looped(&d.args[3..], params, &d.results, |w| {
                w.region(region)?;
                w.wanted(kernel.yields(region), params)
            }),
        }
    }

    /// A main loop whose products run while lanes compute: its first step stands in front of the loop.
    fn overlapped(&mut self, i: Inst, parts: &Overlap) -> Walked {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let region = d.regions[0];
        let params = &kernel.regions[region].params[1..];
        let yields = kernel.yields(region);
        let late = |y: Value| parts.late.iter().find(|&&l| kernel.insts[l].results[0] == y);
        self.wanted(&d.args[3..], params)?;
        self.in_block(|w| {
            params.iter().try_for_each(|&v| w.set_own(v))?;
            w.step(region, parts)?;
            w.in_block(|w| {
                let r = &kernel.regions[region];
                for v in r.insts.iter().flat_map(|&j| &kernel.insts[j].results).chain(&r.params) {
                    w.variants.remove(v);
                }
                for (&p, &y) in params.iter().zip(yields) {
                    match late(y).and_then(|&l| w.assigned.dots[l].clone()) {
                        Some(dot) => w.set(p, dot.d.clone()),
                        None => w.set_own(p)?,
                    }
                }
                w.step(region, parts)
            })?;
            for ((&r, &y), &p) in d.results.iter().zip(yields).zip(params) {
                if let Some(dot) = late(y).and_then(|&l| w.assigned.dots[l].clone()) {
                    w.set(r, dot.d.clone());
                    w.wanted(&[r], &[p])?;
                }
            }
            Ok(())
        })?;
        d.results.iter().zip(params).try_for_each(|(&r, &p)| match self.is_tile(r) {
            true => self.layout_of(p).map(|l| self.set(r, l)),
            false => self.set_own(r),
        })
    }

    /// Early products, head, tail, and what late products need.
    fn step(&mut self, region: Region, parts: &Overlap) -> Walked {
        let kernel = self.kernel;
        let r = &kernel.regions[region];
        for &i in &parts.early {
            let plan = self.assigned.dots[i].clone().ok_or(Refused)?;
            let c = kernel.insts[i].args[2];
            if !is_zero(kernel, c) {
                self.tile(c, &plan.d)?;
            }
            self.left(i)?;
            self.set(kernel.insts[i].results[0], plan.d.clone());
        }
        let head = |i: &&Inst| ![&parts.early, &parts.late, &parts.tail].iter().any(|part| part.contains(i));
        r.insts.iter().filter(head).try_for_each(|&i| self.inst(i))?;
        parts.tail.iter().try_for_each(|&i| self.inst(i))?;
        for &i in &parts.late {
            let plan = self.assigned.dots[i].clone().ok_or(Refused)?;
            self.left(i)?;
            let c = kernel.insts[i].args[2];
            if !is_zero(kernel, c) {
                self.tile(c, &plan.d)?;
            }
        }
        let late = |y: &Value| parts.late.iter().any(|&l| kernel.insts[l].results[0] == *y);
        for (&y, &p) in kernel.yields(region).iter().zip(&r.params[1..]).filter(|(y, _)| !late(y)) {
            self.wanted(&[y], &[p])?;
        }
        Ok(())
    }
}
