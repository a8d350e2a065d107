//! What the builder says to operands that are not its own.

use tilelift_ir::{Extent, KernelBuilder, Scalar, ViewType};

#[test]
fn values_of_another_builder_are_refused() {
    let view = || ViewType::dense(Scalar::F32, &[Extent::Dynamic(1)]);
    let mut other = KernelBuilder::new("other");
    let x = other.param(view());
    // More values than the kernels below have.
    (1..10).for_each(|n| _ = other.constant(n, Scalar::I32));
    let at = other.constant(0, Scalar::I32);
    let tile = other.load(x, &[at], &[64]);
    // As operands of a store, of arithmetic, and of what looks at types or definitions first.
    let uses: [fn(&mut KernelBuilder, tilelift_ir::Value); 5] = [
        |b, v| b.store(v, &[v], v),
        |b, v| _ = b.add(v, 1.0f32),
        |b, v| _ = b.split(v),
        |b, v| _ = b.for_loop(0, 4, 1, &[v], |_, _, carried| carried.to_vec()),
        |b, v| _ = b.channel_get(v, 0),
    ];
    for (n, use_it) in uses.iter().enumerate() {
        let mut b = KernelBuilder::new("k");
        use_it(&mut b, tile);
        let e = b.finish().expect_err("not its own").to_string();
        assert!(e.contains("is no value of this kernel; a value belongs to the builder that made it"), "{n}: {e}");
    }
}
