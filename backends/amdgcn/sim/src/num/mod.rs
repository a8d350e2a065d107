//! Numbers of the machine: 16-bit and 8-bit floats, flushing of denormals, integer helpers.

mod small;

pub(crate) use small::{BF16, F16, Small, bf8, fp4, fp8};

/// What of the mode register and the instruction the arithmetic depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Env {
    /// Denormal f32 sources are zero.
    pub flush_in32: bool,
    /// Denormal f32 results are zero.
    pub flush_out32: bool,
    /// Denormal f16 and f64 sources are zero.
    pub flush_in16: bool,
    /// Denormal f16 and f64 results are zero.
    pub flush_out16: bool,
    /// The instruction clamps: integers saturate.
    pub clamp: bool,
    /// The 8-bit floats are those of gfx942.
    pub fnuz: bool,
    /// The rounding mode of f16 and f64: 0 to nearest even, 1 up, 2 down, 3 to zero.
    pub round16: u8,
}

impl Env {
    pub fn of_mode(mode: u32, clamp: bool, fnuz: bool) -> Env {
        Env {
            flush_in32: mode & 0x10 == 0,
            flush_out32: mode & 0x20 == 0,
            flush_in16: mode & 0x40 == 0,
            flush_out16: mode & 0x80 == 0,
            clamp,
            fnuz,
            round16: (mode >> 2 & 3) as u8,
        }
    }
}

/// An f32 source.
pub(crate) fn x32(e: &Env, bits: u64) -> f32 {
    let x = f32::from_bits(bits as u32);
    if e.flush_in32 && x.is_subnormal() { 0f32.copysign(x) } else { x }
}

/// An f32 result.
pub(crate) fn r32(e: &Env, x: f32) -> u64 {
    let x = if e.flush_out32 && x.is_subnormal() { 0f32.copysign(x) } else { x };
    u64::from(x.to_bits())
}

/// An f64 source.
pub(crate) fn x64(e: &Env, bits: u64) -> f64 {
    let x = f64::from_bits(bits);
    if e.flush_in16 && x.is_subnormal() { 0f64.copysign(x) } else { x }
}

/// An f64 result.
pub(crate) fn r64(e: &Env, x: f64) -> u64 {
    let x = if e.flush_out16 && x.is_subnormal() { 0f64.copysign(x) } else { x };
    x.to_bits()
}

/// An f16 source, exact in f64.
pub(crate) fn x16(e: &Env, bits: u64) -> f64 {
    let bits = bits & 0xffff;
    if e.flush_in16 && bits & 0x7c00 == 0 { 0f64.copysign(F16.decode(bits as u32)) } else { F16.decode(bits as u32) }
}

/// An f16 result, rounded once from f64.
pub(crate) fn r16(e: &Env, x: f64) -> u64 {
    let bits = match e.round16 {
        0 => F16.encode(x),
        mode => F16.encode_directed(x, mode),
    };
    u64::from(if e.flush_out16 && bits & 0x7c00 == 0 { bits & 0x8000 } else { bits })
}

/// Sign-extends the low bits of a value.
pub(crate) fn sext(v: u64, bits: u32) -> i64 {
    if bits == 0 {
        return 0;
    }
    ((v << (64 - bits)) as i64) >> (64 - bits)
}

/// The low bits set.
pub(crate) fn ones(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}
