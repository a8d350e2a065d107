//! The launch ABI: a program's parameters filled from a kernel's arguments.
//!
//! ```text
//! args    [view a, view b, i32 7]
//! params  [pointer a, extent a 0, pointer b, scalar 2]  ── marshal ─►  [u64 address, 4-byte extent, u64 address, 4-byte 7]
//! ```
//!
//! Every device (the lane interpreter, the text simulator, a real driver) fills its parameter buffer from this one function, so that
//! the order and widths of parameters are decided in one place.

use crate::frame::{Param, ParamSource, TensorBox};
use crate::value::LTy;
use smallvec::SmallVec;
use std::fmt;
use tilelift_interp::{Arg, ViewArg};
use tilelift_ir::{GridAxis, Scalar};

/// The value of a launch parameter.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum ParamValue {
    /// A number.
    Number {
        /// The bits; integers are sign-extended to 64, floats stand in the low bits.
        bits: u64,
        /// Width in bytes in a parameter buffer: 1, 2, 4 or 8.
        size: u8,
    },
    /// A tensor and the boxes that bulk copies move of it; the device has its own form of it.
    Tensor(TensorMap),
}

/// A tensor in global memory for bulk copies, dimensions innermost first. What lies outside reads as zeros.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct TensorMap {
    /// Device address of its first element.
    pub base: u64,
    /// Element type.
    pub elem: Scalar,
    /// Extents; 0 in a tensor that no box may touch.
    pub extents: SmallVec<[u64; 5]>,
    /// Bytes from an element to the next along every dimension but the first, whose elements lie side by side.
    pub strides: SmallVec<[u64; 4]>,
    /// Extents of a box.
    pub box_extents: SmallVec<[u32; 5]>,
    /// The swizzle width in bytes: 128, 64 or 32, or 0 of one row that lies as in memory; 16-byte chunks are exchanged as [`crate::unit::swizzled_byte`] says.
    pub swizzle: u32,
    /// True if `f32` elements are rounded to tf32 on their way.
    pub tf32: bool,
}

/// Why arguments don't fill a program's parameters. `param` counts launch parameters, `arg` kernel arguments, both from 0.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AbiError {
    /// The parameter asks for an argument that was not given.
    Missing {
        /// The parameter.
        param: usize,
        /// The argument it asks for.
        arg: u32,
        /// Arguments given.
        count: usize,
    },
    /// A view where a number belongs, or a number where a view belongs.
    Kind {
        /// The parameter.
        param: usize,
        /// The argument.
        arg: u32,
        /// What the parameter takes.
        want: &'static str,
    },
    /// The parameter asks for a dimension that the view lacks.
    Rank {
        /// The parameter.
        param: usize,
        /// The argument.
        arg: u32,
        /// The dimension.
        dim: u32,
        /// The view's number of dimensions.
        rank: usize,
    },
    /// The parameter's type is not that of the number it carries.
    Type {
        /// The parameter.
        param: usize,
        /// The parameter's type.
        want: LTy,
        /// The type of the number.
        got: LTy,
    },
    /// A view that bulk copies can't take.
    Tensor {
        /// The parameter.
        param: usize,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An extent that an `i32` doesn't hold.
    Extent {
        /// The parameter.
        param: usize,
        /// The extent.
        got: i64,
    },
}

impl fmt::Display for AbiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AbiError::Missing { param, arg, count } => {
                write!(f, "launch parameter {param} needs argument {arg}, but {count} were given; pass the kernel's arguments in order")
            }
            AbiError::Kind { param, arg, want } => {
                write!(f, "launch parameter {param} takes a {want}, which argument {arg} is not; pass the kernel's arguments in order")
            }
            AbiError::Rank { param, arg, dim, rank } => {
                write!(
                    f,
                    "launch parameter {param} needs dimension {dim} of argument {arg}, which has {rank}; pass a view of the kernel's rank"
                )
            }
            AbiError::Type { param, want, got } => {
                write!(f, "launch parameter {param} is {want}, but its value is {got}; convert the argument")
            }
            AbiError::Tensor { param, why } => {
                write!(f, "launch parameter {param} describes a tensor for bulk copies, but {why}; compile with the pipelined schedule")
            }
            AbiError::Extent { param, got } => {
                write!(f, "launch parameter {param} carries the extent {got}; extents are 0 to {}", i32::MAX)
            }
        }
    }
}
impl std::error::Error for AbiError {}

