//! `report`: everything about one kernel, stage by stage, as a page that stands alone.

use super::compiling::{self, Compiling, reason};
use super::input;
use super::layout::{memory_name, of_memory, place, tile_name, usual_access};
use super::outcome::{CliError, Outcome, Streams};
use super::{files, optimise, options};
use crate::picture::grid::Window;
use crate::picture::page::{Body, Section, page};
use crate::picture::shared::Allocation;
use crate::picture::{registers, shared};
use lexopt::Arg::{Long, Short, Value};
use std::collections::BTreeSet;
use tilelift::{Artifact, CompileError, compile, lower, optimise as improve, targets};
use tilelift_egraph::explain as reasons;
use tilelift_ir::layout::{Axis, Layout};
use tilelift_ir::{Kernel, text, verify};
use tilelift_isel::lane::AllocName;
use tilelift_isel::{Lowered, Placement, TilePlace};

pub(super) const HELP: &str = "\
usage: tilelift report FILE [--kernel NAME] [-o out.html] [OPTION…]

Writes a page with everything about one kernel: its text, the kernel behind the optimizer, how it runs and what its loops wait for, the program that is
lowered, the lane program, the target's text, what it takes of registers and shared memory, and how its tiles and buffers lie, as pictures.
The page stands alone (no script, nothing from elsewhere); sections fold, and places in explanations point at lines of the source. Where a stage
refuses the kernel, the page has the stages before it and the reason, and the exit code is 1.
  --kernel NAME    the kernel, if the file has several
  -o, --output F   write to a file; `-` is standard output (default)
";

/// Rows and columns of the tiles that are drawn: what lies behind repeats.
const SHOWN: [u32; 2] = [64, 64];
/// Tiles whose registers are told, the largest first.
const TAKERS: usize = 6;
/// Layouts that are drawn, of registers and of shared memory; what else there is is named.
const PICTURES: usize = 24;

pub(super) fn run(parser: &mut lexopt::Parser, streams: &mut Streams<'_>) -> Outcome {
    let (mut path, mut only, mut output, mut compiling) = (None, None, None, Compiling::new());
    while let Some(arg) = parser.next()? {
        match arg {
            Long("kernel") => only = Some(options::text(parser)?),
            Long("output") | Short('o') => output = Some(options::text(parser)?),
            Long(name) => {
                let name = name.to_owned();
                if !compiling.take(&name, parser)? {
                    return Err(compiling::unknown(&name));
                }
            }
            Value(v) if path.is_none() => path = Some(v.to_string_lossy().into_owned()),
            Value(_) | Short(_) => return Err(arg.unexpected().into()),
        }
    }
    let path = path.ok_or_else(|| CliError::Usage("no file is given".into()))?;
    let source = input::read(&path)?;
    let file = input::load(&source, streams)?;
    let (kernel, _) = compiling::chosen(&source, &file, only.as_deref())?;
    let mut sections = vec![section("source", "Source", "the file, as it is", Body::Source(source.text.clone()))];
    let refused = stages(kernel, &compiling, &mut sections).err();
    if let Some(e) = &refused {
        let why = format!("{} at {}: {}", e.stage(), e.loc(), reason(e));
        sections.insert(0, Section { open: true, ..section("refused", "Refused", "why the compiler went no further", Body::Said(why)) });
    }
    let about = format!(
        "{} of {}, for {} at level {}, by tilelift {}",
        kernel.name,
        source.name,
        compiling.target.name,
        compiling.options.opt as u32,
        env!("CARGO_PKG_VERSION")
    );
    compiling::write(output.as_deref(), &page(&format!("@{} on {}", kernel.name, compiling.target.name), &about, &sections), streams)?;
    match refused {
        Some(e) => Err(compiling.refused(&source, kernel, &e, streams)?),
        None => Ok(()),
    }
}

fn section(id: &'static str, title: &str, about: &'static str, body: Body) -> Section {
    Section { id, title: title.to_owned(), about, open: false, bodies: vec![body] }
}

