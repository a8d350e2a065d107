//! Schedules are programs: what the compiler makes of a plain loop prints, parses, is interpreted, is proved, and lowers to the same lane program.

use crate::common::assembler::together;
use crate::common::units::{clean, lowered, product, right, simulated};
use std::ops::Range;
use tilelift_interp::{Buffer, Memory, Options, interpret};
use tilelift_ir::{BuildErrors, Kernel, KernelBuilder, Scalar, ViewType, text, verify};
use tilelift_isel::reason::NotSpecialised;
use tilelift_isel::{LowerError, LowerOptions, Lowered, Refusal, Schedule, ScheduleKind, Target, lower, prove};
use tilelift_kernels::reference::Reference;
use tilelift_kernels::tensor::{Tensor, TensorSpec};
use tilelift_kernels::workload::{FusedGemmCase, Ran, Workload};
use tilelift_kernels::{Activation, Case, FusedGemm, Gemm, Residual, Size, SplitGemm};
use tilelift_nvptx::sm_90a;

fn made(l: &Lowered) -> &Kernel {
    match &l.written {
        Some(Ok(made)) => made,
        other => panic!("{}: {:?}", l.plan, other.as_ref().map(|w| w.as_ref().map(|_| ()))),
    }
}

/// The text of the schedule, compiled with the same options, is the same program; and it is proved.
fn round_trip(case: &Case, options: &LowerOptions) -> Lowered {
    let l = lowered(case, options);
    let printed = text::print(made(&l));
    let file = text::parse(&printed).unwrap_or_else(|e| panic!("{}: {e}\n{printed}", case.name));
    assert_eq!(text::print(&file.kernels[0]), printed, "{}", case.name);
    let verified = verify(&file.kernels[0]).unwrap_or_else(|e| panic!("{}: {}", case.name, e.pretty(&file.kernels[0])));
    let again = lower(&verified, &sm_90a(), options).unwrap_or_else(|e| panic!("{}: {e}\n{printed}", case.name));
    assert_eq!(again.program.to_string(), l.program.to_string(), "{}", case.name);
    prove(&l.program, &sm_90a()).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    l
}

/// The schedule on the interpreter.
fn interpreted(case: &Case, l: &Lowered) {
    let tensors = case.make_tensors();
    let mut memory = Memory::new();
    for (i, t) in tensors.iter().enumerate() {
        let output = i + 1 == tensors.len();
        memory.add(if output { Buffer::uninit(t.bytes.len()) } else { Buffer::from_bytes(t.bytes.clone()) });
    }
    let verified = verify(made(l)).expect("verifies");
    let run = interpret(&verified, case.grid(), &case.arguments(), &mut memory, &Options::default());
    run.unwrap_or_else(|e| panic!("{}: {e}\n{}", case.name, text::print(made(l))));
    let verdict = case.judge(&tensors, &memory, None).unwrap();
    assert!(verdict.pass(), "{}: {verdict}", case.name);
}

fn judged_case(case: &Case, options: &LowerOptions) -> String {
    let l = round_trip(case, options);
    interpreted(case, &l);
    right(case, &l);
    simulated(case, &l, 1);
    // Rings go round, in products and where slots are passed over: steps are not divided by the number of slots.
    assert!(!clean(case, &l).contains("rem.s32"), "{}", case.name);
    text::print(made(&l))
}

fn judged(config: Gemm, shape: [u32; 3], options: &LowerOptions) -> String {
    judged_case(&product(&config, shape), options)
}

/// How often a text has a line with a word.
fn count(text: &str, word: &str) -> usize {
    text.lines().filter(|l| l.contains(word)).count()
}

#[test]
fn storage_orders_and_types() {
    let _texts = together();
    for (elem, order) in
        [(Scalar::BF16, (false, true)), (Scalar::BF16, (false, false)), (Scalar::F16, (true, false)), (Scalar::F16, (true, true))]
    {
        judged(Gemm::new(elem).transposed(order.0, order.1).tile(128, 128, 64), [200, 136, 200], &LowerOptions::default());
    }
    judged(Gemm::new(Scalar::F32).transposed(false, true).tile(128, 128, 32), [130, 136, 200], &LowerOptions::default());
    judged(Gemm::new(Scalar::I8).transposed(false, true).tile(128, 64, 128), [130, 80, 144], &LowerOptions::default());
}

#[test]
fn tiles_and_consumers() {
    let _texts = together();
    for (tile, consumers) in
        [([128, 256, 64], None), ([64, 64, 64], None), ([256, 128, 64], Some(2)), ([256, 64, 64], Some(4)), ([128, 192, 64], None)]
    {
        let options = LowerOptions { consumers, ..LowerOptions::default() };
        judged(Gemm::new(Scalar::BF16).transposed(false, true).tile(tile[0], tile[1], tile[2]), [270, 264, 136], &options);
    }
}

