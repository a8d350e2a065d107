//! The target tables: what lane programs may ask of each chip.
//!
//! ```text
//!           chips            LDS       matrix instructions (matrix.rs)                       8-bit floats
//! gfx90a    MI210, MI250     64 KiB    f16 bf16 f32 f64 i8                                   computed with
//! gfx942    MI300, MI325     64 KiB    f16 bf16 f32 f64 i8 xf32 f8, of twice the rate        FNUZ in products
//! gfx950    MI350, MI355     160 KiB   f16 bf16 f32 f64 i8 f8, of twice the depth            OCP in products and conversions
//! ```
//!
//! All have wavefronts of 64 lanes, 16 of which make a workgroup, and 512 registers of 32 bits a lane: 256 of each kind, which matrix
//! instructions address alike. There are no matrix loads; gfx950 has asynchronous copies of 16 bytes a lane, whose pieces lie side by side.

mod costs;
mod matrix;

pub(crate) use matrix::code as matrix_code;

use crate::chip::Chip;
use tilelift_ir::Scalar;
use tilelift_ir::layout::BankModel;
use tilelift_isel::lane::UnOp;
use tilelift_isel::{Dies, Target};

/// The target of a chip's name.
pub fn by_name(name: &str) -> Option<Target> {
    Chip::by_name(name).map(target)
}

/// gfx90a: MI210, MI250, MI250X.
pub fn gfx90a() -> Target {
    target(Chip::Gfx90a)
}

/// gfx942: MI300A, MI300X, MI325X.
pub fn gfx942() -> Target {
    target(Chip::Gfx942)
}

/// gfx950: MI350X, MI355X.
pub fn gfx950() -> Target {
    target(Chip::Gfx950)
}

/// The target of a chip.
pub fn target(chip: Chip) -> Target {
    let new = chip == Chip::Gfx950;
    Target {
        name: chip.name(),
        lanes: matrix::LANES,
        max_warps: 16,
        shared_bytes: lds_bytes(chip),
        registers: 512,
        computing: 256,
        vector_bytes: 16,
        banks: if new { BankModel::cdna4() } else { BankModel::cdna3() },
        matrix: matrix::instructions(chip),
        // Loads straight to local data share: pieces of four bytes on all chips, which take more instructions than they save, and of 16 on gfx950.
        copy_async: if new { &[16] } else { &[] },
        copies_in_rows: new,
        code_casts: codes(chip),
        packed_halves: false,
        redux: false,
        functions: if chip == Chip::Gfx942 { FUNCTIONS } else { &FUNCTIONS[OF_CODES..] },
        // `v_div_scale`, `v_div_fmas` and `v_div_fixup` are there for them.
        quotients: &[Scalar::F32, Scalar::F64, Scalar::F16],
        extremes: false,
        load_matrix: false,
        masked_lanes: true,
        windows: true,
        orders_anew: false,
        early_launch: false,
        dies: dies(chip),
        begins_in_order: true,
        costs: costs::of(chip),
        rates: None,
        units: None,
    }
}

/// Bytes of local data share of a compute unit: one workgroup may have all of them.
pub(crate) const fn lds_bytes(chip: Chip) -> u32 {
    match chip {
        Chip::Gfx90a | Chip::Gfx942 => 64 << 10,
        Chip::Gfx950 => 160 << 10,
    }
}

/// Dies with a cache of 4 MiB each: eight of 38 compute units, or of 32. A device of gfx90a is one die.
fn dies(chip: Chip) -> Option<Dies> {
    let processors = match chip {
        Chip::Gfx90a => return None,
        Chip::Gfx942 => 38,
        Chip::Gfx950 => 32,
    };
    Some(Dies { count: 8, processors, chunk: 32 })
}

/// `v_exp`, `v_log`, `v_rsq` and `v_rcp` of `f32` and `f16` are off by a unit in the last place ("AMD Instinct MI300 Instruction Set
/// Architecture"); those of `f64` are first guesses, and `v_sqrt` does not round to nearest.
///
/// The first ones, which gfx942 has, convert the codes of its 8-bit floats.
const FUNCTIONS: &[(UnOp, Scalar)] = &[
    (UnOp::EncodeE4M3Fnuz, Scalar::I32),
    (UnOp::EncodeE5M2Fnuz, Scalar::I32),
    (UnOp::DecodeE4M3Fnuz, Scalar::I32),
    (UnOp::DecodeE5M2Fnuz, Scalar::I32),
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

/// So many of them.
const OF_CODES: usize = 4;

/// The formats of 8-bit floats that `v_cvt_pk_fp8_f32` and its siblings convert.
const fn codes(chip: Chip) -> &'static [Scalar] {
    match chip {
        Chip::Gfx90a => &[],
        Chip::Gfx942 => &[Scalar::F8E4M3Fnuz, Scalar::F8E5M2Fnuz],
        // Which of several NaN codes a chip makes of `f8e5m2` is not known.
        Chip::Gfx950 => &[Scalar::F8E4M3],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_ir::Precision;

    #[test]
    fn the_frames_of_the_tables() {
        for chip in Chip::ALL {
            let t = target(chip);
            assert_eq!(by_name(chip.name()).map(|t| t.name), Some(t.name));
            assert_eq!((t.lanes, t.lanes * t.max_warps), (64, 1024));
            assert!(t.moves_by_lanes() && !t.load_matrix && t.copy_async.is_empty() == (chip != Chip::Gfx950));
            let offered = |operand, precision| t.matrix.iter().any(|i| i.operand == operand && i.precision == precision);
            assert!(offered(Scalar::F32, Precision::Tf32) && offered(Scalar::F32, Precision::Exact));
            assert!([Scalar::F16, Scalar::BF16, Scalar::I8, Scalar::F64].iter().all(|&s| offered(s, Precision::Exact)), "{chip}");
            let of_8_bits = [Scalar::F8E4M3, Scalar::F8E4M3Fnuz].map(|s| offered(s, Precision::Exact));
            let (bytes, floats) = match chip {
                Chip::Gfx90a => (64, [false, false]),
                Chip::Gfx942 => (64, [false, true]),
                Chip::Gfx950 => (160, [true, false]),
            };
            assert_eq!((t.shared_bytes, of_8_bits), (bytes << 10, floats), "{chip}");
        }
        assert!(by_name("gfx900").is_none());
    }
}
