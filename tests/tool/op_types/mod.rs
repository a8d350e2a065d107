//! Every op with every element type that its typing rule accepts: compiled for each target or refused with a reason, and what
//! compiles is run and compared. `docs/ops-by-type.md` is the table; `TILELIFT_BLESS=1` rewrites it.

mod sample;

use sample::{Sample, samples};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use tilelift::{CompileError, Options, compile, lower, targets};
use tilelift_interp::{Arg, Buffer, Memory, ScalarArg, ViewArg};
use tilelift_ir::text::parse;
use tilelift_ir::{Kernel, Op, Scalar, Type, num, verify};
use tilelift_isel::LowerError;
use tilelift_kernels::rng;
use tilelift_nvptx::EmitError;
use tilelift_tools::execute::{DeviceKind, Executor, Launch};
use tilelift_tools::filetest::data::compare;
use tilelift_tools::filetest::runline::Tolerance;

/// How far a device may be off. The bounds compare with the exact number, of which the interpreter's is half a unit away.
fn tolerance(op: Op, elem: Scalar) -> Tolerance {
    let two = |e: i32| 2f64.powi(e);
    let Some(bound) = op.info().error else { return Tolerance { rel: 0.0, abs: 0.0 } };
    let (rel, abs) = (bound.relative, bound.absolute.map_or(0.0, two));
    match elem {
        Scalar::F64 => Tolerance { rel: two(-49), abs: abs.min(two(-50)) },
        // The `f32` result rounds once more, perhaps to the other neighbour; below the normal numbers those are far apart.
        Scalar::F16 => Tolerance { rel: two(-10), abs: abs + two(-24) },
        Scalar::BF16 => Tolerance { rel: two(-7), abs: abs + two(-133) },
        _ => Tolerance { rel: 2.0 * two(rel), abs },
    }
}

/// What became of a sample on one target.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Compiled,
    Refused(String),
}

fn on_target(kernel: &Kernel, name: &str) -> Result<Outcome, String> {
    let target = targets::by_name(name).ok_or("the target is known")?;
    let done = if targets::has_text(&target) {
        compile(kernel, &target, &Options::default()).map(|_| ())
    } else {
        lower(kernel, &target, &Options::default()).map(|_| ())
    };
    match done {
        Ok(()) => Ok(Outcome::Compiled),
        Err(CompileError::Lower(LowerError::Unsupported { why, .. })) => Ok(Outcome::Refused(why.to_string().replace(name, "the target"))),
        Err(CompileError::Lower(LowerError::Requirement { why, .. })) => Ok(Outcome::Refused(why.to_string().replace(name, "the target"))),
        Err(CompileError::Code(e)) if e.is_of_chip() => Ok(Outcome::Refused(e.to_string().replace(name, "the target"))),
        Err(CompileError::Emit(EmitError::Unsupported(what))) => Ok(Outcome::Refused(what.to_string())),
        Err(e) => Err(format!("{name}: neither compiled nor refused with a reason: {e}")),
    }
}

/// Contents of element `i` of parameter `p`.
fn element(op: Op, elem: Scalar, p: usize, i: u64) -> f64 {
    let seed = 17 * p as u64 + 1;
    if elem == Scalar::F8E8M0 && op == Op::DotScaled {
        return [0.5, 1.0, 2.0, 4.0][(rng::bits(seed, i) % 4) as usize];
    }
    if op.factors().is_some() || op == Op::Histogram {
        // Sums of small integers are exact in any order.
        return ((rng::bits(seed, i) % 5) as f64 - 2.0).max(if elem == Scalar::I1 { 0.0 } else { -2.0 });
    }
    if elem.is_float() { num::round(rng::normal(seed, i) * if i.is_multiple_of(5) { 8.0 } else { 1.0 }, elem) } else { 0.0 }
}

