//! Products that a loop does nothing but add up: one, or two that share an operand, of matrices or of a batch.
//!
//! ```text
//! for at in lo..hi step k:   sum += a[rows, at] · b[at, columns]          (and: sum' += a · b', a' · b, a' · b')
//! epilogue of the sum, of sum + sum', or of sum · relu(sum')
//! ```

use super::classes::{Axis, Classes};
use super::epilogue::{Epilogue, Sums};
use super::matrix::{Batch, Matrix, Params, Storage, unit};
use super::options;
use super::subject::Trial;
use crate::case::{Case, Param};
use crate::data::{self, Init};
use crate::source::Source;
use tilelift_ir::{BuildErrors, CmpOp, KernelBuilder, Scalar, Value, num};
use tilelift_isel::LowerOptions;

/// Types of operands and sum.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    pub elem: Scalar,
    pub acc: Scalar,
    /// Depth of an instruction.
    pub k: u32,
}

const fn kind(elem: Scalar, acc: Scalar, k: u32) -> Kind {
    Kind { elem, acc, k }
}

/// The kinds of products that groups of warps multiply, and their weights.
pub(super) const KINDS: [(u32, Kind); 6] = [
    (6, kind(Scalar::BF16, Scalar::F32, 16)),
    (5, kind(Scalar::F16, Scalar::F32, 16)),
    (4, kind(Scalar::F8E4M3, Scalar::F32, 32)),
    (3, kind(Scalar::F8E5M2, Scalar::F32, 32)),
    (4, kind(Scalar::I8, Scalar::I32, 32)),
    (4, kind(Scalar::F32, Scalar::F32, 8)),
];

impl Kind {
    pub fn pick(src: &mut Source) -> Kind {
        KINDS[src.weighted(&KINDS.map(|k| k.0))].1
    }

    pub fn dot(self, b: &mut KernelBuilder, x: Value, y: Value, sum: Value) -> Value {
        if self.elem == Scalar::F32 { b.dot_tf32(x, y, sum) } else { b.dot(x, y, sum) }
    }

    /// True if sums lose bits in the unit, so that lanes add.
    pub fn promoted(self) -> bool {
        self.elem.is_float() && self.elem.bytes() == 1
    }

    /// Its name in reports.
    pub fn word(self) -> String {
        if self.elem == Scalar::F32 { "tf32".into() } else { self.elem.to_string() }
    }
}

/// Products of numbers of all programs together, at most.
pub(super) const MOST_WORK: u32 = 5_000_000;

/// Iterations, as many of them as the work permits.
pub(super) fn iterations(src: &mut Source, classes: &mut Classes, each: u32) -> u32 {
    let n = (1 + src.below(9)).min((MOST_WORK / each.max(1)).max(1));
    classes.add(Axis::Iterations, n);
    n
}

/// Says which dimensions tiles don't divide.
pub(super) fn ragged(classes: &mut Classes, extents: [(&str, i64, u32); 3]) {
    let mut none = true;
    for (name, extent, tile) in extents {
        if extent % i64::from(tile) != 0 {
            classes.add(Axis::Ragged, name);
            none = false;
        }
    }
    if none {
        classes.add(Axis::Ragged, "none");
    }
}

/// Which operands an iteration has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pairs {
    One,
    SharedA,
    SharedB,
    Separate,
}

/// What two sums become.
#[derive(Clone, Copy)]
enum Join {
    Gate,
    Add,
}

/// How far sums of products may be off: a unit of the last place for each instruction's sum, of sums of magnitudes, which Cauchy and Schwarz bound.
fn off(params: &Params, kind: Kind, depth: i64) -> f64 {
    let norms = params.0.iter().take(2).map(|p| {
        let Param::Tensor(t) = p else { return 0.0 };
        let count = t.shape.iter().product::<i64>() as u64;
        // Of the longest line: lines are no longer than the depth.
        let all: Vec<f64> = (0..count).map(|i| num::from_bits(data::element(&t.init, i, t.elem), t.elem)).collect();
        let mut lines = all.clone();
        lines.sort_by(|a, b| b.abs().total_cmp(&a.abs()));
        lines.iter().take(depth as usize).map(|x| x * x).sum::<f64>().sqrt()
    });
    let most: f64 = norms.product();
    let sums = (depth / i64::from(kind.k) + 2) as f64 * 2f64.powi(-22);
    // Operands are rounded to tf32.
    let operands = if kind.elem == Scalar::F32 { 2f64.powi(-10) } else { 0.0 };
    most * (sums + operands)
}

