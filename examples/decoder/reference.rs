//! The same model in plain Rust: in `f64` without any rounding, and as frameworks round it, to bf16 behind every operation.

use super::config::Config;
use super::numbers::{bf16s, round_bf16};
use super::weights::Weights;

/// Where numbers are rounded.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Rounding {
    /// Nowhere.
    Exact,
    /// Behind norms, products, rotary, the probabilities and results of attention, activations, residuals.
    Framework,
}

impl Rounding {
    fn of(self, mut x: Vec<f64>) -> Vec<f64> {
        if self == Rounding::Framework {
            x.iter_mut().for_each(|v| *v = round_bf16(*v));
        }
        x
    }

    fn one(self, x: f64) -> f64 {
        if self == Rounding::Framework { round_bf16(x) } else { x }
    }
}

/// What the model makes of a sequence.
pub(crate) struct Passed {
    /// Results of each layer, `[tokens, hidden]`.
    pub layers: Vec<Vec<f64>>,
    /// `[tokens, vocab]`.
    pub logits: Vec<f64>,
}

/// Weights as numbers.
pub(crate) struct Model {
    config: Config,
    embedding: Vec<f32>,
    norm: Vec<f32>,
    head: Vec<f32>,
    layers: Vec<Layer>,
}

struct Layer {
    input_norm: Vec<f32>,
    joined: Vec<f32>,
    out: Vec<f32>,
    post_norm: Vec<f32>,
    gate_up: Vec<f32>,
    down: Vec<f32>,
}

/// `x[t, k] · w[n, k]`: rows in as many threads as there are processors.
fn product(x: &[f64], w: &[f32], k: usize) -> Vec<f64> {
    let (rows, n) = (x.len() / k, w.len() / k);
    let mut out = vec![0.0; rows * n];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = rows.div_ceil(threads).max(1);
    std::thread::scope(|scope| {
        for (x, out) in x.chunks(share * k).zip(out.chunks_mut(share * n)) {
            scope.spawn(move || {
                for (row, out) in x.chunks(k).zip(out.chunks_mut(n)) {
                    for (w, out) in w.chunks(k).zip(out) {
                        // Several sums at a time, which the compiler makes vectors of.
                        let mut sums = [0.0; 8];
                        for (a, b) in row.chunks(8).zip(w.chunks(8)) {
                            sums.iter_mut().zip(a.iter().zip(b)).for_each(|(s, (&a, &b))| *s += a * f64::from(b));
                        }
                        *out = sums.iter().sum();
                    }
                }
            });
        }
    });
    out
}

fn norm(x: &[f64], w: &[f32], eps: f32) -> Vec<f64> {
    let of = |row: &[f64]| {
        let mean = row.iter().map(|v| v * v).sum::<f64>() / row.len() as f64;
        let scale = 1.0 / (mean + f64::from(eps)).sqrt();
        row.iter().zip(w).map(|(v, &w)| v * scale * f64::from(w)).collect::<Vec<_>>()
    };
    x.chunks(w.len()).flat_map(of).collect()
}

fn plus(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

impl Model {
    pub fn new(config: &Config, weights: &Weights) -> Model {
        let layers = weights.layers.iter().map(|l| Layer {
            input_norm: bf16s(&l.input_norm),
            joined: bf16s(&l.joined),
            out: bf16s(&l.out),
            post_norm: bf16s(&l.post_norm),
            gate_up: bf16s(&l.gate_up),
            down: bf16s(&l.down),
        });
        Model {
            config: config.clone(),
            embedding: bf16s(&weights.embedding),
            norm: bf16s(&weights.norm),
            head: bf16s(&weights.head),
            layers: layers.collect(),
        }
    }

    /// All tokens of a sequence at once.
    pub fn pass(&self, tokens: &[u32], rounding: Rounding) -> Passed {
        let c = &self.config;
        let [hidden, mlp] = [c.hidden, c.mlp].map(|e| e as usize);
        let of = |&t: &u32| self.embedding[t as usize * hidden..][..hidden].iter().map(|&v| f64::from(v));
        let mut x: Vec<f64> = tokens.iter().flat_map(of).collect();
        let mut layers = Vec::new();
        for l in &self.layers {
            let n = rounding.of(norm(&x, &l.input_norm, c.eps));
            let joined = rounding.of(product(&n, &l.joined, hidden));
            let o = rounding.of(self.attention(joined, rounding));
            let o = rounding.of(product(&o, &l.out, (c.heads * c.dim) as usize));
            x = rounding.of(plus(&x, &o));
            let n = rounding.of(norm(&x, &l.post_norm, c.eps));
            let (gate, up) = l.gate_up.split_at(mlp * hidden);
            let gate = rounding.of(product(&n, gate, hidden));
            let gate = rounding.of(gate.iter().map(|v| v / (1.0 + (-v).exp())).collect());
            let up = rounding.of(product(&n, up, hidden));
            let inner = rounding.of(gate.iter().zip(&up).map(|(g, u)| g * u).collect());
            let down = rounding.of(product(&inner, &l.down, mlp));
            x = rounding.of(plus(&x, &down));
            layers.push(x.clone());
        }
        let n = rounding.of(norm(&x, &self.norm, c.eps));
        Passed { layers, logits: rounding.of(product(&n, &self.head, hidden)) }
    }

    /// Causal attention of the joined queries, keys and values of each token.
    fn attention(&self, mut joined: Vec<f64>, rounding: Rounding) -> Vec<f64> {
        let c = &self.config;
        let [heads, kv, dim] = [c.heads, c.kv_heads, c.dim].map(|e| e as usize);
        let all = (heads + 2 * kv) * dim;
        for (position, row) in joined.chunks_mut(all).enumerate() {
            for head in row[..(heads + kv) * dim].chunks_mut(dim) {
                for i in 0..dim / 2 {
                    let angle = position as f64 * c.theta.powf(-2.0 * i as f64 / dim as f64);
                    let (x, y) = (head[i], head[i + dim / 2]);
                    head[i] = rounding.one(x * angle.cos() - y * angle.sin());
                    head[i + dim / 2] = rounding.one(y * angle.cos() + x * angle.sin());
                }
            }
        }
        let rows: Vec<&[f64]> = joined.chunks(all).collect();
        let mut out = vec![0.0; rows.len() * heads * dim];
        for (t, out) in out.chunks_mut(heads * dim).enumerate() {
            for (h, out) in out.chunks_mut(dim).enumerate() {
                let q = &rows[t][h * dim..][..dim];
                let shared = h / (heads / kv);
                let score = |s: usize| {
                    let k = &rows[s][(heads + shared) * dim..][..dim];
                    q.iter().zip(k).map(|(a, b)| a * b).sum::<f64>() / (dim as f64).sqrt()
                };
                let scores: Vec<f64> = (0..=t).map(score).collect();
                let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
                let sum: f64 = weights.iter().sum();
                for (s, &w) in weights.iter().enumerate() {
                    let v = &rows[s][(heads + kv + shared) * dim..][..dim];
                    let w = rounding.one(w);
                    out.iter_mut().zip(v).for_each(|(o, v)| *o += w * v);
                }
                out.iter_mut().for_each(|o| *o /= sum);
            }
        }
        out
    }
}
