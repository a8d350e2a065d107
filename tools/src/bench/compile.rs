//! How long a compile takes, stage by stage, on one thread.

use super::problem::{Problem, Variant};
use super::report::quote;
use super::ring::rings;
use super::selection::wide_norms;
use super::stats::Summary;
use std::collections::HashSet;
use std::fmt;
use std::hint::black_box;
use std::time::Instant;
use tilelift::{CompileError, OptLevel};
use tilelift_amdgcn::Chip;
use tilelift_egraph::{Options, optimise};
use tilelift_ir::{BuildErrors, Scalar, VerifiedKernel, text, verify};
use tilelift_isel::{Target, lane, lower, plan, prove};
use tilelift_kernels::Attention;
use tilelift_kernels::explicit::cases;
use tilelift_kernels::workload::{AttentionCase, Workload};
use tilelift_nvptx::{EmitOptions, emit};

/// Stages in order. `optimise` includes the check of what it makes, `lower` planning, the choice of layouts, and the proof of what authors
/// write, `emit` the check of the lane program, of an AMD chip registers, waits and the code object, too; `plan`, `prove` and `check` are the planning, that proof and that check alone, timed once more.
pub(crate) const STAGES: &[&str] = &["build", "verify", "optimise", "plan", "lower", "prove", "check", "emit"];
/// The stages whose sum is the time from builder to text, or to the code object.
const SUMMED: [usize; 5] = [0, 1, 2, 4, 7];
/// Compiles that do not count.
const WARM_UP: u32 = 10;

/// Rows, and columns, of wide norms.
const WIDE_ROWS: u32 = 1152;
const WIDE_COLS: [u32; 4] = [16384, 32768, 65536, 131_072];

/// The kernels of the library at usual sizes.
pub(crate) fn kernels() -> Vec<(String, Box<dyn Workload>)> {
    let elem = Scalar::BF16;
    let rows = [
        Problem::VectorAdd { elem, n: 1 << 27 },
        Problem::SiluMul { elem, n: 1 << 27 },
        Problem::Softmax { elem, rows: 16384, cols: 8192 },
        Problem::RmsNorm { elem, rows: 16384, cols: 8192 },
        Problem::Transpose { elem, rows: 8192, cols: 8192 },
    ];
    let orders = [(false, false), (false, true), (true, false), (true, true)];
    let gemm = |elem, trans| Problem::Gemm { elem, out: elem, trans, batch: 1, m: 4096, n: 4096, k: 4096 };
    let products = orders.into_iter().map(|t| gemm(elem, t)).chain([gemm(Scalar::F32, (false, false))]);
    let attention = |causal, units: bool| {
        let config = Attention::new(elem, 128, causal);
        let config = if units { config.for_units() } else { config };
        let case = AttentionCase { config, queries: 4096, keys: 4096, heads: 1 };
        (case.name() + if units { "_for_units" } else { "" }, Box::new(case) as Box<dyn Workload>)
    };
    // Dealt out by steps, all tiles or the rest of them.
    let streams = ["132x2", "132x2r"].map(|dealt| {
        let variant = Variant { tile: Some([128, 256, 64]), stream_k: dealt.parse().ok(), ..Variant::default() };
        let work = gemm(elem, (false, true)).workload(&variant).1;
        (work.name(), work)
    });
    let known = rows.into_iter().chain(products).map(|p| (p.name(), p.workload(&Variant::default()).1)).chain(streams);
    known.chain([(false, false), (true, false), (false, true), (true, true)].map(|(causal, units)| attention(causal, units))).collect()
}

/// Those whose author says who does what: of the cases, and of the suites of products, as a target runs them, and norms.
pub(crate) fn explicit(target: &Target) -> Vec<(String, Box<dyn Workload>)> {
    let cases = cases().into_iter().map(|c| (c.name, c.workload));
    let gemm = |(elem, trans_b)| Problem::Gemm { elem, out: elem, trans: (false, trans_b), batch: 1, m: 4096, n: 4096, k: 4096 };
    let products = [Scalar::BF16, Scalar::F16].into_iter().flat_map(|elem| [false, true].map(|trans_b| gemm((elem, trans_b))));
    let products = products.flat_map(|p| rings(&p, &[], target).into_iter().map(move |v| p.workload(&v).1));
    let shapes = [Scalar::BF16, Scalar::F32].into_iter().flat_map(|elem| WIDE_COLS.map(|cols| (elem, cols)));
    let norms = shapes.flat_map(|(elem, cols)| wide_norms(elem, WIDE_ROWS, cols)).map(|p| p.workload(&Variant::default()).1);
    let benched = products.chain(norms).map(|w| (format!("{} (bench)", w.name()), w));
    let mut list: Vec<(String, Box<dyn Workload>)> = Vec::new();
    // Shapes differ more often than kernels do.
    let mut texts = HashSet::new();
    for (name, workload) in cases.chain(benched) {
        if workload.build().is_ok_and(|k| texts.insert(text::print(&k))) {
            list.push((name, workload));
        }
    }
    list
}

/// Times of a kernel, in seconds.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct CompileRow {
    pub(crate) name: String,
    /// In the order of [`STAGES`].
    pub(crate) stages: Vec<Summary>,
    /// Builder to text, or to the code object.
    pub(crate) total: Summary,
    /// Bytes of PTX, or of the code object.
    pub(crate) code: usize,
}

/// Why a kernel could not be timed.
#[derive(Debug)]
pub(crate) enum CompileBenchError {
    Build(BuildErrors),
    Compile(CompileError),
}

