//! Threads with little stack.

use crate::{kernel, source};
use tilelift::{Compiler, Error};

/// Regions in regions, as deep as the language allows, and one deeper.
fn nested(depth: usize) -> String {
    let mut text = String::from("kernel @deep(%x: view<f32, [?]>, %n: i32) {\n");
    for d in 0..depth {
        text += &format!("for %i{d} in 0..%n step 1 {{\n");
    }
    text += "%t = splat 1.0 : tile<32xf32>\nstore %x[0], %t\n";
    text += &"}\n".repeat(depth + 1);
    text
}

fn on_a_small_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|s| {
        let thread = std::thread::Builder::new().stack_size(64 << 10).spawn_scoped(s, work);
        thread.unwrap_or_else(|e| panic!("{e}")).join().unwrap_or_else(|_| panic!("the thread failed"))
    })
}

#[test]
fn a_stack_of_64_kib_is_enough() {
    let gemm = tilelift_kernels::Gemm::new(tilelift::ir::Scalar::F16).build().unwrap_or_else(|e| panic!("{e}"));
    for target in ["sm_80", "sm_90a", "gfx942"] {
        let compiler = Compiler::new(target).unwrap_or_else(|e| panic!("{e}"));
        let plain = Compiler::new(target).unwrap_or_else(|e| panic!("{e}"));
        let (small, deep) = (kernel(&source(1)), kernel(&nested(60)));
        for k in [&small, &gemm, &deep] {
            let made = on_a_small_stack(|| compiler.compile(k));
            let many = on_a_small_stack(|| plain.compile_many(std::slice::from_ref(k), 2)).remove(0);
            assert_eq!(made, many);
            assert!(made.is_ok() || matches!(made, Err(Error::Refused(_))), "{made:?}");
        }
        let made = on_a_small_stack(|| compiler.compile_text(&source(1), None));
        assert!(made.is_ok_and(|a| a.name == "add1"));
        let refused = on_a_small_stack(|| compiler.compile_text(&nested(70), Some("deep")));
        assert!(matches!(refused, Err(Error::Text(_))), "{refused:?}");
    }
}
