//! What is loaded, and what is not.

use crate::mock::{Live, Mock};
use crate::subject::{BYTES, args, artifact, compiled, object};
use tilelift::Artifact;
use tilelift::launch::ParamSource;
use tilelift::runtime::hip::{HipError, ObjectFault};

/// The artifact with a change.
fn with(change: impl FnOnce(&mut Artifact)) -> Artifact {
    let mut changed = artifact();
    change(&mut changed);
    changed
}

/// Loads an artifact on the mock's device; what of it was called.
fn load(mock: &Mock, artifact: &Artifact) -> (Result<(u32, u32), HipError>, Vec<String>) {
    let device = mock.open().device(0).unwrap_or_else(|e| panic!("{e}"));
    mock.forget();
    let loaded = device.load(artifact).map(|k| (k.registers(), k.local_bytes()));
    (loaded, mock.names())
}

#[test]
fn a_code_object_of_the_chip_is_loaded() {
    let Some(mock) = Mock::new() else { return };
    let (loaded, calls) = load(&mock, &artifact());
    assert_eq!(loaded, Ok((96, 16)));
    let expected =
        ["hipGetDevice", "hipModuleLoadData", "hipModuleGetFunction", "hipFuncGetAttribute", "hipFuncGetAttribute", "hipModuleUnload"];
    assert_eq!(calls, expected);
    assert_eq!(mock.live(), Live::NOTHING);
}

#[test]
fn what_is_compiled_is_loaded_and_its_arguments_stand_where_the_code_reads_them() {
    let Some(mock) = Mock::new() else { return };
    let device = mock.open().device(0).unwrap_or_else(|e| panic!("{e}"));
    let target = device.target_name().expect("the mock's device has a target");
    let artifact = compiled(target);
    let kernel = device.load(&artifact).unwrap_or_else(|e| panic!("{e}"));
    let buffer = device.alloc(BYTES).unwrap_or_else(|e| panic!("{e}"));
    let binding = kernel.bind([4, 1, 1], &args(), &[&buffer]).unwrap_or_else(|e| panic!("{e}"));
    // The metadata of the code object has offset and size of each argument.
    let numbers = |key: &str| -> Vec<usize> {
        let found = artifact.text.match_indices(key).map(|(at, _)| &artifact.text[at + key.len()..]);
        found.map(|rest| rest.trim_start().split(|c: char| !c.is_ascii_digit()).next().unwrap_or("").parse().expect("a number")).collect()
    };
    let (offsets, sizes) = (numbers(".offset:"), numbers(".size:"));
    assert_eq!((offsets.len(), sizes.len()), (artifact.params.len(), artifact.params.len()));
    let ends: Vec<usize> = offsets.iter().zip(&sizes).map(|(o, s)| o + s).collect();
    assert_eq!(binding.arguments().len(), ends[ends.len() - 1]);
    let pointer = artifact.params.iter().position(|p| matches!(p.source, ParamSource::Pointer(_))).expect("a pointer");
    assert_eq!(binding.arguments()[offsets[pointer]..ends[pointer]], buffer.address().to_le_bytes());
    let factor = artifact.params.iter().position(|p| matches!(p.source, ParamSource::Scalar(_))).expect("a scalar");
    assert_eq!(binding.arguments()[offsets[factor]..ends[factor]], 2.0f32.to_le_bytes());
}

#[test]
fn what_can_not_run_never_reaches_the_library() {
    let Some(mock) = Mock::new() else { return };
    let refused = |artifact: Artifact| match load(&mock, &artifact) {
        (Err(e), calls) if calls.is_empty() => e,
        (loaded, calls) => panic!("{loaded:?} after {calls:?}"),
    };
    let other = HipError::Target { artifact: "sm_80".into(), arch: "gfx942".into() };
    assert_eq!(refused(with(|a| a.target = "sm_80".into())), other);
    assert_eq!(refused(with(|a| a.object = Vec::new())), HipError::Object(ObjectFault::Empty));
    assert_eq!(refused(with(|a| a.object = b"no code object".to_vec())), HipError::Object(ObjectFault::Format));
    let cut = object(0x4c)[..127].to_vec();
    assert_eq!(refused(with(|a| a.object = cut)), HipError::Object(ObjectFault::Truncated));
    assert_eq!(refused(with(|a| a.object = object(0x3f))), HipError::Object(ObjectFault::Chip { machine: 0x3f }));
    assert_eq!(refused(with(|a| a.shared_bytes = 65537)), HipError::SharedMemory { need: 65537, have: 65536 });
    assert_eq!(refused(with(|a| a.entry = "a\0b".into())), HipError::ZeroByte);
}

#[test]
fn an_artifact_of_another_chip_is_refused() {
    let Some(mock) = Mock::new() else { return };
    mock.set_arch("gfx90a:sramecc+:xnack-");
    let wrong = HipError::Target { artifact: "gfx942".into(), arch: "gfx90a".into() };
    assert_eq!(load(&mock, &artifact()).0, Err(wrong));
    let right = with(|a| (a.target, a.object) = ("gfx90a".into(), object(0x3f)));
    assert_eq!(load(&mock, &right).0, Ok((96, 16)));
}

#[test]
fn a_module_without_the_entry_is_unloaded() {
    let Some(mock) = Mock::new() else { return };
    let (loaded, _) = load(&mock, &with(|a| a.entry = "absent".into()));
    // The mock has no name and no description of this error.
    let failed = HipError::Call { call: "hipModuleGetFunction", code: 500, name: "error 500".into(), text: "no description".into() };
    assert_eq!(loaded, Err(failed));
    assert_eq!(mock.live(), Live::NOTHING);
}
