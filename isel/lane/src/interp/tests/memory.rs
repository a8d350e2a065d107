//! Global and shared memory, races, asynchronous copies, exchanges between lanes.

use super::*;
use crate::inst::{Atomic, AtomicKind};
use crate::value::{ShuffleFrom, Space};
use tilelift_ir::{AtomicOp, MemoryOrder, Scope};

const U8: LTy = LTy::Num(Scalar::I8);

fn out32(threads: usize) -> Memory {
    memory([Buffer::uninit(threads * 4)])
}

fn iota(n: u64) -> Buffer {
    Buffer::from_i64(Scalar::I32, (0..n).map(|i| i as i64 * 3 + 1))
}

#[test]
fn vectors_guards_and_other_values() {
    for (ty, n) in [(LTy::F32, 4), (LTy::F32, 2), (LTy::Num(Scalar::F16), 4), (U8, 2), (LTy::I64, 2), (LTy::B32, 1), (LTy::I1, 4)] {
        let mut asm = Asm::new(1);
        let bytes = ty.bytes() * n as u32;
        let thread = asm.thread();
        let half = asm.i32(16);
        let low = asm.def(LTy::I1, |dst| Inst::Cmp { dst, op: tilelift_ir::CmpOp::Lt, a: thread, b: half });
        let addr = asm.element(0, thread, bytes);
        let nine = asm.constant(ty, 1);
        let dsts = asm.vals(ty, n);
        let other = if n == 4 { Vals::from_elem(nine, n) } else { Vals::new() };
        asm.push(Inst::LoadGlobal {
            dsts: dsts.clone(),
            addr,
            offset: bytes as i32,
            guard: Some(low),
            other: other.clone(),
            cache: tilelift_ir::CacheHint::Normal,
        });
        asm.store(1, &dsts);
        let data: Vec<u8> = (0..17 * bytes).map(|i| if ty == LTy::I1 { (i % 3 % 2) as u8 } else { i as u8 }).collect();
        let mut m = memory([Buffer::from_bytes(data.clone()), Buffer::uninit(32 * bytes as usize)]);
        // Only 17 vectors exist: unguarded threads would leave the buffer.
        let stats = asm.run(&mut m).unwrap();
        let got = m.buffers[1].bytes();
        let bytes = bytes as usize;
        assert_eq!(got[..16 * bytes], data[bytes..]);
        let one = &1u64.to_le_bytes()[..ty.bytes() as usize];
        let rest: Vec<u8> = (16 * n..32 * n).flat_map(|_| if other.is_empty() { vec![0; one.len()] } else { one.to_vec() }).collect();
        assert_eq!(got[16 * bytes..], rest, "{ty} x {n}");
        assert_eq!((stats.global_read, stats.global_written), (16 * bytes as u64, 32 * bytes as u64));
    }
}

#[test]
fn guarded_stores_write_where_the_guard_holds() {
    let mut asm = Asm::new(1);
    let t = asm.thread();
    let one = asm.i32(1);
    let odd = asm.bin(BinOp::And, t, one);
    let odd = asm.def(LTy::I1, |dst| Inst::Cvt { dst, a: odd });
    let addr = asm.element(0, t, 4);
    asm.push(Inst::StoreGlobal { srcs: Vals::from_slice(&[t]), addr, offset: 0, guard: Some(odd), cache: tilelift_ir::CacheHint::Normal });
    let mut m = memory([Buffer::from_i64(Scalar::I32, [-1; 32])]);
    asm.run(&mut m).unwrap();
    let want: Vec<i64> = (0..32).map(|i| if i % 2 == 1 { i } else { -1 }).collect();
    assert_eq!(m.buffers[0].read_i64(Scalar::I32), want);
}

