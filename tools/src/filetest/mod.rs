//! File tests: `.tile` texts that say in their comments what must come of them.
//!
//! ```text
//! text ─► directives ─┬─ verify   errors appear where `; error:` says, and nowhere else
//!                     ├─ print, lower, emit   `; check:` lines and precise output
//!                     └─ interp, run   interpreter ⇄ explicit values, interpreter ⇄ simulator (several schedules) ⇄ hardware
//! ```
//!
//! `docs/testing.md` describes the directives. The same code serves `tilelift test` and `cargo test`.

mod check;
pub mod data;
pub mod directive;
pub mod runline;

use crate::execute::{ExecError, Executor, Launch, Prepared};
use directive::{Directives, Stage};
use runline::RunLine;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use tilelift::{Artifact, CompileError, OptLevel, Options, compile, lower, targets};
use tilelift_interp::{Arg, InterpError, Memory};
use tilelift_ir::{Kernel, Op, text};
use tilelift_isel::{LowerError, LowerOptions, ProofScope, Resource, Target, lane};

/// A target whose assembler sees every text that runs on another one's: it has instructions of its own.
const ALSO_ASSEMBLED: &str = "sm_89";

/// Targets on whose simulators the first launch of a kernel runs, too, whichever targets its file names: what they lack is refused. With each, in
/// how many kernels one runs there, chosen by its name; of those with products four times as many.
const ALSO_RUN: &[(&str, u64)] = &[("gfx942", 1), ("gfx90a", 16), ("gfx950", 16)];

/// Checks a text with a target's assembler: `(file, text, target)`.
pub type Assembler<'h> = dyn Fn(&Path, &str, &str) -> Result<(), String> + Sync + 'h;

/// What a run of file tests uses.
pub struct Config<'h> {
    /// Rewrite precise output instead of comparing it.
    pub bless: bool,
    /// Schedules of the simulator per launch; 0 leaves the simulator out.
    pub seeds: u64,
    /// Hardware to run on, too.
    pub hardware: Option<Executor>,
    /// An assembler that every emitted text must pass.
    pub assemble: Option<&'h Assembler<'h>>,
    /// As [`Launch::steps`].
    pub steps: Option<u64>,
    /// Run at this level of optimisation only; `None` runs at every level.
    pub opt: Option<OptLevel>,
}

impl Default for Config<'_> {
    fn default() -> Self {
        Config { bless: false, seeds: 3, hardware: None, assemble: None, steps: None, opt: None }
    }
}

/// A failed expectation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The file.
    pub path: PathBuf,
    /// Its line, from 1.
    pub line: u32,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            // A failure of the file as a whole.
            0 => write!(f, "{}: {}", self.path.display(), self.message),
            line => write!(f, "{}:{line}: {}", self.path.display(), self.message),
        }
    }
}
impl std::error::Error for Failure {}

