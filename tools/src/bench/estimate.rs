//! Times that the cost model estimates, beside measured ones: for cases of the kernel library, as written and with layouts searched.

use std::collections::HashMap;
use tilelift::{OptLevel, Options, optimise};
use tilelift_interp::Arg;
use tilelift_ir::{Attr, Kernel, Literal, Op, Value};
use tilelift_isel::{Target, estimate, seconds};
use tilelift_kernels::{Case, CaseLaunch, Size, cases};

/// The levels that are compared.
pub(crate) const LEVELS: [OptLevel; 2] = [OptLevel::None, OptLevel::Physical];

/// Which cases are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Choice {
    /// All of a size.
    Of(Size),
    /// Of those that differ in extents alone the one with most bytes, in the rows of kernels that stand for themselves and of attention.
    Widest,
}

/// Rows of the kernel list that [`Choice::Widest`] takes.
fn in_rows(row: u32) -> bool {
    row <= 11 || row == 17
}

/// A case's name without its extents.
fn without_extents(name: &str) -> String {
    let number = |w: &&str| !w.chars().all(|c| c.is_ascii_digit() || c == 'x');
    name.split('_').filter(number).collect::<Vec<_>>().join("_")
}

/// The cases of a choice whose name contains a text.
pub(crate) fn selected(filter: &str, choice: Choice) -> Vec<Case> {
    let mut all: Vec<Case> = cases().into_iter().filter(|c| c.name.contains(filter)).collect();
    match choice {
        Choice::Of(size) => all.retain(|c| c.size == size),
        Choice::Widest => {
            all.retain(|c| in_rows(c.row));
            let bytes = |c: &Case| c.tensors().iter().map(|t| t.byte_len() as u64).sum::<u64>();
            let mut widest: HashMap<String, (u64, String)> = HashMap::new();
            for c in &all {
                let (key, here) = (without_extents(&c.name), bytes(c));
                if widest.get(&key).is_none_or(|w| w.0 < here) {
                    widest.insert(key, (here, c.name.clone()));
                }
            }
            all.retain(|c| widest[&without_extents(&c.name)].1 == c.name);
        }
    }
    all
}

/// The seconds that a case's launches should take at a level; `None` where the model has no price for one of them.
///
/// # Errors
/// A sentence: it does not build or compile.
pub(crate) fn estimated(launches: &[CaseLaunch], target: &Target, opt: OptLevel) -> Result<Option<f64>, String> {
    let mut sum = 0.0;
    for l in launches {
        let kernel = launched(&l.kernel, &l.args);
        let better = optimise(&kernel, opt).map_err(|e| e.to_string())?;
        let verified = tilelift_ir::verify(&better).map_err(|e| e.to_string())?;
        let options = Options { opt, ..Options::default() };
        let Some(cost) = estimate(&verified, target, &options.lowering()).map_err(|e| e.to_string())? else { return Ok(None) };
        sum += seconds(cost, l.grid.iter().map(|&e| u64::from(e)).product(), target);
    }
    Ok(Some(sum))
}

/// A kernel as it is for these arguments: extents of views are numbers, so that the rounds of loops are known.
fn launched(kernel: &Kernel, args: &[Arg]) -> Kernel {
    let mut made = kernel.clone();
    let extent = |v: Value, d: u32| {
        let at = kernel.params.iter().position(|&p| p == v)?;
        match args.get(at)? {
            Arg::View(view) => view.shape.get(d as usize).copied(),
            Arg::Scalar(_) => None,
        }
    };
    for (i, d) in kernel.insts.iter() {
        if let (Op::Dim, Some(&v), Some(Attr::Dim(k))) = (d.op, d.args.first(), d.attrs.first())
            && let Some(n) = extent(v, *k)
        {
            let literal = &mut made.insts[i];
            literal.op = Op::Const;
            literal.args.clear();
            literal.attrs = [Attr::Literal(Literal::Int(n))].into_iter().collect();
        }
    }
    made
}

/// The table's head, as Markdown.
pub(crate) const HEAD: &str = "\
| case | estimated us | measured us | measured / estimated |
|---|---|---|---|
";

/// Seconds at both levels, as `level 0 → level 2` in microseconds; one number where they are as good as equal.
pub(crate) fn cell(times: [Option<f64>; 2]) -> String {
    let one = |t: Option<f64>| t.map_or_else(|| "-".to_owned(), |t| format!("{:.1}", t * 1e6));
    let [a, b] = times.map(one);
    if a == b { a } else { format!("{a} → {b}") }
}

/// A row of the table.
pub(crate) fn row(name: &str, estimated: [Option<f64>; 2], measured: [Option<f64>; 2]) -> String {
    let ratio = match (estimated[1], measured[1]) {
        (Some(f), Some(m)) => format!("{:.2}", m / f),
        _ => "-".into(),
    };
    format!("| `{name}` | {} | {} | {ratio} |\n", cell(estimated), cell(measured))
}

/// Rounds, launches in front of a batch and in one, and the rest before it in milliseconds.
#[cfg(feature = "cuda")]
const ROUNDS: u64 = 5;
#[cfg(feature = "cuda")]
const LAUNCHES: [u32; 2] = [3, 20];
#[cfg(feature = "cuda")]
const REST: u64 = 4;

