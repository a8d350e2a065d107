//! The form of the tables of instructions ([`crate::inst::Inst`], [`crate::unit::Unit`]): a row says everything that passes ask of an instruction.
//!
//! ```text
//! /// what it does
//! LoadShared { dsts: Vals = def T, addr: LVal = address(offset) I32, offset: i32 = with } => Effect::Read(Space::Shared), "load.shared {addr}";
//! name       │        type   │   └ type of the value(s)                          │      │                            └ text behind the results
//!            └ field         └ role: what the instruction does with it ──────────┘      └ what it does beside making values
//! ```
//!
//! | role | the field |
//! |---|---|
//! | `def` | values that it makes |
//! | `read` | values that it reads |
//! | `guard` | a value that says where, or for whom, it happens |
//! | `word` | values that it reads as words of fragments |
//! | `address(offset)` | an address, to which the field `offset` is added |
//! | `place` | a [`crate::value::Place`] whose address it reads |
//! | `with` | no value |
//!
//! Behind a role stands the [`Kind`] of the field's values: `I1`, `I32`, … for a type, `T` for the one type that the instruction is for, whatever
//! that is, `Number` and `Own` for what has a type of its own. Guards are `I1` and places `I32` if nothing is said. Behind the effect, a row may
//! say which types `T` stands for (`takes Takes::Fused`, else any), and what the instruction counts for in the size of a program
//! (`size 2`, else 1: see [`crate::build::Budget`]).
//!
//! A row `Name(field: Box<T>)` asks `T` for all of that. Fields are read in the order in which they stand, and passes keep that order.

use crate::value::{LVal, ShuffleFrom, Space, Vals};
use smallvec::SmallVec;
use std::sync::Arc;

/// How an instruction reads an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// As a value.
    Value,
    /// As what says where, or for whom, it happens.
    Guard,
    /// As a word of a fragment of a matrix.
    Word,
    /// As an address, so many bytes in front of the place that it means.
    Address(i32),
}

/// The type of a field's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `i1`.
    I1,
    /// `i16`.
    I16,
    /// `i32`.
    I32,
    /// `i64`.
    I64,
    /// `f32`.
    F32,
    /// A word.
    B32,
    /// The type that the instruction is for: that of the first such value that it reads, else of the first that it makes.
    T,
    /// A number of any type.
    Number,
    /// Whatever it has; other rules see to it.
    Own,
}

/// What an instruction does beside making values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Nothing: it makes values of its operands, wherever it stands.
    Compute,
    /// Nothing, but where it stands matters.
    Stay,
    /// It reads memory.
    Read(Space),
    /// It writes memory.
    Write(Space),
    /// It reads and writes memory at once.
    Update(Space),
    /// It copies between global and shared memory, beside the lanes.
    Copy,
    /// It hands values from lane to lane of a warp.
    Exchange,
    /// The lanes of a warp multiply matrices.
    Matrix,
    /// It starts a multiplication beside the lanes.
    Start,
    /// It touches the shared memory of other blocks, or makes addresses there.
    Remote,
    /// It orders accesses or arrives somewhere: fences, groups of copies, arrivals.
    Order,
    /// It waits for other lanes, or for what goes on beside them.
    Meet,
    /// It may stop the launch.
    Check,
    /// It is for speed alone: without it, every number and every order of accesses is the same.
    Hint,
    /// It has blocks.
    Control,
}

impl Effect {
    /// True if the instruction only computes: it may move, and stand once for several.
    #[inline]
    pub fn computes(self) -> bool {
        self == Effect::Compute
    }

    /// True if the instruction may go where nothing reads what it makes.
    #[inline]
    pub fn removable(self) -> bool {
        match self {
            Effect::Compute | Effect::Stay | Effect::Read(_) | Effect::Exchange | Effect::Matrix => true,
            Effect::Write(_) | Effect::Update(_) | Effect::Copy | Effect::Start | Effect::Remote | Effect::Order => false,
            Effect::Meet | Effect::Check | Effect::Hint | Effect::Control => false,
        }
    }

    /// True if the instruction touches global memory.
    #[inline]
    pub fn global(self) -> bool {
        match self {
            Effect::Read(s) | Effect::Write(s) | Effect::Update(s) => s == Space::Global,
            Effect::Copy => true,
            Effect::Compute | Effect::Stay | Effect::Exchange | Effect::Matrix | Effect::Start | Effect::Remote => false,
            Effect::Order | Effect::Meet | Effect::Check | Effect::Hint | Effect::Control => false,
        }
    }
}

/// Fields that hold values.
pub(crate) trait Values {
    /// The values.
    fn values(&self) -> &[LVal];
    /// The same, to change them.
    fn values_mut(&mut self) -> &mut [LVal];
}

impl Values for LVal {
    #[inline]
    fn values(&self) -> &[LVal] {
        std::slice::from_ref(self)
    }