/// Every `.tile` file under a path (the path itself, if it is a file), sorted.
///
/// # Errors
/// The path, if it can't be read.
pub fn find(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unreadable = |p: &Path, e: std::io::Error| Failure { path: p.to_owned(), line: 0, message: format!("can't be read: {e}") };
    let meta = fs::metadata(path).map_err(|e| unreadable(path, e))?;
    if !meta.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let (mut files, mut folders) = (Vec::new(), vec![path.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).map_err(|e| unreadable(&folder, e))? {
            let entry = entry.map_err(|e| unreadable(&folder, e))?;
            let kind = entry.file_type().map_err(|e| unreadable(&entry.path(), e))?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if entry.path().extension().is_some_and(|e| e == "tile") {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Runs the test of one file.
///
/// # Errors
/// Every failed expectation.
pub fn run_file(path: &Path, config: &Config<'_>) -> Result<(), Vec<Failure>> {
    let fail = |line, message| Failure { path: path.to_owned(), line, message };
    let text = crate::read::text(path, tilelift_ir::text::MAX_TEXT as u64).map_err(|e| vec![fail(0, format!("can't be read: {e}"))])?;
    let directives = directive::parse(&text).map_err(|errors| errors.into_iter().map(|e| fail(e.line, e.message)).collect::<Vec<_>>())?;
    let mut test = Test {
        path,
        directives: &directives,
        config,
        failures: Vec::new(),
        output: None,
        assembled: BTreeSet::new(),
        headers: Vec::new(),
        levels: BTreeMap::new(),
        built: BTreeMap::new(),
    };
    test.run(&text);
    if let (Some(output), Some(_)) = (&test.output, directives.precise) {
        let want = directives.output.join("\n");
        if config.bless {
            if want != output.trim_end() {
                let blessed = check::bless(&text, output);
                fs::write(path, blessed).map_err(|e| vec![fail(0, format!("can't be written: {e}"))])?;
            }
        } else if let Some((line, message)) = check::precise(&directives, output) {
            test.failures.push((line, message));
        }
    }
    if test.failures.is_empty() { Ok(()) } else { Err(test.failures.into_iter().map(|(l, m)| fail(l, m)).collect()) }
}

/// An error of some stage, in the words of `; error:`.
struct Reported {
    line: u32,
    code: String,
    message: String,
}

struct Test<'t> {
    path: &'t Path,
    directives: &'t Directives,
    config: &'t Config<'t>,
    failures: Vec<(u32, String)>,
    /// The output of the stage that has one.
    output: Option<String>,
    /// Kernels and targets whose text the assembler has seen.
    assembled: BTreeSet<(String, &'static str, OptLevel)>,
    /// Where each kernel begins.
    headers: Vec<(String, u32)>,
    /// The levels at which launches of each kernel run.
    levels: BTreeMap<String, Rc<[OptLevel]>>,
    /// What all launches of a kernel run, for each target and level.
    built: BTreeMap<(String, &'static str, OptLevel), Built>,
}

/// A kernel that is compiled.
#[derive(Clone, PartialEq)]
struct Built {
    /// Absent if there is no text for the target.
    artifact: Option<Rc<Artifact>>,
    program: Rc<lane::Program>,
}

impl Test<'_> {
    fn fail(&mut self, line: u32, message: impl Into<String>) {
        self.failures.push((line, message.into()));
    }

    fn run(&mut self, source: &str) {
        let mut reported = Vec::new();
        let (kernels, headers) = match text::parse(source) {
            Ok(file) => (file.kernels, file.headers),
            Err(errors) => {
                reported.extend(errors.errors.iter().map(|e| Reported {
                    line: e.loc.line,
                    code: e.code.text().to_owned(),
                    message: e.message.clone(),
                }));
                (Vec::new(), Vec::new())
            }
        };
        for (kernel, header) in kernels.iter().zip(&headers) {
            if let Err(errors) = tilelift_ir::verify(kernel) {
                reported.extend(errors.errors.iter().map(|e| Reported {
                    // What has no line of its own is said of the kernel's header.
                    line: if e.loc.line > 0 { e.loc.line } else { header.line },
                    code: e.code.text().to_owned(),
                    message: e.message.clone(),
                }));
            }
        }
        self.headers = kernels.iter().zip(&headers).map(|(k, h)| (k.name.clone(), h.line)).collect();
        if reported.is_empty() {
            self.stages(&kernels, &mut reported);
        }
        self.match_errors(&reported);
    }

    fn stages(&mut self, kernels: &[Kernel], reported: &mut Vec<Reported>) {
        let targets = self.targets();
        for &stage in &self.directives.stages {
            let output = match stage {
                Stage::Verify => continue,
                Stage::Print => kernels.iter().map(text::print).collect::<Vec<_>>().join("\n"),
                Stage::Interp | Stage::Run => {
                    for run in &self.directives.runs {
                        self.launch(stage, run, kernels, &targets, reported);
                    }
                    continue;
                }
                Stage::Opt => compiled(kernels, &targets[..targets.len().min(1)], (&self.headers, reported), |k, _| {
                    tilelift::optimise(k, OptLevel::Logical).map(|k| text::print(&k))
                }),
                Stage::Lower => compiled(kernels, &targets, (&self.headers, reported), |k, t| {
                    lower(k, t, &Options::default()).map(|l| l.program.to_string())
                }),
                // The text for a target is judged by this target's assembler.
                Stage::Emit => targets
                    .iter()
                    .map(|target| {
                        let compile = |k: &Kernel, t: &Target| compile(k, t, &Options::default()).map(|a| a.text);
                        let out = compiled(kernels, std::slice::from_ref(target), (&self.headers, reported), compile);
                        self.assembles(1, &out, target);
                        out
                    })
                    .collect(),
            };
            if let Some((line, message)) = check::checks(&self.directives.checks, &output) {
                self.fail(line, message);
            }
            self.output = Some(output);
        }
    }

    fn targets(&mut self) -> Vec<Target> {
        if self.directives.targets.is_empty() {
            return vec![targets::usual()];
        }
        let mut list = Vec::new();
        for name in &self.directives.targets {
            match targets::by_name(name) {
                Some(t) => list.push(t),
                None => self.failures.push((1, format!("there is no target `{name}`; known are {}", targets::NAMES.join(", ")))),
            }
        }
        list
    }

    fn assembles(&mut self, line: u32, text: &str, target: &Target) {
        if let Some(assemble) = self.config.assemble
            && targets::has_text(target)
            // Texts beside code objects are compared with those in the backend's tests.
            && !targets::has_objects(target)
            && text.contains(".version")
            && let Err(e) = assemble(self.path, text, target.name)
        {
            self.fail(line, format!("the assembler refuses the text for {}: {e}", target.name));
        }
    }

    fn launch(&mut self, stage: Stage, run: &RunLine, kernels: &[Kernel], targets: &[Target], reported: &mut Vec<Reported>) {
        let Some(kernel) = kernels.iter().find(|k| k.name == run.kernel) else {
            return self.fail(run.line, format!("the file has no kernel @{}", run.kernel));
        };
        let (args, memory) = match run.bounded(self.config.steps).and_then(|()| data::arguments(run, kernel)) {
            Ok(pair) => pair,
            Err(e) => return self.fail(run.line, e),
        };
        let mut want = memory.clone();
        let options = Options::default();
        let steps = Some(self.config.steps.unwrap_or(runline::MOST_STEPS));
        let launch = Launch { grid: run.grid, args: &args, programs: None, seed: 0, steps, options: &options };
        let refused = Executor::Interp.run(kernel, &launch, &mut want).err();
        match (&run.fails, &refused) {
            (None, None) => {}
            (Some(part), Some(e)) if e.to_string().contains(part.as_str()) => {}
            (Some(part), Some(e)) => return self.fail(run.line, format!("the launch fails, but not with `{part}`: {e}")),
            (Some(_), None) => return self.fail(run.line, "the launch must fail, but the interpreter runs it"),
            (None, Some(e)) => return self.fail(run.line, format!("interpreter: {e}")),
        }
        if refused.is_none() {
            for expect in &run.expect {
                let Arg::View(view) = &args[expect.param] else { continue };
                let written = data::written(expect, view, &want);
                if let Err(e) = written.and_then(|()| data::expected(expect, view, &want, &run.tolerance)) {
                    self.fail(run.line, format!("interpreter: {e}"));
                }
            }
        }
        if stage == Stage::Run {
            let outcome = Outcome { run, kernel, args: &args, memory: &memory, want: &want, refused: refused.as_ref() };
            self.devices(&outcome, targets, reported);
        }
    }

    fn devices(&mut self, o: &Outcome<'_>, targets: &[Target], reported: &mut Vec<Reported>) {
        let levels = self.levels(o.kernel);
        for target in targets {
            let mut ran = Vec::new();
            levels.iter().for_each(|&opt| self.on_target(o, target, opt, (&mut ran, reported)));
        }
        self.assembles_also(o, targets);
        self.runs_also(o, targets);
        // A fault on a GPU takes the whole context with it: hardware gets what runs and what is refused before it starts.
        let starts = matches!(o.refused, None | Some(ExecError::Interp(InterpError::Args(_))));
        if let Some(hardware) = self.config.hardware.as_ref().filter(|_| starts) {
            for &opt in &*levels {
                let options = self.options(opt);
                let prepared = hardware.prepare(o.kernel, &options);
                self.device(o, &hardware.describe(), prepared, 0, opt);
            }
        }
    }

    /// Gives the assembler the text for [`ALSO_ASSEMBLED`], which few files name; what does not fit its shared memory, or
    /// says what units do that it has not, has none.
    fn assembles_also(&mut self, o: &Outcome<'_>, targets: &[Target]) {
        if self.config.assemble.is_none() || !targets.iter().any(|t| targets::has_text(t) && !targets::has_objects(t)) {
            return;
        }
        let Some(target) = targets::by_name(ALSO_ASSEMBLED) else { return };
        if !self.assembled.insert((o.kernel.name.clone(), target.name, OptLevel::None)) {
            return;
        }
        match compile(o.kernel, &target, &Options::default()) {
            Ok(a) => self.assembles(o.run.line, &a.text, &target),
            Err(CompileError::Lower(e)) if e.exceeds(Resource::SharedMemory) => {}
            // What is said of units is for targets that have them.
            Err(_) if o.kernel.is_explicit() && target.units.is_none() => {}
            Err(CompileError::Lower(e)) if e.needs_units() => {}
            Err(e) => self.fail(o.run.line, format!("{ALSO_ASSEMBLED}: {e}")),
        }
    }

    /// Runs the first launch of a kernel on those of [`ALSO_RUN`] whose turn it is.
    fn runs_also(&mut self, o: &Outcome<'_>, targets: &[Target]) {
        let name = o.kernel.name.bytes().fold(0, |sum, b| sum * 31 % 65_521 + u64::from(b));
        let products = o.kernel.insts.values().any(|i| matches!(i.op, Op::Dot | Op::DotScaled));
        for (at, &(other, every)) in ALSO_RUN.iter().enumerate() {
            let every = if products { every.div_ceil(4) } else { every };
            let chosen = (name + at as u64).is_multiple_of(every);
            if let Some(target) = targets::by_name(other).filter(|_| chosen && targets.iter().all(|named| named.name != other)) {
                self.runs_on(o, target);
            }
        }
    }

    /// Runs the first launch of a kernel on a target's simulator; what needs more shared memory, or lanes and units that are not there, does not.
    fn runs_on(&mut self, o: &Outcome<'_>, target: Target) {
        let level = self.config.opt.unwrap_or_default();
        if !self.assembled.insert((o.kernel.name.clone(), target.name, level)) {
            return;
        }
        match self.built(o.kernel, &target, level) {
            Ok(Built { artifact, .. }) => artifact.into_iter().for_each(|a| self.on_simulator(o, (&target, a), 0, level)),
            Err(_) if o.kernel.is_explicit() => {}
            Err(CompileError::Lower(LowerError::ResourceExceeded { .. } | LowerError::Requirement { .. })) => {}
            Err(CompileError::Registers { .. }) => {}
            Err(CompileError::Lower(e)) if e.needs_units() => {}
            // No bf16 is added to memory on gfx90a.
            Err(CompileError::Code(e)) if e.is_of_chip() => {}
            Err(e) => self.fail(o.run.line, format!("{}: {e}", target.name)),
        }
    }

    /// The levels of optimisation at which launches run: those that make another kernel, or another lane program, than the one below.
    fn levels(&mut self, kernel: &Kernel) -> Rc<[OptLevel]> {
        let find = || {
            if let Some(level) = self.config.opt {
                return Rc::from([level]);
            }
            let mut last = None;
            let mut list = Vec::new();
            for &level in OptLevel::ALL {
                let made = tilelift::optimise(kernel, level).ok().map(|k| text::print(&k));
                if list.is_empty() || made != last || level >= OptLevel::Physical && lays_out_anew(kernel) {
                    list.push(level);
                }
                last = made;
            }
            Rc::from(list)
        };
        self.levels.entry(kernel.name.clone()).or_insert_with(find).clone()
    }

    /// A kernel compiled for a target, once for all launches.
    ///
    /// # Errors
    /// Why it does not compile.
    fn built(&mut self, kernel: &Kernel, target: &Target, opt: OptLevel) -> Result<Built, CompileError> {
        let key = (kernel.name.clone(), target.name, opt);
        if let Some(built) = self.built.get(&key) {
            return Ok(built.clone());
        }
        let options = self.options(opt);
        let artifact = match compile(kernel, target, &options) {
            Err(CompileError::NoBackend { .. }) => None,
            done => Some(Rc::new(done?)),
        };
        let built = Built { artifact, program: Rc::new(lower(kernel, target, &options)?.program) };
        self.built.insert(key, built.clone());
        Ok(built)
    }

    fn options(&self, opt: OptLevel) -> Options {
        let lower = LowerOptions {
            proof: if self.directives.unproven { ProofScope::Nothing } else { ProofScope::Authors },
            ..LowerOptions::default()
        };
        Options { opt, lower, ..Options::default() }
    }

    /// Runs a launch at a level of optimisation, unless a level below made the same program and text of the kernel, which `ran` holds.
    fn on_target(&mut self, o: &Outcome<'_>, target: &Target, opt: OptLevel, (ran, reported): (&mut Vec<Built>, &mut Vec<Reported>)) {
        let Built { artifact, program } = match self.built(o.kernel, target, opt) {
            Ok(built) if ran.contains(&built) => return,
            Ok(built) => {
                ran.push(built.clone());
                built
            }
            Err(e) => {
                // Said once, of the kernel as it was written.
                if reported.iter().all(|r| r.message != e.to_string()) {
                    reported.push(compile_error(&e, o.kernel, &self.headers));
                }
                return;
            }
        };
        if let Some(a) = &artifact
            && self.assembled.insert((a.entry.clone(), target.name, opt))
        {
            self.assembles(o.run.line, &a.text, target);
        }
        let lanes = Prepared::Lane { kernel: o.kernel, target, program };
        self.device(o, &Executor::Lane(target.clone()).describe(), Ok(lanes), 0, opt);
        if let Some(artifact) = artifact.filter(|_| targets::has_text(target)) {
            // One schedule of what was optimised: its schedules are those of any kernel.
            let seeds = if opt == OptLevel::None { self.config.seeds } else { self.config.seeds.min(1) };
            (0..seeds).for_each(|seed| self.on_simulator(o, (target, artifact.clone()), seed, opt));
        }
    }

    fn on_simulator(&mut self, o: &Outcome<'_>, (target, artifact): (&Target, Rc<Artifact>), seed: u64, opt: OptLevel) {
        self.device(o, &Executor::Sim(target.clone()).describe(), Ok(Prepared::Sim(artifact)), seed, opt);
    }

    /// Compares what a device makes of a launch with what the interpreter made.
    fn device(&mut self, o: &Outcome<'_>, device: &str, prepared: Result<Prepared<'_>, ExecError>, seed: u64, opt: OptLevel) {
        let line = o.run.line;
        let mut got = o.memory.clone();
        let options = self.options(opt);
        let launch = Launch { grid: o.run.grid, args: o.args, programs: None, seed, steps: self.config.steps, options: &options };
        let result = prepared.and_then(|p| p.run(&launch, &mut got).map(drop));
        let name = format!("{device}, schedule {seed}, level {}", opt as u32);
        match (result, o.refused) {
            (Ok(()), None) => {
                if let Err(e) = data::compare(o.args, o.want, &got, &o.run.tolerance) {
                    self.fail(line, format!("{name}: {e}"));
                }
            }
            // Every device makes the same check of arguments; faults of a running program are the interpreter's to find.
            (Ok(()), Some(ExecError::Interp(InterpError::Args(e)))) => self.fail(line, format!("{name}: runs what must be refused: {e}")),
            (Ok(()) | Err(_), Some(_)) => {}
            (Err(e), None) => self.fail(line, format!("{name}: {e}")),
        }
    }

    fn match_errors(&mut self, reported: &[Reported]) {
        let fits = |r: &Reported, e: &directive::ExpectedError| r.line == e.line && r.code == e.code && r.message.contains(&e.part);
        for e in &self.directives.errors {
            if !reported.iter().any(|r| fits(r, e)) {
                self.failures.push((e.line, format!("error {} `{}` is expected here, but not reported", e.code, e.part)));
            }
        }
        for r in reported {
            if !self.directives.errors.iter().any(|e| fits(r, e)) {
                self.failures.push((r.line, format!("unexpected error {}: {}", r.code, r.message)));
            }
        }
    }
}

/// A launch and what the interpreter made of it.
struct Outcome<'o> {
    run: &'o RunLine,
    kernel: &'o Kernel,
    args: &'o [Arg],
    memory: &'o Memory,
    want: &'o Memory,
    refused: Option<&'o ExecError>,
}

/// The outputs of a stage for every kernel and target, one after the other; errors are reported.
fn compiled(
    kernels: &[Kernel],
    targets: &[Target],
    (headers, reported): (&[(String, u32)], &mut Vec<Reported>),
    stage: impl Fn(&Kernel, &Target) -> Result<String, CompileError>,
) -> String {
    let mut output = String::new();
    for target in targets {
        for kernel in kernels {
            match stage(kernel, target) {
                Ok(text) => output.push_str(&text),
                Err(e) => reported.push(compile_error(&e, kernel, headers)),
            }
        }
    }
    output
}

/// What has no line of its own is said of the kernel's header.
fn compile_error(e: &CompileError, kernel: &Kernel, headers: &[(String, u32)]) -> Reported {
    let header = || headers.iter().find(|h| h.0 == kernel.name).map_or(0, |h| h.1);
    let line = if e.loc().is_text() { e.loc().line } else { header() };
    Reported { line, code: e.code().to_owned(), message: e.to_string() }
}

/// True if searching the layouts of a kernel changes what its lanes do on a machine.
fn lays_out_anew(kernel: &Kernel) -> bool {
    let program = |target: &Target, opt: OptLevel| lower(kernel, target, &Options { opt, ..Options::default() }).ok().map(|l| l.program);
    let targets = ["sm_80", "gfx942"].into_iter().filter_map(targets::by_name);
    targets.into_iter().any(|t| program(&t, OptLevel::Logical) != program(&t, OptLevel::Physical))
}
