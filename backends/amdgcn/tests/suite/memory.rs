//! Loads, stores, guards, updates, loops and choices: the machine code does what the lane interpreter does.

use crate::common::device::*;
use crate::common::numbers::*;
use tilelift_amdgcn::select::{Computation, Reason, SelectError};
use tilelift_amdgcn::{Chip, EmitError};
use tilelift_ir::{AtomicOp, CacheHint, CmpOp, GridAxis, MemoryOrder, Scalar, Scope};
use tilelift_lane::testing::Asm;
use tilelift_lane::{
    Atomic, AtomicKind, BinOp, Carried, For, If, Inst, LTy, LVal, Opcode, Param, ParamSource, Program, Space, Special, Vals, While,
};

const I32: LTy = LTy::I32;

fn check(program: &Program, grid: u32, data: &[Data]) {
    Chip::ALL.into_iter().for_each(|chip| check_on(chip, program, grid, data));
}

fn check_on(chip: Chip, program: &Program, grid: u32, data: &[Data]) {
    let [want, got] = both(chip, program, grid, data).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(want, got, "{chip} {program}");
}

/// A condition that differs per lane.
fn odd(a: &mut Asm) -> LVal {
    let lane = a.special(Special::Lane);
    let one = a.i32(1);
    let bit = a.bin(BinOp::And, lane, one);
    a.def(LTy::I1, |dst| Inst::Cmp { dst, op: CmpOp::Eq, a: bit, b: one })
}

#[test]
fn vectors_of_every_type_and_width() {
    let types = [Scalar::I1, Scalar::I8, Scalar::I16, Scalar::I32, Scalar::I64, Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64];
    for elem in types {
        for n in [1u32, 2, 4].into_iter().filter(|n| n * elem.bytes() <= 16) {
            for (guarded, others) in [(false, false), (true, false), (true, true)] {
                let ty = LTy::Num(elem);
                let mut a = asm("vectors");
                let guard = guarded.then(|| odd(&mut a));
                let other: Vals = if others {
                    (0..n).map(|i| a.constant(ty, u64::from(i + 1) & if elem == Scalar::I1 { 1 } else { 7 })).collect()
                } else {
                    Vals::new()
                };
                let t = a.thread();
                let [from, shared, to] =
                    [0, 1, 2].map(|i| if i == 1 { a.alloc(64 * n * elem.bytes()) } else { a.element(i / 2, t, n * elem.bytes()) });
                let dsts = a.vals(ty, n as usize);
                a.push(Inst::LoadGlobal { dsts: dsts.clone(), addr: from, offset: 0, guard, other, cache: CacheHint::Streaming });
                // Through shared memory, where only some lanes write.
                let lane = a.special(Special::Lane);
                let size = a.i32(i64::from(n * elem.bytes()));
                let at = a.def(I32, |dst| Inst::Fma { dst, a: lane, b: size, c: shared });
                a.push(Inst::StoreShared { addr: at, offset: 0, guard: None, srcs: dsts });
                let back = a.vals(ty, n as usize);
                a.push(Inst::LoadShared { dsts: back.clone(), addr: at, offset: 0 });
                let turned: Vals = back.iter().rev().copied().collect();
                a.push(Inst::StoreGlobal { srcs: turned, addr: to, offset: 0, guard, cache: CacheHint::Normal });
                let count = 128 * n as usize;
                check(&a.p, 2, &[Data::View(elem, sample(elem, count, 3)), Data::View(elem, vec![0; count])]);
            }
        }
    }
}

#[test]
fn far_offsets() {
    let mut a = asm("far");
    let base = a.pointer(0);
    let t = a.thread();
    let from = a.element(0, t, 4);
    let mut sum = a.i32(0);
    for (addr, offset) in [(base, 4092), (base, 40_000), (from, 4096), (from, 65_536), (from, 4)] {
        let dsts = a.vals(I32, 1);
        a.push(Inst::LoadGlobal { dsts: dsts.clone(), addr, offset, guard: None, other: Vals::new(), cache: CacheHint::Normal });
        sum = a.bin(BinOp::Add, sum, dsts[0]);
    }
    a.store(1, &[sum]);
    check(&a.p, 1, &[Data::View(Scalar::I32, sample(Scalar::I32, 20_000, 5)), Data::View(Scalar::I32, vec![0; 64])]);
}

