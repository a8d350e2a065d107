//! The table is complete, and its lines are well formed.

use super::*;
use crate::class::shares_bits;
use std::collections::BTreeSet;
use tilelift_isel::lane::Inst;
use tilelift_isel::lane::testing::everything;

/// The instructions of one type that the table of lane instructions alone describes, with the types of their results.
fn plain() -> Vec<(Key, LTy)> {
    let program = everything().p;
    let one = |i: &Inst| match (i.results(), i.effect().computes()) {
        (&[dst, ..], true) => Some((Key::Plain(i.code()), program.vals[dst])),
        _ => None,
    };
    // Other keys, or text of their own.
    let elsewhere = |code: Opcode| {
        use Opcode::{Bin, Bitcast, Cmp, Const, Cvt, Divide, Fma, Pack, Param, Select, SharedAddr, Special, Un, Unpack};
        matches!(code, Const | Param | Special | SharedAddr | Un | Bin | Fma | Cmp | Select | Cvt | Bitcast | Pack | Unpack | Divide)
    };
    program.body.iter().filter(|i| !elsewhere(i.code())).filter_map(one).collect()
}

/// Every key with every type it is filed under.
fn keys() -> Vec<(Key, LTy)> {
    let mut all = Vec::new();
    for ty in TYPES {
        all.extend(UnOp::ALL.iter().map(|&op| (Key::Un(op), ty)));
        all.extend(BinOp::ALL.iter().map(|&op| (Key::Bin(op), ty)));
        all.extend(CmpOp::ALL.iter().map(|&op| (Key::Cmp(op), ty)));
        all.push((Key::Plain(Opcode::Fma), ty));
        all.push((Key::Plain(Opcode::Select), ty));
    }
    // Codes of 8-bit floats are bytes in a lane.
    let held = || Scalar::ALL.iter().filter(|s| !s.is_narrow());
    for &to in held() {
        all.extend(held().map(|&from| (Key::Cvt(from), LTy::Num(to))));
    }
    // Bit moves between classes of one width; within a class they are names.
    let width = |t: LTy| if let LTy::Num(s) = t { s.bits() } else { 32 };
    for from in TYPES {
        all.extend(TYPES.into_iter().filter(|&to| width(from) == width(to) && !shares_bits(from, to)).map(|to| (Key::Bits(from), to)));
    }
    all.extend(plain());
    all
}

#[test]
fn every_operation_has_a_row_for_every_type_that_it_takes() {
    let lacks = |&(key, ty): &(Key, LTy)| select(key, ty, None).is_none() && refusal(key, ty).is_none();
    let gaps: Vec<_> = keys().into_iter().filter(lacks).collect();
    assert!(gaps.is_empty(), "no row for {gaps:?}");
}

#[test]
fn a_refusal_has_no_row() {
    // Words are bits, too.
    let both = |&(key, ty): &(Key, LTy)| select(key, ty, None).is_some() && refusal(key, ty).is_some() && ty != LTy::B32;
    let both: Vec<_> = keys().into_iter().filter(both).collect();
    assert!(both.is_empty(), "refused, but there is a row for {both:?}");
    let shift = refusal(Key::Bin(BinOp::Shl), LTy::F32);
    assert_eq!(shift, Some(NoRule::Integers));
    assert_eq!(refusal(Key::Un(UnOp::Exp2), LTy::I32), Some(NoRule::Floats));
    let series = refusal(Key::Un(UnOp::Exp2), LTy::Num(Scalar::F64));
    assert_eq!(series, Some(NoRule::Instruction));
}

#[test]
fn every_row_can_be_chosen() {
    let all = keys();
    for rule in TABLES.iter().flat_map(|t| t.iter()) {
        assert!(all.contains(&(rule.key, rule.ty)), "{} is filed under nothing", rule.name);
        let constants = [None, Some(0), Some(3), Some(8), Some(u64::MAX)];
        let chosen = constants.iter().any(|&b| select(rule.key, rule.ty, b).is_some_and(|(r, _)| r.rule.name == rule.name));
        assert!(chosen, "{} stands behind rows that always hold", rule.name);
    }
}

