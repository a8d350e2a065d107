//! Every rule of the table on its own programs: it applies where it should, keeps away where it should, and what it makes is what
//! the interpreter says, for all types and random inputs, whatever program of the graph is taken. `common` says what the letters mean.

use crate::common::{Random, program, run};
use tilelift_egraph::rules::{self, Class, Rule, pairs};
use tilelift_egraph::{Options, optimise};
use tilelift_ir::{Op, Scalar, num, text, verify};

/// True if two results agree: bit for bit for exact rules (any NaN is any NaN); else for inputs of size at most 4, within the rounding of
/// sums of up to 17 products of up to 16 (`18 * 2^-24 * 17 * 16 < 2^-11`) and the stated relative error of the functions.
fn agree(want: u64, got: u64, elem: Scalar, class: Class) -> bool {
    if want == got {
        return true;
    }
    if !elem.is_float() {
        return false;
    }
    let (w, g) = (num::from_bits(want, elem), num::from_bits(got, elem));
    if w.is_nan() || g.is_nan() {
        return w.is_nan() && g.is_nan();
    }
    class != Class::Exact && (w - g).abs() <= 2f64.powi(-11) + 2f64.powi(-18) * w.abs()
}

fn check(rule: &'static Rule) {
    for (t, u) in pairs(rule.over) {
        let kernel = program(rule.fires, t, u);
        let verified = verify(&kernel).expect("verified before");
        let options = |chaos| Options { allow: Class::Approx, only: Some(rule.name), chaos, ..Options::default() };
        let tame = rule.class != Class::Exact;
        let elem = kernel.ty(*kernel.params.last().expect("an output")).elem();
        for chaos in [None, Some(1), Some(2), Some(3)] {
            let (made, report) = optimise(&verified, &options(chaos));
            assert_eq!(report.fallback, None, "{} over {t}, {u}:\n{}", rule.name, text::print(&kernel));
            assert!(report.applied(rule.name) > 0, "{} does not apply over {t}, {u}:\n{}", rule.name, text::print(&kernel));
            for seed in 0..4 {
                let (want, got) = (run(&kernel, t, seed, tame), run(&made, t, seed, tame));
                for (n, (&w, &g)) in want.iter().zip(&got).enumerate() {
                    assert!(
                        agree(w, g, elem, rule.class),
                        "{} over {t}, {u}, seed {seed}, element {n}: {g:#x} instead of {w:#x}\n{}\nbecame\n{}",
                        rule.name,
                        text::print(&kernel),
                        text::print(&made)
                    );
                }
            }
        }
        let kernel = program(rule.keeps, t, u);
        let verified = verify(&kernel).expect("verified before");
        let (_, report) = optimise(&verified, &options(None));
        assert_eq!(report.fallback, None);
        assert_eq!(report.applied(rule.name), 0, "{} applies over {t}, {u} to\n{}", rule.name, text::print(&kernel));
    }
}

#[test]
fn every_rule_applies_keeps_away_and_is_right() {
    let failed: Vec<String> = rules::all()
        .filter_map(|r| {
            let caught = std::panic::catch_unwind(|| check(r)).err()?;
            let text = caught.downcast_ref::<String>().cloned();
            Some(text.or_else(|| caught.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default())
        })
        .collect();
    assert!(failed.is_empty(), "{} rules fail:\n{}", failed.len(), failed.join("\n----\n"));
}

#[test]
fn names_are_unique_and_say_their_family() {
    let mut seen = std::collections::BTreeSet::new();
    for r in rules::all() {
        assert!(seen.insert(r.name), "{} stands twice in the table", r.name);
        assert!(r.name.contains('-') && !r.says.is_empty() && !pairs(r.over).is_empty(), "{}", r.name);
    }
}

/// A tile of floats and one of scalars: rules that folding alone would hide must not depend on which they meet.
#[test]
fn constants_fold_as_the_interpreter_says() {
    for &t in &[Scalar::I8, Scalar::I32, Scalar::F16, Scalar::F32] {
        let kernel = program("v20 = cast 3 : T\nv21 = add v20, v20\nv22 = mul v21, v21\nv23 = splat v22 : A\nv24 = neg v23", t, t);
        let (made, report) = optimise(&verify(&kernel).expect("verified"), &Options::default());
        assert_eq!(report.fallback, None);
        let mut ops = Vec::new();
        made.walk(made.body, &mut |i| ops.push(made.insts[i].op));
        assert!(!ops.contains(&Op::Add) && !ops.contains(&Op::Neg) && !ops.contains(&Op::Cast), "{}", text::print(&made));
        assert_eq!(run(&kernel, t, 1, true), run(&made, t, 1, true));
    }
}

/// Facts of integers (bounds, alignment, affine forms) and all rules together: random chains of ops on small and large constants.
#[test]
fn random_integer_programs_keep_every_bit() {
    let ops = [
        "add",
        "sub",
        "mul",
        "div",
        "rem",
        "and",
        "or",
        "xor",
        "shl",
        "shr_s",
        "shr_u",
        "minimum",
        "maximum",
        "div_u",
        "rem_u",
        "minimum_u",
        "mulhi",
    ];
    let constants = [0i64, 1, 2, 3, 4, 7, 8, 9, 15, 16, 63, 64, 100, 127, -1, -2, -8, -128];
    let words = ["lt", "le", "gt", "ge", "eq", "ne", "ult", "uge"];
    let mut applied = 0;
    for seed in 0..250u64 {
        let mut random = Random(seed);
        let mut pick = |n: usize| (random.next() % n as u64) as usize;
        let mut body = String::from("v20 = splat s : A\nv21 = iota 1 : A\nv22 = splat 7 : A\nv23 = and a, v22");
        let mut next = 24;
        for _ in 0..10 {
            let x = 20 + pick(next - 20);
            if pick(3) == 0 {
                body += &format!("\nv{next} = {} v{x}, v{}", ops[pick(ops.len())], 20 + pick(next - 20));
                next += 1;
            } else {
                let c = constants[pick(constants.len())];
                body += &format!("\nv{next} = splat {c} : A\nv{} = {} v{x}, v{next}", next + 1, ops[pick(ops.len())]);
                next += 2;
            }
        }
        let (x, y) = (20 + pick(next - 20), 20 + pick(next - 20));
        let last = next - 1;
        body += &format!("\nv{next} = cmp {} v{x}, v{y}\nv{} = select v{next}, v{last}, v{x}", words[pick(words.len())], next + 1);
        for t in [Scalar::I8, Scalar::I32] {
            let kernel = program(&body, t, t);
            let verified = verify(&kernel).expect("verified before");
            for chaos in [None, Some(seed)] {
                let (made, report) = optimise(&verified, &Options { chaos, allow: Class::Exact, ..Options::default() });
                assert_eq!(report.fallback, None, "{body}");
                applied += report.rules.iter().map(|r| r.applied).sum::<usize>();
                for input in 0..2 {
                    let (want, got) = (run(&kernel, t, seed * 2 + input, false), run(&made, t, seed * 2 + input, false));
                    assert!(want == got, "seed {seed}, {t}:\n{}\nbecame\n{}", text::print(&kernel), text::print(&made));
                }
            }
        }
    }
    assert!(applied > 1000, "only {applied} equalities were found");
}
