//! Facts about scalars: which power of two is known to divide an index.
//!
//! ```text
//! index ─► what it is made of: ops by the table of multiples, loops by what enters and what each iteration hands on
//!          begin with "every power divides", take away what some definition does not keep, until nothing changes
//! ```

use smallvec::SmallVec;
use tilelift_ir::multiples::{ALL_ZEROS, Known, low_zeros, zeros_of};
use tilelift_ir::{Effects, Inst, Kernel, Literal, Op, Region, Type, Value, ValueDef};
use tilelift_lane::hash::Map;

/// Divisors are capped here, as a power of two; no access is wider.
const CAP: u8 = 12;

/// Definitions that are looked at for one index; of what lies behind them nothing is known.
const MOST: usize = 256;

/// Definitions that are looked at one by one, without a table of them.
const FEW: u32 = 48;

/// Rounds after which nothing is known of an index whose facts still change.
pub(crate) const ROUNDS: usize = 64;

/// The largest power of two known to divide an integer scalar, as far as `most` (a power of two up to 4096; it divides 0).
pub fn divisor(kernel: &Kernel, v: Value, most: u32) -> u32 {
    let most = zeros_of(most.into()).min(CAP);
    let zeros = few(kernel, v, most, &mut FEW.clone()).unwrap_or_else(|| Slice::behind(kernel, v).zeros(kernel));
    1 << zeros.min(most)
}

/// The largest power of two up to the cap that divides `x` (the cap for 0).
pub fn power_of_two(x: i64) -> u32 {
    1 << zeros_of(x).min(CAP)
}

/// How a value is made.
#[derive(Clone, Copy)]
pub(crate) enum MadeBy {
    /// By a pure op.
    Op(Inst),
    /// It is one of these.
    OneOf([Value; 2]),
    /// The index of a loop: the first plus a multiple of the second, and never below the first.
    Index([Value; 2]),
    /// A loop hands it on: it is the first, or the second, which may be made from it.
    Carried([Value; 2]),
    /// Nothing is known.
    Unknown,
}

