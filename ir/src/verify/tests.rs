//! For each code a kernel that obeys the rule by a hair, and one that breaks it.

use super::{VerifyCode, verify};
use crate::builder::KernelBuilder;
use crate::entities::{Inst, Region, Value};
use crate::kernel::{Kernel, ValueDef};
use crate::ops::{Attr, Literal, Op};
use crate::text::parse;
use crate::types::{Extent, Scalar, Type, ViewType};
use cranelift_entity::EntityRef;
use cranelift_entity::packed_option::ReservedValue;

/// The kernel of a text.
pub(super) fn text(t: &str) -> Kernel {
    parse(t).unwrap_or_else(|e| panic!("{e}")).kernels.remove(0)
}

/// A kernel with a loop, a condition and memory.
fn base() -> Kernel {
    text(
        "kernel @base(v0: view<f32, [?, 64]>, v1: i32, v2: f32) {
            v3 = splat v2 : tile<16x64xf32>
            v4 = for v5 in 0..v1 step 16 carry v6 = v3 {
                v7 = load v0[v5, 0], other=1.0 : tile<16x64xf32>
                v8 = add v6, v7
                yield v8
            }
            v9 = cmp lt v1, 5
            v10 = if v9 { yield v4 } else { yield v3 }
            v20, v21 = while carry v11 = v1, v12 = v2 {
                v13 = cmp gt v11, 0
                yield v13
            } do carry v14, v15 {
                v16 = sub v14, 1
                yield v16, v15
            }
            v17 = reduce maximum v10, axis 1
            v18 = reshape v17 : tile<16x1xf32>
            v19 = broadcast v18 : tile<16x64xf32>
            store v0[v20, 0], v19
        }",
    )
}

/// The first instruction of an op.
fn first(k: &Kernel, op: Op) -> Inst {
    k.insts.iter().find(|(_, d)| d.op == op).map(|(i, _)| i).unwrap_or_else(|| panic!("no {op}"))
}

/// The base kernel, changed.
fn with(change: impl FnOnce(&mut Kernel)) -> Kernel {
    let mut k = base();
    change(&mut k);
    k
}

fn ghost_value() -> Value {
    Value::new(1 << 20)
}

/// `if`s nested to a depth.
fn nested(depth: usize) -> Kernel {
    let mut b = KernelBuilder::new("deep");
    let c = b.constant(1, Scalar::I1);
    fn go(b: &mut KernelBuilder, c: Value, depth: usize) {
        if depth > 0 {
            b.if_else(
                c,
                |b| {
                    go(b, c, depth - 1);
                    vec![]
                },
                |_| vec![],
            );
        }
    }
    go(&mut b, c, depth);
    b.finish().expect("built")
}

/// A kernel with one parameter of a type.
fn param(ty: impl Into<Type>) -> Kernel {
    let mut k = Kernel::new("p");
    k.add_param(ty.into());
    k
}

/// A kernel with a constant.
fn constant(l: Literal, ty: Scalar) -> Kernel {
    let mut k = Kernel::new("c");
    let i = k.add_inst(Op::Const, &[], 0, &[Attr::Literal(l)], &[], &[Type::Scalar(ty)]);
    let body = k.body;
    k.regions[body].insts.push(i);
    k
}

fn float(x: f64) -> Literal {
    Literal::Float(x.to_bits())
}

/// A loop with a step.
fn step(n: i64) -> Kernel {
    text(&format!("kernel @s(v0: i64) {{\n v1 = for v2 in 0..v0 step {n} carry v3 = v0 {{ yield v2 }}\n}}"))
}

