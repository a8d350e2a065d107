//! Is the output right? Asked once of every candidate before it is timed, so that no time of a wrong kernel is ever reported.
//!
//! Every element is compared with the library's product where there is one, and a sample with an `f64` reference; an element that
//! still has the poison it was filled with is an error in any case.

use std::fmt;
use std::thread;
use tilelift_ir::{Scalar, num};
use tilelift_kernels::reference::unit_roundoff;
use tilelift_kernels::workload::Workload;
use tilelift_kernels::{Tensor, rng};

/// Half a unit in the last place of `f32` at 1.
const U: f64 = 1.0 / (1u64 << 24) as f64;

/// A unit in the last place of the sums that matrix units keep of 8-bit floats, at 1.
const KEPT: f64 = 1.0 / (1u64 << 13) as f64;

/// What is wrong with an output.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Wrong {
    /// An element was not written.
    Unwritten { index: usize },
    /// An element is too far from its reference.
    Element { index: usize, got: f64, want: f64, tolerance: f64 },
    /// All elements together are too far.
    Norm { rel_l2: f64, bar: f64 },
    /// The outputs differ in length.
    Length { got: usize, want: usize },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Unwritten { index } => write!(f, "element {index} was not written"),
            Wrong::Element { index, got, want, tolerance } => write!(f, "element {index} is {got:e}, not {want:e} +- {tolerance:.2e}"),
            Wrong::Norm { rel_l2, bar } => write!(f, "the relative error is {rel_l2:.2e} in the 2-norm, above {bar:.2e}"),
            Wrong::Length { got, want } => write!(f, "the output has {got} bytes, not {want}"),
        }
    }
}

/// Reads elements quickly.
pub(crate) struct Decoder {
    elem: Scalar,
    /// Every number of a type of 1 or 2 bytes.
    table: Vec<f32>,
}

impl Decoder {
    pub(crate) fn new(elem: Scalar) -> Decoder {
        let table = match elem.bytes() {
            1 if elem == Scalar::I8 => (0..=u8::MAX).map(|b| f32::from(b as i8)).collect(),
            width @ (1 | 2) => (0..1u64 << (8 * width)).map(|b| num::from_bits(b, elem) as f32).collect(),
            _ => Vec::new(),
        };
        Decoder { elem, table }
    }

    /// Element `index`; beyond the bytes, NaN.
    pub(crate) fn get(&self, bytes: &[u8], index: usize) -> f64 {
        let width = self.elem.bytes() as usize;
        match bytes.get(index * width..(index + 1) * width) {
            Some(&[a]) => f64::from(self.table[usize::from(a)]),
            Some(&[a, b]) => f64::from(self.table[usize::from(u16::from_le_bytes([a, b]))]),
            Some(&[a, b, c, d]) if self.elem == Scalar::I32 => f64::from(i32::from_le_bytes([a, b, c, d])),
            Some(&[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
            _ => f64::NAN,
        }
    }
}

/// The byte that outputs are filled with: its elements are NaN, or integers that no product comes near.
pub(crate) const fn poison(elem: Scalar) -> u8 {
    if elem.is_float() { 0xff } else { 0x80 }
}

/// Finds an element whose bytes are all poison.
pub(crate) fn unwritten(output: &[u8], elem: Scalar) -> Result<(), Wrong> {
    let poison = [poison(elem); 8];
    let width = elem.bytes() as usize;
    match output.chunks_exact(width).position(|e| e == &poison[..width]) {
        Some(index) => Err(Wrong::Unwritten { index }),
        None => Ok(()),
    }
}

/// Compares the elements of up to `programs` programs, the first, the last and others at random, with the workload's reference: of each
/// program up to `rows` rows at random. Returns the number of elements compared.
pub(crate) fn sample(
    workload: &dyn Workload,
    tensors: &[Tensor],
    output: &[u8],
    (programs, rows): (u64, usize),
    seed: u64,
) -> Result<usize, Wrong> {
    let specs = workload.tensors();
    let Some(elem) = specs.last().map(|t| t.elem) else { return Ok(0) };
    let decoder = Decoder::new(elem);
    // Of several outputs the last tensor is the last one.
    let last = specs.iter().filter(|t| t.role.is_output()).count().saturating_sub(1);
    let reference = workload.reference(last, tensors, None);
    let [x, y, z] = workload.grid().map(u64::from);
    let total = x * y * z;
    let mut compared = 0;
    for i in 0..programs.min(total) {
        let p = match i {
            0 => 0,
            1 => total - 1,
            _ => rng::bits(seed, i) % total,
        };
        let mut owned = workload.owned(last, [(p % x) as u32, (p / x % y) as u32, (p / x / y) as u32]);
        for r in 0..owned.len().min(rows) {
            // The rows to compare go to the front.
            let other = r + (rng::bits(seed ^ p, r as u64) % (owned.len() - r) as u64) as usize;
            owned.swap(r, other);
        }
        owned.truncate(rows);
        for range in owned {
            for (index, want) in range.clone().zip(reference(range)) {
                let got = decoder.get(output, index);
                let near = (got - want.value).abs() <= want.tolerance || got == num::round(want.value, elem);
                if !near {
                    return Err(Wrong::Element { index, got, want: want.value, tolerance: want.tolerance });
                }
                compared += 1;
            }
        }
    }
    Ok(compared)
}

/// A product to judge: extents, storage, and the element type of the result.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Judge {
    /// How many products, one behind the other.
    pub(crate) batch: usize,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) trans: (bool, bool),
    /// Element type of the operands.
    pub(crate) elem: Scalar,
    pub(crate) out: Scalar,
}

