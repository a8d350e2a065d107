//! Loops that compute between their products, written as programs: attention, its backward passes, chains of products, results that are looked at
//! in the step that makes them.

use crate::common::assembler::{nothing_to_say, together};
use crate::common::schedule_text::{interpreted, round_trip, same_numbers, same_text};
use crate::common::units::{clean, right, simulated};
use crate::common::written::made;
use tilelift_interp::{Arg, Buffer, Memory, ViewArg};
use tilelift_ir::{Scalar, text, verify};
use tilelift_isel::lane::{LaneOptions, interpret};
use tilelift_isel::{LowerOptions, Lowered, ScheduleKind, lower};
use tilelift_kernels::workload::AttentionCase;
use tilelift_kernels::{Attention, Case, Size};
use tilelift_nvptx::{EmitOptions, emit, sm_90a};

fn pinned(overlap: bool) -> LowerOptions {
    LowerOptions { schedule: Some(ScheduleKind::Specialised), overlap: Some(overlap), ..LowerOptions::default() }
}

fn attention(config: Attention, [queries, keys]: [u32; 2], heads: u32, options: &LowerOptions) -> Lowered {
    let config = config.for_shape(queries, keys);
    let config = if heads > 1 { config.heads(heads) } else { config };
    let name = format!("{} {} {} {queries}x{keys} {:?}", config.elem, config.dim, config.causal, options.overlap);
    let case = Case { name, row: 17, size: Size::Small, workload: Box::new(AttentionCase { config, queries, keys, heads }) };
    let l = round_trip(&case, options);
    same_numbers(&case, &l);
    right(&case, &l);
    simulated(&case, &l, 1);
    let ptx = clean(&case, &l);
    // One wait of a step leaves late products in flight; it is held where lanes take longer than products.
    assert_eq!(ptx.contains("wgmma.wait_group.sync.aligned 1"), options.overlap == Some(true), "{}", case.name);
    let written = text::print(made(&l));
    assert_eq!(written.contains("sched_barrier"), ptx.contains("nanosleep.u32 0"), "{}", case.name);
    l
}

#[test]
fn attention_in_all_its_forms() {
    let _texts = together();
    for overlap in [false, true] {
        for (elem, dim, causal, tile, shape, heads) in [
            (Scalar::BF16, 64, false, Some((64, 64)), [100, 200], 1),
            (Scalar::F16, 64, true, Some((128, 64)), [200, 200], 1),
            (Scalar::F16, 128, false, Some((128, 96)), [128, 130], 1),
            (Scalar::F16, 128, true, None, [300, 300], 2),
            (Scalar::BF16, 64, true, None, [200, 500], 3),
        ] {
            let plain = Attention::new(elem, dim, causal);
            let config = tile.map_or(plain.clone().for_units(), |(rows, keys)| plain.tile(rows, keys, 4));
            attention(config, shape, heads, &pinned(overlap));
        }
    }
}

#[test]
fn attention_of_several_grid_positions() {
    let _texts = together();
    let config = || Attention::new(Scalar::BF16, 64, false).tile(128, 64, 4);
    for overlap in [false, true] {
        attention(config(), [520, 300], 1, &LowerOptions { persistent: Some(true), stages: Some(3), ..pinned(overlap) });
    }
}

/// A kernel in words: what it is lowered to gives what the interpreter makes of the plain one.
struct Words {
    name: String,
    text: String,
    /// Element type and shape of each parameter; the ones behind the inputs are written.
    inputs: Vec<(Scalar, Vec<i64>)>,
    outputs: Vec<Vec<i64>>,
    grid: [u32; 3],
}

