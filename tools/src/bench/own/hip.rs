//! Launches through AMD's HIP library.

use super::gpu::{Gpu, Launch};
use tilelift::Artifact;
use tilelift::runtime::hip::{Binding, HipBuffer, HipDevice, HipError, HipKernel, HipStream};

fn bound(launch: &Launch<'_, HipDevice>) -> Result<Binding, HipError> {
    launch.kernel.bind(launch.grid, launch.args, &launch.buffers.iter().collect::<Vec<_>>())
}

/// Puts launches on a stream, one behind the other.
fn put(bindings: &[Binding], stream: &HipStream) -> Result<(), HipError> {
    // SAFETY: the callers below hold the buffers until the stream is idle, and nothing else touches them meanwhile.
    bindings.iter().try_for_each(|binding| unsafe { binding.launch(stream) })
}

impl Gpu for HipDevice {
    type Kernel = HipKernel;
    type Buffer = HipBuffer;
    type Stream = HipStream;
    type Error = HipError;

    fn cache(&self) -> Result<u64, HipError> {
        Ok(self.facts()?.l2)
    }

    fn stream(&self) -> Result<HipStream, HipError> {
        HipDevice::stream(self)
    }

    fn load(&self, artifact: &Artifact) -> Result<HipKernel, HipError> {
        HipDevice::load(self, artifact)
    }

    fn filled(&self, bytes: usize, with: u8) -> Result<HipBuffer, HipError> {
        let mut buffer = self.alloc(bytes)?;
        buffer.fill(with)?;
        Ok(buffer)
    }

    fn uploaded(&self, bytes: &[u8]) -> Result<HipBuffer, HipError> {
        let mut buffer = self.alloc(bytes.len())?;
        buffer.upload(bytes)?;
        Ok(buffer)
    }

    fn download(&self, from: &HipBuffer, bytes: &mut [u8]) -> Result<(), HipError> {
        from.download(bytes)
    }

    fn run(&self, launch: &Launch<'_, HipDevice>, stream: &HipStream) -> Result<(), HipError> {
        let launched = put(&[bound(launch)?], stream);
        stream.synchronize().and(launched)
    }

    fn time(&self, scrub: &[HipBuffer; 2], launches: &[Launch<'_, HipDevice>], stream: &HipStream) -> Result<f64, HipError> {
        let bindings = launches.iter().map(bound).collect::<Result<Vec<_>, _>>()?;
        let [from, to] = scrub;
        // SAFETY: both buffers have the length that is copied, and are held until the stream is idle.
        let copied = unsafe { stream.copy(to.address(), from.address(), from.len().min(to.len())) };
        let timed = copied.and_then(|()| stream.time(|| put(&bindings, stream)));
        // On an error, launches may still be in flight.
        let idle = stream.synchronize();
        timed.and_then(|seconds| idle.map(|()| seconds))
    }

    fn facts(kernel: &HipKernel) -> (&Artifact, [u32; 2]) {
        (kernel.artifact(), [kernel.registers(), kernel.local_bytes()])
    }
}