impl Judge {
    /// A bound for the error of a sum of `k` products of independent standard normal numbers: partial sums stay below `6 sqrt(k)` (six
    /// standard deviations), and one in eight additions at most loses a unit in the last place, `2 u`, of its partial sum.
    fn sum_error(&self) -> f64 {
        let k = self.k as f64;
        match self.elem {
            Scalar::I8 => 0.0,
            // The units keep some 14 bits of such sums, which are taken over every 128 of depth: a unit of the partial sum of a
            // step may be lost in each of its four instructions.
            e if e.bytes() == 1 => k / 32.0 * KEPT * 6.0 * k.min(128.0).sqrt() + k / 8.0 * 2.0 * U * 6.0 * k.sqrt(),
            _ => k / 8.0 * 2.0 * U * 6.0 * k.sqrt(),
        }
    }

    /// What rounding a value of that size to the result's type may add.
    fn rounding(&self, value: f64) -> f64 {
        if matches!(self.out, Scalar::F32 | Scalar::I32) { 0.0 } else { value.abs() * unit_roundoff(self.out) + 1e-7 }
    }

    /// Compares `count` random elements with sums in `f64`.
    pub(crate) fn sample(&self, a: &Tensor, b: &Tensor, output: &[u8], count: u64, seed: u64) -> Result<usize, Wrong> {
        let Judge { batch, m, n, k, trans, out, .. } = *self;
        let want_bytes = batch * m * n * out.bytes() as usize;
        if output.len() != want_bytes {
            return Err(Wrong::Length { got: output.len(), want: want_bytes });
        }
        let (read, decode) = (Decoder::new(a.elem), Decoder::new(out));
        let (mut error2, mut norm2) = (0.0, 0.0);
        for i in 0..count {
            let which = rng::bits(!seed, i) as usize % batch;
            let row = rng::bits(seed, 2 * i) as usize % m;
            let col = rng::bits(seed, 2 * i + 1) as usize % n;
            let x = |p: usize| read.get(&a.bytes, which * m * k + if trans.0 { p * m + row } else { row * k + p });
            let y = |p: usize| read.get(&b.bytes, which * n * k + if trans.1 { col * k + p } else { p * n + col });
            let want: f64 = (0..k).map(|p| x(p) * y(p)).sum();
            let index = (which * m + row) * n + col;
            let got = decode.get(output, index);
            let tolerance = self.sum_error() + self.rounding(want);
            // The comparison is false for NaN.
            let near = (got - want).abs() <= tolerance;
            if !near {
                return Err(Wrong::Element { index, got, want, tolerance });
            }
            error2 += (got - want).powi(2);
            norm2 += want.powi(2);
        }
        self.norm(error2, norm2, 1.0)?;
        Ok(count as usize)
    }

