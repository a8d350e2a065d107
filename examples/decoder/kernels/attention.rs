//! Attention over the pages of the cache, with grouped queries.
//!
//! ```text
//! prompt    a block of tokens of one sequence, the queries of a group:   rows = (token, head)     keys up to each token's own position
//! decode    one token, the queries of a group, a chunk of the keys:      rows = head              partial results where there are several chunks
//! ```
//!
//! Both go over the keys once; the row maximum, the sum and the weighted values are carried and rescaled. A step's keys lie in one page, whose number
//! is read from the sequence's table.

use tilelift::ir::{BuildErrors, CmpOp, Extent, Kernel, KernelBuilder, ReduceOp, Scalar, Value, ViewType};

const ANY: Extent = Extent::Dynamic(1);

/// Rows that a matrix instruction has at least.
const ROWS: u32 = 16;

#[derive(Clone, Copy)]
pub(crate) struct Attention {
    pub kv_heads: u32,
    pub group: u32,
    pub dim: u32,
    /// Tokens of a page.
    pub page: u32,
    /// Keys of a step; divides a page.
    pub step: u32,
    pub warps: u32,
    pub stages: u32,
}

/// What a loop over keys needs.
struct Keys {
    keys: Value,
    values: Value,
    table: Value,
    owner: Value,
    head: Value,
    /// Scale of the scores times log2(e).
    scale: Value,
}

impl Attention {
    fn queries(&self) -> ViewType {
        ViewType::dense(Scalar::BF16, &[ANY, Extent::Fixed(self.kv_heads), Extent::Fixed(self.group), Extent::Fixed(self.dim)])
    }

    fn pages(&self) -> ViewType {
        ViewType::dense(Scalar::BF16, &[ANY, Extent::Fixed(self.page), Extent::Fixed(self.kv_heads), Extent::Fixed(self.dim)])
    }

    /// Attention over prompts. `work[n, 4]` says of each block: its sequence, its first row of `q`, that row's position, how many rows it has.
    /// Parameters: `q` and, behind the pages `k` and `v`, `table[sequences, pages]` and `work`, `o`, each as `q[t, kv heads, group, dim]`; the scale.
    pub fn prompt(&self, block: u32) -> Result<Kernel, BuildErrors> {
        let Attention { group, dim, .. } = *self;
        let rows = block * group;
        let mut b = KernelBuilder::new("prompt_attention");
        b.warps(self.warps).stages(self.stages);
        let q = b.param(self.queries());
        let [keys, values] = [(); 2].map(|()| b.param(self.pages()));
        let table = b.param(ViewType::dense(Scalar::I32, &[ANY, ANY]));
        let work = b.param(ViewType::dense(Scalar::I32, &[ANY, Extent::Fixed(4)]));
        let o = b.param(self.queries());
        let scale = b.param(Scalar::F32);
        let scale = b.mul(scale, std::f32::consts::LOG2_E);
        let (head, item) = (b.program_id(0), b.program_id(1));
        let [owner, first, position, count] = [0, 1, 2, 3].map(|field| {
            let field = b.constant(field, Scalar::I32);
            b.load_scalar(work, &[item, field])
        });
        let zero = b.constant(0, Scalar::I32);
        let queries = b.load(q, &[first, head, zero, zero], &[block, 1, group, dim]);
        let queries = b.reshape(queries, &[rows, dim]);
        // Row r is a query of token r / group, which sees the keys up to its own.
        let token = b.iota(&[rows, 1], 0);
        let token = b.div(token, group);
        let limit = b.add(position, 1);
        let limit = b.add(token, limit);
        let end = b.add(position, count);
        let [_, sum, acc] = self.over(&mut b, &Keys { keys, values, table, owner, head, scale }, queries, [zero, end], limit);
        let share = b.rcp(sum);
        let out = b.mul(acc, share);
        let out = b.cast(out, Scalar::BF16);
        let out = b.reshape(out, &[block, 1, group, dim]);
        // Rows behind the last are another block's.
        let own = b.iota(&[block, 1, group, dim], 0);
        let own = b.cmp(CmpOp::Lt, own, count);
        b.store_with(o, &[first, head, zero, zero], out, Some(own));
        b.finish()
    }

