//! Tools for an author's own kernel: `explain` says how it runs and what its loops wait for, `bench FILE` takes launches, checks and counts them.

use std::fs;
use std::path::{Path, PathBuf};
use tilelift_tools::cli::{self, Status};
use tilelift_tools::execute::{DeviceKind, Executor};

/// Runs the tool: its end, its output, its errors.
fn tool(args: &[&str]) -> (Status, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = cli::run(args.iter().map(Into::into).collect(), &mut out, &mut err);
    (status, String::from_utf8_lossy(&out).into_owned(), String::from_utf8_lossy(&err).into_owned())
}

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tilelift-own-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }
    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::write(&path, content).expect("written");
        path.to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A product of rows that a table on the device names: the second load waits for the first, and what they bring is multiplied.
const PAGED: &str = "; run: @paged(grid=[4, 1], v0=rand:1[4x16x64], v1=rand:2[8x16x64], v2={7, 6, 5, 4, 3, 2, 1, 0}, out v3=[4x16x16])
kernel @paged(v0: view<bf16, [?, 16, 64]>, v1: view<bf16, [?, 16, 64]>, v2: view<i32, [?]>, v3: view<f32, [?, 16, 16]>) warps=1 stages=3 {
    v4 = program_id x
    v5 = dim v2, 0
    v6 = load v0[v4, 0, 0] : tile<1x16x64xbf16>
    v7 = reshape v6 : tile<16x64xbf16>
    v8 = splat 0.0 : tile<16x16xf32>
    v9 = for v10 in v4..v5 step 1 carry v11 = v8 {
        v12 = load v2[v10] : tile<1xi32>
        v13 = reshape v12 : i32
        v14 = load v1[v13, 0, 0] : tile<1x16x64xbf16>
        v15 = reshape v14 : tile<16x64xbf16>
        v16 = transpose v15, [1, 0]
        v17 = dot v7, v16, v11
        yield v17
    }
    v18 = reshape v9 : tile<1x16x16xf32>
    store v3[v4, 0, 0], v18
}
";

/// A product that every target runs its best way.
const GEMM: &str = "kernel @gemm(v0: view<bf16, [?, ?%64]>, v1: view<bf16, [?, ?%64]>, v2: view<bf16, [?, ?%8]>) {
    v3 = program_id x
    v4 = program_id y
    v5 = mul v3, 128
    v6 = mul v4, 128
    v7 = dim v0, 1
    v8 = splat 0.0 : tile<128x128xf32>
    v9 = for v10 in 0..v7 step 64 carry v11 = v8 {
        v12 = load v0[v5, v10] : tile<128x64xbf16>
        v13 = load v1[v6, v10] : tile<128x64xbf16>
        v14 = transpose v13, [1, 0]
        v15 = dot v12, v14, v11
        yield v15
    }
    v16 = cast v9 : tile<128x128xbf16>
    store v2[v5, v6], v16
}
";

/// The lines of a kernel's schedule that `explain` prints.
fn explained(file: &str, target: &str) -> String {
    let (status, out, err) = tool(&["explain", file, "--target", target]);
    assert_eq!(status, Status::Done, "{err}");
    out.lines().take_while(|l| l.starts_with(';')).collect::<Vec<_>>().join("\n")
}

#[test]
fn explain_says_how_a_kernel_runs_on_every_target() {
    let folder = Folder::new("explain");
    let (gemm, paged) = (folder.file("gemm.tile", GEMM), folder.file("paged.tile", PAGED));
    for target in tilelift::targets::NAMES {
        for file in [&gemm, &paged] {
            let said = explained(file, target);
            assert!(said.contains(&format!(" on {target}: ")) && said.contains("`for` at "), "{target}: {said}");
        }
    }
    let fast = explained(&gemm, "sm_90a");
    assert!(fast.contains("specialised: 1 producer warp") && fast.contains("2 loads and 1 dots, none of which waits"), "{fast}");
    // The same, pipelined, with products by the lanes' own instructions; another target has no quicker ones.
    let lanes = explained(&gemm, "sm_80");
    assert!(lanes.contains("pipelined: ") && lanes.contains("none of which waits"), "{lanes}");
    let pinned = folder.file("pinned.tile", GEMM.replace("v2: view<bf16, [?, ?%8]>) {", "v2: view<bf16, [?, ?%8]>) stages=1 {"));
    let waits = explained(&pinned, "sm_80");
    assert!(waits.contains("`for` at 8:5: every iteration waits for 2 of 2 loads") && waits.contains("one stage is asked for"), "{waits}");
}

