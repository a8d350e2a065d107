//! Arguments against what the kernel promises.
//!
//! Buffers are known by number and length. A host that lends memory may lend the same bytes under two numbers, and memory that is aligned as no
//! allocation is: where addresses are known, both are seen.

use crate::artifact::{Argument, Artifact};
use tilelift_interp::{Arg, ArgError, check_args_of};
use tilelift_ir::Type;

/// Alignment that drivers give their allocations and the check of arguments assumes, in bytes.
const BASE_ALIGN: u64 = 256;

/// Checks arguments against what an artifact's kernel promises, and against the lengths of the buffers (in bytes) that they refer to by number:
/// the check of the interpreter, so that what one device accepts is accepted by all.
///
/// # Errors
/// The first broken promise, in the order of the parameters; then overlaps of a written view with another.
pub fn check(artifact: &Artifact, args: &[Arg], buffers: &[u64]) -> Result<(), ArgError> {
    let types: Vec<Type> = artifact.arguments.iter().map(Argument::ty).collect();
    let written: Vec<usize> = (0..types.len()).filter(|&n| artifact.arguments[n].is_written()).collect();
    let in_place: Vec<(usize, usize)> = artifact.in_place.iter().map(|&(o, i)| (o as usize, i as usize)).collect();
    check_args_of(&types.iter().collect::<Vec<_>>(), &written, &in_place, args, buffers)?;
    args.iter().enumerate().try_for_each(|(param, arg)| multiple(artifact, param, arg))
}

/// Whether a number is the multiple that the kernel assumes it to be.
pub(super) fn multiple(artifact: &Artifact, param: usize, arg: &Arg) -> Result<(), ArgError> {
    match (artifact.arguments.get(param), arg) {
        (Some(Argument::Scalar { elem, multiple_of }), Arg::Scalar(number))
            if elem.is_int() && !(number.bits() as i64).unsigned_abs().is_multiple_of(u64::from(*multiple_of)) =>
        {
            Err(ArgError::Multiple { param, multiple_of: *multiple_of, got: number.bits() as i64 })
        }
        _ => Ok(()),
    }
}

/// A view that is less aligned than its parameter promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Misaligned {
    /// The kernel parameter.
    pub param: usize,
    /// The address of its first element.
    pub address: u64,
    /// The promised alignment in bytes.
    pub align: u32,
}

/// The first view that breaks its promise of alignment; `base` gives the address of a buffer by number. The arguments must have passed [`check`].
pub fn misaligned(artifact: &Artifact, args: &[Arg], base: impl Fn(usize) -> u64) -> Option<Misaligned> {
    args.iter().zip(&artifact.arguments).enumerate().find_map(|(param, (arg, promised))| {
        let Arg::View(v) = arg else { return None };
        let (base, align) = (base(v.buffer), promised.align());
        let address = base.wrapping_add(v.offset_bytes);
        let broken = !base.is_multiple_of(BASE_ALIGN) && !address.is_multiple_of(u64::from(align));
        broken.then_some(Misaligned { param, address, align })
    })
}

/// The first written view that shares bytes with another argument, by their addresses, though they refer to different buffers: memory that is
/// lent twice. The arguments must have passed [`check`].
pub fn shared_by_address(artifact: &Artifact, args: &[Arg], base: impl Fn(usize) -> u64) -> Option<ArgError> {
    let ranges: Vec<_> = args
        .iter()
        .map(|arg| {
            let Arg::View(v) = arg else { return 0..0 };
            let (r, base) = (v.byte_range(), u128::from(base(v.buffer)));
            base.saturating_add(r.start)..base.saturating_add(r.end)
        })
        .collect();
    let meets = |a: usize, b: usize| ranges[a].start.max(ranges[b].start) < ranges[a].end.min(ranges[b].end);
    // Views that have to be one are, if they passed the check.
    let one = |a: usize, b: usize| artifact.in_place.iter().any(|&(o, i)| [(o, i), (i, o)].contains(&(a as u32, b as u32)));
    let written = (0..ranges.len()).filter(|&n| artifact.arguments.get(n).is_some_and(Argument::is_written));
    written
        .flat_map(|w| (0..ranges.len()).map(move |o| (w, o)))
        .find(|&(w, o)| w != o && meets(w, o) && !one(w, o))
        .map(|(written, other)| ArgError::Overlap { written, other })
}