impl Words {
    fn memory(&self) -> (Memory, Vec<Arg>) {
        let (mut memory, mut args) = (Memory::new(), Vec::new());
        let mut state = 7u32;
        for (elem, shape) in &self.inputs {
            let values = (0..shape.iter().product()).map(|_: i64| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                f64::from(state >> 27) / 32.0 - 0.5
            });
            let buffer = memory.add(Buffer::from_f64(*elem, values));
            args.push(ViewArg::dense(buffer, *elem, shape).into());
        }
        for shape in &self.outputs {
            let buffer = memory.add(Buffer::uninit(4 * shape.iter().product::<i64>() as usize));
            args.push(ViewArg::dense(buffer, Scalar::F32, shape).into());
        }
        (memory, args)
    }

    fn judged(&self, options: &LowerOptions) -> Lowered {
        let file = text::parse(&self.text).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        let kernel = &file.kernels[0];
        let l = lower(&verify(kernel).unwrap(), &sm_90a(), options).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        same_text(&self.name, &l, options);
        let (grid, name) = (self.grid, &self.name);
        let (mut plain, args) = self.memory();
        interpreted(name, kernel, grid, &args, &mut plain);
        let (mut tasks, _) = self.memory();
        interpreted(name, made(&l), grid, &args, &mut tasks);
        let (mut lanes, _) = self.memory();
        interpret(&l.program, &sm_90a(), grid, &args, &mut lanes, &LaneOptions::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        for n in self.inputs.len()..self.inputs.len() + self.outputs.len() {
            assert!(plain.buffers[n].bytes() == tasks.buffers[n].bytes(), "{name}: the schedule gives other numbers");
            let (a, b) = (plain.buffers[n].read_f64(Scalar::F32), lanes.buffers[n].read_f64(Scalar::F32));
            let most = a.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
            let off = a.iter().zip(&b).fold(0.0, |m: f64, (x, y)| m.max((x - y).abs()));
            assert!(most > 0.0 && off <= most * 2e-3, "{name}: {off} of {most}");
        }
        let ptx = emit(&l.program, &sm_90a(), &EmitOptions::default()).unwrap_or_else(|e| panic!("{name}: {e}")).text;
        nothing_to_say(name, &ptx, "sm_90a");
        l
    }
}

/// Gradients of queries: two early products of one load each, one late product that reads a load again.
fn queries_backward(rows: i64, keys: i64) -> Words {
    let text = "kernel @dq(v0: view<bf16, [?, 64]>, v1: view<bf16, [?, 64]>, v2: view<bf16, [?, 64]>, v3: view<bf16, [?, 64]>, v4: view<f32, [?, 64]>) warps=8 {
    v5 = program_id x
    v6 = mul v5, 128
    v7 = load v0[v6, 0] : tile<128x64xbf16>
    v8 = load v3[v6, 0] : tile<128x64xbf16>
    v9 = dim v1, 0
    v10 = splat 0.0 : tile<128x64xf32>
    v11 = for v12 in 0..v9 step 64 carry v13 = v10 {
        v14 = load v1[v12, 0] : tile<64x64xbf16>
        v15 = transpose v14, [1, 0]
        v16 = splat 0.0 : tile<128x64xf32>
        v17 = dot v7, v15, v16
        v18 = exp2 v17
        v19 = load v2[v12, 0] : tile<64x64xbf16>
        v20 = transpose v19, [1, 0]
        v21 = dot v8, v20, v16
        v22 = mul v18, v21
        v23 = cast v22 : tile<128x64xbf16>
        v24 = dot v23, v14, v13
        yield v24
    }
    store v4[v6, 0], v11
}";
    let bf16 = |n| (Scalar::BF16, vec![n, 64]);
    Words {
        name: format!("dq {rows}x{keys}"),
        text: text.into(),
        inputs: vec![bf16(rows), bf16(keys), bf16(keys), bf16(rows)],
        outputs: vec![vec![rows, 64]],
        grid: [(rows as u32).div_ceil(128), 1, 1],
    }
}

/// Gradients of keys and values: two early and two late products.
fn keys_backward(queries: i64, rows: i64) -> Words {
    let text = "kernel @dkdv(v0: view<bf16, [?, 64]>, v1: view<bf16, [?, 64]>, v2: view<bf16, [?, 64]>, v3: view<bf16, [?, 64]>, v4: view<f32, [?, 64]>, v5: view<f32, [?, 64]>) warps=8 {
    v6 = program_id x
    v7 = mul v6, 128
    v8 = load v1[v7, 0] : tile<128x64xbf16>
    v9 = load v2[v7, 0] : tile<128x64xbf16>
    v10 = dim v0, 0
    v11 = splat 0.0 : tile<128x64xf32>
    v12, v13 = for v14 in 0..v10 step 32 carry v15 = v11, v16 = v11 {
        v17 = load v0[v14, 0] : tile<32x64xbf16>
        v18 = transpose v17, [1, 0]
        v19 = splat 0.0 : tile<128x32xf32>
        v20 = dot v8, v18, v19
        v21 = exp2 v20
        v22 = load v3[v14, 0] : tile<32x64xbf16>
        v23 = transpose v22, [1, 0]
        v24 = dot v9, v23, v19
        v25 = cast v21 : tile<128x32xbf16>
        v26 = dot v25, v22, v15
        v27 = mul v21, v24
        v28 = cast v27 : tile<128x32xbf16>
        v29 = dot v28, v17, v16
        yield v26, v29
    }
    store v4[v7, 0], v12
    store v5[v7, 0], v13
}";
    let bf16 = |n| (Scalar::BF16, vec![n, 64]);
    Words {
        name: format!("dkdv {queries}x{rows}"),
        text: text.into(),
        inputs: vec![bf16(queries), bf16(rows), bf16(rows), bf16(queries)],
        outputs: vec![vec![rows, 64], vec![rows, 64]],
        grid: [(rows as u32).div_ceil(128), 1, 1],
    }
}