/// Loops without products: the loads of one run ahead, but for one that the loop may have written; a step of another asks for enough; a third holds a loop.
const WITHOUT_PRODUCTS: &str = "kernel @sums(%x: view<f32, [?, ?]>, %w: view<f32, [?, ?]>, %y: view<f32, [?]>, %n: i32) warps=1 {
    %p = program_id x
    for %i in 0..%n step 32 {
        %j = sub %i, 32
        %a = load %x[%p, %i] : tile<1x32xf32>
        %b = load %w[%p, %j] : tile<1x32xf32>
        %c = add %a, %b
        store %w[%p, %i], %c
    }
    for %i in 0..%n step 1024 {
        %a = load %x[%p, %i] : tile<1x1024xf32>
        %b = exp %a
        store %w[%p, %i], %b
    }
    for %i in 0..%n step 1 {
        %a = load %x[%p, %i] : tile<1x32xf32>
        for %j in 0..%n step 32 {
            store %w[%j, %i], %a
        }
    }
    for %i in 0..%n step 3 {
        %k = iota 0 : tile<32xi32>
        %z = splat %p : tile<32xi32>
        %a = gather %x[%z, %k]
        store %y[%i], %a
    }
}
";

#[test]
fn explain_knows_what_runs_ahead_beside_products() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/tile/memory/loads_beside_products_ahead.tile");
    // Of the kernels in order: what a step wrote is not read ahead of it, and what an arm copies is not copied ahead. Wavefronts have more of a row of
    // sums than registers hold beside its column.
    let first = [("sm_80", "4 loads and 1 dots, none of which waits"), ("gfx942", "every iteration waits for 1 of 4 loads")];
    let others = [
        "4 loads and 1 dots, none of which waits",
        "every iteration waits for 1 of 3 loads",
        "3 loads and 1 dots, none of which waits",
        "every iteration waits for 2 of 3 loads",
    ];
    for (target, scales) in first {
        let (status, out, err) = tool(&["explain", file, "--target", target]);
        assert_eq!(status, Status::Done, "{err}");
        let loops: Vec<&str> = out.lines().filter(|l| l.trim_start_matches("; ").trim_start().starts_with("`for` at")).collect();
        assert_eq!(loops.len(), 1 + others.len(), "{target}: {out}");
        loops
            .iter()
            .zip([scales].into_iter().chain(others))
            .for_each(|(line, want)| assert!(line.contains(want), "{target}: {line}\n{want}"));
    }
}

/// The place of the next step's tile is loaded a step before and carried: the load of the place stays where it is, and the tile is copied ahead.
#[test]
fn places_that_loops_carry_leave_their_tiles_ahead() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/tile/loops/carried_index.tile");
    let said = explained(file, "sm_80");
    assert!(said.contains("every iteration waits for 1 of 2 loads") && !said.contains("`load` of v1"), "{said}");
}

/// Lanes that add up what the unit sums load numbers a step ahead, too.
#[test]
fn numbers_beside_sums_of_lanes_are_loaded_ahead() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/tile/loops/block_scales.tile");
    let said = explained(file, "sm_90a");
    assert!(said.contains("specialised: 1 producer warp") && said.contains("4 loads and 1 dots, none of which waits"), "{said}");
}

