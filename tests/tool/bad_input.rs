//! Bad input of every kind: the tool and the library answer with a typed message and an exit code, never with a panic.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tilelift::interp::{Arg, ArgError, Buffer, Memory, ScalarArg, ViewArg};
use tilelift::ir::{Scalar, text};
use tilelift::runtime::sim::{SimDevice, SimFailure};
use tilelift::{Artifact, CompileError, Options, compile, lower, targets};
use tilelift_kernels::rng;
use tilelift_oracle::in_parallel;
use tilelift_tools::cli::{self, Status};

/// Runs the tool; status, standard output, standard error.
fn tool(args: &[&str]) -> (Status, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = cli::run(args.iter().map(OsString::from).collect(), &mut out, &mut err);
    (status, String::from_utf8_lossy(&out).into_owned(), String::from_utf8_lossy(&err).into_owned())
}

/// A folder for the files of one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tilelift-bad-input-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for temporary files");
        Folder(path)
    }
    fn file(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.0.join(name);
        fs::write(&path, bytes).expect("a temporary file");
        path.to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays in the temporary folder does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

const GOOD: &str = "kernel @k(v0: view<f32, [?]>, v1: view<f32, [?]>) {
    v2 = load v0[0] : tile<8xf32>
    v3 = add v2, v2
    store v1[0], v3
}
";

#[test]
fn command_lines_that_make_no_sense_are_explained() {
    for (args, part) in [
        (&["wibble"][..], "there is no command `wibble`"),
        (&["--wibble"], "wibble"),
        (&["check"], "no file is given"),
        (&["check", "--wibble"], "wibble"),
        (&["compile"], "no file is given"),
        (&["compile", "a", "b"], "unexpected argument"),
        (&["compile", "a", "--target"], "missing argument"),
        (&["compile", "a", "--target", "sm_1"], "known are sm_80"),
        (&["compile", "a", "--emit", "cubin"], "--emit takes text, ptx, object, lane, tile, schedule, launch"),
        (&["compile", "a", "--warps", "-3"], "--warps takes a number from 1 to 64"),
        (&["run", "a", "--device", "tpu"], "--device takes interp, schedule, lane, sim, cuda, hip"),
        (&["gemm", "--m", "0"], "--m takes a number from 1"),
        (&["gemm", "--m", "99999999999999999999"], "--m takes a number"),
        (&["gemm", "--tile", "128x128"], "three extents"),
        (&["gemm", "--tile", "0x1x1"], "three extents"),
        (&["gemm", "stray"], "unexpected argument"),
        (&["bench", "gemm", "--stream-k", "132"], "such as 132x3"),
        (&["bench", "gemm", "--stream-k", "0x1"], "such as 132x3"),
        (&["bench", "gemm", "--stream-k", "2x3r"], "such as 132x3"),
        (&["bench", "gemm", "--stream-k", "99999999999x3"], "from 1 to 65536 workers"),
        (&["bench", "gemm", "--stream-k", "4x1", "--shape", "4x64x64x64"], "4x64x64x64 is a batch"),
        (&["bench", "gemm", "--splits", "4", "--shape", "64x64x64,4x64x64x64"], "4x64x64x64 is a batch"),
        (&["bench", "a.tile", "b.tile"], "takes one file"),
        (&["bench", "a/b", "--tile", "64x64"], "does not go with `bench FILE`"),
        (&["bench", "gem"], "a file ends in `.tile`"),
        (&["accept", "--seeds", "none"], "--seeds takes a number"),
        (&["run", "--device", "interp", "--opt", "2", "a.tile"], "`--opt` is for devices that compile"),
        (&["devices", "stray"], "unexpected argument"),
        (&["opt", "a", "--large"], "--large is for --times"),
        (&["opt", "--table", "--all"], "--all is for --times"),
        (&["opt", "--times", "--large", "--all"], "--all is for a call without --large"),
        (&["opt", "--table", "--times"], "--times is for a call without --table"),
        (&["opt", "a", "--part", "1/2"], "--part is for --table or --times"),
        (&["opt", "a", "--device", "cuda"], "--device is for --table or --times"),
        (&["opt", "a", "--target", "sm_90a"], "--target is for --stage physical"),
        (&["opt", "--times", "--allow", "exact"], "--allow is for a file"),
        (&["explain", "--table"], "--table"),
        (&["dot", "a", "--stage", "physical"], "--stage"),
        (&["help", "wibble"], "there is no command `wibble`"),
    ] {
        let (status, _, err) = tool(args);
        assert_eq!(status, Status::Usage, "{args:?}: {err}");
        assert!(err.contains(part), "{args:?}: `{part}` is not in {err}");
    }
}

