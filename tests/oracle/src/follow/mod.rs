//! Follows the operands of matrix instructions of warpgroups through what the assembler made of a text: does each one read what the text gives it?
//!
//! ```text
//! PTX  ── read ─► Code ─┐   blocks, loops    origins of every register      the n-th `wgmma` and the n-th *GMMA:
//! SASS ── read ─► Code ─┴─────────────────► (results of which matrix   ──►   operand A and sums, register by register
//!                                            instruction, loads of which
//!                                            loop, an iteration before)
//! ```
//!
//! Of PTX every origin is kept that there may be, of SASS only those that are there for sure: what SASS has and PTX lacks was put there by a
//! register that two values share. The other way round, results that PTX hands on in every case have to arrive.
//! An assembler that gives a loop-invariant operand A the registers of one that the loop computes is seen here, without a GPU.

mod code;
mod graph;
mod origins;
mod ptx;
mod sass;
#[cfg(test)]
mod tests;

use code::{Code, Multiply};
use graph::{Block, Loop, blocks, loops};
use origins::{Flow, Meet, Set, Side, Source};
use std::collections::BTreeMap;
use std::fmt;

/// An operand that is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Followed {
    /// Operand A, from registers.
    A,
    /// The sum before.
    Sum,
}

/// What is in a register although the text does not put it there, or not although it does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stray {
    /// The result of a matrix instruction, by number.
    Result(usize),
    /// What the loop loads from shared memory.
    SharedLoad,
    /// What the loop loads from global memory.
    GlobalLoad,
    /// What an iteration before has computed.
    IterationBefore,
    /// The result of a matrix instruction, by number, is not there.
    Lost(usize),
}

/// What is wrong with an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// The object has no such function.
    NoFunction {
        /// The entry.
        entry: String,
    },
    /// The object's matrix instructions are not those of the text, so that they can't be followed.
    Unlike {
        /// The entry.
        entry: String,
        /// Matrix instructions of the text.
        text: usize,
        /// Those of the object.
        object: usize,
        /// The first that is unlike.
        first: usize,
    },
    /// A register holds what it should not.
    Register {
        /// The entry.
        entry: String,
        /// The matrix instruction, by number.
        number: usize,
        /// Its line in the text.
        line: u32,
        /// Its address in the object.
        address: u32,
        /// The operand.
        operand: Followed,
        /// The register of the operand.
        register: usize,
        /// What it holds.
        stray: Stray,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::NoFunction { entry } => write!(f, "{entry} is not in the object"),
            Finding::Unlike { entry, text, object, first } => {
                write!(f, "{entry}: {text} matrix instructions in the text, {object} in the object, unlike from number {first} on")
            }
            Finding::Register { entry, number, line, address, operand, register, stray } => {
                let operand = match operand {
                    Followed::A => "operand A",
                    Followed::Sum => "the sum",
                };
                write!(f, "{entry}: matrix instruction {number} (line {line}, address {address:#x}): register {register} of {operand} ")?;
                match stray {
                    Stray::Result(n) => write!(f, "holds results of matrix instruction {n}, which the text keeps out of it"),
                    Stray::SharedLoad => f.write_str("holds what its loop loads from shared memory, the text's does not"),
                    Stray::GlobalLoad => f.write_str("holds what its loop loads from global memory, the text's does not"),
                    Stray::IterationBefore => f.write_str("holds what an iteration before has computed, the text's does not"),
                    Stray::Lost(n) => write!(f, "has lost the result of matrix instruction {n}"),
                }
            }
        }
    }
}

/// True for texts that have something to follow.
pub fn has_operands(text: &str) -> bool {
    text.contains("wgmma.mma_async")
}

/// Compares a text with the disassembly of its object.
pub fn follow(text: &str, disassembly: &str) -> Vec<Finding> {
    let functions = sass::read(disassembly);
    let mut out = Vec::new();
    for entry in ptx::read(text).iter().filter(|e| e.multiplies().next().is_some()) {
        match functions.iter().find(|f| f.name == entry.name) {
            Some(function) => compare(entry, function, &mut out),
            None => out.push(Finding::NoFunction { entry: entry.name.clone() }),
        }
    }
    out
}

/// Loops with matrix instructions, by the numbers of these; of equal ones the outer first.
fn keyed<'a>(code: &Code, blocks: &[Block], loops: &'a [Loop]) -> BTreeMap<Vec<usize>, Vec<&'a Loop>> {
    let mut out: BTreeMap<Vec<usize>, Vec<&Loop>> = BTreeMap::new();
    for l in loops {
        let inside = |step: usize| blocks.iter().zip(&l.holds).any(|(b, &h)| h && (b.first..b.end).contains(&step));
        let key: Vec<usize> = code.multiplies().enumerate().filter(|(_, (i, _))| inside(*i)).map(|(n, _)| n).collect();
        if !key.is_empty() {
            out.entry(key).or_default().push(l);
        }
    }
    out.values_mut().for_each(|ls| ls.sort_by_key(|l| std::cmp::Reverse(l.holds.iter().filter(|h| **h).count())));
    out
}

type Shape = ([u32; 3], usize);

fn shapes(code: &Code) -> Vec<Shape> {
    code.multiplies().map(|(_, m): (_, &Multiply)| (m.shape, m.a.len())).collect()
}

/// Most ways to tell an object's stretches of matrix instructions apart.
const WAYS: usize = 120;

