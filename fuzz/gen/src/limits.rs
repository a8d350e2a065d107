//! Inputs that try to make a compile long or large, and what a compile may take.
//!
//! ```text
//! mutants      kernel texts with numbers, types and ops exchanged everywhere, lines repeated, instructions in long chains
//! generated    kernels of the generator, with tiles and steps of many sizes; kernels with tasks
//! grown        long chains, many loads, stores, choices and loops, tiles of many elements, dear functions
//! ```

use crate::{Config, Mode, Source, generate, generate_explicit};
use std::fmt::Write;
use std::time::Duration;
use tilelift_ir::{Kernel, text};
use tilelift_kernels::rng;

/// Instructions up to which a compile has a fixed allowance.
const SMALL: u64 = 50_000;

/// What the compile of a kernel of so many instructions may take.
pub fn time(instructions: usize) -> Duration {
    if instructions as u64 <= SMALL { Duration::from_secs(2) } else { Duration::from_micros(20 * instructions as u64) }
}

/// The most bytes that may be allocated at once in the compile of a kernel of so many instructions, itself left out.
pub fn memory(instructions: usize) -> u64 {
    if instructions as u64 <= SMALL { 256 << 20 } else { 4096 * instructions as u64 }
}

/// Where an input comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Kind {
    /// A text of the corpus, changed.
    Mutant,
    /// A kernel of the generator.
    Generated,
    /// A kernel with tasks.
    Explicit,
    /// A kernel that repeats something many times.
    Grown,
}

/// The kernels of a seed; none where a mutant does not parse.
pub fn kernels(seed: u64, corpus: &[String]) -> (Kind, Vec<Kernel>) {
    let r = |i: u64| rng::bits(seed, i);
    let parsed = |source: &str| text::parse(source).map(|f| f.kernels).unwrap_or_default();
    match r(0) % 16 {
        0..8 if !corpus.is_empty() => (Kind::Mutant, parsed(&mutant(&corpus[r(1) as usize % corpus.len()], seed))),
        8..11 => {
            let mode = if r(1) % 2 == 0 { Mode::Exact } else { Mode::Approx };
            let cfg = Config {
                mode,
                max_elements: 1 << (6 + r(2) % 11),
                max_steps: 4 << (r(3) % 8),
                max_depth: 1 + (r(4) % 6) as u32,
                max_work: u64::MAX >> 8,
                ..Config::default()
            };
            (Kind::Generated, generate(&mut Source::from_seed(seed), &cfg).map(|c| vec![c.kernel]).unwrap_or_default())
        }
        11 => (Kind::Explicit, generate_explicit(&mut Source::from_seed(seed)).map(|c| vec![c.kernel]).unwrap_or_default()),
        _ => (Kind::Grown, parsed(&grown(seed))),
    }
}

/// Ops of one operand and of two that every float has.
const UNARY: [&str; 13] = ["exp", "exp2", "log", "log2", "tanh", "sin", "cos", "erf", "sqrt", "rsqrt", "rcp", "neg", "floor"];
const BINARY: [&str; 6] = ["add", "sub", "mul", "div", "minimum", "maxnum"];
const TYPES: [&str; 8] = ["f32", "f16", "bf16", "f64", "i32", "i8", "i64", "f8e4m3"];

