//! Loops and choices: bounds, carried values in every arrangement, and the registers they share.

use crate::common::*;
use tilelift_ir::{CmpOp, Scalar};
use tilelift_isel::lane::{BinOp, Block, Carried, For, If, Inst, LVal, MatrixProduct, Program, While};
use tilelift_nvptx::sm_80;

fn for_loop(a: &mut Asm, bounds: [LVal; 3], init: &[LVal], body: impl FnOnce(&mut Asm, LVal, &[LVal]) -> Vec<LVal>) -> Vec<LVal> {
    let [lo, hi, step] = bounds;
    let iv = a.val(a.p.vals[lo]);
    let params: Vec<LVal> = init.iter().map(|&v| a.val(a.p.vals[v])).collect();
    let (block, next) = a.block(|a| body(a, iv, &params));
    let carried = carry(a, &params, init, &next);
    let results = carried.iter().map(|c| c.result).collect();
    a.push(Inst::For(Box::new(For { iv, lo, hi, step, runs: false, carried, body: block })));
    results
}

fn carry(a: &mut Asm, params: &[LVal], init: &[LVal], next: &[LVal]) -> Vec<Carried> {
    let mut out = Vec::new();
    for ((&param, &init), &next) in params.iter().zip(init).zip(next) {
        let result = a.val(a.p.vals[param]);
        out.push(Carried { param, init, next, result });
    }
    out
}

fn while_loop(
    a: &mut Asm,
    init: &[LVal],
    test: impl FnOnce(&mut Asm, &[LVal]) -> LVal,
    body: impl FnOnce(&mut Asm, &[LVal]) -> Vec<LVal>,
) -> Vec<LVal> {
    let params: Vec<LVal> = init.iter().map(|&v| a.val(a.p.vals[v])).collect();
    let (test, condition) = a.block(|a| test(a, &params));
    let (body, next) = a.block(|a| body(a, &params));
    let carried = carry(a, &params, init, &next);
    let results = carried.iter().map(|c| c.result).collect();
    a.push(Inst::While(Box::new(While { carried, test, condition, body })));
    results
}

fn if_else(a: &mut Asm, condition: LVal, then: (Block, Vec<LVal>), otherwise: (Block, Vec<LVal>)) -> Vec<LVal> {
    let mut results = Vec::new();
    for (&x, &y) in then.1.iter().zip(&otherwise.1) {
        results.push((a.val(a.p.vals[x]), x, y));
    }
    let out = results.iter().map(|r| r.0).collect();
    a.push(Inst::If(Box::new(If { condition, then: then.0, otherwise: otherwise.0, results })));
    out
}

fn lt(a: &mut Asm, x: LVal, y: LVal) -> LVal {
    a.def(I1, |dst| Inst::Cmp { dst, op: CmpOp::Lt, a: x, b: y })
}

/// One warp; buffer 0 holds uniform parameters (all lanes load element k), buffer 1 a word per lane, the last takes `results` words per lane.
fn program(name: &str, uniforms: usize, results: usize, f: impl FnOnce(&mut Asm, &[LVal], LVal) -> Vec<LVal>) -> Program {
    let mut a = Asm::new(name, 1);
    let t = a.thread();
    let (u, x, out) = (a.pointer(0), a.pointer(1), a.pointer(2));
    let us: Vec<LVal> = (0..uniforms).map(|k| a.load(I32, 1, u, 4 * k as i32)[0]).collect();
    let from = a.address(x, t, 4);
    let v = a.load(I32, 1, from, 0)[0];
    let rs = f(&mut a, &us, v);
    assert_eq!(rs.len(), results);
    let to = a.address(out, t, 4 * results as u32);
    for (k, &r) in rs.iter().enumerate() {
        a.store(&[r], to, 4 * k as i32);
    }
    a.finish()
}

fn run(asm: &mut Assembly, p: &Program, uniforms: &[i64], results: usize) {
    let u: Vec<u64> = if uniforms.is_empty() { vec![0] } else { uniforms.iter().map(|&x| x as u64).collect() };
    let data = [Data::bits(Scalar::I32, &u), Data::bits(Scalar::I32, &sample(Scalar::I32, 32, 1)), Data::zeros(Scalar::I32, 32 * results)];
    agree(asm, p, 1, &data, Tolerance::Exact);
}

