//! Right and wrong objects, planted; and loops that ptxas gets wrong and right.

use super::*;
use crate::{AsmError, assemble, nvdisasm, ptxas, required};

/// Two products of a loop: operand A of the first is loaded in front of it, that of the second is made of the first one's result.
const TEXT: &str = ".visible .entry k(\n\t.param .u64 p0)\n{\n\t.reg .b32 %r<9>;\n\tld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd3];\n\
    $L1:\n\t.pragma \"nounroll\";\n\
    \twgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, %rd1, 0, 1, 1, 0;\n\
    \tcvt.rn.bf16x2.f32 %r5, %f2, %f1;\n\tcvt.rn.bf16x2.f32 %r6, %f4, %f3;\n\
    \twgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f5, %f6, %f7, %f8}, {%r5, %r6, %r5, %r6}, %rd2, 1, 1, 1, 0;\n\
    \t@%p1 bra.uni $L1;\n\tret;\n}\n";

/// Its object, with operand A of the first product in the registers from R`q` on, that of the second in those from R`p` on.
fn object(q: u32, p: u32) -> String {
    let lines = [
        format!("LDG.E.128 R{q}, desc[UR4][R2.64] ;"),
        format!("HGMMA.64x8x16.F32.BF16 R24, R{q}, gdesc[UR8], RZ, !UPT, gsb0 ;"),
        format!("F2FP.BF16.F32.PACK_AB R{p}, R25, R24 ;"),
        format!("F2FP.BF16.F32.PACK_AB R{}, R27, R26 ;", p + 1),
        format!("IMAD.MOV.U32 R{}, RZ, RZ, R{p} ;", p + 2),
        format!("MOV R{}, R{} ;", p + 3, p + 1),
        format!("HGMMA.64x8x16.F32.BF16 R28, R{p}, gdesc[UR12], R28, gsb0 ;"),
        "@P0 BRA `(.L_x_0) ;".to_owned(),
        "EXIT ;".to_owned(),
    ];
    let mut text = "\t.section\t.text.k,\"ax\",@progbits\nk:\n.text.k:\n".to_owned();
    for (i, line) in lines.iter().enumerate() {
        text += if i == 1 { ".L_x_0:\n" } else { "" };
        text += &format!("        /*{:04x}*/                   {line}\n", i * 16);
    }
    text
}

fn strays(text: &str, disassembly: &str) -> Vec<(usize, Followed, Stray)> {
    let read = |f: Finding| match f {
        Finding::Register { number, operand, stray, .. } => (number, operand, stray),
        other => panic!("{other}"),
    };
    follow(text, disassembly).into_iter().map(read).collect()
}

#[test]
fn registers_of_their_own_are_right() {
    assert_eq!(strays(TEXT, &object(8, 12)), []);
}

#[test]
fn a_kept_operand_in_the_registers_of_a_computed_one_is_seen() {
    assert_eq!(strays(TEXT, &object(8, 8)), [(0, Followed::A, Stray::Result(0))]);
    // In a part of them, too.
    assert_eq!(strays(TEXT, &object(8, 10)), [(0, Followed::A, Stray::Result(0))]);
}

#[test]
fn a_kept_operand_that_is_restored_is_right() {
    let shared = object(8, 8);
    let saved = shared.replace("EXIT", "NOP").replace(".L_x_0:\n", ".L_x_0:\nRESTORED");
    let restored = saved.replace(
        "RESTORED",
        "/*0001*/ MOV R8, R40 ;\n/*0002*/ MOV R9, R41 ;\n/*0003*/ IMAD.MOV.U32 R10, RZ, RZ, R42 ;\n/*0004*/ LDL R11, [R1] ;\n",
    );
    assert_eq!(strays(TEXT, &restored), []);
}

#[test]
fn a_sum_that_is_overwritten_or_lost_is_seen() {
    let right = object(8, 12);
    // The second product adds to the first one's result.
    assert_eq!(strays(TEXT, &right.replace("gdesc[UR12], R28", "gdesc[UR12], R24")), [(1, Followed::Sum, Stray::Result(0))]);
    // The second product multiplies something else.
    let elsewhere = right.replace("HGMMA.64x8x16.F32.BF16 R28, R12,", "HGMMA.64x8x16.F32.BF16 R28, R44,");
    assert_eq!(strays(TEXT, &elsewhere), [(1, Followed::A, Stray::Lost(0))]);
}