#[test]
fn global_faults_name_the_thread() {
    let mut asm = Asm::new(1);
    let x = asm.load(0, LTy::I32);
    asm.store(1, &[x]);
    let outside = |buffer: u64, at: u64| LaneFault::Outside { space: Space::Global, addr: ((buffer + 1) << 40) + at, bytes: 4 };
    assert_eq!(asm.fault(&mut memory([iota(31), Buffer::uninit(128)])), (outside(0, 124), 31));
    assert_eq!(asm.fault(&mut memory([iota(32), Buffer::uninit(126)])), (outside(1, 124), 31));
    let mut holey = Buffer::uninit(128);
    holey.fill_i64(Scalar::I32, 0..20);
    let fault = LaneFault::Uninitialised { space: Space::Global, addr: (1 << 40) + 80 };
    assert_eq!(asm.fault(&mut memory([holey, Buffer::uninit(128)])), (fault, 20));
    // The null page and a misaligned vector.
    let mut asm = Asm::new(1);
    let p = asm.pointer(0);
    let zero = asm.constant(LTy::I64, 0);
    asm.def(LTy::I32, |d| Inst::LoadGlobal {
        dsts: Vals::from_slice(&[d]),
        addr: p,
        offset: 4,
        guard: None,
        other: Vals::new(),
        cache: tilelift_ir::CacheHint::Normal,
    });
    let dsts = asm.vals(LTy::I32, 2);
    asm.push(Inst::LoadGlobal { dsts, addr: p, offset: 4, guard: None, other: Vals::new(), cache: tilelift_ir::CacheHint::Normal });
    let misaligned = LaneFault::Misaligned { space: Space::Global, addr: (1 << 40) + 4, bytes: 8 };
    assert_eq!(asm.fault(&mut memory([iota(8)])), (misaligned, 0));
    asm.p.body.pop();
    asm.def(LTy::I32, |d| Inst::LoadGlobal {
        dsts: Vals::from_slice(&[d]),
        addr: zero,
        offset: 8,
        guard: None,
        other: Vals::new(),
        cache: tilelift_ir::CacheHint::Normal,
    });
    assert_eq!(asm.fault(&mut memory([iota(8)])).0, LaneFault::Outside { space: Space::Global, addr: 8, bytes: 4 });
}

/// Every thread writes its number to shared memory and reads that of the thread `distance` behind it.
fn neighbours(warps: u32, distance: i64, barrier: bool) -> Asm {
    let mut asm = Asm::new(warps);
    let t = asm.thread();
    let (base, four, count, d) = (asm.alloc(128 * warps), asm.i32(4), asm.i32(i64::from(32 * warps)), asm.i32(distance));
    let mine = asm.def(LTy::I32, |dst| Inst::Fma { dst, a: t, b: four, c: base });
    asm.store_shared(mine, 0, &[t]);
    if barrier {
        asm.push(Inst::Barrier);
    }
    let other = asm.bin(BinOp::Add, t, d);
    let other = asm.bin(BinOp::Rem, other, count);
    let theirs = asm.def(LTy::I32, |dst| Inst::Fma { dst, a: other, b: four, c: base });
    let x = asm.load_shared(theirs, 0, LTy::I32);
    asm.store(0, &[x]);
    asm
}

#[test]
fn shared_memory_needs_a_barrier_between_warps() {
    for (distance, barrier) in [(1, true), (40, true), (0, false), (0, true)] {
        let mut m = out32(64);
        let stats = neighbours(2, distance, barrier).run(&mut m).unwrap();
        let want: Vec<i64> = (0..64).map(|i| (i + distance) % 64).collect();
        assert_eq!(m.buffers[0].read_i64(Scalar::I32), want);
        assert_eq!((stats.shared_read, stats.shared_written, stats.barriers), (256, 256, u64::from(barrier)));
    }
    // Within a warp, lockstep orders the accesses.
    neighbours(1, 5, false).run(&mut out32(32)).unwrap();
    // Thread 31 reads what thread 32, of the other warp, wrote.
    let race = LaneFault::Race { addr: 128, other: Some(1), wrote: true };
    assert_eq!(neighbours(2, 1, false).fault(&mut out32(64)), (race, 31));
}

#[test]
fn a_write_after_another_warps_read_is_a_race() {
    for second_barrier in [true, false] {
        let mut asm = neighbours(2, 32, true);
        if second_barrier {
            asm.push(Inst::Barrier);
        }
        let (t, base, four) = (asm.thread(), asm.i32(0), asm.i32(4));
        let mine = asm.def(LTy::I32, |dst| Inst::Fma { dst, a: t, b: four, c: base });
        asm.store_shared(mine, 0, &[t]);
        if second_barrier {
            asm.run(&mut out32(64)).unwrap();
        } else {
            assert_eq!(asm.fault(&mut out32(64)), (LaneFault::Race { addr: 0, other: Some(1), wrote: false }, 0));
        }
    }
}

