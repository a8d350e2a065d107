//! What loads read outside of their tensors, where it does not matter: the same for all loads of a tensor, so that loads of one tile are one.
//!
//! ```text
//! load x[r, c], other=-inf          its maximum needs it                   load x[r, c], other=-inf
//! load x[r, c]                      select(c < n, exp(x - m), 0)     ─►    load x[r, c], other=-inf
//! ```
//!
//! Producers that pointwise kernels were written into read zeros, and what follows is masked.

use super::access::{Access, Place, Seen};
use super::atoms::Atoms;
use super::demand::dropped;
use super::maker::{Copier, Maker};
use super::report::{Refusal, is_plain};
use super::tiles::fits;
use crate::graph::nodes::{Graph, Node};
use std::collections::BTreeMap;
use tilelift_ir::{Inst, Literal, Op};

/// What a load reads outside.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Other {
    /// What it reads where nothing is said.
    Zero,
    Is(Literal),
}

/// The node with one `other` for all loads of a tensor in tiles of one shape that may have any.
pub(super) fn alike(graph: &Graph, node: Node) -> Node {
    let made = changed(graph, &node);
    match made {
        Some(Ok(new)) => new,
        _ => node,
    }
}

fn changed(graph: &Graph, node: &Node) -> Option<Result<Node, Refusal>> {
    if is_plain(node).is_err() {
        return None;
    }
    let mut atoms = Atoms::default();
    let seen = Seen::new(graph, node, &mut atoms);
    let kernel = &node.kernel;
    let plain = |a: &&Access| kernel.insts[a.inst].op == Op::Load && !a.masked;
    let loads: Vec<(&Access, &Place, Other)> =
        seen.accesses.iter().filter(plain).filter_map(|a| Some((a, a.place.as_ref()?, other(node, a.inst)?))).collect();
    // Loads of one tensor in tiles of one shape that read different things outside.
    let twin = |a: &Access, p: &Place, o: Other| {
        loads.iter().any(|(b, q, r)| b.tensor == a.tensor && q.shape == p.shape && q.flat == p.flat && *r != o)
    };
    let mut some: BTreeMap<Inst, bool> = BTreeMap::new();
    for (a, p, _) in loads.iter().filter(|(a, p, o)| twin(a, p, *o)) {
        some.insert(a.inst, free(graph, &seen, &atoms, a, p));
    }
    let mut new: BTreeMap<Inst, Other> = BTreeMap::new();
    for (a, p, o) in loads.iter().filter(|l| some.get(&l.0.inst) == Some(&true)) {
        let here = |l: &&(&Access, &Place, Other)| l.0.tensor == a.tensor && l.1.shape == p.shape && l.1.flat == p.flat;
        // That of a load to which it matters, else that of the first one.
        let needed = loads.iter().filter(here).find(|l| some.get(&l.0.inst) == Some(&false));
        if let Some(l) = needed.or_else(|| loads.iter().find(here)).filter(|l| l.2 != *o) {
            new.insert(a.inst, l.2);
        }
    }
    (!new.is_empty()).then(|| with(graph, node, &new))
}

/// What a load reads outside, if that is a literal.
fn other(node: &Node, load: Inst) -> Option<Other> {
    match node.kernel.operand(load, "other").first() {
        None => Some(Other::Zero),
        Some(&v) => node.kernel.as_const(v).map(|(l, _)| Other::Is(l)),
    }
}

/// Whether it does not matter what a load reads outside: no program does, or nothing that follows is ever stored.
fn free(graph: &Graph, seen: &Seen<'_>, atoms: &Atoms, access: &Access, place: &Place) -> bool {
    let extents = graph.extents(&graph.tensors[access.tensor.index()], place.flat);
    let mut all = extents.iter().zip(place.index.iter().zip(&place.shape)).enumerate();
    all.all(|(d, (size, (index, &tile)))| {
        fits(atoms, &seen.node.grid, (index, tile), size, graph.divisor(size)) || dropped(graph, (seen, atoms), access.inst, d)
    })
}

fn with<'g>(graph: &'g Graph, node: &'g Node, new: &BTreeMap<Inst, Other>) -> Result<Node, Refusal> {
    let mut maker = Maker::new(graph, &node.kernel.name, Vec::new(), Vec::new());
    let mut copier = Copier::new(node);
    let mut change = |copier: &mut Copier<'g>, maker: &mut Maker<'g>, inst: Inst| {
        let Some(other) = new.get(&inst) else { return Ok(false) };
        let d = &node.kernel.insts[inst];
        let result = d.results[0];
        let ty = node.kernel.ty(result);
        let mut args = copier.values(maker, &d.args[..1])?;
        args.extend(copier.values(maker, node.kernel.operand(inst, "indices"))?);
        let mut present = 0;
        if let Other::Is(l) = other {
            args.push(maker.literal(*l, ty.elem()));
            present = 0b1000;
        }
        let value = maker.results(Op::Load, &args, present, &d.attrs, Some(ty))?[0];
        copier.map.insert(result, value);
        Ok(true)
    };
    copier.body(&mut maker, &mut change)?;
    let Maker { mut kernel, args, .. } = maker;
    kernel.hints = node.kernel.hints;
    Ok(Node { name: node.name.clone(), kernel, grid: node.grid.clone(), args })
}
