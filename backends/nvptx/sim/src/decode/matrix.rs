//! Matrix instructions: mma.sync, ldmatrix, stmatrix, movmatrix.

use super::instr::Ix;
use super::names::Res;
use crate::program::op::{Mma, Op};
use crate::program::operand::{MmaTy, Reg};
use crate::types::{Space, Ty};
use smallvec::SmallVec;

/// Shapes that exist: (m, n, k, A type, registers of A, B, C/D for a 32-bit (or f64) accumulator).
/// PTX ISA 9.7.14.5, "Matrix fragments for mma".
const SHAPES: &[(u32, u32, u32, MmaTy, usize, usize, usize)] = &[
    (16, 8, 16, MmaTy::F16, 4, 2, 4),
    (16, 8, 8, MmaTy::F16, 2, 1, 4),
    (16, 8, 16, MmaTy::Bf16, 4, 2, 4),
    (16, 8, 8, MmaTy::Bf16, 2, 1, 4),
    (16, 8, 8, MmaTy::Tf32, 4, 2, 4),
    (16, 8, 4, MmaTy::Tf32, 2, 1, 4),
    (16, 8, 32, MmaTy::S8, 4, 2, 4),
    (16, 8, 16, MmaTy::S8, 2, 1, 4),
    (16, 8, 32, MmaTy::U8, 4, 2, 4),
    (16, 8, 16, MmaTy::U8, 2, 1, 4),
    (16, 8, 32, MmaTy::E4m3, 4, 2, 4),
    (16, 8, 32, MmaTy::E5m2, 4, 2, 4),
    (8, 8, 4, MmaTy::F64, 1, 1, 2),
];

pub(super) fn mma_ty(s: &str) -> Option<MmaTy> {
    Some(match s {
        "f16" => MmaTy::F16,
        "bf16" => MmaTy::Bf16,
        "tf32" => MmaTy::Tf32,
        "f64" => MmaTy::F64,
        "s8" => MmaTy::S8,
        "u8" => MmaTy::U8,
        "e4m3" => MmaTy::E4m3,
        "e5m2" => MmaTy::E5m2,
        _ => return None,
    })
}

impl Ix<'_, '_> {
    /// Decodes `name` if it belongs here.
    pub(super) fn matrix_op(&mut self, name: &str) -> Res<Option<Op>> {
        Ok(Some(match name {
            "mma" => self.mma()?,
            "ldmatrix" | "stmatrix" => {
                self.need("sync")?;
                self.need("aligned")?;
                self.need("m8n8")?;
                let n = self.take(|m| match m {
                    "x1" => Some(1),
                    "x2" => Some(2),
                    "x4" => Some(4),
                    _ => None,
                });
                let Some(n) = n else {
                    return self.err("`.x1`, `.x2` or `.x4` is required");
                };
                let trans = self.has("trans");
                if self.space()? != Space::Shared {
                    return self.err("`.shared` is required");
                }
                self.need("b16")?;
                self.n_ops(2, 2)?;
                if name == "ldmatrix" {
                    let d = self.vec_dst(0, Ty::B32, n, false)?;
                    Op::LdMatrix { addr: self.addr(1, Space::Shared)?, trans, d }
                } else {
                    let s = self.vec_src(1, Ty::B32, n, false)?;
                    Op::StMatrix { addr: self.addr(0, Space::Shared)?, trans, s }
                }
            }
            "movmatrix" => {
                for m in ["sync", "aligned", "m8n8", "trans", "b16"] {
                    self.need(m)?;
                }
                self.n_ops(2, 2)?;
                Op::MovMatrix { d: self.dst(0, Ty::B32)?, s: self.src(1, Ty::B32)? }
            }
            "wmma" | "tcgen05" => return self.err(format!("`{name}` is not modelled")),
            _ => return Ok(None),
        }))
    }

    fn mma(&mut self) -> Res<Op> {
        self.need("sync")?;
        self.need("aligned")?;
        let shape = self.take(|m| {
            let rest = m.strip_prefix('m')?;
            let (m_, rest) = rest.split_once('n')?;
            let (n_, k_) = rest.split_once('k')?;
            Some((m_.parse::<u32>().ok()?, n_.parse::<u32>().ok()?, k_.parse::<u32>().ok()?))
        });
        let Some((m, n, k)) = shape else {
            return self.err("a shape such as .m16n8k16 is required");
        };
        self.need("row")?;
        self.need("col")?;
        let sat = self.has("satfinite");
        let acc = self.ty()?;
        let (a, b) = (self.take(mma_ty), self.take(mma_ty));
        let (Some(a_ty), Some(b_ty)) = (a, b) else {
            return self.err("these operand types are not modelled");
        };
        let c_ty = self.ty()?;
        let int8 = |t| matches!(t, MmaTy::S8 | MmaTy::U8);
        let row = SHAPES.iter().find(|s| (s.0, s.1, s.2, s.3) == (m, n, k, a_ty));
        let Some(&(.., na, nb, nc)) = row else {
            return self.err("this shape and type is not modelled");
        };
        let float8 = |t| matches!(t, MmaTy::E4m3 | MmaTy::E5m2);
        if a_ty != b_ty && !(int8(a_ty) && int8(b_ty)) && !(float8(a_ty) && float8(b_ty)) {
            return self.err("A and B have different types");
        }
        let acc_ok = match a_ty {
            MmaTy::F16 => matches!(acc, Ty::F32 | Ty::F16),
            MmaTy::Bf16 | MmaTy::Tf32 | MmaTy::E4m3 | MmaTy::E5m2 => acc == Ty::F32,
            MmaTy::F64 => acc == Ty::F64,
            MmaTy::S8 | MmaTy::U8 => acc == Ty::S32,
        };
        if !acc_ok || c_ty != acc {
            return self.err("these accumulator types are not modelled");
        }
        if sat && acc != Ty::S32 {
            return self.err("`.satfinite` exists for integers only");
        }
        let (rt, nc) = if acc == Ty::F16 { (Ty::B32, nc / 2) } else { (acc, nc) };
        let at = if a_ty == MmaTy::F64 { Ty::F64 } else { Ty::B32 };
        self.n_ops(4, 4)?;
        let d = self.vec_dst(0, rt, nc, false)?;
        let a = self.vec_src(1, at, na, false)?;
        let b: SmallVec<[Reg; 2]> = self.vec_src(2, at, nb, false)?.into_iter().collect();
        let c = self.vec_src(3, rt, nc, false)?;
        Ok(Op::Mma(Box::new(Mma { m, k, a_ty, b_ty, acc, sat, d, a, b, c })))
    }
}
