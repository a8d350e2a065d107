//! Faults of protocol, planted into the lane programs of specialised kernels: the proof refuses every one, and the simulator, which sees
//! nothing but the text, stops at it.

use crate::common::launch::{schedule, simulate_text};
use cranelift_entity::PrimaryMap;
use std::sync::Arc;
use tilelift_ir::Scalar;
use tilelift_ir::verify::verify;
use tilelift_isel::lane::{self, BinOp, Block, Inst, LTy, LVal, Program, Unit};
use tilelift_isel::{LowerOptions, MOST_STEPS, Schedule, ScheduleKind, lower, prove, prove_by_all_states};
use tilelift_kernels::workload::{AttentionCase, GemmCase, StreamGemmCase, Workload};
use tilelift_kernels::{Attention, Case, Gemm, Size, StreamGemm};
use tilelift_nvptx::sm_90a;
use tilelift_nvptx_sim as sim;

/// A kernel to plant faults into.
struct Subject {
    name: String,
    case: Case,
    program: Program,
}

impl Subject {
    fn new(name: String, workload: Box<dyn Workload>, consumer_sets: Option<u32>, overlap: bool) -> Subject {
        Subject::with(name, workload, LowerOptions { consumer_sets, overlap: Some(overlap), ..LowerOptions::default() })
    }

    fn with(name: String, workload: Box<dyn Workload>, options: LowerOptions) -> Subject {
        let case = Case { name, row: 9, size: Size::Small, workload };
        let kernel = case.build().unwrap();
        let options = LowerOptions {
            schedule: Some(ScheduleKind::Specialised),
            // Faults of what is used again show only where it is.
            persistent: Some(true),
            // Few slots have few states, and go round as many do.
            stages: Some(3),
            ..options
        };
        let l = lower(&verify(&kernel).unwrap(), &sm_90a(), &options).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        assert!(matches!(l.plan.schedule, Schedule::Specialised(_)), "{}: {}", case.name, l.plan);
        Subject { name: case.name.clone(), program: l.program, case }
    }

    fn gemm(elem: Scalar, [trans_a, trans_b]: [bool; 2], [m, n, k]: [u32; 3], tile: [u32; 3], consumer_sets: u32) -> Subject {
        let config = Gemm::new(elem).transposed(trans_a, trans_b).tile(tile[0], tile[1], tile[2]).for_shape(m, n, k);
        let name = format!("{elem} {trans_a} {trans_b} {m}x{n}x{k} {tile:?} {consumer_sets}");
        Subject::new(name, Box::new(GemmCase { config, m, n, k }), Some(consumer_sets), false)
    }

    /// Operands A go through registers.
    fn left(elem: Scalar, [trans_a, trans_b]: [bool; 2], [m, n, k]: [u32; 3], tile: [u32; 3], swizzle: u32) -> Subject {
        let config = Gemm::new(elem).transposed(trans_a, trans_b).tile(tile[0], tile[1], tile[2]).for_shape(m, n, k);
        let name = format!("left {elem} {trans_a} {trans_b} {m}x{n}x{k} {tile:?} {swizzle}");
        let options = LowerOptions { a_from_registers: Some(true), swizzle: Some(swizzle), ..LowerOptions::default() };
        Subject::with(name, Box::new(GemmCase { config, m, n, k }), options)
    }

    /// As many whole tiles as make up rounds of two workers: results leave from an arm of a choice.
    fn stream(elem: Scalar, [m, n, k]: [u32; 3], tile: [u32; 3], consumer_sets: u32) -> Subject {
        let gemm = Gemm::new(elem).transposed(false, true).tile(tile[0], tile[1], tile[2]).for_shape(m, n, k);
        let config = StreamGemm::new(gemm).keep_whole();
        assert_eq!(config.deal([m, n, k], 2).unwrap().dealt(), 0);
        let name = format!("{elem} {m}x{n}x{k} {tile:?} {consumer_sets} dealt to 2");
        Subject::new(name, Box::new(StreamGemmCase { config, workers: 2, m, n, k }), Some(consumer_sets), false)
    }

