//! What the parser refuses and how it says so; mutated texts must not make it panic.

use crate::common::gemm::{Faults, ptx};
use crate::common::{Rng, kernel};
use tilelift_nvptx_sim::Module;

fn error(body: &str) -> String {
    match Module::parse(&kernel("sm_80", ".param .u64 out", body)) {
        Ok(_) => panic!("`{body}` was accepted"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn refusals_are_located() {
    for (body, needle) in [
        ("frobnicate.u32 %r1, %r2;", "`frobnicate` is not modelled"),
        ("add.u32.banana %r1, %r2, %r3;", "modifier `.banana` of `add` is not modelled"),
        ("add.u32 %r1, %r2;", "takes 3 operands"),
        ("add.u32 %r1, %r2, %r99;", "`%r99` is not declared"),
        ("add.u32 %r1, %r2, %rd3;", "`%rd3` is a .b64 register but .u32 is needed"),
        ("add.u32 %r1, %r2, %f3;", "`%f3` is a .f32 register"),
        ("add.f32 %f1, %f2, 1;", "floating-point constant"),
        ("add.u32 %r1, %r2, 4294967296;", "does not fit"),
        ("mul.u32 %r1, %r2, %r3;", "one of .lo, .hi, .wide"),
        ("shfl.bfly.b32 %r1, %r2, 1, 31;", "shfl.sync"),
        ("cvt.f16.f32 %h1, %f1;", "narrowing"),
        ("cvt.s32.f32 %r1, %f1;", ".rni"),
        ("cvt.rn.f32.f16 %f1, %h1;", "nothing is rounded"),
        ("fma.f32 %f1, %f2, %f3, %f4;", "does not exist"),
        ("ld.global.u32 %r1, [%r2];", "not an address"),
        ("ld.global.u32 %r1, [%rd2-4];", "`+` is expected"),
        ("ld.global.v4.u64 {%rd1,%rd2,%rd3,%rd4}, [%rd5];", "wider than 16"),
        ("ld.global.v2.u32 {%r1}, [%rd5];", "2 registers are needed"),
        ("st.const.u32 [%rd1], %r1;", "read-only"),
        ("bra NOWHERE;", "`NOWHERE` is not defined"),
        ("{ L: mov.u32 %r1, 0; } bra L;", "`L` is not defined"),
        ("L: L: ret;", "declared twice"),
        ("@%r1 bra L; L:", "not a predicate"),
        (
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.f16.f32 {%f1,%f2,%f3,%f4},{%r1,%r2,%r3,%r4},{%r5,%r6},{%f1,%f2,%f3,%f4};",
            "different types",
        ),
        ("mma.sync.aligned.m16n8k16.row.row.f32.bf16.bf16.f32 {%f1,%f2,%f3,%f4},{%r1,%r2,%r3,%r4},{%r5,%r6},{%f1,%f2,%f3,%f4};", ".col"),
        ("cp.async.cg.shared.global [%r1], [%rd1], 8;", "16, or 4 or 8 with .ca"),
        ("wgmma.fence.sync.aligned;", "needs .target sm_90a"),
        ("mov.u64 %rd1, %clock64;", "no time"),
        ("mov.u32 %r1, 0x;", "bad integer"),
        ("mov.f32 %f1, 0f123;", "bad f32"),
        ("/* open", "not closed"),
        ("mov.u32 %r1, \u{e9};", "unexpected character"),
    ] {
        let e = error(body);
        assert!(e.contains(needle), "`{body}`: {e}");
        assert!(e.contains('^'), "{e}");
    }
}

/// Forms that the declared version or target lacks.
#[test]
fn versions_and_targets() {
    let parse = |version: &str, target: &str, code: &str| {
        let t = format!(
            ".version {version}\n.target {target}\n.address_size 64\n.visible .entry k() {{ .reg .pred %p<3>; .reg .b16 %h<5>; .reg .b32 %r<7>; .reg .b64 %rd<3>; .reg .f32 %f<3>;\n{code}\nret; }}"
        );
        Module::parse(&t).map(|_| ()).map_err(|e| e.message)
    };
    let rows = [
        ("7.8", "sm_90", "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r1], {%r2};"),
        ("8.0", "sm_90", "elect.sync %r1|%p1, -1;"),
        ("7.8", "sm_80", "movmatrix.sync.aligned.m8n8.trans.b16 %r1, %r2;"),
        ("7.4", "sm_80", "ld.global.L1::no_allocate.u32 %r1, [%rd1];"),
        ("7.5", "sm_80", "cp.async.cg.shared.global [%r1], [%rd1], 16, %p1;"),
        ("7.8", "sm_80", "ld.shared::cta.u32 %r1, [%r2];"),
        ("7.8", "sm_90", "add.rn.bf16 %h1, %h2, %h3;"),
        ("7.1", "sm_80", "cvt.f32.bf16 %f1, %h1;"),
        ("7.8", "sm_90", "cvt.rn.bf16.s32 %h1, %r1;"),
        ("7.8", "sm_90", "cvt.rz.tf32.f32 %r1, %f1;"),
        ("7.0", "sm_80", "cp.async.cg.shared::cta.global [%r1], [%rd1], 16;"),
        ("7.0", "sm_80", "fma.rn.bf16 %h1, %h2, %h3, %h4;"),
    ];
    for (version, target, code) in rows {
        assert_eq!(parse(version, target, code), Ok(()), "{code}");
        if target == "sm_90" {
            assert!(parse(version, "sm_80", code).unwrap_err().contains("needs .target sm_90"), "{code}");
        }
        if version != "7.0" && target == "sm_80" {
            assert!(parse("7.0", target, code).unwrap_err().contains("needs .version"), "{code}");
        }
    }
    assert!(parse("7.0", "sm_90", "").unwrap_err().contains("7.8"));
    assert!(parse("7.8", "sm_90a", "").unwrap_err().contains("8.0"));
    assert!(parse("7.0", "sm_75", "").unwrap_err().contains("sm_80 and later"));
}

#[test]
fn position_of_an_error() {
    let e = Module::parse(".version 7.0\n.target sm_80\n.visible .entry k() {\n  .reg .u32 a;\n  add.u32 a, a, bb;\n}").unwrap_err();
    assert_eq!((e.line, e.col), (5, 17));
    assert_eq!(e.source_line, "  add.u32 a, a, bb;");
    assert!(Module::parse("").unwrap_err().message.contains(".version"));
    assert!(Module::parse(".version 7.0\n.target sm_80\n.entry k() {").unwrap_err().message.contains("not closed"));
}

/// Deletes, repeats and swaps pieces of a valid text.
#[test]
fn mutated_texts_do_not_panic() {
    let seeds = [
        ptx(64, 64, Faults::default()),
        kernel(
            "sm_80",
            ".param .u64 out",
            "{ .reg .u32 x; @%p1 bra L; ld.shared.v2.f32 {%f1,%f2}, [smem+16]; L: setp.lt.and.f32 %p1|%p2, %f1, 0f3F800000, !%p3; }",
        ),
    ];
    let pieces = [
        "{",
        "}",
        "[",
        "]",
        ";",
        ",",
        ".",
        "%",
        "@",
        "!",
        "|",
        "+",
        "-",
        "0x",
        "1.5e",
        "::",
        "/*",
        "\"",
        ".reg",
        "<999999999999>",
        "\u{1F600}",
        "((",
        "0f",
        "9999999999999999999999",
    ];
    let mut r = Rng(1);
    let mut accepted = 0;
    for round in 0..3000 {
        let s = &seeds[round % 2];
        let mut b: Vec<char> = if s.len() > 4000 {
            // A window around the declarations keeps long texts quick.
            s.chars().take(1500 + (r.next() % 1500) as usize).chain("\n}".chars()).collect()
        } else {
            s.chars().collect()
        };
        for _ in 0..1 + r.next() % 4 {
            let i = (r.next() % b.len() as u64) as usize;
            let n = (r.next() % 12) as usize;
            let j = (i + n).min(b.len());
            match r.next() % 4 {
                0 => drop(b.drain(i..j)),
                1 => {
                    let p = pieces[(r.next() % pieces.len() as u64) as usize];
                    b.splice(i..i, p.chars());
                }
                2 => {
                    let c: Vec<char> = b[i..j].to_vec();
                    b.splice(i..i, c);
                }
                _ => b[i] = char::from(32 + (r.next() % 95) as u8),
            }
            if b.is_empty() {
                b.push(' ');
            }
        }
        let text: String = b.into_iter().collect();
        match Module::parse(&text) {
            Ok(_) => accepted += 1,
            Err(e) => assert!(e.line >= 1 && e.col >= 1 && !e.to_string().is_empty()),
        }
    }
    assert!(accepted > 0, "some mutations are harmless");
}

#[test]
fn deep_nesting_is_an_error() {
    let body = "{".repeat(100_000);
    assert!(error(&body).contains("nested deeper"));
}
