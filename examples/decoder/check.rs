//! Is the engine right? A conversation of several sequences, each number of each layer beside the reference.
//!
//! ```text
//! step 1   prompts of sequences 0 and 1                    varying lengths, one behind the other
//! step 2   a prompt of sequence 2, more of sequence 1      attention with a past
//! then     decode of all, a token each
//! ```
//!
//! A layer's result, over all tokens, may be off from the exact model by no more than [`BOUND`] times what a framework's rounding to bf16 behind
//! every operation is off.

use super::config::Config;
use super::device::{Device, Outcome};
use super::engine::{Choice, Engine, Trace};
use super::memory::Limits;
use super::numbers::random;
use super::products::EngineOptions;
use super::reference::{Model, Passed, Rounding};
use super::weights::{Weights, write};

/// How far off a layer may be, beside a framework.
const BOUND: f64 = 1.1;

/// What is checked.
pub(crate) struct Conversation {
    /// Tokens of the prompts of sequences 0, 1 and 2, and how many more sequence 1 gets.
    pub prompts: [usize; 3],
    pub more: usize,
    /// Tokens that are decoded.
    pub decoded: usize,
    pub options: EngineOptions,
}

/// A sequence: its tokens, what was made of each, and which of them the engine chose.
#[derive(Default)]
struct Sequence {
    tokens: Vec<u32>,
    /// `[layer]`, all tokens.
    layers: Vec<Vec<f32>>,
    /// Logits behind some tokens, and whether the token that follows was chosen by them.
    logits: Vec<(usize, Vec<f32>)>,
    next: Option<u32>,
}

/// Sums of squared errors.
#[derive(Clone, Copy, Default)]
struct Errors {
    own: f64,
    framework: f64,
}

impl Errors {
    fn add(&mut self, own: &[f32], exact: &[f64], framework: &[f64]) {
        let square = |a: f64, b: &f64| (a - b) * (a - b);
        self.own += own.iter().zip(exact).map(|(&a, b)| square(f64::from(a), b)).sum::<f64>();
        self.framework += framework.iter().zip(exact).map(|(&a, b)| square(a, b)).sum::<f64>();
    }

    fn ratio(&self) -> f64 {
        (self.own / self.framework.max(f64::MIN_POSITIVE)).sqrt()
    }
}

/// Runs a conversation.
pub(crate) fn check(c: &Config, talk: &Conversation, device: Device, target: Option<&str>) -> Outcome<()> {
    println!("{} on {}", c.name, device.name());
    let path = std::env::temp_dir().join(format!("tilelift-decoder-{}-{}.safetensors", c.name, std::process::id()));
    write(c, 1, &path)?;
    let weights = Weights::read(c, &path);
    std::fs::remove_file(&path)?;
    let weights = weights?;

    let tokens = |seed: u64, n: usize| (0..n).map(|at| (random(seed, at as u64) % u64::from(c.vocab)) as u32).collect::<Vec<u32>>();
    let [first, second, third] = talk.prompts;
    let longest = first.max(second + 1 + talk.more).max(third) + talk.decoded;
    let context = (longest as u32).next_multiple_of(c.page);
    let most = (first + second).max(third + 1 + talk.more).max(3) as u32;
    let limits = Limits { tokens: most, sequences: 3, context, pages: 3 * context / c.page, k: 16.min(c.vocab) };
    let mut engine = Engine::new(c, &weights, limits, device, target)?;
    engine.options = talk.options;
    let mut all: [Sequence; 3] = Default::default();

    run(&mut engine, &mut all, vec![(0, tokens(10, first)), (1, tokens(11, second))])?;
    let reply: Vec<u32> = all[1].next.into_iter().chain(tokens(13, talk.more)).collect();
    run(&mut engine, &mut all, vec![(2, tokens(12, third)), (1, reply)])?;
    for _ in 0..talk.decoded {
        let batch: Vec<(usize, Vec<u32>)> = (0..3).map(|s| (s, all[s].next.into_iter().collect())).collect();
        run(&mut engine, &mut all, batch)?;
    }
    println!(
        "  {} tokens in {} steps, {} kernels compiled",
        all.iter().map(|s| s.tokens.len()).sum::<usize>(),
        2 + talk.decoded,
        engine.compiles()
    );

    let model = Model::new(c, &weights);
    let mut layers = vec![Errors::default(); c.layers];
    let (mut logits, mut decided, mut chosen) = (Errors::default(), 0, 0);
    for s in &all {
        let [exact, framework]: [Passed; 2] = [Rounding::Exact, Rounding::Framework].map(|r| model.pass(&s.tokens, r));
        for (l, errors) in layers.iter_mut().enumerate() {
            errors.add(&s.layers[l], &exact.layers[l], &framework.layers[l]);
        }
        let vocab = c.vocab as usize;
        for (at, own) in &s.logits {
            let row = at * vocab..(at + 1) * vocab;
            logits.add(own, &exact.logits[row.clone()], &framework.logits[row.clone()]);
            let exact = &exact.logits[row];
            chosen += 1;
            if let Some(want) = decisive(own, exact) {
                decided += 1;
                let got = s.tokens.get(at + 1).copied().or(s.next);
                if got != Some(want) {
                    return Err(format!("behind token {at} the engine chose {got:?}, the reference {want}").into());
                }
            }
        }
    }
    for (l, errors) in layers.iter().chain([&logits]).enumerate() {
        let name = if l < c.layers { format!("layer {l}") } else { "logits".to_owned() };
        println!("  {name}: {:.3} of a framework's error", errors.ratio());
        // An error of nothing at all would mean that nothing was computed.
        if !(errors.own > 0.0 && errors.ratio() <= BOUND) {
            return Err(format!("{name} is off by {:.3} times a framework's error; the bound is {BOUND}", errors.ratio()).into());
        }
    }
    println!("  {chosen} greedy choices are the reference's where its margin decides ({decided} of them)");
    if decided == 0 {
        return Err("no margin was larger than the error: nothing was compared".into());
    }
    sampled(&mut engine, &all)
}

