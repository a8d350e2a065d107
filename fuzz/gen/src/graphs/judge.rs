//! The oracle: a graph, what fusion makes of it, and what devices make of that, all hold the bounds of what it means.

use super::bounds::Num;
use super::case::{GraphCase, nodes};
use super::ideal;
use crate::trial::{Answer, refused};
use crate::verdict::{Failure, Kind, failure, guarded};
use std::collections::BTreeMap;
use tilelift::graph::{FuseOptions, Fused, Graph, Outcome, Tensor};
use tilelift::isel::{LayoutChoice, LowerOptions, Target};
use tilelift::{OptLevel, Options, targets};
use tilelift_interp::{self as interp, Buffer, Memory};
use tilelift_ir::{Kernel, Scalar, num, verify};
use tilelift_tools::execute::{DeviceKind, ExecError, Executor, Launch};

/// How a graph is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GraphOptions {
    /// The name of the target.
    pub target: &'static str,
    /// What runs the text.
    pub device: DeviceKind,
    /// Fuse wherever it is right, whatever it costs.
    pub always: bool,
    /// The seed of schedules and of chaos.
    pub seed: u64,
}

impl GraphOptions {
    /// Options that follow from a seed, on the simulator: every target, and every second time fusions that do not pay.
    pub fn of(seed: u64) -> GraphOptions {
        const TARGETS: [&str; 5] = ["sm_90a", "sm_80", "sm_90a", "sm_80", "gfx942"];
        GraphOptions { target: TARGETS[(seed % 5) as usize], device: DeviceKind::Sim, always: seed / 5 % 2 == 1, seed }
    }
}

/// What became of a graph.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct GraphAnswer {
    /// Kernels before.
    pub before: usize,
    /// Kernels behind the exact fusion, and behind the one that may round otherwise.
    pub after: [usize; 2],
    /// How kernels were fused, and how often; or by which reason pairs stay apart.
    pub ways: BTreeMap<String, u64>,
    /// Launches that a device ran.
    pub launched: u64,
    /// Launches that were refused, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Elements that were compared with their bounds, and those that have none.
    pub elements: [u64; 2],
    /// The largest part that any error took of its bound: on interpreters, in `f64`, on devices.
    pub worst: [f64; 3],
}

/// Which of [`GraphAnswer::worst`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum On {
    Interp,
    Ideal,
    Device,
}

/// What is tried first.
const GRAPH: &str = "graph";

/// In `f64` errors are smaller by the ratio of the units, 2^-29; what is meant is computed in `f64`, too, which doubles them.
const IDEAL: f64 = 1.0 / (1u64 << 28) as f64;

/// A graph that means something, and what it means.
struct Judge<'a> {
    case: &'a GraphCase,
    numbers: Vec<Vec<Num>>,
    answer: GraphAnswer,
}

/// Holds a graph against what fusion and a device make of it.
///
/// # Errors
/// What differs, faults or panics, with the graph and what was made of it as a text.
pub fn judge_graph(case: &GraphCase, options: &GraphOptions) -> Result<GraphAnswer, Failure> {
    let before = case.graph.nodes().len();
    let mut judge = Judge { case, numbers: case.plan.numbers(&case.filled), answer: GraphAnswer { before, ..GraphAnswer::default() } };
    let told = |f: Failure| Failure { message: format!("{}\n; {options:?}\n{}", f.message, case.to_text()), ..f };
    judge.all(options).map_err(told)?;
    Ok(judge.answer)
}

