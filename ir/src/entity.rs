//! Tables whose rows are numbered as they are made: kernels and lane programs consist of them.
//!
//! As `cranelift_entity`'s map of that name, whose methods other crates call, one call for each row that they look at: these are inlined.

use cranelift_entity::EntityRef;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// A table of `V` by numbers `K`, which it gives out one after the other.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PrimaryMap<K: EntityRef, V> {
    rows: Vec<V>,
    keys: PhantomData<K>,
}

impl<K: EntityRef, V> PrimaryMap<K, V> {
    /// An empty table.
    #[inline]
    pub fn new() -> PrimaryMap<K, V> {
        PrimaryMap { rows: Vec::new(), keys: PhantomData }
    }

    /// An empty table with room for so many rows.
    #[inline]
    pub fn with_capacity(rows: usize) -> PrimaryMap<K, V> {
        PrimaryMap { rows: Vec::with_capacity(rows), keys: PhantomData }
    }

    /// True if there is such a row.
    #[inline]
    pub fn is_valid(&self, k: K) -> bool {
        k.index() < self.rows.len()
    }

    /// The row of a number, if there is one.
    #[inline]
    pub fn get(&self, k: K) -> Option<&V> {
        self.rows.get(k.index())
    }

    /// The same, to change it.
    #[inline]
    pub fn get_mut(&mut self, k: K) -> Option<&mut V> {
        self.rows.get_mut(k.index())
    }

    /// True if there is no row.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// How many rows there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// All numbers, in order.
    #[inline]
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = K> + ExactSizeIterator + Clone + use<K, V> {
        (0..self.rows.len()).map(K::new)
    }

    /// All rows, in order.
    #[inline]
    pub fn values(&self) -> std::slice::Iter<'_, V> {
        self.rows.iter()
    }

    /// The same, to change them.
    #[inline]
    pub fn values_mut(&mut self) -> std::slice::IterMut<'_, V> {
        self.rows.iter_mut()
    }

    /// All rows as a slice.
    #[inline]
    pub fn as_values_slice(&self) -> &[V] {
        &self.rows
    }

    /// All rows with their numbers.
    #[inline]
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (K, &V)> + ExactSizeIterator {
        self.rows.iter().enumerate().map(|(n, row)| (K::new(n), row))
    }

    /// The same, to change them.
    #[inline]
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (K, &mut V)> + ExactSizeIterator {
        self.rows.iter_mut().enumerate().map(|(n, row)| (K::new(n), row))
    }

    /// The number of the next row.
    #[inline]
    pub fn next_key(&self) -> K {
        K::new(self.rows.len())
    }

    /// Appends a row.
    #[inline]
    pub fn push(&mut self, row: V) -> K {
        let k = self.next_key();
        self.rows.push(row);
        k
    }

    /// The last row, if there is one.
    #[inline]
    pub fn last(&self) -> Option<(K, &V)> {
        self.rows.last().map(|row| (K::new(self.rows.len() - 1), row))
    }

    /// Makes room for so many rows more.
    pub fn reserve(&mut self, more: usize) {
        self.rows.reserve(more);
    }
}

impl<K: EntityRef, V> Default for PrimaryMap<K, V> {
    fn default() -> PrimaryMap<K, V> {
        PrimaryMap::new()
    }
}

impl<K: EntityRef + fmt::Debug, V: fmt::Debug> fmt::Debug for PrimaryMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: EntityRef, V> Index<K> for PrimaryMap<K, V> {
    type Output = V;

    #[inline]
    fn index(&self, k: K) -> &V {
        &self.rows[k.index()]
    }
}

impl<K: EntityRef, V> IndexMut<K> for PrimaryMap<K, V> {
    #[inline]
    fn index_mut(&mut self, k: K) -> &mut V {
        &mut self.rows[k.index()]
    }
}
