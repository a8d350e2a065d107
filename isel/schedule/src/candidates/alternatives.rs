//! The layouts of a specialised loop's operands that its plan accepts, one decision at a time: in which swizzle they wait, whether operands A go
//! through registers, how results leave.
//!
//! An alternative is what the plan accepts, all else being as it would be without it; what the kernel's author or the caller requires leaves
//! no other. Decisions whose prices depend on each other are one choice: a load, and the dots whose operand A it brings.
//!
//! ```text
//! load 7 ── swizzle(128) | swizzle(64) | swizzle(32) ─┬─ dot 9: operand A from shared memory | from registers      one choice
//!                                                     └─ dot 12: …
//! store 14 ── bulk, swizzle(128) | bulk, swizzle(64) | bulk, swizzle(32) | per lane                                 one choice
//! ```

use super::price::{Price, Prices};
use crate::candidates::price::swizzled_map;
use crate::plan::{EpilogueStore, LowerOptions, Plan, RingLayouts, SwizzledTile, plan_with, trace};
use tilelift_ir::{Inst, Kernel};
use tilelift_lane::Target;

/// What may be decided of a loop; the plan's own decision comes first in each list.
pub(super) struct Alternatives {
    /// Swizzle widths by load.
    pub swizzles: Vec<(Inst, Vec<u32>)>,
    /// By dot whose operand A comes from the ring: its load, and whether it goes through registers.
    pub operand_a: Vec<(Inst, Inst, Vec<bool>)>,
    /// By store.
    pub stores: Vec<(Inst, Vec<EpilogueStore>)>,
}

impl Alternatives {
    /// What a plan decides itself, and nothing else; `None` if it is not specialised.
    pub fn decided(kernel: &Kernel, plan: &Plan) -> Option<Alternatives> {
        let s = plan.specialised()?;
        let contiguous = |j: Inst| s.loads.iter().find(|l| l.0 == j).map(|l| l.1.contiguous());
        let of_ring = |&(dot, _): &(Inst, _)| {
            let (load, _) = trace(kernel, kernel.insts[dot].args[0], &contiguous)?;
            Some((dot, load, vec![s.register_a.contains(&dot)]))
        };
        Some(Alternatives {
            swizzles: s.loads.iter().map(|(load, tile)| (*load, vec![tile.swizzle])).collect(),
            operand_a: s.dots.iter().filter_map(of_ring).collect(),
            stores: s.stores.iter().map(|(store, tile)| (*store, vec![EpilogueStore::Bulk(tile.swizzle)])).collect(),
        })
    }

    /// Those of a plan; `None` if it is not specialised.
    pub fn of(kernel: &Kernel, target: &Target, options: &LowerOptions, plan: &Plan) -> Option<Alternatives> {
        let s = plan.specialised()?;
        let units = target.units.as_ref()?;
        let said = RingLayouts::required(kernel).unwrap_or_default().or(&RingLayouts::asked(kernel, options));
        let can = |ring_layouts: RingLayouts| plan_with(kernel, target, options, &ring_layouts).is_ok_and(|p| p.specialised().is_some());
        // Where no lanes share boxes, an access that is cut into them is all that the plan asks for.
        let cut = |i: Inst, tile: &SwizzledTile, swizzle: u32| SwizzledTile::of(kernel, i, &tile.shape, units, Some(swizzle)).is_ok();
        let others = |own: u32| units.bulk.swizzles.iter().copied().filter(move |&x| x != own);
        let mut out = Alternatives::decided(kernel, plan)?;
        for ((load, list), (_, tile)) in out.swizzles.iter_mut().zip(&s.loads) {
            // Where lanes put it costs them the same.
            if !said.swizzles.contains_key(load) && !s.by_lanes.contains(load) {
                let with = |swizzle: u32| RingLayouts { swizzles: [(*load, swizzle)].into(), ..RingLayouts::default() };
                list.extend(
                    others(tile.swizzle).filter(|&x| if s.register_a.is_empty() && !s.mixed { cut(*load, tile, x) } else { can(with(x)) }),
                );
            }
            let v = kernel.insts[*load].results[0];
            list.retain(|&x| x == tile.swizzle || swizzled_map(kernel, *load, v, x).is_some());
        }
        for (dot, _, ways) in &mut out.operand_a {
            let other = !s.register_a.contains(dot);
            let can_other = || can(RingLayouts { a_from_registers: [(*dot, other)].into(), ..RingLayouts::default() });
            if !said.a_from_registers.contains_key(dot) && can_other() {
                ways.push(other);
            }
        }
        for ((store, ways), (_, tile)) in out.stores.iter_mut().zip(&s.stores) {
            if !said.epilogue.contains_key(store) {
                ways.extend(others(tile.swizzle).filter(|&x| cut(*store, tile, x)).map(EpilogueStore::Bulk));
                ways.extend((options.bulk_stores != Some(true)).then_some(EpilogueStore::Lanes));
            }
        }
        Some(out)
    }

