//! What an agent may know of what others have done, as sets of numbered facts.
//!
//! ```text
//! known by an agent ── arrives, or sends bytes ─► gathered by the mbarrier's phase ── it ends ─► taught to whoever waits for it
//! ```
//!
//! Events that come before others in every order of steps come before them by such a chain, so a fact that an agent knows holds whatever
//! the order. A fact is forgotten by everybody as soon as it is about an older write, read or phase.

use super::analysis::Analysis;
use super::facts::{Bits, Few, Moves};
use super::keys::ADDRESS;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::ops::Range;
use tilelift_lane::hash::Map;
use tilelift_lane::{Block, Inst, Program, Unit, visit};

/// The facts about a region.
struct AboutRegion {
    /// Its address.
    at: i64,
    /// Its last write is there.
    written: usize,
    /// Units see its last write, if lanes made it: its writer has fenced behind it.
    shown: usize,
    /// The reads by an agent are over.
    read: SmallVec<[(usize, usize); 4]>,
    /// It is more than the smallest part that is used apart.
    coarse: bool,
}

/// The facts about an mbarrier, or a named barrier.
struct AboutMbarrier {
    /// The phase in front of the one in flight has ended.
    ended: usize,
    /// The one in front of that has ended.
    before: usize,
    /// An agent has passed its newest wait for the phase in front of the one in flight.
    passed: SmallVec<[(usize, usize); 4]>,
    /// All of these.
    all: Few,
}

impl AboutMbarrier {
    fn new(ended: usize, before: usize) -> AboutMbarrier {
        let mut all = Few::default();
        [ended, before].into_iter().for_each(|fact| all.set(fact));
        AboutMbarrier { ended, before, passed: SmallVec::new(), all }
    }
}

/// Numbers, the same in all states, of regions and mbarriers by address, and of facts.
#[derive(Default)]
struct Numbers {
    facts: usize,
    regions: Map<i64, usize>,
    about_regions: Vec<AboutRegion>,
    mbarriers: Map<i64, usize>,
    about_mbarriers: Vec<AboutMbarrier>,
    written: Bits,
    events: Bits,
    /// Facts about memory that one role alone touches.
    own: Bits,
}

impl Numbers {
    fn event(&mut self) -> usize {
        self.facts += 1;
        self.events.set(self.facts - 1);
        self.facts - 1
    }

    fn write(&mut self) -> usize {
        self.facts += 1;
        self.written.set(self.facts - 1);
        self.facts - 1
    }
}

/// Where mbarriers, regions and facts go where memory is moved, by number.
pub(crate) struct Moved {
    pub mbarriers: Vec<usize>,
    pub regions: Vec<usize>,
    pub facts: Moves,
}

/// Which rows of the sets are whose, and what the facts are.
pub(crate) struct Places {
    agents: usize,
    /// The blocks' first facts: that one runs, and that its mbarriers are made.
    blocks: usize,
    /// The numbers of named barriers.
    named: Vec<u32>,
    /// From where to where memory lies that one role alone touches.
    own: Vec<Range<i64>>,
    numbers: RefCell<Numbers>,
}

impl Places {
    /// `named` are the numbers of barriers that the program does not name.
    pub fn new(program: &Program, analysis: &Analysis, agents: usize, mut named: Vec<u32>) -> Places {
        fn barriers(block: &Block, out: &mut Vec<u32>) {
            for inst in block {
                if let Inst::Unit(u) = inst {
                    match **u {
                        Unit::NamedBarrier { id, .. } => out.push(id),
                        Unit::Turn { id, groups, .. } => out.extend(id..id + groups),
                        _ => {}
                    }
                }
                visit::blocks(inst).for_each(|b| barriers(b, out));
            }
        }
        barriers(&program.body, &mut named);
        named.sort_unstable();
        named.dedup();
        let mut numbers = Numbers::default();
        for _ in 0..2 * analysis.blocks {
            numbers.event();
        }
        // Named barriers stand in front of the mbarriers.
        for _ in 0..named.len() * analysis.blocks {
            let (ended, before) = (numbers.event(), numbers.event());
            numbers.about_mbarriers.push(AboutMbarrier::new(ended, before));
        }
        let own = analysis.own.iter().filter_map(|&id| program.allocs.get(id));
        let own = own.map(|a| i64::from(a.offset)..i64::from(a.offset + a.bytes)).collect();
        Places { agents, blocks: analysis.blocks, named, own, numbers: RefCell::new(numbers) }
    }

    /// What an agent knows.
    pub fn known(&self, t: usize) -> usize {
        t
    }

    /// What of it only some of its lanes do.
    pub fn unsettled(&self, t: usize) -> usize {
        self.agents + t
    }

    /// What others may have been told of by all its lanes, which have not met since.
    pub fn spoken(&self, t: usize) -> usize {
        2 * self.agents + t
    }

