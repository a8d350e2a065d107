//! Loops, branches, the grid.

use super::{number, run, view};
use tilelift_interp::{Arg, Buffer, Memory, Options, ScalarArg, Stats, ViewArg};
use tilelift_ir::ops::CmpOp;
use tilelift_ir::types::Scalar;
use tilelift_ir::{Kernel, KernelBuilder, Value};

/// A kernel of scalar parameters that stores the values that `body` returns as one row of `i64` per program.
fn rows(params: &[Scalar], n: u32, body: impl FnOnce(&mut KernelBuilder, &[Value]) -> Vec<Value>) -> Kernel {
    let mut k = KernelBuilder::new("rows");
    let out = k.param(view(Scalar::I64, 2));
    let params: Vec<Value> = params.iter().map(|&s| k.param(s)).collect();
    let values = body(&mut k, &params);
    let ids: Vec<Value> = (0..3).map(|d| k.program_id(d)).collect();
    let counts: Vec<Value> = (0..2).map(|d| k.num_programs(d)).collect();
    let z = k.mul(ids[2], counts[1]);
    let y = k.add(z, ids[1]);
    let y = k.mul(y, counts[0]);
    let row = k.add(y, ids[0]);
    assert_eq!(values.len(), n as usize);
    for (i, v) in values.into_iter().enumerate() {
        let v = k.cast(v, Scalar::I64);
        let t = k.splat(v, &[1, 1]);
        let column = k.constant(i as i64, Scalar::I32);
        k.store(out, &[row, column], t);
    }
    k.finish().expect("a valid kernel")
}

fn run_rows(kernel: &Kernel, n: i64, grid: [u32; 3], scalars: &[Arg]) -> Vec<i64> {
    let programs = grid.iter().map(|&e| i64::from(e)).product::<i64>();
    let mut m = Memory::new();
    m.add(Buffer::uninit_elements(Scalar::I64, (programs * n) as usize));
    let mut args: Vec<Arg> = vec![ViewArg::dense(0, Scalar::I64, &[programs, n]).into()];
    args.extend_from_slice(scalars);
    let stats = run(kernel, grid, &args, &mut m, &Options::default()).expect("runs");
    assert_eq!(stats.programs, programs as u64);
    m.buffers[0].read_i64(Scalar::I64)
}

#[test]
pub(super) fn program_ids_and_counts() {
    let kernel = rows(&[], 6, |k, _| {
        let mut v: Vec<Value> = (0..3).map(|d| k.program_id(d)).collect();
        v.extend((0..3).map(|d| k.num_programs(d)));
        v
    });
    let got = run_rows(&kernel, 6, [4, 3, 2], &[]);
    let want: Vec<i64> = (0..24).flat_map(|i| [i % 4, i / 4 % 3, i / 12, 4, 3, 2]).collect();
    assert_eq!(got, want);
}

#[test]
pub(super) fn for_loops() {
    for index in [Scalar::I8, Scalar::I16, Scalar::I32, Scalar::I64] {
        let kernel = rows(&[index, index, index], 3, |k, p| {
            let (zero, one) = (k.constant(0, Scalar::I64), k.constant(1, Scalar::I64));
            k.for_loop(p[0], p[1], p[2], &[zero, zero, one], |k, i, c| {
                let wide = k.cast(i, Scalar::I64);
                let sum = k.add(c[0], wide);
                let count = k.add(c[1], 1);
                // Not commutative, so that the order of the iterations shows.
                let mixed = k.mul(c[2], 3);
                let mixed = k.add(mixed, wide);
                vec![sum, count, mixed]
            })
        });
        for (lo, hi, step) in [(0, 10, 1), (0, 10, 3), (-5, 6, 2), (3, 3, 1), (5, 2, 1), (0, 1, 100), (120, 127, 5), (-128, 127, 100)] {
            let mut want = [0i64, 0, 1];
            let mut i = lo;
            while i < hi {
                want = [want[0] + i, want[1] + 1, want[2] * 3 + i];
                i += step;
            }
            let args: Vec<Arg> = [lo, hi, step].iter().map(|&x| number(index, x)).collect();
            assert_eq!(run_rows(&kernel, 3, [1; 3], &args), want, "{lo}..{hi} step {step} in {index}");
        }
    }
}

