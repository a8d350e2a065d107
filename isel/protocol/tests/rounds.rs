//! The proof of loops that are known to go round often: as often as they do, whoever writes first steps in front of a loop; with one mistake, refused.

mod ring;

use ring::{GOOD, PLAIN, Ring, machine, program};
use tilelift_lane::Inst;
use tilelift_protocol::{Proof, ProtocolError, prove, prove_by_all_states};

const ROUNDS: [i64; 5] = [64, 1024, 1500, 100_000, i32::MAX as i64 - 8];

fn known(rounds: i64, depth: u32) -> Ring {
    Ring { depth, rounds: Some(rounds), peeled: true, ..PLAIN }
}

fn proved(ring: &Ring) -> Result<Proof, ProtocolError> {
    let p = program(ring);
    let proof = prove(&p, &machine());
    // Every state by itself says the same.
    if ring.rounds <= Some(1024) && ring.depth <= 3 {
        assert_eq!(proof.is_ok(), prove_by_all_states(&p, &machine()).is_ok(), "{p}");
    }
    proof
}

#[test]
fn first_steps_in_front_of_loops_of_many_known_rounds_are_proved() {
    for rounds in ROUNDS {
        for depth in [1, 2, 3, 4, 5, 7, 8] {
            let proof = proved(&known(rounds, depth)).unwrap_or_else(|e| panic!("{rounds} rounds, {depth} slots: {e}"));
            assert!(proof.steps < 200_000, "{rounds} rounds, {depth} slots: {} steps", proof.steps);
        }
    }
}

/// A slot that is given back a step later, loops around the loop that are known as well, and two of them.
#[test]
fn loops_of_many_known_rounds_stand_in_others() {
    for rounds in ROUNDS {
        for depth in [2, 3, 5] {
            for tiles in [None, Some(3), Some(1000), Some(100_000)] {
                for ring in [GOOD, PLAIN] {
                    let ring = Ring { depth, rounds: Some(rounds), peeled: true, tiles, ..ring };
                    proved(&ring).unwrap_or_else(|e| panic!("{rounds} rounds, {depth} slots, {tiles:?} tiles: {e}"));
                }
            }
        }
    }
}

#[test]
fn planted_faults_of_late_rounds_are_refused() {
    for rounds in ROUNDS {
        for depth in [1, 3, 4] {
            let good = known(rounds, depth);
            let last = rounds - 1;
            let cases = [
                ("the last slot is not given back", Ring { keeps: Some(last), ..good.clone() }),
                ("a slot is not given back in the middle", Ring { keeps: Some(rounds / 2), ..good.clone() }),
                ("the parity changes in the last round", Ring { other_parity: Some(last), ..good.clone() }),
                ("the parity changes late", Ring { other_parity: Some(rounds * 9 / 10), ..good.clone() }),
                ("the consumer takes a step more", Ring { more: 1, ..good.clone() }),
                ("the consumer takes a step less", Ring { more: -1, ..good.clone() }),
                ("the consumer goes round the ring once more", Ring { more: i64::from(depth), ..good.clone() }),
                ("two steps less for each tile", Ring { more: -2, tiles: Some(1000), ..good.clone() }),
                ("the last slot is kept", Ring { lag: 1, pending: 1, last_release: false, ..good.clone() }),
            ];
            for (name, ring) in cases {
                assert!(proved(&ring).is_err(), "{rounds} rounds, {depth} slots: {name}: nothing is found\n{}", program(&ring));
            }
        }
    }
}

/// What differs from round to round is not passed over: a wait that is left out in the first rounds of a hundred thousand.
#[test]
fn first_rounds_that_differ_are_followed() {
    let mut p = program(&known(100_000, 3));
    prove(&p, &machine()).unwrap_or_else(|e| panic!("{e}"));
    // Without the wait of the step in front of the loop.
    let Some(Inst::Roles(roles)) = p.body.last_mut() else { panic!("the program ends with its roles") };
    let consumer = roles.roles.last_mut().expect("a consumer");
    let tiles = consumer.body.iter_mut().find_map(|i| if let Inst::For(l) = i { Some(l) } else { None }).expect("its tiles");
    let wait =
        tiles.body.iter().position(|i| matches!(i, Inst::Unit(u) if matches!(**u, tilelift_lane::Unit::Wait { .. }))).expect("a wait");
    tiles.body.remove(wait);
    assert!(prove(&p, &machine()).is_err(), "{p}");
}