/// The stages of a compile, as far as it goes.
fn stages(kernel: &Kernel, compiling: &Compiling, out: &mut Vec<Section>) -> Result<(), CompileError> {
    let Compiling { target, options } = compiling;
    let better = improve(kernel, options.opt)?;
    let verified = verify(&better)?;
    let said = optimise::exposed(&verified, target, &options.lowering());
    let runs = Section {
        open: true,
        ..section("runs", "How it runs", "the plan, what loops wait for and why, what that costs by estimate", Body::Said(said))
    };
    out.insert(0, runs);
    out.push(section("tile", "Tile program", "the kernel behind the optimizer", Body::Text(text::print(&better))));
    let rules = reasons::explain(&verify(kernel)?, &tilelift_egraph::Options::default());
    out.push(section("rules", "Rules", "what the optimizer computes in another way, and by which rules", Body::Text(rules)));
    let done = lower(kernel, target, options)?;
    out.push(section("schedule", "Schedule", "the program that is lowered", Body::Text(schedule(kernel, &better, compiling, &done))));
    out.push(section("lane", "Lane program", "what one lane runs", Body::Text(done.program.to_string())));
    let placement = place(kernel, target, options)?;
    let artifact = compile(kernel, target, options);
    // Resources are wanted most where the last stage refuses the kernel for them.
    out.insert(1, resources(compiling, &done, &placement, artifact.as_ref().ok()));
    out.push(tiles(&placement));
    out.push(memories(&placement, compiling));
    let artifact = artifact?;
    let name = if targets::has_objects(target) { "Assembly" } else { "PTX" };
    out.push(section("text", name, "what the driver, or the assembler, takes", Body::Text(artifact.text)));
    Ok(())
}

/// The program that is lowered, behind what its candidates cost.
fn schedule(kernel: &Kernel, better: &Kernel, compiling: &Compiling, done: &Lowered) -> String {
    match &done.written {
        Some(Ok(made)) => files::considered(kernel, &compiling.target, &compiling.options, done) + &text::print(made),
        Some(Err(why)) => format!("; not written as a program: {why}\n{}", text::print(better)),
        None => format!("; nothing to write: {}\n{}", done.plan, text::print(better)),
    }
}

fn resources(compiling: &Compiling, done: &Lowered, placement: &Placement, artifact: Option<&Artifact>) -> Section {
    let (program, target) = (&done.program, &compiling.target);
    let mut rows: Vec<[String; 2]> = Vec::new();
    let mut row = |name: &str, value: String| rows.push([name.to_owned(), value]);
    row("warps", format!("{} of {} lanes", program.warps, program.lanes));
    if let Some(a) = artifact {
        row("threads", a.threads.to_string());
        row("cluster", a.cluster.to_string());
    }
    row("shared memory", format!("{} of {} bytes", program.shared_bytes, target.shared_bytes));
    row("registers of a lane", format!("at most {}; how many are used the assembler decides", target.registers));
    for r in program.roles().iter().flat_map(|r| &r.roles) {
        let registers = r.registers.map_or_else(|| "as many as at the start".to_owned(), |n| n.to_string());
        let lanes = if r.single { ", one lane" } else { "" };
        row(&format!("role {}", r.name), format!("warps {}..{}{lanes}, registers: {registers}", r.first, r.first + r.warps));
    }
    let [selects, shuffles, trips] = done.conversions;
    row("conversions of layouts", format!("{selects} by selects, {shuffles} by shuffles, {trips} through shared memory"));
    let t = done.traffic;
    row(
        "accesses of memory by lanes, each of the text once",
        format!("{} sectors, {} bank wavefronts, {} of them conflicts", t.sectors, t.wavefronts, t.conflicts),
    );
    let mut takers: Vec<&TilePlace> = placement.tiles.iter().collect();
    takers.sort_by_key(|t| std::cmp::Reverse(words(t)));
    let mut told = BTreeSet::new();
    for t in takers {
        let name = tile_name(placement, t);
        if told.len() < TAKERS && told.insert(name.clone()) {
            row(&format!("registers of {name}"), format!("{} a lane", words(t)));
        }
    }
    let mut section = section("resources", "Resources", "registers, shared memory and who takes it", Body::Table(rows));
    let allocations: Vec<Allocation> = program
        .allocs
        .values()
        .map(|a| {
            let named = |name: &AllocName| format!("{} {}", a.purpose, name.to_string().replace('`', ""));
            let name = a.name.as_ref().map_or_else(|| a.purpose.to_owned(), named);
            Allocation { name, offset: a.offset, bytes: a.bytes }
        })
        .collect();
    if !allocations.is_empty() {
        let svg = shared::draw(&allocations, program.shared_bytes, target.shared_bytes).document();
        section.bodies.push(Body::Picture { title: "shared memory, byte by byte".into(), svg });
    }
    section.open = true;
    section
}