#[test]
fn a_for_index_does_not_wrap() {
    let kernel = rows(&[Scalar::I64, Scalar::I64], 1, |k, p| {
        let zero = k.constant(0, Scalar::I64);
        k.for_loop(p[0], i64::MAX, p[1], &[zero], |k, _, c| vec![k.add(c[0], 1)])
    });
    assert_eq!(run_rows(&kernel, 1, [1; 3], &[number(Scalar::I64, 0), number(Scalar::I64, i64::MAX - 1)]), [2]);
    assert_eq!(run_rows(&kernel, 1, [1; 3], &[number(Scalar::I64, i64::MIN), number(Scalar::I64, i64::MAX)]), [3]);
}

#[test]
fn nested_loops_see_outer_values_and_swap_carried_ones() {
    let kernel = rows(&[], 2, |k, _| {
        let (a, b) = (k.constant(1, Scalar::I64), k.constant(2, Scalar::I64));
        k.for_loop(0, 3, 1, &[a, b], |k, i, c| {
            let i = k.cast(i, Scalar::I64);
            let inner = k.for_loop(0, 2, 1, &[c[1]], |k, j, d| {
                let j = k.cast(j, Scalar::I64);
                let s = k.add(d[0], i);
                let s = k.add(s, j);
                vec![k.add(s, c[0])]
            });
            // The carried values change places.
            vec![inner[0], c[0]]
        })
    });
    let (mut a, mut b) = (1i64, 2i64);
    for i in 0..3 {
        let mut d = b;
        for j in 0..2 {
            d += i + j + a;
        }
        (a, b) = (d, a);
    }
    assert_eq!(run_rows(&kernel, 2, [1; 3], &[]), [a, b]);
}

#[test]
pub(super) fn while_loops() {
    // Collatz: steps until 1.
    let kernel = rows(&[Scalar::I64], 2, |k, p| {
        let zero = k.constant(0, Scalar::I64);
        k.while_loop(
            &[p[0], zero],
            |k, c| k.cmp(CmpOp::Ne, c[0], 1),
            |k, c| {
                let odd = k.and(c[0], 1);
                let odd = k.cast(odd, Scalar::I1);
                let next = k.if_else(
                    odd,
                    |k| {
                        let t = k.mul(c[0], 3);
                        vec![k.add(t, 1)]
                    },
                    |k| vec![k.shr_s(c[0], 1)],
                );
                vec![next[0], k.add(c[1], 1)]
            },
        )
    });
    for (start, steps) in [(1, 0), (2, 1), (6, 8), (27, 111)] {
        assert_eq!(run_rows(&kernel, 2, [1; 3], &[number(Scalar::I64, start)]), [1, steps]);
    }
}

#[test]
pub(super) fn branches() {
    let kernel = rows(&[Scalar::I1, Scalar::I32], 2, |k, p| {
        k.if_else(
            p[0],
            |k| {
                let x = k.add(p[1], 100);
                vec![x, p[1]]
            },
            |k| {
                let x = k.sub(p[1], 100);
                vec![p[1], x]
            },
        )
    });
    assert_eq!(run_rows(&kernel, 2, [1; 3], &[number(Scalar::I1, 1), number(Scalar::I32, 7)]), [107, 7]);
    assert_eq!(run_rows(&kernel, 2, [1; 3], &[number(Scalar::I1, 0), number(Scalar::I32, 7)]), [7, -93]);
}

#[test]
fn only_the_taken_branch_stores() {
    let mut k = KernelBuilder::new("either");
    let out = k.param(view(Scalar::I32, 1));
    let (pid, zero) = (k.program_id(0), k.constant(0, Scalar::I32));
    let even = k.cmp(CmpOp::Eq, pid, zero);
    let t = k.full(&[1], 5, Scalar::I32);
    k.if_else(
        even,
        |k| {
            k.store(out, &[zero], t);
            vec![]
        },
        |_| vec![],
    );
    let kernel = k.finish().expect("valid");
    let mut m = Memory::new();
    m.add(Buffer::uninit(4));
    let args = [ViewArg::dense(0, Scalar::I32, &[1]).into()];
    let only = |p: [u32; 3]| Options { programs: Some(vec![p]), ..Options::default() };
    run(&kernel, [2, 1, 1], &args, &mut m, &only([1, 0, 0])).expect("runs");
    assert!(!m.buffers[0].is_initialised(0..1));
    run(&kernel, [2, 1, 1], &args, &mut m, &only([0, 0, 0])).expect("runs");
    assert_eq!(m.buffers[0].read_i64(Scalar::I32), [5]);
}

