//! Types: scalars, tiles, and views of global tensors.
//!
//! ```text
//! bf16                                   a scalar; every program instance holds one
//! tile<128x176xbf16>                     a tile: any positive extents, one element type
//! view<bf16, [?, ?%64]>                  a dense row-major global tensor; the last extent is a multiple of 64
//! view<f32, [?, 128], [?%4, 1], align 8> explicit strides (in elements) and base alignment (in bytes)
//! shared<4x128x64xbf16>                  local memory, barrier<4> barriers, channel<4, tile<128x64xbf16>> a ring of slots: handles
//! ```
//!
//! A `?%n` fact is a promise of the caller, checked at launch; vector width and copy legality follow from it.

use smallvec::SmallVec;
use std::fmt;

/// The class of a scalar: decides which ops accept it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Class {
    /// The one-bit truth value `i1`.
    Bool,
    /// Two's complement integers, signless: ops say whether they read a sign.
    Int,
    /// IEEE-like binary floating point.
    Float,
    /// Floating point of one byte or less, for storage and matrix products: loaded, stored, moved, selected, cast and multiplied by `dot`;
    /// other arithmetic goes through casts.
    Narrow,
    /// Two's complement integers of less than a byte, for storage and matrix products, as [`Class::Narrow`].
    NarrowInt,
}

macro_rules! scalars {
    ($($(#[$doc:meta])* $variant:ident $name:literal $bits:literal $class:ident;)*) => {
        /// An element type.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        pub enum Scalar { $($(#[$doc])* $variant,)* }

        impl Scalar {
            /// Every scalar type, in declaration order.
            pub const ALL: &'static [Scalar] = &[$(Scalar::$variant,)*];

            /// The name in the text form.
            pub const fn name(self) -> &'static str { match self { $(Scalar::$variant => $name,)* } }

            /// Width in bits as a value (`i1` is 1; in memory it takes a byte, see [`Scalar::bytes`]).
            pub const fn bits(self) -> u32 { match self { $(Scalar::$variant => $bits,)* } }

            /// Which ops accept the type.
            pub const fn class(self) -> Class { match self { $(Scalar::$variant => Class::$class,)* } }
        }
    };
}

scalars! {
    /// A truth value.
    I1 "i1" 1 Bool;
    /// 8-bit integer.
    I8 "i8" 8 Int;
    /// 16-bit integer.
    I16 "i16" 16 Int;
    /// 32-bit integer; the type of extents, offsets and program ids.
    I32 "i32" 32 Int;
    /// 64-bit integer.
    I64 "i64" 64 Int;
    /// IEEE binary16.
    F16 "f16" 16 Float;
    /// bfloat16: the upper half of binary32.
    BF16 "bf16" 16 Float;
    /// IEEE binary32.
    F32 "f32" 32 Float;
    /// IEEE binary64.
    F64 "f64" 64 Float;
    /// OCP 8-bit float: 4 exponent bits, 3 fraction bits, no infinity, largest 448.
    F8E4M3 "f8e4m3" 8 Narrow;
    /// OCP 8-bit float: 5 exponent bits, 2 fraction bits, with infinities, largest 57344.
    F8E5M2 "f8e5m2" 8 Narrow;
    /// As `f8e4m3` with bias 8, no negative zero and one NaN (80 hexadecimal); largest 240.
    F8E4M3Fnuz "f8e4m3fnuz" 8 Narrow;
    /// As `f8e5m2` with bias 16, no infinity, no negative zero and one NaN (80 hexadecimal); largest 57344.
    F8E5M2Fnuz "f8e5m2fnuz" 8 Narrow;
    /// OCP scale: 8 exponent bits and nothing else, the powers of two from 2^-127 to 2^127, and a NaN; no zero, no sign.
    F8E8M0 "f8e8m0" 8 Narrow;
    /// OCP 4-bit float: 2 exponent bits, 1 fraction bit, neither infinity nor NaN, largest 6. In memory two share a byte.
    F4E2M1 "f4e2m1" 4 Narrow;
    /// 4-bit integer, -8 to 7. In memory two share a byte.
    I4 "i4" 4 NarrowInt;
}

impl Scalar {
    /// Bytes of one element by itself; in memory two elements of a [packed](Scalar::is_packed) type share one, see [`Scalar::storage`].
    pub const fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }
    /// Bytes of a number of neighbouring elements in memory.
    pub const fn storage(self, count: usize) -> usize {
        if self.is_packed() { count.div_ceil(2) } else { count * self.bytes() as usize }
    }
    /// How many neighbouring elements a number of bytes holds.
    pub const fn held_in(self, bytes: usize) -> usize {
        if self.is_packed() { bytes * 2 } else { bytes / self.bytes() as usize }
    }
    /// True for the types of 4 bits: in memory two share a byte, the one with the even index in the low half.
    pub const fn is_packed(self) -> bool {
        self.bits() == 4
    }
    /// True for the floating point types, those of one byte or less included.
    pub const fn is_float(self) -> bool {
        matches!(self.class(), Class::Float | Class::Narrow)
    }
    /// True for the types without arithmetic of their own: the floats of one byte or less, and `i4`.
    pub const fn is_narrow(self) -> bool {
        matches!(self.class(), Class::Narrow | Class::NarrowInt)
    }
    /// True for `i8` to `i64` (not `i1`).
    pub const fn is_int(self) -> bool {
        matches!(self.class(), Class::Int)
    }
    /// The scalar of that name, if there is one.
    pub fn from_name(name: &str) -> Option<Scalar> {
        Scalar::ALL.iter().copied().find(|s| s.name() == name)
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Extents of a tile, outermost first.
pub type Shape = SmallVec<[u32; 4]>;

/// The most elements a tile may have; larger shapes are refused by the verifier.
pub const MAX_TILE_ELEMENTS: u64 = 1 << 24;

/// The most dimensions of a tile or view.
pub const MAX_RANK: usize = 6;

/// A tile: a dense array of elements that a program instance computes with.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct TileType {
    /// Extents, outermost first; all positive, at least one.
    pub shape: Shape,
    /// Element type.
    pub elem: Scalar,
}

impl TileType {
    /// A tile type from extents and element type.
    pub fn new(shape: &[u32], elem: Scalar) -> TileType {
        TileType { shape: Shape::from_slice(shape), elem }
    }
    /// Number of elements; saturates, so that absurd shapes stay comparable with [`MAX_TILE_ELEMENTS`].
    pub fn elements(&self) -> u64 {
        self.shape.iter().fold(1u64, |n, &e| n.saturating_mul(u64::from(e)))
    }
}

impl fmt::Display for TileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("tile<")?;
        for e in &self.shape {
            write!(f, "{e}x")?;
        }
        write!(f, "{}>", self.elem)
    }
}

