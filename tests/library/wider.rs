//! Instances that stand for several grid positions: which kernels get them on which grids, and that they compute the same.

use tilelift::interp::{Arg, Buffer, Memory, Options as InterpOptions, ViewArg, interpret};
use tilelift::ir::{Kernel, Scalar, text, verify};
use tilelift::runtime::sim::SimDevice;
use tilelift::{Artifact, GridFacts, Options, compile, targets};

/// A plain product with tiles of that size; `weights` are lanes' to convert.
fn product([m, n]: [u32; 2], weights: bool) -> Kernel {
    let (of, cast) = if weights {
        let scaled = format!("v23 = splat 0.5 : tile<{n}x64xbf16>\n v24 = add v22, v23\n v20 = mul v24, v23");
        ("i4", format!("v21 = load v1[v6, v10] : tile<{n}x64xi4>\n v22 = cast v21 : tile<{n}x64xbf16>\n {scaled}"))
    } else {
        ("bf16", format!("v20 = load v1[v6, v10] : tile<{n}x64xbf16>"))
    };
    let source = format!(
        "kernel @p(v0: view<bf16, [?, ?%128]>, v1: view<{of}, [?, ?%128]>, v2: view<bf16, [?, ?%128]>) warps=8 stages=4 {{
 v3 = program_id x
 v4 = program_id y
 v5 = mul v4, {m}
 v6 = mul v3, {n}
 v7 = dim v0, 1
 v8 = splat 0.0 : tile<{m}x{n}xf32>
 v9 = for v10 in 0..v7 step 64 carry v11 = v8 {{
 v12 = load v0[v5, v10] : tile<{m}x64xbf16>
 {cast}
 v13 = transpose v20, [1, 0]
 v14 = dot v12, v13, v11
 yield v14
 }}
 v15 = cast v9 : tile<{m}x{n}xbf16>
 store v2[v5, v6], v15
}}"
    );
    text::parse(&source).unwrap_or_else(|e| panic!("{e}\n{source}")).kernels.remove(0)
}

fn compiled(kernel: &Kernel, grid: [u32; 3]) -> Artifact {
    let target = targets::by_name("sm_90a").expect("known");
    compile(kernel, &target, &Options { grid: GridFacts::of(grid), ..Options::default() }).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn tiles_grow_where_that_pays_and_the_grid_has_enough_of_them() {
    let each = |tile, weights, grid| compiled(&product(tile, weights), grid).positions;
    // Small tiles of a large product; a size that suits the machine stays as it is.
    assert_eq!(each([64, 64], false, [64, 64, 1]), [2, 2, 1]);
    assert_eq!(each([64, 128], false, [32, 64, 1]), [1, 2, 1]);
    assert_eq!(each([128, 128], false, [32, 32, 1]), [1, 1, 1]);
    // What lanes compute of an operand is computed for twice as many rows of the other.
    assert_eq!(each([128, 128], true, [64, 32, 1]), [1, 2, 1]);
    // Few positions are dealt out as they are, and so are odd numbers of them.
    assert_eq!(each([64, 64], false, [8, 8, 1]), [1, 1, 1]);
    assert_eq!(each([64, 64], false, [63, 65, 1]), [1, 1, 1]);
    assert_eq!(each([64, 64], false, [64, 65, 1]), [2, 1, 1]);
}

#[test]
fn facts_of_grids_are_few() {
    let facts = |multiple_of, positions| Some(GridFacts { multiple_of, positions });
    assert_eq!(GridFacts::of([64, 33, 6]), facts([16, 1, 2], 8192));
    assert_eq!(GridFacts::of([1, 1, 1]), facts([1, 1, 1], 1));
    assert_eq!(GridFacts::of([4, 0, 1]), None);
    assert_eq!(GridFacts::of([u32::MAX, u32::MAX, 1]), facts([1, 1, 1], 1 << 31));
}

#[test]
fn an_artifact_for_several_positions_computes_what_the_kernel_says() {
    for (weights, tile) in [(true, [128, 128]), (false, [64, 64])] {
        let kernel = product(tile, weights);
        // Compiled for a large grid, launched on a small one that has as many positions an instance.
        let artifact = compiled(&kernel, [64, 64, 1]);
        assert_ne!(artifact.positions, [1; 3]);
        let (m, n, k, grid) = (2 * tile[0] as usize - 3, 2 * tile[1] as usize, 128, [2, 2, 1]);
        let elem = if weights { Scalar::I4 } else { Scalar::BF16 };
        let shapes = [(Scalar::BF16, [m, k]), (elem, [n, k]), (Scalar::BF16, [m, n])];
        let args: Vec<Arg> =
            shapes.iter().enumerate().map(|(b, (elem, s))| ViewArg::dense(b, *elem, &s.map(|e| e as i64)).into()).collect();
        let bytes = |n: usize, seed: usize| -> Vec<u8> {
            // Small numbers: 0 to 1 in sixteenths of bf16, or any codes of four bits.
            let one = |i: usize| (i.wrapping_mul(2_654_435_761).wrapping_add(seed * 40_503)) >> 7;
            (0..n)
                .map(|i| {
                    if elem == Scalar::I4 && seed == 1 {
                        one(i) as u8
                    } else if i % 2 == 0 {
                        0
                    } else {
                        0x3e + (one(i) % 2) as u8
                    }
                })
                .collect()
        };
        let half = |s: &[usize; 2], elem: Scalar| s[0] * s[1] * elem.bits() as usize / 8;
        let memory = || Memory {
            buffers: shapes.iter().enumerate().map(|(b, (elem, s))| Buffer::from_bytes(bytes(half(s, *elem), b))).collect(),
            ..Memory::default()
        };
        let (mut want, mut got) = (memory(), memory());
        interpret(&verify(&kernel).unwrap(), grid, &args, &mut want, &InterpOptions::default()).unwrap();
        let device = SimDevice::default();
        let loaded = device.load(&artifact).unwrap();
        device.execute(&loaded, grid, &args, &mut got).unwrap();
        assert!(want.buffers[2].bytes() == got.buffers[2].bytes(), "{tile:?}");
        let odd = device.execute(&loaded, [3, 3, 1], &args, &mut got).unwrap_err();
        assert!(odd.to_string().contains("no multiple of"), "{odd}");
    }
}
