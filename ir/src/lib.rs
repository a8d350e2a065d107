//! The tile IR of tilelift.
//!
//! ```text
//!   .tile text ── text::parse ─┐
//!                              ├─► Kernel ── verify ─► Verified ── interp ─► numbers (the definition of the IR)
//!   KernelBuilder ─────────────┘      │                    └────── the lowering of `tilelift-isel`
//!                                     └── text::print ─► .tile text
//! ```
//!
//! [`ops`] is the op table from which parser, printer, verifier and builder follow; [`layout`] is the algebra of data layouts,
//! [`propagate`] the table of how they go through ops.
//! The crate knows no target and no e-graph.

#![deny(missing_docs)]

#[macro_use] // for the rows of the op table
pub mod ops;

pub mod builder;
pub mod channel;
mod cursor;
mod entities;
mod grid;
pub mod kernel;
pub mod layout;
pub mod multiples;
pub mod num;
mod order;
pub mod propagate;
mod random;
pub mod reduce;
pub mod require;
mod rounds;
pub mod text;
pub mod types;
pub mod typing;
pub mod verify;

pub use builder::{Access, BuildError, BuildErrors, KernelBuilder, Operand, Update};
pub use cursor::Cursor;
pub use entities::{Inst, Region, Value};
pub use grid::{GridFacts, instances};
pub use kernel::{Hints, InstData, Kernel, Loc, RegionData, ValueData, ValueDef, iterations, walked};
pub use layout::{DotPart, LayoutSpec};
pub use ops::{
    AtomicOp, Attr, CacheHint, CmpOp, Effects, ErrorBound, GridAxis, Literal, MemoryOrder, Op, Precision, ReduceOp, Scope, SortOrder, Task,
    Work,
};
pub use order::ProgramOrder;
pub use rounds::most_rounds;
pub use types::{ChannelType, Class, Extent, MAX_RANK, MAX_TILE_ELEMENTS, Scalar, Shape, SharedType, TileType, Type, ViewType};
pub use verify::{Verified, VerifiedKernel, VerifyCode, VerifyError, VerifyErrors, verify};
