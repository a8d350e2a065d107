//! Faults planted into the machine code of foreign kernels: each wait, each `s_nop` and each barrier is taken out in turn.
//!
//! What remains without a finding is listed: a wait may be redundant where another one covers it, and waits behind which the program reads nothing
//! are. For barriers and for `s_nop`s that stand alone every one must be found.

use crate::common::{Buf, Random, assemble, launch_kernel};
use std::path::Path;
use tilelift_amdgcn_sim::{Chip, FaultKind, SimConfig};
use tilelift_oracle::TritonFiles;

/// A kernel's object, its name, waves and LDS.
struct Compiled {
    name: String,
    entry: String,
    waves: u32,
    shared: u32,
    object: Vec<u8>,
}

fn compile(names: &[&str]) -> Vec<Compiled> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/triton_kernels.py");
    let Some(files) = TritonFiles::of(&script, "gfx942") else { return Vec::new() };
    let mut all = Vec::new();
    for words in files.kernels.iter().filter(|words| names.contains(&words[0].as_str())) {
        let text = files.read(&format!("{}.s", words[0]));
        let Some(object) = assemble(&String::from_utf8_lossy(&text), Chip::Gfx942) else { return Vec::new() };
        let number = |i: usize| words[i].parse().expect("a number");
        all.push(Compiled { name: words[0].clone(), entry: words[1].clone(), waves: number(2), shared: number(3), object });
    }
    all
}

impl Compiled {
    /// Runs on fixed inputs under two orders: the outputs, or the first fault.
    fn run(&self, object: &[u8]) -> Result<Vec<u8>, FaultKind> {
        let mut random = Random(77);
        let mut halves = |n: usize| Buf::In((0..n).flat_map(|_| ((random.next() as u16) & 0x83ff | 0x3800).to_le_bytes()).collect());
        let gemm = self.name.starts_with("gemm");
        let mut last = Vec::new();
        for seed in 0..2 {
            // A product of 64 x 64 x 96 or the like; rows of 400 numbers otherwise.
            let (buffers, scalars): (Vec<Buf>, Vec<i32>) = if gemm {
                (vec![halves(128 * 192), halves(192 * 128), Buf::Out(4 * 128 * 128)], vec![128, 128, 192])
            } else {
                (vec![halves(2 * 800), Buf::Out(4 * 800)], vec![400])
            };
            let mut more: Vec<u8> = scalars.iter().flat_map(|s| s.to_le_bytes()).collect();
            more.resize(more.len().next_multiple_of(8) + 16, 0);
            let config = SimConfig { seed, max_steps: 3_000_000, ..SimConfig::default() };
            let shape = ([if gemm { 1 } else { 2 }, 1, 1], 64 * self.waves, self.shared);
            let (mut out, _) = launch_kernel(object, &self.entry, shape, buffers, &more, config).map_err(|f| f.kind)?;
            last = out.pop().expect("an output");
        }
        Ok(last)
    }
}

/// The instructions that are taken out, by their dwords.
fn kind(word: u32) -> Option<&'static str> {
    match word {
        0xbf8a_0000 => Some("s_barrier"),
        _ if word >> 16 == 0xbf8c => Some("s_waitcnt"),
        // Not those of the padding behind the code.
        _ if word >> 16 == 0xbf80 && word & 15 != 0 => Some("s_nop"),
        _ => None,
    }
}

#[test]
fn every_one_is_found_or_not_needed() {
    for k in compile(&["softmax", "cumsum", "gemm_f16", "gemm_f16_large", "gemm_i8"]) {
        let good = k.run(&k.object).unwrap_or_else(|f| panic!("{}: {f}", k.name));
        let (mut found, mut missed) = (0, Vec::new());
        for at in (0..k.object.len() - 3).step_by(4) {
            let word = u32::from_le_bytes(k.object[at..at + 4].try_into().expect("four bytes"));
            let Some(what) = kind(word) else { continue };
            let mut bytes = k.object.clone();
            bytes[at..at + 4].copy_from_slice(&0xbf80_0000u32.to_le_bytes());
            match k.run(&bytes) {
                Err(_) => found += 1,
                // Without effect on anything: it was not executed, or was not needed.
                Ok(out) => {
                    assert_eq!(out, good, "{}: wrong numbers without a finding, {what} at {at:#x}", k.name);
                    missed.push((what, at));
                }
            }
        }
        eprintln!("{}: {found} found, not needed: {missed:x?}", k.name);
        assert!(found > 0);
    }
}
