//! Scratch memory on gfx90a: kernels make its address themselves, and each way to do that wrong is found.

use crate::common::{Buf, Needs, assemble, kernel, launch, required, u32s};
use std::process::Command;
use tilelift_amdgcn_sim::{Chip, Fault, FaultKind, LaunchError, SimConfig, Use};

/// Each item's number through scratch memory and back; `s8` is zero.
const THROUGH: &str = "
    s_add_u32 flat_scratch_lo, s2, s7
    s_addc_u32 flat_scratch_hi, s3, 0
    s_load_dwordx2 s[10:11], s[0:1], 0x0
    s_lshl_b32 s9, s4, 7
    v_and_b32 v0, 0x3ff, v0
    v_add_u32 v0, s9, v0
    v_lshlrev_b32 v1, 2, v0
    s_mov_b32 s8, 0
    v_mov_b32 v2, 4
    scratch_store_dword off, v0, s8 offset:8
    scratch_store_dword v2, v1, off
    scratch_load_dword v3, v2, off offset:4
    s_waitcnt vmcnt(0) lgkmcnt(0)
    global_store_dword v1, v3, s[10:11]
";

const NEEDS: Needs = Needs { chip: Chip::Gfx90a, lds: 0, scratch: 16, vgprs: 8, accum: 8, args: 8 };

/// Two workgroups of two waves.
fn run(text: &str) -> Option<Result<Vec<u32>, Box<Fault>>> {
    let object = assemble(text, Chip::Gfx90a)?;
    Some(launch(&object, 2, 128, vec![Buf::Out(1024)], SimConfig::default()).map(|(b, _)| u32s(&b[0])))
}

/// The fault of the kernel with a part of its text changed, and the instruction that it names.
fn changed(from: &str, to: &str) -> Option<(FaultKind, String)> {
    assert!(THROUGH.contains(from));
    named(run(&kernel(&THROUGH.replacen(from, to, 1), NEEDS))?)
}

fn named(result: Result<Vec<u32>, Box<Fault>>) -> Option<(FaultKind, String)> {
    let fault = result.expect_err("a fault");
    Some((fault.kind, fault.site.map_or(String::new(), |s| s.text)))
}

/// An access without an address, and a carry of nothing.
const NONE: FaultKind = FaultKind::Undefined { used_as: Use::FlatScratch, lane: None };
const NO_CARRY: FaultKind = FaultKind::Undefined { used_as: Use::Condition, lane: None };

#[test]
fn waves_have_scratch_memory_of_their_own() {
    let Some(got) = run(&kernel(THROUGH, NEEDS)) else { return };
    assert_eq!(got.unwrap_or_else(|f| panic!("{f}")), (0..256).collect::<Vec<u32>>());
}

const LOW: &str = "    s_add_u32 flat_scratch_lo, s2, s7\n";
const HIGH: &str = "    s_addc_u32 flat_scratch_hi, s3, 0\n";

#[test]
fn what_is_left_out_is_found() {
    // The set-up comes behind the first access.
    let late =
        THROUGH.replace(&[LOW, HIGH].concat(), "").replace("    scratch_store_dword v2", &format!("{LOW}{HIGH}    scratch_store_dword v2"));
    let cases = [
        (THROUGH.replace(LOW, ""), NO_CARRY, "s_addc_u32 "),
        (THROUGH.replace(HIGH, ""), NONE, "scratch_store_dword "),
        (THROUGH.replace(&[LOW, HIGH].concat(), ""), NONE, "scratch_store_dword "),
        (late, NONE, "scratch_store_dword "),
    ];
    for (text, kind, name) in cases {
        let Some((found, at)) = run(&kernel(&text, NEEDS)).and_then(named) else { return };
        assert!(found == kind && at.starts_with(name), "{at}: {found}");
    }
}

#[test]
fn wrong_sums_are_found() {
    let wrong = [
        // The upper half first: its carry is of nothing.
        ([LOW, HIGH].concat(), format!("    s_cmp_lg_u32 s7, s7\n{HIGH}{LOW}")),
        // No carry.
        (HIGH.to_owned(), "    s_mov_b32 flat_scratch_hi, s3\n".to_owned()),
        // All waves at one place, and at a number of the workgroup.
        ([LOW, HIGH].concat(), "    s_mov_b64 flat_scratch, s[2:3]\n".to_owned()),
        ("s2, s7".to_owned(), "s2, s6".to_owned()),
        // The address of the arguments.
        ("s2, s7".to_owned(), "s0, s7".to_owned()),
    ];
    for (from, to) in wrong {
        let Some((found, at)) = changed(&from, &to) else { return };
        assert!(matches!(found, FaultKind::ScratchAddress { .. }) && at.starts_with("scratch_store_dword "), "{at}: {found}");
    }
}

/// A descriptor that does not ask for scratch memory, and one that does not ask for its address.
#[test]
fn descriptors_ask_for_it() {
    let text = kernel(THROUGH, NEEDS);
    let unasked = text.replace("private_segment_wavefront_offset 1", "private_segment_wavefront_offset 0");
    assert_ne!(unasked, text);
    // There are no bytes of the wave's to add then.
    let Some((found, at)) = run(&unasked).and_then(named) else { return };
    assert!(found == NO_CARRY && at.starts_with("s_addc_u32 "), "{at}: {found}");
    let other = text.replace("flat_scratch_init 1", "dispatch_id 1");
    let Some((found, at)) = run(&other).and_then(named) else { panic!("a fault") };
    assert!(matches!(found, FaultKind::ScratchAddress { .. }), "{at}: {found}");
    // Later chips have the address by themselves, if they are asked for it.
    let later = Needs { chip: Chip::Gfx942, ..NEEDS };
    let body = "v_mov_b32 v1, 0\nscratch_store_dword off, v1, off";
    for (asks, good) in [("1", true), ("0", false)] {
        let text = kernel(body, later).replace("enable_private_segment 1", &format!("enable_private_segment {asks}"));
        let Some(object) = assemble(&text, Chip::Gfx942) else { return };
        assert_eq!(launch(&object, 1, 64, vec![Buf::Out(8)], SimConfig::default()).is_ok(), good);
    }
}

