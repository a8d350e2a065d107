//! What to do about a resource that runs out.

use std::fmt;
use tilelift_ir::{Precision, Scalar};

/// What to do about a resource that runs out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Remedy {
    /// Smaller tiles or fewer stages: these take shared memory at the same time.
    Memory(Vec<Taker>),
    /// A smaller buffer.
    Buffer,
    /// Fewer warps than are asked for.
    Warps,
    /// Fewer or smaller tasks.
    Tasks,
    /// A smaller tile, more factors of 2, or more warps.
    Tile,
    /// A smaller sort, whose lines are padded.
    Sort,
    /// Fewer elements for a lane.
    Code,
    /// A view of the buffer itself.
    View,
    /// One of a target's matrix instructions, instead of multiply-adds.
    Matrix {
        /// The target.
        target: &'static str,
        /// Its instructions.
        rows: Vec<Offer>,
    },
    /// Fewer columns at a time, or more registers.
    Product {
        /// Columns that fit.
        columns: Option<u32>,
        /// The task asks for registers, and can ask for more.
        asked: bool,
    },
    /// Registers of tasks.
    Registers {
        /// Who holds what.
        holders: Vec<Holder>,
        /// The task that asks for most.
        task: String,
        /// What it can have.
        most: Option<u32>,
    },
}

/// Who takes shared memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taker {
    /// What for.
    pub purpose: &'static str,
    /// How many allocations.
    pub count: u32,
    /// Their bytes.
    pub bytes: u64,
}

impl Taker {
    /// Allocations by what they are for, the largest first.
    pub fn list(allocations: impl IntoIterator<Item = (&'static str, u64)>) -> Vec<Taker> {
        let mut out: Vec<Taker> = Vec::new();
        for (purpose, bytes) in allocations {
            match out.iter_mut().find(|t| t.purpose == purpose) {
                Some(t) => (t.count, t.bytes) = (t.count + 1, t.bytes.saturating_add(bytes)),
                None => out.push(Taker { purpose, count: 1, bytes }),
            }
        }
        out.sort_by_key(|t| std::cmp::Reverse(t.bytes));
        out
    }
}

impl fmt::Display for Taker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => write!(f, "{} {}", self.purpose, self.bytes),
            n => write!(f, "{} {} ({n} times)", self.purpose, self.bytes),
        }
    }
}

/// A matrix instruction of a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    /// Types of operands A and B and of the accumulator.
    pub elems: [Scalar; 3],
    /// Its precision.
    pub precision: Precision,
    /// Rows, columns and depth.
    pub shape: [u32; 3],
}

/// Who holds registers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Holder {
    /// A task, with its line, or what is in none.
    pub who: String,
    /// Lanes.
    pub lanes: u32,
    /// Registers of each.
    pub registers: u32,
}

/// Writes a list with commas.
fn listed<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: impl IntoIterator<Item = T>) -> fmt::Result {
    items.into_iter().enumerate().try_for_each(|(n, x)| write!(f, "{}{x}", if n > 0 { ", " } else { "" }))
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Remedy::Memory(takers) => {
                f.write_str("it goes to: ")?;
                listed(f, takers)?;
                f.write_str("; use smaller tiles or fewer stages (`stages=`)")
            }
            Remedy::Buffer => f.write_str("use smaller buffers"),
            Remedy::Warps => f.write_str("ask for fewer with `warps=`"),
            Remedy::Tasks => f.write_str("use fewer or smaller tasks"),
            Remedy::Tile => f.write_str(
                "use a smaller tile, an extent with more factors of 2 (odd factors are held by every lane), or more warps (`warps=`)",
            ),
            Remedy::Sort => f.write_str("lines are padded to a power of two; sort a smaller tile or use more warps (`warps=`)"),
            Remedy::Code => f.write_str(
                "that is up to here, where every element that a lane holds takes instructions of its own: use smaller tiles, more warps, or a \
                 loop over parts",
            ),
            Remedy::View => f.write_str("make the view that is wanted of the buffer itself"),
            Remedy::Matrix { target, rows } => {
                write!(
                    f,
                    "use smaller tiles or more warps (`warps=`), or take types and extents of a matrix instruction of {target}: "
                )?;
                listed(f, rows)
            }
            Remedy::Product { columns, asked } => {
                if let Some(n) = columns {
                    write!(f, "multiply {n} columns or fewer at a time, or ")?;
                }
                f.write_str(match asked {
                    true => "give the task more registers",
                    false => "use fewer warps: all start with as many registers",
                })
            }
            Remedy::Registers { holders, task, most } => {
                listed(f, holders)?;
                match most {
                    Some(n) => write!(f, "; ask for {n} at most in task {task}"),
                    None => write!(f, "; use fewer warps, or let other tasks than {task} have fewer registers"),
                }
            }
        }
    }
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([a, b, acc], [m, n, k]) = (self.elems, self.shape);
        write!(f, "{a} and {b} into {acc} ({}) by {m}x{n}x{k}", self.precision)
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} lanes x {}", self.who, self.lanes, self.registers)
    }
}
