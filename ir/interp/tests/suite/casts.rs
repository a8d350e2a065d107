//! Every cast between two types, of every code of the types of up to 16 bits, beside a search among the numbers of the result's type.

use super::{Nums, assert_floats, eval1};
use tilelift_ir::num;
use tilelift_ir::types::Scalar;

/// The number of a float type nearest to `x`, found among all of its codes: ties to the even code.
struct Nearest {
    ty: Scalar,
    /// Numbers in ascending order with their codes; behind the largest one stands what the format's spacing would give next.
    numbers: Vec<(f64, u64)>,
}

impl Nearest {
    fn new(ty: Scalar) -> Nearest {
        let top = num::largest(ty);
        let mut numbers: Vec<(f64, u64)> = (0..1u64 << ty.bits()).map(|c| (num::from_bits(c, ty), c)).filter(|n| n.0.is_finite()).collect();
        numbers.sort_by(|a, b| a.0.total_cmp(&b.0));
        numbers.dedup_by(|a, b| a.0 == b.0);
        if num::has_infinity(ty) {
            let last = numbers[numbers.len() - 1];
            let beyond = 2.0 * top - numbers[numbers.len() - 2].0;
            numbers.push((beyond, last.1 + 1));
            numbers.insert(0, (-beyond, last.1 + 1));
        }
        Nearest { ty, numbers }
    }

    fn of(&self, x: f64) -> f64 {
        let ty = self.ty;
        if x.is_nan() {
            return if ty == Scalar::F4E2M1 { 6.0 } else { f64::NAN };
        }
        if ty == Scalar::F8E8M0 && x < 0.0 {
            return f64::NAN;
        }
        let at = self.numbers.partition_point(|n| n.0 < x);
        let found = match (at.checked_sub(1).and_then(|i| self.numbers.get(i)), self.numbers.get(at)) {
            (Some(low), Some(high)) if x - low.0 < high.0 - x || (x - low.0 == high.0 - x && low.1 % 2 == 0) => low.0,
            (_, Some(high)) => high.0,
            (Some(low), None) => low.0,
            (None, None) => unreachable!("a type has numbers"),
        };
        let found = if found.abs() > num::largest(ty) { f64::INFINITY.copysign(found) } else { found };
        if found == 0.0 && !matches!(ty, Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz) { 0f64.copysign(x) } else { found }
    }
}

fn truncated(x: f64, to: Scalar) -> i64 {
    if x.is_nan() {
        return 0;
    }
    let most = 2f64.powi(to.bits() as i32 - 1);
    if x >= most {
        ((1i128 << (to.bits() - 1)) - 1) as i64
    } else if x < -most {
        (-(1i128 << (to.bits() - 1))) as i64
    } else {
        x.trunc() as i64
    }
}

#[test]
fn every_code_of_the_narrower_types_to_every_type() {
    let small = |s: Scalar| s.bits() <= 16;
    let nearest: Vec<Nearest> = Scalar::ALL.iter().filter(|s| s.is_float() && small(**s)).map(|&s| Nearest::new(s)).collect();
    for &from in Scalar::ALL.iter().filter(|s| small(**s)) {
        let codes = 0..1u64 << from.bits();
        let source = if from.is_float() {
            Nums::F(from, codes.map(|c| num::from_bits(c, from)).collect())
        } else {
            Nums::I(from, codes.map(|c| num::wrap(c as i64, from)).collect())
        };
        for &to in Scalar::ALL.iter().filter(|&&to| to != from) {
            let got = eval1(&[&source], to, |k, v| k.cast(v[0], to));
            let what = format!("cast {from} to {to}");
            if to.is_float() {
                let values: Vec<f64> = match &source {
                    Nums::F(_, v) => v.clone(),
                    Nums::I(_, v) => v.iter().map(|&x| x as f64).collect(),
                };
                let want: Vec<f64> = match nearest.iter().find(|n| n.ty == to) {
                    Some(n) => values.iter().map(|&x| n.of(x)).collect(),
                    // Every number of 16 bits is one of f32 and f64.
                    None => values,
                };
                assert_floats(&got.read_f64(to)[..want.len()], &want, &what);
            } else {
                let want: Vec<i64> = match &source {
                    Nums::F(_, v) => v.iter().map(|&x| if to == Scalar::I1 { i64::from(x != 0.0) } else { truncated(x, to) }).collect(),
                    Nums::I(_, v) if to == Scalar::I1 => v.iter().map(|&x| i64::from(x != 0)).collect(),
                    Nums::I(_, v) => {
                        v.iter().map(|&x| if to.bits() == 64 { x } else { x << (64 - to.bits()) >> (64 - to.bits()) }).collect()
                    }
                };
                assert_eq!(got.read_i64(to)[..want.len()], want, "{what}");
            }
        }
    }
}
