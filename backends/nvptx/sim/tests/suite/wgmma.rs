//! wgmma: every type, operand source, major order and swizzle against a reference; register and group rules.

use crate::common::{Rng, module, schedules};
use std::fmt::Write;
use tilelift_nvptx_sim::{Arg, ErrorKind, Init, Launch, Memory, Module, Report, SimConfig, SimError};

/// Operand formats: name, bytes, K.
#[derive(Clone, Copy, PartialEq, Debug)]
enum T {
    F16,
    Bf16,
    Tf32,
    E4m3,
    E5m2,
    S8,
    U8,
}

impl T {
    fn name(self) -> &'static str {
        match self {
            T::F16 => "f16",
            T::Bf16 => "bf16",
            T::Tf32 => "tf32",
            T::E4m3 => "e4m3",
            T::E5m2 => "e5m2",
            T::S8 => "s8",
            T::U8 => "u8",
        }
    }

    fn bytes(self) -> usize {
        match self {
            T::F16 | T::Bf16 => 2,
            T::Tf32 => 4,
            T::E4m3 | T::E5m2 | T::S8 | T::U8 => 1,
        }
    }

    fn k(self) -> usize {
        32 / self.bytes()
    }

    /// A small integer in the format, little-endian. Each of -3..=3 is exact in all of them (u8: the magnitude).
    fn encode(self, v: i32) -> Vec<u8> {
        let f = v as f32;
        match self {
            T::F16 => f16_bits(v).to_le_bytes().to_vec(),
            T::Bf16 => ((f.to_bits() >> 16) as u16).to_le_bytes().to_vec(),
            // The low mantissa bits must not matter.
            T::Tf32 => (f.to_bits() | 0xabc).to_le_bytes().to_vec(),
            // 1 = 0x38, 2 = 0x40, 3 = 0x44 with three mantissa bits; one fewer for e5m2.
            T::E4m3 => vec![[0, 0x38, 0x40, 0x44][v.unsigned_abs() as usize] | if v < 0 { 0x80 } else { 0 }],
            T::E5m2 => vec![[0, 0x3c, 0x40, 0x42][v.unsigned_abs() as usize] | if v < 0 { 0x80 } else { 0 }],
            T::S8 => vec![v as i8 as u8],
            T::U8 => vec![v.unsigned_abs() as u8],
        }
    }

    fn value(self, v: i32) -> i32 {
        if self == T::U8 { v.abs() } else { v }
    }
}

/// Integers up to 2048 in f16.
fn f16_bits(v: i32) -> u16 {
    if v == 0 {
        return 0;
    }
    let m = v.unsigned_abs();
    let e = 31 - m.leading_zeros();
    (if v < 0 { 0x8000 } else { 0 }) | ((e + 15) << 10) as u16 | ((m << (10 - e)) & 0x3ff) as u16
}

fn f16_value(h: u16) -> i32 {
    if h & 0x7fff == 0 {
        return 0;
    }
    let e = i32::from(h >> 10 & 31) - 15;
    let m = i32::from(h & 0x3ff | 0x400);
    let v = if e >= 10 { m << (e - 10) } else { m >> (10 - e) };
    if h & 0x8000 != 0 { -v } else { v }
}

/// How an operand lies in shared memory.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Lay {
    mn_major: bool,
    /// Swizzle span in bytes; 0 for none.
    span: usize,
    /// Step along K inside the swizzle row, in units of 32 bytes (K-major only).
    step: usize,
}

impl Lay {
    /// Bytes, and the high descriptor fields (LBO, SBO, mode).
    fn fields(self, mn: usize, k: usize) -> (usize, u64, u64, u64) {
        let mode = match self.span {
            0 => 0,
            128 => 1,
            64 => 2,
            _ => 3,
        };
        match (self.mn_major, self.span) {
            // Core matrices of 128 bytes: along K first, then along MN (and for MN-major the other way round).
            (false, 0) => (mn * 32, 128, 256, 0),
            (true, 0) => (mn * 2 * k, (mn / 8 * 128) as u64, 128, 0),
            (false, s) => (mn * s, 16, 8 * s as u64, mode),
            (true, s) => ((2 * mn).div_ceil(s) * k * s, (k * s) as u64, 8 * s as u64, mode),
        }
    }

