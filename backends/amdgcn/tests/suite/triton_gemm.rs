//! Main loops of products beside those that Triton compiles, counted in one simulator: what a step of depth 64 costs a wavefront.
//!
//! `cargo test -p tilelift-amdgcn triton_gemm:: -- --nocapture` prints the table of docs/amdgcn.md.
//!
//! A launch over twice the depth executes the loop's steps and nothing else besides: differences of counts are those of steps.

use crate::common::loops::{HEAD, Product, Row, STEP, arguments};
use std::path::Path;
use tilelift_amdgcn::{Chip, emit, machine};
use tilelift_ir::{Extent, Scalar};
use tilelift_isel::{LowerOptions, lower};
use tilelift_kernels::Gemm;
use tilelift_oracle::TritonFiles;

const CHIP: Chip = Chip::Gfx942;
/// Bytes of local data share of a unit.
const CHIP_LDS: u32 = 64 << 10;

/// SIMDs of a unit.
const SIMDS: u32 = 4;

/// What is known of the extents.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Rows begin where vectors may.
    Rows,
    /// They are multiples of the tile's.
    Tiles,
}

/// Ours: a tile, for shapes of any extents of which that is known.
fn ours(size: u32, waves: u32, known: Known) -> Product {
    let mut gemm = Gemm::new(Scalar::F16).output(Scalar::F16).tile(size, size, STEP).schedule(waves, 2).for_shape(1024, 1024, 1024);
    if known == Known::Tiles {
        [gemm.m, gemm.n, gemm.k] = [size, size, STEP].map(Extent::Dynamic);
    }
    let kernel = gemm.build().expect("a kernel");
    let verified = tilelift_ir::verify::verify(&kernel).expect("a kernel");
    let lowered = lower(&verified, &machine::target(CHIP), &LowerOptions::default()).unwrap_or_else(|e| panic!("{size}: {e}"));
    let made = emit(&lowered.program, CHIP).unwrap_or_else(|e| panic!("{size}: {e}"));
    let params = made.params.clone();
    let args = move |pointers: [u64; 3], depth: u32| {
        let extents = [[size, depth], [depth, size], [size, size]];
        arguments(&params, &pointers, &extents)
    };
    let name = format!("{size}x{size}x{STEP}{}", if known == Known::Tiles { ", whole tiles" } else { "" });
    Product { name, object: made.object, entry: made.entry, size, waves, dynamic_lds: 0, unit_lds: CHIP_LDS, args: Box::new(args) }
}

/// Triton's, each with bounds checked as ours, and without.
fn theirs() -> Option<Vec<Product>> {
    let files = TritonFiles::of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/triton_gemm.py"), CHIP.name())?;
    let product = |words: &Vec<String>| {
        let number = |i: usize| words[i].parse::<u32>().expect("a number");
        let (size, guard) = words[0].split_once('_').expect("a size and whether it is guarded");
        let size: u32 = size.parse().expect("a size");
        Product {
            name: format!("{size}x{size}x{STEP}, Triton, {guard}"),
            object: files.read(&format!("{}.hsaco", words[0])),
            entry: words[1].to_owned(),
            size,
            waves: number(2),
            dynamic_lds: number(3),
            unit_lds: CHIP_LDS,
            // Behind the arguments come addresses of scratch memory that these kernels do not use.
            args: Box::new(move |[a, b, c], depth| vec![a, b, c, u64::from(size), u64::from(size), u64::from(depth), 0, 0]),
        }
    };
    Some(files.kernels.iter().map(product).collect())
}

/// `cargo test -p tilelift-amdgcn triton_gemm:: -- --nocapture`
#[test]
fn main_loops_beside_those_of_triton() {
    let Some(theirs) = theirs() else { return };
    HEAD.iter().for_each(|line| println!("{line}"));
    for (size, waves) in [(128, 4), (256, 8)] {
        let beside: Vec<(&Product, Row)> = theirs.iter().filter(|t| t.size == size).map(|t| (t, t.row())).collect();
        for known in [Known::Rows, Known::Tiles] {
            let own = ours(size, waves, known);
            let row = own.row();
            println!("{}", row.line(&own.name));
            // What checks bounds beside what checks them, and what knows that tiles are whole beside what takes them to be.
            let guard = if known == Known::Tiles { "unguarded" } else { ", guarded" };
            let Some((their, other)) = beside.iter().find(|(t, _)| t.name.ends_with(guard)) else { panic!("{guard} is missing") };
            assert!(row.cycles_of_matrix <= other.cycles_of_matrix, "{}", their.name);
            assert!(row.others <= other.others, "{}: {} of {}", their.name, row.others, other.others);
            assert!(row.occupancy >= other.occupancy, "{}", their.name);
            // Where two wavefronts share a SIMD, both ping-pong, which the estimate of one wavefront counts as waiting: what counts is how busy the SIMD is.
            let alone = waves == SIMDS;
            assert!(!alone || 100 * row.estimate <= 95 * other.estimate, "{}: {} of {}", their.name, row.estimate, other.estimate);
            assert!(!alone || 100 * row.shared <= 95 * other.shared, "{}: {} of {}", their.name, row.shared, other.shared);
            let busy = u64::from(waves / SIMDS) * row.cycles_of_matrix;
            assert!(
                alone || row.shared <= other.shared && 100 * row.shared <= 101 * busy,
                "{}: {} of {}",
                their.name,
                row.shared,
                other.shared
            );
            assert_eq!((row.conflicts, row.scratch), (0, 0), "{}", own.name);
            println!("{}: {} of {} products are raised", own.name, row.raised, row.matrix);
            assert!(row.raised > row.matrix / 2 && row.raised < row.matrix, "{}", own.name);
        }
        beside.iter().for_each(|(their, row)| println!("{}", row.line(&their.name)));
    }
}
