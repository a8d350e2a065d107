//! Each call of a whole life fails in turn: the error names it, and nothing is left alive.

use crate::mock::{Live, Mock};
use crate::subject::{BYTES, args, persistent_artifact};
use std::collections::BTreeSet;
use tilelift::interp::{Buffer, Memory};
use tilelift::runtime::hip::HipError;

/// hipErrorOutOfMemory, which the mock describes.
const CODE: i32 = 2;

/// Calls of destructors, which report nothing.
const UNREPORTED: [&str; 4] = ["hipFree", "hipStreamDestroy", "hipEventDestroy", "hipModuleUnload"];

/// Uses everything that there is, on a device that is not the thread's own.
fn life(mock: &Mock) -> Result<(), HipError> {
    let device = mock.try_open()?.device(1)?;
    device.facts()?;
    let mut buffer = device.alloc(BYTES)?;
    buffer.upload(&[1; BYTES])?;
    buffer.fill(3)?;
    let stream = device.stream()?;
    let kernel = device.load(&persistent_artifact())?;
    let binding = kernel.bind([4, 1, 1], &args(), &[&buffer])?;
    // SAFETY: the buffer outlives the launches and the copy, whose ranges lie in it.
    unsafe {
        binding.launch(&stream)?;
        binding.time(2, &stream)?;
        stream.copy(buffer.address() + 512, buffer.address(), 512)?;
    }
    stream.synchronize()?;
    buffer.download(&mut [0; BYTES])?;
    let mut memory = Memory::new();
    memory.add(Buffer::from_bytes(vec![1; BYTES]));
    device.execute(&kernel, [4, 1, 1], &args(), &mut memory)
}

/// A life from the start, with the thread on its own device.
fn afresh(mock: &Mock) -> Result<(), HipError> {
    mock.host_sets_device(0);
    mock.forget();
    life(mock)
}

fn failed(call: &'static str) -> HipError {
    HipError::Call { call, code: CODE, name: "hipErrorOutOfMemory".into(), text: "out of memory".into() }
}

#[test]
fn each_call_that_fails_is_named_and_leaves_nothing_alive() {
    let Some(mock) = Mock::new() else { return };
    assert_eq!(afresh(&mock), Ok(()));
    let calls = mock.names();
    assert_eq!((mock.live(), mock.current_device()), (Live::NOTHING, 0));
    for (index, call) in calls.iter().enumerate() {
        mock.fail_call(usize::MAX, CODE);
        mock.host_sets_device(0);
        mock.forget();
        mock.fail_call(index, CODE);
        match life(&mock) {
            Ok(()) => assert!(UNREPORTED.contains(&&**call), "call {index}, {call}, fails and nobody is told"),
            Err(HipError::Call { call: named, code, name, text }) => {
                assert_eq!((named, code, &*name, &*text), (&**call, CODE, "hipErrorOutOfMemory", "out of memory"), "call {index}");
            }
            Err(e) => panic!("call {index}, {call}: {e}"),
        }
        assert_eq!(mock.live(), Live::NOTHING, "call {index}, {call}");
    }
    // The life above leaves out no function but the older form of the properties.
    let used: BTreeSet<&str> = calls.iter().map(String::as_str).collect();
    assert_eq!(used.len(), 29, "{used:?}");
}

#[test]
fn functions_that_never_work_are_named() {
    let Some(mock) = Mock::new() else { return };
    for call in
        ["hipInit", "hipGetDeviceCount", "hipModuleLoadData", "hipModuleLaunchKernel", "hipStreamSynchronize", "hipEventElapsedTime"]
    {
        mock.fail_function(call, CODE);
        assert_eq!(afresh(&mock), Err(failed(call)));
        assert_eq!(mock.live(), Live::NOTHING, "{call}");
    }
    mock.fail_function("", 0);
    assert_eq!(afresh(&mock), Ok(()));
}

#[test]
fn errors_say_what_failed() {
    assert_eq!(failed("hipMalloc").to_string(), "hipMalloc failed with hipErrorOutOfMemory (2): out of memory");
}
