use super::*;
use crate::tensor::{Role, Tensor, TensorSpec, decode, in_parallel};
use crate::workload::Step;
use Scalar::{BF16, F16, F32};
use Size::{Large, Small};
use std::collections::BTreeSet;
use tilelift_interp::{Options, check_args_in, interpret};
use tilelift_ir::verify;
use tilelift_ir::{Scalar, num};

#[test]
fn every_kernel_builds_and_verifies_and_has_the_tensors_as_parameters() {
    for case in cases() {
        let kernel = case.build().unwrap_or_else(|e| panic!("{}: {e}", case.name));
        if let Err(e) = verify(&kernel) {
            panic!("{}: {e}", case.name);
        }
        let all = case.tensors();
        let steps = case.workload.steps().unwrap();
        assert!(!steps.is_empty() && steps[0].kernel.name == kernel.name, "{}", case.name);
        for Step { kernel, grid, tensors, scalars } in steps {
            assert!(grid[0].is_multiple_of(case.grid()[0]) && grid[1..] == case.grid()[1..], "{}", case.name);
            assert_eq!(kernel.params.len(), tensors.len() + scalars.len(), "{}", case.name);
            for (&p, t) in kernel.params.iter().zip(tensors.iter().map(|&i| &all[i])) {
                let view = kernel.ty(p).as_view().unwrap_or_else(|| panic!("{}: {} is no view", case.name, t.name));
                assert_eq!((view.elem, view.rank()), (t.elem, t.shape.len()), "{} {}", case.name, t.name);
                let kept = view.dims.iter().zip(&t.shape).all(|(d, &e)| e.is_multiple_of(d.divisor()));
                assert!(kept, "{}: {} does not keep the facts of {view}", case.name, t.name);
            }
            for (&p, s) in kernel.params[tensors.len()..].iter().zip(&scalars) {
                assert_eq!(*kernel.ty(p), s.elem.into(), "{}", case.name);
                assert_eq!(if s.elem.is_float() { num::round(s.value, s.elem) } else { s.value.trunc() }, s.value);
            }
        }
        assert!(all.iter().any(|t| t.role.is_output()), "{}", case.name);
    }
}

#[test]
fn names_are_unique_and_every_row_has_small_and_large_cases() {
    let list = cases();
    let names: BTreeSet<&str> = list.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names.len(), list.len());
    for row in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 17] {
        for size in [Small, Large] {
            assert!(list.iter().any(|c| c.row == row && c.size == size), "row {row} {size:?}");
        }
    }
}

#[test]
fn programs_partition_the_output() {
    for case in cases() {
        for (number, out) in case.tensors().iter().filter(|t| t.role.is_output()).enumerate() {
            let row = *out.shape.last().unwrap() as usize;
            let mut ranges: Vec<_> = case.all_programs().flat_map(|p| case.workload.owned(number, p)).collect();
            if out.role == Role::InOut {
                assert!(ranges.is_empty(), "{}: programs share what they update", case.name);
                continue;
            }
            assert!(ranges.iter().all(|r| r.start / row == (r.end - 1) / row), "{}", case.name);
            ranges.sort_unstable_by_key(|r| r.start);
            assert_eq!(ranges[0].start, 0, "{}", case.name);
            assert!(ranges.windows(2).all(|w| w[0].end == w[1].start), "{}", case.name);
            assert_eq!(ranges[ranges.len() - 1].end, out.elements(), "{}", case.name);
            let [x, y, z] = case.grid();
            for outside in [[x, 0, 0], [0, y, 0], [0, 0, z], [u32::MAX, 0, 0]] {
                assert!(case.workload.owned(number, outside).is_empty(), "{} {outside:?}", case.name);
            }
        }
    }
}

#[test]
fn samples_are_stable_ordered_and_inside_the_grid() {
    for case in cases() {
        let grid = case.grid();
        let all = grid.iter().map(|&e| e as usize).product::<usize>();
        for count in [1, 2, 5, all + 1] {
            let s = case.sample(count);
            assert!(!s.is_empty() && s.len() <= count.min(all));
            assert!(s.iter().all(|p| p.iter().zip(&grid).all(|(a, b)| a < b)), "{}", case.name);
            assert!(s.windows(2).all(|w| w[0].iter().rev().lt(w[1].iter().rev())));
            if count > 1 {
                assert_eq!(s[s.len() - 1], grid.map(|e| e - 1));
            }
            assert_eq!(s, case.sample(count));
        }
        assert_eq!(case.sample(all + 1).len(), all);
    }
}

