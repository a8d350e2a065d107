//! Bytes that lanes side by side want of the same word: all of them load the word, and each picks its own.
//!
//! ```text
//! lane          0    1    2    3    0 …
//! wants byte    0    1    2    3    0 …     of a word that all four load; further words of the row come with the same access
//! ```

use crate::lower::location::Local;
use crate::lower::shared::xor_map;
use tilelift_ir::Scalar;
use tilelift_ir::layout::{Axis, Coord, Layout};
use tilelift_lane::hash::Map;
use tilelift_lane::{LVal, LaneBuilder, Special};

/// The numbers of a byte in its word.
const IN_WORD: u32 = 3;

/// How bytes are picked out of words.
pub(super) struct Words {
    /// The layout in which lanes hold whole words.
    pub layout: Layout,
    /// What each bit of a lane's number adds to the number of its byte.
    picks: Vec<u32>,
}

impl Words {
    /// `None` where lanes want no bytes of the same word.
    pub(super) fn of(local: &Local, layout: &Layout, elem: Scalar) -> Option<Words> {
        let along = local.contiguous().filter(|_| elem.bytes() == 1 && elem != Scalar::I1 && local.vector_bytes() > IN_WORD)?;
        if !layout.shape()[along].is_multiple_of(IN_WORD + 1) {
            return None;
        }
        let columns = |axis: Axis| (0..layout.bits(axis)).map(|bit| layout.column(axis, bit)).collect::<Vec<Coord>>();
        let (mut registers, mut lanes, warps) = (columns(Axis::Reg), columns(Axis::Lane), columns(Axis::Warp));
        if warps.iter().any(|c| c[along] & IN_WORD != 0) {
            return None;
        }
        let mut picks = Vec::new();
        for c in &mut lanes {
            let inside = c[along] & IN_WORD;
            let alone = c.iter().enumerate().all(|(d, &x)| x == if d == along { inside } else { 0 });
            picks.push(inside);
            if inside != 0 && alone {
                let whole = std::mem::replace(c, c.iter().map(|_| 0).collect());
                registers.insert(0, whole);
            } else if inside != 0 {
                return None;
            }
        }
        if picks.iter().all(|&p| p == 0) {
            return None;
        }
        fn slices(list: &[Coord]) -> Vec<&[u32]> {
            list.iter().map(|c| &c[..]).collect()
        }
        let layout = Layout::of_bases(layout.shape(), &slices(&registers), &slices(&lanes), &slices(&warps)).ok()?;
        Some(Words { layout, picks })
    }

    /// The bytes of a layout out of the bytes of the words; `None` if one of them is in no word.
    pub(super) fn pick(&self, b: &mut LaneBuilder, layout: &Layout, loaded: &[LVal]) -> Option<Vec<LVal>> {
        let at: Map<Coord, LVal> = (0..).zip(loaded).map(|(r, &v)| (self.layout.reg_coord(r), v)).collect();
        let lane = b.special(Special::Lane);
        let own = xor_map(b, lane, &self.picks)?;
        let place = |r: u32| b.byte_of_word(*at.get(&layout.reg_coord(r))?);
        let places: Vec<(LVal, u32)> = (0..layout.size(Axis::Reg)).map(place).collect::<Option<_>>()?;
        Some(b.pick_bytes(own, &places))
    }
}
