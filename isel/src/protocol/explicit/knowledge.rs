//! What an agent may know of what others have done, as sets of numbered facts.
//!
//! ```text
//! known by an agent ── arrives, or sends bytes ─► gathered by the word's phase ── it ends ─► taught to whoever waits for it
//! ```
//!
//! Events that come before others in every order of steps come before them by such a chain, so a fact that an agent knows holds whatever
//! the order. A fact is forgotten by everybody as soon as it is about an older write, read or phase.

use super::Explicit;
use crate::hash::Map;
use crate::lane::{Block, Inst, Program, Unit, visit};
use smallvec::SmallVec;
use std::cell::RefCell;

/// A set of numbers.
#[derive(Clone, Default, Debug)]
pub(in super::super) struct Bits(Vec<u64>);

impl Bits {
    fn set(&mut self, n: usize) {
        if self.0.len() <= n / 64 {
            self.0.resize(n / 64 + 1, 0);
        }
        self.0[n / 64] |= 1 << (n % 64);
    }

    fn word(&self, n: usize) -> u64 {
        self.0.get(n).copied().unwrap_or(0)
    }
}

/// A few numbers: which words of a set they are in, and where.
#[derive(Clone, Default)]
pub(in super::super) struct Few(SmallVec<[(usize, u64); 4]>);

impl Few {
    pub fn set(&mut self, n: usize) {
        let (word, bit) = (n / 64, 1 << (n % 64));
        match self.0.iter_mut().find(|x| x.0 == word) {
            Some(x) => x.1 |= bit,
            None => self.0.push((word, bit)),
        }
    }

    /// Which of a word.
    fn mask(&self, word: usize) -> u64 {
        self.0.iter().find(|x| x.0 == word).map_or(0, |x| x.1)
    }
}

/// Sets of facts, one for each who may know: a row. Of 64 facts all rows lie together, so that what all forget is quickly forgotten.
#[derive(Clone, Default)]
pub(in super::super) struct Facts {
    words: Vec<u64>,
    /// Words of a row.
    width: usize,
    rows: usize,
}

impl Facts {
    fn at(&self, row: usize, word: usize) -> usize {
        word * self.rows + row
    }

    /// So many empty sets, at least.
    pub fn grow(&mut self, rows: usize) {
        if rows <= self.rows {
            return;
        }
        let rows = rows.next_multiple_of(32);
        let mut words = vec![0; rows * self.width];
        words.chunks_mut(rows).zip(self.words.chunks(self.rows.max(1))).for_each(|(to, from)| to[..from.len()].copy_from_slice(from));
        (self.words, self.rows) = (words, rows);
    }

    pub fn has(&self, row: usize, fact: usize) -> bool {
        fact / 64 < self.width && self.words[self.at(row, fact / 64)] >> (fact % 64) & 1 == 1
    }

    pub fn set(&mut self, row: usize, fact: usize) {
        if fact / 64 >= self.width {
            self.width = fact / 64 + 1;
            self.words.resize(self.rows * self.width, 0);
        }
        let at = self.at(row, fact / 64);
        self.words[at] |= 1 << (fact % 64);
    }

    pub fn clear(&mut self, row: usize, fact: usize) {
        if fact / 64 < self.width {
            let at = self.at(row, fact / 64);
            self.words[at] &= !(1 << (fact % 64));
        }
    }

    /// A word of every row.
    fn column(&mut self, word: usize) -> &mut [u64] {
        &mut self.words[word * self.rows..(word + 1) * self.rows]
    }

    /// Nobody knows it any more.
    pub fn forget(&mut self, fact: usize) {
        if fact / 64 < self.width {
            self.column(fact / 64).iter_mut().for_each(|w| *w &= !(1 << (fact % 64)));
        }
    }

    /// Nobody knows any of them any more.
    pub fn forget_all(&mut self, few: &Few) {
        few.0.iter().for_each(|&(word, mask)| self.forget_of(word, mask));
    }

    fn forget_of(&mut self, word: usize, mask: u64) {
        if word < self.width {
            self.column(word).iter_mut().for_each(|w| *w &= !mask);
        }
    }

