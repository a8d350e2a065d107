//! Sums of integer multiples of atoms, and the atoms: what [`super::sym`] finds scalars of kernels to be.

use crate::graph::nodes::NodeArg;
use crate::graph::size::Size;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tilelift_ir::{Attr, GridAxis, Literal, Op, Scalar};

/// A sum: `offset + Σ factor * atom`, atoms in order, factors not 0.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Sum {
    pub offset: i32,
    pub terms: Vec<(u32, i32)>,
}

impl Sum {
    pub fn number(n: i32) -> Sum {
        Sum { offset: n, terms: Vec::new() }
    }
    pub(super) fn atom(a: u32) -> Sum {
        Sum { offset: 0, terms: vec![(a, 1)] }
    }
    pub fn as_number(&self) -> Option<i32> {
        self.terms.is_empty().then_some(self.offset)
    }
    /// The difference, if it is a number.
    pub fn beyond(&self, other: &Sum) -> Option<i32> {
        self.add(other, -1).as_number()
    }
    /// So many times the sum, where no number in it wraps.
    pub fn times(&self, n: u32) -> Option<Sum> {
        let n = i32::try_from(n).ok()?;
        let terms = self.terms.iter().map(|&(a, f)| Some((a, f.checked_mul(n)?))).collect::<Option<_>>()?;
        Some(Sum { offset: self.offset.checked_mul(n)?, terms })
    }
    /// The sum and a number.
    pub fn plus(&self, n: i32) -> Sum {
        Sum { offset: self.offset.wrapping_add(n), terms: self.terms.clone() }
    }
    pub(super) fn add(&self, other: &Sum, factor: i32) -> Sum {
        let mut all: BTreeMap<u32, i32> = self.terms.iter().copied().collect();
        for &(a, f) in &other.terms {
            let e = all.entry(a).or_insert(0);
            *e = e.wrapping_add(f.wrapping_mul(factor));
        }
        let terms = all.into_iter().filter(|t| t.1 != 0).collect();
        Sum { offset: self.offset.wrapping_add(other.offset.wrapping_mul(factor)), terms }
    }
}

/// What a sum is made of.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Atom {
    /// The position on a grid axis.
    Program(GridAxis),
    /// The grid's extent along an axis.
    Programs(GridAxis),
    /// An extent.
    Size(Size),
    /// A scalar argument.
    Argument(ScalarKey),
    /// An op on scalars, of the type that it makes.
    Op(Op, Vec<Attr>, Vec<Sum>, Scalar),
    /// A literal that is no `i32`.
    Literal(Literal, Scalar),
    /// The parameter of a region, or the result of anything else: equal to itself only.
    Opaque(u32),
}

/// A scalar argument as a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum ScalarKey {
    Given(u32),
    Number(Scalar, u64),
}

impl ScalarKey {
    pub fn of(arg: &NodeArg) -> Option<ScalarKey> {
        match arg {
            NodeArg::Scalar(s) => Some(ScalarKey::Number(s.elem(), s.bits())),
            NodeArg::Input(s) => Some(ScalarKey::Given(s.0)),
            NodeArg::Tensor(_) | NodeArg::Flat(_) => None,
        }
    }
}

/// The atoms of several kernels.
#[derive(Default)]
pub(crate) struct Atoms {
    pub(super) list: Vec<Atom>,
    /// Whether each differs from program to program, or may.
    pub(super) moving: Vec<bool>,
    pub(super) numbers: HashMap<Atom, u32>,
    pub(super) opaque: u32,
    /// Indices of loops that start at a number that is not negative, or at such a sum, and go up.
    pub(super) counts: BTreeSet<u32>,
    /// Ends and steps of indices of loops that start at 0; the steps divide the indices.
    pub(super) steps: BTreeMap<u32, (Sum, i32)>,
}

impl Atoms {
    pub(super) fn intern(&mut self, atom: Atom) -> Sum {
        let next = self.list.len() as u32;
        let n = *self.numbers.entry(atom.clone()).or_insert(next);
        if n == next {
            let moves = match &atom {
                Atom::Program(_) | Atom::Opaque(_) => true,
                Atom::Op(_, _, sums, _) => sums.iter().any(|s| self.moves(s)),
                Atom::Programs(_) | Atom::Size(_) | Atom::Argument(_) | Atom::Literal(..) => false,
            };
            self.moving.push(moves);
            self.list.push(atom);
        }
        Sum::atom(n)
    }

    pub fn size(&mut self, size: &Size) -> Sum {
        match size.fixed() {
            Some(n) => Sum::number(n as i32),
            None => self.intern(Atom::Size(size.clone())),
        }
    }

    /// True if a sum is this extent.
    pub fn is_size(&self, sum: &Sum, size: &Size) -> bool {
        matches!((sum.offset, &sum.terms[..]), (0, &[(a, 1)]) if *self.atom(a) == Atom::Size(size.clone()))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    pub fn atom(&self, n: u32) -> &Atom {
        &self.list[n as usize]
    }

    /// True if the sum differs from program to program, or may.
    pub fn moves(&self, sum: &Sum) -> bool {
        sum.terms.iter().any(|&(a, _)| self.moving[a as usize])
    }
}
