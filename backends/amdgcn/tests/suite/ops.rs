//! Every operation on every type: the machine code computes what the lane interpreter computes, on edges and random numbers.

use crate::common::device::*;
use crate::common::numbers::*;
use tilelift_ir::{CmpOp, Scalar};
use tilelift_lane::{BinOp, Inst, LTy, LVal, Param, ParamSource, Program, ShuffleFrom, Special, UnOp, Vals};

const INTS: [Scalar; 4] = [Scalar::I8, Scalar::I16, Scalar::I32, Scalar::I64];
const FLOATS: [Scalar; 4] = [Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64];
const INT_OPS: &[BinOp] = &[
    BinOp::Add,
    BinOp::Sub,
    BinOp::Mul,
    BinOp::Div,
    BinOp::Rem,
    BinOp::Minimum,
    BinOp::Maximum,
    BinOp::And,
    BinOp::Or,
    BinOp::Xor,
    BinOp::Shl,
    BinOp::ShrS,
    BinOp::ShrU,
    BinOp::DivU,
    BinOp::RemU,
    BinOp::MulHi,
    BinOp::MulHiU,
    BinOp::MinimumU,
    BinOp::MaximumU,
];
const INT_UNS: &[UnOp] = &[UnOp::Neg, UnOp::Abs, UnOp::Not, UnOp::Popcount, UnOp::Clz];
const N: usize = 2048;

/// Collects what went wrong.
#[derive(Default)]
struct Wrong(Vec<String>);

impl Wrong {
    fn see(&mut self, r: Result<(), String>) {
        if let Err(e) = r {
            self.0.push(e.chars().take(if self.0.is_empty() { 6000 } else { 300 }).collect());
        }
    }
}

impl Drop for Wrong {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert!(self.0.is_empty(), "{} wrong:\n{}", self.0.len(), self.0.join("\n"));
        }
    }
}

fn un(a: &mut tilelift_lane::testing::Asm, op: UnOp, x: LVal) -> LVal {
    let ty = a.p.vals[x];
    a.def(ty, |dst| Inst::Un { dst, op, a: x })
}

fn unary(op: UnOp, elem: Scalar, tolerance: Tolerance) -> Result<(), String> {
    let ty = LTy::Num(elem);
    let p = elementwise(&format!("{op:?}_{elem}"), &[ty], ty, |a, v| un(a, op, v[0]));
    agree(&p, (N / 64) as u32, &[Data::View(elem, sample(elem, N, 1)), Data::View(elem, vec![0; N])], tolerance)
}

fn binary(op: BinOp, elem: Scalar) -> Result<(), String> {
    let ty = LTy::Num(elem);
    let p = elementwise(&format!("{op:?}_{elem}"), &[ty, ty], ty, |a, v| a.bin(op, v[0], v[1]));
    let (x, y) = pairs(elem, N, op as u64);
    agree(&p, (N / 64) as u32, &[Data::View(elem, x), Data::View(elem, y), Data::View(elem, vec![0; N])], Tolerance::Exact)
}

#[test]
fn integers() {
    let mut wrong = Wrong::default();
    for elem in INTS {
        INT_OPS.iter().for_each(|&op| wrong.see(binary(op, elem)));
        INT_UNS.iter().for_each(|&op| wrong.see(unary(op, elem, Tolerance::Exact)));
    }
    [BinOp::And, BinOp::Or, BinOp::Xor].iter().for_each(|&op| wrong.see(binary(op, Scalar::I1)));
    wrong.see(unary(UnOp::Not, Scalar::I1, Tolerance::Exact));
    wrong.see(unary(UnOp::Own, Scalar::I32, Tolerance::Exact));
}

/// One operand is constant.
#[test]
fn integers_with_a_constant() {
    let mut wrong = Wrong::default();
    for elem in INTS {
        let ty = LTy::Num(elem);
        for &op in INT_OPS {
            for c in [0i64, 1, -1, 2, 3, 8, 15, 16, 31, 32, 63, 64, 100, 127, -128, 1 << 40, i64::MIN] {
                let c = tilelift_ir::num::wrap(c, elem) as u64;
                let x = sample(elem, 128, c);
                for left in [false, true] {
                    let p = elementwise(&format!("{op:?}_{elem}_{c:x}_{left}"), &[ty], ty, |a, v| {
                        let k = a.constant(ty, c);
                        if left { a.bin(op, k, v[0]) } else { a.bin(op, v[0], k) }
                    });
                    wrong.see(agree(&p, 2, &[Data::View(elem, x.clone()), Data::View(elem, vec![0; 128])], Tolerance::Exact));
                }
            }
        }
    }
}

