//! Reading `.tile` files, and showing what is wrong with them.

use super::outcome::{CliError, Outcome, Streams};
use std::fs;
use std::path::Path;
use tilelift_ir::{Loc, VerifyErrors, text};

/// A file's name and text.
pub(super) struct Source {
    pub(super) name: String,
    pub(super) text: String,
}

/// Reads a text file, or standard input for `-`.
pub(super) fn read(path: &str) -> Result<Source, CliError> {
    utf8(path, bytes(path, text::MAX_TEXT as u64)?)
}

/// The bytes of a file, or of standard input for `-`.
pub(super) fn bytes(path: &str, most: u64) -> Result<Vec<u8>, CliError> {
    let unusable = |why: String| CliError::Unusable(format!("{path}: {why}"));
    if path == "-" {
        return crate::read::limited(std::io::stdin().lock(), most).map_err(|e| unusable(e.to_string()));
    }
    let meta = fs::metadata(path).map_err(|e| unusable(e.to_string()))?;
    if meta.is_dir() {
        return Err(unusable("is a folder; name a file".into()));
    }
    if meta.len() > most {
        return Err(unusable(format!("has {} bytes; at most {most} are read", meta.len())));
    }
    // A device has no size, and perhaps no end.
    crate::read::whole(Path::new(path), most).map_err(|e| unusable(e.to_string()))
}

/// What was read of a file, as text.
pub(super) fn utf8(path: &str, bytes: Vec<u8>) -> Result<Source, CliError> {
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source { name: if path == "-" { "<stdin>".into() } else { path.to_owned() }, text }),
        Err(e) => {
            let at = e.utf8_error().valid_up_to();
            let line = e.as_bytes()[..at].iter().filter(|&&b| b == b'\n').count() + 1;
            Err(CliError::Failed(format!("{path}:{line}: is not UTF-8 text (byte {at})")))
        }
    }
}

/// Parses and verifies a file; what is wrong goes to standard error.
pub(super) fn load(source: &Source, streams: &mut Streams<'_>) -> Result<text::File, CliError> {
    let file = match text::parse(&source.text) {
        Ok(file) => file,
        Err(errors) => {
            for e in &errors.errors {
                report(source, e.loc, &format!("error[{}]: {}", e.code, e.message), e.len, streams)?;
            }
            return Err(CliError::Failed(count(&source.name, errors.errors.len(), errors.more)));
        }
    };
    let mut wrong = 0;
    for (kernel, &header) in file.kernels.iter().zip(&file.headers) {
        if let Err(errors) = tilelift_ir::verify(kernel) {
            wrong += errors.errors.len();
            report_verify(source, header, &errors, streams)?;
        }
    }
    if wrong > 0 { Err(CliError::Failed(count(&source.name, wrong, false))) } else { Ok(file) }
}

fn count(name: &str, errors: usize, more: bool) -> String {
    format!("{name}: {errors}{} error{}", if more { " or more" } else { "" }, if errors == 1 { "" } else { "s" })
}

fn report_verify(source: &Source, header: Loc, errors: &VerifyErrors, streams: &mut Streams<'_>) -> Outcome {
    for e in &errors.errors {
        let loc = if e.loc.line > 0 { e.loc } else { header };
        report(source, loc, &format!("error[{}]: {}: {}", e.code, e.place, e.message), 1, streams)?;
    }
    Ok(())
}

/// Widest part of a line that is shown.
const WINDOW: usize = 140;

/// `name:line:col: message`, the line, and a mark under the guilty part.
pub(super) fn report(source: &Source, loc: Loc, message: &str, len: u32, streams: &mut Streams<'_>) -> Outcome {
    if loc.line == 0 {
        return Ok(writeln!(streams.err, "{}: {message}", source.name)?);
    }
    writeln!(streams.err, "{}:{}:{}: {message}", source.name, loc.line, loc.col)?;
    let Some(line) = source.text.lines().nth(loc.line as usize - 1) else { return Ok(()) };
    let col = (loc.col as usize).saturating_sub(1);
    let cut = col.saturating_sub(WINDOW / 2);
    // Tabs and control characters would shift the mark.
    let shown: String = line.chars().skip(cut).take(WINDOW).map(|c| if c.is_control() { ' ' } else { c }).collect();
    let marks = (len.max(1) as usize).min(shown.chars().count().saturating_sub(col - cut).max(1));
    writeln!(streams.err, "  {shown}")?;
    Ok(writeln!(streams.err, "  {}^{}", " ".repeat(col - cut), "~".repeat(marks - 1))?)
}
