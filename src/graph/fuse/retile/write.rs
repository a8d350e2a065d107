//! The kernel on its way to another tile: what its values are there, instruction by instruction.

use super::super::access::{Place, Seen};
use super::super::atoms::Atoms;
use super::super::maker::Maker;
use super::super::report::{Refusal, RefusalKind};
use super::ops::{along_axis, moves_elements};
use super::tags::{Frame, Tag, Tags};
use crate::graph::nodes::TensorId;
use crate::graph::size::{Grid, Size};
use std::collections::BTreeMap;
use tilelift_ir::{Attr, Effects, Inst, Literal, Op, Scalar, Type, Value, ValueDef};

/// A value of the pointwise kernel in the new one.
#[derive(Clone, Debug)]
pub(super) enum Rep {
    /// All elements equal a scalar of the old kernel.
    Splat(Value),
    /// The index along an axis of this extent.
    Steps { axis: usize, extent: u32 },
    /// A tile of the new kernel.
    Tile { value: Value, tags: Tags },
}

/// Where the kernel shall be written.
pub(in super::super) struct Target<'a> {
    /// Where that is, as the kernel that stays says it, and that kernel's grid.
    pub place: &'a Place,
    pub grid: &'a Grid,
    /// Index of the first element, in the new kernel.
    pub at: Vec<Value>,
    /// Tiles of tensors that are there already, all at the place: loads of them are these values.
    pub tiles: Vec<(TensorId, Value)>,
    /// Only elements of this mask are stored.
    pub mask: Option<Value>,
}

