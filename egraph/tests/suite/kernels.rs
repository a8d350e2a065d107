//! The kernels of the library: what the optimizer makes of them computes the same, the same bytes every time, also when starved.

use tilelift_egraph::{Class, Options, Stop, optimise};
use tilelift_interp::{self as interp, Memory, interpret};
use tilelift_ir::{Kernel, text, verify};
use tilelift_kernels::{Case, Size, cases};

pub(crate) fn small() -> Vec<Case> {
    cases().into_iter().filter(|c| c.size == Size::Small).collect()
}

/// Memory after the launches of a case, each kernel replaced by what `make` makes of it.
pub(crate) fn output(case: &Case, make: impl Fn(&Kernel) -> Kernel) -> Memory {
    let mut memory = case.memory(&case.make_tensors());
    for l in case.launches(None).expect("kernels of the library build") {
        let kernel = make(&l.kernel);
        let verified = verify(&kernel).unwrap_or_else(|e| panic!("{}: {e}", case.name));
        interpret(&verified, l.grid, &l.args, &mut memory, &interp::Options::default())
            .unwrap_or_else(|e| panic!("{}: {e}\n{}", case.name, text::print(&kernel)));
    }
    memory
}

pub(crate) fn same(a: &Memory, b: &Memory) -> bool {
    a.buffers.iter().zip(&b.buffers).all(|(x, y)| x.bytes() == y.bytes())
}

/// What the optimizer makes of a kernel, which has to be its own work.
fn better(case: &Case, kernel: &Kernel, options: &Options) -> Kernel {
    let (kernel, report) = made(kernel, options);
    assert_eq!(report.fallback, None, "{}", case.name);
    assert!(report.after <= report.before, "{}: {report}", case.name);
    kernel
}

pub(crate) fn made(kernel: &Kernel, options: &Options) -> (Kernel, tilelift_egraph::Report) {
    let verified = verify(kernel).expect("kernels of the library verify");
    let (made, report) = optimise(&verified, options);
    (made.into_kernel(), report)
}

#[test]
fn kernels_keep_their_meaning() {
    let exact = Options { allow: Class::Exact, ..Options::default() };
    for case in small() {
        let (want, got) = (output(&case, Kernel::clone), output(&case, |k| better(&case, k, &exact)));
        let kernel = case.build().expect("kernels of the library build");
        assert!(same(&want, &got), "{}:\n{}\nbecame\n{}", case.name, text::print(&kernel), text::print(&made(&kernel, &exact).0));
        // The reference of a quantisation takes over each rounding; another function changes codes.
        if case.name.contains("quantise") {
            continue;
        }
        let loose = Options { allow: Class::Approx, ..Options::default() };
        let memory = output(&case, |k| better(&case, k, &loose));
        let verdict = case.judge(&case.make_tensors(), &memory, None).expect("the outputs have their shapes");
        assert!(verdict.pass(), "{}: {verdict}\n{}", case.name, text::print(&made(&kernel, &loose).0));
    }
}

#[test]
fn starved_graphs_still_give_right_kernels() {
    let limits = [
        (Options { iterations: 1, ..Options::default() }, Stop::Iterations),
        (Options { nodes: 20, ..Options::default() }, Stop::Nodes),
        (Options { matches: 1, ..Options::default() }, Stop::Matches),
    ];
    for (options, stop) in limits {
        let mut bitten = false;
        for case in small().iter().step_by(7) {
            let starved = Options { allow: Class::Exact, ..options.clone() };
            let report = made(&case.build().expect("kernels of the library build"), &starved).1;
            bitten |= report.phases.iter().any(|p| p.stop == stop);
            let got = output(case, |k| better(case, k, &starved));
            assert!(same(&output(case, Kernel::clone), &got), "{} with {options:?}", case.name);
        }
        assert!(bitten, "no kernel was stopped by {stop:?}");
    }
}

#[test]
fn the_same_bytes_in_every_thread() {
    let all = || {
        let print = |c: &Case| text::print(&made(&c.build().expect("builds"), &Options::default()).0);
        small().iter().map(print).collect::<Vec<_>>()
    };
    let first = all();
    let threads: Vec<_> = (0..3).map(|_| std::thread::spawn(all)).collect();
    for t in threads {
        assert!(t.join().expect("no panic") == first);
    }
}

/// A child of the test prints the hash of all its kernels; every child's is the parent's.
#[test]
fn the_same_bytes_in_every_process() {
    const NAME: &str = "TILELIFT_PRINT_HASH";
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for case in small() {
        let made = text::print(&made(&case.build().expect("builds"), &Options::default()).0);
        made.bytes().for_each(|b| hash = (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    }
    if std::env::var_os(NAME).is_some() {
        println!("hash {hash:x} end");
        return;
    }
    for _ in 0..3 {
        let test = std::env::current_exe().expect("a test has a path");
        let args = ["--exact", "kernels::the_same_bytes_in_every_process", "--nocapture"];
        let child = std::process::Command::new(test).args(args).env(NAME, "1").output().expect("the test starts again");
        let said = String::from_utf8_lossy(&child.stdout).into_owned();
        assert!(said.contains(&format!("hash {hash:x} end")), "{said}");
    }
}

#[test]
fn explanations_name_their_rules() {
    for case in small() {
        let kernel = case.build().expect("builds");
        let options = Options { allow: Class::Approx, ..Options::default() };
        let verified = verify(&kernel).expect("verifies");
        let why = tilelift_egraph::explain::explain(&verified, &options);
        assert!(why.starts_with('@') && why.contains("cost"), "{why}");
        // Each line of a chain names a rule.
        for line in why.lines().filter(|l| l.contains(" by ")) {
            let name = line.rsplit(" by ").next().unwrap_or_default();
            assert!(name == "constant-fold" || tilelift_egraph::rules::all().any(|r| r.name == name), "{line}");
        }
        let dot = tilelift_egraph::explain::dot(&verified, &options);
        assert!(dot.starts_with("digraph") && dot.trim_end().ends_with('}') && dot.contains("style=filled"));
    }
}

#[test]
fn explanations_name_what_is_not_computed_any_more() {
    let source = "kernel @k(v0: view<f32, [64]>, v1: view<f32, [64]>) warps=1 {\n    v2 = load v0[0] : tile<64xf32>\n    v3 = neg v2\n    \
                  v4 = neg v3\n    v5 = mul v2, v2\n    store v1[0], v4\n}\n";
    let kernel = text::parse(source).expect("parses").kernels.remove(0);
    let why = tilelift_egraph::explain::explain(&verify(&kernel).expect("verifies"), &Options::default());
    assert!(why.contains("by neg-neg") && why.contains("(line 3) = neg"), "{why}");
    let gone: Vec<&str> = why.split("is not needed any more").collect();
    assert_eq!(gone.len(), 3, "the inner negation and the square: {why}");
    assert!(why.contains("(line 5) = mul"), "{why}");
}
