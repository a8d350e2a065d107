//! Tensor maps: what a host passes to `cuTensorMapEncodeTiled`, checked by the same rules, in an encoding of the
//! simulator's own.

use std::fmt;

/// Element type of a tensor map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapElement {
    /// Bytes; 8-bit floats too.
    U8,
    /// 16-bit unsigned integers.
    U16,
    /// 32-bit unsigned integers.
    U32,
    /// 32-bit signed integers.
    S32,
    /// 64-bit unsigned integers.
    U64,
    /// 64-bit signed integers.
    S64,
    /// Half precision.
    F16,
    /// Single precision.
    F32,
    /// Double precision.
    F64,
    /// bfloat16.
    Bf16,
    /// Single precision that loads round to tf32.
    Tf32,
}

/// Types by their names, where reductions tell them apart.
const NAMED: [(&str, MapElement); 5] =
    [("f32", MapElement::F32), ("f64", MapElement::F64), ("f16", MapElement::F16), ("bf16", MapElement::Bf16), ("i32", MapElement::S32)];

impl MapElement {
    /// The type of elements of that name (`f32`, `bf16`), or else of so many bytes: unsigned integers of that size, bytes where there is none;
    /// `f32` may become tf32.
    pub fn of(name: &str, bytes: u32, tf32: bool) -> MapElement {
        let unsigned = [MapElement::U8, MapElement::U16, MapElement::U32, MapElement::U64];
        let named = NAMED.into_iter().find(|n| n.0 == name).map(|n| n.1);
        let sized = || unsigned.into_iter().find(|e| e.bytes() == bytes).unwrap_or(MapElement::U8);
        if tf32 { MapElement::Tf32 } else { named.unwrap_or_else(sized) }
    }
}

const ELEMENTS: [(MapElement, u32); 11] = [
    (MapElement::U8, 1),
    (MapElement::U16, 2),
    (MapElement::U32, 4),
    (MapElement::S32, 4),
    (MapElement::U64, 8),
    (MapElement::S64, 8),
    (MapElement::F16, 2),
    (MapElement::F32, 4),
    (MapElement::F64, 8),
    (MapElement::Bf16, 2),
    (MapElement::Tf32, 4),
];

impl MapElement {
    /// Size in bytes.
    pub fn bytes(self) -> u32 {
        ELEMENTS[self as usize].1
    }

    fn is_float(self) -> bool {
        matches!(self, MapElement::F16 | MapElement::F32 | MapElement::F64 | MapElement::Bf16 | MapElement::Tf32)
    }
}

/// Permutation of 16-byte chunks of a tile in shared memory, by absolute address bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapSwizzle {
    /// Rows as they are.
    None,
    /// Bit 4 is exclusive-ored with bit 7.
    B32,
    /// Bits 4-5 are exclusive-ored with bits 7-8.
    B64,
    /// Bits 4-6 are exclusive-ored with bits 7-9.
    B128,
}

const SWIZZLES: [MapSwizzle; 4] = [MapSwizzle::None, MapSwizzle::B32, MapSwizzle::B64, MapSwizzle::B128];

impl MapSwizzle {
    /// Bytes of a row it permutes within; `None` for no swizzle.
    pub fn width(self) -> Option<u32> {
        match self {
            MapSwizzle::None => None,
            MapSwizzle::B32 => Some(32),
            MapSwizzle::B64 => Some(64),
            MapSwizzle::B128 => Some(128),
        }
    }

    /// The physical address of a logical one.
    pub fn apply(self, address: u64) -> u64 {
        let mask = self.width().map_or(0, |s| u64::from(s) / 16 - 1);
        address ^ ((address >> 7 & mask) << 4)
    }
}

/// What elements outside the tensor read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapFill {
    /// Zero.
    Zero,
    /// NaN (floating-point elements only).
    Nan,
}

/// A tiled tensor map without interleaving. Dimension 0 is the contiguous one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorMap {
    /// Global address of element 0.
    pub base: u64,
    /// Element type.
    pub element: MapElement,
    /// Extents, 1 to 5 of them.
    pub dims: Vec<u64>,
    /// Strides in bytes of dimensions 1 and up: one fewer than `dims`.
    pub strides: Vec<u64>,
    /// Extents of the box one copy moves.
    pub box_dims: Vec<u32>,
    /// Steps between the elements a copy takes; dimension 0 is always dense.
    pub element_strides: Vec<u32>,
    /// Layout of a tile in shared memory.
    pub swizzle: MapSwizzle,
    /// What lies outside.
    pub fill: MapFill,
}

/// A rule of `cuTensorMapEncodeTiled` that a map breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMapError(String);

impl fmt::Display for TensorMapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tensor map: {}", self.0)
    }
}

impl std::error::Error for TensorMapError {}

const MAGIC: u64 = 0x7469_6c65_6d61_7031;