    /// Byte of an element before the swizzle.
    fn linear(self, r: usize, kk: usize, es: usize, mn: usize, k: usize) -> usize {
        let b = kk * es;
        match (self.mn_major, self.span) {
            (false, 0) => r / 8 * 256 + b / 16 * 128 + r % 8 * 16 + b % 16,
            (true, 0) => r / 8 * 128 + kk / 8 * (mn / 8 * 128) + kk % 8 * 16 + 2 * r % 16,
            (false, s) => r * s + 32 * self.step + b,
            (true, s) => 2 * r / s * (k * s) + kk * s + 2 * r % s,
        }
    }

    fn place(self, r: usize, kk: usize, es: usize, mn: usize, k: usize) -> usize {
        let a = self.linear(r, kk, es, mn, k);
        let mask = if self.span == 0 { 0 } else { self.span / 16 - 1 };
        a ^ ((a >> 7 & mask) << 4)
    }
}

/// An image of an operand, and its descriptor relative to the start of the image.
fn image(t: T, lay: Lay, m: &[Vec<i32>]) -> (Vec<u8>, u64) {
    let (mn, k) = (m.len(), t.k());
    let (bytes, lbo, sbo, mode) = lay.fields(mn, k);
    let mut out = vec![0x55; bytes];
    for (r, row) in m.iter().enumerate() {
        for (kk, &v) in row.iter().enumerate() {
            let at = lay.place(r, kk, t.bytes(), mn, k);
            out[at..at + t.bytes()].copy_from_slice(&t.encode(v));
        }
    }
    let d = mode << 62 | sbo >> 4 << 32 | lbo >> 4 << 16 | (32 * lay.step as u64) >> 4;
    (out, d)
}

#[derive(Clone, Copy, Debug)]
struct Case {
    a: T,
    b: T,
    acc: &'static str,
    n: usize,
    /// `None`: A in registers.
    la: Option<Lay>,
    lb: Lay,
    scale_d: bool,
    neg: (bool, bool),
}

