//! Buffers of a run line: filling them, reading elements back, comparing two runs.

use super::runline::{ArgSpec, Expect, Init, Number, RunLine, Tensor, Tolerance, Want};
use smallvec::SmallVec;
use std::path::Path;
use std::thread;
use tilelift_interp::{Arg, Buffer, Memory, ScalarArg, ViewArg};
use tilelift_ir::{Kernel, Scalar, Type, num};
use tilelift_kernels::rng;

/// The arguments of a run line, and the memory they refer to (buffer `i` belongs to the `i`-th tensor).
///
/// # Errors
/// A sentence, if the line does not fit the kernel's parameters.
pub fn arguments(run: &RunLine, kernel: &Kernel) -> Result<(Vec<Arg>, Memory), String> {
    let args = shaped(run, kernel)?;
    let mut memory = Memory::new();
    for (i, (spec, arg)) in run.args.iter().zip(&args).enumerate() {
        if let (ArgSpec::Tensor(t), Arg::View(view)) = (spec, arg) {
            memory.add(fill(view, t).map_err(|e| format!("v{i}: {e}"))?);
        }
    }
    Ok((args, memory))
}

/// The arguments alone.
///
/// # Errors
/// As [`arguments`].
pub fn shaped(run: &RunLine, kernel: &Kernel) -> Result<Vec<Arg>, String> {
    if run.args.len() != kernel.params.len() {
        return Err(format!("@{} has {} parameters, the run line gives {}", kernel.name, kernel.params.len(), run.args.len()));
    }
    let (mut args, mut buffers) = (Vec::new(), 0);
    for (i, (spec, &param)) in run.args.iter().zip(&kernel.params).enumerate() {
        args.push(match (spec, kernel.ty(param)) {
            (ArgSpec::Scalar(n), Type::Scalar(elem)) => match n {
                Number::Int(x) => ScalarArg::int(*elem, *x).into(),
                Number::Float(x) => ScalarArg::float(*elem, *x).into(),
            },
            (ArgSpec::Tensor(t), Type::View(v)) => {
                buffers += 1;
                view(buffers - 1, t, v.elem).into()
            }
            (ArgSpec::Scalar(_) | ArgSpec::Tensor(_), ty) => return Err(format!("v{i} is {ty}; the run line gives something else")),
        });
    }
    Ok(args)
}

fn view(buffer: usize, t: &Tensor, elem: Scalar) -> ViewArg {
    let view = ViewArg::dense(buffer, elem, &t.shape).at(t.offset);
    match &t.strides {
        Some(s) => view.with_strides(s),
        None => view,
    }
}

/// Width of an element in memory, in bits: two packed elements share a byte.
fn width(elem: Scalar) -> usize {
    if elem.is_packed() { 4 } else { elem.bytes() as usize * 8 }
}

/// Positions of a view's elements in its buffer, in bits, row-major.
fn positions(view: &ViewArg) -> Vec<usize> {
    let mut list = vec![view.offset_bytes as usize * 8];
    for (&extent, &stride) in view.shape.iter().zip(&view.strides) {
        let step = (stride as usize) * width(view.elem);
        list = list.into_iter().flat_map(|p| (0..extent as usize).map(move |i| p + i * step)).collect();
    }
    list
}

/// The bytes of a file that holds all elements of a view.
fn file(path: &str, view: &ViewArg) -> Result<Vec<u8>, String> {
    let elements = view.shape.iter().fold(1usize, |n, &e| n.saturating_mul(e.max(0) as usize));
    let need = view.elem.storage(elements);
    let bytes = crate::read::whole(Path::new(path), need as u64).map_err(|e| format!("{path}: {e}"))?;
    if bytes.len() < need {
        let (elem, shape) = (view.elem, &view.shape);
        return Err(format!(
            "{path}: has {} bytes, and {elem} {shape:?} takes {need}; a file holds the elements as memory does",
            bytes.len()
        ));
    }
    Ok(bytes)
}

