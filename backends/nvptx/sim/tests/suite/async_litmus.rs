//! Small asynchronous programs that must be accepted or refused under every schedule and landing.

use crate::common::hopper::map_arg;
use crate::common::{Run, kernel, launch, module, schedules, u32s};
use tilelift_nvptx_sim::{Arg, ErrorKind, Init, MapElement, Memory, SimConfig, SimError, TensorMap};

/// Names every program uses: %rd1 out, %rd2 in, %rd3 tensor map (32 x 32 f32, box 32 x 8: 1024 bytes), %r1 thread, %r2 shared memory, %r3
/// lane, %r4 warp, %r5 and %r6 mbarriers, %r7 own word of the first tile, %p1 "not thread 0", %p2 "not warp 0", %rd4 own output word.
const PRELUDE: &str = "mov.b64 %rd3, tm; cvta.param.u64 %rd3, %rd3; ld.param.u64 %rd2, [in]; ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x; mov.u32 %r2, smem; and.b32 %r3, %r1, 31; shr.u32 %r4, %r1, 5;
    add.u32 %r5, %r2, 16384; add.u32 %r6, %r2, 16392; mad.lo.u32 %r7, %r1, 4, %r2;
    setp.ne.u32 %p1, %r1, 0; setp.ne.u32 %p2, %r4, 0; mad.wide.u32 %rd4, %r1, 4, %rd1; mov.u32 %r10, 0; mov.u32 %r11, 1; mov.u32 %r12, 2;";

fn text(body: &str) -> String {
    kernel("sm_90a", ".param .align 64 .b8 tm[128], .param .u64 in, .param .u64 out", &format!("{PRELUDE}\n{body}"))
}

/// Initialises the first mbarrier with a count and the second with 1.
fn init(count: u32) -> String {
    format!(
        "@%p1 bra INITED; mbarrier.init.shared::cta.b64 [%r5], {count}; mbarrier.init.shared::cta.b64 [%r6], 1;
         fence.mbarrier_init.release.cluster; INITED: bar.sync 0;"
    )
}

const LOAD: &str = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd3, {%r10, %r10}], [%r5];";
const EXPECT: &str = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 1024;";

fn wait(label: &str, bar: &str, parity: u32) -> String {
    format!("{label}: mbarrier.try_wait.parity.shared::cta.b64 %p5, [{bar}], {parity}; @!%p5 bra {label};")
}

/// Output of the launch: 1024 words, zero before.
fn run(text: &str, warps: u32, config: &SimConfig) -> Result<Vec<u32>, SimError> {
    let m = module(text);
    let mut mem = Memory::new();
    let a = mem.alloc("in", Init::Bytes((0..1024u32).flat_map(|i| (i + 1).to_le_bytes()).collect()));
    let o = mem.alloc("out", Init::Zeroed(4096));
    let map = map_arg(TensorMap::new(a, MapElement::F32, &[32, 32], &[128], &[32, 8]));
    let r = Run { block: 32 * warps, shared: 16384 + 64, config: config.clone(), ..Run::default() };
    launch(&m, &r, &[map, Arg::U64(a), Arg::U64(o)], &mut mem)?;
    Ok(u32s(mem.read(o, 4096).expect("zeroed")))
}

fn pass(warps: u32, body: &str) -> Vec<u32> {
    let t = text(body);
    let mut last = None;
    for c in schedules() {
        let v = run(&t, warps, &c).unwrap_or_else(|e| panic!("{e}\nunder {:?} {:?}\n{body}", c.policy, c.landing));
        assert!(last.is_none() || last.as_ref() == Some(&v), "the result depends on the schedule");
        last = Some(v);
    }
    last.expect("there are schedules")
}

