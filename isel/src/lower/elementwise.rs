//! Leaves and elementwise ops: once per register.

use super::location::{Tile, ValueLocation};
use super::shared::xor_map;
use super::{Lower, dies, functions, narrow};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::rc::Rc;
use tilelift_ir::layout::{Axis, Coord, Layout};
use tilelift_ir::{Attr, Inst, Literal, Op, Scalar, Type, Value, num};
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder, Param, ParamSource, Special, UnOp};
use tilelift_schedule::LowerError;

/// The bits of a literal of a type, as the lane IR keeps them.
fn literal_bits(l: Literal, ty: Scalar) -> u64 {
    match l {
        Literal::Int(i) => num::wrap(i, ty) as u64,
        // Codes of a byte are held as `i8`, whose bits are sign-extended.
        Literal::Float(bits) if ty.is_narrow() => num::wrap(num::to_bits(f64::from_bits(bits), ty) as i64, Scalar::I8) as u64,
        Literal::Float(bits) => num::to_bits(f64::from_bits(bits), ty),
    }
}

/// Quotients that are computed at once: enough that none waits for the other's steps.
const AT_ONCE: usize = 8;

/// Lane and warp parts of the coordinates of a layout, per dimension, with the bits they may set.
pub(crate) struct Coords {
    dims: Vec<(Option<LVal>, u32)>,
    /// The power of two part of each extent: bits below it combine by xor, odd digits above add.
    pow2: Vec<u32>,
}

impl Coords {
    pub fn new(b: &mut LaneBuilder, layout: &Layout) -> Coords {
        let lanes: Vec<Coord> = (0..layout.bits(Axis::Lane)).map(|i| layout.column(Axis::Lane, i)).collect();
        Coords::of_lanes(b, layout, &lanes)
    }

    /// Those of a layout whose lanes stand elsewhere: what each bit of a lane's number adds.
    pub fn of_lanes(b: &mut LaneBuilder, layout: &Layout, lanes: &[Coord]) -> Coords {
        let rank = layout.shape().len();
        let warps: Vec<Coord> = (0..layout.bits(Axis::Warp)).map(|i| layout.column(Axis::Warp, i)).collect();
        let lane = b.special(Special::Lane);
        let warp = b.special(Special::Warp);
        let dims = (0..rank)
            .map(|d| {
                let l: Vec<u32> = lanes.iter().map(|c| c[d]).collect();
                let w: Vec<u32> = warps.iter().map(|c| c[d]).collect();
                let mask = l.iter().chain(&w).fold(0, |m, c| m | c);
                let (l, w) = (xor_map(b, lane, &l), xor_map(b, warp, &w));
                let both = match (l, w) {
                    (Some(l), Some(w)) => Some(b.bin(BinOp::Xor, l, w)),
                    (l, w) => l.or(w),
                };
                (both, mask)
            })
            .collect();
        let pow2 = layout.shape().iter().map(|e| 1 << e.trailing_zeros()).collect();
        Coords { dims, pow2 }
    }

    /// Bits that lanes and warps may set along `d`.
    pub fn mask(&self, d: usize) -> u32 {
        self.dims[d].1
    }

    /// The lane part along `d` for a register at `c`, and the constant to add to it.
    pub fn split(&self, b: &mut LaneBuilder, d: usize, c: u32) -> (Option<LVal>, u32) {
        let (part, mask) = self.dims[d];
        let bits = c % self.pow2[d];
        let Some(v) = part else { return (None, c) };
        if bits & mask == 0 {
            return (part, c);
        }
        let flip = b.i32(i64::from(bits & mask));
        (Some(b.bin(BinOp::Xor, v, flip)), c - (bits & mask))
    }

    /// The first of `together` elements, a power of two, with which a register stands along `d`, as the constant to add to its lane part. Below the
    /// power of two of the extent, bits of lanes and bits of registers are different ones, so that no sum of them carries.
    pub fn first_of(&self, d: usize, rest: u32, together: u32) -> u32 {
        rest & !(together.min(self.pow2[d]) - 1)
    }

