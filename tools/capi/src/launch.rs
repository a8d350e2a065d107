//! Launches as C sees them: bound once, changed a little, launched by the host.

use crate::artifact::{TileliftArtifact, TileliftBytes};
use crate::borrowed::{changed, list, made};
use crate::error::TileliftError;
use crate::parameter::TileliftParameter;
use std::ffi::c_char;
use tilelift::interp::{Arg, ScalarArg, ViewArg};
use tilelift::launch::{Bound, Lent};

/// A kernel with a grid and arguments that keep what it promises.
pub struct TileliftLaunch {
    bound: Bound,
    parameters: Vec<TileliftParameter>,
    /// The parameters as one buffer, and a zero byte behind it.
    buffer: Vec<u8>,
}

/// An argument of a launch; `tilelift_argument` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct TileliftArgument {
    /// What it is: [`VIEW`], [`INT`] or [`FLOAT`].
    pub kind: u32,
    /// Dimensions of a view.
    pub rank: u32,
    /// Device address of the memory that is lent for it.
    pub address: u64,
    /// Its length in bytes.
    pub len: u64,
    /// Where in it the view begins, in bytes.
    pub offset: u64,
    /// Extents, outermost first.
    pub extents: *const i64,
    /// Strides in elements; null for a dense view.
    pub strides: *const i64,
    /// A number, if the kind is [`INT`].
    pub integer: i64,
    /// A number, if the kind is [`FLOAT`].
    pub real: f64,
}

/// A view; `TILELIFT_VIEW`.
pub const VIEW: u32 = 0;
/// An integer; `TILELIFT_INT`.
pub const INT: u32 = 1;
/// A float; `TILELIFT_FLOAT`.
pub const FLOAT: u32 = 2;

/// What the kernel has, or an error that says so.
fn wrong(message: String) -> TileliftError {
    TileliftError::new("C0304", &message, "pass what the header asks for, one for each argument of the kernel")
}

/// An argument as the library has it. Each view has a buffer of its own; where memory is lent twice is seen by its addresses.
///
/// # Safety
/// What the argument leads to is as the header says.
unsafe fn argument(of: &TileliftArtifact, n: usize, a: &TileliftArgument, lent: &mut Vec<Lent>) -> Result<Arg, TileliftError> {
    let artifact = of.artifact();
    let count = artifact.arguments.len();
    let elem = artifact.arguments.get(n).ok_or_else(|| wrong(format!("there is an argument {n}, but @{} has {count}", artifact.name)))?;
    let elem = elem.elem();
    match a.kind {
        INT => Ok(ScalarArg::int(elem, a.integer).into()),
        FLOAT => Ok(ScalarArg::float(elem, a.real).into()),
        VIEW => {
            // SAFETY: the caller vouches for it; here and below.
            let extents = unsafe { list(a.extents, a.rank as usize, "extents") }?;
            let mut view = ViewArg::dense(lent.len(), elem, extents).at(a.offset);
            if !a.strides.is_null() {
                view = view.with_strides(unsafe { list(a.strides, a.rank as usize, "strides") }?);
            }
            lent.push(Lent { address: a.address, len: a.len });
            Ok(view.into())
        }
        kind => Err(wrong(format!("argument {n} is of kind {kind}, which there is not"))),
    }
}

impl TileliftLaunch {
    fn new(bound: Bound) -> TileliftLaunch {
        let mut launch = TileliftLaunch { bound, parameters: Vec::new(), buffer: Vec::new() };
        launch.fill();
        launch
    }

    /// What C reads of it, after a change.
    fn fill(&mut self) {
        self.parameters.clear();
        self.parameters.extend(self.bound.parameters().iter().map(TileliftParameter::of));
        self.buffer.clear();
        // A kernel with tensor maps has no such buffer.
        self.buffer.extend(self.bound.argument_buffer().unwrap_or_default());
        self.buffer.push(0);
    }
}

/// A launch of an artifact's kernel.
///
/// # Safety
/// `artifact` is not freed yet, `grid` leads to three numbers, `arguments` to `count` of what the header says, `error` is null or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_launch_new(
    artifact: *const TileliftArtifact,
    grid: *const u32,
    arguments: *const TileliftArgument,
    count: usize,
    error: *mut *mut TileliftError,
) -> *mut TileliftLaunch {
    let make = || {
        // SAFETY: the caller vouches for it; here and below.
        let of = unsafe { artifact.as_ref() }.ok_or_else(|| TileliftError::argument("artifact"))?;
        let grid = unsafe { three(grid) }?;
        let want = of.artifact().arguments.len();
        if count != want {
            return Err(wrong(format!("@{} has {want} arguments, and {count} are passed", of.artifact().name)));
        }
        if arguments.is_null() && count > 0 {
            return Err(TileliftError::argument("arguments"));
        }
        let (mut args, mut lent) = (Vec::new(), Vec::new());
        for n in 0..count {
            let one = unsafe { arguments.add(n).read() };
            args.push(unsafe { argument(of, n, &one, &mut lent) }?);
        }
        Ok(TileliftLaunch::new(Bound::new(of.artifact().clone(), grid, &args, &lent)?))
    };
    // SAFETY: the caller vouches for it.
    unsafe { made(error, make) }
}

/// A grid of the caller.
///
/// # Safety
/// `grid` is null, or leads to three numbers.
unsafe fn three(grid: *const u32) -> Result<[u32; 3], TileliftError> {
    // SAFETY: the caller vouches for it.
    unsafe { grid.cast::<[u32; 3]>().as_ref() }.copied().ok_or_else(|| TileliftError::argument("grid"))
}

