//! Clusters: barrier, remote memory and mbarriers, multicast, exit; register pools; named forms around them.

use crate::common::hopper::map_arg;
use crate::common::{module, schedules, u32s};
use tilelift_nvptx_sim::{Arg, ErrorKind, Init, Launch, MapElement, Memory, Module, SimConfig, SimError, TensorMap};

/// %r1 thread, %r2 shared memory, %r3 rank, %r4 the other rank, %r5 mbarrier, %r6 it in the other CTA, %r7 word in the other CTA, %p1 "not
/// thread 0", %p2 "rank 1", %rd1 out, %rd4 own word of out (64 per CTA), %rd3 map of 32 x 8 f32.
fn text(size: u32, body: &str) -> Module {
    module(&format!(
        ".version 8.1\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];
         .visible .entry k(.param .align 64 .b8 tm[128], .param .u64 out)\n.maxntid 64, 1, 1\n.reqnctapercluster {size}, 1, 1\n{{
         .reg .pred %p<8>; .reg .b16 %h<4>; .reg .b32 %r<32>; .reg .b64 %rd<12>;
         mov.b64 %rd3, tm; cvta.param.u64 %rd3, %rd3; ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, smem;
         mov.u32 %r3, %cluster_ctarank; xor.b32 %r4, %r3, 1; add.u32 %r5, %r2, 4096; mapa.shared::cluster.u32 %r6, %r5, %r4;
         mad.lo.u32 %r8, %r1, 4, %r2; mapa.shared::cluster.u32 %r7, %r8, %r4; setp.ne.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r3, 1;
         mov.u32 %r9, %ctaid.x; mad.lo.u32 %r9, %r9, 64, %r1; mad.wide.u32 %rd4, %r9, 4, %rd1; mov.u32 %r10, 0; mov.u16 %h1, 3;
         {body}
         D: ret; }}"
    ))
}

const SYNC: &str = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;";

fn init(n: u32) -> String {
    format!(
        "@%p1 bra I; mbarrier.init.shared::cta.b64 [%r5], {n}; fence.mbarrier_init.release.cluster; I: bar.warp.sync -1;
         barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;"
    )
}

fn run(m: &Module, grid: u32, config: &SimConfig) -> Result<Vec<u32>, SimError> {
    let mut mem = Memory::new();
    let a = mem.alloc("in", Init::Bytes((0..256u32).flat_map(|i| (i + 1).to_le_bytes()).collect()));
    let o = mem.alloc("out", Init::Zeroed(256 * grid as usize));
    let map = map_arg(TensorMap::new(a, MapElement::F32, &[32, 8], &[128], &[32, 4]));
    let args = [map, Arg::U64(o)];
    let l = Launch { entry: "k", grid: [grid, 1, 1], block: [64, 1, 1], shared_bytes: 8192, args: &args, config: config.clone() };
    m.launch(&l, &mut mem)?;
    Ok(u32s(mem.read(o, 256 * grid as usize).expect("zeroed")))
}

fn pass(size: u32, grid: u32, body: &str) -> Vec<u32> {
    let m = text(size, body);
    let mut last = None;
    for c in schedules() {
        let v = run(&m, grid, &c).unwrap_or_else(|e| panic!("{e}\nunder {:?} {:?}\n{body}", c.policy, c.landing));
        assert!(last.is_none() || last.as_ref() == Some(&v), "the result depends on the schedule");
        last = Some(v);
    }
    last.expect("there are schedules")
}

fn fail(size: u32, grid: u32, body: &str, kinds: &[ErrorKind], needle: &str) {
    let m = text(size, body);
    for c in schedules() {
        match run(&m, grid, &c) {
            Ok(_) => panic!("no fault under {:?} {:?}\n{body}", c.policy, c.landing),
            Err(e) => {
                assert!(kinds.contains(&e.kind), "under {:?} {:?}: {e}\n{body}", c.policy, c.landing);
                assert!(e.to_string().contains(needle), "`{needle}` is not in:\n{e}");
            }
        }
    }
}

use ErrorKind as K;

