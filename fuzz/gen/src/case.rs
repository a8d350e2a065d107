//! A case: a kernel with a grid and arguments, and how its outputs are compared.

use crate::data::{self, Init};
use std::fmt::Write;
use tilelift_interp::{Arg, Buffer, Memory, ScalarArg, ViewArg};
use tilelift_ir::{Kernel, Scalar, num, text};

/// How far an output may be from the interpreter's.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Tolerance {
    /// Relative to the interpreter's number.
    pub rel: f64,
    /// Absolute.
    pub abs: f64,
}

/// A tensor in a buffer of its own.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    /// Element type.
    pub elem: Scalar,
    /// Extents.
    pub shape: Vec<i64>,
    /// Strides in elements.
    pub strides: Vec<i64>,
    /// True if the strides are those of a dense row-major tensor.
    pub dense: bool,
    /// Where the tensor starts in its buffer, in bytes.
    pub offset: u64,
    /// Contents in front of the launch.
    pub init: Init,
    /// Tolerance of the outputs; `None` asks for equal bits.
    pub tolerance: Option<Tolerance>,
}

/// A kernel argument.
#[derive(Clone, PartialEq, Debug)]
pub enum Param {
    /// A number.
    Scalar(ScalarArg),
    /// A tensor.
    Tensor(Tensor),
}

/// A runnable kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct Case {
    /// The kernel; its hints are the schedule to try.
    pub kernel: Kernel,
    /// The grid.
    pub grid: [u32; 3],
    /// One per kernel parameter.
    pub params: Vec<Param>,
}

impl Tensor {
    fn view(&self, buffer: usize) -> ViewArg {
        ViewArg::dense(buffer, self.elem, &self.shape).at(self.offset).with_strides(&self.strides)
    }

    /// Positions of the elements in the buffer, in half bytes, row-major.
    fn positions(&self) -> Vec<usize> {
        let mut list = vec![2 * self.offset as usize];
        for (&extent, &stride) in self.shape.iter().zip(&self.strides) {
            let step = stride as usize * self.halves() as usize;
            list = list.into_iter().flat_map(|p| (0..extent as usize).map(move |i| p + i * step)).collect();
        }
        list
    }

    /// Half bytes of an element.
    fn halves(&self) -> u32 {
        if self.elem.is_packed() { 1 } else { 2 * self.elem.bytes() }
    }

    /// The bits at a position.
    fn read(&self, bytes: &[u8], at: usize) -> u64 {
        if self.elem.is_packed() {
            let half = u64::from(bytes[at / 2] >> (at % 2 * 4) & 15);
            return if self.elem.is_float() { half } else { num::wrap(half as i64, self.elem) as u64 };
        }
        let (at, width) = (at / 2, self.elem.bytes() as usize);
        let mut raw = [0; 8];
        raw[..width].copy_from_slice(&bytes[at..at + width]);
        u64::from_le_bytes(raw)
    }

    fn write(&self, bytes: &mut [u8], at: usize, bits: u64) {
        if self.elem.is_packed() {
            let shift = at % 2 * 4;
            let byte = &mut bytes[at / 2];
            *byte = *byte & !(15 << shift) | (bits as u8 & 15) << shift;
            return;
        }
        let (at, width) = (at / 2, self.elem.bytes() as usize);
        bytes[at..at + width].copy_from_slice(&bits.to_le_bytes()[..width]);
    }

    fn buffer(&self) -> Buffer {
        let len = self.view(0).byte_range().end as usize;
        // What no element covers is NaN and -1; whoever writes it is found out.
        let mut bytes = vec![0xff; len];
        for (i, at) in self.positions().into_iter().enumerate() {
            self.write(&mut bytes, at, data::element(&self.init, i as u64, self.elem));
        }
        Buffer::from_bytes(bytes)
    }
}

impl Case {
    /// The arguments; buffer `i` belongs to the `i`-th tensor.
    pub fn args(&self) -> Vec<Arg> {
        let mut buffers = 0..;
        self.params
            .iter()
            .map(|p| match p {
                Param::Scalar(s) => Arg::Scalar(*s),
                Param::Tensor(t) => t.view(buffers.next().unwrap_or_default()).into(),
            })
            .collect()
    }

    /// The same, whose outputs have to have equal bits.
    pub(crate) fn exact(&self) -> Case {
        let mut out = self.clone();
        for p in &mut out.params {
            if let Param::Tensor(t) = p {
                t.tolerance = None;
            }
        }
        out
    }