/// Under every schedule one of the kinds, with the needle in the report.
fn fail(warps: u32, body: &str, kinds: &[ErrorKind], needle: &str) {
    let t = text(body);
    for c in schedules() {
        match run(&t, warps, &c) {
            Ok(_) => panic!("no fault under {:?} {:?}\n{body}", c.policy, c.landing),
            Err(e) => {
                assert!(kinds.contains(&e.kind), "under {:?} {:?}: {e}\n{body}", c.policy, c.landing);
                assert!(e.to_string().contains(needle), "`{needle}` is not in:\n{e}");
            }
        }
    }
}

use ErrorKind as K;
const OUT: &str = "ld.shared.u32 %r20, [%r7]; st.global.u32 [%rd4], %r20;";

fn ramp(n: u32) -> Vec<u32> {
    (1..=n).collect()
}

/// Rows 1 and 10: load, wait, read; and the ring of one slot for several laps.
#[test]
fn load_wait_read() {
    let w = wait("W", "%r5", 0);
    let out = pass(2, &format!("{} @%p1 bra W; {EXPECT} {LOAD} {w} {OUT}", init(1)));
    assert_eq!(out[..64], ramp(64)[..]);
    for n in 0..4 {
        // Warp 0 fills the slot n times, warp 1 reads it and gives it back.
        let body = format!(
            "{} mov.u32 %r20, 0; mov.u32 %r21, 0; mov.u32 %r22, 0; mov.u32 %r23, 1; @!%p2 bra P;
             C: setp.ge.u32 %p6, %r21, {n}; @%p6 bra E; WC: mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r5], %r22; @!%p5 bra WC;
             mad.lo.u32 %r24, %r3, 4, %r2; ld.shared.u32 %r25, [%r24]; add.u32 %r20, %r20, %r25; bar.warp.sync -1; fence.proxy.async.shared::cta;
             setp.eq.u32 %p7, %r3, 0; @%p7 mbarrier.arrive.shared::cta.b64 _, [%r6]; xor.b32 %r22, %r22, 1; add.u32 %r21, %r21, 1; bra C;
             E: st.global.u32 [%rd4], %r20; bra D;
             P: elect.sync _|%p6, -1; @!%p6 bra D;
             L: setp.ge.u32 %p6, %r21, {n}; @%p6 bra D; WP: mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r6], %r23; @!%p5 bra WP;
             {EXPECT} mul.lo.u32 %r26, %r21, 8;
             cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd3, {{%r10, %r26}}], [%r5];
             xor.b32 %r23, %r23, 1; add.u32 %r21, %r21, 1; bra L; D:",
            init(1)
        );
        let out = pass(2, &body);
        for l in 0..32u32 {
            assert_eq!(out[32 + l as usize], (0..n).map(|i| 256 * i + l + 1).sum::<u32>());
        }
        if n > 1 {
            // Row 13: ordinary reads and the copy that overwrites them, without a fence.
            let unfenced = body.replace("fence.proxy.async.shared::cta;", "");
            fail(2, &unfenced, &[K::Proxy], "fence.proxy.async");
            let lax = |t: &str| {
                for c in schedules() {
                    let c = SimConfig { strict_proxy_reads: false, ..c };
                    run(&text(t), 2, &c).unwrap_or_else(|e| panic!("{e}"));
                }
            };
            lax(&unfenced);
            // The slot is given back before it is read.
            let early = body.replace("ld.shared.u32 %r25, [%r24]; add.u32 %r20, %r20, %r25;", "").replace(
                "xor.b32 %r22, %r22, 1; add.u32 %r21",
                "ld.shared.u32 %r25, [%r24]; add.u32 %r20, %r20, %r25; xor.b32 %r22, %r22, 1; add.u32 %r21",
            );
            fail(2, &early, &[K::Race, K::Proxy], "cp.async.bulk.tensor");
            // Producer waits with the parity of a consumer.
            fail(2, &body.replace("mov.u32 %r23, 1;", "mov.u32 %r23, 0;"), &[K::Deadlock], "phase 0 (parity 0) of the mbarrier");
            // Nobody gives the slot back.
            let kept = body.replace("@%p7 mbarrier.arrive.shared::cta.b64 _, [%r6];", "");
            fail(2, &kept, &[K::Deadlock], "1 of 1 arrivals are pending");
        }
    }
}

