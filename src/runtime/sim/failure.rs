//! Why a launch on a simulator failed.

use crate::launch::{TensorParam, Unfilled};
use std::fmt;
use tilelift_amdgcn_sim as amd;
use tilelift_interp::ArgError;
use tilelift_nvptx_sim as ptx;

/// Why a launch on the simulator failed.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub enum SimFailure {
    /// The text does not parse, or uses an instruction that is not modelled.
    Parse(ptx::ParseError),
    /// The arguments break what the kernel's parameters promise.
    Args(ArgError),
    /// The arguments do not fill the launch parameters.
    Abi(Unfilled),
    /// The text does something that no hardware defines.
    Run(Box<ptx::SimError>),
    /// A launch parameter that the simulator has no form of.
    Tensor(ptx::TensorMapError),
    /// The grid is no multiple of the positions that an instance stands for.
    Positions {
        /// The grid.
        grid: [u32; 3],
        /// Positions of an instance along each axis.
        positions: [u32; 3],
    },
    /// The grid is no multiple of the kernel's clusters along x.
    Cluster {
        /// The grid.
        grid: [u32; 3],
        /// Program instances of a cluster.
        cluster: u32,
    },
    /// Simulated memory could not be read back.
    Memory(ptx::MemoryError),
    /// A launch parameter that no code object takes.
    Argument(TensorParam),
    /// The code object is none, or not one that the simulator knows.
    Load(amd::LoadError),
    /// The code does something that no hardware defines.
    Fault(Box<amd::Fault>),
    /// Memory of the simulated AMD device could not be read back.
    DeviceMemory(amd::MemoryError),
}

impl fmt::Display for SimFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SimFailure::Parse(e) => write!(f, "the simulator does not understand the text: {e}"),
            SimFailure::Args(e) => e.fmt(f),
            SimFailure::Abi(e) => e.fmt(f),
            SimFailure::Run(e) => e.fmt(f),
            SimFailure::Tensor(e) => write!(f, "the simulator does not take a launch parameter: {e}; run on hardware, or pipelined"),
            SimFailure::Positions { grid, positions } => {
                write!(f, "the grid {grid:?} is no multiple of {positions:?}, the positions of an instance; pad it")
            }
            SimFailure::Cluster { grid, cluster } => {
                write!(f, "the grid {grid:?} is no multiple of clusters of {cluster} along x; pad it")
            }
            SimFailure::Memory(e) => e.fmt(f),
            SimFailure::Argument(e) => e.fmt(f),
            SimFailure::Load(e) => write!(f, "the simulator does not take the code object: {e}"),
            SimFailure::Fault(e) => e.fmt(f),
            SimFailure::DeviceMemory(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for SimFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SimFailure::Parse(e) => Some(e),
            SimFailure::Args(e) => Some(e),
            SimFailure::Abi(e) => Some(e),
            SimFailure::Run(e) => Some(e),
            SimFailure::Tensor(e) => Some(e),
            SimFailure::Positions { .. } | SimFailure::Cluster { .. } => None,
            SimFailure::Memory(e) => Some(e),
            SimFailure::Argument(e) => Some(e),
            SimFailure::Load(e) => Some(e),
            SimFailure::Fault(e) => Some(e),
            SimFailure::DeviceMemory(e) => Some(e),
        }
    }
}
