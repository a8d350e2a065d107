//! Machine programs from a seed: straight code, loops, diamonds, and regions where lanes are switched off, nested.

use crate::chip::Chip;
use crate::isa::Opcode;
use crate::mir::{Block, BlockData, Entry, File, Inst, Mods, Operand, Program, Span, Spilled, VReg, VRegData};
use cranelift_entity::PrimaryMap;

/// Numbers from a seed.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// What programs are like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub chip: Chip,
    /// Instructions, about.
    pub length: usize,
    /// Wavefronts of a workgroup: how many registers there are follows from it.
    pub waves: u32,
    /// Values that are kept for later reads.
    pub keep: usize,
    /// Matrix instructions with 16 results.
    pub wide: bool,
}

/// Values by file and words.
#[derive(Clone, Debug, Default)]
struct Pool {
    scalars: Vec<Span>,
    pairs: Vec<Span>,
    quads: Vec<Span>,
    masks: Vec<Span>,
    vectors: Vec<Span>,
    vector_pairs: Vec<Span>,
    vector_quads: Vec<Span>,
    sums: Vec<Span>,
    wide_sums: Vec<Span>,
}

struct Generator {
    rng: Rng,
    shape: Shape,
    program: Program,
    block: Block,
    pool: Pool,
    depth: u32,
    /// Lanes may be switched off: matrix instructions do not stand here.
    partial: u32,
    budget: usize,
}

/// A program.
pub(crate) fn program(seed: u64, shape: Shape) -> Program {
    let mut program = empty(shape.chip, shape.waves);
    let block = program.blocks.push(BlockData::default());
    let mut generator =
        Generator { rng: Rng::new(seed), shape, program, block, pool: Pool::default(), depth: 0, partial: 0, budget: shape.length };
    generator.begin();
    while generator.budget > 0 {
        generator.region();
    }
    generator.end();
    generator.program
}

/// A program without blocks.
pub(crate) fn empty(chip: Chip, waves: u32) -> Program {
    Program {
        name: "k".into(),
        chip,
        waves,
        lds_bytes: 0,
        args: Vec::new(),
        vregs: PrimaryMap::new(),
        blocks: PrimaryMap::new(),
        entry: Entry { workgroup: [true, false, false] },
        scratch_bytes: 0,
        spilled: Spilled::default(),
    }
}

impl Generator {
    fn reg(&mut self, file: File, words: u8, either: bool) -> VReg {
        let align = match (file, words) {
            (_, 1) => 1,
            (File::Scalar, 2) => 2,
            (File::Scalar, _) => 4,
            _ => 2,
        };
        self.program.vregs.push(VRegData { file, either, words, align })
    }

    fn whole(&mut self, file: File, words: u8, either: bool) -> Span {
        Span::whole(self.reg(file, words, either), words)
    }

    fn emit(&mut self, op: Opcode, operands: impl IntoIterator<Item = Operand>) {
        self.emit_with(op, operands, Mods::default());
    }

    fn emit_with(&mut self, op: Opcode, operands: impl IntoIterator<Item = Operand>, mods: Mods) {
        self.program.blocks[self.block].insts.push(Inst::new(op, operands).with(mods));
        self.budget = self.budget.saturating_sub(1);
    }

    fn new_block(&mut self) -> Block {
        self.program.blocks.push(BlockData { depth: self.depth, ..BlockData::default() })
    }

    fn link(&mut self, from: Block, to: Block) {
        if !self.program.blocks[from].next.contains(&to) {
            self.program.blocks[from].next.push(to);
        }
    }

    fn pick(rng: &mut Rng, from: &[Span]) -> Span {
        // Late values are read more often, but all can be.
        let count = from.len();
        let near = count.min(6);
        if rng.one_in(3) { from[rng.below(count)] } else { from[count - 1 - rng.below(near)] }
    }

    fn keep(rng: &mut Rng, pool: &mut Vec<Span>, most: usize, value: Span) {
        if pool.len() >= most {
            let at = rng.below(pool.len());
            pool.swap_remove(at);
        }
        pool.push(value);
    }

    fn scalar(&mut self) -> Span {
        Self::pick(&mut self.rng, &self.pool.scalars)
    }

