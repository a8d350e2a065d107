//! Literals: their spelling, and the value that a spelling has in a type.
//!
//! ```text
//! 128  -1  128i64  true          integers: i32 unless suffixed or asked for otherwise
//! 0.5  1e-5  1.5bf16  5f32       floats: f32 unless suffixed or asked for otherwise
//! inf  -inf  nan  -inf_f16       with `_` in front of the suffix
//! ```
//!
//! A float prints with the fewest digits that read back as the same value of its type.

use super::error::ParseCode;
use super::lexer::Tok;
use crate::num;
use crate::ops::Literal;
use crate::types::Scalar;

/// The spelling of a literal of a type.
pub fn literal_text(literal: Literal, ty: Scalar) -> String {
    match literal {
        Literal::Int(x) if ty == Scalar::I1 && (x == 0 || x == 1) => (x == 1).to_string(),
        Literal::Int(x) if ty == Scalar::I32 => x.to_string(),
        Literal::Int(x) => format!("{x}{ty}"),
        Literal::Float(bits) => {
            let x = f64::from_bits(bits);
            let (bar, suffix) = if ty == Scalar::F32 { ("", "") } else { ("_", ty.name()) };
            if x.is_nan() {
                format!("nan{bar}{suffix}")
            } else if x.is_infinite() {
                format!("{}inf{bar}{suffix}", if x < 0.0 { "-" } else { "" })
            } else {
                format!("{:?}{suffix}", shortest(x, ty))
            }
        }
    }
}

/// The number with the shortest decimal that rounds to `x` in the type.
fn shortest(x: f64, ty: Scalar) -> f64 {
    (0..17)
        .find_map(|digits| format!("{x:.digits$e}").parse::<f64>().ok().filter(|d| num::round(*d, ty).to_bits() == x.to_bits()))
        .unwrap_or(x)
}

/// The literal that a token spells, before its type is known.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Spelled<'t> {
    /// Digits, `float` if with fraction or exponent.
    Digits { digits: &'t str, float: bool },
    /// `inf`, `-inf` or `nan`.
    Special(f64),
    /// `true` or `false`.
    Truth(bool),
}

/// A literal and the type of its suffix (`i1` for `true` and `false`).
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct LiteralToken<'t> {
    pub spelled: Spelled<'t>,
    pub suffix: Option<Scalar>,
}

fn special<'t>(word: &str, negative: bool) -> Option<LiteralToken<'t>> {
    let (name, suffix) = match word.split_once('_') {
        Some((name, suffix)) => (name, Some(Scalar::from_name(suffix).filter(|s| s.is_float())?)),
        None => (word, None),
    };
    let x = match (name, negative) {
        ("inf", false) => f64::INFINITY,
        ("inf", true) => f64::NEG_INFINITY,
        ("nan", false) => f64::NAN,
        _ => return None,
    };
    Some(LiteralToken { spelled: Spelled::Special(x), suffix })
}

impl<'t> LiteralToken<'t> {
    /// The literal of a token: `None` if it is no literal, an error if it is a broken one.
    pub(super) fn of(tok: Tok<'t>) -> Option<Result<LiteralToken<'t>, (ParseCode, String)>> {
        match tok {
            Tok::Number { digits, suffix, float } => {
                let spelled = Spelled::Digits { digits, float };
                if suffix.is_empty() {
                    return Some(Ok(LiteralToken { spelled, suffix: None }));
                }
                Some(match Scalar::from_name(suffix) {
                    Some(Scalar::I1) => Err((ParseCode::Number, "an i1 literal is `true` or `false`".to_owned())),
                    Some(ty) => Ok(LiteralToken { spelled, suffix: Some(ty) }),
                    None => {
                        Err((ParseCode::Number, format!("`{suffix}` is no suffix of a number; use an element type, as in 5i64 or 1.5bf16")))
                    }
                })
            }
            Tok::MinusWord(w) => Some(special(w, true).ok_or_else(|| {
                (
                    ParseCode::Number,
                    format!("`-{w}` is no literal; negate a value with `neg`, infinity is `-inf` or, with a type, `-inf_f16`"),
                )
            })),
            Tok::Word("true") => Some(Ok(LiteralToken { spelled: Spelled::Truth(true), suffix: Some(Scalar::I1) })),
            Tok::Word("false") => Some(Ok(LiteralToken { spelled: Spelled::Truth(false), suffix: Some(Scalar::I1) })),
            Tok::Word(w) => special(w, false).map(Ok),
            Tok::Value(_)
            | Tok::Name(_)
            | Tok::Tile(_)
            | Tok::Shared(_)
            | Tok::Sign(_)
            | Tok::DotDot
            | Tok::Newline
            | Tok::Bad
            | Tok::End => None,
        }
    }

    /// The literal in the type of its suffix, else the wanted type, else `i32` or `f32`.
    pub(super) fn typed(self, want: Option<Scalar>) -> Result<(Literal, Scalar), (ParseCode, String)> {
        let asked = self.suffix.or(want);
        match self.spelled {
            Spelled::Truth(b) => Ok((Literal::Int(i64::from(b)), Scalar::I1)),
            Spelled::Special(x) => {
                let ty = asked.unwrap_or(Scalar::F32);
                if ty.is_float() {
                    Ok((Literal::Float(x.to_bits()), ty))
                } else {
                    Err((ParseCode::Literal, format!("{x} is no {ty}; use an integer, or cast the other operand to a float")))
                }
            }
            Spelled::Digits { digits, float } => {
                let ty = asked.unwrap_or(if float { Scalar::F32 } else { Scalar::I32 });
                digits_typed(digits, float, ty).map(|l| (l, ty))
            }
        }
    }
}

fn digits_typed(digits: &str, float: bool, ty: Scalar) -> Result<Literal, (ParseCode, String)> {
    if ty.is_float() {
        // Rust's parser rounds any decimal correctly to f64; the printer makes sure that the second rounding does no harm.
        let x = digits.parse::<f64>().map_err(|e| (ParseCode::Number, format!("`{digits}` is no number: {e}")))?;
        let rounded = num::round(x, ty);
        if rounded.is_infinite() {
            return Err((ParseCode::Range, format!("`{digits}` is beyond the largest {ty}; write `inf` for infinity")));
        }
        // Without an infinity rounding saturates; a literal must not do so in silence.
        if !num::has_infinity(ty) && (rounded.is_nan() || x.abs() > num::largest(ty) || (ty == Scalar::F8E8M0 && x == 0.0)) {
            let least = if ty == Scalar::F8E8M0 { 2f64.powi(-127) } else { -num::largest(ty) };
            return Err((ParseCode::Range, format!("`{digits}` is no {ty}, which goes from {least:e} to {:e}", num::largest(ty))));
        }
        return Ok(Literal::Float(rounded.to_bits()));
    }
    if ty == Scalar::I1 {
        return Err((ParseCode::Literal, "an i1 is asked for here; write `true` or `false`".to_owned()));
    }
    if float {
        return Err((ParseCode::Literal, format!("`{digits}` is no {ty}; write an integer, or cast the other operand to a float")));
    }
    match digits.parse::<i64>() {
        Ok(x) if num::wrap(x, ty) == x => Ok(Literal::Int(x)),
        Ok(_) | Err(_) => {
            let half = 1i128 << (ty.bits() - 1);
            Err((ParseCode::Range, format!("`{digits}` is no {ty}, which goes from {} to {}; use a wider type", -half, half - 1)))
        }
    }
}
