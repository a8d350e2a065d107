//! Activations: their tile code, their `f64` definition, and how far they can stretch an error.
//!
//! `gelu` is the tanh form (Hendrycks and Gimpel 2016), `x/2 (1 + tanh(u))` with `u = √(2/π) (x + 0.044715 x³)`. Since
//! `(1 + tanh u)/2 = 1/(1 + e^-2u)`, the code uses the right side, which does not cancel for negative `x`.

use tilelift_ir::{KernelBuilder, Value};

/// √(2/π).
const SQRT_2_OVER_PI: f64 = 0.797_884_560_802_865_4;
/// The cubic coefficient of the tanh form of gelu.
const GELU_CUBIC: f64 = 0.044_715;

/// A function applied to every element.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Activation {
    /// `x`.
    None,
    /// `maximum(x, 0)`; a NaN stays NaN.
    Relu,
    /// `x / (1 + e^-x)`.
    Silu,
    /// `x / (1 + e^-2u)`, `u = √(2/π) (x + 0.044715 x³)`.
    Gelu,
}

impl Activation {
    /// Every activation.
    pub const ALL: &'static [Activation] = &[Activation::None, Activation::Relu, Activation::Silu, Activation::Gelu];

    /// A short name, as in kernel and case names.
    pub const fn name(self) -> &'static str {
        match self {
            Activation::None => "none",
            Activation::Relu => "relu",
            Activation::Silu => "silu",
            Activation::Gelu => "gelu",
        }
    }

    /// Appends the activation of an `f32` scalar or tile.
    pub fn apply(self, b: &mut KernelBuilder, x: Value) -> Value {
        match self {
            Activation::None => x,
            Activation::Relu => b.maximum(x, 0.0),
            Activation::Silu => {
                let minus = b.neg(x);
                over_one_plus_exp(b, x, minus)
            }
            Activation::Gelu => {
                let square = b.mul(x, x);
                let minus_2u = b.mul(square, -2.0 * SQRT_2_OVER_PI * GELU_CUBIC);
                let minus_2u = b.add(minus_2u, -2.0 * SQRT_2_OVER_PI);
                let minus_2u = b.mul(minus_2u, x);
                over_one_plus_exp(b, x, minus_2u)
            }
        }
    }

    /// The definition in `f64`.
    pub fn eval(self, x: f64) -> f64 {
        match self {
            Activation::None => x,
            Activation::Relu => {
                if x < 0.0 {
                    0.0
                } else {
                    x
                }
            }
            Activation::Silu => x / (1.0 + (-x).exp()),
            Activation::Gelu => x / (1.0 + (-2.0 * SQRT_2_OVER_PI * (x + GELU_CUBIC * x * x * x)).exp()),
        }
    }

    /// A bound of `|f'|`: an error `e` of the argument becomes at most this times `e`. The maxima are 1.0998 (silu) and 1.129 (gelu).
    pub const fn lipschitz(self) -> f64 {
        match self {
            Activation::None | Activation::Relu => 1.0,
            Activation::Silu => 1.1,
            Activation::Gelu => 1.13,
        }
    }

    /// A bound of the error of [`Activation::apply`] at `x`, as a multiple of `|x|`.
    ///
    /// With `s = 1/(1 + e^-t)` the result is `x s`. `exp` has a relative error of 2^-21, which enters `s` times `1 - s <= 1`; the
    /// add, the division and the rounding of constants take less than 2^-22 together. Of gelu's argument, three roundings and two
    /// rounded constants give `|t| 2^-21.6` absolute, which enters as `|t| s (1 - s) <= 0.225`.
    pub const fn error(self) -> f64 {
        match self {
            Activation::None | Activation::Relu => 0.0,
            Activation::Silu | Activation::Gelu => 1.0 / (1u64 << 20) as f64,
        }
    }
}

/// `x / (1 + e^t)`.
fn over_one_plus_exp(b: &mut KernelBuilder, x: Value, t: Value) -> Value {
    let e = b.exp(t);
    let d = b.add(e, 1.0);
    b.div(x, d)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> impl Iterator<Item = f64> {
        (-4000..=4000).map(|i| f64::from(i) / 400.0)
    }

    #[test]
    fn gelu_equals_its_tanh_form() {
        for x in samples() {
            let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            let want = 0.5 * x * (1.0 + u.tanh());
            assert!((Activation::Gelu.eval(x) - want).abs() < 1e-14, "{x}");
        }
    }

    #[test]
    fn slopes_stay_below_the_stated_bound_and_reach_it_nearly() {
        for &a in Activation::ALL {
            let h = 1.0 / 400.0;
            let slope = samples().map(|x| ((a.eval(x + h) - a.eval(x)) / h).abs()).fold(0.0, f64::max);
            assert!(slope <= a.lipschitz() + 1e-9 && slope > a.lipschitz() - 0.01, "{a:?} {slope}");
        }
    }
}
