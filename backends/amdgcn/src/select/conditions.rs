//! Comparisons of numbers that are alike in all lanes beside the only one who asks: `scc` goes from one to the other, and no mask is made.
//!
//! ```text
//! c = cmp lt i n                      s_cmp_lt_u32 i, n
//! …                            ─►     s_cselect_b32 …        or    s_cbranch_scc0
//! v = select c a b
//! ```
//!
//! A choice asked for by several of them has a branch for each.

use super::rearrange::{BlockOrder, rearranged};
use super::selector::{Done, Selector};
use super::uniform::Uniform;
use crate::isa::Opcode;
use crate::mir::Operand;
use cranelift_entity::SecondaryMap;
use rustc_hash::FxHashMap;
use tilelift_lane::{BinOp, Block, If, Inst, LTy, LVal, Program, visit};

/// Comparisons for a choice, at most.
const MOST: usize = 4;

/// A comparison of scalar registers that sets `scc`: what it makes, the instruction, what it compares.
fn comparison(program: &Program, inst: &Inst) -> Option<(LVal, Opcode, [LVal; 2])> {
    let &Inst::Cmp { dst, op, a, b } = inst else { return None };
    let LTy::Num(s) = program.vals[a] else { return None };
    super::compare::scalar(op, s).map(|code| (dst, code, [a, b]))
}

/// The body with such comparisons right in front of who asks; nothing where it stays as it is.
pub(super) fn beside(program: &Program, body: &Block, uniform: &Uniform<'_>) -> Option<Block> {
    let mut uses: SecondaryMap<LVal, u32> = SecondaryMap::new();
    body.iter().for_each(|inst| visit::reads(inst, &mut |v| uses[v] += 1));
    rearranged(body, &|block, handed| order(program, block, uniform, &|v| uses[v] == 1 && !handed.contains(&v)))
}

fn order(program: &Program, block: &Block, uniform: &Uniform<'_>, once: &dyn Fn(LVal) -> bool) -> BlockOrder {
    // Comparisons, and conditions that hold where two do.
    let mut makers: FxHashMap<LVal, usize> = FxHashMap::default();
    let (mut front, mut gone) = (vec![Vec::new(); block.len()], vec![false; block.len()]);
    let mut changed = false;
    for (at, inst) in block.iter().enumerate() {
        let asked = match inst {
            Inst::Cmp { dst, a, b, .. } => {
                if once(*dst) && comparison(program, inst).is_some() && uniform.alike(*a) && uniform.alike(*b) {
                    makers.insert(*dst, at);
                }
                continue;
            }
            Inst::Bin { dst, op: BinOp::And, a, b } if program.vals[*dst] == LTy::I1 => {
                if once(*dst) && makers.contains_key(a) && makers.contains_key(b) {
                    makers.insert(*dst, at);
                }
                continue;
            }
            Inst::Select { dst, c, .. } if uniform.alike(*dst) => *c,
            Inst::If(choice) => choice.condition,
            _ => continue,
        };
        let mut open = vec![asked];
        let mut all = Vec::new();
        while let Some(v) = open.pop() {
            let Some(&maker) = makers.get(&v) else { continue };
            all.push(maker);
            if let Inst::Bin { a, b, .. } = &block[maker] {
                open.extend([*a, *b]);
            }
        }
        // One comparison for a number.
        if all.is_empty() || all.len() > 2 * MOST || all.len() > 1 && !matches!(inst, Inst::If(_)) {
            continue;
        }
        all.sort_unstable();
        changed |= all.iter().enumerate().any(|(n, &maker)| maker + all.len() != at + n);
        all.iter().for_each(|&maker| gone[maker] = true);
        front[at] = all;
    }
    let own = |at: usize| (!gone[at]).then_some(at);
    changed.then(|| (0..block.len()).flat_map(|at| front[at].iter().copied().chain(own(at)).collect::<Vec<_>>()).collect())
}

impl Selector<'_> {
    /// Takes comparisons and who asks at once, if `block` begins with them; says how many instructions that were.
    pub(super) fn asked(&mut self, block: &[Inst]) -> Result<usize, super::error::SelectError> {
        let makes = |inst: &Inst| match inst {
            Inst::Cmp { dst, .. } => Some(*dst),
            Inst::Bin { dst, op: BinOp::And, .. } => Some(*dst),
            _ => None,
        };
        let count = block.iter().take(2 * MOST).take_while(|inst| makes(inst).is_some_and(|v| self.live.read_once(v))).count();
        let (Some(asks), Some(last)) = (block.get(count), count.checked_sub(1).and_then(|n| makes(&block[n]))) else { return Ok(0) };
        let compared = &block[..count];
        let comparisons: Vec<(LVal, Opcode, [LVal; 2])> = compared.iter().filter_map(|inst| comparison(self.program, inst)).collect();
        let scalar = |s: &Self| comparisons.iter().all(|(.., operands)| operands.iter().all(|&v| s.in_scalars(v)));
        match asks {
            Inst::Select { dst, c, a, b }
                if count == 1 && comparisons.len() == 1 && *c == last && self.in_scalars(*dst) && scalar(self) =>
            {
                self.select_by(*dst, comparisons[0].1, comparisons[0].2, [*a, *b])?;
                Ok(2)
            }
            Inst::If(choice) if choice.condition == last && scalar(self) && joined(compared, last, comparisons.len()) => {
                self.choice_by(choice, &comparisons)?;
                Ok(count + 1)
            }
            _ => Ok(0),
        }
    }

    fn compare_scalars(&mut self, code: Opcode, operands: [LVal; 2]) {
        let [x, y] = operands.map(|v| self.op(v));
        self.salu(code, None, &[x, y]);
    }

    /// One of two numbers, by a comparison.
    fn select_by(&mut self, dst: LVal, code: Opcode, compared: [LVal; 2], of: [LVal; 2]) -> Done {
        let words = self.words(dst);
        let operands = of.map(|v| self.op(v)).map(|o| self.in_scalar(o, words));
        // Literals are loaded before the condition is there.
        let operands = operands.map(|o| match o {
            Operand::Imm(x) if !(-16..=64).contains(&x) => self.scalar_const(x as u64, words).into(),
            o => o,
        });
        let to = self.def(dst);
        self.compare_scalars(code, compared);
        self.salu(if words == 2 { Opcode::SCselectB64 } else { Opcode::SCselectB32 }, Some(to), &operands);
        Ok(())
    }

    /// A choice where all of several comparisons have to hold.
    fn choice_by(&mut self, choice: &If, comparisons: &[(LVal, Opcode, [LVal; 2])]) -> Done {
        let otherwise = self.label();
        for &(_, code, operands) in comparisons {
            self.compare_scalars(code, operands);
            self.branch(Opcode::SCbranchScc0, otherwise);
        }
        self.arms(choice, otherwise)
    }
}

/// True if the last of these values holds where all of so many comparisons do.
fn joined(compared: &[Inst], last: LVal, comparisons: usize) -> bool {
    let (mut open, mut leaves, mut seen) = (vec![last], 0, 0);
    while let Some(v) = open.pop() {
        match compared.iter().find(|inst| inst.results().contains(&v)) {
            Some(Inst::Cmp { .. }) => leaves += 1,
            Some(Inst::Bin { a, b, .. }) => open.extend([*a, *b]),
            _ => return false,
        }
        seen += 1;
    }
    leaves == comparisons && seen == compared.len()
}
