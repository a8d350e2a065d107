//! NVIDIA chips as data.
//!
//! Fragments are listed as `(dim 0, dim 1)` steps of each register and lane bit, low bit first. With `g = lane / 4` and
//! `t = lane % 4` (PTX ISA, "Matrix Fragments for mma.m16n8k16" and its siblings):
//!
//! ```text
//!               register bits          lane bits: t, t, g, g, g
//! D m16n8       (0,1) (8,0)            (0,2) (0,4) (1,0) (2,0) (4,0)      row g (+8), columns 2t, 2t+1
//! A m16k16      (0,1) (8,0) (0,8)      (0,2) (0,4) (1,0) (2,0) (4,0)      16-bit elements
//! B k16n8       (1,0) (8,0)            (2,0) (4,0) (0,1) (0,2) (0,4)
//! ```
//!
//! Two registers of 16 bits, or four of 8, make one `b32` of the instruction.

use tilelift_ir::layout::{BankModel, Coord, FragmentMap};
use tilelift_ir::{Precision, Scalar};
use tilelift_isel::lane::UnOp;
use tilelift_isel::{BulkTensor, Costs, GroupMatrix, MatrixInstr, Rates, RegisterPool, Target, Units};

/// A step of a fragment bit: rows, columns.
type Step = [u32; 2];

/// A fragment as the tables below write it.
struct Frag {
    shape: Step,
    reg: &'static [Step],
    lane: [Step; 5],
}

/// A row of the matrix table.
struct MatrixRow {
    name: &'static str,
    shape: [u32; 3],
    operand: Scalar,
    operand_b: Scalar,
    acc: Scalar,
    precision: Precision,
    a: Frag,
    b: Frag,
}

const ACC: Frag = Frag { shape: [16, 8], reg: &[[0, 1], [8, 0]], lane: [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]] };
const ACC_F64: Frag = Frag { shape: [8, 8], reg: &[[0, 1]], lane: [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]] };

const A16: Frag = Frag { shape: [16, 16], reg: &[[0, 1], [8, 0], [0, 8]], lane: [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]] };
const B16: Frag = Frag { shape: [16, 8], reg: &[[1, 0], [8, 0]], lane: [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]] };
const A16_K8: Frag = Frag { shape: [16, 8], reg: &[[0, 1], [8, 0]], lane: [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]] };
const B16_K8: Frag = Frag { shape: [8, 8], reg: &[[1, 0]], lane: [[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]] };
const A8_K16: Frag = Frag { shape: [16, 16], reg: &[[0, 1], [0, 2], [8, 0]], lane: [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]] };
const B8_K16: Frag = Frag { shape: [16, 8], reg: &[[1, 0], [2, 0]], lane: [[4, 0], [8, 0], [0, 1], [0, 2], [0, 4]] };
const A8: Frag = Frag { shape: [16, 32], reg: &[[0, 1], [0, 2], [8, 0], [0, 16]], lane: [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]] };
const B8: Frag = Frag { shape: [32, 8], reg: &[[1, 0], [2, 0], [16, 0]], lane: [[4, 0], [8, 0], [0, 1], [0, 2], [0, 4]] };
const A_TF32: Frag = Frag { shape: [16, 8], reg: &[[8, 0], [0, 4]], lane: [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]] };
const B_TF32: Frag = Frag { shape: [8, 8], reg: &[[4, 0]], lane: [[1, 0], [2, 0], [0, 1], [0, 2], [0, 4]] };
const A_TF32_K4: Frag = Frag { shape: [16, 4], reg: &[[8, 0]], lane: [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]] };
const B_TF32_K4: Frag = Frag { shape: [4, 8], reg: &[], lane: [[1, 0], [2, 0], [0, 1], [0, 2], [0, 4]] };
const A_F64: Frag = Frag { shape: [8, 4], reg: &[], lane: [[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]] };
const B_F64: Frag = Frag { shape: [4, 8], reg: &[], lane: [[1, 0], [2, 0], [0, 1], [0, 2], [0, 4]] };

