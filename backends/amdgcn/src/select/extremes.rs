//! The least or the greatest of several `f32`, three at a time.
//!
//! ```text
//! maximum of x0 x1 x2 x3        m = v_max3 x0 x1 x2, m = v_max m x3          without NaN
//!                               q = x0² + x1² + x2² + x3²                    NaN where one of them is: no square is negative, so that no infinities cancel
//!                               q is NaN ? NaN : m
//! ```
//!
//! Numbers that lie in pairs of registers are squared in pairs. Chips with `v_maximum3` say NaN by that.

use super::packs::Packs;
use crate::chip::Chip;
use crate::isa::Opcode;
use cranelift_entity::SecondaryMap;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use tilelift_ir::CmpOp;
use tilelift_lane::{BinOp, Block, Inst, LTy, LVal, Program, visit};

/// Numbers from which on it is worth it, and how many are alive at a time.
const FEWEST: usize = 3;
const MOST: usize = 64;

/// Bits of a quiet NaN.
const NAN: u64 = 0x7fc0_0000;

/// True if the chip has instructions that say NaN where one of three numbers is.
pub(super) fn says_nan(chip: Chip) -> bool {
    Opcode::VMaximum3F32.desc().number(chip).is_some()
}

/// The program with extremes of several numbers computed so.
pub(super) fn gathered(program: &Program, chip: Chip) -> Cow<'_, Program> {
    let mut uses = SecondaryMap::new();
    program.body.iter().for_each(|inst| visit::reads(inst, &mut |v| uses[v] += 1));
    let find = Find { program, uses };
    if !find.any(&program.body) {
        return Cow::Borrowed(program);
    }
    let mut new = program.clone();
    let body = std::mem::take(&mut new.body);
    // Of the sums of matrix instructions it is known where they lie.
    let packs = Packs::of(program, &program.body).0;
    new.body = Write { find: &find, packs: &packs, chip, program: &mut new }.block(body);
    Cow::Owned(new)
}

struct Find<'p> {
    program: &'p Program,
    uses: SecondaryMap<LVal, u32>,
}

/// An extreme, and of what.
struct Tree {
    op: BinOp,
    leaves: Vec<LVal>,
}

/// An extreme of two `f32` that says NaN.
fn extreme(program: &Program, inst: &Inst) -> Option<(LVal, BinOp, [LVal; 2])> {
    match *inst {
        Inst::Bin { dst, op: op @ (BinOp::Minimum | BinOp::Maximum), a, b } if program.vals[dst] == LTy::F32 => Some((dst, op, [a, b])),
        _ => None,
    }
}

impl Find<'_> {
    fn any(&self, block: &Block) -> bool {
        let own = || !self.trees(block).0.is_empty();
        own() || block.iter().any(|inst| visit::blocks(inst).any(|b| self.any(b)))
    }

    /// The trees of a block by their roots, and the values inside of trees.
    fn trees(&self, block: &Block) -> (FxHashMap<LVal, Tree>, SecondaryMap<LVal, bool>) {
        let nodes: FxHashMap<LVal, (BinOp, [LVal; 2])> =
            block.iter().filter_map(|i| extreme(self.program, i)).map(|(dst, op, of)| (dst, (op, of))).collect();
        let results = |(at, inst): (usize, &Inst)| inst.results().iter().map(|&v| (v, at)).collect::<Vec<_>>();
        let made: FxHashMap<LVal, usize> = block.iter().enumerate().flat_map(results).collect();
        let (mut trees, mut inner) = (FxHashMap::default(), SecondaryMap::with_default(false));
        for (root, op, of) in block.iter().rev().filter_map(|i| extreme(self.program, i)) {
            if inner[root] {
                continue;
            }
            let (mut leaves, mut inside, mut open) = (Vec::new(), Vec::new(), vec![of[1], of[0]]);
            while let Some(v) = open.pop() {
                match nodes.get(&v) {
                    Some(&(same, [a, b])) if same == op && self.uses[v] == 1 => {
                        inside.push(v);
                        open.extend([b, a]);
                    }
                    _ => leaves.push(v),
                }
            }
            if (FEWEST..=MOST).contains(&leaves.len()) {
                // What is there first is looked at first.
                leaves.sort_by_key(|v| made.get(v).copied().unwrap_or(0));
                inside.into_iter().for_each(|v| inner[v] = true);
                trees.insert(root, Tree { op, leaves });
            }
        }
        (trees, inner)
    }
}

