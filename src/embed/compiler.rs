//! The compiler that an engine keeps.

use super::background::Background;
use super::cache::Cache;
use super::entry::{opened, sealed};
use super::error::{Error, Refusal};
use super::flight::{Flight, FlightEnd};
use super::in_place::in_place;
use super::settings::Settings;
use super::stack::{FLAT, with_room};
use super::stats::{Counters, Stats, count, timed};
use super::store::Store;
use crate::artifact::{Artifact, FORMAT};
use crate::key::Key;
use crate::{Divisors, compile, targets};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tilelift_interp::Arg;
use tilelift_ir::{GridFacts, Kernel, text};
use tilelift_isel::Target;

/// Bytes of artifacts that are kept in memory, unless the builder says otherwise.
const MEMORY: usize = 256 << 20;

/// A compiler for a target, with what it made: `Send + Sync`, one per engine, shared by all its threads. Artifacts come from memory, else from the
/// [store](Store), else of a compile, of which there is one per key at a time, whoever asks. There is no global state: two compilers know nothing of
/// one another, unless they share a store.
///
/// ```
/// use tilelift::Compiler;
///
/// let compiler = Compiler::new("sm_80")?;
/// let source = "kernel @one(v0: view<f32, [?]>) {\n    v1 = splat 1.0 : tile<32xf32>\n    store v0[0], v1\n}\n";
/// let first = compiler.compile_text(source, None)?;
/// let again = compiler.compile_text(source, None)?;
/// assert!(std::sync::Arc::ptr_eq(&first, &again));
/// assert_eq!((compiler.stats().compiles, compiler.stats().memory_hits), (1, 1));
/// # Ok::<(), tilelift::Error>(())
/// ```
#[derive(Debug)]
pub struct Compiler {
    target: Target,
    settings: Settings,
    store: Option<Arc<dyn Store>>,
    /// What is the same in all keys but for the settings, as text.
    identity: String,
    salt: String,
    counters: Counters,
    inner: Mutex<Inner>,
    background: Background,
}

#[derive(Debug)]
struct Inner {
    cache: Cache,
    flights: HashMap<Key, Arc<Flight>>,
}

/// Makes a [`Compiler`].
#[derive(Debug, Clone)]
pub struct CompilerBuilder {
    target: String,
    settings: Settings,
    store: Option<Arc<dyn Store>>,
    memory: usize,
    salt: String,
}

impl CompilerBuilder {
    /// What compiles are told.
    pub fn settings(mut self, settings: Settings) -> CompilerBuilder {
        self.settings = settings;
        self
    }
    /// Where artifacts are kept between processes; nowhere, unless a store is given.
    pub fn store(mut self, store: Arc<dyn Store>) -> CompilerBuilder {
        self.store = Some(store);
        self
    }
    /// Bytes of artifacts that are kept in memory (256 MiB).
    pub fn memory_limit(mut self, bytes: usize) -> CompilerBuilder {
        self.memory = bytes;
        self
    }
    /// A word that becomes part of every key: artifacts with another word are not found. For builds of the compiler that have no version of their
    /// own.
    pub fn salt(mut self, salt: impl Into<String>) -> CompilerBuilder {
        self.salt = salt.into();
        self
    }
    /// The compiler.
    ///
    /// # Errors
    /// [`Error::Target`]: there is no such target.
    pub fn build(self) -> Result<Compiler, Error> {
        let target = targets::by_name(&self.target).filter(targets::has_text).ok_or(Error::Target { name: self.target })?;
        let identity = format!(
            "tilelift {} format {FORMAT} rules {} target {}",
            env!("CARGO_PKG_VERSION"),
            tilelift_egraph::rules::VERSION,
            target.name,
        );
        let inner = Mutex::new(Inner { cache: Cache::new(self.memory), flights: HashMap::new() });
        let (counters, background) = (Counters::default(), Background::default());
        Ok(Compiler { target, settings: self.settings, store: self.store, identity, salt: self.salt, counters, inner, background })
    }
}

