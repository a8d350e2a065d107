//! What the facts of a view and its indices say about a global access.

use crate::axis_info::AxisInfo;
use crate::error::LowerError;
use crate::facts::{divisor, power_of_two};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::rc::Rc;
use tilelift_ir::layout::{AccessColumns, Axis, Layout, coalesced, sector_efficiency, vectors_without};
use tilelift_ir::{Extent, Inst, Kernel, Op, Scalar, Type, Value, ViewType};
use tilelift_lane::Target;

/// The view of the bytes of a view whose elements share bytes in pairs.
fn byte_view(view: &ViewType) -> ViewType {
    let half = |e: Extent| match e {
        Extent::Dynamic(d) => Extent::Dynamic((d / 2).max(1)),
        Extent::Fixed(n) => Extent::Fixed(n / 2),
    };
    let mut out = ViewType { elem: Scalar::I8, ..view.clone() };
    let last = view.rank() - 1;
    out.dims[last] = half(out.dims[last]);
    for s in out.strides.iter_mut().flat_map(|s| s[..last].iter_mut()) {
        *s = half(*s);
    }
    out
}

/// The type in which an element type lies in memory: `i1` is a byte, and so are the codes of 8-bit floats.
pub fn memory_type(elem: Scalar) -> Scalar {
    if elem == Scalar::I1 || elem.is_narrow() { Scalar::I8 } else { elem }
}

/// The widest vector, in elements, of at most `n` that has a memory access: byte pairs have none.
pub fn legal_width(n: u32, elem: Scalar) -> u32 {
    if n * elem.bytes() < 4 { 1 } else { n }
}

/// A load or store, with what is known of its addresses.
pub struct GlobalAccess<'a> {
    /// The view's type; of one with packed elements, that of its bytes.
    pub view: Cow<'a, ViewType>,
    /// Two elements share a byte: indices and extents of the innermost dimension, and the strides of the others, count twice what `view` does.
    pub packed: bool,
    /// The access is known to begin with a whole byte.
    pub whole_bytes: bool,
    /// The view operand.
    pub view_value: Value,
    /// One index per dimension.
    pub indices: SmallVec<[Value; 4]>,
    /// The mask, if any.
    pub mask: Option<Value>,
    kernel: &'a Kernel,
}

