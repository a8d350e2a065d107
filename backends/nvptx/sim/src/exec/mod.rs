//! What ordinary instructions do: arithmetic, memory, copies, barriers of a CTA, operations of a warp.

pub(crate) mod atomic;
mod copy;
pub(crate) mod ctrl;
pub(crate) mod cvt;
pub(crate) mod float;
pub(crate) mod int;
mod matrix;
pub(crate) mod mem;
pub(crate) mod mma;
pub(crate) mod track;
mod warpops;