    fn values_mut(&mut self) -> &mut [LVal] {
        std::slice::from_mut(self)
    }
}

impl Values for Option<LVal> {
    #[inline]
    fn values(&self) -> &[LVal] {
        self.as_slice()
    }

    fn values_mut(&mut self) -> &mut [LVal] {
        self.as_mut_slice()
    }
}

impl Values for Vals {
    #[inline]
    fn values(&self) -> &[LVal] {
        self
    }

    fn values_mut(&mut self) -> &mut [LVal] {
        self
    }
}

impl Values for SmallVec<[LVal; 16]> {
    #[inline]
    fn values(&self) -> &[LVal] {
        self
    }

    fn values_mut(&mut self) -> &mut [LVal] {
        self
    }
}

impl Values for ShuffleFrom {
    #[inline]
    fn values(&self) -> &[LVal] {
        match self {
            ShuffleFrom::Xor(_) => &[],
            ShuffleFrom::Lane(l) => std::slice::from_ref(l),
        }
    }

    fn values_mut(&mut self) -> &mut [LVal] {
        match self {
            ShuffleFrom::Xor(_) => &mut [],
            ShuffleFrom::Lane(l) => std::slice::from_mut(l),
        }
    }
}

/// What an instruction holds on the heap, to be changed: of what programs share, an own copy.
pub(crate) trait Held {
    type It;
    fn own(&mut self) -> &mut Self::It;
}

impl<T> Held for Box<T> {
    type It = T;
    fn own(&mut self) -> &mut T {
        self
    }
}

impl<T: Clone> Held for Arc<T> {
    type It = T;
    fn own(&mut self) -> &mut T {
        Arc::make_mut(self)
    }
}

