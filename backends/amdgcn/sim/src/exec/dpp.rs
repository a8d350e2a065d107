//! The lane that a lane reads by DPP.

/// The lane that `lane` reads; `None` out of bounds. The outer `None`: no such control.
pub(super) fn source(control: u16, lane: usize) -> Option<Option<usize>> {
    let (row, in_row) = (lane & !15, lane & 15);
    let n = usize::from(control & 15);
    let within = |i: Option<usize>| i.filter(|&i| i < 16).map(|i| row + i);
    Some(match control {
        0..=0xff => Some((lane & !3) + usize::from(control >> (2 * (lane & 3)) & 3)),
        0x101..=0x10f => within(Some(in_row + n)),
        0x111..=0x11f => within(in_row.checked_sub(n)),
        0x121..=0x12f => Some(row + (in_row + 16 - n) % 16),
        0x130 => Some(lane + 1).filter(|&l| l < 64),
        0x134 => Some((lane + 1) % 64),
        0x138 => lane.checked_sub(1),
        0x13c => Some((lane + 63) % 64),
        0x140 => Some(row + 15 - in_row),
        0x141 => Some((lane & !7) + 7 - (lane & 7)),
        0x142 => row.checked_sub(1),
        0x143 => (lane >= 32).then_some(31),
        0x150..=0x15f => Some(row + n),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::source;

    #[test]
    fn known_controls() {
        assert_eq!(source(0xb1, 4), Some(Some(5)));
        assert_eq!(source(0x111, 16), Some(None));
        assert_eq!(source(0x111, 17), Some(Some(16)));
        assert_eq!(source(0x128, 3), Some(Some(11)));
        assert_eq!(source(0x140, 16), Some(Some(31)));
        assert_eq!(source(0x142, 35), Some(Some(31)));
        assert_eq!(source(0x143, 33), Some(Some(31)));
        assert_eq!(source(0x200, 0), None);
    }
}
