//! Where the tiles of a grid lie in a tensor: whether they cover it, and whether each element has one program.
//!
//! Two proofs: by form, where an index is a grid axis times the tile's extent; and by looking at every program, where all extents are
//! numbers and the grid is not too large. The first holds for symbols, the second for any order of the programs.

use super::access::Place;
use super::atoms::{Atom, Atoms, Sum};
use super::programs::Programs;
use crate::graph::size::{Count, Grid, Size};

/// What is known of the tiles of a grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tiling {
    /// Every element of the tensor lies in a tile.
    pub covers: bool,
    /// No element lies in two.
    pub apart: bool,
}

/// Looks at the tiles that the programs of a grid access at a place.
pub(crate) fn tiling(atoms: &Atoms, grid: &Grid, place: &Place, extents: &[Size]) -> Tiling {
    let by_form = by_form(atoms, grid, place, extents);
    if by_form == (Tiling { covers: true, apart: true }) {
        return by_form;
    }
    let looked = one_by_one(atoms, grid, place, extents).unwrap_or_default();
    Tiling { covers: by_form.covers || looked.covers, apart: by_form.apart || looked.apart }
}

/// True if the tiles of all programs of a grid lie inside of an extent along one dimension.
pub(crate) fn fits(atoms: &Atoms, grid: &Grid, (index, tile): (&Sum, u32), size: &Size, divisor: u32) -> bool {
    if let (0, &[(a, factor)]) = (index.offset, &index.terms[..])
        && let Atom::Program(axis) = atoms.atom(a)
        && factor as u32 >= tile
        && factor > 0
        && grid.0[*axis as usize] == Count::tiles(size, factor as u32)
        && divisor.is_multiple_of(factor as u32)
    {
        return true;
    }
    if atoms.walks(index, tile, size, divisor) {
        return true;
    }
    let (Some(mut programs), Some(size)) = (Programs::of(atoms, grid), size.fixed()) else { return false };
    let numbers = programs.numbers();
    let inside = |n: u32| {
        let first = programs.value(index, n).and_then(|i| u32::try_from(i).ok());
        first.and_then(|i| i.checked_add(tile)).is_some_and(|end| end <= size)
    };
    // The last one first: it lies outside, if any does, as a rule.
    numbers.rev().all(inside)
}

fn by_form(atoms: &Atoms, grid: &Grid, place: &Place, extents: &[Size]) -> Tiling {
    let mut all = Tiling { covers: true, apart: true };
    let mut used = [false; 3];
    for ((index, &tile), extent) in place.index.iter().zip(&place.shape).zip(extents) {
        match (index.offset, &index.terms[..]) {
            (0, []) => all.covers &= extent.fixed().is_some_and(|n| n <= tile),
            (0, &[(a, factor)]) => {
                let Atom::Program(axis) = atoms.atom(a) else { return Tiling::default() };
                let axis = *axis as usize;
                if used[axis] {
                    return Tiling::default();
                }
                used[axis] = true;
                all.covers &= factor == tile as i32 && grid.0[axis] == Count::tiles(extent, tile);
                all.apart &= factor >= tile as i32;
            }
            _ => return Tiling::default(),
        }
    }
    all.apart &= (0..3).all(|axis| used[axis] || grid.0[axis].fixed() == Some(1));
    all
}

fn one_by_one(atoms: &Atoms, grid: &Grid, place: &Place, extents: &[Size]) -> Option<Tiling> {
    let extents: Vec<u32> = extents.iter().map(Size::fixed).collect::<Option<_>>()?;
    let mut programs = Programs::of(atoms, grid)?;
    // Tiles of each dimension, and the numbers of those that programs have.
    let counts: Vec<u64> = extents.iter().zip(&place.shape).map(|(&e, &t)| u64::from(e.div_ceil(t.max(1)))).collect();
    let mut seen: Vec<u64> = Vec::new();
    for n in programs.numbers() {
        let mut number = Some(0u64);
        for ((index, &tile), (&extent, &count)) in place.index.iter().zip(&place.shape).zip(extents.iter().zip(&counts)) {
            let at = programs.value(index, n)?;
            if at % tile.max(1) as i32 != 0 {
                // Tiles off the raster: nothing is known.
                return None;
            }
            let inside = u32::try_from(at).ok().filter(|&at| at < extent);
            number = number.zip(inside).map(|(n, at)| n.wrapping_mul(count).wrapping_add(u64::from(at / tile.max(1))));
        }
        seen.extend(number);
    }
    let all = seen.len();
    seen.sort_unstable();
    seen.dedup();
    let want = counts.iter().fold(1u64, |n, &c| n.saturating_mul(c));
    Some(Tiling { covers: seen.len() as u64 == want, apart: seen.len() == all })
}
