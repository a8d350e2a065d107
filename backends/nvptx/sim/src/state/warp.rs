//! State of one warp: register planes, divergence, cp.async bookkeeping, clocks.
//!
//! Divergence: lanes at the same instruction form a *group*. One group runs; the others wait in
//! `others`. The group at the lowest instruction index runs first, so that groups meet again at the
//! join points of structured code; groups that meet are merged.

use crate::program::operand::{PSrc, Reg};
use crate::state::race::{Clocks, Far};
use crate::state::wgmma::Fragments;
use smallvec::SmallVec;

/// All lanes.
pub(crate) const FULL: u32 = u32::MAX;

/// Why a group does not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wait {
    /// It can run.
    No,
    /// It stands at a warp-wide operation whose other lanes have not arrived.
    Converge,
    /// It waits at a CTA barrier.
    Bar(u32),
    /// It waits for a phase of the mbarrier with this stream, and will execute its instruction again.
    Mbar(u32),
    /// It waits at `barrier.cluster.wait`.
    Cluster,
    /// It waits for registers.
    Regs,
    /// It waits for wgmma operations that other warps of its warpgroup have not issued.
    Wgmma,
}

/// Lanes at one instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) pc: u32,
    pub(crate) mask: u32,
    pub(crate) wait: Wait,
}

/// A cp.async instruction whose data some lanes have not waited for yet.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    /// Lanes still unwaited.
    pub(crate) mask: u32,
    /// Lanes whose data has not been written yet.
    pub(crate) pending: u32,
    pub(crate) ordinal: [u32; 32],
    /// Offset in the shared array.
    pub(crate) dst: [u32; 32],
    pub(crate) src: [u64; 32],
    pub(crate) src_bytes: [u8; 32],
    pub(crate) size: u8,
}

/// Clocks published by a fence for relaxed operations after it, and whether to the own CTA only.
pub(crate) type Edge = Option<(Box<Clocks>, bool)>;

/// One warp.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warp {
    pub(crate) id: u32,
    /// Index among the warps of the cluster.
    pub(crate) slot: u32,
    /// Coordinates and linear number of its CTA.
    pub(crate) home: [u32; 3],
    pub(crate) linear: u32,
    pub(crate) r: Vec<[u32; 32]>,
    pub(crate) d: Vec<[u64; 32]>,
    pub(crate) p: Vec<u32>,
    /// Poison lanes of each register of the three files.
    pub(crate) rx: Vec<u32>,
    pub(crate) dx: Vec<u32>,
    pub(crate) px: Vec<u32>,
    /// Running group; `active == 0` when nothing can run.
    pub(crate) pc: u32,
    pub(crate) active: u32,
    pub(crate) others: Vec<Group>,
    /// Lanes that exist and have not exited.
    pub(crate) live: u32,
    /// Dynamic instruction number.
    pub(crate) seq: u32,
    /// Steps taken while diverged, and steps for which the lowest-first rule is suspended.
    pub(crate) diverged: u32,
    pub(crate) hold: u32,
    /// Per lane: groups committed, and newest group waited for.
    pub(crate) committed: [u32; 32],
    pub(crate) waited: [u32; 32],
    pub(crate) flights: Vec<Flight>,
    pub(crate) clocks: Clocks,
    pub(crate) released: Edge,
    pub(crate) acquired: Far,
    /// Knowledge that relaxed mbarrier waits have seen and a fence will acquire.
    pub(crate) seen: Option<Box<Clocks>>,
    /// (lane, ordinal) of cp.async ordinals closed by an mbarrier arrival instead of a commit.
    pub(crate) holes: SmallVec<[(u8, u32); 2]>,
    pub(crate) bulk: SmallVec<[BulkThread; 1]>,
    /// Addresses of tensor maps that fence.proxy.tensormap has made visible.
    pub(crate) maps: SmallVec<[u64; 2]>,
    pub(crate) frag: Fragments,
    /// Registers per thread (`setmaxnreg`), and how often it was changed.
    pub(crate) nreg: u32,
    pub(crate) nreg_changes: u32,
    /// Lanes that have waited for the launches in front, or are ordered behind a thread that has.
    pub(crate) awaited: u32,
    /// Polls of mbarriers answered "not yet" in a row.
    pub(crate) polls: u32,
    /// Instructions since the last poll.
    pub(crate) since_poll: u32,
}

/// Bulk groups of one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkThread {
    pub(crate) lane: u8,
    /// Streams: source reads, destination writes.
    pub(crate) read: u32,
    pub(crate) write: u32,
    pub(crate) committed: u32,
}

impl Warp {
    pub(crate) fn runnable(&self) -> bool {
        self.active != 0
    }

    pub(crate) fn done(&self) -> bool {
        self.live == 0
    }

    pub(crate) fn r32(&self, r: Reg) -> [u32; 32] {
        self.r[r.i()]
    }

    pub(crate) fn d64(&self, r: Reg) -> [u64; 32] {
        self.d[r.i()]
    }

    /// Value of either width, zero-extended.
    pub(crate) fn wide(&self, r: Reg) -> [u64; 32] {
        if r.is_wide() { self.d[r.i()] } else { self.r[r.i()].map(u64::from) }
    }

