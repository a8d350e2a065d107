//! Prices of what waits in shared memory: the loads whose tiles do, the maps to choose from, copies into them, and fetching from them.

use super::prices::Prices;
use super::staging::{self, Waiting};
use cranelift_entity::SecondaryMap;
use std::rc::Rc;
use tilelift_ir::layout::{Layout, SharedMap};
use tilelift_ir::{Inst, Op, Scalar, Value};
use tilelift_lane::hash::Set;
use tilelift_schedule::plan::slots;
use tilelift_schedule::transfers::{behind, through};

impl Prices<'_> {
    /// Looks for maps of the loads that wait in shared memory, which are then values like others; those that have none stay where they are, as do those of `stay`.
    pub(super) fn wait(&mut self, memory: &mut SecondaryMap<Value, bool>, stay: &Set<Inst>) {
        let kernel = self.kernel;
        let mut values = Vec::new();
        kernel.walk(kernel.body, &mut |i| {
            values.extend(kernel.insts[i].results.iter().copied().filter(|&v| memory[v]));
        });
        let (others, chosen) = (staging::others(self.plain), staging::ChosenMaps::default());
        let known = (self.plain, &others[..], &chosen);
        if let Some(e) = self.plan.task_plan() {
            for ring in slots(kernel, e) {
                let found = e.buffers.get(&ring.root).map(|f| Waiting::of_ring(kernel, self.target, self.plan, known, (&ring, f)));
                self.waiting.extend(found.and_then(Result::ok).map(|w| (w.load, w)));
            }
        }
        let mut lost = stay.clone();
        for &v in &values {
            let Some((load, views)) = behind(kernel, v) else { continue };
            if views.is_empty() && kernel.insts[load].op == Op::Load && !stay.contains(&load) {
                match Waiting::of(kernel, self.target, self.plan, known, load) {
                    Ok(w) => _ = self.waiting.insert(load, w),
                    Err(_) => _ = lost.insert(load),
                }
            }
            let plain = self.waiting.get(&load).and_then(|w| through(kernel, w.maps.first()?, &views));
            match plain {
                Some(m) => self.maps[v] = Some(Rc::new(m.layout().clone())),
                None => _ = lost.insert(load),
            }
        }
        for &v in &values {
            let load = behind(kernel, v).map(|b| b.0);
            if load.is_none_or(|l| lost.contains(&l)) {
                self.maps[v] = None;
            } else {
                memory[v] = false;
            }
        }
        self.waiting.retain(|load, _| !lost.contains(load));
    }

    /// The maps in which a dot's operand may wait, as the dot sees them.
    pub(super) fn seen(&self, v: Value) -> Vec<Rc<Layout>> {
        let Some((load, views)) = behind(self.kernel, v) else { return Vec::new() };
        let Some(w) = self.waiting.get(&load) else { return Vec::new() };
        w.maps.iter().filter_map(|m| Some(Rc::new(through(self.kernel, m, &views)?.layout().clone()))).collect()
    }

    /// True if a tile that waits may go to registers before a dot takes it.
    pub(super) fn taken(&self, v: Value) -> bool {
        let w = behind(self.kernel, v).and_then(|(load, _)| self.waiting.get(&load));
        w.is_none_or(|w| !w.ring || !w.registers.is_empty())
    }

    /// See [`Self::fetch`].
    pub(super) fn fetched(&self, map: &Rc<Layout>, layout: &Rc<Layout>, plain: bool, elem: Scalar) -> Option<u64> {
        let key = (map.clone(), layout.clone(), elem.bytes(), plain);
        *self.fetches.borrow_mut().entry(key).or_insert_with(|| self.fetch(map, layout, plain, elem))
    }

    /// Fetching an operand's fragments from where it waits: by matrix loads, or by vectors, with their conflicts.
    pub(super) fn fetch(&self, map: &Rc<Layout>, layout: &Rc<Layout>, plain: bool, elem: Scalar) -> Option<u64> {
        let c = &self.target.costs;
        let reader = staging::Reader::of(layout, self.target.load_matrix && plain);
        let map = SharedMap::from_layout((**map).clone()).ok()?;
        let [wavefronts, instructions] = staging::reads(&map, &reader, elem.bytes(), self.target).ok()?;
        Some((u64::from(wavefronts) * c.wavefront + u64::from(instructions) * 2 * c.alu) * self.warps())
    }

    /// A load into registers, or into the map where it waits for dots.
    pub(super) fn loaded(&self, i: Inst, to: &Layout) -> Option<u64> {
        let c = &self.target.costs;
        let barrier = c.barrier[0] + c.barrier[1] * self.warps();
        let Some(w) = self.waiting.get(&i).filter(|_| to.in_memory()) else { return self.access(i, to, true) };
        let map = SharedMap::from_layout(to.clone()).ok()?;
        let elem = self.kernel.ty(self.kernel.insts[i].results[0]).elem();
        let [wavefronts, _] = w.copies(&map, elem.bytes(), self.target)?;
        let moved = self.access(i, w.layout(), true)? + u64::from(wavefronts) * c.wavefront * self.warps();
        Some(moved + 2 * barrier + c.shared_latency)
    }

    /// A load from a ring: its tile stays in the slot, in a map, until dots fetch from it, or goes to registers. Copies into the ring run ahead of
    /// a loop's iterations, beside what lanes do: of them only conflicts count.
    pub(super) fn ring_price(&self, w: &Waiting, to: &Layout) -> Option<u64> {
        let c = &self.target.costs;
        let elem = self.kernel.ty(self.kernel.insts[w.load].results[0]).elem();
        let stays = to.in_memory();
        let map = if stays { SharedMap::from_layout(to.clone()).ok()? } else { w.plain.clone() };
        let [wavefronts, _] = w.copies(&map, elem.bytes(), self.target)?;
        let least = staging::least(Some(w.layout()), &[], elem.bytes(), self.target);
        let copied = u64::from(wavefronts.saturating_sub(least)) * c.wavefront * self.warps();
        let fetched = if stays { 0 } else { self.fetched(&Rc::new(map.layout().clone()), &Rc::new(to.clone()), true, elem)? };
        Some(copied + fetched)
    }
}
