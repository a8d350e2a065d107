//! What machines can do at most, from data sheets and measurements: the denominators of shares.

use tilelift_ir::Scalar;

/// Peaks of a product line, in TFLOP/s of dense products on tensor cores with f32 sums.
struct Peaks {
    /// Part of the device's name.
    name: &'static str,
    /// bf16 and f16.
    half: f64,
    tf32: f64,
    /// 8-bit floats and integers.
    byte: f64,
}

/// Data sheets: "NVIDIA H200/H100 Tensor Core GPU" (SXM), "NVIDIA A100 Tensor Core GPU", "NVIDIA L40S"; dense rates.
const PEAKS: &[Peaks] = &[
    Peaks { name: "H200", half: 989.4, tf32: 494.7, byte: 1978.9 },
    Peaks { name: "H100 80GB HBM3", half: 989.4, tf32: 494.7, byte: 1978.9 },
    Peaks { name: "A100", half: 312.0, tf32: 156.0, byte: 624.0 },
    Peaks { name: "L40S", half: 362.05, tf32: 183.0, byte: 733.0 },
];

/// What `mma.sync` reaches on an H200 with nothing else to do, in TFLOP/s at 1.73 GHz: 2723 (bf16, f16) and 1361 (tf32) operations
/// per clock and multiprocessor on 132 of them. Measured with eight independent accumulators a warp.
const H200_MMA_SYNC: (f64, f64) = (623.0, 311.0);

/// The data-sheet peak in TFLOP/s for products of an element type, if the device is known.
pub(crate) fn tensor_peak(device: &str, elem: Scalar) -> Option<f64> {
    PEAKS.iter().find(|m| device.contains(m.name)).map(|m| match elem.bytes() {
        1 => m.byte,
        4 => m.tf32,
        _ => m.half,
    })
}

/// What the instruction `mma.sync` can reach in TFLOP/s, where that is less than the peak and was measured.
pub(crate) fn mma_sync_ceiling(device: &str, elem: Scalar) -> Option<f64> {
    let rate = match elem.bytes() {
        2 => H200_MMA_SYNC.0,
        4 => H200_MMA_SYNC.1,
        _ => return None,
    };
    device.contains("H200").then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_devices_have_limits_and_others_have_none() {
        assert_eq!(tensor_peak("NVIDIA H200", Scalar::BF16), Some(989.4));
        assert_eq!(tensor_peak("NVIDIA A100-SXM4-80GB", Scalar::F32), Some(156.0));
        assert_eq!(tensor_peak("NVIDIA GeForce GT 710", Scalar::F16), None);
        assert_eq!(tensor_peak("NVIDIA H200", Scalar::F8E4M3), Some(1978.9));
        assert_eq!(mma_sync_ceiling("NVIDIA H200", Scalar::F16), Some(623.0));
        assert_eq!(mma_sync_ceiling("NVIDIA H200", Scalar::I8), None);
        assert_eq!(mma_sync_ceiling("NVIDIA A100-SXM4-80GB", Scalar::F16), None);
    }
}
