//! Loads of a producer, elsewhere: from memory, or from the tile of another producer.

use super::super::access::{Place, Seen};
use super::super::atoms::Sum;
use super::super::demand::dropped;
use super::super::maker::{Maker, Start};
use super::super::report::{Refusal, RefusalKind};
use super::super::tiles::fits;
use super::outside::Outside;
use super::source::{Source, Sources};
use super::writer::{Axis, Wanted, Writer, tile_of_store};
use crate::graph::size::Size;
use tilelift_ir::{Inst, Literal, Op, Type, Value};

impl<'g> Writer<'_, 'g> {
    /// A load elsewhere, or the tile of another producer.
    pub fn load(&mut self, maker: &mut Maker<'g>, inst: Inst, axes: &[Axis]) -> Result<Value, Refusal> {
        let (sources, seen) = (self.sources, &self.source.seen);
        let kernel = &seen.node.kernel;
        let d = &kernel.insts[inst];
        let found = seen.accesses.iter().find(|a| a.inst == inst);
        let Some((access, place)) = found.and_then(|a| Some((a, a.place.as_ref()?))) else { return self.no(inst, "is of no place") };
        let indices = kernel.operand(inst, "indices");
        let (mut at, mut here, mut known, mut low, mut inside) = (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let extents = sources.graph.extents(&sources.graph.tensors[access.tensor.index()], place.flat);
        for (k, (index, &extent)) in place.index.iter().zip(&place.shape).enumerate() {
            let window = match axes[k] {
                Axis::Keep => None,
                Axis::Window(w) => Some(&self.windows[w]),
            };
            match window.and_then(|w| Some((w, index.beyond(&w.start)?))) {
                Some((w, n)) => {
                    let first = w.at;
                    at.push(maker.plus(first, n)?);
                    here.push(axes[k]);
                    known.push(None);
                    low.push(w.low || n < 0);
                    inside.push(n == 0 && w.inside.as_ref() == Some(&extents[k]));
                }
                None if window.is_none() || extent == 1 => {
                    at.push(self.scalar(maker, indices[k])?);
                    here.push(Axis::Keep);
                    known.push(Some(index));
                    low.push(!sources.atoms.not_negative(index, &seen.node.grid));
                    inside.push(lies(sources, seen, (index, extent), &extents[k]));
                }
                None => {
                    let (t, anchor) = (sources.name(access.tensor), sources.name(self.source.tensor));
                    return self.no(inst, &format!("the tile of `{t}` does not move with that of `{anchor}`"));
                }
            }
        }
        let result = d.results[0];
        let shape = self.shape(result, &here);
        let elem = kernel.ty(result).elem();
        let mask = match kernel.operand(inst, "mask").first() {
            Some(&m) => Some(self.tile(maker, m, &here)?),
            None => None,
        };
        let other = match kernel.operand(inst, "other").first() {
            Some(&o) => Some(self.scalar(maker, o)?),
            None => None,
        };
        let mut value = match sources.of(access.tensor) {
            Some(source) => {
                let drops: Vec<bool> = here.iter().map(|&a| self.drops(a)).collect();
                let free = free(sources, seen, inst, &inside, &drops);
                let wanted = Wanted { at, shape: &shape, known, low, inside, beyond: Vec::new() };
                forwarded(sources, source, maker, (wanted, place), (mask, other), &free)?
            }
            None => {
                let mut args = vec![maker.view(access.tensor, place.flat)?];
                args.extend(at);
                args.extend(mask);
                args.extend(other);
                maker.results(Op::Load, &args, d.present, &d.attrs, Some(&Type::tile(&shape, elem)))?[0]
            }
        };
        let whole = self.shape(result, axes);
        if shape != whole {
            value = maker.op(Op::Broadcast, &[value], &[], Some(&Type::tile(&whole, elem)))?;
        }
        Ok(value)
    }

    /// True if what follows from elements beyond a tensor along a dimension may be anything where no store keeps it.
    fn drops(&self, axis: Axis) -> bool {
        match axis {
            Axis::Keep => !self.beyond.contains(&true),
            Axis::Window(w) => self.windows[w].dim.is_none_or(|d| !self.beyond[d]),
        }
    }

    /// Elements that tiles of indices name.
    pub fn gather(&mut self, maker: &mut Maker<'g>, inst: Inst, axes: &[Axis]) -> Result<Value, Refusal> {
        let seen = &self.source.seen;
        let d = &seen.node.kernel.insts[inst];
        let Some((id, flat)) = seen.tensor(d.args[0]) else { return self.no(inst, "is of no tensor") };
        if self.sources.of(id).is_some() {
            return self.no(inst, "reads elements of a producer one by one");
        }
        let mut args = vec![maker.view(id, flat)?];
        for &a in &d.args[1..] {
            args.push(match seen.node.kernel.ty(a) {
                Type::Scalar(_) => self.scalar(maker, a)?,
                _ => self.tile(maker, a, axes)?,
            });
        }
        Ok(maker.results(Op::Gather, &args, d.present, &d.attrs, None)?[0])
    }
}