/// One warpgroup loads both images, multiplies once and stores all accumulators.
fn text(c: &Case, image_bytes: usize) -> String {
    let regs = if c.acc == "f16" { c.n / 4 } else { c.n / 2 };
    let (rt, kind) = match c.acc {
        "f32" => ("f32", "f"),
        "s32" => ("s32", "r"),
        _ => ("b32", "r"),
    };
    let mut s = String::new();
    let mut o = |l: &str| writeln!(s, "{l}").expect("string");
    o(".version 8.4\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];");
    o(
        ".visible .entry k(.param .u64 img, .param .u64 frag, .param .u64 init, .param .u64 out, .param .u64 da, .param .u64 db)\n.maxntid 128, 1, 1\n{",
    );
    o(".reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .b32 %a<4>;");
    o(&format!(".reg .{rt} %c<{regs}>;"));
    o(
        "ld.param.u64 %rd1, [img]; ld.param.u64 %rd2, [frag]; ld.param.u64 %rd3, [init]; ld.param.u64 %rd4, [out]; ld.param.u64 %rd5, [da]; ld.param.u64 %rd6, [db];",
    );
    o("mov.u32 %r1, %tid.x; mov.u32 %r2, smem; mul.lo.u32 %r3, %r1, 16;");
    o(&format!(
        "L: add.u32 %r4, %r2, %r3; cvt.u64.u32 %rd7, %r3; add.u64 %rd7, %rd7, %rd1; ld.global.v4.u32 {{%r5,%r6,%r7,%r8}}, [%rd7];
         st.shared.v4.u32 [%r4], {{%r5,%r6,%r7,%r8}}; add.u32 %r3, %r3, 2048; setp.lt.u32 %p1, %r3, {image_bytes}; @%p1 bra L;"
    ));
    o("fence.proxy.async.shared::cta; bar.sync 0;");
    o("mad.wide.u32 %rd8, %r1, 16, %rd2; ld.global.v4.u32 {%a0,%a1,%a2,%a3}, [%rd8];");
    o(&format!("mad.wide.u32 %rd9, %r1, {}, %rd3; mad.wide.u32 %rd10, %r1, {}, %rd4;", 4 * regs, 4 * regs));
    for i in 0..regs {
        o(&format!("ld.global.{rt} %c{i}, [%rd9+{}];", 4 * i));
    }
    let _ = kind;
    o("shr.u32 %r9, %r2, 4; cvt.u64.u32 %rd11, %r9; add.u64 %rd5, %rd5, %rd11; add.u64 %rd6, %rd6, %rd11;");
    o(&format!("mov.u32 %r10, {}; setp.ne.u32 %p2, %r10, 0;", u32::from(c.scale_d)));
    o("wgmma.fence.sync.aligned;");
    let list: Vec<String> = (0..regs).map(|i| format!("%c{i}")).collect();
    let a = if c.la.is_some() { "%rd5" } else { "{%a0,%a1,%a2,%a3}" };
    let mut tail = String::new();
    if !matches!(c.a, T::S8 | T::U8) {
        let _ = write!(tail, ", {}, {}", if c.neg.0 { -1 } else { 1 }, if c.neg.1 { -1 } else { 1 });
    }
    if matches!(c.a, T::F16 | T::Bf16) {
        if let Some(l) = c.la {
            let _ = write!(tail, ", {}", u32::from(l.mn_major));
        }
        let _ = write!(tail, ", {}", u32::from(c.lb.mn_major));
    }
    o(&format!(
        "wgmma.mma_async.sync.aligned.m64n{}k{}.{}.{}.{} {{{}}}, {a}, %rd6, %p2{tail};",
        c.n,
        c.a.k(),
        c.acc,
        c.a.name(),
        c.b.name(),
        list.join(",")
    ));
    o("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;");
    for i in 0..regs {
        o(&format!("st.global.{rt} [%rd10+{}], %c{i};", 4 * i));
    }
    o("ret;\n}");
    s
}

