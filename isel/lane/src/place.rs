//! Placement of shared memory: first fit by start of life, so that allocations that live at the same time do not overlap.
//!
//! Roles run side by side, and no clock orders one's uses behind another's. What a role allocates is laid out by itself, by lives on the role's own way, and
//! is one allocation to all others; where it has replicas, one for each size of their parts.
//!
//! ```text
//! buffers, mbarriers │ role 0: scan, then reduction in the same bytes │ role 1: conversion │ …
//! ```

use super::frame::{Alloc, AllocId};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use std::collections::BTreeMap;

/// From the first to the last use of an allocation, on a clock of the program's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life {
    /// First use.
    pub first: u32,
    /// Last use.
    pub last: u32,
}

impl Life {
    /// From the first instruction to the last.
    const WHOLE: Life = Life { first: 0, last: u32::MAX };
}

/// The role that an allocation is made in: what it takes afterwards may lie in the same bytes, and nothing else.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Owner {
    /// Its number, whatever is counted.
    pub role: u32,
    /// Bytes of a replica's part, where there are several; 0 else. Parts of one size lie on one another, replica by replica. Those of two sizes would lie
    /// across those of other replicas, which may be elsewhere on their way.
    pub part: u32,
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
    /// Who uses it, if not the whole program.
    pub owner: Option<Owner>,
}

/// The bytes of shared memory that a program takes with these allocations, in the order in which they are made.
pub fn placed(rooms: &[Room]) -> u32 {
    offsets(rooms).1
}

/// Offsets, and the bytes of shared memory in all.
fn offsets(rooms: &[Room]) -> (Vec<u32>, u32) {
    if rooms.iter().all(|r| r.owner.is_none()) {
        return first_fit(rooms);
    }
    // What one owner has, or one that nobody owns, in the order in which they are made.
    let (mut parties, mut known): (Vec<Vec<usize>>, BTreeMap<Owner, usize>) = (Vec::new(), BTreeMap::new());
    for (n, room) in rooms.iter().enumerate() {
        let new = parties.len();
        let party = room.owner.map_or(new, |o| *known.entry(o).or_insert(new));
        match parties.get_mut(party) {
            Some(members) => members.push(n),
            None => parties.push(vec![n]),
        }
    }
    let (mut inside, mut outside) = (Vec::with_capacity(parties.len()), Vec::with_capacity(parties.len()));
    for members in &parties {
        let own: Vec<Room> = members.iter().map(|&n| rooms[n]).collect();
        let (at, bytes) = first_fit(&own);
        let align = own.iter().map(|r| r.align).max().unwrap_or(1);
        let life = if own[0].owner.is_some() { Life::WHOLE } else { own[0].life };
        inside.push(at);
        outside.push(Room { bytes, align, life, owner: None });
    }
    let (starts, total) = first_fit(&outside);
    let mut at_of = vec![0; rooms.len()];
    for ((members, at), start) in parties.iter().zip(&inside).zip(starts) {
        members.iter().zip(at).for_each(|(&n, at)| at_of[n] = start + at);
    }
    (at_of, total)
}

/// The same of rooms that give way to one another by their lives alone.
fn first_fit(rooms: &[Room]) -> (Vec<u32>, u32) {
    let mut order: Vec<usize> = (0..rooms.len()).collect();
    order.sort_by_key(|&n| (rooms[n].life.first, n));
    let mut at_of = vec![0; rooms.len()];
    // What is in use, by offset, and its last use.
    let mut busy: Vec<(u32, u32, u32)> = Vec::new();
    let (mut total, mut next_end) = (0, u32::MAX);
    for n in order {
        let Room { bytes, align, life, owner: _ } = rooms[n];
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
pub(super) fn place(
    allocs: &mut PrimaryMap<AllocId, Alloc>,
    lives: &SecondaryMap<AllocId, Option<Life>>,
    owners: &SecondaryMap<AllocId, Option<Owner>>,
) -> u32 {
    let used: Vec<(AllocId, Life)> = allocs.keys().filter_map(|a| lives[a].map(|l| (a, l))).collect();
    let room = |&(a, life): &(AllocId, Life)| Room { bytes: allocs[a].bytes, align: allocs[a].align, life, owner: owners[a] };
    let rooms: Vec<Room> = used.iter().map(room).collect();
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
        let total = place(&mut allocs, &lives, &SecondaryMap::new());
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
        let room = |first, last| Room { bytes: 100, align: 128, life: Life { first, last }, owner: None };
        let mut rooms: Vec<Room> = (0..many).map(|n| room(n, many)).collect();
        rooms.push(room(many + 1, many + 1));
        let (at, total) = offsets(&rooms);
        assert_eq!(at, (0..many).map(|n| 128 * n).chain([0]).collect::<Vec<u32>>());
        assert_eq!(total, 128 * (many - 1) + 100);
    }

    /// What a role is done with serves it again, and no other role; parts of replicas lie on parts of their own size.
    #[test]
    fn roles_share_with_themselves() {
        let room = |bytes, at, owner| Room { bytes, align: 128, life: Life { first: at, last: at }, owner };
        let owned = |role, part| Some(Owner { role, part });
        let rooms = [
            Room { life: Life { first: 0, last: 9 }, ..room(1024, 0, None) },
            room(512, 1, owned(0, 0)),
            room(256, 2, owned(0, 0)),
            room(384, 3, owned(1, 128)),
            room(768, 4, owned(1, 256)),
            room(384, 5, owned(1, 128)),
        ];
        assert_eq!(offsets(&rooms), (vec![0, 1024, 1024, 1536, 1920, 1536], 2688));
    }
}
