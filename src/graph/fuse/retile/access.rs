//! Loads, stores, gathers and scatters at another tile.

use super::super::access::Place;
use super::super::maker::Maker;
use super::super::report::Refusal;
use super::super::tiles::fits;
use super::tags::{Tag, Tags};
use super::write::{Rep, Retile};
use crate::graph::size::{Grid, Size};
use tilelift_ir::{Inst, Literal, Op, Scalar, Type, Value};

/// How an access lies to the anchor.
struct Aligned {
    view: Value,
    /// Its first element in the new kernel.
    at: Vec<Value>,
    tags: Tags,
    /// Dimensions of the anchor whose tiles it has an element for.
    counted: Vec<usize>,
}

impl<'g> Retile<'_, 'g> {
    fn align(&mut self, maker: &mut Maker<'g>, inst: Inst) -> Result<Aligned, Refusal> {
        let seen = self.seen;
        let kernel = &seen.node.kernel;
        let found = seen.accesses.iter().find(|a| a.inst == inst);
        let Some((access, place)) = found.and_then(|a| Some((a, a.place.as_ref()?))) else { return Err(self.no(inst, "is not pointwise")) };
        let t = &maker.graph.tensors()[access.tensor.index()];
        let extents = maker.graph.extents(t, place.flat);
        if self.unrolled {
            let anchor = &maker.graph.tensors()[self.tensor.index()];
            if !place.flat || t.dims != anchor.dims || place.index != self.anchor.index || place.shape != self.anchor.shape {
                return Err(self.no(inst, &format!("accesses `{}` at another place than `{}`", t.name, anchor.name)));
            }
            let view = maker.view(access.tensor, false)?;
            return Ok(Aligned { view, at: self.target.at.clone(), tags: vec![Tag::Of(0)], counted: Vec::new() });
        }
        let (mut tags, mut at, mut counted): (Tags, _, _) = (Vec::new(), Vec::new(), Vec::new());
        for (k, (index, &extent)) in place.index.iter().zip(&place.shape).enumerate() {
            let anchored = |d: &usize| {
                self.anchor.index[*d] == *index
                    && self.anchor.shape[*d] == extent
                    && self.extents[*d] == extents[k]
                    && !tags.contains(&Tag::Of(*d))
            };
            // Of two dimensions that look alike the one that has the same number from the end, as in `bias[col]` beside `t[row, col]`.
            let ranks = self.anchor.shape.len();
            let same_end = (k + ranks).checked_sub(place.shape.len()).filter(|d| *d < ranks && anchored(d));
            let here = !self.atoms.moves(index);
            // One element at a place that is the same for all programs belongs to no other dimension.
            let dim = same_end.or_else(|| (0..ranks).find(anchored).filter(|_| extent > 1 || !here));
            let first = kernel.operand(inst, "indices")[k];
            // The number of a tile.
            let number = |d: &usize| self.frame.kept[*d] && index.times(self.anchor.shape[*d]).as_ref() == Some(&self.anchor.index[*d]);
            match dim {
                Some(d) => {
                    tags.push(Tag::Of(d));
                    at.push(self.target.at[d]);
                }
                None if here => {
                    tags.push(if extent == 1 { Tag::Same } else { Tag::Own(extent) });
                    at.push(self.scalar(maker, first, inst)?);
                }
                None => match (0..ranks).find(number).filter(|_| extent == 1) {
                    Some(d) => {
                        let by = maker.literal(Literal::Int(i64::from(self.anchor.shape[d])), Scalar::I32);
                        tags.push(Tag::Same);
                        at.push(maker.op(Op::Div, &[self.target.at[d], by], &[], None)?);
                        counted.push(d);
                    }
                    None => {
                        let anchor = &maker.graph.tensors()[self.tensor.index()].name;
                        return Err(self.no(inst, &format!("the tile of `{}` does not move with that of `{anchor}`", t.name)));
                    }
                },
            }
        }
        Ok(Aligned { view: maker.view(access.tensor, place.flat)?, at, tags, counted })
    }

    /// Dimensions of the anchor along which what lies outside of the tensor has to be masked: those along which elements are combined.
    fn unmasked(&self, maker: &Maker<'g>) -> Vec<bool> {
        let (place, graph) = (self.target.place, maker.graph);
        let inside = |d: usize| {
            let size = &self.extents[d];
            fits(self.atoms, self.target.grid, (&place.index[d], place.shape[d]), size, graph.divisor(size))
        };
        (0..self.anchor.shape.len()).map(|d| !self.frame.kept[d] || inside(d)).collect()
    }

    pub(super) fn load(&mut self, maker: &mut Maker<'g>, inst: Inst) -> Result<(), Refusal> {
        let seen = self.seen;
        let kernel = &seen.node.kernel;
        let d = &kernel.insts[inst];
        let result = d.results[0];
        let access = seen.accesses.iter().find(|a| a.inst == inst);
        let (mask, other) = (kernel.operand(inst, "mask").first().copied(), kernel.operand(inst, "other").first().copied());
        let tile = access.and_then(|a| self.target.tiles.iter().find(|t| t.0 == a.tensor)).map(|t| t.1);
        if let (Some(tile), Some(a)) = (tile, access) {
            if a.place.as_ref() != Some(self.anchor) {
                return Err(self.no(inst, "reads the tile at a second place"));
            }
            let tags: Tags = (0..self.anchor.shape.len()).map(Tag::Of).collect();
            let mut value = tile;
            if self.combines {
                let other = match other {
                    Some(o) => Some(self.scalar(maker, o, inst)?),
                    None => None,
                };
                let free = self.unmasked(maker);
                let starts = self.target.place.starts(self.atoms, self.target.grid);
                let extents = self.extents.clone();
                value = maker.inside(value, (&self.target.at, &starts), &extents, other, &free)?;
            }
            if let Some(m) = mask {
                let m = self.tile(maker, &self.rep(m), &tags, inst)?;
                let shape = self.shape(&tags);
                let other = match other {
                    Some(o) => self.scalar(maker, o, inst)?,
                    None => maker.zero(kernel.ty(result).elem())?,
                };
                let other = maker.splat(other, &shape)?;
                value = maker.op(Op::Select, &[m, value, other], &[], None)?;
            }
            self.put(result, Rep::Tile { value, tags });
            return Ok(());
        }
        let Aligned { view, at, tags, .. } = self.align(maker, inst)?;
        let mut args = vec![view];
        args.extend(at);
        if let Some(m) = mask {
            args.push(self.tile(maker, &self.rep(m), &tags, inst)?);
        }
        if let Some(o) = other {
            args.push(self.scalar(maker, o, inst)?);
        }
        let ty = Type::tile(&self.shape(&tags), kernel.ty(result).elem());
        let value = maker.results(Op::Load, &args, d.present, &d.attrs, Some(&ty))?[0];
        self.put(result, Rep::Tile { value, tags });
        Ok(())
    }

    /// Elements that tiles of indices name: pointwise in the indices.
    pub(super) fn gather(&mut self, maker: &mut Maker<'g>, inst: Inst) -> Result<(), Refusal> {
        let seen = self.seen;
        let kernel = &seen.node.kernel;
        let d = &kernel.insts[inst];
        let Some((id, flat)) = seen.tensor(d.args[0]) else { return Err(self.no(inst, "is not pointwise")) };
        if self.target.tiles.iter().any(|t| t.0 == id) || id == self.tensor {
            return Err(self.no(inst, "reads the tile at other places"));
        }
        let mut indices: Vec<Value> = kernel.operand(inst, "indices").to_vec();
        let mask = kernel.operand(inst, "mask").first().copied();
        indices.extend(mask);
        let reps: Vec<Rep> = indices.iter().map(|&v| self.rep(v)).collect();
        let Some(tags) = self.join(&reps, inst)? else { return Err(self.no(inst, "reads one element")) };
        let mut args = vec![maker.view(id, flat)?];
        for rep in &reps {
            args.push(self.tile(maker, rep, &tags, inst)?);
        }
        if let Some(&o) = kernel.operand(inst, "other").first() {
            args.push(self.scalar(maker, o, inst)?);
        }
        let value = maker.results(Op::Gather, &args, d.present, &d.attrs, None)?[0];
        self.put(d.results[0], Rep::Tile { value, tags });
        Ok(())
    }

    /// Writes elements that tiles of indices name: pointwise in the indices, where nothing that lies outside of the tensor is written, or
    /// what is falls outside of the other tensor, too.
    pub(super) fn scatter(&mut self, maker: &mut Maker<'g>, inst: Inst) -> Result<(), Refusal> {
        let seen = self.seen;
        let kernel = &seen.node.kernel;
        let d = &kernel.insts[inst];
        let Some((id, flat)) = seen.tensor(d.args[0]).filter(|_| !self.unrolled) else { return Err(self.no(inst, "is not pointwise")) };
        if id == self.tensor {
            return Err(self.no(inst, "writes the tile at other places"));
        }
        let indices = kernel.operand(inst, "indices");
        let value = kernel.operand(inst, "value")[0];
        let mask = kernel.operand(inst, "mask").first().copied();
        let all: Vec<Value> = indices.iter().copied().chain([value]).chain(mask).collect();
        let reps: Vec<Rep> = all.iter().map(|&v| self.rep(v)).collect();
        let Some(tags) = self.join(&reps, inst)? else { return Err(self.no(inst, "writes one element")) };
        let dims = maker.graph.extents(&maker.graph.tensors()[id.index()], flat);
        for k in 0..self.anchor.shape.len() {
            let covered = tags.contains(&Tag::Of(k));
            if !covered && !self.frame.settled[k] {
                return Err(self.no(inst, "writes less than the tile"));
            }
            let drops = |(v, size): (&Value, &Size)| self.coordinates.get(v) == Some(&k) && *size == self.extents[k];
            let size = &self.extents[k];
            let ends =
                |place: &Place, grid: &Grid| fits(self.atoms, grid, (&place.index[k], place.shape[k]), size, maker.graph.divisor(size));
            let all_end = ends(self.anchor, &seen.node.grid) && ends(self.target.place, self.target.grid);
            if !(all_end || indices.iter().zip(&dims).any(drops)) {
                return Err(self.no(inst, "may write what lies outside of the tile's tensor"));
            }
        }
        let mut args = vec![maker.view(id, flat)?];
        for rep in &reps[..=indices.len()] {
            args.push(self.tile(maker, rep, &tags, inst)?);
        }
        let own = match mask {
            Some(m) => Some(self.tile(maker, &self.rep(m), &tags, inst)?),
            None => None,
        };
        let both = self.masked(maker, own, &tags, inst)?;
        args.extend(both);
        maker.results(Op::Scatter, &args, if both.is_some() { 0b1000 } else { 0 }, &d.attrs, None)?;
        Ok(())
    }

    /// A mask with that of the target.
    fn masked(&mut self, maker: &mut Maker<'g>, own: Option<Value>, tags: &Tags, inst: Inst) -> Result<Option<Value>, Refusal> {
        let outer = match self.target.mask {
            Some(_) if !self.unrolled && tags.iter().enumerate().any(|(k, t)| *t != Tag::Of(k)) => {
                return Err(self.no(inst, "stores a transposed tile under a mask"));
            }
            m => m,
        };
        Ok(match (own, outer) {
            (Some(a), Some(b)) => Some(maker.op(Op::And, &[a, b], &[], None)?),
            (a, b) => a.or(b),
        })
    }

    /// Writes a store; the tile, if it goes to the anchor's tensor.
    pub(super) fn store(&mut self, maker: &mut Maker<'g>, inst: Inst) -> Result<Option<Value>, Refusal> {
        let seen = self.seen;
        let kernel = &seen.node.kernel;
        let d = &kernel.insts[inst];
        let value = kernel.operand(inst, "value")[0];
        let mask = kernel.operand(inst, "mask").first().copied();
        let to = seen.accesses.iter().find(|a| a.inst == inst);
        let own = to.is_some_and(|a| a.tensor == self.tensor && a.place.as_ref() == Some(self.anchor));
        let skipped = own && !self.keep;
        let (view, at, tags, counted) = if skipped {
            (None, Vec::new(), (0..self.anchor.shape.len()).map(Tag::Of).collect(), Vec::new())
        } else {
            let Aligned { view, at, tags, counted } = self.align(maker, inst)?;
            (Some(view), at, tags, counted)
        };
        let missing = |d: usize| !self.frame.settled[d] && !tags.contains(&Tag::Of(d)) && !counted.contains(&d);
        if !self.unrolled && (0..self.anchor.shape.len()).any(missing) {
            return Err(self.no(inst, "stores less than the tile"));
        }
        let tile = self.tile(maker, &self.rep(value), &tags, inst)?;
        if own && mask.is_some() {
            return Err(self.no(inst, "has a mask"));
        }
        if let Some(view) = view {
            let mut args = vec![view];
            args.extend(at);
            args.push(tile);
            let own_mask = match mask {
                Some(m) => Some(self.tile(maker, &self.rep(m), &tags, inst)?),
                None => None,
            };
            let both = self.masked(maker, own_mask, &tags, inst)?;
            args.extend(both);
            let present = if both.is_some() { 0b1000 } else { 0 };
            maker.results(Op::Store, &args, present, &d.attrs, None)?;
        }
        Ok(own.then_some(tile))
    }
}