fn fill(view: &ViewArg, t: &Tensor) -> Result<Buffer, String> {
    let len = view.byte_range().end as usize;
    if t.init == Init::Poison {
        return Ok(Buffer::uninit(len));
    }
    let held = match &t.init {
        Init::File(path) => file(path, view)?,
        Init::Poison
        | Init::Rand(_)
        | Init::Uniform(..)
        | Init::Bits(_)
        | Init::Edge { .. }
        | Init::Iota
        | Init::Fill(_)
        | Init::Values(_) => Vec::new(),
    };
    // Bytes between and in front of the elements are no element's, so no kernel may look at them: NaN and -1.
    let mut bytes = vec![0xff; len];
    let width = width(view.elem);
    if t.strides.is_none() {
        let dense = &mut bytes[(view.offset_bytes as usize).min(len)..];
        match &t.init {
            Init::File(_) => dense.copy_from_slice(&held[..dense.len()]),
            init => fill_dense(dense, view, init),
        }
        return Ok(Buffer::from_bytes(bytes));
    }
    let of = |i: usize| match &t.init {
        Init::File(_) => bits_at(&held, i * width, view.elem),
        init => pair(init, i as u64 & !1, view.elem)[i & 1],
    };
    for (i, at) in positions(view).into_iter().enumerate() {
        let (bits, byte) = (of(i), at / 8);
        if width < 8 {
            bytes[byte] = bytes[byte] & !(15 << (at % 8)) | (bits as u8 & 15) << (at % 8);
        } else {
            bytes[byte..byte + width / 8].copy_from_slice(&bits.to_le_bytes()[..width / 8]);
        }
    }
    Ok(Buffer::from_bytes(bytes))
}

/// Elements that a thread fills at least.
const EACH: usize = 1 << 16;

/// Fills the elements of a dense view, of which the bytes are all.
fn fill_dense(bytes: &mut [u8], view: &ViewArg, init: &Init) {
    let elements = view.shape.iter().map(|&e| e as usize).product::<usize>();
    // Two elements at a time: normal deviates come in pairs, and packed elements share a byte.
    let both = (2 * width(view.elem) / 8).max(1);
    let threads = thread::available_parallelism().map_or(1, |n| n.get().min(16));
    let chunk = elements.div_ceil(2).div_ceil(threads).max(EACH);
    let one = |bytes: &mut [u8], first: usize| {
        for (n, two) in bytes.chunks_mut(both).enumerate() {
            let at = 2 * (first + n);
            // Values are as many as elements.
            let [a, b] = if at + 1 < elements { pair(init, at as u64, view.elem) } else { [element(init, at as u64, view.elem), 0] };
            if view.elem.is_packed() {
                let high = if at + 1 < elements { b as u8 & 15 } else { 15 };
                two[0] = a as u8 & 15 | high << 4;
            } else {
                two.chunks_mut(both / 2).zip([a, b]).for_each(|(to, bits)| to.copy_from_slice(&bits.to_le_bytes()[..both / 2]));
            }
        }
    };
    thread::scope(|s| {
        for (t, part) in bytes.chunks_mut(chunk * both).enumerate() {
            s.spawn(move || one(part, t * chunk));
        }
    });
}

/// The bits of elements `i` and `i + 1`, of an even `i`.
fn pair(init: &Init, i: u64, elem: Scalar) -> [u64; 2] {
    match init {
        Init::Rand(seed) if elem.is_float() => rng::normal_pair(*seed, i / 2).map(|x| normal(elem, x)),
        Init::Values(v) if i as usize + 1 >= v.len() => [element(init, i, elem), 0],
        init => [i, i + 1].map(|i| element(init, i, elem)),
    }
}

/// The bits of element `i`.
fn element(init: &Init, i: u64, elem: Scalar) -> u64 {
    let int = |x: i64| ScalarArg::int(elem, x).bits();
    match init {
        // A file's elements are copied.
        Init::Poison | Init::File(_) => u64::MAX,
        Init::Rand(seed) if elem.is_float() => normal(elem, rng::normal_pair(*seed, i / 2)[(i % 2) as usize]),
        Init::Uniform(seed, ends) => uniform(rng::bits(*seed, i), *ends, elem),
        Init::Rand(seed) | Init::Bits(seed) => raw_bits(rng::bits(*seed, i), elem),
        Init::Edge { slow } => {
            let edges = edges(elem);
            let n = edges.len() as u64;
            edges[(if *slow { i / n } else { i } % n) as usize]
        }
        Init::Iota => int(i as i64),
        Init::Fill(n) => bits_of(*n, elem),
        Init::Values(v) => bits_of(v[i as usize], elem),
    }
}

/// The bits of a deviate; of its magnitude where a type has no sign.
fn normal(elem: Scalar, x: f64) -> u64 {
    ScalarArg::float(elem, if elem == Scalar::F8E8M0 { x.abs() } else { x }).bits()
}

