//! Control flow, launch, fuel, uniformity.

use super::*;
use crate::abi::AbiError;
use crate::inst::{For, If, While};
use crate::value::Carried;
use tilelift_interp::ScalarArg;
use tilelift_ir::CmpOp;

fn carried(asm: &mut Asm, ty: LTy, init: LVal, next: impl FnOnce(&mut Asm, LVal) -> LVal) -> (Carried, Vec<Inst>) {
    let param = asm.val(ty);
    let outer = std::mem::take(&mut asm.p.body);
    let next = next(asm, param);
    let body = std::mem::replace(&mut asm.p.body, outer);
    let result = asm.val(ty);
    (Carried { param, init, next, result }, body)
}

/// Two values that swap on every round, one of which grows by the index.
fn swapping(lo: i64, hi: i64, step: i64) -> Asm {
    let mut asm = Asm::new(1);
    let (lo, hi, step) = (asm.i32(lo), asm.i32(hi), asm.i32(step));
    let (x0, y0) = (asm.i32(1), asm.i32(2));
    let [iv, x, y, xr, yr] = [(); 5].map(|()| asm.val(LTy::I32));
    let outer = std::mem::take(&mut asm.p.body);
    let grown = asm.bin(BinOp::Add, y, iv);
    let body = std::mem::replace(&mut asm.p.body, outer);
    let carried = vec![Carried { param: x, init: x0, next: grown, result: xr }, Carried { param: y, init: y0, next: x, result: yr }];
    asm.push(Inst::For(Box::new(For { iv, lo, hi, step, runs: false, carried, body })));
    asm.store(0, &[xr, yr]);
    asm
}

#[test]
fn counted_loops() {
    for (lo, hi, step) in [(0, 10, 1), (3, 3, 1), (5, 2, 1), (-7, 20, 4), (0, 1, 100), (i64::from(i32::MAX) - 5, i64::from(i32::MAX), 3)] {
        let mut m = memory([Buffer::uninit(256)]);
        swapping(lo, hi, step).run(&mut m).unwrap();
        let (mut x, mut y, mut i) = (1i32, 2i32, lo);
        while i < hi {
            (x, y) = (y.wrapping_add(i as i32), x);
            i += step;
        }
        assert_eq!(m.buffers[0].read_i64(Scalar::I32)[..4], [x, y, x, y].map(i64::from), "{lo}..{hi} step {step}");
    }
    for step in [0, -1] {
        assert_eq!(swapping(0, 4, step).fault(&mut memory([Buffer::uninit(256)])).0, LaneFault::Step { step });
    }
}

#[test]
fn while_loops() {
    // The Collatz steps of 27, which are 111.
    let mut asm = Asm::new(1);
    let (start, zero, one, two, three) = (asm.i32(27), asm.i32(0), asm.i32(1), asm.i32(2), asm.i32(3));
    let [x, n, xr, nr] = [(); 4].map(|()| asm.val(LTy::I32));
    let outer = std::mem::take(&mut asm.p.body);
    let condition = asm.def(LTy::I1, |dst| Inst::Cmp { dst, op: CmpOp::Ne, a: x, b: one });
    let test = std::mem::take(&mut asm.p.body);
    let bit = asm.bin(BinOp::And, x, one);
    let odd = asm.def(LTy::I1, |dst| Inst::Cmp { dst, op: CmpOp::Eq, a: bit, b: one });
    let up = asm.def(LTy::I32, |dst| Inst::Fma { dst, a: x, b: three, c: one });
    let down = asm.bin(BinOp::Div, x, two);
    let next = asm.def(LTy::I32, |dst| Inst::Select { dst, c: odd, a: up, b: down });
    let count = asm.bin(BinOp::Add, n, one);
    let body = std::mem::replace(&mut asm.p.body, outer);
    let carried = vec![Carried { param: x, init: start, next, result: xr }, Carried { param: n, init: zero, next: count, result: nr }];
    asm.push(Inst::While(Box::new(While { carried, test, condition, body })));
    asm.store(0, &[xr, nr]);
    let mut m = memory([Buffer::uninit(256)]);
    let stats = asm.run(&mut m).unwrap();
    assert_eq!(m.buffers[0].read_i64(Scalar::I32)[..2], [1, 111]);
    // The fuel bounds it: one unit per thread and instruction.
    let run = |fuel| {
        let mut m = memory([Buffer::uninit(256)]);
        let args = args(&m);
        interpret(&asm.p, &target(), [1, 1, 1], &args, &mut m, &LaneOptions { fuel, ..LaneOptions::default() })
    };
    assert_eq!(run(stats.instructions), Ok(stats));
    let limit = stats.instructions - 1;
    let Err(LaneError::Fault { fault, .. }) = run(limit) else { panic!("no fault") };
    assert_eq!(fault, LaneFault::Fuel { limit });
}