fn run(c: &Case, config: SimConfig, seed: u64) {
    let mut rng = Rng(seed);
    let mut matrix =
        |rows: usize, k: usize| -> Vec<Vec<i32>> { (0..rows).map(|_| (0..k).map(|_| (rng.next() % 7) as i32 - 3).collect()).collect() };
    let k = c.a.k();
    let (a, b) = (matrix(64, k), matrix(c.n, k));
    let old = matrix(64, c.n);
    let (mut img, mut da) = match c.la {
        Some(l) => image(c.a, l, &a),
        None => (Vec::new(), 0),
    };
    img.resize(img.len().next_multiple_of(1024), 0x55);
    let (ib, mut db) = image(c.b, c.lb, &b);
    db += img.len() as u64 >> 4;
    img.extend(ib);
    img.resize(img.len().next_multiple_of(2048), 0x55);
    da += 0;
    // A by the fragment layout: row 16 w + g + 8 (i & 1), k = e t + 4 e (i >> 1) + element, e elements to a register.
    let e = 4 / c.a.bytes();
    let mut frag = Vec::new();
    for t in 0..128usize {
        let (w, g, q) = (t / 32, t % 32 / 4, t % 4);
        for i in 0..4 {
            for x in 0..e {
                frag.extend(c.a.encode(a[16 * w + g + 8 * (i & 1)][e * q + 4 * e * (i >> 1) + x]));
            }
        }
    }
    // Rows and columns of accumulator register i (half h).
    let half = c.acc == "f16";
    let regs = if half { c.n / 4 } else { c.n / 2 };
    let at = |t: usize, i: usize, h: usize| {
        let (w, g, q) = (t / 32, t % 32 / 4, t % 4);
        if half {
            (16 * w + g + 8 * (i & 1), 8 * (i >> 1) + 2 * q + h)
        } else {
            (16 * w + g + 8 * (i >> 1 & 1), 8 * (i >> 2) + 2 * q + (i & 1))
        }
    };
    let mut init = Vec::new();
    for t in 0..128 {
        for i in 0..regs {
            let v = |h| {
                let (r, col) = at(t, i, h);
                old[r][col]
            };
            init.extend(
                match c.acc {
                    "f32" => (v(0) as f32).to_bits(),
                    "s32" => v(0) as u32,
                    _ => u32::from(f16_bits(v(0))) | u32::from(f16_bits(v(1))) << 16,
                }
                .to_le_bytes(),
            );
        }
    }
    let m = module(&text(c, img.len()));
    let mut mem = Memory::new();
    let pi = mem.alloc("img", Init::Bytes(img.clone()));
    let pf = mem.alloc("frag", Init::Bytes(frag));
    let p0 = mem.alloc("init", Init::Bytes(init));
    let po = mem.alloc("out", Init::Uninit(512 * regs));
    let args = [Arg::U64(pi), Arg::U64(pf), Arg::U64(p0), Arg::U64(po), Arg::U64(da), Arg::U64(db)];
    let l = Launch { entry: "k", grid: [1; 3], block: [128, 1, 1], shared_bytes: img.len() as u32, args: &args, config };
    m.launch(&l, &mut mem).unwrap_or_else(|e| panic!("{c:?}: {e}"));
    let out = mem.read(po, 512 * regs).expect("all stored");
    let sign = if c.neg.0 != c.neg.1 { -1 } else { 1 };
    for t in 0..128 {
        for i in 0..regs {
            let word = u32::from_le_bytes(out[4 * (t * regs + i)..][..4].try_into().expect("4 bytes"));
            for h in 0..if half { 2 } else { 1 } {
                let (r, col) = at(t, i, h);
                let sum: i32 = (0..k).map(|x| c.a.value(a[r][x]) * c.b.value(b[col][x])).sum();
                let want = sign * sum + if c.scale_d { old[r][col] } else { 0 };
                let got = match c.acc {
                    "f32" => f32::from_bits(word) as i32,
                    "s32" => word as i32,
                    _ => f16_value((word >> (16 * h)) as u16),
                };
                assert_eq!(got, want, "{c:?} row {r} column {col}");
            }
        }
    }
}

const KM: Lay = Lay { mn_major: false, span: 128, step: 0 };

fn case(a: T, b: T, acc: &'static str, n: usize) -> Case {
    Case { a, b, acc, n, la: Some(KM), lb: KM, scale_d: true, neg: (false, false) }
}

/// All layouts of a type.
fn layouts(t: T) -> Vec<Lay> {
    let mut v = vec![Lay { mn_major: false, span: 0, step: 0 }];
    for span in [32, 64, 128] {
        for step in 0..span / 32 {
            v.push(Lay { mn_major: false, span, step });
        }
    }
    if matches!(t, T::F16 | T::Bf16) {
        for span in [0, 32, 64, 128] {
            v.push(Lay { mn_major: true, span, step: 0 });
        }
    }
    v
}

#[test]
fn types_and_columns() {
    let mut seed = 0;
    for (a, b, acc) in [
        (T::F16, T::F16, "f32"),
        (T::F16, T::F16, "f16"),
        (T::Bf16, T::Bf16, "f32"),
        (T::Tf32, T::Tf32, "f32"),
        (T::E4m3, T::E4m3, "f32"),
        (T::E4m3, T::E5m2, "f16"),
        (T::E5m2, T::E4m3, "f32"),
        (T::E5m2, T::E5m2, "f32"),
        (T::S8, T::S8, "s32"),
        (T::U8, T::S8, "s32"),
        (T::S8, T::U8, "s32"),
        (T::U8, T::U8, "s32"),
    ] {
        let cols: &[usize] = if acc == "s32" { &[8, 24, 32, 48, 256] } else { &[8, 24, 72, 128, 176, 256] };
        for &n in cols {
            seed += 1;
            let c = case(a, b, acc, n);
            run(&c, SimConfig { seed, ..SimConfig::default() }, seed);
            run(&Case { la: None, scale_d: false, ..c }, SimConfig { seed, ..SimConfig::default() }, seed);
        }
    }
}