/// The operands are kernel arguments: alike in all lanes, in scalar registers where those can.
#[test]
fn integers_alike_in_all_lanes() {
    let mut wrong = Wrong::default();
    for elem in INTS {
        let ty = LTy::Num(elem);
        let mut a = asm(&format!("alike_{elem}"));
        let [x, y] = [0, 1].map(|i| {
            a.p.params.push(Param { ty, source: ParamSource::Scalar(i) });
            a.def(ty, |dst| Inst::Param { dst, index: i })
        });
        let mut results: Vec<LVal> = INT_OPS.iter().map(|&op| a.bin(op, x, y)).collect();
        results.extend(INT_UNS.iter().map(|&op| un(&mut a, op, x)));
        for &op in CmpOp::ALL {
            let c = a.def(LTy::I1, |dst| Inst::Cmp { dst, op, a: x, b: y });
            results.push(a.def(ty, |dst| Inst::Select { dst, c, a: x, b: y }));
            results.push(a.def(ty, |dst| Inst::Cvt { dst, a: c }));
        }
        for k in [1, 3, 7] {
            let k = a.constant(ty, k);
            results.push(a.bin(BinOp::Shl, x, k));
            results.push(a.bin(BinOp::ShrS, x, k));
            results.push(a.bin(BinOp::ShrU, x, k));
        }
        let base = a.pointer(2);
        for (i, &r) in results.iter().enumerate() {
            a.push(Inst::StoreGlobal {
                srcs: Vals::from_slice(&[r]),
                addr: base,
                offset: i as i32 * elem.bytes() as i32,
                guard: None,
                cache: tilelift_ir::CacheHint::Normal,
            });
        }
        // One lane stores: all would write the same.
        let lane = a.special(Special::Lane);
        let zero = a.i32(0);
        let first = a.def(LTy::I1, |dst| Inst::Cmp { dst, op: CmpOp::Eq, a: lane, b: zero });
        let body = &mut a.p.body;
        let at = body.iter().position(|i| matches!(i, Inst::StoreGlobal { .. })).unwrap();
        let made = body.split_off(body.len() - 3);
        body.splice(at..at, made);
        for inst in body.iter_mut() {
            if let Inst::StoreGlobal { guard, .. } = inst {
                *guard = Some(first);
            }
        }
        let (xs, ys) = pairs(elem, 96, 7);
        for (&x, &y) in xs.iter().zip(&ys) {
            let data = [Data::Number(elem, sign(x, elem)), Data::Number(elem, sign(y, elem)), Data::View(elem, vec![0; results.len()])];
            wrong.see(agree(&a.p, 1, &data, Tolerance::Exact));
        }
    }
}

fn sign(bits: u64, elem: Scalar) -> u64 {
    tilelift_ir::num::wrap(bits as i64, elem) as u64
}

#[test]
fn floats() {
    let mut wrong = Wrong::default();
    for elem in FLOATS {
        for op in [BinOp::Add, BinOp::Sub, BinOp::Mul, BinOp::Minimum, BinOp::Maximum, BinOp::MinNum, BinOp::MaxNum] {
            wrong.see(binary(op, elem));
        }
        if elem != Scalar::BF16 {
            wrong.see(binary(BinOp::Div, elem));
        }
        for op in [UnOp::Neg, UnOp::Abs, UnOp::Floor, UnOp::Ceil, UnOp::Round, UnOp::Trunc] {
            wrong.see(unary(op, elem, Tolerance::Exact));
        }
        let ty = LTy::Num(elem);
        let p =
            elementwise(&format!("fma_{elem}"), &[ty, ty, ty], ty, |a, v| a.def(ty, |dst| Inst::Fma { dst, a: v[0], b: v[1], c: v[2] }));
        let (x, y) = pairs(elem, N, 3);
        let z = sample(elem, N, 4);
        let data = [Data::View(elem, x), Data::View(elem, y), Data::View(elem, z), Data::View(elem, vec![0; N])];
        wrong.see(agree(&p, (N / 64) as u32, &data, Tolerance::Exact));
    }
    for elem in [Scalar::F16, Scalar::F32] {
        for op in [UnOp::Exp2, UnOp::Rsqrt, UnOp::Rcp] {
            wrong.see(unary(op, elem, Tolerance::Units(2)));
        }
        wrong.see(unary(UnOp::Log2, elem, Tolerance::Near(if elem == Scalar::F16 { 1e-3 } else { 1e-6 })));
    }
    wrong.see(unary(UnOp::RcpNormal, Scalar::F32, Tolerance::Units(2)));
    wrong.see(unary(UnOp::RoundBf16, Scalar::F32, Tolerance::Exact));
}