    /// Nobody knows a few any more; who knew a fact knows another one instead.
    pub fn turn(&mut self, few: &Few, ended: usize, before: usize) {
        if ended / 64 >= self.width {
            return;
        }
        if before / 64 >= self.width {
            self.width = before / 64 + 1;
            self.words.resize(self.rows * self.width, 0);
        }
        let (from, to) = (ended % 64, before % 64);
        if ended / 64 == before / 64 {
            // As a rule: each row's word at once.
            let keep = !few.mask(ended / 64);
            self.column(ended / 64).iter_mut().for_each(|w| *w = *w & keep | (*w >> from & 1) << to);
            few.0.iter().filter(|x| x.0 != ended / 64).for_each(|&(word, mask)| self.forget_of(word, mask));
            return;
        }
        let known: SmallVec<[u64; 64]> = self.column(ended / 64).iter().map(|w| w >> from & 1).collect();
        self.forget_all(few);
        self.column(before / 64).iter_mut().zip(known).for_each(|(w, k)| *w |= k << to);
    }

    /// A set becomes empty.
    pub fn reset(&mut self, row: usize) {
        self.words.iter_mut().skip(row).step_by(self.rows.max(1)).for_each(|w| *w = 0);
    }

    /// A set is as another one, less what is in a third.
    pub fn copy(&mut self, to: usize, from: usize, except: Option<usize>) {
        self.reset(to);
        self.tell(to, from, except, |_, w| w);
    }

    /// To a set comes what is in another one, and not in a third, as far as a filter lets it pass: of words by number.
    pub fn tell(&mut self, to: usize, from: usize, except: Option<usize>, filter: impl Fn(usize, u64) -> u64) {
        for (n, column) in self.words.chunks_mut(self.rows.max(1)).enumerate() {
            let hidden = except.map_or(0, |row| column[row]);
            column[to] |= filter(n, column[from] & !hidden);
        }
    }

    /// Of a set only these stay.
    pub fn keep(&mut self, row: usize, only: &Bits) {
        self.words.iter_mut().skip(row).step_by(self.rows.max(1)).enumerate().for_each(|(n, w)| *w &= only.word(n));
    }

    /// The same where rows and facts have other numbers.
    pub fn moved(&self, rows: impl Fn(usize) -> usize, facts: &[usize]) -> Facts {
        let width = facts.len().div_ceil(64).max(self.width);
        let mut out = Facts { words: vec![0; self.rows * width], width, rows: self.rows };
        for (row, n) in (0..self.rows).map(|row| (row, rows(row))) {
            for word in 0..self.width {
                let mut rest = self.words[word * self.rows + row];
                while rest != 0 {
                    let fact = facts[word * 64 + rest.trailing_zeros() as usize];
                    out.words[fact / 64 * self.rows + n] |= 1 << (fact % 64);
                    rest &= rest - 1;
                }
            }
        }
        out
    }

    /// All of it as numbers.
    pub fn key(&self, out: &mut Vec<u64>) {
        // Most are empty.
        out.push(self.rows as u64);
        for (n, &w) in self.words.iter().enumerate().filter(|x| *x.1 != 0) {
            out.extend([n as u64, w]);
        }
        out.push(u64::MAX);
    }
}

/// The facts about a region.
struct AboutRegion {
    /// Its last write is there.
    written: usize,
    /// Units see its last write, if lanes made it: its writer has fenced behind it.
    shown: usize,
    /// The reads by an agent are over.
    read: SmallVec<[(usize, usize); 4]>,
    /// It is more than the smallest part that is used apart.
    coarse: bool,
}

/// The facts about a word, or a named barrier.
struct AboutWord {
    /// The phase in front of the one under way has ended.
    ended: usize,
    /// The one in front of that has ended.
    before: usize,
    /// An agent has passed its newest wait for the phase in front of the one under way.
    passed: SmallVec<[(usize, usize); 4]>,
}

