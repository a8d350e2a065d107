//! Races on global memory.
//!
//! Within a workgroup, barriers order accesses as in LDS: by epochs, and a write counts from the wait that covers it. Between
//! workgroups only atomics and accesses of the device's scope order: one releases what its workgroup has completed, and a later one at the
//! same address acquires it. Workgroups, not waves, have clocks: what one wave has acquired counts for its whole workgroup.

use crate::fault::{FaultKind, Shared};
use rustc_hash::FxHashMap;

/// An access: workgroup, wave, epoch.
pub(crate) type Agent = (u32, u32, u32);

#[derive(Clone, Copy, Default)]
struct Cell {
    /// The last writer: workgroup and wave, plus one; 0 is none.
    writer: u32,
    write_epoch: u32,
    /// The clock of the writer's workgroup when the write was complete.
    write_time: u32,
    reader: u32,
    read_epoch: u32,
    read_time: u32,
    /// The last write, or read, was one that synchronises.
    write_sync: bool,
    read_sync: bool,
}

const PAGE: u64 = 1024;
const PENDING: u32 = u32::MAX;
/// Waves of a workgroup in the numbers of agents.
const WAVES: u32 = 32;

/// Clocks of workgroups that are known somewhere.
type Clocks = FxHashMap<u32, u32>;

/// Who touched which byte.
#[derive(Default)]
pub(crate) struct Races {
    pages: FxHashMap<u64, Box<[Cell]>>,
    time: FxHashMap<u32, u32>,
    seen: FxHashMap<u32, Clocks>,
    released: FxHashMap<u64, Clocks>,
}

/// The other access of a race.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Other {
    agent: u32,
    write: bool,
    pending: bool,
}

impl Other {
    pub fn fault(self, address: u64, write: bool, lane: u32) -> FaultKind {
        FaultKind::Race {
            memory: Shared::Global,
            address,
            lane,
            write,
            other_write: self.write,
            other_pending: self.pending,
            other: Some(((self.agent - 1) / WAVES, (self.agent - 1) % WAVES)),
        }
    }
}

fn number((group, wave, _): Agent) -> u32 {
    group.wrapping_mul(WAVES).wrapping_add(wave).wrapping_add(1)
}

impl Races {
    /// Whether an access of another agent is ordered before one of `me`.
    fn ordered(&self, me: Agent, agent: u32, epoch: u32, time: u32) -> bool {
        let group = (agent - 1) / WAVES;
        if group == me.0 {
            return agent == number(me) || epoch < me.2;
        }
        time != PENDING && self.seen.get(&me.0).and_then(|c| c.get(&group)).is_some_and(|&t| t >= time)
    }

    pub fn issue(&mut self, me: Agent, address: u64, len: u16, write: bool, sync: bool) -> Result<(), Other> {
        if sync {
            self.synchronise(me, address);
        }
        let time = *self.time.entry(me.0).or_insert(1);
        let agent = number(me);
        for at in address..address + u64::from(len) {
            let c = match self.pages.get(&(at / PAGE)) {
                Some(p) => p[(at % PAGE) as usize],
                None => Cell::default(),
            };
            if c.writer != 0 && !(sync && c.write_sync) && !self.ordered(me, c.writer, c.write_epoch, c.write_time) {
                return Err(Other { agent: c.writer, write: true, pending: c.write_epoch == PENDING });
            }
            if write && c.reader != 0 && !(sync && c.read_sync) && !self.ordered(me, c.reader, c.read_epoch, c.read_time) {
                return Err(Other { agent: c.reader, write: false, pending: false });
            }
            let page = self.pages.entry(at / PAGE).or_insert_with(|| vec![Cell::default(); PAGE as usize].into());
            let c = &mut page[(at % PAGE) as usize];
            if write {
                (c.writer, c.write_epoch, c.write_time, c.write_sync) = (agent, PENDING, PENDING, sync);
            } else {
                (c.reader, c.read_epoch, c.read_time, c.read_sync) = (agent, me.2, time, sync);
            }
        }
        Ok(())
    }

    pub fn complete(&mut self, me: Agent, address: u64, len: u16) {
        let time = *self.time.entry(me.0).or_insert(1);
        let agent = number(me);
        for at in address..address + u64::from(len) {
            if let Some(c) = self.pages.get_mut(&(at / PAGE)).map(|p| &mut p[(at % PAGE) as usize])
                && c.writer == agent
            {
                (c.write_epoch, c.write_time) = (me.2, time);
            }
        }
    }

    /// Releases what the workgroup has completed, and acquires what was released at the address.
    fn synchronise(&mut self, me: Agent, address: u64) {
        let time = self.time.entry(me.0).or_insert(1);
        let seen = self.seen.entry(me.0).or_default();
        let at = self.released.entry(address).or_default();
        for (&g, &t) in at.iter() {
            let s = seen.entry(g).or_default();
            *s = t.max(*s);
        }
        for (&g, &t) in seen.iter() {
            let r = at.entry(g).or_default();
            *r = t.max(*r);
        }
        at.insert(me.0, *time);
        *time += 1;
    }
}
