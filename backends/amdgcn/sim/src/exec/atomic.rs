//! What atomics make of the old value and the operands.

use crate::isa::memory::Atomic;
use crate::num::{BF16, F16, ones, sext};

/// The new value. `b` is the second operand: the new value of a compare, the bits of a masked or.
pub(super) fn apply(op: Atomic, bytes: u8, old: u64, a: u64, b: u64) -> u64 {
    let bits = u32::from(bytes) * 8;
    let mask = ones(bits);
    let s = |v: u64| sext(v, bits);
    let float = |f: fn(f64, f64) -> f64| {
        if bits == 64 {
            f(f64::from_bits(old), f64::from_bits(a)).to_bits()
        } else {
            u64::from((f(f64::from(f32::from_bits(old as u32)), f64::from(f32::from_bits(a as u32))) as f32).to_bits())
        }
    };
    let equal_float =
        || if bits == 64 { f64::from_bits(old) == f64::from_bits(a) } else { f32::from_bits(old as u32) == f32::from_bits(a as u32) };
    let packed = |f: crate::num::Small| {
        let one = |at: u32| u64::from(f.encode(f.decode((old >> at) as u32 & 0xffff) + f.decode((a >> at) as u32 & 0xffff)));
        one(0) | one(16) << 16
    };
    let v = match op {
        Atomic::Add => old.wrapping_add(a),
        Atomic::Sub => old.wrapping_sub(a),
        Atomic::Rsub => a.wrapping_sub(old),
        Atomic::Inc => {
            if old >= a {
                0
            } else {
                old + 1
            }
        }
        Atomic::Dec => {
            if old == 0 || old > a {
                a
            } else {
                old - 1
            }
        }
        Atomic::MinI => {
            if s(a) < s(old) {
                a
            } else {
                old
            }
        }
        Atomic::MaxI => {
            if s(a) > s(old) {
                a
            } else {
                old
            }
        }
        Atomic::MinU => old.min(a),
        Atomic::MaxU => old.max(a),
        Atomic::And => old & a,
        Atomic::Or => old | a,
        Atomic::Xor => old ^ a,
        Atomic::MaskOr => old & !a | b,
        Atomic::Swap => a,
        // Memory: data then compare; LDS the other way round: the caller orders them as compare `a`, data `b`.
        Atomic::CmpSwap => {
            if old == a {
                b
            } else {
                old
            }
        }
        Atomic::CmpSwapF => {
            if equal_float() {
                b
            } else {
                old
            }
        }
        Atomic::MinF => float(|x, y| if y < x || x.is_nan() { y } else { x }),
        Atomic::MaxF => float(|x, y| if y > x || x.is_nan() { y } else { x }),
        Atomic::AddF => float(|x, y| x + y),
        Atomic::PkAddF16 => packed(F16),
        Atomic::PkAddBf16 => packed(BF16),
    };
    v & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn increments_wrap_where_the_operand_says() {
        assert_eq!(apply(Atomic::Inc, 4, 3, 3, 0), 0);
        assert_eq!(apply(Atomic::Inc, 4, 2, 3, 0), 3);
        assert_eq!(apply(Atomic::Dec, 4, 0, 3, 0), 3);
        assert_eq!(apply(Atomic::MinI, 4, 0xffff_ffff, 1, 0), 0xffff_ffff);
        assert_eq!(apply(Atomic::CmpSwap, 4, 5, 5, 9), 9);
        assert_eq!(apply(Atomic::AddF, 4, u64::from(1f32.to_bits()), u64::from(2f32.to_bits()), 0), u64::from(3f32.to_bits()));
    }
}
