//! Bank conflicts: lanes of a phase access LDS together; each bank gives one dword per cycle.
//!
//! gfx90a and gfx942 have 32 banks, gfx950 has 64. Accesses of 4 bytes or less take 64 lanes in two phases of 32 (one of 64 on gfx950
//! reads), 8 bytes phases of 16 to 32, 16 bytes phases of 8 or 16. Which lanes form a phase of 16-byte reads was measured on gfx950 only;
//! for the others consecutive lanes are assumed. Of an instruction with two offsets the accesses at one come before those at the other.

use crate::chip::Chip;
use crate::span::{Span, Touch};

/// The phases of 16-byte reads on gfx950, in the first 32 lanes.
const WIDE_READ: [[u8; 16]; 2] =
    [[0, 1, 2, 3, 12, 13, 14, 15, 20, 21, 22, 23, 24, 25, 26, 27], [4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 28, 29, 30, 31]];

/// Cycles that an instruction takes, and how many of them are due to conflicts.
pub(super) fn cycles(chip: Chip, spans: &[Span]) -> (u64, u64) {
    let bytes = u32::from(spans[0].len).max(4);
    let write = spans[0].touch != Touch::Read;
    let banks: u32 = if chip == Chip::Gfx950 && !write { 64 } else { 32 };
    let lanes = ((banks * 4 / bytes) as usize).clamp(1, 64);
    let (mut total, mut ideal) = (0, 0);
    let mut phase = |group: &mut dyn Iterator<Item = &Span>| {
        let mut rows: Vec<(u32, u32)> = Vec::new();
        for s in group {
            for dword in s.address / 4..(s.address + u32::from(s.len)).div_ceil(4) {
                rows.push((dword % banks, dword));
            }
        }
        if rows.is_empty() {
            return;
        }
        rows.sort_unstable();
        rows.dedup();
        let most = (0..banks).map(|b| rows.iter().filter(|r| r.0 == b).count()).max().unwrap_or(1);
        total += most as u64;
        ideal += 1;
    };
    if chip == Chip::Gfx950 && !write && bytes == 16 && spans.len() == 64 {
        for half in spans.chunks(32) {
            for lanes in WIDE_READ {
                phase(&mut lanes.iter().map(|&l| &half[usize::from(l)]));
            }
        }
    } else {
        for group in spans.chunks(lanes) {
            phase(&mut group.iter());
        }
    }
    (total, total - ideal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(len: u16, address: impl Fn(u32) -> u32) -> Vec<Span> {
        (0..64).map(|l| Span { address: address(l), len, touch: Touch::Read }).collect()
    }

    #[test]
    fn conflicts_are_lanes_of_a_phase_in_one_bank() {
        assert_eq!(cycles(Chip::Gfx942, &reads(4, |l| 4 * l)), (2, 0));
        assert_eq!(cycles(Chip::Gfx942, &reads(4, |l| 8 * l)), (4, 2));
        assert_eq!(cycles(Chip::Gfx942, &reads(4, |_| 0)), (2, 0));
        assert_eq!(cycles(Chip::Gfx942, &reads(4, |l| 128 * l)), (64, 62));
        assert_eq!(cycles(Chip::Gfx942, &reads(16, |l| 16 * l)), (8, 0));
        assert_eq!(cycles(Chip::Gfx942, &reads(16, |l| 128 * l)), (64, 56));
        assert_eq!(cycles(Chip::Gfx950, &reads(16, |l| 16 * l)), (4, 0));
    }
}
