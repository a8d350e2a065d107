//! Descriptors say what the artifact says, of kernels of every kind; whatever a name holds, they are JSON.

use serde_json::{Value, json};
use tilelift::interp::{Arg, ViewArg};
use tilelift::isel::abi::{ParamValue, TensorMap};
use tilelift::launch::{Argument, ParamSource, describe, document, marshal};
use tilelift::{Artifact, Options, compile, targets};
use tilelift_ir::{Extent, GridAxis, Kernel, Scalar, text};
use tilelift_kernels::Gemm;

fn made(kernel: &Kernel, target: &str) -> (Artifact, Value) {
    let target = targets::by_name(target).expect("known");
    let artifact = compile(kernel, &target, &Options::default()).unwrap_or_else(|e| panic!("@{}: {e}", kernel.name));
    let value = read(&artifact);
    (artifact, value)
}

/// A kernel's descriptor, read back.
fn read(artifact: &Artifact) -> Value {
    let text = document(&[describe(artifact)]);
    let mut value: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    assert_eq!(value["version"], 1);
    value["kernels"][0].take()
}

fn parsed(source: &str) -> Kernel {
    text::parse(source).unwrap_or_else(|e| panic!("{e}")).kernels.remove(0)
}

fn number(v: &Value) -> u32 {
    v.as_u64().unwrap_or_else(|| panic!("{v} is no number")) as u32
}

/// What the text itself declares: entry, threads, cluster, and bytes and alignment of every parameter.
fn agrees_with_text(a: &Artifact, d: &Value) {
    let entry = format!(".visible .entry {}(", d["entry"].as_str().expect("a name"));
    let (_, rest) = a.text.split_once(&entry).unwrap_or_else(|| panic!("no `{entry}`"));
    let (params, rest) = rest.split_once(')').expect("an end");
    assert!(a.text.contains(&format!(".target {}\n", d["target"].as_str().expect("a name"))));
    assert!(rest.starts_with(&format!("\n.reqntid {}, 1, 1\n", d["block"][0])), "{rest}");
    let cluster = rest.contains(&format!(".reqnctapercluster {}, 1, 1\n.explicitcluster\n", d["cluster"][0]));
    assert_eq!(cluster, number(&d["cluster"][0]) > 1);
    let declared: Vec<[u32; 2]> = params.split(',').map(str::trim).filter(|p| !p.is_empty()).map(room_in_text).collect();
    let said = d["parameters"].as_array().expect("a list");
    assert_eq!(said.iter().map(|p| ["size", "align"].map(|f| number(&p[f]))).collect::<Vec<_>>(), declared);
    // The assembler places tensor maps as it likes.
    let known = !declared.contains(&[128, 64]);
    let mut end = 0;
    for (p, [size, align]) in said.iter().zip(declared) {
        let offset = u32::next_multiple_of(end, align);
        end = offset + size;
        assert_eq!(p["offset"], if known { json!(offset) } else { Value::Null });
    }
    assert_eq!(d["parameter_bytes"], if known { json!(end) } else { Value::Null });
}

/// Bytes and alignment of a parameter as the text declares it.
fn room_in_text(declared: &str) -> [u32; 2] {
    if declared.starts_with(".param .align 64 .b8 ") && declared.ends_with("[128]") {
        return [128, 64];
    }
    let bits: String = declared.split_whitespace().nth(1).expect("a type").chars().filter(char::is_ascii_digit).collect();
    [bits.parse::<u32>().expect("a width") / 8; 2]
}

/// Every parameter is filled twice: by the marshalling of all devices, and by hand from the descriptor.
fn agrees_with_artifact(a: &Artifact, d: &Value) {
    assert_eq!([&d["kernel"], &d["entry"], &d["target"]], [&a.name, &a.entry, &a.target]);
    assert_eq!(d["block"], json!([a.threads, 1, 1]));
    assert_eq!(d["cluster"], json!([a.cluster, 1, 1]));
    assert_eq!(d["shared_bytes"]["dynamic"], a.shared_bytes);
    assert_eq!(d["shared_bytes"]["opt_in"], if a.shared_bytes > 49152 { json!(a.shared_bytes) } else { Value::Null });
    assert_eq!(d["early_launch"], a.early_launch);
    assert_eq!(d["grid"]["persistent"], a.grid_rule().persistent);
    assert_eq!(d["grid"]["multiple_of"], json!([a.cluster, 1, 1]));
    assert_eq!(d["grid"]["positions"], json!(a.positions));
    let listed = d["parameters"].as_array().expect("a list");
    assert_eq!(listed.len(), a.params.len());
    let (args, grid) = (arguments(a), [5, 7, 3]);
    let values = marshal(a, grid, &args, |buffer, offset| 4096 * (buffer as u64 + 1) + offset).unwrap_or_else(|e| panic!("{e}"));
    for (p, want) in listed.iter().zip(&values) {
        match want {
            ParamValue::Number { bits, size } => {
                assert_eq!((filled(p, &args, grid), number(&p["size"])), (*bits, u32::from(*size)), "{p}");
            }
            ParamValue::Tensor(t) => assert_eq!(&map(p, &args), t, "{p}"),
        }
    }
}

