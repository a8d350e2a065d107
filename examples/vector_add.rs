//! `cargo run --release --example vector_add`: the whole way, shortest.
//!
//! A kernel is a program that a grid of instances runs. Each instance here
//!  1. finds its place: instance `p` works on elements `1024 p` and following,
//!  2. loads a tile of 1024 elements of `a` and `b` (what is behind the end reads 0),
//!  3. adds them, and stores the sum (what is behind the end is not written).
//!
//! The builder types every step; `finish` gives the kernel. `compile` is a pure function from kernel and target to PTX text. The
//! simulator then runs that text, the very bytes that a GPU's driver would get, and refuses whatever no hardware defines: races, reads
//! of memory that nothing wrote, addresses outside the buffers. On a GPU, `runtime::cuda::CudaDevice` takes the simulator's place.

use tilelift::interp::{Buffer, Memory, ViewArg};
use tilelift::ir::{Extent, KernelBuilder, Scalar, ViewType};
use tilelift::runtime::sim::SimDevice;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut b = KernelBuilder::new("add");
    let view = ViewType::dense(Scalar::F32, &[Extent::Dynamic(1)]);
    let [x, y, z] = [(); 3].map(|()| b.param(view.clone()));
    let p = b.program_id(0);
    let at = b.mul(p, 1024);
    let (s, t) = (b.load(x, &[at], &[1024]), b.load(y, &[at], &[1024]));
    let sum = b.add(s, t);
    b.store(z, &[at], sum);
    let kernel = b.finish()?;

    let artifact = tilelift::compile(&kernel, &tilelift::targets::usual(), &tilelift::Options::default())?;
    println!("{} bytes of PTX for {}, {} threads a program", artifact.text.len(), artifact.target, artifact.threads);

    let n = 3001u32;
    let numbers = |f: fn(u32) -> f32| Buffer::from_bytes((0..n).flat_map(|i| f(i).to_le_bytes()).collect());
    let mut memory = Memory::new();
    let buffers = [memory.add(numbers(|i| i as f32)), memory.add(numbers(|i| 0.5 * i as f32)), memory.add(Buffer::uninit(4 * n as usize))];
    let args = buffers.map(|i| ViewArg::dense(i, Scalar::F32, &[i64::from(n)]).into());
    let device = SimDevice::default();
    let report = device.execute(&device.load(&artifact)?, [n.div_ceil(1024), 1, 1], &args, &mut memory)?;
    println!("{} warp instructions, {} sectors of memory", report.instructions, report.sectors);

    let z: Vec<f32> = memory.buffers[2].bytes().chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
    for (i, &v) in z.iter().enumerate() {
        assert_eq!(v, 1.5 * i as f32, "element {i}");
    }
    println!("all {n} sums are right; the last is {}", z[n as usize - 1]);
    Ok(())
}
