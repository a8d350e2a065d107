//! What is alive between blocks, word by word.
//!
//! ```text
//! reads that a block needs from in front of it ─ up, against control flow, till a write ends the need ─► needed at ends and begins
//! writes ─ down, with control flow, as far as it is needed ─────────────────────────────────────────────► held at begins
//! ```
//!
//! A word is looked at in the blocks in which it is needed, and in no others: where many loops follow one another, most words are needed in few
//! of their blocks. The way down may end where nobody needs the word: on a way from a write to a block in which it is needed, the last write has
//! the need in each block behind it.

use super::fuel::Fuel;
use super::needs::DEAD;
use super::result::AllocError;
use crate::mir::Program;
use cranelift_entity::EntityRef;

/// Words alive between blocks, each counted per block.
const ENTRIES: usize = 1 << 24;

/// What a block does to what is needed behind it.
pub(super) struct Transfer {
    /// Word, level that the block itself needs at its begin, and the lowest level from which on a need ends in it.
    pub words: Vec<(u32, u8, u8)>,
    /// Words that it writes; some more than once.
    pub defined: Vec<u32>,
    /// Needs sink to this level on the way through.
    pub cap: u8,
}

/// What is alive between blocks.
pub(super) struct Between {
    /// Per block the words that are needed at its end and may have been written, and at which level they are needed.
    pub end: Vec<Vec<(u32, u8)>>,
    /// Per block the words that are needed at its begin and may have been written.
    pub begin: Vec<Vec<u32>>,
}

/// No number.
const NONE: u32 = u32::MAX;

/// Blocks, by word: those of a word lie side by side.
struct ByWord<T> {
    first: Vec<u32>,
    all: Vec<T>,
}

impl<T: Copy> ByWord<T> {
    /// Sorts what was found by the numbers of its words. `found` is asked twice.
    fn new<I: Iterator<Item = (u32, T)>>(words: usize, found: impl Fn() -> I, blank: T) -> ByWord<T> {
        let mut first = vec![0u32; words + 2];
        found().for_each(|(word, _)| first[word as usize + 2] += 1);
        for word in 0..words {
            first[word + 2] += first[word + 1];
        }
        let mut all = vec![blank; first[words + 1] as usize];
        for (word, what) in found() {
            let at = &mut first[word as usize + 1];
            all[*at as usize] = what;
            *at += 1;
        }
        first.pop();
        ByWord { first, all }
    }

    fn of(&self, word: usize) -> &[T] {
        &self.all[self.first[word] as usize..self.first[word + 1] as usize]
    }
}

/// What is known of one word in a block.
#[derive(Clone, Copy)]
struct WordState {
    /// What the block itself needs, and where it ends needs.
    need: u8,
    kill: u8,
    /// Needs at its begin and end.
    begin: u8,
    end: u8,
    /// The word may have been written at its begin, at its end.
    held: [bool; 2],
    seen: bool,
    queued: bool,
}

const BLANK: WordState = WordState { need: DEAD, kill: DEAD, begin: DEAD, end: DEAD, held: [false; 2], seen: false, queued: false };

/// The search, a word at a time.
struct Search<'a> {
    program: &'a Program,
    transfers: &'a [Transfer],
    before: ByWord<u32>,
    states: Vec<WordState>,
    touched: Vec<u32>,
    queue: Vec<u32>,
    steps: usize,
}