impl<'a> GlobalAccess<'a> {
    /// Reads a load or store of a verified kernel.
    pub fn of(kernel: &'a Kernel, i: Inst) -> GlobalAccess<'a> {
        debug_assert!(matches!(
            kernel.insts[i].op,
            Op::Load | Op::Store | Op::Prefetch | Op::AsyncLoad | Op::CopyAsync | Op::AsyncStore | Op::AsyncReduce
        ));
        let mask = kernel.operand(i, "mask").first().copied();
        GlobalAccess::at(kernel, kernel.insts[i].args[0], kernel.operand(i, "indices"), mask)
    }

    /// An access to a view at these indices.
    pub(crate) fn at(kernel: &'a Kernel, view_value: Value, indices: &[Value], mask: Option<Value>) -> GlobalAccess<'a> {
        let Type::View(view) = kernel.ty(view_value) else {
            // The verifier accepts views only.
            unreachable!("a load or store of something that is no view");
        };
        let indices: SmallVec<[Value; 4]> = SmallVec::from_slice(indices);
        let packed = view.elem.is_packed();
        let whole_bytes = !packed || indices.last().is_none_or(|&v| divisor(kernel, v, 2) >= 2);
        let view = if packed { Cow::Owned(byte_view(view)) } else { Cow::Borrowed(view.as_ref()) };
        GlobalAccess { view, packed, whole_bytes, view_value, indices, mask, kernel }
    }

    /// The view's type as the kernel has it.
    pub(crate) fn whole_view(&self) -> &ViewType {
        match self.kernel.ty(self.view_value) {
            Type::View(view) => view,
            _ => &self.view,
        }
    }

    /// The dimension whose elements are next to each other, if there is one.
    pub fn contiguous(&self) -> Option<usize> {
        (0..self.view.rank()).rev().find(|&d| self.view.stride(d) == Extent::Fixed(1))
    }

    /// Dimensions by decreasing contiguity: the contiguous one, then the others from the last to the first.
    pub fn order(&self) -> Vec<usize> {
        let fast = self.contiguous();
        let rest = (0..self.view.rank()).rev().filter(|d| Some(*d) != fast);
        fast.into_iter().chain(rest).collect()
    }

    /// The largest power of two up to `most` known to divide the index of a dimension, in elements of the view.
    pub fn divisor(&self, d: usize, most: u32) -> u32 {
        if self.packed && d + 1 == self.indices.len() {
            return (divisor(self.kernel, self.indices[d], 2 * most) / 2).max(1);
        }
        divisor(self.kernel, self.indices[d], most)
    }

    /// Elements that one lane may access at once along the contiguous dimension by how the view lies: bounded by the width of an access, the alignment of
    /// base and strides, and the extent's divisor, so that a vector is inside the view or outside it as a whole.
    pub(crate) fn view_elements(&self, max_bytes: u32) -> u32 {
        let Some(fast) = self.contiguous() else { return 1 };
        let bytes = self.view.elem.bytes();
        let known = |e: Extent| power_of_two(i64::from(e.divisor()));
        let of = |d: usize| known(if d == fast { self.view.dims[d] } else { self.view.stride(d) });
        (0..self.view.rank()).map(of).fold((max_bytes / bytes).min(self.view.align / bytes).max(1), u32::min)
    }

    /// Elements that one lane may access at once along the contiguous dimension: by how the view lies, the alignment of the index, and the mask, which
    /// holds for all of a vector or for nothing of it.
    pub fn vector_elements(&self, max_bytes: u32) -> u32 {
        let Some(fast) = self.contiguous() else { return 1 };
        let vec = self.view_elements(max_bytes);
        let vec = vec.min(self.divisor(fast, max_bytes));
        match self.mask {
            Some(m) if vec > 1 => {
                let equal = AxisInfo::of(self.kernel, m).equal(fast);
                vec.min(if self.packed && fast + 1 == self.view.rank() { (equal / 2).max(1) } else { equal })
            }
            Some(_) | None => vec,
        }
    }
}

/// Tiles up to this size are loaded in whatever layout they are wanted: their traffic does not matter.
const SMALL_TILE_BYTES: u64 = 4096;

/// Bytes of a DRAM sector.
const SECTOR: u32 = 32;

/// The layout for a global access of a tile that is wanted in `want`: that one if it costs no more sectors or the tile is small,
/// else the coalesced one.
pub fn access_layout_for(
    target: &Target,
    warps: u32,
    access: &GlobalAccess<'_>,
    want: &Rc<Layout>,
    elem: Scalar,
    is_load: bool,
) -> Result<Rc<Layout>, LowerError> {
    let bytes = elem.bytes();
    let order = access.order();
    let vec = access.vector_elements(target.vector_bytes);
    let best = Rc::new(coalesced(want.shape(), bytes, &order, vec, target.lanes, warps)?);
    let elements: u64 = want.shape().iter().map(|&e| u64::from(e)).product();
    if is_load && elements * u64::from(bytes) <= SMALL_TILE_BYTES {
        return Ok(want.clone());
    }
    let score = |l: &Layout| -> Result<(u32, u32), LowerError> {
        let columns = AccessColumns::global(l, &order)?;
        let v = vectors_without(&columns, bytes, vec * bytes, l.free_mask(Axis::Reg));
        Ok((sector_efficiency(&columns, bytes, v.width, SECTOR), v.width))
    };
    let (have, ideal) = (score(want)?, score(&best)?);
    Ok(if have.0 >= ideal.0 && 4 * have.1 >= ideal.1 { want.clone() } else { best })
}

#[cfg(test)]
mod tests {
    use super::GlobalAccess;
    use tilelift_ir::{Op, text};

    /// Elements that one lane may load at once under a mask.
    fn loaded(view: &str, elem: &str, body: &str) -> u32 {
        let text = format!(
            "kernel @k(v0: {view}, v1: i32) {{\n%row = iota 0 : tile<8x64xi32>\n%col = iota 1 : tile<8x64xi32>\n%n = splat v1 : tile<8x64xi32>\n\
             %n8 = assume v1, multiple 8\n%end = splat %n8 : tile<8x64xi32>\n{body}\n%t = load v0[0, 0], mask=%m : tile<8x64x{elem}>\n}}"
        );
        let file = text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let k = &file.kernels[0];
        let i = k.insts.keys().find(|&i| k.insts[i].op == Op::Load).expect("a load");
        GlobalAccess::of(k, i).vector_elements(16)
    }

    #[test]
    fn masks_keep_the_vectors_that_they_do_not_tear() {
        let wide = |body: &str| loaded("view<bf16, [?, ?%64]>", "bf16", body);
        assert_eq!(wide("%m = cmp lt %row, %n"), 8);
        assert_eq!(wide("%m = cmp lt %col, %end"), 8);
        assert_eq!(wide("%a = cmp lt %row, %n\n%b = cmp lt %col, %end\n%m = and %a, %b"), 8);
        assert_eq!(wide("%m = cmp lt %col, 4"), 4);
        assert_eq!(wide("%m = cmp lt %col, %n"), 1);
        assert_eq!(wide("%m = cmp le %col, %end"), 1);
        assert_eq!(wide("%m = cmp eq %col, %row"), 1);
        // The mask says nothing of where rows begin and end.
        assert_eq!(loaded("view<bf16, [?, ?]>", "bf16", "%m = cmp lt %row, %n"), 1);
        // Along the other dimension, where rows stand beside each other.
        let columns = "view<bf16, [?%64, ?], [1, ?%64]>";
        assert_eq!(loaded(columns, "bf16", "%m = cmp lt %col, %n"), 8);
        assert_eq!(loaded(columns, "bf16", "%m = cmp lt %row, %n"), 1);
        // Of two elements that share a byte, and of a vector of bytes, both or none.
        let halves = "view<i4, [?, ?%64]>";
        assert_eq!(loaded(halves, "i4", "%m = cmp lt %row, %n"), 16);
        assert_eq!(loaded(halves, "i4", "%m = cmp lt %col, %end"), 4);
        assert_eq!(loaded(halves, "i4", "%m = cmp lt %col, %n"), 1);
    }
}
