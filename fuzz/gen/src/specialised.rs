//! Random products in a loop over their depth: kernels that a target with bulk copies splits between a producer and consumers.
//!
//! ```text
//! for at in lo..hi step k:   sum += load a[rows, at + c] · load b[columns, at + c]        store out[rows, columns + c]
//! ```
//! Columns begin anywhere, at multiples of 16 bytes more often than not, and are written in several ways: bulk copies take some of them, and
//! what they do not take has to travel another way. Sums are exact, so that all ways agree bit for bit.

use crate::case::{Case, Param, Tensor};
use crate::data::Init;
use crate::source::Source;
use tilelift_interp::ScalarArg;
use tilelift_ir::typing::SCALE_BLOCK;
use tilelift_ir::{BuildErrors, Extent, KernelBuilder, Scalar, Value, ViewType};

/// Types of operands and sum.
const KINDS: [(u32, Scalar, Scalar); 6] = [
    (6, Scalar::BF16, Scalar::F32),
    (4, Scalar::F16, Scalar::F32),
    (3, Scalar::F8E4M3, Scalar::F32),
    (2, Scalar::F8E5M2, Scalar::F32),
    (3, Scalar::I8, Scalar::I32),
    (2, Scalar::F32, Scalar::F32),
];

/// Products of numbers that a case is made of at most, all programs together.
const MOST_WORK: u32 = 12_000_000;

/// Elements of 16 bytes.
fn unit(elem: Scalar) -> i64 {
    i64::from(16 / elem.bytes())
}

/// An offset of a column: mostly a multiple of 16 bytes.
fn offset(src: &mut Source, elem: Scalar) -> i64 {
    let u = unit(elem);
    match src.weighted(&[9, 3, 1, 1, 1, 1, 1]) {
        0 => 0,
        1 => u,
        2 => u / 2,
        3 => 1,
        4 => -u,
        5 => u + 1,
        _ => 3 * u / 2,
    }
}

/// A number written in one of several ways, all of which keep what divides it.
fn written(b: &mut KernelBuilder, src: &mut Source, v: Value, scalar: (Value, i64)) -> Value {
    match src.below(6) {
        1 => {
            let twice = b.shl(v, 1);
            b.div(twice, 2)
        }
        2 => {
            let zero = b.sub(scalar.0, scalar.1);
            let zero = b.assume_multiple(zero, 4096);
            b.add(v, zero)
        }
        // Nothing is known of this sum, and of a choice only what both have.
        3 => {
            let zero = b.sub(scalar.0, scalar.1);
            b.add(v, zero)
        }
        4 => {
            let here = b.cmp(tilelift_ir::CmpOp::Eq, scalar.0, scalar.1);
            let other = b.add(v, 64);
            b.select(here, v, other)
        }
        _ => v,
    }
}

/// A tensor of a matrix, with rows that begin at multiples of 16 bytes, and its view.
fn matrix(b: &mut KernelBuilder, src: &mut Source, elem: Scalar, [rows, columns]: [i64; 2], init: Init) -> (Value, Param) {
    let u = unit(elem);
    let step = (columns + u - 1) / u * u + u * i64::from(src.below(2));
    // That rows end with whole units of 16 bytes is often said where it is so.
    let whole = columns % u == 0 && src.chance(200);
    let dims = [Extent::Dynamic(1), Extent::Dynamic(if whole { u as u32 } else { 1 })];
    let ty = ViewType::dense(elem, &dims).with_strides(&[Extent::Dynamic(u as u32), Extent::Fixed(1)]).with_align(16);
    let tensor = Tensor { elem, shape: vec![rows, columns], strides: vec![step, 1], dense: false, offset: 0, init, tolerance: None };
    (b.param(ty), Param::Tensor(tensor))
}

