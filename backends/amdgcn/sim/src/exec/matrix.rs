//! Matrix instructions. EXEC does not count. Products of floats are exact in f64 and summed there with the addend; the sum is rounded
//! once. Hardware sums in an order and precision of its own, so results are to be compared with a tolerance.

use super::{Ctx, Result, inline};
use crate::decode::inst::{File, Matrix, Src};
use crate::fault::FaultKind;
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
        let mut a = factor(self.wave, row, shape(m.a, row.a, m.cbsz)?, &|l| l);
        let blgp = if any || row.a == Elem::F64 { 0 } else { m.blgp };
        let mut b = factor(self.wave, row, shape(m.b, row.b, m.blgp)?, &|l| permuted(blgp, l));
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
        let results = row.results() as usize / width;
        let mut out = Vec::with_capacity(64 * results);
        for lane in 0..64usize {
            for r in 0..results {
                let (i, j, block) = row.result(lane as u32, r as u32);
                let (ra, rb) = ((block as usize * mm + i as usize) * kk, (block as usize * mm + j as usize) * kk);
                let (x, y) = (&a.values[ra..ra + kk], &b.values[rb..rb + kk]);
                let (old, mut defined) = match c {
                    Ok(v) => (v, true),
                    Err(slot) => {
                        let at = slot + r * width;
                        let high = if width == 2 { u64::from(self.wave.v[at + 1][lane]) << 32 } else { 0 };
                        let d = (at..at + width).all(|s| self.wave.v_defined[s] >> lane & 1 != 0);
                        (u64::from(self.wave.v[at][lane]) | high, d)
                    }
                };
                if !(a.all && b.all) {
                    defined &= a.defined[ra..ra + kk].iter().chain(&b.defined[rb..rb + kk]).all(|&d| d);
                }
                let value = match row.c {
                    Elem::I32 => {
                        let sum: i64 = x.iter().zip(y).map(|(&p, &q)| p as i64 * q as i64).sum();
                        (sum + i64::from(old as i32)) as u64 & ones(32)
                    }
                    Elem::F64 => {
                        let first = f64::from_bits(old);
                        x.iter().zip(y).fold(if negate_c { -first } else { first }, |s, (&p, &q)| p.mul_add(q, s)).to_bits()
                    }
                    _ => {
                        let sum: f64 = x.iter().zip(y).map(|(&p, &q)| p * q).sum();
                        u64::from(((sum + f64::from(f32::from_bits(old as u32))) as f32).to_bits())
                    }
                };
                out.push((value, defined));
            }
        }
        for (n, (value, defined)) in out.into_iter().enumerate() {
            let (lane, r) = (n / results, n % results);
            for w in 0..width {
                self.wave.set_v(dst + r * width + w, lane, (value >> (32 * w)) as u32, defined);
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
fn mixed_place(row: &MatRow, format: u8, lane: u32, e: u32) -> (u32, u32, u32) {
    let (i, group) = (lane % row.m, lane / row.m);
    if format <= 1 {
        let half = row.k / 2;
        (i, half * (e / 16) + 16 * group + e % 16, 0)
    } else {
        (i, 32 * group + e, 0)
    }
}

fn factor(wave: &Wave, row: &MatRow, shape: Shape, from: &dyn Fn(usize) -> usize) -> Factor {
    let (m, k) = (row.m as usize, row.k as usize);
    let n = m * k * row.blocks as usize;
    let mut f = Factor { values: vec![0.0; n], defined: vec![true; n], all: true };
    for lane in 0..64 {
        let source = from(lane);
        for e in 0..row.per_lane() {
            let at = e * shape.bits;
            let (slot, shift) = (shape.slot + (at / 32) as usize, at % 32);
            let mut bits = u64::from(wave.v[slot][source]);
            let mut defined = wave.v_defined[slot] >> source & 1 != 0;
            if shift + shape.bits > 32 {
                bits |= u64::from(wave.v[slot + 1][source]) << 32;
                defined &= wave.v_defined[slot + 1] >> source & 1 != 0;
            }
            let (i, d, block) = match shape.format {
                Some(format) => mixed_place(row, format, lane as u32, e),
                None => row.source(lane as u32, e),
            };
            let place = (block as usize * m + i as usize) * k + d as usize;
            f.values[place] = shape.read.value(bits >> shift & ones(shape.bits));
            f.defined[place] = defined;
            f.all &= defined;
        }
    }
    f
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
