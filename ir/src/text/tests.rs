//! Tests of what is accepted: every form round-trips, literals take their types, comments and places are kept.

mod refusals;

use super::{literal_text, parse, parse_layout, print};
use crate::builder::KernelBuilder;
use crate::entities::Value;
use crate::kernel::{Kernel, Loc};
use crate::num;
use crate::ops::{CmpOp, Literal, Op};
use crate::types::{Extent, Scalar, Shape, TileType, Type, ViewType};
use crate::typing::result_type;
use crate::verify::verify;

/// Every form of the text at once, in the printer's own spelling.
pub(super) const ALL_FORMS: &str = "\
kernel @forms(v0: view<bf16, [?, ?%64]>, v1: view<bf16, [?, ?%64], [?%8, 1], align 8>, v2: f32, v3: view<f32, [128, 256]>) warps=4 stages=3 {
    v4 = program_id x
    v5 = mul v4, 128
    v6 = dim v0, 1
    v7 = splat 0.0 : tile<128x256xf32>
    v8, v9 = for v10 in 0..v6 step 64 carry v11 = v7, v12 = 7 {
        v13 = iota 0 : tile<128xi32>
        v14 = reshape v13 : tile<128x1xi32>
        v15 = broadcast v14 : tile<128x64xi32>
        v16 = splat 5 : tile<128x64xi32>
        v17 = cmp lt v15, v16
        v18 = load v0[v5, v10], mask=v17, other=0.5bf16 : tile<128x64xbf16>
        v19 = load v1[v5, 0], other=-inf_bf16 : tile<256x64xbf16>
        v20 = transpose v19, [1, 0]
        v21 = dot v18, v20, v11
        v22 = cast v18 : tile<128x64xf32>
        v23 = cast v20 : tile<64x256xf32>
        v24 = dot v22, v23, v21 tf32
        v25 = add v12, 1
        yield v24, v25
    }
    v26 = reduce add v8, axis 1
    v27 = reduce maximum v26, axis 0
    v28 = cmp lt v27, v2
    v29 = if v28 {
        yield v2
    } else {
        v30 = add v2, 1e-5
        yield v30
    }
    if true {
        yield
    } else {
        yield
    }
    v31, v32 = while carry v33 = 1i64, v34 = nan {
        v35 = cmp ult v33, 100i64
        yield v35
    } do carry v36, v37 {
        v38 = shl v36, 1i64
        v39 = fma v37, v37, 2.0
        yield v38, v39
    }
    v40 = select v28, v29, inf
    v41 = splat v40 : tile<128x256xf32>
    v42 = cmp ge v8, v41
    store v3[v5, 0], v8, mask=v42
    store v3[0, -1], v8
}
";

#[test]
fn every_form_prints_as_it_was_parsed() {
    let file = parse(ALL_FORMS).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(print(&file.kernels[0]), ALL_FORMS);
}

