//! Runs random kernels against an oracle and prints what fails, reduced, as `.tile` text.
//!
//! ```text
//! fuzzgen --oracle text|interp|lane|sim|opt|opt-sim|wider --count 10000 --seed 0 [--approx] [--small] [--print] [--out FOLDER] [--limit FAILURES]
//!         [--dots WEIGHT] [--control WEIGHT] [--steps MOST] [--elements MOST] [--sweep] [--ptx] [--lanes] [--times]
//! ```

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;
use tilelift_fuzzgen::oracle::{self, Failure, Kind, Verdict};
use tilelift_fuzzgen::{Case, Config, Mode, Source, generate, generate_tiles, reduce, shrink, wider_forms};
use tilelift_isel::LowerOptions;
use tilelift_nvptx::{sm_80, sm_90a};

const HELP: &str = "\
usage: fuzzgen [OPTION…]

Makes random kernels, holds them against an oracle, and prints what fails, reduced, as `.tile` text.
  --oracle NAME       text, interp, lane (default), sim, opt, opt-sim, wider
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
        // The level, and chaos: two seeds give two kinds of choice.
        for chaos in [None, Some(2 * seed), Some(2 * seed + 1)] {
            verdicts.push(match oracle {
                "opt" => oracle::optimised(case, &want, chaos)?,
                _ => oracle::optimised_text(case, &want, chaos, &oracle::targets()[0])?,
            });
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
    for seed in o.seed..o.seed + o.count {
        let mut src = Source::from_seed(seed);
        let made = if o.oracle == "wider" { generate_tiles(&mut src) } else { generate(&mut src, &o.cfg) };
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
                    report(&o, seed, &case, src.taken(), &f);
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

fn report(o: &Options, seed: u64, case: &Case, bytes: &[u8], f: &Failure) {
    let same = |g: &Failure| g.kind == f.kind && g.at == f.at && signature(g) == signature(f);
    let fails = |c: &Case| judge(&o.oracle, o.sweep, seed, c).err().as_ref().is_some_and(same);
    let small = shrink(bytes, &o.cfg, &fails).map_or_else(|| case.clone(), |(_, c)| c);
    let small = reduce(&small, &fails);
    let now = judge(&o.oracle, o.sweep, seed, &small).err().map_or_else(String::new, |f| f.to_string());
    let text = format!("; {}\n{}", now.replace('\n', "\n; "), small.to_tile_text());
    println!("{text}");
    if let Some(folder) = &o.out {
        let path = format!("{folder}/seed{seed}.tile");
        if let Err(e) = std::fs::write(&path, text) {
            eprintln!("{path}: {e}");
        }
    }
}
