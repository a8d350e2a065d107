//! Main loops of attention beside those that Triton compiles, counted in one simulator: what a step of 64 keys costs a wavefront.
//!
//! `cargo test -p tilelift-amdgcn triton_attention:: -- --nocapture` prints the table of docs/amdgcn.md.
//!
//! A launch over twice the keys executes the loop's steps and nothing else besides: differences of counts are those of steps.

use crate::common::loops::{HEAD, Resources, Row, arguments, segment};
use std::path::Path;
use tilelift_amdgcn::{Chip, emit, machine};
use tilelift_amdgcn_sim::{Init, Launch, Memory, Module, Report, SimConfig};
use tilelift_ir::{Extent, Scalar, num};
use tilelift_isel::{LowerOptions, lower};
use tilelift_kernels::Attention;
use tilelift_lane::ParamSource;
use tilelift_oracle::TritonFiles;

/// Queries of a workgroup, keys of a step, wavefronts.
const QUERIES: u32 = 128;
const KEYS: u32 = 64;
const WAVES: u32 = 4;
/// Keys of two launches.
const LONG: [u32; 2] = [128, 256];
/// What scores are multiplied with.
const SCALE: f32 = 0.25;

/// Attention of one workgroup.
struct Compiled {
    name: String,
    /// Elements of a row.
    dim: u32,
    object: Vec<u8>,
    entry: String,
    dynamic_lds: u32,
    unit_lds: u32,
    /// Values of arguments, for pointers to queries, keys, values and output, and a number of keys.
    args: Box<dyn Fn([u64; 4], u32) -> Vec<u64>>,
}

/// Ours, of any number of keys, or of whole steps.
fn ours(chip: Chip, dim: u32, whole: bool) -> Compiled {
    let mut attention = Attention::new(Scalar::F16, dim, false).tile(QUERIES, KEYS, WAVES);
    if whole {
        (attention.queries, attention.keys) = (Extent::Dynamic(QUERIES), Extent::Dynamic(KEYS));
    }
    let kernel = attention.build().expect("a kernel");
    let verified = tilelift_ir::verify::verify(&kernel).expect("a kernel");
    let (better, _) = tilelift_egraph::optimise(&verified, &tilelift_egraph::Options::default());
    let target = machine::target(chip);
    let options = LowerOptions { stages: Some(2), ..LowerOptions::default() };
    let lowered = lower(&better.as_verified(), &target, &options).unwrap_or_else(|e| panic!("{dim}: {e}"));
    let made = emit(&lowered.program, chip).unwrap_or_else(|e| panic!("{dim}: {e}"));
    let params = made.params.clone();
    let args = move |pointers: [u64; 4], keys: u32| {
        let extents = [QUERIES, keys, keys, QUERIES].map(|n| [n, dim]);
        let value = |p: &tilelift_lane::Param| match p.source {
            ParamSource::Scalar(_) => u64::from(SCALE.to_bits()),
            _ => arguments(std::slice::from_ref(p), &pointers, &extents)[0],
        };
        params.iter().map(value).collect()
    };
    let name = format!("{QUERIES}x{KEYS}x{dim}{}", if whole { ", whole steps" } else { "" });
    Compiled { name, dim, object: made.object, entry: made.entry, dynamic_lds: 0, unit_lds: target.shared_bytes, args: Box::new(args) }
}

/// Triton's, each with bounds checked as ours, and without.
fn theirs(chip: Chip) -> Option<Vec<Compiled>> {
    let files = TritonFiles::of(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/triton_attention.py"), chip.name())?;
    let unit_lds = machine::target(chip).shared_bytes;
    let compiled = |words: &Vec<String>| {
        let (dim, guard) = words[0].split_once('_').expect("a size and whether it is guarded");
        let dim: u32 = dim.parse().expect("a size");
        assert_eq!(words[2].parse(), Ok(WAVES));
        Compiled {
            name: format!("{QUERIES}x{KEYS}x{dim}, Triton, {guard}"),
            dim,
            object: files.read(&format!("{}.hsaco", words[0])),
            entry: words[1].to_owned(),
            dynamic_lds: words[3].parse().expect("a number"),
            unit_lds,
            // Behind the arguments come addresses of scratch memory that these kernels do not use.
            args: Box::new(move |[q, k, v, o], keys| {
                vec![q, k, v, o, u64::from(QUERIES), u64::from(keys), u64::from(SCALE.to_bits()), 0, 0]
            }),
        }
    };
    Some(files.kernels.iter().map(compiled).collect())
}

/// Numbers between 1/8 and 1, of either sign, no two rows alike.
fn numbers(count: u32, seed: u32) -> Vec<u16> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 16
    };
    let code = |n: u32| (0x3000 + n % 24 * 0x80 + (n >> 8 & 1) * 0x8000) as u16;
    (0..count).map(|_| code(next())).collect()
}