/// A number between two others, by random bits.
fn uniform(bits: u64, [lo, hi]: [Number; 2], elem: Scalar) -> u64 {
    match [lo, hi] {
        [Number::Int(lo), Number::Int(hi)] if !elem.is_float() => {
            let count = u128::from(hi.abs_diff(lo)) + 1;
            let of = ((u128::from(bits) * count) >> 64) as i64;
            ScalarArg::int(elem, lo.wrapping_add(of)).bits()
        }
        [lo, hi] => {
            let part = (bits >> 11) as f64 / (1u64 << 53) as f64;
            let x = lo.as_f64() + part * (hi.as_f64() - lo.as_f64());
            if elem.is_float() { ScalarArg::float(elem, x).bits() } else { ScalarArg::int(elem, x.floor() as i64).bits() }
        }
    }
}

/// The low bits as a type has them: sign-extended for integers, 0 or 1 for `i1`.
fn raw_bits(bits: u64, elem: Scalar) -> u64 {
    if elem.is_float() { bits } else { num::wrap(bits as i64, elem) as u64 }
}

/// The bits of a written number in an element type.
fn bits_of(n: Number, elem: Scalar) -> u64 {
    match n {
        Number::Int(x) => ScalarArg::int(elem, x).bits(),
        Number::Float(x) => ScalarArg::float(elem, x).bits(),
    }
}

/// Bits of remarkable values of a type.
fn edges(elem: Scalar) -> Vec<u64> {
    if elem == Scalar::I1 {
        return vec![0, 1];
    }
    if elem.is_int() {
        let min = num::wrap(1i64 << (elem.bits() - 1), elem);
        let max = !min;
        let width = i64::from(elem.bits());
        let list = [0, 1, -1, 2, -2, 3, -7, 10, width - 1, width, width + 1, min, min + 1, max, max - 1, 100];
        return list.iter().map(|&x| num::wrap(x, elem) as u64).collect();
    }
    if elem.is_narrow() {
        return (0..1 << elem.bits()).map(|b| raw_bits(b, elem)).collect();
    }
    let infinity = num::to_bits(f64::INFINITY, elem);
    // The lowest bit of infinity is the lowest exponent bit, hence the smallest normal number.
    let normal = infinity & infinity.wrapping_neg();
    let sign = 1u64 << (elem.bits() - 1);
    let one = num::to_bits(1.0, elem);
    let of = |x: f64| num::to_bits(num::round(x, elem), elem);
    let positive =
        [0, 1, normal - 1, normal, one, one + 1, one - 1, of(0.5), of(1.5), of(2.5), of(3.0), of(10.0), of(1e4), infinity - 1, infinity];
    let mut list: Vec<u64> = positive.iter().flat_map(|&b| [b, b | sign]).collect();
    list.push(num::to_bits(f64::NAN, elem));
    list
}

/// The elements of a view, row-major.
pub fn elements(view: &ViewArg, memory: &Memory) -> Vec<Number> {
    let bytes = memory.buffers[view.buffer].bytes();
    positions(view).into_iter().map(|at| value(bytes, at, view.elem)).collect()
}

/// The number at a position (in bits) of some bytes.
fn value(bytes: &[u8], at: usize, elem: Scalar) -> Number {
    number(bits_at(bytes, at, elem), elem)
}

/// The number of an element's bits.
pub(crate) fn number(bits: u64, elem: Scalar) -> Number {
    if elem.is_float() { Number::Float(num::from_bits(bits, elem)) } else { Number::Int(num::wrap(bits as i64, elem)) }
}

/// The bits at a position (in bits) of some bytes.
pub(crate) fn bits_at(bytes: &[u8], at: usize, elem: Scalar) -> u64 {
    if elem.is_packed() {
        return u64::from(bytes[at / 8] >> (at % 8) & 15);
    }
    let width = elem.bytes() as usize;
    let mut raw = [0; 8];
    raw[..width].copy_from_slice(&bytes[at / 8..at / 8 + width]);
    u64::from_le_bytes(raw)
}

