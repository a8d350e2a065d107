//! The proof on a ring written by hand, and on the same ring with one mistake: each must be found, and named where it is.

use cranelift_entity::EntityRef;
use std::sync::Arc;
use tilelift_ir::layout::{Coord, FragmentMap};
use tilelift_ir::{CmpOp, Precision, Scalar};
use tilelift_lane::testing::{Asm, target};
use tilelift_lane::{
    BinOp, Block, Carried, For, GroupOperand, Inst, LTy, LVal, Multiply, OperandA, Param, ParamSource, Place, Program, Role, Roles,
    Special, SwizzleAtoms, TensorBox, TurnEnd, Unit, Vals, While,
};
use tilelift_lane::{BulkTensor, GroupMatrix, GroupMatrixId, RegisterPool, Target, Units};
use tilelift_protocol::{check_products, prove};

/// A machine with units.
fn machine() -> Target {
    let c = |s: &[[u32; 2]]| s.iter().map(|x| Coord::from_slice(x)).collect::<Vec<Coord>>();
    let d = FragmentMap {
        shape: Coord::from_slice(&[64, 8]),
        reg: c(&[[0, 1], [8, 0]]),
        lane: c(&[[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]]),
        warp: c(&[[16, 0], [32, 0]]),
        rep_order: vec![1, 0],
    };
    let row = GroupMatrix {
        name: "test",
        m: 64,
        k: 16,
        n_step: 8,
        n_max: 256,
        operand: Scalar::BF16,
        operand_b: Scalar::BF16,
        acc: Scalar::F32,
        precision: Precision::Exact,
        promotion_depth: None,
        any_order: true,
        a: None,
        d,
    };
    let units = Units {
        group_warps: 4,
        matrix: vec![row],
        bulk: BulkTensor { max_rank: 5, max_box: 256, align: 16, swizzles: &[128, 64, 32] },
        registers: RegisterPool { total: 65536, unit: 8, least: 24, most: 240, producer: 40, beside_matrix: 26 },
        named_barriers: 16,
        max_cluster: 8,
    };
    Target { shared_bytes: 1 << 17, units: Some(units), ..target() }
}

const SLOT: u32 = 8192;
const BOX: u32 = 64 * 128;

/// What of the ring can be wrong.
#[derive(Clone)]
struct Ring {
    depth: u32,
    full_count: u32,
    empty_count: u32,
    bytes: u32,
    /// Slots that the consumer holds: it gives back the one so many steps before.
    lag: u32,
    pending: u32,
    producer_inverts: bool,
    wait_empty: bool,
    wait_full: bool,
    arrive_full: bool,
    arrive_empty: bool,
    guarded: bool,
    last_release: bool,
    /// The parity flips when the slot numbers wrap.
    flips: bool,
    same_bounds: bool,
    swapped: bool,
}

const GOOD: Ring = Ring {
    depth: 3,
    full_count: 1,
    empty_count: 1,
    bytes: BOX,
    lag: 1,
    pending: 1,
    producer_inverts: true,
    wait_empty: true,
    wait_full: true,
    arrive_full: true,
    arrive_empty: true,
    guarded: true,
    last_release: true,
    flips: true,
    same_bounds: true,
    swapped: false,
};

/// The instructions that a closure pushes.
fn inside(a: &mut Asm, f: impl FnOnce(&mut Asm)) -> Block {
    let outer = std::mem::take(&mut a.p.body);
    f(a);
    std::mem::replace(&mut a.p.body, outer)
}

fn unit(a: &mut Asm, u: Unit) {
    a.push(Inst::Unit(Arc::new(u)));
}

