//! Generated kernels that are specialised or explicit, each on the interpreter and on a device: results are equal, or within the derived bound.
//! With `--plain`, kernels of any ops; a target that specialises nothing, such as those of AMD chips, takes all.
//!
//! ```text
//! generated --rounds 2000 --seed 0 --device interp|sim|cuda [--jobs N] [--out FOLDER]
//! generated --plain --target gfx942 --rounds 10000 [--jobs N]
//! generated --mix --small --every-way --device cuda --rounds 5000 [--jobs N]
//! generated --show SEED [--device sim] [--reduce]
//! ```
//! Kernels run in processes of this program, a range of seeds each: one that ends a process, or a context of the driver, or does not end, fails
//! alone. Which kernels count depends on seeds alone, not on who runs them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use tilelift::isel::Target;
use tilelift::{lower, targets};
use tilelift_fuzzgen::graphs::{GraphOptions, generate_graph, judge_graph};
use tilelift_fuzzgen::oracle::{Failure, Kind};
use tilelift_fuzzgen::trial::{Answer, Axis, Classes, Judge};
use tilelift_fuzzgen::{
    Case, Config, GraphCase, Mixed, Source, Trial, every_way, generate_loops, generate_plain, generate_trial, reduce, shrink_as,
};
use tilelift_ir::text;
use tilelift_tools::execute::DeviceKind;

const HELP: &str = "\
usage: generated [OPTION…]

Makes kernels, keeps those whose main loop is specialised or whose author says who does what (all, for a target that specialises nothing),
runs each on the interpreter and on a device, and fails if a result differs. Prints what the kernels are made of.
  --rounds N --seed N  kernels that count, and the first seed to try (2000, 0)
  --device NAME        interp, sim (default), cuda; interp runs what the compiler writes as a program
  --loops              kernels whose loops go where memory says, however they run
  --plain              kernels of any ops, however they run
  --mix                of six seeds four are as with --plain, one as with --loops, one is a graph of kernels, plain and fused
  --small              kernels of any ops are small: an assembler takes seconds for the others
  --every-way          each kernel off, by default and by chaos (graphs are in any case)
  --target NAME        what they are compiled for (sm_90a)
  --jobs N             processes at a time (1)
  --out FOLDER         failures: kernel, seed and message (generated-failures)
  --patience SECONDS   how long a kernel may take (120)
  --show SEED          prints a kernel, what becomes of it, and whether it fails; with --reduce, a smaller one that fails so, too
  --because TEXT       with --show --reduce: a smaller one that is not specialised for a reason with this text";

/// Which kernels are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    /// Those that may be specialised or are explicit.
    Trials,
    Loops,
    Plain,
    /// Of six seeds four plain kernels, one of loops, one graph.
    Mix,
}

/// What a seed stands for.
enum Subject {
    Kernel(Box<Trial>),
    /// With its number among the graphs.
    Graph(u64, Box<GraphCase>),
}

impl Family {
    const ALL: [Family; 4] = [Family::Trials, Family::Loops, Family::Plain, Family::Mix];

    /// The option that asks for it.
    const fn option(self) -> Option<&'static str> {
        match self {
            Family::Trials => None,
            Family::Loops => Some("--loops"),
            Family::Plain => Some("--plain"),
            Family::Mix => Some("--mix"),
        }
    }
}

#[derive(Clone)]
struct Job {
    rounds: u64,
    seed: u64,
    device: DeviceKind,
    target: Target,
    family: Family,
    /// Each kernel off, by default and by chaos.
    every_way: bool,
    /// Kernels of any ops are small ones.
    small: bool,
    jobs: usize,
    out: PathBuf,
    patience: Duration,
    show: Option<u64>,
    reduce: bool,
    because: Option<String>,
    /// The range of seeds of a process of the program's own.
    part: Option<[u64; 2]>,
}

