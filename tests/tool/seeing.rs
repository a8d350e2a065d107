//! What shows: layouts and bank maps, pages, timelines, rooflines. Documents are well-formed, and say of each element, slice and kernel what holds.

use crate::xml;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use tilelift_tools::cli::{self, Status};

fn tool(args: &[&str]) -> (Status, String, String) {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let status = cli::run(args.iter().map(Into::into).collect(), &mut out, &mut err);
    (status, String::from_utf8_lossy(&out).into_owned(), String::from_utf8_lossy(&err).into_owned())
}

/// What a call that goes well prints.
fn shown(args: &[&str]) -> String {
    let (status, out, err) = tool(args);
    assert_eq!(status, Status::Done, "{args:?}: {err}");
    out
}

/// A folder that goes when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tilelift-seeing-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }
    fn file(&self, name: &str, content: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, content).expect("written");
        path.to_string_lossy().into_owned()
    }
    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A product, with a name and a comment that need escaping.
const GEMM: &str = "; run: @gemm(grid=[1, 1], v0=rand:1[128x128], v1=rand:2[128x128], out v2=[128x128]) tol rel=1e-1 abs=1e-1
; a < b & \"c\"
kernel @gemm(v0: view<bf16, [?, ?%64]>, v1: view<bf16, [?, ?%64]>, v2: view<bf16, [?, ?%8]>) {
    v3 = program_id x
    v4 = program_id y
    v5 = mul v3, 128
    v6 = mul v4, 128
    v7 = dim v0, 1
    v8 = splat 0.0 : tile<128x128xf32>
    %sum = for v10 in 0..v7 step 64 carry v11 = v8 {
        v12 = load v0[v5, v10] : tile<128x64xbf16>
        v13 = load v1[v6, v10] : tile<128x64xbf16>
        v14 = transpose v13, [1, 0]
        v15 = dot v12, v14, v11
        yield v15
    }
    v16 = cast %sum : tile<128x128xbf16>
    store v2[v5, v6], v16
}
";

/// The elements that titles of cells name.
fn elements(svg: &str) -> Vec<Vec<u32>> {
    let mut out = Vec::new();
    for title in svg.split("<title>[").skip(1) {
        let (place, _) = title.split_once(']').expect("a place");
        let mut parts: Vec<&str> = place.split(", ").collect();
        let last = parts.pop().expect("a column");
        let (from, to) = last.split_once("..").map_or((last, None), |(a, b)| (a, Some(b)));
        let from: u32 = from.parse().expect("a number");
        let to = to.map_or(from + 1, |t| t.parse().expect("a number"));
        let lead: Vec<u32> = parts.iter().map(|n| n.parse().expect("a number")).collect();
        out.extend((from..to).map(|c| [lead.clone(), vec![c]].concat()));
    }
    out
}

fn holds_every_element_once(svg: &str, shape: &[u32]) {
    xml::check(svg).unwrap_or_else(|e| panic!("{e}"));
    let found = elements(svg);
    let count = shape.iter().product::<u32>() as usize;
    assert_eq!(found.len(), count, "{shape:?}");
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>().len(), count, "{shape:?}");
}

#[test]
fn layouts_as_written_are_drawn() {
    let blocked = "blocked(size=[1, 8], lanes=[4, 8], warps=[4, 1], order=[1, 0])";
    let svg = shown(&["layout", blocked, "--tile", "32x64xbf16"]);
    holds_every_element_once(&svg, &[32, 64]);
    assert!(svg.contains("T31:0-7") && svg.contains("warp 3"));
    for (layout, says) in [("swizzle(128)", "1 wavefront, no conflicts"), ("row_major", "8 wavefronts, conflicts: 1 would do")] {
        let svg = shown(&["layout", layout, "--tile", "32x64xbf16"]);
        holds_every_element_once(&svg, &[32, 64]);
        assert!(svg.contains(says), "{layout}: {says}");
    }
    let access = "blocked(size=[1, 1], lanes=[32, 1], warps=[1, 1], order=[0, 1])";
    let svg = shown(&["layout", "row_major", "--tile", "32x32xf32", "--access", access]);
    // A lane has a row, of which it loads 16 bytes at once; eight lanes are served together, and all rows begin in one bank.
    assert!(svg.contains("4 elements a lane, 8 lanes") && svg.contains("8 wavefronts, conflicts: 1 would do"), "{svg}");
    assert!(!shown(&["layout", "row_major", "--tile", "8x8xf32", "--access", "none"]).contains("wavefront"));
}