/// Behind the 64 KiB that an offset reaches: on the chip that has more.
#[test]
fn far_places_in_shared_memory() {
    let mut a = asm("far_shared");
    let (near, far) = (a.alloc(70_000), a.alloc(80_000));
    let x = a.load(0, I32);
    let lane = a.special(Special::Lane);
    let four = a.i32(4);
    let mut sum = lane;
    for (base, offset) in [(near, 0), (near, 66_000), (far, 0), (far, 79_000)] {
        let at = a.def(I32, |dst| Inst::Fma { dst, a: lane, b: four, c: base });
        a.store_shared(at, offset, &[sum]);
        let same = a.load_shared(at, offset, I32);
        // All lanes read what the first wrote.
        let first = a.load_shared(base, offset, I32);
        sum = a.bin(BinOp::Add, same, x);
        sum = a.bin(BinOp::Xor, sum, first);
    }
    a.store(1, &[sum]);
    check_on(Chip::Gfx950, &a.p, 1, &[Data::View(Scalar::I32, sample(Scalar::I32, 64, 5)), Data::View(Scalar::I32, vec![0; 64])]);
    assert!(tilelift_amdgcn::emit(&a.p, Chip::Gfx942).is_err());
}

/// Each lane updates a place of its own, so that what was there is known.
#[test]
fn updates_of_every_kind_and_type() {
    let all = [
        AtomicOp::Add,
        AtomicOp::Min,
        AtomicOp::Max,
        AtomicOp::Umin,
        AtomicOp::Umax,
        AtomicOp::And,
        AtomicOp::Or,
        AtomicOp::Xor,
        AtomicOp::Xchg,
    ];
    let mut kinds: Vec<(Scalar, Option<AtomicOp>)> = Vec::new();
    for elem in [Scalar::I32, Scalar::I64] {
        kinds.extend(all.iter().map(|&op| (elem, Some(op))));
        kinds.push((elem, None));
    }
    for elem in [Scalar::F32, Scalar::F64] {
        kinds.extend([(elem, Some(AtomicOp::Add)), (elem, Some(AtomicOp::Xchg))]);
    }
    kinds.extend([(Scalar::F16, Some(AtomicOp::Add)), (Scalar::BF16, Some(AtomicOp::Add))]);
    for (elem, op) in kinds {
        for space in [Space::Global, Space::Shared] {
            for guarded in [false, true] {
                let (ty, size) = (LTy::Num(elem), elem.bytes());
                let mut a = asm("updates");
                let value = a.load(1, ty);
                let expected = a.load(2, ty);
                let guard = guarded.then(|| odd(&mut a));
                let t = a.thread();
                let place = a.element(0, t, size);
                let kind = op.map_or(AtomicKind::Cas(expected), AtomicKind::Op);
                let addr = if space == Space::Global {
                    place
                } else {
                    let shared = a.alloc(64 * size);
                    let lane = a.special(Special::Lane);
                    let bytes = a.i32(i64::from(size));
                    let at = a.def(I32, |dst| Inst::Fma { dst, a: lane, b: bytes, c: shared });
                    let first = a.load(0, ty);
                    a.store_shared(at, 0, &[first]);
                    // Neighbours share words of 16-bit elements.
                    a.push(Inst::Barrier);
                    at
                };
                let old = a.def(ty, |d| {
                    let (order, scope) = (MemoryOrder::AcqRel, Scope::Gpu);
                    Inst::Atomic(Box::new(Atomic { dst: Some(d), kind, space, addr, offset: 0, value, guard, order, scope }))
                });
                a.store(3, &[old]);
                if space == Space::Shared {
                    a.push(Inst::Barrier);
                    let new = a.load_shared(addr, 0, ty);
                    a.store(4, &[new]);
                }
                let n = 64;
                let before: Vec<u64> = sample(elem, n, 7).into_iter().map(|x| finite(elem, x)).collect();
                let by: Vec<u64> = sample(elem, 2 * n, 8).into_iter().skip(n).map(|x| finite(elem, x)).collect();
                let same: Vec<u64> = before.iter().enumerate().map(|(i, &x)| if i % 3 == 0 { x } else { 0 }).collect();
                let zeros = || Data::View(elem, vec![0; n]);
                let data = [Data::View(elem, before), Data::View(elem, by), Data::View(elem, same), zeros(), zeros()];
                for chip in Chip::ALL {
                    // That chip adds pairs of f16 in global memory alone, and no bf16.
                    let lacks = chip == Chip::Gfx90a && elem.bits() == 16 && (elem, space) != (Scalar::F16, Space::Global);
                    if !lacks {
                        check_on(chip, &a.p, 1, &data);
                        continue;
                    }
                    let refused = tilelift_amdgcn::emit(&a.p, chip).map(|_| ());
                    let why = EmitError::Select(SelectError::Computation(Computation::Other(Opcode::Atomic), ty, Reason::Chip(chip)));
                    assert_eq!(refused, Err(why));
                }
            }
        }
    }
}

