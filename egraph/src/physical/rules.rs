//! The rules of the physical stage: how a layout of one operand or result of an instruction says those of the others.
//!
//! Read from the result to the operands, a rule moves a conversion past its op: `convert (f x y) = f (convert x) (convert y)`. Read the
//! other way, it lets an op run in the layout in which an operand is there. Where the rule needs no operand, the conversion is
//! replaced by computing again.

use super::{Form, Layouts};
use std::rc::Rc;
use tilelift_ir::layout::Layout;
use tilelift_ir::ops::Rule as Typing;
use tilelift_ir::{Attr, Inst, Kernel, Type};

/// Which of an instruction's values has the layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touch {
    /// An operand.
    Operand(usize),
    /// A result.
    Result(usize),
}

/// A rule.
#[derive(Debug)]
pub struct Rule {
    /// Its name, unique.
    pub name: &'static str,
    /// What it says.
    pub says: &'static str,
    /// The ops that it looks at, by their typing.
    pub ops: &'static [Typing],
    /// The way to run an instruction that follows from one layout.
    pub(crate) form: fn(&Kernel, Inst, Touch, &Rc<Layout>) -> Option<Form>,
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
pub fn all() -> &'static [Rule] {
    RULES
}

/// True if a form is one that a rule gives for the layout of its first operand or result.
pub fn follows(k: &Kernel, i: Inst, form: &Form) -> bool {
    let typing = k.insts[i].op.info().rule;
    let touches = [(Touch::Operand(0), form.operands.first()), (Touch::Result(0), form.results.first())];
    RULES
        .iter()
        .filter(|r| r.ops.contains(&typing))
        .any(|r| touches.iter().any(|(t, l)| l.and_then(Option::as_ref).is_some_and(|l| (r.form)(k, i, *t, l).as_ref() == Some(form))))
}

