//! Reciprocals, and reciprocal square roots, where a machine has none of its own: by division, and by the square root, which round to
//! nearest on every machine.

use super::{Wide, number, own, widened};
use crate::lane::{BinOp, LVal, LaneBuilder, UnOp};
use tilelift_ir::Scalar;

/// `1 / a`.
pub(in crate::lower) fn rcp(b: &mut LaneBuilder, a: LVal, elem: Scalar) -> LVal {
    if let Some(v) = own(b, UnOp::Rcp, a, elem) {
        return v;
    }
    widened(b, [a], elem, |b, [a], wide| own(b, UnOp::Rcp, a, wide.scalar()).unwrap_or_else(|| inverse(b, a, wide)))
}

/// `1 / a` of an `f32`, where subnormal numbers do not matter.
pub(super) fn rcp_normal(b: &mut LaneBuilder, a: LVal) -> LVal {
    own(b, UnOp::RcpNormal, a, Scalar::F32).unwrap_or_else(|| rcp(b, a, Scalar::F32))
}

/// `1 / sqrt(a)`.
pub(in crate::lower) fn rsqrt(b: &mut LaneBuilder, a: LVal, elem: Scalar) -> LVal {
    if let Some(v) = own(b, UnOp::Rsqrt, a, elem) {
        return v;
    }
    widened(b, [a], elem, |b, [a], wide| {
        own(b, UnOp::Rsqrt, a, wide.scalar()).unwrap_or_else(|| {
            let root = b.un(UnOp::Sqrt, a);
            inverse(b, root, wide)
        })
    })
}

fn inverse(b: &mut LaneBuilder, a: LVal, wide: Wide) -> LVal {
    let one = number(b, 1.0, wide.scalar());
    b.bin(BinOp::Div, one, a)
}
