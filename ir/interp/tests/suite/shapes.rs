//! Constants, splats, iotas, broadcasts, reshapes, transposes against index arithmetic.

use super::{Nums, assert_floats, eval, run, view};
use tilelift_interp::{Buffer, Memory, Options, ViewArg};
use tilelift_ir::num;
use tilelift_ir::ops::{Attr, Op};
use tilelift_ir::types::{Scalar, Type};
use tilelift_ir::{Cursor, KernelBuilder};

#[test]
pub(super) fn constants_and_splats() {
    for &ty in Scalar::ALL.iter().filter(|s| !s.is_packed()) {
        let mut k = KernelBuilder::new("constants");
        let out = k.param(view(ty, 2));
        let zero = k.constant(0, Scalar::I32);
        let values = [0.0, 1.0, -1.5, 1.0 / 3.0, f64::NAN, f64::NEG_INFINITY];
        let mut want = Vec::new();
        for (row, &x) in values.iter().enumerate() {
            let v = if ty.is_float() { k.constant(x, ty) } else { k.constant(num::wrap((x * 3.0) as i64, ty), ty) };
            let t = k.splat(v, &[1, 3]);
            let r = k.constant(row as i64, Scalar::I32);
            k.store(out, &[r, zero], t);
            want.extend([if ty.is_float() { num::round(x, ty) } else { num::wrap((x * 3.0) as i64, ty) as f64 }; 3]);
        }
        let kernel = k.finish().expect("valid");
        let mut m = Memory::new();
        m.add(Buffer::uninit_elements(ty, want.len()));
        run(&kernel, [1; 3], &[ViewArg::dense(0, ty, &[6, 3]).into()], &mut m, &Options::default()).expect("runs");
        assert_floats(&m.buffers[0].read_f64(ty), &want, &format!("constants of {ty}"));
    }
}

/// The numbers `0..n` of a type.
fn count_up(n: i64) -> Nums {
    Nums::I(Scalar::I32, (0..n).collect())
}

#[test]
pub(super) fn joins_and_splits() {
    let (a, b) = (count_up(6), Nums::I(Scalar::I32, (10..16).collect()));
    let got = eval(&[(&a, &[2, 3]), (&b, &[2, 3])], (Scalar::I32, &[2, 3, 2]), |k, v| k.join(v[0], v[1]));
    assert_eq!(got.read_i64(Scalar::I32), [0, 10, 1, 11, 2, 12, 3, 13, 4, 14, 5, 15]);
    let halves = |first: bool| {
        eval(&[(&count_up(12), &[2, 3, 2])], (Scalar::I32, &[2, 3]), |k, v| {
            let (x, y) = k.split(v[0]);
            if first { x } else { y }
        })
    };
    assert_eq!(halves(true).read_i64(Scalar::I32), [0, 2, 4, 6, 8, 10]);
    assert_eq!(halves(false).read_i64(Scalar::I32), [1, 3, 5, 7, 9, 11]);
}

#[test]
pub(super) fn required_layouts() {
    let spec = tilelift_ir::LayoutSpec::Linear { registers: vec![[0, 1][..].into()], lanes: vec![[1, 0][..].into()], warps: vec![] };
    let got = eval(&[(&count_up(4), &[2, 2])], (Scalar::I32, &[2, 2]), |k, v| {
        let held = k.require_layout(v[0], spec);
        k.release_layout(held)
    });
    assert_eq!(got.read_i64(Scalar::I32), [0, 1, 2, 3]);
}

#[test]
pub(super) fn concats_and_slices() {
    let (a, b) = (count_up(6), Nums::I(Scalar::I32, (10..14).collect()));
    let got = eval(&[(&a, &[2, 3]), (&b, &[2, 2])], (Scalar::I32, &[2, 5]), |k, v| k.concat(v[0], v[1], 1));
    assert_eq!(got.read_i64(Scalar::I32), [0, 1, 2, 10, 11, 3, 4, 5, 12, 13]);
    let got = eval(&[(&a, &[3, 2]), (&b, &[2, 2])], (Scalar::I32, &[5, 2]), |k, v| k.concat(v[0], v[1], 0));
    assert_eq!(got.read_i64(Scalar::I32), [0, 1, 2, 3, 4, 5, 10, 11, 12, 13]);
    let got = eval(&[(&count_up(24), &[4, 6])], (Scalar::I32, &[2, 3]), |k, v| k.slice(v[0], &[1, 2], &[2, 3]));
    assert_eq!(got.read_i64(Scalar::I32), [8, 9, 10, 14, 15, 16]);
}

#[test]
pub(super) fn flips() {
    let got = |axis| eval(&[(&count_up(6), &[2, 3])], (Scalar::I32, &[2, 3]), |k, v| k.flip(v[0], axis)).read_i64(Scalar::I32);
    assert_eq!(got(0), [3, 4, 5, 0, 1, 2]);
    assert_eq!(got(1), [2, 1, 0, 5, 4, 3]);
}