/// A descriptor that counts fewer user registers than it asks for: the workgroup's numbers would lie in them.
#[test]
fn descriptors_count_what_they_ask_for() {
    let Some(object) = assemble(&kernel(THROUGH, NEEDS), Chip::Gfx90a) else { return };
    // Bytes of local data share, of scratch memory, of arguments.
    let begins: Vec<u8> = [0u32, NEEDS.scratch, NEEDS.args, 0].into_iter().flat_map(u32::to_le_bytes).collect();
    let descriptor = object.windows(begins.len()).position(|w| w == begins).expect("a descriptor");
    let at = descriptor + 52;
    assert_eq!(object[at] >> 1 & 31, 4);
    for (counted, good) in [(4, true), (3, false), (2, false), (0, false)] {
        let mut changed = object.clone();
        changed[at] = changed[at] & 0xc1 | counted << 1;
        let result = launch(&changed, 2, 128, vec![Buf::Out(1024)], SimConfig::default());
        let refused = LaunchError::UserRegisters { counted: counted.into(), asked: 4 };
        match result {
            Ok(_) => assert!(good, "{counted}"),
            Err(fault) => assert!(!good && fault.kind == FaultKind::BadLaunch(refused), "{counted}: {fault}"),
        }
    }
}

/// These chips fault at a negative offset beside a scalar register, whatever the sum.
#[test]
fn offsets_beside_scalars_are_not_negative() {
    let plain = "s8 offset:8";
    for (to, good) in [("s8 offset:0", true), ("s8 offset:-4", false)] {
        let text = THROUGH.replace("s_mov_b32 s8, 0", "s_mov_b32 s8, 8").replace(plain, to);
        let text = text.replace("offset:4\n", if good { "offset:4\n" } else { "offset:0\n" });
        match run(&kernel(&text, NEEDS)) {
            None => return,
            Some(Ok(numbers)) => assert!(good && numbers == (0..256).collect::<Vec<u32>>()),
            Some(Err(fault)) => assert!(!good && fault.kind == FaultKind::ScratchOffset { offset: -4 }, "{fault}"),
        }
    }
}

/// What LLVM makes of memory of a lane; `None` without the tool.
fn compiled(more: &[&str]) -> Option<String> {
    let text = "declare i32 @llvm.amdgcn.workitem.id.x()\ndeclare i32 @llvm.amdgcn.workgroup.id.x()\n\
        define amdgpu_kernel void @k(ptr addrspace(1) %o) #0 {\n%a = alloca [8 x i32], align 4, addrspace(5)\n\
        %id = call i32 @llvm.amdgcn.workitem.id.x()\n%wg = call i32 @llvm.amdgcn.workgroup.id.x()\n%m = and i32 %id, 7\n\
        %p = getelementptr i32, ptr addrspace(5) %a, i32 %m\nstore volatile i32 %id, ptr addrspace(5) %p\n%g = shl i32 %wg, 7\n\
        %v = load volatile i32, ptr addrspace(5) %p\n%x = add i32 %v, %g\n%q = getelementptr i32, ptr addrspace(1) %o, i32 %x\n\
        store i32 %x, ptr addrspace(1) %q\nret void\n}\n\
        attributes #0 = { \"amdgpu-flat-work-group-size\"=\"128,128\" \"uniform-work-group-size\"=\"true\" }\n";
    let path = std::env::temp_dir().join(format!("tilelift-scratch-{}-{}.ll", std::process::id(), more.len()));
    std::fs::write(&path, text).expect("a temporary file");
    let tool = std::env::var("TILELIFT_LLC").unwrap_or_else(|_| "llc-19".into());
    let out = Command::new(tool).args(["-mtriple=amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-o", "-"]).args(more).arg(&path).output();
    let _ = std::fs::remove_file(&path);
    let Ok(out) = out else {
        assert!(!required(), "TILELIFT_REQUIRE_ORACLES is set, and there is no llc-19 (set TILELIFT_LLC)");
        return None;
    };
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Some(String::from_utf8_lossy(&out.stdout).into_owned())
}

#[test]
fn code_of_llvm_sets_it_up() {
    let Some(made) = compiled(&["-mattr=+enable-flat-scratch"]) else { return };
    assert!(made.contains("flat_scratch_hi") && made.contains("scratch_load_dword"), "{made}");
    let Some(got) = run(&made) else { return };
    assert_eq!(got.unwrap_or_else(|f| panic!("{f}\n{made}")), (0..256).collect::<Vec<u32>>());
    let line = made.lines().find(|l| l.contains("flat_scratch_lo")).expect("the set-up");
    assert_eq!(run(&made.replace(line, "")).and_then(named).map(|f| f.0), Some(NO_CARRY));
}

/// Without being asked for that, it reaches memory of a lane by a buffer, which is not simulated: that is a fault, and no zeros are read.
#[test]
fn buffers_of_scratch_memory_are_undefined() {
    let Some(made) = compiled(&[]) else { return };
    assert!(made.contains("buffer_load_dword"), "{made}");
    assert!(matches!(run(&made).and_then(named), Some((FaultKind::Undefined { .. }, _))));
}
