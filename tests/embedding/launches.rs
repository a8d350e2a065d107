//! Launches, bound by addresses.

use std::sync::Arc;
use tilelift::interp::{Arg, ArgError, Memory, ScalarArg, ViewArg};
use tilelift::ir::Scalar;
use tilelift::launch::{BindError, Bound, GridError, Lent, Parameter};
use tilelift::runtime::sim::SimDevice;
use tilelift::{Artifact, Compiler, Settings};

/// What is read after a write is what was written, if both are one; and no other view is taken for the output.
#[test]
fn an_output_in_the_place_of_an_input_is_declared() {
    let source = "kernel @over(%x: view<f32, [?]>, %y: view<f32, [?]>) {
    %a = load %x[0] : tile<32xf32>
    %two = splat 2.0 : tile<32xf32>
    %b = add %a, %two
    store %y[0], %b
    %c = load %x[0] : tile<32xf32>
    %d = mul %c, %c
    store %y[0], %d
}
";
    let view = |b| ViewArg::dense(b, Scalar::F32, &[32]);
    let (apart, same) = ([Arg::from(view(0)), view(1).into()], [Arg::from(view(0)), view(0).into()]);
    for target in ["sm_80", "gfx942"] {
        for in_place in [false, true] {
            let settings = if in_place { Settings::new().in_place(1, 0) } else { Settings::new() };
            let compiler = Compiler::builder(target).settings(settings).build().unwrap_or_else(|e| panic!("{e}"));
            let artifact = compiler.compile_text(source, None).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(artifact.arguments.iter().map(|a| a.is_written()).collect::<Vec<_>>(), [in_place, !in_place]);
            let device = SimDevice::default();
            let kernel = device.load(&artifact).unwrap_or_else(|e| panic!("{e}"));
            let run = |args: &[Arg]| {
                let mut memory = Memory::new();
                for _ in 0..2 {
                    memory.add(tilelift::interp::Buffer::from_bytes([3f32; 32].iter().flat_map(|v| v.to_le_bytes()).collect()));
                }
                let done = device.execute(&kernel, [1, 1, 1], args, &mut memory).map_err(|e| e.to_string());
                let first = |n: usize| memory.buffers[n].bytes()[..4].try_into().map(f32::from_le_bytes).unwrap_or_default();
                done.map(|_| (first(0), first(1)))
            };
            if in_place {
                assert_eq!(run(&same), Ok((25.0, 3.0)), "{target}");
                assert!(run(&apart).is_err_and(|e| e.contains("in place")));
            } else {
                assert_eq!(run(&apart), Ok((3.0, 9.0)), "{target}");
                assert!(run(&same).is_err());
            }
            let lent = |address| Lent { address, len: 128 };
            let bind = |args: &[Arg], lent: &[Lent]| Bound::new(artifact.clone(), [1; 3], args, lent);
            let (x, y) = (lent(0x1000), lent(0x2000));
            assert_eq!(
                [bind(&same, &[x]), bind(&apart, &[x, x]), bind(&apart, &[x, y])].map(|b| b.is_ok()),
                [in_place, in_place, !in_place]
            );
            if in_place {
                let mut bound = bind(&same, &[x]).unwrap_or_else(|e| panic!("{e}"));
                bound.set_pointer(0, y, 0).unwrap_or_else(|e| panic!("{e}"));
                bound.set_extent(1, 0, 16).unwrap_or_else(|e| panic!("{e}"));
                let shorter = Arg::from(ViewArg::dense(0, Scalar::F32, &[16]));
                let fresh = bind(&[shorter.clone(), shorter], &[y]).unwrap_or_else(|e| panic!("{e}"));
                assert_eq!(bound.parameters(), fresh.parameters());
                assert!(tilelift::launch::describe(&artifact).contains("\"same_as\": 0"));
            }
        }
    }
    for (output, input) in [(1, 1), (1, 2), (2, 0), (7, 0)] {
        let compiler =
            Compiler::builder("sm_80").settings(Settings::new().in_place(output, input)).build().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(compiler.compile_text(SCALE, None).map(|_| ()).map_err(|e| e.code()), Err("C0103"));
    }
}

