//! Matrix instructions against plain loops: every mma shape, ldmatrix, stmatrix, movmatrix.

use crate::common::{Rng, Run, kernel, launch, module};
use tilelift_nvptx_sim::{Arg, Init, Memory};

/// (row or column, k) of element `e` of register `i` of lane `l` for operands A and B, from the tables of the PTX ISA.
/// `w` is the number of elements per 32-bit register (for f64: 1).
fn a_place(l: usize, i: usize, e: usize, w: usize, rows: usize) -> (usize, usize) {
    let (g, t) = (l / 4, l % 4);
    if rows == 8 { (g, t) } else { (g + if i % 2 == 1 { 8 } else { 0 }, w * t + e + if i >= 2 { 4 * w } else { 0 }) }
}

fn b_place(l: usize, i: usize, e: usize, w: usize) -> (usize, usize) {
    (w * (l % 4) + e + 4 * w * i, l / 4)
}

fn c_place(l: usize, i: usize, rows: usize) -> (usize, usize) {
    let (g, t) = (l / 4, l % 4);
    if rows == 8 { (g, 2 * t + i) } else { (g + if i >= 2 { 8 } else { 0 }, 2 * t + i % 2) }
}

struct Shape {
    name: &'static str,
    m: usize,
    k: usize,
    na: usize,
    nb: usize,
    nc: usize,
    /// Elements per register.
    w: usize,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    F16,
    F16Acc16,
    Bf16,
    Tf32,
    F64,
    Int(bool, bool),
}

/// Small integers are exact in every format here.
fn encode(kind: Kind, a: bool, v: i32) -> u64 {
    let f = v as f32;
    match kind {
        Kind::F16 | Kind::F16Acc16 => f16(f),
        Kind::Bf16 => u64::from(f.to_bits() >> 16),
        Kind::Tf32 => u64::from(f.to_bits()),
        Kind::F64 => f64::from(f).to_bits(),
        Kind::Int(sa, sb) => {
            let signed = if a { sa } else { sb };
            u64::from(if signed { v as i8 as u8 } else { v.unsigned_abs() as u8 })
        }
    }
}

/// The value `encode` keeps.
fn kept(kind: Kind, a: bool, v: i32) -> f64 {
    match kind {
        Kind::Int(sa, sb) if !(if a { sa } else { sb }) => v.abs().into(),
        _ => v.into(),
    }
}

fn f16(f: f32) -> u64 {
    if f == 0.0 {
        return 0;
    }
    let b = f.to_bits();
    u64::from(b >> 16 & 0x8000 | (((b >> 23 & 255) - 112) << 10) | (b >> 13 & 1023))
}