#[test]
fn bounds_in_every_form() {
    let asm = &mut Assembly::default();
    let cases: [(i64, i64, i64); 12] = [
        (0, 10, 1),
        (0, 10, 3),
        (3, 3, 1),
        (5, 2, 1),
        (-7, 8, 5),
        (0, 1, 100),
        (i64::from(i32::MAX) - 10, i64::from(i32::MAX), 3),
        (i64::from(i32::MAX) - 10, i64::from(i32::MAX), 1),
        (i64::from(i32::MIN), i64::from(i32::MIN) + 7, 2),
        (i64::from(i32::MIN), i64::from(i32::MAX), 1 << 30),
        (-2_000_000_000, -1_900_000_000, 2_000_000_000),
        (0, 12, 4),
    ];
    for (lo, hi, step) in cases {
        // Each bound as a constant or read from memory.
        for dynamic in 0..8 {
            let p = program(&format!("for_{dynamic}"), 3, 2, |a, u, x| {
                let c = [lo, hi, step].map(|c| a.i32(c as i32));
                let bounds = [0, 1, 2].map(|k| if dynamic >> k & 1 == 1 { u[k] } else { c[k] });
                let zero = a.i32(0);
                for_loop(a, bounds, &[x, zero], |a, iv, p| {
                    let s = a.bin(BinOp::Add, p[0], iv);
                    let one = a.i32(1);
                    vec![s, a.bin(BinOp::Add, p[1], one)]
                })
            });
            run(asm, &p, &[lo, hi, step], 2);
        }
    }
    asm.check("sm_80");
}

#[test]
fn carried_values_in_every_arrangement() {
    let asm = &mut Assembly::default();
    for (name, shape) in
        [("swap", 0), ("rotate", 1), ("keep", 2), ("outer", 3), ("same", 4), ("index", 5), ("late_use", 6), ("constant", 7)]
    {
        let p = program(name, 1, 3, |a, u, x| {
            let (zero, one, seven) = (a.i32(0), a.i32(1), a.i32(7));
            let y = a.bin(BinOp::Xor, x, seven);
            let z = a.bin(BinOp::Add, x, u[0]);
            let r = for_loop(a, [zero, u[0], one], &[x, y, z], |a, iv, p| match shape {
                0 => vec![p[1], p[0], p[2]],
                1 => vec![p[1], p[2], p[0]],
                2 => vec![p[0], p[1], a.bin(BinOp::Add, p[0], p[2])],
                3 => vec![y, a.bin(BinOp::Add, p[0], p[1]), x],
                4 => {
                    let s = a.bin(BinOp::Add, p[0], p[1]);
                    vec![s, s, s]
                }
                5 => vec![iv, p[0], a.bin(BinOp::Add, iv, p[2])],
                6 => {
                    // The next value exists while the old one is still read.
                    let next = a.bin(BinOp::Mul, p[0], seven);
                    let s = a.bin(BinOp::Add, p[0], p[1]);
                    let t = a.bin(BinOp::Add, s, next);
                    vec![next, t, s]
                }
                _ => vec![seven, p[0], p[1]],
            });
            // Initial values are read again behind the loop.
            let w = a.bin(BinOp::Add, r[0], x);
            vec![w, r[1], r[2]]
        });
        for n in [0, 1, 2, 5] {
            run(asm, &p, &[n], 3);
        }
    }
    asm.check("sm_80");
}

#[test]
fn loops_in_loops() {
    let asm = &mut Assembly::default();
    let p = program("nest", 2, 2, |a, u, x| {
        let (zero, one) = (a.i32(0), a.i32(1));
        for_loop(a, [zero, u[0], one], &[x, zero], |a, i, p| {
            let r = for_loop(a, [i, u[1], one], &[p[0], p[1]], |a, j, q| {
                let s = a.bin(BinOp::Add, q[0], j);
                // The outer index and an outer carried value live through the inner loop.
                let t = a.bin(BinOp::Add, q[1], i);
                vec![s, a.bin(BinOp::Xor, t, p[1])]
            });
            vec![a.bin(BinOp::Add, r[0], p[0]), r[1]]
        })
    });
    for (m, n) in [(0, 3), (3, 0), (2, 3), (4, 4)] {
        run(asm, &p, &[m, n], 2);
    }
    asm.check("sm_80");
}

