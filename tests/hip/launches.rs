//! Launches: how many calls, and what goes with them.

use crate::mock::Mock;
use crate::subject::{BYTES, ELEMENTS, args, artifact, persistent_artifact};
use tilelift::interp::{ScalarArg, ViewArg};
use tilelift::ir::Scalar;
use tilelift::runtime::hip::{HipDevice, HipError};

fn device(mock: &Mock) -> HipDevice {
    mock.open().device(0).unwrap_or_else(|e| panic!("{e}"))
}

/// Bytes as the mock records them.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn a_launch_is_one_call_with_the_packed_arguments() {
    let Some(mock) = Mock::new() else { return };
    let device = device(&mock);
    let (buffer, stream) = (device.alloc(BYTES).unwrap_or_else(|e| panic!("{e}")), device.stream().unwrap_or_else(|e| panic!("{e}")));
    let kernel = device.load(&artifact()).unwrap_or_else(|e| panic!("{e}"));
    let binding = kernel.bind([4, 3, 2], &args(), &[&buffer]).unwrap_or_else(|e| panic!("{e}"));
    let bytes = [&buffer.address().to_le_bytes()[..], &(ELEMENTS as u32).to_le_bytes(), &2.0f32.to_le_bytes()].concat();
    assert_eq!((binding.arguments(), binding.grid()), (&bytes[..], [4, 3, 2]));
    mock.forget();
    // The device of another thread's current device does not matter: the stream has its own.
    for _ in 0..2 {
        // SAFETY: the buffer outlives the launch.
        assert_eq!(unsafe { binding.launch(&stream) }, Ok(()));
    }
    let line = format!(
        "hipModuleLaunchKernel grid=4,3,2 block=256,1,1 shared=0 stream={:#x} device=0 arguments={}",
        stream.handle().addr(),
        hex(&bytes)
    );
    assert_eq!(mock.calls(), [line.clone(), line]);
}

#[test]
fn a_view_begins_where_its_offset_says() {
    let Some(mock) = Mock::new() else { return };
    let device = device(&mock);
    let buffers = [device.alloc(64).unwrap_or_else(|e| panic!("{e}")), device.alloc(BYTES).unwrap_or_else(|e| panic!("{e}"))];
    let kernel = device.load(&artifact()).unwrap_or_else(|e| panic!("{e}"));
    let args = [ViewArg::dense(1, Scalar::F32, &[5]).at(16).into(), ScalarArg::float(Scalar::F32, -1.0).into()];
    let binding = kernel.bind([1, 1, 1], &args, &[&buffers[0], &buffers[1]]).unwrap_or_else(|e| panic!("{e}"));
    let bytes = [&(buffers[1].address() + 16).to_le_bytes()[..], &5u32.to_le_bytes(), &(-1.0f32).to_le_bytes()].concat();
    assert_eq!(binding.arguments(), bytes);
}

#[test]
fn a_default_stream_is_that_of_the_device() {
    let Some(mock) = Mock::new() else { return };
    let device = mock.open().device(1).unwrap_or_else(|e| panic!("{e}"));
    let buffer = device.alloc(BYTES).unwrap_or_else(|e| panic!("{e}"));
    let kernel = device.load(&artifact()).unwrap_or_else(|e| panic!("{e}"));
    let binding = kernel.bind([1, 1, 1], &args(), &[&buffer]).unwrap_or_else(|e| panic!("{e}"));
    // SAFETY: null is the default stream.
    let stream = unsafe { device.borrow_stream(std::ptr::null_mut()) };
    mock.host_sets_device(0);
    mock.forget();
    // SAFETY: the buffer outlives the launch.
    assert_eq!(unsafe { binding.launch(&stream) }, Ok(()));
    assert_eq!(mock.names(), ["hipGetDevice", "hipSetDevice", "hipModuleLaunchKernel", "hipSetDevice"]);
    assert!(mock.calls()[2].contains(" device=1 "), "{:?}", mock.calls());
    assert_eq!(mock.current_device(), 0);
}

#[test]
fn instances_that_run_several_positions_are_as_many_as_the_device_runs_at_once() {
    let Some(mock) = Mock::new() else { return };
    let device = device(&mock);
    let buffer = device.alloc(BYTES).unwrap_or_else(|e| panic!("{e}"));
    mock.forget();
    let mut kernel = device.load(&persistent_artifact()).unwrap_or_else(|e| panic!("{e}"));
    let occupancy = "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor 256 0 device=0".to_owned();
    assert!(mock.calls().contains(&occupancy), "{:?}", mock.calls());
    let grid = |kernel: &tilelift::runtime::hip::HipKernel, grid| {
        let binding = kernel.bind(grid, &args(), &[&buffer]).unwrap_or_else(|e| panic!("{e}"));
        // The asked grid is among the arguments, behind the address, the extent and the factor.
        let extents: Vec<u8> = grid.iter().flat_map(|n| n.to_le_bytes()).collect();
        assert_eq!(binding.arguments()[16..], extents);
        binding.grid()
    };
    // 304 compute units, two blocks on each.
    assert_eq!(grid(&kernel, [40, 20, 2]), [608, 1, 1]);
    assert_eq!(grid(&kernel, [5, 3, 2]), [30, 1, 1]);
    kernel.limit_instances(7);
    assert_eq!(grid(&kernel, [40, 20, 2]), [7, 1, 1]);
    // Of another kernel nobody asks how many run at once.
    mock.forget();
    assert!(device.load(&artifact()).is_ok());
    assert!(!mock.calls().contains(&occupancy));
}

