//! Floats of 16, 8 and 4 bits: a format is a number of exponent and mantissa bits, a bias, and what the top codes mean.

/// What the largest exponent and the code of negative zero mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Top {
    /// Infinity and NaNs, as in f16.
    Ieee,
    /// Numbers, but for the all-ones NaN (OCP e4m3).
    Finite,
    /// Numbers only; negative zero is the NaN (FNUZ).
    Fnuz,
    /// Numbers only (fp4).
    Numbers,
}

/// A format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Small {
    exp: u32,
    man: u32,
    bias: i32,
    top: Top,
}

/// IEEE half precision.
pub(crate) const F16: Small = Small { exp: 5, man: 10, bias: 15, top: Top::Ieee };
/// The upper half of an f32.
pub(crate) const BF16: Small = Small { exp: 8, man: 7, bias: 127, top: Top::Ieee };

/// e4m3 of gfx942 or of OCP.
pub(crate) fn fp8(fnuz: bool) -> Small {
    if fnuz { Small { exp: 4, man: 3, bias: 8, top: Top::Fnuz } } else { Small { exp: 4, man: 3, bias: 7, top: Top::Finite } }
}

/// e5m2 of gfx942 or of OCP.
pub(crate) fn bf8(fnuz: bool) -> Small {
    if fnuz { Small { exp: 5, man: 2, bias: 16, top: Top::Fnuz } } else { Small { exp: 5, man: 2, bias: 15, top: Top::Ieee } }
}

/// A format of the scaled matrix instructions of less than 8 bits: 2 e2m3, 3 e3m2, 4 e2m1.
pub(crate) fn fp4(code: u32) -> Option<Small> {
    let (exp, man, bias) = match code {
        2 => (2, 3, 1),
        3 => (3, 2, 3),
        4 => (2, 1, 1),
        _ => return None,
    };
    Some(Small { exp, man, bias, top: Top::Numbers })
}

impl Small {
    fn bits(self) -> u32 {
        1 + self.exp + self.man
    }

    fn nan(self) -> u32 {
        match self.top {
            Top::Ieee => ((1 << self.exp) - 1) << self.man | 1 << (self.man - 1),
            Top::Finite => (1 << (self.exp + self.man)) - 1,
            Top::Fnuz => 1 << (self.exp + self.man),
            Top::Numbers => 0,
        }
    }

    /// The magnitude code of the largest number.
    pub fn largest(self) -> u32 {
        match self.top {
            Top::Ieee => (((1 << self.exp) - 1) << self.man) - 1,
            Top::Finite => (1 << (self.exp + self.man)) - 2,
            Top::Fnuz | Top::Numbers => (1 << (self.exp + self.man)) - 1,
        }
    }

    /// The value of a code.
    pub fn decode(self, code: u32) -> f64 {
        let sign = code >> (self.bits() - 1) & 1;
        let (e, m) = (code >> self.man & ((1 << self.exp) - 1), code & ((1 << self.man) - 1));
        let magnitude = code & ((1 << (self.bits() - 1)) - 1);
        if e != 0 && e != (1 << self.exp) - 1 {
            // A normal number of every format.
            let exponent = (i64::from(e) - i64::from(self.bias) + 1023) as u64;
            return f64::from_bits(u64::from(sign) << 63 | exponent << 52 | u64::from(m) << (52 - self.man));
        }
        let nan = match self.top {
            Top::Ieee => e == (1 << self.exp) - 1 && m != 0,
            Top::Finite => magnitude == self.nan(),
            Top::Fnuz => sign == 1 && magnitude == 0,
            Top::Numbers => false,
        };
        if nan {
            return f64::NAN;
        }
        let v = if self.top == Top::Ieee && e == (1 << self.exp) - 1 {
            f64::INFINITY
        } else if e == 0 {
            f64::from(m) * power(1 - self.bias - self.man as i32)
        } else {
            f64::from(m | 1 << self.man) * power(e as i32 - self.bias - self.man as i32)
        };
        if sign == 1 { -v } else { v }
    }

