//! Launches of an author's kernels on hardware.
//!
//! ```text
//! tensors ─► device ─► one launch, judged ─► n times { rest, overwrite the L2 cache, launch between two events } ─► median
//! ```
//!
//! The copy that overwrites the cache is queued in front of the first event without waiting, so that the device is busy when the launch comes.

use super::ready::{NotBenched, Ready};
use super::timed::Timed;
use crate::bench::stats::Summary;
use crate::bench::work::{self, Work};
use std::thread;
use std::time::Duration;
use tilelift::runtime::cuda::{CudaBuffer, CudaDevice, CudaError, CudaKernel, CudaStream};
use tilelift::{Options, compile};
use tilelift_interp::Arg;
use tilelift_isel::Target;

/// Buffers that overwrite the cache are so many times as large.
const CACHES: usize = 2;

/// How to measure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Protocol {
    /// Timed launches.
    pub(crate) iterations: u32,
    /// Rest in front of each, in seconds.
    pub(crate) rest: f64,
    /// Seconds of a peer.
    pub(crate) peer: Option<f64>,
}

/// A device, ready to time launches.
pub(crate) struct OwnBench<'d> {
    device: &'d CudaDevice,
    target: &'d Target,
    stream: CudaStream,
    /// What is copied over the cache, and where to.
    scrub: [CudaBuffer; 2],
    protocol: Protocol,
}

/// A launch whose output is right, and its tensors on the device.
pub(crate) struct Loaded {
    kernel: CudaKernel,
    grid: [u32; 3],
    args: Vec<Arg>,
    buffers: Vec<CudaBuffer>,
    name: String,
    bytes: u64,
    operations: Option<f64>,
    /// What was compared.
    pub(crate) checked: String,
}

fn failed(e: CudaError) -> NotBenched {
    NotBenched::Device(e.to_string())
}

impl<'d> OwnBench<'d> {
    pub(crate) fn open(device: &'d CudaDevice, target: &'d Target, protocol: Protocol) -> Result<OwnBench<'d>, CudaError> {
        let bytes = CACHES * (device.facts()?.l2 as usize).max(1 << 20);
        let mut from = device.alloc(bytes)?;
        from.fill(0x5a)?;
        let scrub = [from, device.alloc(bytes)?];
        Ok(OwnBench { device, target, stream: device.stream()?, scrub, protocol })
    }

    /// Brings a launch to the device, runs it once, and judges what it wrote. Its tensors on the host are dropped.
    ///
    /// # Errors
    /// It does not compile, fit or run, or its output is wrong.
    pub(crate) fn load(&self, mut ready: Ready<'_>, options: &Options) -> Result<Loaded, NotBenched> {
        let artifact = compile(ready.job.kernel, self.target, options).map_err(|e| NotBenched::Device(e.to_string()))?;
        let kernel = self.device.load(&artifact).map_err(failed)?;
        let mut buffers = Vec::new();
        for b in &ready.memory.buffers {
            let mut buffer = self.device.alloc(b.len()).map_err(failed)?;
            buffer.upload(b.bytes()).map_err(failed)?;
            buffers.push(buffer);
        }
        let grid = ready.job.run.grid;
        let work = Work::kernel(&kernel, grid, &ready.args, &buffers).map_err(failed)?;
        work::run(&work, &self.stream).map_err(failed)?;
        drop(work);
        let mut got = std::mem::take(&mut ready.memory);
        for p in tilelift_interp::written_params(ready.job.kernel) {
            if let Arg::View(view) = &ready.args[p] {
                buffers[view.buffer].download(got.buffers[view.buffer].bytes_mut()).map_err(failed)?;
            }
        }
        let checked = ready.judge(&got, true)?;
        let (name, bytes, operations) = (ready.job.to_string(), ready.bytes(), ready.operations());
        Ok(Loaded { kernel, grid, args: ready.args, buffers, name, bytes, operations, checked })
    }

    /// Times launches that follow one another: one, or all of a sequence.
    ///
    /// # Errors
    /// A failed call, or a fault of a kernel.
    pub(crate) fn time(&self, launches: &[&Loaded], peer: bool) -> Result<Timed, NotBenched> {
        let mut samples = Vec::new();
        let each = launches.iter().map(|l| Work::kernel(&l.kernel, l.grid, &l.args, &l.buffers));
        let kernels = each.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let scrub = Work::copy(&self.scrub[0], &self.scrub[1]).map_err(failed)?;
        let count = kernels.len() as u32;
        let mut works = vec![scrub];
        works.extend(kernels);
        // The first launch loads what later ones find loaded.
        work::time(&works, 1, count, &self.stream).map_err(failed)?;
        for _ in 0..self.protocol.iterations {
            thread::sleep(Duration::from_secs_f64(self.protocol.rest));
            let mean = work::time(&works, 1, count, &self.stream).map_err(failed)?;
            samples.push(mean * f64::from(count));
        }
        let seconds = Summary::of(&samples).ok_or_else(|| NotBenched::Device("no launch was timed".to_owned()))?;
        let names: Vec<&str> = launches.iter().map(|l| l.name.as_str()).collect();
        let resources = launches.iter().fold([0; 4], |most, l| {
            let a = l.kernel.artifact();
            let own = [l.kernel.registers(), l.kernel.local_bytes(), a.threads, a.shared_bytes];
            std::array::from_fn(|i| most[i].max(own[i]))
        });
        Ok(Timed {
            name: names.join(", "),
            seconds,
            bytes: launches.iter().map(|l| l.bytes).sum(),
            operations: launches.iter().map(|l| l.operations).sum(),
            resources: Some(resources),
            peer: self.protocol.peer.filter(|_| peer),
        })
    }
}
