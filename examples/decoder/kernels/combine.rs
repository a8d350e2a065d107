//! What chunks of keys add up to: `o = sum_c 2^(lse_c - most) o_c / sum_c 2^(lse_c - most)`.

use tilelift::ir::{Access, BuildErrors, Extent, Kernel, KernelBuilder, ReduceOp, Scalar, ViewType};

/// Parameters: `o[sequences, chunks, heads, dim]` and `lse[sequences, chunks, heads]` in `f32`, the result `[sequences, heads, dim]`.
/// A program takes a head of a sequence.
pub(crate) fn combine(chunks: u32, heads: u32, dim: u32) -> Result<Kernel, BuildErrors> {
    let (any, fixed) = (Extent::Dynamic(1), Extent::Fixed);
    let mut b = KernelBuilder::new("combine");
    b.warps(1);
    let o = b.param(ViewType::dense(Scalar::F32, &[any, fixed(chunks), fixed(heads), fixed(dim)]));
    let lse = b.param(ViewType::dense(Scalar::F32, &[any, fixed(chunks), fixed(heads)]));
    let out = b.param(ViewType::dense(Scalar::BF16, &[any, fixed(heads), fixed(dim)]));
    let (head, owner) = (b.program_id(0), b.program_id(1));
    let zero = b.constant(0, Scalar::I32);
    let rows = chunks.next_power_of_two();
    let nothing = Access { other: Some(f64::NEG_INFINITY.into()), ..Access::default() };
    let size = b.load_with(lse, &[owner, zero, head], &[1, rows, 1], nothing);
    let size = b.reshape(size, &[rows, 1]);
    // Chunk 0 has a key, so the maximum is finite.
    let most = b.reduce_keep(ReduceOp::Maximum, size, 0);
    let size = b.sub(size, most);
    let weight = b.exp2(size);
    let sum = b.reduce_keep(ReduceOp::Add, weight, 0);
    let weight = b.div(weight, sum);
    let t = b.load(o, &[owner, zero, head, zero], &[1, rows, 1, dim]);
    let t = b.reshape(t, &[rows, dim]);
    let t = b.mul(t, weight);
    let t = b.reduce(ReduceOp::Add, t, 0);
    let t = b.cast(t, Scalar::BF16);
    let t = b.reshape(t, &[1, 1, dim]);
    b.store(out, &[owner, head, zero], t);
    b.finish()
}
