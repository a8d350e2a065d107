//! Values of arithmetic, logic, comparison and conversion instructions against closed formulas.

use crate::common::{Rng, Run, kernel, launch, module};
use tilelift_nvptx_sim::{Arg, Init, Memory};

/// Runs `code` on every input triple. Sources: `%rd1..3`, `%r1..3` (low halves), `%h1..3`, `%f1..3`, `%fd1..3` (same
/// bits). Result register: `%rd0`, `%r0`, `%h0`, `%f0`, `%fd0` or `%p0` by `ret`.
fn eval(target: &str, ret: char, code: &str, ins: &[[u64; 3]]) -> Vec<u64> {
    let n = ins.len().next_multiple_of(32);
    let save = match ret {
        'd' => "",
        'r' => "cvt.u64.u32 %rd0, %r0;",
        'h' => "cvt.u64.u16 %rd0, %h0;",
        'f' => "mov.b32 %r0, %f0; cvt.u64.u32 %rd0, %r0;",
        'F' => "mov.b64 %rd0, %fd0;",
        _ => "selp.u64 %rd0, 1, 0, %p0;",
    };
    let body = format!(
        "ld.param.u64 %rd20, [in]; ld.param.u64 %rd21, [out];
         mov.u32 %r20, %ctaid.x; mov.u32 %r21, %ntid.x; mov.u32 %r22, %tid.x;
         mad.lo.u32 %r20, %r20, %r21, %r22;
         mad.wide.u32 %rd20, %r20, 24, %rd20; mad.wide.u32 %rd21, %r20, 8, %rd21;
         ld.global.u64 %rd1, [%rd20]; ld.global.u64 %rd2, [%rd20+8]; ld.global.u64 %rd3, [%rd20+16];
         cvt.u32.u64 %r1, %rd1; cvt.u32.u64 %r2, %rd2; cvt.u32.u64 %r3, %rd3;
         cvt.u16.u64 %h1, %rd1; cvt.u16.u64 %h2, %rd2; cvt.u16.u64 %h3, %rd3;
         mov.b32 %f1, %r1; mov.b32 %f2, %r2; mov.b32 %f3, %r3;
         mov.b64 %fd1, %rd1; mov.b64 %fd2, %rd2; mov.b64 %fd3, %rd3;
         {code}
         {save}
         st.global.u64 [%rd21], %rd0;"
    );
    let m = module(&kernel(target, ".param .u64 in, .param .u64 out", &body));
    let mut mem = Memory::new();
    let mut bytes: Vec<u8> = ins.iter().flatten().flat_map(|v| v.to_le_bytes()).collect();
    bytes.resize(n * 24, 1);
    let a = mem.alloc("in", Init::Bytes(bytes));
    let o = mem.alloc("out", Init::Uninit(n * 8));
    let run = Run { grid: (n / 32) as u32, ..Run::default() };
    launch(&m, &run, &[Arg::U64(a), Arg::U64(o)], &mut mem).unwrap_or_else(|e| panic!("{e}"));
    let got = mem.read(o, ins.len() * 8).expect("written");
    got.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().expect("8 bytes"))).collect()
}

/// Interesting integers, all pairs with a random third, plus random triples.
fn ints() -> Vec<[u64; 3]> {
    let special = [
        0u64,
        1,
        2,
        3,
        7,
        8,
        15,
        16,
        31,
        32,
        33,
        63,
        64,
        65,
        255,
        256,
        0x7fff,
        0x8000,
        0xffff,
        0x1_0000,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_fffe,
        0xffff_ffff,
        0x1_0000_0000,
        0x7fff_ffff_ffff_ffff,
        0x8000_0000_0000_0000,
        u64::MAX,
        0x1234_5678_9abc_def0,
    ];
    let mut r = Rng(11);
    let mut v = Vec::new();
    for a in special {
        for b in special {
            v.push([a, b, r.next() >> (r.next() % 64)]);
        }
    }
    for _ in 0..200 {
        v.push([r.next(), r.next(), r.next()]);
        v.push([r.next() >> (r.next() % 64), r.next() % 70, r.next() % 70]);
    }
    v
}

type Fun = fn(u64, u64, u64) -> u64;

fn check(target: &str, rows: &[(char, &str, Fun)], ins: &[[u64; 3]]) {
    for (ret, code, f) in rows {
        let got = eval(target, *ret, code, ins);
        for (i, g) in ins.iter().zip(got) {
            let want = f(i[0], i[1], i[2]);
            assert_eq!(g, want, "`{code}` of {i:x?}: got {g:#x}, want {want:#x}");
        }
    }
}

fn s32(v: u64) -> i64 {
    i64::from(v as u32 as i32)
}

fn u(v: i64) -> u64 {
    u64::from(v as u32)
}

