//! The program on AMD's targets: `sim` on code objects, `--device hip` with a mock library and without one, and what it says.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use tilelift_amdgcn_sim::Module;

const DOUBLE: &str = "kernel @on(v0: view<f32, [?]>, v1: view<f32, [?]>) {
    v2 = load v0[0] : tile<8xf32>
    v3 = add v2, v2
    store v1[0], v3
}
";

/// A folder for the files of one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tilelift-amd-tool-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for temporary files");
        Folder(path)
    }
    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        fs::write(self.0.join(name), bytes).expect("a temporary file");
        self.path(name)
    }
    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays in the temporary folder does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn program(library: &str, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tilelift"));
    command.args(args).env(tilelift::runtime::hip::LIBRARY_VARIABLE, library).output().expect("the program runs")
}

/// Runs the program; exit code, standard output, standard error.
fn tool(args: &[&str]) -> (i32, String, String) {
    let out = program("/nowhere/libamdhip64.so", args);
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    (out.status.code().unwrap_or(-1), text(&out.stdout), text(&out.stderr))
}

#[test]
fn code_objects_run_count_and_are_judged() {
    let folder = Folder::new("sim");
    let source = folder.file("k.tile", DOUBLE);
    let object = folder.path("k.o");
    assert_eq!(tool(&["compile", &source, "--target", "gfx942", "--emit", "object", "-o", &object]).0, 0);
    let threads = Module::load(&fs::read(&object).unwrap()).unwrap().kernel("on").expect("the kernel").max_workgroup;

    // The object itself brings a description to complete.
    let (code, _, err) = tool(&["sim", &object]);
    assert!(code == 1 && err.contains("code object for gfx942") && err.contains("\"entry\":\"on\""), "{err}");

    let view = |name: &str, bytes: u32| format!(r#"{{"buffer": {{"bytes": {bytes}, {name}}}}}, {{"u32": 8}}"#);
    let run = |name: &str, args: &str| {
        let text = format!(r#"{{"code": "k.o", "grid": [1], "block": [{threads}], "args": [{args}]}}"#);
        tool(&["sim", &folder.file(name, text), "--json"])
    };
    let ones: Vec<u8> = [1.5f32; 8].iter().flat_map(|x| x.to_le_bytes()).collect();
    folder.file("x", &ones);
    let (code, out, err) = run("good.json", &format!("{}, {}", view(r#""in": "x""#, 32), view(r#""out": "y""#, 32)));
    assert!(code == 0 && err.is_empty(), "{out}{err}");
    for part in [r#""status": "clean""#, r#""target": "gfx942""#, r#""s_waitcnt": "#, r#""transactions": "#, r#""text": "global_load"#] {
        assert!(out.contains(part), "`{part}` is not in {out}");
    }
    let wrote: Vec<f32> = fs::read(folder.path("y")).unwrap().chunks_exact(4).map(|c| f32::from_le_bytes(c.try_into().unwrap())).collect();
    assert_eq!(wrote, [3.0; 8]);

    let (code, out, _) = run("short.json", &format!("{}, {}", view(r#""in": "x""#, 32), view(r#""out": "y""#, 16)));
    for part in [r#""status": "fault""#, r#""kind": "out-of-bounds""#, r#""text": "global_store"#, r#""workgroup": "#, r#""remedy": "mask"#]
    {
        assert!(code == 1 && out.contains(part), "`{part}` is not in {out}");
    }
    let (code, out, _) = run("unwritten.json", &format!("{}, {}", view(r#""out": "z""#, 32), view(r#""out": "y""#, 32)));
    assert!(code == 1 && out.contains(r#""kind": "undefined-value""#), "{out}");
    let (code, out, _) = run("few.json", &view(r#""in": "x""#, 32));
    assert!(code == 1 && out.contains("the kernel takes 4 arguments"), "{out}");
    let (code, out, _) = run("size.json", r#"{"u32": 1}, {"u32": 1}, {"u64": 0}, {"u32": 1}"#);
    assert!(code == 1 && out.contains("args[0]: the kernel declares argument 0: a buffer, and this has 4 bytes"), "{out}");
}

#[test]
fn what_llvm_links_runs() {
    if tilelift_oracle::lld().is_none() || !tilelift_oracle::assembles("gfx942") {
        assert!(!tilelift_oracle::required(), "TILELIFT_REQUIRE_ORACLES is set, and there is no LLVM");
        return;
    }
    let folder = Folder::new("llvm");
    let text = include_str!("../../backends/amdgcn/sim/tests/data/vadd.s");
    let unlinked = tilelift_oracle::amd_object("gfx942", text).unwrap();
    folder.file("vadd.s", text);
    folder.file("vadd.o", &unlinked);
    folder.file("vadd.hsaco", tilelift_oracle::amd_link(&unlinked).unwrap());
    let numbers: Vec<u8> = (0..100).flat_map(|n| (n as f32).to_le_bytes()).collect();
    folder.file("x", &numbers);
    let run = |code: &str| {
        let input = r#"{"buffer": {"bytes": 400, "in": "x"}}"#;
        let args = format!(r#"{input}, {input}, {{"buffer": {{"bytes": 400, "out": "y"}}}}, {{"i32": 100}}"#);
        let text = format!(r#"{{"code": "{code}", "entry": "vadd", "grid": [1], "block": [256], "args": [{args}]}}"#);
        tool(&["sim", &folder.file("launch.json", text)])
    };
    let (code, out, err) = run("vadd.hsaco");
    assert!(code == 0 && out.contains("gfx942, 4 waves"), "{out}{err}");
    let wrote = fs::read(folder.path("y")).unwrap();
    assert_eq!(f32::from_le_bytes(wrote[4..8].try_into().unwrap()), 2.0);
    for (name, part) in [("vadd.s", "is assembly for an AMD chip"), ("vadd.o", "link it with `ld.lld -shared`")] {
        let (code, _, err) = run(name);
        assert!(code == 1 && err.contains(part), "{err}");
    }
    folder.file("noise", [0u8, 0xff, 0xfe, 7]);
    let (code, _, err) = run("noise");
    assert!(code == 1 && err.contains("neither PTX text nor a code object"), "{err}");
}

#[test]
fn devices_and_targets_that_do_not_go_together_say_which_do() {
    let folder = Folder::new("messages");
    let run = format!("; run: @on(grid=1, v0=rand:1[8], out v1=[8])\n{DOUBLE}");
    let (one, bare) = (folder.file("one.tile", run), folder.file("bare.tile", DOUBLE));
    let two = folder.file("two.tile", format!("{DOUBLE}\n{}", DOUBLE.replace("@on", "@off")));
    let object = folder.path("k.o");
    for (args, code, part) in [
        (&["run", &one, "--target", "gfx942", "--device", "cuda"][..], 3, "device `cuda` runs no code for gfx942; choose `--device hip`"),
        (&["run", &one, "--target", "sm_80", "--device", "hip"], 3, "device `hip` runs no code for sm_80; choose `--device cuda`"),
        (&["run", &one, "--target", "gfx942", "--device", "hip"], 3, "install ROCm's HIP runtime"),
        (&["accept", "--device", "hip"], 3, "install ROCm's HIP runtime"),
        (&["bench", &one, "--device", "hip"], 3, "install ROCm's HIP runtime"),
        (&["bench", &one, "--target", "gfx942"], 3, "choose `--device hip`"),
        (&["gemm", "--device", "hip", "--target", "gfx942"], 3, "install ROCm's HIP runtime"),
        (&["run", &one, "--target", "gfx942"], 0, "no GPU is used: there is no HIP library here"),
        (&["run", &bare, "--device", "sim"], 1, "write one such as `; run: @k("),
        (&["compile", &two, "--target", "gfx942"], 2, "has @on, @off: say which with `--kernel`"),
        (&["compile", &two, "--target", "gfx942", "--emit", "object", "-o", &object], 2, "a code object holds one kernel"),
        (&["compile", &one, "--target", "gfx942", "--emit", "object"], 2, "say to which with `-o`"),
    ] {
        let (got, out, err) = tool(args);
        assert!(got == code && err.contains(part), "{args:?}: {got}\n{out}{err}");
    }
    let (code, out, _) = tool(&["compile", &one, "--target", "gfx942", "-o", "-"]);
    assert!(code == 0 && out.contains(".amdgcn_target"), "{out}");
    let small = ["gemm", "--m", "32", "--n", "32", "--k", "32", "--device", "sim", "--target", "gfx942"];
    let (code, out, err) = tool(&small);
    assert!(code == 0 && out.contains("artifact    code object of ") && !out.contains("PTX"), "{out}{err}");
}

#[test]
fn the_hip_device_goes_through_the_library() {
    let Some(compiler) = tilelift_oracle::c_compiler() else {
        assert!(!tilelift_oracle::required(), "TILELIFT_REQUIRE_ORACLES is set, and there is no C compiler");
        return;
    };
    let folder = Folder::new("hip");
    let library = folder.path("mock.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/hip_mock/hip_mock.c");
    let said = Command::new(compiler).args(["-std=c11", "-shared", "-fPIC", "-o", &library, source]).output().expect("the compiler runs");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let file = folder.file("one.tile", format!("; run: @on(grid=1, v0=rand:1[8], out v1=[8])\n{DOUBLE}"));
    // The mock launches nothing, so that the result is wrong: it came from there.
    let out = program(&library, &["run", &file, "--device", "hip"]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(1) && text.contains("(gfx942), grid [1, 1, 1]") && text.contains("1 of 1 launches failed"), "{text}");
    let out = program(&library, &["gemm", "--device", "hip", "--m", "64", "--n", "64", "--k", "64"]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(1) && text.contains("ms in the library") && text.contains("the product is wrong"), "{text}");
}

/// Launches are checked first. Each that counts stands alone between two events, behind a copy over the cache; and nothing stays alive.
#[test]
fn launches_are_timed_through_the_library() {
    let Some(compiler) = tilelift_oracle::c_compiler() else {
        assert!(!tilelift_oracle::required(), "TILELIFT_REQUIRE_ORACLES is set, and there is no C compiler");
        return;
    };
    let folder = Folder::new("hip-bench");
    let (library, record) = (folder.path("mock.so"), folder.path("record"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/hip_mock/hip_mock.c");
    let said = Command::new(compiler).args(["-std=c11", "-shared", "-fPIC", "-o", &library, source]).output().expect("the compiler runs");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let file = folder.file("one.tile", format!("; run: @on(grid=1, v0=rand:1[8], out v1=[8])\n{DOUBLE}"));
    let bench = |more: &[&str]| {
        let args = [&["bench", file.as_str(), "--device", "hip", "--rest-ms", "0", "--iterations", "3"], more].concat();
        let mut command = Command::new(env!("CARGO_BIN_EXE_tilelift"));
        command.args(args).env(tilelift::runtime::hip::LIBRARY_VARIABLE, &library).env("TILELIFT_HIP_MOCK_RECORD", &record);
        let out = command.output().expect("the program runs");
        let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        let calls = fs::read_to_string(&record).expect("a record");
        (out.status.code(), text, calls.lines().map(|l| l.split(' ').next().unwrap_or_default().to_owned()).collect::<Vec<_>>())
    };
    // The mock launches nothing, so that what it leaves is wrong: nothing is timed.
    let (code, text, calls) = bench(&[]);
    assert!(code == Some(1) && !calls.contains(&"hipEventRecord".to_owned()), "{text}{calls:?}");
    let (code, text, calls) = bench(&["--check", "0"]);
    assert!(code == Some(0) && text.contains("medians of 3 launches") && text.contains("1000.00 us"), "{text}");
    let timed = ["hipEventRecord", "hipModuleLaunchKernel", "hipEventRecord"];
    let between: Vec<usize> = (0..calls.len()).filter(|&i| calls[i..].iter().take(3).eq(timed.iter())).collect();
    assert_eq!(between.len(), 4, "one that does not count, and three: {calls:?}");
    for at in between {
        let last = calls[..at].iter().rposition(|c| c == "hipMemcpyAsync" || c == "hipModuleLaunchKernel").expect("a call");
        assert_eq!(calls[last], "hipMemcpyAsync", "{calls:?}");
    }
    let count = |name: &str| calls.iter().filter(|c| *c == name).count();
    for (made, gone) in [("hipMalloc", "hipFree"), ("hipEventCreateWithFlags", "hipEventDestroy"), ("hipModuleLoadData", "hipModuleUnload")]
    {
        assert!(count(made) > 0 && count(made) == count(gone), "{made}: {calls:?}");
    }
}
