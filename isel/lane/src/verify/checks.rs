//! The state of a verification, and the check of the types of an instruction's fields.

use crate::machine::Target;
use crate::op::Takes;
use crate::program::Program;
use crate::table::Kind;
use crate::value::{LTy, LVal};
use crate::verify::LaneProblem;
use cranelift_entity::EntityRef;
use tilelift_ir::Scalar;
use tilelift_ir::layout::FragmentMap;

/// How many values of which type hold a lane's part of a fragment: elements below 32 bits are packed into words.
pub(crate) fn fragment_values(map: &FragmentMap, elem: Scalar) -> (usize, LTy) {
    let elements = 1usize << map.reg.len();
    let per_word = (32 / elem.bits().clamp(4, 32)) as usize;
    if per_word > 1 { (elements.div_ceil(per_word), LTy::B32) } else { (elements, LTy::Num(elem)) }
}

pub(super) type Check = Result<(), LaneProblem>;

#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum State {
    #[default]
    Undefined,
    InScope,
    /// Defined in a block that ended.
    Gone,
}

pub(super) struct Verifier<'a> {
    pub(super) program: &'a Program,
    pub(super) target: &'a Target,
    /// Types of the values.
    pub(super) types: &'a [LTy],
    /// Of every value of the program.
    pub(super) state: Vec<State>,
    /// The values in scope, those of the innermost block last.
    pub(super) defined: Vec<LVal>,
    /// Warps of the role that is being checked, and whether one lane runs it.
    pub(super) role: Option<(u32, bool)>,
}

pub(super) fn other_type(value: LVal, got: LTy, want: LTy) -> LaneProblem {
    LaneProblem::Type { value, got, want: want.to_string() }
}

/// The types of an instruction's fields, as the table has them. What it reads is looked at as it comes, what it makes at the end; the reason of
/// a refusal is put together where there is one.
pub(super) struct Typing<'v, 'i> {
    verifier: &'v Verifier<'v>,
    /// The types that the instruction is for, and the one that it is for here, if that is known yet.
    takes: Takes,
    of: Option<LTy>,
    /// What it makes, which is one field, and of which kind that is.
    made: Option<(&'i [LVal], Kind)>,
    /// The first field that does not fit: its value, kind, and whether it is made.
    wrong: Option<(LVal, Kind, bool)>,
}

impl<'v, 'i> Typing<'v, 'i> {
    pub(super) fn new(verifier: &'v Verifier<'v>, takes: Takes) -> Typing<'v, 'i> {
        Typing { verifier, takes, of: None, made: None, wrong: None }
    }

    #[inline]
    pub(super) fn field(&mut self, vals: &'i [LVal], kind: Kind, made: bool) {
        if made {
            self.made = Some((vals, kind));
        } else {
            self.look(vals, kind, false);
        }
    }

    #[inline]
    pub(super) fn look(&mut self, vals: &[LVal], kind: Kind, made: bool) {
        if self.wrong.is_some() {
            return;
        }
        for &v in vals {
            let known = self.verifier.types.get(v.index()).filter(|_| made || self.verifier.in_scope(v));
            if !known.is_some_and(|&ty| fits(self.takes, &mut self.of, ty, kind)) {
                self.wrong = Some((v, kind, made));
                return;
            }
        }
    }

    /// Checks what the instruction makes, too.
    #[inline]
    pub(super) fn end(&mut self) -> Check {
        if let Some((vals, kind)) = self.made {
            self.look(vals, kind, true);
        }
        self.wrong.map_or(Ok(()), |wrong| Err(self.why(wrong)))
    }

    #[cold]
    pub(super) fn why(&self, (value, kind, made): (LVal, Kind, bool)) -> LaneProblem {
        let got = if made { self.verifier.ty(value) } else { self.verifier.operand(value) };
        let want = match (kind, self.of) {
            (Kind::T, None) => self.takes.wanted().to_owned(),
            (Kind::T, Some(of)) => of.to_string(),
            _ => exact(kind).map_or_else(|| "a number".to_owned(), |ty| ty.to_string()),
        };
        got.map_or_else(|e| e, |got| LaneProblem::Type { value, got, want })
    }
}

/// True if a value of a type may stand in a field of that kind, of an instruction that is for these types, and here for one of them, if that is
/// known yet.
#[inline]
fn fits(takes: Takes, of: &mut Option<LTy>, got: LTy, kind: Kind) -> bool {
    match (kind, *of) {
        (Kind::T, Some(of)) => got == of,
        (Kind::T, None) => {
            let allowed = takes.allows(got);
            *of = allowed.then_some(got);
            allowed
        }
        (Kind::Number, _) => got != LTy::B32,
        (Kind::Own, _) => true,
        (Kind::I1 | Kind::I16 | Kind::I32 | Kind::I64 | Kind::F32 | Kind::B32, _) => exact(kind) == Some(got),
    }
}

/// The type of a kind that names one.
#[inline]
pub(super) fn exact(kind: Kind) -> Option<LTy> {
    match kind {
        Kind::I1 => Some(LTy::I1),
        Kind::I16 => Some(LTy::Num(Scalar::I16)),
        Kind::I32 => Some(LTy::I32),
        Kind::I64 => Some(LTy::I64),
        Kind::F32 => Some(LTy::F32),
        Kind::B32 => Some(LTy::B32),
        Kind::T | Kind::Number | Kind::Own => None,
    }
}

impl Verifier<'_> {
    pub(super) fn have_type(&self, vals: &[LVal], want: LTy) -> Check {
        let other = vals.iter().find(|&&v| self.types.get(v.index()) != Some(&want));
        other.map_or(Ok(()), |&v| self.has_type(v, want))
    }

    /// How many values an access may have, and how wide it may be.
    pub(super) fn vector(&self, vals: &[LVal]) -> Check {
        let (Some(&first), 1 | 2 | 4) = (vals.first(), vals.len()) else {
            return Err(LaneProblem::Count { what: "values in one access", got: vals.len(), want: "1, 2 or 4".into() });
        };
        let bytes = self.ty(first)?.bytes() * vals.len() as u32;
        let most = self.target.vector_bytes.min(16);
        if bytes > most { Err(LaneProblem::TooWide { got: bytes, most }) } else { Ok(()) }
    }
}
