//! What the seeds of a mix stand for: of six, four kernels of any ops, one whose loops go where memory says, one graph of kernels.

/// Seeds of which one is a graph's.
const EVERY: u64 = 6;

/// What a seed of a mix stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mixed {
    /// A kernel of any ops.
    Kernel,
    /// A kernel whose loops go where memory says.
    Loops,
    /// A graph of kernels, with its number among the graphs.
    Graph(u64),
}

impl Mixed {
    /// What a seed stands for.
    pub const fn of(seed: u64) -> Mixed {
        match seed % EVERY {
            2 => Mixed::Loops,
            5 => Mixed::Graph(seed / EVERY),
            _ => Mixed::Kernel,
        }
    }
}