    fn vector(&mut self) -> Span {
        Self::pick(&mut self.rng, &self.pool.vectors)
    }

    /// Where a vector result goes: a new register, one that has a value, or a part of a tuple.
    fn vector_result(&mut self) -> Span {
        match self.rng.below(8) {
            0 => self.vector(),
            1 => {
                let quad = Self::pick(&mut self.rng, &self.pool.vector_quads);
                quad.part(self.rng.below(4) as u8, 1)
            }
            _ => {
                let span = self.whole(File::Vector, 1, false);
                Self::keep(&mut self.rng, &mut self.pool.vectors, self.shape.keep, span);
                span
            }
        }
    }

    fn scalar_result(&mut self) -> Span {
        if self.rng.one_in(5) {
            return self.scalar();
        }
        let span = self.whole(File::Scalar, 1, false);
        Self::keep(&mut self.rng, &mut self.pool.scalars, self.shape.keep, span);
        span
    }

    fn begin(&mut self) {
        let args = Span::physical(File::Scalar, 0, 2);
        for _ in 0..2 {
            let quad = self.whole(File::Scalar, 4, false);
            self.emit(Opcode::SLoadDwordx4, [quad.into(), args.into(), Operand::Imm(16)]);
            self.pool.quads.push(quad);
            self.pool.pairs.push(quad.part(0, 2));
            self.pool.pairs.push(quad.part(2, 2));
            self.pool.scalars.push(quad.part(1, 1));
        }
        let pair = self.whole(File::Scalar, 2, false);
        self.emit(Opcode::SMovB64, [pair.into(), args.into()]);
        self.pool.pairs.push(pair);
        let group = self.whole(File::Scalar, 1, false);
        self.emit(Opcode::SMovB32, [group.into(), Span::physical(File::Scalar, 2, 1).into()]);
        self.pool.scalars.push(group);
        let lane = self.whole(File::Vector, 1, false);
        self.emit(Opcode::VMovB32, [lane.into(), Span::physical(File::Vector, 0, 1).into()]);
        self.pool.vectors.push(lane);
        let quad = self.whole(File::Vector, 4, false);
        for i in 0..4 {
            self.emit(Opcode::VMovB32, [quad.part(i, 1).into(), Operand::Imm(i64::from(i))]);
        }
        self.pool.vector_quads.push(quad);
        self.pool.vector_pairs.push(quad.part(0, 2));
        let mask = self.whole(File::Scalar, 2, false);
        self.emit(Opcode::VCmpGtU32, [mask.into(), Operand::Imm(7), lane.into()]);
        self.pool.masks.push(mask);
        let sum = self.whole(File::Vector, 4, true);
        self.emit(Opcode::VMfmaF32_16x16x16F16, [sum.into(), quad.part(0, 2).into(), quad.part(2, 2).into(), Operand::Imm(0)]);
        self.pool.sums.push(sum);
        if self.shape.wide {
            let sum = self.whole(File::Vector, 16, true);
            self.emit(Opcode::VMfmaF32_32x32x8F16, [sum.into(), quad.part(0, 2).into(), quad.part(2, 2).into(), Operand::Imm(0)]);
            self.pool.wide_sums.push(sum);
        }
    }

    fn end(&mut self) {
        let address = self.vector();
        let base = Self::pick(&mut self.rng, &self.pool.pairs);
        for value in [self.vector(), self.vector()] {
            self.emit(Opcode::GlobalStoreDword, [address.into(), value.into(), base.into()]);
        }
        for sum in self.pool.sums.clone() {
            self.emit(Opcode::GlobalStoreDwordx4, [address.into(), sum.into(), base.into()]);
        }
        for sum in self.pool.wide_sums.clone() {
            for part in 0..4 {
                self.emit(Opcode::GlobalStoreDwordx4, [address.into(), sum.part(4 * part, 4).into(), base.into()]);
            }
        }
        self.emit(Opcode::SEndpgm, []);
    }

