//! Long tests on all processors.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Applies a function to every item, in as many threads as there are processors; results in the order of the items. A panic goes on.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut mine = Vec::new();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(n) else { return mine };
            mine.push((n, f(item)));
        }
    };
    let mut all: Vec<(usize, R)> = std::thread::scope(|s| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(items.len());
        let threads: Vec<_> = (0..threads).map(|_| s.spawn(work)).collect();
        let join = |t: std::thread::ScopedJoinHandle<'_, _>| t.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        threads.into_iter().flat_map(join).collect()
    });
    all.sort_unstable_by_key(|x| x.0);
    all.into_iter().map(|x| x.1).collect()
}
