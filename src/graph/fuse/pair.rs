//! Three ways to make one kernel of a producer P and a consumer C of a tensor T.
//!
//! ```text
//! epilogue   C is pointwise in the tile of T that P stores: C is written again at P's stores, at P's tile      grid of P
//! prologue   P is pointwise in the tile of T that it stores: P is written again at C's loads, at C's tile      grid of C
//! same tile  programs of one grid store and load the same tile of T: C's body follows P's                     grid of both
//! ```
//!
//! The tile that P would have stored has T's element type, so what C computes with is the same bit for bit, unless T is stored no more and
//! roundings may change: then C may compute with what P had in front of that conversion. A load reads `other` outside
//! of T, so the tile is masked there unless C is pointwise or drops what follows from such elements.
//!
//! What the fused programs do to other tensors must not meet: programs have no order among each other any more.

use super::access::{Access, Place, Seen, Shared};
use super::atoms::Atoms;
use super::demand::dropped;
use super::maker::{Copier, Maker, joined_name};
use super::report::{Refusal, RefusalKind, is_plain};
use super::retile::{Retile, Target};
use super::tiles::{Tiling, fits, tiling};
use crate::graph::nodes::{Graph, Node, Role, TensorId, uses};
use tilelift_egraph::Class;
use tilelift_ir::{Hints, Kernel, Op, Value};

/// A producer and a consumer of a tensor.
pub(crate) struct Pair<'g> {
    pub(super) graph: &'g Graph,
    pub(super) tensor: TensorId,
    pub(super) atoms: Atoms,
    pub(super) producer: Seen<'g>,
    pub(super) consumer: Seen<'g>,
    /// Somebody else looks at what the producer stores.
    wanted: bool,
    /// Every element that the consumer reads is known to be the producer's.
    sole: bool,
    /// What may change of results.
    allow: Class,
}

impl<'g> Pair<'g> {
    pub fn new(graph: &'g Graph, (producer, consumer, tensor): (usize, usize, TensorId), allow: Class) -> Pair<'g> {
        let mut atoms = Atoms::default();
        let nodes = &graph.nodes;
        let p = Seen::new(graph, &nodes[producer], &mut atoms);
        let c = Seen::new(graph, &nodes[consumer], &mut atoms);
        let role = graph.tensors[tensor.index()].role;
        let others = nodes.iter().enumerate().any(|(n, node)| n > producer && n != consumer && uses(node, tensor).reads);
        let writers = nodes.iter().filter(|n| uses(n, tensor).writes).count();
        let writers = writers - usize::from(uses(&nodes[consumer], tensor).writes);
        // An element that nobody wrote may not be read, so that all that is read is what the only writer wrote.
        let sole = role == Role::Intermediate && writers == 1;
        Pair { graph, tensor, atoms, producer: p, consumer: c, wanted: others || role.is_seen(), sole, allow }
    }

    /// Refuses kernels whose authors say who does what: there is no place for another kernel's work.
    fn plain(&self) -> Result<(), Refusal> {
        [self.producer.node, self.consumer.node].into_iter().try_for_each(is_plain)
    }

    pub(super) fn name(&self, id: TensorId) -> &'g str {
        &self.graph.tensors[id.index()].name
    }

    fn tiling(&self, node: &Node, id: TensorId, place: &Place) -> Tiling {
        let extents = self.graph.extents(&self.graph.tensors[id.index()], place.flat);
        tiling(&self.atoms, &node.grid, place, &extents)
    }

    /// True if the consumer stores new elements everywhere in T.
    fn overwritten(&self) -> bool {
        let covers = |a: &Access| a.place.as_ref().is_some_and(|p| self.tiling(self.consumer.node, self.tensor, p).covers);
        self.consumer.of(self.tensor).any(|a| a.writes && !a.reads && !a.masked && a.outermost && covers(a))
    }

    /// True if the producer may look at T after it stored there.
    fn reread(&self) -> bool {
        let all: Vec<&Access> = self.producer.of(self.tensor).collect();
        let first = all.iter().position(|a| a.writes).unwrap_or(all.len());
        all.iter().enumerate().any(|(n, a)| a.reads && (n > first || !a.outermost))
    }

