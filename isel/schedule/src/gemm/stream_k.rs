//! Steps of a product dealt out to workers: which ways are worth a look, and what each worker gets.

use std::fmt;
use std::str::FromStr;

/// Steps of the depth are dealt out, as many to each worker; what workers leave of one tile is added up by a second launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct StreamK {
    /// Those who work at the same time: best one per multiprocessor.
    pub workers: u32,
    /// Tiles, neighbours in the order, that workers have at the same depth.
    pub in_flight: u32,
    /// Tiles of full rounds stay whole, and the rest is dealt out.
    pub rest: bool,
}

/// Steps that a part of the depth must have to be worth its partial sums.
pub(super) const LEAST_STEPS: u32 = 4;

/// Most workers that can be asked for.
const MOST: u32 = 1 << 16;

impl fmt::Display for StreamK {
    /// `132x3` for 132 workers and 3 tiles in flight, `132x3r` if only the rest is dealt out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}{}", self.workers, self.in_flight, if self.rest { "r" } else { "" })
    }
}

impl FromStr for StreamK {
    type Err = String;

    /// Reads what is displayed.
    fn from_str(text: &str) -> Result<StreamK, String> {
        let wrong = || {
            format!(
                "`{text}` is no number of workers and of tiles in flight such as 132x3, or 132x3r to keep whole rounds of tiles; \
                 from 1 to {MOST} workers, and from 1 tile to as many as there are workers"
            )
        };
        let (numbers, rest) = text.strip_suffix('r').map_or((text, false), |t| (t, true));
        let (workers, in_flight) = numbers.split_once('x').ok_or_else(wrong)?;
        let number = |t: &str| t.parse().ok().filter(|n| (1..=MOST).contains(n)).ok_or_else(wrong);
        let (workers, in_flight) = (number(workers)?, number(in_flight)?);
        if in_flight > workers { Err(wrong()) } else { Ok(StreamK { workers, in_flight, rest }) }
    }
}

/// Share of the workers that may be left over where a number of tiles is in flight.
const LEFT_OVER: u32 = 16;
/// Groups of the order that are in flight, where all tiles are dealt out, and where it is a rest of them.
const GROUPS_IN_FLIGHT: [&[u32]; 2] = [&[12, 8, 6, 4, 3, 2, 1], &[2, 1]];

/// Ways to deal out tiles of so many steps that are worth a prediction.
pub(super) fn candidates(tiles: u64, steps: u32, workers: u32, group: u32, push: &mut dyn FnMut(StreamK)) {
    let all = tiles.saturating_mul(u64::from(steps));
    let rest = tiles > u64::from(workers);
    // Everybody has a tile of his own, or there is nothing to share.
    let even = workers == 0 || tiles.is_multiple_of(u64::from(workers));
    if tiles == 0 || workers > MOST || even || all < u64::from(workers * LEAST_STEPS) || all > 1 << 30 {
        return;
    }
    for in_flight in GROUPS_IN_FLIGHT[usize::from(rest)].iter().map(|n| n * group) {
        if u64::from(in_flight) <= tiles && in_flight <= workers && workers % in_flight <= workers / LEFT_OVER {
            push(StreamK { workers, in_flight, rest });
        }
    }
}

/// What workers do, one behind the other, while all of them work.
pub(super) struct Shares {
    /// Whole tiles, or equal parts of tiles, of the worker that has most.
    pub rounds: f64,
    /// Steps of each.
    pub steps: f64,
    /// Steps that are dealt out beside them, and the segments of tiles that they make.
    pub dealt: [f64; 2],
    /// Share of all workers' time in which there are steps.
    pub filled: f64,
    /// Workers that have some.
    pub active: f64,
    /// Partial sums that go to the workspace, in tiles, and tiles that they belong to.
    pub parts: [f64; 2],
    /// Depths at which dealt tiles are at a time, stacks of tiles at each, and tiles of a stack.
    pub depths: [f64; 3],
}

impl Shares {
    /// Of tiles of so many steps that are run from end to end, or in equal parts.
    pub fn equal(tiles: f64, steps: f64, splits: f64, processors: f64) -> Shares {
        let all = tiles * splits;
        let rounds = (all / processors).ceil();
        Shares {
            rounds,
            steps: (steps / splits).ceil(),
            dealt: [0.0; 2],
            filled: all / (rounds * processors),
            active: all.min(processors),
            parts: if splits > 1.0 { [all, tiles] } else { [0.0; 2] },
            depths: [0.0; 3],
        }
    }

    /// Of tiles whose steps are dealt out.
    pub fn dealt(tiles: u64, steps: u64, s: &StreamK) -> Shares {
        let (workers, in_flight) = (u64::from(s.workers), u64::from(s.in_flight));
        let rounds = if s.rest { tiles / workers } else { 0 };
        let left = tiles - rounds * workers;
        let stacks = left.div_ceil(in_flight).max(1);
        let steps = steps.max(1);
        let worker_groups = (workers / in_flight).clamp(1, stacks.saturating_mul(steps));
        let each = stacks.saturating_mul(steps).div_ceil(worker_groups);
        // Where borders of shares and of tiles meet, nothing is cut.
        let meet = common(stacks, worker_groups);
        let segments = if worker_groups == meet { 1 } else { (each - 1).div_ceil(steps) + 1 };
        let f = |x: u64| x as f64;
        Shares {
            rounds: f(rounds),
            steps: f(steps),
            dealt: [f(each), f(segments)],
            filled: f(tiles) * f(steps) / (f(workers) * (f(rounds) * f(steps) + f(each))),
            active: f(if rounds > 0 { workers } else { worker_groups * in_flight }),
            parts: [(f(stacks) + f(worker_groups - meet)) * f(in_flight), f(left)],
            depths: [f(worker_groups / meet), f(meet), f(in_flight)],
        }
    }
}

/// The share of a tile's operands that no neighbour reads at the same time: of tiles in flight in groups of so many, the columns of which share
/// their part of B, and the rows theirs of A.
pub(super) fn unshared([bm, bn]: [f64; 2], in_flight: f64, band: f64) -> f64 {
    let high = in_flight.min(band);
    let wide = (in_flight / high).floor();
    (bm / wide + bn / high) / (bm + bn)
}

/// The greatest common divisor.
fn common(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_k_come_back_as_they_are_shown_and_others_are_refused() {
        for s in [StreamK { workers: 132, in_flight: 3, rest: false }, StreamK { workers: 7, in_flight: 1, rest: true }] {
            assert_eq!(s.to_string().parse(), Ok(s));
        }
        for wrong in ["", "132", "x", "0x1", "3x4", "132x3q", "r", "1x", "99999x1"] {
            assert!(wrong.parse::<StreamK>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn shares_are_those_of_the_tiles_and_steps() {
        // 36 tiles in stacks of 3, 44 worker groups: 12 stacks, 4 worker groups at each of 11 depths.
        let s = Shares::dealt(36, 4608, &StreamK { workers: 132, in_flight: 3, rest: false });
        assert_eq!((s.rounds, s.dealt, s.depths, s.parts), (0.0, [1257.0, 2.0], [11.0, 4.0, 3.0], [156.0, 36.0]));
        assert!(s.filled > 0.999);
        let rest = Shares::dealt(288, 64, &StreamK { workers: 132, in_flight: 1, rest: true });
        assert_eq!((rest.rounds, rest.dealt, rest.parts[1]), (2.0, [12.0, 2.0], 24.0));
        let none = Shares::equal(288.0, 64.0, 1.0, 132.0);
        assert!(none.rounds == 3.0 && none.filled < rest.filled);
    }
}