/// The ops that [`ALL_FORMS`] has not, in the plain form.
pub(super) const PLAIN_OPS: &str = "\
kernel @plain(v0: tile<4x8xf32>, v1: tile<4x8xi16>, v2: tile<4x8xi1>) {
    v3 = num_programs z
    v4 = sub v0, v0
    v5 = mul v0, v0
    v6 = div v1, v1
    v7 = rem v1, v1
    v8 = minimum v1, v1
    v9 = maximum v0, v0
    v10 = minnum v0, v0
    v11 = maxnum v0, v0
    v12 = neg v1
    v13 = abs v0
    v14 = and v2, v2
    v15 = or v1, v1
    v16 = xor v1, v1
    v17 = not v2
    v18 = shr_s v1, v1
    v19 = shr_u v1, v1
    v20 = exp v0
    v21 = exp2 v0
    v22 = log v0
    v23 = log2 v0
    v24 = sqrt v0
    v25 = rsqrt v0
    v26 = tanh v0
    v27 = floor v0
    v28 = ceil v0
    v29 = select v2, v1, v1
    v30 = bitcast v0 : tile<4x8xi32>
    v31 = reduce xor v2, axis 0
    v32 = div_u v1, v1
    v33 = rem_u v1, v1
    v34 = mulhi v1, v1
    v35 = mulhi_u v1, v1
    v36 = minimum_u v1, v1
    v37 = maximum_u v1, v1
    v38 = popcount v1
    v39 = clz v1
    v40 = rcp v0
    v41 = sin v0
    v42 = cos v0
    v43 = erf v0
    v44 = round v0
    v45 = trunc v0
    v46 = join v0, v0
    v47, v48 = split v46
    v49 = concat v0, v0, axis 1
    v50 = slice v0, [0, 4] : tile<4x4xf32>
    v51 = flip v0, axis 0
    v52 = scan add v0, axis 1
    v53 = scan_reverse xor v2, axis 0
    v54 = argmin v0, axis 0
    v55 = argmax v1, axis 1
    v56 = assume v3, multiple 16
    v57 = atan2 v0, v5
    v58 = splat 1.0f8e4m3 : tile<4x32xf8e4m3>
    v59 = splat 1.0f8e8m0 : tile<4x1xf8e8m0>
    v60 = splat 1.0f4e2m1 : tile<32x8xf4e2m1>
    v61 = splat 1.0f8e8m0 : tile<1x8xf8e8m0>
    v62 = dot_scaled v58, v59, v60, v61, v0
    assert v2
    print v0, 7, v2
}
";

/// The ops on tiles of indices and the sorts, with and without what may be left out.
pub(super) const INDEXED_OPS: &str = "\
kernel @indexed(v0: view<f32, [?, ?]>, v1: view<i64, [?]>) {
    v2 = iota 0 : tile<4x8xi32>
    v3 = iota 1 : tile<4x8xi32>
    v4 = cmp lt v2, v3
    v5 = gather v0[v2, v3]
    v6 = gather v0[v3, v2], mask=v4, other=-1.0, cache=evict_last
    scatter v0[v2, v3], v5
    scatter v0[v2, v3], v6, mask=v4, cache=streaming
    v7 = atomic add v0[v2, v3], v5
    v8 = atomic xchg v0[v2, v3], v7, mask=v4, order=acq_rel
    v9 = gather v1[v2]
    v10 = atomic umax v1[v3], v9, scope=cta
    v11 = atomic_cas v1[v2], v9, v10, order=release, scope=sys
    v12 = atomic_cas v1[v2], v9, v11, mask=v4
    v13 = gather_tile v8, v2, axis 1
    v14 = histogram v2, mask=v4 : tile<10xi32>
    v15 = histogram v2 : tile<10xi32>
    v16 = sort ascending v13, axis 1
    v17 = argsort descending v16, axis 0
    v18 = top_k descending v16, axis 1 : tile<4x3xf32>
    v19 = arg_top_k ascending v16, axis 1 : tile<4x3xi32>
    prefetch v0[4, -1], [4, 8]
    v20 = load v0[0, 0], mask=v4, cache=bypass : tile<4x8xf32>
    store v0[0, 0], v20, cache=evict_first
}
";

/// The ops with a combining region, and `philox`.
pub(super) const COMBINE_OPS: &str = "\
kernel @combine(v0: tile<4x8xf32>, v1: tile<4x8xi32>, v2: f32, v3: i32) {
    v4, v5 = reduce_by v0, v1, axis 1 combine v6, v7 with v8, v9 {
        v10 = cmp gt v8, v6
        v11 = select v10, v8, v6
        v12 = select v10, v9, v7
        yield v11, v12
    }
    v13 = scan_by v0, axis 0 combine v14 with v15 {
        v16 = fma v14, v2, v15
        yield v16
    }
    v17 = scan_reverse_by v1, axis 1 combine v18 with v19 {
        v20 = add v18, v19
        v21 = mul v20, 3
        yield v21
    }
    v22, v23, v24, v25 = philox v3, 0, 0, 0, 7, -1
    v26 = require_layout v0, mma(a)
    v27 = release_layout v26
    v28 = require_layout v27, blocked(size=[1], lanes=[32], warps=[1], order=[0])
    v29 = require_layout v27, linear(registers=[], lanes=[[1], [2], [4], [0], [0]], warps=[])
}
";

