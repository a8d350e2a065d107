//! Matrix instructions. EXEC does not count. Products of floats are exact in f64 and summed there with the addend; the sum is rounded
//! once. Hardware sums in an order and precision of its own, so results are to be compared with a tolerance.

use super::{Ctx, inline};
use crate::decode::inst::{File, Matrix, Src};
use crate::fault::{FaultKind, Result};
use crate::isa::matrix::{Elem, MatRow};
use crate::num::{BF16, F16, Small, bf8, fp4, fp8, ones, sext};
use crate::state::wave::Wave;

/// How the bits of an element are read.
#[derive(Clone, Copy)]
enum Read {
    Small(Small),
    F32,
    Xf32,
    F64,
    I8,
}

impl Read {
    fn value(self, bits: u64) -> f64 {
        match self {
            Read::Small(f) => f.decode(bits as u32),
            Read::F32 => f64::from(f32::from_bits(bits as u32)),
            // Ten bits of mantissa, rounded to nearest even.
            Read::Xf32 => {
                let x = bits as u32;
                let rounded = if f32::from_bits(x).is_finite() { x.wrapping_add(0xfff + (x >> 13 & 1)) & !0x1fff } else { x };
                f64::from(f32::from_bits(rounded))
            }
            Read::F64 => f64::from_bits(bits),
            Read::I8 => sext(bits, 8) as f64,
        }
    }
}

/// A or B, unpacked: elements by block, row and depth, and which of them are defined.
struct Factor {
    values: Vec<f64>,
    defined: Vec<bool>,
    all: bool,
}

/// Registers and formats of a factor.
#[derive(Clone, Copy)]
struct Shape {
    slot: usize,
    bits: u32,
    read: Read,
    /// Fields that name a format of 8 bits or less.
    format: Option<u8>,
}

impl Ctx<'_, '_> {
    pub(super) fn matrix(&mut self, m: &Matrix) -> Result<()> {
        let row = m.row;
        let fnuz = self.device.chip.fnuz();
        let any = row.a == Elem::Any8;
        let shape = |(file, n): (File, u8), elem: Elem, format: u8| {
            let (read, bits) = match elem {
                Elem::Any8 => formatted(format).ok_or(FaultKind::UnsupportedField("a format of a matrix instruction"))?,
                _ => (read_of(elem, fnuz), elem.bits()),
            };
            Ok::<Shape, FaultKind>(Shape { slot: self.wave.slot(file, u16::from(n)), bits, read, format: any.then_some(format) })
        };
        let mut a = factor(self.wave, m, shape(m.a, row.a, m.cbsz)?, &|l| l);
        let blgp = if any || row.a == Elem::F64 { 0 } else { m.blgp };
        let mut b = factor(self.wave, m, shape(m.b, row.b, m.blgp)?, &|l| permuted(blgp, l));
        if let Some(scales) = m.scales {
            for (f, (src, byte)) in [&mut a, &mut b].into_iter().zip(scales) {
                self.scale(f, row, src, byte)?;
            }
        }
        if !any && m.cbsz != 0 {
            broadcast(&mut a, row, u32::from(m.cbsz), u32::from(m.abid));
        }
        let negated = if row.a == Elem::F64 { m.blgp } else { 0 };
        if negated != 0 {
            for (f, bit) in [(&mut a, 1), (&mut b, 2)] {
                f.values.iter_mut().filter(|_| negated & bit != 0).for_each(|v| *v = -*v);
            }
        }
        self.multiply(m, &a, &b, negated & 4 != 0);
        Ok(())
    }

