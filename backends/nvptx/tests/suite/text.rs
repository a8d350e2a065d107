//! The text itself: its frame, its determinism, the options, and the errors.

use crate::common::*;
use tilelift_ir::{GridAxis, Scalar};
use tilelift_isel::lane::{BinOp, Inst, LTy, LVal, LaneProblem, Program, ShuffleFrom, Special, UnOp};
use tilelift_nvptx::{EmitError, EmitOptions, Invalid, Limit, by_name, emit, sm_80, sm_90a};

fn vector_add() -> Program {
    elementwise("vector_add", &[F32, F32], F32, |a, v| a.bin(BinOp::Add, v[0], v[1]))
}

const VECTOR_ADD: &str = "\
.version 7.0
.target sm_80
.address_size 64
.visible .entry vector_add(
\t.param .b64 p0,
\t.param .b64 p1,
\t.param .b64 p2)
.reqntid 32, 1, 1
{
\t.reg .b32 %r<5>;
\t.reg .b64 %rd<7>;
\t.reg .f32 %f<4>;
\tmov.u32 %r2, %ctaid.x;
\tmov.u32 %r4, %tid.x;
\tld.param.b64 %rd2, [p0];
\tcvta.to.global.u64 %rd2, %rd2;
\tld.param.b64 %rd4, [p1];
\tcvta.to.global.u64 %rd4, %rd4;
\tld.param.b64 %rd6, [p2];
\tcvta.to.global.u64 %rd6, %rd6;
\tmad.lo.s32 %r1, %r2, 1, 0;
\tmad.lo.s32 %r3, %r1, 32, %r4;
\tmad.wide.s32 %rd1, %r3, 4, %rd2;
\tld.global.f32 %f1, [%rd1];
\tmad.wide.s32 %rd3, %r3, 4, %rd4;
\tld.global.f32 %f2, [%rd3];
\tadd.rn.f32 %f3, %f1, %f2;
\tmad.wide.s32 %rd5, %r3, 4, %rd6;
\tst.global.f32 [%rd5], %f3;
\tret;
}
";

#[test]
fn a_vector_addition() {
    let k = text(&vector_add(), &sm_80());
    assert_eq!(k.text, VECTOR_ADD);
    assert_eq!((k.entry.as_str(), k.threads, k.shared_bytes, k.params.len(), k.version), ("vector_add", 32, 0, 3, (7, 0)));
    assert_eq!(text(&vector_add(), &sm_80()), k, "twice the same");
}

#[test]
fn every_target_assembles_under_its_lowest_version() {
    for (name, version) in [("sm_80", (7, 0)), ("sm_89", (7, 8)), ("sm_90a", (8, 0))] {
        let target = by_name(name).unwrap();
        let k = text(&vector_add(), &target);
        assert_eq!(k.version, version);
        assert!(k.text.starts_with(&format!(".version {}.{}\n.target {name}\n", version.0, version.1)));
        let mut asm = Assembly::default();
        asm.add(&k);
        asm.check(name);
    }
}

#[test]
fn options() {
    let target = sm_90a();
    let options = EmitOptions { max_version: Some((8, 0)), min_blocks: Some(2), max_registers: Some(128) };
    let k = emit(&vector_add(), &target, &options).unwrap();
    assert!(k.text.contains(".minnctapersm 2\n.maxnreg 128\n"), "{}", k.text);
    let old = EmitOptions { max_version: Some((7, 8)), ..EmitOptions::default() };
    let e = emit(&vector_add(), &target, &old).unwrap_err();
    assert_eq!(e, EmitError::Version { need: (8, 0), cap: (7, 8), target: "sm_90a" });
    assert!(e.to_string().contains("update the driver"), "{e}");
}

#[test]
fn names_become_identifiers() {
    for (name, entry) in [("gemm_f16", "gemm_f16"), ("a-b.c", "a_b_c"), ("7", "k_7"), ("_x", "k__x"), ("", "k_")] {
        let mut p = vector_add();
        p.name = name.into();
        assert_eq!(text(&p, &sm_80()).entry, entry);
    }
}

