//! A warp-specialised, persistent bf16 GEMM for sm_90a: C = A (M x K) * B (N x K)^T, all row-major. One producer warp feeds a ring
//! of tensor copies; two consumer warpgroups multiply 64 x 128 each, stage C through stmatrix and store it as tensor copies.
//! Clusters of two share B by multicast. The generator plants faults by name.

use std::fmt::Write;

/// What to generate.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    pub stages: u32,
    /// CTAs per cluster: 1 or 2.
    pub cluster: u32,
    pub fault: &'a str,
}

const STAGE: u32 = 32768;

impl Plan<'_> {
    fn staging(&self) -> u32 {
        self.stages * STAGE
    }

    fn bars(&self) -> u32 {
        self.staging() + 32768
    }

    pub fn shared(&self) -> u32 {
        self.bars() + 16 * self.stages
    }
}

pub fn ptx(p: &Plan<'_>) -> String {
    let on = |f: &str| p.fault == f;
    let pick = |f: &str, bad: &str, good: &str| if p.fault == f { bad.to_string() } else { good.to_string() };
    let cl = p.cluster;
    let mut s = String::new();
    let mut o = |l: &str| writeln!(s, "{l}").expect("string");
    o(".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];");
    o(".visible .entry gemm(.param .align 64 .b8 ta[128], .param .align 64 .b8 tb[128], .param .align 64 .b8 tc[128],");
    o(" .param .u32 kblocks, .param .u32 columns, .param .u32 tiles)\n.maxntid 384, 1, 1\n.minnctapersm 1");
    if cl > 1 {
        o(&format!(".reqnctapercluster {cl}, 1, 1"));
    }
    o("{ .reg .pred %p<12>; .reg .b16 %h<2>; .reg .b32 %r<64>; .reg .b64 %rd<12>; .reg .f32 %c<64>; .reg .b32 %x<4>;");
    for (i, t) in ["ta", "tb", "tc"].iter().enumerate() {
        o(&format!("mov.b64 %rd{i}, {t};"));
        if !(on("no-cvta") && i == 0) {
            o(&format!("cvta.param.u64 %rd{i}, %rd{i};"));
        }
    }
    o("ld.param.u32 %r1, [kblocks]; ld.param.u32 %r2, [columns]; ld.param.u32 %r3, [tiles];");
    o(
        "mov.u32 %r4, %tid.x; mov.u32 %r5, smem; and.b32 %r6, %r4, 31; shr.u32 %r7, %r4, 5; shfl.sync.idx.b32 %r7, %r7, 0, 31, -1; shr.u32 %r8, %r7, 2;",
    );
    o(&format!("add.u32 %r9, %r5, {}; add.u32 %r10, %r9, {};", p.bars(), 8 * p.stages));
    o("mov.u32 %r11, %cluster_ctarank; mov.u32 %r12, %clusterid.x; mov.u32 %r13, %nclusterid.x; mov.u16 %h1, 3;");
    // Barriers: full at %r9, empty at %r10.
    o("setp.ne.u32 %p1, %r4, 0; @%p1 bra READY;");
    let full = if on("full-count") { 2 } else { 1 };
    let empty = if on("empty-count-local") { 8 } else { 8 * cl };
    for i in 0..p.stages {
        o(&format!("mbarrier.init.shared::cta.b64 [%r9+{}], {full}; mbarrier.init.shared::cta.b64 [%r10+{}], {empty};", 8 * i, 8 * i));
    }
    if !on("no-init-fence") {
        o("fence.mbarrier_init.release.cluster;");
    }
    o("READY: bar.warp.sync -1;");
    if cl > 1 {
        o("barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;");
    } else if !on("no-init-barrier") {
        o("bar.sync 0;");
    }
    o("mov.u32 %r14, 0; mov.u32 %r15, 0;  // stage, phase");
    o("setp.ne.u32 %p2, %r8, 0; @%p2 bra CONSUMER;");
    // Producer.
    o("setmaxnreg.dec.sync.aligned.u32 40; setp.ne.u32 %p3, %r7, 0; @%p3 bra END; elect.sync _|%p4, -1; @!%p4 bra END;");
    o("PT: setp.ge.u32 %p5, %r12, %r3; @%p5 bra END;");
    let tile = format!(
        "div.u32 %r16, %r12, %r2; mul.lo.u32 %r17, %r16, %r2; sub.u32 %r17, %r12, %r17; mad.lo.u32 %r16, %r16, {cl}, %r11;
         shl.b32 %r16, %r16, 7; shl.b32 %r17, %r17, 7;"
    );
    o(&tile);
    o("mov.u32 %r18, 0; mov.u32 %r19, 0;");
    o("PK: shl.b32 %r20, %r14, 3; add.u32 %r21, %r20, %r10; add.u32 %r22, %r20, %r9;");
    o(&pick("producer-parity", "mov.u32 %r23, %r15;", "xor.b32 %r23, %r15, 1;"));
    if !on("no-empty-wait") {
        o("PW: mbarrier.try_wait.parity.shared::cta.b64 %p6, [%r21], %r23; @!%p6 bra PW;");
    }
    let bytes = match p.fault {
        "expect-a-only" => STAGE / 2,
        "expect-times-cluster" => STAGE * 2,
        _ => STAGE,
    };
    o(&if on("no-producer-arrive") {
        format!("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r22], {bytes};")
    } else {
        format!("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r22], {bytes};")
    });
    o(&format!("mad.lo.u32 %r24, %r14, {STAGE}, %r5;"));
    let load = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes";
    o(&format!("{load} [%r24], [%rd0, {{%r19, %r16}}], [%r22];"));
    if cl > 1 {
        o("mad.lo.u32 %r25, %r11, 8192, %r24; mad.lo.u32 %r26, %r11, 64, %r17;");
        o(&format!("{load}.multicast::cluster [%r25+16384], [%rd1, {{%r19, %r26}}], [%r22], %h1;"));
    } else {
        o(&format!("{load} [%r24+16384], [%rd1, {{%r19, %r17}}], [%r22];"));
    }
    let advance = format!("add.u32 %r14, %r14, 1; setp.eq.u32 %p7, %r14, {}; @%p7 mov.u32 %r14, 0; @%p7 xor.b32 %r15, %r15, 1;", p.stages);
    o(&advance);
    o("add.u32 %r19, %r19, 64; add.u32 %r18, %r18, 1; setp.lt.u32 %p8, %r18, %r1; @%p8 bra PK;");
    o("add.u32 %r12, %r12, %r13; bra PT;");
    // Consumers.
    o("CONSUMER: setmaxnreg.inc.sync.aligned.u32 232; sub.u32 %r8, %r8, 1;");
    o("and.b32 %r27, %r7, 3; and.b32 %r28, %r4, 127; setp.eq.u32 %p9, %r28, 0;");
    o(&format!("setp.lt.u32 %p10, %r6, {cl}; mapa.shared::cluster.u32 %r29, %r10, %r6;").replace(
        "mapa.shared::cluster.u32 %r29, %r10, %r6;",
        if cl > 1 { "mov.u32 %r29, %r10; @%p10 mapa.shared::cluster.u32 %r29, %r10, %r6;" } else { "mov.u32 %r29, %r10;" },
    ));
    if on("drop-consumer-arrive") {
        o("setp.ne.and.u32 %p10, %r7, 5, %p10;");
    }
    // Staging: two boxes of 64 columns; row = lane & 15 of the warp's 16 rows, 16-byte chunk XOR row.
    o(&format!("mad.lo.u32 %r30, %r8, 16384, %r5; add.u32 %r30, %r30, {};", p.staging()));
    o(
        "and.b32 %r31, %r6, 15; mad.lo.u32 %r31, %r27, 16, %r31; mad.lo.u32 %r31, %r31, 128, %r30; and.b32 %r32, %r6, 7; shr.u32 %r33, %r6, 4;",
    );
    o("CT: setp.ge.u32 %p5, %r12, %r3; @%p5 bra CE;");
    o(&tile);
    o("mov.u32 %r18, 0;");
    if on("counter-reset") {
        o("mov.u32 %r14, 0; mov.u32 %r15, 0;");
    }
    o("CK: shl.b32 %r20, %r14, 3; add.u32 %r22, %r20, %r9;");
    if !on("no-full-wait") {
        o("CW: mbarrier.try_wait.parity.shared::cta.b64 %p6, [%r22], %r15; @!%p6 bra CW;");
    }
    o(&format!("mad.lo.u32 %r24, %r14, {STAGE}, %r5; mad.lo.u32 %r34, %r8, 8192, %r24; shr.u32 %r34, %r34, 4; add.u32 %r35, %r24, 16384;"));
    if on("swapped-slot") {
        o(&format!(
            "add.u32 %r35, %r14, 1; setp.eq.u32 %p7, %r35, {}; @%p7 mov.u32 %r35, 0; mad.lo.u32 %r35, %r35, {STAGE}, %r5; add.u32 %r35, %r35, 16384;",
            p.stages
        ));
    }
    o("shr.u32 %r35, %r35, 4; setp.ne.u32 %p11, %r18, 0;");
    let mut list: Vec<String> = (0..64).map(|i| format!("%c{i}")).collect();
    let acc = list.join(",");
    if !on("no-wgmma-fence") {
        o("wgmma.fence.sync.aligned;");
    }
    o("mov.u32 %r36, 0x40000040;");
    for k in 0..4 {
        o(&format!(
            "add.u32 %r37, %r34, {}; mov.b64 %rd3, {{%r37, %r36}}; add.u32 %r37, %r35, {}; mov.b64 %rd4, {{%r37, %r36}};",
            2 * k,
            2 * k
        ));
        let d = if k == 0 { "%p11" } else { "1" };
        o(&format!("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {{{acc}}}, %rd3, %rd4, {d}, 1, 1, 0, 0;"));
    }
    o("wgmma.commit_group.sync.aligned;");
    let arrive = |slot: &str| {
        let a = if cl > 1 { "mbarrier.arrive.shared::cluster.b64" } else { "mbarrier.arrive.shared::cta.b64" };
        format!("shl.b32 %r38, {slot}, 3; add.u32 %r38, %r38, %r29; @%p10 {a} _, [%r38];")
    };
    if on("release-before-wait") {
        o(&arrive("%r14"));
        o("wgmma.wait_group.sync.aligned 1;");
    } else {
        o(&format!("wgmma.wait_group.sync.aligned {};", if on("wait-too-weak") { 2 } else { 1 }));
        o("setp.eq.u32 %p7, %r18, 0; @%p7 bra NOREL;");
        o(&arrive("%r39"));
        if on("double-release") {
            o(&arrive("%r39"));
        }
        o("NOREL: mov.u32 %r39, %r14;");
    }
    o(&if on("phase-constant") { advance.replace("@%p7 xor.b32 %r15, %r15, 1;", "") } else { advance.clone() });
    o("add.u32 %r18, %r18, 1;");
    o(&pick("extra-get", "setp.le.u32 %p8, %r18, %r1;", "setp.lt.u32 %p8, %r18, %r1;"));
    o("@%p8 bra CK;");
    if on("touch-accumulator") {
        o("add.f32 %c9, %c9, %c9;");
    }
    o("wgmma.wait_group.sync.aligned 0;");
    if !on("release-before-wait") && !on("keep-last-slot") {
        o(&arrive("%r39"));
    }
    // Epilogue.
    if !on("staging-reuse") {
        o("@%p9 cp.async.bulk.wait_group.read 0;");
    }
    let bar = match p.fault {
        "named-id-shared" => "mov.u32 %r40, 1; bar.sync %r40, 128;",
        "named-count" => "add.u32 %r40, %r8, 1; bar.sync %r40, 256;",
        "bar0" => "bar.sync 0;",
        _ => "add.u32 %r40, %r8, 1; bar.sync %r40, 128;",
    };
    o(bar);
    if on("fence-too-early") {
        o("fence.proxy.async.shared::cta;");
    }
    for j in 0..8 {
        // Columns 16 j: box j / 4, chunks 2 (j % 4) and the next.
        list.clear();
        for q in 0..4 {
            o(&format!("cvt.rn.bf16x2.f32 %x{q}, %c{}, %c{};", 8 * j + 2 * q + 1, 8 * j + 2 * q));
        }
        o(&format!("add.u32 %r41, %r33, {}; xor.b32 %r41, %r41, %r32; mad.lo.u32 %r41, %r41, 16, %r31;", 2 * (j % 4)));
        o(&format!("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r41+{}], {{%x0,%x1,%x2,%x3}};", 8192 * (j / 4)));
    }
    if !on("no-proxy-fence") && !on("fence-too-early") {
        o("fence.proxy.async.shared::cta;");
    }
    if !on("no-store-barrier") {
        o(bar);
    }
    o("mad.lo.u32 %r42, %r8, 64, %r16; add.u32 %r43, %r17, 64; add.u32 %r44, %r30, 8192;");
    let store = "@%p9 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group";
    o(&format!("{store} [%rd2, {{%r17, %r42}}], [%r30]; {store} [%rd2, {{%r43, %r42}}], [%r44]; @%p9 cp.async.bulk.commit_group;"));
    o("add.u32 %r12, %r12, %r13; bra CT;");
    o("CE:");
    if !on("exit-early") {
        o("@%p9 cp.async.bulk.wait_group.read 0;");
    }
    o("END:");
    if cl > 1 && !on("no-final-barrier") {
        o("barrier.cluster.arrive.release; barrier.cluster.wait.acquire;");
    }
    o("ret; }");
    s
}
