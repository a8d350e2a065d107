//! Shared maps for staged matrix operands.
//!
//! Rows of the contiguous dimension are cut to the swizzle width of at most 128 bytes; inside it the
//! 16-byte chunk number is XORed with the number of the 128-byte line's row, the family of 128-,
//! 64- and 32-byte swizzles of bulk copies:
//!
//! ```text
//!   offset bits:  [ column in width ^ row ] [ row ] [ column / width ]   then odd digits
//! ```
//!
//! Eight rows of one chunk, and the chunks of one row, then fall into different banks: row-wise
//! 16-byte accesses and 8x8 matrix loads (plain and transposed) are conflict-free.

use super::digits::Space;
use super::error::LayoutError;
use super::shared::SharedMap;

/// Bytes of one access unit of the swizzle.
const CHUNK_BYTES: u32 = 16;
/// Bytes of one bank line, the widest swizzle.
const LINE_BYTES: u32 = 128;

/// Contiguous bytes (at most 16) that [`operand_swizzle`] keeps together: 16 unless the
/// power-of-two part of the contiguous extent is smaller.
///
/// # Errors
/// [`LayoutError::NoSuchDim`] or a bad shape.
pub fn operand_chunk_bytes(shape: &[u32], elem_bytes: u32, contiguous_dim: usize) -> Result<u32, LayoutError> {
    let space = Space::new(shape)?;
    if contiguous_dim >= shape.len() {
        return Err(LayoutError::NoSuchDim { dim: contiguous_dim, rank: shape.len() });
    }
    Ok((elem_bytes << space.dim_bits(contiguous_dim).min(5)).min(CHUNK_BYTES.max(elem_bytes)))
}

/// The shared map of a matrix operand tile whose memory is contiguous along `contiguous_dim`; the
/// slower dimensions are rows, last dimension fastest. Rows are cut to a swizzle width
/// of at most 128 bytes whose 16-byte chunks are XORed with the row number, so that 16-byte accesses
/// along rows and 8x8 matrix loads, plain and transposed, are free of bank conflicts. With
/// less than 16 contiguous bytes ([`operand_chunk_bytes`]) the rows are stored plainly.
///
/// # Errors
/// [`LayoutError::NoSuchDim`] or a bad shape.
pub fn operand_swizzle(shape: &[u32], elem_bytes: u32, contiguous_dim: usize) -> Result<SharedMap, LayoutError> {
    let width = (LINE_BYTES / elem_bytes.max(1)).max(1);
    swizzle_of_width(shape, elem_bytes, contiguous_dim, width * elem_bytes.max(1))
}

/// As [`operand_swizzle`] with a swizzle width of at most `width_bytes` (128, 64, 32; 16 for no swizzle).
///
/// # Errors
/// [`LayoutError::NoSuchDim`] or a bad shape.
pub fn swizzle_of_width(shape: &[u32], elem_bytes: u32, contiguous_dim: usize, width_bytes: u32) -> Result<SharedMap, LayoutError> {
    rotated_swizzle(shape, elem_bytes, contiguous_dim, width_bytes, [0, 0])
}

/// As [`swizzle_of_width`], without the lowest `skip` row bits and the others rotated by `rotate` places
/// before they meet the chunk bits: for lanes that read single words of several rows, where rows and
/// columns compete for the low chunk bits, or low rows are in one lane.
///
/// # Errors
/// [`LayoutError::NoSuchDim`] or a bad shape.
pub fn rotated_swizzle(
    shape: &[u32],
    elem_bytes: u32,
    contiguous_dim: usize,
    width_bytes: u32,
    [skip, rotate]: [u32; 2],
) -> Result<SharedMap, LayoutError> {
    xored(shape, elem_bytes, contiguous_dim, width_bytes, Xor { skip, rotate, chunk: CHUNK_BYTES, folded: None })
}

/// As [`operand_swizzle`] with pieces of `chunk` bytes (a power of two, at least an element), where all bits of the row meet the chunk bits, one
/// group behind the other, each rotated by `turn` places more than the one before: for lanes that read neighbouring rows and lanes that write rows
/// further apart.
///
/// # Errors
/// [`LayoutError::NoSuchDim`] or a bad shape.
pub fn folded_swizzle(
    shape: &[u32],
    elem_bytes: u32,
    contiguous_dim: usize,
    [chunk, rotate, turn]: [u32; 3],
) -> Result<SharedMap, LayoutError> {
    xored(shape, elem_bytes, contiguous_dim, LINE_BYTES, Xor { skip: 0, rotate, chunk, folded: Some(turn) })
}

/// How row bits meet the chunk bits.
struct Xor {
    /// Lowest row bits that do not.
    skip: u32,
    /// Places by which they are rotated.
    rotate: u32,
    /// Bytes of a piece that stays whole.
    chunk: u32,
    /// All row bits do, not one group of them: by how many places more each group is rotated.
    folded: Option<u32>,
}

fn xored(shape: &[u32], elem_bytes: u32, contiguous_dim: usize, width_bytes: u32, xor: Xor) -> Result<SharedMap, LayoutError> {
    operand_chunk_bytes(shape, elem_bytes, contiguous_dim)?;
    let space = Space::new(shape)?;
    let elem = elem_bytes.max(1).ilog2();
    let columns = space.dim_bits(contiguous_dim);
    let width = columns.min(width_bytes.clamp(1, LINE_BYTES).ilog2().saturating_sub(elem));
    let chunk = xor.chunk.max(1).ilog2().saturating_sub(elem);
    // Chunk bits of the width; they are XORed with the row bits above one 128-byte line.
    let swizzled = width.saturating_sub(chunk);
    // The first row bit that is XORed.
    let rows_per_line = LINE_BYTES.ilog2().saturating_sub(elem + width) + xor.skip;
    let mut offset: Vec<u32> = (0..width).map(|j| space.dim_bit(contiguous_dim, j)).collect();
    let mut row = 0;
    let rows = || (0..shape.len()).rev().filter(|&d| d != contiguous_dim);
    for dim in rows() {
        for j in 0..space.dim_bits(dim) {
            let mut column = space.dim_bit(dim, j);
            if row >= rows_per_line && swizzled > 0 && (xor.folded.is_some() || row - rows_per_line < swizzled) {
                let n = row - rows_per_line;
                let turned = xor.folded.unwrap_or(0) * (n / swizzled);
                column |= space.dim_bit(contiguous_dim, chunk + (n + xor.rotate + turned) % swizzled);
            }
            offset.push(column);
            row += 1;
        }
    }
    offset.extend((width..columns).map(|j| space.dim_bit(contiguous_dim, j)));
    let mut odd: Vec<usize> = space.dim_odd(contiguous_dim).to_vec();
    rows().for_each(|dim| odd.extend(space.dim_odd(dim)));
    SharedMap::from_packed(space, &offset, &odd)
}
