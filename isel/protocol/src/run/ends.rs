//! Where roles end, or wait for ever; and what a loop's end says of its bounds.

use super::super::env::Env;
use super::super::site::Site;
use super::super::value::Abs;
use super::checker::Checker;
use super::code::What;
use super::progress::{Count, Life, State, Task, place};
use crate::error::{ProtocolError, Spot};
use crate::problem::Problem;
use tilelift_lane::{For, Inst, Unit};

impl<'a> Checker<'a> {
    /// The instruction at which an agent stands.
    pub(in super::super) fn here(&self, s: &State, t: usize) -> Option<Site> {
        let frame = s.tasks.get(t)?.frames.last()?;
        Some(Site(t, self.code.ops(frame.block).get(frame.at)?.inst))
    }

    /// The mbarrier that an agent waits for.
    fn waits_for(&self, s: &State, t: usize) -> Option<(i64, Site)> {
        let frame = s.tasks[t].frames.last()?;
        let op = self.code.ops(frame.block).get(frame.at)?;
        match op.what {
            What::Unit(Unit::Wait { barrier, .. }) => Some((place(&s.tasks[t].env, barrier)?, Site(t, op.inst))),
            _ => None,
        }
    }

    /// Bytes that an arrival expects.
    fn expects(&self, site: Site) -> Option<u32> {
        let Spot::Inst { inst, .. } = *self.spot(site) else { return None };
        match *inst {
            Inst::Unit(u) => {
                if let Unit::ArriveExpect { bytes, .. } = *u {
                    Some(bytes)
                } else {
                    None
                }
            }
            _ => None,
        }
    }

    pub(super) fn deadlock<T>(&self, s: &State) -> Result<T, ProtocolError> {
        let awake = |t: &usize| s.tasks[*t].life == Life::Awake;
        let waiting: Vec<(usize, (i64, Site))> =
            (0..s.tasks.len()).filter(awake).filter_map(|t| Some((t, self.waits_for(s, t)?))).collect();
        let Some(&(t, (at, here))) = waiting.first() else {
            let stuck = (0..s.tasks.len()).filter(awake).find_map(|t| Some((t, self.here(s, t)?)));
            return match stuck {
                Some((t, site)) if s.tasks[t].joined.is_some() => self.error(Problem::NamedForEver, site, None),
                Some((t, site)) if s.tasks[t].met.is_some() => self.error(Problem::ClusterForEver, site, None),
                _ => Err(ProtocolError { problem: Problem::NobodyGoesOn, here: Spot::program("the program"), other: None }),
            };
        };
        let (pending, bytes, last, single) = self.lacks(s, t, at);
        let expected = last.filter(|_| single).and_then(|site| self.expects(site));
        let other = last.or(waiting.get(1).map(|x| x.1.1));
        self.error(Problem::ForEver { pending, bytes, expected }, here, other)
    }

    /// Computes again what stands in front of here, now that more is known.
    pub(super) fn again(&self, task: &mut Task, block: usize) {
        let open = task.frames.iter().flat_map(|f| self.code.ops(f.block).iter().take(f.at));
        let insts = self.code.ops(self.front).iter().chain(open).flat_map(|op| match op.what {
            What::Compute(n) => &self.code.group(n).insts[..],
            _ => &[],
        });
        for inst in insts {
            if let Inst::Bin { dst, .. } | Inst::Cmp { dst, .. } | Inst::Select { dst, .. } = inst
                && task.env.get(dst).is_none()
                && let Some((v, a)) = self.made(inst, &task.env, (0, 1, 0, block))
            {
                task.env.learn(v, a);
            }
        }
    }

    /// The end of a loop that has ended, if its steps are counted one by one and it is known not to lie in front of its beginning.
    pub(super) fn end(&self, l: &For, first: bool, made: &Env) -> Option<Abs> {
        let (Some(Abs::All(0)), Some(Abs::All(1))) = (made.get(&l.lo), made.get(&l.step)) else { return None };
        let trips = self.trips(l);
        let decided = trips.splits || trips.bounds.is_some();
        if decided || self.analysis.modulus <= 1 || !self.relevant.contains(l.hi) || matches!(made.get(&l.hi), Some(Abs::All(_))) {
            return None;
        }
        match made.get(&l.iv) {
            _ if first => self.analysis.natural.contains(&l.hi).then_some(Abs::All(0)),
            Some(Abs::All(v)) => Some(self.analysis.counted(Abs::All(v + 1))),
            Some(Abs::Count(v, m)) => Some(self.analysis.counted(Abs::Count(v + 1, m))),
            _ => None,
        }
    }

    /// The index of an iteration of a loop that is known to go round so often: the number of the first one, and what counts of the others.
    pub(super) fn counted_index(&self, l: &For, count: Count, made: &Env) -> Abs {
        let counts = self.analysis.modulus.max(1);
        match (made.get(&l.lo), made.get(&l.step)) {
            (Some(Abs::All(lo)), Some(Abs::All(_))) if count.over == 0 => Abs::All(lo),
            (Some(Abs::All(lo)), Some(Abs::All(step))) if lo >= 0 => Abs::Count(lo + count.that_counts(counts) * step, counts * step),
            _ => Abs::Index(l.lo, count.over == 0),
        }
    }

    /// The index of a loop's step: a number that counts, where that is asked for and the first one is known.
    pub(super) fn index(&self, l: &For, first: bool, made: &Env) -> Abs {
        let (Some(Abs::All(lo)), Some(Abs::All(step))) = (made.get(&l.lo), made.get(&l.step)) else { return Abs::Index(l.lo, first) };
        if let Some((lo, _, step)) = self.trips(l).bounds {
            return match made.get(&l.iv) {
                Some(Abs::All(v)) if !first => Abs::All(v + step),
                _ => Abs::All(lo),
            };
        }
        if self.analysis.modulus <= 1 || lo < 0 || step <= 0 {
            return Abs::Index(l.lo, first);
        }
        match made.get(&l.iv) {
            _ if first => Abs::All(lo),
            Some(Abs::All(v)) => self.analysis.counted(Abs::All(v + step)),
            Some(Abs::Count(v, m)) => self.analysis.counted(Abs::Count(v + step, m)),
            _ => Abs::Index(l.lo, first),
        }
    }
}