#[test]
fn loops_on_conditions() {
    let asm = &mut Assembly::default();
    let p = program("while", 1, 3, |a, u, x| {
        let zero = a.i32(0);
        while_loop(
            a,
            &[zero, x, zero],
            |a, p| lt(a, p[0], u[0]),
            |a, p| {
                let three = a.i32(3);
                let n = a.bin(BinOp::Add, p[0], three);
                vec![n, p[2], a.bin(BinOp::Sub, p[1], n)]
            },
        )
    });
    for n in [0, 1, 3, 10] {
        run(asm, &p, &[n], 3);
    }
    // A value of the test is read by the body and carried.
    let p = program("while_test_value", 1, 2, |a, u, x| {
        let zero = a.i32(0);
        let seen = std::cell::Cell::new(x);
        while_loop(
            a,
            &[zero, x],
            |a, p| {
                // The next value exists before the loop may leave with the old one.
                let goes_on = lt(a, p[0], u[0]);
                let three = a.i32(3);
                seen.set(a.bin(BinOp::Add, p[0], three));
                goes_on
            },
            |a, p| vec![seen.get(), a.bin(BinOp::Xor, p[1], seen.get())],
        )
    });
    for n in [0, 1, 10] {
        run(asm, &p, &[n], 2);
    }
    asm.check("sm_80");
}

/// A pointer that a loop moves is changed in place, although a later address could start from its old value.
#[test]
fn pointers_move_in_place() {
    let mut a = Asm::new("pointer", 1);
    let t = a.thread();
    let (x, out) = (a.pointer(1), a.pointer(2));
    let from = a.address(x, t, 4);
    let (zero, one, n) = (a.i32(0), a.i32(1), a.i32(3));
    let step = a.constant(I64, 128);
    let r = for_loop(&mut a, [zero, n, one], &[from, zero], |a, _, p| {
        let v = a.load(I32, 1, p[0], 0)[0];
        let next = a.bin(BinOp::Add, p[0], step);
        let w = a.load(I32, 1, next, 0)[0];
        let s = a.bin(BinOp::Add, p[1], v);
        vec![next, a.bin(BinOp::Xor, s, w)]
    });
    let to = a.address(out, t, 4);
    a.store(&r[1..], to, 0);
    let p = a.finish();
    let k = text(&p, &sm_80());
    assert!(!k.text.contains("mov.b64"), "{}", k.text);
    let asm = &mut Assembly::default();
    let data = [Data::zeros(Scalar::I32, 1), Data::bits(Scalar::I32, &sample(Scalar::I32, 128, 1)), Data::zeros(Scalar::I32, 32)];
    agree(asm, &p, 1, &data, Tolerance::Exact);
    asm.check("sm_80");
}

/// What a branch derives of a value is not there behind the branch.
#[test]
fn sizes_of_guarded_copies_stay_in_their_block() {
    let mut a = Asm::new("derived", 1);
    let alloc = a.alloc(256);
    let t = a.thread();
    let (u, x, out) = (a.pointer(0), a.pointer(1), a.pointer(2));
    let (four, seven, zero) = (a.i32(4), a.i32(7), a.i32(0));
    let flag = a.load(I32, 1, u, 0)[0];
    let taken = lt(&mut a, zero, flag);
    let base = a.shared(alloc);
    let at = a.def(I32, |dst| Inst::Fma { dst, a: t, b: four, c: base });
    let from = a.address(x, t, 4);
    let valid = Some(lt(&mut a, t, seven));
    let copy = |offset| Inst::CopyAsync { shared: at, offset, global: from, global_offset: 0, bytes: 4, valid };
    let then = a.block(|a| {
        a.push(copy(0));
        Vec::new()
    });
    let otherwise = a.block(|a| {
        a.push(copy(0));
        Vec::new()
    });
    if_else(&mut a, taken, then, otherwise);
    a.push(copy(128));
    a.push(Inst::CommitCopies);
    a.push(Inst::WaitCopies { pending: 0 });
    a.push(Inst::Barrier);
    let v = a.vals(I32, 1);
    a.push(Inst::LoadShared { dsts: v.clone(), addr: at, offset: 0 });
    let w = a.vals(I32, 1);
    a.push(Inst::LoadShared { dsts: w.clone(), addr: at, offset: 128 });
    let to = a.address(out, t, 8);
    a.store(&[v[0], w[0]], to, 0);
    let p = a.finish();
    let asm = &mut Assembly::default();
    for flag in [0, 1] {
        let data = [Data::bits(Scalar::I32, &[flag]), Data::bits(Scalar::I32, &sample(Scalar::I32, 32, 1)), Data::zeros(Scalar::I32, 64)];
        agree(asm, &p, 1, &data, Tolerance::Exact);
    }
    asm.check("sm_80");
}

