//! A machine to run programs on.

use crate::machine::{Costs, MatrixInstr, Target};
use crate::op::UnOp;
use tilelift_ir::layout::{BankModel, FragmentMap};
use tilelift_ir::{Precision, Scalar};

fn fragment(shape: [u32; 2], reg: &[[u32; 2]], lane: &[[u32; 2]]) -> FragmentMap {
    fn columns(list: &[[u32; 2]]) -> Vec<&[u32]> {
        list.iter().map(|c| &c[..]).collect()
    }
    FragmentMap::new(&shape, &columns(reg), &columns(lane), &[]).unwrap()
}

const FUNCTIONS: &[(UnOp, Scalar)] = {
    use Scalar::{BF16, F16, F32, F64};
    use UnOp::{DecodeE4M3Fnuz, DecodeE5M2Fnuz, EncodeE4M3Fnuz, EncodeE5M2Fnuz, Exp2, Log2, Rcp, RcpNormal, Rsqrt, Sqrt};
    &[
        (EncodeE4M3Fnuz, Scalar::I32),
        (EncodeE5M2Fnuz, Scalar::I32),
        (DecodeE4M3Fnuz, Scalar::I32),
        (DecodeE5M2Fnuz, Scalar::I32),
        (Exp2, F16),
        (Exp2, BF16),
        (Exp2, F32),
        (Exp2, F64),
        (Log2, F16),
        (Log2, BF16),
        (Log2, F32),
        (Log2, F64),
        (Sqrt, F16),
        (Sqrt, BF16),
        (Sqrt, F32),
        (Sqrt, F64),
        (Rsqrt, F16),
        (Rsqrt, BF16),
        (Rsqrt, F32),
        (Rsqrt, F64),
        (Rcp, F16),
        (Rcp, BF16),
        (Rcp, F32),
        (Rcp, F64),
        (RcpNormal, F32),
    ]
};

/// Warps of 32 lanes with everything on offer; the fragments of 16-bit, 8-bit and tf32 types are those of the PTX manual.
pub fn target() -> Target {
    const D_LANE: [[u32; 2]; 5] = [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]];
    let d = fragment([16, 8], &[[0, 1], [8, 0]], &D_LANE);
    let half = |name, operand, acc| MatrixInstr {
        scales: None,
        operand_b: operand,
        name,
        shape: [16, 8, 16],
        operand,
        acc,
        precision: Precision::Exact,
        a: fragment([16, 16], &[[0, 1], [8, 0], [0, 8]], &D_LANE),
        b: fragment([16, 8], &[[1, 0], [8, 0]], &[[2, 0], [4, 0], [0, 1], [0, 2], [0, 4]]),
        d: d.clone(),
    };
    let matrix = vec![
        half("half", Scalar::F16, Scalar::F32),
        half("bhalf", Scalar::BF16, Scalar::F32),
        half("narrow", Scalar::F16, Scalar::F16),
        MatrixInstr {
            scales: None,
            name: "byte",
            shape: [16, 8, 32],
            operand: Scalar::I8,
            operand_b: Scalar::I8,
            acc: Scalar::I32,
            precision: Precision::Exact,
            a: fragment([16, 32], &[[0, 1], [0, 2], [8, 0], [0, 16]], &[[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]]),
            b: fragment([32, 8], &[[1, 0], [2, 0], [16, 0]], &[[4, 0], [8, 0], [0, 1], [0, 2], [0, 4]]),
            d: d.clone(),
        },
        MatrixInstr {
            scales: None,
            name: "tf32",
            shape: [16, 8, 8],
            operand: Scalar::F32,
            operand_b: Scalar::F32,
            acc: Scalar::F32,
            precision: Precision::Tf32,
            a: fragment([16, 8], &[[8, 0], [0, 4]], &[[0, 1], [0, 2], [1, 0], [2, 0], [4, 0]]),
            b: fragment([8, 8], &[[4, 0]], &[[1, 0], [2, 0], [0, 1], [0, 2], [0, 4]]),
            d,
        },
        // Not a real instruction: upper lanes hold copies of all operands, so that zero columns are met.
        MatrixInstr {
            scales: None,
            name: "copies",
            shape: [4, 4, 2],
            operand: Scalar::F64,
            operand_b: Scalar::F64,
            acc: Scalar::F64,
            precision: Precision::Exact,
            a: fragment([4, 2], &[], &[[1, 0], [2, 0], [0, 1], [0, 0], [0, 0]]),
            b: fragment([2, 4], &[[1, 0]], &[[0, 1], [0, 0], [0, 2], [0, 0], [0, 0]]),
            d: fragment([4, 4], &[], &[[0, 1], [0, 2], [1, 0], [2, 0], [0, 0]]),
        },
    ];
    Target {
        windows: false,
        orders_anew: false,
        early_launch: false,
        dies: None,
        begins_in_order: true,
        name: "test",
        lanes: 32,
        max_warps: 32,
        shared_bytes: 1 << 16,
        registers: 255,
        computing: 255,
        vector_bytes: 16,
        banks: BankModel::nvidia(),
        matrix,
        copy_async: &[4, 8, 16],
        copies_in_rows: false,
        code_casts: &[],
        packed_halves: false,
        redux: true,
        functions: FUNCTIONS,
        quotients: &[Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64],
        extremes: true,
        load_matrix: true,
        masked_lanes: false,
        rates: None,
        costs: Costs {
            alu: 8,
            special: 32,
            product: 12,
            shuffle: 16,
            redux: [32, 1],
            step_latency: [1; 2],
            wavefront: 16,
            shared_latency: 480,
            barrier: [198, 32],
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
            chain: 1,
            global_latency: 1,
            processors: 132,
            megahertz: 1980,
            launch: 2100,
        },
        units: None,
    }
}
