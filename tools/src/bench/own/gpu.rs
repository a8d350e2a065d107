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
use std::fmt::Display;
use std::thread;
use std::time::Duration;
use tilelift::{Artifact, Options, compile};
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

/// A GPU behind its maker's library.
pub(crate) trait Gpu {
    type Kernel;
    type Buffer;
    type Stream;
    type Error: Display;

    /// Bytes of the L2 cache.
    fn cache(&self) -> Result<u64, Self::Error>;
    /// The newest PTX version that its driver takes, if it takes any.
    fn ptx_version(&self) -> Result<Option<(u8, u8)>, Self::Error> {
        Ok(None)
    }
    fn stream(&self) -> Result<Self::Stream, Self::Error>;
    /// A kernel on the device.
    fn load(&self, artifact: &Artifact) -> Result<Self::Kernel, Self::Error>;
    /// Memory on the device with so many bytes of one value.
    fn filled(&self, bytes: usize, with: u8) -> Result<Self::Buffer, Self::Error>;
    /// Memory on the device with these bytes.
    fn uploaded(&self, bytes: &[u8]) -> Result<Self::Buffer, Self::Error>;
    fn download(&self, from: &Self::Buffer, bytes: &mut [u8]) -> Result<(), Self::Error>;
    /// Runs a launch and waits for it.
    fn run(&self, launch: &Launch<'_, Self>, stream: &Self::Stream) -> Result<(), Self::Error>;
    /// Seconds of launches in a row, by the device's clock, behind a copy of the first of two buffers over the second that does not count. Waits for them.
    fn time(&self, scrub: &[Self::Buffer; 2], launches: &[Launch<'_, Self>], stream: &Self::Stream) -> Result<f64, Self::Error>;
    /// The artifact of a kernel, and the registers and spilled bytes of a thread.
    fn facts(kernel: &Self::Kernel) -> (&Artifact, [u32; 2]);
}

/// A launch; `args` refer to `buffers` by index.
pub(crate) struct Launch<'l, G: Gpu + ?Sized> {
    pub(crate) kernel: &'l G::Kernel,
    pub(crate) grid: [u32; 3],
    pub(crate) args: &'l [Arg],
    pub(crate) buffers: &'l [G::Buffer],
}

/// A device, ready to time launches.
pub(crate) struct OwnBench<'d, G: Gpu> {
    device: &'d G,
    target: &'d Target,
    stream: G::Stream,
    /// What is copied over the cache, and where to.
    scrub: [G::Buffer; 2],
    protocol: Protocol,
}

/// A launch whose output is right, and its tensors on the device.
pub(crate) struct Loaded<G: Gpu> {
    kernel: G::Kernel,
    grid: [u32; 3],
    /// Neighbouring grid positions of an instance, along each axis.
    pub(crate) positions: [u32; 3],
    args: Vec<Arg>,
    buffers: Vec<G::Buffer>,
    name: String,
    bytes: u64,
    operations: Option<f64>,
    /// What was compared.
    pub(crate) checked: String,
}

impl<G: Gpu> Loaded<G> {
    fn launch(&self) -> Launch<'_, G> {
        Launch { kernel: &self.kernel, grid: self.grid, args: &self.args, buffers: &self.buffers }
    }
}

fn failed(e: impl Display) -> NotBenched {
    NotBenched::Device(e.to_string())
}

impl<'d, G: Gpu> OwnBench<'d, G> {
    pub(crate) fn open(device: &'d G, target: &'d Target, protocol: Protocol) -> Result<OwnBench<'d, G>, G::Error> {
        let bytes = CACHES * (device.cache()? as usize).max(1 << 20);
        let scrub = [device.filled(bytes, 0x5a)?, device.filled(bytes, 0)?];
        Ok(OwnBench { device, target, stream: device.stream()?, scrub, protocol })
    }

    /// Brings a launch to the device, runs it once, and judges what it wrote. Its tensors on the host are dropped.
    ///
    /// # Errors
    /// It does not compile, fit or run, or its output is wrong.
    pub(crate) fn load(&self, mut ready: Ready<'_>, options: &Options) -> Result<Loaded<G>, NotBenched> {
        let mut options = Options { grid: ready.job.grid, ..options.clone() };
        options.emit.max_version = options.emit.max_version.or(self.device.ptx_version().map_err(failed)?);
        let artifact = compile(&ready.job.kernel, self.target, &options).map_err(failed)?;
        let kernel = self.device.load(&artifact).map_err(failed)?;
        let buffers = ready.memory.buffers.iter().map(|b| self.device.uploaded(b.bytes()));
        let buffers = buffers.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let grid = ready.job.run.grid;
        self.device.run(&Launch { kernel: &kernel, grid, args: &ready.args, buffers: &buffers }, &self.stream).map_err(failed)?;
        let mut got = std::mem::take(&mut ready.memory);
        for p in tilelift_interp::written_params(&ready.job.kernel) {
            if let Arg::View(view) = &ready.args[p] {
                self.device.download(&buffers[view.buffer], got.buffers[view.buffer].bytes_mut()).map_err(failed)?;
            }
        }
        let checked = ready.judge(&got, true)?;
        let (name, bytes, operations) = (ready.job.to_string(), ready.bytes(), ready.operations());
        Ok(Loaded { kernel, grid, positions: artifact.positions, args: ready.args, buffers, name, bytes, operations, checked })
    }

    /// Times launches that follow one another: one, or all of a sequence.
    ///
    /// # Errors
    /// A failed call, or a fault of a kernel.
    pub(crate) fn time(&self, launches: &[&Loaded<G>], peer: bool) -> Result<Timed, NotBenched> {
        let row: Vec<Launch<'_, G>> = launches.iter().map(|l| l.launch()).collect();
        let once = || self.device.time(&self.scrub, &row, &self.stream).map_err(failed);
        // The first launch loads what later ones find loaded.
        once()?;
        let mut samples = Vec::new();
        for _ in 0..self.protocol.iterations {
            thread::sleep(Duration::from_secs_f64(self.protocol.rest));
            samples.push(once()?);
        }
        let seconds = Summary::of(&samples).ok_or_else(|| NotBenched::Device("no launch was timed".to_owned()))?;
        let names: Vec<&str> = launches.iter().map(|l| l.name.as_str()).collect();
        let resources = launches.iter().fold([0; 4], |most, l| {
            let (a, [registers, local]) = G::facts(&l.kernel);
            let own = [registers, local, a.threads, a.shared_bytes];
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
