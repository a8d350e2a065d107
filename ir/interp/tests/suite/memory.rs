//! Loads and stores: edges, masks, strides, poison, buffers.

use super::{number, run, view};
use tilelift_interp::{Arg, Buffer, Fault, InterpError, Memory, Options, ViewArg};
use tilelift_ir::num;
use tilelift_ir::ops::CmpOp;
use tilelift_ir::types::{Extent, Scalar, ViewType};
use tilelift_ir::{Access, Kernel, KernelBuilder};

/// Copies a 4 x 6 tile of a view at (i, j) to the start of another, with extents of the view in front.
fn copier(elem: Scalar, other: Option<f64>) -> Kernel {
    let mut k = KernelBuilder::new("copy");
    let (source, target) = (k.param(view(elem, 2)), k.param(view(elem, 2)));
    let dims = k.param(view(Scalar::I32, 1));
    let (i, j) = (k.param(Scalar::I32), k.param(Scalar::I32));
    let zero = k.constant(0, Scalar::I32);
    let other = other.map(|x| if elem.is_float() { x.into() } else { (x as i64).into() });
    let t = k.load_with(source, &[i, j], &[4, 6], Access { other, ..Access::default() });
    k.store(target, &[zero, zero], t);
    for d in 0..2u32 {
        let e = k.dim(source, d);
        let e = k.splat(e, &[1]);
        let at = k.constant(i64::from(d), Scalar::I32);
        k.store(dims, &[at], e);
    }
    k.finish().expect("valid")
}

#[test]
pub(super) fn prefetches_change_nothing() {
    for elem in [Scalar::F16, Scalar::I32, Scalar::F64] {
        let mut k = KernelBuilder::new("prefetch");
        let view = k.param(view(elem, 2));
        let at = k.constant(-3, Scalar::I32);
        k.prefetch(view, &[at, at], &[8, 16]);
        let kernel = k.finish().expect("builds");
        let mut m = Memory::new();
        m.add(Buffer::from_i64(elem, 0..35));
        run(&kernel, [1; 3], &[ViewArg::dense(0, elem, &[5, 7]).into()], &mut m, &Options::default()).expect("runs");
        assert_eq!(m.buffers[0].read_f64(elem), (0..35).map(f64::from).collect::<Vec<_>>());
    }
    let mut k = KernelBuilder::new("wrong");
    let view = k.param(view(Scalar::F32, 2));
    let at = k.constant(0, Scalar::I32);
    k.prefetch(view, &[at, at], &[8]);
    assert!(k.finish().is_err(), "one extent per dimension");
}

#[test]
pub(super) fn dims_and_edges() {
    for &elem in Scalar::ALL.iter().filter(|s| !s.is_packed()) {
        for other in [None, Some(1.0)] {
            let kernel = copier(elem, other);
            for (i, j) in [(0, 0), (3, 2), (-1, -2), (-3, 4), (-4, 0), (5, 0), (0, 7), (1_000_000, -1_000_000), (i32::MIN, i32::MAX)] {
                let value = |r: i64, c: i64| (r * 7 + c + 2) % 2 * if elem == Scalar::I1 { 1 } else { r * 7 + c };
                let mut m = Memory::new();
                m.add(Buffer::from_i64(elem, (0..35).map(|n| value(n / 7, n % 7))));
                m.add(Buffer::uninit_elements(elem, 24));
                m.add(Buffer::uninit(8));
                let args = [
                    ViewArg::dense(0, elem, &[5, 7]).into(),
                    ViewArg::dense(1, elem, &[4, 6]).into(),
                    ViewArg::dense(2, Scalar::I32, &[2]).into(),
                    number(Scalar::I32, i64::from(i)),
                    number(Scalar::I32, i64::from(j)),
                ];
                run(&kernel, [1; 3], &args, &mut m, &Options::default()).expect("runs");
                let want: Vec<f64> = (0..24)
                    .map(|n| {
                        let (r, c) = (i64::from(i) + n / 6, i64::from(j) + n % 6);
                        let inside = (0..5).contains(&r) && (0..7).contains(&c);
                        let x = if inside {
                            value(r, c) as f64
                        } else {
                            other.unwrap_or(if elem.is_float() { num::from_bits(0, elem) } else { 0.0 })
                        };
                        if elem.is_float() { num::round(x, elem) } else { x }
                    })
                    .collect();
                assert_eq!(m.buffers[1].read_f64(elem), want, "{elem} at {i}, {j}");
                assert_eq!(m.buffers[2].read_i64(Scalar::I32), [5, 7]);
            }
        }
    }
}

