//! Pure instructions that were made, so that an equal one is found again.
//!
//! A compile makes thousands of them and asks at each one, so what is kept is small: keys stand one behind the other, and the table has their numbers.
//!
//! ```text
//! table  [ 2 |   | 0 |   | 1 | … ]      numbers of entries, by the hash of the key
//! made   [ key, first result, frame ]   one behind the other
//! ```

use super::room::MEMO;
use crate::inst::Opcode;
use crate::op::{BinOp, UnOp};
use crate::value::{LTy, LVal, Special, Vals};
use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;
use std::hash::{BuildHasher, Hash, Hasher};
use tilelift_ir::CmpOp;

/// What a pure instruction does.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum What {
    /// What its row of the table says, with no more than its operands, or one number: that of a parameter, of an allocation, of a list of many operands.
    Row(Opcode),
    Const(LTy),
    Special(Special),
    /// What a lane is in the role whose body is the frame of that number.
    OfRole(Special),
    Un(UnOp),
    Bin(BinOp),
    Cmp(CmpOp),
    Cvt(LTy),
    Bitcast(LTy),
    Unpack(LTy),
}

/// What makes two pure instructions equal: what they do, and with what.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    what: What,
    with: [u32; 4],
}

/// Stands where a key has fewer than four operands; no value has that number.
const NONE: u32 = u32::MAX;

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b, c, d] = self.with.map(u64::from);
        self.what.hash(state);
        // Two words: a list of numbers would be hashed byte by byte.
        state.write_u64(a | b << 32);
        state.write_u64(c | d << 32);
    }
}

impl Key {
    /// An instruction of at most four operands.
    pub(super) fn of(what: What, operands: &[LVal]) -> Key {
        let mut with = [NONE; 4];
        debug_assert!(operands.len() <= with.len());
        for (w, v) in with.iter_mut().zip(operands) {
            *w = v.as_u32();
        }
        Key { what, with }
    }

    /// One of a number, and of no values.
    pub(super) fn numbered(what: What, number: u64) -> Key {
        Key { what, with: [number as u32, (number >> 32) as u32, NONE, NONE] }
    }
}

/// An instruction that was made: its first result, whose others follow it, and the number of its frame. While that is open, equal instructions are that one.
#[derive(Clone, Copy)]
struct Made {
    key: Key,
    first: LVal,
    frame: u32,
}

/// The pure instructions that were made.
pub(super) struct Equals {
    table: HashTable<u32>,
    made: Vec<Made>,
    /// Numbers of operands that are too many for a key.
    lists: crate::hash::Map<Vals, u32>,
}

/// A key's place among those that were made.
pub(super) enum KeyPlace {
    /// Its instruction's first result, and the frame where it stands.
    Made { at: u32, first: LVal, frame: u32 },
    /// Nobody made it; what the key hashes to.
    New(u64),
}

impl Equals {
    pub(super) fn new() -> Equals {
        Equals { table: HashTable::with_capacity(MEMO), made: Vec::with_capacity(MEMO), lists: Default::default() }
    }

    /// The key of an instruction of any number of operands.
    pub(super) fn listed(&mut self, what: What, operands: Vals) -> Key {
        let next = self.lists.len() as u32;
        Key::numbered(what, u64::from(*self.lists.entry(operands).or_insert(next)))
    }

    /// The instruction with that key that was made last.
    pub(super) fn find(&self, key: &Key) -> KeyPlace {
        let hash = FxBuildHasher.hash_one(key);
        match self.table.find(hash, |&at| self.made[at as usize].key == *key) {
            Some(&at) => {
                let Made { first, frame, .. } = self.made[at as usize];
                KeyPlace::Made { at, first, frame }
            }
            None => KeyPlace::New(hash),
        }
    }

    /// Notes an instruction; its key was found at that place.
    pub(super) fn note(&mut self, place: KeyPlace, key: Key, first: LVal, frame: u32) {
        let made = Made { key, first, frame };
        match place {
            KeyPlace::Made { at, .. } => self.made[at as usize] = made,
            KeyPlace::New(hash) => {
                let at = self.made.len() as u32;
                self.made.push(made);
                let all = &self.made;
                self.table.insert_unique(hash, at, |&at| FxBuildHasher.hash_one(all[at as usize].key));
            }
        }
    }
}