/// The ops of explicit control, with and without what may be left out.
pub(super) const EXPLICIT_OPS: &str = "\
kernel @explicit(v0: view<bf16, [?, ?%64]>, v1: view<f32, [?, ?]>, v2: i32) cluster 2 positions [1, 2, 1] stages=2 {
    v3 = local_alloc : shared<2x64x64xbf16>
    v4 = local_alloc alias=v3 : shared<64x64xf32>
    v5 = barrier_alloc 1 : barrier<2>
    v6 = barrier_alloc 3 : barrier<1>
    v7 = channel_alloc : channel<4, tile<16x8xf32>, tile<8xi32>>
    v8 = channel_alloc 2 : channel<1, tile<16x8xf32>>
    v9 = cluster_rank
    v10 = cluster_size
    tasks {
        task first warps 1 registers 24 {
            v11 = local_index v3, v2
            v12 = barrier_index v5, 1
            barrier_expect v12, 8192
            async_load v0[v2, 0], v11, v12
            async_load v0[v2, 64], v11, v12, multicast=3
            v13 = splat 0.0 : tile<16x8xf32>
            v14 = splat 0 : tile<8xi32>
            channel_put v7, v2, v13, v14
            channel_put v8, 0, v13
            cluster_arrive
            cluster_wait
            yield
        }
        task second warps 4 registers 232 replicas 2 as v15 {
            v16 = barrier_index v5, v15
            barrier_wait v16, 1
            v17 = local_index v3, v15
            v18 = local_slice v17, [0, 16] : shared<64x16xbf16>
            v19 = local_transpose v18, [1, 0]
            v20 = splat 0.0 : tile<64x64xf32>
            v21 = local_load v17
            v22 = async_dot v21, v17, v20
            v23 = splat 0.0 : tile<64x64xf32>
            v24 = async_dot v17, v17, v23
            v25 = async_dot_wait v24, 0
            v26 = local_load v19
            remote_store v19, 0, v26
            v27 = remote_load v19, v9
            remote_store_async v19, v9, v27, v6
            remote_arrive v6, v9
            local_store v4, v25
            fence_async
            task_barrier
            sched_barrier
            turn_first
            turn_pass
            turn_wait
            turn_last
            async_store v1[v2, 0], v4
            async_reduce add v1[v2, 64], v4
            async_store_wait 1
            copy_async v1[v2, 0], v4
            copy_async_commit
            copy_async_wait 0
            copy_async_arrive v6
            named_barrier_sync 1, 8
            named_barrier_arrive 2, 8
            v28, v29 = channel_get v7, v15
            channel_consumed v7, v15
            cluster_barrier
            barrier_arrive v6
            yield
        }
        task third warps 2 replicas 1 as v30 {
            v31 = local_reinterpret v3 : shared<128x64xf16>
            v32 = add v30, v10
            v33 = iota 0 : tile<64x64xi32>
            gather_async v1[v33, v33], v4
            yield
        }
    }
}
";

/// The ops of persistent kernels, which have no clusters.
pub(super) const WORKER_OPS: &str = "\
kernel @workers() {
    v0 = worker_id
    v1 = num_workers
    v2 = add v0, v1
    v3 = local_alloc swizzle=64 : shared<2x64x64xbf16>
    v4 = local_alloc alias=v3, swizzle=32 : shared<64x64xbf16>
}
";

fn one(text: &str) -> Kernel {
    parse(text).unwrap_or_else(|e| panic!("{e}")).kernels.remove(0)
}

