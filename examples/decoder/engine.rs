//! The engine: sequences of tokens, their pages, and steps over batches of them.

use super::config::Config;
use super::device::{Device, Launch, Outcome};
use super::memory::{EngineMemory, Limits, most_likely};
use super::numbers::{bf16s, bytes_of_f32, bytes_of_i32, f32s, i32s, spread};
use super::pages::Pages;
use super::products::EngineOptions;
use super::steps::{Maker, Shape, Step};
use super::weights::Weights;
use std::collections::HashMap;
use tilelift::Compiler;
use tilelift::interp::{Arg, ScalarArg};
use tilelift::ir::Scalar;
use tilelift_kernels::plan::DeviceFacts;
use tilelift_kernels::{TopKArgument, TopKLaunch};

/// How the next tokens are chosen.
pub(crate) enum Choice<'n> {
    /// The most likely ones.
    Greedy,
    /// One of the most likely ones (as many as the engine was made for), by a random number for each sequence.
    Random { temperature: f32, numbers: &'n [f32] },
}

/// What a step made, for those who check it: rows of each layer's result, `[layer][row]`, and of logits.
#[derive(Default)]
pub(crate) struct Trace {
    pub layers: Vec<Vec<f32>>,
    pub logits: Vec<f32>,
}

/// Microseconds of a step; none without a clock.
pub(crate) struct Times {
    /// Of a layer.
    pub layer: Option<f64>,
    /// Of each of its launches by itself, if asked for.
    pub launches: Vec<(String, Option<f64>)>,
    /// Of the logits.
    pub head: Option<f64>,
}

pub(crate) struct Engine {
    pub config: Config,
    pub device: Device,
    limits: Limits,
    compiler: Compiler,
    facts: DeviceFacts,
    memory: EngineMemory,
    pages: Pages,
    /// Tokens that are in the cache, of each sequence.
    lengths: Vec<u32>,
    steps: HashMap<Shape, Step>,
    choices: HashMap<(u32, Option<u32>), Vec<Launch>>,
    /// Sequences of the last step.
    rows: u32,
    pub options: EngineOptions,
}

/// Steps of a chunk of keys at least, and blocks of pages that decode steps are made for.
const LEAST_STEPS: u32 = 2;
const PAGES: u32 = 8;

impl Engine {
    pub fn new(config: &Config, weights: &Weights, limits: Limits, mut device: Device, target: Option<&str>) -> Outcome<Engine> {
        let target = match target {
            Some(t) => t,
            None => device.target()?,
        };
        let facts = device.facts(target)?;
        let compiler = Compiler::new(target)?;
        let memory = EngineMemory::new(config, &limits, weights, &mut device)?;
        let most = limits.pages_of_sequence(config.page) as usize;
        Ok(Engine {
            config: config.clone(),
            device,
            limits,
            compiler,
            facts,
            memory,
            pages: Pages::new(limits.pages, config.page, most, limits.sequences as usize),
            lengths: vec![0; limits.sequences as usize],
            steps: HashMap::new(),
            choices: HashMap::new(),
            rows: 0,
            options: EngineOptions::default(),
        })
    }

    pub fn compiles(&self) -> u64 {
        self.compiler.stats().compiles
    }

    /// Runs the model over the next tokens of some sequences: one of each is decode, else they are (further) parts of prompts.
    pub fn forward(&mut self, batch: &[(usize, &[u32])], mut trace: Option<&mut Trace>) -> Outcome<()> {
        let shape = self.prepare(batch)?;
        let step = &self.steps[&shape];
        self.device.run(&step.embed)?;
        for layer in &step.layers {
            self.device.run(layer)?;
            if let Some(trace) = &mut trace {
                let rows = batch.iter().map(|b| b.1.len() as u32).sum();
                trace.layers.push(bf16s(&self.device.download(&self.memory.between.x.rows(rows))?));
            }
        }
        self.device.run(&step.head)?;
        if let Some(trace) = trace {
            trace.logits = f32s(&self.device.download(&self.memory.between.logits.rows(self.rows))?);
        }
        Ok(())
    }