/// Makes an enum of instructions, and what passes ask of them, from a table; the form of a row stands at the top of this file.
macro_rules! instructions {
    (
        $(#[$meta:meta])*
        pub enum $Name:ident as $Code:ident {
            $(
                $(#[$row:meta])*
                $V:ident
                $( { $( $(#[$fm:meta])* $f:ident : $fty:ty = $role:ident $( ($of:ident) )? $( $kind:ident )? ),* $(,)? } )?
                $( ( $b:ident : $bty:ty ) )?
                => $effect:expr $( , takes $takes:expr )? $( , size $size:expr )? $( , $text:literal $( , $arg:expr )* )? ;
            )*
        }
    ) => {
        $(#[$meta])*
        pub enum $Name {
            $( $(#[$row])* $V $( { $( $(#[$fm])* $f: $fty ),* } )? $( ($bty) )?, )*
        }

        /// The rows of the table, in its order.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[allow(missing_docs)] // they are those of the instructions
        pub enum $Code {
            $( $V, )*
        }

        impl $Code {
            /// All rows.
            pub const ALL: &'static [$Code] = &[$( $Code::$V ),*];

            /// The row's name.
            pub const fn name(self) -> &'static str {
                match self {
                    $( $Code::$V => stringify!($V), )*
                }
            }
        }

        impl $Name {
            /// The instruction's row in the table.
            #[inline]
            pub fn code(&self) -> $Code {
                match self {
                    $( Self::$V { .. } => $Code::$V, )*
                }
            }

            /// Calls `f` for the values of every field, with what type they have and whether the instruction makes them.
            #[allow(unused_variables, unused_mut)]
            pub fn typed<'i>(&'i self, mut f: impl FnMut(&'i [LVal], $crate::table::Kind, bool)) {
                match self {
                    $( Self::$V $( { $( $f ),* } )? $( ($b) )? => {
                        $( $( $crate::table::instructions!(@typed f $role $( ($of) )? $( $kind )? ; $f); )* )?
                        $( $b.typed(f) )?
                    } )*
                }
            }

            /// The types that the instruction is for.
            #[allow(unused_variables)]
            pub fn takes(&self) -> $crate::op::Takes {
                match self {
                    $( Self::$V $( { $( $f ),* } )? $( ($b) )? => $crate::table::instructions!(@or $crate::op::Takes::Any; $( $takes )?), )*
                }
            }

            /// What the instruction counts for in the size of a program.
            #[allow(unused_variables)]
            #[inline]
            pub fn size(&self) -> u64 {
                match self {
                    $( Self::$V $( { $( $f ),* } )? $( ($b) )? => $crate::table::instructions!(@or 1; $( $size )?), )*
                }
            }

            /// Calls `f` for every value that the instruction reads where it stands, not inside its blocks.
            #[allow(unused_variables, unused_mut)]
            #[inline]
            pub fn operands(&self, mut f: impl FnMut(LVal, $crate::table::Use)) {
                match self {
                    $( Self::$V $( { $( $f ),* } )? $( ($b) )? => {
                        $( $( $crate::table::instructions!(@read f $role $( ($of) )? $f); )* )?
                        $( $b.operands(f) )?
                    } )*
                }
            }

            /// The values that the instruction makes; control has them in its own fields.
            #[allow(unused_variables)]
            #[inline]
            pub fn results(&self) -> &[LVal] {
                match self {
                    $( Self::$V $( { $( $f ),* } )? $( ($b) )? => {
                        let made: &[LVal] = &[];
                        $( let made = $crate::table::instructions!(@made $( $role $f )*); )?
                        $( let made = $b.results(); )?
                        made
                    } )*
                }
            }

            /// Calls `f` for every value that the instruction names, to name another one; those in its blocks, too.
            #[allow(unused_variables)]
            pub(crate) fn rename(&mut self, f: &mut dyn FnMut(&mut LVal)) {
                match self {
                    $( Self::$V $( { $( $f ),* } )? $( ($b) )? => {
                        $( $( $crate::table::instructions!(@rename f $role $( ($of) )? $f); )* )?
                        $( $crate::table::Held::own($b).rename(f) )?
                    } )*
                }
            }

            /// What the instruction does beside making values.
            #[allow(unused_variables)]
            #[inline]
            pub fn effect(&self) -> $crate::table::Effect {
                match self {
                    $( Self::$V $( { $( $f ),* } )? $( ($b) )? => $effect, )*
                }
            }

            /// Writes the instruction's line; of control its first.
            #[allow(unused_variables)]
            pub(crate) fn write(&self, program: $crate::text::Names<'_>, out: &mut dyn std::fmt::Write) -> std::fmt::Result {
                match self {
                    $( Self::$V $( { $( $f ),* } )? $( ($b) )? => {
                        $( $crate::text::results(program, out, $crate::table::instructions!(@made $( $role $f )*))?; )?
                        $( $( $crate::table::instructions!(@show program $role $( ($of) )? $f); )* )?
                        $( write!(out, $text $( , $arg )*)?; )?
                        $( $b.write(program, out)?; )?
                        Ok(())
                    } )*
                }
            }
        }
    };

    (@or $other:expr; ) => { $other };
    (@or $other:expr; $it:expr) => { $it };

    (@typed $g:ident with; $f:ident) => {};
    (@typed $g:ident def $k:ident; $f:ident) => { $g($crate::table::Values::values($f), $crate::table::Kind::$k, true) };
    (@typed $g:ident read $k:ident; $f:ident) => { $g($crate::table::Values::values($f), $crate::table::Kind::$k, false) };
    (@typed $g:ident word $k:ident; $f:ident) => { $g($crate::table::Values::values($f), $crate::table::Kind::$k, false) };
    (@typed $g:ident guard; $f:ident) => { $g($crate::table::Values::values($f), $crate::table::Kind::I1, false) };
    (@typed $g:ident guard $k:ident; $f:ident) => { $g($crate::table::Values::values($f), $crate::table::Kind::$k, false) };
    (@typed $g:ident address($of:ident) $k:ident; $f:ident) => { $g(std::slice::from_ref($f), $crate::table::Kind::$k, false) };
    (@typed $g:ident place; $f:ident) => { $g(std::slice::from_ref(&$f.addr), $crate::table::Kind::I32, false) };

    (@read $g:ident def $f:ident) => {};
    (@read $g:ident with $f:ident) => {};
    (@read $g:ident read $f:ident) => { $crate::table::Values::values($f).iter().for_each(|&v| $g(v, $crate::table::Use::Value)) };
    (@read $g:ident guard $f:ident) => { $crate::table::Values::values($f).iter().for_each(|&v| $g(v, $crate::table::Use::Guard)) };
    (@read $g:ident word $f:ident) => { $crate::table::Values::values($f).iter().for_each(|&v| $g(v, $crate::table::Use::Word)) };
    (@read $g:ident address($of:ident) $f:ident) => { $g(*$f, $crate::table::Use::Address(*$of)) };
    (@read $g:ident place $f:ident) => { $g($f.addr, $crate::table::Use::Address($f.offset)) };

    (@rename $g:ident with $f:ident) => {};
    (@rename $g:ident address($of:ident) $f:ident) => { $g($f) };
    (@rename $g:ident place $f:ident) => { $g(&mut $f.addr) };
    (@rename $g:ident $role:ident $f:ident) => { $crate::table::Values::values_mut($f).iter_mut().for_each(|v| $g(v)) };

    (@made) => { &[] as &[LVal] };
    (@made def $f:ident $($rest:ident)*) => { $crate::table::Values::values($f) };
    (@made $role:ident $f:ident $($rest:ident)*) => { $crate::table::instructions!(@made $($rest)*) };

    (@show $p:ident address($of:ident) $f:ident) => { let $f = $crate::text::Shown { names: $p, it: &$crate::text::place_of(*$f, *$of) }; };
    (@show $p:ident $role:ident $f:ident) => { let $f = $crate::text::Shown { names: $p, it: $f }; };
}
pub(crate) use instructions;
