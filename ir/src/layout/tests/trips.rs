//! Round trips through shared memory: element by element, and conflict-free by simulation.

use super::super::*;
use super::memory::simulate;
use super::*;
use std::collections::BTreeMap;

/// Runs the plan on element labels and simulates the banks of every instruction.
fn check(a: &Layout, b: &Layout, elem: u32, model: &BankModel) -> RoundTripPlan {
    let plan = plan_round_trip(a, b, elem, model).unwrap();
    let (lanes, warps) = (a.size(Axis::Lane), a.size(Axis::Warp));
    let mut memory: BTreeMap<u32, Coord> = BTreeMap::new();
    let sides = [
        (a, SharedOp::Store, plan.store_vec, &plan.store_regs, &plan.store_columns),
        (b, SharedOp::Load, plan.load_vec, &plan.load_regs, &plan.load_columns),
    ];
    for (l, op, width, groups, columns) in sides {
        let store = op == SharedOp::Store;
        let mut fronts = 0;
        for warp in 0..warps {
            fronts = 0;
            if store && warp & plan.idle_warps != 0 {
                continue;
            }
            for group in groups {
                assert_eq!(group.len() as u32, width);
                let mut addresses = Vec::new();
                for lane in 0..lanes {
                    if store && lane & plan.idle_lanes != 0 {
                        addresses.push(None);
                        continue;
                    }
                    let place = |r: u32| [(Axis::Reg, r), (Axis::Lane, lane), (Axis::Warp, warp)];
                    let first = columns.offset(&place(group[0]));
                    assert_eq!(first % width, 0);
                    addresses.push(Some(first * elem));
                    for (&reg, off) in group.iter().zip(first..) {
                        let element = l.apply(&place(reg));
                        assert!(off < plan.map.elements());
                        if store {
                            assert_eq!(memory.insert(off, element), None, "stored twice");
                        } else {
                            assert_eq!(memory.get(&off), Some(&element));
                        }
                    }
                }
                fronts += simulate(&addresses, width * elem, op, model);
            }
        }
        let claimed = if store { plan.store_wavefronts } else { plan.load_wavefronts };
        assert!(fronts == claimed || (store && fronts == 0), "{fronts} versus {claimed}");
    }
    let mut loaded: Vec<u32> = plan.load_regs.concat();
    loaded.sort_unstable();
    assert_eq!(loaded, (0..b.size(Axis::Reg)).collect::<Vec<_>>());
    plan
}

#[test]
fn random_round_trips_are_exact_and_conflict_free() {
    let mut rng = Rng::new(40);
    let (nvidia, cdna) = (BankModel::nvidia(), BankModel::cdna3());
    let shapes: [&[u32]; 6] = [&[64, 32], &[48, 32], &[16, 16], &[2048], &[8, 20], &[1, 512]];
    let (mut both_wide, mut clean, mut count) = (0, 0, 0);
    for round in 0..500 {
        let wave64 = round % 3 == 0;
        let style =
            Style { lane_bits: if wave64 { 6 } else { 5 }, warp_bits: 1, xor: round % 2 == 0, copies: round % 5 == 0, odd_warp: false };
        let shape = rng.pick(&shapes);
        let a = random_layout(&mut rng, shape, style);
        let b = random_layout(&mut rng, shape, style);
        let elem = 1 << rng.below(4);
        let plan = check(&a, &b, elem, if wave64 { &cdna } else { &nvidia });
        count += 1;
        clean += u32::from(plan.conflicts == (1, 1));
        both_wide += u32::from(plan.store_vec * plan.load_vec > 1);
        if !style.copies {
            assert_eq!(plan.conflicts, (1, 1), "{a} to {b}, {elem} bytes");
        }
    }
    assert!(clean * 20 > count * 19 && both_wide > 50, "{clean} of {count}, {both_wide} wide");
}

#[test]
fn accumulator_to_coalesced_rows() {
    let model = BankModel::nvidia();
    let wide =
        FragmentMap::new(&[64, 8], &[&[0, 1], &[8, 0]], &[&[0, 2], &[0, 4], &[1, 0], &[2, 0], &[4, 0]], &[&[16, 0], &[32, 0]]).unwrap();
    // In the 4-byte case columns 1 and 32 are registers on both sides: a common vector of 16 bytes.
    for (shape, elem, acc_vec, wide_vec) in [([64u32, 64], 2, 2, 8), ([64, 64], 4, 4, 4), ([128, 176], 2, 4, 8)] {
        let acc = Layout::fragment(&shape, &wide, &[1, 1], &[0, 1]).unwrap();
        let rows = coalesced(&shape, elem, &[1, 0], 16 / elem, 32, 4).unwrap();
        let plan = check(&acc, &rows, elem, &model);
        assert_eq!(plan.conflicts, (1, 1));
        assert_eq!((plan.store_vec, plan.load_vec), (acc_vec, wide_vec));
        let back = check(&rows, &acc, elem, &model);
        assert_eq!(back.conflicts, (1, 1));
        assert_eq!(back.store_vec.max(back.load_vec), wide_vec);
    }
}

#[test]
fn small_and_odd_tensors_make_the_trip() {
    let model = BankModel::nvidia();
    for shape in SHAPES {
        let order: Vec<usize> = (0..shape.len()).rev().collect();
        let reversed: Vec<usize> = (0..shape.len()).collect();
        for warps in [1, 4] {
            let a = coalesced(shape, 2, &order, 8, 32, warps).unwrap();
            let b = coalesced(shape, 2, &reversed, 8, 32, warps).unwrap();
            let c = Layout::replicated(shape, &order, 32, warps).unwrap();
            for (x, y) in [(&a, &b), (&b, &a), (&a, &c), (&c, &b)] {
                let plan = check(x, y, 2, &model);
                assert_eq!(plan.conflicts, (1, 1), "{x} to {y}");
            }
        }
    }
}
