//! Producers written again in the place of a consumer's loads, at the consumer's tiles, whatever they do: products, folds along rows, loops.
//!
//! ```text
//! tile-of-store   load T[at] : shape      ─► what the producer would have stored there: its body backwards from the store, each value
//!                                            asked for at the elements that are wanted of it (writer.rs)
//! strip           reduce x along a row    ─► for j in row step width { acc = acc op (reduce of x at [j, j + width)) }  (strip.rs)
//! loop            a result of a `for`     ─► the loop again, with what the result follows from (loops.rs)
//! restep          a fold in pieces        ─► the fold in other pieces (restep.rs)
//! ```
//!
//! A dimension of a value is a *window* of the row of elements that the producer's programs have between them, or is *kept* as it is, all
//! of it. Rules ask the operands for windows in turn; a load at a window is a load elsewhere, or the tile of another producer. Loops go
//! as far out as what they follow from, in front of the consumer's own loops.

mod kernel;
mod load;
mod loops;
mod outside;
mod restep;
mod scalar;
mod source;
mod strip;
mod writer;

pub(super) use kernel::inlined;
pub(super) use source::in_order;
