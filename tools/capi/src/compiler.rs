//! The compiler as C sees it.

use crate::artifact::TileliftArtifact;
use crate::borrowed::{bytes, list, made, string};
use crate::error::TileliftError;
use std::collections::BTreeMap;
use std::ffi::c_char;
use std::mem::{MaybeUninit, offset_of};
use std::sync::Arc;
use tilelift::{Compiler, DirectoryStore, OptLevel, Settings};

/// A compiler.
pub struct TileliftCompiler(Compiler);

/// What a compiler is told; `tilelift_options` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TileliftOptions {
    /// Bytes of the structure as the caller knows it.
    pub size: usize,
    /// 0: the default, else the level and 1.
    pub opt_level: u32,
    /// Warps.
    pub warps: u32,
    /// Stages.
    pub stages: u32,
    /// Newest PTX version: 804 is 8.4.
    pub max_ptx_version: u32,
    /// Least blocks of a multiprocessor.
    pub min_blocks: u32,
    /// Most registers of a lane.
    pub max_registers: u32,
    /// Folder of the cache.
    pub cache_folder: *const c_char,
    /// Bytes that it may take.
    pub cache_bytes: u64,
    /// Warpgroups that multiply.
    pub consumers: u32,
    /// Sets of them.
    pub consumer_sets: u32,
    /// Outputs in the place of inputs.
    pub in_place: *const TileliftInPlace,
    /// How many.
    pub in_place_count: usize,
    /// Extents that belong together.
    pub same_extent: *const TileliftSameExtent,
    /// How many.
    pub same_extent_count: usize,
    /// Whether the compiler's schedules are proved.
    pub prove_schedules: u32,
}

/// Bytes of the structure as the first headers had it.
const FIRST_SIZE: usize = offset_of!(TileliftOptions, consumers);

/// An output that is written in the place of an input; `tilelift_in_place` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TileliftInPlace {
    /// Argument that is written.
    pub output: u32,
    /// Argument that it takes the place of.
    pub input: u32,
}

/// An extent of a group whose extents are equal; `tilelift_same_extent` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TileliftSameExtent {
    /// Number of the group.
    pub group: u32,
    /// A view.
    pub argument: u32,
    /// A dimension of it.
    pub dim: u32,
}

/// What a compiler did so far; `tilelift_stats` of the header.
#[repr(C)]
#[derive(Clone, Copy, Default)]
#[allow(missing_docs)] // the names are those of `tilelift::Stats`, which says what they are
pub struct TileliftStats {
    pub memory_hits: u64,
    pub store_hits: u64,
    pub shared: u64,
    pub misses: u64,
    pub compiles: u64,
    pub failures: u64,
    pub discarded: u64,
    pub store_errors: u64,
    pub compile_time: u64,
    pub store_time: u64,
}

impl TileliftOptions {
    /// The options of a caller, whose structure may be an older or a newer one; none for null.
    ///
    /// # Safety
    /// `options` is null or leads to as many bytes as its size says.
    unsafe fn read(options: *const TileliftOptions) -> Result<Option<TileliftOptions>, TileliftError> {
        if options.is_null() {
            return Ok(None);
        }
        // SAFETY: the size is the first field, and stands in front of all that it speaks of.
        let size = unsafe { (&raw const (*options).size).read() };
        if size < FIRST_SIZE {
            let message = format!("tilelift_options has {size} bytes, {FIRST_SIZE} are needed");
            return Err(TileliftError::new("C0302", &message, "set `size` to sizeof(tilelift_options), and zero the rest"));
        }
        // What an older caller does not know is left at its default, what a newer one knows besides is not read.
        let mut made = MaybeUninit::<TileliftOptions>::zeroed();
        // SAFETY: both lie apart, and have as many bytes. All fields are numbers and raw pointers, of which zeros are values.
        Ok(Some(unsafe {
            std::ptr::copy_nonoverlapping(options.cast::<u8>(), made.as_mut_ptr().cast(), size.min(size_of::<TileliftOptions>()));
            made.assume_init()
        }))
    }

    /// # Safety
    /// The lists lead to as many entries as is said.
    unsafe fn lists(&self, mut s: Settings) -> Result<Settings, TileliftError> {
        // SAFETY: the caller vouches for them; here and below.
        for p in unsafe { list(self.in_place, self.in_place_count, "in_place") }? {
            s = s.in_place(p.output, p.input);
        }
        let mut groups: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
        for e in unsafe { list(self.same_extent, self.same_extent_count, "same_extent") }? {
            groups.entry(e.group).or_default().push((e.argument, e.dim));
        }
        Ok(groups.values().fold(s, |s, group| s.same_extent(group)))
    }

