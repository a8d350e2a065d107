//! The launch ABI: a program's parameters filled from a kernel's arguments.
//!
//! ```text
//! args    [view a, view b, i32 7]
//! params  [pointer a, extent a 0, pointer b, scalar 2]  ── marshal ─►  [u64 address, 4-byte extent, u64 address, 4-byte 7]
//! ```
//!
//! Every device (the lane interpreter, the text simulator, a real driver) fills its parameter buffer from this one function, so that
//! the order and widths of parameters are decided in one place.

use crate::lane::{LTy, Param, ParamSource};
use std::fmt;
use tilelift_ir::Scalar;
use tilelift_ir::interp::{Arg, ViewArg};

/// The value of a launch parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ParamValue {
    /// The bits; integers are sign-extended to 64, floats stand in the low bits.
    pub bits: u64,
    /// Width in bytes in a parameter buffer: 1, 2, 4 or 8.
    pub size: u8,
}

impl ParamValue {
    /// The little-endian bytes of the value, `size` of them.
    pub fn bytes(&self) -> impl Iterator<Item = u8> {
        self.bits.to_le_bytes().into_iter().take(usize::from(self.size))
    }
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
            AbiError::Extent { param, got } => {
                write!(f, "launch parameter {param} carries the extent {got}; extents are 0 to {}", i32::MAX)
            }
        }
    }
}
impl std::error::Error for AbiError {}

/// Fills launch parameters from kernel arguments; `pointer_of` gives the device address of a byte of a buffer (index, offset in bytes).
///
/// The arguments should have passed [`tilelift_ir::interp::check_args`]: what the kernel's types promise is not checked again here.
///
/// # Errors
/// A parameter without a fitting argument.
pub fn marshal(params: &[Param], args: &[Arg], pointer_of: impl Fn(usize, u64) -> u64) -> Result<Vec<ParamValue>, AbiError> {
    params.iter().enumerate().map(|(i, p)| value(i, p, args, &pointer_of)).collect()
}

fn value(param: usize, p: &Param, args: &[Arg], pointer_of: &impl Fn(usize, u64) -> u64) -> Result<ParamValue, AbiError> {
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
    };
    if got != p.ty {
        return Err(AbiError::Type { param, want: p.ty, got });
    }
    let bits = if got == LTy::Num(Scalar::I1) { bits & 1 } else { bits };
    Ok(ParamValue { bits, size: got.bytes() as u8 })
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
    use tilelift_ir::interp::ScalarArg;

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
        let got = marshal(&params, &args, |buffer, offset| 1000 * buffer as u64 + offset).unwrap();
        let want = [(2032, 8), (8, 4), (8, 8), (0x3f80, 2), (1, 1)];
        assert_eq!(got.iter().map(|v| (v.bits, v.size)).collect::<Vec<_>>(), want);
        assert_eq!(got[0].bytes().collect::<Vec<_>>(), 2032u64.to_le_bytes());
        assert_eq!(got[3].bytes().collect::<Vec<_>>(), [0x80, 0x3f]);
    }

    #[test]
    fn misfits_are_named() {
        let args = [Arg::from(ScalarArg::int(Scalar::I32, 1)), ViewArg::dense(0, Scalar::F32, &[1 << 40]).into()];
        let one = |ty, source| marshal(&[param(ty, source)], &args, |_, _| 0).unwrap_err();
        assert_eq!(one(LTy::I32, ParamSource::Scalar(2)), AbiError::Missing { param: 0, arg: 2, count: 2 });
        assert_eq!(one(LTy::I64, ParamSource::Pointer(0)), AbiError::Kind { param: 0, arg: 0, want: "view" });
        assert_eq!(one(LTy::I64, ParamSource::Scalar(1)), AbiError::Kind { param: 0, arg: 1, want: "number" });
        assert_eq!(one(LTy::I64, ParamSource::Stride(1, 1)), AbiError::Rank { param: 0, arg: 1, dim: 1, rank: 1 });
        assert_eq!(one(LTy::F32, ParamSource::Scalar(0)), AbiError::Type { param: 0, want: LTy::F32, got: LTy::I32 });
        assert_eq!(one(LTy::I32, ParamSource::Extent(1, 0)), AbiError::Extent { param: 0, got: 1 << 40 });
    }
}
