//! Conversion classes against element sets.

use super::super::*;
use super::*;
use std::collections::BTreeSet;

/// The class by enumeration, ignoring who owns odd digits.
fn brute_class(a: &Layout, b: &Layout) -> ConversionClass {
    let (lanes, warps) = (a.size(Axis::Lane), a.size(Axis::Warp));
    let table = |l: &Layout| -> Vec<Vec<Vec<Coord>>> { (0..warps).map(|w| (0..lanes).map(|n| held(l, n, w)).collect()).collect() };
    let (ta, tb) = (table(a), table(b));
    if ta == tb {
        return ConversionClass::Identity;
    }
    let spots: Vec<(usize, usize)> = (0..warps as usize).flat_map(|w| (0..lanes as usize).map(move |n| (w, n))).collect();
    let renamed = (0..tb[0][0].len()).all(|r| (0..ta[0][0].len()).any(|s| spots.iter().all(|&(w, n)| tb[w][n][r] == ta[w][n][s])));
    if renamed {
        return ConversionClass::Rename;
    }
    let set = |v: &[Coord]| v.iter().cloned().collect::<BTreeSet<Coord>>();
    if spots.iter().all(|&(w, n)| set(&tb[w][n]).is_subset(&set(&ta[w][n]))) {
        return ConversionClass::InLane;
    }
    let all = |v: &[Vec<Coord>]| set(&v.concat());
    if (0..warps as usize).all(|w| all(&tb[w]).is_subset(&all(&ta[w]))) {
        return ConversionClass::InWarp;
    }
    ConversionClass::InCta
}

#[test]
fn classes_agree_with_element_sets() {
    let mut rng = Rng::new(20);
    let shapes: [&[u32]; 6] = [&[16, 16], &[4, 4], &[12, 8], &[64], &[2], &[6, 10]];
    let mut seen = BTreeSet::new();
    for round in 0..3000 {
        let style = Style { lane_bits: 3, warp_bits: 1, xor: round % 2 == 0, copies: round % 3 != 0, odd_warp: false };
        let shape = rng.pick(&shapes);
        let a = random_layout(&mut rng, shape, style);
        let mut b = mutate(&mut rng, &a);
        if !b.is_surjective() || round % 7 == 0 {
            b = random_layout(&mut rng, shape, style);
        }
        let class = classify(&a, &b).unwrap();
        assert_eq!(class, brute_class(&a, &b), "{a} to {b}");
        seen.insert(class);
        if let Some(map) = register_rename(&a, &b).unwrap() {
            for n in 0..8 {
                let (x, y) = (held(&a, n, 1), held(&b, n, 1));
                assert!(map.iter().zip(&y).all(|(&s, e)| x[s as usize] == *e));
            }
        }
    }
    assert_eq!(seen.len(), 5);
}

#[test]
fn odd_digits_of_other_owners_cross_warps() {
    let mut rng = Rng::new(21);
    let style = Style { lane_bits: 3, warp_bits: 1, xor: false, copies: false, odd_warp: true };
    let mut crossed = 0;
    for _ in 0..300 {
        let a = random_layout(&mut rng, &[12, 40], style);
        let b = random_layout(&mut rng, &[12, 40], style);
        let Ok(class) = classify(&a, &b) else {
            assert_ne!(a.odd(Axis::Warp), b.odd(Axis::Warp));
            continue;
        };
        assert!(class >= brute_class(&a, &b));
        crossed += u32::from(class == ConversionClass::InCta);
    }
    assert!(crossed > 20);
}

#[test]
fn different_tensors_or_axes_are_refused() {
    let a = Layout::replicated(&[8], &[0], 32, 4).unwrap();
    let b = Layout::replicated(&[16], &[0], 32, 4).unwrap();
    let c = Layout::replicated(&[8], &[0], 32, 2).unwrap();
    assert!(matches!(classify(&a, &b), Err(LayoutError::TensorMismatch { .. })));
    assert!(matches!(classify(&a, &c), Err(LayoutError::AxisMismatch { axis: "warp", .. })));
}

fn labels(l: &Layout, warp: u32) -> Vec<Vec<Coord>> {
    (0..l.size(Axis::Lane)).map(|lane| held(l, lane, warp)).collect()
}

