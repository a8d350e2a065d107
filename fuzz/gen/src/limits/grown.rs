//! Kernels of long chains, of one tile size or many, of one op or many.

use super::names::{BINARY, UNARY};
use std::fmt::Write;
use tilelift_kernels::rng;

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