#[test]
fn explain_knows_what_of_lanes_is_copied_ahead() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/tile/memory/lane_tiles_copied_ahead.tile");
    for target in ["sm_80", "sm_90a"] {
        let (status, out, err) = tool(&["explain", file, "--target", target]);
        assert_eq!(status, Status::Done, "{err}");
        let ahead =
            ["paged", "nibbles", "weights", "twice"].map(|kernel| out.split(&format!("; @{kernel} on ")).nth(1).expect("it is explained"));
        assert!(ahead.iter().all(|said| said.lines().nth(1).is_some_and(|l| l.contains("none of which waits"))), "{target}: {out}");
        // Where not all fits, operands alone are ahead.
        assert!(target != "sm_80" || out.contains("every iteration waits for 1 of 3 loads"), "{out}");
    }
}

#[test]
fn explain_knows_what_runs_ahead_in_registers() {
    let folder = Folder::new("registers");
    let said = explained(&folder.file("sums.tile", WITHOUT_PRODUCTS), "sm_90a");
    let waits: Vec<&str> = said.lines().map(|l| l.trim_start_matches("; ")).filter(|l| l.trim_start().starts_with('`')).collect();
    let wanted = [
        "`for` at 3:5: every iteration waits for 1 of 2 loads and 0 of 0 dots",
        "`load` of %w at 6:9 waits: the loop writes memory (`store`), and copies ahead of it would read what is older",
        "`for` at 10:5: every iteration waits for 1 of 1 loads and 0 of 0 dots",
        "`load` of %x at 11:9 waits: a step brings 128 bytes a lane, which keeps memory busy",
        "`for` at 15:5: every iteration waits for 1 of 1 loads and 0 of 0 dots",
        "`load` of %x at 16:9 waits: it is for no product, and the loop holds a loop",
        "`for` at 21:5: every iteration waits for 1 of 1 loads and 0 of 0 dots",
        "`gather` at 24:9 waits: each of its elements has an address of its own",
    ];
    assert_eq!(waits.len(), wanted.len(), "{said}");
    waits.iter().zip(wanted).for_each(|(line, want)| assert!(line.trim_start().starts_with(want), "{line}\n{want}"));
    // Copies by lanes: the tile's extents leave warps without pieces, whatever is known of its rows.
    let odd = "kernel @odd(%a: view<f32, [?%128, ?%128]>, %b: view<f32, [?%128, ?%128]>, %c: view<f32, [?, ?]>, %k: i32) warps=4 {
    %z = splat 0.0 : tile<48x80xf32>
    %s = for %i in 0..%k step 24 carry %t = %z {
        %x = load %a[0, %i] : tile<48x24xf32>
        %y = load %b[%i, 0] : tile<24x80xf32>
        %u = dot %x, %y, %t
        yield %u
    }
    store %c[0, 0], %s
}
";
    let said = explained(&folder.file("odd.tile", odd), "sm_80");
    assert!(said.contains("lanes share the powers of two in a tile's extents") && !said.contains("too narrow"), "{said}");
}

#[test]
fn explain_lists_the_decisions_of_a_compile() {
    let folder = Folder::new("decisions");
    let file = folder.file("own.tile", DOUBLED);
    let (status, out, err) = tool(&["explain", &file, "--target", "sm_80"]);
    assert_eq!(status, Status::Done, "{err}");
    let lines: Vec<&str> = out.lines().filter_map(|l| l.strip_prefix(";   ")).collect();
    let of = |name: &str| lines.iter().find(|l| l.starts_with(&format!("{name}: "))).unwrap_or_else(|| panic!("no {name} in\n{out}"));
    let algebra = of("algebra");
    assert!(algebra.contains("mul-one") && algebra.contains(" at ") && algebra.contains("; next another one at "), "{algebra}");
    assert!(algebra.ends_with("[logical graph]") && of("specialisation").contains("no: ") && of("text").contains("PTX"), "{out}");
}

/// A kernel with the work of two rules in it.
const DOUBLED: &str = "kernel @own(v0: view<f32, [?]>) {
v1 = program_id x
v6 = div v1, 4
v2 = load v0[v6] : tile<32xf32>
v3 = splat 1.0 : tile<32xf32>
v4 = mul v2, v3
v5 = add v4, v2
store v0[v1], v5
}
";

