//! Small programs that must be accepted or refused under every schedule.

use crate::common::{Run, kernel, launch, module, must_fail, must_pass, run_out, schedules, u32s};
use tilelift_nvptx_sim::{Arg, ErrorKind, Init, Memory, SimConfig};

fn warps(n: u32) -> Run {
    Run { block: 32 * n, shared: 4096, ..Run::default() }
}

/// Each thread writes its word, and reads another one.
fn exchange(sync: &str, other: &str) -> String {
    format!(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, smem; mad.lo.u32 %r3, %r1, 4, %r2;
         mul.lo.u32 %r4, %r1, 10; st.shared.u32 [%r3], %r4;
         {sync}
         {other} mad.lo.u32 %r6, %r5, 4, %r2; ld.shared.u32 %r7, [%r6];
         mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2], %r7;"
    )
}

#[test]
fn two_warps_exchange() {
    let other = "xor.b32 %r5, %r1, 32;";
    let out = must_pass("sm_80", &exchange("bar.sync 0;", other), &warps(2), 256);
    assert_eq!(u32s(&out), (0..64).map(|i| (i ^ 32) * 10).collect::<Vec<u32>>());
    // Dropped barrier: which of the two is seen depends on who is first.
    for config in schedules() {
        let e = run_out("sm_80", &exchange("", other), &Run { config, ..warps(2) }, 256).unwrap_err();
        assert!(matches!(e.kind, ErrorKind::Race | ErrorKind::Uninitialised), "{e}");
    }
    // Inside one warp program order is enough.
    let near = "xor.b32 %r5, %r1, 1;";
    must_pass("sm_80", &exchange("", near), &warps(2), 256);
}

#[test]
fn race_names_both_sites() {
    // All words are written first, so only the race is wrong.
    let body = "mov.u32 %r1, %tid.x; mov.u32 %r2, smem; mad.lo.u32 %r3, %r1, 4, %r2; st.shared.u32 [%r3], %r1; bar.sync 0;
        xor.b32 %r5, %r1, 32; mad.lo.u32 %r6, %r5, 4, %r2;
        st.shared.u32 [%r3], %r5;
        ld.shared.u32 %r7, [%r6];
        mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2], %r7;";
    for config in schedules() {
        let e = run_out("sm_80", body, &Run { config, ..warps(2) }, 256).unwrap_err();
        assert_eq!(e.kind, ErrorKind::Race);
        let (a, b) = (e.site.clone().expect("site"), e.other.clone().expect("other site"));
        let mut texts = [a.text.as_str(), b.text.as_str()];
        texts.sort_unstable();
        assert_eq!(texts, ["ld.shared.u32 %r7, [%r6]", "st.shared.u32 [%r3], %r5"], "{e}");
        assert_ne!(a.warp, b.warp);
        assert_eq!(a.address, b.address);
        assert!(a.line > 0 && b.line > 0);
    }
}

/// Row 12 of the litmus table: a plain flag does not order data.
#[test]
fn plain_flag_is_no_order() {
    let flag = |st: &str, ld: &str, fence: &str| {
        format!(
            "mov.u32 %r1, %tid.x; mov.u32 %r2, smem; setp.lt.u32 %p1, %r1, 32;
             setp.ne.u32 %p3, %r1, 0; mov.u32 %r9, 0;
             @!%p3 st.shared.u32 [%r2+64], %r9;
             bar.sync 0;
             @%p1 bra PRODUCER;
             WAIT: {ld}.u32 %r3, [%r2+64]; setp.eq.u32 %p2, %r3, 0; @%p2 bra WAIT;
             {fence}
             ld.shared.u32 %r4, [%r2]; sub.u32 %r5, %r1, 32; mad.wide.u32 %rd2, %r5, 4, %rd1; st.global.u32 [%rd2], %r4; bra DONE;
             PRODUCER: mov.u32 %r6, 7; @!%p3 st.shared.u32 [%r2], %r6; {fence}
             mov.u32 %r7, 1; @!%p3 {st}.u32 [%r2+64], %r7;
             DONE:"
        )
    };
    must_fail("sm_80", &flag("st.shared", "ld.shared", ""), &warps(2), ErrorKind::Race, "[%r2+64]");
    must_fail("sm_80", &flag("st.volatile.shared", "ld.volatile.shared", ""), &warps(2), ErrorKind::Race, "[%r2]");
    let good = flag("st.release.cta.shared", "ld.acquire.cta.shared", "");
    assert_eq!(u32s(&must_pass("sm_80", &good, &warps(2), 128)), vec![7; 32]);
    let good = flag("st.relaxed.cta.shared", "ld.relaxed.cta.shared", "fence.acq_rel.cta;");
    must_pass("sm_80", &good, &warps(2), 128);
}