/// Compares what two runs left in memory: every view element within the tolerance, every other byte equal.
///
/// # Errors
/// A sentence that names the first difference.
pub fn compare(args: &[Arg], want: &Memory, got: &Memory, tolerance: &Tolerance) -> Result<(), String> {
    for (param, arg) in args.iter().enumerate() {
        let Arg::View(view) = arg else { continue };
        let (w, g) = (want.buffers[view.buffer].bytes(), got.buffers[view.buffer].bytes());
        // Equal bytes are equal elements, and most buffers are inputs.
        if w == g {
            continue;
        }
        let width = width(view.elem).div_ceil(8);
        let mut covered = vec![false; w.len()];
        let (mut wrong, mut first, mut largest) = (0usize, None, 0f64);
        let places = positions(view);
        for (i, &at) in places.iter().enumerate() {
            covered[at / 8..at / 8 + width].fill(true);
            if bits_at(w, at, view.elem) == bits_at(g, at, view.elem) {
                continue;
            }
            let (x, y) = (value(w, at, view.elem), value(g, at, view.elem));
            // Integers differ if their bytes do.
            let same = if view.elem.is_float() { tolerance.accepts(x.as_f64(), y.as_f64()) } else { false };
            if !same {
                wrong += 1;
                largest = largest.max((x.as_f64() - y.as_f64()).abs());
                first.get_or_insert((i, x, y));
            }
        }
        if let Some((i, x, y)) = first {
            return Err(format!(
                "v{param}: {wrong} of {} elements differ, first at {:?}: {y} instead of {x}{}",
                places.len(),
                coordinates(i, &view.shape),
                if view.elem.is_float() { without_tolerance(tolerance, largest) } else { String::new() }
            ));
        }
        if let Some(at) = (0..w.len()).find(|&i| !covered[i] && w[i] != g[i]) {
            return Err(format!("v{param}: byte {at} of the buffer, which no element covers, was written"));
        }
    }
    Ok(())
}

/// What is said of floats that differ although nobody said how far they may.
fn without_tolerance(tolerance: &Tolerance, largest: f64) -> String {
    if *tolerance != Tolerance::default() {
        return String::new();
    }
    format!(
        "; they differ by {largest:.1e} at most, and the line has no `tol`, so every bit counts; devices sum in an order of their own: if that is \
         rounding, write `tol rel=… abs=…` behind the arguments"
    )
}

/// The tensors that hold nothing in front of a launch, and nothing behind it either, by parameter.
pub fn unwritten(run: &RunLine, args: &[Arg], after: &Memory) -> Vec<usize> {
    let holds_nothing = |(_, (spec, arg)): &(usize, (&ArgSpec, &Arg))| match (spec, arg) {
        (ArgSpec::Tensor(Tensor { init: Init::Poison, .. }), Arg::View(view)) => {
            let places = positions(view);
            !places.is_empty() && !places.iter().any(|&at| is_written(view, after, at))
        }
        _ => false,
    };
    run.args.iter().zip(args).enumerate().filter(holds_nothing).map(|(param, _)| param).collect()
}

/// True if the element at a position, in bits, holds something.
fn is_written(view: &ViewArg, memory: &Memory, at: usize) -> bool {
    memory.buffers[view.buffer].is_initialised(at / 8..at / 8 + width(view.elem).div_ceil(8))
}

/// The elements of a view that were written, or are others than before: where they begin, in bits, and their bits.
pub(crate) fn changed(view: &ViewArg, before: &Buffer, after: &Buffer) -> Vec<(usize, u64)> {
    let width = width(view.elem).div_ceil(8);
    let held = |b: &Buffer, at: usize| b.is_initialised(at / 8..at / 8 + width).then(|| bits_at(b.bytes(), at, view.elem));
    let of = |at: usize| held(after, at).filter(|&bits| held(before, at) != Some(bits)).map(|bits| (at, bits));
    positions(view).into_iter().filter_map(of).collect()
}

/// Coordinates of the element of a view that begins at a position, in bits.
pub(crate) fn coordinates_at(view: &ViewArg, at: usize) -> Vec<usize> {
    let n = positions(view).into_iter().position(|p| p == at).unwrap_or_default();
    coordinates(n, &view.shape).to_vec()
}

/// Coordinates of row-major element `i`.
fn coordinates(mut i: usize, shape: &[i64]) -> SmallVec<[usize; 4]> {
    let mut c: SmallVec<[usize; 4]> = SmallVec::from_elem(0, shape.len());
    for (d, &e) in shape.iter().enumerate().rev() {
        c[d] = i % (e as usize).max(1);
        i /= (e as usize).max(1);
    }
    c
}

