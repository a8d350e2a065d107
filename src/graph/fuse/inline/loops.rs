//! Loops of a producer, written again with what is wanted of their results.
//!
//! A result is asked for at some elements; so are the initial value, the value that is carried, and what the body yields. What the body
//! reads of other carried values is carried, too; what nobody asks for is not. The loop stands as far out as what it follows from.

use super::super::maker::Maker;
use super::super::report::{FuseRule, Refusal, RefusalKind};
use super::writer::{Axis, Open, Writer};
use std::collections::BTreeSet;
use tilelift_ir::{Inst, Op, Region, Scalar, Type, Value, ValueDef};

impl<'g> Writer<'_, 'g> {
    /// The number of new regions inside of which a value has to be made, if this is wanted of it.
    pub fn level(&self, maker: &Maker<'g>, v: Value, axes: &[Axis]) -> usize {
        let windows = axes.iter().filter_map(|&a| match a {
            Axis::Window(w) => Some(maker.level(self.windows[w].at)),
            Axis::Keep => None,
        });
        let places = self.places.iter().map(|&(_, at)| maker.level(at));
        let needed = self.parameters(v);
        let open = self.loops.iter().filter(|o| needed.contains(&o.from)).map(|o| maker.region_level(o.region));
        windows.chain(places).chain(open).max().unwrap_or(0)
    }

    /// The producer's loops whose index or carried values a value follows from.
    fn parameters(&self, v: Value) -> BTreeSet<Region> {
        let kernel = &self.source.seen.node.kernel;
        let (mut found, mut seen, mut todo) = (BTreeSet::new(), BTreeSet::new(), vec![v]);
        while let Some(v) = todo.pop() {
            if !seen.insert(v) {
                continue;
            }
            match kernel.values[v].def {
                ValueDef::Result(i, _) => {
                    todo.extend(&kernel.insts[i].args);
                    for &r in &kernel.insts[i].regions {
                        kernel.walk(r, &mut |j| todo.extend(&kernel.insts[j].args));
                    }
                }
                ValueDef::RegionParam(r, _) => {
                    found.insert(r);
                }
                ValueDef::KernelParam(_) => {}
            }
        }
        found
    }

    /// Writes something further out: what was made inside is not seen there.
    pub fn further_out<T>(
        &mut self,
        maker: &mut Maker<'g>,
        level: usize,
        write: impl FnOnce(&mut Self, &mut Maker<'g>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let inside = maker.out_to(level);
        let (seen, hidden) = std::mem::take(&mut self.done).into_iter().partition(|(_, v)| maker.level(*v) <= level);
        self.done = seen;
        let made = write(self, maker);
        self.done.extend(hidden);
        maker.back_in(inside);
        made
    }

    /// Ends a region: what was made there is not seen any more.
    pub fn leave(&mut self, maker: &mut Maker<'g>) {
        maker.leave();
        let depth = maker.depth();
        self.done.retain(|_, v| maker.level(*v) <= depth);
    }

    /// A region's parameter: a loop's index or what a loop carries.
    pub fn carried(&mut self, maker: &mut Maker<'g>, v: Value, region: Region, n: usize, axes: &[Axis]) -> Result<Value, Refusal> {
        let kernel = &self.source.seen.node.kernel;
        let open = self.loops.iter().position(|o| o.from == region).filter(|_| n > 0);
        let Some(open) = open else {
            let why = format!("`{}` stores a tile that follows from where its loop is", self.source.seen.node.name);
            return Err(Refusal::new(RefusalKind::Shape, why));
        };
        if let Some((.., v)) = self.loops[open].slots.iter().find(|s| s.0 == n - 1 && s.1 == axes) {
            return Ok(*v);
        }
        let ty = match kernel.ty(v) {
            Type::Tile(t) => Type::tile(&self.shape(v, axes), t.elem),
            other => other.clone(),
        };
        let new = maker.region_param(self.loops[open].region, ty);
        self.loops[open].slots.push((n - 1, axes.to_vec(), new));
        Ok(new)
    }

    /// Result `n` of a loop.
    pub fn for_loop(&mut self, maker: &mut Maker<'g>, inst: Inst, n: usize, axes: &[Axis]) -> Result<Value, Refusal> {
        let v = self.source.seen.node.kernel.insts[inst].results[n];
        let level = self.level(maker, v, axes);
        self.further_out(maker, level, |this, maker| match this.restep(maker, inst, n, axes)? {
            Some(made) => Ok(made),
            None => this.for_here(maker, inst, n, axes),
        })
    }

    fn for_here(&mut self, maker: &mut Maker<'g>, inst: Inst, n: usize, axes: &[Axis]) -> Result<Value, Refusal> {
        let kernel = &self.source.seen.node.kernel;
        let d = &kernel.insts[inst];
        let mut args = Vec::new();
        for &bound in &d.args[..3] {
            args.push(self.scalar(maker, bound)?);
        }
        let from = d.regions[0];
        let params = &kernel.regions[from].params;
        let region = maker.enter();
        let index = maker.region_param(region, kernel.ty(params[0]).clone());
        self.done.insert((params[0], Vec::new()), index);
        self.loops.push(Open { region, from, slots: Vec::new() });
        self.carried(maker, params[n + 1], from, n + 1, axes)?;
        let this = self.loops.len() - 1;
        let mut yields = Vec::new();
        while yields.len() < self.loops[this].slots.len() {
            let (slot, axes, _) = self.loops[this].slots[yields.len()].clone();
            let value = kernel.yields(from)[slot];
            yields.push(if kernel.ty(value).as_tile().is_some() { self.tile(maker, value, &axes)? } else { self.scalar(maker, value)? });
        }
        maker.push(Op::Yield, &yields, 0, &[], &[], &[]);
        self.leave(maker);
        let slots = self.loops.pop().map(|o| o.slots).unwrap_or_default();
        let mut types = Vec::new();
        for (slot, axes, v) in &slots {
            let init = d.args[3 + slot];
            args.push(if kernel.ty(init).as_tile().is_some() { self.tile(maker, init, axes)? } else { self.scalar(maker, init)? });
            types.push(maker.kernel.ty(*v).clone());
        }
        let made = maker.push(Op::For, &args, d.present, &d.attrs, &[region], &types);
        let results = maker.kernel.insts[made].results.to_vec();
        for ((slot, axes, _), &v) in slots.into_iter().zip(&results) {
            self.done.insert((d.results[slot], axes), v);
        }
        maker.rules.push(FuseRule::Loop);
        Ok(results[0])
    }

    /// A loop with one value: `body` gets its index and the value so far.
    pub fn fold(
        &mut self,
        maker: &mut Maker<'g>,
        [lo, hi, step]: [Value; 3],
        init: Value,
        body: impl FnOnce(&mut Self, &mut Maker<'g>, Value, Value) -> Result<Value, Refusal>,
    ) -> Result<Value, Refusal> {
        let ty = maker.kernel.ty(init).clone();
        let region = maker.enter();
        let index = maker.region_param(region, Type::Scalar(Scalar::I32));
        let so_far = maker.region_param(region, ty.clone());
        let next = body(self, maker, index, so_far)?;
        maker.push(Op::Yield, &[next], 0, &[], &[], &[]);
        self.leave(maker);
        let made = maker.push(Op::For, &[lo, hi, step, init], 0, &[], &[region], &[ty]);
        Ok(maker.kernel.insts[made].results[0])
    }
}
