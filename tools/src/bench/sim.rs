//! Benches where there is no GPU: what the simulator counts for a few programs of each problem. Counts, not times: they do not depend
//! on the machine, and they say why a kernel is slow.

use super::problem::{Problem, Variant};
use super::report::quote;
use tilelift::runtime::sim::{Report, SimConfig, SimDevice};
use tilelift::{OptLevel, compile};
use tilelift_isel::Target;
use tilelift_kernels::{Case, Size};

/// Programs that are run.
const PROGRAMS: usize = 2;

/// Counts of a variant, per program.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct SimRow {
    pub(crate) problem: String,
    pub(crate) label: String,
    pub(crate) programs: u64,
    /// One per launch.
    pub(crate) reports: Vec<Report>,
}

/// Runs a variant in the simulator and judges what it wrote.
///
/// # Errors
/// A sentence: it does not build, compile or run, or its output is wrong.
pub(crate) fn measure(problem: &Problem, variant: &Variant, target: &Target, opt: OptLevel) -> Result<SimRow, String> {
    let (label, workload) = problem.workload(variant);
    let case = Case { name: workload.name(), row: 0, size: Size::Large, workload };
    let (tensors, sample) = (case.make_tensors(), case.sample(PROGRAMS));
    let mut memory = case.memory(&tensors);
    let mut reports = Vec::new();
    for (n, launch) in case.launches(Some(&sample)).map_err(|e| e.to_string())?.into_iter().enumerate() {
        let artifact = compile(&launch.kernel, target, &variant.options_of(n, opt)).map_err(|e| e.to_string())?;
        let grid = launch.grid;
        let linear = |p: &[u32; 3]| p[0] + grid[0] * (p[1] + grid[1] * p[2]);
        let ctas = launch.programs.map(|list| list.iter().map(linear).collect());
        let device = SimDevice::new(SimConfig { ctas, ..SimDevice::schedule(0) });
        let loaded = device.load(&artifact).map_err(|e| e.to_string())?;
        reports.push(device.execute(&loaded, grid, &launch.args, &mut memory).map_err(|e| e.to_string())?);
    }
    let verdict = case.judge(&tensors, &memory, Some(&sample)).map_err(|e| e.to_string())?;
    if verdict.pass() {
        Ok(SimRow { problem: case.name, label, programs: sample.len() as u64, reports })
    } else {
        Err(format!("wrong output: {verdict}"))
    }
}

/// A name and what it counts.
type Column = (&'static str, fn(&Report) -> u64);

const COLUMNS: &[Column] = &[
    ("instructions", |r| r.instructions),
    ("mma", |r| r.count("mma")),
    ("ldmatrix", |r| r.count("ldmatrix")),
    ("wgmma", |r| r.count("wgmma.mma")),
    ("bulk copies", |r| r.count("cp.async.bulk.tensor")),
    ("wavefronts", |r| r.wavefronts),
    ("conflicts", |r| r.conflict_excess()),
    ("sectors", |r| r.sectors),
    ("bytes", |r| r.requested_bytes),
];

/// The table's head.
pub(crate) fn head(width: usize) -> String {
    let names: Vec<String> = COLUMNS.iter().map(|(n, _)| format!("{n:>12}")).collect();
    format!("{:<width$} {}", "per program", names.join(" "))
}

impl SimRow {
    fn count(&self, of: fn(&Report) -> u64) -> u64 {
        self.reports.iter().map(of).sum()
    }

    /// `problem variant`.
    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.problem, self.label)
    }

    /// A line of the table: means per program.
    pub(crate) fn line(&self, width: usize) -> String {
        let counts: Vec<String> = COLUMNS.iter().map(|(_, f)| format!("{:>12}", self.count(*f) / self.programs.max(1))).collect();
        format!("{:<width$} {}", self.name(), counts.join(" "))
    }

    /// One JSON object; counts of all programs together.
    pub(crate) fn json(&self) -> String {
        let counts: Vec<String> = COLUMNS.iter().map(|(n, f)| format!("{}: {}", quote(n), self.count(*f))).collect();
        format!(
            "{{\"problem\": {}, \"label\": {}, \"programs\": {}, {}}}",
            quote(&self.problem),
            quote(&self.label),
            self.programs,
            counts.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::selection::Selection;
    use tilelift::targets;
    use tilelift_ir::Scalar;
    use tilelift_isel::ScheduleKind;

    #[test]
    fn counts_of_a_product_hold_every_matrix_instruction() {
        let p = Problem::Gemm { elem: Scalar::BF16, out: Scalar::BF16, trans: (false, true), batch: 1, m: 64, n: 64, k: 64 };
        let variant = Variant { tile: Some([32, 32, 32]), warps: Some(2), ..Variant::default() };
        let row = measure(&p, &variant, &targets::usual(), OptLevel::None).unwrap();
        // 32 x 32 x 64 multiply-adds, 16 x 8 x 16 in an instruction.
        assert_eq!(row.reports[0].count("mma") / row.programs, 32 * 32 * 64 / (16 * 8 * 16));
        assert_eq!(row.line(60).len(), head(60).len());
        let none = Variant { tile: Some([4096, 4096, 64]), ..Variant::default() };
        assert!(measure(&p, &none, &targets::usual(), OptLevel::None).is_err());
    }
    #[test]
    fn sums_of_parts_plan_for_themselves() {
        let p = Problem::Gemm { elem: Scalar::BF16, out: Scalar::BF16, trans: (false, false), batch: 1, m: 70, n: 64, k: 512 };
        let target = targets::by_name("sm_90a").unwrap();
        let parts = Selection { splits: vec![4], stream_k: vec!["8x1".parse().unwrap()], ..Selection::default() };
        let all = parts.variants(&p, Some(&target));
        assert_eq!(all.len(), 2);
        for v in all {
            // The model's choice is specialised, and a launch that adds parts has no loop to specialise.
            assert_eq!(v.schedule, Some(ScheduleKind::Specialised));
            let row = measure(&p, &v, &target, OptLevel::default()).unwrap();
            assert_eq!(row.reports.len(), 2);
            assert!(row.reports[0].count("wgmma") > 0 && row.reports[1].count("wgmma") == 0);
        }
    }
}
