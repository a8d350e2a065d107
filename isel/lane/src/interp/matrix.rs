//! Matrix instructions, executed from the target's fragment maps alone.
//!
//! The operands of a warp are gathered into small `f64` matrices, multiplied and summed exactly enough (`f64`), rounded once to the
//! accumulator's type, and dealt back. Which lane and register holds which element is tabulated once per instruction.

use super::error::LaneError;
use super::ops::f32_value;
use crate::machine::MatrixInstr;
use crate::value::LVal;
use std::ops::Range;
use tilelift_ir::layout::FragmentMap;
use tilelift_ir::typing::SCALE_BLOCK;
use tilelift_ir::{Precision, Scalar, num};

/// One operand of a matrix instruction.
struct Operand {
    elem: Scalar,
    /// Elements of a lane.
    elements: usize,
    /// Elements of a value.
    per_value: usize,
    /// Row-major element number of element `e` of lane `l`, at `l * elements + e`.
    places: Vec<u32>,
}

impl Operand {
    fn new(map: &FragmentMap, shape: [u32; 2], elem: Scalar, lanes: usize) -> Result<Operand, &'static str> {
        if !map.warp.is_empty() {
            return Err("a fragment spans several warps");
        }
        if map.shape[..] != shape || map.check().is_err() {
            return Err("a fragment does not cover its operand");
        }
        if 1 << map.lane.len() != lanes {
            return Err("a fragment is for warps of another width");
        }
        let elements = 1usize << map.reg.len();
        let columns: Vec<u32> = map.reg.iter().chain(&map.lane).map(|c| c[0] * shape[1] + c[1]).collect();
        // Extents are powers of two, so coordinates combine by xor without carries, and so do row-major numbers.
        let places = (0..lanes * elements)
            .map(|i| columns.iter().enumerate().filter(|(bit, _)| i >> bit & 1 == 1).fold(0, |at, (_, c)| at ^ c))
            .collect();
        Ok(Operand { elem, elements, per_value: (32 / elem.bits().clamp(4, 32)) as usize, places })
    }

    /// The value and bit position of an element of a lane.
    fn slot(&self, element: usize) -> (usize, u32) {
        (element / self.per_value, (element % self.per_value) as u32 * self.elem.bits())
    }

    /// Collects a warp's operand; `first` is the warp's first thread.
    fn gather(&self, regs: &[Vec<u64>], vals: &[LVal], first: usize, tf32: bool, out: &mut [f64]) {
        let mask = u64::MAX >> (64 - self.elem.bits());
        for element in 0..self.elements {
            let (value, shift) = self.slot(element);
            let column = &regs[vals[value].as_u32() as usize][first..];
            for (places, &word) in self.places.chunks_exact(self.elements).zip(column) {
                let bits = word >> shift & mask;
                out[places[element] as usize] = match self.elem {
                    Scalar::F32 if tf32 => num::round_tf32(f32_value(bits)),
                    Scalar::F32 => f32_value(bits),
                    Scalar::F64 => f64::from_bits(bits),
                    Scalar::I1 => bits as f64,
                    Scalar::I4 => f64::from((bits as i8) << 4 >> 4),
                    Scalar::I8 => f64::from(bits as i8),
                    Scalar::I16 => f64::from(bits as i16),
                    Scalar::I32 => f64::from(bits as i32),
                    Scalar::I64 => bits as i64 as f64,
                    Scalar::F16
                    | Scalar::BF16
                    | Scalar::F8E4M3
                    | Scalar::F8E5M2
                    | Scalar::F8E4M3Fnuz
                    | Scalar::F8E5M2Fnuz
                    | Scalar::F8E8M0
                    | Scalar::F4E2M1 => num::from_bits(bits, self.elem),
                };
            }
        }
    }

    /// Deals a result to a warp's lanes.
    fn scatter(&self, dsts: &mut [Vec<u64>], first: usize, from: &[f64]) {
        for element in 0..self.elements {
            let (value, shift) = self.slot(element);
            let mask = u64::MAX >> (64 - self.elem.bits());
            for (places, word) in self.places.chunks_exact(self.elements).zip(&mut dsts[value][first..]) {
                let x = from[places[element] as usize];
                let bits = if self.elem.is_float() {
                    num::to_bits(num::round(x, self.elem), self.elem)
                } else {
                    num::wrap(x as i64, self.elem) as u64
                };
                *word = if self.per_value == 1 {
                    bits
                } else {
                    let rest = if shift == 0 { 0 } else { *word };
                    rest & !(mask << shift) | (bits & mask) << shift
                };
            }
        }
    }
}

/// A matrix instruction, ready to run.
pub(crate) struct MatrixTable {
    shape: [usize; 3],
    tf32: bool,
    a: Operand,
    b: Operand,
    d: Operand,
    scales: Option<[Operand; 2]>,
    scratch: [Vec<f64>; 3],
}

impl MatrixTable {
    pub(crate) fn new(instr: &MatrixInstr, lanes: usize) -> Result<MatrixTable, LaneError> {
        let [m, n, k] = instr.shape;
        let operand =
            |map, shape, elem| Operand::new(map, shape, elem, lanes).map_err(|problem| LaneError::Table { name: instr.name, problem });
        let scales = match &instr.scales {
            Some([a, b]) => Some([operand(a, [m, k / SCALE_BLOCK], Scalar::F8E8M0)?, operand(b, [k / SCALE_BLOCK, n], Scalar::F8E8M0)?]),
            None => None,
        };
        Ok(MatrixTable {
            scales,
            shape: [m, n, k].map(|e| e as usize),
            tf32: instr.precision == Precision::Tf32,
            a: operand(&instr.a, [m, k], instr.operand)?,
            b: operand(&instr.b, [k, n], instr.operand_b)?,
            d: operand(&instr.d, [m, n], instr.acc)?,
            scratch: [m * k, k * n, m * n].map(|len| vec![0.0; len as usize]),
        })
    }

    /// Runs the instruction for every warp of a range of threads: `dsts` are the columns of the result.
    pub(crate) fn run(
        &mut self,
        regs: &[Vec<u64>],
        dsts: &mut [Vec<u64>],
        [a, b, c, scales]: [&[LVal]; 4],
        threads: Range<usize>,
        lanes: usize,
    ) {
        let [_, n, k] = self.shape;
        let [am, bm, cm] = &mut self.scratch;
        for first in threads.step_by(lanes) {
            self.a.gather(regs, a, first, self.tf32, am);
            self.b.gather(regs, b, first, self.tf32, bm);
            self.d.gather(regs, c, first, false, cm);
            if let (Some([of_a, of_b]), &[a, b]) = (&self.scales, scales) {
                let mut scales = vec![0.0; am.len() / SCALE_BLOCK as usize];
                of_a.gather(regs, &[a], first, false, &mut scales);
                am.iter_mut().enumerate().for_each(|(i, x)| *x *= scales[i / SCALE_BLOCK as usize]);
                let mut scales = vec![0.0; bm.len() / SCALE_BLOCK as usize];
                of_b.gather(regs, &[b], first, false, &mut scales);
                bm.iter_mut().enumerate().for_each(|(i, y)| *y *= scales[i / n / SCALE_BLOCK as usize * n + i % n]);
            }
            for (row, sums) in am.chunks_exact(k).zip(cm.chunks_exact_mut(n)) {
                for (&x, line) in row.iter().zip(bm.chunks_exact(n)) {
                    sums.iter_mut().zip(line).for_each(|(sum, &y)| *sum += x * y);
                }
            }
            self.d.scatter(dsts, first, cm);
        }
    }
}
