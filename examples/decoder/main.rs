//! `cargo run --release --example decoder`: a small inference engine for Llama-style models, on tilelift alone.
//!
//! ```text
//! main ─► check   conversations beside the reference: every layer, every choice         weights ─ a .safetensors file, made and read
//!      └► timing  times per layer on a GPU                                              reference ─ the model in f64
//!              engine  sequences, pages, steps ─► steps  launches ─► products  plans of the library · kernels/  those that it lacks
//!                                                        device   a CUDA device, or the simulator · memory  what lies there
//! ```
//!
//! Without a GPU the smallest model runs on the simulator. With one, `--check` runs models of several sizes there, and `--llama3-8b` prints a table of
//! times. `docs/decoder.md` is its page.

mod check;
mod config;
mod device;
mod engine;
mod kernels;
mod memory;
mod numbers;
mod pages;
mod products;
mod reference;
mod steps;
mod timing;
mod weights;

use check::{Conversation, check};
use config::Config;
use device::{Device, Outcome};
use products::EngineOptions;
use timing::{Timing, timing};

const USAGE: &str = "\
usage: decoder [--check | --llama3-8b] [--sim] [--target NAME]
  (nothing)            the smallest models, checked, on a GPU or else on the simulator
  --check              models of several sizes, checked
  --llama3-8b          times per layer of Llama 3 8B; with --check: one layer of it, checked
    --layers N         layers (2)
    --batches A,B,…    sequences of decode (1,16,64)
    --context N        tokens of each (4096)
    --prompt N         tokens of a prompt (2048); 0 for none
    --chunks N         chunks of keys of decode, instead of the engine's choice
    --joined, --gated  the MLP's first products as one and a launch that multiplies, or by a plan with a gate
    --unpadded         products of as many rows as there are tokens
    --split            products in parts of their depth wherever the kernel behind adds them up
    --rounds N         replays, of which the median counts (21)
    --each             each launch by itself, too, and which plans products have
  --sim                on the simulator, even if there is a GPU
  --target NAME        compile for that target
";

struct Flags {
    check: bool,
    llama: bool,
    sim: bool,
    target: Option<String>,
    layers: usize,
    timing: Timing,
}

fn flags(args: &[String]) -> Outcome<Flags> {
    let timing =
        Timing { batches: vec![1, 16, 64], context: 4096, prompt: 2048, rounds: 21, options: EngineOptions::default(), each: false };
    let mut f = Flags { check: false, llama: false, sim: false, target: None, layers: 2, timing };
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().map(String::as_str).ok_or(format!("{arg} wants a value\n{USAGE}"));
        match arg.as_str() {
            "--check" => f.check = true,
            "--llama3-8b" => f.llama = true,
            "--sim" => f.sim = true,
            "--unpadded" => f.timing.options.pad = false,
            "--split" => f.timing.options.split = true,
            "--joined" => f.timing.options.gate = Some(true),
            "--gated" => f.timing.options.gate = Some(false),
            "--each" => f.timing.each = true,
            "--target" => f.target = Some(value()?.to_owned()),
            "--layers" => f.layers = value()?.parse()?,
            "--batches" => f.timing.batches = value()?.split(',').map(str::parse).collect::<Result<_, _>>()?,
            "--context" => f.timing.context = value()?.parse()?,
            "--prompt" => f.timing.prompt = value()?.parse()?,
            "--chunks" => f.timing.options.chunks = Some(value()?.parse()?),
            "--rounds" => f.timing.rounds = value()?.parse()?,
            _ => return Err(format!("{arg} is no option\n{USAGE}").into()),
        }
    }
    if f.layers == 0 || f.timing.context == 0 || f.timing.batches.contains(&0) {
        return Err("a model has layers, and sequences have tokens".into());
    }
    Ok(f)
}

/// Does what the options say.
pub(crate) fn run(args: &[String]) -> Outcome<()> {
    let f = flags(args)?;
    let target = f.target.as_deref();
    let device = || {
        if f.sim {
            return Device::simulator();
        }
        Device::cuda().unwrap_or_else(|e| {
            println!("{e}");
            Device::simulator()
        })
    };
    let options = EngineOptions { gate: Some(true), split: true, ..f.timing.options };
    let parts = Conversation { prompts: [7, 18, 3], more: 2, decoded: 2, options };
    let small = Conversation { prompts: [19, 5, 9], more: 12, decoded: 3, options: f.timing.options };
    match (f.check, f.llama) {
        (false, false) => {
            check(&Config::tiny(), &small, device(), target)?;
            check(&Config::wide(), &parts, device(), target)
        }
        (false, true) => match device() {
            // There only the kernels are compiled, which takes gigabytes for weights that nobody reads.
            Device::Sim(_) if !f.sim => Err("times need a GPU".into()),
            device => timing(&Config::llama3_8b(f.layers), &f.timing, device, target),
        },
        (true, true) => {
            let talk = Conversation { prompts: [70, 3, 1], more: 5, decoded: 2, options: f.timing.options };
            check(&Config { vocab: 2000, ..Config::llama3_8b(1) }, &talk, device(), target)
        }
        (true, false) => {
            check(&Config::wide(), &parts, device(), target)?;
            let pages = Conversation { prompts: [150, 37, 129], more: 100, decoded: 2, options: f.timing.options };
            check(&Config::heads(), &pages, device(), target)?;
            for gate in [false, true] {
                let options = EngineOptions { gate: Some(gate), ..f.timing.options };
                check(&Config::tiny(), &Conversation { options, ..small }, device(), target)?;
                let one = Conversation { prompts: [1, 33, 64], more: 1, decoded: 9, options };
                check(&Config::tiny(), &one, device(), target)?;
                let long = Conversation { prompts: [301, 129, 77], more: 200, decoded: 4, options };
                check(&Config::medium(), &long, device(), target)?;
            }
            Ok(())
        }
    }
}

#[cfg(not(test))]
fn main() -> Outcome<()> {
    run(&std::env::args().skip(1).collect::<Vec<_>>())
}
