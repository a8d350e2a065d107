//! Kernels that the library does not have, written as any user would.

pub(crate) mod attention;
pub(crate) mod combine;
pub(crate) mod gate;
pub(crate) mod residual_norm;
pub(crate) mod rope;
