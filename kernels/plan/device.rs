//! What is known of the device.

use tilelift_lane::Target;

/// A device: its target, and how many multiprocessors (compute units) it really has.
#[derive(Clone, Debug)]
pub struct DeviceFacts {
    target: Target,
    multiprocessors: u32,
}

impl DeviceFacts {
    /// A device with so many multiprocessors.
    pub fn new(target: &Target, multiprocessors: u32) -> DeviceFacts {
        DeviceFacts { target: target.clone().with_multiprocessors(multiprocessors), multiprocessors }
    }

    /// A device with as many multiprocessors as its target's tables say.
    pub fn usual(target: &Target) -> DeviceFacts {
        let usual = target.costs.processors.min(u64::from(u32::MAX)) as u32;
        DeviceFacts::new(target, target.rates.as_ref().map_or(usual, |r| r.multiprocessors))
    }

    /// The target, with this number of multiprocessors in its rates and costs.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Multiprocessors.
    pub fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }
}