/// Some arguments that keep what the kernel promises: no two numbers of them are the same.
fn arguments(a: &Artifact) -> Vec<Arg> {
    let known = |e: &Extent, n: u32| i64::from(if let Extent::Fixed(n) = e { *n } else { e.divisor() * 16 * n });
    let arg = |(i, argument): (usize, &Argument)| match argument {
        Argument::View { ty: v, .. } => {
            let shape: Vec<i64> = v.dims.iter().zip(3..).map(|(e, n)| known(e, n + 10 * i as u32)).collect();
            let mut view = ViewArg::dense(i, v.elem, &shape);
            if let Some(strides) = &v.strides {
                view.strides = strides.iter().zip(5..).map(|(e, n)| known(e, n + 10 * i as u32)).collect();
            }
            view.at(256 * i as u64).into()
        }
        other => {
            let elem = other.elem();
            let number =
                if elem.is_float() { tilelift::interp::ScalarArg::float(elem, 1.5) } else { tilelift::interp::ScalarArg::int(elem, 1) };
            number.into()
        }
    };
    a.arguments.iter().enumerate().map(arg).collect()
}

fn view<'a>(p: &Value, args: &'a [Arg]) -> &'a ViewArg {
    match &args[number(&p["argument"]) as usize] {
        Arg::View(v) => v,
        Arg::Scalar(_) => panic!("{p} names a number"),
    }
}

/// The bits of a parameter, as a launcher takes them from the descriptor.
fn filled(p: &Value, args: &[Arg], grid: [u32; 3]) -> u64 {
    let dim = || number(&p["dim"]) as usize;
    match p["kind"].as_str().expect("a word") {
        "pointer" => {
            let v = view(p, args);
            4096 * (v.buffer as u64 + 1) + v.offset_bytes
        }
        "extent" => view(p, args).shape[dim()] as u64,
        "stride" => view(p, args).strides[dim()] as u64,
        "grid" => grid[number(&p["axis"]) as usize].into(),
        "scalar" => match &args[number(&p["argument"]) as usize] {
            Arg::Scalar(s) => {
                assert_eq!(p["type"], s.elem().name());
                s.bits()
            }
            Arg::View(_) => panic!("{p} names a view"),
        },
        other => panic!("`{other}` is no number"),
    }
}

/// A tensor map, as a launcher makes it by docs/launch.md.
fn map(p: &Value, args: &[Arg]) -> TensorMap {
    let v = view(p, args);
    let list = |f: &str| -> Vec<u32> { p[f].as_array().expect("a list").iter().map(number).collect() };
    let dims: Vec<usize> = list("dims").into_iter().map(|d| d as usize).collect();
    assert_eq!(
        (p["kind"].as_str(), dims.len(), list("element_strides")),
        (Some("tensor_map"), number(&p["rank"]) as usize, vec![1; dims.len()])
    );
    let unit = u64::from(number(&p["stride_unit"]));
    let swizzle = number(&p["swizzle_bytes"]);
    let elem = Scalar::from_name(p["type"].as_str().expect("a name")).expect("a type");
    let tf32 = p["tf32"].as_bool().expect("a truth value");
    let code = match (elem, tf32) {
        (Scalar::F16, false) => 6,
        (Scalar::BF16, false) => 9,
        (Scalar::F32, false) => 7,
        (Scalar::F32, true) => 11,
        (Scalar::F8E4M3 | Scalar::I8, false) => 0,
        other => panic!("{other:?} is not in the test"),
    };
    let mode = [0, 32, 64, 128].iter().position(|&w| w == swizzle).expect("a width");
    assert_eq!(p["driver"], json!({"data_type": code, "interleave": 0, "swizzle": mode, "l2_promotion": 3, "oob_fill": 0}));
    TensorMap {
        base: 4096 * (v.buffer as u64 + 1) + v.offset_bytes,
        elem,
        extents: dims.iter().map(|&d| v.shape[d] as u64).collect(),
        strides: dims[1..].iter().map(|&d| if v.shape[d] > 1 { v.strides[d] as u64 * unit } else { 16 }).collect(),
        box_extents: list("box").into_iter().collect(),
        swizzle,
        tf32,
    }
}