/// Rows 2, 11, 12, 18.
#[test]
fn who_may_read_a_copy() {
    let start = format!("{} @%p1 bra S; {EXPECT} {LOAD} S:", init(1));
    fail(2, &format!("{start} {OUT}"), &[K::Race, K::Uninitialised], "ld.shared");
    // The other warp is ordered through a barrier.
    let w = wait("W", "%r5", 0);
    assert_eq!(pass(2, &format!("{start} @%p2 bra B; {w} B: bar.sync 0; {OUT}"))[..64], ramp(64)[..]);
    fail(2, &format!("{start} @%p2 bra B; {w} B: {OUT}"), &[K::Race, K::Uninitialised], "ld.shared");
    // A flag in shared memory that is no synchronisation.
    let flag = "st.shared.u32 [%r2+8192], %r11;";
    let spin = "F: ld.shared.u32 %r20, [%r2+8192]; setp.eq.u32 %p6, %r20, 0; @%p6 bra F;";
    let body = format!("@!%p1 st.shared.u32 [%r2+8192], %r10; {start} @%p2 bra B; {w} @!%p1 {flag} bra O; B: {spin} O: {OUT}");
    fail(2, &body, &[K::Race], "8192");
    // Two copies on two mbarriers: waiting for one says nothing about the other.
    let other = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2+1024], [%rd3, {%r10, %r10}], [%r6];";
    let expect2 = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r6], 1024;";
    let two = format!("{} @%p1 bra S; {EXPECT} {LOAD} {expect2} {other} S:", init(1));
    let w2 = wait("W2", "%r6", 0);
    fail(1, &format!("{two} {w2} {OUT}"), &[K::Race], "not ordered after its completion");
    assert_eq!(pass(1, &format!("{two} {w2} {w} {OUT}"))[..32], ramp(32)[..]);
}

/// Rows 17, 19, 20, 21, 22 and the sums of bytes.
#[test]
fn transaction_counts() {
    let w = wait("W", "%r5", 0);
    let load2 = LOAD.replace("[%r2]", "[%r2+1024]");
    let two = EXPECT.replace("1024", "2048");
    let read2 = "ld.shared.u32 %r20, [%r7]; ld.shared.u32 %r21, [%r7+1024]; add.u32 %r20, %r20, %r21; st.global.u32 [%rd4], %r20;";
    let out = pass(1, &format!("{} @%p1 bra W; {two} {LOAD} {load2} {w} {read2}", init(1)));
    assert_eq!(out[5], 12);
    // The expectation may follow the copy in the same phase.
    assert_eq!(pass(1, &format!("{} @%p1 bra W; {LOAD} {EXPECT} {w} {OUT}", init(1)))[..32], ramp(32)[..]);
    // An arrival that completes the phase before the bytes are expected; which fault is seen depends on the landing.
    let early = format!("{} @%p1 bra W; {LOAD} mbarrier.arrive.shared::cta.b64 _, [%r5]; {w} {OUT}", init(1));
    fail(1, &early, &[K::Phase, K::Deadlock], "mbarrier");
    // Half the bytes expected, twice the bytes expected.
    fail(1, &format!("{} @%p1 bra W; {EXPECT} {LOAD} {load2} {w} {OUT}", init(1)), &[K::Phase, K::Deadlock, K::InFlight], "mbarrier");
    fail(1, &format!("{} @%p1 bra W; {two} {LOAD} {w} {OUT}", init(1)), &[K::Deadlock], "transaction count 1024");
    // Bytes expected but no arrival.
    let no_arrive = format!("{} @%p1 bra W; mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r5], 1024; {LOAD} {w} {OUT}", init(1));
    fail(1, &no_arrive, &[K::Deadlock], "1 of 1 arrivals are pending");
    // A fresh barrier: the phase before is over, its own is not.
    pass(1, &format!("{} {}", init(1), wait("W", "%r5", 1)));
    fail(1, &format!("{} {}", init(1), wait("W", "%r5", 0)), &[K::Deadlock], "1 of 1 arrivals are pending");
}

