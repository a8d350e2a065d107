//! Accesses to memory: global and shared, and the barriers between writes and reads of shared memory.

use super::LaneBuilder;
use crate::frame::AllocId;
use crate::inst::{Atomic, Inst};
use crate::unit::Unit;
use crate::value::{LTy, LVal, Place, Vals};
use smallvec::SmallVec;
use tilelift_ir::CacheHint;

impl LaneBuilder {
    /// A global load of consecutive values; see [`Inst::LoadGlobal`].
    pub fn load_global(&mut self, tys: &[LTy], addr: LVal, offset: i32, guard: Option<LVal>, other: Vals) -> Vals {
        self.load_global_hinted(tys, (addr, offset), guard, other, CacheHint::Normal)
    }

    /// A global load with a hint for the caches.
    pub fn load_global_hinted(&mut self, tys: &[LTy], at: (LVal, i32), guard: Option<LVal>, other: Vals, cache: CacheHint) -> Vals {
        let (addr, offset) = at;
        let dsts = self.results(tys);
        self.effect(Inst::LoadGlobal { dsts: Vals::from_slice(&dsts), addr, offset, guard, other, cache });
        dsts
    }

    /// A global store of consecutive values.
    pub fn store_global(&mut self, srcs: Vals, addr: LVal, offset: i32, guard: Option<LVal>) {
        self.store_global_hinted(srcs, addr, offset, guard, CacheHint::Normal);
    }

    /// A global store with a hint for the caches.
    pub fn store_global_hinted(&mut self, srcs: Vals, addr: LVal, offset: i32, guard: Option<LVal>, cache: CacheHint) {
        self.effect(Inst::StoreGlobal { srcs, addr, offset, guard, cache });
    }

    /// Asks the caches for a line; see [`Inst::Prefetch`].
    pub fn prefetch(&mut self, addr: LVal, offset: i32, guard: Option<LVal>) {
        self.effect(Inst::Prefetch { addr, offset, guard });
    }

    /// An atomic update; the destination is made here. Barriers around those of shared memory are the caller's protocol.
    pub fn atomic(&mut self, alloc: Option<AllocId>, mut atomic: Atomic) -> LVal {
        if let Some(a) = alloc {
            self.touch(a);
            self.written = true;
        }
        let dst = self.result(self.ty(atomic.value));
        atomic.dst = Some(dst);
        self.effect(Inst::Atomic(Box::new(atomic)));
        dst
    }

    /// Lanes do not write an allocation: their barriers order no reads of it.
    pub fn set_read_only(&mut self, alloc: AllocId) {
        self.read_only.insert(alloc);
    }

    fn before_shared_read(&mut self, alloc: AllocId) {
        if self.read_only.contains(&alloc) {
            self.touch(alloc);
            return;
        }
        if self.written {
            self.barrier();
        }
        self.touch(alloc);
        self.read = true;
    }

    /// Call before the first of a group of shared writes that no write of the group conflicts with.
    pub fn before_shared_writes(&mut self) {
        if self.read || self.written {
            self.barrier();
        }
    }

    /// A shared load of consecutive values. The barrier that earlier writes need is inserted.
    pub fn load_shared(&mut self, tys: &[LTy], alloc: AllocId, addr: LVal, offset: i32) -> Vals {
        self.before_shared_read(alloc);
        let dsts = self.results(tys);
        self.effect(Inst::LoadShared { dsts: Vals::from_slice(&dsts), addr, offset });
        dsts
    }

    /// A matrix load; see [`Inst::LoadMatrix`]. The barrier that earlier writes need is inserted.
    pub fn load_matrix(&mut self, count: usize, alloc: AllocId, addr: LVal, offset: i32, trans: bool) -> Vals {
        self.before_shared_read(alloc);
        let tys: SmallVec<[LTy; 4]> = (0..count).map(|_| LTy::B32).collect();
        let dsts = self.results(&tys);
        self.effect(Inst::LoadMatrix { dsts: Vals::from_slice(&dsts), addr, offset, trans });
        dsts
    }

    /// A shared store of consecutive values; [`LaneBuilder::before_shared_writes`] goes before the group.
    pub fn store_shared(&mut self, srcs: Vals, alloc: AllocId, addr: LVal, offset: i32, guard: Option<LVal>) {
        self.touch(alloc);
        self.written = true;
        self.effect(Inst::StoreShared { srcs, addr, offset, guard });
    }

    /// A matrix store; see [`Unit::StoreMatrix`]. [`LaneBuilder::before_shared_writes`] goes before the group.
    pub fn store_matrix(&mut self, srcs: Vals, alloc: AllocId, addr: LVal, offset: i32) {
        self.touch(alloc);
        self.written = true;
        self.unit(Unit::StoreMatrix { srcs, to: Place { addr, offset } });
    }

    /// Starts an asynchronous copy. Waits and barriers are the caller's protocol.
    pub fn copy_async(&mut self, alloc: AllocId, shared: (LVal, i32), global: (LVal, i32), bytes: u32, valid: Option<LVal>) {
        self.touch(alloc);
        self.effect(Inst::CopyAsync { shared: shared.0, offset: shared.1, global: global.0, global_offset: global.1, bytes, valid });
    }

    /// Closes the group of copies.
    pub fn commit_copies(&mut self) {
        self.effect(Inst::CommitCopies);
    }

    /// Waits for all but the newest `pending` groups. What they wrote becomes known to other lanes at the next barrier.
    pub fn wait_copies(&mut self, pending: u32) {
        self.effect(Inst::WaitCopies { pending });
        self.written = true;
    }

    /// A barrier.
    pub fn barrier(&mut self) {
        self.effect(Inst::Barrier);
        self.read = false;
        self.written = false;
    }
}