/// Both comparisons; the kinds of the parameters.
fn judged(kernel: &Kernel, target: &str) -> (Value, Vec<String>) {
    let (a, d) = made(kernel, target);
    agrees_with_text(&a, &d);
    agrees_with_artifact(&a, &d);
    let kinds = d["parameters"].as_array().expect("a list").iter().map(|p| p["kind"].as_str().expect("a word").to_owned()).collect();
    (d, kinds)
}

#[test]
fn plain_kernels_take_pointers_and_extents() {
    let source = "kernel @double(v0: view<f32, [?%4]>, v1: view<f32, [?%4]>) {
    v2 = program_id x
    v3 = mul v2, 1024
    v4 = load v0[v3] : tile<1024xf32>
    v5 = add v4, v4
    store v1[v3], v5
}
";
    for target in ["sm_80", "sm_90a"] {
        let (d, kinds) = judged(&parsed(source), target);
        assert_eq!(kinds, ["pointer", "extent", "pointer", "extent"]);
        assert_eq!(
            d["arguments"][0],
            json!({
                "kind": "view", "type": "f32", "bits": 32, "extents": [{"multiple_of": 4}], "strides": null, "align": 16, "written": false,
            })
        );
        assert_eq!(d["arguments"][1]["written"], true);
        assert_eq!(
            d["grid"],
            json!({"persistent": false, "multiple_of": [1, 1, 1], "positions": [1, 1, 1], "max": [2147483647, 65535, 65535]})
        );
    }
}

#[test]
fn scalars_stand_where_the_text_has_them() {
    let source = "kernel @many(v0: i1, v1: f64, v2: i8, v3: f16, v4: i64, v5: bf16, v6: i16, v7: f32, v8: view<f64, [?]>) {
    v9 = program_id x
    v10 = cast v2 : i64
    v11 = cast v6 : i64
    v12 = add v10, v11
    v13 = add v12, v4
    v14 = cast v13 : f64
    v15 = cast v3 : f64
    v16 = cast v5 : f64
    v17 = cast v7 : f64
    v18 = add v14, v15
    v19 = add v18, v16
    v20 = add v19, v17
    v21 = select v0, v20, v1
    v22 = splat v21 : tile<32xf64>
    store v8[v9], v22
}
";
    let (d, kinds) = judged(&parsed(source), "sm_80");
    assert_eq!(kinds.iter().filter(|k| *k == "scalar").count(), 8);
    let types: Vec<&Value> = d["arguments"].as_array().expect("a list").iter().map(|a| &a["type"]).collect();
    assert_eq!(types, ["i1", "f64", "i8", "f16", "i64", "bf16", "i16", "f32", "f64"]);
}

#[test]
fn strides_of_half_views_are_in_elements() {
    let source = "kernel @rows(v0: view<f16, [?, 64], [?%8, 1], align 32>, v1: view<f16, [?, 64], [64, 1]>) {
    v2 = program_id x
    v3 = mul v2, 16
    v4 = load v0[v3, 0] : tile<16x64xf16>
    store v1[v3, 0], v4
}
";
    let (d, kinds) = judged(&parsed(source), "sm_80");
    assert!(kinds.contains(&"stride".to_owned()), "{kinds:?}");
    let first = &d["arguments"][0];
    assert_eq!(
        (&first["extents"], &first["strides"]),
        (&json!([{"multiple_of": 1}, {"fixed": 64}]), &json!([{"multiple_of": 8}, {"fixed": 1}]))
    );
    assert_eq!((&first["bits"], &first["align"]), (&json!(16), &json!(32)));
}

#[test]
fn specialised_products_say_their_maps_and_their_grid() {
    for (elem, tile) in [(Scalar::BF16, [128, 256, 64]), (Scalar::F16, [128, 128, 64]), (Scalar::F32, [128, 128, 32])] {
        let [m, n, k] = tile;
        let kernel = Gemm::new(elem).transposed(false, true).tile(m, n, k).for_shape(512, 512, 512).build().unwrap();
        let (d, kinds) = judged(&kernel, "sm_90a");
        assert!(kinds.iter().filter(|k| *k == "tensor_map").count() >= 2 && kinds.contains(&"grid".to_owned()), "{elem}: {kinds:?}");
        assert_eq!(d["grid"]["blocks_per_multiprocessor"], 1);
        assert!(number(&d["shared_bytes"]["opt_in"]) > 49152);
        let (pipelined, kinds) = judged(&kernel, "sm_80");
        assert!(!kinds.contains(&"tensor_map".to_owned()) && pipelined["grid"]["persistent"] == false, "{elem}: {kinds:?}");
    }
}