/// A copy of 16 bytes per thread, then a read by `reader` after `sync`.
fn copy(sync: &str, reader: &str) -> String {
    kernel(
        "sm_80",
        ".param .u64 in, .param .u64 out",
        &format!(
            "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, smem;
             mad.wide.u32 %rd3, %r1, 16, %rd1; mad.lo.u32 %r3, %r1, 16, %r2;
             cp.async.cg.shared.global [%r3], [%rd3], 16;
             cp.async.commit_group;
             {sync}
             {reader} mad.lo.u32 %r5, %r4, 16, %r2;
             ld.shared.u32 %r6, [%r5+4]; mad.wide.u32 %rd4, %r1, 4, %rd2; st.global.u32 [%rd4], %r6;"
        ),
    )
}

fn run_copy(text: &str, threads: u32, config: SimConfig) -> Result<Vec<u32>, tilelift_nvptx_sim::SimError> {
    let m = module(text);
    let mut mem = Memory::new();
    let n = threads as usize;
    let a = mem.alloc("in", Init::Bytes((0..4 * n as u32).flat_map(|i| i.to_le_bytes()).collect()));
    let o = mem.alloc("out", Init::Uninit(4 * n));
    let run = Run { block: threads, shared: 4096, config, ..Run::default() };
    launch(&m, &run, &[Arg::U64(a), Arg::U64(o)], &mut mem)?;
    Ok(u32s(mem.read(o, 4 * n).expect("written")))
}

/// Rows 14 and 15: the wait of a lane covers that lane; others need a barrier after it.
#[test]
fn cp_async_visibility() {
    let own = "mov.u32 %r4, %r1;";
    let near = "xor.b32 %r4, %r1, 1;";
    let far = "xor.b32 %r4, %r1, 32;";
    let wait = "cp.async.wait_group 0;";
    let cases = [
        (own, wait, true),
        (own, "", false),
        (own, "cp.async.wait_group 1;", false),
        (near, wait, false),
        (near, "cp.async.wait_group 0; bar.warp.sync -1;", true),
        (near, "bar.warp.sync -1; cp.async.wait_group 0;", false),
        (far, "cp.async.wait_group 0; bar.sync 0;", true),
        (far, "cp.async.wait_all; bar.sync 0;", true),
        (far, "bar.sync 0; cp.async.wait_group 0;", false),
        (far, "cp.async.wait_group 0; bar.warp.sync -1;", false),
        (far, "bar.sync 0;", false),
    ];
    for (reader, sync, ok) in cases {
        let text = copy(sync, reader);
        for config in schedules() {
            match run_copy(&text, 64, config) {
                Ok(v) => {
                    assert!(ok, "`{sync}` then `{reader}` was accepted");
                    let flip = if reader == own {
                        0
                    } else if reader == near {
                        1
                    } else {
                        32
                    };
                    assert!(v.iter().enumerate().all(|(i, x)| *x == 4 * (i as u32 ^ flip) + 1));
                }
                Err(e) => {
                    assert!(!ok, "`{sync}` then `{reader}`: {e}");
                    let never_issued = e.kind == ErrorKind::Uninitialised;
                    assert!(e.kind == ErrorKind::Race || never_issued, "{e}");
                    assert!(never_issued || e.to_string().contains("cp.async.cg"), "{e}");
                }
            }
        }
    }
}

