//! The simulator against another compiler: PTX that Triton writes during the test runs under several schedules, without a finding, and
//! gives the numbers that plain Rust gives.
//!
//! Without Triton (see `tests/oracle`) there is nothing to run; `TILELIFT_REQUIRE_ORACLES=1` makes that a failure.

use tilelift::ir::Scalar;
use tilelift::runtime::sim::SimDevice;
use tilelift_kernels::tensor::Init;
use tilelift_kernels::{Tensor, TensorSpec};
use tilelift_nvptx_sim::{Arg, Module};
use tilelift_oracle::TritonKernel;
use tilelift_tools::foreign::{ForeignArg, ForeignLaunch, simulate};

/// Schedules per launch.
const SEEDS: u64 = 3;

/// Half a unit in the last place of `f32` at 1.
const U: f64 = 1.0 / (1u64 << 24) as f64;

fn tensor(elem: Scalar, shape: &[u32], seed: u64) -> Tensor {
    TensorSpec::input("t", elem, shape, Init::Normal(seed)).make()
}

/// A launch: inputs, then one output, then scalars.
struct Job<'a> {
    grid: [u32; 3],
    inputs: &'a [&'a Tensor],
    out: Scalar,
    elements: usize,
    scalars: &'a [Arg],
}

impl Job<'_> {
    /// Runs a kernel under every schedule; the outputs, which have to agree bit for bit.
    fn run(&self, kernel: &TritonKernel) -> Tensor {
        let bytes = self.elements * self.out.bytes() as usize;
        let mut args: Vec<ForeignArg> =
            self.inputs.iter().map(|t| ForeignArg::Buffer { bytes: t.bytes.len(), input: None, output: None }).collect();
        args.push(ForeignArg::Buffer { bytes, input: None, output: None });
        args.extend(self.scalars.iter().cloned().map(ForeignArg::Scalar));
        // Triton appends addresses of scratch memory, which these kernels do not use.
        let module = Module::parse(&kernel.text).unwrap_or_else(|e| panic!("{}: {e}", kernel.name));
        let params = module.params(&kernel.entry).unwrap_or_else(|| panic!("{}: no entry", kernel.name));
        args.resize(params.len().max(args.len()), ForeignArg::Scalar(Arg::U64(0)));
        let launch = ForeignLaunch {
            code: Default::default(),
            entry: kernel.entry.clone(),
            grid: self.grid,
            block: [32 * kernel.warps, 1, 1],
            shared_bytes: kernel.shared_bytes,
            args,
        };
        let contents: Vec<Option<Vec<u8>>> = self.inputs.iter().map(|t| Some(t.bytes.clone())).collect();
        let runs: Vec<Vec<u8>> = (0..SEEDS)
            .map(|seed| {
                let run = simulate(&kernel.text, &launch, &contents, SimDevice::schedule(seed));
                let run = run.unwrap_or_else(|e| panic!("{} under seed {seed}: {e}", kernel.name));
                run.buffers[self.inputs.len()].clone()
            })
            .collect();
        assert!(runs.windows(2).all(|w| w[0] == w[1]), "{}: schedules change the result", kernel.name);
        Tensor { elem: self.out, shape: vec![self.elements as u32], bytes: runs[0].clone() }
    }
}

/// Compares every element: `want` gives value and tolerance.
fn compare(kernel: &TritonKernel, got: &Tensor, want: impl Fn(usize) -> (f64, f64)) {
    for i in 0..got.shape[0] as usize {
        let (value, tolerance) = want(i);
        let found = got.get(i);
        assert!((found - value).abs() <= tolerance, "{}[{i}]: {found:e}, not {value:e} +- {tolerance:.1e}", kernel.name);
    }
}