/// Row 23 and the rule that the next phase completes only when the waiters have seen the last.
#[test]
fn phases_must_not_be_lost() {
    let arrive = "mbarrier.arrive.shared::cta.b64 _, [%r5];";
    // Thread 0 completes two phases; warp 1 waits for the first, with no order to the second.
    let body = format!("{} @%p2 bra W; @!%p1 {arrive} @!%p1 {arrive} bra D; {} D:", init(1), wait("W", "%r5", 0));
    fail(2, &body, &[K::Phase, K::Deadlock], "mbarrier");
    // With an order it is fine.
    let ordered =
        format!("{} @%p2 bra W; @!%p1 {arrive} bar.sync 1, 64; @!%p1 {arrive} bra D; {} bar.sync 1, 64; D:", init(1), wait("W", "%r5", 0));
    pass(2, &ordered);
    // Two phases late.
    let late = format!("{} @!%p1 {arrive} @!%p1 {arrive} bar.sync 1, 64; {}", init(1), wait("W", "%r5", 0));
    fail(2, &late, &[K::Phase, K::Deadlock], "mbarrier");
}

/// Rows 3, 4, 5, 8, 9 and what exit needs.
#[test]
fn bulk_stores() {
    let store = "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 256; cp.async.bulk.commit_group;";
    let fill = "st.shared.u32 [%r7], %r1;";
    let good = format!("{fill} fence.proxy.async.shared::cta; bar.sync 0; @%p1 bra D; {store} cp.async.bulk.wait_group.read 0; D:");
    assert_eq!(pass(2, &good)[..64], (0..64).collect::<Vec<u32>>()[..]);
    // The fence by the issuing thread, after the barrier, is on the path as well.
    let by_issuer = format!("{fill} bar.sync 0; @%p1 bra D; fence.proxy.async.shared::cta; {store} cp.async.bulk.wait_group.read 0; D:");
    pass(2, &by_issuer);
    let no_fence = good.replace("fence.proxy.async.shared::cta;", "");
    fail(2, &no_fence, &[K::Proxy], "st.shared.u32 [%r7], %r1");
    let fence_first = format!("fence.proxy.async.shared::cta; {fill} bar.sync 0; @%p1 bra D; {store} cp.async.bulk.wait_group.read 0; D:");
    fail(2, &fence_first, &[K::Proxy], "cp.async.bulk.global");
    // A fence for the wrong space.
    fail(2, &good.replace("async.shared::cta", "async.global"), &[K::Proxy], "fence");
    let no_bar = good.replace("bar.sync 0;", "");
    fail(2, &no_bar, &[K::Race, K::Uninitialised], "cp.async.bulk.global");
    // The source is overwritten: after the wait and a barrier, or not.
    let again = "st.shared.u32 [%r7], %r12;";
    let reuse = format!(
        "{fill} fence.proxy.async.shared::cta; bar.sync 0; @%p1 bra N; {store} cp.async.bulk.wait_group.read 0; N: bar.sync 0; {again}"
    );
    assert_eq!(pass(2, &reuse)[..64], (0..64).collect::<Vec<u32>>()[..]);
    fail(2, &reuse.replace("cp.async.bulk.wait_group.read 0;", ""), &[K::Race], "wait_group.read");
    fail(2, &reuse.replace("N: bar.sync 0;", "N:"), &[K::Race], "st.shared");
    fail(2, &reuse.replace("wait_group.read 0", "wait_group.read 1"), &[K::Race], "wait_group.read");
    // The destination is read: only a full wait covers it.
    let read_back = format!(
        "{fill} fence.proxy.async.shared::cta; bar.sync 0; @%p1 bra D; {store} cp.async.bulk.wait_group 0; ld.global.u32 %r20, [%rd1+4]; st.global.u32 [%rd1+1024], %r20; D:"
    );
    assert_eq!(pass(2, &read_back)[256], 1);
    fail(2, &read_back.replace("wait_group 0", "wait_group.read 0"), &[K::Race], "without .read");
    // Leaving with the source still in use.
    fail(2, &good.replace("cp.async.bulk.wait_group.read 0;", ""), &[K::InFlight], "wait_group.read 0");
    fail(2, &good.replace("cp.async.bulk.commit_group;", ""), &[K::InFlight], "wait_group.read 0");
    // Undefined bytes are not stored.
    fail(2, &good.replace(fill, "@%p1 st.shared.u32 [%r7], %r1;"), &[K::Uninitialised], "byte 0 of shared memory");
}

