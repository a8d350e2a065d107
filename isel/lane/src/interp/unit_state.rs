//! What units are doing: mbarriers, copies and multiplications that are not over.

use crate::interp::LaneFault;
use crate::value::LVal;
use cranelift_entity::EntityRef;
use std::collections::BTreeMap;

/// An mbarrier.
pub(super) struct MbarrierState {
    pub(super) count: u32,
    pub(super) pending: u32,
    pub(super) bytes: i64,
    pub(super) phase: u64,
}

/// A bulk copy in flight.
pub(super) struct Flight {
    pub mbarrier: usize,
    pub to: usize,
    pub data: Vec<u8>,
    pub counts: u32,
}

/// Ready since ever.
pub(super) const READY: u64 = 0;

/// Never ready.
pub(super) const UNDEFINED: u64 = u64::MAX;

/// What units are doing.
pub(crate) struct UnitState {
    pub(super) mbarriers: BTreeMap<usize, MbarrierState>,
    pub(super) flights: Vec<Flight>,
    /// Warps that have arrived at each named barrier, and the rounds that are over.
    pub(super) named: BTreeMap<u32, (u32, u64)>,
    /// Groups of multiplications closed, which count from 1, and those not waited for, by the first thread of their role.
    pub(super) closed: u64,
    pub(super) open: BTreeMap<usize, Vec<u64>>,
    /// The group that makes each value, [`READY`] or [`UNDEFINED`].
    pub(super) made_by: Vec<u64>,
    /// Groups of bulk stores closed, by thread.
    pub(super) stores: BTreeMap<usize, u64>,
}

impl UnitState {
    pub(super) fn new(values: usize) -> UnitState {
        UnitState {
            mbarriers: BTreeMap::new(),
            flights: Vec::new(),
            named: BTreeMap::new(),
            closed: 0,
            open: BTreeMap::new(),
            made_by: vec![READY; values],
            stores: BTreeMap::new(),
        }
    }

    pub(super) fn reset(&mut self) {
        self.mbarriers.clear();
        self.flights.clear();
        self.named.clear();
        self.stores.clear();
        self.closed = 0;
        self.open.clear();
        self.made_by.fill(READY);
    }

    pub(super) fn ready(&self, v: LVal) -> bool {
        self.done(self.made_by[v.index()])
    }

    /// True if a group of multiplications has been waited for.
    pub(super) fn done(&self, group: u64) -> bool {
        group <= self.closed && !self.open.values().any(|l| l.contains(&group))
    }

    pub(super) fn state(&self, v: LVal) -> u64 {
        self.made_by[v.index()]
    }

    pub(super) fn set_state(&mut self, v: LVal, state: u64) {
        self.made_by[v.index()] = state;
    }

    pub(super) fn make_ready(&mut self, v: LVal) {
        self.made_by[v.index()] = READY;
    }

    pub(super) fn make_undefined(&mut self, v: LVal) {
        self.made_by[v.index()] = UNDEFINED;
    }

    pub(super) fn mbarrier(&mut self, at: usize) -> Result<&mut MbarrierState, LaneFault> {
        self.mbarriers.get_mut(&at).ok_or(LaneFault::Mbarrier { addr: at as u64, problem: "was never made" })
    }

    pub(super) fn arrive(&mut self, at: usize, bytes: u32) -> Result<(), LaneFault> {
        let mbarrier = self.mbarrier(at)?;
        mbarrier.bytes += i64::from(bytes);
        let Some(left) = mbarrier.pending.checked_sub(1) else {
            return Err(LaneFault::Mbarrier { addr: at as u64, problem: "gets more arrivals than its phase expects" });
        };
        mbarrier.pending = left;
        mbarrier.end_phase();
        Ok(())
    }
}

impl MbarrierState {
    pub(super) fn end_phase(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            self.phase += 1;
            self.pending = self.count;
        }
    }

    pub(super) fn over(&self, parity: u64) -> bool {
        self.phase & 1 != parity & 1
    }
}
