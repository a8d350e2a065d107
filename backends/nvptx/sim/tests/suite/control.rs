//! Divergence, special registers, scopes, warp-wide operations, atomics, launch checks.

use crate::common::{Rng, Run, kernel, launch, module, must_pass, run_out, u32s};
use tilelift_nvptx_sim::{Arg, ErrorKind, Init, Launch, Memory, Module, SimConfig};

fn one_warp(body: &str) -> Vec<u32> {
    let body = format!("mov.u32 %r1, %laneid; mad.wide.u32 %rd2, %r1, 4, %rd1;\n{body}\nst.global.u32 [%rd2], %r0;");
    u32s(&must_pass("sm_80", &body, &Run { shared: 4096, ..Run::default() }, 128))
}

fn lanes(f: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..32).map(f).collect()
}

#[test]
fn collatz_diverges_and_meets_again() {
    let steps = |mut n: u32| {
        let mut k = 0;
        while n != 1 {
            n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
            k += 1;
        }
        k
    };
    let got = one_warp(
        "add.u32 %r2, %r1, 1; mov.u32 %r0, 0;
         L: setp.eq.u32 %p1, %r2, 1; @%p1 bra DONE; add.u32 %r0, %r0, 1; and.b32 %r3, %r2, 1; setp.eq.u32 %p2, %r3, 0; @%p2 bra EVEN;
         mad.lo.u32 %r2, %r2, 3, 1; bra L;
         EVEN: shr.u32 %r2, %r2, 1; bra L;
         DONE: activemask.b32 %r4; setp.ne.u32 %p3, %r4, -1; @%p3 trap;",
    );
    assert_eq!(got, lanes(|i| steps(i + 1)));
}

#[test]
fn backward_jump_out_of_nested_branches() {
    // Lanes leave a nest of branches at different levels, some through a jump backwards.
    let got = one_warp(
        "mov.u32 %r0, 0; mov.u32 %r2, %r1; bra START;
         BACK: add.u32 %r0, %r0, 1000; bra END;
         START: setp.lt.u32 %p1, %r2, 8; @%p1 bra BACK; add.u32 %r0, %r0, 1;
         setp.lt.u32 %p1, %r2, 16; @%p1 bra MID; add.u32 %r0, %r0, 10; setp.lt.u32 %p1, %r2, 24; @%p1 bra BACK;
         MID: add.u32 %r0, %r0, 100;
         END:",
    );
    assert_eq!(got, lanes(|i| [1000, 101, 1011, 111][i as usize / 8]));
}

/// A lock taken lane by lane: makes progress only if waiting lanes let the owner run.
#[test]
fn spin_lock_between_lanes() {
    let got = one_warp(
        "mov.u32 %r2, smem; mov.u32 %r3, 0; st.shared.u32 [%r2], %r3; st.shared.u32 [%r2+4], %r3; bar.warp.sync -1;
         TRY: atom.shared.cas.b32 %r4, [%r2], 0, 1; setp.ne.u32 %p1, %r4, 0; @%p1 bra TRY;
         ld.shared.u32 %r5, [%r2+4]; add.u32 %r5, %r5, 1; st.shared.u32 [%r2+4], %r5;
         atom.shared.exch.b32 %r6, [%r2], 0;
         bar.warp.sync -1; ld.shared.u32 %r0, [%r2+4];",
    );
    assert_eq!(got, vec![32; 32]);
}

#[test]
fn scopes_hide_names_and_labels() {
    let got = one_warp(
        "mov.u32 %r0, 0; mov.u32 %r9, 5;
         { .reg .u32 %r9; mov.u32 %r9, 1; bra L; add.u32 %r0, %r0, 50; L: add.u32 %r0, %r0, %r9; }
         { .reg .u32 x, y; mov.u32 x, 20; bra L; L: mov.u32 y, x; add.u32 %r0, %r0, y; }
         add.u32 %r0, %r0, %r9;",
    );
    assert_eq!(got, vec![26; 32]);
}