    /// The choices, each with its options and what they add to the price, the plan's own option first. An option without a price is none;
    /// `None` if that is the plan's own.
    pub fn choices(&self, prices: &Prices<'_>) -> Option<Vec<PricedOptions>> {
        let mut out = Vec::new();
        for (load, swizzles) in &self.swizzles {
            let dots: Vec<_> = self.operand_a.iter().filter(|a| a.1 == *load).map(|a| (a.0, &a.2[..])).collect();
            let mut options = PricedOptions::new();
            for &swizzle in swizzles {
                for ways in product(&dots) {
                    let ring_layouts = RingLayouts {
                        swizzles: [(*load, swizzle)].into(),
                        a_from_registers: ways.iter().copied().collect(),
                        ..RingLayouts::default()
                    };
                    options.extend(prices.loaded(*load, swizzle, &ways).map(|price| (ring_layouts, price)));
                }
            }
            out.push(options);
        }
        for (store, ways) in &self.stores {
            let priced = |&way: &EpilogueStore| {
                let ring_layouts = RingLayouts { epilogue: [(*store, way)].into(), ..RingLayouts::default() };
                Some((ring_layouts, Price { epilogue: prices.store(*store, way)?, ..Price::default() }))
            };
            out.push(ways.iter().filter_map(priced).collect());
        }
        let own = |c: &PricedOptions, own: &RingLayouts| c.first().is_some_and(|first| first.0.agrees(own));
        let plan = self.own();
        out.iter().all(|c| own(c, &plan)).then_some(out)
    }

    /// What the plan itself decides.
    pub fn own(&self) -> RingLayouts {
        RingLayouts {
            swizzles: self.swizzles.iter().map(|w| (w.0, w.1[0])).collect(),
            a_from_registers: self.operand_a.iter().map(|a| (a.0, a.2[0])).collect(),
            epilogue: self.stores.iter().map(|s| (s.0, s.1[0])).collect(),
        }
    }

    /// Any of them, by a seed.
    pub fn random(&self, seed: &mut u64) -> RingLayouts {
        let mut one = |n: usize| {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (*seed >> 40) as usize % n.max(1)
        };
        RingLayouts {
            swizzles: self.swizzles.iter().map(|w| (w.0, w.1[one(w.1.len())])).collect(),
            a_from_registers: self.operand_a.iter().map(|a| (a.0, a.2[one(a.2.len())])).collect(),
            epilogue: self.stores.iter().map(|s| (s.0, s.1[one(s.1.len())])).collect(),
        }
    }
}

/// Options, and what each adds to the price.
pub(super) type PricedOptions = Vec<(RingLayouts, Price)>;

/// Every way to decide for some dots, in the order of their lists.
fn product(dots: &[(Inst, &[bool])]) -> Vec<Vec<(Inst, bool)>> {
    dots.iter().fold(vec![Vec::new()], |all, (dot, ways)| {
        let with = |head: &Vec<(Inst, bool)>, way: bool| head.iter().copied().chain([(*dot, way)]).collect();
        all.iter().flat_map(|head| ways.iter().map(move |&way| with(head, way))).collect()
    })
}
