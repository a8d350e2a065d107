//! Kernel texts with numbers, types and ops exchanged, lines repeated, instructions in long chains.

use super::names::{BINARY, TYPES, UNARY};
use tilelift_kernels::rng;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_replaced_whole() {
        assert_eq!(replace_word("v1 = load v10[0] : tile<8x16xf32>", "8", "64"), "v1 = load v10[0] : tile<64x16xf32>");
        assert_eq!(replace_word("v1 = add v10, v1", "v1", "v7"), "v7 = add v10, v7");
    }
}
