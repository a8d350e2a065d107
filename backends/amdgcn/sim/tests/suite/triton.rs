//! Foreign code: what Triton compiles for gfx942 and gfx90a runs under several orders of waves without a finding, and gives the numbers
//! that plain Rust gives.

use crate::common::{Buf, Random, assemble, bytes, f32s, launch_kernel, u32s};
use std::path::Path;
use tilelift_amdgcn_sim::{Chip, Report, SimConfig};
use tilelift_oracle::TritonFiles;

/// A compiled kernel: name, entry, waves of a workgroup, text.
struct Compiled {
    name: String,
    entry: String,
    waves: u32,
    shared: u32,
    object: Vec<u8>,
}

/// Compiles all kernels for a chip; `None` without Triton or LLVM's tools.
fn compile(chip: Chip) -> Option<Vec<Compiled>> {
    let files = TritonFiles::of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/triton_kernels.py"), chip.name())?;
    let mut all = Vec::new();
    for words in &files.kernels {
        let number = |i: usize| words[i].parse().expect("a number");
        let file = |ext: &str| files.read(&format!("{}.{ext}", words[0]));
        // LLVM 19 does not know gfx950: there Triton's own object is taken.
        let object = match chip {
            Chip::Gfx950 => file("hsaco"),
            _ => assemble(&String::from_utf8_lossy(&file("s")), chip)?,
        };
        all.push(Compiled { name: words[0].clone(), entry: words[1].clone(), waves: number(2), shared: number(3), object });
    }
    Some(all)
}

impl Compiled {
    /// Runs under several orders; the last buffer, which has to be the same each time.
    fn run(&self, grid: [u32; 3], inputs: &[Vec<u8>], out: &dyn Fn() -> Buf, scalars: &[u8]) -> (Vec<u8>, Report) {
        let mut results = Vec::new();
        for seed in 0..3 {
            let mut buffers: Vec<Buf> = inputs.iter().map(|b| Buf::In(b.clone())).collect();
            buffers.push(out());
            // Behind the arguments Triton passes addresses of scratch memory, which these kernels do not use.
            let mut more = scalars.to_vec();
            more.resize(more.len().next_multiple_of(8) + 16, 0);
            let config = SimConfig { seed, ..SimConfig::default() };
            let run = launch_kernel(&self.object, &self.entry, (grid, 64 * self.waves, self.shared), buffers, &more, config);
            let (mut b, report) = run.unwrap_or_else(|f| panic!("{} under seed {seed}: {f}", self.name));
            results.push((b.pop().expect("an output"), report));
        }
        assert!(results.iter().all(|r| r.0 == results[0].0), "{}: the order of waves changes the result", self.name);
        results.swap_remove(0)
    }
}

fn close(name: &str, got: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{name}");
    for (i, (&g, &w)) in got.iter().zip(want).enumerate() {
        assert!((f64::from(g) - w).abs() <= tolerance * (1.0 + w.abs()), "{name}: element {i} is {g}, not {w}");
    }
}

fn units(n: usize, seed: u64) -> Vec<f32> {
    let mut r = Random(seed);
    (0..n).map(|_| r.unit()).collect()
}

/// f16 by the conversion of a double; only numbers without special cases.
fn to_f16(x: f32) -> u16 {
    let (mut best, mut distance) = (0u16, f64::INFINITY);
    let guess = |b: u16| (f64::from(from_f16(b)) - f64::from(x)).abs();
    let e = (x.abs().max(6.2e-5).log2().floor() as i32 + 15).clamp(0, 30);
    let base = ((e as u16) << 10) | if x < 0.0 { 0x8000 } else { 0 };
    let m = ((x.abs() / 2f32.powi(e - 15) - 1.0) * 1024.0).floor().max(0.0) as u16;
    for d in 0..3u16 {
        let b = base + m.saturating_sub(1) + d;
        if guess(b) < distance {
            (best, distance) = (b, guess(b));
        }
    }
    best
}