#[test]
fn choices() {
    for flag in [0, 1] {
        let mut asm = Asm::new(1);
        let condition = asm.constant(LTy::I1, flag);
        let outer = std::mem::take(&mut asm.p.body);
        let a = asm.i32(10);
        let then = std::mem::take(&mut asm.p.body);
        let b = asm.i32(20);
        let otherwise = std::mem::replace(&mut asm.p.body, outer);
        let r = asm.val(LTy::I32);
        asm.push(Inst::If(Box::new(If { condition, then, otherwise, results: vec![(r, a, b)] })));
        asm.store(0, &[r]);
        let mut m = memory([Buffer::uninit(128)]);
        asm.run(&mut m).unwrap();
        assert_eq!(m.buffers[0].read_i64(Scalar::I32), [if flag == 1 { 10 } else { 20 }; 32]);
    }
}

#[test]
fn divergent_control_is_refused() {
    let mut asm = Asm::new(1);
    let (lane, four) = (asm.special(Special::Lane), asm.i32(4));
    let condition = asm.def(LTy::I1, |dst| Inst::Cmp { dst, op: CmpOp::Lt, a: lane, b: four });
    asm.push(Inst::If(Box::new(If { condition, then: vec![], otherwise: vec![], results: vec![] })));
    assert_eq!(asm.fault(&mut Memory::new()), (LaneFault::Divergent { first: 1, here: 0 }, 4));
    let mut asm = Asm::new(1);
    let (lane, one) = (asm.special(Special::Lane), asm.i32(1));
    let iv = asm.val(LTy::I32);
    asm.push(Inst::For(Box::new(For { iv, lo: one, hi: lane, step: one, runs: false, carried: vec![], body: vec![] })));
    assert_eq!(asm.fault(&mut Memory::new()), (LaneFault::Divergent { first: 0, here: 1 }, 1));
}

#[test]
fn places_parameters_and_grids() {
    let mut asm = Asm::new(2);
    let source = [
        (LTy::I32, ParamSource::Extent(0, 1)),
        (LTy::I64, ParamSource::Stride(0, 0)),
        (LTy::Num(Scalar::I8), ParamSource::Scalar(1)),
        (LTy::I1, ParamSource::Scalar(2)),
    ];
    let params: Vec<LVal> = source
        .iter()
        .enumerate()
        .map(|(i, &(ty, source))| {
            asm.p.params.push(Param { ty, source });
            let v = asm.def(ty, |dst| Inst::Param { dst, index: i as u32 });
            asm.def(LTy::I64, |dst| Inst::Cvt { dst, a: v })
        })
        .collect();
    let mut sum = params[0];
    for (what, weight) in [
        (Special::Lane, 1),
        (Special::Warp, 100),
        (Special::ProgramId(GridAxis::X), 1000),
        (Special::ProgramId(GridAxis::Y), 10_000),
        (Special::ProgramId(GridAxis::Z), 100_000),
        (Special::NumPrograms(GridAxis::X), 1_000_000),
        (Special::NumPrograms(GridAxis::Y), 10_000_000),
        (Special::NumPrograms(GridAxis::Z), 100_000_000),
    ] {
        let (x, w) = (asm.special(what), asm.i32(weight));
        sum = asm.def(LTy::I64, |dst| Inst::MadWide { dst, a: x, b: w, c: sum });
    }
    for (&p, weight) in params[1..].iter().zip([1i64 << 32, 1 << 36, 1 << 40]) {
        let w = asm.constant(LTy::I64, weight as u64);
        let p = asm.bin(BinOp::Mul, p, w);
        sum = asm.bin(BinOp::Add, sum, p);
    }
    // Program (x, y, z) of a grid (2, 3, 2) writes 64 elements of 8 bytes.
    let at = [(Special::ProgramId(GridAxis::Z), 6), (Special::ProgramId(GridAxis::Y), 2), (Special::ProgramId(GridAxis::X), 1)];
    let mut block = asm.i32(0);
    for (what, weight) in at {
        let (x, w) = (asm.special(what), asm.i32(weight));
        block = asm.def(LTy::I32, |dst| Inst::Fma { dst, a: x, b: w, c: block });
    }
    let (lane, warp, two, lanes) = (asm.special(Special::Lane), asm.special(Special::Warp), asm.i32(2), asm.i32(32));
    let index = asm.def(LTy::I32, |dst| Inst::Fma { dst, a: block, b: two, c: warp });
    let index = asm.def(LTy::I32, |dst| Inst::Fma { dst, a: index, b: lanes, c: lane });
    let addr = asm.element(0, index, 8);
    asm.push(Inst::StoreGlobal { srcs: Vals::from_slice(&[sum]), addr, offset: 0, guard: None, cache: tilelift_ir::CacheHint::Normal });
    let mut m = memory([Buffer::uninit(12 * 64 * 8)]);
    let view = ViewArg::dense(0, Scalar::I64, &[96, 8]);
    let args = [Arg::from(view), ScalarArg::int(Scalar::I8, -3).into(), ScalarArg::int(Scalar::I1, 1).into()];
    let run =
        |m: &mut Memory, programs| interpret(&asm.p, &target(), [2, 3, 2], &args, m, &LaneOptions { programs, ..LaneOptions::default() });
    assert_eq!(run(&mut m, None).unwrap().programs, 12);
    let got = m.buffers[0].read_i64(Scalar::I64);
    for (i, &got) in got.iter().enumerate() {
        let i = i as i64;
        let (lane, warp, block) = (i % 32, i / 32 % 2, i / 64);
        let (x, y, z) = (block % 2, block / 2 % 3, block / 6);
        let want = 8 + lane + 100 * warp + 1000 * x + 10_000 * y + 100_000 * z + 232_000_000 + (8 << 32) - (3 << 36) + (1 << 40);
        assert_eq!(got, want, "element {i}");
    }
    // A subset runs alone.
    let mut m = memory([Buffer::uninit(12 * 64 * 8)]);
    assert_eq!(run(&mut m, Some(vec![[1, 2, 0]])).unwrap().programs, 1);
    let some = m.buffers[0].read_i64(Scalar::I64);
    assert_eq!((some[319], &some[320..384], some[384]), (-1, &got[320..384], -1));
    assert_eq!(run(&mut m, Some(vec![[2, 0, 0]])), Err(LaneError::Program { program: [2, 0, 0], grid: [2, 3, 2] }));
}

