//! The kernel of a sink with its producers inside.

use super::super::access::Seen;
use super::super::maker::{Copier, Maker, joined_name};
use super::super::report::is_plain;
use super::super::report::{FuseRule, Refusal, RefusalKind};
use super::load::{forwarded, free, lies};
use super::source::Sources;
use super::writer::Wanted;
use crate::graph::nodes::{Graph, Node, TensorId};
use tilelift_egraph::Class;

/// What was made, and by which rules.
pub(in super::super) struct Inlined {
    pub node: Node,
    pub rules: Vec<FuseRule>,
}

/// A node with producers, given by number and tensor in program order, in the place of its loads.
pub(in super::super) fn inlined<'g>(
    graph: &'g Graph,
    sink: usize,
    producers: &[(usize, TensorId)],
    allow: Class,
) -> Result<Inlined, Refusal> {
    let mut sources = Sources::new(graph, sink, producers, allow)?;
    let node = &graph.nodes[sink];
    is_plain(node)?;
    let seen = Seen::new(graph, node, &mut sources.atoms);
    sources.read_by(&seen);
    let gone: Vec<TensorId> = producers.iter().map(|p| p.1).collect();
    let members = || producers.iter().map(|p| &graph.nodes[p.0]).chain([node]);
    let others: Vec<TensorId> =
        members().flat_map(|n| &n.args).filter_map(|a| a.tensor()).filter(|t| !t.1 && !gone.contains(&t.0)).map(|t| t.0).collect();
    let name = joined_name(members().map(|n| &n.kernel));
    let mut maker = Maker::new(graph, &name, gone, others);
    let mut copier = Copier::new(node);
    let mut change = |copier: &mut Copier<'g>, maker: &mut Maker<'g>, inst| {
        let kernel = &node.kernel;
        let access = seen.accesses.iter().find(|a| a.inst == inst);
        let Some((access, source)) = access.and_then(|a| Some((a, sources.of(a.tensor)?))) else { return Ok(false) };
        let Some(place) = access.place.as_ref().filter(|_| access.reads && !access.writes) else {
            let why = format!("`{}` reads `{}` by `{}`, not as tiles", node.name, sources.name(access.tensor), kernel.insts[inst].op);
            return Err(Refusal::new(RefusalKind::Place, why));
        };
        let at = copier.values(maker, kernel.operand(inst, "indices"))?;
        let mask = copier.values(maker, kernel.operand(inst, "mask"))?.first().copied();
        let other = copier.values(maker, kernel.operand(inst, "other"))?.first().copied();
        let low = place.index.iter().map(|s| !sources.atoms.not_negative(s, &node.grid)).collect();
        let extents = graph.extents(&graph.tensors[access.tensor.index()], place.flat);
        let tiles = place.index.iter().zip(&place.shape).zip(&extents);
        let inside: Vec<bool> = tiles.map(|((index, &tile), size)| lies(&sources, &seen, (index, tile), size)).collect();
        let free = free(&sources, &seen, inst, &inside, &vec![true; place.shape.len()]);
        let wanted = Wanted { at, shape: &place.shape, known: place.index.iter().map(Some).collect(), low, inside, beyond: Vec::new() };
        let tile = forwarded(&sources, source, maker, (wanted, place), (mask, other), &free)?;
        copier.map.insert(kernel.insts[inst].results[0], tile);
        Ok(true)
    };
    copier.body(&mut maker, &mut change)?;
    let Maker { mut kernel, args, rules, .. } = maker;
    kernel.hints = node.kernel.hints;
    let name = members().map(|n| n.name.as_str()).collect::<Vec<_>>().join(" + ");
    Ok(Inlined { node: Node { name, kernel, grid: node.grid.clone(), args }, rules })
}