fn run(s: &Shape) {
    let mut r = Rng(s.k as u64 * 31 + s.m as u64);
    let mut small = || (r.next() % 15) as i32 - 7;
    let a: Vec<Vec<i32>> = (0..s.m).map(|_| (0..s.k).map(|_| small()).collect()).collect();
    let b: Vec<Vec<i32>> = (0..s.k).map(|_| (0..8).map(|_| small()).collect()).collect();
    let c: Vec<Vec<i32>> = (0..s.m).map(|_| (0..8).map(|_| small()).collect()).collect();
    let wide = s.kind == Kind::F64;
    let bits = if wide { 0 } else { 32 / s.w };
    // Per lane: registers of A, B, C as 64-bit words.
    let mut words: Vec<u64> = Vec::new();
    for l in 0..32 {
        for i in 0..s.na {
            words.push((0..s.w).fold(0, |x, e| {
                let (row, k) = a_place(l, i, e, s.w, s.m);
                x | encode(s.kind, true, a[row][k]) << (bits * e)
            }));
        }
        for i in 0..s.nb {
            words.push((0..s.w).fold(0, |x, e| {
                let (k, n) = b_place(l, i, e, s.w);
                x | encode(s.kind, false, b[k][n]) << (bits * e)
            }));
        }
        for i in 0..s.nc {
            words.push(match s.kind {
                Kind::F16Acc16 => (0..2).fold(0, |x, e| {
                    let (row, col) = c_place(l, 2 * i + e, s.m);
                    x | f16(c[row][col] as f32) << (16 * e)
                }),
                Kind::F64 => {
                    let (row, col) = c_place(l, i, s.m);
                    f64::from(c[row][col]).to_bits()
                }
                Kind::Int(..) => {
                    let (row, col) = c_place(l, i, s.m);
                    u64::from(c[row][col] as u32)
                }
                Kind::F16 | Kind::Bf16 | Kind::Tf32 => {
                    let (row, col) = c_place(l, i, s.m);
                    u64::from((c[row][col] as f32).to_bits())
                }
            });
        }
    }
    let per = s.na + s.nb + s.nc;
    let acc = match s.kind {
        Kind::F64 => "fd",
        Kind::Int(..) | Kind::F16Acc16 => "r",
        Kind::F16 | Kind::Bf16 | Kind::Tf32 => "f",
    };
    let opnd = if wide { "fd" } else { "r" };
    let (mut body, mut names) = (String::new(), Vec::new());
    for i in 0..per {
        let class = if i < s.na + s.nb { opnd } else { acc };
        let (name, ty) = (
            format!("%{class}{}", i + 1),
            if wide {
                "f64"
            } else if class == "f" {
                "f32"
            } else {
                "b32"
            },
        );
        body += &format!("ld.global.{ty} {name}, [%rd3+{}];\n", 8 * i);
        names.push(name);
    }
    let list = |r: std::ops::Range<usize>| format!("{{{}}}", names[r].join(","));
    let (ra, rb, rc) = (list(0..s.na), list(s.na..s.na + s.nb), list(s.na + s.nb..per));
    body += &format!("mma.sync.aligned.{} {rc}, {ra}, {rb}, {rc};\n", s.name);
    for i in 0..s.nc {
        let n = &names[s.na + s.nb + i];
        let ty = if wide {
            "f64"
        } else if acc == "f" {
            "f32"
        } else {
            "b32"
        };
        body += &format!("st.global.{ty} [%rd4+{}], {n};\n", 8 * i);
    }
    let text = kernel(
        "sm_80",
        ".param .u64 in, .param .u64 out",
        &format!(
            "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r60, %laneid;
             mad.wide.u32 %rd3, %r60, {}, %rd1; mad.wide.u32 %rd4, %r60, 32, %rd2;\n{body}",
            8 * per
        ),
    );
    let m = module(&text);
    let mut mem = Memory::new();
    let i = mem.alloc("in", Init::Bytes(words.iter().flat_map(|w| w.to_le_bytes()).collect()));
    let o = mem.alloc("out", Init::Zeroed(32 * 32));
    launch(&m, &Run::default(), &[Arg::U64(i), Arg::U64(o)], &mut mem).unwrap_or_else(|e| panic!("{e}"));
    let out = mem.read(o, 1024).expect("zeroed");
    let want = |row: usize, col: usize| -> f64 {
        f64::from(c[row][col]) + (0..s.k).map(|k| kept(s.kind, true, a[row][k]) * kept(s.kind, false, b[k][col])).sum::<f64>()
    };
    for l in 0..32 {
        for i in 0..s.nc {
            let w = u64::from_le_bytes(out[32 * l + 8 * i..][..8].try_into().expect("8 bytes"));
            if s.kind == Kind::F16Acc16 {
                for e in 0..2 {
                    let (row, col) = c_place(l, 2 * i + e, s.m);
                    assert_eq!(w >> (16 * e) & 0xffff, f16(want(row, col) as f32), "{} {row},{col}", s.name);
                }
                continue;
            }
            let (row, col) = c_place(l, i, s.m);
            let got = match s.kind {
                Kind::F64 => f64::from_bits(w),
                Kind::Int(..) => f64::from(w as u32 as i32),
                Kind::F16 | Kind::F16Acc16 | Kind::Bf16 | Kind::Tf32 => f32::from_bits(w as u32).into(),
            };
            assert_eq!(got, want(row, col), "{} {row},{col}", s.name);
        }
    }
}