#[test]
fn special_registers() {
    let body = "mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; mov.u32 %r4, %ntid.x; mov.u32 %r5, %ntid.y;
        mad.lo.u32 %r6, %r3, %r5, %r2; mad.lo.u32 %r6, %r6, %r4, %r1;
        mov.u32 %r7, %ctaid.x; mov.u32 %r8, %ctaid.y; mov.u32 %r9, %nctaid.x; mad.lo.u32 %r7, %r8, %r9, %r7;
        mov.u32 %r10, %warpid; mov.u32 %r11, %laneid; mad.lo.u32 %r12, %r10, 32, %r11; setp.ne.u32 %p1, %r12, %r6; @%p1 trap;
        mov.u32 %r13, %lanemask_lt; popc.b32 %r13, %r13; setp.ne.u32 %p1, %r13, %r11; @%p1 trap;
        mov.u32 %r13, %lanemask_ge; popc.b32 %r13, %r13; add.u32 %r13, %r13, %r11; setp.ne.u32 %p1, %r13, 32; @%p1 trap;
        mov.u32 %r14, %dynamic_smem_size; setp.ne.u32 %p1, %r14, 48; @%p1 trap;
        mad.lo.u32 %r15, %r7, 72, %r6; mad.wide.u32 %rd2, %r15, 4, %rd1; st.global.u32 [%rd2], %r15;";
    let t = kernel("sm_80", ".param .u64 out", &format!("ld.param.u64 %rd1, [out];\n{body}"));
    let m = module(&t);
    let mut mem = Memory::new();
    let n = 72 * 6;
    let o = mem.alloc("out", Init::Uninit(4 * n));
    let l = Launch { entry: "k", grid: [3, 2, 1], block: [6, 4, 3], shared_bytes: 48, args: &[Arg::U64(o)], config: SimConfig::default() };
    let r = m.launch(&l, &mut mem).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(u32s(mem.read(o, 4 * n).expect("written")), (0..n as u32).collect::<Vec<_>>());
    assert_eq!((r.ctas, r.shared_bytes), (6, 48));
    // A subset of the CTAs.
    let mut mem = Memory::new();
    let o = mem.alloc("out", Init::Uninit(4 * n));
    let config = SimConfig { ctas: Some(vec![4]), ..SimConfig::default() };
    m.launch(&Launch { config, args: &[Arg::U64(o)], ..l }, &mut mem).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(mem.is_written(o + 4 * 72 * 4, 4 * 72), Ok(true));
    assert_eq!(mem.is_written(o + 4 * 72 * 3, 4), Ok(false));
}

#[test]
fn shuffles() {
    for (code, f) in [
        ("shfl.sync.bfly.b32 %r0, %r1, 5, 31, -1;", (|i| i ^ 5) as fn(u32) -> u32),
        ("shfl.sync.idx.b32 %r0, %r1, 7, 31, -1;", |_| 7),
        ("shfl.sync.idx.b32 %r0, %r1, 3, 0x181f, -1;", |i| (i & 24) + 3),
        ("shfl.sync.up.b32 %r0|%p1, %r1, 3, 0, -1; @!%p1 add.u32 %r0, %r0, 100;", |i| if i >= 3 { i - 3 } else { i + 100 }),
        ("shfl.sync.down.b32 %r0|%p1, %r1, 4, 31, -1; @!%p1 add.u32 %r0, %r0, 100;", |i| if i < 28 { i + 4 } else { i + 100 }),
        ("shfl.sync.down.b32 %r0, %r1, 2, 0x1807, -1;", |i| if i % 8 < 6 { i + 2 } else { i }),
        ("shfl.sync.up.b32 %r0, %r1, 1, 0x1800, -1;", |i| if i % 8 > 0 { i - 1 } else { i }),
        ("xor.b32 %r2, %r1, 31; shfl.sync.idx.b32 %r0, %r1, %r2, 31, -1;", |i| 31 - i),
    ] {
        assert_eq!(one_warp(code), lanes(f), "{code}");
    }
    // Butterfly sum.
    let sum = "mov.u32 %r0, %r1;".to_string()
        + &[16, 8, 4, 2, 1].map(|k| format!("shfl.sync.bfly.b32 %r2, %r0, {k}, 31, -1; add.u32 %r0, %r0, %r2;")).join("");
    assert_eq!(one_warp(&sum), vec![496; 32]);
}

