//! Result files of `bench --json`, read again: what was measured, as points under a roof.

use crate::picture::roofline::Point;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// What a result file says.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Results {
    /// The target that was compiled for, and its multiprocessors; older files do not say.
    pub(crate) target: Option<String>,
    pub(crate) multiprocessors: Option<u32>,
    /// Kernels that were timed: of each problem the quickest of ours, of a library's and of copies.
    pub(crate) points: Vec<Point>,
}

/// Why a file is no result of `bench`, or holds nothing that was timed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum NoResults {
    /// It is no JSON: line, column and why.
    Syntax(usize, usize, String),
    /// It has no rows.
    Rows,
    /// A row has no time, or no bytes.
    Row {
        /// Which.
        number: usize,
        /// What is missing.
        missing: &'static str,
    },
}

impl fmt::Display for NoResults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoResults::Syntax(line, column, why) => write!(f, "{line}:{column}: is no JSON: {why}"),
            NoResults::Rows => f.write_str("has no `rows`; write it with `tilelift bench … --json FILE`"),
            NoResults::Row { number, missing } => {
                write!(
                    f,
                    "rows[{number}] has no `{missing}`: it is no time of a kernel; results of `--device sim` and of `bench compile` have none"
                )
            }
        }
    }
}

impl Results {
    /// Reads a result file.
    ///
    /// # Errors
    /// What is missing, and in which row.
    pub(crate) fn read(text: &str) -> Result<Results, NoResults> {
        let v: Value = serde_json::from_str(text).map_err(|e| NoResults::Syntax(e.line(), e.column(), e.to_string()))?;
        let rows = v["rows"].as_array().ok_or(NoResults::Rows)?;
        let mut points = Vec::new();
        for (number, row) in rows.iter().enumerate() {
            let missing = |missing| NoResults::Row { number, missing };
            if row["launch"].is_string() {
                points.push(launch(row).map_err(missing)?);
            } else {
                points.extend(problem(row).map_err(missing)?);
            }
        }
        let multiprocessors = v["multiprocessors"].as_u64().and_then(|n| u32::try_from(n).ok());
        Ok(Results { target: v["target"].as_str().map(str::to_owned), multiprocessors, points })
    }
}

fn seconds(v: &Value) -> Result<f64, &'static str> {
    v["seconds"]["median"].as_f64().filter(|s| *s > 0.0).ok_or("seconds.median")
}

/// A row of `bench FILE`.
fn launch(row: &Value) -> Result<Point, &'static str> {
    Ok(Point {
        name: row["launch"].as_str().unwrap_or_default().to_owned(),
        seconds: seconds(row)?,
        bytes: row["bytes"].as_f64().filter(|b| *b > 0.0).ok_or("bytes")?,
        operations: row["operations"].as_f64(),
    })
}

/// A row of `bench SUITE`.
fn problem(row: &Value) -> Result<Vec<Point>, &'static str> {
    let name = row["problem"].as_str().ok_or("problem")?;
    let bytes = row["tensor_bytes"].as_f64().or(row["bytes"].as_f64()).filter(|b| *b > 0.0).ok_or("tensor_bytes")?;
    let operations = row["flops"].as_f64();
    let mut quickest: BTreeMap<&str, f64> = BTreeMap::new();
    for entry in row["entries"].as_array().ok_or("entries")? {
        let (who, seconds) = (entry["who"].as_str().ok_or("entries.who")?, seconds(entry)?);
        let best = quickest.entry(who).or_insert(seconds);
        *best = best.min(seconds);
    }
    let point = |(who, seconds): (&str, f64)| Point { name: format!("{name} {who}"), seconds, bytes, operations };
    Ok(quickest.into_iter().map(point).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_both_kinds_are_points_and_others_say_what_they_lack() {
        let text = r#"{"target": "sm_90a", "multiprocessors": 132, "rows": [
            {"launch": "@k", "seconds": {"median": 1e-3}, "bytes": 1000, "operations": null},
            {"problem": "gemm", "flops": 2e12, "tensor_bytes": 1e9, "entries": [
                {"who": "tilelift", "seconds": {"median": 4e-3}}, {"who": "tilelift", "seconds": {"median": 3e-3}},
                {"who": "cublasLt", "seconds": {"median": 2e-3}}]}]}"#;
        let read = Results::read(text).unwrap();
        let points: Vec<(&str, f64, Option<f64>)> = read.points.iter().map(|p| (p.name.as_str(), p.seconds, p.operations)).collect();
        assert_eq!(points, [("@k", 1e-3, None), ("gemm cublasLt", 2e-3, Some(2e12)), ("gemm tilelift", 3e-3, Some(2e12))]);
        assert_eq!((read.target.as_deref(), read.multiprocessors), (Some("sm_90a"), Some(132)));
        assert_eq!(Results::read("{}"), Err(NoResults::Rows));
        assert!(matches!(Results::read("{"), Err(NoResults::Syntax(1, ..))));
        let counts = r#"{"rows": [{"problem": "gemm", "label": "x", "programs": 3}]}"#;
        assert_eq!(Results::read(counts), Err(NoResults::Row { number: 0, missing: "tensor_bytes" }));
    }
}