#[test]
fn errors_name_the_place_and_the_remedy() {
    let none = EmitOptions::default();
    let mut p = vector_add();
    p.shared_bytes = 1 << 20;
    let e = emit(&p, &sm_80(), &none).unwrap_err();
    assert_eq!(e, EmitError::TooLarge { what: Limit::SharedBytes, need: 1 << 20, have: 166_912, target: "sm_80" });
    assert!(e.to_string().contains("smaller tiles"), "{e}");

    let mut p = vector_add();
    p.warps = 33;
    assert!(matches!(emit(&p, &sm_80(), &none), Err(EmitError::TooLarge { what: Limit::Warps, .. })));

    let mut p = vector_add();
    p.lanes = 64;
    assert!(matches!(emit(&p, &sm_80(), &none), Err(EmitError::Invalid(_))));

    // A use without a definition.
    let mut p = vector_add();
    p.body.remove(0);
    assert!(matches!(emit(&p, &sm_80(), &none), Err(EmitError::Invalid(_))));

    let f64 = LTy::Num(Scalar::F64);
    let p = elementwise("exp2", &[f64], f64, |a, v| a.un(UnOp::Exp2, v[0]));
    let Err(EmitError::Invalid(Invalid::Program(why))) = emit(&p, &sm_80(), &none) else { panic!("no machine has it") };
    assert!(matches!(why.problem, LaneProblem::NoFunction { op: UnOp::Exp2, .. }), "{why}");

    let mut target = sm_80();
    target.name = "gfx942";
    assert!(matches!(emit(&vector_add(), &target, &none), Err(EmitError::Unsupported(_))));
}

/// What the table of lane instructions has, this backend prints.
#[test]
fn every_instruction_has_a_text() {
    let program = tilelift_isel::lane::testing::everything().p;
    let kernel = text(&program, &sm_80());
    for part in ["prefetch.global", "ldmatrix", "mma.sync", "cp.async", "trap", "shfl.sync", "bar.sync"] {
        assert!(kernel.text.contains(part), "{part} is missing in\n{}", kernel.text);
    }
}

#[test]
fn where_a_lane_stands() {
    let mut asm = Assembly::default();
    for warps in [1u32, 4] {
        let mut a = Asm::new(&format!("standing_{warps}"), warps);
        let t = a.thread();
        let out = a.pointer(0);
        let all = [
            Special::Lane,
            Special::Warp,
            Special::ProgramId(GridAxis::X),
            Special::NumPrograms(GridAxis::X),
            Special::ProgramId(GridAxis::Y),
            Special::NumPrograms(GridAxis::Z),
            Special::ProgramId(GridAxis::Z),
            Special::NumPrograms(GridAxis::Y),
        ];
        let to = a.address(out, t, 32);
        let values: Vec<LVal> = all.iter().map(|&s| a.special(s)).collect();
        a.store(&values[..4], to, 0);
        a.store(&values[4..], to, 16);
        let n = 3 * 32 * warps as usize * 8;
        agree(&mut asm, &a.finish(), 3, &[Data::zeros(Scalar::I32, n)], Tolerance::Exact);
    }
    asm.check("sm_80");
}

/// Constants where an instruction takes only registers are loaded once, whatever block uses them.
#[test]
fn constants_in_registers_are_shared() {
    let p = elementwise("constants", &[F32], F32, |a, _| {
        let one = a.f32(1.0);
        let x = a.def(F32, |dst| Inst::Shuffle { dst, a: one, from: ShuffleFrom::Xor(1) });
        let again = a.f32(1.0);
        let y = a.def(F32, |dst| Inst::Shuffle { dst, a: again, from: ShuffleFrom::Xor(2) });
        a.bin(BinOp::Add, x, y)
    });
    let k = text(&p, &sm_80());
    assert_eq!(k.text.matches("0f3F800000").count(), 1, "{}", k.text);
    let mut asm = Assembly::default();
    agree(&mut asm, &p, 1, &[Data::zeros(Scalar::F32, 32), Data::zeros(Scalar::F32, 32)], Tolerance::Exact);
    asm.check("sm_80");
}

/// Printing is linear: a long program costs microseconds per line. The bound is loose; it catches a quadratic step.
#[test]
fn long_programs_print_quickly() {
    let long = |n: usize| {
        elementwise("long", &[F32], F32, |a, v| {
            let mut x = v[0];
            for i in 0..n {
                let c = a.f32(i as f32);
                let y = a.bin(BinOp::Mul, x, c);
                x = a.bin(BinOp::Add, y, v[0]);
            }
            x
        })
    };
    let p = long(40_000);
    let start = std::time::Instant::now();
    let k = text(&p, &sm_80());
    let spent = start.elapsed();
    assert!(k.text.lines().count() > 80_000);
    assert!(spent.as_secs() < 5, "{spent:?} for 80 000 instructions");
}
