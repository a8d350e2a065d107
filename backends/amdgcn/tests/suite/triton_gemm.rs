//! Main loops of products beside those that Triton compiles, counted in one simulator: what a step of depth 64 costs a wavefront.
//!
//! `cargo test -p tilelift-amdgcn triton_gemm:: -- --nocapture` prints the table of docs/amdgcn.md.
//!
//! A launch over twice the depth executes the loop's steps and nothing else besides: differences of counts are those of steps.

use std::path::PathBuf;
use std::process::Command;
use tilelift_amdgcn::{Chip, emit, machine};
use tilelift_amdgcn_sim::{ArgumentKind, Init, Launch, Memory, Module, Report, SimConfig};
use tilelift_ir::Scalar;
use tilelift_isel::{LowerOptions, lower};
use tilelift_kernels::Gemm;
use tilelift_lane::ParamSource;

const CHIP: Chip = Chip::Gfx942;
/// Depth of a step, and depths of two launches.
const STEP: u32 = 64;
const DEPTHS: [u32; 2] = [256, 512];
/// Vector registers of a lane that the wavefronts of a SIMD share, and SIMDs of a unit.
const REGISTERS: u32 = 512;
const SIMDS: u32 = 4;
/// Cycles of a pass of a matrix instruction.
const PASS: u64 = 4;

/// A compiled product of one tile.
struct Product {
    name: String,
    object: Vec<u8>,
    entry: String,
    size: u32,
    waves: u32,
    dynamic_lds: u32,
    /// Arguments behind the pointers to A, B and C, for a depth, in the order of the metadata.
    args: Box<dyn Fn([u64; 3], u32) -> Vec<u64>>,
}

/// What a step costs a wavefront, and what the kernel takes.
struct Row {
    matrix: u64,
    /// Those of them of wavefronts whose priority is raised.
    raised: u64,
    cycles_of_matrix: u64,
    others: u64,
    vector: u64,
    lds: u64,
    conflicts: u64,
    estimate: u64,
    scratch: u32,
    lds_bytes: u32,
    registers: u32,
    occupancy: u32,
}

impl Product {
    /// Runs over a depth with all ones, and sees that the product is right.
    fn run(&self, module: &Module, depth: u32) -> Report {
        let mut memory = Memory::new();
        let ones = |n: u32| Init::Bytes((0..n).flat_map(|_| 0x3c00u16.to_le_bytes()).collect());
        let a = memory.alloc("a", ones(self.size * depth));
        let b = memory.alloc("b", ones(self.size * depth));
        let bytes = 2 * (self.size * self.size) as usize;
        let c = memory.alloc("c", Init::Uninit(bytes));
        let kernel = module.kernel(&self.entry).expect("the kernel");
        let declared = kernel.arguments.iter().filter(|a| matches!(a.kind, ArgumentKind::Buffer | ArgumentKind::Value));
        let mut args = Vec::new();
        for (argument, value) in declared.zip((self.args)([a, b, c], depth)) {
            args.resize(args.len().max((argument.offset + argument.size) as usize), 0);
            args[argument.offset as usize..][..argument.size as usize].copy_from_slice(&value.to_le_bytes()[..argument.size as usize]);
        }
        args.resize((kernel.descriptor.kernarg_bytes as usize).max(args.len()), 0);
        let block = [64 * self.waves, 1, 1];
        let dynamic_lds = self.dynamic_lds;
        let launch = Launch { kernel: &self.entry, grid: [1, 1, 1], block, dynamic_lds, args: &args, config: SimConfig::default() };
        let report = module.launch(&launch, &mut memory).unwrap_or_else(|f| panic!("{}: {f}", self.name));
        let out = memory.read(c, bytes).expect("the output");
        // 256 and 512 as f16.
        let want = if depth == DEPTHS[0] { 0x5c00u16 } else { 0x6000 };
        assert!(out.chunks(2).all(|x| x == want.to_le_bytes()), "{}: the product is wrong", self.name);
        report
    }

    fn row(&self) -> Row {
        let module = Module::load(&self.object).expect("a code object");
        let d = module.kernel(&self.entry).expect("the kernel").descriptor.clone();
        let [short, long] = DEPTHS.map(|depth| self.run(&module, depth));
        let steps = u64::from((DEPTHS[1] - DEPTHS[0]) / STEP);
        let each = |of: fn(&Report) -> u64| (of(&long) - of(&short)) / steps / u64::from(self.waves);
        let lds_bytes = d.lds_bytes + self.dynamic_lds;
        let by_registers = REGISTERS / d.registers.next_multiple_of(8).max(1);
        let groups = (by_registers * SIMDS / self.waves).min(CHIP_LDS / lds_bytes.max(1));
        Row {
            matrix: each(|r| r.matrix),
            raised: each(|r| r.matrix_raised),
            cycles_of_matrix: PASS * each(|r| r.matrix_passes),
            others: each(|r| r.instructions - r.matrix),
            vector: each(|r| r.vector),
            lds: each(|r| r.lds),
            conflicts: each(|r| r.lds_conflict_cycles),
            estimate: (long.longest_wave - short.longest_wave) / steps,
            scratch: d.scratch_bytes,
            lds_bytes,
            registers: d.registers,
            occupancy: groups * self.waves / SIMDS,
        }
    }
}

