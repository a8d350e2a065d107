//! Drivers that are missing, stubs, too old, or a mock of one; and a host whose panics abort. The test runs itself as the host: with the mock's folder in
//! front of the places where libraries are looked for, and with a panic that ends the process, as with `panic = "abort"`, even if somebody catches it.

use crate::{Folder, kernels, source};
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use tilelift::interp::{Arg, ScalarArg, ViewArg};
use tilelift::ir::Scalar;
use tilelift::runtime::cuda::{self, CudaDevice};
use tilelift::{Artifact, Compiler, DirectoryStore, MemoryStore, Request, Settings};

const MOCK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cuda_mock/cuda_mock.c");
const ACT: &str = "TILELIFT_TEST_DRIVER";
const RECORD: &str = "MOCK_RECORD";
/// Names under which a driver is found.
const NAMES: [&str; 2] = ["libcuda.so", "libcuda.so.1"];

/// What a child does; its panics abort.
#[test]
#[ignore = "a child of the tests below"]
fn child() {
    let Ok(act) = std::env::var(ACT) else { return };
    std::panic::set_hook(Box::new(|info| {
        eprintln!("a panic: {info}");
        std::process::abort();
    }));
    match act.as_str() {
        "probe" => {
            let (first, device) = (cuda::probe(), CudaDevice::new(0).map(|_| ()));
            println!("{first:?}\n{}", device.map_or_else(|e| e.to_string(), |()| "a device".to_owned()));
        }
        "launch" => launches(),
        _ => hosts(&act),
    }
}

/// The test itself as a host, with a folder in front.
fn host(act: &str, folder: &Path) -> Output {
    let mut run = Command::new(std::env::current_exe().unwrap_or_else(|e| panic!("{e}")));
    run.args(["--exact", "drivers::child", "--ignored", "--nocapture"]).env(ACT, act);
    run.env("LD_LIBRARY_PATH", folder).env(RECORD, folder.join("record"));
    run.output().unwrap_or_else(|e| panic!("{e}"))
}