#[test]
fn ranks() {
    let out = pass(
        4,
        8,
        "mov.u32 %r11, %cluster_nctarank; mov.u32 %r12, %clusterid.x; mov.u32 %r13, %nclusterid.x; mov.u32 %r14, %cluster_ctaid.x;
         mad.lo.u32 %r15, %r3, 10, %r11; mad.lo.u32 %r15, %r12, 100, %r15; mad.lo.u32 %r15, %r13, 1000, %r15; mad.lo.u32 %r15, %r14, 10000, %r15;
         getctarank.shared::cluster.u32 %r16, %r7; mad.lo.u32 %r15, %r16, 100000, %r15; st.global.u32 [%rd4], %r15;",
    );
    for c in 0..8u32 {
        let rank = c % 4;
        assert_eq!(out[64 * c as usize], rank * 10 + 4 + c / 4 * 100 + 2000 + rank * 10000 + (rank ^ 1) * 100_000);
    }
}

/// Data handed over by the barrier; what happens without it.
#[test]
fn remote_memory() {
    let body = |a: &str, b: &str| {
        format!(
            "mad.lo.u32 %r11, %r3, 1000, %r1; st.shared::cluster.u32 [%r7], %r11; {a} ld.shared.u32 %r12, [%r8]; st.global.u32 [%rd4], %r12; {b}"
        )
    };
    let out = pass(2, 4, &body(SYNC, ""));
    for c in 0..4u32 {
        for t in 0..64 {
            assert_eq!(out[(64 * c + t) as usize], ((c % 2) ^ 1) * 1000 + t);
        }
    }
    // Reads from the other side, and generic addresses.
    let read = "mad.lo.u32 %r11, %r3, 1000, %r1; st.shared.u32 [%r8], %r11; BAR ld.shared::cluster.u32 %r12, [%r7]; cvt.u64.u32 %rd5, %r8; cvta.shared.u64 %rd5, %rd5;
        mapa.u64 %rd6, %rd5, %r4; ld.u32 %r13, [%rd6]; add.u32 %r12, %r12, %r13; st.global.u32 [%rd4], %r12; BAR";
    assert_eq!(pass(2, 2, &read.replace("BAR", SYNC))[70], 2 * 6);
    // The other CTA may be gone.
    let one = read.replacen("BAR", SYNC, 1).replace("BAR", "");
    fail(2, 2, &one, &[K::Cluster], "barrier.cluster");
    fail(2, 2, &body("", SYNC), &[K::Race, K::Uninitialised], "shared memory");
    // A relaxed arrival hands nothing over.
    fail(2, 2, &body(&SYNC.replace("release", "relaxed"), ""), &[K::Race], "st.shared::cluster");
    fail(2, 2, "mov.u32 %r11, 2; mapa.shared::cluster.u32 %r12, %r2, %r11;", &[K::Cluster], "rank 2");
    // The local form does not reach other CTAs.
    fail(2, 2, "st.shared.u32 [%r7], %r1;", &[K::OutOfBounds], "st.shared.u32");
    let red = pass(
        2,
        2,
        &format!(
            "@!%p1 st.shared.u32 [%r2], %r10; {SYNC} mapa.shared::cluster.u32 %r11, %r2, %r10; red.relaxed.cluster.shared::cluster.add.u32 [%r11], %r1; {SYNC} @%p1 bra D; @%p2 bra D; ld.shared.u32 %r12, [%r2]; st.global.u32 [%rd1], %r12;"
        ),
    );
    assert_eq!(red[0], 2 * (63 * 64 / 2));
}

#[test]
fn cluster_barrier_rules() {
    pass(2, 2, &format!("{SYNC} {SYNC}"));
    fail(2, 2, "barrier.cluster.wait.acquire.aligned;", &[K::Cluster], "without having arrived");
    fail(
        2,
        2,
        "barrier.cluster.arrive.release.aligned; barrier.cluster.arrive.release.aligned;",
        &[K::Cluster],
        "again before it has waited",
    );
    fail(2, 2, "setp.lt.u32 %p3, %r1, 16; @%p3 barrier.cluster.arrive.release.aligned;", &[K::Divergence], "aligned");
    fail(2, 2, &format!("@%p2 bra L; {SYNC} bra D; L: bar.sync 1, 128;"), &[K::Barrier, K::Deadlock], "");
    // Exited threads do not hold the others up.
    pass(2, 2, &format!("setp.gt.u32 %p3, %r1, 31; @%p3 bra D; {SYNC}"));
}

