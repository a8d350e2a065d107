//! The rules of the physical stage: how a layout of one operand or result of an instruction says those of the others. What it says is in the
//! table of [`tilelift_ir::propagate`]; a rule names it, and says from which values it starts.
//!
//! Read from the result to the operands, a rule moves a conversion past its op: `convert (f x y) = f (convert x) (convert y)`. Read the
//! other way, it lets an op run in the layout in which an operand is there. Where the rule needs no operand, the conversion is
//! replaced by computing again.

use super::problem::InstLayouts;
use std::rc::Rc;
use tilelift_ir::layout::Layout;
use tilelift_ir::propagate::{Map, Pass, Touch, pass_at, passage};
use tilelift_ir::{Inst, Kernel, Value};

/// Which of an instruction's values a rule starts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Starts {
    /// Any of them.
    Anywhere,
    /// An operand.
    Operand,
    /// A result.
    Result,
}

/// A rule.
#[derive(Debug)]
pub struct LayoutRule {
    /// Its name, unique.
    pub name: &'static str,
    /// What it says.
    pub says: &'static str,
    /// The ops that it looks at, by what they do to layouts.
    pub ops: &'static [Pass],
    /// Where it starts.
    starts: Starts,
    /// So many elements of one side may belong to one of the other.
    most: u64,
    /// A program, and values of it that are run in several layouts: it applies.
    pub fires: &'static str,
    /// A program in which it does not apply.
    pub keeps: &'static str,
}

/// The name under which values that control carries get their candidates.
pub const CARRIED: &str = "carried-together";
/// The name of conversions.
pub const CONVERT: &str = "convert";
/// The name of what machines propose.
pub const ANCHOR: &str = "anchor";
/// The name of the plain assignment's layouts.
pub const PLAIN: &str = "plain";

/// Every rule.
pub fn all() -> &'static [LayoutRule] {
    RULES
}

/// True if a run of an instruction is one that a rule gives for the layout of its first operand or result.
pub fn follows(k: &Kernel, i: Inst, run: &InstLayouts) -> bool {
    let pass = pass_at(k, i);
    let touches = [(Touch::Operand(0), run.operands.first()), (Touch::Result(0), run.results.first())];
    RULES
        .iter()
        .filter(|r| r.ops.contains(&pass))
        .any(|r| touches.iter().any(|(t, l)| l.and_then(Option::as_ref).is_some_and(|l| r.run(k, i, *t, l).as_ref() == Some(run))))
}

impl LayoutRule {
    /// The way to run an instruction that follows from the layout of one of its values: both sides' layouts by the table of
    /// [`tilelift_ir::propagate`]. `None` unless these are all its tiles.
    pub(crate) fn run(&self, k: &Kernel, i: Inst, touch: Touch, l: &Rc<Layout>) -> Option<InstLayouts> {
        match (self.starts, touch) {
            (Starts::Operand, Touch::Result(_)) | (Starts::Result, Touch::Operand(_)) => return None,
            (Starts::Anywhere, _) | (Starts::Operand, Touch::Operand(_)) | (Starts::Result, Touch::Result(_)) => {}
        }
        let p = passage(k, i).filter(|p| p.map.ratio() <= self.most)?;
        let [near, far] = match p.map {
            Map::Same => [l.clone(), l.clone()],
            _ => p.lays(touch, l)?.map(Rc::new),
        };
        let d = &k.insts[i];
        let lays = |t: Touch, v: Value| match k.ty(v).as_tile() {
            None => Some(None),
            Some(tile) => {
                let l = if p.near.contains(&t) {
                    &near
                } else if p.far.contains(&t) {
                    &far
                } else {
                    return None;
                };
                (l.shape() == &tile.shape[..]).then(|| Some(l.clone()))
            }
        };
        Some(InstLayouts {
            operands: d.args.iter().enumerate().map(|(n, &v)| lays(Touch::Operand(n), v)).collect::<Option<_>>()?,
            results: d.results.iter().enumerate().map(|(n, &v)| lays(Touch::Result(n), v)).collect::<Option<_>>()?,
        })
    }
}

/// Copies that a lane may hold of an element that is widened.
const FEW_COPIES: u64 = 4;