    /// The rows that say of which facts not all lanes know: the more are there, the less is known.
    pub fn of_some_lanes(&self) -> Range<usize> {
        self.unsettled(0)..self.cluster()
    }

    /// What the round in flight of the cluster's barrier gathers; behind it what the last one has taught.
    pub fn cluster(&self) -> usize {
        3 * self.agents
    }

    /// The same of a named barrier, or of an mbarrier.
    pub fn phase(&self, mbarrier: usize) -> usize {
        3 * self.agents + 2 + 2 * mbarrier
    }

    /// Rows of so many mbarriers.
    pub fn rows(&self, mbarriers: usize) -> usize {
        self.phase(mbarriers)
    }

    /// What the mbarriers of barriers pass on: not what others never ask for.
    pub fn passed_on<T>(&self, f: impl FnOnce(&dyn Fn(usize, u64) -> u64) -> T) -> T {
        let n = self.numbers.borrow();
        f(&|mbarrier, w| n.own.less(mbarrier, w))
    }

    /// The number of a named barrier of a block.
    pub fn named(&self, block: usize, id: u32) -> usize {
        block * self.named.len() + self.named.binary_search(&id).unwrap_or(0)
    }

    /// How many there are.
    pub fn all_named(&self) -> usize {
        self.named.len() * self.blocks
    }

    /// The number of an mbarrier by its address.
    pub fn mbarrier(&self, at: i64) -> Option<usize> {
        self.numbers.borrow().mbarriers.get(&at).copied()
    }

    /// The same of one that is made.
    pub fn new_mbarrier(&self, at: i64) -> usize {
        let mut n = self.numbers.borrow_mut();
        if let Some(&known) = n.mbarriers.get(&at) {
            return known;
        }
        let mbarrier = n.about_mbarriers.len();
        n.mbarriers.insert(at, mbarrier);
        let (ended, before) = (n.event(), n.event());
        n.about_mbarriers.push(AboutMbarrier::new(ended, before));
        mbarrier
    }

    /// The number of a region by its address; whether it is a coarse one is told where it is first asked for.
    pub fn region(&self, at: i64, coarse: bool) -> usize {
        let mut n = self.numbers.borrow_mut();
        if let Some(&known) = n.regions.get(&at) {
            return known;
        }
        let region = n.about_regions.len();
        n.regions.insert(at, region);
        let (written, shown) = (n.write(), n.write());
        if self.own.iter().any(|r| r.contains(&(at & ADDRESS))) {
            n.own.set(written);
            n.own.set(shown);
        }
        n.about_regions.push(AboutRegion { at, written, shown, read: SmallVec::new(), coarse });
        region
    }

    /// The number of the region that lies so many bytes behind another one of its kind.
    pub fn region_beside(&self, region: usize, by: i64) -> usize {
        let (at, coarse) = {
            let n = self.numbers.borrow();
            (n.about_regions[region].at, n.about_regions[region].coarse)
        };
        self.region(at + by, coarse)
    }

    /// A block runs.
    pub fn runs(&self, block: usize) -> usize {
        2 * block
    }

    /// All mbarriers of a block are made, and seen by all.
    pub fn made(&self, block: usize) -> usize {
        2 * block + 1
    }

    /// The phase of an mbarrier in front of the one in flight has ended, and the one in front of that.
    pub fn ended(&self, mbarrier: usize) -> (usize, usize) {
        let n = self.numbers.borrow();
        (n.about_mbarriers[mbarrier].ended, n.about_mbarriers[mbarrier].before)
    }

    /// An agent has passed its newest wait for the phase in front of the one in flight.
    pub fn passed(&self, mbarrier: usize, t: usize) -> usize {
        let mut n = self.numbers.borrow_mut();
        if let Some(x) = n.about_mbarriers[mbarrier].passed.iter().find(|x| x.0 == t) {
            return x.1;
        }
        let fact = n.event();
        let about = &mut n.about_mbarriers[mbarrier];
        about.passed.push((t, fact));
        about.all.set(fact);
        fact
    }

    /// All facts about phases of an mbarrier.
    pub fn phases(&self, mbarrier: usize) -> Few {
        self.numbers.borrow().about_mbarriers[mbarrier].all.clone()
    }

    /// The last write of a region is there, and shown to units.
    pub fn written(&self, region: usize) -> (usize, usize) {
        let n = self.numbers.borrow();
        (n.about_regions[region].written, n.about_regions[region].shown)
    }

    /// All facts about the last write of a region.
    pub fn about_write(&self, region: usize) -> Few {
        let (written, shown) = self.written(region);
        let mut few = Few::default();
        few.set(written);
        few.set(shown);
        few
    }

    /// Calls `f` for all facts about a region.
    pub fn about_region(&self, region: usize, mut f: impl FnMut(usize)) {
        let n = self.numbers.borrow();
        let about = &n.about_regions[region];
        [about.written, about.shown].into_iter().chain(about.read.iter().map(|x| x.1)).for_each(&mut f);
    }