    fn settings(&self) -> Result<Settings, TileliftError> {
        let given = |n: u32| (n > 0).then_some(n);
        let mut s = Settings::new();
        if let Some(n) = given(self.opt_level) {
            let level = OptLevel::from_number(n as usize - 1);
            s = s.opt_level(level.ok_or_else(|| {
                TileliftError::new("C0302", &format!("there is no optimisation level {n}"), "use 0 (the default) or 1 to 3")
            })?);
        }
        if let Some(n) = given(self.warps) {
            s = s.warps(n);
        }
        if let Some(n) = given(self.stages) {
            s = s.stages(n);
        }
        if let Some(n) = given(self.max_ptx_version) {
            let part =
                |n: u32| u8::try_from(n).map_err(|_| TileliftError::new("C0302", "there is no such PTX version", "804 is version 8.4"));
            s = s.max_ptx_version(part(n / 100)?, part(n % 100)?);
        }
        if let Some(n) = given(self.min_blocks) {
            s = s.min_blocks(n);
        }
        if let Some(n) = given(self.max_registers) {
            s = s.max_registers(n);
        }
        s = s.consumers(given(self.consumers)).consumer_sets(given(self.consumer_sets));
        Ok(s.prove_schedules(self.prove_schedules > 0))
    }
}

/// A compiler for a target.
///
/// # Safety
/// `target` ends with a zero byte, `options` is null or leads to what the header says, `error` is null or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_compiler_new(
    target: *const c_char,
    options: *const TileliftOptions,
    error: *mut *mut TileliftError,
) -> *mut TileliftCompiler {
    let make = || {
        // SAFETY: the caller vouches for it.
        let target = unsafe { string(target, "target") }?.ok_or_else(|| TileliftError::argument("target"))?;
        let mut builder = Compiler::builder(target);
        // SAFETY: the caller vouches for it; here and below.
        if let Some(options) = unsafe { TileliftOptions::read(options) }? {
            builder = builder.settings(unsafe { options.lists(options.settings()?) }?);
            if let Some(folder) = unsafe { string(options.cache_folder, "cache_folder") }? {
                let store = DirectoryStore::new(folder);
                let store = if options.cache_bytes > 0 { store.limit(options.cache_bytes) } else { store };
                builder = builder.store(Arc::new(store));
            }
        }
        Ok(TileliftCompiler(builder.build()?))
    };
    // SAFETY: the caller vouches for it.
    unsafe { made(error, make) }
}

/// Frees it.
///
/// # Safety
/// `compiler` is null, or a compiler that nobody uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_compiler_free(compiler: *mut TileliftCompiler) {
    if !compiler.is_null() {
        // SAFETY: it was made by `Box::into_raw`, and the caller gives it back once.
        drop(unsafe { Box::from_raw(compiler) });
    }
}

/// What it did so far; zeros for null.
///
/// # Safety
/// `compiler` is null, or a compiler that is not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_compiler_stats(compiler: *const TileliftCompiler) -> TileliftStats {
    // SAFETY: the caller vouches for it.
    let Some(compiler) = (unsafe { compiler.as_ref() }) else { return TileliftStats::default() };
    let s = compiler.0.stats();
    let nanos = |d: std::time::Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
    TileliftStats {
        memory_hits: s.memory_hits,
        store_hits: s.store_hits,
        shared: s.shared,
        misses: s.misses,
        compiles: s.compiles,
        failures: s.failures,
        discarded: s.discarded,
        store_errors: s.store_errors,
        compile_time: nanos(s.compile_time),
        store_time: nanos(s.store_time),
    }
}

/// Compiles a kernel of a text.
///
/// # Safety
/// `compiler` is not freed yet, `text` leads to `len` bytes, `kernel` is null or ends with a zero byte, `error` is null or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_compile(
    compiler: *const TileliftCompiler,
    text: *const c_char,
    len: usize,
    kernel: *const c_char,
    error: *mut *mut TileliftError,
) -> *mut TileliftArtifact {
    // SAFETY: the caller vouches for all of it.
    unsafe { tilelift_compile_with(compiler, std::ptr::null(), text, len, kernel, error) }
}

/// Compiles a kernel of a text with options of its own.
///
/// # Safety
/// As [`tilelift_compile`]; `options` is null or leads to what the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_compile_with(
    compiler: *const TileliftCompiler,
    options: *const TileliftOptions,
    text: *const c_char,
    len: usize,
    kernel: *const c_char,
    error: *mut *mut TileliftError,
) -> *mut TileliftArtifact {
    let make = || {
        // SAFETY: the caller vouches for it; here and below.
        let compiler = unsafe { compiler.as_ref() }.ok_or_else(|| TileliftError::argument("compiler"))?;
        let text = unsafe { bytes(text, len, "text") }?;
        let text = std::str::from_utf8(text).map_err(|_| TileliftError::argument("text"))?;
        let kernel = unsafe { string(kernel, "kernel") }?;
        let made = match unsafe { TileliftOptions::read(options) }? {
            Some(options) => compiler.0.compile_text_with(text, kernel, &unsafe { options.lists(options.settings()?) }?),
            None => compiler.0.compile_text(text, kernel),
        };
        Ok(TileliftArtifact::new(made?))
    };
    // SAFETY: the caller vouches for it.
    unsafe { made(error, make) }
}
