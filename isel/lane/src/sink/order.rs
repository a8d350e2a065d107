//! The order of a block's instructions: operands first.

use crate::hash::Map;
use crate::inst::Inst;
use crate::nest::Table;
use crate::value::LVal;

/// How global loads may move.
#[derive(Clone, Copy)]
pub(crate) struct Loads<'a> {
    /// Registers of a lane that may be in use where a load is started ahead.
    pub room: u32,
    /// Registers of a lane that a value takes.
    pub words: &'a dyn Fn(LVal) -> u32,
}

/// Where a value is made.
#[derive(Clone, Copy)]
pub(super) struct Maker {
    /// The block; for parameters, that in which they are there.
    pub(super) block: u32,
    /// The place in the block in which the instruction stood; [`PARAM`] for parameters.
    pub(super) at: u32,
    /// The instruction may move.
    pub(super) moves: bool,
}

/// The place of a value that no instruction of its block makes.
pub(super) const PARAM: u32 = u32::MAX;

/// The maker of what comes from outside.
pub(super) const NOWHERE: Maker = Maker { block: u32::MAX, at: PARAM, moves: false };

/// The number of a value that a block has none for.
pub(super) const UNNUMBERED: u32 = u32::MAX;

/// What the instructions inside an instruction's blocks read, and the instruction itself.
pub(super) struct Inside {
    /// Values from outside of it, each once, in the order in which they are read.
    pub(super) reads: Vec<LVal>,
    /// Registers of values that are made and read inside of it.
    pub(super) words: u32,
}

/// The order of a block's instructions: operands first.
pub(super) struct Order<'a> {
    pub(super) makers: &'a Table<Maker>,
    /// The block's number.
    pub(super) n: u32,
    pub(super) block: &'a [Inst],
    /// What instructions with blocks read.
    pub(super) nested: &'a [(usize, Inside)],
    /// What else must be there in front of an instruction.
    pub(super) early: &'a Map<usize, Vec<LVal>>,
    /// Instructions to look at, and whether their operands have been; without recursion, for chains may be long.
    pub(super) open: Vec<(usize, bool)>,
}

impl Order<'_> {
    /// Pushes what an instruction needs that is left, first operand on top, and itself below; does nothing if it needs nothing.
    fn needs(&mut self, k: usize, taken: &[bool]) -> bool {
        let Order { makers, n, block, nested, early, ref mut open } = *self;
        let start = open.len();
        open.push((k, true));
        let mut need = |v: LVal, until: usize| {
            let maker = makers.get(v);
            let at = maker.at as usize;
            if maker.block == n && maker.moves && at != k && at < until && !taken[at] {
                open.push((at, false));
            }
        };
        match inside(nested, k) {
            Some(inside) => inside.reads.iter().for_each(|&v| need(v, usize::MAX)),
            None => block[k].operands(|v, _| need(v, usize::MAX)),
        }
        if !early.is_empty() {
            early.get(&k).into_iter().flatten().for_each(|&v| need(v, k));
        }
        let some = open.len() > start + 1;
        match some {
            true => open[start + 1..].reverse(),
            false => open.truncate(start),
        }
        some
    }

    /// Takes an instruction, behind all it needs that is left.
    pub(super) fn take(&mut self, root: usize, taken: &mut [bool], out: &mut Vec<usize>) {
        self.open.push((root, false));
        while let Some((k, ready)) = self.open.pop() {
            if !taken[k] && (ready || !self.needs(k, taken)) {
                taken[k] = true;
                out.push(k);
            }
        }
    }
}

/// What the instruction at a place reads, if it has blocks.
pub(super) fn inside(nested: &[(usize, Inside)], k: usize) -> Option<&Inside> {
    nested.binary_search_by_key(&k, |(at, _)| *at).ok().map(|x| &nested[x].1)
}