#[test]
fn votes_and_reductions() {
    let odd = "and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 1;";
    for (code, f) in [
        ("vote.sync.ballot.b32 %r0, %p1, -1;", (|_| 0xaaaa_aaaa) as fn(u32) -> u32),
        ("vote.sync.ballot.b32 %r0, !%p1, -1;", |_| 0x5555_5555),
        ("vote.sync.any.pred %p2, %p1, -1; selp.u32 %r0, 1, 0, %p2;", |_| 1),
        ("vote.sync.all.pred %p2, %p1, -1; selp.u32 %r0, 1, 0, %p2;", |_| 0),
        ("vote.sync.uni.pred %p2, %p1, -1; selp.u32 %r0, 1, 0, %p2;", |_| 0),
        ("redux.sync.add.u32 %r0, %r1, -1;", |_| 496),
        ("redux.sync.max.s32 %r0, %r1, -1;", |_| 31),
        ("neg.s32 %r3, %r1; redux.sync.min.s32 %r0, %r3, -1;", |_| (-31i32) as u32),
        ("redux.sync.xor.b32 %r0, %r1, -1;", |_| 0),
        ("redux.sync.or.b32 %r0, %r1, -1;", |_| 31),
        ("shr.u32 %r3, %r1, 2; match.any.sync.b32 %r0, %r3, -1;", |i| 15 << (i / 4 * 4)),
        ("mov.u32 %r3, 9; match.all.sync.b32 %r0|%p2, %r3, -1; @!%p2 trap;", |_| u32::MAX),
        ("match.all.sync.b32 %r0|%p2, %r1, -1; @%p2 trap;", |_| 0),
        (
            "mov.u32 %r0, 0; @%p1 bra A; redux.sync.add.u32 %r0, %r1, 0x55555555; bra B; A: redux.sync.add.u32 %r0, %r1, 0xaaaaaaaa; B:",
            |i| {
                if i % 2 == 0 { 240 } else { 256 }
            },
        ),
        ("mov.u32 %r0, 0; @%p1 bra A; activemask.b32 %r0; A:", |i| if i % 2 == 0 { 0x5555_5555 } else { 0 }),
    ] {
        assert_eq!(one_warp(&format!("{odd} {code}")), lanes(f), "{code}");
    }
}

/// Lanes on both sides of a branch meet in one shuffle.
#[test]
fn sync_operations_wait_for_their_members() {
    let got = one_warp(
        "and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 1; mov.u32 %r3, %r1; @%p1 bra ODD; add.u32 %r3, %r3, 100; bra MEET;
         ODD: add.u32 %r3, %r3, 200;
         MEET: shfl.sync.bfly.b32 %r0, %r3, 1, 31, -1;",
    );
    assert_eq!(got, lanes(|i| (i ^ 1) + if i % 2 == 0 { 200 } else { 100 }));
}

#[test]
fn atomics() {
    let init = "mov.u32 %r2, smem; mov.u32 %r3, 0; st.shared.u32 [%r2], %r3; bar.warp.sync -1;";
    for (code, want) in [
        ("atom.shared.add.u32 %r4, [%r2], %r1;", 496),
        ("red.shared.max.u32 [%r2], %r1;", 31),
        ("red.shared.or.b32 [%r2], %r1;", 31),
        ("atom.shared.inc.u32 %r4, [%r2], 9;", 2),
        ("atom.shared.dec.u32 %r4, [%r2], 9;", 8),
        ("neg.s32 %r5, %r1; red.shared.min.s32 [%r2], %r5;", (-31i32) as u32),
        ("cvt.rn.f32.u32 %f1, %r1; red.shared.add.f32 [%r2], %f1;", 496f32.to_bits()),
        ("mov.u32 %r5, 0x3c003c00; red.shared.add.noftz.f16x2 [%r2], %r5;", 0x5000_5000),
    ] {
        let got = one_warp(&format!("{init} {code} bar.warp.sync -1; ld.shared.u32 %r0, [%r2];"));
        assert_eq!(got, vec![want; 32], "{code}");
    }
    // Results of a global fetch-and-add over many warps are a permutation.
    let t = kernel(
        "sm_80",
        ".param .u64 out, .param .u64 c",
        "ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [c]; atom.global.add.u32 %r1, [%rd2], 1; mad.wide.u32 %rd3, %r1, 4, %rd1; st.global.u32 [%rd3], %r1;
         atom.global.add.u64 %rd4, [%rd2+8], 3; atom.global.cas.b64 %rd5, [%rd2+16], 0, 77; red.global.add.f64 [%rd2+24], 0d3FE0000000000000;",
    );
    let m = module(&t);
    let mut mem = Memory::new();
    let o = mem.alloc("out", Init::Uninit(4 * 512));
    let c = mem.alloc("c", Init::Zeroed(32));
    launch(&m, &Run { grid: 4, block: 128, ..Run::default() }, &[Arg::U64(o), Arg::U64(c)], &mut mem).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(u32s(mem.read(o, 2048).expect("written")), (0..512).collect::<Vec<_>>());
    let c = mem.read(c, 32).expect("written");
    assert_eq!(u32s(c)[..6], [512, 0, 1536, 0, 77, 0]);
    assert_eq!(c[24..], 256f64.to_le_bytes());
}

