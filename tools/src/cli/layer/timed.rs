//! Both graphs on a GPU: shuffled rounds, each graph and each kernel by itself, over buffers that follow one another so that no cache holds
//! what comes next.

use super::super::outcome::CliError;
use super::compile::Compiled;
use crate::bench::stats::{Summary, shuffled};
use crate::bench::work::{self, Work};
use tilelift::graph::{Bound, Graph};
use tilelift::runtime::cuda::{CudaBuffer, CudaDevice, CudaError, CudaKernel};
use tilelift_kernels::plain::Operators;
use tilelift_kernels::tensor::Role;

/// Rounds, each of which times both graphs and each kernel by itself once, in a new order; the least time of a batch and of the launches in
/// front of it, and the rest before it.
const ROUNDS: u32 = 9;
const BATCH: f64 = 10e-3;
const REST: u64 = 50;
/// Bytes of buffers after which the caches hold none of the first ones any more, and copies at most.
const CACHED: u64 = 192 << 20;
const MOST_SETS: u64 = 12;

/// What was measured of both graphs.
pub(super) struct Times {
    /// Median microseconds of a graph.
    pub micros: [f64; 2],
    /// Lines about each graph.
    pub notes: [String; 2],
    /// Bytes of the results of both graphs, by tensor.
    pub results: Vec<Option<[Vec<u8>; 2]>>,
}

/// Runs, times and reads what came out.
pub(super) fn measured(
    device: &CudaDevice,
    operators: &Operators,
    graphs: [&Graph; 2],
    compiled: [&Compiled; 2],
) -> Result<Times, CliError> {
    let failed = |e: CudaError| CliError::Failed(e.to_string());
    let seen: u64 =
        operators.tensors.iter().filter(|t| t.role != Role::Scratch).map(|t| t.elem.storage(t.elements() as usize) as u64).sum();
    let sets = (CACHED.div_ceil(seen.max(1))).clamp(1, MOST_SETS) as usize;
    let start: Vec<Option<Vec<u8>>> =
        operators.tensors.iter().map(|t| matches!(t.role, Role::In | Role::InOut).then(|| t.filled())).collect();
    let mut buffers: Vec<Vec<CudaBuffer>> = Vec::new();
    for _ in 0..sets {
        let mut list = Vec::new();
        // Fusion adds tensors behind those of the operators.
        let more = graphs.iter().map(|g| g.tensors().len()).max().unwrap_or(0);
        for i in 0..more {
            let bytes = match operators.tensors.get(i) {
                Some(t) => t.elem.storage(t.elements() as usize),
                None => added(graphs, i),
            };
            let mut buffer = device.alloc(bytes).map_err(failed)?;
            if let Some(Some(bytes)) = start.get(i) {
                buffer.upload(bytes).map_err(failed)?;
            }
            list.push(buffer);
        }
        buffers.push(list);
    }
    let stream = device.stream().map_err(failed)?;
    let mut results: Vec<Option<[Vec<u8>; 2]>> = operators.tensors.iter().map(|_| None).collect();
    let mut kernels: Vec<Vec<CudaKernel>> = Vec::new();
    for c in compiled {
        kernels.push(c.artifacts.iter().map(|a| device.load(a)).collect::<Result<_, _>>().map_err(failed)?);
    }
    let mut launches = Vec::new();
    for g in graphs {
        launches.push(g.launches(&Bound::default()).map_err(|e| CliError::Failed(e.to_string()))?);
    }
    // Results first: what is updated in place starts as the caller filled it.
    for g in 0..2 {
        for (buffer, t) in buffers[0].iter_mut().zip(&start) {
            if let Some(bytes) = t {
                buffer.upload(bytes).map_err(failed)?;
            }
        }
        for (launch, kernel) in launches[g].iter().zip(&kernels[g]) {
            let one = Work::kernel(kernel, launch.grid, &launch.args, &buffers[0]).map_err(failed)?;
            work::run(&one, &stream).map_err(failed)?;
        }
        for (i, t) in operators.tensors.iter().enumerate().filter(|(_, t)| matches!(t.role, Role::Out | Role::InOut)) {
            let mut bytes = vec![0; t.elem.storage(t.elements() as usize)];
            buffers[0][i].download(&mut bytes).map_err(failed)?;
            results[i].get_or_insert_with(Default::default)[g] = bytes;
        }
    }
    // Of each graph the works of all sets, and of the candidates the graph and each of its works.
    let mut works: Vec<Vec<Vec<Work<'_>>>> = Vec::new();
    let mut candidates = Vec::new();
    for g in 0..2 {
        let mut all = Vec::new();
        for set in &buffers {
            let work = |(launch, kernel): (&tilelift::graph::Launch<'_>, _)| Work::kernel(kernel, launch.grid, &launch.args, set);
            all.push(launches[g].iter().zip(&kernels[g]).map(work).collect::<Result<Vec<_>, _>>().map_err(failed)?);
        }
        works.push(all);
        candidates.push((g, None));
        candidates.extend((0..launches[g].len()).filter(|_| launches[g].len() > 1).map(|n| (g, Some(n))));
    }
    let mut samples = vec![Vec::new(); candidates.len()];
    let mut counts = vec![0u32; candidates.len()];
    let parts: Vec<Vec<&Work<'_>>> = candidates
        .iter()
        .map(|&(g, n)| {
            works[g].iter().flat_map(|set| set.iter().enumerate().filter(|(k, _)| n.is_none_or(|n| n == *k)).map(|w| w.1)).collect()
        })
        .collect();
    for round in 0..ROUNDS {
        for i in shuffled(candidates.len(), u64::from(round)) {
            std::thread::sleep(std::time::Duration::from_millis(REST));
            let part = &parts[i];
            let each = (part.len() / sets).max(1) as u32;
            if counts[i] == 0 {
                // So many launches of the whole as take the time of a batch.
                let once = work::time(part, each, part.len() as u32, &stream).map_err(failed)? * f64::from(each);
                counts[i] = ((BATCH / once.max(1e-7)) as u32).clamp(3, 4000);
            }
            let count = counts[i] * each;
            let seconds = work::time(part, count / 4, count, &stream).map_err(failed)?;
            samples[i].push(seconds * f64::from(each) * 1e6);
        }
    }
    let (mut notes, mut micros) = ([String::new(), String::new()], [0.0; 2]);
    for (&(g, n), times) in candidates.iter().zip(&samples) {
        let Some(s) = Summary::of(times) else { continue };
        let spread = format!("{:.1} us ({:.1} to {:.1})", s.median, s.min, s.max);
        match n {
            None => {
                micros[g] = s.median;
                notes[g] += &format!("run         {spread}, median of {}, {sets} sets of buffers\n", s.n);
            }
            Some(n) => {
                let kernel = &kernels[g][n];
                let (registers, spilled) = (kernel.registers(), kernel.local_bytes());
                notes[g] += &format!("            `{}` {spread}, {registers} registers, {spilled} bytes spilled\n", launches[g][n].name);
            }
        }
    }
    Ok(Times { micros, notes, results })
}

/// Bytes of a tensor that fusion added.
fn added(graphs: [&Graph; 2], i: usize) -> usize {
    let t = graphs.iter().find_map(|g| g.tensors().get(i));
    let elements = |t: &tilelift::graph::Tensor| t.dims.iter().map(|d| d.fixed().unwrap_or(0) as usize).product();
    t.map_or(0, |t| t.elem.storage(elements(t)))
}
