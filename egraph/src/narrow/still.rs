//! Whether a round of a loop hands on what it carries, where a comparison is the same in all elements.

use crate::hash::IndexMap;
use smallvec::SmallVec;
use tilelift_interp as interp;
use tilelift_ir::{Attr, Effects, Inst, Kernel, Literal, Op, ReduceOp, Region, Scalar, Type, Value};

/// Instructions in front of the loop that are looked through for a constant.
const DEEP: usize = 8;

/// What is known of a value.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Known {
    /// It is this one.
    Is(Value),
    /// All elements are this.
    All(Literal),
}

use Known::{All, Is};

/// True if all that a loop carries goes through a round as it is, a comparison's result given.
pub(super) fn is_still(kernel: &Kernel, body: Region, (compare, holds): (Value, bool)) -> bool {
    let mut round = Round { kernel, known: IndexMap::default(), given: compare };
    round.known.insert(compare, All(Literal::Int(i64::from(holds))));
    round.region(body);
    let carried = &kernel.regions[body].params[1..];
    kernel.yields(body).iter().zip(carried).all(|(&next, &now)| round.of(next) == Is(now))
}

struct Round<'k> {
    kernel: &'k Kernel,
    known: IndexMap<Value, Known>,
    given: Value,
}

impl Round<'_> {
    fn region(&mut self, region: Region) {
        for i in 0..self.kernel.regions[region].insts.len() {
            let inst = self.kernel.regions[region].insts[i];
            let d = &self.kernel.insts[inst];
            if let (Op::If, Some(All(Literal::Int(holds)))) = (d.op, d.args.first().map(|&c| self.of(c))) {
                let arm = d.regions[usize::from(holds == 0).min(d.regions.len() - 1)];
                if holds != 0 || d.regions.len() == 2 {
                    self.region(arm);
                    for (&r, &y) in d.results.iter().zip(self.kernel.yields(arm)) {
                        self.known.insert(r, self.of(y));
                    }
                }
                continue;
            }
            if let [result] = d.results[..]
                && result != self.given
                && let Some(made) = self.made(inst)
            {
                self.known.insert(result, made);
            }
        }
    }

    fn of(&self, v: Value) -> Known {
        self.known.get(&v).copied().unwrap_or_else(|| self.outside(v, DEEP).map_or(Is(v), All))
    }

    /// The elements of a constant in front of the loop.
    fn outside(&self, v: Value, deep: usize) -> Option<Literal> {
        if let Some((l, _)) = self.kernel.as_const(v) {
            return Some(l);
        }
        let d = &self.kernel.insts[self.kernel.def_inst(v)?];
        (deep > 0 && matches!(d.op, Op::Splat | Op::Broadcast | Op::Reshape | Op::Transpose)).then(|| self.outside(d.args[0], deep - 1))?
    }

    /// What an instruction with one result makes.
    fn made(&self, inst: Inst) -> Option<Known> {
        let kernel = self.kernel;
        let d = &kernel.insts[inst];
        let args: SmallVec<[Known; 4]> = d.args.iter().map(|&a| self.of(a)).collect();
        let ty = kernel.ty(*d.results.first()?);
        match d.op {
            Op::Const => kernel.as_const(d.results[0]).map(|(l, _)| All(l)),
            Op::Splat | Op::Broadcast | Op::Reshape | Op::Transpose | Op::Slice | Op::Flip => match args[0] {
                All(l) => Some(All(l)),
                Is(_) => None,
            },
            Op::RequireLayout | Op::ReleaseLayout | Op::Assume => Some(args[0]),
            Op::Select => match args[0] {
                All(Literal::Int(holds)) => Some(args[if holds != 0 { 1 } else { 2 }]),
                _ => (args[1] == args[2]).then_some(args[1]),
            },
            Op::Reduce => match (args[0], d.attrs.first()) {
                (All(l), Some(Attr::Reduce(op))) => all_alike(*op, l).then_some(All(l)),
                _ => None,
            },
            Op::Dot => args[..2].iter().any(|&a| is(a, 0.0)).then_some(args[2]),
            Op::Load | Op::Gather => {
                let mask = kernel.operand(inst, "mask").first().map(|&m| self.of(m))?;
                let other = kernel.operand(inst, "other").first().map(|&o| self.of(o));
                (mask == All(Literal::Int(0))).then(|| other.unwrap_or(All(zero(ty.elem())))).filter(|k| matches!(k, All(_)))
            }
            op if op.info().effects == Effects::Pure && op.computes_elements() && !matches!(ty, Type::View(_)) => {
                let literals: Option<SmallVec<[(Literal, Scalar); 3]>> = args
                    .iter()
                    .zip(&d.args)
                    .map(|(k, &v)| match k {
                        All(l) => Some((*l, kernel.ty(v).elem())),
                        Is(_) => None,
                    })
                    .collect();
                match literals {
                    Some(literals) => interp::fold(op, &d.attrs, &literals, ty.elem()).map(All),
                    None => absorbed(op, &args, ty.elem()),
                }
            }
            _ => None,
        }
    }
}