impl TensorMap {
    /// A dense or padded map with every element taken, no swizzle and zero fill. `strides` as in the field.
    pub fn new(base: u64, element: MapElement, dims: &[u64], strides: &[u64], box_dims: &[u32]) -> TensorMap {
        TensorMap {
            base,
            element,
            dims: dims.to_vec(),
            strides: strides.to_vec(),
            box_dims: box_dims.to_vec(),
            element_strides: vec![1; dims.len()],
            swizzle: MapSwizzle::None,
            fill: MapFill::Zero,
        }
    }

    /// A map whose box has rows of `width` bytes, swizzled over that width: what kernels copy operands with; rows as they are with a width of 0. Extents of 0
    /// are taken as 1: of such a tensor nothing is copied.
    ///
    /// # Errors
    /// A width that is no swizzle's.
    pub fn swizzled_box(
        base: u64,
        element: MapElement,
        extents: &[u64],
        strides: &[u64],
        box_dims: &[u32],
        width: u32,
    ) -> Result<TensorMap, TensorMapError> {
        let Some(swizzle) = SWIZZLES.into_iter().find(|s| s.width().unwrap_or(0) == width) else {
            return Err(TensorMapError(format!("a swizzle of {width} bytes")));
        };
        let dims: Vec<u64> = extents.iter().map(|&e| e.max(1)).collect();
        Ok(TensorMap::new(base, element, &dims, strides, box_dims).swizzled(swizzle))
    }

    /// The same map with another swizzle.
    pub fn swizzled(mut self, swizzle: MapSwizzle) -> TensorMap {
        self.swizzle = swizzle;
        self
    }

    /// Elements a copy takes along each dimension.
    pub fn tile(&self) -> Vec<u32> {
        (0..self.dims.len())
            .map(|i| if i == 0 { self.box_dims[0] } else { self.box_dims[i].div_ceil(self.element_strides[i].max(1)) })
            .collect()
    }

    /// Bytes of a tile: what every copy writes and counts, also where it leaves the tensor.
    pub fn tile_bytes(&self) -> u64 {
        self.tile().iter().map(|&n| u64::from(n)).product::<u64>() * u64::from(self.element.bytes())
    }

    /// Checks the rules of the driver.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn check(&self) -> Result<(), TensorMapError> {
        let bad = |m: String| Err(TensorMapError(m));
        let rank = self.dims.len();
        if !(1..=5).contains(&rank) {
            return bad(format!("rank {rank} is not from 1 to 5"));
        }
        if self.strides.len() != rank - 1 || self.box_dims.len() != rank || self.element_strides.len() != rank {
            return bad(format!("rank {rank} needs {} strides, {rank} box extents and {rank} element strides", rank - 1));
        }
        if !self.base.is_multiple_of(16) {
            return bad(format!("the address {:#x} is not a multiple of 16", self.base));
        }
        if let Some(d) = self.dims.iter().find(|&&d| d == 0 || d > 1 << 32) {
            return bad(format!("the extent {d} is not from 1 to 2^32"));
        }
        if let Some(s) = self.strides.iter().find(|&&s| !s.is_multiple_of(16) || s >= 1 << 40) {
            return bad(format!("the stride {s} is not a multiple of 16 below 2^40: such a tensor cannot be copied by tensor maps"));
        }
        if let Some(b) = self.box_dims.iter().find(|&&b| b == 0 || b > 256) {
            return bad(format!("the box extent {b} is not from 1 to 256"));
        }
        if let Some(e) = self.element_strides.iter().find(|&&e| e == 0 || e > 8) {
            return bad(format!("the element stride {e} is not from 1 to 8"));
        }
        let inner = self.box_dims[0] * self.element.bytes();
        if !inner.is_multiple_of(16) {
            return bad(format!("{inner} bytes of inner box extent are not a multiple of 16"));
        }
        if let Some(width) = self.swizzle.width() {
            if inner > width {
                return bad(format!("{inner} bytes of inner box extent are more than the swizzle width {width}: use several boxes"));
            }
            if inner < width {
                return bad(format!("an inner box extent of {inner} bytes below the swizzle width {width} is not modelled"));
            }
        }
        if self.fill == MapFill::Nan && !self.element.is_float() {
            return bad("NaN fill needs floating-point elements".to_string());
        }
        Ok(())
    }

    /// The 128 bytes a kernel gets as a parameter or finds in global memory. Only the simulator understands them.
    ///
    /// # Errors
    /// As [`TensorMap::check`].
    pub fn encode(&self) -> Result<[u8; 128], TensorMapError> {
        self.check()?;
        let mut out = Vec::with_capacity(128);
        out.extend(MAGIC.to_le_bytes());
        out.extend([self.element as u8, self.dims.len() as u8, self.swizzle as u8, self.fill as u8]);
        out.extend(self.base.to_le_bytes());
        for i in 0..5 {
            out.extend((self.dims.get(i).map_or(0, |d| d - 1) as u32).to_le_bytes());
            out.extend(self.strides.get(i).copied().unwrap_or(0).to_le_bytes());
            out.extend((self.box_dims.get(i).copied().unwrap_or(1) as u16).to_le_bytes());
            out.push(self.element_strides.get(i).copied().unwrap_or(1) as u8);
        }
        let sum = checksum(&out);
        out.extend(sum.to_le_bytes());
        out.resize(128, 0);
        let mut a = [0; 128];
        a.copy_from_slice(&out);
        Ok(a)
    }

    /// Reads an encoding back; `None` for any other bytes.
    pub(crate) fn decode(b: &[u8]) -> Option<TensorMap> {
        let word = |at: usize, n: usize| {
            let mut v = [0u8; 8];
            v[..n].copy_from_slice(b.get(at..at + n)?);
            Some(u64::from_le_bytes(v))
        };
        if b.len() != 128 || word(0, 8)? != MAGIC || word(95, 8)? != checksum(&b[..95]) {
            return None;
        }
        let rank = usize::from(b[9]);
        let mut m = TensorMap {
            base: word(12, 8)?,
            element: ELEMENTS.get(usize::from(b[8]))?.0,
            dims: Vec::new(),
            strides: Vec::new(),
            box_dims: Vec::new(),
            element_strides: Vec::new(),
            swizzle: *SWIZZLES.get(usize::from(b[10]))?,
            fill: if b[11] == 0 { MapFill::Zero } else { MapFill::Nan },
        };
        for i in 0..rank {
            let at = 20 + 15 * i;
            m.dims.push(word(at, 4)? + 1);
            if i + 1 < rank {
                m.strides.push(word(at + 4, 8)?);
            }
            m.box_dims.push(word(at + 12, 2)? as u32);
            m.element_strides.push(u32::from(b[at + 14]));
        }
        Some(m)
    }

    /// Bytes of one fill element.
    pub(crate) fn fill_bytes(&self) -> Vec<u8> {
        let n = self.element.bytes() as usize;
        match (self.fill, self.element) {
            (MapFill::Nan, MapElement::F16 | MapElement::Bf16) => 0x7fffu16.to_le_bytes().to_vec(),
            (MapFill::Nan, MapElement::F32 | MapElement::Tf32) => crate::num::NAN32.to_le_bytes().to_vec(),
            (MapFill::Nan, MapElement::F64) => f64::NAN.to_bits().to_le_bytes().to_vec(),
            _ => vec![0; n],
        }
    }
}