/// Rows 33 and 34, and bulk reductions as such.
#[test]
fn bulk_reductions() {
    let fill = "st.shared.u32 [%r7], %r1; fence.proxy.async.shared::cta; bar.sync 0;";
    let red = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r2], 256; cp.async.bulk.commit_group;";
    let twice = format!("{fill} @%p1 bra D; {red} {red} cp.async.bulk.wait_group.read 0; D:");
    assert_eq!(pass(2, &twice)[..64], (0..64).map(|i| 2 * i).collect::<Vec<u32>>()[..]);
    let mixed = format!(
        "{fill} setp.eq.u32 %p6, %r1, 32; @%p6 red.global.add.u32 [%rd1+128], %r11; @%p1 bra D; {red} cp.async.bulk.wait_group.read 0; D:"
    );
    fail(2, &mixed, &[K::Race], "buffer `out`");
}

/// Row 32: the completion of a copy carries what the copy wrote, not what its issuer did before.
#[test]
fn completion_is_not_a_release_of_the_issuer() {
    let w = wait("W", "%r5", 0);
    // The arrival precedes the store; only the copy follows it.
    let body = |store: &str, after: &str| {
        format!(
            "{} @%p2 bra W; @%p1 bra W; {EXPECT} {store} {LOAD} {w} {after} @!%p2 bra D; ld.shared.u32 %r20, [%r2+8192]; st.global.u32 [%rd4], %r20; D:",
            init(1)
        )
    };
    fail(2, &body("st.shared.u32 [%r2+8192], %r12;", ""), &[K::Race], "8192");
    let sync = body("st.shared.u32 [%r2+8192], %r12;", "bar.sync 0;");
    assert_eq!(pass(2, &sync)[32..64], [2; 32]);
}

/// Rows 14, 15, 16.
#[test]
fn cp_async_and_mbarriers() {
    let copy = "mad.wide.u32 %rd5, %r1, 16, %rd2; mad.lo.u32 %r20, %r1, 16, %r2; cp.async.cg.shared.global [%r20], [%rd5], 16;";
    let other = "xor.b32 %r21, %r1, 33; mad.lo.u32 %r21, %r21, 16, %r2; ld.shared.u32 %r22, [%r21]; st.global.u32 [%rd4], %r22;";
    let w = wait("W", "%r5", 0);
    let want: Vec<u32> = (0..64u32).map(|i| 4 * (i ^ 33) + 1).collect();
    // Every thread's copies count on the mbarrier.
    let noinc = format!("{} {copy} cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r5]; {w} {other}", init(64));
    assert_eq!(pass(2, &noinc)[..64], want[..]);
    // With the incrementing form the count is of the ordinary arrivals.
    let inc = format!(
        "{} {copy} cp.async.mbarrier.arrive.shared::cta.b64 [%r5]; mbarrier.arrive.shared::cta.b64 _, [%r5]; {w} {other}",
        init(64)
    );
    assert_eq!(pass(2, &inc)[..64], want[..]);
    fail(2, &noinc.replace(".noinc", ""), &[K::Deadlock], "64 of 64 arrivals are pending");
    fail(2, &noinc.replace("[%r5], 64", "[%r5], 63"), &[K::Mbarrier, K::Phase, K::Race], "cp.async");
    // A copy after the arrival is not counted.
    let after = format!("{} cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r5]; {copy} {w} {other}", init(64));
    fail(2, &after, &[K::Race, K::Uninitialised], "ld.shared");
    // Waiting for the group covers the own lane only.
    let own = format!("{copy} cp.async.commit_group; cp.async.wait_group 0; {other}");
    fail(2, &own, &[K::Race, K::Uninitialised], "ld.shared");
    // The groups are not disturbed by arrivals between.
    let mixed = format!(
        "{} {copy} cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r5]; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0; {other}",
        init(64)
    );
    assert_eq!(pass(2, &mixed)[..64], want[..]);
    // A bulk store of them: ordinary copies need the proxy fence.
    let store = "bar.sync 0; @%p1 bra D; cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 1024; cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; D:";
    pass(2, &format!("{copy} cp.async.wait_all; fence.proxy.async.shared::cta; {store}"));
    fail(2, &format!("{copy} cp.async.wait_all; {store}"), &[K::Proxy], "cp.async.cg");
}