/// The warp-wide matrix instructions of sm_80 and later, preferred first.
const MMA_SYNC: [MatrixRow; 11] = [
    MatrixRow {
        name: "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        shape: [16, 8, 16],
        operand: Scalar::F16,
        operand_b: Scalar::F16,
        acc: Scalar::F32,
        precision: Precision::Exact,
        a: A16,
        b: B16,
    },
    MatrixRow {
        name: "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16",
        shape: [16, 8, 16],
        operand: Scalar::F16,
        operand_b: Scalar::F16,
        acc: Scalar::F16,
        precision: Precision::Exact,
        a: A16,
        b: B16,
    },
    MatrixRow {
        name: "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
        shape: [16, 8, 16],
        operand: Scalar::BF16,
        operand_b: Scalar::BF16,
        acc: Scalar::F32,
        precision: Precision::Exact,
        a: A16,
        b: B16,
    },
    MatrixRow {
        name: "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
        shape: [16, 8, 8],
        operand: Scalar::F32,
        operand_b: Scalar::F32,
        acc: Scalar::F32,
        precision: Precision::Tf32,
        a: A_TF32,
        b: B_TF32,
    },
    MatrixRow {
        name: "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32",
        shape: [16, 8, 32],
        operand: Scalar::I8,
        operand_b: Scalar::I8,
        acc: Scalar::I32,
        precision: Precision::Exact,
        a: A8,
        b: B8,
    },
    MatrixRow {
        name: "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
        shape: [8, 8, 4],
        operand: Scalar::F64,
        operand_b: Scalar::F64,
        acc: Scalar::F64,
        precision: Precision::Exact,
        a: A_F64,
        b: B_F64,
    },
    // Shallow ones, for extents of K that the others do not divide.
    MatrixRow {
        name: "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32",
        shape: [16, 8, 8],
        operand: Scalar::F16,
        operand_b: Scalar::F16,
        acc: Scalar::F32,
        precision: Precision::Exact,
        a: A16_K8,
        b: B16_K8,
    },
    MatrixRow {
        name: "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16",
        shape: [16, 8, 8],
        operand: Scalar::F16,
        operand_b: Scalar::F16,
        acc: Scalar::F16,
        precision: Precision::Exact,
        a: A16_K8,
        b: B16_K8,
    },
    MatrixRow {
        name: "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32",
        shape: [16, 8, 8],
        operand: Scalar::BF16,
        operand_b: Scalar::BF16,
        acc: Scalar::F32,
        precision: Precision::Exact,
        a: A16_K8,
        b: B16_K8,
    },
    MatrixRow {
        name: "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32",
        shape: [16, 8, 4],
        operand: Scalar::F32,
        operand_b: Scalar::F32,
        acc: Scalar::F32,
        precision: Precision::Tf32,
        a: A_TF32_K4,
        b: B_TF32_K4,
    },
    MatrixRow {
        name: "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32",
        shape: [16, 8, 16],
        operand: Scalar::I8,
        operand_b: Scalar::I8,
        acc: Scalar::I32,
        precision: Precision::Exact,
        a: A8_K16,
        b: B8_K16,
    },
];

/// What sm_89 and later add.
const MMA_SYNC_89: [MatrixRow; 4] = [
    MatrixRow {
        name: "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32",
        shape: [16, 8, 32],
        operand: Scalar::F8E4M3,
        operand_b: Scalar::F8E4M3,
        acc: Scalar::F32,
        precision: Precision::Exact,
        a: A8,
        b: B8,
    },
    MatrixRow {
        name: "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32",
        shape: [16, 8, 32],
        operand: Scalar::F8E5M2,
        operand_b: Scalar::F8E5M2,
        acc: Scalar::F32,
        precision: Precision::Exact,
        a: A8,
        b: B8,
    },
    MatrixRow {
        name: "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32",
        shape: [16, 8, 32],
        operand: Scalar::F8E4M3,
        operand_b: Scalar::F8E5M2,
        acc: Scalar::F32,
        precision: Precision::Exact,
        a: A8,
        b: B8,
    },
    MatrixRow {
        name: "mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32",
        shape: [16, 8, 32],
        operand: Scalar::F8E5M2,
        operand_b: Scalar::F8E4M3,
        acc: Scalar::F32,
        precision: Precision::Exact,
        a: A8,
        b: B8,
    },
];

/// The table as the lowering takes it. Every entry is checked by a test against the manual's closed formulas.
fn map(f: &Frag) -> FragmentMap {
    let coord = |s: &Step| Coord::from_slice(s);
    FragmentMap {
        shape: coord(&f.shape),
        reg: f.reg.iter().map(coord).collect(),
        lane: f.lane.iter().map(coord).collect(),
        warp: Vec::new(),
        rep_order: vec![1, 0],
    }
}