/// What is known of an extent or stride before launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Extent {
    /// Known at launch only; a multiple of the given positive number (`?%64`; 1 prints as `?`).
    Dynamic(u32),
    /// Known now.
    Fixed(u32),
}

impl Extent {
    /// The largest number known to divide the extent (0 for a fixed 0, which everything divides).
    pub const fn divisor(self) -> u32 {
        match self {
            Extent::Dynamic(d) | Extent::Fixed(d) => d,
        }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Extent::Dynamic(1) => f.write_str("?"),
            Extent::Dynamic(d) => write!(f, "?%{d}"),
            Extent::Fixed(n) => write!(f, "{n}"),
        }
    }
}

/// Base alignment, in bytes, of a view that states none.
pub const DEFAULT_ALIGN: u32 = 16;

/// A view of a global tensor: a base pointer with run-time shape and strides.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct ViewType {
    /// Element type.
    pub elem: Scalar,
    /// Extents, outermost first.
    pub dims: SmallVec<[Extent; 4]>,
    /// Strides in elements, or `None` for a dense row-major tensor, whose strides follow from the extents.
    pub strides: Option<SmallVec<[Extent; 4]>>,
    /// Alignment of the base pointer in bytes, a power of two.
    pub align: u32,
}

impl ViewType {
    /// A dense row-major view with 16-byte aligned base.
    pub fn dense(elem: Scalar, dims: &[Extent]) -> ViewType {
        ViewType { elem, dims: SmallVec::from_slice(dims), strides: None, align: DEFAULT_ALIGN }
    }
    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }
    /// The same view with another base alignment, in bytes.
    pub fn with_align(mut self, align: u32) -> ViewType {
        self.align = align;
        self
    }
    /// The same view with explicit strides, in elements.
    pub fn with_strides(mut self, strides: &[Extent]) -> ViewType {
        self.strides = Some(SmallVec::from_slice(strides));
        self
    }
    /// What is known of the stride of dimension `d`, in elements: declared, or derived from the extents of a dense view.
    pub fn stride(&self, d: usize) -> Extent {
        match &self.strides {
            Some(s) => s[d],
            None => {
                let inner = &self.dims[d + 1..];
                if inner.iter().all(|e| matches!(e, Extent::Fixed(_))) {
                    Extent::Fixed(inner.iter().fold(1u32, |p, e| p.saturating_mul(e.divisor())))
                } else {
                    Extent::Dynamic(inner.iter().fold(1u32, |p, e| p.saturating_mul(e.divisor())).max(1))
                }
            }
        }
    }
}

impl fmt::Display for ViewType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list(f: &mut fmt::Formatter<'_>, es: &[Extent]) -> fmt::Result {
            f.write_str("[")?;
            for (i, e) in es.iter().enumerate() {
                if i > 0 {
                    f.write_str(", ")?;
                }
                write!(f, "{e}")?;
            }
            f.write_str("]")
        }
        write!(f, "view<{}, ", self.elem)?;
        list(f, &self.dims)?;
        if let Some(s) = &self.strides {
            f.write_str(", ")?;
            list(f, s)?;
        }
        if self.align != DEFAULT_ALIGN {
            write!(f, ", align {}", self.align)?;
        }
        f.write_str(">")
    }
}

