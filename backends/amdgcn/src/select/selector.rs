//! The state of a selection, and the words in which templates are written: blocks, registers, values. [`super::operands`] has the instructions.
//!
//! All lanes take part wherever a template stands; only guarded memory instructions switch lanes off, after their operands are there.

use super::error::{Computation, Reason, SelectError};
use super::live::Live;
use super::packs::Packs;
use super::uniform::{RegisterClass, Uniform};
use super::webs::{Web, Webs};
use super::windows::Windows;
use crate::chip::Chip;
use crate::isa::{Kind, Opcode};
use crate::mir::{ArgKind, Block, File, KernArg, Operand, Program, Reg, Span, Spilled, VReg, VRegData};
use cranelift_entity::{EntityRef, SecondaryMap};
use rustc_hash::FxHashMap;
use tilelift_ir::{GridAxis, Scalar};
use tilelift_lane::{LTy, LVal, Target};

/// Where a value is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Home {
    /// Nowhere yet.
    Nowhere,
    /// It is a constant: bits, extended as [`Selector::extended`] does.
    Const(u64),
    /// In registers.
    Reg(Span),
}

/// A 64-bit value that is made where it is read, once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Late {
    /// The product of a word, its sign extended, and a constant.
    Product {
        /// The word.
        word: Operand,
        /// The constant.
        by: i32,
    },
    /// Two words, the lower one first.
    Words([Operand; 2]),
}

/// What is in a register for the rest of the block, so that it need not be made again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Pooled {
    /// Bits in so many scalar words.
    Scalar(u64, u8),
    /// Bits in a vector register.
    Vector(u32),
    /// A copy of scalar registers in vector registers.
    Copy(Span),
    /// A word twice in vector registers.
    InPair(Operand),
    /// The descriptor of a buffer: its address and its size.
    Buffer(LVal, LVal),
    /// What an address of local data share has beside the lane's part.
    Row(LVal),
    /// The word of a product of two numbers that an instruction makes.
    Product([LVal; 2], Opcode),
}

/// The last word of a buffer's descriptor: words of 32 bits, no order of its own.
const BUFFER_FORMAT: i64 = 0x0002_0000;

pub(super) type Done = Result<(), SelectError>;

/// The state of a selection.
pub(super) struct Selector<'a> {
    pub(super) program: &'a tilelift_lane::Program,
    pub(super) target: &'a Target,
    pub(super) chip: Chip,
    pub(super) live: &'a Live,
    pub(super) uniform: &'a Uniform<'a>,
    pub(super) webs: &'a Webs,
    pub(super) windows: &'a Windows,
    pub(super) packs: &'a Packs,
    pub(super) mir: Program,
    /// Blocks in the order in which they are printed.
    order: Vec<Block>,
    /// The block that instructions go to.
    pub(super) at: Block,
    /// True behind a branch that is always taken.
    ended: bool,
    pub(super) depth: u32,
    pub(super) homes: SecondaryMap<LVal, Option<Home>>,
    web_regs: Vec<Option<VReg>>,
    pool: FxHashMap<Pooled, Span>,
    /// 64-bit values that are made where they are read.
    pub(super) late: FxHashMap<LVal, Late>,
    pub(super) entry: super::begun::EntryValues,
}

impl<'a> Selector<'a> {
    pub(super) fn new(
        (program, chip, target): (&'a tilelift_lane::Program, Chip, &'a Target),
        live: &'a Live,
        uniform: &'a Uniform<'a>,
        (webs, windows, packs): (&'a Webs, &'a Windows, &'a Packs),
    ) -> Selector<'a> {
        let mut mir = Program {
            name: program.name.clone(),
            chip,
            waves: program.warps,
            lds_bytes: program.shared_bytes,
            args: Vec::new(),
            vregs: Default::default(),
            blocks: Default::default(),
            entry: Default::default(),
            scratch_bytes: 0,
            spilled: Spilled::default(),
        };
        let at = mir.blocks.push(Default::default());
        Selector {
            program,
            target,
            chip,
            live,
            uniform,
            webs,
            windows,
            packs,
            mir,
            order: vec![at],
            at,
            ended: false,
            depth: 0,
            homes: SecondaryMap::new(),
            web_regs: vec![None; webs.len()],
            pool: FxHashMap::default(),
            late: FxHashMap::default(),
            entry: Default::default(),
        }
    }

