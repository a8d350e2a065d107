//! A double-buffered bf16 GEMM in PTX, C (f32) = A (M x K, row-major) * B^T (N x K, row-major), written by a small
//! generator so that tests can plant faults in it. 128 threads, warps 2 x 2, BK = 64, 128-byte rows with the
//! 16-byte chunk index XORed with the row.

use std::fmt::Write;

/// Faults to plant.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    /// No wait before the tile is used.
    pub no_wait: bool,
    /// Wait leaves one group too many pending.
    pub weak_wait: bool,
    /// No barrier between the wait and the use.
    pub no_bar_before: bool,
    /// No barrier between the use and the refill.
    pub no_bar_after: bool,
    /// Plain layout instead of the XOR (bank conflicts only).
    pub no_swizzle: bool,
    /// Store address one element off for the last row.
    pub store_off: bool,
    /// B fragment register never loaded.
    pub undefined_b: bool,
}

pub fn ptx(bm: usize, bn: usize, f: Faults) -> String {
    let mut s = String::new();
    let (mt, nt) = (bm / 32, bn / 16);
    let (sa, stage) = (bm * 128, (bm + bn) * 128);
    let mut o = |l: String| writeln!(s, "{l}").expect("string");
    o(".version 7.1\n.target sm_80\n.address_size 64".into());
    o(".extern .shared .align 1024 .b8 smem[];".into());
    o(".visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u32 pn, .param .u32 pk)\n.reqntid 128, 1, 1\n{".into());
    o(".reg .pred %p<4>; .reg .b32 %r<64>; .reg .b64 %rd<32>;".into());
    o(format!(".reg .f32 %c<{}>; .reg .b32 %a<{}>; .reg .b32 %b<{}>;", mt * nt * 4, mt * 4, nt * 2));
    o("ld.param.u64 %rd1, [pa]; ld.param.u64 %rd2, [pb]; ld.param.u64 %rd3, [pc]; ld.param.u32 %r1, [pn]; ld.param.u32 %r2, [pk];".into());
    o("mov.u32 %r3, %tid.x; mov.u32 %r4, smem; and.b32 %r5, %r3, 31; shr.u32 %r6, %r3, 5;".into());
    // Copy addresses: row (t >> 3) + 16 i, chunk t & 7.
    o("shr.u32 %r7, %r3, 3; and.b32 %r8, %r3, 7;".into());
    let x = if f.no_swizzle { "mov.b32 %r9, %r8;" } else { "and.b32 %r9, %r7, 7; xor.b32 %r9, %r9, %r8;" };
    o(format!("{x} shl.b32 %r9, %r9, 4; mad.lo.u32 %r9, %r7, 128, %r9; add.u32 %r9, %r9, %r4;"));
    o("mul.wide.u32 %rd4, %r2, 2;  // row pitch in bytes".into());
    for (reg, base, cta, b) in [(5, 1, "%ctaid.y", bm), (6, 2, "%ctaid.x", bn)] {
        o(format!("mov.u32 %r10, {cta}; mad.lo.u32 %r10, %r10, {b}, %r7; cvt.u64.u32 %rd7, %r10; mul.lo.u64 %rd7, %rd7, %rd4;"));
        o(format!("mad.wide.u32 %rd7, %r8, 16, %rd7; add.u64 %rd{reg}, %rd{base}, %rd7;"));
    }
    o("shl.b64 %rd8, %rd4, 4;  // 16 rows".into());
    // ldmatrix addresses.
    o("and.b32 %r11, %r6, 1; shr.u32 %r12, %r6, 1; and.b32 %r13, %r5, 7;".into());
    o(format!("and.b32 %r14, %r5, 15; mad.lo.u32 %r14, %r12, {}, %r14; mad.lo.u32 %r14, %r14, 128, %r4;", bm / 2));
    o("shr.u32 %r15, %r5, 4;".into());
    o(format!(
        "shl.b32 %r16, %r15, 3; add.u32 %r16, %r16, %r13; mad.lo.u32 %r16, %r11, {}, %r16; mad.lo.u32 %r16, %r16, 128, %r4; add.u32 %r16, %r16, {sa};",
        bn / 2
    ));
    o("shr.u32 %r17, %r5, 3; and.b32 %r17, %r17, 1;".into());
    for i in 0..mt * nt * 4 {
        o(format!("mov.f32 %c{i}, 0f00000000;"));
    }
    let load = |o: &mut dyn FnMut(String)| {
        for (n, reg, off) in [(bm / 16, 5, 0), (bn / 16, 6, sa)] {
            o(format!("mov.b64 %rd9, %rd{reg};"));
            for i in 0..n {
                o(format!("@%p1 cp.async.cg.shared.global [%r20+{}], [%rd9], 16;", off + i * 2048));
                o("add.u64 %rd9, %rd9, %rd8;".into());
            }
            o(format!("add.u64 %rd{reg}, %rd{reg}, 128;"));
        }
        o("cp.async.commit_group;".into());
    };
    o("shr.u32 %r18, %r2, 6; mov.u32 %r19, 0; setp.ne.u32 %p1, %r18, 0; mov.b32 %r20, %r9;".into());
    load(&mut o);
    o("LOOP:".into());
    o(format!("add.u32 %r21, %r19, 1; setp.lt.u32 %p1, %r21, %r18; and.b32 %r22, %r21, 1; mad.lo.u32 %r20, %r22, {stage}, %r9;"));
    load(&mut o);
    if !f.no_wait {
        o(format!("cp.async.wait_group {};", if f.weak_wait { 2 } else { 1 }));
    }
    if !f.no_bar_before {
        o("bar.sync 0;".into());
    }
    o(format!("and.b32 %r22, %r19, 1; mad.lo.u32 %r23, %r22, {stage}, %r14; mad.lo.u32 %r24, %r22, {stage}, %r16;"));
    for ks in 0..4 {
        for (dst, half, base) in [(25, 15, 23), (26, 17, 24)] {
            o(format!("add.u32 %r{dst}, %r{half}, {};", 2 * ks));
            if !f.no_swizzle {
                o(format!("xor.b32 %r{dst}, %r{dst}, %r13;"));
            }
            o(format!("mad.lo.u32 %r{dst}, %r{dst}, 16, %r{base};"));
        }
        for i in 0..mt {
            let a = 4 * i;
            o(format!("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%a{a},%a{},%a{},%a{}}}, [%r25+{}];", a + 1, a + 2, a + 3, i * 2048));
        }
        for j in (0..nt).step_by(2) {
            if f.undefined_b && j == 0 {
                continue;
            }
            let b = 2 * j;
            o(format!("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%b{b},%b{},%b{},%b{}}}, [%r26+{}];", b + 1, b + 2, b + 3, j * 1024));
        }
        for i in 0..mt {
            for j in 0..nt {
                let (c, a, b) = (4 * (i * nt + j), 4 * i, 2 * j);
                let acc = format!("{{%c{c},%c{},%c{},%c{}}}", c + 1, c + 2, c + 3);
                o(format!(
                    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {acc}, {{%a{a},%a{},%a{},%a{}}}, {{%b{b},%b{}}}, {acc};",
                    a + 1,
                    a + 2,
                    a + 3,
                    b + 1
                ));
            }
        }
    }
    if !f.no_bar_after {
        o("bar.sync 0;".into());
    }
    o("add.u32 %r19, %r19, 1; setp.lt.u32 %p2, %r19, %r18;\n@%p2 bra LOOP;".into());
    // C: row = by*bm + wm*bm/2 + 16 i + g (+8), col = bx*bn + wn*bn/2 + 8 j + 2 t.
    o("shr.u32 %r30, %r5, 2; and.b32 %r31, %r5, 3;".into());
    o(format!("mov.u32 %r32, %ctaid.y; mul.lo.u32 %r32, %r32, {bm}; mad.lo.u32 %r32, %r12, {}, %r32; add.u32 %r32, %r32, %r30;", bm / 2));
    o(format!(
        "mov.u32 %r33, %ctaid.x; mul.lo.u32 %r33, %r33, {bn}; mad.lo.u32 %r33, %r11, {}, %r33; mad.lo.u32 %r33, %r31, 2, %r33;",
        bn / 2
    ));
    for i in 0..mt {
        for h in 0..2 {
            let off = if f.store_off && i == mt - 1 && h == 1 { 8 } else { 0 };
            o(format!("add.u32 %r34, %r32, {}; mad.lo.u32 %r34, %r34, %r1, %r33; mad.wide.u32 %rd10, %r34, 4, %rd3;", 16 * i + 8 * h));
            for j in 0..nt {
                let c = 4 * (i * nt + j) + 2 * h;
                o(format!("st.global.v2.f32 [%rd10+{}], {{%c{c}, %c{}}};", 32 * j + off, c + 1));
            }
        }
    }
    o("ret;\n}".into());
    s
}

/// Dynamic shared memory of one CTA.
pub fn shared(bm: usize, bn: usize) -> u32 {
    (2 * (bm + bn) * 128) as u32
}

/// bf16 bytes and exact values of random multiples of 1/64 in [-2, 2).
pub fn random_bf16(n: usize, seed: u64) -> (Vec<u8>, Vec<f64>) {
    let mut r = super::Rng(seed);
    let mut bytes = Vec::with_capacity(2 * n);
    let mut vals = Vec::with_capacity(n);
    for _ in 0..n {
        let v = (r.next() % 256) as f32 / 64.0 - 2.0;
        // At most 8 significant bits: exact in bf16.
        bytes.extend_from_slice(&((v.to_bits() >> 16) as u16).to_le_bytes());
        vals.push(v.into());
    }
    (bytes, vals)
}
