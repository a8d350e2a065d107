//! What kernels the generator makes.

/// Which kernels, and how they may be judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Every op has one right answer, bit for bit: no approximate functions, and dots of small integers, whose sums are exact in
    /// any order. Outputs are compared bit by bit, where every NaN equals every other.
    Exact,
    /// Approximate functions, and dots of any numbers, stand right in front of stores; those outputs have a tolerance.
    Approx,
}

/// Ranges and ratios.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Judgement.
    pub mode: Mode,
    /// Most elements of a tile.
    pub max_elements: u32,
    /// Steps (an instruction or a small idiom each) of the outermost region.
    pub max_steps: u32,
    /// Deepest nesting of control.
    pub max_depth: u32,
    /// Estimated element operations after which the generator only stores what it has.
    pub max_work: u64,
    /// Most program instances.
    pub max_programs: u32,
    /// Chance of 256 that data and constants hold infinities, NaN, -0 and extreme numbers.
    pub specials: u32,
    /// Weight of dots among the steps (others have weights around 8).
    pub dots: u32,
    /// Weight of each control op among the steps.
    pub control: u32,
    /// Whether `f64` may meet division, square roots and matrices, and indices may be extreme.
    pub wild: bool,
}

impl Default for Config {
    /// Exact kernels of up to 4096 elements a tile and about a dozen steps.
    fn default() -> Config {
        Config {
            mode: Mode::Exact,
            max_elements: 4096,
            max_steps: 26,
            max_depth: 3,
            max_work: 2_500_000,
            max_programs: 4,
            specials: 64,
            dots: 5,
            control: 8,
            wild: true,
        }
    }
}

impl Config {
    /// Small tiles and few steps: for fuzzers, and to find short reproductions.
    pub fn small() -> Config {
        Config { max_elements: 256, max_steps: 6, max_work: 100_000, max_programs: 2, ..Config::default() }
    }

    /// The same with another mode.
    pub fn with_mode(mut self, mode: Mode) -> Config {
        self.mode = mode;
        self
    }
}