impl fmt::Display for CompileBenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompileBenchError::Build(e) => e.fmt(f),
            CompileBenchError::Compile(e) => e.fmt(f),
        }
    }
}

impl std::error::Error for CompileBenchError {}

impl<E: Into<CompileError>> From<E> for CompileBenchError {
    fn from(e: E) -> CompileBenchError {
        CompileBenchError::Compile(e.into())
    }
}

/// Compiles a kernel `repeat` times after a warm-up.
pub(crate) fn measure(
    name: &str,
    workload: &dyn Workload,
    target: &Target,
    opt: OptLevel,
    repeat: u32,
) -> Result<CompileRow, CompileBenchError> {
    let mut samples = vec![Vec::new(); STAGES.len()];
    let mut totals = Vec::new();
    let mut code = 0;
    let lower_options = tilelift::Options { opt, ..Default::default() }.lowering();
    let emit_options = EmitOptions::default();
    for i in 0..WARM_UP + repeat.max(1) {
        let mut times = Vec::with_capacity(STAGES.len());
        let mut start = Instant::now();
        let mut lap = || {
            let now = Instant::now();
            times.push(now.duration_since(std::mem::replace(&mut start, now)).as_secs_f64());
        };
        let kernel = workload.build().map_err(CompileBenchError::Build)?;
        lap();
        let verified = verify(&kernel)?;
        lap();
        let better = (opt > OptLevel::None).then(|| optimise(&verified, &Options::default()).0);
        let verified = better.as_ref().map_or(verified, VerifiedKernel::as_verified);
        lap();
        black_box(plan(&verified, target, &lower_options)?);
        lap();
        let lowered = lower(&verified, target, &lower_options)?;
        lap();
        if lowered.plan.task_plan().is_some() {
            black_box(prove(&lowered.program, target)).map_err(|e| CompileError::Lane(e.to_string()))?;
        }
        lap();
        lane::verify(&lowered.program, target).map_err(|e| CompileError::Lane(e.to_string()))?;
        lap();
        code = match Chip::by_name(target.name) {
            Some(chip) => black_box(tilelift_amdgcn::emit(&lowered.program, chip).map_err(CompileError::Code)?).object.len(),
            None => black_box(emit(&lowered.program, target, &emit_options).map_err(CompileError::Emit)?).text.len(),
        };
        lap();
        if i >= WARM_UP {
            totals.push(SUMMED.iter().map(|&s| times[s]).sum());
            samples.iter_mut().zip(times).for_each(|(s, t)| s.push(t));
        }
    }
    // There is at least one sample of each, and none is NaN.
    let zero = Summary { n: 0, min: 0.0, q1: 0.0, median: 0.0, q3: 0.0, max: 0.0 };
    let stages = samples.iter().map(|s| Summary::of(s).unwrap_or(zero)).collect();
    Ok(CompileRow { name: name.to_owned(), stages, total: Summary::of(&totals).unwrap_or(zero), code })
}

/// The table's head.
pub(crate) fn head(width: usize) -> String {
    let stages: Vec<String> = STAGES.iter().map(|s| format!("{s:>9}")).collect();
    format!("{:<width$} {} {:>9} {:>9} {:>9} {:>9} {:>9}", "median us", stages.join(" "), "total", "q1", "q3", "worst", "bytes")
}

impl CompileRow {
    /// A line of the table, in microseconds.
    pub(crate) fn line(&self, width: usize) -> String {
        let us = |s: f64| format!("{:>9.1}", s * 1e6);
        let stages: Vec<String> = self.stages.iter().map(|s| us(s.median)).collect();
        let Summary { median, q1, q3, max, .. } = self.total;
        format!("{:<width$} {} {} {} {} {} {:>9}", self.name, stages.join(" "), us(median), us(q1), us(q3), us(max), self.code)
    }

    /// One JSON object; times in seconds.
    pub(crate) fn json(&self) -> String {
        let one = |name: &str, s: &Summary| {
            format!(
                "{}: {{\"median\": {:e}, \"q1\": {:e}, \"q3\": {:e}, \"min\": {:e}, \"max\": {:e}}}",
                quote(name),
                s.median,
                s.q1,
                s.q3,
                s.min,
                s.max
            )
        };
        let stages: Vec<String> = STAGES.iter().zip(&self.stages).map(|(n, s)| one(n, s)).chain([one("total", &self.total)]).collect();
        format!(
            "{{\"kernel\": {}, \"compiles\": {}, \"code_bytes\": {}, \"seconds\": {{{}}}}}",
            quote(&self.name),
            self.total.n,
            self.code,
            stages.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift::targets;

    #[test]
    fn every_kernel_compiles_and_its_stages_add_up() {
        let gfx942 = targets::by_name("gfx942").unwrap();
        let target = |name: &str| if name.starts_with("gemm_nt") { gfx942.clone() } else { targets::usual() };
        for (name, workload) in kernels() {
            let row = measure(&name, workload.as_ref(), &target(&name), OptLevel::Logical, 1).map_err(|e| e.to_string()).unwrap();
            assert_eq!((row.stages.len(), row.total.n), (STAGES.len(), 1));
            let sum: f64 = SUMMED.iter().map(|&s| row.stages[s].median).sum();
            assert!((sum - row.total.median).abs() < 1e-9 && row.code > 100, "{row:?}");
            assert_eq!(row.line(60).len(), head(60).len());
        }
    }
}
