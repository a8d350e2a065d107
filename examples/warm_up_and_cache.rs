//! `cargo run --release --example warm_up_and_cache`: what an engine does at its start, so that the first request waits for no compile.
//!
//! `docs/embedding.md` is the manual. The way:
//!  1. one [`Compiler`] per target, with a folder as its store, shared by all threads;
//!  2. `compile_many` loads or compiles what the model needs, on all processors;
//!  3. a request asks for a kernel, which is in memory; its launch is bound once, and only what changes is changed;
//!  4. the next process compiles nothing, and one that finds the folder damaged compiles what is damaged: counters tell.
//!
//! It runs anywhere: nothing is launched, a launch's parameters are printed.

use std::sync::Arc;
use tilelift::interp::{Arg, ScalarArg, ViewArg};
use tilelift::ir::{BuildErrors, Extent, Kernel, KernelBuilder, Scalar, ViewType};
use tilelift::launch::{Bound, Lent};
use tilelift::{Compiler, DirectoryStore, Settings};

/// `y = x * s`, so many elements at a time.
fn scale(elem: Scalar, tile: u32) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new(&format!("scale_{}_{tile}", elem.name()));
    let x = b.param(ViewType::dense(elem, &[Extent::Dynamic(8)]));
    let y = b.param(ViewType::dense(elem, &[Extent::Dynamic(8)]));
    let s = b.param(elem);
    let pid = b.program_id(0);
    let at = b.mul(pid, tile as i32);
    let t = b.load(x, &[at], &[tile]);
    let t = b.mul(t, s);
    b.store(y, &[at], t);
    b.finish()
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("tilelift-example-{}", std::process::id()));
    let compiler = || {
        // Extents that belong together are declared once: launches check them, and changing one changes both.
        let settings = Settings::new().same_extent(&[(0, 0), (1, 0)]);
        Compiler::builder("sm_90a").settings(settings).store(Arc::new(DirectoryStore::new(&folder))).build()
    };
    let kernels: Vec<Kernel> =
        [Scalar::F16, Scalar::BF16, Scalar::F32].iter().flat_map(|&e| [256, 512, 1024].map(|n| scale(e, n))).collect::<Result<_, _>>()?;

    let first = compiler()?;
    for made in first.compile_many(&kernels, 0) {
        made?;
    }
    let stats = first.stats();
    println!("first process: {} compiles in {:?} of all threads", stats.compiles, stats.compile_time);
    assert_eq!((stats.compiles, stats.store_errors), (9, 0));

    // A request: the kernel is there. Its memory is checked once, then only what changes.
    let artifact = first.compile(&kernels[8])?;
    let view = |buffer| Arg::from(ViewArg::dense(buffer, Scalar::F32, &[4096]));
    let args = [view(0), view(1), ScalarArg::float(Scalar::F32, 0.5).into()];
    let memory = |address| Lent { address, len: 4 * 4096 };
    let mut bound = Bound::new(artifact, [4, 1, 1], &args, &[memory(0x7f00_0000_0000), memory(0x7f00_0001_0000)])?;
    println!("parameters: {:x?}", bound.parameters());
    bound.set_extent(0, 0, 1024)?;
    bound.set_grid([1, 1, 1])?;
    // An empty batch is no work, and no error.
    bound.set_grid([0, 1, 1])?;
    assert!(!bound.has_work());
    // The same memory for both is one, as the kernel does not promise to work in place.
    let shared = bound.set_grid([1, 1, 1]).and_then(|()| bound.set_pointer(1, memory(0x7f00_0000_0000), 0));
    println!("the input as output: {}", shared.err().ok_or("memory that is lent twice is seen")?);

    let second = compiler()?;
    for made in second.compile_many(&kernels, 0) {
        made?;
    }
    println!("second process: {} compiles, {} from the folder", second.stats().compiles, second.stats().store_hits);
    assert_eq!((second.stats().compiles, second.stats().store_hits), (0, 9));

    // Half of an entry is none: it is compiled anew, and written again.
    let store = DirectoryStore::new(&folder);
    let path = store.path(&second.key(&kernels[0])?);
    std::fs::write(&path, &std::fs::read(&path)?[..100])?;
    let third = compiler()?;
    for made in third.compile_many(&kernels, 0) {
        made?;
    }
    println!("a damaged folder: {} compiles, {} discarded", third.stats().compiles, third.stats().discarded);
    assert_eq!((third.stats().compiles, third.stats().discarded), (1, 1));
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