#[test]
pub(super) fn iotas() {
    let unit = Nums::I(Scalar::I32, vec![0]);
    for d in 0..3usize {
        let shape = [3, 5, 7];
        let got = eval(&[(&unit, &[1])], (Scalar::I32, &shape), |k, _| k.iota(&shape, d as u32)).read_i64(Scalar::I32);
        let want: Vec<i64> = (0..105i64).map(|i| [i / 35, i / 7 % 5, i % 7][d]).collect();
        assert_eq!(got, want);
    }
    // The builder makes i32 only; the other types are made by hand. 300 wraps in i8.
    for ty in [Scalar::I8, Scalar::I16, Scalar::I64] {
        let mut k = KernelBuilder::new("iota");
        let out = k.param(view(ty, 1));
        let zero = k.constant(0, Scalar::I32);
        let any = k.full(&[300], 0, ty);
        k.store(out, &[zero], any);
        let mut kernel = k.finish().expect("valid");
        let iota = kernel.add_inst(Op::Iota, &[], 0, &[Attr::Dim(0)], &[], &[Type::tile(&[300], ty)]);
        let body = kernel.body;
        Cursor::start(body).insert(&mut kernel, iota);
        let (store, result) = (*kernel.regions[body].insts.last().expect("a store"), kernel.insts[iota].results[0]);
        kernel.insts[store].args[2] = result;
        let mut m = Memory::new();
        m.add(Buffer::uninit_elements(ty, 300));
        run(&kernel, [1; 3], &[ViewArg::dense(0, ty, &[300]).into()], &mut m, &Options::default()).expect("runs");
        let want: Vec<i64> = (0..300i64).map(|i| if ty == Scalar::I8 { i64::from(i as i8) } else { i }).collect();
        assert_eq!(m.buffers[0].read_i64(ty), want);
    }
}

/// Every element type with distinct small values.
fn counting(ty: Scalar, n: i64) -> Nums {
    if ty.is_float() {
        Nums::F(ty, (0..n).map(|i| num::round(i as f64, ty)).collect())
    } else {
        Nums::I(ty, (0..n).map(|i| num::wrap(i * 7, ty)).collect())
    }
}

#[test]
pub(super) fn broadcasts() {
    for &ty in Scalar::ALL.iter().filter(|s| !s.is_packed()) {
        let n = counting(ty, 6);
        let source = n.buffer().read_f64(ty);
        let got = eval(&[(&n, &[2, 1, 3])], (ty, &[2, 4, 3]), |k, v| k.broadcast(v[0], &[2, 4, 3])).read_f64(ty);
        let want: Vec<f64> = (0..24).map(|i| source[i / 12 * 3 + i % 3]).collect();
        assert_floats(&got, &want, "broadcast of the middle");
        let got = eval(&[(&n, &[6, 1])], (ty, &[6, 5]), |k, v| k.broadcast(v[0], &[6, 5])).read_f64(ty);
        assert_floats(&got, &(0..30).map(|i| source[i / 5]).collect::<Vec<_>>(), "broadcast of the last");
        let got = eval(&[(&n, &[1, 6])], (ty, &[3, 6]), |k, v| k.broadcast(v[0], &[3, 6])).read_f64(ty);
        assert_floats(&got, &(0..18).map(|i| source[i % 6]).collect::<Vec<_>>(), "broadcast of the first");
    }
}

#[test]
pub(super) fn reshapes() {
    for &ty in Scalar::ALL.iter().filter(|s| !s.is_packed()) {
        let n = counting(ty, 60);
        let source = n.buffer().read_f64(ty);
        let got = eval(&[(&n, &[3, 20])], (ty, &[2, 5, 6]), |k, v| k.reshape(v[0], &[2, 5, 6]));
        assert_floats(&got.read_f64(ty), &source, "reshape keeps the row-major order");
        let got = eval(&[(&counting(ty, 1), &[1])], (ty, &[1, 1]), |k, v| {
            let scalar = k.reshape(v[0], &[]);
            k.reshape(scalar, &[1, 1])
        });
        assert_floats(&got.read_f64(ty), &counting(ty, 1).buffer().read_f64(ty), "tile to scalar and back");
    }
}

#[test]
pub(super) fn transposes() {
    let perms: [[u32; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for &ty in Scalar::ALL.iter().filter(|s| !s.is_packed()) {
        let n = counting(ty, 30);
        let source = n.buffer().read_f64(ty);
        for perm in perms {
            let shape = [2u32, 3, 5];
            let out = perm.map(|p| shape[p as usize]);
            let got = eval(&[(&n, &shape)], (ty, &out), |k, v| k.transpose(v[0], &perm)).read_f64(ty);
            let mut want = vec![0.0; 30];
            for i in 0..2u32 {
                for j in 0..3u32 {
                    for l in 0..5u32 {
                        let at = perm.map(|p| [i, j, l][p as usize]);
                        want[((at[0] * out[1] + at[1]) * out[2] + at[2]) as usize] = source[((i * 3 + j) * 5 + l) as usize];
                    }
                }
            }
            assert_floats(&got, &want, &format!("transpose {perm:?}"));
        }
    }
}
