//! Planted faults: good code runs without a finding; with one line changed the fault is found and named.

use crate::common::{Buf, Needs, assemble, bytes, kernel, launch, u32s};
use tilelift_amdgcn_sim::{Chip, Counter, Fault, FaultKind, Shared, SimConfig, Use};

/// Reverses 256 numbers of a workgroup through LDS, for the first 200 of them.
const REVERSE: &str = "
    s_load_dwordx4 s[4:7], s[0:1], 0x0
    v_and_b32 v0, 0x3ff, v0
    v_lshlrev_b32 v1, 2, v0
    s_lshl_b32 s3, s2, 10
    s_waitcnt lgkmcnt(0)
    v_add_u32 v5, s3, v1
    global_load_dword v2, v5, s[4:5]
    v_mov_b32 v6, 7
    s_waitcnt vmcnt(0)
    ds_write_b32 v1, v2
    s_waitcnt lgkmcnt(0)
    s_barrier
    v_xor_b32 v3, 0x3fc, v1
    ds_read_b32 v4, v3
    v_cmp_gt_u32 vcc, 200, v0
    s_and_saveexec_b64 s[8:9], vcc
    s_waitcnt lgkmcnt(0)
    v_add_u32 v4, v4, v6
    s_mul_i32 s14, s2, 800
    v_add_u32 v7, s14, v1
    global_store_dword v7, v4, s[6:7]
    s_or_b64 exec, exec, s[8:9]
";

fn needs() -> Needs {
    Needs { lds: 1024, ..Needs::default() }
}

fn run(text: &str, seed: u64) -> Option<Result<Vec<u32>, Box<Fault>>> {
    let object = assemble(&kernel(text, needs()), Chip::Gfx942)?;
    let input: Vec<u32> = (0..512).collect();
    let buffers = vec![Buf::In(bytes(&input, u32::to_le_bytes)), Buf::Out(1600)];
    Some(launch(&object, 2, 256, buffers, SimConfig { seed, ..SimConfig::default() }).map(|(b, _)| u32s(&b[1])))
}

#[test]
fn good_code_has_no_finding() {
    for seed in 0..8 {
        let Some(r) = run(REVERSE, seed) else { return };
        let got = r.unwrap_or_else(|f| panic!("{f}"));
        let want: Vec<u32> = (0..2).flat_map(|g| (0..200).map(move |i| g * 256 + 255 - i + 7)).collect();
        assert_eq!(got, want);
    }
}

/// Replaces the n-th line that is `from`.
fn plant(text: &str, from: &str, nth: usize, to: &str) -> String {
    let mut seen = 0;
    let lines = text.lines().map(|l| {
        if l.trim() == from {
            seen += 1;
            if seen == nth + 1 {
                return to.to_owned();
            }
        }
        l.to_owned()
    });
    let out = lines.collect::<Vec<_>>().join("\n");
    assert!(seen > nth, "no line `{from}`");
    out
}

/// The fault that a changed line gives, the same under several orders of waves.
fn found(from: &str, nth: usize, to: &str, is: impl Fn(&FaultKind) -> bool) {
    let text = plant(REVERSE, from, nth, to);
    for seed in 0..6 {
        match run(&text, seed) {
            None => return,
            Some(Ok(_)) => panic!("`{from}` -> `{to}` under seed {seed} was not found"),
            Some(Err(f)) => assert!(is(&f.kind), "`{from}` -> `{to}` under seed {seed}: {f}"),
        }
    }
}

#[test]
fn dropped_waits() {
    let flight = |register: &'static str, counter| move |k: &FaultKind| matches!(k, FaultKind::InFlight { register: r, counter: c, .. } if r == register && *c == counter);
    found("s_waitcnt lgkmcnt(0)", 0, "", flight("s4", Counter::Lgkm));
    found("s_waitcnt vmcnt(0)", 0, "", flight("v2", Counter::Vm));
    found("s_waitcnt lgkmcnt(0)", 2, "", flight("v4", Counter::Lgkm));
    // A store to LDS that is not waited for before the barrier.
    found("s_waitcnt lgkmcnt(0)", 1, "", |k| matches!(k, FaultKind::Race { memory: Shared::Lds, other_pending: true, .. }));
}