#[test]
fn every_command_has_help() {
    let (status, out, _) = tool(&[]);
    assert_eq!(status, Status::Done);
    for line in out.lines().filter(|l| l.starts_with("  ")) {
        let name = line.split_whitespace().next().expect("a command");
        for args in [["help", name], [name, "--help"]] {
            let (status, out, err) = tool(&args);
            assert_eq!(status, Status::Done, "{args:?}: {err}");
            assert!(out.contains(&format!("usage: tilelift {name}")), "{args:?}: {out}");
        }
    }
    assert!(tool(&["--version"]).1.contains(env!("CARGO_PKG_VERSION")));
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = Folder::new("files");
    let binary = folder.file("binary.tile", b"kernel @k(\n\xff\xfe) {\n}");
    let empty = folder.file("empty.tile", b"");
    let truncated = folder.file("truncated.tile", &GOOD.as_bytes()[..GOOD.len() / 2]);
    let wrong = folder.file("wrong.tile", GOOD.replace("add v2, v2", "add v2, v9").as_bytes());
    let unverified = folder.file("unverified.tile", b"kernel @k(v0: f32) warps=3 {\n}\n");
    let directives = folder.file("directives.tile", format!("; test run\n; rum: x\n{GOOD}").as_bytes());
    let huge = folder.file("huge.tile", &vec![b' '; text::MAX_TEXT + 1]);
    let missing = folder.0.join("missing.tile").to_string_lossy().into_owned();
    let dir = folder.0.to_string_lossy().into_owned();
    for (args, status, part) in [
        (vec!["check", &missing], Status::Unusable, "missing.tile"),
        (vec!["compile", &dir], Status::Unusable, "is a folder"),
        (vec!["check", &huge], Status::Unusable, "at most"),
        (vec!["check", &binary], Status::Failed, "binary.tile:2: is not UTF-8"),
        (vec!["compile", &empty], Status::Failed, "has no kernel"),
        (vec!["opt", &empty], Status::Failed, "has no kernel"),
        (vec!["compile", &wrong, "--kernel", "k"], Status::Failed, "wrong.tile:3:18: error[P0401]"),
        (vec!["check", &truncated], Status::Failed, "error[P0202]"),
        (vec!["check", &unverified], Status::Failed, "unverified.tile:1:20: error[V0602]"),
        (vec!["interp", &directives], Status::Failed, "directives.tile:2: `rum:` is no directive"),
        (vec!["interp", &wrong], Status::Failed, "P0401"),
        (vec!["fmt", &wrong], Status::Failed, "P0401"),
        (vec!["test", &missing], Status::Unusable, "can't be read"),
        (vec!["test", &wrong], Status::Failed, "no `; test …` directive"),
    ] {
        let (got, _, err) = tool(&args);
        assert_eq!(got, status, "{args:?}: {err}");
        assert!(err.contains(part), "{args:?}: `{part}` is not in {err}");
    }
    // What has no end is not read to it.
    let endless = "/dev/zero";
    let launch = r#"{"code": "k", "grid": [1], "block": [1], "args": [{"buffer": {"bytes": 64, "in": "/dev/zero"}}]}"#;
    let launch = folder.file("launch.json", launch.as_bytes());
    folder.file("k", b".version 8.0");
    for args in [
        vec!["check", endless],
        vec!["fmt", endless],
        vec!["compile", endless],
        vec!["interp", endless],
        vec!["test", endless],
        vec!["sim", endless],
        vec!["sim", &launch],
        vec!["bench", "gemm", "--records", endless],
        vec!["plan", "gemm", "--records", endless],
    ] {
        if std::path::Path::new(endless).exists() {
            let (got, _, err) = tool(&args);
            assert_eq!(got, if args[0] == "test" { Status::Failed } else { Status::Unusable }, "{args:?}: {err}");
            assert!(err.contains("/dev/zero") && err.contains("has more than"), "{args:?}: {err}");
        }
    }
    // The first file's mistake does not hide the second's, nor keep a good one from its turn.
    let good = folder.file("good.tile", GOOD.as_bytes());
    let (status, out, err) = tool(&["check", &missing, &good, &wrong]);
    assert_eq!(status, Status::Failed);
    assert!(out.contains("good.tile: @k ok") && err.contains("missing.tile") && err.contains("P0401"), "{out}\n{err}");
}

