//! A kernel with its layouts, as text.

use super::problem::{Problem, Solution, Source};
use indexmap::IndexSet;
use std::fmt::Write;
use std::rc::Rc;
use tilelift_ir::layout::Layout;
use tilelift_ir::{Value, text};

/// The kernel's text; behind each line the layouts of the tiles that it makes, in front of it what the layouts are.
///
/// ```text
/// v15 = dot v12, v14, v11       ; v15 in L3
/// v16 = cast v15 : …            ; v16 in L3; in L1, converted from L3 (through-elementwise), cost 412
/// ```
///
/// With `reasons`, the rule that proposed a layout other than the plain assignment's is named.
pub fn print(problem: &Problem<'_>, solution: &Solution, reasons: bool) -> String {
    let kernel = problem.kernel;
    let mut layouts: IndexSet<Rc<Layout>> = IndexSet::new();
    let mut body = String::new();
    for line in text::lines(kernel) {
        let mut notes: Vec<String> = Vec::new();
        let results = line.insts.first().map(|&i| kernel.insts[i].results.clone()).unwrap_or_default();
        let params = line.regions.iter().flat_map(|&r| kernel.regions[r].params.iter().copied());
        for v in params.chain(results) {
            notes.extend(note(problem, solution, v, reasons, &mut layouts));
        }
        if let Some(&i) = line.insts.first()
            && kernel.insts[i].results.is_empty()
        {
            for run in &solution.runs[i] {
                for l in run.operands.iter().flatten().take(1) {
                    notes.push(format!("takes {}", name(&mut layouts, l)));
                }
            }
        }
        let notes = if notes.is_empty() { String::new() } else { format!("    ; {}", notes.join("; ")) };
        let _ = writeln!(body, "{}{notes}", line.text);
    }
    let mut out = String::new();
    for (n, l) in layouts.iter().enumerate() {
        let _ = writeln!(out, "; L{n} = {l}");
    }
    let _ = write!(out, "; cost {}", solution.cost / 16);
    if let Some(p) = solution.plain {
        let _ = write!(out, ", {} in the plain assignment's layouts", p / 16);
    }
    let _ = writeln!(out, " (cycles of a multiprocessor per program)");
    out + &body
}

fn name(layouts: &mut IndexSet<Rc<Layout>>, l: &Rc<Layout>) -> String {
    format!("L{}", layouts.insert_full(l.clone()).0)
}

fn note(problem: &Problem<'_>, solution: &Solution, v: Value, reasons: bool, layouts: &mut IndexSet<Rc<Layout>>) -> Option<String> {
    let base = problem.base[v].as_ref()?;
    let mut parts: Vec<String> = Vec::new();
    for (n, x) in solution.values[v].iter().enumerate() {
        let mut part = format!("in {}", name(layouts, &x.layout));
        match x.source {
            Source::Given => {}
            Source::Run(0) => {}
            Source::Run(_) => part += ", computed again",
            Source::Convert(from) => {
                let from = name(layouts, &solution.values[v][from].layout);
                let _ = write!(part, ", converted from {from} for {}", x.cost / 16);
            }
        }
        if reasons && (n > 0 || x.layout != *base) {
            let _ = write!(part, " ({})", x.rule);
        }
        parts.push(part);
    }
    if reasons && solution.values[v].first().is_some_and(|x| x.layout != *base) {
        let plain = name(layouts, base);
        parts.push(format!("plainly in {plain}"));
    }
    (!parts.is_empty()).then(|| format!("{v} {}", parts.join("; ")))
}