/// Rows 29 and 30: the scope of a remote arrival and of its wait.
#[test]
fn remote_arrivals() {
    let body = |arrive: &str, wait: &str| {
        format!(
            "{} st.shared::cluster.u32 [%r7], %r1; mbarrier.arrive{arrive}.shared::cluster.b64 _, [%r6];
             W: mbarrier.try_wait.parity{wait}.shared::cta.b64 %p3, [%r5], 0; @!%p3 bra W; ld.shared.u32 %r11, [%r8]; st.global.u32 [%rd4], %r11; {SYNC}",
            init(64)
        )
    };
    assert_eq!(pass(2, 2, &body(".release.cluster", ".acquire.cluster"))[65], 1);
    fail(2, 2, &body("", ".acquire.cluster"), &[K::Race], "ld.shared");
    fail(2, 2, &body(".release.cluster", ""), &[K::Race], "ld.shared");
    // One arrival is missing.
    fail(2, 2, &body(".release.cluster", ".acquire.cluster").replace("[%r5], 64", "[%r5], 65"), &[K::Deadlock], "1 of 65 arrivals");
    let unfenced = body(".release.cluster", ".acquire.cluster").replace("fence.mbarrier_init.release.cluster;", "");
    fail(2, 2, &unfenced, &[K::Mbarrier], "initialis");
}

/// `st.async` and `red.async` with their bytes.
#[test]
fn asynchronous_stores() {
    let body = |expect: u32| {
        format!(
            "{} @!%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], {expect};
             st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r7], %r1, [%r6];
             W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r5], 0; @!%p3 bra W; ld.shared.u32 %r11, [%r8]; st.global.u32 [%rd4], %r11; {SYNC}",
            init(1)
        )
    };
    assert_eq!(pass(2, 2, &body(256))[64..], (0..64).collect::<Vec<u32>>()[..]);
    fail(2, 2, &body(128), &[K::Phase, K::Mbarrier, K::Race, K::Deadlock, K::InFlight, K::Uninitialised], "");
    fail(2, 2, &body(512), &[K::Deadlock], "transaction count");
    let red = format!(
        "@!%p1 st.shared.u32 [%r2], %r10; {} {SYNC} @!%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 256; mapa.shared::cluster.u32 %r11, %r2, %r4;
         red.async.relaxed.cluster.global", init(1)
    );
    let red = red.replace(
        "red.async.relaxed.cluster.global",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r11], %r1, [%r6];
         W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p3, [%r5], 0; @!%p3 bra W; @%p1 bra B; ld.shared.u32 %r12, [%r2]; st.global.u32 [%rd4], %r12; B: bar.warp.sync -1;",
    ) + SYNC;
    assert_eq!(pass(2, 2, &red)[64], 63 * 64 / 2);
}

/// Shared memory of one CTA copied in bulk to the other.
#[test]
fn bulk_between_ctas() {
    let body = |fence: &str| {
        format!(
            "{} mad.lo.u32 %r11, %r3, 100, %r1; st.shared.u32 [%r8], %r11; {fence} bar.sync 0; @%p1 bra W;
             mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 256; mapa.shared::cluster.u32 %r12, %r2, %r4; add.u32 %r12, %r12, 1024;
             cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r12], [%r2], 256, [%r6];
             W: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r5], 0; @!%p3 bra W; ld.shared.u32 %r11, [%r8+1024]; st.global.u32 [%rd4], %r11; {SYNC}",
            init(1)
        )
    };
    let out = pass(2, 2, &body("fence.proxy.async.shared::cta;"));
    assert_eq!((out[3], out[67]), (103, 3));
    fail(2, 2, &body(""), &[K::Proxy], "st.shared");
}

