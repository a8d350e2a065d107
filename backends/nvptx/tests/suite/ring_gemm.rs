//! The hand-written ring GEMM: with the numbers of an automatically specialised product it is the same program, and with any numbers it is right.

use crate::common::launch::{schedule, simulate_text};
use std::collections::BTreeMap;
use tilelift_interp::{Memory, Options, interpret as on_tiles};
use tilelift_ir::{Kernel, Scalar, verify};
use tilelift_isel::gemm::{Choice, Product, rank};
use tilelift_isel::lane::{LaneOptions, interpret};
use tilelift_isel::reason::Unsupported;
use tilelift_isel::{LowerError, LowerOptions, Lowered, ScheduleKind, Specialised, lower, prove};
use tilelift_kernels::explicit::{Ring, RingGemm, RingGemmCase};
use tilelift_kernels::{Case, Gemm, Size};
use tilelift_nvptx::{EmitOptions, emit, sm_90a};

fn product(shape: [u32; 3], elem: Scalar, trans_b: bool) -> Product {
    Product { batch: 1, shape, elem, out: elem, trans: (false, trans_b) }
}

fn lowered(what: &str, kernel: &Kernel, options: &LowerOptions) -> Lowered {
    let verified = verify(kernel).unwrap_or_else(|e| panic!("{what}:\n{}", e.pretty(kernel)));
    lower(&verified, &sm_90a(), options).unwrap_or_else(|e| panic!("{what}: {e}"))
}

/// A product as a choice of the model runs it; none where what leaves by lanes needs room beside the slots.
fn automatic(p: &Product, c: &Choice) -> Option<Lowered> {
    let ([m, n, k], [bm, bn, bk]) = (p.shape, c.tile);
    let config = Gemm { group: c.group, ..Gemm::new(p.elem).transposed(p.trans.0, p.trans.1).tile(bm, bn, bk).for_shape(m, n, k) };
    let (consumers, consumer_sets, stages) = (Some(c.consumers), Some(c.consumer_sets), Some(c.stages));
    let schedule = Some(ScheduleKind::Specialised);
    let options = LowerOptions { consumers, consumer_sets, stages, schedule, ..LowerOptions::default() };
    let kernel = config.build().unwrap();
    lower(&verify(&kernel).unwrap(), &sm_90a(), &options).ok()
}

/// The same by hand, with the numbers of that plan.
fn by_hand(p: &Product, c: &Choice, s: &Specialised) -> Lowered {
    let Specialised { consumers, consumer_sets, depth: slots, staging_parts: parts, registers, .. } = *s;
    let ring = Ring { tile: c.tile, group: c.group, slots, consumers, consumer_sets, parts, registers };
    let [m, n, k] = p.shape;
    let kernel = RingGemm::new(p.elem, ring).transposed(p.trans.1).for_shape(m, n, k).build().unwrap();
    lowered(&ring.to_string(), &kernel, &LowerOptions::default())
}

/// An instruction without the numbers of registers and labels, which are names; immediates and offsets stay.
fn bare(line: &str) -> String {
    let (mut out, mut named) = (String::new(), false);
    for c in line.chars() {
        named = matches!(c, '%' | '$') || named && c.is_ascii_alphanumeric();
        if !(named && c.is_ascii_digit()) {
            out.push(c);
        }
    }
    out
}

/// What a text does, role by role: how often each instruction stands there, and those of asynchronous units and barriers in their order. A role
/// begins where it gets its registers, or where warps branch.
fn roles(l: &Lowered) -> Vec<(BTreeMap<String, usize>, Vec<String>)> {
    const ORDERED: [&str; 9] =
        ["mbarrier", "wgmma", "cp.async.bulk", "bar.", "setmaxnreg", "fence.", "griddepcontrol", "stmatrix", "elect."];
    let text = emit(&l.program, &sm_90a(), &EmitOptions::default()).unwrap().text;
    let mut found = vec![(BTreeMap::new(), Vec::new())];
    for line in text.lines().map(str::trim).filter(|line| line.ends_with(';') && !line.starts_with('.')) {
        let op = line.split(' ').find(|word| !word.starts_with('@')).unwrap_or(line);
        if op.starts_with("setmaxnreg") || (op == "bra.uni" && line.starts_with('@')) {
            found.push((BTreeMap::new(), Vec::new()));
        }
        let (counts, order) = found.last_mut().expect("one at least");
        *counts.entry(bare(line)).or_insert(0) += 1;
        if ORDERED.iter().any(|o| op.starts_with(o)) {
            order.push(bare(line));
        }
    }
    found
}