#[test]
fn rings_and_grids() {
    let _texts = together();
    let gemm = || Gemm::new(Scalar::BF16).transposed(false, true).tile(128, 128, 64);
    for (stages, persistent) in [(2, Some(true)), (3, Some(false)), (5, None)] {
        judged(gemm(), [200, 264, 520], &LowerOptions { stages: Some(stages), persistent, ..LowerOptions::default() });
    }
    // No step, one, and results by lanes.
    judged(gemm().output(Scalar::F32), [130, 72, 8], &LowerOptions::default());
    judged(gemm().epilogue(None, Activation::Gelu), [130, 136, 72], &LowerOptions::default());
    judged(gemm(), [130, 136, 72], &LowerOptions { bulk_stores: Some(false), ..LowerOptions::default() });
}

/// Several products of a step are one batch, with one wait in the loop and one per sum behind it.
#[test]
fn several_products() {
    let _texts = together();
    let gemm = |tile: [u32; 3]| Gemm::new(Scalar::BF16).transposed(false, true).tile(tile[0], tile[1], tile[2]);
    for ([m, n, k], tile) in [([200, 136, 200], [128, 128, 64]), ([130, 72, 8], [64, 64, 64]), ([70, 64, 0], [128, 64, 64])] {
        let config = FusedGemm::new(gemm(tile).epilogue(None, Activation::Silu).for_shape(m, n, k)).gated();
        let case = FusedGemmCase { config, batch: 1, m, n, k };
        let case = Case { name: format!("gated {m}x{n}x{k}"), row: 11, size: Size::Small, workload: Box::new(case) };
        let printed = judged_case(&case, &LowerOptions::default());
        assert_eq!([count(&printed, "= async_dot v"), count(&printed, "async_dot_wait v")], [2, 3], "{printed}");
    }
    // Two pairs of operands, and a sum that does not begin at zero.
    for k in [264, 128, 0] {
        let [m, n] = [200, 136];
        let config = FusedGemm::new(gemm([128, 128, 64]).output(Scalar::F32).for_shape(m, n, k)).plus(Residual::Plain(Scalar::F32));
        let case = Pairs(FusedGemmCase { config, batch: 1, m, n, k });
        let case = Case { name: format!("pairs of depth {k}"), row: 11, size: Size::Small, workload: Box::new(case) };
        let printed = judged_case(&case, &LowerOptions::default());
        assert_eq!([count(&printed, "= async_dot v"), count(&printed, "async_load v")], [2, 4], "{printed}");
    }
}

/// `R + A · B` in steps of two slots: one sum begins at R, and has every other slot; the other one has the rest.
#[derive(Debug)]
struct Pairs(FusedGemmCase);

impl Workload for Pairs {
    fn name(&self) -> String {
        format!("pairs_{}", self.0.name())
    }
    fn build(&self) -> Result<Kernel, BuildErrors> {
        let g = &self.0.config.gemm;
        let mut b = KernelBuilder::new("pairs");
        let a = b.param(ViewType::dense(g.elem, &[g.m, g.k]));
        let w = b.param(ViewType::dense(g.elem, &[g.n, g.k]));
        let r = b.param(ViewType::dense(Scalar::F32, &[g.m, g.n]));
        let c = b.param(ViewType::dense(Scalar::F32, &[g.m, g.n]));
        let (down, across) = (b.program_id(0), b.program_id(1));
        let (row, col) = (b.mul(down, g.bm), b.mul(across, g.bn));
        let depth = b.dim(a, 1);
        let first = b.load(r, &[row, col], &[g.bm, g.bn]);
        let zero = b.full(&[g.bm, g.bn], 0, Scalar::F32);
        let sums = b.for_loop(0, depth, 2 * g.bk, &[first, zero], |b, k, sums| {
            let at = [k, b.add(k, g.bk)];
            let mut pair = |n: usize| {
                let x = b.load(a, &[row, at[n]], &[g.bm, g.bk]);
                let y = b.load(w, &[col, at[n]], &[g.bn, g.bk]);
                let y = b.transpose(y, &[1, 0]);
                b.dot(x, y, sums[n])
            };
            vec![pair(0), pair(1)]
        });
        let t = b.add(sums[0], sums[1]);
        b.store(c, &[row, col], t);
        b.finish()
    }
    fn grid(&self) -> [u32; 3] {
        let g = &self.0.config.gemm;
        [self.0.m.div_ceil(g.bm), self.0.n.div_ceil(g.bn), 1]
    }
    fn tensors(&self) -> Vec<TensorSpec> {
        self.0.tensors()
    }
    fn owned(&self, _: usize, [x, y, _]: [u32; 3]) -> Vec<Range<usize>> {
        let (g, n) = (&self.0.config.gemm, self.0.n);
        let cols = (y * g.bn).min(n)..((y + 1) * g.bn).min(n);
        let rows = (x * g.bm).min(self.0.m)..((x + 1) * g.bm).min(self.0.m);
        rows.map(|r| (r * n + cols.start) as usize..(r * n + cols.end) as usize).collect()
    }
    fn reference<'a>(&'a self, output: usize, tensors: &'a [Tensor], ran: Ran<'a>) -> Reference<'a> {
        self.0.reference(output, tensors, ran)
    }
}