    /// The reads of a region by an agent are over.
    pub fn read(&self, region: usize, t: usize) -> usize {
        let mut n = self.numbers.borrow_mut();
        if let Some(x) = n.about_regions[region].read.iter().find(|x| x.0 == t) {
            return x.1;
        }
        let fact = n.facts;
        n.facts += 1;
        n.about_regions[region].read.push((t, fact));
        if self.own.iter().any(|r| r.contains(&(n.about_regions[region].at & ADDRESS))) {
            n.own.set(fact);
        }
        fact
    }

    pub fn coarse(&self, region: usize) -> bool {
        self.numbers.borrow().about_regions[region].coarse
    }

    /// All that is written, and what is no fact about memory.
    pub fn kinds(&self, f: impl FnOnce(&Bits, &Bits)) {
        let n = self.numbers.borrow();
        f(&n.written, &n.events);
    }

    /// Calls `f` for the number and the address of every mbarrier.
    pub fn each_mbarrier(&self, mut f: impl FnMut(usize, i64)) {
        self.numbers.borrow().mbarriers.iter().for_each(|(&at, &w)| f(w, at));
    }

    /// The same of regions.
    pub fn each_region(&self, mut f: impl FnMut(usize, i64)) {
        self.numbers.borrow().regions.iter().for_each(|(&at, &r)| f(r, at));
    }

    /// Where everything goes when each address goes to another one, and no two to the same; `None` if some mbarrier goes where none is.
    pub fn moved(&self, to: &dyn Fn(i64) -> i64) -> Option<Moved> {
        loop {
            let facts = self.numbers.borrow().facts;
            let (mut all, mut mbarriers) = (Vec::new(), Vec::new());
            self.each_region(|r, at| all.push((r, at)));
            self.each_mbarrier(|w, at| mbarriers.push((w, at)));
            // Named barriers stay.
            let mut to_word: Vec<usize> = (0..self.numbers.borrow().about_mbarriers.len()).collect();
            let mut to_region = vec![0; all.len()];
            let mut places: Vec<usize> = (0..facts).collect();
            // One that was made on the way has its turn when all is looked at again.
            let mut send = |fact: usize, to: usize| places.iter_mut().skip(fact).take(1).for_each(|x| *x = to);
            for (w, at) in mbarriers {
                to_word[w] = self.mbarrier(to(at))?;
            }
            for &(r, at) in &all {
                to_region[r] = self.region(to(at), self.coarse(r));
            }
            for (w, &there) in to_word.iter().enumerate().filter(|(w, there)| w != *there) {
                let (from, to) = (self.ended(w), self.ended(there));
                send(from.0, to.0);
                send(from.1, to.1);
                let passed = self.numbers.borrow().about_mbarriers[w].passed.clone();
                passed.iter().for_each(|&(t, fact)| send(fact, self.passed(there, t)));
            }
            for (r, &there) in to_region.iter().enumerate().filter(|(r, there)| r != *there) {
                let (from, to) = (self.written(r), self.written(there));
                send(from.0, to.0);
                send(from.1, to.1);
                let read = self.numbers.borrow().about_regions[r].read.clone();
                read.iter().for_each(|&(t, fact)| send(fact, self.read(there, t)));
            }
            let rows = (0..self.rows(to_word.len())).map(|row| self.moved_row(row, &to_word)).collect();
            let moved = Moved { mbarriers: to_word, regions: to_region, facts: Moves::new(&places, rows) };
            // What was made on the way goes somewhere, too.
            if self.is_current(&moved) {
                return Some(moved);
            }
        }
    }

    /// By how much the address of each region is moved.
    pub fn distances(&self, moved: &Moved, out: &mut [i64]) {
        let n = self.numbers.borrow();
        let at = |r: usize| n.about_regions[r].at;
        out.iter_mut().zip(&moved.regions).enumerate().for_each(|(r, (out, &there))| *out = at(there) - at(r));
    }

    /// True if nothing was numbered since.
    pub fn is_current(&self, moved: &Moved) -> bool {
        let n = self.numbers.borrow();
        (n.about_mbarriers.len(), n.about_regions.len(), n.facts) == (moved.mbarriers.len(), moved.regions.len(), moved.facts.facts())
    }

    /// Where a row goes.
    fn moved_row(&self, row: usize, mbarriers: &[usize]) -> usize {
        match row.checked_sub(self.phase(0)) {
            Some(n) if n / 2 < mbarriers.len() => self.phase(mbarriers[n / 2]) + n % 2,
            _ => row,
        }
    }

    /// The regions of addresses, in their order.
    pub fn regions_in_order(&self) -> Vec<usize> {
        let n = self.numbers.borrow();
        let mut all: Vec<(i64, usize)> = n.regions.iter().map(|(&at, &r)| (at, r)).collect();
        all.sort_unstable();
        all.into_iter().map(|x| x.1).collect()
    }
}
