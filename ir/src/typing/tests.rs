//! Tests of what the rules refuse.

use crate::text::parse;

/// A line behind some definitions, and a part of the sentence that refuses it.
const REFUSED: &[(&str, &str)] = &[
    ("v9 = gather v0[v2]", "2 dimensions, but 1 indices"),
    ("v9 = gather v0[v2, 0]", "index 1 of `gather` is i32; indices are tiles of i32"),
    ("v9 = gather v0[v2, v4]", "must be tile<4x8xi32> as index 0 is"),
    ("v9 = gather v0[v2, v3], mask=v2", "the mask of `gather` is tile<4x8xi32>"),
    ("v9 = gather v0[v2, v3], other=v5", "`other` of a gather is tile<4x8xf32>"),
    ("v9 = gather v2[v2, v3]", "takes a view"),
    ("v9 = gather v0[v2, v3] : tile<4x8xf32>", "infers its type"),
    ("v9 = gather v0[v2, v3], cache=never", "`never` is not a cache hint"),
    ("scatter v0[v2, v3], v2", "the value of `scatter` is tile<4x8xi32>"),
    ("scatter v0[v2, v3], v5, mask=v5", "the mask of `scatter`"),
    ("v9 = scatter v0[v2, v3], v5", "makes 0 values"),
    ("v9 = atomic add v0[v2, v3], v2", "the value of `atomic` is tile<4x8xi32>"),
    ("v9 = atomic umin v0[v2, v3], v5", "`atomic umin` does not take f32"),
    ("v9 = atomic xchg v6[v2], v7", "`atomic xchg` does not take f16"),
    ("v9 = atomic mul v0[v2, v3], v5", "`mul` is not an atomic update"),
    ("v9 = atomic add v0[v2, v3], v5, order=late", "`late` is not a memory order"),
    ("v9 = atomic add v0[v2, v3], v5, scope=cta, scope=gpu", "twice"),
    ("v9 = atomic_cas v0[v2, v3], v5, v5", "`atomic_cas` does not take f32"),
    ("v9 = atomic_cas v8[v2], v2, v5", "the value of `atomic_cas`"),
    ("v9 = gather_tile v5, v5, axis 1", "they must be i32"),
    ("v9 = gather_tile v5, v2, axis 2", "has no axis 2"),
    ("v9 = gather_tile v5, v4, axis 0", "the other extents must agree"),
    ("v9 = histogram v5 : tile<4xi32>", "counts the elements of a tile of integers"),
    ("v9 = histogram v2 : tile<4xi64>", "one dimension of i32"),
    ("v9 = histogram v2 : tile<4x1xi32>", "one dimension of i32"),
    ("v9 = sort up v5, axis 1", "`up` is not a direction"),
    ("v9 = sort ascending v5, axis 3", "has no axis 3"),
    ("v9 = top_k descending v5, axis 1 : tile<4x9xf32>", "can't make tile<4x9xf32>"),
    ("v9 = arg_top_k descending v5, axis 1 : tile<4x2xf32>", "element i32"),
];

#[test]
fn wrong_operands_are_refused() {
    let head = "kernel @k(v0: view<f32, [?, ?]>, v6: view<f16, [?]>, v8: view<i32, [?]>) {
        v2 = iota 0 : tile<4x8xi32>
        v3 = iota 1 : tile<4x8xi32>
        v4 = iota 0 : tile<4x4xi32>
        v5 = gather v0[v2, v3]
        v7 = gather v6[v2]
        v1 = atomic add v6[v2], v7
        v10 = atomic xchg v0[v2, v3], v5
    ";
    parse(&format!("{head}\n}}")).unwrap_or_else(|e| panic!("{e}"));
    for (line, part) in REFUSED {
        let e = parse(&format!("{head}\n{line}\n}}")).expect_err(line).to_string();
        assert!(e.contains(part), "{line}: {e}");
    }
}
