//! Which columns of its operands an op needs for some columns of its result, the last dimension being columns.
//!
//! ```text
//! elementwise    the same ones          broadcast   of a row the same ones, of a column or a number all of it
//! slice, concat  those that they are    splat       the number
//! required       as the accumulator: the same ones, which lie as they do there
//! ```

use tilelift_ir::{Attr, DotPart, Inst, Kernel, LayoutSpec, Op, Value};

/// What of an operand is needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum At {
    /// So many columns as are made, from this one on.
    Columns(u32),
    /// All of it.
    Whole,
}

/// What is needed of operands for so many columns of a matrix from `first` on; `None` for an op that can't be asked for some columns.
pub(crate) fn column_cut(kernel: &Kernel, i: Inst, first: u32, width: u32) -> Option<Vec<(Value, At)>> {
    let d = &kernel.insts[i];
    let &[result] = &d.results[..] else { return None };
    let columns = |v: Value| kernel.ty(v).as_tile().filter(|t| t.shape.len() == 2).map(|t| t.shape[1]);
    let own = columns(result)?;
    let same = |v: Value| match columns(v) {
        Some(n) if n == own => Some((v, At::Columns(first))),
        Some(_) => None,
        None => kernel.ty(v).as_tile().is_none().then_some((v, At::Whole)),
    };
    match (d.op, d.attrs.first()) {
        (Op::Splat, _) => Some(vec![(d.args[0], At::Whole)]),
        (Op::Broadcast, _) => {
            let of = columns(d.args[0])?;
            let at = if of == 1 { At::Whole } else { At::Columns(first) };
            (of == 1 || of == own).then(|| vec![(d.args[0], at)])
        }
        (Op::Slice, Some(Attr::Offsets(o))) => {
            let rows = |v: Value| kernel.ty(v).as_tile().map(|t| t.shape[0]);
            (rows(result) == rows(d.args[0])).then(|| vec![(d.args[0], At::Columns(first + o[1]))])
        }
        (Op::Concat, Some(&Attr::Dim(1))) => {
            let left = columns(d.args[0])?;
            if first + width <= left {
                Some(vec![(d.args[0], At::Columns(first))])
            } else {
                (first >= left).then(|| vec![(d.args[1], At::Columns(first - left))])
            }
        }
        // Columns of an accumulator lie as the whole does.
        (Op::RequireLayout, Some(Attr::Layout(l))) => {
            matches!(**l, LayoutSpec::Mma(DotPart::Acc) | LayoutSpec::Swizzle(_)).then(|| vec![(d.args[0], At::Columns(first))])
        }
        (Op::ReleaseLayout, _) => Some(vec![(d.args[0], At::Columns(first))]),
        _ if kernel.is_elementwise(i) => d.args.iter().map(|&v| same(v)).collect(),
        _ => None,
    }
}
