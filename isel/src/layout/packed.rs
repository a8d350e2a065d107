//! Layouts of packed elements, two of which share a byte in memory: a tile `[…, 2n]` of them is a tile `[…, n]` of bytes whose elements
//! have a further innermost dimension of 2, which lies in registers.

use tilelift_ir::layout::Layout;
use tilelift_schedule::LowerError;

/// Extents of the tile of bytes. The last extent is even (typing sees to it).
pub(crate) fn byte_shape(shape: &[u32]) -> Vec<u32> {
    let mut out = shape.to_vec();
    if let Some(last) = out.last_mut() {
        *last /= 2;
    }
    out
}

/// The layout of the bytes of a tile of halves; where a lane holds one half of a byte, it holds that byte.
pub(crate) fn bytes_of(halves: &Layout) -> Result<Layout, LowerError> {
    let mut shape = byte_shape(halves.shape());
    shape.push(2);
    Ok(halves.reshape(&shape)?.slice(shape.len() - 1))
}

/// The layout of the halves of a tile of bytes, both halves in the lane that holds the byte, and the registers of the halves of each
/// register of bytes.
pub(crate) fn halves_of(bytes: &Layout) -> Result<(Layout, Vec<[usize; 2]>), LowerError> {
    use tilelift_ir::layout::Axis;
    let dim = bytes.rank();
    let both = bytes.expand_dims(dim).broadcast(dim, 2)?;
    let mut pairs = vec![[0; 2]; bytes.size(Axis::Reg) as usize];
    for (r, from) in both.slice_registers(dim).into_iter().enumerate() {
        pairs[from as usize][both.reg_coord(r as u32)[dim] as usize] = r;
    }
    let mut shape = bytes.shape().to_vec();
    shape[dim - 1] *= 2;
    Ok((both.reshape(&shape)?, pairs))
}
