//! What commands say of kernels that are right by the letter: too much work, too many registers, results that nobody wrote; and where errors point.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tilelift_tools::cli::{self, Status};

/// Runs the tool; status, standard output, standard error.
fn tool(args: &[&str]) -> (Status, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = cli::run(args.iter().map(OsString::from).collect(), &mut out, &mut err);
    (status, String::from_utf8_lossy(&out).into_owned(), String::from_utf8_lossy(&err).into_owned())
}

/// A file of one test, which goes with it.
struct File(PathBuf);

impl File {
    fn new(name: &str, text: &str) -> File {
        let path = std::env::temp_dir().join(format!("tilelift-remarks-{}-{name}.tile", std::process::id()));
        fs::write(&path, text).expect("a temporary file");
        File(path)
    }
    fn path(&self) -> &str {
        self.0.to_str().expect("a path in UTF-8")
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // What stays in the temporary folder does no harm.
        let _ = fs::remove_file(&self.0);
    }
}

const COUNT: &str = "kernel @count(%n: i32, %y: view<i32, [?]>) warps=1 {
    %r = for %i in 0..%n step 1 carry %a = 0 {
        %b = add %a, %i
        yield %b
    }
    %t = splat %r : tile<1xi32>
    store %y[0], %t
}
";

/// Far more than it takes, and far less than hours.
const SOON: Duration = Duration::from_secs(120);

#[test]
fn launches_of_too_much_work_are_given_up_soon() {
    let one = "kernel @one(%y: view<i32, [?]>) warps=1 {\n    %t = splat 1 : tile<1xi32>\n    store %y[0], %t\n}\n";
    for (name, text, device, parts) in [
        (
            "rounds",
            format!("{COUNT}; run: @count(grid=1, %n=2147483647, out %y=[1])\n"),
            "sim",
            &[": 2:5: `for`", "is in round", "--steps"][..],
        ),
        ("grid", format!("{one}; run: @one(grid=[4194304], out %y=[1])\n"), "sim", &["has 4194304 programs", "smaller grid", "--steps"]),
        ("wide", format!("{COUNT}; run: @count(grid=[4194304, 4], %n=1, out %y=[1])\n"), "interp", &["has 16777216 programs", "--steps"]),
    ] {
        let file = File::new(name, &text);
        let begun = Instant::now();
        let (status, _, err) = tool(&["run", "--device", device, file.path()]);
        assert_eq!(status, Status::Failed, "{name}: {err}");
        assert!(begun.elapsed() < SOON, "{name}: {:?}", begun.elapsed());
        parts.iter().for_each(|part| assert!(err.contains(part), "{name}: `{part}` is not in {err}"));
    }
}

#[test]
fn a_product_of_tiny_tiles_is_refused_on_the_simulator() {
    let (status, _, err) = tool(&["gemm", "--tile", "1x1x1", "--device", "sim"]);
    assert_eq!(status, Status::Failed, "{err}");
    assert!(err.contains("5.4e8 warp instructions") && err.contains("larger `--tile`"), "{err}");
    let (status, out, err) = tool(&["gemm", "--tile", "16x16x16", "--m", "32", "--n", "32", "--k", "32", "--device", "sim"]);
    assert_eq!(status, Status::Done, "{out}{err}");
}

#[test]
fn more_registers_than_there_are_are_told() {
    let wide = "kernel @wide(%a: view<f32, [?, 256]>, %c: view<f32, [?, ?]>, %n: i32) warps=1 {
    %z = splat 0.0 : tile<64x256xf32>
    %r = for %i in 0..%n step 1 carry %s = %z {
        %x = load %a[%i, 0] : tile<64x256xf32>
        %m = maximum %s, %x
        yield %m
    }
    store %c[0, 0], %r
}
";
    let file = File::new("wide", wide);
    for (command, told_on) in [("compile", 2), ("explain", 1)] {
        let (status, out, err) = tool(&[command, file.path()]);
        assert_eq!(status, Status::Done, "{err}");
        let told = if told_on == 1 { out } else { err };
        assert!(
            told.contains("@wide") && told.contains("sm_80 gives each of them 255") && told.contains("use more warps"),
            "{command}: {told}"
        );
    }
    let (_, _, err) = tool(&["compile", "--warps", "8", file.path()]);
    assert!(!err.contains("registers"), "{err}");
    let (_, out, _) = tool(&["explain", file.path()]);
    assert!(out.contains("sixteenths of one operation of a lane"), "{out}");
}

