//! `layer`: a part of a model as a graph of plain kernels, fused, run both ways, compared, and timed on a GPU.
//!
//! ```text
//! operators (kernels/plain) ─► subject ─► graph ─► fuse ─► compile ─► compare: small sizes on an interpreter or simulator
//!                                                                  └► timed: both graphs on a GPU, beside the floor
//! ```

mod compare;
mod compile;
mod subject;
#[cfg(feature = "cuda")]
mod timed;

use super::options;
use super::outcome::{CliError, Outcome, Streams};
use crate::execute::Executor;
use compile::{compiled, how_it_runs, options as compiling};
use lexopt::Arg::{Long, Short, Value};
use std::time::Instant;
use subject::{Subject, graph};
use tilelift::graph::{Bound, FuseOptions, Fused, Graph, Launch};
use tilelift::targets;
use tilelift_egraph::Class;
use tilelift_interp::{Buffer, Memory};
use tilelift_ir::Scalar;
use tilelift_isel::Target;
use tilelift_kernels::Activation;
use tilelift_kernels::plain::attention::{PlainAttention, Sees};
use tilelift_kernels::plain::{self, Entry, Operators, layers};
use tilelift_kernels::tensor::Role;

pub(super) const HELP: &str = "\
usage: tilelift layer [OPTION…]

Writes a part of a model as a graph of plain kernels, one for each operator, fuses what lines up, says what was done with each pair and why,
runs both graphs, and compares every element of the results with the bounds that follow from the roundings. On a GPU it times both graphs and
each kernel by itself, in shuffled rounds with rests, and gives medians beside the least time that an H200 needs for the bytes and products.
Without --graph or --attention it is RMSNorm, a product, bias and SiLU, and a residual, fused without a change of any bit.
  --graph NAME        one of the graphs below, or all
  --together          the graphs as one, side by side (with --graph all)
  --extent NAME=N     an extent of the graph
  --small             the extents at which results are looked at without a GPU
  --attention         an attention of M rows and keys, K deep (64), causal with --causal
  --m N --n N --k N   extents of the product (4096 on a GPU, 256 elsewhere); --m is the first extent of any graph
  --heads N           heads of the attention (16 on a GPU, 1 elsewhere)
  --causal            rows see no keys behind them
  --dtype NAME        bf16 (default) or f16
  --activation NAME   silu (default), gelu, relu or none, behind the bias
  --allow CLASS       what may change of roundings: exact, free, reassoc (default), approx
  --always            fuse wherever it is right, whatever it costs
  --device NAME       cuda, sim, lane, schedule or interp
  --target NAME       what to compile for
  --no-run            fuse and compile only
  --print             print the fused kernels and stop

graphs: qkv, swiglu, gelu_mlp, norm_quantise, routing, group_norm_conv, cross_entropy, state_update, sampling, attention_softcap,
attention_sink, attention_alibi, attention_upcast, attention_bias, attention_temperature, attention_composed, attention_linear, w8a8,
fake_quantised, w4a16, layer_norm_2d, latents, add_norm_in_place, padded_softmax, rotary_back, complex_state, short_conv, returns, received,
patches, resize, preference";

/// Largest extent: a matrix on the command line has at most 2^28 elements.
const MAX: u32 = 1 << 14;
/// Largest extent of a named graph.
const MOST: u32 = 1 << 20;
/// What may stand behind the bias.
const ACTIVATIONS: &[(&str, Activation)] =
    &[("silu", Activation::Silu), ("gelu", Activation::Gelu), ("relu", Activation::Relu), ("none", Activation::None)];

/// What the command line asks for.
struct Asked {
    activation: Activation,
    extents: [Option<u32>; 3],
    named: Vec<(String, u32)>,
    elem: Scalar,
    graph: Option<String>,
    attention: bool,
    causal: bool,
    heads: Option<u32>,
    allow: Class,
    always: bool,
    small: bool,
    together: bool,
    print: bool,
    run: bool,
}

