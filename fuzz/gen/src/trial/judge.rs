//! Who judges trials: the interpreter on the kernel, against a device on what the compiler makes of it.

use super::classes::{first_sentence, without_numbers};
use super::subject::Trial;
use crate::case::Case;
use crate::oracle;
use crate::verdict::{Failure, Kind, failure, guarded};
use tilelift::isel::{LowerError, Lowered, Target};
use tilelift::{CompileError, lower, targets};
use tilelift_interp::Memory;
use tilelift_ir::channel::{Capabilities, expand};
use tilelift_ir::{Kernel, Op};
use tilelift_isel::Schedule;
use tilelift_isel::reason::Unsupported;
use tilelift_tools::execute::{DeviceKind, ExecError, Executor, Launch, Prepared};

/// What became of a trial.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// The device computes what the interpreter computes.
    Equal,
    /// The kernel is not specialised, or refused: for this reason, without numbers.
    PassedOver(String),
    /// It does not.
    Failed(Failure),
}

/// Instances of kernels that run several grid positions, at most: so few that they do.
const INSTANCES: u32 = 3;

/// A device and its target.
pub struct Judge {
    device: Executor,
    target: Target,
}

impl Judge {
    /// Opens a device; what is not hardware stands for `sm_90a`.
    ///
    /// # Errors
    /// There is no such device.
    pub fn open(kind: DeviceKind) -> Result<Judge, ExecError> {
        Judge::open_for(kind, targets::by_name("sm_90a").unwrap_or_else(targets::usual))
    }

    /// As [`Judge::open`], for a target.
    ///
    /// # Errors
    /// As [`Judge::open`].
    pub fn open_for(kind: DeviceKind, target: Target) -> Result<Judge, ExecError> {
        Ok(Judge { device: Executor::open(kind, Some(&target))?, target })
    }

    /// The device, for people.
    pub fn describe(&self) -> String {
        self.device.describe()
    }

    /// The target that kernels are compiled for.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Judges a trial; adds to its classes what the compiler decided. `seed` is that of the simulator's schedule.
    ///
    /// For a target that specialises nothing, no trial asks for that, and each counts.
    pub fn judge(&self, trial: &mut Trial, seed: u64) -> Answer {
        let at = self.device.kind().to_string();
        let specialises = self.target.units.is_some();
        if !specialises {
            trial.options.lower.schedule = None;
        }
        let lowered = match guarded("compile", || Ok(lower(&trial.case.kernel, &self.target, &trial.options))) {
            Err(f) => return Answer::Failed(f),
            Ok(Err(e)) => return refused(&e),
            Ok(Ok(l)) => l,
        };
        if let (Schedule::Pipelined { why }, true) = (&lowered.plan.schedule, specialises && !trial.any) {
            return Answer::PassedOver(format!("pipelined: {}", without_numbers(&first_sentence(&why.to_string()))));
        }
        trial.classes.add_lowered(&lowered);
        let answer = oracle::reference(&trial.case).and_then(|want| self.compare(trial, &lowered, &want, seed, &at));
        answer.unwrap_or_else(Answer::Failed)
    }

    /// Equal, or passed over, if a backend refuses what was lowered.
    fn compare(&self, trial: &Trial, lowered: &Lowered, want: &Memory, seed: u64, at: &str) -> Result<Answer, Failure> {
        let case = &trial.case;
        let different = |got: &Memory| case.difference(want, got).map_or(Ok(()), |d| Err(failure(Kind::Mismatch, at, d)));
        if self.device.kind() == DeviceKind::Interp {
            // What is written means the same, whoever runs it.
            for kernel in written(&case.kernel, lowered) {
                let made = Case { kernel, ..case.clone() };
                let got = oracle::reference(&made).map_err(|f| Failure { message: format!("of what is written: {}", f.message), ..f })?;
                different(&got)?;
            }
            return Ok(Answer::Equal);
        }
        guarded(at, || {
            let launch = Launch { grid: case.grid, args: &case.args(), programs: None, seed, steps: None, options: &trial.options };
            let mut memory = case.memory();
            let mut ready = match self.device.prepare(&case.kernel, &trial.options) {
                Ok(r) => r,
                Err(ExecError::Compile(e)) => return Ok(refused(&e)),
                Err(e) => return Err(failure(Kind::Malformed, at, e)),
            };
            limit(&mut ready);
            ready.run(&launch, &mut memory).map_err(|e| failure(Kind::Fault, at, e))?;
            different(&memory).map(|()| Answer::Equal)
        })
    }
}

