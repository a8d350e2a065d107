//! The C types of HIP that the prototypes name, and the numbers that calls are given. Under test each type tells its name in C, so that
//! HIP's own headers can be asked whether they agree.

use std::ffi::c_void;

/// What a call returns (`hipError_t`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub(super) struct Status(pub(super) i32);

impl Status {
    /// `hipSuccess`.
    pub(super) const SUCCESS: Status = Status(0);
    /// `hipErrorNoDevice`.
    pub(super) const NO_DEVICE: Status = Status(100);
}

/// A number that a device is asked for (`hipDeviceAttribute_t`).
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct DeviceAttribute(pub(super) u32);

impl DeviceAttribute {
    /// Highest clock in kHz.
    pub(super) const CLOCK_RATE: DeviceAttribute = DeviceAttribute(5);
    /// Bytes of the L2 cache.
    pub(super) const L2_CACHE_SIZE: DeviceAttribute = DeviceAttribute(19);
    /// Compute units.
    pub(super) const MULTIPROCESSOR_COUNT: DeviceAttribute = DeviceAttribute(63);
    /// Bytes of shared memory (local data share) that a block may have.
    pub(super) const MAX_SHARED_MEMORY_PER_BLOCK: DeviceAttribute = DeviceAttribute(74);
    /// Lanes of a wavefront.
    pub(super) const WARP_SIZE: DeviceAttribute = DeviceAttribute(87);
}

/// A number that a function is asked for (`hipFunction_attribute`).
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct FunctionAttribute(pub(super) u32);

impl FunctionAttribute {
    /// Bytes of scratch memory per thread.
    pub(super) const LOCAL_SIZE_BYTES: FunctionAttribute = FunctionAttribute(3);
    /// Registers per thread.
    pub(super) const NUM_REGS: FunctionAttribute = FunctionAttribute(4);
}

/// Between whose memories a copy goes (`hipMemcpyKind`).
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct CopyKind(pub(super) u32);

impl CopyKind {
    /// From the host to the device.
    pub(super) const HOST_TO_DEVICE: CopyKind = CopyKind(1);
    /// From the device to the host.
    pub(super) const DEVICE_TO_HOST: CopyKind = CopyKind(2);
    /// Within devices.
    pub(super) const DEVICE_TO_DEVICE: CopyKind = CopyKind(3);
}

/// Flag of a stream that does not wait for the default stream (`hipStreamNonBlocking`).
pub(super) const STREAM_NON_BLOCKING: u32 = 1;
/// Flag of an event that takes the time (`hipEventDefault`).
pub(super) const EVENT_DEFAULT: u32 = 0;

/// What stands in front of the argument buffer's address in a launch's `extra` (`HIP_LAUNCH_PARAM_BUFFER_POINTER`).
pub(super) const BUFFER_POINTER: usize = 1;
/// What stands in front of the address of its size (`HIP_LAUNCH_PARAM_BUFFER_SIZE`).
pub(super) const BUFFER_SIZE: usize = 2;
/// What ends `extra` (`HIP_LAUNCH_PARAM_END`).
pub(super) const PARAM_END: usize = 3;

/// A handle of the library, null where there is none.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq)]
        #[repr(transparent)]
        pub(super) struct $name(pub(super) *mut c_void);

        impl $name {
            /// No handle, where a call will write one.
            pub(super) const NONE: $name = $name(std::ptr::null_mut());
        }
    )*};
}

handles! {
    /// A stream (`hipStream_t`).
    Stream;
    /// An event (`hipEvent_t`).
    Event;
    /// A module (`hipModule_t`).
    Module;
    /// A function of a module (`hipFunction_t`).
    Function;
}

/// Room for the properties of a device, more than any version writes.
const ROOM: usize = 4096;