impl Compiler {
    /// A compiler for a target, with default settings and no store.
    ///
    /// # Errors
    /// [`Error::Target`]: there is no such target.
    pub fn new(target: &str) -> Result<Compiler, Error> {
        Compiler::builder(target).build()
    }

    /// Says how a compiler for a target is to be.
    pub fn builder(target: &str) -> CompilerBuilder {
        let (settings, salt) = (Settings::default(), String::new());
        CompilerBuilder { target: target.to_owned(), settings, store: None, memory: MEMORY, salt }
    }

    /// Name of its target.
    pub fn target(&self) -> &str {
        self.target.name
    }

    /// What it did so far.
    pub fn stats(&self) -> Stats {
        self.counters.read()
    }

    /// The key of a kernel: of its text as the printer writes it, the target, the settings, and the versions of the compiler and its rules.
    /// A host that keeps keys finds artifacts by [`Compiler::get`] without looking at kernels.
    ///
    /// # Errors
    /// The kernel breaks rules of the language: such a one has no artifact, so no key.
    pub fn key(&self, kernel: &Kernel) -> Result<Key, Error> {
        self.key_with(kernel, &self.settings)
    }

    /// As [`Compiler::key`], of a kernel with settings of its own.
    ///
    /// # Errors
    /// As [`Compiler::key`].
    pub fn key_with(&self, kernel: &Kernel, settings: &Settings) -> Result<Key, Error> {
        // Two texts in one: the lengths keep them apart.
        let identity = format!("{} settings {}", self.identity, settings.text());
        let identity = format!("{} {identity} {}", identity.len(), self.salt);
        let make = || {
            tilelift_ir::verify(kernel).map_err(|e| Error::Refused(Refusal::new(&kernel.name, e.into())))?;
            Ok(Key::of(&[("identity", identity.as_bytes()), ("kernel", text::print(kernel).as_bytes())]))
        };
        if kernel.regions.len() <= FLAT { make() } else { with_room(make)? }
    }

    /// The artifact of a key, if it is in memory or in the store.
    pub fn get(&self, key: &Key) -> Option<Arc<Artifact>> {
        if let Some(found) = self.lock().cache.get(key) {
            count(&self.counters.memory_hits);
            return Some(found);
        }
        let found = Arc::new(self.stored(key)?);
        self.lock().cache.put(*key, found.clone());
        Some(found)
    }

    /// The artifact of a kernel: from memory, from the store, or compiled now, on a stack that is large enough whatever the caller's is. Several
    /// threads that ask for one kernel at a time have one compile; if that is refused, all have its error, with the places of one of their kernels.
    ///
    /// # Errors
    /// The kernel is refused, or the system gives no thread.
    pub fn compile(&self, kernel: &Kernel) -> FlightEnd {
        self.compile_with(kernel, &self.settings)
    }

    /// As [`Compiler::compile`], with settings of the kernel's own in the place of the compiler's: those that a plan says, for instance.
    ///
    /// # Errors
    /// As [`Compiler::compile`].
    pub fn compile_with(&self, kernel: &Kernel, settings: &Settings) -> FlightEnd {
        let key = self.key_with(kernel, settings)?;
        self.find(key, |compiler| with_room(|| compiler.make(key, kernel, settings))?)
    }

    /// As [`Compiler::compile`], for what a launch's arguments are multiples of, beyond what the kernel says ([`Divisors`]): a text that copies rows of
    /// `view<bf16, [?, ?]>` by units if all rows are multiples of 16 bytes. Another launch may have it if its arguments keep these facts, which it checks;
    /// launches of equal facts have one artifact.
    ///
    /// # Errors
    /// As [`Compiler::compile`].
    pub fn compile_for(&self, kernel: &Kernel, args: &[Arg]) -> FlightEnd {
        let divisors = Divisors::of(kernel, args);
        if divisors.is_empty() { self.compile(kernel) } else { self.compile(&divisors.apply(kernel)) }
    }