#[test]
fn loads_of_the_loop_in_a_kept_operand_are_seen() {
    let right = object(8, 12);
    for (load, stray) in [("LDS.128 R8, [R3] ;", Stray::SharedLoad), ("LDG.E.64 R10, desc[UR4][R2.64] ;", Stray::GlobalLoad)] {
        let bad = right.replace("@P0 BRA", &format!("{load}\n        /*0071*/                   @P0 BRA"));
        assert_eq!(strays(TEXT, &bad), [(0, Followed::A, stray)], "{load}");
    }
    let counted = right.replace("@P0 BRA", "IADD3 R9, R9, 0x1, RZ ;\n        /*0071*/                   @P0 BRA");
    assert_eq!(strays(TEXT, &counted), [(0, Followed::A, Stray::IterationBefore)]);
}

#[test]
fn what_a_call_leaves_is_not_what_another_call_found() {
    let call = "CALL.REL.NOINC `($k$slow) ;\n        /*0071*/                   @P0 BRA";
    let tail =
        "EXIT ;\n$k$slow:\n        /*0090*/                   MOV R50, R24 ;\n        /*00a0*/                   RET.REL.NODEC R4 `(k) ;";
    assert_eq!(strays(TEXT, &object(8, 12).replace("@P0 BRA", call).replace("EXIT ;", tail)), []);
}

#[test]
fn objects_without_the_products_are_refused() {
    assert!(matches!(follow(TEXT, "")[..], [Finding::NoFunction { .. }]));
    let unlike = object(8, 12).replace("HGMMA.64x8x16.F32.BF16 R28", "HGMMA.64x16x16.F32.BF16 R28");
    assert!(matches!(follow(TEXT, &unlike)[..], [Finding::Unlike { text: 2, object: 2, first: 1, .. }]));
}

#[test]
fn arms_of_a_choice_may_change_places() {
    let multiply = |d: u32, a: u32| {
        format!(
            "\twgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {{%f{d}, %f{}, %f{}, %f{}}}, {{%r{a}, %r{a}, %r{a}, %r{a}}}, %rd1, 1, 1, 1, 0;\n",
            d + 1,
            d + 2,
            d + 3
        )
    };
    // The second arm multiplies what was made of the first product, the first arm what was loaded.
    let head = ".visible .entry k(\n\t.param .u64 p0)\n{\n";
    let front = format!("{}\tcvt.rn.bf16x2.f32 %r9, %f2, %f1;\n\t@%p1 bra.uni $L1;\n", multiply(1, 1));
    let text = format!("{head}{front}{}\tbra.uni $L2;\n$L1:\n{}$L2:\n\tret;\n}}\n", multiply(5, 1), multiply(5, 9));
    let gmma = |a: u32, d: u32| format!("/*0010*/ HGMMA.64x8x16.F32.BF16 R{d}, R{a}, gdesc[UR8], R{d} ;\n");
    let made: String = (12..16).map(|r| format!("/*0011*/ F2FP.BF16.F32.PACK_AB R{r}, R25, R24 ;\n")).collect();
    let arms = [gmma(12, 28), gmma(8, 28)];
    let object = |[one, other]: [&str; 2]| {
        format!(
            "\t.section .text.k\n.text.k:\n{}{made}/*0020*/ @P0 BRA `(.L_x_1) ;\n{one}/*0040*/ BRA `(.L_x_2) ;\n.L_x_1:\n{other}.L_x_2:\n/*0060*/ EXIT ;\n",
            gmma(8, 24)
        )
    };
    assert_eq!(strays(&text, &object([&arms[1], &arms[0]])), []);
    assert_eq!(strays(&text, &object([&arms[0], &arms[1]])), []);
    assert!(!strays(&text, &object([&arms[0], &arms[0]])).is_empty());
}