/// Products of 8-bit floats begin at zero in each step, and the lanes add them.
#[test]
fn promoted_sums() {
    let _texts = together();
    for elem in [Scalar::F8E4M3, Scalar::F8E5M2] {
        for shape in [[200, 136, 400], [130, 80, 16], [130, 80, 0]] {
            let printed = judged(Gemm::new(elem).transposed(false, true).tile(128, 128, 128), shape, &LowerOptions::default());
            assert_eq!([count(&printed, "async_dot_wait"), count(&printed, ", 0\n")], [1, 0], "{printed}");
        }
    }
    judged(Gemm::new(Scalar::F8E4M3).transposed(false, true).tile(64, 64, 128), [70, 64, 272], &LowerOptions::default());
}

/// Operand A goes from its slot through registers: where it is asked for, and where types or storage leave nothing else.
#[test]
fn operand_a_through_registers() {
    let _texts = together();
    let asked = LowerOptions { a_from_registers: Some(true), ..LowerOptions::default() };
    let nt = |elem| Gemm::new(elem).transposed(false, true);
    let tt = |elem| Gemm::new(elem).transposed(true, true);
    for (config, shape) in [
        (nt(Scalar::BF16).tile(128, 128, 64), [200, 136, 200]),
        (nt(Scalar::F16).tile(64, 128, 64), [130, 136, 72]),
        (nt(Scalar::BF16).tile(256, 64, 64), [300, 72, 0]),
        (tt(Scalar::BF16).tile(128, 128, 64), [200, 136, 264]),
        (nt(Scalar::F32).tile(128, 128, 32), [130, 136, 72]),
        (tt(Scalar::F32).tile(128, 64, 32), [132, 72, 100]),
        (tt(Scalar::I8).tile(128, 64, 128), [144, 80, 400]),
        (tt(Scalar::F8E4M3).tile(128, 64, 128), [144, 80, 272]),
    ] {
        let printed = judged(config, shape, &asked);
        assert_eq!(count(&printed, "local_load"), 1, "{printed}");
    }
    // Two products of one operand fetch it once.
    let [m, n, k] = [130, 72, 200];
    let config = FusedGemm::new(nt(Scalar::BF16).tile(128, 64, 64).for_shape(m, n, k)).gated();
    let case = Case { name: "gated".into(), row: 11, size: Size::Small, workload: Box::new(FusedGemmCase { config, batch: 1, m, n, k }) };
    let printed = judged_case(&case, &asked);
    assert_eq!([count(&printed, "local_load"), count(&printed, "= async_dot v")], [1, 2], "{printed}");
}

/// Ping-pong consumers are two replicas of a task, which pass over each other's slots.
#[test]
fn ping_pong_consumers() {
    let _texts = together();
    let gemm = |tile: [u32; 3]| Gemm::new(Scalar::BF16).transposed(false, true).tile(tile[0], tile[1], tile[2]);
    let ping_pong = LowerOptions { consumer_sets: Some(2), ..LowerOptions::default() };
    let by_lanes = LowerOptions { bulk_stores: Some(false), ..ping_pong };
    for (tile, shape, options) in [
        ([64, 128, 64], [200, 264, 200], ping_pong),
        ([64, 64, 64], [200, 136, 8], ping_pong),
        ([64, 256, 64], [70, 264, 0], ping_pong),
        ([64, 64, 64], [60, 64, 520], ping_pong),
        ([128, 128, 64], [300, 264, 136], by_lanes),
        ([64, 128, 64], [260, 136, 200], LowerOptions { stages: Some(3), ..ping_pong }),
        ([64, 128, 64], [130, 136, 328], LowerOptions { a_from_registers: Some(true), ..ping_pong }),
        ([128, 64, 64], [300, 72, 264], LowerOptions { consumers: Some(2), ..by_lanes }),
    ] {
        let printed = judged(gemm(tile), shape, &options);
        let consumers = printed.lines().find(|l| l.contains("task consumers")).unwrap_or_default();
        assert!(consumers.contains("replicas 2"), "{printed}");
    }
}

