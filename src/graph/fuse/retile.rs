//! Writes a pointwise kernel again at another tile.
//!
//! A straight-line kernel is *pointwise* in a tensor's tile if element `e` of everything it stores follows from elements `e` of what it
//! loads. Every dimension of a tile value is then either *aligned* with a dimension of the anchor tile (its coordinate is the anchor's),
//! or the same all along, held with extent 1 here. Elementwise ops join alignments; other ops mix elements and end the attempt.
//!
//! ```text
//! anchor t[128 * x, 64 * y] : 128x64             place t[r, c] : 128x256, r and c of another kernel
//! load bias[64 * y] : 64                [1]       load bias[c] : 256
//! reshape 1x64                          [-, 1]    reshape 1x256
//! broadcast 128x64, add                 [0, 1]    broadcast 128x256, add
//! store out[128 * x, 64 * y]            [0, 1]    store out[r, c]
//! ```
//!
//! Elements outside the tensors differ from those of the original; no store keeps them, since all aligned extents are equal.
//!
//! A dimension along which the tile stays as it is, same place and extent, is *settled*: folds, scans and sorts along it are the same
//! there, so a row-wise kernel is written again for another number of rows. What lies outside of the tensor counts in them, so a tile that
//! was not loaded is masked along settled dimensions.

use super::access::{Place, Seen};
use super::maker::Maker;
use super::report::{Refusal, RefusalKind};
use super::sym::Atoms;
use crate::graph::nodes::TensorId;
use crate::graph::size::Size;
use std::collections::BTreeMap;
use tilelift_ir::ops::Rule;
use tilelift_ir::{Attr, Effects, Inst, Literal, Op, Scalar, Type, Value, ValueDef};

/// Which anchor dimension each dimension of a value is aligned with.
pub(crate) type Tags = Vec<Option<usize>>;

/// A value of the pointwise kernel in the new one.
#[derive(Clone, Debug)]
enum Rep {
    /// All elements equal a scalar of the old kernel.
    Splat(Value),
    /// The index along an axis of this extent.
    Steps { axis: usize, extent: u32 },
    /// A tile of the new kernel.
    Tile { value: Value, tags: Tags },
}

/// Where the kernel shall be written.
pub(crate) struct Target<'a> {
    /// Where that is, as the kernel that stays says it.
    pub place: &'a Place,
    /// Index of the first element, in the new kernel.
    pub at: Vec<Value>,
    /// The tile, if it is there already: loads of it are this value.
    pub tile: Option<Value>,
    /// Only elements of this mask are stored.
    pub mask: Option<Value>,
}

/// A pointwise kernel on its way to another tile.
pub(crate) struct Retile<'a, 'g> {
    pub seen: &'a Seen<'g>,
    pub atoms: &'a Atoms,
    /// The tensor whose tile is the anchor, and the anchor.
    pub tensor: TensorId,
    pub anchor: &'a Place,
    pub target: Target<'a>,
    /// Whether stores of the anchor tensor are written; what they store is returned either way.
    pub keep: bool,
    reps: BTreeMap<Value, Rep>,
    scalars: BTreeMap<Value, Value>,
    extents: Vec<Size>,
    /// The anchor is a vector, the target is not.
    unrolled: bool,
    /// Dimensions of the anchor that stay as they are.
    settled: Vec<bool>,
    /// The kernel combines elements along settled dimensions.
    combines: bool,
    /// Scalars upon scalars that are being made.
    depth: u32,
}

/// Scalars upon scalars that are followed at most.
const DEEPEST: u32 = 256;

