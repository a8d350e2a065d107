//! What a launch consists of while it runs: memory, workgroups, waves and their registers.

pub(crate) mod device;
pub(crate) mod lds;
pub(crate) mod memory;
pub(crate) mod races;
pub(crate) mod wave;