/// Slot and parity of the next step.
fn next_slot(a: &mut Asm, ring: &Ring, slot: LVal, parity: LVal) -> [LVal; 2] {
    let (zero, one, last) = (a.i32(0), a.i32(1), a.i32(i64::from(ring.depth - 1)));
    let next = a.bin(BinOp::Add, slot, one);
    let wraps = a.def(LTy::I1, |dst| Inst::Cmp { dst, op: CmpOp::Eq, a: slot, b: last });
    let slot = a.def(LTy::I32, |dst| Inst::Select { dst, c: wraps, a: zero, b: next });
    let other = if ring.flips { a.bin(BinOp::Xor, parity, one) } else { parity };
    let parity = a.def(LTy::I32, |dst| Inst::Select { dst, c: wraps, a: other, b: parity });
    [slot, parity]
}

fn mbarrier(a: &mut Asm, base: LVal, slot: LVal, offset: u32) -> Place {
    let eight = a.i32(8);
    let at = a.bin(BinOp::Mul, slot, eight);
    let addr = a.bin(BinOp::Add, base, at);
    Place { addr, offset: offset as i32 }
}

fn repeat(a: &mut Asm, [lo, hi, step]: [LVal; 3], init: &[LVal], f: impl FnOnce(&mut Asm, LVal, &[LVal]) -> Vec<LVal>) -> Vec<LVal> {
    let iv = a.val(LTy::I32);
    let params: Vec<LVal> = init.iter().map(|&v| a.val(a.p.vals[v])).collect();
    let mut next = Vec::new();
    let body = inside(a, |a| next = f(a, iv, &params));
    let results: Vec<LVal> = init.iter().map(|&v| a.val(a.p.vals[v])).collect();
    let carried = (0..init.len()).map(|i| Carried { param: params[i], init: init[i], next: next[i], result: results[i] }).collect();
    a.push(Inst::For(Box::new(For { iv, lo, hi, step, runs: false, carried, body })));
    results
}

