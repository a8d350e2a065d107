//! Vectors: elements of a tile to and from the words of one memory access.

use crate::layout::memory_type;
use tilelift_ir::{CmpOp, Scalar};
use tilelift_lane::{LTy, LVal, LaneBuilder, Vals};

/// Types of the words of a vector of `n` elements (see [`legal_width`]).
pub(crate) fn word_types(n: u32, elem: Scalar) -> smallvec::SmallVec<[LTy; 4]> {
    let elem = memory_type(elem);
    let bytes = elem.bytes();
    if bytes >= 4 || n == 1 { (0..n).map(|_| LTy::Num(elem)).collect() } else { (0..n * bytes / 4).map(|_| LTy::B32).collect() }
}

/// Elements into words.
pub(crate) fn to_words(b: &mut LaneBuilder, elems: &[LVal], elem: Scalar) -> Vals {
    let bytes = elem.bytes() as usize;
    if elem != Scalar::I1 && bytes < 4 && elems.len() * bytes == 4 {
        return Vals::from_slice(&[b.pack(elems)]);
    }
    let elems: Vals = if elem == Scalar::I1 {
        let (one, zero) = (b.constant(LTy::Num(Scalar::I8), 1), b.constant(LTy::Num(Scalar::I8), 0));
        elems.iter().map(|&e| b.select(e, one, zero)).collect()
    } else {
        Vals::from_slice(elems)
    };
    if bytes >= 4 || elems.len() == 1 { elems } else { elems.chunks(4 / bytes).map(|c| b.pack(c)).collect() }
}

/// Elements that nobody else looks at into words: what made two of them is made for both at once where that is possible.
pub(crate) fn computed_words(b: &mut LaneBuilder, elems: &[LVal], elem: Scalar) -> Vals {
    let halves = matches!(elem, Scalar::F16 | Scalar::BF16) && elems.len().is_multiple_of(2);
    if halves { elems.chunks(2).map(|c| b.pack_computed(c)).collect() } else { to_words(b, elems, elem) }
}

/// Words into elements.
pub(crate) fn from_words(b: &mut LaneBuilder, words: &[LVal], elem: Scalar, n: u32) -> Vec<LVal> {
    let held = memory_type(elem);
    let elems: Vec<LVal> =
        if held.bytes() >= 4 || n == 1 { words.to_vec() } else { words.iter().flat_map(|&w| b.unpack(w, LTy::Num(held))).collect() };
    if elem == Scalar::I1 {
        let zero = b.constant(LTy::Num(Scalar::I8), 0);
        elems.into_iter().map(|e| b.cmp(CmpOp::Ne, e, zero)).collect()
    } else {
        elems
    }
}
