//! Shared by the sm_90a tests: kernels, bf16 data, references.

use super::Rng;
use tilelift_nvptx_sim::{Arg, Init, Launch, MapElement, MapSwizzle, Memory, Module, Report, SimConfig, SimError, TensorMap};

/// Nearest even.
pub fn bf16(x: f32) -> u16 {
    let b = x.to_bits();
    ((b + 0x7fff + (b >> 16 & 1)) >> 16) as u16
}

pub fn from_bf16(h: u16) -> f32 {
    f32::from_bits(u32::from(h) << 16)
}

/// Random bf16 values in [-1, 1).
pub fn random(n: usize, seed: u64) -> Vec<u16> {
    let mut r = Rng(seed);
    (0..n).map(|_| bf16(r.unit())).collect()
}

pub fn bytes16(v: &[u16]) -> Vec<u8> {
    v.iter().flat_map(|x| x.to_le_bytes()).collect()
}

pub fn u16s(b: &[u8]) -> Vec<u16> {
    b.chunks_exact(2).map(|c| u16::from_le_bytes([c[0], c[1]])).collect()
}

/// Row-major matrix of 2-byte elements, rows of `cols`, box of `w x h` elements, 128-byte swizzle when a box row has 128 bytes.
pub fn map2(base: u64, rows: usize, cols: usize, w: u32, h: u32) -> TensorMap {
    let m = TensorMap::new(base, MapElement::Bf16, &[cols as u64, rows as u64], &[2 * cols as u64], &[w, h]);
    if w == 64 { m.swizzled(MapSwizzle::B128) } else { m }
}

pub fn map_arg(m: TensorMap) -> Arg {
    Arg::TensorMap(Box::new(m))
}

/// `A (m x k) * B (n x k)^T`, both row-major: the sum and the sum of magnitudes, which bounds the error.
pub fn product(a: &[u16], b: &[u16], m: usize, n: usize, k: usize) -> Vec<(f64, f64)> {
    let mut out = vec![(0.0, 0.0); m * n];
    for i in 0..m {
        for j in 0..n {
            let (mut s, mut t) = (0.0, 0.0);
            for x in 0..k {
                let p = f64::from(from_bf16(a[i * k + x])) * f64::from(from_bf16(b[j * k + x]));
                s += p;
                t += p.abs();
            }
            out[i * n + j] = (s, t);
        }
    }
    out
}

/// Asserts bf16 results: one rounding to bf16 of a sum with rounding errors of f32 at every step of k.
pub fn assert_product(got: &[u16], want: &[(f64, f64)], k: usize) {
    for (i, (g, (w, mag))) in got.iter().zip(want).enumerate() {
        let bound = w.abs() / 256.0 + mag * k as f64 * 2f64.powi(-24) + 1e-30;
        let g = f64::from(from_bf16(*g));
        assert!((g - w).abs() <= bound, "element {i}: {g} instead of {w} (bound {bound})");
    }
}

pub struct Go<'a> {
    pub entry: &'a str,
    pub grid: u32,
    pub block: u32,
    pub shared: u32,
    pub config: SimConfig,
}

pub fn go(m: &Module, g: &Go<'_>, args: &[Arg], mem: &mut Memory) -> Result<Report, SimError> {
    let l = Launch { entry: g.entry, grid: [g.grid, 1, 1], block: [g.block, 1, 1], shared_bytes: g.shared, args, config: g.config.clone() };
    m.launch(&l, mem)
}

/// Two bf16 operands and an output of bf16 in a fresh memory.
pub fn gemm_memory(a: &[u16], b: &[u16], out: usize) -> (Memory, u64, u64, u64) {
    let mut mem = Memory::new();
    let pa = mem.alloc("a", Init::Bytes(bytes16(a)));
    let pb = mem.alloc("b", Init::Bytes(bytes16(b)));
    let pc = mem.alloc("c", Init::Uninit(2 * out));
    (mem, pa, pb, pc)
}
