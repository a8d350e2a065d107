//! How far every agent of all blocks is, and what they share.

use crate::env::Env;
use crate::state::shared::Shared;
use crate::value::Abs;
use std::collections::VecDeque;
use tilelift_lane::Place;

#[derive(Clone, Copy)]
pub(crate) enum End {
    Done,
    /// Of a loop's block, by the loop's number.
    Iteration(usize, Option<Count>),
    Choice(usize, bool),
    /// Of a choice of which nothing is known both blocks are followed: they do no more than read, or, where nobody meets anybody, multiply.
    Either(usize, bool),
    /// Of a block that lets results leave, if it is run.
    Leave,
}

/// Which iteration it is of a loop that is known to go round so often.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Count {
    /// Iterations that are over.
    pub over: i64,
    /// How often the loop goes round.
    pub all: i64,
    /// Tells one run of the loop from others.
    pub run: u64,
}

impl Count {
    /// The iterations that are over, where only whether there are any, and what they leave modulo a number, counts.
    pub fn that_counts(self, modulus: i64) -> i64 {
        if self.over == 0 { 0 } else { (self.over - 1) % modulus + 1 }
    }
}

#[derive(Clone)]
pub(crate) struct Frame {
    /// The block's number, and the next instruction of it.
    pub block: usize,
    pub at: usize,
    pub(super) end: End,
}

/// What an agent is up to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Life {
    /// Its warps still go with all others of the block.
    Asleep,
    Awake,
    Done,
}

pub(crate) struct Task {
    pub frames: Vec<Frame>,
    pub env: Env,
    /// Position in each trip-count class.
    pub(super) read: Vec<usize>,
    /// Runs of loops, per trip-count class, that are still to be passed over.
    pub(super) debt: Vec<usize>,
    /// The round of the named barrier at which it waits.
    pub joined: Option<bool>,
    /// The round of the cluster's barrier to which it has come, if it has not waited since.
    pub met: Option<bool>,
    pub life: Life,
}

pub(crate) struct State {
    pub tasks: Vec<Task>,
    /// What tasks with local memory, and blocks, share.
    pub shared: Shared,
    /// Answers per trip-count class that some agent has yet to read; true goes round again.
    pub(super) answers: Vec<VecDeque<bool>>,
    /// No case is assumed yet of the end that is assumed late: how many iterations of its loop have been answered.
    pub(super) undecided: Option<usize>,
}

impl Clone for State {
    fn clone(&self) -> Self {
        let State { tasks, shared, answers, undecided } = self;
        State { tasks: tasks.clone(), shared: shared.clone(), answers: answers.clone(), undecided: *undecided }
    }

    // States are large, and come and go.
    fn clone_from(&mut self, other: &Self) {
        let State { tasks, shared, answers, undecided } = self;
        *undecided = other.undecided;
        tasks.clone_from(&other.tasks);
        shared.clone_from(&other.shared);
        answers.clone_from(&other.answers);
    }
}

impl Clone for Task {
    fn clone(&self) -> Self {
        Task { frames: self.frames.clone(), env: self.env.clone(), read: self.read.clone(), debt: self.debt.clone(), ..*self }
    }

    fn clone_from(&mut self, other: &Self) {
        let Task { frames, env, read, debt, joined, met, life } = self;
        frames.clone_from(&other.frames);
        env.clone_from(&other.env);
        read.clone_from(&other.read);
        debt.clone_from(&other.debt);
        (*joined, *met, *life) = (other.joined, other.met, other.life);
    }
}

/// How far an agent got.
pub(super) enum Step {
    Ran,
    Waits,
    /// It needs an answer that is not there.
    Open(usize),
    /// It needs the case of a loop's end that is not assumed yet.
    Undecided,
    /// The answers contradict what the program promises.
    Impossible,
    Ended,
}

/// The address of a place, if it is one and known.
pub(crate) fn place(env: &Env, p: &Place) -> Option<i64> {
    match env.get(&p.addr) {
        Some(Abs::All(x)) => Some(x + i64::from(p.offset)),
        Some(Abs::Any | Abs::Lanes(_) | Abs::Index(..) | Abs::Count(..)) | None => None,
    }
}

pub(super) fn advance(task: &mut Task) {
    if let Some(f) = task.frames.last_mut() {
        f.at += 1;
    }
}
