//! Work that nobody waits for: one thread at a time does it, and ends when there is no more.

use crate::key::Key;
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// Jobs by key: one of a key at a time.
#[derive(Default, Clone)]
pub(super) struct Background(Arc<Queue>);

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    idle: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<(Key, Job)>,
    /// Those that wait or run.
    keys: HashSet<Key>,
    running: bool,
}

impl fmt::Debug for Background {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} jobs", self.0.state.lock().unwrap_or_else(PoisonError::into_inner).keys.len())
    }
}

impl Background {
    /// Has a job done, unless one of its key waits or runs. Where the system gives no thread, it is not done: nobody relies on it.
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))] // devices have the jobs
    pub(super) fn put(&self, key: Key, job: impl FnOnce() + Send + 'static) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        if !state.keys.insert(key) {
            return;
        }
        state.jobs.push_back((key, Box::new(job)));
        if !state.running {
            let queue = self.0.clone();
            state.running = thread::Builder::new().name("tilelift background".to_owned()).spawn(move || queue.work()).is_ok();
            if !state.running {
                state.jobs.clear();
                state.keys.clear();
            }
        }
    }

    /// Waits until there is no more to do.
    pub(super) fn wait(&self) {
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.running {
            state = self.0.idle.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Queue {
    #[cfg_attr(not(feature = "cuda"), allow(dead_code))]
    fn work(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((key, job)) = state.jobs.pop_front() {
            drop(state);
            // A job that panics is not done.
            let _ = catch_unwind(AssertUnwindSafe(job));
            state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.keys.remove(&key);
        }
        state.running = false;
        self.idle.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use std::sync::mpsc;

    #[test]
    fn jobs_are_done_once_a_key_and_a_panic_stops_none() {
        let (background, done) = (Background::default(), Arc::new(AtomicU32::new(0)));
        background.wait();
        let (go, gate) = mpsc::channel::<()>();
        background.put(Key::from_bytes([0; 32]), move || gate.recv().unwrap_or_default());
        for n in [1, 1, 2, 3, 2] {
            let done = done.clone();
            background.put(Key::from_bytes([n; 32]), move || {
                done.fetch_add(1, Relaxed);
                assert!(n != 2, "planted");
            });
        }
        assert_eq!(format!("{background:?}"), "4 jobs");
        drop(go);
        background.wait();
        assert_eq!(done.load(Relaxed), 3);
        // Another thread, when there is more.
        let again = done.clone();
        background.put(Key::from_bytes([1; 32]), move || {
            again.fetch_add(1, Relaxed);
        });
        background.wait();
        assert_eq!(done.load(Relaxed), 4);
    }
}
