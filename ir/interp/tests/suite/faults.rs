//! Faults while programs run: fuel, steps, conflicts, grids.

use super::{number, run, view};
use tilelift_interp::{Arg, Buffer, Fault, InterpError, Memory, Options, ViewArg};
use tilelift_ir::types::Scalar;
use tilelift_ir::{Kernel, KernelBuilder, Value};

fn fault(r: Result<tilelift_interp::Stats, InterpError>) -> (Fault, String) {
    match r {
        Err(InterpError::Fault { fault, op, .. }) => (fault, op.to_string()),
        other => panic!("no fault: {other:?}"),
    }
}

#[test]
fn fuel_ends_every_loop() {
    let mut k = KernelBuilder::new("forever");
    let x = k.constant(0, Scalar::I32);
    k.while_loop(&[x], |k, _| k.constant(1, Scalar::I1), |_, c| c.to_vec());
    let kernel = k.finish().expect("valid");
    let options = Options { fuel: 10_000, ..Options::default() };
    let (f, _) = fault(run(&kernel, [1; 3], &[], &mut Memory::new(), &options));
    let Fault::Fuel { limit: 10_000, rounds } = f else { panic!("{f}") };
    // Two literals and two yields a round, and the round.
    assert!((1_900..=2_500).contains(&rounds), "{rounds}");
    assert!(f.to_string().contains("allow more"), "{f}");

    let mut k = KernelBuilder::new("long");
    let most = k.constant(i64::MAX, Scalar::I64);
    k.for_loop(0, most, 1, &[], |_, _, _| vec![]);
    let kernel = k.finish().expect("valid");
    assert!(matches!(fault(run(&kernel, [1; 3], &[], &mut Memory::new(), &options)).0, Fault::Fuel { limit: 10_000, .. }));
    // A grid of the largest extents ends as well; without instructions there is nothing to run.
    let most = i32::MAX as u32;
    let mut k = KernelBuilder::new("wide");
    k.constant(0, Scalar::I32);
    let kernel = k.finish().expect("valid");
    let all = Options { instructions: u64::MAX, ..options };
    assert_eq!(fault(run(&kernel, [most; 3], &[], &mut Memory::new(), &all)).0, Fault::Fuel { limit: 10_000, rounds: 0 });
    let empty = KernelBuilder::new("empty").finish().expect("valid");
    run(&empty, [most; 3], &[], &mut Memory::new(), &Options::default()).expect("nothing to do");
}

#[test]
fn instructions_end_a_loop_of_cheap_rounds() {
    // Two loops in one another: the outer one goes round for ever, the inner one three times.
    let mut k = KernelBuilder::new("cheap");
    let zero = k.constant(0, Scalar::I64);
    let most = k.constant(i64::MAX, Scalar::I64);
    let [three, one] = [3, 1].map(|n| k.constant(n, Scalar::I64));
    k.for_loop(zero, most, one, &[zero], |k, _, c| k.for_loop(zero, three, one, c, |k, i, c| vec![k.add(c[0], i)]));
    let kernel = k.finish().expect("valid");
    let options = Options { instructions: 10_000, ..Options::default() };
    let Err(InterpError::Fault { fault, inst, .. }) = run(&kernel, [1; 3], &[], &mut Memory::new(), &options) else { panic!("it ran") };
    let Fault::Instructions { limit: 10_000, rounds } = fault else { panic!("{fault}") };
    assert!(rounds > 500, "{rounds}");
    assert!(kernel.regions[kernel.body].insts.contains(&inst), "the outer loop is named");
}

#[test]
fn a_grid_of_more_instructions_than_allowed_is_refused_at_once() {
    let mut k = KernelBuilder::new("wide");
    k.constant(0, Scalar::I32);
    let kernel = k.finish().expect("valid");
    let e = run(&kernel, [1 << 20, 1 << 10, 1], &[], &mut Memory::new(), &Options::default()).expect_err("too many");
    assert_eq!(e, InterpError::Work { programs: 1 << 30, each: 1, limit: 1 << 26 });
}