/// But a program that is named has to be in the grid.
#[test]
fn a_grid_without_programs_is_no_work() {
    let asm = neighbourless();
    let args = [ViewArg::dense(0, Scalar::I32, &[0]).into()];
    let mut m = memory([Buffer::uninit(0)]);
    for grid in [[0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 1 << 31, 1]] {
        let done = interpret(&asm.p, &target(), grid, &args, &mut m, &LaneOptions::default());
        assert_eq!(done, Ok(LaneStats::default()), "{grid:?}");
    }
    let named = LaneOptions { programs: Some(vec![[0, 0, 0]]), ..LaneOptions::default() };
    let outside = interpret(&asm.p, &target(), [0, 1, 1], &args, &mut m, &named);
    assert_eq!(outside, Err(LaneError::Program { program: [0, 0, 0], grid: [0, 1, 1] }));
}

#[test]
fn launches_that_cannot_be() {
    let asm = neighbourless();
    let mut m = memory([Buffer::uninit(128)]);
    let run = |m: &mut Memory, grid, args: &[Arg]| interpret(&asm.p, &target(), grid, args, m, &LaneOptions::default()).unwrap_err();
    let large = [1, 1 << 31, 1];
    assert_eq!(run(&mut m, large, &[]), LaneError::Grid { grid: large });
    assert_eq!(run(&mut m, [1, 1, 1], &[]), LaneError::Abi(AbiError::Missing { param: 0, arg: 0, count: 0 }));
    let far = [ViewArg::dense(7, Scalar::I32, &[4]).into()];
    assert_eq!(run(&mut m, [1, 1, 1], &far), LaneError::Buffer { buffer: 7, count: 1 });
    let mut wide = asm.p.clone();
    wide.lanes = 64;
    let e = interpret(&wide, &target(), [1, 1, 1], &[], &mut m, &LaneOptions::default()).unwrap_err();
    assert!(matches!(e, LaneError::Verify(_)), "{e}");
}

/// A program with a pointer parameter that stores each thread's number.
fn neighbourless() -> Asm {
    let mut asm = Asm::new(1);
    let t = asm.thread();
    asm.store(0, &[t]);
    asm
}

#[test]
fn a_value_carried_unchanged() {
    let mut asm = Asm::new(1);
    let init = asm.i32(9);
    let (c, body) = carried(&mut asm, LTy::I32, init, |_, param| param);
    let (zero, three, one) = (asm.i32(0), asm.i32(3), asm.i32(1));
    let iv = asm.val(LTy::I32);
    asm.push(Inst::For(Box::new(For { iv, lo: zero, hi: three, step: one, runs: false, carried: vec![c], body })));
    asm.store(0, &[c.result]);
    let mut m = memory([Buffer::uninit(128)]);
    asm.run(&mut m).unwrap();
    assert_eq!(m.buffers[0].read_i64(Scalar::I32), [9; 32]);
}