/// Attention in double precision, of rounded operands.
fn reference([q, k, v]: &[Vec<u16>; 3], dim: usize) -> Vec<f64> {
    let number = |x: u16| num::from_bits(u64::from(x), Scalar::F16);
    let [q, k, v] = [q, k, v].map(|m| m.iter().map(|&x| number(x)).collect::<Vec<f64>>());
    let row = |query: &[f64]| {
        let score = |key: &[f64]| query.iter().zip(key).map(|(x, y)| x * y).sum::<f64>() * f64::from(SCALE);
        let scores: Vec<f64> = k.chunks(dim).map(score).collect();
        let most = scores.iter().fold(f64::NEG_INFINITY, |m, &x| m.max(x));
        let shares: Vec<f64> = scores.iter().map(|s| (s - most).exp()).collect();
        let all: f64 = shares.iter().sum();
        (0..dim).map(|x| shares.iter().zip(v.chunks(dim)).map(|(p, v)| p * v[x]).sum::<f64>() / all).collect::<Vec<f64>>()
    };
    q.chunks(dim).flat_map(row).collect()
}

impl Compiled {
    /// Runs over so many keys, and sees that the output is right.
    fn run(&self, module: &Module, keys: u32) -> Report {
        let mut memory = Memory::new();
        let dim = self.dim;
        let operands = [(QUERIES, 1), (keys, 2), (keys, 3)].map(|(rows, seed)| numbers(rows * dim, seed));
        let [q, k, v] = [0, 1, 2]
            .map(|n| memory.alloc(&format!("operand {n}"), Init::Bytes(operands[n].iter().flat_map(|x: &u16| x.to_le_bytes()).collect())));
        let bytes = (2 * QUERIES * dim) as usize;
        let o = memory.alloc("out", Init::Uninit(bytes));
        let kernel = module.kernel(&self.entry).expect("the kernel");
        let args = segment(kernel, (self.args)([q, k, v, o], keys));
        let (block, dynamic_lds) = ([64 * WAVES, 1, 1], self.dynamic_lds);
        let launch = Launch { kernel: &self.entry, grid: [1, 1, 1], block, dynamic_lds, args: &args, config: SimConfig::default() };
        let report = module.launch(&launch, &mut memory).unwrap_or_else(|f| panic!("{}: {f}", self.name));
        let out = memory.read(o, bytes).expect("the output");
        let got = out.chunks(2).map(|x| num::from_bits(u64::from(u16::from_le_bytes([x[0], x[1]])), Scalar::F16));
        // Shares are rounded to 11 bits, and so is the output.
        let apart = reference(&operands, dim as usize).iter().zip(got).map(|(w, g)| (w - g).abs()).fold(0.0, f64::max);
        assert!(apart < 2e-3, "{}: {apart} over {keys} keys", self.name);
        report
    }

    fn row(&self) -> Row {
        let module = Module::load(&self.object).expect("a code object");
        let d = &module.kernel(&self.entry).expect("the kernel").descriptor;
        let [short, long] = LONG.map(|keys| self.run(&module, keys));
        let taken = Resources { waves: WAVES, lds_bytes: d.lds_bytes + self.dynamic_lds, unit_lds: self.unit_lds };
        Row::of([&short, &long], (LONG[1] - LONG[0]) / KEYS, &taken, d)
    }
}

/// `cargo test -p tilelift-amdgcn triton_attention:: -- --nocapture`
#[test]
fn attention_beside_that_of_triton() {
    for chip in [Chip::Gfx942, Chip::Gfx950] {
        println!("{chip}");
        HEAD.iter().for_each(|line| println!("{line}"));
        let Some(theirs) = theirs(chip) else { return };
        for dim in [128, 64] {
            let beside: Vec<(&Compiled, Row)> = theirs.iter().filter(|t| t.dim == dim).map(|t| (t, t.row())).collect();
            for whole in [false, true] {
                let own = ours(chip, dim, whole);
                let row = own.row();
                println!("{}", row.line(&own.name));
                assert_eq!((row.conflicts, row.scratch), (0, 0), "{}", own.name);
                // What checks bounds beside what checks them, and what knows that steps are whole beside what takes them to be.
                let guard = if whole { "unguarded" } else { ", guarded" };
                let Some((their, other)) = beside.iter().find(|(t, _)| t.name.ends_with(guard)) else { panic!("{guard} is missing") };
                let no_more = row.cycles_of_matrix <= other.cycles_of_matrix && row.others <= other.others;
                assert!(no_more && row.occupancy >= other.occupancy, "{}", their.name);
                assert!(100 * row.estimate <= 95 * other.estimate, "{}: {} of {}", their.name, row.estimate, other.estimate);
            }
            beside.iter().for_each(|(their, row)| println!("{}", row.line(&their.name)));
        }
    }
}