#[test]
fn values_of_a_kernel_are_drawn_by_name_number_and_line() {
    let folder = Folder::new("values");
    let path = folder.file("gemm.tile", GEMM);
    let of = |value: &str, target: &str| shown(&["layout", &path, value, "--target", target]);
    // The accumulator of both machines' matrix instructions.
    for target in ["sm_80", "sm_90a", "gfx942"] {
        let [name, line] = ["%sum", "10"].map(|v| of(v, target));
        assert_eq!(name, line, "{target}");
        xml::check(&name).unwrap_or_else(|e| panic!("{target}: {e}"));
        assert!(name.contains(&format!("in @gemm on {target}")), "{target}");
    }
    let stored = shown(&["layout", &path, "v16", "--target", "sm_80", "--rows", "0..128"]);
    holds_every_element_once(&stored, &[128, 128]);
    // Loads became copies into rings.
    let list = shown(&["layout", &path, "--list", "--target", "sm_90a"]);
    assert!(list.contains("swizzle(128)") && list.contains("`for` at 10:5") && list.contains("shared<"), "{list}");
    let staged = shown(&["layout", &path, "--list", "--target", "sm_80"]);
    assert!(staged.split("in shared memory").nth(1).is_some_and(|m| m.contains("bytes")), "{staged}");
}

#[test]
fn what_can_not_be_drawn_says_why_and_what_can() {
    let folder = Folder::new("refused");
    let path = folder.file("gemm.tile", GEMM);
    let two = folder.file("two.tile", &format!("{GEMM}{}", GEMM.replace("@gemm", "@other")));
    for (args, status, part) in [
        (vec!["layout", &path, "v99"], Status::Failed, "no value `v99`"),
        (vec!["layout", &path, "v7"], Status::Failed, "--list` names what can be drawn"),
        (vec!["layout", &path], Status::Usage, "a file and a value"),
        (vec!["layout", &two, "v12"], Status::Usage, "@gemm, @other"),
        (vec!["layout", &two, "v12", "--kernel", "third"], Status::Failed, "no kernel @third"),
        (vec!["layout", "mma(acc)", "--tile", "16x8xf32"], Status::Usage, "name a file and the value"),
        (vec!["layout", "swizzle(96)", "--tile", "16x64xbf16"], Status::Usage, "128, 64 or 32"),
        (vec!["layout", "swizzel(64)", "--tile", "16x64xbf16"], Status::Usage, "`swizzel` is no layout"),
        (
            vec!["layout", "blocked(size=[1], lanes=[3], warps=[1], order=[0])", "--tile", "64xf32"],
            Status::Failed,
            "is no layout of 64xf32",
        ),
        (vec!["layout", "swizzle(64)"], Status::Usage, "`--tile`"),
        (vec!["layout", "swizzle(64)", "--tile", "64x64"], Status::Usage, "64x128xbf16"),
        (vec!["layout", "swizzle(64)", "--tile", "64x64xf16", "--rows", "80..90"], Status::Failed, "choose some from 0..64"),
        (vec!["layout", "swizzle(64)", "--tile", "64x64xf16", "--access", "rows"], Status::Usage, "matrix, row, column, none or a layout"),
        (
            vec!["layout", "row_major", "--tile", "64x64xf16", "--access", "matrix", "--target", "gfx942"],
            Status::Usage,
            "gfx942 has no matrix loads",
        ),
        (vec!["layout", "row_major", "--tile", "4096x4096xf16"], Status::Failed, "can't be drawn"),
        (vec!["report", &path, "--frob"], Status::Usage, "--frob"),
        (vec!["trace", &path, "--run", "2"], Status::Usage, "has 1 `; run:` line"),
        (vec!["trace", &path, "--blocks", "4"], Status::Usage, "no block 4"),
    ] {
        let (got, _, err) = tool(&args);
        assert!(got == status && err.contains(part), "{args:?}: {got:?} {err}");
    }
}

