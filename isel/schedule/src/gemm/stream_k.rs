//! Steps of a product dealt out to workers: which ways are worth a look, and what each worker gets.

use super::LEAST_STEPS;
use std::fmt;
use std::str::FromStr;

/// Steps of the depth are dealt out, as many to each worker; what workers leave of one tile is added up by a second launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Streams {
    /// Those who work at the same time: best one per multiprocessor.
    pub workers: u32,
    /// Tiles, neighbours in the order, that workers have at the same depth.
    pub abreast: u32,
    /// Tiles of full rounds stay whole, and the rest is dealt out.
    pub rest: bool,
}

/// Most workers that can be asked for.
const MOST: u32 = 1 << 16;

impl fmt::Display for Streams {
    /// `132x3` for 132 workers and 3 tiles abreast, `132x3r` if only the rest is dealt out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}{}", self.workers, self.abreast, if self.rest { "r" } else { "" })
    }
}

impl FromStr for Streams {
    type Err = String;

    /// Reads what is displayed.
    fn from_str(text: &str) -> Result<Streams, String> {
        let wrong = || {
            format!(
                "`{text}` is no number of workers and of tiles abreast such as 132x3, or 132x3r to keep whole rounds of tiles; \
                 from 1 to {MOST} workers, and from 1 tile to as many as there are workers"
            )
        };
        let (numbers, rest) = text.strip_suffix('r').map_or((text, false), |t| (t, true));
        let (workers, abreast) = numbers.split_once('x').ok_or_else(wrong)?;
        let number = |t: &str| t.parse().ok().filter(|n| (1..=MOST).contains(n)).ok_or_else(wrong);
        let (workers, abreast) = (number(workers)?, number(abreast)?);
        if abreast > workers { Err(wrong()) } else { Ok(Streams { workers, abreast, rest }) }
    }
}

/// Share of the workers that may be left over where a number of tiles goes abreast.
const LEFT_OVER: u32 = 16;
/// Groups of the order that go abreast, where all tiles are dealt out, and where it is a rest of them.
const GROUPS_ABREAST: [&[u32]; 2] = [&[12, 8, 6, 4, 3, 2, 1], &[2, 1]];

/// Ways to deal out tiles of so many steps that are worth a prediction.
pub(super) fn candidates(tiles: u64, steps: u32, workers: u32, group: u32, push: &mut dyn FnMut(Streams)) {
    let all = tiles.saturating_mul(u64::from(steps));
    let rest = tiles > u64::from(workers);
    // Everybody has a tile of his own, or there is nothing to share.
    let even = tiles.is_multiple_of(u64::from(workers));
    if tiles == 0 || even || all < u64::from(workers * LEAST_STEPS) || all > 1 << 30 {
        return;
    }
    for abreast in GROUPS_ABREAST[usize::from(rest)].iter().map(|n| n * group) {
        if u64::from(abreast) <= tiles && abreast <= workers && workers % abreast <= workers / LEFT_OVER {
            push(Streams { workers, abreast, rest });
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
    /// Sums that go to the workspace, in tiles, and tiles that they belong to.
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
    pub fn dealt(tiles: u64, steps: u64, s: &Streams) -> Shares {
        let (workers, abreast) = (u64::from(s.workers), u64::from(s.abreast));
        let rounds = if s.rest { tiles / workers } else { 0 };
        let left = tiles - rounds * workers;
        let stacks = left.div_ceil(abreast).max(1);
        let steps = steps.max(1);
        let worker_groups = (workers / abreast).clamp(1, stacks * steps);
        let each = (stacks * steps).div_ceil(worker_groups);
        // Where borders of shares and of tiles meet, nothing is cut.
        let meet = common(stacks, worker_groups);
        let segments = if worker_groups == meet { 1 } else { (each - 1).div_ceil(steps) + 1 };
        let f = |x: u64| x as f64;
        Shares {
            rounds: f(rounds),
            steps: f(steps),
            dealt: [f(each), f(segments)],
            filled: f(tiles * steps) / f(workers * (rounds * steps + each)),
            active: f(if rounds > 0 { workers } else { worker_groups * abreast }),
            parts: [f((stacks + worker_groups - meet) * abreast), f(left)],
            depths: [f(worker_groups / meet), f(meet), f(abreast)],
        }
    }
}

/// The share of a tile's operands that no neighbour reads at the same time: of tiles abreast in groups of so many, the columns of which share
/// their part of B, and the rows theirs of A.
pub(super) fn unshared([bm, bn]: [f64; 2], abreast: f64, band: f64) -> f64 {
    let high = abreast.min(band);
    let wide = (abreast / high).floor();
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
    fn streams_come_back_as_they_are_shown_and_others_are_refused() {
        for s in [Streams { workers: 132, abreast: 3, rest: false }, Streams { workers: 7, abreast: 1, rest: true }] {
            assert_eq!(s.to_string().parse(), Ok(s));
        }
        for wrong in ["", "132", "x", "0x1", "3x4", "132x3q", "r", "1x", "99999x1"] {
            assert!(wrong.parse::<Streams>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn shares_are_those_of_the_tiles_and_steps() {
        // 36 tiles in stacks of 3, 44 worker groups: 12 stacks, 4 worker groups at each of 11 depths.
        let s = Shares::dealt(36, 4608, &Streams { workers: 132, abreast: 3, rest: false });
        assert_eq!((s.rounds, s.dealt, s.depths, s.parts), (0.0, [1257.0, 2.0], [11.0, 4.0, 3.0], [156.0, 36.0]));
        assert!(s.filled > 0.999);
        let rest = Shares::dealt(288, 64, &Streams { workers: 132, abreast: 1, rest: true });
        assert_eq!((rest.rounds, rest.dealt, rest.parts[1]), (2.0, [12.0, 2.0], 24.0));
        let none = Shares::equal(288.0, 64.0, 1.0, 132.0);
        assert!(none.rounds == 3.0 && none.filled < rest.filled);
    }
}
