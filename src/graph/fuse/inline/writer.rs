//! Tile-of-store: the tile that a producer would have stored at a place, computed there.
//!
//! Values are asked for backwards from the store. Each dimension of what is asked for is *kept*, all elements as the producer's programs
//! have them, or a *window*: element `i` of the new tile is the one at index `at + i` of the row in which a program's tile starts at `start`.
//!
//! ```text
//! store T[64 * x, 0] : 64x256                    asked for at T[r, c] : 128x32
//! div e, l                      [r.., c..]       e [r.., c..]    l [r.., kept]
//! broadcast (reduce e along 1)  [r.., kept]      reduce          [r..]          ─► a strip loop, in front of the loop of c
//! load S[64 * x, 0] : 64x256    [r.., c..]       load S[r, c] : 128x32, or the tile of S's own producer there
//! dot a b                       [m, n]           a [m, kept]     b [kept, n]
//! ```
//!
//! Scalars that differ from program to program can't be had elsewhere, but for the index of a dimension in which both tiles have extent 1.

use super::super::atoms::Sum;
use super::super::maker::{Maker, conversion};
use super::super::report::{FuseRule, Refusal, RefusalKind};
use super::source::{Source, Sources};
use crate::graph::size::Size;
use std::collections::BTreeMap;
use tilelift_egraph::Class;
use tilelift_ir::ops::Rule;
use tilelift_ir::{Attr, Effects, Inst, Op, Region, Scalar, Type, Value, ValueDef};

/// What is wanted of a dimension.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Axis {
    /// All elements, as they are.
    Keep,
    /// The elements of a window, by its number.
    Window(usize),
}

/// Other elements of a row than those of a program's tile.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// The first index of the producer's tile, and its extent.
    pub start: Sum,
    pub extent: u32,
    /// The first index wanted, in the new kernel, and the number of elements.
    pub at: Value,
    pub shape: u32,
    /// The dimension of the tile that is stored, if it is one.
    pub dim: Option<usize>,
    /// The first index wanted may be below 0.
    pub low: bool,
    /// The extent inside of which all that is wanted lies, if it is known to.
    pub inside: Option<Size>,
}

/// A producer's loop that is being written.
pub(super) struct Open {
    pub region: Region,
    /// The loop of the producer, by its body.
    pub from: Region,
    /// Carried values that are needed: their number, what is wanted of them, and the new parameter.
    pub slots: Vec<(usize, Vec<Axis>, Value)>,
}

/// Where a tile is wanted: the first index and the extent of each dimension, and the indices that are the same in both kernels.
pub(super) struct Wanted<'a> {
    pub at: Vec<Value>,
    pub shape: &'a [u32],
    pub known: Vec<Option<&'a Sum>>,
    /// Dimensions along which the first index may be below 0, and those along which the tile lies inside of the tensor.
    pub low: Vec<bool>,
    pub inside: Vec<bool>,
    /// Dimensions along which elements beyond the tensor have to be what the producer would have made there.
    pub beyond: Vec<bool>,
}

/// A producer on its way to another tile.
pub(super) struct Writer<'a, 'g> {
    pub sources: &'a Sources<'g>,
    pub source: &'a Source<'g>,
    /// Those of the tile that is wanted first.
    pub windows: Vec<Window>,
    /// Windows of the tile that is wanted.
    pub outer: usize,
    /// Indices of dimensions of extent 1, and what they are in the new kernel.
    pub places: Vec<(Sum, Value)>,
    /// Dimensions of the tile along which elements beyond the tensor have to be right.
    pub beyond: Vec<bool>,
    /// What was written already.
    pub done: BTreeMap<(Value, Vec<Axis>), Value>,
    pub loops: Vec<Open>,
    /// A fold along a row that is taken at a window.
    pub pieced: Option<(Inst, usize)>,
    /// The conversion to the tensor's element type, if that is what is stored.
    narrows: Option<Inst>,
    depth: u32,
}

/// Values upon values that are followed at most, and instructions that a kernel may grow to.
const DEEPEST: u32 = 200;
const MOST_INSTS: usize = 20_000;