#[test]
fn wrong_counts() {
    let flight = |k: &FaultKind| matches!(k, FaultKind::InFlight { .. });
    found("s_waitcnt vmcnt(0)", 0, "s_waitcnt vmcnt(1)", flight);
    found("s_waitcnt lgkmcnt(0)", 0, "s_waitcnt lgkmcnt(1)", flight);
    found("s_waitcnt lgkmcnt(0)", 2, "s_waitcnt vmcnt(0)", flight);
}

#[test]
fn missing_barrier() {
    found("s_barrier", 0, "", |k| matches!(k, FaultKind::Race { memory: Shared::Lds, .. } | FaultKind::Undefined { .. }));
}

#[test]
fn clobbered_while_in_flight() {
    found("v_mov_b32 v6, 7", 0, "v_mov_b32 v2, 7", |k| matches!(k, FaultKind::InFlight { register, .. } if register == "v2"));
}

#[test]
fn wrong_exec() {
    // Without the mask the last workgroup stores behind the buffer, or two workgroups store to one place.
    found("s_and_saveexec_b64 s[8:9], vcc", 0, "s_mov_b64 s[8:9], exec", |k| {
        matches!(k, FaultKind::OutOfBounds { .. } | FaultKind::Race { memory: Shared::Global, .. })
    });
    found("s_and_saveexec_b64 s[8:9], vcc", 0, "s_and_saveexec_b64 s[8:9], s[40:41]", |k| {
        matches!(k, FaultKind::Undefined { used_as: Use::Exec, .. })
    });
}

#[test]
fn registers_that_were_never_written() {
    found("v_mov_b32 v6, 7", 0, "", |k| matches!(k, FaultKind::Undefined { used_as: Use::Store, lane: Some(_) }));
    found("v_lshlrev_b32 v1, 2, v0", 0, "", |k| matches!(k, FaultKind::Undefined { used_as: Use::Address, .. }));
    // LDS that nobody wrote.
    found("ds_write_b32 v1, v2", 0, "", |k| matches!(k, FaultKind::Undefined { used_as: Use::Store, lane: Some(_) }));
}

#[test]
fn registers_that_do_not_exist() {
    let beyond = |k: &FaultKind| matches!(k, FaultKind::RegisterCount { available: 64, .. });
    found("v_mov_b32 v6, 7", 0, "v_mov_b32 v64, 7", beyond);
}

#[test]
fn addresses() {
    found("v_xor_b32 v3, 0x3fc, v1", 0, "v_xor_b32 v3, 0x7fc, v1", |k| matches!(k, FaultKind::LdsOutOfBounds { available: 1024, .. }));
    found("v_xor_b32 v3, 0x3fc, v1", 0, "v_xor_b32 v3, 0x3f2, v1", |k| matches!(k, FaultKind::Misaligned { align: 4, .. }));
    found("s_lshl_b32 s3, s2, 10", 0, "s_lshl_b32 s3, s2, 11", |k| matches!(k, FaultKind::OutOfBounds { near: Some(_), .. }));
    found("s_lshl_b32 s3, s2, 10", 0, "s_mov_b32 s3, 2", |k| matches!(k, FaultKind::Misaligned { align: 4, .. }));
}

