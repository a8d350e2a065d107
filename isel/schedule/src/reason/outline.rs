//! A plan in numbers: what is said of it, without its instructions and layouts.

use super::not_specialised::NotSpecialised;
use std::fmt;

/// What is said of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outline {
    /// All warps copy and compute.
    Pipelined {
        /// Warps of a program instance.
        warps: u32,
        /// Stages of its loops.
        stages: u32,
        /// What a loop loads is ahead of its use.
        ahead: bool,
        /// Why it is not specialised.
        why: Box<NotSpecialised>,
    },
    /// One warp copies, the others compute.
    Specialised(LoopOutline),
    /// As the author's tasks say.
    Tasks {
        /// Warps of a program instance.
        warps: u32,
        /// The tasks.
        roles: Vec<RoleOutline>,
        /// Warpgroups of no task: first warp and number of warps, and the registers that they keep.
        idle: Vec<([u32; 2], u32)>,
    },
}

/// What is said of a specialised loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoopOutline {
    /// Consumer warpgroups of a set.
    pub consumers: u32,
    /// Consumer sets.
    pub consumer_sets: u32,
    /// Sets that take steps in turns.
    pub slices: u32,
    /// Slots of the ring.
    pub depth: u32,
    /// Bytes of a slot.
    pub stage_bytes: u32,
    /// Multiplication groups in flight.
    pub in_flight: u32,
    /// Registers per lane of producer and consumers, if they move.
    pub registers: Option<[u32; 2]>,
    /// Bytes through which results are stored in bulk, if they are; none where they take those of operands.
    pub stored_through: Option<u32>,
    /// Swizzle widths that are not the widest possible.
    pub narrow: Vec<u32>,
    /// Operands A go through registers.
    pub a_from_registers: bool,
    /// A warpgroup between producer and consumers transposes operands B.
    pub transposed: bool,
    /// Products are in flight while lanes compute.
    pub overlap: bool,
    /// Some of its products end a step later than they begin.
    pub late: bool,
    /// Consumer warpgroups multiply in turns.
    pub turns: bool,
    /// Tasks share columns, and one of them computes what all multiply by.
    pub columns: bool,
    /// An instance runs several grid positions.
    pub persistent: bool,
    /// The lanes of the producer copy operands.
    pub by_lanes: bool,
}

/// What is said of a task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoleOutline {
    /// Its name.
    pub name: String,
    /// First warp and number of warps.
    pub warps: [u32; 2],
    /// One lane does it all.
    pub single: bool,
    /// Registers per lane, if they change.
    pub registers: Option<u32>,
}

impl fmt::Display for Outline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outline::Pipelined { warps, ahead: false, why, .. } => {
                write!(f, "as written: {warps} warps, no loop loads ahead (not specialised: {why})")
            }
            Outline::Pipelined { warps, stages, why, .. } => {
                write!(f, "pipelined: {warps} warps, {stages} stages (not specialised: {why})")
            }
            Outline::Specialised(l) => l.fmt(f),
            Outline::Tasks { warps, roles, idle } => {
                write!(f, "explicit: {warps} warps")?;
                roles.iter().try_for_each(|r| r.fmt(f))?;
                idle.iter().try_for_each(|([first, warps], registers)| {
                    write!(f, ", no task on {first}..{} with {registers} registers", first + warps)
                })
            }
        }
    }
}

impl fmt::Display for LoopOutline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "specialised: 1 producer {}, {} consumer groups, ring of {} slots of {} bytes, {} multiplication groups in flight",
            if self.by_lanes { "group" } else { "warp" },
            self.consumers,
            self.depth,
            self.stage_bytes,
            self.in_flight
        )?;
        if self.consumer_sets > 1 {
            write!(f, ", {} ping-pong consumer sets", self.consumer_sets)?;
        }
        if self.slices > 1 {
            write!(f, ", steps in turns by {} consumer sets", self.slices)?;
        }
        match self.registers {
            Some([p, c]) => write!(f, ", registers {p} and {c}")?,
            None => f.write_str(", registers as they are")?,
        }
        match self.stored_through {
            None => f.write_str(", results stored by lanes")?,
            Some(0) => f.write_str(", results stored through the bytes of operands")?,
            Some(bytes) => write!(f, ", results stored through {bytes} bytes")?,
        }
        for (n, width) in self.narrow.iter().enumerate() {
            write!(f, "{}{width}", if n == 0 { ", swizzle of " } else { " and " })?;
        }
        if !self.narrow.is_empty() {
            f.write_str(" bytes")?;
        }
        if self.a_from_registers {
            f.write_str(", operands A through registers")?;
        }
        if self.transposed {
            f.write_str(", operands B transposed by a warpgroup")?;
        }
        if self.overlap {
            f.write_str(", products in flight while lanes compute")?;
        }
        if self.columns {
            f.write_str(", columns shared by tasks of which one computes what all multiply by")?;
        }
        if self.late {
            f.write_str(", products that end an iteration later")?;
        }
        if self.turns {
            f.write_str(", warpgroups in turns")?;
        }
        f.write_str(if self.persistent { ", persistent" } else { ", one grid position each" })
    }
}

impl fmt::Display for RoleOutline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", {} on {}..{}", self.name, self.warps[0], self.warps[0] + self.warps[1])?;
        if self.single {
            f.write_str(" (one lane)")?;
        }
        self.registers.map_or(Ok(()), |n| write!(f, " with {n} registers"))
    }
}
