//! What the integers of a launch are multiples of: a kernel whose views say nothing of their rows (`view<bf16, [?, ?]>`) is compiled for what its
//! arguments show.
//!
//! ```text
//! kernel ─┐
//!         ├─► Divisors::of ─► facts, equal for all launches that one text serves ─► apply ─► kernel whose types and `assume`s say them
//! args  ──┘                                                                               │
//!                                       launches check them again (`launch::check`)  ◄────┘
//! ```
//!
//! Whether a row begins at 16 bytes decides whether units can copy it, and whether an extent is a multiple of a vector decides how wide a guarded access is; neither
//! follows from a kernel that was written for any extents. Looked at are inner extents (of a dense view they are its strides, of any view where rows end), strides, and
//! integers. The outermost extent of several is left alone: it is often the number of tokens, which changes with each launch, and it decides no address.
//! A fact is a power of two up to a bound, so that few texts serve all launches.

use std::fmt;
use tilelift_interp::Arg;
use tilelift_ir::{Attr, Cursor, Extent, Kernel, Op, Type, Value, ViewType};

/// Most that is asked of an extent or a stride, in elements: a whole line of bytes, and most tiles' widths.
const EXTENT: u32 = 128;
/// Most that is asked of a number: 16 bytes of bytes.
const NUMBER: u32 = 16;

/// Of what integer a fact speaks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Integer {
    /// The extent of a view's dimension.
    Extent(u32),
    /// The stride of a view's dimension, in elements.
    Stride(u32),
    /// An integer argument itself.
    Value,
}

/// That an integer of an argument is a multiple of a power of two.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Divisor {
    /// The argument's number.
    pub param: u32,
    /// Which integer of it.
    pub integer: Integer,
    /// What divides it.
    pub multiple_of: u32,
}

/// What arguments are multiples of, beyond what the kernel says. Launches with equal facts share a text, so an engine may keep its artifacts by them.
///
/// ```
/// use tilelift::interp::{Arg, ViewArg};
/// use tilelift::ir::{Scalar, text};
/// use tilelift::Divisors;
///
/// let source = "kernel @one(v0: view<bf16, [?, ?]>) {\n    v1 = splat 1.0 : tile<8x32xbf16>\n    store v0[0, 0], v1\n}\n";
/// let kernel = text::parse(source)?.kernels.remove(0);
/// let args = |rows, columns| [Arg::from(ViewArg::dense(0, Scalar::BF16, &[rows, columns]))];
/// let divisors = Divisors::of(&kernel, &args(7, 4096));
/// assert_eq!(divisors.to_string(), "extent 1 of argument 0 by 128");
/// assert_eq!(divisors, Divisors::of(&kernel, &args(1024, 128)));
/// assert!(Divisors::of(&kernel, &args(7, 4095)).is_empty());
/// assert!(text::print(&divisors.apply(&kernel)).contains("view<bf16, [?, ?%128]>"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Divisors {
    facts: Vec<Divisor>,
}

impl Divisors {
    /// Those of a launch's arguments. What fits no parameter says nothing; the launch refuses it.
    pub fn of(kernel: &Kernel, args: &[Arg]) -> Divisors {
        let read = Read::of(kernel);
        let mut facts = Vec::new();
        for (param, (&value, arg)) in (0..).zip(kernel.params.iter().zip(args)) {
            let mut fact = |integer, known: u32, got: i64, most| {
                let multiple_of = power(got, most);
                if known != 0 && !known.is_multiple_of(multiple_of) {
                    facts.push(Divisor { param, integer, multiple_of });
                }
            };
            match (kernel.ty(value), arg) {
                (Type::View(ty), Arg::View(view)) => {
                    for (d, (extent, &got)) in (0..).zip(ty.dims.iter().zip(&view.shape)).skip(usize::from(ty.rank() > 1)) {
                        if let Extent::Dynamic(known) = *extent {
                            fact(Integer::Extent(d), known, got, EXTENT);
                        }
                    }
                    for (d, (stride, &got)) in (0..).zip(ty.strides.iter().flatten().zip(&view.strides)) {
                        if let Extent::Dynamic(known) = *stride {
                            fact(Integer::Stride(d), known, got, EXTENT);
                        }
                    }
                }
                (Type::Scalar(elem), Arg::Scalar(number)) if elem.is_int() && read.reads(value) => {
                    fact(Integer::Value, 1, number.bits() as i64, NUMBER);
                }
                _ => {}
            }
        }
        Divisors { facts }
    }

