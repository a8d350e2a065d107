//! Attention whose scores lie as the second product takes them: what a step of its loop costs a wavefront.
//!
//! `cargo test -p tilelift-amdgcn attention:: -- --nocapture` prints the table of docs/amdgcn.md.

use crate::common::loops::arguments;
use tilelift_amdgcn::{Chip, emit, machine};
use tilelift_amdgcn_sim::{ArgumentKind, Init, Launch, Memory, Module, Report, SimConfig};
use tilelift_ir::text;
use tilelift_isel::{LayoutChoice, LowerOptions, lower};

/// Queries of the instance, keys of a step, elements of a row.
const QUERIES: u32 = 128;
const KEYS: u32 = 64;
const DIM: u32 = 128;
const WAVES: u32 = 4;
/// Keys of two launches.
const LONG: [u32; 2] = [128, 256];

fn kernel(elem: &str) -> String {
    let rows = format!("{QUERIES}x{DIM}");
    let scores = format!("{QUERIES}x{KEYS}");
    let view = format!("view<{elem}, [?, {DIM}]>");
    format!(
        "kernel @k(v0: {view}, v1: {view}, v2: {view}, v3: view<f32, [?, {DIM}]>) warps={WAVES} stages=2 {{
    v4 = dim v1, 0
    v5 = load v0[0, 0] : tile<{rows}x{elem}>
    v6 = splat -inf : tile<{QUERIES}x1xf32>
    v7 = splat 0.0 : tile<{QUERIES}x1xf32>
    v8 = splat 0.0 : tile<{rows}xf32>
    v9, v10, v11 = for v12 in 0..v4 step {KEYS} carry v13 = v6, v14 = v7, v15 = v8 {{
        v16 = load v1[v12, 0] : tile<{KEYS}x{DIM}x{elem}>
        v17 = transpose v16, [1, 0]
        v18 = splat 0.0 : tile<{scores}xf32>
        v19 = dot v5, v17, v18
        v20 = reduce maximum v19, axis 1
        v21 = reshape v20 : tile<{QUERIES}x1xf32>
        v22 = maximum v13, v21
        v23 = neg v22
        v24 = broadcast v23 : tile<{scores}xf32>
        v25 = add v19, v24
        v26 = exp2 v25
        v27 = add v13, v23
        v28 = exp2 v27
        v29 = reduce add v26, axis 1
        v30 = reshape v29 : tile<{QUERIES}x1xf32>
        v31 = fma v14, v28, v30
        v32 = broadcast v28 : tile<{rows}xf32>
        v33 = mul v15, v32
        v34 = cast v26 : tile<{scores}x{elem}>
        v35 = load v2[v12, 0] : tile<{KEYS}x{DIM}x{elem}>
        v36 = dot v34, v35, v33
        yield v22, v31, v36
    }}
    v37 = rcp v10
    v38 = broadcast v37 : tile<{rows}xf32>
    v39 = mul v11, v38
    store v3[0, 0], v39
}}"
    )
}

/// Numbers of a type, small ones, no two rows alike.
fn numbers(bytes: u32, count: u32, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 16
    };
    // Between 1/8 and 1 in either format, of either sign.
    let code = |n: u32| match bytes {
        1 => vec![(0x28 + n % 24 + (n >> 8 & 1) * 0x80) as u8],
        _ => ((0x3000 + n % 24 * 0x80 + (n >> 8 & 1) * 0x8000) as u16).to_le_bytes().to_vec(),
    };
    (0..count).flat_map(|_| code(next())).collect()
}

