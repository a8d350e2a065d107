//! How far a long command is: a line on standard error that is drawn over, where that is a terminal; elsewhere nothing.

use super::outcome::Streams;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The line: a bar, how many of how many, the time that it took and takes, what is being done.
const LINE: &str = "{bar:24} {pos}/{len}, {elapsed}, {eta} left  {wide_msg}";

/// A command's progress.
pub(super) struct Progress(Option<ProgressBar>);

impl Progress {
    /// Of so many steps.
    pub(super) fn of(steps: usize, streams: &Streams<'_>) -> Progress {
        let style = ProgressStyle::with_template(LINE).ok().filter(|_| streams.terminal && steps > 1);
        Progress(style.map(|style| ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::stderr()).with_style(style)))
    }

    /// A step begins.
    pub(super) fn begins(&self, what: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(what.to_owned());
            bar.tick();
        }
    }

    /// A step is done.
    pub(super) fn done(&self) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
        }
    }

    /// Writes something while the line is away.
    pub(super) fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.0 {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
