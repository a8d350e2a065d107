//! `trace`: a launch in a simulator as a timeline.

use super::compiling::{self, Compiling};
use super::outcome::{CliError, Outcome, Streams};
use super::{input, launch, options, sim};
use crate::filetest::data;
use crate::filetest::runline::RunLine;
use crate::foreign::{Code, simulate_recorded};
use crate::picture::timeline::trace;
use lexopt::Arg::{Long, Short, Value};
use serde_json::json;
use tilelift::compile;
use tilelift::runtime::sim::{Landing, Policy, Recording, SimConfig, SimDevice};
use tilelift_isel::ProofScope;

pub(super) const HELP: &str = "\
usage: tilelift trace FILE [OPTION…]

Runs a launch in the simulator of the target's code, and writes what its warps did as JSON for Perfetto (ui.perfetto.dev) or Chrome's about:tracing: a
track per warp with what it runs and what it waits for (mbarriers, named barriers, the cluster, registers), a track per mbarrier with its phases, and in
between copies and wgmma groups in flight; of AMD chips waves with their barriers, and what each has in flight until it waits for it. FILE is a `.tile` file, whose first `; run:` line is launched, or a launch description in JSON (`tilelift help sim`).

The clock is the simulator's: it counts warp instructions of the whole launch, one at a time, a microsecond on the screen for each. It says in which order
things happen and who waits for whom; it is no estimate of time on hardware. Copies land when the seed says. A launch that ends in a fault is
written as far as it came, and the exit code is 1.
  --run N          the N-th `; run:` line of the file (1)
  --blocks N,…     linear numbers of the blocks that run (0); of a cluster all do
  --seed N         moments at which copies land (0)
  --landing WHEN   random (default), eager: at issue, lazy: when somebody waits and nobody can run
  -o, --output F   write to a file; `-` is standard output (default)
";

const LANDINGS: [(&str, Landing); 3] = [("random", Landing::Random), ("eager", Landing::Eager), ("lazy", Landing::Lazy)];
/// Blocks that are traced at most.
const MOST_BLOCKS: usize = 64;
/// Warp instructions after which a launch is given up: what is recorded is full long before.
const MOST_INSTRUCTIONS: u64 = 50_000_000;

/// A command line.
struct Job {
    run: usize,
    blocks: Vec<u32>,
    seed: u64,
    landing: Landing,
    output: Option<String>,
    compiling: Compiling,
}

impl Job {
    /// Warps take turns, an instruction each, so that the clock is fair to all.
    fn config(&self, blocks: Vec<u32>) -> SimConfig {
        SimConfig {
            seed: self.seed,
            policy: Policy::Lockstep,
            landing: self.landing,
            ctas: Some(blocks),
            max_instructions: MOST_INSTRUCTIONS,
            ..SimConfig::default()
        }
    }
}

/// What was recorded of what, and how it ended.
struct Traced {
    recording: Recording,
    text: String,
    kernel: String,
    target: String,
    failed: Option<String>,
}

pub(super) fn run(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let mut path = None;
    let mut job = Job { run: 1, blocks: vec![0], seed: 0, landing: Landing::Random, output: None, compiling: Compiling::new() };
    while let Some(arg) = parser.next()? {
        match arg {
            Long("run") => job.run = options::number(parser, "run", 1..=1 << 20)?,
            Long("blocks") => job.blocks = blocks(&options::text(parser)?)?,
            Long("seed") => job.seed = options::number(parser, "seed", 0..=u64::MAX)?,
            Long("landing") => job.landing = options::word(parser, "landing", &LANDINGS)?,
            Long("output") | Short('o') => job.output = Some(options::text(parser)?),
            Long(name) => {
                let name = name.to_owned();
                if !job.compiling.take(&name, parser)? {
                    return Err(compiling::unknown(&name));
                }
            }
            Value(v) if path.is_none() => path = Some(v.to_string_lossy().into_owned()),
            Value(_) | Short(_) => return Err(arg.unexpected().into()),
        }
    }
    let path = path.ok_or_else(|| CliError::Usage("no file is given".into()))?;
    let traced = if path.ends_with(".json") { of_description(&job, &path)? } else { of_tile(&mut job, &path, streams)? };
    let about = [
        ("kernel", json!(traced.kernel)),
        ("target", json!(traced.target)),
        ("file", json!(path)),
        ("seed", json!(job.seed)),
        ("fault", json!(traced.failed)),
    ];
    let made = trace(&traced.recording, &traced.text, &about);
    compiling::write(job.output.as_deref(), &format!("{made}\n"), streams)?;
    if traced.recording.dropped > 0 {
        let (kept, left) = (traced.recording.events.len(), traced.recording.dropped);
        writeln!(
            streams.err,
            "the timeline holds the first {kept} events; {left} more are left out: launch fewer blocks, or a shorter loop"
        )?;
    }
    match traced.failed {
        Some(why) => Err(CliError::Failed(format!("{path}: {why}"))),
        None => Ok(()),
    }
}