#[test]
fn overwriting_a_copy_in_flight() {
    let text = copy("mov.u32 %r9, 5; st.shared.u32 [%r3+4], %r9; cp.async.wait_group 0;", "mov.u32 %r4, %r1;");
    for config in schedules() {
        let e = run_copy(&text, 32, config).unwrap_err();
        assert_eq!(e.kind, ErrorKind::Race, "{e}");
        assert!(e.to_string().contains("has not waited"), "{e}");
    }
    let twice = copy("cp.async.cg.shared.global [%r3], [%rd1], 16; cp.async.wait_all;", "mov.u32 %r4, %r1;");
    assert_eq!(run_copy(&twice, 32, SimConfig::default()).unwrap_err().kind, ErrorKind::Race);
}

/// A consumer warp reads a buffer that the producer refills too early.
#[test]
fn early_refill_is_a_write_after_read_race() {
    let body = |bar: &str| {
        format!(
            "mov.u32 %r1, %tid.x; mov.u32 %r2, smem; and.b32 %r3, %r1, 31; mad.lo.u32 %r4, %r3, 4, %r2;
             setp.lt.u32 %p1, %r1, 32; mov.u32 %r5, 0; mov.u32 %r8, 0;
             LOOP:
             add.u32 %r6, %r5, %r3; @%p1 st.shared.u32 [%r4], %r6;
             bar.sync 0;
             @!%p1 ld.shared.u32 %r7, [%r4]; @!%p1 add.u32 %r8, %r8, %r7;
             {bar}
             add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 3; @%p2 bra LOOP;
             mad.wide.u32 %rd2, %r3, 4, %rd1; @!%p1 st.global.u32 [%rd2], %r8;"
        )
    };
    let out = must_pass("sm_80", &body("bar.sync 0;"), &warps(2), 128);
    assert_eq!(u32s(&out), (0..32).map(|i| 3 * i + 3).collect::<Vec<u32>>());
    must_fail("sm_80", &body(""), &warps(2), ErrorKind::Race, "st.shared.u32 [%r4], %r6");
}

#[test]
fn named_barriers_hand_over() {
    // Warp 0 produces, warp 1 consumes; arrive on one side, sync on the other.
    let body = |arrive: &str, sync: &str| {
        format!(
            "mov.u32 %r1, %tid.x; mov.u32 %r2, smem; and.b32 %r3, %r1, 31; mad.lo.u32 %r4, %r3, 4, %r2; setp.lt.u32 %p1, %r1, 32;
             @%p1 bra P;
             {sync}
             ld.shared.u32 %r7, [%r4]; mad.wide.u32 %rd2, %r3, 4, %rd1; st.global.u32 [%rd2], %r7; bra D;
             P: st.shared.u32 [%r4], %r1; {arrive}
             D:"
        )
    };
    let out = must_pass("sm_80", &body("bar.arrive 3, 64;", "bar.sync 3, 64;"), &warps(2), 128);
    assert_eq!(u32s(&out), (0..32).collect::<Vec<u32>>());
}

#[test]
fn barrier_faults() {
    let f = |rest: &str| format!("mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; {rest}");
    must_fail("sm_80", &f("@%p1 bra D; bar.sync 0; D:"), &warps(2), ErrorKind::Deadlock, "32 of 64 threads");
    must_fail("sm_80", &f("@%p1 bra A; bar.sync 1, 64; bra D; A: bar.sync 2, 64; D:"), &warps(2), ErrorKind::Deadlock, "barrier 2");
    // Counts that disagree: seen as such, or as a wait for ever when the small one completes first.
    for config in schedules() {
        let e =
            run_out("sm_80", &f("@%p1 bra A; bar.sync 1, 64; bra D; A: bar.sync 1, 32; D:"), &Run { config, ..warps(2) }, 4).unwrap_err();
        assert!(matches!(e.kind, ErrorKind::Barrier | ErrorKind::Deadlock), "{e}");
        assert!(e.to_string().contains("barrier 1"), "{e}");
    }
    must_fail("sm_80", &f("@!%p1 bra D; bar.arrive 1, 64; bar.arrive 1, 64; D:"), &warps(2), ErrorKind::Barrier, "arrives twice");
    must_fail("sm_80", &f("mov.u32 %r2, 16; bar.sync %r2;"), &warps(1), ErrorKind::Barrier, "16");
    must_fail("sm_80", &f("mov.u32 %r2, 40; bar.sync 0, %r2;"), &warps(2), ErrorKind::Barrier, "multiple of 32");
    // Row 28: one elected lane executes the barrier.
    must_fail(
        "sm_80",
        "mov.u32 %r1, %laneid; setp.ne.u32 %p1, %r1, 0; @%p1 bra D; bar.sync 0; D:",
        &warps(2),
        ErrorKind::Divergence,
        "bar.sync 0",
    );
    must_fail("sm_80", "mov.u32 %r1, %laneid; setp.eq.u32 %p1, %r1, 0; @%p1 bar.sync 0;", &warps(2), ErrorKind::Divergence, "bar.sync 0");
}