/// FNV-1a.
fn checksum(b: &[u8]) -> u64 {
    b.iter().fold(0xcbf2_9ce4_8422_2325, |h, &x| (h ^ u64::from(x)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        for rank in 1..=5usize {
            let mut m = TensorMap::new(512, MapElement::F32, &vec![7; rank], &vec![32; rank - 1], &vec![4; rank]);
            m.dims[0] = 1 << 32;
            m.element_strides[rank - 1] = 2;
            let e = m.encode().expect("fits the rules");
            assert_eq!(TensorMap::decode(&e), Some(m));
            let mut broken = e;
            broken[30] ^= 1;
            assert_eq!(TensorMap::decode(&broken), None);
        }
    }

    #[test]
    fn rules() {
        let good = TensorMap::new(1024, MapElement::Bf16, &[100, 50], &[208], &[64, 8]).swizzled(MapSwizzle::B128);
        assert_eq!(good.check(), Ok(()));
        let bad = |f: fn(&mut TensorMap), needle: &str| {
            let mut m = good.clone();
            f(&mut m);
            let e = m.check().expect_err("a rule is broken").to_string();
            assert!(e.contains(needle), "{e}");
        };
        bad(|m| m.base = 8, "multiple of 16");
        bad(|m| m.strides[0] = 200, "stride 200");
        bad(|m| m.box_dims[1] = 257, "257");
        bad(|m| m.box_dims[0] = 72, "swizzle width");
        bad(|m| m.box_dims[0] = 60, "multiple of 16");
        bad(|m| m.dims[1] = 0, "extent 0");
        bad(|m| m.element_strides[1] = 9, "9");
        bad(|m| m.strides.clear(), "rank 2");
        bad(
            |m| {
                m.element = MapElement::U16;
                m.fill = MapFill::Nan;
            },
            "NaN",
        );
    }

    #[test]
    fn swizzles_are_involutions() {
        for s in SWIZZLES {
            for a in (0..4096).step_by(4) {
                assert_eq!(s.apply(s.apply(a)), a);
                assert_eq!(s.apply(a) / 128, a / 128);
            }
        }
        assert_eq!(MapSwizzle::B128.apply(128 * 3 + 16), 128 * 3 + 32);
        assert_eq!(MapSwizzle::B64.apply(128), 128 + 16);
        assert_eq!(MapSwizzle::B32.apply(128 + 16), 128);
    }
}