/// What obeys the rule of a code, and what breaks it.
fn examples(code: VerifyCode) -> (Vec<Kernel>, Vec<Kernel>) {
    use VerifyCode as C;
    let one = Extent::Dynamic(1);
    match code {
        C::BadReference => (
            vec![base()],
            vec![
                with(|k| {
                    let i = first(k, Op::Add);
                    k.insts[i].args[0] = ghost_value();
                }),
                with(|k| {
                    let i = first(k, Op::Add);
                    k.insts[i].args[0] = Value::reserved_value();
                }),
                with(|k| {
                    let i = first(k, Op::Add);
                    k.insts[i].results[0] = ghost_value();
                }),
                with(|k| k.params.push(ghost_value())),
                with(|k| {
                    let b = k.body;
                    k.regions[b].insts.push(Inst::new(1 << 20));
                }),
                with(|k| {
                    let i = first(k, Op::If);
                    k.insts[i].regions[1] = Region::new(1 << 20);
                }),
                with(|k| k.body = Region::reserved_value()),
            ],
        ),
        C::PlacedTwice => (
            // An instruction that stands nowhere is no error: cursors leave removed ones in the arena.
            vec![with(|k| {
                k.add_inst(Op::Yield, &[], 0, &[], &[], &[]);
            })],
            vec![with(|k| {
                let i = first(k, Op::Cmp);
                let b = k.body;
                k.regions[b].insts.push(i);
            })],
        ),
        C::RegionShared => (
            vec![base()],
            vec![
                with(|k| {
                    let i = first(k, Op::If);
                    let r = k.insts[i].regions[0];
                    k.insts[i].regions[1] = r;
                }),
                with(|k| {
                    let i = first(k, Op::If);
                    k.insts[i].regions[1] = k.body;
                }),
            ],
        ),
        C::Origin => (
            vec![base()],
            vec![
                with(|k| k.params.swap(1, 2)),
                with(|k| {
                    let i = first(k, Op::Add);
                    let v = k.insts[i].results[0];
                    k.values[v].def = ValueDef::KernelParam(0);
                }),
                with(|k| {
                    let i = first(k, Op::While);
                    let r = k.insts[i].regions[1];
                    k.regions[r].params.swap(0, 1);
                }),
            ],
        ),
        C::Nesting => (vec![nested(64)], vec![nested(65), nested(300)]),

        C::OperandCount => (
            vec![base()],
            vec![
                with(|k| {
                    let i = first(k, Op::Add);
                    k.insts[i].args.pop();
                }),
                with(|k| {
                    let i = first(k, Op::Add);
                    let v = k.insts[i].args[0];
                    k.insts[i].args.push(v);
                }),
                with(|k| {
                    let i = first(k, Op::Store);
                    k.insts[i].args.remove(1);
                }),
                with(|k| {
                    let i = first(k, Op::Load);
                    k.insts[i].args.clear();
                }),
                with(|k| {
                    let i = first(k, Op::For);
                    k.insts[i].args.truncate(2);
                }),
            ],
        ),
        C::Presence => (
            vec![base()],
            vec![
                with(|k| {
                    let i = first(k, Op::Add);
                    k.insts[i].present = 1;
                }),
                with(|k| {
                    let i = first(k, Op::Load);
                    k.insts[i].present |= 0b1_0000;
                }),
            ],
        ),
        C::Attributes => (
            vec![base()],
            vec![
                with(|k| {
                    let i = first(k, Op::Cmp);
                    k.insts[i].attrs.clear();
                }),
                with(|k| {
                    let i = first(k, Op::Reduce);
                    k.insts[i].attrs.swap(0, 1);
                }),
                with(|k| {
                    let i = first(k, Op::Add);
                    k.insts[i].attrs.push(Attr::Dim(0));
                }),
            ],
        ),
        C::RegionCount => (
            vec![base()],
            vec![
                with(|k| {
                    let i = first(k, Op::If);
                    k.insts[i].regions.pop();
                }),
                with(|k| {
                    let i = first(k, Op::Add);
                    let r = k.add_region();
                    k.insts[i].regions.push(r);
                }),
            ],
        ),
        C::ResultCount => (
            vec![base()],
            vec![
                with(|k| {
                    let i = first(k, Op::Reduce);
                    k.insts[i].results.clear();
                }),
                with(|k| {
                    let i = first(k, Op::For);
                    k.insts[i].results.clear();
                }),
                with(|k| {
                    let i = first(k, Op::Store);
                    let v = k.insts[i].args[1];
                    k.insts[i].results.push(v);
                }),
            ],
        ),

        C::UseBeforeDefinition => (
            vec![base()],
            vec![
                with(|k| {
                    let b = k.body;
                    let list = &mut k.regions[b].insts;
                    let n = list.len();
                    list.swap(n - 3, n - 4);
                }),
                // An instruction that uses itself.
                with(|k| {
                    let i = first(k, Op::Add);
                    k.insts[i].args[0] = k.insts[i].results[0];
                }),
            ],
        ),
        C::OutOfScope => (
            vec![base()],
            vec![
                with(|k| {
                    let (f, i) = (first(k, Op::For), first(k, Op::Cmp));
                    k.insts[i].args[0] = k.regions[k.insts[f].regions[0]].params[0];
                }),
                with(|k| {
                    let (a, i) = (first(k, Op::Add), first(k, Op::Reduce));
                    k.insts[i].args[0] = k.insts[a].results[0];
                }),
                // A parameter of a region that comes later.
                with(|k| {
                    let (w, i) = (first(k, Op::While), first(k, Op::Cmp));
                    k.insts[i].args[0] = k.regions[k.insts[w].regions[0]].params[0];
                }),
            ],
        ),
        C::Undefined => (
            vec![base()],
            vec![
                with(|k| {
                    let b = k.body;
                    let i = first(k, Op::Splat);
                    k.regions[b].insts.retain(|&j| j != i);
                }),
                with(|k| {
                    k.params.pop();
                }),
            ],
        ),

        C::TypeRule => (
            vec![base()],
            vec![
                with(|k| {
                    let (i, v) = (first(k, Op::Cmp), k.params[2]);
                    k.insts[i].args[0] = v;
                }),
                with(|k| {
                    let i = first(k, Op::Reduce);
                    k.insts[i].attrs[1] = Attr::Dim(7);
                }),
                with(|k| {
                    let (i, v) = (first(k, Op::Load), k.params[1]);
                    k.insts[i].args[0] = v;
                }),
            ],
        ),
        C::ResultType => (
            vec![base()],
            vec![
                with(|k| {
                    let i = first(k, Op::Cmp);
                    let v = k.insts[i].results[0];
                    k.values[v].ty = Type::Scalar(Scalar::I8);
                }),
                with(|k| {
                    let i = first(k, Op::If);
                    let v = k.insts[i].results[0];
                    k.values[v].ty = Type::Scalar(Scalar::I8);
                }),
            ],
        ),
        C::TileLimits => (
            vec![text("kernel @t(v0: f32) {\n v1 = splat v0 : tile<1x1x1x1x4096x4096xf32>\n}")],
            [&[4096, 4097][..], &[], &[4, 0], &[1; 7]]
                .into_iter()
                .map(|shape| {
                    with(|k| {
                        let i = first(k, Op::Splat);
                        let v = k.insts[i].results[0];
                        k.values[v].ty = Type::tile(shape, Scalar::F32);
                    })
                })
                .collect(),
        ),
        C::ViewFacts => (
            vec![
                param(ViewType::dense(Scalar::I8, &[one; 6]).with_align(1)),
                param(ViewType::dense(Scalar::F64, &[Extent::Fixed(0), Extent::Dynamic(3)]).with_align(4096)),
                param(ViewType::dense(Scalar::F64, &[one, one]).with_strides(&[Extent::Fixed(0), Extent::Fixed(1)])),
            ],
            vec![
                param(ViewType::dense(Scalar::I8, &[one; 7])),
                param(ViewType::dense(Scalar::I8, &[])),
                param(ViewType::dense(Scalar::I8, &[Extent::Dynamic(0)])),
                param(ViewType::dense(Scalar::I8, &[Extent::Fixed(1 << 31)])),
                param(ViewType::dense(Scalar::I8, &[one]).with_align(24)),
                param(ViewType::dense(Scalar::I8, &[one]).with_align(0)),
                param(ViewType::dense(Scalar::F32, &[one]).with_align(2)),
                param(ViewType::dense(Scalar::F32, &[one]).with_align(8192)),
                param(ViewType::dense(Scalar::F32, &[one, one]).with_strides(&[one])),
            ],
        ),
        C::LiteralRange => (
            vec![
                constant(Literal::Int(-128), Scalar::I8),
                constant(Literal::Int(1), Scalar::I1),
                constant(float(65504.0), Scalar::F16),
                constant(float(f64::NAN), Scalar::BF16),
                constant(float(-0.0), Scalar::F32),
            ],
            vec![
                constant(Literal::Int(128), Scalar::I8),
                constant(Literal::Int(-1), Scalar::I1),
                constant(Literal::Int(1), Scalar::F32),
                constant(float(1.0), Scalar::I32),
                constant(float(65505.0), Scalar::F16),
                constant(float(0.1), Scalar::F32),
            ],
        ),
        C::ViewPlace => (
            vec![base()],
            vec![
                with(|k| {
                    let (i, v) = (first(k, Op::Store), k.params[0]);
                    k.insts[i].args[3] = v;
                }),
                with(|k| {
                    let (i, v) = (first(k, Op::For), k.params[0]);
                    k.insts[i].args[3] = v;
                }),
                with(|k| {
                    let i = first(k, Op::Add);
                    let v = k.insts[i].results[0];
                    k.values[v].ty = k.values[k.params[0]].ty.clone();
                }),
            ],
        ),
        C::ParamType => (vec![param(Scalar::I1)], vec![param(Type::tile(&[4], Scalar::F32)), param(Type::tile(&[], Scalar::F32))]),

        C::MissingYield => (
            vec![
                text("kernel @m(v0: i1) {\n if v0 { yield } else { yield }\n}"),
                text("kernel @m(v0: i1) {\n while { yield v0 } do { }\n}"),
                text("kernel @m(v0: i32) {\n for v1 in 0..v0 step 1 {\n v2 = add v1, v1\n }\n}"),
            ],
            vec![
                text("kernel @m(v0: i1) {\n while { } do { }\n}"),
                text("kernel @m(v0: i32) {\n v3 = for v1 in 0..v0 step 1 carry v2 = 0 {\n v4 = add v1, v2\n }\n}"),
            ],
        ),
        C::StrayYield => {
            (vec![base()], vec![text("kernel @y() {\n yield\n}"), text("kernel @y(v0: i1) {\n if v0 { yield\n yield } else { yield }\n}")])
        }
        C::YieldTypes => (
            vec![base()],
            vec![
                text("kernel @y(v0: i1, v1: i32) {\n v2 = if v0 { yield v1 } else { yield v0 }\n}"),
                text("kernel @y(v0: i1, v1: i32) {\n v2 = if v0 { yield v1 } else { yield }\n}"),
                text("kernel @y(v1: i32) {\n v2 = for v3 in 0..v1 step 1 carry v4 = v1 { yield v4, v4 }\n}"),
                text("kernel @y(v1: i32) {\n while { yield v1 } do { yield }\n}"),
            ],
        ),
        C::RegionParams => (
            vec![base()],
            vec![
                with(|k| {
                    let i = first(k, Op::If);
                    let r = k.insts[i].regions[0];
                    k.add_region_param(r, Type::Scalar(Scalar::I32));
                }),
                with(|k| {
                    let i = first(k, Op::For);
                    let r = k.insts[i].regions[0];
                    k.add_region_param(r, Type::Scalar(Scalar::I32));
                }),
                with(|k| {
                    let i = first(k, Op::For);
                    let v = k.regions[k.insts[i].regions[0]].params[0];
                    k.values[v].ty = Type::Scalar(Scalar::I64);
                }),
                with(|k| {
                    let i = first(k, Op::While);
                    let r = k.insts[i].regions[1];
                    k.regions[r].params.pop();
                }),
                with(|k| {
                    let b = k.body;
                    k.add_region_param(b, Type::Scalar(Scalar::I32));
                }),
            ],
        ),
        C::Condition => (
            vec![base()],
            vec![
                text("kernel @c(v0: i32) {\n if v0 { yield } else { yield }\n}"),
                text("kernel @c(v0: i1) {\n v1 = splat v0 : tile<1xi1>\n if v1 { yield } else { yield }\n}"),
            ],
        ),
        C::LoopBounds => (
            vec![text("kernel @b(v0: i8) {\n for v1 in 0..v0 step 1 { yield }\n}")],
            vec![
                text("kernel @b(v0: i8) {\n for v1 in 0i32..v0 step 1 { yield }\n}"),
                text("kernel @b(v0: f32) {\n for v1 in 0..v0 step 1 { yield }\n}"),
                text("kernel @b(v0: i1) {\n for v1 in v0..v0 step v0 { yield }\n}"),
            ],
        ),
        C::LoopStep => (vec![step(1), step(i64::MAX)], vec![step(0), step(-1)]),

        C::Layout => {
            let kernel =
                |body: &str| text(&format!("kernel @l(v0: view<f32, [8, 8]>) {{\n v1 = load v0[0, 0] : tile<8x8xf32>\n {body}\n }}"));
            let (rows, columns) = (
                "blocked(size=[1, 2], lanes=[8, 4], warps=[1, 1], order=[1, 0])",
                "blocked(size=[2, 1], lanes=[4, 8], warps=[1, 1], order=[0, 1])",
            );
            (
                vec![
                    kernel(&format!(
                        "v2 = require_layout v1, {rows}\n v3 = release_layout v2\n v4 = require_layout v1, {columns}\n v5 = add v3, v4"
                    )),
                    kernel(&format!("v2 = require_layout v1, {rows}\n v4 = require_layout v1, {rows}\n v5 = add v2, v4")),
                ],
                vec![
                    kernel(&format!("v2 = require_layout v1, {rows}\n v4 = require_layout v1, {columns}\n v5 = add v2, v4")),
                    kernel("v2 = require_layout v1, blocked(size=[2], lanes=[32], warps=[1], order=[0])"),
                ],
            )
        }
        C::CombineRegion => {
            let region = |body: &str| {
                text(&format!(
                    "kernel @r(v0: view<f32, [?]>, v1: f32) {{
                        v2 = load v0[0] : tile<8xf32>
                        v3 = reduce_by v2, axis 0 combine v4 with v5 {{ {body} }}
                    }}"
                ))
            };
            (
                vec![region("v6 = add v4, v5\n v7 = mul v6, v1\n yield v7")],
                vec![
                    region("v6 = load v0[0] : tile<1xf32>\n yield v4"),
                    region("v6 = reshape v2 : tile<2x4xf32>\n yield v4"),
                    region("v6 = splat v4 : tile<2xf32>\n yield v5"),
                    region("v6 = cmp lt v4, v5\n v7 = if v6 { yield v4 } else { yield v5 }\n yield v7"),
                    region("print v4\n yield v4"),
                    region("v6 = reduce_by v2, axis 0 combine v7 with v8 { yield v7 }\n yield v6"),
                ],
            )
        }
        C::Name => (vec![Kernel::new("_Az09")], ["", "9a", "a-b", "a b", "é"].into_iter().map(Kernel::new).collect()),
        C::ClusterRange
        | C::TasksPlace
        | C::AllocPlace
        | C::TaskShape
        | C::TaskCapture
        | C::HandlePlace
        | C::WholeBuffer
        | C::ProductInFlight
        | C::Position
        | C::WaitedFor
        | C::Unawaited => super::explicit_tests::examples(code),
        C::Persistent => (
            vec![
                text("kernel @p() {\n v0 = worker_id\n v1 = num_workers\n v2 = num_programs x\n}"),
                text("kernel @p() {\n v0 = program_id x\n}"),
            ],
            vec![
                text("kernel @p() {\n v0 = worker_id\n v1 = program_id x\n}"),
                text("kernel @p() {\n v0 = program_id x\n v1 = num_workers\n}"),
                text("kernel @p() cluster 2 {\n v0 = worker_id\n}"),
            ],
        ),
        C::HintRange => (
            vec![text("kernel @h() warps=32 stages=16 {\n}"), text("kernel @h() warps=1 stages=1 {\n}")],
            vec![
                text("kernel @h() warps=3 {\n}"),
                text("kernel @h() warps=64 {\n}"),
                text("kernel @h() warps=0 {\n}"),
                text("kernel @h() stages=0 {\n}"),
                text("kernel @h() stages=17 {\n}"),
                text("kernel @h() positions [1, 0, 1] {\n}"),
                text("kernel @h() warps=4 {\n tasks {\n task a warps 4 { yield\n}\n}\n}"),
            ],
        ),
    }
}

