//! Warm-up: many kernels on several threads.

use super::compiler::Compiler;
use super::error::Error;
use super::flight::FlightEnd;
use super::request::Request;
use super::stack::{STACK, said};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;

impl Compiler {
    /// The artifacts of many kernels, in their order, loaded and compiled on so many threads (0: as many as the machine has). For warm-up: what a model
    /// needs is there before the first token. Kernels stand for requests with the compiler's settings: `compile_many(&kernels, 0)`.
    pub fn compile_many<'k, R: Into<Request<'k>>>(&self, requests: impl IntoIterator<Item = R>, threads: usize) -> Vec<FlightEnd> {
        let requests: Vec<Request<'k>> = requests.into_iter().map(Into::into).collect();
        self.make_many(&requests, threads)
    }

    fn make_many(&self, requests: &[Request<'_>], threads: usize) -> Vec<FlightEnd> {
        let threads = if threads == 0 { thread::available_parallelism().map_or(1, usize::from) } else { threads };
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(requests.len())));
        let work = || {
            loop {
                let n = next.fetch_add(1, Relaxed);
                let Some(request) = requests.get(n) else { break };
                let made = catch_unwind(AssertUnwindSafe(|| {
                    let (kernel, settings) = (request.kernel(), request.settings_or(self.settings()));
                    let key = self.key_with(kernel, settings)?;
                    self.find(key, |compiler| compiler.make(key, kernel, settings))
                }));
                let made = made.unwrap_or_else(|panic| Err(Error::Internal { message: said(&*panic) }));
                done.lock().unwrap_or_else(PoisonError::into_inner).push((n, made));
            }
        };
        thread::scope(|scope| {
            for n in 0..threads.min(requests.len()) {
                let builder = thread::Builder::new().name(format!("tilelift {n}")).stack_size(STACK);
                // Fewer threads do the same work.
                if builder.spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
        });
        let mut made: Vec<Option<FlightEnd>> = vec![None; requests.len()];
        for (n, one) in done.into_inner().unwrap_or_else(PoisonError::into_inner) {
            made[n] = Some(one);
        }
        // What no thread did: there was none. A thread may be had by now.
        let now = |r: &Request<'_>| self.compile_with(r.kernel(), r.settings_or(self.settings()));
        made.into_iter().zip(requests).map(|(made, request)| made.unwrap_or_else(|| now(request))).collect()
    }
}
