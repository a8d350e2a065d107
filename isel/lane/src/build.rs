//! Makes lane programs: folds constants, shares equal pure instructions, hoists them out of loops, places shared memory.
//!
//! A pure instruction goes to the outermost open block in which its operands are known (every lane op is total, so that is always
//! allowed), and is shared with every later equal one inside that block. This is scoped value numbering and loop hoisting in one
//! step, without a pass. [`LaneBuilder::finish`] removes what nothing uses and gives every allocation its place.

mod allocs;
mod bits;
mod budget;
mod clear;
mod codes;
mod control;
mod equal;
mod finish;
mod known;
mod memory;
mod origins;
mod pairs;
mod picks;
pub(crate) mod roles;
mod room;
#[cfg(test)]
mod tests;
mod words;

pub use budget::{Budget, INSTRUCTIONS};
use known::{Fact, Known};

use self::equal::{Equals, Key, KeyPlace, What};
use self::room::{BLOCK, VALUES};
use crate::fold::{eval_cmp, eval_int};
use crate::frame::{AllocId, Param};
use crate::hash::Set;
use crate::inst::{Block, Inst, MatrixProduct, Opcode};
use crate::machine::MatrixId;
use crate::op::{BinOp, UnOp};
use crate::place::{Life, Owner};
use crate::program::Program;
use crate::value::{LTy, LVal, ShuffleFrom, Special, Vals};
use cranelift_entity::{EntityRef, PrimaryMap, SecondaryMap};
use tilelift_ir::{CmpOp, GridAxis, Loc, Scalar, num};

/// The role that is being filled.
#[derive(Clone, Copy)]
struct Filled {
    /// Its frame's depth and number.
    depth: u32,
    frame: u32,
    /// Warps that run it, of each replica.
    warps: u32,
    /// How many replicas it has.
    replicas: u32,
}

#[derive(Default)]
struct BuildFrame {
    id: u32,
    block: Block,
    /// Clock at the frame's start.
    start: u32,
}

/// Builds a [`Program`].
pub struct LaneBuilder {
    program: Program,
    frames: Vec<BuildFrame>,
    facts: PrimaryMap<LVal, Fact>,
    /// The pure instructions that were made.
    made: Equals,
    lives: SecondaryMap<AllocId, Option<Life>>,
    clock: u32,
    next_frame: u32,
    /// What is left for the program to grow by.
    pub budget: Budget,
    /// Shared memory was read, or written, since the last barrier on some path to here.
    read: bool,
    written: bool,
    /// Allocations that lanes do not write.
    read_only: Set<AllocId>,
    /// Formats whose codes the machine converts itself.
    pub code_casts: &'static [Scalar],
    /// The machine computes with two 16-bit floats of a word at once, and permutes bytes of words.
    pub packed_halves: bool,
    /// What only one arm of a choice needs moves into it, outside of roles, too.
    pub into_arms: bool,
    /// An assembler orders anew what stands between two branches.
    pub orders_anew: bool,
    /// How values came about of which two may be computed at once.
    pairs: origins::Pairs,
    /// Bits that are known to be clear.
    bits: clear::Bits,
    /// Optional operations that the machine has, with the types for which it does.
    pub functions: &'static [(UnOp, Scalar)],
    /// Float types of which the machine has quotients.
    pub quotients: &'static [Scalar],
    /// Extremes of `f32` that keep NaN are one instruction.
    pub extremes: bool,
    /// Global loads of roles move towards their uses, for the kernel writes nothing that it loads; the registers of a lane of a role that
    /// asks for none.
    pub sink_loads: Option<u32>,
    /// What memory accesses cost so far.
    pub meter: crate::traffic::Meter,
    /// The role that is being filled.
    role: Option<Filled>,
    /// Bytes from one replica's part of an allocation to the next, if each has its own.
    parts: SecondaryMap<AllocId, u32>,
    /// Roles that allocations were made in.
    owners: SecondaryMap<AllocId, Option<Owner>>,
    /// The place of the tile op that is being lowered.
    pub origin: Loc,
    /// What acts, with its place, if somebody wants to know.
    pub origins: Option<Vec<(Inst, Loc)>>,
}

