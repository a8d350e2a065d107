//! `layer`: a layer of a model as a graph of plain kernels, fused, run both ways, compared, and timed on a GPU.
//!
//! ```text
//! x ─► norm ─► h ─► product ─► t ─► bias, silu ─► u ─► + residual ─► y
//! q, k ─► scores ─► s ─► softmax ─► p ─► values (v) ─► o                    --attention
//! ```

use super::options;
use super::outcome::{CliError, Outcome, Streams};
use super::plain_attention::Attention;
use crate::execute::Executor;
use lexopt::Arg::{Long, Short, Value};
use tilelift::graph::{Bound, FuseOptions, Graph, Launch, Role};
use tilelift::{OptLevel, Options, targets};
use tilelift_egraph::Class;
use tilelift_interp::{Buffer, Memory, ScalarArg};
use tilelift_ir::{BuildErrors, Kernel, KernelBuilder, Scalar, ViewType, num};
use tilelift_isel::Target;
use tilelift_kernels::plan::{self, Candidate, DeviceFacts, Problem, Sharing};
use tilelift_kernels::{Activation, Gemm, RmsNorm, known};

pub(super) const HELP: &str = "\
usage: tilelift layer [OPTION…]

Writes RMSNorm, a product, bias and SiLU, and a residual as four kernels of a graph, fuses what lines up, says what was done with each
pair and why, runs both graphs, and compares every element of the result. On a GPU it times both graphs and
each kernel by itself, in shuffled rounds with rests, and gives medians. With --attention the kernels are scores, softmax of rows, and the
product with the values; roundings may change, and no element may be further off than they allow.
  --m N --n N --k N   extents of the product (4096 on a GPU, 256 elsewhere)
  --attention         an attention of M rows and keys, K deep (64), causal with --causal
  --heads N           heads of the attention (16 on a GPU, 1 elsewhere)
  --causal            rows see no keys behind them
  --dtype NAME        bf16 (default) or f16
  --activation NAME   silu (default), gelu, relu or none, behind the bias
  --allow CLASS       what may change of the attention's roundings: exact, free, reassoc (default), approx
  --always            fuse wherever it is right, whatever it costs
  --device NAME       cuda, sim, lane or interp
  --target NAME       what to compile for
  --print             print the fused kernels and stop";

/// Largest extent: a matrix on the command line has at most 2^28 elements.
const MAX: u32 = 1 << 14;
/// What may stand behind the bias.
const ACTIVATIONS: &[(&str, Activation)] =
    &[("silu", Activation::Silu), ("gelu", Activation::Gelu), ("relu", Activation::Relu), ("none", Activation::None)];
/// Tile of the elementwise kernels.
const TILE: [u32; 2] = [8, 512];