    fn region(&mut self) {
        match self.rng.below(12) {
            0 if self.depth < 3 => self.uniform_loop(),
            1 => self.diamond(),
            2 | 3 if self.partial < 3 => self.lanes_off(),
            4 if self.partial < 2 && self.depth < 3 => self.divergent_loop(),
            _ => {
                for _ in 0..4 + self.rng.below(12) {
                    self.one();
                }
            }
        }
    }

    /// Some regions; what they make is not read behind them, since it may not be there.
    fn some(&mut self) {
        let pool = self.pool.clone();
        self.body();
        self.pool = pool;
    }

    fn body(&mut self) {
        for _ in 0..1 + self.rng.below(3) {
            self.region();
        }
    }

    /// `do { ... } while (counter);`
    fn uniform_loop(&mut self) {
        let counter = self.whole(File::Scalar, 1, false);
        self.emit(Opcode::SMovB32, [counter.into(), Operand::Imm(3)]);
        let before = self.block;
        self.depth += 1;
        let body = self.new_block();
        self.link(before, body);
        self.block = body;
        self.body();
        self.emit(Opcode::SSubU32, [counter.into(), counter.into(), Operand::Imm(1)]);
        self.emit(Opcode::SCmpLgU32, [counter.into(), Operand::Imm(0)]);
        self.emit(Opcode::SCbranchScc1, [Operand::Block(body)]);
        let last = self.block;
        self.depth -= 1;
        let after = self.new_block();
        self.link(last, body);
        self.link(last, after);
        self.block = after;
    }

    /// `if (scalar) { ... } else { ... }`
    fn diamond(&mut self) {
        let a = self.scalar();
        self.emit(Opcode::SCmpLgU32, [a.into(), Operand::Imm(5)]);
        let top = self.block;
        let at = self.program.blocks[top].insts.len();
        self.emit(Opcode::SCbranchScc0, [Operand::Block(top)]);
        let then = self.new_block();
        self.link(top, then);
        self.block = then;
        self.some();
        let then_end = self.block;
        let has_else = self.rng.one_in(2);
        if has_else {
            let jump = self.program.blocks[then_end].insts.len();
            self.emit(Opcode::SBranch, [Operand::Block(top)]);
            let other = self.new_block();
            self.link(top, other);
            self.program.blocks[top].insts[at].operands[0] = Operand::Block(other);
            self.block = other;
            self.some();
            let other_end = self.block;
            let join = self.new_block();
            self.link(then_end, join);
            self.link(other_end, join);
            self.program.blocks[then_end].insts[jump].operands[0] = Operand::Block(join);
            self.block = join;
        } else {
            let join = self.new_block();
            self.link(then_end, join);
            self.link(top, join);
            self.program.blocks[top].insts[at].operands[0] = Operand::Block(join);
            self.block = join;
        }
    }

    fn mask(&mut self) -> Span {
        let (a, b) = (self.vector(), self.vector());
        let mask = self.whole(File::Scalar, 2, false);
        self.emit(Opcode::VCmpGtU32, [mask.into(), a.into(), b.into()]);
        Self::keep(&mut self.rng, &mut self.pool.masks, 6, mask);
        mask
    }

    /// `if (lane) { ... } else { ... }`, with and without a branch around it.
    fn lanes_off(&mut self) {
        let mask = if self.rng.one_in(3) { Self::pick(&mut self.rng, &self.pool.masks) } else { self.mask() };
        let saved = self.whole(File::Scalar, 2, false);
        self.partial += 1;
        self.emit(Opcode::SAndSaveexecB64, [saved.into(), mask.into()]);
        let top = self.block;
        let branches = self.rng.one_in(2);
        let at = self.program.blocks[top].insts.len();
        if branches {
            self.emit(Opcode::SCbranchExecz, [Operand::Block(top)]);
            let inside = self.new_block();
            self.link(top, inside);
            self.block = inside;
        }
        self.some();
        if branches {
            let last = self.block;
            let join = self.new_block();
            self.link(last, join);
            self.link(top, join);
            self.program.blocks[top].insts[at].operands[0] = Operand::Block(join);
            self.block = join;
        }
        if self.rng.one_in(2) {
            match self.rng.below(2) {
                0 => self.emit(Opcode::SAndn2B64, [Span::EXEC.into(), saved.into(), mask.into()]),
                _ => self.emit(Opcode::SXorB64, [Span::EXEC.into(), Span::EXEC.into(), saved.into()]),
            }
            self.some();
        }
        match self.rng.below(2) {
            0 => self.emit(Opcode::SOrB64, [Span::EXEC.into(), Span::EXEC.into(), saved.into()]),
            _ => self.emit(Opcode::SMovB64, [Span::EXEC.into(), saved.into()]),
        }
        self.partial -= 1;
    }

