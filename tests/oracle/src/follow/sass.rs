//! Reads what nvdisasm prints of sm_90: instructions, the registers they write and read with all that a wide one takes, and where they branch, which is a
//! label or, in a text of bytes without their symbols, an address.
//!
//! General registers are numbered from 0, uniform ones behind them. Predicates are left out: a value that is chosen by one is followed
//! from what it is chosen of.

use super::code::{Code, Kind, Multiply, Next, Reg, Step};
use std::collections::HashMap;

const UNIFORM: Reg = 256;
const REGISTERS: Reg = UNIFORM + 256;

/// Instructions whose first register is no result.
const WITHOUT_RESULT: &str = "BAR BRA BRX EXIT BSSY BSYNC BREAK CALL RET WARPSYNC NOP DEPBAR WARPGROUP NANOSLEEP PMTRIG FENCE MEMBAR ERRBAR CCTL \
    CCTLL YIELD KILL BPT USETMAXREG ACQBULK PREEXIT LDGDEPBAR R2P R2B BMOV ST STG STS STL STSM RED REDG REDAS STAS \
    UTMALDG UTMASTG UTMAREDG UTMACCTL UTMACMDFLUSH UTMAPF UBLKCP UBLKRED UBLKPF UCGABAR_ARV UCGABAR_WAIT ISETP \
    FSETP DSETP HSETP2 PSETP PLOP3 UISETP UPSETP UPLOP3 FCHK JMP WARPGROUPSET";

/// The functions of a disassembly.
pub(super) fn read(text: &str) -> Vec<Code> {
    let mut out = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(name) = begins(line) else { continue };
        let mut body = Vec::new();
        while let Some(l) = lines.next_if(|l| !l.trim_start().starts_with(".section") && begins(l).is_none()) {
            body.push(l.trim());
        }
        out.push(function(name, &body));
    }
    out
}

/// The function that begins in a line.
fn begins(line: &str) -> Option<&str> {
    line.trim().strip_prefix(".text.")?.strip_suffix(':')
}

fn function(name: &str, body: &[&str]) -> Code {
    let mut steps: Vec<Step> = Vec::new();
    let mut labels: HashMap<&str, usize> = HashMap::new();
    let mut targets: Vec<(usize, Target<'_>)> = Vec::new();
    // Addresses begin where the function does.
    let mut begin = None;
    for line in body {
        if let Some(label) = line.strip_suffix(':') {
            labels.insert(label, steps.len());
            continue;
        }
        let Some((address, rest)) = line.strip_prefix("/*").and_then(|l| l.split_once("*/")) else { continue };
        let Ok(place) = u32::from_str_radix(address, 16) else { continue };
        let rest = rest.trim().trim_end_matches(';').trim();
        let (guard, rest) = match rest.strip_prefix('@') {
            Some(r) => r.split_once(char::is_whitespace).map_or(("", r), |(g, r)| (g, r.trim_start())),
            None => ("", rest),
        };
        let (opcode, arguments) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        let (mut step, guarded) = (instruction(opcode, arguments), !guard.is_empty() && guard != "PT" && guard != "UPT");
        (step.place, step.guarded) = (place - *begin.get_or_insert(place), guarded);
        let target = target(arguments);
        let base = opcode.split('.').next().unwrap_or_default();
        // A branch may ask for one more predicate.
        let asks = guarded || arguments.split(',').any(|a| a.trim().trim_start_matches('!').trim_start_matches('U').starts_with('P'));
        match (base, target) {
            ("BRA" | "JMP" | "CALL", Some(t)) => {
                targets.push((steps.len(), t));
                // A call comes back: what it calls is looked at below.
                step.next = match (base, asks) {
                    ("CALL", _) => Next::Falls,
                    (_, true) => Next::Branches(0),
                    (_, false) => Next::Jumps(0),
                };
            }
            ("EXIT" | "KILL", _) => step.next = if asks { Next::MayEnd } else { Next::Ends },
            ("RET", _) => step.next = Next::Ends,
            _ => {}
        }
        steps.push(step);
    }
    let mut calls = Vec::new();
    for (i, target) in targets {
        let to = match target {
            Target::Label(label) => labels.get(label).copied(),
            Target::Address(at) => at.checked_sub(begin.unwrap_or(0)).and_then(|at| steps.binary_search_by_key(&at, |s| s.place).ok()),
        };
        let Some(to) = to else { continue };
        match &mut steps[i].next {
            Next::Branches(t) | Next::Jumps(t) => *t = to,
            Next::Falls | Next::Ends | Next::MayEnd => calls.push((i, to)),
        }
    }
    for (i, to) in calls {
        let writes = written_from(&steps, to);
        // Whatever it leaves there is new.
        steps[i] = Step { writes, reads: vec![], kind: Kind::Copy, ..steps[i].clone() };
    }
    Code { name: name.to_owned(), steps, registers: REGISTERS, products: vec![] }.numbered()
}

/// Where control goes.
#[derive(Clone, Copy)]
enum Target<'t> {
    Label(&'t str),
    Address(u32),
}

/// Where a branch leads: its last operand, `` `(.L_x_1) `` or `0x1f0`.
fn target(arguments: &str) -> Option<Target<'_>> {
    if let Some((_, label)) = arguments.split_once("`(") {
        return label.split_once(')').map(|(label, _)| Target::Label(label));
    }
    let last = arguments.rsplit([',', ' ']).next()?;
    u32::from_str_radix(last.strip_prefix("0x")?, 16).ok().map(Target::Address)
}

