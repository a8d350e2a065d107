//! Facts through ops: one row per op.
//!
//! Operands that are equal along a dimension make results that are: ops compute bit for bit the same from the same. What else holds has to be
//! shown: sums of runs, quotients and remainders of runs from 0 on, comparisons that change only where blocks meet.

use super::info::{Along, Info, Residue, WHOLE, all_of};
use smallvec::SmallVec;
use tilelift_ir::multiples::{Known, low_zeros};
use tilelift_ir::{Attr, CmpOp, Inst, Kernel, Literal, Op, Type, Value, elementwise_ops};

/// What is known of the result of a pure op.
pub(super) fn by_op(kernel: &Kernel, i: Inst, to: Value, args: &[&Info]) -> Info {
    let o = Operation { kernel, i, ty: kernel.ty(to), args };
    let mut out = Info::unknown(o.ty);
    if matches!(o.ty, Type::Scalar(_) | Type::Tile(_)) {
        out.low = o.low();
        out.range = o.range();
        if let Some(along) = o.along() {
            out.along = along;
        }
    }
    out.settled(o.ty)
}

struct Operation<'a> {
    kernel: &'a Kernel,
    i: Inst,
    ty: &'a Type,
    args: &'a [&'a Info],
}

impl Operation<'_> {
    fn op(&self) -> Op {
        self.kernel.insts[self.i].op
    }

    fn attr(&self) -> Option<&Attr> {
        self.kernel.insts[self.i].attrs.first()
    }

    fn operand(&self, k: usize) -> &Type {
        self.kernel.ty(self.kernel.insts[self.i].args[k])
    }

    fn shape(&self, k: usize) -> &[u32] {
        self.operand(k).shape().unwrap_or(&[])
    }

    fn to_shape(&self) -> &[u32] {
        self.ty.shape().unwrap_or(&[])
    }

    /// The dimension that the instruction names.
    fn axis(&self) -> Option<usize> {
        self.kernel.insts[self.i].attrs.iter().find_map(|a| if let Attr::Dim(d) = a { Some(*d as usize) } else { None })
    }

    /// Low bits of all numbers.
    fn low(&self) -> Residue {
        let Operation { kernel, i, ty, args } = *self;
        let known = |(&v, info): (&Value, &&Info)| Known { ty: kernel.ty(v), zeros: info.low.zeros(), value: info.exact() };
        let d = &kernel.insts[i];
        let operands: SmallVec<[Known<'_>; 4]> = d.args.iter().zip(args).map(known).collect();
        let zeros = Residue::multiple(low_zeros(d.op, &d.attrs, ty, &operands));
        let more = match (d.op, self.attr()) {
            (Op::Const, Some(Attr::Literal(Literal::Int(x)))) if ty.elem().is_int() => Residue::of(*x, ty.elem().bits()),
            (Op::Add, _) if ty.elem().is_int() => args[0].low.plus(args[1].low),
            (Op::Sub, _) if ty.elem().is_int() => args[0].low.minus(args[1].low),
            _ if self.renames() => args[0].low,
            _ => Residue::default(),
        };
        zeros.best(more)
    }

    /// True for ops whose results hold the numbers of their operand, and no others.
    fn renames(&self) -> bool {
        let renames = [Op::Splat, Op::Broadcast, Op::Reshape, Op::Transpose, Op::Slice, Op::Flip, Op::Split, Op::Assume];
        renames.contains(&self.op()) || matches!(self.op(), Op::RequireLayout | Op::ReleaseLayout)
    }

    /// Bounds of all numbers, read signed.
    fn range(&self) -> [i64; 2] {
        let all = all_of(self.ty.elem());
        let of = |k: usize| self.args[k].range;
        let within = |lo: i128, hi: i128| match (i64::try_from(lo), i64::try_from(hi)) {
            (Ok(lo), Ok(hi)) if lo >= all[0] && hi <= all[1] => [lo, hi],
            _ => all,
        };
        let int = self.ty.elem().is_int();
        let positive = |k: usize| self.args.get(k).is_some_and(|a| a.range[0] >= 0);
        let wide = |x: i64| i128::from(x);
        match (self.op(), self.attr()) {
            (Op::Const, Some(Attr::Literal(Literal::Int(x)))) => [*x, *x],
            (Op::ProgramId | Op::NumPrograms | Op::Dim, _) => within(0, i128::from(i32::MAX)),
            (Op::Iota, _) => within(0, self.to_shape().iter().max().map_or(0, |&e| i128::from(e) - 1)),
            (Op::Add, _) if int => within(wide(of(0)[0]) + wide(of(1)[0]), wide(of(0)[1]) + wide(of(1)[1])),
            (Op::Sub, _) if int => within(wide(of(0)[0]) - wide(of(1)[1]), wide(of(0)[1]) - wide(of(1)[0])),
            (Op::Neg, _) if int => within(-wide(of(0)[1]), -wide(of(0)[0])),
            (Op::Mul, _) if int => {
                let corner = |x: usize, y: usize| wide(of(0)[x]).saturating_mul(wide(of(1)[y]));
                let corners = [corner(0, 0), corner(0, 1), corner(1, 0), corner(1, 1)];
                within(corners.into_iter().fold(i128::MAX, i128::min), corners.into_iter().fold(i128::MIN, i128::max))
            }
            (Op::Minimum, _) if int => [of(0)[0].min(of(1)[0]), of(0)[1].min(of(1)[1])],
            (Op::Maximum, _) if int => [of(0)[0].max(of(1)[0]), of(0)[1].max(of(1)[1])],
            (Op::Div | Op::DivU, _) if int && positive(0) && positive(1) => [0, of(0)[1]],
            (Op::Rem, _) if int && positive(0) => [0, of(0)[1]],
            (Op::RemU, _) if int && positive(0) && positive(1) => [0, of(0)[1]],
            (Op::ShrS | Op::ShrU, _) if positive(0) => [0, of(0)[1]],
            (Op::And, _) if int && positive(0) => [0, of(0)[1]],
            (Op::And, _) if int && positive(1) => [0, of(1)[1]],
            (Op::Select, _) => [of(1)[0].min(of(2)[0]), of(1)[1].max(of(2)[1])],
            (Op::Concat | Op::Join, _) => [of(0)[0].min(of(1)[0]), of(0)[1].max(of(1)[1])],
            (Op::Cast, _) if int && (self.operand(0).elem().is_int() || self.operand(0).elem().bits() == 1) => {
                within(wide(of(0)[0]), wide(of(0)[1]))
            }
            _ if self.renames() => of(0),
            _ => all,
        }
    }

    /// Each dimension of the result; none if nothing is known of them.
    fn along(&self) -> Option<SmallVec<[Along; 4]>> {
        let rank = self.to_shape().len();
        let each = |f: &dyn Fn(usize) -> Along| Some((0..rank).map(f).collect());
        let axis = self.axis();
        match self.op() {
            Op::Splat => each(&|_| Along { equal: WHOLE, ..Along::default() }),
            Op::Iota => each(&|d| match Some(d) == axis {
                true => Along { run: WHOLE, start: Residue::multiple(self.ty.elem().bits() as u8 - 1), ..Along::default() },
                false => Along { equal: WHOLE, ..Along::default() },
            }),
            Op::Bitcast if self.shape(0) != self.to_shape() => None,
            elementwise_ops!() => each(&|d| self.elementwise(d)),
            Op::Broadcast => each(&|d| match self.shape(0)[d] == self.to_shape()[d] {
                true => self.kept(0, d),
                false => Along { equal: WHOLE, ..Along::default() },
            }),
            Op::Reshape => each(&|d| self.reshaped(d)),
            Op::Transpose => match self.attr() {
                Some(Attr::Perm(p)) => each(&|d| self.kept(0, p[d] as usize)),
                _ => None,
            },
            Op::RequireLayout | Op::ReleaseLayout => each(&|d| self.kept(0, d)),
            Op::Join => each(&|d| if d + 1 < rank { self.both(d, d, WHOLE) } else { Along::default() }),
            Op::Split => each(&|d| self.kept(0, d)),
            Op::Concat => each(&|d| {
                let seam = if Some(d) == axis { self.shape(0)[d].trailing_zeros() as u8 } else { WHOLE };
                self.both(d, d, seam)
            }),
            Op::Slice => match self.attr() {
                Some(Attr::Offsets(at)) => each(&|d| self.sliced(d, at[d])),
                _ => None,
            },
            Op::Flip => each(&|d| match Some(d) == axis {
                true => Along { equal: self.args[0].equal(d).min(self.whole_blocks(d)), ..Along::default() },
                false => self.kept(0, d),
            }),
            // A fixed tree of equal elements.
            Op::Reduce => each(&|d| Along { equal: self.args[0].equal(d + usize::from(axis.is_some_and(|a| d >= a))), ..Along::default() }),
            Op::Scan | Op::ScanReverse => {
                each(&|d| Along { equal: if Some(d) == axis { 0 } else { self.args[0].equal(d) }, ..Along::default() })
            }
            _ => None,
        }
    }

    fn kept(&self, k: usize, d: usize) -> Along {
        self.args[k].along.get(d).copied().unwrap_or_default()
    }

    /// Blocks of which a dimension of the operand holds no part: all are, where one holds the whole dimension.
    fn whole_blocks(&self, d: usize) -> u8 {
        if self.args[0].equal(d) == WHOLE { WHOLE } else { self.shape(0)[d].trailing_zeros() as u8 }
    }

    /// What both operands do, in blocks up to `most`.
    fn both(&self, x: usize, y: usize, most: u8) -> Along {
        let (a, b) = (self.args[0], self.args[1]);
        let run = a.run(x).min(b.run(y)).min(most);
        Along { equal: a.equal(x).min(b.equal(y)).min(most), run, start: a.start(x, run).meet(b.start(y, run)) }
    }

    /// A dimension that begins behind the operand's.
    fn sliced(&self, d: usize, at: u32) -> Along {
        let (a, from) = (self.args[0], at.trailing_zeros() as u8);
        let whole = |n: u8| if n == WHOLE { WHOLE } else { n.min(from) };
        let run = whole(a.run(d));
        let start = a.start(d, run);
        // Of one run over the dimension it is known where the part begins.
        let start = if run == WHOLE { start.plus(Residue::of(i64::from(at), u32::from(WHOLE))) } else { start };
        Along { equal: whole(a.equal(d)), run, start }
    }

    /// Extents of 1 come and go; the last dimensions share blocks that rows of both are made of.
    fn reshaped(&self, d: usize) -> Along {
        let (from, to, a) = (self.shape(0), self.to_shape(), self.args[0]);
        if to[d] == 1 {
            return Along::default();
        }
        // A tile of equal numbers is one in any shape.
        let same = (0..from.len()).all(|k| a.equal(k) == WHOLE);
        let real = |shape: &[u32]| (0..shape.len()).filter(|&k| shape[k] != 1).collect::<SmallVec<[usize; 4]>>();
        let (olds, news) = (real(from), real(to));
        let place = news.iter().position(|&k| k == d);
        let alike = olds.len() == news.len() && olds.iter().zip(&news).all(|(&x, &y)| from[x] == to[y]);
        match (place, olds.last(), news.last()) {
            _ if same => Along { equal: WHOLE, ..Along::default() },
            (Some(n), ..) if alike => self.kept(0, olds[n]),
            (_, Some(&old), Some(&last)) if last == d => {
                let most = from[old].trailing_zeros().min(to[d].trailing_zeros()) as u8;
                let run = a.run(old).min(most);
                Along { equal: a.equal(old).min(most), run, start: a.start(old, run).upto(run) }
            }
            _ => Along::default(),
        }
    }

    fn elementwise(&self, d: usize) -> Along {
        let equal = self.args.iter().map(|a| a.equal(d)).fold(WHOLE, u8::min);
        let none = Along { equal, ..Along::default() };
        if self.op() == Op::Cmp {
            return Along { equal: equal.max(self.compared(d)), ..none };
        }
        if !self.ty.elem().is_int() {
            return none;
        }
        let blocks = |n: u8| Along { equal: equal.max(n), ..none };
        let run = |run: u8, start: Residue| Along { equal, run, start };
        match (self.op(), self.args) {
            (Op::Add, [a, b]) => {
                let n = a.run(d).min(b.equal(d)).max(a.equal(d).min(b.run(d)));
                run(n, a.start(d, n).plus(b.start(d, n)))
            }
            (Op::Sub, [a, b]) => {
                let n = a.run(d).min(b.equal(d));
                Along { equal: equal.max(a.run(d).min(b.run(d))), ..run(n, a.start(d, n).minus(b.start(d, n))) }
            }
            // Floors change at multiples of the divisor alone. Signed quotients are no floors below 0; where the divisor is 0 all are 0.
            (Op::DivU, [a, b]) => blocks(a.aligned(d).min(self.divides(b, d))),
            (Op::Div, [a, b]) if a.range[0] >= 0 => blocks(a.aligned(d).min(self.divides(b, d))),
            (Op::RemU, [a, b]) => self.remainders(d, a, b, equal),
            (Op::Rem, [a, b]) if a.range[0] >= 0 => self.remainders(d, a, b, equal),
            (Op::ShrS | Op::ShrU, [a, b]) => blocks(b.exact().map_or(0, |by| a.aligned(d).min(by.clamp(0, i64::from(WHOLE)) as u8))),
            (Op::And, [a, b]) => {
                let kept = |x: &Info, y: &Info, low: u8| x.aligned(d).min(y.equal(d)).min(low);
                let n = kept(a, b, b.low.ones()).max(kept(b, a, a.low.ones()));
                let cleared = kept(a, b, b.low.zeros()).max(kept(b, a, a.low.zeros()));
                Along { equal: equal.max(cleared), ..run(n, Residue::multiple(n)) }
            }
            // Bits meet none.
            (Op::Or | Op::Xor, [a, b]) => {
                let n = a.aligned(d).min(self.divides(b, d)).max(b.aligned(d).min(self.divides(a, d)));
                run(n, Residue::multiple(n))
            }
            (Op::Minimum, [a, b]) if a.range[1] <= b.range[0] => self.kept(0, d),
            (Op::Minimum, [a, b]) if b.range[1] <= a.range[0] => self.kept(1, d),
            (Op::Maximum, [a, b]) if a.range[1] <= b.range[0] => self.kept(1, d),
            (Op::Maximum, [a, b]) if b.range[1] <= a.range[0] => self.kept(0, d),
            (Op::Select, [c, a, b]) => {
                let n = c.equal(d).min(a.run(d)).min(b.run(d));
                run(n, a.start(d, n).meet(b.start(d, n)))
            }
            (Op::Cast, [a]) if self.operand(0).elem().is_int() => {
                let (from, to) = (self.operand(0).elem().bits(), self.ty.elem().bits());
                // What wraps in the narrow type does not in the wide one.
                let n = if to > from { a.aligned(d).min(from as u8 - 1) } else { a.run(d) };
                run(n, a.start(d, n).upto(from.min(to) as u8 - 1))
            }
            _ => none,
        }
    }

    /// Blocks along a dimension in which numbers are one multiple of their length.
    fn divides(&self, b: &Info, d: usize) -> u8 {
        b.low.zeros().min(b.equal(d))
    }

    fn remainders(&self, d: usize, a: &Info, b: &Info, equal: u8) -> Along {
        let n = a.aligned(d).min(self.divides(b, d));
        Along { equal, run: n, start: Residue::multiple(n) }
    }

    /// Blocks in which a comparison has one answer.
    fn compared(&self, d: usize) -> u8 {
        let (Some(Attr::Cmp(op)), [a, b]) = (self.attr(), self.args) else { return 0 };
        let elem = self.operand(0).elem();
        if !elem.is_int() {
            return 0;
        }
        if decided(*op, a.range, b.range) {
            return WHOLE;
        }
        let (x, y) = (a.aligned(d), b.aligned(d));
        // Multiples of a block's length, and the numbers in front of them, have whole blocks on either side.
        let below = |x: u8, y: &Info| x.min(y.equal(d)).min(y.low.zeros());
        let upto = |x: u8, y: &Info| x.min(y.equal(d)).min(y.low.ones());
        let beside = match op {
            CmpOp::Lt | CmpOp::Ge | CmpOp::Ult | CmpOp::Uge => below(x, b).max(upto(y, a)),
            CmpOp::Le | CmpOp::Gt | CmpOp::Ule | CmpOp::Ugt => upto(x, b).max(below(y, a)),
            CmpOp::Eq | CmpOp::Ne => 0,
        };
        // Two blocks are in one order as a whole.
        beside.max(x.min(y))
    }
}

/// True if bounds say how a comparison goes.
fn decided(op: CmpOp, [a_lo, a_hi]: [i64; 2], [b_lo, b_hi]: [i64; 2]) -> bool {
    let positive = a_lo >= 0 && b_lo >= 0;
    match op {
        CmpOp::Lt | CmpOp::Ge => a_hi < b_lo || a_lo >= b_hi,
        CmpOp::Le | CmpOp::Gt => a_hi <= b_lo || a_lo > b_hi,
        CmpOp::Ult | CmpOp::Uge => positive && (a_hi < b_lo || a_lo >= b_hi),
        CmpOp::Ule | CmpOp::Ugt => positive && (a_hi <= b_lo || a_lo > b_hi),
        CmpOp::Eq | CmpOp::Ne => a_hi < b_lo || b_hi < a_lo,
    }
}
