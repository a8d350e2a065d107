//! Matrix instructions: shapes, types, passes, and which lane and register hold which element.

use super::vector::{MI200, MI300, MI350};

/// The type of the elements of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Elem {
    F16,
    Bf16,
    F32,
    Xf32,
    F64,
    I8,
    I32,
    Fp8,
    Bf8,
    /// Given by the instruction's fields.
    Any8,
}

impl Elem {
    pub fn bits(self) -> u32 {
        match self {
            Elem::F16 | Elem::Bf16 => 16,
            Elem::F32 | Elem::Xf32 | Elem::I32 => 32,
            Elem::F64 => 64,
            Elem::I8 | Elem::Fp8 | Elem::Bf8 | Elem::Any8 => 8,
        }
    }
}

/// The unit that computes it, for hazards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    /// The matrix core.
    Xdl,
    /// f32 products that do not use it.
    Sgemm,
    /// f64 products.
    Dgemm,
}

/// A row: `blocks` products of `m × k` by `k × m`.
#[derive(Clone, Debug)]
pub(crate) struct MatRow {
    pub name: &'static str,
    pub op: u8,
    pub chips: u8,
    pub m: u32,
    pub k: u32,
    pub blocks: u32,
    pub a: Elem,
    pub b: Elem,
    pub c: Elem,
    /// Passes of four cycles.
    pub passes: u8,
}

impl MatRow {
    pub fn unit(&self) -> Unit {
        match self.a {
            Elem::F64 => Unit::Dgemm,
            Elem::F32 => Unit::Sgemm,
            _ => Unit::Xdl,
        }
    }

    /// Elements of A or B that a lane holds.
    pub fn per_lane(&self) -> u32 {
        self.m * self.k * self.blocks / 64
    }

    /// Registers of A or B, for elements of so many bits.
    pub fn sources(&self, bits: u32) -> u32 {
        (self.per_lane() * bits).div_ceil(32)
    }

    /// Registers of C and D.
    pub fn results(&self) -> u32 {
        self.m * self.m * self.blocks / 64 * self.c.bits() / 32
    }

    /// The row, depth and block of an element of A; B alike, its column in place of the row.
    pub fn source(&self, lane: u32, e: u32) -> (u32, u32, u32) {
        if self.a == Elem::F64 && self.m == 4 {
            return (lane % 4, lane / 16, lane / 4 % 4);
        }
        let (i, group) = (lane % self.m, lane / self.m);
        if self.blocks > 1 { (i, e, group) } else { (i, group * self.per_lane() + e, 0) }
    }

    /// The row, column and block of an element of C or D.
    pub fn result(&self, lane: u32, r: u32) -> (u32, u32, u32) {
        match (self.m, self.a) {
            (4, Elem::F64) => (lane / 16, lane % 4, lane / 4 % 4),
            (4, _) => (r, lane % 4, lane / 4),
            (16, Elem::F64) => (4 * r + lane / 16, lane % 16, 0),
            (16, _) => (4 * (lane / 16) + r % 4, lane % 16, r / 4),
            _ => (8 * (r % 16 / 4) + 4 * (lane / 32) + r % 4, lane % 32, r / 16),
        }
    }
}

/// Where elements are, worked out once per row: by element, then lane.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// An element of A or B in its matrix, blocks after each other, rows (of B: columns) of `k`.
    pub source: Vec<u16>,
    /// An element of C or D: rows of `m`.
    pub result: Vec<u16>,
}

impl MatRow {
    pub fn layout(&self) -> Layout {
        let all = |n: u32, f: &dyn Fn(u32, u32) -> u32| {
            (0..n).flat_map(|e| (0..64).map(move |lane| (lane, e))).map(|(lane, e)| f(lane, e) as u16).collect()
        };
        let source = all(self.per_lane(), &|lane, e| {
            let (i, d, block) = self.source(lane, e);
            (block * self.m + i) * self.k + d
        });
        let result = all(self.m * self.m * self.blocks / 64, &|lane, r| {
            let (i, j, block) = self.result(lane, r);
            (block * self.m + i) * self.m + j
        });
        Layout { source, result }
    }
}

const fn mat(name: &'static str, op: u8, chips: u8, shape: [u32; 3], types: [Elem; 3], passes: u8) -> MatRow {
    let [m, k, blocks] = shape;
    let [a, b, c] = types;
    MatRow { name, op, chips, m, k, blocks, a, b, c, passes }
}

use Elem::{Any8, Bf8, Bf16, F16, F32, F64, Fp8, I8, I32, Xf32};

const ONLY942: u8 = 2;

