//! Tensors as any device takes them: element type, shape, and raw little-endian bytes in row-major order.

use crate::rng;
use std::ops::Range;
use std::sync::Mutex;
use tilelift_ir::{Scalar, num};

/// How a tensor is filled before the launch. Every element depends on the seed and its index only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Init {
    /// Standard normal numbers rounded to the type; for integers, all values alike.
    Normal(u64),
    /// For floats, as `Normal`, with one element in eight infinite, NaN, a zero of either sign, or among the largest and smallest numbers.
    Special(u64),
    /// For floats, as `Normal`, with about one element in four `-inf`, but never the first of a row.
    Masked(u64),
    /// For integers, all values from -1 to the bound: indices of which a few are outside `0..bound`; for floats, as `Normal`.
    Index(u64, u32),
    /// Every byte `0xff`: NaN for floats, -1 for integers. Outputs start so.
    Poison,
}

impl Init {
    /// The seed; 0 for poison, which has none.
    pub const fn seed(self) -> u64 {
        match self {
            Init::Normal(seed) | Init::Special(seed) | Init::Masked(seed) | Init::Index(seed, _) => seed,
            Init::Poison => 0,
        }
    }
}

impl Init {
    /// The same kind of contents from other random numbers; `variant` 0 changes nothing.
    pub const fn variant(self, variant: u64) -> Init {
        let salt = variant.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        match self {
            Init::Normal(seed) => Init::Normal(seed ^ salt),
            Init::Special(seed) => Init::Special(seed ^ salt),
            Init::Masked(seed) => Init::Masked(seed ^ salt),
            Init::Index(seed, bound) => Init::Index(seed ^ salt, bound),
            Init::Poison => Init::Poison,
        }
    }
}

/// What the kernel does with a tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Role {
    /// It reads it.
    In,
    /// It writes it.
    Out,
    /// It updates what it finds.
    InOut,
    /// It leaves intermediate results there for a later launch.
    Scratch,
}

impl Role {
    /// True if the contents are judged.
    pub const fn is_output(self) -> bool {
        matches!(self, Role::Out | Role::InOut)
    }
    /// True if the contents from before the launch are used.
    pub const fn is_input(self) -> bool {
        matches!(self, Role::In | Role::InOut)
    }
}

/// A tensor parameter of a case: a dense row-major view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorSpec {
    /// Name, as in the kernel's documentation.
    pub name: &'static str,
    /// Element type.
    pub elem: Scalar,
    /// Extents, outermost first.
    pub shape: Vec<u32>,
    /// Its contents before the launch.
    pub init: Init,
    /// Its use.
    pub role: Role,
}

impl TensorSpec {
    /// An input.
    pub fn input(name: &'static str, elem: Scalar, shape: &[u32], init: Init) -> TensorSpec {
        TensorSpec { name, elem, shape: shape.to_vec(), init, role: Role::In }
    }

    /// An output.
    pub fn output(name: &'static str, elem: Scalar, shape: &[u32]) -> TensorSpec {
        TensorSpec { name, elem, shape: shape.to_vec(), init: Init::Poison, role: Role::Out }
    }

    /// A tensor that is updated in place.
    pub fn updated(name: &'static str, elem: Scalar, shape: &[u32], init: Init) -> TensorSpec {
        TensorSpec { name, elem, shape: shape.to_vec(), init, role: Role::InOut }
    }

    /// A tensor for intermediate results.
    pub fn scratch(name: &'static str, elem: Scalar, shape: &[u32]) -> TensorSpec {
        TensorSpec { name, elem, shape: shape.to_vec(), init: Init::Poison, role: Role::Scratch }
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().map(|&e| e as usize).product()
    }

    /// Size in bytes.
    pub fn byte_len(&self) -> usize {
        self.elem.storage(self.elements())
    }

    /// The tensor with its contents; large ones are filled by several threads.
    pub fn make(&self) -> Tensor {
        let mut bytes = vec![0xff; self.byte_len()];
        if self.init != Init::Poison {
            let parts = bytes.chunks_mut(self.elem.storage(PART)).enumerate().collect();
            in_parallel(parts, |(part, chunk)| self.fill(chunk, (part * PART) as u64));
        }
        Tensor { elem: self.elem, shape: self.shape.clone(), bytes }
    }

