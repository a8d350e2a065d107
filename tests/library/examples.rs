//! Every program of `examples/` runs to its end; each checks its own results and fails if they are wrong.

#[path = "../../examples/compile_text.rs"]
mod compile_text;
#[path = "../../examples/decoder/main.rs"]
mod decoder;
#[path = "../../examples/find_a_race.rs"]
mod find_a_race;
#[path = "../../examples/fuse_graph.rs"]
mod fuse_graph;
#[path = "../../examples/gemm_epilogue.rs"]
mod gemm_epilogue;
#[cfg(feature = "cuda")]
#[path = "../../examples/own_stream.rs"]
mod own_stream;
#[path = "../../examples/plan_product.rs"]
mod plan_product;
#[path = "../../examples/softmax.rs"]
mod softmax;
#[path = "../../examples/vector_add.rs"]
mod vector_add;
#[path = "../../examples/warm_up_and_cache.rs"]
mod warm_up_and_cache;

use std::error::Error;

type Main = fn() -> Result<(), Box<dyn Error>>;

const EXAMPLES: &[(&str, Main)] = &[
    ("compile_text", compile_text::main),
    ("decoder", || decoder::run(&["--sim".to_owned()])),
    ("find_a_race", find_a_race::main),
    ("fuse_graph", fuse_graph::main),
    ("gemm_epilogue", gemm_epilogue::main),
    // On a GPU if that is asked for.
    #[cfg(feature = "cuda")]
    ("own_stream", || own_stream::run(std::env::var_os("TILELIFT_CUDA").is_some_and(|v| v == "1"))),
    ("plan_product", plan_product::main),
    ("softmax", softmax::main),
    ("vector_add", vector_add::main),
    ("warm_up_and_cache", warm_up_and_cache::main),
];

#[test]
fn every_example_runs() {
    for (name, main) in EXAMPLES {
        main().unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

#[test]
fn no_example_is_left_out() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let files = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut names: Vec<String> = files.filter_map(|f| Some(f.ok()?.path().file_stem()?.to_string_lossy().into_owned())).collect();
    names.sort_unstable();
    assert_eq!(names, EXAMPLES.iter().map(|e| e.0).collect::<Vec<_>>());
}