#[test]
fn unaligned_barrier_may_be_reached_in_parts() {
    let body = "mov.u32 %r1, %tid.x; mov.u32 %r2, smem; mad.lo.u32 %r3, %r1, 4, %r2; st.shared.u32 [%r3], %r1;
        and.b32 %r4, %r1, 1; setp.eq.u32 %p1, %r4, 0; @%p1 bra A; barrier.sync 0; bra D; A: barrier.sync 0; D:
        xor.b32 %r5, %r1, 32; mad.lo.u32 %r6, %r5, 4, %r2; ld.shared.u32 %r7, [%r6];
        mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2], %r7;";
    let out = must_pass("sm_80", body, &warps(2), 256);
    assert_eq!(u32s(&out), (0..64).map(|i| i ^ 32).collect::<Vec<u32>>());
}

#[test]
fn barrier_reductions() {
    let body = "mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 3; setp.eq.u32 %p1, %r2, 1; bar.red.popc.u32 %r3, 0, %p1;
        bar.red.and.pred %p2, 0, !%p1; bar.red.or.pred %p3, 0, %p1; selp.u32 %r4, 1000, 0, %p2; selp.u32 %r5, 100, 0, %p3;
        add.u32 %r3, %r3, %r4; add.u32 %r3, %r3, %r5; mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2], %r3;";
    assert_eq!(u32s(&must_pass("sm_80", body, &warps(3), 384)), vec![124; 96]);
}

#[test]
fn poison_rules() {
    let run = warps(1);
    let addr = "mad.wide.u32 %rd2, %r1, 4, %rd1;";
    must_fail(
        "sm_80",
        &format!("mov.u32 %r1, %tid.x; {addr} add.u32 %r3, %r2, 1; st.global.u32 [%rd2], %r3;"),
        &run,
        ErrorKind::Poison,
        "st.global",
    );
    must_fail("sm_80", "mov.u32 %r1, 0; ld.global.u32 %r1, [%rd5];", &run, ErrorKind::Poison, "address");
    must_fail("sm_80", "setp.eq.u32 %p1, %r2, 0; @%p1 bra D; D:", &run, ErrorKind::Poison, "guard");
    must_fail("sm_80", "setp.eq.u32 %p1, %r2, 0; @%p1 mov.u32 %r3, 0;", &run, ErrorKind::Poison, "guard");
    must_fail("sm_80", "red.global.add.u32 [%rd1], %r9;", &run, ErrorKind::Poison, "atomic");
    // Moving, selecting and keeping undefined values is fine.
    let fine = format!(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, smem; mad.lo.u32 %r2, %r1, 4, %r2; {addr} add.u32 %r4, %r5, 1; st.shared.u32 [%r2], %r4;
         ld.shared.u32 %r6, [%r2]; setp.lt.u32 %p1, %r1, 32; selp.u32 %r7, %r1, %r6, %p1; st.global.u32 [%rd2], %r7;"
    );
    assert_eq!(u32s(&must_pass("sm_80", &fine, &run, 128)), (0..32).collect::<Vec<u32>>());
    let stored = fine.replace("setp.lt.u32 %p1, %r1, 32", "setp.lt.u32 %p1, %r1, 31");
    must_fail("sm_80", &stored, &run, ErrorKind::Poison, "lane 31");
    // A lane that shuffles from a lane outside the operation gets an undefined value.
    let shfl = format!(
        "mov.u32 %r1, %tid.x; {addr} setp.lt.u32 %p1, %r1, 16; @!%p1 bra D; shfl.sync.bfly.b32 %r3, %r1, 16, 31, 0xffff; st.global.u32 [%rd2], %r3; D:"
    );
    must_fail("sm_80", &shfl, &run, ErrorKind::Poison, "st.global");
}

