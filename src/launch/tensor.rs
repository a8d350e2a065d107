//! Tensor maps of the CUDA driver. Their boxes are decided where a loop's copies are planned: `isel/schedule/src/plan/tensor_boxes.rs`.

use crate::artifact::TensorBox;
use tilelift_ir::Scalar;

/// Bytes of an encoded tensor map.
pub const TENSOR_MAP_BYTES: u32 = 128;

/// Alignment of a tensor map among the parameters of an entry, in bytes.
pub const TENSOR_MAP_ALIGN: u32 = 64;

/// The numbers that `cuTensorMapEncodeTiled` takes for a tensor map, in its own enumerations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TensorCodes {
    /// `CUtensorMapDataType`.
    pub data_type: u32,
    /// `CUtensorMapInterleave`: none.
    pub interleave: u32,
    /// `CUtensorMapSwizzle`.
    pub swizzle: u32,
    /// `CUtensorMapL2promotion`: 256 bytes; 64 where rows begin anywhere in such a piece ([`TensorCodes::for_strides`]).
    pub l2_promotion: u32,
    /// `CUtensorMapFloatOOBfill`: what lies outside reads as zeros.
    pub oob_fill: u32,
}

impl TensorCodes {
    /// The numbers for boxes of a view.
    pub const fn of_box(b: &TensorBox) -> TensorCodes {
        TensorCodes::of(b.elem, b.tf32, b.swizzle)
    }

    /// The numbers for an element type, whether it is rounded to tf32, and a swizzle width in bytes.
    pub const fn of(elem: Scalar, tf32: bool, swizzle: u32) -> TensorCodes {
        TensorCodes { data_type: data_type(elem, tf32), interleave: 0, swizzle: swizzle_mode(swizzle), l2_promotion: 3, oob_fill: 0 }
    }
}

impl TensorCodes {
    /// The numbers for a tensor of these strides in bytes: a row that begins inside a piece of 256 bytes is fetched with what lies in front of it and
    /// behind it if pieces are fetched whole, which takes a tenth of the time of a product that the cache bounds.
    pub fn for_strides(self, strides: &[u64]) -> TensorCodes {
        let whole = strides.iter().all(|s| s.is_multiple_of(PROMOTED));
        if whole { self } else { TensorCodes { l2_promotion: 1, ..self } }
    }
}

/// Bytes that the cache fetches at a time where it is told to.
const PROMOTED: u64 = 256;

const fn data_type(elem: Scalar, tf32: bool) -> u32 {
    match elem {
        Scalar::I1 | Scalar::I8 => 0,
        Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz | Scalar::F8E8M0 => 0,
        // Views of elements that share bytes are not specialised; their bytes are.
        Scalar::I4 | Scalar::F4E2M1 => 0,
        Scalar::I16 => 1,
        Scalar::I32 => 3,
        Scalar::I64 => 5,
        Scalar::F16 => 6,
        Scalar::F32 if tf32 => 11,
        Scalar::F32 => 7,
        Scalar::F64 => 8,
        Scalar::BF16 => 9,
    }
}

const fn swizzle_mode(width: u32) -> u32 {
    match width {
        128 => 3,
        64 => 2,
        32 => 1,
        _ => 0,
    }
}
