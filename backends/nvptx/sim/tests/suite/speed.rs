//! Rough speed of simple instructions. The bounds are far below what an optimised build reaches.

use crate::common::{Run, kernel, launch, module};
use std::time::Instant;
use tilelift_nvptx_sim::{Arg, Init, Memory, SimConfig};

fn rate(name: &str, code: &str, count: u64, config: SimConfig) -> f64 {
    let body = format!(
        "ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.u32 %r3, 7; mov.u32 %r4, 3; mov.u64 %rd3, 5; mov.u32 %r9, smem;
         mad.lo.u32 %r9, %r1, 4, %r9; st.shared.u32 [%r9], %r1; mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f3F000000; mov.f32 %f3, 0f3F000000;
         L: {code}
         add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 20000; @%p1 bra L;
         mad.wide.u32 %rd2, %r1, 4, %rd1; st.global.u32 [%rd2], %r3;"
    );
    let m = module(&kernel("sm_80", ".param .u64 out", &body));
    let mut mem = Memory::new();
    let o = mem.alloc("out", Init::Uninit(512));
    let t = Instant::now();
    let r =
        launch(&m, &Run { block: 128, shared: 512, config, ..Run::default() }, &[Arg::U64(o)], &mut mem).unwrap_or_else(|e| panic!("{e}"));
    let per_s = r.instructions as f64 / t.elapsed().as_secs_f64();
    println!("{name:12} {:8.1} M warp instructions/s", per_s / 1e6);
    assert!(r.instructions >= count);
    per_s
}

#[test]
fn simple_instructions() {
    let ints = "add.u32 %r3, %r3, %r4; xor.b32 %r4, %r4, %r3; mad.lo.u32 %r3, %r3, %r4, %r1; shl.b32 %r5, %r3, 3; and.b32 %r3, %r5, 255; min.s32 %r3, %r3, %r4;";
    let mix = "fma.rn.f32 %f3, %f1, %f2, %f3; mul.rn.f32 %f4, %f3, %f2; add.rn.f32 %f5, %f4, %f1; max.f32 %f6, %f5, %f4; cvt.rn.bf16x2.f32 %r6, %f5, %f6; ex2.approx.f32 %f7, %f2;";
    let mem = "ld.shared.u32 %r5, [%r9]; add.u32 %r5, %r5, 1; st.shared.u32 [%r9], %r5;";
    let wide = "mad.wide.u32 %rd3, %r3, 4, %rd3; add.s64 %rd3, %rd3, 8; setp.lt.s32 %p2, %r3, %r4; selp.b32 %r5, %r3, %r4, %p2; shfl.sync.bfly.b32 %r6, %r5, 1, 31, -1;";
    let fast = SimConfig::default();
    for (name, code) in [("integer", ints), ("float", mix), ("wide", wide), ("shared", mem)] {
        let r = rate(name, code, 100_000, fast.clone());
        assert!(r > 2e5, "{name}: {r}");
    }
}
