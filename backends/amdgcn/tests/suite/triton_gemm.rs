//! Main loops of products beside those that Triton compiles, counted in one simulator: what a step of depth 64 costs a wavefront.
//!
//! `cargo test -p tilelift-amdgcn triton_gemm:: -- --nocapture` prints the table of docs/amdgcn.md.
//!
//! A launch over twice the depth executes the loop's steps and nothing else besides: differences of counts are those of steps.

use crate::common::loops::{HEAD, Product, STEP, arguments};
use std::path::PathBuf;
use std::process::Command;
use tilelift_amdgcn::{Chip, emit, machine};
use tilelift_ir::Scalar;
use tilelift_isel::{LowerOptions, lower};
use tilelift_kernels::Gemm;

const CHIP: Chip = Chip::Gfx942;
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
        arguments(&params, &pointers, &extents)
    };
    let name = format!("{size}x{size}x{STEP}");
    Product { name, object: made.object, entry: made.entry, size, waves, dynamic_lds: 0, unit_lds: CHIP_LDS, args: Box::new(args) }
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
            unit_lds: CHIP_LDS,
            // Behind the arguments come addresses of scratch memory that these kernels do not use.
            args: Box::new(move |[a, b, c], depth| vec![a, b, c, u64::from(size), u64::from(size), u64::from(depth), 0, 0]),
        }
    };
    let all = String::from_utf8_lossy(&run.stdout).lines().map(product).collect();
    let _ = std::fs::remove_dir_all(&folder);
    Some(all)
}

/// `cargo test -p tilelift-amdgcn triton_gemm:: -- --nocapture`
#[test]
fn main_loops_beside_those_of_triton() {
    let Some(theirs) = theirs() else { return };
    HEAD.iter().for_each(|line| println!("{line}"));
    for (size, waves) in [(128, 4), (256, 8)] {
        let own = ours(size, waves);
        let row = own.row();
        println!("{}", row.line(&own.name));
        let beside: Vec<&Product> = theirs.iter().filter(|t| t.size == size).collect();
        for their in beside {
            let other = their.row();
            println!("{}", other.line(&their.name));
            assert_eq!(row.cycles_of_matrix, other.cycles_of_matrix, "{}", their.name);
            assert!(row.occupancy >= other.occupancy, "{}", their.name);
            assert!(row.others <= other.others || their.name.ends_with("unguarded"), "{}", their.name);
        }
        assert_eq!(row.conflicts, 0, "{}", own.name);
        println!("{}: {} of {} products are raised", own.name, row.raised, row.matrix);
        assert!(row.raised > row.matrix / 2 && row.raised < row.matrix, "{}", own.name);
    }
}
