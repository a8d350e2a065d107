//! Choices that roles take alike, by what is the same for all of them: proved if each role asks the same in the same place, and refused where one
//! asks something else, asks more often, asks not at all, or waits in the other arm.

use tilelift_ir::verify::verify;
use tilelift_isel::lane::{Block, Inst, Program};
use tilelift_isel::{LowerOptions, ProofScope, lower, prove};
use tilelift_nvptx::sm_90a;

/// A producer and a consumer of one slot; each goes round in a choice.
fn program(producer: &str, consumer: &str) -> String {
    format!(
        "kernel @k(v0: view<f32, [?, ?%64]>, v1: view<f32, [?, ?%64]>, v2: i32, v3: view<i32, [?]>, v4: i32) {{
    v5 = local_alloc : shared<2x1x32xf32>
    v6 = barrier_alloc 1 : barrier<2>
    v7 = barrier_alloc 1 : barrier<2>
    v8 = dim v0, 0
    tasks {{
        task producer warps 1 {{
{producer}
            yield
        }}
        task consumer warps 1 {{
{consumer}
            yield
        }}
    }}
}}
"
    )
}

/// The copies of a run of steps; values count from `n`.
fn copies(n: u32) -> String {
    let v = |k: u32| format!("v{}", n + k);
    format!(
        "for {0} in 0..v8 step 1 {{
             {1} = rem {0}, 2
             {2} = div {0}, 2
             {3} = add {2}, 1
             {4} = barrier_index v7, {1}
             barrier_wait {4}, {3}
             {5} = barrier_index v6, {1}
             barrier_expect {5}, 128
             {6} = local_index v5, {1}
             async_load v0[{0}, 0], {6}, {5}
             yield
         }}",
        v(0),
        v(1),
        v(2),
        v(3),
        v(4),
        v(5),
        v(6)
    )
}

/// What reads them.
fn reads(n: u32) -> String {
    let v = |k: u32| format!("v{}", n + k);
    format!(
        "for {0} in 0..v8 step 1 {{
             {1} = rem {0}, 2
             {2} = div {0}, 2
             {3} = barrier_index v6, {1}
             barrier_wait {3}, {2}
             {4} = local_index v5, {1}
             {5} = local_load {4}
             {6} = barrier_index v7, {1}
             barrier_arrive {6}
             store v1[{0}, 0], {5}
             yield
         }}",
        v(0),
        v(1),
        v(2),
        v(3),
        v(4),
        v(5),
        v(6)
    )
}

/// A choice by whether a number is less than another one.
fn choice(n: u32, condition: &str, then: &str, otherwise: &str) -> String {
    format!("v{n} = {condition}\nif v{n} {{\n{then}\nyield\n}} else {{\n{otherwise}\nyield\n}}")
}

fn lowered(text: &str) -> Program {
    let file = tilelift_ir::text::parse(text).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let kernel = verify(&file.kernels[0]).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let options = LowerOptions { proof: ProofScope::Nothing, ..LowerOptions::default() };
    lower(&kernel, &sm_90a(), &options).unwrap_or_else(|e| panic!("{e}\n{text}")).program
}

fn is_proved(producer: &str, consumer: &str) -> bool {
    let text = program(producer, consumer);
    prove(&lowered(&text), &sm_90a()).is_ok()
}

/// The condition that is read from memory.
fn loaded(n: u32) -> String {
    format!("v{n} = load v3[v2] : tile<1xi32>\nv{} = reshape v{n} : i32\n", n + 1)
}

#[test]
fn roles_that_ask_the_same_go_the_same_way() {
    for condition in ["cmp lt v2, 7", "cmp ne v4, v2"] {
        assert!(is_proved(&choice(10, condition, &copies(20), ""), &choice(110, condition, &reads(120), "")), "{condition}");
        // It may be the arm behind `else`, or both.
        assert!(is_proved(&choice(10, condition, "", &copies(20)), &choice(110, condition, "", &reads(120))));
        assert!(is_proved(&choice(10, condition, &copies(20), &copies(40)), &choice(110, condition, &reads(120), &reads(140))));
    }
    let [asks, answers] = [10, 110].map(|n| format!("cmp lt v{}, 7", n + 3));
    let [p, c] = [(12, 10, asks, copies(20)), (112, 110, answers, reads(120))].map(|(m, n, k, body)| loaded(m) + &choice(n, &k, &body, ""));
    assert!(is_proved(&p, &c));
}

#[test]
fn roles_that_ask_otherwise_are_refused() {
    let [less, other] = ["cmp lt v2, 7", "cmp lt v4, 7"];
    // Another question, or none.
    assert!(!is_proved(&choice(10, less, &copies(20), ""), &choice(110, other, &reads(120), "")));
    assert!(!is_proved(&choice(10, less, &copies(20), ""), &choice(110, "cmp le v2, 7", &reads(120), "")));
    assert!(!is_proved(&choice(10, less, &copies(20), ""), &reads(120)));
    assert!(!is_proved(&copies(20), &choice(110, less, &reads(120), "")));
    // The other arm.
    assert!(!is_proved(&choice(10, less, &copies(20), ""), &choice(110, less, "", &reads(120))));
    assert!(!is_proved(&choice(10, less, &copies(20), ""), &choice(110, less, &reads(120), &reads(140))));
    // A question of every step is not one of all of them.
    let every = format!("for v16 in 0..v4 step 1 {{\n{}\nyield\n}}", choice(10, less, &copies(20), ""));
    assert!(!is_proved(&every, &choice(110, less, &reads(120), "")));
}