fn from_f16(b: u16) -> f32 {
    let (e, m) = ((b >> 10 & 31) as i32, f32::from(b & 0x3ff));
    let v = if e == 0 { m * 2f32.powi(-24) } else { (1.0 + m / 1024.0) * 2f32.powi(e - 15) };
    if b & 0x8000 != 0 { -v } else { v }
}

fn halves(v: &[f32]) -> (Vec<u8>, Vec<f32>) {
    let h: Vec<u16> = v.iter().map(|&x| to_f16(x)).collect();
    (bytes(&h, u16::to_le_bytes), h.iter().map(|&b| from_f16(b)).collect())
}

fn bf16s(v: &[f32]) -> (Vec<u8>, Vec<f32>) {
    let h: Vec<u16> = v.iter().map(|x| (x.to_bits() >> 16) as u16).collect();
    (bytes(&h, u16::to_le_bytes), h.iter().map(|&b| f32::from_bits(u32::from(b) << 16)).collect())
}

fn ints(v: &[i32]) -> Vec<u8> {
    bytes(v, i32::to_le_bytes)
}

fn matmul(a: &[f32], b: &[f32], m: usize, n: usize, k: usize) -> Vec<f64> {
    let mut c = vec![0.0; m * n];
    for i in 0..m {
        for l in 0..k {
            for j in 0..n {
                c[i * n + j] += f64::from(a[i * k + l]) * f64::from(b[l * n + j]);
            }
        }
    }
    c
}

fn gemm(k: &Compiled) {
    let large = k.name.ends_with("large") || k.name == "gemm_ocp8";
    let (m, n, depth) = if large { (200, 144, 160) } else { (100, 80, 96) };
    let tile = if large { 128 } else { 64 };
    let (a, b) = (units(m * depth, 3), units(depth * n, 4));
    let grid = [(m as u32).div_ceil(tile), (n as u32).div_ceil(tile), 1];
    let out = || Buf::Out(4 * m * n);
    let shape = ints(&[m as i32, n as i32, depth as i32]);
    let (inputs, want, tolerance): (Vec<Vec<u8>>, Vec<f64>, f64) = match k.name.as_str() {
        "gemm_i8" => {
            let q = |v: &[f32]| v.iter().map(|x| (x * 127.0).round()).collect::<Vec<f32>>();
            let (a, b) = (q(&a), q(&b));
            let raw = |v: &[f32]| v.iter().map(|&x| x as i8 as u8).collect::<Vec<u8>>();
            let got = k.run(grid, &[raw(&a), raw(&b)], &out, &shape).0;
            let got: Vec<f64> = u32s(&got).iter().map(|&x| f64::from(x as i32)).collect();
            assert_eq!(got, matmul(&a, &b, m, n, depth), "{}", k.name);
            return;
        }
        "gemm_fp8" | "gemm_ocp8" => {
            // Codes 0x20..0x50 with signs: plain numbers of e4m3, with bias 8 or 7.
            let bias = if k.name == "gemm_fp8" { 8 } else { 7 };
            let code = |v: &[f32]| v.iter().map(|x| 0x20 + (x.abs() * 48.0) as u8 + if *x < 0.0 { 0x80 } else { 0 }).collect::<Vec<u8>>();
            let value = |c: u8| {
                let v = (1.0 + f32::from(c & 7) / 8.0) * 2f32.powi(i32::from(c >> 3 & 15) - bias);
                if c & 0x80 != 0 { -v } else { v }
            };
            let (a, b) = (code(&a), code(&b));
            let f = |v: &[u8]| v.iter().map(|&c| value(c)).collect::<Vec<f32>>();
            let want = matmul(&f(&a), &f(&b), m, n, depth);
            (vec![a, b], want, 1e-4)
        }
        "gemm_f32" => {
            let want = matmul(&a, &b, m, n, depth);
            // Triton takes the ten-bit mantissas of xf32 where there are.
            (vec![bytes(&a, f32::to_le_bytes), bytes(&b, f32::to_le_bytes)], want, 3e-3)
        }
        "gemm_bf16" => {
            let ((ra, a), (rb, b)) = (bf16s(&a), bf16s(&b));
            (vec![ra, rb], matmul(&a, &b, m, n, depth), 1e-4)
        }
        _ => {
            let ((ra, a), (rb, b)) = (halves(&a), halves(&b));
            (vec![ra, rb], matmul(&a, &b, m, n, depth), 1e-4)
        }
    };
    let (got, report) = k.run(grid, &inputs, &out, &shape);
    close(&k.name, &f32s(&got), &want, tolerance);
    assert!(report.matrix > 0, "{}", k.name);
}

