//! What is needed of words while a block is walked from its end to its begin.

use super::exec::HIGHEST;

/// Levels that a need may have.
const LEVELS: usize = HIGHEST as usize + 1;

/// Nobody needs it.
pub(super) const DEAD: u8 = u8::MAX;

/// Needs of words, and the words of each need, so that needs above a level sink without a look at the others.
pub(super) struct Needs {
    /// Each word's need, or [`DEAD`].
    pub of: Vec<u8>,
    /// Per level words that had this need at some time; those that have another now do not count.
    at: [Vec<u32>; LEVELS],
    /// No word has a higher need.
    top: usize,
}

impl Needs {
    /// Nobody needs any of so many words.
    pub(super) fn new(words: usize) -> Needs {
        Needs { of: vec![DEAD; words], at: std::array::from_fn(|_| Vec::new()), top: 0 }
    }

    /// A word is needed at a level, if it is not at a lower one.
    pub(super) fn need(&mut self, word: usize, level: u8) {
        if level >= self.of[word] {
            return;
        }
        self.of[word] = level;
        let level = usize::from(level).min(LEVELS - 1);
        self.at[level].push(word as u32);
        self.top = self.top.max(level);
    }

    /// No need stays above a level.
    pub(super) fn sink(&mut self, cap: u8) {
        while self.top > usize::from(cap) {
            let high = self.top;
            for word in std::mem::take(&mut self.at[high]) {
                if usize::from(self.of[word as usize]) == high {
                    self.of[word as usize] = cap;
                    self.at[usize::from(cap)].push(word);
                }
            }
            self.top -= 1;
        }
    }

    /// A block ends: those that were needed are looked at by the caller.
    pub(super) fn clear(&mut self) {
        self.at[..=self.top].iter_mut().for_each(Vec::clear);
        self.top = 0;
    }
}
