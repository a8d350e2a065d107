//! The invariants of a lane program, checked.
//!
//! ```text
//! frame   warps and lanes fit the target, allocations lie inside the shared memory, parameters have the types of what they carry
//! values  one definition each, defined before use in the same or an enclosing block
//! insts   operand and result types, vector widths, fragment sizes, and only what the target offers
//! ```
//!
//! The interpreter and the backends rely on these and don't repeat them.

mod error;
#[cfg(test)]
mod tests;
mod units;

pub use error::{LaneProblem, LaneVerifyError};

use super::print::inst_text;
use super::{Atomic, AtomicKind, Block, Carried, Inst, LTy, LVal, Param, ParamSource, Program, ShuffleFrom, Space, UnOp, in_order};
use crate::machine::Target;
use cranelift_entity::{EntityRef, SecondaryMap};
use tilelift_ir::layout::FragmentMap;
use tilelift_ir::{AtomicOp, Class, Scalar};

/// Checks a program for a target.
///
/// # Errors
/// The first broken invariant in program order; the frame comes first.
pub fn verify(program: &Program, target: &Target) -> Result<(), LaneVerifyError> {
    frame(program, target).map_err(|problem| LaneVerifyError { inst: None, problem })?;
    units::last(program).map_err(|problem| LaneVerifyError { inst: None, problem })?;
    let mut v = Verifier { program, target, state: SecondaryMap::new(), role: None };
    v.block(&program.body, Vec::new())?;
    units::registers(program, target).map_err(|problem| LaneVerifyError { inst: None, problem })
}

/// How many values of which type hold a lane's part of a fragment: elements below 32 bits are packed into words.
pub(crate) fn fragment_values(map: &FragmentMap, elem: Scalar) -> (usize, LTy) {
    let elements = 1usize << map.reg.len();
    let per_word = (32 / elem.bits().clamp(8, 32)) as usize;
    if per_word > 1 { (elements.div_ceil(per_word), LTy::B32) } else { (elements, LTy::Num(elem)) }
}

type Check = Result<(), LaneProblem>;

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Undefined,
    InScope,
    /// Defined in a block that ended.
    Gone,
}

struct Verifier<'a> {
    program: &'a Program,
    target: &'a Target,
    state: SecondaryMap<LVal, State>,
    /// Warps of the role that is being checked, and whether one lane runs it.
    role: Option<(u32, bool)>,
}

fn frame(p: &Program, t: &Target) -> Check {
    if p.lanes != t.lanes {
        return Err(LaneProblem::Lanes { got: p.lanes, want: t.lanes });
    }
    if p.warps == 0 || p.warps > t.max_warps {
        return Err(LaneProblem::Warps { got: p.warps, most: t.max_warps });
    }
    let most = t.units.as_ref().map_or(1, |u| u.max_cluster);
    if p.cluster == 0 || p.cluster > most || !p.cluster.is_power_of_two() {
        return Err(LaneProblem::Cluster { got: p.cluster, most });
    }
    if p.shared_bytes > t.shared_bytes {
        return Err(LaneProblem::SharedSize { got: p.shared_bytes, most: t.shared_bytes });
    }
    for (id, a) in p.allocs.iter() {
        if !a.align.is_power_of_two() || !a.offset.is_multiple_of(a.align) {
            return Err(LaneProblem::AllocAlign(id));
        }
        if u64::from(a.offset) + u64::from(a.bytes) > u64::from(p.shared_bytes) {
            return Err(LaneProblem::AllocOutside(id));
        }
    }
    in_order(p).map_err(LaneProblem::UnitShape)?;
    for (index, param) in p.params.iter().enumerate() {
        let ok = match param.source {
            ParamSource::Pointer(_) | ParamSource::Stride(..) => param.ty == LTy::I64,
            ParamSource::Extent(..) | ParamSource::Grid(_) => param.ty == LTy::I32,
            ParamSource::Tensor(_) => param.ty == LTy::I64,
            ParamSource::Scalar(_) => matches!(param.ty, LTy::Num(_)),
        };
        if !ok {
            return Err(LaneProblem::ParamType { index, got: param.ty });
        }
    }
    Ok(())
}

