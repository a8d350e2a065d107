//! Where a task runs.

use tilelift_ir::Region;

/// A replica of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskRole {
    /// The task's name.
    pub task: String,
    /// The same, with the replica's number if there are several.
    pub name: String,
    /// Its region.
    pub region: Region,
    /// The replica's number.
    pub replica: u32,
    /// First warp and number of warps.
    pub warps: [u32; 2],
    /// Warps behind them that only take part in the change of registers.
    pub idle: u32,
    /// One lane does it all.
    pub single: bool,
    /// Registers per lane.
    pub registers: Option<u32>,
}