#[test]
fn addresses() {
    let run = warps(1);
    must_fail(
        "sm_80",
        "mov.u32 %r1, %tid.x; mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2+3972], %r1;",
        &run,
        ErrorKind::OutOfBounds,
        "4 bytes past its end",
    );
    must_fail("sm_80", "mov.u32 %r1, 5; st.global.u32 [%rd1+-4], %r1;", &run, ErrorKind::OutOfBounds, "4 bytes before buffer `out`");
    must_fail("sm_80", "mov.u32 %r1, 5; st.global.u32 [%rd1+2], %r1;", &run, ErrorKind::Misaligned, "2 past a multiple of 4");
    must_fail("sm_80", "mov.u32 %r1, 5; st.global.v2.u32 [%rd1+4], {%r1, %r1};", &run, ErrorKind::Misaligned, "4 past a multiple of 8");
    must_fail("sm_80", "ld.global.u32 %r1, [%rd1+8];", &run, ErrorKind::Uninitialised, "byte 8 of buffer `out`");
    must_fail("sm_80", "mov.u32 %r2, smem; ld.shared.u32 %r1, [%r2+8];", &run, ErrorKind::Uninitialised, "byte 8 of shared memory");
    must_fail(
        "sm_80",
        "mov.u32 %r2, smem; mov.u32 %r1, 1; st.shared.u32 [%r2+4096], %r1;",
        &run,
        ErrorKind::OutOfBounds,
        "4 bytes past the end",
    );
    must_fail("sm_80", "mov.u32 %r2, 16; st.shared.u32 [%r2], %r2;", &run, ErrorKind::OutOfBounds, "below the window");
    must_fail("sm_80", "mov.u32 %r2, smem; st.shared.u32 [%r2+6], %r2;", &run, ErrorKind::Misaligned, "st.shared");
    must_fail("sm_80", "ld.param.u64 %rd3, [out+8];", &run, ErrorKind::OutOfBounds, "parameter bytes");
}

#[test]
fn discarded_lines_have_no_value() {
    let body = |a: &str| {
        format!(
            "mov.u32 %r1, 1; st.global.u32 [%rd1], %r1; st.global.u32 [%rd1+128], %r1; discard.global.L2 [%rd1], 128; ld.global.u32 %r2, [%rd1{a}];"
        )
    };
    must_fail("sm_80", &body(""), &warps(1), ErrorKind::Uninitialised, "byte 0");
    let m = module(&kernel("sm_80", ".param .u64 out", &format!("ld.param.u64 %rd1, [out]; {}", body("+128"))));
    let mut mem = Memory::new();
    let o = mem.alloc("o", Init::Uninit(256));
    launch(&m, &warps(1), &[Arg::U64(o)], &mut mem).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(mem.is_written(o, 4), Ok(false));
}

/// The mask is forgotten on the load of a ragged tile.
#[test]
fn missing_mask() {
    let text = |guard: &str| {
        kernel(
            "sm_80",
            ".param .u64 in, .param .u64 out, .param .u32 n",
            &format!(
                "ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.param.u32 %r4, [n];
                 mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3; setp.lt.u32 %p1, %r1, %r4;
                 mad.wide.u32 %rd3, %r1, 4, %rd1; mad.wide.u32 %rd4, %r1, 4, %rd2; mov.u32 %r5, 0;
                 {guard} ld.global.u32 %r5, [%rd3]; add.u32 %r5, %r5, 1; @%p1 st.global.u32 [%rd4], %r5;"
            ),
        )
    };
    let go = |t: &str, n: usize| {
        let m = module(t);
        let mut mem = Memory::new();
        let a = mem.alloc("in", Init::Bytes((0..n as u32).flat_map(u32::to_le_bytes).collect()));
        let o = mem.alloc("out", Init::Uninit(4 * n));
        let run = Run { grid: n.div_ceil(64) as u32, block: 64, ..Run::default() };
        launch(&m, &run, &[Arg::U64(a), Arg::U64(o), Arg::U32(n as u32)], &mut mem)?;
        Ok::<_, tilelift_nvptx_sim::SimError>(u32s(mem.read(o, 4 * n).expect("written")))
    };
    for n in [1, 7, 64, 129, 1000] {
        assert_eq!(go(&text("@%p1"), n).unwrap_or_else(|e| panic!("{e}")), (1..=n as u32).collect::<Vec<_>>());
        let bad = go(&text(""), n);
        if n % 64 == 0 {
            assert!(bad.is_ok());
        } else {
            let e = bad.unwrap_err();
            assert_eq!(e.kind, ErrorKind::OutOfBounds);
            assert!(e.to_string().contains("buffer `in`"), "{e}");
        }
    }
}