impl Verifier<'_> {
    /// Checks a block with the given values defined at its start; returns what it defined, for the caller to end their scope.
    fn block(&mut self, insts: &Block, mut defined: Vec<LVal>) -> Result<Vec<LVal>, LaneVerifyError> {
        for inst in insts {
            self.inst(inst, &mut defined)?;
        }
        Ok(defined)
    }

    fn end(&mut self, defined: Vec<LVal>) {
        for v in defined {
            self.state[v] = State::Gone;
        }
    }

    fn inst(&mut self, inst: &Inst, defined: &mut Vec<LVal>) -> Result<(), LaneVerifyError> {
        let program = self.program;
        let at = |problem| LaneVerifyError { inst: Some(inst_text(program, inst)), problem };
        match inst {
            Inst::For(l) => {
                let mut inner = Vec::new();
                self.ints(&[l.lo, l.hi, l.step]).map_err(at)?;
                let ty = self.ty(l.lo).map_err(at)?;
                self.def(l.iv, ty, &mut inner).map_err(at)?;
                self.enter(&l.carried, &mut inner).map_err(at)?;
                let inner = self.block(&l.body, inner)?;
                self.leave(&l.carried, defined, inner).map_err(at)?;
            }
            Inst::While(l) => {
                let mut params = Vec::new();
                self.enter(&l.carried, &mut params).map_err(at)?;
                let test = self.block(&l.test, Vec::new())?;
                self.want(l.condition, LTy::I1).map_err(at)?;
                let inner = self.block(&l.body, params)?;
                self.leave(&l.carried, defined, inner).map_err(at)?;
                self.end(test);
            }
            Inst::If(c) => {
                self.want(c.condition, LTy::I1).map_err(at)?;
                let then = self.block(&c.then, Vec::new())?;
                c.results.iter().try_for_each(|&(r, a, _)| self.ty(r).and_then(|t| self.want(a, t))).map_err(at)?;
                self.end(then);
                let otherwise = self.block(&c.otherwise, Vec::new())?;
                c.results.iter().try_for_each(|&(r, _, b)| self.ty(r).and_then(|t| self.want(b, t))).map_err(at)?;
                self.end(otherwise);
                c.results.iter().try_for_each(|&(r, ..)| self.ty(r).and_then(|t| self.def(r, t, defined))).map_err(at)?;
            }
            Inst::Roles(r) => units::roles(self, inst, r)?,
            Inst::Unit(u) => units::unit(self, u, defined).map_err(at)?,
            _ => self.simple(inst, defined).map_err(at)?,
        }
        Ok(())
    }

    /// Initial values and parameters of a loop.
    fn enter(&mut self, carried: &[Carried], inner: &mut Vec<LVal>) -> Check {
        carried.iter().try_for_each(|c| self.ty(c.param).and_then(|t| self.want(c.init, t)))?;
        carried.iter().try_for_each(|c| self.ty(c.param).and_then(|t| self.def(c.param, t, inner)))
    }

    /// Next values and results of a loop; ends the scope of the body.
    fn leave(&mut self, carried: &[Carried], outer: &mut Vec<LVal>, inner: Vec<LVal>) -> Check {
        carried.iter().try_for_each(|c| self.ty(c.param).and_then(|t| self.want(c.next, t)))?;
        self.end(inner);
        carried.iter().try_for_each(|c| self.ty(c.param).and_then(|t| self.def(c.result, t, outer)))
    }

    /// The type of a value, defined or not.
    fn ty(&self, v: LVal) -> Result<LTy, LaneProblem> {
        self.program.vals.get(v).copied().ok_or(LaneProblem::UnknownValue(v))
    }

    /// The type of an operand.
    fn operand(&self, v: LVal) -> Result<LTy, LaneProblem> {
        let ty = self.ty(v)?;
        if self.state[v] == State::InScope { Ok(ty) } else { Err(LaneProblem::NotInScope(v)) }
    }

    fn want(&self, v: LVal, want: LTy) -> Check {
        let got = self.operand(v)?;
        if got == want { Ok(()) } else { Err(LaneProblem::Type { value: v, got, want: want.to_string() }) }
    }

    fn want_all(&self, vals: &[LVal], want: LTy) -> Check {
        vals.iter().try_for_each(|&v| self.want(v, want))
    }

    /// An operand that is a number of one of the classes.
    fn number(&self, v: LVal, classes: &[Class]) -> Result<LTy, LaneProblem> {
        let got = self.operand(v)?;
        match got {
            LTy::Num(s) if classes.contains(&s.class()) => Ok(got),
            LTy::Num(_) | LTy::B32 => {
                let names: Vec<_> = classes.iter().map(|c| format!("{c:?}").to_lowercase()).collect();
                Err(LaneProblem::Type { value: v, got, want: names.join(" or ") })
            }
        }
    }

    /// Integers of one type.
    fn ints(&self, vals: &[LVal]) -> Check {
        let ty = self.number(vals[0], &[Class::Int])?;
        self.want_all(vals, ty)
    }

    fn def(&mut self, v: LVal, want: LTy, defined: &mut Vec<LVal>) -> Check {
        let got = self.ty(v)?;
        if got != want {
            return Err(LaneProblem::Type { value: v, got, want: want.to_string() });
        }
        if matches!(got, LTy::Num(s) if s.is_narrow()) {
            return Err(LaneProblem::Type { value: v, got, want: LTy::Num(Scalar::I8).to_string() });
        }
        if self.state[v] != State::Undefined {
            return Err(LaneProblem::Redefined(v));
        }
        self.state[v] = State::InScope;
        defined.push(v);
        Ok(())
    }

    fn def_all(&mut self, vals: &[LVal], want: LTy, defined: &mut Vec<LVal>) -> Check {
        vals.iter().try_for_each(|&v| self.def(v, want, defined))
    }

    /// The element type of a vector access, whose values need not be in scope yet.
    fn vector(&self, vals: &[LVal]) -> Result<LTy, LaneProblem> {
        if ![1, 2, 4].contains(&vals.len()) {
            return Err(LaneProblem::Count { what: "values in one access", got: vals.len(), want: "1, 2 or 4".into() });
        }
        let ty = self.ty(vals[0])?;
        let bytes = ty.bytes() * vals.len() as u32;
        let most = self.target.vector_bytes.min(16);
        if bytes > most {
            return Err(LaneProblem::TooWide { got: bytes, most });
        }
        Ok(ty)
    }

    /// Values that make up a word: two of 16 bits or four of 8.
    fn parts(&self, vals: &[LVal]) -> Result<LTy, LaneProblem> {
        let Some(&first) = vals.first() else {
            return Err(LaneProblem::Count { what: "parts", got: 0, want: "2 or 4".into() });
        };
        let ty = self.ty(first)?;
        match ty {
            LTy::Num(s) if s.bits() == 8 || s.bits() == 16 => {
                let want = 32 / s.bits() as usize;
                if vals.len() == want { Ok(ty) } else { Err(LaneProblem::Count { what: "parts", got: vals.len(), want: want.to_string() }) }
            }
            LTy::Num(_) | LTy::B32 => Err(LaneProblem::Type { value: first, got: ty, want: "a number of 8 or 16 bits".into() }),
        }
    }

    fn atomic(&mut self, a: &Atomic, defined: &mut Vec<LVal>) -> Check {
        self.access(a.addr, if a.space == Space::Global { LTy::I64 } else { LTy::I32 }, a.guard)?;
        let ty = self.number(a.value, &[Class::Int, Class::Float])?;
        if let AtomicKind::Cas(c) = a.kind {
            self.want(c, ty)?;
        }
        let takes = match (a.kind, ty) {
            (AtomicKind::Op(AtomicOp::Add), LTy::Num(s)) => s.bits() >= 32 || (s.is_float() && s.bits() == 16),
            (AtomicKind::Op(AtomicOp::Xchg), LTy::Num(s)) => s.bits() >= 32,
            (_, LTy::Num(s)) => s.bits() >= 32 && s.is_int(),
            (_, LTy::B32) => false,
        };
        if !takes {
            return Err(LaneProblem::Type { value: a.value, got: ty, want: "a type that the update takes".into() });
        }
        a.dst.map_or(Ok(()), |d| self.def(d, ty, defined))
    }

    fn access(&self, addr: LVal, space: LTy, guard: Option<LVal>) -> Check {
        self.want(addr, space)?;
        guard.map_or(Ok(()), |g| self.want(g, LTy::I1))
    }

    fn simple(&mut self, inst: &Inst, defined: &mut Vec<LVal>) -> Check {
        match inst {
            Inst::Undefined { dst } | Inst::Const { dst, .. } => {
                let ty = self.ty(*dst)?;
                self.def(*dst, ty, defined)
            }
            Inst::Param { dst, index } => match self.program.params.get(*index as usize) {
                Some(Param { source: ParamSource::Tensor(_), .. }) => Err(LaneProblem::TensorAsValue { index: *index }),
                Some(p) => self.def(*dst, p.ty, defined),
                None => Err(LaneProblem::NoSuch { what: "launch parameter", index: *index }),
            },
            Inst::Special { dst, .. } => self.def(*dst, LTy::I32, defined),
            Inst::SharedAddr { dst, alloc } => {
                if !self.program.allocs.is_valid(*alloc) {
                    return Err(LaneProblem::NoSuch { what: "allocation", index: alloc.index() as u32 });
                }
                self.def(*dst, LTy::I32, defined)
            }
            Inst::Un { dst, op, a } => {
                if *op == UnOp::RoundBf16 {
                    self.want(*a, LTy::F32)?;
                }
                let ty = self.number(*a, op.takes().classes())?;
                self.def(*dst, ty, defined)
            }
            Inst::Bin { dst, op, a, b } => {
                let ty = self.number(*a, op.takes().classes())?;
                self.want(*b, ty)?;
                self.def(*dst, ty, defined)
            }
            Inst::Fma { dst, a, b, c } => {
                let ty = self.number(*a, &[Class::Int, Class::Float])?;
                if matches!(ty, LTy::Num(Scalar::I8 | Scalar::I16)) {
                    return Err(LaneProblem::Type { value: *a, got: ty, want: "a float, i32 or i64".into() });
                }
                self.want_all(&[*b, *c], ty)?;
                self.def(*dst, ty, defined)
            }
            Inst::MadWide { dst, a, b, c } => {
                self.want_all(&[*a, *b], LTy::I32)?;
                self.want(*c, LTy::I64)?;
                self.def(*dst, LTy::I64, defined)
            }
            Inst::Cmp { dst, op, a, b } => {
                let classes: &[Class] = if op.is_unsigned() { &[Class::Int] } else { &[Class::Bool, Class::Int, Class::Float] };
                let ty = self.number(*a, classes)?;
                self.want(*b, ty)?;
                self.def(*dst, LTy::I1, defined)
            }
            Inst::Select { dst, c, a, b } => {
                self.want(*c, LTy::I1)?;
                let ty = self.operand(*a)?;
                self.want(*b, ty)?;
                self.def(*dst, ty, defined)
            }
            Inst::Cvt { dst, a } => {
                self.number(*a, &[Class::Bool, Class::Int, Class::Float])?;
                let ty = self.ty(*dst)?;
                if ty == LTy::B32 {
                    return Err(LaneProblem::Type { value: *dst, got: ty, want: "a number".into() });
                }
                self.def(*dst, ty, defined)
            }
            Inst::RoundTf32 { dst, a } => {
                self.want(*a, LTy::F32)?;
                self.def(*dst, LTy::F32, defined)
            }
            Inst::Bitcast { dst, a } => {
                let (from, to) = (self.operand(*a)?, self.ty(*dst)?);
                // An i1 has one bit as a value, whatever it takes in memory.
                let width = |t: LTy| match t {
                    LTy::Num(s) => s.bits(),
                    LTy::B32 => 32,
                };
                if width(from) != width(to) {
                    return Err(LaneProblem::Type { value: *dst, got: to, want: format!("a type of {} bits", width(from)) });
                }
                self.def(*dst, to, defined)
            }
            Inst::Pack { dst, parts } => {
                let ty = self.parts(parts)?;
                self.want_all(parts, ty)?;
                self.def(*dst, LTy::B32, defined)
            }
            Inst::Unpack { dsts, a } => {
                self.want(*a, LTy::B32)?;
                let ty = self.parts(dsts)?;
                self.def_all(dsts, ty, defined)
            }
            Inst::Divide { dsts, a, b } => {
                if matches!(self.role, Some((_, true))) {
                    return Err(LaneProblem::SingleLane);
                }
                if dsts.is_empty() || a.len() != dsts.len() || b.len() != dsts.len() {
                    return Err(LaneProblem::Count { what: "quotients", got: dsts.len(), want: format!("{} and {}", a.len(), b.len()) });
                }
                self.want_all(a, LTy::F32)?;
                self.want_all(b, LTy::F32)?;
                self.def_all(dsts, LTy::F32, defined)
            }
            Inst::LoadGlobal { dsts, addr, guard, other, .. } => {
                self.access(*addr, LTy::I64, *guard)?;
                let ty = self.vector(dsts)?;
                if !other.is_empty() && other.len() != dsts.len() {
                    return Err(LaneProblem::Count { what: "other values", got: other.len(), want: format!("0 or {}", dsts.len()) });
                }
                self.want_all(other, ty)?;
                self.def_all(dsts, ty, defined)
            }
            Inst::StoreGlobal { srcs, addr, guard, .. } => {
                self.access(*addr, LTy::I64, *guard)?;
                let ty = self.vector(srcs)?;
                self.want_all(srcs, ty)
            }
            Inst::Prefetch { addr, guard, .. } => self.access(*addr, LTy::I64, *guard),
            Inst::Atomic(a) => self.atomic(a, defined),
            Inst::LoadShared { dsts, addr, .. } => {
                self.access(*addr, LTy::I32, None)?;
                let ty = self.vector(dsts)?;
                self.def_all(dsts, ty, defined)
            }
            Inst::StoreShared { srcs, addr, guard, .. } => {
                self.access(*addr, LTy::I32, *guard)?;
                let ty = self.vector(srcs)?;
                self.want_all(srcs, ty)
            }
            Inst::LoadMatrix { dsts, addr, .. } => {
                // The instruction deals 8 rows of 4 words to 32 lanes; no wider warp has it.
                if !self.target.load_matrix || self.target.lanes != 32 {
                    return Err(LaneProblem::NoLoadMatrix);
                }
                if ![1, 2, 4].contains(&dsts.len()) {
                    return Err(LaneProblem::Count { what: "matrices", got: dsts.len(), want: "1, 2 or 4".into() });
                }
                self.want(*addr, LTy::I32)?;
                self.def_all(dsts, LTy::B32, defined)
            }
            Inst::CopyAsync { shared, global, bytes, valid, .. } => {
                if ![4, 8, 16].contains(bytes) || !self.target.copy_async.contains(bytes) {
                    return Err(LaneProblem::CopySize { got: *bytes, offered: self.target.copy_async });
                }
                self.want(*shared, LTy::I32)?;
                self.access(*global, LTy::I64, *valid)
            }
            Inst::CommitCopies | Inst::WaitCopies { .. } | Inst::Barrier => Ok(()),
            Inst::Assert { condition } => self.want(*condition, LTy::I1),
            Inst::Shuffle { dst, a, from } => {
                let ty = self.operand(*a)?;
                if !matches!(ty, LTy::B32 | LTy::Num(Scalar::I32 | Scalar::F32)) {
                    return Err(LaneProblem::Type { value: *a, got: ty, want: "a type of 32 bits".into() });
                }
                match *from {
                    ShuffleFrom::Xor(mask) if mask >= self.target.lanes => {
                        return Err(LaneProblem::ShuffleMask { mask, lanes: self.target.lanes });
                    }
                    ShuffleFrom::Xor(_) => {}
                    ShuffleFrom::Lane(l) => self.want(l, LTy::I32)?,
                }
                self.def(*dst, ty, defined)
            }
            Inst::Matrix { dsts, instr, a, b, c } => {
                let Some(m) = self.target.matrix.get(instr.index()) else {
                    return Err(LaneProblem::NoMatrix(*instr));
                };
                let operands = [
                    ("values of A", &a[..], fragment_values(&m.a, m.operand)),
                    ("values of B", &b[..], fragment_values(&m.b, m.operand_b)),
                    ("values of C", &c[..], fragment_values(&m.d, m.acc)),
                ];
                for (what, vals, (want, ty)) in operands {
                    if vals.len() != want {
                        return Err(LaneProblem::Count { what, got: vals.len(), want: want.to_string() });
                    }
                    self.want_all(vals, ty)?;
                }
                let (want, ty) = operands[2].2;
                if dsts.len() != want {
                    return Err(LaneProblem::Count { what: "values of D", got: dsts.len(), want: want.to_string() });
                }
                self.def_all(dsts, ty, defined)
            }
            // Control has its own function; it has no operands of its own left to check.
            Inst::For(_) | Inst::While(_) | Inst::If(_) | Inst::Unit(_) | Inst::Roles(_) => Ok(()),
        }
    }
}
