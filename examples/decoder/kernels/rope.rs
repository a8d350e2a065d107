//! Rotary positions, and the way of keys and values into the pages of the cache.
//!
//! ```text
//! joined[t] = q heads | k heads | v heads ─► q[t] turned     k turned, v ─► page table[sequence[t], position[t] / P], row position[t] % P
//! ```
//!
//! A program takes a token and one head of keys with the queries of its group. Where the product was computed in parts of its depth, their sums are
//! taken here, so that the product needs no launch of its own for that.

use tilelift::ir::{BuildErrors, Extent, Kernel, KernelBuilder, Scalar, Value, ViewType};

const ANY: Extent = Extent::Dynamic(1);

pub(crate) struct Rope {
    pub heads: u32,
    pub kv_heads: u32,
    pub dim: u32,
    pub page: u32,
    /// Parts of the depth, whose sums are in `f32`; without them the product is in `bf16`.
    pub parts: Option<u32>,
}

impl Rope {
    /// Parameters: `joined[t, heads, dim]` (with parts: `[parts, t, heads, dim]`), `cos` and `sin` of `[positions, dim / 2]`, `position[t]`,
    /// `sequence[t]`, `table[sequences, pages]`, `q[t, kv heads, group, dim]`, and the pages `k` and `v` of `[pages, P, kv heads, dim]`.
    pub fn build(&self) -> Result<Kernel, BuildErrors> {
        let Rope { heads, kv_heads, dim, page, parts } = *self;
        let (group, half) = (heads / kv_heads, dim / 2);
        let fixed = Extent::Fixed;
        let mut b = KernelBuilder::new("rope_cache");
        b.warps(1);
        let joined = [ANY, fixed(heads + 2 * kv_heads), fixed(dim)];
        let joined = match parts {
            Some(n) => ViewType::dense(Scalar::F32, &[&[fixed(n)][..], &joined].concat()),
            None => ViewType::dense(Scalar::BF16, &joined),
        };
        let joined = b.param(joined);
        let [cos, sin] = [(); 2].map(|()| b.param(ViewType::dense(Scalar::F32, &[ANY, fixed(half)])));
        let [position, sequence] = [(); 2].map(|()| b.param(ViewType::dense(Scalar::I32, &[ANY])));
        let table = b.param(ViewType::dense(Scalar::I32, &[ANY, ANY]));
        let q = b.param(ViewType::dense(Scalar::BF16, &[ANY, fixed(kv_heads), fixed(group), fixed(dim)]));
        let [keys, values] = [(); 2].map(|()| b.param(ViewType::dense(Scalar::BF16, &[ANY, fixed(page), fixed(kv_heads), fixed(dim)])));

        let (token, head) = (b.program_id(0), b.program_id(1));
        let at = b.load_scalar(position, &[token]);
        let owner = b.load_scalar(sequence, &[token]);
        let number = b.div(at, page);
        let row = b.rem(at, page);
        let number = b.load_scalar(table, &[owner, number]);
        let (zero, middle) = (b.constant(0, Scalar::I32), b.constant(half, Scalar::I32));
        let [cos, sin] = [cos, sin].map(|t| b.load(t, &[at, zero], &[1, half]));

        // Heads from `first` on, columns from `column` on, as f32.
        let load = |b: &mut KernelBuilder, first: Value, column: Value, shape: [u32; 2]| match parts {
            None => {
                let t = b.load(joined, &[token, first, column], &[1, shape[0], shape[1]]);
                let t = b.reshape(t, &shape);
                b.cast(t, Scalar::F32)
            }
            Some(n) => {
                let mut one = |part: u32| {
                    let part = b.constant(part, Scalar::I32);
                    let t = b.load(joined, &[part, token, first, column], &[1, 1, shape[0], shape[1]]);
                    b.reshape(t, &shape)
                };
                let all: Vec<Value> = (0..n).map(&mut one).collect();
                all[1..].iter().fold(all[0], |sum, &t| b.add(sum, t))
            }
        };
        // Both halves of so many heads, turned.
        let turned = |b: &mut KernelBuilder, first: Value, count: u32| {
            let [x, y] = [zero, middle].map(|column| load(b, first, column, [count, half]));
            let (a, c) = (b.mul(x, cos), b.mul(y, sin));
            let left = b.sub(a, c);
            let (a, c) = (b.mul(y, cos), b.mul(x, sin));
            let right = b.add(a, c);
            [left, right].map(|t| b.cast(t, Scalar::BF16))
        };
        let first = b.mul(head, group);
        let queries = turned(&mut b, first, group);
        for (t, column) in queries.into_iter().zip([zero, middle]) {
            let t = b.reshape(t, &[1, 1, group, half]);
            b.store(q, &[token, head, zero, column], t);
        }
        let first = b.add(head, heads);
        let key = turned(&mut b, first, 1);
        for (t, column) in key.into_iter().zip([zero, middle]) {
            let t = b.reshape(t, &[1, 1, 1, half]);
            b.store(keys, &[number, row, head, column], t);
        }
        let first = b.add(first, kv_heads);
        let value = load(&mut b, first, zero, [1, dim]);
        let value = b.cast(value, Scalar::BF16);
        let value = b.reshape(value, &[1, 1, 1, dim]);
        b.store(values, &[number, row, head, zero], value);
        b.finish()
    }
}