#[test]
fn a_page_has_every_stage_and_needs_nothing_else() {
    let folder = Folder::new("page");
    let path = folder.file("gemm.tile", GEMM);
    for (target, text) in [("sm_80", "mma.sync"), ("sm_90a", "wgmma.mma_async"), ("gfx942", "v_mfma")] {
        let page = shown(&["report", &path, "--target", target]);
        xml::check(page.strip_prefix("<!DOCTYPE html>").expect("a page")).unwrap_or_else(|e| panic!("{target}: {e}"));
        for id in ["runs", "resources", "source", "tile", "rules", "schedule", "lane", "layouts", "banks", "text"] {
            assert!(page.contains(&format!("<details id=\"{id}\"")) && page.contains(&format!("href=\"#{id}\"")), "{target}: {id}");
        }
        assert!(page.contains(text), "{target}");
        assert!(page.contains("; a &lt; b &amp; &quot;c&quot;"), "the source is escaped");
        for outside in ["<script", "src=", "@import", "url(", "<link"] {
            assert!(!page.contains(outside), "{target}: {outside}");
        }
        assert!(page.matches("href=\"").count() == page.matches("href=\"#").count(), "every link stays in the page");
        // Every anchor that is pointed at exists.
        for link in page.split("href=\"#").skip(1) {
            let (id, _) = link.split_once('"').expect("an end");
            assert!(page.contains(&format!("id=\"{id}\"")), "{target}: #{id}");
        }
    }
    let out = folder.path("out.html");
    assert_eq!(shown(&["report", &path, "--target", "sm_90a", "-o", &out]), "");
    assert!(fs::read_to_string(&out).expect("written").ends_with("</html>\n"));
}

#[test]
fn a_page_of_a_kernel_that_is_refused_says_why() {
    let folder = Folder::new("no-page");
    let path = folder.file(
        "wide.tile",
        &GEMM.replace("128x128xf32", "4096x4096xf32").replace("128x64", "4096x64").replace("128x128xbf16", "4096x4096xbf16"),
    );
    let (status, page, err) = tool(&["report", &path, "--target", "sm_80"]);
    assert!(status == Status::Failed && err.contains("does not compile"), "{err}");
    xml::check(page.strip_prefix("<!DOCTYPE html>").expect("a page")).unwrap_or_else(|e| panic!("{e}"));
    assert!(
        page.contains("<details id=\"refused\" open=\"open\">")
            && page.contains("<details id=\"tile\"")
            && !page.contains("<details id=\"text\"")
    );
}

/// A trace: slices of each thread, in order, and async slices by their number.
struct Trace {
    json: Value,
}

impl Trace {
    fn of(args: &[&str]) -> Trace {
        let made = shown(args);
        Trace { json: serde_json::from_str(&made).unwrap_or_else(|e| panic!("{e}: {made}")) }
    }

    fn events(&self) -> impl Iterator<Item = &Value> {
        self.json["traceEvents"].as_array().expect("events").iter()
    }

    /// Every slice lies in the launch, those of a thread do not meet, and what begins ends.
    fn makes_sense(&self) {
        let end = self.json["otherData"]["instructions"].as_u64().expect("a count");
        let number = |e: &Value, key: &str| e[key].as_u64().unwrap_or_else(|| panic!("{key}: {e}"));
        let mut threads: BTreeMap<(u64, u64), Vec<[u64; 2]>> = BTreeMap::new();
        let mut open: BTreeMap<(String, u64), u64> = BTreeMap::new();
        for e in self.events() {
            match e["ph"].as_str() {
                Some("X") => {
                    let (from, length) = (number(e, "ts"), number(e, "dur"));
                    threads.entry((number(e, "pid"), number(e, "tid"))).or_default().push([from, from + length]);
                }
                Some("b") => {
                    let key = (e["cat"].as_str().expect("a category").to_owned(), number(e, "id"));
                    assert!(open.insert(key, number(e, "ts")).is_none(), "{e}");
                }
                Some("e") => {
                    let key = (e["cat"].as_str().expect("a category").to_owned(), number(e, "id"));
                    let from = open.remove(&key).unwrap_or_else(|| panic!("ends without a beginning: {e}"));
                    assert!(from <= number(e, "ts") && number(e, "ts") <= end, "{e}");
                }
                Some("M") => assert!(e["args"]["name"].is_string(), "{e}"),
                _ => panic!("an event of no known kind: {e}"),
            }
        }
        assert!(open.is_empty(), "{open:?}");
        for (thread, mut slices) in threads {
            slices.sort_unstable();
            assert!(slices.windows(2).all(|w| w[0][1] <= w[1][0]), "slices of {thread:?} meet");
            assert!(slices.last().is_some_and(|s| s[1] <= end), "{thread:?}");
        }
    }

