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

/// A line behind operands and scales of 4 rows, 64 deep, and 8 columns, and a part of the sentence that refuses it.
const REFUSED_SCALED: &[(&str, &str)] = &[
    ("v9 = dot_scaled %a, %sa, %b, %sb, %c : tile<4x8xf32>", "infers its type"),
    ("v9 = dot_scaled %a, %sa, %b, %sb, %h", "accumulates in f32, not f16"),
    ("v9 = dot_scaled %w, %sa, %b, %sb, %c", "operand A of `dot_scaled` is of bf16; it takes f8e4m3, f8e5m2 and f4e2m1"),
    ("v9 = dot_scaled %a, %sa, %z, %sb, %c", "operand B of `dot_scaled` is of f8e4m3fnuz"),
    ("v9 = dot_scaled %a, %a, %b, %sb, %c", "the scales of operand A of `dot_scaled` are tile<4x64xf8e4m3>; they must be of f8e8m0"),
    (
        "v9 = dot_scaled %a, %sa, %b, %sa, %c",
        "the scales of tile<64x8xf4e2m1> in `dot_scaled` are tile<4x2xf8e8m0>; one for each 32 elements along K makes tile<2x8xf8e8m0>",
    ),
    ("v9 = dot_scaled %b, %sb, %a, %sa, %c", "shapes must be MxK, KxN and MxN"),
    ("v9 = dot_scaled %s, %sa, %t, %sb, %c", "K is 48; a scale is for 32 elements along K, so it must be a multiple"),
    ("v9 = dot_scaled %a, %sa, %b, %sb, 0.0", "takes five tiles"),
    ("v9 = dot_scaled %a, %sa, %b, %c", "expected `,`"),
    ("v9 = dot_scaled %a3, %sa3, %b3, %sb3, %c3", "the leading extents must agree; broadcast one of the operands"),
];

#[test]
fn wrong_operands_of_block_scaled_products_are_refused() {
    let head = "kernel @k(%x: view<f8e4m3, [?, ?]>, %y: view<f4e2m1, [?, ?%2]>, %e: view<f8e8m0, [?, ?]>, %u: view<bf16, [?, ?]>, %v: view<f8e4m3fnuz, [?, ?]>) {
        %a = load %x[0, 0] : tile<4x64xf8e4m3>
        %sa = load %e[0, 0] : tile<4x2xf8e8m0>
        %b = load %y[0, 0] : tile<64x8xf4e2m1>
        %sb = load %e[0, 0] : tile<2x8xf8e8m0>
        %c = splat 0.0 : tile<4x8xf32>
        %h = splat 0.0f16 : tile<4x8xf16>
        %w = load %u[0, 0] : tile<4x64xbf16>
        %z = load %v[0, 0] : tile<64x8xf8e4m3fnuz>
        %s = load %x[0, 0] : tile<4x48xf8e4m3>
        %t = load %y[0, 0] : tile<48x8xf4e2m1>
        %a3 = reshape %a : tile<2x2x64xf8e4m3>
        %sa3 = reshape %sa : tile<2x2x2xf8e8m0>
        %b3 = reshape %b : tile<1x64x8xf4e2m1>
        %sb3 = reshape %sb : tile<1x2x8xf8e8m0>
        %c3 = splat 0.0 : tile<2x2x8xf32>
        %d = dot_scaled %a, %sa, %b, %sb, %c
    ";
    parse(&format!("{head}\n}}")).unwrap_or_else(|e| panic!("{e}"));
    for (line, part) in REFUSED_SCALED {
        let e = parse(&format!("{head}\n{line}\n}}")).expect_err(line).to_string();
        assert!(e.contains(part), "{line}: {e}");
    }
}