/// The properties of a device, in one of HIP's versions: all that is read of them is the architecture's name.
macro_rules! properties {
    ($($(#[$doc:meta])* $name:ident, $arch:literal;)*) => {$(
        $(#[$doc])*
        #[repr(C, align(8))]
        pub(super) struct $name([u8; ROOM]);

        impl $name {
            /// Where the architecture's name begins.
            const ARCH: usize = $arch;

            /// Zeros, where a call will write.
            pub(super) fn zeroed() -> $name {
                $name([0; ROOM])
            }

            /// The architecture's name with its features, such as `gfx942:sramecc+:xnack-`.
            pub(super) fn arch(&self) -> String {
                let name = &self.0[$name::ARCH..$name::ARCH + ARCH_BYTES];
                let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
                String::from_utf8_lossy(&name[..end]).into_owned()
            }
        }
    )*};
}

/// Bytes of the architecture's name.
const ARCH_BYTES: usize = 256;

properties! {
    /// The properties as HIP 6 and later have them (`hipDeviceProp_tR0600`).
    PropertiesR0600, 1160;
    /// The properties as HIP 5 has them (`hipDeviceProp_t`, which later versions call `hipDeviceProp_tR0000`).
    PropertiesR0000, 396;
}

/// The names of the types in C, and the numbers that C has names for.
#[cfg(test)]
pub(super) mod c {
    use super::*;
    use std::ffi::c_char;

    /// A type that C has a name for.
    pub(in super::super) trait CType {
        /// The name.
        fn name() -> String;
    }

    macro_rules! names {
        ($($ty:ty = $name:literal;)*) => {$(
            impl CType for $ty {
                fn name() -> String {
                    $name.to_owned()
                }
            }
        )*};
    }

    names! {
        Status = "hipError_t";
        DeviceAttribute = "hipDeviceAttribute_t";
        FunctionAttribute = "hipFunction_attribute";
        CopyKind = "hipMemcpyKind";
        Stream = "hipStream_t";
        Event = "hipEvent_t";
        Module = "hipModule_t";
        Function = "hipFunction_t";
        PropertiesR0600 = "hipDeviceProp_tR0600";
        PropertiesR0000 = "hipDeviceProp_tR0000";
        c_void = "void";
        c_char = "char";
        i32 = "int";
        u32 = "unsigned int";
        usize = "size_t";
        f32 = "float";
    }

    impl<T: CType> CType for *mut T {
        fn name() -> String {
            format!("{} *", T::name())
        }
    }

    impl<T: CType> CType for *const T {
        fn name() -> String {
            format!("{} const *", T::name())
        }
    }

    /// Types by value whose sizes must agree: name, bytes.
    pub(in super::super) fn sizes() -> Vec<(String, usize)> {
        fn of<T: CType>() -> (String, usize) {
            (T::name(), size_of::<T>())
        }
        vec![
            of::<Status>(),
            of::<DeviceAttribute>(),
            of::<FunctionAttribute>(),
            of::<CopyKind>(),
            of::<Stream>(),
            of::<Event>(),
            of::<Module>(),
            of::<Function>(),
            of::<i32>(),
            of::<u32>(),
            of::<usize>(),
            of::<f32>(),
            of::<*mut c_void>(),
        ]
    }

    /// Expressions in C and the numbers that they must be.
    pub(in super::super) fn numbers() -> Vec<(&'static str, u64)> {
        vec![
            ("hipSuccess", Status::SUCCESS.0 as u64),
            ("hipErrorNoDevice", Status::NO_DEVICE.0 as u64),
            ("hipDeviceAttributeClockRate", DeviceAttribute::CLOCK_RATE.0.into()),
            ("hipDeviceAttributeL2CacheSize", DeviceAttribute::L2_CACHE_SIZE.0.into()),
            ("hipDeviceAttributeMultiprocessorCount", DeviceAttribute::MULTIPROCESSOR_COUNT.0.into()),
            ("hipDeviceAttributeMaxSharedMemoryPerBlock", DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK.0.into()),
            ("hipDeviceAttributeWarpSize", DeviceAttribute::WARP_SIZE.0.into()),
            ("HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES", FunctionAttribute::LOCAL_SIZE_BYTES.0.into()),
            ("HIP_FUNC_ATTRIBUTE_NUM_REGS", FunctionAttribute::NUM_REGS.0.into()),
            ("hipMemcpyHostToDevice", CopyKind::HOST_TO_DEVICE.0.into()),
            ("hipMemcpyDeviceToHost", CopyKind::DEVICE_TO_HOST.0.into()),
            ("hipMemcpyDeviceToDevice", CopyKind::DEVICE_TO_DEVICE.0.into()),
            ("hipStreamNonBlocking", STREAM_NON_BLOCKING.into()),
            ("hipEventDefault", EVENT_DEFAULT.into()),
            ("(size_t)HIP_LAUNCH_PARAM_BUFFER_POINTER", BUFFER_POINTER as u64),
            ("(size_t)HIP_LAUNCH_PARAM_BUFFER_SIZE", BUFFER_SIZE as u64),
            ("(size_t)HIP_LAUNCH_PARAM_END", PARAM_END as u64),
        ]
    }

    /// Expressions of the properties in C and the numbers that they must be, HIP 6 first.
    pub(in super::super) fn layouts() -> [(&'static str, usize); 2] {
        [("hipDeviceProp_tR0600", PropertiesR0600::ARCH), ("hipDeviceProp_tR0000", PropertiesR0000::ARCH)]
    }

    /// Bytes of the room for properties.
    pub(in super::super) const PROPERTIES_ROOM: usize = ROOM;
}