#[test]
fn every_code_has_its_text_and_examples() {
    let mut texts: Vec<&str> = Vec::new();
    for &code in VerifyCode::ALL {
        assert!(!code.doc().trim().is_empty());
        assert!(!texts.contains(&code.text()), "{code} is the text of two codes");
        texts.push(code.text());
        let (good, bad) = examples(code);
        assert!(!good.is_empty() && !bad.is_empty(), "{code} has no examples");
        for (n, k) in good.iter().enumerate() {
            if let Err(e) = verify(k) {
                panic!("good example {n} of {code}:\n{}", e.pretty(k));
            }
        }
        for (n, k) in bad.iter().enumerate() {
            match verify(k) {
                Ok(_) => panic!("bad example {n} of {code} is accepted"),
                Err(e) => {
                    assert!(e.has(code), "bad example {n} of {code} gives\n{e}");
                    assert_eq!(e.to_string().lines().count(), e.errors.len(), "one line each");
                    let pretty = e.pretty(k);
                    for x in &e.errors {
                        assert!(pretty.contains(&x.message), "{pretty}\nlacks {x}");
                    }
                }
            }
        }
    }
    let mut sorted = texts.clone();
    sorted.sort_unstable();
    assert_eq!(texts, sorted, "codes stand in the order of their texts");
}

