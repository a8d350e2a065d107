//! What lies in the device's memory: weights, the cache, what a step reads of the host, and what its kernels hand on.

use super::config::Config;
use super::device::{Contents, Device, Outcome, Tensor};
use super::numbers::bytes_of_f32;
use super::products::ROWS;
use super::weights::Weights;
use tilelift::ir::{Scalar, SortOrder};
use tilelift_kernels::TopK;

/// The `k` most likely tokens.
pub(crate) fn most_likely(vocab: u32, k: u32) -> TopK {
    TopK::new(Scalar::F32, SortOrder::Descending, vocab, k)
}

/// What an engine is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Tokens of a step, and sequences.
    pub tokens: u32,
    pub sequences: u32,
    /// Tokens that a sequence may have.
    pub context: u32,
    /// Pages of the cache.
    pub pages: u32,
    /// Candidates of a choice among several tokens.
    pub k: u32,
}

impl Limits {
    /// Pages that a sequence may have.
    pub fn pages_of_sequence(&self, page: u32) -> u32 {
        self.context.div_ceil(page)
    }
}

/// A layer's weights and its part of the cache.
pub(crate) struct LayerMemory {
    pub input_norm: Tensor,
    pub joined: Tensor,
    pub out: Tensor,
    pub post_norm: Tensor,
    /// Rows of the gate, then of what it is multiplied by.
    pub gate_up: Tensor,
    pub down: Tensor,
    /// Pages of keys and of values, `[pages, P, kv heads, dim]`.
    pub keys: Tensor,
    pub values: Tensor,
}

/// What the host writes for a step.
pub(crate) struct Inputs {
    pub tokens: Tensor,
    pub position: Tensor,
    pub sequence: Tensor,
    pub table: Tensor,
    /// Blocks of prompts: sequence, first row, its position, rows.
    pub work: Tensor,
    /// Keys of each sequence, and its last row.
    pub context: Tensor,
    pub last: Tensor,
    /// Random numbers.
    pub number: Tensor,
}

/// What kernels of a step hand on.
pub(crate) struct Between {
    /// The residual stream in front of attention (and behind the layer), and in front of the MLP.
    pub x: Tensor,
    pub y: Tensor,
    pub n: Tensor,
    pub joined: Tensor,
    pub q: Tensor,
    pub o: Tensor,
    pub gate_up: Tensor,
    pub inner: Tensor,
    pub last: Tensor,
    pub logits: Tensor,
    /// What the launches of a choice hand on: of the most likely token, and of one of several.
    pub heads: [Vec<Tensor>; 2],
    /// The largest logits.
    pub most: Tensor,
    /// The chosen tokens.
    pub next: Tensor,
}

pub(crate) struct EngineMemory {
    pub layers: Vec<LayerMemory>,
    pub embedding: Tensor,
    pub norm: Tensor,
    pub head: Tensor,
    pub cos: Tensor,
    pub sin: Tensor,
    pub inputs: Inputs,
    pub between: Between,
    /// Workspaces of plans and chunks of attention, by number: launches one behind the other share them.
    scratch: Vec<Tensor>,
}