impl Search<'_> {
    fn at(&mut self, block: u32) -> &mut WordState {
        let state = &mut self.states[block as usize];
        if !state.seen {
            state.seen = true;
            self.touched.push(block);
        }
        state
    }

    /// Follows needs against control flow.
    fn up(&mut self) {
        while let Some(block) = self.queue.pop() {
            self.states[block as usize].queued = false;
            let need = self.states[block as usize].begin;
            let from = self.before.first[block as usize] as usize..self.before.first[block as usize + 1] as usize;
            self.steps += 1 + from.len();
            for way in from {
                let before = self.before.all[way];
                let cap = self.transfers[before as usize].cap;
                let state = self.at(before);
                if need >= state.end {
                    continue;
                }
                state.end = need;
                // A need ends where a write reaches all its lanes; the levels on the way to the write were looked at when `kill` was found.
                let through = if need >= state.kill { DEAD } else { need.min(cap) };
                if through.min(state.need) < state.begin {
                    state.begin = through.min(state.need);
                    if !std::mem::replace(&mut state.queued, true) {
                        self.queue.push(before);
                    }
                }
            }
        }
    }

    /// Follows writes along control flow; the queue has the blocks behind which the word may have been written.
    fn down(&mut self) {
        while let Some(block) = self.queue.pop() {
            let next = &self.program.blocks[crate::mir::Block::new(block as usize)].next;
            self.steps += 1 + next.len();
            for next in next {
                let state = &mut self.states[next.index()];
                if state.begin != DEAD && !state.held[0] {
                    state.held[0] = true;
                    if !std::mem::replace(&mut state.held[1], true) {
                        self.queue.push(next.index() as u32);
                    }
                }
            }
        }
    }
}

/// Finds what is alive between blocks. `entry` are words that hold something when the kernel begins.
///
/// # Errors
/// If too many words are alive between too many blocks.
pub(super) fn between(
    program: &Program,
    transfers: &[Transfer],
    words: usize,
    entry: &[usize],
    fuel: &Fuel,
) -> Result<Between, AllocError> {
    let count = program.blocks.len();
    let mut number = vec![NONE; words];
    let mut globals = Vec::new();
    for &(word, need, _) in transfers.iter().flat_map(|t| &t.words) {
        if need != DEAD && number[word as usize] == NONE {
            number[word as usize] = globals.len() as u32;
            globals.push(word);
        }
    }
    let blocks = || transfers.iter().enumerate().map(|(block, t)| (block as u32, t));
    let global = |word: u32| Some(number[word as usize]).filter(|&n| n != NONE);
    let effects = ByWord::new(
        globals.len(),
        || blocks().flat_map(|(block, t)| t.words.iter().filter_map(move |&(w, need, kill)| Some((global(w)?, (block, need, kill))))),
        (0, DEAD, DEAD),
    );
    let defined =
        ByWord::new(globals.len(), || blocks().flat_map(|(block, t)| t.defined.iter().filter_map(move |&w| Some((global(w)?, block)))), 0);
    let edges = || program.blocks.iter().flat_map(|(block, data)| data.next.iter().map(move |n| (n.index() as u32, block.index() as u32)));
    let mut search = Search {
        program,
        transfers,
        before: ByWord::new(count, edges, 0),
        states: vec![BLANK; count],
        touched: Vec::new(),
        queue: Vec::new(),
        steps: 0,
    };
    let mut found = Between { end: vec![Vec::new(); count], begin: vec![Vec::new(); count] };
    let mut entries = 0;
    for (index, &word) in globals.iter().enumerate() {
        search.steps += effects.of(index).len() + defined.of(index).len();
        for &(block, need, kill) in effects.of(index) {
            let state = search.at(block);
            (state.need, state.kill) = (need, kill);
            if need != DEAD {
                (state.begin, state.queued) = (need, true);
                search.queue.push(block);
            }
        }
        search.up();
        if entry.contains(&(word as usize)) && count > 0 {
            let state = search.at(0);
            state.held = [true; 2];
            search.queue.push(0);
        }
        for &block in defined.of(index) {
            if !std::mem::replace(&mut search.at(block).held[1], true) {
                search.queue.push(block);
            }
        }
        search.down();
        for block in std::mem::take(&mut search.touched) {
            let state = std::mem::replace(&mut search.states[block as usize], BLANK);
            if state.end != DEAD && state.held[1] {
                found.end[block as usize].push((word, state.end));
                entries += 1;
            }
            if state.begin != DEAD && state.held[0] {
                found.begin[block as usize].push(word);
                entries += 1;
            }
        }
        fuel.burn(std::mem::take(&mut search.steps));
        fuel.check()?;
        if entries > ENTRIES {
            return Err(AllocError::TooMuchWork);
        }
    }
    Ok(found)
}
