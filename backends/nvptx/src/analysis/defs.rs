//! What each value is, and which values the text needs in a register.
//!
//! Invariants: a value that is a constant, a parameter or a special register is available everywhere (the printer loads it in front
//! of the program); an addition of a constant that is read only by addresses is folded into their offsets and is not printed.

use super::visit::{self, Nest, Role, nest};
use crate::class::{Class, shares_bits};
use cranelift_entity::{EntityRef, SecondaryMap};
use tilelift_ir::Scalar;
use tilelift_isel::lane::visit::blocks;
use tilelift_isel::lane::{AllocId, BinOp, Block, Inst, LTy, LVal, Program, Special};

/// How a value comes about, as far as the printer cares.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Def {
    /// By an instruction, in a register of its own.
    #[default]
    Register,
    /// Literal bits.
    Const(u64),
    /// Another value plus a constant; `i32` or `i64`.
    AddConst(LVal, i64),
    /// Another value under another name.
    Same(LVal),
    /// The bits of another value that lives in another register class.
    Bits(LVal),
    /// A launch parameter.
    Param(u32),
    /// Where the lane stands.
    Special(Special),
    /// The address of shared memory.
    Shared(AllocId),
}

/// What an address starts from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Base {
    /// A value.
    Value(LVal),
    /// The start of shared memory.
    Shared,
}

/// A base and an offset in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    pub(crate) base: Base,
    pub(crate) offset: i32,
}

/// Facts about every value of a program.
pub(crate) struct Defs<'p> {
    program: &'p Program,
    /// Types of the values.
    types: &'p [LTy],
    /// The value behind other names for each.
    root: Vec<LVal>,
    def: SecondaryMap<LVal, Def>,
    /// Read as a value somewhere that is printed.
    needed: SecondaryMap<LVal, bool>,
    /// Read as an address somewhere that is printed.
    addressed: SecondaryMap<LVal, bool>,
    /// Of an instruction that only computes, by its first result: some result lives in a register of its own.
    made: Vec<bool>,
}