/// Row 35.
#[test]
fn relaxed_waits() {
    let w = "W: mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p5, [%r5], 0; @!%p5 bra W;";
    let body = |fence: &str| {
        format!(
            "{} @%p2 bra W; st.shared.u32 [%r7], %r12; mbarrier.arrive.shared::cta.b64 _, [%r5]; bra D; {w} {fence}
             ld.shared.u32 %r20, [%r7+-128]; st.global.u32 [%rd4], %r20; D:",
            init(32)
        )
    };
    // The relaxed form is of a later version than the test kernels name.
    let late = |t: String| text(&t).replace(".version 8.0", ".version 8.6");
    for c in schedules() {
        let e = run(&late(body("")), 2, &c).expect_err("no acquire");
        assert_eq!(e.kind, K::Race, "{e}");
        assert_eq!(run(&late(body("fence.acq_rel.cta;")), 2, &c).unwrap_or_else(|e| panic!("{e}"))[32..64], [2; 32]);
    }
}

/// Named errors of mbarriers.
#[test]
fn mbarrier_misuse() {
    let bad = |n: u32, body: String, kind: K, needle: &str| fail(n, &body, &[kind], needle);
    bad(1, "@!%p1 mbarrier.arrive.shared::cta.b64 _, [%r5];".into(), K::Mbarrier, "not initialised");
    bad(1, format!("{} @!%p1 mbarrier.init.shared::cta.b64 [%r5], 1;", init(1)), K::Mbarrier, "is live");
    bad(1, "@!%p1 mbarrier.init.shared::cta.b64 [%r5], 0;".into(), K::Mbarrier, "count 0");
    bad(1, "@!%p1 mbarrier.init.shared::cta.b64 [%r5+4], 1;".into(), K::Misaligned, "multiple of 8");
    bad(1, format!("{} ld.shared.u32 %r20, [%r5];", init(1)), K::Mbarrier, "live mbarrier");
    bad(1, format!("{} @!%p1 st.shared.u32 [%r5+4], %r20;", init(1)), K::Mbarrier, "live mbarrier");
    bad(1, format!("{} mbarrier.arrive.shared::cta.b64 _, [%r5], 2;", init(3)), K::Mbarrier, "2 arrivals when 1 of 3 are pending");
    bad(2, "@!%p1 mbarrier.init.shared::cta.b64 [%r5], 64; mbarrier.arrive.shared::cta.b64 _, [%r5];".into(), K::Mbarrier, "initialis");
    // No fence before an asynchronous copy counts on it.
    let unfenced = format!(
        "{} @%p1 bra W; {EXPECT} {LOAD} {} {OUT}",
        init(1).replace("fence.mbarrier_init.release.cluster;", ""),
        wait("W", "%r5", 0)
    );
    bad(1, unfenced, K::Mbarrier, "fence.mbarrier_init");
    bad(1, format!("{} @!%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r5], 1048576;", init(1)), K::Mbarrier, "transaction count");
    bad(1, format!("{} {}", init(1), wait("W", "%r5", 2)).replace("[%r5], 2;", "[%r5], %r12;"), K::Mbarrier, "parity 2");
    // inval with a copy in flight; when it has landed already the other fault is that nobody waited for it.
    let inval = format!("{} @%p1 bra D; {EXPECT} {LOAD} mbarrier.inval.shared::cta.b64 [%r5]; D:", init(1)).replace("1024;", "2048;");
    fail(1, &inval, &[K::Mbarrier, K::InFlight], "line 17");
}

