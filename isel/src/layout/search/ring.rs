//! Forms of a specialised loop as alternatives of the search: in which panels operands wait, whether operands A go through registers, and
//! how results leave.
//!
//! ```text
//! v7 @ swizzle(128) = { Run(load) }     dot 9 = { Run([panels, panels]), Run([registers, panels]) }
//! v7 @ swizzle(64)  = { Run(load) }     v12 @ swizzle(64) = { Convert(from v12 @ sums) }
//! v7 @ registers   = { Convert(from v7 @ swizzle(128)), Convert(from v7 @ swizzle(64)) }
//! store 14 = { Run(v12 @ sums), Run(v12 @ swizzle(128)), Run(v12 @ swizzle(64)) }
//! ```
//!
//! An alternative is what the plan accepts, all else being as it would be without it; what the kernel's author requires leaves no other.
//! Everything else of such a kernel keeps the plain assignment: it runs once per program on one or two warpgroups, which wait for
//! latencies, and prices are of work.

use super::machine::Prices;
use super::staging::{self, through};
use crate::lane::{Costs, GroupMatrix, Target};
use crate::layout::assign::Assignment;
use crate::layout::dots::DotPlan;
use crate::layout::in_memory;
use std::fmt::Write;
use std::rc::Rc;
use tilelift_egraph::physical::{InstLayouts, Machine, Solution};
use tilelift_ir::layout::{Layout, SharedMap, panel_swizzle};
use tilelift_ir::{Inst, Kernel, Op, Value, text};
use tilelift_schedule::LowerError;
use tilelift_schedule::access::GlobalAccess;
use tilelift_schedule::plan::{EpilogueStore, LowerOptions, Plan, RingLayouts, Specialised, SwizzledTile, plan_with, value_at};

/// Alternatives of one load.
pub(super) struct Waits {
    pub load: Inst,
    /// Bytes of the rows of panels, and the map; the plain one first.
    pub maps: Vec<(u32, SharedMap)>,
}

/// Alternatives of one store, the plain one first: panels of so many bytes and their map, or none for lanes.
pub(super) struct Leaves {
    pub store: Inst,
    pub ways: Vec<(EpilogueStore, Option<Rc<Layout>>)>,
}

/// The alternatives of a specialised loop.
pub(super) struct RingSearch {
    plan: Rc<Specialised>,
    pub loads: Vec<Waits>,
    /// Dots whose operand A comes from the ring: from its panels, through registers; the plain way first.
    pub register_a: Vec<(Inst, Vec<bool>)>,
    pub stores: Vec<Leaves>,
    /// Copies are what a step waits for, not multiplications.
    copies_last: bool,
}

/// How elements lie in the panels of a load or of a store.
fn panels_of(kernel: &Kernel, i: Inst, v: Value, swizzle: u32) -> Option<SharedMap> {
    let contiguous = GlobalAccess::of(kernel, i).contiguous()?;
    let t = kernel.ty(v).as_tile()?;
    panel_swizzle(&t.shape, t.elem.bytes(), contiguous, swizzle).ok()
}

