//! The functions of the library that this module calls, as data: name, parameters, and what each is for. The table makes the structure of
//! loaded functions, a method per function that turns its status into a [`HipError`], and, under test, the list that HIP's headers judge.

use super::error::HipError;
use super::types::{
    CopyKind, DeviceAttribute, Event, Function, FunctionAttribute, Module, PropertiesR0000, PropertiesR0600, Status, Stream,
};
use libloading::Library;
use std::ffi::{CStr, c_char, c_void};

/// A function's address.
///
/// # Safety
/// `T` must be the type of the function of that name in HIP's headers.
unsafe fn symbol<T: Copy>(library: &Library, name: &'static str) -> Result<T, HipError> {
    // SAFETY: the caller vouches for the type; the library is never closed, so the address stays good.
    unsafe { library.get::<T>(name.as_bytes()) }.map(|s| *s).map_err(|_| HipError::MissingFunction { name })
}

macro_rules! prototypes {
    (
        required { $($(#[$doc:meta])* $method:ident = $name:ident($($arg:ident: $ty:ty),* $(,)?);)* }
        optional { $($(#[$odoc:meta])* $omethod:ident = $oname:ident($($oarg:ident: $oty:ty),* $(,)?);)* }
        texts { $($(#[$tdoc:meta])* $tmethod:ident = $tname:ident;)* }
    ) => {
        /// The functions of an open library.
        pub(super) struct Functions {
            $($method: unsafe extern "C" fn($($ty),*) -> Status,)*
            $($omethod: Option<unsafe extern "C" fn($($oty),*) -> Status>,)*
            $($tmethod: unsafe extern "C" fn(Status) -> *const c_char,)*
        }

        impl Functions {
            /// Looks every function up.
            ///
            /// # Safety
            /// The library must be HIP's, or one that has functions of the same names and types, and must never be closed.
            pub(super) unsafe fn load(library: &Library) -> Result<Functions, HipError> {
                Ok(Functions {
                    // SAFETY: the types are those of HIP's headers (see the test in `headers.rs`).
                    $($method: unsafe { symbol(library, stringify!($name)) }?,)*
                    // SAFETY: as above.
                    $($omethod: unsafe { symbol(library, stringify!($oname)) }.ok(),)*
                    // SAFETY: as above.
                    $($tmethod: unsafe { symbol(library, stringify!($tname)) }?,)*
                })
            }

            $($(#[$doc])*
            ///
            /// # Safety
            /// Pointers must be valid for what HIP's documentation says that the call reads and writes; handles must be live.
            #[allow(clippy::too_many_arguments)]
            pub(super) unsafe fn $method(&self, $($arg: $ty),*) -> Result<(), HipError> {
                // SAFETY: the function has this type; the caller vouches for the arguments.
                self.checked(stringify!($name), unsafe { (self.$method)($($arg),*) })
            })*

            $($(#[$odoc])*
            /// `None` if the library lacks the function.
            ///
            /// # Safety
            /// As the other functions.
            pub(super) unsafe fn $omethod(&self, $($oarg: $oty),*) -> Option<Result<(), HipError>> {
                // SAFETY: the function has this type; the caller vouches for the arguments.
                self.$omethod.map(|call| self.checked(stringify!($oname), unsafe { call($($oarg),*) }))
            })*

            $($(#[$tdoc])*
            fn $tmethod(&self, status: Status) -> Option<String> {
                // SAFETY: the function takes any number, and returns null or a static string that ends with a zero byte.
                let text = unsafe { (self.$tmethod)(status) };
                // SAFETY: as above.
                (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
            })*
        }

        /// Every function of the table, for the judgement of HIP's headers.
        #[cfg(test)]
        pub(super) fn all() -> Vec<Prototype> {
            use super::types::c::CType;
            vec![
                $(Prototype { name: stringify!($name), result: Status::name(), params: vec![$(<$ty>::name()),*], required: true },)*
                $(Prototype { name: stringify!($oname), result: Status::name(), params: vec![$(<$oty>::name()),*], required: false },)*
                $(Prototype { name: stringify!($tname), result: <*const c_char>::name(), params: vec![Status::name()], required: true },)*
            ]
        }
    };
}

/// A function as C has it.
#[cfg(test)]
pub(super) struct Prototype {
    /// Its name.
    pub(super) name: &'static str,
    /// What it returns.
    pub(super) result: String,
    /// The types of its parameters.
    pub(super) params: Vec<String>,
    /// False for one that some versions of the library lack.
    pub(super) required: bool,
}

prototypes! {
    required {
        /// Starts the library; may be called any number of times.
        init = hipInit(flags: u32);
        /// The library's version.
        driver_version = hipDriverGetVersion(version: *mut i32);
        /// How many devices there are.
        device_count = hipGetDeviceCount(count: *mut i32);
        /// The handle of a device by number.
        device_handle = hipDeviceGet(device: *mut i32, ordinal: i32);
        /// A device's product name.
        device_name = hipDeviceGetName(name: *mut c_char, bytes: i32, device: i32);
        /// A device's memory in bytes.
        device_memory = hipDeviceTotalMem(bytes: *mut usize, device: i32);
        /// One of a device's numbers.
        device_attribute = hipDeviceGetAttribute(value: *mut i32, attribute: DeviceAttribute, ordinal: i32);
        /// The device that is current in the calling thread.
        current_device = hipGetDevice(ordinal: *mut i32);
        /// Makes a device current in the calling thread.
        set_device = hipSetDevice(ordinal: i32);
        /// Loads a code object, which the library goes on to read while the module lives.
        load_module = hipModuleLoadData(module: *mut Module, image: *const c_void);
        /// Unloads a module.
        unload_module = hipModuleUnload(module: Module);
        /// A function of a module by name.
        module_function = hipModuleGetFunction(function: *mut Function, module: Module, name: *const c_char);
        /// One of a function's numbers.
        function_attribute = hipFuncGetAttribute(value: *mut i32, attribute: FunctionAttribute, function: Function);
        /// How many blocks of a function a compute unit runs at once.
        blocks_per_multiprocessor = hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(
            blocks: *mut i32, function: Function, threads: i32, dynamic_shared: usize,
        );
        /// Puts a launch on a stream. Arguments are read before the call returns.
        launch = hipModuleLaunchKernel(
            function: Function,
            grid_x: u32, grid_y: u32, grid_z: u32,
            block_x: u32, block_y: u32, block_z: u32,
            dynamic_shared: u32,
            stream: Stream,
            params: *mut *mut c_void,
            extra: *mut *mut c_void,
        );
        /// Allocates memory of the current device.
        malloc = hipMalloc(address: *mut *mut c_void, bytes: usize);
        /// Frees memory, after all work of the device.
        free = hipFree(address: *mut c_void);
        /// Copies, and waits for it.
        memcpy = hipMemcpy(to: *mut c_void, from: *const c_void, bytes: usize, kind: CopyKind);
        /// Puts a copy on a stream.
        memcpy_async = hipMemcpyAsync(to: *mut c_void, from: *const c_void, bytes: usize, kind: CopyKind, stream: Stream);
        /// Sets bytes, on the default stream.
        memset = hipMemset(address: *mut c_void, byte: i32, bytes: usize);
        /// Makes a stream on the current device.
        create_stream = hipStreamCreateWithFlags(stream: *mut Stream, flags: u32);
        /// Destroys a stream.
        destroy_stream = hipStreamDestroy(stream: Stream);
        /// Waits for a stream.
        synchronize_stream = hipStreamSynchronize(stream: Stream);
        /// Makes an event on the current device.
        create_event = hipEventCreateWithFlags(event: *mut Event, flags: u32);
        /// Destroys an event.
        destroy_event = hipEventDestroy(event: Event);
        /// Puts an event on a stream.
        record_event = hipEventRecord(event: Event, stream: Stream);
        /// Waits for an event.
        synchronize_event = hipEventSynchronize(event: Event);
        /// Milliseconds between two events.
        elapsed = hipEventElapsedTime(milliseconds: *mut f32, start: Event, stop: Event);
    }
    optional {
        /// A device's properties, as HIP 6 and later lay them out.
        properties_r0600 = hipGetDevicePropertiesR0600(properties: *mut PropertiesR0600, ordinal: i32);
        /// A device's properties, as HIP 5 lays them out; later libraries keep this name for programs of that time.
        properties_r0000 = hipGetDeviceProperties(properties: *mut PropertiesR0000, ordinal: i32);
    }
    texts {
        /// An error's name.
        error_name = hipGetErrorName;
        /// An error's description.
        error_text = hipGetErrorString;
    }
}

impl Functions {
    /// Turns a status into a typed result.
    fn checked(&self, call: &'static str, status: Status) -> Result<(), HipError> {
        match status {
            Status::SUCCESS => Ok(()),
            Status::NO_DEVICE => Err(HipError::NoDevice { ordinal: 0, count: 0 }),
            Status(code) => Err(HipError::Call {
                call,
                code,
                name: self.error_name(status).unwrap_or_else(|| format!("error {code}")),
                text: self.error_text(status).unwrap_or_else(|| "no description".into()),
            }),
        }
    }
}