#[test]
fn writes_to_one_byte_at_once() {
    // All threads of a warp write to one place: fine if they agree.
    let same = |warps, agree: bool| {
        let mut asm = Asm::new(warps);
        let (base, lane, seven) = (asm.alloc(4), asm.special(Special::Lane), asm.i32(7));
        asm.store_shared(base, 0, &[if agree { seven } else { lane }]);
        asm
    };
    same(1, true).run(&mut out32(0)).unwrap();
    assert_eq!(same(1, false).fault(&mut out32(0)), (LaneFault::Race { addr: 0, other: Some(0), wrote: true }, 1));
    assert_eq!(same(2, true).fault(&mut out32(0)), (LaneFault::Race { addr: 0, other: Some(0), wrote: true }, 32));
}

/// Every thread of two warps adds its number to one shared word, then the first thread's word goes to memory.
fn shared_sum(barriers: [bool; 2]) -> Asm {
    let mut asm = Asm::new(2);
    let at = asm.alloc(4);
    let (t, zero) = (asm.thread(), asm.i32(0));
    let first = asm.def(LTy::I1, |dst| Inst::Cmp { dst, op: tilelift_ir::CmpOp::Eq, a: t, b: zero });
    asm.push(Inst::StoreShared { srcs: Vals::from_slice(&[zero]), addr: at, offset: 0, guard: Some(first) });
    if barriers[0] {
        asm.push(Inst::Barrier);
    }
    let (order, scope, space) = (MemoryOrder::Relaxed, Scope::Cta, Space::Shared);
    let kind = AtomicKind::Op(AtomicOp::Add);
    asm.push(Inst::Atomic(Box::new(Atomic { dst: None, kind, space, addr: at, offset: 0, value: t, guard: None, order, scope })));
    if barriers[1] {
        asm.push(Inst::Barrier);
    }
    let sum = asm.load_shared(at, 0, LTy::I32);
    asm.store(0, &[sum]);
    asm
}

#[test]
fn updates_see_one_another_and_plain_accesses_need_barriers() {
    let mut m = out32(64);
    shared_sum([true; 2]).run(&mut m).unwrap();
    assert_eq!(m.buffers[0].read_i64(Scalar::I32), [63 * 32; 64]);
    let race = |other, wrote| LaneFault::Race { addr: 0, other: Some(other), wrote };
    assert_eq!(shared_sum([false, true]).fault(&mut out32(64)), (race(0, true), 32));
    assert_eq!(shared_sum([true, false]).fault(&mut out32(64)), (race(1, true), 0));
}

#[test]
fn shared_faults() {
    let with = |offset: i32, ty: LTy, n: usize| {
        let mut asm = Asm::new(1);
        let base = asm.alloc(64);
        let dsts = asm.vals(ty, n);
        asm.push(Inst::LoadShared { dsts, addr: base, offset });
        asm.fault(&mut out32(0)).0
    };
    assert_eq!(with(0, LTy::F32, 1), LaneFault::Uninitialised { space: Space::Shared, addr: 0 });
    assert_eq!(with(64, LTy::F32, 1), LaneFault::Outside { space: Space::Shared, addr: 64, bytes: 4 });
    assert_eq!(with(-4, LTy::F32, 1), LaneFault::Outside { space: Space::Shared, addr: -4i64 as u64, bytes: 4 });
    assert_eq!(with(8, LTy::F32, 4), LaneFault::Misaligned { space: Space::Shared, addr: 8, bytes: 16 });
    assert_eq!(with(2, LTy::I32, 1), LaneFault::Misaligned { space: Space::Shared, addr: 2, bytes: 4 });
}