/// Something that has one bit pattern.
fn finite(elem: Scalar, bits: u64) -> u64 {
    if elem.is_float() && !tilelift_ir::num::from_bits(bits, elem).is_finite() { 0 } else { bits }
}

#[test]
fn updates_by_many_and_their_orders() {
    for order in [MemoryOrder::Relaxed, MemoryOrder::Acquire, MemoryOrder::Release, MemoryOrder::AcqRel] {
        for scope in [Scope::Cta, Scope::Gpu, Scope::Sys] {
            let mut a = asm("counter");
            let base = a.pointer(0);
            let one = a.i32(1);
            let guard = odd(&mut a);
            a.push(Inst::Atomic(Box::new(Atomic {
                dst: None,
                kind: AtomicKind::Op(AtomicOp::Add),
                space: Space::Global,
                addr: base,
                offset: 4,
                value: one,
                guard: Some(guard),
                order,
                scope,
            })));
            check(&a.p, 3, &[Data::View(Scalar::I32, vec![5; 2])]);
        }
    }
}

fn param(a: &mut Asm, ty: LTy, arg: u32) -> LVal {
    let index = a.p.params.len() as u32;
    a.p.params.push(Param { ty, source: ParamSource::Scalar(arg) });
    a.def(ty, |dst| Inst::Param { dst, index })
}

/// Instructions that `f` appends, as a block.
fn block<R>(a: &mut Asm, f: impl FnOnce(&mut Asm) -> R) -> (Vec<Inst>, R) {
    let outer = std::mem::take(&mut a.p.body);
    let r = f(a);
    (std::mem::replace(&mut a.p.body, outer), r)
}

#[test]
fn counted_loops_carry_what_changes_places() {
    for elem in [Scalar::I8, Scalar::I32, Scalar::I64] {
        let ty = LTy::Num(elem);
        let mut a = asm("loops");
        let [lo, hi, step] = [1, 2, 3].map(|i| param(&mut a, ty, i));
        let lane = a.special(Special::Lane);
        let seven = a.i32(7);
        let [x, y, n, sum, iv] = [I32, I32, ty, I32, ty].map(|t| a.val(t));
        let results = [I32, I32, ty, I32].map(|t| a.val(t));
        let (body, (next_sum, next_n)) = block(&mut a, |a| {
            let i = if ty == I32 { iv } else { a.def(I32, |dst| Inst::Cvt { dst, a: iv }) };
            let t = a.bin(BinOp::Xor, sum, i);
            let t = a.bin(BinOp::Add, t, x);
            (a.bin(BinOp::Mul, t, seven), a.bin(BinOp::Add, n, iv))
        });
        let inits = [lane, seven, lo, lane];
        let carried = vec![
            // Two that change places every time, in vector registers and in scalar ones.
            Carried { param: x, init: inits[0], next: y, result: results[0] },
            Carried { param: y, init: inits[1], next: x, result: results[1] },
            Carried { param: n, init: inits[2], next: next_n, result: results[2] },
            Carried { param: sum, init: inits[3], next: next_sum, result: results[3] },
        ];
        a.push(Inst::For(Box::new(For { iv, lo, hi, step, runs: false, carried, body })));
        let low = if ty == I32 { results[2] } else { a.def(I32, |dst| Inst::Cvt { dst, a: results[2] }) };
        let mut all = results[3];
        for (v, k) in [(results[0], 3), (results[1], 5), (low, 11)] {
            let k = a.i32(k);
            let t = a.bin(BinOp::Mul, v, k);
            all = a.bin(BinOp::Add, all, t);
        }
        a.store(0, &[all]);
        let most = tilelift_ir::num::wrap(i64::MAX >> (64 - elem.bits()), elem);
        for (lo, hi, step) in
            [(0, 5, 1), (0, 6, 1), (3, 3, 1), (5, 2, 1), (-7, 9, 4), (most - 9, most, 4), (most - 1, most, most), (-most, most, most)]
        {
            let number = |x: i64| Data::Number(elem, x as u64);
            check(&a.p, 1, &[Data::View(Scalar::I32, vec![0; 64]), number(lo), number(hi), number(step)]);
        }
    }
}