pub(super) fn run(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let (mut kind, mut target) = (None, None);
    let mut asked = Asked {
        activation: Activation::Silu,
        extents: [None; 3],
        named: Vec::new(),
        elem: Scalar::BF16,
        graph: None,
        attention: false,
        causal: false,
        heads: None,
        allow: Class::Reassoc,
        always: false,
        small: false,
        together: false,
        print: false,
        run: true,
    };
    while let Some(arg) = parser.next()? {
        match arg {
            Long("m") => asked.extents[0] = Some(options::number(parser, "m", 1..=MOST)?),
            Long("n") => asked.extents[1] = Some(options::number(parser, "n", 1..=MAX)?),
            Long("k") => asked.extents[2] = Some(options::number(parser, "k", 1..=MAX)?),
            Long("extent") => asked.named.push(named_extent(&options::text(parser)?)?),
            Long("graph") => asked.graph = Some(options::text(parser)?),
            Long("dtype") => asked.elem = options::word(parser, "dtype", &[("f16", Scalar::F16), ("bf16", Scalar::BF16)])?,
            Long("activation") => asked.activation = options::word(parser, "activation", ACTIVATIONS)?,
            Long("attention") => asked.attention = true,
            Long("causal") => asked.causal = true,
            Long("heads") => asked.heads = Some(options::number(parser, "heads", 1..=1024)?),
            Long("allow") => {
                let words: Vec<(&str, Class)> = Class::ALL.iter().map(|&c| (c.word(), c)).collect();
                asked.allow = options::word(parser, "allow", &words)?;
            }
            Long("always") => asked.always = true,
            Long("together") => asked.together = true,
            Long("small") => asked.small = true,
            Long("device") => kind = Some(options::device(parser)?),
            Long("target") => target = Some(options::target(parser)?),
            Long("print") => asked.print = true,
            Long("no-run") => asked.run = false,
            Long(_) | Short(_) | Value(_) => return Err(arg.unexpected().into()),
        }
    }
    let (device, note) = match kind {
        Some(kind) => (options::open(kind, target.as_ref())?, None),
        None => options::best(target.as_ref())?,
    };
    let target = device.target().cloned().or(target).unwrap_or_else(targets::usual);
    if let Some(note) = note.filter(|_| !asked.print && asked.run) {
        writeln!(streams.out, "{note}; the kernels run on the simulator of their PTX text instead")?;
    }
    let mut beside = Vec::new();
    let mut wrong = Vec::new();
    let subjects = subjects(&asked, &device, &target)?;
    let several = subjects.len() > 1;
    for subject in subjects {
        match one(&subject, &asked, &device, &target, streams) {
            Ok(line) => beside.push(line),
            Err(CliError::Failed(why)) if several => {
                writeln!(streams.out, "{}: {why}", subject.title)?;
                wrong.push(subject.title);
            }
            Err(e) => return Err(e),
        }
    }
    if several && !asked.print {
        beside.iter().try_for_each(|line| writeln!(streams.out, "{line}"))?;
    }
    if wrong.is_empty() { Ok(()) } else { Err(CliError::Failed(format!("failed: {}", wrong.join("; ")))) }
}

/// The graph of an entry at the extents of an engine.
pub(super) fn drawn(entry: &Entry, target: &Target) -> Result<Graph, CliError> {
    let extents: Vec<u32> = entry.extents.iter().map(|e| e.usual).collect();
    let operators = (entry.draw)(&extents, target).map_err(|e| CliError::Failed(format!("{}: {e}", entry.name)))?;
    graph(&operators).map_err(|e| CliError::Failed(e.to_string()))
}

/// `NAME=N`.
fn named_extent(word: &str) -> Result<(String, u32), CliError> {
    let parts = word.split_once('=').and_then(|(name, n)| Some((name.to_owned(), n.parse().ok().filter(|n| (1..=MOST).contains(n))?)));
    parts.ok_or_else(|| CliError::Usage(format!("--extent takes NAME=N with a number from 1 to {MOST}, not `{word}`")))
}

