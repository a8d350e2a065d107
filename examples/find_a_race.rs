//! `cargo run --release --example find_a_race`: how the simulator finds what a GPU hides.
//!
//! A softmax over four warps exchanges partial results through shared memory, with barriers in between. This program takes the
//! compiled text, deletes one barrier after the other, and runs what is left. On a GPU most of these texts give right numbers most of
//! the time. In the simulator two accesses of different warps to one byte, of which one writes, must be ordered by a barrier, whatever
//! the interleaving happened to be; so every run names the two guilty instructions, with line, warp and address.
//! Seeds vary the order of the warps. A fault that depends on data or timing is looked for under several of them; the same seed gives
//! the same run on every machine. `tilelift sim LAUNCH.json` does this for text of any compiler.

use tilelift::Artifact;
use tilelift::interp::{Arg, Buffer, Memory, ViewArg};
use tilelift::ir::{Extent, KernelBuilder, ReduceOp, Scalar, ViewType};
use tilelift::runtime::sim::{SimDevice, SimFailure};

const N: usize = 2048;

fn artifact() -> Result<Artifact, Box<dyn std::error::Error>> {
    let mut b = KernelBuilder::new("normalise");
    b.warps(4);
    let x = b.param(ViewType::dense(Scalar::F32, &[Extent::Fixed(N as u32)]));
    let at = b.constant(0, Scalar::I32);
    let t = b.load(x, &[at], &[N as u32]);
    let max = b.reduce_keep(ReduceOp::Maximum, t, 0);
    let t = b.sub(t, max);
    let t = b.exp(t);
    let sum = b.reduce_keep(ReduceOp::Add, t, 0);
    let t = b.div(t, sum);
    b.store(x, &[at], t);
    Ok(tilelift::compile(&b.finish()?, &tilelift::targets::usual(), &tilelift::Options::default())?)
}

fn run(artifact: &Artifact, seed: u64) -> Result<(), SimFailure> {
    let mut memory = Memory::new();
    memory.add(Buffer::from_bytes((0..N).flat_map(|i| ((i % 13) as f32).to_le_bytes()).collect()));
    let args: Vec<Arg> = vec![ViewArg::dense(0, Scalar::F32, &[N as i64]).into()];
    let device = SimDevice::new(SimDevice::schedule(seed));
    device.execute(&device.load(artifact)?, [1, 1, 1], &args, &mut memory).map(|_| ())
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let right = artifact()?;
    for seed in 0..3 {
        run(&right, seed)?;
    }
    println!("the compiled text runs under three schedules without a finding");
    let barriers: Vec<usize> =
        right.text.lines().enumerate().filter(|(_, l)| l.contains("bar.sync") || l.contains("barrier.sync")).map(|(i, _)| i).collect();
    let mut found = 0;
    for &line in &barriers {
        let text: String = right.text.lines().enumerate().filter(|&(i, _)| i != line).map(|(_, l)| format!("{l}\n")).collect();
        let mut broken = right.clone();
        broken.text = text;
        match run(&broken, 0) {
            Ok(()) => println!("\nwithout the barrier of line {}: no finding", line + 1),
            Err(e) => {
                found += 1;
                println!("\nwithout the barrier of line {}:\n{e}", line + 1);
            }
        }
    }
    println!("\n{found} of {} deleted barriers are found", barriers.len());
    if found == 0 { Err("a deleted barrier must be found".into()) } else { Ok(()) }
}
