//! Programs of many instructions: straight code in chains, side by side, in loops.

use std::fmt::Write;
use tilelift_kernels::rng;

/// A way to make a program of so many instructions, or a few more.
pub struct Large {
    /// Its name.
    pub name: &'static str,
    /// What it is, in words.
    pub what: &'static str,
    /// Writes it.
    pub text: fn(usize) -> String,
}

/// Those that `limits --large` tries.
pub const LARGE: &[Large] = &[
    Large { name: "adds", what: "dependent additions", text: adds },
    Large { name: "mixed", what: "a chain of eight elementwise ops, with operands from near and far", text: mixed },
    Large { name: "integers", what: "a chain of which rules make less: products by 1, sums of constants, shifts", text: integers },
    Large { name: "wide", what: "load, product, sum and store, side by side", text: wide },
    Large { name: "loops", what: "loops of ten steps, one behind the other", text: loops },
    Large { name: "inside", what: "a chain in one loop", text: inside },
];

/// The kernel's first line, and two tiles.
fn head(ty: &str) -> String {
    format!(
        "kernel @large(v0: view<{ty}, [?]>, v1: view<{ty}, [?]>) {{\nv2 = program_id x\nv3 = mul v2, 128\nv4 = load v0[v3] : tile<128x{ty}>\n\
         v5 = load v1[v3] : tile<128x{ty}>\n"
    )
}

/// What stores the last value.
fn tail(out: String, last: usize) -> String {
    out + &format!("store v0[v3], v{last}\n}}\n")
}

fn adds(n: usize) -> String {
    let mut out = head("f32");
    (0..n).for_each(|k| _ = writeln!(out, "v{} = add v{}, v4", k + 6, k + 5));
    tail(out, n + 5)
}

/// Step `k` of a mixed chain that ends at a value; from `first` on its values are seen.
fn step(k: usize, last: usize, first: usize) -> String {
    const OPS: [&str; 8] = ["add", "mul", "sub", "minimum", "neg", "maximum", "abs", "fma"];
    let r = rng::bits(7, k as u64) as usize;
    let op = OPS[r % OPS.len()];
    let near = [4, 5, last.saturating_sub(r / 8 % 6).max(first)][r / 64 % 3];
    match op {
        "neg" | "abs" => format!("{op} v{last}"),
        "fma" => format!("fma v{last}, v{near}, v4"),
        _ => format!("{op} v{last}, v{near}"),
    }
}

fn mixed(n: usize) -> String {
    let mut out = head("f32");
    (0..n).for_each(|k| _ = writeln!(out, "v{} = {}", k + 6, step(k, k + 5, 5)));
    tail(out, n + 5)
}

fn integers(n: usize) -> String {
    let mut out = head("i32");
    let mut last = 5;
    for k in 0..n / 2 {
        let (op, constant) = [("mul", 1), ("add", 7), ("sub", 2), ("xor", 0), ("shl", 0), ("mul", 3), ("add", -7), ("maximum", 5)][k % 8];
        let at = 6 + 2 * k;
        let _ = writeln!(out, "v{at} = splat {constant} : tile<128xi32>\nv{} = {op} v{last}, v{at}", at + 1);
        last = at + 1;
    }
    tail(out, last)
}

fn wide(n: usize) -> String {
    let mut out = head("f32");
    for k in 0..n / 5 {
        let [place, x, y, z] = [0, 1, 2, 3].map(|i| 6 + 4 * k + i);
        let _ = writeln!(out, "v{place} = add v2, {k}\nv{x} = load v0[v{place}] : tile<1xf32>\nv{y} = mul v{x}, v{x}");
        let _ = writeln!(out, "v{z} = add v{y}, v{x}\nstore v1[v{place}], v{z}");
    }
    tail(out, 5)
}

fn loops(n: usize) -> String {
    const STEPS: usize = 10;
    let mut out = head("f32");
    let (mut next, mut last) = (6, 5);
    for k in 0..n / (STEPS + 2) {
        let (result, mut at) = (next, next + 2);
        let _ = writeln!(out, "v{result} = for v{} in 0..{} step 1 carry v{at} = v{last} {{", next + 1, 3 + k % 5);
        for s in 0..STEPS {
            let _ = writeln!(out, "v{} = {} v{at}, v4", at + 1, if s % 2 == 0 { "add" } else { "mul" });
            at += 1;
        }
        let _ = writeln!(out, "yield v{at}\n}}");
        (next, last) = (at + 1, result);
    }
    tail(out, last)
}

fn inside(n: usize) -> String {
    let mut out = head("f32") + "v6 = for v7 in 0..9 step 1 carry v8 = v5 {\n";
    (0..n).for_each(|k| _ = writeln!(out, "v{} = {}", k + 9, step(k, k + 8, 8)));
    let _ = writeln!(out, "yield v{}\n}}", n + 8);
    tail(out, 6)
}