/// Every kernel of the script is run by this.
fn check(k: &TritonKernel) {
    let (rows, cols) = (5u32, 333u32);
    let width = cols as usize;
    let x = tensor(Scalar::F32, &[rows, cols], 1);
    let row = |i: usize| x.read(i / width * width..(i / width + 1) * width);
    let i32_of = |n: u32| Arg::U32(n);
    match k.name.as_str() {
        "vector_add" => {
            let n = 1003;
            let (a, b) = (tensor(Scalar::F32, &[n], 1), tensor(Scalar::F32, &[n], 2));
            let job = Job { grid: [4, 1, 1], inputs: &[&a, &b], out: Scalar::F32, elements: n as usize, scalars: &[i32_of(n)] };
            compare(k, &job.run(k), |i| (f64::from(a.get(i) as f32 + b.get(i) as f32), 0.0));
        }
        "silu_mul" => {
            let n = 3008;
            let (a, b) = (tensor(Scalar::F16, &[n], 1), tensor(Scalar::F16, &[n], 2));
            let job = Job { grid: [3, 1, 1], inputs: &[&a, &b], out: Scalar::F16, elements: n as usize, scalars: &[i32_of(n)] };
            compare(k, &job.run(k), |i| {
                let y = a.get(i) / (1.0 + (-a.get(i)).exp()) * b.get(i);
                // A rounding to f16, subnormals included, and a few of f32.
                (y, y.abs() * (2f64.powi(-11) + 2f64.powi(-19)) + 2f64.powi(-25))
            });
        }
        "softmax" => {
            let job = Job { grid: [rows, 1, 1], inputs: &[&x], out: Scalar::F32, elements: x.bytes.len() / 4, scalars: &[i32_of(cols)] };
            compare(k, &job.run(k), |i| {
                let t = row(i);
                let max = t.iter().fold(f64::NEG_INFINITY, |m, &v| m.max(v));
                let sum: f64 = t.iter().map(|v| (v - max).exp()).sum();
                let y = (t[i % width] - max).exp() / sum;
                // Exponentials of magnitudes below 8 by base 2: 2^-20 each, twice; a tree of ten levels.
                (y, y * (2f64.powi(-18) + 16.0 * U))
            });
        }
        "layer_norm" => {
            let (w, b) = (tensor(Scalar::F32, &[cols], 2), tensor(Scalar::F32, &[cols], 3));
            let scalars = [i32_of(cols), Arg::F32(1e-5)];
            let job = Job { grid: [rows, 1, 1], inputs: &[&x, &w, &b], out: Scalar::F32, elements: x.bytes.len() / 4, scalars: &scalars };
            compare(k, &job.run(k), |i| {
                let t = row(i);
                let n = f64::from(cols);
                let mean = t.iter().sum::<f64>() / n;
                let var = t.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
                let y = (t[i % width] - mean) / (var + 1e-5).sqrt() * w.get(i % width);
                let bias = b.get(i % width);
                // The mean's error, of ten levels, and relative errors of the rest.
                (y + bias, 32.0 * U * (w.get(i % width).abs() + y.abs() + bias.abs()) + y.abs() * 2f64.powi(-20))
            });
        }
        "argmax" => {
            // Ties: numbers rounded to halves; every row has many of its largest.
            let halves: Vec<u8> = (0..x.bytes.len() / 4).flat_map(|i| ((x.get(i) * 2.0).round() as f32).to_le_bytes()).collect();
            let t = Tensor { bytes: halves, ..x.clone() };
            let job = Job { grid: [rows, 1, 1], inputs: &[&t], out: Scalar::I32, elements: rows as usize, scalars: &[i32_of(cols)] };
            compare(k, &job.run(k), |r| {
                let t = t.read(r * width..(r + 1) * width);
                let best = (1..width).fold(0, |at, i| if t[i] > t[at] { i } else { at });
                (best as f64, 0.0)
            });
        }
        "cumsum" => {
            let job = Job { grid: [rows, 1, 1], inputs: &[&x], out: Scalar::F32, elements: x.bytes.len() / 4, scalars: &[i32_of(cols)] };
            compare(k, &job.run(k), |i| {
                let t = &row(i)[..=i % width];
                let (s, size) = t.iter().fold((0.0, 0.0), |(s, z), v| (s + v, z + v.abs()));
                (s, 20.0 * U * size)
            });
        }
        "gemm_f16" | "gemm_i8" => {
            let (m, n, depth) = (100u32, 80u32, 96u32);
            let (elem, out) = if k.name == "gemm_f16" { (Scalar::F16, Scalar::F32) } else { (Scalar::I8, Scalar::I32) };
            let (a, b) = (tensor(elem, &[m, depth], 1), tensor(elem, &[depth, n], 2));
            let scalars = [m, n, depth].map(i32_of);
            let job = Job { grid: [2, 2, 1], inputs: &[&a, &b], out, elements: (m * n) as usize, scalars: &scalars };
            compare(k, &job.run(k), |i| {
                let (row, col) = (i / n as usize, i % n as usize);
                let terms = (0..depth as usize).map(|p| a.get(row * depth as usize + p) * b.get(p * n as usize + col));
                let (s, size) = terms.fold((0.0, 0.0), |(s, z), v| (s + v, z + v.abs()));
                (s, if elem == Scalar::F16 { 2.0 * f64::from(depth) * U * size } else { 0.0 })
            });
        }
        other => panic!("no launch for `{other}`"),
    }
}

#[test]
fn what_triton_compiles_runs_and_is_right() {
    if tilelift_oracle::triton().is_none() {
        assert!(!tilelift_oracle::required(), "TILELIFT_REQUIRE_ORACLES is set, and there is no Triton (set TILELIFT_TRITON_PYTHON)");
        return;
    }
    let folder = std::env::temp_dir().join(format!("tilelift-triton-{}", std::process::id()));
    let kernels = tilelift_oracle::compile_triton(&folder).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(kernels.len(), 8);
    let wrong: Vec<String> = kernels.iter().filter_map(|k| std::panic::catch_unwind(|| check(k)).err().map(|_| k.name.clone())).collect();
    // A failure to tidy up is none of the test's business.
    let _ = std::fs::remove_dir_all(&folder);
    assert!(wrong.is_empty(), "{wrong:?} failed");
}
