//! The table of instructions. [`super::table`] explains the form of a row; [`super::unit`] has the table of what asynchronous units do.

use crate::frame::AllocId;
use crate::machine::MatrixId;
use crate::op::{BinOp, Takes, UnOp};
use crate::table::{Effect, Kind, Use, Values, instructions};
use crate::text::{Names, Shown, bits, carry, def, flag, list, maybe, place_of, results, typed};
use crate::unit::Unit;
use crate::value::{Carried, LVal, ShuffleFrom, Space, Special, Vals};
use std::fmt;
use std::fmt::Write;
use std::sync::Arc;
use tilelift_ir::{AtomicOp, CacheHint, CmpOp, MemoryOrder, Scope};

instructions! {
    /// An instruction. Results come first; every value is defined once.
    #[derive(Clone, PartialEq, Debug)]
    #[allow(missing_docs)] // the fields are named in each variant's text
    pub enum Inst as Opcode {
        /// A value that nobody may look at: the accumulator of a multiplication that does not read it.
        // Where the first stands is where its register begins.
        Undefined { dst: LVal = def Own } => Effect::Stay, "undefined";
        /// A literal: its bits, in the low bits (integers are sign-extended to 64; `i1` is 0 or 1).
        Const { dst: LVal = def Own, bits: u64 = with } => Effect::Compute, "const {}", self::bits(dst, bits);
        /// Launch parameter number `index`.
        Param { dst: LVal = def Own, index: u32 = with } => Effect::Compute, "param {index}";
        /// Where the lane stands; `i32`.
        Special { dst: LVal = def I32, what: Special = with } => Effect::Compute, "special {what}";
        /// The byte address of an allocation in shared memory; `i32`.
        SharedAddr { dst: LVal = def I32, alloc: AllocId = with } => Effect::Compute, "shared_addr {alloc}{}", maybe(" // ", alloc.purpose());
        /// `op a`; operand and result have one type.
        Un { dst: LVal = def T, op: UnOp = with, a: LVal = read T } => Effect::Compute, takes op.takes(), size op.size(), "{op} {a}";
        /// `a op b`; operands and result have one type.
        Bin { dst: LVal = def T, op: BinOp = with, a: LVal = read T, b: LVal = read T }
            => Effect::Compute, takes op.takes(), size op.size(), "{op} {a}, {b}";
        /// `a * b + c` with one rounding, as the tile op `fma`; for `i32` and `i64` the wrapping `a * b + c`.
        Fma { dst: LVal = def T, a: LVal = read T, b: LVal = read T, c: LVal = read T } => Effect::Compute, takes Takes::Fused, "fma {a}, {b}, {c}";
        /// `i64`: sign-extended `i32` a times sign-extended `i32` b plus `i64` c.
        MadWide { dst: LVal = def I64, a: LVal = read I32, b: LVal = read I32, c: LVal = read I64 } => Effect::Compute, "mad_wide {a}, {b}, {c}";
        /// `i64`: zero-extended `i32` a times zero-extended `i32` b plus `i64` c.
        MadWideU { dst: LVal = def I64, a: LVal = read I32, b: LVal = read I32, c: LVal = read I64 } => Effect::Compute, "mad_wide_u {a}, {b}, {c}";
        /// The upper 32 bits of `high` and `low`, one behind the other, shifted left by `by` modulo 32.
        Funnel { dst: LVal = def I32, high: LVal = read I32, low: LVal = read I32, by: LVal = read I32 }
            => Effect::Compute, "funnel {high}, {low}, {by}";
        /// `a * b + c` of the two `f16` of which each word consists, each with one rounding; for machines with
        /// [`crate::machine::Target::packed_halves`], as the next five.
        FmaF16x2 { dst: LVal = def I32, a: LVal = read I32, b: LVal = read I32, c: LVal = read I32 } => Effect::Compute, "fma_f16x2 {a}, {b}, {c}";
        /// The same of two `bf16`.
        FmaBf16x2 { dst: LVal = def I32, a: LVal = read I32, b: LVal = read I32, c: LVal = read I32 } => Effect::Compute, "fma_bf16x2 {a}, {b}, {c}";
        /// Two `f32` in a word, each as an `f16` as `Cvt` has it, `low` in the low half.
        CvtF16x2 { dst: LVal = def B32, low: LVal = read F32, high: LVal = read F32 } => Effect::Compute, "cvt_f16x2 {low}, {high}";
        /// The same as `bf16`.
        CvtBf16x2 { dst: LVal = def B32, low: LVal = read F32, high: LVal = read F32 } => Effect::Compute, "cvt_bf16x2 {low}, {high}";
        /// Two `f32` as codes of `f8e4m3` side by side, as [`crate::op::UnOp::EncodeE4M3`] makes each, `low` in the low byte; for machines that convert codes.
        CvtE4M3x2 { dst: LVal = def I16, low: LVal = read F32, high: LVal = read F32 } => Effect::Compute, "cvt_e4m3x2 {low}, {high}";
        /// The same of `f8e5m2`.
        CvtE5M2x2 { dst: LVal = def I16, low: LVal = read F32, high: LVal = read F32 } => Effect::Compute, "cvt_e5m2x2 {low}, {high}";
        /// Four bytes out of eight: those of `low` are numbers 0 to 3, those of `high` 4 to 7; byte n of the result is the one that the lower three
        /// bits of digit n, in base 16, of `picks` name. The digits' fourth bits and those behind the fourth digit do not count.
        Permute { dst: LVal = def I32, low: LVal = read I32, high: LVal = read I32, picks: LVal = read I32 }
            => Effect::Compute, "permute {low}, {high} by {picks}";
        /// `(a & mask) ^ flip`.
        MaskFlip { dst: LVal = def I32, a: LVal = read I32, mask: LVal = read I32, flip: LVal = read I32 }
            => Effect::Compute, "mask_flip {a} by {mask}, {flip}";
        /// Comparison of two values of one type; `i1`.
        Cmp { dst: LVal = def I1, op: CmpOp = with, a: LVal = read T, b: LVal = read T }
            => Effect::Compute, takes if op.is_unsigned() { Takes::Ints } else { Takes::Scalars }, "cmp {op} {a}, {b}";
        /// `c ? a : b`.
        Select { dst: LVal = def T, a: LVal = read T, b: LVal = read T, c: LVal = read I1 } => Effect::Compute, "select {c}, {a}, {b}";
        /// Quotients of several pairs of `f32`, each as `Bin` has it, in lanes that run together: what one check may decide for all of
        /// them is checked once.
        Divide { dsts: Vals = def F32, a: Vals = read F32, b: Vals = read F32 } => Effect::Compute, size 2 * dsts.len() as u64, "divide {a} by {b}";
        /// Conversion by value between the types of `a` and `dst`, as the tile op `cast`.
        Cvt { dst: LVal = def Number, a: LVal = read Number } => Effect::Compute, "cvt {}", typed(a);
        /// Rounds an `f32` to tf32 (nearest, ties away), kept in an `f32`.
        RoundTf32 { dst: LVal = def F32, a: LVal = read F32 } => Effect::Compute, "round_tf32 {a}";
        /// The same bits under another type of that width.
        Bitcast { dst: LVal = def Own, a: LVal = read Own } => Effect::Compute, "bitcast {}", typed(a);
        /// Two 16-bit or four 8-bit values into a `b32`, low bits first.
        Pack { dst: LVal = def B32, parts: Vals = read T } => Effect::Compute, takes Takes::Parts, "pack {parts}";
        /// A `b32` into two 16-bit or four 8-bit values, low bits first.
        Unpack { dsts: Vals = def T, a: LVal = read B32 } => Effect::Compute, takes Takes::Parts, "unpack {a}";
        /// Reads `dsts.len()` consecutive values of one type (1, 2 or 4; at most 16 bytes, aligned to their total) at `addr + offset`
        /// bytes. Where the guard is false nothing is read and the results are `other` (zeros if absent).
        LoadGlobal {
            dsts: Vals = def T,
            addr: LVal = address(offset) I64,
            offset: i32 = with,
            guard: Option<LVal> = guard,
            other: Vals = read T,
            cache: CacheHint = with,
        } => Effect::Read(Space::Global), "load.global{cache} {addr}{guard}{}", maybe(" else ", (!other.it.is_empty()).then_some(other));
        /// Writes consecutive values, as `LoadGlobal` reads them.
        StoreGlobal {
            addr: LVal = address(offset) I64,
            offset: i32 = with,
            guard: Option<LVal> = guard,
            srcs: Vals = read T,
            cache: CacheHint = with,
        } => Effect::Write(Space::Global), "store.global{cache} {addr} = {srcs}{guard}";
        /// Asks the caches for the line of an address in global memory, where the guard holds. Nothing else happens, whatever is there.
        Prefetch { addr: LVal = address(offset) I64, offset: i32 = with, guard: Option<LVal> = guard }
            => Effect::Hint, "prefetch {addr}{guard}";
        /// Updates one value in memory; see [`Atomic`].
        Atomic(update: Box<Atomic>) => Effect::Update(update.space), takes update.takes(), size 2;
        /// Reads consecutive values from shared memory at `addr + offset` bytes.
        LoadShared { dsts: Vals = def T, addr: LVal = address(offset) I32, offset: i32 = with }
            => Effect::Read(Space::Shared), "load.shared {addr}";
        /// Writes consecutive values to shared memory.
        StoreShared { addr: LVal = address(offset) I32, offset: i32 = with, guard: Option<LVal> = guard, srcs: Vals = read T }
            => Effect::Write(Space::Shared), "store.shared {addr} = {srcs}{guard}";
        /// Loads 1, 2 or 4 matrices of 8 by 8 16-bit elements from shared memory: lanes 8q to 8q+7 give the addresses of the 16-byte
        /// rows of matrix q; result q of lane l holds elements (row l/4, columns 2(l%4) and +1), or with `trans` the elements
        /// (rows 2(l%4) and +1, column l/4), of matrix q. Results are `b32`.
        LoadMatrix { dsts: Vals = def B32, addr: LVal = address(offset) I32, offset: i32 = with, trans: bool = with }
            => Effect::Read(Space::Shared), "load_matrix{} {addr}", flag(trans, ".trans");
        /// Starts copying `bytes` (4, 8 or 16) bytes from global to shared memory, aligned to their number; where `valid` is given and
        /// false, zeros are written and nothing is read. Complete for the lane at the [`Inst::WaitCopies`] that covers its group.
        CopyAsync {
            shared: LVal = address(offset) I32,
            offset: i32 = with,
            global: LVal = address(global_offset) I64,
            global_offset: i32 = with,
            bytes: u32 = with,
            valid: Option<LVal> = guard,
        } => Effect::Copy, "copy_async.{bytes} {shared} = global {global}{valid}";
        /// Closes the lane's group of copies started since the last close; the group may be empty.
        CommitCopies => Effect::Order, "commit_copies";
        /// Waits until all but the newest `pending` groups of the lane are complete.
        WaitCopies { pending: u32 = with } => Effect::Order, "wait_copies {pending}";
        /// Waits for all lanes of the program instance; orders their memory accesses.
        Barrier => Effect::Meet, "barrier";
        /// Stops the launch with an error in a lane where the condition does not hold.
        Assert { condition: LVal = read I1 } => Effect::Check, "assert {condition}";
        /// The value that another lane of the warp holds; 32-bit types only.
        Shuffle { dst: LVal = def T, a: LVal = read T, from: ShuffleFrom = read I32 }
            => Effect::Exchange, takes Takes::Lane, "shuffle {a} {from}";
        /// The least or the greatest of the words that the lanes of the warp hold ([`BinOp::Minimum`], [`BinOp::Maximum`] and their unsigned siblings), in
        /// all of them; for machines with [`crate::machine::Target::redux`].
        Redux { dst: LVal = def I32, op: BinOp = with, a: LVal = read I32 } => Effect::Exchange, "redux {op} {a}";
        /// A matrix instruction of the target: fragments in the order of the target's table, packed into `b32` where elements are
        /// narrower than 32 bits. One that takes scales has those of A and of B in the low bytes of two more words.
        Matrix(product: Box<MatrixProduct>) => Effect::Matrix;
        /// `for iv in lo..hi step step` (signed; the step is positive).
        For(control: Box<For>) => Effect::Control, size 1 + control.carried.len() as u64;
        /// Repeats while the first block's condition holds.
        While(control: Box<While>) => Effect::Control, size 1 + control.carried.len() as u64;
        /// Runs one of two blocks.
        If(control: Box<If>) => Effect::Control, size 1 + control.results.len() as u64;
        /// What asynchronous units do. Copies of a program share it: products name hundreds of accumulators.
        Unit(unit: Arc<Unit>) => unit.effect();
        /// Warps go their own ways; the last instruction of a program.
        Roles(control: Box<Roles>) => Effect::Control;
    }
}

