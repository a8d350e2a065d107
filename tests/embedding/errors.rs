//! Errors have codes, places and remedies.

use crate::source;
use tilelift::{Compiler, Error, Stage};

#[test]
fn every_error_has_a_code_a_place_and_a_remedy() {
    let none = Compiler::new("sm_1").map(|_| ()).map_err(|e| (e.code(), e.to_string(), e.remedy()));
    let Err((code, text, remedy)) = none else { panic!("there is no such target") };
    assert!(code == "C0101" && text.contains("`sm_1`") && remedy.contains("sm_90a"), "{text} {remedy}");
    let compiler = Compiler::new("sm_80").unwrap_or_else(|e| panic!("{e}"));
    let wide = "kernel @wide(v0: view<f32, [?]>) {\n    v1 = splat 1.0 : tile<4194304xf32>\n    store v0[0], v1\n}\n";
    let twice = source(1) + &source(2);
    // The text, the name, then code, stage and line.
    type Case<'a> = (&'a str, Option<&'a str>, &'static str, Option<Stage>, Option<u32>);
    let cases: [Case<'_>; 6] = [
        ("kernel", None, "P0202", None, Some(1)),
        ("", None, "C0102", None, None),
        (&twice, None, "C0102", None, None),
        (&twice, Some("add3"), "C0102", None, None),
        ("kernel @a(v0: f32) {\n    v1 = add v0, v9\n}\n", None, "P0401", None, Some(2)),
        (wide, Some("wide"), "L0103", Some(Stage::Lower), Some(2)),
    ];
    for (text, name, code, stage, line) in cases {
        let e = match compiler.compile_text(text, name) {
            Err(e) => e,
            Ok(a) => panic!("{} is compiled", a.name),
        };
        assert_eq!((e.code().len(), e.stage(), e.place().map(|p| p.line)), (5, stage, line), "{e}");
        assert_eq!(e.code(), code, "{e}");
        assert!(!e.remedy().is_empty() && !e.to_string().is_empty());
    }
    assert!(compiler.compile_text(&twice, Some("add2")).is_ok_and(|a| a.name == "add2"));
    let refused = compiler.compile_text(wide, None);
    assert!(matches!(refused, Err(Error::Refused(ref r)) if r.kernel() == "wide"), "{refused:?}");
}