    /// Rounds to nearest, ties to even; what is too large becomes infinity, or NaN where there is none.
    pub fn encode(self, x: f64) -> u32 {
        self.round(x, |q| q.round_ties_even())
    }

    /// Rounds up (1), down (2) or to zero (3).
    pub fn encode_directed(self, x: f64, mode: u8) -> u32 {
        let away = mode == 1 && x > 0.0 || mode == 2 && x < 0.0;
        let code = if away { self.round(x, f64::ceil) } else { self.round(x, f64::floor) };
        let sign = 1 << (self.bits() - 1);
        if !away && x.is_finite() && code & !sign > self.largest() { code & sign | self.largest() } else { code }
    }

    /// Rounds the magnitude in units of the last place by `f`.
    fn round(self, x: f64, f: impl Fn(f64) -> f64) -> u32 {
        let sign = if x.is_sign_negative() { 1u32 << (self.bits() - 1) } else { 0 };
        let overflow = match self.top {
            Top::Ieee => sign | ((1 << self.exp) - 1) << self.man,
            Top::Finite => sign | self.nan(),
            Top::Fnuz => self.nan(),
            Top::Numbers => sign | self.largest(),
        };
        if x.is_nan() {
            return if self.top == Top::Fnuz { self.nan() } else { sign | self.nan() };
        }
        if x.is_infinite() {
            return overflow;
        }
        let a = x.abs();
        let lowest = 1 - self.bias;
        let e = exponent(a).max(lowest);
        let q = f(a * power(self.man as i32 - e)) as u64;
        // The mantissa's carry runs into the exponent.
        let code = if e == lowest && q < 1 << self.man { q } else { (((e + self.bias) as u64) << self.man) + q - (1 << self.man) };
        if code > u64::from(self.largest()) {
            return overflow;
        }
        if self.top == Top::Fnuz && code == 0 {
            return 0;
        }
        sign | code as u32
    }
}

/// A power of two; exact, also where it is denormal.
pub(crate) fn power(e: i32) -> f64 {
    if e >= -1022 {
        f64::from_bits((e.min(1024) + 1023) as u64 * (1 << 52))
    } else {
        power(e + 600) * f64::from_bits((1023 - 600) * (1 << 52))
    }
}

/// The exponent of a finite number; small for zero.
fn exponent(a: f64) -> i32 {
    let e = (a.to_bits() >> 52 & 0x7ff) as i32;
    if e == 0 { -1023 } else { e - 1023 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_survives() {
        for format in [F16, BF16, fp8(true), fp8(false), bf8(true), bf8(false)] {
            for code in 0..1u32 << format.bits() {
                let v = format.decode(code);
                if !v.is_nan() {
                    assert_eq!(format.encode(v), code, "{format:?} {code:#x} {v}");
                }
            }
        }
    }

    #[test]
    fn known_values() {
        assert_eq!(F16.encode(1.0), 0x3c00);
        assert_eq!(F16.encode(65520.0), 0x7c00);
        assert_eq!(F16.encode(65519.0), 0x7bff);
        assert_eq!(F16.encode_directed(65535.0, 3), 0x7bff);
        assert_eq!(BF16.encode(1.0), 0x3f80);
        assert_eq!(fp8(true).encode(1.0), 0x40);
        assert_eq!(fp8(false).encode(1.0), 0x38);
        assert_eq!(fp8(true).decode(fp8(true).largest()), 240.0);
        assert_eq!(fp8(false).decode(fp8(false).largest()), 448.0);
        assert_eq!(bf8(true).decode(bf8(true).largest()), 57344.0);
        assert!(fp8(true).decode(0x80).is_nan());
        assert_eq!(fp8(true).encode(-0.0), 0);
        assert!(fp8(true).decode(fp8(true).encode(1e9)).is_nan());
    }

    #[test]
    fn halves_round_as_singles_do() {
        // Every f32 between two neighbouring halves: ties go to the even one.
        for code in 0..0x7bffu32 {
            let (a, b) = (F16.decode(code), F16.decode(code + 1));
            let even = if code % 2 == 0 { code } else { code + 1 };
            assert_eq!(F16.encode((a + b) / 2.0), even);
        }
    }
}
