//! Sorts, histograms and gathers inside tiles.

use super::{Nums, assert_floats, eval};
use tilelift_ir::ops::SortOrder;
use tilelift_ir::types::Scalar;

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

#[test]
pub(super) fn sorts() {
    for elem in [Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64] {
        let x = Nums::F(elem, vec![1.0, NAN, -0.0, 0.0, -INF, 1.0, INF, NAN, -2.0]);
        let up = eval(&[(&x, &[9])], (elem, &[9]), |b, v| b.sort(SortOrder::Ascending, v[0], 0)).read_f64(elem);
        assert_floats(&up, &[-INF, -2.0, -0.0, 0.0, 1.0, 1.0, INF, NAN, NAN], "ascending");
        let down = eval(&[(&x, &[9])], (elem, &[9]), |b, v| b.sort(SortOrder::Descending, v[0], 0)).read_f64(elem);
        assert_floats(&down, &[INF, 1.0, 1.0, 0.0, -0.0, -2.0, -INF, NAN, NAN], "descending");
        let at = |order| eval(&[(&x, &[9])], (Scalar::I32, &[9]), |b, v| b.argsort(order, v[0], 0)).read_i64(Scalar::I32);
        assert_eq!(at(SortOrder::Ascending), [4, 8, 2, 3, 0, 5, 6, 1, 7]);
        assert_eq!(at(SortOrder::Descending), [6, 0, 5, 3, 2, 8, 4, 1, 7]);
    }
    for elem in [Scalar::I8, Scalar::I16, Scalar::I32, Scalar::I64] {
        let x = Nums::I(elem, vec![3, -1, 3, -128, 127, 0]);
        let rows = eval(&[(&x, &[2, 3])], (elem, &[2, 3]), |b, v| b.sort(SortOrder::Ascending, v[0], 1)).read_i64(elem);
        assert_eq!(rows, [-1, 3, 3, -128, 0, 127]);
        let columns = eval(&[(&x, &[2, 3])], (elem, &[2, 3]), |b, v| b.sort(SortOrder::Descending, v[0], 0)).read_i64(elem);
        assert_eq!(columns, [3, 127, 3, -128, -1, 0]);
    }
    let x = Nums::I(Scalar::I1, vec![1, 0, 1, 0]);
    let at = eval(&[(&x, &[4])], (Scalar::I32, &[4]), |b, v| b.argsort(SortOrder::Ascending, v[0], 0)).read_i64(Scalar::I32);
    assert_eq!(at, [1, 3, 0, 2]);
}

#[test]
pub(super) fn first_elements() {
    let x = Nums::F(Scalar::F32, vec![2.0, NAN, 5.0, 5.0, NAN, NAN, 1.0, NAN]);
    let best = eval(&[(&x, &[2, 4])], (Scalar::F32, &[2, 2]), |b, v| b.top_k(SortOrder::Descending, v[0], 1, 2).0);
    assert_floats(&best.read_f64(Scalar::F32), &[5.0, 5.0, 1.0, NAN], "largest");
    let at = eval(&[(&x, &[2, 4])], (Scalar::I32, &[2, 2]), |b, v| b.top_k(SortOrder::Descending, v[0], 1, 2).1);
    assert_eq!(at.read_i64(Scalar::I32), [2, 3, 2, 0]);
}

#[test]
pub(super) fn histograms() {
    let x = Nums::I(Scalar::I16, vec![0, 3, 3, -1, 4, 1, 3, 9]);
    let m = Nums::I(Scalar::I1, vec![1, 1, 0, 1, 1, 1, 1, 1]);
    let all = eval(&[(&x, &[2, 4])], (Scalar::I32, &[5]), |b, v| b.histogram(v[0], None, 5)).read_i64(Scalar::I32);
    assert_eq!(all, [1, 1, 0, 3, 1]);
    let some = eval(&[(&x, &[2, 4]), (&m, &[2, 4])], (Scalar::I32, &[4]), |b, v| b.histogram(v[0], Some(v[1]), 4));
    assert_eq!(some.read_i64(Scalar::I32), [1, 1, 0, 2]);
}

#[test]
pub(super) fn gathers_inside_tiles() {
    let x = Nums::F(Scalar::BF16, vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let i = Nums::I(Scalar::I32, vec![2, -1, 0, 3]);
    let rows = eval(&[(&x, &[2, 3]), (&i, &[2, 2])], (Scalar::BF16, &[2, 2]), |b, v| b.gather_tile(v[0], v[1], 1));
    assert_eq!(rows.read_f64(Scalar::BF16), [3.0, 0.0, 4.0, 0.0]);
    let j = Nums::I(Scalar::I32, vec![1, 0, 1]);
    let columns = eval(&[(&x, &[2, 3]), (&j, &[1, 3])], (Scalar::BF16, &[1, 3]), |b, v| b.gather_tile(v[0], v[1], 0));
    assert_eq!(columns.read_f64(Scalar::BF16), [4.0, 2.0, 6.0]);
}