/// `inval` ends a barrier; its memory and the address are free again.
#[test]
fn inval_and_reuse() {
    let arrive = "mbarrier.arrive.shared::cta.b64 _, [%r5];";
    let body = format!(
        "{} @%p1 bra D; {arrive} {} mbarrier.inval.shared::cta.b64 [%r5]; mbarrier.init.shared::cta.b64 [%r5], 2; {arrive} {arrive} {}
         mbarrier.inval.shared::cta.b64 [%r5]; st.shared.u32 [%r5], %r12; ld.shared.u32 %r20, [%r5]; st.global.u32 [%rd1], %r20; D:",
        init(1),
        wait("W0", "%r5", 0),
        wait("W1", "%r5", 0)
    );
    assert_eq!(pass(1, &body)[0], 2);
    fail(
        1,
        &body.replace(
            "mbarrier.inval.shared::cta.b64 [%r5]; st",
            "mbarrier.inval.shared::cta.b64 [%r5]; mbarrier.arrive.shared::cta.b64 _, [%r5]; st",
        ),
        &[K::Mbarrier],
        "invalidated",
    );
}

/// Tokens, counts above one, drops, `test_wait`, `.noComplete`.
#[test]
fn arrival_forms() {
    let body = format!(
        "{} @%p1 bra D; mbarrier.arrive.noComplete.shared::cta.b64 %rd6, [%r5], 2; mbarrier.test_wait.shared::cta.b64 %p6, [%r5], %rd6;
         mbarrier.pending_count.b64 %r20, %rd6; st.global.u32 [%rd1], %r20;
         mbarrier.arrive_drop.shared::cta.b64 %rd7, [%r5]; mbarrier.test_wait.shared::cta.b64 %p7, [%r5], %rd6;
         mbarrier.arrive.shared::cta.b64 _, [%r5], 2; {}
         selp.u32 %r20, 1, 0, %p6; selp.u32 %r21, 1, 0, %p7; st.global.v2.u32 [%rd1+8], {{%r20, %r21}}; D:",
        init(3),
        wait("W", "%r5", 1)
    );
    let out = pass(1, &body);
    // Three pending at the first arrival; not complete before, complete after; then two make a phase.
    assert_eq!((out[0], out[2], out[3]), (3, 0, 1));
    fail(1, &body.replace("%rd6, [%r5], 2", "%rd6, [%r5], 3"), &[K::Mbarrier], ".noComplete");
}

/// A poll that is not repeated must not be taken for a wait.
#[test]
fn polls_return() {
    let body = format!(
        "{} @%p2 bra B; mbarrier.try_wait.parity.shared::cta.b64 %p6, [%r5], 0; mbarrier.test_wait.parity.shared::cta.b64 %p7, [%r5], 0;
         @!%p1 mbarrier.arrive.shared::cta.b64 _, [%r5]; {} selp.u32 %r20, 1, 0, %p6; st.global.u32 [%rd4], %r20; B:",
        init(1),
        wait("W", "%r5", 0)
    );
    assert_eq!(pass(2, &body)[0], 0);
}