#[test]
fn layouts_of_both_operands() {
    for t in [T::F16, T::Bf16, T::Tf32, T::E4m3, T::S8] {
        let (b, acc) = (t, if t == T::S8 { "s32" } else { "f32" });
        for (i, l) in layouts(t).into_iter().enumerate() {
            for n in [64, 192] {
                let c = case(t, b, acc, n);
                run(&Case { la: Some(l), ..c }, SimConfig::default(), i as u64);
                run(&Case { lb: l, ..c }, SimConfig::default(), i as u64);
                run(&Case { la: None, lb: l, ..c }, SimConfig::default(), i as u64);
            }
        }
    }
    // Both MN-major; narrow and wide.
    for n in [8, 64, 256] {
        let l = Lay { mn_major: true, span: 128, step: 0 };
        run(&Case { la: Some(l), lb: l, ..case(T::Bf16, T::Bf16, "f32", n) }, SimConfig::default(), 9);
    }
}

#[test]
fn scales_and_schedules() {
    for neg in [(true, false), (false, true), (true, true)] {
        run(&Case { neg, ..case(T::Bf16, T::Bf16, "f32", 64) }, SimConfig::default(), 3);
    }
    for c in schedules() {
        run(&case(T::F16, T::F16, "f32", 32), c, 4);
    }
}

// ---- rules ----

/// 256 threads. Warpgroup 0 fills two 64x16 tiles (A at 0, B at 8192: rows of 32 bytes) and does `body`; the accumulators are %c0..%c31.
fn rules(body: &str) -> Module {
    let list: Vec<String> = (0..32).map(|i| format!("%c{i}")).collect();
    let mma = format!("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {{{}}}, %rd5, %rd6, %p2, 1, 1, 0, 0;", list.join(","));
    let rs = mma.replace("%rd5", "{%a0,%a1,%a2,%a3}").replace("1, 1, 0, 0", "1, 1, 0");
    let body = body
        .replace("MMA", &mma)
        .replace("MMRS", &rs)
        .replace("FENCE", "wgmma.fence.sync.aligned;")
        .replace("COMMIT", "wgmma.commit_group.sync.aligned;")
        .replace("WAIT", "wgmma.wait_group.sync.aligned");
    let zero: String = (0..32).map(|i| format!("mov.f32 %c{i}, 0f00000000; ")).collect();
    module(&format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n.visible .entry k(.param .u64 out)\n.maxntid 256, 1, 1\n{{
         .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .b32 %a<4>; .reg .f32 %c<32>; .reg .f32 %f<4>;
         ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, smem; mov.u32 %r10, 0x3f803f80; mad.lo.u32 %r3, %r1, 16, %r2;
         mov.u32 %a0, %r10; mov.u32 %a1, %r10; mov.u32 %a2, %r10; mov.u32 %a3, %r10; setp.ne.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, %r1;
         st.shared.v4.u32 [%r3], {{%r10,%r10,%r10,%r10}}; st.shared.v4.u32 [%r3+8192], {{%r10,%r10,%r10,%r10}};
         fence.proxy.async.shared::cta; bar.sync 0; setp.gt.u32 %p3, %r1, 127; {zero}
         shr.u32 %r4, %r2, 4; add.u32 %r5, %r4, 512; mov.u32 %r6, 0xC0000010; mov.b64 %rd5, {{%r4, %r6}}; mov.b64 %rd6, {{%r5, %r6}};
         mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd2, %rd1; @%p3 bra OTHER;
         {body}
         OTHER: ret; }}"
    ))
}

fn go(m: &Module, config: SimConfig) -> Result<(Vec<f32>, Report), SimError> {
    let mut mem = Memory::new();
    let o = mem.alloc("out", Init::Zeroed(1024));
    let args = [Arg::U64(o)];
    let l = Launch { entry: "k", grid: [1; 3], block: [256, 1, 1], shared_bytes: 12288, args: &args, config };
    let r = m.launch(&l, &mut mem)?;
    Ok((crate::common::f32s(mem.read(o, 512).expect("zeroed")), r))
}

