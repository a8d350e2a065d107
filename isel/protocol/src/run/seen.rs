//! States as numbers, and those that were seen.

use super::checker::Checker;
use super::progress::State;
use crate::state::facts::{Facts, known_of};
use crate::state::rotation::Rotated;
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::hash::Hasher;
use tilelift_lane::hash::Map;

/// What makes two states equal: everything but the instructions, which only messages name, and what is known to be over. Where more of that is
/// known, nothing else can happen, so such a state need not be followed, too.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// As bytes: numbers are many, and small.
    pub numbers: Box<[u8]>,
    pub known: Known,
}

impl Key {
    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.numbers.len() + size_of_val(&self.known[..])
    }
}

/// What is known, as [`Facts::key`](crate::state::facts::Facts::key) gives it.
pub(super) type Known = Box<[(u64, u64)]>;

/// The states that were seen, by a hash of their keys; and room to write down the next one's.
#[derive(Default)]
pub(super) struct Seen {
    keys: Map<u64, SmallVec<[Key; 1]>>,
    pub count: usize,
    /// Bytes of the keys.
    pub held: usize,
    numbers: Vec<u64>,
    known: Vec<(u64, u64)>,
    bytes: Vec<u8>,
    moved: Facts,
}

impl Seen {
    /// The key that was written last.
    pub fn last(&self) -> Key {
        Key { numbers: self.bytes.as_slice().into(), known: self.known.as_slice().into() }
    }

    /// True if a state is seen where another one was whose key was written last: no less is known there.
    pub fn is_at(&self, start: &Key) -> bool {
        *start.numbers == self.bytes[..] && known_of(&start.known, &self.known)
    }

    /// Writes the numbers down as bytes.
    fn pack(&mut self) {
        let Seen { numbers, bytes, .. } = self;
        bytes.clear();
        bytes.reserve(3 * numbers.len());
        for &n in &*numbers {
            match n {
                0..WIDE => bytes.push(n as u8),
                _ if n <= u64::from(u16::MAX) => {
                    let [low, high, ..] = n.to_le_bytes();
                    bytes.extend_from_slice(&[WIDE as u8, low, high]);
                }
                _ => {
                    bytes.push(WIDE as u8 + 1);
                    bytes.extend_from_slice(&n.to_le_bytes());
                }
            }
        }
    }
}

/// From here on a number takes more than one byte; which ones follow is said by the first.
const WIDE: u64 = 0xfe;

impl<'a> Checker<'a> {
    /// Bytes of a state, but for what few regions and open loops hold beside themselves.
    pub(super) fn state_bytes(&self, s: &State<'a>) -> usize {
        let trip_classes = s.answers.len() * (size_of::<VecDeque<bool>>() + 2 * s.tasks.len() * size_of::<usize>());
        s.shared.bytes() + trip_classes + s.tasks.iter().map(|t| t.env.bytes()).sum::<usize>()
    }

    /// Writes a state's key, and some numbers more. How the state is rotated in it.
    pub(super) fn write_key(&self, s: &State<'a>, more: &[u64], seen: &mut Seen) -> Option<Rotated> {
        let rotated = self.rotated(s).filter(|rotated| self.key(s, Some(rotated), seen));
        if rotated.is_none() {
            self.key(s, None, seen);
        }
        let n = &mut seen.numbers;
        n.extend(s.counts().map(|count| count.over as u64));
        n.extend(more);
        seen.pack();
        rotated
    }

    /// The key of a state as it is, but that of how often loops have gone round that are known to go round so often, only what counts is in it; and a number
    /// more.
    pub(super) fn key_of_any_round(&self, s: &State<'a>, more: u64, seen: &mut Seen) -> Key {
        self.key(s, None, seen);
        let counts = self.analysis.modulus.max(1);
        seen.numbers.extend(s.counts().map(|count| count.that_counts(counts) as u64));
        seen.numbers.push(more);
        seen.pack();
        seen.last()
    }

    /// Takes note of a state; false if it was seen before. Its key is written then.
    pub(super) fn first_seen(&self, s: &State<'a>, seen: &mut Seen) -> bool {
        self.write_key(s, &[], seen);
        let mut hasher = FxHasher::default();
        hasher.write(&seen.bytes);
        let same = seen.keys.entry(hasher.finish()).or_default();
        if same.iter().any(|k| *k.numbers == seen.bytes[..] && self.covers(&k.known, &seen.known)) {
            return false;
        }
        seen.held += seen.bytes.len() + size_of_val(&seen.known[..]);
        same.push(Key { numbers: seen.bytes.as_slice().into(), known: seen.known.as_slice().into() });
        seen.count += 1;
        true
    }

    /// True if a state of which so much is known need not be followed behind one of which less is.
    fn covers(&self, less: &[(u64, u64)], more: &[(u64, u64)]) -> bool {
        if self.subsumes { known_of(less, more) } else { less == more }
    }

    /// A state as numbers, but for those of iterations that are counted, rotated if that is asked for and can be: else false.
    fn key(&self, s: &State<'a>, rotated: Option<&Rotated>, seen: &mut Seen) -> bool {
        let Seen { numbers: n, known, moved, .. } = seen;
        n.clear();
        known.clear();
        n.push(u64::from(rotated.is_some()) | s.undecided.map_or(0, |n| n as u64 + 1) << 1);
        for (number, t) in s.tasks.iter().enumerate() {
            let round = |r: Option<bool>| r.map_or(0, |r| 1 + u64::from(r));
            n.push(t.life as u64 | round(t.joined) << 8 | round(t.met) << 16 | (t.frames.len() as u64) << 24);
            n.extend(t.frames.iter().map(|f| (f.block as u64) << 32 | f.at as u64));
            n.extend(t.read.iter().zip(&t.debt).map(|(&read, &debt)| (read as u64) << 32 | debt as u64));
            match rotated {
                Some(rotated) if !self.rotated_env(number, &t.env, rotated, n) => return false,
                Some(_) => {}
                None => t.env.key(n),
            }
        }
        for list in &s.answers {
            n.push(list.len() as u64);
            let (mut bits, mut count) = (0, 0);
            for &again in list {
                (bits, count) = (bits << 1 | u64::from(again), count + 1);
                if count == 64 {
                    n.push(bits);
                    (bits, count) = (0, 0);
                }
            }
            if count > 0 {
                n.push(bits);
            }
        }
        match rotated {
            Some(rotated) => self.rotated_key(&s.shared, rotated, moved, (n, known)),
            None => self.shared_key(&s.shared, n, known),
        }
        true
    }
}