#[test]
fn fuel_counts_elements() {
    let mut k = KernelBuilder::new("count");
    let a = k.full(&[4, 8], 1.0f32, Scalar::F32);
    let b = k.full(&[8, 2], 1.0f32, Scalar::F32);
    let c = k.full(&[4, 2], 1.0f32, Scalar::F32);
    k.erf(c);
    k.dot(a, b, c);
    let kernel = k.finish().expect("valid");
    let stats = run(&kernel, [2, 1, 1], &[], &mut Memory::new(), &Options::default()).expect("runs");
    // Per program: three literals, splats of 32, 16 and 8 elements, 8 of a function that takes as long as 16 sums, a dot of 4 * 8 * 2.
    assert_eq!(stats.fuel, 2 * (3 + 32 + 16 + 8 + 8 * 16 + 64));
    let exact = Options { fuel: stats.fuel, ..Options::default() };
    run(&kernel, [2, 1, 1], &[], &mut Memory::new(), &exact).expect("just enough");
    let less = Options { fuel: stats.fuel - 1, ..Options::default() };
    assert_eq!(fault(run(&kernel, [2, 1, 1], &[], &mut Memory::new(), &less)).1, "dot");
}

#[test]
fn steps_are_positive() {
    let mut k = KernelBuilder::new("step");
    let s = k.param(Scalar::I32);
    k.for_loop(0, 10, s, &[], |_, _, _| vec![]);
    let kernel = k.finish().expect("valid");
    for step in [0i64, -1] {
        let (f, op) = fault(run(&kernel, [1; 3], &[number(Scalar::I32, step)], &mut Memory::new(), &Options::default()));
        assert_eq!((f, op.as_str()), (Fault::Step { step }, "for"));
    }
}

#[test]
fn grids_are_checked() {
    let kernel = KernelBuilder::new("empty").finish().expect("valid");
    let grid = [1, 1, u32::MAX];
    let e = run(&kernel, grid, &[], &mut Memory::new(), &Options::default()).expect_err("no grid");
    assert_eq!(e, InterpError::Grid { grid });
    // No programs: no work, and no error, but none of them can be chosen.
    for grid in [[0, 1, 1], [1, 0, 1], [0, 0, 0]] {
        assert_eq!(run(&kernel, grid, &[], &mut Memory::new(), &Options::default()).map(|s| s.programs), Ok(0));
        let options = Options { programs: Some(vec![[0, 0, 0]]), ..Options::default() };
        let e = run(&kernel, grid, &[], &mut Memory::new(), &options).expect_err("outside");
        assert_eq!(e, InterpError::Program { program: [0, 0, 0], grid });
    }
    let options = Options { programs: Some(vec![[0, 0, 0], [0, 2, 0]]), ..Options::default() };
    let e = run(&kernel, [1, 2, 1], &[], &mut Memory::new(), &options).expect_err("outside");
    assert_eq!(e, InterpError::Program { program: [0, 2, 0], grid: [1, 2, 1] });
}

/// Each program stores a tile of 4 at `pid * step`, made by `value` of the program and what it loads there.
fn overlapping(step: i32, value: impl FnOnce(&mut KernelBuilder, Value, Value) -> Value) -> (Kernel, [Arg; 1]) {
    let mut k = KernelBuilder::new("overlapping");
    let out = k.param(view(Scalar::I32, 1));
    let pid = k.program_id(0);
    let at = k.mul(pid, step);
    let v = value(&mut k, pid, out);
    k.store(out, &[at], v);
    (k.finish().expect("valid"), [ViewArg::dense(0, Scalar::I32, &[16]).into()])
}

fn memory() -> Memory {
    Memory { buffers: vec![Buffer::zeroed(64)], ..Memory::default() }
}

#[test]
fn programs_that_disagree_are_reported() {
    let (kernel, args) = overlapping(2, |k, pid, _| k.splat(pid, &[4]));
    let e = run(&kernel, [3, 1, 1], &args, &mut memory(), &Options::default());
    let program = if let Err(InterpError::Fault { program, .. }) = &e { *program } else { [9; 3] };
    assert_eq!(program, [1, 0, 0]);
    assert_eq!(fault(e), (Fault::Conflict { param: 0, at: vec![2], other: [0, 0, 0] }, "store".into()));
    // The same bytes are no conflict, nor are disjoint tiles, nor is anything when the check is off.
    let (same, args) = overlapping(2, |k, _, _| k.full(&[4], 7, Scalar::I32));
    run(&same, [3, 1, 1], &args, &mut memory(), &Options::default()).expect("they agree");
    let (apart, args) = overlapping(4, |k, pid, _| k.splat(pid, &[4]));
    run(&apart, [4, 1, 1], &args, &mut memory(), &Options::default()).expect("disjoint");
    let mut m = memory();
    run(&kernel, [3, 1, 1], &args, &mut m, &Options { conflicts: false, ..Options::default() }).expect("not checked");
    assert_eq!(m.buffers[0].read_i64(Scalar::I32)[..8], [0, 0, 1, 1, 2, 2, 2, 2], "the last program wins");
}