/// Arguments for a sample: views of a few rows more than its tiles, scalars near 3.
fn arguments(op: Op, kernel: &Kernel) -> (Vec<Arg>, Memory) {
    let mut memory = Memory::new();
    let mut args = Vec::new();
    for (p, &v) in kernel.params.iter().enumerate() {
        match kernel.ty(v) {
            Type::Scalar(s) if s.is_float() => args.push(ScalarArg::float(*s, 2.0).into()),
            Type::Scalar(Scalar::I1) => args.push(ScalarArg::int(Scalar::I1, 1).into()),
            Type::Scalar(s) => args.push(ScalarArg::int(*s, 3).into()),
            Type::View(view) => {
                // Rows and columns of 33 and 35: larger than any tile of the samples, and odd; an even last extent where two elements
                // share a byte.
                let mut shape: Vec<i64> = [33i64, 35, 3][..view.rank()].to_vec();
                if let (true, Some(last)) = (view.elem.is_packed(), shape.last_mut()) {
                    *last += 1;
                }
                let n = shape.iter().product::<i64>() as u64;
                let buffer = if view.elem.is_float() || op.factors().is_some() || op == Op::Histogram {
                    if view.elem.is_float() {
                        Buffer::from_f64(view.elem, (0..n).map(|i| element(op, view.elem, p, i)))
                    } else {
                        Buffer::from_i64(view.elem, (0..n).map(|i| element(op, view.elem, p, i) as i64))
                    }
                } else {
                    Buffer::from_i64(view.elem, (0..n).map(|i| num::wrap(rng::bits(p as u64, i) as i64, view.elem)))
                };
                let at = memory.add(buffer);
                args.push(ViewArg::dense(at, view.elem, &shape).into());
            }
            Type::Tile(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => {}
        }
    }
    (args, memory)
}

fn run(kernel: &Kernel, args: &[Arg], memory: &Memory, kind: DeviceKind, target: Option<&str>) -> Result<Memory, String> {
    let target = target.and_then(targets::by_name);
    let device = Executor::open(kind, target.as_ref()).map_err(|e| e.to_string())?;
    let mut memory = memory.clone();
    let launch = Launch { grid: [1, 1, 1], args, programs: None, seed: 1, steps: None, options: &Options::default() };
    device.run(kernel, &launch, &mut memory).map_err(|e| format!("{kind}: {e}"))?;
    Ok(memory)
}

/// The outcome per target; `None` if the typing rules refuse the sample.
fn judge(s: &Sample) -> Result<Option<Vec<Outcome>>, String> {
    let file = match parse(&s.text) {
        Ok(f) => f,
        Err(e) if e.errors.iter().all(|e| matches!(e.code.text(), "P0501" | "P0404")) => return Ok(None),
        Err(e) => return Err(format!("the sample does not parse: {e}")),
    };
    let kernel = &file.kernels[0];
    match verify(kernel) {
        Ok(_) => {}
        Err(e) if e.errors.iter().all(|e| matches!(e.code.text(), "V0401" | "V0506")) => return Ok(None),
        Err(e) => return Err(format!("the sample does not verify: {e}")),
    }
    let outcomes = targets::NAMES.iter().map(|name| on_target(kernel, name)).collect::<Result<Vec<_>, _>>()?;
    let (args, memory) = arguments(s.op, kernel);
    let want = run(kernel, &args, &memory, DeviceKind::Interp, None)?;
    let elem = Scalar::from_name(&s.types).unwrap_or(Scalar::F32);
    let tolerance = tolerance(s.op, elem);
    // One text is simulated, and every target without a text runs as a lane program.
    let mut simulated = false;
    for (name, outcome) in targets::NAMES.iter().zip(&outcomes) {
        let text = targets::by_name(name).is_some_and(|t| targets::has_text(&t));
        if *outcome != Outcome::Compiled || text && simulated {
            continue;
        }
        simulated |= text;
        let kind = if text { DeviceKind::Sim } else { DeviceKind::Lane };
        let got = run(kernel, &args, &memory, kind, Some(name)).map_err(|e| format!("{name}: {e}"))?;
        compare(&args, &want, &got, &tolerance).map_err(|e| format!("{name}: {e}"))?;
    }
    Ok(Some(outcomes))
}

/// The outcomes of all samples, in their order, worked out on all processors.
fn judge_all(list: &[Sample]) -> Vec<Result<Option<Vec<Outcome>>, String>> {
    let next = AtomicUsize::new(0);
    let mut found: Vec<(usize, _)> = std::thread::scope(|scope| {
        let work = || {
            let mut mine = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(s) = list.get(at) else { return mine };
                mine.push((at, judge(s)));
            }
        };
        let threads: Vec<_> = (0..std::thread::available_parallelism().map_or(1, usize::from)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|t| t.join().expect("no sample panics")).collect()
    });
    found.sort_by_key(|f| f.0);
    found.into_iter().map(|f| f.1).collect()
}

