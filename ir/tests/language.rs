//! `docs/language.md` says what the tables say: its generated parts follow from the op table and the code enums, its examples
//! verify, and its hand-written tables name every word. `TILELIFT_BLESS=1` rewrites the generated parts.

use std::fmt::Write;
use tilelift_ir::ops::{AttrKind, OperandKind, Rule};
use tilelift_ir::text::{ParseCode, parse, print};
use tilelift_ir::{
    AtomicOp, CacheHint, Class, CmpOp, Effects, GridAxis, MemoryOrder, Op, Precision, ReduceOp, Scalar, Scope, SortOrder, VerifyCode,
    verify,
};

fn path() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/language.md")
}

fn document() -> String {
    std::fs::read_to_string(path()).expect("docs/language.md is there")
}

fn scalars() -> String {
    let mut out = String::from("| scalar | bits | kind |\n| --- | --- | --- |\n");
    for s in Scalar::ALL {
        let class = match s.class() {
            Class::Bool => "truth value",
            Class::Int => "integer",
            Class::Float => "float",
            Class::Narrow => "float for storage and `dot`",
            Class::NarrowInt => "integer for storage and `dot`",
        };
        writeln!(out, "| `{s}` | {} | {class} |", s.bits()).expect("to a string");
    }
    out
}

/// The types of an op of explicit control.
fn explicit_typing(op: Op) -> &'static str {
    match op {
        Op::LocalAlloc => "the written shared type",
        Op::LocalIndex => "local memory of at least two dimensions and a scalar `i32`; the result lacks the first dimension",
        Op::LocalSlice => "local memory; the written shared type has its element and rank and lies inside it at the offsets",
        Op::LocalTranspose => "local memory; the result has the permuted extents",
        Op::LocalReinterpret => "local memory; the written shared type has as many bytes",
        Op::LocalLoad => "local memory; the result is the tile of its extents and element",
        Op::LocalStore => "local memory and the tile of its extents and element",
        Op::BarrierAlloc => "the written barrier type",
        Op::BarrierIndex => "barriers and a scalar `i32`; the result is one barrier",
        Op::BarrierExpect | Op::BarrierArrive | Op::CopyAsyncArrive => "one barrier",
        Op::BarrierWait => "one barrier and a scalar `i32`",
        Op::AsyncLoad => {
            "one scalar `i32` index per dimension of the view; local memory of the view's element and rank; one barrier; the mask is a scalar `i32`"
        }
        Op::AsyncStore => "one scalar `i32` index per dimension of the view; local memory of the view's element and rank",
        Op::CopyAsync => {
            "one scalar `i32` index per dimension of the view; local memory of the view's element and rank; the mask is `i1` of the memory's \
             extents, `other` a scalar of its element"
        }
        Op::GatherAsync => {
            "one tile `i32` per dimension of the view, all of the same extents; local memory of the view's element and of these extents; the mask is \
             `i1` of the memory's extents"
        }
        Op::AsyncReduce => "as `async_store`; the elements are `i32` or `i64` (all updates but `xchg`), or `f32`, `f16` or `bf16` (`add`)",
        Op::AsyncDot => {
            "matrices `MxK` (a tile, or local memory), `KxN` (local memory) and a tile `MxN`, of elements as `dot` takes them; the result has the              accumulator's type"
        }
        Op::AsyncDotWait => "a tile; the result has its type",
        Op::RemoteLoad => "local memory and a scalar `i32`; the result is the tile of its extents and element",
        Op::RemoteStore => "local memory, a scalar `i32`, and the tile of the memory's extents and element",
        Op::RemoteStoreAsync => "local memory, a scalar `i32`, the tile of the memory's extents and element, and one barrier",
        Op::RemoteArrive => "one barrier and a scalar `i32`",
        Op::ChannelAlloc => "the written channel type",
        Op::ChannelPut => "a channel, a scalar `i32`, and a tile of each of the channel's types",
        Op::ChannelGet => "a channel and a scalar `i32`; the results are tiles of the channel's types",
        Op::ChannelConsumed => "a channel and a scalar `i32`",
        _ => "none",
    }
}

