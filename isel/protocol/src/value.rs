//! What the checker knows of a lane value: a number for every lane, which step of its loop an index stands for, or nothing.

use super::env::Env;
use cranelift_entity::EntityRef;
use std::cell::RefCell;
use std::rc::Rc;
use tilelift_ir::{CmpOp, Scalar};
use tilelift_lane::hash::Map;
use tilelift_lane::number::gcd;
use tilelift_lane::{BinOp, Inst, LTy, LVal, eval_cmp, eval_int};

/// A value as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) enum Abs {
    /// Any number.
    #[default]
    Any,
    /// The same number in all lanes.
    All(i64),
    /// A number per lane: the place of the list in [`Lists`]. Equal lists have one place.
    Lanes(u32),
    /// A number `v`, `v + m`, `v + 2m`, …, the same in all lanes; `v` is not negative.
    Count(i64, i64),
    /// The index of a loop that starts at the value; true in the first step.
    Index(LVal, bool),
}

impl Abs {
    /// As numbers.
    pub fn key(self, out: &mut Vec<u64>) {
        match self {
            Abs::Any => out.push(0),
            Abs::All(v) => out.extend([1, v as u64]),
            Abs::Lanes(n) => out.push(2 | u64::from(n) << 8),
            Abs::Count(v, m) => out.extend([3, v as u64, m as u64]),
            Abs::Index(v, first) => out.push(4 | u64::from(first) << 8 | (v.index() as u64) << 16),
        }
    }
}

/// The numbers of lanes, each list once, and what instructions have made of them: slots and rounds make the same ones over and over.
#[derive(Default)]
pub(super) struct Lists {
    all: RefCell<Vec<Rc<[i64]>>>,
    /// How many of each are not zero.
    counts: RefCell<Vec<u32>>,
    places: RefCell<Map<Rc<[i64]>, u32>>,
    made: RefCell<Map<(usize, Abs, Abs), Abs>>,
    sums: RefCell<Map<(u32, i64), Abs>>,
}

impl Lists {
    /// The numbers at a place.
    pub fn get(&self, n: u32) -> Rc<[i64]> {
        self.all.borrow().get(n as usize).cloned().unwrap_or_else(|| Rc::from([]))
    }

    /// A number per lane.
    pub fn of(&self, lanes: Vec<i64>) -> Abs {
        if let Some(&x) = lanes.first()
            && lanes.iter().all(|&y| y == x)
        {
            return Abs::All(x);
        }
        if let Some(&n) = self.places.borrow().get(&*lanes) {
            return Abs::Lanes(n);
        }
        let list: Rc<[i64]> = lanes.into();
        let mut all = self.all.borrow_mut();
        let n = all.len() as u32;
        self.counts.borrow_mut().push(list.iter().filter(|&&x| x != 0).count() as u32);
        all.push(list.clone());
        self.places.borrow_mut().insert(list, n);
        Abs::Lanes(n)
    }

    /// Per-lane numbers from a range of threads of all threads' numbers.
    pub fn slice(&self, a: Abs, range: std::ops::Range<usize>) -> Abs {
        match a {
            Abs::Lanes(n) => self.of(self.get(n).get(range).unwrap_or(&[]).to_vec()),
            Abs::Any | Abs::All(_) | Abs::Index(..) | Abs::Count(..) => a,
        }
    }

    /// In how many of `lanes` lanes a condition holds.
    pub fn count(&self, a: Abs, lanes: usize) -> Option<u32> {
        match a {
            Abs::All(0) => Some(0),
            Abs::All(_) => Some(lanes as u32),
            Abs::Lanes(n) => self.counts.borrow().get(n as usize).copied(),
            Abs::Count(v, _) if v > 0 => Some(lanes as u32),
            Abs::Any | Abs::Index(..) | Abs::Count(..) => None,
        }
    }

    /// The numbers at a place, and another one more.
    pub fn plus(&self, n: u32, more: i64) -> Abs {
        if let Some(&known) = self.sums.borrow().get(&(n, more)) {
            return known;
        }
        let made = self.of(self.get(n).iter().map(|x| x + more).collect());
        self.sums.borrow_mut().insert((n, more), made);
        made
    }

    fn zip(&self, a: Abs, b: Abs, f: impl Fn(i64, i64) -> Option<i64>) -> Abs {
        let all = |l: Option<Vec<i64>>| l.map_or(Abs::Any, |l| self.of(l));
        match (a, b) {
            (Abs::All(x), Abs::All(y)) => f(x, y).map_or(Abs::Any, Abs::All),
            (Abs::Lanes(l), Abs::All(y)) => all(self.get(l).iter().map(|&x| f(x, y)).collect()),
            (Abs::All(x), Abs::Lanes(l)) => all(self.get(l).iter().map(|&y| f(x, y)).collect()),
            (Abs::Lanes(a), Abs::Lanes(b)) => {
                let (a, b) = (self.get(a), self.get(b));
                if a.len() == b.len() { all(a.iter().zip(&*b).map(|(&x, &y)| f(x, y)).collect()) } else { Abs::Any }
            }
            // False wins whatever stands beside it is not used here: an unknown part makes the whole unknown.
            _ => Abs::Any,
        }
    }

    /// What an instruction makes of two values, kept where lanes differ.
    fn once(&self, inst: &Inst, a: Abs, b: Abs, f: impl FnOnce() -> Abs) -> Abs {
        if !matches!(a, Abs::Lanes(_)) && !matches!(b, Abs::Lanes(_)) {
            return f();
        }
        // The pointer only tells the program's instructions apart.
        let key = (std::ptr::from_ref(inst).addr(), a, b);
        if let Some(&known) = self.made.borrow().get(&key) {
            return known;
        }
        let made = f();
        self.made.borrow_mut().insert(key, made);
        made
    }
}

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

/// What a number leaves when it is divided by a constant.
pub(super) fn remainder(a: Option<Abs>, by: i64) -> Abs {
    match a {
        Some(Abs::All(v)) => Abs::All(v % by),
        Some(Abs::Count(v, m)) => count(BinOp::Rem, v, m, by),
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