/// A guarded load sets its results before it reads what they are otherwise, so it must not take over the register of one.
#[test]
fn guarded_loads_in_loops() {
    let asm = &mut Assembly::default();
    let mut a = Asm::new("guarded_carry", 1);
    let t = a.thread();
    let (u, x, out) = (a.pointer(0), a.pointer(1), a.pointer(2));
    let (zero, one, seven, n) = (a.i32(0), a.i32(1), a.i32(7), a.i32(3));
    let from = a.address(x, t, 4);
    let v = a.load(I32, 1, from, 0)[0];
    let inside = lt(&mut a, t, seven);
    let r = for_loop(&mut a, [zero, n, one], &[v, t], |a, _, p| {
        let dsts = a.vals(I32, 2);
        a.push(Inst::LoadGlobal {
            dsts: dsts.clone(),
            addr: u,
            offset: 0,
            guard: Some(inside),
            other: smallvec::smallvec![seven, p[0]],
            cache: tilelift_ir::CacheHint::Normal,
        });
        let next = a.bin(BinOp::Add, dsts[1], p[1]);
        vec![dsts[0], next]
    });
    let to = a.address(out, t, 8);
    a.store(&r, to, 0);
    let data = [Data::bits(Scalar::I32, &[3, 4]), Data::bits(Scalar::I32, &sample(Scalar::I32, 32, 1)), Data::zeros(Scalar::I32, 64)];
    agree(asm, &a.finish(), 1, &data, Tolerance::Exact);
    asm.check("sm_80");
}

#[test]
fn choices() {
    let asm = &mut Assembly::default();
    for shape in 0..5 {
        let p = program(&format!("if_{shape}"), 2, 2, |a, u, x| {
            let c = lt(a, u[0], u[1]);
            let y = a.bin(BinOp::Add, x, u[0]);
            let seven = a.i32(7);
            let then = a.block(|a| match shape {
                0 => vec![a.bin(BinOp::Mul, x, seven), y],
                1 => vec![x, y],
                2 => vec![x, y],
                3 => vec![y, seven],
                _ => vec![a.bin(BinOp::Sub, x, y), a.bin(BinOp::Sub, y, x)],
            });
            let otherwise = a.block(|a| match shape {
                0 => vec![a.bin(BinOp::Xor, x, seven), x],
                1 => vec![y, x],
                2 => vec![x, y],
                3 => vec![x, a.bin(BinOp::Add, y, y)],
                _ => {
                    let s = a.bin(BinOp::Add, x, y);
                    vec![s, s]
                }
            });
            let r = if_else(a, c, then, otherwise);
            let s = a.bin(BinOp::Add, r[0], x);
            vec![s, r[1]]
        });
        run(asm, &p, &[1, 2], 2);
        run(asm, &p, &[2, 1], 2);
    }
    asm.check("sm_80");
}

/// Random nests of loops and choices over a pool of values.
#[test]
fn random_programs() {
    let asm = &mut Assembly::default();
    for seed in 0..150 {
        let mut r = Random(seed);
        let p = program(&format!("random_{seed}"), 2, 3, |a, u, x| {
            let five = a.i32(5);
            let mut pool = vec![u[0], u[1], x, five];
            region(a, &mut r, &mut pool, u, 3, 3)
        });
        run(asm, &p, &[3, 5], 3);
    }
    asm.check("sm_80");
}

fn pick(r: &mut Random, pool: &[LVal]) -> LVal {
    pool[r.next() as usize % pool.len()]
}

