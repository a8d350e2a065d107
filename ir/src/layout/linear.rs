//! Linear algebra over F2 on machine words: a vector is a `u32`, a matrix a list of columns.
//!
//! Sizes are tiny (at most 31 rows, under 64 columns), so everything is Gaussian elimination with
//! a pivot table indexed by the highest set bit.

/// An echelon basis that remembers how each vector was made from the inserted columns.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    /// By highest set bit: reduced vector and the mask of inserted columns that sum to it.
    rows: [(u32, u64); 32],
    dim: u32,
}

impl Span {
    pub fn new() -> Self {
        Self { rows: [(0, 0); 32], dim: 0 }
    }

    pub fn of(columns: &[u32]) -> Self {
        let mut span = Self::new();
        for (i, &c) in columns.iter().enumerate() {
            span.insert_as(c, 1 << i);
        }
        span
    }

    /// What is left of `v` modulo the span, and the columns used to get there.
    pub fn reduce(&self, mut v: u32) -> (u32, u64) {
        let mut used = 0;
        let mut rest = 0;
        while v != 0 {
            let top = 31 - v.leading_zeros();
            let (row, mask) = self.rows[top as usize];
            if row == 0 {
                rest |= 1 << top;
                v ^= 1 << top;
            } else {
                v ^= row;
                used ^= mask;
            }
        }
        (rest, used)
    }

    pub fn contains(&self, v: u32) -> bool {
        self.reduce(v).0 == 0
    }

    /// Adds a vector that stands for the column mask `name`; false when it was already spanned.
    pub fn insert_as(&mut self, v: u32, name: u64) -> bool {
        let (rest, used) = self.reduce(v);
        if rest == 0 {
            return false;
        }
        self.rows[(31 - rest.leading_zeros()) as usize] = (rest, name ^ used);
        self.dim += 1;
        true
    }

    pub fn insert(&mut self, v: u32) -> bool {
        self.insert_as(v, 0)
    }

    pub fn dim(&self) -> u32 {
        self.dim
    }

    /// A basis, ascending by highest bit.
    pub fn basis(&self) -> Vec<u32> {
        self.rows.iter().map(|r| r.0).filter(|&v| v != 0).collect()
    }

    /// The reduced row echelon basis, ascending: unique for the subspace.
    pub fn canonical_basis(&self) -> Vec<u32> {
        let mut basis = self.basis();
        for i in 0..basis.len() {
            let top = 31 - basis[i].leading_zeros();
            for j in i + 1..basis.len() {
                if basis[j] >> top & 1 == 1 {
                    basis[j] ^= basis[i];
                }
            }
        }
        basis
    }
}

/// Rank of a list of columns.
pub(crate) fn rank(columns: &[u32]) -> u32 {
    let mut span = Span::new();
    columns.iter().filter(|&&c| span.insert(c)).count() as u32
}

/// Product of a matrix with the column mask `x`.
pub(crate) fn mul(columns: &[u32], x: u64) -> u32 {
    let mut out = 0;
    let mut x = x;
    while x != 0 {
        let i = x.trailing_zeros() as usize;
        out ^= columns.get(i).copied().unwrap_or(0);
        x &= x - 1;
    }
    out
}

/// Some column mask that sums to `target`.
pub(crate) fn solve(columns: &[u32], target: u32) -> Option<u64> {
    let (rest, used) = Span::of(columns).reduce(target);
    (rest == 0).then_some(used)
}

/// Basis of the kernel, as column masks.
pub(crate) fn kernel(columns: &[u32]) -> Vec<u64> {
    let mut span = Span::new();
    let mut out = Vec::new();
    for (i, &c) in columns.iter().enumerate() {
        let (rest, used) = span.reduce(c);
        if rest == 0 {
            out.push(used ^ 1 << i);
        } else {
            span.insert_as(c, 1 << i);
        }
    }
    out
}

/// Inverse of a square matrix of `n` columns.
pub(crate) fn inverse(columns: &[u32]) -> Option<Vec<u32>> {
    let span = Span::of(columns);
    (0..columns.len())
        .map(|i| {
            let (rest, used) = span.reduce(1 << i);
            (rest == 0).then_some(used as u32)
        })
        .collect()
}

/// Matrix product: columns of `a` after `b`.
pub(crate) fn compose(a: &[u32], b: &[u32]) -> Vec<u32> {
    b.iter().map(|&c| mul(a, u64::from(c))).collect()
}

/// Basis of the intersection of two spans.
pub(crate) fn intersect(a: &[u32], b: &[u32]) -> Vec<u32> {
    let a = Span::of(a).basis();
    let b = Span::of(b).basis();
    let both: Vec<u32> = a.iter().chain(&b).copied().collect();
    let low = (1u64 << a.len()) - 1;
    kernel(&both).iter().map(|&k| mul(&a, k & low)).collect()
}

/// Vectors of `within`, in order, that extend `sub` to a basis of the common span.
pub(crate) fn complement(sub: &[u32], within: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let mut span = Span::of(sub);
    within.into_iter().filter(|&v| span.insert(v)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::Rng;

    fn random(rng: &mut Rng, n: usize, bits: u32) -> Vec<u32> {
        (0..n).map(|_| rng.below(1 << bits)).collect()
    }

    fn members(columns: &[u32]) -> std::collections::BTreeSet<u32> {
        (0..1u64 << columns.len()).map(|x| mul(columns, x)).collect()
    }

    #[test]
    fn elimination_agrees_with_enumeration() {
        let mut rng = Rng::new(1);
        for _ in 0..400 {
            let (na, nb) = (rng.below(6) as usize, rng.below(6) as usize);
            let a = random(&mut rng, na, 5);
            let b = random(&mut rng, nb, 5);
            let (ma, mb) = (members(&a), members(&b));
            assert_eq!(1 << rank(&a), ma.len());
            assert_eq!(1usize << kernel(&a).len() << rank(&a), 1 << a.len());
            assert!(kernel(&a).iter().all(|&k| k != 0 && mul(&a, k) == 0));
            for v in 0..32 {
                assert_eq!(solve(&a, v).is_some(), ma.contains(&v));
                if let Some(x) = solve(&a, v) {
                    assert_eq!(mul(&a, x), v);
                }
            }
            let meet = members(&intersect(&a, &b));
            assert_eq!(meet, ma.intersection(&mb).copied().collect());
            assert_eq!(members(&Span::of(&a).canonical_basis()), ma);
            if let Some(inv) = inverse(&a).filter(|_| a.len() == 5) {
                assert_eq!(compose(&inv, &a), vec![1, 2, 4, 8, 16]);
            }
            let rest = complement(&a, b.iter().copied());
            let mut all = a.clone();
            all.extend(&rest);
            assert_eq!(rank(&all) - rank(&a), rest.len() as u32);
        }
    }

    #[test]
    fn canonical_basis_is_unique() {
        let mut rng = Rng::new(2);
        for _ in 0..300 {
            let a = random(&mut rng, 4, 6);
            let mixed: Vec<u32> = (0..6).map(|_| mul(&a, u64::from(rng.below(16)))).collect();
            let equal = members(&mixed) == members(&a);
            let same = Span::of(&a).canonical_basis() == Span::of(&mixed).canonical_basis();
            assert_eq!(equal, same);
        }
    }
}
