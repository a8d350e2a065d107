//! Integers of 64 bits, in two registers, lower word first.

use super::error::{Computation, Reason};
use super::ops::{float_bin, float_un, word_un};
use super::selector::{Done, Home, Late, Selector, part};
use crate::chip::Chip;
use crate::isa::Opcode;
use crate::mir::{Mods, Operand, Span};
use tilelift_lane::{BinOp, LTy, LVal, UnOp};

impl Selector<'_> {
    pub(super) fn wide_un(&mut self, dst: LVal, op: UnOp, a: LVal) -> Done {
        let x = self.op(a);
        let [lo, hi] = [0, 1].map(|w| part(x, w));
        if self.in_scalars(dst) {
            match op {
                UnOp::Not => {
                    let to = self.def(dst);
                    self.salu(Opcode::SNotB64, Some(to), &[x]);
                    return Ok(());
                }
                UnOp::Neg => {
                    let to = self.def(dst);
                    self.salu(Opcode::SSubU32, Some(to.part(0, 1)), &[0.into(), lo]);
                    self.salu(Opcode::SSubbU32, Some(to.part(1, 1)), &[0.into(), hi]);
                    return Ok(());
                }
                UnOp::Popcount | UnOp::Clz => {
                    let n = if op == UnOp::Popcount {
                        self.s_of(Opcode::SBcnt1I32B64, &[x])
                    } else {
                        let n = self.s_of(Opcode::SFlbitI32B64, &[x]);
                        self.s_of(Opcode::SMinU32, &[n.into(), 64.into()])
                    };
                    let to = self.def(dst);
                    self.emit(Opcode::SMovB32, [to.part(0, 1).into(), n.into()]);
                    self.emit(Opcode::SMovB32, [to.part(1, 1).into(), 0.into()]);
                    return Ok(());
                }
                UnOp::Abs | float_un!() | word_un!() => {}
            }
        }
        self.compute(dst, |s, to| {
            let (to_lo, to_hi) = (to.part(0, 1), to.part(1, 1));
            match op {
                UnOp::Not => {
                    s.valu(Opcode::VNotB32, to_lo, &[lo]);
                    s.valu(Opcode::VNotB32, to_hi, &[hi]);
                }
                UnOp::Neg => s.minus(to, [0.into(), 0.into()], [lo, hi]),
                UnOp::Abs => {
                    let sign = Operand::Reg(s.v_of(Opcode::VAshrrevI32, &[31.into(), hi]));
                    let flipped = [lo, hi].map(|w| Operand::Reg(s.v_of(Opcode::VXorB32, &[w, sign])));
                    s.minus(to, flipped, [sign, sign]);
                }
                UnOp::Popcount => {
                    let n = s.v_of(Opcode::VBcntU32B32, &[lo, 0.into()]);
                    s.valu(Opcode::VBcntU32B32, to_lo, &[hi, n.into()]);
                    s.valu(Opcode::VMovB32, to_hi, &[0.into()]);
                }
                UnOp::Clz => {
                    let n = s.leading_zeros(lo, hi);
                    s.valu(Opcode::VMovB32, to_lo, &[n.into()]);
                    s.valu(Opcode::VMovB32, to_hi, &[0.into()]);
                }
                float_un!() | word_un!() => return Self::refuse(Computation::Un(op), LTy::I64, Reason::Type),
            }
            Ok(())
        })
    }

    /// Leading zeros of 64 bits.
    pub(super) fn leading_zeros(&mut self, lo: Operand, hi: Operand) -> Span {
        let low = self.v_of(Opcode::VFfbhU32, &[lo]);
        let low = self.v_of(Opcode::VMinU32, &[32.into(), low.into()]);
        let low = self.v_of(Opcode::VAddU32, &[32.into(), low.into()]);
        // All ones if there is no bit in the upper word.
        let high = self.v_of(Opcode::VFfbhU32, &[hi]);
        self.v_of(Opcode::VMinU32, &[high.into(), low.into()])
    }

    /// `a - b` of two words each. The results may stand where the operands stand.
    pub(super) fn minus(&mut self, to: Span, a: [Operand; 2], b: [Operand; 2]) {
        self.with_carry(Opcode::VSubCoU32, Opcode::VSubbCoU32, to, a, b);
    }

    /// `a + b` of two words each.
    pub(super) fn plus(&mut self, to: Span, a: [Operand; 2], b: [Operand; 2]) {
        self.with_carry(Opcode::VAddCoU32, Opcode::VAddcCoU32, to, a, b);
    }

    fn with_carry(&mut self, first: Opcode, second: Opcode, to: Span, a: [Operand; 2], b: [Operand; 2]) {
        let (carry, out) = (self.s2(), self.s2());
        self.valu_with(first, &[to.part(0, 1), carry], &[a[0], b[0]], Mods::default());
        self.valu_with(second, &[to.part(1, 1), out], &[a[1], b[1], carry.into()], Mods::default());
    }

    pub(super) fn wide_bin(&mut self, dst: LVal, op: BinOp, a: LVal, b: LVal) -> Done {
        match op {
            BinOp::Add if !self.in_scalars(dst) && self.late_of(a, b).is_some() => {
                let Some((left, other)) = self.late_of(a, b) else { return Ok(()) };
                let Some(Late::Product { word, by }) = self.late.remove(&left) else { return Ok(()) };
                let other = self.op(other);
                let to = self.def(dst);
                self.late_now(to, (word, by), other);
                Ok(())
            }
            BinOp::Mul if self.late_product(dst, a, b) => Ok(()),
            BinOp::Add => {
                let [x, y] = [self.op(a), self.op(b)];
                self.wide_sum(dst, x, y)
            }
            BinOp::Mul => {
                let product = self.wide_product(dst, a, b);
                self.is(dst, Home::Reg(product));
                Ok(())
            }
            _ if self.of_words(dst, op, a, b) => Ok(()),
            _ => self.wide_other(dst, op, a, b),
        }
    }

    /// Of two values the one that is made where it is read, as a product, and the other.
    fn late_of(&self, a: LVal, b: LVal) -> Option<(LVal, LVal)> {
        [(b, a), (a, b)].into_iter().find(|(late, other)| late != other && matches!(self.late.get(late), Some(Late::Product { .. })))
    }

    /// Makes what was left for later, plus something.
    pub(super) fn late_now(&mut self, to: Span, (word, by): (Operand, i32), other: Operand) {
        let carry = self.s2();
        self.valu_with(Opcode::VMadI64I32, &[to, carry], &[word, Operand::Imm(by.into()), other], Mods::default());
    }

    /// A word, its sign extended: left for later if it is read once.
    pub(super) fn late_word(&mut self, dst: LVal, word: Operand) -> bool {
        let late = !self.in_scalars(dst) && self.webs.place(dst).is_none() && self.live.read_once(dst) && self.stays(word);
        if late {
            self.late.insert(dst, Late::Product { word, by: 1 });
        }
        late
    }

    /// The product of such a value and a constant: left for later, too, or made with one instruction.
    fn late_product(&mut self, dst: LVal, a: LVal, b: LVal) -> bool {
        let late = match (self.late.get(&a), self.constant(b), self.late.get(&b), self.constant(a)) {
            (Some(&Late::Product { word, by: before }), Some(by), ..) | (_, _, Some(&Late::Product { word, by: before }), Some(by)) => {
                (word, i32::try_from(by as i64).ok().and_then(|by| before.checked_mul(by)))
            }
            _ => return false,
        };
        let (word, Some(by)) = late else { return false };
        self.late.remove(&a);
        self.late.remove(&b);
        if self.webs.place(dst).is_none() && self.live.read_once(dst) {
            self.late.insert(dst, Late::Product { word, by });
        } else {
            let to = self.def(dst);
            self.late_now(to, (word, by), 0.into());
        }
        true
    }

    /// A sum of two operands of two words.
    pub(super) fn wide_sum(&mut self, dst: LVal, x: Operand, y: Operand) -> Done {
        if self.in_scalars(dst) {
            let [x, y] = [x, y].map(|o| self.in_scalar(o, 2));
            let to = self.def(dst);
            self.salu(Opcode::SAddU32, Some(to.part(0, 1)), &[part(x, 0), part(y, 0)]);
            self.salu(Opcode::SAddcU32, Some(to.part(1, 1)), &[part(x, 1), part(y, 1)]);
            return Ok(());
        }
        let chip = self.chip;
        self.compute(dst, |s, to| {
            if chip == Chip::Gfx90a {
                s.plus(to, [part(x, 0), part(x, 1)], [part(y, 0), part(y, 1)]);
            } else {
                s.valu(Opcode::VLshlAddU64, to, &[x, 0.into(), y]);
            }
            Ok(())
        })
    }

    /// A product of two 64-bit values, in registers of the class of the value that it is for.
    pub(super) fn wide_product(&mut self, dst: LVal, a: LVal, b: LVal) -> Span {
        let (a, b) = if self.constant(a).is_some() { (b, a) } else { (a, b) };
        let by = self.constant(b);
        let (x, y) = (self.op(a), self.op(b));
        if self.in_scalars(dst) {
            let to = self.s2();
            if let Some(k) = by.filter(|k| k.is_power_of_two()) {
                self.salu(Opcode::SLshlB64, Some(to), &[x, Operand::Imm(k.trailing_zeros().into())]);
                return to;
            }
            let [x, y] = [x, y].map(|o| self.in_scalar(o, 2));
            let mut high = self.s_of(Opcode::SMulHiU32, &[part(x, 0), part(y, 0)]);
            for factors in [[part(x, 0), part(y, 1)], [part(x, 1), part(y, 0)]] {
                if !factors.contains(&Operand::Imm(0)) {
                    let cross = self.s_of(Opcode::SMulI32, &factors);
                    high = self.s_of(Opcode::SAddU32, &[high.into(), cross.into()]);
                }
            }
            self.emit(Opcode::SMovB32, [to.part(1, 1).into(), high.into()]);
            self.salu(Opcode::SMulI32, Some(to.part(0, 1)), &[part(x, 0), part(y, 0)]);
            return to;
        }
        if let Some(k) = by.filter(|k| k.is_power_of_two()) {
            return self.v2_of(Opcode::VLshlrevB64, &[Operand::Imm(k.trailing_zeros().into()), x]);
        }
        let product = self.mad_u32(part(x, 0), part(y, 0), 0.into());
        let one = self.v_of(Opcode::VMulLoU32, &[part(x, 0), part(y, 1)]);
        let other = self.v_of(Opcode::VMulLoU32, &[part(x, 1), part(y, 0)]);
        let to = self.vs(2);
        self.valu(Opcode::VAdd3U32, to.part(1, 1), &[product.part(1, 1).into(), one.into(), other.into()]);
        self.valu(Opcode::VMovB32, to.part(0, 1), &[product.part(0, 1).into()]);
        to
    }

    /// `a * b + c` of unsigned words and 64 bits.
    pub(super) fn mad_u32(&mut self, a: Operand, b: Operand, c: Operand) -> Span {
        let (to, carry) = (self.vs(2), self.s2());
        self.valu_with(Opcode::VMadU64U32, &[to, carry], &[a, b, c], Mods::default());
        to
    }

    /// `a * b + c` of words and 64 bits.
    pub(super) fn mad_wide(&mut self, dst: LVal, a: LVal, b: LVal, c: LVal, signed: bool) -> Done {
        let (a, b) = if self.constant(a).is_some() { (b, a) } else { (a, b) };
        let (x, y, z) = (self.op(a), self.op(b), self.op(c));
        if self.in_scalars(dst) {
            let [x, y] = [x, y].map(|o| self.in_scalar(o, 1));
            let z = self.in_scalar(z, 2);
            if y == Operand::Imm(1) && !signed {
                let to = self.def(dst);
                self.salu(Opcode::SAddU32, Some(to.part(0, 1)), &[part(z, 0), x]);
                self.salu(Opcode::SAddcU32, Some(to.part(1, 1)), &[part(z, 1), 0.into()]);
                return Ok(());
            }
            let [low, high] = self.product([a, b], [x, y], signed);
            let to = self.def(dst);
            self.salu(Opcode::SAddU32, Some(to.part(0, 1)), &[low.into(), part(z, 0)]);
            self.salu(Opcode::SAddcU32, Some(to.part(1, 1)), &[high.into(), part(z, 1)]);
            return Ok(());
        }
        let op = if signed { Opcode::VMadI64I32 } else { Opcode::VMadU64U32 };
        self.compute(dst, |s, to| {
            let carry = s.s2();
            s.valu_with(op, &[to, carry], &[x, y, z], Mods::default());
            Ok(())
        })
    }

    fn wide_other(&mut self, dst: LVal, op: BinOp, a: LVal, b: LVal) -> Done {
        let by = self.constant(b);
        let (x, y) = (self.op(a), self.op(b));
        let (xs, ys) = ([part(x, 0), part(x, 1)], [part(y, 0), part(y, 1)]);
        if self.in_scalars(dst) {
            let code = match (op, by) {
                (BinOp::And, _) => Some((Opcode::SAndB64, y)),
                (BinOp::Or, _) => Some((Opcode::SOrB64, y)),
                (BinOp::Xor, _) => Some((Opcode::SXorB64, y)),
                (BinOp::Shl, Some(0..64)) => Some((Opcode::SLshlB64, ys[0])),
                (BinOp::ShrU, Some(0..64)) => Some((Opcode::SLshrB64, ys[0])),
                (BinOp::ShrS, Some(0..64)) => Some((Opcode::SAshrI64, ys[0])),
                _ => None,
            };
            if let Some((code, y)) = code {
                let to = self.def(dst);
                self.salu(code, Some(to), &[x, y]);
                return Ok(());
            }
            if op == BinOp::Sub {
                let to = self.def(dst);
                self.salu(Opcode::SSubU32, Some(to.part(0, 1)), &[xs[0], ys[0]]);
                self.salu(Opcode::SSubbU32, Some(to.part(1, 1)), &[xs[1], ys[1]]);
                return Ok(());
            }
        }
        self.compute(dst, |s, to| {
            let words = [to.part(0, 1), to.part(1, 1)];
            let each = |s: &mut Self, code| {
                for w in 0..2 {
                    s.valu(code, words[w], &[ys[w], xs[w]]);
                }
            };
            match op {
                BinOp::And => each(s, Opcode::VAndB32),
                BinOp::Or => each(s, Opcode::VOrB32),
                BinOp::Xor => each(s, Opcode::VXorB32),
                BinOp::Sub => s.minus(to, xs, ys),
                BinOp::Minimum => s.wide_pick(to, Opcode::VCmpLtI64, x, y),
                BinOp::Maximum => s.wide_pick(to, Opcode::VCmpGtI64, x, y),
                BinOp::MinimumU => s.wide_pick(to, Opcode::VCmpLtU64, x, y),
                BinOp::MaximumU => s.wide_pick(to, Opcode::VCmpGtU64, x, y),
                BinOp::Shl | BinOp::ShrU | BinOp::ShrS => s.wide_shift(to, op, x, y, by),
                BinOp::MulHi | BinOp::MulHiU => s.wide_mul_hi(to, xs, ys, op == BinOp::MulHi),
                BinOp::Div | BinOp::Rem | BinOp::DivU | BinOp::RemU => s.wide_divide(to, xs, ys, op),
                BinOp::Add | BinOp::Mul | float_bin!() => {
                    return Self::refuse(Computation::Bin(op), LTy::I64, Reason::Type);
                }
            }
            Ok(())
        })
    }

    /// The first operand where the comparison holds, else the second.
    fn wide_pick(&mut self, to: Span, code: Opcode, x: Operand, y: Operand) {
        let c = self.mask_of(code, &[x, y]);
        for w in 0..2 {
            self.pick(to.part(w, 1), c, part(x, w), part(y, w));
        }
    }

    fn wide_shift(&mut self, to: Span, op: BinOp, x: Operand, y: Operand, by: Option<u64>) {
        let code = match op {
            BinOp::Shl => Opcode::VLshlrevB64,
            BinOp::ShrU => Opcode::VLshrrevB64,
            _ => Opcode::VAshrrevI64,
        };
        match (by, op) {
            (Some(k @ 0..64), _) => self.valu(code, to, &[Operand::Imm(k as i64), x]),
            (Some(_), BinOp::ShrS) => self.valu(code, to, &[63.into(), x]),
            (Some(_), _) => {
                for w in 0..2 {
                    self.valu(Opcode::VMovB32, to.part(w, 1), &[0.into()]);
                }
            }
            (None, _) => {
                let few = self.mask_of(Opcode::VCmpGtU64, &[64.into(), y]);
                if op == BinOp::ShrS {
                    let by = self.v();
                    self.pick(by, few, part(y, 0), 63.into());
                    return self.valu(code, to, &[by.into(), x]);
                }
                let t = self.v2_of(code, &[part(y, 0), x]);
                for w in 0..2 {
                    self.pick(to.part(w, 1), few, t.part(w, 1).into(), 0.into());
                }
            }
        }
    }

    /// A word as the lower one of two.
    fn low(&mut self, word: Operand) -> Operand {
        let pair = self.vs(2);
        self.valu(Opcode::VMovB32, pair.part(0, 1), &[word]);
        self.valu(Opcode::VMovB32, pair.part(1, 1), &[0.into()]);
        pair.into()
    }

    /// The upper 64 bits of the product.
    fn wide_mul_hi(&mut self, to: Span, x: [Operand; 2], y: [Operand; 2], signed: bool) {
        let lowest = self.mad_u32(x[0], y[0], 0.into());
        let carried = self.low(lowest.part(1, 1).into());
        let cross = self.mad_u32(x[0], y[1], carried);
        let low = self.low(cross.part(0, 1).into());
        let other = self.mad_u32(x[1], y[0], low);
        let sum = self.vs(2);
        let [a, b] = [cross, other].map(|c| c.part(1, 1).into());
        let a = self.low(a);
        let high = self.mad_u32(x[1], y[1], a);
        self.plus(sum, [high.part(0, 1).into(), high.part(1, 1).into()], [b, 0.into()]);
        let words = |s: Span| [Operand::Reg(s.part(0, 1)), Operand::Reg(s.part(1, 1))];
        if !signed {
            for w in 0..2 {
                self.valu(Opcode::VMovB32, to.part(w, 1), &[words(sum)[usize::from(w)]]);
            }
            return;
        }
        // A negative factor counts 2^64 too much.
        let mut left = sum;
        for (i, (factor, other)) in [(x, y), (y, x)].into_iter().enumerate() {
            let sign = self.v_of(Opcode::VAshrrevI32, &[31.into(), factor[1]]);
            let minus = other.map(|w| Operand::Reg(self.v_of(Opcode::VAndB32, &[w, sign.into()])));
            let next = if i == 1 { to } else { self.vs(2) };
            self.minus(next, words(left), minus);
            left = next;
        }
    }
}