/// Lets few instances run, where they take one grid position after the other.
fn limit(ready: &mut Prepared<'_>) {
    match ready {
        #[cfg(feature = "cuda")]
        Prepared::Cuda { kernel, .. } => kernel.limit_instances(INSTANCES),
        // The simulator's device has as many.
        _ => _ = INSTANCES,
    }
}

/// The program that the plan was written as; an author's with its channels as slots and barriers, in two ways.
fn written(kernel: &Kernel, lowered: &Lowered) -> Vec<Kernel> {
    match &lowered.written {
        Some(Ok(made)) => vec![made.as_ref().clone()],
        Some(Err(_)) => Vec::new(),
        None if kernel.insts.values().any(|d| d.op == Op::ChannelAlloc) => {
            [&Capabilities::ALL, &Capabilities::NONE].map(|units| expand(kernel, units)).into()
        }
        None => Vec::new(),
    }
}

/// A refusal, or a bug that looks like one.
pub(crate) fn refused(e: &CompileError) -> Answer {
    match e {
        CompileError::Verify(_) => Answer::Failed(failure(Kind::Generator, "verifier", e)),
        CompileError::Lane(_) => Answer::Failed(failure(Kind::Malformed, "lane verifier", e)),
        // What the compiler itself writes is right.
        CompileError::Lower(LowerError::Unsupported { why, .. }) if own(why) => Answer::Failed(failure(Kind::Malformed, "proof", e)),
        CompileError::Lower(e) => Answer::PassedOver(without_numbers(&first_sentence(&oracle::reason(e)))),
        CompileError::Registers { why, .. } => Answer::PassedOver(without_numbers(&format!("registers: {why}"))),
        CompileError::Code(e) if e.is_of_chip() || e.is_resource() => Answer::PassedOver(without_numbers(&format!("the chip: {e}"))),
        CompileError::Emit(_) | CompileError::Code(_) | CompileError::NoBackend { .. } => {
            Answer::Failed(failure(Kind::Malformed, "emit", e))
        }
    }
}

/// Refusals of what nobody but the compiler wrote, and of tasks whose protocol is right.
fn own(why: &Unsupported) -> bool {
    matches!(why, Unsupported::Malformed(..) | Unsupported::Unproved { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Source;

    /// A device's numbers are looked at: those of another kernel are not equal.
    #[test]
    fn other_numbers_are_a_failure() {
        for kind in [DeviceKind::Interp, DeviceKind::Lane, DeviceKind::Sim] {
            let judge = Judge::open(kind).map_err(|e| e.to_string()).expect("a device");
            let mut found = 0;
            for seed in 0..40 {
                let trial = super::super::generate_trial(&mut Source::from_seed(seed)).map_err(|e| e.to_string()).expect("a kernel");
                let Ok(lowered) = lower(&trial.case.kernel, &judge.target, &trial.options) else { continue };
                let exact = trial.case.tensors().all(|t| t.tolerance.is_none());
                let Some(Ok(_)) = lowered.written.as_ref().filter(|_| exact) else { continue };
                let mut want = oracle::reference(&trial.case).map_err(|f| f.to_string()).expect("it runs");
                assert_eq!(judge.compare(&trial, &lowered, &want, seed, "device"), Ok(Answer::Equal), "seed {seed}, {kind}");
                let kernel = &trial.case.kernel;
                let changed = want.buffers.iter().zip(&trial.case.memory().buffers).position(|(a, b)| a.bytes() != b.bytes());
                let buffer = changed.unwrap_or_else(|| panic!("seed {seed}: {} stores nothing", kernel.name));
                // The sign of the first number.
                let size = trial.case.tensors().nth(buffer).map_or(1, |t| t.elem.bytes() as usize);
                want.buffers[buffer].bytes_mut()[size - 1] ^= 0x80;
                let answer = judge.compare(&trial, &lowered, &want, seed, "device");
                assert!(matches!(&answer, Err(f) if f.kind == Kind::Mismatch), "seed {seed}, {kind}: {answer:?}");
                found += 1;
            }
            assert!(found >= 8, "{found} kernels on {kind}");
        }
    }
}