fn job() -> Result<Job, String> {
    let mut job = Job {
        rounds: 2000,
        seed: 0,
        device: DeviceKind::Sim,
        target: targets::by_name("sm_90a").unwrap_or_else(targets::usual),
        family: Family::Trials,
        every_way: false,
        small: false,
        jobs: 1,
        out: "generated-failures".into(),
        patience: Duration::from_secs(120),
        show: None,
        reduce: false,
        because: None,
        part: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        let mut value = || args.next().ok_or(format!("{a} needs a value"));
        let number = |s: String| s.parse::<u64>().map_err(|e| format!("{s}: {e}"));
        match a.as_str() {
            "--rounds" => job.rounds = number(value()?)?,
            "--seed" => job.seed = number(value()?)?,
            "--device" => {
                let word = value()?;
                job.device = DeviceKind::from_word(&word).ok_or(format!("`{word}` is no device: interp, sim, cuda"))?;
            }
            "--target" => {
                let word = value()?;
                job.target = targets::by_name(&word).ok_or(format!("`{word}` is no target"))?;
            }
            "--jobs" => job.jobs = number(value()?)?.clamp(1, 1024) as usize,
            "--out" => job.out = value()?.into(),
            "--patience" => job.patience = Duration::from_secs(number(value()?)?),
            "--show" => job.show = Some(number(value()?)?),
            "--reduce" => job.reduce = true,
            "--every-way" => job.every_way = true,
            "--small" => job.small = true,
            "--because" => job.because = Some(value()?),
            "--part" => job.part = Some([number(value()?)?, number(value()?)?]),
            "--help" | "-h" => {
                println!("{HELP}");
                std::process::exit(0);
            }
            _ => {
                let family = Family::ALL.into_iter().find(|f| f.option() == Some(&a));
                job.family = family.ok_or(format!("unknown option {a}; `generated --help` lists them"))?;
            }
        }
    }
    Ok(job)
}

impl Job {
    /// A kernel of a seed's family.
    fn generate(&self, family: Family, src: &mut Source) -> Result<Trial, String> {
        let made = match family {
            Family::Trials => generate_trial(src),
            Family::Loops => generate_loops(src),
            Family::Plain | Family::Mix if self.small => generate_plain(src, &Config::small()),
            Family::Plain | Family::Mix => generate_plain(src, &Config::default()),
        };
        made.map_err(|e| format!("the generator: {e}"))
    }

    /// What a seed's kernel is of.
    fn family(&self, seed: u64) -> Family {
        match (self.family, Mixed::of(seed)) {
            (Family::Mix, Mixed::Loops) => Family::Loops,
            (Family::Mix, Mixed::Kernel | Mixed::Graph(_)) => Family::Plain,
            (family @ (Family::Trials | Family::Loops | Family::Plain), _) => family,
        }
    }

    fn subject(&self, seed: u64) -> Result<Subject, String> {
        let mut src = Source::from_seed(seed);
        if let (Family::Mix, Mixed::Graph(number)) = (self.family, Mixed::of(seed)) {
            return generate_graph(&mut src).map(|g| Subject::Graph(number, Box::new(g))).map_err(|e| format!("the generator: {e}"));
        }
        self.generate(self.family(seed), &mut src).map(|t| Subject::Kernel(Box::new(t)))
    }

    /// What becomes of a seed's subject on a device; of a kernel, its classes, too.
    fn judged(&self, subject: Subject, judge: &Judge, seed: u64) -> (Answer, Classes) {
        match subject {
            Subject::Kernel(mut t) => {
                let answer = if self.every_way { every_way(&mut t, judge, seed) } else { judge.judge(&mut t, seed) };
                (answer, t.classes)
            }
            Subject::Graph(number, g) => {
                let options = GraphOptions { target: self.target.name, device: self.device, ..GraphOptions::of(number) };
                let answer = match judge_graph(&g, &options) {
                    Ok(a) if a.launched == 0 => Answer::PassedOver("a graph of which no kernel is taken".to_owned()),
                    Ok(_) => Answer::Equal,
                    Err(f) => Answer::Failed(f),
                };
                let mut classes = Classes::default();
                classes.add(Axis::Family, "graphs");
                (answer, classes)
            }
        }
    }
}

/// A line of a process for the one that started it.
mod line {
    /// Lines are single: what stands between them is escaped.
    pub fn escaped(text: &str) -> String {
        text.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', " ")
    }

    pub fn plain(text: &str) -> String {
        text.replace("\\n", "\n").replace("\\\\", "\\")
    }
}

/// What a process says of a seed.
#[derive(Clone, Debug)]
enum Said {
    Equal(Vec<(Axis, String)>),
    Over(String),
    Failed(Vec<(Axis, String)>, String),
}

