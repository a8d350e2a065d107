//! Memory: buffers of raw little-endian bytes, as a device holds them, with a record of which bytes were ever written.

use super::codec;
use tilelift_ir::num;
use tilelift_ir::types::Scalar;

/// A device allocation. Its base counts as aligned to whatever a view may declare; a device that aligns less checks its addresses.
///
/// An uninitialised buffer reads as poison: a load of a byte that was never written is a fault. Its bytes are `0xff`, which is NaN
/// in every float type, so that a consumer that ignores the record meets NaN.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Buffer {
    bytes: Vec<u8>,
    /// One bit per byte, or `None` when every byte is initialised.
    written: Option<Vec<u64>>,
}

impl Buffer {
    /// A buffer of zero bytes.
    pub fn zeroed(len: usize) -> Buffer {
        Buffer { bytes: vec![0; len], written: None }
    }
    /// A buffer that must be written before it is read.
    pub fn uninit(len: usize) -> Buffer {
        Buffer { bytes: vec![0xff; len], written: Some(vec![0; len.div_ceil(64)]) }
    }
    /// A buffer that must be written before it is read, for `count` elements of a type.
    pub fn uninit_elements(elem: Scalar, count: usize) -> Buffer {
        Buffer::uninit(elem.storage(count))
    }
    /// A buffer with the given bytes.
    pub fn from_bytes(bytes: Vec<u8>) -> Buffer {
        Buffer { bytes, written: None }
    }
    /// A buffer of the given values, each rounded (or truncated, saturated, for integers) to the element type.
    pub fn from_f64(elem: Scalar, values: impl IntoIterator<Item = f64>) -> Buffer {
        Buffer::from_bytes(encode(elem, values.into_iter().map(|x| bits_of_f64(elem, x))))
    }
    /// A buffer of the given values, each wrapped (or rounded, for floats) to the element type.
    pub fn from_i64(elem: Scalar, values: impl IntoIterator<Item = i64>) -> Buffer {
        Buffer::from_bytes(encode(elem, values.into_iter().map(|x| bits_of_i64(elem, x))))
    }
    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
    /// True for a buffer without bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
    /// The bytes; those never written are `0xff`.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    /// The bytes, all of which count as written from now on.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.written = None;
        &mut self.bytes
    }
    /// Writes bytes from an offset on; they count as written, the others as they did. Bytes beyond the end are dropped.
    pub fn write(&mut self, at: usize, bytes: &[u8]) {
        let start = at.min(self.bytes.len());
        let end = at.saturating_add(bytes.len()).min(self.bytes.len());
        self.bytes[start..end].copy_from_slice(&bytes[..end - start]);
        self.mark(start..end);
    }
    /// True if every byte of the range was written (bytes beyond the end never were).
    pub fn is_initialised(&self, range: std::ops::Range<usize>) -> bool {
        range.end <= self.bytes.len()
            && match &self.written {
                None => true,
                Some(w) => range.into_iter().all(|i| w[i / 64] >> (i % 64) & 1 == 1),
            }
    }
    /// Writes values from the start on, as [`Buffer::from_f64`] converts them; values beyond the end are dropped.
    pub fn fill_f64(&mut self, elem: Scalar, values: impl IntoIterator<Item = f64>) {
        let room = elem.held_in(self.bytes.len());
        self.fill_bytes(&encode(elem, values.into_iter().take(room).map(|x| bits_of_f64(elem, x))));
    }
    /// Writes values from the start on, as [`Buffer::from_i64`] converts them; values beyond the end are dropped.
    pub fn fill_i64(&mut self, elem: Scalar, values: impl IntoIterator<Item = i64>) {
        let room = elem.held_in(self.bytes.len());
        self.fill_bytes(&encode(elem, values.into_iter().take(room).map(|x| bits_of_i64(elem, x))));
    }
    fn fill_bytes(&mut self, new: &[u8]) {
        self.bytes[..new.len()].copy_from_slice(new);
        self.mark(0..new.len());
    }
    /// Every element as `f64` (integers converted, so exact up to 53 bits). Bytes never written read as NaN or -1.
    pub fn read_f64(&self, elem: Scalar) -> Vec<f64> {
        let mut out = vec![0.0; elem.held_in(self.bytes.len())];
        if elem.is_float() {
            read_floats(&self.bytes, 0, elem.bytes() as usize, elem, &mut out);
            out
        } else {
            self.read_i64(elem).into_iter().map(|x| x as f64).collect()
        }
    }
    /// Every element as `i64`: the value of an integer, the bits of a float.
    pub fn read_i64(&self, elem: Scalar) -> Vec<i64> {
        let mut out = vec![0; elem.held_in(self.bytes.len())];
        read_ints(&self.bytes, 0, elem.bytes() as usize, elem, &mut out);
        out
    }

    /// True when there is nothing to check on reads.
    pub(crate) fn fully_written(&self) -> bool {
        self.written.is_none()
    }
    pub(crate) fn mark(&mut self, range: std::ops::Range<usize>) {
        if let Some(w) = &mut self.written {
            for i in range {
                w[i / 64] |= 1 << (i % 64);
            }
        }
    }
    pub(crate) fn raw_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

