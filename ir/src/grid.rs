//! Grids of launches, and the program instances that they have.
//!
//! ```text
//! grid [4, 6, 1] of positions ── positions [1, 2, 1] of each instance ─► instances [4, 3, 1]
//! ```

/// The program instances of a launch grid, where each stands for so many neighbouring positions; `None` if these don't divide the grid.
pub fn instances(grid: [u32; 3], positions: [u32; 3]) -> Option<[u32; 3]> {
    let each = [0, 1, 2].map(|a| (grid[a].is_multiple_of(positions[a].max(1)), grid[a] / positions[a].max(1)));
    each.iter().all(|e| e.0).then_some(each.map(|e| e.1))
}

/// What the grids of a kernel's launches are like, beyond what the kernel says. Few facts, so that few texts serve all launches; each launch is checked for
/// what its text asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct GridFacts {
    /// What the extents are multiples of: powers of two, at most [`GridFacts::MOST`].
    pub multiple_of: [u32; 3],
    /// Positions at least: a power of two.
    pub positions: u32,
}

impl GridFacts {
    /// Most that is asked of an extent.
    pub const MOST: u32 = 16;

    /// Those of a grid; `None` of one without positions.
    pub fn of(grid: [u32; 3]) -> Option<GridFacts> {
        if grid.contains(&0) {
            return None;
        }
        let all = grid.iter().copied().fold(1, u32::saturating_mul);
        Some(GridFacts { multiple_of: grid.map(|e| 1 << e.trailing_zeros().min(GridFacts::MOST.ilog2())), positions: 1 << all.ilog2() })
    }
}