    /// Compares every element with another output of the same product.
    pub(crate) fn against(&self, output: &[u8], other: &[u8]) -> Result<usize, Wrong> {
        if output.len() != other.len() {
            return Err(Wrong::Length { got: output.len(), want: other.len() });
        }
        let width = self.out.bytes() as usize;
        let decode = Decoder::new(self.out);
        let threads = thread::available_parallelism().map_or(1, |n| n.get().min(16));
        let chunk = (output.len() / width).div_ceil(threads).max(1) * width;
        let part = |t: usize, (ours, theirs): (&[u8], &[u8])| {
            let (mut error2, mut norm2) = (0.0, 0.0);
            for i in 0..ours.len() / width {
                let (got, want) = (decode.get(ours, i), decode.get(theirs, i));
                // Both were rounded, and both sums may be off.
                let tolerance = 2.0 * (self.sum_error() + self.rounding(want));
                let near = (got - want).abs() <= tolerance;
                if !near {
                    return Err(Wrong::Element { index: t * chunk / width + i, got, want, tolerance });
                }
                error2 += (got - want).powi(2);
                norm2 += want.powi(2);
            }
            Ok((error2, norm2))
        };
        let (mut error2, mut norm2) = (0.0, 0.0);
        let parts: Vec<Result<(f64, f64), Wrong>> = thread::scope(|s| {
            let pairs = output.chunks(chunk).zip(other.chunks(chunk));
            let handles: Vec<_> = pairs.enumerate().map(|(t, pair)| s.spawn(move || part(t, pair))).collect();
            // A thread does nothing that panics; if one did, its elements count as unwritten.
            let lost = |t: usize| Err(Wrong::Unwritten { index: t * chunk / width });
            handles.into_iter().enumerate().map(|(t, h)| h.join().unwrap_or_else(|_| lost(t))).collect()
        });
        for p in parts {
            let (e, n) = p?;
            error2 += e;
            norm2 += n;
        }
        self.norm(error2, norm2, 2.0)?;
        Ok(output.len() / width)
    }

