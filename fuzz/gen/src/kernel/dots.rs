//! Dots: alone, in loops over k, chained, with operands that are loaded, computed, transposed or reshaped.

use super::limit;
use super::state::{Gen, Item};
use crate::case::Tolerance;
use tilelift_ir::typing::SCALE_BLOCK;
use tilelift_ir::{KernelBuilder, Precision, Scalar, Type, Value};

/// Types of a dot, and what its k extent must be a multiple of.
#[derive(Clone, Copy)]
struct Kind {
    elem: Scalar,
    /// Element type of B.
    right: Scalar,
    acc: Scalar,
    precision: Precision,
    k: u32,
    /// The operands have scales, of 1 and 2.
    scaled: bool,
}

const fn kind(elem: Scalar, acc: Scalar, precision: Precision, k: u32) -> Kind {
    Kind { elem, right: elem, acc, precision, k, scaled: false }
}

const fn of_two_types(elem: Scalar, right: Scalar, acc: Scalar) -> Kind {
    Kind { elem, right, acc, precision: Precision::Exact, k: 32, scaled: false }
}

const fn with_scales(elem: Scalar, right: Scalar) -> Kind {
    Kind { scaled: true, ..of_two_types(elem, right, Scalar::F32) }
}

/// The kinds and their weights; [`Gen::second`] takes from the head.
const KINDS: [(u32, Kind); 23] = [
    (20, kind(Scalar::F16, Scalar::F32, Precision::Exact, 16)),
    (12, kind(Scalar::BF16, Scalar::F32, Precision::Exact, 16)),
    (8, kind(Scalar::F32, Scalar::F32, Precision::Tf32, 8)),
    (2, kind(Scalar::F16, Scalar::F16, Precision::Exact, 16)),
    (8, kind(Scalar::I8, Scalar::I32, Precision::Exact, 32)),
    (3, kind(Scalar::F64, Scalar::F64, Precision::Exact, 8)),
    (1, kind(Scalar::F32, Scalar::F32, Precision::Exact, 8)),
    (2, kind(Scalar::F8E4M3, Scalar::F32, Precision::Exact, 32)),
    (2, kind(Scalar::F8E5M2, Scalar::F32, Precision::Exact, 32)),
    (1, kind(Scalar::F8E4M3Fnuz, Scalar::F32, Precision::Exact, 32)),
    (1, kind(Scalar::F8E5M2Fnuz, Scalar::F32, Precision::Exact, 32)),
    (2, kind(Scalar::F32, Scalar::F32, Precision::Tf32x3, 8)),
    (2, kind(Scalar::I4, Scalar::I32, Precision::Exact, 32)),
    (2, of_two_types(Scalar::I8, Scalar::I4, Scalar::I32)),
    (1, of_two_types(Scalar::I4, Scalar::I8, Scalar::I32)),
    (1, kind(Scalar::F4E2M1, Scalar::F32, Precision::Exact, 32)),
    (1, of_two_types(Scalar::F8E4M3, Scalar::F8E5M2, Scalar::F32)),
    (1, of_two_types(Scalar::F8E5M2, Scalar::F4E2M1, Scalar::F32)),
    (1, of_two_types(Scalar::F4E2M1, Scalar::F8E4M3Fnuz, Scalar::F32)),
    (2, with_scales(Scalar::F8E4M3, Scalar::F8E4M3)),
    (2, with_scales(Scalar::F4E2M1, Scalar::F4E2M1)),
    (1, with_scales(Scalar::F8E5M2, Scalar::F4E2M1)),
    (1, with_scales(Scalar::F4E2M1, Scalar::F8E4M3)),
];

impl Kind {
    /// The largest operand magnitude that the instruction takes as it is.
    fn operand_limit(self) -> f64 {
        if self.precision == Precision::Exact { limit(self.elem).min(limit(self.right)) } else { 2048.0 }
    }

    /// As an operand B.
    fn of_right(self) -> Kind {
        Kind { elem: self.right, ..self }
    }

    /// Terms of a sum over such a depth, each at most the product of the operands' bounds.
    fn terms(self, depth: u32) -> u32 {
        if self.scaled { 4 * depth } else { depth }
    }

