//! Pieces of LDS that an instruction touches, and how.

/// How an instruction touches LDS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Touch {
    Read,
    Write,
    Atomic,
    /// By a load from memory to LDS.
    Fill,
}

/// A range of bytes that an instruction in flight touches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub address: u32,
    pub len: u16,
    pub touch: Touch,
}
