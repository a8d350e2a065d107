//! Recordings of launches: what they hold is in order and in pairs, and a launch is the same with and without one.

use crate::common::hopper::{gemm_memory, map_arg, map2, random, u16s};
use crate::common::pipeline::{Plan, ptx};
use crate::common::{kernel, module, schedules};
use std::collections::{BTreeMap, BTreeSet};
use tilelift_nvptx_sim::{Arg, Event, Launch, Memory, Recording, Report, SimConfig, Transfer, WaitFor, What};

/// The specialised GEMM of the tests: two clusters of two blocks, five k-iterations.
fn gemm(config: SimConfig, recording: Option<&mut Recording>) -> (Report, Vec<u16>) {
    let plan = Plan { stages: 3, cluster: 2, fault: "" };
    let (m, n, k) = (256, 128, 320);
    let (mut mem, pa, pb, pc) = gemm_memory(&random(m * k, 1), &random(n * k, 2), m * n);
    let args = [
        map_arg(map2(pa, m, k, 64, 128)),
        map_arg(map2(pb, n, k, 64, 64)),
        map_arg(map2(pc, m, n, 64, 64)),
        Arg::U32(5),
        Arg::U32(1),
        Arg::U32(1),
    ];
    let l = Launch { entry: "gemm", grid: [2, 1, 1], block: [384, 1, 1], shared_bytes: plan.shared(), args: &args, config };
    let module = module(&ptx(&plan));
    let report = match recording {
        Some(r) => module.launch_recorded(&l, &mut mem, r),
        None => module.launch(&l, &mut mem),
    };
    let report = report.unwrap_or_else(|e| panic!("{e}"));
    (report, u16s(mem.read(pc, 2 * m * n).expect("written")))
}

#[test]
fn a_recording_changes_nothing_and_everything_that_begins_ends() {
    for config in schedules().into_iter().step_by(4) {
        let mut recording = Recording::new();
        let recorded = gemm(config.clone(), Some(&mut recording));
        let plain = gemm(config, None);
        assert_eq!(recorded.1, plain.1);
        assert_eq!(recorded.0.instructions, plain.0.instructions);
        let r = &recording;
        assert!(
            r.dropped == 0 && r.events.windows(2).all(|w| w[0].at <= w[1].at) && r.events.last().is_some_and(|e| e.at <= r.instructions)
        );
        let (mut flying, mut waiting, mut phases) = (BTreeSet::new(), BTreeMap::new(), BTreeMap::new());
        let (mut copied, mut products, mut over, mut left) = (0, 0, 0, 0);
        for &Event { block, what, .. } in &r.events {
            match what {
                What::Begin { warps } => assert_eq!(warps, 12),
                What::TookOff { id, transfer, bytes, .. } => {
                    assert!(flying.insert(id), "{id} begins twice");
                    copied += u64::from(transfer == Transfer::In) * bytes;
                }
                What::Landed { id } => assert!(flying.remove(&id), "{id} lands without having begun"),
                What::Blocked { warp, on } => assert_eq!(waiting.insert((block, warp), on), None),
                What::Resumed { warp } => assert!(waiting.remove(&(block, warp)).is_some()),
                What::Exited { .. } => left += 1,
                What::Product { .. } => products += 1,
                What::ProductsDone { .. } => over += 1,
                What::Mbarrier { offset } => assert_eq!(phases.insert((block, offset), 0), None),
                What::Phase { offset, phase } => {
                    let next = phases.get_mut(&(block, offset)).expect("an mbarrier");
                    assert_eq!(*next, phase, "phases come one after the other");
                    *next += 1;
                }
                What::Copy { .. } | What::CopiesDone { .. } => {}
            }
        }
        assert!(flying.is_empty() && waiting.is_empty(), "{flying:?} {waiting:?}");
        assert_eq!(left, 24);
        // Two blocks: of A 128 rows each, of B 64 for both.
        assert_eq!(copied, 2 * 5 * (128 + 2 * 64) * 64 * 2);
        assert!(products > 0 && over > 0 && phases.values().any(|&n| n >= 2));
    }
}

#[test]
fn a_deadlock_is_recorded_up_to_where_it_is() {
    let body = "mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 32;\n@%p1 bar.sync 1, 64;";
    let m = module(&kernel("sm_80", "", body));
    let l = Launch { entry: "k", grid: [1, 1, 1], block: [64, 1, 1], shared_bytes: 0, args: &[], config: SimConfig::default() };
    let mut recording = Recording::new();
    let e = m.launch_recorded(&l, &mut Memory::new(), &mut recording).expect_err("it hangs");
    assert!(e.to_string().contains("barrier 1"), "{e}");
    let last = recording.events.iter().rfind(|e| matches!(e.what, What::Blocked { .. })).expect("a warp waits");
    assert_eq!(last.what, What::Blocked { warp: 0, on: WaitFor::Barrier(1) });
    assert!(last.line > 0);
}