    fn multiply(&mut self, m: &Matrix, a: &Factor, b: &Factor, negate_c: bool) {
        let row = m.row;
        let (mm, kk) = (row.m as usize, row.k as usize);
        let width = row.c.bits() as usize / 32;
        let dst = self.wave.slot(m.dst.0, u16::from(m.dst.1));
        let c = match m.c {
            Src::V(n) => Err(self.wave.slot(File::V, u16::from(n))),
            Src::A(n) => Err(self.wave.slot(File::A, u16::from(n))),
            Src::Inline(code) => Ok(inline(code, row.c.bits())),
            _ => Ok(0),
        };
        let sums = if row.c == Elem::F64 { Vec::new() } else { products(row, a, b) };
        let mut out: Vec<([u64; 64], u64)> = Vec::new();
        for (r, places) in m.layout.result.chunks_exact(64).enumerate() {
            let (mut values, mut known) = ([0u64; 64], u64::MAX);
            if let Err(slot) = c {
                for w in 0..width {
                    let at = slot + r * width + w;
                    known &= self.wave.v_defined[at];
                    values.iter_mut().zip(&self.wave.v[at]).for_each(|(v, &x)| *v |= u64::from(x) << (32 * w));
                }
            } else if let Ok(v) = c {
                values = [v; 64];
            }
            for (lane, (value, &place)) in values.iter_mut().zip(places).enumerate() {
                let old = *value;
                // The row of A, and the row of B's transpose, that this is the product of.
                let rows = || {
                    let (place, block) = (usize::from(place) % (mm * mm), usize::from(place) / (mm * mm));
                    ((block * mm + place / mm) * kk, (block * mm + place % mm) * kk)
                };
                *value = match row.c {
                    // Sums of products of bytes are exact in f64.
                    Elem::I32 => (sums[usize::from(place)] as i64 + i64::from(old as i32)) as u64 & ones(32),
                    Elem::F64 => {
                        let (ra, rb) = rows();
                        let first = if negate_c { -f64::from_bits(old) } else { f64::from_bits(old) };
                        let (x, y) = (&a.values[ra..ra + kk], &b.values[rb..rb + kk]);
                        x.iter().zip(y).fold(first, |s, (&p, &q)| p.mul_add(q, s)).to_bits()
                    }
                    _ => u64::from(((sums[usize::from(place)] + f64::from(f32::from_bits(old as u32))) as f32).to_bits()),
                };
                if !(a.all && b.all) {
                    let (ra, rb) = rows();
                    if !a.defined[ra..ra + kk].iter().chain(&b.defined[rb..rb + kk]).all(|&d| d) {
                        known &= !(1 << lane);
                    }
                }
            }
            out.push((values, known));
        }
        for (r, (values, known)) in out.into_iter().enumerate() {
            for w in 0..width {
                let slot = dst + r * width + w;
                self.wave.v[slot] = values.map(|v| (v >> (32 * w)) as u32);
                self.wave.v_defined[slot] = known;
            }
        }
    }

    /// Multiplies runs of 32 elements by the powers of two that the scales name.
    fn scale(&self, f: &mut Factor, row: &MatRow, src: Src, byte: u8) -> Result<()> {
        let (m, k) = (row.m as usize, row.k as usize);
        for lane in 0..64usize {
            let (word, defined) = match src {
                Src::V(n) => (self.wave.v[usize::from(n)][lane], self.wave.v_defined[usize::from(n)] >> lane & 1 != 0),
                _ => {
                    let (v, d) = self.scalar(src, 1);
                    (v as u32, d == u64::MAX)
                }
            };
            let code = word >> (8 * u32::from(byte)) & 0xff;
            let factor = if code == 0xff { f64::NAN } else { 2f64.powi(code as i32 - 127) };
            let (i, block) = (lane % m, lane / m);
            for e in (i * k + 32 * block..).take(32) {
                f.values[e] *= factor;
                f.defined[e] &= defined;
            }
            f.all &= defined;
        }
        Ok(())
    }
}

fn read_of(elem: Elem, fnuz: bool) -> Read {
    match elem {
        Elem::F16 => Read::Small(F16),
        Elem::Bf16 => Read::Small(BF16),
        Elem::Fp8 | Elem::Any8 => Read::Small(fp8(fnuz)),
        Elem::Bf8 => Read::Small(bf8(fnuz)),
        Elem::F32 => Read::F32,
        Elem::Xf32 => Read::Xf32,
        Elem::F64 => Read::F64,
        Elem::I8 | Elem::I32 => Read::I8,
    }
}

