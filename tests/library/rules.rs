//! Every rule of the optimizer fires in what somebody would write: kernels of the library and graphs of operators. `docs/optimizer.md` lists which
//! fire where; `TILELIFT_BLESS=1` writes the list. A rule's own programs do not count.

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

/// Rules that fire in the library's kernels, and in graphs: in their operators, in what fusion tries, and in the kernels that are left.
fn fired() -> [BTreeSet<&'static str>; 2] {
    let [mut library, mut graphs] = [BTreeSet::new(), BTreeSet::new()];
    for case in cases() {
        fire(&case.build().expect("kernels of the library build"), &mut library);
    }
    let target = targets::by_name("sm_90a").expect("a known target");
    for entry in plain::ALL {
        let extents: Vec<u32> = entry.extents.iter().map(|e| e.usual).collect();
        let graph = graph_of(&(entry.draw)(&extents, &target).expect("it is drawn"));
        let fused = graph.fuse(&target, &FuseOptions::default());
        graph.nodes().iter().chain(fused.graph.nodes()).for_each(|n| fire(&n.kernel, &mut graphs));
        graphs.extend(fused.report.fired.keys());
    }
    [library, graphs]
}

/// The rules by where they fire.
///
/// # Panics
/// If one fires nowhere.
fn list() -> String {
    let [library, graphs] = fired();
    let names = |wanted: &dyn Fn(&str) -> bool| -> Vec<String> {
        rules::all().filter(|r| wanted(r.name)).map(|r| format!("`{}`", r.name)).collect()
    };
    let nowhere = names(&|n| !library.contains(n) && !graphs.contains(n));
    assert!(
        nowhere.is_empty(),
        "these rules fire in no kernel and no graph; give them a graph of operators that has their case, or drop them: {nowhere:?}"
    );
    let some = names(&|n| library.contains(n));
    let more = names(&|n| !library.contains(n));
    let wrapped = |names: &[String]| names.chunks(8).map(|c| c.join(", ")).collect::<Vec<_>>().join(",\n");
    format!(
        "{} rules fire in kernels of the library:\n{}.\n\n{} more in graphs:\n{}.\n",
        some.len(),
        wrapped(&some),
        more.len(),
        wrapped(&more)
    )
}

#[test]
fn every_rule_fires_and_the_list_says_where() {
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