    /// The program, blocks in printed order.
    pub(super) fn finish(mut self) -> Program {
        let mut number: SecondaryMap<Block, u32> = SecondaryMap::new();
        for (i, &b) in self.order.iter().enumerate() {
            number[b] = i as u32;
        }
        let number = |b: Block| Block::new(number[b] as usize);
        let mut old = std::mem::take(&mut self.mir.blocks);
        for &b in &self.order {
            let mut data = std::mem::take(&mut old[b]);
            data.next.iter_mut().for_each(|n| *n = number(*n));
            for inst in &mut data.insts {
                for o in &mut inst.operands {
                    if let Operand::Block(to) = o {
                        *to = number(*to);
                    }
                }
            }
            self.mir.blocks.push(data);
        }
        self.free_choice();
        self.mir
    }

    /// Registers that all instructions take from either vector file may be in either.
    fn free_choice(&mut self) {
        let mut bound: SecondaryMap<VReg, bool> = SecondaryMap::new();
        for inst in self.mir.blocks.values().flat_map(|b| &b.insts) {
            for (operand, slot) in inst.operands.iter().zip(inst.op.desc().slots) {
                if let Operand::Reg(Span { reg: Reg::Virtual(v), .. }) = operand {
                    bound[*v] |= !matches!(slot.kind, Kind::VectorOrAcc | Kind::AccSource);
                }
            }
        }
        for (v, data) in self.mir.vregs.iter_mut() {
            data.either = data.file == File::Vector && !bound[v];
        }
    }

    // Blocks.

    /// A block that is not printed yet.
    pub(super) fn label(&mut self) -> Block {
        self.mir.blocks.push(Default::default())
    }

    /// Goes on in a block, which stands behind what was printed so far.
    pub(super) fn start(&mut self, block: Block) {
        if !self.ended {
            self.goes_to(block);
        }
        self.order.push(block);
        self.mir.blocks[block].depth = self.depth;
        self.at = block;
        self.ended = false;
        self.pool.clear();
    }

    pub(super) fn goes_to(&mut self, block: Block) {
        let next = &mut self.mir.blocks[self.at].next;
        if !next.contains(&block) {
            next.push(block);
        }
    }

    /// Goes to a block.
    pub(super) fn jump(&mut self, to: Block) {
        self.emit(Opcode::SBranch, [Operand::Block(to)]);
        self.goes_to(to);
        self.ended = true;
    }

    /// Goes to a block if `scc` says so; else goes on in a new one.
    pub(super) fn branch(&mut self, op: Opcode, to: Block) {
        self.emit(op, [Operand::Block(to)]);
        self.goes_to(to);
        let on = self.label();
        self.start(on);
    }

    /// The kernel ends here.
    pub(super) fn end(&mut self) {
        self.emit(Opcode::SEndpgm, []);
        self.ended = true;
    }

    // Registers.

    /// Registers of a file.
    pub(super) fn fresh(&mut self, file: File, words: u8) -> Span {
        let align = match (file, words) {
            (_, 1) => 1,
            (File::Scalar, 3..) => 4,
            _ => 2,
        };
        Span::whole(self.mir.vregs.push(VRegData { file, either: false, words, align }), words)
    }

    /// A vector register.
    pub(super) fn v(&mut self) -> Span {
        self.fresh(File::Vector, 1)
    }

    /// Vector registers.
    pub(super) fn vs(&mut self, words: u8) -> Span {
        self.fresh(File::Vector, words)
    }

    /// A scalar register.
    pub(super) fn s(&mut self) -> Span {
        self.fresh(File::Scalar, 1)
    }

    /// A pair of scalar registers.
    pub(super) fn s2(&mut self) -> Span {
        self.fresh(File::Scalar, 2)
    }

    /// The file of an operand's registers.
    pub(super) fn file(&self, span: Span) -> File {
        match span.reg {
            Reg::Virtual(v) => self.mir.vregs[v].file,
            Reg::Physical(file, _) => file,
            Reg::Fixed(_) => File::Scalar,
        }
    }