#[test]
fn global_races() {
    // Two CTAs write the same word.
    let two = Run { grid: 2, block: 32, ..Run::default() };
    let same = "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; setp.eq.u32 %p1, %r2, 0; @%p1 st.global.u32 [%rd1], %r1;";
    must_fail("sm_80", same, &two, ErrorKind::Race, "another CTA writes");
    // One warp reads what another writes.
    let rw = "mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2], %r1; {sync}
        xor.b32 %r3, %r1, 32; mad.wide.u32 %rd3, %r3, 4, %rd1; ld.global.u32 %r4, [%rd3]; add.u64 %rd2, %rd2, 256; st.global.u32 [%rd2], %r4;";
    for config in schedules() {
        let e = run_out("sm_80", &rw.replace("{sync}", ""), &Run { config, ..warps(2) }, 512).unwrap_err();
        assert!(matches!(e.kind, ErrorKind::Race | ErrorKind::Uninitialised), "{e}");
    }
    must_pass("sm_80", &rw.replace("{sync}", "bar.sync 0;"), &warps(2), 512);
    // Lanes of one store disagree about one word.
    must_fail("sm_80", "mov.u32 %r1, %tid.x; st.global.u32 [%rd1], %r1;", &warps(1), ErrorKind::Race, "lanes 0 and 1");
    must_pass("sm_80", "mov.u32 %r1, 3; st.global.u32 [%rd1], %r1;", &warps(1), 4);
}

/// Each CTA adds to a total; the last one to arrive reads all parts.
#[test]
fn last_block_pattern() {
    let body = |fence1: &str, fence2: &str| {
        format!(
            "mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mov.u32 %r3, %nctaid.x; mov.u32 %r9, smem;
             ld.param.u64 %rd2, [counter];
             setp.ne.u32 %p1, %r2, 0; mul.lo.u32 %r4, %r1, %r1; mad.wide.u32 %rd3, %r1, 4, %rd1;
             @!%p1 st.global.u32 [%rd3+64], %r4;
             {fence1}
             @!%p1 atom.global.add.u32 %r5, [%rd2], 1;
             @!%p1 st.shared.u32 [%r9], %r5;
             bar.sync 0;
             ld.shared.u32 %r5, [%r9]; sub.u32 %r6, %r3, 1; setp.ne.u32 %p2, %r5, %r6; @%p2 bra D;
             {fence2}
             @%p1 bra D;
             mov.u32 %r7, 0; mov.u32 %r8, 0;
             L: mad.wide.u32 %rd4, %r8, 4, %rd1; ld.global.u32 %r10, [%rd4+64]; add.u32 %r7, %r7, %r10;
             add.u32 %r8, %r8, 1; setp.lt.u32 %p3, %r8, %r3; @%p3 bra L;
             st.global.u32 [%rd1], %r7; D:"
        )
    };
    let go = |b: &str, config: SimConfig| {
        let t = kernel("sm_80", ".param .u64 out, .param .u64 counter", &format!("ld.param.u64 %rd1, [out];\n{b}"));
        let m = module(&t);
        let mut mem = Memory::new();
        let o = mem.alloc("out", Init::Uninit(256));
        let c = mem.alloc("counter", Init::Zeroed(4));
        launch(&m, &Run { grid: 8, block: 64, shared: 16, config }, &[Arg::U64(o), Arg::U64(c)], &mut mem)?;
        Ok::<_, tilelift_nvptx_sim::SimError>(u32s(mem.read(o, 4).expect("written"))[0])
    };
    for config in schedules() {
        for resident in [1, 3] {
            let c = SimConfig { resident, ..config.clone() };
            assert_eq!(go(&body("fence.acq_rel.gpu;", "fence.acq_rel.gpu;"), c.clone()).unwrap_or_else(|e| panic!("{e}")), 140);
            assert_eq!(go(&body("membar.gl;", "membar.gl;"), c.clone()).unwrap_or_else(|e| panic!("{e}")), 140);
            for (a, b) in [("", "fence.acq_rel.gpu;"), ("fence.acq_rel.cta;", "fence.acq_rel.gpu;")] {
                assert_eq!(go(&body(a, b), c.clone()).unwrap_err().kind, ErrorKind::Race);
            }
        }
    }
}

