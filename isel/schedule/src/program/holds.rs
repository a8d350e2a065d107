//! Where masks hold everywhere, by numbers that all lanes have alike: the tile is not looked at.
//!
//! ```text
//! at + iota < end      everywhere, if  at + extent - 1 < end  and that sum does not wrap
//! ```

use super::Refusal;
use super::write::{Arg, Writer, number};
use tilelift_ir::{Attr, CmpOp, Inst, Kernel, Literal, Op, Scalar, Type, Value};

/// All elements of a tile of `i32` lie from `base` to `base + span`, by arithmetic that wraps.
struct Range {
    base: Arg,
    span: u32,
}

/// A condition under which a mask holds everywhere, or nowhere if `what` is false; `None` if the numbers don't tell.
///
/// # Errors
/// As [`Writer::make`].
pub(super) fn holds(kernel: &Kernel, w: &mut Writer<'_>, mask: Value, what: bool) -> Result<Option<Arg>, Refusal> {
    let Some(i) = kernel.def_inst(mask) else { return Ok(None) };
    let d = &kernel.insts[i];
    match (d.op, d.attrs.first()) {
        (Op::And | Op::Or, _) => {
            let both = [holds(kernel, w, d.args[0], what)?, holds(kernel, w, d.args[1], what)?];
            match ((d.op == Op::And) == what, both) {
                // Both have to.
                (true, [Some(x), Some(y)]) => Ok(Some(w.bin(Op::And, x, y)?.into())),
                (true, _) => Ok(None),
                (false, [Some(x), Some(y)]) => Ok(Some(w.bin(Op::Or, x, y)?.into())),
                (false, [x, y]) => Ok(x.or(y)),
            }
        }
        (Op::Broadcast | Op::Reshape | Op::Transpose, _) => holds(kernel, w, d.args[0], what),
        (Op::Not, _) => holds(kernel, w, d.args[0], !what),
        (Op::Cmp, Some(&Attr::Cmp(op))) => ordered(kernel, w, if what { op } else { op.inverted() }, i),
        _ => Ok(None),
    }
}

/// A condition under which all elements of what is compared are in that order.
fn ordered(kernel: &Kernel, w: &mut Writer<'_>, op: CmpOp, i: Inst) -> Result<Option<Arg>, Refusal> {
    let [x, y] = [kernel.insts[i].args[0], kernel.insts[i].args[1]];
    if kernel.ty(x).elem() != Scalar::I32 {
        return Ok(None);
    }
    let (Some(x), Some(y)) = (range(kernel, w, x)?, range(kernel, w, y)?) else { return Ok(None) };
    let (less, more) = match op {
        CmpOp::Lt | CmpOp::Le => (x, y),
        CmpOp::Gt | CmpOp::Ge => (y, x),
        CmpOp::Eq | CmpOp::Ne | CmpOp::Ult | CmpOp::Ule | CmpOp::Ugt | CmpOp::Uge => return Ok(None),
    };
    let strict = matches!(op, CmpOp::Lt | CmpOp::Gt);
    let top = w.bin(Op::Add, less.base, number(less.span))?;
    let mut all = w.cmp(if strict { CmpOp::Lt } else { CmpOp::Le }, top, more.base)?;
    // Neither side wraps on its way.
    for r in [&less, &more] {
        if r.span > 0 {
            let top = w.bin(Op::Add, r.base, number(r.span))?;
            let straight = w.cmp(CmpOp::Le, r.base, top)?;
            all = w.bin(Op::And, all, straight)?;
        }
    }
    Ok(Some(all.into()))
}

/// The bounds of a tile or number of `i32`.
fn range(kernel: &Kernel, w: &mut Writer<'_>, v: Value) -> Result<Option<Range>, Refusal> {
    if let Type::Scalar(Scalar::I32) = kernel.ty(v) {
        return Ok(Some(Range { base: w.get(v)?, span: 0 }));
    }
    let Some(i) = kernel.def_inst(v) else { return Ok(None) };
    let d = &kernel.insts[i];
    match d.op {
        Op::Splat | Op::Broadcast | Op::Transpose | Op::Reshape => range(kernel, w, d.args[0]),
        Op::Iota => {
            let axis = d.attrs.iter().find_map(|a| if let Attr::Dim(axis) = a { Some(*axis as usize) } else { None });
            let extent = axis.and_then(|axis| kernel.ty(v).shape()?.get(axis).copied());
            Ok(extent.map(|e| Range { base: Arg::Literal(Literal::Int(0), Scalar::I32), span: e - 1 }))
        }
        Op::Add | Op::Sub => {
            let (Some(x), Some(y)) = (range(kernel, w, d.args[0])?, range(kernel, w, d.args[1])?) else { return Ok(None) };
            // A longer way could wrap twice.
            let Some(span) = x.span.checked_add(y.span).filter(|&s| s < i32::MAX as u32) else { return Ok(None) };
            let mut base: Arg = w.bin(d.op, x.base, y.base)?.into();
            if d.op == Op::Sub && y.span > 0 {
                base = w.bin(Op::Sub, base, number(y.span))?.into();
            }
            Ok(Some(Range { base, span }))
        }
        _ => Ok(None),
    }
}