#[test]
fn reports_are_json_for_engines() {
    let folder = Folder::new("json");
    let file = folder.file("own.tile", DOUBLED);
    let (status, out, err) = tool(&["opt", &file, "--report", "--json"]);
    assert_eq!((status, out.lines().count()), (Status::Done, 1), "{err}");
    for part in [
        "{\"kernel\": \"own\", \"skipped\": null",
        "\"phases\": [{\"name\": \"simplify\", \"stop\": \"saturated\"",
        "\"unions\": 2",
        "{\"name\": \"mul-one\", \"class\": \"exact\", \"matches\": 1, \"applied\": 1, \"seconds\": ",
        "\"layouts\": null}",
    ] {
        assert!(out.contains(part), "{part} in {out}");
    }
    let open = |c: char| out.matches(c).count();
    assert!(open('{') == open('}') && open('[') == open(']') && open('"') % 2 == 0, "{out}");
    let (status, out, _) = tool(&["opt", &file, "--report", "--json", "--stage", "physical"]);
    assert!(status == Status::Done && out.contains("\"layouts\": {\"nodes\": "), "{out}");
    let (status, _, err) = tool(&["opt", &file, "--json"]);
    assert!(status == Status::Usage && err.contains("--report"), "{err}");
}

#[test]
fn explain_names_the_line_the_reason_and_the_cost_of_a_loop_that_waits() {
    let folder = Folder::new("waits");
    let gathered = PAGED.replace(
        "        v14 = load v1[v13, 0, 0] : tile<1x16x64xbf16>\n",
        "        v30 = splat v13 : tile<16x64xi32>\n        v31 = iota 0 : tile<16x64xi32>\n        v32 = iota 1 : tile<16x64xi32>\n        \
         v33 = gather v1[v30, v31, v32], other=1.0\n        v14 = reshape v33 : tile<1x16x64xbf16>\n        store v3[0, 0, 0], v40\n",
    );
    let gathered = gathered.replace("    v8 = splat", "    v40 = splat 0.0 : tile<1x16x16xf32>\n    v8 = splat");
    let said = explained(&folder.file("writes.tile", gathered), "sm_90a");
    assert!(said.contains("`for` at 9:5: every iteration waits for 2 of 2 loads"), "{said}");
    assert!(
        said.contains("it is not for products alone: `reshape` at 11:9") && said.contains("each of its elements has an address of its own"),
        "{said}"
    );
    // Two latencies, one behind the other, by the target's table: 660 cycles each.
    assert!(said.contains("2 * 660 (loads one behind the other)") && said.contains("an estimate from the target's table"), "{said}");
    let cycles = |word: &str| -> f64 {
        let front = said.split(word).next().expect("text");
        front.split_whitespace().rev().find_map(|w| w.trim_end_matches(',').parse().ok()).expect("a number")
    };
    let (now, fast) = (cycles(" cycles an iteration"), cycles(" on the fast path"));
    assert!(now > 1320.0 && now > 5.0 * fast && fast > 0.0, "{now} {fast}");
}

#[test]
fn launches_are_checked_and_counted_in_the_simulator() {
    let folder = Folder::new("bench");
    let file = folder.file("paged.tile", PAGED);
    let json = folder.0.join("out.json").to_string_lossy().into_owned();
    let (status, out, err) = tool(&["bench", &file, "--device", "sim", "--check", "3", "--json", &json]);
    assert_eq!(status, Status::Done, "{err}");
    assert!(out.contains("768 elements of v3 that 3 of 4 instances store"), "{out}");
    // 8, 7, 6 and 5 iterations of a dot of 16x16x64.
    let gflop = 2.0 * 16.0 * 16.0 * 64.0 * 26.0 * 1e-9;
    assert!(out.contains(&format!("{gflop:.3} GFLOP of dots, of all 4 instances")), "{out}");
    let json = fs::read_to_string(json).expect("written");
    assert!(json.contains("\"programs\": 3") && json.contains("\"instructions\""), "{json}");
    // Others than those of the file, with a tensor from a file.
    let table: Vec<u8> = [0i32, 1, 2].iter().flat_map(|n| n.to_le_bytes()).collect();
    let table = folder.file("table.bin", table);
    let launch = format!("@paged(grid=2, v0=ones[2x16x64], v1=ones[3x16x64], v2=file:\"{table}\"[3], out v3=[2x16x16])");
    let (status, out, err) = tool(&["bench", &file, "--device", "sim", "--launch", &launch]);
    assert_eq!(status, Status::Done, "{err}");
    assert!(out.contains("2 of 2 instances"), "{out}");
    let list = folder.file("list.txt", format!("# two files' launches\npaged: {launch}\nother: @other(grid=1)\n"));
    let (status, again, err) = tool(&["bench", "--launches", &list, "--device", "sim", &file]);
    assert_eq!((status, again), (Status::Done, out), "{err}");
}

