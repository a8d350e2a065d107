//! Bounds of loops as instructions in front of them.

use super::reach::{Bound, End, is_fixed};
use smallvec::SmallVec;
use tilelift_ir::{Attr, Inst, Kernel, Literal, Op, Region, Scalar, Type, Value};

impl Bound {
    /// Puts it to a loop; one round stays if there are any.
    pub(super) fn put(&self, kernel: &mut Kernel, region: Region, inst: Inst) {
        let mut put = Put { kernel, region, inst, ty: self.ty };
        let mut line: Option<Value> = None;
        for &(v, factor) in &self.line.terms {
            let v = put.there(v);
            let term = if factor == 1 { v } else { put.with(Op::Mul, v, factor) };
            line = Some(line.map_or(term, |l| put.op(Op::Add, &[l, term])));
        }
        let line = match line {
            Some(l) if self.line.number == 0 => l,
            Some(l) => put.with(Op::Add, l, self.line.number),
            None => put.number(self.line.number),
        };
        let line = if self.by == 1 { line } else { put.with(Op::Div, line, self.by) };
        let [lo, hi, step] = [0, 1, 2].map(|n| put.kernel.insts[inst].args[n]);
        match self.end {
            End::Last => {
                let first = put.with(Op::Add, lo, 1);
                let line = put.op(Op::Maximum, &[line, first]);
                let least = put.op(Op::Minimum, &[hi, line]);
                put.kernel.insts[inst].args[1] = least;
            }
            End::First => {
                // Whole steps from where it began: the first one that is not below the line.
                let [none, more] = [put.number(0), put.with(Op::Add, step, -1)];
                let mut rounds = |end: Value, less: i64| {
                    let span = put.op(Op::Sub, &[end, lo]);
                    let span = put.op(Op::Add, &[span, more]);
                    let rounds = put.op(Op::Div, &[span, step]);
                    let rounds = if less == 0 { rounds } else { put.with(Op::Sub, rounds, less) };
                    put.op(Op::Maximum, &[rounds, none])
                };
                let (gone, most) = (rounds(line, 0), rounds(hi, 1));
                let rounds = put.op(Op::Minimum, &[gone, most]);
                let span = put.op(Op::Mul, &[rounds, step]);
                let first = put.op(Op::Add, &[lo, span]);
                put.kernel.insts[inst].args[0] = first;
            }
        }
    }
}

/// A place in front of a loop.
struct Put<'k> {
    kernel: &'k mut Kernel,
    region: Region,
    inst: Inst,
    ty: Scalar,
}

impl Put<'_> {
    fn op(&mut self, op: Op, args: &[Value]) -> Value {
        scalar((self.kernel, self.region, self.inst), op, args, &[], self.ty)
    }

    fn number(&mut self, n: i64) -> Value {
        number((self.kernel, self.region, self.inst), n, self.ty)
    }

    fn with(&mut self, op: Op, v: Value, n: i64) -> Value {
        let n = self.number(n);
        self.op(op, &[v, n])
    }

    /// A value, made again if it is made in the loop.
    fn there(&mut self, v: Value) -> Value {
        let body = self.kernel.insts[self.inst].regions[0];
        let Some(made) = self.kernel.def_inst(v) else { return v };
        let mut inside = false;
        self.kernel.walk(body, &mut |i| inside |= i == made);
        if !inside && !is_fixed(self.kernel.insts[made].op) {
            return v;
        }
        let (op, args, attrs) = (self.kernel.insts[made].op, self.kernel.insts[made].args.clone(), self.kernel.insts[made].attrs.clone());
        let args: SmallVec<[Value; 4]> = args.into_iter().map(|a| self.there(a)).collect();
        let Type::Scalar(ty) = *self.kernel.ty(v) else { return v };
        scalar((self.kernel, self.region, self.inst), op, &args, &attrs, ty)
    }
}

/// A scalar instruction in front of another one; its result.
fn scalar((kernel, region, before): (&mut Kernel, Region, Inst), op: Op, args: &[Value], attrs: &[Attr], ty: Scalar) -> Value {
    let new = kernel.add_inst(op, args, 0, attrs, &[], &[Type::Scalar(ty)]);
    kernel.locs[new] = kernel.locs[before];
    let insts = &mut kernel.regions[region].insts;
    let at = insts.iter().position(|&i| i == before).unwrap_or(insts.len());
    insts.insert(at, new);
    kernel.insts[new].results[0]
}

fn number((kernel, region, before): (&mut Kernel, Region, Inst), n: i64, ty: Scalar) -> Value {
    scalar((kernel, region, before), Op::Const, &[], &[Attr::Literal(Literal::Int(n))], ty)
}
