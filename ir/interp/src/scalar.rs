//! One elementwise op on literals, computed by the interpreter itself: what an optimizer folds can't differ from what runs.

use super::access::Released;
use super::data::Data;
use super::exec::{Interpreter, scalar};
use super::memory::Memory;
use super::plan::Plan;
use super::shapes;
use cranelift_entity::SecondaryMap;
use tilelift_ir::kernel::Kernel;
use tilelift_ir::num;
use tilelift_ir::ops::{Attr, Literal, Op};
use tilelift_ir::types::{Scalar, Type};

/// The element that fills the result of an op whose operands are filled with literals; `None` for ops that do not compute elements
/// from elements, where the interpreter would stop, and where the result has different elements.
pub fn fold(op: Op, attrs: &[Attr], args: &[(Literal, Scalar)], result: Scalar) -> Option<Literal> {
    if !op.computes_elements() || op.info().results() != 1 || args.is_empty() {
        return None;
    }
    // Where elements are split or joined, two of them make whole ones.
    let copies = if op.is_elementwise(args[0].1, result) { 1 } else { 2 };
    let mut kernel = Kernel::new("fold");
    let params: Vec<_> = args.iter().map(|&(_, ty)| kernel.add_param(Type::Scalar(ty))).collect();
    let inst = kernel.add_inst(op, &params, 0, attrs, &[], &[Type::Scalar(result)]);
    let plan = Plan { dies_before: SecondaryMap::new(), dies_after: SecondaryMap::new(), cost: SecondaryMap::new() };
    let mut machine = Interpreter {
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
        instructions: 1,
        most_instructions: 1,
        rounds: SecondaryMap::new(),
    };
    let data = |&(literal, ty): &(Literal, Scalar)| match literal {
        Literal::Int(i) if !ty.is_float() => Data::int(i),
        Literal::Int(i) => Data::floats(vec![i as f64]),
        Literal::Float(bits) if ty.is_float() => scalar(ty, num::to_bits(f64::from_bits(bits), ty)),
        Literal::Float(_) => Data::int(0),
    };
    let operands = args.iter().map(data).map(|d| if copies == 1 { d } else { shapes::splat(&d, copies) }).collect();
    let elements: Vec<Literal> = match machine.compute(&kernel.insts[inst], operands).ok()? {
        Data::Int(v) => v.iter().map(|&i| Literal::Int(i)).collect(),
        // One NaN, so that equal results are equal literals.
        Data::Float(v) => v.iter().map(|&x| Literal::Float(if x.is_nan() { f64::NAN } else { x }.to_bits())).collect(),
    };
    let first = *elements.first()?;
    elements.iter().all(|&e| e == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_ir::ops::CmpOp;

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
        let (byte, nibble) = (|i| (Literal::Int(i), Scalar::I8), |i| (Literal::Int(i), Scalar::I4));
        assert_eq!(fold(Op::Bitcast, &[], &[byte(0x33)], Scalar::I4), Some(Literal::Int(3)));
        assert_eq!(fold(Op::Bitcast, &[], &[byte(5)], Scalar::I4), None);
        assert_eq!(fold(Op::Bitcast, &[], &[nibble(2)], Scalar::I8), Some(Literal::Int(0x22)));
    }
}
