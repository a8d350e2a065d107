//! Layouts written out: the coordinate that each bit of a register, lane or warp number adds.

use super::construct::Builder;
use super::error::LayoutError;
use super::map::{Axis, Layout};

impl Layout {
    /// The layout of the given bases: bit `k` of a register's number adds the coordinate `registers[k]`, of a lane's `lanes[k]`, of a
    /// warp's `warps[k]`; a coordinate of zeros makes copies. Odd factors of extents repeat in registers, on top.
    ///
    /// # Errors
    /// [`LayoutError::BadColumn`] for a coordinate outside the power-of-two part of the tensor, [`LayoutError::NotSurjective`] where
    /// elements are without an owner.
    pub fn of_bases(shape: &[u32], registers: &[&[u32]], lanes: &[&[u32]], warps: &[&[u32]]) -> Result<Self, LayoutError> {
        let mut b = Builder::new(shape)?;
        for (axis, list) in [(Axis::Reg, registers), (Axis::Lane, lanes), (Axis::Warp, warps)] {
            for coord in list {
                match b.space().pack(coord) {
                    Some((packed, odd)) if odd.iter().all(|&x| x == 0) => b.push(axis, packed),
                    Some(_) | None => return Err(LayoutError::BadColumn { column: coord.to_vec() }),
                }
            }
        }
        for dim in 0..shape.len() {
            let left = b.left(dim);
            b.skip(dim, left);
        }
        let order: Vec<usize> = (0..shape.len()).rev().collect();
        b.finish(&order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bases_say_what_blocks_say() {
        let blocked = Layout::blocked(&[16, 32], &[1, 8], &[8, 4], &[2, 1], &[1, 0]).expect("blocks fit");
        let [r, l, w]: [&[&[u32]]; 3] = [&[&[0, 1], &[0, 2], &[0, 4]], &[&[0, 8], &[0, 16], &[1, 0], &[2, 0], &[4, 0]], &[&[8, 0]]];
        assert_eq!(Layout::of_bases(&[16, 32], r, l, w), Ok(blocked));
        // An odd factor repeats in registers.
        let odd = Layout::of_bases(&[48, 32], r, l, w).expect("48 is 16 threefold");
        assert_eq!(odd.size(Axis::Reg), 24);
        assert!(matches!(Layout::of_bases(&[16, 32], &[], l, w), Err(LayoutError::NotSurjective { .. })));
        assert!(matches!(Layout::of_bases(&[16, 16], r, l, w), Err(LayoutError::BadColumn { .. })));
    }
}