#[test]
fn shared_memory_is_forgotten_between_programs() {
    let mut asm = Asm::new(1);
    let (base, zero, x) = (asm.alloc(4), asm.i32(0), asm.special(Special::ProgramId(GridAxis::X)));
    let first = asm.def(LTy::I1, |dst| Inst::Cmp { dst, op: tilelift_ir::CmpOp::Eq, a: x, b: zero });
    asm.push(Inst::StoreShared { srcs: Vals::from_slice(&[x]), addr: base, offset: 0, guard: Some(first) });
    asm.load_shared(base, 0, LTy::I32);
    let run = |grid| interpret(&asm.p, &target(), grid, &[], &mut Memory::new(), &LaneOptions::default());
    run([1, 1, 1]).unwrap();
    let Err(LaneError::Fault { fault, program, inst, .. }) = run([2, 1, 1]) else { panic!("no fault") };
    assert_eq!(fault, LaneFault::Uninitialised { space: Space::Shared, addr: 0 });
    assert_eq!(program, [1, 0, 0]);
    assert!(inst.contains("load.shared [l0]"), "{inst}");
}

/// Each thread copies 4 bytes to its place in shared memory; then `protocol`, then it reads the place of the thread `distance` behind it.
fn copies(warps: u32, distance: i64, valid_below: i64, protocol: &[Inst]) -> Asm {
    let mut asm = Asm::new(warps);
    let t = asm.thread();
    let (base, four, count, d) = (asm.alloc(128 * warps), asm.i32(4), asm.i32(i64::from(32 * warps)), asm.i32(distance));
    let limit = asm.i32(valid_below);
    let valid = asm.def(LTy::I1, |dst| Inst::Cmp { dst, op: tilelift_ir::CmpOp::Lt, a: t, b: limit });
    let mine = asm.def(LTy::I32, |dst| Inst::Fma { dst, a: t, b: four, c: base });
    let global = asm.element(1, t, 4);
    asm.push(Inst::CopyAsync { shared: mine, offset: 0, global, global_offset: 0, bytes: 4, valid: Some(valid) });
    asm.p.body.extend(protocol.iter().cloned());
    let other = asm.bin(BinOp::Add, t, d);
    let other = asm.bin(BinOp::Rem, other, count);
    let theirs = asm.def(LTy::I32, |dst| Inst::Fma { dst, a: other, b: four, c: base });
    let x = asm.load_shared(theirs, 0, LTy::I32);
    asm.store(0, &[x]);
    asm
}

#[test]
fn copies_arrive_at_the_wait_and_are_seen_behind_the_barrier() {
    use Inst::{Barrier, CommitCopies as Commit, WaitCopies as Wait};
    let all = [Commit, Wait { pending: 0 }, Barrier];
    let run = |warps: u32, distance, valid, protocol: &[Inst]| {
        let n = 32 * u64::from(warps);
        let mut m = memory([Buffer::uninit(n as usize * 4), iota(n.min(valid as u64))]);
        let done = copies(warps, distance, valid, protocol).run(&mut m);
        done.map(|stats| (m.buffers[0].read_i64(Scalar::I32), stats))
    };
    let fault = |warps, distance, protocol: &[Inst]| match run(warps, distance, 999, protocol) {
        Err(LaneError::Fault { fault, thread, .. }) => (fault, thread),
        other => panic!("no fault but {other:?}"),
    };
    let (got, stats) = run(2, 33, 50, &all).unwrap();
    let want: Vec<i64> = (0..64).map(|i| (i + 33) % 64).map(|i| if i < 50 { 3 * i + 1 } else { 0 }).collect();
    assert_eq!(got, want);
    assert_eq!((stats.copied, stats.global_read), (256, 200));
    // A thread sees its own data from the wait on.
    assert_eq!(run(1, 0, 32, &all[..2]).unwrap().0[31], 94);
    // Without the wait, or with one that covers another group: the data is not there.
    let pending = (LaneFault::PendingCopy { addr: 0, owner: 0 }, 0);
    assert_eq!(fault(1, 0, &[]), pending);
    assert_eq!(fault(1, 0, &[Wait { pending: 0 }, Barrier]), pending);
    assert_eq!(fault(1, 0, &[Commit, Barrier]), pending);
    assert_eq!(fault(1, 0, &[Commit, Wait { pending: 1 }, Barrier]), pending);
    assert_eq!(run(1, 0, 32, &[Commit, Commit, Wait { pending: 1 }]).unwrap().0[0], 1);
    // A neighbour in the warp needs the barrier, and needs it behind the wait.
    let race = (LaneFault::Race { addr: 4, other: Some(0), wrote: true }, 0);
    assert_eq!(fault(1, 1, &all[..2]), race);
    assert_eq!(fault(1, 1, &[Commit, Barrier, Wait { pending: 0 }]), race);
}