/// What the op makes of operands with so many zeros.
fn by_op(kernel: &Kernel, i: Inst, to: Value, mut zeros: impl FnMut(usize, Value) -> Option<u8>) -> Option<u8> {
    let d = &kernel.insts[i];
    let mut args: SmallVec<[Known<'_>; 3]> = SmallVec::new();
    for (n, &v) in d.args.iter().enumerate() {
        let zeros = if matches!(kernel.ty(v), Type::Scalar(_)) { zeros(n, v)? } else { 0 };
        args.push(Known { ty: kernel.ty(v), zeros, value: constant(kernel, v) });
    }
    Some(low_zeros(d.op, &d.attrs, kernel.ty(to), &args))
}

/// The low bits of a value that are known to be zero, up to `most`, if it is made of few others, and none of them is carried by a loop. An
/// operand that can no longer matter is not looked at.
fn few(kernel: &Kernel, v: Value, most: u8, left: &mut u32) -> Option<u8> {
    if most == 0 {
        return Some(0);
    }
    *left = left.checked_sub(1)?;
    match made(kernel, v) {
        MadeBy::Op(i) => match (kernel.insts[i].op, &kernel.insts[i].args[..]) {
            (Op::Add | Op::Sub, &[a, b]) => {
                let least = few(kernel, a, most, left)?;
                few(kernel, b, least, left)
            }
            (Op::Mul, &[a, b]) => {
                let (a, b) = if constant(kernel, a).is_some() { (a, b) } else { (b, a) };
                let first = few(kernel, a, most, left)?;
                Some(first + few(kernel, b, most - first, left)?)
            }
            _ => Some(by_op(kernel, i, v, |_, v| few(kernel, v, ALL_ZEROS, left))?.min(most)),
        },
        MadeBy::OneOf([a, b]) | MadeBy::Index([a, b]) => {
            let least = few(kernel, a, most, left)?;
            few(kernel, b, least, left)
        }
        MadeBy::Carried(_) => None,
        MadeBy::Unknown => Some(0),
    }
}

/// A value and the definitions behind it, users in front of what they use where there is no loop.
pub(crate) struct Slice {
    pub made: Vec<(Value, MadeBy)>,
    /// Where the operands of each stand; none for those that found no room.
    pub from: Vec<SmallVec<[Option<usize>; 3]>>,
}

impl Slice {
    pub fn behind(kernel: &Kernel, v: Value) -> Slice {
        let mut slice = Slice { made: vec![(v, made(kernel, v))], from: Vec::new() };
        let mut number = Map::default();
        number.insert(v, 0);
        while let Some((_, of)) = slice.made.get(slice.from.len()) {
            let from: SmallVec<[Value; 4]> = match of {
                MadeBy::Op(i) => kernel.insts[*i].args.clone(),
                MadeBy::OneOf(list) | MadeBy::Index(list) | MadeBy::Carried(list) => SmallVec::from_slice(list),
                MadeBy::Unknown => SmallVec::new(),
            };
            let places = from.iter().map(|&v| {
                if let Some(&n) = number.get(&v) {
                    return Some(n);
                }
                let n = slice.made.len();
                (n < MOST).then(|| {
                    number.insert(v, n);
                    slice.made.push((v, made(kernel, v)));
                    n
                })
            });
            let places = places.collect();
            slice.from.push(places);
        }
        slice
    }

    /// The low bits of the first value that are known to be zero.
    fn zeros(&self, kernel: &Kernel) -> u8 {
        let mut zeros = vec![ALL_ZEROS; self.made.len()];
        for _ in 0..ROUNDS {
            let mut changed = false;
            for (n, (v, made)) in self.made.iter().enumerate().rev() {
                let of = |k: usize| self.from[n][k].map_or(0, |n| zeros[n]);
                let now = match made {
                    MadeBy::Op(i) => by_op(kernel, *i, *v, |k, _| Some(of(k))).unwrap_or(0),
                    MadeBy::OneOf(_) | MadeBy::Index(_) | MadeBy::Carried(_) => of(0).min(of(1)),
                    MadeBy::Unknown => 0,
                };
                changed |= now < zeros[n];
                zeros[n] = zeros[n].min(now);
            }
            if !changed {
                return zeros.first().copied().unwrap_or(0);
            }
        }
        0
    }
}

/// The number that an integer is, if it is written down.
pub(crate) fn constant(kernel: &Kernel, v: Value) -> Option<i64> {
    match kernel.as_const(v) {
        Some((Literal::Int(c), _)) => Some(c),
        _ => None,
    }
}

fn made(kernel: &Kernel, v: Value) -> MadeBy {
    let pair = |a: Option<&Value>, b: Option<&Value>| a.copied().zip(b.copied()).map(|(a, b)| [a, b]);
    // What enters a loop as its `n`th carried value, and what an iteration hands on.
    let carried = |i: Inst, n: usize| {
        let d = &kernel.insts[i];
        let first = if d.op == Op::For { 3 } else { 0 };
        let next = d.regions.last().and_then(|&r| kernel.yields(r).get(n));
        pair(d.args.get(first + n), next).map_or(MadeBy::Unknown, MadeBy::Carried)
    };
    match kernel.values[v].def {
        ValueDef::Result(i, n) => match kernel.insts[i].op {
            Op::For | Op::While => carried(i, n as usize),
            Op::If => {
                let d = &kernel.insts[i];
                let arm = |k: usize| d.regions.get(k).and_then(|&r| kernel.yields(r).get(n as usize));
                pair(arm(0), arm(1)).map_or(MadeBy::Unknown, MadeBy::OneOf)
            }
            // Of a comparison with what comes from memory nothing follows, whatever is compared.
            Op::Cmp if kernel.insts[i].args.iter().any(|&a| from_memory(kernel, a)) => MadeBy::Unknown,
            op if op.info().effects == Effects::Pure => MadeBy::Op(i),
            _ => MadeBy::Unknown,
        },
        ValueDef::RegionParam(r, n) => match (owner(kernel, r), n) {
            (None, _) => MadeBy::Unknown,
            (Some(i), 0) if kernel.insts[i].op == Op::For => {
                let args = &kernel.insts[i].args;
                pair(args.first(), args.get(2)).map_or(MadeBy::Unknown, MadeBy::Index)
            }
            (Some(i), n) => carried(i, n as usize - usize::from(kernel.insts[i].op == Op::For)),
        },
        ValueDef::KernelParam(_) => MadeBy::Unknown,
    }
}

/// True for a tile of which nothing is known.
fn from_memory(kernel: &Kernel, v: Value) -> bool {
    let reads = |i: Inst| !matches!(kernel.insts[i].op.info().effects, Effects::Pure | Effects::Control);
    matches!(kernel.ty(v), Type::Tile(_)) && kernel.def_inst(v).is_some_and(reads)
}

/// The loop that a region belongs to.
fn owner(kernel: &Kernel, r: Region) -> Option<Inst> {
    kernel.holder(r).filter(|&i| matches!(kernel.insts[i].op, Op::For | Op::While))
}

#[cfg(test)]
mod tests {
    use super::{CAP, Slice, divisor, few};
    use tilelift_ir::{Op, text};

    /// The divisor of the column of each load, in order.
    fn columns(body: &str) -> Vec<u32> {
        let text = format!("kernel @k(v0: view<f32, [?, ?%32]>, v1: i32) {{\n{body}\n}}");
        let file = text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let k = &file.kernels[0];
        let mut out = Vec::new();
        k.walk(k.body, &mut |i| {
            if k.insts[i].op == Op::Load {
                let v = k.operand(i, "indices")[1];
                let zeros = Slice::behind(k, v).zeros(k);
                for most in 0..=CAP {
                    assert_eq!(few(k, v, most, &mut 1000).unwrap_or(zeros.min(most)), zeros.min(most));
                }
                out.push(divisor(k, v, 4096));
            }
        });
        out
    }

    #[test]
    fn sums_products_and_shifts() {
        let body = |op: &str| format!("v3 = program_id x\nv4 = mul v3, 48\n{op}\nv9 = load v0[0, v8] : tile<1x4xf32>");
        for (op, want) in [
            ("v8 = add v4, 0", 16),
            ("v8 = add v4, 8", 8),
            ("v8 = sub v4, 3", 1),
            ("v8 = shl v4, 2", 64),
            ("v8 = div v4, 4", 4),
            ("v8 = div v4, 3", 1),
            ("v8 = shr_u v4, 1", 8),
            ("v8 = rem v4, 32", 16),
            ("v8 = rem v4, 24", 8),
            ("v8 = and v4, -128", 128),
            ("v8 = or v4, 4", 4),
            ("v8 = neg v4", 16),
            ("v8 = maximum v4, 32", 16),
            ("v5 = dim v0, 1\nv8 = minimum v4, v5", 16),
            ("v5 = dim v0, 0\nv8 = minimum v4, v5", 1),
            ("v5 = assume v1, multiple 24\nv8 = add v4, v5", 8),
            ("v8 = add v4, v1", 1),
            ("v5 = cast v4 : i64\nv8 = cast v5 : i32", 16),
            // Whether there is a bit says nothing of where.
            ("v5 = cast v4 : i1\nv8 = cast v5 : i32", 1),
        ] {
            assert_eq!(columns(&body(op)), [want], "{op}");
        }
    }

    #[test]
    fn long_sums_are_followed() {
        let chain: String = (4..60).map(|n| format!("v{n} = add v{}, 64\n", n - 1)).collect();
        assert_eq!(columns(&format!("v3 = mul v1, 16\n{chain}v99 = load v0[0, v59] : tile<1x4xf32>")), [16]);
        // There is an end to it, behind which nothing is known.
        let chain: String = (4..2000).map(|n| format!("v{n} = add v{}, 64\n", n - 1)).collect();
        assert_eq!(columns(&format!("v3 = mul v1, 16\n{chain}v9999 = load v0[0, v1999] : tile<1x4xf32>")), [1]);
    }

    #[test]
    fn loops_keep_what_every_iteration_keeps() {
        let body = |first: &str, next: &str| {
            format!(
                "v3 = mul v1, 8
                 v4 = for v5 in 16..v1 step 4 carry v6 = {first} {{
                     v7 = load v0[0, v5] : tile<1x4xf32>
                     v8 = load v0[0, v6] : tile<1x4xf32>
                     v9 = {next}
                     yield v9
                 }}
                 v10 = load v0[0, v4] : tile<1x4xf32>"
            )
        };
        assert_eq!(columns(&body("v3", "add v6, 32")), [4, 8, 8]);
        assert_eq!(columns(&body("0", "add v6, 2")), [4, 2, 2]);
        assert_eq!(columns(&body("0", "add v6, v5")), [4, 4, 4]);
        assert_eq!(columns(&body("v3", "mul v6, 2")), [4, 8, 8]);
        // What loses a bit every time has none in the end.
        assert_eq!(columns(&body("4096", "shr_u v6, 1")), [4, 1, 1]);
        assert_eq!(columns(&body("0", "add v6, v1")), [4, 1, 1]);
    }

    #[test]
    fn choices_and_conditional_loops() {
        let text = "v3 = cmp lt v1, 7
            v4, v5 = if v3 {
                v6 = mul v1, 32
                yield v6, 4
            } else {
                yield 48, 6
            }
            v7 = load v0[0, v4] : tile<1x4xf32>
            v8 = load v0[0, v5] : tile<1x4xf32>
            v9 = while carry v10 = v4 {
                v11 = cmp lt v10, v1
                yield v11
            } do carry v12 {
                v13 = add v12, 24
                yield v13
            }
            v14 = load v0[0, v9] : tile<1x4xf32>
            v16 = mul v1, v1
            v17 = load v0[0, v16] : tile<1x4xf32>";
        assert_eq!(columns(text), [16, 2, 8, 1]);
    }
}
