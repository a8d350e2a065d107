//! A model's weights: made from a seed, written to a `.safetensors` file, and read back from it.
//!
//! Names and shapes are those of Llama checkpoints; the engine joins the rows of queries, keys and values to one matrix, and those of both factors of the MLP.

use super::config::Config;
use super::device::Outcome;
use super::numbers::spread;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use std::path::Path;

/// A layer's weights: bf16, `[out, in]` each, as bytes.
#[derive(Clone)]
pub(crate) struct LayerWeights {
    pub input_norm: Vec<u8>,
    /// Rows of queries, of keys, of values.
    pub joined: Vec<u8>,
    pub out: Vec<u8>,
    pub post_norm: Vec<u8>,
    /// Rows of the gate, then of what it is multiplied by.
    pub gate_up: Vec<u8>,
    pub down: Vec<u8>,
}

#[derive(Clone)]
pub(crate) struct Weights {
    pub embedding: Vec<u8>,
    pub layers: Vec<LayerWeights>,
    pub norm: Vec<u8>,
    pub head: Vec<u8>,
}

/// What a tensor is made like: around 1, or around 0 with a variance of one by the numbers that are added up.
enum Like {
    Norm,
    Matrix,
}

/// Names, shapes and kinds of a layer's tensors.
fn of_layer(c: &Config, layer: usize) -> Vec<(String, Vec<usize>, Like)> {
    let [hidden, mlp] = [c.hidden, c.mlp].map(|e| e as usize);
    let [q, kv] = [c.heads * c.dim, c.kv_heads * c.dim].map(|e| e as usize);
    let list: [(&str, Vec<usize>, Like); 9] = [
        ("input_layernorm", vec![hidden], Like::Norm),
        ("self_attn.q_proj", vec![q, hidden], Like::Matrix),
        ("self_attn.k_proj", vec![kv, hidden], Like::Matrix),
        ("self_attn.v_proj", vec![kv, hidden], Like::Matrix),
        ("self_attn.o_proj", vec![hidden, q], Like::Matrix),
        ("post_attention_layernorm", vec![hidden], Like::Norm),
        ("mlp.gate_proj", vec![mlp, hidden], Like::Matrix),
        ("mlp.up_proj", vec![mlp, hidden], Like::Matrix),
        ("mlp.down_proj", vec![hidden, mlp], Like::Matrix),
    ];
    list.into_iter().map(|(name, shape, like)| (format!("model.layers.{layer}.{name}.weight"), shape, like)).collect()
}

fn of_model(c: &Config) -> Vec<(String, Vec<usize>, Like)> {
    let [hidden, vocab] = [c.hidden, c.vocab].map(|e| e as usize);
    let mut list = vec![
        ("model.embed_tokens.weight".to_owned(), vec![vocab, hidden], Like::Matrix),
        ("model.norm.weight".to_owned(), vec![hidden], Like::Norm),
        ("lm_head.weight".to_owned(), vec![vocab, hidden], Like::Matrix),
    ];
    (0..c.layers).for_each(|layer| list.extend(of_layer(c, layer)));
    list
}

fn made(seed: u64, number: usize, shape: &[usize], like: &Like) -> Vec<u8> {
    let count = shape.iter().product();
    let seed = seed.wrapping_mul(0x100_0000).wrapping_add(number as u64);
    match like {
        Like::Norm => spread(seed, count, 1.0, 0.25),
        Like::Matrix => spread(seed, count, 0.0, (3.0 / shape[1] as f32).sqrt()),
    }
}

/// Writes a model's file.
pub(crate) fn write(c: &Config, seed: u64, path: &Path) -> Outcome<()> {
    let list = of_model(c);
    let tensors: Vec<Vec<u8>> = list.iter().enumerate().map(|(n, (_, shape, like))| made(seed, n, shape, like)).collect();
    let views = list.iter().zip(&tensors).map(|((name, shape, _), bytes)| Ok((name, TensorView::new(Dtype::BF16, shape.clone(), bytes)?)));
    let views = views.collect::<Result<Vec<_>, safetensors::SafeTensorError>>()?;
    Ok(std::fs::write(path, safetensors::serialize(views, None)?)?)
}

impl Weights {
    /// Reads a model's file.
    pub fn read(c: &Config, path: &Path) -> Outcome<Weights> {
        let bytes = std::fs::read(path)?;
        let file = SafeTensors::deserialize(&bytes)?;
        let tensor = |name: &str, shape: &[usize]| -> Outcome<Vec<u8>> {
            let t = file.tensor(name)?;
            if t.dtype() != Dtype::BF16 || t.shape() != shape {
                return Err(format!("{name} is {:?} {:?}; the model wants BF16 {shape:?}", t.dtype(), t.shape()).into());
            }
            Ok(t.data().to_vec())
        };
        Weights::of(c, tensor)
    }

    /// The same without a file, every layer with the numbers of the first: for measurements.
    pub fn alike(c: &Config, seed: u64) -> Outcome<Weights> {
        let one = Config { layers: 1, ..c.clone() };
        let list = of_model(&one);
        let tensor = |name: &str, shape: &[usize]| -> Outcome<Vec<u8>> {
            let at = list.iter().position(|t| t.0 == name).ok_or("no such tensor")?;
            Ok(made(seed, at, shape, &list[at].2))
        };
        Weights::of(&one, tensor)
    }

    fn of(c: &Config, tensor: impl Fn(&str, &[usize]) -> Outcome<Vec<u8>>) -> Outcome<Weights> {
        let layer = |layer: usize| -> Outcome<LayerWeights> {
            let mut all = Vec::new();
            for (name, shape, _) in of_layer(c, layer) {
                all.push(tensor(&name, &shape)?);
            }
            let mut all = all.into_iter();
            let mut next = || all.next().unwrap_or_default();
            let (input_norm, joined) = (next(), [next(), next(), next()].concat());
            let (out, post_norm) = (next(), next());
            Ok(LayerWeights { input_norm, joined, out, post_norm, gate_up: [next(), next()].concat(), down: next() })
        };
        let mut rest = Vec::new();
        for (name, shape, _) in of_model(&Config { layers: 0, ..c.clone() }) {
            rest.push(tensor(&name, &shape)?);
        }
        let layers = (0..c.layers).map(layer).collect::<Outcome<Vec<_>>>()?;
        let mut rest = rest.into_iter();
        let mut next = || rest.next().unwrap_or_default();
        Ok(Weights { embedding: next(), norm: next(), head: next(), layers })
    }
}
