//! Assembles and links texts with LLVM's tools, and launches what comes out.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use tilelift_amdgcn_sim::{Chip, Fault, Init, Launch, Memory, Module, Report, SimConfig};

fn tool(variable: &str, default: &str) -> PathBuf {
    std::env::var_os(variable).map_or_else(|| PathBuf::from(default), PathBuf::from)
}

/// True if a missing tool is a failure.
pub fn required() -> bool {
    tilelift_oracle::required()
}

/// Assembles and links; `None` without the tools.
///
/// # Panics
/// If the text is refused, or tools are missing and required.
pub fn assemble(text: &str, chip: Chip) -> Option<Vec<u8>> {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let stem = format!("tilelift-sim-{}-{}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed));
    let path = |ext: &str| std::env::temp_dir().join(format!("{stem}.{ext}"));
    let (source, object, linked) = (path("s"), path("o"), path("hsaco"));
    std::fs::write(&source, text).expect("a temporary file");
    let mc = Command::new(tool("TILELIFT_LLVM_MC", "llvm-mc-19"))
        .args(["-triple=amdgcn-amd-amdhsa", &format!("-mcpu={chip}"), "-filetype=obj", "-o"])
        .args([&object, &source])
        .output();
    let Ok(mc) = mc else {
        assert!(!required(), "TILELIFT_REQUIRE_ORACLES is set, and there is no llvm-mc-19 (set TILELIFT_LLVM_MC)");
        eprintln!("llvm-mc-19 not found: nothing is tested");
        return None;
    };
    assert!(mc.status.success(), "{}\n{text}", String::from_utf8_lossy(&mc.stderr));
    let ld = Command::new(tool("TILELIFT_LLD", "ld.lld-19")).args(["-shared", "-o"]).args([&linked, &object]).output();
    let Ok(ld) = ld else {
        assert!(!required(), "TILELIFT_REQUIRE_ORACLES is set, and there is no ld.lld-19 (set TILELIFT_LLD)");
        eprintln!("ld.lld-19 not found: nothing is tested");
        return None;
    };
    assert!(ld.status.success(), "{}", String::from_utf8_lossy(&ld.stderr));
    let bytes = std::fs::read(&linked).expect("the linked object");
    for p in [source, object, linked] {
        let _ = std::fs::remove_file(p);
    }
    Some(bytes)
}

/// What a kernel of a test needs.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    pub chip: Chip,
    pub lds: u32,
    pub scratch: u32,
    pub vgprs: u32,
    /// The first AGPR.
    pub accum: u32,
    pub args: u32,
}

impl Default for Needs {
    fn default() -> Needs {
        Needs { chip: Chip::Gfx942, lds: 0, scratch: 0, vgprs: 64, accum: 64, args: 64 }
    }
}

/// The text of a kernel `k` with this body: arguments in `s[0:1]`, the workgroup in `s2`, `s3`, `s4`, the item in `v0`. With scratch memory on
/// gfx90a, the address of all waves' scratch memory is in `s[2:3]`, the workgroup in `s4`, `s5`, `s6`, and the wave's bytes in `s7`.
pub fn kernel(body: &str, n: Needs) -> String {
    let Needs { chip, lds, scratch, vgprs, accum, args } = n;
    let (user, uses_scratch) = match (chip, scratch) {
        (_, 0) => (2, String::new()),
        (Chip::Gfx90a, _) => {
            (4, "\t\t.amdhsa_user_sgpr_flat_scratch_init 1\n\t\t.amdhsa_system_sgpr_private_segment_wavefront_offset 1\n".to_owned())
        }
        _ => (2, "\t\t.amdhsa_enable_private_segment 1\n".to_owned()),
    };
    format!(
        "\t.amdgcn_target \"amdgcn-amd-amdhsa--{chip}\"\n\t.amdhsa_code_object_version 5\n\t.text\n\t.globl k\n\t.p2align 8\n\t.type k,@function\nk:\n{body}\n\
         \ts_endpgm\n\t.section .rodata,\"a\",@progbits\n\t.p2align 6\n\t.amdhsa_kernel k\n\
         \t\t.amdhsa_group_segment_fixed_size {lds}\n\t\t.amdhsa_private_segment_fixed_size {scratch}\n\t\t.amdhsa_kernarg_size {args}\n\
         {uses_scratch}\t\t.amdhsa_user_sgpr_count {user}\n\t\t.amdhsa_user_sgpr_kernarg_segment_ptr 1\n\t\t.amdhsa_system_sgpr_workgroup_id_y 1\n\
         \t\t.amdhsa_system_sgpr_workgroup_id_z 1\n\t\t.amdhsa_next_free_vgpr {vgprs}\n\t\t.amdhsa_next_free_sgpr 96\n\
         \t\t.amdhsa_accum_offset {accum}\n\t\t.amdhsa_float_denorm_mode_32 3\n\t\t.amdhsa_float_denorm_mode_16_64 3\n\t.end_amdhsa_kernel\n"
    )
}

/// A buffer of a test.
pub enum Buf {
    In(Vec<u8>),
    Out(usize),
}

/// Launches `k` with pointers to the buffers as its arguments; the buffers' bytes afterwards, or the fault.
pub fn launch(bytes: &[u8], grid: u32, block: u32, buffers: Vec<Buf>, config: SimConfig) -> Result<(Vec<Vec<u8>>, Report), Box<Fault>> {
    launch_kernel(bytes, "k", ([grid, 1, 1], block, 0), buffers, &[], config)
}

/// As [`launch`], with a name, bytes after the pointers, and the shape: grid, items of a workgroup, LDS beside the kernel's own.
pub fn launch_kernel(
    bytes: &[u8],
    name: &str,
    (grid, block, dynamic_lds): ([u32; 3], u32, u32),
    buffers: Vec<Buf>,
    more: &[u8],
    config: SimConfig,
) -> Result<(Vec<Vec<u8>>, Report), Box<Fault>> {
    let module = Module::load(bytes).expect("a code object");
    let mut memory = Memory::new();
    let mut args = Vec::new();
    let mut places = Vec::new();
    for (i, b) in buffers.into_iter().enumerate() {
        let init = match b {
            Buf::In(b) => Init::Bytes(b),
            Buf::Out(n) => Init::Uninit(n),
        };
        let len = match &init {
            Init::Bytes(b) => b.len(),
            Init::Uninit(n) => *n,
        };
        let at = memory.alloc(&format!("b{i}"), init);
        args.extend(at.to_le_bytes());
        places.push((at, len));
    }
    args.extend(more);
    let launch = Launch { kernel: name, grid, block: [block, 1, 1], dynamic_lds, args: &args, config };
    let report = module.launch(&launch, &mut memory)?;
    let out = places.iter().map(|&(at, len)| memory.read_unchecked(at, len).expect("a buffer").to_vec()).collect();
    Ok((out, report))
}

pub fn bytes<T: Copy, const N: usize>(v: &[T], f: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    v.iter().flat_map(|&x| f(x)).collect()
}

pub fn f32s(b: &[u8]) -> Vec<f32> {
    b.chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().expect("four bytes"))).collect()
}

pub fn u32s(b: &[u8]) -> Vec<u32> {
    b.chunks_exact(4).map(|c| u32::from_le_bytes(c.try_into().expect("four bytes"))).collect()
}

/// Seeded numbers.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Between -1 and 1.
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}