fn tile(k: &Kernel, v: tilelift_ir::Value) -> Option<&[u32]> {
    match k.ty(v) {
        Type::Tile(t) => Some(&t.shape),
        Type::Scalar(_) | Type::View(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => None,
    }
}

/// One layout for every tile among operands and results.
fn everywhere(k: &Kernel, i: Inst, l: &Rc<Layout>) -> Option<Form> {
    let d = &k.insts[i];
    let fits = |v: &tilelift_ir::Value| tile(k, *v).is_none_or(|s| s == l.shape());
    if !d.args.iter().chain(&d.results).all(fits) {
        return None;
    }
    let of = |v: &tilelift_ir::Value| tile(k, *v).map(|_| l.clone());
    Some(Form { operands: d.args.iter().map(of).collect(), results: d.results.iter().map(of).collect() })
}

/// A form of an instruction with one tile operand, the first, and one result.
fn one(k: &Kernel, i: Inst, operand: Layout, result: Layout) -> Form {
    let d = &k.insts[i];
    let mut operands: Layouts = d.args.iter().map(|_| None).collect();
    operands[0] = tile(k, d.args[0]).map(|_| Rc::new(operand));
    let results = d.results.iter().map(|&v| tile(k, v).map(|_| Rc::new(result.clone()))).collect();
    Form { operands, results }
}

fn dim(k: &Kernel, i: Inst) -> Option<usize> {
    k.insts[i].attrs.iter().find_map(|a| if let Attr::Dim(d) = a { Some(*d as usize) } else { None })
}

fn elementwise(k: &Kernel, i: Inst, _: Touch, l: &Rc<Layout>) -> Option<Form> {
    everywhere(k, i, l)
}

fn born(k: &Kernel, i: Inst, touch: Touch, l: &Rc<Layout>) -> Option<Form> {
    let scalars = k.insts[i].args.iter().all(|&a| tile(k, a).is_none());
    if scalars && matches!(touch, Touch::Result(_)) { everywhere(k, i, l) } else { None }
}

fn broadcast(k: &Kernel, i: Inst, touch: Touch, l: &Rc<Layout>) -> Option<Form> {
    let d = &k.insts[i];
    let (from, to) = (tile(k, d.args[0])?, tile(k, d.results[0])?);
    let Touch::Result(_) = touch else { return None };
    let operand = (0..to.len()).filter(|&x| from[x] != to[x]).fold((**l).clone(), |l, x| l.with_dim_broadcast(x));
    Some(one(k, i, operand, (**l).clone()))
}

/// Copies that a lane may hold of an element that is widened.
const FEW_COPIES: u32 = 4;

/// A broadcast to few copies, which lie in the registers of the lane that has the element.
fn broadcast_in_lane(k: &Kernel, i: Inst, touch: Touch, l: &Rc<Layout>) -> Option<Form> {
    let d = &k.insts[i];
    let (from, to) = (tile(k, d.args[0])?, tile(k, d.results[0])?);
    let Touch::Operand(_) = touch else { return None };
    let widened: Vec<usize> = (0..to.len()).filter(|&x| from[x] != to[x]).collect();
    if widened.iter().map(|&x| to[x]).product::<u32>() > FEW_COPIES {
        return None;
    }
    let result = widened.iter().try_fold((**l).clone(), |l, &x| l.broadcast(x, to[x]).ok())?;
    let operand = widened.iter().fold(result.clone(), |l, &x| l.with_dim_broadcast(x));
    Some(one(k, i, operand, result))
}

fn transpose(k: &Kernel, i: Inst, touch: Touch, l: &Rc<Layout>) -> Option<Form> {
    let Some(Attr::Perm(p)) = k.insts[i].attrs.first() else { return None };
    let p: Vec<usize> = p.iter().map(|&x| x as usize).collect();
    let mut inverse = vec![0; p.len()];
    p.iter().enumerate().for_each(|(at, &x)| inverse[x] = at);
    match touch {
        Touch::Operand(_) => Some(one(k, i, (**l).clone(), l.transpose(&p).ok()?)),
        Touch::Result(_) => Some(one(k, i, l.transpose(&inverse).ok()?, (**l).clone())),
    }
}

fn reshape(k: &Kernel, i: Inst, touch: Touch, l: &Rc<Layout>) -> Option<Form> {
    let d = &k.insts[i];
    let (from, to) = (tile(k, d.args[0])?, tile(k, d.results[0])?);
    let operand = match touch {
        Touch::Operand(_) => (**l).clone(),
        Touch::Result(_) => l.reshape(from).ok()?,
    };
    let result = operand.reshape(to).ok()?;
    Some(one(k, i, operand, result))
}

fn reduce(k: &Kernel, i: Inst, touch: Touch, l: &Rc<Layout>) -> Option<Form> {
    let Touch::Operand(0) = touch else { return None };
    Some(one(k, i, (**l).clone(), l.slice(dim(k, i)?)))
}

fn along(k: &Kernel, i: Inst, _: Touch, l: &Rc<Layout>) -> Option<Form> {
    everywhere(k, i, l)
}

fn join(k: &Kernel, i: Inst, touch: Touch, l: &Rc<Layout>) -> Option<Form> {
    let last = tile(k, k.insts[i].args[0])?.len();
    let result = match touch {
        Touch::Operand(_) => l.expand_dims(last).broadcast(last, 2).ok()?,
        Touch::Result(_) if l.in_registers(last) => (**l).clone(),
        Touch::Result(_) => return None,
    };
    let operand = Rc::new(result.slice(last));
    Some(Form {
        operands: [Some(operand.clone()), Some(operand)].into_iter().collect(),
        results: [Some(Rc::new(result))].into_iter().collect(),
    })
}

fn split(k: &Kernel, i: Inst, touch: Touch, l: &Rc<Layout>) -> Option<Form> {
    let last = tile(k, k.insts[i].args[0])?.len().checked_sub(1)?;
    tile(k, k.insts[i].results[0])?;
    let operand = match touch {
        Touch::Operand(_) if l.in_registers(last) => (**l).clone(),
        Touch::Operand(_) => return None,
        Touch::Result(_) => l.expand_dims(last).broadcast(last, 2).ok()?,
    };
    let result = operand.slice(last);
    Some(one(k, i, operand, result))
}

fn concat(k: &Kernel, i: Inst, touch: Touch, l: &Rc<Layout>) -> Option<Form> {
    let (d, axis) = (&k.insts[i], dim(k, i)?);
    let (x, y) = (tile(k, d.args[0])?, tile(k, d.args[1])?);
    let Touch::Operand(_) = touch else { return None };
    if x != y {
        return None;
    }
    let mut shape = x.to_vec();
    shape[axis] *= 2;
    let result = l.expand_dims(axis).broadcast(axis, 2).ok()?.reshape(&shape).ok()?;
    Some(Form {
        operands: [Some(l.clone()), Some(l.clone())].into_iter().collect(),
        results: [Some(Rc::new(result))].into_iter().collect(),
    })
}

/// A slice that cuts one dimension into whole chunks and takes one of them.
fn slice(k: &Kernel, i: Inst, touch: Touch, l: &Rc<Layout>) -> Option<Form> {
    let d = &k.insts[i];
    let (from, to) = (tile(k, d.args[0])?, tile(k, d.results[0])?);
    let Some(Attr::Offsets(offsets)) = d.attrs.first() else { return None };
    let cut: Vec<usize> = (0..from.len()).filter(|&x| from[x] != to[x]).collect();
    let &[axis] = &cut[..] else { return None };
    if !from[axis].is_multiple_of(to[axis]) || !offsets[axis].is_multiple_of(to[axis]) {
        return None;
    }
    let mut chunked = to.to_vec();
    chunked.insert(axis, from[axis] / to[axis]);
    let operand = match touch {
        Touch::Operand(_) => (**l).clone(),
        Touch::Result(_) => l.expand_dims(axis).broadcast(axis, chunked[axis]).ok()?.reshape(from).ok()?,
    };
    let chunks = operand.reshape(&chunked).ok()?;
    if !chunks.in_registers(axis) {
        return None;
    }
    let result = chunks.slice(axis);
    Some(one(k, i, operand, result))
}

fn load(k: &Kernel, i: Inst, touch: Touch, l: &Rc<Layout>) -> Option<Form> {
    if matches!(touch, Touch::Result(_)) { everywhere(k, i, l) } else { None }
}

fn store(k: &Kernel, i: Inst, _: Touch, l: &Rc<Layout>) -> Option<Form> {
    everywhere(k, i, l)
}

const RULES: &[Rule] = &[
    Rule {
        name: "through-elementwise",
        says: "convert (f x y) = f (convert x) (convert y), for every op that works element by element",
        ops: &[
            Typing::SameNumber,
            Typing::SameFloat,
            Typing::SameInt,
            Typing::SameBits,
            Typing::Compare,
            Typing::Select,
            Typing::Cast,
            Typing::Bitcast,
            Typing::Philox,
            Typing::Held,
            Typing::Assert,
        ],
        form: elementwise,
        fires: "v20 = add a, b",
        keeps: "v20 = transpose a, [1, 0]",
    },
    Rule {
        name: "compute-again",
        says: "convert (splat s) = splat s, iotas and reshaped scalars likewise: they are made in any layout",
        ops: &[Typing::Iota, Typing::Splat, Typing::Reshape],
        form: born,
        fires: "v20 = splat s : tile<16x32xf32>",
        keeps: "v20 = reshape a : tile<32x16xf32>",
    },
    Rule {
        name: "through-broadcast",
        says: "convert (broadcast x) = broadcast (convert x), x in the layout with the widened dimensions taken away",
        ops: &[Typing::Broadcast],
        form: broadcast,
        fires: "v20 = broadcast c : tile<16x32xf32>",
        keeps: "v20 = add a, b",
    },
    Rule {
        name: "broadcast-in-lane",
        says: "broadcast (convert x) = convert (broadcast x), for up to 4 copies of an element, which lie in the lane that has it",
        ops: &[Typing::Broadcast],
        form: broadcast_in_lane,
        fires: "v20 = broadcast c : tile<16x2xf32>",
        keeps: "v20 = broadcast c : tile<16x32xf32>",
    },
    Rule {
        name: "through-transpose",
        says: "convert (transpose x) = transpose (convert x)",
        ops: &[Typing::Transpose],
        form: transpose,
        fires: "v20 = transpose a, [1, 0]",
        keeps: "v20 = add a, b",
    },
    Rule {
        name: "through-reshape",
        says: "convert (reshape x) = reshape (convert x), where no odd factor of an extent is cut",
        ops: &[Typing::Reshape],
        form: reshape,
        fires: "v20 = reshape a : tile<8x64xf32>",
        keeps: "v20 = add a, b",
    },
    Rule {
        name: "through-reduce",
        says: "reduce (convert x) = convert (reduce x): the order of a reduction is its own, so it runs in any layout at its true cost",
        ops: &[Typing::Reduce, Typing::ArgReduce],
        form: reduce,
        fires: "v20 = reduce add a, axis 1",
        keeps: "v20 = add a, b",
    },
    Rule {
        name: "through-scan",
        says: "scan (convert x) = convert (scan x), flips likewise",
        ops: &[Typing::Scan, Typing::Flip],
        form: along,
        fires: "v20 = scan add a, axis 1",
        keeps: "v20 = add a, b",
    },
    Rule {
        name: "through-join",
        says: "convert (join x y) = join (convert x) (convert y), the new dimension in registers",
        ops: &[Typing::Join],
        form: join,
        fires: "v20 = join a, b",
        keeps: "v20 = add a, b",
    },
    Rule {
        name: "through-split",
        says: "split (convert x) = convert of both halves, the dimension that goes in registers",
        ops: &[Typing::Split],
        form: split,
        fires: "v20 = join a, b\nv21, v22 = split v20",
        keeps: "v20 = add a, b",
    },
    Rule {
        name: "through-concat",
        says: "concat (convert x) (convert y) = convert (concat x y), for parts of one shape",
        ops: &[Typing::Concat],
        form: concat,
        fires: "v20 = concat a, b, axis 0",
        keeps: "v20 = add a, b",
    },
    Rule {
        name: "through-slice",
        says: "slice (convert x) = convert (slice x), for one chunk of several whose numbers lie in registers",
        ops: &[Typing::Slice],
        form: slice,
        fires: "v20 = slice a, [0, 0] : tile<8x32xf32>",
        keeps: "v20 = add a, b",
    },
    Rule {
        name: "load-so",
        says: "convert (load p) = load p in that layout, at what its sectors cost; gathers likewise",
        ops: &[Typing::Load, Typing::Gather],
        form: load,
        fires: "v20 = load p[r, 0] : tile<16x32xf32>\nv21 = add v20, a",
        keeps: "v20 = add a, b",
    },
    Rule {
        name: "store-so",
        says: "store (convert x) = store x as it lies, at what its sectors cost; scatters likewise",
        ops: &[Typing::Store, Typing::Scatter],
        form: store,
        fires: "store p[r, 0], a",
        keeps: "v20 = add a, b",
    },
];
