//! Arguments of a launch, and the check that they keep what the kernel's parameter types promise.
//!
//! Every device runs this check before it launches, so that a kernel may rely on the facts (`?%64`, alignment, density) without
//! testing them, and so that no element of a view lies outside its buffer.

use super::memory::{Memory, bits_of_f64, bits_of_i64};
use crate::error::ArgError;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use tilelift_ir::Value;
use tilelift_ir::kernel::Kernel;
use tilelift_ir::ops::{Effects, Op};
use tilelift_ir::types::{Extent, Scalar, Type, ViewType};

/// An argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Arg {
    /// A tensor in memory.
    View(ViewArg),
    /// A number.
    Scalar(ScalarArg),
}

/// A tensor: a place in a buffer with extents and strides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ViewArg {
    /// Index of the buffer in [`Memory::buffers`] (or of the device's own list of allocations).
    pub buffer: usize,
    /// Where element 0, 0, … starts in the buffer.
    pub offset_bytes: u64,
    /// Element type.
    pub elem: Scalar,
    /// Extents, outermost first.
    pub shape: SmallVec<[i64; 4]>,
    /// Strides in elements.
    pub strides: SmallVec<[i64; 4]>,
}

impl ViewArg {
    /// A dense row-major tensor at the start of a buffer.
    pub fn dense(buffer: usize, elem: Scalar, shape: &[i64]) -> ViewArg {
        let mut strides: SmallVec<[i64; 4]> = SmallVec::from_elem(1, shape.len());
        for d in (1..shape.len()).rev() {
            strides[d - 1] = strides[d].saturating_mul(shape[d]);
        }
        ViewArg { buffer, offset_bytes: 0, elem, shape: SmallVec::from_slice(shape), strides }
    }
    /// The same view starting elsewhere in the buffer.
    pub fn at(mut self, offset_bytes: u64) -> ViewArg {
        self.offset_bytes = offset_bytes;
        self
    }
    /// The same view with other strides, in elements.
    pub fn with_strides(mut self, strides: &[i64]) -> ViewArg {
        self.strides = SmallVec::from_slice(strides);
        self
    }
    /// The bytes from the first to the end of the last element (empty if an extent is 0). Wide enough not to overflow.
    ///
    /// Assumes extents and strides that are not negative, which [`check_args`] ensures.
    pub fn byte_range(&self) -> std::ops::Range<u128> {
        let start = u128::from(self.offset_bytes);
        if self.shape.contains(&0) {
            return start..start;
        }
        let last = self
            .shape
            .iter()
            .zip(&self.strides)
            .fold(0u128, |n, (&e, &s)| n.saturating_add(u128::from((e - 1).unsigned_abs()) * u128::from(s.unsigned_abs())));
        let elements = last.saturating_add(1);
        let bytes = if self.elem.is_packed() { elements.div_ceil(2) } else { elements.saturating_mul(u128::from(self.elem.bytes())) };
        start..start.saturating_add(bytes)
    }
}

impl From<ViewArg> for Arg {
    fn from(v: ViewArg) -> Arg {
        Arg::View(v)
    }
}

/// A number of an element type, kept as its bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScalarArg {
    elem: Scalar,
    bits: u64,
}

impl ScalarArg {
    /// An integer, wrapped to the type (rounded, if that is a float type).
    pub fn int(elem: Scalar, value: i64) -> ScalarArg {
        ScalarArg { elem, bits: bits_of_i64(elem, value) }
    }
    /// A float, rounded to the type (truncated and saturated, if that is an integer type).
    pub fn float(elem: Scalar, value: f64) -> ScalarArg {
        ScalarArg { elem, bits: bits_of_f64(elem, value) }
    }
    /// The element type.
    pub fn elem(self) -> Scalar {
        self.elem
    }
    /// The bits; integers are sign-extended to 64.
    pub fn bits(self) -> u64 {
        self.bits
    }
}

impl From<ScalarArg> for Arg {
    fn from(v: ScalarArg) -> Arg {
        Arg::Scalar(v)
    }
}

/// Checks arguments against a kernel's parameters and against the buffers they refer to.
///
/// # Errors
/// The first broken promise, in the order of the parameters; then overlaps of a written view with another.
pub fn check_args(kernel: &Kernel, args: &[Arg], memory: &Memory) -> Result<(), ArgError> {
    let lens: Vec<u64> = memory.buffers.iter().map(|b| b.len() as u64).collect();
    check_args_in(kernel, args, &lens)
}

/// As [`check_args`], for memory of which only the lengths of the buffers (in bytes) are known, such as a device's.
///
/// # Errors
/// As [`check_args`].
pub fn check_args_in(kernel: &Kernel, args: &[Arg], buffers: &[u64]) -> Result<(), ArgError> {
    let types: SmallVec<[&Type; 8]> = kernel.params.iter().map(|&p| kernel.ty(p)).collect();
    check_args_of(&types, &written_params(kernel), &[], args, buffers)
}