    /// Everything in front of a step's launches: pages, what the step reads, its kernels.
    pub fn prepare(&mut self, batch: &[(usize, &[u32])]) -> Outcome<Shape> {
        let (block, sequences) = (self.config.block(), batch.len() as u32);
        let decode = batch.iter().all(|b| b.1.len() == 1);
        let [mut tokens, mut position, mut owner, mut context, mut last] = [const { Vec::new() }; 5];
        let mut work = Vec::new();
        for &(sequence, new) in batch {
            let (from, first) = (self.lengths[sequence], tokens.len() as u32);
            let count = new.len() as u32;
            self.pages.reserve(sequence, from + count)?;
            self.lengths[sequence] = from + count;
            for (at, &token) in (from..).zip(new) {
                tokens.push(token as i32);
                position.push(at as i32);
                owner.push(sequence as i32);
            }
            for at in (0..count).step_by(block as usize) {
                work.push([sequence as u32, first + at, from + at, block.min(count - at)].map(|v| v as i32));
            }
            context.push((from + count) as i32);
            last.push((first + count) as i32 - 1);
        }
        if tokens.is_empty() || tokens.len() as u32 > self.limits.tokens {
            return Err(format!("a step has 1 to {} tokens, not {}", self.limits.tokens, tokens.len()).into());
        }
        // Blocks with most keys first.
        work.sort_by_key(|w| std::cmp::Reverse(w[2] + w[3]));
        let shape = if decode {
            let longest = context.iter().copied().max().unwrap_or(1) as u32;
            let (chunks, length) = self.chunked(sequences, longest);
            Shape::Decode { sequences, chunks, length }
        } else {
            Shape::Prompt { tokens: tokens.len() as u32, blocks: work.len() as u32, sequences }
        };
        // Decode takes tables and contexts by the rows of the batch.
        let tables = self.pages.matrix();
        let width = self.limits.pages_of_sequence(self.config.page) as usize;
        let row = |sequence: usize| tables[sequence * width..][..width].to_vec();
        let tables: Vec<i32> = if decode { batch.iter().flat_map(|b| row(b.0)).collect() } else { tables };
        if decode {
            owner = (0..sequences as i32).collect();
        }
        let inputs = &self.memory.inputs;
        let work: Vec<i32> = work.concat();
        for (to, values) in [
            (&inputs.tokens, &tokens),
            (&inputs.position, &position),
            (&inputs.sequence, &owner),
            (&inputs.table, &tables),
            (&inputs.work, &work),
            (&inputs.context, &context),
            (&inputs.last, &last),
        ] {
            self.device.upload(to, &bytes_of_i32(values))?;
        }
        self.rows = sequences;
        if !self.steps.contains_key(&shape) {
            let step = self.maker().step(shape)?;
            self.steps.insert(shape, step);
        }
        Ok(shape)
    }

    /// In how many chunks of how many keys decode reads the cache, so that every multiprocessor has one to read.
    fn chunked(&self, sequences: u32, longest: u32) -> (u32, u32) {
        let c = &self.config;
        let longest = longest.next_multiple_of(c.page * PAGES);
        let programs = sequences * c.kv_heads;
        let chunks = self.options.chunks.unwrap_or_else(|| self.facts.multiprocessors().div_ceil(programs)).max(1);
        let length = longest.div_ceil(chunks).next_multiple_of(c.steps[1]).max(LEAST_STEPS * c.steps[1]);
        (longest.div_ceil(length), length)
    }