#[test]
fn persistent_kernels_of_authors_take_the_extents_of_the_grid() {
    let source = "kernel @walk(v0: view<f32, [?]>) {
    v1 = worker_id
    v2 = num_workers
    v3 = num_programs y
    for v4 in v1..v3 step v2 {
        v5 = splat 1.0 : tile<1xf32>
        store v0[v4], v5
        yield
    }
}
";
    let (a, d) = made(&parsed(source), "sm_90a");
    agrees_with_text(&a, &d);
    agrees_with_artifact(&a, &d);
    assert_eq!(d["grid"]["max_positions"], i32::MAX);
    let axes = a.params.iter().filter_map(|p| if let ParamSource::Grid(axis) = p.source { Some(axis) } else { None });
    assert!(axes.clone().any(|axis| axis == GridAxis::Y));
    let said: Vec<&Value> =
        d["parameters"].as_array().expect("a list").iter().filter(|p| p["kind"] == "grid").map(|p| &p["axis"]).collect();
    assert_eq!(said, axes.map(|axis| axis as u32).collect::<Vec<_>>());
}

#[test]
fn clusters_divide_the_grid() {
    let case = tilelift_kernels::explicit::cases().into_iter().find(|c| c.build().is_ok_and(|k| k.cluster > 1)).expect("a case");
    let kernel = case.build().unwrap();
    let (d, _) = judged(&kernel, "sm_90a");
    assert_eq!(d["cluster"], json!([kernel.cluster, 1, 1]));
    assert_eq!(d["grid"]["multiple_of"][0], kernel.cluster);
}

#[test]
fn names_are_quoted_and_documents_hold_every_kernel() {
    let source = "kernel @smem(v0: view<f32, [?]>) {
    v1 = splat 1.0 : tile<32xf32>
    store v0[0], v1
}
";
    let (mut a, d) = made(&parsed(source), "sm_80");
    assert_eq!((&d["kernel"], &d["entry"]), (&json!("smem"), &json!("k_smem")));
    let odd = "a \"b\" \\ \n\t\u{1}\u{7f} \u{2028} é 中 {}[]";
    a.name = odd.to_owned();
    a.entry = odd.to_owned();
    assert_eq!((&read(&a)["kernel"], &read(&a)["entry"]), (&json!(odd), &json!(odd)));
    let both = document(&[describe(&a), describe(&a)]);
    let both: Value = serde_json::from_str(&both).unwrap();
    assert_eq!(both["kernels"].as_array().map(Vec::len), Some(2));
    // A kernel without parameters has lists, too.
    a.params.clear();
    a.arguments.clear();
    let none = read(&a);
    assert_eq!((&none["parameters"], &none["arguments"], &none["parameter_bytes"]), (&json!([]), &json!([]), &json!(0)));
}

#[test]
fn the_command_writes_the_kernels_of_a_file() {
    let source = "kernel @one(v0: view<f32, [?]>) {
    v1 = splat 1.0 : tile<32xf32>
    store v0[0], v1
}

kernel @two(v0: view<f32, [?]>, v1: f32) {
    v2 = splat v1 : tile<32xf32>
    store v0[0], v2
}
";
    let folder = std::env::temp_dir().join(format!("tilelift-descriptor-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let [file, output] = ["two.tile", "two.json"].map(|name| folder.join(name).to_string_lossy().into_owned());
    std::fs::write(&file, source).unwrap();
    let tool = |more: &[&str]| {
        let args = ["compile", &file, "--emit", "launch"].iter().chain(more).map(Into::into).collect();
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let status = crate::cli::run(args, &mut out, &mut err);
        (status, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    };
    let names = |text: &str| -> Vec<String> {
        let value: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
        value["kernels"].as_array().unwrap().iter().map(|k| k["entry"].as_str().unwrap().to_owned()).collect()
    };
    let (status, out, err) = tool(&[]);
    assert_eq!((status, names(&out)), (crate::cli::Status::Done, vec!["one".to_owned(), "two".to_owned()]), "{err}");
    assert_eq!(names(&tool(&["--kernel", "two", "--target", "sm_90a"]).1), ["two"]);
    assert_eq!(tool(&["-o", &output]).1, "");
    assert_eq!(std::fs::read_to_string(&output).unwrap(), out);
    let (status, out, err) = tool(&["--target", "gfx942"]);
    assert_eq!((status, names(&out)), (crate::cli::Status::Done, vec!["one".to_owned(), "two".to_owned()]), "{err}");
    assert!(out.contains("\"target\": \"gfx942\"") && out.contains("\"dynamic\": 0"), "{out}");
    std::fs::remove_dir_all(&folder).unwrap();
}
