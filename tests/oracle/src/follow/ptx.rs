//! Reads PTX: statements, the registers they write and read, and where they branch.

use super::code::{Code, Kind, Multiply, Next, Reg, Step};
use std::collections::HashMap;

/// Instructions whose first operand is no result.
const WITHOUT_RESULT: &str = "st stmatrix bra bar barrier cp red fence membar prefetch prefetchu ret exit trap wgmma setmaxnreg \
    griddepcontrol nanosleep discard applypriority brkpt multimem pmevent tensormap call";

/// The kernels of a module.
pub(super) fn read(text: &str) -> Vec<Code> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(found) = text[at..].find(".entry ") {
        let start = at + found;
        let name: String = text[start + 7..].trim_start().chars().take_while(|c| !c.is_whitespace() && *c != '(').collect();
        let Some(open) = body_of(&text[start..]).map(|o| start + o) else { break };
        let end = text[open..].find(".entry ").map_or(text.len(), |e| open + e);
        let first = text[..open].matches('\n').count() as u32 + 1;
        out.push(kernel(name, &text[open..end], first));
        at = open;
    }
    out
}

/// Where the body of an entry begins: the brace behind its parameters.
fn body_of(entry: &str) -> Option<usize> {
    let after = entry.find(')').map_or(0, |p| p + 1);
    entry[after..].find('{').map(|b| after + b + 1)
}

/// The registers of a text, by number.
#[derive(Default)]
struct Names(HashMap<String, Reg>);

impl Names {
    fn all(&mut self, operand: &str) -> Vec<Reg> {
        let mut out = Vec::new();
        for part in operand.split('%').skip(1) {
            let name: String = part.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '$')).collect();
            let next = self.0.len() as Reg;
            out.push(*self.0.entry(name).or_insert(next));
        }
        out
    }
}

/// Operands at the top level of braces and brackets.
fn operands(text: &str) -> Vec<&str> {
    let (mut out, mut depth, mut from) = (Vec::new(), 0, 0);
    for (i, c) in text.char_indices() {
        match c {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth -= 1,
            ',' if depth == 0 => {
                out.push(text[from..i].trim());
                from = i + 1;
            }
            _ => {}
        }
    }
    out.push(text[from..].trim());
    out.retain(|o| !o.is_empty());
    out
}

fn kernel(name: String, body: &str, first: u32) -> Code {
    let mut names = Names::default();
    let mut steps: Vec<Step> = Vec::new();
    let mut labels: HashMap<&str, usize> = HashMap::new();
    let mut targets: Vec<(usize, &str)> = Vec::new();
    let mut line = first;
    for statement in body.split(';') {
        let (mut rest, mut place) = (statement, line);
        line += statement.matches('\n').count() as u32;
        loop {
            let trimmed = rest.trim_start();
            place += rest[..rest.len() - trimmed.len()].matches('\n').count() as u32;
            rest = trimmed;
            let word = rest.find(|c: char| c.is_whitespace()).map_or(rest, |e| &rest[..e]);
            if let Some(comment) = rest.strip_prefix("//") {
                rest = comment.find('\n').map_or("", |e| &comment[e..]);
            } else if let Some(label) = word.strip_suffix(':') {
                labels.insert(label, steps.len());
                rest = &rest[word.len()..];
            } else if rest.starts_with(['{', '}']) {
                rest = &rest[1..];
            } else {
                break;
            }
        }
        if rest.is_empty() || rest.starts_with('.') {
            continue;
        }
        let guard = rest.strip_prefix('@').map(|r| r.find(char::is_whitespace).map_or((r, ""), |e| r.split_at(e)));
        let (guard, rest) = guard.map_or(("", rest), |(g, r)| (g, r.trim_start()));
        let (opcode, arguments) = rest.find(char::is_whitespace).map_or((rest, ""), |e| rest.split_at(e));
        let arguments = operands(arguments);
        let mut step = statement_of(opcode, &arguments, &mut names);
        (step.place, step.guarded) = (place, !guard.is_empty());
        step.reads.extend(names.all(guard));
        match opcode.split('.').next() {
            Some("bra") => targets.push((steps.len(), arguments.last().copied().unwrap_or_default())),
            Some("ret" | "exit" | "trap") => step.next = if guard.is_empty() { Next::Ends } else { Next::MayEnd },
            _ => {}
        }
        steps.push(step);
    }
    // Labels behind the last instruction.
    let end = Step { place: line, writes: vec![], reads: vec![], guarded: false, kind: Kind::Compute, next: Next::Ends };
    steps.push(end);
    for (i, label) in targets {
        let to = labels.get(label).copied().unwrap_or(steps.len() - 1);
        steps[i].next = if steps[i].guarded { Next::Branches(to) } else { Next::Jumps(to) };
    }
    Code { name, steps, registers: names.0.len() as Reg, products: vec![] }.numbered()
}

fn statement_of(opcode: &str, arguments: &[&str], names: &mut Names) -> Step {
    let mut step = Step { place: 0, writes: vec![], reads: vec![], guarded: false, kind: kind(opcode), next: Next::Falls };
    if opcode.starts_with("wgmma.mma_async") && arguments.len() >= 4 {
        let d = names.all(arguments[0]);
        let a = if arguments[1].starts_with('{') { names.all(arguments[1]) } else { vec![] };
        let never = matches!(arguments[3], "0" | "false");
        let perhaps = arguments[3].contains('%');
        let c = if never { vec![] } else { d.clone() };
        step.kind = Kind::Multiply(Multiply { shape: shape(opcode), a, c, perhaps });
        step.writes = d;
        return step;
    }
    let base = opcode.split('.').next().unwrap_or_default();
    let results = usize::from(!WITHOUT_RESULT.split(' ').any(|o| o == base) && !arguments.first().is_some_and(|a| a.starts_with('[')));
    step.writes = arguments[..results.min(arguments.len())].iter().flat_map(|a| names.all(a)).collect();
    step.reads = arguments[results.min(arguments.len())..].iter().filter(|a| !a.starts_with('[')).flat_map(|a| names.all(a)).collect();
    step
}

fn kind(opcode: &str) -> Kind {
    let shared = opcode.starts_with("ldmatrix") || opcode.starts_with("ld.shared") || opcode.starts_with("ld.volatile.shared");
    let constant = opcode.starts_with("ld.param") || opcode.starts_with("ld.const") || opcode.starts_with("ld.local");
    let plain = |name: &str| opcode.strip_prefix(name).is_some_and(|r| r.starts_with('.'));
    match () {
        () if shared => Kind::Shared,
        () if constant => Kind::Copy,
        () if plain("ld") || plain("ldu") => Kind::Global,
        () if ["mov", "cvt", "ex2", "neg"].iter().any(|n| plain(n)) => Kind::Keeps,
        () if ["add", "mul", "fma"].iter().any(|n| plain(n)) && opcode.contains(".f") => Kind::Keeps,
        () => Kind::Compute,
    }
}

/// `m64n128k32` as numbers.
fn shape(opcode: &str) -> [u32; 3] {
    let part = opcode.split('.').find(|p| p.starts_with('m') && p[1..].starts_with(|c: char| c.is_ascii_digit())).unwrap_or_default();
    let mut numbers = part.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok());
    [0; 3].map(|_: u32| numbers.next().unwrap_or(0))
}
