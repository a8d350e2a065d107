//! The life of a device and of what is made on it.

use crate::mock::{Live, Mock};
use crate::subject::{BYTES, args, artifact};
use std::sync::Arc;
use tilelift::interp::{Buffer, Memory};
use tilelift::runtime::hip::{Binding, Facts, HipBuffer, HipDevice, HipError, HipKernel, HipStream};

#[test]
fn a_device_tells_what_it_is() {
    let Some(mock) = Mock::new() else { return };
    let library = mock.open();
    assert_eq!(library.count(), Ok(2));
    let device = library.device(1).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((device.name(), device.ordinal()), ("Mock accelerator 1", 1));
    assert_eq!((device.arch(), device.arch_with_features()), ("gfx942", "gfx942:sramecc+:xnack-"));
    assert_eq!((device.target_name(), device.shared_per_block()), (Some("gfx942"), 65536));
    let facts = Facts { driver: 60_342_134, compute_units: 304, lanes: 64, memory: 192 << 30, l2: 4 << 20, clock_khz: 2_100_000 };
    assert_eq!(device.facts(), Ok(facts));
    mock.host_sets_device(1);
    assert_eq!(library.current_device().map(|d| d.ordinal()), Ok(1));
}

#[test]
fn everything_that_is_made_is_given_back() {
    let Some(mock) = Mock::new() else { return };
    let device = mock.open().device(0).unwrap_or_else(|e| panic!("{e}"));
    mock.forget();
    let made = || -> Result<Live, HipError> {
        let mut buffer = device.alloc(BYTES)?;
        let stream = device.stream()?;
        let kernel = device.load(&artifact())?;
        let bytes: Vec<u8> = (0..BYTES).map(|i| i as u8).collect();
        buffer.upload(&bytes)?;
        let binding = kernel.bind([4, 1, 1], &args(), &[&buffer])?;
        // SAFETY: the buffer lives until the stream is synchronised.
        unsafe { binding.launch(&stream) }?;
        stream.synchronize()?;
        // A binding keeps its module.
        drop(kernel);
        // SAFETY: as above.
        let seconds = unsafe { binding.time(3, &stream) }?;
        assert!((seconds - 1e-3).abs() < 1e-9, "a launch takes a millisecond in the mock: {seconds}");
        let mut back = vec![0; BYTES];
        buffer.download(&mut back)?;
        assert_eq!((back[0], &back[1..]), (0x5a, &bytes[1..]), "a launch sets the first byte in the mock");
        buffer.fill(7)?;
        buffer.download(&mut back)?;
        assert!(back.iter().all(|&b| b == 7));
        Ok(mock.live())
    };
    assert_eq!(made(), Ok(Live { memory: 1, modules: 1, streams: 1, events: 0 }));
    assert_eq!(mock.live(), Live::NOTHING);
    let made_and_gone = ["hipMalloc", "hipStreamCreateWithFlags", "hipModuleLoadData", "hipFree", "hipStreamDestroy", "hipModuleUnload"];
    let count = |name: &str| mock.names().iter().filter(|n| *n == name).count();
    assert_eq!(made_and_gone.map(count), [1; 6]);
    assert_eq!((count("hipEventCreateWithFlags"), count("hipEventDestroy"), count("hipModuleLaunchKernel")), (2, 2, 4));
}

#[test]
fn memory_of_the_host_goes_there_and_back() {
    let Some(mock) = Mock::new() else { return };
    let device = mock.open().device(0).unwrap_or_else(|e| panic!("{e}"));
    let kernel = device.load(&artifact()).unwrap_or_else(|e| panic!("{e}"));
    let mut memory = Memory::new();
    memory.add(Buffer::from_bytes(vec![1; BYTES]));
    assert_eq!(device.execute(&kernel, [4, 1, 1], &args(), &mut memory), Ok(()));
    assert_eq!(memory.buffers[0].bytes()[..2], [0x5a, 1]);
    let seconds = device.execute_timed(&kernel, [4, 1, 1], &args(), &mut memory, 2, 5).unwrap_or_else(|e| panic!("{e}"));
    assert!((seconds - 1e-3).abs() < 1e-9, "{seconds}");
    drop(kernel);
    assert_eq!(mock.live(), Live::NOTHING);
}

