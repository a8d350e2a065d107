//! The state of the walk: registers of values, what is loaded once in front of the program, what is derived from values.

use super::text::{Opnd, Reg, Text};
use crate::analysis::{Address, Base, Def, Defs, Renewals, Webs};
use crate::class::{Class, memory_type};
use cranelift_entity::SecondaryMap;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::{CacheHint, GridAxis};
use tilelift_isel::Target;
use tilelift_isel::lane::hash::Set;
use tilelift_isel::lane::{LTy, LVal, Param, ParamSource, Program, Special};

/// The suffix that a cache hint adds to a global access.
pub(super) fn hint(cache: CacheHint) -> &'static str {
    match cache {
        CacheHint::Normal => "",
        CacheHint::Streaming => ".cs",
        CacheHint::EvictFirst => ".L1::evict_first",
        CacheHint::EvictLast => ".L1::evict_last",
        CacheHint::Bypass => ".L1::no_allocate",
    }
}

/// What is loaded once in front of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub(super) enum Top {
    Const(Class, u64),
    Param(u32),
    Thread,
    Lane,
    Warp,
    /// The warp, the same register in all its lanes by construction.
    UniformWarp,
    /// A tensor's description.
    Tensor(u32),
    ClusterRank,
    Program(u32),
    Programs(u32),
    /// The start of shared memory plus an offset.
    Shared(u32),
    /// Zero, as the assembler can't know.
    Zero,
    /// A constant that the assembler does not know to be one.
    Kept(u32),
}

/// What printing a role needs.
#[derive(Clone, Copy)]
pub(super) struct RoleText {
    pub(super) warps: u32,
    /// One lane runs it.
    pub(super) single: bool,
    /// The role's warp, where the role does not begin at 0.
    pub(super) warp: Option<Reg>,
    /// Id of the role's barrier; those of its groups follow, and those of further replicas behind them.
    pub(super) barrier: u32,
    /// Which replica a warp belongs to, if there are several.
    pub(super) replicas: Option<Replicas>,
    /// Where its groups take turns.
    pub(super) turns: Option<Turns>,
}

/// Turns of a role's warpgroups: numbers in registers.
#[derive(Clone, Copy)]
pub(super) struct Turns {
    /// The lane's group.
    pub(super) group: Reg,
    /// The group's barrier.
    pub(super) own: Reg,
    /// The next group's.
    pub(super) next: Reg,
    /// A predicate that is false, which the assembler can't know.
    pub(super) never: Reg,
    /// Where the role ends.
    pub(super) end: u32,
}

/// Replicas of a role that run one text.
#[derive(Clone, Copy)]
pub(super) struct Replicas {
    /// How many.
    pub(super) count: u32,
    /// Warps from one to the next.
    pub(super) stride: u32,
    /// Ids of barriers of each.
    pub(super) barriers: u32,
    /// The number of a warp's own.
    pub(super) own: Reg,
    /// A warp's number among all of them.
    pub(super) warp: Reg,
}

