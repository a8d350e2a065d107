//! Matrices that are not dense: columns of a wider matrix, heads of a row, a cache with room behind every sequence.
//!
//! ```text
//!   row:    elements from the beginning of a row, as it is stored, to that of the next one
//!   batch:  elements from the beginning of a matrix of a batch to that of the next one; it may be less than a row (heads side by side)
//! ```

use crate::facts::MAX_DIVISOR;
use tilelift_ir::{Extent, ViewType};

/// Strides of the matrices of one argument, in elements; elements of a row are neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Pitch {
    /// From row to row.
    pub row: u64,
    /// From matrix to matrix of a batch; of no account where there is none.
    pub batch: u64,
}

impl Pitch {
    /// Rows so far apart, of matrices without a batch.
    pub const fn rows(row: u64) -> Pitch {
        Pitch { row, batch: 0 }
    }

    /// Rows and matrices so far apart.
    pub const fn new(row: u64, batch: u64) -> Pitch {
        Pitch { row, batch }
    }

    /// What a kernel may assume of them.
    pub fn facts(self) -> PitchFacts {
        let known = |n: u64| Extent::Dynamic((1 << n.trailing_zeros().min(31)).min(MAX_DIVISOR));
        PitchFacts { row: known(self.row), batch: known(self.batch) }
    }
}

/// What a kernel assumes of a [`Pitch`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct PitchFacts {
    /// Of the stride from row to row.
    pub row: Extent,
    /// Of that from matrix to matrix.
    pub batch: Extent,
}

/// One for each matrix of a product that is not dense; a gate's factor is stored like B, a residual has its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Pitches<T = Pitch> {
    /// Of A, as it is stored.
    pub a: Option<T>,
    /// Of B (and U), as it is stored.
    pub b: Option<T>,
    /// Of C.
    pub c: Option<T>,
    /// Of the residual.
    pub residual: Option<T>,
}

impl<T> Pitches<T> {
    /// All matrices are dense.
    pub const DENSE: Pitches<T> = Pitches { a: None, b: None, c: None, residual: None };

    /// True if all matrices are dense.
    pub const fn is_dense(&self) -> bool {
        self.a.is_none() && self.b.is_none() && self.c.is_none() && self.residual.is_none()
    }
}

impl Pitches {
    /// What a kernel may assume.
    pub fn facts(self) -> Pitches<PitchFacts> {
        let of = |p: Option<Pitch>| p.map(Pitch::facts);
        Pitches { a: of(self.a), b: of(self.b), c: of(self.c), residual: of(self.residual) }
    }
}

/// A view with strides of its own, if it has any.
pub(crate) fn pitched(dense: ViewType, facts: Option<PitchFacts>) -> ViewType {
    let one = Extent::Fixed(1);
    match (facts, dense.rank()) {
        (Some(f), 2) => dense.with_strides(&[f.row, one]),
        (Some(f), 3) => dense.with_strides(&[f.batch, f.row, one]),
        _ => dense,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_ir::Scalar;

    #[test]
    fn facts_say_what_divides_and_dense_views_stay_dense() {
        let facts = Pitch::new(4104, 1 << 40).facts();
        assert_eq!((facts.row, facts.batch), (Extent::Dynamic(8), Extent::Dynamic(16)));
        assert_eq!(Pitch::rows(0).facts().row, Extent::Dynamic(16));
        let dense = |rank: usize| ViewType::dense(Scalar::F16, &vec![Extent::Dynamic(1); rank]);
        assert_eq!(pitched(dense(2), None), dense(2));
        assert_eq!(pitched(dense(2), Some(facts)).strides.map(|s| s.to_vec()), Some(vec![facts.row, Extent::Fixed(1)]));
        assert_eq!(pitched(dense(3), Some(facts)).strides.map(|s| s.to_vec()), Some(vec![facts.batch, facts.row, Extent::Fixed(1)]));
        assert!(Pitches::<Pitch>::DENSE.is_dense() && !Pitches { c: Some(Pitch::rows(8)), ..Pitches::DENSE }.is_dense());
    }
}
