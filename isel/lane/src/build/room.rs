//! Room that tables begin with: what many programs have.

/// Instructions that are found again: their table is made for so many.
pub(super) const MEMO: usize = 400;
/// Values.
pub(super) const VALUES: usize = 2048;
/// Instructions of a block.
pub(super) const BLOCK: usize = 32;
