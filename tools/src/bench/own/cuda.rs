//! Launches through NVIDIA's driver.

use super::gpu::{Gpu, Launch};
use crate::bench::work::{self, Work};
use tilelift::Artifact;
use tilelift::runtime::cuda::{CudaBuffer, CudaDevice, CudaError, CudaKernel, CudaStream};

fn work<'l>(launch: &Launch<'l, CudaDevice>) -> Result<Work<'l>, CudaError> {
    Work::kernel(launch.kernel, launch.grid, launch.args, launch.buffers)
}

impl Gpu for CudaDevice {
    type Kernel = CudaKernel;
    type Buffer = CudaBuffer;
    type Stream = CudaStream;
    type Error = CudaError;

    fn cache(&self) -> Result<u64, CudaError> {
        Ok(self.facts()?.l2)
    }

    fn ptx_version(&self) -> Result<Option<(u8, u8)>, CudaError> {
        Ok(Some(self.facts()?.ptx_version()))
    }

    fn stream(&self) -> Result<CudaStream, CudaError> {
        CudaDevice::stream(self)
    }

    fn load(&self, artifact: &Artifact) -> Result<CudaKernel, CudaError> {
        CudaDevice::load(self, artifact)
    }

    fn filled(&self, bytes: usize, with: u8) -> Result<CudaBuffer, CudaError> {
        let mut buffer = self.alloc(bytes)?;
        buffer.fill(with)?;
        Ok(buffer)
    }

    fn uploaded(&self, bytes: &[u8]) -> Result<CudaBuffer, CudaError> {
        let mut buffer = self.alloc(bytes.len())?;
        buffer.upload(bytes)?;
        Ok(buffer)
    }

    fn download(&self, from: &CudaBuffer, bytes: &mut [u8]) -> Result<(), CudaError> {
        from.download(bytes)
    }

    fn run(&self, launch: &Launch<'_, CudaDevice>, stream: &CudaStream) -> Result<(), CudaError> {
        work::run(&work(launch)?, stream)
    }

    fn time(&self, scrub: &[CudaBuffer; 2], launches: &[Launch<'_, CudaDevice>], stream: &CudaStream) -> Result<f64, CudaError> {
        let mut works = vec![Work::copy(&scrub[0], &scrub[1])?];
        for launch in launches {
            works.push(work(launch)?);
        }
        let count = launches.len() as u32;
        Ok(work::time(&works, 1, count, stream)? * f64::from(count))
    }

    fn facts(kernel: &CudaKernel) -> (&Artifact, [u32; 2]) {
        (kernel.artifact(), [kernel.registers(), kernel.local_bytes()])
    }
}