#[test]
fn a_pending_destination_is_untouchable() {
    let mut asm = copies(1, 0, 32, &[]);
    // Drop the load and the store; write to the destination instead.
    let base = asm.p.body.iter().position(|i| matches!(i, Inst::CopyAsync { .. })).unwrap();
    asm.p.body.truncate(base + 1);
    let (addr, x) = (asm.i32(12), asm.i32(5));
    asm.store_shared(addr, 0, &[x]);
    let mut m = memory([Buffer::uninit(0), iota(32)]);
    assert_eq!(asm.fault(&mut m).0, LaneFault::PendingCopy { addr: 12, owner: 3 });
    // A copy to what another warp reads in the same epoch is a race.
    let mut asm = neighbours(2, 32, true);
    let (t, base, four) = (asm.thread(), asm.i32(0), asm.i32(4));
    let mine = asm.def(LTy::I32, |dst| Inst::Fma { dst, a: t, b: four, c: base });
    let global = asm.element(1, t, 4);
    asm.push(Inst::CopyAsync { shared: mine, offset: 0, global, global_offset: 0, bytes: 4, valid: None });
    let mut m = memory([Buffer::uninit(256), iota(64)]);
    assert_eq!(asm.fault(&mut m).0, LaneFault::Race { addr: 0, other: Some(1), wrote: false });
}

#[test]
fn shuffles() {
    let threads = 64u64;
    for ty in [LTy::I32, LTy::F32, LTy::B32] {
        let mut asm = Asm::new(2);
        let x = asm.load(1, ty);
        let (lane, five, lanes) = (asm.special(Special::Lane), asm.i32(5), asm.i32(32));
        let from = asm.bin(BinOp::Mul, lane, five);
        let from = asm.bin(BinOp::Rem, from, lanes);
        let a = asm.def(ty, |dst| Inst::Shuffle { dst, a: x, from: ShuffleFrom::Xor(9) });
        let b = asm.def(ty, |dst| Inst::Shuffle { dst, a: x, from: ShuffleFrom::Lane(from) });
        asm.store(0, &[a, b]);
        let mut m = memory([Buffer::uninit(64 * 8), iota(threads)]);
        let stats = asm.run(&mut m).unwrap();
        let want: Vec<i64> = (0..64).flat_map(|t| [(t & 32) + ((t & 31) ^ 9), (t & 32) + (t & 31) * 5 % 32].map(|i| 3 * i + 1)).collect();
        assert_eq!(m.buffers[0].read_i64(Scalar::I32), want);
        assert_eq!(stats.shuffles, 4);
    }
    // Lanes behind the last one, and in front of the first, are counted anew.
    for by in [33, -31] {
        let mut asm = Asm::new(1);
        let (lane, by) = (asm.special(Special::Lane), asm.i32(by));
        let from = asm.bin(BinOp::Add, lane, by);
        let next = asm.def(LTy::I32, |dst| Inst::Shuffle { dst, a: lane, from: ShuffleFrom::Lane(from) });
        asm.store(0, &[next]);
        let mut m = memory([Buffer::uninit(32 * 4)]);
        asm.run(&mut m).unwrap();
        assert_eq!(m.buffers[0].read_i64(Scalar::I32), (1..=32).map(|n| n % 32).collect::<Vec<i64>>());
    }
}

#[test]
fn least_and_greatest_words() {
    for (op, want) in [(BinOp::Minimum, [-31, -63]), (BinOp::Maximum, [0, -32]), (BinOp::MinimumU, [0, -63]), (BinOp::MaximumU, [-1, -32])]
    {
        let mut asm = Asm::new(2);
        let (lane, warp, lanes, zero) = (asm.special(Special::Lane), asm.special(Special::Warp), asm.i32(32), asm.i32(0));
        let warp = asm.bin(BinOp::Mul, warp, lanes);
        let number = asm.bin(BinOp::Add, warp, lane);
        let word = asm.bin(BinOp::Sub, zero, number);
        let found = asm.def(LTy::I32, |dst| Inst::Redux { dst, op, a: word });
        asm.store(0, &[found]);
        let mut m = memory([Buffer::uninit(64 * 4)]);
        asm.run(&mut m).unwrap();
        assert_eq!(m.buffers[0].read_i64(Scalar::I32), want.map(|x| vec![x; 32]).concat(), "{op:?}");
    }
}

