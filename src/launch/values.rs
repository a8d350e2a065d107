//! The values of launch parameters, and the argument buffer of code objects.

use super::tensor::TensorCodes;
use crate::artifact::Artifact;
use std::fmt;
use tilelift_interp::Arg;
use tilelift_isel::abi::{self, AbiError, ParamValue};

/// Fills an artifact's launch parameters from the launch grid and kernel arguments; `pointer_of` gives the device address of a byte of a buffer
/// (index, offset in bytes). The arguments should have passed [`check`](super::check): what the kernel promises is not checked again here.
///
/// # Errors
/// A parameter without a fitting argument.
pub fn marshal(
    artifact: &Artifact,
    grid: [u32; 3],
    args: &[Arg],
    pointer_of: impl Fn(usize, u64) -> u64,
) -> Result<Vec<ParamValue>, AbiError> {
    let params: Vec<_> = artifact.params.iter().map(|p| p.to_lane()).collect();
    let grid = artifact.grid_rule().instances(grid).unwrap_or(grid);
    abi::marshal(&params, grid, args, pointer_of)
}

/// A launch parameter with its value.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Parameter {
    /// A number.
    Number {
        /// The bits; integers are sign-extended to 64, floats stand in the low bits.
        bits: u64,
        /// Width in bytes: 1, 2, 4 or 8.
        size: u8,
    },
    /// What `cuTensorMapEncodeTiled` takes for a tensor map, dimensions innermost first.
    TensorMap {
        /// Numbers of the driver's enumerations.
        codes: TensorCodes,
        /// Device address.
        address: u64,
        /// `globalDim`: extents, at least 1.
        extents: Vec<u64>,
        /// `globalStrides`, in bytes: one less than there are dimensions.
        strides: Vec<u64>,
        /// `boxDim`.
        box_extents: Vec<u32>,
    },
}

impl Parameter {
    pub(super) fn of(v: &ParamValue) -> Parameter {
        match v {
            ParamValue::Number { bits, size } => Parameter::Number { bits: *bits, size: *size },
            ParamValue::Tensor(t) => Parameter::TensorMap {
                codes: TensorCodes::of(t.elem, t.tf32, t.swizzle).for_strides(&t.strides),
                address: t.base,
                // A tensor without elements is never touched, but the driver wants extents of at least 1.
                extents: t.extents.iter().map(|&e| e.max(1)).collect(),
                strides: t.strides.to_vec(),
                box_extents: t.box_extents.to_vec(),
            },
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::SmallVec;
    use tilelift_ir::Scalar;
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
}