    /// Whether all that the consumer reads of T is the producer's: it stores nothing there before it has read all.
    fn reads_first(&self) -> Result<(), Refusal> {
        let all: Vec<&Access> = self.consumer.of(self.tensor).collect();
        let last = all.iter().rposition(|a| a.reads).unwrap_or(0);
        if all.iter().enumerate().any(|(n, a)| a.writes && (n <= last || !a.outermost)) {
            let why = format!("`{}` may read elements of `{}` that it stored", self.consumer.node.name, self.name(self.tensor));
            return self.refuse(RefusalKind::Hazard, why);
        }
        Ok(())
    }

    pub(super) fn refuse<T>(&self, kind: RefusalKind, why: String) -> Result<T, Refusal> {
        Err(Refusal::new(kind, why))
    }

    /// The tensor's stores in the producer, all with a place.
    fn stores(&self) -> Result<Vec<(&Access, &Place)>, Refusal> {
        let mut all = Vec::new();
        for a in self.producer.of(self.tensor).filter(|a| a.writes) {
            match &a.place {
                Some(p) if !a.reads => all.push((a, p)),
                _ => {
                    let op = self.producer.node.kernel.insts[a.inst].op;
                    return self.refuse(
                        RefusalKind::Place,
                        format!("`{}` writes `{}` by `{op}`, not as tiles", self.producer.node.name, self.name(self.tensor)),
                    );
                }
            }
        }
        Ok(all)
    }

    /// The tensor's loads in the consumer, all with a place.
    fn loads(&self) -> Result<Vec<(&Access, &Place)>, Refusal> {
        let mut all = Vec::new();
        for a in self.consumer.of(self.tensor).filter(|a| a.reads) {
            match &a.place {
                Some(p) => all.push((a, p)),
                None => {
                    let op = self.consumer.node.kernel.insts[a.inst].op;
                    return self.refuse(
                        RefusalKind::Place,
                        format!("`{}` reads `{}` by `{op}`, not as tiles", self.consumer.node.name, self.name(self.tensor)),
                    );
                }
            }
        }
        Ok(all)
    }