    fn dot(self, b: &mut KernelBuilder, [x, y, c]: [Value; 3]) -> Value {
        match self.precision {
            Precision::Exact => b.dot(x, y, c),
            Precision::Tf32 => b.dot_tf32(x, y, c),
            Precision::Tf32x3 => b.dot_tf32x3(x, y, c),
        }
    }
}

impl Gen<'_> {
    fn kind(&mut self) -> Kind {
        KINDS[self.src.weighted(&KINDS.map(|k| k.0))].1
    }

    fn dot_shape(&mut self, kind: Kind) -> [u32; 3] {
        let m = *self.src.pick(&[16, 32, 64, 48, 80, 128]).unwrap_or(&16);
        let n = *self.src.pick(&[16, 32, 64, 48, 16, 96, 32, 80, 16, 8]).unwrap_or(&16);
        let k = kind.k * *self.src.pick(&[1, 2, 4, 3]).unwrap_or(&1);
        // Now and then extents that no matrix instruction divides.
        let (m, n, k) = if self.src.chance(40) && !kind.scaled {
            let odd = |g: &mut Self| *g.src.pick(&[8, 12, 5, 24, 7, 40]).unwrap_or(&8);
            (odd(self), odd(self), odd(self))
        } else {
            (m, n, k)
        };
        let room = self.cfg.max_elements;
        let work = u64::from(m * n) * u64::from(k) * self.times;
        if m * n > room || m * k > room || k * n > room || work > self.cfg.max_work { [16, 16, kind.k] } else { [m, n, k] }
    }

    fn push_dot(&mut self, b: &mut KernelBuilder, kind: Kind, operands: [Value; 3], shape: [u32; 3], bound: Option<f64>) -> Item {
        let v = self.product(b, kind, operands);
        self.work += u64::from(shape[0]) * u64::from(shape[1]) * u64::from(shape[2]) / 2 * self.times;
        if kind.acc.is_float() && !self.sums.contains(&kind.acc) {
            self.sums.push(kind.acc);
        }
        self.put(b, v, bound)
    }

    fn product(&mut self, b: &mut KernelBuilder, kind: Kind, [x, y, c]: [Value; 3]) -> Value {
        if !kind.scaled {
            return kind.dot(b, [x, y, c]);
        }
        let shape = |v: Value| b.ty(v).shape().map_or(Vec::new(), <[u32]>::to_vec);
        let (mut of_x, mut of_y) = (shape(x), shape(y));
        let rank = of_x.len();
        of_x[rank - 1] /= SCALE_BLOCK;
        of_y[rank - 2] /= SCALE_BLOCK;
        let (scale_x, scale_y) = (self.scales(b, &of_x), self.scales(b, &of_y));
        b.dot_scaled([x, scale_x], [y, scale_y], c)
    }

    /// Scales of 1 and 2.
    fn scales(&mut self, b: &mut KernelBuilder, shape: &[u32]) -> Value {
        let (rows, columns) = (shape[..shape.len() - 1].iter().product(), shape[shape.len() - 1]);
        let codes = self.load_operand(b, Scalar::I8, &[rows, columns], None, false).v;
        let last = b.and(codes, 1i64);
        let codes = b.add(last, 127i64);
        let scales = b.bitcast(codes, Scalar::F8E8M0);
        if shape.len() == 2 { scales } else { b.reshape(scales, shape) }
    }

    /// An operand with a bound of at most `most`, from memory or from a value at hand. `k` is the dimension that walks and its index.
    fn operand(&mut self, b: &mut KernelBuilder, kind: Kind, tile: [u32; 2], k: Option<(usize, Value)>, most: f64) -> Item {
        let elem = kind.elem;
        if elem.is_packed() && tile[1].is_multiple_of(2) && self.src.chance(128) {
            let v = self.load_pairs(b, elem, &tile);
            return Item { v, ty: b.ty(v).clone(), bound: Some(2.0) };
        }
        if elem.is_narrow() || elem.is_packed() {
            // There is no arithmetic on them: the operand is made in another type and cast.
            let made = if elem == Scalar::I4 { Scalar::I8 } else { Scalar::F16 };
            let i = self.operand(b, Kind { elem: made, ..kind }, tile, k, most);
            let v = b.cast(i.v, elem);
            return Item { v, ty: b.ty(v).clone(), bound: i.bound };
        }
        let swapped = [tile[1], tile[0]];
        let transposed = |k: Option<(usize, Value)>| k.map(|(d, v)| (1 - d, v));
        let (v, bound) = match self.src.weighted(&[8, 6, 3, 3, 3, 2]) {
            0 => {
                let i = self.load_operand(b, elem, &tile, k, true);
                (i.v, i.bound)
            }
            1 => {
                let i = self.load_operand(b, elem, &swapped, transposed(k), true);
                (b.transpose(i.v, &[1, 0]), i.bound)
            }
            2 => {
                let from = *self.src.pick(&[Scalar::F32, Scalar::F16, Scalar::I8, Scalar::BF16]).unwrap_or(&Scalar::F32);
                let i = self.load_operand(b, from, &tile, k, true);
                let v = b.neg(i.v);
                (b.cast(v, elem), i.bound)
            }
            3 => match self.any(|i| i.shape() == tile && i.bound.is_some_and(|x| x <= most)) {
                Some(i) => (b.cast(i.v, elem), i.bound),
                None => {
                    let i = self.load_operand(b, elem, &tile, k, true);
                    (b.add(i.v, 1i64), i.bound.map(|x| x + 1.0))
                }
            },
            4 => match self.any(|i| i.shape() == tile && i.elem() != Scalar::I1) {
                Some(i) => {
                    let v = self.small_of(b, i.v);
                    (b.cast(v, elem), Some(3.0))
                }
                None => {
                    // A column or row, repeated.
                    let row = self.load_operand(b, elem, &[1, tile[1]], None, true);
                    (b.broadcast(row.v, &tile), row.bound)
                }
            },
            _ => {
                let i = self.load_operand(b, elem, &tile, k, true);
                let inner = 1 << tile[1].trailing_zeros().min(3);
                let split = b.reshape(i.v, &[tile[0], tile[1] / inner, inner]);
                (b.reshape(split, &tile), i.bound)
            }
        };
        match bound {
            Some(x) if x <= most => Item { v, ty: b.ty(v).clone(), bound },
            Some(_) | None => {
                let v = self.small_of(b, v);
                Item { v, ty: b.ty(v).clone(), bound: Some(3.0) }
            }
        }
    }

    /// An accumulator of bounded numbers, none of them -0.
    fn accumulator(&mut self, b: &mut KernelBuilder, kind: Kind, shape: [u32; 2]) -> Item {
        let ty = Type::tile(&shape, kind.acc);
        if self.src.chance(64)
            && let Some(i) = self.any(|i| i.ty == ty && (kind.acc == Scalar::I32 || i.bound.is_some_and(|x| x <= limit(kind.acc) / 4.0)))
        {
            let v = b.add(i.v, 0i64);
            return Item { v, ..i };
        }
        let c = if self.src.chance(64) { self.src.range(1, 5) } else { 0 };
        let v = b.full(&shape, c, kind.acc);
        Item { v, ty, bound: Some(5.0) }
    }

    /// The largest operand for which `terms` products surely add up exactly.
    fn most(kind: Kind, terms: u32) -> f64 {
        let room = if kind.acc.is_float() { (limit(kind.acc) / 2.0 / f64::from(terms)).sqrt().floor() } else { f64::INFINITY };
        room.min(kind.operand_limit())
    }

    fn sum_bound(kind: Kind, a: &Item, bb: &Item, c: &Item, terms: u32) -> Option<f64> {
        let x = a.bound? * bb.bound? * f64::from(terms) + c.bound?;
        Some(x).filter(|&x| x <= limit(kind.acc))
    }

    pub(super) fn dot_once(&mut self, b: &mut KernelBuilder) {
        let kind = self.kind();
        let [m, n, k] = self.dot_shape(kind);
        let most = Self::most(kind, kind.terms(k));
        if most < 3.0 {
            return;
        }
        let a = self.operand(b, kind, [m, k], None, most);
        let bb = self.operand(b, kind.of_right(), [k, n], None, most);
        let c = self.accumulator(b, kind, [m, n]);
        let bound = Self::sum_bound(kind, &a, &bb, &c, kind.terms(k));
        self.push_dot(b, kind, [a.v, bb.v, c.v], [m, n, k], bound);
    }

    /// As many products as the batch has matrices: operands of two dimensions, seen as three.
    pub(super) fn dot_batched(&mut self, b: &mut KernelBuilder) {
        let kind = self.kind();
        let batch = self.src.range(1, 4) as u32;
        let [m, n, k] = self.dot_shape(kind);
        let room = self.cfg.max_elements;
        let [m, n, k] = if batch * m.max(k) * n.max(k) > room { [16, 16, kind.k] } else { [m, n, k] };
        let most = Self::most(kind, kind.terms(k));
        if most < 3.0 || batch * m.max(k) * n.max(k) > room {
            return;
        }
        let a = self.operand(b, kind, [batch * m, k], None, most);
        let bb = self.operand(b, kind.of_right(), [batch * k, n], None, most);
        let c = self.accumulator(b, kind, [batch * m, n]);
        let seen = [(a.v, [batch, m, k]), (bb.v, [batch, k, n]), (c.v, [batch, m, n])].map(|(v, shape)| b.reshape(v, &shape));
        let bound = Self::sum_bound(kind, &a, &bb, &c, kind.terms(k));
        self.push_dot(b, kind, seen, [batch * m, n, k], bound);
    }

    /// The usual loop over k, sometimes with a second dot that takes the first one's result, or other steps inside.
    pub(super) fn dot_loop(&mut self, b: &mut KernelBuilder, depth: u32) {
        if depth >= self.cfg.max_depth {
            return self.dot_once(b);
        }
        let kind = self.kind();
        let [m, n, k] = self.dot_shape(kind);
        let trips = self.src.range(1, 5) as u32;
        let chained = self.src.chance(80);
        let most = Self::most(kind, kind.terms(k * trips)).min(3.0);
        if most < 3.0 {
            return self.dot_once(b);
        }
        let c = self.accumulator(b, kind, [m, n]);
        let cut = self.src.range(0, i64::from(k) - 1);
        let lo = if self.src.chance(32) { i64::from(k) * self.src.range(0, 2) } else { 0 };
        let hi = match self.src.below(4) {
            1 => self.some_extent(b).filter(|&(_, n)| n <= i64::from(k * trips)).map(|(v, _)| v),
            _ => None,
        };
        let hi = match hi {
            Some(v) => v,
            None => b.constant(lo + i64::from(k * trips) - cut, Scalar::I32),
        };
        let extra = self.src.below(4).saturating_sub(1);
        let second = if chained { self.second(b, kind, m, n) } else { None };
        let init: Vec<Value> = [c.v].into_iter().chain(second.as_ref().map(|s| s.acc.v)).collect();
        let results = b.for_loop(lo, hi, i64::from(k), &init, |b, iv, carried| {
            self.scopes.push(Vec::new());
            self.indices.push(vec![iv]);
            let before = self.times;
            self.times *= u64::from(trips);
            let a = self.operand(b, kind, [m, k], Some((1, iv)), most);
            let bb = self.operand(b, kind.of_right(), [k, n], Some((0, iv)), most);
            let next = match &second {
                None => vec![self.push_dot(b, kind, [a.v, bb.v, carried[0]], [m, n, k], None).v],
                Some(s) => {
                    // The first product starts anew in every round; its bound lets it be an operand.
                    let zero = b.full(&[m, n], 0i64, kind.acc);
                    let bound = a.bound.zip(bb.bound).map(|(p, q)| p * q * f64::from(kind.terms(k)));
                    let p = self.push_dot(b, kind, [a.v, bb.v, zero], [m, n, k], bound);
                    let sum = b.add(carried[0], p.v);
                    let p = self.fit(b, s.kind, &p);
                    let w = self.operand(b, s.kind.of_right(), [n, s.columns], None, 2.0);
                    let o = self.push_dot(b, s.kind, [p.v, w.v, carried[1]], [m, s.columns, n], None);
                    vec![sum, o.v]
                }
            };
            self.steps(b, extra, depth + 1);
            self.times = before;
            self.scopes.pop();
            self.indices.pop();
            next
        });
        // Sums of exact terms: bounded by construction, but the loop's length is not tracked for what follows.
        let bound = Self::sum_bound(
            kind,
            &Item { bound: Some(3.0), ..c.clone() },
            &Item { bound: Some(3.0), ..c.clone() },
            &c,
            kind.terms(k * trips),
        );
        for (i, v) in results.into_iter().enumerate() {
            self.put(b, v, if i == 0 { bound } else { None });
        }
    }

    /// A second dot `P * W` in a loop, where P is the `m x n` result of a first one.
    fn second(&mut self, b: &mut KernelBuilder, first: Kind, m: u32, n: u32) -> Option<Second> {
        let kind = match first.acc {
            Scalar::F32 | Scalar::F16 => KINDS[self.src.weighted(&[3, 1, 1])].1,
            Scalar::I32 => KINDS[4].1,
            _ => return None,
        };
        let columns = *self.src.pick(&[16, 32, 64]).unwrap_or(&16);
        if !n.is_multiple_of(kind.k) || m * columns > self.cfg.max_elements {
            return None;
        }
        let v = b.full(&[m, columns], 0i64, kind.acc);
        let acc = Item { v, ty: b.ty(v).clone(), bound: Some(0.0) };
        Some(Second { kind, columns, acc })
    }

    /// A value as an operand of a kind, brought near zero if it might be too large for exact sums.
    fn fit(&mut self, b: &mut KernelBuilder, kind: Kind, x: &Item) -> Item {
        let fits = kind.acc == Scalar::I32 || x.bound.is_some_and(|p| p <= kind.operand_limit().min(256.0));
        let v = if fits { x.v } else { self.small_of(b, x.v) };
        let v = b.cast(v, kind.elem);
        Item { v, ty: b.ty(v).clone(), bound: if fits { x.bound } else { Some(3.0) } }
    }

    /// A dot of any numbers right in front of a store.
    pub(super) fn dot_store(&mut self, b: &mut KernelBuilder) {
        let kind = self.kind();
        let [m, n, k] = self.dot_shape(kind);
        let a = self.real_operand(b, kind.elem, [m, k]);
        let bb = self.real_operand(b, kind.right, [k, n]);
        let c = b.full(&[m, n], 1i64, kind.acc);
        let v = self.product(b, kind, [a, bb, c]);
        self.work += u64::from(m) * u64::from(n) * u64::from(k) / 2 * self.times;
        // (K + 2) units of roundoff times the sum of magnitudes, which are below 6 (see `Init::Rand`).
        let unit = match kind.acc {
            Scalar::F16 => 2f64.powi(-11),
            Scalar::F64 => 2f64.powi(-53),
            _ => 2f64.powi(-24),
        };
        let abs = if kind.acc.is_float() { f64::from(k + 2) * unit * (1.0 + f64::from(kind.terms(k)) * 36.0) } else { 0.0 };
        let item = Item { v, ty: b.ty(v).clone(), bound: None };
        self.store_near(b, &item, Tolerance { rel: 0.0, abs });
    }

    fn real_operand(&mut self, b: &mut KernelBuilder, elem: Scalar, tile: [u32; 2]) -> Value {
        if elem == Scalar::I4 {
            let v = self.real_operand(b, Scalar::I8, tile);
            return b.cast(v, elem);
        }
        if elem.is_narrow() {
            let v = self.real_operand(b, Scalar::F16, tile);
            return b.cast(v, elem);
        }
        let specials = std::mem::replace(&mut self.rand_only, true);
        let i = if self.src.chance(100) {
            let i = self.load_operand(b, elem, &[tile[1], tile[0]], None, false);
            b.transpose(i.v, &[1, 0])
        } else {
            self.load_operand(b, elem, &tile, None, false).v
        };
        self.rand_only = specials;
        i
    }
}

/// The second dot of a loop.
struct Second {
    kind: Kind,
    columns: u32,
    acc: Item,
}