    /// The relative error in the 2-norm: partial sums lose half a unit on average once in 8 products, and every value is rounded;
    /// `outputs` of them.
    fn norm(&self, error2: f64, norm2: f64, outputs: f64) -> Result<(), Wrong> {
        let rounding = if matches!(self.out, Scalar::F32 | Scalar::I32) { 0.0 } else { unit_roundoff(self.out) };
        let rounding = rounding + if self.elem.is_float() && self.elem.bytes() == 1 { 4.0 * KEPT } else { 0.0 };
        let bar = outputs * (self.k as f64 / 8.0 * U + 2f64.powi(-19) + rounding);
        let rel_l2 = if error2 == 0.0 { 0.0 } else { (error2 / norm2).sqrt() };
        if rel_l2 <= bar { Ok(()) } else { Err(Wrong::Norm { rel_l2, bar }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::fill::Normals;
    use crate::bench::problem::{Problem, Variant};

    /// The product in f64, rounded to the result's type.
    fn product(j: &Judge, a: &Tensor, b: &Tensor) -> Vec<u8> {
        let mut bytes = Vec::new();
        for r in 0..j.m {
            for c in 0..j.n {
                let x = |p: usize| a.get(if j.trans.0 { p * j.m + r } else { r * j.k + p });
                let y = |p: usize| b.get(if j.trans.1 { c * j.k + p } else { p * j.n + c });
                let sum: f64 = (0..j.k).map(|p| x(p) * y(p)).sum();
                bytes.extend_from_slice(&num::to_bits(num::round(sum, j.out), j.out).to_le_bytes()[..j.out.bytes() as usize]);
            }
        }
        bytes
    }

    #[test]
    fn right_products_pass_and_one_missing_term_is_found() {
        for (out, trans) in [(Scalar::BF16, (false, true)), (Scalar::F16, (true, false)), (Scalar::F32, (false, false))] {
            let j = Judge { batch: 1, m: 24, n: 40, k: 512, trans, elem: Scalar::BF16, out };
            let normals = Normals::new(Scalar::BF16, false).unwrap();
            let (a, b) = (normals.tensor(&[24 * 512], 1), normals.tensor(&[512 * 40], 2));
            let right = product(&j, &a, &b);
            assert_eq!(j.sample(&a, &b, &right, 4000, 3), Ok(4000));
            assert_eq!(j.against(&right, &right), Ok(960));
            // The same product with one step of depth left out.
            let mut holed = a.clone();
            for r in 0..24 {
                let at = 2 * if trans.0 { 100 * 24 + r } else { r * 512 + 100 };
                holed.bytes[at..at + 2].fill(0);
            }
            let short = product(&j, &holed, &b);
            assert!(j.sample(&a, &b, &short, 4000, 3).is_err() && j.against(&short, &right).is_err());
        }
    }

    #[test]
    fn products_of_bytes_are_judged_exactly_or_by_the_bits_that_units_keep() {
        for (elem, out) in [(Scalar::I8, Scalar::I32), (Scalar::F8E4M3, Scalar::BF16)] {
            let j = Judge { batch: 1, m: 16, n: 24, k: 256, trans: (false, true), elem, out };
            let normals = Normals::new(elem, false).unwrap();
            let (a, b) = (normals.tensor(&[16 * 256], 1), normals.tensor(&[24 * 256], 2));
            let mut c = product(&j, &a, &b);
            assert_eq!((j.sample(&a, &b, &c, 1000, 3), unwritten(&c, out)), (Ok(1000), Ok(())));
            assert_eq!(j.against(&c, &c), Ok(384));
            let before = c.clone();
            // One too many in one element, and one that was never written.
            c[4] ^= 1;
            assert_eq!(j.against(&c, &before).is_err(), out == Scalar::I32);
            let width = out.bytes() as usize;
            c[..width].fill(poison(out));
            assert_eq!(unwritten(&c, out), Err(Wrong::Unwritten { index: 0 }));
        }
    }

    #[test]
    fn nan_poison_and_lengths_are_found() {
        let j = Judge { batch: 1, m: 4, n: 4, k: 16, trans: (false, false), elem: Scalar::BF16, out: Scalar::BF16 };
        let zeros = [0u8; 32];
        let mut holes = zeros;
        holes[6..8].fill(0xff);
        assert_eq!(unwritten(&holes, Scalar::BF16), Err(Wrong::Unwritten { index: 3 }));
        assert_eq!(unwritten(&zeros, Scalar::BF16), Ok(()));
        assert!(matches!(j.against(&holes, &zeros), Err(Wrong::Element { index: 3, .. })));
        assert_eq!(j.against(&zeros[..30], &zeros), Err(Wrong::Length { got: 30, want: 32 }));
    }

    #[test]
    fn samples_of_rows_find_a_wrong_element_of_the_last_program() {
        let p = Problem::VectorAdd { elem: Scalar::F32, n: 5000 };
        let workload = p.workload(&Variant::default()).1;
        let normals = Normals::new(Scalar::F32, false).unwrap();
        let tensors: Vec<Tensor> = (0..3).map(|s| normals.tensor(&[5000], s)).collect();
        let mut sum: Vec<u8> = (0..5000).flat_map(|i| ((tensors[0].get(i) + tensors[1].get(i)) as f32).to_le_bytes()).collect();
        assert_eq!(sample(&*workload, &tensors, &sum, (100, usize::MAX), 1).map(|n| n > 1000), Ok(true));
        sum[4 * 4999] ^= 0x40;
        assert!(matches!(sample(&*workload, &tensors, &sum, (2, usize::MAX), 1), Err(Wrong::Element { index: 4999, .. })));
    }
}
