//! The target table: everything the lowering knows of a machine, as data.
//!
//! A backend fills one [`Target`] per chip; the lowering asks what is offered (a matrix instruction for these types, asynchronous
//! copies, matrix loads), never who made the chip.

mod costs;
mod dies;
mod rates;
mod units;

pub use costs::Costs;
pub use dies::Dies;
pub use rates::Rates;
pub use units::{BulkTensor, GroupMatrix, GroupMatrixId, RegisterPool, Units};

use crate::op::UnOp;
use crate::value::LTy;
use cranelift_entity::entity_impl;
use tilelift_ir::layout::{BankModel, FragmentMap};
use tilelift_ir::{Precision, Scalar};

/// A matrix instruction of a target: an index into [`Target::matrix`]. Prints as `matrix2`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MatrixId(u32);
entity_impl!(MatrixId, "matrix");

/// A matrix instruction: `D[MxN] = A[MxK] * B[KxN] + C[MxN]`, spread over the lanes of a warp.
#[derive(Clone, Debug)]
pub struct MatrixInstr {
    /// The mnemonic.
    pub name: &'static str,
    /// M, N and K.
    pub shape: [u32; 3],
    /// Element type of A.
    pub operand: Scalar,
    /// Element type of B.
    pub operand_b: Scalar,
    /// Element type of C and D.
    pub acc: Scalar,
    /// How operands are rounded.
    pub precision: Precision,
    /// A over (m, k).
    pub a: FragmentMap,
    /// B over (k, n).
    pub b: FragmentMap,
    /// C and D over (m, n).
    pub d: FragmentMap,
    /// The instruction takes scales of `f8e8m0`, one for each 32 elements along K: those of A over (m, k / 32), those of B over (k / 32, n). A lane has one
    /// of each, in the low byte of a word.
    pub scales: Option<[FragmentMap; 2]>,
}

/// A machine.
#[derive(Clone, Debug)]
pub struct Target {
    /// Name, such as `sm_80`.
    pub name: &'static str,
    /// Lanes per warp.
    pub lanes: u32,
    /// Most warps of a program instance.
    pub max_warps: u32,
    /// Bytes of shared memory that a program instance may use.
    pub shared_bytes: u32,
    /// 32-bit registers that a lane may use.
    pub registers: u32,
    /// Those of them in which lanes compute: others hold what matrix instructions sum and multiply, and what memory instructions move as it is.
    pub computing: u32,
    /// Widest global or shared access of a lane, in bytes.
    pub vector_bytes: u32,
    /// Banks and phases of shared memory.
    pub banks: BankModel,
    /// Matrix instructions, preferred first.
    pub matrix: Vec<MatrixInstr>,
    /// Sizes in bytes of an asynchronous copy from global to shared memory; empty if there is none.
    pub copy_async: &'static [u32],
    /// True if the pieces that the lanes of a warp copy asynchronously lie side by side in shared memory, behind an address alike in all of them; false if each
    /// lane's lies anywhere.
    pub copies_in_rows: bool,
    /// Formats whose codes the machine converts from and to `f32` ([`crate::op::UnOp::EncodeE4M3`] and its siblings).
    pub code_casts: &'static [Scalar],
    /// True if the machine computes with two 16-bit floats of a word at once ([`crate::inst::Inst::FmaF16x2`], [`crate::inst::Inst::CvtF16x2`] and their
    /// siblings), and permutes the bytes of words ([`crate::inst::Inst::Permute`]).
    pub packed_halves: bool,
    /// True if the least and the greatest of the words that the lanes of a warp hold are one instruction ([`crate::inst::Inst::Redux`]).
    pub redux: bool,
    /// The optional operations ([`crate::op::UnOp::is_optional`]) that the machine has, with the types for which it does. What is missing is
    /// made of other operations.
    pub functions: &'static [(UnOp, Scalar)],
    /// The float types of which the machine has quotients ([`crate::op::BinOp::Div`], and [`crate::inst::Inst::Divide`] of `f32`), rounded to nearest.
    pub quotients: &'static [Scalar],
    /// True if the lesser and the greater of two `f32`, NaN if one of them is ([`crate::op::BinOp::Minimum`]), are one instruction.
    pub extremes: bool,
    /// True if [`crate::inst::Inst::LoadMatrix`] exists.
    pub load_matrix: bool,
    /// True if lanes whose guard does not hold are switched off by instructions around the guarded one; else that has the guard itself.
    pub masked_lanes: bool,
    /// True if the text goes through an assembler that orders instructions between two branches anew; else they run as they are written.
    pub orders_anew: bool,
    /// True if an access of global memory may be an offset of 32 bits from an address alike in all lanes, with bounds: what is outside reads zeros, and is
    /// not written.
    pub windows: bool,
    /// True if a launch may begin while the one in front of it ends ([`crate::unit::Unit::AwaitPrevious`]).
    pub early_launch: bool,
    /// Compute dies with caches of their own; `None` where all processors share one.
    pub dies: Option<Dies>,
    /// Instances begin in the order of their positions in the grid, as far as they do not fit the machine at once; what takes longest may begin first then.
    pub begins_in_order: bool,
    /// What the machine's work costs.
    pub costs: Costs,
    /// What whole products cost on the machine; `None` if nobody measured that.
    pub rates: Option<Rates>,
    /// Roles, mbarriers, bulk copies and matrix instructions of warpgroups; `None` if there are none.
    pub units: Option<Units>,
}