/// AMD's backend gives registers itself, so what it says is what the code object asks for.
#[test]
fn scratch_memory_of_amd_chips_is_told() {
    let softmax = "kernel @rows(%x: view<f32, [256, 256]>, %y: view<f32, [256, 256]>) warps=2 {
    %a = load %x[0, 0] : tile<256x256xf32>
    %m = reduce maximum %a, axis 1
    %c = reshape %m : tile<256x1xf32>
    %w = broadcast %c : tile<256x256xf32>
    %d = sub %a, %w
    store %y[0, 0], %d
}
";
    let file = File::new("scratch", softmax);
    let (status, text, err) = tool(&["compile", "--target", "gfx942", file.path()]);
    assert_eq!(status, Status::Done, "{err}");
    let bytes = text.lines().find_map(|l| l.trim().strip_prefix(".amdhsa_private_segment_fixed_size ")).expect("a descriptor");
    assert_ne!(bytes, "0");
    let told = format!("than the 512 registers that gfx942 gives each of them: {bytes} bytes of each are spilled to scratch memory");
    assert!(err.contains("@rows: ") && err.contains(&told) && err.contains("use more warps"), "{err}");
    let (_, out, _) = tool(&["explain", "--target", "gfx942", file.path()]);
    assert!(out.contains(&told), "{out}");
    let (_, _, err) = tool(&["compile", "--target", "gfx942", "--warps", "8", file.path()]);
    assert!(!err.contains("scratch"), "{err}");
}

#[test]
fn limits_of_the_compiler_are_called_so() {
    let file = File::new(
        "limit",
        "kernel @k(v0: view<f32, [?]>) warps=1 {\n    v1 = load v0[0] : tile<65536xf32>\n    v2 = exp v1\n    store v0[0], v2\n}\n",
    );
    let (status, _, err) = tool(&["compile", file.path()]);
    assert_eq!(status, Status::Failed);
    assert!(
        err.contains("the kernel needs 2048, and this compiler makes at most 1024, whatever the target") && err.contains("warps"),
        "{err}"
    );
}

#[test]
fn what_the_proof_refuses_has_a_place_and_a_class() {
    let text = "kernel @expect(%x: view<f32, [64, 64]>, %y: view<f32, [64, 64]>) {
    %s = local_alloc : shared<64x64xf32>
    %b = barrier_alloc 1 : barrier<1>
    tasks {
        task producer warps 1 {
            barrier_expect %b, 8192
            async_load %x[0, 0], %s, %b
            yield
        }
        task consumer warps 4 {
            barrier_wait %b, 0
            %t = local_load %s
            store %y[0, 0], %t
            yield
        }
    }
}
";
    let file = File::new("expect", text);
    let (status, _, err) = tool(&["compile", "--target", "sm_90a", file.path()]);
    assert_eq!(status, Status::Failed);
    assert!(err.contains(":7:13: error[protocol]: tasks that are not proved"), "{err}");
    assert!(err.contains("`barrier_expect` at 6:13 expects 8192 bytes, and the copies behind it bring 16384"), "{err}");
    // A phase that never ends is waited for; its parity may be the wrong one as well.
    let kept = text.replace("%b, 8192", "%b, 16384");
    for (from, to, part) in [
        ("%b, 16384", "%b, 32768", "a wait for ever, for a phase that expects 32768 bytes where 16384 arrive"),
        ("barrier_wait %b, 0", "barrier_wait %b, 1", "parity"),
        ("", "", ""),
    ] {
        let file = File::new("expect-other", &kept.replace(from, to));
        let (status, _, err) = tool(&["compile", "--target", "sm_90a", file.path()]);
        assert_eq!(status == Status::Done, part.is_empty(), "{to}: {err}");
        assert!(err.contains(part), "{to}: {err}");
    }
}

