//! Several tensors that one kernel hands to another, and tiles that are cut for it.
//!
//! ```text
//! P stores m[row] and l[row], C loads both: programs of P have both tiles, and C is written behind the later store
//! P stores t[r, 256 * c] : 128x256, C needs tiles of 128 columns: C is written twice, at the tile's halves
//! ```

use super::access::{Access, Place, Shared};
use super::maker::Maker;
use super::pair::Pair;
use super::report::{Refusal, RefusalKind};
use crate::graph::nodes::{Role, TensorId, uses};
use tilelift_ir::{Attr, Op, Shape, Type, Value};

/// Pieces of a tile at most.
const MOST_PIECES: u32 = 8;

/// A piece of a tile: its place, the index of its first element, and the pieces of all tensors.
type Piece = (Place, Vec<Value>, Vec<(TensorId, Value)>);

impl<'g> Pair<'g> {
    /// The other tensors that the producer writes and the consumer reads, where each program of the consumer reads what it wrote in the
    /// producer. Tensors of which that is not so are hazards, see [`Pair::meets`].
    pub(super) fn shared(&self) -> Result<Vec<Shared>, Refusal> {
        let same = |store: &Access, load: &Access| store.place == load.place;
        self.handed(&same)
    }

    /// The same where the consumer goes to the producer's tiles at a place of the pair's tensor: all have its extents, and are stored there.
    pub(super) fn shared_at(&self, place: &Place, covers: bool) -> Result<Vec<Shared>, Refusal> {
        let dims = |t: TensorId| &self.graph.tensors[t.index()].dims;
        let alone = |t: TensorId| {
            let writers = self.graph.nodes.iter().filter(|n| uses(n, t).writes).count();
            self.graph.tensors[t.index()].role == Role::Intermediate && writers == 1
        };
        let there = |store: &Access, _: &Access| {
            store.place.as_ref() == Some(place) && dims(store.tensor) == dims(self.tensor) && (covers || alone(store.tensor))
        };
        self.handed(&there)
    }

    fn handed(&self, fits: &dyn Fn(&Access, &Access) -> bool) -> Result<Vec<Shared>, Refusal> {
        let (p, c) = (self.producer.node, self.consumer.node);
        let mut all: Vec<Shared> = Vec::new();
        for (id, _) in p.args.iter().filter_map(|a| a.tensor()) {
            let (own, theirs) = (uses(p, id), uses(c, id));
            if id == self.tensor || !own.writes || !theirs.reads || own.reads || theirs.writes || all.iter().any(|s| s.tensor == id) {
                continue;
            }
            let stores: Vec<&Access> = self.producer.of(id).collect();
            let &[store] = &stores[..] else { continue };
            if store.masked || !store.outermost || store.place.is_none() || !self.consumer.of(id).all(|a| fits(store, a)) {
                continue;
            }
            let others = self.graph.nodes.iter().any(|n| !std::ptr::eq(n, p) && !std::ptr::eq(n, c) && uses(n, id).reads);
            let keep = others || self.graph.tensors[id.index()].role != Role::Intermediate;
            all.push(Shared { tensor: id, store: store.inst, keep });
        }
        Ok(all)
    }

    /// The tiles of a place, cut along a dimension into tiles of the anchor's extent, if that is asked for.
    pub(super) fn cut(
        &self,
        maker: &mut Maker<'g>,
        (place, at): (&Place, Vec<Value>),
        tiles: Vec<(TensorId, Value)>,
        (anchor, cut): (&Place, Option<usize>),
        masked: bool,
    ) -> Result<Vec<Piece>, Refusal> {
        let Some(d) = cut else { return Ok(vec![(place.clone(), at, tiles)]) };
        let no = |why: &str| self.refuse(RefusalKind::Shape, format!("tiles of `{}` can't be cut: {why}", self.name(self.tensor)));
        if masked || place.flat || anchor.flat || place.shape.len() != anchor.shape.len() {
            return no("they are stored as vectors or under a mask");
        }
        let (whole, part) = (place.shape[d], anchor.shape[d]);
        if part == 0 || !whole.is_multiple_of(part) || !(2..=MOST_PIECES).contains(&(whole / part)) {
            return no("they are no few tiles of the consumer");
        }
        let mut all = Vec::new();
        for n in 0..whole / part {
            let first = n * part;
            let mut piece = place.clone();
            piece.index[d] = piece.index[d].plus(first as i32);
            piece.shape[d] = part;
            let mut here = at.clone();
            here[d] = maker.plus(here[d], first as i32)?;
            let mut offsets = Shape::from_elem(0, piece.shape.len());
            offsets[d] = first;
            let mut parts = Vec::new();
            for &(t, v) in &tiles {
                let ty = Type::tile(&piece.shape, maker.kernel.ty(v).elem());
                parts.push((t, maker.op(Op::Slice, &[v], &[Attr::Offsets(offsets.clone())], Some(&ty))?));
            }
            all.push((piece, here, parts));
        }
        Ok(all)
    }
}
