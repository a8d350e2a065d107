//! Happens-before race detection.
//!
//! An *agent* is a warp, one thread's `cp.async` operations, or a *stream* of other asynchronous operations: the copies
//! that complete on one mbarrier (clock: phase), one thread's bulk groups, one warpgroup's wgmma groups. Every access leaves a record
//! (agent, the agent's clock, instruction) in the cell of the 32-byte granule it touches, with one bit
//! per byte. A later access to the same bytes, one of the two being a write, is a race unless the
//! record is *ordered* before it: known to the accessing warp through barriers, waits or fences.
//! Records that a new ordered access covers are dropped, which loses no race (FastTrack, Flanagan
//! and Freund 2009): whatever is ordered after the new one is ordered after the old one too.
//!
//! ```text
//!   warp clock g[w]:  1 ... 1 | bar | 2 ... 2     a record (w, 1) is ordered for v iff g_v[w] >= 1
//!   cp.async of thread t: record (t, ordinal of its group), ordered for warp v iff v knows that
//!   thread t waited for that group (at once for t itself, after a barrier for others)
//!   stream k: record (k, n) is ordered for v iff s_v[k] >= n
//! ```
//!
//! Two orders are kept beside the ordinary one. `a` is the part of `g` that a proxy fence has made visible to the
//! asynchronous proxy: an asynchronous access must find generic records there. `hb` is bare causality, whatever
//! the memory order of the operations that carried it: it judges barrier protocols, never data. `over` is in between: reads that
//! cannot be disturbed any more, since a store that was issued behind them has arrived; it orders asynchronous stores behind them.

use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Bytes per cell.
pub(crate) const GRANULE: u64 = 32;
/// Agent bit of a thread's cp.async stream.
pub(crate) const ASYNC: u32 = 1 << 31;
/// Agent bit of a stream; the rest is its number in the launch.
pub(crate) const STREAM: u32 = 1 << 30;
/// Reads kept per global cell; more concurrent readers than this are forgotten, oldest first.
const MAX_GLOBAL_READS: usize = 4;

/// One access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rec {
    /// Shared: warp of the cluster, `ASYNC | thread` of the cluster, or `STREAM | n`. Global: cluster * warps per cluster + warp,
    /// or `STREAM | n`.
    pub(crate) agent: u32,
    pub(crate) clock: u32,
    /// Instruction index.
    pub(crate) site: u32,
    /// Dynamic instruction number within the warp.
    pub(crate) seq: u32,
    pub(crate) mask: u32,
    pub(crate) lane: u8,
    /// Atomic or relaxed: two such accesses do not race.
    pub(crate) strong: bool,
    pub(crate) write: bool,
}

impl Rec {
    /// Both are strong and of one proxy.
    fn mutual(&self, o: &Rec) -> bool {
        self.strong && o.strong && (self.agent & STREAM) == (o.agent & STREAM)
    }
}

/// Records of one granule.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    w: SmallVec<[Rec; 1]>,
    r: SmallVec<[Rec; 1]>,
}

/// Outcome of an access that is not a race.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fine {
    Yes,
    /// Another lane of the same dynamic instruction wrote some of these bytes: fine only if the values agree.
    SameInstr,
}

fn strip(v: &mut SmallVec<[Rec; 1]>, mask: u32, ordered: &impl Fn(&Rec) -> bool) {
    let mut i = 0;
    while i < v.len() {
        if v[i].mask & mask != 0 && ordered(&v[i]) {
            v[i].mask &= !mask;
            if v[i].mask == 0 {
                v.swap_remove(i);
                continue;
            }
        }
        i += 1;
    }
}

/// True for records of one dynamic instruction.
fn same(a: &Rec, b: &Rec) -> bool {
    a.agent == b.agent && a.clock == b.clock && a.site == b.site && a.seq == b.seq
}

fn merge(v: &mut [Rec], me: &Rec) -> bool {
    match v.iter_mut().find(|r| same(r, me)) {
        Some(r) => {
            r.mask |= me.mask;
            true
        }
        None => false,
    }
}

impl Cell {
    /// Some write, if there is a record of one.
    pub(crate) fn newest_write(&self) -> Option<Rec> {
        self.w.last().copied()
    }

