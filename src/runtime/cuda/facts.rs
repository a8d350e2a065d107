//! What a device is made of.

use super::context::CudaDevice;
use super::error::{CudaError, check};
use cudarc::driver::sys;

/// What a device is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The newest CUDA version that the driver supports, as it counts: `1000 * major + 10 * minor`.
    pub driver: i32,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of the L2 cache.
    pub l2: u64,
    /// Highest clock in kHz; 0 if the driver does not say.
    pub clock_khz: u32,
}

impl Facts {
    /// The newest PTX version that the driver takes (PTX ISA, "Release Notes"), for [`crate::Settings::max_ptx_version`].
    pub fn ptx_version(&self) -> (u8, u8) {
        let (major, minor) = (self.driver / 1000, (self.driver % 1000 / 10) as u8);
        match (major, minor) {
            (..=11, _) => (7, minor),
            (12, 0..=5) => (8, minor),
            (12, _) => (8, minor - 1),
            (13.., _) => (9, if major == 13 { minor } else { u8::MAX }),
        }
    }
}

impl CudaDevice {
    /// What the device is made of.
    ///
    /// # Errors
    /// A driver error.
    pub fn facts(&self) -> Result<Facts, CudaError> {
        use sys::CUdevice_attribute as A;
        self.context.with(|| {
            let (mut driver, mut device, mut memory) = (0, 0, 0);
            // SAFETY: the out pointers are valid and a context is current, here and below.
            check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut driver) })?;
            // SAFETY: as above.
            check("cuCtxGetDevice", unsafe { sys::cuCtxGetDevice(&mut device) })?;
            // SAFETY: as above.
            check("cuDeviceTotalMem", unsafe { sys::cuDeviceTotalMem_v2(&mut memory, device) })?;
            let attribute = |a: A| {
                let mut value = 0;
                // SAFETY: as above.
                check("cuDeviceGetAttribute", unsafe { sys::cuDeviceGetAttribute(&mut value, a, device) })?;
                Ok(value.max(0) as u32)
            };
            Ok(Facts {
                driver,
                multiprocessors: attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
                memory: memory as u64,
                l2: u64::from(attribute(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?),
                clock_khz: attribute(A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_drivers() {
        let of = |driver| Facts { driver, multiprocessors: 1, memory: 0, l2: 0, clock_khz: 0 }.ptx_version();
        let known = [
            (11040, (7, 4)),
            (11080, (7, 8)),
            (12000, (8, 0)),
            (12050, (8, 5)),
            (12060, (8, 5)),
            (12080, (8, 7)),
            (12090, (8, 8)),
            (13000, (9, 0)),
        ];
        known.into_iter().for_each(|(driver, version)| assert_eq!(of(driver), version, "{driver}"));
        assert!(of(14000) > of(13020));
    }
}