    fn attention(elem: Scalar, dim: u32, causal: bool, tile: [u32; 2], [queries, keys]: [u32; 2], overlap: bool) -> Subject {
        let config = Attention::new(elem, dim, causal).tile(tile[0], tile[1], 4).for_shape(queries, keys);
        let name = format!("attention {elem} {dim} {causal} {queries}x{keys} {overlap}");
        Subject::new(name, Box::new(AttentionCase { config, queries, keys, heads: 1 }), None, overlap)
    }

    /// What the simulator says about a program's text: nothing, or the fault. It is launched as the whole program would be.
    fn simulate(&self, program: &Program, seed: u64) -> Result<(), String> {
        self.simulate_as(program, seed, str::to_owned)
    }

    /// The same of a text that is changed first.
    fn simulate_as(&self, program: &Program, seed: u64, change: impl FnOnce(&str) -> String) -> Result<(), String> {
        let early_launch = self.program.early_launch();
        // Fewer instances than grid positions, and an end for what would go round for ever.
        let config = sim::SimConfig { max_instructions: 4_000_000, early_launch, ..schedule(seed) };
        simulate_text(&self.case, program, [2, 1, 1], config, change)
    }
}

/// Orders of storage, types, tiles, numbers of groups, loops that compute between their products.
fn subjects() -> Vec<Subject> {
    use Scalar::{BF16, F8E4M3, F16, F32, I8};
    let (nn, nt, tn, tt) = ([false, false], [false, true], [true, false], [true, true]);
    vec![
        Subject::gemm(BF16, nt, [200, 136, 520], [128, 128, 64], 1),
        Subject::gemm(BF16, nn, [200, 136, 520], [128, 128, 64], 1),
        Subject::gemm(F16, tn, [200, 136, 520], [128, 128, 64], 1),
        Subject::gemm(F16, tt, [136, 200, 520], [64, 128, 64], 1),
        Subject::gemm(BF16, nt, [136, 264, 520], [128, 256, 64], 1),
        Subject::gemm(BF16, nt, [264, 96, 520], [192, 80, 64], 1),
        Subject::gemm(F32, nt, [136, 136, 264], [128, 128, 32], 1),
        Subject::gemm(I8, nt, [136, 136, 1040], [128, 128, 128], 1),
        Subject::gemm(F8E4M3, nt, [136, 136, 1040], [128, 128, 128], 1),
        Subject::gemm(BF16, nt, [392, 136, 328], [128, 128, 64], 2),
        Subject::gemm(F16, nn, [392, 136, 328], [64, 128, 64], 2),
        Subject::left(BF16, nt, [200, 136, 520], [128, 128, 64], 128),
        Subject::left(F16, tn, [200, 136, 520], [64, 128, 64], 64),
        Subject::left(I8, tt, [144, 136, 1040], [128, 128, 128], 32),
        Subject::stream(BF16, [392, 136, 520], [128, 64, 64], 1),
        Subject::stream(F16, [264, 136, 328], [64, 128, 64], 2),
        Subject::attention(F16, 64, false, [128, 64], [520, 1100], false),
        Subject::attention(F16, 64, true, [128, 64], [520, 520], true),
        Subject::attention(BF16, 128, false, [128, 64], [520, 800], true),
    ]
}

/// A place where a fault may go: instruction `i` of a block of a role.
struct Site<'a> {
    block: &'a mut Block,
    i: usize,
    role: &'a str,
    vals: &'a mut PrimaryMap<LVal, LTy>,
}

