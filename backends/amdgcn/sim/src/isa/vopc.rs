//! Vector compares: a row per type, condition, and whether EXEC is written, too. The number is made of the three.

use super::lane::class;
use super::vector::Enc::VC;
use super::vector::Ty::{self, *};
use super::vector::{Eval, Kind, Row, row};
use crate::num::{Env, x16, x32, x64};
use std::borrow::Cow;

/// Conditions of floats, by number; each `n` form is true for NaN as well.
const FLOAT: [&str; 16] = ["f", "lt", "eq", "le", "gt", "lg", "ge", "o", "u", "nge", "nlg", "ngt", "nle", "neq", "nlt", "tru"];
const INT: [&str; 8] = ["f", "lt", "eq", "le", "gt", "ne", "ge", "t"];

fn float<const COND: usize>(a: f64, b: f64) -> bool {
    match COND {
        0 => false,
        1 => a < b,
        2 => a == b,
        3 => a <= b,
        4 => a > b,
        5 => a.partial_cmp(&b).is_some_and(|o| o.is_ne()),
        6 => a >= b,
        7 => !a.is_nan() && !b.is_nan(),
        15 => true,
        // The second half negates the first in reverse order.
        8 => !float::<7>(a, b),
        9 => !float::<6>(a, b),
        10 => !float::<5>(a, b),
        11 => !float::<4>(a, b),
        12 => !float::<3>(a, b),
        13 => !float::<2>(a, b),
        _ => !float::<1>(a, b),
    }
}

fn int<const COND: usize>(a: i128, b: i128) -> bool {
    match COND {
        0 => false,
        1 => a < b,
        2 => a == b,
        3 => a <= b,
        4 => a > b,
        5 => a != b,
        6 => a >= b,
        _ => true,
    }
}

fn f16<const C: usize>(e: &Env, a: [u64; 3]) -> u64 {
    u64::from(float::<C>(x16(e, a[0]), x16(e, a[1])))
}

fn f32<const C: usize>(e: &Env, a: [u64; 3]) -> u64 {
    u64::from(float::<C>(f64::from(x32(e, a[0])), f64::from(x32(e, a[1]))))
}

fn f64_<const C: usize>(e: &Env, a: [u64; 3]) -> u64 {
    u64::from(float::<C>(x64(e, a[0]), x64(e, a[1])))
}

fn signed<const C: usize, const BITS: u32>(_: &Env, a: [u64; 3]) -> u64 {
    let x = |v: u64| i128::from(crate::num::sext(v, BITS));
    u64::from(int::<C>(x(a[0]), x(a[1])))
}

fn unsigned<const C: usize, const BITS: u32>(_: &Env, a: [u64; 3]) -> u64 {
    let x = |v: u64| i128::from(v & crate::num::ones(BITS));
    u64::from(int::<C>(x(a[0]), x(a[1])))
}

macro_rules! each {
    ($f:ident, 16) => {
        [
            $f::<0>, $f::<1>, $f::<2>, $f::<3>, $f::<4>, $f::<5>, $f::<6>, $f::<7>, $f::<8>, $f::<9>, $f::<10>, $f::<11>, $f::<12>,
            $f::<13>, $f::<14>, $f::<15>,
        ]
    };
    ($f:ident, $bits:literal) => {
        [$f::<0, $bits>, $f::<1, $bits>, $f::<2, $bits>, $f::<3, $bits>, $f::<4, $bits>, $f::<5, $bits>, $f::<6, $bits>, $f::<7, $bits>]
    };
}

pub(super) fn rows() -> Vec<Row> {
    let floats: [(&str, u16, Ty, [Eval; 16]); 3] =
        [("f16", 0x20, F16, each!(f16, 16)), ("f32", 0x40, F32, each!(f32, 16)), ("f64", 0x60, F64, each!(f64_, 16))];
    let ints: [(&str, u16, Ty, [Eval; 8]); 6] = [
        ("i16", 0xa0, B16, signed16()),
        ("u16", 0xa8, B16, unsigned16()),
        ("i32", 0xc0, B32, each!(signed, 32)),
        ("u32", 0xc8, B32, each!(unsigned, 32)),
        ("i64", 0xe0, B64, each!(signed, 64)),
        ("u64", 0xe8, B64, each!(unsigned, 64)),
    ];
    let mut all = Vec::new();
    let mut push = |name: String, op: u16, src: [Ty; 2], exec: bool, eval: Eval| {
        all.push(Row { name: Cow::Owned(name), ..row("", VC, op, &src, Mask, eval) }.kind(Kind::Cmp { exec }));
    };
    for (exec, prefix) in [(false, "v_cmp"), (true, "v_cmpx")] {
        let x = u16::from(exec);
        for (ty, base, src, evals) in &floats {
            for (i, cond) in FLOAT.iter().enumerate() {
                push(format!("{prefix}_{cond}_{ty}"), base + 16 * x + i as u16, [*src; 2], exec, evals[i]);
            }
        }
        for (ty, base, src, evals) in &ints {
            for (i, cond) in INT.iter().enumerate() {
                push(format!("{prefix}_{cond}_{ty}"), base + 16 * x + i as u16, [*src; 2], exec, evals[i]);
            }
        }
        push(format!("{prefix}_class_f32"), 0x10 + x, [F32, B32], exec, |_, a| class(a[0], 8, 23, a[1]));
        push(format!("{prefix}_class_f64"), 0x12 + x, [F64, B32], exec, |_, a| class(a[0], 11, 52, a[1]));
        push(format!("{prefix}_class_f16"), 0x14 + x, [F16, B32], exec, |_, a| class(a[0], 5, 10, a[1]));
    }
    all
}

fn signed16() -> [Eval; 8] {
    [signed::<0, 16>, signed::<1, 16>, signed::<2, 16>, signed::<3, 16>, signed::<4, 16>, signed::<5, 16>, signed::<6, 16>, signed::<7, 16>]
}

fn unsigned16() -> [Eval; 8] {
    [
        unsigned::<0, 16>,
        unsigned::<1, 16>,
        unsigned::<2, 16>,
        unsigned::<3, 16>,
        unsigned::<4, 16>,
        unsigned::<5, 16>,
        unsigned::<6, 16>,
        unsigned::<7, 16>,
    ]
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn there_are_as_many_as_the_assembler_knows() {
        let rows = rows();
        assert_eq!(rows.len(), 198);
        assert!(rows.iter().any(|r| r.name == "v_cmp_gt_u32" && r.op == 0xcc));
        assert!(rows.iter().any(|r| r.name == "v_cmpx_nge_f16" && r.op == 57));
    }
}