/// The operators that were asked for.
fn subjects(asked: &Asked, device: &Executor, target: &Target) -> Result<Vec<Subject>, CliError> {
    let failed = |e: tilelift_ir::BuildErrors| CliError::Failed(e.to_string());
    let hardware = device.kind().is_hardware();
    if let Some(name) = &asked.graph {
        let all: Vec<&Entry> = plain::ALL.iter().filter(|e| name == "all" || e.name == name).collect();
        if all.is_empty() {
            let known: Vec<&str> = plain::ALL.iter().map(|e| e.name).collect();
            return Err(CliError::Usage(format!("there is no graph `{name}`; known are all, {}", known.join(", "))));
        }
        let all = all.into_iter().map(|e| named(e, asked, hardware, target)).collect::<Result<Vec<_>, _>>()?;
        return Ok(if asked.together { all.into_iter().reduce(Subject::and).into_iter().collect() } else { all });
    }
    let [m, n, k] = asked.extents.map(|e| e.unwrap_or(if hardware { 4096 } else { 256 }).min(MAX));
    let elem = asked.elem;
    let (title, operators) = if asked.attention {
        let (heads, depth) = (asked.heads.unwrap_or(if hardware { 16 } else { 1 }), asked.extents[2].unwrap_or(64));
        let sees = if asked.causal { Sees::Causal } else { Sees::All };
        let attention = PlainAttention { sees, ..PlainAttention::new(elem, heads, m, depth) };
        (format!("attention {heads} heads, {m} x {m} x {depth}, {elem}"), attention.draw(false).map_err(failed)?)
    } else {
        (format!("layer {m} x {n} x {k}, {elem}"), layers::layer(elem, asked.activation, [m, n, k], target).map_err(failed)?)
    };
    Ok(vec![Subject { title, operators, small: None }])
}

/// A graph of the list.
fn named(entry: &Entry, asked: &Asked, hardware: bool, target: &Target) -> Result<Subject, CliError> {
    let failed = |e: tilelift_ir::BuildErrors| CliError::Failed(format!("{}: {e}", entry.name));
    let small: Vec<u32> = entry.extents.iter().map(|e| e.small).collect();
    let mut extents: Vec<u32> = if asked.small || (asked.run && !asked.print && !hardware) {
        small.clone()
    } else {
        entry.extents.iter().map(|e| e.usual).collect()
    };
    if let (Some(m), Some(first)) = (asked.extents[0], extents.first_mut()) {
        *first = m;
    }
    for (name, n) in &asked.named {
        if let Some(k) = entry.extents.iter().position(|e| e.name == name) {
            extents[k] = *n;
        }
    }
    let said: Vec<String> = entry.extents.iter().zip(&extents).map(|(e, n)| format!("{} {n}", e.name)).collect();
    let title = format!("{} ({})", entry.name, said.join(", "));
    let operators = (entry.draw)(&extents, target).map_err(failed)?;
    let small = if extents == small { None } else { Some((entry.draw)(&small, target).map_err(failed)?) };
    Ok(Subject { title, operators, small })
}

