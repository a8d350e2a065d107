//! The types over which a rule is tested.

use tilelift_ir::Scalar;

/// Types of a rule's programs: `T`, and `U` where there are two.
#[derive(Clone, Copy)]
pub enum Types {
    /// `T` is each of these; `U` is `T`.
    Each(&'static [Scalar]),
    /// The pairs `(T, U)` that a condition admits.
    Pairs(fn(Scalar, Scalar) -> bool),
}

/// The pairs of a [`Types`].
pub fn pairs(types: Types) -> Vec<(Scalar, Scalar)> {
    match types {
        Types::Each(list) => list.iter().map(|&t| (t, t)).collect(),
        Types::Pairs(admits) => {
            // Tiles of elements that share bytes need even extents, which the rules' shapes do not have.
            let all = || Scalar::ALL.iter().copied().filter(|t| !t.is_packed());
            all().flat_map(|t| all().map(move |u| (t, u))).filter(|&(t, u)| admits(t, u)).collect()
        }
    }
}