/// True for a choice that is one launch of whole tiles, operands in their order.
fn whole(c: &Choice) -> bool {
    !c.swapped && !c.sums_apart()
}

fn same(p: &Product, c: &Choice) -> bool {
    let Some(auto) = automatic(p, c) else { return false };
    let Some(s) = auto.plan.specialised().filter(|s| s.persistent && s.stores.len() == 1) else { return false };
    let hand = by_hand(p, c, s);
    let (want, got) = (roles(&auto), roles(&hand));
    assert_eq!(got.len(), want.len(), "{p:?} {c}");
    for (n, (got, want)) in got.iter().zip(&want).enumerate() {
        assert_eq!(got, want, "{p:?} {c}: part {n}");
    }
    let launch = |l: &Lowered| (l.program.threads(), l.program.shared_bytes, l.program.params.clone());
    assert_eq!(launch(&hand), launch(&auto), "{p:?} {c}");
    let states = |l: &Lowered| prove(&l.program, &sm_90a()).unwrap().states;
    assert!(states(&hand) <= states(&auto), "{p:?} {c}");
    true
}

#[test]
fn with_the_numbers_of_the_automatic_choice_it_is_the_automatic_program() {
    for k in [1024, 8192] {
        let p = product([8192, 8192, k], Scalar::BF16, true);
        let best = rank(&sm_90a(), &p)[0].choice;
        assert!(whole(&best) && same(&p, &best), "{best}");
    }
}

#[test]
fn so_it_is_with_those_of_every_choice_of_whole_tiles() {
    let mut seen = [0; 2];
    for (shape, elem, trans_b) in [([4096, 4096, 4096], Scalar::F16, false), ([1024, 512, 8192], Scalar::BF16, true)] {
        let p = product(shape, elem, trans_b);
        for c in rank(&sm_90a(), &p).into_iter().map(|r| r.choice).filter(whole) {
            seen[usize::from(c.consumer_sets > 1)] += usize::from(same(&p, &c));
        }
    }
    assert!(seen[0] > 20 && seen[1] > 10, "{seen:?}");
}

#[test]
fn other_numbers_are_another_program() {
    let p = product([8192, 8192, 1024], Scalar::BF16, true);
    let text = |ring| {
        let kernel = RingGemm::new(p.elem, ring).transposed(true).for_shape(8192, 8192, 1024).build().unwrap();
        roles(&lowered("ring", &kernel, &LowerOptions::default()))
    };
    let usual = Ring::PING_PONG;
    let others = [
        Ring { slots: 3, ..usual },
        Ring { group: 16, ..usual },
        Ring { parts: 1, slots: 3, ..usual },
        Ring { registers: Some([24, 240]), ..usual },
        Ring { tile: [128, 128, 64], ..usual },
        Ring::COOPERATIVE,
    ];
    let mut seen = vec![text(usual)];
    for ring in others {
        let other = text(ring);
        assert!(!seen.contains(&other), "{ring}");
        seen.push(other);
    }
}