/// Fuses one graph, says what was done, compares and times. The line is what stands beside others' times.
fn one(subject: &Subject, asked: &Asked, device: &Executor, target: &Target, streams: &mut Streams<'_>) -> Result<String, CliError> {
    let failed = |e: &dyn std::fmt::Display| CliError::Failed(e.to_string());
    let exact = asked.graph.is_none() && !asked.attention;
    let allow = if exact { Class::Free } else { asked.allow };
    let fuse = FuseOptions { always: asked.always, allow, ..FuseOptions::default() };
    let graph = graph(&subject.operators).map_err(|e| failed(&e))?;
    let start = Instant::now();
    let fused = graph.fuse(target, &fuse);
    let millis = start.elapsed().as_secs_f64() * 1e3;
    if asked.print {
        writeln!(streams.out, "; {}", fused.report.to_string().replace("\n", "\n; "))?;
        for node in fused.graph.nodes() {
            write!(streams.out, "{}", tilelift_ir::text::print(&node.kernel))?;
        }
        return Ok(String::new());
    }
    let [before, after] = [&graph, &fused.graph].map(|g| g.nodes().len());
    writeln!(streams.out, "graph       {}, for {}", subject.title, target.name)?;
    writeln!(streams.out, "device      {}", device.describe())?;
    writeln!(streams.out, "{}", fused.report)?;
    for (count, g) in [(before, &graph), (after, &fused.graph)] {
        let names: Vec<&str> = g.nodes().iter().map(|n| n.name.as_str()).collect();
        writeln!(streams.out, "{count:<3} kernels {}", names.join("; "))?;
    }
    let made = [compiled(&graph, target)?, compiled(&fused.graph, target)?];
    writeln!(
        streams.out,
        "compile     fuse {millis:.0} ms, then {:.0} ms for {after} kernels ({:.0} ms for {before})",
        made[1].millis, made[0].millis
    )?;
    for node in fused.graph.nodes() {
        writeln!(streams.out, "            `{}`: {}", node.name, how_it_runs(&node.kernel, target)?)?;
    }
    let floor = subject.operators.floor();
    let least = floor.seconds() * 1e6;
    writeln!(streams.out, "floor       {least:.1} us: bytes {:.1} us, products {:.1} us", floor.memory * 1e6, floor.products * 1e6)?;
    let mut near = true;
    let mut micros: Option<[f64; 2]> = None;
    if asked.run {
        if let Some(small) = &subject.small {
            near &= looked_at(small, &fuse, target, &Executor::Sim(target.clone()), "small", streams)?;
        }
        #[cfg(feature = "cuda")]
        if let Executor::Cuda { device, .. } = device {
            let times = timed::measured(device, &subject.operators, [&graph, &fused.graph], [&made[0], &made[1]])?;
            for (count, note) in [before, after].iter().zip(&times.notes) {
                write!(streams.out, "{count:<3} kernels\n{note}")?;
            }
            let (text, all) = compare::said(&subject.operators, "check", |i| times.results[i].as_ref().map(|r| [&r[0][..], &r[1][..]]));
            write!(streams.out, "{text}")?;
            near &= all;
            micros = Some(times.micros);
        }
        if micros.is_none() {
            near &= looked_at_as(&subject.operators, [&graph, &fused.graph], device, "check", streams)?;
        }
    }
    let name = subject.title.replace(' ', "_");
    let compile = millis + made[1].millis;
    let times = micros
        .map_or_else(String::new, |[apart, one]| format!("; {apart:.1} us -> {one:.1} us, {:.2} times the floor", one / least.max(1e-9)));
    let line =
        format!("beside      {name}: {before} -> {after} kernels, floor {least:.1} us, fused and compiled in {compile:.0} ms{times}");
    writeln!(streams.out, "{line}\n")?;
    if near { Ok(line) } else { Err(CliError::Failed("the graphs are too far apart".into())) }
}

/// Fuses operators at a small size and compares.
fn looked_at(
    operators: &Operators,
    fuse: &FuseOptions,
    target: &Target,
    device: &Executor,
    label: &str,
    streams: &mut Streams<'_>,
) -> Result<bool, CliError> {
    let graph = graph(operators).map_err(|e| CliError::Failed(e.to_string()))?;
    let Fused { graph: fused, .. } = graph.fuse(target, fuse);
    writeln!(streams.out, "{label:<12}{} -> {} kernels", graph.nodes().len(), fused.nodes().len())?;
    looked_at_as(operators, [&graph, &fused], device, label, streams)
}

/// Compares the graph on the interpreter with the fused one on a device.
fn looked_at_as(
    operators: &Operators,
    graphs: [&Graph; 2],
    device: &Executor,
    label: &str,
    streams: &mut Streams<'_>,
) -> Result<bool, CliError> {
    let failed = |e: &dyn std::fmt::Display| CliError::Failed(e.to_string());
    let mut results = Vec::new();
    for (graph, device) in graphs.into_iter().zip([&Executor::Interp, device]) {
        let mut memory = graph.memory(&Bound::default()).map_err(|e| failed(&e))?;
        for (buffer, t) in memory.buffers.iter_mut().zip(&operators.tensors) {
            if matches!(t.role, Role::In | Role::InOut) {
                *buffer = Buffer::from_bytes(t.filled());
            }
        }
        let launched = graph.run(&Bound::default(), &mut memory, |launch: &Launch<'_>, memory: &mut Memory| {
            let options = compiling(launch.kernel);
            let how =
                crate::execute::Launch { grid: launch.grid, args: &launch.args, programs: None, seed: 0, steps: None, options: &options };
            device.run(launch.kernel, &how, memory).map(|_| ())
        });
        launched.map_err(|e| failed(&e))?;
        results.push(memory);
    }
    let [want, got] = [&results[0], &results[1]];
    let looked = |i: usize| {
        let seen = matches!(operators.tensors[i].role, Role::Out | Role::InOut);
        seen.then(|| [want.buffers[i].bytes(), got.buffers[i].bytes()])
    };
    let (text, near) = compare::said(operators, label, looked);
    write!(streams.out, "{text}")?;
    Ok(near)
}