#[test]
fn programs_that_do_not_end() {
    let Some(object) = assemble(&kernel("L:\n s_branch L", needs()), Chip::Gfx942) else { return };
    let config = SimConfig { max_steps: 1000, ..SimConfig::default() };
    let f = launch(&object, 1, 64, vec![], config).expect_err("a hang");
    assert_eq!(f.kind, FaultKind::StepLimit { steps: 1000 });
    // Half of the waves miss a barrier.
    let body = "v_cmp_gt_u32 vcc, 64, v0\n s_cbranch_vccz L\n s_barrier\nL:\n s_nop 0";
    let Some(object) = assemble(&kernel(body, needs()), Chip::Gfx942) else { return };
    let f = launch(&object, 1, 128, vec![], SimConfig::default()).expect_err("a deadlock");
    assert_eq!(f.kind, FaultKind::Deadlock { waiting: vec![0], ended: vec![1] });
}

#[test]
fn races_on_global_memory() {
    // Every workgroup stores its number to one place.
    let body = "s_load_dwordx2 s[4:5], s[0:1], 0x0\n v_mov_b32 v1, 0\n v_mov_b32 v2, s2\n s_waitcnt lgkmcnt(0)\n global_store_dword v1, v2, s[4:5]";
    let Some(object) = assemble(&kernel(body, needs()), Chip::Gfx942) else { return };
    let f = launch(&object, 2, 1, vec![Buf::Out(4)], SimConfig::default()).expect_err("a race");
    assert!(matches!(f.kind, FaultKind::Race { memory: Shared::Global, write: true, other_write: true, .. }), "{f}");
    // Atomics do not race.
    let body = body.replace("global_store_dword v1, v2, s[4:5]", "global_atomic_add v1, v2, s[4:5]");
    let Some(object) = assemble(&kernel(&body, needs()), Chip::Gfx942) else { return };
    let (b, _) = launch(&object, 4, 1, vec![Buf::In(vec![0; 4])], SimConfig::default()).unwrap_or_else(|f| panic!("{f}"));
    assert_eq!(u32s(&b[0]), [6]);
}

/// Two waves: the first loads, the second stores to the same place after a barrier. The compute unit keeps vector accesses in order; a scalar
/// load goes another way, and without the barrier there is no order.
#[test]
fn loads_that_are_not_waited_for_before_a_barrier() {
    let body = "
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    v_lshlrev_b32 v1, 2, v0
    v_and_b32 v1, 0xff, v1
    v_cmp_gt_u32 vcc, 64, v0
    s_mov_b64 s[8:9], vcc
    s_waitcnt lgkmcnt(0)
    s_cbranch_vccz A
    global_load_dword v2, v1, s[4:5]
    s_waitcnt vmcnt(0)
    A:
    s_barrier
    s_mov_b64 vcc, s[8:9]
    s_nop 4
    s_cbranch_vccnz B
    v_mov_b32 v3, 5
    global_store_dword v1, v3, s[4:5]
    B:
    s_nop 0";
    for seed in 0..4 {
        let config = SimConfig { seed, ..SimConfig::default() };
        let Some(object) = assemble(&kernel(body, needs()), Chip::Gfx942) else { return };
        let run = launch(&object, 1, 128, vec![Buf::In(vec![0; 256])], config.clone());
        assert!(run.is_ok(), "{}", run.expect_err("a fault"));
        let changed = |from, to| assemble(&kernel(&plant(body, from, 0, to), needs()), Chip::Gfx942);
        let Some(object) = changed("s_waitcnt vmcnt(0)", "") else { return };
        let run = launch(&object, 1, 128, vec![Buf::In(vec![0; 256])], config.clone());
        assert!(run.is_ok(), "{}", run.expect_err("a fault"));
        let Some(object) = changed("global_load_dword v2, v1, s[4:5]", "s_load_dword s10, s[4:5], 0x0") else { return };
        let f = launch(&object, 1, 128, vec![Buf::In(vec![0; 256])], config.clone()).expect_err("a race");
        assert!(matches!(f.kind, FaultKind::Race { memory: Shared::Global, write: true, other_write: false, .. }), "{f}");
        // A flat load may be one of LDS, for which another counter speaks.
        let flat = "v_add_u32 v4, s4, v1\n v_mov_b32 v5, s5\n flat_load_dword v2, v[4:5]";
        let both = plant(&plant(body, "s_waitcnt vmcnt(0)", 0, ""), "global_load_dword v2, v1, s[4:5]", 0, flat);
        let Some(object) = assemble(&kernel(&both, needs()), Chip::Gfx942) else { return };
        let f = launch(&object, 1, 128, vec![Buf::In(vec![0; 256])], config.clone()).expect_err("a race");
        assert!(matches!(f.kind, FaultKind::Race { memory: Shared::Global, write: true, other_write: false, .. }), "{f}");
        let Some(object) = changed("s_barrier", "") else { return };
        let f = launch(&object, 1, 128, vec![Buf::In(vec![0; 256])], config).expect_err("a race");
        assert!(matches!(f.kind, FaultKind::Race { memory: Shared::Global, .. }), "{f}");
    }
}

