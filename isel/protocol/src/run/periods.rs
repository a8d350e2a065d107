//! Loops that are known to go round often, a hundred thousand times as well as a hundred: what comes again is followed once.
//!
//! ```text
//! for 1 to 1500 ── … ── state ── 6 rounds ── state ── 6 rounds ── … ── state ── 5 rounds, the last one
//!                          └── the same but for how many are over ──┘ these are passed over
//! ```
//!
//! Between two states that differ only by how many rounds are over of loops that go on all the while, everything comes again until one of
//! these loops ends: of an index no more is known than what it leaves modulo what counts, and that is in the state. So as many such periods are
//! passed over as all of the loops have rounds for, and what is left is followed to its end. This says of a loop that it goes round exactly so often:
//! roles agree whose bounds are written in different ways, with first steps in front of a loop or last ones behind it.
//!
//! Whoever depends on an index in another way, as on whether 1500 rounds are over, is not known to do one thing or the other, which is refused.

use super::checker::Checker;
use super::fuel::{BYTES_PER_STEP, MOST_STEPS, too_complex};
use super::progress::{Count, End, State};
use super::seen::{Key, Seen};
use crate::error::ProtocolError;
use crate::problem::Many;
use smallvec::SmallVec;
use tilelift_lane::hash::Map;

/// How many rounds are over of each loop that is open, agent by agent.
type Counts = SmallVec<[Count; 8]>;

/// The states in which iterations have begun, in one order of steps.
#[derive(Default)]
pub(super) struct Periods {
    before: Map<Key, Counts>,
    bytes: usize,
    seen: Seen,
}

/// Bytes of states that are kept while nothing comes again.
const MOST_BYTES: usize = 1 << 24;

impl Periods {
    /// What stands in front of here does not come again.
    pub fn clear(&mut self) {
        self.before.clear();
        self.bytes = 0;
    }
}

impl State {
    /// Which iterations are open of loops that are known to go round so often.
    pub(super) fn counts(&self) -> impl Iterator<Item = Count> {
        let frames = self.tasks.iter().flat_map(|task| &task.frames);
        frames.filter_map(|f| if let End::Iteration(_, count) = f.end { count } else { None })
    }

    fn counts_mut(&mut self) -> impl Iterator<Item = &mut Count> {
        let frames = self.tasks.iter_mut().flat_map(|task| &mut task.frames);
        frames.filter_map(|f| if let End::Iteration(_, count) = &mut f.end { count.as_mut() } else { None })
    }
}

/// How often what lies between two states can come again behind the second one, before a loop ends that goes on all the while.
fn again(before: &Counts, now: &Counts) -> Option<i64> {
    let mut most = None;
    for (old, new) in before.iter().zip(now) {
        let rounds = new.over - old.over;
        if old.run != new.run && rounds != 0 {
            return None;
        }
        if old.run == new.run && rounds > 0 {
            let here = (new.all - 1 - new.over) / rounds;
            most = Some(most.map_or(here, |most: i64| most.min(here)));
        }
    }
    most.filter(|&most| most > 0)
}

impl<'a> Checker<'a> {
    /// An iteration of agent `t` has begun, of a loop that is known to go round so often: passes over what is known to come again.
    pub(super) fn skip_periods(&self, s: &mut State, t: usize, periods: &mut Periods) -> Result<(), ProtocolError> {
        if self.fuel.spent() {
            return too_complex(Many::Steps(MOST_STEPS));
        }
        // One agent looks, or each state would be written down once for every one.
        let counts = |n: usize| s.tasks[n].frames.iter().any(|f| matches!(f.end, End::Iteration(_, Some(_))));
        if (0..t).any(counts) {
            return Ok(());
        }
        let key = self.key_of_any_round(s, t as u64, &mut periods.seen);
        let bytes = key.bytes();
        self.fuel.burn(bytes / BYTES_PER_STEP);
        let now: Counts = s.counts().collect();
        if let Some(before) = periods.before.get_mut(&key) {
            // What is passed over is as if it were followed: of a loop around these the next state is as far from the one in front.
            if let Some(times) = again(before, &now) {
                let same = s.counts_mut().zip(&*before).filter(|(count, old)| count.run == old.run);
                same.for_each(|(count, old)| count.over += times * (count.over - old.over));
            }
            *before = s.counts().collect();
            return Ok(());
        }
        if periods.bytes > MOST_BYTES {
            periods.clear();
        }
        periods.bytes += bytes;
        periods.before.insert(key, now);
        Ok(())
    }
}