fn attention(k: &Compiled) {
    let (heads, length, d) = (2usize, 100usize, 64usize);
    let make = |seed| halves(&units(heads * length * d, seed));
    let ((rq, q), (rk, kk), (rv, v)) = (make(5), make(6), make(7));
    // Scores are in base two.
    let scale = std::f32::consts::LOG2_E / 8.0;
    let mut scalars = (length as i32).to_le_bytes().to_vec();
    scalars.extend(scale.to_le_bytes());
    let out = || Buf::Out(2 * heads * length * d);
    let got = k.run([(length as u32).div_ceil(64), heads as u32, 1], &[rq, rk, rv], &out, &scalars).0;
    let got: Vec<f32> = got.chunks_exact(2).map(|c| from_f16(u16::from_le_bytes([c[0], c[1]]))).collect();
    let mut want = Vec::new();
    for h in 0..heads {
        let at = |t: &[f32], i: usize, j: usize| f64::from(t[(h * length + i) * d + j]);
        for i in 0..length {
            let s: Vec<f64> = (0..=i).map(|j| (0..d).map(|x| at(&q, i, x) * at(&kk, j, x)).sum::<f64>() * f64::from(scale)).collect();
            let top = s.iter().fold(f64::NEG_INFINITY, |a, &b| a.max(b));
            let p: Vec<f64> = s.iter().map(|x| (x - top).exp2()).collect();
            let sum: f64 = p.iter().sum();
            want.extend((0..d).map(|x| p.iter().enumerate().map(|(j, p)| p * at(&v, j, x)).sum::<f64>() / sum));
        }
    }
    close(&k.name, &got, &want, 2e-3);
}

fn rows(k: &Compiled) {
    let (n, cols) = (3usize, 400usize);
    let x = units(n * cols, 11);
    let input = bytes(&x, f32::to_le_bytes);
    let row = |i: usize| x[i * cols..(i + 1) * cols].iter().map(|&v| f64::from(v)).collect::<Vec<f64>>();
    let grid = [n as u32, 1, 1];
    let cols_arg = ints(&[cols as i32]);
    let run = |elements: usize| k.run(grid, std::slice::from_ref(&input), &|| Buf::Out(4 * elements), &cols_arg).0;
    match k.name.as_str() {
        "softmax" => {
            let want: Vec<f64> = (0..n)
                .flat_map(|i| {
                    let e: Vec<f64> = row(i).iter().map(|v| v.exp()).collect();
                    let sum: f64 = e.iter().sum();
                    e.into_iter().map(move |v| v / sum).collect::<Vec<f64>>()
                })
                .collect();
            close(&k.name, &f32s(&run(n * cols)), &want, 1e-6);
        }
        "row_sum" => close(&k.name, &f32s(&run(n)), &(0..n).map(|i| row(i).iter().sum()).collect::<Vec<f64>>(), 1e-5),
        "argmax" => {
            let want: Vec<u32> =
                (0..n).map(|i| (0..cols).max_by(|&a, &b| x[i * cols + a].total_cmp(&x[i * cols + b])).expect("a column") as u32).collect();
            assert_eq!(u32s(&run(n)), want);
        }
        "cumsum" => {
            let scan = |i: usize| {
                row(i).into_iter().scan(0.0, |s, v| {
                    *s += v;
                    Some(*s)
                })
            };
            close(&k.name, &f32s(&run(n * cols)), &(0..n).flat_map(scan).collect::<Vec<f64>>(), 1e-5);
        }
        _ => {
            let (w, b) = (units(cols, 12), units(cols, 13));
            let inputs = [input, bytes(&w, f32::to_le_bytes), bytes(&b, f32::to_le_bytes)];
            let mut scalars = cols_arg;
            scalars.extend(1e-5f32.to_le_bytes());
            let got = k.run(grid, &inputs, &|| Buf::Out(4 * n * cols), &scalars).0;
            let mut want = Vec::new();
            for i in 0..n {
                let r = row(i);
                let mean = r.iter().sum::<f64>() / cols as f64;
                let var = r.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / cols as f64;
                want.extend(r.iter().enumerate().map(|(j, v)| (v - mean) / (var + 1e-5).sqrt() * f64::from(w[j]) + f64::from(b[j])));
            }
            close(&k.name, &f32s(&got), &want, 1e-5);
        }
    }
}