    fn web(&mut self, web: Web) -> Span {
        let data = self.webs.data(web);
        if let Some(Some(r)) = self.web_regs.get(web.index()) {
            return Span::whole(*r, data.words);
        }
        let file = if data.class == RegisterClass::Vector { File::Vector } else { File::Scalar };
        let span = self.fresh(file, data.words);
        if let (Reg::Virtual(r), Some(slot)) = (span.reg, self.web_regs.get_mut(web.index())) {
            *slot = Some(r);
        }
        span
    }

    // Values.

    pub(super) fn ty(&self, v: LVal) -> LTy {
        self.program.vals[v]
    }

    /// 32-bit words of the registers that hold a value.
    pub(super) fn words(&self, v: LVal) -> u8 {
        match self.ty(v) {
            LTy::I1 => 2,
            ty => {
                if ty.bits() == 64 {
                    2
                } else {
                    1
                }
            }
        }
    }

    /// Where the value is to be written, if that is decided.
    pub(super) fn placed(&mut self, v: LVal) -> Option<Span> {
        let (web, first) = self.webs.place(v)?;
        let words = self.words(v);
        Some(self.web(web).part(first, words))
    }

    /// The registers of a value that is made now.
    pub(super) fn def(&mut self, v: LVal) -> Span {
        let span = match self.placed(v) {
            Some(span) => {
                self.forget(span);
                span
            }
            None => {
                let file = if self.uniform.class(v) == RegisterClass::Vector { File::Vector } else { File::Scalar };
                let words = self.words(v);
                self.fresh(file, words)
            }
        };
        self.homes[v] = Some(Home::Reg(span));
        span
    }

    /// The value is in those registers already, or a constant: it stays there, unless it has a place elsewhere.
    pub(super) fn is(&mut self, v: LVal, home: Home) {
        match self.placed(v) {
            Some(to) => {
                self.copy(to, home, self.ty(v));
                self.homes[v] = Some(Home::Reg(to));
            }
            None => self.homes[v] = Some(home),
        }
    }

    /// Where a value is.
    pub(super) fn home(&self, v: LVal) -> Home {
        self.homes[v].unwrap_or(Home::Nowhere)
    }

    /// The bits of a value that is constant.
    pub(super) fn constant(&self, v: LVal) -> Option<u64> {
        match self.home(v) {
            Home::Const(bits) => Some(bits),
            Home::Reg(_) | Home::Nowhere => None,
        }
    }

    /// A value as an operand, in whichever registers it is.
    pub(super) fn op(&mut self, v: LVal) -> Operand {
        self.settled(v);
        self.home_operand(self.home(v), self.words(v))
    }

    /// Where a value is, made now if it was left for later.
    pub(super) fn settled(&mut self, v: LVal) -> Home {
        if let Some(late) = self.late.remove(&v) {
            let made = self.vs(2);
            self.homes[v] = Some(Home::Reg(made));
            match late {
                Late::Product { word, by } => self.late_now(made, (word, by), 0.into()),
                Late::Words(words) => self.put_together(made, words),
            }
        }
        self.home(v)
    }

    /// True if nothing overwrites the operand's registers.
    pub(super) fn stays(&self, op: Operand) -> bool {
        match op {
            Operand::Reg(Span { reg: Reg::Virtual(v), .. }) => !self.web_regs.contains(&Some(v)),
            _ => true,
        }
    }

    fn home_operand(&self, home: Home, words: u8) -> Operand {
        match home {
            Home::Const(bits) if words == 1 => Operand::Imm(i64::from(bits as i32)),
            Home::Const(bits) => Operand::Imm(bits as i64),
            Home::Reg(span) => Operand::Reg(span),
            // Verified programs define what they read.
            Home::Nowhere => Operand::Imm(0),
        }
    }

    /// A word of a value.
    pub(super) fn word(&mut self, v: LVal, word: u8) -> Operand {
        part(self.op(v), word)
    }

    /// A value in vector registers.
    pub(super) fn vector(&mut self, v: LVal) -> Span {
        let (op, words) = (self.op(v), self.words(v));
        self.in_vector(op, words)
    }