/// As [`check_args_in`], where of the kernel only the types of its parameters and the numbers of those that it writes are known. `in_place` has pairs of
/// parameters that have to be one view.
///
/// # Errors
/// As [`check_args`].
pub fn check_args_of(
    types: &[&Type],
    written: &[usize],
    in_place: &[(usize, usize)],
    args: &[Arg],
    buffers: &[u64],
) -> Result<(), ArgError> {
    if args.len() != types.len() {
        return Err(ArgError::Count { want: types.len(), got: args.len() });
    }
    for (param, (arg, &ty)) in args.iter().zip(types).enumerate() {
        match (arg, ty) {
            (Arg::View(a), Type::View(t)) => check_view(param, a, t, buffers)?,
            (Arg::Scalar(a), Type::Scalar(want)) => {
                if a.elem != *want {
                    return Err(ArgError::Element { param, want: *want, got: a.elem });
                }
            }
            (
                Arg::View(_) | Arg::Scalar(_),
                t @ (Type::View(_) | Type::Scalar(_) | Type::Tile(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_)),
            ) => {
                return Err(ArgError::Kind { param, want: t.to_string() });
            }
        }
    }
    for &(output, input) in in_place {
        if args.get(output) != args.get(input) {
            return Err(ArgError::NotInPlace { output, input });
        }
    }
    let one = |a: usize, b: usize| in_place.iter().any(|&(x, y)| (x, y) == (a, b) || (y, x) == (a, b));
    for &written in written {
        let Some(Arg::View(w)) = args.get(written) else { continue };
        if self_overlaps(w) {
            return Err(ArgError::SelfOverlap { param: written });
        }
        let r = w.byte_range();
        for (other, arg) in args.iter().enumerate() {
            if let Arg::View(o) = arg
                && other != written
                && !one(written, other)
                && o.buffer == w.buffer
            {
                let q = o.byte_range();
                if r.start.max(q.start) < r.end.min(q.end) {
                    return Err(ArgError::Overlap { written, other });
                }
            }
        }
    }
    Ok(())
}

/// The numbers of the parameters that some instruction of the kernel writes or updates, ascending.
pub fn written_params(kernel: &Kernel) -> Vec<usize> {
    params_of(kernel, |op| matches!(op.info().effects.global(), Effects::Writes | Effects::Updates))
}

/// The numbers of the parameters that are the first operand of some op of a kind, ascending.
pub(crate) fn params_of(kernel: &Kernel, of_kind: impl Fn(Op) -> bool) -> Vec<usize> {
    let mut views: BTreeSet<Value> = BTreeSet::new();
    kernel.walk(kernel.body, &mut |inst| {
        let d = &kernel.insts[inst];
        if of_kind(d.op) {
            views.extend(d.args.first());
        }
    });
    (0..kernel.params.len()).filter(|&p| views.contains(&kernel.params[p])).collect()
}

fn holds(fact: Extent, got: i64) -> bool {
    match fact {
        Extent::Fixed(n) => got == i64::from(n),
        Extent::Dynamic(d) => d != 0 && got % i64::from(d) == 0,
    }
}

fn check_view(param: usize, a: &ViewArg, t: &ViewType, buffers: &[u64]) -> Result<(), ArgError> {
    if a.elem != t.elem {
        return Err(ArgError::Element { param, want: t.elem, got: a.elem });
    }
    if a.shape.len() != t.rank() || a.strides.len() != t.rank() {
        return Err(ArgError::Rank { param, want: t.rank(), extents: a.shape.len(), strides: a.strides.len() });
    }
    for (dim, (&got, &fact)) in a.shape.iter().zip(&t.dims).enumerate() {
        if !(0..=i64::from(i32::MAX)).contains(&got) {
            return Err(ArgError::ExtentRange { param, dim, got });
        }
        if !holds(fact, got) {
            return Err(ArgError::Extent { param, dim, fact, got });
        }
    }
    for (dim, &got) in a.strides.iter().enumerate() {
        if got < 0 {
            return Err(ArgError::StrideRange { param, dim, got });
        }
    }
    match &t.strides {
        Some(facts) => {
            for (dim, (&got, &fact)) in a.strides.iter().zip(facts).enumerate() {
                if !holds(fact, got) {
                    return Err(ArgError::Stride { param, dim, fact, got });
                }
            }
        }
        None if a.shape.contains(&0) => {}
        None => {
            let mut want = 1i64;
            for (dim, (&extent, &got)) in a.shape.iter().zip(&a.strides).enumerate().rev() {
                // A dimension of extent 1 is never stepped along, so its stride says nothing.
                if extent != 1 && got != want {
                    return Err(ArgError::NotDense { param, dim, want, got });
                }
                want = want.saturating_mul(extent);
            }
        }
    }
    let align = t.align.max(t.elem.bytes());
    if !a.offset_bytes.is_multiple_of(u64::from(align)) {
        return Err(ArgError::Alignment { param, align, offset: a.offset_bytes });
    }
    let Some(&len) = buffers.get(a.buffer) else {
        return Err(ArgError::Buffer { param, buffer: a.buffer, count: buffers.len() });
    };
    let end = a.byte_range().end;
    if end > u128::from(len) {
        return Err(ArgError::Outside { param, end, len });
    }
    Ok(())
}

/// True unless each stride steps over everything that the smaller strides reach (sufficient for distinct places, and met by every
/// slice, transpose and padding of a dense tensor).
fn self_overlaps(a: &ViewArg) -> bool {
    if a.shape.contains(&0) {
        return false;
    }
    let mut dims: SmallVec<[(i64, i64); 4]> = a.shape.iter().zip(&a.strides).filter(|(e, _)| **e > 1).map(|(&e, &s)| (s, e)).collect();
    dims.sort_unstable();
    let mut reach = 0i128;
    for (stride, extent) in dims {
        if i128::from(stride) <= reach {
            return true;
        }
        reach += i128::from(extent - 1) * i128::from(stride);
    }
    false
}