#[test]
fn subsets_of_the_grid_run_alone() {
    let kernel = rows(&[Scalar::F32], 1, |k, p| {
        let x = k.cast(p[0], Scalar::I64);
        vec![x]
    });
    let mut m = Memory::new();
    m.add(Buffer::from_i64(Scalar::I64, [0; 6]));
    let args = [ViewArg::dense(0, Scalar::I64, &[6, 1]).into(), ScalarArg::float(Scalar::F32, 9.75).into()];
    let options = Options { programs: Some(vec![[2, 1, 0], [0, 0, 0]]), ..Options::default() };
    let stats: Stats = run(&kernel, [3, 2, 1], &args, &mut m, &options).expect("runs");
    assert_eq!(stats.programs, 2);
    assert_eq!(m.buffers[0].read_i64(Scalar::I64), [9, 0, 0, 0, 0, 9]);
}

#[test]
fn values_live_as_long_as_they_are_used() {
    // Every op here could overwrite an operand that something else still needs: the same operand twice, a value carried twice, one
    // used in a region and again behind it, one captured by a test region, two names for one tile.
    let mut k = KernelBuilder::new("alias");
    let (source, out) = (k.param(view(Scalar::I64, 1)), k.param(view(Scalar::I64, 2)));
    let zero = k.constant(0, Scalar::I32);
    let x = k.load(source, &[zero], &[4]);
    let same = k.reshape(x, &[2, 2]);
    let twice = k.add(x, x);
    let looped = k.for_loop(0, 3, 1, &[x, x, twice], |k, _, c| {
        let a = k.add(c[0], 1);
        let b = k.mul(c[1], x);
        let n = k.neg(b);
        vec![c[1], a, k.add(n, c[2])]
    });
    let whiled = k.while_loop(
        &[looped[0], x],
        |k, c| {
            let bumped = k.add(c[0], 1000);
            let d = k.sub(bumped, c[0]);
            let least = k.reduce(tilelift_ir::ReduceOp::Minimum, d, 0);
            let total = k.reduce(tilelift_ir::ReduceOp::Add, c[1], 0);
            let s = k.add(least, total);
            k.cmp(CmpOp::Lt, s, 1100)
        },
        |k, c| vec![c[0], k.add(c[1], 7)],
    );
    let back = k.reshape(same, &[4]);
    for (i, v) in [x, twice, looped[0], looped[1], looped[2], whiled[0], whiled[1], back].into_iter().enumerate() {
        let row = k.constant(i as i64, Scalar::I32);
        let t = k.reshape(v, &[1, 4]);
        k.store(out, &[row, zero], t);
    }
    let kernel = k.finish().expect("valid");
    let mut m = Memory::new();
    let x = [3i64, -1, 4, 15];
    m.add(Buffer::from_i64(Scalar::I64, x));
    m.add(Buffer::uninit(8 * 32));
    let args = [ViewArg::dense(0, Scalar::I64, &[4]).into(), ViewArg::dense(1, Scalar::I64, &[8, 4]).into()];
    run(&kernel, [1; 3], &args, &mut m, &Options::default()).expect("runs");
    let twice = x.map(|v| v * 2);
    let (mut a, mut b, mut c) = (x, x, twice);
    for _ in 0..3 {
        let next: [i64; 4] = std::array::from_fn(|i| c[i] - b[i] * x[i]);
        (a, b, c) = (b, a.map(|v| v + 1), next);
    }
    let mut w = x;
    while w.iter().sum::<i64>() + 1000 < 1100 {
        w = w.map(|v| v + 7);
    }
    let want: Vec<i64> = [x, twice, a, b, c, a, w, x].concat();
    assert_eq!(m.buffers[1].read_i64(Scalar::I64), want);
}