    /// An operand in vector registers.
    pub(super) fn in_vector(&mut self, op: Operand, words: u8) -> Span {
        let key = match op {
            Operand::Reg(span) if self.file(span) == File::Vector => return span,
            Operand::Reg(span) => Some(Pooled::Copy(span)),
            Operand::Imm(bits) if words == 1 => Some(Pooled::Vector(bits as u32)),
            _ => None,
        };
        if let Some(&known) = key.as_ref().and_then(|k| self.pool.get(k)) {
            return known;
        }
        let to = self.vs(words);
        for w in 0..words {
            self.emit(Opcode::VMovB32, [to.part(w, 1).into(), part(op, w)]);
        }
        // What a loop carries changes in its register.
        if let Some(key) = key {
            self.pool.insert(key, to);
        }
        to
    }

    /// A word in the first of two vector registers; in the second one there is nothing.
    pub(super) fn in_pair(&mut self, v: LVal) -> Span {
        let word = self.op(v);
        let key = Pooled::InPair(word);
        if let Some(&known) = self.pool.get(&key) {
            return known;
        }
        let to = self.vs(2);
        self.emit(Opcode::VMovB32, [to.part(0, 1).into(), word]);
        self.pool.insert(key, to);
        to
    }

    /// A value as an operand of a scalar instruction.
    pub(super) fn scalar(&mut self, v: LVal) -> Operand {
        let (op, words) = (self.op(v), self.words(v));
        self.in_scalar(op, words)
    }

    /// An operand for a scalar instruction: the first lane's, if it is in a vector register.
    pub(super) fn in_scalar(&mut self, op: Operand, words: u8) -> Operand {
        match op {
            Operand::Reg(span) if self.file(span) == File::Vector => {
                let to = self.fresh(File::Scalar, words);
                self.first_lane(to, span);
                to.into()
            }
            _ => op,
        }
    }

    /// An operand in scalar registers.
    pub(super) fn in_scalar_regs(&mut self, op: Operand, words: u8) -> Span {
        match self.in_scalar(op, words) {
            Operand::Reg(span) => span,
            Operand::Imm(bits) => self.scalar_const(bits as u64, words),
            Operand::Block(_) | Operand::Off => self.scalar_const(0, words),
        }
    }

    /// Copies the first lane's bits to scalar registers.
    pub(super) fn first_lane(&mut self, to: Span, from: Span) {
        for w in 0..from.words {
            self.emit(Opcode::VReadfirstlaneB32, [to.part(w, 1).into(), from.part(w, 1).into()]);
        }
    }

    /// A constant in scalar registers.
    pub(super) fn scalar_const(&mut self, bits: u64, words: u8) -> Span {
        let key = Pooled::Scalar(bits, words);
        if let Some(&known) = self.pool.get(&key) {
            return known;
        }
        let to = self.fresh(File::Scalar, words);
        let small = (-16..=64).contains(&(bits as i64));
        if words == 2 && small {
            self.emit(Opcode::SMovB64, [to.into(), (bits as i64).into()]);
        } else {
            for w in 0..words {
                self.emit(Opcode::SMovB32, [to.part(w, 1).into(), part(Operand::Imm(bits as i64), w)]);
            }
        }
        self.pool.insert(key, to);
        to
    }

    /// The descriptor of a buffer, made once in a block: bytes without a stride, from an address on.
    pub(super) fn buffer(&mut self, base: LVal, bytes: LVal) -> Span {
        let key = Pooled::Buffer(base, bytes);
        if let Some(&known) = self.pool.get(&key) {
            return known;
        }
        let (from, size) = (self.scalar(base), self.scalar(bytes));
        let to = self.fresh(File::Scalar, 4);
        self.emit(Opcode::SMovB32, [to.part(0, 1).into(), part(from, 0)]);
        self.salu(Opcode::SAndB32, Some(to.part(1, 1)), &[part(from, 1), 0xffff.into()]);
        self.emit(Opcode::SMovB32, [to.part(2, 1).into(), size]);
        self.emit(Opcode::SMovB32, [to.part(3, 1).into(), BUFFER_FORMAT.into()]);
        self.pool.insert(key, to);
        to
    }

    /// The words of a product of two scalars, lower one first.
    pub(super) fn product(&mut self, of: [LVal; 2], operands: [Operand; 2], signed: bool) -> [Span; 2] {
        let high = if signed { Opcode::SMulHiI32 } else { Opcode::SMulHiU32 };
        [Opcode::SMulI32, high].map(|op| {
            let key = Pooled::Product(of, op);
            if let Some(&known) = self.pool.get(&key) {
                return known;
            }
            let to = self.s_of(op, &operands);
            self.pool.insert(key, to);
            to
        })
    }