    /// The coordinate along `d`, as `i32`.
    pub fn at(&self, b: &mut LaneBuilder, d: usize, c: u32) -> LVal {
        let (part, rest) = self.split(b, d, c);
        match part {
            Some(v) => b.add_const(v, i64::from(rest)),
            None => b.i32(i64::from(rest)),
        }
    }
}

impl Lower<'_> {
    /// A scalar leaf.
    pub(super) fn leaf(&self, b: &mut LaneBuilder, i: Inst) -> LVal {
        let d = &self.kernel.insts[i];
        match (d.op, d.attrs.first()) {
            (Op::Const, Some(Attr::Literal(l))) => {
                let elem = self.kernel.ty(d.results[0]).elem();
                b.constant(LTy::holding(elem), literal_bits(*l, elem))
            }
            (Op::ProgramId | Op::NumPrograms, Some(Attr::Grid(g))) => {
                if d.op == Op::NumPrograms && self.is_persistent() {
                    return b.param(Param { ty: LTy::I32, source: ParamSource::Grid(*g) });
                }
                match (d.op, self.dies) {
                    (Op::ProgramId, Some(order)) => dies::position(b, order, *g),
                    (Op::ProgramId, None) => b.special(Special::ProgramId(*g)),
                    _ => b.special(Special::NumPrograms(*g)),
                }
            }
            (Op::Dim, Some(Attr::Dim(k))) => self.extent(b, d.args[0], *k as usize),
            // The verifier sees to the attributes.
            _ => b.i32(0),
        }
    }

    /// An iota or splat in a layout.
    pub(super) fn born(&mut self, b: &mut LaneBuilder, i: Inst, layout: &Rc<Layout>) -> Tile {
        let d = &self.kernel.insts[i];
        let n = layout.size(Axis::Reg);
        let regs = if d.op == Op::Iota {
            let dim = self.dim_attr(i);
            let elem = LTy::Num(self.kernel.ty(d.results[0]).elem());
            let coords = Coords::new(b, layout);
            (0..n)
                .map(|r| {
                    let c = coords.at(b, dim, layout.reg_coord(r)[dim]);
                    b.cvt(c, elem)
                })
                .collect()
        } else {
            let v = match &self.values[d.args[0]] {
                Some(ValueLocation::Scalar(v)) => *v,
                // The verifier sees to the operand's type.
                Some(ValueLocation::Tile(_) | ValueLocation::Staged(_) | ValueLocation::Local(_) | ValueLocation::Mbarriers(_)) | None => {
                    b.i32(0)
                }
            };
            vec![v; n as usize]
        };
        Tile { layout: layout.clone(), regs }
    }

    /// One elementwise instruction on the values of one lane.
    pub(super) fn element_op(&self, b: &mut LaneBuilder, i: Inst, args: &[LVal]) -> LVal {
        let d = &self.kernel.insts[i];
        let to = self.kernel.ty(d.results[0]).elem();
        if d.op == Op::Cast {
            return narrow::cast(b, args[0], self.kernel.ty(d.args[0]).elem(), to);
        }
        // Codes of `f4e2m1` have anything in the upper half of their byte, an `i4` has its sign there.
        if d.op == Op::Bitcast && to == Scalar::I4 {
            return super::packed::extended(b, args[0]);
        }
        scalar_op(b, d.op, &d.attrs, args, LTy::holding(to))
    }

    pub(super) fn elementwise(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let result = d.results[0];
        let kernel = self.kernel;
        if let Type::Scalar(_) = kernel.ty(result) {
            let args = d.args.iter().map(|&a| self.scalar(a)).collect::<Result<SmallVec<[LVal; 4]>, _>>()?;
            let v = self.element_op(b, i, &args);
            self.values[result] = Some(ValueLocation::Scalar(v));
            return Ok(());
        }
        if d.op == Op::Bitcast && kernel.ty(result).elem().is_packed() != kernel.ty(d.args[0]).elem().is_packed() {
            return self.bitcast_packed(b, i);
        }
        let layout = self.layout_of(result)?;
        enum Arg {
            One(LVal),
            Many(Rc<Tile>),
        }
        let mut args = Vec::new();
        for &a in &d.args {
            args.push(match kernel.ty(a) {
                Type::Scalar(_) => Arg::One(self.scalar(a)?),
                Type::Tile(_) | Type::View(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => {
                    Arg::Many(self.tile(b, a, &layout)?)
                }
            });
        }
        if let [x, y] = &args[..]
            && self.shares_checks(i)
        {
            let of = |a: &Arg, r: usize| match a {
                Arg::One(v) => *v,
                Arg::Many(t) => t.regs[r],
            };
            let pairs: Vec<(LVal, LVal)> = (0..layout.size(Axis::Reg) as usize).map(|r| (of(x, r), of(y, r))).collect();
            let divisors: BTreeSet<LVal> = pairs.iter().map(|p| p.1).collect();
            // Rows of one divisor are few numbers to divide by, and the assembler does the same for each.
            if divisors.len() > pairs.len() / 2 {
                let regs = pairs.chunks(AT_ONCE).flat_map(|part| b.divide(part).to_vec()).collect();
                self.set_tile(result, Tile { layout, regs });
                return Ok(());
            }
        }
        let mut operands = Vec::with_capacity(args.len());
        let mut regs: Vec<LVal> = (0..layout.size(Axis::Reg) as usize)
            .map(|r| {
                operands.clear();
                operands.extend(args.iter().map(|a| match a {
                    Arg::One(v) => *v,
                    Arg::Many(t) => t.regs[r],
                }));
                self.element_op(b, i, &operands)
            })
            .collect();
        let ty = LTy::holding(kernel.ty(result).elem());
        if ty.bits() == 16 && regs.len().is_multiple_of(2) && self.is_for_products(result) {
            // Here, and not where words are wanted: products may be waited for in between.
            for pair in regs.chunks_exact_mut(2) {
                let word = b.pack_computed(pair);
                pair.copy_from_slice(&b.unpack(word, ty));
            }
        }
        self.set_tile(result, Tile { layout, regs });
        Ok(())
    }

    /// True for quotients that share a check: lanes that multiply are few, and each quotient by itself is a branch, behind which all wait.
    fn shares_checks(&self, i: Inst) -> bool {
        let d = &self.kernel.insts[i];
        let single = self.kernel.ty(d.results[0]).elem() == Scalar::F32 && self.target.quotients.contains(&Scalar::F32);
        d.op == Op::Div && single && self.task.as_ref().is_some_and(|t| t.products)
    }

    /// True for a tile that is an operand A of asynchronous products, here or where a loop carries it, and nothing else.
    fn is_for_products(&self, v: Value) -> bool {
        let kernel = self.kernel;
        let users = &self.assigned.users[v];
        let takes = |i: Inst| match kernel.insts[i].op {
            Op::AsyncDot => kernel.insts[i].args[0] == v && !kernel.insts[i].args[1..].contains(&v),
            Op::Yield => true,
            _ => false,
        };
        !users.is_empty() && self.task.as_ref().is_some_and(|t| t.multiplies()) && users.iter().all(|&i| takes(i))
    }
}