    /// The tensors, in the order of their buffers.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.params.iter().filter_map(|p| if let Param::Tensor(t) = p { Some(t) } else { None })
    }

    /// The memory in front of the launch.
    pub fn memory(&self) -> Memory {
        Memory { buffers: self.tensors().map(Tensor::buffer).collect(), ..Memory::default() }
    }

    /// The case as a `.tile` file test that runs it: the kernel and a `; run:` line.
    pub fn to_tile_text(&self) -> String {
        let mut out = String::from("; test run\n; target sm_80, gfx942\n");
        out.push_str(&text::print(&self.kernel));
        let [x, y, z] = self.grid;
        let _ = write!(out, "; run: @{}(grid=[{x}, {y}, {z}]", self.kernel.name);
        let mut tolerance: Option<Tolerance> = None;
        for (i, p) in self.params.iter().enumerate() {
            let _ = write!(out, ", v{i}=");
            match p {
                Param::Scalar(s) => out.push_str(&data::number(s.bits(), s.elem())),
                Param::Tensor(t) => {
                    let count = t.shape.iter().product::<i64>() as u64;
                    let _ = write!(out, "{}{:?}", data::text(&t.init, count, t.elem), t.shape);
                    if !t.dense {
                        let _ = write!(out, "@{:?}", t.strides);
                    }
                    if t.offset != 0 {
                        let _ = write!(out, "+{}", t.offset);
                    }
                    if let Some(t) = t.tolerance {
                        let old = tolerance.unwrap_or_default();
                        tolerance = Some(Tolerance { rel: old.rel.max(t.rel), abs: old.abs.max(t.abs) });
                    }
                }
            }
        }
        out.push(')');
        if let Some(t) = tolerance {
            let _ = write!(out, " tol rel={:e} abs={:e}", t.rel, t.abs);
        }
        out.push('\n');
        out
    }

    /// The first difference between what two runs left in memory, as a sentence; `None` if `got` is as good as `want`.
    pub fn difference(&self, want: &Memory, got: &Memory) -> Option<String> {
        let mut buffer = 0;
        for (param, p) in self.params.iter().enumerate() {
            let Param::Tensor(t) = p else { continue };
            let found = tensor_difference(t, want.buffers[buffer].bytes(), got.buffers[buffer].bytes());
            if let Some(d) = found {
                return Some(format!("v{param}: {d}"));
            }
            buffer += 1;
        }
        None
    }
}

fn tensor_difference(t: &Tensor, want: &[u8], got: &[u8]) -> Option<String> {
    if want == got {
        return None;
    }
    let mut covered = vec![false; want.len()];
    let places = t.positions();
    let (mut wrong, mut first) = (0, None);
    for (i, &at) in places.iter().enumerate() {
        covered[at / 2..(at + t.halves() as usize).div_ceil(2)].fill(true);
        let (w, g) = (t.read(want, at), t.read(got, at));
        if w != g && !close(t, w, g) {
            wrong += 1;
            first.get_or_insert((i, w, g));
        }
    }
    if let Some((i, w, g)) = first {
        let mut rest = i as i64;
        let mut at: Vec<i64> = t.shape.iter().rev().map(|&e| (rest % e.max(1), rest /= e.max(1)).0).collect();
        at.reverse();
        let (w, g) = (data::number(w, t.elem), data::number(g, t.elem));
        return Some(format!("{wrong} of {} elements differ, first at {at:?}: {g} instead of {w}", places.len()));
    }
    let at = (0..want.len()).find(|&i| !covered[i] && want[i] != got[i])?;
    Some(format!("byte {at}, which no element covers, was written"))
}

/// True if the bits of a float are as good as those wanted; integers must have equal bits.
fn close(t: &Tensor, want: u64, got: u64) -> bool {
    if !t.elem.is_float() {
        return false;
    }
    let (w, g) = (num::from_bits(want, t.elem), num::from_bits(got, t.elem));
    if w.is_nan() || g.is_nan() {
        return w.is_nan() && g.is_nan();
    }
    let Some(tolerance) = t.tolerance else { return false };
    // Infinity counts as the first number beyond the range, so that results around the overflow threshold are near each other.
    let finite = |x: f64| if x.is_infinite() { num::from_bits(data::largest(t.elem), t.elem).copysign(x) } else { x };
    let distance = (finite(w) - finite(g)).abs();
    // One unit of the type besides: the interpreter's own rounding may have fallen on the other side.
    let sign = 1u64 << (t.elem.bits() - 1);
    let order = |b: u64| if b & sign == 0 { i128::from(b) } else { -i128::from(b & !sign) };
    distance <= tolerance.abs + tolerance.rel * finite(w).abs() || (order(want) - order(got)).abs() <= 1
}
