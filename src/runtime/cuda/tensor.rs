//! Descriptions of tensors for bulk copies, in the driver's form.

use super::error::{CudaError, check};
use super::probe::encode_tiled;
use std::ffi::c_void;
use tilelift_ir::Scalar;
use tilelift_isel::abi::TensorMap;

/// A description; opaque, 128 bytes, aligned as the largest of the driver's headers asks.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
pub(super) struct Encoded([u64; 16]);

/// `CUtensorMapL2promotion`: 256 bytes.
const PROMOTE_256: u32 = 3;

/// `CUtensorMapDataType`.
const fn data_type(elem: Scalar, tf32: bool) -> u32 {
    match elem {
        Scalar::I1 | Scalar::I8 => 0,
        Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz | Scalar::F8E8M0 => 0,
        // Views of elements that share bytes are not specialised; their bytes are.
        Scalar::I4 | Scalar::F4E2M1 => 0,
        Scalar::I16 => 1,
        Scalar::I32 => 3,
        Scalar::I64 => 5,
        Scalar::F16 => 6,
        Scalar::F32 if tf32 => 11,
        Scalar::F32 => 7,
        Scalar::F64 => 8,
        Scalar::BF16 => 9,
    }
}

/// `CUtensorMapSwizzle`.
const fn swizzle(swizzle: u32) -> u32 {
    match swizzle {
        128 => 3,
        64 => 2,
        32 => 1,
        _ => 0,
    }
}

/// Encodes a description. A context should be current.
pub(super) fn encode(t: &TensorMap) -> Result<Encoded, CudaError> {
    let call = encode_tiled()?;
    let mut out = Encoded([0; 16]);
    // A tensor without elements is never touched, but the driver wants extents of at least 1.
    let extents: Vec<u64> = t.extents.iter().map(|&e| e.max(1)).collect();
    let steps = vec![1u32; t.extents.len()];
    // SAFETY: the out pointer is valid and aligned; the arrays have as many entries as the rank says (strides one less).
    let code = unsafe {
        call(
            std::ptr::from_mut(&mut out).cast(),
            data_type(t.elem, t.tf32),
            extents.len() as u32,
            std::ptr::with_exposed_provenance_mut::<c_void>(t.base as usize),
            extents.as_ptr(),
            t.strides.as_ptr(),
            t.box_extents.as_ptr(),
            steps.as_ptr(),
            0,
            swizzle(t.swizzle),
            PROMOTE_256,
            0,
        )
    };
    check("cuTensorMapEncodeTiled", code)?;
    Ok(out)
}
