//! The slots of the ring. Loops that run one behind the other share those of like tiles; what only one of them loads has slots of its own, which
//! the same mbarriers guard.
//!
//! ```text
//! loop 1   loads 128x64, 64x128        slots of 128x64 | slots of 64x128
//! loop 2   loads 128x64, 32x128        ^ the same      |                  | slots of 32x128
//! ```

use super::Refusal;
use super::schedule::buffer_type;
use super::write::Writer;
use crate::plan::SwizzledTile;
use tilelift_ir::Value;

/// Slots that are there.
#[derive(Default)]
pub(super) struct Slots {
    all: Vec<(SwizzledTile, bool, Value)>,
}

impl Slots {
    /// The slots of a loop's tiles, of each so many; what loops in front have is used again, by whoever brought it: lanes or units.
    pub(super) fn of<'t>(
        &mut self,
        w: &mut Writer<'_>,
        depth: u32,
        tiles: impl Iterator<Item = (&'t SwizzledTile, bool)>,
    ) -> Result<Vec<Value>, Refusal> {
        let mut taken: Vec<usize> = Vec::new();
        for (tile, by_lanes) in tiles {
            let like = (0..self.all.len()).find(|n| !taken.contains(n) && (&self.all[*n].0, self.all[*n].1) == (tile, by_lanes));
            let n = match like {
                Some(n) => n,
                None => {
                    let shape: Vec<u32> = [depth].iter().chain(&tile.shape).copied().collect();
                    let slots = w.buffer(&buffer_type(&shape, tile), tile)?;
                    self.all.push((tile.clone(), by_lanes, slots));
                    self.all.len() - 1
                }
            };
            taken.push(n);
        }
        Ok(taken.into_iter().map(|n| self.all[n].2).collect())
    }
}
