//! Tests of what is refused: each code, the shape of the messages, recovery, and texts mutated at random.

use crate::text::{MAX_ERRORS, MAX_TEXT, ParseCode, ParseErrors, parse, print};

fn refused(text: &str) -> ParseErrors {
    match parse(text) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(e) => e,
    }
}

/// A kernel with a line in it.
fn within(line: &str) -> String {
    format!("kernel @k(v0: i32, v1: f32, v2: view<f32, [?, 64]>, v3: tile<4x8xf32>, v4: i1) {{\n{line}\n}}\n")
}

/// `if`s nested to a depth.
fn nested(depth: usize) -> String {
    within(&format!("{}yield{}", "if v4 {\n".repeat(depth), "\nyield } else { yield }".repeat(depth)).replacen("yield\n", "", 1))
}

/// Texts that break the rule of a code, and a part of the message.
fn examples(code: ParseCode) -> Vec<(String, &'static str)> {
    use ParseCode as C;
    let lines = |lines: &[(&str, &'static str)]| lines.iter().map(|(l, m)| (within(l), *m)).collect::<Vec<_>>();
    let texts = |texts: &[(&str, &'static str)]| texts.iter().map(|(l, m)| ((*l).to_owned(), *m)).collect::<Vec<_>>();
    match code {
        C::Character => {
            lines(&[("v9 = add v0, $1", "'$'"), ("v9 = add v0, é", "'é'"), ("v9 = add v0. v0", "'.'"), ("v9 = add v0 - 1", "'-'")])
        }
        C::Number => lines(&[
            ("v9 = add v0, 1q", "no suffix"),
            ("v9 = add v0, 0x10", "no suffix"),
            ("v9 = add v0, 1i1", "`true`"),
            ("v9 = add v1, 1.", "write 1.0"),
            ("v9 = add v1, -v1", "`neg`"),
            ("v9 = add v1, -nan", "`-inf`"),
            ("v9 = splat v1 : tile<4xx8xf32>", "no extent"),
        ]),
        C::Range => lines(&[
            ("v9 = splat v1 : tile<99999999999xf32>", "99999999999"),
            ("v9 = add v0, 2147483648", "from -2147483648 to 2147483647"),
            ("v9 = add v0, 99999999999999999999", "no i32"),
            ("v9 = splat 128 : tile<4xi8>", "from -128 to 127"),
            ("v9 = add v1, 1e39", "write `inf`"),
            ("v9 = abs 65520f16", "largest f16"),
            ("v99999999999 = add v0, v0", "smaller"),
            ("v9 = dim v2, 4294967296", "4294967295"),
        ]),
        C::TooLarge => vec![("\n".repeat(MAX_TEXT + 1), "split it")],

        C::Expected => {
            let mut all = lines(&[
                ("v9 = add v0 v0", "expected `,`, found `v0`"),
                ("v9 = add v0,", "expected a value"),
                ("v9 = add v0, v0 v0", "end of the line"),
                ("v9 = add v0, foo", "`foo`"),
                ("v9 add v0, v0", "`=`"),
                ("v9 = 5", "an op"),
                ("v9 = dim v2", "expected `,`"),
                ("v9 = reduce add v3, 1", "`axis`"),
                ("v9 = transpose v3, [1 0]", "`,` or `]`"),
                ("v9 = load v2, 0 : tile<4x4xf32>", "`[`"),
                ("v9 = splat v1 : tile<4", "`>`"),
                ("for v9 in 0 v0 step 1 { yield }", "`..`"),
                ("v9 = if v4 { yield v0 }", "yields as many values"),
                ("while { yield v4 }", "`do`"),
                ("tasks {\ntusk a warps 1 { yield }\n}", "`task`"),
                ("tasks {\ntask a { yield }\n}", "`warps`"),
                ("tasks {\ntask 7 warps 1 { yield }\n}", "name"),
                ("tasks {\ntask a warps 1 replicas 2 { yield }\n}", "`as`"),
                ("v9 = barrier_alloc : barrier<2>", "a number"),
                ("v9 = barrier_alloc 1 : barrier<v0>", "barriers"),
                ("v9 = channel_alloc : channel<2, f32>", "tile type"),
                ("named_barrier_sync 1 4", "`,`"),
                ("v9 = local_alloc : shared<4", "shared<128x64xf32>"),
            ]);
            all.extend(texts(&[
                ("kernal @a() {\n}", "`kernel @name"),
                ("kernel a() {\n}", "`@`"),
                ("kernel @5() {\n}", "name"),
                ("kernel @a(f32) {\n}", "v0: f32"),
                ("kernel @a(v0: f32 v1: f32) {\n}", "`,` or `)`"),
                ("kernel @a(v0: view<f32>) {\n}", "`,`"),
                ("kernel @a(v0: view<f32, [?], [1], [1]>) {\n}", "`align`"),
                ("kernel @a(v0: view<f32, [?%]>) {\n}", "divisor"),
                ("kernel @a() {\n} }", "end of the line"),
            ]));
            all
        }
        C::Truncated => texts(&[
            ("kernel", "`@`"),
            ("kernel @a(", "v0: f32"),
            ("kernel @a() {", "`}`"),
            ("kernel @a() {\n v0 = add", "a value"),
            ("kernel @a() {\n if true {\n", "`}`"),
            ("kernel @a() {\n\nkernel @b() {\n}", "another kernel"),
            ("kernel @a() {\n    if true {\n    v0 = iota 0 : tile<4xi32>\n}\n", "the one at 4:1 stands further left"),
        ]),
        C::Nesting => vec![(nested(65), "deeper than 64"), (nested(5000), "deeper than 64")],
        C::KernelName => texts(&[("kernel @a() {\n}\nkernel @a() {\n}", "earlier")]),
        C::Hint => texts(&[
            ("kernel @a() warp=4 {\n}", "did you mean `warps`"),
            ("kernel @a() warps=4 warps=4 {\n}", "twice"),
            ("kernel @a() cluster 2 cluster 2 {\n}", "twice"),
            ("kernel @a() clutser=2 {\n}", "did you mean `cluster`"),
        ]),

        C::Op => lines(&[
            ("v9 = ad v0, v0", "did you mean `add`?"),
            ("v9 = frobnicate v0", "docs/language.md"),
            ("lode v0", "did you mean `load`?"),
        ]),
        C::Word => lines(&[
            ("v9 = cmp les v0, v0", "there are eq, ne"),
            ("v9 = reduce max v3, axis 0", "there are add"),
            ("v9 = program_id w", "x, y, z"),
            ("v9 = dot v3, v3, v3 tf23", "did you mean `tf32`?"),
        ]),
        C::TypeName => lines(&[
            ("v9 = cast v0 : f23", "did you mean `f32`?"),
            ("v9 = splat v1 : tile<4xf33>", "there are i1"),
            ("v9 = cast v0 : int", "i32"),
        ]),
        C::Keyword => lines(&[
            ("v9 = load v2[0, 0], msk=v4 : tile<4x4xf32>", "did you mean `mask`?"),
            ("v9 = load v2[0, 0], other=0, other=0 : tile<4x4xf32>", "twice"),
            ("store v2[0, 0], v3, other=v1", "it has mask"),
        ]),
        C::Results => lines(&[
            ("add v0, v0", "write `v1 = add`"),
            ("v9, v10 = add v0, v0", "1 values here, not 2"),
            ("v9 = store v2[0, 0], v3", "remove the names"),
            ("v9 = for v10 in 0..v0 step 1 { yield }", "0 values here, not 1"),
            ("v9, v10 = if v4 { yield v0 } else { yield v0 }", "write 1 names"),
            ("v9 = while carry v10 = v0 { yield v4 } do { yield v0 }", "0 carried values"),
        ]),
        C::Const => lines(&[("v9 = const 5 : i32", "operand's place")]),
        C::Indices => lines(&[
            ("v9 = load v2[0] : tile<4x4xf32>", "one per dimension"),
            ("store v2[0, 0, 0], v3", "3 indices"),
            ("store v2[], v3", "0 indices"),
        ]),

        C::Undefined => lines(&[
            ("v9 = add v0, v77", "v77"),
            ("v9 = add v9, v0", "v9"),
            ("v9 = add v0, %b", "check the name"),
            ("for v9 in 0..v9 step 1 { yield }", "v9"),
        ]),
        C::Redefined => lines(&[
            ("v0 = add v1, v1", "line 1"),
            ("v9, v9 = while carry v10 = v0, v11 = v0 { yield v4 } do carry v12, v13 { yield v12, v13 }", "line 2"),
            ("for v9 in 0..v0 step 1 carry v9 = v0 { yield v0 }", "another number"),
            ("%a = add v0, v0\n%a = add v0, v0", "%a is defined on line 2 already; use another name"),
        ]),
        C::Scope => lines(&[("for v9 in 0..v0 step 1 { yield }\n v10 = add v9, v0", "block that has ended")]),
        C::Literal => lines(&[
            ("v9 = add v0, 0.5", "write an integer"),
            ("v9 = add v0, inf", "no i32"),
            ("v9 = select 1, v0, v0", "`true` or `false`"),
            ("v9 = and v4, 1", "`true` or `false`"),
        ]),

        C::Types => lines(&[
            ("v9 = add v0, v1", "differ in type"),
            ("v9 = add v3, v0", "splat"),
            ("v9 = add v0, v0 : i32", "remove"),
            ("v9 = splat v1", "write `: type`"),
            ("v9 = sqrt 4", "float"),
            ("v9 = transpose v3, [1, 1]", "permutation"),
            ("v9 = load v0[0, 0] : tile<4x4xf32>", "reads a view"),
            ("v9 = load v2[v1, 0] : tile<4x4xf32>", "scalar i32"),
            ("store v2[0, 0], 5", "needs a tile"),
            ("v9 = local_alloc : tile<4xf32>", "makes local memory"),
            ("v9 = local_alloc swizzle=48 : shared<64x64xf32>", "write `swizzle=32`, 64 or 128"),
            ("v9 = local_alloc : shared<4xf32>\nv10 = local_alloc alias=v9 : shared<8xf32>", "let the larger own"),
            ("v9 = local_alloc : shared<4xf32>\nv10 = local_index v9, 0", "no dimension"),
            ("v9 = local_alloc : shared<2x4xf32>\nv10 = local_index v9, v1", "scalar i32"),
            ("v9 = local_alloc : shared<4xf32>\nv10 = local_slice v9, [2] : shared<4xf32>", "does not lie inside"),
            ("v9 = local_alloc : shared<4xf32>\nv10 = local_reinterpret v9 : shared<4xf16>", "keeps the bytes"),
            ("v9 = local_alloc : shared<4x4xf32>\nv10 = local_transpose v9, [0]", "permutation"),
            ("v9 = local_alloc : shared<4x4xf32>\nlocal_store v9, v3", "takes tile<4x4xf32>"),
            ("v9 = local_load v3", "must be local memory"),
            ("v9 = barrier_alloc 0 : barrier<2>", "1 to"),
            ("v9 = barrier_alloc 1 : f32", "makes barriers"),
            ("v9 = barrier_alloc 1 : barrier<2>\nbarrier_wait v9, 0", "barrier_index"),
            ("v9 = barrier_alloc 1 : barrier<1>\nbarrier_expect v9, 0", "bytes"),
            ("v9 = barrier_alloc 1 : barrier<1>\nbarrier_arrive v0", "must be a barrier"),
            ("named_barrier_sync 16, 4", "1 to 15"),
            ("v9 = local_alloc : shared<4x4xf16>\nasync_store v2[0, 0], v9", "element and rank"),
            ("v9 = local_alloc : shared<4x4xf32>\nasync_reduce xchg v2[0, 0], v9", "does not take f32"),
            ("v9 = local_alloc : shared<4x4xf32>\nasync_load v2[0, 0], v9, v9", "must be a barrier"),
            ("v9 = local_alloc : shared<4x8xf16>\nv10 = async_dot v9, v9, v3", "MxK"),
            ("v9 = async_dot v3, v3, v3", "second operand"),
            ("v9 = async_dot_wait v0, 0", "result of an `async_dot`"),
            ("v9 = channel_alloc : channel<2, tile<4xf32>>\nchannel_put v9, 0, v3", "the channel names"),
            ("v9 = channel_get v0, 0", "takes a channel"),
            ("v9 = barrier_alloc 1 : barrier<2>\nv10 = add v9, v9", "takes scalars or tiles"),
        ]),
        C::TypeLimits => lines(&[
            ("v9 = splat v1 : tile<0xf32>", "extent 0"),
            ("v9 = splat v1 : tile<f32>", "0 dimensions"),
            ("v9 = splat v1 : tile<1x1x1x1x1x1x1xf32>", "1 to 6"),
            ("v9 = splat v1 : tile<65536x65536xf32>", "smaller tile"),
            ("v9 = local_alloc : shared<4x3xi4>", "must be even"),
            ("v9 = barrier_alloc 1 : barrier<0>", "1 to 1024"),
            ("v9 = channel_alloc : channel<0, tile<4xf32>>", "0 slots"),
            ("v9 = channel_alloc : channel<2>", "0 tiles"),
            ("v9 = local_alloc : shared<1024x1024xf32>", "up to 1048576"),
            ("v9 = channel_alloc : channel<2, tile<512x512xf32>>", "smaller tiles or fewer slots"),
            ("v9 = channel_alloc : channel<1, tile<512x512xf32>, tile<4xf32>>", "a barrier counts up to"),
            ("v9 = channel_alloc : channel<1, tile<1x1x1x1x1x4xf32>>", "7 dimensions"),
        ])
        .into_iter()
        .chain(texts(&[("kernel @a(v0: view<f32, [1, 1, 1, 1, 1, 1, 1]>) {\n}", "at most 6")]))
        .collect(),
    }
}

#[test]
fn every_code_has_its_text_and_examples() {
    let mut texts: Vec<&str> = Vec::new();
    for &code in ParseCode::ALL {
        assert!(!code.doc().trim().is_empty());
        texts.push(code.text());
        let all = examples(code);
        assert!(!all.is_empty(), "{code} has no example");
        for (text, part) in all {
            let e = refused(&text);
            let head: String = text.chars().take(300).collect();
            assert!(e.has(code), "{code} is not among\n{e}\nof\n{head}");
            assert!(e.to_string().contains(part), "`{part}` is not in\n{e}");
            assert_eq!(e.errors.len(), 1, "one mistake, one message; not\n{e}\nof\n{head}");
        }
    }
    let mut sorted = texts.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(texts, sorted, "codes are distinct and in order");
}

#[test]
fn the_deepest_nesting_is_accepted() {
    assert!(parse(&nested(64)).is_ok());
}

#[test]
fn a_message_shows_the_line() {
    let e = refused("kernel @a(v0: i32) {\n    v1 = ad v0, v0\n}");
    assert_eq!(
        e.to_string(),
        "error[P0301]: there is no op `ad`; did you mean `add`?\n --> 2:10\n  |\n2 |     v1 = ad v0, v0\n  |          ^~"
    );
    // A line of any length is shown around the mistake.
    let long = format!("kernel @a({}v0: i32) {{\n}}", "x ".repeat(100_000));
    assert!(refused(&long).to_string().len() < 1000);
    let long = format!("kernel @a() {{\n v0 = program_id x{}$\n}}", " ".repeat(100_000));
    let text = refused(&long).to_string();
    assert!(text.len() < 1000 && text.contains('$') && text.contains("2:100019"), "{text}");
}

#[test]
fn several_lines_are_reported_and_results_of_mistakes_do_not_echo() {
    let e = refused(
        "kernel @a(v0: i32) {
            v1 = ad v0, v0
            v2 = add v1, v0
            v3 = for v4 in 0..v2 stp 1 carry v5 = v0 {
                v6 = ad v0, v0
                yield v6
            }
            v7 = if v3 {
                v8 = add v0, 0.5
                yield v8
            } else { yield v77 }
            v9 = add v7, v3
            v10 = add v0, v78
        }
        nonsense
        kernel @b() {
            v0 = sqrt 1
        }",
    );
    let seen: Vec<(u32, ParseCode)> = e.errors.iter().map(|e| (e.loc.line, e.code)).collect();
    use ParseCode as C;
    assert_eq!(
        seen,
        [(2, C::Op), (4, C::Expected), (9, C::Literal), (11, C::Undefined), (13, C::Undefined), (15, C::Expected), (17, C::Types)],
        "{e}"
    );
}

#[test]
fn reports_are_limited() {
    let e = refused(&within(&"v9 = ad v0\n".repeat(1000)));
    assert_eq!((e.errors.len(), e.more), (MAX_ERRORS, true));
    let e = refused(&within(&"$\n".repeat(100_000)));
    assert_eq!((e.errors.len(), e.more), (MAX_ERRORS, true));
    assert!(e.to_string().ends_with("mend these 20 first"));
}

/// Texts changed at random: the parser answers, and what it accepts prints to something that it accepts again.
#[test]
fn mutated_texts_never_panic() {
    let seeds = [super::ALL_FORMS, super::PLAIN_OPS, super::EXPLICIT_OPS];
    let pieces = [
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "v1",
        "v99",
        "=",
        ",",
        ":",
        "..",
        "-",
        "?",
        "%",
        "\n",
        ";",
        "tile<",
        "tile<4xf32>",
        "view<",
        ">",
        "kernel @k",
        "for",
        "while",
        "if",
        "else",
        "do",
        "carry",
        "yield",
        "1e999",
        "1.",
        "-inf",
        "nan_f16",
        "999999999999",
        "é",
        "\t",
        "\r",
        "\0",
        "x",
        "i64",
        "_",
    ];
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = move |n: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % n
    };
    let mut accepted = 0;
    for round in 0..20_000 {
        let mut text = seeds[round % seeds.len()].to_owned();
        for _ in 0..=next(4) {
            let at = |text: &str, n: usize| (0..=n.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
            let a = at(&text, next(text.len() + 1));
            let b = at(&text, a + next(12));
            match next(5) {
                0 => text.replace_range(a..b, ""),
                1 => text.insert_str(a, pieces[next(pieces.len())]),
                2 => text.replace_range(a..b, pieces[next(pieces.len())]),
                3 => {
                    let copy = text[a..b].to_owned();
                    let c = at(&text, next(text.len() + 1));
                    text.insert_str(c, &copy);
                }
                _ => {
                    // Whole lines change places.
                    let mut lines: Vec<&str> = text.lines().collect();
                    let n = lines.len();
                    if n > 0 {
                        lines.swap(next(n), next(n));
                    }
                    text = lines.join("\n");
                }
            }
        }
        match parse(&text) {
            Ok(f) => {
                accepted += 1;
                for k in &f.kernels {
                    // What verifies also prints faithfully; what does not must still print.
                    let printed = print(k);
                    if crate::verify::verify(k).is_ok() {
                        let again = parse(&printed).unwrap_or_else(|e| panic!("{e}\nof\n{printed}"));
                        assert_eq!(print(&again.kernels[0]), printed);
                    }
                }
            }
            Err(e) => assert!(!e.errors.is_empty() && !e.to_string().is_empty()),
        }
    }
    assert!((200..19_000).contains(&accepted), "{accepted} accepted: the mutations are too mild or too wild");
}