/// An op without attributes that computes elements, on tiles of the first type that it takes: its row says the rest.
fn elementwise(op: Op) -> Option<Kernel> {
    let info = op.info();
    if !op.computes_elements() || info.lead.is_some() || info.trail.is_some() {
        return None;
    }
    let tile = |elem| Type::Tile(TileType { shape: Shape::from_slice(&[4, 8]), elem });
    Scalar::ALL.iter().find_map(|&elem| {
        let ty = tile(elem);
        let result = result_type(op, &vec![&ty; info.operands.len()], 0, &[], None).ok()??;
        let mut k = Kernel::new("one");
        let args: Vec<Value> = info.operands.iter().map(|_| k.add_param(ty.clone())).collect();
        let inst = k.add_inst(op, &args, 0, &[], &[], &[result]);
        k.regions[k.body].insts.push(inst);
        Some(k)
    })
}

#[test]
fn every_op_prints_as_it_was_parsed() {
    assert_eq!(print(&one(PLAIN_OPS)), PLAIN_OPS);
    assert_eq!(print(&one(COMBINE_OPS)), COMBINE_OPS);
    assert_eq!(print(&one(EXPLICIT_OPS)), EXPLICIT_OPS);
    assert_eq!(print(&one(WORKER_OPS)), WORKER_OPS);
    let mut made = 0;
    for &op in Op::ALL.iter().filter(|&&op| op != Op::Const) {
        if let Some(k) = elementwise(op) {
            let text = print(&k);
            let again = one(&text);
            assert_eq!(print(&again), text);
            assert!(again.insts.values().any(|d| d.op == op), "{text}");
            made += 1;
            continue;
        }
        let word = |t: &str| t.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|w| w == op.info().name);
        assert!(
            word(ALL_FORMS) || word(PLAIN_OPS) || word(INDEXED_OPS) || word(COMBINE_OPS) || word(EXPLICIT_OPS) || word(WORKER_OPS),
            "`{op}` has no round trip"
        );
    }
    assert!(made > 30, "only {made} ops were made from their rows");
    assert!(one(ALL_FORMS).insts.values().any(|d| d.op == Op::Const));
}

#[test]
fn the_samples_of_the_forms_verify() {
    for text in [ALL_FORMS, INDEXED_OPS, EXPLICIT_OPS, WORKER_OPS] {
        let k = one(text);
        if let Err(e) = verify(&k) {
            panic!("{}", e.pretty(&k));
        }
        assert_eq!(print(&k), text);
    }
}

#[test]
fn names_are_renumbered_in_order_of_appearance() {
    let k = one(
        "kernel @n(v7: i32) {\n v900 = add v7, 1\n v4294967295 = for v3 in 0..v900 step 1 carry v2 = v7 { yield v2 }\n v1 = add v4294967295, v900 }",
    );
    let text = print(&k);
    assert_eq!(
        text,
        "kernel @n(v0: i32) {\n    v1 = add v0, 1\n    v2 = for v3 in 0..v1 step 1 carry v4 = v0 {\n        yield v4\n    }\n    v5 = add v2, v1\n}\n"
    );
    assert_eq!(print(&one(&text)), text);
}

#[test]
fn built_kernels_survive_the_round_trip() {
    let mut b = KernelBuilder::new("built");
    b.warps(8).stages(2);
    let dims = [Extent::Dynamic(16), Extent::Fixed(64)];
    let x = b.param(ViewType::dense(Scalar::F16, &dims).with_strides(&[Extent::Dynamic(8), Extent::Fixed(1)]).with_align(2));
    let n = b.param(Scalar::I64);
    let shared = b.constant(0, Scalar::I32);
    let t = b.load(x, &[shared, shared], &[16, 64]);
    let t = b.mul(t, 0.1);
    let sums = b.for_loop(0, n, 3, &[t], |b, _, c| vec![b.add(c[0], c[0])]);
    let outs = b.while_loop(
        &[shared],
        |b, c| b.cmp(CmpOp::Lt, c[0], 10),
        |b, c| {
            let odd = b.cmp(CmpOp::Ne, c[0], 3);
            b.if_else(odd, |b| vec![b.add(c[0], 1)], |b| vec![b.constant(7, Scalar::I32)])
        },
    );
    b.store(x, &[outs[0], shared], sums[0]);
    let k = b.finish().expect("built");
    let text = print(&k);
    let again = one(&text);
    assert_eq!(print(&again), text);
    assert!(verify(&again).is_ok());
    assert_eq!((again.hints, again.name.as_str(), again.params.len()), (k.hints, "built", 2));
    assert_eq!(again.ty(again.params[0]), k.ty(k.params[0]));
}

