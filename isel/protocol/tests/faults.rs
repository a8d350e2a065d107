//! The proof on a ring written by hand, and on the same ring with one mistake: each must be found, and named where it is.

mod ring;

use ring::{BOX, GOOD, PLAIN, Ring, machine, program};
use std::sync::Arc;
use tilelift_lane::testing::Asm;
use tilelift_lane::{Inst, LTy, Place, Program, Role, Roles, TurnEnd, Unit, Vals, While};
use tilelift_protocol::{check_products, prove};

#[test]
fn good_rings_of_every_depth_are_proved() {
    for depth in 1..=8 {
        for swapped in [false, true] {
            let proof = prove(&program(&Ring { depth, swapped, ..PLAIN }), &machine()).unwrap_or_else(|e| panic!("{depth}: {e}"));
            assert!(proof.states > 0 && proof.states < 40 * (depth * depth) as usize, "{depth}: {}", proof.states);
        }
    }
}

#[test]
fn planted_faults_are_refused_and_named() {
    let cases: [(&str, Ring, &str, &str); 14] = [
        ("no arrival at empty", Ring { arrive_empty: false, ..PLAIN }, "wait for ever", "wait"),
        ("no arrival at full", Ring { arrive_full: false, ..PLAIN }, "wait for ever", "wait"),
        ("too few bytes", Ring { bytes: BOX - 16, ..PLAIN }, "wait for ever", "wait"),
        ("too many bytes", Ring { bytes: BOX + 16, ..PLAIN }, "wait for ever", "wait"),
        ("full counts two", Ring { full_count: 2, ..PLAIN }, "wait for ever", "wait"),
        ("empty counts two", Ring { empty_count: 2, ..PLAIN }, "wait for ever", "wait"),
        ("all lanes arrive", Ring { guarded: false, ..PLAIN }, "128 arrivals where a phase expects 1", "arrive"),
        ("parity not inverted", Ring { producer_inverts: false, ..PLAIN }, "wait for ever", "wait"),
        ("no wait for empty", Ring { wait_empty: false, ..PLAIN }, "in front of its own has ended", "arrive"),
        ("no wait for full", Ring { wait_full: false, ..PLAIN }, "read before what was written is known", "group0"),
        ("released too early", Ring { pending: 1, ..PLAIN }, "may still be read", "bulk_load"),
        ("parity never flips", Ring { flips: false, ..PLAIN }, "", ""),
        ("other trip counts", Ring { same_bounds: false, ..PLAIN }, "", ""),
        ("the last slot is kept", Ring { last_release: false, ..GOOD }, "wait for ever", "wait"),
    ];
    for (name, ring, mbarriers, site) in cases {
        for depth in [1, 2, 3, 5] {
            let e = match prove(&program(&Ring { depth, ..ring.clone() }), &machine()) {
                Ok(_) => panic!("{name}, {depth} slots: nothing is found"),
                Err(e) => e.to_string(),
            };
            // A ring of one slot shows some faults elsewhere first.
            assert!(depth == 1 || (e.contains(mbarriers) && e.contains(site)), "{name}, {depth} slots: {e}");
        }
    }
}

/// What lanes touch in a loop without a count is followed round by round: what others copy is not theirs to write.
#[test]
fn lanes_do_not_write_into_a_ring_in_a_loop_without_a_count() {
    let mut p = program(&PLAIN);
    let mut constant = |ty| {
        let dst = p.vals.push(ty);
        (dst, Inst::Const { dst, bits: 0 })
    };
    let ((condition, test), (word, zero)) = (constant(LTy::I1), constant(LTy::I32));
    let ring = p.body.iter().find_map(|i| if let Inst::SharedAddr { dst, .. } = i { Some(*dst) } else { None }).expect("the ring");
    let read = p.vals.push(LTy::I32);
    let store = Inst::StoreShared { srcs: Vals::from_slice(&[word]), addr: ring, offset: 0, guard: None };
    let load = Inst::LoadShared { dsts: Vals::from_slice(&[read]), addr: ring, offset: 0 };
    let Some(Inst::Roles(roles)) = p.body.last_mut() else { panic!("the program ends with its roles") };
    let l = While { carried: Vec::new(), test: vec![test], condition, body: vec![zero, store, Inst::Barrier, load, Inst::Barrier] };
    roles.roles[1].body.insert(0, Inst::While(Box::new(l)));
    let e = prove(&p, &machine()).expect_err("a copy may be on its way to the slot").to_string();
    assert!(e.contains("local memory is written by a unit"), "{e}");
}