/// One operand through a ring, in a loop around a loop, as a lane program.
fn program(ring: &Ring) -> Program {
    let mut a = Asm::new(8);
    let spec =
        TensorBox { view: 0, elem: Scalar::BF16, rank: 2, order: [1, 0, 0, 0, 0], extents: [64, 64, 0, 0, 0], swizzle: 128, tf32: false };
    a.p.params.push(Param { ty: LTy::I64, source: ParamSource::Tensor(spec) });
    for n in 0..3 {
        a.p.params.push(Param { ty: LTy::I32, source: ParamSource::Extent(0, n) });
    }
    let data = a.alloc(SLOT * ring.depth);
    // Slots go from role to role.
    a.p.allocs.values_mut().for_each(|x| (x.region_bytes, x.slot) = (SLOT, SLOT));
    let mbarriers = a.alloc(16 * ring.depth);
    let [tiles, steps, others] = [1, 2, 3].map(|index| a.def(LTy::I32, |dst| Inst::Param { dst, index }));
    let (zero, one) = (a.i32(0), a.i32(1));
    let (lane, warp) = (a.special(Special::Lane), a.special(Special::Warp));
    let both = a.bin(BinOp::Or, lane, warp);
    let first = a.def(LTy::I1, |dst| Inst::Cmp { dst, op: CmpOp::Eq, a: both, b: zero });
    for s in 0..ring.depth {
        for (offset, count) in [(8 * s, ring.full_count), (8 * (ring.depth + s), ring.empty_count)] {
            unit(&mut a, Unit::InitBarrier { barrier: Place { addr: mbarriers, offset: offset as i32 }, count, guard: Some(first) });
        }
    }
    unit(&mut a, Unit::PublishBarriers);
    a.push(Inst::Barrier);
    let (full, empty) = if ring.swapped { (8 * ring.depth, 0) } else { (0, 8 * ring.depth) };
    let producer = inside(&mut a, |a| {
        repeat(a, [zero, tiles, one], &[zero, zero], |a, _, r| {
            repeat(a, [zero, steps, one], r, |a, iv, r| {
                let parity = if ring.producer_inverts { a.bin(BinOp::Xor, r[1], one) } else { r[1] };
                let (full, empty) = (mbarrier(a, mbarriers, r[0], full), mbarrier(a, mbarriers, r[0], empty));
                if ring.wait_empty {
                    unit(a, Unit::Wait { barrier: empty, parity });
                }
                if ring.arrive_full {
                    unit(a, Unit::ArriveExpect { barrier: full, bytes: ring.bytes, guard: None });
                }
                let size = a.i32(i64::from(SLOT));
                let at = a.bin(BinOp::Mul, r[0], size);
                let addr = a.bin(BinOp::Add, data, at);
                unit(
                    a,
                    Unit::BulkLoad {
                        map: 0,
                        to: Place { addr, offset: 0 },
                        at: Vals::from_slice(&[iv, zero]),
                        barrier: full,
                        ranks: None,
                        guard: None,
                    },
                );
                next_slot(a, ring, r[0], r[1]).to_vec()
            })
        });
    });
    let consumer = inside(&mut a, |a| {
        let (lane, warp) = (a.special(Special::Lane), a.special(Special::Warp));
        let both = a.bin(BinOp::Or, lane, warp);
        let elected = a.def(LTy::I1, |dst| Inst::Cmp { dst, op: CmpOp::Eq, a: both, b: zero });
        let steps = if ring.same_bounds { steps } else { others };
        repeat(a, [zero, tiles, one], &[zero, zero], |a, _, r| {
            let sum = a.def(LTy::F32, |dst| Inst::Undefined { dst });
            let init = [r[0], r[1], r[0], sum, sum, sum, sum];
            // A step at least, as the lowering sees to it with a choice; here the sums do not matter, only the ring.
            let r = repeat(a, [zero, steps, one], &init, |a, iv, r| {
                let full = mbarrier(a, mbarriers, r[0], full);
                if ring.wait_full {
                    unit(a, Unit::Wait { barrier: full, parity: r[1] });
                }
                let later = a.def(LTy::I1, |dst| Inst::Cmp { dst, op: CmpOp::Ne, a: iv, b: zero });
                let size = a.i32(i64::from(SLOT));
                let at = a.bin(BinOp::Mul, r[0], size);
                let addr = a.bin(BinOp::Add, data, at);
                let operand =
                    GroupOperand { at: Place { addr, offset: 0 }, atoms: SwizzleAtoms { swizzle: 128, along_k: true, stride: BOX } };
                let dsts: Vec<LVal> = (0..4).map(|_| a.val(LTy::F32)).collect();
                let m = Multiply {
                    dsts: dsts.clone(),
                    c: r[3..].to_vec(),
                    instr: GroupMatrixId::new(0),
                    n: 8,
                    a: OperandA::Shared(operand),
                    b: operand,
                    accumulate: Some(later),
                };
                unit(a, Unit::FenceMatrices);
                unit(a, Unit::Multiply(Box::new(m)));
                unit(a, Unit::CommitMatrices);
                unit(a, Unit::WaitMatrices { pending: ring.pending });
                let before = mbarrier(a, mbarriers, if ring.lag == 1 { r[2] } else { r[0] }, empty);
                let guard = if ring.lag == 1 { a.bin(BinOp::And, elected, later) } else { elected };
                if ring.arrive_empty {
                    unit(a, Unit::Arrive { barrier: before, guard: ring.guarded.then_some(guard) });
                }
                let mut next = next_slot(a, ring, r[0], r[1]).to_vec();
                next.push(r[0]);
                next.extend(dsts);
                next
            });
            unit(a, Unit::WaitMatrices { pending: 0 });
            if ring.lag == 1 && ring.last_release {
                // Without a step there is nothing to give back; the programs here have one at least.
                let before = mbarrier(a, mbarriers, r[2], empty);
                unit(a, Unit::Arrive { barrier: before, guard: Some(elected) });
            }
            vec![r[0], r[1]]
        });
    });
    let role = |name: &str, first, single, body| Role {
        name: name.to_owned(),
        first,
        warps: 4,
        idle: 0,
        replicas: 1,
        single,
        registers: None,
        body,
    };
    a.push(Inst::Roles(Box::new(Roles { roles: vec![role("producer", 0, true, producer), role("consumers", 4, false, consumer)] })));
    tilelift_lane::verify(&a.p, &machine()).unwrap_or_else(|e| panic!("{e}\n{}", a.p));
    a.p
}