/// Runs a range of seeds, and says what becomes of each, a line when it begins and one when it ends.
fn part(job: &Job, [from, to]: [u64; 2]) -> ExitCode {
    let judge = match Judge::open_for(job.device, job.target.clone()) {
        Ok(j) => j,
        Err(e) => {
            println!("broken\t{}", line::escaped(&e.to_string()));
            return ExitCode::from(3);
        }
    };
    std::panic::set_hook(Box::new(|_| {}));
    println!("device\t{}", line::escaped(&judge.describe()));
    for seed in from..to {
        println!("begin\t{seed}");
        let subject = match job.subject(seed) {
            Ok(s) => s,
            Err(e) => {
                println!("failed\t{seed}\t\t{}", line::escaped(&e));
                continue;
            }
        };
        let (answer, classes) = job.judged(subject, &judge, seed);
        let classes: Vec<String> = classes.iter().map(|(a, n)| format!("{a}={n}")).collect();
        let classes = line::escaped(&classes.join("|"));
        match answer {
            Answer::Equal => println!("equal\t{seed}\t{classes}"),
            Answer::PassedOver(why) => println!("over\t{seed}\t{}", line::escaped(&why)),
            Answer::Failed(f) => {
                println!("failed\t{seed}\t{classes}\t{}", line::escaped(&f.to_string()));
                // The driver's context may be lost.
                if job.device == DeviceKind::Cuda {
                    return ExitCode::FAILURE;
                }
            }
        }
        let _ = std::io::stdout().flush();
    }
    println!("end");
    ExitCode::SUCCESS
}

fn classes(text: &str) -> Vec<(Axis, String)> {
    let pairs = text.split('|').filter_map(|p| p.split_once('='));
    pairs.filter_map(|(a, n)| Some((Axis::from_word(a)?, n.to_owned()))).collect()
}

/// What is shared between the threads that wait for processes.
struct Run<'j> {
    job: &'j Job,
    next: AtomicU64,
    said: Mutex<BTreeMap<u64, Said>>,
    device: Mutex<Option<String>>,
    broken: Mutex<Option<String>>,
}

/// Seeds that a process tries.
const CHUNK: u64 = 40;

impl Run<'_> {
    /// Seeds up to the one with which enough kernels count, if that is known: all before have answered.
    fn enough(&self) -> Option<u64> {
        let said = self.said.lock().unwrap_or_else(|e| e.into_inner());
        let (mut counted, mut seed) = (0, self.job.seed);
        while counted < self.job.rounds {
            match said.get(&seed)? {
                Said::Equal(_) | Said::Failed(..) => counted += 1,
                Said::Over(_) => {}
            }
            seed += 1;
        }
        Some(seed)
    }

    fn broken(&self) -> bool {
        self.broken.lock().unwrap_or_else(|e| e.into_inner()).is_some()
    }

    fn say(&self, seed: u64, said: Said) {
        self.said.lock().unwrap_or_else(|e| e.into_inner()).insert(seed, said);
    }

    /// Takes ranges of seeds until enough kernels have counted.
    fn work(&self) {
        // Where hardly any kernel counts, something is wrong.
        let most = self.job.seed + 20 * self.job.rounds + 2000;
        while self.enough().is_none() && !self.broken() {
            let from = self.job.seed + CHUNK * self.next.fetch_add(1, Ordering::Relaxed);
            if from > most {
                return;
            }
            let to = from + CHUNK;
            let mut at = from;
            while at < to && !self.broken() {
                at = self.process([at, to]);
            }
        }
    }

    fn start(&self, [from, to]: [u64; 2]) -> std::io::Result<Child> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(self.job.family.option());
        command.args(self.job.every_way.then_some("--every-way"));
        command.args(self.job.small.then_some("--small"));
        command.args(["--target", self.job.target.name, "--device", self.job.device.word(), "--part", &from.to_string(), &to.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
    }

    /// One process: the seed behind those that it answered for.
    fn process(&self, [from, to]: [u64; 2]) -> u64 {
        let mut child = match self.start([from, to]) {
            Ok(c) => c,
            Err(e) => {
                self.broken.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(format!("no process starts: {e}"));
                return to;
            }
        };
        let (lines, heard) = channel();
        let out = child.stdout.take();
        let reader = std::thread::spawn(move || {
            let Some(out) = out else { return };
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if lines.send(line).is_err() {
                    return;
                }
            }
        });
        let (mut at, mut begun) = (from, false);
        let why = loop {
            match heard.recv_timeout(self.job.patience) {
                Ok(text) => match self.hear(&text) {
                    Heard::Begun(seed) => (at, begun) = (seed, true),
                    Heard::Answered(seed) => (at, begun) = (seed + 1, false),
                    Heard::End => break None,
                    Heard::Nothing => {}
                },
                Err(RecvTimeoutError::Timeout) => {
                    let _ = child.kill();
                    break Some(format!("no answer in {} s", self.job.patience.as_secs()));
                }
                Err(RecvTimeoutError::Disconnected) => break Some("the process ended".to_owned()),
            }
        };
        let status = child.wait().map_or_else(|e| e.to_string(), |s| s.to_string());
        let _ = reader.join();
        // One that says nothing at all must not be started for ever.
        if let (Some(why), true) = (why, begun || at == from && !self.broken()) {
            self.say(at, Said::Failed(Vec::new(), format!("{why} ({status})")));
            at += 1;
        }
        at
    }

    fn hear(&self, text: &str) -> Heard {
        let mut parts = text.split('\t');
        let (word, rest) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let seed = rest.parse::<u64>().unwrap_or_default();
        let (third, fourth) = (line::plain(parts.next().unwrap_or_default()), line::plain(parts.next().unwrap_or_default()));
        match word {
            "begin" => return Heard::Begun(seed),
            "equal" => self.say(seed, Said::Equal(classes(&third))),
            "over" => self.say(seed, Said::Over(third)),
            "failed" => self.say(seed, Said::Failed(classes(&third), fourth)),
            "end" => return Heard::End,
            "device" => {
                self.device.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(line::plain(rest));
                return Heard::Nothing;
            }
            "broken" => {
                self.broken.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert(line::plain(rest));
                return Heard::Nothing;
            }
            _ => return Heard::Nothing,
        }
        Heard::Answered(seed)
    }
}