/// A loop without a count is not followed, so what uses mbarriers in one is refused, however harmless.
#[test]
fn barrier_words_in_a_loop_without_a_count_are_refused() {
    let mut p = program(&PLAIN);
    let mut constant = |ty| {
        let dst = p.vals.push(ty);
        (dst, Inst::Const { dst, bits: 0 })
    };
    let ((condition, test), (addr, at), (parity, zero)) = (constant(LTy::I1), constant(LTy::I32), constant(LTy::I32));
    let wait = Inst::Unit(Arc::new(Unit::Wait { barrier: Place { addr, offset: 0 }, parity }));
    let never = While { carried: Vec::new(), test: vec![test], condition, body: vec![at, zero, wait] };
    let Some(Inst::Roles(roles)) = p.body.last_mut() else { panic!("the program ends with its roles") };
    roles.roles[0].body.push(Inst::While(Box::new(never)));
    let e = prove(&p, &machine()).expect_err("a loop that the proof does not follow").to_string();
    assert!(e.contains("loop without a count"), "{e}");
}

/// One role of two warpgroups that does so.
fn in_turns(does: &[Inst]) -> Program {
    let mut a = Asm::new(8);
    let body = does.to_vec();
    let role = Role { name: "all".into(), first: 0, warps: 8, idle: 0, replicas: 1, single: false, registers: None, body };
    a.push(Inst::Roles(Box::new(Roles { roles: vec![role] })));
    tilelift_lane::verify(&a.p, &machine()).unwrap_or_else(|e| panic!("{e}\n{}", a.p));
    a.p
}

/// A role has one set of turns.
#[test]
fn turns_of_a_role_are_at_the_same_barriers() {
    let mut p = in_turns(&[]);
    let turn = |id, end| Inst::Unit(Arc::new(Unit::Turn { id, groups: 2, end }));
    let Some(Inst::Roles(roles)) = p.body.last_mut() else { panic!("the program ends with its role") };
    roles.roles[0].body = vec![turn(0, TurnEnd::First), turn(2, TurnEnd::Last)];
    assert!(tilelift_lane::verify(&p, &machine()).is_err_and(|e| e.to_string().contains("turns at several barriers")));
}

/// Turns of warpgroups: the whole proof and the look at each role by itself refuse what would wait for ever.
#[test]
fn turns_begin_and_end_by_turns() {
    let turn = |end| Inst::Unit(Arc::new(Unit::Turn { id: 0, groups: 2, end }));
    let [first, wait, pass, last] = [TurnEnd::First, TurnEnd::Wait, TurnEnd::Pass, TurnEnd::Last].map(turn);
    let good = [
        vec![first.clone(), last.clone()],
        vec![first.clone(), pass.clone(), Inst::Barrier, wait.clone(), pass.clone(), wait.clone(), last.clone()],
    ];
    for does in &good {
        let p = in_turns(does);
        prove(&p, &machine()).unwrap_or_else(|e| panic!("{e}\n{p}"));
        check_products(&p).unwrap_or_else(|e| panic!("{e}\n{p}"));
    }
    let bad = [
        (vec![first.clone(), Inst::Barrier, last.clone()], "all warpgroups meet while one has its turn"),
        (vec![first.clone(), pass, wait.clone(), Inst::Barrier, last.clone()], "all warpgroups meet while one has its turn"),
        (vec![first, wait.clone(), last.clone()], "do not begin and end by turns"),
        (vec![wait, last], "do not begin and end by turns"),
    ];
    for (does, says) in &bad {
        let p = in_turns(does);
        let quick = check_products(&p).expect_err(says).to_string();
        assert!(quick.contains(says), "{quick}");
        assert!(prove(&p, &machine()).is_err(), "{says}\n{p}");
    }
}
