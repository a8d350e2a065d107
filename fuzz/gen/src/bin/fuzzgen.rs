//! Runs random kernels against an oracle and prints what fails, reduced, as `.tile` text.
//!
//! ```text
//! fuzzgen --oracle text|interp|lane|sim|opt|opt-sim|wider|graph --count 10000 --seed 0 [--approx] [--small] [--print] [--out FOLDER] [--limit FAILURES]
//!         [--mix] [--target NAME] [--device sim|cuda]
//!         [--dots WEIGHT] [--control WEIGHT] [--steps MOST] [--elements MOST] [--sweep] [--ptx] [--lanes] [--times]
//! ```

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;
use tilelift_fuzzgen::graphs::{GraphOptions, GraphSummary, generate_graph, judge_graph};
use tilelift_fuzzgen::oracle::{self, Failure, Kind, Verdict};
use tilelift_fuzzgen::{
    Case, Config, Mixed, Mode, Source, generate, generate_loops, generate_tiles, reduce, shrink, shrink_as, wider_forms,
};
use tilelift_isel::LowerOptions;
use tilelift_nvptx::{sm_80, sm_90a};
use tilelift_tools::execute::DeviceKind;

const HELP: &str = "\
usage: fuzzgen [OPTION…]

Makes random kernels, holds them against an oracle, and prints what fails, reduced, as `.tile` text.
  --oracle NAME       text, interp, lane (default), sim, opt, opt-sim, wider, graph
  --mix               every third is a kernel with loops or a graph of kernels, in turn
  --target NAME       of graphs; else each of several in turn
  --device NAME       what runs graphs: sim (default), cuda
  --count N --seed N  kernels, and the number of the first (1000, 0)
  --limit N           stops behind so many failures (20)
  --out FOLDER        writes failures there
  --approx --small    kernels that may round differently; small ones
  --dots N --control N --steps N --elements N
                      weights and limits of the generator
  --sweep             every number of warps
  --print --ptx --lanes --times
                      print the kernels, their PTX text, lane programs, the longest compiles";

struct Options {
    oracle: String,
    count: u64,
    seed: u64,
    cfg: Config,
    print: bool,
    out: Option<String>,
    limit: usize,
    /// Try every number of warps, each with another number of stages.
    sweep: bool,
    /// Print the PTX text, the lane program.
    ptx: bool,
    lanes: bool,
    /// Print which cases took longest from kernel to PTX text, and in the optimizer.
    times: bool,
    /// Every third is a kernel with loops or a graph.
    mix: bool,
    /// The target of graphs, and what runs them.
    target: Option<&'static str>,
    device: DeviceKind,
}

/// What a seed stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Made {
    Kernel,
    Loops,
    Tiles,
    Graph,
}

impl Options {
    fn made(&self, seed: u64) -> Made {
        match (self.oracle.as_str(), self.mix.then(|| Mixed::of(seed))) {
            ("graph", _) | (_, Some(Mixed::Graph(_))) => Made::Graph,
            ("wider", _) => Made::Tiles,
            (_, Some(Mixed::Loops)) => Made::Loops,
            (_, Some(Mixed::Kernel) | None) => Made::Kernel,
        }
    }

    fn graph(&self, seed: u64) -> GraphOptions {
        let of = GraphOptions::of(match Mixed::of(seed) {
            Mixed::Graph(number) if self.mix => number,
            _ => seed,
        });
        GraphOptions { target: self.target.unwrap_or(of.target), device: self.device, seed, ..of }
    }
}

fn options() -> Result<Options, String> {
    let mut o = Options {
        oracle: "lane".into(),
        count: 1000,
        seed: 0,
        cfg: Config::default(),
        print: false,
        out: None,
        limit: 20,
        sweep: false,
        ptx: false,
        lanes: false,
        times: false,
        mix: false,
        target: None,
        device: DeviceKind::Sim,
    };
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        let mut value = || args.next().ok_or(format!("{a} needs a value"));
        let number = |s: String| s.parse::<u64>().map_err(|e| format!("{s}: {e}"));
        match a.as_str() {
            "--oracle" => o.oracle = value()?,
            "--count" => o.count = number(value()?)?,
            "--seed" => o.seed = number(value()?)?,
            "--limit" => o.limit = number(value()?)? as usize,
            "--out" => o.out = Some(value()?),
            "--approx" => o.cfg.mode = Mode::Approx,
            "--small" => o.cfg = Config { mode: o.cfg.mode, ..Config::small() },
            "--dots" => o.cfg.dots = number(value()?)? as u32,
            "--control" => o.cfg.control = number(value()?)? as u32,
            "--steps" => o.cfg.max_steps = number(value()?)? as u32,
            "--elements" => o.cfg.max_elements = number(value()?)? as u32,
            "--sweep" => o.sweep = true,
            "--ptx" => o.ptx = true,
            "--lanes" => o.lanes = true,
            "--times" => o.times = true,
            "--print" => o.print = true,
            "--mix" => o.mix = true,
            "--target" => {
                let word = value()?;
                let known = tilelift::targets::NAMES.iter().find(|n| **n == word);
                o.target = Some(*known.ok_or(format!("`{word}` is no target"))?);
            }
            "--device" => {
                let word = value()?;
                o.device = DeviceKind::from_word(&word).ok_or(format!("`{word}` is no device: sim, cuda"))?;
            }
            "--help" | "-h" => {
                println!("{HELP}");
                std::process::exit(0);
            }
            _ => return Err(format!("unknown option {a}; `fuzzgen --help` lists them")),
        }
    }
    Ok(o)
}