/// An indivisible update of one value in memory, per lane whose guard holds.
///
/// Each lane with a true guard replaces the value at `addr + offset` bytes. `i32` and `i64` take every update; `f32` and `f64` take
/// `add` and `xchg`; `f16` and `bf16` take `add`. Lanes that meet in one place update it one after the other, in any order.
#[derive(Clone, PartialEq, Debug)]
pub struct Atomic {
    /// The value from before, zero where the guard is false; absent if nobody asks.
    pub dst: Option<LVal>,
    /// What is done.
    pub kind: AtomicKind,
    /// Which memory.
    pub space: Space,
    /// Address: `i64` for global, `i32` for shared memory.
    pub addr: LVal,
    /// Added to the address.
    pub offset: i32,
    /// The operand.
    pub value: LVal,
    /// Where it is false nothing happens.
    pub guard: Option<LVal>,
    /// What else is ordered, for this lane.
    pub order: MemoryOrder,
    /// Among whom the update is indivisible.
    pub scope: Scope,
}

/// What an [`Atomic`] does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicKind {
    /// An update by the operand.
    Op(AtomicOp),
    /// The operand replaces the value if that equals this one; integers only.
    Cas(LVal),
}

/// Instructions in order.
pub type Block = Vec<Inst>;

/// A counted loop.
#[derive(Clone, PartialEq, Debug)]
pub struct For {
    /// The index, defined in the body.
    pub iv: LVal,
    /// First index.
    pub lo: LVal,
    /// End, exclusive.
    pub hi: LVal,
    /// Increment.
    pub step: LVal,
    /// The first index is known to be below the end: the loop runs at least once.
    pub runs: bool,
    /// Values carried around the loop.
    pub carried: Vec<Carried>,
    /// The body.
    pub body: Block,
}

