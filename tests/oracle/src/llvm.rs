//! LLVM's assemblers and linker for AMD chips.
//!
//! `llvm-mc` (`TILELIFT_LLVM_MC`, or `llvm-mc-19` on the search path) knows gfx90a and gfx942. gfx950 is newer: the `zig` binary of the Python
//! package `ziglang` (`TILELIFT_ZIG`, or in `.oracles/`) has an assembler that knows it. `ld.lld` is `TILELIFT_LLD`, or `ld.lld-19`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the assembler makes of a line: its bytes, or its complaint.
pub type Line = Result<Vec<u8>, String>;

fn tool(variable: &str, name: &str) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(variable) {
        return on_path(Path::new(&path));
    }
    on_path(Path::new(name))
}

/// A file, or a name on the search path.
fn on_path(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return Some(name.to_owned()).filter(|p| p.is_file());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|d| d.join(name)).find(|p| p.is_file())
}

/// `llvm-mc`, if there is one.
pub fn llvm_mc() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(|| tool("TILELIFT_LLVM_MC", "llvm-mc-19")).as_deref()
}

/// `ld.lld`, if there is one.
pub fn lld() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(|| tool("TILELIFT_LLD", "ld.lld-19")).as_deref()
}

/// `llvm-objdump`, if there is one.
pub fn llvm_objdump() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(|| tool("TILELIFT_LLVM_OBJDUMP", "llvm-objdump-19")).as_deref()
}

/// `zig`, if there is one.
pub fn zig() -> Option<&'static Path> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(find_zig).as_deref()
}

fn find_zig() -> Option<PathBuf> {
    if let Some(path) = std::env::var_os("TILELIFT_ZIG") {
        return on_path(Path::new(&path));
    }
    let libs = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.oracles/lib")).ok()?;
    let mut found: Vec<PathBuf> = libs.filter_map(|e| Some(e.ok()?.path().join("site-packages/ziglang/zig"))).collect();
    found.sort();
    found.into_iter().find(|p| p.is_file())
}

/// The assembler of a chip, such as `gfx942`, writing objects or text with encodings.
fn assembler(chip: &str, object: bool) -> Option<Command> {
    if chip == "gfx950" {
        let mut command = Command::new(zig()?);
        command.args(["clang", "-cc1as", "-triple", "amdgcn-amd-amdhsa", "-target-cpu", chip]);
        command.args(if object { ["-filetype", "obj"].as_slice() } else { &["-filetype", "asm", "-show-encoding"] });
        return Some(command);
    }
    let mut command = Command::new(llvm_mc()?);
    command.arg("-triple=amdgcn-amd-amdhsa").arg(format!("-mcpu={chip}"));
    command.arg(if object { "-filetype=obj" } else { "-show-encoding" });
    Some(command)
}

/// Whether there is an assembler for a chip.
pub fn assembles(chip: &str) -> bool {
    assembler(chip, true).is_some()
}

/// Files that are removed when they are no longer needed.
struct Scratch(Vec<PathBuf>);