/// Every way the oracle tries a case; the first failure, and the refusals.
fn judge(oracle: &str, sweep: bool, seed: u64, case: &Case) -> Result<Vec<Verdict>, Failure> {
    if oracle == "text" {
        return Ok(vec![oracle::text_round_trip(case)?]);
    }
    let want = oracle::reference(case)?;
    let mut verdicts = Vec::new();
    if oracle == "interp" {
        return Ok(vec![Verdict::Pass]);
    }
    if oracle == "sim" {
        return Ok(vec![oracle::sim(case, &want, &oracle::targets()[0], &oracle::schedules(case.kernel.insts.len() as u64))?]);
    }
    if oracle == "wider" {
        return wider_forms(case, &want, &[sm_80(), sm_90a()]);
    }
    if oracle == "opt" || oracle == "opt-sim" {
        let target = &oracle::targets()[0];
        if oracle == "opt-sim" {
            // Off, the level, and chaos: even and odd seeds give two kinds of choice.
            verdicts.push(oracle::sim(case, &want, target, &oracle::schedules(seed)[(seed % 2) as usize..][..1])?);
            for chaos in [None, Some(seed)] {
                verdicts.push(oracle::optimised_text(case, &want, chaos, target)?);
            }
            return Ok(verdicts);
        }
        for chaos in [None, Some(2 * seed), Some(2 * seed + 1)] {
            verdicts.push(oracle::optimised(case, &want, chaos)?);
        }
        return Ok(verdicts);
    }
    let warps = case.kernel.hints.warps.unwrap_or(4).trailing_zeros();
    for target in oracle::targets() {
        verdicts.push(oracle::lane(case, &want, &target, &LowerOptions::default())?);
        for more in (1..4).filter(|_| sweep) {
            let options = LowerOptions {
                warps: Some(1 << ((warps + more) % 4)),
                stages: Some(1 + (warps + 2 * more) % 4),
                ..LowerOptions::default()
            };
            verdicts.push(oracle::lane(case, &want, &target, &options)?);
        }
    }
    Ok(verdicts)
}