    /// What an address of local data share has beside the lane's part, if it was made in this block.
    pub(super) fn known_row(&self, addr: LVal) -> Option<Span> {
        self.pool.get(&Pooled::Row(addr)).copied()
    }

    /// That was made now.
    pub(super) fn know_row(&mut self, addr: LVal, sum: Span) {
        self.pool.insert(Pooled::Row(addr), sum);
    }

    /// Copies a value to registers of its class or of vectors.
    pub(super) fn copy(&mut self, to: Span, from: Home, ty: LTy) {
        let from = self.home_operand(from, to.words);
        if from == Operand::Reg(to) {
            return;
        }
        match (self.file(to), from) {
            (File::Scalar, Operand::Reg(span)) if self.file(span) == File::Vector => self.first_lane(to, span),
            (File::Scalar, _) if to.words == 2 && (ty == LTy::I1 || matches!(from, Operand::Reg(_)) || inline_int(from)) => {
                self.emit(Opcode::SMovB64, [to.into(), from]);
            }
            (File::Scalar, _) => {
                for w in 0..to.words {
                    self.emit(Opcode::SMovB32, [to.part(w, 1).into(), part(from, w)]);
                }
            }
            (File::Vector | File::Acc, _) => {
                for w in 0..to.words {
                    self.emit(Opcode::VMovB32, [to.part(w, 1).into(), part(from, w)]);
                }
            }
        }
        self.forget(to);
    }

    /// Registers have changed: copies of what was there are none any more.
    pub(super) fn forget(&mut self, changed: Span) {
        self.pool.retain(|k, _| match k {
            Pooled::Copy(of) | Pooled::InPair(Operand::Reg(of)) => of.reg != changed.reg,
            Pooled::InPair(_) | Pooled::Scalar(..) | Pooled::Vector(_) | Pooled::Buffer(..) | Pooled::Row(_) | Pooled::Product(..) => true,
        });
    }

    /// Fails: nothing computes that.
    pub(super) fn refuse<T>(what: Computation, ty: LTy, why: Reason) -> Result<T, SelectError> {
        Err(SelectError::Computation(what, ty, why))
    }

    /// A kernel argument behind those that are there, at its natural alignment.
    pub(super) fn arg(&mut self, size: u32, kind: ArgKind) -> u32 {
        let end = self.mir.args.last().map_or(0, |a| a.offset + a.size);
        let offset = end.next_multiple_of(size.max(1));
        self.mir.args.push(KernArg { offset, size, kind });
        offset
    }
}

/// A word of an operand.
pub(super) fn part(op: Operand, word: u8) -> Operand {
    match op {
        Operand::Reg(span) => Operand::Reg(span.part(word, 1)),
        Operand::Imm(bits) => Operand::Imm(i64::from((bits >> (32 * u32::from(word.min(1)))) as i32)),
        Operand::Block(_) | Operand::Off => op,
    }
}

fn inline_int(op: Operand) -> bool {
    matches!(op, Operand::Imm(bits) if (-16..=64).contains(&bits))
}

/// A number of `f32` as an operand.
pub(super) fn f32_imm(x: f32) -> Operand {
    Operand::Imm(i64::from(x.to_bits() as i32))
}

/// The axis's number.
pub(super) const fn axis(a: GridAxis) -> usize {
    match a {
        GridAxis::X => 0,
        GridAxis::Y => 1,
        GridAxis::Z => 2,
    }
}

/// The bits of a constant of a type, as registers hold them: integers sign-extended, a truth value for all lanes, everything else in the low bits.
pub(super) fn extended(bits: u64, ty: LTy) -> u64 {
    match ty {
        LTy::Num(Scalar::I1) => {
            if bits & 1 == 1 {
                u64::MAX
            } else {
                0
            }
        }
        LTy::Num(Scalar::I8) => bits as i8 as u64,
        LTy::Num(Scalar::I16) => bits as i16 as u64,
        LTy::Num(Scalar::I32) => bits as i32 as u64,
        LTy::Num(Scalar::F16 | Scalar::BF16) => bits & 0xffff,
        LTy::Num(Scalar::F32) | LTy::B32 => bits as i32 as u64,
        LTy::Num(_) => bits,
    }
}