/// A loop on a condition. The body sees what the test makes; the carried parameters are seen by both.
#[derive(Clone, PartialEq, Debug)]
pub struct While {
    /// Values carried around the loop.
    pub carried: Vec<Carried>,
    /// Computes the condition from the carried values.
    pub test: Block,
    /// The condition, made by `test`.
    pub condition: LVal,
    /// Runs while the condition holds.
    pub body: Block,
}

/// A choice.
#[derive(Clone, PartialEq, Debug)]
pub struct If {
    /// The condition.
    pub condition: LVal,
    /// Runs if it holds.
    pub then: Block,
    /// Runs if not.
    pub otherwise: Block,
    /// `(result, value of then, value of otherwise)`.
    pub results: Vec<(LVal, LVal, LVal)>,
}

/// Warps that go their own ways to the end of the program: bodies on disjoint ranges of warps.
#[derive(Clone, PartialEq, Debug)]
pub struct Roles {
    /// The roles, by first warp. Warps of no role are done.
    pub roles: Vec<Role>,
}

/// A role. In its body, warps count from 0, [`super::inst::Inst::Barrier`] holds the role's lanes alone, and control flow is uniform over it.
///
/// Of several replicas each is a role of its own, which has the body in common with the others and learns its number from
/// [`Special::Replica`]: replica `r` has the warps from `first + r (warps + idle)` on. [`super::program::Program::roles_apart`] writes each out.
#[derive(Clone, PartialEq, Debug)]
pub struct Role {
    /// What it is called in texts.
    pub name: String,
    /// Its first warp; of several replicas that of the first.
    pub first: u32,
    /// Its warps; of several replicas those of one.
    pub warps: u32,
    /// Warps behind them that only take part in the change of registers.
    pub idle: u32,
    /// How many there are of it, side by side.
    pub replicas: u32,
    /// One lane of the first warp runs the body; the others are done.
    pub single: bool,
    /// Registers per lane that the role asks for, or gives up, if the target has a pool.
    pub registers: Option<u32>,
    /// The body.
    pub body: Block,
}