impl RingSearch {
    /// Looks for them; `None` if the loop is not specialised.
    pub fn of(kernel: &Kernel, target: &Target, options: &LowerOptions, plan: &Plan) -> Option<RingSearch> {
        let s = plan.specialised()?.clone();
        let units = target.units.as_ref()?;
        let said = RingLayouts::required(kernel).unwrap_or_default().or(&RingLayouts::asked(kernel, options));
        let can = |forms: RingLayouts| plan_with(kernel, target, options, &forms).is_ok_and(|p| p.specialised().is_some());
        let mut out = RingSearch { loads: Vec::new(), register_a: Vec::new(), stores: Vec::new(), copies_last: false, plan: s.clone() };
        // Where no lanes share panels, an access that is cut into them is all that the plan asks for.
        let cut = |i: Inst, tile: &SwizzledTile, swizzle: u32| SwizzledTile::of(kernel, i, &tile.shape, units, Some(swizzle)).is_ok();
        for (load, tile) in &s.loads {
            let v = kernel.insts[*load].results[0];
            let mut swizzles = vec![tile.swizzle];
            if !said.swizzles.contains_key(load) {
                let with = |swizzle: u32| RingLayouts { swizzles: [(*load, swizzle)].into(), ..RingLayouts::default() };
                swizzles.extend(
                    units
                        .bulk
                        .swizzles
                        .iter()
                        .copied()
                        .filter(|&x| x != tile.swizzle && if s.register_a.is_empty() { cut(*load, tile, x) } else { can(with(x)) }),
                );
            }
            let maps = swizzles.into_iter().filter_map(|x| Some((x, panels_of(kernel, *load, v, x)?))).collect();
            out.loads.push(Waits { load: *load, maps });
        }
        let contiguous = |j: Inst| s.loads.iter().find(|l| l.0 == j).map(|l| l.1.contiguous());
        for &(dot, _) in &s.dots {
            if tilelift_schedule::plan::trace(kernel, kernel.insts[dot].args[0], &contiguous).is_none() {
                continue;
            }
            let plain = s.register_a.contains(&dot);
            let mut ways = vec![plain];
            if !said.a_from_registers.contains_key(&dot)
                && can(RingLayouts { a_from_registers: [(dot, !plain)].into(), ..RingLayouts::default() })
            {
                ways.push(!plain);
            }
            out.register_a.push((dot, ways));
        }
        for (store, tile) in &s.stores {
            let v = kernel.insts[*store].args[value_at(kernel, *store)];
            let map = |x: u32| panels_of(kernel, *store, v, x).map(|m| Rc::new(m.layout().clone()));
            let mut ways = vec![(EpilogueStore::Panels(tile.swizzle), map(tile.swizzle))];
            if !said.epilogue.contains_key(store) {
                let others = units.bulk.swizzles.iter().filter(|&&x| x != tile.swizzle && cut(*store, tile, x));
                ways.extend(others.map(|&x| (EpilogueStore::Panels(x), map(x))));
                if options.bulk_stores != Some(true) {
                    ways.push((EpilogueStore::Lanes, None));
                }
            }
            ways.retain(|w| w.0 == EpilogueStore::Lanes || w.1.is_some());
            out.stores.push(Leaves { store: *store, ways });
        }
        let products: u64 =
            s.dots.iter().filter_map(|&(i, q)| out.products(kernel, target, i, units.matrix.get(q.as_u32() as usize)?, false)).sum();
        let copies: u64 = s.loads.iter().map(|(_, t)| moved(t, &target.costs)).sum();
        // Neighbours ask for the same at the same time, and share what comes.
        out.copies_last = copies / 2 >= products;
        Some(out)
    }

    /// True if there is something to choose between.
    pub fn is_open(&self) -> bool {
        self.loads.iter().any(|w| w.maps.len() > 1)
            || self.register_a.iter().any(|l| l.1.len() > 1)
            || self.stores.iter().any(|s| s.ways.len() > 1)
    }

    /// The maps in which a value of the ring may be, as it is seen through views; the plain one first.
    pub fn maps(&self, kernel: &Kernel, v: Value) -> Vec<Rc<Layout>> {
        let Some((load, views)) = staging::behind(kernel, v) else { return Vec::new() };
        let Some(w) = self.loads.iter().find(|w| w.load == load) else { return Vec::new() };
        w.maps.iter().filter_map(|(_, m)| Some(Rc::new(through(kernel, m, &views)?.layout().clone()))).collect()
    }

    /// True for what the search decides: loads of the ring, other views of them, its dots and its stores.
    pub fn decides(&self, kernel: &Kernel, i: Inst) -> bool {
        let d = &kernel.insts[i];
        match d.op {
            Op::Dot => self.plan.dots.iter().any(|x| x.0 == i),
            Op::Store => self.stores.iter().any(|x| x.store == i),
            _ => self.holds(kernel, i),
        }
    }

    /// True for loads of the ring and other views of them.
    pub fn holds(&self, kernel: &Kernel, i: Inst) -> bool {
        let found = kernel.insts[i].results.first().and_then(|&v| staging::behind(kernel, v));
        found.is_some_and(|(load, _)| self.loads.iter().any(|w| w.load == load))
    }

