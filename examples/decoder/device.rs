//! Where the engine runs: a CUDA device, or the simulator. Memory is a list of buffers, launches are bound once and run often.

use std::collections::HashMap;
use std::error::Error;
use std::rc::Rc;
use std::sync::Arc;
use tilelift::interp::{Arg, Buffer, Memory, ViewArg};
use tilelift::ir::Scalar;
use tilelift::runtime::cuda::{Binding, CudaBuffer, CudaDevice, CudaGraph, CudaKernel, CudaStream};
use tilelift::runtime::sim::{SimDevice, SimKernel};
use tilelift::{Artifact, Key, targets};
use tilelift_kernels::plan::DeviceFacts;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error>>;

/// A dense tensor: a buffer of the device, from some byte on.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub buffer: usize,
    pub offset: u64,
    pub elem: Scalar,
    pub shape: Vec<u32>,
}

impl Tensor {
    /// The same memory under other extents.
    pub fn seen(&self, shape: &[u32]) -> Tensor {
        Tensor { shape: shape.to_vec(), ..self.clone() }
    }

    /// Rows of the first extent.
    pub fn rows(&self, rows: u32) -> Tensor {
        let mut shape = self.shape.clone();
        shape[0] = rows;
        self.seen(&shape)
    }

    /// The second half of the first extent.
    pub fn second_half(&self) -> Tensor {
        let half = self.rows(self.shape[0] / 2);
        Tensor { offset: half.offset + half.bytes() as u64, ..half }
    }

    pub fn bytes(&self) -> usize {
        self.shape.iter().map(|&e| e as usize).product::<usize>() * self.elem.bytes() as usize
    }
}

impl From<&Tensor> for Arg {
    fn from(t: &Tensor) -> Arg {
        ViewArg::dense(t.buffer, t.elem, &t.shape.iter().map(|&e| i64::from(e)).collect::<Vec<_>>()).at(t.offset).into()
    }
}

/// What new memory holds.
pub(crate) enum Contents<'b> {
    /// Nothing that may be read: the simulator sees to that.
    Undefined,
    Zeros,
    Bytes(&'b [u8]),
}

pub(crate) enum Device {
    Sim(Sim),
    Cuda(Cuda),
}

#[derive(Default)]
pub(crate) struct Sim {
    device: SimDevice,
    buffers: Vec<Buffer>,
    kernels: HashMap<Key, Rc<SimKernel>>,
}

pub(crate) struct Cuda {
    device: CudaDevice,
    stream: CudaStream,
    buffers: Vec<CudaBuffer>,
    kernels: HashMap<Key, Rc<CudaKernel>>,
}

/// A launch that is bound to its memory.
pub(crate) struct Launch {
    /// The kernel's name.
    pub name: String,
    /// Grid, threads, bytes of shared memory, and on a GPU registers, where what does not fit them is marked.
    pub facts: String,
    how: How,
}

enum How {
    Sim { kernel: Rc<SimKernel>, grid: [u32; 3], args: Vec<Arg>, buffers: Vec<usize> },
    Cuda(Binding),
}

impl Device {
    pub fn simulator() -> Device {
        Device::Sim(Sim::default())
    }

    pub fn cuda() -> Outcome<Device> {
        let device = CudaDevice::new(0)?;
        let stream = device.stream()?;
        Ok(Device::Cuda(Cuda { device, stream, buffers: Vec::new(), kernels: HashMap::new() }))
    }

    pub fn name(&self) -> String {
        match self {
            Device::Sim(_) => "the simulator".to_owned(),
            Device::Cuda(c) => c.device.name().to_owned(),
        }
    }

