//! Many threads, one compile a key.

use crate::{kernels, source};
use std::sync::{Arc, Barrier};
use tilelift::{Compiler, MemoryStore, OptLevel, Request, Settings};

/// 64 threads ask 1,000 times each for 50 kernels, all beginning with the same ones.
#[test]
fn one_compile_a_key_and_the_same_bytes_for_all() {
    const THREADS: usize = 64;
    const ASKS: usize = 1000;
    let kernels = kernels(50);
    let compiler = Compiler::new("sm_80").unwrap_or_else(|e| panic!("{e}"));
    let alone: Vec<Vec<u8>> =
        kernels.iter().map(|k| Compiler::new("sm_80").and_then(|c| c.compile(k)).unwrap_or_else(|e| panic!("{e}")).to_bytes()).collect();
    let start = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (kernels, compiler, alone, start) = (&kernels, &compiler, &alone, &start);
            scope.spawn(move || {
                start.wait();
                for ask in 0..ASKS {
                    // The first asks of all threads are for the same kernels, later ones in an order of the thread's own.
                    let n = if ask < 50 { ask } else { (ask * (2 * thread + 1) + thread) % 50 };
                    let made = compiler.compile(&kernels[n]).unwrap_or_else(|e| panic!("{e}"));
                    assert!(made.name == format!("add{n}") && (ask % 97 > 0 || made.to_bytes() == alone[n]));
                }
            });
        }
    });
    let stats = compiler.stats();
    assert_eq!((stats.compiles, stats.misses, stats.failures), (50, 50, 0), "{stats:?}");
    assert_eq!(stats.memory_hits + stats.shared + stats.misses, (THREADS * ASKS) as u64, "{stats:?}");
    assert!(stats.compile_time.as_nanos() > 0);
}

#[test]
fn warm_up_makes_all_in_order_and_a_second_process_makes_none() {
    let kernels = kernels(20);
    let twice: Vec<_> = kernels.iter().chain(&kernels).cloned().collect();
    let store = Arc::new(MemoryStore::new());
    let compiler = || Compiler::builder("sm_80").store(store.clone()).build().unwrap_or_else(|e| panic!("{e}"));
    let first = compiler();
    for threads in [4, 0, 1] {
        let made = first.compile_many(&twice, threads);
        for (k, made) in twice.iter().zip(&made) {
            assert_eq!(made.as_ref().map(|a| &a.name), Ok(&k.name));
        }
    }
    assert_eq!((first.stats().compiles, store.len()), (20, 20));
    assert!(first.compile_many([] as [Request<'_>; 0], 4).is_empty());
    let second = compiler();
    let again = second.compile_many(&kernels, 4);
    let stats = second.stats();
    assert_eq!((stats.compiles, stats.misses, stats.store_hits, stats.discarded), (0, 0, 20, 0), "{stats:?}");
    for (k, made) in kernels.iter().zip(again) {
        let (a, b) = (first.compile(k), made);
        assert_eq!(a, b);
    }
}

/// Plans tell the compiler different things of the same kernel: each request has its own settings, and its own key.
#[test]
fn each_request_of_a_warm_up_has_its_own_settings() {
    let kernels = kernels(6);
    let compiler = Compiler::builder("sm_80").settings(Settings::new().warps(2)).build().unwrap_or_else(|e| panic!("{e}"));
    let warps = |n: usize| [None, Some(4u32), Some(8)][n % 3];
    let settings = |n: usize| warps(n).map(|w| compiler.settings().clone().warps(w));
    let request = |(n, k)| settings(n).map_or(Request::of(k), |s| Request::of(k).settings(s));
    for threads in [3, 1] {
        // Two kernels by three settings each, in an order that mixes them.
        let asked = (0..6).map(|n| (n, &kernels[n / 3])).map(request);
        let made = compiler.compile_many(asked, threads);
        for (n, made) in made.into_iter().enumerate() {
            let made = made.unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(made.threads, 32 * warps(n).unwrap_or(2), "{n}");
            let alone = settings(n).map_or_else(|| compiler.compile(&kernels[n / 3]), |s| compiler.compile_with(&kernels[n / 3], &s));
            assert!(alone.is_ok_and(|a| Arc::ptr_eq(&a, &made)), "{n}");
        }
    }
    assert_eq!(compiler.stats().compiles, 6);
}

#[test]
fn whatever_changes_the_code_changes_the_key() {
    let base = || Compiler::builder("sm_80");
    let with = |s: Settings| base().settings(s).build();
    let compilers = [
        base().build(),
        Compiler::new("sm_90a"),
        base().salt("x").build(),
        with(Settings::new().opt_level(OptLevel::None)),
        with(Settings::new().warps(8)),
        with(Settings::new().warps(4)),
        with(Settings::new().stages(4)),
        with(Settings::new().max_ptx_version(7, 8)),
        with(Settings::new().min_blocks(2)),
        with(Settings::new().max_registers(64)),
        with(Settings::new().prove_schedules(true)),
        with(Settings::new().same_extent(&[(0, 0), (1, 0)])),
        with(Settings::new().in_place(1, 0)),
    ];
    let kernel = |text: &str| crate::kernel(text);
    let mut keys = std::collections::BTreeSet::new();
    for c in &compilers {
        let c = c.as_ref().unwrap_or_else(|e| panic!("{e}"));
        for n in 0..2 {
            assert!(keys.insert(c.key(&kernel(&source(n))).unwrap_or_else(|e| panic!("{e}"))), "{}", c.target());
        }
        // Comments and places are nothing to the code.
        let moved = format!("; a comment\n\n{}", source(0));
        assert_eq!(c.key(&kernel(&moved)), c.key(&kernel(&source(0))));
    }
    assert_eq!(keys.len(), 2 * compilers.len());
}

#[test]
fn refused_kernels_are_refused_for_all_and_never_kept() {
    let wrong = "kernel @big(v0: view<f32, [?]>) {\n    v1 = splat 1.0 : tile<4194304xf32>\n    store v0[0], v1\n}\n";
    let compiler = Compiler::new("sm_80").unwrap_or_else(|e| panic!("{e}"));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_eq!(compiler.compile_text(wrong, None).map_err(|e| e.code()).map(|_| ()), Err("L0103")));
        }
    });
    let stats = compiler.stats();
    assert_eq!((stats.compiles, stats.failures + stats.shared), (0, 8), "{stats:?}");
}
