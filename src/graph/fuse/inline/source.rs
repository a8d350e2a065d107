//! Producers that may be written again somewhere else, and what is proven of them first.

use super::super::access::{Place, Seen};
use super::super::atoms::{Atoms, Sum};
use super::super::report::{Refusal, RefusalKind, is_plain};
use super::super::tiles::tiling;
use crate::graph::nodes::{Graph, Node, Role, TensorId, uses};
use crate::graph::size::Size;
use tilelift_egraph::Class;
use tilelift_ir::ops::Rule;
use tilelift_ir::{Inst, Op};

/// A kernel and the one store by which it makes a tensor.
pub(super) struct Source<'g> {
    pub seen: Seen<'g>,
    pub tensor: TensorId,
    pub store: Inst,
    /// The tile that it stores.
    pub anchor: Place,
    /// Dimensions along which the tensor is read to its end. If nobody else writes it, what the producer stores reaches so far, since
    /// reading what nobody wrote is an error.
    pub whole: Vec<bool>,
    /// Nobody else writes it.
    sole: bool,
}

/// The producers of a set, and what may be done to them.
pub(super) struct Sources<'g> {
    pub graph: &'g Graph,
    pub atoms: Atoms,
    pub all: Vec<Source<'g>>,
    /// What rules may change of results.
    pub allow: Class,
}

fn no<T>(kind: RefusalKind, why: String) -> Result<T, Refusal> {
    Err(Refusal::new(kind, why))
}

impl<'g> Sources<'g> {
    /// Looks at producers, given by number and tensor, that shall be written again in a later node.
    pub fn new(graph: &'g Graph, sink: usize, producers: &[(usize, TensorId)], allow: Class) -> Result<Sources<'g>, Refusal> {
        let mut sources = Sources { graph, atoms: Atoms::default(), all: Vec::new(), allow };
        for &(node, tensor) in producers {
            moves(graph, node, sink, tensor)?;
            let source = sources.source(node, tensor)?;
            sources.all.push(source);
        }
        Ok(sources)
    }

    /// True if a sum is this extent.
    pub fn is_size(&self, sum: &Sum, size: &Size) -> bool {
        is_size(&self.atoms, sum, size)
    }

    pub fn name(&self, id: TensorId) -> &'g str {
        &self.graph.tensors[id.index()].name
    }

    /// The producer of a tensor.
    pub fn of(&self, id: TensorId) -> Option<&Source<'g>> {
        self.all.iter().find(|s| s.tensor == id)
    }

    fn source(&mut self, node: usize, tensor: TensorId) -> Result<Source<'g>, Refusal> {
        let graph = self.graph;
        let node: &'g Node = &graph.nodes[node];
        let name = self.name(tensor);
        is_plain(node)?;
        let mut tells = None;
        node.kernel.walk(node.kernel.body, &mut |i| {
            let op = node.kernel.insts[i].op;
            tells = tells.or(matches!(op.info().rule, Rule::Assert | Rule::Print).then_some(op));
        });
        if let Some(op) = tells {
            return no(RefusalKind::Shape, format!("`{op}` in `{}` would be left out", node.name));
        }
        let seen = Seen::new(graph, node, &mut self.atoms);
        let stores: Vec<_> = seen.of(tensor).cloned().collect();
        let [access] = &stores[..] else {
            return no(RefusalKind::Place, format!("`{}` accesses `{name}` at several places", node.name));
        };
        let Some(anchor) = access.place.clone().filter(|p| access.writes && !access.reads && !p.flat) else {
            return no(RefusalKind::Place, format!("`{}` does not write `{name}` as a tile", node.name));
        };
        if access.masked {
            return no(RefusalKind::Place, format!("`{}` stores `{name}` under a mask", node.name));
        }
        let t = &graph.tensors[tensor.index()];
        // An element that nobody wrote may not be read, so that all that is read is what the only writer wrote.
        let sole = t.role == Role::Intermediate && graph.nodes.iter().filter(|n| uses(n, tensor).writes).count() == 1;
        let covers = || access.outermost && tiling(&self.atoms, &node.grid, &anchor, &graph.extents(t, false)).covers;
        if !(sole || covers()) {
            return no(RefusalKind::Coverage, format!("`{name}` is not known to be written by `{}` everywhere", node.name));
        }
        let store = access.inst;
        let whole = vec![false; anchor.shape.len()];
        Ok(Source { seen, tensor, store, anchor, whole, sole })
    }

    /// Looks at how the sink reads the tensors.
    pub fn read_by(&mut self, sink: &Seen<'_>) {
        let graph = self.graph;
        for source in self.all.iter_mut().filter(|s| s.sole) {
            let dims = &graph.tensors[source.tensor.index()].dims;
            for access in sink.of(source.tensor).filter(|a| a.reads && !a.masked) {
                let Some(place) = access.place.as_ref().filter(|p| !p.flat) else { continue };
                for (d, whole) in source.whole.iter_mut().enumerate() {
                    let there = place.index.get(d).zip(dims.get(d));
                    *whole |= there.is_some_and(|(index, size)| runs(&self.atoms, sink, access.inst, (index, place.shape[d]), size));
                }
            }
        }
    }
}