#[test]
fn what_the_host_lends_is_never_freed() {
    let Some(mock) = Mock::new() else { return };
    let device = mock.open().device(0).unwrap_or_else(|e| panic!("{e}"));
    let (own, stream) = (device.alloc(BYTES).unwrap_or_else(|e| panic!("{e}")), device.stream().unwrap_or_else(|e| panic!("{e}")));
    {
        // SAFETY: both outlive what borrows them.
        let (lent, lent_stream) = unsafe { (device.borrow_memory(own.address(), BYTES), device.borrow_stream(stream.handle())) };
        assert_eq!((lent.address(), lent.len(), lent.is_empty()), (own.address(), BYTES, false));
        assert_eq!(lent_stream.handle(), stream.handle());
        let kernel = device.load(&artifact()).unwrap_or_else(|e| panic!("{e}"));
        let binding = kernel.bind([1, 1, 1], &args(), &[&lent]).unwrap_or_else(|e| panic!("{e}"));
        // SAFETY: the buffer outlives the launch.
        assert_eq!(unsafe { binding.launch(&lent_stream) }, Ok(()));
        // SAFETY: both ranges lie in the buffer.
        assert_eq!(unsafe { lent_stream.copy(own.address() + 1024, own.address(), 512) }, Ok(()));
        assert_eq!(lent_stream.synchronize(), Ok(()));
    }
    assert_eq!(mock.live(), Live { memory: 1, streams: 1, ..Live::NOTHING });
    drop((own, stream));
    assert_eq!(mock.live(), Live::NOTHING);
}

#[test]
fn the_thread_keeps_its_device() {
    let Some(mock) = Mock::new() else { return };
    let device = mock.open().device(1).unwrap_or_else(|e| panic!("{e}"));
    mock.host_sets_device(0);
    mock.forget();
    let buffer = device.alloc(64).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(mock.calls(), ["hipGetDevice", "hipSetDevice 1", "hipMalloc 64 device=1", "hipSetDevice 0"]);
    assert_eq!(mock.current_device(), 0);
    assert_eq!(device.with_device(|| Ok(mock.current_device())), Ok(1));
    assert_eq!(mock.current_device(), 0);
    // A failure restores it, too.
    mock.fail_function("hipMalloc", 2);
    assert!(device.alloc(64).is_err());
    assert_eq!(mock.current_device(), 0);
    drop(buffer);
    assert_eq!(mock.live(), Live::NOTHING);
}

#[test]
fn empty_buffers_and_wrong_lengths() {
    let Some(mock) = Mock::new() else { return };
    let device = mock.open().device(0).unwrap_or_else(|e| panic!("{e}"));
    let mut empty = device.alloc(0).unwrap_or_else(|e| panic!("{e}"));
    assert!(empty.is_empty() && empty.address() != 0);
    assert_eq!((empty.fill(1), empty.upload(&[])), (Ok(()), Ok(())));
    assert_eq!(empty.upload(&[1]), Err(HipError::Length { device: 0, host: 1 }));
    let mut buffer = device.alloc(8).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(buffer.upload(&[0; 9]), Err(HipError::Length { device: 8, host: 9 }));
    assert_eq!(buffer.download(&mut [0; 9]), Err(HipError::Length { device: 8, host: 9 }));
}

#[test]
fn everything_may_go_to_other_threads() {
    fn goes<T: Send + Sync>() {}
    goes::<HipDevice>();
    goes::<HipBuffer>();
    goes::<HipStream>();
    goes::<HipKernel>();
    goes::<Arc<Binding>>();
    goes::<HipError>();
}
