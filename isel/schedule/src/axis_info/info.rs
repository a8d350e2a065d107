//! What is known of the numbers of a value: low bits, bounds, and what they do along each dimension.
//!
//! A block of `2^n` along a dimension begins at a multiple of `2^n`; where the extent is no multiple of it, the last one is shorter.

use smallvec::SmallVec;
use tilelift_ir::{Scalar, Type};

/// The exponent of a block that is as long as any dimension.
pub(super) const WHOLE: u8 = 63;

/// Low bits of numbers that are known: they are `rest` modulo `2^bits`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Residue {
    /// How many, at most 63.
    pub bits: u8,
    /// Their value.
    pub rest: u64,
}

impl Residue {
    /// The lowest `bits` of a number.
    pub fn of(x: i64, bits: u32) -> Residue {
        Residue { bits: WHOLE, rest: x as u64 }.upto(bits.min(u32::from(WHOLE)) as u8)
    }

    /// So many low bits are zero.
    pub fn multiple(bits: u8) -> Residue {
        Residue { bits: bits.min(WHOLE), rest: 0 }
    }

    /// No more than so many of them.
    pub fn upto(self, bits: u8) -> Residue {
        let bits = self.bits.min(bits);
        Residue { bits, rest: self.rest & ((1 << bits) - 1) }
    }

    /// How many low bits are known to be zero.
    pub fn zeros(self) -> u8 {
        (self.rest.trailing_zeros() as u8).min(self.bits)
    }

    /// How many low bits are known to be one.
    pub fn ones(self) -> u8 {
        (self.rest.trailing_ones() as u8).min(self.bits)
    }

    /// What holds for numbers of either kind.
    pub fn meet(self, other: Residue) -> Residue {
        self.upto(((self.rest ^ other.rest).trailing_zeros() as u8).min(other.bits))
    }

    /// Of two facts about the same numbers the one that says more.
    pub fn best(self, other: Residue) -> Residue {
        if other.bits > self.bits { other } else { self }
    }

    /// Sums.
    pub fn plus(self, other: Residue) -> Residue {
        Residue { bits: self.bits.min(other.bits), rest: self.rest.wrapping_add(other.rest) }.upto(WHOLE)
    }

    /// Differences.
    pub fn minus(self, other: Residue) -> Residue {
        Residue { bits: self.bits.min(other.bits), rest: self.rest.wrapping_sub(other.rest) }.upto(WHOLE)
    }
}

/// What numbers do along a dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Along {
    /// Blocks of `2^equal` hold equal numbers (of any type, bit by bit).
    pub equal: u8,
    /// Blocks of `2^run` hold consecutive integers, by arithmetic that wraps.
    pub run: u8,
    /// The first number of each block of `2^run`. Of its bits the sign is never known: in blocks that begin with a multiple of their length
    /// all numbers have one sign.
    pub start: Residue,
}

/// What is known of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Info {
    /// All its numbers.
    pub low: Residue,
    /// All its numbers, read signed, lie between these.
    pub range: [i64; 2],
    /// Each dimension; none of a scalar, whose numbers are equal along any.
    pub along: SmallVec<[Along; 4]>,
}

/// The numbers of an element type, read signed; those of `i1` are 0 and 1.
pub(super) fn all_of(elem: Scalar) -> [i64; 2] {
    match (elem.is_int(), elem.bits()) {
        (true, 64) => [i64::MIN, i64::MAX],
        (true, bits) => [-(1 << (bits - 1)), (1 << (bits - 1)) - 1],
        (false, 1) => [0, 1],
        (false, _) => [i64::MIN, i64::MAX],
    }
}

impl Info {
    /// Nothing is known but the type.
    pub fn unknown(ty: &Type) -> Info {
        let elem = if matches!(ty, Type::Scalar(_) | Type::Tile(_)) { ty.elem() } else { Scalar::F64 };
        let along = ty.as_tile().map_or(&[][..], |t| &t.shape[..]).iter().map(|_| Along::default()).collect();
        Info { low: Residue::default(), range: all_of(elem), along }.settled(ty)
    }

    /// The same facts, in the one way to write them: what holds for every tile of the type is added.
    pub fn settled(mut self, ty: &Type) -> Info {
        let shape = ty.as_tile().map_or(&[][..], |t| &t.shape[..]);
        for (a, &extent) in self.along.iter_mut().zip(shape) {
            if extent == 1 {
                *a = Along { equal: WHOLE, run: WHOLE, start: a.start.best(self.low) };
            }
            let whole = |n: u8| if n < WHOLE && 1 << n >= u64::from(extent) { WHOLE } else { n };
            (a.equal, a.run) = (whole(a.equal), whole(a.run));
            if a.run == 0 {
                a.start = Residue::default();
            }
        }
        self
    }

    /// Blocks of equal numbers along a dimension.
    pub fn equal(&self, d: usize) -> u8 {
        self.along.get(d).map_or(WHOLE, |a| a.equal)
    }

    /// Blocks of consecutive numbers along a dimension.
    pub fn run(&self, d: usize) -> u8 {
        self.along.get(d).map_or(0, |a| a.run)
    }

    /// The first number of each block of `2^run` along a dimension.
    pub fn start(&self, d: usize, run: u8) -> Residue {
        // The first of a longer block is the first of a shorter one; but among shorter blocks there are others.
        let first = self.along.get(d).map_or(self.low, |a| if a.run > run { a.start.upto(run) } else { a.start });
        first.best(self.low)
    }

    /// Blocks of consecutive numbers that begin with a multiple of their length: in a block all bits above the lowest ones are the same, and
    /// these count from 0. So nothing wraps inside.
    pub fn aligned(&self, d: usize) -> u8 {
        let run = self.run(d);
        run.min(self.start(d, run).zeros())
    }

    /// The one number that all are.
    pub fn exact(&self) -> Option<i64> {
        (self.range[0] == self.range[1]).then_some(self.range[0])
    }

    /// What holds for both. A range that grows is given up if `widen` says so: it may grow for ever.
    pub fn meet(&self, other: &Info, ty: &Type, widen: bool) -> Info {
        let hull = [self.range[0].min(other.range[0]), self.range[1].max(other.range[1])];
        let range = if widen && hull != self.range { Info::unknown(ty).range } else { hull };
        let along = (0..self.along.len()).map(|d| {
            let run = self.run(d).min(other.run(d));
            Along { equal: self.equal(d).min(other.equal(d)), run, start: self.start(d, run).meet(other.start(d, run)) }
        });
        Info { low: self.low.meet(other.low), range, along: along.collect() }.settled(ty)
    }
}
