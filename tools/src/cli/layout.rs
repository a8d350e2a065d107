//! `layout`: which lane holds which element of a tile, in which bank each element of a buffer lies; as a picture.

use super::compiling::{self, Compiling};
use super::input::{self, Source};
use super::options;
use super::outcome::{CliError, Outcome, Streams};
use crate::picture::access::{Access, Memory};
use crate::picture::grid::{PictureError, Window};
use crate::picture::svg::Canvas;
use crate::picture::{banks, registers};
use lexopt::Arg::{Long, Short, Value};
use std::collections::BTreeSet;
use std::ops::Range;
use tilelift_ir::layout::{LayoutSpec, SharedMap, SharedOp, swizzle_of_width};
use tilelift_ir::{Kernel, Scalar, text, verify};
use tilelift_isel::{MemoryPlace, Placement, Target, TilePlace, placement};

pub(super) const HELP: &str = "\
usage: tilelift layout FILE VALUE [OPTION…]
       tilelift layout FILE --list [OPTION…]
       tilelift layout LAYOUT --tile SHAPExTYPE [OPTION…]

Draws how a value of a kernel lies, as SVG: a tile as a grid of its elements, each in the colour of its warp and named by its lane and registers;
a buffer of shared memory, or a load that waits there for dots, as a grid of banks, with the lanes of an access and the banks that they ask for.

VALUE is `v7` or `%name` as the file has it, or the number of a line: what is drawn are the tiles and buffers that come of that line in the program
that is lowered, which `compile --emit schedule` prints; the rings of a loop stand at the loop's line. --list names all of them.
LAYOUT is one of docs/language.md: `blocked(…)` or `linear(…)` for registers, `swizzle(N)` for shared memory, and `row_major`, without a swizzle.
  --tile S         the tile of LAYOUT: 64x128xbf16
  --access WHAT    whose conflicts a map of banks shows: matrix (eight rows of 16 bytes, as matrix loads take them; default, where there are some), row (lanes side by
                   side), column (lanes below one another), none, or a LAYOUT of the same shape for its first load
  --store          the LAYOUT of --access stores
  --rows A..B, --columns A..B   what is drawn of a large one; rows are all dimensions but the last
  --kernel NAME    the kernel, if the file has several
  -o, --output F   write to a file; `-` is standard output (default)
";

/// Words of `--access` that are no layouts.
const ACCESSES: [(&str, Option<Access>); 4] =
    [("matrix", Some(Access::Matrix)), ("row", Some(Access::Row)), ("column", Some(Access::Column)), ("none", None)];

/// A command line.
struct Job {
    words: Vec<String>,
    list: bool,
    tile: Option<String>,
    access: Option<String>,
    store: bool,
    window: Window,
    kernel: Option<String>,
    output: Option<String>,
    compiling: Compiling,
}

fn job(parser: &mut lexopt::Parser) -> Result<Job, CliError> {
    let mut j = Job {
        words: Vec::new(),
        list: false,
        tile: None,
        access: None,
        store: false,
        window: Window::default(),
        kernel: None,
        output: None,
        compiling: Compiling::new(),
    };
    while let Some(arg) = parser.next()? {
        match arg {
            Long("list") => j.list = true,
            Long("tile") => j.tile = Some(options::text(parser)?),
            Long("access") => j.access = Some(options::text(parser)?),
            Long("store") => j.store = true,
            Long("rows") => j.window.rows = Some(range(parser, "rows")?),
            Long("columns") => j.window.columns = Some(range(parser, "columns")?),
            Long("kernel") => j.kernel = Some(options::text(parser)?),
            Long("output") | Short('o') => j.output = Some(options::text(parser)?),
            Long(name) => {
                let name = name.to_owned();
                if !j.compiling.take(&name, parser)? {
                    return Err(compiling::unknown(&name));
                }
            }
            Value(v) if j.words.len() < 2 => j.words.push(v.to_string_lossy().into_owned()),
            Value(_) | Short(_) => return Err(arg.unexpected().into()),
        }
    }
    Ok(j)
}

/// `A..B`.
fn range(parser: &mut lexopt::Parser, name: &str) -> Result<Range<u32>, CliError> {
    let word = options::text(parser)?;
    let ends = word.split_once("..").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    match ends {
        Some((a, b)) if a < b => Ok(a..b),
        _ => Err(CliError::Usage(format!("--{name} takes a range such as 0..64, not `{word}`"))),
    }
}

pub(super) fn run(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let job = job(parser)?;
    let canvas = match (&job.tile, job.words.as_slice()) {
        (Some(tile), [layout]) => written(&job, layout, tile)?,
        (Some(_), _) => {
            return Err(CliError::Usage("`--tile` goes with one layout: tilelift layout 'swizzle(128)' --tile 64x64xbf16".into()));
        }
        (None, [path]) if job.list => return listed(&job, path, streams),
        (None, [path, value]) if !job.list => of_file(&job, path, value, streams)?,
        (None, [word]) if word.contains('(') || word == "row_major" => {
            return Err(CliError::Usage(format!("`{word}` is a layout: say of which tile with `--tile`, such as 64x64xbf16")));
        }
        (None, _) => return Err(CliError::Usage("name a file and a value, or a file and `--list`, or a layout and `--tile`".into())),
    };
    compiling::write(job.output.as_deref(), &canvas.document(), streams)
}

