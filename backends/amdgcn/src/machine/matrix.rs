//! The matrix instructions that lane programs may ask for, and the machine instruction behind each.
//!
//! Fragments of a matrix instruction of shape MxNxK, lane `l`, element `e` of the lane (A and B), result `r` of the lane (C and D):
//!
//! ```text
//! A   i = l % M            k = L (l / M) + e        L = K M / 64 elements per lane
//! B   j = l % N            k = L (l / N) + e
//! D   32x32                i = 8 (r / 4) + 4 (l / 32) + r % 4      j = l % 32
//! D   16x16                i = 4 (l / 16) + r                      j = l % 16
//! D   16x16 of f64         i = 4 r + l / 16                        j = l % 16
//! ```
//!
//! A lane of the deepest instructions of 8-bit floats (`f8f6f4`) has two runs of 16 along the depth, one in either half of it: `k = K/2 (e / 16) + 16 (l / M) + e % 16`.
//! Of 4-bit floats it has one run of 32, as the rule says. Those that take scales have the scale of row (column) `l % M` and of the 32 elements from `k = 32 (l / M)` on in
//! lane `l`, whichever lanes hold these elements.
//!
//! Source: AMD matrix instruction calculator, CDNA2 and CDNA3 tables; the instructions of gfx950 that are twice as deep follow the same rule. Two runs:
//! AMD's article on matrix cores of 2025 for 32x32x64, and for both what Composable Kernel says of its products with scales. Without scales a product is right in any
//! order of its terms, if A and B have them alike; with scales it is not.

use crate::chip::Chip;
use crate::isa::{Opcode, Variant};
use crate::mir::Mods;
use tilelift_ir::layout::FragmentMap;
use tilelift_ir::typing::SCALE_BLOCK;
use tilelift_ir::{Precision, Scalar};
use tilelift_isel::MatrixInstr;

use Opcode::*;
use Scalar::{BF16, F4E2M1, F8E4M3, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, F16, F32, F64, I8, I32};

/// Lanes of a wavefront.
pub(super) const LANES: u32 = 64;

/// A matrix instruction with one block: M = N is 16 or 32.
#[derive(Clone, Copy)]
struct MatrixRow {
    code: Opcode,
    m: u32,
    k: u32,
    operands: [Scalar; 2],
    acc: Scalar,
    precision: Precision,
    /// The instruction takes scales.
    scaled: bool,
    /// The chips on which the instruction takes these types; all that have it, if nothing is said.
    only: Option<Chip>,
}

const fn row(code: Opcode, m: u32, k: u32, operand: Scalar, acc: Scalar) -> MatrixRow {
    MatrixRow { code, m, k, operands: [operand; 2], acc, precision: Precision::Exact, scaled: false, only: None }
}

const fn tf32(code: Opcode, m: u32, k: u32) -> MatrixRow {
    MatrixRow { precision: Precision::Tf32, ..row(code, m, k, F32, F32) }
}

/// 8-bit floats: those of gfx942 have no infinity and no negative zero.
const fn of_codes(only: Chip, code: Opcode, m: u32, k: u32, operands: [Scalar; 2]) -> MatrixRow {
    MatrixRow { operands, only: Some(only), ..row(code, m, k, F32, F32) }
}