/// Fills launch parameters from the launch grid and kernel arguments; `pointer_of` gives the device address of a byte of a buffer (index, offset in bytes).
///
/// The arguments should have passed [`tilelift_interp::check_args`]: what the kernel's types promise is not checked again here.
///
/// # Errors
/// A parameter without a fitting argument.
pub fn marshal(
    params: &[Param],
    grid: [u32; 3],
    args: &[Arg],
    pointer_of: impl Fn(usize, u64) -> u64,
) -> Result<Vec<ParamValue>, AbiError> {
    params.iter().enumerate().map(|(i, p)| value(i, p, grid, args, &pointer_of)).collect()
}

fn value(param: usize, p: &Param, grid: [u32; 3], args: &[Arg], pointer_of: &impl Fn(usize, u64) -> u64) -> Result<ParamValue, AbiError> {
    let (bits, got) = match p.source {
        ParamSource::Pointer(arg) => {
            let v = view(param, arg, args)?;
            (pointer_of(v.buffer, v.offset_bytes), LTy::I64)
        }
        ParamSource::Extent(arg, dim) => {
            let extent = dimension(param, arg, dim, &view(param, arg, args)?.shape)?;
            if !(0..=i64::from(i32::MAX)).contains(&extent) {
                return Err(AbiError::Extent { param, got: extent });
            }
            (extent as u64, LTy::I32)
        }
        ParamSource::Stride(arg, dim) => (dimension(param, arg, dim, &view(param, arg, args)?.strides)? as u64, LTy::I64),
        ParamSource::Scalar(arg) => match argument(param, arg, args)? {
            Arg::Scalar(s) => (s.bits(), LTy::holding(s.elem())),
            Arg::View(_) => return Err(AbiError::Kind { param, arg, want: "number" }),
        },
        ParamSource::Grid(axis) => {
            let extent = grid[match axis {
                GridAxis::X => 0,
                GridAxis::Y => 1,
                GridAxis::Z => 2,
            }];
            // Positions are counted in 32 bits.
            if grid.iter().map(|&n| u128::from(n)).product::<u128>() > i32::MAX as u128 {
                return Err(AbiError::Extent { param, got: i64::from(extent) });
            }
            (u64::from(extent), LTy::I32)
        }
        ParamSource::Tensor(t) => return tensor(param, &t, view(param, t.view, args)?, pointer_of).map(ParamValue::Tensor),
    };
    if got != p.ty {
        return Err(AbiError::Type { param, want: p.ty, got });
    }
    let bits = if got == LTy::Num(Scalar::I1) { bits & 1 } else { bits };
    Ok(ParamValue::Number { bits, size: got.bytes() as u8 })
}

fn tensor(param: usize, t: &TensorBox, v: &ViewArg, pointer_of: &impl Fn(usize, u64) -> u64) -> Result<TensorMap, AbiError> {
    let order = t.order[..usize::from(t.rank)].iter().map(|&d| u32::from(d));
    let along = |of: &[i64]| -> Result<SmallVec<[u64; 5]>, AbiError> {
        order.clone().map(|d| dimension(param, t.view, d, of).map(|x| x as u64)).collect()
    };
    let mut extents = along(&v.shape)?;
    let (size, each) = (u64::from(t.elem.bytes()), if t.elem.is_packed() { 2 } else { 1 });
    if let Some(first) = extents.first_mut() {
        *first = first.div_ceil(each);
    }
    // The stride of a dimension of one element moves nothing: any legal one will do.
    let strides: SmallVec<[u64; 4]> =
        along(&v.strides)?[1..].iter().zip(&extents[1..]).map(|(s, &e)| if e > 1 { s.wrapping_mul(size) / each } else { 16 }).collect();
    // What the kernel's types promise is checked elsewhere; how far strides reach is not promised.
    if strides.iter().any(|&s| s >= 1 << 40 || s % 16 != 0) {
        return Err(AbiError::Tensor { param, why: "a stride is negative, larger than 2^40 bytes, or no multiple of 16 bytes" });
    }
    Ok(TensorMap {
        base: pointer_of(v.buffer, v.offset_bytes),
        elem: t.elem,
        extents,
        strides,
        box_extents: SmallVec::from_slice(&t.extents[..usize::from(t.rank)]),
        swizzle: t.swizzle,
        tf32: t.tf32,
    })
}

