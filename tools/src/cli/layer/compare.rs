//! Results of two graphs beside one another: no element may be further apart than the operators' bounds.

use tilelift_ir::num;
use tilelift_kernels::plain::{Operators, TensorOf};

/// How far elements of a result are apart.
#[derive(Clone, Copy, Default)]
pub(super) struct Apart {
    /// The largest distance.
    pub most: f64,
    /// The largest share of what is allowed; above 1, or NaN, is too far.
    pub share: f64,
    /// Elements that differ, of how many.
    pub differ: u64,
    pub all: u64,
}

impl Apart {
    /// Whether all elements are near enough.
    pub fn is_near(&self) -> bool {
        self.share <= 1.0
    }
}

/// Compares the bytes of one tensor.
pub(super) fn of(t: &TensorOf, want: &[u8], got: &[u8]) -> Apart {
    let width = t.elem.bytes() as usize;
    let number = |b: &[u8]| num::from_bits(b.iter().rev().fold(0, |n, &x| n << 8 | u64::from(x)), t.elem);
    let integer = |b: &[u8]| b.iter().rev().fold(0u64, |n, &x| n << 8 | u64::from(x));
    let [absolute, relative] = t.apart;
    let mut apart = Apart::default();
    for (w, g) in want.chunks_exact(width).zip(got.chunks_exact(width)) {
        apart.all += 1;
        if w == g {
            continue;
        }
        apart.differ += 1;
        if !t.elem.is_float() {
            apart.most = apart.most.max(integer(w).abs_diff(integer(g)) as f64);
            apart.share = f64::INFINITY;
            continue;
        }
        let (w, g) = (number(w), number(g));
        if (w.is_nan() && g.is_nan()) || w == g {
            continue;
        }
        let far = (w - g).abs();
        let share = far / (absolute + relative * w.abs().max(g.abs()));
        // NaN is further than any bound.
        let larger = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
        (apart.most, apart.share) = (larger(apart.most, far), larger(apart.share, share));
    }
    apart
}

/// Lines that say how far the results are apart, and whether all are near.
pub(super) fn said<'b>(operators: &Operators, label: &str, bytes: impl Fn(usize) -> Option<[&'b [u8]; 2]>) -> (String, bool) {
    let (mut text, mut near) = (String::new(), true);
    for (i, t) in operators.tensors.iter().enumerate() {
        let Some([want, got]) = bytes(i) else { continue };
        let apart = of(t, want, got);
        near &= apart.is_near();
        let how = if t.apart == [0.0; 2] {
            String::new()
        } else {
            format!(", {:.3e} apart at most, {:.3} of what is allowed", apart.most, apart.share)
        };
        text += &format!("{label:<12}`{}`: {} of {} elements differ{how}\n", t.name, apart.differ, apart.all);
    }
    (text, near)
}