#[test]
fn endless_loop_and_trap() {
    must_fail("sm_80", "L: bra L;", &warps(1), ErrorKind::Budget, "2000000");
    must_fail("sm_80", "trap;", &warps(1), ErrorKind::Trap, "trap");
    must_fail("sm_80", "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 3; @%p1 bra.uni D; D:", &warps(1), ErrorKind::Divergence, ".uni");
}

#[test]
fn whole_warp_operations_need_the_whole_warp() {
    let half =
        "mov.u32 %r1, %laneid; mov.u32 %r2, smem; mov.u32 %r3, 0; mad.lo.u32 %r4, %r1, 16, %r2; st.shared.v4.u32 [%r4], {%r3,%r3,%r3,%r3};
        setp.lt.u32 %p1, %r1, 16; @!%p1 bra D; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r5}, [%r4]; D:";
    must_fail("sm_80", half, &warps(1), ErrorKind::Divergence, "ldmatrix");
    let mask = "mov.u32 %r1, %laneid; setp.lt.u32 %p1, %r1, 16; @!%p1 bra E; shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; bra D; E: shfl.sync.idx.b32 %r3, %r1, 1, 31, -1; D:";
    must_fail("sm_80", mask, &warps(1), ErrorKind::Divergence, "which are at");
    let off = "mov.u32 %r1, %laneid; setp.lt.u32 %p1, %r1, 16; @%p1 shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;";
    must_fail("sm_80", off, &warps(1), ErrorKind::Divergence, "predicated off");
    let outside = "mov.u32 %r1, %laneid; shfl.sync.idx.b32 %r2, %r1, 0, 31, 0xff;";
    must_fail("sm_80", outside, &warps(1), ErrorKind::Undefined, "lane 8");
}

/// Two groups that take turns with a pair of named barriers; the first turn needs a token.
#[test]
fn ping_pong_turns() {
    let body = |token: &str, turns: u32| {
        format!(
            "mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; setp.ne.u32 %p1, %r2, 0; mov.u32 %r3, 0; mov.u32 %r9, smem; and.b32 %r10, %r1, 31;
             mad.lo.u32 %r9, %r10, 4, %r9; mov.u32 %r4, 0; @%p1 bra T; st.shared.u32 [%r9], %r4; bra G; T: {token}
             G: mov.u32 %r5, 3; @%p1 mov.u32 %r5, {turns};
             L: @%p1 bra B; bar.sync 1, 64; bra C; B: bar.sync 2, 64;
             C: ld.shared.u32 %r6, [%r9]; add.u32 %r6, %r6, 1; st.shared.u32 [%r9], %r6;
             @%p1 bra E; bar.arrive 2, 64; bra F; E: bar.arrive 1, 64;
             F: add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, %r5; @%p2 bra L;
             mad.wide.u32 %rd2, %r10, 4, %rd1; @%p1 st.global.u32 [%rd2], %r6;"
        )
    };
    assert_eq!(u32s(&must_pass("sm_80", &body("bar.arrive 1, 64;", 3), &warps(2), 128)), vec![6; 32]);
    must_fail("sm_80", &body("", 3), &warps(2), ErrorKind::Deadlock, "barrier 1");
    must_fail("sm_80", &body("bar.arrive 1, 64;", 4), &warps(2), ErrorKind::Deadlock, "barrier 2");
}

