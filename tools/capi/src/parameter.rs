//! Launch parameters as C sees them.

use tilelift::launch::{Parameter, TENSOR_MAP_BYTES, TensorBox, TensorCodes};

/// A launch parameter with its value; `tilelift_parameter` of the header.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
#[allow(missing_docs)] // the names are those of `cuTensorMapEncodeTiled`, which the header says
pub struct TileliftParameter {
    /// The bits of a number; its bytes are the first ones, as machines of these drivers have them.
    pub value: u64,
    /// [`NUMBER`] or [`TENSOR_MAP`].
    pub kind: u32,
    /// Bytes of the parameter.
    pub size: u32,
    pub address: u64,
    pub data_type: u32,
    pub rank: u32,
    pub interleave: u32,
    pub swizzle: u32,
    pub l2_promotion: u32,
    pub oob_fill: u32,
    pub extents: [u64; TensorBox::RANK],
    pub strides: [u64; TensorBox::RANK - 1],
    pub box_extents: [u32; TensorBox::RANK],
    pub element_strides: [u32; TensorBox::RANK],
}

/// A number; `TILELIFT_NUMBER`.
pub const NUMBER: u32 = 0;
/// A tensor map; `TILELIFT_TENSOR_MAP`.
pub const TENSOR_MAP: u32 = 1;

/// A list in a place of fixed length.
fn put<T: Copy>(place: &mut [T], list: &[T]) {
    place.iter_mut().zip(list).for_each(|(p, &v)| *p = v);
}

impl TileliftParameter {
    pub(crate) fn of(p: &Parameter) -> TileliftParameter {
        let mut made = TileliftParameter::default();
        match p {
            Parameter::Number { bits, size } => (made.kind, made.value, made.size) = (NUMBER, *bits, u32::from(*size)),
            Parameter::TensorMap { codes, address, extents, strides, box_extents } => {
                let TensorCodes { data_type, interleave, swizzle, l2_promotion, oob_fill, .. } = *codes;
                made = TileliftParameter {
                    kind: TENSOR_MAP,
                    size: TENSOR_MAP_BYTES,
                    address: *address,
                    data_type,
                    rank: extents.len() as u32,
                    interleave,
                    swizzle,
                    l2_promotion,
                    oob_fill,
                    element_strides: [1; TensorBox::RANK],
                    ..made
                };
                put(&mut made.extents, extents);
                put(&mut made.strides, strides);
                put(&mut made.box_extents, box_extents);
            }
            // Kinds that this version does not know are none that its artifacts have.
            _ => {}
        }
        made
    }
}
