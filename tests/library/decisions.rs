//! `docs/decisions.md` lists the decisions of the compiler; `TILELIFT_BLESS=1` writes the list. Each is really taken where the list says, and nowhere else.

use super::graph::graph_of;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use tilelift::graph::FuseOptions;
use tilelift::ir::{Kernel, Scalar, text};
use tilelift::isel::LayoutChoice;
use tilelift::{GridFacts, OptLevel, Options, compile, targets};
use tilelift_decisions::{Decision, Taken, Taker, heard};
use tilelift_kernels::plan::{DeviceFacts, Problem, plan};
use tilelift_kernels::{Gemm, Size, cases, plain};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn table() -> String {
    let mut out = String::from("| decision | what is decided | taken by | priced by | where |\n|---|---|---|---|---|\n");
    for d in Decision::ALL {
        let e = d.entry();
        let price = if e.price.is_empty() { "nothing" } else { e.price };
        let files: Vec<String> = e.files.iter().map(|f| format!("[`{f}`](../{f})")).collect();
        writeln!(out, "| {} | {} | {} | {price} | {} |", e.name, e.asks, e.taker, files.join(", ")).expect("a string takes all");
    }
    let of = |taker: Taker| Decision::ALL.iter().filter(|d| d.entry().taker == taker).count();
    let counts: Vec<String> = Taker::ALL.iter().map(|&t| format!("{} by {}", of(t), t.word())).collect();
    let outside = Decision::ALL.iter().filter(|d| !d.entry().taker.is_graph()).count();
    writeln!(out, "\n{} decisions: {}. {outside} are taken outside of both graphs.", Decision::ALL.len(), counts.join(", "))
        .expect("likewise");
    out
}

#[test]
fn the_decisions_are_listed() {
    let path = Path::new(ROOT).join("docs/decisions.md");
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let (start, end) = ("<!-- generated: decisions -->\n", "<!-- end -->");
    let (head, rest) = page.split_once(start).expect("the page has a place for the list");
    let (old, tail) = rest.split_once(end).expect("the place ends");
    let new = table();
    if std::env::var_os("TILELIFT_BLESS").is_some_and(|v| v == "1") {
        std::fs::write(path, format!("{head}{start}\n{new}\n{end}{tail}")).expect("the page can be written");
    } else {
        assert_eq!(old.trim(), new.trim(), "run TILELIFT_BLESS=1 cargo test -p tilelift --test library decisions::");
    }
}

/// Takes what was heard into account: by decision, where, and whether with a price and something behind it.
fn note(all: Vec<Taken>, seen: &mut BTreeMap<Decision, [bool; 2]>) {
    for t in all {
        let entry = t.decision.entry();
        assert!(entry.files.iter().any(|f| t.file.ends_with(f)), "{t} is taken in {}, and the list says {:?}", t.file, entry.files);
        assert!(!t.told.what.is_empty() && t.told.what.lines().count() == 1, "{t}");
        let [price, next] = seen.entry(t.decision).or_default();
        *price |= t.told.price.is_some();
        *next |= t.told.runner_up.is_some();
    }
}

/// A loop whose last rounds a mask leaves without effect.
const MORE: &[&str] = &["kernel @rounds(v0: view<f32, [?, ?]>, v1: view<f32, [?]>) {
v2 = program_id x
v3 = dim v0, 0
v4 = splat 0.0 : tile<64xf32>
v5 = iota 0 : tile<64xi32>
v6 = for v7 in 0..v3 step 64 carry v8 = v4 {
v9 = splat v7 : tile<64xi32>
v10 = add v9, v5
v11 = splat v2 : tile<64xi32>
v12 = cmp le v10, v11
v13 = load v0[v2, v7] : tile<1x64xf32>
v14 = reshape v13 : tile<64xf32>
v15 = select v12, v14, v4
v16 = add v8, v15
yield v16
}
store v1[v2], v6
}
"];

const SMALL_TILES: &str = "kernel @k(v0: view<bf16, [?, ?%64]>, v1: view<bf16, [?, ?%64]>, v2: view<f32, [?, ?%64]>) {
v3 = program_id x
v4 = program_id y
v5 = mul v4, 64
v6 = mul v3, 64
v7 = dim v0, 1
v8 = splat 0.0 : tile<64x64xf32>
v9 = for v10 in 0..v7 step 64 carry v11 = v8 {
v12 = load v0[v5, v10] : tile<64x64xbf16>
v13 = load v1[v10, v6] : tile<64x64xbf16>
v14 = dot v12, v13, v11
yield v14
}
store v2[v5, v6], v9
}
";