fn drawn(canvas: Result<Canvas, PictureError>) -> Result<Canvas, CliError> {
    canvas.map_err(|e| CliError::Failed(e.to_string()))
}

/// `64x128xbf16`: extents, and the element type.
fn tile_type(word: &str) -> Result<(Vec<u32>, Scalar), CliError> {
    let wrong = || CliError::Usage(format!("--tile takes extents and an element type such as 64x128xbf16, not `{word}`"));
    let (extents, elem) = word.rsplit_once('x').ok_or_else(wrong)?;
    let elem = Scalar::from_name(elem).ok_or_else(wrong)?;
    let extents: Option<Vec<u32>> = extents.split('x').map(|e| e.parse().ok().filter(|&e| e > 0)).collect();
    Ok((extents.ok_or_else(wrong)?, elem))
}

fn spec(word: &str) -> Result<LayoutSpec, CliError> {
    text::parse_layout(word).map_err(|e| CliError::Usage(format!("the layout does not parse:\n{e}")))
}

/// A layout of the command line.
fn written(job: &Job, word: &str, tile: &str) -> Result<Canvas, CliError> {
    let (shape, elem) = tile_type(tile)?;
    let refused = |e: tilelift_ir::layout::LayoutError| CliError::Failed(format!("`{word}` is no layout of {tile}: {e}"));
    let order: Vec<usize> = (0..shape.len()).rev().collect();
    let map = if word == "row_major" {
        SharedMap::row_major(&shape, &order).map_err(refused)?
    } else {
        match spec(word)? {
            LayoutSpec::Swizzle(width) if !matches!(width, 128 | 64 | 32) => {
                return Err(CliError::Usage(format!("swizzle({width}): a swizzle is 128, 64 or 32 bytes wide; `row_major` has none")));
            }
            LayoutSpec::Swizzle(width) => swizzle_of_width(&shape, elem.bytes(), shape.len() - 1, width).map_err(refused)?,
            other => {
                let Some(layout) = other.layout(&shape).map_err(refused)? else {
                    let e = format!("`{word}` is decided by a dot and a target: name a file and the value that has the layout");
                    return Err(CliError::Usage(e));
                };
                return drawn(registers::draw(&layout, &format!("{word} of a tile<{tile}>"), &job.window));
            }
        }
    };
    let byte = |c: &[u32]| map.offset(c).map(|o| u64::from(o) * u64::from(elem.bytes()));
    let memory = Memory { shape: &shape, elem_bytes: elem.bytes(), byte: &byte, banks: &job.compiling.target.banks };
    drawn(banks::draw(&memory, access(job, &shape)?.as_ref(), &format!("{word} of a tile<{tile}>"), &job.window))
}

/// The access whose conflicts count on a target: its matrix loads, where it has some.
pub(super) fn usual_access(target: &Target) -> Option<Access> {
    (target.load_matrix || target.units.is_some()).then_some(Access::Matrix)
}

/// The access of `--access`.
fn access(job: &Job, shape: &[u32]) -> Result<Option<Access>, CliError> {
    let target = &job.compiling.target;
    let Some(word) = &job.access else { return Ok(usual_access(target)) };
    if let Some((_, known)) = ACCESSES.iter().find(|(w, _)| w == word) {
        if matches!(known, Some(Access::Matrix)) && usual_access(target).is_none() {
            let e = "has no matrix loads: write row, column, or the layout of the lanes that load";
            return Err(CliError::Usage(format!("--access matrix: {} {e}", target.name)));
        }
        return Ok(known.clone());
    }
    let words: Vec<&str> = ACCESSES.iter().map(|a| a.0).collect();
    if !word.contains('(') {
        return Err(CliError::Usage(format!("--access takes {} or a layout, not `{word}`", words.join(", "))));
    }
    let layout = spec(word)?.layout(shape).map_err(|e| CliError::Failed(format!("--access: `{word}` is no layout of {shape:?}: {e}")))?;
    let op = if job.store { SharedOp::Store } else { SharedOp::Load };
    match layout {
        Some(layout) => Ok(Some(Access::Layout(Box::new(layout), op))),
        None => Err(CliError::Usage(format!("--access: `{word}` says nothing of lanes; write blocked(…) or linear(…)"))),
    }
}

/// A kernel of a file, and where its values lie.
fn placed(job: &Job, path: &str, streams: &mut Streams<'_>) -> Result<(Source, Kernel, u32, Placement), CliError> {
    let source = input::read(path)?;
    let file = input::load(&source, streams)?;
    let (kernel, header) = compiling::chosen(&source, &file, job.kernel.as_deref())?;
    let Compiling { target, options } = &job.compiling;
    match place(kernel, target, options) {
        Ok(placement) => Ok((source, kernel.clone(), header, placement)),
        Err(e) => Err(job.compiling.refused(&source, kernel, &e, streams)?),
    }
}