impl<'p> Defs<'p> {
    /// Collects the facts in two walks: forward for what values are, backward for what is needed.
    pub(crate) fn new(program: &'p Program) -> Defs<'p> {
        let n = program.vals.len();
        let mut this = Defs {
            program,
            types: program.vals.values().as_slice(),
            root: (0..n).map(LVal::new).collect(),
            def: SecondaryMap::new(),
            needed: SecondaryMap::new(),
            addressed: SecondaryMap::new(),
            made: vec![false; n],
        };
        this.def.resize(n);
        this.needed.resize(n);
        this.addressed.resize(n);
        this.forward(&program.body);
        this.backward(&program.body);
        this
    }

    /// The type of a value.
    #[inline]
    pub(crate) fn ty(&self, v: LVal) -> LTy {
        self.types[v.index()]
    }

    /// The class of a value's registers.
    #[inline]
    pub(crate) fn class(&self, v: LVal) -> Class {
        Class::of(self.ty(v))
    }

    /// The value behind other names for it.
    #[inline]
    pub(crate) fn root(&self, v: LVal) -> LVal {
        self.root[v.index()]
    }

    /// How a value comes about; never [`Def::Same`].
    #[inline]
    pub(crate) fn def(&self, v: LVal) -> Def {
        self.def[self.root(v)]
    }

    /// The same of a value itself: [`Def::Same`] for one that is another name.
    #[inline]
    pub(crate) fn own_def(&self, v: LVal) -> Def {
        self.def[v]
    }

    /// True if a value, behind other names for it, is one that an instruction makes: not a constant, nor anything else that is known in front of the program.
    #[inline]
    pub(crate) fn is_made(&self, v: LVal) -> bool {
        matches!(self.def[v], Def::Register | Def::AddConst(..) | Def::Bits(_))
    }

    /// One value is another under another name.
    fn same(&mut self, v: LVal, other: LVal) {
        let root = self.root(other);
        self.def[v] = Def::Same(root);
        self.root[v.index()] = root;
    }

    /// True if a value lives in a register of its own, by what is read so far.
    pub(crate) fn in_register(&self, v: LVal) -> bool {
        match self.def[v] {
            Def::Register | Def::Bits(_) => self.needed[v] || self.addressed[v],
            Def::AddConst(..) => self.needed[v],
            Def::Const(_) | Def::Same(_) | Def::Param(_) | Def::Special(_) | Def::Shared(_) => false,
        }
    }

    /// The value as a constant.
    pub(crate) fn constant(&self, v: LVal) -> Option<u64> {
        if let Def::Const(bits) = self.def(v) { Some(bits) } else { None }
    }

    /// The value that gives a matrix instruction its word: of an `f32` that is cast from a word, the word.
    pub(crate) fn word(&self, v: LVal) -> LVal {
        match self.def(v) {
            Def::Bits(a) if self.ty(v) == LTy::F32 => self.root(a),
            Def::Bits(_)
            | Def::Register
            | Def::Const(_)
            | Def::AddConst(..)
            | Def::Same(_)
            | Def::Param(_)
            | Def::Special(_)
            | Def::Shared(_) => self.root(v),
        }
    }

    /// True if an instruction must be printed.
    pub(crate) fn printed(&self, inst: &Inst) -> bool {
        !visit::is_pure(inst) || inst.results().first().is_some_and(|d| self.made[d.index()])
    }

    /// The address `v + offset` with additions of constants folded.
    pub(crate) fn address(&self, v: LVal, offset: i32) -> Address {
        let mut at = Address { base: Base::Value(self.root(v)), offset };
        if !visit::folds(offset) {
            return at;
        }
        while let Base::Value(v) = at.base {
            let (base, more) = match self.def[v] {
                Def::AddConst(a, c) if !self.needed[v] => (Base::Value(self.root(a)), c),
                Def::Shared(s) => (Base::Shared, i64::from(self.program.allocs[s].offset)),
                Def::AddConst(..) | Def::Register | Def::Const(_) | Def::Same(_) | Def::Bits(_) | Def::Param(_) | Def::Special(_) => break,
            };
            // Chains and the instructions' own offsets are kept small by `folds`, so the sum fits.
            at = Address { base, offset: at.offset.wrapping_add(more as i32) };
        }
        at
    }

    fn forward(&mut self, block: &Block) {
        for inst in block {
            match inst {
                Inst::Const { dst, bits } => self.def[*dst] = Def::Const(*bits),
                Inst::Param { dst, index } => self.def[*dst] = Def::Param(*index),
                Inst::Special { dst, what } => self.def[*dst] = Def::Special(*what),
                Inst::SharedAddr { dst, alloc } => self.def[*dst] = Def::Shared(*alloc),
                Inst::Bin { dst, op: BinOp::Add, a, b } => self.addition(*dst, *a, *b),
                Inst::Bitcast { dst, a } => {
                    let (from, to) = (self.ty(*a), self.ty(*dst));
                    if shares_bits(from, to) {
                        self.same(*dst, *a);
                    } else {
                        self.def[*dst] = Def::Bits(*a);
                    }
                }
                Inst::Cvt { dst, a } => {
                    let (from, to) = (self.ty(*a), self.ty(*dst));
                    // An `i8` is kept sign-extended, so it already is the `i16`.
                    if from == to || (from, to) == (LTy::Num(Scalar::I8), LTy::Num(Scalar::I16)) {
                        self.same(*dst, *a);
                    }
                }
                other => blocks(other).for_each(|b| self.forward(b)),
            }
        }
    }

    fn addition(&mut self, dst: LVal, a: LVal, b: LVal) {
        if !matches!(self.ty(dst), LTy::I32 | LTy::I64) {
            return;
        }
        let (a, b) = if self.constant(a).is_some() { (b, a) } else { (a, b) };
        if let Some(c) = self.constant(b)
            && self.constant(a).is_none()
            && self.folds(a, c as i64)
        {
            self.def[dst] = Def::AddConst(a, c as i64);
        }
    }

    /// True if the offsets of a chain of additions stay small, so that an address and the instruction's own offset fit 32 bits.
    fn folds(&self, mut v: LVal, mut sum: i64) -> bool {
        loop {
            if !i32::try_from(sum).is_ok_and(visit::folds) {
                return false;
            }
            match self.def(v) {
                Def::AddConst(a, c) => (v, sum) = (a, sum.saturating_add(c)),
                Def::Register | Def::Const(_) | Def::Same(_) | Def::Bits(_) | Def::Param(_) | Def::Special(_) | Def::Shared(_) => {
                    return true;
                }
            }
        }
    }

    fn need(&mut self, v: LVal) {
        let v = self.root(v);
        self.needed[v] = true;
    }

    fn backward(&mut self, block: &Block) {
        for inst in block.iter().rev() {
            match nest(inst) {
                Nest::For(l) => {
                    l.carried.iter().for_each(|c| self.need(c.next));
                    self.backward(&l.body);
                }
                Nest::While(l) => {
                    l.carried.iter().for_each(|c| self.need(c.next));
                    self.backward(&l.body);
                    self.need(l.condition);
                    self.backward(&l.test);
                }
                Nest::If(i) => {
                    i.results.iter().for_each(|&(_, a, b)| {
                        self.need(a);
                        self.need(b);
                    });
                    self.backward(&i.otherwise);
                    self.backward(&i.then);
                }
                Nest::Roles(r) => r.roles.iter().rev().for_each(|r| self.backward(&r.body)),
                Nest::Matrix { .. } | Nest::Plain => {}
            }
            if let Inst::Bin { dst, .. } = inst
                && let Def::AddConst(a, _) = self.def[*dst]
            {
                // A printed addition reads its operand; a folded one hands the address on.
                let a = self.root(a);
                if self.needed[*dst] {
                    self.needed[a] = true;
                    self.made[dst.index()] = true;
                } else if self.addressed[*dst] {
                    self.addressed[a] = true;
                }
                continue;
            }
            if visit::is_pure(inst) {
                // Who reads a value stands behind it, or is what a loop around it goes on with, which has been seen.
                let made = inst.results().iter().any(|&d| self.in_register(d));
                inst.results().first().into_iter().for_each(|d| self.made[d.index()] = made);
                if !made {
                    continue;
                }
            }
            visit::operands(inst, |v, role| match role {
                Role::Value => self.need(v),
                Role::Address => {
                    let v = self.root(v);
                    self.addressed[v] = true;
                }
                Role::Word => {
                    let v = self.word(v);
                    self.needed[v] = true;
                }
            });
        }
    }
}