    /// As [`Compiler::compile_for`], and for the launch's grid: an instance may stand for several neighbouring positions, where the grid has enough of them.
    /// Another launch may have the artifact if its grid has the same facts ([`GridFacts`]); those that the text asks are checked.
    ///
    /// # Errors
    /// As [`Compiler::compile`].
    pub fn compile_for_launch(&self, kernel: &Kernel, grid: [u32; 3], args: &[Arg]) -> FlightEnd {
        let divisors = Divisors::of(kernel, args);
        let settings = self.settings.clone().grid(GridFacts::of(grid));
        if divisors.is_empty() { self.compile_with(kernel, &settings) } else { self.compile_with(&divisors.apply(kernel), &settings) }
    }

    /// As [`Compiler::compile`], of a text: of its kernel of that name, or of the only one that it has.
    ///
    /// # Errors
    /// As [`Compiler::compile`], or the text is wrong, or has no such kernel.
    pub fn compile_text(&self, source: &str, name: Option<&str>) -> FlightEnd {
        self.compile_text_with(source, name, &self.settings)
    }

    /// As [`Compiler::compile_text`], with settings of the kernel's own in the place of the compiler's.
    ///
    /// # Errors
    /// As [`Compiler::compile_text`].
    pub fn compile_text_with(&self, source: &str, name: Option<&str>, settings: &Settings) -> FlightEnd {
        let kernel = with_room(|| {
            let mut file = text::parse(source).map_err(Error::Text)?;
            let found = match name {
                Some(name) => file.kernels.iter().position(|k| k.name == name),
                None => (file.kernels.len() == 1).then_some(0),
            };
            let found = found.ok_or_else(|| Error::NoKernel {
                name: name.map(str::to_owned),
                found: file.kernels.iter().map(|k| k.name.clone()).collect(),
            })?;
            Ok(file.kernels.swap_remove(found))
        })??;
        self.compile_with(&kernel, settings)
    }

    /// Waits until what is made in the background is made: machine code that a driver makes for the store. For tests, and before a process ends.
    pub fn wait_for_background(&self) {
        self.background.wait();
    }

    /// Forgets what is in memory; the store keeps what it has.
    pub fn clear_memory(&self) {
        self.lock().cache.clear();
    }

    /// What `compile` tells the stages: settings of one kernel begin with a clone of these.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The artifact of a key, made if nobody has it or is making it.
    pub(super) fn find(&self, key: Key, make: impl FnOnce(&Compiler) -> FlightEnd) -> FlightEnd {
        let flight = {
            let mut inner = self.lock();
            if let Some(found) = inner.cache.get(&key) {
                count(&self.counters.memory_hits);
                return Ok(found);
            }
            match inner.flights.get(&key).cloned() {
                Some(flight) => {
                    drop(inner);
                    count(&self.counters.shared);
                    return flight.wait();
                }
                None => inner.flights.entry(key).or_default().clone(),
            }
        };
        // Whatever happens, those who wait are told.
        let mut landing = Landing { compiler: self, key, flight, made: None };
        let made = match self.stored(&key) {
            Some(found) => Ok(Arc::new(found)),
            None => {
                count(&self.counters.misses);
                let made = make(self);
                count(if made.is_ok() { &self.counters.compiles } else { &self.counters.failures });
                if let Ok(artifact) = &made {
                    landing.made = Some(Ok(artifact.clone()));
                    drop(landing);
                    self.keep(&key, artifact);
                    return made;
                }
                made
            }
        };
        landing.made = Some(made.clone());
        made
    }