pub(super) fn run(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let mut activation = Activation::Silu;
    let (mut extents, mut elem, mut fuse, mut kind, mut target, mut print) =
        ([None; 3], Scalar::BF16, FuseOptions::exact(), None, None, false);
    let (mut attention, mut causal, mut heads, mut allow) = (false, false, None, Class::Reassoc);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("m") => extents[0] = Some(options::number(parser, "m", 1..=MAX)?),
            Long("n") => extents[1] = Some(options::number(parser, "n", 1..=MAX)?),
            Long("k") => extents[2] = Some(options::number(parser, "k", 1..=MAX)?),
            Long("dtype") => elem = options::word(parser, "dtype", &[("f16", Scalar::F16), ("bf16", Scalar::BF16)])?,
            Long("activation") => activation = options::word(parser, "activation", ACTIVATIONS)?,
            Long("attention") => attention = true,
            Long("causal") => causal = true,
            Long("heads") => heads = Some(options::number(parser, "heads", 1..=1024)?),
            Long("allow") => {
                let words: Vec<(&str, Class)> = Class::ALL.iter().map(|&c| (c.word(), c)).collect();
                allow = options::word(parser, "allow", &words)?;
            }
            Long("always") => fuse.always = true,
            Long("device") => kind = Some(options::device(parser)?),
            Long("target") => target = Some(options::target(parser)?),
            Long("print") => print = true,
            Long(_) | Short(_) | Value(_) => return Err(arg.unexpected().into()),
        }
    }
    let (device, note) = match kind {
        Some(kind) => (options::open(kind, target.as_ref())?, None),
        None => options::best(target.as_ref())?,
    };
    let usual = if device.kind().is_hardware() { 4096 } else { 256 };
    let [m, n, k] = extents.map(|e| e.unwrap_or(usual));
    let target = device.target().cloned().or(target).unwrap_or_else(targets::usual);
    let failed = |e: &dyn std::fmt::Display| CliError::Failed(e.to_string());
    let usual_heads = if device.kind().is_hardware() { 16 } else { 1 };
    let attention =
        attention.then(|| Attention { elem, heads: heads.unwrap_or(usual_heads), rows: m, depth: extents[2].unwrap_or(64), causal });
    let graph = match &attention {
        Some(a) => a.graph(),
        None => layer(elem, activation, [m, n, k], &target),
    };
    let graph = graph.map_err(|e| failed(&e))?;
    if attention.is_some() {
        fuse.allow = allow;
    }
    let fused = graph.fuse(&target, &fuse);
    if print {
        writeln!(streams.out, "; {}", fused.report.to_string().replace("\n", "\n; "))?;
        for node in fused.graph.nodes() {
            write!(streams.out, "{}", tilelift_ir::text::print(&node.kernel))?;
        }
        return Ok(());
    }
    if let Some(note) = note {
        writeln!(streams.out, "{note}; the kernels run on the simulator of their PTX text instead")?;
    }
    match &attention {
        Some(a) => writeln!(streams.out, "attention   {} heads, {m} x {m} x {}, {elem}, for {}", a.heads, a.depth, target.name)?,
        None => writeln!(streams.out, "layer       {m} x {n} x {k}, {elem}, for {}", target.name)?,
    }
    writeln!(streams.out, "device      {}", device.describe())?;
    writeln!(streams.out, "{}", fused.report)?;
    let graphs = [&graph, &fused.graph];
    let mut results = graphs.iter().map(|g| filled(g)).collect::<Result<Vec<Memory>, _>>().map_err(|e| failed(&e))?;
    let notes = execute(&device, graphs, &mut results)?;
    for (graph, note) in graphs.iter().zip(notes) {
        let names: Vec<&str> = graph.nodes().iter().map(|n| n.name.as_str()).collect();
        writeln!(streams.out, "{} kernels   {}{note}", names.len(), names.join("; "))?;
    }
    let y = graph.tensors().iter().position(|t| t.role.is_seen()).unwrap_or(0);
    if let Some(a) = &attention {
        let number = |b: &[u8]| num::from_bits(b.iter().rev().fold(0, |n, &x| n << 8 | u64::from(x)), elem);
        let [three, one] = [&results[0], &results[1]].map(|m| m.buffers[y].bytes().chunks_exact(elem.bytes() as usize).map(number));
        // NaN is larger than any bound.
        let most = three.zip(one).map(|(w, g)| (w - g).abs()).fold(0.0, |n: f64, d| if d <= n { n } else { d });
        writeln!(streams.out, "check       elements are {most:.6} apart at most, {:.6} is allowed", a.bound())?;
        return if most <= a.bound() { Ok(()) } else { Err(CliError::Failed("the graphs are too far apart".into())) };
    }
    let [four, one] = [&results[0], &results[1]].map(|m| m.buffers[y].bytes().chunks_exact(elem.bytes() as usize));
    let differ = four.zip(one).filter(|(a, b)| a != b).count();
    writeln!(streams.out, "check       {differ} of {} elements differ", u64::from(m) * u64::from(n))?;
    if differ == 0 { Ok(()) } else { Err(CliError::Failed("the graphs do not give the same bits".into())) }
}

/// The graph of the four kernels.
fn layer(elem: Scalar, activation: Activation, [m, n, k]: [u32; 3], target: &Target) -> Result<Graph, Box<dyn std::error::Error>> {
    let mut g = Graph::new();
    let mut make = |name: &str, elem, dims: &[u32], role| g.tensor(name, elem, &dims.iter().map(|&d| d.into()).collect::<Vec<_>>(), role);
    let (x, scale) = (make("x", elem, &[m, k], Role::Input), make("scale", elem, &[k], Role::Input));
    let (w, bias) = (make("w", elem, &[k, n], Role::Input), make("bias", Scalar::F32, &[n], Role::Input));
    let residual = make("residual", elem, &[m, n], Role::Input);
    let [h, t, u] = [("h", k), ("t", n), ("u", n)].map(|(name, cols)| make(name, elem, &[m, cols], Role::Intermediate));
    let y = make("y", elem, &[m, n], Role::Output);

    let norm = RmsNorm::new(elem, k).for_shape(m, k);
    let eps = ScalarArg::float(Scalar::F32, 1e-5);
    g.add("norm", norm.build()?, norm.grid(m), &[x.into(), scale.into(), h.into(), eps.into()])?;
    let gemm = Gemm::new(elem).for_shape(m, n, k);
    // What a graph launches is one kernel with the planner's consumer sets.
    let plain = |c: &Candidate| c.sharing == Sharing::Whole && c.options.consumer_sets.unwrap_or(1) == 1 && !c.gemm.swapped;
    let list = plan::ranked(&Problem::new(elem, [m, n, k]), &DeviceFacts::usual(target))?;
    let gemm = list.into_iter().find(plain).map_or(gemm, |c| c.gemm);
    g.add("product", gemm.build()?, gemm.grid(m, n), &[h.into(), w.into(), t.into()])?;
    let grid = [n.div_ceil(TILE[1]), m.div_ceil(TILE[0]), 1];
    g.add("bias_act", bias_act(elem, activation, m, n)?, grid, &[t.into(), bias.into(), u.into()])?;
    g.add("residual", add(elem, m, n)?, grid, &[u.into(), residual.into(), y.into()])?;
    Ok(g)
}

