//! What the tests of several passes need: machine programs made from a seed, and an interpreter of them that knows no arithmetic.

pub(crate) mod generate;
pub(crate) mod interpret;
