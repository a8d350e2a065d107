//! Positions of a grid and their numbers, x fastest.

/// All positions of a grid.
pub(crate) fn positions(grid: [u32; 3]) -> u64 {
    grid.iter().fold(1u64, |n, &e| n.saturating_mul(u64::from(e)))
}

/// The number of a position of a grid, x fastest.
pub(crate) fn number_of(grid: [u32; 3], [x, y, z]: [u32; 3]) -> u64 {
    u64::from(x) + u64::from(grid[0]) * (u64::from(y) + u64::from(grid[1]) * u64::from(z))
}

/// Program number `n` of a grid, x fastest.
pub(crate) fn program_at(grid: [u32; 3], n: u64) -> [u32; 3] {
    let [x, y, _] = grid.map(u64::from);
    [(n % x) as u32, (n / x % y) as u32, (n / x / y) as u32]
}