#[test]
fn conversions() {
    let mut wrong = Wrong::default();
    let all = [Scalar::I1].into_iter().chain(INTS).chain(FLOATS);
    for from in all.clone() {
        for to in all.clone().filter(|&t| t != from) {
            let (f, t) = (LTy::Num(from), LTy::Num(to));
            let p = elementwise(&format!("cvt_{from}_{to}"), &[f], t, |a, v| a.def(t, |dst| Inst::Cvt { dst, a: v[0] }));
            let data = [Data::View(from, sample(from, N, 9)), Data::View(to, vec![0; N])];
            wrong.see(agree(&p, (N / 64) as u32, &data, Tolerance::Exact));
        }
    }
    let casts = [(Scalar::I8, Scalar::I8), (Scalar::I16, Scalar::F16), (Scalar::BF16, Scalar::I16), (Scalar::F16, Scalar::BF16)];
    let wide = [(Scalar::I32, Scalar::F32), (Scalar::F32, Scalar::I32), (Scalar::I64, Scalar::F64), (Scalar::F64, Scalar::I64)];
    for (from, to) in casts.into_iter().chain(wide) {
        let (f, t) = (LTy::Num(from), LTy::Num(to));
        let p = elementwise(&format!("bits_{from}_{to}"), &[f], t, |a, v| a.def(t, |dst| Inst::Bitcast { dst, a: v[0] }));
        let data = [Data::View(from, sample(from, N, 9)), Data::View(to, vec![0; N])];
        wrong.see(agree(&p, (N / 64) as u32, &data, Tolerance::Exact));
    }
    let p = elementwise("tf32", &[LTy::F32], LTy::F32, |a, v| a.def(LTy::F32, |dst| Inst::RoundTf32 { dst, a: v[0] }));
    let data = [Data::View(Scalar::F32, sample(Scalar::F32, N, 9)), Data::View(Scalar::F32, vec![0; N])];
    wrong.see(agree(&p, (N / 64) as u32, &data, Tolerance::Exact));
}

#[test]
fn comparisons_and_choices() {
    let mut wrong = Wrong::default();
    for elem in [Scalar::I1].into_iter().chain(INTS).chain(FLOATS) {
        for &op in CmpOp::ALL {
            if op.is_unsigned() && !elem.is_int() {
                continue;
            }
            let ty = LTy::Num(elem);
            let p = elementwise(&format!("{op:?}_{elem}"), &[ty, ty], ty, |a, v| {
                let c = a.def(LTy::I1, |dst| Inst::Cmp { dst, op, a: v[0], b: v[1] });
                a.def(ty, |dst| Inst::Select { dst, c, a: v[1], b: v[0] })
            });
            let (x, y) = pairs(elem, N, 11);
            wrong.see(agree(
                &p,
                (N / 64) as u32,
                &[Data::View(elem, x), Data::View(elem, y), Data::View(elem, vec![0; N])],
                Tolerance::Exact,
            ));
        }
    }
}

/// Three words each.
fn words(name: &str, f: impl FnOnce(&mut tilelift_lane::testing::Asm, &[LVal]) -> LVal) -> (Program, Vec<Data>) {
    let p = elementwise(name, &[LTy::I32; 3], LTy::I32, f);
    let (x, y) = pairs(Scalar::I32, N, 5);
    let z = sample(Scalar::I32, N, 6);
    let e = Scalar::I32;
    (p, vec![Data::View(e, x), Data::View(e, y), Data::View(e, z), Data::View(e, vec![0; N])])
}