/// `out = act(x + bias)`.
fn bias_act(elem: Scalar, activation: Activation, m: u32, n: u32) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("bias_act");
    b.warps(4);
    let matrix = ViewType::dense(elem, &[known(m), known(n)]);
    let (x, bias, out) = (b.param(matrix.clone()), b.param(ViewType::dense(Scalar::F32, &[known(n)])), b.param(matrix));
    let (px, py) = (b.program_id(0), b.program_id(1));
    let (col, row) = (b.mul(px, TILE[1]), b.mul(py, TILE[0]));
    let t = b.load(x, &[row, col], &TILE);
    let t = b.cast(t, Scalar::F32);
    let v = b.load(bias, &[col], &TILE[1..]);
    let v = b.expand_dims(v, 0);
    let t = b.add(t, v);
    let t = activation.apply(&mut b, t);
    let t = b.cast(t, elem);
    b.store(out, &[row, col], t);
    b.finish()
}

/// `out = x + residual`.
fn add(elem: Scalar, m: u32, n: u32) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("residual");
    b.warps(4);
    let [x, residual, out] = [(); 3].map(|()| b.param(ViewType::dense(elem, &[known(m), known(n)])));
    let (px, py) = (b.program_id(0), b.program_id(1));
    let (col, row) = (b.mul(px, TILE[1]), b.mul(py, TILE[0]));
    let [p, q] = [x, residual].map(|v| {
        let t = b.load(v, &[row, col], &TILE);
        b.cast(t, Scalar::F32)
    });
    let t = b.add(p, q);
    let t = b.cast(t, elem);
    b.store(out, &[row, col], t);
    b.finish()
}

/// Memory with numbers between -1 and 1 in the inputs; weights are smaller, so that sums stay small.
fn filled(graph: &Graph) -> Result<Memory, tilelift::graph::GraphError> {
    let mut memory = graph.memory(&Bound::default())?;
    for (i, t) in graph.tensors().iter().enumerate().filter(|(_, t)| t.role.is_filled()) {
        let size = t.elem.bytes() as usize;
        let range = if t.name == "w" { 1.0 / 32.0 } else { 1.0 };
        let mut state = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(i as u64 + 1);
        let mut bytes = Vec::with_capacity(memory.buffers[i].len());
        while bytes.len() < memory.buffers[i].len() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = ((state >> 40) as f64 / f64::from(1u32 << 23) - 1.0) * range;
            bytes.extend_from_slice(&num::to_bits(num::round(value, t.elem), t.elem).to_le_bytes()[..size]);
        }
        memory.buffers[i] = Buffer::from_bytes(bytes);
    }
    Ok(memory)
}

/// Options of every compile: kernels that were fused are improved already, the others should not lose by that.
fn compiling() -> Options {
    Options { opt: OptLevel::Logical, ..Options::default() }
}

/// Runs both graphs over host memory, and says what there is to say of each.
fn execute(device: &Executor, graphs: [&Graph; 2], memories: &mut [Memory]) -> Result<Vec<String>, CliError> {
    #[cfg(feature = "cuda")]
    if let Executor::Cuda { device, target } = device {
        return on_gpu(device, target, graphs, memories).map_err(CliError::Failed);
    }
    let options = compiling();
    let mut notes = Vec::new();
    for (graph, memory) in graphs.into_iter().zip(memories) {
        let mut sectors = None;
        let launched = graph.run(&Bound::default(), memory, |launch: &Launch<'_>, memory| {
            let how =
                crate::execute::Launch { grid: launch.grid, args: &launch.args, programs: None, seed: 0, steps: None, options: &options };
            let report = device.run(launch.kernel, &how, memory)?;
            if let Some(r) = report {
                *sectors.get_or_insert(0) += r.sectors;
            }
            Ok::<(), crate::execute::ExecError>(())
        });
        launched.map_err(|e| CliError::Failed(e.to_string()))?;
        notes.push(sectors.map_or_else(String::new, |n| format!(": {n} sectors of 32 bytes")));
    }
    Ok(notes)
}

