//! Accesses of shared memory: which bytes the lanes that are served together ask for, and how often each bank has to be passed.
//!
//! ```text
//! lanes of a phase ─► bytes of each ─► words, by bank ─► wavefronts: the most different words that one bank is asked for
//! ```

use super::grid::{Grid, PictureError};
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::layout::{Axis, BankModel, Layout, SharedOp};

/// Bytes of a bank's word.
pub(crate) const WORD: u64 = 4;
/// Bytes that one lane moves at most, and a row of a matrix that a matrix load fetches.
const WIDEST: u32 = 16;
/// Rows of such a matrix.
const MATRIX_ROWS: u32 = 8;

/// Memory that elements lie in.
pub(crate) struct Memory<'m> {
    /// Its extents.
    pub(crate) shape: &'m [u32],
    /// Bytes of an element.
    pub(crate) elem_bytes: u32,
    /// The byte of an element, from the start.
    pub(crate) byte: &'m dyn Fn(&[u32]) -> Option<u64>,
    /// Its banks.
    pub(crate) banks: &'m BankModel,
}

/// An access whose conflicts are looked at.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// A matrix load: eight lanes, a row of 16 bytes each, as matrix units and `ldmatrix` take them.
    Matrix,
    /// Lanes side by side along a row, 16 bytes each.
    Row,
    /// Lanes below one another, an element each.
    Column,
    /// The first access of a register layout, in the widest vectors that it has there.
    Layout(Box<Layout>, SharedOp),
}

/// What the lanes of one phase ask for.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    /// What it is.
    pub(crate) name: String,
    /// Elements (row-major numbers) with the lane that asks for them.
    pub(crate) elements: BTreeMap<usize, u32>,
    /// Different words by bank.
    pub(crate) words: BTreeMap<u64, BTreeSet<u64>>,
    /// Banks.
    pub(crate) banks: u32,
}

impl Phase {
    /// Passes over the banks that it takes.
    pub(crate) fn wavefronts(&self) -> usize {
        self.words.values().map(BTreeSet::len).max().unwrap_or(0)
    }

    /// Different words.
    fn all(&self) -> usize {
        self.words.values().map(BTreeSet::len).sum()
    }

    /// Passes that it would take if its words were spread over all banks.
    fn least(&self) -> usize {
        self.all().div_ceil(self.banks.max(1) as usize).max(1)
    }

    /// True if some bank is asked for more words than need be.
    pub(crate) fn conflicts(&self) -> bool {
        self.wavefronts() > self.least()
    }

    /// What is said of it: what it is, and what it comes to.
    pub(crate) fn verdict(&self) -> [String; 2] {
        let lanes: BTreeSet<u32> = self.elements.values().copied().collect();
        let (words, n) = (self.all(), self.wavefronts());
        let judged = if self.conflicts() { format!("conflicts: {} would do", self.least()) } else { "no conflicts".to_owned() };
        let s = if n == 1 { "" } else { "s" };
        [format!("framed: {}, {} lanes served together:", self.name, lanes.len()), format!("{words} words, {n} wavefront{s}, {judged}")]
    }
}