#[test]
fn warp_schedules_deliver_every_element() {
    let mut rng = Rng::new(22);
    let shapes: [&[u32]; 6] = [&[16, 16], &[8, 8], &[12, 16], &[64], &[2], &[6, 80]];
    let (mut straight, mut indexed, mut shifted, mut shuffled) = (0, 0, 0, 0);
    for round in 0..6000 {
        let style = Style { lane_bits: 3 + round % 2, warp_bits: 1, xor: round % 3 == 0, copies: round % 4 != 0, odd_warp: false };
        let shape = rng.pick(&shapes);
        let a = random_layout(&mut rng, shape, style);
        let b = mutate(&mut rng, &a);
        if !b.is_surjective() {
            continue;
        }
        let class = classify(&a, &b).unwrap();
        let plan = plan_in_warp(&a, &b).unwrap();
        assert_eq!(plan.is_some(), class <= ConversionClass::InWarp, "{a} to {b}");
        let Some(plan) = plan else { continue };
        for warp in 0..2 {
            let out = plan.execute_on_labels(&labels(&a, warp), warp);
            assert_eq!(out, labels(&b, warp), "{a} to {b}: {plan:?}");
        }
        for pack in [1, 2, 4] {
            let groups = plan.packed_shuffles(pack);
            assert_eq!(groups.concat().len() as u32, plan.shuffle_count());
            for group in groups {
                assert!(group.len() <= pack);
                let first = plan.source_lane(group[0] as usize, 5, 1);
                assert!(group.iter().all(|&x| plan.source_lane(x as usize, 5, 1) == first));
            }
        }
        let moves = |s: &Shuffle| matches!(s, Shuffle::Xor(_));
        let jumps = |s: &Shuffle| matches!(s, Shuffle::Indexed { .. });
        if class <= ConversionClass::Rename {
            assert_eq!(plan.shuffle_count(), 0, "{a} to {b}: {plan:?}");
        }
        straight += u32::from(plan.shuffles.iter().any(moves));
        indexed += u32::from(plan.shuffles.iter().any(jumps));
        shifted += u32::from(plan.warp_map.iter().any(|&w| w != 0));
        shuffled += u32::from(plan.rank > 1);
        // With unchanged lanes, the shuffles are exactly the registers a lane must import.
        if a.is_injective() && b.is_injective() && !plan.shuffles.iter().any(jumps) {
            let lanes = 1 << style.lane_bits;
            let most = (0..lanes).map(|lane| {
                let have: BTreeSet<Coord> = held(&a, lane, 0).into_iter().collect();
                held(&b, lane, 0).iter().filter(|c| !have.contains(*c)).count() as u32
            });
            assert_eq!(Some(plan.shuffle_count()), most.max(), "{a} to {b}");
        }
    }
    assert!(straight > 100 && indexed > 100 && shifted > 10 && shuffled > 50);
}

#[test]
fn in_lane_plans_select_the_right_register() {
    let mut rng = Rng::new(23);
    let mut met = 0;
    for round in 0..4000 {
        let style = Style { lane_bits: 3, warp_bits: 1, xor: round % 2 == 0, copies: round % 3 == 0, odd_warp: false };
        let a = random_layout(&mut rng, &[8, 24], style);
        // Add registers to lane and warp columns: an in-lane conversion.
        let mut b = a.clone();
        for _ in 0..=rng.below(3) {
            let regs = &a.axes[0].cols;
            let reg = rng.pick(regs);
            let axis = 1 + rng.below(2) as usize;
            let i = rng.below(b.axes[axis].cols.len() as u32) as usize;
            b.axes[axis].cols[i] ^= reg;
        }
        if classify(&a, &b).unwrap() != ConversionClass::InLane {
            continue;
        }
        met += 1;
        let plan = plan_conversion(&a, &b, 4, 8, &BankModel::nvidia()).unwrap();
        let Conversion::InLane(plan) = plan else { panic!("{plan:?}") };
        for lane in 0..8 {
            for warp in 0..2 {
                let out = plan.execute(&held(&a, lane, warp), lane, warp);
                assert_eq!(out, held(&b, lane, warp), "{a} to {b}");
            }
        }
    }
    assert!(met > 1000);
}

#[test]
fn one_transposition_costs_half_the_registers_in_shuffles() {
    // The 16x8 accumulator to four contiguous columns per lane: one register bit against a lane bit.
    let a = Layout::fragment(&[16, 8], &maps::acc16x8(), &[1, 1], &[0, 1]).unwrap();
    let b = Layout::from_columns(
        &[16, 8],
        &[
            (Axis::Reg, vec![[0, 1][..].into(), [0, 2][..].into()]),
            (Axis::Lane, [[8, 0], [0, 4], [1, 0], [2, 0], [4, 0]].iter().map(|c| c[..].into()).collect()),
        ],
    )
    .unwrap();
    let plan = plan_conversion(&a, &b, 4, 32, &BankModel::nvidia()).unwrap();
    let Conversion::InWarp(plan) = plan else { panic!("{plan:?}") };
    assert_eq!((plan.rank, plan.shuffle_count(), plan.selects()), (1, 2, 8));
    assert_eq!(plan.execute_on_labels(&labels(&a, 0), 0), labels(&b, 0));
}

#[test]
fn plans_choose_by_class_and_rank() {
    let mut rng = Rng::new(24);
    let style = Style { lane_bits: 5, warp_bits: 2, xor: false, copies: true, odd_warp: false };
    let banks = BankModel::nvidia();
    for _ in 0..200 {
        let a = random_layout(&mut rng, &[48, 32], style);
        let b = mutate(&mut rng, &a);
        if !b.is_surjective() {
            continue;
        }
        let class = classify(&a, &b).unwrap();
        match plan_conversion(&a, &b, 2, 32, &banks).unwrap() {
            Conversion::Identity => assert_eq!(a, b),
            Conversion::Rename(map) => {
                assert_eq!(class, ConversionClass::Rename);
                let (x, y) = (held(&a, 17, 3), held(&b, 17, 3));
                assert!(map.iter().zip(&y).all(|(&s, e)| x[s as usize] == *e));
            }
            Conversion::InLane(_) => assert_eq!(class, ConversionClass::InLane),
            Conversion::InWarp(p) => {
                assert_eq!(class, ConversionClass::InWarp);
                assert!(p.rank <= 1);
            }
            Conversion::RoundTrip(t) => {
                assert!(class >= ConversionClass::InWarp);
                assert_eq!(t.warp_local, class == ConversionClass::InWarp && t.idle_warps == 0);
            }
        }
    }
    let a = Layout::replicated(&[8], &[0], 32, 1).unwrap();
    assert!(plan_conversion(&a, &a, 4, 64, &banks).is_err());
}
