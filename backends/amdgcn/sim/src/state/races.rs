//! Races on global memory.
//!
//! Within a workgroup, barriers order accesses as in LDS: by epochs, and an access counts from the wait that covers it. Vector loads alone
//! count from their issue: a workgroup is on one compute unit, which executes vector memory operations in order, so that no write behind
//! the barrier comes before the load in flight (LLVM's memory model waits for none there, either). Scalar loads go another way, and flat ones may. Between
//! workgroups only atomics and accesses of the device's scope order: one releases what its workgroup has completed, and a later one at the
//! same address acquires it. Workgroups, not waves, have clocks: what one wave has acquired counts for its whole workgroup.

use crate::fault::{FaultKind, Shared};
use rustc_hash::FxHashMap;

/// An access: workgroup, wave, epoch.
pub(crate) type Agent = (u32, u32, u32);

/// How an instruction touches global memory.
#[derive(Clone, Copy, Default)]
pub(crate) struct Access {
    pub write: bool,
    /// It leaves memory as it is.
    pub equal: bool,
    /// It synchronises workgroups.
    pub sync: bool,
    /// It goes through the unit that executes the workgroup's accesses in order.
    pub vector: bool,
}

/// An access: workgroup and wave, plus one, 0 is none; the epoch from which it counts, and the clock of the workgroup when it was complete.
#[derive(Clone, Copy, Default)]
struct Mark {
    agent: u32,
    epoch: u32,
    time: u32,
    /// It was one that synchronises.
    sync: bool,
}

impl Mark {
    /// The workgroup, if there is one.
    fn group(&self) -> u32 {
        self.agent.wrapping_sub(1) / WAVES
    }
}

/// The last write, and the last reads of two different agents: one of the two is another's than the next writer's.
#[derive(Clone, Copy, Default)]
struct Cell {
    write: Mark,
    reads: [Mark; 2],
}

/// Dwords of a page.
const PAGE: u64 = 256;
const PENDING: u32 = u32::MAX;
/// Waves of a workgroup in the numbers of agents.
const WAVES: u32 = 32;

/// Clocks of workgroups that are known somewhere.
type Clocks = FxHashMap<u32, u32>;

/// Cells of dwords, by pages; a dword whose bytes have been accessed apart has one per byte.
#[derive(Default)]
struct Cells {
    pages: FxHashMap<u64, Box<[Cell]>>,
    split: FxHashMap<u64, [Cell; 4]>,
}

impl Cells {
    /// Calls `f` with each cell of a range.
    fn each<E>(&mut self, address: u64, len: u16, mut f: impl FnMut(&mut Cell) -> Result<(), E>) -> Result<(), E> {
        let (mut at, end) = (address, address + u64::from(len));
        while at < end {
            let dword = at / 4;
            let here = (end - at).min(4 - at % 4);
            let page = self.pages.entry(dword / PAGE).or_insert_with(|| vec![Cell::default(); PAGE as usize].into());
            let whole = &mut page[(dword % PAGE) as usize];
            if here == 4 && (self.split.is_empty() || !self.split.contains_key(&dword)) {
                f(whole)?;
            } else {
                let bytes = self.split.entry(dword).or_insert([*whole; 4]);
                bytes[(at % 4) as usize..][..here as usize].iter_mut().try_for_each(&mut f)?;
            }
            at += here;
        }
        Ok(())
    }
}

/// The clocks of workgroups, and what was released where.
#[derive(Default)]
struct Order {
    time: FxHashMap<u32, u32>,
    seen: FxHashMap<u32, Clocks>,
    released: FxHashMap<u64, Clocks>,
}

/// Who touched which byte.
#[derive(Default)]
pub(crate) struct Races {
    cells: Cells,
    order: Order,
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
    pub fn issue(&mut self, me: Agent, address: u64, len: u16, access: Access) -> Result<(), Other> {
        let Access { write, equal, sync, vector } = access;
        if sync {
            self.order.synchronise(me, address);
        }
        self.order.now(me.0);
        let mark = Mark { agent: number(me), epoch: if vector && !write { me.2 } else { PENDING }, time: PENDING, sync };
        let pending = |other: &Mark| if other.group() == me.0 { other.epoch == PENDING } else { other.time == PENDING };
        let order = &self.order;
        let races = |other: &Mark| other.agent != 0 && !(sync && other.sync) && !order.ordered(me, other);
        self.cells.each(address, len, |c| {
            // A write of what is there does not conflict with other writes.
            if !equal && races(&c.write) {
                return Err(Other { agent: c.write.agent, write: true, pending: pending(&c.write) });
            }
            if write {
                if let Some(r) = c.reads.iter().find(|r| races(r)) {
                    return Err(Other { agent: r.agent, write: false, pending: pending(r) });
                }
                c.write = mark;
                return Ok(());
            }
            if c.reads[0].agent != mark.agent {
                c.reads[1] = c.reads[0];
            }
            c.reads[0] = mark;
            Ok(())
        })
    }

    pub fn complete(&mut self, me: Agent, address: u64, len: u16, write: bool) {
        let time = self.order.now(me.0);
        let agent = number(me);
        let _: Result<(), std::convert::Infallible> = self.cells.each(address, len, |c| {
            let [first, second] = &mut c.reads;
            let marks = if write { [Some(&mut c.write), None] } else { [Some(first), Some(second)] };
            for m in marks.into_iter().flatten().filter(|m| m.agent == agent && m.time == PENDING) {
                (m.epoch, m.time) = (m.epoch.min(me.2), time);
            }
            Ok(())
        });
    }
}

impl Order {
    /// The clock of a workgroup.
    fn now(&mut self, group: u32) -> u32 {
        *self.time.entry(group).or_insert(1)
    }

    /// Whether an access of another agent is ordered before one of `me`.
    fn ordered(&self, me: Agent, other: &Mark) -> bool {
        let group = other.group();
        if group == me.0 {
            return other.agent == number(me) || other.epoch < me.2;
        }
        other.time != PENDING && self.seen.get(&me.0).and_then(|c| c.get(&group)).is_some_and(|&t| t >= other.time)
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
