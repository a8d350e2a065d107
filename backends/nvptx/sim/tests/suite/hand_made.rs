//! Hand-made sm_90a kernels from a directory that `TILELIFT_SIM_PTX_DIR` names (without it nothing is tested here): two
//! GEMMs (cooperative 128x256, ping-pong 128x192) and a persistent attention forward, on small problems.

use crate::common::hopper::{Go, assert_product, bf16, bytes16, from_bf16, gemm_memory, go, map_arg, map2, product, random, u16s};
use crate::common::{f32s, module};
use std::time::Instant;
use tilelift_nvptx_sim::{Arg, Init, Landing, MapElement, MapSwizzle, Memory, Policy, SimConfig, TensorMap};

fn text(name: &str) -> Option<String> {
    let dir = std::env::var("TILELIFT_SIM_PTX_DIR").ok()?;
    Some(std::fs::read_to_string(std::path::Path::new(&dir).join(name)).expect("the directory has the kernels"))
}

fn configs() -> Vec<SimConfig> {
    let one = |policy, landing, seed| SimConfig { policy, landing, seed, ..SimConfig::default() };
    vec![
        one(Policy::Random, Landing::Random, 1),
        one(Policy::InOrder, Landing::Lazy, 2),
        one(Policy::Reverse, Landing::Eager, 3),
        one(Policy::Pct(3), Landing::Random, 4),
        one(Policy::Starve(4), Landing::Random, 5),
    ]
}

fn gemm(name: &str, bn: u32, shared: u32, box_rows: u32) {
    let Some(t) = text(name) else { return };
    let m = module(&t);
    for (rows, cols, k, grid) in [(256usize, 512usize, 256usize, 2u32), (200, 328, 136, 1), (384, 256, 64, 3)] {
        let (a, b) = (random(rows * k, 1), random(cols * k, 2));
        let want = product(&a, &b, rows, cols, k);
        let (tm, tn) = (rows.div_ceil(128) as u32, cols.div_ceil(bn as usize) as u32);
        for config in configs() {
            let what = format!("{:?} {:?}", config.policy, config.landing);
            let (mut mem, pa, pb, pc) = gemm_memory(&a, &b, rows * cols);
            let args = [
                map_arg(map2(pa, rows, k, 64, 128)),
                map_arg(map2(pb, cols, k, 64, bn)),
                map_arg(map2(pc, rows, cols, 64, box_rows)),
                Arg::U64(pc),
                Arg::U32(rows as u32),
                Arg::U32(cols as u32),
                Arg::U32(cols as u32),
                Arg::U32(k.div_ceil(64) as u32),
                Arg::U32(tm),
                Arg::U32(tn),
                Arg::U32(tm * tn),
            ];
            let start = Instant::now();
            let r = go(&m, &Go { entry: "gemm", grid, block: 384, shared, config }, &args, &mut mem);
            let r = r.unwrap_or_else(|e| panic!("{name} {rows}x{cols}x{k} {what}: {e}"));
            println!("{name} {rows}x{cols}x{k} {what}: {} instructions, {:?}", r.instructions, start.elapsed());
            let got = u16s(mem.read(pc, 2 * rows * cols).expect("every element is written"));
            assert_product(&got, &want, k);
        }
    }
}

#[test]
fn cooperative_gemm() {
    gemm("gemm_coop128x256_best.ptx", 256, 213_120, 64);
}

#[test]
fn ping_pong_gemm() {
    gemm("gemm_pp128x192.ptx", 192, 196_736, 64);
}

#[test]
fn attention() {
    let Some(t) = text("attn_full128_persistent.ptx") else { return };
    let m = module(&t);
    let (heads, d) = (2usize, 128usize);
    for (len, grid) in [(256usize, 2u32), (200, 3)] {
        let n = heads * len * d;
        let (q, k, v) = (random(n, 5), random(n, 6), random(n, 7));
        let mut mem0 = Memory::new();
        let pq = mem0.alloc("q", Init::Bytes(bytes16(&q)));
        let pk = mem0.alloc("k", Init::Bytes(bytes16(&k)));
        let pv = mem0.alloc("v", Init::Bytes(bytes16(&v)));
        let po = mem0.alloc("o", Init::Uninit(2 * n));
        let pl = mem0.alloc("lse", Init::Uninit(4 * heads * len));
        let map = |base: u64, rows: u32| {
            let dims = [d as u64, len as u64, heads as u64];
            let strides = [2 * d as u64, (2 * d * len) as u64];
            map_arg(TensorMap::new(base, MapElement::Bf16, &dims, &strides, &[64, rows, 1]).swizzled(MapSwizzle::B128))
        };
        let nm = len.div_ceil(128) as u32;
        let scale = std::f32::consts::LOG2_E / (d as f32).sqrt();
        let args = [
            map(pq, 128),
            map(pk, 128),
            map(pv, 128),
            map(po, 64),
            Arg::U64(pl),
            Arg::U32(len as u32),
            Arg::U32(nm),
            Arg::U32(heads as u32),
            Arg::F32(scale),
        ];
        for config in configs() {
            let what = format!("{:?} {:?}", config.policy, config.landing);
            let mut mem = mem0.clone();
            let start = Instant::now();
            let r = go(&m, &Go { entry: "attn", grid, block: 384, shared: 196_688, config }, &args, &mut mem);
            let r = r.unwrap_or_else(|e| panic!("attention {len} {what}: {e}"));
            println!("attention {len} {what}: {} instructions, {:?}", r.instructions, start.elapsed());
            let o = u16s(mem.read(po, 2 * n).expect("every element is written"));
            let lse = f32s(mem.read(pl, 4 * heads * len).expect("every element is written"));
            for h in 0..heads {
                for i in 0..len {
                    let at = |x: &[u16], r: usize, c: usize| f64::from(from_bf16(x[(h * len + r) * d + c]));
                    let s: Vec<f64> =
                        (0..len).map(|j| (0..d).map(|c| at(&q, i, c) * at(&k, j, c)).sum::<f64>() / (d as f64).sqrt()).collect();
                    let top = s.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let p: Vec<f64> = s.iter().map(|x| (x - top).exp()).collect();
                    let sum: f64 = p.iter().sum();
                    assert!((f64::from(lse[h * len + i]) - (top + sum.ln())).abs() < 1e-4, "lse of row {i}");
                    for c in [0, 1, 63, 64, 127] {
                        let want = (0..len).map(|j| p[j] * at(&v, j, c)).sum::<f64>() / sum;
                        // P is rounded to bf16 (2^-9 relative per weight), the result too; |v| < 1.
                        let got = f64::from(from_bf16(o[(h * len + i) * d + c]));
                        assert!((got - want).abs() <= 2f64.powi(-8) + want.abs() / 256.0, "row {i} column {c}: {got} instead of {want}");
                    }
                }
            }
        }
    }
    let _ = bf16(0.0);
}