    fn maker(&mut self) -> Maker<'_> {
        let Engine { config, compiler, facts, device, memory, options, .. } = self;
        Maker { config, compiler, facts, device, memory, options: *options }
    }

    /// The next token of each sequence of the last step.
    pub fn choose(&mut self, choice: &Choice<'_>) -> Outcome<Vec<u32>> {
        let rows = self.rows;
        let key = match choice {
            Choice::Greedy => (rows, None),
            Choice::Random { temperature, numbers } => {
                self.device.upload(&self.memory.inputs.number, &bytes_of_f32(numbers))?;
                (rows, Some(temperature.to_bits()))
            }
        };
        if !self.choices.contains_key(&key) {
            let launches = self.chooser(rows, key.1.map(f32::from_bits))?;
            self.choices.insert(key, launches);
        }
        self.device.run(&self.choices[&key])?;
        let next = i32s(&self.device.download(&self.memory.between.next.rows(rows))?);
        Ok(next.into_iter().map(|t| t as u32).collect())
    }

    /// The launches of a choice: at a temperature one of the most likely tokens, else the most likely one.
    fn chooser(&mut self, rows: u32, temperature: Option<f32>) -> Outcome<Vec<Launch>> {
        let (vocab, k) = (self.config.vocab, if temperature.is_some() { self.limits.k } else { 1 });
        let (top, between) = (most_likely(vocab, k), &self.memory.between);
        let list = if temperature.is_some() { top.sampling(rows, vocab)? } else { top.launches(rows, vocab)? };
        let heads = &between.heads[usize::from(temperature.is_some())];
        let args = |l: &TopKLaunch| -> Vec<Arg> {
            let one = |a: &TopKArgument| match *a {
                TopKArgument::Rows => Arg::from(&between.logits.rows(rows)),
                TopKArgument::Workspace(n) => Arg::from(&heads[n].rows(rows)),
                TopKArgument::Values => Arg::from(&between.most.rows(rows)),
                TopKArgument::Positions => Arg::from(&between.next.rows(rows).seen(&[rows, 1])),
                TopKArgument::Number => Arg::from(&self.memory.inputs.number.rows(rows)),
                TopKArgument::Next => Arg::from(&between.next.rows(rows)),
                TopKArgument::InverseTemperature => ScalarArg::float(Scalar::F32, f64::from(1.0 / temperature.unwrap_or(1.0))).into(),
                TopKArgument::TopP => ScalarArg::float(Scalar::F32, 1.0).into(),
            };
            l.arguments.iter().map(one).collect()
        };
        let all: Vec<Vec<Arg>> = list.iter().map(args).collect();
        let mut maker = self.maker();
        list.iter().zip(all).map(|(l, args)| maker.launch(&l.kernel, l.grid, args)).collect()
    }

    /// A sequence has ended.
    pub fn release(&mut self, sequence: usize) {
        self.pages.release(sequence);
        self.lengths[sequence] = 0;
    }

    /// Gives a sequence so many tokens of a random cache: for measurements.
    pub fn pretend(&mut self, sequence: usize, tokens: u32) -> Outcome<()> {
        self.pages.reserve(sequence, tokens)?;
        self.lengths[sequence] = tokens;
        Ok(())
    }

    /// Random keys and values everywhere.
    pub fn fill_cache(&mut self, seed: u64) -> Outcome<()> {
        let Some(first) = self.memory.layers.first() else { return Ok(()) };
        let bytes = spread(seed, first.keys.bytes() / 2, 0.0, 1.0);
        for layer in &self.memory.layers {
            self.device.upload(&layer.keys, &bytes)?;
            self.device.upload(&layer.values, &bytes)?;
        }
        Ok(())
    }

    /// The launches of a step that was prepared.
    pub fn step(&self, shape: Shape) -> Option<&Step> {
        self.steps.get(&shape)
    }

    /// Times a step: its layers, so many times one behind the other, each of their launches by itself (if asked for), and its logits.
    pub fn time(&mut self, shape: Shape, times: usize, rounds: usize, each: bool) -> Outcome<Times> {
        let step = self.steps.get(&shape).ok_or("the step was not prepared")?;
        if let Device::Cuda(_) = self.device {
            self.device.run(&step.embed)?;
        }
        let layers = step.layers.len() * times;
        let over = |list: Vec<&Launch>, device: &mut Device| device.time(&list, rounds).map(|t| t.map(|t| t / layers as f64));
        let all = (0..times).flat_map(|_| step.layers.iter().flatten()).collect();
        let layer = over(all, &mut self.device)?;
        let mut launches = Vec::new();
        for n in 0..if each { step.layers[0].len() } else { 0 } {
            let list = (0..times).flat_map(|_| step.layers.iter().map(|layer| &layer[n])).collect();
            let launch = &step.layers[0][n];
            launches.push((format!("{:<24} {}", launch.name, launch.facts), over(list, &mut self.device)?));
        }
        let head = self.device.time(&step.head.iter().collect::<Vec<_>>(), rounds)?;
        Ok(Times { layer, launches, head })
    }
}
