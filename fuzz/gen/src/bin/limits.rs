//! Compiles mutants and generated kernels, and holds the time and the memory of every compile against what it may take.
//!
//! ```text
//! limits --rounds 20000 --seed 0 [--corpus FOLDER] [--out FOLDER]
//! limits --growth [--family NAME] [--size N]       every family at N, 2 N and 4 N instructions: what takes more than its share
//! limits --large [--family NAME]                   programs of up to 200,000 instructions, as a table: what optimizer and compile take
//! ```

use peak_alloc::PeakAlloc;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tilelift::isel::Target;
use tilelift::{OptLevel, Options, compile, targets};
use tilelift_egraph::optimise;
use tilelift_fuzzgen::limits;
use tilelift_ir::{Kernel, text, verify};

#[global_allocator]
static BYTES: PeakAlloc = PeakAlloc;

const HELP: &str = "\
usage: limits [OPTION…]

Compiles mutants of kernel texts and generated kernels, each on a target and at a level that its seed picks, and fails if a compile takes
more time or memory than its instructions allow: 2 s and 256 MB up to 50,000 of them, 20 us and 4 KB for each above. Refusals are answers.
Time is what the compiling thread had of a processor (on Linux; elsewhere that of the clock).
  --rounds N --seed N  seeds to try, and the first (1000, 0)
  --corpus FOLDER      kernel texts (tests/tile)
  --out FOLDER         writes texts there that break a limit
  --slack X            times as much time, for a machine whose cores share more than they show (1)
  --growth             instead of seeds: every family of steps, with everything around it, at each level, at three sizes
  --large              instead of seeds: straight code and loops of 1,000 to 200,000 instructions, at the usual level, as a table
  --family NAME        that family alone
  --around NAME        that way to repeat alone: Straight, Loop, Loops, Ifs, Deep, Tasks
  --target NAME        with --growth: what families are compiled for, but for those that ask for units (two of NVIDIA's, in turn)
  --size N             instructions of the smallest of the three (3000)
  --print              prints the kernels of the seeds";

/// Letters of a refusal that are shown.
const WHY: usize = 160;

/// Compiles that are given up, with the whole program.
const HOPELESS: (Duration, usize) = (Duration::from_secs(60), 4 << 30);

struct Job {
    rounds: u64,
    seed: u64,
    corpus: PathBuf,
    out: Option<PathBuf>,
    slack: f64,
    print: bool,
    growth: bool,
    large: bool,
    family: Option<String>,
    around: Option<String>,
    target: Option<String>,
    size: usize,
}

fn job() -> Result<Job, String> {
    let mut job = Job {
        rounds: 1000,
        seed: 0,
        corpus: "tests/tile".into(),
        out: None,
        slack: 1.0,
        print: false,
        growth: false,
        large: false,
        family: None,
        around: None,
        target: None,
        size: 3000,
    };
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        let mut value = || args.next().ok_or(format!("{a} needs a value"));
        let number = |s: String| s.parse::<u64>().map_err(|e| format!("{s}: {e}"));
        match a.as_str() {
            "--rounds" => job.rounds = number(value()?)?,
            "--seed" => job.seed = number(value()?)?,
            "--corpus" => job.corpus = value()?.into(),
            "--out" => job.out = Some(value()?.into()),
            "--slack" => job.slack = value()?.parse().map_err(|e| format!("--slack: {e}"))?,
            "--print" => job.print = true,
            "--growth" => job.growth = true,
            "--large" => job.large = true,
            "--family" => job.family = Some(value()?),
            "--around" => job.around = Some(value()?),
            "--target" => job.target = Some(value()?),
            "--size" => job.size = number(value()?)? as usize,
            "--help" | "-h" => {
                println!("{HELP}");
                std::process::exit(0);
            }
            _ => return Err(format!("unknown option {a}; `limits --help` lists them")),
        }
    }
    match &job.target {
        Some(name) if targets::by_name(name).is_none() => Err(format!("{name} is no target")),
        _ => Ok(job),
    }
}