    /// Poison lanes of a register.
    pub(crate) fn poison(&self, r: Reg) -> u32 {
        if r.is_wide() { self.dx[r.i()] } else { self.rx[r.i()] }
    }

    /// Predicate lanes, negation applied.
    pub(crate) fn pred(&self, p: PSrc) -> u32 {
        let v = self.p[p.p.0 as usize];
        if p.neg { !v } else { v }
    }

    pub(crate) fn set_r(&mut self, d: Reg, mask: u32, v: &[u32; 32], poison: u32) {
        let i = d.i();
        if mask == FULL {
            self.r[i] = *v;
        } else {
            let old = &mut self.r[i];
            for l in 0..32 {
                if mask >> l & 1 == 1 {
                    old[l] = v[l];
                }
            }
        }
        self.rx[i] = self.rx[i] & !mask | poison & mask;
    }

    pub(crate) fn set_d(&mut self, d: Reg, mask: u32, v: &[u64; 32], poison: u32) {
        let i = d.i();
        if mask == FULL {
            self.d[i] = *v;
        } else {
            let old = &mut self.d[i];
            for l in 0..32 {
                if mask >> l & 1 == 1 {
                    old[l] = v[l];
                }
            }
        }
        self.dx[i] = self.dx[i] & !mask | poison & mask;
    }

    /// Writes either width, truncating.
    pub(crate) fn set(&mut self, d: Reg, mask: u32, v: &[u64; 32], poison: u32) {
        if d.is_wide() {
            self.set_d(d, mask, v, poison);
        } else {
            self.set_r(d, mask, &v.map(|x| x as u32), poison);
        }
    }

    pub(crate) fn set_p(&mut self, d: crate::program::operand::Pred, mask: u32, v: u32, poison: u32) {
        let i = d.0 as usize;
        self.p[i] = self.p[i] & !mask | v & mask;
        self.px[i] = self.px[i] & !mask | poison & mask;
    }

    /// What somebody else knew is known now.
    pub(crate) fn learn(&mut self, c: &Clocks) {
        self.clocks.join(c);
        if c.launched {
            self.awaited = FULL;
        }
    }

    /// Puts the running group aside and starts another that can run, if any.
    pub(crate) fn park(&mut self, pc: u32, wait: Wait) {
        if self.active != 0 {
            self.others.push(Group { pc, mask: self.active, wait });
            self.active = 0;
        }
        self.pick();
    }

    /// With no running group: starts the lowest group that can run.
    pub(crate) fn pick(&mut self) {
        if self.active != 0 {
            return;
        }
        let best = self.others.iter().enumerate().filter(|g| g.1.wait == Wait::No).min_by_key(|g| g.1.pc);
        if let Some((i, _)) = best {
            let g = self.others.remove(i);
            (self.pc, self.active) = (g.pc, g.mask);
            self.merge();
        }
    }

    /// Makes groups that wait for something look again.
    pub(crate) fn wake(&mut self, what: Wait) {
        let mut woken = false;
        for g in self.others.iter_mut().filter(|g| g.wait == what) {
            g.wait = Wait::No;
            woken = true;
        }
        if woken {
            self.pick();
        }
    }

    /// Merges groups that stand where the running group stands.
    pub(crate) fn merge(&mut self) {
        let (pc, mut mask) = (self.pc, self.active);
        self.others.retain(|g| {
            let meet = g.pc == pc && !matches!(g.wait, Wait::Bar(_));
            if meet {
                mask |= g.mask;
            }
            !meet
        });
        self.active = mask;
    }

    /// After a step with other groups around: merge, and let the lowest group run.
    pub(crate) fn reconverge(&mut self) {
        if self.active == 0 {
            self.pick();
            return;
        }
        self.merge();
        self.diverged += 1;
        if self.hold > 0 {
            self.hold -= 1;
        } else if self.diverged >= 4096 {
            // A group may spin on something another group does: give the others a turn.
            self.diverged = 0;
            if let Some(i) = self.others.iter().position(|g| g.wait == Wait::No) {
                self.hold = 512;
                self.swap(i);
            }
        } else if let Some((i, g)) = self.others.iter().enumerate().filter(|g| g.1.wait == Wait::No).min_by_key(|g| g.1.pc)
            && g.pc < self.pc
        {
            self.swap(i);
        }
        if self.others.is_empty() {
            self.diverged = 0;
            self.hold = 0;
        }
    }

    fn swap(&mut self, i: usize) {
        let g = self.others.remove(i);
        self.others.push(Group { pc: self.pc, mask: self.active, wait: Wait::No });
        (self.pc, self.active) = (g.pc, g.mask);
        self.merge();
    }

    /// Makes groups that wait for convergence look again.
    pub(crate) fn wake_converge(&mut self) {
        for g in &mut self.others {
            if g.wait == Wait::Converge {
                g.wait = Wait::No;
            }
        }
    }
}

/// Lane numbers in a mask, ascending.
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> + Clone {
    let mut m = mask;
    std::iter::from_fn(move || {
        if m == 0 {
            return None;
        }
        let l = m.trailing_zeros();
        m &= m - 1;
        Some(l as usize)
    })
}
