//! A launch with its tensors: what sampled instances of it store, what is counted of it, and what it does in the simulator.

use super::flops::{NotCounted, Operations, operations};
use super::launches::regrouped;
use super::sample::{self, Reference};
use crate::bench::sim::SimRow;
use crate::execute::{DeviceKind, Executor, Launch};
use crate::filetest::data;
use crate::filetest::runline::RunLine;
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;
use tilelift::{Divisors, GridFacts, Options};
use tilelift_interp::{Arg, InterpError, Memory, check_args_in};
use tilelift_ir::{Kernel, verify};

/// Most time that the interpreter takes for the samples of a launch, unless one instance takes longer.
const TIME: Duration = Duration::from_secs(30);

/// A launch of a kernel.
pub(crate) struct Job<'k> {
    pub(crate) kernel: Cow<'k, Kernel>,
    pub(crate) run: RunLine,
    /// What the arguments are multiples of, where the kernel is compiled for that.
    pub(crate) divisors: Divisors,
    /// What its grid is like, where the kernel is compiled for that.
    pub(crate) grid: Option<GridFacts>,
}

impl fmt::Display for Job<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{} grid {:?}", self.kernel.name, self.run.grid)
    }
}

impl<'k> Job<'k> {
    /// A launch of a kernel whose promises its arguments keep, compiled for what they are multiples of or for any; no tensor is filled.
    ///
    /// # Errors
    /// What they break.
    pub(crate) fn new(kernel: &'k Kernel, run: RunLine, any: bool) -> Result<Job<'k>, NotBenched> {
        let run = regrouped(run, kernel);
        let args = data::shaped(&run, kernel).map_err(NotBenched::Arguments)?;
        let buffers: Vec<u64> =
            args.iter().filter_map(|a| if let Arg::View(v) = a { Some(v.byte_range().end as u64) } else { None }).collect();
        check_args_in(kernel, &args, &buffers).map_err(|e| NotBenched::Arguments(e.to_string()))?;
        let divisors = if any { Divisors::default() } else { Divisors::of(kernel, &args) };
        let kernel = if divisors.is_empty() { Cow::Borrowed(kernel) } else { Cow::Owned(divisors.apply(kernel)) };
        let grid = if any { None } else { GridFacts::of(run.grid) };
        Ok(Job { kernel, run, divisors, grid })
    }
}

/// Why a launch is not benched.
#[derive(Debug)]
pub(crate) enum NotBenched {
    /// Its tensors can't be had, or it fits no kernel.
    Arguments(String),
    /// The interpreter stopped.
    Interpreter(InterpError),
    /// The device stopped, or the kernel does not compile.
    Device(String),
    /// The output is wrong.
    Wrong(String),
}

impl fmt::Display for NotBenched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotBenched::Arguments(e) | NotBenched::Device(e) => f.write_str(e),
            NotBenched::Interpreter(e) => write!(f, "the interpreter stops: {e}"),
            NotBenched::Wrong(e) => write!(f, "WRONG OUTPUT, not timed: {e}"),
        }
    }
}

/// A launch with its tensors, and what is known of it.
pub(crate) struct Ready<'k> {
    pub(crate) job: &'k Job<'k>,
    pub(crate) args: Vec<Arg>,
    pub(crate) memory: Memory,
    /// What sampled instances store; none if no sample is asked for.
    reference: Option<Reference>,
    /// Operations of its dots.
    operations: Result<Operations, NotCounted>,
    /// Bytes of its tensors.
    bytes: u64,
}

/// Fills the tensors of a launch, runs samples of it on the interpreter, and counts.
///
/// # Errors
/// Arguments that do not fit, or a fault of the interpreter.
pub(crate) fn ready<'k>(job: &'k Job<'k>, samples: u64, seed: u64) -> Result<Ready<'k>, NotBenched> {
    let (args, mut memory) = data::arguments(&job.run, &job.kernel).map_err(NotBenched::Arguments)?;
    let verified = verify(&job.kernel).map_err(|e| NotBenched::Arguments(e.to_string()))?;
    let sampled = |memory: &mut Memory| sample::reference(&verified, (job.run.grid, &args), memory, (samples, seed), TIME);
    let reference = (samples > 0).then(|| sampled(&mut memory)).transpose().map_err(NotBenched::Interpreter)?;
    let operations = operations(&job.kernel, job.run.grid, &args, &mut memory);
    let bytes = sample::bytes(&job.kernel, &args, &memory);
    Ok(Ready { job, args, memory, reference, operations, bytes })
}

