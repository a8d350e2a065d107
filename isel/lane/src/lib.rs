//! The lane IR: what one lane of a warp runs.
//!
//! ```text
//! Program ── params: [Param]     the launch ABI, in order
//!         ├─ allocs: [Alloc]     shared memory, placed by lifetime
//!         └─ body: Block = [Inst]     SSA, structured control (for, while, if own blocks)
//! ```
//!
//! Every value is a scalar of one lane; a tile value is spread over lanes and registers by its layout before it comes here.
//! Control flow is uniform over the program instance: conditions and bounds are the same in every lane.
//! Cross-lane instructions ([`Inst::Shuffle`], [`Inst::Redux`], [`Inst::Matrix`], [`Inst::LoadMatrix`], [`Inst::Barrier`]) are executed by every lane.
//! Nothing here names a vendor: what a machine offers stands in [`Target`].
//! [`Roles`] and [`Unit`] are for warps that go their own ways and for the machinery beside them.

#![deny(missing_docs)]

pub mod abi;
mod build;
mod choice;
mod fold;
mod frame;
pub mod hash;
mod inst;
mod interp;
mod into_loops;
mod launch_order;
mod machine;
mod nest;
pub mod number;
mod op;
mod own_words;
mod place;
mod pressure;
mod print;
mod program;
mod registers;
mod replicas;
mod rings;
mod sink;
mod sweep;
mod table;
pub mod testing;
mod text;
mod traffic;
mod unit;
mod value;
mod verify;
pub mod visit;
mod whole_rounds;

pub use build::roles::{RoleSpec, SPARE};
pub use build::{Budget, INSTRUCTIONS, LaneBuilder};
pub use fold::{eval_cmp, eval_int};
pub use frame::{Alloc, AllocId, AllocName, Param, ParamSource, TensorBox, persistent};
pub use inst::{Atomic, AtomicKind, Block, Control, For, If, Inst, MatrixProduct, Opcode, Role, Roles, While};
pub use interp::{LaneArg, LaneError, LaneFault, LaneOptions, LaneStats, interpret};
pub use launch_order::overlap_launches;
pub use machine::{BulkTensor, Costs, Dies, GroupMatrix, GroupMatrixId, MatrixId, MatrixInstr, Rates, RegisterPool, Target, Units};
pub use op::{BinOp, Reduction, Takes, UnOp};
pub use place::{Life, Owner, Room, placed};
pub use print::{inst_shortened, inst_text};
pub use program::Program;
pub use registers::{Holder, RegisterError, Registers};
pub use rings::by_slots;
pub use table::{Effect, Kind, Use};
pub use traffic::{Meter, Traffic};
pub use unit::{GroupOperand, Multiply, OperandA, SwizzleAtoms, TurnEnd, Unit, UnitCode, swizzled_byte};
pub use value::{Carried, LTy, LVal, Place, ShuffleFrom, Space, Special, Vals};
pub use verify::{LaneProblem, LaneVerifyError, verify};
pub use whole_rounds::whole_rounds;