/// The formats that the fields of the mixed instructions name.
fn formatted(format: u8) -> Option<(Read, u32)> {
    Some(match format {
        0 => (Read::Small(fp8(false)), 8),
        1 => (Read::Small(bf8(false)), 8),
        2 | 3 => (Read::Small(fp4(u32::from(format))?), 6),
        4 => (Read::Small(fp4(4)?), 4),
        _ => return None,
    })
}

/// The lane whose elements of B a lane's place takes, by the field `blgp`.
fn permuted(blgp: u8, lane: usize) -> usize {
    match blgp {
        1 => lane % 32,
        2 => 32 + lane % 32,
        3 => (lane + 16) % 64,
        4..=7 => 16 * (usize::from(blgp) - 4) + lane % 16,
        _ => lane,
    }
}

/// The depth of an element of the mixed formats: 8-bit ones lie in two runs of 16, smaller ones in one of 32.
fn mixed_place(row: &MatRow, format: u8, lane: u32, e: u32) -> (u32, u32) {
    let (i, group) = (lane % row.m, lane / row.m);
    if format <= 1 {
        let half = row.k / 2;
        (i, half * (e / 16) + 16 * group + e % 16)
    } else {
        (i, 32 * group + e)
    }
}

fn factor(wave: &Wave, m: &Matrix, shape: Shape, from: &dyn Fn(usize) -> usize) -> Factor {
    let row = m.row;
    let n = (row.m * row.k * row.blocks) as usize;
    let mut f = Factor { values: vec![0.0; n], defined: vec![true; n], all: true };
    for (e, places) in (0..).zip(m.layout.source.chunks_exact(64)) {
        let at = e * shape.bits;
        let (slot, shift) = (shape.slot + (at / 32) as usize, at % 32);
        let two = shift + shape.bits > 32;
        for (lane, &place) in places.iter().enumerate() {
            let source = from(lane);
            let mut bits = u64::from(wave.v[slot][source]);
            let mut defined = wave.v_defined[slot] >> source & 1 != 0;
            if two {
                bits |= u64::from(wave.v[slot + 1][source]) << 32;
                defined &= wave.v_defined[slot + 1] >> source & 1 != 0;
            }
            let place = match shape.format {
                Some(format) => {
                    let (i, d) = mixed_place(row, format, lane as u32, e);
                    (i * row.k + d) as usize
                }
                None => usize::from(place),
            };
            f.values[place] = shape.read.value(bits >> shift & ones(shape.bits));
            f.defined[place] = defined;
            f.all &= defined;
        }
    }
    f
}

/// Sums of products, by block, row and column: row by row, so that all columns advance together.
fn products(row: &MatRow, a: &Factor, b: &Factor) -> Vec<f64> {
    let (m, k) = (row.m as usize, row.k as usize);
    let mut sums = vec![0.0; m * m * row.blocks as usize];
    let mut columns = vec![0.0; m * k];
    for block in 0..row.blocks as usize {
        let (a, b) = (&a.values[block * m * k..][..m * k], &b.values[block * m * k..][..m * k]);
        for j in 0..m {
            for d in 0..k {
                columns[d * m + j] = b[j * k + d];
            }
        }
        for (i, out) in sums[block * m * m..][..m * m].chunks_exact_mut(m).enumerate() {
            for (d, &x) in a[i * k..(i + 1) * k].iter().enumerate() {
                for (s, &y) in out.iter_mut().zip(&columns[d * m..(d + 1) * m]) {
                    *s += x * y;
                }
            }
        }
    }
    sums
}

/// Blocks of A take the place of others: in each group of `2^cbsz` all are the `abid`-th.
fn broadcast(a: &mut Factor, row: &MatRow, cbsz: u32, abid: u32) {
    let size = (row.m * row.k) as usize;
    let old = (a.values.clone(), a.defined.clone());
    for block in 0..row.blocks {
        let from = (block & !((1u32 << cbsz) - 1) | abid).min(row.blocks - 1) as usize;
        let to = block as usize * size;
        a.values[to..to + size].copy_from_slice(&old.0[from * size..(from + 1) * size]);
        a.defined[to..to + size].copy_from_slice(&old.1[from * size..(from + 1) * size]);
    }
}
