//! Numbers on the host: bf16, and random ones that depend on a seed and a place alone.

/// Rounds to bf16, to nearest even; the bits.
pub(crate) fn to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

pub(crate) fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The nearest bf16 of a number of f64. Through f32 it would round twice, which matters to one number in 65,536.
pub(crate) fn round_bf16(x: f64) -> f64 {
    f64::from(from_bf16(to_bf16(x as f32)))
}

pub(crate) fn bf16s(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(2).map(|b| from_bf16(u16::from_le_bytes([b[0], b[1]]))).collect()
}

pub(crate) fn f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

pub(crate) fn i32s(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

pub(crate) fn bytes_of_i32(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

pub(crate) fn bytes_of_f32(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Splitmix64 of a place in a stream.
pub(crate) fn random(seed: u64, at: u64) -> u64 {
    let mut z = seed.wrapping_add(at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// So many bf16 numbers around `middle`, evenly spread over `middle - reach .. middle + reach`, as bytes.
pub(crate) fn spread(seed: u64, count: usize, middle: f32, reach: f32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(2 * count);
    for at in 0..count.div_ceil(4) {
        let word = random(seed, at as u64);
        for part in 0..4.min(count - 4 * at) {
            let unit = (word >> (16 * part) & 0xffff) as f32 / 32768.0 - 1.0;
            bytes.extend_from_slice(&to_bf16(middle + reach * unit).to_le_bytes());
        }
    }
    bytes
}
