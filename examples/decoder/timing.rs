//! Times of layers on a GPU, as one table.

use super::config::Config;
use super::device::{Device, Outcome};
use super::engine::Engine;
use super::memory::Limits;
use super::products::EngineOptions;
use super::steps::Shape;
use super::weights::Weights;

/// What is timed.
pub(crate) struct Timing {
    /// Sequences of decode, one time each.
    pub batches: Vec<u32>,
    /// Tokens of each sequence.
    pub context: u32,
    /// Tokens of a prompt; 0 leaves it out.
    pub prompt: u32,
    pub rounds: usize,
    pub options: EngineOptions,
    /// Each launch by itself, too.
    pub each: bool,
}

/// Layers of a captured graph at least.
const LAYERS: usize = 8;

pub(crate) fn timing(c: &Config, t: &Timing, device: Device, target: Option<&str>) -> Outcome<()> {
    let most = t.batches.iter().copied().max().unwrap_or(1);
    let tokens = t.prompt.max(most).max(1);
    let context = t.context.max(t.prompt);
    let of_sequence = context.div_ceil(c.page);
    let limits = Limits { tokens, sequences: most, context, pages: most * of_sequence, k: 32.min(c.vocab) };
    let weights = Weights::alike(c, 1)?;
    println!(
        "{} ({} layers) on {}, context {}; weights of a layer {} MB",
        c.name,
        c.layers,
        device.name(),
        t.context,
        mega(c.layer_bytes())
    );
    let mut engine = Engine::new(c, &weights, limits, device, target)?;
    engine.options = t.options;
    engine.fill_cache(2)?;
    println!("{:<14} {:>8} {:>10} {:>8} {:>8} {:>9}", "per layer", "launches", "us", "MB", "GB/s", "TFLOP/s");
    for &batch in &t.batches {
        for s in 0..batch as usize {
            engine.release(s);
            engine.pretend(s, t.context - 1)?;
        }
        let sequences: Vec<(usize, &[u32])> = (0..batch as usize).map(|s| (s, &[1][..])).collect();
        let shape = engine.prepare(&sequences)?;
        let bytes = c.layer_bytes() + u64::from(batch) * u64::from(t.context) * c.token_bytes();
        let scores = 4 * u64::from(batch) * u64::from(t.context) * u64::from(c.heads * c.dim);
        row(&mut engine, &format!("decode {batch}"), shape, t, [bytes, u64::from(batch) * c.token_operations() + scores])?;
        (0..batch as usize).for_each(|s| engine.release(s));
    }
    if t.prompt > 0 {
        let prompt = vec![1; t.prompt as usize];
        let shape = engine.prepare(&[(0, &prompt)])?;
        let scores = 2 * u64::from(t.prompt) * u64::from(t.prompt) * u64::from(c.heads * c.dim);
        let all = u64::from(t.prompt) * c.token_operations() + scores;
        row(&mut engine, &format!("prompt {}", t.prompt), shape, t, [c.layer_bytes(), all])?;
    }
    Ok(())
}

fn mega(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

/// A row of the table: the bytes that have to be read, and the operations.
fn row(engine: &mut Engine, name: &str, shape: Shape, t: &Timing, [bytes, operations]: [u64; 2]) -> Outcome<()> {
    let repeats = LAYERS.div_ceil(engine.config.layers.max(1));
    let times = engine.time(shape, repeats, t.rounds, t.each)?;
    let step = engine.step(shape).ok_or("the step was not prepared")?;
    let launches = step.layers.first().map_or(0, Vec::len);
    match times.layer {
        Some(us) => {
            let [gigabytes, tera] = [bytes as f64 / us / 1e3, operations as f64 / us / 1e6];
            println!("{name:<14} {launches:>8} {us:>10.1} {:>8} {gigabytes:>8.0} {tera:>9.1}", mega(bytes));
        }
        None => println!("{name:<14} {launches:>8} {:>10} {:>8}", "no clock", mega(bytes)),
    }
    if let Some(us) = times.head {
        let bytes = 2 * u64::from(engine.config.vocab) * u64::from(engine.config.hidden);
        println!("{:<14} {:>8} {us:>10.1} {:>8} {:>8.0}", "  its logits", step.head.len(), mega(bytes), bytes as f64 / us / 1e3);
    }
    if t.each {
        step.plans.iter().for_each(|p| println!("    {p}"));
        times.launches.iter().for_each(|(name, us)| println!("    {:>8.1} {name}", us.unwrap_or(f64::NAN)));
    }
    Ok(())
}