#[test]
fn loads_and_stores_of_every_width() {
    let mut r = Rng(8);
    let data: Vec<u8> = (0..32 * 16).map(|_| r.next() as u8).collect();
    let go = |code: &str| {
        let t = kernel(
            "sm_80",
            ".param .u64 in, .param .u64 out",
            &format!(
                "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; cvta.to.global.u64 %rd1, %rd1; mov.u32 %r1, %tid.x; mov.u32 %r2, smem;
                 mad.wide.u32 %rd3, %r1, 16, %rd1; mad.wide.u32 %rd4, %r1, 16, %rd2; mad.lo.u32 %r3, %r1, 16, %r2;
                 cvt.u64.u32 %rd5, %r3; cvta.shared.u64 %rd6, %rd5;
                 {code}"
            ),
        );
        let m = module(&t);
        let mut mem = Memory::new();
        let a = mem.alloc("in", Init::Bytes(data.clone()));
        let o = mem.alloc("out", Init::Uninit(512));
        mem.set_read_only(a).expect("a buffer");
        launch(&m, &Run { shared: 512, ..Run::default() }, &[Arg::U64(a), Arg::U64(o)], &mut mem).unwrap_or_else(|e| panic!("{e}\n{code}"));
        mem.read(o, 512).expect("all written").to_vec()
    };
    for code in [
        "ld.global.v4.u32 {%r4,%r5,%r6,%r7}, [%rd3]; st.global.v4.b32 [%rd4], {%r4,%r5,%r6,%r7};",
        "ld.global.nc.L1::no_allocate.L2::128B.v2.u64 {%rd7,%rd8}, [%rd3]; st.shared.v2.u64 [%r3], {%rd7,%rd8}; ld.shared.v4.f32 {%f1,%f2,%f3,%f4}, [%r3]; st.global.cs.v4.f32 [%rd4], {%f1,%f2,%f3,%f4};",
        "ld.global.ca.f64 %fd1, [%rd3]; ld.global.cg.f64 %fd2, [%rd3+8]; st.global.v2.f64 [%rd4], {%fd1,%fd2};",
        "ld.global.v4.u16 {%h1,%h2,%h3,%h4}, [%rd3]; st.global.v4.b16 [%rd4], {%h1,%h2,%h3,%h4}; ld.global.v2.b32 {%r4,%r5}, [%rd3+8]; st.global.v2.u32 [%rd4+8], {%r4,%r5};",
        "ld.u64 %rd7, [%rd3]; st.u64 [%rd6], %rd7; ld.shared.u64 %rd8, [%r3]; st.u64 [%rd4], %rd8; ld.b64 %rd9, [%rd3+8]; st.b64 [%rd6+8], %rd9; ld.b64 %rd10, [%rd6+8]; isspacep.shared %p1, %rd6; @!%p1 trap; isspacep.shared %p1, %rd3; @%p1 trap; st.global.b64 [%rd4+8], %rd10;",
        "cp.async.ca.shared.global [%r3], [%rd3], 8; cp.async.ca.shared.global [%r3+8], [%rd3+8], 4; cp.async.ca.shared.global.L2::128B [%r3+12], [%rd3+12], 4; cp.async.wait_all; ld.shared.v4.u32 {%r4,%r5,%r6,%r7}, [%r3]; st.global.v4.u32 [%rd4], {%r4,%r5,%r6,%r7};",
    ] {
        assert_eq!(go(code), data, "{code}");
    }
    let bytes = (0..16)
        .map(|i| {
            format!("ld.global.u8 %r4, [%rd3+{i}]; st.shared.u8 [%r3+{i}], %r4; ld.shared.s8 %r5, [%r3+{i}]; st.global.u8 [%rd4+{i}], %r5;")
        })
        .collect::<String>();
    assert_eq!(go(&bytes), data);
    // Sign and zero extension.
    let ext = go(
        "ld.global.s8 %r4, [%rd3]; ld.global.u8 %r5, [%rd3+1]; ld.global.s16 %r6, [%rd3+2]; ld.global.s8 %rd7, [%rd3+4]; cvt.u32.u64 %r7, %rd7; shr.s64 %rd8, %rd7, 32; st.global.v4.u32 [%rd4], {%r4,%r5,%r6,%r7};",
    );
    for (i, c) in data.chunks_exact(16).enumerate() {
        let got = &u32s(&ext)[4 * i..4 * i + 4];
        let want =
            [i32::from(c[0] as i8) as u32, c[1].into(), i32::from(i16::from_le_bytes([c[2], c[3]])) as u32, i32::from(c[4] as i8) as u32];
        assert_eq!(got, want);
    }
    // Zero fill of copies: by size and by predicate.
    let fill = go(
        "mov.u32 %r9, 4; cp.async.cg.shared.global [%r3], [%rd3], 16, %r9; cp.async.wait_all; ld.shared.v4.u32 {%r4,%r5,%r6,%r7}, [%r3]; st.global.v4.u32 [%rd4], {%r4,%r5,%r6,%r7};",
    );
    for (c, g) in data.chunks_exact(16).zip(fill.chunks_exact(16)) {
        assert_eq!(c[..4], g[..4]);
        assert_eq!(g[4..], [0; 12]);
    }
    let ignore = go(
        "setp.ne.u32 %p1, %r1, 3; cp.async.cg.shared.global [%r3], [%rd3], 16, %p1; cp.async.wait_all; ld.shared.v4.u32 {%r4,%r5,%r6,%r7}, [%r3]; st.global.v4.u32 [%rd4], {%r4,%r5,%r6,%r7};",
    );
    assert_eq!(ignore[..48], [0; 48]);
    assert_eq!(ignore[48..64], data[48..64]);
    assert_eq!(ignore[64..], [0; 448]);
}

