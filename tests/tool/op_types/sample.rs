//! A tiny kernel for an op and an element type, as text that follows from the op's row.

use tilelift_ir::ops::{AttrKind, OperandKind, Rule};
use tilelift_ir::{AtomicOp, CmpOp, GridAxis, Op, Precision, ReduceOp, Scalar, SortOrder};

/// A kernel with one op of interest. Every parameter but the last is an input.
pub struct Sample {
    pub op: Op,
    /// The row's word, if it has one: `add`, `lt`.
    pub word: &'static str,
    /// The types: `f32`, or `f32 to f16`.
    pub types: String,
    pub text: String,
}

/// The tile of most samples: an odd number of elements, so that some lanes hold copies; even extents where two elements share a byte.
fn extents(packed: bool) -> [u32; 2] {
    if packed { [4, 6] } else { [3, 7] }
}

/// The words that a row may be written with.
fn words(op: Op) -> Vec<&'static str> {
    let info = op.info();
    match info.lead.into_iter().chain(info.trail).find(|k| !matches!(k, AttrKind::AxisDim | AttrKind::Sync)) {
        Some(AttrKind::Grid) => GridAxis::ALL.iter().map(|w| w.word()).collect(),
        Some(AttrKind::Cmp) => CmpOp::ALL.iter().map(|w| w.word()).collect(),
        Some(AttrKind::Reduce) => ReduceOp::ALL.iter().map(|w| w.word()).collect(),
        Some(AttrKind::Atomic) => AtomicOp::ALL.iter().map(|w| w.word()).collect(),
        Some(AttrKind::Sort) => SortOrder::ALL.iter().map(|w| w.word()).collect(),
        Some(AttrKind::Precision) => Precision::ALL.iter().map(|w| w.word()).collect(),
        Some(
            AttrKind::Dim
            | AttrKind::AxisDim
            | AttrKind::Perm
            | AttrKind::Offsets
            | AttrKind::Divisor
            | AttrKind::Sync
            | AttrKind::Cache
            | AttrKind::Count
            | AttrKind::Few
            | AttrKind::Swizzle
            | AttrKind::Tasks
            | AttrKind::Layout
            | AttrKind::Literal,
        )
        | None => vec![""],
    }
}

/// Every sample of an op: over its words and all element types, accepted by the typing rules or not.
pub fn samples(op: Op) -> Vec<Sample> {
    let two = matches!(op.info().rule, Rule::Cast | Rule::Bitcast | Rule::Dot | Rule::DotScaled);
    let mut out = Vec::new();
    for word in words(op) {
        for t in Scalar::ALL.iter().copied() {
            for &u in if two { Scalar::ALL } else { std::slice::from_ref(&t) } {
                // Ops whose types do not vary have a sample for the type they have.
                let fixed = matches!(op, Op::ProgramId | Op::NumPrograms);
                if fixed && t != Scalar::I32 {
                    continue;
                }
                let types = if two { format!("{t} to {u}") } else { t.to_string() };
                out.push(Sample { op, word, types, text: text(op, word, t, u) });
            }
        }
    }
    out
}

/// A literal that every type has.
fn one(t: Scalar) -> &'static str {
    match t {
        Scalar::I1 => "true",
        _ if t.is_float() => "1.0",
        _ => "1",
    }
}

/// The type of a view of any extents.
fn view(t: Scalar, rank: usize) -> String {
    let mut dims = vec!["?"; rank];
    if t.is_packed() {
        dims[rank - 1] = "?%2";
    }
    format!("view<{t}, [{}]>", dims.join(", "))
}

/// The text: loads of the operands, the op, a store of what it makes.
struct Text {
    params: Vec<String>,
    body: Vec<String>,
    next: u32,
}

