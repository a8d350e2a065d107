//! Parsing of option values that several commands share.

use super::outcome::CliError;
use crate::execute::{DeviceKind, ExecError, Executor};
use lexopt::ValueExt;
use tilelift::{OptLevel, targets};
use tilelift_isel::{ScheduleKind, Target};

/// The value of the option just read, as text.
pub(super) fn text(parser: &mut lexopt::Parser) -> Result<String, CliError> {
    Ok(parser.value()?.string()?)
}

/// The value of option `name`, a number in a range.
pub(super) fn number<T: std::str::FromStr + PartialOrd + std::fmt::Display + Copy>(
    parser: &mut lexopt::Parser,
    name: &str,
    range: std::ops::RangeInclusive<T>,
) -> Result<T, CliError> {
    let word = text(parser)?;
    match word.parse() {
        Ok(n) if range.contains(&n) => Ok(n),
        _ => Err(CliError::Usage(format!("--{name} takes a number from {} to {}, not `{word}`", range.start(), range.end()))),
    }
}

/// The value of an option that takes one of some words.
pub(super) fn word<T>(parser: &mut lexopt::Parser, name: &str, words: &[(&str, T)]) -> Result<T, CliError>
where
    T: Copy,
{
    let given = text(parser)?;
    words.iter().find(|(w, _)| *w == given).map(|&(_, t)| t).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(w, _)| *w).collect();
        CliError::Usage(format!("--{name} takes {}, not `{given}`", known.join(", ")))
    })
}

/// The value of `--opt`.
pub(super) fn opt(parser: &mut lexopt::Parser) -> Result<OptLevel, CliError> {
    let last = OptLevel::ALL.len() - 1;
    let n = number(parser, "opt", 0..=last)?;
    OptLevel::from_number(n).ok_or_else(|| CliError::Usage(format!("--opt takes a number from 0 to {last}")))
}

/// A level, or none for `all`.
pub(super) fn opt_or_all(parser: &mut lexopt::Parser) -> Result<Option<OptLevel>, CliError> {
    let given = text(parser)?;
    match given.parse().ok().and_then(OptLevel::from_number) {
        Some(level) => Ok(Some(level)),
        None if given == "all" => Ok(None),
        None => Err(CliError::Usage(format!("--opt takes a number from 0 to {}, or `all`; not `{given}`", OptLevel::ALL.len() - 1))),
    }
}

/// Where operands A of specialised loops come from: true for registers.
pub(super) const OPERAND_A: [(&str, bool); 2] = [("shared", false), ("registers", true)];

/// How results of specialised loops leave: true for bulk copies.
pub(super) const RESULTS: [(&str, bool); 2] = [("bulk", true), ("lanes", false)];

/// Words of schedules.
pub(super) const SCHEDULES: [(&str, ScheduleKind); 2] =
    [("specialised", ScheduleKind::Specialised), ("pipelined", ScheduleKind::Pipelined)];

/// The value of `--device`.
pub(super) fn device(parser: &mut lexopt::Parser) -> Result<DeviceKind, CliError> {
    let kinds: Vec<(&str, DeviceKind)> = DeviceKind::ALL.iter().map(|&k| (k.word(), k)).collect();
    word(parser, "device", &kinds)
}

/// The value of `--target`.
pub(super) fn target(parser: &mut lexopt::Parser) -> Result<Target, CliError> {
    let name = text(parser)?;
    targets::by_name(&name).ok_or_else(|| CliError::Usage(format!("there is no target `{name}`; known are {}", targets::NAMES.join(", "))))
}

/// Opens a device that was asked for.
pub(super) fn open(kind: DeviceKind, target: Option<&Target>) -> Result<Executor, CliError> {
    Executor::open(kind, target).map_err(|e| CliError::Unusable(e.to_string()))
}

/// Opens the hardware, if there is some, else the simulator; the sentence says why the simulator was chosen.
pub(super) fn best(target: Option<&Target>) -> Result<(Executor, Option<String>), CliError> {
    let hardware = if target.is_some_and(targets::has_objects) { DeviceKind::Hip } else { DeviceKind::Cuda };
    match Executor::open(hardware, target) {
        Ok(hardware) => Ok((hardware, None)),
        Err(e) => Ok((open(DeviceKind::Sim, target)?, Some(reason(&e)))),
    }
}

fn reason(e: &ExecError) -> String {
    format!("no GPU is used: {e}")
}