/// One barrier number for two pairs of warps: whoever comes first is counted together.
#[test]
fn one_number_for_two_pairs() {
    let body = |id: &str| {
        format!(
            "mov.u32 %r1, %tid.x; mov.u32 %r2, smem; mad.lo.u32 %r3, %r1, 4, %r2; shr.u32 %r4, %r1, 6; st.shared.u32 [%r3], %r1;
             add.u32 %r5, %r4, 1; bar.sync {id}, 64; xor.b32 %r6, %r1, 32; mad.lo.u32 %r6, %r6, 4, %r2; ld.shared.u32 %r7, [%r6];
             mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2], %r7;"
        )
    };
    must_pass("sm_80", &body("%r5"), &warps(4), 512);
    for config in schedules() {
        let e = run_out("sm_80", &body("1"), &Run { config, ..warps(4) }, 512).unwrap_err();
        assert!(matches!(e.kind, ErrorKind::Barrier | ErrorKind::Race | ErrorKind::Uninitialised), "{e}");
    }
}

/// A kernel that waits for the launches in front of it touches global memory behind that only, in every lane.
#[test]
fn global_memory_waits_for_earlier_launches() {
    let store = "mov.u32 %r1, %tid.x; mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2], %r1;";
    let all = format!("griddepcontrol.launch_dependents; griddepcontrol.wait; {store}");
    let out = must_pass("sm_90", &all, &warps(2), 256);
    assert_eq!(u32s(&out), (0..64).collect::<Vec<u32>>());
    let behind = format!("{store} griddepcontrol.wait;");
    let some = format!("mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 griddepcontrol.wait; {store}");
    for body in [behind, some] {
        for config in schedules() {
            let e = run_out("sm_90", &body, &Run { config, ..warps(2) }, 256).unwrap_err();
            assert_eq!(e.kind, ErrorKind::LaunchOrder, "{e}");
            assert!(e.site.expect("site").text.starts_with("st.global"));
        }
    }
    // Nobody waits: nothing to be late for, where launches do not overlap.
    must_pass("sm_90", store, &warps(2), 256);
    for (body, early) in [(store.to_string(), true), (format!("griddepcontrol.launch_dependents; {store}"), false)] {
        for config in schedules() {
            let config = SimConfig { early_launch: early, ..config };
            let e = run_out("sm_90", &body, &Run { config, ..warps(2) }, 256).unwrap_err();
            assert_eq!(e.kind, ErrorKind::LaunchOrder, "{e}");
            assert!(e.to_string().contains("no `griddepcontrol.wait` in the text"), "{e}");
        }
    }
}

/// One thread may wait for all that it meets behind: at a barrier of the CTA, of a warp, at an mbarrier. Others are early.
#[test]
fn who_meets_a_thread_that_waited_is_behind_it() {
    let store = "mov.u32 %r1, %tid.x; mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2], %r1;";
    let one = "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 griddepcontrol.wait;";
    must_pass("sm_90", &format!("{one} bar.sync 0; {store}"), &warps(2), 256);
    must_pass("sm_90", &format!("{one} bar.warp.sync -1; {store}"), &warps(1), 128);
    let init = "mov.u32 %r2, smem; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; @%p1 mbarrier.init.shared::cta.b64 [%r2], 1; bar.sync 0;";
    let meet = |first: &str, behind: &str| {
        format!(
            "{init} {first} @%p1 mbarrier.arrive.shared::cta.b64 _, [%r2]; {behind}
             W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W; {store}"
        )
    };
    let wait = "@%p1 griddepcontrol.wait;";
    must_pass("sm_90", &meet(wait, ""), &warps(2), 256);
    let early = [
        // The thread waits when the others have met it.
        meet("", wait),
        format!("bar.sync 0; {one} {store}"),
        // It meets no one.
        format!("{one} {store}"),
        // The second warp does not come.
        format!("{one} bar.warp.sync -1; {store}"),
        // Copies are accesses, too.
        "mov.u32 %r2, smem; cp.async.ca.shared.global [%r2], [%rd1], 16; cp.async.wait_all; griddepcontrol.wait;".to_string(),
    ];
    for body in early {
        for config in schedules() {
            let e = run_out("sm_90", &body, &Run { config, ..warps(2) }, 256).unwrap_err();
            assert!(matches!(e.kind, ErrorKind::LaunchOrder), "{body}: {e}");
        }
    }
}