/// Says what differs, for the order of the object's blocks in which least does: an assembler may put one arm of a choice before the other.
fn compare(entry: &Code, function: &Code, out: &mut Vec<Finding>) {
    let (text, object) = (shapes(entry), shapes(function));
    let (b1, b2) = (blocks(entry), blocks(function));
    let straight = if text == object { Some(findings((entry, &b1), (function, &b2))) } else { None };
    if straight.as_ref().is_some_and(Vec::is_empty) {
        return;
    }
    let mut ways = Vec::new();
    orders(&stretches(entry, &b1), &stretches(function, &b2), &mut vec![], &mut ways);
    for products in ways {
        let other = Code { products, ..function.clone() };
        if shapes(&other) == text && findings((entry, &b1), (&other, &b2)).is_empty() {
            return;
        }
    }
    let first = text.iter().zip(&object).position(|(a, b)| a != b).unwrap_or(text.len().min(object.len()));
    let unlike = || vec![Finding::Unlike { entry: entry.name.clone(), text: text.len(), object: object.len(), first }];
    out.extend(straight.unwrap_or_else(unlike));
}

/// The matrix instructions of each block, by their steps and shapes.
fn stretches(code: &Code, blocks: &[Block]) -> Vec<Vec<(usize, Shape)>> {
    let all: Vec<(usize, Shape)> = code.products.iter().copied().zip(shapes(code)).collect();
    let inside = |b: &Block| all.iter().filter(|(i, _)| (b.first..b.end).contains(i)).copied().collect::<Vec<_>>();
    blocks.iter().map(inside).filter(|s| !s.is_empty()).collect()
}

/// The ways to put the stretches of an object in the order of the text's, by shapes: the steps of its matrix instructions.
fn orders(text: &[Vec<(usize, Shape)>], object: &[Vec<(usize, Shape)>], taken: &mut Vec<usize>, out: &mut Vec<Vec<usize>>) {
    if out.len() == WAYS || text.len() != object.len() {
        return;
    }
    let Some(wanted) = text.get(taken.len()) else {
        out.push(taken.iter().flat_map(|&k| object[k].iter().map(|(i, _)| *i)).collect());
        return;
    };
    for (k, stretch) in object.iter().enumerate() {
        let alike = stretch.iter().map(|(_, s)| s).eq(wanted.iter().map(|(_, s)| s));
        if alike && !taken.contains(&k) {
            taken.push(k);
            orders(text, object, taken, out);
            taken.pop();
        }
    }
}

fn findings((entry, b1): (&Code, &[Block]), (function, b2): (&Code, &[Block])) -> Vec<Finding> {
    let mut out = Vec::new();
    let count = entry.products.len();
    let (l1, l2) = (loops(b1), loops(b2));
    let (k1, k2) = (keyed(entry, b1, &l1), keyed(function, b2, &l2));
    // A loop that runs once may be gone.
    let both = k1.iter().filter_map(|(key, a)| k2.get(key).filter(|b| b.len() == a.len()).map(|b| (a, b)));
    let (m1, m2): (Vec<&Loop>, Vec<&Loop>) = both.flat_map(|(a, b)| a.iter().copied().zip(b.iter().copied())).unzip();
    let ptx = Flow { code: entry, blocks: b1, loops: m1, count, side: Side::Ptx };
    let sass = Flow { code: function, blocks: b2, loops: m2, count, side: Side::Sass };
    let (may, must, is) = (ptx.operands(Meet::Any), ptx.operands(Meet::Every), sass.operands(Meet::Any));
    let steps: Vec<(usize, usize)> = entry.multiplies().zip(function.multiplies()).map(|((i, _), (j, _))| (i, j)).collect();
    for (n, &(i, j)) in steps.iter().enumerate() {
        let mut tell = |operand, register, stray| {
            let (line, address) = (entry.steps[i].place, function.steps[j].place);
            out.push(Finding::Register { entry: entry.name.clone(), number: n, line, address, operand, register, stray });
        };
        let a = may[n].0.iter().zip(&must[n].0).zip(&is[n].0);
        let sums = may[n].1.iter().zip(&must[n].1).zip(&is[n].1);
        for (operand, each) in [(Followed::A, a.collect::<Vec<_>>()), (Followed::Sum, sums.collect())] {
            // One is enough: the registers of an operand stay together.
            let found = each.into_iter().enumerate().find_map(|(r, ((may, must), is))| Some((r, differs(&ptx, may, must, is)?)));
            if let Some((register, stray)) = found {
                tell(operand, register, stray);
            }
        }
    }
    out
}

/// What a register holds and should not.
fn differs(flow: &Flow<'_>, may: &Set, must: &Set, is: &Set) -> Option<Stray> {
    let stray = |bit: usize| is.has(bit) && !may.has(bit);
    let results = (0..flow.count).find(|&n| stray(n)).map(Stray::Result);
    let lost = || (0..flow.count).find(|&n| must.has(n) && !is.has(n)).map(Stray::Lost);
    let loaded = || {
        let sources = [(Source::Shared, Stray::SharedLoad), (Source::Global, Stray::GlobalLoad), (Source::Before, Stray::IterationBefore)];
        (0..flow.loops.len()).find_map(|l| sources.iter().find(|(s, _)| stray(flow.bit(l, *s))).map(|(_, stray)| *stray))
    };
    results.or_else(lost).or_else(loaded)
}