/// What the proof does not follow is compiled, but not where its proof is asked for. `; unproven` of a file is for those who ask for nothing.
#[test]
fn schedules_are_proved_where_that_is_asked_for() {
    let compiled = |name: &str, kernel: &str, target: &str, more: &[&str]| {
        let file = format!("{}/../tests/tile/loops/{name}.tile", env!("CARGO_MANIFEST_DIR"));
        tool(&[&["compile", "--target", target, "--kernel", kernel, &file], more].concat())
    };
    let shares = |more: &[&str]| compiled("rounds_counted_ahead", "shares", "sm_80", more);
    assert_eq!(shares(&[]).0, Status::Done);
    let (status, _, err) = shares(&["--prove"]);
    assert_eq!(status, Status::Failed);
    assert!(err.contains("the schedule that the compiler wrote is not proved: ") && err.contains("or do not ask for its proof"), "{err}");
    let proved = compiled("products_beside_guarded", "several", "sm_90a", &["--prove"]);
    assert_eq!(proved.0, Status::Done, "{}", proved.2);
    let file = File::new("unproven", &format!("; unproven\n{COUNT}; run: @count(grid=1, %n=3, out %y=[1])\n"));
    assert_eq!(tool(&["run", "--device", "sim", "--prove", file.path()]).0, Status::Done);
}

#[test]
fn results_that_nobody_wrote_do_not_agree_silently() {
    let text = "kernel @some(%x: view<i32, [?]>, %y: view<i32, [?]>, %z: view<i32, [?]>) warps=1 {
    %t = load %x[0] : tile<4xi32>
    store %y[0], %t
}
";
    let file = File::new("unwritten", &format!("{text}; run: @some(grid=1, %x=iota[4], out %y=[4], out %z=[4])\n"));
    let (status, out, err) = tool(&["run", "--device", "sim", file.path()]);
    assert_eq!(status, Status::Done, "{err}");
    assert!(out.contains("nothing was written to %z") && out.contains("as far as anything was written"), "{out}");
    let file = File::new("compared", &format!("{text}; run: @some(grid=1, %x=iota[4], out %y=[4], out %z=[4]) == %z {{0, 0, 0, 0}}\n"));
    let (status, out, err) = tool(&["run", "--device", "sim", file.path()]);
    assert_eq!(status, Status::Failed, "{out}");
    assert!(err.contains("element [0] is compared, and the kernel has not written it"), "{err}");
}

#[test]
fn a_missing_brace_is_reported_first_and_where_it_opens() {
    let file = File::new("brace", &COUNT.replacen("    }\n", "", 1));
    let (status, _, err) = tool(&["check", file.path()]);
    assert_eq!(status, Status::Failed);
    let first = err.lines().next().unwrap_or_default();
    assert!(first.contains(":2:46: error[P0202]: `}` is missing for this `{`"), "{err}");
    assert!(first.contains("the one at 7:1 stands further left"), "{err}");
}

/// A file test of loops.
fn of_loops(name: &str) -> String {
    format!("{}/../tests/tile/loops/{name}.tile", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn loads_of_specialised_loops_wait_for_true_reasons() {
    for (name, parts) in [
        ("loads_of_what_is_stored_in_front", ["waits for 1 of 2 loads", "the producer does not copy it", "%x is stored to"]),
        ("runs_that_begin_anywhere", ["waits for 1 of 3 loads", "`load` of %off", "it says where %a is loaded from"]),
    ] {
        let (status, out, err) = tool(&["explain", "--target", "sm_90a", &of_loops(name)]);
        assert_eq!(status, Status::Done, "{name}: {err}");
        parts.iter().for_each(|part| assert!(out.contains(part), "{name}: `{part}` is not in {out}"));
    }
}

#[test]
fn a_ring_that_does_not_fit_says_who_takes_what() {
    let text = "kernel @wide(%k: view<bf16, [?, 64]>, %w: view<bf16, [?, 256]>, %o: view<f32, [64, 256]>) {
    %n = dim %k, 0
    %z = splat 0.0 : tile<64x256xf32>
    %r = for %t in 0..%n step 64 carry %a = %z {
        %kt = load %k[%t, 0] : tile<64x64xbf16>
        %wt = load %w[%t, 0] : tile<64x256xbf16>
        %x = cast %wt : tile<64x256xf64>
        %y = scan add %x, axis 0
        %yb = cast %y : tile<64x256xbf16>
        %d = dot %kt, %yb, %a
        yield %d
    }
    store %o[0, 0], %r
}
";
    let file = File::new("takers", text);
    let (status, out, err) = tool(&["explain", "--target", "sm_90a", file.path()]);
    assert_eq!(status, Status::Done, "{err}");
    // Of two slots of 40960 bytes, and two of 32768 bytes for what lanes store.
    for part in
        ["not specialised: not enough shared memory", "it goes to: buffer 147456 (3 times), scan 131072", "no estimate of what that costs"]
    {
        assert!(out.contains(part), "`{part}` is not in {out}");
    }
}