/// What a line was.
enum Heard {
    Begun(u64),
    Answered(u64),
    End,
    Nothing,
}

/// Writes a failure to a file of its own.
fn keep(job: &Job, seed: u64, message: &str) -> Result<PathBuf, String> {
    let folder: &Path = &job.out;
    std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let path = folder.join(format!("seed{seed}.tile"));
    let mut out = String::new();
    let _ = writeln!(out, "; seed {seed}: {}", message.replace('\n', "\n; "));
    match job.subject(seed) {
        Ok(Subject::Kernel(t)) => {
            let _ = writeln!(out, "; {}", t.asked());
            out.push_str(&t.case.to_tile_text());
        }
        Ok(Subject::Graph(_, g)) => out.push_str(&g.to_text()),
        Err(e) => out.push_str(&e),
    }
    std::fs::write(&path, out).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(path)
}

fn report(job: &Job, run: &Run<'_>, took: Duration) -> ExitCode {
    let said = run.said.lock().unwrap_or_else(|e| e.into_inner());
    let end = run.enough_of(&said);
    let mut table: BTreeMap<Axis, BTreeMap<String, u64>> = BTreeMap::new();
    let mut over: BTreeMap<String, u64> = BTreeMap::new();
    let (mut counted, mut failed) = (0u64, BTreeSet::new());
    for (&seed, s) in said.range(job.seed..end) {
        let classes = match s {
            Said::Equal(c) => c,
            Said::Failed(c, message) => {
                failed.insert(seed);
                let kept = keep(job, seed, message);
                let first = message.lines().next().unwrap_or_default();
                println!("seed {seed}: {first}\n    {}", kept.map_or_else(|e| e, |p| p.display().to_string()));
                c
            }
            Said::Over(why) => {
                *over.entry(why.clone()).or_default() += 1;
                continue;
            }
        };
        counted += 1;
        for (a, n) in classes {
            *table.entry(*a).or_default().entry(n.clone()).or_default() += 1;
        }
    }
    for (axis, names) in &table {
        println!("{axis}");
        for (name, n) in names {
            println!("  {n:6}  {name}");
        }
    }
    println!("passed over");
    for (why, n) in &over {
        println!("  {n:6}  {why}");
    }
    let device = run.device.lock().unwrap_or_else(|e| e.into_inner()).clone().unwrap_or_default();
    let passed_over = over.values().sum::<u64>();
    println!(
        "{counted} kernels of seeds {}..{end} on {device}: {} equal, {} failed, {passed_over} passed over ({:.1} %), {:.0} s",
        job.seed,
        counted - failed.len() as u64,
        failed.len(),
        100.0 * passed_over as f64 / (counted + passed_over).max(1) as f64,
        took.as_secs_f64()
    );
    if let Some(why) = &*run.broken.lock().unwrap_or_else(|e| e.into_inner()) {
        println!("{why}");
        return ExitCode::from(3);
    }
    if counted < job.rounds {
        println!("too few kernels count: {counted} of {}", job.rounds);
        return ExitCode::FAILURE;
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

impl Run<'_> {
    /// The seed behind the last one that is reported.
    fn enough_of(&self, said: &BTreeMap<u64, Said>) -> u64 {
        let mut counted = 0;
        for (&seed, s) in said {
            counted += u64::from(!matches!(s, Said::Over(_)));
            if counted == self.job.rounds {
                return seed + 1;
            }
        }
        said.keys().last().map_or(self.job.seed, |s| s + 1)
    }
}

/// Prints a kernel and what becomes of it.
fn show(job: &Job, seed: u64) -> Result<(), String> {
    let mut src = Source::from_seed(seed);
    let judge = Judge::open_for(job.device, job.target.clone()).map_err(|e| e.to_string())?;
    if let Subject::Graph(number, g) = job.subject(seed)? {
        println!("{}", g.to_text());
        println!("; {:?}", job.judged(Subject::Graph(number, g), &judge, seed).0);
        return if job.reduce { Err("`fuzzgen --oracle graph` makes graphs smaller".to_owned()) } else { Ok(()) };
    }
    let family = job.family(seed);
    let mut t = job.generate(family, &mut src)?;
    let describe = |t: &Trial| {
        println!("; {}\n{}", t.asked(), t.case.to_tile_text());
        match lower(&t.case.kernel, judge.target(), &t.options) {
            Ok(l) => {
                println!("; {}", l.plan);
                if let Some(Ok(made)) = &l.written {
                    println!("{}", text::print(made));
                }
            }
            Err(e) => println!("; {e}"),
        }
    };
    describe(&t);
    let ask = |t: &mut Trial| if job.every_way { every_way(t, &judge, seed) } else { judge.judge(t, seed) };
    let answer = ask(&mut t);
    println!("; {answer:?}");
    if !job.reduce {
        return Ok(());
    }
    std::panic::set_hook(Box::new(|_| {}));
    // Of complaints the beginning says what they are about.
    let about =
        |g: &Failure| g.message.chars().filter(|c| !c.is_ascii_digit()).take(if g.kind == Kind::Mismatch { 0 } else { 90 }).collect();
    let own: Option<(Kind, String, String)> = match &answer {
        Answer::Failed(f) => Some((f.kind, f.at.clone(), about(f))),
        Answer::Equal | Answer::PassedOver(_) => None,
    };
    let same = |t: &mut Trial| match (ask(t), &own, &job.because) {
        (Answer::Failed(g), Some((kind, at, text)), _) => g.kind == *kind && g.at == *at && about(&g) == *text,
        (Answer::PassedOver(why), None, Some(text)) => why.contains(text),
        (Answer::Equal, None, Some(text)) => t.classes.iter().any(|(axis, why)| axis == Axis::Pipelined && why.contains(text)),
        (Answer::Failed(_), None, _) | (Answer::PassedOver(_) | Answer::Equal, _, _) => false,
    };
    if !same(&mut t.clone()) {
        return Ok(());
    }
    let again = |bytes: &[u8]| job.generate(family, &mut Source::from_bytes(bytes)).ok().filter(|t| same(&mut t.clone()));
    let small = shrink_as(src.taken(), &again).map_or(t, |(_, t)| t);
    let fails = |c: &Case| same(&mut Trial { case: c.clone(), ..small.clone() });
    let small = Trial { case: reduce(&small.case, &fails), ..small.clone() };
    println!("; reduced");
    describe(&small);
    println!("; {:?}", ask(&mut small.clone()));
    Ok(())
}

fn main() -> ExitCode {
    let job = match job() {
        Ok(j) => j,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::from(2);
        }
    };
    if let Some(range) = job.part {
        return part(&job, range);
    }
    if let Some(seed) = job.show {
        return match show(&job, seed) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("{e}");
                ExitCode::FAILURE
            }
        };
    }
    let start = Instant::now();
    let run = Run { job: &job, next: AtomicU64::new(0), said: Mutex::default(), device: Mutex::default(), broken: Mutex::default() };
    std::thread::scope(|s| {
        for _ in 0..job.jobs {
            s.spawn(|| run.work());
        }
    });
    report(&job, &run, start.elapsed())
}
