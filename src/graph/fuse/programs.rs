//! Values of sums in each program of a grid of known extents: an atom is computed once in a program, and nothing is allocated for it.

use super::atoms::{Atom, Atoms, Sum};
use crate::graph::size::Grid;
use smallvec::SmallVec;
use std::ops::Range;
use tilelift_interp::fold;
use tilelift_ir::{Literal, Op, Scalar};

/// Programs that are looked at one by one at most.
const MOST_PROGRAMS: u64 = 1 << 14;
/// Ops upon ops that are followed at most.
const DEEPEST: u32 = 256;

/// The programs of a grid, one of which is looked at.
pub(super) struct Programs<'a> {
    atoms: &'a Atoms,
    grid: [u32; 3],
    program: [u32; 3],
    /// The look at which each atom was computed, and its value.
    known: Vec<(u32, Option<i32>)>,
    look: u32,
    depth: u32,
}

impl<'a> Programs<'a> {
    /// The programs of a grid; `None` if its extents are not known, if it has none, or too many.
    pub fn of(atoms: &'a Atoms, grid: &Grid) -> Option<Programs<'a>> {
        let grid = grid.fixed()?;
        let count = grid.iter().fold(1u64, |n, &e| n.saturating_mul(u64::from(e)));
        let known = vec![(0, None); atoms.count()];
        (1..=MOST_PROGRAMS).contains(&count).then_some(Programs { atoms, grid, program: [0; 3], known, look: 1, depth: 0 })
    }

    /// Their numbers; that of the x axis is innermost.
    pub fn numbers(&self) -> Range<u32> {
        0..self.grid.iter().product()
    }

    /// The value of a sum in a program, if it follows from the program's position.
    pub fn value(&mut self, sum: &Sum, number: u32) -> Option<i32> {
        let [x, y, _] = self.grid;
        let program = [number % x, number / x % y, number / x / y];
        if program != self.program {
            self.program = program;
            self.look += 1;
        }
        self.sum(sum)
    }

    fn sum(&mut self, sum: &Sum) -> Option<i32> {
        sum.terms.iter().try_fold(sum.offset, |n, &(a, f)| {
            let value = match self.known[a as usize] {
                (look, value) if look == self.look => value,
                _ => {
                    self.depth += 1;
                    let value = if self.depth > DEEPEST { None } else { self.atom(a) };
                    self.depth -= 1;
                    self.known[a as usize] = (self.look, value);
                    value
                }
            };
            Some(n.wrapping_add(value?.wrapping_mul(f)))
        })
    }

    fn atom(&mut self, a: u32) -> Option<i32> {
        match self.atoms.atom(a) {
            Atom::Program(axis) => Some(self.program[*axis as usize] as i32),
            Atom::Programs(axis) => Some(self.grid[*axis as usize] as i32),
            Atom::Op(op, attrs, sums, Scalar::I32) => {
                let args: SmallVec<[i32; 3]> = sums.iter().map(|s| self.sum(s)).collect::<Option<_>>()?;
                match (op, &args[..]) {
                    // The common ones; the interpreter's own arithmetic does the rest.
                    (Op::Div, [a, b]) if *b > 0 => Some(a / b),
                    (Op::Rem, [a, b]) if *b > 0 => Some(a % b),
                    (Op::Minimum, [a, b]) => Some(*a.min(b)),
                    (Op::Maximum, [a, b]) => Some(*a.max(b)),
                    (Op::Mul, [a, b]) => Some(a.wrapping_mul(*b)),
                    _ => {
                        let words: Vec<(Literal, Scalar)> = args.iter().map(|&n| (Literal::Int(i64::from(n)), Scalar::I32)).collect();
                        match fold(*op, attrs, &words, Scalar::I32)? {
                            Literal::Int(n) => Some(n as i32),
                            Literal::Float(_) => None,
                        }
                    }
                }
            }
            Atom::Op(..) | Atom::Size(_) | Atom::Argument(_) | Atom::Literal(..) | Atom::Opaque(_) => None,
        }
    }
}
