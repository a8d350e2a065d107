//! The library: found, missing, incomplete, without devices.

use crate::mock::Mock;
use std::process::{Command, Stdio};
use tilelift::runtime::hip::{HipDevice, HipError, HipLibrary, LIBRARY_VARIABLE, probe};

#[test]
fn a_missing_library_is_a_typed_error() {
    // SAFETY: there is no such file.
    let missing = unsafe { HipLibrary::open("/nonexistent/libamdhip64.so") }.map(|_| ());
    match missing {
        Err(HipError::NoLibrary { tried, why }) => assert!(tried == "/nonexistent/libamdhip64.so" && !why.is_empty(), "{tried}: {why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_function_that_is_missing_is_named() {
    for function in ["hipInit", "hipGetErrorName", "hipModuleLaunchKernel", "hipEventElapsedTime", "hipMemset"] {
        let Some(mock) = Mock::without(&[function]) else { return };
        assert_eq!(mock.try_open().map(|_| ()), Err(HipError::MissingFunction { name: function }));
        assert!(mock.calls().is_empty(), "nothing is called of a library that is no good");
    }
}

#[test]
fn the_architecture_is_read_from_older_properties_too() {
    let Some(mock) = Mock::without(&["hipGetDevicePropertiesR0600"]) else { return };
    assert_eq!(mock.open().device(0).map(|d| d.arch_with_features().to_owned()), Ok("gfx942:sramecc+:xnack-".into()));
    let Some(mock) = Mock::without(&["hipGetDevicePropertiesR0600", "hipGetDeviceProperties"]) else { return };
    assert_eq!(mock.open().device(0).map(|_| ()), Err(HipError::MissingFunction { name: "hipGetDeviceProperties" }));
}

#[test]
fn an_architecture_without_a_target_is_a_device_all_the_same() {
    let Some(mock) = Mock::new() else { return };
    mock.set_arch("gfx1100");
    let device = mock.open().device(0).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((device.arch(), device.target_name()), ("gfx1100", None));
    mock.set_arch("");
    assert_eq!(mock.open().device(0).map(|_| ()), Err(HipError::Architecture { name: String::new() }));
}

#[test]
fn a_device_that_is_not_there_is_a_typed_error() {
    let Some(mock) = Mock::new() else { return };
    let library = mock.open();
    for ordinal in [2, u32::MAX] {
        assert_eq!(library.device(ordinal).map(|_| ()), Err(HipError::NoDevice { ordinal, count: 2 }));
    }
    mock.set_devices(0);
    let none = Err(HipError::NoDevice { ordinal: 0, count: 0 });
    assert_eq!(library.device(0).map(|_| ()), none);
    assert_eq!(mock.try_open().map(|_| ()), none, "a library without devices does not start");
}

/// Runs the test below in a process of its own, where the variable names a library.
fn child(library: &std::ffi::OsStr, expected: &str) {
    let exe = std::env::current_exe().unwrap_or_else(|e| panic!("{e}"));
    let mut command = Command::new(exe);
    command.args(["--exact", "library::the_installed_library", "--nocapture"]).stdout(Stdio::null());
    let status = command.env(LIBRARY_VARIABLE, library).env(EXPECTED, expected).status().unwrap_or_else(|e| panic!("{e}"));
    assert!(status.success(), "{expected}");
}

/// What the child finds: an architecture, or nothing.
const EXPECTED: &str = "TILELIFT_TEST_HIP_ARCH";

#[test]
fn the_variable_names_the_library() {
    child("/nonexistent/libamdhip64.so".as_ref(), "");
    let Some(mock) = Mock::new() else { return };
    child(mock.path().as_ref(), "gfx942");
}

#[test]
fn the_installed_library() {
    match std::env::var(EXPECTED).as_deref() {
        Ok("") => match probe() {
            Err(HipError::NoLibrary { tried, .. }) => assert_eq!(tried, "/nonexistent/libamdhip64.so", "no other is tried"),
            other => panic!("{other:?}"),
        },
        Ok(arch) => {
            assert_eq!((probe(), HipDevice::count()), (Ok(()), Ok(2)));
            assert_eq!(HipDevice::new(1).map(|d| (d.ordinal(), d.arch().to_owned())), Ok((1, arch.to_owned())));
            assert_eq!(HipDevice::current().map(|d| d.ordinal()), Ok(0));
        }
        // On any machine: a library, or a typed error.
        Err(_) => {
            if let Err(e) = probe() {
                assert_eq!(HipDevice::new(0).map(|_| ()), Err(e));
            }
        }
    }
}
