//! Timed work: kernels, library products and device copies behind one face.
//!
//! ```text
//!  Work::kernel / Work::product / Work::copy ─► time(&[Work], warm_up, n, &stream)
//!
//!  stream: │ w0 w1 w0 … (warm-up) │ start │ w0 w1 w0 w1 … (n launches) │ stop │ ─► (stop - start) / n
//! ```
//! The warm-up is queued in front of the start event without waiting, so the device never idles between the events. Several works
//! in rotation use different buffers, so that a cache holds none of the next one's inputs.

use super::blaslt::LtProduct;
use std::borrow::Borrow;
use std::marker::PhantomData;
use tilelift::runtime::cuda::{Binding, CudaBuffer, CudaError, CudaKernel, CudaStream};
use tilelift_interp::Arg;

/// Something that a stream can be asked to do again and again. Borrows the buffers it works on.
pub struct Work<'b> {
    what: What<'b>,
    buffers: PhantomData<&'b CudaBuffer>,
}

enum What<'b> {
    Kernels(Vec<Binding>),
    Product { product: &'b LtProduct, a: u64, b: u64, c: u64 },
    Copy { from: u64, to: u64, bytes: usize },
}

impl<'b> Work<'b> {
    /// A launch of a kernel; `args` refer to `buffers` by index.
    ///
    /// # Errors
    /// As [`CudaKernel::bind`].
    pub fn kernel(kernel: &CudaKernel, grid: [u32; 3], args: &[Arg], buffers: &'b [CudaBuffer]) -> Result<Work<'b>, CudaError> {
        let binding = kernel.bind(grid, args, &buffers.iter().collect::<Vec<_>>())?;
        Ok(Work { what: What::Kernels(vec![binding]), buffers: PhantomData })
    }

    /// Launches of kernels, one behind the other; `args` refer to `buffers` by index.
    ///
    /// # Errors
    /// As [`CudaKernel::bind`].
    pub fn kernels(launches: &[(CudaKernel, [u32; 3], Vec<Arg>)], buffers: &[&'b CudaBuffer]) -> Result<Work<'b>, CudaError> {
        let bindings = launches.iter().map(|(kernel, grid, args)| kernel.bind(*grid, args, buffers)).collect::<Result<_, _>>()?;
        Ok(Work { what: What::Kernels(bindings), buffers: PhantomData })
    }

    /// A product of cuBLASLt; the buffers hold A, B and C.
    ///
    /// # Errors
    /// [`CudaError::Length`] for a buffer that is too short.
    pub fn product(product: &'b LtProduct, [a, b, c]: [&'b CudaBuffer; 3]) -> Result<Work<'b>, CudaError> {
        for (buffer, need) in [a, b, c].into_iter().zip(product.bytes()) {
            if buffer.len() < need {
                return Err(CudaError::Length { device: buffer.len(), host: need });
            }
        }
        Ok(Work { what: What::Product { product, a: a.address(), b: b.address(), c: c.address() }, buffers: PhantomData })
    }

    /// A copy of a whole buffer.
    ///
    /// # Errors
    /// [`CudaError::Length`] if the target is shorter than the source.
    pub fn copy(from: &'b CudaBuffer, to: &'b CudaBuffer) -> Result<Work<'b>, CudaError> {
        if to.len() < from.len() {
            return Err(CudaError::Length { device: to.len(), host: from.len() });
        }
        Ok(Work { what: What::Copy { from: from.address(), to: to.address(), bytes: from.len() }, buffers: PhantomData })
    }

    fn launch(&self, stream: &CudaStream) -> Result<(), CudaError> {
        match &self.what {
            // SAFETY: the buffers are borrowed for as long as the work; the safe functions below wait for the stream before they
            // return. The host never looks at the memory while it is borrowed, other than through the driver.
            What::Kernels(list) => list.iter().try_for_each(|binding| unsafe { binding.launch(stream) }),
            // SAFETY: as above; the lengths were checked, and the driver aligns allocations to 256 bytes.
            What::Product { product, a, b, c } => unsafe { product.launch(stream, *a, *b, *c) },
            // SAFETY: both ranges lie in buffers that are borrowed for as long as the work.
            What::Copy { from, to, bytes } => unsafe { stream.copy(*to, *from, *bytes) },
        }
    }
}

/// Runs one work and waits for it.
///
/// # Errors
/// A failed call, or a fault of the kernel.
pub fn run(work: &Work<'_>, stream: &CudaStream) -> Result<(), CudaError> {
    let launched = work.launch(stream);
    stream.synchronize().and(launched)
}

/// Mean seconds per launch of `n` launches, by the device's clock, behind `warm_up` launches that do not count. The works take turns.
///
/// # Errors
/// A failed call, or a fault of a kernel. The stream is idle in any case.
pub fn time<'w>(works: &[impl Borrow<Work<'w>>], warm_up: u32, n: u32, stream: &CudaStream) -> Result<f64, CudaError> {
    let n = n.max(1);
    let mut turns = works.iter().cycle();
    let mut launch = |count: u32| turns.by_ref().take(count as usize).try_for_each(|w| w.borrow().launch(stream));
    let timed = launch(warm_up).and_then(|()| stream.time(|| launch(n)));
    // On an error, launches may still be in flight.
    let idle = stream.synchronize();
    timed.and_then(|seconds| idle.map(|()| seconds / f64::from(n)))
}
