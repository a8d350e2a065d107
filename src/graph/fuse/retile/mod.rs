//! Writes a pointwise kernel again at another tile.
//!
//! A straight-line kernel is *pointwise* in a tensor's tile if element `e` of everything it stores follows from elements `e` of what it
//! loads. Every dimension of a tile value is then *aligned* with a dimension of the anchor tile (its coordinate is the anchor's), or the
//! same all along, held with extent 1 here, or the kernel's *own* (the whole of something beside the tile). Elementwise ops join alignments;
//! other ops mix elements and end the attempt.
//!
//! ```text
//! anchor t[128 * x, 64 * y] : 128x64             place t[r, c] : 128x256, r and c of another kernel
//! load bias[64 * y] : 64                [1]       load bias[c] : 256
//! reshape 1x64                          [-, 1]    reshape 1x256
//! broadcast 128x64, add                 [0, 1]    broadcast 128x256, add
//! store out[128 * x, 64 * y]            [0, 1]    store out[r, c]
//! ```
//!
//! Elements outside the tensors differ from those of the original; no store keeps them, since all aligned extents are equal.
//!
//! A dimension is *kept* along which the tiles are those of the original: the same place and extent, or the same extent and the place of
//! some tile of the original, whose tiles start at all multiples of the extent. Folds, scans, sorts, slices along it are the same there, so a
//! row-wise kernel is written again for another number of rows, and one over heads behind a product whose tiles are heads. What lies outside
//! of the tensor counts in them, so a tile that was not loaded is masked along kept dimensions.

mod access;
mod moves;
mod ops;
mod tags;
mod write;

pub(super) use write::{Retile, Target};
