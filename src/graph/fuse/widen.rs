//! Widen: a loop that sums products over K tiles takes wider ones, so that what is done once in each step is done less often.
//!
//! ```text
//! for j in 0..n step 64 { acc = dot p[.., j..j + 64], v[j..j + 64, ..], acc }  ─►  for j in 0..n step 128 { acc = dot p[.., j..j + 128], … }
//! ```
//!
//! Half as many steps have to mean the same. So each value that the loop carries is a sum of such products that nobody else in the loop looks at, and the rest
//! of it is loads and pure ops that know nothing of what is carried. Both operands go along the K tile and are loads as far as the tensors do: what a
//! wider last one has beyond them is zero times zero. Producers that are then written in the place of such a load follow its tile.

use crate::graph::nodes::{Graph, Node};
use crate::graph::size::Size;
use std::collections::BTreeMap;
use tilelift_ir::{Attr, Cursor, Effects, Inst, Kernel, Literal, Op, Region, Scalar, Type, Value};

/// The widest K tile: one of scores is held in registers, and matrix instructions have no more columns.
const WIDEST: u32 = 256;
/// K tiles are multiples of this: fewer candidates than by the 16 that matrix instructions ask for, each of which is made and priced.
const GRAIN: u32 = 32;

/// A loop over K tiles.
pub(super) struct KLoop {
    main: Inst,
    /// Extent of a tile.
    pub step: u32,
    /// Values that have the tile's extent, and along which dimension.
    wide: BTreeMap<Value, usize>,
}

impl KLoop {
    /// The only loop of a node, if all that it does is to sum products over K tiles.
    pub fn of(graph: &Graph, node: &Node) -> Option<KLoop> {
        let kernel = &node.kernel;
        let body = &kernel.regions[kernel.body].insts;
        let mut loops = body.iter().copied().filter(|&i| kernel.insts[i].op == Op::For);
        let main = loops.next().filter(|_| loops.next().is_none())?;
        let d = &kernel.insts[main];
        let [lo, hi, step] = [d.args[0], d.args[1], d.args[2]];
        let number = |v: Value| match kernel.as_const(v)? {
            (Literal::Int(n), Scalar::I32) => u32::try_from(n).ok(),
            _ => None,
        };
        let (end, step) = (extent(graph, node, hi)?, number(step).filter(|_| number(lo) == Some(0))?);
        let region = *d.regions.first()?;
        let index = *kernel.regions[region].params.first()?;
        let inside = &kernel.regions[region].insts;
        let carried = &kernel.regions[region].params[1..];
        let mut found = KLoop { main, step, wide: BTreeMap::new() };
        for &i in inside.iter().filter(|&&i| kernel.insts[i].op != Op::Yield) {
            let d = &kernel.insts[i];
            let sum = d.args.iter().position(|a| carried.contains(a));
            match sum {
                Some(at) => found.sums(kernel, (region, carried), i, at)?,
                None => found.follow(graph, node, i, (index, &end))?,
            }
        }
        // All that is carried is such a sum.
        let sums = carried.iter().filter(|&&c| inside.iter().any(|&i| kernel.insts[i].op == Op::Dot && kernel.insts[i].args[2] == c));
        (!carried.is_empty() && sums.count() == carried.len()).then_some(found)
    }

    /// Whether an instruction that looks at a carried value adds a product over the K tile to it, which is what the next step carries.
    fn sums(&self, kernel: &Kernel, (region, carried): (Region, &[Value]), inst: Inst, at: usize) -> Option<()> {
        let d = &kernel.insts[inst];
        let place = carried.iter().position(|c| *c == d.args[at])?;
        let over = d.op == Op::Dot && at == 2 && self.wide.get(&d.args[0]) == Some(&1) && self.wide.get(&d.args[1]) == Some(&0);
        let result = *d.results.first()?;
        let inside = &kernel.regions[region].insts;
        let looks = |v: Value| inside.iter().filter(|&&i| kernel.insts[i].op != Op::Yield && kernel.insts[i].args.contains(&v)).count();
        let yields = kernel.yields(region);
        let next = yields.get(place) == Some(&result) && yields.iter().filter(|&&y| y == result || y == d.args[at]).count() == 1;
        (over && next && looks(result) == 0 && looks(d.args[at]) == 1).then_some(())
    }

