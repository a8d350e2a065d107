//! NVIDIA's disassembler: where it may be, the text of an object, and those of its functions.
//!
//! Places in order: `TILELIFT_NVDISASM`, beside ptxas, the search path, and `nvidia/cu13/bin`, `nvidia/cuda_nvdisasm/bin` and Triton's own folder in
//! the site-packages that ptxas was found in and in `.oracles/` of the repository.

use crate::error::AsmError;
use crate::ptxas::ptxas;
use elf::ElfBytes;
use elf::endian::LittleEndian;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

const PACKAGES: [&str; 3] = ["nvidia/cu13/bin/nvdisasm", "nvidia/cuda_nvdisasm/bin/nvdisasm", "triton/backends/nvidia/bin/nvdisasm"];

fn in_packages(folder: &Path) -> Option<PathBuf> {
    PACKAGES.iter().map(|p| folder.join(p)).find(|p| p.is_file())
}

fn find() -> Option<PathBuf> {
    if let Some(p) = std::env::var_os("TILELIFT_NVDISASM") {
        return Some(PathBuf::from(p)).filter(|p| p.is_file());
    }
    let beside = ptxas().and_then(Path::parent).map(|d| d.join("nvdisasm"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut bare = beside.into_iter().chain(std::env::split_paths(&path).map(|d| d.join("nvdisasm")));
    if let Some(p) = bare.find(|p| p.is_file()) {
        return Some(p);
    }
    let around = ptxas().and_then(|p| p.ancestors().find(|a| a.ends_with("site-packages")));
    if let Some(p) = around.and_then(in_packages) {
        return Some(p);
    }
    let oracles = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.oracles");
    let libs = fs::read_dir(oracles.join("lib")).ok().into_iter().flatten();
    let mut folders: Vec<PathBuf> = libs.filter_map(|e| Some(e.ok()?.path().join("site-packages"))).collect();
    folders.sort();
    folders.push(oracles.join("triton"));
    folders.iter().find_map(|f| in_packages(f))
}

/// The disassembler's path, if there is one.
pub fn nvdisasm() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(find).as_deref()
}

/// The text of an object that the assembler made.
///
/// # Errors
/// [`AsmError::NoDisassembler`] without a disassembler, [`AsmError::Refused`] with its messages, [`AsmError::Io`] otherwise.
pub fn disassemble(object: &[u8]) -> Result<String, AsmError> {
    // Only code, without an analysis of data flow, which takes longer than the text, to which it adds nothing here.
    run(object, &["-c", "-ndf"])
}

/// The texts of functions of an object that the assembler made for an architecture such as `sm_90a`, by name: of those that are wanted, by one run of the
/// disassembler. They have no labels: branches lead to addresses, which count on from function to function.
///
/// # Errors
/// As [`disassemble`], and [`AsmError::Object`] for what is no object of that assembler.
pub(crate) fn disassemble_functions(
    object: &[u8],
    arch: &str,
    wanted: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, String>, AsmError> {
    let mut code = Vec::new();
    // Where each function begins, and its name.
    let mut functions: Vec<(usize, String)> = Vec::new();
    for (name, bytes) in functions_of(object)?.into_iter().filter(|(name, _)| wanted(name)) {
        functions.push((code.len(), name));
        code.extend_from_slice(bytes);
    }
    let mut texts: BTreeMap<String, String> = functions.iter().map(|(_, name)| (name.clone(), format!("{FUNCTION}{name}:\n"))).collect();
    if code.is_empty() {
        return Ok(texts);
    }
    let all = run(&code, &["-ndf", "-b", &arch.replace("sm_", "SM")])?;
    let (mut functions, mut now) = (functions.into_iter().peekable(), None);
    for line in all.lines() {
        let Some(address) = address(line) else { continue };
        while let Some((_, name)) = functions.next_if(|f| f.0 <= address) {
            now = Some(name);
        }
        if let Some(text) = now.as_ref().and_then(|name| texts.get_mut(name)) {
            text.extend([line, "\n"]);
        }
    }
    Ok(texts)
}

/// In front of the name of a function, where its section begins.
const FUNCTION: &str = ".text.";

/// The address in front of an instruction: `/*01f0*/`.
fn address(line: &str) -> Option<usize> {
    let (digits, _) = line.trim_start().strip_prefix("/*")?.split_once("*/")?;
    usize::from_str_radix(digits, 16).ok()
}

/// The names of an object's functions.
///
/// # Errors
/// [`AsmError::Object`] for what is no object of that assembler.
pub(crate) fn functions(object: &[u8]) -> Result<BTreeSet<String>, AsmError> {
    Ok(functions_of(object)?.into_iter().map(|x| x.0).collect())
}

/// The functions of an object, with their code.
fn functions_of(object: &[u8]) -> Result<Vec<(String, &[u8])>, AsmError> {
    let file = ElfBytes::<LittleEndian>::minimal_parse(object).map_err(AsmError::Object)?;
    let (Some(sections), Some(names)) = file.section_headers_with_strtab().map_err(AsmError::Object)? else { return Ok(Vec::new()) };
    let mut out = Vec::new();
    for section in sections {
        let name = names.get(section.sh_name as usize).map_err(AsmError::Object)?;
        if let Some(name) = name.strip_prefix(FUNCTION) {
            out.push((name.to_owned(), file.section_data(&section).map_err(AsmError::Object)?.0));
        }
    }
    Ok(out)
}

/// Runs the disassembler on bytes.
fn run(bytes: &[u8], arguments: &[&str]) -> Result<String, AsmError> {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let tool = nvdisasm().ok_or(AsmError::NoDisassembler)?;
    let name = format!("tilelift-{}-{}.sass.cubin", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed));
    let path = std::env::temp_dir().join(name);
    fs::write(&path, bytes)?;
    let run = Command::new(tool).args(arguments).arg(&path).output();
    // Leftovers in the temporary folder do no harm.
    let _ = fs::remove_file(&path);
    let run = run?;
    if run.status.success() {
        Ok(String::from_utf8_lossy(&run.stdout).into_owned())
    } else {
        Err(AsmError::Refused(String::from_utf8_lossy(&run.stderr).into_owned()))
    }
}
