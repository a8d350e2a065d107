//! Chips of several compute dies, each with a cache of its own.

/// The compute dies of a chip, to which program instances go in turn: instance `w` of a launch to die `w % count`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dies {
    /// How many there are, a power of two.
    pub count: u32,
    /// Processors of a die: as many instances of a kernel that fills them run on it at a time, or more.
    pub processors: u32,
    /// Instances that follow one another and should be on one die, a power of two: about as many as run there at a time.
    pub chunk: u32,
}