/// Checks that an expectation speaks of elements that hold something behind a launch, on the interpreter, which knows.
///
/// # Errors
/// A sentence that names the first one that does not.
pub fn written(e: &Expect, view: &ViewArg, memory: &Memory) -> Result<(), String> {
    match positions(view).into_iter().position(|at| !is_written(view, memory, at)) {
        Some(n) => Err(format!("{}: element {:?} is compared, and the kernel has not written it", e.name, coordinates(n, &view.shape))),
        None => Ok(()),
    }
}

/// Compares a view with what a line expects of it, numbers or a file.
///
/// # Errors
/// A sentence that names the first difference, or what is wrong with the file.
pub fn expected(e: &Expect, view: &ViewArg, memory: &Memory, tolerance: &Tolerance) -> Result<(), String> {
    let exact = Tolerance::default();
    let tolerance = if e.near { tolerance } else { &exact };
    match &e.want {
        Want::Values(values) => compare_values(&e.name, view, memory, values, tolerance),
        Want::File(path) => {
            let held = file(path, view).map_err(|why| format!("{}: {why}", e.name))?;
            let got = memory.buffers[view.buffer].bytes();
            for (i, at) in positions(view).into_iter().enumerate() {
                let (x, y) = (value(&held, i * width(view.elem), view.elem), value(got, at, view.elem));
                if !tolerance.accepts_number(x, y) {
                    return Err(format!("{}: element {:?} is {y}, {path} has {x}", e.name, coordinates(i, &view.shape)));
                }
            }
            Ok(())
        }
    }
}