/// Numbers, the same in all states, of regions and words by address, and of facts.
#[derive(Default)]
struct Numbers {
    facts: usize,
    regions: Map<i64, usize>,
    about_regions: Vec<AboutRegion>,
    words: Map<i64, usize>,
    about_words: Vec<AboutWord>,
    written: Bits,
    events: Bits,
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

/// Where words, regions and facts go where memory is moved, by number.
pub(in super::super) struct Moved {
    pub words: Vec<usize>,
    pub regions: Vec<usize>,
    pub facts: Vec<usize>,
}

/// Which rows of the sets are whose, and what the facts are.
pub(in super::super) struct Places {
    agents: usize,
    /// The blocks' first facts: that one runs, and that its words are made.
    blocks: usize,
    /// The numbers of named barriers.
    named: Vec<u32>,
    numbers: RefCell<Numbers>,
}

impl Places {
    pub fn new(program: &Program, explicit: &Explicit, agents: usize) -> Places {
        fn barriers(block: &Block, out: &mut Vec<u32>) {
            for inst in block {
                if let Inst::Unit(u) = inst
                    && let Unit::NamedBarrier { id, .. } = **u
                {
                    out.push(id);
                }
                visit::blocks(inst).into_iter().for_each(|b| barriers(b, out));
            }
        }
        let mut named = Vec::new();
        if explicit.on {
            barriers(&program.body, &mut named);
        }
        named.sort_unstable();
        named.dedup();
        let mut numbers = Numbers::default();
        for _ in 0..2 * explicit.blocks {
            numbers.event();
        }
        // Named barriers stand in front of the words.
        for _ in 0..named.len() * explicit.blocks {
            let (ended, before) = (numbers.event(), numbers.event());
            numbers.about_words.push(AboutWord { ended, before, passed: SmallVec::new() });
        }
        Places { agents, blocks: explicit.blocks, named, numbers: RefCell::new(numbers) }
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

    /// What the round under way of the cluster's barrier gathers; behind it what the last one has taught.
    pub fn cluster(&self) -> usize {
        3 * self.agents
    }

    /// The same of a named barrier, or of a word.
    pub fn phase(&self, word: usize) -> usize {
        3 * self.agents + 2 + 2 * word
    }

    /// Rows of so many words.
    pub fn rows(&self, words: usize) -> usize {
        self.phase(words)
    }

    /// The number of a named barrier of a block.
    pub fn named(&self, block: usize, id: u32) -> usize {
        block * self.named.len() + self.named.binary_search(&id).unwrap_or(0)
    }

    /// How many there are.
    pub fn all_named(&self) -> usize {
        self.named.len() * self.blocks
    }

    /// The number of a word by its address.
    pub fn word(&self, at: i64) -> Option<usize> {
        self.numbers.borrow().words.get(&at).copied()
    }

    /// The same of one that is made.
    pub fn new_word(&self, at: i64) -> usize {
        let mut n = self.numbers.borrow_mut();
        if let Some(&known) = n.words.get(&at) {
            return known;
        }
        let word = n.about_words.len();
        n.words.insert(at, word);
        let (ended, before) = (n.event(), n.event());
        n.about_words.push(AboutWord { ended, before, passed: SmallVec::new() });
        word
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
        n.about_regions.push(AboutRegion { written, shown, read: SmallVec::new(), coarse });
        region
    }

    /// A block runs.
    pub fn runs(&self, block: usize) -> usize {
        2 * block
    }

    /// All barrier words of a block are made, and seen by all.
    pub fn made(&self, block: usize) -> usize {
        2 * block + 1
    }

    /// The phase of a word in front of the one under way has ended, and the one in front of that.
    pub fn ended(&self, word: usize) -> (usize, usize) {
        let n = self.numbers.borrow();
        (n.about_words[word].ended, n.about_words[word].before)
    }

    /// An agent has passed its newest wait for the phase in front of the one under way.
    pub fn passed(&self, word: usize, t: usize) -> usize {
        let mut n = self.numbers.borrow_mut();
        if let Some(x) = n.about_words[word].passed.iter().find(|x| x.0 == t) {
            return x.1;
        }
        let fact = n.event();
        n.about_words[word].passed.push((t, fact));
        fact
    }

    /// All facts about phases of a word.
    pub fn phases(&self, word: usize) -> Few {
        let n = self.numbers.borrow();
        let about = &n.about_words[word];
        let mut few = Few::default();
        about.passed.iter().map(|x| x.1).chain([about.ended, about.before]).for_each(|f| few.set(f));
        few
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

    /// The reads of a region by an agent are over.
    pub fn read(&self, region: usize, t: usize) -> usize {
        let mut n = self.numbers.borrow_mut();
        if let Some(x) = n.about_regions[region].read.iter().find(|x| x.0 == t) {
            return x.1;
        }
        let fact = n.facts;
        n.facts += 1;
        n.about_regions[region].read.push((t, fact));
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

    /// Calls `f` for the number and the address of every word.
    pub fn each_word(&self, mut f: impl FnMut(usize, i64)) {
        self.numbers.borrow().words.iter().for_each(|(&at, &w)| f(w, at));
    }

    /// The same of regions.
    pub fn each_region(&self, mut f: impl FnMut(usize, i64)) {
        self.numbers.borrow().regions.iter().for_each(|(&at, &r)| f(r, at));
    }

    /// Where everything goes when each address goes to another one, and no two to the same; `None` if some word goes where none is.
    pub fn moved(&self, to: &dyn Fn(i64) -> i64) -> Option<Moved> {
        loop {
            let facts = self.numbers.borrow().facts;
            let (mut all, mut words) = (Vec::new(), Vec::new());
            self.each_region(|r, at| all.push((r, at)));
            self.each_word(|w, at| words.push((w, at)));
            // Named barriers stay.
            let mut moved =
                Moved { words: (0..self.numbers.borrow().about_words.len()).collect(), regions: vec![0; all.len()], facts: Vec::new() };
            let mut places: Vec<usize> = (0..facts).collect();
            // One that was made on the way has its turn when all is looked at again.
            let mut send = |fact: usize, to: usize| places.iter_mut().skip(fact).take(1).for_each(|x| *x = to);
            for (w, at) in words {
                moved.words[w] = self.word(to(at))?;
            }
            for &(r, at) in &all {
                let there = self.region(to(at), self.coarse(r));
                moved.regions[r] = there;
            }
            for (w, &there) in moved.words.iter().enumerate().filter(|(w, there)| w != *there) {
                let (from, to) = (self.ended(w), self.ended(there));
                send(from.0, to.0);
                send(from.1, to.1);
                let passed = self.numbers.borrow().about_words[w].passed.clone();
                passed.iter().for_each(|&(t, fact)| send(fact, self.passed(there, t)));
            }
            for (r, &there) in moved.regions.iter().enumerate().filter(|(r, there)| r != *there) {
                let (from, to) = (self.written(r), self.written(there));
                send(from.0, to.0);
                send(from.1, to.1);
                let read = self.numbers.borrow().about_regions[r].read.clone();
                read.iter().for_each(|&(t, fact)| send(fact, self.read(there, t)));
            }
            moved.facts = places;
            // What was made on the way goes somewhere, too.
            if self.is_current(&moved) {
                return Some(moved);
            }
        }
    }

    /// True if nothing was numbered since.
    pub fn is_current(&self, moved: &Moved) -> bool {
        let n = self.numbers.borrow();
        (n.about_words.len(), n.about_regions.len(), n.facts) == (moved.words.len(), moved.regions.len(), moved.facts.len())
    }

    /// Where a row goes.
    pub fn moved_row(&self, row: usize, moved: &Moved) -> usize {
        match row.checked_sub(self.phase(0)) {
            Some(n) if n / 2 < moved.words.len() => self.phase(moved.words[n / 2]) + n % 2,
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

impl Bits {
    /// Those of a word that are in the set.
    pub fn only(&self, n: usize, w: u64) -> u64 {
        w & self.word(n)
    }

    /// Those that are not.
    pub fn less(&self, n: usize, w: u64) -> u64 {
        w & !self.word(n)
    }
}