/// The deeper, then the larger shape of a type stands first: it reads each operand element once for twice as many products.
///
/// Where there are no instructions of tf32, those of f32 take its place: their operands are rounded before, and a product of two tf32
/// numbers is a number of f32.
const ROWS: &[MatrixRow] = &[
    row(VMfmaF32_32x32x16F16, 32, 16, F16, F32),
    row(VMfmaF32_16x16x32F16, 16, 32, F16, F32),
    row(VMfmaF32_32x32x8F16, 32, 8, F16, F32),
    row(VMfmaF32_16x16x16F16, 16, 16, F16, F32),
    row(VMfmaF32_32x32x16Bf16, 32, 16, BF16, F32),
    row(VMfmaF32_16x16x32Bf16, 16, 32, BF16, F32),
    row(VMfmaF32_32x32x8Bf16, 32, 8, BF16, F32),
    row(VMfmaF32_16x16x16Bf16, 16, 16, BF16, F32),
    tf32(VMfmaF32_32x32x4Xf32, 32, 4),
    tf32(VMfmaF32_16x16x8Xf32, 16, 8),
    MatrixRow { only: Some(Chip::Gfx90a), ..tf32(VMfmaF32_32x32x2F32, 32, 2) },
    MatrixRow { only: Some(Chip::Gfx90a), ..tf32(VMfmaF32_16x16x4F32, 16, 4) },
    MatrixRow { only: Some(Chip::Gfx950), ..tf32(VMfmaF32_32x32x2F32, 32, 2) },
    MatrixRow { only: Some(Chip::Gfx950), ..tf32(VMfmaF32_16x16x4F32, 16, 4) },
    row(VMfmaF32_32x32x2F32, 32, 2, F32, F32),
    row(VMfmaF32_16x16x4F32, 16, 4, F32, F32),
    row(VMfmaI32_32x32x32I8, 32, 32, I8, I32),
    row(VMfmaI32_16x16x64I8, 16, 64, I8, I32),
    row(VMfmaI32_32x32x16I8, 32, 16, I8, I32),
    row(VMfmaI32_16x16x32I8, 16, 32, I8, I32),
    row(VMfmaI32_32x32x8I8, 32, 8, I8, I32),
    row(VMfmaI32_16x16x16I8, 16, 16, I8, I32),
    of_codes(Chip::Gfx942, VMfmaF32_32x32x16Fp8Fp8, 32, 16, [F8E4M3Fnuz; 2]),
    of_codes(Chip::Gfx942, VMfmaF32_16x16x32Fp8Fp8, 16, 32, [F8E4M3Fnuz; 2]),
    of_codes(Chip::Gfx942, VMfmaF32_32x32x16Bf8Bf8, 32, 16, [F8E5M2Fnuz; 2]),
    of_codes(Chip::Gfx942, VMfmaF32_16x16x32Bf8Bf8, 16, 32, [F8E5M2Fnuz; 2]),
    of_codes(Chip::Gfx942, VMfmaF32_32x32x16Fp8Bf8, 32, 16, [F8E4M3Fnuz, F8E5M2Fnuz]),
    of_codes(Chip::Gfx942, VMfmaF32_16x16x32Fp8Bf8, 16, 32, [F8E4M3Fnuz, F8E5M2Fnuz]),
    of_codes(Chip::Gfx942, VMfmaF32_32x32x16Bf8Fp8, 32, 16, [F8E5M2Fnuz, F8E4M3Fnuz]),
    of_codes(Chip::Gfx942, VMfmaF32_16x16x32Bf8Fp8, 16, 32, [F8E5M2Fnuz, F8E4M3Fnuz]),
    of_codes(Chip::Gfx950, VMfmaF32_32x32x64F8f6f4, 32, 64, [F8E4M3; 2]),
    of_codes(Chip::Gfx950, VMfmaF32_16x16x128F8f6f4, 16, 128, [F8E4M3; 2]),
    of_codes(Chip::Gfx950, VMfmaF32_32x32x64F8f6f4, 32, 64, [F8E5M2; 2]),
    of_codes(Chip::Gfx950, VMfmaF32_16x16x128F8f6f4, 16, 128, [F8E5M2; 2]),
    of_codes(Chip::Gfx950, VMfmaF32_32x32x64F8f6f4, 32, 64, [F8E4M3, F8E5M2]),
    of_codes(Chip::Gfx950, VMfmaF32_16x16x128F8f6f4, 16, 128, [F8E4M3, F8E5M2]),
    of_codes(Chip::Gfx950, VMfmaF32_32x32x64F8f6f4, 32, 64, [F8E5M2, F8E4M3]),
    of_codes(Chip::Gfx950, VMfmaF32_16x16x128F8f6f4, 16, 128, [F8E5M2, F8E4M3]),
    of_codes(Chip::Gfx950, VMfmaF32_32x32x16Fp8Fp8, 32, 16, [F8E4M3; 2]),
    of_codes(Chip::Gfx950, VMfmaF32_16x16x32Fp8Fp8, 16, 32, [F8E4M3; 2]),
    of_codes(Chip::Gfx950, VMfmaF32_32x32x16Bf8Bf8, 32, 16, [F8E5M2; 2]),
    of_codes(Chip::Gfx950, VMfmaF32_16x16x32Bf8Bf8, 16, 32, [F8E5M2; 2]),
    of_codes(Chip::Gfx950, VMfmaF32_32x32x16Fp8Bf8, 32, 16, [F8E4M3, F8E5M2]),
    of_codes(Chip::Gfx950, VMfmaF32_16x16x32Fp8Bf8, 16, 32, [F8E4M3, F8E5M2]),
    of_codes(Chip::Gfx950, VMfmaF32_32x32x16Bf8Fp8, 32, 16, [F8E5M2, F8E4M3]),
    of_codes(Chip::Gfx950, VMfmaF32_16x16x32Bf8Fp8, 16, 32, [F8E5M2, F8E4M3]),
    row(VMfmaF64_16x16x4F64, 16, 4, F64, F64),
];

