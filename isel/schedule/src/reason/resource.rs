//! What runs out.

use std::fmt;

/// What a program uses, and a target has so much of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Resource {
    /// Bytes of shared memory of a program instance.
    SharedMemory,
    /// Warps of a program instance.
    Warps,
    /// Elements of one tile that a lane holds.
    TileRegisters,
    /// Registers of a lane for the operands of one product.
    ProductRegisters,
    /// Registers of all tasks.
    TaskRegisters,
    /// Multiply-adds of a lane for one dot.
    MultiplyAdds,
    /// Lane instructions of a program.
    Code,
    /// Views of views of a buffer, or of barriers.
    Views,
}

impl Resource {
    /// True if the compiler sets the bound, so that programs stay of a size that can be compiled; others are the target's.
    pub fn is_limit_of_compiler(self) -> bool {
        matches!(self, Resource::TileRegisters | Resource::MultiplyAdds | Resource::Code | Resource::Views)
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Resource::SharedMemory => "shared memory (bytes)",
            Resource::Warps => "warps",
            Resource::TileRegisters => "elements of one tile per lane",
            Resource::ProductRegisters => "registers per lane for a product",
            Resource::TaskRegisters => "registers of tasks",
            Resource::MultiplyAdds => "multiply-adds per lane (this dot has no matrix instruction)",
            Resource::Code => "lane instructions",
            Resource::Views => "views (of one another, up to the buffer)",
        })
    }
}
