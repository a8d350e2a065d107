//! What a device is made of.

use super::device::{HipDevice, attribute};
use super::error::HipError;
use super::types::DeviceAttribute;

/// What a device is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The library's version, as it counts: `10_000_000 * major + 100_000 * minor + patch`.
    pub driver: i32,
    /// Compute units.
    pub compute_units: u32,
    /// Lanes of a wavefront.
    pub lanes: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of the L2 cache.
    pub l2: u64,
    /// Highest clock in kHz; 0 if the library does not say.
    pub clock_khz: u32,
}

impl HipDevice {
    /// What the device is made of.
    ///
    /// # Errors
    /// An error of the library.
    pub fn facts(&self) -> Result<Facts, HipError> {
        let (functions, ordinal) = (self.context.functions(), self.context.ordinal());
        let (mut driver, mut handle, mut memory) = (0, 0, 0);
        // SAFETY: the out pointers are valid, here and below.
        unsafe { functions.driver_version(&mut driver) }?;
        // SAFETY: as above.
        unsafe { functions.device_handle(&mut handle, ordinal) }?;
        // SAFETY: as above.
        unsafe { functions.device_memory(&mut memory, handle) }?;
        let number = |which| attribute(functions, which, ordinal);
        Ok(Facts {
            driver,
            compute_units: number(DeviceAttribute::MULTIPROCESSOR_COUNT)?,
            lanes: number(DeviceAttribute::WARP_SIZE)?,
            memory: memory as u64,
            l2: u64::from(number(DeviceAttribute::L2_CACHE_SIZE)?),
            clock_khz: number(DeviceAttribute::CLOCK_RATE)?,
        })
    }
}
