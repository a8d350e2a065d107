//! Reductions and scans with the author's op, and Philox.

use super::{Nums, Random, assert_floats, eval, run, view};
use tilelift_interp::{Buffer, Memory, Options, ViewArg};
use tilelift_ir::num;
use tilelift_ir::ops::{CmpOp, ReduceOp};
use tilelift_ir::types::Scalar;
use tilelift_ir::{KernelBuilder, Value};

const EXTENTS: [u32; 8] = [1, 2, 7, 16, 129, 176, 512, 1000];

/// `x -> a * x + b`, one map after another: associative, not commutative, exact in wrapping integers.
type Affine = (i64, i64);

fn after((a1, b1): Affine, (a2, b2): Affine) -> Affine {
    let w = |x: i128| num::wrap(x as i64, Scalar::I32);
    (w(i128::from(a1) * i128::from(a2)), w(i128::from(a2) * i128::from(b1) + i128::from(b2)))
}

fn affine(b: &mut KernelBuilder, x: &[Value], y: &[Value]) -> Vec<Value> {
    let a = b.mul(x[0], y[0]);
    let t = b.mul(y[0], x[1]);
    vec![a, b.add(t, y[1])]
}

/// The documented tree of a reduction, as a recursion from its definition.
fn tree(x: &[Affine]) -> Affine {
    fn at(x: &[Affine], pow2: usize, i: usize, folded: &[u32]) -> Affine {
        match folded.split_last() {
            None => x[i..].iter().step_by(pow2).copied().reduce(after).expect("not empty"),
            Some((&bit, before)) => after(at(x, pow2, i, before), at(x, pow2, i + (1 << bit), before)),
        }
    }
    let v = x.len().trailing_zeros();
    let t = v.min(if x.len() <= 256 { 3 } else { 11 });
    at(x, 1 << v, 0, &(t..v).rev().chain(0..t).collect::<Vec<_>>())
}

/// Runs a body on two `i32` tiles of `rows x extent`, of which it makes two tiles of a shape.
fn pair(x: &[Affine], shape: &[u32], out: &[u32], body: impl FnOnce(&mut KernelBuilder, &[Value]) -> Vec<Value>) -> Vec<Affine> {
    let mut b = KernelBuilder::new("pair");
    let mut memory = Memory::new();
    let mut args = Vec::new();
    let extents = |s: &[u32]| s.iter().map(|&e| i64::from(e)).collect::<Vec<_>>();
    let mut tiles = Vec::new();
    let zero = b.constant(0, Scalar::I32);
    let columns: [Vec<i64>; 2] = [x.iter().map(|p| p.0).collect(), x.iter().map(|p| p.1).collect()];
    for c in columns {
        let at = memory.add(Buffer::from_i64(Scalar::I32, c));
        args.push(ViewArg::dense(at, Scalar::I32, &extents(shape)).into());
        let p = b.param(view(Scalar::I32, shape.len()));
        tiles.push(b.load(p, &vec![zero; shape.len()], shape));
    }
    let made = body(&mut b, &tiles);
    let mut results = Vec::new();
    for v in made {
        let n = out.iter().product::<u32>() as usize;
        results.push(memory.add(Buffer::uninit_elements(Scalar::I32, n)));
        args.push(ViewArg::dense(results[results.len() - 1], Scalar::I32, &extents(out)).into());
        let p = b.param(view(Scalar::I32, out.len()));
        b.store(p, &vec![zero; out.len()], v);
    }
    let kernel = b.finish().expect("a valid kernel");
    run(&kernel, [1, 1, 1], &args, &mut memory, &Options::default()).expect("the case runs");
    let read = |i: usize| memory.buffers[results[i]].read_i64(Scalar::I32);
    read(0).into_iter().zip(read(1)).collect()
}

fn maps(n: u32) -> Vec<Affine> {
    let mut r = Random(3);
    (0..n).map(|_| (num::wrap(r.bits() as i64, Scalar::I32), num::wrap(r.bits() as i64, Scalar::I32))).collect()
}

#[test]
pub(super) fn reductions_follow_the_tree() {
    for extent in EXTENTS {
        let x = maps(3 * extent);
        let want: Vec<Affine> = x.chunks(extent as usize).map(tree).collect();
        let got = pair(&x, &[3, extent], &[3], |b, t| b.reduce_by(t, 1, affine));
        assert_eq!(got, want, "extent {extent}");
        let got = pair(&x, &[3, extent], &[3], |b, t| {
            let t: Vec<Value> = t.iter().map(|&v| b.transpose(v, &[1, 0])).collect();
            b.reduce_by(&t, 0, affine)
        });
        assert_eq!(got, want, "extent {extent}, axis 0");
    }
}

