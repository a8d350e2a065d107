//! The closed vocabularies of attributes: each word once, with its variant.

use std::fmt;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }
        impl $name {
            /// Every variant, in declaration order.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];
            /// The word in the text form.
            pub const fn word(self) -> &'static str { match self { $($name::$variant => $word,)* } }
            /// The variant written so, if there is one.
            pub fn from_word(w: &str) -> Option<$name> { match w { $($word => Some($name::$variant),)* _ => None } }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result { f.write_str(self.word()) }
        }
    };
}

words! {
    /// An axis of the launch grid.
    GridAxis {
        /// The fastest axis.
        X "x",
        /// The middle axis.
        Y "y",
        /// The slowest axis.
        Z "z",
    }
}

words! {
    /// A comparison. Float comparisons with a NaN are false, except `ne`, which is true.
    CmpOp {
        /// Equal.
        Eq "eq",
        /// Not equal (true when a NaN is involved).
        Ne "ne",
        /// Less; signed for integers.
        Lt "lt",
        /// Less or equal; signed for integers.
        Le "le",
        /// Greater; signed for integers.
        Gt "gt",
        /// Greater or equal; signed for integers.
        Ge "ge",
        /// Less, unsigned; integers only.
        Ult "ult",
        /// Less or equal, unsigned; integers only.
        Ule "ule",
        /// Greater, unsigned; integers only.
        Ugt "ugt",
        /// Greater or equal, unsigned; integers only.
        Uge "uge",
    }
}

impl CmpOp {
    /// True for the comparisons that only integers have.
    pub const fn is_unsigned(self) -> bool {
        matches!(self, CmpOp::Ult | CmpOp::Ule | CmpOp::Ugt | CmpOp::Uge)
    }

    /// The comparison of integers that holds where this one does not; of floats that is so for `eq` and `ne` alone.
    #[must_use]
    pub const fn inverted(self) -> CmpOp {
        match self {
            CmpOp::Eq => CmpOp::Ne,
            CmpOp::Ne => CmpOp::Eq,
            CmpOp::Lt => CmpOp::Ge,
            CmpOp::Le => CmpOp::Gt,
            CmpOp::Gt => CmpOp::Le,
            CmpOp::Ge => CmpOp::Lt,
            CmpOp::Ult => CmpOp::Uge,
            CmpOp::Ule => CmpOp::Ugt,
            CmpOp::Ugt => CmpOp::Ule,
            CmpOp::Uge => CmpOp::Ult,
        }
    }
}

words! {
    /// How a reduction combines two elements.
    ReduceOp {
        /// Sum.
        Add "add",
        /// Product.
        Mul "mul",
        /// Smallest; propagates NaN; signed for integers.
        Minimum "minimum",
        /// Largest; propagates NaN; signed for integers.
        Maximum "maximum",
        /// Bitwise or logical and; integers and `i1`.
        And "and",
        /// Bitwise or logical or; integers and `i1`.
        Or "or",
        /// Bitwise or logical exclusive or; integers and `i1`.
        Xor "xor",
    }
}

words! {
    /// How a dot may round its operands.
    Precision {
        /// Products of the operands as they are.
        Exact "exact",
        /// `f32` operands become tf32 (10 fraction bits) before they are multiplied: rounded to nearest; a tie goes away from zero, or to even where a target's units do it so.
        Tf32 "tf32",
        /// `f32` operands are taken as `hi + lo`, `hi` being the operand rounded to tf32 and `lo` the rest rounded to tf32; the product is `lo * hi + hi * lo + hi * hi`.
        Tf32x3 "tf32x3",
    }
}

words! {
    /// What an atomic update does with the old value `o` and the operand `v`.
    AtomicOp {
        /// `o + v`; integers wrap, floats round to nearest even.
        Add "add",
        /// The smaller, signed; integers only.
        Min "min",
        /// The larger, signed; integers only.
        Max "max",
        /// The smaller, unsigned; integers only.
        Umin "umin",
        /// The larger, unsigned; integers only.
        Umax "umax",
        /// Bitwise and; integers only.
        And "and",
        /// Bitwise or; integers only.
        Or "or",
        /// Bitwise exclusive or; integers only.
        Xor "xor",
        /// `v`.
        Xchg "xchg",
    }
}

words! {
    /// What an atomic update orders besides itself.
    MemoryOrder {
        /// Nothing.
        Relaxed "relaxed",
        /// Accesses of the program behind it come after it.
        Acquire "acquire",
        /// Accesses of the program in front of it come before it.
        Release "release",
        /// Both.
        AcqRel "acq_rel",
    }
}

impl MemoryOrder {
    /// True if later accesses stay behind the update.
    pub const fn acquires(self) -> bool {
        matches!(self, MemoryOrder::Acquire | MemoryOrder::AcqRel)
    }
    /// True if earlier accesses stay in front of the update.
    pub const fn releases(self) -> bool {
        matches!(self, MemoryOrder::Release | MemoryOrder::AcqRel)
    }
}

words! {
    /// Among whom an update is atomic.
    Scope {
        /// The program instance itself.
        Cta "cta",
        /// All program instances on the device.
        Gpu "gpu",
        /// All devices and the host.
        Sys "sys",
    }
}

words! {
    /// How the caches should treat an access; never changes what is read or written.
    CacheHint {
        /// As the machine does it.
        Normal "normal",
        /// Used once: likely not again.
        Streaming "streaming",
        /// First to leave the near cache.
        EvictFirst "evict_first",
        /// Last to leave the near cache.
        EvictLast "evict_last",
        /// Not kept in the near cache.
        Bypass "bypass",
    }
}

words! {
    /// Which way a sort runs. A NaN comes last either way.
    SortOrder {
        /// Smallest first.
        Ascending "ascending",
        /// Largest first.
        Descending "descending",
    }
}