fn typing(op: Op) -> &'static str {
    match op.info().rule {
        Rule::Handle | Rule::Local | Rule::Act | Rule::Receive => explicit_typing(op),
        Rule::Explicit => "the literal's type, a scalar",
        Rule::SameNumber => "operands and result have one type, scalar or tile, of integers or floats",
        Rule::SameFloat => "operands and result have one type, scalar or tile, of floats",
        Rule::SameInt => "operands and result have one type, scalar or tile, of integers",
        Rule::SameBits => "operands and result have one type, scalar or tile, of integers or `i1`",
        Rule::Compare => "two operands of one type, scalar or tile; the result is `i1` of that shape",
        Rule::Select => "the condition is a scalar `i1`, or `i1` of the operands' shape; operands and result have one type",
        Rule::Index => "the result is a scalar `i32`",
        Rule::Iota => "the written tile type, of integers",
        Rule::Splat => "a scalar becomes the written tile type of that element",
        Rule::Cast => "the written type has the operand's shape",
        Rule::Bitcast => "the written type has the operand's shape and an element of the same width",
        Rule::Broadcast => "the written tile type has the operand's rank and element; each extent is the operand's, or the operand's is 1",
        Rule::Reshape => "the written type has the operand's element and number of elements; a scalar counts as one element",
        Rule::Transpose => "a tile; the result has the permuted extents",
        Rule::Reduce => "a tile; the result lacks the axis, and is a scalar if no axis is left",
        Rule::Join => "two tiles of one type; the result has one more dimension, of extent 2, innermost",
        Rule::Split => "a tile whose last extent is 2; two results that lack that dimension, scalars if none is left",
        Rule::Concat => "two tiles of one element and rank whose extents agree but along the axis; there the result has their sum",
        Rule::Slice => "a tile; the written tile type has its element and rank and lies inside it at the offsets",
        Rule::Flip => "a tile; the result has its type",
        Rule::Scan => "a tile; the result has its type",
        Rule::ArgReduce => "a tile of numbers; the result is `i32` and lacks the axis, and is a scalar if no axis is left",
        Rule::Assume => "a scalar integer; the result has its type",
        Rule::Held => "a tile, not of `i4` or `f4e2m1`; the result has its type",
        Rule::Assert => "`i1`, scalar or tile",
        Rule::Print => "any scalars and tiles",
        Rule::Dot => {
            "tiles `MxK`, `KxN` and `MxN`, or `BxMxK`, `BxKxN` and `BxMxN`; `f16` into `f16` or `f32`, `bf16`, `f32` and floats of 8 and 4 bits but \
             `f8e8m0` into `f32`, `f64` into `f64`, `i8` and `i4` into `i32`; the operands have one type, or are any two floats of 8 and 4 bits, or \
             `i8` and `i4`; the result has the accumulator's type"
        }
        Rule::DotScaled => {
            "tiles `MxK`, `MxK/32`, `KxN`, `K/32xN` and `MxN`, or all of them with a leading extent `B`; K is a multiple of 32; the operands are `f8e4m3`, \
             `f8e5m2` or `f4e2m1`, each its own, the scales `f8e8m0`, the accumulator `f32`; the result has the accumulator's type"
        }
        Rule::Load => {
            "one scalar `i32` index per dimension of the view; the written tile type has the view's element and rank; the mask is `i1` of \
             that shape, `other` a scalar of that element"
        }
        Rule::Store => {
            "one scalar `i32` index per dimension of the view; the tile has the view's element and rank; the mask is `i1` of that shape"
        }
        Rule::Prefetch => "one scalar `i32` index and one extent per dimension of the view; no result",
        Rule::Gather => {
            "one tile of `i32` per dimension of the view, all of one shape; the result has that shape and the view's element; the mask is `i1` of \
             that shape, `other` a scalar of that element"
        }
        Rule::Scatter => {
            "one tile of `i32` per dimension of the view, all of one shape; the value has that shape and the view's element; the mask is `i1` of \
             that shape"
        }
        Rule::Atomic => {
            "one tile of `i32` per dimension of the view, all of one shape; operands and result have that shape and the view's element (`i32`, \
             `i64`; for `add` and `xchg` also `f32`, `f64`; for `add` also `f16`, `bf16`); the mask is `i1` of that shape"
        }
        Rule::GatherTile => {
            "a tile and a tile of `i32` that differs from it in the axis's extent at most; the result has the indices' shape"
        }
        Rule::Histogram => "a tile of integers, a mask of that shape; the written type is a tile of one dimension of `i32`",
        Rule::Sort => "a tile; the result has its type",
        Rule::ArgSort => "a tile; the result is `i32` of its shape",
        Rule::TopK => "a tile; the written type has its element and extents, but at most its extent along the axis",
        Rule::ArgTopK => "a tile; the written type is `i32` of its extents, but at most its extent along the axis",
        Rule::ReduceBy => {
            "tiles of one shape; the region gets two scalars of each element and yields one of each; a result per tile, without the axis, a \
             scalar if no axis is left"
        }
        Rule::ScanBy => {
            "tiles of one shape; the region gets two scalars of each element and yields one of each; a result per tile, of its type"
        }
        Rule::Philox => "operands and the four results have one type, `i32` or a tile of it",
        Rule::Control => "see [Control](#control)",
    }
}

