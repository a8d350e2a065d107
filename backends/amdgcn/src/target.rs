//! The target table of gfx942 (CDNA3: MI300A, MI300X, MI325X).
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
//! Source: AMD matrix instruction calculator, CDNA3 tables.

use tilelift_ir::layout::{BankModel, FragmentMap};
use tilelift_ir::{Precision, Scalar};
use tilelift_isel::lane::UnOp;
use tilelift_isel::{Costs, MatrixInstr, Target};

/// Lanes of a wavefront.
const LANES: u32 = 64;

/// The target of a chip's name, if the backend serves it.
pub fn by_name(name: &str) -> Option<Target> {
    (name == "gfx942").then(gfx942)
}

/// gfx942: MI300A, MI300X, MI325X.
///
/// A program instance may use 64 KiB of local data share and 16 wavefronts; a lane has 512 32-bit registers (256 of each kind, which
/// the matrix instructions address alike). There are no asynchronous copies and no matrix loads.
pub fn gfx942() -> Target {
    Target {
        name: "gfx942",
        lanes: LANES,
        max_warps: 16,
        shared_bytes: 65536,
        registers: 512,
        vector_bytes: 16,
        banks: BankModel::cdna3(),
        matrix: MATRIX.iter().map(Row::instr).collect(),
        copy_async: &[],
        code_casts: &[],
        packed_halves: false,
        functions: FUNCTIONS,
        // `v_div_scale`, `v_div_fmas` and `v_div_fixup` are there for them.
        quotients: &[Scalar::F32, Scalar::F64, Scalar::F16],
        load_matrix: false,
        early_launch: false,
        costs: CDNA3,
        rates: None,
        units: None,
    }
}

/// `v_exp`, `v_log`, `v_rsq` and `v_rcp` of `f32` and `f16` are off by a unit in the last place ("AMD Instinct MI300 Instruction Set
/// Architecture"); those of `f64` are first guesses, and `v_sqrt` does not round to nearest.
const FUNCTIONS: &[(UnOp, Scalar)] = &[
    (UnOp::Exp2, Scalar::F32),
    (UnOp::Exp2, Scalar::F16),
    (UnOp::Log2, Scalar::F32),
    (UnOp::Log2, Scalar::F16),
    (UnOp::Rsqrt, Scalar::F32),
    (UnOp::Rsqrt, Scalar::F16),
    (UnOp::Rcp, Scalar::F32),
    (UnOp::Rcp, Scalar::F16),
    (UnOp::RcpNormal, Scalar::F32),
];

/// CDNA3, from its documented rates, not measured: four units of 16 lanes, 128 bytes of shared memory a cycle, 5.3 TB/s over 304 compute
/// units at 2.1 GHz.
const CDNA3: Costs = Costs {
    alu: 16,
    special: 64,
    product: 16,
    shuffle: 32,
    step_latency: [256, 512],
    wavefront: 16,
    shared_latency: 1024,
    barrier: [320, 32],
    global_latency: 12_800,
    sector: 62,
    line: 16,
    spill: 128,
    group_product: 0,
    group_operands: [0; 2],
    group_left: 0,
    group_wait: 0,
    box_start: 0,
    box_row: 0,
    box_sector: 0,
    chain: 128,
    processors: 304,
    megahertz: 2100,
    launch: 2500,
};

/// A matrix instruction with one block: M = N is 16 or 32.
struct Row {
    name: &'static str,
    m: u32,
    k: u32,
    operand: Scalar,
    operand_b: Scalar,
    acc: Scalar,
    precision: Precision,
}

const fn row(name: &'static str, m: u32, k: u32, operand: Scalar, acc: Scalar) -> Row {
    Row { name, m, k, operand, operand_b: operand, acc, precision: Precision::Exact }
}

const fn of_two_types(name: &'static str, m: u32, k: u32, operand: Scalar, operand_b: Scalar) -> Row {
    Row { name, m, k, operand, operand_b, acc: Scalar::F32, precision: Precision::Exact }
}

const fn tf32(name: &'static str, m: u32, k: u32) -> Row {
    Row { name, m, k, operand: Scalar::F32, operand_b: Scalar::F32, acc: Scalar::F32, precision: Precision::Tf32 }
}