    fn count(&self, ph: &str, category: &str) -> usize {
        self.events().filter(|e| e["ph"] == ph && e["cat"] == category).count()
    }
}

#[test]
fn a_specialised_launch_shows_copies_products_phases_and_waits() {
    let folder = Folder::new("trace");
    let path = folder.file("gemm.tile", GEMM);
    let t = Trace::of(&["trace", &path, "--target", "sm_90a"]);
    t.makes_sense();
    // Two k-iterations of two operands each come by bulk copies, and are multiplied.
    assert!(t.count("b", "copy in") >= 4, "{}", t.count("b", "copy in"));
    assert!(t.count("b", "wgmma") >= 2 && t.count("X", "mbarrier") >= 2 && t.count("X", "wait") >= 2);
    let about = &t.json["otherData"];
    assert!(
        about["clock"].as_str().is_some_and(|c| c.contains("warp instruction")) && about["kernel"] == "gemm" && about["target"] == "sm_90a"
    );
    assert!(about["fault"].is_null());
    // Where copies land at once, none is in flight for long.
    let lasts = |landing: &str| {
        let t = Trace::of(&["trace", &path, "--target", "sm_90a", "--landing", landing]);
        t.makes_sense();
        let at = |ph: &str| -> u64 { t.events().filter(|e| e["ph"] == ph && e["cat"] == "copy in").filter_map(|e| e["ts"].as_u64()).sum() };
        at("e") - at("b")
    };
    assert_eq!(lasts("eager"), 0);
    assert!(lasts("lazy") > 0);
}

#[test]
fn a_pipelined_launch_shows_its_groups_of_copies() {
    let folder = Folder::new("groups");
    let path = folder.file("gemm.tile", GEMM);
    let t = Trace::of(&["trace", &path, "--target", "sm_80"]);
    t.makes_sense();
    assert!(t.count("b", "cp.async") >= 2);
    let barrier = |e: &&Value| e["name"].as_str().is_some_and(|n| n.starts_with("wait: barrier"));
    assert!(t.events().any(|e| barrier(&e)));
}

/// Waves with their barriers, and what each has in flight, with the lines of the assembly.
#[test]
fn a_launch_of_a_code_object_shows_waves_barriers_and_what_is_in_flight() {
    let folder = Folder::new("waves");
    let path = folder.file("gemm.tile", GEMM);
    for target in ["gfx942", "gfx90a", "gfx950"] {
        let t = Trace::of(&["trace", &path, "--target", target]);
        t.makes_sense();
        let text = shown(&["compile", &path, "--target", target]);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        // Where operands are loaded straight to local data share, registers see none of them.
        let loads = if target == "gfx950" { "copy in" } else { "load" };
        for (category, instructions) in [
            (loads, &["global_load", "buffer_load"][..]),
            ("store", &["global_store", "buffer_store"]),
            ("shared memory", &["ds_read", "ds_write"]),
            ("scalar load", &["s_load"]),
        ] {
            assert!(t.count("b", category) >= 4, "{target}: {} of {category}", t.count("b", category));
            let mut moved = 0;
            for e in t.events().filter(|e| e["ph"] == "b" && e["cat"] == category) {
                let line = e["args"]["line"].as_u64().expect("a line") as usize;
                // What lies outside of a buffer moves nothing.
                moved += e["args"]["bytes"].as_u64().expect("a number");
                let instruction = e["args"]["instruction"].as_str().expect("a text");
                assert!(instructions.iter().any(|i| instruction.starts_with(i)) && lines[line - 1] == instruction, "{target}: {e}");
                assert!(e["args"]["over"] == true, "{target}: {e}");
            }
            assert!(moved >= 64, "{target}: {moved} bytes of {category}");
        }
        let waits = |e: &&Value| e["name"] == "wait: barrier 0" && e["args"]["instruction"] == "s_barrier";
        let waves: BTreeSet<u64> = t.events().filter(waits).filter_map(|e| e["tid"].as_u64()).collect();
        assert!(waves.len() >= 2, "{target}: {waves:?}");
        // Loads are in flight while other work is done: that is what the timeline is for.
        let at = |ph: &str| -> u64 { t.events().filter(|e| e["ph"] == ph && e["cat"] == loads).filter_map(|e| e["ts"].as_u64()).sum() };
        assert!(at("e") > at("b") + t.count("b", loads) as u64, "{target}");
    }
}

