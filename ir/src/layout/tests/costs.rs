//! Costs follow the plans and order the classes.

use super::super::*;
use super::*;

#[test]
fn costs_count_what_the_plans_do() {
    let banks = BankModel::nvidia();
    let a = Layout::fragment(&[64, 64], &maps::acc16x8(), &[4, 1], &[0, 1]).unwrap();
    let b = coalesced(&[64, 64], 2, &[1, 0], 8, 32, 4).unwrap();
    let plan = plan_conversion(&a, &b, 2, 32, &banks).unwrap();
    let cost = conversion_cost(&plan, 2, 4);
    assert_eq!((cost.shared_bytes, cost.barriers), (64 * 64 * 2, 2));
    // One bank line per wavefront in both directions.
    assert_eq!(cost.wavefronts * 4, 2 * 64 * 64 * 2 / 128);
    let same = conversion_cost(&plan_conversion(&a, &a, 2, 32, &banks).unwrap(), 2, 4);
    assert_eq!(same, ConversionCost::default());
    assert!(same < cost);
}

#[test]
fn renames_are_free_unless_packed_elements_move() {
    let banks = BankModel::nvidia();
    let mut a = Layout::fragment(&[16, 64], &maps::acc16x8(), &[1, 1], &[0, 1]).unwrap();
    let before = a.clone();
    // Swap two whole-word register bits, then a packing bit.
    a.axes[0].cols.swap(1, 3);
    let words = plan_conversion(&before, &a, 2, 32, &banks).unwrap();
    assert!(matches!(words, Conversion::Rename(_)));
    assert_eq!(conversion_cost(&words, 2, 1).selects, 0);
    a.axes[0].cols.swap(0, 1);
    let packed = plan_conversion(&before, &a, 2, 32, &banks).unwrap();
    assert_eq!(conversion_cost(&packed, 2, 1).selects, 16);
    assert_eq!(conversion_cost(&packed, 4, 1).selects, 0);
}

#[test]
fn a_transposition_by_shuffles_beats_the_trip() {
    let banks = BankModel::nvidia();
    let a = Layout::fragment(&[64, 64], &maps::acc16x8(), &[4, 1], &[0, 1]).unwrap();
    let mut b = a.clone();
    let (x, y) = (b.axes[0].cols[1], b.axes[1].cols[0]);
    b.axes[0].cols[1] = y;
    b.axes[1].cols[0] = x;
    let quick = plan_conversion(&a, &b, 4, 32, &banks).unwrap();
    assert!(matches!(quick, Conversion::InWarp(_)));
    let slow = Conversion::RoundTrip(Box::new(plan_round_trip(&a, &b, 4, &banks).unwrap()));
    let (q, s) = (conversion_cost(&quick, 4, 4), conversion_cost(&slow, 4, 4));
    assert!(q.cycles < s.cycles, "{q:?} {s:?}");
    assert_eq!((q.shuffles, q.barriers, s.barriers), (16, 0, 0));
}