impl LaneBuilder {
    /// Starts a program for `warps` warps of `lanes` lanes.
    pub fn new(name: &str, warps: u32, lanes: u32) -> LaneBuilder {
        LaneBuilder {
            program: Program {
                name: name.to_owned(),
                params: Vec::new(),
                warps,
                lanes,
                cluster: 1,
                positions: [1; 3],
                allocs: PrimaryMap::new(),
                shared_bytes: 0,
                vals: PrimaryMap::with_capacity(VALUES),
                body: Block::new(),
            },
            frames: vec![BuildFrame { block: Block::with_capacity(BLOCK), ..BuildFrame::default() }],
            facts: PrimaryMap::with_capacity(VALUES),
            made: Equals::new(),
            lives: SecondaryMap::new(),
            clock: 0,
            next_frame: 1,
            budget: Budget::new(INSTRUCTIONS),
            read: false,
            written: false,
            read_only: Set::default(),
            code_casts: &[],
            packed_halves: false,
            into_arms: false,
            orders_anew: false,
            pairs: origins::Pairs::default(),
            bits: clear::Bits::default(),
            functions: &[],
            quotients: &[],
            extremes: false,
            sink_loads: None,
            meter: Default::default(),
            role: None,
            parts: SecondaryMap::new(),
            owners: SecondaryMap::new(),
            origin: Loc::default(),
            origins: None,
        }
    }

    /// The type of a value.
    #[inline]
    pub fn ty(&self, v: LVal) -> LTy {
        self.facts[v].ty
    }

    /// Warps of the program.
    pub fn warps(&self) -> u32 {
        self.program.warps
    }

    /// The block that is being filled; what is made now may be used while it stays open.
    pub fn block(&self) -> u32 {
        self.frames.last().map_or(0, |f| f.id)
    }

    /// True while the block is being filled or encloses the one that is.
    pub fn is_open(&self, block: u32) -> bool {
        self.frames.iter().any(|f| f.id == block)
    }

    /// The constant a value is known to be.
    #[inline]
    pub fn as_const(&self, v: LVal) -> Option<u64> {
        if let Known::Const(c) = self.facts[v].known { Some(c) } else { None }
    }

    /// The instructions that the program would have by now, and how many it may have, if those are too many. It is to be thrown away then.
    pub fn exceeded(&self) -> Option<(u64, u64)> {
        self.budget.exceeded()
    }

    fn new_val(&mut self, ty: LTy, depth: u32) -> LVal {
        if self.budget.spent() {
            if let Some(v) = self.budget.spare(ty) {
                return v;
            }
            let v = self.program.vals.push(ty);
            self.facts.push(Fact { depth: 0, ty, known: Known::Nothing });
            self.budget.set_spare(ty, v);
            return v;
        }
        self.facts.push(Fact { depth, ty, known: Known::Nothing });
        self.program.vals.push(ty)
    }

    /// New values of the types of others.
    fn new_vals(&mut self, like: &[LVal], depth: u32) -> Vec<LVal> {
        if self.budget.spent() {
            return like.iter().map(|&v| self.new_val(self.ty(v), depth)).collect();
        }
        let made = |&v: &LVal| {
            let ty = self.facts[v].ty;
            self.facts.push(Fact { depth, ty, known: Known::Nothing });
            self.program.vals.push(ty)
        };
        like.iter().map(made).collect()
    }

    /// How many blocks enclose the value's definition; less means further out.
    pub fn depth(&self, v: LVal) -> u32 {
        self.facts[v].depth
    }

    fn here(&self) -> u32 {
        self.frames.len() as u32 - 1
    }

    /// The first result of an equal instruction that is in scope. If there is none, how many blocks enclose a new one, whose first result the next
    /// value is.
    fn equal(&mut self, key: Key, uses: &[LVal]) -> Result<LVal, u32> {
        let place = self.made.find(&key);
        if let KeyPlace::Made { first, frame, .. } = place
            && self.frames.get(self.facts[first].depth as usize).is_some_and(|f| f.id == frame)
        {
            self.budget.take_names(1);
            return Ok(first);
        }
        let depth = uses.iter().map(|&u| self.facts[u].depth).max().unwrap_or(0);
        // What a role computes stays in it: in front of the roles it would be held in registers that the others lack.
        let depth = match self.role {
            Some(role) if !uses.is_empty() => depth.max(role.depth),
            Some(_) | None => depth,
        };
        if !self.budget.spent() {
            self.made.note(place, key, LVal::new(self.program.vals.len()), self.frames[depth as usize].id);
        }
        Err(depth)
    }

