//! Which token comes next: the most likely one, or one of the `k` most likely ones by a random number of the caller's.
//!
//! ```text
//! logits ─ chunks: the k largest of each ─► the k largest of these ─ softmax(l / temperature), running sums ─► the first above u
//! ```

use tilelift::ir::{Access, BuildErrors, CmpOp, Extent, Kernel, KernelBuilder, Operand, ReduceOp, Scalar, SortOrder, ViewType};

/// The text of the greedy choice.
pub(crate) const GREEDY: &str = include_str!("greedy.tile");

/// Logits of a chunk.
const CHUNK: u32 = 2048;

#[derive(Clone, Copy)]
pub(crate) struct TopK {
    pub k: u32,
    pub vocab: u32,
}

fn any(elem: Scalar, rank: usize) -> ViewType {
    ViewType::dense(elem, &vec![Extent::Dynamic(1); rank])
}

/// What lies outside of a view is no candidate.
fn nothing() -> Access {
    Access { other: Some(Operand::from(f64::NEG_INFINITY)), ..Access::default() }
}

impl TopK {
    fn chunk(&self) -> u32 {
        CHUNK.min(self.vocab.next_power_of_two()).max(self.k)
    }

    /// Chunks of a row.
    pub fn chunks(&self) -> u32 {
        self.vocab.div_ceil(self.chunk())
    }

    /// Candidates of each chunk. Parameters: `logits[rows, vocab]`, `value[rows, chunks, k]` and `token[rows, chunks, k]`; a program takes a chunk (x)
    /// of a row (y).
    pub fn candidates(&self) -> Result<Kernel, BuildErrors> {
        let chunk = self.chunk();
        let mut b = KernelBuilder::new("candidates");
        b.warps((chunk / 256).clamp(1, 8));
        let logits = b.param(any(Scalar::F32, 2));
        let [value, token] = [Scalar::F32, Scalar::I32].map(|t| b.param(any(t, 3)));
        let (part, row) = (b.program_id(0), b.program_id(1));
        let first = b.mul(part, chunk);
        let zero = b.constant(0, Scalar::I32);
        let t = b.load_with(logits, &[row, first], &[1, chunk], nothing());
        let t = b.reshape(t, &[chunk]);
        let (best, at) = b.top_k(SortOrder::Descending, t, 0, self.k);
        let at = b.add(at, first);
        let best = b.reshape(best, &[1, 1, self.k]);
        let at = b.reshape(at, &[1, 1, self.k]);
        b.store(value, &[row, part, zero], best);
        b.store(token, &[row, part, zero], at);
        b.finish()
    }

    /// The choice. Parameters: `value` and `token` of all candidates, `[rows, chunks * k]`, `number[rows]` from 0 to below 1, `next[rows]`, and the scalar
    /// `1 / temperature`; a program takes a row.
    pub fn choose(&self) -> Result<Kernel, BuildErrors> {
        let (k, all) = (self.k, (self.chunks() * self.k).next_power_of_two());
        let mut b = KernelBuilder::new("choose");
        b.warps((all / 256).clamp(1, 8));
        let [value, token] = [Scalar::F32, Scalar::I32].map(|t| b.param(any(t, 2)));
        let (number, next) = (b.param(any(Scalar::F32, 1)), b.param(any(Scalar::I32, 1)));
        let colder = b.param(Scalar::F32);
        let row = b.program_id(0);
        let zero = b.constant(0, Scalar::I32);
        let t = b.load_with(value, &[row, zero], &[1, all], nothing());
        let t = b.reshape(t, &[all]);
        let ids = b.load(token, &[row, zero], &[1, all]);
        let ids = b.reshape(ids, &[all]);
        let (best, at) = b.top_k(SortOrder::Descending, t, 0, k);
        let ids = b.gather_tile(ids, at, 0);
        let most = b.reduce_keep(ReduceOp::Maximum, best, 0);
        let below = b.sub(best, most);
        let below = b.mul(below, colder);
        let weight = b.exp(below);
        let sums = b.scan(ReduceOp::Add, weight, 0);
        let total = b.reduce(ReduceOp::Maximum, sums, 0);
        let u = b.load_scalar(number, &[row]);
        let mark = b.mul(u, total);
        // As many as have running sums up to the mark come before the choice.
        let before = b.cmp(CmpOp::Le, sums, mark);
        let before = b.cast(before, Scalar::I32);
        let before = b.reduce(ReduceOp::Add, before, 0);
        let place = b.minimum(before, k - 1);
        let here = b.iota(&[k], 0);
        let here = b.cmp(CmpOp::Eq, here, place);
        let none = b.full(&[k], 0, Scalar::I32);
        let id = b.select(here, ids, none);
        let id = b.reduce(ReduceOp::Add, id, 0);
        let id = b.splat(id, &[1]);
        b.store(next, &[row], id);
        b.finish()
    }
}
