//! Gather, scatter and atomic updates.

use super::{Nums, number, run, view};
use tilelift_interp::{Arg, Buffer, Fault, InterpError, Memory, Options, ViewArg};
use tilelift_ir::ops::{AtomicOp, MemoryOrder};
use tilelift_ir::text::parse;
use tilelift_ir::types::Scalar;
use tilelift_ir::{Access, Kernel, KernelBuilder, Update};

fn memory(buffers: &[Nums]) -> (Memory, Vec<Arg>) {
    let mut m = Memory::new();
    let args = buffers.iter().map(|n| ViewArg::dense(m.add(n.buffer()), n.elem(), &[n.len() as i64]).into()).collect();
    (m, args)
}

fn fault(kernel: &Kernel, grid: u32, args: &[Arg], m: &mut Memory) -> Fault {
    match run(kernel, [grid, 1, 1], args, m, &Options::default()) {
        Err(InterpError::Fault { fault, .. }) => fault,
        other => panic!("a fault was expected, not {other:?}"),
    }
}

#[test]
pub(super) fn gathers_and_scatters() {
    for &elem in Scalar::ALL.iter().filter(|s| !s.is_packed()) {
        let mut k = KernelBuilder::new("swap");
        let (source, target, index) = (k.param(view(elem, 1)), k.param(view(elem, 1)), k.param(view(Scalar::I32, 1)));
        let zero = k.constant(0, Scalar::I32);
        let at = k.load(index, &[zero], &[6]);
        let one = k.constant(1, elem);
        let t = k.gather(source, &[at], Access { other: Some(one.into()), ..Access::default() });
        let lanes = k.iota(&[6], 0);
        let mirror = k.sub(4, lanes);
        k.scatter(target, &[mirror], t, None);
        let kernel = k.finish().expect("valid");
        let bits = |v: &[i64]| Nums::I(elem, v.iter().map(|x| if elem == Scalar::I1 { x & 1 } else { *x }).collect());
        let (mut m, args) = memory(&[bits(&[0, 2, 5, 7]), bits(&[0; 5]), Nums::I(Scalar::I32, vec![3, 0, -1, 4, 2, 1])]);
        run(&kernel, [1; 3], &args, &mut m, &Options::default()).expect("runs");
        let want = bits(&[5, 1, 1, 0, 7]).buffer();
        assert_eq!(m.buffers[1].read_i64(elem), want.read_i64(elem), "{elem}");
    }
}

const MEETING: &str = "kernel @meet(v0: view<f32, [?]>, v1: view<f32, [?]>) {
    v2 = iota 0 : tile<4xi32>
    v3 = shr_s v2, v4
    scatter v0[v3], v5
}";

#[test]
fn scatters_that_meet_must_agree() {
    let mut k = KernelBuilder::new("meet");
    let (out, x) = (k.param(view(Scalar::F32, 1)), k.param(view(Scalar::F32, 1)));
    let zero = k.constant(0, Scalar::I32);
    let lanes = k.iota(&[4], 0);
    let half = k.shr_s(lanes, 1);
    let t = k.load(x, &[zero], &[4]);
    k.scatter(out, &[half], t, None);
    let kernel = k.finish().expect("valid");
    let (mut m, args) = memory(&[Nums::F(Scalar::F32, vec![0.0; 2]), Nums::F(Scalar::F32, vec![1.0, 1.0, 2.0, 2.0])]);
    run(&kernel, [1; 3], &args, &mut m, &Options::default()).expect("equal values may meet");
    assert_eq!(m.buffers[0].read_f64(Scalar::F32), [1.0, 2.0]);
    let (mut m, args) = memory(&[Nums::F(Scalar::F32, vec![0.0; 2]), Nums::F(Scalar::F32, vec![1.0, 1.0, 0.0, -0.0])]);
    assert_eq!(fault(&kernel, 1, &args, &mut m), Fault::Collision { param: 0, at: vec![1] });
    assert!(parse(MEETING).is_err(), "undefined names are refused");
}

/// One program's update of 4 elements by `[5, -3, 9, 2]` at `[0, 1, 1, 7]`; gives old values and memory.
fn once(op: AtomicOp, elem: Scalar, start: [f64; 2]) -> (Vec<f64>, Vec<f64>) {
    let mut k = KernelBuilder::new("update");
    let (target, old, by, index) = (k.param(view(elem, 1)), k.param(view(elem, 1)), k.param(view(elem, 1)), k.param(view(Scalar::I32, 1)));
    let zero = k.constant(0, Scalar::I32);
    let at = k.load(index, &[zero], &[4]);
    let v = k.load(by, &[zero], &[4]);
    let o = k.atomic(op, target, &[at], v, Update::default());
    k.store(old, &[zero], o);
    let kernel = k.finish().expect("valid");
    let nums = |v: &[f64]| if elem.is_float() { Nums::F(elem, v.to_vec()) } else { Nums::I(elem, v.iter().map(|&x| x as i64).collect()) };
    let (mut m, args) = memory(&[nums(&start), nums(&[0.0; 4]), nums(&[5.0, -3.0, 9.0, 2.0]), Nums::I(Scalar::I32, vec![0, 1, 1, 7])]);
    run(&kernel, [1; 3], &args, &mut m, &Options::default()).expect("runs");
    (m.buffers[1].read_f64(elem), m.buffers[0].read_f64(elem))
}