    /// Whether what both kernels do to tensors other than T may run program by program. `moved` says whose accesses are written again
    /// and from where, `place` says where to; its tiling, whether the programs' places have no element in common.
    /// What is handed on inside of the programs meets nobody.
    fn meets(&self, moved: Option<(&Seen<'g>, &Place)>, place: Option<(&Place, Tiling)>, shared: &[Shared]) -> Result<(), Refusal> {
        for (id, _) in self.producer.node.args.iter().filter_map(|a| a.tensor()) {
            if id == self.tensor || shared.iter().any(|s| s.tensor == id) {
                continue;
            }
            let (p, c) = (uses(self.producer.node, id), uses(self.consumer.node, id));
            if p.writes && c.reads {
                return self.refuse(
                    RefusalKind::Hazard,
                    format!("`{}` reads `{}`, too, which `{}` writes", self.consumer.node.name, self.name(id), self.producer.node.name),
                );
            }
            if !(c.writes && (p.reads || p.writes)) {
                continue;
            }
            let same = match (moved, place) {
                // The places of both are known: all of them have to be one, whose tiles lie apart.
                (None, _) => {
                    let mut all = self.producer.of(id).chain(self.consumer.of(id));
                    let first = all.next().and_then(|a| a.place.as_ref());
                    first.is_some_and(|f| all.all(|a| a.place.as_ref() == Some(f)) && self.tiling(self.producer.node, id, f).apart)
                }
                // Those of the moved kernel that are at its anchor will be at the place; those of the other have to be there.
                (Some((moved, anchor)), Some((place, Tiling { apart, .. }))) => {
                    let other = if std::ptr::eq(moved, &self.producer) { &self.consumer } else { &self.producer };
                    let there = |a: &Access| a.outermost && a.place.as_ref() == Some(place);
                    apart && self.anchored(moved, anchor, id) && other.of(id).all(there) && self.in_order(other, id)
                }
                (Some(_), None) => false,
            };
            if !same {
                return self.refuse(
                    RefusalKind::Hazard,
                    format!(
                        "`{}` writes `{}`, which `{}` accesses: fused programs would meet there",
                        self.consumer.node.name,
                        self.name(id),
                        self.producer.node.name
                    ),
                );
            }
        }
        Ok(())
    }

    /// True if a kernel accesses a tensor at its anchor in T only, and the tensor has T's extents.
    fn anchored(&self, seen: &Seen<'g>, anchor: &Place, id: TensorId) -> bool {
        let dims = |t: TensorId| &self.graph.tensors[t.index()].dims;
        dims(id) == dims(self.tensor) && seen.of(id).all(|a| a.place.as_ref() == Some(anchor))
    }

    /// True if accesses of a tensor in the kernel that stays keep their side of the only access of T, where the other kernel is put:
    /// the producer's stand before it, and what the consumer does to the tensor is done behind it.
    fn in_order(&self, stays: &Seen<'g>, id: TensorId) -> bool {
        let consumer = std::ptr::eq(stays, &self.consumer);
        let at = stays.accesses.iter().position(|a| a.tensor == self.tensor && if consumer { a.reads } else { a.writes });
        let Some(at) = at else { return false };
        stays.accesses.iter().enumerate().filter(|(_, a)| a.tensor == id).all(|(n, a)| if consumer { n > at || !a.writes } else { n < at })
    }

    /// Whether a kernel that is written again may keep changing tensors in place: no element may be computed twice, or by one program
    /// and looked at by another.
    fn changes(&self, moved: &Seen<'g>, anchor: &Place, to: &Node, apart: bool) -> Result<(), Refusal> {
        for (id, _) in moved.node.args.iter().filter_map(|a| a.tensor()) {
            let all = uses(moved.node, id);
            if id != self.tensor && all.reads && all.writes && !(apart && self.anchored(moved, anchor, id)) {
                let why = format!("`{}` changes `{}` in place, and tiles of `{}` may overlap", moved.node.name, self.name(id), to.name);
                return self.refuse(RefusalKind::Hazard, why);
            }
        }
        Ok(())
    }

    /// A tile that the producer would have stored is what it was before it got the tensor's element type, where that rounding may be left out.
    fn unrounded(&self, maker: &mut Maker<'g>, keep: bool, tile: Value) {
        if self.allow >= Class::Reassoc && !keep {
            maker.narrows(tile);
        }
    }

    fn maker(&self, keep: bool, shared: &[Shared]) -> Maker<'g> {
        let (p, c) = (self.producer.node, self.consumer.node);
        let stays = keep || uses(p, self.tensor).reads || uses(c, self.tensor).writes;
        let gone: Vec<TensorId> =
            (!stays).then_some(self.tensor).into_iter().chain(shared.iter().filter(|s| !s.keep).map(|s| s.tensor)).collect();
        let all = p.args.iter().chain(&c.args).filter_map(|a| a.tensor()).filter(|t| !t.1 && t.0 != self.tensor).map(|t| t.0);
        let others = all.filter(|t| !gone.contains(t)).collect();
        let name = joined_name([&p.kernel, &c.kernel].into_iter());
        Maker::new(self.graph, &name, gone, others)
    }

    fn finish(&self, maker: Maker<'g>, like: &Node, hints: Hints) -> Node {
        let Maker { mut kernel, args, .. } = maker;
        kernel.hints = hints;
        let name = format!("{} + {}", self.producer.node.name, self.consumer.node.name);
        Node { name, kernel, grid: like.grid.clone(), args }
    }

    /// True if somebody else looks at what the producer stores.
    pub fn wanted(&self) -> bool {
        self.wanted
    }

    /// The consumer on the producer's tiles, or on pieces of them where it needs tiles as its own.
    pub fn epilogue(&self) -> Result<Node, Refusal> {
        let whole = self.epilogue_by(None);
        let Err(why) = &whole else { return whole };
        if why.kind != RefusalKind::Shape {
            return whole;
        }
        let rank = self.loads().ok().and_then(|l| l.first().map(|(_, p)| p.shape.len())).unwrap_or(0);
        (0..rank).rev().find_map(|d| self.epilogue_by(Some(d)).ok()).map_or(whole, Ok)
    }