impl EngineMemory {
    pub fn new(c: &Config, limits: &Limits, weights: &Weights, device: &mut Device) -> Outcome<EngineMemory> {
        let [hidden, dim, mlp, vocab] = [c.hidden, c.dim, c.mlp, c.vocab];
        let (heads, all) = (c.heads * dim, c.joined_heads() * dim);
        let bf16 = Scalar::BF16;
        let mut layers = Vec::new();
        for layer in 0..c.layers {
            // Weights for measurements have one layer, which all of the model's are like.
            let w = &weights.layers[layer % weights.layers.len()];
            let mut of = |shape: &[u32], bytes: &[u8]| device.alloc(bf16, shape, Contents::Bytes(bytes));
            let (input_norm, post_norm) = (of(&[hidden], &w.input_norm)?, of(&[hidden], &w.post_norm)?);
            let (joined, out) = (of(&[all, hidden], &w.joined)?, of(&[hidden, heads], &w.out)?);
            let (gate_up, down) = (of(&[2 * mlp, hidden], &w.gate_up)?, of(&[hidden, mlp], &w.down)?);
            // What is no key yet has no weight, but its values are multiplied: they have to be numbers.
            let mut pages = || device.alloc(bf16, &[limits.pages, c.page, c.kv_heads, dim], Contents::Zeros);
            let (keys, values) = (pages()?, pages()?);
            layers.push(LayerMemory { input_norm, joined, out, post_norm, gate_up, down, keys, values });
        }
        let (t, s) = (limits.tokens, limits.sequences);
        // Blocks of prompts: each sequence has one more than whole ones.
        let blocks = t.div_ceil(c.block()) + s;
        let int = |device: &mut Device, shape: &[u32]| device.alloc(Scalar::I32, shape, Contents::Zeros);
        let inputs = Inputs {
            tokens: int(device, &[t])?,
            position: int(device, &[t])?,
            sequence: int(device, &[t])?,
            table: int(device, &[s, limits.pages_of_sequence(c.page)])?,
            work: int(device, &[blocks, 4])?,
            context: int(device, &[s])?,
            last: int(device, &[s])?,
            number: device.alloc(Scalar::F32, &[s], Contents::Zeros)?,
        };
        let [t, s] = [t, s].map(|rows| rows.next_multiple_of(ROWS));
        // What products read has rows that no token wrote.
        let mut rows = |shape: &[u32]| device.alloc(bf16, shape, Contents::Zeros);
        let (x, y, n, last) = (rows(&[t, hidden])?, rows(&[t, hidden])?, rows(&[t, hidden])?, rows(&[s, hidden])?);
        let (o, inner) = (rows(&[t, c.kv_heads, c.group(), dim])?, rows(&[t, mlp])?);
        let mut room = |elem: Scalar, shape: &[u32]| device.alloc(elem, shape, Contents::Undefined);
        let mut heads = [Vec::new(), Vec::new()];
        for (heads, k) in heads.iter_mut().zip([1, limits.k]) {
            for w in most_likely(vocab, k).workspaces(s, vocab) {
                heads.push(room(w.elem, &w.shape)?);
            }
        }
        let between = Between {
            x,
            y,
            n,
            joined: room(bf16, &[t, all])?,
            q: room(bf16, &[t, c.kv_heads, c.group(), dim])?,
            o,
            gate_up: room(bf16, &[t, 2 * mlp])?,
            inner,
            last,
            logits: room(Scalar::F32, &[s, vocab])?,
            heads,
            most: room(Scalar::F32, &[s, 1])?,
            next: room(Scalar::I32, &[s])?,
        };
        let [cos, sin] = angles(c, limits.context);
        let half = dim / 2;
        Ok(EngineMemory {
            layers,
            embedding: device.alloc(bf16, &[vocab, hidden], Contents::Bytes(&weights.embedding))?,
            norm: device.alloc(bf16, &[hidden], Contents::Bytes(&weights.norm))?,
            head: device.alloc(bf16, &[vocab, hidden], Contents::Bytes(&weights.head))?,
            cos: device.alloc(Scalar::F32, &[limits.context, half], Contents::Bytes(&bytes_of_f32(&cos)))?,
            sin: device.alloc(Scalar::F32, &[limits.context, half], Contents::Bytes(&bytes_of_f32(&sin)))?,
            inputs,
            between,
            scratch: Vec::new(),
        })
    }

    /// The scratch of a number, as a tensor; a larger one where it does not suffice: launches that are bound to the old one keep it.
    pub fn scratch(&mut self, device: &mut Device, number: usize, elem: Scalar, shape: &[u32]) -> Outcome<Tensor> {
        let want = Tensor { buffer: 0, offset: 0, elem, shape: shape.to_vec() };
        while self.scratch.len() <= number {
            self.scratch.push(device.alloc(elem, &[0], Contents::Undefined)?);
        }
        if self.scratch[number].bytes() < want.bytes() {
            self.scratch[number] = device.alloc(elem, shape, Contents::Undefined)?;
        }
        Ok(Tensor { buffer: self.scratch[number].buffer, ..want })
    }
}

/// Cosines and sines of all positions and pairs.
fn angles(c: &Config, positions: u32) -> [Vec<f32>; 2] {
    let half = c.dim / 2;
    let angle = |at: u32| {
        let (position, pair) = (f64::from(at / half), f64::from(at % half));
        position * c.theta.powf(-2.0 * pair / f64::from(c.dim))
    };
    [f64::cos, f64::sin].map(|f| (0..positions * half).map(|at| f(angle(at)) as f32).collect())
}
