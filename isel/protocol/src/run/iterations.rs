//! Loops and choices: which way an agent goes.

use super::super::env::Env;
use super::super::site::Site;
use super::super::value::Abs;
use super::checker::Checker;
use super::code::{Arms, FollowedChoice, Loop, What};
use super::fuel::{MOST_STEPS, too_complex};
use super::progress::{Count, End, Frame, State, Step, Task, advance};
use crate::error::ProtocolError;
use crate::find::{any, meets};
use crate::problem::{Many, Problem};
use smallvec::SmallVec;
use tilelift_lane::{For, If, Inst, LVal, While};

/// What is known of the next iteration of a loop.
enum Next {
    /// Whether there is one, and how much has been read of the loop's trip-count class, or of what was to be passed over, to know.
    Known(bool, Option<usize>),
    Open(usize),
}

impl<'a> Checker<'a> {
    /// The end of a block.
    pub(super) fn close(&self, s: &mut State, t: usize) -> Result<Step, ProtocolError> {
        let Some(frame) = s.tasks[t].frames.last() else { return Ok(Step::Ended) };
        match frame.end {
            End::Done => {
                s.tasks[t].frames.pop();
            }
            End::Choice(n, holds) => {
                let task = &mut s.tasks[t];
                task.frames.pop();
                enter(&mut task.env, self.code.choice(n).results.iter().map(|&(r, a, b)| (r, if holds { a } else { b })));
            }
            End::Leave => {
                s.tasks[t].frames.pop();
            }
            End::Either(n, multiply) => {
                self.settled(s, multiply)?;
                let task = &mut s.tasks[t];
                task.frames.pop();
                self.code.choice(n).results.iter().for_each(|r| task.env.set(r.0, None));
            }
            End::Iteration(n, _) => return self.iterate(s, t, n, false),
        }
        Ok(Step::Ran)
    }

    /// An iteration is over and it is not known yet whether there is another one: nothing else of it outlives it.
    fn rest(&self, env: &mut Env, n: usize) {
        let Loop { l, carried, .. } = self.code.counted_loop(n);
        // What is carried is known as it will be where it arrives.
        for (c, _) in carried.iter().filter(|c| c.1) {
            if let (Some(slot), Some(a)) = (env.slot(c.next), env.get(&c.next))
                && self.homes.iteration(l.iv).contains(&slot)
            {
                env.put(slot, self.analysis.carried(c.param, a));
            }
        }
        env.end_iteration_but(l.iv, carried.iter().map(|c| c.0.next).chain([l.iv]));
    }

