//! Shared memory with a record of who touched each byte since the last barrier.
//!
//! ```text
//! byte    never written ── write ─► written ── copy starts ─► pending ── wait ─► written (by the copying thread, at the wait)
//! race    read or write of a byte that another warp wrote in this epoch, write of a byte that another warp read in this epoch
//! epoch   the time between two barriers
//! ```
//!
//! Lanes of a warp run in lockstep, so they race only by writing different values in one instruction. The data of an asynchronous copy
//! is seen by its own thread from the wait on and by all others, even of its warp, after a barrier.

use super::error::LaneFault;
use crate::value::Space;
use std::collections::VecDeque;
use std::ops::Range;

/// Who runs an access: a thread, and the warp it is in.
#[derive(Clone, Copy)]
pub(crate) struct Who {
    /// The thread, or [`Who::NOBODY`] for an access by the warp as a whole.
    pub(crate) thread: usize,
    pub(crate) warp: usize,
}

impl Who {
    /// Stands for the thread of a cooperative access, which sees nothing that only one thread sees.
    pub(crate) const NOBODY: usize = usize::MAX;
}

const MANY: u16 = u16::MAX;

#[derive(Clone, Copy, PartialEq, Eq)]
enum ByteState {
    Unwritten,
    Written,
    /// Updated atomically: updates see one another, plain accesses wait for a barrier.
    Updated,
    /// Written by a copy: its own thread alone sees it in this epoch.
    Copied,
    /// Destination of a copy that isn't waited for.
    Pending,
    /// Written by a bulk copy that has arrived: whoever waited for its mbarrier sees it.
    Bulk,
}

/// The last write and the readers of a byte. Epochs that are over need no resetting: they equal no later epoch.
#[derive(Clone, Copy, Default)]
struct Touch {
    write_epoch: u32,
    /// The instruction of the last write, by number.
    write_step: u32,
    read_epoch: u32,
    /// Of the last write that was no atomic update.
    plain_epoch: u32,
    /// The thread of that write.
    plain_writer: u16,
    /// The writing thread.
    writer: u16,
    /// The reading warp, or [`MANY`].
    reader: u16,
}

/// A copy whose data has not arrived.
struct Copy {
    thread: usize,
    addr: usize,
    len: usize,
    data: [u8; 16],
}

pub(crate) struct Shared {
    bytes: Vec<u8>,
    states: Vec<ByteState>,
    touches: Vec<Touch>,
    lanes: usize,
    epoch: u32,
    step: u32,
    /// Copies since the last close.
    open: Vec<Copy>,
    /// Closed groups, oldest first.
    groups: VecDeque<Vec<Copy>>,
    /// Ranges that units still read, with the key of who unlocks them.
    locks: Vec<(Range<usize>, Lock)>,
    /// The step of each thread's last fence towards the units.
    fences: Vec<u32>,
}

/// Whose end unlocks a range.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Lock {
    /// A group of multiplications, by number.
    Matrices(u64),
    /// A group of bulk stores of a thread, by number.
    Stores(usize, u64),
}

impl Shared {
    pub(crate) fn new(bytes: usize, lanes: usize, threads: usize) -> Shared {
        Shared {
            bytes: vec![0; bytes],
            states: vec![ByteState::Unwritten; bytes],
            touches: vec![Touch::default(); bytes],
            lanes,
            epoch: 1,
            step: 0,
            open: Vec::new(),
            groups: VecDeque::new(),
            locks: Vec::new(),
            fences: vec![0; threads],
        }
    }

    /// Forgets everything: another program instance begins.
    pub(crate) fn reset(&mut self) {
        self.states.fill(ByteState::Unwritten);
        self.open.clear();
        self.groups.clear();
        self.locks.clear();
        self.epoch += 1;
    }

    /// All accesses up to here happen before all later ones.
    pub(crate) fn barrier(&mut self) {
        self.epoch += 1;
    }

    /// Another instruction begins.
    pub(crate) fn next_step(&mut self) {
        self.step += 1;
    }

    /// The range of an access, aligned to its width.
    fn place(&self, addr: i64, bytes: usize) -> Result<usize, LaneFault> {
        let space = Space::Shared;
        let outside = LaneFault::Outside { space, addr: addr as u64, bytes };
        let at = usize::try_from(addr).map_err(|_| outside.clone())?;
        if at.checked_add(bytes).is_none_or(|end| end > self.bytes.len()) {
            return Err(outside);
        }
        if !at.is_multiple_of(bytes) {
            return Err(LaneFault::Misaligned { space, addr: at as u64, bytes });
        }
        Ok(at)
    }

    fn race(&self, at: usize, wrote: bool) -> LaneFault {
        let t = &self.touches[at];
        let other = if wrote { Some(usize::from(t.writer) / self.lanes) } else { Some(usize::from(t.reader)).filter(|_| t.reader != MANY) };
        LaneFault::Race { addr: at as u64, other, wrote }
    }