    /// Puts a pure instruction into its block.
    fn place(&mut self, depth: u32, inst: Inst) {
        self.budget.take(&inst);
        if !self.budget.spent() {
            self.frames[depth as usize].block.push(inst);
        }
    }

    /// The result of a pure instruction of at most four operands, or of one that is equal.
    fn pure(&mut self, what: What, ty: LTy, uses: &[LVal], make: impl FnOnce(LVal) -> Inst) -> LVal {
        self.pure_by(Key::of(what, uses), ty, uses, make)
    }

    fn pure_by(&mut self, key: Key, ty: LTy, uses: &[LVal], make: impl FnOnce(LVal) -> Inst) -> LVal {
        self.equal(key, uses).unwrap_or_else(|depth| {
            let dst = self.new_val(ty, depth);
            self.place(depth, make(dst));
            dst
        })
    }

    /// The results of a pure instruction, so many of a type, or of one that is equal: one behind the other.
    fn pure_all(&mut self, key: Key, (ty, many): (LTy, usize), uses: &[LVal], make: impl FnOnce(&[LVal]) -> Inst) -> Vals {
        let mut dsts = Vals::with_capacity(many);
        match self.equal(key, uses) {
            Ok(first) => (0..many).for_each(|n| dsts.push(LVal::new(first.index() + n))),
            Err(depth) => {
                (0..many).for_each(|_| dsts.push(self.new_val(ty, depth)));
                self.place(depth, make(&dsts));
            }
        }
        dsts
    }

    fn effect(&mut self, inst: Inst) {
        self.clock += 1;
        let at = self.here() as usize;
        if let Some(origins) = &mut self.origins
            && !self.budget.spent()
            && crate::visit::blocks(&inst).is_empty()
        {
            origins.push((inst.clone(), self.origin));
        }
        self.budget.take(&inst);
        if !self.budget.spent() {
            self.frames[at].block.push(inst);
        }
    }

    /// Notes what is known of a value.
    fn learn(&mut self, v: LVal, known: Known) {
        // Spare values stand for anything.
        if !self.budget.spent() {
            self.facts[v].known = known;
        }
    }

    /// A literal from its bits (integers sign-extended).
    pub fn constant(&mut self, ty: LTy, bits: u64) -> LVal {
        let v = self.pure_by(Key::numbered(What::Const(ty), bits), ty, &[], |dst| Inst::Const { dst, bits });
        self.learn(v, Known::Const(bits));
        v
    }

    /// An `i32` literal.
    pub fn i32(&mut self, x: i64) -> LVal {
        self.constant(LTy::I32, num::wrap(x, Scalar::I32) as u64)
    }

    /// An `i64` literal.
    pub fn i64(&mut self, x: i64) -> LVal {
        self.constant(LTy::I64, x as u64)
    }

    /// Appends a launch parameter and gives its value.
    pub fn param(&mut self, p: Param) -> LVal {
        let index = match self.program.params.iter().position(|q| *q == p) {
            Some(i) => i as u32,
            None => {
                self.program.params.push(p);
                self.program.params.len() as u32 - 1
            }
        };
        self.pure_by(Key::numbered(What::Row(Opcode::Param), index.into()), p.ty, &[], |dst| Inst::Param { dst, index })
    }

    /// Where the lane stands.
    pub fn special(&mut self, what: Special) -> LVal {
        match (what, self.role) {
            // Warps count from the role's first, so the number may not leave the role.
            (Special::Warp, Some(role)) if role.warps > 1 => return self.of_role(what, role),
            (Special::Replica, Some(role)) if role.replicas > 1 => return self.of_role(what, role),
            (Special::Warp | Special::Replica, Some(_)) => return self.i32(0),
            _ => {}
        }
        match what {
            Special::Warp if self.program.warps == 1 => self.i32(0),
            // There is one of what is no role.
            Special::Replica => self.i32(0),
            Special::Warp
            | Special::Lane
            | Special::ProgramId(_)
            | Special::NumPrograms(_)
            | Special::Worker
            | Special::Workers
            | Special::ClusterRank => self.pure(What::Special(what), LTy::I32, &[], |dst| Inst::Special { dst, what }),
        }
    }