#[test]
fn loops_on_conditions_and_choices() {
    let mut a = asm("collatz");
    let start = param(&mut a, I32, 1);
    let lane = a.special(Special::Lane);
    let [zero, one, three] = [0, 1, 3].map(|k| a.i32(k));
    let [n, steps, mix] = [I32, I32, I32].map(|t| a.val(t));
    let results = [I32, I32, I32].map(|t| a.val(t));
    let (test, condition) = block(&mut a, |a| a.def(LTy::I1, |dst| Inst::Cmp { dst, op: CmpOp::Gt, a: n, b: one }));
    let (body, [next, more, mixed]) = block(&mut a, |a| {
        let bit = a.bin(BinOp::And, n, one);
        let even = a.def(LTy::I1, |dst| Inst::Cmp { dst, op: CmpOp::Eq, a: bit, b: zero });
        let (then, half) = block(a, |a| a.bin(BinOp::ShrU, n, one));
        let (otherwise, [up, other]) = block(a, |a| {
            let t = a.bin(BinOp::Mul, n, three);
            [a.bin(BinOp::Add, t, one), a.bin(BinOp::Xor, mix, lane)]
        });
        let [next, mixed] = [a.val(I32), a.val(I32)];
        a.push(Inst::If(Box::new(If { condition: even, then, otherwise, results: vec![(next, half, up), (mixed, mix, other)] })));
        let t = a.bin(BinOp::Add, mixed, next);
        [next, a.bin(BinOp::Add, steps, one), t]
    });
    let carried = vec![
        Carried { param: n, init: start, next, result: results[0] },
        Carried { param: steps, init: zero, next: more, result: results[1] },
        Carried { param: mix, init: lane, next: mixed, result: results[2] },
    ];
    a.push(Inst::While(Box::new(While { carried, test, condition, body })));
    let t = a.bin(BinOp::Add, results[0], results[1]);
    let t = a.bin(BinOp::Xor, t, results[2]);
    a.store(0, &[t]);
    for n in [0, 1, 2, 7, 27] {
        check(&a.p, 1, &[Data::View(Scalar::I32, vec![0; 64]), Data::Number(Scalar::I32, n)]);
    }
}

#[test]
fn the_grid_and_failed_assertions() {
    let mut a = asm("grid");
    let [at, all] = [Special::ProgramId(GridAxis::X), Special::NumPrograms(GridAxis::X)].map(|s| a.special(s));
    let k = a.i32(100);
    let t = a.def(I32, |dst| Inst::Fma { dst, a: all, b: k, c: at });
    let bound = a.i32(10);
    let fits = a.def(LTy::I1, |dst| Inst::Cmp { dst, op: CmpOp::Lt, a: at, b: bound });
    a.push(Inst::Assert { condition: fits });
    a.store(0, &[t]);
    check(&a.p, 7, &[Data::View(Scalar::I32, vec![0; 64 * 7])]);
    for chip in Chip::ALL {
        assert!(both(chip, &a.p, 11, &[Data::View(Scalar::I32, vec![0; 64 * 11])]).is_err(), "{chip}");
    }
}