    /// True if the last write of a byte is not ordered before an access by `who`.
    fn unordered(&self, at: usize, who: Who) -> bool {
        let t = &self.touches[at];
        t.write_epoch == self.epoch
            && match self.states[at] {
                ByteState::Unwritten | ByteState::Bulk => false,
                ByteState::Updated => true,
                ByteState::Written => usize::from(t.writer) / self.lanes != who.warp,
                ByteState::Copied | ByteState::Pending => usize::from(t.writer) != who.thread,
            }
    }

    /// Reads the bytes of one aligned access.
    pub(crate) fn read(&mut self, who: Who, addr: i64, out: &mut [u8]) -> Result<(), LaneFault> {
        let at = self.place(addr, out.len())?;
        for i in at..at + out.len() {
            match self.states[i] {
                ByteState::Unwritten => return Err(LaneFault::Uninitialised { space: Space::Shared, addr: i as u64 }),
                ByteState::Pending => return Err(LaneFault::PendingCopy { addr: i as u64, owner: usize::from(self.touches[i].writer) }),
                ByteState::Written | ByteState::Updated | ByteState::Copied | ByteState::Bulk => {}
            }
            if self.unordered(i, who) {
                return Err(self.race(i, true));
            }
            let t = &mut self.touches[i];
            let warp = who.warp as u16;
            t.reader = if t.read_epoch == self.epoch && t.reader != warp { MANY } else { warp };
            t.read_epoch = self.epoch;
        }
        out.copy_from_slice(&self.bytes[at..at + out.len()]);
        Ok(())
    }

    /// Checks that a write of one byte is ordered behind every access before it.
    fn check_write(&self, who: Who, i: usize) -> Result<(), LaneFault> {
        if self.states[i] == ByteState::Pending {
            return Err(LaneFault::PendingCopy { addr: i as u64, owner: usize::from(self.touches[i].writer) });
        }
        if self.unordered(i, who) {
            return Err(self.race(i, true));
        }
        let t = &self.touches[i];
        if t.read_epoch == self.epoch && self.states[i] != ByteState::Unwritten && usize::from(t.reader) != who.warp {
            return Err(self.race(i, false));
        }
        Ok(())
    }

    /// Writes the bytes of one aligned access.
    pub(crate) fn write(&mut self, who: Who, addr: i64, data: &[u8]) -> Result<(), LaneFault> {
        let at = self.place(addr, data.len())?;
        self.check_locks(at..at + data.len())?;
        for (i, &byte) in (at..).zip(data) {
            self.check_write(who, i)?;
            let t = &self.touches[i];
            let twice = self.states[i] == ByteState::Written && t.write_epoch == self.epoch && t.write_step == self.step;
            if twice && usize::from(t.writer) != who.thread && self.bytes[i] != byte {
                return Err(self.race(i, true));
            }
            self.mark(i, who.thread, ByteState::Written);
            self.bytes[i] = byte;
        }
        Ok(())
    }

    /// Reads the bytes that an atomic update replaces, and checks that it is ordered behind every plain access before it.
    pub(crate) fn before_update(&mut self, who: Who, addr: i64, out: &mut [u8]) -> Result<(), LaneFault> {
        let at = self.place(addr, out.len())?;
        for i in at..at + out.len() {
            match self.states[i] {
                ByteState::Unwritten => return Err(LaneFault::Uninitialised { space: Space::Shared, addr: i as u64 }),
                ByteState::Updated => {
                    // Updates are ordered among themselves; what other warps did plainly in this epoch is not.
                    let t = &self.touches[i];
                    if t.plain_epoch == self.epoch && usize::from(t.plain_writer) / self.lanes != who.warp {
                        let other = Some(usize::from(t.plain_writer) / self.lanes);
                        return Err(LaneFault::Race { addr: i as u64, other, wrote: true });
                    }
                    if t.read_epoch == self.epoch && usize::from(t.reader) != who.warp {
                        return Err(self.race(i, false));
                    }
                }
                ByteState::Written | ByteState::Copied | ByteState::Pending | ByteState::Bulk => self.check_write(who, i)?,
            }
        }
        out.copy_from_slice(&self.bytes[at..at + out.len()]);
        Ok(())
    }

    /// Writes the bytes of an atomic update whose place [`Shared::before_update`] has checked.
    pub(crate) fn update(&mut self, who: Who, addr: i64, data: &[u8]) -> Result<(), LaneFault> {
        let at = self.place(addr, data.len())?;
        for (i, &byte) in (at..).zip(data) {
            self.mark(i, who.thread, ByteState::Updated);
            self.bytes[i] = byte;
        }
        Ok(())
    }

    fn mark(&mut self, at: usize, thread: usize, state: ByteState) {
        self.states[at] = state;
        let t = &mut self.touches[at];
        t.write_epoch = self.epoch;
        t.write_step = self.step;
        t.writer = thread as u16;
        if state != ByteState::Updated {
            (t.plain_epoch, t.plain_writer) = (self.epoch, thread as u16);
        }
    }