#[test]
fn read_only_buffers() {
    let t = kernel("sm_80", ".param .u64 a", "ld.param.u64 %rd1, [a]; mov.u32 %r1, 1; st.global.u32 [%rd1], %r1;");
    let m = module(&t);
    let mut mem = Memory::new();
    let a = mem.alloc("weights", Init::Zeroed(16));
    mem.set_read_only(a).expect("a buffer");
    let e = launch(&m, &Run::default(), &[Arg::U64(a)], &mut mem).unwrap_err();
    assert_eq!(e.kind, ErrorKind::OutOfBounds);
    assert!(e.to_string().contains("read-only buffer `weights`"), "{e}");
}

#[test]
fn static_shared_and_module_variables() {
    let t = ".version 7.1\n.target sm_80\n.address_size 64
        .const .align 4 .b32 table[4] = {10, 20, 0x1e, 40};
        .global .align 8 .u32 total;
        .shared .align 16 .b8 fixed[64];
        .extern .shared .align 128 .b8 dyn[];
        .visible .entry k(.param .u64 out) .maxntid 32, 1, 1 {
          .shared .align 4 .f32 local[32];
          .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p;
          .loc 1 2 3
          .pragma \"nounroll\";
          ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 3;
          mov.u64 %rd2, table; mad.wide.u32 %rd2, %r2, 4, %rd2; ld.const.u32 %r3, [%rd2];
          mov.u32 %r4, local; mad.lo.u32 %r4, %r1, 4, %r4; st.shared.u32 [%r4], %r3; ld.shared.u32 %r5, [%r4];
          mov.u32 %r6, dyn; and.b32 %r6, %r6, 127; setp.ne.u32 %p, %r6, 0; @%p trap;
          mov.u32 %r6, fixed; and.b32 %r7, %r1, 15; mad.lo.u32 %r6, %r7, 4, %r6; st.shared.u32 [%r6], %r7;
          ld.const.u32 %r7, [table+8]; add.u32 %r5, %r5, %r7;
          red.global.add.u32 [total], 1;
          mad.wide.u32 %rd3, %r1, 4, %rd1; st.global.u32 [%rd3], %r5;
          ret; }";
    let m = module(t);
    let mut mem = Memory::new();
    let o = mem.alloc("out", Init::Uninit(128));
    let run = Run { shared: 100, ..Run::default() };
    let r = launch(&m, &run, &[Arg::U64(o)], &mut mem).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(u32s(mem.read(o, 128).expect("written")), lanes(|i| [10, 20, 30, 40][i as usize % 4] + 30));
    // 64 + 128 static bytes; the dynamic array starts at the next multiple of 128.
    assert!(r.shared_bytes >= 256 + 100 - 64 && r.shared_bytes <= 256 + 100, "{}", r.shared_bytes);
}