struct Write<'a> {
    find: &'a Find<'a>,
    packs: &'a Packs,
    chip: Chip,
    program: &'a mut Program,
}

impl Write<'_> {
    fn block(&mut self, old: Block) -> Block {
        let (trees, inner) = self.find.trees(&old);
        let mut out = Block::with_capacity(old.len());
        for mut inst in old {
            for b in visit::blocks_mut(&mut inst) {
                *b = self.block(std::mem::take(b));
            }
            match extreme(self.find.program, &inst) {
                Some((dst, ..)) if inner[dst] => {}
                Some((dst, ..)) => match trees.get(&dst) {
                    Some(tree) => self.tree(dst, tree, &mut out),
                    None => out.push(inst),
                },
                None => out.push(inst),
            }
        }
        out
    }

    fn value(&mut self, ty: LTy) -> LVal {
        self.program.vals.push(ty)
    }

    fn tree(&mut self, dst: LVal, tree: &Tree, out: &mut Block) {
        if says_nan(self.chip) {
            return self.by_threes(dst, tree.op, &tree.leaves, out);
        }
        let op = if tree.op == BinOp::Minimum { BinOp::MinNum } else { BinOp::MaxNum };
        let most = self.value(LTy::F32);
        self.by_threes(most, op, &tree.leaves, out);
        let squares = self.squares(&tree.leaves, out);
        let [any, nan] = [LTy::I1, LTy::F32].map(|ty| self.value(ty));
        out.push(Inst::Cmp { dst: any, op: CmpOp::Ne, a: squares, b: squares });
        out.push(Inst::Const { dst: nan, bits: NAN });
        out.push(Inst::Select { dst, c: any, a: nan, b: most });
    }

    /// The extreme of values, those of two right in front of that of the result and a third.
    fn by_threes(&mut self, dst: LVal, op: BinOp, leaves: &[LVal], out: &mut Block) {
        let mut row = leaves.to_vec();
        while row.len() > 1 {
            let last = row.len() <= 3;
            row = row
                .chunks(3)
                .map(|part| {
                    let (&first, rest) = (&part[0], &part[1..]);
                    rest.iter().enumerate().fold(first, |so_far, (i, &v)| {
                        let to = if last && i + 1 == rest.len() { dst } else { self.value(LTy::F32) };
                        out.push(Inst::Bin { dst: to, op, a: so_far, b: v });
                        to
                    })
                })
                .collect();
        }
    }

    /// The sum of squares: first ones of pairs in one chain, second ones in another.
    fn squares(&mut self, leaves: &[LVal], out: &mut Block) -> LVal {
        let both: Vec<[LVal; 2]> = leaves.iter().filter_map(|&v| Some([v, self.packs.behind(v).filter(|b| leaves.contains(b))?])).collect();
        let mut sums: [Option<LVal>; 2] = [None; 2];
        for pair in &both {
            for (sum, &v) in sums.iter_mut().zip(pair) {
                *sum = Some(self.square(v, *sum, out));
            }
        }
        let [mut first, second] = sums;
        for &v in leaves.iter().filter(|v| both.iter().all(|pair| !pair.contains(v))) {
            first = Some(self.square(v, first, out));
        }
        match (first, second) {
            (Some(a), Some(b)) => {
                let dst = self.value(LTy::F32);
                out.push(Inst::Bin { dst, op: BinOp::Add, a, b });
                dst
            }
            // There are numbers.
            (a, b) => a.or(b).unwrap_or(leaves[0]),
        }
    }

    fn square(&mut self, v: LVal, sum: Option<LVal>, out: &mut Block) -> LVal {
        let dst = self.value(LTy::F32);
        out.push(match sum {
            Some(c) => Inst::Fma { dst, a: v, b: v, c },
            None => Inst::Bin { dst, op: BinOp::Mul, a: v, b: v },
        });
        dst
    }
}