    /// The facts, by argument.
    pub fn facts(&self) -> &[Divisor] {
        &self.facts
    }

    /// True if the arguments show nothing that the kernel doesn't say.
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty()
    }

    /// The kernel with these facts: in the types of its views, and as `assume` of its numbers. Facts of parameters that it doesn't have are left out.
    pub fn apply(&self, kernel: &Kernel) -> Kernel {
        let mut out = kernel.clone();
        let mut start = Cursor::start(out.body);
        for fact in &self.facts {
            let Some(&value) = out.params.get(fact.param as usize) else { continue };
            match (&mut out.values[value].ty, fact.integer) {
                (Type::View(ty), integer) => {
                    if let Some(Extent::Dynamic(known)) = place(ty, integer) {
                        *known = common(*known, fact.multiple_of);
                    }
                }
                (Type::Scalar(elem), Integer::Value) if elem.is_int() => {
                    let ty = Type::Scalar(*elem);
                    assume(&mut out, &mut start, value, fact.multiple_of, ty);
                }
                _ => {}
            }
        }
        out
    }
}

/// Where a view's type speaks of an integer.
fn place(ty: &mut ViewType, integer: Integer) -> Option<&mut Extent> {
    match integer {
        Integer::Extent(d) => ty.dims.get_mut(d as usize),
        Integer::Stride(d) => ty.strides.as_mut()?.get_mut(d as usize),
        Integer::Value => None,
    }
}

/// Has everybody read what is assumed of a value.
fn assume(kernel: &mut Kernel, start: &mut Cursor, value: Value, divisor: u32, ty: Type) {
    let made = kernel.add_inst(Op::Assume, &[value], 0, &[Attr::Divisor(divisor)], &[], &[ty]);
    if let Some(&first) = kernel.regions[kernel.body].insts.first() {
        kernel.locs[made] = kernel.locs[first];
    }
    start.insert(kernel, made);
    let by = kernel.insts[made].results[0];
    let readers = kernel.insts.iter_mut().filter(|(inst, _)| *inst != made).flat_map(|(_, d)| d.args.iter_mut());
    readers.filter(|v| **v == value).for_each(|v| *v = by);
}

/// Which values are read.
struct Read(std::collections::HashSet<Value>);

impl Read {
    fn of(kernel: &Kernel) -> Read {
        let mut read = std::collections::HashSet::new();
        kernel.walk(kernel.body, &mut |inst| read.extend(kernel.insts[inst].args.iter().copied()));
        Read(read)
    }
    fn reads(&self, value: Value) -> bool {
        self.0.contains(&value)
    }
}

/// The largest power of two that divides a number, up to a bound.
fn power(number: i64, most: u32) -> u32 {
    1 << number.trailing_zeros().min(most.trailing_zeros())
}

/// The least common multiple of two divisors of one number; the first alone where it is too large to be said.
fn common(known: u32, power: u32) -> u32 {
    let known = known.max(1);
    let more = power >> known.trailing_zeros().min(power.trailing_zeros());
    known.checked_mul(more).unwrap_or(known)
}

impl fmt::Display for Divisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.integer {
            Integer::Extent(d) => write!(f, "extent {d} of argument {} by {}", self.param, self.multiple_of),
            Integer::Stride(d) => write!(f, "stride {d} of argument {} by {}", self.param, self.multiple_of),
            Integer::Value => write!(f, "argument {} by {}", self.param, self.multiple_of),
        }
    }
}

impl fmt::Display for Divisors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, fact) in self.facts.iter().enumerate() {
            write!(f, "{}{fact}", if n == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
