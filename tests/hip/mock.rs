//! The mock library: compiled for each test into a file of its own, so that no test sees another's record.

use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use tilelift::runtime::hip::HipLibrary;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hip_mock/hip_mock.c");

/// The mock, open beside the device that uses it.
pub(crate) struct Mock {
    library: Library,
    path: PathBuf,
}

/// What is alive in the mock.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) memory: i32,
    pub(crate) modules: i32,
    pub(crate) streams: i32,
    pub(crate) events: i32,
}

impl Live {
    pub(crate) const NOTHING: Live = Live { memory: 0, modules: 0, streams: 0, events: 0 };
}

impl Mock {
    /// Compiles the mock; `None` without a C compiler.
    pub(crate) fn new() -> Option<Mock> {
        Mock::without(&[])
    }

    /// The mock without some of its functions.
    pub(crate) fn without(functions: &[&str]) -> Option<Mock> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let Some(compiler) = tilelift_oracle::c_compiler() else {
            assert!(!tilelift_oracle::required(), "TILELIFT_REQUIRE_ORACLES is set, and there is no C compiler");
            println!("skipped: no C compiler, so there is no mock library");
            return None;
        };
        let name = format!("tilelift-hip-mock-{}-{}.so", std::process::id(), SERIAL.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        let away = functions.iter().map(|f| format!("-D{f}=taken_away_{f}"));
        let mut command = Command::new(compiler);
        command.args(["-std=c11", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]).arg(&path).args(away).arg(SOURCE);
        let said = command.output().unwrap_or_else(|e| panic!("{}: {e}", compiler.display()));
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        // SAFETY: the library is ours and has no initialisers.
        let library = unsafe { Library::new(&path) }.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Some(Mock { library, path })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The library as the device takes it.
    pub(crate) fn open(&self) -> HipLibrary {
        self.try_open().unwrap_or_else(|e| panic!("{e}"))
    }

    pub(crate) fn try_open(&self) -> Result<HipLibrary, tilelift::runtime::hip::HipError> {
        // SAFETY: the functions have the types of HIP's.
        unsafe { HipLibrary::open(&self.path) }
    }

    fn function<T: Copy>(&self, name: &str) -> T {
        // SAFETY: the callers below name the types that the source has.
        *unsafe { self.library.get::<T>(name.as_bytes()) }.unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// The calls since the record was forgotten, a line each.
    pub(crate) fn calls(&self) -> Vec<String> {
        let record: unsafe extern "C" fn() -> *const c_char = self.function("mock_record");
        // SAFETY: the record is a static string that ends with a zero byte, and no other thread writes it.
        let text = unsafe { CStr::from_ptr(record()) }.to_string_lossy();
        text.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// The names of the calls.
    pub(crate) fn names(&self) -> Vec<String> {
        self.calls().iter().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect()
    }

    pub(crate) fn forget(&self) {
        let forget: unsafe extern "C" fn() = self.function("mock_forget");
        // SAFETY: no other thread writes the record.
        unsafe { forget() }
    }

    /// Has the call at that place of the record fail.
    pub(crate) fn fail_call(&self, index: usize, code: i32) {
        let fail: unsafe extern "C" fn(c_int, c_int) = self.function("mock_fail_call");
        // SAFETY: numbers alone.
        unsafe { fail(index as c_int, code) }
    }

    /// Has every call of a function fail; of none, if the name is empty.
    pub(crate) fn fail_function(&self, name: &str, code: i32) {
        let fail: unsafe extern "C" fn(*const c_char, c_int) = self.function("mock_fail_function");
        let name = CString::new(name).expect("no zero byte");
        // SAFETY: the name ends with a zero byte, and is copied.
        unsafe { fail(name.as_ptr(), code) }
    }

    pub(crate) fn set_devices(&self, count: i32) {
        let set: unsafe extern "C" fn(c_int) = self.function("mock_devices");
        // SAFETY: a number alone.
        unsafe { set(count) }
    }

    pub(crate) fn set_arch(&self, name: &str) {
        let set: unsafe extern "C" fn(*const c_char) = self.function("mock_arch");
        let name = CString::new(name).expect("no zero byte");
        // SAFETY: the name ends with a zero byte, and is copied.
        unsafe { set(name.as_ptr()) }
    }

    /// Makes a device current in this thread, as a host would.
    pub(crate) fn host_sets_device(&self, ordinal: i32) {
        let set: unsafe extern "C" fn(c_int) -> c_int = self.function("hipSetDevice");
        // SAFETY: a number alone.
        assert_eq!(unsafe { set(ordinal) }, 0);
    }

    /// The device that is current in this thread.
    pub(crate) fn current_device(&self) -> i32 {
        let get: unsafe extern "C" fn(*mut c_int) -> c_int = self.function("hipGetDevice");
        let mut ordinal = -1;
        // SAFETY: the out pointer is valid.
        assert_eq!(unsafe { get(&mut ordinal) }, 0);
        ordinal
    }

    pub(crate) fn live(&self) -> Live {
        let live: unsafe extern "C" fn(c_int) -> c_int = self.function("mock_live");
        // SAFETY: numbers alone.
        let [memory, modules, streams, events] = [0, 1, 2, 3].map(|kind| unsafe { live(kind) });
        Live { memory, modules, streams, events }
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        // The file is no longer needed once it is open.
        let _ = std::fs::remove_file(&self.path);
    }
}