    /// Goes on to a choice's block.
    pub(super) fn choose(&self, s: &mut State, t: usize, n: usize) -> Result<Step, ProtocolError> {
        let &FollowedChoice { c, arms, does: reads, ref results } = self.code.choice(n);
        if reads == Arms::Amend && self.trip_classes.amends.contains(&std::ptr::from_ref(c).addr()) {
            arms.into_iter().try_for_each(|block| self.amend(s, t, block))?;
            let task = &mut s.tasks[t];
            results.iter().for_each(|r| task.env.set(r.0, None));
            advance(task);
            return Ok(Step::Ran);
        }
        let mut answered = None;
        let holds = if let Some(Abs::All(x)) = s.tasks[t].env.get(&c.condition) {
            let holds = x != 0;
            // A loop that is not begun has had its answer; so has one whose first step stands in front of it.
            if let Some((l, behind)) = self.guards(c)
                && (!holds || behind)
                && self.ends_where(l, true, &s.tasks[t].env).is_none()
            {
                match self.passed(s, t, l) {
                    Some(read) => answered = Some((l, read + 1)),
                    None => return Ok(Step::Open(self.trip_class(t, l))),
                }
            }
            holds
        } else {
            let Some((l, behind)) = self.guards(c) else {
                if matches!(reads, Arms::Read | Arms::Multiply) {
                    let multiply = reads == Arms::Multiply;
                    self.settled(s, multiply)?;
                    let task = &mut s.tasks[t];
                    advance(task);
                    task.frames.extend([arms[1], arms[0]].map(|block| Frame { block, at: 0, end: End::Either(n, multiply) }));
                    return Ok(Step::Ran);
                }
                // How often a loop in it goes round is asked for one way after the other, and so is where warps of the role meet.
                let apart = || [&c.then, &c.otherwise].iter().any(|b| any(b, &|i| matches!(i, Inst::For(_))) || meets(b));
                if reads == Arms::Leave && !(self.choice_class(t, c).is_some() && apart()) {
                    self.may_leave(s, t, arms)?;
                    let task = &mut s.tasks[t];
                    results.iter().for_each(|r| task.env.set(r.0, None));
                    advance(task);
                    return Ok(Step::Ran);
                }
                let Some(class) = self.choice_class(t, c) else {
                    let here = self.here(s, t).unwrap_or(Site(t, std::ptr::null()));
                    return self.error(Problem::Choice, here, None);
                };
                let Some(&holds) = s.answers[class].get(s.tasks[t].read[class]) else { return Ok(Step::Open(class)) };
                s.tasks[t].read[class] += 1;
                let task = &mut s.tasks[t];
                advance(task);
                task.frames.push(Frame { block: arms[usize::from(!holds)], at: 0, end: End::Choice(n, holds) });
                return Ok(Step::Ran);
            };
            match self.next(s, t, l, (true, true), &s.tasks[t].env) {
                Next::Open(trip_class) => return Ok(Step::Open(trip_class)),
                Next::Known(holds, read) => {
                    answered = read.filter(|_| !holds || behind).map(|r| (l, r));
                    holds
                }
            }
        };
        if let Some((l, read)) = answered {
            self.read(s, t, l, holds, read);
        }
        let task = &mut s.tasks[t];
        advance(task);
        task.frames.push(Frame { block: arms[usize::from(!holds)], at: 0, end: End::Choice(n, holds) });
        Ok(Step::Ran)
    }

    /// Where a block that may not be run begins or ends, and it multiplies: a wait in it would count for products that no other way waits for.
    fn settled(&self, s: &State, multiply: bool) -> Result<(), ProtocolError> {
        match if multiply { self.busy_region(&s.shared) } else { None } {
            Some(site) => self.error(Problem::ProductInChoice, site, None),
            None => Ok(()),
        }
    }

    /// Follows both blocks of a choice that let a task's results leave, one after the other: behind each of them no more is known than if it
    /// had not been run, and all is in flight that may be.
    fn may_leave(&self, s: &mut State, t: usize, arms: [usize; 2]) -> Result<(), ProtocolError> {
        arms.into_iter().try_for_each(|block| self.may_do(s, t, block))
    }

