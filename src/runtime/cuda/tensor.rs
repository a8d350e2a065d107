//! Descriptions of tensors for bulk copies, in the driver's form.

use super::error::{CudaError, check};
use super::probe::encode_tiled;
use crate::launch::TensorCodes;
use std::ffi::c_void;
use tilelift_isel::abi::TensorMap;

/// A description; opaque, 128 bytes, aligned as the largest of the driver's headers asks.
#[derive(Clone, Copy)]
#[repr(C, align(128))]
pub(super) struct Encoded([u64; 16]);

/// The address of a tensor without elements that has none: aligned as tensor maps ask.
const NOWHERE: u64 = 128;

/// Encodes a description. A context should be current.
pub(super) fn encode(t: &TensorMap) -> Result<Encoded, CudaError> {
    let call = encode_tiled()?;
    let mut out = Encoded([0; 16]);
    // A tensor without elements is never touched, but the driver wants extents of at least 1.
    let extents: Vec<u64> = t.extents.iter().map(|&e| e.max(1)).collect();
    // Nor does it need memory, but the driver wants an address.
    let base = if t.base == 0 && t.extents.contains(&0) { NOWHERE } else { t.base };
    let codes = TensorCodes::of(t.elem, t.tf32, t.swizzle).for_strides(&t.strides);
    let steps = vec![1u32; t.extents.len()];
    // SAFETY: the out pointer is valid and aligned; the arrays have as many entries as the rank says (strides one less).
    let code = unsafe {
        call(
            std::ptr::from_mut(&mut out).cast(),
            codes.data_type,
            extents.len() as u32,
            std::ptr::with_exposed_provenance_mut::<c_void>(base as usize),
            extents.as_ptr(),
            t.strides.as_ptr(),
            t.box_extents.as_ptr(),
            steps.as_ptr(),
            codes.interleave,
            codes.swizzle,
            codes.l2_promotion,
            codes.oob_fill,
        )
    };
    check("cuTensorMapEncodeTiled", code)?;
    Ok(out)
}