/// What it says; it ends well and prints nothing else.
fn said(out: &Output) -> String {
    let (said, wrong) = (String::from_utf8_lossy(&out.stdout).into_owned(), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{}: {said}{wrong}", out.status);
    assert_eq!(wrong, "", "something is printed");
    said
}

/// A folder with the mock under some names; `None` without a C compiler.
fn mock(names: &[&str], defined: &[&str]) -> Option<Folder> {
    let Some(compiler) = tilelift_oracle::c_compiler() else {
        assert!(!tilelift_oracle::required(), "TILELIFT_REQUIRE_ORACLES is set, and there is no C compiler");
        println!("skipped: no C compiler, so there is no mock driver");
        return None;
    };
    let folder = Folder::new("driver");
    std::fs::create_dir_all(&folder.0).unwrap_or_else(|e| panic!("{e}"));
    for name in names {
        let mut command = Command::new(compiler);
        command.args(["-std=c11", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]).arg(folder.0.join(name));
        let out = command.args(defined.iter().map(|d| format!("-D{d}"))).arg(MOCK).output().unwrap_or_else(|e| panic!("{e}"));
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
    Some(folder)
}

#[test]
#[cfg(target_os = "linux")]
fn a_driver_that_is_missing_a_stub_or_old_is_a_typed_error() {
    // Files that are no libraries: the loader looks no further, whatever the machine has.
    let none = Folder::new("driver");
    std::fs::create_dir_all(&none.0).unwrap_or_else(|e| panic!("{e}"));
    for name in NAMES {
        std::fs::write(none.0.join(name), "").unwrap_or_else(|e| panic!("{e}"));
    }
    let text = said(&host("probe", &none.0));
    assert!(text.contains("Err(NoDriver {") && text.contains("install the NVIDIA driver"), "{text}");
    for (names, defined, error, remedy) in [
        // Toolkits have a stub of the first name; what is behind it is never opened, by the bindings either.
        (&NAMES[..1], &["INIT=34"][..], "Err(StubDriver { library: \"libcuda.so\" })", "take its folder off LD_LIBRARY_PATH"),
        (&NAMES[..], &["INIT=34"], "Err(StubDriver { library: \"libcuda.so\" })", "not a driver"),
        (&NAMES[..], &["INIT=100"], "Err(NoDevice { ordinal: 0, count: 0 })", "CUDA_VISIBLE_DEVICES"),
        (&NAMES[..], &["INIT=1"], "Err(Driver { call: \"cuInit\", name: \"CUDA_ERROR_INVALID_VALUE\"", "cuInit failed"),
        (&NAMES[..], &["VERSION=11030"], "Err(OldDriver { version: 11030", "install a newer driver"),
        (&NAMES[..], &["cuLinkComplete=gone"], "Err(MissingFunction { name: \"cuLinkComplete\" })", "install a newer driver"),
        (&NAMES[..], &["cuInit=gone"], "Err(MissingFunction { name: \"cuInit\" })", "install a newer driver"),
        (&NAMES[..], &[], "Ok(())", "a device"),
    ] {
        let Some(folder) = mock(names, defined) else { return };
        let text = said(&host("probe", &folder.0));
        assert!(text.contains(error) && text.contains(remedy), "{defined:?}: {text}");
    }
}

/// Whatever the module calls is looked for first: the bindings panic where a function is missing.
#[test]
fn every_function_that_is_called_is_looked_for() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/runtime/cuda");
    let read = |p: &Path| std::fs::read_to_string(p).unwrap_or_else(|e| panic!("{}: {e}", p.display()));
    let probed = read(&folder.join("probe.rs"));
    let mut called = 0;
    for file in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{e}")).flatten() {
        let text = read(&file.path());
        for at in text.match_indices("sys::cu").map(|m| m.0 + "sys::".len()) {
            let name: String = text[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
            assert!(probed.contains(&format!("\"{name}\"")), "{name} of {}", file.path().display());
            called += 1;
        }
    }
    assert!(called > 30, "{called}");
}

fn args(rows: i64) -> Vec<Arg> {
    let view = |b| ViewArg::dense(b, Scalar::F32, &[rows]).into();
    vec![view(0), view(1), ScalarArg::float(Scalar::F32, 2.0).into()]
}

/// Binds, launches, changes and captures; grids and batches without work in between.
fn launches() {
    let device = CudaDevice::new(0).unwrap_or_else(|e| panic!("{e}"));
    let compiler = Arc::new(Compiler::builder("sm_90a").store(Arc::new(MemoryStore::new())).build().unwrap_or_else(|e| panic!("{e}")));
    let artifact = compiler.compile_text(&source(1), None).unwrap_or_else(|e| panic!("{e}"));
    let kernel = device.load_kept(&artifact, &compiler).unwrap_or_else(|e| panic!("{e}"));
    compiler.wait_for_background();
    drop(device.load_kept(&artifact, &compiler).unwrap_or_else(|e| panic!("{e}")));
    let (stats, buffers) = (compiler.stats(), [(); 3].map(|()| device.alloc(4096).unwrap_or_else(|e| panic!("{e}"))));
    assert_eq!((stats.driver_jits, stats.driver_hits), (1, 1));
    let stream = device.stream().unwrap_or_else(|e| panic!("{e}"));
    let launch = |b: &cuda::Binding| {
        // SAFETY: the mock runs nothing.
        unsafe { b.launch(&stream) }.unwrap_or_else(|e| panic!("{e}"));
    };
    let mut binding = kernel.bind([8, 1, 1], &args(1000), &[&buffers[0], &buffers[1]]).unwrap_or_else(|e| panic!("{e}"));
    launch(&binding);
    binding.set_pointer(0, &buffers[2], 0).unwrap_or_else(|e| panic!("{e}"));
    launch(&binding);
    for empty in [[0, 1, 1], [8, 0, 1], [0, 0, 0]] {
        binding.set_grid(empty).unwrap_or_else(|e| panic!("{e}"));
        launch(&binding);
    }
    binding.set_grid([4, 1, 1]).unwrap_or_else(|e| panic!("{e}"));
    graphs(&stream, &mut binding, &buffers);
    // A batch without rows is bound without memory, too.
    let nothing = device.alloc(0).unwrap_or_else(|e| panic!("{e}"));
    let none = kernel.bind([0, 1, 1], &args(0), &[&nothing, &nothing]).unwrap_or_else(|e| panic!("{e}"));
    launch(&none);
    let mut memory = tilelift::interp::Memory::new();
    for _ in 0..2 {
        memory.add(tilelift::interp::Buffer::zeroed(0));
    }
    device.execute(&kernel, [0, 1, 1], &args(0), &mut memory).unwrap_or_else(|e| panic!("{e}"));
    println!("{:x} {:x}", buffers[0].address(), buffers[2].address());
}

/// Two launches are captured and replayed, with other arguments for the second one, and without it.
fn graphs(stream: &cuda::CudaStream, binding: &mut cuda::Binding, buffers: &[cuda::CudaBuffer; 3]) {
    let capture = |binding: &cuda::Binding| {
        let mut named = None;
        let graph = stream.capture(|| {
            assert!(matches!(stream.captured(), Err(cuda::CudaError::Capture { .. })), "nothing was launched yet");
            // SAFETY: the mock runs nothing.
            unsafe { binding.launch(stream)? };
            // SAFETY: as above.
            unsafe { binding.launch(stream)? };
            named = Some(stream.captured()?);
            Ok(())
        });
        (graph.unwrap_or_else(|e| panic!("{e}")), named.expect("it was launched"))
    };
    let (mut graph, second) = capture(binding);
    let replay = |graph: &cuda::CudaGraph| {
        // SAFETY: the mock runs nothing.
        unsafe { graph.launch(stream) }.unwrap_or_else(|e| panic!("{e}"));
    };
    replay(&graph);
    binding.set_pointer(0, &buffers[0], 0).unwrap_or_else(|e| panic!("{e}"));
    graph.update(second, binding).unwrap_or_else(|e| panic!("{e}"));
    replay(&graph);
    binding.set_grid([0, 1, 1]).unwrap_or_else(|e| panic!("{e}"));
    graph.update(second, binding).unwrap_or_else(|e| panic!("{e}"));
    assert!(matches!(stream.captured(), Err(cuda::CudaError::Capture { .. })));
    binding.set_grid([4, 1, 1]).unwrap_or_else(|e| panic!("{e}"));
    let (_, others) = capture(binding);
    assert!(matches!(graph.update(others, binding), Err(cuda::CudaError::Capture { .. })));
}

/// A grid with a 0 in it is no call of the driver, and a launch takes the pointer that it was given last.
#[test]
#[cfg(target_os = "linux")]
fn the_driver_sees_the_launches_that_have_work() {
    let Some(folder) = mock(&NAMES, &[]) else { return };
    let text = said(&host("launch", &folder.0));
    let record = std::fs::read_to_string(folder.0.join("record")).unwrap_or_else(|e| panic!("{e}"));
    let pointers = text.lines().find_map(|l| l.split_once(' ').filter(|p| p.0.len() > 6 && !p.1.contains(' ')));
    let (first, third) = pointers.unwrap_or_else(|| panic!("{text}"));
    let want = [
        // The driver's JIT once; then the machine code that its linker made.
        "cuModuleLoadDataEx".to_owned(),
        "cuModuleLoadData".to_owned(),
        "cuModuleUnload".to_owned(),
        format!("cuLaunchKernelEx 8 1 1, {first}"),
        format!("cuLaunchKernelEx 8 1 1, {third}"),
        "cuStreamBeginCapture_v2".to_owned(),
        format!("cuLaunchKernelEx 4 1 1, {third}"),
        format!("cuLaunchKernelEx 4 1 1, {third}"),
        "cuStreamEndCapture".to_owned(),
        "cuGraphLaunch".to_owned(),
        // The second launch of the two, with its new pointer.
        format!("cuGraphExecKernelNodeSetParams 3: 4 1 1, {first}"),
        "cuGraphNodeSetEnabled 1".to_owned(),
        "cuGraphLaunch".to_owned(),
        "cuGraphNodeSetEnabled 0".to_owned(),
        "cuStreamBeginCapture_v2".to_owned(),
        format!("cuLaunchKernelEx 4 1 1, {first}"),
        format!("cuLaunchKernelEx 4 1 1, {first}"),
        "cuStreamEndCapture".to_owned(),
        "cuModuleUnload".to_owned(),
    ];
    assert_eq!(record.lines().collect::<Vec<_>>(), want);
}

/// What a host does that has no driver: it compiles, right and wrong, from a damaged store, with little stack, and binds right and wrong.
fn hosts(folder: &str) {
    let store = Arc::new(DirectoryStore::new(folder));
    let compiler = |settings| Compiler::builder("sm_90a").store(store.clone()).settings(settings).build().unwrap_or_else(|e| panic!("{e}"));
    let (first, list) = (compiler(Settings::new()), kernels(4));
    assert!(first.compile_many(list.iter().map(Request::of), 2).iter().all(Result::is_ok));
    let artifact = first.compile(&list[0]).unwrap_or_else(|e| panic!("{e}"));
    let path = store.path(&artifact.key.expect("a compiler made it"));
    std::fs::write(&path, "damaged").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(compiler(Settings::new()).compile(&list[0]).as_deref(), Ok(&*artifact));
    let wide = "kernel @wide(v0: view<f32, [?]>) {\n    v1 = splat 1.0 : tile<4194304xf32>\n    store v0[0], v1\n}\n";
    for text in ["kernel", wide, "kernel @a(v0: f32) {\n    v1 = add v0, v9\n}\n", &"(".repeat(100_000), &"for %i in 0..9 {\n".repeat(5000)]
    {
        assert!(first.compile_text(text, None).is_err());
    }
    assert!(compiler(Settings::new().in_place(7, 9)).compile(&list[0]).is_err());
    assert!(Compiler::new("sm_1").is_err() && Artifact::from_bytes(b"none").is_err());
    let small = std::thread::Builder::new().stack_size(64 << 10).spawn(move || first.compile(&kernels(6)[5]).is_ok());
    assert!(small.is_ok_and(|t| t.join().unwrap_or(false)));
    let bind = |grid, n: i64| tilelift::launch::Bound::new(artifact.clone(), grid, &args(n), &[Default::default(); 2]).is_ok();
    assert!(!bind([1; 3], 8) && !bind([u32::MAX; 3], 0) && !bind([1; 3], -1) && !bind([1; 3], i64::MAX) && bind([0; 3], 0));
    let _ = (cuda::probe().is_ok(), CudaDevice::count().is_ok());
    println!("all is answered");
}

/// With `panic = "abort"` nobody catches a panic: there is none to catch.
#[test]
fn a_host_whose_panics_abort_lives() {
    let folder = Folder::new("abort");
    let out = host(folder.0.to_str().expect("a name"), Path::new("/nowhere"));
    assert!(said(&out).contains("all is answered"));
}