/// Median seconds of a case's launches at both levels, in shuffled rounds; `None` at a level that does not run.
///
/// # Errors
/// A sentence, if the device fails.
#[cfg(feature = "cuda")]
pub(crate) fn measured(
    case: &Case,
    launches: &[CaseLaunch],
    device: &tilelift::runtime::cuda::CudaDevice,
    target: &Target,
) -> Result<[Option<f64>; 2], String> {
    use super::fill::Normals;
    use super::stats::{Summary, shuffled};
    use crate::bench::work::{self, Work};
    use tilelift::runtime::cuda::CudaError;
    let failed = |e: CudaError| e.to_string();
    let mut buffers = Vec::new();
    for (n, spec) in case.tensors().iter().enumerate() {
        let mut buffer = device.alloc(spec.byte_len()).map_err(failed)?;
        match Normals::new(spec.elem, false) {
            Some(normals) => buffer.upload(&normals.tensor(&spec.shape, n as u64).bytes).map_err(failed)?,
            // Indices have to be inside, and codes are codes.
            None if spec.role.is_input() => buffer.upload(&spec.make().bytes).map_err(failed)?,
            None => buffer.fill(0).map_err(failed)?,
        }
        buffers.push(buffer);
    }
    let mut texts = Vec::new();
    for opt in LEVELS {
        let options = Options { opt, ..Options::default() };
        let made = |l: &CaseLaunch| tilelift::compile(&l.kernel, target, &options).map_err(|e| e.to_string());
        texts.push(launches.iter().map(made).collect::<Result<Vec<_>, String>>()?);
    }
    // Equal texts take equal time, and the driver a second look at none of them.
    texts.dedup_by(|a, b| a.iter().zip(b.iter()).all(|(a, b)| a.text == b.text));
    let load = |list: &Vec<tilelift::Artifact>| list.iter().map(|a| device.load(a).map_err(failed)).collect::<Result<Vec<_>, String>>();
    let kernels = texts.iter().map(load).collect::<Result<Vec<_>, String>>()?;
    let stream = device.stream().map_err(failed)?;
    let mut works = Vec::new();
    for list in &kernels {
        let work = |(l, k): (&CaseLaunch, _)| Work::kernel(k, l.grid, &l.args, &buffers);
        works.push(launches.iter().zip(list).map(work).collect::<Result<Vec<_>, _>>().map_err(failed)?);
    }
    let mut samples = vec![Vec::new(); works.len()];
    for round in 0..ROUNDS {
        for level in shuffled(works.len(), round) {
            std::thread::sleep(std::time::Duration::from_millis(REST));
            let count = works[level].len() as u32;
            let [warm, timed] = LAUNCHES.map(|n| n * count);
            let mean = work::time(&works[level], warm, timed, &stream).map_err(failed)?;
            samples[level].push(mean * f64::from(count));
        }
    }
    let medians: Vec<Option<f64>> = samples.iter().map(|s| Summary::of(s).map(|s| s.median)).collect();
    Ok([medians[0], medians[medians.len() - 1]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift::targets;

    fn at(name: &str, target: &str, opt: OptLevel) -> f64 {
        let case = cases().into_iter().find(|c| c.name == name).unwrap_or_else(|| panic!("no case {name}"));
        let target = targets::by_name(target).unwrap();
        estimated(&case.launches(None).unwrap(), &target, opt).unwrap().unwrap_or_else(|| panic!("no price for {name}"))
    }

    #[test]
    fn the_widest_cases_stand_for_every_kernel_of_their_rows() {
        let list = selected("", Choice::Widest);
        for c in cases().iter().filter(|c| in_rows(c.row)) {
            let alike: Vec<&Case> = list.iter().filter(|l| without_extents(&l.name) == without_extents(&c.name)).collect();
            assert_eq!(alike.len(), 1, "{}", c.name);
        }
        assert!((1..=11).chain([17]).all(|row| list.iter().any(|c| c.row == row)));
    }

    #[test]
    fn extents_of_the_launch_give_the_rounds_of_loops() {
        let case = cases().into_iter().find(|c| c.name == "gemm_nn_bf16_bf16_512x512x512").unwrap();
        let l = case.launches(None).unwrap().remove(0);
        let dims = |k: &Kernel| k.insts.values().filter(|d| d.op == Op::Dim).count();
        assert!(dims(&l.kernel) > 0);
        assert_eq!(dims(&launched(&l.kernel, &l.args)), 0);
    }

    #[test]
    fn searched_layouts_are_never_estimated_to_be_slower() {
        for name in ["gemm_nn_tf32_f32_512x512x512", "transpose_f16_4096x4096", "softmax_bf16_20x781"] {
            let [plain, searched] = [OptLevel::Logical, OptLevel::Physical].map(|opt| at(name, "sm_80", opt));
            assert!(searched <= plain * 1.000_001, "{name}: {searched} {plain}");
        }
    }

    #[test]
    fn more_programs_take_longer_and_a_launch_takes_something() {
        let target = targets::by_name("sm_90a").unwrap();
        assert!(seconds(0, 0, &target) > 0.0);
        assert!(seconds(1 << 20, 1000, &target) > seconds(1 << 20, 500, &target));
        assert_eq!(seconds(1 << 20, 1, &target), seconds(1 << 20, 100, &target), "processors without work do not help");
    }
}