#[test]
fn one_mistake_gives_one_message() {
    // A value of unsound type is reported where it is made, not where it is used.
    let k = with(|k| {
        let i = first(k, Op::Splat);
        let v = k.insts[i].results[0];
        k.values[v].ty = Type::tile(&[0], Scalar::F32);
    });
    let e = verify(&k).unwrap_err();
    assert_eq!(e.errors.iter().filter(|e| e.code == VerifyCode::TileLimits).count(), 1, "{e}");
    let k = text("kernel @two(v0: i32) warps=3 {\n for v1 in 0..v0 step 0 { yield v1 }\n}");
    let codes: Vec<VerifyCode> = verify(&k).unwrap_err().errors.iter().map(|e| e.code).collect();
    assert_eq!(codes, [VerifyCode::HintRange, VerifyCode::LoopStep, VerifyCode::YieldTypes]);
}

#[test]
fn pretty_underlines_the_guilty_line() {
    let k = text("kernel @p(v0: i32) {\n    v1 = add v0, 1\n    for v2 in 0..v1 step 0 {\n        yield\n    }\n}");
    let e = verify(&k).unwrap_err();
    assert_eq!(
        e.pretty(&k),
        "kernel @p(v0: i32) {\n    v1 = add v0, 1\n    for v2 in 0..v1 step 0 {\n    ^~~~~~~~~~~~~~~~~~~~~~~~\n    \
         ; V0507: the step of `for` is 0; it must be positive\n        yield\n    }\n}\n"
    );
    assert_eq!(e.to_string(), "@p: V0507 3:5 inst5: the step of `for` is 0; it must be positive");
}

