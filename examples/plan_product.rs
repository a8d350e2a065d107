//! `cargo run --release --example plan_product`: a product for which the library chooses the kernels, on the simulator.
//!
//! The plan says what to compile, in which order to launch it, which buffer each argument is, and which memory is needed in between.

use tilelift::interp::{Buffer, Memory};
use tilelift::ir::{Scalar, num};
use tilelift::runtime::sim::SimDevice;
use tilelift::{Options, targets};
use tilelift_kernels::plan::{DeviceFacts, Plan, Problem, Rows, plan};
use tilelift_kernels::{Activation, Argument};

const SHAPE: [u32; 3] = [24, 64, 1024];

/// Compiles and launches one step after the other.
fn run(plan: &Plan, memory: &mut Memory) -> Result<(), Box<dyn std::error::Error>> {
    let target = targets::by_name("sm_80").ok_or("no such target")?;
    let device = SimDevice::default();
    for step in &plan.launches {
        let options = Options { lower: step.options, ..Options::default() };
        let artifact = tilelift::compile(&step.launch.kernel, &target, &options)?;
        println!("@{} on {:?}: {:?}", artifact.name, step.launch.grid, step.launch.arguments);
        device.execute(&device.load(&artifact)?, step.launch.grid, &plan.arguments(step), memory)?;
    }
    Ok(())
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target = targets::by_name("sm_80").ok_or("no such target")?;
    // The multiprocessors of the device at hand decide whether the depth is split.
    let device = DeviceFacts::new(&target, 108);
    let problem = Problem::new(Scalar::F16, SHAPE).epilogue(Some(Scalar::F32), Activation::Relu);
    let made = plan(&problem, &device)?;
    let mut memory = Memory::new();
    // Small whole numbers, so that sums are exact.
    let value = |seed: usize, i: usize| ((i * 7919 + seed * 31) % 5) as f64 - 2.0;
    for (n, b) in made.buffers().iter().enumerate() {
        let elements = b.shape.iter().map(|&e| e as usize).product::<usize>();
        memory.add(match b.what {
            Argument::C | Argument::Workspace(_) => Buffer::uninit_elements(b.elem, elements),
            _ => Buffer::from_f64(b.elem, (0..elements).map(|i| value(n, i))),
        });
    }
    run(&made, &mut memory)?;

    let [_, n, k] = SHAPE.map(|e| e as usize);
    for (i, got) in memory.buffers[3].read_f64(Scalar::F16).into_iter().enumerate() {
        let sum: f64 = (0..k).map(|d| value(0, i / n * k + d) * value(1, d * n + i % n)).sum();
        assert_eq!(got, num::round((sum + value(2, i % n)).max(0.0), Scalar::F16), "element {i}");
    }
    // Batches of any length: three kernels, and which one for how many rows.
    let rows = Rows::plan(&problem, &device, 1..=8192, 3)?;
    for k in rows.kernels() {
        println!("{}: rows {:?}", k.candidate, k.spans);
    }
    println!("all elements are right; three kernels for 8192 numbers of rows lose {:.0}% at most", 100.0 * rows.worst_loss());
    Ok(())
}