fn main() -> ExitCode {
    let o = match options() {
        Ok(o) => o,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::from(2);
        }
    };
    // Panics are failures that are reported below.
    std::panic::set_hook(Box::new(|_| {}));
    let mut refused: BTreeMap<String, u64> = BTreeMap::new();
    let mut failures: BTreeMap<(Kind, String), u64> = BTreeMap::new();
    let mut passed = 0u64;
    let mut shown = 0;
    let mut times = Vec::new();
    let mut summary = GraphSummary::default();
    for seed in o.seed..o.seed + o.count {
        let mut src = Source::from_seed(seed);
        let kind = o.made(seed);
        if kind == Made::Graph {
            match graph(&o, seed, &mut summary, &mut shown) {
                Ok(()) => {}
                Err(f) => *failures.entry((f.kind, f.at)).or_default() += 1,
            }
            continue;
        }
        let made = match kind {
            Made::Loops => generate_loops(&mut src).map(|t| t.case),
            Made::Tiles => generate_tiles(&mut src),
            Made::Kernel | Made::Graph => generate(&mut src, &o.cfg),
        };
        let case = match made {
            Ok(c) => c,
            Err(e) => {
                println!("seed {seed}: the generator: {e}");
                *failures.entry((Kind::Generator, "builder".into())).or_default() += 1;
                continue;
            }
        };
        if o.print {
            println!("; seed {seed}\n{}", case.to_tile_text());
        }
        if o.times {
            let start = Instant::now();
            let bytes = oracle::ptx_text(&case.kernel, &oracle::targets()[0]).len();
            let text = start.elapsed();
            let report = oracle::report_of(&case);
            times.push((
                text,
                start.elapsed() - text,
                seed,
                bytes,
                case.kernel.insts.len(),
                report.map_or(0, |r| r.phases.iter().map(|p| p.nodes).max().unwrap_or(0)),
            ));
        }
        if o.ptx {
            println!("{}", oracle::ptx_text(&case.kernel, &oracle::targets()[0]));
        }
        if o.lanes {
            println!("{}", oracle::lane_text(&case.kernel, &oracle::targets()[0]));
        }
        match judge(&o.oracle, o.sweep, seed, &case) {
            Ok(verdicts) => {
                for v in verdicts {
                    match v {
                        Verdict::Pass => passed += 1,
                        Verdict::Refused(r) => *refused.entry(r).or_default() += 1,
                    }
                }
            }
            Err(f) => {
                *failures.entry((f.kind, f.at.clone())).or_default() += 1;
                println!("seed {seed}: {f}");
                if shown < o.limit {
                    shown += 1;
                    report(&o, seed, &case, (kind == Made::Kernel).then(|| src.taken()), &f);
                }
            }
        }
    }
    times.sort();
    for (time, _, seed, bytes, insts, _) in times.iter().rev().take(8) {
        println!("{time:?} for seed {seed}: {insts} instructions to {bytes} bytes");
    }
    times.sort_by_key(|t| t.1);
    for (_, time, seed, _, insts, nodes) in times.iter().rev().take(8) {
        println!("{time:?} in the optimizer for seed {seed}: {insts} instructions, {nodes} nodes");
    }
    if summary.graphs > 0 {
        println!("{summary}");
    }
    println!("{passed} passed");
    for (r, n) in &refused {
        println!("{n:6} refused: {r}");
    }
    for ((k, at), n) in &failures {
        println!("{n:6} failed: {k:?} {at}");
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Letters of a message without numbers: two failures with equal signatures are taken for one bug while reducing.
fn signature(f: &Failure) -> String {
    let words = f.message.split(|c: char| !c.is_alphabetic()).filter(|w| w.len() > 3).take(4);
    if f.kind == Kind::Mismatch { String::new() } else { words.collect::<Vec<_>>().join(" ") }
}

/// Tries a graph; a failure is printed, with a smaller one that fails so, too.
fn graph(o: &Options, seed: u64, summary: &mut GraphSummary, shown: &mut usize) -> Result<(), Failure> {
    let options = o.graph(seed);
    let generator = |message: String| Failure { kind: Kind::Generator, at: "builder".into(), message };
    let judged = |src: &mut Source| {
        let case = generate_graph(src).map_err(generator)?;
        if o.print {
            println!("; seed {seed}\n{}", case.to_text());
        }
        judge_graph(&case, &options)
    };
    let mut src = Source::from_seed(seed);
    let failed = match judged(&mut src) {
        Ok(a) => {
            summary.add(&a);
            return Ok(());
        }
        Err(f) => f,
    };
    println!("seed {seed}: {}", failed.to_string().lines().next().unwrap_or_default());
    if *shown < o.limit {
        *shown += 1;
        let same = |g: &Failure| g.kind == failed.kind && g.at == failed.at && signature(g) == signature(&failed);
        let make = |bytes: &[u8]| judged(&mut Source::from_bytes(bytes)).err().filter(same);
        let small = shrink_as(src.taken(), &make).map_or_else(|| failed.clone(), |(_, f)| f);
        println!("{small}");
        write(o, seed, &format!("; {small}"));
    }
    Err(failed)
}

fn write(o: &Options, seed: u64, text: &str) {
    if let Some(folder) = &o.out {
        let path = format!("{folder}/seed{seed}.tile");
        if let Err(e) = std::fs::write(&path, text) {
            eprintln!("{path}: {e}");
        }
    }
}

/// Prints a case that fails, and a smaller one; `bytes` are those that the plain generator took.
fn report(o: &Options, seed: u64, case: &Case, bytes: Option<&[u8]>, f: &Failure) {
    let same = |g: &Failure| g.kind == f.kind && g.at == f.at && signature(g) == signature(f);
    let fails = |c: &Case| judge(&o.oracle, o.sweep, seed, c).err().as_ref().is_some_and(same);
    let small = bytes.and_then(|b| shrink(b, &o.cfg, &fails)).map_or_else(|| case.clone(), |(_, c)| c);
    let small = reduce(&small, &fails);
    let now = judge(&o.oracle, o.sweep, seed, &small).err().map_or_else(String::new, |f| f.to_string());
    let text = format!("; {}\n{}", now.replace('\n', "\n; "), small.to_tile_text());
    println!("{text}");
    write(o, seed, &text);
}