    fn of_role(&mut self, what: Special, Filled { depth, frame, .. }: Filled) -> LVal {
        let key = Key::numbered(What::OfRole(what), frame.into());
        let place = self.made.find(&key);
        if let KeyPlace::Made { first, .. } = place {
            return first;
        }
        let dst = self.new_val(LTy::I32, depth);
        self.frames[depth as usize].block.push(Inst::Special { dst, what });
        self.made.note(place, key, dst, frame);
        dst
    }

    /// The program instance's position on a grid axis.
    pub fn program_id(&mut self, axis: GridAxis) -> LVal {
        self.special(Special::ProgramId(axis))
    }

    /// A one-operand operation.
    pub fn un(&mut self, op: UnOp, a: LVal) -> LVal {
        let ty = self.ty(a);
        if let (UnOp::Not, LTy::I1, Some(c)) = (op, ty, self.as_const(a)) {
            return self.constant(LTy::I1, c ^ 1);
        }
        let v = self.pure(What::Un(op), ty, &[a], |dst| Inst::Un { dst, op, a });
        if matches!(op, UnOp::EncodeE4M3 | UnOp::EncodeE5M2) {
            self.learn(v, Known::Code(op, a));
        }
        v
    }

    /// A two-operand operation; integers are folded, bytes of a word are computed four at a time.
    pub fn bin(&mut self, op: BinOp, a: LVal, b: LVal) -> LVal {
        let ty = self.ty(a);
        if let Some(v) = self.bytes_of_word(op, a, b) {
            return v;
        }
        if let LTy::Num(s) = ty
            && !s.is_float()
            && let Some(v) = self.fold_int(op, s, a, b)
        {
            return v;
        }
        let v = self.pure(What::Bin(op), ty, &[a, b], |dst| Inst::Bin { dst, op, a, b });
        self.learn_bits(v, op, a, b);
        if self.packed_halves && matches!(ty, LTy::Num(Scalar::F16 | Scalar::BF16)) {
            self.pairs.computed(v, op, a, b);
        }
        if op == BinOp::Add
            && let Some(c) = self.as_const(b)
        {
            self.learn(v, Known::AddConst(a, c as i64));
        }
        v
    }

    fn fold_int(&mut self, op: BinOp, s: Scalar, a: LVal, b: LVal) -> Option<LVal> {
        let ty = LTy::Num(s);
        let (ca, cb) = (self.as_const(a).map(|c| c as i64), self.as_const(b).map(|c| c as i64));
        if let (Some(x), Some(y)) = (ca, cb)
            && let Some(r) = eval_int(op, s, x, y)
        {
            return Some(self.constant(ty, r as u64));
        }
        let ones = num::wrap(-1, s);
        match (op, ca, cb) {
            (BinOp::Add | BinOp::Or | BinOp::Xor, Some(0), _) => Some(b),
            (BinOp::Add | BinOp::Sub | BinOp::Or | BinOp::Xor | BinOp::Shl | BinOp::ShrS | BinOp::ShrU, _, Some(0)) => Some(a),
            (BinOp::Mul, Some(1), _) => Some(b),
            (BinOp::Mul | BinOp::Div, _, Some(1)) => Some(a),
            (BinOp::Mul | BinOp::And, Some(0), _) => Some(a),
            (BinOp::Mul | BinOp::And, _, Some(0)) => Some(b),
            (BinOp::And, Some(x), _) if x == ones => Some(b),
            (BinOp::And, _, Some(y)) if y == ones || self.keeps_all(a, y as u32) => Some(a),
            (BinOp::Add | BinOp::Mul, Some(_), None) => Some(self.bin(op, b, a)),
            (BinOp::Sub, _, Some(y)) => {
                let c = self.constant(ty, num::wrap(y.wrapping_neg(), s) as u64);
                Some(self.bin(BinOp::Add, a, c))
            }
            (BinOp::Add, None, None) => self.constants_last(a, b).or_else(|| self.constants_last(b, a)),
            (BinOp::Add, _, Some(y)) => match self.facts[a].known {
                Known::AddConst(x, c) => {
                    let c = self.constant(ty, num::wrap(c.wrapping_add(y), s) as u64);
                    Some(self.bin(BinOp::Add, x, c))
                }
                Known::Nothing
                | Known::Const(_)
                | Known::Part(..)
                | Known::Cast(_)
                | Known::Rounded(_)
                | Known::Code(..)
                | Known::Half(..) => None,
            },
            _ => None,
        }
    }

