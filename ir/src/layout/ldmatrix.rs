//! When a fragment can be moved by 8x8 matrix loads (and stores).
//!
//! An 8x8 matrix is 8 rows of 16 bytes whose addresses come from 8 lanes. The plain form hands lane
//! `4 row + t` the bytes `4 t .. 4 t + 4` of its row; the transposed form (2-byte elements) hands
//! lane `4 col + t` the elements of column `col` in rows `2 t` and `2 t + 1`:
//!
//! ```text
//!              within a row (16 bytes)         row number
//!   plain      sub-word registers, l0, l1      l2, l3, l4
//!   transposed l2, l3, l4                      one register bit, l0, l1
//! ```
//!
//! Every other contribution must be a multiple of 16 bytes. Spare register bits number the 1, 2 or
//! 4 matrices of one instruction. The matching store has the same conditions, direction reversed.

use super::access::{AccessColumns, vector_bits};
use super::bank::fullest;
use super::linear::{self, Span};
use super::map::{Axis, Pad};
use smallvec::SmallVec;

/// Bytes of one matrix row.
const ROW_BYTES: u32 = 16;

/// One matrix instruction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LdMatrixGroup {
    /// Element registers that the instruction fills: matrix by matrix, in each 32-bit register from
    /// the low end.
    pub regs: SmallVec<[u32; 8]>,
    /// Byte offset of the instruction that combines with the lane's row address by XOR.
    pub xor: u32,
    /// Byte offset that is added.
    pub add: u32,
}

/// How a whole operand is moved by matrix instructions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LdMatrixPlan {
    /// Transposed form.
    pub trans: bool,
    /// Matrices per instruction: 1, 2 or 4.
    pub count: u32,
    /// Row address, in bytes, contributed by each bit of the address-supplying lane: three row bits,
    /// then the matrix bits. Lanes from `8 * count` on supply nothing.
    pub lane_address: Vec<u32>,
    /// Row address contributed by each warp bit, in bytes.
    pub warp_address: Vec<u32>,
    /// The instructions.
    pub groups: Vec<LdMatrixGroup>,
    /// Gaps between rows, in bytes: all offsets but those that are added lie there in the end.
    pub pad: Option<Pad>,
}

impl LdMatrixPlan {
    /// Passes that the 8 rows of one matrix need with 128-byte bank lines; 1 is conflict-free.
    pub fn wavefronts(&self) -> u32 {
        if let Some(p) = self.pad {
            let rows = (0..8).map(|lane| u64::from(p.place(linear::mul(&self.lane_address[..3], lane)) / ROW_BYTES));
            return fullest(rows, 7);
        }
        let rows: Vec<u32> = self.lane_address.iter().take(3).map(|a| a / ROW_BYTES).collect();
        let banked: Vec<u32> = rows.iter().map(|a| a % 8).collect();
        1 << (linear::rank(&rows) - linear::rank(&banked))
    }

    /// Row address supplied by a lane for one instruction, without the warp part.
    pub fn row_address(&self, group: &LdMatrixGroup, lane: u32) -> u32 {
        let at = linear::mul(&self.lane_address, u64::from(lane)) ^ group.xor;
        self.pad.map_or(at, |p| p.place(at)) + group.add
    }
}

/// The matrix-load plan of an access given in elements, or `None` when the instruction's shape does
/// not divide it. Needs 32 lanes and elements of 1, 2 or 4 bytes; the base must be 16-byte aligned.
pub fn ldmatrix_applies(p: &AccessColumns, elem_bytes: u32) -> Option<LdMatrixPlan> {
    if p.lane.len() != 5 || !matches!(elem_bytes, 1 | 2 | 4) || !p.block.iter().all(|&c| c == 0) {
        return None;
    }
    let bytes = p.scaled(elem_bytes).ok()?;
    let aligned = |c: u32| c.is_multiple_of(ROW_BYTES);
    if bytes.pad.is_some_and(|p| p.shift < ROW_BYTES.ilog2() || !aligned(p.by)) {
        return None;
    }
    let outer = bytes.warp.iter().copied().chain(bytes.odd.iter().map(|d| d.step));
    if !outer.into_iter().all(aligned) {
        return None;
    }
    plain(p, &bytes, elem_bytes).or_else(|| transposed(&bytes, elem_bytes))
}

fn plain(p: &AccessColumns, bytes: &AccessColumns, elem_bytes: u32) -> Option<LdMatrixPlan> {
    if bytes.lane[0] != 4 || bytes.lane[1] != 8 {
        return None;
    }
    // Sub-word elements: the runs of 4 bytes of one 32-bit register.
    let inside = vector_bits(p, elem_bytes, 4, 0);
    if elem_bytes << inside.len() != 4 {
        return None;
    }
    finish(bytes, false, &inside, [2, 3, 4].map(|l| bytes.lane[l]).to_vec())
}

fn transposed(bytes: &AccessColumns, elem_bytes: u32) -> Option<LdMatrixPlan> {
    let columns = bytes.lane[2..].iter().zip([2, 4, 8]).all(|(&c, want)| c == want);
    if elem_bytes != 2 || !columns || bytes.reg.is_empty() {
        return None;
    }
    finish(bytes, true, &[1], vec![bytes.reg[0], bytes.lane[0], bytes.lane[1]])
}

/// Groups registers: `inside` are the register masks inside one 32-bit register, `rows` the lane
/// addresses of the row bits.
fn finish(bytes: &AccessColumns, trans: bool, inside: &[u32], rows: Vec<u32>) -> Option<LdMatrixPlan> {
    if !rows.iter().all(|r| r.is_multiple_of(ROW_BYTES)) {
        return None;
    }
    // Register directions outside the word, moved along it so that they start on a row.
    let word = if trans { 0 } else { 3 };
    let places: Vec<u32> = inside.iter().map(|&m| bytes.parts(Axis::Reg, m).0 & word).collect();
    let align = |reg: u32| {
        let fix = linear::solve(&places, bytes.parts(Axis::Reg, reg).0 & word);
        reg ^ linear::mul(inside, fix.unwrap_or(0))
    };
    let mut span = Span::of(inside);
    let mut spare = Vec::new();
    for i in 0..bytes.reg.len() {
        if span.insert(1 << i) {
            let reg = align(1 << i);
            if !bytes.parts(Axis::Reg, reg).0.is_multiple_of(ROW_BYTES) {
                return None;
            }
            spare.push(reg);
        }
    }
    let matrices = spare.len().min(2);
    let (matrix, repeat) = spare.split_at(matrices);
    let mut lane_address = rows;
    lane_address.extend(matrix.iter().map(|&r| bytes.parts(Axis::Reg, r).0));
    let mut groups = Vec::new();
    let odd = bytes.registers() >> bytes.reg.len();
    for o in 0..odd {
        for x in 0..1u64 << repeat.len() {
            let base = linear::mul(repeat, x) | o << bytes.reg.len();
            let (xor, add) = bytes.parts(Axis::Reg, base);
            let mut regs = SmallVec::new();
            for q in 0..1u64 << matrices {
                for k in 0..1u64 << inside.len() {
                    regs.push(base ^ linear::mul(matrix, q) ^ linear::mul(inside, k));
                }
            }
            groups.push(LdMatrixGroup { regs, xor, add });
        }
    }
    Some(LdMatrixPlan { trans, count: 1 << matrices, lane_address, warp_address: bytes.warp.clone(), groups, pad: bytes.pad })
}