/// The texts of a folder and of those in it, in order.
fn texts(folder: &Path, out: &mut Vec<String>) -> Result<(), String> {
    let list = fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut paths: Vec<PathBuf> = list.filter_map(|e| e.ok().map(|e| e.path())).collect();
    paths.sort();
    for p in paths {
        if p.is_dir() {
            texts(&p, out)?;
        } else if p.extension().is_some_and(|e| e == "tile") {
            out.push(fs::read_to_string(&p).map_err(|e| format!("{}: {e}", p.display()))?);
        }
    }
    Ok(())
}

/// The seed that is being compiled, and when that began, in milliseconds; 0 between compiles.
static AT: (AtomicU64, AtomicU64) = (AtomicU64::new(0), AtomicU64::new(0));

/// A clock that runs while a thread does, where the system has one; else one that always runs.
#[derive(Clone)]
struct Clock {
    file: Option<PathBuf>,
    start: Instant,
}

impl Clock {
    /// The clock of this thread.
    fn here() -> Clock {
        let thread = fs::read_link("/proc/thread-self").map(|p| Path::new("/proc").join(p).join("schedstat"));
        Clock { file: thread.ok().filter(|p| p.exists()), start: Instant::now() }
    }

    fn now(&self) -> Duration {
        let text = self.file.as_ref().and_then(|p| fs::read_to_string(p).ok());
        let ran = text.and_then(|t| t.split_whitespace().next()?.parse().ok());
        ran.map_or_else(|| self.start.elapsed(), Duration::from_nanos)
    }
}

/// Ends the program if a compile neither ends nor stops growing.
fn watch(clock: Clock) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_millis(50));
            let (seed, since) = (AT.0.load(Ordering::Relaxed), AT.1.load(Ordering::Relaxed));
            let long = since > 0 && clock.now().saturating_sub(Duration::from_millis(since)) > HOPELESS.0;
            if long || BYTES.current_usage() > HOPELESS.1 {
                eprintln!("seed {seed}: given up, {} MB; `limits --rounds 1 --seed {seed} --print` shows it", BYTES.current_usage() >> 20);
                std::process::exit(3);
            }
        }
    });
}

/// What a compile took.
struct Taken {
    answer: &'static str,
    why: String,
    time: Duration,
    bytes: u64,
}

/// Compiles, and measures it; `seed` names the kernel if it has to be given up.
fn measured(kernel: &Kernel, target: &Target, opt: OptLevel, seed: u64, clock: &Clock) -> Taken {
    AT.0.store(seed, Ordering::Relaxed);
    let begun = clock.now();
    AT.1.store(begun.as_millis() as u64 + 1, Ordering::Relaxed);
    let before = BYTES.current_usage();
    BYTES.reset_peak_usage();
    let made = compile(kernel, target, &Options { opt, ..Options::default() });
    let time = clock.now().saturating_sub(begun);
    AT.1.store(0, Ordering::Relaxed);
    let bytes = BYTES.peak_usage().saturating_sub(before) as u64;
    let (answer, why) = made.map_or_else(|e| (e.code(), e.to_string()), |_| ("compiled", String::new()));
    Taken { answer, why, time, bytes }
}

