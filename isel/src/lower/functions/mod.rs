//! Functions of floats as lane operations, written once for every machine.
//!
//! ```text
//! tile op on T     T is f16 or bf16    by way of f32, which has more than twice the bits
//!                  T is f32            few steps around the machine's own exp2, log2 and reciprocal, which are near enough
//!                  T is f64            series, since no machine has more than a first guess
//! ```
//!
//! What a machine has as an instruction, its table names ([`tilelift_lane::Target::functions`], `quotients`): the lane operation stays and the backend
//! has a rule for it. What it has not is made of what it has. Nothing here looks at who made the machine. Coefficients are data, and the
//! code is straight: the lanes of a warp never part, whatever they compute, and a function counts for its instructions in the size of a
//! program.

mod angle;
mod circular;
mod erf;
mod exponential;
mod logarithm;
mod quotient;
mod root;
mod wide;

pub(super) use angle::atan2;
pub(super) use circular::sine;
pub(super) use erf::erf;
pub(super) use exponential::{exp, exp2, tanh};
pub(super) use logarithm::{log, log2};
pub(super) use quotient::div;
pub(super) use root::{rcp, rsqrt, sqrt};
