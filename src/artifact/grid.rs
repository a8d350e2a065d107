//! Which grids may be launched.

use super::params::{Param, ParamSource};
use std::fmt;

/// The largest grid that may be asked for.
pub const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65535, 65535];

/// The most grid positions of a program that takes the extents of its grid as parameters: it counts them in 32 bits.
pub const MAX_POSITIONS: u32 = i32::MAX as u32;

/// Which grids of an artifact may be launched, and as how many blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub struct GridRule {
    /// The extent along x is a multiple of it: the positions of a cluster's blocks.
    pub multiple_of: u32,
    /// Neighbouring positions that a block stands for, along each axis: extents are multiples, and [`GridRule::instances`] are what is counted.
    pub positions: [u32; 3],
    /// Blocks take one grid position after the other: no more are launched than run at once.
    pub persistent: bool,
    /// The largest extents.
    pub max: [u32; 3],
    /// The most positions in all; absent if the extents alone bound them.
    pub max_positions: Option<u32>,
}

/// Why a grid is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum GridError {
    /// An extent that is larger than any device takes.
    TooLarge {
        /// The grid.
        grid: [u32; 3],
        /// The largest extents.
        max: [u32; 3],
    },
    /// More positions than the program counts.
    Positions {
        /// The grid.
        grid: [u32; 3],
        /// The most.
        max: u32,
    },
    /// The extents are no multiples of the positions that a block stands for.
    Instances {
        /// The grid.
        grid: [u32; 3],
        /// Positions of a block along each axis.
        positions: [u32; 3],
    },
    /// The extent along x is no multiple of the cluster.
    Cluster {
        /// The grid.
        grid: [u32; 3],
        /// Program instances of a cluster.
        cluster: u32,
    },
}

impl fmt::Display for GridError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GridError::TooLarge { grid, max } => write!(f, "a grid of {grid:?} is too large; the extents are at most {max:?}"),
            GridError::Positions { grid, max } => {
                write!(f, "a grid of {grid:?} has more than {max} positions; launch it in several parts")
            }
            GridError::Instances { grid, positions } => {
                write!(f, "a grid of {grid:?} is no multiple of {positions:?}, for which the kernel was compiled; compile it for this grid")
            }
            GridError::Cluster { grid, cluster } => {
                write!(f, "a grid of {grid:?} is not made of clusters of {cluster}; make its x a multiple of {cluster}")
            }
        }
    }
}

impl std::error::Error for GridError {}

impl GridRule {
    pub(super) fn of(cluster: u32, positions: [u32; 3], params: &[Param]) -> GridRule {
        let persistent = params.iter().any(|p| matches!(p.source, ParamSource::Grid(_)));
        let multiple_of = cluster.max(1).saturating_mul(positions[0].max(1));
        GridRule { multiple_of, positions, persistent, max: MAX_GRID, max_positions: persistent.then_some(MAX_POSITIONS) }
    }

    /// True if there is work in a grid. A batch of no rows has a grid with a 0 in it: nothing is to be launched, and nothing is wrong.
    pub fn has_work(grid: [u32; 3]) -> bool {
        !grid.contains(&0)
    }

    /// Checks a grid. One without work is always right.
    ///
    /// # Errors
    /// Why it can't be launched.
    pub fn check(&self, grid: [u32; 3]) -> Result<(), GridError> {
        if !GridRule::has_work(grid) {
            return Ok(());
        }
        if grid.iter().zip(self.max).any(|(&n, most)| n > most) {
            return Err(GridError::TooLarge { grid, max: self.max });
        }
        let Some([x, ..]) = self.instances(grid) else {
            return Err(GridError::Instances { grid, positions: self.positions });
        };
        let cluster = self.multiple_of / self.positions[0].max(1);
        if !x.is_multiple_of(cluster.max(1)) {
            return Err(GridError::Cluster { grid, cluster });
        }
        match self.max_positions {
            Some(max) if grid.iter().map(|&n| u128::from(n)).product::<u128>() > u128::from(max) => Err(GridError::Positions { grid, max }),
            Some(_) | None => Ok(()),
        }
    }

    /// The instances that a grid has, as a program counts them; `None` if it has no whole number of them.
    pub fn instances(&self, grid: [u32; 3]) -> Option<[u32; 3]> {
        tilelift_ir::instances(grid, self.positions)
    }

    /// The blocks to launch for a grid, where so many run at once (of a persistent kernel: one a multiprocessor).
    pub fn blocks(&self, grid: [u32; 3], at_once: u32) -> [u32; 3] {
        let grid = self.instances(grid).unwrap_or(grid);
        if self.persistent { [at_once.max(1).min(grid.iter().copied().fold(1, u32::saturating_mul)), 1, 1] } else { grid }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_ir::{GridAxis, Scalar};

    #[test]
    fn grids_are_checked_and_empty_ones_are_no_error() {
        let plain = GridRule::of(2, [1; 3], &[]);
        assert_eq!(plain.check([4, 65535, 1]), Ok(()));
        assert_eq!(plain.check([3, 1, 1]), Err(GridError::Cluster { grid: [3, 1, 1], cluster: 2 }));
        assert_eq!(plain.check([2, 65536, 1]), Err(GridError::TooLarge { grid: [2, 65536, 1], max: MAX_GRID }));
        // No rows: nothing to do, whatever else the grid says.
        assert_eq!((plain.check([0, 1, 1]), plain.check([3, 0, 70000])), (Ok(()), Ok(())));
        assert!(!GridRule::has_work([3, 0, 1]) && GridRule::has_work([1; 3]));
    }

    #[test]
    fn instances_stand_for_whole_numbers_of_positions() {
        let rule = GridRule::of(2, [1, 4, 1], &[]);
        assert_eq!((rule.check([2, 8, 3]), rule.instances([2, 8, 3]), rule.blocks([2, 8, 3], 9)), (Ok(()), Some([2, 2, 3]), [2, 2, 3]));
        assert_eq!(rule.check([2, 6, 1]), Err(GridError::Instances { grid: [2, 6, 1], positions: [1, 4, 1] }));
        assert_eq!(rule.check([3, 4, 1]), Err(GridError::Cluster { grid: [3, 4, 1], cluster: 2 }));
        let rule = GridRule::of(1, [2, 1, 1], &[Param { elem: Scalar::I32, source: ParamSource::Grid(GridAxis::X) }]);
        assert_eq!((rule.blocks([10, 1, 1], 8), rule.blocks([20, 1, 1], 8)), ([5, 1, 1], [8, 1, 1]));
    }

    #[test]
    fn persistent_kernels_count_positions() {
        let rule = GridRule::of(1, [1; 3], &[Param { elem: Scalar::I32, source: ParamSource::Grid(GridAxis::X) }]);
        let most = [i32::MAX as u32, 1, 1];
        assert_eq!(rule.check(most), Ok(()));
        assert_eq!(rule.check([1 << 30, 2, 1]), Err(GridError::Positions { grid: [1 << 30, 2, 1], max: MAX_POSITIONS }));
        assert_eq!((rule.blocks([5, 3, 2], 8), rule.blocks([5, 3, 2], 304), rule.blocks(most, 0)), ([8, 1, 1], [30, 1, 1], [1, 1, 1]));
    }
}
