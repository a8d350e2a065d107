//! Places and agents in the keys of states.

use smallvec::SmallVec;

/// The lowest bit of a block's rank in the key of a place: what lies below is its address.
pub(crate) const RANK: u32 = 24;

/// The block of a place.
pub(crate) fn block_of(key: i64) -> usize {
    (key >> RANK) as usize
}

/// Agents, in order.
pub(crate) type Agents = SmallVec<[u32; 4]>;

/// Adds an agent; false if it is there.
pub(crate) fn add_agent(list: &mut Agents, t: usize) -> bool {
    match list.binary_search(&(t as u32)) {
        Ok(_) => false,
        Err(at) => {
            list.insert(at, t as u32);
            true
        }
    }
}

/// A list of agents in a key.
pub(crate) fn list_key(list: &Agents, out: &mut Vec<u64>) {
    out.push(list.len() as u64);
    out.extend(list.iter().map(|&t| u64::from(t)));
}

/// The bits of an address in a key.
pub(crate) const ADDRESS: i64 = (1 << RANK) - 1;

/// Bytes of an mbarrier.
pub(crate) const MBARRIER_BYTES: i64 = 8;

/// A region, and what of it: from where to where.
pub(crate) type Part = (usize, (i64, i64));

/// Ranges of bytes, those that touch one another joined.
pub(crate) fn joined(mut list: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    list.sort_unstable();
    let mut out: Vec<(i64, i64)> = Vec::new();
    for (from, to) in list {
        match out.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => out.push((from, to)),
        }
    }
    out
}
