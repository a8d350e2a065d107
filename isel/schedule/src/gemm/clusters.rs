//! Products by clusters of two blocks that share an operand: each fetches half of it for both.

use std::fmt;
use std::str::FromStr;

/// What the tiles of a cluster's blocks are to one another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Pair {
    /// One below the other: they share operand B.
    Rows,
    /// Side by side: they share operand A.
    Columns,
}

/// Clusters of two blocks, each of which takes pairs of tiles one behind the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Clusters {
    /// Blocks that work at the same time at most, an even number.
    pub workers: u32,
    /// Which tiles make a pair.
    pub pair: Pair,
}

/// Most blocks that can be asked for.
const MOST: u32 = 1 << 16;

impl fmt::Display for Clusters {
    /// `132r` for 132 blocks in pairs of rows, `132c` for pairs of columns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.workers, if self.pair == Pair::Rows { 'r' } else { 'c' })
    }
}

impl FromStr for Clusters {
    type Err = String;

    /// Reads what is displayed.
    fn from_str(text: &str) -> Result<Clusters, String> {
        let parts = [('r', Pair::Rows), ('c', Pair::Columns)].into_iter().find_map(|(end, pair)| Some((text.strip_suffix(end)?, pair)));
        let workers = |t: &str| t.parse().ok().filter(|n: &u32| (2..=MOST).contains(n) && n.is_multiple_of(2));
        parts.and_then(|(number, pair)| Some(Clusters { workers: workers(number)?, pair })).ok_or_else(|| {
            format!("`{text}` is no number of blocks and how they make pairs, such as 132r (rows) or 132c (columns); an even number from 2 to {MOST}")
        })
    }
}