#[test]
fn grids_beyond_the_limits_are_refused() {
    let Some(mock) = Mock::new() else { return };
    let device = device(&mock);
    let buffer = device.alloc(BYTES).unwrap_or_else(|e| panic!("{e}"));
    let kernel = device.load(&artifact()).unwrap_or_else(|e| panic!("{e}"));
    let most = u32::MAX / 256;
    assert!(kernel.bind([most, 65535, 65535], &args(), &[&buffer]).is_ok());
    for grid in [[1, 1, 65536], [1, 65536, 1], [most + 1, 1, 1], [1 << 31, 1, 1]] {
        assert_eq!(kernel.bind(grid, &args(), &[&buffer]).map(|_| ()), Err(HipError::Grid { grid, threads: 256 }));
    }
    // No positions: no launch, and no error.
    mock.forget();
    let stream = device.stream().unwrap_or_else(|e| panic!("{e}"));
    for grid in [[0, 1, 1], [1, 0, 1], [70000, 1, 0]] {
        let binding = kernel.bind(grid, &args(), &[&buffer]).unwrap_or_else(|e| panic!("{e}"));
        // SAFETY: nothing is launched.
        unsafe { binding.launch(&stream) }.unwrap_or_else(|e| panic!("{e}"));
    }
    assert!(!mock.calls().iter().any(|c| c.starts_with("hipModuleLaunchKernel")), "{:?}", mock.calls());
}

#[test]
fn arguments_that_break_promises_are_refused() {
    let Some(mock) = Mock::new() else { return };
    let device = device(&mock);
    let buffer = device.alloc(BYTES - 4).unwrap_or_else(|e| panic!("{e}"));
    let kernel = device.load(&artifact()).unwrap_or_else(|e| panic!("{e}"));
    let bind = |args: &[_], buffers: &[_]| kernel.bind([1, 1, 1], args, buffers).map(|_| ());
    assert!(matches!(bind(&args(), &[&buffer]), Err(HipError::Args(_))), "the view leaves the buffer");
    assert!(matches!(bind(&args()[..1], &[&buffer]), Err(HipError::Args(_))), "one is missing");
    // SAFETY: nothing is launched.
    let lent = unsafe { device.borrow_memory(0x1002, BYTES) };
    assert_eq!(bind(&args(), &[&lent]), Err(HipError::Alignment { param: 0, address: 0x1002, align: 16 }));
}

#[test]
fn a_binding_is_changed_as_if_it_had_been_bound_so() {
    let Some(mock) = Mock::new() else { return };
    let device = device(&mock);
    let (buffer, other) = (device.alloc(BYTES).unwrap_or_else(|e| panic!("{e}")), device.alloc(BYTES).unwrap_or_else(|e| panic!("{e}")));
    let kernel = device.load(&artifact()).unwrap_or_else(|e| panic!("{e}"));
    let mut binding = kernel.bind([0, 1, 1], &args(), &[&buffer]).unwrap_or_else(|e| panic!("{e}"));
    assert!(binding.arguments().is_empty(), "what is not launched needs no arguments");
    binding.set_grid([4, 1, 1]).unwrap_or_else(|e| panic!("{e}"));
    let bound = kernel.bind([4, 1, 1], &args(), &[&buffer]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((binding.arguments(), binding.grid()), (bound.arguments(), [4, 1, 1]));
    binding.set_pointer(0, &other, 0).unwrap_or_else(|e| panic!("{e}"));
    binding.set_scalar(1, ScalarArg::float(Scalar::F32, 7.0)).unwrap_or_else(|e| panic!("{e}"));
    binding.set_extent(0, 0, 500).unwrap_or_else(|e| panic!("{e}"));
    let fewer = [ViewArg::dense(0, Scalar::F32, &[500]).into(), ScalarArg::float(Scalar::F32, 7.0).into()];
    let bound = kernel.bind([4, 1, 1], &fewer, &[&other]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(binding.arguments(), bound.arguments());
    // What is wrong changes nothing.
    let before = binding.arguments().to_vec();
    assert!(matches!(binding.set_pointer(0, &other, 1024), Ok(())), "500 elements fit behind 256");
    binding.set_pointer(0, &other, 0).unwrap_or_else(|e| panic!("{e}"));
    assert!(matches!(binding.set_extent(0, 0, ELEMENTS as i64 + 4), Err(HipError::Args(_))));
    assert!(matches!(binding.set_pointer(0, &other, 1028), Err(HipError::Args(_))));
    assert!(matches!(binding.set_scalar(0, ScalarArg::float(Scalar::F32, 7.0)), Err(HipError::Bind(_))));
    assert!(matches!(binding.set_grid([1, 65536, 1]), Err(HipError::Grid { .. })));
    assert_eq!((binding.arguments(), binding.grid()), (&before[..], [4, 1, 1]));
}
