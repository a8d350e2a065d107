//! What an engine that embeds the compiler trusts: one compile a key, a store that never lies, artifacts that survive being written down, launches
//! that are checked.

mod artifacts;
#[cfg(feature = "cuda")]
mod cuda;
mod damage;
#[cfg(feature = "cuda")]
mod drivers;
mod errors;
mod launches;
mod processes;
mod sharing;
mod stacks;
mod surface;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use tilelift::ir::{Kernel, text};

/// Kernels that differ in a constant.
pub(crate) fn kernels(count: usize) -> Vec<Kernel> {
    (0..count).map(|n| kernel(&source(n))).collect()
}

/// The text of the `n`-th of them.
pub(crate) fn source(n: usize) -> String {
    format!(
        "kernel @add{n}(%x: view<f32, [?]>, %y: view<f32, [?]>, %s: f32) {{
    %pid = program_id x
    %at = mul %pid, 128
    %a = load %x[%at] : tile<128xf32>
    %n = splat {n}.5 : tile<128xf32>
    %f = splat %s : tile<128xf32>
    %b = add %a, %n
    %c = mul %b, %f
    store %y[%at], %c
}}
"
    )
}

pub(crate) fn kernel(source: &str) -> Kernel {
    text::parse(source).unwrap_or_else(|e| panic!("{e}\n{source}")).kernels.remove(0)
}

/// A folder of one test, gone when it ends.
pub(crate) struct Folder(pub PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Folder(std::env::temp_dir().join(format!("tilelift-{name}-{}-{number}", std::process::id())))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Random numbers of a seed.
pub(crate) struct Rng(u64, u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed, 0)
    }
    /// A number below another.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.1 += 1;
        tilelift_kernels::rng::bits(self.0, self.1) % n.max(1)
    }
}