/// The ring without the group that is left in flight: right for every number of steps, none included.
const PLAIN: Ring = Ring { lag: 0, pending: 0, ..GOOD };

#[test]
fn good_rings_of_every_depth_are_proved() {
    for depth in 1..=8 {
        for swapped in [false, true] {
            let proof = prove(&program(&Ring { depth, swapped, ..PLAIN }), &machine()).unwrap_or_else(|e| panic!("{depth}: {e}"));
            assert!(proof.states > 0 && proof.states < 40 * (depth * depth) as usize, "{depth}: {}", proof.states);
        }
    }
}

#[test]
fn planted_faults_are_refused_and_named() {
    let cases: [(&str, Ring, &str, &str); 14] = [
        ("no arrival at empty", Ring { arrive_empty: false, ..PLAIN }, "wait for ever", "wait"),
        ("no arrival at full", Ring { arrive_full: false, ..PLAIN }, "wait for ever", "wait"),
        ("too few bytes", Ring { bytes: BOX - 16, ..PLAIN }, "wait for ever", "wait"),
        ("too many bytes", Ring { bytes: BOX + 16, ..PLAIN }, "wait for ever", "wait"),
        ("full counts two", Ring { full_count: 2, ..PLAIN }, "wait for ever", "wait"),
        ("empty counts two", Ring { empty_count: 2, ..PLAIN }, "wait for ever", "wait"),
        ("all lanes arrive", Ring { guarded: false, ..PLAIN }, "128 arrivals where a phase expects 1", "arrive"),
        ("parity not inverted", Ring { producer_inverts: false, ..PLAIN }, "wait for ever", "wait"),
        ("no wait for empty", Ring { wait_empty: false, ..PLAIN }, "in front of its own has ended", "arrive"),
        ("no wait for full", Ring { wait_full: false, ..PLAIN }, "read before what was written is known", "group0"),
        ("released too early", Ring { pending: 1, ..PLAIN }, "may still be read", "bulk_load"),
        ("parity never flips", Ring { flips: false, ..PLAIN }, "", ""),
        ("other trip counts", Ring { same_bounds: false, ..PLAIN }, "", ""),
        ("the last slot is kept", Ring { last_release: false, ..GOOD }, "wait for ever", "wait"),
    ];
    for (name, ring, mbarriers, site) in cases {
        for depth in [1, 2, 3, 5] {
            let e = match prove(&program(&Ring { depth, ..ring.clone() }), &machine()) {
                Ok(_) => panic!("{name}, {depth} slots: nothing is found"),
                Err(e) => e.to_string(),
            };
            // A ring of one slot shows some faults elsewhere first.
            assert!(depth == 1 || (e.contains(mbarriers) && e.contains(site)), "{name}, {depth} slots: {e}");
        }
    }
}

/// What lanes touch in a loop without a count is followed round by round: what others copy is not theirs to write.
#[test]
fn lanes_do_not_write_into_a_ring_in_a_loop_without_a_count() {
    let mut p = program(&PLAIN);
    let mut constant = |ty| {
        let dst = p.vals.push(ty);
        (dst, Inst::Const { dst, bits: 0 })
    };
    let ((condition, test), (word, zero)) = (constant(LTy::I1), constant(LTy::I32));
    let ring = p.body.iter().find_map(|i| if let Inst::SharedAddr { dst, .. } = i { Some(*dst) } else { None }).expect("the ring");
    let read = p.vals.push(LTy::I32);
    let store = Inst::StoreShared { srcs: Vals::from_slice(&[word]), addr: ring, offset: 0, guard: None };
    let load = Inst::LoadShared { dsts: Vals::from_slice(&[read]), addr: ring, offset: 0 };
    let Some(Inst::Roles(roles)) = p.body.last_mut() else { panic!("the program ends with its roles") };
    let l = While { carried: Vec::new(), test: vec![test], condition, body: vec![zero, store, Inst::Barrier, load, Inst::Barrier] };
    roles.roles[1].body.insert(0, Inst::While(Box::new(l)));
    let e = prove(&p, &machine()).expect_err("a copy may be on its way to the slot").to_string();
    assert!(e.contains("local memory is written by a unit"), "{e}");
}