#[test]
fn backward_passes() {
    let _texts = together();
    for overlap in [false, true] {
        for (rows, keys) in [(128, 64), (200, 300)] {
            queries_backward(rows, keys).judged(&pinned(overlap));
            keys_backward(keys, rows).judged(&pinned(overlap));
        }
    }
}

/// Attention of four heads of queries to two heads of keys and values.
fn grouped_heads(queries: i64, keys: i64) -> Words {
    let text = "kernel @grouped(v0: view<f16, [4, ?, 64]>, v1: view<f16, [2, ?, 64]>, v2: view<f16, [2, ?, 64]>, v3: view<f32, [4, ?, 64]>) warps=8 {
    v4 = program_id x
    v5 = mul v4, 128
    v6 = program_id y
    v7 = div v6, 2
    v8 = load v0[v6, v5, 0] : tile<1x128x64xf16>
    v9 = reshape v8 : tile<128x64xf16>
    v10 = dim v1, 1
    v11 = splat -inf : tile<128x1xf32>
    v12 = splat 0.0 : tile<128x1xf32>
    v13 = splat 0.0 : tile<128x64xf32>
    v14, v15, v16 = for v17 in 0..v10 step 64 carry v18 = v11, v19 = v12, v20 = v13 {
        v21 = load v1[v7, v17, 0] : tile<1x64x64xf16>
        v22 = reshape v21 : tile<64x64xf16>
        v23 = transpose v22, [1, 0]
        v24 = splat 0.0 : tile<128x64xf32>
        v25 = dot v9, v23, v24
        v26 = iota 1 : tile<128x64xi32>
        v27 = splat v17 : tile<128x64xi32>
        v28 = add v26, v27
        v29 = splat v10 : tile<128x64xi32>
        v30 = cmp lt v28, v29
        v31 = splat -inf : tile<128x64xf32>
        v32 = select v30, v25, v31
        v33 = reduce maximum v32, axis 1
        v34 = reshape v33 : tile<128x1xf32>
        v35 = maximum v18, v34
        v36 = broadcast v35 : tile<128x64xf32>
        v37 = sub v32, v36
        v38 = exp2 v37
        v39 = sub v18, v35
        v40 = exp2 v39
        v41 = mul v19, v40
        v42 = reduce add v38, axis 1
        v43 = reshape v42 : tile<128x1xf32>
        v44 = add v41, v43
        v45 = broadcast v40 : tile<128x64xf32>
        v46 = mul v20, v45
        v47 = cast v38 : tile<128x64xf16>
        v48 = load v2[v7, v17, 0] : tile<1x64x64xf16>
        v49 = reshape v48 : tile<64x64xf16>
        v50 = dot v47, v49, v46
        yield v35, v44, v50
    }
    v51 = rcp v15
    v52 = broadcast v51 : tile<128x64xf32>
    v53 = mul v16, v52
    v54 = reshape v53 : tile<1x128x64xf32>
    store v3[v6, v5, 0], v54
}";
    let f16 = |heads, n| (Scalar::F16, vec![heads, n, 64]);
    Words {
        name: format!("grouped heads {queries}x{keys}"),
        text: text.into(),
        inputs: vec![f16(4, queries), f16(2, keys), f16(2, keys)],
        outputs: vec![vec![4, queries, 64]],
        grid: [(queries as u32).div_ceil(128), 4, 1],
    }
}