    /// The same, with the producer's tiles cut along a dimension.
    fn epilogue_by(&self, cut: Option<usize>) -> Result<Node, Refusal> {
        self.plain()?;
        let (stores, loads) = (self.stores()?, self.loads()?);
        let (p, c) = (self.producer.node, self.consumer.node);
        let Some(&(_, anchor)) = loads.first() else { return self.refuse(RefusalKind::Place, "nothing is loaded".into()) };
        if !self.tiling(c, self.tensor, anchor).covers {
            let why = format!("the tiles of `{}` are not known to cover `{}`", c.name, self.name(self.tensor));
            return self.refuse(RefusalKind::Coverage, why);
        }
        let single = match &stores[..] {
            [(a, place)] if a.outermost => Some((*place, self.tiling(p, self.tensor, place))),
            _ => None,
        };
        if !self.sole && !single.is_some_and(|(_, t)| t.covers) {
            let why = format!("`{}` is not known to be written by `{}` everywhere", self.name(self.tensor), p.name);
            return self.refuse(RefusalKind::Coverage, why);
        }
        let shared = match single {
            Some((place, tiles)) => self.shared_at(place, tiles.covers)?,
            None => Vec::new(),
        };
        let apart = single.is_some_and(|(_, t)| t.apart);
        self.changes(&self.consumer, anchor, p, apart)?;
        self.meets(Some((&self.consumer, anchor)), single, &shared)?;
        let writes_too = uses(c, self.tensor).writes;
        self.reads_first()?;
        let keep = (self.wanted && !self.overwritten()) || self.reread();
        if keep && writes_too {
            return self.refuse(RefusalKind::Hazard, format!("`{}` changes parts of `{}`", c.name, self.name(self.tensor)));
        }
        let mut maker = self.maker(keep, &shared);
        let mut copier = Copier::new(p);
        let mut tiles: Vec<(TensorId, Value)> = Vec::new();
        let mut change = |copier: &mut Copier<'g>, maker: &mut Maker<'g>, inst| {
            let one = shared.iter().find(|s| s.store == inst).map(|s| (s.tensor, s.keep, None));
            let own = stores.iter().find(|(a, _)| a.inst == inst).map(|(a, place)| (self.tensor, keep, Some((a, *place))));
            let Some((tensor, keep, own)) = own.or(one) else { return Ok(false) };
            let kernel = &p.kernel;
            let value = copier.value(maker, kernel.operand(inst, "value")[0])?;
            let at = copier.values(maker, kernel.operand(inst, "indices"))?;
            let mask = copier.values(maker, kernel.operand(inst, "mask"))?.first().copied();
            if keep {
                let flat = own.is_some_and(|(_, place)| place.flat);
                let view = maker.view(tensor, flat)?;
                let args: Vec<Value> = [view].into_iter().chain(at.iter().copied()).chain([value]).chain(mask).collect();
                maker.results(Op::Store, &args, kernel.insts[inst].present, &kernel.insts[inst].attrs, None)?;
            }
            self.unrounded(maker, keep, value);
            tiles.push((tensor, value));
            // Behind the last one of what is handed on.
            if tiles.len() <= shared.len() {
                return Ok(true);
            }
            let Some(place) = own.map(|o| o.1).or(single.map(|s| s.0)) else { return Ok(true) };
            let there = std::mem::take(&mut tiles);
            for (place, at, tiles) in self.cut(maker, (place, at), there, (anchor, cut), mask.is_some())? {
                let target = Target { place: &place, grid: &p.grid, at, tiles, mask };
                Retile::new(maker, (&self.consumer, &self.atoms), (self.tensor, anchor), target, true)?.write(maker)?;
            }
            Ok(true)
        };
        copier.body(&mut maker, &mut change)?;
        let hints = Hints { warps: p.kernel.hints.warps.map(|w| with_epilogue(&p.kernel, w)), ..p.kernel.hints };
        Ok(self.finish(maker, p, hints))
    }

