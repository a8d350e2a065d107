//! Widen: a loop that sums products piece by piece takes wider pieces, so that what is done once in each step is done less often.
//!
//! ```text
//! for j in 0..n step 64 { acc = dot p[.., j..j + 64], v[j..j + 64, ..], acc }  ─►  for j in 0..n step 128 { acc = dot p[.., j..j + 128], … }
//! ```
//!
//! Nothing of the loop but what it multiplies may go along the pieces, and both operands are loads as far as the tensors do: what a wider
//! last piece has beyond them is zero times zero. Producers that are then written in the place of such a load follow its tile.

use crate::graph::nodes::{Graph, Node};
use crate::graph::size::Size;
use std::collections::BTreeMap;
use tilelift_ir::{Attr, Cursor, Inst, Kernel, Literal, Op, Scalar, Type, Value};

/// The widest piece.
const WIDEST: u32 = 256;
/// Pieces are multiples of this: an operand of matrix instructions has rows by the eight, and half as many copies of it are under way.
const GRAIN: u32 = 32;

/// A loop that takes pieces.
pub(super) struct Pieces {
    main: Inst,
    /// How wide they are.
    pub step: u32,
    /// Values that are as wide as a piece, and along which dimension.
    wide: BTreeMap<Value, usize>,
}

impl Pieces {
    /// The only loop of a node that multiplies, if it takes pieces of both operands.
    pub fn of(graph: &Graph, node: &Node) -> Option<Pieces> {
        let kernel = &node.kernel;
        let body = &kernel.regions[kernel.body].insts;
        let multiplies = |i: Inst| kernel.insts[i].op.factors().is_some();
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
        let mut pieces = Pieces { main, step, wide: BTreeMap::new() };
        for &i in inside {
            pieces.follow(graph, node, i, (index, &end))?;
        }
        let takes = |&i: &Inst| multiplies(i) && kernel.insts[i].args.iter().any(|a| pieces.wide.contains_key(a));
        inside.iter().any(takes).then_some(pieces)
    }

    /// What an instruction of the loop makes of pieces; `None` if that is not known.
    fn follow(&mut self, graph: &Graph, node: &Node, inst: Inst, (index, end): (Value, &Size)) -> Option<()> {
        let kernel = &node.kernel;
        let d = &kernel.insts[inst];
        if !d.regions.is_empty() {
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
                (Op::Dot, _, &[Some(1), Some(0), None]) => return Some(()),
                _ => return None,
            }
        };
        self.wide.insert(d.results[0], axis);
        Some(())
    }

    /// Wider pieces that may be taken, the narrowest first.
    pub fn wider(&self) -> impl Iterator<Item = u32> + use<> {
        let step = self.step;
        (1..=WIDEST / GRAIN).map(|n| n * GRAIN).filter(move |&w| w > step && w <= 4 * step)
    }

    /// The node with pieces of another width.
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
