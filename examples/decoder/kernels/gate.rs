//! The gate of the MLP behind a product with both matrices at once: `silu(first half) * second half`, of parts of the depth or of what is finished.

use tilelift::ir::{BuildErrors, Extent, Kernel, KernelBuilder, Scalar, Value, ViewType};

/// Columns of a program.
const BLOCK: u32 = 1024;

/// Parameters: `joined[t, 2, columns]` in `bf16` (with parts: `[parts, t, 2, columns]` in `f32`) and `out[t, columns]`. A program takes a block of the
/// columns (x) of a token (y).
pub(crate) fn gate(parts: Option<u32>, columns: u32) -> Result<Kernel, BuildErrors> {
    let (any, fixed) = (Extent::Dynamic(1), Extent::Fixed);
    let mut b = KernelBuilder::new("gate");
    b.warps(4);
    let joined = [any, fixed(2), fixed(columns)];
    let joined = b.param(match parts {
        Some(n) => ViewType::dense(Scalar::F32, &[&[fixed(n)][..], &joined].concat()),
        None => ViewType::dense(Scalar::BF16, &joined),
    });
    let out = b.param(ViewType::dense(Scalar::BF16, &[any, fixed(columns)]));
    let (block, row) = (b.program_id(0), b.program_id(1));
    let column = b.mul(block, BLOCK);
    let half = |b: &mut KernelBuilder, which: u32| {
        let which = b.constant(which, Scalar::I32);
        match parts {
            None => {
                let t = b.load(joined, &[row, which, column], &[1, 1, BLOCK]);
                let t = b.reshape(t, &[1, BLOCK]);
                b.cast(t, Scalar::F32)
            }
            Some(n) => {
                let mut one = |part: u32| {
                    let part = b.constant(part, Scalar::I32);
                    let t = b.load(joined, &[part, row, which, column], &[1, 1, 1, BLOCK]);
                    b.reshape(t, &[1, BLOCK])
                };
                let all: Vec<Value> = (0..n).map(&mut one).collect();
                all[1..].iter().fold(all[0], |sum, &t| b.add(sum, t))
            }
        }
    };
    let (x, up) = (half(&mut b, 0), half(&mut b, 1));
    let e = b.neg(x);
    let e = b.exp(e);
    let e = b.add(e, 1.0);
    let x = b.div(x, e);
    let t = b.mul(x, up);
    let t = b.cast(t, Scalar::BF16);
    b.store(out, &[row, column], t);
    b.finish()
}

/// The grid for so many tokens.
pub(crate) fn grid(tokens: u32, columns: u32) -> [u32; 3] {
    [columns.div_ceil(BLOCK), tokens, 1]
}