/// 32-bit registers of a lane that a tile takes at least.
fn words(t: &TilePlace) -> u32 {
    (t.layout.size(Axis::Reg) * t.elem.bits()).div_ceil(32)
}

/// The part of a tile that the page has room for.
fn window(shape: &[u32]) -> Window {
    let columns = shape.last().copied().unwrap_or(1);
    let rows = shape.iter().rev().skip(1).product::<u32>();
    Window { rows: (rows > SHOWN[0]).then_some(0..SHOWN[0]), columns: (columns > SHOWN[1]).then_some(0..SHOWN[1]) }
}

/// Register layouts, each once, with the values that have it.
fn tiles(placement: &Placement) -> Section {
    let mut found: Vec<(&Layout, Vec<&TilePlace>)> = Vec::new();
    for t in &placement.tiles {
        match found.iter_mut().find(|f| *f.0 == *t.layout) {
            Some(f) => f.1.push(t),
            None => found.push((&t.layout, vec![t])),
        }
    }
    let mut bodies = Vec::new();
    for (layout, held) in found.iter().take(PICTURES) {
        let mut names: Vec<String> = held.iter().map(|t| tile_name(placement, t)).collect();
        names.dedup();
        match registers::draw(layout, &names.join("; "), &window(layout.shape())) {
            Ok(canvas) => bodies.push(Body::Picture { title: names[0].clone(), svg: canvas.document() }),
            Err(e) => bodies.push(Body::Text(format!("{}: {e}", names[0]))),
        }
    }
    let rest: Vec<String> = found.iter().skip(PICTURES).map(|f| format!("{}\n    {}", tile_name(placement, f.1[0]), f.0)).collect();
    if !rest.is_empty() {
        bodies.push(Body::Text(format!("and\n{}", rest.join("\n"))));
    }
    if bodies.is_empty() {
        bodies.push(Body::Text("no tile is held in registers".into()));
    }
    Section { id: "layouts", title: "Register layouts".into(), about: "which lane holds which element of which tile", open: false, bodies }
}

/// Maps of shared memory, each once.
fn memories(placement: &Placement, compiling: &Compiling) -> Section {
    let mut bodies = Vec::new();
    let mut seen = Vec::new();
    for m in &placement.memories {
        if seen.contains(&&m.layout) {
            bodies.push(Body::Text(format!("{}: lies as one above", memory_name(placement, m))));
            continue;
        }
        seen.push(&m.layout);
        let title = memory_name(placement, m);
        if seen.len() > PICTURES {
            bodies.push(Body::Text(format!("{title}: {}", m.layout)));
            continue;
        }
        let part = window(&m.layout.shape);
        match of_memory(m, &compiling.target, usual_access(&compiling.target).as_ref(), &title, &part) {
            Ok(canvas) => bodies.push(Body::Picture { title, svg: canvas.document() }),
            Err(e) => bodies.push(Body::Text(format!("{title}: {e}"))),
        }
    }
    if bodies.is_empty() {
        bodies.push(Body::Text("nothing lies in shared memory under a name of its own".into()));
    }
    Section {
        id: "banks",
        title: "Shared memory".into(),
        about: "in which bank each element of buffers and waiting operands lies",
        open: false,
        bodies,
    }
}
