//! How a buffer lies in shared memory.

use super::handle::Part;
use std::fmt;
use std::rc::Rc;
use tilelift_ir::layout::SharedMap;
use tilelift_lane::number::gcd;
use tilelift_lane::swizzled_byte;

/// Rows of a swizzle atom: after them the pattern repeats.
pub(super) const PHASE: u32 = 8;

/// Bytes of the pieces of a row that the swizzle moves.
const PIECE: u32 = 16;

/// How a buffer lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BufferLayout {
    /// Extents of the whole buffer.
    pub shape: Vec<u32>,
    /// Bytes of an element.
    pub size: u32,
    /// Its swizzle; `None` for row-major order without gaps.
    pub swizzled: Option<Swizzled>,
    /// The map of each slot, in elements, where it was chosen for those who fill it and fetch from it: of the last dimensions, those in front of
    /// them count slots. It stands in place of swizzle and rows.
    pub slot: Option<Rc<SharedMap>>,
}

/// Bytes at whose multiples slots with a map of their own begin.
const SLOT_ALIGN: u32 = 128;

/// The swizzle of a buffer, block by block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Swizzled {
    /// The dimension along rows.
    pub contiguous: usize,
    /// The swizzle width in bytes.
    pub swizzle: u32,
    /// Rows of a block.
    pub rows: u32,
}

impl BufferLayout {
    /// Elements from one position of a dimension to the next, in row-major order of the whole buffer.
    fn step(&self, d: usize) -> u32 {
        self.shape[d + 1..].iter().product()
    }

    /// Bytes at whose multiples a part begins and ends wherever it lies: whatever of the buffer it cuts out. Rows of atoms hold pieces of
    /// `PIECE` bytes in an order of their own, and so many rows as that order repeats after.
    pub fn cut(&self, parts: &[Part]) -> u32 {
        let bytes = |p: &Part| {
            let n = gcd(gcd(p.at, p.extent), self.shape[p.of]);
            match self.swizzled {
                None => n * self.step(p.of) * self.size,
                Some(b) if b.contiguous == p.of && (n * self.size).is_multiple_of(b.swizzle) => {
                    gcd(n * self.size / b.swizzle * self.atom_stride(), self.block_bytes())
                }
                Some(b) if b.contiguous == p.of => gcd(n * self.size, PIECE),
                // Atoms as wide as rows lie one right behind the other.
                Some(b) if b.swizzle == self.row_bytes() && (n * self.row_step(p.of)).is_multiple_of(PHASE) => {
                    gcd(n * self.row_step(p.of), self.block_rows()) * b.swizzle
                }
                Some(b) => gcd(gcd(n * self.row_step(p.of), PHASE), b.rows) * b.swizzle,
            }
        };
        parts.iter().filter(|p| p.extent < self.shape[p.of]).map(bytes).fold(0, gcd)
    }

    /// Rows from one position of a dimension, which is not the contiguous one, to the next.
    pub fn row_step(&self, d: usize) -> u32 {
        match self.swizzled {
            Some(p) if p.contiguous > d => self.step(d) / self.shape[p.contiguous],
            Some(_) | None => self.step(d),
        }
    }

    /// Bytes of a whole row.
    fn row_bytes(&self) -> u32 {
        self.swizzled.map_or(0, |p| self.shape[p.contiguous] * self.size)
    }