    /// The ways to run an instruction that the search decides, from the plain one.
    pub fn anchors(&self, kernel: &Kernel, i: Inst, plain: &InstLayouts, dot: Option<&DotPlan>) -> Vec<InstLayouts> {
        let d = &kernel.insts[i];
        let with = |operands: &[(usize, Option<Rc<Layout>>)], result: Option<Rc<Layout>>| {
            let mut f = plain.clone();
            operands.iter().for_each(|(k, l)| f.operands[*k] = l.clone());
            if let Some(l) = result {
                f.results[0] = Some(l);
            }
            f
        };
        match d.op {
            Op::Store => {
                let Some(found) = self.stores.iter().find(|x| x.store == i) else { return vec![plain.clone()] };
                let at = value_at(kernel, i);
                let registers = plain.operands[at].clone();
                found.ways.iter().map(|(_, map)| with(&[(at, map.clone().or(registers.clone()))], None)).collect()
            }
            Op::Dot => {
                let ways = self.register_a.iter().find(|l| l.0 == i).map_or(&[][..], |l| &l.1);
                let mut left: Vec<Option<Rc<Layout>>> = Vec::new();
                for &through in ways {
                    match through {
                        true => left.extend(dot.map(|p| Some(p.a.clone()))),
                        false => left.extend(self.maps(kernel, d.args[0]).into_iter().map(Some)),
                    }
                }
                if left.is_empty() {
                    left.push(dot.map(|p| p.a.clone()).or(plain.operands[0].clone()));
                }
                let right = self.maps(kernel, d.args[1]);
                left.iter().flat_map(|a| right.iter().map(|b| with(&[(0, a.clone()), (1, Some(b.clone()))], None))).collect()
            }
            Op::Load => self.maps(kernel, d.results[0]).into_iter().map(|m| with(&[], Some(m))).collect(),
            // Other views of the same memory.
            _ => {
                let (from, to) = (self.maps(kernel, d.args[0]), self.maps(kernel, d.results[0]));
                from.into_iter().zip(to).map(|(a, b)| with(&[(0, Some(a))], Some(b))).collect()
            }
        }
    }

    /// What such a way costs.
    pub fn run(
        &self,
        kernel: &Kernel,
        target: &Target,
        i: Inst,
        form: &InstLayouts,
        lanes: impl Fn(&Layout) -> Option<u64>,
    ) -> Option<u64> {
        let c = &target.costs;
        match kernel.insts[i].op {
            Op::Load => {
                let map = form.results[0].as_ref()?;
                let (_, tile) = self.plan.loads.iter().find(|l| l.0 == i)?;
                let swizzle = self.swizzle(kernel, i, map)?;
                Some(beside(moved(&with_swizzle(tile, swizzle), c), self.copies_last))
            }
            Op::Dot => {
                let q = self.plan.dots.iter().find(|d| d.0 == i)?.1;
                let row = target.units.as_ref()?.matrix.get(q.as_u32() as usize)?;
                let memory = form.operands[0].as_ref().is_some_and(|l| in_memory(l));
                let from_ring = self.register_a.iter().any(|l| l.0 == i);
                let products = self.products(kernel, target, i, row, !memory)?;
                let waits = !memory && from_ring && !self.plan.mixed && !self.plan.promoted;
                // Another group multiplies while one waits.
                let waits = if waits { c.group_wait / u64::from(self.plan.consumers * self.plan.consumer_sets).max(1) } else { 0 };
                Some(beside(products, !self.copies_last) + waits)
            }
            Op::Store => {
                let l = form.operands[value_at(kernel, i)].as_ref()?;
                if !in_memory(l) {
                    return lanes(l);
                }
                let (_, tile) = self.plan.stores.iter().find(|x| x.0 == i)?;
                let swizzle = self.stores.iter().find(|x| x.store == i)?.ways.iter().find_map(|(leave, map)| match leave {
                    EpilogueStore::Panels(s) if map.as_ref() == Some(l) => Some(*s),
                    _ => None,
                })?;
                // The next position's products run beside it, where there is one.
                Some(beside(moved(&with_swizzle(tile, swizzle), c) * 2, !self.plan.persistent))
            }
            _ => Some(0),
        }
    }

    /// What bringing a value from one layout to another costs: lanes that write staging, and lanes that fetch fragments from a slot.
    pub fn convert(&self, target: &Target, from: &Layout, to: &Layout, elem: u32, warps: u64) -> Option<u64> {
        let c = &target.costs;
        let meet = c.barrier[0] + c.barrier[1] * warps;
        match (in_memory(from), in_memory(to)) {
            (true, true) | (false, false) => None,
            (false, true) => {
                let bytes: u64 = to.shape().iter().map(|&e| u64::from(e)).product::<u64>() * u64::from(elem);
                Some(bytes.div_ceil(128) * c.wavefront + 2 * meet + c.shared_latency)
            }
            (true, false) => {
                let map = SharedMap::from_layout(from.clone()).ok()?;
                let reader = staging::Reader::of(&Rc::new(to.clone()), target.load_matrix);
                let [passes, instructions] = staging::reads(&map, &reader, elem, target).ok()?;
                Some((u64::from(passes) * c.wavefront + u64::from(instructions) * 2 * c.alu) * warps + meet + c.shared_latency)
            }
        }
    }

