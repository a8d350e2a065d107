//! Placement of shared memory: first fit by start of life, so that allocations that live at the same time do not overlap.

use super::frame::{Alloc, AllocId};
use cranelift_entity::{PrimaryMap, SecondaryMap};

/// From the first to the last use of an allocation, on a clock of the program's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life {
    /// First use.
    pub first: u32,
    /// Last use.
    pub last: u32,
}

/// Sizes are capped here, far above what any machine has, so that sums can't overflow.
const CAP: u32 = 1 << 30;

/// Allocations in use at the same time among which a gap is looked for; if there are more, the next one goes behind all of them. No machine has
/// room for so many at multiples of 128 bytes.
const MOST_SEARCHED: usize = 2048;

/// Memory that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// Its bytes.
    pub bytes: u32,
    /// It begins at a multiple of this.
    pub align: u32,
    /// When it is in use.
    pub life: Life,
}

/// The bytes of shared memory that a program takes with these allocations, in the order in which they are made.
pub fn placed(rooms: &[Room]) -> u32 {
    offsets(rooms).1
}

/// Offsets, and the bytes of shared memory in all.
fn offsets(rooms: &[Room]) -> (Vec<u32>, u32) {
    let mut order: Vec<usize> = (0..rooms.len()).collect();
    order.sort_by_key(|&n| (rooms[n].life.first, n));
    let mut at_of = vec![0; rooms.len()];
    // What is in use, by offset, and its last use.
    let mut busy: Vec<(u32, u32, u32)> = Vec::new();
    let (mut total, mut next_end) = (0, u32::MAX);
    for n in order {
        let Room { bytes, align, life } = rooms[n];
        let bytes = bytes.min(CAP);
        // Whoever comes later begins later: what is over by now meets none of them, and all else meets this one.
        if next_end < life.first {
            busy.retain(|&(.., last)| life.first <= last);
            next_end = busy.iter().map(|x| x.2).min().unwrap_or(u32::MAX);
        }
        next_end = next_end.min(life.last);
        let (searched, mut at) = match busy.last() {
            // Behind all of them.
            Some(&(_, e, _)) if busy.len() > MOST_SEARCHED => (&[][..], e.min(CAP).next_multiple_of(align)),
            _ => (&busy[..], 0),
        };
        for &(o, e, _) in searched {
            if at + bytes <= o {
                break;
            }
            at = at.max(e).min(CAP).next_multiple_of(align);
        }
        at_of[n] = at;
        total = total.max(at + bytes);
        let new = (at, at + bytes, life.last);
        busy.insert(busy.partition_point(|x| x < &new), new);
    }
    (at_of, total)
}

/// Gives every allocation that is ever used its offset; returns the bytes of shared memory in all.
pub(super) fn place(allocs: &mut PrimaryMap<AllocId, Alloc>, lives: &SecondaryMap<AllocId, Option<Life>>) -> u32 {
    let used: Vec<(AllocId, Life)> = allocs.keys().filter_map(|a| lives[a].map(|l| (a, l))).collect();
    let rooms: Vec<Room> = used.iter().map(|&(a, life)| Room { bytes: allocs[a].bytes, align: allocs[a].align, life }).collect();
    let (at, total) = offsets(&rooms);
    used.iter().zip(at).for_each(|(&(a, _), at)| allocs[a].offset = at);
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_that_meet_do_not_share_and_others_do() {
        let mut allocs = PrimaryMap::new();
        let mut lives = SecondaryMap::new();
        for (bytes, first, last) in [(100, 0, 10), (300, 2, 4), (50, 5, 9), (200, 11, 12), (7, 3, 3)] {
            let a = allocs.push(Alloc { bytes, align: 128, offset: 0, region_bytes: 0, slot: 0, name: None, purpose: "test" });
            lives[a] = Some(Life { first, last });
        }
        let total = place(&mut allocs, &lives);
        let all: Vec<(AllocId, Life)> = allocs.keys().filter_map(|a| lives[a].map(|l| (a, l))).collect();
        for &(a, l) in &all {
            assert_eq!(allocs[a].offset % 128, 0);
            assert!(allocs[a].offset + allocs[a].bytes <= total);
            for &(b, m) in all.iter().filter(|(b, _)| *b != a) {
                let apart =
                    allocs[a].offset + allocs[a].bytes <= allocs[b].offset || allocs[b].offset + allocs[b].bytes <= allocs[a].offset;
                assert!(apart || l.last < m.first || m.last < l.first, "{a} and {b} overlap");
            }
        }
        // The late one takes the place of the first.
        assert_eq!(all.iter().map(|&(a, _)| allocs[a].offset).collect::<Vec<_>>()[3], 0);
    }

    /// More than are searched for gaps lie one behind the other, and those that come when these are over begin anew.
    #[test]
    fn many_that_live_together_lie_apart() {
        let many = 2 * MOST_SEARCHED as u32;
        let room = |first, last| Room { bytes: 100, align: 128, life: Life { first, last } };
        let mut rooms: Vec<Room> = (0..many).map(|n| room(n, many)).collect();
        rooms.push(room(many + 1, many + 1));
        let (at, total) = offsets(&rooms);
        assert_eq!(at, (0..many).map(|n| 128 * n).chain([0]).collect::<Vec<u32>>());
        assert_eq!(total, 128 * (many - 1) + 100);
    }
}