/// The registers that are written between a step and the ends that it leads to.
fn written_from(steps: &[Step], to: usize) -> Vec<Reg> {
    let (mut seen, mut open, mut out) = (vec![false; steps.len()], vec![to], Vec::new());
    while let Some(i) = open.pop() {
        if i >= steps.len() || std::mem::replace(&mut seen[i], true) {
            continue;
        }
        out.extend_from_slice(&steps[i].writes);
        match steps[i].next {
            Next::Falls | Next::MayEnd => open.push(i + 1),
            Next::Jumps(t) => open.push(t),
            Next::Branches(t) => open.extend([t, i + 1]),
            Next::Ends => {}
        }
    }
    out.sort_unstable();
    out.dedup();
    out
}

/// The register that an operand names.
fn register(operand: &str) -> Option<Reg> {
    let operand = operand.trim_start_matches(['-', '|', '~', '!', '+']);
    let (digits, base) = match operand.strip_prefix("UR") {
        Some(d) => (d, UNIFORM),
        None => (operand.strip_prefix('R')?, 0),
    };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let n: Reg = digits[..end].parse().ok()?;
    (n < 255).then_some(base + n)
}

fn is_predicate(operand: &str) -> bool {
    let operand = operand.trim_start_matches('!').trim_start_matches('U');
    operand.strip_prefix('P').is_some_and(|r| r == "T" || r.starts_with(|c: char| c.is_ascii_digit()))
}

fn instruction(opcode: &str, arguments: &str) -> Step {
    let parts: Vec<&str> = opcode.split('.').collect();
    let list: Vec<&str> = arguments.split(", ").map(str::trim).filter(|a| !a.is_empty()).collect();
    let mut step = Step { place: 0, writes: vec![], reads: vec![], guarded: false, kind: Kind::Compute, next: Next::Falls };
    if parts[0].ends_with("GMMA") {
        multiply(&parts, &list, &mut step);
        return step;
    }
    step.kind = match parts[0] {
        "MOV" | "UMOV" | "R2UR" | "S2R" | "S2UR" | "CS2R" | "LDC" | "ULDC" | "LDL" | "MOV32I" => Kind::Copy,
        // How it moves where other units are busy.
        "IMAD" if parts.get(1) == Some(&"MOV") || parts.get(1) == Some(&"U32") && arguments.contains("RZ, RZ") => Kind::Copy,
        "LDS" | "LDSM" => Kind::Shared,
        "LDG" => Kind::Global,
        _ => Kind::Compute,
    };
    let loads = parts[0].starts_with("LD");
    let result =
        if WITHOUT_RESULT.split(' ').any(|o| o == parts[0]) { None } else { list.iter().position(|o| !is_predicate(o)).filter(|&k| k < 2) };
    for (k, operand) in list.iter().enumerate() {
        if operand.contains('[') && !operand.starts_with("desc[") && loads {
            continue;
        }
        let Some(r) = register(operand) else { continue };
        if Some(k) == result {
            step.writes = (r..r + width(&parts)).collect();
        } else if !loads {
            step.reads.extend(r..r + read_width(&parts, k));
        }
    }
    step
}

/// Registers of a result.
fn width(parts: &[&str]) -> u32 {
    let has = |p: &str| parts.contains(&p);
    match parts[0] {
        "HMMA" | "IMMA" | "BMMA" => {
            if parts[0] == "HMMA" && parts.get(2) == Some(&"F16") {
                2
            } else {
                4
            }
        }
        "DMMA" => 4,
        "LDSM" => parts.last().and_then(|p| p.parse().ok()).unwrap_or(1),
        "CS2R" => 2 - u32::from(has("32")),
        "DADD" | "DMUL" | "DFMA" | "DMNMX" => 2,
        "F2F" | "I2F" => 1 + u32::from(parts.get(1) == Some(&"F64")),
        "F2I" | "FRND" => 1 + u32::from(parts.get(1).is_some_and(|p| p.ends_with("64"))),
        _ if has("128") => 4,
        _ if has("64") || has("WIDE") => 2,
        _ => 1,
    }
}

/// Registers of operand `k`, for the instructions that gather several.
fn read_width(parts: &[&str], k: usize) -> u32 {
    match parts[0] {
        "HMMA" | "IMMA" if k == 1 || k == 3 => 4,
        "HMMA" | "IMMA" if k == 2 => 2,
        "DADD" | "DMUL" | "DFMA" | "DMNMX" => 2,
        _ => 1,
    }
}

/// `QGMMA.64x128x32.F32.E4M3.E4M3 R24, R92, gdesc[UR16], R24, !UPT, gsb0`
fn multiply(parts: &[&str], list: &[&str], step: &mut Step) {
    let mut numbers = parts.get(1).map_or("", |p| p).split('x').filter_map(|n| n.parse::<u32>().ok());
    let shape = [0; 3].map(|_: u32| numbers.next().unwrap_or(0));
    let many = if parts.get(2) == Some(&"F16") { shape[1] / 4 } else { shape[1] / 2 };
    let range = |operand: Option<&&str>, n: u32| operand.and_then(|o| register(o)).map_or(vec![], |r| (r..r + n).collect::<Vec<Reg>>());
    let a = list.get(1).filter(|o| !o.contains("desc["));
    let behind = list.iter().rposition(|o| o.contains("desc[")).map_or(&list[..0], |k| &list[k + 1..]);
    let never = behind.contains(&"!UPT") || behind.contains(&"!PT");
    let c = if never { vec![] } else { range(behind.first(), many) };
    let perhaps = behind.iter().any(|o| is_predicate(o) && !o.ends_with("PT"));
    step.writes = range(list.first(), many);
    step.kind = Kind::Multiply(Multiply { shape, a: range(a, 4), c, perhaps });
}
