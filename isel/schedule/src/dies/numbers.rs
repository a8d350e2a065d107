//! Scalars of a kernel at a position of a grid, as far as they follow from the position, from extents and from parameters, which are given numbers
//! of some size. Loops stand at their first iteration.

use tilelift_ir::{Attr, CmpOp, GridAxis, Kernel, Literal, Op, Type, Value, ValueDef};
use tilelift_lane::hash::Map;

/// Definitions that one number is followed through.
const DEEP: u32 = 64;

/// A grid of some size.
pub(super) struct Sample {
    /// Positions along x, y and z.
    pub grid: [u64; 3],
    /// What extents and integer parameters are.
    pub extent: i64,
}

/// The number of a scalar at a position of a grid.
pub(super) fn number(kernel: &Kernel, v: Value, (at, sample): (&[u64; 3], &Sample), memo: &mut Map<Value, Option<i64>>) -> Option<i64> {
    Numbers { kernel, at, sample, memo }.of(v, DEEP)
}

struct Numbers<'a> {
    kernel: &'a Kernel,
    at: &'a [u64; 3],
    sample: &'a Sample,
    memo: &'a mut Map<Value, Option<i64>>,
}

const fn axis(a: GridAxis) -> usize {
    match a {
        GridAxis::X => 0,
        GridAxis::Y => 1,
        GridAxis::Z => 2,
    }
}

impl Numbers<'_> {
    fn of(&mut self, v: Value, deep: u32) -> Option<i64> {
        if let Some(&known) = self.memo.get(&v) {
            return known;
        }
        let found = deep.checked_sub(1).and_then(|deep| self.defined(v, deep));
        self.memo.insert(v, found);
        found
    }

    fn defined(&mut self, v: Value, deep: u32) -> Option<i64> {
        if !matches!(self.kernel.ty(v), Type::Scalar(s) if !s.is_float()) {
            return None;
        }
        match self.kernel.values[v].def {
            ValueDef::KernelParam(_) => Some(self.sample.extent),
            ValueDef::RegionParam(r, n) => {
                // The index of a loop, and what it carries, as it begins.
                let d = &self.kernel.insts[self.kernel.holder(r)?];
                let first = match (d.op, n) {
                    (Op::For, 0) => 0,
                    (Op::For, n) => n as usize + 2,
                    (Op::While, n) => n as usize,
                    _ => return None,
                };
                self.of(*d.args.get(first)?, deep)
            }
            ValueDef::Result(i, _) => {
                let d = &self.kernel.insts[i];
                match (d.op, d.attrs.first()) {
                    (Op::Const, Some(Attr::Literal(Literal::Int(c)))) => Some(*c),
                    (Op::ProgramId, Some(Attr::Grid(a))) => i64::try_from(self.at[axis(*a)]).ok(),
                    (Op::NumPrograms, Some(Attr::Grid(a))) => i64::try_from(self.sample.grid[axis(*a)]).ok(),
                    (Op::Dim, _) => Some(self.sample.extent),
                    (Op::Assume | Op::Cast, _) => self.of(*d.args.first()?, deep),
                    (Op::Select, _) => {
                        let &[c, a, b] = &d.args[..] else { return None };
                        let taken = if self.of(c, deep)? != 0 { a } else { b };
                        self.of(taken, deep)
                    }
                    (op, attr) => {
                        let &[a, b] = &d.args[..] else { return None };
                        let (a, b) = (self.of(a, deep)?, self.of(b, deep)?);
                        match attr {
                            Some(Attr::Cmp(how)) => Some(compared(*how, a, b).into()),
                            _ => computed(op, a, b),
                        }
                    }
                }
            }
        }
    }
}

/// What two numbers come to. No number of some size has its sign bit set, so that signed and unsigned are one.
fn computed(op: Op, a: i64, b: i64) -> Option<i64> {
    match op {
        Op::Add => a.checked_add(b),
        Op::Sub => a.checked_sub(b),
        Op::Mul => a.checked_mul(b),
        Op::Div | Op::DivU => Some(a.checked_div(b).unwrap_or(0)),
        Op::Rem | Op::RemU => Some(a.checked_rem(b).unwrap_or(a)),
        Op::Minimum | Op::MinimumU => Some(a.min(b)),
        Op::Maximum | Op::MaximumU => Some(a.max(b)),
        Op::And => Some(a & b),
        Op::Or => Some(a | b),
        Op::Xor => Some(a ^ b),
        Op::Shl => a.checked_mul(1i64.checked_shl(u32::try_from(b).ok()?)?),
        Op::ShrS | Op::ShrU => a.checked_shr(u32::try_from(b).ok()?),
        _ => None,
    }
}

fn compared(how: CmpOp, a: i64, b: i64) -> bool {
    match how {
        CmpOp::Eq => a == b,
        CmpOp::Ne => a != b,
        CmpOp::Lt | CmpOp::Ult => a < b,
        CmpOp::Le | CmpOp::Ule => a <= b,
        CmpOp::Gt | CmpOp::Ugt => a > b,
        CmpOp::Ge | CmpOp::Uge => a >= b,
    }
}