/// The formats of the instructions that take scales, in any pair.
const SCALED: [Scalar; 3] = [F8E4M3, F8E5M2, F4E2M1];

/// The instructions that take scales, the larger shape first.
fn scaled_rows() -> impl Iterator<Item = MatrixRow> {
    let pairs = SCALED.into_iter().flat_map(|a| SCALED.map(|b| [a, b]));
    let shapes = [(VMfmaScaleF32_32x32x64F8f6f4, 32, 64), (VMfmaScaleF32_16x16x128F8f6f4, 16, 128)];
    pairs.flat_map(move |operands| shapes.map(|(code, m, k)| MatrixRow { operands, scaled: true, ..row(code, m, k, F32, F32) }))
}

/// The rows of a chip.
fn rows(chip: Chip) -> impl Iterator<Item = MatrixRow> {
    let all = ROWS.iter().copied().chain(scaled_rows());
    all.filter(move |r| r.only.is_none_or(|c| c == chip) && r.code.desc().number(chip).is_some())
}

/// The matrix instructions of a chip, preferred first.
pub(super) fn instructions(chip: Chip) -> Vec<MatrixInstr> {
    rows(chip).map(|r| r.instr(chip)).collect()
}

/// The machine instruction of a matrix instruction, and what it says of its operands, if the chip has one.
pub(crate) fn code(chip: Chip, instr: &MatrixInstr) -> Option<(Opcode, Mods)> {
    let same = |r: &MatrixRow| {
        let [m, n, k] = instr.shape;
        let types = [instr.operand, instr.operand_b] == r.operands && instr.precision == r.precision;
        types && [m, n, k] == [r.m, r.m, r.k] && instr.scales.is_some() == r.scaled
    };
    rows(chip).find(same).map(|r| (r.code, r.mods()))
}

/// Bytes of a run along the depth in the registers of instructions whose formats modifiers name.
const RUN: u32 = 16;

/// The number of a format in the field of such an instruction.
fn format(operand: Scalar) -> u8 {
    match operand {
        F8E5M2 => 1,
        F4E2M1 => 4,
        // `f8e4m3`; no row has others.
        _ => 0,
    }
}

impl MatrixRow {
    fn instr(&self, chip: Chip) -> MatrixInstr {
        let MatrixRow { code, m, k, operands: [operand, operand_b], acc, precision, scaled, .. } = *self;
        MatrixInstr {
            name: code.desc().mnemonic(chip),
            shape: [m, m, k],
            operand,
            operand_b,
            acc,
            precision,
            a: self.operand_map(false),
            b: self.operand_map(true),
            d: result_map(m, acc),
            scales: scaled.then(|| [self.scale_map(false), self.scale_map(true)]),
        }
    }

    /// True if modifiers name the formats of A and B.
    fn narrow(&self) -> bool {
        self.code.desc().form.variant == Variant::Narrow
    }

    fn mods(&self) -> Mods {
        match self.narrow() {
            true => Mods { cbsz: format(self.operands[0]), blgp: format(self.operands[1]), ..Mods::default() },
            false => Mods::default(),
        }
    }

    /// A as (m, k), or B as (k, n): both have one rule with the roles of the dimensions swapped.
    fn operand_map(&self, swapped: bool) -> FragmentMap {
        let (m, k) = (self.m, self.k);
        let per_lane = k * m / LANES;
        let (outer, inner) = if swapped { (1, 0) } else { (0, 1) };
        let shape = if swapped { [k, m] } else { [m, k] };
        let rows = run(outer, 1, m);
        if self.narrow() && self.operands[usize::from(swapped)].bits() == 8 {
            return map(shape, run(inner, 1, RUN).chain(run(inner, k / 2, k)), rows.chain(run(inner, RUN, k / 2)));
        }
        map(shape, run(inner, 1, per_lane), rows.chain(run(inner, per_lane, k)))
    }
}