    /// `x + c + b` as `x + b + c`, where `x + c` is made outside of a block in which `b` is: `x + b` is one value for all constants, where each `x + c` would be
    /// held as long as the block runs.
    fn constants_last(&mut self, a: LVal, b: LVal) -> Option<LVal> {
        // In tasks, registers are shared out among roles.
        let (Known::AddConst(x, c), None) = (self.facts[a].known, self.role) else { return None };
        (self.depth(b) > self.depth(a)).then(|| {
            let sum = self.bin(BinOp::Add, x, b);
            self.add_const(sum, c)
        })
    }

    /// `a + b`.
    pub fn add(&mut self, a: LVal, b: LVal) -> LVal {
        self.bin(BinOp::Add, a, b)
    }

    /// `a * b`.
    pub fn mul(&mut self, a: LVal, b: LVal) -> LVal {
        self.bin(BinOp::Mul, a, b)
    }

    /// `a + c`, for `i32` and `i64`.
    pub fn add_const(&mut self, a: LVal, c: i64) -> LVal {
        let ty = self.ty(a);
        let s = if let LTy::Num(s) = ty { s } else { Scalar::I32 };
        let c = self.constant(ty, num::wrap(c, s) as u64);
        self.add(a, c)
    }

    /// `a & b` on `i1`, where `None` means true.
    pub fn and_guard(&mut self, a: Option<LVal>, b: Option<LVal>) -> Option<LVal> {
        match (a, b) {
            (Some(a), Some(b)) => {
                // A deeper operand goes last, so that the invariant part of a chain is shared and hoisted.
                let (a, b) = if self.depth(a) > self.depth(b) { (b, a) } else { (a, b) };
                Some(self.bin(BinOp::And, a, b))
            }
            (a, b) => a.or(b),
        }
    }

    /// `a * b + c` with one rounding.
    pub fn fma(&mut self, a: LVal, b: LVal, c: LVal) -> LVal {
        let ty = self.ty(a);
        self.pure(What::Row(Opcode::Fma), ty, &[a, b, c], |dst| Inst::Fma { dst, a, b, c })
    }

    /// `i64` sum of `c` and the product of two `i32`.
    pub fn mad_wide(&mut self, a: LVal, b: LVal, c: LVal) -> LVal {
        if let (Some(x), Some(y)) = (self.as_const(a), self.as_const(b)) {
            return self.add_const(c, (x as i64).wrapping_mul(y as i64));
        }
        if self.as_const(b) == Some(0) {
            return c;
        }
        self.pure(What::Row(Opcode::MadWide), LTy::I64, &[a, b, c], |dst| Inst::MadWide { dst, a, b, c })
    }

    /// `i64` sum of `c` and the product of two `i32`, read unsigned.
    pub fn mad_wide_u(&mut self, a: LVal, b: LVal, c: LVal) -> LVal {
        self.pure(What::Row(Opcode::MadWideU), LTy::I64, &[a, b, c], |dst| Inst::MadWideU { dst, a, b, c })
    }

    /// The upper 32 bits of `high` and `low`, shifted left by `by` modulo 32.
    pub fn funnel(&mut self, high: LVal, low: LVal, by: LVal) -> LVal {
        self.pure(What::Row(Opcode::Funnel), LTy::I32, &[high, low, by], |dst| Inst::Funnel { dst, high, low, by })
    }

    /// A comparison.
    pub fn cmp(&mut self, op: CmpOp, a: LVal, b: LVal) -> LVal {
        if let (LTy::Num(s), Some(x), Some(y)) = (self.ty(a), self.as_const(a), self.as_const(b))
            && !s.is_float()
        {
            let r = eval_cmp(op, s, x as i64, y as i64);
            return self.constant(LTy::I1, u64::from(r));
        }
        self.pure(What::Cmp(op), LTy::I1, &[a, b], |dst| Inst::Cmp { dst, op, a, b })
    }

