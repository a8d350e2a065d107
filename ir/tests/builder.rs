//! What the builder says to operands that are not its own.

use tilelift_ir::{Extent, KernelBuilder, Scalar, ViewType, text};

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

/// As a search through all instructions finds them, whoever built the kernel.
#[test]
fn regions_know_their_holders() {
    let mut b = KernelBuilder::new("k");
    let x = b.param(ViewType::dense(Scalar::F32, &[Extent::Dynamic(1)]));
    let zero = b.constant(0, Scalar::I32);
    let t = b.load(x, &[zero], &[64]);
    let t = b.for_loop(0, 4, 1, &[t], |b, _, c| {
        let inner = b.for_loop(0, 2, 1, c, |b, _, c| vec![b.add(c[0], c[0])]);
        vec![b.mul(inner[0], c[0])]
    });
    b.store(x, &[zero], t[0]);
    let built = b.finish().expect("a kernel");
    let source = "kernel @k(v0: i32) {
        v1 = for v2 in 0..v0 step 1 carry v3 = v0 {\nv4 = add v3, v2\nyield v4\n}
        v5 = while carry v6 = v1 {\nv7 = cmp lt v6, 9\nyield v7\n} do carry v8 {\nv9 = add v8, 1\nyield v9\n}
        v10 = cmp lt v5, v0\nv11 = if v10 {\nyield v5\n} else {\nyield v0\n}\nv12 = splat v11 : tile<64xi32>
        v13 = reduce_by v12, axis 0 combine v14 with v15 {\nv16 = add v14, v15\nyield v16\n}\nprint v13\n}";
    let parsed = text::parse(source).unwrap_or_else(|e| panic!("{e}")).kernels.remove(0);
    for (kernel, regions) in [(built, 3), (parsed.clone(), 7), (parsed, 7)] {
        assert_eq!(kernel.regions.len(), regions);
        for r in kernel.regions.keys() {
            let found = kernel.insts.iter().find(|(_, d)| d.regions.contains(&r)).map(|(i, _)| i);
            assert_eq!(kernel.holder(r), found, "{r}");
            assert_eq!(found.is_none(), r == kernel.body);
        }
    }
}
