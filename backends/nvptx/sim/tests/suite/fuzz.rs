//! Damaged kernels: parsing and running them must end in a result or an error, never in a panic.

use crate::common::gemm::{Faults, ptx, random_bf16, shared};
use crate::common::{Rng, kernel};
use std::collections::BTreeMap;
use tilelift_nvptx_sim::{Arg, ErrorKind, Init, Launch, Memory, Module, SimConfig};

const MIXED: &str = "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; mov.u32 %r1, %tid.x; mov.u32 %r2, smem; mad.lo.u32 %r3, %r1, 8, %r2;
    mad.wide.u32 %rd3, %r1, 8, %rd1; mad.wide.u32 %rd4, %r1, 8, %rd2; ld.global.v2.u32 {%r4,%r5}, [%rd3]; st.shared.v2.u32 [%r3], {%r4,%r5};
    bar.sync 0; xor.b32 %r6, %r1, 33; mad.lo.u32 %r6, %r6, 8, %r2; ld.shared.v2.f32 {%f1,%f2}, [%r6]; setp.lt.f32 %p1, %f1, %f2; @%p1 bra A;
    sub.f32 %f3, %f1, %f2; bra B; A: sub.f32 %f3, %f2, %f1; B: shfl.sync.bfly.b32 %r7, %r4, 5, 31, -1; bfe.s32 %r8, %r7, %r1, 9;
    bfi.b32 %r8, %r7, %r8, 40, 200; cvt.rzi.s64.f32 %rd5, %f3; shl.b64 %rd5, %rd5, 70; prmt.b32 %r9, %r7, %r8, 0x9bcd; vote.sync.ballot.b32 %r10, %p1, -1;
    atom.shared.add.u32 %r11, [%r2], 1; mov.u32 %r12, 0; L: add.u32 %r12, %r12, 1; setp.lt.u32 %p2, %r12, %r1; @%p2 bra L;
    bar.red.popc.u32 %r13, 1, 64, %p1; redux.sync.max.s32 %r14, %r8, -1; min.s32 %r14, %r14, %r13; st.global.v2.u32 [%rd4], {%r12,%r14};";

fn run(text: &str, seed: u64) -> Result<(), Option<ErrorKind>> {
    let m = Module::parse(text).map_err(|_| None)?;
    let mut mem = Memory::new();
    let bytes = random_bf16(64 * 64, seed).0;
    let args: Vec<Arg> = match m.params("k").unwrap_or_default().len() {
        2 => vec![Arg::U64(mem.alloc("a", Init::Bytes(bytes))), Arg::U64(mem.alloc("b", Init::Uninit(512)))],
        _ => {
            let (a, b) = (mem.alloc("a", Init::Bytes(bytes.clone())), mem.alloc("b", Init::Bytes(bytes)));
            let c = mem.alloc("c", Init::Uninit(64 * 64 * 4));
            vec![Arg::U64(a), Arg::U64(b), Arg::U64(c), Arg::U32(64), Arg::U32(64)]
        }
    };
    let block = if args.len() == 2 { 64 } else { 128 };
    let config = SimConfig { seed, max_instructions: 20_000, ..SimConfig::default() };
    let l = Launch { entry: "k", grid: [1, 1, 1], block: [block, 1, 1], shared_bytes: shared(64, 64), args: &args, config };
    m.launch(&l, &mut mem).map(|_| ()).map_err(|e| {
        assert!(!e.to_string().is_empty());
        Some(e.kind)
    })
}

#[test]
fn damaged_kernels_do_not_panic() {
    let seeds = [ptx(64, 64, Faults::default()), kernel("sm_80", ".param .u64 a, .param .u64 b", MIXED)];
    for s in &seeds {
        assert_eq!(run(s, 0), Ok(()));
    }
    let mut r = Rng(21);
    let mut seen: BTreeMap<Option<ErrorKind>, u32> = BTreeMap::new();
    for round in 0..1500u64 {
        let text = &seeds[(round % 2) as usize];
        let mut parts: Vec<String> = text.split_inclusive(';').map(str::to_string).collect();
        for _ in 0..1 + r.next() % 2 {
            // The first statements declare and address; the rest is fair game.
            let i = (4 + r.next() % (parts.len() as u64 - 5)) as usize;
            let j = (4 + r.next() % (parts.len() as u64 - 5)) as usize;
            match r.next() % 4 {
                0 => parts[i] = ";".to_string(),
                1 => parts.swap(i, j),
                2 => parts[i] = format!("{}{}", parts[i], parts[j]),
                _ => {
                    // Another number in place of one.
                    let digits: Vec<usize> = parts[i].bytes().enumerate().filter(|c| c.1.is_ascii_digit()).map(|c| c.0).collect();
                    if let Some(&d) = digits.get((r.next() % digits.len().max(1) as u64) as usize) {
                        parts[i].replace_range(d..=d, &(r.next() % [10, 100, 1 << 33][(r.next() % 3) as usize]).to_string());
                    }
                }
            }
        }
        *seen.entry(run(&parts.concat(), round).err().flatten()).or_default() += 1;
    }
    // The damage reaches execution and is noticed in many ways.
    println!("{seen:?}");
    for kind in [ErrorKind::Race, ErrorKind::Poison, ErrorKind::OutOfBounds] {
        assert!(seen.contains_key(&Some(kind)), "{seen:?}");
    }
}