    /// Checks and records a read. `Err` is the conflicting write.
    pub(crate) fn read(&mut self, me: Rec, cap: bool, ordered: impl Fn(&Rec) -> bool) -> Result<(), Rec> {
        for w in &self.w {
            if w.mask & me.mask != 0 && !w.mutual(&me) && !ordered(w) {
                return Err(*w);
            }
        }
        if self.r.is_empty() {
            self.r.push(me);
            return Ok(());
        }
        // What an instruction covers piece by piece goes as well as what it covers at once.
        strip(&mut self.r, me.mask, &|r: &Rec| !same(r, &me) && ordered(r));
        if merge(&mut self.r, &me) {
            return Ok(());
        }
        if cap && self.r.len() >= MAX_GLOBAL_READS {
            self.r.remove(0);
        }
        self.r.push(me);
        Ok(())
    }

    /// Checks and records a write. `Err` is the conflicting access and whether it was a write.
    /// With `equal`, the write leaves the bytes as they are, and other writes don't conflict with it.
    pub(crate) fn write(&mut self, me: Rec, equal: bool, ordered: impl Fn(&Rec) -> bool) -> Result<Fine, (Rec, bool)> {
        let mut fine = Fine::Yes;
        for w in &self.w {
            if w.mask & me.mask == 0 || w.mutual(&me) {
                continue;
            }
            if w.agent == me.agent && w.seq == me.seq && w.clock == me.clock {
                fine = Fine::SameInstr;
            } else if !equal && !ordered(w) {
                return Err((*w, true));
            }
        }
        for r in &self.r {
            if r.mask & me.mask != 0 && !r.mutual(&me) && !ordered(r) {
                return Err((*r, false));
            }
        }
        strip(&mut self.w, me.mask, &|r: &Rec| !same(r, &me) && ordered(r));
        strip(&mut self.r, me.mask, &ordered);
        if !merge(&mut self.w, &me) {
            self.w.push(me);
        }
        Ok(fine)
    }
}

/// Knowledge about warps and streams of other clusters, by global agent number; `a` as in [`Clocks`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Far {
    pub(crate) g: BTreeMap<u32, u32>,
    pub(crate) a: BTreeMap<u32, u32>,
    pub(crate) launched: bool,
}

impl Far {
    pub(crate) fn join(&mut self, o: &Far) {
        join_map(&mut self.g, &o.g);
        join_map(&mut self.a, &o.a);
        self.launched |= o.launched;
    }
}

/// Pointwise maximum.
pub(crate) fn join_map(a: &mut BTreeMap<u32, u32>, b: &BTreeMap<u32, u32>) {
    for (k, v) in b {
        let e = a.entry(*k).or_insert(0);
        *e = (*e).max(*v);
    }
}

fn join_vec(a: &mut Vec<u32>, b: &[u32]) {
    if a.len() < b.len() {
        a.resize(b.len(), 0);
    }
    for (a, b) in a.iter_mut().zip(b) {
        *a = (*a).max(*b);
    }
}

fn meet_vec(a: &mut Vec<u32>, b: &[u32]) {
    a.truncate(b.len());
    for (a, b) in a.iter_mut().zip(b) {
        *a = (*a).min(*b);
    }
}

/// What a warp knows: everything recorded at or below these clocks happened before its next access.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clocks {
    /// Per warp of the cluster.
    pub(crate) g: Vec<u32>,
    /// The parts of `g` that proxy fences have covered, for shared and for global memory.
    pub(crate) a_shared: Vec<u32>,
    pub(crate) a_global: Vec<u32>,
    pub(crate) hb: Vec<u32>,
    /// Reads that are over, whether or not what was written beside them is known.
    pub(crate) over: Vec<u32>,
    /// Per stream of the cluster; grows when streams appear.
    pub(crate) s: Vec<u32>,
    /// Per thread of the cluster: newest cp.async group known to be complete and visible to this warp.
    pub(crate) copies: Vec<u32>,
    pub(crate) a_copies: Vec<u32>,
    pub(crate) far: Far,
    /// Some thread has waited for the launches in front, and that is known.
    pub(crate) launched: bool,
}

impl Clocks {
    pub(crate) fn new(warps: usize, threads: usize) -> Clocks {
        let (w, t) = (vec![0; warps], vec![0; threads]);
        Clocks {
            g: w.clone(),
            a_shared: w.clone(),
            a_global: w.clone(),
            hb: w.clone(),
            over: w,
            s: Vec::new(),
            copies: t.clone(),
            a_copies: t,
            far: Far::default(),
            launched: false,
        }
    }