#[test]
fn every_shape() {
    let s = |name, m, k, na, nb, nc, w, kind| Shape { name, m, k, na, nb, nc, w, kind };
    for shape in [
        s("m16n8k16.row.col.f32.f16.f16.f32", 16, 16, 4, 2, 4, 2, Kind::F16),
        s("m16n8k8.row.col.f32.f16.f16.f32", 16, 8, 2, 1, 4, 2, Kind::F16),
        s("m16n8k16.row.col.f16.f16.f16.f16", 16, 16, 4, 2, 2, 2, Kind::F16Acc16),
        s("m16n8k8.row.col.f16.f16.f16.f16", 16, 8, 2, 1, 2, 2, Kind::F16Acc16),
        s("m16n8k16.row.col.f32.bf16.bf16.f32", 16, 16, 4, 2, 4, 2, Kind::Bf16),
        s("m16n8k8.row.col.f32.bf16.bf16.f32", 16, 8, 2, 1, 4, 2, Kind::Bf16),
        s("m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 4, 2, 4, 1, Kind::Tf32),
        s("m16n8k4.row.col.f32.tf32.tf32.f32", 16, 4, 2, 1, 4, 1, Kind::Tf32),
        s("m16n8k32.row.col.s32.s8.s8.s32", 16, 32, 4, 2, 4, 4, Kind::Int(true, true)),
        s("m16n8k32.row.col.satfinite.s32.u8.s8.s32", 16, 32, 4, 2, 4, 4, Kind::Int(false, true)),
        s("m16n8k16.row.col.s32.s8.u8.s32", 16, 16, 2, 1, 4, 4, Kind::Int(true, false)),
        s("m16n8k16.row.col.s32.u8.u8.s32", 16, 16, 2, 1, 4, 4, Kind::Int(false, false)),
        s("m8n8k4.row.col.f64.f64.f64.f64", 8, 4, 1, 1, 2, 1, Kind::F64),
    ] {
        run(&shape);
    }
}

/// Fills 4 matrices in shared memory with distinct halves, moves them, returns per lane and register the result.
fn moved(target: &str, code: &str) -> Vec<[u32; 4]> {
    let text = kernel(
        target,
        ".param .u64 out",
        &format!(
            "ld.param.u64 %rd1, [out]; mov.u32 %r1, %laneid; mov.u32 %r2, smem;
             // Lane l writes row l: halves 8 l .. 8 l + 7.
             mul.lo.u32 %r3, %r1, 8; mad.lo.u32 %r4, %r1, 16, %r2;
             shl.b32 %r5, %r3, 16; add.u32 %r5, %r5, 0x10000; or.b32 %r5, %r5, %r3;
             add.u32 %r6, %r5, 0x20002; add.u32 %r7, %r5, 0x40004; add.u32 %r8, %r5, 0x60006;
             st.shared.v4.b32 [%r4], {{%r5,%r6,%r7,%r8}};
             mov.u32 %r10, 0; mov.u32 %r11, 0; mov.u32 %r12, 0; mov.u32 %r13, 0;
             bar.warp.sync -1;
             {code}
             mad.wide.u32 %rd2, %r1, 16, %rd1; st.global.v4.u32 [%rd2], {{%r10,%r11,%r12,%r13}};"
        ),
    );
    let m = module(&text);
    let mut mem = Memory::new();
    let o = mem.alloc("out", Init::Uninit(512));
    launch(&m, &Run { shared: 2048, ..Run::default() }, &[Arg::U64(o)], &mut mem).unwrap_or_else(|e| panic!("{e}"));
    let v = crate::common::u32s(mem.read(o, 512).expect("written"));
    v.chunks_exact(4).map(|c| [c[0], c[1], c[2], c[3]]).collect()
}

/// Halves (row, column) and (row, column) of matrix q as loaded by the fill above.
fn pair(q: usize, lo: (usize, usize), hi: (usize, usize)) -> u32 {
    let h = |p: (usize, usize)| ((8 * q + p.0) * 8 + p.1) as u32;
    h(lo) | h(hi) << 16
}

#[test]
fn ldmatrix_forms() {
    let plain = moved("sm_80", "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10,%r11,%r12,%r13}, [%r4];");
    let trans = moved("sm_80", "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r10,%r11,%r12,%r13}, [%r4];");
    let two = moved("sm_80", "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r10,%r11}, [%r4];");
    // Lanes 8..31 may hold anything as an address with x1.
    let one = moved("sm_80", "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r10}, [%r4];");
    for l in 0..32 {
        let (g, t) = (l / 4, l % 4);
        for q in 0..4 {
            assert_eq!(plain[l][q], pair(q, (g, 2 * t), (g, 2 * t + 1)));
            assert_eq!(trans[l][q], pair(q, (2 * t, g), (2 * t + 1, g)));
        }
        assert_eq!(two[l], [plain[l][0], plain[l][1], 0, 0]);
        assert_eq!(one[l], [trans[l][0], 0, 0, 0]);
    }
}

#[test]
fn stmatrix_undoes_ldmatrix() {
    for (ld, st) in [("", ""), (".trans", ".trans"), ("", ".trans")] {
        let got = moved(
            "sm_90",
            &format!(
                "ldmatrix.sync.aligned.m8n8.x4{ld}.shared.b16 {{%r20,%r21,%r22,%r23}}, [%r4];
                 stmatrix.sync.aligned.m8n8.x4{st}.shared.b16 [%r4+1024], {{%r20,%r21,%r22,%r23}};
                 bar.warp.sync -1; ld.shared.v4.b32 {{%r10,%r11,%r12,%r13}}, [%r4+1024];"
            ),
        );
        for (l, got) in got.iter().enumerate() {
            let (q, r) = (l / 8, l % 8);
            for (j, got) in got.iter().enumerate() {
                let want = if ld == st { pair(q, (r, 2 * j), (r, 2 * j + 1)) } else { pair(q, (2 * j, r), (2 * j + 1, r)) };
                assert_eq!(*got, want, "lane {l} word {j} {ld} {st}");
            }
        }
    }
}

#[test]
fn movmatrix_transposes() {
    let got = moved(
        "sm_90",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r20,%r21}, [%r4]; movmatrix.sync.aligned.m8n8.trans.b16 %r10, %r20; movmatrix.sync.aligned.m8n8.trans.b16 %r11, %r21;",
    );
    for (l, got) in got.iter().enumerate() {
        let (g, t) = (l / 4, l % 4);
        assert_eq!(got[..2], [pair(0, (2 * t, g), (2 * t + 1, g)), pair(1, (2 * t, g), (2 * t + 1, g))]);
    }
}