#[test]
fn bytes_and_words() {
    let mut wrong = Wrong::default();
    let grid = (N / 64) as u32;
    let mut see = |(p, data): (Program, Vec<Data>)| wrong.see(agree(&p, grid, &data, Tolerance::Exact));
    let i32 = LTy::I32;
    see(words("permute", |a, v| a.def(i32, |dst| Inst::Permute { dst, low: v[0], high: v[1], picks: v[2] })));
    see(words("permute_known", |a, v| {
        let picks = a.i32(0x0f67_2501);
        a.def(i32, |dst| Inst::Permute { dst, low: v[0], high: v[1], picks })
    }));
    see(words("funnel", |a, v| a.def(i32, |dst| Inst::Funnel { dst, high: v[0], low: v[1], by: v[2] })));
    for by in [0, 1, 8, 31, 32] {
        see(words("funnel_known", |a, v| {
            let by = a.i32(by);
            a.def(i32, |dst| Inst::Funnel { dst, high: v[0], low: v[1], by })
        }));
    }
    see(words("mask_flip", |a, v| a.def(i32, |dst| Inst::MaskFlip { dst, a: v[0], mask: v[1], flip: v[2] })));
    see(words("fma", |a, v| a.def(i32, |dst| Inst::Fma { dst, a: v[0], b: v[1], c: v[2] })));
    for signed in [false, true] {
        see(words("mad_wide", |a, v| {
            let c = a.def(LTy::I64, |dst| Inst::Cvt { dst, a: v[2] });
            let [x, y, c] = [v[0], v[1], c];
            let wide =
                a.def(LTy::I64, |dst| if signed { Inst::MadWide { dst, a: x, b: y, c } } else { Inst::MadWideU { dst, a: x, b: y, c } });
            let k = a.constant(LTy::I64, 32);
            let high = a.bin(BinOp::ShrU, wide, k);
            let [low, high] = [wide, high].map(|w| a.def(LTy::I32, |dst| Inst::Cvt { dst, a: w }));
            a.bin(BinOp::Xor, low, high)
        }));
    }
    // A product that is left for later, and is read in a loop's place.
    see(words("late", |a, v| {
        let wide = a.def(LTy::I64, |dst| Inst::Cvt { dst, a: v[0] });
        let k = a.constant(LTy::I64, 12);
        let product = a.bin(BinOp::Mul, wide, k);
        let other = a.def(LTy::I64, |dst| Inst::Cvt { dst, a: v[1] });
        let sum = a.bin(BinOp::Add, other, product);
        let k = a.constant(LTy::I64, 16);
        let up = a.bin(BinOp::ShrU, sum, k);
        a.def(LTy::I32, |dst| Inst::Cvt { dst, a: up })
    }));
    for (parts, elem) in [(2, Scalar::I16), (4, Scalar::I8)] {
        see(words("unpack", |a, v| {
            let word = a.def(LTy::B32, |dst| Inst::Bitcast { dst, a: v[0] });
            let dsts = a.vals(LTy::Num(elem), parts);
            a.push(Inst::Unpack { dsts: dsts.clone(), a: word });
            let turned: Vals = dsts.iter().rev().copied().collect();
            let packed = a.def(LTy::B32, |dst| Inst::Pack { dst, parts: turned });
            a.def(LTy::I32, |dst| Inst::Bitcast { dst, a: packed })
        }));
    }
    see(words("halves", |a, v| {
        let [x, y] = [v[0], v[1]].map(|w| a.def(LTy::B32, |dst| Inst::Bitcast { dst, a: w }));
        let dsts = a.vals(LTy::Num(Scalar::BF16), 2);
        a.push(Inst::Unpack { dsts: dsts.clone(), a: x });
        let other = a.vals(LTy::Num(Scalar::BF16), 2);
        a.push(Inst::Unpack { dsts: other.clone(), a: y });
        let packed = a.def(LTy::B32, |dst| Inst::Pack { dst, parts: Vals::from_slice(&[other[1], dsts[0]]) });
        a.def(LTy::I32, |dst| Inst::Bitcast { dst, a: packed })
    }));
}

#[test]
fn lanes_read_other_lanes() {
    let mut wrong = Wrong::default();
    for mask in 0..64 {
        let (p, data) = words("xor", |a, v| a.def(LTy::I32, |dst| Inst::Shuffle { dst, a: v[0], from: ShuffleFrom::Xor(mask) }));
        wrong.see(agree(&p, (N / 64) as u32, &data, Tolerance::Exact));
    }
    let (p, data) = words("lane", |a, v| {
        let k = a.i32(63);
        let lane = a.bin(BinOp::And, v[1], k);
        a.def(LTy::I32, |dst| Inst::Shuffle { dst, a: v[0], from: ShuffleFrom::Lane(lane) })
    });
    wrong.see(agree(&p, (N / 64) as u32, &data, Tolerance::Exact));
}