impl Text {
    fn value(&mut self) -> String {
        self.next += 1;
        format!("v{}", self.next + 99)
    }
    /// A parameter of a type.
    fn param(&mut self, ty: &str) -> String {
        let v = format!("v{}", self.params.len());
        self.params.push(format!("{v}: {ty}"));
        v
    }
    /// A tile from memory.
    fn tile(&mut self, shape: &str, t: Scalar) -> String {
        let p = self.param(&view(t, 2));
        let v = self.value();
        self.body.push(format!("{v} = load {p}[0, 0] : tile<{shape}{t}>"));
        v
    }
    /// A tile of the indices along a dimension.
    fn iota(&mut self, shape: &str, d: u32) -> String {
        let v = self.value();
        self.body.push(format!("{v} = iota {d} : tile<{shape}i32>"));
        v
    }
    fn op(&mut self, line: String) -> String {
        let v = self.value();
        self.body.push(format!("{v} = {line}"));
        v
    }
    /// Stores a tile of a type.
    fn store(&mut self, v: &str, rank: usize, t: Scalar) {
        let zeros = vec!["0"; rank].join(", ");
        let p = self.param(&view(t, rank));
        self.body.push(format!("store {p}[{zeros}], {v}"));
    }
    fn store_scalar(&mut self, v: &str, t: Scalar) {
        let tile = self.op(format!("splat {v} : tile<{}x{t}>", 1 + u32::from(t.is_packed())));
        self.store(&tile, 1, t);
    }
    fn done(self) -> String {
        format!("kernel @sample({}) warps=2 {{\n{}\n}}\n", self.params.join(", "), self.body.join("\n"))
    }
}

