//! Programs in windows, a graph each: what is too large for one graph, and, for the test, what is not.

use crate::kernels::{made, output, same, small};
use crate::proofs::corpus;
use std::fmt::Write;
use tilelift_egraph::{Class, MOST_INSTRUCTIONS, Options};
use tilelift_ir::{Kernel, text};

fn windows(most: usize) -> Options {
    Options { allow: Class::Exact, window: Some(most), ..Options::default() }
}

/// Every way to cut: between all instructions, in loops, around choices.
#[test]
fn kernels_in_windows_keep_their_meaning() {
    let mut cut = 0;
    for case in small() {
        let want = output(&case, Clone::clone);
        for most in [1, 4, 23] {
            let make = |k: &_| {
                let (kernel, report) = made(k, &windows(most));
                assert_eq!(report.fallback, None, "{}, windows of {most}", case.name);
                assert!(report.skipped.is_some() || report.after <= report.before, "{}: {report}", case.name);
                kernel
            };
            let kernel = case.build().expect("kernels of the library build");
            cut += made(&kernel, &windows(most)).1.windows;
            assert!(
                same(&want, &output(&case, make)),
                "{}, windows of {most}:\n{}",
                case.name,
                text::print(&made(&kernel, &windows(most)).0)
            );
        }
    }
    assert!(cut > 1000, "{cut} windows");
}

#[test]
fn texts_in_windows_make_kernels() {
    let mut all = 0;
    for (n, (name, kernel)) in corpus().into_iter().enumerate() {
        for most in [1, 9] {
            let allow = if (n + most) % 2 == 0 { Class::Exact } else { Class::Approx };
            let options = Options { allow, ..windows(most) };
            let (better, report) = made(&kernel, &options);
            assert_eq!(report.fallback, None, "{name}, windows of {most}");
            assert!(report.after <= report.before, "{name}, windows of {most}: {report}");
            assert_eq!(better, made(&kernel, &options).0, "{name}");
            all += report.windows;
        }
    }
    assert!(all > 10_000, "{all} windows");
}

/// Steps that a rule makes nothing of, one behind the other: sums, with a product by 1 between them.
fn steps(n: usize, around: bool) -> Kernel {
    let mut out = "kernel @k(v0: view<f32, [?]>) {\nv1 = splat 1.0 : tile<128xf32>\nv2 = load v0[0] : tile<128xf32>\n".to_owned();
    let (mut next, mut last) = (3, 2);
    if around {
        out += "v3 = for v4 in 0..7 step 1 carry v5 = v2 {\n";
        (next, last) = (6, 5);
    }
    for _ in 0..n / 2 {
        let _ = writeln!(out, "v{next} = mul v{last}, v1\nv{} = add v{next}, v2", next + 1);
        (next, last) = (next + 2, next + 1);
    }
    if around {
        let _ = writeln!(out, "yield v{last}\n}}");
        last = 3;
    }
    let _ = writeln!(out, "store v0[0], v{last}\n}}");
    let mut file = text::parse(&out).unwrap_or_else(|e| panic!("{e}"));
    file.kernels.remove(0)
}

#[test]
fn programs_too_large_for_a_graph_are_taken_in_windows() {
    for around in [false, true] {
        let few = made(&steps(MOST_INSTRUCTIONS / 2, around), &Options::default()).1;
        assert!(few.windows == 0 && few.applied("mul-one") > 0, "{few}");
        let n = 3 * MOST_INSTRUCTIONS;
        let kernel = steps(n, around);
        let (made, report) = made(&kernel, &Options::default());
        assert!(report.fallback.is_none() && report.skipped.is_none(), "{report}");
        assert!(report.windows > 10 && report.applied("mul-one") == n / 2, "{} windows, {report}", report.windows);
        // Sums remain, and what stands around them; each window makes its own constant, if it needs it.
        assert!(made.insts.len() < n / 2 + 2 * report.windows + 10, "{} of {n} instructions", made.insts.len());
        // No phase holds more at once for more windows.
        let share = report.phases[0].nodes as f64 / (n as f64);
        assert!(share < 1.6, "{share} nodes of an instruction");
    }
}