/// A tile in the local memory of a program instance; its values are handles.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct SharedType {
    /// Extents, outermost first; leading ones may serve as slots.
    pub shape: Shape,
    /// Element type.
    pub elem: Scalar,
}

impl SharedType {
    /// A shared type from extents and element type.
    pub fn new(shape: &[u32], elem: Scalar) -> SharedType {
        SharedType { shape: Shape::from_slice(shape), elem }
    }
    /// The tile that it holds.
    pub fn tile(&self) -> TileType {
        TileType { shape: self.shape.clone(), elem: self.elem }
    }
    /// Bytes in row-major order without gaps; saturates.
    pub fn bytes(&self) -> u64 {
        let n = self.tile().elements();
        if self.elem.is_packed() { n.div_ceil(2) } else { n.saturating_mul(u64::from(self.elem.bytes())) }
    }
}

impl fmt::Display for SharedType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("shared<")?;
        for e in &self.shape {
            write!(f, "{e}x")?;
        }
        write!(f, "{}>", self.elem)
    }
}

/// A ring of slots through which tiles travel between tasks; its values are handles.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct ChannelType {
    /// Number of slots.
    pub depth: u32,
    /// The tiles of a slot.
    pub tiles: Vec<TileType>,
}

impl fmt::Display for ChannelType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "channel<{}", self.depth)?;
        for t in &self.tiles {
            write!(f, ", {t}")?;
        }
        f.write_str(">")
    }
}

/// The most bytes of one buffer of local memory.
pub const MAX_LOCAL_BYTES: u64 = 1 << 20;

/// The most barriers of one `barrier_alloc` and slots of a channel.
pub const MAX_SLOTS: u32 = 1024;

/// The most tiles of a channel's slot.
pub const MAX_CHANNEL_TILES: usize = 8;

/// The type of a value. Views, which parameters alone have, are in a box: kernels have many values.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum Type {
    /// One number, the same for the whole program instance.
    Scalar(Scalar),
    /// A tile of numbers.
    Tile(TileType),
    /// A global tensor; only kernel parameters have this type.
    View(Box<ViewType>),
    /// A handle of local memory.
    Shared(SharedType),
    /// A handle of so many barriers.
    Barrier(u32),
    /// A handle of a channel.
    Channel(ChannelType),
}

impl Type {
    /// A tile type, for short.
    pub fn tile(shape: &[u32], elem: Scalar) -> Type {
        Type::Tile(TileType::new(shape, elem))
    }
    /// The element type of a scalar, tile, view or local memory; of barriers the word that they are, of a channel its first tile's.
    pub fn elem(&self) -> Scalar {
        match self {
            Type::Scalar(s) => *s,
            Type::Tile(t) => t.elem,
            Type::View(v) => v.elem,
            Type::Shared(s) => s.elem,
            Type::Barrier(_) => Scalar::I64,
            Type::Channel(c) => c.tiles.first().map_or(Scalar::I64, |t| t.elem),
        }
    }
    /// Extents of a number: empty for a scalar, `None` for a view or a handle.
    pub fn shape(&self) -> Option<&[u32]> {
        match self {
            Type::Scalar(_) => Some(&[]),
            Type::Tile(t) => Some(&t.shape),
            Type::View(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => None,
        }
    }
    /// A scalar or tile of the same shape with another element type; other types are returned unchanged.
    pub fn with_elem(&self, elem: Scalar) -> Type {
        match self {
            Type::Scalar(_) => Type::Scalar(elem),
            Type::Tile(t) => Type::Tile(TileType { shape: t.shape.clone(), elem }),
            Type::View(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => self.clone(),
        }
    }
    /// True for local memory, barriers and channels, which are named, never computed with.
    pub fn is_handle(&self) -> bool {
        matches!(self, Type::Shared(_) | Type::Barrier(_) | Type::Channel(_))
    }
    /// A tile of that shape, or the scalar when the shape is empty.
    pub fn of_shape(shape: &[u32], elem: Scalar) -> Type {
        if shape.is_empty() { Type::Scalar(elem) } else { Type::tile(shape, elem) }
    }
    /// The tile type, if it is one.
    pub fn as_tile(&self) -> Option<&TileType> {
        if let Type::Tile(t) = self { Some(t) } else { None }
    }
    /// The type of local memory, if it is one.
    pub fn as_shared(&self) -> Option<&SharedType> {
        if let Type::Shared(t) = self { Some(t) } else { None }
    }
    /// The view type, if it is one.
    pub fn as_view(&self) -> Option<&ViewType> {
        if let Type::View(v) = self { Some(v) } else { None }
    }
}

impl From<Scalar> for Type {
    fn from(s: Scalar) -> Type {
        Type::Scalar(s)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Scalar(s) => s.fmt(f),
            Type::Tile(t) => t.fmt(f),
            Type::View(v) => v.fmt(f),
            Type::Shared(s) => s.fmt(f),
            Type::Barrier(n) => write!(f, "barrier<{n}>"),
            Type::Channel(c) => c.fmt(f),
        }
    }
}