/// Whether a node's loads give later, in the sink's place, what they give in its own.
fn moves(graph: &Graph, node: usize, sink: usize, tensor: TensorId) -> Result<(), Refusal> {
    let nodes = &graph.nodes;
    let (p, s) = (&nodes[node], &nodes[sink]);
    for (id, _) in p.args.iter().filter_map(|a| a.tensor()) {
        let (own, name) = (uses(p, id), &graph.tensors[id.index()].name);
        if let Some(between) = nodes[node + 1..sink].iter().find(|n| (own.reads || id == tensor) && uses(n, id).writes) {
            let why = format!("`{}` writes `{name}` between `{}` and `{}`", between.name, p.name, s.name);
            return no(RefusalKind::Order, why);
        }
        if (own.reads || id == tensor) && uses(s, id).writes {
            return no(RefusalKind::Hazard, format!("`{}` writes `{name}`, which `{}` accesses", s.name, p.name));
        }
        if own.reads && own.writes {
            return no(RefusalKind::Hazard, format!("`{}` changes `{name}` in place", p.name));
        }
    }
    Ok(())
}

/// Whether all producers of a set may run where the sink is.
pub(in super::super) fn in_order(graph: &Graph, sink: usize, producers: &[(usize, TensorId)]) -> Result<(), Refusal> {
    producers.iter().try_for_each(|&(node, tensor)| moves(graph, node, sink, tensor))
}

fn is_size(atoms: &Atoms, sum: &Sum, size: &Size) -> bool {
    match size.fixed() {
        Some(n) => sum.as_number() == Some(n as i32),
        None => atoms.is_size(sum, size),
    }
}

/// True if a load stands in a loop that each program runs, and its index is that of the loop, from 0 to an extent, in steps of a tile at most.
fn runs(atoms: &Atoms, seen: &Seen<'_>, load: Inst, (index, tile): (&Sum, u32), size: &Size) -> bool {
    let kernel = &seen.node.kernel;
    kernel.regions[kernel.body].insts.iter().filter(|&&i| kernel.insts[i].op == Op::For).any(|&i| {
        let d = &kernel.insts[i];
        let Some(body) = d.regions.first().map(|&r| &kernel.regions[r]).filter(|r| r.insts.contains(&load)) else { return false };
        let bound = |k: usize| d.args.get(k).and_then(|v| seen.sums.get(v));
        body.params.first().and_then(|v| seen.sums.get(v)) == Some(index)
            && bound(0).and_then(Sum::as_number) == Some(0)
            && bound(2).and_then(Sum::as_number).is_some_and(|n| n > 0 && n as u32 <= tile)
            && bound(1).is_some_and(|s| is_size(atoms, s, size))
    })
}