fn fine(body: &str, want: f32) {
    let m = rules(body);
    for c in schedules() {
        let (v, _) = go(&m, c).unwrap_or_else(|e| panic!("{e}\n{body}"));
        assert_eq!(v, vec![want; 128], "{body}");
    }
}

fn wrong(body: &str, kind: ErrorKind, needle: &str) {
    let m = rules(body);
    for c in schedules() {
        let e = match go(&m, c.clone()) {
            Ok(_) => panic!("no fault under {:?} {:?}: {body}", c.policy, c.landing),
            Err(e) => e,
        };
        assert_eq!(e.kind, kind, "{e}\n{body}");
        assert!(e.to_string().contains(needle), "`{needle}` is not in:\n{e}");
    }
}

const ST: &str = "st.global.f32 [%rd2], %c5;";

/// Rows 24, 25, 26 of the litmus table and the register rules around them.
#[test]
fn registers() {
    fine(&format!("FENCE MMA COMMIT WAIT 0; {ST}"), 16.0);
    // Two on the same accumulators under one wait.
    fine(&format!("FENCE MMA MMA COMMIT WAIT 0; {ST}"), 32.0);
    fine(&format!("FENCE MMA COMMIT MMA COMMIT WAIT 1; WAIT 0; {ST}"), 32.0);
    fine(
        &format!(
            "FENCE MMRS COMMIT WAIT 0; mov.u32 %a0, 0; mov.u32 %a1, 0; mov.u32 %a2, 0; mov.u32 %a3, 0; FENCE MMRS COMMIT WAIT 0; {ST}"
        ),
        16.0,
    );
    let k = ErrorKind::InFlight;
    wrong(&format!("FENCE MMA COMMIT {ST} WAIT 0;"), k, "st.global.f32");
    wrong(&format!("FENCE MMA COMMIT WAIT 1; {ST} WAIT 0;"), k, "is an accumulator");
    // Not committed: the wait does not cover it.
    wrong(&format!("FENCE MMA WAIT 0; {ST}"), k, "is an accumulator");
    wrong("FENCE MMA COMMIT mov.f32 %c7, 0f00000000; WAIT 0;", k, "mov.f32 %c7");
    wrong("FENCE MMRS COMMIT mov.u32 %a2, 0; WAIT 0;", k, "holds the A operand");
    wrong("FENCE MMRS COMMIT cvt.rn.bf16x2.f32 %a1, %f1, %f2; WAIT 0;", k, "cvt.rn.bf16x2");
    // No fence before the first, or since a register was written.
    wrong("MMA COMMIT WAIT 0;", k, "no wgmma.fence");
    wrong(&format!("FENCE MMA COMMIT WAIT 0; add.f32 %c3, %c3, %c3; MMA COMMIT WAIT 0; {ST}"), k, "add.f32 %c3");
    fine(&format!("FENCE MMA COMMIT WAIT 0; add.f32 %c3, %c3, %c3; FENCE MMA COMMIT WAIT 0; {ST}"), 32.0);
    wrong("FENCE mov.u32 %a0, 0; MMRS COMMIT WAIT 0;", k, "mov.u32 %a0");
    // Leaving with one in flight.
    wrong("FENCE MMA COMMIT", k, "wgmma.wait_group 0");
}