const RULES: &[LayoutRule] = &[
    LayoutRule {
        name: "through-elementwise",
        says: "convert (f x y) = f (convert x) (convert y), for every op that works element by element",
        ops: &[Pass::Elementwise, Pass::Held],
        starts: Starts::Anywhere,
        most: u64::MAX,
        fires: "v20 = add a, b",
        keeps: "v20 = transpose a, [1, 0]",
    },
    LayoutRule {
        name: "compute-again",
        says: "convert (splat s) = splat s, iotas and reshaped scalars likewise: they are made in any layout",
        ops: &[Pass::Born],
        starts: Starts::Result,
        most: u64::MAX,
        fires: "v20 = splat s : tile<16x32xf32>",
        keeps: "v20 = reshape a : tile<32x16xf32>",
    },
    LayoutRule {
        name: "through-broadcast",
        says: "convert (broadcast x) = broadcast (convert x), x in the layout with the widened dimensions taken away",
        ops: &[Pass::Broadcast],
        starts: Starts::Result,
        most: u64::MAX,
        fires: "v20 = broadcast c : tile<16x32xf32>",
        keeps: "v20 = add a, b",
    },
    LayoutRule {
        name: "broadcast-in-lane",
        says: "broadcast (convert x) = convert (broadcast x), for up to 4 copies of an element, which lie in the lane that has it",
        ops: &[Pass::Broadcast],
        starts: Starts::Operand,
        most: FEW_COPIES,
        fires: "v20 = broadcast c : tile<16x2xf32>",
        keeps: "v20 = broadcast c : tile<16x32xf32>",
    },
    LayoutRule {
        name: "through-transpose",
        says: "convert (transpose x) = transpose (convert x)",
        ops: &[Pass::Transpose],
        starts: Starts::Anywhere,
        most: u64::MAX,
        fires: "v20 = transpose a, [1, 0]",
        keeps: "v20 = add a, b",
    },
    LayoutRule {
        name: "through-reshape",
        says: "convert (reshape x) = reshape (convert x), where no odd factor of an extent is cut",
        ops: &[Pass::Reshape],
        starts: Starts::Anywhere,
        most: u64::MAX,
        fires: "v20 = reshape a : tile<8x64xf32>",
        keeps: "v20 = add a, b",
    },
    LayoutRule {
        name: "through-reduce",
        says: "reduce (convert x) = convert (reduce x): the order of a reduction is its own, so it runs in any layout at its true cost",
        ops: &[Pass::Reduce],
        starts: Starts::Operand,
        most: u64::MAX,
        fires: "v20 = reduce add a, axis 1",
        keeps: "v20 = add a, b",
    },
    LayoutRule {
        name: "through-scan",
        says: "scan (convert x) = convert (scan x), flips likewise",
        ops: &[Pass::Along],
        starts: Starts::Anywhere,
        most: u64::MAX,
        fires: "v20 = scan add a, axis 1",
        keeps: "v20 = add a, b",
    },
    LayoutRule {
        name: "through-join",
        says: "convert (join x y) = join (convert x) (convert y), the new dimension in registers",
        ops: &[Pass::Join],
        starts: Starts::Anywhere,
        most: u64::MAX,
        fires: "v20 = join a, b",
        keeps: "v20 = add a, b",
    },
    LayoutRule {
        name: "through-split",
        says: "split (convert x) = convert of both halves, the dimension that goes in registers",
        ops: &[Pass::Split],
        starts: Starts::Anywhere,
        most: u64::MAX,
        fires: "v20 = join a, b\nv21, v22 = split v20",
        keeps: "v20 = add a, b",
    },
    LayoutRule {
        name: "through-concat",
        says: "concat (convert x) (convert y) = convert (concat x y), for parts of one shape",
        ops: &[Pass::Concat],
        starts: Starts::Operand,
        most: u64::MAX,
        fires: "v20 = concat a, b, axis 0",
        keeps: "v20 = add a, b",
    },
    LayoutRule {
        name: "through-slice",
        says: "slice (convert x) = convert (slice x), for one chunk of several whose numbers lie in registers",
        ops: &[Pass::Slice],
        starts: Starts::Anywhere,
        most: u64::MAX,
        fires: "v20 = slice a, [0, 0] : tile<8x32xf32>",
        keeps: "v20 = add a, b",
    },
    LayoutRule {
        name: "load-so",
        says: "convert (load p) = load p in that layout, at what its sectors cost; gathers likewise",
        ops: &[Pass::Read],
        starts: Starts::Result,
        most: u64::MAX,
        fires: "v20 = load p[r, 0] : tile<16x32xf32>\nv21 = add v20, a",
        keeps: "v20 = add a, b",
    },
    LayoutRule {
        name: "store-so",
        says: "store (convert x) = store x as it lies, at what its sectors cost; scatters likewise",
        ops: &[Pass::Write],
        starts: Starts::Anywhere,
        most: u64::MAX,
        fires: "store p[r, 0], a",
        keeps: "v20 = add a, b",
    },
];