    /// Follows what lanes may put in places of what units have brought. Fence and meeting come with it.
    fn amend(&self, s: &mut State, t: usize, block: usize) -> Result<(), ProtocolError> {
        for op in self.code.ops(block) {
            match op.what {
                What::Compute(n) => self.compute_all(n, &mut s.tasks[t].env, t),
                What::Accesses(n) => self.amended(s, t, self.code.accesses(n))?,
                What::Choice(n) => self.code.choice(n).arms.into_iter().try_for_each(|block| self.amend(s, t, block))?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Follows a block that may be run or not.
    fn may_do(&self, s: &mut State, t: usize, block: usize) -> Result<(), ProtocolError> {
        let before = s.shared.before();
        let task = &mut s.tasks[t];
        let depth = task.frames.len();
        task.frames.push(Frame { block, at: 0, end: End::Leave });
        while s.tasks[t].frames.len() > depth {
            if self.fuel.spent() {
                return too_complex(Many::Steps(MOST_STEPS));
            }
            if !matches!(self.step(s, t)?, Step::Ran) {
                let here = self.here(s, t).unwrap_or(Site(t, std::ptr::null()));
                return self.error(Problem::WaitInChoice, here, None);
            }
        }
        self.perhaps(s, t, before);
        Ok(())
    }

    /// Follows a loop without a count in which lanes read and write: two rounds, each of which may not be run. What a round leaves is what the next
    /// one finds, and the second one finds all that any later one may. Of what it carries nothing is known.
    pub(super) fn may_repeat(&self, s: &mut State, t: usize, l: &While, [body, test]: [usize; 2]) -> Result<(), ProtocolError> {
        let task = &mut s.tasks[t];
        advance(task);
        l.carried.iter().flat_map(|c| [c.param, c.result]).for_each(|v| task.env.set(v, None));
        [test, body, test, body, test].into_iter().try_for_each(|block| self.may_do(s, t, block))
    }

    /// Goes round a loop again, or leaves it.
    pub(super) fn iterate(&self, s: &mut State, t: usize, n: usize, first: bool) -> Result<Step, ProtocolError> {
        let &Loop { l, body, ref carried, ref dead, same_in_all_cases, .. } = self.code.counted_loop(n);
        // What an iteration has learnt of what stands in front of the loop says nothing of the next one.
        if !first && s.tasks[t].env.has_learnt() {
            self.rest(&mut s.tasks[t].env, n);
        }
        // The answer first: without it, the agent stops here.
        let again = match self.next(s, t, l, (first, self.is_fresh(l, first)), &s.tasks[t].env) {
            Next::Open(trip_class) => {
                if !first {
                    self.rest(&mut s.tasks[t].env, n);
                }
                return Ok(Step::Open(trip_class));
            }
            Next::Known(again, read) => {
                if first && l.runs && !again {
                    return Ok(Step::Impossible);
                }
                if let Some(read) = read {
                    self.read(s, t, l, again, read);
                }
                again
            }
        };
        if same_in_all_cases && (first || !again) {
            self.left.set(true);
        }
        let task = &mut s.tasks[t];
        let mut passed: SmallVec<[(LVal, Abs); 8]> = SmallVec::new();
        for &(c, counts) in carried {
            let (from, to) = (if first { c.init } else { c.next }, if again { c.param } else { c.result });
            let a = task.env.get(&from).unwrap_or(Abs::Any);
            passed.push((to, if counts && a != Abs::Any { self.analysis.carried(c.param, a) } else { a }));
        }
        let count = if again { self.count(task, l, first) } else { None };
        let index = again.then(|| match count {
            Some(count) => self.counted_index(l, count, &task.env),
            None => self.index(l, first, &task.env),
        });
        let end = if again { None } else { self.end(l, first, &task.env) };
        if first {
            advance(task);
            task.env.enter();
        } else {
            task.frames.pop();
            task.env.end_iteration(l.iv);
        }
        if let Some(index) = index {
            if first {
                dead.iter().for_each(|&slot| task.env.put(slot, Abs::Any));
            }
            passed.into_iter().for_each(|(v, a)| task.env.insert(v, a));
            task.env.insert(l.iv, index);
            task.frames.push(Frame { block: body, at: 0, end: End::Iteration(n, count) });
            self.counted.set(self.counted.get() | count.is_some());
            return Ok(Step::Ran);
        }
        task.env.leave();
        passed.into_iter().for_each(|(v, a)| task.env.insert(v, a));
        // The loop is over: its end is where the index stands.
        if let Some(end) = end {
            task.env.learn(l.hi, end);
            self.again(task, self.agents[t].block);
        }
        Ok(Step::Ran)
    }

    /// Which iteration of a loop comes next, begun or not, if it is known how often it goes round; its last one is the innermost thing that is open.
    fn count(&self, task: &Task, l: &For, first: bool) -> Option<Count> {
        let all = self.trips(l).rounds?;
        match task.frames.last().map(|f| f.end) {
            _ if first => Some(Count { over: 0, all, run: self.runs.replace(self.runs.get() + 1) }),
            Some(End::Iteration(_, Some(count))) => Some(Count { over: count.over + 1, ..count }),
            _ => None,
        }
    }

    /// Takes note of what has been read of a loop's trip-count class.
    fn read(&self, s: &mut State, t: usize, l: &For, again: bool, read: usize) {
        let (trip_class, task) = (self.trip_class(t, l), &mut s.tasks[t]);
        task.read[trip_class] = read;
        task.debt[trip_class] = if again { 0 } else { self.trips(l).skip };
    }

    /// True if nobody has asked yet for the first step that a loop takes.
    fn is_fresh(&self, l: &For, first: bool) -> bool {
        first && !self.trip_classes.behind.contains(&l.iv)
    }

    /// True if an agent lacks an answer to go on with a loop, or to begin it with `first`, and nothing else that it knows would do.
    pub(super) fn asks(&self, s: &State, t: usize, n: usize, first: bool) -> bool {
        let l = self.code.counted_loop(n).l;
        let trips = self.trips(l);
        let by_answers = trips.bounds.is_none() && trips.rounds.is_none() && !trips.splits;
        by_answers && matches!(self.next(s, t, l, (first, self.is_fresh(l, first)), &s.tasks[t].env), Next::Open(_))
    }

    /// Whether a loop goes round (once more); with `first`, whether it begins, and with `fresh` nobody has asked for the first step that it takes.
    fn next(&self, s: &State, t: usize, l: &For, (first, fresh): (bool, bool), env: &Env) -> Next {
        if let Some(known) = self.ends_where(l, first, env) {
            return Next::Known(known, None);
        }
        if let Some(count) = self.count(&s.tasks[t], l, first) {
            return Next::Known(count.over < count.all, None);
        }
        let trip_class = self.trip_class(t, l);
        let Some(at) = self.passed(s, t, l) else { return Next::Open(trip_class) };
        let answers = &s.answers[trip_class];
        // The first step may stand in front of the loop: then its answer has been read.
        let (begin, every) = self.trips(l).strides;
        let reads = if fresh { begin + 1 } else { every };
        for n in at..at + reads {
            match answers.get(n) {
                None => return Next::Open(trip_class),
                Some(false) => return Next::Known(false, Some(n + 1)),
                Some(true) => {}
            }
        }
        Next::Known(true, Some(at + reads))
    }

    /// How much of a loop's trip-count class is read when the runs that it passes over are; `None` if they are not known yet.
    fn passed(&self, s: &State, t: usize, l: &For) -> Option<usize> {
        let trip_class = self.trip_class(t, l);
        let mut at = s.tasks[t].read[trip_class];
        for _ in 0..s.tasks[t].debt[trip_class] {
            at += s.answers[trip_class].iter().skip(at).position(|a| !a)? + 1;
        }
        Some(at)
    }

    /// The same, where bounds say so.
    fn ends_where(&self, l: &For, first: bool, env: &Env) -> Option<bool> {
        let trips = self.trips(l);
        if let Some((lo, hi, step)) = trips.bounds {
            let at = match env.get(&l.iv) {
                _ if first => lo,
                Some(Abs::All(v)) => v + step,
                _ => return None,
            };
            return Some(at < hi);
        }
        if trips.rounds.is_some() && first {
            return Some(true);
        }
        if trips.chosen
            && let (Some(Abs::All(lo)), Some(Abs::All(hi)), Some(Abs::All(step))) = (env.get(&l.lo), env.get(&l.hi), env.get(&l.step))
            && hi - lo <= step
        {
            return Some(first && lo < hi);
        }
        if !trips.splits {
            return None;
        }
        let index = if first { env.get(&l.lo)? } else { self.index(l, false, env) };
        match (index, env.get(&l.hi)?) {
            (Abs::All(v), Abs::All(h)) => Some(v < h),
            (Abs::All(v), Abs::Count(h, _)) if v < h => Some(true),
            // It counts by ones, so that it can't end elsewhere.
            (Abs::All(v) | Abs::Count(v, _), Abs::Count(h, m)) if (v - h) % m != 0 => Some(true),
            _ => None,
        }
    }

    /// The loop whose first step a condition stands for, and whether that step is in front of the loop.
    fn guards(&self, c: &'a If) -> Option<(&'a For, bool)> {
        // `lo < hi` around a loop from lo to hi that runs at least once is the loop's own first answer.
        let whole = |l: &For| l.runs && self.less.get(&c.condition) == Some(&(l.lo, l.hi));
        c.then.iter().find_map(|i| match i {
            Inst::For(l) if whole(l) || self.trip_classes.behind.contains(&l.iv) => {
                self.trip_classes.of.get(&l.iv)?;
                Some((&**l, !l.runs))
            }
            _ => None,
        })
    }
}

/// Assigns values side by side.
fn enter(env: &mut Env, pairs: impl Iterator<Item = (LVal, LVal)>) {
    let values: SmallVec<[(LVal, Option<Abs>); 4]> = pairs.map(|(to, from)| (to, env.get(&from))).collect();
    values.into_iter().for_each(|(to, a)| env.set(to, a));
}
