//! What a trial is made of, axis by axis: so that a run can say what it covered.

use std::collections::BTreeSet;
use std::fmt;
use tilelift_isel::{Lowered, Schedule};

/// What kernels are told apart by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Axis {
    /// Where the kernel comes from: a family of the generator.
    Family,
    /// How its main loop runs.
    Schedule,
    /// Types of the operands of its products.
    Operands,
    /// Where operands A are.
    OperandA,
    /// How matrices of the operands are stored.
    Storage,
    /// Whether views have a batch dimension, and where.
    Batch,
    /// How sums are kept.
    Sums,
    /// Iterations of the main loop.
    Iterations,
    /// Dimensions that no tiles divide.
    Ragged,
    /// Products of an iteration.
    Products,
    /// How consumers share the work.
    Consumers,
    /// Instances that run several grid positions.
    Positions,
    /// Slots of the ring.
    Slots,
    /// Swizzle widths of the operands.
    Swizzle,
    /// What is done to sums.
    Epilogue,
    /// How results are stored.
    Stores,
    /// Types of results.
    Results,
    /// Products in flight while lanes compute.
    Overlap,
    /// Level of optimisation.
    Level,
    /// Whether what was decided is written as a program.
    Program,
    /// How a loop goes through its depth.
    Walk,
    /// What its loops stand in.
    Nest,
    /// What an iteration does.
    Body,
    /// Warps that the kernel asks for.
    Warps,
    /// Why a loop is not specialised.
    Pipelined,
}

impl Axis {
    /// Every axis, in the order of reports.
    pub const ALL: &'static [Axis] = &[
        Axis::Family,
        Axis::Schedule,
        Axis::Operands,
        Axis::OperandA,
        Axis::Storage,
        Axis::Batch,
        Axis::Sums,
        Axis::Iterations,
        Axis::Ragged,
        Axis::Products,
        Axis::Consumers,
        Axis::Positions,
        Axis::Slots,
        Axis::Swizzle,
        Axis::Epilogue,
        Axis::Stores,
        Axis::Results,
        Axis::Overlap,
        Axis::Level,
        Axis::Program,
        Axis::Walk,
        Axis::Nest,
        Axis::Body,
        Axis::Warps,
        Axis::Pipelined,
    ];

    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            Axis::Family => "family",
            Axis::Schedule => "schedule",
            Axis::Operands => "operands",
            Axis::OperandA => "operand A",
            Axis::Storage => "storage",
            Axis::Batch => "batch",
            Axis::Sums => "sums",
            Axis::Iterations => "iterations",
            Axis::Ragged => "ragged",
            Axis::Products => "products",
            Axis::Consumers => "consumers",
            Axis::Positions => "positions",
            Axis::Slots => "slots",
            Axis::Swizzle => "swizzle",
            Axis::Epilogue => "epilogue",
            Axis::Stores => "stores",
            Axis::Results => "results",
            Axis::Overlap => "overlap",
            Axis::Level => "level",
            Axis::Program => "program",
            Axis::Walk => "walk",
            Axis::Nest => "nest",
            Axis::Body => "body",
            Axis::Warps => "warps",
            Axis::Pipelined => "pipelined, as",
        }
    }

    /// The axis of that name.
    pub fn from_word(word: &str) -> Option<Axis> {
        Axis::ALL.iter().copied().find(|a| a.word() == word)
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The classes that a trial belongs to: of some axes none, of others several.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Classes(BTreeSet<(Axis, String)>);

impl Classes {
    /// Adds one.
    pub fn add(&mut self, axis: Axis, name: impl fmt::Display) {
        self.0.insert((axis, name.to_string()));
    }

    /// True if it is there.
    pub fn has(&self, axis: Axis, name: &str) -> bool {
        self.0.iter().any(|(a, n)| *a == axis && n == name)
    }

    /// All, by axis.
    pub fn iter(&self) -> impl Iterator<Item = (Axis, &str)> {
        self.0.iter().map(|(a, n)| (*a, n.as_str()))
    }

    /// Adds what is decided while the kernel is compiled.
    pub fn add_lowered(&mut self, lowered: &Lowered) {
        match &lowered.plan.schedule {
            Schedule::Pipelined { why } => {
                self.add(Axis::Schedule, "pipelined");
                self.add(Axis::Pipelined, without_numbers(&first_sentence(&why.to_string())));
            }
            Schedule::Explicit(_) => self.add(Axis::Schedule, "explicit"),
            Schedule::Specialised(s) => {
                self.add(Axis::Schedule, "specialised");
                match (s.consumer_sets, s.consumers) {
                    (1, n) => self.add(Axis::Consumers, format_args!("cooperative, {n}")),
                    (_, n) => self.add(Axis::Consumers, format_args!("ping-pong, {n} each")),
                }
                self.add(Axis::Positions, if s.persistent { "persistent" } else { "one each" });
                self.add(Axis::Slots, s.depth);
                self.add(Axis::Sums, if s.promoted { "promoted" } else { "in the unit" });
                if s.register_a.len() < s.dots.len() && !s.mixed {
                    self.add(Axis::OperandA, "shared memory");
                }
                if !s.register_a.is_empty() {
                    self.add(Axis::OperandA, "ring through registers");
                }
                for (_, tile) in &s.loads {
                    self.add(Axis::Swizzle, tile.swizzle);
                }
                self.add(Axis::Products, s.dots.len());
                if !s.stores.is_empty() {
                    self.add(Axis::Stores, "bulk");
                }
                let overlapped = s.overlap.as_ref().map(|o| if o.hold { "in flight, held" } else { "in flight" });
                self.add(Axis::Overlap, overlapped.unwrap_or(if s.mixed { "waited for" } else { "nothing between" }));
            }
        }
        match &lowered.written {
            Some(Ok(_)) => self.add(Axis::Program, "written"),
            Some(Err(why)) => self.add(Axis::Program, format_args!("not written: {}", without_numbers(&why.to_string()))),
            None => self.add(Axis::Program, "the author's"),
        }
    }
}

/// The first sentence of a reason.
pub(crate) fn first_sentence(text: &str) -> String {
    text.split(['\n', ';']).next().unwrap_or(text).to_owned()
}

/// A sentence in which numbers are blotted out, so that reasons can be counted.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if !c.is_ascii_digit() {
            out.push(c);
        } else if !out.ends_with('#') {
            out.push('#');
        }
    }
    out
}
