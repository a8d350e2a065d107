//! What is known to divide a result divides it: against the interpreter's own arithmetic.

use tilelift_interp::fold;
use tilelift_ir::multiples::{ALL_ZEROS, Known, low_zeros, zeros_of};
use tilelift_ir::num::wrap;
use tilelift_ir::ops::{Literal, Op};
use tilelift_ir::types::{Scalar, Type};

/// What is said holds for what the op computes, of every pair of numbers, in every width.
#[test]
fn results_have_the_zeros_that_are_said() {
    let ops = [
        Op::Add,
        Op::Sub,
        Op::Mul,
        Op::Minimum,
        Op::Maximum,
        Op::MinimumU,
        Op::MaximumU,
        Op::Rem,
        Op::RemU,
        Op::Or,
        Op::Xor,
        Op::And,
        Op::Shl,
        Op::ShrS,
        Op::ShrU,
        Op::Div,
        Op::DivU,
    ];
    let numbers = [0, 1, -1, 2, 3, 4, -4, 6, 8, 12, 16, 24, -48, 64, 96, 127, -128, 1 << 20, i64::MIN, i64::MAX - 7];
    let mut said = [0u32; 2];
    for elem in [Scalar::I8, Scalar::I16, Scalar::I32, Scalar::I64] {
        let ty = Type::Scalar(elem);
        for (x, y) in numbers.iter().flat_map(|&x| numbers.iter().map(move |&y| (wrap(x, elem), wrap(y, elem)))) {
            for (op, known) in ops.iter().flat_map(|&op| [(op, false), (op, true)]) {
                let args = [(x, false), (y, known)].map(|(x, k)| Known { ty: &ty, zeros: zeros_of(x), value: k.then_some(x) });
                let zeros = low_zeros(op, &[], &ty, &args);
                let made = fold(op, &[], &[(Literal::Int(x), elem), (Literal::Int(y), elem)], elem);
                let Some(Literal::Int(made)) = made else { panic!("{op} of numbers is a number") };
                assert!(zeros_of(made) >= zeros.min(elem.bits() as u8), "{op} {x}, {y} of {elem} is {made}, said {zeros} zeros");
                said[usize::from(zeros > 0)] += 1;
            }
        }
    }
    assert!(said[1] > 1000, "{said:?}");
}

#[test]
fn whether_there_is_a_bit_is_no_multiple() {
    let (i32, i1) = (Type::Scalar(Scalar::I32), Type::Scalar(Scalar::I1));
    let sixteen = [Known { ty: &i32, zeros: 4, value: None }];
    assert_eq!(low_zeros(Op::Cast, &[], &i1, &sixteen), 0);
    assert_eq!(low_zeros(Op::Cast, &[], &Type::Scalar(Scalar::I64), &sixteen), 4);
    assert_eq!(low_zeros(Op::Popcount, &[], &i32, &sixteen), 0);
    assert_eq!(zeros_of(0), ALL_ZEROS);
}