/// Functions of the special unit: they are near enough for `f32`, and exact enough behind it for the 16-bit formats. `sqrt.rn` and
/// `rcp.rn.f64` round to nearest.
pub(crate) const FUNCTIONS: &[(UnOp, Scalar)] = &[
    (UnOp::Exp2, Scalar::F32),
    (UnOp::Exp2, Scalar::F16),
    (UnOp::Exp2, Scalar::BF16),
    (UnOp::Log2, Scalar::F32),
    (UnOp::Log2, Scalar::F16),
    (UnOp::Log2, Scalar::BF16),
    (UnOp::Sqrt, Scalar::F32),
    (UnOp::Sqrt, Scalar::F16),
    (UnOp::Sqrt, Scalar::BF16),
    (UnOp::Sqrt, Scalar::F64),
    (UnOp::Rsqrt, Scalar::F32),
    (UnOp::Rsqrt, Scalar::F16),
    (UnOp::Rsqrt, Scalar::BF16),
    (UnOp::Rcp, Scalar::F32),
    (UnOp::Rcp, Scalar::F16),
    (UnOp::Rcp, Scalar::BF16),
    (UnOp::Rcp, Scalar::F64),
    (UnOp::RcpNormal, Scalar::F32),
];

/// A chip by what differs: name and bytes of shared memory per program instance (CUDA C++ Programming Guide, "Technical
/// Specifications per Compute Capability").
fn chip(name: &'static str, shared_bytes: u32, newer: &[MatrixRow], code_casts: &'static [Scalar]) -> Target {
    let instr = |r: &MatrixRow| MatrixInstr {
        scales: None,
        name: r.name,
        shape: r.shape,
        operand: r.operand,
        operand_b: r.operand_b,
        acc: r.acc,
        precision: r.precision,
        a: map(&r.a),
        b: map(&r.b),
        d: map(if r.acc == Scalar::F64 { &ACC_F64 } else { &ACC }),
    };
    Target {
        name,
        lanes: 32,
        max_warps: 32,
        shared_bytes,
        registers: 255,
        computing: 255,
        vector_bytes: 16,
        banks: BankModel::nvidia(),
        matrix: MMA_SYNC.iter().chain(newer).map(instr).collect(),
        copy_async: &[16, 8, 4],
        copies_in_rows: false,
        code_casts,
        packed_halves: true,
        redux: true,
        functions: FUNCTIONS,
        quotients: &[Scalar::F32, Scalar::F16, Scalar::BF16, Scalar::F64],
        extremes: true,
        load_matrix: true,
        masked_lanes: false,
        windows: false,
        orders_anew: true,
        early_launch: false,
        dies: None,
        begins_in_order: true,
        costs: H200,
        rates: None,
        units: None,
    }
}

/// Products on an NVIDIA H200. Columns, operands and what one multiprocessor can take are measured of the units alone; the others are
/// fitted to 100 products, by tile, of bf16, e4m3 and `i8` (`docs/log/performance.md`), which they meet within 4% (root of the mean square).
const H200_RATES: Rates = Rates {
    multiprocessors: PROCESSORS as u32,
    clock: 1781.0,
    idle: 0.576,
    power_derating: [0.000667, 0.00162, 0.0013],
    column: 0.5,
    operands: [16.0, 0.25],
    bytes_per_cycle: 160.0,
    single_group_penalty: 26.0,
    handover: 130.0,
    skew: 1.233,
    drain: 10.8,
    cache: [200.0, 3175.0, 0.497],
    row: [2.1, 4.2],
    piece: 50.0,
    pipelined: 392.0,
    both: Some(0.73),
    wide_by_lanes: [1.2, 2.0],
    fetch: [800.0, 64.0],
    cache_bytes: 4e7,
    memory: [4.116e6, 67.0, 300.0],
    memory_clock: 1980.0,
    overlap_exponent: 5.27,
    outside: 7.2,
    store: 136.8,
    epilogue: [1052.0, 1.45],
    launch: [2.26, 0.32],
};

/// Multiprocessors of the H200.
const PROCESSORS: u64 = 132;

/// The H200, measured: simple ops 64 lanes per cycle, special functions 16, shuffles 32; 15 cycles from a comparison through a choice, 24 through a shuffle; a redux every 2 cycles, 38 until its result is there; `mma` 2721 operations per cycle; a pass over the
/// banks a cycle, 30 cycles until its data is there; barriers 12.4 + 2 per warp; sectors at 17 bytes per cycle and multiprocessor (4.5
/// TB/s); `wgmma` at the 800 TFLOP/s that its power allows; 660 cycles from a global load to its data; 10 cycles a step of `silu` and `gelu` behind a product;
/// a `wgmma` of 64 rows and N columns 16 + N/4 cycles from shared memory, 13 with A in registers; 75 to wait for it; boxes of bulk copies start every
/// 64 cycles, their rows come every 2.1, their bytes at 39 a cycle (`docs/log/performance.md`).
const H200: Costs = Costs {
    alu: 8,
    special: 32,
    product: 12,
    shuffle: 16,
    redux: [32, 608],
    step_latency: [240, 384],
    wavefront: 16,
    shared_latency: 480,
    barrier: [198, 32],
    global_latency: 10_560,
    sector: 30,
    line: 16,
    spill: 64,
    group_product: 11,
    group_operands: [256, 4],
    group_left: 208,
    group_wait: 1200,
    group_turn: 1760,
    box_start: 1024,
    box_row: 34,
    box_sector: 13,
    chain: 160,
    processors: PROCESSORS,
    megahertz: 1980,
    launch: 2100,
};