/// A loop without a count is not followed, so what uses mbarriers in one is refused, however harmless.
#[test]
fn barrier_words_in_a_loop_without_a_count_are_refused() {
    let mut p = program(&PLAIN);
    let mut constant = |ty| {
        let dst = p.vals.push(ty);
        (dst, Inst::Const { dst, bits: 0 })
    };
    let ((condition, test), (addr, at), (parity, zero)) = (constant(LTy::I1), constant(LTy::I32), constant(LTy::I32));
    let wait = Inst::Unit(Arc::new(Unit::Wait { barrier: Place { addr, offset: 0 }, parity }));
    let never = While { carried: Vec::new(), test: vec![test], condition, body: vec![at, zero, wait] };
    let Some(Inst::Roles(roles)) = p.body.last_mut() else { panic!("the program ends with its roles") };
    roles.roles[0].body.push(Inst::While(Box::new(never)));
    let e = prove(&p, &machine()).expect_err("a loop that the proof does not follow").to_string();
    assert!(e.contains("loop without a count"), "{e}");
}

/// One role of two warpgroups that does so.
fn in_turns(does: &[Inst]) -> Program {
    let mut a = Asm::new(8);
    let body = does.to_vec();
    let role = Role { name: "all".into(), first: 0, warps: 8, idle: 0, replicas: 1, single: false, registers: None, body };
    a.push(Inst::Roles(Box::new(Roles { roles: vec![role] })));
    tilelift_lane::verify(&a.p, &machine()).unwrap_or_else(|e| panic!("{e}\n{}", a.p));
    a.p
}

/// A role has one set of turns.
#[test]
fn turns_of_a_role_are_at_the_same_barriers() {
    let mut p = in_turns(&[]);
    let turn = |id, end| Inst::Unit(Arc::new(Unit::Turn { id, groups: 2, end }));
    let Some(Inst::Roles(roles)) = p.body.last_mut() else { panic!("the program ends with its role") };
    roles.roles[0].body = vec![turn(0, TurnEnd::First), turn(2, TurnEnd::Last)];
    assert!(tilelift_lane::verify(&p, &machine()).is_err_and(|e| e.to_string().contains("turns at several barriers")));
}

/// Turns of warpgroups: the whole proof and the look at each role by itself refuse what would wait for ever.
#[test]
fn turns_begin_and_end_by_turns() {
    let turn = |end| Inst::Unit(Arc::new(Unit::Turn { id: 0, groups: 2, end }));
    let [first, wait, pass, last] = [TurnEnd::First, TurnEnd::Wait, TurnEnd::Pass, TurnEnd::Last].map(turn);
    let good = [
        vec![first.clone(), last.clone()],
        vec![first.clone(), pass.clone(), Inst::Barrier, wait.clone(), pass.clone(), wait.clone(), last.clone()],
    ];
    for does in &good {
        let p = in_turns(does);
        prove(&p, &machine()).unwrap_or_else(|e| panic!("{e}\n{p}"));
        check_products(&p).unwrap_or_else(|e| panic!("{e}\n{p}"));
    }
    let bad = [
        (vec![first.clone(), Inst::Barrier, last.clone()], "all warpgroups meet while one has its turn"),
        (vec![first.clone(), pass, wait.clone(), Inst::Barrier, last.clone()], "all warpgroups meet while one has its turn"),
        (vec![first, wait.clone(), last.clone()], "do not begin and end by turns"),
        (vec![wait, last], "do not begin and end by turns"),
    ];
    for (does, says) in &bad {
        let p = in_turns(does);
        let quick = check_products(&p).expect_err(says).to_string();
        assert!(quick.contains(says), "{quick}");
        assert!(prove(&p, &machine()).is_err(), "{says}\n{p}");
    }
}