/// Sets that share a tile, ping-pong, or do both, three of them, too; parts of what leaves; rings of any length; registers as they come.
const RINGS: [Ring; 7] = [
    Ring { tile: [64, 64, 64], group: 8, slots: 2, consumers: 1, consumer_sets: 1, parts: 1, registers: None },
    Ring { tile: [128, 64, 64], group: 1, slots: 2, consumers: 2, consumer_sets: 1, parts: 1, registers: None },
    Ring { tile: [256, 64, 32], group: 3, slots: 5, consumers: 2, consumer_sets: 1, parts: 2, registers: Some([40, 232]) },
    Ring { tile: [64, 64, 64], group: 2, slots: 4, consumers: 1, consumer_sets: 2, parts: 1, registers: Some([24, 240]) },
    Ring { tile: [128, 64, 64], group: 8, slots: 3, consumers: 1, consumer_sets: 2, parts: 2, registers: Some([40, 232]) },
    Ring { tile: [128, 64, 64], group: 8, slots: 3, consumers: 2, consumer_sets: 2, parts: 1, registers: None },
    Ring { tile: [64, 64, 64], group: 8, slots: 3, consumers: 1, consumer_sets: 3, parts: 1, registers: None },
];

#[test]
fn any_numbers_are_right_at_odd_sizes() {
    for ring in RINGS {
        for (trans_b, [m, n, k]) in [(true, [197, 136, 200]), (false, [65, 72, 8]), (true, [130, 264, 72]), (false, [70, 72, 0])] {
            let config = RingGemm::new(Scalar::BF16, ring).transposed(trans_b).for_shape(m, n, k);
            let case = Case {
                name: format!("{ring} {m}x{n}x{k}"),
                row: 18,
                size: Size::Small,
                workload: Box::new(RingGemmCase { config, m, n, k }),
            };
            let (name, kernel) = (&case.name, case.build().unwrap());
            let l = lowered(name, &kernel, &LowerOptions::default());
            let judged = |how: &str, run: &dyn Fn(&mut Memory)| {
                let tensors = case.make_tensors();
                let mut memory = case.memory(&tensors);
                run(&mut memory);
                let verdict = case.judge(&tensors, &memory, None).unwrap();
                assert!(verdict.pass(), "{name}: {how}: {verdict}");
            };
            judged("interpreter", &|memory| {
                let verified = verify(&kernel).unwrap();
                on_tiles(&verified, case.grid(), &case.arguments(), memory, &Options::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
            });
            // Workers take many tiles each, few, or none.
            for workers in [1, 2, 7] {
                judged("lanes", &|memory| {
                    let options = LaneOptions { workers, ..LaneOptions::default() };
                    interpret(&l.program, &sm_90a(), case.grid(), &case.arguments(), memory, &options)
                        .unwrap_or_else(|e| panic!("{name}: {e}"));
                });
                simulate_text(&case, &l.program, [workers, 1, 1], schedule(u64::from(workers)), str::to_owned)
                    .unwrap_or_else(|e| panic!("{name}: {workers}: {e}"));
            }
        }
    }
}

#[test]
fn numbers_that_no_ring_has_are_refused() {
    let built = |ring| RingGemm::new(Scalar::BF16, ring).for_shape(64, 64, 64).build();
    let usual = Ring::PING_PONG;
    let none = [
        Ring { slots: 0, ..usual },
        Ring { consumers: 0, ..usual },
        Ring { consumer_sets: 0, ..usual },
        Ring { parts: 0, ..usual },
        Ring { parts: 3, ..usual },
        Ring { group: 0, ..usual },
        Ring { tile: [0, 192, 64], ..usual },
        Ring { tile: [128, 192, 0], ..usual },
        Ring { tile: [u32::MAX; 3], parts: u32::MAX, ..usual },
        Ring { consumer_sets: u32::MAX, ..usual },
        Ring { group: u32::MAX, ..usual },
    ];
    for ring in none {
        let refused = built(ring).map_err(|_| ()).and_then(|k| verify(&k).map(drop).map_err(|_| ()));
        assert!(refused.is_err(), "{ring}");
    }
    // One slot is given back only when the next step's product has begun, which waits for it: the proof sees that.
    let one = built(Ring { slots: 1, ..usual }).unwrap();
    let why = lower(&verify(&one).unwrap(), &sm_90a(), &LowerOptions::default()).unwrap_err();
    let unproved = matches!(&why, LowerError::Unsupported { why, .. } if matches!(**why, Unsupported::Unproved { tasks: true, .. }));
    assert!(unproved, "{why}");
}
