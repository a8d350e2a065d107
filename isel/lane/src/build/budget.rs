//! How large a program may become. A tile op is as many lane instructions as a lane has elements, so a short text may mean gigabytes.
//!
//! ```text
//! units       16 per lane instruction, and more for one that becomes many of the machine; 1 per name of a register, and per question for an
//!             equal instruction
//! spent       nothing is added any more: every value that is asked for is the spare one of its type; whoever builds throws the program away
//! ```
//!
//! So memory is bounded wherever the growth happens, and no method of the builder has to be able to fail.

use super::super::{BinOp, Inst, LTy, LVal, UnOp};
use tilelift_ir::Scalar;

/// Units of an instruction.
const UNITS: u64 = 16;

/// Lane instructions of a program, as `weight` counts them, that nobody asked for.
pub const INSTRUCTIONS: u64 = 300_000;

/// What is left for a program to grow by.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Units asked for so far, and the most there may be.
    used: u64,
    limit: u64,
    /// A value per type that was asked for when nothing was left.
    spares: Vec<(LTy, LVal)>,
}

impl Budget {
    /// A budget of so many instructions.
    pub fn new(instructions: u64) -> Budget {
        Budget { used: 0, limit: instructions.saturating_mul(UNITS), spares: Vec::new() }
    }

    /// Takes what an instruction costs.
    pub fn take(&mut self, inst: &Inst, ty: LTy) {
        self.used = self.used.saturating_add(weight(inst, ty) * UNITS);
    }

    /// Takes what so many register names cost.
    pub fn take_names(&mut self, names: usize) {
        self.used = self.used.saturating_add(names as u64);
    }

    /// True if nothing is left.
    pub fn spent(&self) -> bool {
        self.used > self.limit
    }

    /// The instructions asked for so far, and how many there may be, if those are too many.
    pub fn exceeded(&self) -> Option<(u64, u64)> {
        self.spent().then_some((self.used.div_ceil(UNITS), self.limit / UNITS))
    }

    /// The spare value of a type.
    pub fn spare(&self, ty: LTy) -> Option<LVal> {
        self.spares.iter().find(|s| s.0 == ty).map(|s| s.1)
    }

    /// Says which value that is.
    pub fn set_spare(&mut self, ty: LTy, v: LVal) {
        self.spares.push((ty, v));
    }
}

/// What a lane instruction on values of a type counts for: 1 for itself, and 1 for about eight machine instructions that it becomes, since
/// those are text alone. Functions that no machine has are sequences of what it has.
pub fn weight(inst: &Inst, ty: LTy) -> u64 {
    match inst {
        Inst::Un { op, .. } => un_weight(*op, ty),
        Inst::Bin { op, .. } => bin_weight(*op, ty),
        Inst::Divide { dsts, .. } => 2 * dsts.len() as u64,
        Inst::Atomic(_) => 2,
        Inst::For(l) => 1 + l.carried.len() as u64,
        Inst::While(l) => 1 + l.carried.len() as u64,
        Inst::If(i) => 1 + i.results.len() as u64,
        _ => 1,
    }
}

/// What a one-operand operation counts for in the size of a program.
pub fn un_weight(op: UnOp, ty: LTy) -> u64 {
    let double = ty == LTy::Num(Scalar::F64);
    match op {
        UnOp::Sin | UnOp::Cos | UnOp::Erf => 9,
        UnOp::Exp | UnOp::Exp2 | UnOp::Log | UnOp::Log2 | UnOp::Tanh if double => 10,
        UnOp::Exp | UnOp::Exp2 | UnOp::Log | UnOp::Log2 | UnOp::Tanh => 4,
        UnOp::EncodeE4M3 | UnOp::EncodeE5M2 | UnOp::DecodeE4M3 | UnOp::DecodeE5M2 => 2,
        UnOp::Neg
        | UnOp::Abs
        | UnOp::Not
        | UnOp::Sqrt
        | UnOp::Rsqrt
        | UnOp::Floor
        | UnOp::Ceil
        | UnOp::Round
        | UnOp::Trunc
        | UnOp::Rcp
        | UnOp::Popcount
        | UnOp::Clz
        | UnOp::RoundBf16 => 1,
    }
}

/// What a two-operand operation counts for in the size of a program.
pub fn bin_weight(op: BinOp, ty: LTy) -> u64 {
    let wide = !matches!(ty, LTy::Num(Scalar::F32));
    match op {
        BinOp::Div | BinOp::Rem | BinOp::DivU | BinOp::RemU if wide => 3,
        _ => 1,
    }
}
