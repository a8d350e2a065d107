//! Which rules of the optimizer fire in what somebody would write: kernels of the library and graphs of operators. `docs/optimizer.md` lists those that
//! do not; `TILELIFT_BLESS=1` writes the list. A rule's own programs do not count.

use super::graph::graph_of;
use std::collections::BTreeSet;
use std::path::Path;
use tilelift::egraph::rules::{self, Class};
use tilelift::egraph::{Options, optimise};
use tilelift::graph::FuseOptions;
use tilelift::ir::{Kernel, verify};
use tilelift::targets;
use tilelift_kernels::{cases, plain};

/// The rules that fire in a kernel, with leave for all.
fn fire(kernel: &Kernel, fired: &mut BTreeSet<&'static str>) {
    let verified = verify(kernel).expect("it keeps the rules of the language");
    let (_, report) = optimise(&verified, &Options { allow: Class::Approx, ..Options::default() });
    fired.extend(report.rules.iter().filter(|r| r.applied > 0).map(|r| r.name));
}

fn list() -> String {
    let mut fired = BTreeSet::new();
    for case in cases() {
        fire(&case.build().expect("kernels of the library build"), &mut fired);
    }
    let target = targets::by_name("sm_90a").expect("a known target");
    for entry in plain::ALL {
        let extents: Vec<u32> = entry.extents.iter().map(|e| e.usual).collect();
        let graph = graph_of(&(entry.draw)(&extents, &target).expect("it is drawn"));
        graph.nodes().iter().for_each(|n| fire(&n.kernel, &mut fired));
        fired.extend(graph.fuse(&target, &FuseOptions::default()).report.fired.keys());
    }
    let names = |fires: bool| -> Vec<String> {
        rules::all().filter(|r| fired.contains(r.name) == fires).map(|r| format!("`{}`", r.name)).collect()
    };
    let (some, none) = (names(true), names(false));
    let wrapped = |names: &[String]| names.chunks(8).map(|c| c.join(", ")).collect::<Vec<_>>().join(",\n");
    format!("{} rules fire:\n{}.\n\n{} do not:\n{}.\n", some.len(), wrapped(&some), none.len(), wrapped(&none))
}

#[test]
fn rules_that_fire_nowhere_are_listed() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/optimizer.md");
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let (start, end) = ("<!-- generated: firing -->\n", "<!-- end -->");
    let (head, rest) = page.split_once(start).expect("the page has a place for the list");
    let (old, tail) = rest.split_once(end).expect("the place ends");
    let new = list();
    if std::env::var_os("TILELIFT_BLESS").is_some_and(|v| v == "1") {
        std::fs::write(path, format!("{head}{start}\n{new}\n{end}{tail}")).expect("the page can be written");
    } else {
        assert_eq!(old.trim(), new.trim(), "run TILELIFT_BLESS=1 cargo test -p tilelift --test library rules::");
    }
}