/// True if no program's tile lies beyond an extent.
pub(super) fn lies(sources: &Sources<'_>, seen: &Seen<'_>, (index, tile): (&Sum, u32), size: &Size) -> bool {
    fits(&sources.atoms, &seen.node.grid, (index, tile), size, sources.graph.divisor(size))
}

/// Dimensions of a load of a producer's tensor along which nothing that lies outside of it matters: no program's tile does, or nothing that
/// follows is ever stored (and that is enough).
pub(super) fn free(sources: &Sources<'_>, seen: &Seen<'_>, load: Inst, inside: &[bool], drops: &[bool]) -> Vec<bool> {
    let dropped = |k: usize| drops[k] && dropped(sources.graph, (seen, &sources.atoms), load, k);
    (0..inside.len()).map(|k| inside[k] || dropped(k)).collect()
}

/// A producer's tile as a load gives it: `other` outside of the tensor and where the mask says no. Dimensions that are free are not asked.
pub(super) fn forwarded<'g>(
    sources: &Sources<'g>,
    source: &Source<'g>,
    maker: &mut Maker<'g>,
    (mut wanted, place): (Wanted<'_>, &Place),
    (mask, other): (Option<Value>, Option<Value>),
    free: &[bool],
) -> Result<Value, Refusal> {
    if place.flat {
        let why = format!("`{}` is seen as a vector", sources.name(source.tensor));
        return Err(Refusal::new(RefusalKind::Place, why));
    }
    let extents = sources.graph.extents(&sources.graph.tensors[source.tensor.index()], false);
    // Where the producer's own value beyond the end is what the load reads there, nothing has to be put in its place.
    let literal = match other {
        Some(o) => maker.kernel.as_const(o).map(|(l, _)| l),
        None => Some(if sources.graph.tensors[source.tensor.index()].elem.is_float() { Literal::Float(0) } else { Literal::Int(0) }),
    };
    let stored = source.seen.node.kernel.operand(source.store, "value")[0];
    let outside = Outside::new(sources, source);
    let same = |d: usize| literal.is_some_and(|l| outside.is(stored, d, (&source.anchor.index[d], &extents[d]), l));
    wanted.beyond = (0..free.len()).map(|d| !free[d] && !wanted.low[d] && same(d)).collect();
    let free: Vec<bool> = free.iter().zip(&wanted.beyond).map(|(&f, &b)| f || b).collect();
    let tile = tile_of_store(sources, source, maker, &wanted)?;
    let number = |known: &Option<&Sum>| known.and_then(|s| s.as_number());
    let starts: Vec<Start> = wanted.known.iter().zip(&wanted.low).map(|(k, &low)| Start { number: number(k), low }).collect();
    let tile = maker.inside(tile, (&wanted.at, &starts), &extents, other, &free)?;
    let Some(mask) = mask else { return Ok(tile) };
    let other = match other {
        Some(o) => o,
        None => maker.zero(maker.kernel.ty(tile).elem())?,
    };
    let other = maker.splat(other, wanted.shape)?;
    maker.op(Op::Select, &[mask, tile, other], &[], None)
}