impl Scratch {
    fn file(&mut self, suffix: &str) -> PathBuf {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let name = format!("tilelift-{}-{}.{suffix}", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        self.0.push(path.clone());
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for path in &self.0 {
            // Leftovers in the temporary folder do no harm.
            let _ = fs::remove_file(path);
        }
    }
}

/// The bytes of each line, assembled alone: lines without branches.
///
/// # Errors
/// A tool that could not be run, or whose answer has another number of lines.
pub fn encodings(chip: &str, lines: &[String]) -> Result<Vec<Line>, String> {
    let mut scratch = Scratch(Vec::new());
    let source = scratch.file("s");
    fs::write(&source, lines.join("\n") + "\n").map_err(|e| e.to_string())?;
    let mut command = assembler(chip, false).ok_or("no assembler")?;
    let run = command.arg(&source).args(["-o", "-"]).output().map_err(|e| e.to_string())?;
    let (out, log) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    let mut answers: Vec<Option<Line>> = vec![None; lines.len()];
    for line in log.lines() {
        let Some((_, rest)) = line.split_once(".s:") else { continue };
        let mut parts = rest.splitn(3, ':');
        let Some(number) = parts.next().and_then(|n| n.parse::<usize>().ok()).filter(|n| (1..=lines.len()).contains(n)) else { continue };
        answers[number - 1].get_or_insert(Err(parts.nth(1).unwrap_or_default().trim().to_owned()));
    }
    let mut bytes = out.lines().filter_map(|line| {
        let (_, list) = line.split_once("encoding: [")?;
        let list = list.split(']').next()?;
        Some(list.split(',').map(|b| u8::from_str_radix(b.trim().trim_start_matches("0x"), 16).unwrap_or(0)).collect::<Vec<u8>>())
    });
    let answers: Option<Vec<Line>> = answers.into_iter().map(|a| a.or_else(|| bytes.next().map(Ok))).collect();
    match (answers, bytes.next()) {
        (Some(answers), None) => Ok(answers),
        _ => Err(format!("the assembler answered another number of lines:\n{log}")),
    }
}

/// The object of a text.
///
/// # Errors
/// What the assembler says, warnings included.
pub fn amd_object(chip: &str, text: &str) -> Result<Vec<u8>, String> {
    let mut scratch = Scratch(Vec::new());
    let (source, object) = (scratch.file("s"), scratch.file("o"));
    fs::write(&source, text).map_err(|e| e.to_string())?;
    let mut command = assembler(chip, true).ok_or("no assembler")?;
    let run = command.arg(&source).arg("-o").arg(&object).output().map_err(|e| e.to_string())?;
    if !run.status.success() || !run.stderr.is_empty() {
        return Err(String::from_utf8_lossy(&run.stderr).into_owned());
    }
    fs::read(&object).map_err(|e| e.to_string())
}

/// The code object that the linker makes of an object.
///
/// # Errors
/// What the linker says.
pub fn amd_link(object: &[u8]) -> Result<Vec<u8>, String> {
    let mut scratch = Scratch(Vec::new());
    let (input, output) = (scratch.file("o"), scratch.file("hsaco"));
    fs::write(&input, object).map_err(|e| e.to_string())?;
    let linker = lld().ok_or("no linker")?;
    let run = Command::new(linker).arg("-shared").arg(&input).arg("-o").arg(&output).output().map_err(|e| e.to_string())?;
    if !run.status.success() || !run.stderr.is_empty() {
        return Err(String::from_utf8_lossy(&run.stderr).into_owned());
    }
    fs::read(&output).map_err(|e| e.to_string())
}

/// What a tool says of a file.
///
/// # Errors
/// What it complains of.
pub fn tool_output(tool: &Path, arguments: &[&str], bytes: &[u8]) -> Result<String, String> {
    let mut scratch = Scratch(Vec::new());
    let input = scratch.file("o");
    fs::write(&input, bytes).map_err(|e| e.to_string())?;
    let run = Command::new(tool).args(arguments).arg(&input).output().map_err(|e| e.to_string())?;
    if !run.status.success() || !run.stderr.is_empty() {
        return Err(String::from_utf8_lossy(&run.stderr).into_owned());
    }
    Ok(String::from_utf8_lossy(&run.stdout).into_owned())
}

/// The bytes of a section of an ELF file of 64 bits.
pub fn section<'a>(elf: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let u16_at = |at: usize| Some(usize::from(u16::from_le_bytes(elf.get(at..at + 2)?.try_into().ok()?)));
    let u32_at = |at: usize| usize::try_from(u32::from_le_bytes(elf.get(at..at + 4)?.try_into().ok()?)).ok();
    let u64_at = |at: usize| usize::try_from(u64::from_le_bytes(elf.get(at..at + 8)?.try_into().ok()?)).ok();
    let (table, count, names) = (u64_at(0x28)?, u16_at(0x3c)?, u16_at(0x3e)?);
    let header = |n: usize| table + 64 * n;
    let strings = u64_at(header(names) + 0x18)?;
    (0..count).find_map(|n| {
        let at = strings + u32_at(header(n))?;
        let found = elf.get(at..at + name.len())? == name.as_bytes() && elf.get(at + name.len()) == Some(&0);
        let (offset, size) = (u64_at(header(n) + 0x18)?, u64_at(header(n) + 0x20)?);
        found.then(|| elf.get(offset..offset + size)).flatten()
    })
}
