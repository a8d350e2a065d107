//! What `layout`, `report` and `trace` are told of a compile, and which kernel of a file they look at.

use super::input::{self, Source};
use super::options;
use super::outcome::{CliError, Outcome, Streams};
use std::fs;
use tilelift::{CompileError, Options, targets};
use tilelift_ir::text::File;
use tilelift_ir::{Kernel, Loc};
use tilelift_isel::{ProofScope, Target};

/// The options, for the commands' help.
pub(super) const HELP: &str = "\
  --target NAME    the machine (sm_80 if not given); `tilelift devices` lists them
  --opt N          0: as written, 1: equality saturation over the tile program (default), 2: layouts, too
  --schedule NAME  specialised or pipelined (the planner's choice)
  --warps N, --stages N   instead of the kernel's hints
  --unproven       tasks whose work together is not proved
  --prove          the compiler's own schedules are proved, too";

/// What is told.
pub(super) struct Compiling {
    pub(super) target: Target,
    pub(super) options: Options,
}

impl Compiling {
    pub(super) fn new() -> Compiling {
        Compiling { target: targets::usual(), options: Options::default() }
    }

    /// Takes an option that is one of these; false for others.
    pub(super) fn take(&mut self, name: &str, parser: &mut lexopt::Parser) -> Result<bool, CliError> {
        let lower = &mut self.options.lower;
        match name {
            "target" => self.target = options::target(parser)?,
            "opt" => self.options.opt = options::opt(parser)?,
            "schedule" => lower.schedule = Some(options::word(parser, "schedule", &options::SCHEDULES)?),
            "warps" => lower.warps = Some(options::number(parser, "warps", 1..=64)?),
            "stages" => lower.stages = Some(options::number(parser, "stages", 1..=16)?),
            "unproven" => lower.proof = ProofScope::Nothing,
            "prove" => lower.proof = ProofScope::All,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Says why a kernel of a file does not compile.
    pub(super) fn refused(
        &self,
        source: &Source,
        kernel: &Kernel,
        e: &CompileError,
        streams: &mut Streams<'_>,
    ) -> Result<CliError, CliError> {
        let loc = e.loc();
        input::report(source, loc, &format!("error[{}]: {}", e.code(), reason(e)), 1, streams)?;
        Ok(CliError::Failed(format!("@{} does not compile for {} (stage {})", kernel.name, self.target.name, e.stage())))
    }
}

/// Why a kernel does not compile, without the place and the kind that stand in front of it already.
pub(super) fn reason(e: &CompileError) -> String {
    let (Loc { line, col, .. }, message) = (e.loc(), e.to_string());
    let message = message.strip_prefix(&format!("{line}:{col}: ")).unwrap_or(&message);
    message.strip_prefix(&format!("{}: ", e.code())).unwrap_or(message).to_owned()
}

/// An option that a command does not know.
pub(super) fn unknown(name: &str) -> CliError {
    CliError::Usage(format!("invalid option '--{name}'"))
}

/// The kernel of a name, or the only one, and the line of its header.
pub(super) fn chosen<'f>(source: &Source, file: &'f File, name: Option<&str>) -> Result<(&'f Kernel, u32), CliError> {
    let names: Vec<String> = file.kernels.iter().map(|k| format!("@{}", k.name)).collect();
    let wanted = name.map(|n| n.trim_start_matches('@'));
    let found = match wanted {
        Some(n) => file.kernels.iter().position(|k| k.name == n),
        None => Some(0).filter(|_| file.kernels.len() == 1),
    };
    match (found, wanted) {
        (Some(n), _) => Ok((&file.kernels[n], file.headers.get(n).map_or(1, |l| l.line))),
        (None, _) if names.is_empty() => Err(CliError::Failed(format!("{}: has no kernel", source.name))),
        (None, Some(n)) => Err(CliError::Failed(format!("{}: has no kernel @{n}; it has {}", source.name, names.join(", ")))),
        (None, None) => Err(CliError::Usage(format!("{} has {}: say which with `--kernel`", source.name, names.join(", ")))),
    }
}

/// Writes a document to a file, or to standard output for none and for `-`.
pub(super) fn write(output: Option<&str>, text: &str, streams: &mut Streams<'_>) -> Outcome {
    match output {
        Some(f) if f != "-" => fs::write(f, text).map_err(|e| CliError::Unusable(format!("{f}: {e}"))),
        Some(_) | None => Ok(streams.out.write_all(text.as_bytes())?),
    }
}