/// An undefined A register spoils its rows only.
#[test]
fn mma_poison_is_per_row_and_column() {
    let body = |store: &str| {
        format!(
            "mov.u32 %r1, 0; mov.f32 %f1, 0f00000000; mov.u32 %r60, %laneid; setp.lt.u32 %p1, %r60, 4; @!%p1 mov.u32 %r2, 0;
             mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {{%f4,%f5,%f6,%f7}}, {{%r2,%r1}}, {{%r1}}, {{%f1,%f1,%f1,%f1}};
             mad.wide.u32 %rd2, %r60, 8, %rd1; {store}"
        )
    };
    let run = Run::default();
    // Row 0 (lanes 0 to 3, registers 0 and 1) is undefined; rows 8 to 15 are not.
    crate::common::must_pass("sm_80", &body("st.global.v2.f32 [%rd2], {%f6,%f7};"), &run, 256);
    crate::common::must_pass(
        "sm_80",
        &body("selp.f32 %f4, %f6, %f4, %p1; selp.f32 %f5, %f6, %f5, %p1; st.global.v2.f32 [%rd2], {%f4,%f5};"),
        &run,
        256,
    );
    crate::common::must_fail("sm_80", &body("st.global.v2.f32 [%rd2], {%f4,%f5};"), &run, tilelift_nvptx_sim::ErrorKind::Poison, "lane 0");
}