#[test]
fn names_and_slots_are_unique() {
    let mut names = BTreeSet::new();
    for rule in TABLES.iter().flat_map(|t| t.iter()) {
        assert!(names.insert(rule.name), "{} twice", rule.name);
    }
    let slots: BTreeSet<usize> = keys().iter().map(|&(k, t)| key_index(k) * TYPES.len() + type_index(t)).collect();
    assert_eq!(slots.len(), keys().len());
    assert!(slots.iter().all(|&s| s < KEYS * TYPES.len()));
}

/// Placeholders of a line: the marked letters with their digits.
fn placeholders(line: &str) -> Vec<String> {
    line.split(['$', '#']).skip(1).map(|s| s.chars().take_while(|c| c.is_ascii_alphanumeric()).collect()).collect()
}

#[test]
fn lines_write_the_result_last_and_scratch_before_use() {
    for rule in TABLES.iter().flat_map(|t| t.iter()) {
        let Body::Lines(lines) = rule.body else { continue };
        let mut written = BTreeSet::new();
        for (i, line) in lines.iter().enumerate() {
            let (dst, sources) = placeholders(line).split_first().map(|(d, s)| (d.clone(), s.to_vec())).unwrap_or_default();
            for s in sources {
                let operand = ["a", "b", "c", "k"].contains(&s.as_str());
                assert!(operand || written.contains(&s), "{}: {s} is read before it is written", rule.name);
                assert!(s != "k" || rule.when != When::Always, "{}: no condition finds $k", rule.name);
            }
            assert_eq!(dst == "d", i + 1 == lines.len(), "{}: line {i} writes {dst}", rule.name);
            written.insert(dst);
        }
    }
}

#[test]
fn conditions_read_the_constant_in_its_own_width() {
    assert_eq!(holds(When::Power, LTy::I32, Some((-8i64) as u64)), None);
    assert_eq!(holds(When::Power, LTy::I32, Some(1 << 31)), Some(31));
    assert_eq!(holds(When::PositivePower, LTy::I32, Some(1 << 31)), None);
    assert_eq!(holds(When::PositivePower, LTy::I32, Some(1 << 30)), Some(30));
    assert_eq!(holds(When::PositivePower, LTy::I64, Some(1 << 31)), Some(31));
    assert_eq!(holds(When::Divisor, LTy::I32, Some(u64::MAX)), None);
    assert_eq!(holds(When::Divisor, LTy::Num(Scalar::I16), Some(7)), Some(0));
    assert_eq!(holds(When::Amount, LTy::I64, Some(u64::MAX)), Some(64));
    assert_eq!(holds(When::Amount, LTy::Num(Scalar::I16), Some(u64::MAX)), Some(64));
    assert_eq!(holds(When::Always, LTy::I32, None), Some(0));
}

/// What an operation counts for in the size of a program keeps up with the lines of its text: 1 for the first few, 1 for every eight more.
#[test]
fn long_rules_count_for_more() {
    for (key, ty) in keys() {
        let weight = match key {
            Key::Un(op) => op.size(),
            Key::Bin(op) => op.size(),
            _ => 1,
        };
        let Some((Row { rule, .. }, _)) = select(key, ty, None) else { continue };
        let lines = match rule.body {
            Body::Lines(lines) => lines.len(),
            // The `f32` rule, and conversions.
            Body::ViaF32 => match select(key, LTy::F32, None).map(|(r, _)| r.rule.body) {
                Some(Body::Lines(lines)) => lines.len() + 3,
                Some(Body::ViaF32) | None => 0,
            },
        };
        assert!(lines as u64 <= 8 * weight + 8, "{}: {lines} lines count for {weight}", rule.name);
    }
}
