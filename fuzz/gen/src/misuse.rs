//! Input that nobody promises anything about: any text, any sequence of builder calls. Errors are fine, panics are bugs.

use crate::source::Source;
use tilelift_ir::{Access, CmpOp, Extent, KernelBuilder, Operand, ReduceOp, Scalar, Type, Value, ViewType, text, verify};

/// Parses a text; kernels that parse are verified, printed, and must then parse again to the same text.
///
/// # Panics
/// If a verified kernel's print does not parse, or prints differently the second time: a bug of the text form.
pub fn any_text(source: &str) {
    let Ok(file) = text::parse(source) else { return };
    for k in &file.kernels {
        let verified = verify(k).is_ok();
        let first = text::print(k);
        if verified {
            let again = text::parse(&first).unwrap_or_else(|e| panic!("a print does not parse: {e}\n{first}"));
            assert_eq!(again.kernels.len(), 1, "a print holds one kernel:\n{first}");
            assert_eq!(text::print(&again.kernels[0]), first);
        }
    }
}

/// Calls builder methods with arbitrary operands; what the builder finishes without complaint must verify.
///
/// # Panics
/// If the verifier refuses what the builder accepted, other than for limits that only the verifier checks.
pub fn any_builder_calls(src: &mut Source) {
    let mut b = KernelBuilder::new("calls");
    let mut values = vec![b.program_id(0)];
    let count = 1 + src.below(40);
    calls(src, &mut b, &mut values, count, 0);
    if let Ok(kernel) = b.finish() {
        // Views and control are the verifier's alone: the builder takes any view type, and closures may yield anything.
        if let Err(e) = verify(&kernel) {
            let shown = e.to_string();
            let builder_checks = ["V0201", "V0202", "V0203", "V0204", "V0301", "V0302", "V0303"];
            assert!(!builder_checks.iter().any(|c| shown.contains(c)), "{shown}\n{}", text::print(&kernel));
        }
        let _ = text::print(&kernel);
    }
}

fn extent(src: &mut Source) -> u32 {
    *src.pick(&[1, 16, 8, 3, 0, 129, u32::MAX, 1 << 20]).unwrap_or(&1)
}

fn shape(src: &mut Source) -> Vec<u32> {
    (0..src.below(8)).map(|_| extent(src)).collect()
}

fn operand(src: &mut Source, values: &[Value]) -> Operand {
    match src.below(6) {
        4 => Operand::Int(src.range(0, 300) - 150),
        5 => Operand::Float(*src.pick(&[0.5, f64::NAN, f64::INFINITY, 1e300, -0.0]).unwrap_or(&0.5)),
        _ => Operand::Value(values[values.len() - 1 - src.below(values.len() as u32) as usize]),
    }
}

fn value(src: &mut Source, values: &[Value]) -> Value {
    values[values.len() - 1 - src.below(values.len() as u32) as usize]
}

fn facts(src: &mut Source, n: usize) -> Vec<Extent> {
    (0..n).map(|_| if src.chance(128) { Extent::Dynamic(extent(src)) } else { Extent::Fixed(extent(src)) }).collect()
}

fn calls(src: &mut Source, b: &mut KernelBuilder, values: &mut Vec<Value>, count: u32, depth: u32) {
    for _ in 0..count {
        let elem = *src.pick(Scalar::ALL).unwrap_or(&Scalar::F32);
        let (x, y, z) = (operand(src, values), operand(src, values), operand(src, values));
        let (v, w, u) = (value(src, values), value(src, values), value(src, values));
        let made = match src.below(26) {
            0 => b.add(x, y),
            1 => b.div(x, y),
            2 => b.and(x, y),
            3 => b.maxnum(x, y),
            4 => b.fma(x, y, z),
            5 => b.sqrt(x),
            6 => b.cmp(*src.pick(CmpOp::ALL).unwrap_or(&CmpOp::Eq), x, y),
            7 => b.select(v, x, y),
            8 => b.cast(v, elem),
            9 => b.bitcast(v, elem),
            10 => b.broadcast(v, &shape(src)),
            11 => b.reshape(v, &shape(src)),
            12 => b.transpose(v, &shape(src)),
            13 => b.reduce(*src.pick(ReduceOp::ALL).unwrap_or(&ReduceOp::Add), v, extent(src)),
            14 => b.reduce_keep(*src.pick(ReduceOp::ALL).unwrap_or(&ReduceOp::Add), v, extent(src)),
            15 => b.dot(v, w, u),
            16 => b.dot_tf32(v, w, u),
            17 => b.iota(&shape(src), extent(src)),
            18 => b.splat(x, &shape(src)),
            19 => b.constant(x, elem),
            20 => {
                let n = src.below(8) as usize;
                let mut ty = ViewType::dense(elem, &facts(src, n)).with_align(extent(src));
                if src.chance(80) {
                    let m = src.below(8) as usize;
                    ty = ty.with_strides(&facts(src, m));
                }
                b.param(ty)
            }
            21 => b.param(Type::Scalar(elem)),
            22 => {
                let access = Access { mask: src.chance(60).then_some(w), other: src.chance(60).then_some(x), ..Access::default() };
                let at: Vec<Value> = (0..src.below(4)).map(|_| value(src, values)).collect();
                b.load_with(v, &at, &shape(src), access)
            }
            23 => {
                let at: Vec<Value> = (0..src.below(4)).map(|_| value(src, values)).collect();
                b.store_with(v, &at, w, src.chance(60).then_some(u));
                v
            }
            24 => b.dim(v, extent(src)),
            _ if depth < 3 => {
                control(src, b, values, depth);
                continue;
            }
            _ => b.expand_dims(v, extent(src) as usize),
        };
        values.push(made);
    }
}

fn control(src: &mut Source, b: &mut KernelBuilder, values: &mut Vec<Value>, depth: u32) {
    let init: Vec<Value> = (0..src.below(3)).map(|_| value(src, values)).collect();
    let known = values.len();
    let (lo, hi, step) = (operand(src, values), operand(src, values), operand(src, values));
    let condition = value(src, values);
    let kind = src.below(3);
    let cell = std::cell::RefCell::new((src, values));
    let body = |b: &mut KernelBuilder, more: &[Value]| {
        let mut guard = cell.borrow_mut();
        let (src, values) = &mut *guard;
        values.extend_from_slice(more);
        let count = src.below(5);
        calls(src, b, values, count, depth + 1);
        let out = (0..src.below(3)).map(|_| value(src, values)).collect();
        values.truncate(known);
        out
    };
    let results = match kind {
        0 => b.for_loop(lo, hi, step, &init, |b, iv, carried| {
            let mut more = carried.to_vec();
            more.push(iv);
            body(b, &more)
        }),
        1 => b.while_loop(&init, |b, seen| body(b, seen).first().copied().unwrap_or(condition), |b, carried| body(b, carried)),
        _ => b.if_else(condition, |b| body(b, &[]), |b| body(b, &[])),
    };
    let (_, values) = cell.into_inner();
    values.extend(results);
}
