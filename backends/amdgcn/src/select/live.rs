//! Where values are made and read last, by number of instruction in program order.
//!
//! ```text
//! for  ── start: the index and what is carried begin      while ── start ── test ── middle: it may end here ── body ── end
//!   body                                                  if    ── start ── then ── its results ── otherwise ── its results
//! end: the next values are read, the results begin
//! ```
//!
//! What is made in front of a loop and read inside is alive to its end. A value that may live in the register of another one (the same bits
//! under another type, the lower half) keeps that one alive.

use super::role::{Compute, Role};
use cranelift_entity::SecondaryMap;
use tilelift_ir::Scalar;
use tilelift_lane::{BinOp, Block, Carried, Control, Inst, LTy, LVal, Program, Vals};

/// What the instruction of a number does with registers of operands that end there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// Values are handed over: copies side by side.
    Hand,
    /// A matrix instruction: a result may stand where its own addend stood.
    Matrix,
    /// One machine instruction: its result may stand where an operand stood.
    Single,
    /// Several: its results have registers of their own.
    Several,
}

/// The life of the values of a program.
#[derive(Default)]
pub(super) struct Live {
    /// Where a value begins, by number of instruction.
    def: SecondaryMap<LVal, u32>,
    /// Where it is read last.
    last: SecondaryMap<LVal, u32>,
    /// How often it is read; instructions that pass it on in its register do not count.
    uses: SecondaryMap<LVal, u32>,
    /// The value in whose register it may live.
    source: SecondaryMap<LVal, Option<LVal>>,
    /// The block in which a value begins, and the one in which it was read last.
    blocks: SecondaryMap<LVal, (u32, u32)>,
    /// The block that is looked at, and how many there were.
    block: u32,
    count: u32,
    steps: Vec<Step>,
    /// The loops around the instruction: where each starts, and what was read inside.
    loops: Vec<(u32, Vec<LVal>)>,
}

impl Live {
    /// Looks at a program.
    pub(super) fn new(program: &Program) -> Live {
        let mut live = Live::default();
        live.block(program, &program.body);
        live
    }

    /// True if the value is read at all.
    pub(super) fn read(&self, v: LVal) -> bool {
        self.uses[v] > 0
    }

    /// True if the value is read once, in the block in which it begins.
    pub(super) fn read_once(&self, v: LVal) -> bool {
        self.uses[v] == 1 && self.blocks[v].0 == self.blocks[v].1
    }

    /// Where a value begins and where it ends.
    pub(super) fn life(&self, v: LVal) -> (u32, u32) {
        (self.def[v], self.last[v].max(self.def[v]))
    }

    /// How many instructions are numbered.
    pub(super) fn count(&self) -> usize {
        self.steps.len()
    }

    /// What the instruction of a number does.
    pub(super) fn step(&self, at: u32) -> Step {
        self.steps.get(at as usize).copied().unwrap_or(Step::Several)
    }

    fn next(&mut self, step: Step) -> u32 {
        self.steps.push(step);
        self.steps.len() as u32 - 1
    }

    fn make(&mut self, v: LVal, at: u32) {
        self.def[v] = at;
        self.blocks[v] = (self.block, u32::MAX);
    }

    fn read_at(&mut self, v: LVal, at: u32) {
        self.uses[v] += 1;
        self.blocks[v].1 = self.block;
        let mut of = Some(v);
        while let Some(v) = of {
            self.last[v] = self.last[v].max(at);
            if let Some((_, read)) = self.loops.last_mut() {
                read.push(v);
            }
            of = self.source[v];
        }
    }

    fn enter(&mut self, carried: &[Carried], start: u32) {
        carried.iter().for_each(|c| self.read_at(c.init, start));
        self.loops.push((start, Vec::new()));
        carried.iter().for_each(|c| self.make(c.param, start));
    }

    fn leave(&mut self, carried: &[Carried]) {
        let end = self.next(Step::Hand);
        carried.iter().for_each(|c| self.read_at(c.next, end));
        let Some((start, read)) = self.loops.pop() else { return };
        for v in read {
            if self.def[v] < start {
                self.last[v] = end;
                if let Some((_, outer)) = self.loops.last_mut() {
                    outer.push(v);
                }
            }
        }
        carried.iter().for_each(|c| self.make(c.result, end));
    }

    fn block(&mut self, program: &Program, block: &Block) {
        let outer = self.block;
        self.count += 1;
        self.block = self.count;
        self.insts(program, block);
        self.block = outer;
    }