impl Memory<'_> {
    /// The dimension whose neighbours are neighbours in memory, else the last.
    fn contiguous(&self) -> usize {
        let zero = vec![0; self.shape.len()];
        let from = (self.byte)(&zero);
        let next = |d: usize| {
            let mut c = zero.clone();
            c[d] = 1;
            (self.byte)(&c)
        };
        let found = (0..self.shape.len()).rev().filter(|&d| self.shape[d] > 1);
        let mut found = found.filter(|&d| from.zip(next(d)).is_some_and(|(a, b)| b == a + u64::from(self.elem_bytes)));
        found.next().unwrap_or(self.shape.len().saturating_sub(1))
    }

    /// The dimension of rows: the last long enough one beside the contiguous one.
    fn rows(&self, contiguous: usize, least: u32) -> usize {
        let others = || (0..self.shape.len()).rev().filter(|&d| d != contiguous);
        others().find(|&d| self.shape[d] >= least).or_else(|| others().find(|&d| self.shape[d] > 1)).unwrap_or(contiguous)
    }

    /// What the first phase of an access asks for.
    ///
    /// # Errors
    /// The access is of another shape.
    pub(crate) fn phase(&self, access: &Access) -> Result<Phase, PictureError> {
        let grid = Grid::of(self.shape)?;
        let along = self.contiguous();
        let run = (WIDEST / self.elem_bytes.max(1)).max(1);
        let place = |row_dim: usize, row: u32, column: u32| {
            let mut c = vec![0; self.shape.len()];
            if row_dim != along {
                c[row_dim] = row;
            }
            if let Some(x) = c.get_mut(along) {
                *x += column;
            }
            c
        };
        let (name, op, width, lanes): (String, SharedOp, u32, Vec<Vec<Vec<u32>>>) = match access {
            Access::Matrix => {
                let d = self.rows(along, MATRIX_ROWS);
                let lanes = (0..MATRIX_ROWS).map(|r| (0..run).map(|c| place(d, r, c)).collect()).collect();
                ("a matrix load (8 rows of 16 bytes)".into(), SharedOp::Load, run, lanes)
            }
            Access::Row => {
                let lanes = (0..64).map(|l| (0..run).map(|c| place(along, 0, l * run + c)).collect()).collect();
                ("lanes along a row, 16 bytes each".into(), SharedOp::Load, run, lanes)
            }
            Access::Column => {
                let d = self.rows(along, 32);
                ("lanes down a column, an element each".into(), SharedOp::Load, 1, (0..64).map(|r| vec![place(d, r, 0)]).collect())
            }
            Access::Layout(layout, op) => {
                if layout.shape() != self.shape {
                    return Err(PictureError::Access { memory: self.shape.to_vec(), access: layout.shape().to_vec() });
                }
                let (width, lanes) = self.vectors(layout);
                (
                    format!("a {} of this layout, {width} elements a lane", if *op == SharedOp::Load { "load" } else { "store" }),
                    *op,
                    width,
                    lanes,
                )
            }
        };
        let bytes = width * self.elem_bytes;
        let (banks, basis) = self.banks.phase(op, bytes);
        let served = |lane: u32| in_span(lane, basis);
        let (mut elements, mut words): (BTreeMap<usize, u32>, BTreeMap<u64, BTreeSet<u64>>) = Default::default();
        for (lane, list) in (0u32..).zip(&lanes).filter(|(l, _)| served(*l)) {
            for coord in list.iter().filter(|c| c.iter().zip(self.shape).all(|(c, e)| c < e)) {
                let Some(at) = (self.byte)(coord) else { continue };
                elements.entry(grid.index(coord)).or_insert(lane);
                for word in at / WORD..(at + u64::from(self.elem_bytes)).div_ceil(WORD) {
                    words.entry(word % u64::from(banks.max(1))).or_default().insert(word);
                }
            }
        }
        Ok(Phase { name, elements, words, banks })
    }

    /// Elements that each lane of the first warp moves at once with the vector that holds its register 0.
    fn vectors(&self, layout: &Layout) -> (u32, Vec<Vec<Vec<u32>>>) {
        let size = u64::from(self.elem_bytes.max(1));
        let registers = layout.size(Axis::Reg);
        let lane = |l: u32| -> BTreeMap<u64, Vec<u32>> {
            let coords = (0..registers).map(|r| layout.apply(&[(Axis::Reg, r), (Axis::Lane, l)]).to_vec());
            coords.filter_map(|c| Some(((self.byte)(&c)?, c))).collect()
        };
        let lanes: Vec<(u64, BTreeMap<u64, Vec<u32>>)> =
            (0..layout.size(Axis::Lane)).map(|l| ((self.byte)(&layout.apply(&[(Axis::Lane, l)])).unwrap_or(0), lane(l))).collect();
        let base = |at: u64, width: u64| at / (size * width) * (size * width);
        let whole = |width: u64| lanes.iter().all(|(at, held)| (0..width).all(|k| held.contains_key(&(base(*at, width) + k * size))));
        let mut width = 1;
        while width * 2 * size <= u64::from(WIDEST) && whole(width * 2) {
            width *= 2;
        }
        let moved = |(at, held): &(u64, BTreeMap<u64, Vec<u32>>)| {
            (0..width).filter_map(|k| held.get(&(base(*at, width) + k * size)).cloned()).collect()
        };
        (width as u32, lanes.iter().map(moved).collect())
    }
}

