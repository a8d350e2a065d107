//! What agents share: barriers, what is known, regions.

use crate::site::Site;
use crate::state::facts::Facts;
use crate::state::keys::{Agents, list_key};
use crate::state::region::Region;
use smallvec::SmallVec;

/// An mbarrier.
pub(crate) struct Bar {
    /// Its key.
    pub(crate) at: i64,
    pub(crate) count: u32,
    pub pending: u32,
    pub bytes: i64,
    pub(crate) odd: bool,
    /// Who has passed a wait for the phase before.
    pub(crate) passed: Agents,
    /// Bytes have come in the phase in flight, or in one that nobody of the block has waited for.
    pub(crate) counted: bool,
    pub(crate) owed: bool,
    pub last: Option<Site>,
}

impl Bar {
    /// True if no bytes come that somebody has to wait for.
    pub(crate) fn is_idle(&self) -> bool {
        !self.owed && !self.counted && self.bytes == 0
    }
}

impl Clone for Bar {
    fn clone(&self) -> Bar {
        Bar { passed: SmallVec::from_slice(&self.passed), ..*self }
    }
}

/// A barrier at which warps, or blocks, meet in rounds.
#[derive(Clone, Default)]
pub(crate) struct Meeting {
    /// Warps that have come in the round; whether there was one before.
    pub(crate) warps: u32,
    pub(crate) again: bool,
    pub(crate) came: Agents,
    pub(crate) odd: bool,
}

impl Meeting {
    /// A round ends: what was gathered is taught.
    pub(crate) fn end_phase(&mut self, facts: &mut Facts, row: usize) {
        (self.warps, self.odd, self.again) = (0, !self.odd, true);
        self.came.clear();
        facts.hand_on(row);
    }

    pub(crate) fn key(&self, out: &mut Vec<u64>) {
        out.push(u64::from(self.warps) << 32 | u64::from(self.again) << 1 | u64::from(self.odd));
        list_key(&self.came, out);
    }
}

/// An mbarrier in a key; its phases may be odd instead of even.
pub(crate) fn bar_key(b: Option<&Bar>, flips: bool, out: &mut Vec<u64>) {
    let Some(b) = b else {
        out.push(u64::MAX);
        return;
    };
    let flags = u64::from(b.odd != flips) | u64::from(b.counted) << 1 | u64::from(b.owed) << 2;
    out.extend([u64::from(b.count) << 32 | u64::from(b.pending), b.bytes as u64, flags]);
    list_key(&b.passed, out);
}

/// Which of [`Shared::named_in`] is of regions, and which of mbarriers.
pub(crate) const REGIONS: usize = 0;
pub(crate) const MBARRIERS: usize = 1;

/// What agents share.
#[derive(Default)]
pub(crate) struct Shared {
    /// What agents know, and what barriers teach: [`Places`](crate::state::knowledge::Places) tells the rows.
    pub(crate) facts: Facts,
    /// How often each agent has told others what it knows; no part of the state.
    pub(crate) told: Vec<u32>,
    /// By number.
    pub bars: Vec<Option<Bar>>,
    pub(crate) regions: Vec<Region>,
    pub(crate) named: Vec<Meeting>,
    pub(crate) cluster: Meeting,
    /// Per block: made mbarriers that the units, and then the other warps, may not see yet.
    pub(crate) fresh: SmallVec<[(bool, bool); 8]>,
    /// The agents that may have waited for bulk stores since their lanes met, a bit each; those of the same bit modulo 64 together.
    pub(crate) alone: u64,
    /// Regions, and mbarriers, in which agents may be named, a bit each; those of the same bit modulo 64 together; no part of the state.
    pub(crate) named_in: [u64; 2],
    /// What is dead and forgotten, a bit for each of the first such allocations; no part of the state.
    pub(crate) forgotten: u64,
}

/// What was known, and in flight.
pub(crate) struct Before {
    pub(crate) facts: Facts,
    pub(crate) regions: Vec<Region>,
}

impl Clone for Shared {
    fn clone(&self) -> Shared {
        let Shared { facts, told, bars, regions, named, cluster, fresh, alone, named_in, forgotten } = self;
        Shared {
            facts: facts.clone(),
            told: told.clone(),
            bars: bars.clone(),
            regions: regions.clone(),
            named: named.clone(),
            cluster: cluster.clone(),
            fresh: fresh.clone(),
            alone: *alone,
            named_in: *named_in,
            forgotten: *forgotten,
        }
    }

    fn clone_from(&mut self, other: &Shared) {
        let Shared { facts, told, bars, regions, named, cluster, fresh, alone, named_in, forgotten } = self;
        facts.clone_from(&other.facts);
        told.clone_from(&other.told);
        bars.clone_from(&other.bars);
        regions.clone_from(&other.regions);
        named.clone_from(&other.named);
        cluster.clone_from(&other.cluster);
        fresh.clone_from(&other.fresh);
        (*alone, *named_in, *forgotten) = (other.alone, other.named_in, other.forgotten);
    }
}

impl Shared {
    /// Bytes that it takes, but for what few regions hold beside themselves.
    pub fn bytes(&self) -> usize {
        self.facts.bytes() + self.regions.len() * size_of::<Region>() + self.bars.len() * size_of::<Option<Bar>>()
    }

    /// What may be as it was, where an agent may do something or not.
    pub fn before(&self) -> Before {
        Before { facts: self.facts.clone(), regions: self.regions.clone() }
    }

    /// An agent may be named in a region from now on.
    pub(crate) fn name_in_region(&mut self, r: usize) {
        self.named_in[REGIONS] |= 1 << (r % 64);
    }

    /// The same of an mbarrier.
    pub(crate) fn name_in_mbarrier(&mut self, mbarrier: usize) {
        self.named_in[MBARRIERS] |= 1 << (mbarrier % 64);
    }

    /// An mbarrier that is made.
    pub(crate) fn bar(&mut self, mbarrier: usize) -> Option<&mut Bar> {
        self.bars.get_mut(mbarrier)?.as_mut()
    }
}