    fn insts(&mut self, program: &Program, block: &Block) {
        for inst in block {
            let at = self.next(step(program, inst));
            match inst.control() {
                Some(Control::For(l)) => {
                    [l.lo, l.hi, l.step].into_iter().for_each(|v| self.read_at(v, at));
                    self.enter(&l.carried, at);
                    // The end and the increment are read after every iteration.
                    [l.hi, l.step].into_iter().for_each(|v| self.read_at(v, at));
                    self.make(l.iv, at);
                    self.block(program, &l.body);
                    let end = self.steps.len() as u32;
                    self.read_at(l.iv, end);
                    self.leave(&l.carried);
                }
                Some(Control::While(l)) => {
                    self.enter(&l.carried, at);
                    self.block(program, &l.test);
                    let middle = self.next(Step::Hand);
                    self.read_at(l.condition, middle);
                    l.carried.iter().for_each(|c| self.read_at(c.param, middle));
                    self.block(program, &l.body);
                    self.leave(&l.carried);
                }
                Some(Control::If(c)) => {
                    self.read_at(c.condition, at);
                    self.block(program, &c.then);
                    let then = self.next(Step::Hand);
                    c.results.iter().for_each(|&(_, a, _)| self.read_at(a, then));
                    self.block(program, &c.otherwise);
                    let otherwise = self.next(Step::Hand);
                    c.results.iter().for_each(|&(_, _, b)| self.read_at(b, otherwise));
                    // They are written behind each block.
                    c.results.iter().for_each(|&(r, ..)| self.make(r, then));
                }
                // Lane programs of these chips have none.
                Some(Control::Roles(_)) => {}
                None => {
                    inst.operands(|v, _| self.read_at(v, at));
                    inst.results().iter().for_each(|&v| self.make(v, at));
                    if let Some((v, a)) = shares(program, inst) {
                        self.source[v] = Some(a);
                    }
                }
            }
        }
    }
}

/// The result that may live in the register of an operand, and that operand.
pub(super) fn shares(program: &Program, inst: &Inst) -> Option<(LVal, LVal)> {
    let Role::Compute(compute) = Role::of(inst) else { return None };
    match compute {
        Compute::Bitcast { dst, a } => same_bits(program.vals[a], program.vals[dst]).then_some((dst, a)),
        Compute::Unpack { dsts, a } => {
            dsts.first().filter(|&&first| dsts.len() == 2 && is_half(program.vals[first])).map(|&first| (first, a))
        }
        Compute::Convert { dst, a } => kept(program.vals[a], program.vals[dst]).then_some((dst, a)),
        Compute::Bin { .. } | Compute::Fma { .. } | Compute::Select { .. } | Compute::Other => None,
    }
}

/// True if an integer under another type is the same word: the lower one, or with the sign above.
fn kept(from: LTy, to: LTy) -> bool {
    let narrow = [LTy::Num(Scalar::I8), LTy::Num(Scalar::I16)];
    match to {
        LTy::I32 => from == LTy::I64 || narrow.contains(&from),
        to => to == narrow[1] && from == narrow[0],
    }
}

fn is_half(ty: LTy) -> bool {
    matches!(ty, LTy::Num(Scalar::F16 | Scalar::BF16))
}

/// True if the same bits of one type under the other need no instruction. The upper half of a register with a 16-bit float has any bits, that
/// with an `i16` its sign.
pub(super) fn same_bits(from: LTy, to: LTy) -> bool {
    let whole = |ty| matches!(ty, LTy::B32 | LTy::Num(Scalar::I32 | Scalar::F32));
    let wide = |ty| matches!(ty, LTy::Num(Scalar::I64 | Scalar::F64));
    from == to || (whole(from) && whole(to)) || (wide(from) && wide(to)) || (from.bits() == 16 && to.bits() == 16 && is_half(to))
}

fn step(program: &Program, inst: &Inst) -> Step {
    let single = |v: LVal| matches!(program.vals[v], LTy::I32 | LTy::F32 | LTy::B32);
    let compute = match Role::of(inst) {
        Role::Control(_) => return Step::Hand,
        Role::Matrix { .. } => return Step::Matrix,
        Role::Compute(compute) => compute,
        Role::Literal(_) | Role::Param { .. } | Role::Special { .. } | Role::Shuffle(_) => return Step::Several,
        Role::Load(_) | Role::Store(_) | Role::Act | Role::Foreign => return Step::Several,
    };
    let one = match compute {
        Compute::Bin { dst, op } => matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::And | BinOp::Or | BinOp::Xor) && single(dst),
        Compute::Fma { dst } => program.vals[dst] == LTy::F32,
        Compute::Select { dst } => single(dst),
        Compute::Bitcast { .. } | Compute::Unpack { .. } | Compute::Convert { .. } | Compute::Other => false,
    };
    if one { Step::Single } else { Step::Several }
}

/// The values of a list that are consecutive words of a register, with the words of each.
pub(super) fn words_of(program: &Program, vals: &Vals) -> Option<Vec<(LVal, u8)>> {
    vals.iter()
        .map(|&v| match program.vals[v].bits() {
            _ if program.vals[v] == LTy::I1 => None,
            32 => Some((v, 1)),
            64 => Some((v, 2)),
            _ => None,
        })
        .collect()
}