    /// Attention of one token per sequence; `context[sequences]` says how many keys each has. With `chunks`, results are those of each chunk of keys:
    /// `o[sequences, chunks, heads, dim]` in `f32` and `lse[sequences, chunks, heads]` to the base 2. Parameters: `q`, the pages `k` and `v`, `table`,
    /// `context`, `o`, with chunks `lse`; the scale, with chunks the keys of one.
    pub fn decode(&self, chunks: bool) -> Result<Kernel, BuildErrors> {
        let Attention { kv_heads, group, dim, .. } = *self;
        let rows = group.next_power_of_two().max(ROWS);
        let fixed = Extent::Fixed;
        let mut b = KernelBuilder::new(if chunks { "decode_attention_chunks" } else { "decode_attention" });
        b.warps(self.warps).stages(self.stages);
        let q = b.param(self.queries());
        let [keys, values] = [(); 2].map(|()| b.param(self.pages()));
        let table = b.param(ViewType::dense(Scalar::I32, &[ANY, ANY]));
        let context = b.param(ViewType::dense(Scalar::I32, &[ANY]));
        let parts = |last: &[Extent]| ViewType::dense(Scalar::F32, &[&[ANY, ANY, fixed(kv_heads), fixed(group)][..], last].concat());
        let o = b.param(if chunks { parts(&[fixed(dim)]) } else { self.queries() });
        let lse = chunks.then(|| b.param(parts(&[])));
        let scale = b.param(Scalar::F32);
        let scale = b.mul(scale, std::f32::consts::LOG2_E);
        let length = chunks.then(|| b.param(Scalar::I32));
        let (head, chunk, owner) = (b.program_id(0), b.program_id(1), b.program_id(2));
        let zero = b.constant(0, Scalar::I32);
        let end = b.load_scalar(context, &[owner]);
        let span = match length {
            Some(length) => {
                let from = b.mul(chunk, length);
                let to = b.add(from, length);
                [from, b.minimum(to, end)]
            }
            None => [zero, end],
        };
        // Rows behind the group read zeros, and are not stored: both lie outside of the views.
        let queries = b.load(q, &[owner, head, zero, zero], &[1, 1, rows, dim]);
        let queries = b.reshape(queries, &[rows, dim]);
        let [most, sum, acc] = self.over(&mut b, &Keys { keys, values, table, owner, head, scale }, queries, span, end);
        // A chunk behind the last key has no share.
        let some = b.cmp(CmpOp::Gt, sum, 0.0);
        let share = b.rcp(sum);
        let none = b.full(&[rows, 1], 0.0, Scalar::F32);
        let share = b.select(some, share, none);
        let out = b.mul(acc, share);
        match lse {
            Some(lse) => {
                let size = b.log2(sum);
                let size = b.fma(most, scale, size);
                let none = b.full(&[rows, 1], f64::NEG_INFINITY, Scalar::F32);
                let size = b.select(some, size, none);
                let size = b.reshape(size, &[1, 1, 1, rows]);
                b.store(lse, &[owner, chunk, head, zero], size);
                let out = b.reshape(out, &[1, 1, 1, rows, dim]);
                b.store(o, &[owner, chunk, head, zero, zero], out);
            }
            None => {
                let out = b.cast(out, Scalar::BF16);
                let out = b.reshape(out, &[1, 1, rows, dim]);
                b.store(o, &[owner, head, zero, zero], out);
            }
        }
        b.finish()
    }

    /// Maximum, sum and weighted values of each row over the keys of a span that are below its limit, a scalar or a column.
    fn over(&self, b: &mut KernelBuilder, of: &Keys, queries: Value, span: [Value; 2], limit: Value) -> [Value; 3] {
        let Attention { dim, page, step, .. } = *self;
        let rows = b.ty(queries).shape().map_or(0, |s| s[0]);
        let scale = of.scale;
        let zero = b.constant(0, Scalar::I32);
        let most = b.full(&[rows, 1], f64::NEG_INFINITY, Scalar::F32);
        let sum = b.full(&[rows, 1], 0.0, Scalar::F32);
        let acc = b.full(&[rows, dim], 0.0, Scalar::F32);
        let carried = b.for_loop(span[0], span[1], step, &[most, sum, acc], |b, at, carried| {
            let number = b.div(at, page);
            let number = b.load_scalar(of.table, &[of.owner, number]);
            let row = b.rem(at, page);
            let [keys, values] = [of.keys, of.values].map(|pages| {
                let t = b.load(pages, &[number, row, of.head, zero], &[1, step, 1, dim]);
                b.reshape(t, &[step, dim])
            });
            let keys = b.transpose(keys, &[1, 0]);
            let none = b.full(&[rows, step], 0.0, Scalar::F32);
            let s = b.dot(queries, keys, none);
            let key = b.iota(&[rows, step], 1);
            let key = b.add(key, at);
            let seen = b.cmp(CmpOp::Lt, key, limit);
            let hidden = b.full(&[rows, step], f64::NEG_INFINITY, Scalar::F32);
            let s = b.select(seen, s, hidden);
            let top = b.reduce_keep(ReduceOp::Maximum, s, 1);
            let most = b.maximum(carried[0], top);
            let shift = b.mul(most, scale);
            let shift = b.neg(shift);
            let s = b.fma(s, scale, shift);
            let p = b.exp2(s);
            let fade = b.fma(carried[0], scale, shift);
            let fade = b.exp2(fade);
            let new = b.reduce_keep(ReduceOp::Add, p, 1);
            let sum = b.fma(carried[1], fade, new);
            let acc = b.mul(carried[2], fade);
            let p = b.cast(p, Scalar::BF16);
            vec![most, sum, b.dot(p, values, acc)]
        });
        [carried[0], carried[1], carried[2]]
    }
}