#[test]
fn a_launch_that_hangs_is_shown_up_to_where_it_does() {
    let folder = Folder::new("hang");
    let ptx = "
.version 7.0
.target sm_80
.address_size 64
.visible .entry hang() {
  .reg .b32 %r<2>; .reg .pred %p<2>;
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, 32;
  @%p1 bar.sync 1, 64;
  ret;
}";
    folder.file("hang.ptx", ptx);
    let launch = folder.file("hang.json", r#"{"code": "hang.ptx", "entry": "hang", "grid": [1, 1, 1], "block": [64, 1, 1], "args": []}"#);
    let out = folder.path("hang.trace.json");
    let (status, _, err) = tool(&["trace", &launch, "-o", &out]);
    assert!(status == Status::Failed && err.contains("no warp can make progress"), "{err}");
    let t = Trace { json: serde_json::from_str(&fs::read_to_string(&out).expect("written")).expect("JSON") };
    t.makes_sense();
    assert!(t.json["otherData"]["fault"].as_str().is_some_and(|f| f.contains("barrier 1")));
}

#[test]
fn results_of_an_earlier_run_are_drawn_under_the_roof() {
    let folder = Folder::new("roof");
    let results = r#"{"target": "sm_90a", "multiprocessors": 132, "rows": [
        {"launch": "@gemm <a>", "seconds": {"median": 1e-3}, "bytes": 1.0e8, "operations": 5e11},
        {"launch": "@copy", "seconds": {"median": 1e-3}, "bytes": 2058000000, "operations": null}]}"#;
    let (from, out) = (folder.file("results.json", results), folder.path("roof.svg"));
    assert_eq!(shown(&["bench", "--roofline", &out, "--from", &from]), "");
    let svg = fs::read_to_string(&out).expect("written");
    xml::check(&svg).unwrap_or_else(|e| panic!("{e}"));
    assert!(svg.contains("@gemm &lt;a&gt; ") && svg.contains("@copy 50%"), "{svg}");
    let older = folder.file("older.json", &results.replace("\"target\": \"sm_90a\", ", ""));
    for (args, status, part) in [
        (vec!["bench", "--roofline", &out, "--from", &older], Status::Usage, "say so with `--target`"),
        (vec!["bench", "--from", &from], Status::Usage, "goes with `--roofline"),
        (vec!["bench", "gemm", "--roofline", &out, "--from", &from], Status::Usage, "measures nothing"),
        (vec!["bench", "gemm", "--device", "sim", "--roofline", &out], Status::Usage, "draws times"),
    ] {
        let (got, _, err) = tool(&args);
        assert!(got == status && err.contains(part), "{args:?}: {got:?} {err}");
    }
}

#[test]
fn the_checker_of_documents_finds_what_is_wrong() {
    assert_eq!(xml::check("<a b=\"c &lt;\"><d/>text &amp; more</a>\n"), Ok(()));
    for wrong in
        ["<a>", "<a></b>", "<a b=c></a>", "<a>&nbsp;</a>", "<a>&</a>", "<a b=\"<\"></a>", "<a/><b/>", "text", "<a b=\"1\" b=\"2\"/>"]
    {
        assert!(xml::check(wrong).is_err(), "{wrong}");
    }
}