/// Compares a view with written numbers.
///
/// # Errors
/// A sentence that names the first difference.
pub fn compare_values(name: &str, view: &ViewArg, memory: &Memory, want: &[Number], tolerance: &Tolerance) -> Result<(), String> {
    let got = elements(view, memory);
    if got.len() != want.len() {
        return Err(format!("{name} has {} elements, but {} are expected", got.len(), want.len()));
    }
    for (i, (&y, n)) in got.iter().zip(want).enumerate() {
        let x = number(bits_of(*n, view.elem), view.elem);
        if !tolerance.accepts_number(x, y) {
            let all: Vec<String> = got.iter().map(Number::to_string).collect();
            return Err(format!("{name}: element {:?} is {y}, expected {x}; all: [{}]", coordinates(i, &view.shape), all.join(", ")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_tensors_hold_what_strided_ones_do() {
        let values = Init::Values((0..35).map(Number::Int).collect());
        for init in [Init::Rand(3), Init::Bits(4), Init::Edge { slow: true }, Init::Iota, Init::Fill(Number::Float(0.5)), values] {
            for elem in [Scalar::F32, Scalar::BF16, Scalar::I8, Scalar::I4, Scalar::I64] {
                let dense = Tensor { init: init.clone(), shape: vec![5, 7], strides: None, offset: 8 };
                let spread = Tensor { strides: Some(vec![7, 1]), ..dense.clone() };
                let filled = |t: &Tensor| fill(&view(0, t, elem), t).unwrap();
                assert_eq!(filled(&dense), filled(&spread), "{init:?} {elem}");
            }
        }
        // More than a thread's share.
        let large = Tensor { init: Init::Rand(3), shape: vec![300_001], strides: None, offset: 0 };
        let spread = Tensor { strides: Some(vec![1]), ..large.clone() };
        assert!(fill(&view(0, &large, Scalar::F16), &large) == fill(&view(0, &spread, Scalar::F16), &spread));
    }

    #[test]
    fn numbers_of_a_range_are_in_it() {
        let filled = |ends: [Number; 2], elem: Scalar| {
            let t = Tensor { init: Init::Uniform(5, ends), shape: vec![999], strides: None, offset: 0 };
            let (view, buffer) = (view(0, &t, elem), fill(&view(0, &t, elem), &t).unwrap());
            let at = |p: usize| number(bits_at(buffer.bytes(), p, elem), elem).as_f64();
            positions(&view).into_iter().map(at).collect::<Vec<f64>>()
        };
        let ints = filled([Number::Int(-2), Number::Int(1)], Scalar::I32);
        assert!((-2..=1).all(|n| ints.contains(&f64::from(n))) && ints.iter().all(|x| (-2.0..=1.0).contains(x)));
        for elem in [Scalar::F32, Scalar::F8E4M3, Scalar::F8E5M2] {
            let floats = filled([Number::Float(-0.5), Number::Int(1)], elem);
            assert!(floats.iter().all(|x| (-0.5..=1.0).contains(x)), "{elem}");
            assert!(floats.iter().any(|x| *x < -0.25) && floats.iter().any(|x| *x > 0.75), "{elem}");
        }
    }

    #[test]
    fn what_nobody_wrote_is_no_result() {
        let run = super::super::runline::parse(1, "@k(grid=1, out v0=[2], out v1=[2])").unwrap();
        let mut memory = Memory::new();
        let views = [0, 1].map(|_| {
            let buffer = memory.add(Buffer::uninit(8));
            ViewArg::dense(buffer, Scalar::F32, &[2])
        });
        memory.buffers[1].write(4, &1f32.to_le_bytes());
        let args = views.clone().map(Arg::from);
        assert_eq!(unwritten(&run, &args, &memory), [0]);
        let zeros =
            |param| Expect { param, name: format!("v{param}"), near: false, want: Want::Values(vec![Number::Int(0), Number::Int(1)]) };
        let e = written(&zeros(1), &views[1], &memory).unwrap_err();
        assert_eq!(e, "v1: element [0] is compared, and the kernel has not written it");
    }

    #[test]
    fn floats_that_differ_without_a_tolerance_are_told_about_it() {
        let (mut want, mut got) = (Memory::new(), Memory::new());
        want.add(Buffer::from_f64(Scalar::F32, [1.0, 2.0]));
        got.add(Buffer::from_f64(Scalar::F32, [1.0, 2.0000002]));
        let args = [Arg::from(ViewArg::dense(0, Scalar::F32, &[2]))];
        let e = compare(&args, &want, &got, &Tolerance::default()).unwrap_err();
        assert!(e.contains("differ by 2.4e-7 at most") && e.contains("write `tol rel=… abs=…`"), "{e}");
        let e = compare(&args, &want, &got, &Tolerance { rel: 1e-9, abs: 0.0 }).unwrap_err();
        assert!(!e.contains("tol"), "{e}");
    }

    #[test]
    fn files_hold_elements_as_memory_does() {
        let path = std::env::temp_dir().join(format!("tilelift-data-{}.bin", std::process::id()));
        let name = path.to_string_lossy().into_owned();
        std::fs::write(&path, [1.5f32, -2.0, 3.0, 4.0].iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>()).unwrap();
        let t = Tensor { init: Init::File(name.clone()), shape: vec![2, 2], strides: Some(vec![4, 1]), offset: 0 };
        let mut memory = Memory::new();
        let strided = view(memory.buffers.len(), &t, Scalar::F32);
        memory.add(fill(&strided, &t).unwrap());
        let read: Vec<f64> = elements(&strided, &memory).iter().map(|n| n.as_f64()).collect();
        assert_eq!(read, [1.5, -2.0, 3.0, 4.0]);
        let mut e = Expect { param: 0, name: "%y".into(), near: false, want: Want::File(name.clone()) };
        assert_eq!(expected(&e, &strided, &memory, &Tolerance::default()), Ok(()));
        e.want = Want::Values(vec![Number::Float(1.5)]);
        assert!(expected(&e, &strided, &memory, &Tolerance::default()).unwrap_err().contains("1 are expected"));
        let longer = Tensor { shape: vec![3, 2], ..t };
        let why = fill(&view(0, &longer, Scalar::F32), &longer).unwrap_err();
        assert!(why.contains("has 16 bytes") && why.contains("takes 24"), "{why}");
        std::fs::remove_file(&path).unwrap();
        assert!(file(&name, &strided).unwrap_err().starts_with(&name));
    }

    #[test]
    fn integers_beyond_53_bits_are_compared_and_printed_exactly() {
        let big = (1i64 << 53) + 1;
        let mut memory = Memory::new();
        let buffer = memory.add(Buffer::from_bytes(big.to_le_bytes().to_vec()));
        let view = ViewArg::dense(buffer, Scalar::I64, &[1]);
        let check = |want: i64| compare_values("v0", &view, &memory, &[Number::Int(want)], &Tolerance::default());
        assert_eq!(check(big), Ok(()));
        let message = check(big - 1).unwrap_err();
        assert!(message.contains("is 9007199254740993, expected 9007199254740992"), "{message}");
        assert_eq!(elements(&view, &memory), [Number::Int(big)]);
    }
}