    /// The target that kernels are compiled for, where nobody asks for another.
    pub fn target(&self) -> Outcome<&'static str> {
        match self {
            Device::Sim(_) => Ok("sm_80"),
            Device::Cuda(c) => c.device.target_name().ok_or_else(|| "the device is older than every target".into()),
        }
    }

    /// What plans of products want to know.
    pub fn facts(&self, target: &str) -> Outcome<DeviceFacts> {
        let target = targets::by_name(target).ok_or("no such target")?;
        Ok(match self {
            Device::Sim(_) => DeviceFacts::usual(&target),
            Device::Cuda(c) => DeviceFacts::new(&target, c.device.facts()?.multiprocessors),
        })
    }

    pub fn alloc(&mut self, elem: Scalar, shape: &[u32], contents: Contents<'_>) -> Outcome<Tensor> {
        let mut made = Tensor { buffer: 0, offset: 0, elem, shape: shape.to_vec() };
        let len = made.bytes();
        match self {
            Device::Sim(s) => {
                made.buffer = s.buffers.len();
                s.buffers.push(match contents {
                    Contents::Undefined => Buffer::uninit(len),
                    Contents::Zeros => Buffer::zeroed(len),
                    Contents::Bytes(bytes) => Buffer::from_bytes(bytes.to_vec()),
                });
            }
            Device::Cuda(c) => {
                made.buffer = c.buffers.len();
                let mut buffer = c.device.alloc(len)?;
                match contents {
                    Contents::Undefined => {}
                    Contents::Zeros => buffer.fill(0)?,
                    Contents::Bytes(bytes) => buffer.upload(bytes)?,
                }
                c.buffers.push(buffer);
            }
        }
        Ok(made)
    }

    /// Writes the start of a tensor, when all that was launched is done.
    pub fn upload(&mut self, to: &Tensor, bytes: &[u8]) -> Outcome<()> {
        self.finish()?;
        match self {
            Device::Sim(s) => s.buffers[to.buffer].write(0, bytes),
            Device::Cuda(c) => c.buffers[to.buffer].upload(bytes)?,
        }
        Ok(())
    }

    /// A tensor's bytes, when all that was launched is done.
    pub fn download(&self, from: &Tensor) -> Outcome<Vec<u8>> {
        self.finish()?;
        let mut bytes = vec![0; from.bytes()];
        match self {
            Device::Sim(s) => bytes.copy_from_slice(&s.buffers[from.buffer].bytes()[..from.bytes()]),
            Device::Cuda(c) => c.buffers[from.buffer].download(&mut bytes)?,
        }
        Ok(bytes)
    }

    pub fn finish(&self) -> Outcome<()> {
        match self {
            Device::Sim(_) => Ok(()),
            Device::Cuda(c) => Ok(c.stream.synchronize()?),
        }
    }

    /// Loads an artifact, once, and binds a launch of it.
    pub fn bind(&mut self, artifact: &Arc<Artifact>, grid: [u32; 3], args: Vec<Arg>) -> Outcome<Launch> {
        let key = artifact.key.ok_or("an artifact of a compiler has a key")?;
        let mut facts = format!("{grid:?} x {}, {} bytes", artifact.threads, artifact.shared_bytes);
        let how = match self {
            Device::Sim(s) => {
                let kernel = match s.kernels.get(&key) {
                    Some(k) => k.clone(),
                    None => Rc::new(s.device.load(artifact)?),
                };
                s.kernels.insert(key, kernel.clone());
                let mut buffers: Vec<usize> = Vec::new();
                let mut args = args;
                for arg in &mut args {
                    if let Arg::View(v) = arg {
                        // A launch is given the buffers that it uses.
                        let known = buffers.iter().position(|&b| b == v.buffer);
                        let number = known.unwrap_or(buffers.len());
                        if known.is_none() {
                            buffers.push(v.buffer);
                        }
                        v.buffer = number;
                    }
                }
                How::Sim { kernel, grid, args, buffers }
            }
            Device::Cuda(c) => {
                let kernel = match c.kernels.get(&key) {
                    Some(k) => k.clone(),
                    None => Rc::new(c.device.load(artifact)?),
                };
                c.kernels.insert(key, kernel.clone());
                facts += &format!(", {} registers", kernel.registers());
                if kernel.local_bytes() > 0 {
                    facts += &format!(" and {} bytes of local memory", kernel.local_bytes());
                }
                How::Cuda(kernel.bind(grid, &args, &c.buffers.iter().collect::<Vec<_>>())?)
            }
        };
        Ok(Launch { name: artifact.name.clone(), facts, how })
    }

    /// Puts launches on the device's stream, one behind the other.
    pub fn run<'l>(&mut self, launches: impl IntoIterator<Item = &'l Launch>) -> Outcome<()> {
        for launch in launches {
            match (&mut *self, &launch.how) {
                (Device::Sim(s), How::Sim { kernel, grid, args, buffers }) => {
                    let mut memory = Memory::new();
                    for &b in buffers {
                        memory.add(std::mem::replace(&mut s.buffers[b], Buffer::zeroed(0)));
                    }
                    let done = s.device.execute(kernel, *grid, args, &mut memory);
                    for (&b, buffer) in buffers.iter().zip(memory.buffers) {
                        s.buffers[b] = buffer;
                    }
                    done.map_err(|e| format!("@{}: {e}", launch.name))?;
                }
                (Device::Cuda(c), How::Cuda(binding)) => {
                    // SAFETY: buffers live as long as the device, which outlives the stream's work; all launches that use them are on that stream.
                    unsafe { binding.launch(&c.stream) }?;
                }
                (Device::Sim(_), How::Cuda(_)) | (Device::Cuda(_), How::Sim { .. }) => {
                    return Err("a launch belongs to the device that bound it".into());
                }
            }
        }
        Ok(())
    }

    /// Microseconds that launches take when a captured graph of them is replayed, the median of some rounds. None on the simulator, which has no clock.
    pub fn time(&mut self, launches: &[&Launch], rounds: usize) -> Outcome<Option<f64>> {
        let Device::Cuda(c) = self else { return Ok(None) };
        let graph: CudaGraph = c.stream.capture(|| {
            for launch in launches {
                if let How::Cuda(binding) = &launch.how {
                    // SAFETY: as in `run`.
                    unsafe { binding.launch(&c.stream) }?;
                }
            }
            Ok(())
        })?;
        let mut times = Vec::new();
        for round in 0..rounds + 2 {
            // SAFETY: what was captured uses the device's buffers, on its stream.
            let seconds = c.stream.time(|| unsafe { graph.launch(&c.stream) })?;
            // The first rounds warm up.
            if round >= 2 {
                times.push(seconds * 1e6);
            }
        }
        times.sort_by(f64::total_cmp);
        Ok(times.get(times.len() / 2).copied())
    }
}