/// Kernels whose arenas hold anything at all: neither verifier nor printer may panic.
#[test]
fn garbage_is_refused_without_a_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % n
    };
    let mut refused = 0;
    for _ in 0..20_000 {
        let mut k = base();
        for _ in 0..=next(3) {
            let (values, insts, regions) = (k.values.len(), k.insts.len(), k.regions.len());
            let i = Inst::new(next(insts));
            let v = if next(8) == 0 { Value::reserved_value() } else { Value::new(next(values + 2)) };
            let r = Region::new(next(regions + 1));
            let d = &mut k.insts[i];
            match next(10) {
                0 if !d.args.is_empty() => {
                    let n = next(d.args.len());
                    d.args[n] = v;
                }
                1 => d.args.push(v),
                2 => d.op = Op::ALL[next(Op::ALL.len())],
                3 => d.present = next(256) as u8,
                4 => d.regions.push(r),
                5 => d.results.push(v),
                6 if r.index() < regions => k.regions[r].insts.push(Inst::new(next(insts + 1))),
                7 if v.index() < values => {
                    k.values[v].ty =
                        [Type::tile(&[0; 9], Scalar::I8), Type::Scalar(Scalar::F16), Type::tile(&[2; 7], Scalar::F32)][next(3)].clone();
                }
                8 => d.attrs.push(Attr::Perm([next(9) as u32; 7].into_iter().collect())),
                _ => {
                    d.args.pop();
                }
            }
        }
        if let Err(e) = verify(&k) {
            refused += 1;
            assert!(!e.pretty(&k).is_empty());
        }
    }
    assert!(refused > 10_000, "{refused}");
}
