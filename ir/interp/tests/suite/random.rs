//! The random numbers of the builder: against exact functions, against the moments of their distributions, and as text.

use super::{Nums, eval, view};
use tilelift_interp::philox;
use tilelift_ir::KernelBuilder;
use tilelift_ir::text::print;
use tilelift_ir::types::Scalar;

const COUNT: u32 = 40_000;

/// The words that a seed gives for each offset.
fn words(seed: u64) -> Vec<[u32; 4]> {
    (0..COUNT).map(|i| philox([i, 0, 0, 0], [seed as u32, (seed >> 32) as u32])).collect()
}

/// What a body makes of a seed of 64 bits and offsets from 0.
fn made(seed: u64, body: impl FnOnce(&mut KernelBuilder, tilelift_ir::Value, tilelift_ir::Value) -> tilelift_ir::Value) -> Vec<f64> {
    let offsets = Nums::I(Scalar::I32, (0..i64::from(COUNT)).collect());
    let got = eval(&[(&offsets, &[COUNT])], (Scalar::F32, &[COUNT]), |b, v| {
        let seed = b.constant(seed as i64, Scalar::I64);
        body(b, seed, v[0])
    });
    got.read_f64(Scalar::F32)
}

#[test]
fn uniform_numbers_are_the_upper_bits() {
    let seed = 0x0123_4567_89ab_cdef;
    let want: Vec<f64> = words(seed).iter().map(|w| f64::from(w[0] >> 8) / 16_777_216.0).collect();
    let got = made(seed, |b, s, o| b.uniform(s, o));
    assert_eq!(got, want);
    let mean = got.iter().sum::<f64>() / f64::from(COUNT);
    // Five standard deviations of the mean of uniform numbers.
    assert!((mean - 0.5).abs() < 5.0 * (1.0 / 12.0 / f64::from(COUNT)).sqrt(), "{mean}");
}

#[test]
fn normal_numbers_are_near_the_exact_transform() {
    let seed = 42;
    let got = made(seed, |b, s, o| b.normal(s, o));
    let (mut worst, mut sums) = (0f64, [0f64; 5]);
    for (w, &x) in words(seed).iter().zip(&got) {
        let u = (f64::from(w[0] >> 8) + 1.0) / 16_777_216.0;
        let t = f64::from(w[1] >> 8) / 16_777_216.0;
        let want = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * t).cos();
        worst = worst.max((x - want).abs());
        (0..5).for_each(|p| sums[p] += x.powi(p as i32) / f64::from(COUNT));
    }
    assert!(worst < 2f64.powi(-20), "{worst:e}");
    // Five standard deviations of the moments' estimates: sqrt(var/n) with var = 1, 2, 15, 96.
    for (p, want, var) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0f64)] {
        assert!((sums[p] - want).abs() < 5.0 * (var / f64::from(COUNT)).sqrt(), "moment {p} is {}", sums[p]);
    }
}

/// The ends of the ranges: the smallest and the largest radius, and the turns around the quarters.
#[test]
fn the_ends_of_the_transform() {
    let edges = [
        0u32,
        0xff,
        0x100,
        0x1fff_ff00,
        0x2000_0000,
        0x3fff_ff00,
        0x4000_0000,
        0x7fff_ffff,
        0x8000_0000,
        0xbfff_ff00,
        0xdfff_ff00,
        0xe000_0000,
        u32::MAX,
        0xffff_ff00,
        0xb504_f300,
        0xb504_f200,
    ];
    let pairs: Vec<(u32, u32)> = edges.iter().flat_map(|&r| edges.iter().map(move |&t| (r, t))).collect();
    let n = pairs.len() as u32;
    let word = |f: fn(&(u32, u32)) -> u32| Nums::I(Scalar::I32, pairs.iter().map(|p| i64::from(f(p) as i32)).collect());
    let (radius, turn) = (word(|p| p.0), word(|p| p.1));
    for k in 0..2 {
        let got = eval(&[(&radius, &[n]), (&turn, &[n])], (Scalar::F32, &[n]), |b, v| b.normal_of(v[0], v[1])[k]).read_f64(Scalar::F32);
        for (&(r, t), x) in pairs.iter().zip(got) {
            let size = (-2.0 * ((f64::from(r >> 8) + 1.0) / 16_777_216.0).ln()).max(0.0).sqrt();
            let (sin, cos) = (std::f64::consts::TAU * (f64::from(t >> 8) / 16_777_216.0)).sin_cos();
            let want = size * if k == 0 { cos } else { sin };
            assert!((x - want).abs() < 2f64.powi(-20), "{r:#x} {t:#x}: {x:e} instead of {want:e}");
        }
    }
}

/// The file test of all devices runs what the builder makes.
#[test]
fn the_file_test_is_what_the_builder_makes() {
    let mut b = KernelBuilder::new("normal");
    let (uniform, normal) = (b.param(view(Scalar::F32, 1)), b.param(view(Scalar::F32, 1)));
    let seed = b.param(tilelift_ir::Type::Scalar(Scalar::I64));
    b.warps(4);
    let at = b.program_id(0);
    let at = b.mul(at, 1000);
    let i = b.iota(&[1000], 0);
    let first = b.splat(at, &[1000]);
    let offset = b.add(i, first);
    let u = b.uniform(seed, offset);
    let n = b.normal(seed, offset);
    b.store(uniform, &[at], u);
    b.store(normal, &[at], n);
    let text = format!(
        "; test run\n; target sm_80, sm_90a, gfx942\n;\n; Uniform and normal numbers are the same bits everywhere. The text is what the builder makes.\n\n{}; run: @normal(grid=3, out v0=[2900], out v1=[2900], v2=-81985529216486896)\n",
        print(&b.finish().expect("a kernel"))
    );
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tile/random/normal.tile");
    if std::env::var_os("TILELIFT_BLESS").is_some() {
        std::fs::write(&path, &text).expect("the file can be written");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap_or_default(), text, "run the test with TILELIFT_BLESS=1");
}