    pub(crate) fn join(&mut self, o: &Clocks) {
        join_vec(&mut self.g, &o.g);
        join_vec(&mut self.a_shared, &o.a_shared);
        join_vec(&mut self.a_global, &o.a_global);
        join_vec(&mut self.copies, &o.copies);
        join_vec(&mut self.a_copies, &o.a_copies);
        self.far.join(&o.far);
        self.launched |= o.launched;
        self.join_count(o);
    }

    /// What mere counting carries: causality, completed streams and reads, nothing that generic accesses wrote.
    pub(crate) fn join_count(&mut self, o: &Clocks) {
        join_vec(&mut self.hb, &o.hb);
        join_vec(&mut self.over, &o.over);
        join_vec(&mut self.s, &o.s);
    }

    /// What an asynchronous store of a warp brings along to the mbarrier that counts its bytes: causality, the streams that it knew to be
    /// complete, and the reads that were over before its last synchronisation.
    pub(crate) fn told_by(&self, warp: usize) -> Clocks {
        let mut over = self.g.clone();
        over[warp] = over[warp].saturating_sub(1);
        join_vec(&mut over, &self.over);
        Clocks { hb: self.hb.clone(), s: self.s.clone(), over, ..Clocks::default() }
    }

    /// Causality alone.
    pub(crate) fn join_cause(&mut self, hb: &[u32]) {
        join_vec(&mut self.hb, hb);
    }

    /// Keeps what both know (of the parts that shared-memory checks use).
    pub(crate) fn meet(&mut self, o: &Clocks) {
        meet_vec(&mut self.g, &o.g);
        meet_vec(&mut self.a_shared, &o.a_shared);
        meet_vec(&mut self.s, &o.s);
        meet_vec(&mut self.copies, &o.copies);
        meet_vec(&mut self.a_copies, &o.a_copies);
        self.launched &= o.launched;
    }

    /// Clock of a stream.
    pub(crate) fn stream(&self, dense: u32) -> u32 {
        self.s.get(dense as usize).copied().unwrap_or(0)
    }

    /// The stream is known to have got at least to `clock`.
    pub(crate) fn raise(&mut self, dense: u32, clock: u32) {
        let i = dense as usize;
        if self.s.len() <= i {
            self.s.resize(i + 1, 0);
        }
        self.s[i] = self.s[i].max(clock);
    }

    /// A proxy fence: what is known becomes known to the asynchronous proxy.
    pub(crate) fn cover(&mut self, shared: bool, global: bool) {
        if shared {
            join_vec(&mut self.a_shared, &self.g);
            join_vec(&mut self.a_copies, &self.copies);
        }
        if global {
            join_vec(&mut self.a_global, &self.g);
            let g = std::mem::take(&mut self.far.g);
            join_map(&mut self.far.a, &g);
            self.far.g = g;
        }
    }
}

/// What a stream is, for reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StreamKind {
    /// Copies completing on an mbarrier.
    Mbar,
    /// Source reads of a thread's bulk groups.
    BulkRead,
    /// Destination writes of a thread's bulk groups.
    BulkWrite,
    /// Shared operands of a warpgroup's wgmma groups.
    Wgmma,
    /// Completions of a named barrier (nothing is accessed in its name).
    Bar,
}

/// A stream of asynchronous operations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stream {
    /// Linear number of the cluster, and position in its clocks.
    pub(crate) cluster: u32,
    pub(crate) dense: u32,
    pub(crate) kind: StreamKind,
    /// CTA and warp that own it (for an mbarrier: the CTA and its initialising warp).
    pub(crate) cta: u32,
    pub(crate) warp: u32,
}

/// Cells of a contiguous range, made page by page when first touched.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shadow {
    pages: Vec<Option<Box<[Cell]>>>,
}

const PAGE: u64 = 64;

impl Shadow {
    pub(crate) fn new(bytes: usize) -> Shadow {
        let pages = (bytes as u64).div_ceil(GRANULE * PAGE) as usize;
        Shadow { pages: (0..pages).map(|_| None).collect() }
    }

    /// The cell of granule `g` if something has touched its page.
    pub(crate) fn peek(&self, g: u64) -> Option<&Cell> {
        self.pages.get((g / PAGE) as usize)?.as_ref().map(|p| &p[(g % PAGE) as usize])
    }

