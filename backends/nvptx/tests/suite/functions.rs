//! Functions that are made of others: what the lanes compute, and what the text computes, against the function itself. On edge cases, random
//! numbers and dense walks over the ranges where the methods change.

use crate::common::*;
use tilelift_interp::{Arg, Buffer, Memory, ViewArg};
use tilelift_ir::text::parse;
use tilelift_ir::{Scalar, num, verify};
use tilelift_isel::lane::{LaneOptions, Program, Target, UnOp, interpret};
use tilelift_isel::{LowerOptions, lower};
use tilelift_nvptx::sm_80;

const N: usize = 8192;
/// Elements of a program instance.
const TILE: usize = 256;

type Function = (&'static str, fn(f64) -> f64);
const EXP: Function = ("exp", f64::exp);
const EXP2: Function = ("exp2", f64::exp2);
const LOG: Function = ("log", f64::ln);
const LOG2: Function = ("log2", f64::log2);
const TANH: Function = ("tanh", f64::tanh);
const SIN: Function = ("sin", num::sin);
const COS: Function = ("cos", num::cos);
const ERF: Function = ("erf", num::erf);
const SQRT: Function = ("sqrt", f64::sqrt);
const RSQRT: Function = ("rsqrt", |x| 1.0 / x.sqrt());
const RCP: Function = ("rcp", |x| 1.0 / x);

/// The function of a tile, as lanes run it.
fn program(name: &str, elem: Scalar, n: usize, target: &Target) -> Program {
    let text = format!(
        "kernel @{name}_{elem}(v0: view<{elem}, [{n}]>, v1: view<{elem}, [{n}]>) warps=1 {{\n    v2 = program_id x\n    v3 = mul v2, {TILE}\n    \
         v4 = load v0[v3] : tile<{TILE}x{elem}>\n    v5 = {name} v4\n    store v1[v3], v5\n}}\n"
    );
    lowered(&text, target)
}

fn lowered(text: &str, target: &Target) -> Program {
    let file = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let kernel = verify(&file.kernels[0]).unwrap_or_else(|e| panic!("{e}\n{text}"));
    lower(&kernel, target, &LowerOptions::default()).unwrap_or_else(|e| panic!("{e}\n{text}")).program
}

/// What the lane interpreter leaves in the buffers.
fn lanes(program: &Program, target: &Target, grid: u32, data: &[Data]) -> Vec<Vec<u8>> {
    let mut memory = Memory::new();
    let args: Vec<Arg> = data
        .iter()
        .map(|d| {
            let b = memory.add(Buffer::from_bytes(d.bytes.clone()));
            Arg::View(ViewArg::dense(b, d.elem, &[(d.bytes.len() / d.elem.bytes() as usize) as i64]))
        })
        .collect();
    interpret(program, target, [grid, 1, 1], &args, &mut memory, &LaneOptions::default())
        .unwrap_or_else(|e| panic!("{}: {e}", program.name));
    memory.buffers.iter().map(|b| b.bytes().to_vec()).collect()
}

/// Buffers with operands and with what belongs behind them.
fn wanted((_, exact): Function, elem: Scalar, values: &[u64]) -> (Vec<Data>, Vec<Vec<u8>>) {
    let n = values.len() / TILE * TILE;
    let of = |&v: &u64| num::to_bits(num::round(exact(num::from_bits(v, elem)), elem), elem);
    let want: Vec<u64> = values[..n].iter().map(of).collect();
    let input = Data::bits(elem, &values[..n]);
    let bytes = vec![input.bytes.clone(), Data::bits(elem, &want).bytes];
    (vec![input, Data::zeros(elem, n)], bytes)
}

fn check(asm: &mut Assembly, f: Function, elem: Scalar, values: &[u64], tolerance: Tolerance) {
    let (data, want) = wanted(f, elem, values);
    let n = data[0].words().len();
    let (p, grid) = (program(f.0, elem, n, &sm_80()), (n / TILE) as u32);
    let kernel = text(&p, &sm_80());
    compare(&p.name, &want, &lanes(&p, &sm_80(), grid, &data), &data, tolerance, "lanes");
    compare(&p.name, &want, &simulated(&kernel, grid, &data), &data, tolerance, &kernel.text);
    asm.add(&kernel);
}

/// A dense walk.
fn dense(lo: f64, hi: f64) -> Vec<u64> {
    (0..N).map(|i| num::to_bits(num::round(lo + (hi - lo) * i as f64 / N as f64, Scalar::F32), Scalar::F32)).collect()
}

fn wide(lo: f64, hi: f64) -> Vec<u64> {
    (0..2048).map(|i| (lo + (hi - lo) * f64::from(i) / 2047.0).to_bits()).collect()
}

#[test]
fn of_f32_and_the_16_bit_formats() {
    let asm = &mut Assembly::default();
    let relative = |e: i32| Tolerance::Relative(2f64.powi(e));
    for elem in [Scalar::F16, Scalar::BF16, Scalar::F32] {
        let x = sample(elem, N, 4);
        for (f, tolerance) in [
            (EXP, Tolerance::Exp2(2f64.powi(-21))),
            (LOG, Tolerance::Log(2f64.powi(-21))),
            (TANH, relative(-20)),
            (SIN, relative(-21)),
            (COS, relative(-21)),
            (ERF, relative(-21)),
        ] {
            check(asm, f, elem, &x, tolerance);
        }
    }
    for (f, lo, hi, tolerance) in [
        (TANH, -1.0, 1.0, relative(-20)),
        (TANH, -10.0, 10.0, relative(-20)),
        (ERF, -1.0, 1.0, relative(-21)),
        (ERF, -5.0, 5.0, relative(-21)),
        (EXP, -105.0, -85.0, Tolerance::Exp2(2f64.powi(-21))),
        (EXP, -88.0, 89.0, Tolerance::Exp2(2f64.powi(-21))),
        (LOG, 0.4, 2.1, Tolerance::Log(2f64.powi(-21))),
    ] {
        check(asm, f, Scalar::F32, &dense(lo, hi), tolerance);
    }
    // Arguments of every exponent, and those nearest to multiples of pi/2 that `f32` has (Kahan's search): what reduction makes hard.
    let every: Vec<u64> = (0..N as u64).map(|i| (i * 0x7f80_0000 / N as u64) ^ ((i & 1) << 31) ^ ((i * 0x9e37) & 0x7_ffff)).collect();
    let hard: Vec<u64> = [
        16_367_173.0f32 * 2f32.powi(72),
        std::f32::consts::FRAC_PI_2,
        std::f32::consts::PI,
        2.650_976_4e11,
        5.127_196_7e34,
        1e22,
        6.283_185_5e10,
        1.0,
    ]
    .iter()
    .flat_map(|x| (0..32u64).map(|k| u64::from(x.to_bits()) - 16 + k))
    .collect();
    for f in [SIN, COS] {
        for x in [&dense(-1.1, 1.1), &dense(-40.0, 40.0), &dense(-1e5, 1e5), &every, &hard] {
            check(asm, f, Scalar::F32, x, relative(-21));
        }
    }
    asm.check("sm_80");
}

#[test]
fn of_f64() {
    let asm = &mut Assembly::default();
    let elem = Scalar::F64;
    let walks = [sample(elem, N, 4), wide(-750.0, 715.0), wide(-1.0, 1.0), wide(0.5, 2.0), wide(-1080.0, 1030.0)];
    for x in &walks {
        for f in [EXP, EXP2, LOG, LOG2, TANH] {
            check(asm, f, elem, x, Tolerance::Relative(2f64.powi(-50)));
        }
    }
    for f in [SIN, COS, ERF] {
        check(asm, f, elem, &walks[2], Tolerance::Relative(2f64.powi(-50)));
        check(asm, f, elem, &walks[1], Tolerance::Relative(2f64.powi(-50)));
    }
    check(asm, RSQRT, elem, &walks[0], Tolerance::Exact);
    asm.check("sm_80");
}

/// Quotients round to nearest, those below the normal numbers too: from a first guess of the machine, or from none.
#[test]
fn quotients_of_a_machine_that_has_none() {
    let mut bare = sm_80();
    bare.quotients = &[];
    for functions in [&[][..], &[(UnOp::Rcp, Scalar::F32)]] {
        bare.functions = functions;
        for elem in [Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64] {
            let (mut x, mut y) = pairs(elem, 2 * N, 21);
            let n = x.len() / TILE * TILE;
            x.truncate(n);
            y.truncate(n);
            let of = |(&x, &y): (&u64, &u64)| num::to_bits(num::round(num::from_bits(x, elem) / num::from_bits(y, elem), elem), elem);
            let want = Data::bits(elem, &x.iter().zip(&y).map(of).collect::<Vec<u64>>());
            let text = format!(
                "kernel @div_{elem}(v0: view<{elem}, [{n}]>, v1: view<{elem}, [{n}]>, v2: view<{elem}, [{n}]>) warps=1 {{\n    v3 = program_id x\n    \
                 v4 = mul v3, {TILE}\n    v5 = load v0[v4] : tile<{TILE}x{elem}>\n    v6 = load v1[v4] : tile<{TILE}x{elem}>\n    v7 = div v5, v6\n    \
                 store v2[v4], v7\n}}\n"
            );
            let p = lowered(&text, &bare);
            let data = [Data::bits(elem, &x), Data::bits(elem, &y), Data::zeros(elem, n)];
            let expected = vec![data[0].bytes.clone(), data[1].bytes.clone(), want.bytes];
            let got = lanes(&p, &bare, (n / TILE) as u32, &data);
            compare(&p.name, &expected, &got, &data, Tolerance::Exact, "lanes");
        }
    }
}

/// Numbers whose roots are hard to round: random ones, squares of short numbers, and what lies next to them and to powers of 2.
fn roots(elem: Scalar) -> Vec<u64> {
    let mut out = sample(elem, N, 4);
    for i in 0..1024u64 {
        let root = 1.0 + i as f64 / 1024.0;
        let bits = num::to_bits(num::round(root * root, elem), elem);
        out.extend([bits - 1, bits, bits + 1]);
    }
    let one = num::to_bits(1.0, elem);
    out.extend((0..512).map(|i| one - 256 + i));
    out.extend((0..512).map(|i| num::to_bits(4.0, elem) - 256 + i));
    out
}

/// What a machine lacks is made of what every machine has.
#[test]
fn of_a_machine_that_has_none() {
    let mut bare = sm_80();
    (bare.functions, bare.quotients) = (&[], &[]);
    let relative = |e: i32| Tolerance::Relative(2f64.powi(e));
    for elem in [Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64] {
        let x = sample(elem, 1024, 4);
        let (near, far) = if elem == Scalar::F64 { (relative(-50), Tolerance::Exact) } else { (relative(-20), relative(-22)) };
        for (f, tolerance) in [(EXP, near), (EXP2, near), (LOG, near), (LOG2, near), (TANH, near), (ERF, near), (RSQRT, far), (RCP, far)] {
            let (data, want) = wanted(f, elem, &x);
            let p = program(f.0, elem, 1024, &bare);
            compare(&p.name, &want, &lanes(&p, &bare, 4, &data), &data, tolerance, "lanes");
        }
    }
    // Square roots round to nearest, from a first guess of the machine or from none.
    for functions in [&[][..], &[(UnOp::Rsqrt, Scalar::F32)]] {
        bare.functions = functions;
        for elem in [Scalar::F16, Scalar::BF16, Scalar::F32, Scalar::F64] {
            let (data, want) = wanted(SQRT, elem, &roots(elem));
            let p = program(SQRT.0, elem, data[0].words().len(), &bare);
            let grid = (data[0].words().len() / TILE) as u32;
            compare(&p.name, &want, &lanes(&p, &bare, grid, &data), &data, Tolerance::Exact, "lanes");
        }
    }
}