/// A step, what it made of each token, and the greedy choices behind it.
fn run(engine: &mut Engine, all: &mut [Sequence; 3], batch: Vec<(usize, Vec<u32>)>) -> Outcome<()> {
    let (hidden, vocab) = (engine.config.hidden as usize, engine.config.vocab as usize);
    let mut trace = Trace::default();
    let borrowed: Vec<(usize, &[u32])> = batch.iter().map(|(s, t)| (*s, t.as_slice())).collect();
    engine.forward(&borrowed, Some(&mut trace))?;
    let next = engine.choose(&Choice::Greedy)?;
    let mut row = 0;
    for (n, (s, tokens)) in batch.iter().enumerate() {
        let s = &mut all[*s];
        s.tokens.extend(tokens);
        s.layers.resize(trace.layers.len(), Vec::new());
        for (to, from) in s.layers.iter_mut().zip(&trace.layers) {
            to.extend(&from[row * hidden..][..tokens.len() * hidden]);
        }
        row += tokens.len();
        s.logits.push((s.tokens.len() - 1, trace.logits[n * vocab..][..vocab].to_vec()));
        s.next = next.get(n).copied();
    }
    Ok(())
}

/// The likeliest token of exact logits, if no error as large as those of the engine's could make it another.
fn decisive(own: &[f32], exact: &[f64]) -> Option<u32> {
    let error = own.iter().zip(exact).map(|(&a, b)| (f64::from(a) - b).abs()).fold(0.0, f64::max);
    let best = (0..exact.len()).max_by(|&a, &b| exact[a].total_cmp(&exact[b]))?;
    let second = (0..exact.len()).filter(|&t| t != best).map(|t| exact[t]).fold(f64::NEG_INFINITY, f64::max);
    (exact[best] - second > 2.0 * error).then_some(best as u32)
}

/// Choices by random numbers, beside the same on the host, of the last step's logits.
fn sampled(engine: &mut Engine, all: &[Sequence; 3]) -> Outcome<()> {
    let (temperature, k) = (0.8, 16.min(engine.config.vocab as usize));
    let mut compared = 0;
    for round in 0..4 {
        let numbers: Vec<f32> = (0..3).map(|s| (random(20 + round, s) >> 40) as f32 / (1u32 << 24) as f32).collect();
        let got = engine.choose(&Choice::Random { temperature, numbers: &numbers })?;
        for ((s, &u), &got) in all.iter().zip(&numbers).zip(&got) {
            let logits = &s.logits[s.logits.len() - 1].1;
            let mut order: Vec<usize> = (0..logits.len()).collect();
            order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
            let weights: Vec<f64> = order[..k].iter().map(|&t| f64::from((logits[t] - logits[order[0]]) / temperature).exp()).collect();
            let total: f64 = weights.iter().sum();
            let mut sum = 0.0;
            for (n, w) in weights.iter().enumerate() {
                let before = sum / total;
                sum += w;
                let (u, after) = (f64::from(u), sum / total);
                // At the edge of a share either neighbour is right.
                if u > before + 1e-5 && u < after - 1e-5 {
                    compared += 1;
                    if got as usize != order[n] {
                        return Err(format!("by the number {u} the engine chose {got}, not {}", order[n]).into());
                    }
                }
            }
        }
    }
    println!("  {compared} random choices are right");
    if compared == 0 { Err("no random choice was compared".into()) } else { Ok(()) }
}
