//! Selection rules: an operation and a type to lines of PTX.
//!
//! ```text
//! add.i8    (Add, i8)   add.s16 $h0, #a, #b        $a #a   first operand, in a register / or an immediate
//!                       cvt.s16.s8 $d, $h0         $d      result          $h0     scratch register of class H
//!                                                  $k      the number that the condition found in operand b
//! ```
//!
//! A row may hold only under a condition on operand b being constant; such rows stand before the general one. The result is
//! written by the last line alone, so that it may share a register with an operand. Lines that compute in `f32` are written once:
//! the rows of `f16` and `bf16` refer to them ([`Body::ViaF32`]) wherever the format has no equal instruction. Types that an operation
//! does not take have no rows; [`refusal`] says why.

mod cast;
mod code;
mod compare;
mod float;
mod int;
mod line;
mod refusal;
mod rule;

pub(crate) use line::{Piece, Slot};
pub use refusal::NoRule;
pub(crate) use refusal::refusal;
pub(crate) use rule::Key;

use rule::{Body, Rule, When};
use std::sync::OnceLock;
use tilelift_ir::{CmpOp, Scalar};
use tilelift_isel::lane::{BinOp, LTy, Opcode, UnOp};

const TABLES: [&[Rule]; 9] = [int::I32, int::I64, int::I16, int::I8, int::BITS, float::ROWS, cast::ROWS, compare::ROWS, code::ROWS];

const TYPES: [LTy; 10] = [
    LTy::Num(Scalar::I1),
    LTy::Num(Scalar::I8),
    LTy::Num(Scalar::I16),
    LTy::Num(Scalar::I32),
    LTy::Num(Scalar::I64),
    LTy::Num(Scalar::F16),
    LTy::Num(Scalar::BF16),
    LTy::Num(Scalar::F32),
    LTy::Num(Scalar::F64),
    LTy::B32,
];
/// Numbers of the one-operand and two-operand operations: the first keys.
const UNS: usize = UnOp::ALL.len();
const BINS: usize = BinOp::ALL.len();
const REST: usize = UNS + BINS;
/// Behind them the other instructions, the comparisons, a cast from and a bitcast from every type.
const CMPS: usize = REST + Opcode::ALL.len();
const CASTS: usize = CMPS + CmpOp::ALL.len();
const KEYS: usize = CASTS + 2 * TYPES.len();

fn type_index(ty: LTy) -> usize {
    match ty {
        LTy::Num(s) => scalar_index(s),
        LTy::B32 => TYPES.len() - 1,
    }
}

/// The row of a scalar; codes of 8-bit floats are bytes.
fn scalar_index(s: Scalar) -> usize {
    if s.is_narrow() { Scalar::I8 as usize } else { s as usize }
}

fn key_index(key: Key) -> usize {
    match key {
        Key::Un(op) => op as usize,
        Key::Bin(op) => UNS + op as usize,
        Key::Plain(code) => REST + code as usize,
        Key::Cmp(op) => CMPS + op as usize,
        Key::Cvt(s) => CASTS + scalar_index(s),
        Key::Bits(ty) => CASTS + TYPES.len() + type_index(ty),
    }
}

/// A row as it is printed.
pub(crate) struct Row {
    rule: &'static Rule,
    /// The pieces of its lines, if it has lines of its own.
    lines: Option<Box<[Piece]>>,
}

impl Row {
    /// The pieces of its lines; `None` for a row that is the `f32` rule of the same key, between conversions.
    pub(crate) fn lines(&self) -> Option<&[Piece]> {
        self.lines.as_deref()
    }
}

/// The rows in table order, chained by key and type.
struct Index {
    rows: Vec<Row>,
    /// Where the rows of a key and type start and end in `rows`.
    ranges: Vec<(u16, u16)>,
}

fn index() -> &'static Index {
    static INDEX: OnceLock<Index> = OnceLock::new();
    INDEX.get_or_init(|| {
        let slot = |r: &Rule| key_index(r.key) * TYPES.len() + type_index(r.ty);
        let mut rules: Vec<&'static Rule> = TABLES.iter().flat_map(|t| t.iter()).collect();
        rules.sort_by_key(|r| slot(r));
        let mut ranges = vec![(0, 0); KEYS * TYPES.len()];
        for (i, r) in rules.iter().enumerate() {
            let range: &mut (u16, u16) = &mut ranges[slot(r)];
            if range.1 == 0 {
                range.0 = i as u16;
            }
            range.1 = i as u16 + 1;
        }
        let lines = |body| match body {
            Body::Lines(lines) => Some(line::pieces(lines)),
            Body::ViaF32 => None,
        };
        Index { rows: rules.into_iter().map(|rule| Row { rule, lines: lines(rule.body) }).collect(), ranges }
    })
}

/// The condition's number, if it holds for a constant operand b.
fn holds(when: When, ty: LTy, b: Option<u64>) -> Option<u32> {
    let mask = u64::MAX >> (64 - ty.bits().min(64));
    match (when, b) {
        (When::Always, _) => Some(0),
        (When::Power, Some(c)) => (c & mask).is_power_of_two().then(|| (c & mask).trailing_zeros()),
        (When::PositivePower, Some(c)) => holds(When::Power, ty, Some(c)).filter(|&k| k + 1 < ty.bits().min(64)),
        (When::Amount, Some(c)) => Some((c & mask).min(64) as u32),
        (When::Divisor, Some(c)) => (c & mask != 0 && c & mask != mask).then_some(0),
        (When::Power | When::PositivePower | When::Amount | When::Divisor, None) => None,
    }
}

/// The first row that holds, and its `$k`. `b` is the second operand's bits if it is constant.
pub(crate) fn select(key: Key, ty: LTy, b: Option<u64>) -> Option<(&'static Row, u32)> {
    let index = index();
    let (start, end) = index.ranges[key_index(key) * TYPES.len() + type_index(ty)];
    index.rows[start as usize..end as usize].iter().find_map(|r| holds(r.rule.when, ty, b).map(|k| (r, k)))
}

#[cfg(test)]
mod tests;
