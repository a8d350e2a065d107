//! `accept`: the acceptance cases of the kernel library, on a device, judged against `f64` references.

use super::options;
use super::outcome::{CliError, Outcome, Streams};
use super::progress::Progress;
use crate::execute::{DeviceKind, Executor, Launch, Prepared};
use lexopt::Arg::{Long, Short, Value};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tilelift::{OptLevel, Options};
use tilelift_interp::Memory;
use tilelift_isel::ProofScope;
use tilelift_kernels::{Case, CaseLaunch, Size, Verdict, cases, explicit};

pub(super) const HELP: &str = "\
usage: tilelift accept [OPTION…]

Runs the acceptance cases and prints a table; E is the worst error in units of the tolerance (1 is the limit).
  --device NAME   interp (default), schedule, lane, sim, cuda or hip
  --target NAME   what to compile for
  --filter TEXT   only cases whose name contains the text
  --seeds N       sets of random inputs per case (1); on the simulator each runs under another schedule
  --large         the large cases, too; devices that are slow run a sample of their programs
  --full          every program of the large cases on slow devices, too: hours on the simulator
  --runs N        the first inputs run N times, and have to give the same bits each time (1)
  --twice         as --runs 2
  --jobs N        cases at a time, each in a thread (1); the table keeps its order
  --opt N         0: as written, 1: improved by equality saturation (default), 2: layouts, too; all: each of them
  --unproven      compile tasks whose work together is not proved
  --prove         prove the compiler's own schedules, too
  --list          print the names only";

/// Programs of a large case that a slow device runs.
const SAMPLE: usize = 3;

/// What became of a case.
#[derive(Clone, PartialEq, Debug)]
pub struct CaseResult {
    /// The judgement over all schedules: the worst one.
    pub verdict: Verdict,
    /// Wall time of all schedules, references not counted.
    pub time: Duration,
    /// Programs that ran per schedule.
    pub programs: usize,
}

/// How much of a case is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Sets of random inputs; on the simulator each runs under another schedule.
    pub seeds: u64,
    /// Every program of a large case, on slow devices too, instead of a sample.
    pub full: bool,
    /// The first set of inputs runs so often, on the simulator under as many schedules, and all runs have to give the same bits.
    pub runs: u64,
    /// How much kernels are improved first.
    pub opt: OptLevel,
    /// At every level, instead of `opt` alone. What comes out as the same bits is judged once.
    pub every_level: bool,
    /// Tasks need not be proved to work together.
    pub proof: ProofScope,
}

impl Effort {
    /// A number of sets; slow devices sample the programs of large cases.
    pub const fn seeds(seeds: u64) -> Effort {
        Effort { seeds, full: false, runs: 1, opt: OptLevel::Logical, every_level: false, proof: ProofScope::Authors }
    }
}

/// The launches of a case at a level.
struct Level {
    launches: Vec<CaseLaunch>,
    options: Options,
}

impl Level {
    fn of(launches: &[CaseLaunch], device: &Executor, opt: OptLevel, proof: ProofScope) -> Result<Level, String> {
        // The interpreter runs what the optimizer made; the other devices compile it so themselves.
        let improves = device.kind() == DeviceKind::Interp && opt != OptLevel::None;
        let at_level = |l: &CaseLaunch| match improves {
            true => Ok(CaseLaunch { kernel: tilelift::optimise(&l.kernel, opt).map_err(|e| e.to_string())?.into_owned(), ..l.clone() }),
            false => Ok(l.clone()),
        };
        let launches = launches.iter().map(at_level).collect::<Result<Vec<_>, String>>()?;
        let mut options = Options { opt, ..Options::default() };
        options.lower.proof = proof;
        Ok(Level { launches, options })
    }

    fn prepared<'d>(&'d self, device: &'d Executor) -> Result<Vec<Prepared<'d>>, String> {
        let one = |l: &'d CaseLaunch| {
            let made = device.prepare_for(&l.kernel, &self.options, l.programs.is_some());
            made.map_err(|e| format!("@{}: {e}", l.kernel.name))
        };
        self.launches.iter().map(one).collect()
    }

    /// Runs the launches in a row; how long they took.
    fn run(&self, prepared: &[Prepared<'_>], seed: u64, memory: &mut Memory) -> Result<Duration, String> {
        let mut time = Duration::ZERO;
        for (l, p) in self.launches.iter().zip(prepared) {
            let launch = Launch { grid: l.grid, args: &l.args, programs: l.programs.as_deref(), seed, steps: None, options: &self.options };
            let start = Instant::now();
            p.run(&launch, memory).map_err(|e| format!("@{}: {e}", l.kernel.name))?;
            time += start.elapsed();
        }
        Ok(time)
    }
}

