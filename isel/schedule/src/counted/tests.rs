use super::{counted, not_counted};
use crate::reason::UncountedLoop;
use tilelift_interp::{Arg, Buffer, Fault, InterpError, Memory, Options, ScalarArg, ViewArg, interpret};
use tilelift_ir::{CmpOp, Kernel, Op, Scalar, text, verify};

/// Rounds after which a loop is said not to end.
const ROUNDS: u64 = 40;

/// A kernel whose loop counts from `%first`: it stores how often it goes round, a number made of all counters, and the last one.
fn kernel(test: &str, next: &str) -> Kernel {
    let text = format!(
        "kernel @k(%first: i32, %end: i32, %s: i32, %out: view<i32, [3]>) {{
             %st = maximum %s, 1
             %neg = neg %st
             %yes = cmp lt %s, 2000000000
             %no = cmp gt %s, 2000000000
             %n, %last, %h = while carry %a = 0, %i = %first, %b = 1 {{
                 {test}
                 yield %go
             }} do carry %a1, %at, %b1 {{
                 %a2 = add %a1, 1
                 %m = mul %b1, 31
                 %b2 = add %m, %at
                 {next}
                 yield %a2, %next, %b2
             }}
             %t0 = splat %n : tile<1xi32>
             %t1 = splat %last : tile<1xi32>
             %t2 = splat %h : tile<1xi32>
             store %out[0], %t0
             store %out[1], %t1
             store %out[2], %t2
         }}"
    );
    text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")).kernels.remove(0)
}

/// What a kernel stores, or how it stops.
fn run(k: &Kernel, [first, end, step]: [i32; 3]) -> Result<Vec<f64>, Fault> {
    let mut memory = Memory::new();
    let out = memory.add(Buffer::from_f64(Scalar::I32, [0.0; 3]));
    let number = |x: i32| -> Arg { ScalarArg::int(Scalar::I32, x.into()).into() };
    let args = [number(first), number(end), number(step), ViewArg::dense(out, Scalar::I32, &[3]).into()];
    let options = Options { steps: ROUNDS, instructions: 40 * ROUNDS, ..Options::default() };
    match interpret(&verify(k).expect("well formed"), [1, 1, 1], &args, &mut memory, &options) {
        Ok(_) => Ok(memory.buffers[out].read_f64(Scalar::I32)),
        Err(InterpError::Fault { fault, .. }) => Err(fault),
        Err(e) => panic!("{e}"),
    }
}

/// True if a counter that goes toward its end is a number of its type behind the loop; and so is its way where the index is that.
fn stays(op: CmpOp, [first, end, by]: [i64; 3], is_index: bool) -> bool {
    let inclusive = i64::from(matches!(op, CmpOp::Le | CmpOp::Ge));
    let way = (if by > 0 { end - first } else { first - end }) + inclusive;
    let rounds = if way > 0 { (way - 1) / by.abs() + 1 } else { 0 };
    let fits = |x: i64| i32::try_from(x).is_ok();
    fits(first + rounds * by) && (is_index || way <= 0 || fits(way))
}

#[test]
fn counted_loops_go_round_as_often_or_stop_the_launch() {
    let far = [i32::MIN, i32::MIN + 17, -17, 0, 5, 18, i32::MAX - 17, i32::MAX - 1, i32::MAX];
    let steps = [1, 3, 64, 1 << 30, i32::MAX];
    let (mut equal, mut stopped) = (0, 0);
    for (op, word) in [(CmpOp::Lt, "lt"), (CmpOp::Le, "le"), (CmpOp::Gt, "gt"), (CmpOp::Ge, "ge")] {
        for (next, down) in [("%next = add %at, %st", false), ("%next = sub %at, %st", true), ("%next = add %neg, %at", true)] {
            if matches!(op, CmpOp::Lt | CmpOp::Le) && down || matches!(op, CmpOp::Gt | CmpOp::Ge) && !down {
                continue;
            }
            let was = kernel(&format!("%go = cmp {word} %i, %end"), next);
            let made = counted(&was).unwrap_or_else(|| panic!("{word} {next}"));
            assert!(!made.regions[made.body].insts.iter().any(|&i| made.insts[i].op == Op::While));
            for (first, end, step) in far.iter().flat_map(|&a| far.iter().flat_map(move |&b| steps.map(|s| (a, b, s)))) {
                let by = if down { -step } else { step };
                let (before, now) = (run(&was, [first, end, step]), run(&made, [first, end, step]));
                let at = format!("{first} {word} {end} by {by}: {before:?} {now:?}");
                match (&before, &now) {
                    _ if !stays(op, [first, end, by].map(i64::from), !down) => {
                        assert!(matches!(now, Err(Fault::Assertion { .. })), "{at}");
                        stopped += 1;
                    }
                    (Ok(before), Ok(now)) => {
                        assert_eq!(before, now, "{at}");
                        equal += 1;
                    }
                    // Both are given up.
                    (Err(_), Err(_)) => stopped += 1,
                    (Ok(_), Err(_)) | (Err(_), Ok(_)) => panic!("{at}"),
                }
            }
        }
    }
    assert!(equal > 300 && stopped > 300, "{equal} {stopped}");
}