/// Random instructions; `n` values of the pool as results.
fn region(a: &mut Asm, r: &mut Random, pool: &mut Vec<LVal>, u: &[LVal], n: usize, depth: usize) -> Vec<LVal> {
    let outer = pool.len();
    for _ in 0..2 + r.next() % 4 {
        let kind = r.next() % 8;
        match kind {
            0 if depth > 0 => {
                let (zero, one) = (a.i32(0), a.i32(1 + (r.next() % 2) as i32));
                let hi = u[r.next() as usize % 2];
                let init: Vec<LVal> = (0..1 + r.next() % 4).map(|_| pick(r, pool)).collect();
                let mut inner = pool.clone();
                let res = for_loop(a, [zero, hi, one], &init, |a, iv, p| {
                    inner.push(iv);
                    inner.extend(p);
                    region(a, r, &mut inner, u, init.len(), depth - 1)
                });
                pool.extend(res);
            }
            1 if depth > 0 => {
                let (zero, one) = (a.i32(0), a.i32(1));
                let mut init = vec![zero];
                init.extend((0..1 + r.next() % 3).map(|_| pick(r, pool)));
                let mut inner = pool.clone();
                let limit = u[r.next() as usize % 2];
                let res = while_loop(
                    a,
                    &init,
                    |a, p| lt(a, p[0], limit),
                    |a, p| {
                        inner.extend(p);
                        let mut next = region(a, r, &mut inner, u, init.len(), depth - 1);
                        next[0] = a.bin(BinOp::Add, p[0], one);
                        next
                    },
                );
                pool.extend(res);
            }
            2 if depth > 0 => {
                let c = lt(a, u[r.next() as usize % 2], u[r.next() as usize % 2]);
                let count = 1 + (r.next() % 3) as usize;
                let (mut p, mut q) = (pool.clone(), pool.clone());
                let then = a.block(|a| region(a, r, &mut p, u, count, depth - 1));
                let otherwise = a.block(|a| region(a, r, &mut q, u, count, depth - 1));
                pool.extend(if_else(a, c, then, otherwise));
            }
            _ => {
                let op = [BinOp::Add, BinOp::Sub, BinOp::Xor, BinOp::Mul, BinOp::Maximum][r.next() as usize % 5];
                let (x, y) = (pick(r, pool), pick(r, pool));
                pool.push(a.bin(op, x, y));
            }
        }
    }
    let last = pool.len() - outer;
    (0..n)
        .map(|k| if last == 0 || r.next().is_multiple_of(3) { pick(r, pool) } else { pool[outer + (k * 7 + r.next() as usize) % last] })
        .collect()
}

#[test]
fn accumulators_need_no_moves() {
    use tilelift_isel::MatrixId;
    let mut a = Asm::new("accumulate", 1);
    let t = a.thread();
    let (src, out) = (a.pointer(0), a.pointer(1));
    let from = a.address(src, t, 16);
    let (zero, one, n) = (a.i32(0), a.i32(1), a.i32(4));
    let init: Vec<LVal> = (0..8).map(|_| a.f32(0.0)).collect();
    let rs = for_loop(&mut a, [zero, n, one], &init, |a, _, p| {
        let mut acc: Vec<LVal> = p.to_vec();
        for step in 0..2 {
            let x = a.load(B32, 4, from, step * 16);
            for tile in 0..2 {
                let dsts: tilelift_isel::lane::Vals = (0..4).map(|_| a.val(F32)).collect();
                let c = acc[4 * tile..][..4].into();
                let b = x[..2].into();
                a.push(Inst::Matrix(Box::new(MatrixProduct {
                    dsts: dsts.clone(),
                    instr: MatrixId::from_u32(0),
                    a: x.clone(),
                    b,
                    c,
                    scales: Default::default(),
                })));
                acc[4 * tile..][..4].copy_from_slice(&dsts);
            }
        }
        acc
    });
    let to = a.address(out, t, 32);
    a.store(&rs[..4], to, 0);
    a.store(&rs[4..], to, 16);
    let p = a.finish();
    let k = text(&p, &sm_80());
    assert_eq!(k.text.matches("mov.f32").count(), 8, "only the initial zeros\n{}", k.text);
    assert!(k.text.contains("nounroll"), "{}", k.text);
    let mut asm = Assembly::default();
    let halves: Vec<u64> = (0..2 * (32 * 8 + 8)).map(|i| [0x3c00, 0x4000, 0xbc00, 0][i % 4]).collect();
    agree(&mut asm, &p, 1, &[Data::bits(Scalar::F16, &halves), Data::zeros(Scalar::F32, 256)], Tolerance::Exact);
    asm.check("sm_80");
}

/// The comparison notices a wrong result.
#[test]
#[should_panic(expected = "want")]
fn a_wrong_result_is_noticed() {
    let p = program("wrong", 0, 1, |a, _, x| vec![a.bin(BinOp::Add, x, x)]);
    let q = program("wrong", 0, 1, |a, _, x| vec![a.bin(BinOp::Sub, x, x)]);
    let x = [Data::bits(Scalar::I32, &[0]), Data::bits(Scalar::I32, &[1; 32]), Data::zeros(Scalar::I32, 32)];
    compare("wrong", &defined(&p, 1, &x), &simulated(&text(&q, &sm_80()), 1, &x), &x, Tolerance::Exact, "");
}