#[test]
fn literals_take_the_type_of_their_place() {
    // Each line, the const that it makes, and its spelling when printed.
    let cases: &[(&str, Literal, Scalar)] = &[
        ("v9 = add v0, 5", Literal::Int(5), Scalar::I64),
        ("v9 = add 5, v0", Literal::Int(5), Scalar::I64),
        ("v9 = add v1, 5", float(5.0), Scalar::BF16),
        ("v9 = mul v1, 0.1", float(0.10009765625), Scalar::BF16),
        ("v9 = cmp lt v1, -inf", float(f64::NEG_INFINITY), Scalar::BF16),
        ("v9 = select v2, v0, -1", Literal::Int(-1), Scalar::I64),
        ("v9 = select true, v0, v0", Literal::Int(1), Scalar::I1),
        ("v9 = splat 1 : tile<4xf16>", float(1.0), Scalar::F16),
        ("v9 = splat -128 : tile<4xi8>", Literal::Int(-128), Scalar::I8),
        ("v9 = cast 7 : f16", Literal::Int(7), Scalar::I32),
        ("v9 = cast 7.5 : f16", float(7.5), Scalar::F32),
        ("v9 = cast 1e3f64 : f16", float(1000.0), Scalar::F64),
        ("v9 = load v3[0], other=2 : tile<4xf32>", float(2.0), Scalar::F32),
        ("v9 = for v10 in 0..v0 step 2 { yield }", Literal::Int(2), Scalar::I64),
        ("v9 = for v10 in v0..v0 step v0 carry v11 = 3 { yield 4 }", Literal::Int(4), Scalar::I32),
        ("v9 = if v2 { yield v1 } else { yield 1 }", float(1.0), Scalar::BF16),
        ("v9 = fma v1, 2, v1", float(2.0), Scalar::BF16),
        ("v9 = fma 2.0f64, 3, 4", float(4.0), Scalar::F64),
        ("v9 = add 9223372036854775807i64, v0", Literal::Int(i64::MAX), Scalar::I64),
        ("v9 = add -9223372036854775808, v0", Literal::Int(i64::MIN), Scalar::I64),
        ("v9 = sqrt 16777217.0", float(16777216.0), Scalar::F32),
        ("v9 = sqrt -0.0", float(-0.0), Scalar::F32),
        ("v9 = sqrt 1e-45", float(f64::from(f32::from_bits(1))), Scalar::F32),
    ];
    for (line, literal, ty) in cases {
        let line = line.strip_prefix("v9 = for v10 in 0..").map_or((*line).to_owned(), |rest| format!("for v10 in 0..{rest}"));
        let k = one(&format!("kernel @l(v0: i64, v1: bf16, v2: i1, v3: view<f32, [?]>) {{\n{line}\n}}"));
        let found: Vec<_> = k.values.keys().filter_map(|v| k.as_const(v)).collect();
        assert!(found.contains(&(*literal, *ty)), "{line}: {found:?}");
        assert!(verify(&k).is_ok(), "{line}");
        assert_eq!(print(&one(&print(&k))), print(&k), "{line}");
    }
}

fn float(x: f64) -> Literal {
    Literal::Float(x.to_bits())
}