fn argument(param: usize, arg: u32, args: &[Arg]) -> Result<&Arg, AbiError> {
    args.get(arg as usize).ok_or(AbiError::Missing { param, arg, count: args.len() })
}

fn view(param: usize, arg: u32, args: &[Arg]) -> Result<&ViewArg, AbiError> {
    match argument(param, arg, args)? {
        Arg::View(v) => Ok(v),
        Arg::Scalar(_) => Err(AbiError::Kind { param, arg, want: "view" }),
    }
}

fn dimension(param: usize, arg: u32, dim: u32, of: &[i64]) -> Result<i64, AbiError> {
    of.get(dim as usize).copied().ok_or(AbiError::Rank { param, arg, dim, rank: of.len() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_interp::ScalarArg;

    fn param(ty: LTy, source: ParamSource) -> Param {
        Param { ty, source }
    }

    #[test]
    fn every_source_is_filled_in_order() {
        let view = ViewArg::dense(2, Scalar::F16, &[3, 8]).at(32);
        let args = [Arg::from(ScalarArg::float(Scalar::BF16, 1.0)), view.into(), ScalarArg::int(Scalar::I1, 1).into()];
        let params = [
            param(LTy::I64, ParamSource::Pointer(1)),
            param(LTy::I32, ParamSource::Extent(1, 1)),
            param(LTy::I64, ParamSource::Stride(1, 0)),
            param(LTy::Num(Scalar::BF16), ParamSource::Scalar(0)),
            param(LTy::I1, ParamSource::Scalar(2)),
        ];
        let got = marshal(&params, [1; 3], &args, |buffer, offset| 1000 * buffer as u64 + offset).unwrap();
        let want = [(2032, 8), (8, 4), (8, 8), (0x3f80, 2), (1, 1)];
        assert_eq!(got, want.map(|(bits, size)| ParamValue::Number { bits, size }));
    }

    #[test]
    fn tensors_are_described_innermost_first() {
        let spec = TensorBox {
            view: 0,
            elem: Scalar::BF16,
            rank: 2,
            order: [1, 0, 0, 0, 0],
            extents: [64, 128, 0, 0, 0],
            swizzle: 128,
            tf32: false,
        };
        let one = |shape: &[i64]| {
            let args = [ViewArg::dense(3, Scalar::BF16, shape).at(64).into()];
            marshal(&[param(LTy::I64, ParamSource::Tensor(spec))], [7, 5, 2], &args, |buffer, offset| 1000 * buffer as u64 + offset)
        };
        let ParamValue::Tensor(t) = &one(&[100, 72]).unwrap()[0] else { panic!("no tensor") };
        assert_eq!((t.base, &t.extents[..], &t.strides[..], &t.box_extents[..]), (3064, &[72, 100][..], &[144][..], &[64, 128][..]));
        assert!(matches!(one(&[100, 71]), Err(AbiError::Tensor { param: 0, .. })));
        assert!(one(&[1, 71]).is_ok());
        let grid = |axis| marshal(&[param(LTy::I32, ParamSource::Grid(axis))], [7, 5, 2], &[], |_, _| 0).unwrap();
        assert_eq!(grid(GridAxis::Y), [ParamValue::Number { bits: 5, size: 4 }]);
    }

    #[test]
    fn misfits_are_named() {
        let args = [Arg::from(ScalarArg::int(Scalar::I32, 1)), ViewArg::dense(0, Scalar::F32, &[1 << 40]).into()];
        let one = |ty, source| marshal(&[param(ty, source)], [1; 3], &args, |_, _| 0).unwrap_err();
        assert_eq!(one(LTy::I32, ParamSource::Scalar(2)), AbiError::Missing { param: 0, arg: 2, count: 2 });
        assert_eq!(one(LTy::I64, ParamSource::Pointer(0)), AbiError::Kind { param: 0, arg: 0, want: "view" });
        assert_eq!(one(LTy::I64, ParamSource::Scalar(1)), AbiError::Kind { param: 0, arg: 1, want: "number" });
        assert_eq!(one(LTy::I64, ParamSource::Stride(1, 1)), AbiError::Rank { param: 0, arg: 1, dim: 1, rank: 1 });
        assert_eq!(one(LTy::F32, ParamSource::Scalar(0)), AbiError::Type { param: 0, want: LTy::F32, got: LTy::I32 });
        assert_eq!(one(LTy::I32, ParamSource::Extent(1, 0)), AbiError::Extent { param: 0, got: 1 << 40 });
    }
}