/// The reference itself, rounded to the outputs' types, and written only where the programs own elements or share them.
fn ideal(case: &Case, tensors: &[Tensor], programs: &[[u32; 3]]) -> Vec<Vec<u8>> {
    let outputs = case.tensors().into_iter().zip(tensors).filter(|(s, _)| s.role.is_output()).enumerate();
    let one = |(number, (spec, t)): (usize, (TensorSpec, &Tensor))| {
        let (mut bytes, width) = (t.bytes.clone(), spec.elem.bytes() as usize);
        let reference = case.workload.reference(number, tensors, Some(programs));
        for range in case.judged(number, &spec, Some(programs)) {
            for (i, e) in range.clone().zip(reference(range)) {
                put(&mut bytes[i * width..(i + 1) * width], e.value, spec.elem);
            }
        }
        bytes
    };
    outputs.map(one).collect()
}

fn slices(outputs: &[Vec<u8>]) -> Vec<&[u8]> {
    outputs.iter().map(Vec::as_slice).collect()
}

fn put(raw: &mut [u8], value: f64, elem: Scalar) {
    let bits = if elem.is_float() { num::to_bits(num::round(value, elem), elem) } else { value as i64 as u64 };
    let width = raw.len();
    raw.copy_from_slice(&bits.to_le_bytes()[..width]);
}

/// One case a kernel, small.
fn examples() -> Vec<Case> {
    let names = [
        "vector_add_f16_7",
        "silu_mul_f32_7",
        "softmax_f32_33x1",
        "rms_norm_bf16_7x129",
        "transpose_i8_131x67",
        "scatter_add_i32_100_13x67",
        "quantise_both_bf16_f8e4m3_35x256",
    ];
    let mut list = cases();
    list.retain(|c| names.contains(&c.name.as_str()) || c.name.starts_with("gemm_tn_f16_f16_5x11x7"));
    assert!(list.len() > names.len());
    list
}

#[test]
fn the_rounded_reference_passes_every_small_case_and_samples_of_large_ones() {
    let few = |case: &Case| case.tensors().iter().map(TensorSpec::elements).max() <= Some(1 << 22);
    in_parallel(cases().into_iter().filter(few).collect(), |case| {
        let tensors = case.make_tensors();
        let ran = if case.size == Small { case.all_programs().collect() } else { case.sample(3) };
        let output = ideal(&case, &tensors, &ran);
        let verdict = case.check(&tensors, &slices(&output), Some(&ran)).unwrap();
        assert!(verdict.pass(), "{}: {verdict}", case.name);
        if case.size == Small {
            // As text, where NaN equals itself.
            let all = case.check(&tensors, &slices(&output), None).unwrap();
            assert_eq!(format!("{verdict:?}"), format!("{all:?}"));
        }
    });
}

#[test]
fn a_wrong_missing_or_stray_element_fails() {
    for case in examples() {
        let tensors = case.make_tensors();
        let all: Vec<_> = case.all_programs().collect();
        let good = ideal(&case, &tensors, &all);
        let specs: Vec<TensorSpec> = case.tensors().into_iter().filter(|t| t.role.is_output()).collect();
        for (number, out) in specs.iter().enumerate() {
            let width = out.elem.bytes() as usize;
            let n = out.elements();
            for i in [0, n / 2, n - 1] {
                let place = i * width..(i + 1) * width;
                let mut bad = good.clone();
                let value = decode(&good[number][place.clone()], out.elem);
                let other = if out.elem.is_float() { value * 1.1 + 1e-3 } else { num::wrap(value as i64 + 1, out.elem) as f64 };
                put(&mut bad[number][place.clone()], other, out.elem);
                let verdict = case.check(&tensors, &slices(&bad), None).unwrap();
                assert!(!verdict.pass() && verdict.mismatches == 1, "{}: {verdict}", case.name);
                let worst = verdict.worst.unwrap();
                assert_eq!((worst.tensor, worst.index), (out.name, i));

                // Poison left where a value belongs.
                let mut bad = good.clone();
                bad[number][place].fill(0xff);
                let verdict = case.check(&tensors, &slices(&bad), None).unwrap();
                let minus_one = !out.elem.is_float() && value == -1.0;
                assert!(minus_one || !verdict.pass(), "{}: {verdict}", case.name);
            }
        }
        if all.len() > 1 {
            // Everything is written though only the first program ran.
            let verdict = case.check(&tensors, &slices(&good), Some(&all[..1])).unwrap();
            let shared = specs.iter().any(|s| s.role == Role::InOut);
            assert!(!verdict.pass() && (shared || verdict.stray_bytes > 0), "{}: {verdict}", case.name);
        }
    }
}