impl Ready<'_> {
    /// Judges what a device left in memory, all of the grid or the sampled instances alone; what was compared.
    ///
    /// # Errors
    /// A wrong element.
    pub(crate) fn judge(&self, got: &Memory, whole: bool) -> Result<String, NotBenched> {
        if let Some(r) = &self.reference {
            r.compare(&self.args, got).map_err(|e| NotBenched::Wrong(e.to_string()))?;
        }
        let expected: Vec<&_> = self.job.run.expect.iter().filter(|_| whole).collect();
        for e in &expected {
            if let Arg::View(view) = &self.args[e.param] {
                data::expected(e, view, got, &self.job.run.tolerance).map_err(NotBenched::Wrong)?;
            }
        }
        let lines: Vec<String> = expected.iter().map(|e| format!("v{} is what the launch expects of it", e.param)).collect();
        Ok(match &self.reference {
            Some(r) => r.said(&lines.join(", ")),
            None if lines.is_empty() => "nothing (`--check 0`)".to_owned(),
            None => lines.join(", "),
        })
    }

    /// Runs the sampled instances in the simulator, and judges what they wrote.
    ///
    /// # Errors
    /// It does not compile or run, or its output is wrong.
    pub(crate) fn simulated(&self, device: &Executor, options: &Options) -> Result<(SimRow, String), NotBenched> {
        let programs = self
            .reference
            .as_ref()
            .map_or_else(|| (0..self.job.kernel.cluster.max(1)).map(|x| [x, 0, 0]).collect(), |r| r.programs.clone());
        let mut got = self.memory.clone();
        let launch =
            Launch { grid: self.job.run.grid, args: &self.args, programs: Some(&programs), seed: 0, steps: Some(u64::MAX), options };
        debug_assert_eq!(device.kind(), DeviceKind::Sim);
        let report = device.run(&self.job.kernel, &launch, &mut got).map_err(|e| NotBenched::Device(e.to_string()))?;
        let checked = self.judge(&got, false)?;
        let row = SimRow {
            problem: self.job.to_string(),
            label: String::new(),
            programs: programs.len() as u64,
            reports: report.into_iter().collect(),
        };
        Ok((row, checked))
    }

    /// Bytes of its tensors.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Operations of its dots, as far as they are counted.
    pub(crate) fn operations(&self) -> Option<f64> {
        self.operations.as_ref().ok().map(|o| o.all)
    }

    /// What is counted of it, for people.
    pub(crate) fn counted(&self) -> String {
        let bytes = format!("{:.3} MB of tensors, those that are read and those that are written, each once", self.bytes as f64 * 1e-6);
        match &self.operations {
            Err(why) => format!("{bytes}; operations are not counted: {why}"),
            Ok(o) if o.all == 0.0 => format!("{bytes}; no dots"),
            Ok(o) if o.counted < o.instances => {
                format!("{bytes}; {:.3} GFLOP of dots, by {} of {} instances", o.all * 1e-9, o.counted, o.instances)
            }
            Ok(o) => format!("{bytes}; {:.3} GFLOP of dots, of all {} instances", o.all * 1e-9, o.instances),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift::targets;
    use tilelift_isel::Target;

    const TEXT: &str = "kernel @scale(v0: view<f16, [?, ?%64]>, v1: view<f32, [?, ?%16]>) {
    v2 = program_id x
    v3 = mul v2, 16
    v4 = dim v0, 1
    v5 = splat 0.0 : tile<16x16xf32>
    v6 = for v7 in 0..v4 step 16 carry v8 = v5 {
        v9 = load v0[v3, v7] : tile<16x16xf16>
        v10 = dot v9, v9, v8
        yield v10
    }
    store v1[v3, 0], v6
}";

    fn job(kernel: &Kernel, run: &str) -> Job<'static> {
        // The test's kernels live as long as the test.
        let kernel: &'static Kernel = Box::leak(Box::new(kernel.clone()));
        Job::new(kernel, super::super::launches::one(1, run).unwrap().run, true).unwrap()
    }

    fn kernel() -> Kernel {
        tilelift_ir::text::parse(TEXT).unwrap().kernels.remove(0)
    }

    fn sm_80() -> Target {
        targets::by_name("sm_80").unwrap()
    }

    #[test]
    fn a_launch_is_sampled_counted_and_simulated() {
        let job = job(&kernel(), "@scale(grid=10, v0=rand:1[160x64], out v1=[160x16])");
        let ready = ready(&job, 3, 1).unwrap();
        assert_eq!(ready.operations(), Some(10.0 * 4.0 * 2.0 * 4096.0));
        assert_eq!(ready.bytes(), 160 * 64 * 2 + 160 * 16 * 4);
        let sim = Executor::Sim(sm_80());
        let (row, checked) = ready.simulated(&sim, &Options::default()).unwrap();
        assert_eq!((row.programs, row.reports.len()), (3, 1));
        assert!(row.reports[0].instructions > 0 && checked.contains("768 elements of v1 that 3 of 10 instances"), "{checked}");
        assert!(ready.counted().contains("of all 10 instances"), "{}", ready.counted());
    }

    #[test]
    fn wrong_outputs_and_arguments_are_told() {
        let kernel = kernel();
        let job = job(&kernel, "@scale(grid=10, v0=rand:1[160x64], out v1=[160x16]) == v1 {1}");
        let ready = ready(&job, 1, 1).unwrap();
        let mut got = ready.memory.clone();
        assert!(ready.judge(&got, true).unwrap_err().to_string().contains("WRONG OUTPUT"));
        // The sampled instance is right, and the expectation is not.
        let verified = verify(&kernel).unwrap();
        tilelift_interp::interpret(&verified, [10, 1, 1], &ready.args, &mut got, &Default::default()).unwrap();
        assert!(ready.judge(&got, false).is_ok());
        assert!(ready.judge(&got, true).unwrap_err().to_string().contains("1 are expected"));
        let refused = |run: &str| Job::new(&kernel, super::super::launches::one(1, run).unwrap().run, true).err().unwrap().to_string();
        assert!(refused("@scale(grid=10, v0=rand:1[160x63], out v1=[160x16])").contains("argument 0"));
        assert!(refused("@scale(grid=10, v0=rand:1[16x64])").contains("2 parameters"));
    }
}