#[test]
fn faults_are_told_by_the_names_of_the_text() {
    let text = "kernel @k(%x: view<i32, [?]>, %out: view<i32, [?]>) {
    %p = program_id x
    %t = splat %p : tile<4xi32>
    %at = mul %p, 2
    store %out[%at], %t
}";
    let file = tilelift_ir::text::parse(text).expect("it is read");
    let kernel = tilelift_ir::verify(&file.kernels[0]).expect("it keeps the rules");
    let buffers = vec![Buffer::zeroed(64), Buffer::zeroed(64)];
    let args = [0, 1].map(|b| Arg::View(ViewArg::dense(b, Scalar::I32, &[16])));
    let e = run(&kernel, [2, 1, 1], &args, &mut Memory { buffers, ..Memory::default() }, &Options::default()).expect_err("programs meet");
    assert!(
        e.to_string().starts_with("5:5: `store` in program [1, 0, 0]: element [2] of %out was read or written by program [0, 0, 0]"),
        "{e}"
    );
}

#[test]
fn reading_what_another_program_wrote_is_reported() {
    let (kernel, args) = overlapping(4, |k, pid, out| {
        let at = k.mul(pid, 4);
        let at = k.sub(at, 1);
        let t = k.load(out, &[at], &[4]);
        k.add(t, 1)
    });
    let (f, op) = fault(run(&kernel, [2, 1, 1], &args, &mut memory(), &Options::default()));
    assert_eq!((f, op.as_str()), (Fault::Conflict { param: 0, at: vec![3], other: [0, 0, 0] }, "load"));
    // The other way around: program 0 reads one element too many, which program 1 then changes.
    let (kernel, args) = overlapping(4, |k, pid, out| {
        let at = k.mul(pid, 4);
        let at = k.add(at, 1);
        let t = k.load(out, &[at], &[4]);
        k.add(t, 1)
    });
    let (f, op) = fault(run(&kernel, [2, 1, 1], &args, &mut memory(), &Options::default()));
    assert_eq!((f, op.as_str()), (Fault::Conflict { param: 0, at: vec![4], other: [0, 0, 0] }, "store"));
    // In place, each program in its own tile, is fine.
    let (kernel, args) = overlapping(4, |k, pid, out| {
        let at = k.mul(pid, 4);
        let t = k.load(out, &[at], &[4]);
        let t = k.add(t, 1);
        k.store(out, &[at], t);
        let t = k.load(out, &[at], &[4]);
        k.add(t, 1)
    });
    let mut m = memory();
    run(&kernel, [4, 1, 1], &args, &mut m, &Options::default()).expect("no conflict");
    assert_eq!(m.buffers[0].read_i64(Scalar::I32), [2; 16]);
}

#[test]
pub(super) fn assumptions_and_assertions() {
    let kernel = |divisor| {
        let mut k = KernelBuilder::new("promise");
        let n = k.param(tilelift_ir::Type::Scalar(Scalar::I32));
        let m = k.assume_multiple(n, divisor);
        let at = k.iota(&[2, 3], 1);
        let ok = k.cmp(tilelift_ir::CmpOp::Lt, at, m);
        k.assert(ok);
        k.finish().expect("valid")
    };
    let go = |divisor, n| run(&kernel(divisor), [1; 3], &[number(Scalar::I32, n)], &mut Memory::new(), &Options::default());
    go(4, 8).expect("both hold");
    assert_eq!(fault(go(4, 6)), (Fault::Assumption { value: 6, divisor: 4 }, "assume".into()));
    let (f, op) = fault(go(2, 2));
    assert_eq!((&f, op.as_str()), (&Fault::Assertion { element: 2 }, "assert"));
    assert!(f.to_string().contains("element 2"), "{f}");
}

#[test]
pub(super) fn prints() {
    let mut k = KernelBuilder::new("report");
    let pid = k.program_id(0);
    let half = k.constant(0.5, Scalar::F32);
    let many = k.iota(&[100], 0);
    let few = k.splat(half, &[2]);
    k.print(&[pid, half, few]);
    k.print(&[many]);
    let kernel = k.finish().expect("valid");
    let mut m = Memory::new();
    run(&kernel, [2, 1, 1], &[], &mut m, &Options::default()).expect("runs");
    assert_eq!(m.printed.len(), 4);
    assert_eq!(m.printed[0], "[0, 0, 0] 0 0.5 [0.5, 0.5]");
    assert!(m.printed[3].starts_with("[1, 0, 0] [0, 1, 2") && m.printed[3].ends_with("63], … 36 more"), "{}", m.printed[3]);
}
