//! What the launch parameters of an entry carry.

use tilelift_ir::{GridAxis, Scalar};
use tilelift_isel::lane;

/// A launch parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub struct Param {
    /// The type of the number that it is; codes of narrow floats are bytes. `i64` for addresses and tensor maps.
    pub elem: Scalar,
    /// What it carries.
    pub source: ParamSource,
}

/// What a launch parameter carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum ParamSource {
    /// Address of view argument `.0`; type `i64`.
    Pointer(u32),
    /// Extent of dimension `.1` of view argument `.0`; type `i32`.
    Extent(u32, u32),
    /// Stride in elements of dimension `.1` of view argument `.0`; type `i64`.
    Stride(u32, u32),
    /// Scalar argument `.0`; `i1` is passed as a byte.
    Scalar(u32),
    /// Extent of the asked grid along an axis, of a program whose instances run several grid positions each; type `i32`.
    Grid(GridAxis),
    /// The description of a view for bulk copies, in the driver's own form (a tensor map).
    Tensor(TensorBox),
}

/// Which boxes of a view bulk copies move. Address, extents and strides come from the launch's arguments.
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
    /// The swizzle width in bytes; 0 of a box of one row without a swizzle.
    pub swizzle: u32,
    /// True if `f32` elements are rounded to tf32 on their way.
    pub tf32: bool,
}

impl TensorBox {
    /// Most dimensions.
    pub const RANK: usize = 5;
}

impl Param {
    /// A parameter; its type has to be the one that the kind says.
    pub const fn new(elem: Scalar, source: ParamSource) -> Param {
        Param { elem, source }
    }

    /// As the lowering says it.
    pub(crate) fn of_lane(p: &lane::Param) -> Param {
        let elem = match p.ty {
            lane::LTy::Num(elem) => elem,
            // No kernel has a parameter that is a raw word.
            lane::LTy::B32 => Scalar::I32,
        };
        let source = match p.source {
            lane::ParamSource::Pointer(view) => ParamSource::Pointer(view),
            lane::ParamSource::Extent(view, dim) => ParamSource::Extent(view, dim),
            lane::ParamSource::Stride(view, dim) => ParamSource::Stride(view, dim),
            lane::ParamSource::Scalar(n) => ParamSource::Scalar(n),
            lane::ParamSource::Grid(axis) => ParamSource::Grid(axis),
            lane::ParamSource::Tensor(t) => {
                let lane::TensorBox { view, elem, rank, order, extents, swizzle, tf32 } = t;
                ParamSource::Tensor(TensorBox { view, elem, rank, order, extents, swizzle, tf32 })
            }
        };
        Param { elem, source }
    }

    /// As the marshalling takes it.
    pub(crate) fn to_lane(self) -> lane::Param {
        let source = match self.source {
            ParamSource::Pointer(view) => lane::ParamSource::Pointer(view),
            ParamSource::Extent(view, dim) => lane::ParamSource::Extent(view, dim),
            ParamSource::Stride(view, dim) => lane::ParamSource::Stride(view, dim),
            ParamSource::Scalar(n) => lane::ParamSource::Scalar(n),
            ParamSource::Grid(axis) => lane::ParamSource::Grid(axis),
            ParamSource::Tensor(t) => {
                let TensorBox { view, elem, rank, order, extents, swizzle, tf32 } = t;
                lane::ParamSource::Tensor(lane::TensorBox { view, elem, rank, order, extents, swizzle, tf32 })
            }
        };
        lane::Param { ty: lane::LTy::Num(self.elem), source }
    }
}
