//! What NVIDIA's PTX assembler says of a text.

use crate::error::AsmError;
use crate::follow::{follow, has_operands};
use crate::nvdisasm::{disassemble, nvdisasm};
use crate::ptxas::ptxas;
use crate::required::required;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the assembler reports of a kernel.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AsmReport {
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of spill stores and loads.
    pub spills: u32,
    /// Bytes of stack frame.
    pub stack: u32,
    /// Warnings and advisories, and operands of matrix instructions that do not hold what the text gives them: a line each.
    pub warnings: Vec<String>,
}

/// What the assembler says of its version.
pub fn ptxas_version() -> Option<String> {
    let said = Command::new(ptxas()?).arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&said.stdout).into_owned())
}

/// Assembles a module for an architecture such as `sm_80`, and follows the matrix instructions of warpgroups that it holds: see [`crate::follow()`].
///
/// # Errors
/// [`AsmError::Missing`] without an assembler, [`AsmError::Refused`] with its messages, [`AsmError::NoDisassembler`] if there is something to
/// follow without a disassembler although oracles are required, [`AsmError::Io`] otherwise.
pub fn assemble(text: &str, arch: &str) -> Result<AsmReport, AsmError> {
    assemble_bytes(text, arch).map(|(report, _)| report)
}

/// As [`assemble`], and the bytes of the object.
///
/// # Errors
/// As [`assemble`].
pub fn assemble_bytes(text: &str, arch: &str) -> Result<(AsmReport, Vec<u8>), AsmError> {
    let (mut report, bytes) = assembled_all(&[text], arch)?;
    if asks_for_following(text) {
        report.warnings.extend(follow(text, &disassemble(&bytes)?).iter().map(ToString::to_string));
    }
    Ok((report, bytes))
}

/// True for a text that has operands to follow, where that can or has to be done.
pub(crate) fn asks_for_following(text: &str) -> bool {
    has_operands(text) && (nvdisasm().is_some() || required())
}

/// Assembles texts whose kernels have different names into one object. Numbers of the report are the greatest of any kernel.
pub(crate) fn assembled_all(texts: &[&str], arch: &str) -> Result<(AsmReport, Vec<u8>), AsmError> {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let tool = ptxas().ok_or(AsmError::Missing)?;
    let stem = format!("tilelift-{}-{}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed));
    let place = |end: String| std::env::temp_dir().join(format!("{stem}{end}"));
    let sources: Vec<PathBuf> = (0..texts.len()).map(|n| place(format!("-{n}.ptx"))).collect();
    let object = place(".cubin".to_owned());
    let written = sources.iter().zip(texts).try_for_each(|(source, text)| fs::write(source, text));
    let run =
        written.and_then(|()| Command::new(tool).arg("-v").arg(format!("-arch={arch}")).args(&sources).arg("-o").arg(&object).output());
    let bytes = fs::read(&object);
    // Leftovers in the temporary folder do no harm.
    sources.iter().chain([&object]).for_each(|path| drop(fs::remove_file(path)));
    let run = run?;
    let log = format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    if !run.status.success() {
        return Err(AsmError::Refused(log));
    }
    Ok((report(&log), bytes?))
}

/// The number in front of a phrase.
fn before(line: &str, phrase: &str) -> u32 {
    let Some(at) = line.find(phrase) else { return 0 };
    line[..at].split(|c: char| !c.is_ascii_digit()).rfind(|s| !s.is_empty()).and_then(|s| s.parse().ok()).unwrap_or(0)
}

fn report(log: &str) -> AsmReport {
    let mut r = AsmReport::default();
    for line in log.lines() {
        r.registers = r.registers.max(before(line, " registers"));
        r.stack = r.stack.max(before(line, " bytes stack frame"));
        r.spills = r.spills.max(before(line, " bytes spill stores") + before(line, " bytes spill loads"));
        if line.contains("warning") || line.contains("(C7") {
            r.warnings.push(line.to_owned());
        }
    }
    r
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "ptxas info    : 0 bytes gmem\nptxas info    : Compiling entry function 'k' for 'sm_80'\n\
        ptxas info    : Function properties for k\n    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads\n\
        ptxas info    : Used 42 registers, used 1 barriers, 368 bytes cmem[0]\nptxas warning : something\n";

    #[test]
    fn the_report_is_read() {
        let r = report(LOG);
        assert_eq!((r.registers, r.spills, r.stack, r.warnings.len()), (42, 28, 8, 1));
    }

    #[test]
    fn the_assembler_takes_good_text_and_refuses_bad() {
        let text = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n\tret;\n}\n";
        match assemble(text, "sm_80") {
            Err(AsmError::Missing) => assert!(!required(), "{}", AsmError::Missing),
            Ok(r) => {
                assert_eq!((r.spills, r.stack), (0, 0));
                assert!(matches!(assemble("nonsense", "sm_80"), Err(AsmError::Refused(_))));
            }
            Err(e) => panic!("{e}"),
        }
    }
}
