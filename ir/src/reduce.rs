//! The order in which `reduce` combines the elements along its axis: part of the op's meaning.
//!
//! ```text
//! extent S = 2^v * odd          element number = i + 2^v * d,  0 <= i < 2^v,  0 <= d < odd
//! (1) d, in ascending order     acc[i] = ((x[i] op x[i + 2^v]) op x[i + 2 * 2^v]) op …
//! (2) bits v-1 down to t of i   acc[i] = acc[i] op acc[i + 2^bit]   for the i whose bit is 0
//! (3) bits 0 up to t-1 of i     the same
//!                               t = min(v, 3) if S <= 256, else min(v, 11)
//! ```
//!
//! The order depends on the extent alone, hence a result never depends on grid, batch, warps or layout. The bits of step (2) are
//! those that a row-major layout keeps in registers, the bits of step (3) those that it keeps in a vector, in lanes and warps.

use smallvec::SmallVec;

/// The order of a reduction over one extent; see the module for the formula.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct ReduceOrder {
    /// The odd part of the extent: the number of terms folded first, in ascending order, `1 << bits.len()` elements apart.
    pub odd: u32,
    /// Bit numbers of the remaining index in folding order; each combines `i` (bit clear, first operand) with `i | 1 << bit`.
    pub bits: SmallVec<[u32; 24]>,
}

impl ReduceOrder {
    /// Elements left after the odd digit is folded: `2^v`.
    pub fn pow2(&self) -> u32 {
        1 << self.bits.len()
    }
}

/// Extents up to this one keep 3 low bits for step (3); larger ones keep 11.
const SHORT: u32 = 256;

/// The order for an extent. An extent of 0, which no tile has, gives the order of nothing: `odd` 0 and no bits.
///
/// ```
/// # use tilelift_ir::reduce::reduce_order;
/// let o = reduce_order(176); // 16 * 11
/// assert_eq!(o.odd, 11);
/// assert_eq!(o.bits[..], [3, 0, 1, 2]);
/// ```
pub fn reduce_order(extent: u32) -> ReduceOrder {
    if extent == 0 {
        return ReduceOrder { odd: 0, bits: SmallVec::new() };
    }
    let v = extent.trailing_zeros();
    let t = v.min(if extent <= SHORT { 3 } else { 11 });
    ReduceOrder { odd: extent >> v, bits: (t..v).rev().chain(0..t).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_of_typical_extents() {
        let order = |s| {
            let o = reduce_order(s);
            (o.odd, o.bits.to_vec())
        };
        assert_eq!(order(1), (1, vec![]));
        assert_eq!(order(7), (7, vec![]));
        assert_eq!(order(16), (1, vec![3, 0, 1, 2]));
        assert_eq!(order(256), (1, vec![7, 6, 5, 4, 3, 0, 1, 2]));
        assert_eq!(order(1000), (125, vec![0, 1, 2]));
        assert_eq!(order(512), (1, vec![0, 1, 2, 3, 4, 5, 6, 7, 8]));
        assert_eq!(order(1 << 13), (1, vec![12, 11, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]));
    }

    #[test]
    fn every_bit_is_folded_once() {
        for s in (1..5000).chain([1 << 20, 3 << 20, 1 << 24, u32::MAX, 1 << 31]) {
            let o = reduce_order(s);
            assert_eq!(u64::from(o.odd) * u64::from(o.pow2()), u64::from(s));
            assert_eq!(o.odd % 2, 1);
            let mut sorted = o.bits.to_vec();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..o.bits.len() as u32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_order_of_nothing() {
        assert_eq!(reduce_order(0).odd, 0);
    }
}