/// Rows whose length nobody says are copied by units for arguments whose rows are whole pieces, and nobody else may use that text.
#[test]
fn a_kernel_is_compiled_for_what_its_arguments_are_multiples_of() {
    let source = "kernel @product(%a: view<bf16, [?, ?]>, %b: view<bf16, [?, ?]>, %c: view<f32, [?, ?]>, %from: i32, %scale: f32) warps=8 {
    %k = dim %a, 1
    %z = splat 0.0 : tile<128x128xf32>
    %s = for %i in %from..%k step 64 carry %s0 = %z {
        %x = load %a[0, %i] : tile<128x64xbf16>
        %y = load %b[%i, 0] : tile<64x128xbf16>
        %s1 = dot %x, %y, %s0
        yield %s1
    }
    %r = mul %s, %scale
    store %c[0, 0], %r
}
";
    let kernel = tilelift::ir::text::parse(source).unwrap_or_else(|e| panic!("{e}")).kernels.remove(0);
    let args = |k: i64, n: i64, from: i64| {
        let view = |b, elem, shape: &[i64]| Arg::from(ViewArg::dense(b, elem, shape));
        let views = [view(0, Scalar::BF16, &[100, k]), view(1, Scalar::BF16, &[k, n]), view(2, Scalar::F32, &[100, n])];
        views.into_iter().chain([ScalarArg::int(Scalar::I32, from).into(), ScalarArg::float(Scalar::F32, 2.0).into()]).collect::<Vec<Arg>>()
    };
    let compiler = Compiler::new("sm_90a").unwrap_or_else(|e| panic!("{e}"));
    let made = |a: &[Arg]| compiler.compile_for(&kernel, a).unwrap_or_else(|e| panic!("{e}"));
    let units = |artifact: &Artifact| artifact.text.contains("cp.async.bulk");
    let (plain, whole) = (compiler.compile(&kernel).unwrap_or_else(|e| panic!("{e}")), made(&args(4096, 128, 32)));
    assert_eq!((units(&plain), units(&whole)), (false, true));
    // What divides as much has the same text, and what nothing divides has that for all.
    assert!(Arc::ptr_eq(&whole, &made(&args(1024, 1152, -16))));
    assert!(Arc::ptr_eq(&plain, &made(&args(4095, 127, 3))));
    assert_eq!(Artifact::from_bytes(&whole.to_bytes()).map_err(|e| e.to_string()).as_ref(), Ok(&*whole));
    let lent: Vec<Lent> = (1..4).map(|n| Lent { address: n << 32, len: 1 << 30 }).collect();
    let bind = |a: &[Arg]| Bound::new(whole.clone(), [1; 3], a, &lent);
    assert!(bind(&args(256, 256, 16)).is_ok());
    assert!(matches!(bind(&args(264, 256, 16)), Err(BindError::Args(ArgError::Extent { param: 0, dim: 1, .. }))));
    assert!(matches!(bind(&args(256, 256, 8)), Err(BindError::Args(ArgError::Multiple { param: 3, multiple_of: 16, got: 8 }))));
    let mut bound = bind(&args(256, 256, 16)).unwrap_or_else(|e| panic!("{e}"));
    let refused = bound.set_scalar(3, ScalarArg::int(Scalar::I32, 17)).err().map(|e| e.to_string()).unwrap_or_default();
    assert!(refused.contains("assumes a multiple of 16"), "{refused}");
    assert!(bound.set_scalar(3, ScalarArg::int(Scalar::I32, 48)).is_ok() && bound.args()[3] == ScalarArg::int(Scalar::I32, 48).into());
}

/// A change of one thing is refused exactly where binding all of it anew is, and leaves the same behind: thousands of random ones.
#[test]
fn changes_agree_with_binding_anew() {
    let artifact = artifact();
    let mut rng = crate::Rng::new(3);
    let (mut right, mut wrong) = (0, 0);
    for _ in 0..300 {
        let mut args = args(1000);
        let mut memory = vec![lent(0x10000), lent(0x20000)];
        let mut grid = [8, 1, 1];
        let mut bound = Bound::new(artifact.clone(), grid, &args, &memory).unwrap_or_else(|e| panic!("{e}"));
        for _ in 0..20 {
            let (mut a, mut m, mut g) = (args.clone(), memory.clone(), grid);
            let changed = match rng.below(4) {
                0 => {
                    let param = rng.below(2) as usize;
                    let place = Lent { address: 0x10000 + rng.below(3) * 0x800 + rng.below(8) / 7 * 4, len: 2048 + rng.below(3) * 1024 };
                    let offset = rng.below(4) * 16 + rng.below(8) / 7 * 4;
                    m[param] = place;
                    if let Arg::View(v) = &mut a[param] {
                        v.offset_bytes = offset;
                    }
                    bound.set_pointer(param, place, offset)
                }
                1 => {
                    let n = [0, 4, 500, 512, 514, 1000, 1024, 1028, -4, 1 << 40][rng.below(10) as usize];
                    for arg in &mut a[..2] {
                        if let Arg::View(v) = arg {
                            v.shape[0] = n;
                        }
                    }
                    bound.set_extent(rng.below(2) as usize, 0, n)
                }
                2 => {
                    let s =
                        if rng.below(4) > 0 { ScalarArg::float(Scalar::F32, rng.below(9) as f64) } else { ScalarArg::int(Scalar::I32, 1) };
                    a[2] = s.into();
                    bound.set_scalar(2, s)
                }
                _ => {
                    g = [rng.below(9) as u32, 1, [1, 1, 65536][rng.below(3) as usize]];
                    bound.set_grid(g)
                }
            };
            let fresh = Bound::new(artifact.clone(), g, &a, &m);
            assert_eq!(changed.is_ok(), fresh.is_ok(), "{changed:?} {fresh:?}");
            if let Ok(fresh) = fresh {
                (args, memory, grid) = (a, m, g);
                assert_eq!(bound.parameters(), fresh.parameters());
                right += 1;
            } else {
                wrong += 1;
            }
        }
    }
    assert!(right > 1000 && wrong > 1000, "{right} {wrong}");
}