/// `0,1,7`.
fn blocks(word: &str) -> Result<Vec<u32>, CliError> {
    let list: Option<Vec<u32>> = word.split(',').map(|w| w.parse().ok()).collect();
    let list = list.filter(|l| l.len() <= MOST_BLOCKS);
    let mut list =
        list.ok_or_else(|| CliError::Usage(format!("--blocks takes up to {MOST_BLOCKS} numbers separated by commas, not `{word}`")))?;
    list.sort_unstable();
    list.dedup();
    Ok(list)
}

/// The blocks, with all that share a cluster with them: neighbours along x.
fn whole_clusters(blocks: &[u32], cluster: u32) -> Vec<u32> {
    let cluster = cluster.max(1);
    let mut all: Vec<u32> = blocks.iter().flat_map(|b| (0..cluster).map(move |r| (b / cluster * cluster).saturating_add(r))).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The blocks that are asked for exist.
fn inside(blocks: &[u32], grid: [u32; 3]) -> Outcome {
    let all: u64 = grid.iter().map(|&e| u64::from(e)).product();
    match blocks.iter().find(|&&b| u64::from(b) >= all) {
        Some(b) => Err(CliError::Usage(format!("--blocks: there is no block {b} in a grid of {grid:?}, which has {all}"))),
        None => Ok(()),
    }
}

/// Traces a `; run:` line.
fn of_tile(job: &mut Job, path: &str, streams: &mut Streams<'_>) -> Result<Traced, CliError> {
    let source = input::read(path)?;
    let file = input::load(&source, streams)?;
    let (runs, unproven) = launch::directives(path, &source.text, streams)?;
    if unproven && job.compiling.options.lower.proof == ProofScope::Authors {
        job.compiling.options.lower.proof = ProofScope::Nothing;
    }
    let run: &RunLine = runs.get(job.run - 1).ok_or_else(|| match runs.len() {
        0 => CliError::Failed(format!("{path}: has no `; run:` line, which says with what a kernel is launched (docs/testing.md)")),
        n => CliError::Usage(format!("--run {}: {path} has {n} `; run:` lines", job.run)),
    })?;
    let failed = |why: String| CliError::Failed(format!("{path}:{}: {why}", run.line));
    let kernel = file.kernel(&run.kernel).ok_or_else(|| failed(format!("there is no kernel @{}", run.kernel)))?;
    let (args, mut memory) = run.bounded(None).and_then(|()| data::arguments(run, kernel)).map_err(failed)?;
    let Compiling { target, options } = &job.compiling;
    let artifact = match compile(kernel, target, options) {
        Ok(artifact) => artifact,
        Err(e) => return Err(job.compiling.refused(&source, kernel, &e, streams)?),
    };
    inside(&job.blocks, run.grid)?;
    let device = SimDevice::new(job.config(whole_clusters(&job.blocks, artifact.cluster)));
    let loaded = device.load(&artifact).map_err(|e| failed(e.to_string()))?;
    let mut recording = Recording::new();
    let done = device.execute_recorded(&loaded, run.grid, &args, &mut memory, &mut recording);
    Ok(Traced {
        recording,
        text: artifact.text,
        kernel: kernel.name.clone(),
        target: target.name.to_owned(),
        failed: done.err().map(|e| e.to_string()),
    })
}

/// Traces a launch description.
fn of_description(job: &Job, path: &str) -> Result<Traced, CliError> {
    let sim::Described { launch, code, shown, contents, .. } = sim::described(path)?;
    let Code::Ptx(text) = code else {
        return Err(CliError::Failed(format!("{shown}: is a code object, and not traced; `tilelift sim` runs it")));
    };
    inside(&job.blocks, launch.grid)?;
    let mut recording = Recording::new();
    let done = simulate_recorded(&text, &launch, &contents, job.config(job.blocks.clone()), &mut recording);
    Ok(Traced { recording, kernel: launch.entry.clone(), target: String::new(), failed: done.err().map(|e| e.to_string()), text })
}