    /// `c ? a : b`.
    pub fn select(&mut self, c: LVal, a: LVal, b: LVal) -> LVal {
        match self.as_const(c) {
            Some(0) => return b,
            Some(_) => return a,
            None if a == b => return a,
            None => {}
        }
        let ty = self.ty(a);
        self.pure(What::Row(Opcode::Select), ty, &[c, a, b], |dst| Inst::Select { dst, c, a, b })
    }

    /// Conversion by value.
    pub fn cvt(&mut self, a: LVal, to: LTy) -> LVal {
        if self.ty(a) == to {
            return a;
        }
        if let (LTy::Num(f), LTy::Num(t), Some(c)) = (self.ty(a), to, self.as_const(a))
            && f.is_int()
            && t.is_int()
        {
            return self.constant(to, num::wrap(c as i64, t) as u64);
        }
        if let (LTy::Num(Scalar::I8), LTy::I32) = (self.ty(a), to)
            && let Some(v) = self.unsigned_byte(a)
        {
            return v;
        }
        if let (LTy::Num(Scalar::I8), LTy::F32) = (self.ty(a), to)
            && let Some(v) = self.single_of_byte(a)
        {
            return v;
        }
        if matches!(to, LTy::Num(Scalar::F16 | Scalar::BF16))
            && let Some(single) = self.exact_single(a)
        {
            return self.cvt(single, to);
        }
        if let (Known::Rounded(x), LTy::Num(Scalar::BF16), LTy::F32) = (self.facts[a].known, self.ty(a), to) {
            return self.un(UnOp::RoundBf16, x);
        }
        let v = self.pure(What::Cvt(to), to, &[a], |dst| Inst::Cvt { dst, a });
        if matches!((self.ty(a), to), (LTy::F32, LTy::Num(Scalar::F16 | Scalar::BF16))) {
            self.learn(v, Known::Rounded(a));
        }
        if let (known @ Known::Code(..), LTy::Num(Scalar::I8)) = (self.facts[a].known, to) {
            self.learn(v, known);
        }
        v
    }

    /// Quotients of `f32`, in lanes that run together; see [`Inst::Divide`].
    pub fn divide(&mut self, pairs: &[(LVal, LVal)]) -> Vals {
        let (a, b): (Vec<LVal>, Vec<LVal>) = pairs.iter().copied().unzip();
        let all = [&a[..], &b[..]].concat();
        let (a, b) = (Vals::from_vec(a), Vals::from_vec(b));
        let key = self.made.listed(What::Row(Opcode::Divide), Vals::from_slice(&all));
        self.pure_all(key, (LTy::F32, pairs.len()), &all, |d| Inst::Divide { dsts: Vals::from_slice(d), a, b })
    }

    /// Rounds an `f32` to tf32.
    pub fn round_tf32(&mut self, a: LVal) -> LVal {
        self.pure(What::Row(Opcode::RoundTf32), LTy::F32, &[a], |dst| Inst::RoundTf32 { dst, a })
    }

    /// The same bits under another type of that width.
    pub fn bitcast(&mut self, a: LVal, to: LTy) -> LVal {
        if self.ty(a) == to {
            return a;
        }
        if let Known::Cast(x) = self.facts[a].known
            && self.ty(x) == to
        {
            return x;
        }
        let v = self.pure(What::Bitcast(to), to, &[a], |dst| Inst::Bitcast { dst, a });
        self.learn(v, Known::Cast(a));
        v
    }

    /// A value as another one plus a constant; without the other one it is the constant.
    pub fn base_and_offset(&self, v: LVal) -> (Option<LVal>, i64) {
        match self.facts[v].known {
            Known::Const(c) => (None, c as i64),
            Known::AddConst(base, c) => (Some(base), c),
            Known::Nothing | Known::Part(..) | Known::Cast(_) | Known::Rounded(_) | Known::Code(..) | Known::Half(..) => (Some(v), 0),
        }
    }