/// `y = x * s`, whose extents belong together.
const SCALE: &str = "kernel @scale(%x: view<f32, [?%4]>, %y: view<f32, [?%4]>, %s: f32) {
    %pid = program_id x
    %at = mul %pid, 128
    %a = load %x[%at] : tile<128xf32>
    %f = splat %s : tile<128xf32>
    %b = mul %a, %f
    store %y[%at], %b
}
";

fn artifact() -> Arc<Artifact> {
    let settings = Settings::new().same_extent(&[(0, 0), (1, 0)]);
    let compiler = Compiler::builder("sm_80").settings(settings).build().unwrap_or_else(|e| panic!("{e}"));
    compiler.compile_text(SCALE, None).unwrap_or_else(|e| panic!("{e}"))
}

fn args(n: i64) -> Vec<Arg> {
    let view = |b| ViewArg::dense(b, Scalar::F32, &[n]).into();
    vec![view(0), view(1), ScalarArg::float(Scalar::F32, 2.0).into()]
}

fn lent(address: u64) -> Lent {
    Lent { address, len: 4096 }
}

#[test]
fn everything_is_checked_once() {
    let bind = |grid, args: &[Arg], lent: &[Lent]| Bound::new(artifact(), grid, args, lent).map(|_| ());
    let two = [lent(0x10000), lent(0x20000)];
    assert_eq!(bind([8, 1, 1], &args(1000), &two), Ok(()));
    let large = [1, 1, 65536];
    assert!(matches!(bind(large, &args(1000), &two), Err(BindError::Grid(GridError::TooLarge { .. }))));
    assert!(matches!(bind([1; 3], &args(1001), &two), Err(BindError::Args(ArgError::Extent { param: 0, dim: 0, .. }))));
    assert!(matches!(bind([1; 3], &args(1028), &two), Err(BindError::Args(ArgError::Outside { param: 0, .. }))));
    assert!(matches!(bind([1; 3], &args(1000)[..2], &two), Err(BindError::Args(ArgError::Count { .. }))));
    // One buffer under two numbers, and buffers that share their ends.
    let overlap = Err(BindError::Args(ArgError::Overlap { written: 1, other: 0 }));
    assert_eq!(bind([1; 3], &args(1000), &[two[0], two[0]]), overlap);
    assert_eq!(bind([1; 3], &args(1000), &[two[0], lent(0x10000 + 3984)]), overlap);
    assert_eq!(bind([1; 3], &args(1000), &[two[0], lent(0x10000 + 4096)]), Ok(()));
    assert!(matches!(bind([1; 3], &args(1000), &[two[0], lent(0x20004)]), Err(BindError::Misaligned(m)) if m.param == 1));
    let mut apart = args(1000);
    apart[1] = args(996).swap_remove(1);
    let together = BindError::Together { one: (0, 0), other: (1, 0), extents: [1000, 996] };
    assert_eq!(bind([1; 3], &apart, &two), Err(together));
}

