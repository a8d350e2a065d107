//! A ring written by hand as a lane program, right or with one mistake.

use cranelift_entity::EntityRef;
use std::sync::Arc;
use tilelift_ir::layout::{Coord, FragmentMap};
use tilelift_ir::{CmpOp, Precision, Scalar};
use tilelift_lane::testing::{Asm, target};
use tilelift_lane::{
    BinOp, Block, BulkTensor, Carried, For, GroupMatrix, GroupMatrixId, GroupOperand, Inst, LTy, LVal, Multiply, OperandA, Param,
    ParamSource, Place, Program, RegisterPool, Role, Roles, Special, SwizzleAtoms, Target, TensorBox, Unit, Units, Vals,
};

/// A machine with units.
pub fn machine() -> Target {
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

pub const SLOT: u32 = 8192;
pub const BOX: u32 = 64 * 128;

/// What of the ring can be wrong.
#[derive(Clone)]
pub struct Ring {
    pub depth: u32,
    pub full_count: u32,
    pub empty_count: u32,
    pub bytes: u32,
    /// Slots that the consumer holds: it gives back the one so many steps before.
    pub lag: u32,
    pub pending: u32,
    pub producer_inverts: bool,
    pub wait_empty: bool,
    pub wait_full: bool,
    pub arrive_full: bool,
    pub arrive_empty: bool,
    pub guarded: bool,
    pub last_release: bool,
    /// The parity flips when the slot numbers wrap.
    pub flips: bool,
    pub same_bounds: bool,
    pub swapped: bool,
    /// Iterations of the loop around the ring's, and of the ring's, where these are known.
    pub tiles: Option<i64>,
    pub rounds: Option<i64>,
    /// The consumer's first step stands in front of its loop.
    pub peeled: bool,
    /// So many steps more for the consumer than for the producer.
    pub more: i64,
    /// The step in which the consumer does not give back a slot.
    pub keeps: Option<i64>,
    /// From this step on the consumer waits for the other parity.
    pub other_parity: Option<i64>,
}

pub const GOOD: Ring = Ring {
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
    tiles: None,
    rounds: None,
    peeled: false,
    more: 0,
    keeps: None,
    other_parity: None,
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

/// A step of the consumer: what the next one takes.
fn consumed(
    a: &mut Asm,
    ring: &Ring,
    [data, mbarriers, elected, zero, one]: [LVal; 5],
    [full, empty]: [u32; 2],
    iv: LVal,
    r: &[LVal],
) -> Vec<LVal> {
    let full = mbarrier(a, mbarriers, r[0], full);
    let parity = ring.other_parity.map_or(r[1], |from| {
        let from = a.i32(from);
        let late = a.def(LTy::I1, |dst| Inst::Cmp { dst, op: CmpOp::Ge, a: iv, b: from });
        let other = a.bin(BinOp::Xor, r[1], one);
        a.def(LTy::I32, |dst| Inst::Select { dst, c: late, a: other, b: r[1] })
    });
    if ring.wait_full {
        unit(a, Unit::Wait { barrier: full, parity });
    }
    let later = a.def(LTy::I1, |dst| Inst::Cmp { dst, op: CmpOp::Ne, a: iv, b: zero });
    let size = a.i32(i64::from(SLOT));
    let at = a.bin(BinOp::Mul, r[0], size);
    let addr = a.bin(BinOp::Add, data, at);
    let operand = GroupOperand { at: Place { addr, offset: 0 }, atoms: SwizzleAtoms { swizzle: 128, along_k: true, stride: BOX } };
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
    let guard = ring.keeps.map_or(guard, |step| {
        let step = a.i32(step);
        let gives = a.def(LTy::I1, |dst| Inst::Cmp { dst, op: CmpOp::Ne, a: iv, b: step });
        a.bin(BinOp::And, guard, gives)
    });
    if ring.arrive_empty {
        unit(a, Unit::Arrive { barrier: before, guard: ring.guarded.then_some(guard) });
    }
    let mut next = next_slot(a, ring, r[0], r[1]).to_vec();
    next.push(r[0]);
    next.extend(dsts);
    next
}

/// One operand through a ring, in a loop around a loop, as a lane program.
pub fn program(ring: &Ring) -> Program {
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
    let tiles = ring.tiles.map_or(tiles, |n| a.i32(n));
    let [steps, others] = ring.rounds.map_or([steps, others], |n| [n, n + ring.more].map(|n| a.i32(n)));
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
        let steps = if ring.same_bounds && ring.more == 0 { steps } else { others };
        repeat(a, [zero, tiles, one], &[zero, zero], |a, _, r| {
            let sum = a.def(LTy::F32, |dst| Inst::Undefined { dst });
            let init = [r[0], r[1], r[0], sum, sum, sum, sum];
            // A step at least, as the lowering sees to it with a choice; here the sums do not matter, only the ring.
            let step = |a: &mut Asm, iv: LVal, r: &[LVal]| consumed(a, ring, [data, mbarriers, elected, zero, one], [full, empty], iv, r);
            let r = if ring.peeled {
                let first = step(a, zero, &init);
                repeat(a, [one, steps, one], &first, step)
            } else {
                repeat(a, [zero, steps, one], &init, step)
            };
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
pub const PLAIN: Ring = Ring { lag: 0, pending: 0, ..GOOD };
