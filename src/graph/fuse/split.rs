//! Splits a row-wise kernel in two, so that the second is pointwise.
//!
//! ```text
//! norm:      s = fold(x) along the row ; store t, f(x, s)
//! folds:     s = fold(x) along the row ; store s          a number per row instead of a row
//! pointwise: load s ; store t, f(x, s)                    which goes in front of a product, at the product's tiles
//! ```
//!
//! The folds are stored with the element type that they have, so the bits of T stay.

use super::access::Seen;
use super::atoms::Atoms;
use super::maker::{Copier, Maker};
use super::report::{Refusal, RefusalKind};
use super::retile::{Retile, Target};
use crate::graph::nodes::{Graph, Node, Role, Tensor, TensorId, uses};
use crate::graph::size::Size;
use std::collections::BTreeSet;
use tilelift_ir::ops::Rule;
use tilelift_ir::{Inst, Kernel, Literal, Op, Scalar, Value};

/// A fold whose results are stored: the instruction, the tensor, and the index in T's store of each of its dimensions.
struct Fold {
    inst: Inst,
    tensor: TensorId,
    at: Vec<Option<Value>>,
}

/// The graph with node `p` in two: the folds at `p`, the rest at `p + 1`. The tensors between them are its last ones.
pub(crate) fn split(graph: &Graph, p: usize, tensor: TensorId) -> Result<Graph, Refusal> {
    super::report::is_plain(&graph.nodes[p])?;
    let node = &graph.nodes[p];
    let kernel = &node.kernel;
    let no = |why: &str| Refusal::new(RefusalKind::Shape, format!("`{}` can't be split: {why}", node.name));
    let writes_more = node.args.iter().filter_map(|a| a.tensor()).any(|(t, _)| t != tensor && uses(node, t).writes);
    if writes_more || uses(node, tensor).reads {
        return Err(no("it changes more than one tensor, or one in place"));
    }
    let mut atoms = Atoms::default();
    let seen = Seen::new(graph, node, &mut atoms);
    let mut stores = seen.of(tensor).filter_map(|a| Some((a, a.place.as_ref()?)));
    let (Some((store, place)), None) = (stores.next(), stores.next()) else { return Err(no("it does not store one tile")) };
    if !store.outermost || store.masked {
        return Err(no("it stores under a mask or in a loop"));
    }
    // Written at its own place, to learn how the folds lie to the tile.
    let mut scratch = Maker::new(graph, "scratch", vec![tensor], others(node, tensor));
    let at = place.index.iter().map(|_| scratch.literal(Literal::Int(0), Scalar::I32)).collect();
    let target = Target { place, grid: &node.grid, at, tiles: Vec::new(), mask: None };
    let mut retile = Retile::new(&scratch, (&seen, &atoms), (tensor, place), target, false)?;
    retile.write(&mut scratch)?;

    let mut trial = graph.clone();
    let dims = &graph.tensors[tensor.index()].dims;
    let indices = kernel.operand(store.inst, "indices");
    let mut folds = Vec::new();
    for inst in needed(kernel, store.inst) {
        let result = kernel.insts[inst].results[0];
        let tags = retile.aligned(result).ok_or_else(|| no("a fold of equal elements"))?;
        let id = TensorId(trial.tensors.len() as u32);
        let extents: Vec<Size> = tags.iter().map(|t| t.map_or_else(|| Size::from(1), |d| dims[d].clone())).collect();
        if long(&extents).eq(long(dims)) {
            return Err(no("a fold has as many elements as what is stored"));
        }
        let name = format!("{}.{}", node.name, kernel.insts[inst].op);
        trial.tensors.push(Tensor { name, elem: kernel.ty(result).elem(), dims: extents, strides: None, role: Role::Intermediate });
        folds.push(Fold { inst, tensor: id, at: tags.iter().map(|t| t.map(|d| indices[d])).collect() });
    }
    if folds.is_empty() {
        return Err(no("it folds nothing"));
    }
    let first = first(&trial, node, tensor, store.inst, &folds)?;
    let second = second(&trial, node, &folds)?;
    trial.nodes[p] = first;
    trial.nodes.insert(p + 1, second);
    Ok(trial)
}

