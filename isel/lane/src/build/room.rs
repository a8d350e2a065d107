//! Room that tables begin with: what many programs have.

/// Instructions that are found again: their table is made for so many.
pub(super) const MEMO: usize = 400;
/// Values. Tables of so many are blocks that an allocator maps by themselves, and of which it learns how much comes and goes: the GNU library's would give
/// the end of its heap back behind each compile otherwise, which is a page fault for every 4 KB of the next one. Room that nobody uses is not touched.
pub(super) const VALUES: usize = 32768;
/// Instructions of a block.
pub(super) const BLOCK: usize = 32;
