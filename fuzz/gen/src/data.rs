//! Contents of tensors, element by element, and their text in a `; run:` line.

use std::fmt::Write;
use tilelift_interp::ScalarArg;
use tilelift_ir::{Scalar, num};
use tilelift_kernels::rng;

/// What a tensor holds in front of the launch.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Init {
    /// 0, 1, 2, …
    Iota,
    /// One number everywhere.
    Fill(i64),
    /// Seeded normal deviates; integers are uniform over the type.
    Rand(u64),
    /// Seeded uniform bits: every NaN, infinity and denormal may appear.
    Bits(u64),
    /// Seeded integers from -2 to 2.
    Small(u64),
    /// Seeded remarkable values of the type, with random ones in between.
    Edge(u64),
    /// Seeded integers from `lo` to `hi`, both included: a table.
    Between {
        /// The seed.
        seed: u64,
        /// The least.
        lo: i64,
        /// The most.
        hi: i64,
    },
    /// Integers from 0 on that grow by up to `most` at a time: offsets of lists, some of them empty.
    Ascending {
        /// The seed.
        seed: u64,
        /// The longest list.
        most: u64,
    },
}

/// The bits of element `i`; integers are sign-extended.
pub(crate) fn element(init: &Init, i: u64, elem: Scalar) -> u64 {
    let int = |x: i64| ScalarArg::int(elem, x).bits();
    let raw = |bits: u64| if elem.is_float() { bits } else { num::wrap(bits as i64, elem) as u64 };
    match *init {
        Init::Iota => int(i as i64),
        Init::Fill(x) => int(x),
        Init::Rand(seed) if elem.is_float() => {
            let x = rng::normal_pair(seed, i / 2)[(i % 2) as usize];
            // `f8e8m0` has no sign.
            ScalarArg::float(elem, if elem == Scalar::F8E8M0 { x.abs() } else { x }).bits()
        }
        Init::Rand(seed) | Init::Bits(seed) => raw(rng::bits(seed, i)),
        Init::Small(seed) => int((rng::bits(seed, i) % 5) as i64 - 2),
        Init::Between { seed, lo, hi } => int(lo + (rng::bits(seed, i) % ((hi - lo).max(0) as u64 + 1)) as i64),
        Init::Ascending { seed, most } => int((0..i).map(|j| (rng::bits(seed, j) % (most + 1)) as i64).sum()),
        Init::Edge(seed) => {
            let bits = rng::bits(seed, i);
            let edges = edges(elem);
            let n = edges.len() as u64;
            if bits.is_multiple_of(3) { element(&Init::Rand(seed + 1), i, elem) } else { edges[(bits / 3 % n) as usize] }
        }
    }
}

/// Bits of the largest finite number of a float type.
pub(crate) fn largest(elem: Scalar) -> u64 {
    num::to_bits(f64::INFINITY, elem) - 1
}

/// Bits of remarkable values of a type.
pub(crate) fn edges(elem: Scalar) -> Vec<u64> {
    if elem == Scalar::I1 {
        return vec![0, 1];
    }
    if elem.is_int() {
        let min = num::wrap(1i64 << (elem.bits() - 1), elem);
        let width = i64::from(elem.bits());
        let list = [0, 1, -1, 2, -2, 3, -7, 10, width - 1, width, width + 1, min, min + 1, !min, !min - 1, 100];
        return list.iter().map(|&x| num::wrap(x, elem) as u64).collect();
    }
    let infinity = num::to_bits(f64::INFINITY, elem);
    // The lowest bit of infinity is the lowest exponent bit, hence the smallest normal number.
    let normal = infinity & infinity.wrapping_neg();
    let sign = 1u64 << (elem.bits() - 1);
    let of = |x: f64| num::to_bits(num::round(x, elem), elem);
    let one = of(1.0);
    let positive = [0, 1, normal - 1, normal, one, one + 1, one - 1, of(0.5), of(1.5), of(2.5), of(127.5), of(1e4), infinity - 1, infinity];
    positive.iter().flat_map(|&b| [b, b | sign]).chain([num::to_bits(f64::NAN, elem)]).collect()
}

/// A number of a type as a run line writes it.
pub(crate) fn number(bits: u64, elem: Scalar) -> String {
    if !elem.is_float() {
        return num::wrap(bits as i64, elem).to_string();
    }
    let x = num::from_bits(bits, elem);
    if x.is_nan() {
        "nan".into()
    } else if x.is_infinite() {
        if x > 0.0 { "inf".into() } else { "-inf".into() }
    } else {
        format!("{x:?}")
    }
}

/// The contents as a run line writes them.
pub(crate) fn text(init: &Init, count: u64, elem: Scalar) -> String {
    match *init {
        Init::Iota => "iota".into(),
        Init::Fill(x) => format!("fill:{x}"),
        Init::Rand(seed) => format!("rand:{seed}"),
        Init::Bits(seed) => format!("bits:{seed}"),
        Init::Small(_) | Init::Edge(_) | Init::Between { .. } | Init::Ascending { .. } => {
            let mut s = String::from("{");
            for i in 0..count {
                let _ = write!(s, "{}{}", if i > 0 { ", " } else { "" }, number(element(init, i, elem), elem));
            }
            s.push('}');
            s
        }
    }
}