/// Types of D, A and B as the mnemonic has them, those of A and B, that of D, how operands are rounded, the K of an instruction, and whether operands may
/// run along M or N.
type GroupRow = (&'static str, [Scalar; 2], Scalar, Precision, u32, bool);

/// `wgmma` ("Matrix shape" and "Transpose" of the asynchronous warpgroup instructions).
const WGMMA: [GroupRow; 8] = [
    ("f32.bf16.bf16", [Scalar::BF16; 2], Scalar::F32, Precision::Exact, 16, true),
    ("f32.f16.f16", [Scalar::F16; 2], Scalar::F32, Precision::Exact, 16, true),
    ("f32.tf32.tf32", [Scalar::F32; 2], Scalar::F32, Precision::Tf32, 8, false),
    ("f32.e4m3.e4m3", [Scalar::F8E4M3; 2], Scalar::F32, Precision::Exact, 32, false),
    ("f32.e5m2.e5m2", [Scalar::F8E5M2; 2], Scalar::F32, Precision::Exact, 32, false),
    ("f32.e4m3.e5m2", [Scalar::F8E4M3, Scalar::F8E5M2], Scalar::F32, Precision::Exact, 32, false),
    ("f32.e5m2.e4m3", [Scalar::F8E5M2, Scalar::F8E4M3], Scalar::F32, Precision::Exact, 32, false),
    ("s32.s8.s8", [Scalar::I8; 2], Scalar::I32, Precision::Exact, 32, false),
];

/// D of `wgmma`: a warp has 16 of the 64 rows, spread as D of `mma`.
const ACC_WGMMA_WARP: [Step; 2] = [[16, 0], [32, 0]];

/// The units of Hopper. Tensor maps: "cuTensorMapEncodeTiled" of the driver's manual; registers: "setmaxnreg".
fn hopper() -> Units {
    let d = FragmentMap {
        shape: Coord::from_slice(&[64, 8]),
        warp: ACC_WGMMA_WARP.iter().map(|s| Coord::from_slice(s)).collect(),
        ..map(&ACC)
    };
    // A in registers: that of `mma` for each warp's 16 rows.
    let left = |operand: Scalar| {
        let warp = match operand.bytes() {
            1 => A8,
            2 => A16,
            _ => A_TF32,
        };
        let shape = Coord::from_slice(&[64, warp.shape[1]]);
        FragmentMap { shape, warp: ACC_WGMMA_WARP.iter().map(|s| Coord::from_slice(s)).collect(), ..map(&warp) }
    };
    let row = |&(name, [operand, operand_b], acc, precision, k, any_order): &GroupRow| {
        GroupMatrix {
            name,
            m: 64,
            k,
            // Integers skip some multiples of 8.
            n_step: if acc == Scalar::I32 { 16 } else { 8 },
            n_max: 256,
            operand,
            operand_b,
            acc,
            precision,
            // Accumulators of 8-bit floats keep some 14 bits (DeepSeek-V3 report, section 3.3.2).
            promotion_depth: (operand.is_float() && operand.bytes() == 1).then_some(128),
            any_order,
            a: Some(left(operand)),
            d: d.clone(),
        }
    };
    Units {
        group_warps: 4,
        matrix: WGMMA.iter().map(row).collect(),
        bulk: BulkTensor { max_rank: 5, max_box: 256, align: 16, swizzles: &[128, 64, 32] },
        registers: RegisterPool { total: 65536, unit: 8, least: 24, most: 240, producer: 40, beside_matrix: 26 },
        named_barriers: 16,
        max_cluster: 8,
    }
}

/// The 8-bit formats that sm_89 and later convert and multiply.
const OCP: [Scalar; 2] = [Scalar::F8E4M3, Scalar::F8E5M2];

/// Ampere data-centre chips (A100).
pub fn sm_80() -> Target {
    chip("sm_80", 166_912, &[], &[])
}

/// Ada chips (L40, RTX 40).
pub fn sm_89() -> Target {
    chip("sm_89", 101_376, &MMA_SYNC_89, &OCP)
}

/// Hopper data-centre chips (H100, H200).
pub fn sm_90a() -> Target {
    Target { early_launch: true, units: Some(hopper()), rates: Some(H200_RATES), ..chip("sm_90a", 232_448, &MMA_SYNC_89, &OCP) }
}

/// The target of that name.
pub fn by_name(name: &str) -> Option<Target> {
    match name {
        "sm_80" => Some(sm_80()),
        "sm_89" => Some(sm_89()),
        "sm_90a" => Some(sm_90a()),
        _ => None,
    }
}

/// Lowest PTX version that knows a matrix instruction of an element type, where that is newer than the target's.
pub(crate) fn matrix_version(operand: Scalar) -> Option<(u8, u8)> {
    matches!(operand, Scalar::F8E4M3 | Scalar::F8E5M2).then_some((8, 4))
}

/// True if a target adds `bf16` to memory by one instruction (PTX ISA, `red`: from sm_90 and version 7.8 on).
pub(crate) fn adds_bf16(target: &str) -> bool {
    target == "sm_90a"
}

/// Lowest PTX version that knows a target and the instructions emitted for it (PTX ISA, "Release Notes").
pub(crate) fn ptx_version(target: &str) -> Option<(u8, u8)> {
    match target {
        "sm_80" => Some((7, 0)),
        "sm_89" => Some((7, 8)),
        "sm_90a" => Some((8, 0)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(f: &FragmentMap, reg: u32, lane: u32) -> [u32; 2] {
        let mut c = [0, 0];
        for (bits, columns) in [(reg, &f.reg), (lane, &f.lane)] {
            for (i, column) in columns.iter().enumerate() {
                if bits >> i & 1 == 1 {
                    c[0] ^= column[0];
                    c[1] ^= column[1];
                }
            }
        }
        c
    }

    /// The manual's formulas: register `i` of the instruction, element `e` in it, lane as `g` and `t`.
    fn formula(row: &str, operand: char, i: u32, e: u32, g: u32, t: u32) -> [u32; 2] {
        let (bytes, tf32, f64) = (["s8.s8", "e4m3", "e5m2"].iter().any(|t| row.contains(t)), row.contains("tf32"), row.contains("f64"));
        match operand {
            'd' if f64 => [g, 2 * t + i],
            'd' if row.contains("row.col.f16") => [g + 8 * i, 2 * t + e],
            'd' => [g + 8 * (i >> 1), 2 * t + (i & 1)],
            'a' if f64 => [g, t],
            'b' if f64 => [t, g],
            'a' if tf32 => [g + 8 * (i & 1), t + 4 * (i >> 1)],
            'b' if tf32 => [t + 4 * i, g],
            'a' if bytes => [g + 8 * (i & 1), 4 * t + 16 * (i >> 1) + e],
            'b' if bytes => [4 * t + 16 * i + e, g],
            'a' => [g + 8 * (i & 1), 2 * t + 8 * (i >> 1) + e],
            _ => [2 * t + 8 * i + e, g],
        }
    }

    #[test]
    fn fragments_equal_the_manuals_formulas() {
        for target in [sm_80(), sm_89(), sm_90a()] {
            let newer = if target.name == "sm_80" { 0 } else { MMA_SYNC_89.len() };
            assert_eq!(target.matrix.len(), MMA_SYNC.len() + newer);
            for instr in &target.matrix {
                for (operand, f, elem) in [('a', &instr.a, instr.operand), ('b', &instr.b, instr.operand_b), ('d', &instr.d, instr.acc)] {
                    assert_eq!(f.check(), Ok(()), "{} {operand}", instr.name);
                    let [m, n, k] = instr.shape;
                    let extents = match operand {
                        'a' => [m, k],
                        'b' => [k, n],
                        _ => [m, n],
                    };
                    assert_eq!(f.shape.as_slice(), extents, "{} {operand}", instr.name);
                    let per = (32 / elem.bits()).max(1);
                    for lane in 0..32 {
                        for reg in 0..1 << f.reg.len() {
                            let want = formula(instr.name, operand, reg / per, reg % per, lane / 4, lane % 4);
                            assert_eq!(at(f, reg, lane), want, "{} {operand} register {reg} lane {lane}", instr.name);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn targets_are_found_by_name() {
        for name in ["sm_80", "sm_89", "sm_90a"] {
            assert_eq!(by_name(name).map(|t| t.name), Some(name));
            assert!(ptx_version(name).is_some());
        }
        assert!(by_name("sm_70").is_none());
    }
}