/// The report of a deadlock names everybody and everything.
#[test]
fn deadlock_report() {
    let body = format!("{} @%p2 bra B; {} bra D; B: bar.sync 3, 64; D:", init(5), wait("W", "%r5", 0))
        .replace("INITED: bar.sync 0;", "INITED: bar.sync 0; @!%p1 mbarrier.arrive.shared::cta.b64 _, [%r5], 2;");
    for c in schedules() {
        let e = run(&text(&body), 2, &c).expect_err("deadlock");
        assert_eq!(e.kind, K::Deadlock);
        let s = e.to_string();
        for needle in [
            "warp 0 waits at line",
            "mbarrier.try_wait",
            "phase 0 (parity 0)",
            "3 of 5 arrivals are pending",
            "transaction count 0",
            "arrived: 2 x line",
            "warp 1 waits at line",
            "barrier 3: 32 of 64 threads",
        ] {
            assert!(s.contains(needle), "`{needle}` is not in:\n{s}");
        }
    }
}

/// Alignment, sizes, boxes, maps.
#[test]
fn bulk_rules() {
    let with = |load: &str| format!("{} @%p1 bra W; {EXPECT} {load} {} {OUT}", init(1), wait("W", "%r5", 0));
    let bulk = |dst: &str, src: &str, n: &str| {
        format!("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{dst}], [{src}], {n}, [%r5];")
    };
    assert_eq!(pass(1, &with(&bulk("%r2", "%rd2", "1024")))[..32], ramp(32)[..]);
    fail(1, &with(&LOAD.replace("[%r2]", "[%r2+64]")), &[K::Misaligned], "multiple of 128");
    fail(1, &with(&bulk("%r2+8", "%rd2", "1024")), &[K::Misaligned], "multiple of 16");
    fail(1, &with(&bulk("%r2", "%rd2+8", "1024")), &[K::Misaligned], "multiple of 16");
    fail(1, &with(&bulk("%r2", "%rd2", "%r21")).replace("@%p1 bra W;", "mov.u32 %r21, 1020; @%p1 bra W;"), &[K::Undefined], "1020");
    fail(1, &with(&bulk("%r2", "%rd2", "8192")), &[K::OutOfBounds], "buffer `in`");
    fail(1, &with(&bulk("%r2+16368", "%rd2", "1024")), &[K::OutOfBounds], "1024 bytes");
    fail(1, &with(&bulk("%r5", "%rd2", "16")).replace("%r5], [%rd2", "%r2+16384], [%rd2"), &[K::Mbarrier], "live mbarrier");
    // The parameter's address without cvta.param, something that is no map, a wrong rank.
    let raw = with(&LOAD.replace("%rd3", "%rd6")).replace("@%p1 bra W;", "mov.b64 %rd6, tm; @%p1 bra W;");
    fail(1, &raw, &[K::OutOfBounds], "cvta.param");
    fail(1, &with(&LOAD.replace("%rd3", "%rd2")), &[K::Undefined], "no tensor map");
    fail(1, &with(&LOAD.replace(".2d.", ".3d.").replace("{%r10, %r10}", "{%r10, %r10, %r10}")), &[K::Undefined], "rank 2");
    // The bytes of a copy that is never waited for.
    fail(1, &format!("{} @%p1 bra D; {EXPECT} {LOAD} D:", init(1)), &[K::InFlight], "has not been waited for");
    // Two copies into one place, and a copy over a tile that is read.
    fail(1, &with(&format!("{LOAD} {LOAD}")).replace("1024;", "2048;"), &[K::Race], "an asynchronous copy writes");
}

/// Data written by the kernel itself and fetched by a tensor copy.
#[test]
fn global_proxy() {
    let body = |fence: &str| {
        format!(
            "{} mad.wide.u32 %rd5, %r1, 4, %rd2; st.global.u32 [%rd5], %r12; {fence} bar.sync 0; @%p1 bra W; {EXPECT} {LOAD} {} {OUT}",
            init(1),
            wait("W", "%r5", 0)
        )
    };
    assert_eq!(pass(1, &body("fence.proxy.async;"))[..32], [2; 32]);
    assert_eq!(pass(1, &body("fence.proxy.async.global;"))[..32], [2; 32]);
    fail(1, &body(""), &[K::Proxy], "st.global");
    fail(1, &body("fence.proxy.async.shared::cta;"), &[K::Proxy], "global memory");
}