#[test]
fn bounds_and_multiples_show_that_nothing_wraps() {
    let asserts = |test: &str, next: &str| {
        let made = counted(&kernel(test, next)).unwrap_or_else(|| panic!("{test} {next}"));
        made.insts.values().filter(|d| d.op == Op::Assert).count()
    };
    for (test, next, want) in [
        ("%go = cmp lt %i, %end", "%next = add %at, 1", 0),
        ("%go = cmp lt %i, 1000", "%next = add %at, 64", 0),
        ("%go = cmp lt %i, %end", "%next = add %at, 64", 1),
        ("%go = cmp le %i, 1000", "%next = add %at, 64", 0),
        ("%go = cmp le %i, %end", "%next = add %at, 1", 1),
        ("%go = cmp lt %i, 1000", "%next = add %at, %st", 1),
        ("%w = minimum %end, 1000\n%go = cmp lt %i, %w", "%next = add %at, 64", 0),
        ("%go = cmp gt %i, 0", "%next = sub %at, 64", 0),
        ("%go = cmp gt %i, %end", "%next = sub %at, 1", 1),
    ] {
        assert_eq!(asserts(test, next), want, "{test}, {next}");
    }
}

/// A loop that goes on until two numbers are equal may come to its end behind a wrap, after a few rounds.
#[test]
fn loops_that_may_meet_their_end_behind_a_wrap_stay() {
    for (test, next) in [("%go = cmp ne %i, %end", "%next = add %at, 1"), ("%go = cmp ne %end, %i", "%next = add %at, -1")] {
        let kernel = kernel(test, next);
        let main = kernel.insts.iter().find(|(_, d)| d.op == Op::While).expect("a loop").0;
        assert!(counted(&kernel).is_none(), "{test}");
        assert_eq!(not_counted(&kernel, main), Some(UncountedLoop::MayWrap), "{test}");
    }
}

#[test]
fn conditions_of_several_parts_and_shifted_counters_go_round_as_often() {
    for (test, next) in [
        ("%c = cmp lt %i, %end\n%go = and %c, %yes", "%next = add %at, 7"),
        ("%c = cmp lt %i, %end\n%go = and %no, %c", "%next = add %at, 7"),
        ("%c = cmp gt %i, %end\n%d = and %c, %yes\n%go = and %d, %yes", "%next = sub %at, 7"),
        ("%c = cmp gt %i, %end\n%go = and %c, %no", "%next = sub %at, 7"),
        ("%j = add %i, 7\n%go = cmp le %j, %end", "%next = add %at, 7"),
        ("%j = sub %i, 5\n%j2 = add 1, %j\n%go = cmp ge %j2, %end", "%next = add %at, -7"),
    ] {
        let was = kernel(test, next);
        let made = counted(&was).unwrap_or_else(|| panic!("{test}"));
        for (first, end) in [(0, 0), (0, 35), (-33, 4), (5, 6), (35, 0), (30, -3), (6, 5), (-3, -36)] {
            let (before, now) = (run(&was, [first, end, 3]), run(&made, [first, end, 3]));
            assert_eq!(before.clone().ok(), now.clone().ok(), "{test}: {first} {end}: {before:?} {now:?}");
        }
    }
}

#[test]
fn loops_that_do_not_count_say_why() {
    for (test, next, want) in [
        (
            "%go = cmp lt %i, %end",
            "%next = add %at, %s",
            "%s is added in a round, and not known to be above or below zero; `maximum` with 1 says so",
        ),
        ("%go = cmp lt %i, %end", "%next = add %at, %a1", "%a1 is added in a round, and changes from round to round"),
        ("%go = cmp lt %i, %end", "%next = sub %at, 1", "what it counts by goes away from what it is compared with"),
        ("%go = cmp ult %i, %end", "%next = add %at, 1", "loops do not count by the comparison `ult`"),
        ("%go = cmp lt %i, %a", "%next = add %at, 1", "several numbers that change decide whether it goes on"),
        ("%go = cmp lt %s, %end", "%next = add %at, 1", "nothing that changes decides whether it goes on"),
        (
            "%c = cmp lt %i, %end\n%d = cmp lt %a, 9\n%go = and %c, %d",
            "%next = add %at, 1",
            "several numbers that change decide whether it goes on",
        ),
        (
            "%go = cmp lt %i, %end",
            "%next = mul %at, 2",
            "`mul` at 13:18 makes the number that decides whether it goes on, and counting would add the same to it in each round",
        ),
        (
            "%j = mul %i, 2\n%go = cmp lt %j, %end",
            "%next = add %at, 1",
            "its condition compares no carried number with one that stays the same",
        ),
        ("%go = cmp lt %i, %end\nassert %go", "%next = add %at, 1", "its condition does more than compute: `assert` at 8:1"),
    ] {
        let k = kernel(test, next);
        let main = k.regions[k.body].insts.iter().copied().find(|&i| k.insts[i].op == Op::While).expect("a loop");
        assert_eq!(not_counted(&k, main).map(|why| why.to_string()).as_deref(), Some(want), "{test}, {next}");
        assert!(counted(&k).is_none());
    }
}