#[test]
fn every_short_float_survives_its_spelling() {
    for ty in [Scalar::F16, Scalar::BF16] {
        for bits in (0..=u64::from(u16::MAX)).step_by(3) {
            survives(num::from_bits(bits, ty), ty);
        }
    }
    let mut x = 1u64;
    for _ in 0..20_000 {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        survives(num::from_bits(x >> 32, Scalar::F32), Scalar::F32);
        survives(f64::from_bits(x), Scalar::F64);
    }
    assert_eq!(literal_text(float(f64::from(0.1f32)), Scalar::F32), "0.1");
    assert_eq!(literal_text(float(num::round(0.1, Scalar::BF16)), Scalar::BF16), "0.1bf16");
    assert_eq!(literal_text(float(1e300), Scalar::F64), "1e300f64");
    assert_eq!(literal_text(float(f64::NEG_INFINITY), Scalar::F16), "-inf_f16");
    assert_eq!(literal_text(float(f64::NAN), Scalar::F32), "nan");
    assert_eq!(literal_text(Literal::Int(0), Scalar::I1), "false");
}

/// Checks that a float reads back from its spelling.
fn survives(x: f64, ty: Scalar) {
    let text = literal_text(float(x), ty);
    let k = one(&format!("kernel @f() {{\n v0 = abs {text}\n}}"));
    let found = k.values.keys().find_map(|v| k.as_const(v));
    match found {
        Some((Literal::Float(b), t))
            if t == ty && (f64::from_bits(b).to_bits() == x.to_bits() || f64::from_bits(b).is_nan() && x.is_nan()) => {}
        _ => panic!("{x:?} of {ty} is spelt {text}, which is {found:?}"),
    }
}

#[test]
fn comments_and_places_are_kept() {
    let text =
        "; test verify\n\n  ; second \nkernel @a() { ; third\n    v0 = program_id x;fourth\n}\n; \u{e9}\u{2026}\r\nkernel @b() {\r\n}";
    let f = parse(text).unwrap_or_else(|e| panic!("{e}"));
    let seen: Vec<(u32, bool, &str)> = f.comments.iter().map(|c| (c.line, c.own_line, c.text.as_str())).collect();
    assert_eq!(
        seen,
        [(1, true, "test verify"), (3, true, "second"), (4, false, "third"), (5, false, "fourth"), (7, true, "\u{e9}\u{2026}")]
    );
    assert_eq!(f.headers, [Loc::text(4, 1), Loc::text(8, 1)]);
    let k = f.kernel("a").expect("there");
    assert_eq!(k.locs[k.regions[k.body].insts[0]], Loc::text(5, 5));
    assert!(f.kernel("c").is_none());
    assert_eq!(parse("").map(|f| f.kernels.len()), Ok(0));
}

/// What the printer makes of a text.
fn printed(text: &str) -> String {
    let k = one(text);
    verify(&k).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let again = print(&k);
    assert_eq!(print(&one(&again)), again);
    again
}

#[test]
fn names_stay() {
    let text = "\
kernel @k(%x: view<f32, [?]>, v1: i32) {
    %start = load %x[v1] : tile<32xf32>
    %sum, v4 = for %i in 0..v1 step 1 carry %acc = %start, v7 = 0 {
        v8 = add %acc, %start
        %next = add v7, %i
        yield v8, %next
    }
    store %x[v4], %sum
}
";
    assert_eq!(printed(text), text);
    let k = one(text);
    assert_eq!(k.value_text(k.params[0]), "%x");
    assert_eq!(k.value_text(k.params[1]), "v1");
    // A name that a value cannot have is not printed, and neither is one that two have.
    let mut wrong = k.clone();
    wrong.names[k.params[1]] = Some("x".into());
    assert_eq!(print(&wrong), text);
    wrong.names[k.params[0]] = Some("a b".into());
    assert!(print(&wrong).starts_with("kernel @k(v0: view<f32, [?]>, %x: i32) {"), "{}", print(&wrong));
}