    /// Fills elements from `first` on, an even number.
    fn fill(&self, bytes: &mut [u8], first: u64) {
        let width = self.elem.bytes() as usize;
        let row = self.shape.last().map_or(1, |&e| u64::from(e).max(1));
        let normals = |pair| if self.elem.is_float() { rng::normal_pair(self.init.seed(), pair) } else { [0.0; 2] };
        if self.elem.is_packed() {
            for (pair, byte) in (first / 2..).zip(bytes) {
                let normals = normals(pair);
                let [low, high] = [0, 1].map(|k| element(self.elem, self.init, 2 * pair + k, row, normals[k as usize]) as u8 & 15);
                *byte = low | high << 4;
            }
            return;
        }
        for (pair, chunks) in (first / 2..).zip(bytes.chunks_mut(2 * width)) {
            let normals = normals(pair);
            for ((i, chunk), normal) in (2 * pair..).zip(chunks.chunks_exact_mut(width)).zip(normals) {
                let bits = element(self.elem, self.init, i, row, normal);
                chunk.copy_from_slice(&bits.to_le_bytes()[..width]);
            }
        }
    }
}

/// Elements that a thread takes at a time; even.
pub(crate) const PART: usize = 1 << 17;

/// Applies a function to every item, in threads if there are several; the results keep the items' order.
pub(crate) fn in_parallel<T: Send, R: Send>(items: Vec<T>, f: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(items.len());
    if threads <= 1 {
        return items.into_iter().map(f).collect();
    }
    let mut results: Vec<(usize, R)> = Vec::with_capacity(items.len());
    let work = Mutex::new(items.into_iter().enumerate());
    std::thread::scope(|s| {
        let run = || {
            let mut mine = Vec::new();
            loop {
                // The lock is held for a step of the iterator only, which does not panic.
                let Some((i, item)) = work.lock().ok().and_then(|mut w| w.next()) else { return mine };
                mine.push((i, f(item)));
            }
        };
        let handles: Vec<_> = (0..threads).map(|_| s.spawn(run)).collect();
        for h in handles {
            match h.join() {
                Ok(mine) => results.extend(mine),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    results.sort_unstable_by_key(|r| r.0);
    results.into_iter().map(|r| r.1).collect()
}

/// The bits of element `index` of a tensor whose rows have `row` elements; `normal` is the index's normal number.
fn element(elem: Scalar, init: Init, index: u64, row: u64, normal: f64) -> u64 {
    let seed = init.seed();
    if let (Init::Index(_, bound), false) = (init, elem.is_float()) {
        return num::wrap((rng::bits(seed, index) % (u64::from(bound) + 2)) as i64 - 1, elem) as u64;
    }
    if !elem.is_float() {
        return num::wrap(rng::bits(seed, index) as i64, elem) as u64;
    }
    let choice = rng::bits(!seed, index);
    let value = match init {
        Init::Special(_) if choice.is_multiple_of(8) => return special(elem, choice >> 3),
        Init::Masked(_) if choice.is_multiple_of(4) && !index.is_multiple_of(row) => f64::NEG_INFINITY,
        Init::Normal(_) | Init::Special(_) | Init::Masked(_) | Init::Index(..) | Init::Poison => normal,
    };
    num::to_bits(num::round(value, elem), elem)
}

/// A remarkable value of a float type: ±inf, NaN, ±0, the largest, the smallest normal and the smallest subnormal numbers.
fn special(elem: Scalar, choice: u64) -> u64 {
    if elem.is_narrow() {
        // Few enough codes to have them all.
        return choice & ((1 << elem.bits()) - 1);
    }
    let infinity = num::to_bits(f64::INFINITY, elem);
    // The lowest exponent bit is the lowest bit of infinity, which has every exponent bit and no fraction bit.
    let smallest_normal = infinity & infinity.wrapping_neg();
    let magnitudes = [infinity, num::to_bits(f64::NAN, elem), 0, infinity - 1, smallest_normal, 1];
    let sign = (choice & 1) << (elem.bits() - 1);
    magnitudes[(choice >> 1) as usize % magnitudes.len()] | sign
}

/// A tensor with its contents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tensor {
    /// Element type.
    pub elem: Scalar,
    /// Extents, outermost first.
    pub shape: Vec<u32>,
    /// Elements, little-endian, row-major.
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// The value of an element; integers wider than 53 bits are rounded. Elements beyond the bytes read NaN.
    pub fn get(&self, index: usize) -> f64 {
        if self.elem.is_packed() {
            return self.bytes.get(index / 2).map_or(f64::NAN, |b| decode(&[b >> (index % 2 * 4) & 15], self.elem));
        }
        let width = self.elem.bytes() as usize;
        self.bytes.get(index * width..(index + 1) * width).map_or(f64::NAN, |raw| decode(raw, self.elem))
    }

    /// The values of a range of elements.
    pub fn read(&self, range: Range<usize>) -> Vec<f64> {
        range.map(|i| self.get(i)).collect()
    }
}

/// The value of one element's bytes.
pub(crate) fn decode(raw: &[u8], elem: Scalar) -> f64 {
    let mut eight = [0; 8];
    eight[..raw.len()].copy_from_slice(raw);
    let bits = u64::from_le_bytes(eight);
    match elem {
        // The common case without the general function's arithmetic.
        Scalar::F32 => f64::from(f32::from_bits(bits as u32)),
        Scalar::F16 | Scalar::BF16 | Scalar::F64 => num::from_bits(bits, elem),
        Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz | Scalar::F8E8M0 | Scalar::F4E2M1 => {
            num::from_bits(bits, elem)
        }
        Scalar::I1 | Scalar::I4 | Scalar::I8 | Scalar::I16 | Scalar::I32 | Scalar::I64 => num::wrap(bits as i64, elem) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_tensors_hold_every_special_value_of_both_signs() {
        for elem in [Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64] {
            let t = TensorSpec::input("x", elem, &[100, 100], Init::Special(3)).make();
            let values = t.read(0..10_000);
            for sign in [1.0, -1.0] {
                let has = |want: f64| values.iter().any(|&v| v == want && v.is_sign_negative() == want.is_sign_negative());
                assert!(has(sign * f64::INFINITY) && has(sign * 0.0), "{elem}");
                let (tiny, normal, huge) = match elem {
                    Scalar::F16 => (2f64.powi(-24), 2f64.powi(-14), 65504.0),
                    Scalar::BF16 => (2f64.powi(-133), 2f64.powi(-126), 2f64.powi(128) - 2f64.powi(120)),
                    Scalar::F32 => (2f64.powi(-149), 2f64.powi(-126), f64::from(f32::MAX)),
                    _ => (f64::from_bits(1), f64::MIN_POSITIVE, f64::MAX),
                };
                assert!(has(sign * tiny) && has(sign * normal) && has(sign * huge), "{elem}");
            }
            assert!(values.iter().any(|v| v.is_nan()));
            let plain = values.iter().filter(|v| v.is_finite() && **v != 0.0 && v.abs() < 10.0).count();
            assert!(plain > 8_000, "{plain}");
        }
    }

    #[test]
    fn masked_rows_keep_their_first_element() {
        let t = TensorSpec::input("x", Scalar::F16, &[50, 33], Init::Masked(9)).make();
        assert!((0..50).all(|r| t.get(r * 33).is_finite()));
        let masked = t.read(0..50 * 33).iter().filter(|&&v| v == f64::NEG_INFINITY).count();
        assert!((300..500).contains(&masked), "{masked}");
    }

    #[test]
    fn integers_cover_their_range_and_poison_is_nan() {
        let t = TensorSpec::input("x", Scalar::I8, &[10_000], Init::Normal(1)).make();
        let mut seen: Vec<i64> = t.read(0..10_000).iter().map(|&v| v as i64).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!((seen.len(), seen[0], seen[255]), (256, -128, 127));
        let out = TensorSpec::output("y", Scalar::BF16, &[2, 3]).make();
        assert_eq!(out.bytes.len(), 12);
        assert!(out.read(0..6).iter().all(|v| v.is_nan()));
    }
}