#[test]
fn integer_32() {
    let rows: &[(char, &str, Fun)] = &[
        ('r', "add.u32 %r0, %r1, %r2;", |a, b, _| u64::from((a as u32).wrapping_add(b as u32))),
        ('r', "add.s32 %r0, %r1, -5;", |a, _, _| u(s32(a) - 5)),
        ('r', "add.sat.s32 %r0, %r1, %r2;", |a, b, _| u(i64::from((a as i32).saturating_add(b as i32)))),
        ('r', "sub.sat.s32 %r0, %r1, %r2;", |a, b, _| u(i64::from((a as i32).saturating_sub(b as i32)))),
        ('r', "sub.u32 %r0, %r1, %r2;", |a, b, _| u64::from((a as u32).wrapping_sub(b as u32))),
        ('r', "mul.lo.s32 %r0, %r1, %r2;", |a, b, _| u64::from((a as u32).wrapping_mul(b as u32))),
        ('r', "mul.hi.u32 %r0, %r1, %r2;", |a, b, _| ((a & 0xffff_ffff) * (b & 0xffff_ffff)) >> 32),
        ('r', "mul.hi.s32 %r0, %r1, %r2;", |a, b, _| u((s32(a) * s32(b)) >> 32)),
        ('d', "mul.wide.u32 %rd0, %r1, %r2;", |a, b, _| (a & 0xffff_ffff) * (b & 0xffff_ffff)),
        ('d', "mul.wide.s32 %rd0, %r1, %r2;", |a, b, _| (s32(a) * s32(b)) as u64),
        ('r', "mul.wide.u16 %r0, %h1, %h2;", |a, b, _| (a & 0xffff) * (b & 0xffff)),
        ('r', "mul.wide.s16 %r0, %h1, %h2;", |a, b, _| u(i64::from(a as i16) * i64::from(b as i16))),
        ('r', "mad.lo.u32 %r0, %r1, %r2, %r3;", |a, b, c| u64::from((a as u32).wrapping_mul(b as u32).wrapping_add(c as u32))),
        ('r', "mad.hi.s32 %r0, %r1, %r2, %r3;", |a, b, c| u(((s32(a) * s32(b)) >> 32) + s32(c))),
        ('d', "mad.wide.s32 %rd0, %r1, %r2, %rd3;", |a, b, c| ((s32(a) * s32(b)) as u64).wrapping_add(c)),
        ('d', "mad.wide.u32 %rd0, %r1, 48, %rd3;", |a, _, c| ((a & 0xffff_ffff) * 48).wrapping_add(c)),
        ('r', "mul24.lo.u32 %r0, %r1, %r2;", |a, b, _| ((a & 0xff_ffff) * (b & 0xff_ffff)) & 0xffff_ffff),
        ('r', "mad24.lo.s32 %r0, %r1, %r2, %r3;", |a, b, c| {
            let x = |v: u64| i64::from((v as i32) << 8 >> 8);
            u(x(a) * x(b) + s32(c))
        }),
        ('r', "min.s32 %r0, %r1, %r2;", |a, b, _| u(s32(a).min(s32(b)))),
        ('r', "max.s32 %r0, %r1, %r2;", |a, b, _| u(s32(a).max(s32(b)))),
        ('r', "min.u32 %r0, %r1, %r2;", |a, b, _| (a & 0xffff_ffff).min(b & 0xffff_ffff)),
        ('r', "max.u32 %r0, %r1, %r2;", |a, b, _| (a & 0xffff_ffff).max(b & 0xffff_ffff)),
        ('r', "abs.s32 %r0, %r1;", |a, _, _| u64::from((a as i32).wrapping_abs() as u32)),
        ('r', "neg.s32 %r0, %r1;", |a, _, _| u(-s32(a))),
        ('r', "and.b32 %r0, %r1, %r2;", |a, b, _| a & b & 0xffff_ffff),
        ('r', "or.b32 %r0, %r1, %r2;", |a, b, _| (a | b) & 0xffff_ffff),
        ('r', "xor.b32 %r0, %r1, %r2;", |a, b, _| (a ^ b) & 0xffff_ffff),
        ('r', "not.b32 %r0, %r1;", |a, _, _| !a & 0xffff_ffff),
        ('r', "cnot.b32 %r0, %r1;", |a, _, _| u64::from(a as u32 == 0)),
        ('r', "shl.b32 %r0, %r1, %r2;", |a, b, _| (a as u32).checked_shl(b as u32).unwrap_or(0).into()),
        ('r', "shr.u32 %r0, %r1, %r2;", |a, b, _| (a as u32).checked_shr(b as u32).unwrap_or(0).into()),
        ('r', "shr.s32 %r0, %r1, %r2;", |a, b, _| u(s32(a) >> (b as u32).min(31))),
        ('r', "shf.l.wrap.b32 %r0, %r1, %r2, %r3;", |a, b, c| {
            let v = (b as u32 as u64) << 32 | (a as u32 as u64);
            (v << (c & 31) >> 32) & 0xffff_ffff
        }),
        ('r', "shf.r.clamp.b32 %r0, %r1, %r2, %r3;", |a, b, c| {
            let v = (b as u32 as u64) << 32 | (a as u32 as u64);
            (v >> (c as u32).min(32)) & 0xffff_ffff
        }),
        ('r', "popc.b32 %r0, %r1;", |a, _, _| (a as u32).count_ones().into()),
        ('r', "clz.b32 %r0, %r1;", |a, _, _| (a as u32).leading_zeros().into()),
        ('r', "brev.b32 %r0, %r1;", |a, _, _| (a as u32).reverse_bits().into()),
        ('r', "bfind.u32 %r0, %r1;", |a, _, _| 31u32.wrapping_sub((a as u32).leading_zeros()).into()),
        ('r', "bfind.shiftamt.u32 %r0, %r1;", |a, _, _| if a as u32 == 0 { 0xffff_ffff } else { (a as u32).leading_zeros().into() }),
        ('r', "bfind.s32 %r0, %r1;", |a, _, _| {
            let v = if (a as i32) < 0 { !(a as u32) } else { a as u32 };
            31u32.wrapping_sub(v.leading_zeros()).into()
        }),
        ('r', "sad.s32 %r0, %r1, %r2, %r3;", |a, b, c| u((s32(a) - s32(b)).abs() + s32(c))),
        ('r', "bfe.u32 %r0, %r1, %r2, %r3;", |a, b, c| bfe(a, b, c, 32, false)),
        ('r', "bfe.s32 %r0, %r1, %r2, %r3;", |a, b, c| bfe(a, b, c, 32, true)),
        ('r', "bfi.b32 %r0, %r1, %r2, 5, %r3;", |a, b, c| bfi(a, b, 5, c, 32)),
        ('r', "bfi.b32 %r0, %r1, %r1, %r2, %r3;", |a, b, c| bfi(a, a, b, c, 32)),
        ('r', "lop3.b32 %r0, %r1, %r2, %r3, 0xE8;", |a, b, c| (a & b | a & c | b & c) & 0xffff_ffff),
        ('r', "lop3.b32 %r0, %r1, %r2, %r3, 0xCA;", |a, b, c| (a & b | !a & c) & 0xffff_ffff),
        ('r', "prmt.b32 %r0, %r1, %r2, %r3;", prmt),
        ('r', "prmt.b32 %r0, %r1, %r2, 0x5410;", |a, b, _| (a & 0xffff) | (b & 0xffff) << 16),
        ('r', "prmt.b32.f4e %r0, %r1, %r2, %r3;", |a, b, c| {
            let v = (b & 0xffff_ffff) << 32 | (a & 0xffff_ffff);
            (v >> (8 * (c & 3))) & 0xffff_ffff
        }),
        ('r', "prmt.b32.rc8 %r0, %r1, %r2, %r3;", |a, _, c| ((a >> (8 * (c & 3))) & 0xff) * 0x0101_0101),
        ('r', "dp4a.s32.s32 %r0, %r1, %r2, %r3;", |a, b, c| {
            u((0..4).map(|i| i64::from((a >> (8 * i)) as i8) * i64::from((b >> (8 * i)) as i8)).sum::<i64>() + s32(c))
        }),
        ('r', "dp4a.u32.s32 %r0, %r1, %r2, %r3;", |a, b, c| {
            u((0..4).map(|i| i64::from((a >> (8 * i)) as u8) * i64::from((b >> (8 * i)) as i8)).sum::<i64>() + s32(c))
        }),
        ('r', "slct.u32.s32 %r0, %r1, %r2, %r3;", |a, b, c| if s32(c) >= 0 { a & 0xffff_ffff } else { b & 0xffff_ffff }),
        ('r', "set.lt.u32.s32 %r0, %r1, %r2;", |a, b, _| if s32(a) < s32(b) { 0xffff_ffff } else { 0 }),
    ];
    check("sm_80", rows, &ints());
}