fn effects(e: Effects) -> &'static str {
    match e {
        Effects::Pure => "pure",
        Effects::Reads => "reads memory",
        Effects::Writes => "writes memory",
        Effects::Updates => "reads and writes memory",
        Effects::Observes => "stops or reports",
        Effects::Shared => "on what tasks, blocks and async units share",
        Effects::AsyncReads => "an async unit reads memory",
        Effects::AsyncWrites => "an async unit writes memory",
        Effects::AsyncUpdates => "an async unit reads and writes memory",
        Effects::Control => "control",
    }
}

/// The row's text form with operand names in the operands' places.
fn form(op: Op) -> String {
    let info = op.info();
    let attr = |kind: AttrKind| match kind {
        AttrKind::Grid => "axis",
        AttrKind::Cmp => "comparison",
        AttrKind::Reduce => "combination",
        AttrKind::Dim => "dimension",
        AttrKind::AxisDim => "axis dimension",
        AttrKind::Perm => "[permutation]",
        AttrKind::Offsets => "[number, …]",
        AttrKind::Divisor => "multiple divisor",
        AttrKind::Precision => "⟨precision⟩",
        AttrKind::Atomic => "update",
        AttrKind::Sync => "⟨, order=order⟩⟨, scope=scope⟩",
        AttrKind::Cache => "⟨, cache=hint⟩",
        AttrKind::Sort => "direction",
        AttrKind::Layout => "layout",
        AttrKind::Count => "number",
        AttrKind::Few => "⟨number⟩",
        AttrKind::Swizzle => "⟨, swizzle=bytes⟩",
        AttrKind::Tasks | AttrKind::Literal => "literal",
    };
    let mut out = match info.results() {
        _ if info.rule == Rule::Receive => "v8, … = ".to_owned(),
        0 => String::new(),
        1 => "v9 = ".to_owned(),
        2 => "v8, v9 = ".to_owned(),
        _ => "v6, v7, v8, v9 = ".to_owned(),
    };
    out += info.name;
    if let Some(kind) = info.lead {
        out = out + " " + attr(kind);
    }
    for (j, o) in info.operands.iter().enumerate() {
        let comma = if j == 0 { " " } else { ", " };
        out += &match o.kind {
            OperandKind::Plain => format!("{comma}{}", o.name),
            OperandKind::Indices => format!("[{}, …]", o.name),
            OperandKind::Keyword if j == 0 => format!(" ⟨{0}={0}⟩", o.name),
            OperandKind::Keyword => format!("⟨, {0}={0}⟩", o.name),
            OperandKind::Variadic if j > 0 => format!(", {}, …", o.name),
            OperandKind::Variadic => format!(" ⟨{}, …⟩", o.name),
        };
    }
    if let Some(kind) = info.trail {
        out += match kind {
            AttrKind::Precision => " ",
            AttrKind::Cache | AttrKind::Sync | AttrKind::Swizzle => "",
            _ if info.lead.is_none() && info.operands.is_empty() => " ",
            _ => ", ",
        };
        out += attr(kind);
    }
    if info.typed() {
        out += " : type";
    }
    out
}

