//! Sums of a product's parts, the residual, and the norm of what follows, in one launch: `y = x + sum of parts`, `n = norm(y) * w`.

use tilelift::ir::{BuildErrors, Extent, Kernel, KernelBuilder, ReduceOp, Scalar, Value, ViewType};

/// Parameters: `parts[parts, t, columns]` in `f32`, `x[t, columns]`, the weight `w[columns]`, `y` and `n` as `x`, the scalar `eps`.
/// A program takes a token.
pub(crate) fn residual_norm(parts: u32, columns: u32) -> Result<Kernel, BuildErrors> {
    let (any, fixed) = (Extent::Dynamic(1), Extent::Fixed(columns));
    let tile = columns.next_power_of_two();
    let mut b = KernelBuilder::new("residual_norm");
    // A lane has 8 columns: two reads of 16 bytes of each part.
    b.warps((tile / 256).clamp(1, 16));
    let sums = b.param(ViewType::dense(Scalar::F32, &[Extent::Fixed(parts), any, fixed]));
    let matrix = ViewType::dense(Scalar::BF16, &[any, fixed]);
    let x = b.param(matrix.clone());
    let w = b.param(ViewType::dense(Scalar::BF16, &[fixed]));
    let [y, n] = [(); 2].map(|()| b.param(matrix.clone()));
    let eps = b.param(Scalar::F32);
    let row = b.program_id(0);
    let zero = b.constant(0, Scalar::I32);
    let t = b.load(x, &[row, zero], &[1, tile]);
    let all: Vec<Value> = (0..parts)
        .map(|part| {
            let part = b.constant(part, Scalar::I32);
            let t = b.load(sums, &[part, row, zero], &[1, 1, tile]);
            b.reshape(t, &[1, tile])
        })
        .collect();
    let weight = b.load(w, &[zero], &[tile]);
    let t = b.cast(t, Scalar::F32);
    let sum = all[1..].iter().fold(all[0], |sum, &part| b.add(sum, part));
    let t = b.add(t, sum);
    let rounded = b.cast(t, Scalar::BF16);
    b.store(y, &[row, zero], rounded);
    let square = b.mul(t, t);
    let square = b.reduce_keep(ReduceOp::Add, square, 1);
    let mean = b.mul(square, 1.0 / columns as f32);
    let mean = b.add(mean, eps);
    let scale = b.rsqrt(mean);
    let t = b.mul(t, scale);
    let weight = b.cast(weight, Scalar::F32);
    let weight = b.expand_dims(weight, 0);
    let t = b.mul(t, weight);
    let t = b.cast(t, Scalar::BF16);
    b.store(n, &[row, zero], t);
    b.finish()
}