/// One CTA loads for both; both count the bytes.
#[test]
fn multicast() {
    let body = |expect: &str, end: &str| {
        format!(
            "{} {expect}
             @%p1 bra W; @%p2 bra W; cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%r2], [%rd3, {{%r10, %r10}}], [%r5], %h1;
             W: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r5], 0; @!%p3 bra W; ld.shared.u32 %r11, [%r8]; st.global.u32 [%rd4], %r11; {end}",
            init(1)
        )
    };
    let expect = "@!%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 512;";
    assert_eq!(pass(2, 2, &body(expect, ""))[64..], (1..=64).collect::<Vec<u32>>()[..]);
    fail(2, 2, &body("@%p2 bra Q; @!%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], 512; Q:", ""), &[K::Deadlock], "CTA 1,0,0");
    fail(2, 2, &body(&expect.replace("512", "1024"), ""), &[K::Deadlock], "transaction count 512");
    fail(2, 2, &body(expect, "").replace("%h1;", "%h2;"), &[K::Poison], "CTA mask");
    // Row 31: a receiver that does not wait leaves.
    let leave = body(expect, "").replace("W: mbarrier", "W: @%p2 bra D; mbarrier");
    fail(2, 2, &leave, &[K::InFlight, K::Cluster], "exit");
}

fn pool(directive: &str, body: &str) -> Result<(), SimError> {
    let m = module(&format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k()\n.maxntid 384, 1, 1\n{directive}\n{{
         .reg .pred %p<4>; .reg .b32 %r<8>; mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 128; {body} ret; }}"
    ));
    let mut mem = Memory::new();
    for config in schedules() {
        let l = Launch { entry: "k", grid: [1; 3], block: [384, 1, 1], shared_bytes: 0, args: &[], config };
        m.launch(&l, &mut mem)?;
    }
    Ok(())
}

#[test]
fn register_pool() {
    let split = |dec: u32, inc: u32| {
        format!("@%p1 bra P; setmaxnreg.inc.sync.aligned.u32 {inc}; bra D; P: setmaxnreg.dec.sync.aligned.u32 {dec}; D:")
    };
    assert_eq!(pool(".minnctapersm 1", &split(40, 232)), Ok(()));
    assert_eq!(pool(".minnctapersm 1", &split(24, 240)), Ok(()));
    assert_eq!(pool(".maxnreg 168", &split(24, 240)), Ok(()));
    let e = pool(".minnctapersm 1", &split(40, 240)).expect_err("too many");
    assert_eq!(e.kind, K::Deadlock);
    let said = e.to_string();
    assert!(said.lines().nth(1).is_some_and(|at| at.contains("setmaxnreg.inc.sync.aligned.u32 240")), "{e}");
    assert!(said.contains("registers per thread: warps 0 to 3 40, ") && said.contains(" registers are free"), "{e}");
    assert_eq!(pool("", &split(40, 232)).expect_err("ignored by the assembler").kind, K::Undefined);
    let some = "setp.lt.u32 %p2, %r1, 32; @%p2 setmaxnreg.dec.sync.aligned.u32 40;";
    assert_eq!(pool(".minnctapersm 1", some).expect_err("one warp").kind, K::Divergence);
    let two = "setp.lt.u32 %p2, %r1, 32; @%p2 bra P; setmaxnreg.dec.sync.aligned.u32 48; bra D; P: setmaxnreg.dec.sync.aligned.u32 40; D:";
    assert_eq!(pool(".minnctapersm 1", two).expect_err("two numbers").kind, K::Divergence);
}

#[test]
fn launches() {
    let m = text(2, "");
    let e = run(&m, 3, &SimConfig::default()).expect_err("odd grid");
    assert_eq!(e.kind, K::BadLaunch);
    let e = run(&m, 4, &SimConfig { cluster: Some([4, 1, 1]), ..SimConfig::default() }).expect_err("two answers");
    assert_eq!(e.kind, K::BadLaunch);
}