/// The larger shape of a type stands first: it reads each operand element once for twice as many products.
const MATRIX: &[Row] = &[
    row("v_mfma_f32_32x32x8_f16", 32, 8, Scalar::F16, Scalar::F32),
    row("v_mfma_f32_16x16x16_f16", 16, 16, Scalar::F16, Scalar::F32),
    row("v_mfma_f32_32x32x8_bf16", 32, 8, Scalar::BF16, Scalar::F32),
    row("v_mfma_f32_16x16x16_bf16", 16, 16, Scalar::BF16, Scalar::F32),
    tf32("v_mfma_f32_32x32x4_xf32", 32, 4),
    tf32("v_mfma_f32_16x16x8_xf32", 16, 8),
    row("v_mfma_f32_32x32x2_f32", 32, 2, Scalar::F32, Scalar::F32),
    row("v_mfma_f32_16x16x4_f32", 16, 4, Scalar::F32, Scalar::F32),
    row("v_mfma_i32_32x32x16_i8", 32, 16, Scalar::I8, Scalar::I32),
    row("v_mfma_i32_16x16x32_i8", 16, 32, Scalar::I8, Scalar::I32),
    // The 8-bit floats of this chip have no infinity and no negative zero.
    row("v_mfma_f32_32x32x16_fp8_fp8", 32, 16, Scalar::F8E4M3Fnuz, Scalar::F32),
    row("v_mfma_f32_16x16x32_fp8_fp8", 16, 32, Scalar::F8E4M3Fnuz, Scalar::F32),
    row("v_mfma_f32_32x32x16_bf8_bf8", 32, 16, Scalar::F8E5M2Fnuz, Scalar::F32),
    row("v_mfma_f32_16x16x32_bf8_bf8", 16, 32, Scalar::F8E5M2Fnuz, Scalar::F32),
    of_two_types("v_mfma_f32_32x32x16_fp8_bf8", 32, 16, Scalar::F8E4M3Fnuz, Scalar::F8E5M2Fnuz),
    of_two_types("v_mfma_f32_16x16x32_fp8_bf8", 16, 32, Scalar::F8E4M3Fnuz, Scalar::F8E5M2Fnuz),
    of_two_types("v_mfma_f32_32x32x16_bf8_fp8", 32, 16, Scalar::F8E5M2Fnuz, Scalar::F8E4M3Fnuz),
    of_two_types("v_mfma_f32_16x16x32_bf8_fp8", 16, 32, Scalar::F8E5M2Fnuz, Scalar::F8E4M3Fnuz),
    row("v_mfma_f64_16x16x4_f64", 16, 4, Scalar::F64, Scalar::F64),
];

impl Row {
    fn instr(&self) -> MatrixInstr {
        let Row { name, m, k, operand, operand_b, acc, precision } = *self;
        MatrixInstr {
            name,
            shape: [m, m, k],
            operand,
            operand_b,
            acc,
            precision,
            a: operand_map(m, k, false),
            b: operand_map(m, k, true),
            d: result_map(m, acc),
        }
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

/// A as (m, k), or B as (k, n): both have one rule with the roles of the dimensions swapped.
fn operand_map(m: u32, k: u32, swapped: bool) -> FragmentMap {
    let per_lane = k * m / LANES;
    let (outer, inner) = if swapped { (1, 0) } else { (0, 1) };
    let shape = if swapped { [k, m] } else { [m, k] };
    map(shape, run(inner, 1, per_lane), run(outer, 1, m).chain(run(inner, per_lane, k)))
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
        let target = gfx942();
        assert_eq!(target.matrix.len(), MATRIX.len());
        for instr in &target.matrix {
            let [m, n, k] = instr.shape;
            assert_eq!(m, n);
            let per_lane = k * m / 64;
            for (map, elements) in [(&instr.a, per_lane), (&instr.b, per_lane), (&instr.d, m * n / 64)] {
                map.check().unwrap();
                assert_eq!((1 << map.reg.len(), 1 << map.lane.len()), (elements, 64), "{}", instr.name);
            }
            for l in 0..64 {
                for e in 0..per_lane {
                    let along = per_lane * (l / m) + e;
                    assert_eq!(at(&instr.a, e, l), [l % m, along], "{} A", instr.name);
                    assert_eq!(at(&instr.b, e, l), [along, l % n], "{} B", instr.name);
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
        let listing: [(&str, u32, u32, u32, u32, Along, Line); 10] = [
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
        ];
        let target = gfx942();
        for (name, m, k, a_registers, d_registers, along, line) in listing {
            let instr = target.matrix.iter().find(|i| i.name == name).unwrap();
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
    fn the_frame_of_the_table() {
        let t = gfx942();
        assert_eq!((t.lanes, t.lanes * t.max_warps, t.shared_bytes), (64, 1024, 64 << 10));
        assert!(t.copy_async.is_empty() && !t.load_matrix);
        let offered = |operand, precision| t.matrix.iter().any(|i| i.operand == operand && i.precision == precision);
        assert!(offered(Scalar::F32, Precision::Tf32) && offered(Scalar::F32, Precision::Exact));
        assert!([Scalar::F16, Scalar::BF16, Scalar::I8, Scalar::F64].iter().all(|&s| offered(s, Precision::Exact)));
    }
}
