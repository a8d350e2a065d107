//! The invariants of a lane program, checked.
//!
//! ```text
//! frame   warps and lanes fit the target, allocations lie inside the shared memory, parameters have the types of what they carry
//! values  one definition each, defined before use in the same or an enclosing block
//! insts   operand and result types as the table has them, vector widths, fragment sizes, and only what the target offers
//! ```
//!
//! The interpreter and the backends rely on these and don't repeat them.

mod checks;
mod error;
#[cfg(test)]
mod tests;
mod units;

pub use error::{LaneProblem, LaneVerifyError};

use super::frame::{Param, ParamSource};
use super::inst::{Block, Inst, MatrixProduct};
use super::launch_order::in_order;
use super::op::{BinOp, Takes};
use super::print::inst_text;
use super::program::Program;
use super::table::Kind;
use super::value::{Carried, LTy, LVal, ShuffleFrom};
use crate::machine::Target;
use crate::verify::checks::{Check, State, Typing, Verifier, fragment_values, other_type};
use cranelift_entity::EntityRef;
use tilelift_ir::Scalar;

/// Checks a program for a target.
///
/// # Errors
/// The first broken invariant in program order; the frame comes first.
pub fn verify(program: &Program, target: &Target) -> Result<(), LaneVerifyError> {
    frame(program, target).map_err(|problem| LaneVerifyError { inst: None, problem })?;
    units::last(program).map_err(|problem| LaneVerifyError { inst: None, problem })?;
    let state = vec![State::Undefined; program.vals.len()];
    let types = program.vals.values().as_slice();
    let mut v = Verifier { program, target, types, state, defined: Vec::with_capacity(program.vals.len()), role: None };
    v.block(&program.body)?;
    units::registers(program, target).map_err(|problem| LaneVerifyError { inst: None, problem })
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
    fn block(&mut self, insts: &Block) -> Result<(), LaneVerifyError> {
        insts.iter().try_for_each(|inst| self.inst(inst))
    }

    /// Ends the scope of what was defined since there were so many values.
    fn end(&mut self, first: usize) {
        for v in self.defined.drain(first..) {
            self.state[v.index()] = State::Gone;
        }
    }

    fn inst(&mut self, inst: &Inst) -> Result<(), LaneVerifyError> {
        let program = self.program;
        let at = |problem| LaneVerifyError { inst: Some(inst_text(program, inst)), problem };
        let first = self.defined.len();
        match inst {
            Inst::For(l) => {
                self.ints(&[l.lo, l.hi, l.step]).map_err(at)?;
                let ty = self.ty(l.lo).map_err(at)?;
                self.def(l.iv, ty).map_err(at)?;
                self.enter(&l.carried).map_err(at)?;
                self.block(&l.body)?;
                self.leave(&l.carried, first).map_err(at)?;
            }
            Inst::While(l) => {
                self.enter(&l.carried).map_err(at)?;
                self.block(&l.test)?;
                self.want(l.condition, LTy::I1).map_err(at)?;
                self.block(&l.body)?;
                self.leave(&l.carried, first).map_err(at)?;
            }
            Inst::If(c) => {
                self.want(c.condition, LTy::I1).map_err(at)?;
                self.block(&c.then)?;
                c.results.iter().try_for_each(|&(r, a, _)| self.want_as(a, r)).map_err(at)?;
                self.end(first);
                self.block(&c.otherwise)?;
                c.results.iter().try_for_each(|&(r, _, b)| self.want_as(b, r)).map_err(at)?;
                self.end(first);
                c.results.iter().try_for_each(|&(r, ..)| self.made(&[r])).map_err(at)?;
            }
            Inst::Roles(r) => units::roles(self, inst, r)?,
            Inst::Unit(u) => units::unit(self, u).map_err(at)?,
            _ => self.simple(inst).map_err(at)?,
        }
        Ok(())
    }

    /// Initial values and parameters of a loop.
    fn enter(&mut self, carried: &[Carried]) -> Check {
        carried.iter().try_for_each(|c| self.want_as(c.init, c.param))?;
        carried.iter().try_for_each(|c| self.made(&[c.param]))
    }

    /// Next values and results of a loop; ends the scope of the body.
    fn leave(&mut self, carried: &[Carried], first: usize) -> Check {
        carried.iter().try_for_each(|c| self.want_as(c.next, c.param))?;
        self.end(first);
        carried.iter().try_for_each(|c| {
            if self.types.get(c.result.index()) == self.types.get(c.param.index()) {
                self.made(&[c.result])
            } else {
                self.ty(c.param).and_then(|t| self.has_type(c.result, t))
            }
        })
    }

    /// The type of a value, defined or not.
    #[inline]
    fn ty(&self, v: LVal) -> Result<LTy, LaneProblem> {
        match self.types.get(v.index()) {
            Some(&ty) => Ok(ty),
            None => Err(LaneProblem::UnknownValue(v)),
        }
    }

    #[inline]
    fn in_scope(&self, v: LVal) -> bool {
        self.state.get(v.index()) == Some(&State::InScope)
    }

    /// The type of an operand.
    fn operand(&self, v: LVal) -> Result<LTy, LaneProblem> {
        let ty = self.ty(v)?;
        if self.in_scope(v) { Ok(ty) } else { Err(LaneProblem::NotInScope(v)) }
    }

    fn want(&self, v: LVal, want: LTy) -> Check {
        let got = self.operand(v)?;
        if got == want { Ok(()) } else { Err(other_type(v, got, want)) }
    }

    /// Integers of one type.
    fn ints(&self, vals: &[LVal]) -> Check {
        let mut t = Typing::new(self, Takes::Ints);
        t.field(vals, Kind::T, false);
        t.end()
    }

    /// A value of that type, defined or not.
    fn has_type(&self, v: LVal, want: LTy) -> Check {
        let got = self.ty(v)?;
        if got == want { Ok(()) } else { Err(other_type(v, got, want)) }
    }

    fn def(&mut self, v: LVal, want: LTy) -> Check {
        self.has_type(v, want)?;
        self.define(v, want)
    }

    /// Defines a value that has that type.
    #[inline]
    fn define(&mut self, v: LVal, ty: LTy) -> Check {
        if matches!(ty, LTy::Num(s) if s.is_narrow()) {
            return Err(other_type(v, ty, LTy::Num(Scalar::I8)));
        }
        let state = &mut self.state[v.index()];
        if *state != State::Undefined {
            return Err(LaneProblem::Redefined(v));
        }
        *state = State::InScope;
        self.defined.push(v);
        Ok(())
    }

    /// Defines what an instruction makes.
    fn made(&mut self, made: &[LVal]) -> Check {
        for &v in made {
            let ty = self.types.get(v.index()).filter(|ty| !matches!(ty, LTy::Num(s) if s.is_narrow()));
            match (ty, self.state.get_mut(v.index())) {
                (Some(_), Some(state @ State::Undefined)) => *state = State::InScope,
                _ => return self.ty(v).and_then(|ty| self.define(v, ty)),
            }
            self.defined.push(v);
        }
        Ok(())
    }

    /// An operand that has the type of another value. Reasons are put together where there are any.
    #[inline]
    fn want_as(&self, v: LVal, like: LVal) -> Check {
        let got = self.types.get(v.index());
        if got.is_some() && got == self.types.get(like.index()) && self.in_scope(v) {
            Ok(())
        } else {
            self.ty(like).and_then(|want| self.want(v, want))
        }
    }

    fn divides(&self, ty: LTy) -> Check {
        if self.target.divides(ty) { Ok(()) } else { Err(LaneProblem::NoQuotient(ty)) }
    }

    /// How many values make up a word: two of 16 bits or four of 8.
    fn parts(&self, vals: &[LVal]) -> Check {
        let want = match vals.first() {
            Some(&v) => (32 / self.ty(v)?.bits().max(1)) as usize,
            None => 2,
        };
        if vals.len() == want { Ok(()) } else { Err(LaneProblem::Count { what: "parts", got: vals.len(), want: want.to_string() }) }
    }

    /// An instruction without blocks: its types are those of the table; then what the table can't say.
    fn simple(&mut self, inst: &Inst) -> Check {
        let mut t = Typing::new(self, inst.takes());
        inst.typed(|vals, kind, made| t.field(vals, kind, made));
        t.end()?;
        self.shape(inst)?;
        self.made(inst.results())
    }

    /// Counts, widths, relations between types, and what the target offers.
    fn shape(&self, inst: &Inst) -> Check {
        match inst {
            Inst::Param { dst, index } => match self.program.params.get(*index as usize) {
                Some(Param { source: ParamSource::Tensor(_), .. }) => Err(LaneProblem::TensorAsValue { index: *index }),
                Some(p) => self.has_type(*dst, p.ty),
                None => Err(LaneProblem::NoSuch { what: "launch parameter", index: *index }),
            },
            Inst::SharedAddr { alloc, .. } if !self.program.allocs.is_valid(*alloc) => {
                Err(LaneProblem::NoSuch { what: "allocation", index: alloc.index() as u32 })
            }
            Inst::Un { dst, op, .. } => {
                let ty = self.ty(*dst)?;
                if self.target.has(*op, ty) { Ok(()) } else { Err(LaneProblem::NoFunction { op: *op, ty }) }
            }
            Inst::Bin { dst, op: BinOp::Div, .. } => self.divides(self.ty(*dst)?),
            Inst::Bitcast { dst, a } => {
                // An i1 has one bit as a value, whatever it takes in memory.
                let width = |t: LTy| match t {
                    LTy::Num(s) => s.bits(),
                    LTy::B32 => 32,
                };
                let (from, to) = (width(self.ty(*a)?), self.ty(*dst)?);
                if from == width(to) {
                    return Ok(());
                }
                Err(LaneProblem::Type { value: *dst, got: to, want: format!("a type of {from} bits") })
            }
            Inst::Pack { parts, .. } => self.parts(parts),
            Inst::Unpack { dsts, .. } => self.parts(dsts),
            Inst::Divide { .. } if matches!(self.role, Some((_, true))) => Err(LaneProblem::SingleLane),
            Inst::Divide { dsts, a, b } if dsts.is_empty() || a.len() != dsts.len() || b.len() != dsts.len() => {
                Err(LaneProblem::Count { what: "quotients", got: dsts.len(), want: format!("{} and {}", a.len(), b.len()) })
            }
            Inst::Divide { .. } => self.divides(LTy::F32),
            Inst::LoadGlobal { dsts, other, .. } => {
                self.vector(dsts)?;
                if !other.is_empty() && other.len() != dsts.len() {
                    return Err(LaneProblem::Count { what: "other values", got: other.len(), want: format!("0 or {}", dsts.len()) });
                }
                Ok(())
            }
            Inst::LoadShared { dsts, .. } => self.vector(dsts),
            Inst::StoreGlobal { srcs, .. } | Inst::StoreShared { srcs, .. } => self.vector(srcs),
            // The instruction deals 8 rows of 4 words to 32 lanes; no wider warp has it.
            Inst::LoadMatrix { .. } if !self.target.load_matrix || self.target.lanes != 32 => Err(LaneProblem::NoLoadMatrix),
            Inst::LoadMatrix { dsts, .. } if ![1, 2, 4].contains(&dsts.len()) => {
                Err(LaneProblem::Count { what: "matrices", got: dsts.len(), want: "1, 2 or 4".into() })
            }
            Inst::CopyAsync { bytes, .. } if ![4, 8, 16].contains(bytes) || !self.target.copy_async.contains(bytes) => {
                Err(LaneProblem::CopySize { got: *bytes, offered: self.target.copy_async })
            }
            Inst::Shuffle { from: ShuffleFrom::Xor(mask), .. } if *mask >= self.target.lanes => {
                Err(LaneProblem::ShuffleMask { mask: *mask, lanes: self.target.lanes })
            }
            Inst::Redux { op, .. } => match op {
                _ if !self.target.redux => Err(LaneProblem::NoRedux),
                BinOp::Minimum | BinOp::Maximum | BinOp::MinimumU | BinOp::MaximumU => Ok(()),
                _ => Err(LaneProblem::ReduxOp(*op)),
            },
            Inst::Matrix(product) => {
                let MatrixProduct { dsts, instr, a, b, c, scales } = &**product;
                let Some(m) = self.target.matrix.get(instr.index()) else {
                    return Err(LaneProblem::NoMatrix(*instr));
                };
                let acc = fragment_values(&m.d, m.acc);
                let operands = [
                    ("values of A", &a[..], fragment_values(&m.a, m.operand)),
                    ("values of B", &b[..], fragment_values(&m.b, m.operand_b)),
                    ("values of C", &c[..], acc),
                    ("values of D", &dsts[..], acc),
                    ("scales", &scales[..], (if m.scales.is_some() { 2 } else { 0 }, LTy::B32)),
                ];
                operands.into_iter().try_for_each(|(what, vals, (want, ty))| {
                    if vals.len() != want {
                        return Err(LaneProblem::Count { what, got: vals.len(), want: want.to_string() });
                    }
                    self.have_type(vals, ty)
                })
            }
            _ => Ok(()),
        }
    }
}