/// The tile that a producer stores, at another place.
pub(super) fn tile_of_store<'g>(
    sources: &Sources<'g>,
    source: &Source<'g>,
    maker: &mut Maker<'g>,
    wanted: &Wanted<'_>,
) -> Result<Value, Refusal> {
    let anchor = &source.anchor;
    let name = sources.name(source.tensor);
    if anchor.shape.len() != wanted.shape.len() {
        return Err(Refusal::new(RefusalKind::Shape, format!("tiles of `{name}` have different numbers of dimensions")));
    }
    let (mut windows, mut places, mut axes) = (Vec::new(), Vec::new(), Vec::new());
    for (d, &shape) in wanted.shape.iter().enumerate() {
        let (start, extent, at) = (&anchor.index[d], anchor.shape[d], wanted.at[d]);
        let moves = sources.atoms.moves(start);
        let same = wanted.known[d] == Some(start) && !moves && extent == shape;
        if same || (extent == 1 && shape == 1) {
            axes.push(Axis::Keep);
            if moves {
                places.push((start.clone(), at));
            }
        } else {
            axes.push(Axis::Window(windows.len()));
            let size = &sources.graph.tensors[source.tensor.index()].dims[d];
            let inside = wanted.inside[d].then(|| size.clone());
            windows.push(Window { start: start.clone(), extent, at, shape, dim: Some(d), low: wanted.low[d], inside });
        }
    }
    maker.rules.push(FuseRule::TileOfStore { tensor: name.to_owned(), shape: wanted.shape.to_vec() });
    let outer = windows.len();
    let value = source.seen.node.kernel.operand(source.store, "value")[0];
    let narrows = conversion(&source.seen.node.kernel, value).filter(|_| sources.allow >= Class::Reassoc);
    let (done, loops) = (BTreeMap::new(), Vec::new());
    let mut writer =
        Writer { sources, source, windows, outer, places, beyond: wanted.beyond.clone(), done, loops, pieced: None, narrows, depth: 0 };
    writer.tile(maker, value, &axes)
}

