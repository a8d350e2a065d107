//! States as numbers, and those that were seen.

use super::checker::Checker;
use super::progress::State;
use crate::state::facts::{Facts, known_of, known_of_both};
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
    keys: Map<u64, SmallVec<[(Key, usize); 1]>>,
    /// How often less has been known of each than before, in the order in which they were seen first.
    weaker: Vec<u32>,
    /// The one whose key was written last.
    last: usize,
    /// Bytes of the keys.
    pub held: usize,
    numbers: Vec<u64>,
    known: Vec<(u64, u64)>,
    bytes: Vec<u8>,
    moved: Facts,
}

/// What of a state was noted: which it is, and how often less has been known of it than before.
#[derive(Clone, Copy)]
pub(super) struct Note(usize, u32);

impl Seen {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.weaker.len()
    }

    /// What was noted of the state that was taken note of last.
    pub fn note(&self) -> Note {
        Note(self.last, self.weaker[self.last])
    }

    /// True if no less has been known of a state since that was noted.
    pub fn is_current(&self, note: Note) -> bool {
        self.weaker[note.0] == note.1
    }

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
        let (fours, rest) = numbers.as_chunks::<4>();
        for &four in fours {
            // Most are small, so that four are written at once.
            if four[0] | four[1] | four[2] | four[3] < WIDE {
                bytes.extend_from_slice(&four.map(|n| n as u8));
            } else {
                four.into_iter().for_each(|n| pack_one(n, bytes));
            }
        }
        rest.iter().for_each(|&n| pack_one(n, bytes));
    }
}

/// From here on a number takes more than one byte; which ones follow is said by the first.
const WIDE: u64 = 0xfe;

/// Writes a number down as bytes.
fn pack_one(n: u64, bytes: &mut Vec<u8>) {
    let [low, high, ..] = n.to_le_bytes();
    if n < WIDE {
        bytes.push(low);
    } else if n <= u64::from(u16::MAX) {
        bytes.extend_from_slice(&[WIDE as u8, low, high]);
    } else {
        bytes.push(WIDE as u8 + 1);
        bytes.extend_from_slice(&n.to_le_bytes());
    }
}

impl<'a> Checker<'a> {
    /// Bytes of a state, but for what few regions and open loops hold beside themselves.
    pub(super) fn state_bytes(&self, s: &State) -> usize {
        let trip_classes = s.answers.len() * (size_of::<VecDeque<bool>>() + 2 * s.tasks.len() * size_of::<usize>());
        s.shared.bytes() + trip_classes + s.tasks.iter().map(|t| t.env.bytes()).sum::<usize>()
    }

    /// Writes a state's key, and some numbers more. How the state is rotated in it.
    pub(super) fn write_key(&self, s: &State, more: &[u64], seen: &mut Seen) -> Option<Rotated> {
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
    pub(super) fn key_of_any_round(&self, s: &State, more: u64, seen: &mut Seen) -> Key {
        self.key(s, None, seen);
        let counts = self.analysis.modulus.max(1);
        seen.numbers.extend(s.counts().map(|count| count.that_counts(counts) as u64));
        seen.numbers.push(more);
        seen.pack();
        seen.last()
    }

    /// Takes note of a state; false if it was seen before. Its key is written then. Of two that differ by what is known alone the later one goes on with
    /// what is known of both, for both, if `joins`.
    pub(super) fn first_seen(&self, s: &mut State, seen: &mut Seen) -> bool {
        let rotated = self.write_key(s, &[], seen);
        let mut hasher = FxHasher::default();
        hasher.write(&seen.bytes);
        let same = seen.keys.entry(hasher.finish()).or_default();
        if same.iter().any(|(k, _)| *k.numbers == seen.bytes[..] && self.covers(&k.known, &seen.known)) {
            return false;
        }
        if let Some((other, n)) = same.iter_mut().find(|x| self.joins && *x.0.numbers == seen.bytes[..]) {
            if self.forget_but(s, rotated.as_ref(), &other.known) {
                known_of_both(&mut seen.known, &other.known);
                self.joined.set(true);
            }
            other.known = seen.known.as_slice().into();
            seen.weaker[*n] += 1;
            seen.last = *n;
            return true;
        }
        seen.held += seen.bytes.len() + size_of_val(&seen.known[..]);
        seen.last = seen.weaker.len();
        seen.weaker.push(0);
        same.push((Key { numbers: seen.bytes.as_slice().into(), known: seen.known.as_slice().into() }, seen.last));
        true
    }

    /// Forgets what is not known of another state, whose key is that of this one rotated. True if that is something.
    pub(super) fn forget_but(&self, s: &mut State, rotated: Option<&Rotated>, known: &[(u64, u64)]) -> bool {
        let moves = rotated.filter(|r| r.by.iter().any(|&by| by != 0)).map(|r| &r.shift.moved.facts);
        s.shared.facts.keep_known(moves, &self.places.of_some_lanes(), known)
    }

    /// True if a state of which so much is known need not be followed behind one of which less is.
    fn covers(&self, less: &[(u64, u64)], more: &[(u64, u64)]) -> bool {
        if self.subsumes { known_of(less, more) } else { less == more }
    }

    /// A state as numbers, but for those of iterations that are counted, rotated if that is asked for and can be: else false.
    fn key(&self, s: &State, rotated: Option<&Rotated>, seen: &mut Seen) -> bool {
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