impl Target {
    /// The same chip with another number of multiprocessors, by which products are shared out.
    pub fn with_multiprocessors(mut self, n: u32) -> Target {
        if let Some(rates) = &mut self.rates {
            rates.multiprocessors = n.max(1);
        }
        self.costs.processors = u64::from(n.max(1));
        self
    }

    /// True if the machine has quotients of a type; all have those of integers.
    pub fn divides(&self, ty: LTy) -> bool {
        matches!(ty, LTy::Num(s) if !s.is_float() || self.quotients.contains(&s))
    }

    /// True if the machine has an operation for a type that takes it.
    pub fn has(&self, op: UnOp, ty: LTy) -> bool {
        !op.is_optional() || self.functions.iter().any(|&(o, s)| o == op && ty == LTy::Num(s))
    }

    /// True if lanes alone bring tiles to shared memory and fetch operands from there: no copy runs by itself to wherever it is to, and no matrix
    /// load transposes.
    pub fn moves_by_lanes(&self) -> bool {
        (self.copy_async.is_empty() || self.copies_in_rows) && !self.load_matrix
    }

    /// True if a lane may copy so many bytes by itself, to anywhere in shared memory.
    pub fn copies(&self, bytes: u32) -> bool {
        !self.copies_in_rows && self.copy_async.contains(&bytes)
    }

    /// The instructions that take factors of these types and sum in that one, first those that a product had rather: a sum may be kept wider than its
    /// type, every float of up to 8 bits with a fraction is a number of `f16`, every `i4` one of `i8`.
    pub fn matrices(&self, factors: [Scalar; 2], acc: Scalar, precision: Precision) -> impl Iterator<Item = usize> + '_ {
        let wider = (acc == Scalar::F16).then_some(Scalar::F32);
        let exact = match factors[0] {
            Scalar::I4 | Scalar::I8 => Some([Scalar::I8; 2]),
            s if s.is_narrow() => Some([Scalar::F16; 2]),
            _ => None,
        };
        let types = std::iter::once(factors).chain(exact).flat_map(move |f| std::iter::once(acc).chain(wider).map(move |c| (f, c)));
        types.flat_map(move |([a, b], c)| {
            let rows = self.matrix.iter().enumerate();
            let fits =
                move |x: &MatrixInstr| x.scales.is_none() && [x.operand, x.operand_b] == [a, b] && (x.acc, x.precision) == (c, precision);
            rows.filter(move |(_, x)| fits(x)).map(|(q, _)| q)
        })
    }

    /// The instructions that take factors of these types and scales of both.
    pub fn scaled_matrices(&self, factors: [Scalar; 2]) -> impl Iterator<Item = usize> + '_ {
        let rows = self.matrix.iter().enumerate();
        rows.filter(move |(_, x)| x.scales.is_some() && [x.operand, x.operand_b] == factors).map(|(q, _)| q)
    }

    /// The instruction behind an id.
    pub fn matrix_instr(&self, id: MatrixId) -> &MatrixInstr {
        &self.matrix[id.as_u32() as usize]
    }
}
