//! Loops of plain programs, whatever stands around them and wherever their indices come from: each is specialised on sm_90a, proved, and the assembler
//! takes it without a word.

use tilelift_ir::verify::verify;
use tilelift_isel::reason::{NoProduct, NotSpecialised};
use tilelift_isel::{LowerOptions, Schedule, lower};
use tilelift_nvptx::{EmitOptions, emit, sm_90a};

/// Why a kernel's loop is not specialised; nothing if it is.
fn refused(name: &str) -> Option<NotSpecialised> {
    refused_as(name, &LowerOptions::default())
}

fn refused_as(name: &str, options: &LowerOptions) -> Option<NotSpecialised> {
    let path = format!("{}/../../tests/tile/loops/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let file = tilelift_ir::text::parse(&text).unwrap_or_else(|e| panic!("{path}: {e:?}"));
    let kernel = verify(&file.kernels[0]).unwrap_or_else(|e| panic!("{path}: {e:?}"));
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

/// With two slots this step's is given back before it is waited for; a ring in which it is not waits for ever, and has no proof.
#[test]
fn operands_are_converted_ahead_through_any_ring() {
    for stages in [2, 3, 8] {
        let options = LowerOptions { stages: Some(stages), ..LowerOptions::default() };
        assert_eq!(refused_as("converted_ahead.tile", &options).map(|why| why.to_string()), None, "{stages}");
    }
}