/// Rounds, each of which times both graphs and each kernel by itself once, in a new order; launches of a layer in front of a batch, and in
/// one; the rest before it, in milliseconds.
#[cfg(feature = "cuda")]
const ROUNDS: u32 = 9;
#[cfg(feature = "cuda")]
const WARM_UP: u32 = 5;
#[cfg(feature = "cuda")]
const TIMED: u32 = 30;
#[cfg(feature = "cuda")]
const REST: u64 = 50;

#[cfg(feature = "cuda")]
fn on_gpu(
    device: &tilelift::runtime::cuda::CudaDevice,
    target: &Target,
    graphs: [&Graph; 2],
    memories: &mut [Memory],
) -> Result<Vec<String>, String> {
    use crate::bench::stats::{Summary, shuffled};
    use crate::bench::work::{self, Work};
    let failed = |e: tilelift::runtime::cuda::CudaError| e.to_string();
    let (mut buffers, mut launches, mut kernels) = (Vec::new(), Vec::new(), Vec::new());
    for (graph, memory) in graphs.iter().zip(memories.iter()) {
        let mut list = Vec::new();
        for (host, t) in memory.buffers.iter().zip(graph.tensors()) {
            let mut buffer = device.alloc(host.len()).map_err(failed)?;
            if t.role.is_filled() {
                buffer.upload(host.bytes()).map_err(failed)?;
            }
            list.push(buffer);
        }
        buffers.push(list);
        let list = graph.launches(&Bound::default()).map_err(|e| e.to_string())?;
        let mut loaded = Vec::new();
        for launch in &list {
            let artifact = tilelift::compile(launch.kernel, target, &compiling()).map_err(|e| format!("`{}`: {e}", launch.name))?;
            loaded.push(device.load(&artifact).map_err(failed)?);
        }
        launches.push(list);
        kernels.push(loaded);
    }
    let stream = device.stream().map_err(failed)?;
    // Of each graph its works, and of the candidates the graph and the first and last of its works.
    let mut works: Vec<Vec<Work<'_>>> = Vec::new();
    let mut candidates = Vec::new();
    for (g, list) in launches.iter().enumerate() {
        let work = |(launch, kernel): (&Launch<'_>, _)| Work::kernel(kernel, launch.grid, &launch.args, &buffers[g]);
        works.push(list.iter().zip(&kernels[g]).map(work).collect::<Result<_, _>>().map_err(failed)?);
        candidates.push((g, 0..list.len()));
        candidates.extend((0..list.len()).map(|n| (g, n..n + 1)));
    }
    let mut samples = vec![Vec::new(); candidates.len()];
    for round in 0..ROUNDS {
        for i in shuffled(candidates.len(), u64::from(round)) {
            std::thread::sleep(std::time::Duration::from_millis(REST));
            let (g, range) = candidates[i].clone();
            let part = &works[g][range];
            let count = part.len() as u32;
            samples[i].push(work::time(part, WARM_UP * count, TIMED * count, &stream).map_err(failed)? * f64::from(count) * 1e6);
        }
    }
    let mut notes = vec![String::new(); graphs.len()];
    for ((g, range), times) in candidates.into_iter().zip(&samples) {
        let Some(s) = Summary::of(times) else { continue };
        let spread = format!("{:.1} us ({:.1} to {:.1})", s.median, s.min, s.max);
        let whole = notes[g].is_empty();
        notes[g] += &match range.len() {
            _ if whole => format!("\nrun         {spread} a layer, median of {}; by itself", s.n),
            _ => {
                let kernel = &kernels[g][range.start];
                let (registers, spilled) = (kernel.registers(), kernel.local_bytes());
                format!("\n            `{}` {spread}, {registers} registers, {spilled} bytes spilled", launches[g][range.start].name)
            }
        };
    }
    drop(works);
    for ((graph, memory), buffers) in graphs.iter().zip(memories).zip(&buffers) {
        for ((buffer, host), t) in buffers.iter().zip(&mut memory.buffers).zip(graph.tensors()) {
            if t.role.is_seen() {
                let mut bytes = vec![0; host.len()];
                buffer.download(&mut bytes).map_err(failed)?;
                *host = Buffer::from_bytes(bytes);
            }
        }
    }
    Ok(notes)
}