/// Frees it.
///
/// # Safety
/// `launch` is null, or a launch that nobody uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_launch_free(launch: *mut TileliftLaunch) {
    if !launch.is_null() {
        // SAFETY: it was made by `Box::into_raw`, and the caller gives it back once.
        drop(unsafe { Box::from_raw(launch) });
    }
}

/// Changes a launch; what is wrong changes nothing.
///
/// # Safety
/// `launch` is null or not freed yet, and nobody else uses it now; `error` is null or a place for a pointer.
unsafe fn change(
    launch: *mut TileliftLaunch,
    error: *mut *mut TileliftError,
    how: impl FnOnce(&mut Bound) -> Result<(), TileliftError>,
) -> i32 {
    let change = || {
        // SAFETY: the caller vouches for it.
        let launch = unsafe { launch.as_mut() }.ok_or_else(|| TileliftError::argument("launch"))?;
        how(&mut launch.bound)?;
        launch.fill();
        Ok(())
    };
    // SAFETY: the caller vouches for it.
    unsafe { changed(error, change) }
}

/// Gives a view other memory.
///
/// # Safety
/// `launch` is null or not freed yet, and nobody else uses it now; `error` is null or a place for a pointer. Here and below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_launch_set_pointer(
    launch: *mut TileliftLaunch,
    argument: u32,
    address: u64,
    len: u64,
    offset: u64,
    error: *mut *mut TileliftError,
) -> i32 {
    // SAFETY: the caller vouches for it.
    unsafe { change(launch, error, |b| Ok(b.set_pointer(argument as usize, Lent { address, len }, offset)?)) }
}

/// Gives a number another value, made of one by its type.
fn set_number(b: &mut Bound, argument: u32, make: impl FnOnce(tilelift::ir::Scalar) -> ScalarArg) -> Result<(), TileliftError> {
    let elem = b.artifact().arguments.get(argument as usize).map(|a| a.elem());
    let value = make(elem.ok_or_else(|| wrong(format!("@{} has no argument {argument}", b.artifact().name)))?);
    Ok(b.set_scalar(argument as usize, value)?)
}

/// Gives a number another value.
///
/// # Safety
/// As [`tilelift_launch_set_pointer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_launch_set_int(
    launch: *mut TileliftLaunch,
    argument: u32,
    value: i64,
    error: *mut *mut TileliftError,
) -> i32 {
    // SAFETY: the caller vouches for it.
    unsafe { change(launch, error, |b| set_number(b, argument, |elem| ScalarArg::int(elem, value))) }
}

/// Gives a number another value.
///
/// # Safety
/// As [`tilelift_launch_set_pointer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_launch_set_float(
    launch: *mut TileliftLaunch,
    argument: u32,
    value: f64,
    error: *mut *mut TileliftError,
) -> i32 {
    // SAFETY: the caller vouches for it.
    unsafe { change(launch, error, |b| set_number(b, argument, |elem| ScalarArg::float(elem, value))) }
}

/// Gives a dimension of a view another extent.
///
/// # Safety
/// As [`tilelift_launch_set_pointer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_launch_set_extent(
    launch: *mut TileliftLaunch,
    argument: u32,
    dim: u32,
    extent: i64,
    error: *mut *mut TileliftError,
) -> i32 {
    // SAFETY: the caller vouches for it.
    unsafe { change(launch, error, |b| Ok(b.set_extent(argument as usize, dim as usize, extent)?)) }
}

/// Asks for another grid.
///
/// # Safety
/// As [`tilelift_launch_set_pointer`]; `grid` leads to three numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_launch_set_grid(launch: *mut TileliftLaunch, grid: *const u32, error: *mut *mut TileliftError) -> i32 {
    // SAFETY: the caller vouches for it; here and below.
    unsafe { change(launch, error, |b| Ok(b.set_grid(three(grid)?)?)) }
}

/// Blocks to launch, where so many run at once; true if there are any.
///
/// # Safety
/// `launch` is null or not freed yet, `blocks` is null or a place for three numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_launch_blocks(launch: *const TileliftLaunch, at_once: u32, blocks: *mut u32) -> i32 {
    // SAFETY: the caller vouches for it; here and below.
    let made = unsafe { launch.as_ref() }.map_or([0; 3], |l| l.bound.blocks(at_once));
    if let Some(place) = unsafe { blocks.cast::<[u32; 3]>().as_mut() } {
        *place = made;
    }
    i32::from(!made.contains(&0))
}

/// The launch parameters in order.
///
/// # Safety
/// `launch` is null or not freed yet, `count` is null or a place for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_launch_parameters(launch: *const TileliftLaunch, count: *mut usize) -> *const TileliftParameter {
    // SAFETY: the caller vouches for it; here and below.
    let list = unsafe { launch.as_ref() }.map_or(&[][..], |l| &l.parameters);
    if let Some(place) = unsafe { count.as_mut() } {
        *place = list.len();
    }
    if list.is_empty() { std::ptr::null() } else { list.as_ptr() }
}

/// The launch parameters as one buffer.
///
/// # Safety
/// `launch` is null or not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tilelift_launch_buffer(launch: *const TileliftLaunch) -> TileliftBytes {
    // SAFETY: the caller vouches for it.
    match unsafe { launch.as_ref() } {
        Some(l) => TileliftBytes { data: l.buffer.as_ptr().cast::<c_char>(), len: l.buffer.len().saturating_sub(1) },
        None => TileliftBytes { data: std::ptr::null(), len: 0 },
    }
}
