//! The launches of a step of the model, for a number of tokens and of sequences.
//!
//! ```text
//! embed     rows of the embedding ─ norm
//! layer     joined product ─ rotary + cache ─ attention [─ combine] ─ out product (+ x, norm) ─ gated product [─ gate] ─ down product (+ y, norm)
//! head      last rows ─ logits
//! ```
//!
//! Where a product's depth is split, the kernel behind it adds the parts up: rotary, or residual and norm. Else the residual is the product's epilogue, and
//! the norm a launch of its own.

use super::config::Config;
use super::device::{Device, Launch, Outcome, Tensor};
use super::kernels::attention::Attention;
use super::kernels::combine::combine;
use super::kernels::gate;
use super::kernels::residual_norm::residual_norm;
use super::kernels::rope::Rope;
use super::memory::EngineMemory;
use super::products::{EngineOptions, LAUNCH, Product};
use tilelift::interp::{Arg, ScalarArg};
use tilelift::ir::{Kernel, Scalar};
use tilelift::{Compiler, Settings};
use tilelift_kernels::plan::{DeviceFacts, Problem};
use tilelift_kernels::{Activation, Argument, GatherRows, Residual, RmsNorm, known};

/// What a step is made for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Shape {
    /// Tokens of prompts, in so many blocks.
    Prompt { tokens: u32, blocks: u32, sequences: u32 },
    /// A token of each sequence, its keys in so many chunks of so many.
    Decode { sequences: u32, chunks: u32, length: u32 },
}

impl Shape {
    fn tokens(self) -> u32 {
        match self {
            Shape::Prompt { tokens, .. } => tokens,
            Shape::Decode { sequences, .. } => sequences,
        }
    }

    pub fn sequences(self) -> u32 {
        match self {
            Shape::Prompt { sequences, .. } | Shape::Decode { sequences, .. } => sequences,
        }
    }
}

/// A step's launches.
pub(crate) struct Step {
    pub embed: Vec<Launch>,
    pub layers: Vec<Vec<Launch>>,
    pub head: Vec<Launch>,
    /// How the products run: name, choice, launches.
    pub plans: Vec<String>,
}

/// Makes steps.
pub(crate) struct Maker<'e> {
    pub config: &'e Config,
    pub compiler: &'e Compiler,
    pub facts: &'e DeviceFacts,
    pub device: &'e mut Device,
    pub memory: &'e mut EngineMemory,
    pub options: EngineOptions,
}

/// A layer's products.
struct Products {
    joined: Product,
    out: Product,
    gated: Gated,
    down: Product,
}

/// The product with the gate, and with what it is multiplied by.
enum Gated {
    /// By one plan of the library's.
    Plan(Product),
    /// As one product of twice the columns, and a launch that multiplies.
    Joined(Product),
}

impl Gated {
    fn product(&self) -> &Product {
        match self {
            Gated::Plan(p) | Gated::Joined(p) => p,
        }
    }
}

/// Bytes that a launch moves in a microsecond.
const BYTES: f64 = 3e6;

fn number(value: f32) -> Arg {
    ScalarArg::float(Scalar::F32, f64::from(value)).into()
}