/// The table: a row per op, word and outcome, with the types that share them.
fn document(list: &[Sample], outcomes: &[Option<Vec<Outcome>>]) -> String {
    let mut reasons: Vec<String> = Vec::new();
    let mut out = String::from(
        "# Ops by element type\n\nWhat each op does for each element type that its typing rule accepts: `yes` where it compiles, else the number of the reason below why it\ndoes not. Everything here is compiled, and run against the interpreter, by `cargo test -p tilelift-tools op_types::`; `TILELIFT_BLESS=1` rewrites\nthe table.\n\n",
    );
    let _ = writeln!(out, "| op | types | {} |\n| --- | --- |{}", targets::NAMES.join(" | "), " --- |".repeat(targets::NAMES.len()));
    for &op in Op::ALL {
        let mut rows: Vec<(&str, Vec<Outcome>, Vec<&str>)> = Vec::new();
        for (s, o) in list.iter().zip(outcomes).filter(|(s, _)| s.op == op) {
            let Some(o) = o else { continue };
            match rows.iter_mut().find(|r| r.0 == s.word && r.1 == *o) {
                Some(r) => r.2.push(&s.types),
                None => rows.push((s.word, o.clone(), vec![&s.types])),
            }
        }
        for (word, outcome, types) in rows {
            let cells: Vec<String> = outcome
                .iter()
                .map(|o| match o {
                    Outcome::Compiled => "yes".to_owned(),
                    Outcome::Refused(why) => {
                        let n = reasons.iter().position(|r| r == why).unwrap_or_else(|| {
                            reasons.push(why.clone());
                            reasons.len() - 1
                        });
                        format!("no ({})", n + 1)
                    }
                })
                .collect();
            let name = format!("{op} {word}");
            let _ = writeln!(out, "| `{}` | {} | {} |", name.trim(), grouped(&types), cells.join(" | "));
        }
    }
    if !reasons.is_empty() {
        out.push_str("\nReasons:\n\n");
        reasons.iter().enumerate().for_each(|(n, r)| _ = writeln!(out, "{}. {r}", n + 1));
    }
    out
}

/// `i8 to f16`, `i8 to f32` as `i8 to f16 f32`.
fn grouped(types: &[&str]) -> String {
    let mut groups: BTreeMap<usize, (String, Vec<&str>)> = BTreeMap::new();
    for t in types {
        let (from, to) = t.split_once(" to ").unwrap_or(("", t));
        let next = groups.len();
        let at = groups.iter().find(|g| g.1.0 == from).map_or(next, |g| *g.0);
        groups.entry(at).or_insert_with(|| (from.to_owned(), Vec::new())).1.push(to);
    }
    let text = |(from, to): &(String, Vec<&str>)| if from.is_empty() { to.join(" ") } else { format!("{from} to {}", to.join(" ")) };
    groups.values().map(text).collect::<Vec<_>>().join("; ")
}

#[test]
fn every_op_and_type_compiles_and_runs_or_is_refused_with_a_reason() {
    let list: Vec<Sample> = Op::ALL.iter().filter(|op| !op.is_explicit()).flat_map(|&op| samples(op)).collect();
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for (s, judged) in list.iter().zip(judge_all(&list)) {
        match judged {
            Ok(o) => good.push(o),
            Err(e) => {
                bad.push(format!("`{} {}` of {}: {e}\n{}", s.op, s.word, s.types, s.text));
                good.push(None);
            }
        }
    }
    assert!(bad.is_empty(), "{} of {} samples:\n{}", bad.len(), list.len(), bad.join("\n"));
    for &op in Op::ALL.iter().filter(|op| !op.is_explicit()) {
        let typed = list.iter().zip(&good).any(|(s, o)| s.op == op && o.is_some());
        assert!(typed, "the typing rule accepts no sample of `{op}`: mend tests/tool/op_types/sample.rs");
    }
    let want = document(&list, &good);
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/ops-by-type.md");
    if std::env::var_os("TILELIFT_BLESS").is_some() {
        std::fs::write(&path, &want).expect("docs/ops-by-type.md can be written");
    }
    let have = std::fs::read_to_string(&path).unwrap_or_default();
    let line = have.lines().zip(want.lines()).position(|(a, b)| a != b).unwrap_or(0);
    assert!(have == want, "docs/ops-by-type.md is stale from line {}; run the test with TILELIFT_BLESS=1", line + 1);
}
