//! Operations in flight: results land as late as the waits allow, so a register that one still writes must not be touched.
//!
//! Vector memory completes in the order of issue. LDS operations complete in order among themselves; scalar loads in any order, so
//! that a count tells of them only when it is zero, and of LDS operations only as far as all scalar loads may be the ones that
//! completed.

use crate::fault::Counter;
use crate::span::Span;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// What an operation in flight is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Vm,
    Ds,
    Smem,
}

/// Registers that land with an operation: vector (by slot) or scalar, the first, how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Landing {
    pub vector: bool,
    pub first: u16,
    pub count: u8,
}

/// An operation in flight.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    /// Its number in a recording.
    pub id: u64,
    pub from: u64,
    pub kind: Kind,
    pub landings: SmallVec<[Landing; 1]>,
    /// LDS that it touches.
    pub spans: Vec<Span>,
    /// Global memory that it touches: address, bytes, whether it writes.
    pub global: Vec<(u64, u16, bool)>,
}

/// What a wave has in flight.
#[derive(Debug)]
pub(crate) struct Flight {
    vm: VecDeque<Pending>,
    lgkm: VecDeque<Pending>,
    busy_v: Vec<u8>,
    busy_s: [u8; 128],
    any: u32,
}

impl Flight {
    pub fn new(registers: usize) -> Flight {
        Flight { vm: VecDeque::new(), lgkm: VecDeque::new(), busy_v: vec![0; registers], busy_s: [0; 128], any: 0 }
    }

    fn mark(&mut self, l: Landing, up: bool) {
        let change = |b: &mut u8| *b = if up { b.saturating_add(1) } else { b.saturating_sub(1) };
        for i in usize::from(l.first)..usize::from(l.first) + usize::from(l.count) {
            if l.vector {
                self.busy_v.get_mut(i).map(change);
            } else {
                self.busy_s.get_mut(i).map(change);
            }
        }
    }

    pub fn issue(&mut self, p: Pending) {
        for &l in &p.landings {
            self.mark(l, true);
        }
        self.any += 1;
        if p.kind == Kind::Vm { self.vm.push_back(p) } else { self.lgkm.push_back(p) }
    }

    /// The first of the registers that is in flight, the counter, and the instruction that writes it. A load from memory may write
    /// what loads before it still write, since they complete in order: `reload`.
    pub fn conflict(&self, vector: bool, first: usize, count: usize, reload: bool) -> Option<(usize, Counter, u64)> {
        if self.any == 0 {
            return None;
        }
        let busy: &[u8] = if vector { &self.busy_v } else { &self.busy_s };
        let conflict = |at: usize| {
            let lands = |p: &&Pending| {
                let has =
                    |l: &Landing| l.vector == vector && (usize::from(l.first)..usize::from(l.first) + usize::from(l.count)).contains(&at);
                p.landings.iter().any(has)
            };
            let other = || self.lgkm.iter().find(lands).map(|p| (at, Counter::Lgkm, p.from));
            let memory = self.vm.iter().find(lands).filter(|_| !reload).map(|p| (at, Counter::Vm, p.from));
            memory.or_else(other)
        };
        (first..first + count).filter(|&i| busy.get(i).is_some_and(|&b| b > 0)).find_map(conflict)
    }

    /// Reads of an LDS byte that this wave has in flight.
    pub fn reads_of(&self, address: u32) -> u8 {
        let has = |s: &&Span| s.touch == crate::span::Touch::Read && (s.address..s.address + u32::from(s.len)).contains(&address);
        self.lgkm.iter().flat_map(|p| &p.spans).filter(has).count().min(255) as u8
    }

    /// Waits until at most so many of each kind are in flight; gives what has completed.
    pub fn wait(&mut self, vm: u16, lgkm: u16) -> Vec<Pending> {
        let mut done = Vec::new();
        while self.vm.len() > usize::from(vm) {
            done.extend(self.vm.pop_front());
        }
        if lgkm == 0 {
            done.extend(self.lgkm.drain(..));
        } else {
            let scalar = self.lgkm.iter().filter(|p| p.kind == Kind::Smem).count();
            let mut sure = self.lgkm.len().saturating_sub(usize::from(lgkm)).saturating_sub(scalar);
            let mut kept = VecDeque::new();
            while let Some(p) = self.lgkm.pop_front() {
                if sure > 0 && p.kind == Kind::Ds {
                    sure -= 1;
                    done.push(p);
                } else {
                    kept.push_back(p);
                }
            }
            self.lgkm = kept;
        }
        for p in &done {
            self.any -= 1;
            for &l in &p.landings {
                self.mark(l, false);
            }
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(kind: Kind, first: u16) -> Pending {
        let landings = SmallVec::from_slice(&[Landing { vector: kind != Kind::Smem, first, count: 1 }]);
        Pending { id: 0, from: u64::from(first), kind, landings, spans: Vec::new(), global: Vec::new() }
    }

    #[test]
    fn vector_memory_completes_in_order() {
        let mut f = Flight::new(8);
        (0..3).for_each(|i| f.issue(op(Kind::Vm, i)));
        assert_eq!(f.wait(1, 15).len(), 2);
        assert_eq!(f.conflict(true, 0, 2, false), None);
        assert_eq!(f.conflict(true, 0, 3, false), Some((2, Counter::Vm, 2)));
        assert_eq!(f.conflict(true, 0, 3, true), None);
    }

    #[test]
    fn scalar_loads_are_sure_only_at_zero() {
        let mut f = Flight::new(8);
        f.issue(op(Kind::Ds, 1));
        f.issue(op(Kind::Smem, 2));
        f.issue(op(Kind::Ds, 3));
        // Two have completed: the scalar load, perhaps, and the first of the others.
        assert_eq!(f.wait(63, 1).iter().map(|p| p.from).collect::<Vec<_>>(), [1]);
        assert_eq!(f.wait(63, 0).len(), 2);
    }
}