    /// What the matrix units take for a dot: as many columns as there are, or the operands that come from shared memory.
    fn products(&self, kernel: &Kernel, target: &Target, i: Inst, row: &GroupMatrix, registers: bool) -> Option<u64> {
        let d = &kernel.insts[i];
        let (a, b) = (kernel.ty(d.args[0]).as_tile()?, kernel.ty(d.args[1]).as_tile()?);
        let (m, k, n) = (u64::from(a.shape[0]), u64::from(a.shape[1]), u64::from(b.shape[1]));
        let c = &target.costs;
        let least = if registers { c.group_left } else { c.group_operands[0] + c.group_operands[1] * n };
        let each = (u64::from(row.m) * u64::from(row.k) * n * c.group_product / 1024).max(least);
        Some(m / u64::from(row.m) * (k / u64::from(row.k)) * each)
    }

    fn swizzle(&self, kernel: &Kernel, load: Inst, map: &Layout) -> Option<u32> {
        let v = kernel.insts[load].results[0];
        let at = self.maps(kernel, v).iter().position(|m| **m == *map)?;
        Some(self.loads.iter().find(|w| w.load == load)?.maps[at].0)
    }

    /// The forms that a solution takes.
    pub fn forms(&self, kernel: &Kernel, found: &Solution) -> RingLayouts {
        let mut out = RingLayouts::default();
        for w in &self.loads {
            let map = found.forms[w.load].first().and_then(|f| f.results[0].clone());
            if let Some(swizzle) = map.and_then(|m| self.swizzle(kernel, w.load, &m)) {
                out.swizzles.insert(w.load, swizzle);
            }
        }
        for &(dot, _) in &self.register_a {
            if let Some(l) = found.forms[dot].first().and_then(|f| f.operands[0].clone()) {
                out.a_from_registers.insert(dot, !in_memory(&l));
            }
        }
        for x in &self.stores {
            let Some(l) = found.forms[x.store].first().and_then(|f| f.operands[value_at(kernel, x.store)].clone()) else { continue };
            let way = x.ways.iter().find(|w| w.1.as_ref() == Some(&l)).map_or(EpilogueStore::Lanes, |w| w.0);
            out.epilogue.insert(x.store, way);
        }
        out
    }

    /// The plan's own forms.
    pub fn plain(&self) -> RingLayouts {
        RingLayouts {
            swizzles: self.loads.iter().map(|w| (w.load, w.maps[0].0)).collect(),
            a_from_registers: self.register_a.iter().map(|l| (l.0, l.1[0])).collect(),
            epilogue: self.stores.iter().map(|s| (s.store, s.ways[0].0)).collect(),
        }
    }