/// True if a number is a sum, without carries, of some of the basis.
fn in_span(number: u32, basis: &[u32]) -> bool {
    let mut reduced: Vec<u32> = Vec::new();
    let reduce = |mut n: u32, reduced: &[u32]| {
        for &b in reduced {
            n = n.min(n ^ b);
        }
        n
    };
    for &b in basis {
        let rest = reduce(b, &reduced);
        if rest != 0 {
            reduced.push(rest);
            reduced.sort_unstable_by(|a, b| b.cmp(a));
        }
    }
    reduce(number, &reduced) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_ir::layout::{SharedMap, swizzle_of_width, wavefronts};

    fn wavefronts_of(map: &SharedMap, bytes: u32, access: &Access) -> usize {
        let banks = BankModel::nvidia();
        let byte = |c: &[u32]| map.offset(c).map(|o| u64::from(o * bytes));
        Memory { shape: map.shape(), elem_bytes: bytes, byte: &byte, banks: &banks }.phase(access).unwrap().wavefronts()
    }

    #[test]
    fn a_swizzle_takes_the_conflicts_of_matrix_loads_away() {
        let plain = SharedMap::row_major(&[64, 64], &[1, 0]).unwrap();
        let swizzled = swizzle_of_width(&[64, 64], 2, 1, 128).unwrap();
        let all = [Access::Matrix, Access::Row, Access::Column];
        assert_eq!(all.clone().map(|a| wavefronts_of(&plain, 2, &a)), [8, 1, 32]);
        // 32 rows take eight pieces each of the eight pieces of a line: four to a bank.
        assert_eq!(all.map(|a| wavefronts_of(&swizzled, 2, &a)), [1, 1, 4]);
    }

    #[test]
    fn counts_are_those_of_the_model_for_any_layout() {
        let banks = BankModel::nvidia();
        let maps = [
            SharedMap::row_major(&[32, 64], &[1, 0]).unwrap(),
            SharedMap::row_major(&[32, 64], &[0, 1]).unwrap(),
            swizzle_of_width(&[32, 64], 2, 1, 128).unwrap(),
            swizzle_of_width(&[32, 64], 2, 1, 64).unwrap(),
            SharedMap::padded(&[32, 64], 2, 1, 16).unwrap(),
        ];
        let layouts = [
            Layout::blocked(&[32, 64], &[1, 8], &[4, 8], &[1, 1], &[1, 0]).unwrap(),
            Layout::blocked(&[32, 64], &[1, 8], &[32, 1], &[1, 1], &[1, 0]).unwrap(),
            Layout::blocked(&[32, 64], &[1, 2], &[8, 4], &[1, 1], &[1, 0]).unwrap(),
            Layout::blocked(&[32, 64], &[1, 1], &[32, 1], &[1, 1], &[0, 1]).unwrap(),
            Layout::blocked(&[32, 64], &[2, 1], &[4, 8], &[1, 1], &[0, 1]).unwrap(),
        ];
        for map in &maps {
            for layout in &layouts {
                let columns = map.columns_from(layout).unwrap();
                let width = tilelift_ir::layout::vector_width(&columns, 2, 16).width;
                for op in [SharedOp::Load, SharedOp::Store] {
                    let want = wavefronts(&columns, 2, width, op, &banks, 0).per_phase;
                    assert_eq!(
                        wavefronts_of(map, 2, &Access::Layout(Box::new(layout.clone()), op)),
                        want as usize,
                        "{} {layout}",
                        map.layout()
                    );
                }
            }
        }
    }
}