/// The zero of a type.
fn zero(elem: Scalar) -> Literal {
    if elem.is_float() { Literal::Float(0) } else { Literal::Int(0) }
}

/// True if all elements are that number.
fn is(k: Known, n: f64) -> bool {
    match k {
        All(Literal::Int(i)) => i as f64 == n,
        All(Literal::Float(bits)) => f64::from_bits(bits) == n,
        Is(_) => false,
    }
}

/// True if equal elements combine to the same.
fn all_alike(op: ReduceOp, l: Literal) -> bool {
    match op {
        ReduceOp::Minimum | ReduceOp::Maximum | ReduceOp::And | ReduceOp::Or => true,
        ReduceOp::Add | ReduceOp::Xor => is(All(l), 0.0),
        ReduceOp::Mul => is(All(l), 0.0) || is(All(l), 1.0),
    }
}

/// What an op makes of a number that leaves the other operand as it is, or that stays whatever the other one is.
fn absorbed(op: Op, args: &[Known], elem: Scalar) -> Option<Known> {
    const INF: f64 = f64::INFINITY;
    let float = |x: f64| All(Literal::Float(x.to_bits()));
    let real = elem.is_float();
    let either = |n: f64| args.iter().take(2).any(|&a| is(a, n));
    // The other operand of one that is such a number.
    let beside = |n: f64| match args {
        [a, b, ..] if is(*a, n) => Some(*b),
        [a, b, ..] if is(*b, n) => Some(*a),
        _ => None,
    };
    let same = || (args.len() >= 2 && args[0] == args[1]).then(|| args[0]);
    let (most, least) =
        if elem == Scalar::I1 { (1.0, 0.0) } else { (2f64.powi(elem.bits() as i32 - 1) - 1.0, -(2f64.powi(elem.bits() as i32 - 1))) };
    let ones = if elem == Scalar::I1 { 1.0 } else { -1.0 };
    match op {
        Op::Add if real && either(-INF) => Some(float(-INF)),
        Op::Add if real && either(INF) => Some(float(INF)),
        Op::Add | Op::Or | Op::Xor if either(0.0) => beside(0.0),
        Op::Sub if is(args[1], 0.0) => Some(args[0]),
        Op::Sub if same().is_some() => Some(All(zero(elem))),
        Op::Sub if real && (is(args[0], -INF) || is(args[0], INF)) => Some(args[0]),
        Op::Sub if real && is(args[1], INF) => Some(float(-INF)),
        Op::Sub if real && is(args[1], -INF) => Some(float(INF)),
        Op::Mul | Op::And if either(0.0) => Some(All(zero(elem))),
        Op::Mul => beside(1.0),
        Op::Div if is(args[0], 0.0) => Some(All(zero(elem))),
        Op::Div if is(args[1], 1.0) => Some(args[0]),
        Op::Fma if either(0.0) => Some(args[2]),
        Op::Fma if is(args[2], 0.0) => absorbed(Op::Mul, &args[..2], elem),
        Op::And if either(ones) => beside(ones),
        Op::Maximum | Op::MaxNum if real => beside(-INF).or_else(same),
        Op::Minimum | Op::MinNum if real => beside(INF).or_else(same),
        Op::Maximum if elem.bits() <= 32 => beside(least).or_else(same),
        Op::Minimum if elem.bits() <= 32 => beside(most).or_else(same),
        Op::Minimum | Op::Maximum | Op::MinimumU | Op::MaximumU | Op::And | Op::Or => same(),
        Op::Shl | Op::ShrS | Op::ShrU if is(args[1], 0.0) => Some(args[0]),
        _ => None,
    }
}
