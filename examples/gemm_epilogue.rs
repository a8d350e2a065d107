//! `cargo run --release --example gemm_epilogue`: a matrix product with bias and ReLU fused behind it.
//!
//! An instance computes a 64 x 64 tile of C. Its loop walks the depth in steps of 32: load a tile of A and one of B, `dot` them into
//! the carried accumulator. Nothing is said of tensor cores, shared memory, asynchronous copies or pipelines; the compiler derives
//! them from types and facts:
//!  * `f16` operands and an `f32` accumulator become `mma` instructions, fed by `ldmatrix` from swizzled shared memory;
//!  * `stages(3)` keeps two tiles in flight with `cp.async`, which is legal because the extents are declared multiples of 8;
//!  * bias, ReLU and the cast run on the accumulator in registers, before the only store.
//!
//! The program prints how many of those instructions the text has, runs it on the simulator, and checks every element.

use tilelift::interp::{Arg, Buffer, Memory, ViewArg};
use tilelift::ir::{Extent, Kernel, KernelBuilder, Scalar, ViewType, num};
use tilelift::runtime::sim::SimDevice;

const M: usize = 100;
const N: usize = 72;
const K: usize = 96;

fn gemm() -> Result<Kernel, tilelift::ir::BuildErrors> {
    let mut b = KernelBuilder::new("gemm_bias_relu");
    b.warps(4).stages(3);
    let matrix = ViewType::dense(Scalar::F16, &[Extent::Dynamic(1), Extent::Dynamic(8)]);
    let [a, bm] = [(); 2].map(|()| b.param(matrix.clone()));
    let bias = b.param(ViewType::dense(Scalar::F32, &[Extent::Dynamic(8)]));
    let c = b.param(matrix);
    let (px, py) = (b.program_id(0), b.program_id(1));
    let (row, col) = (b.mul(px, 64), b.mul(py, 64));
    let depth = b.dim(a, 1);
    let zero = b.full(&[64, 64], 0, Scalar::F32);
    let acc = b.for_loop(0, depth, 32, &[zero], |b, k, acc| {
        let ta = b.load(a, &[row, k], &[64, 32]);
        let tb = b.load(bm, &[k, col], &[32, 64]);
        vec![b.dot(ta, tb, acc[0])]
    });
    let t = b.load(bias, &[col], &[64]);
    let t = b.expand_dims(t, 0);
    let t = b.add(acc[0], t);
    let t = b.maximum(t, 0.0f32);
    let t = b.cast(t, Scalar::F16);
    b.store(c, &[row, col], t);
    b.finish()
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let artifact = tilelift::compile(&gemm()?, &tilelift::targets::usual(), &tilelift::Options::default())?;
    for word in ["mma.sync", "ldmatrix", "cp.async.cg"] {
        let count = artifact.text.matches(word).count();
        assert!(count > 0, "no {word}");
        println!("{count:>4} {word}");
    }
    // Quarters, which `f16` holds, so that the products are exact.
    let value = |seed: usize, i: usize| ((i * 7919 + seed * 31) % 17) as f64 / 4.0 - 2.0;
    let half = |x: f64| (num::to_bits(num::round(x, Scalar::F16), Scalar::F16) as u16).to_le_bytes();
    let mut memory = Memory::new();
    memory.add(Buffer::from_bytes((0..M * K).flat_map(|i| half(value(1, i))).collect()));
    memory.add(Buffer::from_bytes((0..K * N).flat_map(|i| half(value(2, i))).collect()));
    memory.add(Buffer::from_bytes((0..N).flat_map(|i| (value(3, i) as f32).to_le_bytes()).collect()));
    memory.add(Buffer::uninit(2 * M * N));
    let shapes: [(Scalar, &[i64]); 4] = [
        (Scalar::F16, &[M as i64, K as i64]),
        (Scalar::F16, &[K as i64, N as i64]),
        (Scalar::F32, &[N as i64]),
        (Scalar::F16, &[M as i64, N as i64]),
    ];
    let args: Vec<Arg> = shapes.iter().enumerate().map(|(i, (elem, shape))| ViewArg::dense(i, *elem, shape).into()).collect();
    let device = SimDevice::default();
    let grid = [M.div_ceil(64) as u32, N.div_ceil(64) as u32, 1];
    let report = device.execute(&device.load(&artifact)?, grid, &args, &mut memory)?;

    for (i, raw) in memory.buffers[3].bytes().chunks_exact(2).enumerate() {
        let (r, c) = (i / N, i % N);
        let sum: f64 = (0..K).map(|k| value(1, r * K + k) * value(2, k * N + c)).sum();
        let want = num::round((sum + value(3, c)).max(0.0), Scalar::F16);
        assert_eq!(num::from_bits(u64::from(u16::from_le_bytes([raw[0], raw[1]])), Scalar::F16), want, "C[{r}, {c}]");
    }
    println!("all {} elements are right; {} wavefronts by bank conflicts", M * N, report.conflict_excess());
    Ok(())
}