    /// Says that a byte holds, sign-extended, the 4 bits from bit `at` on of an `i32`.
    pub fn note_half(&mut self, v: LVal, word: LVal, at: u32) {
        if self.facts[v].known == Known::Nothing {
            self.learn(v, Known::Half(word, at));
        }
    }

    /// What [`LaneBuilder::note_half`] said of a byte.
    pub fn half_of_word(&self, v: LVal) -> Option<(LVal, u32)> {
        if let Known::Half(word, at) = self.facts[v].known { Some((word, at)) } else { None }
    }

    fn results(&mut self, tys: &[LTy]) -> Vals {
        let depth = self.here();
        let mut made = Vals::with_capacity(tys.len());
        tys.iter().for_each(|&t| made.push(self.new_val(t, depth)));
        made
    }

    /// The result of an instruction that does more than compute.
    fn result(&mut self, ty: LTy) -> LVal {
        self.new_val(ty, self.here())
    }

    /// Stops the launch in a lane where the condition does not hold.
    pub fn assert(&mut self, condition: LVal) {
        self.effect(Inst::Assert { condition });
    }

    /// The value another lane holds; any type up to 64 bits.
    pub fn shuffle(&mut self, a: LVal, from: ShuffleFrom) -> LVal {
        let ty = self.ty(a);
        match ty {
            LTy::B32 | LTy::Num(Scalar::I32 | Scalar::F32) => {
                let dst = self.result(ty);
                self.effect(Inst::Shuffle { dst, a, from });
                dst
            }
            LTy::Num(Scalar::I64 | Scalar::F64) => {
                let wide = self.bitcast(a, LTy::I64);
                let shift = self.i64(32);
                let high = self.bin(BinOp::ShrU, wide, shift);
                let halves = [wide, high].map(|h| {
                    let h = self.cvt(h, LTy::I32);
                    let h = self.shuffle(h, from);
                    self.cvt(h, LTy::I64)
                });
                let mask = self.i64(0xffff_ffff);
                let low = self.bin(BinOp::And, halves[0], mask);
                let high = self.bin(BinOp::Shl, halves[1], shift);
                let wide = self.bin(BinOp::Or, low, high);
                self.bitcast(wide, ty)
            }
            LTy::Num(Scalar::F16 | Scalar::BF16 | Scalar::I16) => {
                let word = self.pack(&[a, a]);
                let word = self.shuffle(word, from);
                self.unpack(word, ty)[0]
            }
            LTy::Num(
                Scalar::I8
                | Scalar::I4
                | Scalar::F8E4M3
                | Scalar::F8E5M2
                | Scalar::F8E4M3Fnuz
                | Scalar::F8E5M2Fnuz
                | Scalar::F8E8M0
                | Scalar::F4E2M1,
            ) => {
                let wide = self.cvt(a, LTy::I32);
                let wide = self.shuffle(wide, from);
                self.cvt(wide, ty)
            }
            LTy::Num(Scalar::I1) => {
                let (one, zero) = (self.i32(1), self.i32(0));
                let wide = self.select(a, one, zero);
                let wide = self.shuffle(wide, from);
                self.cmp(CmpOp::Ne, wide, zero)
            }
        }
    }

    /// The least or the greatest (`op`) of the words that the lanes of the warp hold.
    pub fn redux(&mut self, op: BinOp, a: LVal) -> LVal {
        let dst = self.result(LTy::I32);
        self.effect(Inst::Redux { dst, op, a });
        dst
    }

    /// A matrix instruction.
    pub fn matrix(&mut self, instr: MatrixId, a: Vals, b: Vals, c: Vals) -> Vals {
        self.matrix_scaled(instr, [a, b], c, Vals::new())
    }

    /// A matrix instruction that takes scales: a word for A, and one for B.
    pub fn matrix_scaled(&mut self, instr: MatrixId, [a, b]: [Vals; 2], c: Vals, scales: Vals) -> Vals {
        let depth = self.here();
        let mut dsts = Vals::with_capacity(c.len());
        c.iter().for_each(|&v| dsts.push(self.new_val(self.ty(v), depth)));
        self.effect(Inst::Matrix(Box::new(MatrixProduct { dsts: dsts.clone(), instr, a, b, c, scales })));
        dsts
    }
}
