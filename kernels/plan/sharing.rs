//! How the work of a product is shared out.

use tilelift_schedule::gemm::{Choice, Clusters, StreamK};

/// How the work of a product is shared out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Sharing {
    /// A program has a tile from end to end.
    Whole,
    /// It has a part of a tile's depth, of so many; a second launch adds them up.
    SplitK(u32),
    /// Steps of the depth are dealt out (stream-K); a second launch adds up what several have of a tile.
    StreamK(StreamK),
    /// Clusters of two blocks share an operand, with so many consumer warpgroups in a block.
    Clusters(Clusters, u32),
}

impl From<&Choice> for Sharing {
    fn from(c: &Choice) -> Sharing {
        match (c.clusters, c.stream_k) {
            (Some(x), _) => Sharing::Clusters(x, c.consumers),
            (None, Some(s)) => Sharing::StreamK(s),
            (None, None) if c.splits > 1 => Sharing::SplitK(c.splits),
            (None, None) => Sharing::Whole,
        }
    }
}