#[test]
fn launch_checks() {
    let t = kernel("sm_80", ".param .u64 a, .param .u32 n", "").replace("{\n", "\n.reqntid 64, 1, 1\n{\n");
    let m = Module::parse(&t).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(m.entries().collect::<Vec<_>>(), ["k"]);
    assert_eq!(m.params("k"), Some(vec![8, 4]));
    assert_eq!((m.version(), m.target()), ((7, 5), "sm_80"));
    let good = [Arg::U64(0), Arg::U32(1)];
    let l = Launch { entry: "k", grid: [1, 1, 1], block: [64, 1, 1], shared_bytes: 0, args: &good, config: SimConfig::default() };
    let go = |l: Launch<'_>| m.launch(&l, &mut Memory::new()).map(|_| ()).map_err(|e| (e.kind, e.to_string()));
    assert_eq!(go(l.clone()), Ok(()));
    for (bad, needle) in [
        (Launch { entry: "x", ..l.clone() }, "no entry `x`"),
        (Launch { block: [32, 1, 1], ..l.clone() }, "reqntid"),
        (Launch { grid: [0, 1, 1], ..l.clone() }, "empty"),
        (Launch { args: &good[..1], ..l.clone() }, "2 parameters"),
        (Launch { args: &[Arg::U64(0), Arg::U64(1)], ..l.clone() }, "(`n`) has 8 bytes"),
        (Launch { shared_bytes: 300_000, ..l.clone() }, "shared memory"),
        (Launch { config: SimConfig { ctas: Some(vec![1]), ..SimConfig::default() }, ..l.clone() }, "CTA 1"),
    ] {
        let (kind, text) = go(bad).unwrap_err();
        assert_eq!(kind, ErrorKind::BadLaunch);
        assert!(text.contains(needle), "{text}");
    }
}

#[test]
fn odd_block_sizes() {
    for block in [1, 31, 33, 95] {
        let body = "mov.u32 %r1, %tid.x; mov.u32 %r2, smem; mad.lo.u32 %r3, %r1, 4, %r2; st.shared.u32 [%r3], %r1; bar.sync 0;
            mov.u32 %r4, %ntid.x; sub.u32 %r5, %r4, 1; sub.u32 %r5, %r5, %r1; mad.lo.u32 %r6, %r5, 4, %r2; ld.shared.u32 %r7, [%r6];
            mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2], %r7;";
        let run = Run { block, shared: 4 * block, ..Run::default() };
        let out = must_pass("sm_80", body, &run, 4 * block as usize);
        assert_eq!(u32s(&out), (0..block).rev().collect::<Vec<_>>());
    }
    let e = run_out("sm_80", "", &Run { block: 1025, ..Run::default() }, 0).unwrap_err();
    assert_eq!(e.kind, ErrorKind::BadLaunch);
}
