//! On a GPU: machine code that is kept, and bindings that are changed. Where there is no driver, nothing is asked.

use crate::source;
use std::sync::Arc;
use std::time::Instant;
use tilelift::interp::{Arg, ScalarArg, ViewArg};
use tilelift::ir::Scalar;
use tilelift::runtime::cuda::{Binding, CudaBuffer, CudaDevice, CudaError, CudaGraph, CudaKernel, CudaStream};
use tilelift::{Compiler, MemoryStore, Settings, Store};
use tilelift_kernels::Gemm;

const N: usize = 1000;

/// The device, if the tests are to use it.
fn device() -> Option<CudaDevice> {
    if std::env::var_os("TILELIFT_CUDA").is_none_or(|v| v != "1") {
        println!("skipped: TILELIFT_CUDA is not 1");
        return None;
    }
    Some(CudaDevice::new(0).unwrap_or_else(|e| panic!("{e}")))
}

fn buffer(device: &CudaDevice, values: &[f32]) -> CudaBuffer {
    let mut buffer = device.alloc(4 * values.len()).unwrap_or_else(|e| panic!("{e}"));
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    buffer.upload(&bytes).unwrap_or_else(|e| panic!("{e}"));
    buffer
}

fn values(buffer: &CudaBuffer) -> Vec<f32> {
    let mut bytes = vec![0; buffer.len()];
    buffer.download(&mut bytes).unwrap_or_else(|e| panic!("{e}"));
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn args(n: i64, s: f64) -> Vec<Arg> {
    let view = |b| ViewArg::dense(b, Scalar::F32, &[n]).into();
    vec![view(0), view(1), ScalarArg::float(Scalar::F32, s).into()]
}

/// `y = (x + 1.5) * s` over all elements.
fn works(device: &CudaDevice, kernel: &CudaKernel) {
    let x: Vec<f32> = (0..N).map(|n| n as f32).collect();
    let (a, b) = (buffer(device, &x), buffer(device, &vec![0.0; N]));
    let binding = kernel.bind([8, 1, 1], &args(N as i64, 2.0), &[&a, &b]).unwrap_or_else(|e| panic!("{e}"));
    let stream = device.stream().unwrap_or_else(|e| panic!("{e}"));
    // SAFETY: the buffers live until the stream is done, and are used by nothing else.
    unsafe { binding.launch(&stream) }.unwrap_or_else(|e| panic!("{e}"));
    stream.synchronize().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(values(&b), x.iter().map(|v| (v + 1.5) * 2.0).collect::<Vec<_>>());
}

#[test]
fn machine_code_is_kept_for_the_next_process() {
    let Some(device) = device() else { return };
    let target = device.target_name().expect("a target");
    let store = Arc::new(MemoryStore::new());
    let compiler = || Arc::new(Compiler::builder(target).store(store.clone()).build().unwrap_or_else(|e| panic!("{e}")));
    let first = compiler();
    let artifact = first.compile_text(&source(1), None).unwrap_or_else(|e| panic!("{e}"));
    for _ in 0..3 {
        works(&device, &device.load_kept(&artifact, &first).unwrap_or_else(|e| panic!("{e}")));
        first.wait_for_background();
    }
    let stats = first.stats();
    assert_eq!((stats.driver_jits, stats.driver_hits, store.len()), (1, 2, 2), "{stats:?}");
    // Another process.
    let second = compiler();
    let artifact = second.compile_text(&source(1), None).unwrap_or_else(|e| panic!("{e}"));
    let start = Instant::now();
    let kernel = device.load_kept(&artifact, &second).unwrap_or_else(|e| panic!("{e}"));
    let kept = start.elapsed();
    works(&device, &kernel);
    let stats = second.stats();
    assert_eq!((stats.compiles, stats.driver_jits, stats.driver_hits), (0, 0, 1), "{stats:?}");
    println!("assembled {:?}, kept {kept:?}", first.stats().driver_time);
    // Code that is whole, and of which the driver makes nothing.
    let code = device.linked(&artifact.text).unwrap_or_else(|e| panic!("{e}"));
    assert!(code.len() > 500);
    let bad = Arc::new(Wrong(store.clone()));
    let third = Arc::new(Compiler::builder(target).store(bad).build().unwrap_or_else(|e| panic!("{e}")));
    works(&device, &device.load_kept(&artifact, &third).unwrap_or_else(|e| panic!("{e}")));
    let stats = third.stats();
    assert_eq!((stats.driver_jits, stats.driver_hits, stats.discarded), (1, 0, 1), "{stats:?}");
}

/// A store that gives artifacts where machine code is asked for: right by its sums, but nothing to a driver.
#[derive(Debug)]
struct Wrong(Arc<MemoryStore>);

impl Store for Wrong {
    fn load(&self, key: &tilelift::Key) -> Option<Vec<u8>> {
        self.0.load(key).map(|mut bytes| {
            bytes[60] ^= 1;
            bytes
        })
    }
    fn save(&self, key: &tilelift::Key, bytes: &[u8]) -> Result<(), tilelift::StoreError> {
        self.0.save(key, bytes)
    }
    fn remove(&self, _: &tilelift::Key) {}
}

#[test]
fn bindings_are_changed_and_launched_again() {
    let Some(device) = device() else { return };
    let settings = Settings::new().same_extent(&[(0, 0), (1, 0)]);
    let compiler = Compiler::builder(device.target_name().expect("a target")).settings(settings).build().unwrap_or_else(|e| panic!("{e}"));
    let artifact = compiler.compile_text(&source(1), None).unwrap_or_else(|e| panic!("{e}"));
    let kernel = device.load(&artifact).unwrap_or_else(|e| panic!("{e}"));
    assert!(!kernel.function().is_null());
    let x: Vec<f32> = (0..N).map(|n| n as f32).collect();
    let (a, b, c) = (buffer(&device, &x), buffer(&device, &vec![0.0; N]), buffer(&device, &vec![-1.0; N]));
    let stream = device.stream().unwrap_or_else(|e| panic!("{e}"));
    let mut binding = kernel.bind([0, 1, 1], &args(N as i64, 2.0), &[&a, &b]).unwrap_or_else(|e| panic!("{e}"));
    let launch = |binding: &tilelift::runtime::cuda::Binding| {
        // SAFETY: the buffers live until the stream is done, and are used by nothing else.
        unsafe { binding.launch(&stream) }.unwrap_or_else(|e| panic!("{e}"));
        stream.synchronize().unwrap_or_else(|e| panic!("{e}"));
    };
    launch(&binding);
    assert!(binding.params().is_empty() && values(&b) == vec![0.0; N], "an empty grid is no launch");
    binding.set_grid([8, 1, 1]).unwrap_or_else(|e| panic!("{e}"));
    launch(&binding);
    assert_eq!(values(&b)[N - 1], (N as f32 + 0.5) * 2.0);
    binding.set_pointer(1, &c, 0).unwrap_or_else(|e| panic!("{e}"));
    binding.set_scalar(2, ScalarArg::float(Scalar::F32, 4.0)).unwrap_or_else(|e| panic!("{e}"));
    binding.set_extent(0, 0, 500).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(binding.set_pointer(1, &a, 0), Err(CudaError::Args(tilelift::interp::ArgError::Overlap { written: 1, other: 0 })));
    launch(&binding);
    let want: Vec<f32> = (0..N).map(|n| if n < 500 { (n as f32 + 1.5) * 4.0 } else { -1.0 }).collect();
    assert_eq!(values(&c), want);
    let start = Instant::now();
    for _ in 0..1000 {
        binding.set_pointer(1, &b, 0).unwrap_or_else(|e| panic!("{e}"));
    }
    println!("a pointer is changed in {:?}", start.elapsed() / 1000);
}

/// A product whose operands come by tensor maps, over no rows: neither memory nor work.
#[test]
fn an_empty_expert_is_no_error() {
    let Some(device) = device() else { return };
    let target = device.target_name().expect("a target");
    let kernel = Gemm::new(Scalar::F16).build().unwrap_or_else(|e| panic!("{e}"));
    let artifact = Compiler::new(target).and_then(|c| c.compile(&kernel)).unwrap_or_else(|e| panic!("{e}"));
    let kernel = device.load(&artifact).unwrap_or_else(|e| panic!("{e}"));
    let stream = device.stream().unwrap_or_else(|e| panic!("{e}"));
    let full = device.alloc(256 * 256 * 4).unwrap_or_else(|e| panic!("{e}"));
    // SAFETY: nothing is there, and nothing is touched.
    let nothing = unsafe { device.borrow_memory(0, 0) };
    let shape = |n: usize, rows: i64| {
        let a = &artifact.arguments[n];
        let extents: Vec<i64> = (0..a.rank()).map(|d| if d == 0 { rows } else { 256 }).collect();
        Arg::from(ViewArg::dense(n, a.elem(), &extents))
    };
    // A has no rows, and so has the result; B is there.
    let views = artifact.arguments.iter().filter(|a| a.rank() > 0).count();
    assert_eq!((views, artifact.arguments.len()), (3, 3), "{:?}", artifact.arguments);
    let args = [shape(0, 0), shape(1, 256), shape(2, 0)];
    for grid in [[0, 1, 1], [2 * artifact.grid_rule().multiple_of, 1, 1]] {
        let binding = kernel.bind(grid, &args, &[&nothing, &full, &nothing]).unwrap_or_else(|e| panic!("{grid:?}: {e}"));
        // SAFETY: as above.
        unsafe { binding.launch(&stream) }.unwrap_or_else(|e| panic!("{grid:?}: {e}"));
        stream.synchronize().unwrap_or_else(|e| panic!("{grid:?}: {e}"));
    }
}

/// A replay takes the pointer and the number that a launch was given last, or leaves it out where its grid is none.
fn a_launch_is_changed(stream: &CudaStream, [first, mut second]: [Binding; 2], buffers: &[CudaBuffer; 3], x: &[f32]) {
    let mut named = None;
    let captured = stream.capture(|| {
        // SAFETY: buffers and bindings live until the stream is done, and are used by nothing else; so below.
        unsafe { first.launch(stream).and_then(|()| second.launch(stream)) }?;
        named = Some(stream.captured()?);
        Ok(())
    });
    let (mut graph, named) = (captured.unwrap_or_else(|e| panic!("{e}")), named.expect("it was launched"));
    let replayed = |graph: &CudaGraph| {
        // SAFETY: as above.
        unsafe { graph.launch(stream) }.unwrap_or_else(|e| panic!("{e}"));
        stream.synchronize().unwrap_or_else(|e| panic!("{e}"));
        values(&buffers[2])
    };
    // From the input itself, by another number: what the first launch makes is not read.
    second.set_pointer(0, &buffers[0], 0).unwrap_or_else(|e| panic!("{e}"));
    second.set_scalar(2, ScalarArg::float(Scalar::F32, 3.0)).unwrap_or_else(|e| panic!("{e}"));
    graph.update(named, &second).unwrap_or_else(|e| panic!("{e}"));
    let want: Vec<f32> = x.iter().map(|v| (v + 1.5) * 3.0).collect();
    assert_eq!(replayed(&graph), want);
    second.set_scalar(2, ScalarArg::float(Scalar::F32, 5.0)).unwrap_or_else(|e| panic!("{e}"));
    second.set_grid([0, 1, 1]).unwrap_or_else(|e| panic!("{e}"));
    graph.update(named, &second).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(replayed(&graph), want, "a launch without work does nothing");
    second.set_grid([8, 1, 1]).unwrap_or_else(|e| panic!("{e}"));
    graph.update(named, &second).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(replayed(&graph), x.iter().map(|v| (v + 1.5) * 5.0).collect::<Vec<_>>());
}

#[test]
fn captured_launches_run_when_they_are_replayed() {
    let Some(device) = device() else { return };
    let compiler = Compiler::new(device.target_name().expect("a target")).unwrap_or_else(|e| panic!("{e}"));
    let artifact = compiler.compile_text(&source(1), None).unwrap_or_else(|e| panic!("{e}"));
    let kernel = device.load(&artifact).unwrap_or_else(|e| panic!("{e}"));
    let x: Vec<f32> = (0..N).map(|n| n as f32).collect();
    let buffers = [buffer(&device, &x), buffer(&device, &vec![0.0; N]), buffer(&device, &vec![0.0; N])];
    let bind = |from: usize, to: usize| {
        let binding = kernel.bind([8, 1, 1], &args(N as i64, 2.0), &[&buffers[from], &buffers[to]]);
        binding.unwrap_or_else(|e| panic!("{e}"))
    };
    let (first, second) = (bind(0, 1), bind(1, 2));
    let stream = device.stream().unwrap_or_else(|e| panic!("{e}"));
    // SAFETY: buffers and bindings live until the stream is done, and are used by nothing else; so below.
    let graph = stream.capture(|| unsafe { first.launch(&stream).and_then(|()| second.launch(&stream)) }).unwrap_or_else(|e| panic!("{e}"));
    stream.synchronize().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(values(&buffers[1]), vec![0.0; N], "what is captured does not run");
    for _ in 0..2 {
        // SAFETY: as above.
        unsafe { graph.launch(&stream) }.unwrap_or_else(|e| panic!("{e}"));
    }
    stream.synchronize().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(values(&buffers[2]), x.iter().map(|v| ((v + 1.5) * 2.0 + 1.5) * 2.0).collect::<Vec<_>>());
    a_launch_is_changed(&stream, [bind(0, 1), bind(1, 2)], &buffers, &x);
    // An error of what is captured is the capture's, and the stream goes on.
    let failed = stream.capture(|| Err(CudaError::ZeroByte)).map(|_| ());
    assert_eq!(failed, Err(CudaError::ZeroByte));
    // SAFETY: as above.
    unsafe { first.launch(&stream) }.unwrap_or_else(|e| panic!("{e}"));
    stream.synchronize().unwrap_or_else(|e| panic!("{e}"));
}
