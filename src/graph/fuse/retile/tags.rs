//! How dimensions of values lie to the anchor.

use super::super::access::Place;
use super::super::atoms::{Atoms, Sum};

/// What a dimension of a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tag {
    /// The same all along, held with extent 1.
    Same,
    /// That of the anchor: element `e` belongs to the anchor's `e`.
    Of(usize),
    /// One of this extent that is as it was in the original.
    Own(u32),
}

/// Tags of all dimensions of a value.
pub(super) type Tags = Vec<Tag>;

/// Dimensions of the anchor tile and of the one that is wanted.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    /// Extents of the anchor.
    pub from: Vec<u32>,
    /// Extents that are wanted.
    pub to: Vec<u32>,
    /// Dimensions along which tiles are those of the original.
    pub kept: Vec<bool>,
    /// Those of them that are at the same place, too.
    pub settled: Vec<bool>,
}

impl Frame {
    /// Compares the anchor with the place that is wanted.
    pub fn new(atoms: &Atoms, anchor: &Place, place: &Place) -> Frame {
        let alike = |d: usize| !anchor.flat && !place.flat && anchor.shape[d] == place.shape[d];
        let settled = |d: usize| alike(d) && anchor.index[d] == place.index[d] && !atoms.moves(&anchor.index[d]);
        let on = |sum: &Sum, d: usize| atoms.is_multiple(sum, anchor.shape[d]);
        let raster = |d: usize| alike(d) && on(&anchor.index[d], d) && on(&place.index[d], d);
        let all = 0..anchor.shape.len();
        Frame {
            from: anchor.shape.clone(),
            to: place.shape.clone(),
            kept: all.clone().map(|d| settled(d) || raster(d)).collect(),
            settled: all.map(settled).collect(),
        }
    }

    /// The extent of a dimension here.
    pub fn extent(&self, tag: Tag) -> u32 {
        match tag {
            Tag::Same => 1,
            Tag::Of(d) => self.to[d],
            Tag::Own(e) => e,
        }
    }

    /// True if what was of the original along a dimension is so here.
    pub fn is_kept(&self, tag: Tag) -> bool {
        match tag {
            Tag::Same | Tag::Own(_) => true,
            Tag::Of(d) => self.kept[d],
        }
    }

    /// What a dimension is of a value that follows from two.
    pub fn join(&self, a: Tag, b: Tag) -> Option<Tag> {
        let of = |d: usize, e: u32| (self.kept[d] && self.from[d] == e).then_some(Tag::Of(d));
        match (a, b) {
            (Tag::Same, t) | (t, Tag::Same) => Some(t),
            (a, b) if a == b => Some(a),
            (Tag::Of(d), Tag::Own(e)) | (Tag::Own(e), Tag::Of(d)) => of(d, e),
            (Tag::Of(c), Tag::Of(d)) => (self.kept[c] && of(d, self.from[c]).is_some()).then_some(Tag::Own(self.from[c])),
            (Tag::Own(_), Tag::Own(_)) => None,
        }
    }
}