#[test]
fn what_cannot_be_benched_is_told_with_its_place_and_remedy() {
    let folder = Folder::new("refused");
    let file = folder.file("paged.tile", PAGED);
    let bare = folder.file("bare.tile", GEMM);
    let list = folder.file("list.txt", "other: @paged(grid=1)\n");
    let broken = folder.file("broken.txt", "\n@paged(grid=)\n");
    let sim = |more: &[&str]| tool(&[&["bench", &file, "--device", "sim"], more].concat());
    let missing = Path::new("no-such-folder/list.txt");
    for ((status, _, err), want, part) in [
        (tool(&["bench", &bare, "--device", "sim"]), Status::Failed, "has no `; run:` line that runs; give `--launch"),
        (sim(&["--launches", &list]), Status::Failed, "no launch is for `paged`; there are some for other"),
        (sim(&["--launches", &broken]), Status::Failed, "broken.txt:2: run line, character"),
        (sim(&["--launches", &missing.to_string_lossy()]), Status::Unusable, "no-such-folder/list.txt: "),
        (sim(&["--launch", "@pages(grid=1)"]), Status::Failed, "there is no kernel @pages"),
        (sim(&["--launch", "@paged(grid=1)"]), Status::Failed, "@paged has 4 parameters, the run line gives 0"),
        (sim(&["--launch", "paged(grid=1)"]), Status::Usage, "write `@kernel(grid="),
        (
            sim(&["--launch", "@paged(grid=1, v0=ones[1x16x64], v1=ones[1x16x64], v2=file:nowhere.bin[3], out v3=[1x16x16])"]),
            Status::Failed,
            "v2: nowhere.bin: ",
        ),
        (
            sim(&["--launch", "@paged(grid=1, v0=ones[1x16x65], v1=ones[1x16x64], v2=iota[1], out v3=[1x16x16])"]),
            Status::Failed,
            "--launch: @paged: extent 2 of argument 0 is 65",
        ),
        (tool(&["bench", "no-such-file.tile"]), Status::Unusable, "no-such-file.tile"),
    ] {
        assert!(status == want && err.contains(part), "{status:?}, `{part}` is not in {err}");
    }
    // Without a GPU times are refused, and the simulator is named.
    if Executor::open(DeviceKind::Cuda, None).is_err() {
        let (status, _, err) = tool(&["bench", &file]);
        assert!(status == Status::Unusable && err.contains("`--device sim` counts instructions"), "{err}");
    }
}

/// What a kernel prints is shown, program by program; of very much the beginning, and how much more there is.
#[test]
fn what_a_kernel_prints_is_shown() {
    let folder = Folder::new("prints");
    let source = |grid: u32| format!("; run: @k(grid={grid}, v0=5)\nkernel @k(v0: i32) {{\n    v1 = program_id x\n    print v1, v0\n}}\n");
    let (status, out, err) = tool(&["interp", &folder.file("two.tile", source(2))]);
    assert_eq!(status, Status::Done, "{err}");
    assert!(out.contains("printed by program [0, 0, 0] 0 5\n  printed by program [1, 0, 0] 1 5\n") && !out.contains("more lines"), "{out}");
    let (_, out, _) = tool(&["interp", &folder.file("many.tile", source(70))]);
    assert!(out.matches("printed by program").count() == 64 && out.contains("… 6 more lines are printed"), "{out}");
}
