//! What stands around a program's instructions: launch parameters and shared memory.

use crate::value::LTy;
use cranelift_entity::entity_impl;
use std::fmt;
use tilelift_ir::{GridAxis, Loc, Scalar, Type};

/// A block of shared memory. Prints as `s3`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AllocId(u32);
entity_impl!(AllocId, "s");

/// What a launch parameter carries; the runtime fills parameters from the kernel's arguments by it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum ParamSource {
    /// Base address of view argument `.0`; type `i64`.
    Pointer(u32),
    /// Extent of dimension `.1` of view argument `.0`; type `i32`. Only dynamic extents are passed.
    Extent(u32, u32),
    /// Stride in elements of dimension `.1` of view argument `.0`; type `i64`. Only dynamic strides of views that declare strides are passed.
    Stride(u32, u32),
    /// Scalar argument `.0`; `i1` is passed as a byte.
    Scalar(u32),
    /// Extent of the launch grid along an axis, of a program whose instances run several grid positions each; type `i32`.
    Grid(GridAxis),
    /// The description of a view for bulk copies, in the machine's own form. No instruction reads it as a value; its type is `i64`.
    Tensor(TensorBox),
}

/// Which boxes of a view bulk copies move. Everything else (address, extents, strides) comes from the launch's arguments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct TensorBox {
    /// View argument.
    pub view: u32,
    /// Element type; of elements that share bytes, extents of boxes and of the tensor count bytes.
    pub elem: Scalar,
    /// Dimensions.
    pub rank: u8,
    /// The view's dimensions, innermost (contiguous) first.
    pub order: [u8; TensorBox::RANK],
    /// Extents of the box in that order.
    pub extents: [u32; TensorBox::RANK],
    /// The swizzle width in bytes; see [`SwizzleAtoms`](crate::SwizzleAtoms).
    pub swizzle: u32,
    /// True if `f32` elements are rounded to tf32 on their way.
    pub tf32: bool,
}

impl TensorBox {
    /// Most dimensions.
    pub const RANK: usize = 5;

    /// Bytes of a box.
    pub fn bytes(&self) -> u32 {
        self.extents[..usize::from(self.rank)].iter().product::<u32>() * self.elem.bytes()
    }
}

/// A launch parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Param {
    /// Its type.
    pub ty: LTy,
    /// What it carries.
    pub source: ParamSource,
}

/// What messages call memory that an author declares: its type, and where it stands if that is known. Nobody writes it before somebody reads it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllocName {
    /// The type of the handle.
    pub ty: Type,
    /// Where it is declared.
    pub at: Loc,
}

impl fmt::Display for AllocName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AllocName { ty, at } = self;
        if at.is_known() { write!(f, "`{ty}` of {at}") } else { write!(f, "`{ty}`") }
    }
}

/// A block of shared memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alloc {
    /// Size in bytes.
    pub bytes: u32,
    /// Alignment in bytes, a power of two.
    pub align: u32,
    /// Byte offset from the start of shared memory, once placed.
    pub offset: u32,
    /// Bytes of the regions in which roles hand it to one another; 0 for memory of which a role takes care.
    pub region_bytes: u32,
    /// Bytes of its slots, which are used one after the other as a whole: a region, or several; 0 as the region.
    pub slot: u32,
    /// What messages call it, if the author of a program declares its memory.
    pub name: Option<AllocName>,
    /// What it is for; appears in comments of the text.
    pub purpose: &'static str,
}

/// True if launch parameters are those of a program whose instances run several grid positions each: it is launched as a row of as many
/// instances as the machine runs at once, but no more than there are positions.
pub fn persistent(params: &[Param]) -> bool {
    params.iter().any(|p| matches!(p.source, ParamSource::Grid(_)))
}
