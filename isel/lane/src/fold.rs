//! Constant arithmetic on integers, as the tile ops define it.

use super::op::BinOp;
use tilelift_ir::{CmpOp, Scalar, num};

/// Integer arithmetic as the tile ops define it; `None` for the ops that only floats have.
pub fn eval_int(op: BinOp, s: Scalar, x: i64, y: i64) -> Option<i64> {
    let width = i64::from(s.bits());
    let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    let wide = (y as u64 & mask) >= width as u64;
    let r = match op {
        BinOp::Add => x.wrapping_add(y),
        BinOp::Sub => x.wrapping_sub(y),
        BinOp::Mul => x.wrapping_mul(y),
        BinOp::Div => {
            if y == 0 {
                0
            } else {
                x.wrapping_div(y)
            }
        }
        BinOp::Rem => {
            if y == 0 {
                x
            } else {
                x.wrapping_rem(y)
            }
        }
        BinOp::Minimum => x.min(y),
        BinOp::Maximum => x.max(y),
        BinOp::And => x & y,
        BinOp::Or => x | y,
        BinOp::Xor => x ^ y,
        BinOp::Shl => {
            if wide {
                0
            } else {
                x << y
            }
        }
        BinOp::ShrS => x >> if wide { 63 } else { y },
        BinOp::ShrU => {
            if wide {
                0
            } else {
                ((x as u64 & mask) >> y) as i64
            }
        }
        BinOp::DivU => (x as u64 & mask).checked_div(y as u64 & mask).unwrap_or(0) as i64,
        BinOp::RemU => (x as u64 & mask).checked_rem(y as u64 & mask).unwrap_or(x as u64 & mask) as i64,
        BinOp::MulHi => ((i128::from(x) * i128::from(y)) >> width) as i64,
        BinOp::MulHiU => ((u128::from(x as u64 & mask) * u128::from(y as u64 & mask)) >> width) as i64,
        BinOp::MinimumU => (x as u64).min(y as u64) as i64,
        BinOp::MaximumU => (x as u64).max(y as u64) as i64,
        BinOp::MinNum | BinOp::MaxNum => return None,
    };
    Some(num::wrap(r, s))
}

/// Comparison of two integers of a type.
pub fn eval_cmp(op: CmpOp, s: Scalar, x: i64, y: i64) -> bool {
    let mask = if s.bits() == 64 { u64::MAX } else { (1u64 << s.bits()) - 1 };
    let (ux, uy) = (x as u64 & mask, y as u64 & mask);
    match op {
        CmpOp::Eq => x == y,
        CmpOp::Ne => x != y,
        CmpOp::Lt => x < y,
        CmpOp::Le => x <= y,
        CmpOp::Gt => x > y,
        CmpOp::Ge => x >= y,
        CmpOp::Ult => ux < uy,
        CmpOp::Ule => ux <= uy,
        CmpOp::Ugt => ux > uy,
        CmpOp::Uge => ux >= uy,
    }
}
