//! What the verifier says: codes, places, messages.

use crate::entities::{Inst, Region, Value};
use crate::kernel::{Kernel, Loc};
use crate::text::{Line, print_with};
use std::fmt;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident $text:literal,)*) => {
        /// The rule that a kernel breaks; the text (`V0301`) is stable.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        pub enum VerifyCode { $($(#[doc = $doc])+ $variant,)* }

        impl VerifyCode {
            /// Every code, in order.
            pub const ALL: &'static [VerifyCode] = &[$(VerifyCode::$variant,)*];
            /// The stable text, such as `V0301`.
            pub const fn text(self) -> &'static str { match self { $(VerifyCode::$variant => $text,)* } }
            /// The rule in words.
            pub const fn doc(self) -> &'static str { match self { $(VerifyCode::$variant => concat!($($doc, "\n"),+),)* } }
        }
    };
}

codes! {
    /// Every value, instruction and region that is named exists.
    BadReference "V0101",
    /// An instruction stands in one place only.
    PlacedTwice "V0102",
    /// A region belongs to one instruction only, and the body to none.
    RegionShared "V0103",
    /// What a value says of its origin agrees with the list it stands in.
    Origin "V0104",
    /// Regions nest at most 64 deep.
    Nesting "V0105",

    /// The number of operands is the row's; a load or store has one index per dimension of its view.
    OperandCount "V0201",
    /// Presence bits stand for keyword operands of the row only.
    Presence "V0202",
    /// Attributes are those that the row asks for.
    Attributes "V0203",
    /// The number of regions is the row's.
    RegionCount "V0204",
    /// The number of results follows from the row, the carried values or the yields.
    ResultCount "V0205",

    /// An operand is defined before its use.
    UseBeforeDefinition "V0301",
    /// An operand is defined in the same or an enclosing region.
    OutOfScope "V0302",
    /// An operand's definition stands in the kernel.
    Undefined "V0303",

    /// Operands and attributes have the types that the op's rule asks for.
    TypeRule "V0401",
    /// A result has the type that follows from the op's rule.
    ResultType "V0402",
    /// A tile has 1 to 6 positive extents and at most 2^24 elements.
    TileLimits "V0403",
    /// A view's facts are sane: rank 1 to 6, positive divisors, one stride per dimension, a power of two for the alignment.
    ViewFacts "V0404",
    /// A literal is a value of its type.
    LiteralRange "V0405",
    /// A view is used as the view operand of an op only.
    ViewPlace "V0406",
    /// Kernel parameters are views and scalars.
    ParamType "V0407",

    /// A region other than the body ends with a `yield`.
    MissingYield "V0501",
    /// A `yield` stands at the end of a region other than the body.
    StrayYield "V0502",
    /// A `yield` gives as many values, of the types, that its region's instruction asks for.
    YieldTypes "V0503",
    /// Region parameters are the loop index and the carried values.
    RegionParams "V0504",
    /// The condition of an `if` is a scalar `i1`.
    Condition "V0505",
    /// Bounds and step of a `for` are scalars of one integer type.
    LoopBounds "V0506",
    /// The step of a `for`, where it is a literal, is positive.
    LoopStep "V0507",
    /// A combining region holds ops on scalars that do nothing but compute.
    CombineRegion "V0508",
    /// A required layout fits its tile, and no value is required in two.
    Layout "V0509",

    /// The kernel's name is an identifier.
    Name "V0601",
    /// `warps` is a power of two up to 32 and absent beside `tasks`, `stages` is 1 to 16.
    HintRange "V0602",
    /// A cluster has 1, 2, 4, 8 or 16 program instances.
    ClusterRange "V0603",

    /// `tasks` is the last instruction of the kernel's body.
    TasksPlace "V0701",
    /// Local memory, barriers and channels are allocated in the kernel's body.
    AllocPlace "V0702",
    /// A task has a name of its own, a power of two of warps, registers in steps of 8 from 24 to 240 and at least one replica; together they have at most 32 warps.
    TaskShape "V0703",
    /// A task uses no tile that was made outside of it.
    TaskCapture "V0704",
    /// A handle is an operand of the ops that take handles, and not carried, yielded or passed in.
    HandlePlace "V0705",
    /// An alias names an allocation that is no alias itself; what is reinterpreted is neither sliced nor transposed.
    WholeBuffer "V0706",
    /// The result of an `async_dot` is used by `async_dot` as its accumulator and by `async_dot_wait`, or carried there.
    ProductInFlight "V0707",
    /// A position that is a literal lies inside of the buffer or the barriers that it indexes.
    Position "V0708",
    /// What `async_dot_wait` takes may be a product: the result of an `async_dot`, perhaps waited for or carried.
    WaitedFor "V0709",
    /// Behind every `async_dot` its task may come to an `async_dot_wait` that is long enough to end it.
    Unawaited "V0710",
    /// A kernel that asks for its worker's number has no cluster and asks for no `program_id`.
    Persistent "V0711",
}

impl fmt::Display for VerifyCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// What is guilty.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Place {
    /// The kernel's header: name, hints.
    Kernel,
    /// A kernel parameter, by number.
    Param(u32),
    /// A value.
    Value(Value),
    /// An instruction.
    Inst(Inst),
    /// A region.
    Region(Region),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Kernel => f.write_str("kernel"),
            Place::Param(n) => write!(f, "parameter {n}"),
            Place::Value(v) => v.fmt(f),
            Place::Inst(i) => i.fmt(f),
            Place::Region(r) => r.fmt(f),
        }
    }
}

/// A broken rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyError {
    /// The rule.
    pub code: VerifyCode,
    /// What breaks it.
    pub place: Place,
    /// Where it stands in the text or in the program that built the kernel; zeros if that is not known.
    pub loc: Loc,
    /// What is wrong and how to mend it.
    pub message: String,
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.code)?;
        if self.loc.is_known() {
            write!(f, "{} ", self.loc)?;
        }
        write!(f, "{}: {}", self.place, self.message)
    }
}
impl std::error::Error for VerifyError {}

/// Every rule that a kernel breaks, in program order; never empty. `Display` gives one line each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifyErrors {
    /// The kernel's name.
    pub kernel: String,
    /// The errors.
    pub errors: Vec<VerifyError>,
}

impl VerifyErrors {
    /// True if one of the errors has the code.
    pub fn has(&self, code: VerifyCode) -> bool {
        self.errors.iter().any(|e| e.code == code)
    }
}

impl fmt::Display for VerifyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, e) in self.errors.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "@{}: {e}", self.kernel)?;
        }
        Ok(())
    }
}
impl std::error::Error for VerifyErrors {}

impl VerifyErrors {
    /// The kernel's text with the guilty lines underlined and the messages below them.
    pub fn pretty(&self, kernel: &Kernel) -> String {
        let mut rest: Vec<&VerifyError> = self.errors.iter().collect();
        let mut out = print_with(kernel, |line| {
            let (here, later) = std::mem::take(&mut rest).into_iter().partition(|e| shows(line, e.place));
            rest = later;
            here.into_iter().map(|e| format!("{}: {}", e.code, e.message)).collect()
        });
        // What no line shows, such as an instruction that does not exist.
        for e in rest {
            out.push_str(&format!("; {e}\n"));
        }
        out
    }
}

/// True if a line of the printed kernel is the one to underline.
fn shows(line: &Line, place: Place) -> bool {
    match place {
        Place::Kernel | Place::Param(_) => line.header,
        Place::Value(v) => line.values.contains(&v),
        Place::Inst(i) => line.insts.contains(&i),
        Place::Region(r) => line.regions.contains(&r),
    }
}
