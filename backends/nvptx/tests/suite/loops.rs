//! Loops of plain programs, whatever stands around them and wherever their indices come from: each is specialised on sm_90a, proved, and the assembler
//! takes it without a word.

use tilelift_ir::Kernel;
use tilelift_ir::verify::verify;
use tilelift_isel::reason::{NoProduct, NotSpecialised};
use tilelift_isel::{LowerOptions, Schedule, exposure, lower};
use tilelift_nvptx::{EmitOptions, emit, sm_90a};

/// Why a kernel's loop is not specialised; nothing if it is.
fn refused(name: &str) -> Option<NotSpecialised> {
    refused_as(name, &LowerOptions::default())
}

fn refused_as(name: &str, options: &LowerOptions) -> Option<NotSpecialised> {
    let (path, kernels) = kernels(name);
    refused_kernel(&path, &kernels[0], options)
}

/// The kernels of a file, and where it is.
fn kernels(name: &str) -> (String, Vec<Kernel>) {
    let path = format!("{}/../../tests/tile/loops/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let file = tilelift_ir::text::parse(&text).unwrap_or_else(|e| panic!("{path}: {e:?}"));
    (path, file.kernels)
}

fn refused_kernel(path: &str, kernel: &Kernel, options: &LowerOptions) -> Option<NotSpecialised> {
    let kernel = verify(kernel).unwrap_or_else(|e| panic!("{path}: {e:?}"));
    let l = lower(&kernel, &sm_90a(), options).unwrap_or_else(|e| panic!("{path}: {e}"));
    let text = emit(&l.program, &sm_90a(), &EmitOptions::default()).unwrap_or_else(|e| panic!("{path}: {e}"));
    assert!(l.written.is_some_and(|w| w.is_ok()), "{path}: copies run ahead");
    match l.plan.schedule {
        Schedule::Specialised(_) => {
            assert!(text.text.contains("wgmma.mma_async") && text.text.contains("cp.async.bulk.tensor"), "{path}");
            None
        }
        Schedule::Pipelined { why } => Some(*why),
        Schedule::Explicit(_) => panic!("{path}"),
    }
}

#[test]
fn every_loop_is_specialised() {
    let folder = format!("{}/../../tests/tile/loops", env!("CARGO_MANIFEST_DIR"));
    let mut names: Vec<String> =
        std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    assert!(names.len() >= 11, "{names:?}");
    for name in names {
        match refused(&name) {
            None => {}
            // Sixteen rows are too few for a warpgroup.
            Some(NotSpecialised::Product(NoProduct::Shape { shape: [16, ..], .. })) if name == "carried_index.tile" => {}
            Some(why) => panic!("{name}: {why}"),
        }
    }
}

/// However a loop on a condition says how far it goes.
#[test]
fn loops_on_a_condition_are_specialised_in_every_form() {
    for (name, count) in [("whiles_that_count.tile", 11), ("whiles_that_count_down.tile", 7), ("rounds_counted_ahead.tile", 2)] {
        let (path, kernels) = kernels(name);
        assert_eq!(kernels.len(), count, "{name}");
        for kernel in &kernels {
            let why = refused_kernel(&path, kernel, &LowerOptions::default()).map(|why| why.to_string());
            assert_eq!(why, None, "{name}: {}", kernel.name);
        }
    }
}

/// What is said of the loops of a kernel whose body this is.
fn told(body: &str) -> String {
    let text = format!(
        "kernel @k(%a: view<bf16, [?, ?%8]>, %b: view<bf16, [?, ?%8]>, %list: view<i32, [?]>, %from: i32, %c: view<f32, [?, ?%4]>) warps=4 stages=3 {{
%kd = dim %a, 1
%z = splat 0.0 : tile<64x64xf32>
{body}
store %c[0, 0], %sum
}}"
    );
    let file = tilelift_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let kernel = verify(&file.kernels[0]).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    let found = exposure(&kernel, &sm_90a(), &LowerOptions::default()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    found.loops.iter().fold(found.outline.to_string(), |all, l| format!("{all}\n{l}"))
}

const PRODUCT: &str =
    "%ta = load %a[0, %k] : tile<64x32xbf16>\n%tb = load %b[0, %k] : tile<64x32xbf16>\n%u = transpose %tb, [1, 0]\n%d = dot %ta, %u, %x";

#[test]
fn loops_on_a_condition_say_why_they_are_not_counted() {
    let told = told(&format!(
        "%e, %sum = while carry %i = 0, %s = %z {{
             %m = reduce maximum %s, axis 1
             %n = reduce maximum %m, axis 0
             %go = cmp lt %n, 100.0
             yield %go
         }} do carry %k, %x {{
             {PRODUCT}
             %next = add %k, 32
             yield %next, %d
         }}"
    ));
    let why = "not specialised: how often `while` at 4:1 goes round is not known where it begins: its condition compares no carried number with one that stays the same";
    assert!(told.contains(why), "{told}");
}

#[test]
fn an_index_is_not_taken_for_strides() {
    let told = told(&format!("%sum = for %k in %from..%kd step 32 carry %x = %z {{\n{PRODUCT}\nyield %d\n}}"));
    assert!(
        told.contains("`load` of %a at 5:1 waits: lanes copy whole pieces of rows: index 1 of %a, %k, is not known to be a multiple of 8"),
        "{told}"
    );
}

#[test]
fn what_asks_for_a_choice_is_told_where_its_author_wrote_it() {
    let told = told(&format!(
        "%sum = for %k in 0..%kd step 32 carry %x = %z {{
             %kb = div %k, 32
             %f = load %list[%kb]
             %on = cmp ne %f, 0
             %y = if %on {{
                 {PRODUCT}
                 yield %d
             }} else {{
                 yield %x
             }}
             yield %y
         }}"
    ));
    assert!(told.starts_with("specialised") && told.contains("`load` of %list at 6:14 waits: a loop in this one is specialised"), "{told}");
    assert!(told.contains("`if` at 8:14: 2 loads and 1 dots, none of which waits that need not"), "{told}");
}

/// With two slots this step's is given back before it is waited for; a ring in which it is not waits for ever, and has no proof.
#[test]
fn operands_are_converted_ahead_through_any_ring() {
    for stages in [2, 3, 8] {
        let options = LowerOptions { stages: Some(stages), ..LowerOptions::default() };
        assert_eq!(refused_as("converted_ahead.tile", &options).map(|why| why.to_string()), None, "{stages}");
    }
}

/// Loads of a file's first loop that wait where they are used.
fn waiting(name: &str, options: &LowerOptions) -> usize {
    let (path, kernels) = kernels(name);
    let kernel = verify(&kernels[0]).unwrap_or_else(|e| panic!("{path}: {e:?}"));
    exposure(&kernel, &sm_90a(), options).unwrap_or_else(|e| panic!("{path}: {e}")).loops[0].waiting.len()
}

#[test]
fn what_scales_two_products_is_loaded_a_step_ahead() {
    assert_eq!(waiting("../memory/two_scales_ahead.tile", &LowerOptions::default()), 0);
}

/// Rows of 40 bytes a lane and view: enough for a multiprocessor that runs several programs, too little for one that runs one.
#[test]
fn few_programs_load_more_steps_ahead() {
    let of = |programs| waiting("../reduce/rows_of_5120.tile", &LowerOptions { stages: Some(3), programs, ..LowerOptions::default() });
    assert_eq!([None, Some(2048), Some(128)].map(of), [2, 2, 0]);
}