/// Makes one.
pub(super) fn product(src: &mut Source) -> Result<Trial, BuildErrors> {
    let mut classes = Classes::default();
    let kind = Kind::pick(src);
    let elem = kind.elem;
    classes.add(Axis::Operands, kind.word());
    let two = elem.bytes() == 2;
    let m = *src.pick(&[64u32, 128, 128, 64, 192, 256]).unwrap_or(&64);
    let n = *src.pick(&[32u32, 64, 16, 8, 24, 48, 80, 96, 128, 64, 32, 192]).unwrap_or(&32);
    let rows: &[u32] = if kind.promoted() { &[64, 128, 32] } else { &[128, 64, 32, 64, 128, 256] };
    let k = src.pick(rows).unwrap_or(&64) / elem.bytes();
    let pairs = match src.weighted(&[12, 4, 2, 2]) {
        1 => Pairs::SharedA,
        2 => Pairs::SharedB,
        3 => Pairs::Separate,
        _ => Pairs::One,
    };
    let double = pairs != Pairs::One;
    let batch = match src.weighted(&[10, 2, 2]) {
        1 => Batch::Outer,
        2 => Batch::Middle,
        _ => Batch::None,
    };
    classes.add(Axis::Batch, batch.word());
    let count = if batch == Batch::None { 1 } else { 1 + src.below(3) };
    // Now and then more positions than there are instances.
    let across: &[u32] = if src.chance(70) { &[3, 4, 5] } else { &[1, 2] };
    let programs = [*src.pick(across).unwrap_or(&1), 1 + src.below(2)];
    let work = m * n * k * programs[0] * programs[1] * count * if double { 2 } else { 1 };
    let steps = iterations(src, &mut classes, work);
    let cut = [0, 0, unit(elem) / 2, unit(elem), 1, 3][src.below(6) as usize];
    let depth = (i64::from(k * steps) - cut).max(1);
    let height = i64::from(m * programs[1]) - [0, 0, 1, 2, 17, 40][src.below(6) as usize];
    let width = (i64::from(n * programs[0]) - [0, 0, 8, 1, 2, 16][src.below(6) as usize]).max(1);
    ragged(&mut classes, [("M", height, m), ("N", width, n), ("K", depth, k)]);
    let transposed = [two && src.chance(110), !(two && src.chance(110))];
    classes.add(Axis::Storage, format_args!("{}{}", if transposed[0] { 't' } else { 'n' }, if transposed[1] { 't' } else { 'n' }));

    let mut b = KernelBuilder::new("product");
    let mut params = Params::default();
    // Numbers that are not exact are for one product alone.
    let real = !double && kind.acc == Scalar::F32 && !kind.promoted() && src.chance(40);
    let init = |src: &mut Source| match elem {
        _ if real => Init::Rand(src.seed()),
        Scalar::I8 if src.chance(128) => Init::Rand(src.seed()),
        _ => Init::Small(src.seed()),
    };
    let inits = [init(src), init(src), init(src), init(src)];
    let storage = |transposed| Storage { elem, transposed, batch, count };
    // Operands B are depth by columns.
    let a = params.matrix(&mut b, src, storage(transposed[0]), [height, depth], inits[0]);
    let w = params.matrix(&mut b, src, storage(transposed[1]), [depth, width], inits[1]);
    let off = if real { off(&params, kind, depth) } else { 0.0 };
    let more_a = matches!(pairs, Pairs::SharedB | Pairs::Separate)
        .then(|| params.matrix(&mut b, src, storage(transposed[0]), [height, depth], inits[2]));
    let more_w = matches!(pairs, Pairs::SharedA | Pairs::Separate)
        .then(|| params.matrix(&mut b, src, storage(transposed[1]), [depth, width], inits[3]));
    let sums = Sums {
        acc: kind.acc,
        tile: [m, n],
        extents: [height, width],
        storage: Storage { elem, transposed: false, batch, count },
        off,
        shifts: true,
    };
    let out = Epilogue::declare(&mut b, src, &mut params, &mut classes, &sums);

    let ids = [b.program_id(0), b.program_id(1)];
    let h = b.program_id(2);
    let at = [b.mul(ids[1], i64::from(m)), b.mul(ids[0], i64::from(n))];
    let begin = if src.chance(40) && !real { src.range(0, 2) } else { 0 };
    let init = b.full(&[m, n], begin, kind.acc);
    let end = a.extent(&mut b, 1);
    let (lo, hi) = bounds(&mut b, src, ids, end, i64::from(k));
    let held = vec![init; if double { 2 } else { 1 }];
    let ends = b.for_loop(lo, hi, i64::from(k), &held, |b, deep, sums| {
        let left = |b: &mut KernelBuilder, m_: Matrix| m_.load(b, h, [at[0], deep], [m, k]);
        let right = |b: &mut KernelBuilder, m_: Matrix| m_.load(b, h, [deep, at[1]], [k, n]);
        let x = left(b, a);
        let y = right(b, w);
        let mut next = vec![kind.dot(b, x, y, sums[0])];
        if let Some(&sum) = sums.get(1) {
            let x = more_a.map_or(x, |m_| left(b, m_));
            let y = more_w.map_or(y, |m_| right(b, m_));
            next.push(kind.dot(b, x, y, sum));
        }
        next
    });
    let join = if src.chance(150) { Join::Gate } else { Join::Add };
    let sum = match (ends.get(1), join) {
        (None, _) => ends[0],
        (Some(&other), Join::Add) => b.add(ends[0], other),
        (Some(&other), Join::Gate) => {
            classes.add(Axis::Epilogue, "gate");
            let gate = b.maximum(other, 0i64);
            b.mul(ends[0], gate)
        }
    };
    out.store(&mut b, h, at, ids, sum);
    if double {
        classes.add(Axis::Family, if pairs == Pairs::SharedA { "gated product" } else { "two products" });
    } else {
        classes.add(Axis::Family, if real { "product of real numbers" } else { "product" });
    }
    let swizzles = rows_of([(transposed[0], m, k), (transposed[1], k, n)], elem);
    let consumer_sets = (!kind.promoted() && src.chance(70)).then_some(2);
    let lower = options::random(src, swizzles);
    let lower = LowerOptions { consumer_sets, persistent: lower.persistent.filter(|p| *p || consumer_sets.is_none()), ..lower };
    let case = Case { kernel: b.finish()?, grid: [programs[0], programs[1], count], params: params.0 };
    Ok(Trial::new(case, options::compile(src, lower), classes))
}

/// Where the loop begins and ends: over all of the depth, or as each program's position says.
fn bounds(b: &mut KernelBuilder, src: &mut Source, ids: [Value; 2], end: Value, k: i64) -> (Value, Value) {
    let zero = b.constant(0, Scalar::I32);
    match src.weighted(&[14, 2, 2, 1]) {
        // As the blocks of a triangle.
        1 => {
            let part = b.add(ids[1], 1);
            let part = b.mul(part, 2 * k);
            (zero, b.minimum(end, part))
        }
        // Some programs have nothing to do.
        2 => {
            let none = b.cmp(CmpOp::Eq, ids[0], 1);
            (zero, b.select(none, zero, end))
        }
        3 => (b.mul(ids[0], k), end),
        _ => (zero, end),
    }
}

/// The swizzle widths that rows of all operands permit.
pub(super) fn rows_of(operands: [(bool, u32, u32); 2], elem: Scalar) -> Vec<u32> {
    let fits = |s: &u32| {
        operands.iter().all(|&(transposed, rows, columns)| (if transposed { rows } else { columns } * elem.bytes()).is_multiple_of(*s))
    };
    [128, 64, 32].into_iter().filter(fits).collect()
}