#[test]
fn builders_name_values() {
    let mut b = KernelBuilder::new("k");
    let x = b.param(ViewType::dense(Scalar::F32, &[Extent::Dynamic(1)]));
    let at = b.program_id(0);
    b.name(x, "input");
    let first = b.load_scalar(x, &[at]);
    b.name(first, "first");
    let tile = b.splat(first, &[32]);
    let big = b.cmp(CmpOp::Gt, first, 0.5f32);
    b.if_then(big, |b| b.store(x, &[at], tile));
    let k = b.finish().unwrap_or_else(|e| panic!("{e}"));
    verify(&k).unwrap_or_else(|e| panic!("{e}"));
    let text = "\
kernel @k(%input: view<f32, [?]>) {
    v1 = program_id x
    v2 = load %input[v1] : tile<1xf32>
    %first = reshape v2 : f32
    v4 = splat %first : tile<32xf32>
    v5 = cmp gt %first, 0.5
    if v5 {
        store %input[v1], v4
        yield
    } else {
        yield
    }
}
";
    assert_eq!(print(&k), text);
    assert_eq!(print(&one(text)), text);
    let refused = |calls: fn(&mut KernelBuilder)| {
        let mut b = KernelBuilder::new("k");
        calls(&mut b);
        b.finish().expect_err("refused").to_string()
    };
    let twice = refused(|b| {
        let (x, y) = (b.program_id(0), b.program_id(1));
        b.name(x, "i");
        b.name(y, "i");
    });
    assert!(twice.contains("%i is another value already") && twice.contains("tests.rs:"), "{twice}");
    let strange = refused(|b| {
        let x = b.program_id(0);
        b.name(x, "a-b");
    });
    assert!(strange.contains("no name of a value"), "{strange}");
}

#[test]
fn built_kernels_say_where_they_were_built() {
    let mut b = KernelBuilder::new("k");
    let x = b.param(ViewType::dense(Scalar::F32, &[Extent::Dynamic(1)]));
    let at = b.program_id(0);
    let line = line!() + 1;
    let tile = b.load(x, &[at], &[32]);
    let twice = b.add(tile, 1.0f32);
    b.store(x, &[at], twice);
    let k = b.finish().unwrap_or_else(|e| panic!("{e}"));
    let place = k.locs[k.def_inst(tile).expect("an instruction")];
    assert_eq!((place.line, place.file), (line, Some(file!())));
    assert!(place.is_known() && !place.is_text());
    assert_eq!(place.to_string(), format!("{}:{line}", file!()));
    // The splat and the literal that `add` makes stand where `add` was called.
    assert!(k.insts.keys().all(|i| k.locs[i].file == Some(file!()) && (line - 2..=line + 2).contains(&k.locs[i].line)), "{:?}", k.locs);
    // An operand that is defined later is refused with the place.
    let mut wrong = k.clone();
    wrong.regions[wrong.body].insts.reverse();
    let e = verify(&wrong).expect_err("refused").to_string();
    assert!(e.contains(&format!("{}:{}", file!(), line)), "{e}");
    // So are the mistakes of calls.
    let mut b = KernelBuilder::new("k");
    let at = b.program_id(0);
    let _ = b.exp(at);
    let e = b.finish().expect_err("refused").to_string();
    assert!(e.contains(&format!("builder method `exp` at {}:{}: ", file!(), line!() - 2)), "{e}");
}