#[test]
fn stores_outside_are_dropped() {
    let mut k = KernelBuilder::new("stamp");
    let out = k.param(view(Scalar::I16, 2));
    let (i, j) = (k.param(Scalar::I32), k.param(Scalar::I32));
    let t = k.full(&[2, 3], 9, Scalar::I16);
    k.store(out, &[i, j], t);
    let kernel = k.finish().expect("valid");
    for (i, j) in [(0i64, 0i64), (-1, -1), (2, 3), (3, 4), (-2, 0), (1, -3), (1, -2)] {
        let mut m = Memory::new();
        m.add(Buffer::zeroed(24));
        let args = [ViewArg::dense(0, Scalar::I16, &[3, 4]).into(), number(Scalar::I32, i), number(Scalar::I32, j)];
        run(&kernel, [1; 3], &args, &mut m, &Options::default()).expect("runs");
        let want: Vec<i64> = (0..12).map(|n| if (i..i + 2).contains(&(n / 4)) && (j..j + 3).contains(&(n % 4)) { 9 } else { 0 }).collect();
        assert_eq!(m.buffers[0].read_i64(Scalar::I16), want, "at {i}, {j}");
    }
}

/// Loads and stores 8 elements under the mask `(index & bits) != 0`, `other` -5.
fn masked() -> Kernel {
    let mut k = KernelBuilder::new("masked");
    let (source, target, bits) = (k.param(view(Scalar::F32, 1)), k.param(view(Scalar::F32, 1)), k.param(Scalar::I32));
    let store_all = k.param(Scalar::I1);
    let zero = k.constant(0, Scalar::I32);
    let lanes = k.iota(&[8], 0);
    let one = k.full(&[8], 1, Scalar::I32);
    let lane_bit = k.shl(one, lanes);
    let on = k.and(lane_bit, bits);
    let mask = k.cmp(CmpOp::Ne, on, 0);
    let t = k.load_with(source, &[zero], &[8], Access { mask: Some(mask), other: Some((-5.0f32).into()), cache: None });
    k.if_else(
        store_all,
        |k| {
            k.store(target, &[zero], t);
            vec![]
        },
        |k| {
            k.store_with(target, &[zero], t, Some(mask));
            vec![]
        },
    );
    k.finish().expect("valid")
}

#[test]
fn masks_choose_elements() {
    let kernel = masked();
    for bits in 0..256i64 {
        for all in [0, 1] {
            let mut m = Memory::new();
            m.add(Buffer::from_f64(Scalar::F32, (0..6).map(f64::from)));
            m.add(Buffer::from_f64(Scalar::F32, [100.0; 8]));
            let args = [
                ViewArg::dense(0, Scalar::F32, &[6]).into(),
                ViewArg::dense(1, Scalar::F32, &[8]).into(),
                number(Scalar::I32, bits),
                number(Scalar::I1, all),
            ];
            run(&kernel, [1; 3], &args, &mut m, &Options::default()).expect("runs");
            let want: Vec<f64> = (0..8)
                .map(|i| match (bits >> i & 1 == 1, i < 6) {
                    (true, true) => f64::from(i),
                    (true, false) => -5.0,
                    (false, _) if all == 1 => -5.0,
                    (false, _) => 100.0,
                })
                .collect();
            assert_eq!(m.buffers[1].read_f64(Scalar::F32), want, "mask {bits:#b}");
        }
    }
}

#[test]
fn poison_is_a_fault_only_where_it_is_read() {
    let kernel = masked();
    let args = |bits: i64| -> [Arg; 4] {
        [
            ViewArg::dense(0, Scalar::F32, &[8]).into(),
            ViewArg::dense(1, Scalar::F32, &[8]).into(),
            number(Scalar::I32, bits),
            number(Scalar::I1, 1),
        ]
    };
    let mut m = Memory::new();
    m.add(Buffer::uninit(32));
    m.buffers[0].fill_f64(Scalar::F32, [1.0, 2.0, 3.0]);
    m.add(Buffer::uninit(32));
    run(&kernel, [1; 3], &args(0b0000_0101), &mut m, &Options::default()).expect("only written elements are read");
    assert!(m.buffers[1].is_initialised(0..32));
    let e = run(&kernel, [1; 3], &args(0b0001_0101), &mut m, &Options::default()).expect_err("element 4 is poison");
    let InterpError::Fault { fault, op, .. } = &e else { panic!("{e}") };
    assert_eq!(*fault, Fault::Uninitialised { param: 0, at: vec![4] });
    assert_eq!(op.to_string(), "load");
    assert!(e.to_string().contains("fill the buffer"), "{e}");
    assert!(m.buffers[0].read_f64(Scalar::F32)[4].is_nan(), "poison reads as NaN");
}

