//! Tests of the lane interpreter on small programs written instruction by instruction.

mod control;
mod matrix;
mod memory;
mod ops;
mod text;

pub(crate) use crate::testing::{Asm, Random, args, everything, memory, target};

use super::*;
use crate::frame::{AllocId, Param, ParamSource};
use crate::inst::Inst;
use crate::machine::MatrixInstr;
use crate::op::BinOp;
use crate::value::{LTy, LVal, Special, Vals};
use cranelift_entity::EntityRef;
use tilelift_interp::{Arg, Buffer, ViewArg};
use tilelift_ir::layout::FragmentMap;
use tilelift_ir::{GridAxis, Scalar};

/// An allocation number that no program of these tests has.
pub(crate) fn no_alloc() -> AllocId {
    AllocId::new(99)
}