/// Extents other than 1.
fn long(dims: &[Size]) -> impl Iterator<Item = &Size> {
    dims.iter().filter(|s| s.fixed() != Some(1))
}

fn others(node: &Node, tensor: TensorId) -> Vec<TensorId> {
    node.args.iter().filter_map(|a| a.tensor()).filter(|(t, flat)| *t != tensor && !flat).map(|(t, _)| t).collect()
}

/// The folds that the stored tile follows from without another fold in between.
fn needed(kernel: &Kernel, store: Inst) -> BTreeSet<Inst> {
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut todo = kernel.operand(store, "value").to_vec();
    while let Some(v) = todo.pop() {
        let Some(i) = kernel.def_inst(v).filter(|&i| seen.insert(i)) else { continue };
        match kernel.insts[i].op.info().rule {
            Rule::Reduce | Rule::ArgReduce => {
                found.insert(i);
            }
            _ => todo.extend(&kernel.insts[i].args),
        }
    }
    found
}

/// Index values of a fold in a copy; dimensions of extent 1 are at 0.
fn index<'g>(copier: &mut Copier<'g>, maker: &mut Maker<'g>, fold: &Fold) -> Result<Vec<Value>, Refusal> {
    let mut all = Vec::new();
    for at in &fold.at {
        all.push(match at {
            Some(v) => copier.value(maker, *v)?,
            None => maker.literal(Literal::Int(0), Scalar::I32),
        });
    }
    Ok(all)
}

fn finish(maker: Maker<'_>, like: &Node, name: String) -> Node {
    let Maker { mut kernel, args, .. } = maker;
    kernel.hints = like.kernel.hints;
    Node { name, kernel, grid: like.grid.clone(), args }
}

/// The folds, stored in the place of T's tile.
fn first<'g>(trial: &'g Graph, node: &'g Node, tensor: TensorId, store: Inst, folds: &[Fold]) -> Result<Node, Refusal> {
    let mut maker = Maker::new(trial, &format!("{}_folds", node.kernel.name), vec![tensor], others(node, tensor));
    let mut copier = Copier::new(node);
    let mut change = |copier: &mut Copier<'g>, maker: &mut Maker<'g>, inst: Inst| {
        if inst != store {
            return Ok(false);
        }
        for fold in folds {
            let value = copier.value(maker, node.kernel.insts[fold.inst].results[0])?;
            let mut args = vec![maker.view(fold.tensor, false)?];
            args.extend(index(copier, maker, fold)?);
            args.push(value);
            maker.results(Op::Store, &args, 0, &node.kernel.insts[store].attrs, None)?;
        }
        Ok(true)
    };
    copier.body(&mut maker, &mut change)?;
    Ok(finish(maker, node, format!("{} (folds)", node.name)))
}

/// The rest, with loads in the place of the folds.
fn second<'g>(trial: &'g Graph, node: &'g Node, folds: &[Fold]) -> Result<Node, Refusal> {
    let mut maker = Maker::new(trial, &node.kernel.name, Vec::new(), Vec::new());
    let mut copier = Copier::new(node);
    let mut change = |copier: &mut Copier<'g>, maker: &mut Maker<'g>, inst: Inst| {
        let Some(fold) = folds.iter().find(|f| f.inst == inst) else { return Ok(false) };
        let result = node.kernel.insts[inst].results[0];
        let mut args = vec![maker.view(fold.tensor, false)?];
        args.extend(index(copier, maker, fold)?);
        let attrs = [tilelift_ir::Attr::Cache(tilelift_ir::CacheHint::Normal)];
        let value = maker.results(Op::Load, &args, 0, &attrs, Some(node.kernel.ty(result)))?[0];
        copier.map.insert(result, value);
        Ok(true)
    };
    copier.body(&mut maker, &mut change)?;
    Ok(finish(maker, node, node.name.clone()))
}