#[test]
fn strides_and_offsets_address_any_tensor() {
    for (extents, strides, offset) in
        [([3, 4], [4, 1], 0u64), ([3, 4], [1, 3], 64), ([3, 4], [16, 2], 16), ([3, 4], [0, 1], 0), ([1, 1], [0, 0], 32)]
    {
        let dynamic = [Extent::Dynamic(1); 2];
        let mut k = KernelBuilder::new("strided");
        let source = k.param(ViewType::dense(Scalar::F16, &dynamic).with_strides(&dynamic));
        let target = k.param(view(Scalar::F16, 2));
        let zero = k.constant(0, Scalar::I32);
        let t = k.load(source, &[zero, zero], &[4, 4]);
        k.store(target, &[zero, zero], t);
        let kernel = k.finish().expect("valid");
        let mut m = Memory::new();
        m.add(Buffer::from_f64(Scalar::F16, (0..128).map(f64::from)));
        m.add(Buffer::uninit(32));
        let args = [
            ViewArg::dense(0, Scalar::F16, &extents).with_strides(&strides).at(offset).into(),
            ViewArg::dense(1, Scalar::F16, &[4, 4]).into(),
        ];
        run(&kernel, [1; 3], &args, &mut m, &Options::default()).expect("runs");
        let want: Vec<f64> = (0..16)
            .map(|n| {
                let (r, c) = (n / 4, n % 4);
                if r < extents[0] && c < extents[1] { (offset as i64 / 2 + r * strides[0] + c * strides[1]) as f64 } else { 0.0 }
            })
            .collect();
        assert_eq!(m.buffers[1].read_f64(Scalar::F16), want, "{extents:?} {strides:?} {offset}");
    }
}

#[test]
fn strided_stores_leave_gaps_unwritten() {
    let dynamic = [Extent::Dynamic(1); 1];
    let mut k = KernelBuilder::new("gaps");
    let out = k.param(ViewType::dense(Scalar::I32, &dynamic).with_strides(&dynamic));
    let zero = k.constant(0, Scalar::I32);
    let t = k.iota(&[4], 0);
    k.store(out, &[zero], t);
    let kernel = k.finish().expect("valid");
    let mut m = Memory::new();
    m.add(Buffer::uninit(32));
    run(&kernel, [1; 3], &[ViewArg::dense(0, Scalar::I32, &[4]).with_strides(&[2]).into()], &mut m, &Options::default()).expect("runs");
    for i in 0..8 {
        assert_eq!(m.buffers[0].is_initialised(i * 4..i * 4 + 4), i % 2 == 0 && i < 8, "word {i}");
    }
    assert_eq!(m.buffers[0].read_i64(Scalar::I32), [0, -1, 1, -1, 2, -1, 3, -1]);
}

#[test]
fn buffers_hold_every_type() {
    for &elem in Scalar::ALL {
        let values = match elem {
            Scalar::I1 => vec![0.0, 1.0, 1.0, 0.0],
            Scalar::F8E8M0 => vec![0.5, 1.0, 4.0, 2.0],
            _ => vec![0.0, 1.0, -2.0, 3.0],
        };
        let b = Buffer::from_f64(elem, values.iter().copied());
        assert_eq!(b.len(), elem.storage(4));
        assert_eq!(b.read_f64(elem), values);
        let mut c = Buffer::uninit_elements(elem, 4);
        assert!(!c.is_initialised(0..1));
        if elem == Scalar::F8E8M0 {
            c.fill_f64(elem, values.iter().copied());
        } else {
            c.fill_i64(elem, values.iter().map(|&x| x as i64));
        }
        assert_eq!(c.bytes(), b.bytes());
        assert!(c.is_initialised(0..c.len()) && !c.is_initialised(0..c.len() + 1));
        let mut d = Buffer::uninit_elements(elem, 4);
        d.fill_f64(elem, values.iter().copied().chain([5.0, 6.0]));
        assert_eq!(d, c, "values beyond the end are dropped");
    }
    assert_eq!(Buffer::from_f64(Scalar::I8, [300.0, -300.0, f64::NAN, 1.9]).read_i64(Scalar::I8), [127, -128, 0, 1]);
    assert_eq!(Buffer::from_i64(Scalar::I8, [300, -129]).read_i64(Scalar::I8), [44, 127]);
    assert_eq!(Buffer::from_f64(Scalar::F16, [1.0]).read_i64(Scalar::F16), [0x3c00]);
    let mut u = Buffer::uninit(4);
    u.bytes_mut().copy_from_slice(&[1, 2, 3, 4]);
    assert!(u.is_initialised(0..4) && !u.is_empty());
    assert!(Buffer::zeroed(0).is_empty());
}
