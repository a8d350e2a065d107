//! Allocations in shared memory: what a role makes is its own, and each replica of it has its own part.

use super::LaneBuilder;
use super::equal::{Key, What};
use crate::frame::{Alloc, AllocId, AllocName};
use crate::inst::{Inst, Opcode};
use crate::place::{Life, Owner};
use crate::value::{LTy, LVal, Special};

impl LaneBuilder {
    /// Makes an allocation in shared memory; bytes and alignment as in [`Alloc`].
    pub fn alloc(&mut self, bytes: u32, purpose: &'static str) -> AllocId {
        self.alloc_aligned(bytes, 128, purpose)
    }

    /// As [`LaneBuilder::alloc`], with an alignment.
    pub fn alloc_aligned(&mut self, bytes: u32, align: u32, purpose: &'static str) -> AllocId {
        let replicas = self.role.map_or(1, |r| r.replicas);
        let part = bytes.next_multiple_of(align);
        let all = if replicas > 1 { part.saturating_mul(replicas) } else { bytes };
        let alloc = self.program.allocs.push(Alloc { bytes: all, align, offset: 0, region_bytes: 0, slot: 0, name: None, purpose });
        if replicas > 1 {
            self.parts[alloc] = part;
        }
        self.owners[alloc] = self.role.map(|r| Owner { role: r.frame, part: if replicas > 1 { part } else { 0 } });
        alloc
    }

    /// Says in which parts roles hand an allocation to one another.
    pub fn set_regions(&mut self, alloc: AllocId, bytes: u32, slot: u32) {
        self.program.allocs[alloc].region_bytes = bytes;
        self.program.allocs[alloc].slot = slot;
    }

    /// Says what the author calls an allocation.
    pub fn set_name(&mut self, alloc: AllocId, name: AllocName) {
        self.program.allocs[alloc].name = Some(name);
    }

    /// The address of an allocation; of one that a role of several replicas has made, that of the lane's part.
    pub fn shared_addr(&mut self, alloc: AllocId) -> LVal {
        let whole = self.whole_addr(alloc);
        let part = self.parts[alloc];
        if part == 0 {
            return whole;
        }
        let (replica, part) = (self.special(Special::Replica), self.i32(i64::from(part)));
        let before = self.mul(replica, part);
        self.add(whole, before)
    }

    fn whole_addr(&mut self, alloc: AllocId) -> LVal {
        self.pure_by(Key::numbered(What::Row(Opcode::SharedAddr), alloc.as_u32().into()), LTy::I32, &[], |dst| Inst::SharedAddr {
            dst,
            alloc,
        })
    }

    /// Says that an allocation is in use here.
    pub fn touch(&mut self, alloc: AllocId) {
        let now = self.clock;
        let life = &mut self.lives[alloc];
        *life = Some(Life { first: life.map_or(now, |l| l.first), last: now });
    }
}