    /// What an instruction of the loop makes of K tiles; `None` if that is not known, or if it does more than to compute.
    fn follow(&mut self, graph: &Graph, node: &Node, inst: Inst, (index, end): (Value, &Size)) -> Option<()> {
        let kernel = &node.kernel;
        let d = &kernel.insts[inst];
        let computes = matches!(d.op.info().effects, Effects::Pure | Effects::Reads);
        if !d.regions.is_empty() || !computes {
            return None;
        }
        let of: Vec<Option<usize>> = d.args.iter().map(|a| self.wide.get(a).copied()).collect();
        let shape = |v: Value| kernel.ty(v).shape().unwrap_or(&[]);
        let axis = if d.args.contains(&index) {
            if d.op != Op::Load {
                return None;
            }
            let along = kernel.operand(inst, "indices").iter().position(|&v| v == index)?;
            let once = d.args.iter().filter(|&&v| v == index).count() == 1;
            let whole = kernel.operand(inst, "mask").is_empty() && kernel.operand(inst, "other").is_empty();
            let there = end_of(graph, node, d.args[0], along).is_some_and(|e| e == *end);
            let fits = shape(d.results[0])[along] == self.step;
            Some(along).filter(|_| once && whole && there && fits)?
        } else if of.iter().all(Option::is_none) {
            return Some(());
        } else {
            match (d.op, d.attrs.first(), &of[..]) {
                (Op::Cast, _, &[Some(axis)]) => axis,
                (Op::Transpose, Some(Attr::Perm(perm)), &[Some(axis)]) => perm.iter().position(|&p| p as usize == axis)?,
                (Op::Reshape, _, &[Some(axis)]) => reshaped(shape(d.args[0]), shape(d.results[0]), axis)?,
                _ => return None,
            }
        };
        self.wide.insert(d.results[0], axis);
        Some(())
    }

    /// Wider K tiles that may be taken, the narrowest first.
    pub fn wider(&self) -> impl Iterator<Item = u32> + use<> {
        let step = self.step;
        (1..=WIDEST / GRAIN).map(|n| n * GRAIN).filter(move |&w| w > step && w <= 4 * step)
    }

    /// The node with K tiles of another extent.
    pub fn widened(&self, node: &Node, width: u32) -> Node {
        let mut node = node.clone();
        let kernel = &mut node.kernel;
        for (&v, &axis) in &self.wide {
            if let Type::Tile(tile) = &mut kernel.values[v].ty {
                tile.shape[axis] = width;
            }
        }
        let step = kernel.add_inst(Op::Const, &[], 0, &[Attr::Literal(Literal::Int(i64::from(width)))], &[], &[Type::Scalar(Scalar::I32)]);
        Cursor::start(kernel.body).insert(kernel, step);
        kernel.insts[self.main].args[2] = kernel.insts[step].results[0];
        node
    }
}

/// The extent that a scalar is: a number, or an extent of a tensor.
fn extent(graph: &Graph, node: &Node, v: Value) -> Option<Size> {
    let kernel = &node.kernel;
    if let Some((Literal::Int(n), Scalar::I32)) = kernel.as_const(v) {
        return u32::try_from(n).ok().map(Size::from);
    }
    let d = &kernel.insts[kernel.def_inst(v)?];
    match (d.op, d.attrs.first()) {
        (Op::Dim, Some(&Attr::Dim(k))) => end_of(graph, node, d.args[0], k as usize),
        _ => None,
    }
}

/// The extent of a view's tensor along a dimension.
fn end_of(graph: &Graph, node: &Node, view: Value, dim: usize) -> Option<Size> {
    let param = param(&node.kernel, view)?;
    let (id, flat) = node.args[param].tensor()?;
    graph.extents(&graph.tensors[id.index()], flat).into_iter().nth(dim)
}

fn param(kernel: &Kernel, v: Value) -> Option<usize> {
    kernel.params.iter().position(|&p| p == v)
}

/// Where a dimension is behind a reshape that adds or drops extents of 1.
fn reshaped(from: &[u32], to: &[u32], axis: usize) -> Option<usize> {
    let longer = |s: &[u32]| s.iter().copied().filter(|&e| e != 1).collect::<Vec<_>>();
    if longer(from) != longer(to) || from[axis] == 1 {
        return None;
    }
    let before = longer(&from[..axis]).len();
    to.iter().enumerate().filter(|(_, e)| **e != 1).nth(before).map(|(k, _)| k)
}
