//! `docs/optimizer.md` lists the rules of the table; `TILELIFT_BLESS=1` writes the list.

use std::fmt::Write;
use tilelift_egraph::rules::{self, pairs};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/optimizer.md");

fn table() -> String {
    let mut out = String::from("| rule | class | says | types |\n|---|---|---|---|\n");
    for r in rules::all() {
        let mut types: Vec<&str> = pairs(r.over).iter().map(|(t, _)| t.name()).collect();
        types.dedup();
        let types = if types.len() > 8 { format!("{} types", types.len()) } else { types.join(" ") };
        writeln!(out, "| `{}` | {} | {} | {types} |", r.name, r.class.word(), r.says.replace('|', "\\|")).expect("a string takes all");
    }
    out
}

fn layout_table() -> String {
    let mut out = String::from("| rule | says |\n|---|---|\n");
    for r in tilelift_egraph::physical::rules::all() {
        writeln!(out, "| `{}` | {} |", r.name, r.says).expect("a string takes all");
    }
    out
}

#[test]
fn the_rules_are_listed() {
    listed("<!-- generated: rules -->\n", &table());
    listed("<!-- generated: layout rules -->\n", &layout_table());
}

fn listed(start: &str, table: &str) {
    let text = std::fs::read_to_string(PATH).expect("the page is there");
    let end = "<!-- end -->";
    let (head, rest) = text.split_once(start).expect("the page has a place for the rules");
    let (old, tail) = rest.split_once(end).expect("the place ends");
    let new = format!("{table}\n");
    if std::env::var_os("TILELIFT_BLESS").is_some_and(|v| v == "1") {
        std::fs::write(PATH, format!("{head}{start}\n{new}{end}{tail}")).expect("the page can be written");
    } else {
        assert_eq!(old.trim(), new.trim(), "run TILELIFT_BLESS=1 cargo test -p tilelift-egraph docs::");
    }
}