fn elementwise(k: &Compiled) {
    let n = 1600usize;
    let (x, y) = (units(n, 1), units(n, 2));
    let scalars = ints(&[n as i32]);
    match k.name.as_str() {
        "vector_add" => {
            let inputs = [bytes(&x, f32::to_le_bytes), bytes(&y, f32::to_le_bytes)];
            let got = k.run([(n as u32).div_ceil(256), 1, 1], &inputs, &|| Buf::Out(4 * n), &scalars).0;
            assert_eq!(f32s(&got), x.iter().zip(&y).map(|(a, b)| a + b).collect::<Vec<f32>>());
        }
        "histogram" => {
            let values: Vec<i32> = x.iter().map(|v| ((v + 1.0) * 16.0) as i32).collect();
            let got = k.run([(n as u32).div_ceil(256), 1, 1], &[ints(&values)], &|| Buf::In(vec![0; 4 * 33]), &scalars).0;
            let mut want = vec![0u32; 33];
            values.iter().for_each(|&v| want[v as usize] += 1);
            assert_eq!(u32s(&got), want);
        }
        name => {
            let half = name == "silu_mul";
            let ((rx, x), (ry, y)) = if half { (halves(&x), halves(&y)) } else { (bf16s(&x), bf16s(&y)) };
            let got = k.run([(n as u32).div_ceil(1024), 1, 1], &[rx, ry], &|| Buf::Out(2 * n), &scalars).0;
            let value = |b: u16| if half { from_f16(b) } else { f32::from_bits(u32::from(b) << 16) };
            let got: Vec<f32> = got.chunks_exact(2).map(|c| value(u16::from_le_bytes([c[0], c[1]]))).collect();
            let want: Vec<f64> = x.iter().zip(&y).map(|(&a, &b)| f64::from(a) / (1.0 + (-f64::from(a)).exp()) * f64::from(b)).collect();
            close(name, &got, &want, if half { 1e-3 } else { 8e-3 });
        }
    }
}

fn one(k: &Compiled) {
    match k.name.as_str() {
        "attention" => attention(k),
        name if name.starts_with("gemm") => gemm(k),
        "softmax" | "row_sum" | "argmax" | "cumsum" | "layer_norm" => rows(k),
        _ => elementwise(k),
    }
}

fn all(chip: Chip) {
    let compiled = compile(chip).unwrap_or_default();
    let failed: Vec<&str> = compiled.iter().filter(|k| std::panic::catch_unwind(|| one(k)).is_err()).map(|k| k.name.as_str()).collect();
    assert!(failed.is_empty(), "{chip}: {failed:?}");
}

#[test]
fn triton_for_gfx942() {
    all(Chip::Gfx942);
}

#[test]
fn triton_for_gfx90a() {
    all(Chip::Gfx90a);
}

#[test]
fn triton_for_gfx950() {
    all(Chip::Gfx950);
}