/// The first buffer with other bytes.
fn difference(a: &Memory, b: &Memory) -> Option<usize> {
    a.buffers.iter().zip(&b.buffers).position(|(a, b)| a.bytes() != b.bytes())
}

/// Runs a case and judges every element that was to be written.
///
/// # Errors
/// A sentence, if the case does not build, compile or run.
pub fn run_case(case: &Case, device: &Executor, effort: Effort) -> Result<CaseResult, String> {
    let grid = case.grid();
    let sample = (case.size == Size::Large && device.kind().samples() && !effort.full).then(|| case.sample(SAMPLE));
    let launches = case.launches(sample.as_deref()).map_err(|e| e.to_string())?;
    let own = [effort.opt];
    let opts = if effort.every_level { OptLevel::ALL } else { &own };
    let levels: Vec<Level> = opts.iter().map(|&opt| Level::of(&launches, device, opt, effort.proof)).collect::<Result<_, _>>()?;
    let mut worst: Option<Verdict> = None;
    let start = Instant::now();
    let prepared: Vec<Vec<Prepared<'_>>> = levels.iter().map(|l| l.prepared(device)).collect::<Result<_, _>>()?;
    let mut time = start.elapsed();
    for seed in 0..effort.seeds.max(1) {
        let tensors = case.make_variant(seed);
        let mut judged: Vec<(Memory, Verdict)> = Vec::new();
        for (level, prepared) in levels.iter().zip(&prepared) {
            let at = |e: String| if levels.len() > 1 { format!("level {}: {e}", level.options.opt as u32) } else { e };
            let mut run = |schedule: u64| {
                let mut memory = case.memory(&tensors);
                time += level.run(prepared, schedule, &mut memory).map_err(|e| format!("seed {seed}, {e}"))?;
                Ok::<_, String>(memory)
            };
            let memory = run(seed).map_err(at)?;
            let more = if seed == 0 { effort.runs.max(1) } else { 1 };
            for n in 1..more {
                let again = run(seed + n).map_err(at)?;
                if let Some(i) = difference(&memory, &again).filter(|_| case.workload.deterministic()) {
                    return Err(at(format!("run {} on the same inputs gave other bits in `{}`", n + 1, case.tensors()[i].name)));
                }
            }
            let verdict = match judged.iter().find(|(other, _)| difference(other, &memory).is_none()) {
                Some((_, verdict)) => verdict.clone(),
                None => case.judge(&tensors, &memory, sample.as_deref()).map_err(|e| at(format!("seed {seed}: {e}")))?,
            };
            let e = |v: &Verdict| v.worst.map_or(0.0, |w| w.e);
            let worse = worst.as_ref().is_none_or(|w| (!verdict.pass() && w.pass()) || (verdict.pass() == w.pass() && e(&verdict) > e(w)));
            if worse {
                worst = Some(verdict.clone());
            }
            judged.push((memory, verdict));
        }
    }
    let programs = sample.map_or(grid.iter().map(|&g| g as usize).product(), |s| s.len());
    worst.map(|verdict| CaseResult { verdict, time, programs }).ok_or_else(|| "no seed was run".into())
}