#[test]
fn a_missing_output_folder_is_named() {
    let folder = Folder::new("output");
    let good = folder.file("good.tile", GOOD.as_bytes());
    let output = folder.0.join("no/such/folder.ptx").to_string_lossy().into_owned();
    let (status, _, err) = tool(&["compile", &good, "-o", &output]);
    assert_eq!(status, Status::Unusable);
    assert!(err.contains("folder.ptx"), "{err}");
}

#[test]
fn what_a_target_lacks_is_explained_at_its_line() {
    let folder = Folder::new("target");
    let dot = folder.file(
        "dot.tile",
        b"kernel @k(v0: view<f32, [?, ?]>) warps=1 {\n    v1 = load v0[0, 0] : tile<128x128xf32>\n    v2 = splat 0.0 : tile<128x128xf32>\n    v3 = dot v1, v1, v2\n    store v0[0, 0], v3\n}\n",
    );
    let (status, _, err) = tool(&["compile", &dot]);
    assert_eq!(status, Status::Failed, "{err}");
    assert!(err.contains("dot.tile:4:") && err.contains("error[resource]") && err.contains("tf32"), "{err}");
    let good = folder.file("good.tile", GOOD.as_bytes());
    let object = folder.file("good.hsaco", b"");
    let (status, _, err) = tool(&["compile", &good, "--emit", "object", "-o", &object]);
    assert_eq!(status, Status::Failed, "{err}");
    assert!(err.contains("sm_80") && err.contains("its driver assembles the text"), "{err}");
    assert_eq!(tool(&["compile", &good, "--emit", "object", "--target", "gfx942"]).0, Status::Usage);
    assert_eq!(tool(&["compile", &good, "--emit", "object", "--target", "gfx942", "-o", &object]).0, Status::Done);
    assert!(std::fs::read(&object).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF")));
    assert_eq!(tool(&["compile", &good, "--target", "gfx942", "--emit", "lane"]).0, Status::Done);
}

/// Accepts some bytes, then fails as a closed pipe does.
struct Pipe(usize);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let n = bytes.len().min(self.0);
        self.0 -= n;
        Ok(n)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_closed_pipe_ends_the_tool_quietly() {
    for room in [0, 1, 100] {
        let mut err = Vec::new();
        let status = cli::run(vec!["help".into()], &mut Pipe(room), &mut err);
        assert_eq!(status, Status::Done);
        assert!(err.is_empty(), "{}", String::from_utf8_lossy(&err));
    }
    // A closed standard error loses messages, not the status.
    assert_eq!(cli::run(vec!["wibble".into()], &mut Vec::new(), &mut Pipe(0)), Status::Usage);
}

#[test]
fn without_a_driver_the_gpu_is_a_typed_refusal() {
    match tilelift::runtime::cuda::probe() {
        // There is a driver, so there is nothing to refuse here.
        Ok(()) => {}
        Err(e) => {
            let (status, _, err) = tool(&["accept", "--device", "cuda", "--filter", "vector_add_f32_7"]);
            assert_eq!(status, Status::Unusable, "{err}");
            assert!(err.contains(&e.to_string()), "{err}");
            assert!(tilelift::runtime::cuda::CudaDevice::new(0).is_err());
        }
    }
}

fn artifact() -> Artifact {
    let file = text::parse(GOOD).unwrap_or_else(|e| panic!("{e}"));
    let target = targets::by_name("sm_80").expect("a known target");
    compile(&file.kernels[0], &target, &Options::default()).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn launches_that_break_promises_are_refused_before_they_run() {
    let device = SimDevice::default();
    let kernel = device.load(&artifact()).expect("the text parses");
    let mut memory = Memory::new();
    memory.add(Buffer::zeroed(32));
    memory.add(Buffer::uninit(32));
    let view = |buffer| Arg::from(ViewArg::dense(buffer, Scalar::F32, &[8]));
    let before = memory.clone();
    for (args, want) in [
        (vec![view(0)], "2 parameters"),
        (vec![view(0), ScalarArg::int(Scalar::I32, 1).into()], "wrong kind"),
        (vec![view(0), ViewArg::dense(1, Scalar::F16, &[8]).into()], "convert the data"),
        (vec![view(0), ViewArg::dense(1, Scalar::F32, &[9]).into()], "ends at byte 36"),
        (vec![view(0), ViewArg::dense(1, Scalar::F32, &[4]).at(4).into()], "alignment 16"),
        (vec![view(0), view(7)], "names buffer 7"),
        (vec![view(1), view(1)], "in-place"),
        (vec![view(0), ViewArg::dense(1, Scalar::F32, &[-1]).into()], "extents are 0 to"),
    ] {
        match device.execute(&kernel, [1, 1, 1], &args, &mut memory) {
            Err(SimFailure::Args(e)) => assert!(e.to_string().contains(want), "`{want}` is not in: {e}"),
            Err(e) => panic!("{want}: refused for another reason: {e}"),
            Ok(_) => panic!("{want}: the launch was accepted"),
        }
    }
    assert_eq!(memory, before, "a refused launch leaves memory alone");
    assert!(matches!(device.execute(&kernel, [1, 1, 1], &[], &mut memory), Err(SimFailure::Args(ArgError::Count { want: 2, got: 0 }))));
    assert!(device.execute(&kernel, [0, 1, 1], &[view(0), view(1)], &mut memory).is_ok(), "an empty grid is no work, and no error");
    assert_eq!(memory, before);
}

#[test]
fn a_broken_text_is_a_parse_failure() {
    let mut broken = artifact();
    broken.text = broken.text.replace("add.rn.f32", "frobnicate.f32");
    match SimDevice::default().load(&broken) {
        Err(SimFailure::Parse(e)) => assert!(e.source_line.contains("frobnicate"), "{e}"),
        Err(e) => panic!("{e}"),
        Ok(_) => panic!("an unknown instruction was accepted"),
    }
}

/// Every kernel text of the file tests.
fn corpus() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/tile");
    let files = tilelift_tools::filetest::find(&root).unwrap_or_else(|e| panic!("{e}"));
    files.iter().map(|f| fs::read_to_string(f).expect("a readable file")).collect()
}

/// The text with a few bytes, numbers or lines changed.
fn mutate(text: &str, seed: u64) -> String {
    let mut lines: Vec<String> = text.lines().filter(|l| !l.trim_start().starts_with(';')).map(str::to_owned).collect();
    for step in 0..=rng::bits(seed, 0) % 3 {
        let r = |i: u64| rng::bits(seed, 10 * (step + 1) + i) as usize;
        let at = r(0) % lines.len().max(1);
        match r(1) % 7 {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[r(2) % lines.len()].clone()),
            2 => {
                let other = r(2) % lines.len();
                lines.swap(at, other);
            }
            3 => {
                // Another number in place of one.
                let numbers = ["0", "1", "-1", "3", "7", "16", "2147483647", "4096", "99999999999"];
                let line = lines[at].clone();
                if let Some(i) = line.find(|c: char| c.is_ascii_digit()) {
                    let end = i + line[i..].find(|c: char| !c.is_ascii_digit()).unwrap_or(line.len() - i);
                    lines[at] = format!("{}{}{}", &line[..i], numbers[r(2) % numbers.len()], &line[end..]);
                }
            }
            4 => {
                let words = ["f32", "f16", "bf16", "i32", "i8", "i1", "i64", "f64"];
                let (from, to) = (words[r(2) % words.len()], words[r(3) % words.len()]);
                lines[at] = lines[at].replace(from, to);
            }
            5 => {
                let ops = ["add", "sub", "mul", "div", "rem", "and", "shl", "minimum", "neg", "exp", "dot", "load", "cast"];
                let (from, to) = (ops[r(2) % ops.len()], ops[r(3) % ops.len()]);
                lines[at] = lines[at].replace(from, to);
            }
            _ => {
                let i = r(2) % (lines[at].len() + 1);
                if lines[at].is_char_boundary(i) {
                    lines[at].truncate(i);
                }
            }
        }
        if lines.is_empty() {
            break;
        }
    }
    lines.join("\n") + "\n"
}

