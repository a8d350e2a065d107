//! Tasks of several warpgroups: where each group may act for itself, so that groups need not meet.
//!
//! ```text
//! arrival of a task      an arrival of each of its groups, and the barrier counts so many more (so also where groups meet elsewhere)
//! meeting of a task      each group meets: what lanes store leaves by `async_store` alone, and each group's rows are its own
//! async_store            each group stores its rows
//! ```
//!
//! Rows `m (g + G r)` to `m (g + G r) + m - 1` of a product of `G` groups by instructions of `m` rows are those of group `g`.

use super::super::Lower;
use crate::lower::facts::count;
use crate::lower::task::Groupwise;
use cranelift_entity::SecondaryMap;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::layout::{Axis, Layout};
use tilelift_ir::{Inst, Kernel, Op, Region, Value};
use tilelift_schedule::plan::{Part, TaskPlan, allocation, handle};

/// The instruction that allocates a barrier.
fn barriers(kernel: &Kernel, mut v: Value) -> Option<Inst> {
    loop {
        let i = kernel.def_inst(v)?;
        match kernel.insts[i].op {
            Op::BarrierIndex => v = kernel.insts[i].args[0],
            _ => return Some(i),
        }
    }
}

/// The allocation behind a buffer.
fn buffer(kernel: &Kernel, v: Value) -> Option<Inst> {
    Some(allocation(kernel, handle(kernel, v)?.root))
}

/// True if rows are shared by so many groups, `m` at a time in rotation: by the bits of a warp's number from `first` on, and by nothing else.
fn shared_by_groups(layout: &Layout, rows: usize, m: u32, groups: u32, first: u32) -> bool {
    let mask = m * (groups - 1);
    let odd = |a: Axis| (0..layout.odd(a).len()).any(|k| layout.odd_column(a, k).0 == rows);
    let own = |a: Axis, bits: u32| (0..bits).all(|bit| layout.column(a, bit)[rows] & mask == 0);
    let alternate = (0..groups.trailing_zeros()).all(|n| {
        let column = layout.column(Axis::Warp, first + n);
        column.iter().enumerate().all(|(d, &c)| c == if d == rows { m << n } else { 0 })
    });
    let lanes = own(Axis::Lane, layout.bits(Axis::Lane)) && own(Axis::Warp, first) && !odd(Axis::Lane) && !odd(Axis::Warp);
    alternate && lanes && (0..layout.size(Axis::Reg)).all(|r| layout.reg_coord(r)[rows] & mask == 0)
}