/// The allocations that arguments refer to by index.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// The buffers.
    pub buffers: Vec<Buffer>,
    /// What `print` reported: a line per instruction and program instance, in the order of execution.
    pub printed: Vec<String>,
}

impl Memory {
    /// No buffers.
    pub fn new() -> Memory {
        Memory::default()
    }
    /// Adds a buffer and returns its index.
    pub fn add(&mut self, buffer: Buffer) -> usize {
        self.buffers.push(buffer);
        self.buffers.len() - 1
    }
}

/// The bits of a float value converted to an element type.
pub(crate) fn bits_of_f64(elem: Scalar, x: f64) -> u64 {
    if elem.is_float() { num::to_bits(num::round(x, elem), elem) } else { bits_of_i64(elem, super::codec::float_to_int(x, elem)) }
}

/// The bits of an integer value converted to an element type, sign-extended to 64 bits for integers.
pub(crate) fn bits_of_i64(elem: Scalar, x: i64) -> u64 {
    if elem.is_float() { num::to_bits(super::codec::int_to_float(x, elem), elem) } else { num::wrap(x, elem) as u64 }
}

/// The bytes of neighbouring elements, given their bits. Half a byte that is left over is 0.
pub(crate) fn encode(elem: Scalar, bits: impl Iterator<Item = u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (i, b) in bits.enumerate() {
        match bytes.last_mut() {
            Some(last) if elem.is_packed() && i % 2 == 1 => *last |= (b as u8 & 15) << 4,
            _ if elem.is_packed() => bytes.push(b as u8 & 15),
            _ => bytes.extend_from_slice(&b.to_le_bytes()[..elem.bytes() as usize]),
        }
    }
    bytes
}

/// The bits of neighbouring packed elements from byte `at` on.
fn halves(bytes: &[u8], at: usize) -> impl Iterator<Item = u64> + '_ {
    bytes[at..].iter().flat_map(|b| [u64::from(b & 15), u64::from(b >> 4)])
}

/// Reads `out.len()` elements that are `stride` bytes apart. The caller has checked that all of them lie in `bytes`.
fn gather<const N: usize, T>(bytes: &[u8], at: usize, stride: usize, out: &mut [T], f: impl Fn([u8; N]) -> T) {
    if stride == N {
        let (chunks, _) = bytes[at..at + N * out.len()].as_chunks::<N>();
        out.iter_mut().zip(chunks).for_each(|(o, &c)| *o = f(c));
    } else {
        for (i, o) in out.iter_mut().enumerate() {
            let mut c = [0; N];
            c.copy_from_slice(&bytes[at + i * stride..at + i * stride + N]);
            *o = f(c);
        }
    }
}

/// Reads floats; see [`gather`]. Packed elements are neighbours, the first in the low half of its byte.
pub(crate) fn read_floats(bytes: &[u8], at: usize, stride: usize, elem: Scalar, out: &mut [f64]) {
    match elem {
        Scalar::F16 => gather(bytes, at, stride, out, |b| codec::f16_value(u16::from_le_bytes(b))),
        Scalar::BF16 => gather(bytes, at, stride, out, |b| codec::bf16_value(u16::from_le_bytes(b))),
        Scalar::F32 => gather(bytes, at, stride, out, |b| f64::from(f32::from_le_bytes(b))),
        Scalar::F64 => gather(bytes, at, stride, out, f64::from_le_bytes),
        Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz | Scalar::F8E8M0 => {
            gather(bytes, at, stride, out, |[b]| num::from_bits(u64::from(b), elem));
        }
        Scalar::F4E2M1 => out.iter_mut().zip(halves(bytes, at)).for_each(|(o, b)| *o = num::from_bits(b, elem)),
        Scalar::I4 => out.iter_mut().zip(halves(bytes, at)).for_each(|(o, b)| *o = num::wrap(b as i64, elem) as f64),
        Scalar::I1 | Scalar::I8 => gather(bytes, at, stride, out, |b| f64::from(i8::from_le_bytes(b))),
        Scalar::I16 => gather(bytes, at, stride, out, |b| f64::from(i16::from_le_bytes(b))),
        Scalar::I32 => gather(bytes, at, stride, out, |b| f64::from(i32::from_le_bytes(b))),
        Scalar::I64 => gather(bytes, at, stride, out, |b| i64::from_le_bytes(b) as f64),
    }
}