/// Bytes of local data share of a unit.
const CHIP_LDS: u32 = 64 << 10;

/// Ours: a tile, for shapes of any extents whose rows begin where vectors may.
fn ours(size: u32, waves: u32) -> Product {
    let gemm = Gemm::new(Scalar::F16).output(Scalar::F16).tile(size, size, STEP).schedule(waves, 2).for_shape(1024, 1024, 1024);
    let kernel = gemm.build().expect("a kernel");
    let verified = tilelift_ir::verify::verify(&kernel).expect("a kernel");
    let lowered = lower(&verified, &machine::target(CHIP), &LowerOptions::default()).unwrap_or_else(|e| panic!("{size}: {e}"));
    let made = emit(&lowered.program, CHIP).unwrap_or_else(|e| panic!("{size}: {e}"));
    let params = made.params.clone();
    let args = move |pointers: [u64; 3], depth: u32| {
        let extents = [[size, depth], [depth, size], [size, size]];
        let value = |source: &ParamSource| match *source {
            ParamSource::Pointer(n) => pointers[n as usize],
            ParamSource::Extent(n, d) => u64::from(extents[n as usize][d as usize]),
            ParamSource::Stride(n, 0) => u64::from(extents[n as usize][1]),
            ParamSource::Grid(_) | ParamSource::Stride(..) => 1,
            ref other => panic!("no such argument: {other:?}"),
        };
        params.iter().map(|p| value(&p.source)).collect()
    };
    let name = format!("{size}x{size}x{STEP}");
    Product { name, object: made.object, entry: made.entry, size, waves, dynamic_lds: 0, args: Box::new(args) }
}

/// Triton's, each with bounds checked as ours, and without.
fn theirs() -> Option<Vec<Product>> {
    let Some(python) = tilelift_oracle::triton() else {
        assert!(!tilelift_oracle::required(), "TILELIFT_REQUIRE_ORACLES is set, and there is no Triton (set TILELIFT_TRITON_PYTHON)");
        return None;
    };
    let folder = std::env::temp_dir().join(format!("tilelift-triton-gemm-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/triton_gemm.py");
    let run = Command::new(python).arg(script).arg(&folder).arg(CHIP.name()).env("TRITON_CACHE_DIR", folder.join("cache")).output();
    let run = run.expect("Python runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let product = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| words[i].parse::<u32>().expect("a number");
        let (size, guard) = words[0].split_once('_').expect("a size and whether it is guarded");
        let size: u32 = size.parse().expect("a size");
        Product {
            name: format!("{size}x{size}x{STEP}, Triton, {guard}"),
            object: std::fs::read(folder.join(format!("{}.hsaco", words[0]))).expect("an object"),
            entry: words[1].to_owned(),
            size,
            waves: number(2),
            dynamic_lds: number(3),
            // Behind the arguments come addresses of scratch memory that these kernels do not use.
            args: Box::new(move |[a, b, c], depth| vec![a, b, c, u64::from(size), u64::from(size), u64::from(depth), 0, 0]),
        }
    };
    let all = String::from_utf8_lossy(&run.stdout).lines().map(product).collect();
    let _ = std::fs::remove_dir_all(&folder);
    Some(all)
}

fn line(name: &str, r: &Row) -> String {
    let share = r.others as f64 / r.cycles_of_matrix as f64;
    format!(
        "| {name} | {} | {} | {} | {share:.3} | {} | {} | {} | {} | {} | {} | {} | {} |",
        r.matrix, r.cycles_of_matrix, r.others, r.vector, r.lds, r.conflicts, r.scratch, r.lds_bytes, r.registers, r.occupancy, r.estimate
    )
}

/// `cargo test -p tilelift-amdgcn triton_gemm:: -- --nocapture`
#[test]
fn main_loops_beside_those_of_triton() {
    let Some(theirs) = theirs() else { return };
    println!(
        "| tile, of f16 | matrix instructions | their cycles | others | others per cycle | vector | LDS | conflicts | scratch | LDS bytes | registers | waves per SIMD | estimate |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    for (size, waves) in [(128, 4), (256, 8)] {
        let own = ours(size, waves);
        let row = own.row();
        println!("{}", line(&own.name, &row));
        let beside: Vec<&Product> = theirs.iter().filter(|t| t.size == size).collect();
        for their in beside {
            let other = their.row();
            println!("{}", line(&their.name, &other));
            assert_eq!(row.cycles_of_matrix, other.cycles_of_matrix, "{}", their.name);
            assert!(row.occupancy >= other.occupancy, "{}", their.name);
            assert!(row.others <= other.others || their.name.ends_with("unguarded"), "{}", their.name);
        }
        assert_eq!(row.conflicts, 0, "{}", own.name);
        println!("{}: {} of {} products are raised", own.name, row.raised, row.matrix);
        assert!(row.raised > row.matrix / 2 && row.raised < row.matrix, "{}", own.name);
    }
}