/// What a launch of so many keys counts, and what it writes.
fn launched(chip: Chip, (elem, bytes): (&str, u32), layouts: LayoutChoice, keys: u32) -> (Report, Vec<f32>) {
    let file = text::parse(&kernel(elem)).unwrap_or_else(|e| panic!("{e}"));
    let verified = tilelift_ir::verify::verify(&file.kernels[0]).expect("a kernel");
    let options = LowerOptions { layouts, ..LowerOptions::default() };
    let lowered = lower(&verified, &machine::target(chip), &options).unwrap_or_else(|e| panic!("{e}"));
    let made = emit(&lowered.program, chip).unwrap_or_else(|e| panic!("{e}"));
    let module = Module::load(&made.object).expect("a code object");
    let mut memory = Memory::new();
    let rows = [QUERIES, keys, keys];
    let mut pointers: Vec<u64> =
        rows.iter().zip(1..).map(|(&n, seed)| memory.alloc("operand", Init::Bytes(numbers(bytes, n * DIM, seed)))).collect();
    pointers.push(memory.alloc("out", Init::Uninit((4 * QUERIES * DIM) as usize)));
    let extents = [QUERIES, keys, keys, QUERIES].map(|n| [n, DIM]);
    let values = arguments(&made.params, &pointers, &extents);
    let kernel = module.kernel(&made.entry).expect("the kernel");
    let declared = kernel.arguments.iter().filter(|a| matches!(a.kind, ArgumentKind::Buffer | ArgumentKind::Value));
    let mut args = vec![0; kernel.descriptor.kernarg_bytes as usize];
    for (a, value) in declared.zip(values) {
        args[a.offset as usize..][..a.size as usize].copy_from_slice(&value.to_le_bytes()[..a.size as usize]);
    }
    let launch =
        Launch { kernel: &made.entry, grid: [1; 3], block: [64 * WAVES, 1, 1], dynamic_lds: 0, args: &args, config: SimConfig::default() };
    let report = module.launch(&launch, &mut memory).unwrap_or_else(|f| panic!("{elem} on {chip}: {f}"));
    let out = memory.read(pointers[3], (4 * QUERIES * DIM) as usize).expect("the output");
    (report, out.chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
}

/// What a step costs a wavefront.
#[derive(Debug)]
struct Step {
    matrix: u64,
    vector: u64,
    lds: u64,
    conflicts: u64,
    estimate: u64,
}

fn step(chip: Chip, elem: (&str, u32), layouts: LayoutChoice) -> (Step, Vec<f32>) {
    let [(short, _), (long, out)] = LONG.map(|keys| launched(chip, elem, layouts, keys));
    let steps = u64::from((LONG[1] - LONG[0]) / KEYS);
    let each = |of: fn(&Report) -> u64| (of(&long) - of(&short)) / steps / u64::from(WAVES);
    let step = Step {
        matrix: each(|r| r.matrix),
        vector: each(|r| r.vector),
        lds: each(|r| r.lds),
        conflicts: each(|r| r.lds_conflict_cycles),
        estimate: (long.longest_wave - short.longest_wave) / steps,
    };
    (step, out)
}

/// Scores are made transposed, so that a lane has those of one query: two sums of lanes a step, and no trip of scores through local data share, whatever the
/// instruction's order of k is.
#[test]
fn scores_lie_as_the_second_product_takes_them() {
    println!("| attention, {QUERIES} x {KEYS} x {DIM} | matrix instructions | vector | LDS | conflicts | estimate |");
    println!("|---|---|---|---|---|---|");
    let kinds = [
        (Chip::Gfx942, ("f16", 2), [64, 3500]),
        (Chip::Gfx942, ("f8e4m3fnuz", 1), [64, 3500]),
        (Chip::Gfx950, ("f16", 2), [80, 2500]),
        (Chip::Gfx950, ("f8e4m3", 1), [80, 2500]),
    ];
    for (chip, elem, [most, longest]) in kinds {
        let (found, got) = step(chip, elem, LayoutChoice::default());
        let Step { matrix, vector, lds, conflicts, estimate } = &found;
        println!("| {} on `{chip}` | {matrix} | {vector} | {lds} | {conflicts} | {estimate} |", elem.0);
        // Any other layouts give the same.
        let (_, want) = launched(chip, elem, LayoutChoice::Random(7), LONG[1]);
        let apart = want.iter().zip(&got).map(|(w, g)| (w - g).abs()).fold(0.0, f32::max);
        let scale = want.iter().fold(0.0f32, |m, x| m.max(x.abs()));
        assert!(apart <= 1e-3 * scale, "{} on {chip}: {apart} of {scale}", elem.0);
        assert!(found.lds <= most && (elem.1 == 1 || found.conflicts == 0) && found.estimate <= longest, "{} on {chip}: {found:?}", elem.0);
    }
}
