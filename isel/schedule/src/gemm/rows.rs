//! How the rows of a product's operands travel, and what begins in the middle of a line.
//!
//! ```text
//! rows that are a multiple of 16 bytes apart ── boxes of a tensor map        rows of a multiple of 128 bytes: a line for a row of a box, else two
//!                            4 or 8          ── pieces of a row, by lanes
//! ```

use super::product::Product;
use tilelift_lane::{Target, Units};

/// Bytes of a line of the cache, and of the row of a box.
const LINE: u64 = 128;

/// How an operand travels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Travel {
    /// In boxes of a tensor map, whose rows begin at lines or not.
    Boxes {
        /// Each row of a box is one line.
        whole_lines: bool,
    },
    /// By the lanes of the producer, in pieces of so many bytes.
    Lanes(u32),
}

impl Travel {
    /// The way of operand A (0) or B (1); none if its rows begin where neither copies.
    pub fn of(target: &Target, units: &Units, product: &Product, operand: usize) -> Option<Travel> {
        let [m, n, k] = product.shape;
        let row = match operand {
            0 if product.trans.0 => m,
            1 if !product.trans.1 => n,
            _ => k,
        };
        let bytes = u64::from(row) * u64::from(product.elem.bytes());
        if bytes.is_multiple_of(u64::from(units.bulk.align)) {
            return Some(Travel::Boxes { whole_lines: bytes.is_multiple_of(LINE) });
        }
        target.copy_async.iter().copied().filter(|&w| bytes.is_multiple_of(u64::from(w))).max().map(Travel::Lanes)
    }

    /// Lanes copy it.
    pub fn by_lanes(&self) -> bool {
        matches!(self, Travel::Lanes(_))
    }

    /// Pieces of a slot of so many bytes for each lane of a warpgroup; none where boxes bring it.
    pub fn pieces(&self, bytes: u32) -> u32 {
        match self {
            Travel::Boxes { .. } => 0,
            Travel::Lanes(width) => bytes.div_ceil(width * LANES),
        }
    }
}

/// What the copies of a step ask of the cache beside bytes, by operand A and B: lines, if rows of any begin inside of them, and pieces by lanes.
pub(super) struct Requests {
    /// Rows of boxes that each are a line, and those that lie in two.
    pub rows: [f64; 2],
    /// Pieces of a lane.
    pub pieces: f64,
}

impl Requests {
    /// Those of a block whose slots hold so many bytes of A and B, of which it copies a share itself.
    pub fn of(travel: [Travel; 2], bytes: [f64; 2], shares: [f64; 2]) -> Requests {
        let mut out = Requests { rows: [0.0; 2], pieces: 0.0 };
        for ((t, bytes), share) in travel.into_iter().zip(bytes).zip(shares) {
            match t {
                Travel::Boxes { whole_lines } => out.rows[usize::from(!whole_lines)] += bytes / LINE as f64 * share,
                Travel::Lanes(width) => out.pieces += bytes / f64::from(width * LANES),
            }
        }
        out
    }

    /// Cycles of a step, by the cycles of rows of both kinds and of a piece.
    pub fn cycles(&self, row: [f64; 2], piece: f64) -> f64 {
        // Where all rows are lines, neighbours' requests meet, and bytes are what counts.
        let rows = if self.rows[1] > 0.0 { self.rows[0] * row[0] + self.rows[1] * row[1] } else { 0.0 };
        rows.max(self.pieces * piece)
    }
}

/// Lanes of the producer that copy.
const LANES: u32 = 128;