/// A text whose numbers, types and ops are exchanged, and some of its instructions repeated.
pub fn mutant(source: &str, seed: u64) -> String {
    let mut lines: Vec<String> = source.lines().filter(|l| !l.trim_start().starts_with(';')).map(str::to_owned).collect();
    for step in 0..=rng::bits(seed, 100) % 4 {
        let r = |i: u64| rng::bits(seed, 1000 + 20 * step + i) as usize;
        if lines.is_empty() {
            break;
        }
        let at = r(0) % lines.len();
        match r(1) % 8 {
            // A number, wherever it stands: mostly types stay consistent.
            0..3 => {
                let numbers: Vec<u64> = words(&lines[at]).filter_map(|w| w.parse().ok()).collect();
                if let Some(&n) = numbers.get(r(2) % numbers.len().max(1)) {
                    let to = match r(3) % 8 {
                        0 => n / 2,
                        1 => n.saturating_mul(3),
                        k => n.saturating_mul(1 << k),
                    };
                    lines = lines.iter().map(|l| replace_word(l, &n.to_string(), &to.to_string())).collect();
                }
            }
            3 => {
                let (from, to) = (TYPES[r(2) % TYPES.len()], TYPES[r(3) % TYPES.len()]);
                lines = lines.iter().map(|l| l.replace(from, to)).collect();
            }
            4 => {
                let ops = if r(2) % 2 == 0 { &UNARY[..] } else { &BINARY[..] };
                let to = ops[r(3) % ops.len()];
                if let Some(from) = ops.iter().find(|o| lines[at].contains(&format!(" {o} "))) {
                    lines[at] = lines[at].replace(&format!(" {from} "), &format!(" {to} "));
                }
            }
            // A value goes a long way to its users.
            5 => {
                let name = lines[at].trim().split_once(" = ").map(|(n, _)| n.trim().to_owned());
                if let Some(name) = name.filter(|n| n.starts_with('v') && !n.contains(',') && !lines[at].ends_with('{')) {
                    let ops = if r(3) % 2 == 0 { &UNARY[..] } else { &BINARY[..] };
                    let count = 1usize << (r(2) % 14);
                    let mut last = name.clone();
                    let mut chain = Vec::new();
                    for k in 0..count {
                        let new = format!("v{}", 1_000_000 * (step + 1) + k as u64);
                        let op = ops[(r(4) + k) % ops.len()];
                        let second = if ops.len() == BINARY.len() { format!(", {name}") } else { String::new() };
                        chain.push(format!("{new} = {op} {last}{second}"));
                        last = new;
                    }
                    let rest: Vec<String> = lines.drain(at + 1..).collect();
                    lines.extend(chain);
                    lines.extend(rest.iter().map(|l| replace_word(l, &name, &last)));
                }
            }
            // The same store again and again.
            6 => {
                let count = 1 << (r(2) % 12);
                if lines[at].trim_start().starts_with("store") || lines[at].trim_start().starts_with("atomic") {
                    let line = lines[at].clone();
                    lines.splice(at..at, std::iter::repeat_n(line, count));
                }
            }
            _ => {
                let other = r(2) % lines.len();
                let line = lines[other].clone();
                lines.insert(at, line);
            }
        }
    }
    lines.join("\n") + "\n"
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_ascii_digit()).filter(|w| !w.is_empty())
}

/// A word of letters and digits by another; in extents such as `8x16xf32` the numbers are words.
fn replace_word(line: &str, from: &str, to: &str) -> String {
    let (mut out, mut rest) = (String::new(), line);
    while let Some(i) = rest.find(from) {
        let (before, behind) = (&rest[..i], &rest[i + from.len()..]);
        let digits = from.starts_with(|c: char| c.is_ascii_digit());
        let touches = |c: char| if digits { c.is_ascii_alphanumeric() && c != 'x' || c == '.' } else { c.is_ascii_alphanumeric() };
        let whole = !before.ends_with(touches) && !behind.starts_with(touches);
        out += before;
        out += if whole { to } else { from };
        rest = behind;
    }
    out + rest
}