/// Makes a case.
///
/// # Errors
/// The builder's complaints: a bug of the generator or of the builder.
pub fn generate_specialised(src: &mut Source) -> Result<Case, BuildErrors> {
    let (_, elem, acc) = KINDS[src.weighted(&KINDS.map(|k| k.0))];
    let m = *src.pick(&[64u32, 128]).unwrap_or(&64);
    let n = *src.pick(&[64u32, 32, 16, 128]).unwrap_or(&64);
    let row = *src.pick(&[128u32, 64, 32, 256]).unwrap_or(&128);
    let k = row / elem.bytes();
    let programs = [1 + src.below(2), 1 + src.below(2)];
    let work = m * n * k * programs[0] * programs[1];
    let iterations = (1 + src.below(9)).min((MOST_WORK / work).max(1));
    // Operands of two bytes may lie the other way round.
    let transposed = [0, 1].map(|_| elem.bytes() == 2 && src.chance(80));
    let cut = i64::from(src.below(3)) * unit(elem) / 2;
    let depth = (i64::from(k * iterations) - cut).max(1);
    let [height, width] =
        [i64::from(m * programs[0]) - i64::from(src.below(3)), i64::from(n * programs[1]) - *src.pick(&[0, 8, 1, 2]).unwrap_or(&0)];
    let mut b = KernelBuilder::new("product");
    b.warps(*src.pick(&[4, 8]).unwrap_or(&4)).stages(2 + src.below(3));
    let of = |transposed: bool, rows: i64| if transposed { [depth, rows] } else { [rows, depth] };
    let small = |src: &mut Source| Init::Small(src.seed());
    let init = [small(src), small(src)];
    let (a, a_param) = matrix(&mut b, src, elem, of(transposed[0], height), init[0]);
    let (w, w_param) = matrix(&mut b, src, elem, of(transposed[1], width), init[1]);
    let narrow = acc == Scalar::F32 && src.chance(160);
    let out = if narrow { *src.pick(&[Scalar::BF16, Scalar::F16]).unwrap_or(&Scalar::BF16) } else { acc };
    let behind = offset(src, out).max(0);
    let init = Init::Rand(src.seed());
    let (y, y_param) = matrix(&mut b, src, out, [height, width + behind], init);
    let number = i64::from(src.below(50));
    let known = (b.param(Scalar::I32), number);
    // 8-bit floats may have scales, as codes of 1 and 2.
    let scaled = matches!(elem, Scalar::F8E4M3 | Scalar::F8E5M2) && src.chance(128);
    let blocks = depth / i64::from(SCALE_BLOCK) + 2;
    let scales: Vec<(Value, Param)> = if scaled {
        [height, width]
            .into_iter()
            .map(|rows| {
                let codes = small(src);
                matrix(&mut b, src, Scalar::I8, [rows, blocks], codes)
            })
            .collect()
    } else {
        Vec::new()
    };
    let at = [(0, m), (1, n)].map(|(axis, size)| {
        let p = b.program_id(axis);
        b.mul(p, i64::from(size))
    });
    let columns = [offset(src, elem), offset(src, elem)];
    let lo = offset(src, elem).max(0);
    let counted = src.chance(100);
    let zero = b.full(&[m, n], 0, acc);
    // The loop goes by columns, or counts iterations.
    let (first, last, step) = if counted { (0, i64::from(iterations), 1) } else { (lo, depth, i64::from(k)) };
    let sums = b.for_loop(first, last, step, &[zero], |b, iv, sums| {
        let column = if counted { b.mul(iv, i64::from(k)) } else { iv };
        let operand = |b: &mut KernelBuilder, src: &mut Source, which: usize| {
            let (view, rows) = [(a, m), (w, n)][which];
            let deep = if columns[which] == 0 { column } else { b.add(column, columns[which]) };
            let deep = written(b, src, deep, known);
            // A operand A is rows by depth, a right one depth by rows.
            let (place, shape) = if transposed[which] { ([deep, at[which]], [k, rows]) } else { ([at[which], deep], [rows, k]) };
            let tile = b.load(view, &place, &shape);
            if transposed[which] == (which == 0) { b.transpose(tile, &[1, 0]) } else { tile }
        };
        let x = operand(b, src, 0);
        let z = operand(b, src, 1);
        if scaled {
            let block = b.div_u(column, i64::from(SCALE_BLOCK));
            let [of_x, of_z] = [(0, m), (1, n)].map(|(which, rows)| {
                let codes = b.load(scales[which].0, &[at[which], block], &[rows, k / SCALE_BLOCK]);
                let last = b.and(codes, 1i64);
                let codes = b.add(last, 127i64);
                b.bitcast(codes, Scalar::F8E8M0)
            });
            let of_z = b.transpose(of_z, &[1, 0]);
            return vec![b.dot_scaled([x, of_x], [z, of_z], sums[0])];
        }
        vec![if elem == Scalar::F32 { b.dot_tf32(x, z, sums[0]) } else { b.dot(x, z, sums[0]) }]
    });
    let sum = if out == acc { sums[0] } else { b.cast(sums[0], out) };
    let column = if behind == 0 { at[1] } else { b.add(at[1], behind) };
    let column = written(&mut b, src, column, known);
    b.store(y, &[at[0], column], sum);
    let mut params = vec![a_param, w_param, y_param, Param::Scalar(ScalarArg::int(Scalar::I32, number))];
    params.extend(scales.into_iter().map(|s| s.1));
    Ok(Case { kernel: b.finish()?, grid: [programs[0], programs[1], 1], params })
}