impl<'a, 'g> Retile<'a, 'g> {
    pub fn new(
        maker: &Maker<'g>,
        (seen, atoms): (&'a Seen<'g>, &'a Atoms),
        (tensor, anchor): (TensorId, &'a Place),
        target: Target<'a>,
        keep: bool,
    ) -> Result<Retile<'a, 'g>, Refusal> {
        let name = || maker.graph.tensors()[tensor.index()].name.clone();
        if !anchor.flat && target.place.flat {
            return Err(Refusal::new(RefusalKind::Place, format!("one kernel sees `{}` as a vector, the other does not", name())));
        }
        if anchor.flat == target.place.flat && anchor.shape.len() != target.place.shape.len() {
            return Err(Refusal::new(RefusalKind::Shape, format!("tiles of `{}` have different numbers of dimensions", name())));
        }
        let extents = maker.graph.extents(&maker.graph.tensors()[tensor.index()], anchor.flat);
        let unrolled = anchor.flat && !target.place.flat;
        let (reps, scalars) = (BTreeMap::new(), BTreeMap::new());
        let stays = |d: usize| {
            let (a, t) = (anchor, target.place);
            !a.flat && !t.flat && a.index[d] == t.index[d] && a.shape[d] == t.shape[d] && !atoms.moves(&a.index[d])
        };
        let settled: Vec<bool> = (0..anchor.shape.len()).map(stays).collect();
        let mut combines = false;
        seen.node.kernel.walk(seen.node.kernel.body, &mut |i| combines |= along_axis(seen.node.kernel.insts[i].op));
        let this = Retile { seen, atoms, tensor, anchor, target, keep, reps, scalars, extents, unrolled, settled, combines, depth: 0 };
        if this.combines && this.target.mask.is_some() {
            return Err(Refusal::new(RefusalKind::Shape, format!("`{}` combines elements that are stored under a mask", seen.node.name)));
        }
        Ok(this)
    }

    fn no(&self, inst: Inst, why: &str) -> Refusal {
        let op = self.seen.node.kernel.insts[inst].op;
        Refusal::new(RefusalKind::Shape, format!("`{op}` in `{}`: {why}", self.seen.node.name))
    }

    /// Writes the kernel; the tile that it stores to the anchor's tensor, if it does.
    pub fn write(&mut self, maker: &mut Maker<'g>) -> Result<Option<Value>, Refusal> {
        let kernel = &self.seen.node.kernel;
        let mut stored = None;
        for &inst in &kernel.regions[kernel.body].insts {
            let d = &kernel.insts[inst];
            match (d.op, d.op.info().effects) {
                (Op::Load, _) => self.load(maker, inst)?,
                (Op::Store, _) => {
                    if let Some(tile) = self.store(maker, inst)? {
                        stored = Some(tile);
                    }
                }
                (Op::Gather, _) => self.gather(maker, inst)?,
                (_, Effects::Pure) if d.results.iter().all(|&r| matches!(kernel.ty(r), Type::Scalar(_))) && d.regions.is_empty() => {
                    // Scalars are made where they are needed, but what folds a tile to a scalar is none.
                    if d.args.iter().any(|&a| matches!(kernel.ty(a), Type::Tile(_))) {
                        return Err(self.no(inst, "mixes the elements of a tile"));
                    }
                }
                (_, Effects::Pure) => self.pure(maker, inst)?,
                (_, _) => {
                    return Err(self.no(inst, "is not pointwise"));
                }
            }
        }
        Ok(stored)
    }

    /// How a value that was written lies to the anchor.
    pub fn tags(&self, v: Value) -> Option<Tags> {
        match self.reps.get(&v)? {
            Rep::Tile { tags, .. } => Some(tags.clone()),
            Rep::Splat(_) | Rep::Steps { .. } => None,
        }
    }

    /// The shape of a value of these tags.
    fn shape(&self, tags: &Tags) -> Vec<u32> {
        if self.unrolled {
            return self.target.place.shape.clone();
        }
        tags.iter().map(|t| t.map_or(1, |d| self.target.place.shape[d])).collect()
    }

    /// A scalar of the old kernel in the new one; it must not depend on the program's position.
    fn scalar(&mut self, maker: &mut Maker<'g>, v: Value, inst: Inst) -> Result<Value, Refusal> {
        if let Some(&new) = self.scalars.get(&v) {
            return Ok(new);
        }
        let node = self.seen.node;
        let kernel = &node.kernel;
        let number = self.seen.sums.get(&v).and_then(|s| s.as_number()).filter(|_| *kernel.ty(v) == Type::Scalar(Scalar::I32));
        if let Some(n) = number {
            let new = maker.literal(Literal::Int(i64::from(n)), Scalar::I32);
            self.scalars.insert(v, new);
            return Ok(new);
        }
        let new = match kernel.values[v].def {
            ValueDef::KernelParam(p) => maker.scalar(&node.args[p as usize], kernel.ty(v)),
            ValueDef::RegionParam(..) => return Err(self.no(inst, "uses the index of a loop")),
            ValueDef::Result(i, n) => {
                let d = &kernel.insts[i];
                match (d.op, d.attrs.first()) {
                    (Op::ProgramId | Op::NumPrograms, _) => {
                        return Err(self.no(inst, "uses the program's position for more than the place of its tiles"));
                    }
                    (Op::Dim, Some(Attr::Dim(k))) => {
                        let (id, flat) = self.seen.tensor(d.args[0]).ok_or_else(|| self.no(i, "of no tensor"))?;
                        let extents = maker.graph.extents(&maker.graph.tensors()[id.index()], flat);
                        maker.size(&extents[*k as usize])?
                    }
                    (op, _) if d.regions.is_empty() && op.info().effects == Effects::Pure => {
                        self.depth += 1;
                        if self.depth > DEEPEST {
                            return Err(self.no(inst, "follows from too many scalars"));
                        }
                        let args = d.args.iter().map(|&a| self.scalar(maker, a, inst)).collect::<Result<Vec<_>, _>>()?;
                        self.depth -= 1;
                        let explicit = (op.info().typed() || op == Op::Const).then(|| kernel.ty(v).clone());
                        let all = maker.results(op, &args, d.present, &d.attrs, explicit.as_ref())?;
                        all[n as usize]
                    }
                    _ => return Err(self.no(i, "is not pointwise")),
                }
            }
        };
        self.scalars.insert(v, new);
        Ok(new)
    }

    fn rep(&self, v: Value) -> Rep {
        self.reps.get(&v).cloned().unwrap_or(Rep::Splat(v))
    }

    /// A value as a tile of these tags.
    fn tile(&mut self, maker: &mut Maker<'g>, rep: &Rep, tags: &Tags, inst: Inst) -> Result<Value, Refusal> {
        let shape = self.shape(tags);
        match rep {
            Rep::Splat(v) => {
                let s = self.scalar(maker, *v, inst)?;
                maker.splat(s, &shape)
            }
            Rep::Steps { .. } => match self.steps(maker, rep, tags.len())? {
                Some(rep) => self.tile(maker, &rep, tags, inst),
                None => Err(self.no(inst, "uses the index inside the tile by itself")),
            },
            Rep::Tile { value, tags: have } if have == tags => Ok(*value),
            Rep::Tile { value, tags: have } => {
                if have.len() != tags.len() || have.iter().zip(tags).any(|(h, w)| h.is_some() && h != w) {
                    return Err(self.no(inst, "combines elements of different places"));
                }
                let ty = Type::tile(&shape, maker.kernel.ty(*value).elem());
                maker.op(Op::Broadcast, &[*value], &[], Some(&ty))
            }
        }
    }

    /// The index along a settled dimension, which is what it was.
    fn steps(&mut self, maker: &mut Maker<'g>, rep: &Rep, rank: usize) -> Result<Option<Rep>, Refusal> {
        let &Rep::Steps { axis, extent } = rep else { return Ok(None) };
        let Some(d) = self.settled_for(axis, extent) else { return Ok(None) };
        let mut tags: Tags = vec![None; rank];
        tags[axis] = Some(d);
        let ty = Type::tile(&self.shape(&tags), Scalar::I32);
        Ok(Some(Rep::Tile { value: maker.op(Op::Iota, &[], &[Attr::Dim(axis as u32)], Some(&ty))?, tags }))
    }

    /// The settled dimension that an index along this axis counts.
    fn settled_for(&self, axis: usize, extent: u32) -> Option<usize> {
        let fits = |d: &usize| self.settled[*d] && self.anchor.shape[*d] == extent;
        Some(axis).filter(|d| *d < self.settled.len() && fits(d)).or_else(|| (0..self.settled.len()).find(fits))
    }

    /// The alignment that several values have together; `None` if all of them are splats.
    fn join<'r>(&self, reps: impl IntoIterator<Item = &'r Rep>, inst: Inst) -> Result<Option<Tags>, Refusal> {
        let mut all: Option<Tags> = None;
        for rep in reps {
            match (rep, &mut all) {
                (Rep::Splat(_), _) => {}
                (Rep::Steps { axis, extent }, have) => {
                    let Some(d) = self.settled_for(*axis, *extent) else {
                        return Err(self.no(inst, "uses the index inside the tile by itself"));
                    };
                    let rank = self.seen.node.kernel.insts[inst].results.first().and_then(|&r| self.seen.node.kernel.ty(r).shape());
                    let have = have.get_or_insert_with(|| vec![None; rank.map_or(1, <[u32]>::len)]);
                    if have[*axis].is_some_and(|h| h != d) {
                        return Err(self.no(inst, "combines elements of different places"));
                    }
                    have[*axis] = Some(d);
                }
                (Rep::Tile { tags, .. }, None) => all = Some(tags.clone()),
                (Rep::Tile { tags, .. }, Some(have)) => {
                    for (h, t) in have.iter_mut().zip(tags) {
                        match (*h, *t) {
                            (None, t) => *h = t,
                            (Some(a), Some(b)) if a != b => return Err(self.no(inst, "combines elements of different places")),
                            (Some(_), _) => {}
                        }
                    }
                }
            }
        }
        Ok(all)
    }

    fn pure(&mut self, maker: &mut Maker<'g>, inst: Inst) -> Result<(), Refusal> {
        let kernel = &self.seen.node.kernel;
        let d = &kernel.insts[inst];
        let result = d.results[0];
        let Type::Tile(ty) = kernel.ty(result) else { return Err(self.no(inst, "is not pointwise")) };
        let rep = match (d.op, d.attrs.first()) {
            (Op::Splat, _) => Rep::Splat(d.args[0]),
            (Op::Iota, Some(Attr::Dim(axis))) => Rep::Steps { axis: *axis as usize, extent: ty.shape[*axis as usize] },
            (Op::Broadcast, _) => match self.rep(d.args[0]) {
                Rep::Tile { value, tags } => {
                    let from = kernel.ty(d.args[0]).shape().unwrap_or(&[]);
                    let grows = |k: usize| from[k] != ty.shape[k] && tags[k].is_some();
                    if (0..from.len()).any(grows) {
                        return Err(self.no(inst, "repeats elements of different places"));
                    }
                    Rep::Tile { value, tags }
                }
                other => other,
            },
            (Op::Transpose, Some(Attr::Perm(perm))) => match self.rep(d.args[0]) {
                Rep::Splat(v) => Rep::Splat(v),
                Rep::Steps { .. } => return Err(self.no(inst, "uses the index inside the tile by itself")),
                Rep::Tile { value, tags } if !self.unrolled => {
                    let value = maker.op(Op::Transpose, &[value], &d.attrs, None)?;
                    Rep::Tile { value, tags: perm.iter().map(|&p| tags[p as usize]).collect() }
                }
                Rep::Tile { value, tags } => Rep::Tile { value, tags },
            },
            (Op::Reshape, _) => self.reshape(maker, inst)?,
            (op, _) if kernel.is_elementwise(inst) || op == Op::Philox => return self.elementwise(maker, inst),
            (op, Some(_)) if along_axis(op) => self.along(maker, inst)?,
            _ => return Err(self.no(inst, "mixes the elements of a tile")),
        };
        self.reps.insert(result, rep);
        Ok(())
    }

    /// A fold, scan or sort along a settled dimension.
    fn along(&mut self, maker: &mut Maker<'g>, inst: Inst) -> Result<Rep, Refusal> {
        let d = &self.seen.node.kernel.insts[inst];
        let (Some(Attr::Dim(axis)), Rep::Tile { value, mut tags }) = (d.attrs.last(), self.rep(d.args[0])) else {
            return Err(self.no(inst, "combines equal elements"));
        };
        let axis = *axis as usize;
        if !tags[axis].is_some_and(|d| self.settled[d]) {
            return Err(self.no(inst, "mixes the elements of a tile"));
        }
        let value = maker.op(d.op, &[value], &d.attrs, None)?;
        if matches!(d.op.info().rule, Rule::Reduce | Rule::ArgReduce) {
            tags.remove(axis);
        }
        Ok(Rep::Tile { value, tags })
    }

    /// A reshape that adds or drops extents of 1.
    fn reshape(&mut self, maker: &mut Maker<'g>, inst: Inst) -> Result<Rep, Refusal> {
        let kernel = &self.seen.node.kernel;
        let d = &kernel.insts[inst];
        let shapes = (kernel.ty(d.args[0]).shape(), kernel.ty(d.results[0]).shape());
        let (Some(from), Some(to)) = shapes else { return Err(self.no(inst, "is not pointwise")) };
        let mixes = || self.no(inst, "mixes the dimensions of a tile");
        // For each dimension of the operand that counts, its place in the result.
        let place = |counts: &dyn Fn(usize) -> bool| -> Option<Vec<Option<usize>>> {
            let mut places = vec![None; from.len()];
            let mut next = 0;
            for k in (0..from.len()).filter(|&k| counts(k)) {
                let at = (next..to.len()).find(|&j| to[j] == from[k])?;
                if to[next..at].iter().any(|&e| e != 1) {
                    return None;
                }
                (places[k], next) = (Some(at), at + 1);
            }
            to[next..].iter().all(|&e| e == 1).then_some(places)
        };
        match self.rep(d.args[0]) {
            Rep::Splat(v) => Ok(Rep::Splat(v)),
            Rep::Steps { axis, extent } => {
                let places = place(&|k| from[k] != 1).ok_or_else(mixes)?;
                Ok(Rep::Steps { axis: places[axis].ok_or_else(mixes)?, extent })
            }
            Rep::Tile { .. } if self.unrolled => Err(mixes()),
            Rep::Tile { value, tags } => {
                let places = place(&|k| from[k] != 1 || tags[k].is_some()).ok_or_else(mixes)?;
                let mut new: Tags = vec![None; to.len()];
                for (k, p) in places.iter().enumerate() {
                    if let Some(p) = p {
                        new[*p] = tags[k];
                    }
                }
                let ty = Type::tile(&self.shape(&new), maker.kernel.ty(value).elem());
                Ok(Rep::Tile { value: maker.op(Op::Reshape, &[value], &[], Some(&ty))?, tags: new })
            }
        }
    }

    fn elementwise(&mut self, maker: &mut Maker<'g>, inst: Inst) -> Result<(), Refusal> {
        let kernel = &self.seen.node.kernel;
        let d = &kernel.insts[inst];
        if let Some(rep) = self.coordinate(maker, inst)? {
            self.reps.insert(d.results[0], rep);
            return Ok(());
        }
        let reps: Vec<Rep> = d.args.iter().map(|&a| self.rep(a)).collect();
        let to = kernel.ty(d.results[0]).elem();
        // Splats alone make a tile, too: the scalars behind them may not be those of this place.
        let tags = self.join(&reps, inst)?.unwrap_or_else(|| vec![None; kernel.ty(d.results[0]).shape().map_or(1, <[u32]>::len)]);
        let mut args = Vec::new();
        for (rep, &a) in reps.iter().zip(&d.args) {
            args.push(match (rep, kernel.ty(a)) {
                (Rep::Splat(v), Type::Scalar(_)) => self.scalar(maker, *v, inst)?,
                _ => self.tile(maker, rep, &tags, inst)?,
            });
        }
        let explicit = d.op.info().typed().then(|| Type::tile(&self.shape(&tags), to));
        let values = maker.results(d.op, &args, d.present, &d.attrs, explicit.as_ref())?;
        for (&r, value) in d.results.iter().zip(values) {
            self.reps.insert(r, Rep::Tile { value, tags: tags.clone() });
        }
        Ok(())
    }

    /// The coordinate of each element along a dimension: the tile's first plus the index inside.
    fn coordinate(&mut self, maker: &mut Maker<'g>, inst: Inst) -> Result<Option<Rep>, Refusal> {
        let kernel = &self.seen.node.kernel;
        let d = &kernel.insts[inst];
        if d.op != Op::Add || self.unrolled {
            return Ok(None);
        }
        let (start, axis, extent) = match (self.rep(d.args[0]), self.rep(d.args[1])) {
            (Rep::Splat(s), Rep::Steps { axis, extent }) | (Rep::Steps { axis, extent }, Rep::Splat(s)) => (s, axis, extent),
            _ => return Ok(None),
        };
        let anchored = |k: &usize| self.seen.sums.get(&start) == Some(&self.anchor.index[*k]) && self.anchor.shape[*k] == extent;
        let Some(dim) = (0..self.anchor.shape.len()).find(anchored) else {
            return match self.settled_for(axis, extent) {
                Some(_) => Ok(None),
                None => Err(self.no(inst, "counts from another place than the tile's")),
            };
        };
        let mut tags: Tags = vec![None; kernel.ty(d.results[0]).shape().map_or(1, <[u32]>::len)];
        tags[axis] = Some(dim);
        let shape = self.shape(&tags);
        let elem = kernel.ty(d.results[0]).elem();
        let steps = maker.op(Op::Iota, &[], &[Attr::Dim(axis as u32)], Some(&Type::tile(&shape, elem)))?;
        let first = maker.splat(self.target.at[dim], &shape)?;
        Ok(Some(Rep::Tile { value: maker.op(Op::Add, &[first, steps], &[], None)?, tags }))
    }

    /// How an access lies to the anchor, and its first element in the new kernel.
    fn align(&mut self, maker: &mut Maker<'g>, inst: Inst) -> Result<(Value, Vec<Value>, Tags), Refusal> {
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
            return Ok((maker.view(access.tensor, false)?, self.target.at.clone(), vec![Some(0)]));
        }
        let mut tags: Tags = Vec::new();
        let mut at = Vec::new();
        for (k, (index, &extent)) in place.index.iter().zip(&place.shape).enumerate() {
            let anchored = |d: &usize| {
                self.anchor.index[*d] == *index
                    && self.anchor.shape[*d] == extent
                    && self.extents[*d] == extents[k]
                    && !tags.contains(&Some(*d))
            };
            // Of two dimensions that look alike the one that has the same number from the end, as in `bias[col]` beside `t[row, col]`.
            let same_end = (k + self.anchor.shape.len()).checked_sub(place.shape.len());
            let dim =
                same_end.filter(|d| *d < self.anchor.shape.len() && anchored(d)).or_else(|| (0..self.anchor.shape.len()).find(anchored));
            match dim {
                Some(d) => {
                    tags.push(Some(d));
                    at.push(self.target.at[d]);
                }
                None if extent == 1 && !self.atoms.moves(index) => {
                    tags.push(None);
                    let v = kernel.operand(inst, "indices")[k];
                    at.push(self.scalar(maker, v, inst)?);
                }
                None => {
                    let anchor = &maker.graph.tensors()[self.tensor.index()].name;
                    return Err(self.no(inst, &format!("the tile of `{}` does not move with that of `{anchor}`", t.name)));
                }
            }
        }
        Ok((maker.view(access.tensor, place.flat)?, at, tags))
    }