/// A kernel that repeats something many times.
pub fn grown(seed: u64) -> String {
    let r = |i: u64| rng::bits(seed, 50 + i) as usize;
    // Few are long, for those take long.
    let most = [300, 3000, 3000, 10_000, 10_000, 49_000][r(0) % 6];
    let n = 10 + r(1) % most;
    let elements = [1, 32, 128, 128, 1000, 4096, 32768, 131_072][r(2) % 8];
    let ty = ["f32", "f32", "f64", "bf16", "i32", "i64"][r(3) % 6];
    let float = !ty.starts_with('i');
    let tile = format!("tile<{elements}x{ty}>");
    let mut out = format!("kernel @grown(v0: view<{ty}, [?]>, v1: view<{ty}, [?]>) warps={} {{\n", 1 << (r(4) % 4));
    let _ = writeln!(out, "v2 = program_id x\nv3 = load v0[v2] : {tile}");
    let mut next = 4;
    let mut last = 3;
    let binary = |k: usize| if float { BINARY[k % 6] } else { ["add", "sub", "mul", "xor", "minimum", "rem"][k % 6] };
    let unary = |k: usize| if float { UNARY[k % 13] } else { ["neg", "not", "popcount", "clz"][k % 4] };
    let form = r(5) % 8;
    let fixed = r(6);
    let varied = r(7) % 2 == 0;
    let mut all = vec![3];
    let mut left = n;
    while left > 0 {
        let k = if varied { rng::bits(seed, 10_000 + left as u64) as usize } else { fixed };
        let used = match form {
            0 => {
                let _ = writeln!(out, "v{next} = {} v{last}, v{}", binary(k), all[k % all.len()]);
                1
            }
            1 => {
                let _ = writeln!(out, "v{next} = {} v{last}", unary(k));
                1
            }
            // Loads from near and far.
            2 => {
                let _ = writeln!(out, "v{next} = add v2, {}", k % 100_000);
                let _ =
                    writeln!(out, "v{} = load v0[v{next}] : {tile}\nv{} = {} v{last}, v{}", next + 1, next + 2, binary(k >> 8), next + 1);
                next += 2;
                3
            }
            // Stores, and loads of what was stored.
            3 => {
                let _ = writeln!(out, "v{next} = add v2, {}\nstore v1[v{next}], v{last}", k % 100_000);
                let _ = writeln!(out, "v{} = load v1[v2] : {tile}\nv{} = {} v{last}, v{}", next + 1, next + 2, binary(k >> 8), next + 1);
                next += 2;
                4
            }
            // Choices.
            4 => {
                let _ = writeln!(out, "v{next} = cmp eq v2, {}\nv{} = if v{next} {{", k % 1000, next + 1);
                let _ = writeln!(out, "v{} = {} v{last}, v3\nyield v{}\n}} else {{\nyield v{last}\n}}", next + 2, binary(k >> 8), next + 2);
                next += 1;
                6
            }
            // Loops one behind the other.
            5 => {
                let (iv, carried, new) = (next + 1, next + 2, next + 3);
                let _ = writeln!(out, "v{next} = for v{iv} in 0..v2 step {} carry v{carried} = v{last} {{", 1 + k % 7);
                let _ = writeln!(out, "v{new} = {} v{carried}, v3\nyield v{new}\n}}", binary(k >> 8));
                last = next;
                next += 4;
                all = vec![3, last];
                left = left.saturating_sub(3);
                continue;
            }
            // Many values that are alive at once, and literals.
            6 => {
                let literal = if float { format!("{}.5", k % 1000) } else { format!("{}", k % 100) };
                let _ = writeln!(out, "v{next} = splat {literal} : {tile}\nv{} = {} v{next}, v3", next + 1, binary(k >> 8));
                next += 1;
                2
            }
            // Nested loops, as deep as they may be.
            _ => {
                let depth = 1 + k % 20;
                let (first, mut inner) = (next, last);
                for _ in 0..depth {
                    let _ = writeln!(out, "v{} = for v{} in 0..v2 step 1 carry v{} = v{inner} {{", next, next + 1, next + 2);
                    inner = next + 2;
                    next += 3;
                }
                let _ = writeln!(out, "v{next} = {} v{inner}, v3\nyield v{next}\n}}", binary(k >> 8));
                for d in (1..depth).rev() {
                    let _ = writeln!(out, "yield v{}\n}}", first + 3 * d);
                }
                last = first;
                next += 1;
                all = vec![3, last];
                left = left.saturating_sub(2 + 2 * depth);
                continue;
            }
        };
        left = left.saturating_sub(used);
        last = next;
        if form == 4 {
            next += 1;
        }
        next += 1;
        if all.len() < 4000 {
            all.push(last);
        }
    }
    if form == 6 {
        let mut sum = last;
        for &v in &all {
            let _ = writeln!(out, "v{next} = {} v{sum}, v{v}", binary(fixed));
            sum = next;
            next += 1;
        }
        last = sum;
    }
    let _ = writeln!(out, "store v1[v2], v{last}\n}}");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grown_kernels_parse_and_verify() {
        for seed in 0..200 {
            let source = grown(seed);
            if source.len() < 100_000 {
                let file = text::parse(&source).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
                assert!(tilelift_ir::verify(&file.kernels[0]).is_ok(), "seed {seed}");
            }
        }
    }

    #[test]
    fn words_are_replaced_whole() {
        assert_eq!(replace_word("v1 = load v10[0] : tile<8x16xf32>", "8", "64"), "v1 = load v10[0] : tile<64x16xf32>");
        assert_eq!(replace_word("v1 = add v10, v1", "v1", "v7"), "v7 = add v10, v7");
    }
}
