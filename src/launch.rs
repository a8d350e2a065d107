//! What a launch sets on the driver, beside what the [`Artifact`] holds: tensor maps of the CUDA driver, argument buffers of the HIP library.
//! The devices go by it, and so does whoever launches by other means.

use crate::artifact::Artifact;
use std::fmt;
use tilelift_ir::Scalar;
use tilelift_isel::abi::ParamValue;
use tilelift_isel::lane::TensorBox;

/// Dynamic shared memory that a block may have without asking for more, in bytes.
const PLAIN_SHARED: u32 = 48 * 1024;

/// The largest grid that may be asked for.
pub const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];

/// The most grid positions of a program that takes the extents of its grid as parameters: it counts them in 32 bits.
pub const MAX_POSITIONS: u32 = i32::MAX as u32;

/// Bytes of an encoded tensor map.
pub const TENSOR_MAP_BYTES: u32 = 128;

/// Alignment of a tensor map among the parameters of an entry, in bytes.
pub const TENSOR_MAP_ALIGN: u32 = 64;

impl Artifact {
    /// The value of `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES` that a function needs in front of its first launch; `None` where it
    /// needs none.
    pub fn shared_opt_in(&self) -> Option<u32> {
        (self.shared_bytes > PLAIN_SHARED).then_some(self.shared_bytes)
    }
}

/// The grid to launch where a grid is asked for: a row of as many instances as run at once, but no more than there are positions, of a
/// kernel whose instances run several of them ([`tilelift_isel::lane::persistent`]); else the grid itself. Of such a kernel, marshalling has
/// seen to it that positions fit [`MAX_POSITIONS`].
pub fn launched_grid(grid: [u32; 3], resident: Option<u32>) -> [u32; 3] {
    match resident {
        Some(n) => [n.min(grid.iter().copied().fold(1, u32::saturating_mul)), 1, 1],
        None => grid,
    }
}

/// A launch parameter that describes a tensor for bulk copies, where arguments are numbers alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TensorParam {
    /// The launch parameter.
    pub param: usize,
}

impl fmt::Display for TensorParam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "launch parameter {} describes a tensor for bulk copies, which no argument buffer holds", self.param)
    }
}

impl std::error::Error for TensorParam {}

/// The argument buffer of a code object: the parameters in order, little-endian, each at the next multiple of its size; nothing behind the
/// last one.
///
/// # Errors
/// A parameter that is no number.
///
/// ```
/// use tilelift::isel::abi::ParamValue;
/// use tilelift::launch::kernel_arguments;
///
/// let values = [ParamValue::Number { bits: 7, size: 4 }, ParamValue::Number { bits: 0x1000, size: 8 }];
/// assert_eq!(kernel_arguments(&values)?, [7, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0]);
/// # Ok::<(), tilelift::launch::TensorParam>(())
/// ```
pub fn kernel_arguments(values: &[ParamValue]) -> Result<Vec<u8>, TensorParam> {
    let mut bytes = Vec::new();
    for (param, value) in values.iter().enumerate() {
        let ParamValue::Number { bits, size } = value else { return Err(TensorParam { param }) };
        let size = usize::from(*size).clamp(1, 8);
        bytes.resize(bytes.len().next_multiple_of(size), 0);
        bytes.extend_from_slice(&bits.to_le_bytes()[..size]);
    }
    Ok(bytes)
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::SmallVec;
    use tilelift_isel::abi::TensorMap;

    fn number(bits: u64, size: u8) -> ParamValue {
        ParamValue::Number { bits, size }
    }

    #[test]
    fn arguments_stand_at_multiples_of_their_sizes() {
        assert_eq!(kernel_arguments(&[]), Ok(Vec::new()));
        let values =
            [number(0xa1, 1), number(0xb2b1, 2), number(0xc1, 1), number(0xd4d3d2d1, 4), number(0xe1, 1), number(0xf8f7f6f5f4f3f2f1, 8)];
        let bytes =
            [0xa1, 0, 0xb1, 0xb2, 0xc1, 0, 0, 0, 0xd1, 0xd2, 0xd3, 0xd4, 0xe1, 0, 0, 0, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8];
        assert_eq!(kernel_arguments(&values), Ok(bytes.to_vec()));
    }

    #[test]
    fn arguments_end_with_the_last_one_and_keep_only_its_bytes() {
        // A negative number is sign-extended to 64 bits by the marshalling.
        assert_eq!(kernel_arguments(&[number(1, 8), number(-2i64 as u64, 2)]), Ok(vec![1, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0xff]));
    }

    #[test]
    fn tensors_are_refused_by_their_number() {
        let tensor = TensorMap {
            base: 0,
            elem: Scalar::F16,
            extents: SmallVec::new(),
            strides: SmallVec::new(),
            box_extents: SmallVec::new(),
            swizzle: 0,
            tf32: false,
        };
        assert_eq!(kernel_arguments(&[number(1, 4), ParamValue::Tensor(tensor)]), Err(TensorParam { param: 1 }));
    }

    #[test]
    fn few_instances_take_the_positions_of_a_grid() {
        assert_eq!(launched_grid([5, 3, 2], None), [5, 3, 2]);
        assert_eq!(launched_grid([5, 3, 2], Some(8)), [8, 1, 1]);
        assert_eq!(launched_grid([5, 3, 2], Some(304)), [30, 1, 1]);
    }
}