impl Judge<'_> {
    fn all(&mut self, options: &GraphOptions) -> Result<(), Failure> {
        let target = targets::by_name(options.target).unwrap_or_else(targets::usual);
        let apart = guarded(GRAPH, || self.interpreted(&self.case.graph, GRAPH))?;
        // The generator says what its kernels compute.
        self.near(&apart, GRAPH, On::Interp, 1.0).map_err(|f| Failure { kind: Kind::Generator, ..f })?;
        let modes = [("fused exactly", FuseOptions::exact()), ("fused", FuseOptions::default())];
        for (n, (at, mode)) in modes.into_iter().enumerate() {
            let fused = guarded(at, || Ok(self.case.graph.fuse(&target, &FuseOptions { always: options.always, ..mode })))?;
            self.answer.after[n] = fused.graph.nodes().len();
            self.count(&fused);
            let told = |f: Failure| Failure { message: format!("{}\n; {}\n{}", f.message, lines(&fused), nodes(&fused.graph)), ..f };
            let memory = guarded(at, || self.interpreted(&fused.graph, at)).map_err(told)?;
            if n == 0 {
                self.equal(&apart, &memory, at).map_err(told)?;
            }
            self.near(&memory, at, On::Interp, 1.0).map_err(told)?;
            guarded(at, || self.ideal(&fused.graph, at)).map_err(told)?;
            self.devices(&fused.graph, options, &target, at).map_err(told)?;
        }
        Ok(())
    }

    fn count(&mut self, fused: &Fused) {
        for d in &fused.report.decisions {
            match &d.outcome {
                Outcome::Fused { how, rules, .. } => {
                    *self.answer.ways.entry(format!("fused: {}", how.word())).or_default() += 1;
                    for r in rules {
                        let text = r.to_string();
                        let word = text.split(' ').next().unwrap_or_default();
                        *self.answer.ways.entry(format!("rule: {word}")).or_default() += 1;
                    }
                }
                Outcome::Refused(all) => {
                    let mut kinds: Vec<String> = all.iter().map(|(_, r)| format!("apart: {:?}", r.kind)).collect();
                    kinds.dedup();
                    kinds.into_iter().for_each(|k| *self.answer.ways.entry(k).or_default() += 1);
                }
            }
        }
    }

    fn memory(&self, graph: &Graph, elem: impl Fn(Scalar) -> Scalar) -> Result<Memory, Failure> {
        let mut memory = graph.memory(&self.case.bound).map_err(|e| failure(Kind::Generator, "graph", e))?;
        for (i, t) in graph.tensors().iter().enumerate() {
            let filled = self.case.filled.get(i).filter(|_| t.role.is_filled());
            let count = memory.buffers[i].len() / t.elem.bytes() as usize;
            memory.buffers[i] = match filled {
                Some(x) => Buffer::from_f64(elem(t.elem), x.iter().copied()),
                None => Buffer::uninit_elements(elem(t.elem), count),
            };
        }
        Ok(memory)
    }

    fn interpreted(&self, graph: &Graph, at: &str) -> Result<Memory, Failure> {
        let mut memory = self.memory(graph, |e| e)?;
        graph.interpret(&self.case.bound, &mut memory).map_err(|e| failure(Kind::Fault, at, format!("interpreter: {e}")))?;
        Ok(memory)
    }

    /// What the caller sees is equal, bit for bit, but for what follows from a product: in which order that sums is left open.
    fn equal(&self, want: &Memory, got: &Memory, at: &str) -> Result<(), Failure> {
        let open = self.case.plan.open();
        for (i, t) in self.case.graph.tensors().iter().enumerate().filter(|(i, t)| t.role.is_seen() && !open[*i]) {
            let (w, g) = (want.buffers[i].bytes(), got.buffers[i].bytes());
            if let Some(byte) = (0..w.len()).find(|&b| w[b] != g[b]) {
                let (n, elem) = (byte / t.elem.bytes() as usize, t.elem);
                let [w, g] = [w, g].map(|b| element(b, n, elem));
                return Err(failure(Kind::Mismatch, at, format!("element {n} of `{}` is {g}, not {w}: bits differ", t.name)));
            }
        }
        Ok(())
    }

    /// What the caller sees is within the bounds, and what it filled alone is as it was.
    fn near(&mut self, got: &Memory, at: &str, on: On, scale: f64) -> Result<(), Failure> {
        let wide = on == On::Ideal;
        // Of the graph itself all tensors are looked at, so that the first kernel that is not what it should be is known.
        let looked_at = |t: &Tensor| at == GRAPH || t.role.is_seen() || t.role.is_filled();
        for (i, t) in self.case.graph.tensors().iter().enumerate().filter(|(_, t)| looked_at(t)) {
            let elem = if wide { Scalar::F64 } else { t.elem };
            for (n, want) in self.numbers[i].iter().enumerate() {
                let g = element(got.buffers[i].bytes(), n, elem);
                let want = Num { e: want.e * scale, ..*want };
                let Some(part) = want.part(g) else {
                    self.answer.elements[1] += 1;
                    continue;
                };
                self.answer.elements[0] += 1;
                if part > 1.0 {
                    let text = format!("{on:?}: element {n} of `{}` is {g}, not {} within {:e}", t.name, want.v, want.e);
                    return Err(failure(Kind::Mismatch, at, text));
                }
                let worst = &mut self.answer.worst[on as usize];
                *worst = worst.max(part);
            }
        }
        Ok(())
    }

    /// In `f64` what was fused means the same.
    fn ideal(&mut self, graph: &Graph, at: &str) -> Result<(), Failure> {
        let at = &format!("{at}, in f64");
        let mut memory = self.memory(graph, |e| if e.is_float() { Scalar::F64 } else { e })?;
        for launch in graph.launches(&self.case.bound).map_err(|e| failure(Kind::Generator, at, e))? {
            let Some(kernel) = ideal::kernel(launch.kernel) else { return Ok(()) };
            let verified = verify(&kernel).map_err(|e| failure(Kind::Generator, at, e))?;
            interp::interpret(&verified, launch.grid, &ideal::args(&launch.args), &mut memory, &interp::Options::default())
                .map_err(|e| failure(Kind::Fault, at, e))?;
        }
        self.near(&memory, at, On::Ideal, IDEAL)
    }

    /// What devices compute at every level, and by chaos.
    fn devices(&mut self, graph: &Graph, options: &GraphOptions, target: &Target, at: &str) -> Result<(), Failure> {
        let device = Executor::open(options.device, Some(target)).map_err(|e| failure(Kind::Generator, at, e))?;
        for way in [Way::Off, Way::Default, Way::Chaos] {
            let at = format!("{at}, {} {}, {}", device.kind(), target.name, way.word());
            let ran = guarded(&at, || self.device(graph, options, &device, way, &at))?;
            if let Some(memory) = ran {
                self.near(&memory, &at, On::Device, 1.0)?;
            }
        }
        Ok(())
    }

    /// What a device computes; `None` if it refuses a kernel.
    fn device(&mut self, graph: &Graph, options: &GraphOptions, device: &Executor, way: Way, at: &str) -> Result<Option<Memory>, Failure> {
        let mut memory = self.memory(graph, |e| e)?;
        for (n, launch) in graph.launches(&self.case.bound).map_err(|e| failure(Kind::Generator, at, e))?.iter().enumerate() {
            let (kernel, compile) = way.made(launch.kernel, options.seed.wrapping_add(n as u64), at)?;
            let run = Launch { grid: launch.grid, args: &launch.args, programs: None, seed: options.seed, steps: None, options: &compile };
            let prepared = match device.prepare(&kernel, &compile) {
                Ok(p) => p,
                Err(ExecError::Compile(e)) => match refused(&e) {
                    Answer::Failed(f) => return Err(f),
                    Answer::PassedOver(why) => {
                        let old = self.case.graph.nodes().iter().any(|o| o.kernel == *launch.kernel);
                        // Fusion asks the target first.
                        if way == Way::Off && !old {
                            return Err(failure(
                                Kind::Malformed,
                                at,
                                format!("fusion made `{}`, which the target refuses: {e}", launch.name),
                            ));
                        }
                        *self.answer.refused.entry(format!("{}: {why}", way.word())).or_default() += 1;
                        return Ok(None);
                    }
                    Answer::Equal => return Ok(None),
                },
                Err(e) => return Err(failure(Kind::Malformed, at, e)),
            };
            prepared.run(&run, &mut memory).map_err(|e| failure(Kind::Fault, at, format!("`{}`: {e}", launch.name)))?;
            self.answer.launched += 1;
        }
        Ok(Some(memory))
    }
}