    /// The producer on the consumer's tiles.
    pub fn prologue(&self) -> Result<Node, Refusal> {
        self.plain()?;
        let (stores, loads) = (self.stores()?, self.loads()?);
        let (p, c) = (self.producer.node, self.consumer.node);
        let &[(store, anchor)] = &stores[..] else {
            return self.refuse(RefusalKind::Place, format!("`{}` stores `{}` at several places", p.name, self.name(self.tensor)));
        };
        if store.masked {
            return self.refuse(RefusalKind::Place, format!("`{}` stores `{}` under a mask", p.name, self.name(self.tensor)));
        }
        if uses(p, self.tensor).reads {
            return self.refuse(RefusalKind::Hazard, format!("`{}` changes `{}` in place", p.name, self.name(self.tensor)));
        }
        if !self.sole && !self.tiling(p, self.tensor, anchor).covers {
            let why = format!("`{}` is not known to be written by `{}` everywhere", self.name(self.tensor), p.name);
            return self.refuse(RefusalKind::Coverage, why);
        }
        self.reads_first()?;
        let overwritten = self.overwritten();
        let keep = self.wanted && !overwritten;
        if uses(c, self.tensor).writes && (keep || !overwritten) {
            return self.refuse(RefusalKind::Hazard, format!("`{}` changes parts of `{}`", c.name, self.name(self.tensor)));
        }
        let single = match &loads[..] {
            [(a, place)] if a.outermost => Some((*place, self.tiling(c, self.tensor, place))),
            _ => None,
        };
        let more = p.args.iter().filter_map(|a| a.tensor()).any(|(t, _)| t != self.tensor && uses(p, t).writes);
        let covers = single.is_some_and(|(_, t)| t.covers);
        if (keep || more) && !covers {
            let why = format!("`{}` would have to store from tiles of `{}`, which are not known to cover it once", p.name, c.name);
            return self.refuse(RefusalKind::Coverage, why);
        }
        let apart = single.is_some_and(|(_, t)| t.apart);
        self.changes(&self.producer, anchor, c, apart)?;
        self.meets(Some((&self.producer, anchor)), single, &[])?;
        let mut maker = self.maker(keep, &[]);
        let mut copier = Copier::new(c);
        let mut change = |copier: &mut Copier<'g>, maker: &mut Maker<'g>, inst| {
            let Some((_, place)) = loads.iter().find(|(a, _)| a.inst == inst) else { return Ok(false) };
            let at = copier.values(maker, c.kernel.operand(inst, "indices"))?;
            let target = Target { place, grid: &c.grid, at, tiles: Vec::new(), mask: None };
            let made = Retile::new(maker, (&self.producer, &self.atoms), (self.tensor, anchor), target, keep)?.write(maker)?;
            let Some(tile) = made else { return self.refuse(RefusalKind::Place, "the tile is not stored".into()) };
            self.unrounded(maker, keep, tile);
            self.forward(copier, maker, inst, (self.tensor, place), tile)?;
            Ok(true)
        };
        copier.body(&mut maker, &mut change)?;
        Ok(self.finish(maker, c, c.kernel.hints))
    }

