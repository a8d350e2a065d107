//! What instructions make of values.

use crate::env::Env;
use crate::value::{Abs, Lists};
use tilelift_ir::{CmpOp, Scalar};
use tilelift_lane::number::gcd;
use tilelift_lane::{BinOp, Inst, LTy, LVal};
use tilelift_lane::{eval_cmp, eval_int};

/// Computes what an instruction makes, if it is arithmetic on integers or truth values.
pub(super) fn eval(inst: &Inst, ty: impl Fn(LVal) -> LTy, env: &Env, lists: &Lists) -> Option<(LVal, Abs)> {
    let get = |v: &LVal| env.get(v).unwrap_or(Abs::Any);
    let scalar = |v: LVal| match ty(v) {
        LTy::Num(s) if !s.is_float() => Some(s),
        LTy::Num(_) | LTy::B32 => None,
    };
    match inst {
        Inst::Const { dst, bits } => scalar(*dst).map(|_| (*dst, Abs::All(*bits as i64))),
        Inst::Bin { dst, op, a, b } => {
            let s = scalar(*dst)?;
            let (a, b) = (get(a), get(b));
            Some((*dst, lists.once(inst, a, b, || bin(*op, s, a, b, lists))))
        }
        Inst::Cmp { dst, op, a, b } => {
            let s = scalar(*a)?;
            let (x, y) = (get(a), get(b));
            Some((*dst, lists.once(inst, x, y, || compare(*op, s, (*a, x), (*b, y), lists))))
        }
        Inst::Select { dst, c, a, b } => {
            scalar(*dst)?;
            let (a, b) = (get(a), get(b));
            Some((
                *dst,
                match get(c) {
                    Abs::All(0) => b,
                    Abs::All(_) => a,
                    Abs::Any | Abs::Lanes(_) | Abs::Index(..) | Abs::Count(..) => Abs::Any,
                },
            ))
        }
        Inst::Bitcast { dst, a } | Inst::Cvt { dst, a } if scalar(*dst).is_some() && scalar(*a).is_some() => Some((*dst, get(a))),
        _ => None,
    }
}

fn bin(op: BinOp, s: Scalar, a: Abs, b: Abs, lists: &Lists) -> Abs {
    match (op, a, b) {
        // A condition that is false everywhere decides a conjunction.
        (BinOp::And, Abs::All(0), _) | (BinOp::And, _, Abs::All(0)) => Abs::All(0),
        (BinOp::Add, Abs::Count(v, m), Abs::Count(w, n)) => Abs::Count(v + w, gcd(m, n)),
        (_, Abs::Count(v, m), Abs::All(c)) => count(op, v, m, c),
        (BinOp::Add | BinOp::Mul, Abs::All(c), Abs::Count(v, m)) => count(op, v, m, c),
        _ => lists.zip(a, b, |x, y| eval_int(op, s, x, y)),
    }
}

/// A counting number and a constant.
fn count(op: BinOp, v: i64, m: i64, c: i64) -> Abs {
    let whole = |c: i64| c > 0 && m % c == 0;
    let shifted = if (0..31).contains(&c) { 1 << c } else { 0 };
    match op {
        BinOp::Rem | BinOp::RemU if whole(c) => Abs::All(v % c),
        BinOp::Div | BinOp::DivU if whole(c) => Abs::Count(v / c, m / c),
        BinOp::ShrS | BinOp::ShrU if whole(shifted) => Abs::Count(v / shifted, m / shifted),
        BinOp::And if c >= 0 && (c + 1) & c == 0 && whole(c + 1) => Abs::All(v & c),
        BinOp::Add if v + c >= 0 => Abs::Count(v + c, m),
        BinOp::Sub if v - c >= 0 => Abs::Count(v - c, m),
        BinOp::Mul if c > 0 => v.checked_mul(c).zip(m.checked_mul(c)).map_or(Abs::Any, |(v, m)| Abs::Count(v, m)),
        _ => Abs::Any,
    }
}

/// A comparison of a counting number, which is at least `v`, with a constant.
fn count_compare(op: CmpOp, v: i64, m: i64, c: i64) -> Abs {
    let never = v > c || (c - v) % m != 0;
    match op {
        CmpOp::Eq if never => Abs::All(0),
        CmpOp::Ne if never => Abs::All(1),
        CmpOp::Lt if v >= c => Abs::All(0),
        CmpOp::Le if v > c => Abs::All(0),
        CmpOp::Gt if v > c => Abs::All(1),
        CmpOp::Ge if v >= c => Abs::All(1),
        _ => Abs::Any,
    }
}

fn compare(op: CmpOp, s: Scalar, (va, a): (LVal, Abs), (vb, b): (LVal, Abs), lists: &Lists) -> Abs {
    let first = match (a, b) {
        (Abs::Index(lo, first), _) if lo == vb => Some(first),
        (_, Abs::Index(lo, first)) if lo == va => Some(first),
        _ => None,
    };
    match (op, first) {
        (CmpOp::Eq, Some(first)) => Abs::All(i64::from(first)),
        (CmpOp::Ne, Some(first)) => Abs::All(i64::from(!first)),
        _ => match (a, b) {
            (Abs::Count(v, m), Abs::All(c)) => count_compare(op, v, m, c),
            _ => lists.zip(a, b, |x, y| Some(i64::from(eval_cmp(op, s, x, y)))),
        },
    }
}

/// What a number leaves when it is divided by a constant.
pub(super) fn remainder(a: Option<Abs>, by: i64) -> Abs {
    match a {
        Some(Abs::All(v)) => Abs::All(v % by),
        Some(Abs::Count(v, m)) => count(BinOp::Rem, v, m, by),
        _ => Abs::Any,
    }
}