pub(super) fn run(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let (mut kind, mut target, mut filter, mut large, mut list) = (DeviceKind::Interp, None, String::new(), false, false);
    let (mut effort, mut jobs) = (Effort::seeds(1), 1);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("device") => kind = options::device(parser)?,
            Long("target") => target = Some(options::target(parser)?),
            Long("filter") => filter = options::text(parser)?,
            Long("seeds") => effort.seeds = options::number(parser, "seeds", 1..=1000)?,
            Long("opt") => match options::opt_or_all(parser)? {
                Some(opt) => effort.opt = opt,
                None => effort.every_level = true,
            },
            Long("large") => large = true,
            Long("full") => effort.full = true,
            Long("runs") => effort.runs = options::number(parser, "runs", 1..=1_000_000)?,
            Long("twice") => effort.runs = 2,
            Long("jobs") => jobs = options::number(parser, "jobs", 1..=256usize)?,
            Long("unproven") => effort.proof = ProofScope::Nothing,
            Long("prove") => effort.proof = ProofScope::All,
            Long("list") => list = true,
            Long(_) | Short(_) | Value(_) => return Err(arg.unexpected().into()),
        }
    }
    let all = cases().into_iter().chain(explicit::cases());
    let mut chosen: Vec<Case> = all.filter(|c| c.name.contains(&filter) && (large || c.size == Size::Small)).collect();
    if chosen.is_empty() {
        return Err(CliError::Failed(format!("no case has `{filter}` in its name; see --list and --large")));
    }
    if list {
        for c in &chosen {
            writeln!(streams.out, "{}", c.name)?;
        }
        return Ok(());
    }
    let device = options::open(kind, target.as_ref())?;
    // Explicit control asks for units beside the lanes.
    let units = kind == DeviceKind::Interp || device.target().is_some_and(|t| t.units.is_some());
    chosen.retain(|c| units || c.row != explicit::ROW);
    writeln!(streams.out, "device: {}", device.describe())?;
    let width = chosen.iter().map(|c| c.name.len()).max().unwrap_or(0);
    writeln!(streams.out, "{:<width$} {:>9} {:>10} {:>10} {:>10} {:>9}", "case", "programs", "elements", "worst E", "relL2", "time s")?;
    let mut failed = 0;
    let progress = Progress::of(chosen.len(), streams);
    progress.begins("cases");
    let mut print = |case: &Case, result: Result<CaseResult, String>| -> Outcome {
        let line = match result {
            Ok(r) => {
                let (v, pass) = (&r.verdict, r.verdict.pass());
                failed += usize::from(!pass);
                let e = v.worst.map_or(0.0, |w| w.e);
                let row = format!("{:>9} {:>10} {e:>10.3} {:>10.2e} {:>9.3}", r.programs, v.elements, v.rel_l2, r.time.as_secs_f64());
                if pass { format!("{row} ok") } else { format!("{row} FAILED\n    {v}") }
            }
            Err(e) => {
                failed += 1;
                format!("ERROR\n    {}", e.replace('\n', "\n    "))
            }
        };
        progress.done();
        progress.aside(|| writeln!(streams.out, "{:<width$} {line}", case.name).and_then(|()| streams.out.flush()))?;
        Ok(())
    };
    in_order(&chosen, jobs, |case| run_case(case, &device, effort), &mut print)?;
    drop(progress);
    writeln!(streams.out, "{} of {} cases pass", chosen.len() - failed, chosen.len())?;
    if failed > 0 { Err(CliError::Failed(format!("{failed} cases failed"))) } else { Ok(()) }
}

/// Works on items in `jobs` threads and takes the results in the items' order, each as soon as those before it are there. After an
/// error of `take` no further item is begun.
fn in_order<T: Sync, R: Send>(items: &[T], jobs: usize, work: impl Fn(&T) -> R + Sync, take: &mut dyn FnMut(&T, R) -> Outcome) -> Outcome {
    if jobs <= 1 {
        return items.iter().try_for_each(|item| take(item, work(item)));
    }
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|s| {
        for _ in 0..jobs.min(items.len()) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            s.spawn(move || {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(i) else { return };
                    // Nobody receives after an error; the results are of no use then.
                    if sender.send((i, work(item))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let (mut waiting, mut turn, mut outcome) = (BTreeMap::new(), 0, Ok(()));
        for (i, result) in receiver {
            waiting.insert(i, result);
            while let Some(result) = waiting.remove(&turn).filter(|_| outcome.is_ok()) {
                outcome = take(&items[turn], result);
                turn += 1;
            }
            if outcome.is_err() {
                next.store(items.len(), Ordering::Relaxed);
            }
        }
        outcome
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_an_error_ends_the_work() {
        let items: Vec<u64> = (0..40).collect();
        for jobs in [1, 3, 64] {
            let mut seen = Vec::new();
            // Early items take longest.
            let work = |&i: &u64| {
                std::thread::sleep(Duration::from_micros(400 - 10 * i));
                i * i
            };
            assert!(
                in_order(&items, jobs, work, &mut |&i, r| {
                    seen.push((i, r));
                    Ok(())
                })
                .is_ok()
            );
            assert_eq!(seen, items.iter().map(|&i| (i, i * i)).collect::<Vec<_>>());
            let mut count = 0;
            let stop = |&i: &u64, _: u64| {
                count += 1;
                if i == 2 { Err(CliError::Failed("enough".into())) } else { Ok(()) }
            };
            assert!(in_order(&items, jobs, work, &mut { stop }).is_err());
            assert_eq!(count, 3);
        }
    }
}