#[test]
pub(super) fn updates() {
    use AtomicOp::{Add, And, Max, Min, Or, Umax, Umin, Xchg, Xor};
    for elem in [Scalar::I32, Scalar::I64] {
        let cases = [
            (Add, [15.0, 26.0], 17.0),
            (Min, [5.0, -3.0], -3.0),
            (Max, [10.0, 20.0], 20.0),
            (Umin, [5.0, 9.0], 20.0),
            (Umax, [10.0, -3.0], -3.0),
            (And, [0.0, 1.0 * f64::from(20 & -3 & 9)], f64::from(20 & -3)),
            (Or, [15.0, f64::from(20 | -3 | 9)], f64::from(20 | -3)),
            (Xor, [15.0, f64::from(20 ^ -3 ^ 9)], f64::from(20 ^ -3)),
            (Xchg, [5.0, 9.0], -3.0),
        ];
        for (op, memory, third) in cases {
            assert_eq!(once(op, elem, [10.0, 20.0]), (vec![10.0, 20.0, third, 0.0], memory.to_vec()), "{op} {elem}");
        }
    }
    for elem in [Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64] {
        assert_eq!(once(Add, elem, [0.5, 1.0]), (vec![0.5, 1.0, -2.0, 0.0], vec![5.5, 7.0]), "{elem}");
    }
    assert_eq!(once(Xchg, Scalar::F32, [0.5, 1.0]).1, [5.0, 9.0]);
    // bf16 has 8 significant bits: 256 + 5 rounds to 260 (to even), 256 - 3 is 253.
    assert_eq!(once(Add, Scalar::BF16, [256.0, 256.0]).1, [260.0, 262.0]);

    let mut k = KernelBuilder::new("cas");
    let (target, old) = (k.param(view(Scalar::I32, 1)), k.param(view(Scalar::I32, 1)));
    let zero = k.constant(0, Scalar::I32);
    let at = k.iota(&[3], 0);
    let o = k.atomic_cas(target, &[at], 4, 9, Update::default());
    k.store(old, &[zero], o);
    let kernel = k.finish().expect("valid");
    let (mut m, args) = memory(&[Nums::I(Scalar::I32, vec![4, 5]), Nums::I(Scalar::I32, vec![0; 3])]);
    run(&kernel, [1; 3], &args, &mut m, &Options::default()).expect("runs");
    assert_eq!(m.buffers[0].read_i64(Scalar::I32), [9, 5]);
    assert_eq!(m.buffers[1].read_i64(Scalar::I32), [4, 5, 0]);
}

/// Every program adds 1 to the counter, then reads the element in front of its own and writes its own.
fn chain(order: MemoryOrder) -> Kernel {
    let mut k = KernelBuilder::new("chain");
    let (counter, cells) = (k.param(view(Scalar::I32, 1)), k.param(view(Scalar::I32, 1)));
    let pid = k.program_id(0);
    let zero = k.full(&[1], 0, Scalar::I32);
    let before = k.sub(pid, 1);
    k.atomic(AtomicOp::Add, counter, &[zero], 1, Update { order: Some(order), ..Update::default() });
    let t = k.load(cells, &[before], &[1]);
    let t = k.add(t, 2);
    k.store(cells, &[pid], t);
    k.atomic(AtomicOp::Add, counter, &[zero], 1, Update { order: Some(order), ..Update::default() });
    k.finish().expect("valid")
}

#[test]
fn updates_of_programs_do_not_conflict_and_order_accesses() {
    let setup = || memory(&[Nums::I(Scalar::I32, vec![0]), Nums::I(Scalar::I32, vec![0; 3])]);
    let (mut m, args) = setup();
    assert_eq!(fault(&chain(MemoryOrder::Relaxed), 3, &args, &mut m), Fault::Conflict { param: 1, at: vec![0], other: [0, 0, 0] });
    let (mut m, args) = setup();
    run(&chain(MemoryOrder::AcqRel), [3, 1, 1], &args, &mut m, &Options::default()).expect("ordered");
    assert_eq!(m.buffers[0].read_i64(Scalar::I32), [6]);
    assert_eq!(m.buffers[1].read_i64(Scalar::I32), [2, 4, 6]);
}

#[test]
fn plain_accesses_conflict_with_updates_of_other_programs() {
    let mut k = KernelBuilder::new("mixed");
    let (x, y, who) = (k.param(view(Scalar::I32, 1)), k.param(view(Scalar::I32, 1)), k.param(Scalar::I32));
    let pid = k.program_id(0);
    let zero = k.constant(0, Scalar::I32);
    let updates = k.cmp(tilelift_ir::CmpOp::Eq, pid, who);
    k.if_else(
        updates,
        |k| {
            let at = k.full(&[1], 0, Scalar::I32);
            k.atomic(AtomicOp::Add, x, &[at], 1, Update::default());
            vec![]
        },
        |k| {
            let t = k.load(x, &[zero], &[1]);
            k.store(y, &[zero], t);
            vec![]
        },
    );
    let kernel = k.finish().expect("valid");
    for who in [0, 1] {
        let (mut m, mut args) = memory(&[Nums::I(Scalar::I32, vec![0]), Nums::I(Scalar::I32, vec![0])]);
        args.push(number(Scalar::I32, who));
        assert_eq!(fault(&kernel, 2, &args, &mut m), Fault::Conflict { param: 0, at: vec![0], other: [0; 3] }, "{who}");
    }
    let (mut m, args) = memory(&[Nums::I(Scalar::I32, vec![0]), Nums::I(Scalar::I32, vec![0])]);
    m.buffers[0] = Buffer::uninit(4);
    let mut args = args;
    args.push(number(Scalar::I32, 0));
    assert_eq!(fault(&kernel, 1, &args, &mut m), Fault::Uninitialised { param: 0, at: vec![0] });
}