#[test]
fn empty_batches_are_no_work_and_no_error() {
    // No rows: no memory either.
    let nothing = [Lent::default(), Lent::default()];
    let mut bound = Bound::new(artifact(), [0, 1, 1], &args(0), &nothing).unwrap_or_else(|e| panic!("{e}"));
    assert!(!bound.has_work());
    bound.set_scalar(2, ScalarArg::float(Scalar::F32, 3.0)).unwrap_or_else(|e| panic!("{e}"));
    // A grid that is not empty, over nothing.
    assert!(Bound::new(artifact(), [1, 1, 1], &args(0), &nothing).is_ok_and(|b| b.has_work()));
    // Rows arrive.
    for (param, address) in [(0, 0x10000), (1, 0x20000)] {
        bound.set_pointer(param, lent(address), 0).unwrap_or_else(|e| panic!("{e}"));
    }
    bound.set_extent(0, 0, 1000).unwrap_or_else(|e| panic!("{e}"));
    bound.set_grid([8, 1, 1]).unwrap_or_else(|e| panic!("{e}"));
    assert!(bound.has_work());
    let device = SimDevice::default();
    for target in ["sm_80", "gfx942"] {
        let compiler = Compiler::new(target).unwrap_or_else(|e| panic!("{e}"));
        let artifact = compiler.compile_text(SCALE, None).unwrap_or_else(|e| panic!("{e}"));
        let kernel = device.load(&artifact).unwrap_or_else(|e| panic!("{e}"));
        let mut memory = Memory::new();
        for _ in 0..2 {
            memory.add(tilelift::interp::Buffer::zeroed(4096));
        }
        for grid in [[0, 1, 1], [8, 0, 1], [0, 0, 0]] {
            let report = device.execute(&kernel, grid, &args(1000), &mut memory);
            assert!(report.is_ok(), "{:?}", report.err());
        }
    }
}

#[test]
fn changes_are_checked_alone_and_undone_if_wrong() {
    let two = [lent(0x10000), lent(0x20000)];
    let new = || Bound::new(artifact(), [8, 1, 1], &args(1000), &two).unwrap_or_else(|e| panic!("{e}"));
    let (mut bound, text) = (new(), |b: &Bound| format!("{b:?}"));
    let before = text(&bound);
    assert!(matches!(bound.set_pointer(1, lent(0x10000), 0), Err(BindError::Args(ArgError::Overlap { .. }))));
    assert!(matches!(bound.set_pointer(0, lent(0x30000), 4096), Err(BindError::Args(ArgError::Outside { .. }))));
    assert!(matches!(bound.set_pointer(0, lent(0x30004), 0), Err(BindError::Misaligned(_))));
    assert!(matches!(bound.set_pointer(0, lent(0x30000), 4), Err(BindError::Args(ArgError::Alignment { .. }))));
    assert!(matches!(bound.set_pointer(2, lent(0x30000), 0), Err(BindError::NoArgument { .. })));
    assert!(matches!(bound.set_scalar(2, ScalarArg::int(Scalar::I32, 1)), Err(BindError::Args(ArgError::Element { .. }))));
    assert!(matches!(bound.set_scalar(0, ScalarArg::int(Scalar::I32, 1)), Err(BindError::NoArgument { .. })));
    assert!(matches!(bound.set_extent(0, 0, 1001), Err(BindError::Args(ArgError::Extent { .. }))));
    assert!(matches!(bound.set_extent(0, 0, 1028), Err(BindError::Args(ArgError::Outside { .. }))));
    assert!(matches!(bound.set_extent(0, 1, 4), Err(BindError::NoArgument { .. })));
    assert!(bound.set_grid([1, 1, 65536]).is_err());
    assert_eq!(text(&bound), before);
    // What is changed is as if it had been bound so.
    bound.set_pointer(0, lent(0x30000), 16).unwrap_or_else(|e| panic!("{e}"));
    bound.set_extent(1, 0, 996).unwrap_or_else(|e| panic!("{e}"));
    bound.set_scalar(2, ScalarArg::float(Scalar::F32, 5.0)).unwrap_or_else(|e| panic!("{e}"));
    bound.set_grid([4, 1, 1]).unwrap_or_else(|e| panic!("{e}"));
    let mut args = args(996);
    args[0] = ViewArg::dense(0, Scalar::F32, &[996]).at(16).into();
    args[2] = ScalarArg::float(Scalar::F32, 5.0).into();
    let numbers: Vec<(u64, u8)> = bound
        .parameters()
        .iter()
        .map(|p| match p {
            Parameter::Number { bits, size } => (*bits, *size),
            p => panic!("{p:?}"),
        })
        .collect();
    assert_eq!(numbers.iter().filter(|n| **n == (0x30010, 8)).count(), 1, "{numbers:?}");
    assert!(
        numbers.contains(&(0x20000, 8)) && numbers.contains(&(u64::from(5f32.to_bits()), 4)) && numbers.contains(&(996, 4)),
        "{numbers:?}"
    );
    let fresh = Bound::new(artifact(), [4, 1, 1], &args, &[lent(0x30000), two[1]]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(text(&bound), text(&fresh));
}
