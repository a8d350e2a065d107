//! Whatever the bytes are, loading and running them ends with an answer or an error.

use crate::common::{Needs, Random, assemble, kernel};
use tilelift_amdgcn_sim::{Chip, Init, Launch, Memory, Module, SimConfig};

fn run(module: &Module, seed: u64) {
    let mut memory = Memory::new();
    let at = memory.alloc("b", Init::Bytes(vec![0; 4096]));
    let args: Vec<u8> = (0..8).flat_map(|_| at.to_le_bytes()).collect();
    for k in module.kernels() {
        let config = SimConfig { seed, max_steps: 3000, ..SimConfig::default() };
        let launch = Launch { kernel: &k.name, grid: [2, 1, 1], block: [128, 1, 1], dynamic_lds: 64, args: &args, config };
        if let Err(f) = module.launch(&launch, &mut memory) {
            assert!(!f.to_string().is_empty());
        }
    }
}

#[test]
fn damaged_objects() {
    let Some(object) = assemble(include_str!("../data/vadd.s"), Chip::Gfx942) else { return };
    let (rounds, seed) = rounds(1500);
    let mut random = Random(0x1357_9bdf_2468_ace1 ^ seed);
    for round in 0..rounds {
        let mut bytes = object.clone();
        for _ in 0..1 + random.next() % 6 {
            let at = random.next() as usize % bytes.len();
            // Headers and tables are small beside the padding.
            let at = if random.next().is_multiple_of(2) { at % 1024 } else { at };
            bytes[at] = match random.next() % 4 {
                0 => 0xff,
                1 => 0,
                2 => bytes[at] ^ 1 << (random.next() % 8),
                _ => random.next() as u8,
            };
        }
        if round % 7 == 0 {
            bytes.truncate(random.next() as usize % bytes.len());
        }
        if let Ok(m) = Module::load(&bytes) {
            run(&m, round);
        }
    }
}

/// Rounds: `TILELIFT_FUZZ_ROUNDS` times as many as usual, with other seeds.
fn rounds(usual: u64) -> (u64, u64) {
    let factor = std::env::var("TILELIFT_FUZZ_ROUNDS").ok().and_then(|v| v.parse().ok()).unwrap_or(1u64);
    (usual * factor.max(1), factor.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// First dwords of the encodings, with the bits that choose them; the rest is random.
const ENCODINGS: [(u32, u32); 16] = [
    (2 << 30, 30),
    (0xb << 28, 28),
    (0x17d << 23, 23),
    (0x17e << 23, 23),
    (0x17f << 23, 23),
    (0x30 << 26, 26),
    (0x3f << 25, 25),
    (0x3e << 25, 25),
    (0, 31),
    (0x34 << 26, 26),
    (0x1a7 << 23, 23),
    (0x36 << 26, 26),
    (0x37 << 26, 26),
    (0x38 << 26, 26),
    (0x1a7 << 23 | 1 << 22, 22),
    (0x34 << 26 | 1 << 24, 24),
];

fn random_code(chip: Chip) {
    let mut body = String::from("s_load_dwordx2 s[4:5], s[0:1], 0x0\nv_and_b32 v0, 0x3ff, v0\ns_waitcnt lgkmcnt(0)\n");
    (6..96).for_each(|i| body += &format!("s_mov_b32 s{i}, {}\n", if i % 4 == 2 { "0x1000".into() } else { format!("s{}", 4 + i % 2) }));
    body += "s_mov_b64 vcc, 5\ns_mov_b32 m0, 64\n";
    (1..128).for_each(|i| body += &format!("v_lshlrev_b32 v{i}, {}, v0\n", i % 4));
    (0..128).for_each(|i| body += &format!("v_accvgpr_write_b32 a{i}, v{i}\n"));
    body += "s_nop 15\ns_nop 15\n";
    (0..64).for_each(|_| body += "s_nop 0x7777\n");
    let needs = Needs { chip, lds: 1024, scratch: 64, vgprs: 256, accum: 128, ..Needs::default() };
    let text = kernel(&body.replace("s_nop 0x7777", ".long 0xbf807777"), needs);
    // LLVM 19 does not know gfx950: its number is put into the flags of the header.
    let known = if chip == Chip::Gfx950 { Chip::Gfx942 } else { chip };
    let Some(mut object) = assemble(&text.replace(chip.name(), known.name()), known) else { return };
    if chip != known {
        object[48] = 0x4f;
    }
    let marker: Vec<u8> = 0xbf80_7777u32.to_le_bytes().repeat(4);
    let at = object.windows(marker.len()).position(|w| w == marker).expect("the marked code");
    let (rounds, seed) = rounds(1200);
    let mut random = Random(0xfedc_ba98_7654_3211 ^ seed);
    for round in 0..rounds {
        let mut bytes = object.clone();
        for i in 0..24 {
            let (base, free) = ENCODINGS[random.next() as usize % ENCODINGS.len()];
            let low = (random.next() >> 16) as u32;
            // Small register numbers are right more often.
            let low = if random.next().is_multiple_of(2) { low & 0x7f3f_3f3f } else { low };
            let word = if i % 2 == 1 && !random.next().is_multiple_of(3) { low } else { base | low & ((1u64 << free) - 1) as u32 };
            bytes[at + 4 * i..at + 4 * i + 4].copy_from_slice(&word.to_le_bytes());
        }
        run(&Module::load(&bytes).expect("the object around the code is whole"), round);
    }
}

#[test]
fn random_code_for_gfx942() {
    random_code(Chip::Gfx942);
}

#[test]
fn random_code_for_gfx90a() {
    random_code(Chip::Gfx90a);
}

#[test]
fn random_code_for_gfx950() {
    random_code(Chip::Gfx950);
}