fn ops() -> String {
    let mut out = String::new();
    for &op in Op::ALL {
        let info = op.info();
        let doc = info.doc.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        write!(out, "### `{op}`\n\n").expect("to a string");
        if info.regions == 0 && op != Op::Const {
            write!(out, "```text\n{}\n```\n\n", form(op)).expect("to a string");
        }
        write!(out, "{}\n\nTypes: {}. Effects: {}.\n\n", doc.trim(), typing(op), effects(info.effects)).expect("to a string");
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

fn codes(rows: impl Iterator<Item = (&'static str, &'static str)>) -> String {
    let mut out = String::from("| code | meaning |\n| --- | --- |\n");
    for (text, doc) in rows {
        writeln!(out, "| {text} | {} |", doc.trim()).expect("to a string");
    }
    out
}

/// The document with fresh generated parts.
fn fresh(mut text: String) -> String {
    let parts = [
        ("scalars", scalars()),
        ("ops", ops()),
        ("parse codes", codes(ParseCode::ALL.iter().map(|c| (c.text(), c.doc())))),
        ("verify codes", codes(VerifyCode::ALL.iter().map(|c| (c.text(), c.doc())))),
    ];
    for (name, body) in parts {
        let mark = format!("<!-- generated: {name} -->\n");
        let start = text.find(&mark).unwrap_or_else(|| panic!("docs/language.md lacks {mark}")) + mark.len();
        let end = start + text[start..].find("<!-- end -->").expect("each generated part has an end");
        text.replace_range(start..end, &format!("\n{body}\n"));
    }
    text
}

#[test]
fn the_generated_parts_follow_from_the_tables() {
    let have = document();
    let want = fresh(have.clone());
    if std::env::var_os("TILELIFT_BLESS").is_some() {
        std::fs::write(path(), &want).expect("docs/language.md can be written");
    } else if have != want {
        let line = have.lines().zip(want.lines()).position(|(a, b)| a != b).unwrap_or(0);
        panic!("docs/language.md is stale from line {}; run the test with TILELIFT_BLESS=1", line + 1);
    }
}

#[test]
fn the_examples_verify_and_are_in_printed_form() {
    let text = document();
    let examples: Vec<&str> = text.split("```tile\n").skip(1).map(|s| s.split("```").next().unwrap_or("")).collect();
    assert!(examples.len() >= 2);
    for example in examples {
        let file = parse(example).unwrap_or_else(|e| panic!("{e}"));
        for k in &file.kernels {
            if let Err(e) = verify(k) {
                panic!("{}", e.pretty(k));
            }
        }
        assert_eq!(file.kernels.iter().map(print).collect::<String>(), example);
    }
}

#[test]
fn every_word_is_explained() {
    let text = document();
    let words = text.split("## Words").nth(1).and_then(|t| t.split("\n## ").next()).expect("the section is there");
    let all = GridAxis::ALL.iter().map(|w| w.word()).chain(CmpOp::ALL.iter().map(|w| w.word()));
    let all = all.chain(AtomicOp::ALL.iter().map(|w| w.word())).chain(MemoryOrder::ALL.iter().map(|w| w.word()));
    let all = all.chain(Scope::ALL.iter().map(|w| w.word())).chain(CacheHint::ALL.iter().map(|w| w.word()));
    let all = all.chain(SortOrder::ALL.iter().map(|w| w.word()));
    for w in all.chain(ReduceOp::ALL.iter().map(|w| w.word())).chain(Precision::ALL.iter().map(|w| w.word())) {
        assert!(words.contains(&format!("`{w}`")), "`{w}` is not explained");
    }
}