    fn load(&mut self, maker: &mut Maker<'g>, inst: Inst) -> Result<(), Refusal> {
        let seen = self.seen;
        let kernel = &seen.node.kernel;
        let d = &kernel.insts[inst];
        let result = d.results[0];
        let access = seen.accesses.iter().find(|a| a.inst == inst);
        let (mask, other) = (kernel.operand(inst, "mask").first().copied(), kernel.operand(inst, "other").first().copied());
        if let (Some(tile), Some(a)) = (self.target.tile, access)
            && a.tensor == self.tensor
        {
            if a.place.as_ref() != Some(self.anchor) {
                return Err(self.no(inst, "reads the tile at a second place"));
            }
            let tags: Tags = (0..self.anchor.shape.len()).map(Some).collect();
            let mut value = tile;
            if self.combines {
                let other = match other {
                    Some(o) => Some(self.scalar(maker, o, inst)?),
                    None => None,
                };
                let free: Vec<bool> = self.settled.iter().map(|s| !s).collect();
                let extents = self.extents.clone();
                value = maker.inside(value, (&self.target.at, &self.target.place.starts()), &extents, other, &free)?;
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
            self.reps.insert(result, Rep::Tile { value, tags });
            return Ok(());
        }
        let (view, at, tags) = self.align(maker, inst)?;
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
        self.reps.insert(result, Rep::Tile { value, tags });
        Ok(())
    }

    /// Elements that tiles of indices name: pointwise in the indices.
    fn gather(&mut self, maker: &mut Maker<'g>, inst: Inst) -> Result<(), Refusal> {
        let seen = self.seen;
        let kernel = &seen.node.kernel;
        let d = &kernel.insts[inst];
        let Some((id, flat)) = seen.tensor(d.args[0]) else { return Err(self.no(inst, "is not pointwise")) };
        if id == self.tensor {
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
        self.reps.insert(d.results[0], Rep::Tile { value, tags });
        Ok(())
    }

    /// Writes a store; the tile, if it goes to the anchor's tensor.
    fn store(&mut self, maker: &mut Maker<'g>, inst: Inst) -> Result<Option<Value>, Refusal> {
        let seen = self.seen;
        let kernel = &seen.node.kernel;
        let d = &kernel.insts[inst];
        let value = kernel.operand(inst, "value")[0];
        let mask = kernel.operand(inst, "mask").first().copied();
        let to = seen.accesses.iter().find(|a| a.inst == inst);
        let own = to.is_some_and(|a| a.tensor == self.tensor && a.place.as_ref() == Some(self.anchor));
        let skipped = own && !self.keep;
        let (view, at, tags) = if skipped {
            (None, Vec::new(), (0..self.anchor.shape.len()).map(Some).collect())
        } else {
            let (view, at, tags) = self.align(maker, inst)?;
            (Some(view), at, tags)
        };
        if (0..self.anchor.shape.len()).any(|d| !self.settled[d] && !tags.contains(&Some(d))) {
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
            let outer = match self.target.mask {
                Some(_) if !self.unrolled && tags.iter().enumerate().any(|(k, t)| *t != Some(k)) => {
                    return Err(self.no(inst, "stores a transposed tile under a mask"));
                }
                m => m,
            };
            let both = match (own_mask, outer) {
                (Some(a), Some(b)) => Some(maker.op(Op::And, &[a, b], &[], None)?),
                (a, b) => a.or(b),
            };
            args.extend(both);
            let present = if both.is_some() { 0b1000 } else { 0 };
            maker.results(Op::Store, &args, present, &d.attrs, None)?;
        }
        Ok(own.then_some(tile))
    }
}

/// True for ops that combine or move elements along one axis and do to each line the same.
fn along_axis(op: Op) -> bool {
    matches!(op.info().rule, Rule::Reduce | Rule::ArgReduce | Rule::Scan | Rule::Sort | Rule::ArgSort | Rule::Flip)
}
