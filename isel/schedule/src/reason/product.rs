//! Why group matrix instructions do not take a product, and why products have to wait for one another.

use crate::named::Named;
use std::fmt;
use tilelift_ir::{Op, Precision, Scalar, Value};

/// Why group matrix instructions do not take a product.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoProduct {
    /// Its right operand is not loaded in the loop, and can't be stored for the unit: rows are too short.
    Right {
        /// The product.
        result: Named,
    },
    /// Its right operand is to be rounded to tf32, and lanes copy it, who do not round.
    Unrounded {
        /// The product.
        result: Named,
    },
    /// Its operand A is not loaded in the loop, and the instruction takes none from registers.
    AFromRegisters {
        /// The product.
        result: Named,
        /// The instruction.
        instruction: &'static str,
    },
    /// The instruction takes no operand A from registers.
    NoRegisters {
        /// The instruction.
        instruction: &'static str,
    },
    /// Its operands are no matrices.
    NoMatrices,
    /// No instruction has these types.
    Types {
        /// Of left and right operand, and of the accumulator.
        elems: [Scalar; 3],
        /// How exact it is to be.
        precision: Precision,
    },
    /// It takes more warps than the task has.
    Warps {
        /// Warps of a group.
        group: u32,
    },
    /// Its extents are not made up of the instruction's.
    Shape {
        /// M, N and K.
        shape: [u32; 3],
        /// Warpgroups of the task that multiplies.
        groups: Option<u32>,
        /// M and K of the instruction.
        each: [u32; 2],
        /// What N is a multiple of, and how large it may be.
        columns: [u32; 2],
    },
    /// Accumulators lose bits over the depth of a step.
    Depth {
        /// Type of the operands.
        elem: Scalar,
        /// The depth over which they do not.
        most: u32,
        /// The depth of a step.
        depth: u32,
    },
    /// Its operands are not contiguous along K.
    AlongK {
        /// Their type.
        elem: Scalar,
        /// The left one could go through registers.
        through: bool,
    },
}

impl NoProduct {
    /// The value that the reason names.
    pub(super) fn value(&self) -> Option<Value> {
        match self {
            NoProduct::Right { result } | NoProduct::Unrounded { result } | NoProduct::AFromRegisters { result, .. } => Some(result.value),
            _ => None,
        }
    }
}

impl fmt::Display for NoProduct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoProduct::Right { result } => {
                write!(f, "the right operand of {result} is not loaded in the loop, nor stored for the unit: its rows are too short")
            }
            NoProduct::Unrounded { result } => write!(
                f,
                "the right operand of {result} is to be rounded to tf32, which bulk copies do and lanes that copy do not; its rows are no multiple of 16 bytes, or indices gather them"
            ),
            NoProduct::AFromRegisters { result, instruction } => {
                write!(f, "the operand A of {result} is not loaded in the loop, and {instruction} takes none from registers")
            }
            NoProduct::NoRegisters { instruction } => write!(f, "{instruction} takes no operand A from registers"),
            NoProduct::NoMatrices => f.write_str("group matrix instructions take matrices"),
            NoProduct::Types { elems: [a, b, acc], precision } => {
                write!(f, "no group matrix instruction multiplies {a} by {b} into {acc} with precision {precision}")
            }
            NoProduct::Warps { group } => write!(f, "it takes {group} warps of a task"),
            NoProduct::Shape { shape: [m, n, k], groups, each: [rows, depth], columns: [step, most] } => {
                write!(f, "{m}x{n}x{k}")?;
                if let Some(groups) = groups {
                    write!(f, " on {groups} warpgroups")?;
                }
                write!(f, " is not made up of {rows}xNx{depth}, N a multiple of {step} up to {most}")
            }
            NoProduct::Depth { elem, most, depth } => {
                write!(f, "accumulators of {elem} keep their bits over a depth of {most}; a step has {depth}")
            }
            NoProduct::AlongK { elem, through } => {
                let remedy = if *through { ", or the left one go through registers" } else { "" };
                write!(f, "operands of {elem} must be contiguous along K{remedy}")
            }
        }
    }
}

/// Why products of a loop have to wait for one another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotOverlapped {
    /// Its products and accumulators are one.
    OneAccumulator,
    /// A product is looked at in the step that makes it.
    LookedAt {
        /// The product.
        result: Named,
    },
    /// It has no two products one behind the other.
    OneProduct,
    /// Products read from shared memory what the step computes.
    Staged {
        /// What it computes.
        value: Named,
    },
    /// An instruction needs the accumulator of the step before.
    Needs {
        /// Its op.
        op: Op,
    },
    /// An operand of a product needs the accumulator of the step before.
    Operand {
        /// The product.
        result: Named,
    },
    /// A carried value needs the accumulator of the step before.
    Carried {
        /// The value.
        value: Named,
    },
}

impl NotOverlapped {
    /// The value that the reason names.
    pub(super) fn value(&self) -> Option<Value> {
        match self {
            NotOverlapped::LookedAt { result: v }
            | NotOverlapped::Operand { result: v }
            | NotOverlapped::Carried { value: v }
            | NotOverlapped::Staged { value: v } => Some(v.value),
            NotOverlapped::OneAccumulator | NotOverlapped::OneProduct | NotOverlapped::Needs { .. } => None,
        }
    }
}

impl fmt::Display for NotOverlapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotOverlapped::OneAccumulator => f.write_str("its products and accumulators are one"),
            NotOverlapped::LookedAt { result } => {
                write!(f, "{result} is looked at in the step that makes it, and made of what the step computes")
            }
            NotOverlapped::OneProduct => f.write_str("it has no two products one behind the other"),
            NotOverlapped::Staged { value } => write!(f, "products read {value} from shared memory, where each step stores it"),
            NotOverlapped::Needs { op } => write!(f, "{op} needs the accumulator of the step before"),
            NotOverlapped::Operand { result } => write!(f, "an operand of {result} needs the accumulator of the step before"),
            NotOverlapped::Carried { value } => write!(f, "the carried value {value} needs the accumulator of the step before"),
        }
    }
}
