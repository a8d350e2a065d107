//! `accept`: the acceptance cases of the kernel library, on a device, judged against `f64` references.

use super::{CliError, Outcome, Streams, options};
use crate::execute::{DeviceKind, Executor, Launch};
use lexopt::Arg::{Long, Short, Value};
use std::time::{Duration, Instant};
use tilelift_ir::interp::{Buffer, Memory};
use tilelift_kernels::{Case, Size, Verdict, cases};

pub(super) const HELP: &str = "\
usage: tilelift accept [OPTION…]

Runs the acceptance cases and prints a table; E is the worst error in units of the tolerance (1 is the limit).
  --device NAME   interp (default), lane, sim or cuda
  --target NAME   what to compile for
  --filter TEXT   only cases whose name contains the text
  --seeds N       sets of random inputs per case (1); on the simulator each runs under another schedule
  --large         the large cases, too; devices that are slow run a sample of their programs
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

/// Runs a case on `seeds` sets of random inputs (on the simulator each under another schedule) and judges every element that was to
/// be written.
///
/// # Errors
/// A sentence, if the case does not build, compile or run.
pub fn run_case(case: &Case, device: &Executor, seeds: u64) -> Result<CaseResult, String> {
    let kernel = case.build().map_err(|e| e.to_string())?;
    let (args, grid) = (case.arguments(), case.grid());
    let sample = (case.size == Size::Large && device.kind().samples()).then(|| case.sample(SAMPLE));
    let mut worst: Option<Verdict> = None;
    let mut time = Duration::ZERO;
    for seed in 0..seeds.max(1) {
        let tensors = case.make_variant(seed);
        let mut memory = Memory::new();
        for (i, t) in tensors.iter().enumerate() {
            let output = i + 1 == tensors.len();
            memory.add(if output { Buffer::uninit(t.bytes.len()) } else { Buffer::from_bytes(t.bytes.clone()) });
        }
        let launch = Launch { grid, args: &args, programs: sample.as_deref(), seed, options: &crate::Options::default() };
        let start = Instant::now();
        device.run(&kernel, &launch, &mut memory).map_err(|e| format!("seed {seed}: {e}"))?;
        time += start.elapsed();
        for (t, b) in tensors.iter().zip(&memory.buffers).take(tensors.len().saturating_sub(1)) {
            if t.bytes != b.bytes() {
                return Err(format!("seed {seed}: an input was written"));
            }
        }
        let output = memory.buffers.last().map_or(&[][..], |b| b.bytes());
        let verdict = case.check(&tensors, output, sample.as_deref()).map_err(|e| e.to_string())?;
        let e = |v: &Verdict| v.worst.map_or(0.0, |w| w.e);
        let worse = worst.as_ref().is_none_or(|w| (!verdict.pass() && w.pass()) || (verdict.pass() == w.pass() && e(&verdict) > e(w)));
        if worse {
            worst = Some(verdict);
        }
    }
    let programs = sample.map_or(grid.iter().map(|&g| g as usize).product(), |s| s.len());
    worst.map(|verdict| CaseResult { verdict, time, programs }).ok_or_else(|| "no seed was run".into())
}

pub(super) fn run(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let (mut kind, mut target, mut filter, mut seeds, mut large, mut list) = (DeviceKind::Interp, None, String::new(), 1, false, false);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("device") => kind = options::device(parser)?,
            Long("target") => target = Some(options::target(parser)?),
            Long("filter") => filter = options::text(parser)?,
            Long("seeds") => seeds = options::number(parser, "seeds", 1..=1000)?,
            Long("large") => large = true,
            Long("list") => list = true,
            Long(_) | Short(_) | Value(_) => return Err(arg.unexpected().into()),
        }
    }
    let chosen: Vec<Case> = cases().into_iter().filter(|c| c.name.contains(&filter) && (large || c.size == Size::Small)).collect();
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
    writeln!(streams.out, "device: {}", device.describe())?;
    let width = chosen.iter().map(|c| c.name.len()).max().unwrap_or(0);
    writeln!(streams.out, "{:<width$} {:>9} {:>10} {:>10} {:>10} {:>9}", "case", "programs", "elements", "worst E", "relL2", "time s")?;
    let mut failed = 0;
    for case in &chosen {
        let line = match run_case(case, &device, seeds) {
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
        writeln!(streams.out, "{:<width$} {line}", case.name)?;
        streams.out.flush()?;
    }
    writeln!(streams.out, "{} of {} cases pass", chosen.len() - failed, chosen.len())?;
    if failed > 0 { Err(CliError::Failed(format!("{failed} cases failed"))) } else { Ok(()) }
}
