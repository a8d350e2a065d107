//! What the checker knows of a lane value: a number for every lane, which step of its loop an index stands for, or nothing.

use super::env::Env;
use crate::lane::{BinOp, Inst, LTy, LVal, eval_cmp, eval_int};
use std::rc::Rc;
use tilelift_ir::{CmpOp, Scalar};

/// A value as far as it is known.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum Abs {
    /// Any number.
    Any,
    /// The same number in all lanes.
    All(i64),
    /// A number per lane.
    Lanes(Rc<[i64]>),
    /// A number `v`, `v + m`, `v + 2m`, …, the same in all lanes; `v` is not negative.
    Count(i64, i64),
    /// The index of a loop that starts at the value; true in the first step.
    Index(LVal, bool),
}

impl Abs {
    fn of(lanes: Vec<i64>) -> Abs {
        match lanes.first() {
            Some(&x) if lanes.iter().all(|&y| y == x) => Abs::All(x),
            Some(_) | None => Abs::Lanes(lanes.into()),
        }
    }

    /// Per-lane numbers from a range of threads of all threads' numbers.
    pub(super) fn slice(&self, range: std::ops::Range<usize>) -> Abs {
        match self {
            Abs::Lanes(l) => Abs::of(l.get(range).unwrap_or(&[]).to_vec()),
            Abs::Any | Abs::All(_) | Abs::Index(..) | Abs::Count(..) => self.clone(),
        }
    }

    /// In how many of `lanes` lanes a condition holds.
    pub(super) fn count(&self, lanes: usize) -> Option<u32> {
        match self {
            Abs::All(0) => Some(0),
            Abs::All(_) => Some(lanes as u32),
            Abs::Lanes(l) => Some(l.iter().filter(|&&x| x != 0).count() as u32),
            Abs::Count(v, _) if *v > 0 => Some(lanes as u32),
            Abs::Any | Abs::Index(..) | Abs::Count(..) => None,
        }
    }

    fn zip(&self, other: &Abs, f: impl Fn(i64, i64) -> Option<i64>) -> Abs {
        let all = |l: Option<Vec<i64>>| l.map_or(Abs::Any, Abs::of);
        match (self, other) {
            (Abs::All(x), Abs::All(y)) => f(*x, *y).map_or(Abs::Any, Abs::All),
            (Abs::Lanes(l), Abs::All(y)) => all(l.iter().map(|&x| f(x, *y)).collect()),
            (Abs::All(x), Abs::Lanes(l)) => all(l.iter().map(|&y| f(*x, y)).collect()),
            (Abs::Lanes(a), Abs::Lanes(b)) if a.len() == b.len() => all(a.iter().zip(&**b).map(|(&x, &y)| f(x, y)).collect()),
            // False wins whatever stands beside it is not used here: an unknown part makes the whole unknown.
            _ => Abs::Any,
        }
    }
}

/// Computes what an instruction makes, if it is arithmetic on integers or truth values.
pub(super) fn eval(inst: &Inst, ty: impl Fn(LVal) -> LTy, env: &Env) -> Option<(LVal, Abs)> {
    let get = |v: &LVal| env.get(v).cloned().unwrap_or(Abs::Any);
    let scalar = |v: LVal| match ty(v) {
        LTy::Num(s) if !s.is_float() => Some(s),
        LTy::Num(_) | LTy::B32 => None,
    };
    match inst {
        Inst::Const { dst, bits } => scalar(*dst).map(|_| (*dst, Abs::All(*bits as i64))),
        Inst::Bin { dst, op, a, b } => {
            let s = scalar(*dst)?;
            Some((*dst, bin(*op, s, &get(a), &get(b))))
        }
        Inst::Cmp { dst, op, a, b } => {
            let s = scalar(*a)?;
            Some((*dst, compare(*op, s, (*a, &get(a)), (*b, &get(b)))))
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

fn bin(op: BinOp, s: Scalar, a: &Abs, b: &Abs) -> Abs {
    match (op, a, b) {
        // A condition that is false everywhere decides a conjunction.
        (BinOp::And, Abs::All(0), _) | (BinOp::And, _, Abs::All(0)) => Abs::All(0),
        (BinOp::Add, Abs::Count(v, m), Abs::Count(w, n)) => Abs::Count(v + w, gcd(*m, *n)),
        (_, Abs::Count(v, m), Abs::All(c)) => count(op, *v, *m, *c),
        (BinOp::Add | BinOp::Mul, Abs::All(c), Abs::Count(v, m)) => count(op, *v, *m, *c),
        _ => a.zip(b, |x, y| eval_int(op, s, x, y)),
    }
}

pub(super) fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
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

/// What a number leaves when it is divided by a constant.
pub(super) fn remainder(a: Option<&Abs>, by: i64) -> Abs {
    match a {
        Some(Abs::All(v)) => Abs::All(v % by),
        Some(Abs::Count(v, m)) => count(BinOp::Rem, *v, *m, by),
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

fn compare(op: CmpOp, s: Scalar, (va, a): (LVal, &Abs), (vb, b): (LVal, &Abs)) -> Abs {
    let first = match (a, b) {
        (Abs::Index(lo, first), _) if *lo == vb => Some(*first),
        (_, Abs::Index(lo, first)) if *lo == va => Some(*first),
        _ => None,
    };
    match (op, first) {
        (CmpOp::Eq, Some(first)) => Abs::All(i64::from(first)),
        (CmpOp::Ne, Some(first)) => Abs::All(i64::from(!first)),
        _ => match (a, b) {
            (Abs::Count(v, m), Abs::All(c)) => count_compare(op, *v, *m, *c),
            _ => a.zip(b, |x, y| Some(i64::from(eval_cmp(op, s, x, y)))),
        },
    }
}
