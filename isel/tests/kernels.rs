//! Every kernel of the library, lowered for both vendors' tables and run in the lane interpreter against its reference.

#[path = "../../backends/nvptx/src/target.rs"]
#[allow(dead_code)]
mod nv;

use tilelift_amdgcn as amd;
use tilelift_ir::verify::verify;
use tilelift_isel::lane::{LaneOptions, interpret};
use tilelift_isel::{LayoutChoice, LowerOptions, Target, lower};
use tilelift_kernels::{Size, cases};

#[test]
fn small_cases_are_right_on_both_tables() {
    let filter = std::env::var("CASE").unwrap_or_default();
    let mut bad = 0;
    for target in [nv::sm_80(), amd::gfx942()] {
        for case in cases().iter().filter(|c| c.size == Size::Small && c.name.contains(&filter)) {
            let t0 = std::time::Instant::now();
            let r = run(case, &target);
            if let Err(e) = &r {
                bad += 1;
                println!("{} {}: {e}", target.name, case.name);
            }
            if std::env::var("VERBOSE").is_ok() {
                println!("{} {} {:?} {:?}", target.name, case.name, r.is_ok(), t0.elapsed());
            }
        }
    }
    assert_eq!(bad, 0);
}

#[test]
fn layouts_of_every_kernel_are_searched_and_fit() {
    let options = LowerOptions { layouts: LayoutChoice::Searched, ..LowerOptions::default() };
    let mut seen = std::collections::HashSet::new();
    let (mut all, mut other) = (0, 0);
    for target in [nv::sm_80(), amd::gfx942()] {
        for case in cases() {
            for l in case.launches(None).expect("a case builds") {
                if !seen.insert((target.name, tilelift_ir::text::print(&l.kernel))) {
                    continue;
                }
                let verified = verify(&l.kernel).expect("a case verifies");
                let Ok(plain) = lower(&verified, &target, &LowerOptions::default()) else { continue };
                let found = lower(&verified, &target, &options).expect("what lowers plainly lowers");
                assert!(found.fallback.is_none(), "{} {}: what was found does not fit: {:?}", target.name, case.name, found.fallback);
                // Where lanes bring all fragments, products of products are searched by default.
                assert!(!plain.searched || target.moves_by_lanes());
                // Where nothing is worth a change the plain assignment stays.
                assert!(found.searched || found.program == plain.program, "{} {}", target.name, case.name);
                all += 1;
                other += u32::from(found.searched);
                assert_eq!(found, lower(&verified, &target, &options).expect("it lowered before"), "{} {}", target.name, case.name);
            }
        }
    }
    assert!(other * 4 > all, "other layouts than the plain ones for {other} of {all} kernels");
}

fn run(case: &tilelift_kernels::Case, target: &Target) -> Result<(), String> {
    let tensors = case.make_tensors();
    let mut memory = case.memory(&tensors);
    for launch in case.launches(None).map_err(|e| e.to_string())? {
        let verified = verify(&launch.kernel).map_err(|e| e.to_string())?;
        let t0 = std::time::Instant::now();
        let lowered = lower(&verified, target, &LowerOptions::default()).map_err(|e| e.to_string())?;
        if std::env::var("VERBOSE").is_ok() {
            println!("   lower {:?}", t0.elapsed());
        }
        if std::env::var("DUMP").is_ok() {
            println!("{}", lowered.program);
        }
        interpret(&lowered.program, target, launch.grid, &launch.args, &mut memory, &LaneOptions::default()).map_err(|e| e.to_string())?;
    }
    let v = case.judge(&tensors, &memory, None).map_err(|e| e.to_string())?;
    if v.pass() { Ok(()) } else { Err(format!("{v:?}")) }
}