#[test]
fn matrix_loads() {
    for (count, trans) in [(1, false), (2, false), (4, false), (1, true), (2, true), (4, true)] {
        let mut asm = Asm::new(2);
        // Each warp writes 32 rows of 16 bytes to its own half, row r of a warp at place 5 r mod 32.
        let (lane, warp) = (asm.special(Special::Lane), asm.special(Special::Warp));
        let (base, sixteen, rows, five, lanes) = (asm.alloc(1024), asm.i32(16), asm.i32(512), asm.i32(5), asm.i32(32));
        let t = asm.thread();
        let row = asm.element(1, t, 16);
        let words = asm.vals(LTy::B32, 4);
        asm.push(Inst::LoadGlobal {
            dsts: words.clone(),
            addr: row,
            offset: 0,
            guard: None,
            other: Vals::new(),
            cache: tilelift_ir::CacheHint::Normal,
        });
        let at = asm.bin(BinOp::Mul, lane, five);
        let at = asm.bin(BinOp::Rem, at, lanes);
        let at = asm.def(LTy::I32, |dst| Inst::Fma { dst, a: at, b: sixteen, c: base });
        let at = asm.def(LTy::I32, |dst| Inst::Fma { dst, a: warp, b: rows, c: at });
        asm.store_shared(at, 0, &words);
        let dsts = asm.vals(LTy::B32, count);
        asm.push(Inst::LoadMatrix { dsts: dsts.clone(), addr: at, offset: 0, trans });
        asm.store(0, &dsts);
        let data = Buffer::from_i64(Scalar::I16, 0..512);
        let mut m = memory([Buffer::uninit(64 * 4 * count), data]);
        asm.run(&mut m).unwrap();
        let got = m.buffers[0].read_i64(Scalar::I16);
        for (i, &got) in got.iter().enumerate() {
            let (half, q, t) = (i as i64 % 2, i as i64 / 2 % count as i64, i as i64 / 2 / count as i64);
            let (warp, l) = (t / 32, t % 32);
            let (r, c) = if trans { (2 * (l % 4) + half, l / 4) } else { (l / 4, 2 * (l % 4) + half) };
            assert_eq!(got, 8 * (32 * warp + 8 * q + r) + c, "x{count} trans={trans} element {i}");
        }
    }
    // A matrix load reads what other lanes copied: the wait alone does not order it.
    for barrier in [false, true] {
        let mut asm = Asm::new(1);
        let (base, lane, sixteen) = (asm.alloc(512), asm.special(Special::Lane), asm.i32(16));
        let shared = asm.def(LTy::I32, |dst| Inst::Fma { dst, a: lane, b: sixteen, c: base });
        let global = asm.element(0, lane, 16);
        asm.push(Inst::CopyAsync { shared, offset: 0, global, global_offset: 0, bytes: 16, valid: None });
        asm.push(Inst::CommitCopies);
        asm.push(Inst::WaitCopies { pending: 0 });
        if barrier {
            asm.push(Inst::Barrier);
        }
        asm.def(LTy::B32, |d| Inst::LoadMatrix { dsts: Vals::from_slice(&[d]), addr: shared, offset: 0, trans: false });
        let mut m = memory([iota(128)]);
        if barrier {
            asm.run(&mut m).unwrap();
        } else {
            assert_eq!(asm.fault(&mut m), (LaneFault::Race { addr: 0, other: Some(0), wrote: true }, 0));
        }
    }
}

#[test]
fn partly_written_buffers_keep_their_bytes() {
    let mut asm = Asm::new(1);
    let t = asm.thread();
    asm.store(0, &[t]);
    let mut m = memory([Buffer::uninit(256)]);
    asm.run(&mut m).unwrap();
    let got = m.buffers[0].read_i64(Scalar::I32);
    assert_eq!(got[..32], (0..32).collect::<Vec<_>>());
    assert_eq!(got[32..], [-1; 32]);
}