    /// `while (lane) { ... }`: lanes leave one after another.
    fn divergent_loop(&mut self) {
        let saved = self.whole(File::Scalar, 2, false);
        let counter = self.whole(File::Scalar, 1, false);
        self.emit(Opcode::SMovB32, [counter.into(), Operand::Imm(3)]);
        self.emit(Opcode::SMovB64, [saved.into(), Span::EXEC.into()]);
        let before = self.block;
        self.depth += 1;
        self.partial += 1;
        let body = self.new_block();
        self.link(before, body);
        self.block = body;
        let pool = self.pool.clone();
        self.body();
        let mask = self.mask();
        self.emit(Opcode::SSubU32, [counter.into(), counter.into(), Operand::Imm(1)]);
        self.emit(Opcode::SCmpLgU32, [counter.into(), Operand::Imm(0)]);
        // Nobody stays when the counter is zero, so that the loop ends.
        let going = self.whole(File::Scalar, 2, false);
        self.emit(Opcode::SCselectB64, [going.into(), mask.into(), Operand::Imm(0)]);
        self.emit(Opcode::SAndB64, [Span::EXEC.into(), Span::EXEC.into(), going.into()]);
        self.emit(Opcode::SCbranchExecnz, [Operand::Block(body)]);
        let last = self.block;
        self.depth -= 1;
        self.partial -= 1;
        let after = self.new_block();
        self.link(last, body);
        self.link(last, after);
        self.block = after;
        self.pool = pool;
        self.emit(Opcode::SMovB64, [Span::EXEC.into(), saved.into()]);
    }

