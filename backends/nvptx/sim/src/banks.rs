//! Cost of a memory instruction as the hardware sees it: shared-memory wavefronts, global sectors.
//!
//! Shared memory has 32 banks of 4 bytes. An access of up to 4 bytes per lane is one phase of 32
//! lanes, 8 bytes two phases of 16, 16 bytes four phases of 8. A phase takes as many wavefronts as
//! the busiest bank has distinct words.

use smallvec::SmallVec;

/// Wavefronts of one phase given the word indices it touches.
fn phase(words: &[u32]) -> u32 {
    let mut first = [u32::MAX; 32];
    let mut clash = false;
    for &w in words {
        let b = &mut first[(w % 32) as usize];
        if *b == u32::MAX {
            *b = w;
        } else if *b != w {
            clash = true;
            break;
        }
    }
    if !clash {
        return 1;
    }
    let mut sorted: SmallVec<[u32; 32]> = SmallVec::from_slice(words);
    sorted.sort_unstable();
    sorted.dedup();
    let mut n = [0u32; 32];
    for w in sorted {
        n[(w % 32) as usize] += 1;
    }
    n.into_iter().max().unwrap_or(1)
}

/// (wavefronts, wavefronts without any conflict) of `size`-byte accesses by the lanes of `mask`.
pub(crate) fn shared(offs: &[u64; 32], mask: u32, size: u32) -> (u32, u32) {
    let lanes = (128 / size.max(4)).min(32) as usize;
    let words_per = (size / 4).max(1);
    let (mut total, mut ideal) = (0, 0);
    for start in (0..32).step_by(lanes) {
        let mut words: SmallVec<[u32; 32]> = SmallVec::new();
        for l in (start..start + lanes).filter(|l| mask >> l & 1 == 1) {
            let w = (offs[l] / 4) as u32;
            words.extend(w..w + words_per);
        }
        if !words.is_empty() {
            total += phase(&words);
            ideal += 1;
        }
    }
    (total, ideal)
}

/// Wavefronts of eight 16-byte rows (one 8x8 matrix of ldmatrix or stmatrix).
pub(crate) fn matrix(rows: &[u64]) -> u32 {
    let words: SmallVec<[u32; 32]> = rows.iter().flat_map(|r| (r / 4) as u32..(r / 4) as u32 + 4).collect();
    phase(&words)
}

/// (32-byte sectors, 128-byte lines) touched by `size`-byte accesses.
pub(crate) fn global(addrs: &[u64; 32], mask: u32, size: u32) -> (u32, u32) {
    let mut sectors: SmallVec<[u64; 32]> = SmallVec::new();
    for l in (0..32).filter(|l| mask >> l & 1 == 1) {
        let (a, b) = (addrs[l] / 32, (addrs[l] + u64::from(size) - 1) / 32);
        for s in a..=b {
            if sectors.last() != Some(&s) {
                sectors.push(s);
            }
        }
    }
    if !sectors.is_sorted() {
        sectors.sort_unstable();
    }
    sectors.dedup();
    let n = sectors.len() as u32;
    let mut lines = 0;
    let mut last = None;
    for s in sectors {
        if last != Some(s / 4) {
            lines += 1;
            last = Some(s / 4);
        }
    }
    (n, lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn col(pitch: u64, size: u32) -> u32 {
        let mut o = [0; 32];
        for (l, x) in o.iter_mut().enumerate() {
            *x = l as u64 * pitch;
        }
        let (w, phases) = shared(&o, u32::MAX, size);
        w / phases
    }

    /// Column accesses by row pitch: known conflict degrees.
    #[test]
    fn column_access_by_pitch() {
        for (pitch, want) in [(128, [8, 16, 32]), (144, [1, 2, 4]), (352, [2, 4, 8]), (384, [8, 16, 32])] {
            assert_eq!([col(pitch, 16), col(pitch, 8), col(pitch, 4)], want, "pitch {pitch}");
        }
        assert_eq!(col(132, 4), 1);
        assert_eq!(col(136, 4), 2);
        assert_eq!(col(0, 4), 1);
    }

    #[test]
    fn rows_of_a_swizzled_tile_are_clean() {
        let plain: Vec<u64> = (0..8).map(|r| r * 128).collect();
        let swizzled: Vec<u64> = (0..8).map(|r| r * 128 + r * 16).collect();
        assert_eq!((matrix(&plain), matrix(&swizzled)), (8, 1));
    }

    #[test]
    fn sectors_and_lines() {
        let mut a = [0; 32];
        for (l, x) in a.iter_mut().enumerate() {
            *x = 4096 + 4 * l as u64;
        }
        assert_eq!(global(&a, u32::MAX, 4), (4, 1));
        let strided = a.map(|x| 4096 + (x - 4096) * 32);
        assert_eq!(global(&strided, u32::MAX, 4), (32, 32));
        assert_eq!(global(&a, 1, 4), (1, 1));
    }
}