/// Every workgroup reads a number, and the last one stores to it: whoever read last, another one did, too.
#[test]
fn readers_are_not_forgotten() {
    let body = "s_load_dwordx2 s[4:5], s[0:1], 0x0\n v_mov_b32 v1, 0\n s_waitcnt lgkmcnt(0)\n global_load_dword v2, v1, s[4:5]\n s_waitcnt vmcnt(0)\n \
                s_cmp_lg_u32 s2, 3\n s_cbranch_scc1 L\n global_store_dword v1, v2, s[4:5]\nL:\n s_nop 0";
    let Some(object) = assemble(&kernel(body, needs()), Chip::Gfx942) else { return };
    for seed in 0..8 {
        let config = SimConfig { seed, ..SimConfig::default() };
        let f = launch(&object, 4, 1, vec![Buf::In(vec![0; 4])], config).expect_err("a race");
        assert!(matches!(f.kind, FaultKind::Race { memory: Shared::Global, .. }), "{f}");
    }
}

/// A semaphore: each workgroup stores, waits for the store, and counts; the last one reads what all have stored.
#[test]
fn atomics_order_workgroups() {
    let body = "
    s_load_dwordx4 s[4:7], s[0:1], 0x0
    s_lshl_b32 s3, s2, 2
    v_mov_b32 v1, s3
    v_mov_b32 v2, s2
    v_mov_b32 v3, 0
    v_mov_b32 v4, 1
    s_waitcnt lgkmcnt(0)
    global_store_dword v1, v2, s[4:5]
    s_waitcnt vmcnt(0)
    global_atomic_add v5, v3, v4, s[6:7] sc0
    s_waitcnt vmcnt(0)
    v_readfirstlane_b32 s8, v5
    s_cmp_lg_u32 s8, 3
    s_cbranch_scc1 L
    global_load_dwordx4 v[8:11], v3, s[4:5]
    s_waitcnt vmcnt(0)
    v_add3_u32 v8, v8, v9, v10
    v_add_u32 v8, v8, v11
    global_store_dword v3, v8, s[6:7] offset:8
    L:
    s_nop 0";
    for (plant_it, seed) in [(false, 0), (false, 1), (false, 2), (true, 0), (true, 1), (true, 2)] {
        let text = if plant_it { plant(body, "s_waitcnt vmcnt(0)", 0, "") } else { body.to_owned() };
        let Some(object) = assemble(&kernel(&text, needs()), Chip::Gfx942) else { return };
        let buffers = vec![Buf::Out(16), Buf::In(vec![0; 12])];
        let run = launch(&object, 4, 1, buffers, SimConfig { seed, ..SimConfig::default() });
        match run {
            Ok((b, _)) => {
                assert!(!plant_it, "the dropped wait was not found under seed {seed}");
                assert_eq!(u32s(&b[1]), [4, 0, 6]);
            }
            Err(f) => assert!(plant_it && matches!(f.kind, FaultKind::Race { other_write: true, .. }), "{f}"),
        }
    }
}