    fn one(&mut self) {
        match self.rng.below(23) {
            0 => {
                let (a, b) = (self.scalar(), self.scalar());
                let to = self.scalar_result();
                self.emit(Opcode::SAddU32, [to.into(), a.into(), b.into()]);
            }
            1 => {
                let a = self.scalar();
                let to = self.scalar_result();
                self.emit(Opcode::SMovB32, [to.into(), a.into()]);
            }
            2 => {
                let base = Self::pick(&mut self.rng, &self.pool.pairs);
                let to = self.whole(File::Scalar, 4, false);
                self.emit(Opcode::SLoadDwordx4, [to.into(), base.into(), Operand::Imm(0)]);
                Self::keep(&mut self.rng, &mut self.pool.quads, 5, to);
                Self::keep(&mut self.rng, &mut self.pool.pairs, 5, to.part(2, 2));
                Self::keep(&mut self.rng, &mut self.pool.scalars, self.shape.keep, to.part(1, 1));
            }
            3..=5 => {
                let (a, b) = (self.vector(), self.vector());
                let to = self.vector_result();
                self.emit(Opcode::VAddU32, [to.into(), a.into(), b.into()]);
            }
            6 => {
                let (a, b, c) = (self.vector(), self.scalar(), self.vector());
                let to = self.vector_result();
                self.emit(Opcode::VFmaF32, [to.into(), a.into(), b.into(), c.into()]);
            }
            7 => {
                let a = self.vector();
                let to = self.vector_result();
                self.emit(Opcode::VMovB32, [to.into(), a.into()]);
            }
            8 => {
                let (a, b) = (self.vector(), self.vector());
                let to = self.vector();
                self.emit(Opcode::VFmacF32, [to.into(), a.into(), b.into()]);
            }
            9 => {
                let (a, b) = (self.vector(), self.vector());
                let mask = Self::pick(&mut self.rng, &self.pool.masks);
                let to = self.vector_result();
                self.emit(Opcode::VCndmaskB32, [to.into(), a.into(), b.into(), mask.into()]);
            }
            10 => {
                self.mask();
            }
            11 => {
                let a = self.vector();
                let to = self.scalar_result();
                self.emit(Opcode::VReadfirstlaneB32, [to.into(), a.into()]);
            }
            12 => {
                let a = self.vector();
                let to = self.whole(File::Vector, 4, true);
                self.emit(Opcode::DsReadB128, [to.into(), a.into()]);
                Self::keep(&mut self.rng, &mut self.pool.sums, 4, to);
            }
            13 => {
                let a = self.vector();
                let base = Self::pick(&mut self.rng, &self.pool.pairs);
                let to = self.whole(File::Vector, 4, false);
                self.emit(Opcode::GlobalLoadDwordx4, [to.into(), a.into(), base.into()]);
                Self::keep(&mut self.rng, &mut self.pool.vector_quads, 4, to);
                Self::keep(&mut self.rng, &mut self.pool.vector_pairs, 6, to.part(0, 2));
                Self::keep(&mut self.rng, &mut self.pool.vectors, self.shape.keep, to.part(3, 1));
            }
            14 => {
                let (a, value) = (self.vector(), self.vector());
                let base = Self::pick(&mut self.rng, &self.pool.pairs);
                self.emit(Opcode::GlobalStoreDword, [a.into(), value.into(), base.into()]);
            }
            15 => {
                let a = self.vector();
                let quad = Self::pick(&mut self.rng, &self.pool.vector_quads);
                self.emit(Opcode::DsWriteB128, [a.into(), quad.into()]);
            }
            16 if self.partial == 0 => {
                let quad = Self::pick(&mut self.rng, &self.pool.vector_quads);
                let c = Self::pick(&mut self.rng, &self.pool.sums);
                let to = if self.rng.one_in(2) { c } else { self.whole(File::Vector, 4, true) };
                self.emit(Opcode::VMfmaF32_16x16x16F16, [to.into(), quad.part(0, 2).into(), quad.part(2, 2).into(), c.into()]);
                Self::keep(&mut self.rng, &mut self.pool.sums, 4, to);
            }
            17 if self.partial == 0 && self.shape.wide => {
                let quad = Self::pick(&mut self.rng, &self.pool.vector_quads);
                let c = Self::pick(&mut self.rng, &self.pool.wide_sums);
                let to = if self.rng.one_in(2) { c } else { self.whole(File::Vector, 16, true) };
                self.emit(Opcode::VMfmaF32_32x32x8F16, [to.into(), quad.part(0, 2).into(), quad.part(2, 2).into(), c.into()]);
                Self::keep(&mut self.rng, &mut self.pool.wide_sums, 3, to);
            }
            18 => {
                let a = Self::pick(&mut self.rng, &self.pool.vector_pairs);
                let b = self.vector();
                let to = self.whole(File::Vector, 2, false);
                self.emit(Opcode::VLshlrevB64, [to.into(), b.into(), a.into()]);
                Self::keep(&mut self.rng, &mut self.pool.vector_pairs, 6, to);
            }
            19 => {
                let a = self.vector();
                let to = self.vector_result();
                self.emit(Opcode::VExpF32, [to.into(), a.into()]);
            }
            20 if self.partial == 0 => {
                let (a, lane) = (self.vector(), self.rng.below(64) as i64);
                let to = self.scalar_result();
                self.emit(Opcode::VReadlaneB32, [to.into(), a.into(), Operand::Imm(lane)]);
            }
            21 => {
                // A tuple from parts.
                let to = self.whole(File::Vector, 4, false);
                for i in 0..4 {
                    let a = self.vector();
                    self.emit(Opcode::VMovB32, [to.part(i, 1).into(), a.into()]);
                }
                Self::keep(&mut self.rng, &mut self.pool.vector_quads, 4, to);
            }
            _ => {
                let a = self.vector();
                let to = self.vector_result();
                let dpp = crate::mir::Dpp { ctrl: 0x121, row_mask: 15, bank_mask: 15, bound_ctrl: self.rng.one_in(2) };
                self.emit_with(Opcode::VMovB32, [to.into(), a.into()], Mods { dpp: Some(dpp), ..Mods::default() });
            }
        }
    }
}