/// Reads integers (of a float type, its bits); see [`gather`]. An `i1` is true if its byte is not 0.
pub(crate) fn read_ints(bytes: &[u8], at: usize, stride: usize, elem: Scalar, out: &mut [i64]) {
    match elem {
        Scalar::I1 => gather(bytes, at, stride, out, |[b]| i64::from(b != 0)),
        Scalar::I8 => gather(bytes, at, stride, out, |b| i64::from(i8::from_le_bytes(b))),
        Scalar::I16 => gather(bytes, at, stride, out, |b| i64::from(i16::from_le_bytes(b))),
        Scalar::I32 => gather(bytes, at, stride, out, |b| i64::from(i32::from_le_bytes(b))),
        Scalar::F16 | Scalar::BF16 => gather(bytes, at, stride, out, |b| i64::from(u16::from_le_bytes(b))),
        Scalar::F32 => gather(bytes, at, stride, out, |b| i64::from(u32::from_le_bytes(b))),
        Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz | Scalar::F8E8M0 => {
            gather(bytes, at, stride, out, |[b]| i64::from(b));
        }
        Scalar::F4E2M1 | Scalar::I4 => out.iter_mut().zip(halves(bytes, at)).for_each(|(o, b)| *o = num::wrap(b as i64, elem)),
        Scalar::I64 | Scalar::F64 => gather(bytes, at, stride, out, i64::from_le_bytes),
    }
}

/// Writes elements that are `stride` bytes apart. The caller has checked that all of them lie in `bytes`.
fn scatter<const N: usize, T: Copy>(bytes: &mut [u8], at: usize, stride: usize, values: &[T], f: impl Fn(T) -> [u8; N]) {
    if stride == N {
        let (chunks, _) = bytes[at..at + N * values.len()].as_chunks_mut::<N>();
        chunks.iter_mut().zip(values).for_each(|(c, &v)| *c = f(v));
    } else {
        for (i, &v) in values.iter().enumerate() {
            bytes[at + i * stride..at + i * stride + N].copy_from_slice(&f(v));
        }
    }
}

/// Writes floats; see [`scatter`]. Packed elements are neighbours and come in pairs.
pub(crate) fn write_floats(bytes: &mut [u8], at: usize, stride: usize, elem: Scalar, values: &[f64]) {
    match elem {
        Scalar::F16 => scatter(bytes, at, stride, values, |x| codec::f16_bits(x).to_le_bytes()),
        Scalar::BF16 => scatter(bytes, at, stride, values, |x| codec::bf16_bits(x).to_le_bytes()),
        Scalar::F32 => scatter(bytes, at, stride, values, |x| codec::f32_bits(x).to_le_bytes()),
        Scalar::F64 => scatter(bytes, at, stride, values, f64::to_le_bytes),
        Scalar::F8E4M3 | Scalar::F8E5M2 | Scalar::F8E4M3Fnuz | Scalar::F8E5M2Fnuz | Scalar::F8E8M0 => {
            scatter(bytes, at, stride, values, |x| [num::to_bits(x, elem) as u8]);
        }
        Scalar::F4E2M1 | Scalar::I4 => {
            let new = encode(elem, values.iter().map(|&x| bits_of_f64(elem, x)));
            bytes[at..at + new.len()].copy_from_slice(&new);
        }
        // Integers come through `write_ints`; a float value is converted as `cast` does.
        Scalar::I1 | Scalar::I8 => scatter(bytes, at, stride, values, |x| [bits_of_f64(elem, x) as u8]),
        Scalar::I16 => scatter(bytes, at, stride, values, |x| (bits_of_f64(elem, x) as u16).to_le_bytes()),
        Scalar::I32 => scatter(bytes, at, stride, values, |x| (bits_of_f64(elem, x) as u32).to_le_bytes()),
        Scalar::I64 => scatter(bytes, at, stride, values, |x| bits_of_f64(elem, x).to_le_bytes()),
    }
}

/// Writes integers (or the bits of floats); see [`scatter`].
pub(crate) fn write_ints(bytes: &mut [u8], at: usize, stride: usize, elem: Scalar, values: &[i64]) {
    match elem.bytes() {
        _ if elem.is_packed() => {
            let new = encode(elem, values.iter().map(|&x| x as u64));
            bytes[at..at + new.len()].copy_from_slice(&new);
        }
        1 => scatter(bytes, at, stride, values, |x| [x as u8]),
        2 => scatter(bytes, at, stride, values, |x| (x as u16).to_le_bytes()),
        4 => scatter(bytes, at, stride, values, |x| (x as u32).to_le_bytes()),
        _ => scatter(bytes, at, stride, values, i64::to_le_bytes),
    }
}