impl Lower<'_> {
    /// Decides it.
    pub(super) fn groupwise(&self, plan: &TaskPlan) -> Groupwise {
        let mut out = Groupwise::default();
        let Some(units) = &self.target.units else { return out };
        let kernel = self.kernel;
        for r in plan.roles.iter().filter(|r| r.replica == 0) {
            let groups = r.warps[1] / units.group_warps;
            if groups > 1
                && let Some(m) = self.product_rows(plan, r.region)
            {
                out.shares.extend(self.order.with(r.region, |op| op == Op::AsyncStore).map(|i| (i, m)));
            }
            if groups > 1
                && groups.is_power_of_two()
                && let Some(stores) = self.apart(plan, r.region, groups, units.group_warps.trailing_zeros())
            {
                out.tasks.insert(r.region, groups);
                out.rows.extend(stores);
            } else if groups > 1 && self.product_rows(plan, r.region).is_some() && !self.meets_others(r.region) {
                out.arriving.insert(r.region, groups);
            }
        }
        // Who arrives where: at one barrier all arrivals count alike, or each task arrives once in a phase.
        let mut home: SecondaryMap<Inst, Option<Region>> = SecondaryMap::new();
        home.resize(kernel.insts.len());
        plan.roles.iter().for_each(|r| self.order.insts(r.region).iter().for_each(|&i| home[i] = Some(r.region)));
        let mut sites: BTreeMap<Inst, Vec<Inst>> = BTreeMap::new();
        let arrives = |op: Op| matches!(op, Op::BarrierArrive | Op::CopyAsyncArrive | Op::BarrierExpect | Op::RemoteArrive);
        for i in self.order.with(kernel.body, arrives) {
            if let Some(alloc) = barriers(kernel, kernel.insts[i].args[0]) {
                sites.entry(alloc).or_default().push(i);
            }
        }
        loop {
            let counts = |i: &Inst| match kernel.insts[*i].op {
                Op::BarrierArrive => home[*i].and_then(|r| out.tasks.get(&r).or(out.arriving.get(&r))).copied().unwrap_or(1),
                _ => 1,
            };
            let replicas = |i: &Inst| plan.roles.iter().filter(|r| home[*i] == Some(r.region)).count() as u32;
            let total = |alloc: Inst, list: &[Inst]| {
                let declared = count(kernel, alloc, 0);
                if list.iter().all(|i| counts(i) == counts(&list[0])) {
                    return Some(declared * counts(&list[0]));
                }
                let tasks: BTreeSet<Option<Region>> = list.iter().map(|&i| home[i]).collect();
                let once = tasks.len() == list.len()
                    && list.iter().all(|&i| kernel.insts[i].op != Op::RemoteArrive)
                    && list.iter().map(replicas).sum::<u32>() == declared;
                once.then(|| list.iter().map(|i| replicas(i) * counts(i)).sum())
            };
            let mut arrivals = BTreeMap::new();
            let mixed = sites.iter().find(|&(&alloc, list)| match total(alloc, list) {
                Some(all) => {
                    arrivals.insert(alloc, all);
                    false
                }
                None => true,
            });
            let Some((_, list)) = mixed else {
                out.arrivals = arrivals;
                return out;
            };
            let meet: BTreeSet<Region> = list.iter().filter_map(|&i| home[i]).collect();
            out.tasks.retain(|r, _| !meet.contains(r));
            out.arriving.retain(|r, _| !meet.contains(r));
            out.rows.retain(|&i, _| home[i].is_none_or(|r| !meet.contains(&r)));
        }
    }

    /// True for a task whose warps come to barriers of other tasks or blocks: there they count as a whole.
    fn meets_others(&self, region: Region) -> bool {
        let meets =
            |op| matches!(op, Op::NamedBarrierSync | Op::NamedBarrierArrive | Op::ClusterBarrier | Op::ClusterArrive | Op::ClusterWait);
        self.order.has(region, meets)
    }

    /// Rows of the instructions of a task's products; `None` if they differ.
    fn product_rows(&self, plan: &TaskPlan, region: Region) -> Option<u32> {
        let units = self.target.units.as_ref()?;
        let dots = self.order.with(region, |op| op == Op::AsyncDot);
        let mut heights = dots.filter_map(|i| plan.dots.get(&i)).map(|d| units.matrix[d.as_u32() as usize].m);
        let m = heights.next()?;
        heights.all(|other| other == m).then_some(m)
    }

    /// The stores of a task whose groups have nothing to do with one another but at barriers, and the rows of their boxes; `None` if they have.
    fn apart(&self, plan: &TaskPlan, region: Region, groups: u32, first: u32) -> Option<BTreeMap<Inst, u32>> {
        let kernel = self.kernel;
        let (insts, all) = (self.order.insts(region), self.order.insts(kernel.body));
        let mut ours: SecondaryMap<Inst, bool> = SecondaryMap::new();
        ours.resize(kernel.insts.len());
        insts.iter().for_each(|&i| ours[i] = true);
        let m = self.product_rows(plan, region)?;
        let own = |op: Op| {
            !op.is_explicit()
                || matches!(
                    op,
                    Op::LocalIndex
                        | Op::LocalSlice
                        | Op::LocalTranspose
                        | Op::LocalReinterpret
                        | Op::LocalLoad
                        | Op::LocalStore
                        | Op::BarrierIndex
                        | Op::BarrierWait
                        | Op::BarrierArrive
                        | Op::TaskBarrier
                        | Op::TurnFirst
                        | Op::TurnWait
                        | Op::TurnPass
                        | Op::TurnLast
                        | Op::FenceAsync
                        | Op::AsyncStore
                        | Op::AsyncStoreWait
                        | Op::AsyncDot
                        | Op::AsyncDotWait
                        | Op::SchedBarrier
                        | Op::WorkerId
                        | Op::NumWorkers
                )
        };
        if !insts.iter().all(|&i| own(kernel.insts[i].op)) {
            return None;
        }
        let mut rows = BTreeMap::new();
        let mut staged: BTreeMap<Inst, usize> = BTreeMap::new();
        for &i in insts.iter().filter(|&&i| kernel.insts[i].op == Op::AsyncStore) {
            let tile = plan.boxes.get(&i)?;
            let h = handle(kernel, kernel.operand(i, "buffer")[0])?;
            let buffer = plan.buffers.get(&h.root)?;
            let (swizzled, &down) = (buffer.swizzled?, tile.order.get(1)?);
            let whole = h.parts.len() == buffer.shape.len() && h.parts.iter().all(|p| p.at == 0 && p.extent == buffer.shape[p.of]);
            let rows_alone = tile.order[2..].iter().all(|&d| tile.shape[d] == 1);
            if !whole
                || !rows_alone
                || swizzled.contiguous != tile.order[0]
                || swizzled.rows != tile.rows
                || !tile.rows.is_multiple_of(m * groups)
            {
                return None;
            }
            rows.insert(i, m);
            staged.insert(allocation(kernel, h.root), down);
        }
        for &i in insts.iter().filter(|&&i| kernel.insts[i].op == Op::LocalStore) {
            let d = &kernel.insts[i];
            let (h, layout) = (handle(kernel, d.args[0])?, self.assigned.layout(d.args[1])?);
            let &down = staged.get(&allocation(kernel, h.root))?;
            // All rows, and of each some columns.
            let (shape, extents) = (&plan.buffers.get(&h.root)?.shape, layout.shape());
            let seen = |(d, p): (usize, &Part)| p.of == d && p.extent == extents[d] && (d != down || p.extent == shape[d]);
            let rows = h.parts.len() == layout.rank() && shape.len() == layout.rank() && h.parts.iter().enumerate().all(seen);
            if !rows || !shared_by_groups(layout, down, m, groups, first) {
                return None;
            }
        }
        // Nobody else looks there.
        let others = all.iter().filter(|&&i| {
            let d = &kernel.insts[i];
            let handles = d.results.iter().any(|&v| kernel.ty(v).is_handle());
            let ours = ours[i] && matches!(d.op, Op::LocalStore | Op::AsyncStore);
            let names = |v: &Value| kernel.ty(*v).as_shared().is_some() && buffer(kernel, *v).is_some_and(|a| staged.contains_key(&a));
            d.args.iter().any(names) && !ours && (!handles || d.op == Op::LocalAlloc)
        });
        (others.count() == 0).then_some(rows)
    }
}