#[test]
pub(super) fn scans_go_in_order() {
    for extent in EXTENTS {
        let x = maps(3 * extent);
        for reverse in [false, true] {
            let mut want = x.clone();
            for line in want.chunks_mut(extent as usize) {
                if reverse {
                    line.reverse();
                }
                for i in 1..line.len() {
                    line[i] = after(line[i - 1], line[i]);
                }
                if reverse {
                    line.reverse();
                }
            }
            let scan = |b: &mut KernelBuilder, t: &[Value], axis| {
                if reverse { b.scan_reverse_by(t, axis, affine) } else { b.scan_by(t, axis, affine) }
            };
            let got = pair(&x, &[3, extent], &[3, extent], |b, t| scan(b, t, 1));
            assert_eq!(got, want, "extent {extent}, reverse {reverse}");
            let got = pair(&x, &[3, extent], &[3, extent], |b, t| {
                let t: Vec<Value> = t.iter().map(|&v| b.transpose(v, &[1, 0])).collect();
                scan(b, &t, 0).iter().map(|&v| b.transpose(v, &[1, 0])).collect()
            });
            assert_eq!(got, want, "extent {extent}, reverse {reverse}, axis 0");
        }
    }
}

/// With `add` in the region the trees are those of the built-in ops, roundings included.
#[test]
pub(super) fn a_region_that_adds_is_the_built_in_sum() {
    let mut r = Random(4);
    for extent in EXTENTS {
        let x: Vec<f64> = (0..extent * 2).map(|_| num::round(r.unit() * 3.0, Scalar::F16)).collect();
        let n = Nums::F(Scalar::F16, x);
        let shape = [2, extent];
        let add = |b: &mut KernelBuilder, x: &[Value], y: &[Value]| vec![b.add(x[0], y[0])];
        let read = |b: Buffer| b.read_f64(Scalar::F16);
        let all = |body: &dyn Fn(&mut KernelBuilder, Value) -> Value, out: &[u32]| {
            read(eval(&[(&n, &shape)], (Scalar::F16, out), |b, v| body(b, v[0])))
        };
        let what = format!("extent {extent}");
        assert_floats(&all(&|b, v| b.reduce_by(&[v], 1, add)[0], &[2]), &all(&|b, v| b.reduce(ReduceOp::Add, v, 1), &[2]), &what);
        assert_floats(&all(&|b, v| b.scan_by(&[v], 1, add)[0], &shape), &all(&|b, v| b.scan(ReduceOp::Add, v, 1), &shape), &what);
        assert_floats(
            &all(&|b, v| b.scan_reverse_by(&[v], 1, add)[0], &shape),
            &all(&|b, v| b.scan_reverse(ReduceOp::Add, v, 1), &shape),
            &what,
        );
    }
}

/// Constants, scalars from outside and conditions in the region count for every pair by itself.
#[test]
fn regions_choose_per_pair() {
    let x: Vec<Affine> = [(5, 0), (9, 1), (9, 2), (-3, 3), (9, 4), (2, 5), (9, 6)].to_vec();
    let got = pair(&x, &[7], &[1], |b, t| {
        let limit = b.constant(8, Scalar::I32);
        // The largest below the limit; of equal ones the later.
        let best = b.reduce_by(t, 0, |b, x, y| {
            let (x_in, y_in) = (b.cmp(CmpOp::Lt, x[0], limit), b.cmp(CmpOp::Lt, y[0], limit));
            let more = b.cmp(CmpOp::Ge, y[0], x[0]);
            let x_out = b.not(x_in);
            let either = b.or(more, x_out);
            let take = b.and(y_in, either);
            vec![b.select(take, y[0], x[0]), b.select(take, y[1], x[1])]
        });
        best.iter().map(|&v| b.splat(v, &[1])).collect()
    });
    assert_eq!(got, [(5, 0)]);
}

#[test]
pub(super) fn philox_words() {
    // The known answers of the authors' library, from words that a kernel reads.
    let cases: [([u32; 6], [u32; 4]); 3] = [
        ([0; 6], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
        ([u32::MAX; 6], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
        (
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344, 0xa409_3822, 0x299f_31d0],
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        ),
    ];
    let words: Vec<Nums> = (0..6).map(|k| Nums::I(Scalar::I32, cases.iter().map(|c| i64::from(c.0[k] as i32)).collect())).collect();
    for k in 0..4 {
        let inputs: Vec<(&Nums, &[u32])> = words.iter().map(|n| (n, &[3u32][..])).collect();
        let got = eval(&inputs, (Scalar::I32, &[3]), |b, v| b.philox([v[0], v[1], v[2], v[3]], [v[4], v[5]])[k]);
        assert_eq!(got.read_i64(Scalar::I32), cases.map(|c| i64::from(c.1[k] as i32)), "word {k}");
    }
}