impl Site<'_> {
    /// The unit's instruction here, if it is one of the role.
    fn unit(&mut self, role: &str) -> Option<&mut Unit> {
        match &mut self.block[self.i] {
            Inst::Unit(u) if self.role == role => Some(Arc::make_mut(u)),
            _ => None,
        }
    }

    fn drop(&mut self) -> bool {
        self.block.remove(self.i);
        true
    }

    fn insert(&mut self, at: usize, inst: Inst) {
        self.block.insert(at, inst);
    }

    fn value(&mut self, at: usize, ty: LTy, inst: impl FnOnce(LVal) -> Inst) -> LVal {
        let dst = self.vals.push(ty);
        self.insert(at, inst(dst));
        dst
    }

    /// Takes the instruction away if it is that one.
    fn without(&mut self, role: &str, is: impl FnOnce(&Unit) -> bool) -> bool {
        self.unit(role).is_some_and(|u| is(u)) && self.drop()
    }

    /// Waits for the other phase.
    fn other_parity(&mut self, role: &str) -> bool {
        let Some(&mut Unit::Wait { barrier, parity }) = self.unit(role) else { return false };
        let at = self.i;
        let one = self.value(at, LTy::I32, |dst| Inst::Const { dst, bits: 1 });
        let other = self.value(at + 1, LTy::I32, |dst| Inst::Bin { dst, op: BinOp::Xor, a: parity, b: one });
        self.block[at + 2] = Inst::Unit(Arc::new(Unit::Wait { barrier, parity: other }));
        true
    }

    /// A copy begins one element further on.
    fn next_column(&mut self, role: &str) -> bool {
        let Some(Unit::BulkLoad { at, .. } | Unit::BulkStore { at, .. }) = self.unit(role) else { return false };
        let (column, i) = (at[0], self.i);
        let one = self.value(i, LTy::I32, |dst| Inst::Const { dst, bits: 1 });
        let next = self.value(i + 1, LTy::I32, |dst| Inst::Bin { dst, op: BinOp::Add, a: column, b: one });
        if let Inst::Unit(u) = &mut self.block[i + 2]
            && let Unit::BulkLoad { at, .. } | Unit::BulkStore { at, .. } = Arc::make_mut(u)
        {
            at[0] = next;
        }
        true
    }

    /// An innermost loop goes round once less.
    fn shorter(&mut self, role: &str) -> bool {
        let Inst::For(l) = &self.block[self.i] else { return false };
        if self.role != role || l.body.iter().any(|i| matches!(i, Inst::For(_))) {
            return false;
        }
        let (hi, step, at) = (l.hi, l.step, self.i);
        let less = self.value(at, LTy::I32, |dst| Inst::Bin { dst, op: BinOp::Sub, a: hi, b: step });
        if let Inst::For(l) = &mut self.block[at + 1] {
            (l.hi, l.runs) = (less, false);
        }
        true
    }
}