#[test]
fn heads_that_share_keys() {
    let _texts = together();
    for overlap in [false, true] {
        grouped_heads(150, 200).judged(&pinned(overlap));
    }
}

/// A hidden layer that is never stored: the sum of the second product is not touched by the lanes. `loop` says where steps begin and end.
fn layers(elem: Scalar, hidden: i64, bounds: &str) -> Words {
    let text = format!(
        "kernel @layers(v0: view<{elem}, [?, 64]>, v1: view<{elem}, [?, 64]>, v2: view<{elem}, [?, 64]>, v3: view<f32, [?, 64]>) warps=8 {{
    v4 = program_id x
    v5 = mul v4, 128
    v6 = load v0[v5, 0] : tile<128x64x{elem}>
    v7 = dim v1, 0
    v8 = splat 0.0 : tile<128x64xf32>
    v20 = add v4, 1
    v21 = mul v20, 64
    v9 = for v10 in {bounds} step 64 carry v11 = v8 {{
        v12 = load v1[v10, 0] : tile<64x64x{elem}>
        v13 = transpose v12, [1, 0]
        v14 = splat 0.0 : tile<128x64xf32>
        v15 = dot v6, v13, v14
        v16 = maximum v15, v14
        v17 = cast v16 : tile<128x64x{elem}>
        v18 = load v2[v10, 0] : tile<64x64x{elem}>
        v19 = dot v17, v18, v11
        yield v19
    }}
    store v3[v5, 0], v9
}}"
    );
    Words {
        name: format!("layers of {elem}, {hidden}, {bounds}"),
        text,
        inputs: [300, hidden, hidden].map(|n| (elem, vec![n, 64])).into(),
        outputs: vec![vec![300, 64]],
        grid: [3, 1, 1],
    }
}

#[test]
fn layers_in_one_loop() {
    let _texts = together();
    for elem in [Scalar::F16, Scalar::BF16] {
        for overlap in [false, true] {
            for hidden in [8, 64, 128, 344] {
                layers(elem, hidden, "0..v7").judged(&pinned(overlap));
            }
            // Each program has steps of its own; some have none.
            layers(elem, 344, "v21..v7").judged(&pinned(overlap));
            layers(elem, 128, "v21..v7").judged(&pinned(overlap));
        }
        // As many steps as the text says.
        layers(elem, 344, "0..192").judged(&pinned(false));
    }
}

/// A product that the lanes look at in the step that makes it: no product runs beside them.
fn looked_at(elem: Scalar, step: u32, precision: &str) -> Words {
    let text = format!(
        "kernel @looked(v0: view<{elem}, [?, ?%16]>, v1: view<{elem}, [?, ?%16]>, v2: view<f32, [?, 64]>) warps=8 {{
    v3 = program_id x
    v4 = mul v3, 128
    v5 = dim v0, 1
    v6 = splat 0.0 : tile<128x64xf32>
    v7 = for v8 in 0..v5 step {step} carry v9 = v6 {{
        v10 = load v0[v4, v8] : tile<128x{step}x{elem}>
        v11 = load v1[0, v8] : tile<64x{step}x{elem}>
        v12 = transpose v11, [1, 0]
        v13 = splat 0.5 : tile<128x64xf32>
        v14 = mul v9, v13
        v15 = dot v10, v12, v14{precision}
        v16 = maximum v15, v6
        yield v16
    }}
    store v2[v4, 0], v7
}}"
    );
    let inputs = vec![(elem, vec![200, 272]), (elem, vec![64, 272])];
    Words { name: format!("looked at, {elem}"), text, inputs, outputs: vec![vec![200, 64]], grid: [2, 1, 1] }
}

#[test]
fn products_that_are_looked_at() {
    let _texts = together();
    looked_at(Scalar::BF16, 64, "").judged(&pinned(false));
    looked_at(Scalar::F32, 32, " tf32").judged(&pinned(false));
    // Operands A go from their slot through registers.
    let left = LowerOptions { a_from_registers: Some(true), ..pinned(false) };
    let l = looked_at(Scalar::BF16, 64, "").judged(&left);
    assert!(text::print(made(&l)).contains("local_load"));
    // Lanes add what the unit's sums do not keep.
    looked_at(Scalar::F8E4M3, 128, "").judged(&pinned(false));
    looked_at(Scalar::F8E5M2, 128, "").judged(&pinned(false));
}