impl Role {
    /// Warps from one replica to the next.
    pub fn stride(&self) -> u32 {
        self.warps + self.idle
    }

    /// The warp behind its last, those that only change their registers included.
    pub fn end(&self) -> u32 {
        self.first + self.replicas * self.stride()
    }

    /// What a replica is called.
    pub fn name_of(&self, replica: u32) -> String {
        if self.replicas > 1 { format!("{}{replica}", self.name) } else { self.name.clone() }
    }
}

/// An instruction with blocks.
#[derive(Clone, Copy, Debug)]
pub enum Control<'a> {
    /// A counted loop.
    For(&'a For),
    /// A loop on a condition.
    While(&'a While),
    /// A choice.
    If(&'a If),
    /// Blocks of which each warp runs one.
    Roles(&'a Roles),
}

impl Inst {
    /// The instruction as one with blocks; those are the ones whose effect is [`Effect::Control`].
    #[inline]
    pub fn control(&self) -> Option<Control<'_>> {
        match self {
            Inst::For(l) => Some(Control::For(l)),
            Inst::While(l) => Some(Control::While(l)),
            Inst::If(c) => Some(Control::If(c)),
            Inst::Roles(r) => Some(Control::Roles(r)),
            _ => None,
        }
    }
}

impl Atomic {
    pub(crate) fn operands(&self, mut f: impl FnMut(LVal, Use)) {
        f(self.addr, Use::Address(self.offset));
        f(self.value, Use::Value);
        self.guard.iter().for_each(|&g| f(g, Use::Guard));
        match self.kind {
            AtomicKind::Cas(c) => f(c, Use::Value),
            AtomicKind::Op(_) => {}
        }
    }

    pub(crate) fn results(&self) -> &[LVal] {
        self.dst.values()
    }

    pub(crate) fn rename(&mut self, f: &mut dyn FnMut(&mut LVal)) {
        self.dst.iter_mut().chain([&mut self.addr, &mut self.value]).chain(&mut self.guard).for_each(&mut *f);
        match &mut self.kind {
            AtomicKind::Cas(c) => f(c),
            AtomicKind::Op(_) => {}
        }
    }

    pub(crate) fn typed<'i>(&'i self, mut f: impl FnMut(&'i [LVal], Kind, bool)) {
        f(self.addr.values(), if self.space == Space::Global { Kind::I64 } else { Kind::I32 }, false);
        f(self.guard.values(), Kind::I1, false);
        f(self.value.values(), Kind::T, false);
        match self.kind {
            AtomicKind::Cas(ref c) => f(c.values(), Kind::T, false),
            AtomicKind::Op(_) => {}
        }
        f(self.dst.values(), Kind::T, true);
    }

    fn takes(&self) -> Takes {
        match self.kind {
            AtomicKind::Op(AtomicOp::Add) => Takes::Added,
            AtomicKind::Op(AtomicOp::Xchg) => Takes::Wide,
            AtomicKind::Op(_) | AtomicKind::Cas(_) => Takes::WideInts,
        }
    }
}

/// A product by a matrix instruction of the lanes' own. It has more lists than other instructions, and all take the room of the largest one.
#[derive(Clone, PartialEq, Debug)]
pub struct MatrixProduct {
    /// The sums.
    pub dsts: Vals,
    /// The instruction.
    pub instr: MatrixId,
    /// Operand A.
    pub a: Vals,
    /// Operand B.
    pub b: Vals,
    /// What is added to.
    pub c: Vals,
    /// Scales of A and of B, if the instruction takes some.
    pub scales: Vals,
}

impl MatrixProduct {
    pub(crate) fn operands(&self, mut f: impl FnMut(LVal, Use)) {
        [&self.a, &self.b].into_iter().flatten().for_each(|&v| f(v, Use::Word));
        self.c.iter().for_each(|&v| f(v, Use::Value));
        self.scales.iter().for_each(|&v| f(v, Use::Word));
    }

    pub(crate) fn results(&self) -> &[LVal] {
        &self.dsts
    }

    pub(crate) fn rename(&mut self, f: &mut dyn FnMut(&mut LVal)) {
        let MatrixProduct { dsts, instr: _, a, b, c, scales } = self;
        [dsts, a, b, c, scales].into_iter().flatten().for_each(f);
    }

    pub(crate) fn typed<'i>(&'i self, mut f: impl FnMut(&'i [LVal], Kind, bool)) {
        f(&self.dsts, Kind::Own, true);
        [&self.a, &self.b, &self.c, &self.scales].into_iter().for_each(|vals| f(vals, Kind::Own, false));
    }

    pub(crate) fn write(&self, p: Names<'_>, f: &mut dyn Write) -> fmt::Result {
        results(p, f, &self.dsts)?;
        write!(f, "{}", self.instr)?;
        for vals in [&self.a, &self.b, &self.c] {
            f.write_str(" (")?;
            list(f, vals.iter().copied())?;
            f.write_char(')')?;
        }
        if !self.scales.is_empty() {
            f.write_str(" scales (")?;
            list(f, self.scales.iter().copied())?;
            f.write_char(')')?;
        }
        Ok(())
    }
}

impl For {
    pub(crate) fn operands(&self, mut f: impl FnMut(LVal, Use)) {
        [self.lo, self.hi, self.step].into_iter().for_each(|v| f(v, Use::Value));
        self.carried.iter().for_each(|c| f(c.init, Use::Value));
    }

    pub(crate) fn results(&self) -> &[LVal] {
        &[]
    }

    pub(crate) fn rename(&mut self, f: &mut dyn FnMut(&mut LVal)) {
        [&mut self.iv, &mut self.lo, &mut self.hi, &mut self.step].into_iter().for_each(&mut *f);
        rename_carried(&mut self.carried, f);
        rename_all(&mut self.body, f);
    }

    /// Its blocks are checked with it.
    pub(crate) fn typed<'i>(&'i self, _: impl FnMut(&'i [LVal], Kind, bool)) {}
}

fn rename_carried(carried: &mut [Carried], f: &mut dyn FnMut(&mut LVal)) {
    carried.iter_mut().flat_map(|c| [&mut c.init, &mut c.param, &mut c.next, &mut c.result]).for_each(f);
}

fn rename_all(block: &mut Block, f: &mut dyn FnMut(&mut LVal)) {
    block.iter_mut().for_each(|i| i.rename(f));
}

impl While {
    pub(crate) fn operands(&self, mut f: impl FnMut(LVal, Use)) {
        self.carried.iter().for_each(|c| f(c.init, Use::Value));
    }

    pub(crate) fn results(&self) -> &[LVal] {
        &[]
    }

    pub(crate) fn rename(&mut self, f: &mut dyn FnMut(&mut LVal)) {
        f(&mut self.condition);
        rename_carried(&mut self.carried, f);
        rename_all(&mut self.test, f);
        rename_all(&mut self.body, f);
    }

    /// Its blocks are checked with it.
    pub(crate) fn typed<'i>(&'i self, _: impl FnMut(&'i [LVal], Kind, bool)) {}
}

impl If {
    pub(crate) fn operands(&self, mut f: impl FnMut(LVal, Use)) {
        f(self.condition, Use::Value);
    }

    pub(crate) fn results(&self) -> &[LVal] {
        &[]
    }

    pub(crate) fn rename(&mut self, f: &mut dyn FnMut(&mut LVal)) {
        f(&mut self.condition);
        self.results.iter_mut().flat_map(|(r, a, b)| [r, a, b]).for_each(&mut *f);
        rename_all(&mut self.then, f);
        rename_all(&mut self.otherwise, f);
    }

    /// Its blocks are checked with it.
    pub(crate) fn typed<'i>(&'i self, _: impl FnMut(&'i [LVal], Kind, bool)) {}
}

impl Roles {
    pub(crate) fn operands(&self, _: impl FnMut(LVal, Use)) {}

    pub(crate) fn results(&self) -> &[LVal] {
        &[]
    }

    pub(crate) fn rename(&mut self, f: &mut dyn FnMut(&mut LVal)) {
        self.roles.iter_mut().for_each(|r| rename_all(&mut r.body, f));
    }

    /// Its blocks are checked with it.
    pub(crate) fn typed<'i>(&'i self, _: impl FnMut(&'i [LVal], Kind, bool)) {}
}

impl Atomic {
    pub(crate) fn write(&self, p: Names<'_>, f: &mut dyn Write) -> fmt::Result {
        results(p, f, self.results())?;
        let space = match self.space {
            Space::Global => "global",
            Space::Shared => "shared",
        };
        match self.kind {
            AtomicKind::Op(op) => write!(f, "atomic.{space}.{op}.{}.{} ", self.order, self.scope)?,
            AtomicKind::Cas(_) => write!(f, "atomic.{space}.cas.{}.{} ", self.order, self.scope)?,
        }
        write!(f, "{}", Shown { names: p, it: &place_of(self.addr, self.offset) })?;
        if let AtomicKind::Cas(c) = self.kind {
            write!(f, " from {c}")?;
        }
        write!(f, " by {}{}", self.value, Shown { names: p, it: &self.guard })
    }
}

impl For {
    pub(crate) fn write(&self, p: Names<'_>, f: &mut dyn Write) -> fmt::Result {
        f.write_str(if self.runs { "for_once " } else { "for " })?;
        def(p, f, self.iv)?;
        write!(f, " in {}..{} step {}", self.lo, self.hi, self.step)?;
        carry(p, f, &self.carried)?;
        f.write_str(" {")
    }
}

impl While {
    pub(crate) fn write(&self, p: Names<'_>, f: &mut dyn Write) -> fmt::Result {
        f.write_str("loop")?;
        carry(p, f, &self.carried)?;
        f.write_str(" {")
    }
}

impl If {
    pub(crate) fn write(&self, _: Names<'_>, f: &mut dyn Write) -> fmt::Result {
        write!(f, "if {} {{", self.condition)
    }
}

impl Roles {
    pub(crate) fn write(&self, _: Names<'_>, f: &mut dyn Write) -> fmt::Result {
        f.write_str("roles {")
    }
}

#[cfg(test)]
mod tests {
    use super::Inst;

    /// Passes move instructions by the hundred, and blocks hold them side by side: lists that few of them have stand in boxes.
    #[test]
    fn an_instruction_takes_no_more_than_eighty_bytes() {
        assert!(size_of::<Inst>() <= 80, "{}", size_of::<Inst>());
    }
}
