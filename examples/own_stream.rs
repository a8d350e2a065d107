//! `cargo run --release --example own_stream`: a fused kernel on an engine's own stream and buffers, then captured as a graph.
//!
//! The engine has a context, a stream and memory; they are lent, never taken. A kernel is loaded once, bound once to its memory, and launched by one call of
//! the driver. Captured, the launch is replayed with whatever the buffers hold by then. Without a GPU, the simulator runs the same text on the same numbers.

use std::sync::Arc;
use tilelift::interp::{Arg, Buffer, Memory, ScalarArg, ViewArg};
use tilelift::ir::Scalar;
use tilelift::runtime::cuda::{CudaBuffer, CudaDevice, probe};
use tilelift::runtime::sim::SimDevice;
use tilelift::{Artifact, Compiler};

/// `y = max(x * g, 0) + s * r`: what four operators would pass over memory for, in one pass.
const FUSED: &str = "kernel @fused(%x: view<f32, [?]>, %g: view<f32, [?]>, %r: view<f32, [?]>, %y: view<f32, [?]>, %s: f32) {
    %p = program_id x
    %at = mul %p, 1024
    %a = load %x[%at] : tile<1024xf32>
    %b = load %g[%at] : tile<1024xf32>
    %c = load %r[%at] : tile<1024xf32>
    %zero = splat 0.0 : tile<1024xf32>
    %scale = splat %s : tile<1024xf32>
    %d = mul %a, %b
    %e = maximum %d, %zero
    %f = fma %scale, %c, %e
    store %y[%at], %f
}
";
const N: usize = 5000;

/// Inputs of a step.
fn input(step: u32, tensor: u32) -> Vec<f32> {
    (0..N as u32).map(|i| ((i * 7 + tensor * 5 + step * 3) % 17) as f32 - 8.0).collect()
}

fn wanted(step: u32) -> Vec<f32> {
    let [x, g, r] = [0, 1, 2].map(|t| input(step, t));
    (0..N).map(|i| (x[i] * g[i]).max(0.0) + 0.5 * r[i]).collect()
}

fn args() -> Vec<Arg> {
    let views = (0..4).map(|b| ViewArg::dense(b, Scalar::F32, &[N as i64]).into());
    views.chain([ScalarArg::float(Scalar::F32, 0.5).into()]).collect()
}

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn on_gpu(device: &CudaDevice, compiler: &Arc<Compiler>, artifact: &Arc<Artifact>) -> Result<()> {
    let kernel = device.load_kept(artifact, compiler)?;
    // What the engine has; here the device makes it, and from here on it is known by addresses and a handle, as a host's would be.
    let mut owned: Vec<CudaBuffer> = (0..4).map(|_| device.alloc(4 * N)).collect::<std::result::Result<_, _>>()?;
    let own_stream = device.stream()?;
    // SAFETY: memory and stream outlive what borrows them, which ends with this function.
    let lent: Vec<CudaBuffer> = owned.iter().map(|b| unsafe { device.borrow_memory(b.address(), b.len()) }).collect();
    // SAFETY: as above.
    let stream = unsafe { device.borrow_stream(own_stream.handle()) };
    let binding = kernel.bind([N.div_ceil(1024) as u32, 1, 1], &args(), &lent.iter().collect::<Vec<_>>())?;
    // SAFETY: the buffers live until the stream is done, and nothing else uses them; here and below.
    let graph = stream.capture(|| unsafe { binding.launch(&stream) })?;
    for step in 0..3 {
        for (n, buffer) in owned.iter_mut().enumerate().take(3) {
            buffer.upload(&bytes(&input(step, n as u32)))?;
        }
        // The first step is a launch, later ones replay it.
        if step == 0 {
            unsafe { binding.launch(&stream) }?
        } else {
            unsafe { graph.launch(&stream) }?
        }
        stream.synchronize()?;
        let mut out = vec![0; 4 * N];
        owned[3].download(&mut out)?;
        check(step, &out)?;
    }
    Ok(())
}

fn simulated(artifact: &Artifact) -> Result<()> {
    let device = SimDevice::default();
    let kernel = device.load(artifact)?;
    for step in 0..3 {
        let mut memory = Memory::new();
        (0..3).for_each(|t| _ = memory.add(Buffer::from_bytes(bytes(&input(step, t)))));
        memory.add(Buffer::uninit(4 * N));
        device.execute(&kernel, [N.div_ceil(1024) as u32, 1, 1], &args(), &mut memory)?;
        check(step, memory.buffers[3].bytes())?;
    }
    Ok(())
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn check(step: u32, out: &[u8]) -> Result<()> {
    if out == bytes(&wanted(step)) { Ok(()) } else { Err(format!("step {step} is wrong").into()) }
}

/// On a GPU, or on the simulator.
pub(crate) fn run(gpu: bool) -> Result<()> {
    let device = if gpu { Some(CudaDevice::new(0)?) } else { None };
    let target = device.as_ref().map_or(Some("sm_80"), CudaDevice::target_name).ok_or("the device is older than every target")?;
    let compiler = Arc::new(Compiler::new(target)?);
    let artifact = compiler.compile_text(FUSED, None)?;
    match &device {
        Some(device) => on_gpu(device, &compiler, &artifact)?,
        None => simulated(&artifact)?,
    }
    println!("three steps are right, on {}", device.as_ref().map_or("the simulator", CudaDevice::name));
    Ok(())
}

#[cfg_attr(test, allow(dead_code))] // tests say where it runs
pub(crate) fn main() -> Result<()> {
    run(probe().is_ok())
}