/// Rows 6 and 7, and operands overwritten too early.
#[test]
fn shared_operands() {
    let again = "st.shared.u32 [%r3], %r10;";
    wrong(&format!("{again} bar.sync 1, 128; FENCE MMA COMMIT WAIT 0; {ST}"), ErrorKind::Proxy, "fence.proxy.async");
    fine(&format!("{again} fence.proxy.async.shared::cta; bar.sync 1, 128; FENCE MMA COMMIT WAIT 0; {ST}"), 16.0);
    // The order must be there at the wgmma.fence.
    wrong(&format!("{again} fence.proxy.async.shared::cta; FENCE bar.sync 1, 128; MMA COMMIT WAIT 0; {ST}"), ErrorKind::Race, "st.shared");
    wrong(&format!("{again} fence.proxy.async.shared::cta; FENCE MMA COMMIT WAIT 0; {ST}"), ErrorKind::Race, "st.shared");
    wrong(&format!("FENCE MMA COMMIT {again} WAIT 0;"), ErrorKind::Race, "wgmma.mma_async");
    fine(&format!("FENCE MMA COMMIT WAIT 0; bar.sync 1, 128; {again} {ST}"), 16.0);
    let poke = "mov.u32 %r20, 0x7fff; mov.b64 %rd7, {%r20, %r6};";
    wrong(&format!("{poke} mov.b64 %rd5, %rd7; FENCE MMA COMMIT WAIT 0;"), ErrorKind::Undefined, "must be zero");
    wrong("mov.u32 %r20, 0x3000; mov.b64 %rd5, {%r20, %r6}; FENCE MMA COMMIT WAIT 0;", ErrorKind::OutOfBounds, "descriptor");
    wrong("add.u32 %r5, %r4, 704; mov.b64 %rd6, {%r5, %r6}; FENCE MMA COMMIT WAIT 0;", ErrorKind::OutOfBounds, "descriptor");
}

/// All four warps, all lanes, one instruction.
#[test]
fn convergence() {
    let d = ErrorKind::Divergence;
    wrong("setp.lt.u32 %p4, %r1, 16; FENCE @!%p4 MMA COMMIT WAIT 0;", d, "wgmma.mma_async");
    wrong("setp.lt.u32 %p4, %r1, 32; FENCE @%p4 bra A; MMA bra B; A: MMA B: COMMIT WAIT 0;", d, "disagree");
    wrong("setp.lt.u32 %p4, %r1, 32; FENCE @%p4 bra A; MMA A: COMMIT WAIT 0;", ErrorKind::Deadlock, "warps 0 to issue");
    wrong("setp.lt.u32 %p2, %r1, 7; FENCE MMA COMMIT WAIT 0;", d, "scale-d");
    wrong("cvt.u64.u32 %rd7, %r1; add.u64 %rd5, %rd5, %rd7; FENCE MMA COMMIT WAIT 0;", d, "descriptor of A");
    wrong("setp.lt.u32 %p2, %r1, 32; FENCE MMA COMMIT WAIT 0;", d, "disagree");
    wrong("setp.lt.u32 %p4, %r1, 32; FENCE @%p4 COMMIT MMA COMMIT WAIT 0;", d, "disagree");
}

#[test]
fn refusals() {
    let base = "wgmma.mma_async.sync.aligned.SHAPE {%f1,%f2,%f3,%f4}, %rd1, %rd2, TAIL;";
    let with = |shape: &str, tail: &str| {
        let t = crate::common::kernel("sm_90a", ".param .u64 out", &base.replace("SHAPE", shape).replace("TAIL", tail));
        Module::parse(&t).map(|_| ()).map_err(|e| e.to_string())
    };
    assert_eq!(with("m64n8k16.f32.bf16.bf16", "1, 1, 1, 0, 0"), Ok(()));
    for (shape, tail, needle) in [
        ("m64n8k16.f32.bf16.f16", "1, 1, 1, 0, 0", "do not go together"),
        ("m64n12k16.f32.bf16.bf16", "1, 1, 1, 0, 0", "do not go together"),
        ("m64n8k8.f32.bf16.bf16", "1, 1, 1, 0, 0", "do not go together"),
        ("m64n16k16.f32.bf16.bf16", "1, 1, 1, 0, 0", "8 registers"),
        ("m64n8k16.f32.bf16.bf16", "1, 0, 1, 0, 0", "1 or -1"),
        ("m64n8k16.f32.bf16.bf16", "1, 1, 1, 2, 0", "0 or 1"),
        ("m64n8k8.f32.tf32.tf32", "1, 1, 1, 0, 0", "takes"),
        ("sp.m64n8k32.f32.bf16.bf16", "1, 1, 1, 0, 0", "sparse"),
    ] {
        let e = with(shape, tail).expect_err(shape);
        assert!(e.contains(needle), "{shape}: {e}");
    }
}