impl<'g> Writer<'_, 'g> {
    pub fn no<T>(&self, inst: Inst, why: &str) -> Result<T, Refusal> {
        let op = self.source.seen.node.kernel.insts[inst].op;
        Err(Refusal::new(RefusalKind::Shape, format!("`{op}` in `{}`: {why}", self.source.seen.node.name)))
    }

    /// Counts what is being followed.
    pub fn deeper(&mut self, maker: &Maker<'g>) -> Result<(), Refusal> {
        self.depth += 1;
        if self.depth > DEEPEST || maker.kernel.insts.len() > MOST_INSTS {
            let why = format!("`{}` is too large to be written again", self.source.seen.node.name);
            return Err(Refusal::new(RefusalKind::Shape, why));
        }
        Ok(())
    }

    pub fn back(&mut self) {
        self.depth -= 1;
    }

    pub fn extent(&self, axis: Axis, kept: u32) -> u32 {
        match axis {
            Axis::Keep => kept,
            Axis::Window(w) => self.windows[w].shape,
        }
    }

    /// The shape of what is wanted of a value.
    pub fn shape(&self, v: Value, axes: &[Axis]) -> Vec<u32> {
        let kept = self.source.seen.node.kernel.ty(v).shape().unwrap_or(&[]);
        axes.iter().zip(kept).map(|(&a, &k)| self.extent(a, k)).collect()
    }

    /// The elements of a value that are wanted.
    pub fn tile(&mut self, maker: &mut Maker<'g>, v: Value, axes: &[Axis]) -> Result<Value, Refusal> {
        let key = (v, axes.to_vec());
        if let Some(&new) = self.done.get(&key) {
            return Ok(new);
        }
        self.deeper(maker)?;
        let kernel = &self.source.seen.node.kernel;
        let new = match kernel.values[v].def {
            ValueDef::Result(inst, n) => self.result(maker, inst, n as usize, axes)?,
            ValueDef::RegionParam(region, n) => self.carried(maker, v, region, n as usize, axes)?,
            ValueDef::KernelParam(_) => {
                return Err(Refusal::new(RefusalKind::Shape, format!("{v} is no tile")));
            }
        };
        self.back();
        self.done.insert(key, new);
        Ok(new)
    }

    fn result(&mut self, maker: &mut Maker<'g>, inst: Inst, n: usize, axes: &[Axis]) -> Result<Value, Refusal> {
        let kernel = &self.source.seen.node.kernel;
        let d = &kernel.insts[inst];
        let result = d.results[n];
        let shape = self.shape(result, axes);
        let elem = kernel.ty(result).elem();
        let ty = Type::tile(&shape, elem);
        match (d.op, d.attrs.first()) {
            (Op::Load, _) => self.load(maker, inst, axes),
            (Op::For, _) => self.for_loop(maker, inst, n, axes),
            (Op::Gather, _) => self.gather(maker, inst, axes),
            (Op::Splat, _) => {
                let s = self.scalar(maker, d.args[0])?;
                maker.splat(s, &shape)
            }
            (Op::Iota, Some(Attr::Dim(axis))) => self.iota(maker, inst, *axis as usize, axes, None),
            (Op::Broadcast, _) => {
                let from = kernel.ty(d.args[0]).shape().unwrap_or(&[]);
                let to = kernel.ty(result).shape().unwrap_or(&[]);
                let inner: Vec<Axis> = (0..axes.len()).map(|k| if from[k] == to[k] { axes[k] } else { Axis::Keep }).collect();
                let x = self.tile(maker, d.args[0], &inner)?;
                if maker.kernel.ty(x).shape() == Some(&shape) { Ok(x) } else { maker.op(Op::Broadcast, &[x], &[], Some(&ty)) }
            }
            (Op::Transpose, Some(Attr::Perm(perm))) => {
                let mut inner = vec![Axis::Keep; axes.len()];
                for (k, &p) in perm.iter().enumerate() {
                    inner[p as usize] = axes[k];
                }
                let x = self.tile(maker, d.args[0], &inner)?;
                maker.op(Op::Transpose, &[x], &d.attrs, None)
            }
            (Op::Reshape, _) => {
                let found = self.reshaped(d.args[0], result, axes);
                let Some((inner, added)) = found else { return self.no(inst, "mixes the dimensions of a tile") };
                let x = self.tile(maker, d.args[0], &inner)?;
                if added.is_empty() {
                    return maker.op(Op::Reshape, &[x], &[], Some(&ty));
                }
                let narrow: Vec<u32> = shape.iter().enumerate().map(|(k, &e)| if added.contains(&k) { 1 } else { e }).collect();
                let x = maker.op(Op::Reshape, &[x], &[], Some(&Type::tile(&narrow, elem)))?;
                maker.op(Op::Broadcast, &[x], &[], Some(&ty))
            }
            (Op::Dot, _) => {
                let &[m, n] = axes else { return self.no(inst, "is of no matrices") };
                let a = self.tile(maker, d.args[0], &[m, Axis::Keep])?;
                let b = self.tile(maker, d.args[1], &[Axis::Keep, n])?;
                let c = self.tile(maker, d.args[2], axes)?;
                Ok(maker.results(d.op, &[a, b, c], d.present, &d.attrs, None)?[0])
            }
            (Op::DotScaled, _) => {
                let &[m, n] = axes else { return self.no(inst, "is of no matrices") };
                let rows = [[m, Axis::Keep]; 2].into_iter();
                let wanted = rows.chain([[Axis::Keep, n]; 2]).chain([[m, n]]);
                let tiles = d.args.iter().zip(wanted).map(|(&v, axes)| self.tile(maker, v, &axes)).collect::<Result<Vec<_>, _>>()?;
                Ok(maker.results(d.op, &tiles, d.present, &d.attrs, None)?[0])
            }
            (Op::Reduce, _) => self.reduce(maker, inst, axes),
            _ if kernel.is_elementwise(inst) || d.op == Op::Philox => self.elementwise(maker, inst, n, axes),
            _ if d.op.info().effects != Effects::Pure || !d.regions.is_empty() => self.no(inst, "can't be written at another tile"),
            _ => self.along(maker, inst, n, axes),
        }
    }

    /// Ops that mix elements along one dimension, which has to be kept, or along all.
    fn along(&mut self, maker: &mut Maker<'g>, inst: Inst, n: usize, axes: &[Axis]) -> Result<Value, Refusal> {
        let kernel = &self.source.seen.node.kernel;
        let d = &kernel.insts[inst];
        let mut inner = axes.to_vec();
        match (d.op.info().rule, d.attrs.last()) {
            (Rule::Scan | Rule::Sort | Rule::ArgSort | Rule::Flip, Some(Attr::Dim(a))) if axes.get(*a as usize) == Some(&Axis::Keep) => {}
            (Rule::ArgReduce, Some(Attr::Dim(a))) => inner.insert(*a as usize, Axis::Keep),
            _ if axes.iter().all(|&a| a == Axis::Keep) => {}
            _ => return self.no(inst, "mixes the elements of a tile"),
        }
        let mut args = Vec::new();
        for &a in &d.args {
            args.push(match kernel.ty(a).as_tile() {
                None => self.scalar(maker, a)?,
                Some(t) if t.shape.len() == inner.len() => self.tile(maker, a, &inner)?,
                Some(t) if axes.iter().all(|&a| a == Axis::Keep) => self.tile(maker, a, &vec![Axis::Keep; t.shape.len()])?,
                Some(_) => return self.no(inst, "mixes the elements of a tile"),
            });
        }
        let explicit = d.op.info().typed().then(|| kernel.ty(d.results[n]).clone());
        self.all(maker, inst, n, &args, explicit.as_ref(), axes)
    }

    /// Writes an instruction and remembers its other results, too.
    fn all(
        &mut self,
        maker: &mut Maker<'g>,
        inst: Inst,
        n: usize,
        args: &[Value],
        ty: Option<&Type>,
        axes: &[Axis],
    ) -> Result<Value, Refusal> {
        let d = &self.source.seen.node.kernel.insts[inst];
        let values = maker.results(d.op, args, d.present, &d.attrs, ty)?;
        for (&r, &value) in d.results.iter().zip(&values) {
            self.done.insert((r, axes.to_vec()), value);
        }
        Ok(values[n])
    }

    fn elementwise(&mut self, maker: &mut Maker<'g>, inst: Inst, n: usize, axes: &[Axis]) -> Result<Value, Refusal> {
        let kernel = &self.source.seen.node.kernel;
        let d = &kernel.insts[inst];
        if d.op == Op::Add {
            let made = |v: Value| kernel.def_inst(v).map(|i| &kernel.insts[i]);
            for (s, i) in [(0, 1), (1, 0)] {
                if let (Some(splat), Some(iota)) = (made(d.args[s]), made(d.args[i]))
                    && let (Op::Splat, Op::Iota, Some(Attr::Dim(axis))) = (splat.op, iota.op, iota.attrs.first())
                {
                    return self.iota(maker, inst, *axis as usize, axes, Some(splat.args[0]));
                }
            }
        }
        let mut args = Vec::new();
        for &a in &d.args {
            args.push(match kernel.ty(a) {
                Type::Scalar(_) => self.scalar(maker, a)?,
                _ => self.tile(maker, a, axes)?,
            });
        }
        let result = d.results[n];
        let elem = kernel.ty(result).elem();
        if let (Op::Cast, Some(wide)) = (d.op, maker.widened(args[0], elem)?) {
            return Ok(wide);
        }
        let explicit = d.op.info().typed().then(|| Type::tile(&self.shape(result, axes), elem));
        let value = self.all(maker, inst, n, &args, explicit.as_ref(), axes)?;
        if self.narrows == Some(inst) {
            maker.narrowed.insert(value);
        }
        Ok(value)
    }

    /// The index along an axis, plus a scalar.
    fn iota(&mut self, maker: &mut Maker<'g>, inst: Inst, axis: usize, axes: &[Axis], plus: Option<Value>) -> Result<Value, Refusal> {
        let kernel = &self.source.seen.node.kernel;
        let result = kernel.insts[inst].results[0];
        let (shape, elem) = (self.shape(result, axes), kernel.ty(result).elem());
        let steps = maker.op(Op::Iota, &[], &[Attr::Dim(axis as u32)], Some(&Type::tile(&shape, elem)))?;
        let (window, number) = match axes[axis] {
            Axis::Keep => (None, 0),
            Axis::Window(w) => {
                // How far the scalar is from the index of the tile's first element.
                let zero = Sum::number(0);
                let from = plus.map_or(Some(&zero), |p| self.source.seen.sums.get(&p));
                let Some(n) = from.and_then(|s| s.beyond(&self.windows[w].start)).filter(|_| elem == Scalar::I32) else {
                    return self.no(inst, "counts from another place than the tile's");
                };
                (Some(self.windows[w].at), n)
            }
        };
        let first = match (window, plus) {
            (Some(at), _) => at,
            (None, Some(p)) => self.scalar(maker, p)?,
            (None, None) => return Ok(steps),
        };
        let first = maker.plus(first, number)?;
        let first = maker.splat(first, &shape)?;
        maker.op(Op::Add, &[first, steps], &[], None)
    }

    /// What is wanted of the operand of a reshape that adds or drops extents of 1, and the dimensions that it adds along which a window is
    /// wanted: all elements there are the same, since the operand has no place along them.
    fn reshaped(&self, from: Value, to: Value, axes: &[Axis]) -> Option<(Vec<Axis>, Vec<usize>)> {
        let kernel = &self.source.seen.node.kernel;
        let (from, to) = (kernel.ty(from).shape()?, kernel.ty(to).shape()?);
        let (mut inner, mut added) = (vec![Axis::Keep; from.len()], Vec::new());
        let mut next = 0;
        for (k, &e) in to.iter().enumerate() {
            if e == 1 && axes[k] == Axis::Keep {
                continue;
            }
            if e == 1 && from.get(next) != Some(&1) {
                added.push(k);
                continue;
            }
            let at = (next..from.len()).find(|&j| from[j] == e)?;
            if from[next..at].iter().any(|&x| x != 1) {
                return None;
            }
            (inner[at], next) = (axes[k], at + 1);
        }
        from[next..].iter().all(|&x| x == 1).then_some((inner, added))
    }
}
