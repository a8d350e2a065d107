//! Shared by the tests: running snippets, random numbers, optional check by a real assembler.
pub mod gemm;
pub mod hopper;
pub mod pipeline;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use tilelift_nvptx_sim::{Arg, ErrorKind, Init, Landing, Launch, Memory, Module, Policy, Report, SimConfig, SimError};

/// Parses, and when `TILELIFT_PTXAS` names a ptxas, has that accept the text too.
pub fn module(ptx: &str) -> Module {
    static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if let Ok(tool) = std::env::var("TILELIFT_PTXAS")
        && SEEN.lock().is_ok_and(|mut s| s.insert(ptx.to_string()))
    {
        static N: AtomicU32 = AtomicU32::new(0);
        let id = N.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tilelift-sim-{}-{id}.ptx", std::process::id()));
        std::fs::write(&path, ptx).expect("temporary file");
        let arch = ptx.split(".target ").nth(1).and_then(|s| s.split_whitespace().next()).unwrap_or("sm_80");
        let o = std::process::Command::new(tool).args(["-arch", arch, "-o", "/dev/null"]).arg(&path).output().expect("ptxas runs");
        assert!(o.status.success(), "{}\n{ptx}", String::from_utf8_lossy(&o.stderr));
        std::fs::remove_file(&path).expect("temporary file");
    }
    Module::parse(ptx).unwrap_or_else(|e| panic!("{e}\n"))
}

pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In [-1, 1), a multiple of 1/1024.
    pub fn unit(&mut self) -> f32 {
        ((self.next() >> 40) as i32 % 1024) as f32 / 1024.0 * if self.next() & 1 == 0 { 1.0 } else { -1.0 }
    }
}

/// Header, declarations and a body inside an entry `k`.
pub fn kernel(target: &str, params: &str, body: &str) -> String {
    let version = if target == "sm_80" { "7.5" } else { "8.0" };
    format!(
        ".version {version}\n.target {target}\n.address_size 64\n.extern .shared .align 16 .b8 smem[];\n\
         .visible .entry k({params}) {{\n\
         .reg .pred %p<16>;\n.reg .b16 %h<16>;\n.reg .b32 %r<64>;\n.reg .b64 %rd<32>;\n.reg .f32 %f<64>;\n.reg .f64 %fd<16>;\n\
         {body}\nret;\n}}\n"
    )
}

pub struct Run {
    pub grid: u32,
    pub block: u32,
    pub shared: u32,
    pub config: SimConfig,
}

impl Default for Run {
    fn default() -> Run {
        Run { grid: 1, block: 32, shared: 0, config: SimConfig::default() }
    }
}

pub fn launch(m: &Module, run: &Run, args: &[Arg], mem: &mut Memory) -> Result<Report, SimError> {
    let l =
        Launch { entry: "k", grid: [run.grid, 1, 1], block: [run.block, 1, 1], shared_bytes: run.shared, args, config: run.config.clone() };
    m.launch(&l, mem)
}

/// Runs `body` with a single output buffer parameter `out` of `bytes` bytes, address in `%rd1`.
pub fn run_out(target: &str, body: &str, run: &Run, bytes: usize) -> Result<(Vec<u8>, Report), SimError> {
    let text = kernel(target, ".param .u64 out", &format!("ld.param.u64 %rd1, [out];\n{body}"));
    let m = module(&text);
    let mut mem = Memory::new();
    let out = mem.alloc("out", Init::Uninit(bytes));
    let r = launch(&m, run, &[Arg::U64(out)], &mut mem)?;
    Ok((mem.read(out, bytes).expect("every output byte is written").to_vec(), r))
}

/// Every policy and landing worth trying.
pub fn schedules() -> Vec<SimConfig> {
    let mut v = Vec::new();
    for policy in [Policy::Lockstep, Policy::InOrder, Policy::Reverse, Policy::Random, Policy::Pct(3), Policy::Starve(1)] {
        for landing in [Landing::Eager, Landing::Lazy, Landing::Random] {
            v.push(SimConfig { policy, landing, seed: v.len() as u64, max_instructions: 2_000_000, ..SimConfig::default() });
        }
    }
    v
}

/// Asserts that the fault is found under every schedule, and that the report names `needle`.
pub fn must_fail(target: &str, body: &str, run: &Run, kind: ErrorKind, needle: &str) {
    for config in schedules() {
        let run = Run { config, ..*run };
        match run_out(target, body, &run, 4096) {
            Ok(_) => panic!("no fault under {:?} {:?}", run.config.policy, run.config.landing),
            Err(e) => {
                assert_eq!(e.kind, kind, "{e}");
                assert!(e.to_string().contains(needle), "`{needle}` is not in:\n{e}");
            }
        }
    }
}

/// Asserts that no schedule finds a fault; returns the output of the last.
pub fn must_pass(target: &str, body: &str, run: &Run, bytes: usize) -> Vec<u8> {
    let mut last: Option<Vec<u8>> = None;
    for config in schedules() {
        let run = Run { config, ..*run };
        match run_out(target, body, &run, bytes) {
            Ok((o, _)) => {
                if let Some(l) = &last {
                    assert_eq!(l, &o, "the result depends on the schedule");
                }
                last = Some(o);
            }
            Err(e) => panic!("{e}\nunder {:?} {:?}", run.config.policy, run.config.landing),
        }
    }
    last.expect("there are schedules")
}

pub fn u32s(b: &[u8]) -> Vec<u32> {
    b.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().expect("4 bytes"))).collect()
}

pub fn f32s(b: &[u8]) -> Vec<f32> {
    u32s(b).into_iter().map(f32::from_bits).collect()
}