/// A kernel around a body that multiplies. `%r5` is a zero that ptxas can't see through; `{Q}`, `{S}`, `{O}` and `{P}` in the body are operand A that is
/// loaded, a product with it, a product with the operand that `{P}` has made of the first one's result.
fn kernel(body: &str, renewed: bool) -> String {
    let list = |class: char, from: u32, n: u32| (from..from + n).map(|i| format!("%{class}{i}")).collect::<Vec<_>>().join(", ");
    let product = |d: u32, a: u32| {
        format!(
            "\twgmma.fence.sync.aligned;\n\twgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {{{}}}, {{{}}}, %rd10, 1, 1, 1, 0;\n\
             \twgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;\n",
            list('f', d, 16),
            list('r', a, 4)
        )
    };
    let lines = |n: u32, line: &dyn Fn(u32) -> String| (0..n).map(|i| format!("\t{};\n", line(i))).collect::<String>();
    let renew = lines(4, &|i| format!("xor.b32 %r{0}, %r{0}, %r5", 10 + i));
    let body = body
        .replace("{R}", if renewed { &renew } else { "" })
        .replace("{Q}", "\tld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd3];\n")
        .replace("{L}", "\tbar.sync 0;\n\tld.shared.v4.u32 {%r50, %r51, %r52, %r53}, [%r6];\n\tadd.s32 %r6, %r6, 2048;\n")
        .replace("{P}", &lines(4, &|i| format!("cvt.rn.bf16x2.f32 %r{}, %f{}, %f{}", 50 + i, 101 + 2 * i, 100 + 2 * i)))
        .replace("{S}", &product(100, 10))
        .replace("{O}", &product(200, 50))
        .replace("{Z}", &lines(16, &|i| format!("mov.f32 %f{}, 0f00000000", 100 + i)));
    // Loops: `(n` to `)n`; a wait in between makes blocks.
    let (mut text, mut waits) = (String::new(), 20);
    let mut chars = body.chars();
    while let Some(c) = chars.next() {
        match c {
            '(' | ')' => {
                let n = chars.next().unwrap();
                text += &match c {
                    '(' => format!("\tmov.b32 %r35{n}, 0;\n$L{n}:\n\t.pragma \"nounroll\";\n"),
                    _ => format!("\tadd.s32 %r35{n}, %r35{n}, 1;\n\tsetp.lt.s32 %p{n}, %r35{n}, %r{n};\n\t@%p{n} bra.uni $L{n};\n"),
                };
            }
            '~' => {
                waits += 1;
                text += &format!("$L{waits}:\n\tmbarrier.try_wait.parity.shared::cta.b64 %p15, [%r4], 0;\n\t@!%p15 bra $L{waits};\n");
            }
            _ => text.push(c),
        }
    }
    let stores = lines(16, &|i| format!("st.global.f32 [%rd3+{}], %f{}", 65536 + 2048 * i, 200 + i));
    let more = lines(16, &|i| format!("st.global.f32 [%rd3+{}], %f{}", 165_536 + 2048 * i, 100 + i));
    let zeros = lines(16, &|i| format!("mov.f32 %f{}, 0f00000000", 200 + i));
    format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n.visible .entry k(.param .u64 p0, .param .u32 p1, .param .u32 p2)\n\
         .reqntid 128, 1, 1\n{{\n\t.reg .b32 %r<400>;\n\t.reg .b64 %rd<40>;\n\t.reg .f32 %f<400>;\n\t.reg .pred %p<20>;\n\tld.param.u64 %rd1, [p0];\n\
         \tcvta.to.global.u64 %rd1, %rd1;\n\tld.param.u32 %r1, [p1];\n\tld.param.u32 %r2, [p2];\n\tmov.u32 %r3, %tid.x;\n\tmul.wide.u32 %rd2, %r3, 16;\n\
         \tadd.s64 %rd3, %rd1, %rd2;\n\tmov.u32 %r4, smem;\n\tshl.b32 %r6, %r3, 4;\n\tshr.u32 %r5, %r1, 31;\n\tmov.b64 %rd10, {{%r4, %r2}};\n{zeros}{text}{stores}{more}\tret;\n}}\n"
    )
}

