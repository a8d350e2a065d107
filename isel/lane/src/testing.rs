//! For tests of those who consume lane programs: a program written instruction by instruction, and a machine to run it on.

mod asm;
mod everything;
mod machine;

pub use asm::{Asm, args, memory};
pub use everything::{EVERYTHING, everything};
pub use machine::target;

/// A deterministic stream of numbers.
pub struct Random(pub u64);

impl Random {
    /// The next 31-bit number.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}