    /// Starts a copy of `data` (at most 16 bytes) to an aligned address.
    pub(crate) fn copy(&mut self, who: Who, addr: i64, data: &[u8]) -> Result<(), LaneFault> {
        let at = self.place(addr, data.len())?;
        for i in at..at + data.len() {
            self.check_write(who, i)?;
            self.mark(i, who.thread, ByteState::Pending);
        }
        let mut copy = Copy { thread: who.thread, addr: at, len: data.len(), data: [0; 16] };
        copy.data[..data.len()].copy_from_slice(data);
        self.open.push(copy);
        Ok(())
    }

    /// Closes the group of copies.
    pub(crate) fn commit(&mut self) {
        let group = std::mem::take(&mut self.open);
        self.groups.push_back(group);
    }

    /// Lets all but the newest groups arrive.
    pub(crate) fn wait(&mut self, pending: usize) {
        while self.groups.len() > pending {
            let Some(group) = self.groups.pop_front() else { return };
            for copy in group {
                for (i, &byte) in (copy.addr..).zip(&copy.data[..copy.len]) {
                    self.bytes[i] = byte;
                    self.mark(i, copy.thread, ByteState::Copied);
                }
            }
        }
    }

    /// Takes the copies of some threads that no wait has let arrive: where they go, and what they bring.
    pub(crate) fn hand_over(&mut self, of: impl Fn(usize) -> bool) -> Vec<(usize, Vec<u8>)> {
        let mut out = Vec::new();
        for group in self.groups.iter_mut().chain([&mut self.open]) {
            let (taken, left): (Vec<Copy>, Vec<Copy>) = std::mem::take(group).into_iter().partition(|c| of(c.thread));
            *group = left;
            out.extend(taken.into_iter().map(|c| (c.addr, c.data[..c.len].to_vec())));
        }
        out
    }

    // Units.

    fn check_locks(&self, range: Range<usize>) -> Result<(), LaneFault> {
        match self.locks.iter().find(|(r, _)| r.start < range.end && range.start < r.end) {
            Some((r, _)) => Err(LaneFault::InUse { addr: r.start.max(range.start) as u64 }),
            None => Ok(()),
        }
    }

    /// The thread's writes up to here are shown to the units.
    pub(crate) fn fence(&mut self, thread: usize) {
        self.fences[thread] = self.step;
    }

    /// Starts a bulk copy to a range.
    pub(crate) fn bulk_start(&mut self, range: Range<usize>) -> Result<(), LaneFault> {
        if range.end > self.bytes.len() {
            return Err(LaneFault::Outside { space: Space::Shared, addr: range.start as u64, bytes: range.len() });
        }
        self.check_locks(range.clone())?;
        for i in range {
            if self.states[i] == ByteState::Pending {
                return Err(LaneFault::PendingCopy { addr: i as u64, owner: usize::from(self.touches[i].writer) });
            }
            self.mark(i, 0, ByteState::Pending);
        }
        Ok(())
    }

    /// Bytes of a bulk copy arrive.
    pub(crate) fn bulk_land(&mut self, at: usize, data: &[u8]) {
        for (i, &byte) in (at..).zip(data) {
            self.bytes[i] = byte;
            self.mark(i, 0, ByteState::Bulk);
        }
    }

    /// A unit reads bytes for a thread that started it.
    pub(crate) fn unit_read(&self, who: Who, at: usize, out: &mut [u8]) -> Result<(), LaneFault> {
        let range = at..at + out.len();
        if range.end > self.bytes.len() {
            return Err(LaneFault::Outside { space: Space::Shared, addr: at as u64, bytes: out.len() });
        }
        for i in range.clone() {
            let t = &self.touches[i];
            match self.states[i] {
                ByteState::Unwritten => return Err(LaneFault::Uninitialised { space: Space::Shared, addr: i as u64 }),
                ByteState::Pending => return Err(LaneFault::PendingCopy { addr: i as u64, owner: usize::from(t.writer) }),
                ByteState::Bulk => {}
                ByteState::Written | ByteState::Updated | ByteState::Copied => {
                    if self.unordered(i, who) {
                        return Err(self.race(i, true));
                    }
                    if self.fences[usize::from(t.writer)] <= t.write_step {
                        return Err(LaneFault::Unfenced { addr: i as u64 });
                    }
                }
            }
        }
        out.copy_from_slice(&self.bytes[range]);
        Ok(())
    }

    /// Units read a range until the key's end.
    pub(crate) fn lock(&mut self, range: Range<usize>, key: Lock) {
        if !self.locks.contains(&(range.clone(), key)) {
            self.locks.push((range, key));
        }
    }

    /// Ends locks.
    pub(crate) fn unlock(&mut self, over: impl Fn(Lock) -> bool) {
        self.locks.retain(|&(_, key)| !over(key));
    }

    /// A lock that is left, if there is one.
    pub(crate) fn locked(&self) -> Option<Lock> {
        self.locks.first().map(|l| l.1)
    }
}