impl MatrixRow {
    /// The scales of A as (m, k / 32), or those of B as (k / 32, n): a lane has that of its row, and of the block with the number of its group of lanes.
    fn scale_map(&self, swapped: bool) -> FragmentMap {
        let (m, blocks) = (self.m, self.k / SCALE_BLOCK);
        let (outer, inner) = if swapped { (1, 0) } else { (0, 1) };
        let shape = if swapped { [blocks, m] } else { [m, blocks] };
        map(shape, std::iter::empty(), run(outer, 1, m).chain(run(inner, 1, blocks)))
    }
}

/// The powers of two from `low` up to below `high`, as the columns of a run of bits along one dimension.
fn run(dim: usize, low: u32, high: u32) -> impl Iterator<Item = [u32; 2]> {
    (low.trailing_zeros()..high.trailing_zeros()).map(move |bit| {
        let mut column = [0; 2];
        column[dim] = 1 << bit;
        column
    })
}

fn map(shape: [u32; 2], reg: impl Iterator<Item = [u32; 2]>, lane: impl Iterator<Item = [u32; 2]>) -> FragmentMap {
    FragmentMap {
        shape: shape.into_iter().collect(),
        reg: reg.map(|c| c.into_iter().collect()).collect(),
        lane: lane.map(|c| c.into_iter().collect()).collect(),
        warp: Vec::new(),
        rep_order: vec![1, 0],
    }
}