/// A fault: what it is, and how it is planted; false where it cannot be.
type Fault = (&'static str, fn(&mut Site) -> bool);

const FAULTS: &[Fault] = &[
    ("a slot is not given back", |s| s.without(CONSUMERS, |u| matches!(u, Unit::Arrive { .. }))),
    ("a slot is given back twice", |s| {
        let Some(u @ Unit::Arrive { .. }) = s.unit(CONSUMERS) else { return false };
        let again = Inst::Unit(Arc::new(u.clone()));
        s.insert(s.i, again);
        true
    }),
    ("all lanes give a slot back", |s| {
        let Some(Unit::Arrive { guard, .. }) = s.unit(CONSUMERS) else { return false };
        guard.take().is_some()
    }),
    ("no arrival for what is loaded", |s| s.without(PRODUCER, |u| matches!(u, Unit::ArriveExpect { .. }))),
    ("an arrival too many for what is loaded", |s| {
        let Some(&mut Unit::ArriveExpect { barrier, .. }) = s.unit(PRODUCER) else { return false };
        s.insert(s.i + 1, Inst::Unit(Arc::new(Unit::Arrive { barrier, guard: None })));
        true
    }),
    ("bytes too few", |s| match s.unit(PRODUCER) {
        Some(Unit::ArriveExpect { bytes, .. }) => {
            *bytes -= 16;
            true
        }
        _ => false,
    }),
    ("bytes too many", |s| match s.unit(PRODUCER) {
        Some(Unit::ArriveExpect { bytes, .. }) => {
            *bytes += 16;
            true
        }
        _ => false,
    }),
    ("a word counts one arrival too many", |s| match s.unit("") {
        Some(Unit::InitBarrier { count, .. }) => {
            *count += 1;
            true
        }
        _ => false,
    }),
    ("consumers wait for the other phase", |s| s.other_parity(CONSUMERS)),
    ("the producer waits for the other phase", |s| s.other_parity(PRODUCER)),
    ("consumers do not wait", |s| s.without(CONSUMERS, |u| matches!(u, Unit::Wait { .. }))),
    ("the producer does not wait", |s| s.without(PRODUCER, |u| matches!(u, Unit::Wait { .. }))),
    ("consumers wait at the next slot's word", |s| match s.unit(CONSUMERS) {
        Some(Unit::Wait { barrier, .. }) => {
            barrier.offset += 8;
            true
        }
        _ => false,
    }),
    ("bytes arrive at the next slot's word", |s| match s.unit(PRODUCER) {
        Some(Unit::BulkLoad { barrier, .. }) => {
            barrier.offset += 8;
            true
        }
        _ => false,
    }),
    ("bytes are expected at the next slot's word", |s| match s.unit(PRODUCER) {
        Some(Unit::ArriveExpect { barrier, .. }) => {
            barrier.offset += 8;
            true
        }
        _ => false,
    }),
    ("a load reaches into the next slot", |s| match s.unit(PRODUCER) {
        Some(Unit::BulkLoad { to, .. }) => {
            to.offset += 1024;
            true
        }
        _ => false,
    }),
    ("a load is left out", |s| s.without(PRODUCER, |u| matches!(u, Unit::BulkLoad { .. }))),
    ("one group of products too many is in flight", |s| match s.unit(CONSUMERS) {
        Some(Unit::WaitMatrices { pending }) => {
            *pending += 1;
            true
        }
        _ => false,
    }),
    ("products are not waited for", |s| s.without(CONSUMERS, |u| matches!(u, Unit::WaitMatrices { .. }))),
    ("products are not closed as a group", |s| s.without(CONSUMERS, |u| matches!(u, Unit::CommitMatrices))),
    ("registers are not fenced", |s| s.without(CONSUMERS, |u| matches!(u, Unit::FenceMatrices))),
    ("results are not shown to the units", |s| s.without(CONSUMERS, |u| matches!(u, Unit::FenceUnits))),
    ("a group does not wait for its lanes", |s| {
        // In front of products that are waited for it has met without.
        let behind = s.block[s.i + 1..].iter().any(|i| matches!(i, Inst::Unit(u) if matches!(**u, Unit::Multiply(_))));
        !behind && s.without(CONSUMERS, |u| matches!(u, Unit::GroupBarrier { .. }))
    }),
    ("staging is written while it is stored", |s| s.without(CONSUMERS, |u| matches!(u, Unit::WaitStoresRead { .. }))),
    ("mbarriers are not published", |s| s.without("", |u| matches!(u, Unit::PublishBarriers))),
    ("warps do not wait for the mbarriers", |s| s.role.is_empty() && matches!(s.block[s.i], Inst::Barrier) && s.drop()),
    ("the producer goes round once less", |s| s.shorter(PRODUCER)),
    ("consumers go round once less", |s| s.shorter(CONSUMERS)),
];

/// Faults that no protocol has: the simulator says so, with these words.
const UNPROVED: &[(Fault, &str)] = &[
    (("a load begins at no multiple of 16 bytes", |s| s.next_column(PRODUCER)), "no multiple of 16"),
    (("a store begins at no multiple of 16 bytes", |s| s.next_column(CONSUMERS)), "no multiple of 16"),
];

/// The roles wait for the launches in front when they are done.
const LATE: Fault = ("every role waits for the launches in front when it is done", |s| {
    if !s.without("", |u| *u == Unit::AwaitPrevious) {
        return false;
    }
    for i in s.block.iter_mut() {
        let Inst::Roles(r) = i else { continue };
        r.roles.iter_mut().for_each(|r| r.body.push(Inst::Unit(Arc::new(Unit::AwaitPrevious))));
    }
    true
});

const WAIT: &str = "griddepcontrol.wait;";

/// A fault of a text: what it is, how it is planted, what the simulator says.
type TextFault = (&'static str, fn(&str) -> String, &'static str);

/// Faults of launch order.
const EARLY: &[TextFault] = &[
    ("the wait is left out", |text| text.replacen(WAIT, "", 1), "no `griddepcontrol.wait` in the text"),
    (
        "the wait stands behind a copy",
        |text| {
            let rest = text.replacen(WAIT, "", 1);
            let copy = rest.find("cp.async.bulk.tensor").expect("a specialised kernel copies");
            let end = copy + rest[copy..].find(';').expect("an instruction ends") + 1;
            format!("{}\n\t{WAIT}{}", &rest[..end], &rest[end..])
        },
        "in front of `griddepcontrol.wait`",
    ),
];

const PRODUCER: &str = "producer";
const CONSUMERS: &str = "consumers";

/// The program with a fault at its `nth` site, if there are so many.
fn planted(program: &Program, fault: &Fault, nth: usize) -> Option<Program> {
    let mut out = program.clone();
    let mut left = nth;
    let done = plant(&mut out.body, "", &mut out.vals, fault, &mut left);
    done.then_some(out)
}

fn plant(block: &mut Block, role: &str, vals: &mut PrimaryMap<LVal, LTy>, fault: &Fault, left: &mut usize) -> bool {
    for i in 0..block.len() {
        let mut probe = (block.clone(), vals.clone());
        if fault.1(&mut Site { block: &mut probe.0, i, role, vals: &mut probe.1 }) {
            if *left == 0 {
                (*block, *vals) = probe;
                return true;
            }
            *left -= 1;
        }
        let found = match &mut block[i] {
            Inst::For(l) => plant(&mut l.body, role, vals, fault, left),
            Inst::If(c) => plant(&mut c.then, role, vals, fault, left) || plant(&mut c.otherwise, role, vals, fault, left),
            Inst::Roles(r) => r.roles.iter_mut().any(|r| plant(&mut r.body, &r.name, vals, fault, left)),
            _ => false,
        };
        if found {
            return true;
        }
    }
    false
}

#[test]
fn every_planted_fault_is_refused_and_caught() {
    let mut kinds = vec![0; FAULTS.len()];
    for (n, s) in subjects().iter().enumerate() {
        let quick = prove(&s.program, &sm_90a()).unwrap_or_else(|e| panic!("{}: {e}", s.name));
        let slow = prove_by_all_states(&s.program, &sm_90a()).unwrap_or_else(|e| panic!("{}: {e}", s.name));
        assert!(quick.states <= slow.states, "{}: {quick:?} {slow:?}", s.name);
        assert!(quick.steps < MOST_STEPS / 8, "{}: {quick:?}", s.name);
        for seed in 0..2 {
            s.simulate(&s.program, seed).unwrap_or_else(|e| panic!("{}: {e}", s.name));
        }
        for (fault, seen) in FAULTS.iter().zip(&mut kinds) {
            let faulty: Vec<Program> = (0..).map_while(|nth| planted(&s.program, fault, nth)).collect();
            for (nth, p) in faulty.iter().enumerate() {
                assert!(prove(p, &sm_90a()).is_err(), "{}: {}, site {nth}: proved", s.name, fault.0);
                assert!(prove_by_all_states(p, &sm_90a()).is_err(), "{}: {}, site {nth}: proved", s.name, fault.0);
            }
            // The simulator takes longer: one site per kernel, another one in each.
            if let Some(p) = faulty.get(n % faulty.len().max(1)) {
                let caught = (0..3).any(|seed| s.simulate(p, seed).is_err());
                assert!(caught, "{}: {}, site {}: the simulator sees nothing", s.name, fault.0, n % faulty.len());
                *seen += 1;
            }
        }
    }
    for (fault, seen) in FAULTS.iter().zip(kinds) {
        assert!(seen >= 10, "{}: planted into {seen} kernels", fault.0);
    }
}

#[test]
fn what_copies_and_launches_ask_for_is_seen() {
    let mut kinds = vec![0; UNPROVED.len()];
    for (n, s) in subjects().iter().enumerate() {
        let seed = n as u64 % 3;
        for ((fault, says), seen) in UNPROVED.iter().zip(&mut kinds) {
            let faulty: Vec<Program> = (0..).map_while(|nth| planted(&s.program, fault, nth)).collect();
            let Some(p) = faulty.get(n % faulty.len().max(1)) else { continue };
            let e = s.simulate(p, seed).expect_err(fault.0);
            assert!(e.contains(says), "{}: {}: {e}", s.name, fault.0);
            *seen += 1;
        }
        assert!(s.program.early_launch(), "{}: launches do not overlap", s.name);
        let late = planted(&s.program, &LATE, 0).expect("every one waits");
        let e = lane::verify(&late, &sm_90a()).expect_err(LATE.0).to_string();
        assert!(e.contains("launches in front"), "{}: {e}", s.name);
        for (fault, plant, says) in EARLY {
            let e = s.simulate_as(&s.program, seed, plant).expect_err(fault);
            assert!(e.contains(says), "{}: {fault}: {e}", s.name);
        }
    }
    for ((fault, _), seen) in UNPROVED.iter().zip(kinds) {
        assert!(seen >= 10, "{}: planted into {seen} kernels", fault.0);
    }
}
