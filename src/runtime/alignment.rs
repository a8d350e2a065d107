//! The alignment of borrowed memory. The check of arguments knows buffers by their lengths and takes them for aligned, as allocations are;
//! memory of a host need not be.

use tilelift_interp::Arg;
use tilelift_ir::{Kernel, Type};

/// Alignment that drivers give their allocations and the argument check assumes, in bytes.
const BASE_ALIGN: u64 = 256;

/// A view that is less aligned than its parameter promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Misaligned {
    /// The kernel parameter.
    pub(super) param: usize,
    /// The address of its first element.
    pub(super) address: u64,
    /// The promised alignment in bytes.
    pub(super) align: u32,
}

/// The first view that breaks its promise; `base` gives the address of a buffer by index. The arguments must have passed the check.
pub(super) fn misaligned(kernel: &Kernel, args: &[Arg], base: impl Fn(usize) -> u64) -> Option<Misaligned> {
    args.iter().enumerate().find_map(|(param, arg)| {
        let (Arg::View(v), Type::View(t)) = (arg, kernel.ty(kernel.params[param])) else { return None };
        let (base, align) = (base(v.buffer), t.align.max(t.elem.bytes()));
        let address = base + v.offset_bytes;
        let broken = !base.is_multiple_of(BASE_ALIGN) && !address.is_multiple_of(u64::from(align));
        broken.then_some(Misaligned { param, address, align })
    })
}
