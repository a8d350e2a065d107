//! Kernels with explicit control: proved, then through lane interpreter, simulator and assembler.

use crate::common::assembler::{nothing_to_say, together};
use crate::common::launch::{schedule, simulate_text};
use tilelift_ir::text::parse;
use tilelift_ir::verify::verify;
use tilelift_isel::lane::{Block, Inst, LaneOptions, Program, Unit, interpret};
use tilelift_isel::{LowerOptions, ProofScope, lower, prove};
use tilelift_kernels::{Size, explicit};
use tilelift_nvptx::{EmitOptions, emit, sm_90a};

#[test]
fn small_cases_are_right_on_lanes_and_in_text() {
    for case in explicit::cases().iter().filter(|c| c.size == Size::Small) {
        let kernel = case.build().unwrap();
        let options = LowerOptions::default();
        let l = lower(&verify(&kernel).unwrap(), &sm_90a(), &options).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let tensors = case.make_tensors();
        let mut memory = case.memory(&tensors);
        interpret(&l.program, &sm_90a(), case.grid(), &case.arguments(), &mut memory, &LaneOptions::default())
            .unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let verdict = case.judge(&tensors, &memory, None).unwrap();
        assert!(verdict.pass(), "{}: {verdict}", case.name);
        // Fewer instances than grid positions, where they may run several.
        let grid = if l.program.persistent() { [2, 1, 1] } else { case.grid() };
        for seed in 0..2 {
            simulate_text(case, &l.program, grid, schedule(seed), str::to_owned).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        }
    }
}

#[test]
fn the_assembler_has_nothing_to_say() {
    let _texts = together();
    for case in &explicit::cases() {
        let kernel = case.build().unwrap();
        let options = LowerOptions { proof: ProofScope::Nothing, ..LowerOptions::default() };
        let l = lower(&verify(&kernel).unwrap(), &sm_90a(), &options).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        let text = emit(&l.program, &sm_90a(), &EmitOptions::default()).unwrap_or_else(|e| panic!("{}: {e}", case.name)).text;
        nothing_to_say(&case.name, &text, "sm_90a");
    }
}

/// Takes away the `nth` instruction of a block that is asked for; true if there was one.
fn without(block: &mut Block, is: &dyn Fn(&Inst) -> bool, left: &mut usize) -> bool {
    for i in 0..block.len() {
        if is(&block[i]) {
            if *left == 0 {
                block.remove(i);
                return true;
            }
            *left -= 1;
        }
        let found = match &mut block[i] {
            Inst::For(l) => without(&mut l.body, is, left),
            Inst::If(c) => without(&mut c.then, is, left) || without(&mut c.otherwise, is, left),
            Inst::Roles(r) => r.roles.iter_mut().any(|r| without(&mut r.body, is, left)),
            _ => false,
        };
        if found {
            return true;
        }
    }
    false
}

/// Takes away one after the other of what is asked for: the proof misses each. How many there were.
fn each_is_missed(name: &str, good: &Program, what: &str, is: &dyn Fn(&Inst) -> bool) -> usize {
    let mut planted = 0;
    loop {
        let (mut bad, mut left) = (good.clone(), planted);
        if !without(&mut bad.body, is, &mut left) {
            return planted;
        }
        planted += 1;
        assert!(prove(&bad, &sm_90a()).is_err(), "{name}: proved without {what} {planted}\n{bad}");
    }
}

#[test]
fn what_is_left_out_is_missed_by_the_proof() {
    type Kind = (&'static str, fn(&Unit) -> bool, usize);
    let kinds: [Kind; 6] = [
        ("wait", |u| matches!(u, Unit::Wait { .. }), 2),
        ("arrival", |u| matches!(u, Unit::Arrive { .. }), 2),
        ("bytes", |u| matches!(u, Unit::ArriveExpect { .. }), 1),
        ("copy", |u| matches!(u, Unit::BulkLoad { .. }), 1),
        ("wait for products", |u| matches!(u, Unit::WaitMatrices { .. }), 2),
        ("mbarrier", |u| matches!(u, Unit::InitBarrier { .. }), 2),
    ];
    for name in ["doubling_1000", "ring_gemm_cooperative_nt_bf16_300x200x200", "ring_gemm_ping_pong_nn_f16_128x136x64"] {
        let Some(case) = explicit::cases().into_iter().find(|c| c.name == name) else { panic!("{name} is gone") };
        let kernel = case.build().unwrap();
        let good = lower(&verify(&kernel).unwrap(), &sm_90a(), &LowerOptions::default()).unwrap().program;
        for (what, is, least) in &kinds {
            let planted = each_is_missed(name, &good, what, &|i: &Inst| matches!(i, Inst::Unit(u) if is(u)));
            assert!(planted >= *least || name.starts_with("doubling"), "{name}: {planted} times {what}");
        }
    }
}

#[test]
fn copies_arrive_when_all_lanes_have_said_so() {
    let file = parse(include_str!("../../../../tests/tile/explicit/copies_arrive.tile")).unwrap();
    let good = lower(&verify(&file.kernels[0]).unwrap(), &sm_90a(), &LowerOptions::default()).unwrap().program;
    let role = |i: &Inst| matches!(i, Inst::Unit(u) if matches!(**u, Unit::ArriveCopies { .. }));
    assert_eq!(each_is_missed("handed", &good, "arrival of copies", &role), 1);
    let arrival = |i: &Inst| matches!(i, Inst::Unit(u) if matches!(**u, Unit::Arrive { .. }));
    assert_eq!(each_is_missed("handed", &good, "arrival", &arrival), 2);
    // The lanes of the producer meet between what each says and who arrives for all.
    let mut bad = good.clone();
    let roles = bad.body.iter_mut().find_map(|i| if let Inst::Roles(r) = i { Some(r) } else { None });
    let producer = roles.and_then(|r| r.roles.first_mut()).unwrap_or_else(|| panic!("no roles\n{good}"));
    assert!(without(&mut producer.body, &|i| matches!(i, Inst::Barrier), &mut 0), "{good}");
    assert!(prove(&bad, &sm_90a()).is_err(), "proved though lanes do not meet\n{bad}");
}
