//! Counters.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

macro_rules! counters {
    (counts { $($(#[$doc:meta])* $name:ident;)* } times { $($(#[$tdoc:meta])* $time:ident;)* }) => {
        /// What a compiler did since it was made: a copy of its counters. Asking costs nothing and stops nobody.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        #[non_exhaustive]
        pub struct Stats { $($(#[$doc])* pub $name: u64,)* $($(#[$tdoc])* pub $time: Duration,)* }

        /// The counters themselves; times in nanoseconds.
        #[derive(Default, Debug)]
        pub(super) struct Counters { $(pub(super) $name: AtomicU64,)* $(pub(super) $time: AtomicU64,)* }

        impl Counters {
            pub(super) fn read(&self) -> Stats {
                Stats { $($name: self.$name.load(Relaxed),)* $($time: Duration::from_nanos(self.$time.load(Relaxed)),)* }
            }
        }
    };
}

counters! {
    counts {
    /// Artifacts that were in memory.
    memory_hits;
    /// Artifacts that the store had.
    store_hits;
    /// Artifacts that another thread was making, and that were waited for.
    shared;
    /// Artifacts that neither memory nor the store had.
    misses;
    /// Compiles that made an artifact.
    compiles;
    /// Compiles that were refused or failed.
    failures;
    /// Entries of the store that were damaged, of another version or another key: they were taken for missing.
    discarded;
    /// Writes that the store refused; the artifact was returned none the less.
    store_errors;
    /// Texts that a driver assembled.
    driver_jits;
    /// Machine code that a driver had made earlier.
    driver_hits;
    }
    times {
    /// Time in compiles, summed over threads.
    compile_time;
    /// Time in the store, summed over threads.
    store_time;
    /// Time in the driver's assembler, summed over threads.
    driver_time;
    }
}

/// Counts one.
pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// Adds what a piece of work takes.
pub(super) fn timed<T>(counter: &AtomicU64, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let made = work();
    counter.fetch_add(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX), Relaxed);
    made
}