    /// The cell of granule `g`; the granule must lie in the range.
    pub(crate) fn cell(&mut self, g: u64) -> &mut Cell {
        let page = self.pages[(g / PAGE) as usize].get_or_insert_with(|| (0..PAGE).map(|_| Cell::default()).collect());
        &mut page[(g % PAGE) as usize]
    }
}

/// Byte mask of `len` bytes at `off` within a granule (`off + len <= 32`).
pub(crate) fn byte_mask(off: u64, len: u64) -> u32 {
    ((((1u64 << len) - 1) << (off % GRANULE)) & u64::from(u32::MAX)) as u32
}

#[cfg(test)]
mod tests {
    use crate::state::race::*;

    fn rec(agent: u32, clock: u32, seq: u32, mask: u32) -> Rec {
        Rec { agent, clock, site: seq, seq, mask, lane: 0, strong: false, write: true }
    }

    #[test]
    fn unordered_write_after_read_is_found_per_byte() {
        let mut c = Cell::default();
        c.read(rec(0, 1, 1, 0x00f), false, |_| false).unwrap();
        c.read(rec(1, 1, 1, 0x0f0), false, |_| false).unwrap();
        let own = |r: &Rec| r.agent == 0;
        assert!(c.write(rec(0, 1, 2, 0x00f), false, own).is_ok());
        let e = c.write(rec(0, 1, 3, 0x010), false, own).unwrap_err();
        assert_eq!((e.0.agent, e.1), (1, false));
    }

    #[test]
    fn ordered_access_replaces_records() {
        let mut c = Cell::default();
        for i in 0..100 {
            assert_eq!(c.write(rec(i % 2, i, i, 0xff), false, |_| true), Ok(Fine::Yes));
        }
        assert_eq!(c.w.len(), 1);
        assert!(c.read(rec(5, 1, 1, 1), false, |_| false).is_err());
    }

    /// Matrix moves cover a granule row by row: what is recorded does not grow with the number of moves.
    #[test]
    fn pieces_of_an_instruction_replace_records() {
        let (mut reads, mut writes) = (Cell::default(), Cell::default());
        let own = |r: &Rec| r.agent == 0;
        for seq in 0..100 {
            for mask in [0xffff, 0xffff_0000] {
                let me = rec(0, 1, seq, mask);
                reads.read(Rec { write: false, ..me }, false, own).unwrap();
                assert_eq!(writes.write(me, false, own), Ok(Fine::Yes));
                assert!(reads.r.len() <= 2 && writes.w.len() <= 2, "{} and {} records", reads.r.len(), writes.w.len());
            }
        }
        assert_eq!((reads.r[..].len(), reads.r[0].mask, writes.w.len(), writes.w[0].mask), (1, u32::MAX, 1, u32::MAX));
        // Those of others stay.
        let other = rec(1, 1, 7, 0xf0);
        let mut c = Cell::default();
        c.read(Rec { write: false, ..other }, false, own).unwrap();
        for seq in 0..3 {
            c.read(Rec { write: false, ..rec(0, 1, seq, 0xff) }, false, own).unwrap();
        }
        assert_eq!(c.write(rec(0, 1, 9, 0xf0), false, own), Err((Rec { write: false, ..other }, false)));
    }

    #[test]
    fn writes_that_change_nothing_agree_with_writes_only() {
        let mut c = Cell::default();
        c.write(rec(0, 1, 1, 0xf), false, |_| false).unwrap();
        assert!(c.write(rec(1, 1, 1, 0xf), false, |_| false).is_err());
        assert_eq!(c.write(rec(1, 1, 1, 0xf), true, |_| false), Ok(Fine::Yes));
        let mut c = Cell::default();
        c.read(rec(0, 1, 1, 0xf), false, |_| false).unwrap();
        assert!(c.write(rec(1, 1, 1, 0xf), true, |_| false).is_err());
    }

    #[test]
    fn same_instruction_overlap_is_reported() {
        let mut c = Cell::default();
        c.write(rec(0, 1, 9, 0xf), false, |_| true).unwrap();
        assert_eq!(c.write(rec(0, 1, 9, 0x8), false, |_| true), Ok(Fine::SameInstr));
        assert_eq!(c.write(rec(0, 1, 10, 0x8), false, |_| true), Ok(Fine::Yes));
    }
}