    /// The alternatives and their prices, the chosen one of each marked, as lines of a comment in front of a text of the kernel, whose names they use.
    pub fn list(&self, kernel: &Kernel, shown: &Kernel, chosen: &RingLayouts, machine: &Prices<'_>) -> String {
        let lines = text::lines(shown);
        let named = |i: Inst| {
            let line = lines.iter().find(|l| l.insts.contains(&i)).map_or("", |l| l.text.trim());
            line.split_once(" = ").map_or_else(|| format!("`{line}`"), |(name, _)| name.to_owned())
        };
        // With what brings an operand from where the plan has it to where the form wants it.
        let price = |i: Inst, f: Option<&InstLayouts>, plain: &InstLayouts| {
            let f = f?;
            let moves = f.operands.iter().zip(&plain.operands).zip(&kernel.insts[i].args);
            let moves = moves.filter_map(|((to, from), &v)| Some((from.as_ref()?, to.as_ref()?, kernel.ty(v).elem())));
            let moves = moves.filter(|(from, to, _)| in_memory(from) != in_memory(to));
            moves.map(|(from, to, elem)| machine.convert(from, to, elem)).sum::<Option<u64>>().zip(machine.run(i, f)).map(|(a, b)| a + b)
        };
        let mut out = String::new();
        let mut line = |head: String, list: Vec<(String, Option<u64>, bool)>| {
            let list: Vec<String> = list
                .into_iter()
                .map(|(name, cost, taken)| {
                    let cost = cost.map_or("impossible".to_owned(), |c| (c / 16).to_string());
                    format!("{name} {cost}{}", if taken { " (taken)" } else { "" })
                })
                .collect();
            let _ = writeln!(out, "; {head}: {}", list.join(", "));
        };
        for w in &self.loads {
            let forms = machine.anchors(w.load);
            let list = w.maps.iter().zip(&forms).map(|((swizzle, _), f)| {
                (format!("swizzle({swizzle})"), price(w.load, Some(f), f), chosen.swizzles.get(&w.load) == Some(swizzle))
            });
            line(format!("{} waits in", named(w.load)), list.collect());
        }
        for (dot, all) in &self.register_a {
            let forms = machine.anchors(*dot);
            let map = self.maps(kernel, kernel.insts[*dot].args[0]).into_iter().next();
            let list = all.iter().map(|&through| {
                let found = forms.iter().find(|f| f.operands[0].as_ref().is_some_and(|l| in_memory(l) != through));
                let mut plain = found.cloned().unwrap_or_default();
                if let Some(l) = plain.operands.first_mut() {
                    l.clone_from(&map);
                }
                let name = if through { "registers" } else { "panels" };
                (name.to_owned(), price(*dot, found, &plain), chosen.a_from_registers.get(dot) == Some(&through))
            });
            line(format!("{} takes its operand A from", named(*dot)), list.collect());
        }
        for x in &self.stores {
            let forms = machine.anchors(x.store);
            let at = value_at(kernel, x.store);
            let registers = machine.base(kernel.insts[x.store].args[at]);
            let list = x.ways.iter().zip(&forms).map(|((leave, _), f)| {
                let mut plain = f.clone();
                plain.operands[at].clone_from(&registers);
                let name = match leave {
                    EpilogueStore::Panels(swizzle) => format!("swizzle({swizzle})"),
                    EpilogueStore::Lanes => "registers".to_owned(),
                };
                (name, price(x.store, Some(f), &plain), chosen.epilogue.get(&x.store) == Some(leave))
            });
            line(format!("{} leaves from", named(x.store)), list.collect());
        }
        out
    }
}

/// A tile in panels of another width.
fn with_swizzle(tile: &SwizzledTile, swizzle: u32) -> SwizzledTile {
    SwizzledTile { swizzle, per: swizzle / tile.elem.bytes(), ..tile.clone() }
}

/// What copying a tile takes: its boxes, its rows or its bytes, whichever take longest.
fn moved(tile: &SwizzledTile, c: &Costs) -> u64 {
    let rows = u64::from(tile.panels()) * u64::from(tile.rows);
    (rows * c.box_row).max(u64::from(tile.bytes() / 32) * c.box_sector).max(u64::from(tile.panels()) * c.box_start)
}

/// What runs beside something else: the whole of what a step waits for, a quarter of what is done by then.
fn beside(cost: u64, last: bool) -> u64 {
    if last { cost } else { cost / 4 }
}

/// The forms of a kernel whose loop is specialised, where they gain on the plan's own; with a seed, any forms.
///
/// # Errors
/// What the plain assignment refuses.
pub(crate) fn ring_forms(kernel: &Kernel, target: &Target, options: &LowerOptions, plan: &Plan) -> Result<Option<RingLayouts>, LowerError> {
    let Some(ring) = RingSearch::of(kernel, target, options, plan).filter(RingSearch::is_open) else { return Ok(None) };
    let plain: Assignment = crate::layout::assign::assign(kernel, target, plan)?;
    let search = super::Search::of_ring(kernel, target, plan, &plain, ring);
    let Some(found) = search.solve_as(options.layouts) else { return Ok(None) };
    let Some(ring) = search.ring() else { return Ok(None) };
    let forms = ring.forms(kernel, &found);
    Ok((forms != ring.plain()).then_some(forms))
}

/// Registers of a lane in which operands and sums lie.
pub(super) fn registers(plan: &Specialised, target: &Target) -> u64 {
    u64::from(plan.registers.map_or(target.registers, |r| r[1]))
}