/// Families at three sizes. Over the limit is what a seed's compile may not take either; growth is what is said beside it.
fn growth(job: &Job, clock: &Clock) -> ExitCode {
    let mut broken = 0;
    for family in limits::FAMILIES.iter().filter(|f| job.family.as_ref().is_none_or(|n| n == f.name)) {
        for (which, &around) in family.around.iter().enumerate() {
            if job.around.as_ref().is_some_and(|a| *a != format!("{around:?}")) {
                continue;
            }
            for (level, &opt) in OptLevel::ALL.iter().enumerate() {
                let usual = job.target.as_deref().unwrap_or(["sm_80", "sm_90a"][(which + level) % 2]);
                let target = if family.asks_for_units(around) { "sm_90a" } else { usual };
                let target = targets::by_name(target).unwrap_or_else(targets::usual);
                let ty = family.types[which % family.types.len()];
                let shape = if family.square { [16, 16] } else { [4, 32] };
                let mut line = format!("{:<18} {:<9} {level} {:<7} {ty:<5}", family.name, format!("{around:?}"), target.name);
                let mut each = Vec::new();
                for size in [1, 2, 4].map(|k| k * job.size) {
                    let source = family.kernel(around, size, shape, ty, 4);
                    let kernel = match text::parse(&source).map(|f| f.kernels.into_iter().next()) {
                        Ok(Some(k)) => k,
                        Ok(None) => continue,
                        Err(e) => {
                            println!("{}: {e}", family.name);
                            broken += 1;
                            continue;
                        }
                    };
                    let n = kernel.insts.len();
                    let t = measured(&kernel, &target, opt, 0, clock);
                    let over = t.time.as_secs_f64() > job.slack * limits::time(n).as_secs_f64() || t.bytes > limits::memory(n);
                    broken += u32::from(over || t.answer == "internal");
                    let (us, kb) = (t.time.as_secs_f64() * 1e6 / n as f64, t.bytes as f64 / 1024.0 / n as f64);
                    each.push(us);
                    let ms = t.time.as_secs_f64() * 1e3;
                    line += &format!(" | {n:6} {ms:6.0} ms {us:6.2} us {kb:6.2} KB {}{}", t.answer, if over { " OVER" } else { "" });
                    if job.print && !t.why.is_empty() {
                        line += &format!(" ({})", t.why.lines().next().unwrap_or_default().chars().take(WHY).collect::<String>());
                    }
                }
                let steep = each.first().zip(each.last()).is_some_and(|(a, b)| *b > 1.7 * a && *b > 5.0);
                println!("{line}{}", if steep { " STEEP" } else { "" });
            }
        }
    }
    println!("{broken} over their limits");
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Instructions of large programs.
const SIZES: [usize; 5] = [1000, 5000, 50_000, 100_000, 200_000];

/// Large programs: what the optimizer takes, and what the compile does.
fn large(job: &Job, clock: &Clock) -> ExitCode {
    let mut broken = 0;
    let target = targets::by_name(job.target.as_deref().unwrap_or("sm_80")).unwrap_or_else(targets::usual);
    println!(
        "| program | instructions | windows | optimizer, ms | us each | KB each | compile, ms | us each | KB each | |\n|---|---|---|---|---|---|---|---|---|---|"
    );
    for family in limits::LARGE.iter().filter(|f| job.family.as_ref().is_none_or(|n| n == f.name)) {
        for size in SIZES {
            let kernel = match text::parse(&(family.text)(size)).map(|f| f.kernels.into_iter().next()) {
                Ok(Some(k)) => k,
                Ok(None) => continue,
                Err(e) => {
                    println!("{}: {e}", family.name);
                    broken += 1;
                    continue;
                }
            };
            let n = kernel.insts.len();
            let Ok(verified) = verify(&kernel) else { continue };
            let before = BYTES.current_usage();
            BYTES.reset_peak_usage();
            let begun = clock.now();
            let report = optimise(&verified, &tilelift_egraph::Options::default()).1;
            let took = clock.now().saturating_sub(begun);
            let bytes = BYTES.peak_usage().saturating_sub(before) as u64;
            let all = measured(&kernel, &target, OptLevel::Logical, 0, clock);
            let over = all.time.as_secs_f64() > job.slack * limits::time(n).as_secs_f64() || all.bytes > limits::memory(n);
            broken += u32::from(over || all.answer == "internal" || report.fallback.is_some());
            let columns = |time: Duration, bytes: u64| {
                let us = time.as_secs_f64() * 1e6;
                format!("{:.1} | {:.1} | {:.1}", us / 1e3, us / n as f64, bytes as f64 / 1024.0 / n as f64)
            };
            let (name, windows) = (family.name, report.windows);
            let words = if over { "over its limit" } else { all.answer };
            println!("| {name} | {n} | {windows} | {} | {} | {words} |", columns(took, bytes), columns(all.time, all.bytes));
        }
    }
    println!("\n{broken} over their limits");
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Bytes of stack of the thread that compiles: as many as a thread of an engine has where nobody asks for more.
const STACK: usize = 2 << 20;

fn main() -> ExitCode {
    let compiling = std::thread::Builder::new().stack_size(STACK).spawn(run).map(std::thread::JoinHandle::join);
    match compiling {
        Ok(Ok(code)) => code,
        Ok(Err(_)) | Err(_) => ExitCode::FAILURE,
    }
}

fn run() -> ExitCode {
    let mut corpus = Vec::new();
    let job = match job().and_then(|j| texts(&j.corpus, &mut corpus).map(|()| j)) {
        Ok(j) => j,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::from(2);
        }
    };
    let clock = Clock::here();
    watch(clock.clone());
    if job.growth {
        return growth(&job, &clock);
    }
    if job.large {
        return large(&job, &clock);
    }
    let mut answers: BTreeMap<(limits::Kind, &'static str), u64> = BTreeMap::new();
    let (mut longest, mut largest) = ((0.0f64, String::new()), (0.0f64, String::new()));
    let mut broken = 0;
    for seed in job.seed..job.seed + job.rounds {
        if seed > job.seed && (seed - job.seed).is_multiple_of(1000) {
            eprintln!("{} rounds, {broken} over their limits", seed - job.seed);
        }
        let (kind, kernels) = limits::kernels(seed, &corpus);
        for kernel in &kernels {
            let target = targets::by_name(["sm_80", "sm_90a"][(seed >> 2) as usize % 2]).unwrap_or_else(targets::usual);
            let opt = OptLevel::ALL[(seed >> 3) as usize % OptLevel::ALL.len()];
            if job.print {
                println!("; {} level {opt:?}\n{}", target.name, text::print(kernel));
            }
            let Taken { answer, why, time: took, bytes } = measured(kernel, &target, opt, seed, &clock);
            *answers.entry((kind, answer)).or_default() += 1;
            let n = kernel.insts.len();
            let (time, memory) = (limits::time(n), limits::memory(n));
            let words = || {
                let (ms, mb) = (took.as_secs_f64() * 1e3, bytes as f64 / f64::from(1 << 20));
                let why: String = why.lines().next().unwrap_or_default().chars().take(WHY).collect();
                let name = &kernel.name;
                format!(
                    "seed {seed} ({kind:?} @{name}, {}, {opt:?}): {n} instructions, {answer}, {ms:.0} ms, {mb:.0} MB {why}",
                    target.name
                )
            };
            let (share, room) = (took.as_secs_f64() / time.as_secs_f64(), bytes as f64 / memory as f64);
            if share > longest.0 {
                longest = (share, words());
            }
            if room > largest.0 {
                largest = (room, words());
            }
            if share > job.slack || room > 1.0 || answer == "internal" {
                broken += 1;
                println!("over the limit: {}", words());
                if let Some(folder) = &job.out {
                    let path = folder.join(format!("seed{seed}.tile"));
                    if let Err(e) = fs::create_dir_all(folder).and_then(|()| fs::write(&path, text::print(kernel))) {
                        eprintln!("{}: {e}", path.display());
                    }
                }
            }
        }
    }
    for ((kind, answer), n) in &answers {
        println!("{n:7} {kind:?} {answer}");
    }
    println!("longest: {:.0}% of its limit, {}", longest.0 * 100.0, longest.1);
    println!("largest: {:.0}% of its limit, {}", largest.0 * 100.0, largest.1);
    println!("{broken} over their limits");
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