/// How kernels are compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    /// As they are.
    Off,
    /// As an engine does.
    Default,
    /// Rules in a random order, a random program of the e-graph, layouts by random prices.
    Chaos,
}

impl Way {
    const fn word(self) -> &'static str {
        match self {
            Way::Off => "off",
            Way::Default => "default",
            Way::Chaos => "chaos",
        }
    }

    /// The kernel to compile, and the options.
    fn made(self, kernel: &Kernel, seed: u64, at: &str) -> Result<(Kernel, Options), Failure> {
        let at_level = |opt| Options { opt, ..Options::default() };
        match self {
            Way::Off => Ok((kernel.clone(), at_level(OptLevel::None))),
            Way::Default => Ok((kernel.clone(), at_level(OptLevel::suited(kernel)))),
            Way::Chaos => {
                let verified = verify(kernel).map_err(|e| failure(Kind::Malformed, at, e))?;
                let class = tilelift_egraph::Class::Exact;
                let options = tilelift_egraph::Options { allow: class, chaos: Some(seed), ..Default::default() };
                let (made, report) = tilelift_egraph::optimise(&verified, &options);
                if let Some(why) = report.fallback {
                    return Err(failure(Kind::Malformed, at, why));
                }
                let lower = LowerOptions { layouts: LayoutChoice::Random(seed), ..LowerOptions::default() };
                Ok((made.into_kernel(), Options { lower, ..at_level(OptLevel::None) }))
            }
        }
    }
}

fn element(bytes: &[u8], n: usize, elem: Scalar) -> f64 {
    let width = elem.bytes() as usize;
    let word = bytes[n * width..(n + 1) * width].iter().rev().fold(0u64, |w, &b| w << 8 | u64::from(b));
    num::from_bits(word, elem)
}

/// The report as lines of a comment.
fn lines(fused: &Fused) -> String {
    fused.report.to_string().replace('\n', "\n; ")
}