/// All rows. The names are those of the first chip that has the row; see [`MatRow::chips`].
pub(crate) static MAT: &[MatRow] = &[
    // MI300 and MI350.
    mat("v_mfma_f32_16x16x8_xf32", 62, ONLY942, [16, 8, 1], [Xf32, Xf32, F32], 4),
    mat("v_mfma_f32_32x32x4_xf32", 63, ONLY942, [32, 4, 1], [Xf32, Xf32, F32], 8),
    mat("v_mfma_f32_32x32x1_2b_f32", 64, MI300, [32, 1, 2], [F32, F32, F32], 16),
    mat("v_mfma_f32_16x16x1_4b_f32", 65, MI300, [16, 1, 4], [F32, F32, F32], 8),
    mat("v_mfma_f32_4x4x1_16b_f32", 66, MI300, [4, 1, 16], [F32, F32, F32], 2),
    mat("v_mfma_f32_32x32x2_f32", 68, MI300, [32, 2, 1], [F32, F32, F32], 16),
    mat("v_mfma_f32_16x16x4_f32", 69, MI300, [16, 4, 1], [F32, F32, F32], 8),
    mat("v_mfma_f32_32x32x4_2b_f16", 72, MI300, [32, 4, 2], [F16, F16, F32], 16),
    mat("v_mfma_f32_16x16x4_4b_f16", 73, MI300, [16, 4, 4], [F16, F16, F32], 8),
    mat("v_mfma_f32_4x4x4_16b_f16", 74, MI300, [4, 4, 16], [F16, F16, F32], 2),
    mat("v_mfma_f32_32x32x8_f16", 76, MI300, [32, 8, 1], [F16, F16, F32], 8),
    mat("v_mfma_f32_16x16x16_f16", 77, MI300, [16, 16, 1], [F16, F16, F32], 4),
    mat("v_mfma_i32_32x32x4_2b_i8", 80, MI300, [32, 4, 2], [I8, I8, I32], 16),
    mat("v_mfma_i32_16x16x4_4b_i8", 81, MI300, [16, 4, 4], [I8, I8, I32], 8),
    mat("v_mfma_i32_4x4x4_16b_i8", 82, MI300, [4, 4, 16], [I8, I8, I32], 2),
    mat("v_mfma_i32_32x32x16_i8", 86, MI300, [32, 16, 1], [I8, I8, I32], 8),
    mat("v_mfma_i32_16x16x32_i8", 87, MI300, [16, 32, 1], [I8, I8, I32], 4),
    mat("v_mfma_f32_32x32x4_2b_bf16", 93, MI300, [32, 4, 2], [Bf16, Bf16, F32], 16),
    mat("v_mfma_f32_16x16x4_4b_bf16", 94, MI300, [16, 4, 4], [Bf16, Bf16, F32], 8),
    mat("v_mfma_f32_4x4x4_16b_bf16", 95, MI300, [4, 4, 16], [Bf16, Bf16, F32], 2),
    mat("v_mfma_f32_32x32x8_bf16", 96, MI300, [32, 8, 1], [Bf16, Bf16, F32], 8),
    mat("v_mfma_f32_16x16x16_bf16", 97, MI300, [16, 16, 1], [Bf16, Bf16, F32], 4),
    mat("v_mfma_f64_16x16x4_f64", 110, ONLY942, [16, 4, 1], [F64, F64, F64], 8),
    mat("v_mfma_f64_16x16x4_f64", 110, MI350, [16, 4, 1], [F64, F64, F64], 16),
    mat("v_mfma_f64_4x4x4_4b_f64", 111, MI300, [4, 4, 4], [F64, F64, F64], 4),
    mat("v_mfma_f32_16x16x32_bf8_bf8", 112, MI300, [16, 32, 1], [Bf8, Bf8, F32], 4),
    mat("v_mfma_f32_16x16x32_bf8_fp8", 113, MI300, [16, 32, 1], [Bf8, Fp8, F32], 4),
    mat("v_mfma_f32_16x16x32_fp8_bf8", 114, MI300, [16, 32, 1], [Fp8, Bf8, F32], 4),
    mat("v_mfma_f32_16x16x32_fp8_fp8", 115, MI300, [16, 32, 1], [Fp8, Fp8, F32], 4),
    mat("v_mfma_f32_32x32x16_bf8_bf8", 116, MI300, [32, 16, 1], [Bf8, Bf8, F32], 8),
    mat("v_mfma_f32_32x32x16_bf8_fp8", 117, MI300, [32, 16, 1], [Bf8, Fp8, F32], 8),
    mat("v_mfma_f32_32x32x16_fp8_bf8", 118, MI300, [32, 16, 1], [Fp8, Bf8, F32], 8),
    mat("v_mfma_f32_32x32x16_fp8_fp8", 119, MI300, [32, 16, 1], [Fp8, Fp8, F32], 8),
    // MI350.
    mat("v_mfma_f32_16x16x128_f8f6f4", 45, MI350, [16, 128, 1], [Any8, Any8, F32], 8),
    mat("v_mfma_f32_32x32x64_f8f6f4", 46, MI350, [32, 64, 1], [Any8, Any8, F32], 16),
    mat("v_mfma_f32_16x16x32_bf16", 53, MI350, [16, 32, 1], [Bf16, Bf16, F32], 4),
    mat("v_mfma_i32_16x16x64_i8", 54, MI350, [16, 64, 1], [I8, I8, I32], 4),
    mat("v_mfma_f32_32x32x16_bf16", 55, MI350, [32, 16, 1], [Bf16, Bf16, F32], 8),
    mat("v_mfma_i32_32x32x32_i8", 56, MI350, [32, 32, 1], [I8, I8, I32], 8),
    mat("v_mfma_f32_16x16x32_f16", 84, MI350, [16, 32, 1], [F16, F16, F32], 4),
    mat("v_mfma_f32_32x32x16_f16", 85, MI350, [32, 16, 1], [F16, F16, F32], 8),
    // MI200.
    mat("v_mfma_f32_32x32x1f32", 64, MI200, [32, 1, 2], [F32, F32, F32], 16),
    mat("v_mfma_f32_16x16x1f32", 65, MI200, [16, 1, 4], [F32, F32, F32], 8),
    mat("v_mfma_f32_4x4x1f32", 66, MI200, [4, 1, 16], [F32, F32, F32], 2),
    mat("v_mfma_f32_32x32x2f32", 68, MI200, [32, 2, 1], [F32, F32, F32], 16),
    mat("v_mfma_f32_16x16x4f32", 69, MI200, [16, 4, 1], [F32, F32, F32], 8),
    mat("v_mfma_f32_32x32x4f16", 72, MI200, [32, 4, 2], [F16, F16, F32], 16),
    mat("v_mfma_f32_16x16x4f16", 73, MI200, [16, 4, 4], [F16, F16, F32], 8),
    mat("v_mfma_f32_4x4x4f16", 74, MI200, [4, 4, 16], [F16, F16, F32], 2),
    mat("v_mfma_f32_32x32x8f16", 76, MI200, [32, 8, 1], [F16, F16, F32], 16),
    mat("v_mfma_f32_16x16x16f16", 77, MI200, [16, 16, 1], [F16, F16, F32], 8),
    mat("v_mfma_i32_32x32x4i8", 80, MI200, [32, 4, 2], [I8, I8, I32], 16),
    mat("v_mfma_i32_16x16x4i8", 81, MI200, [16, 4, 4], [I8, I8, I32], 8),
    mat("v_mfma_i32_4x4x4i8", 82, MI200, [4, 4, 16], [I8, I8, I32], 2),
    mat("v_mfma_i32_32x32x8i8", 84, MI200, [32, 8, 1], [I8, I8, I32], 16),
    mat("v_mfma_i32_16x16x16i8", 85, MI200, [16, 16, 1], [I8, I8, I32], 8),
    mat("v_mfma_f32_32x32x4bf16_1k", 99, MI200, [32, 4, 2], [Bf16, Bf16, F32], 16),
    mat("v_mfma_f32_16x16x4bf16_1k", 100, MI200, [16, 4, 4], [Bf16, Bf16, F32], 8),
    mat("v_mfma_f32_4x4x4bf16_1k", 101, MI200, [4, 4, 16], [Bf16, Bf16, F32], 2),
    mat("v_mfma_f32_32x32x8bf16_1k", 102, MI200, [32, 8, 1], [Bf16, Bf16, F32], 16),
    mat("v_mfma_f32_16x16x16bf16_1k", 103, MI200, [16, 16, 1], [Bf16, Bf16, F32], 8),
    mat("v_mfma_f32_32x32x2bf16", 104, MI200, [32, 2, 2], [Bf16, Bf16, F32], 16),
    mat("v_mfma_f32_16x16x2bf16", 105, MI200, [16, 2, 4], [Bf16, Bf16, F32], 8),
    mat("v_mfma_f32_4x4x2bf16", 107, MI200, [4, 2, 16], [Bf16, Bf16, F32], 2),
    mat("v_mfma_f32_32x32x4bf16", 108, MI200, [32, 4, 1], [Bf16, Bf16, F32], 16),
    mat("v_mfma_f32_16x16x8bf16", 109, MI200, [16, 8, 1], [Bf16, Bf16, F32], 8),
    mat("v_mfma_f64_16x16x4f64", 110, MI200, [16, 4, 1], [F64, F64, F64], 8),
    mat("v_mfma_f64_4x4x4f64", 111, MI200, [4, 4, 4], [F64, F64, F64], 4),
];

#[cfg(test)]
mod tests {
    use super::MAT;
    use std::collections::HashSet;

    /// Every element of every operand has exactly one place.
    #[test]
    fn lanes_and_registers_hold_each_element_once() {
        for row in MAT {
            let mut seen = HashSet::new();
            for lane in 0..64 {
                for e in 0..row.per_lane() {
                    let (i, k, b) = row.source(lane, e);
                    assert!(i < row.m && k < row.k && b < row.blocks, "{}", row.name);
                    assert!(seen.insert((i, k, b)), "{} {lane} {e}", row.name);
                }
            }
            assert_eq!(seen.len() as u32, row.m * row.k * row.blocks, "{}", row.name);
            seen.clear();
            for lane in 0..64 {
                for r in 0..row.m * row.m * row.blocks / 64 {
                    let (i, j, b) = row.result(lane, r);
                    assert!(i < row.m && j < row.m && b < row.blocks, "{}", row.name);
                    assert!(seen.insert((i, j, b)), "{} {lane} {r}", row.name);
                }
            }
        }
    }
}