    /// Bytes from a swizzle atom to the next one along the row.
    pub fn atom_stride(&self) -> u32 {
        self.swizzled.map_or(0, |p| p.rows.next_multiple_of(PHASE) * p.swizzle)
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> u32 {
        self.swizzled.map_or(0, |p| self.row_bytes() / p.swizzle * self.atom_stride())
    }

    /// Rows that lie as those of one block do: of atoms as wide as the rows one is right behind the other, to the end of the buffer.
    pub fn block_rows(&self) -> u32 {
        match self.swizzled {
            Some(p) if p.swizzle == self.row_bytes() && p.rows.is_multiple_of(PHASE) => {
                self.shape.iter().product::<u32>() / self.shape[p.contiguous]
            }
            Some(p) => p.rows,
            None => 0,
        }
    }

    /// The map of a slot, how many dimensions in front of it count slots, and the bytes of one.
    fn slots(&self) -> Option<(&Rc<SharedMap>, usize, u32)> {
        let map = self.slot.as_ref()?;
        let bytes = map.elements().saturating_mul(self.size).min(1 << 30).next_multiple_of(SLOT_ALIGN);
        Some((map, self.shape.len() - map.shape().len(), bytes))
    }

    /// True if products may fetch what they need of a slot as they go: by a map of its own, or from atoms that are one block.
    pub(super) fn is_fetched(&self) -> bool {
        let whole = |p: Swizzled| p.rows.is_power_of_two() && p.rows >= PHASE && self.row_bytes().is_power_of_two();
        self.slot.is_some() || self.swizzled.is_some_and(whole)
    }

    /// The map of a slot as a handle of all of one sees it, if slots have a map of their own.
    pub fn seen(&self, parts: &[Part]) -> Option<SharedMap> {
        let (map, lead, _) = self.slots()?;
        let perm: Option<Vec<usize>> = parts.iter().map(|p| p.of.checked_sub(lead)).collect();
        map.transpose(&perm?).ok()
    }

    /// Bytes of the buffer.
    pub fn bytes(&self) -> u64 {
        if let Some((_, lead, bytes)) = self.slots() {
            return self.shape[..lead].iter().fold(u64::from(bytes), |n, &e| n * u64::from(e));
        }
        let elements: u64 = self.shape.iter().map(|&e| u64::from(e)).product();
        match self.swizzled {
            None => elements * u64::from(self.size),
            Some(p) => {
                let rows = elements / u64::from(self.shape[p.contiguous]);
                rows / u64::from(p.rows) * u64::from(self.block_bytes())
            }
        }
    }

    /// The byte at which an element lies, from the buffer's start; `None` outside the buffer.
    pub fn byte(&self, coord: &[u32]) -> Option<u64> {
        if coord.len() != self.shape.len() || coord.iter().zip(&self.shape).any(|(c, e)| c >= e) {
            return None;
        }
        let flat = |d: &[usize]| d.iter().fold(0u64, |n, &d| n * u64::from(self.shape[d]) + u64::from(coord[d]));
        if let Some((map, lead, bytes)) = self.slots() {
            let slot = flat(&(0..lead).collect::<Vec<_>>());
            return Some(slot * u64::from(bytes) + u64::from(map.offset(&coord[lead..])?) * u64::from(self.size));
        }
        let all: Vec<usize> = (0..self.shape.len()).collect();
        let Some(p) = self.swizzled else { return Some(flat(&all) * u64::from(self.size)) };
        let row = flat(&all.into_iter().filter(|&d| d != p.contiguous).collect::<Vec<_>>());
        let (block, row) = (row / u64::from(p.rows), (row % u64::from(p.rows)) as u32);
        let at = coord[p.contiguous] * self.size;
        let inside = at / p.swizzle * self.atom_stride() + swizzled_byte(p.swizzle, row, at % p.swizzle);
        Some(block * u64::from(self.block_bytes()) + u64::from(inside))
    }

    /// Bytes from one position of a dimension to the next, for an index that is not known; `None` if that is not the same everywhere.
    pub fn index_step(&self, d: usize) -> Option<u32> {
        if let Some((_, lead, bytes)) = self.slots() {
            return (d < lead).then(|| self.shape[d + 1..lead].iter().product::<u32>() * bytes);
        }
        let Some(p) = self.swizzled else { return Some(self.step(d) * self.size) };
        if d == p.contiguous {
            return None;
        }
        let rows = self.row_step(d);
        if rows.is_multiple_of(p.rows) {
            Some(rows / p.rows * self.block_bytes())
        } else if rows.is_multiple_of(PHASE) && self.block_rows().is_multiple_of(rows * self.shape[d]) {
            Some(rows * p.swizzle)
        } else {
            // Of one position nothing else is known.
            (self.shape[d] == 1).then_some(0)
        }
    }
}

impl fmt::Display for BufferLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.slot, self.swizzled) {
            (Some(map), _) => write!(f, "slots of the map {}", map.layout()),
            (None, Some(p)) => write!(f, "swizzle({}) in blocks of {} rows along dimension {}", p.swizzle, p.rows, p.contiguous),
            (None, None) => f.write_str("row-major"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BufferLayout, Swizzled};
    use std::collections::BTreeSet;
    use std::rc::Rc;
    use tilelift_ir::layout::SharedMap;

    fn bytes(b: &BufferLayout) -> BTreeSet<u64> {
        let n: u32 = b.shape.iter().product();
        let coord = |mut i: u32| {
            let mut c: Vec<u32> = b.shape.iter().rev().map(|&e| (i % e, i /= e).0).collect();
            c.reverse();
            c
        };
        (0..n).map(|i| b.byte(&coord(i)).unwrap()).collect()
    }

    #[test]
    fn every_element_of_a_buffer_has_bytes_of_its_own_inside() {
        let with = |shape: &[u32], swizzled| BufferLayout { shape: shape.to_vec(), size: 2, swizzled, slot: None };
        let of = |contiguous, swizzle, rows| Some(Swizzled { contiguous, swizzle, rows });
        let slot = SharedMap::swizzled(&[16, 64], &[1, 0], 8, 1, 8).unwrap();
        for b in [
            with(&[3, 16, 64], None),
            with(&[2, 64, 128], of(2, 128, 64)),
            with(&[2, 64, 32], of(2, 64, 64)),
            with(&[2, 16, 48], of(2, 32, 16)),
            with(&[2, 64, 16], of(1, 128, 16)),
            BufferLayout { slot: Some(Rc::new(slot)), ..with(&[2, 16, 64], None) },
        ] {
            let found = bytes(&b);
            assert_eq!(found.len(), b.shape.iter().product::<u32>() as usize, "{b}");
            assert!(found.iter().all(|&at| at % 2 == 0 && at < b.bytes()), "{b}: {:?} of {}", found.last(), b.bytes());
        }
        let b = with(&[2, 64, 128], of(2, 128, 64));
        // The second atom of the row, its first piece where row 3 has it.
        assert_eq!(b.byte(&[1, 3, 64]), Some(64 * 256 + 64 * 128 + 3 * 128 + (3 << 4)));
        assert_eq!((b.byte(&[1, 3, 128]), b.byte(&[1, 3])), (None, None));
    }
}