/// The state of the walk.
pub(super) struct Emitter<'a> {
    pub(super) program: &'a Program,
    pub(super) target: &'a Target,
    /// Sums that begin at nothing are given a number.
    pub(super) begins_sums: bool,
    /// Values that are given no number.
    pub(super) undefined: Set<LVal>,
    pub(super) defs: &'a Defs<'a>,
    pub(super) webs: &'a Webs,
    pub(super) renewals: &'a Renewals,
    /// Lines in front of the program.
    pub(super) top: Text,
    /// The program.
    pub(super) body: Text,
    /// Parts of the program that are jumped to and hardly ever run; they stand behind it.
    pub(super) rare: Text,
    /// Registers in use per class.
    pub(super) count: [u32; 6],
    /// A web's register, by its representative, once it has one.
    pub(super) registers: SecondaryMap<LVal, Option<Reg>>,
    pub(super) loaded: BTreeMap<Top, Reg>,
    pub(super) labels: u32,
    /// Serial numbers of the open blocks, and the next one.
    pub(super) open: Vec<u32>,
    pub(super) blocks: u32,
    /// Registers derived from a value, with the block that computed them: sizes of guarded copies, words of tf32 operands.
    pub(super) derived: BTreeMap<(LVal, u32), (Reg, u32)>,
    /// The version has eviction priorities.
    pub(super) eviction: bool,
    /// What loads of a few bytes bring whose line is fetched as a whole.
    pub(super) lines: BTreeSet<LVal>,
    /// The role that is being printed.
    pub(super) role: Option<RoleText>,
    /// The first barrier behind those of the program and its roles.
    pub(super) named: u32,
    /// Registers per lane at the start, where roles change theirs.
    pub(super) entry: u32,
    /// Shared memory of other blocks is loaded or stored.
    pub(super) reaches: bool,
    /// Barriers between blocks hand over what lanes wrote.
    pub(super) handed_over: bool,
    /// Products may be in flight behind what is printed so far.
    pub(super) multiplies: bool,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(program: &'a Program, target: &'a Target, defs: &'a Defs<'a>, webs: &'a Webs, renewals: &'a Renewals) -> Emitter<'a> {
        Emitter {
            program,
            target,
            begins_sums: false,
            undefined: Set::default(),
            defs,
            webs,
            renewals,
            top: Text::default(),
            body: Text::with_capacity(program.vals.len() * 20),
            rare: Text::default(),
            count: [0; 6],
            registers: {
                let mut none = SecondaryMap::new();
                none.resize(program.vals.len());
                none
            },
            loaded: BTreeMap::new(),
            labels: 0,
            open: Vec::new(),
            blocks: 0,
            derived: BTreeMap::new(),
            eviction: false,
            lines: BTreeSet::new(),
            role: None,
            named: 1,
            entry: 0,
            reaches: false,
            handed_over: false,
            multiplies: false,
        }
    }

    /// The suffix of a global access with a cache hint.
    pub(super) fn hint(&self, cache: CacheHint) -> &'static str {
        if self.eviction || cache == CacheHint::Streaming { hint(cache) } else { "" }
    }

    /// A fresh register.
    pub(super) fn fresh(&mut self, class: Class) -> Reg {
        let n = &mut self.count[class as usize];
        *n += 1;
        (class, *n)
    }

    /// The register of a value that an instruction makes.
    #[inline]
    pub(super) fn home(&mut self, v: LVal) -> Reg {
        let r = self.webs.representative(v);
        match self.registers[r] {
            Some(known) => known,
            None => self.first_home(v, r),
        }
    }

    /// The register of a value that an instruction makes, or that is another name of one, if it has one yet.
    pub(super) fn known_home(&self, v: LVal) -> Option<Reg> {
        self.registers[self.webs.representative(self.defs.root(v))]
    }

    fn first_home(&mut self, v: LVal, representative: LVal) -> Reg {
        let new = self.fresh(self.defs.class(v));
        self.registers[representative] = Some(new);
        new
    }

    /// A value as an operand: an immediate if it is constant.
    pub(super) fn operand(&mut self, v: LVal) -> Opnd {
        match self.defs.own_def(v) {
            Def::Const(bits) => Opnd::Imm(self.defs.class(v), bits),
            Def::Param(i) => Opnd::Reg(self.load(Top::Param(i))),
            Def::Special(what) => self.special(what),
            Def::Shared(s) => Opnd::Reg(self.load(Top::Shared(self.program.allocs[s].offset))),
            Def::Register | Def::AddConst(..) | Def::Bits(_) => Opnd::Reg(self.home(v)),
            // What is behind other names is none itself.
            Def::Same(v) => self.operand(v),
        }
    }

    /// A value in a register.
    pub(super) fn reg(&mut self, v: LVal) -> Reg {
        match self.operand(v) {
            Opnd::Reg(r) => r,
            Opnd::Imm(class, bits) => self.load(Top::Const(class, bits)),
        }
    }

    fn special(&mut self, what: Special) -> Opnd {
        const fn axis(a: GridAxis) -> u32 {
            match a {
                GridAxis::X => 0,
                GridAxis::Y => 1,
                GridAxis::Z => 2,
            }
        }
        match what {
            Special::Warp if self.role.is_some() => self.role_warp(),
            Special::Warp if self.program.roles().is_some() => Opnd::Reg(self.load(Top::UniformWarp)),
            Special::Warp if self.program.warps == 1 => Opnd::Imm(Class::R, 0),
            Special::Lane if self.program.warps == 1 => Opnd::Reg(self.load(Top::Thread)),
            Special::Lane => Opnd::Reg(self.load(Top::Lane)),
            Special::Warp => Opnd::Reg(self.load(Top::Warp)),
            Special::ProgramId(a) => Opnd::Reg(self.load(Top::Program(axis(a)))),
            Special::NumPrograms(a) => Opnd::Reg(self.load(Top::Programs(axis(a)))),
            Special::Worker => Opnd::Reg(self.load(Top::Program(0))),
            Special::Workers => Opnd::Reg(self.load(Top::Programs(0))),
            Special::ClusterRank => Opnd::Reg(self.load(Top::ClusterRank)),
            Special::Replica => self.role.and_then(|r| r.replicas).map_or(Opnd::Imm(Class::R, 0), |r| Opnd::Reg(r.own)),
        }
    }

    /// The register of something loaded in front of the program.
    pub(super) fn load(&mut self, what: Top) -> Reg {
        if let Some(&r) = self.loaded.get(&what) {
            return r;
        }
        let r = match what {
            Top::Const(class, bits) => {
                let r = self.fresh(class);
                if class == Class::P {
                    self.top.op("setp.ne.b32 ").r(r).s(", ").o(Opnd::Imm(class, bits)).s(", 0").end();
                } else {
                    self.top.op(class.mov()).r(r).s(", ").o(Opnd::Imm(class, bits)).end();
                }
                r
            }
            Top::Param(i) => self.load_param(i),
            Top::Thread => self.load_special("%tid", 0),
            Top::ClusterRank => {
                let r = self.fresh(Class::R);
                self.top.op("mov.u32 ").r(r).s(", %cluster_ctarank").end();
                r
            }
            Top::Program(axis) => self.load_special("%ctaid", axis),
            Top::Programs(axis) => self.load_special("%nctaid", axis),
            Top::Lane | Top::Warp => {
                let thread = self.load(Top::Thread);
                let r = self.fresh(Class::R);
                // Warps are rows of 32 threads; the hardware's own warp number may change while a program runs.
                let (op, n) = if what == Top::Lane { ("and.b32 ", 31) } else { ("shr.u32 ", 5) };
                self.top.op(op).r(r).then(thread).s(", ").n(n).end();
                r
            }
            Top::UniformWarp => {
                let warp = self.load(Top::Warp);
                let r = self.fresh(Class::R);
                // Read from lane 0, the number is known to be the same in all lanes, and so is what is computed from it.
                self.top.op("shfl.sync.idx.b32 ").r(r).then(warp).s(", 0, 31, 0xFFFFFFFF").end();
                r
            }
            Top::Tensor(i) => {
                let r = self.fresh(Class::D);
                self.top.op("mov.b64 ").r(r).s(", p").n(i).end();
                // Without this, the parameter's offset would be taken for an address.
                self.top.op("cvta.param.u64 ").r(r).then(r).end();
                r
            }
            Top::Shared(0) => {
                let r = self.fresh(Class::R);
                self.top.op("mov.u32 ").r(r).s(", smem").end();
                r
            }
            Top::Shared(offset) => {
                let start = self.load(Top::Shared(0));
                let r = self.fresh(Class::R);
                self.top.op("add.s32 ").r(r).then(start).s(", ").n(offset).end();
                r
            }
            Top::Zero => self.load_zero(),
            Top::Kept(bits) => {
                let (zero, r) = (self.load(Top::Zero), self.fresh(Class::R));
                self.top.op("xor.b32 ").r(r).then(zero).s(", ").n(bits).end();
                r
            }
        };
        self.loaded.insert(what, r);
        r
    }

    /// A zero that the assembler can't see through: the sign of what is never negative.
    fn load_zero(&mut self) -> Reg {
        let params = &self.program.params;
        let whole = |p: &Param| matches!(p.source, ParamSource::Extent(..) | ParamSource::Grid(_)) && p.ty == LTy::I32;
        let r = self.fresh(Class::R);
        if let Some(i) = params.iter().position(whole) {
            let extent = self.load(Top::Param(i as u32));
            self.top.op("shr.u32 ").r(r).then(extent).s(", 31").end();
        } else if let Some(i) = params.iter().position(|p| matches!(p.source, ParamSource::Pointer(_))) {
            let (pointer, sign) = (self.load(Top::Param(i as u32)), self.fresh(Class::D));
            self.top.op("shr.u64 ").r(sign).then(pointer).s(", 63").end();
            self.top.op("cvt.u32.u64 ").r(r).then(sign).end();
        } else {
            // There is no lane both before and behind another one.
            let behind = self.fresh(Class::R);
            self.top.op("mov.u32 ").r(r).s(", %lanemask_lt").end();
            self.top.op("mov.u32 ").r(behind).s(", %lanemask_gt").end();
            self.top.op("and.b32 ").r(r).then(r).then(behind).end();
        }
        r
    }

    fn load_special(&mut self, name: &str, axis: u32) -> Reg {
        let r = self.fresh(Class::R);
        self.top.op("mov.u32 ").r(r).s(", ").s(name).s([".x", ".y", ".z"][axis as usize]).end();
        r
    }

    fn load_param(&mut self, index: u32) -> Reg {
        let param = self.program.params[index as usize];
        let r = self.fresh(Class::of(param.ty));
        let (ty, raw) = match param.ty {
            LTy::I1 => (".u8", self.fresh(Class::H)),
            LTy::Num(_) | LTy::B32 => (memory_type(param.ty), r),
        };
        self.top.op("ld.param").s(ty).s(" ").r(raw).s(", [p").n(index).s("]").end();
        if param.ty == LTy::I1 {
            self.top.op("setp.ne.s16 ").r(r).then(raw).s(", 0").end();
        }
        if matches!(param.source, ParamSource::Pointer(_)) {
            self.top.op("cvta.to.global.u64 ").r(r).then(r).end();
        }
        r
    }

    /// Prints `[base+offset]`.
    pub(super) fn address(&mut self, v: LVal, offset: i32) {
        let Address { base, offset } = self.defs.address(v, offset);
        let r = match base {
            Base::Value(v) => self.reg(v),
            Base::Shared => self.load(Top::Shared(0)),
        };
        self.body.s("[").r(r);
        if offset != 0 {
            // A negative offset reads `+-4`; the assembler knows no other form.
            self.body.s("+").n(offset);
        }
        self.body.s("]");
    }

    /// A register computed from a value once per block; `make` prints the computation.
    pub(super) fn derive(&mut self, v: LVal, what: u32, class: Class, make: impl FnOnce(&mut Self, Reg)) -> Reg {
        if let Some(&(r, block)) = self.derived.get(&(v, what))
            && self.open.binary_search(&block).is_ok()
        {
            return r;
        }
        let r = self.fresh(class);
        make(self, r);
        self.derived.insert((v, what), (r, self.open.last().copied().unwrap_or_default()));
        r
    }
}