/// Every wait, arrival and announcement of a schedule is needed: without one it is not proved.
#[test]
fn nothing_may_be_left_out() {
    let gemm = Gemm::new(Scalar::BF16).transposed(false, true).tile(64, 64, 64);
    let plain = LowerOptions::default();
    for options in [LowerOptions { consumer_sets: Some(2), ..plain }, LowerOptions { a_from_registers: Some(true), ..plain }] {
        let printed = text::print(made(&lowered(&product(&gemm, [200, 136, 200]), &options)));
        let lines: Vec<&str> = printed.lines().collect();
        let words = ["barrier_wait ", "barrier_arrive ", "barrier_expect ", "async_load "];
        let acts: Vec<usize> = (0..lines.len()).filter(|&n| words.iter().any(|w| lines[n].contains(w))).collect();
        assert!(acts.len() >= 6, "{printed}");
        for n in acts {
            let without = [&lines[..n], &lines[n + 1..]].concat().join("\n");
            let file = text::parse(&without).unwrap();
            let verified = verify(&file.kernels[0]).unwrap();
            let refused = lower(&verified, &sm_90a(), &LowerOptions::default());
            assert!(refused.is_err(), "without line {n}, {}:\n{printed}", lines[n]);
        }
    }
}

/// What is specialised is written; three warpgroups are no task, so that a loop that is to be shared by them is pipelined, and written as that.
#[test]
fn whatever_is_specialised_is_written() {
    let gemm = Gemm::new(Scalar::BF16).transposed(false, true).tile(192, 64, 64);
    let case = product(&gemm, [200, 136, 208]);
    let usual = lowered(&case, &LowerOptions::default());
    assert!(usual.plan.specialised().is_some() && made(&usual).is_explicit(), "{}", usual.plan);
    let three = LowerOptions { consumers: Some(3), ..LowerOptions::default() };
    let l = lowered(&case, &three);
    let Schedule::Pipelined { why } = &l.plan.schedule else { panic!("{}", l.plan) };
    assert_eq!(**why, NotSpecialised::Unwritten { why: Refusal::Consumers { groups: 3 } });
    assert!(text::print(made(&l)).contains("copy_async"), "{}", l.plan);
    let kernel = case.build().unwrap();
    let asked = LowerOptions { schedule: Some(ScheduleKind::Specialised), ..three };
    let refused = lower(&verify(&kernel).unwrap(), &sm_90a(), &asked).unwrap_err();
    assert!(
        matches!(&refused, LowerError::NotSpecialised { why, .. } if **why == NotSpecialised::Unwritten { why: Refusal::Consumers { groups: 3 } })
    );
}

/// Where grid positions have as many steps as each has, consumer sets do not pass over one another's: the warpgroups share one position.
#[test]
fn positions_with_steps_of_their_own_are_shared() {
    let config =
        SplitGemm::new(Gemm::new(Scalar::BF16).transposed(false, true).tile(128, 64, 64).for_shape(256, 128, 1024), 3).build().unwrap();
    let ping_pong = LowerOptions { consumers: Some(1), consumer_sets: Some(2), ..LowerOptions::default() };
    let l = lower(&verify(&config).unwrap(), &sm_90a(), &ping_pong).unwrap();
    let s = l.plan.specialised().unwrap_or_else(|| panic!("{}", l.plan));
    assert_eq!((s.consumers, s.consumer_sets), (2, 1), "{}", l.plan);
    made(&l);
}

/// What is loaded beside a ring takes room from it: the plan says how many slots are left, and they are as many as fit.
#[test]
fn rings_have_the_slots_that_fit() {
    let gemm = Gemm::new(Scalar::BF16).transposed(false, true).tile(128, 128, 64).epilogue(None, Activation::Gelu);
    let config = FusedGemm::new(gemm.for_shape(200, 136, 208)).plus(Residual::Plain(Scalar::BF16));
    let case = FusedGemmCase { config, batch: 1, m: 200, n: 136, k: 208 };
    let case = Case { name: "residual".into(), row: 11, size: Size::Small, workload: Box::new(case) };
    let target = sm_90a();
    let mut seen = std::collections::BTreeSet::new();
    for less in [0, 16, 48, 80, 112] {
        let small = Target { shared_bytes: target.shared_bytes - less * 1024, ..target.clone() };
        let l = lower(&verify(&case.build().unwrap()).unwrap(), &small, &LowerOptions::default()).unwrap();
        assert!(l.program.shared_bytes <= small.shared_bytes, "{}", l.plan);
        let s = l.plan.specialised().unwrap_or_else(|| panic!("{}", l.plan));
        assert!(text::print(made(&l)).contains(&format!("shared<{}x128x64xbf16>", s.depth)), "{}", l.plan);
        // One more would not fit.
        assert!(l.program.shared_bytes + s.stage_bytes > small.shared_bytes || s.depth == 8, "{}", l.plan);
        seen.insert(s.depth);
    }
    assert!(seen.len() > 3, "{seen:?}");
}