fn text(op: Op, word: &str, t: Scalar, u: Scalar) -> String {
    let mut x = Text { params: Vec::new(), body: Vec::new(), next: 0 };
    let info = op.info();
    let plain = info.operands.iter().filter(|o| o.kind == OperandKind::Plain).count();
    let i1 = Scalar::I1;
    let packed = t.is_packed() || u.is_packed();
    let [rows, cols] = extents(packed);
    let shape = format!("{rows}x{cols}x");
    match info.rule {
        Rule::Explicit => {
            let v = x.op(format!("splat {} : tile<{shape}{t}>", one(t)));
            x.store(&v, 2, t);
        }
        Rule::SameNumber | Rule::SameFloat | Rule::SameInt | Rule::SameBits | Rule::Compare | Rule::Select | Rule::Join | Rule::Philox => {
            let mut args: Vec<String> = Vec::new();
            for k in 0..plain {
                let elem = if info.rule == Rule::Select && k == 0 { i1 } else { t };
                args.push(x.tile(&shape, elem));
            }
            let line = format!("{op} {word} {}", args.join(", "));
            if info.results() == 1 {
                let v = x.op(line);
                let (rank, elem) = (if info.rule == Rule::Join { 3 } else { 2 }, if info.rule == Rule::Compare { i1 } else { t });
                x.store(&v, rank, elem);
            } else {
                let all: Vec<String> = (0..info.results()).map(|_| x.value()).collect();
                x.body.push(format!("{} = {line}", all.join(", ")));
                all.iter().for_each(|v| x.store(v, 2, t));
            }
        }
        Rule::Index => {
            let line = if op == Op::Dim { format!("{op} {}, 1", x.param(&view(t, 2))) } else { format!("{op} {word}") };
            let v = x.op(line);
            x.store_scalar(&v, Scalar::I32);
        }
        Rule::Iota => {
            let v = x.op(format!("{op} 1 : tile<{shape}{t}>"));
            x.store(&v, 2, t);
        }
        Rule::Splat => {
            let s = x.param(&t.to_string());
            let v = x.op(format!("{op} {s} : tile<{shape}{t}>"));
            x.store(&v, 2, t);
        }
        Rule::Cast | Rule::Bitcast => {
            let a = x.tile(&shape, t);
            // The same bits are more elements of a narrower type; what makes no whole ones is refused.
            let to = if op == Op::Bitcast && packed { (cols * t.bits() / u.bits()).max(2) } else { cols };
            let v = x.op(format!("{op} {a} : tile<{rows}x{to}x{u}>"));
            x.store(&v, 2, u);
        }
        Rule::Broadcast => {
            let a = if packed { x.tile(&format!("1x{cols}x"), t) } else { x.tile(&format!("{rows}x1x"), t) };
            let v = x.op(format!("{op} {a} : tile<{shape}{t}>"));
            x.store(&v, 2, t);
        }
        Rule::Reshape => {
            let a = x.tile(&shape, t);
            let v = x.op(format!("{op} {a} : tile<{}x{t}>", rows * cols));
            x.store(&v, 1, t);
        }
        Rule::Transpose => {
            let a = x.tile(&shape, t);
            let v = x.op(format!("{op} {a}, [1, 0]"));
            x.store(&v, 2, t);
        }
        Rule::Reduce | Rule::ArgReduce => {
            let a = x.tile(&format!("{rows}x28x"), t);
            let v = x.op(format!("{op} {word} {a}, axis 1"));
            x.store(&v, 1, if info.rule == Rule::Reduce { t } else { Scalar::I32 });
        }
        Rule::Scan => {
            let a = x.tile(&format!("{rows}x28x"), t);
            let v = x.op(format!("{op} {word} {a}, axis 1"));
            x.store(&v, 2, t);
        }
        Rule::Flip | Rule::Sort | Rule::ArgSort => {
            let a = x.tile(&shape, t);
            let v = x.op(format!("{op} {word} {a}, axis 1"));
            x.store(&v, 2, if info.rule == Rule::ArgSort { Scalar::I32 } else { t });
        }
        Rule::TopK | Rule::ArgTopK => {
            let to = if info.rule == Rule::ArgTopK { Scalar::I32 } else { t };
            let a = x.tile(&shape, t);
            let v = x.op(format!("{op} {word} {a}, axis 1 : tile<{rows}x4x{to}>"));
            x.store(&v, 2, to);
        }
        Rule::Split => {
            let a = x.tile(&format!("{rows}x2x"), t);
            let (p, q) = (x.value(), x.value());
            x.body.push(format!("{p}, {q} = {op} {a}"));
            x.store(&p, 1, t);
            x.store(&q, 1, t);
        }
        Rule::Concat => {
            let (a, b) = (x.tile(&shape, t), x.tile(&format!("2x{cols}x"), t));
            let v = x.op(format!("{op} {a}, {b}, axis 0"));
            x.store(&v, 2, t);
        }
        Rule::Slice => {
            let a = x.tile(&shape, t);
            let v = x.op(format!("{op} {a}, [1, 2] : tile<2x{}x{t}>", cols - 2));
            x.store(&v, 2, t);
        }
        Rule::Assume => {
            let s = x.param(&t.to_string());
            let v = x.op(format!("{op} {s}, multiple 1"));
            x.store_scalar(&v, t);
        }
        Rule::Held => {
            let a = x.tile(&shape, t);
            let layout = if op == Op::RequireLayout { ", blocked(size=[1, 1], lanes=[4, 8], warps=[2, 1], order=[1, 0])" } else { "" };
            let v = x.op(format!("{op} {a}{layout}"));
            x.store(&v, 2, t);
        }
        Rule::Assert => {
            let a = x.tile(&shape, t);
            let b = if t == i1 { x.op(format!("not {a}")) } else { a.clone() };
            let c = if t == i1 { x.op(format!("or {a}, {b}")) } else { b };
            x.body.push(format!("{op} {c}"));
            x.store(&a, 2, t);
        }
        Rule::Print => {
            let a = x.tile(&shape, t);
            x.body.push(format!("{op} {a}"));
            x.store(&a, 2, t);
        }
        Rule::Dot => {
            // Once with a multiple of every instruction, once with odd extents.
            for (m, n, k) in [(16, 16, 32), (5, 7, 3)] {
                let (a, b, c) = (x.tile(&format!("{m}x{k}x"), t), x.tile(&format!("{k}x{n}x"), t), x.tile(&format!("{m}x{n}x"), u));
                let v = x.op(format!("{op} {a}, {b}, {c} {word}"));
                x.store(&v, 2, u);
            }
        }
        Rule::DotScaled => {
            // The types are those of the operands. Once with a multiple of every instruction, once with odd extents.
            let scale = Scalar::F8E8M0;
            for (m, n, k) in [(32, 32, 64), (5, 6, 32)] {
                let (a, of_a) = (x.tile(&format!("{m}x{k}x"), t), x.tile(&format!("{m}x{}x", k / 32), scale));
                let (b, of_b) = (x.tile(&format!("{k}x{n}x"), u), x.tile(&format!("{}x{n}x", k / 32), scale));
                let c = x.tile(&format!("{m}x{n}x"), Scalar::F32);
                let v = x.op(format!("{op} {a}, {of_a}, {b}, {of_b}, {c}"));
                x.store(&v, 2, Scalar::F32);
            }
        }
        Rule::Load => {
            let p = x.param(&view(t, 2));
            let v = x.op(format!("{op} {p}[1, -2], other={} : tile<{shape}{t}>", one(t)));
            x.store(&v, 2, t);
        }
        Rule::Store => {
            let a = x.tile(&shape, t);
            x.store(&a, 2, t);
        }
        Rule::Prefetch => {
            let p = x.param(&view(t, 2));
            x.body.push(format!("{op} {p}[1, -2], [{rows}, {cols}]"));
            let a = x.tile(&shape, t);
            x.store(&a, 2, t);
        }
        Rule::Gather => {
            let p = x.param(&view(t, 2));
            let (i, j) = (x.iota(&shape, 1), x.iota(&shape, 0));
            let v = x.op(format!("{op} {p}[{i}, {j}], other={}", one(t)));
            x.store(&v, 2, t);
        }
        Rule::Scatter => {
            let a = x.tile(&shape, t);
            let (i, j) = (x.iota(&shape, 0), x.iota(&shape, 1));
            let p = x.param(&view(t, 2));
            x.body.push(format!("{op} {p}[{i}, {j}], {a}"));
        }
        Rule::Atomic => {
            let args: Vec<String> = (0..plain - 1).map(|_| x.tile(&shape, t)).collect();
            let (i, j) = (x.iota(&shape, 0), x.iota(&shape, 1));
            let p = x.param(&view(t, 2));
            let v = x.op(format!("{op} {word} {p}[{i}, {j}], {}", args.join(", ")));
            x.store(&v, 2, t);
        }
        Rule::GatherTile => {
            let a = x.tile(&shape, t);
            let i = x.tile(&format!("{rows}x{}x", cols - 2), Scalar::I32);
            let bound = x.op(format!("splat {cols} : tile<{rows}x{}xi32>", cols - 2));
            let at = x.op(format!("rem {i}, {bound}"));
            let v = x.op(format!("{op} {a}, {at}, axis 1"));
            x.store(&v, 2, t);
        }
        Rule::Histogram => {
            let a = x.tile(&shape, t);
            let v = x.op(format!("{op} {a} : tile<9xi32>"));
            x.store(&v, 1, Scalar::I32);
        }
        Rule::ReduceBy | Rule::ScanBy => {
            let a = x.tile(&format!("{rows}x28x"), t);
            // What a type has: a sum, a truth value's, or none, and then the later element.
            let how = match t {
                Scalar::I1 => "xor v90, v91",
                _ if t.is_narrow() => "select true, v91, v90",
                _ => "sub v90, v91",
            };
            let v = x.op(format!("{op} {a}, axis 1 combine v90 with v91 {{\nv92 = {how}\nyield v92\n}}"));
            x.store(&v, if info.rule == Rule::ReduceBy { 1 } else { 2 }, t);
        }
        // Explicit control is no matter of one op: its programs stand under tests/tile/explicit.
        Rule::Handle | Rule::Local | Rule::Act | Rule::Receive => {}
        Rule::Control => {
            let a = x.tile(&shape, t);
            let b = x.tile(&shape, t);
            let line = match op {
                Op::If => {
                    let c = x.param("i1");
                    format!("if {c} {{\nyield {a}\n}} else {{\nyield {b}\n}}")
                }
                Op::While => {
                    let n = x.param("i32");
                    let v = x.value();
                    x.body.push(format!("{v}, v80 = while carry v81 = {a}, v82 = {n} {{\nv83 = cmp gt v82, 0\nyield v83\n}} do carry v84, v85 {{\nv86 = sub v85, 1\nyield {b}, v86\n}}"));
                    x.store(&v, 2, t);
                    return x.done();
                }
                // An index of the type, where it is one.
                _ if t.is_int() => {
                    let n = x.param(&t.to_string());
                    format!(
                        "for v80 in 0..{n} step 1 carry v81 = {a} {{\nv82 = splat v80 : tile<{shape}{t}>\nv83 = add v81, v82\nyield v83\n}}"
                    )
                }
                _ => {
                    let n = x.param("i32");
                    format!("for v80 in 0..{n} step 1 carry v81 = {a} {{\nyield {b}\n}}")
                }
            };
            let v = x.op(line);
            x.store(&v, 2, t);
        }
    }
    x.done()
}