impl Lower<'_> {
    /// Every lane checks the elements that it holds, all at once.
    pub(super) fn assert(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let condition = self.kernel.insts[i].args[0];
        let all = match self.kernel.ty(condition) {
            Type::Tile(_) => {
                let tile = self.own_tile(b, condition)?;
                tile.regs.iter().copied().reduce(|x, y| b.bin(BinOp::And, x, y))
            }
            Type::Scalar(_) | Type::View(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => Some(self.scalar(condition)?),
        };
        all.into_iter().for_each(|c| b.assert(c));
        Ok(())
    }
}

/// One elementwise op on the values of one lane.
pub(super) fn scalar_op(b: &mut LaneBuilder, op: Op, attrs: &[Attr], args: &[LVal], result: LTy) -> LVal {
    let bin = |b: &mut LaneBuilder, op: BinOp| b.bin(op, args[0], args[1]);
    let un = |b: &mut LaneBuilder, op: UnOp| b.un(op, args[0]);
    let elem = if let LTy::Num(s) = result { s } else { Scalar::F32 };
    match op {
        Op::Add => bin(b, BinOp::Add),
        Op::Sub => bin(b, BinOp::Sub),
        Op::Mul => bin(b, BinOp::Mul),
        Op::Div if elem.is_float() => functions::div(b, args[0], args[1], elem),
        Op::Div => bin(b, BinOp::Div),
        Op::Rem => bin(b, BinOp::Rem),
        Op::Minimum => bin(b, BinOp::Minimum),
        Op::Maximum => bin(b, BinOp::Maximum),
        Op::MinNum => bin(b, BinOp::MinNum),
        Op::MaxNum => bin(b, BinOp::MaxNum),
        Op::And => bin(b, BinOp::And),
        Op::Or => bin(b, BinOp::Or),
        Op::Xor => bin(b, BinOp::Xor),
        Op::Shl => bin(b, BinOp::Shl),
        Op::ShrS => bin(b, BinOp::ShrS),
        Op::ShrU => bin(b, BinOp::ShrU),
        Op::DivU => bin(b, BinOp::DivU),
        Op::RemU => bin(b, BinOp::RemU),
        Op::MulHi => bin(b, BinOp::MulHi),
        Op::MulHiU => bin(b, BinOp::MulHiU),
        Op::MinimumU => bin(b, BinOp::MinimumU),
        Op::MaximumU => bin(b, BinOp::MaximumU),
        Op::Popcount => un(b, UnOp::Popcount),
        Op::Clz => un(b, UnOp::Clz),
        Op::Rcp => functions::rcp(b, args[0], elem),
        Op::Sin => functions::sine(b, args[0], elem, false),
        Op::Cos => functions::sine(b, args[0], elem, true),
        Op::Erf => functions::erf(b, args[0], elem),
        Op::Round => un(b, UnOp::Round),
        Op::Trunc => un(b, UnOp::Trunc),
        Op::Fma => b.fma(args[0], args[1], args[2]),
        Op::Neg => un(b, UnOp::Neg),
        Op::Abs => un(b, UnOp::Abs),
        Op::Not => un(b, UnOp::Not),
        Op::Exp => functions::exp(b, args[0], elem),
        Op::Exp2 => functions::exp2(b, args[0], elem),
        Op::Log => functions::log(b, args[0], elem),
        Op::Log2 => functions::log2(b, args[0], elem),
        Op::Sqrt => functions::sqrt(b, args[0], elem),
        Op::Rsqrt => functions::rsqrt(b, args[0], elem),
        Op::Atan2 => functions::atan2(b, args[0], args[1], elem),
        Op::Tanh => functions::tanh(b, args[0], elem),
        Op::Floor => un(b, UnOp::Floor),
        Op::Ceil => un(b, UnOp::Ceil),
        Op::Cmp => match attrs.first() {
            Some(Attr::Cmp(c)) => b.cmp(*c, args[0], args[1]),
            // The verifier sees to the attribute.
            _ => args[0],
        },
        Op::Select => b.select(args[0], args[1], args[2]),
        Op::Cast => b.cvt(args[0], result),
        Op::Bitcast => b.bitcast(args[0], result),
        // Not elementwise; the caller asks for others only.
        Op::Const
        | Op::ProgramId
        | Op::NumPrograms
        | Op::Dim
        | Op::Iota
        | Op::Splat
        | Op::Broadcast
        | Op::Reshape
        | Op::Transpose
        | Op::Join
        | Op::Split
        | Op::Concat
        | Op::Slice
        | Op::Flip
        | Op::Scan
        | Op::ScanReverse
        | Op::ArgMin
        | Op::ArgMax
        | Op::ReduceBy
        | Op::ScanBy
        | Op::ScanReverseBy
        | Op::Philox
        | Op::Assume
        | Op::RequireLayout
        | Op::ReleaseLayout
        | Op::Assert
        | Op::Print
        | Op::Reduce
        | Op::Dot
        | Op::DotScaled
        | Op::Load
        | Op::Store
        | Op::Prefetch
        | Op::Gather
        | Op::Scatter
        | Op::Atomic
        | Op::AtomicCas
        | tilelift_ir::explicit_ops!()
        | Op::GatherTile
        | Op::Histogram
        | Op::Sort
        | Op::ArgSort
        | Op::TopK
        | Op::ArgTopK
        | Op::For
        | Op::While
        | Op::If
        | Op::Yield => args[0],
    }
}
