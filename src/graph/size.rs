//! Extents and grids of a graph: numbers, symbols that are known at launch, and products of them.

use std::fmt;

/// An extent that is known at launch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Symbol(pub(crate) u32);

/// An extent: a number times symbols. Equal extents compare equal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Size {
    factor: u32,
    /// In order; a square stands twice.
    symbols: Vec<Symbol>,
}

impl Size {
    pub(crate) fn symbol(s: Symbol) -> Size {
        Size { factor: 1, symbols: vec![s] }
    }

    /// The product of two extents; numbers above `u32::MAX` stay there, where no launch is.
    pub fn times(&self, other: &Size) -> Size {
        let mut symbols: Vec<Symbol> = self.symbols.iter().chain(&other.symbols).copied().collect();
        symbols.sort_unstable();
        Size { factor: self.factor.saturating_mul(other.factor), symbols }
    }

    /// The number, if it is known.
    pub fn fixed(&self) -> Option<u32> {
        (self.symbols.is_empty() || self.factor == 0).then_some(self.factor)
    }

    pub(crate) fn factor(&self) -> u32 {
        self.factor
    }

    pub(crate) fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.symbols.iter().copied()
    }

    /// The number for values of the symbols; `None` beyond `u32`.
    pub(crate) fn value(&self, values: &[u32]) -> Option<u32> {
        self.symbols.iter().try_fold(self.factor, |n, s| n.checked_mul(*values.get(s.0 as usize)?))
    }
}

impl From<u32> for Size {
    fn from(factor: u32) -> Size {
        Size { factor, symbols: Vec::new() }
    }
}

/// An extent of a grid: a number times numbers of tiles that cover extents.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Count {
    factor: u32,
    /// In order.
    tiles: Vec<(Size, u32)>,
}

impl Count {
    /// The number of tiles of an extent that cover a size.
    pub fn tiles(size: &Size, tile: u32) -> Count {
        let tile = tile.max(1);
        match size.fixed() {
            Some(n) => Count::from(n.div_ceil(tile)),
            None => Count { factor: 1, tiles: vec![(size.clone(), tile)] },
        }
    }

    /// The product of two counts.
    pub fn times(&self, other: &Count) -> Count {
        let mut tiles: Vec<(Size, u32)> = self.tiles.iter().chain(&other.tiles).cloned().collect();
        tiles.sort_unstable();
        Count { factor: self.factor.saturating_mul(other.factor), tiles }
    }

    /// The number, if it is known.
    pub fn fixed(&self) -> Option<u32> {
        self.tiles.is_empty().then_some(self.factor)
    }

    pub(crate) fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        self.tiles.iter().flat_map(|(s, _)| s.symbols())
    }

    /// The number for values of the symbols; `None` beyond `u32`.
    pub(crate) fn value(&self, values: &[u32]) -> Option<u32> {
        self.tiles.iter().try_fold(self.factor, |n, (s, tile)| n.checked_mul(s.value(values)?.div_ceil(*tile)))
    }
}

impl From<u32> for Count {
    fn from(factor: u32) -> Count {
        Count { factor, tiles: Vec::new() }
    }
}

/// The extents of a grid: x, y, z.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub struct Grid(pub [Count; 3]);

impl Grid {
    /// A row of programs.
    pub fn row(count: Count) -> Grid {
        Grid([count, Count::from(1), Count::from(1)])
    }

    /// The numbers, if all are known.
    pub fn fixed(&self) -> Option<[u32; 3]> {
        let [x, y, z] = &self.0;
        Some([x.fixed()?, y.fixed()?, z.fixed()?])
    }

    pub(crate) fn value(&self, values: &[u32]) -> Option<[u32; 3]> {
        let [x, y, z] = &self.0;
        Some([x.value(values)?, y.value(values)?, z.value(values)?])
    }
}

impl From<[u32; 3]> for Grid {
    fn from(extents: [u32; 3]) -> Grid {
        Grid(extents.map(Count::from))
    }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fixed() {
            Some([x, y, z]) => write!(f, "{x}x{y}x{z}"),
            None => f.write_str("a grid that is known at launch"),
        }
    }
}