#[test]
fn what_is_read_where_somebody_writes_is_no_answer() {
    let body = |n: u32, view: &str| {
        format!("v{n} = load {view} : tile<1x1xf32>\nv{} = reshape v{n} : f32\nv{} = cast v{} : i32\n", n + 1, n + 2, n + 1)
    };
    let [p, c] = [(12, 10, copies(20)), (112, 110, reads(120))]
        .map(|(m, n, what)| body(m, "v1[0, 0]") + &choice(n, &format!("cmp lt v{}, 7", m + 2), &what, ""));
    assert!(!is_proved(&p, &c), "the consumer writes v1");
    let [p, c] = [(12, 10, copies(20)), (112, 110, reads(120))]
        .map(|(m, n, what)| body(m, "v0[0, 0]") + &choice(n, &format!("cmp lt v{}, 7", m + 2), &what, ""));
    assert!(is_proved(&p, &c));
}

/// A producer that copies a row in the iterations in which `asks` says so, and a consumer; the steps that were taken are counted and carried.
fn counted(skips: bool) -> (String, String) {
    let role = |n: u32, what: &str| {
        let asked = format!(
            "v{0} = load v3[v{1}] : tile<1xi32>\nv{2} = reshape v{0} : i32\nv{3} = cmp lt v{2}, 7\nv{4} = if v{3} {{\n{what}\nv{5} = add v{6}, 1\nyield v{5}\n}} else {{\nyield v{6}\n}}",
            n + 3,
            n + 1,
            n + 4,
            n + 5,
            n + 6,
            n + 7,
            n + 2
        );
        let first = format!(
            "v{0} = cmp ne v{1}, 0\nv{2} = if v{0} {{\n{asked}\nyield v{3}\n}} else {{\nyield v{4}\n}}",
            n + 8,
            n + 1,
            n + 9,
            n + 6,
            n + 2
        );
        let (body, done) = if skips && n < 100 { (first, n + 9) } else { (asked, n + 6) };
        format!("v{n} = for v{} in 0..v4 step 1 carry v{} = 0 {{\n{body}\nyield v{done}\n}}", n + 1, n + 2)
    };
    let copy = "v30 = rem v12, 2\nv31 = div v12, 2\nv32 = add v31, 1\nv33 = barrier_index v7, v30\nbarrier_wait v33, v32\nv34 = barrier_index v6, v30\n\
                barrier_expect v34, 128\nv35 = local_index v5, v30\nasync_load v0[v11, 0], v35, v34";
    let read = "v130 = rem v112, 2\nv131 = div v112, 2\nv132 = barrier_index v6, v130\nbarrier_wait v132, v131\nv133 = local_index v5, v130\n\
                v134 = local_load v133\nv135 = barrier_index v7, v130\nbarrier_arrive v135\nstore v1[v111, 0], v134";
    (role(10, copy), role(110, read))
}

#[test]
fn a_question_that_one_role_leaves_out_is_not_the_next_one() {
    let (producer, consumer) = counted(false);
    assert!(is_proved(&producer, &consumer));
    let (producer, consumer) = counted(true);
    assert!(!is_proved(&producer, &consumer));
}

/// Takes away the `nth` meeting of a role's warps in a choice; true if there was one.
fn without_meeting(block: &mut Block, inside: bool, nth: &mut usize) -> bool {
    for i in 0..block.len() {
        if inside && matches!(block[i], Inst::Barrier) {
            if *nth == 0 {
                block.remove(i);
                return true;
            }
            *nth -= 1;
        }
        let found = match &mut block[i] {
            Inst::For(l) => without_meeting(&mut l.body, inside, nth),
            Inst::If(c) => {
                // The choice of a result's tensor is in a choice of nothing.
                let last = c.results.is_empty();
                without_meeting(&mut c.then, last, nth) || without_meeting(&mut c.otherwise, last, nth)
            }
            Inst::Roles(r) => r.roles.iter_mut().any(|r| without_meeting(&mut r.body, inside, nth)),
            _ => false,
        };
        if found {
            return true;
        }
    }
    false
}

#[test]
fn warpgroups_that_meet_in_either_arm_are_followed_there() {
    let file = include_str!("../../../../tests/tile/loops/stored_in_either_arm.tile");
    let good = lowered(file);
    prove(&good, &sm_90a()).unwrap_or_else(|e| panic!("{e}"));
    let refused = |nth: usize| {
        let mut bad = good.clone();
        without_meeting(&mut bad.body, false, &mut { nth }).then(|| prove(&bad, &sm_90a()).is_err())
    };
    let all: Vec<bool> = (0..).map_while(refused).collect();
    // In each arm in front of what lanes write, and behind it.
    assert_eq!(all, [true; 4]);
}
