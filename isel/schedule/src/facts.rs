//! Facts about scalars: which power of two is known to divide an index.

use tilelift_ir::{Kernel, Literal, Op, Value, ValueDef};

/// Divisors are capped here; no access is wider.
const CAP: u32 = 1 << 12;

/// The largest power of two up to 4096 known to divide an integer scalar (4096 for 0).
pub fn divisor(kernel: &Kernel, v: Value) -> u32 {
    divisor_within(kernel, v, 64)
}

fn divisor_within(kernel: &Kernel, v: Value, fuel: u32) -> u32 {
    if fuel == 0 {
        return 1;
    }
    if let Some((Literal::Int(c), _)) = kernel.as_const(v) {
        return power_of_two(c);
    }
    let go = |v: Value| divisor_within(kernel, v, fuel / 2);
    match kernel.values[v].def {
        ValueDef::Result(i, _) => {
            let d = &kernel.insts[i];
            match d.op {
                Op::Add | Op::Sub | Op::Minimum | Op::Maximum | Op::Rem => go(d.args[0]).min(go(d.args[1])),
                Op::Select => go(d.args[1]).min(go(d.args[2])),
                Op::Mul => go(d.args[0]).saturating_mul(go(d.args[1])).min(CAP),
                Op::Shl => match kernel.as_const(d.args[1]) {
                    Some((Literal::Int(s @ 0..=12), _)) => (go(d.args[0]) << s).min(CAP),
                    _ => go(d.args[0]),
                },
                Op::Assume => match d.attrs.first() {
                    Some(tilelift_ir::Attr::Divisor(n)) => go(d.args[0]).max(power_of_two(i64::from(*n))),
                    _ => go(d.args[0]),
                },
                Op::And => go(d.args[0]).max(go(d.args[1])),
                Op::Cast if d.args.len() == 1 && kernel.ty(d.args[0]).elem().is_int() => go(d.args[0]),
                Op::Dim => match (kernel.ty(d.args[0]).as_view(), d.attrs.first()) {
                    (Some(view), Some(tilelift_ir::Attr::Dim(k))) => power_of_two(i64::from(view.dims[*k as usize].divisor())),
                    _ => 1,
                },
                _ => 1,
            }
        }
        ValueDef::RegionParam(r, 0) => {
            // The index of a `for` is lo plus a multiple of the step.
            let owner = kernel.insts.iter().find(|(_, d)| d.op == Op::For && d.regions.first() == Some(&r));
            owner.map_or(1, |(_, d)| go(d.args[0]).min(go(d.args[2])))
        }
        ValueDef::RegionParam(..) | ValueDef::KernelParam(_) => 1,
    }
}

/// The largest power of two up to the cap that divides `x` (the cap for 0).
pub fn power_of_two(x: i64) -> u32 {
    if x == 0 { CAP } else { (1u64 << x.trailing_zeros().min(12)) as u32 }
}