    /// Compiles. The calling thread's stack should be a large one.
    pub(super) fn make(&self, key: Key, kernel: &Kernel, settings: &Settings) -> FlightEnd {
        let kernel = &*in_place(kernel, settings.places())?;
        #[cfg(feature = "tracing")]
        let _span =
            tracing::info_span!(target: "tilelift", "tilelift.compile", kernel = %kernel.name, target = self.target.name, key = %key)
                .entered();
        let made = timed(&self.counters.compile_time, || compile::compile(kernel, &self.target, settings.options()));
        let mut artifact = made.map_err(|e| Error::Refused(Refusal::new(&kernel.name, e)))?;
        artifact.key = Some(key);
        artifact.together = settings.together().to_vec();
        artifact.in_place = settings.places().to_vec();
        log::debug!(target: "tilelift", "compiled @{} for {}: {key}", artifact.name, artifact.target);
        Ok(Arc::new(artifact))
    }

    /// What the store has of a key. Whatever is wrong with it, it is taken for missing.
    fn stored(&self, key: &Key) -> Option<Artifact> {
        let contents = self.load(key)?;
        let artifact = Artifact::from_bytes(&contents).ok();
        // The sum was right, so somebody wrote other contents than this version would.
        let artifact = artifact.filter(|a| a.key == Some(*key) && a.target == self.target.name);
        match artifact {
            Some(_) => count(&self.counters.store_hits),
            None => self.discard(key),
        }
        artifact
    }

    /// The contents of an entry of the store, if it is whole.
    pub(crate) fn load(&self, key: &Key) -> Option<Vec<u8>> {
        let store = self.store.as_ref()?;
        let entry = timed(&self.counters.store_time, || store.load(key))?;
        let contents = opened(key, &entry).map(<[u8]>::to_vec);
        if contents.is_none() {
            self.discard(key);
        }
        contents
    }

    /// Forgets an entry of the store that is of no use.
    pub(crate) fn discard(&self, key: &Key) {
        log::debug!(target: "tilelift", "the store's entry of {key} is damaged, or of another version; it is made anew");
        count(&self.counters.discarded);
        if let Some(store) = &self.store {
            store.remove(key);
        }
    }

    fn keep(&self, key: &Key, artifact: &Artifact) {
        if self.store.is_some() {
            self.save(key, &artifact.to_bytes());
        }
    }

    /// Keeps contents in the store, if there is one and it takes them.
    pub(crate) fn save(&self, key: &Key, contents: &[u8]) {
        let Some(store) = &self.store else { return };
        if let Err(e) = timed(&self.counters.store_time, || store.save(key, &sealed(key, contents))) {
            log::debug!(target: "tilelift", "the store does not keep {key}: {e}");
            count(&self.counters.store_errors);
        }
    }
}

/// What devices need.
#[cfg(feature = "cuda")]
impl Compiler {
    pub(crate) fn has_store(&self) -> bool {
        self.store.is_some()
    }
    pub(crate) fn count_driver_hit(&self) {
        count(&self.counters.driver_hits);
    }
    /// Counts and times a text that a driver assembles.
    pub(crate) fn time_driver<T>(&self, work: impl FnOnce() -> T) -> T {
        count(&self.counters.driver_jits);
        timed(&self.counters.driver_time, work)
    }
    /// Has a job of a key done by a thread of the background.
    pub(crate) fn in_background(&self, key: Key, job: impl FnOnce() + Send + 'static) {
        self.background.put(key, job);
    }
}

/// Ends a flight, also where its thread unwinds.
struct Landing<'c> {
    compiler: &'c Compiler,
    key: Key,
    flight: Arc<Flight>,
    made: Option<FlightEnd>,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        let unwound = || Err(Error::Internal { message: "the thread that compiled it ended".to_owned() });
        let made = self.made.take().unwrap_or_else(unwound);
        {
            let mut inner = self.compiler.lock();
            if let Ok(artifact) = &made {
                inner.cache.put(self.key, artifact.clone());
            }
            inner.flights.remove(&self.key);
        }
        self.flight.land(made);
    }
}

/// Shared by all threads of an engine.
const _: () = {
    const fn shared<T: Send + Sync + 'static>() {}
    shared::<Compiler>();
    shared::<CompilerBuilder>();
    shared::<Settings>();
    shared::<Artifact>();
    shared::<Error>();
    shared::<Key>();
};