/// What ptxas is known to get wrong, by what is renewed where.
const LOOPS: &[(&str, &str)] = &[
    ("a kept and a computed operand", "{Q}(1{R}{Z}{S}~{P}{O})1"),
    ("loads in between", "{Q}{Z}(1{R}{S}~{L}{O})1"),
    ("kept by the inner loop, computed by the outer one", "(2{Q}(1{R}{Z}{S}~{P}{O})1\tadd.s64 %rd3, %rd3, 8192;\n)2"),
    ("kept by both loops", "{Q}(2(1{R}{Z}{S}~{P}{O})1)2"),
    ("multiplied in the inner loop, the other one in the outer", "{Q}(2{R}{Z}(1{S})1{P}{O})2"),
    ("multiplied in the outer loop, the other one in the inner", "{Q}(2{R}{Z}{S}(1{P}{O}\tmul.f32 %f100, %f100, %f101;\n)1)2"),
];

#[test]
fn ptxas_is_seen_to_share_registers_and_not_to_share_renewed_ones() {
    if ptxas().is_none() || nvdisasm().is_none() {
        assert!(!required(), "{} / {}", AsmError::Missing, AsmError::NoDisassembler);
        return;
    }
    for (name, body) in LOOPS {
        let warnings = |renewed| assemble(&kernel(body, renewed), "sm_90a").unwrap_or_else(|e| panic!("{name}: {e}")).warnings;
        assert_eq!(warnings(true), Vec::<String>::new(), "{name}");
        let shared = warnings(false);
        // Later assemblers may know better.
        let known = crate::ptxas_version().is_some_and(|v| v.contains("V13.0.88") || v.contains("V12.8"));
        assert!(!known || shared.iter().any(|w| w.contains("of operand A holds")), "{name}: {shared:?}");
    }
}

/// A loop, a choice in it, and a division that is called; and another entry.
const LOOP: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p, .param .u32 n)\n{\n\
    .reg .b32 %r<4>;\n.reg .b64 %d<4>;\n.reg .f64 %f<4>;\n.reg .pred %p<2>;\nld.param.u64 %d0, [p];\nld.param.u32 %r1, [n];\n\
    mov.u32 %r0, 0;\nld.global.f64 %f0, [%d0];\nAGAIN:\nld.volatile.global.f64 %f1, [%d0+8];\nsetp.lt.f64 %p0, %f1, 0d0000000000000000;\n\
    @%p0 bra PAST;\ndiv.rn.f64 %f0, %f0, %f1;\nst.volatile.global.f64 [%d0+16], %f0;\nPAST:\nadd.u32 %r0, %r0, 1;\n\
    setp.lt.u32 %p1, %r0, %r1;\n@%p1 bra AGAIN;\nst.global.f64 [%d0], %f0;\nret;\n}\n\
    .visible .entry other(.param .u64 p)\n{\n.reg .b64 %d<2>;\n.reg .b32 %r<2>;\n.reg .pred %p;\nld.param.u64 %d0, [p];\n\
    AGAIN:\nld.volatile.global.u32 %r0, [%d0];\nsetp.ne.u32 %p, %r0, 0;\n@%p bra AGAIN;\nret;\n}\n";

#[test]
fn addresses_lead_where_labels_do() {
    use crate::nvdisasm::disassemble_functions;
    use crate::{AsmError, assemble_bytes, disassemble, nvdisasm, required};
    let object = match assemble_bytes(LOOP, "sm_90a") {
        Ok((_, object)) if nvdisasm().is_some() => object,
        Ok(_) | Err(AsmError::Missing) => return assert!(!required(), "ptxas or nvdisasm is missing"),
        Err(e) => panic!("{e}"),
    };
    let labels = sass::read(&disassemble(&object).unwrap());
    let branches = labels.iter().flat_map(|c| &c.steps).filter(|s| matches!(s.next, code::Next::Branches(_))).count();
    let calls = disassemble(&object).unwrap().matches("CALL").count();
    assert!(labels.len() == 2 && branches >= 2 && calls >= 1, "{branches} branches, {calls} calls");
    let addresses = disassemble_functions(&object, "sm_90a", |_| true).unwrap();
    assert_eq!(addresses.len(), 2);
    for code in labels {
        let text = &addresses[&code.name];
        assert!(!text.contains(".L_x"));
        assert_eq!(sass::read(text), [code]);
    }
    // What is not wanted is left out, and what is keeps its name.
    let one = disassemble_functions(&object, "sm_90a", |name| name == "other").unwrap();
    assert!(one.keys().eq(["other"]));
    assert_eq!(sass::read(&one["other"]), sass::read(&addresses["other"]));
}