/// C and D as (m, n).
fn result_map(m: u32, acc: Scalar) -> FragmentMap {
    if acc == Scalar::F64 {
        map([m, m], run(0, 4, m), run(1, 1, m).chain(run(0, 1, 4)))
    } else {
        // Four rows in registers, then the rows that the upper lanes hold, then registers again.
        let lane_rows = 4 * LANES / m;
        map([m, m], run(0, 1, 4).chain(run(0, lane_rows, m)), run(1, 1, m).chain(run(0, 4, lane_rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where bits of an index point, by xor of columns.
    fn at(map: &FragmentMap, element: u32, lane: u32) -> [u32; 2] {
        let mut c = [0; 2];
        for (columns, index) in [(&map.reg, element), (&map.lane, lane)] {
            for (bit, column) in columns.iter().enumerate() {
                if index >> bit & 1 == 1 {
                    c[0] ^= column[0];
                    c[1] ^= column[1];
                }
            }
        }
        c
    }

    #[test]
    fn every_fragment_follows_the_closed_formulas() {
        for instr in Chip::ALL.into_iter().flat_map(instructions) {
            let [m, n, k] = instr.shape;
            assert_eq!(m, n);
            let per_lane = k * m / 64;
            for (map, elements) in [(&instr.a, per_lane), (&instr.b, per_lane), (&instr.d, m * n / 64)] {
                map.check().unwrap();
                assert_eq!((1 << map.reg.len(), 1 << map.lane.len()), (elements, 64), "{}", instr.name);
            }
            for l in 0..64 {
                for e in 0..per_lane {
                    let along = |elem: Scalar| match (per_lane, elem.bits()) {
                        (32, 8) => k / 2 * (e / 16) + 16 * (l / m) + e % 16,
                        _ => per_lane * (l / m) + e,
                    };
                    assert_eq!(at(&instr.a, e, l), [l % m, along(instr.operand)], "{} A", instr.name);
                    assert_eq!(at(&instr.b, e, l), [along(instr.operand_b), l % n], "{} B", instr.name);
                }
                if let Some([of_a, of_b]) = &instr.scales {
                    assert_eq!((at(of_a, 0, l), at(of_b, 0, l)), ([l % m, l / m], [l / n, l % n]), "{} scales", instr.name);
                }
                for r in 0..m * n / 64 {
                    let i = match (instr.acc, m) {
                        (Scalar::F64, _) => 4 * r + l / 16,
                        (_, 16) => 4 * (l / 16) + r,
                        _ => 8 * (r / 4) + 4 * (l / 32) + r % 4,
                    };
                    assert_eq!(at(&instr.d, r, l), [i, l % n], "{} D", instr.name);
                }
            }
        }
    }

    /// The published listing gives A's k from the register and the bits within it, and D's row from the register:
    /// name, M, K, registers of A, registers of D, k of (lane, register, bit), row of (lane, register).
    #[test]
    fn every_fragment_follows_the_published_listing() {
        type Along = fn(u32, u32, u32) -> u32;
        type Line = fn(u32, u32) -> u32;
        let d16: Line = |lane, gpr| 4 * (lane / 16) + gpr % 4;
        let d32: Line = |lane, gpr| 8 * (gpr / 4) % 32 + 4 * (lane / 32) + gpr % 4;
        let listing: [(&str, u32, u32, u32, u32, Along, Line); 14] = [
            ("v_mfma_f32_32x32x8_f16", 32, 8, 2, 16, |l, g, b| 4 * (l / 32) + 2 * g + b / 16, d32),
            ("v_mfma_f32_16x16x16_f16", 16, 16, 2, 4, |l, g, b| 4 * (l / 16) + 2 * g + b / 16, d16),
            ("v_mfma_f32_32x32x8_bf16", 32, 8, 2, 16, |l, g, b| 4 * (l / 32) + 2 * g + b / 16, d32),
            ("v_mfma_f32_16x16x16_bf16", 16, 16, 2, 4, |l, g, b| 4 * (l / 16) + 2 * g + b / 16, d16),
            ("v_mfma_f32_32x32x4_xf32", 32, 4, 2, 16, |l, g, _| 2 * (l / 32) + g, d32),
            ("v_mfma_f32_16x16x8_xf32", 16, 8, 2, 4, |l, g, _| 2 * (l / 16) + g, d16),
            ("v_mfma_f32_32x32x2_f32", 32, 2, 1, 16, |l, _, _| l / 32, d32),
            ("v_mfma_f32_16x16x4_f32", 16, 4, 1, 4, |l, _, _| l / 16, d16),
            ("v_mfma_i32_32x32x16_i8", 32, 16, 2, 16, |l, g, b| 8 * (l / 32) + 4 * g + b / 8, d32),
            ("v_mfma_i32_16x16x32_i8", 16, 32, 2, 4, |l, g, b| 8 * (l / 16) + 4 * g + b / 8, d16),
            ("v_mfma_f32_32x32x8bf16_1k", 32, 8, 2, 16, |l, g, b| 4 * (l / 32) + 2 * g + b / 16, d32),
            ("v_mfma_f32_16x16x16bf16_1k", 16, 16, 2, 4, |l, g, b| 4 * (l / 16) + 2 * g + b / 16, d16),
            ("v_mfma_i32_32x32x8i8", 32, 8, 1, 16, |l, _, b| 4 * (l / 32) + b / 8, d32),
            ("v_mfma_i32_16x16x16i8", 16, 16, 1, 4, |l, _, b| 4 * (l / 16) + b / 8, d16),
        ];
        let all: Vec<MatrixInstr> = [Chip::Gfx90a, Chip::Gfx942].into_iter().flat_map(instructions).collect();
        for (name, m, k, a_registers, d_registers, along, line) in listing {
            let instr = all.iter().find(|i| i.name == name).unwrap();
            assert_eq!(instr.shape, [m, m, k], "{name}");
            let per_register = 32 / instr.operand.bits();
            for lane in 0..64 {
                for gpr in 0..a_registers {
                    for part in 0..per_register {
                        let want = along(lane, gpr, part * instr.operand.bits());
                        assert_eq!(at(&instr.a, gpr * per_register + part, lane), [lane % m, want], "{name} A");
                    }
                }
                for gpr in 0..d_registers {
                    assert_eq!(at(&instr.d, gpr, lane), [line(lane, gpr), lane % m], "{name} D");
                }
            }
            assert_eq!(1 << instr.a.reg.len(), a_registers * per_register, "{name}");
            assert_eq!(1 << instr.d.reg.len(), d_registers, "{name}");
        }
    }

    #[test]
    fn every_matrix_instruction_has_one_machine_instruction() {
        for chip in Chip::ALL {
            for (at, row) in rows(chip).enumerate() {
                assert_eq!(code(chip, &row.instr(chip)), Some((row.code, row.mods())), "{chip} {:?}", row.code);
                let alike =
                    |r: MatrixRow| (r.m, r.k, r.operands, r.precision, r.scaled) == (row.m, row.k, row.operands, row.precision, row.scaled);
                assert_eq!(rows(chip).position(alike), Some(at), "{chip} {:?}", row.code);
            }
        }
    }
}
