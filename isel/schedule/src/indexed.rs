//! What is known of an access through tiles of indices.
//!
//! ```text
//! gather v[row, iota 1 + 64·n]        row equal along 1: each row of the tile is a row of the view, in vectors
//! ```

use crate::axis_info::AxisInfo;
use crate::facts::power_of_two;
use smallvec::SmallVec;
use tilelift_ir::{Extent, Inst, Kernel, Type, Value, ViewType};

/// How such an access moves vectors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexedVectors {
    /// Dimensions of the tile, that of the vectors first, the others from the last on.
    pub order: SmallVec<[usize; 4]>,
    /// The most elements of a vector.
    pub elements: u32,
}

/// The vectors of a gather or scatter of a tile of that rank: along a dimension in which the index of the view's contiguous dimension runs from
/// multiples on, while the others, and the mask, stay, and no further than alignment and extents keep a vector in one piece.
pub fn indexed_vectors(kernel: &Kernel, i: Inst, rank: usize, max_bytes: u32) -> IndexedVectors {
    let (along, elements) = runs(kernel, i, rank, max_bytes).unwrap_or((rank.saturating_sub(1), 1));
    let order = (0..rank).rev().filter(|&d| d != along);
    IndexedVectors { order: (along < rank).then_some(along).into_iter().chain(order).collect(), elements }
}

/// The dimension of the widest vectors, the last of several, and their elements.
fn runs(kernel: &Kernel, i: Inst, rank: usize, max_bytes: u32) -> Option<(usize, u32)> {
    let Type::View(view) = kernel.ty(*kernel.insts[i].args.first()?) else { return None };
    let fast = (0..view.rank()).rev().find(|&d| view.stride(d) == Extent::Fixed(1))?;
    let most = in_one_piece(view, fast, max_bytes);
    if most <= 1 {
        return None;
    }
    let indices = kernel.operand(i, "indices");
    let running = AxisInfo::of(kernel, *indices.get(fast)?);
    // The rows of the view, and the mask.
    let others = indices.iter().enumerate().filter(|&(d, _)| d != fast).map(|(_, v)| v);
    let stay: SmallVec<[AxisInfo; 4]> = others.chain(kernel.operand(i, "mask")).map(|&v: &Value| AxisInfo::of(kernel, v)).collect();
    let elements = |d: usize| stay.iter().map(|x| x.equal(d)).fold(most.min(running.run(d)), u32::min);
    (0..rank).map(|d| (d, elements(d))).max_by_key(|&(d, n)| (n, d)).filter(|&(_, n)| n > 1)
}

/// Elements along the contiguous dimension that lie in the view as a whole or not at all, at an aligned address, if they begin at a multiple of
/// their number.
fn in_one_piece(view: &ViewType, fast: usize, max_bytes: u32) -> u32 {
    let bytes = view.elem.bytes();
    let known = |e: Extent| power_of_two(i64::from(e.divisor()));
    let of = |d: usize| known(if d == fast { view.dims[d] } else { view.stride(d) });
    (0..view.rank()).map(of).fold((max_bytes / bytes).min(view.align / bytes).max(1), u32::min)
}

#[cfg(test)]
mod tests {
    use super::indexed_vectors;
    use tilelift_ir::{Op, text};

    /// The dimension of the vectors of the only gather, and their elements.
    fn gathered(view: &str, body: &str) -> (usize, u32) {
        let text = format!("kernel @k(v0: {view}, v1: i32, v2: view<i32, [?]>) {{\n{ROWS}{body}\n}}");
        let file = text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let k = &file.kernels[0];
        let i = k.insts.keys().find(|&i| k.insts[i].op == Op::Gather).expect("a gather");
        let rank = k.ty(k.insts[i].results[0]).shape().map_or(0, <[u32]>::len);
        let v = indexed_vectors(k, i, rank, 16);
        assert_eq!(v.order.len(), rank);
        (v.order[0], v.elements)
    }

    const ROWS: &str = "%i = load v2[0] : tile<8xi32>\n%i1 = reshape %i : tile<8x1xi32>\n%row = broadcast %i1 : tile<8x64xi32>\n\
                        %col = iota 1 : tile<8x64xi32>\n%down = iota 0 : tile<8x64xi32>\n%n = splat v1 : tile<8x64xi32>\n";
    const WIDE: &str = "view<bf16, [?, ?%64]>";

    #[test]
    fn rows_make_vectors() {
        for (view, body, want) in [
            (WIDE, "%t = gather v0[%row, %col]", (1, 8)),
            ("view<f32, [?, ?%64]>", "%t = gather v0[%row, %col]", (1, 4)),
            ("view<i8, [?, ?%64]>", "%t = gather v0[%row, %col]", (1, 16)),
            (WIDE, "%c = add %col, 64\n%t = gather v0[%row, %c]", (1, 8)),
            (WIDE, "%c = add %col, 4\n%t = gather v0[%row, %c]", (1, 4)),
            (WIDE, "%m = cmp lt %row, %n\n%t = gather v0[%row, %col], mask=%m", (1, 8)),
            // What is contiguous in the view may be any dimension of the tile.
            (WIDE, "%t = gather v0[%col, %down]", (0, 8)),
            ("view<bf16, [?%64, ?], [1, ?%64]>", "%t = gather v0[%col, %row]", (1, 8)),
        ] {
            assert_eq!(gathered(view, body), want, "{view}: {body}");
        }
    }

    #[test]
    fn what_is_torn_stays_narrow() {
        for (view, body) in [
            // The end of a row, its beginning, the base, lies anywhere.
            ("view<bf16, [?, ?]>", "%t = gather v0[%row, %col]"),
            ("view<bf16, [?, ?], [?%64, 1]>", "%t = gather v0[%row, %col]"),
            ("view<bf16, [?, ?%64], [?, 1]>", "%t = gather v0[%row, %col]"),
            ("view<bf16, [?, ?%64], [?%64, 1], align 2>", "%t = gather v0[%row, %col]"),
            ("view<bf16, [?, ?%64], [?%64, 2]>", "%t = gather v0[%row, %col]"),
            (WIDE, "%c = add %col, 1\n%t = gather v0[%row, %c]"),
            (WIDE, "%c = add %col, %n\n%t = gather v0[%row, %c]"),
            // Every element has a row of its own, or a mask.
            (WIDE, "%t = gather v0[%col, %col]"),
            (WIDE, "%t = gather v0[%col, %row]"),
            (WIDE, "%m = cmp lt %col, %n\n%t = gather v0[%row, %col], mask=%m"),
            // Below 0 remainders count backward.
            (WIDE, "%a = sub %col, 32\n%c = rem %a, 8\n%t = gather v0[%row, %c]"),
        ] {
            assert_eq!(gathered(view, body).1, 1, "{view}: {body}");
        }
    }
}