    /// Both bodies in each program.
    pub fn same_tile(&self) -> Result<Node, Refusal> {
        self.plain()?;
        let (stores, loads) = (self.stores()?, self.loads()?);
        let (p, c) = (self.producer.node, self.consumer.node);
        let tensor = self.name(self.tensor);
        if p.grid != c.grid {
            return self.refuse(RefusalKind::Grid, format!("`{}` runs on a grid of {}, `{}` on one of {}", p.name, p.grid, c.name, c.grid));
        }
        let &[(store, place)] = &stores[..] else {
            return self.refuse(RefusalKind::Place, format!("`{}` stores `{tensor}` at several places", p.name));
        };
        if store.masked || !store.outermost {
            return self.refuse(RefusalKind::Place, format!("`{}` stores `{tensor}` under a mask or in a loop", p.name));
        }
        if loads.iter().any(|(_, l)| *l != place) {
            let why = format!("a program of `{}` loads another tile of `{tensor}` than it stores in `{}`", c.name, p.name);
            return self.refuse(RefusalKind::Place, why);
        }
        if uses(c, self.tensor).writes || uses(p, self.tensor).reads {
            return self.refuse(RefusalKind::Hazard, format!("`{tensor}` is changed in place"));
        }
        let shared = self.shared()?;
        self.meets(None, None, &shared)?;
        let keep = self.wanted;
        let mut maker = self.maker(keep, &shared);
        let mut tiles = Vec::new();
        let mut first = Copier::new(p);
        let mut change = |copier: &mut Copier<'g>, maker: &mut Maker<'g>, inst| {
            let one = shared.iter().find(|s| s.store == inst).map(|s| (s.tensor, s.keep));
            let Some((tensor, keep)) = one.or((inst == store.inst).then_some((self.tensor, keep))) else { return Ok(false) };
            let tile = copier.value(maker, p.kernel.operand(inst, "value")[0])?;
            self.unrounded(maker, keep, tile);
            tiles.push((tensor, tile));
            Ok(!keep)
        };
        first.body(&mut maker, &mut change)?;
        let mut second = Copier::new(c);
        let mut change = |copier: &mut Copier<'g>, maker: &mut Maker<'g>, inst| {
            let access = self.consumer.accesses.iter().find(|a| a.inst == inst && a.reads);
            let found = access.and_then(|a| Some((a.tensor, a.place.as_ref()?, tiles.iter().find(|t| t.0 == a.tensor)?.1)));
            let Some((tensor, place, tile)) = found else { return Ok(false) };
            self.forward(copier, maker, inst, (tensor, place), tile)?;
            Ok(true)
        };
        second.body(&mut maker, &mut change)?;
        let most = |a: Option<u32>, b: Option<u32>| a.max(b);
        let (a, b) = (p.kernel.hints, c.kernel.hints);
        Ok(self.finish(maker, p, Hints { warps: most(a.warps, b.warps), stages: most(a.stages, b.stages) }))
    }

    /// Puts a tile in the place of a load of the consumer: what is outside of the tensor, or masked off, is `other`.
    fn forward(
        &self,
        copier: &mut Copier<'g>,
        maker: &mut Maker<'g>,
        inst: tilelift_ir::Inst,
        (tensor, place): (TensorId, &Place),
        tile: Value,
    ) -> Result<(), Refusal> {
        let kernel = &self.consumer.node.kernel;
        let other = copier.values(maker, kernel.operand(inst, "other"))?.first().copied();
        let at = copier.values(maker, kernel.operand(inst, "indices"))?;
        let extents = self.graph.extents(&self.graph.tensors[tensor.index()], place.flat);
        let starts = place.starts(&self.atoms, &self.consumer.node.grid);
        let inside = |d: usize| {
            let tile = (&place.index[d], place.shape[d]);
            fits(&self.atoms, &self.consumer.node.grid, tile, &extents[d], self.graph.divisor(&extents[d]))
        };
        let lost = |d: usize| dropped(self.graph, (&self.consumer, &self.atoms), inst, d);
        let free: Vec<bool> = (0..place.shape.len()).map(|d| inside(d) || lost(d)).collect();
        let mut tile = maker.inside(tile, (&at, &starts), &extents, other, &free)?;
        if let Some(&m) = copier.values(maker, kernel.operand(inst, "mask"))?.first() {
            let elem = maker.kernel.ty(tile).elem();
            let other = match other {
                Some(o) => o,
                None => maker.zero(elem)?,
            };
            let other = maker.splat(other, &place.shape)?;
            tile = maker.op(Op::Select, &[m, tile, other], &[], None)?;
        }
        copier.map.insert(kernel.insts[inst].results[0], tile);
        Ok(())
    }
}

/// Sums that a lane holds at most beside an epilogue, and warps that are asked for because of it.
const SUMS_PER_LANE: u64 = 64;
const MOST_WARPS: u32 = 8;

/// Warps of a kernel of products that gets an epilogue: its sums leave room for it.
fn with_epilogue(kernel: &Kernel, warps: u32) -> u32 {
    let mut sums = 0;
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        if d.op.factors().is_some() {
            sums = sums.max(kernel.ty(d.results[0]).as_tile().map_or(0, |t| t.elements()));
        }
    });
    let mut warps = warps;
    while warps < MOST_WARPS && sums > SUMS_PER_LANE * 32 * u64::from(warps) {
        warps *= 2;
    }
    warps
}