#[test]
fn arguments_of_other_shapes_are_refused() {
    for case in examples() {
        let mut tensors = case.make_tensors();
        let output = tensors[tensors.len() - 1].bytes.clone();
        let specs = case.tensors();
        let outputs: Vec<&[u8]> = specs.iter().zip(&tensors).filter(|(s, _)| s.role.is_output()).map(|(_, t)| &t.bytes[..]).collect();
        let outputs: Vec<Vec<u8>> = outputs.into_iter().map(<[u8]>::to_vec).collect();
        let mut short = slices(&outputs);
        let last = short.len() - 1;
        short[last] = &short[last][1..];
        let short = case.check(&tensors, &short, None);
        let name = specs[specs.len() - 1].name;
        assert_eq!(short, Err(CheckError::OutputLength { name, want: output.len(), got: output.len() - 1 }));
        let none = case.check(&tensors, &[], None);
        assert_eq!(none, Err(CheckError::OutputCount { want: outputs.len(), got: 0 }));
        let few = case.check(&tensors[1..], &slices(&outputs), None);
        assert_eq!(few, Err(CheckError::TensorCount { want: tensors.len(), got: tensors.len() - 1 }));
        tensors[0].bytes.pop();
        let name = case.tensors()[0].name;
        assert_eq!(case.check(&tensors, &slices(&outputs), None), Err(CheckError::Tensor { name }));
    }
}

#[test]
fn tolerances_are_no_wider_than_the_kernels_are_asked_for() {
    // (row, element) to (rtol, atol), as the kernel list states them.
    let asked = |row: u32, elem: Scalar| match (row, elem) {
        (1, F32) => (2e-6, 1e-36),
        (3, F32) => (1e-5, 1e-7),
        (3, F16) => (0.0, 5e-4),
        (4, F16) => (2e-3, 2e-3),
        (4, BF16) => (1.6e-2, 1.6e-2),
        (6, F32) => (1e-5, 1e-5),
        // A rounding per row that meets, of sums of some twenty rows.
        (6, F16) => (0.0, 0.1),
        // Half a unit in the last place of bf16 is 2^-9 of a number; the kernel list allows a whole one.
        (7, BF16) => (2f64.powi(-8), 8e-3),
        (17, F16) => (0.0, 2e-3),
        (17, BF16) => (0.0, 1e-2),
        _ => (1e-2, 1e-2),
    };
    let product = |c: &Case| matches!(c.row, 9..=12 | 14);
    for case in cases().iter().filter(|c| c.size == Small && !product(c) && !c.name.contains("special")) {
        let tensors = case.make_tensors();
        for (number, out) in case.tensors().iter().filter(|t| t.role.is_output()).enumerate() {
            let (rtol, atol) = asked(case.row, out.elem);
            let reference = case.workload.reference(number, &tensors, None);
            for e in case.judged(number, out, None).into_iter().flat_map(reference) {
                assert!(e.tolerance <= rtol * e.value.abs() + atol, "{} {e:?}", case.name);
            }
        }
    }
    for case in cases().iter().filter(|c| product(c)) {
        let out = case.tensors().last().map(|t| t.elem);
        let bar = case.workload.rel_l2_bar().unwrap();
        assert!(bar <= if out == Some(BF16) { 4e-3 } else { 1e-3 }, "{} {bar}", case.name);
    }
}

/// Interprets some programs of a case and judges the output.
fn interpreted(case: &Case, programs: Option<Vec<[u32; 3]>>) -> Verdict {
    let tensors = case.make_tensors();
    let mut memory = case.memory(&tensors);
    for launch in case.launches(programs.as_deref()).unwrap() {
        let kernel = verify(&launch.kernel).unwrap();
        let options = Options { programs: launch.programs, ..Options::default() };
        if let Err(e) = interpret(&kernel, launch.grid, &launch.args, &mut memory, &options) {
            panic!("{}: {e}", case.name);
        }
    }
    case.judge(&tensors, &memory, programs.as_deref()).unwrap()
}

#[test]
fn arguments_are_valid_for_every_case() {
    for case in cases() {
        let buffers: Vec<u64> = case.tensors().iter().map(|t| t.byte_len() as u64).collect();
        for launch in case.launches(None).unwrap() {
            if let Err(e) = check_args_in(&launch.kernel, &launch.args, &buffers) {
                panic!("{}: {e}", case.name);
            }
        }
    }
}

#[test]
fn the_interpreter_passes_every_small_case() {
    for case in cases().iter().filter(|c| c.size == Small) {
        let verdict = interpreted(case, None);
        assert!(verdict.pass(), "{}: {verdict}", case.name);
    }
}

#[test]
fn the_interpreter_passes_samples_of_large_cases() {
    for case in cases().iter().filter(|c| c.size == Large) {
        // Tens of millions of elements take seconds to make; the release run below has them.
        if case.tensors().iter().map(TensorSpec::elements).max() > Some(1 << 21) {
            continue;
        }
        let verdict = interpreted(case, Some(case.sample(2)));
        assert!(verdict.pass(), "{}: {verdict}", case.name);
    }
}