#[test]
fn scalars_spread_beside_tiles() {
    let within = |lines: &str| {
        printed(&format!(
            "kernel @k(v0: view<f32, [?, ?]>, v1: f32, v2: i1) {{\n    v3 = load v0[0, 0] : tile<4x8xf32>\n{lines}\n    store v0[0, 0], v9\n}}\n"
        ))
    };
    for (short, long) in [
        ("v9 = mul v3, 2.0", "v4 = splat 2.0 : tile<4x8xf32>\n    v9 = mul v3, v4"),
        ("v9 = sub v1, v3", "v4 = splat v1 : tile<4x8xf32>\n    v9 = sub v4, v3"),
        ("v9 = fma v3, v1, 1.0", "v4 = splat v1 : tile<4x8xf32>\n    v5 = splat 1.0 : tile<4x8xf32>\n    v9 = fma v3, v4, v5"),
        (
            "v4 = cmp lt v3, 0.0\n    v9 = select v4, v1, v3",
            "v5 = splat 0.0 : tile<4x8xf32>\n    v4 = cmp lt v3, v5\n    v6 = splat v1 : tile<4x8xf32>\n    v9 = select v4, v6, v3",
        ),
        (
            "v4 = cmp lt v3, v3\n    v9 = select v4, v1, 0.5",
            "v4 = cmp lt v3, v3\n    v5 = splat v1 : tile<4x8xf32>\n    v6 = splat 0.5 : tile<4x8xf32>\n    v9 = select v4, v5, v6",
        ),
        ("v9 = select v2, v3, 0.0", "v4 = splat 0.0 : tile<4x8xf32>\n    v9 = select v2, v3, v4"),
    ] {
        assert_eq!(within(&format!("    {short}")), within(&format!("    {long}")), "{short}");
    }
    // Two scalars stay scalars.
    let scalars = "kernel @k(v0: f32) {\n    v1 = add v0, 2.0\n    v2 = cmp lt v0, v1\n    v3 = select v2, v0, v1\n}\n";
    assert_eq!(printed(scalars), scalars);
}

#[test]
fn a_load_without_a_tile_is_a_scalar() {
    let within =
        |lines: &str| printed(&format!("kernel @k(v0: view<i32, [?, ?]>, v1: i1) {{\n{lines}\n    v9 = add v5, 1\n    print v9\n}}\n"));
    let long = within("    v4 = load v0[3, 4] : tile<1x1xi32>\n    v5 = reshape v4 : i32");
    assert_eq!(within("    v5 = load v0[3, 4]"), long);
    assert_eq!(within("    v5 = load v0[3, 4] : i32"), long);
    let masked =
        within("    v3 = splat v1 : tile<1x1xi1>\n    v4 = load v0[3, 4], mask=v3, other=7 : tile<1x1xi32>\n    v5 = reshape v4 : i32");
    assert_eq!(within("    v5 = load v0[3, 4], mask=v1, other=7"), masked);
}

#[test]
fn an_if_may_have_one_block() {
    let within =
        |lines: &str| printed(&format!("kernel @k(v0: view<f32, [?]>, v1: i1) {{\n    v2 = load v0[0] : tile<8xf32>\n{lines}\n}}\n"));
    let long = within("    if v1 {\n        store v0[0], v2\n        yield\n    } else {\n        yield\n    }");
    for short in [
        "    if v1 {\n        store v0[0], v2\n    }",
        "    if v1 { store v0[0], v2 }",
        "    if v1 {\n        store v0[0], v2\n        yield\n    }",
        "    if v1 {\n        store v0[0], v2\n    } else {\n    }",
    ] {
        assert_eq!(within(short), long, "{short}");
    }
}

#[test]
fn a_layout_alone_is_read_and_nothing_may_stand_behind_it() {
    for text in [
        "blocked(size=[1, 8], lanes=[4, 8], warps=[4, 1], order=[1, 0])",
        "linear(registers=[[0, 1]], lanes=[[1, 0], [2, 0]], warps=[])",
        "mma(acc)",
        "swizzle(64)",
    ] {
        assert_eq!(parse_layout(text).map(|l| l.to_string()), Ok(text.to_owned()));
    }
    for (text, part) in
        [("swizzle(64) x", "the end of the layout"), ("", "a layout"), ("swizzel(64)", "`swizzel` is no layout"), ("mma(\u{1})", "")]
    {
        let e = parse_layout(text).expect_err(text);
        assert!(!e.errors.is_empty() && e.to_string().contains(part), "{text}: {e}");
    }
}
