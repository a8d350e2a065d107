//! Arguments that break promises.

use super::{number, run, view};
use tilelift_interp::{Arg, ArgError, Buffer, InterpError, Memory, Options, ScalarArg, ViewArg, check_args, check_args_in, written_params};
use tilelift_ir::types::{Extent, Scalar, ViewType};
use tilelift_ir::{Kernel, KernelBuilder};

/// Adds a view to another, in place or not: parameter 0 is read and written, 1 read, 2 a number.
fn kernel(first: ViewType, second: ViewType) -> Kernel {
    let mut k = KernelBuilder::new("accumulate");
    let (a, b, s) = (k.param(first), k.param(second), k.param(Scalar::F32));
    let zero = k.constant(0, Scalar::I32);
    let (x, y) = (k.load(a, &[zero, zero], &[2, 4]), k.load(b, &[zero, zero], &[2, 4]));
    let y = k.mul(y, s);
    let sum = k.add(x, y);
    k.store(a, &[zero, zero], sum);
    k.finish().expect("valid")
}

fn plain() -> ViewType {
    view(Scalar::F32, 2)
}

fn memory() -> Memory {
    Memory { buffers: vec![Buffer::zeroed(1024), Buffer::zeroed(1024)], ..Memory::default() }
}

fn good() -> [Arg; 3] {
    [ViewArg::dense(0, Scalar::F32, &[2, 4]).into(), ViewArg::dense(1, Scalar::F32, &[2, 4]).into(), number(Scalar::F32, 1)]
}

fn first(first: ViewArg) -> [Arg; 3] {
    let [_, b, s] = good();
    [first.into(), b, s]
}

#[test]
fn good_arguments_pass() {
    let k = kernel(plain(), plain());
    assert_eq!(check_args(&k, &good(), &memory()), Ok(()));
    assert_eq!(check_args_in(&k, &good(), &[1024, 1024]), Ok(()));
    assert_eq!(written_params(&k), [0]);
    run(&k, [1; 3], &good(), &mut memory(), &Options::default()).expect("runs");
}

#[test]
fn each_broken_promise_has_its_error() {
    let strided = |e: Extent| plain().with_strides(&[e, Extent::Fixed(1)]);
    let dense = |s: &[i64]| ViewArg::dense(0, Scalar::F32, s);
    let fact = |e: Extent| ViewType::dense(Scalar::F32, &[Extent::Dynamic(1), e]);
    let cases: Vec<(ViewType, Vec<Arg>, ArgError)> = vec![
        (plain(), good()[..2].to_vec(), ArgError::Count { want: 3, got: 2 }),
        (
            plain(),
            vec![number(Scalar::F32, 0), good()[1].clone(), good()[2].clone()],
            ArgError::Kind { param: 0, want: plain().to_string() },
        ),
        (plain(), vec![good()[0].clone(), good()[1].clone(), good()[0].clone()], ArgError::Kind { param: 2, want: "f32".into() }),
        (
            plain(),
            first(ViewArg::dense(0, Scalar::I32, &[2, 4])).to_vec(),
            ArgError::Element { param: 0, want: Scalar::F32, got: Scalar::I32 },
        ),
        (
            plain(),
            vec![good()[0].clone(), good()[1].clone(), ScalarArg::float(Scalar::F16, 1.0).into()],
            ArgError::Element { param: 2, want: Scalar::F32, got: Scalar::F16 },
        ),
        (plain(), first(dense(&[8])).to_vec(), ArgError::Rank { param: 0, want: 2, extents: 1, strides: 1 }),
        (plain(), first(dense(&[2, 4]).with_strides(&[4])).to_vec(), ArgError::Rank { param: 0, want: 2, extents: 2, strides: 1 }),
        (plain(), first(dense(&[-1, 4])).to_vec(), ArgError::ExtentRange { param: 0, dim: 0, got: -1 }),
        (plain(), first(dense(&[2, 1 << 31])).to_vec(), ArgError::ExtentRange { param: 0, dim: 1, got: 1 << 31 }),
        (fact(Extent::Dynamic(8)), first(dense(&[2, 4])).to_vec(), ArgError::Extent { param: 0, dim: 1, fact: Extent::Dynamic(8), got: 4 }),
        (fact(Extent::Fixed(5)), first(dense(&[2, 4])).to_vec(), ArgError::Extent { param: 0, dim: 1, fact: Extent::Fixed(5), got: 4 }),
        (
            strided(Extent::Dynamic(1)),
            first(dense(&[2, 4]).with_strides(&[-4, 1])).to_vec(),
            ArgError::StrideRange { param: 0, dim: 0, got: -4 },
        ),
        (
            strided(Extent::Dynamic(8)),
            first(dense(&[2, 4]).with_strides(&[12, 1])).to_vec(),
            ArgError::Stride { param: 0, dim: 0, fact: Extent::Dynamic(8), got: 12 },
        ),
        (
            strided(Extent::Dynamic(8)),
            first(dense(&[2, 4]).with_strides(&[8, 2])).to_vec(),
            ArgError::Stride { param: 0, dim: 1, fact: Extent::Fixed(1), got: 2 },
        ),
        (plain(), first(dense(&[2, 4]).with_strides(&[8, 1])).to_vec(), ArgError::NotDense { param: 0, dim: 0, want: 4, got: 8 }),
        (plain(), first(dense(&[2, 4]).at(8)).to_vec(), ArgError::Alignment { param: 0, align: 16, offset: 8 }),
        (plain().with_align(4), first(dense(&[2, 4]).at(2)).to_vec(), ArgError::Alignment { param: 0, align: 4, offset: 2 }),
        (plain(), first(ViewArg::dense(7, Scalar::F32, &[2, 4])).to_vec(), ArgError::Buffer { param: 0, buffer: 7, count: 2 }),
        (plain(), first(dense(&[64, 4]).at(16)).to_vec(), ArgError::Outside { param: 0, end: 1040, len: 1024 }),
        (plain(), first(dense(&[2, 4]).at(1 << 40)).to_vec(), ArgError::Outside { param: 0, end: (1 << 40) + 32, len: 1024 }),
        (strided(Extent::Dynamic(1)), first(dense(&[2, 4]).with_strides(&[3, 1])).to_vec(), ArgError::SelfOverlap { param: 0 }),
        (strided(Extent::Dynamic(1)), first(dense(&[2, 4]).with_strides(&[0, 1])).to_vec(), ArgError::SelfOverlap { param: 0 }),
        (plain(), first(ViewArg::dense(1, Scalar::F32, &[2, 4]).at(16)).to_vec(), ArgError::Overlap { written: 0, other: 1 }),
    ];
    for (ty, args, want) in cases {
        let k = kernel(ty, plain());
        assert_eq!(check_args(&k, &args, &memory()), Err(want.clone()));
        let e = run(&k, [1; 3], &args, &mut memory(), &Options::default()).expect_err("the same check");
        assert_eq!(e, InterpError::Args(want.clone()));
        assert!(!want.to_string().is_empty());
    }
}

