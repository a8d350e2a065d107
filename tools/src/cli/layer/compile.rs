//! The kernels of a graph, compiled, and how long that took.

use super::super::outcome::CliError;
use std::time::Instant;
use tilelift::graph::Graph;
use tilelift::{Artifact, OptLevel, Options};
use tilelift_ir::Kernel;
use tilelift_isel::{Schedule, Target};

/// Artifacts by node, and milliseconds for all.
pub(super) struct Compiled {
    pub artifacts: Vec<Artifact>,
    pub millis: f64,
}

/// Options of a compile: kernels that were fused are improved already, the others should not lose by that.
pub(super) fn options(kernel: &Kernel) -> Options {
    Options { opt: OptLevel::suited(kernel), ..Options::default() }
}

/// Compiles every node.
pub(super) fn compiled(graph: &Graph, target: &Target) -> Result<Compiled, CliError> {
    let start = Instant::now();
    let mut artifacts = Vec::new();
    for node in graph.nodes() {
        let made = tilelift::compile(&node.kernel, target, &options(&node.kernel));
        artifacts.push(made.map_err(|e| CliError::Failed(format!("`{}`: {e}", node.name)))?);
    }
    Ok(Compiled { artifacts, millis: start.elapsed().as_secs_f64() * 1e3 })
}

/// How the main loop of a kernel runs.
pub(super) fn how_it_runs(kernel: &Kernel, target: &Target) -> Result<String, CliError> {
    let lowered = tilelift::lower(kernel, target, &options(kernel)).map_err(|e| CliError::Failed(e.to_string()))?;
    let warps = lowered.plan.warps;
    Ok(match &lowered.plan.schedule {
        Schedule::Specialised(_) => format!("{warps} warps, specialised"),
        Schedule::Pipelined { why } => format!("{warps} warps, {why}"),
        Schedule::Explicit(_) => format!("{warps} warps, as its author says"),
    })
}