/// A pointwise kernel on its way to another tile.
pub(in super::super) struct Retile<'a, 'g> {
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
    /// Coordinates along dimensions of the anchor.
    pub(super) coordinates: BTreeMap<Value, usize>,
    pub(super) extents: Vec<Size>,
    /// The anchor is a vector, the target is not.
    pub(super) unrolled: bool,
    /// How the anchor's dimensions lie to those of the tile that is wanted.
    pub(super) frame: Frame,
    /// The kernel combines or moves elements along dimensions that are kept.
    pub(super) combines: bool,
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
        let frame = Frame::new(atoms, anchor, target.place);
        let kernel = &seen.node.kernel;
        let mut combines = false;
        kernel.walk(kernel.body, &mut |i| combines |= moves_elements(kernel, i));
        let (reps, scalars, coordinates) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let this =
            Retile { seen, atoms, tensor, anchor, target, keep, reps, scalars, coordinates, extents, unrolled, frame, combines, depth: 0 };
        if this.combines && this.target.mask.is_some() {
            return Err(Refusal::new(RefusalKind::Shape, format!("`{}` combines elements that are stored under a mask", seen.node.name)));
        }
        Ok(this)
    }

    pub(super) fn no(&self, inst: Inst, why: &str) -> Refusal {
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
                (Op::Scatter, _) => self.scatter(maker, inst)?,
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

    /// The anchor's dimensions with which those of a value that was written are aligned; nothing if one is aligned with none.
    pub fn aligned(&self, v: Value) -> Option<Vec<Option<usize>>> {
        let Rep::Tile { tags, .. } = self.reps.get(&v)? else { return None };
        let of = |t: &Tag| match t {
            Tag::Same => Some(None),
            Tag::Of(d) => Some(Some(*d)),
            Tag::Own(_) => None,
        };
        tags.iter().map(of).collect()
    }

    /// The shape of a value of these tags.
    pub(super) fn shape(&self, tags: &Tags) -> Vec<u32> {
        if self.unrolled {
            return self.target.place.shape.clone();
        }
        tags.iter().map(|&t| self.frame.extent(t)).collect()
    }

    /// A scalar of the old kernel in the new one; it must not depend on the program's position.
    pub(super) fn scalar(&mut self, maker: &mut Maker<'g>, v: Value, inst: Inst) -> Result<Value, Refusal> {
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

    pub(super) fn rep(&self, v: Value) -> Rep {
        self.reps.get(&v).cloned().unwrap_or(Rep::Splat(v))
    }

    pub(super) fn put(&mut self, v: Value, rep: Rep) {
        self.reps.insert(v, rep);
    }

    /// A value as a tile of these tags.
    pub(super) fn tile(&mut self, maker: &mut Maker<'g>, rep: &Rep, tags: &Tags, inst: Inst) -> Result<Value, Refusal> {
        let shape = self.shape(tags);
        match rep {
            Rep::Splat(v) => {
                let s = self.scalar(maker, *v, inst)?;
                maker.splat(s, &shape)
            }
            &Rep::Steps { axis, extent } => {
                let mut own = vec![Tag::Same; tags.len()];
                own[axis] = Tag::Own(extent);
                if self.frame.join(own[axis], tags[axis]).is_none() {
                    return Err(self.no(inst, "uses the index inside the tile by itself"));
                }
                let ty = Type::tile(&self.shape(&own), Scalar::I32);
                let value = maker.op(Op::Iota, &[], &[Attr::Dim(axis as u32)], Some(&ty))?;
                self.tile(maker, &Rep::Tile { value, tags: own }, tags, inst)
            }
            Rep::Tile { value, tags: have } if have == tags => Ok(*value),
            Rep::Tile { value, tags: have } => {
                let fits =
                    |h: Tag, w: Tag| h == Tag::Same || (self.frame.join(h, w).is_some() && self.frame.extent(h) == self.frame.extent(w));
                if have.len() != tags.len() || !have.iter().zip(tags).all(|(&h, &w)| fits(h, w)) {
                    return Err(self.no(inst, "combines elements of different places"));
                }
                if maker.kernel.ty(*value).shape() == Some(&shape) {
                    return Ok(*value);
                }
                let ty = Type::tile(&shape, maker.kernel.ty(*value).elem());
                maker.op(Op::Broadcast, &[*value], &[], Some(&ty))
            }
        }
    }

    /// The alignment that several values have together; `None` if all of them are splats.
    pub(super) fn join<'r>(&self, reps: impl IntoIterator<Item = &'r Rep>, inst: Inst) -> Result<Option<Tags>, Refusal> {
        let mut all: Option<Tags> = None;
        let rank =
            self.seen.node.kernel.insts[inst].results.first().and_then(|&r| self.seen.node.kernel.ty(r).shape()).map_or(1, <[u32]>::len);
        for rep in reps {
            let (tags, why) = match rep {
                Rep::Splat(_) => continue,
                Rep::Steps { axis, extent } => {
                    let mut tags = vec![Tag::Same; rank.max(axis + 1)];
                    tags[*axis] = Tag::Own(*extent);
                    (tags, "uses the index inside the tile by itself")
                }
                Rep::Tile { tags, .. } => (tags.clone(), "combines elements of different places"),
            };
            let Some(have) = &mut all else {
                all = Some(tags);
                continue;
            };
            if have.len() != tags.len() {
                return Err(self.no(inst, "combines elements of different places"));
            }
            for (h, t) in have.iter_mut().zip(tags) {
                *h = self.frame.join(*h, t).ok_or_else(|| self.no(inst, why))?;
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
            (Op::Broadcast, _) => self.broadcast(inst)?,
            (Op::Transpose, Some(Attr::Perm(perm))) => self.transpose(maker, inst, perm)?,
            (Op::Slice, _) => self.slice(maker, inst)?,
            (Op::Reshape, _) => self.reshape(maker, inst)?,
            (op, _) if kernel.is_elementwise(inst) || op == Op::Philox => return self.elementwise(maker, inst),
            (op, _) if along_axis(op) => match d.attrs.last() {
                Some(Attr::Dim(axis)) => self.along(maker, inst, *axis as usize)?,
                _ => return Err(self.no(inst, "has no axis")),
            },
            _ => return Err(self.no(inst, "mixes the elements of a tile")),
        };
        self.reps.insert(result, rep);
        Ok(())
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
        let tags = self.join(&reps, inst)?.unwrap_or_else(|| vec![Tag::Same; kernel.ty(d.results[0]).shape().map_or(1, <[u32]>::len)]);
        let mut args = Vec::new();
        for (rep, &a) in reps.iter().zip(&d.args) {
            args.push(match (rep, kernel.ty(a)) {
                (Rep::Splat(v), Type::Scalar(_)) => self.scalar(maker, *v, inst)?,
                _ => self.tile(maker, rep, &tags, inst)?,
            });
        }
        if d.op == Op::Cast
            && let Some(value) = maker.widened(args[0], to)?
        {
            self.reps.insert(d.results[0], Rep::Tile { value, tags });
            return Ok(());
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
        let rank = kernel.ty(d.results[0]).shape().map_or(1, <[u32]>::len);
        let ranks = self.anchor.shape.len();
        let anchored = |k: &usize| self.seen.sums.get(&start) == Some(&self.anchor.index[*k]) && self.anchor.shape[*k] == extent;
        // Of two dimensions that look alike the one that has the same number from the end.
        let same_end = (axis + ranks).checked_sub(rank).filter(|k| *k < ranks && anchored(k));
        let Some(dim) = same_end.or_else(|| (0..ranks).find(anchored)) else {
            return match self.seen.sums.get(&start) {
                Some(s) if !self.atoms.moves(s) => Ok(None),
                _ => Err(self.no(inst, "counts from another place than the tile's")),
            };
        };
        let mut tags: Tags = vec![Tag::Same; rank];
        tags[axis] = Tag::Of(dim);
        let shape = self.shape(&tags);
        let elem = kernel.ty(d.results[0]).elem();
        let steps = maker.op(Op::Iota, &[], &[Attr::Dim(axis as u32)], Some(&Type::tile(&shape, elem)))?;
        let first = maker.splat(self.target.at[dim], &shape)?;
        let value = maker.op(Op::Add, &[first, steps], &[], None)?;
        self.coordinates.insert(d.results[0], dim);
        Ok(Some(Rep::Tile { value, tags }))
    }
}