fn bfe(a: u64, pos: u64, len: u64, bits: u64, signed: bool) -> u64 {
    let (pos, len) = (pos & 0xff, len & 0xff);
    let sign = if !signed || len == 0 { 0 } else { a >> (pos + len - 1).min(bits - 1) & 1 };
    (0..bits).map(|i| if i < len && pos + i < bits { a >> (pos + i) & 1 } else { sign } << i).sum()
}

fn bfi(a: u64, b: u64, pos: u64, len: u64, bits: u64) -> u64 {
    let (pos, len) = (pos & 0xff, len & 0xff);
    (0..bits).map(|i| if i >= pos && i - pos < len { a >> (i - pos) & 1 } else { b >> i & 1 } << i).sum()
}

fn prmt(a: u64, b: u64, c: u64) -> u64 {
    let bytes: Vec<u64> = (0..4).map(|i| a >> (8 * i) & 255).chain((0..4).map(|i| b >> (8 * i) & 255)).collect();
    (0..4)
        .map(|i| {
            let s = c >> (4 * i) & 15;
            let v = bytes[(s & 7) as usize];
            (if s & 8 == 0 {
                v
            } else if v >= 128 {
                255
            } else {
                0
            }) << (8 * i)
        })
        .sum()
}

#[test]
fn integer_64_and_16() {
    let rows: &[(char, &str, Fun)] = &[
        ('d', "add.s64 %rd0, %rd1, %rd2;", |a, b, _| a.wrapping_add(b)),
        ('d', "sub.u64 %rd0, %rd1, %rd2;", |a, b, _| a.wrapping_sub(b)),
        ('d', "mul.lo.u64 %rd0, %rd1, %rd2;", |a, b, _| a.wrapping_mul(b)),
        ('d', "mul.hi.u64 %rd0, %rd1, %rd2;", |a, b, _| ((u128::from(a) * u128::from(b)) >> 64) as u64),
        ('d', "mul.hi.s64 %rd0, %rd1, %rd2;", |a, b, _| ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64),
        ('d', "mad.lo.s64 %rd0, %rd1, %rd2, %rd3;", |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        ('d', "shl.b64 %rd0, %rd1, %r2;", |a, b, _| a.checked_shl(b as u32).unwrap_or(0)),
        ('d', "shr.s64 %rd0, %rd1, %r2;", |a, b, _| ((a as i64) >> (b as u32).min(63)) as u64),
        ('d', "shr.b64 %rd0, %rd1, %r2;", |a, b, _| a.checked_shr(b as u32).unwrap_or(0)),
        ('d', "min.s64 %rd0, %rd1, %rd2;", |a, b, _| (a as i64).min(b as i64) as u64),
        ('d', "max.u64 %rd0, %rd1, %rd2;", |a, b, _| a.max(b)),
        ('d', "abs.s64 %rd0, %rd1;", |a, _, _| (a as i64).wrapping_abs() as u64),
        ('d', "not.b64 %rd0, %rd1;", |a, _, _| !a),
        ('d', "and.b64 %rd0, %rd1, %rd2;", |a, b, _| a & b),
        ('d', "brev.b64 %rd0, %rd1;", |a, _, _| a.reverse_bits()),
        ('r', "clz.b64 %r0, %rd1;", |a, _, _| a.leading_zeros().into()),
        ('r', "popc.b64 %r0, %rd1;", |a, _, _| a.count_ones().into()),
        ('r', "bfind.u64 %r0, %rd1;", |a, _, _| 63u32.wrapping_sub(a.leading_zeros()).into()),
        ('d', "bfe.s64 %rd0, %rd1, %r2, %r3;", |a, b, c| {
            let (p, l) = (b & 0xff, c & 0xff);
            let sign = if l == 0 { 0 } else { a >> (p + l - 1).min(63) & 1 };
            (0..64).fold(0, |v, i| v | if i < l && p + i < 64 { a >> (p + i) & 1 } else { sign } << i)
        }),
        ('d', "selp.b64 %rd0, %rd1, %rd2, %p1;", |_, b, _| b),
        ('h', "add.s16 %h0, %h1, %h2;", |a, b, _| u64::from((a as u16).wrapping_add(b as u16))),
        ('h', "mul.lo.u16 %h0, %h1, %h2;", |a, b, _| u64::from((a as u16).wrapping_mul(b as u16))),
        ('h', "mul.hi.s16 %h0, %h1, %h2;", |a, b, _| u64::from(((i32::from(a as i16) * i32::from(b as i16)) >> 16) as u16)),
        ('h', "shr.s16 %h0, %h1, %r2;", |a, b, _| u64::from(((a as i16) >> (b as u32).min(15)) as u16)),
        ('h', "min.s16 %h0, %h1, %h2;", |a, b, _| u64::from((a as i16).min(b as i16) as u16)),
        ('h', "max.u16 %h0, %h1, %h2;", |a, b, _| u64::from((a as u16).max(b as u16))),
        ('h', "xor.b16 %h0, %h1, %h2;", |a, b, _| u64::from((a ^ b) as u16)),
        ('h', "neg.s16 %h0, %h1;", |a, _, _| u64::from((a as i16).wrapping_neg() as u16)),
        ('r', "mov.b32 %r0, {%h1, %h2};", |a, b, _| (a & 0xffff) | (b & 0xffff) << 16),
        ('d', "mov.b64 %rd0, {%r1, %r2};", |a, b, _| (a & 0xffff_ffff) | (b << 32)),
        ('d', "mov.b64 %rd0, {%h1, %h2, %h3, %h1};", |a, b, c| {
            ((a & 0xffff) * 0x0001_0000_0000_0001) | ((b & 0xffff) << 16) | (c & 0xffff) << 32
        }),
        ('r', "mov.b64 {%r9, %r0}, %rd1;", |a, _, _| a >> 32),
        ('h', "mov.b32 {%h0, %h9}, %r1;", |a, _, _| a & 0xffff),
        ('h', "mov.b32 {_, %h0}, %r1;", |a, _, _| a >> 16 & 0xffff),
    ];
    let rows: Vec<(char, String, Fun)> = rows
        .iter()
        .map(|(r, c, f)| (*r, if c.contains("%p1") { format!("setp.ne.u32 %p1, 0, 0; {c}") } else { c.to_string() }, *f))
        .collect();
    let rows: Vec<(char, &str, Fun)> = rows.iter().map(|(r, c, f)| (*r, c.as_str(), *f)).collect();
    check("sm_90", &rows, &ints());
}

#[test]
fn division() {
    let ins: Vec<[u64; 3]> = ints().into_iter().filter(|i| i[1] as u16 != 0).collect();
    let rows: &[(char, &str, Fun)] = &[
        ('r', "div.u32 %r0, %r1, %r2;", |a, b, _| (a & 0xffff_ffff) / (b & 0xffff_ffff)),
        ('r', "rem.u32 %r0, %r1, %r2;", |a, b, _| (a & 0xffff_ffff) % (b & 0xffff_ffff)),
        ('r', "div.s32 %r0, %r1, %r2;", |a, b, _| u(s32(a) / s32(b))),
        ('r', "rem.s32 %r0, %r1, %r2;", |a, b, _| u(s32(a) % s32(b))),
        ('d', "div.u64 %rd0, %rd1, %rd2;", |a, b, _| a / b),
        ('d', "rem.s64 %rd0, %rd1, %rd2;", |a, b, _| (a as i64).wrapping_rem(b as i64) as u64),
        ('h', "div.s16 %h0, %h1, %h2;", |a, b, _| u64::from((a as i16).wrapping_div(b as i16) as u16)),
    ];
    check("sm_80", rows, &ins);
}

#[test]
fn predicates_and_comparisons() {
    let rows: &[(char, &str, Fun)] = &[
        ('p', "setp.eq.s32 %p0, %r1, %r2;", |a, b, _| u64::from(a as u32 == b as u32)),
        ('p', "setp.ne.b32 %p0, %r1, %r2;", |a, b, _| u64::from(a as u32 != b as u32)),
        ('p', "setp.lt.s32 %p0, %r1, %r2;", |a, b, _| u64::from(s32(a) < s32(b))),
        ('p', "setp.lo.u32 %p0, %r1, %r2;", |a, b, _| u64::from((a as u32) < b as u32)),
        ('p', "setp.ge.u64 %p0, %rd1, %rd2;", |a, b, _| u64::from(a >= b)),
        ('p', "setp.gt.s64 %p0, %rd1, %rd2;", |a, b, _| u64::from(a as i64 > b as i64)),
        ('p', "setp.le.s16 %p0, %h1, %h2;", |a, b, _| u64::from(a as i16 <= b as i16)),
        ('p', "setp.lt.s32 %p1|%p0, %r1, %r2;", |a, b, _| u64::from(s32(a) >= s32(b))),
        ('p', "setp.gt.u32 %p1, %r3, 100; setp.lt.and.u32 %p0, %r1, %r2, %p1;", |a, b, c| {
            u64::from((a as u32) < b as u32 && c as u32 > 100)
        }),
        ('p', "setp.gt.u32 %p1, %r3, 100; setp.lt.or.u32 %p0, %r1, %r2, !%p1;", |a, b, c| {
            u64::from((a as u32) < b as u32 || c as u32 <= 100)
        }),
        ('p', "setp.gt.u32 %p1, %r3, 100; setp.lt.xor.u32 %p2|%p0, %r1, %r2, %p1;", |a, b, c| {
            u64::from(((a as u32) >= b as u32) ^ (c as u32 > 100))
        }),
        ('p', "setp.lt.u32 %p1, %r1, %r2; setp.lt.u32 %p2, %r2, %r3; and.pred %p0, %p1, %p2;", |a, b, c| {
            u64::from((a as u32) < b as u32 && (b as u32) < c as u32)
        }),
        ('p', "setp.lt.u32 %p1, %r1, %r2; setp.lt.u32 %p2, %r2, %r3; xor.pred %p3, %p1, %p2; not.pred %p0, %p3;", |a, b, c| {
            u64::from(((a as u32) < b as u32) == ((b as u32) < c as u32))
        }),
        ('r', "setp.lt.u32 %p1, %r1, %r2; selp.b32 %r0, %r3, 7, %p1;", |a, b, c| if (a as u32) < b as u32 { c & 0xffff_ffff } else { 7 }),
        ('r', "mov.u32 %r0, 1; setp.lt.u32 %p1, %r1, %r2; @%p1 mov.u32 %r0, 2; @!%p1 add.u32 %r0, %r0, 4;", |a, b, _| {
            if (a as u32) < b as u32 { 2 } else { 5 }
        }),
    ];
    check("sm_80", rows, &ints());
}

/// Interesting f32 patterns in all pairs, plus random ones.
fn floats() -> Vec<[u64; 3]> {
    let special = [
        0u32,
        0x8000_0000,
        0x3f80_0000,
        0xbf80_0000,
        0x4000_0000,
        0x3f00_0000,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        1,
        0x8000_0001,
        0x007f_ffff,
        0x0080_0000,
        0x7f7f_ffff,
        0x3eaa_aaab,
        0xc2c8_0000,
        0x4b00_0001,
        0x3f7f_ffff,
    ];
    let mut r = Rng(5);
    let mut v = Vec::new();
    for a in special {
        for b in special {
            v.push([a.into(), b.into(), u64::from(special[(r.next() % 18) as usize])]);
        }
    }
    for _ in 0..300 {
        let mut g = || u64::from((r.next() as u32 & 0x83ff_ffff) + 0x3d00_0000);
        v.push([g(), g(), g()]);
    }
    v
}

fn f(v: u64) -> f32 {
    f32::from_bits(v as u32)
}

fn b(x: f32) -> u64 {
    if x.is_nan() { 0x7fff_ffff } else { x.to_bits().into() }
}

fn flush(x: f32) -> f32 {
    if x != 0.0 && x.abs() < f32::MIN_POSITIVE { 0.0f32.copysign(x) } else { x }
}

#[test]
fn float_32() {
    let rows: &[(char, &str, Fun)] = &[
        ('f', "add.rn.f32 %f0, %f1, %f2;", |x, y, _| b(f(x) + f(y))),
        ('f', "add.f32 %f0, %f1, 0f3F800000;", |x, _, _| b(f(x) + 1.0)),
        ('f', "sub.f32 %f0, %f1, %f2;", |x, y, _| b(f(x) - f(y))),
        ('f', "mul.rn.f32 %f0, %f1, %f2;", |x, y, _| b(f(x) * f(y))),
        ('f', "mul.ftz.f32 %f0, %f1, %f2;", |x, y, _| b(flush(flush(f(x)) * flush(f(y))))),
        ('f', "fma.rn.f32 %f0, %f1, %f2, %f3;", |x, y, z| b(f(x).mul_add(f(y), f(z)))),
        ('f', "fma.rn.ftz.f32 %f0, %f1, %f2, %f3;", |x, y, z| b(flush(flush(f(x)).mul_add(flush(f(y)), flush(f(z)))))),
        ('f', "mad.rn.f32 %f0, %f1, %f2, %f3;", |x, y, z| b(f(x).mul_add(f(y), f(z)))),
        ('f', "div.rn.f32 %f0, %f1, %f2;", |x, y, _| b(f(x) / f(y))),
        ('f', "sqrt.rn.f32 %f0, %f1;", |x, _, _| b(f(x).sqrt())),
        ('f', "rcp.rn.f32 %f0, %f1;", |x, _, _| b(1.0 / f(x))),
        ('f', "neg.f32 %f0, %f1;", |x, _, _| b(-f(x))),
        ('f', "abs.f32 %f0, %f1;", |x, _, _| b(f(x).abs())),
        ('f', "add.sat.f32 %f0, %f1, %f2;", |x, y, _| {
            let s = f(x) + f(y);
            b(if s.is_nan() || s <= 0.0 { 0.0 } else { s.min(1.0) })
        }),
        ('f', "min.f32 %f0, %f1, %f2;", |x, y, _| minmax(f(x), f(y), false)),
        ('f', "max.f32 %f0, %f1, %f2;", |x, y, _| minmax(f(x), f(y), true)),
        ('f', "max.NaN.f32 %f0, %f1, %f2;", |x, y, _| if f(x).is_nan() || f(y).is_nan() { 0x7fff_ffff } else { minmax(f(x), f(y), true) }),
        ('f', "copysign.f32 %f0, %f1, %f2;", |x, y, _| (y & 0x7fff_ffff) | (x & 0x8000_0000)),
        ('p', "setp.lt.f32 %p0, %f1, %f2;", |x, y, _| u64::from(f(x) < f(y))),
        ('p', "setp.ne.f32 %p0, %f1, %f2;", |x, y, _| u64::from(f(x) < f(y) || f(x) > f(y))),
        ('p', "setp.equ.f32 %p0, %f1, %f2;", |x, y, _| u64::from(f(x) == f(y) || f(x).is_nan() || f(y).is_nan())),
        ('p', "setp.neu.f32 %p0, %f1, %f2;", |x, y, _| u64::from(f(x) != f(y))),
        ('p', "setp.geu.f32 %p0, %f1, %f2;", |x, y, _| u64::from(f(x) >= f(y) || f(x).is_nan() || f(y).is_nan())),
        ('p', "setp.num.f32 %p0, %f1, %f2;", |x, y, _| u64::from(!f(x).is_nan() && !f(y).is_nan())),
        ('p', "setp.nan.f32 %p0, %f1, %f2;", |x, y, _| u64::from(f(x).is_nan() || f(y).is_nan())),
        ('p', "testp.subnormal.f32 %p0, %f1;", |x, _, _| u64::from(f(x).is_subnormal())),
        ('p', "testp.infinite.f32 %p0, %f1;", |x, _, _| u64::from(f(x).is_infinite())),
        ('f', "set.gt.f32.f32 %f0, %f1, %f2;", |x, y, _| b(if f(x) > f(y) { 1.0 } else { 0.0 })),
        ('f', "slct.f32.f32 %f0, %f1, %f2, %f3;", |x, y, z| if f(z) >= 0.0 { x } else { y }),
        ('f', "cvt.rni.f32.f32 %f0, %f1;", |x, _, _| b(f(x).round_ties_even())),
        ('f', "cvt.rpi.f32.f32 %f0, %f1;", |x, _, _| b(f(x).ceil())),
        ('F', "cvt.f64.f32 %fd0, %f1;", |x, _, _| if f(x).is_nan() { f64::NAN.to_bits() } else { f64::from(f(x)).to_bits() }),
        ('r', "cvt.rzi.s32.f32 %r0, %f1;", |x, _, _| u64::from(f(x) as i32 as u32)),
        ('r', "cvt.rni.u32.f32 %r0, %f1;", |x, _, _| u64::from(f(x).round_ties_even() as u32)),
        ('r', "cvt.rmi.s32.f32 %r0, %f1;", |x, _, _| u64::from(f(x).floor() as i32 as u32)),
        ('d', "cvt.rzi.s64.f32 %rd0, %f1;", |x, _, _| if f(x).is_nan() { 1 << 63 } else { f(x) as i64 as u64 }),
        ('f', "cvt.sat.f32.f32 %f0, %f1;", |x, _, _| b(if f(x) > 0.0 { f(x).min(1.0) } else { 0.0 })),
    ];
    check("sm_80", rows, &floats());
}

fn minmax(x: f32, y: f32, max: bool) -> u64 {
    b(match (x.is_nan(), y.is_nan()) {
        (true, _) => y,
        (_, true) => x,
        _ if x == y => {
            let neg = if max { x.is_sign_negative() && y.is_sign_negative() } else { x.is_sign_negative() || y.is_sign_negative() };
            if neg { -x.abs() } else { x.abs() }
        }
        _ if (x < y) == max => y,
        _ => x,
    })
}

/// Directed roundings bracket the exact result and are adjacent or equal.
#[test]
fn directed_rounding() {
    let ins: Vec<[u64; 3]> =
        floats().into_iter().filter(|i| i.iter().all(|v| f(*v).is_finite() && (1e-10..1e10).contains(&f(*v).abs()))).collect();
    for (op, exact) in [("add", (|x, y, _| x + y) as fn(f64, f64, f64) -> f64), ("mul", |x, y, _| x * y), ("fma", |x, y, z| x * y + z)] {
        let third = if op == "fma" { ", %f3" } else { "" };
        let get = |m: &str| eval("sm_80", 'f', &format!("{op}.{m}.f32 %f0, %f1, %f2{third};"), &ins);
        let (dn, up, z) = (get("rm"), get("rp"), get("rz"));
        for (i, v) in ins.iter().enumerate() {
            let x = exact(f(v[0]).into(), f(v[1]).into(), f(v[2]).into());
            let (d, u, z) = (f(dn[i]), f(up[i]), f(z[i]));
            // The f64 reference may itself be rounded; allow for that only.
            let slack = x.abs() * 1e-15;
            assert!(f64::from(d) <= x + slack && x - slack <= f64::from(u), "{op} {v:x?}");
            assert!(d == u || d.next_up() == u, "{op} {v:x?}: {d:e} {u:e}");
            assert_eq!(z, if x > 0.0 { d } else { u }, "{op} {v:x?}");
        }
    }
}

#[test]
fn float_64() {
    let mut ins: Vec<[u64; 3]> = floats().into_iter().map(|i| i.map(|v| f64::from(f(v)).to_bits())).collect();
    ins.retain(|i| i.iter().all(|v| !f64::from_bits(*v).is_nan()));
    let rows: &[(char, &str, Fun)] = &[
        ('p', "add.rn.f64 %fd0, %fd1, %fd2; setp.nan.f64 %p0, %fd0, %fd0;", |x, y, _| {
            u64::from((f64::from_bits(x) + f64::from_bits(y)).is_nan())
        }),
        ('F', "min.f64 %fd0, %fd1, %fd2;", |x, y, _| {
            let (a, c) = (f64::from_bits(x), f64::from_bits(y));
            if a < c || (a == c && a.is_sign_negative()) { x } else { y }
        }),
        ('F', "neg.f64 %fd0, %fd1;", |x, _, _| x ^ 1 << 63),
        ('r', "cvt.rzi.s32.f64 %r0, %fd1;", |x, _, _| u64::from(f64::from_bits(x) as i32 as u32)),
        ('f', "cvt.rn.f32.f64 %f0, %fd1;", |x, _, _| b(f64::from_bits(x) as f32)),
        ('p', "setp.le.f64 %p0, %fd1, %fd2;", |x, y, _| u64::from(f64::from_bits(x) <= f64::from_bits(y))),
    ];
    check("sm_80", rows, &ins);
    ins.retain(|i| i.iter().all(|v| f64::from_bits(*v).is_finite()));
    let rows: &[(char, &str, Fun)] = &[
        ('F', "add.f64 %fd0, %fd1, %fd2;", |x, y, _| (f64::from_bits(x) + f64::from_bits(y)).to_bits()),
        ('F', "mul.rn.f64 %fd0, %fd1, %fd2;", |x, y, _| (f64::from_bits(x) * f64::from_bits(y)).to_bits()),
        ('F', "fma.rn.f64 %fd0, %fd1, %fd2, %fd3;", |x, y, z| f64::from_bits(x).mul_add(f64::from_bits(y), f64::from_bits(z)).to_bits()),
    ];
    check("sm_80", rows, &ins);
}

#[test]
fn approximations() {
    let ins: Vec<[u64; 3]> = floats().into_iter().filter(|i| f(i[0]).is_finite() && f(i[0]).is_normal()).collect();
    type Unary = fn(f64) -> f64;
    let rows: [(&str, Unary); 9] = [
        ("ex2.approx.f32", f64::exp2),
        ("lg2.approx.f32", f64::log2),
        ("sin.approx.f32", f64::sin),
        ("cos.approx.f32", f64::cos),
        ("tanh.approx.f32", f64::tanh),
        ("rcp.approx.f32", |x| 1.0 / x),
        ("rsqrt.approx.f32", |x| 1.0 / x.sqrt()),
        ("sqrt.approx.f32", f64::sqrt),
        ("ex2.approx.ftz.f32", f64::exp2),
    ];
    for (op, want) in rows {
        for (i, g) in ins.iter().zip(eval("sm_80", 'f', &format!("{op} %f0, %f1;"), &ins)) {
            let w = want(f(i[0]).into());
            let g = f64::from(f(g));
            let ok = (g.is_nan() && w.is_nan())
                || g == w
                || (g - w).abs() <= w.abs() * 1e-7
                || (w as f32 == g as f32)
                || (op.contains("ftz") && w.abs() < 1.2e-38 && g == 0.0);
            assert!(ok, "{op} {:e}: {g:e}, want {w:e}", f(i[0]));
        }
    }
    for (i, g) in ins.iter().zip(eval("sm_80", 'f', "div.full.f32 %f0, %f1, %f2;", &ins)) {
        let w = f(i[0]) / f(i[1]);
        assert!(f(g) == w || (w.is_nan() && f(g).is_nan()));
    }
}

/// Value of an f16 pattern, from the definition.
fn h(v: u64) -> f64 {
    let v = v & 0xffff;
    let (s, e, m) = (if v >> 15 == 1 { -1.0 } else { 1.0 }, (v >> 10 & 31) as i32, (v & 1023) as f64);
    s * match e {
        0 => m * 2f64.powi(-24),
        31 if m == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        _ => (1.0 + m / 1024.0) * 2f64.powi(e - 15),
    }
}

/// Nearest f16 by search over the neighbourhood; ties to even.
fn to_h(x: f64) -> u64 {
    if x.is_nan() {
        return 0x7fff;
    }
    let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
    let a = x.abs();
    if a >= 65520.0 {
        return sign | 0x7c00;
    }
    // Binary search for the largest value not above a.
    let (mut lo, mut hi) = (0u64, 0x7c00u64);
    while hi - lo > 1 {
        let mid = (lo + hi) / 2;
        if h(mid) <= a { lo = mid } else { hi = mid }
    }
    let next = if hi == 0x7c00 { 65536.0 } else { h(hi) };
    let (dl, dh) = (a - h(lo), next - a);
    sign | if dl < dh || (dl == dh && lo % 2 == 0) { lo } else { hi }
}

fn bf(v: u64) -> f32 {
    f32::from_bits((v as u32) << 16)
}

fn to_bf(x: f64) -> u64 {
    if x.is_nan() {
        return 0x7fff;
    }
    // x is exact or has enough bits; round the f64 to 8 significant bits by scaling.
    let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
    let a = x.abs();
    if a == 0.0 {
        return sign;
    }
    let e = (a.to_bits() >> 52) as i32 - 1023;
    let unit = 2f64.powi(e.max(-126) - 7);
    let r = (a / unit).round_ties_even() * unit;
    let v = r as f32;
    sign | u64::from(v.to_bits() >> 16)
}

#[test]
fn half_precision() {
    let mut r = Rng(3);
    let special = [0u64, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 1, 0x03ff, 0x0400, 0x7bff, 0x3555, 0x4248];
    let mut ins: Vec<[u64; 3]> = Vec::new();
    for a in special {
        for c in special {
            ins.push([a | 0x3c00_0000, c | 0x4000_0000, special[(r.next() % 13) as usize]]);
        }
    }
    for _ in 0..400 {
        ins.push([r.next(), r.next(), r.next()].map(|v| v & 0xbfff_bfff));
    }
    let rows: &[(char, &str, Fun)] = &[
        ('h', "add.f16 %h0, %h1, %h2;", |a, c, _| to_h(h(a) + h(c))),
        ('h', "mul.rn.f16 %h0, %h1, %h2;", |a, c, _| to_h(h(a) * h(c))),
        ('h', "sub.f16 %h0, %h1, %h2;", |a, c, _| to_h(h(a) - h(c))),
        ('h', "fma.rn.f16 %h0, %h1, %h2, %h3;", |a, c, d| to_h(h(a) * h(c) + h(d))),
        ('h', "neg.f16 %h0, %h1;", |a, _, _| (a ^ 0x8000) & 0xffff),
        ('r', "add.f16x2 %r0, %r1, %r2;", |a, c, _| to_h(h(a) + h(c)) | to_h(h(a >> 16) + h(c >> 16)) << 16),
        ('r', "fma.rn.f16x2 %r0, %r1, %r2, %r3;", |a, c, d| to_h(h(a) * h(c) + h(d)) | to_h(h(a >> 16) * h(c >> 16) + h(d >> 16)) << 16),
        ('p', "setp.lt.f16 %p0, %h1, %h2;", |a, c, _| u64::from(h(a) < h(c))),
        ('p', "setp.lt.f16x2 %p1|%p0, %r1, %r2;", |a, c, _| u64::from(h(a >> 16) < h(c >> 16))),
        ('f', "cvt.f32.f16 %f0, %h1;", |a, _, _| b(h(a) as f32)),
        ('r', "mov.b32 %f4, %r1; mov.b32 %f5, %r2; cvt.rn.f16x2.f32 %r0, %f4, %f5;", |a, c, _| to_h(f(a).into()) << 16 | to_h(f(c).into())),
        ('h', "cvt.rn.f16.f32 %h0, %f1;", |a, _, _| to_h(f(a).into())),
        ('h', "cvt.rzi.s16.f16 %h0, %h1;", |a, _, _| u64::from(h(a) as i16 as u16)),
        ('h', "cvt.rn.f16.s16 %h0, %h1;", |a, _, _| to_h((a as i16).into())),
        ('h', "fma.rn.relu.f16 %h0, %h1, %h2, %h3;", |a, c, d| {
            let v = h(a) * h(c) + h(d);
            to_h(if v < 0.0 { 0.0 } else { v })
        }),
    ];
    check("sm_80", rows, &ins);
    let rows: &[(char, &str, Fun)] = &[
        ('h', "add.rn.bf16 %h0, %h1, %h2;", |a, c, _| to_bf(f64::from(bf(a)) + f64::from(bf(c)))),
        ('h', "mul.rn.bf16 %h0, %h1, %h2;", |a, c, _| to_bf(f64::from(bf(a)) * f64::from(bf(c)))),
        ('r', "fma.rn.bf16x2 %r0, %r1, %r2, %r3;", |a, c, d| {
            let one = |s: u64| to_bf(f64::from(bf(a >> s)) * f64::from(bf(c >> s)) + f64::from(bf(d >> s)));
            one(0) | one(16) << 16
        }),
        ('f', "cvt.f32.bf16 %f0, %h1;", |a, _, _| b(bf(a))),
        ('h', "cvt.rn.bf16.f32 %h0, %f1;", |a, _, _| to_bf(f(a).into())),
        ('r', "cvt.rn.bf16x2.f32 %r0, %f1, %f2;", |a, c, _| to_bf(f(a).into()) << 16 | to_bf(f(c).into())),
        ('h', "max.bf16 %h0, %h1, %h2;", |a, c, _| minmax(bf(a), bf(c), true) >> 16),
    ];
    let mut small = ins.clone();
    // Keep sums inside f64 and away from double rounding of the reference.
    small.iter_mut().flatten().for_each(|v| *v = (*v & 0x83ff_83ff) + 0x3c00_3c00);
    check("sm_90", rows, &small);
}

#[test]
fn conversions_between_integers() {
    let rows: &[(char, &str, Fun)] = &[
        ('r', "cvt.s32.s8 %r0, %r1;", |a, _, _| u(i64::from(a as i8))),
        ('r', "cvt.u32.u16 %r0, %h1;", |a, _, _| a & 0xffff),
        ('d', "cvt.s64.s32 %rd0, %r1;", |a, _, _| s32(a) as u64),
        ('d', "cvt.u64.u32 %rd0, %r1;", |a, _, _| a & 0xffff_ffff),
        ('d', "cvt.s64.s16 %rd0, %h1;", |a, _, _| i64::from(a as i16) as u64),
        ('r', "cvt.sat.s8.s32 %r0, %r1;", |a, _, _| u(s32(a).clamp(-128, 127))),
        ('r', "cvt.sat.u16.s32 %r0, %r1;", |a, _, _| s32(a).clamp(0, 65535) as u64),
        ('h', "cvt.u8.u32 %h0, %r1;", |a, _, _| a & 0xff),
        ('f', "cvt.rn.f32.s32 %f0, %r1;", |a, _, _| b(a as u32 as i32 as f32)),
        ('f', "cvt.rn.f32.u64 %f0, %rd1;", |a, _, _| b(a as f32)),
        ('f', "cvt.rz.f32.u32 %f0, %r1;", |a, _, _| {
            let x = a as u32 as f32;
            b(if f64::from(x) > f64::from(a as u32) { x.next_down() } else { x })
        }),
        ('F', "cvt.rn.f64.s64 %fd0, %rd1;", |a, _, _| (a as i64 as f64).to_bits()),
        ('F', "cvt.rn.f64.u64 %fd0, %rd1;", |a, _, _| (a as f64).to_bits()),
        ('f', "cvt.rna.tf32.f32 %r0, %f1; mov.b32 %f0, %r0;", |a, _, _| {
            let v = a as u32;
            if f(a).is_nan() {
                0x7fff_ffff
            } else if v & 0x7f80_0000 == 0x7f80_0000 {
                v.into()
            } else {
                u64::from((v + 0x1000) & !0x1fff)
            }
        }),
    ];
    check("sm_80", rows, &ints());
}

#[test]
fn division_by_zero_is_undefined() {
    let text = kernel(
        "sm_80",
        ".param .u64 out",
        "ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, 7; div.u32 %r3, %r2, %r1; st.global.u32 [%rd1], %r3;",
    );
    let m = module(&text);
    let mut mem = Memory::new();
    let o = mem.alloc("o", Init::Uninit(4));
    let e = launch(&m, &Run::default(), &[Arg::U64(o)], &mut mem).unwrap_err();
    assert_eq!(e.kind, tilelift_nvptx_sim::ErrorKind::Poison, "{e}");
    assert_eq!(e.site.and_then(|s| s.lane), Some(0));
}