#[test]
fn huge_extents_do_not_overflow() {
    let k = kernel(plain(), plain());
    let most = i64::from(i32::MAX);
    for strides in [[most, 1], [i64::MAX, i64::MAX]] {
        let dynamic = [Extent::Dynamic(1); 2];
        let loose = kernel(plain().with_strides(&dynamic), plain());
        let args = first(ViewArg::dense(0, Scalar::F32, &[most, most]).with_strides(&strides));
        assert!(matches!(check_args(&loose, &args, &memory()), Err(ArgError::Outside { param: 0, .. })));
    }
    assert!(matches!(check_args(&k, &first(ViewArg::dense(0, Scalar::F32, &[most, most])), &memory()), Err(ArgError::Outside { .. })));
}

#[test]
fn what_is_harmless_is_allowed() {
    let k = kernel(plain(), plain());
    let ok = |args: [Arg; 3]| assert_eq!(check_args(&k, &args, &memory()), Ok(()));
    // Neighbours in one buffer; an empty view anywhere; strides of dimensions that are never stepped along.
    ok(first(ViewArg::dense(1, Scalar::F32, &[2, 4]).at(32)));
    ok(first(ViewArg::dense(1, Scalar::F32, &[0, 4]).at(16)));
    ok(first(ViewArg::dense(1, Scalar::F32, &[0, 4]).with_strides(&[99, 5]).at(1024)));
    ok(first(ViewArg::dense(0, Scalar::F32, &[1, 4]).with_strides(&[1000, 1])));
    // A transposed tensor is no overlap with itself.
    let dynamic = [Extent::Dynamic(1); 2];
    let loose = kernel(plain().with_strides(&dynamic), plain());
    let turned = first(ViewArg::dense(0, Scalar::F32, &[2, 4]).with_strides(&[1, 2]));
    assert_eq!(check_args(&loose, &turned, &memory()), Ok(()));
    // Two views that are only read may overlap.
    let mut b = KernelBuilder::new("read");
    let (x, y, z) = (b.param(plain()), b.param(plain()), b.param(plain()));
    let zero = b.constant(0, Scalar::I32);
    let (p, q) = (b.load(x, &[zero, zero], &[2, 4]), b.load(y, &[zero, zero], &[2, 4]));
    let s = b.add(p, q);
    b.store(z, &[zero, zero], s);
    let k = b.finish().expect("valid");
    let same: Arg = ViewArg::dense(0, Scalar::F32, &[2, 4]).into();
    assert_eq!(check_args(&k, &[same.clone(), same, ViewArg::dense(1, Scalar::F32, &[2, 4]).into()], &memory()), Ok(()));
}