fn compiled(kernel: &Kernel, target: &str, opt: OptLevel, seen: &mut BTreeMap<Decision, [bool; 2]>) {
    let target = targets::by_name(target).expect("a known target");
    let mut options = Options { opt, ..Options::default() };
    if opt == OptLevel::Physical {
        options.lower.layouts = LayoutChoice::Searched;
    }
    // Refusals decide, too.
    let (_, all) = heard(|| compile(kernel, &target, &options).map(drop));
    note(all, seen);
}

#[test]
fn every_decision_is_taken_where_the_list_says() {
    let mut seen = BTreeMap::new();
    let mut kinds = BTreeSet::new();
    for case in cases().into_iter().filter(|c| c.size == Size::Small) {
        // One of each kernel and element type.
        let kind: Vec<&str> = case.name.split('_').take(4).collect();
        if !kinds.insert(kind.join("_")) {
            continue;
        }
        let kernel = case.build().expect("kernels of the library build");
        for (target, opt) in [("sm_90a", OptLevel::Physical), ("sm_80", OptLevel::Logical), ("gfx942", OptLevel::Physical)] {
            compiled(&kernel, target, opt, &mut seen);
        }
    }
    for source in MORE {
        let kernel = &text::parse(source).unwrap_or_else(|e| panic!("{e}")).kernels[0];
        let options = tilelift::egraph::Options { allow: tilelift::egraph::Class::Reassoc, ..Default::default() };
        let verified = tilelift::ir::verify(kernel).expect("it keeps the rules");
        let (_, all) = heard(|| tilelift::egraph::optimise(&verified, &options));
        note(all, &mut seen);
    }
    let target = targets::by_name("sm_90a").expect("a known target");
    for name in ["norm_quantise", "attention_sink", "state_update"] {
        let entry = plain::ALL.iter().find(|e| e.name == name).expect("a graph of the list");
        let extents: Vec<u32> = entry.extents.iter().map(|e| e.usual).collect();
        let graph = graph_of(&(entry.draw)(&extents, &target).expect("it is drawn"));
        let (fused, all) = heard(|| graph.fuse(&target, &FuseOptions::default()));
        note(all, &mut seen);
        for node in fused.graph.nodes() {
            let (level, all) = heard(|| OptLevel::suited(&node.kernel));
            note(all, &mut seen);
            compiled(&node.kernel, "sm_90a", level, &mut seen);
        }
    }
    let files = [
        "loops/narrow_weights",
        "loops/guarded_products",
        "loops/half_sums",
        "memory/advanced_offsets",
        "loops/scaled_operands",
        "loops/rows_of_nine_pieces",
        "loops/batch_of_products",
        "loops/product_behind_the_loop",
        "dot/rows_short_of_an_instruction",
    ];
    for file in files {
        let path = Path::new(ROOT).join("tests/tile").join(file).with_extension("tile");
        let source = std::fs::read_to_string(path).expect("the file is there");
        for kernel in &text::parse(&source).expect("it parses").kernels {
            compiled(kernel, "sm_90a", OptLevel::Logical, &mut seen);
        }
    }
    // Small tiles of a grid that is known, and large.
    let small = text::parse(SMALL_TILES).unwrap_or_else(|e| panic!("{e}")).kernels.remove(0);
    let options = Options { grid: GridFacts::of([64, 64, 1]), ..Options::default() };
    let (_, all) = heard(|| compile(&small, &target, &options).map(drop));
    note(all, &mut seen);
    // Two wavefronts share a SIMD.
    let product = Gemm::new(Scalar::F16).output(Scalar::F16).tile(256, 256, 64).schedule(8, 2).for_shape(1024, 1024, 1024);
    compiled(&product.build().expect("a product"), "gfx942", OptLevel::Logical, &mut seen);
    let problem = Problem::new(Scalar::BF16, [4096, 4096, 4096]);
    let (_, all) = heard(|| plan(&problem, &DeviceFacts::new(&target, 132)));
    note(all, &mut seen);
    let never: Vec<&str> = Decision::ALL.iter().filter(|d| !seen.contains_key(d)).map(|d| d.name()).collect();
    assert!(never.is_empty(), "nobody takes {never:?}");
    for (d, [price, next]) in seen {
        let taker = d.entry().taker;
        // Loops are one part of what the whole program costs.
        let told = taker == Taker::Rule || d == Decision::Loops || (price && next);
        assert!(told, "{} is taken by {taker}, and tells neither price nor what would come next", d.name());
    }
}