impl Maker<'_> {
    /// Compiles (or finds) a kernel and binds a launch of it.
    pub fn launch(&mut self, kernel: &Kernel, grid: [u32; 3], args: Vec<Arg>) -> Outcome<Launch> {
        let artifact = self.compiler.compile(kernel)?;
        self.device.bind(&artifact, grid, args)
    }

    fn launch_with(&mut self, kernel: &Kernel, settings: &Settings, grid: [u32; 3], args: Vec<Arg>) -> Outcome<Launch> {
        let artifact = self.compiler.compile_with(kernel, settings)?;
        self.device.bind(&artifact, grid, args)
    }

    /// The launches of a product: `tensors` are A, B and what else it has, by what they are to it.
    fn product(&mut self, product: &Product, tensors: &[(Argument, &Tensor)]) -> Outcome<Vec<Launch>> {
        let buffers = product.plan.buffers();
        let mut places = Vec::new();
        for b in &buffers {
            let place = match b.what {
                Argument::Workspace(n) => Some((self.memory.scratch(self.device, n, b.elem, &b.shape)?.buffer, 0)),
                what => tensors.iter().find(|t| t.0 == what).map(|t| (t.1.buffer, t.1.offset)),
            };
            places.push(place);
        }
        let mut list = Vec::new();
        for ready in product.launches() {
            let mut args = product.plan.arguments(ready);
            for arg in &mut args {
                if let Arg::View(v) = arg {
                    (v.buffer, v.offset_bytes) = places[v.buffer].ok_or("a product has an operand that nobody gave")?;
                }
            }
            let options = &ready.options;
            let settings = self.compiler.settings().clone().consumers(options.consumers).consumer_sets(options.consumer_sets);
            list.push(self.launch_with(&ready.launch.kernel, &settings, ready.launch.grid, args)?);
        }
        Ok(list)
    }

    pub fn step(&mut self, shape: Shape) -> Outcome<Step> {
        let (c, facts, options) = (self.config, self.facts, self.options);
        let t = shape.tokens();
        let (heads, joined) = (c.heads * c.dim, c.joined_heads() * c.dim);
        // Weights are stored `[out, in]`.
        let problem = |n: u32, k: u32| Problem::new(Scalar::BF16, [t, n, k]).transposed(false, true);
        let plus = Residual::Plain(Scalar::BF16);
        let gated = problem(c.mlp, c.hidden).epilogue(None, Activation::Silu).gated();
        let products = Products {
            joined: Product::new(&problem(joined, c.hidden), facts, true, options)?,
            out: Product::new(&problem(c.hidden, heads).plus(plus), facts, true, options)?,
            gated: self
                .gated(Product::new(&gated, facts, false, options)?, Product::new(&problem(2 * c.mlp, c.hidden), facts, true, options)?),
            down: Product::new(&problem(c.hidden, c.mlp).plus(plus), facts, true, options)?,
        };
        let logits = Problem::new(Scalar::BF16, [shape.sequences(), c.vocab, c.hidden]).transposed(false, true).output(Scalar::F32);
        let logits = Product::new(&logits, facts, false, options)?;
        let embed = self.embed(t)?;
        let layers = (0..c.layers).map(|l| self.layer(l, shape, &products)).collect::<Outcome<Vec<_>>>()?;
        let head = self.head(shape, &logits)?;
        let Products { joined, out, gated, down } = &products;
        let all = [("joined", joined), ("out", out), ("gated", gated.product()), ("down", down), ("logits", &logits)];
        let plans = all.map(|(name, p)| {
            let choice = p.plan.candidate.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("{name} {:?}: {choice}, {} launches", p.plan.problem.shape, p.launches().len())
        });
        Ok(Step { embed, layers, head, plans: plans.to_vec() })
    }

    /// The quicker way of both.
    fn gated(&self, plan: Product, joined: Product) -> Gated {
        let [_, n, _] = joined.plan.problem.shape;
        let bytes = 4.0 * f64::from(joined.plan.problem.shape[0]) * f64::from(n);
        let prefer = self.options.gate.unwrap_or_else(|| joined.cost + LAUNCH + bytes / BYTES < plan.cost);
        if prefer { Gated::Joined(joined) } else { Gated::Plan(plan) }
    }

    fn embed(&mut self, t: u32) -> Outcome<Vec<Launch>> {
        let c = self.config;
        let rows = GatherRows::new(Scalar::BF16).for_shape(c.hidden);
        let x = self.memory.between.x.rows(t);
        let args = vec![(&self.memory.embedding).into(), (&self.memory.inputs.tokens.rows(t)).into(), (&x).into()];
        let gather = self.launch(&rows.build()?, rows.grid(t, c.hidden), args)?;
        let weight = self.memory.layers[0].input_norm.clone();
        Ok(vec![gather, self.norm(t, &x, &weight)?])
    }

    /// The norm of some rows.
    fn norm(&mut self, t: u32, x: &Tensor, weight: &Tensor) -> Outcome<Launch> {
        let c = self.config;
        let norm = RmsNorm::new(Scalar::BF16, c.hidden);
        // A few rows take more lanes each.
        let warps = if t < self.facts.multiprocessors() { (norm.tile_cols / 512).clamp(1, 16) } else { norm.warps };
        let norm = RmsNorm { cols: known(c.hidden), warps, ..norm };
        let args = vec![x.into(), weight.into(), (&self.memory.between.n.rows(t)).into(), number(c.eps)];
        self.launch(&norm.build()?, norm.grid(t), args)
    }

    fn layer(&mut self, l: usize, shape: Shape, products: &Products) -> Outcome<Vec<Launch>> {
        let t = shape.tokens();
        let between = &self.memory.between;
        let [x, y, n, joined, o] = [&between.x, &between.y, &between.n, &between.joined, &between.o].map(|tensor| tensor.rows(t));
        let next_norm = self.memory.layers.get(l + 1).map_or(&self.memory.norm, |next| &next.input_norm).clone();
        let w = &self.memory.layers[l];
        let [w_joined, w_out, w_down, post_norm] = [&w.joined, &w.out, &w.down, &w.post_norm].map(Clone::clone);
        let inner = between.inner.rows(t);

        let mut list = self.product(&products.joined, &[(Argument::A, &n), (Argument::B, &w_joined), (Argument::C, &joined)])?;
        list.push(self.rope(l, t, &joined, &products.joined)?);
        list.extend(self.attention(l, shape)?);
        let operands = [(Argument::A, &o), (Argument::B, &w_out), (Argument::Residual, &x), (Argument::C, &y)];
        list.extend(self.added(&products.out, &operands, [&x, &y], &post_norm)?);
        list.extend(self.mlp(l, t, &products.gated)?);
        let operands = [(Argument::A, &inner), (Argument::B, &w_down), (Argument::Residual, &y), (Argument::C, &x)];
        list.extend(self.added(&products.down, &operands, [&y, &x], &next_norm)?);
        Ok(list)
    }

    /// The product with the gate, times the other.
    fn mlp(&mut self, l: usize, t: u32, gated: &Gated) -> Outcome<Vec<Launch>> {
        let c = self.config;
        let between = &self.memory.between;
        let [n, both, inner] = [&between.n, &between.gate_up, &between.inner].map(|tensor| tensor.rows(t));
        let w = self.memory.layers[l].gate_up.clone();
        match gated {
            Gated::Plan(product) => {
                let (first, second) = (w.rows(c.mlp), w.second_half());
                self.product(product, &[(Argument::A, &n), (Argument::B, &first), (Argument::Gate, &second), (Argument::C, &inner)])
            }
            Gated::Joined(product) => {
                let mut list = self.product(product, &[(Argument::A, &n), (Argument::B, &w), (Argument::C, &both)])?;
                let both = match product.parts {
                    Some(parts) => self.memory.scratch(self.device, 0, Scalar::F32, &[parts, product.rows(), 2, c.mlp])?,
                    None => both.seen(&[t, 2, c.mlp]),
                };
                let kernel = gate::gate(product.parts, c.mlp)?;
                list.push(self.launch(&kernel, gate::grid(t, c.mlp), [&both, &inner].map(Arg::from).to_vec())?);
                Ok(list)
            }
        }
    }

    fn rope(&mut self, l: usize, t: u32, joined: &Tensor, product: &Product) -> Outcome<Launch> {
        let (c, parts) = (self.config, product.parts);
        let rope = Rope { heads: c.heads, kv_heads: c.kv_heads, dim: c.dim, page: c.page, parts };
        let of_token = [product.rows(), c.joined_heads(), c.dim];
        let joined = match parts {
            Some(n) => self.memory.scratch(self.device, 0, Scalar::F32, &[&[n][..], &of_token].concat())?,
            None => joined.seen(&of_token),
        };
        let m = &*self.memory;
        let inputs = [&m.inputs.position, &m.inputs.sequence].map(|i| i.rows(t));
        let args = [
            &joined,
            &m.cos,
            &m.sin,
            &inputs[0],
            &inputs[1],
            &m.inputs.table,
            &m.between.q.rows(t),
            &m.layers[l].keys,
            &m.layers[l].values,
        ];
        let args = args.map(Arg::from).to_vec();
        self.launch(&rope.build()?, [t, c.kv_heads, 1], args)
    }

    fn attention(&mut self, l: usize, shape: Shape) -> Outcome<Vec<Launch>> {
        let c = self.config;
        let (t, group) = (shape.tokens(), c.group());
        let scale = number(1.0 / (c.dim as f32).sqrt());
        let m = &*self.memory;
        let [q, o] = [&m.between.q, &m.between.o].map(|tensor| tensor.rows(t));
        let (keys, values, table) = (&m.layers[l].keys, &m.layers[l].values, &m.inputs.table);
        let [prompt_step, decode_step] = c.steps;
        let attention = Attention { kv_heads: c.kv_heads, group, dim: c.dim, page: c.page, step: decode_step, warps: 1, stages: 3 };
        match shape {
            Shape::Prompt { blocks, .. } => {
                let warps = (c.block() * group / 16).clamp(1, 8);
                let warps = 1 << warps.ilog2();
                let stages = if prompt_step < 128 { 3 } else { 2 };
                let kernel = Attention { step: prompt_step, warps, stages, ..attention }.prompt(c.block())?;
                let mut args = [&q, keys, values, table, &m.inputs.work.rows(blocks), &o].map(Arg::from).to_vec();
                args.push(scale);
                Ok(vec![self.launch(&kernel, [c.kv_heads, blocks, 1], args)?])
            }
            Shape::Decode { sequences, chunks, length } => {
                let warps = (decode_step / 16).clamp(1, 4);
                let kernel = Attention { warps, ..attention }.decode(chunks > 1)?;
                let context = m.inputs.context.rows(sequences);
                let mut args = [&q, keys, values, table, &context].map(Arg::from).to_vec();
                let grid = [c.kv_heads, chunks, sequences];
                if chunks == 1 {
                    args.extend([Arg::from(&o), scale]);
                    return Ok(vec![self.launch(&kernel, grid, args)?]);
                }
                let heads = [sequences, chunks, c.kv_heads, group];
                let part = self.memory.scratch(self.device, 0, Scalar::F32, &[&heads[..], &[c.dim]].concat())?;
                let lse = self.memory.scratch(self.device, 1, Scalar::F32, &heads)?;
                args.extend([Arg::from(&part), Arg::from(&lse), scale, ScalarArg::int(Scalar::I32, i64::from(length)).into()]);
                let first = self.launch(&kernel, grid, args)?;
                let (part, lse) = (part.seen(&[sequences, chunks, c.heads, c.dim]), lse.seen(&[sequences, chunks, c.heads]));
                let args = [&part, &lse, &o.seen(&[sequences, c.heads, c.dim])].map(Arg::from).to_vec();
                let second = self.launch(&combine(chunks, c.heads, c.dim)?, [c.heads, sequences, 1], args)?;
                Ok(vec![first, second])
            }
        }
    }

    /// A product, the residual and the norm of what follows: `[from, to]` of the residual stream.
    fn added(
        &mut self,
        product: &Product,
        operands: &[(Argument, &Tensor)],
        stream: [&Tensor; 2],
        weight: &Tensor,
    ) -> Outcome<Vec<Launch>> {
        let c = self.config;
        let [x, y] = stream;
        let t = x.shape[0];
        let mut list = self.product(product, operands)?;
        list.push(match product.parts {
            Some(parts) => {
                let sums = self.memory.scratch(self.device, 0, Scalar::F32, &[parts, product.rows(), c.hidden])?;
                let mut args = [&sums, x, weight, y, &self.memory.between.n.rows(t)].map(Arg::from).to_vec();
                args.push(number(c.eps));
                self.launch(&residual_norm(parts, c.hidden)?, [t, 1, 1], args)?
            }
            None => self.norm(t, y, weight)?,
        });
        Ok(list)
    }

    fn head(&mut self, shape: Shape, logits: &Product) -> Outcome<Vec<Launch>> {
        let c = self.config;
        let (t, s) = (shape.tokens(), shape.sequences());
        let mut list = Vec::new();
        let mut n = self.memory.between.n.rows(t);
        if let Shape::Prompt { .. } = shape {
            let rows = GatherRows::new(Scalar::BF16).for_shape(c.hidden);
            let last = self.memory.between.last.rows(s);
            let args = [&n, &self.memory.inputs.last.rows(s), &last].map(Arg::from).to_vec();
            list.push(self.launch(&rows.build()?, rows.grid(s, c.hidden), args)?);
            n = last;
        }
        let head = self.memory.head.clone();
        let out = self.memory.between.logits.rows(s);
        list.extend(self.product(logits, &[(Argument::A, &n), (Argument::B, &head), (Argument::C, &out)])?);
        Ok(list)
    }
}