/// Mutated kernels go through the whole compiler: accepted ones compile or are refused, and a malformed lane program never appears.
#[test]
fn mutated_kernels_never_break_the_compiler() {
    let targets: Vec<_> = ["sm_80", "gfx942"].iter().map(|n| targets::by_name(n).expect("a known target")).collect();
    // A longer search, behind the rounds that every run has: TILELIFT_FUZZ_FIRST=150 TILELIFT_FUZZ_ROUNDS=100000 cargo test -p tilelift-tools bad_input::mutated
    let number = |name, otherwise: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise);
    let (first, rounds) = (number("TILELIFT_FUZZ_FIRST", 0), number("TILELIFT_FUZZ_ROUNDS", 150));
    let corpus: Vec<(u64, String)> = (0..).zip(corpus()).collect();
    let counts = in_parallel(&corpus, |(i, source)| {
        let (mut compiled, mut refused) = (0, 0);
        for round in first..first.saturating_add(rounds) {
            let mutated = mutate(source, i << 32 | round);
            let Ok(file) = text::parse(&mutated) else { continue };
            for kernel in &file.kernels {
                let target = &targets[(round % 2) as usize];
                // Registers of AMD's chips take most of the time: of those kernels some get them.
                let whole = target.name != "gfx942" || round % 16 == 1;
                let options = Options::default();
                let done = if whole { compile(kernel, target, &options).map(drop) } else { lower(kernel, target, &options).map(drop) };
                match done {
                    Ok(()) => compiled += 1,
                    Err(e @ CompileError::Lane(_)) => panic!("{e}\n{mutated}"),
                    Err(_) => refused += 1,
                }
            }
        }
        [compiled, refused]
    });
    let [compiled, refused] = [0, 1].map(|n| counts.iter().map(|c| c[n]).sum::<u32>());
    assert!(compiled > 500 && refused > 500, "the mutations are too tame or too wild: {compiled} compiled, {refused} refused");
}

#[test]
fn a_file_that_says_that_its_tasks_are_not_proved_runs() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/tile/explicit/cluster_barrier_alone.tile");
    let (status, out, err) = tool(&["run", path, "--device", "sim", "--target", "sm_90a"]);
    assert_eq!(status, Status::Done, "{err}");
    assert!(out.contains("agrees with the interpreter"), "{out}");
}
