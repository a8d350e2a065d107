//! One elementwise op on literals, computed by the interpreter itself: what an optimizer folds can't differ from what runs.

use super::access::Released;
use super::data::Data;
use super::exec::{Machine, scalar};
use super::memory::Memory;
use super::plan::Plan;
use crate::kernel::Kernel;
use crate::num;
use crate::ops::{Attr, Literal, Op, Rule};
use crate::types::{Scalar, Type};
use cranelift_entity::SecondaryMap;

/// True if each element of the op's result follows from the operands' elements at the same place, so that [`fold`] computes it.
pub fn is_elementwise(op: Op) -> bool {
    use Rule::{Bitcast, Cast, Compare, SameBits, SameFloat, SameInt, SameNumber, Select};
    matches!(op.info().rule, SameNumber | SameFloat | SameInt | SameBits | Compare | Select | Cast | Bitcast)
}

/// The result of an elementwise op on literals; `None` for other ops, and where the interpreter would stop.
pub fn fold(op: Op, attrs: &[Attr], args: &[(Literal, Scalar)], result: Scalar) -> Option<Literal> {
    if !is_elementwise(op) || op.info().results() != 1 || args.is_empty() {
        return None;
    }
    let mut kernel = Kernel::new("fold");
    let params: Vec<_> = args.iter().map(|&(_, ty)| kernel.add_param(Type::Scalar(ty))).collect();
    let inst = kernel.add_inst(op, &params, 0, attrs, &[], &[Type::Scalar(result)]);
    let plan = Plan { dies_before: SecondaryMap::new(), dies_after: SecondaryMap::new(), cost: SecondaryMap::new() };
    let mut machine = Machine {
        kernel: &kernel,
        plan: &plan,
        env: SecondaryMap::new(),
        views: Vec::new(),
        memory: &mut Memory::new(),
        shadows: &mut [],
        grid: [1; 3],
        workers: 1,
        subset: None,
        released: Released::default(),
        program: [0; 3],
        me: 1,
        fuel: 1,
        steps: 0,
        limit: 1,
    };
    let data = |&(literal, ty): &(Literal, Scalar)| match literal {
        Literal::Int(i) if !ty.is_float() => Data::int(i),
        Literal::Int(i) => Data::floats(vec![i as f64]),
        Literal::Float(bits) if ty.is_float() => scalar(ty, num::to_bits(f64::from_bits(bits), ty)),
        Literal::Float(_) => Data::int(0),
    };
    match machine.compute(&kernel.insts[inst], args.iter().map(data).collect()).ok()? {
        Data::Int(v) => v.first().map(|&i| Literal::Int(i)),
        // One NaN, so that equal results are equal literals.
        Data::Float(v) => v.first().map(|&x| Literal::Float(if x.is_nan() { f64::NAN } else { x }.to_bits())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::CmpOp;

    #[test]
    fn folds_as_the_interpreter_computes() {
        let int = |i| (Literal::Int(i), Scalar::I8);
        assert_eq!(fold(Op::Add, &[], &[int(127), int(1)], Scalar::I8), Some(Literal::Int(-128)));
        assert_eq!(fold(Op::Div, &[], &[int(5), int(0)], Scalar::I8), Some(Literal::Int(0)));
        assert_eq!(fold(Op::Cmp, &[Attr::Cmp(CmpOp::Ult)], &[int(-1), int(1)], Scalar::I1), Some(Literal::Int(0)));
        let half = |x: f64| (Literal::Float(x.to_bits()), Scalar::F16);
        assert_eq!(fold(Op::Mul, &[], &[half(65504.0), half(2.0)], Scalar::F16), Some(Literal::Float(f64::INFINITY.to_bits())));
        assert_eq!(fold(Op::Neg, &[], &[half(0.0)], Scalar::F16), Some(Literal::Float((-0.0f64).to_bits())));
        assert_eq!(fold(Op::Cast, &[], &[half(2.5)], Scalar::I8), Some(Literal::Int(2)));
        assert_eq!(fold(Op::Load, &[], &[half(2.5)], Scalar::F16), None);
    }
}