/// Where the values of a kernel lie.
pub(super) fn place(kernel: &Kernel, target: &Target, options: &tilelift::Options) -> Result<Placement, tilelift::CompileError> {
    let better = tilelift::optimise(kernel, options.opt)?;
    let done = tilelift::lower(kernel, target, options)?;
    Ok(placement(&verify(&better)?, target, &options.lowering(), &done)?)
}

/// What a place is called: `%acc`, ``the `load` of v0 at 3:5``, and its type.
pub(super) fn tile_name(p: &Placement, t: &TilePlace) -> String {
    format!("{} : {}", t.named, p.kernel.ty(t.value))
}

pub(super) fn memory_name(p: &Placement, m: &MemoryPlace) -> String {
    format!("{} : {}", m.named, p.kernel.ty(m.value))
}

fn listed(job: &Job, path: &str, streams: &mut Streams<'_>) -> Outcome {
    let (_, kernel, _, p) = placed(job, path, streams)?;
    writeln!(streams.out, "@{} on {}: tiles in registers", kernel.name, job.compiling.target.name)?;
    each_once(p.tiles.iter().map(|t| format!("  {}\n      {}", tile_name(&p, t), t.layout)), streams)?;
    writeln!(streams.out, "in shared memory")?;
    each_once(p.memories.iter().map(|m| format!("  {}\n      {}, {} bytes", memory_name(&p, m), m.layout, m.layout.bytes())), streams)
}

/// Prints entries, those that are there several times once.
fn each_once(entries: impl Iterator<Item = String>, streams: &mut Streams<'_>) -> Outcome {
    let mut seen = BTreeSet::new();
    for entry in entries {
        if !seen.contains(&entry) {
            writeln!(streams.out, "{entry}")?;
            seen.insert(entry);
        }
    }
    Ok(())
}

/// The line in which a value of a kernel is defined: the first that names it.
fn defined(source: &Source, header: u32, value: &str) -> Option<u32> {
    if value.chars().all(|c| c.is_ascii_digit()) {
        return value.parse().ok();
    }
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '%');
    let lines = (1u32..).zip(source.text.lines()).skip(header.saturating_sub(1) as usize);
    let mut lines = lines.take_while(|(n, l)| *n == header || !l.trim_start().starts_with("kernel "));
    lines.find(|(_, l)| l.split(';').next().unwrap_or_default().split(|c| !part(c)).any(|w| w == value)).map(|l| l.0)
}

fn of_file(job: &Job, path: &str, value: &str, streams: &mut Streams<'_>) -> Result<Canvas, CliError> {
    let (source, kernel, header, p) = placed(job, path, streams)?;
    let see = format!("`tilelift layout {path} --list` names what can be drawn");
    let Some(line) = defined(&source, header, value) else {
        return Err(CliError::Failed(format!("@{} has no value `{value}`, as v7, %name or a line; {see}", kernel.name)));
    };
    let mut canvas = Canvas::new();
    let mut drawn_already = Vec::new();
    let title = |what: String| format!("{what} in @{} on {}", kernel.name, job.compiling.target.name);
    for t in p.tiles.iter().filter(|t| t.loc.line == line) {
        // What one line becomes several times lies the same way, mostly.
        if !drawn_already.contains(&&t.layout) {
            drawn_already.push(&t.layout);
            canvas.below(&drawn(registers::draw(&t.layout, &title(tile_name(&p, t)), &job.window))?, 28.0);
        }
    }
    for m in p.memories.iter().filter(|m| m.loc.line == line) {
        canvas.below(&memory(job, m, &title(memory_name(&p, m)))?, 28.0);
    }
    if canvas.size() == [0.0; 2] {
        return Err(CliError::Failed(format!(
            "{path}:{line}: nothing of `{value}` is left in registers or shared memory under a name of its own: it is no tile, or was computed in another way; {see}"
        )));
    }
    Ok(canvas)
}

fn memory(job: &Job, m: &MemoryPlace, title: &str) -> Result<Canvas, CliError> {
    let access = access(job, &m.layout.shape)?;
    drawn(of_memory(m, &job.compiling.target, access.as_ref(), title, &job.window))
}

/// The map of the banks of what lies in shared memory.
///
/// # Errors
/// As [`banks::draw`].
pub(super) fn of_memory(
    m: &MemoryPlace,
    target: &Target,
    access: Option<&Access>,
    title: &str,
    window: &Window,
) -> Result<Canvas, PictureError> {
    let byte = |c: &[u32]| m.layout.byte(c);
    let memory = Memory { shape: &m.layout.shape, elem_bytes: m.layout.size, byte: &byte, banks: &target.banks };
    banks::draw(&memory, access, &format!("{title}; {}", m.layout), window)
}
