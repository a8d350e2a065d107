//! Which values share registers, and which are parts of one tuple: what is loaded, stored, multiplied or summed together stands in consecutive
//! registers from the start, and what a loop carries stays where it is.
//!
//! ```text
//! tie(a, b, d)      b begins d words behind a in one tuple         union-find with distances
//! refused if        a word would hold two values that are alive at once, the tuple is longer than 32 words, or 64-bit parts lose their alignment
//! ```
//!
//! A refused tie costs copies and nothing else: whoever needs a tuple and does not find one puts it together.

use super::live::{Live, Step, words_of};
use super::packs::Packs;
use super::pairs::pair;
use super::role::Role;
use super::tuple::Tuple;
use super::uniform::{RegisterClass, Uniform};
use cranelift_entity::{PrimaryMap, SecondaryMap, entity_impl};
use rustc_hash::{FxHashMap, FxHashSet};
use tilelift_lane::{Block, Carried, Control, If, LVal, Program, Vals, visit};

/// A run of registers that values share.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Web(u32);
entity_impl!(Web, "web");

/// What a web is.
#[derive(Clone, Copy, Debug)]
pub(super) struct WebData {
    /// The kind of register.
    pub(super) class: RegisterClass,
    /// 32-bit words.
    pub(super) words: u8,
}

/// Most words of a web.
const WORDS: i32 = 32;

/// The webs of a program.
pub(super) struct Webs {
    webs: PrimaryMap<Web, WebData>,
    place: SecondaryMap<LVal, Option<(Web, u8)>>,
}

impl Webs {
    /// Finds them.
    pub(super) fn new(program: &Program, live: &Live, uniform: &Uniform<'_>, packs: &Packs) -> Webs {
        Ties::new(program, live, uniform, packs).finish()
    }

    /// Where a value lives, if it shares registers.
    pub(super) fn place(&self, v: LVal) -> Option<(Web, u8)> {
        self.place[v]
    }

    /// What a web is.
    pub(super) fn data(&self, web: Web) -> WebData {
        self.webs[web]
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.webs.len()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    Results,
    Matrices,
    Carried,
    Loads,
    Operands,
    Stores,
}

/// A tuple, where it begins and ends, and what the distance of aligned values is modulo 2.
#[derive(Clone)]
struct TupleBounds {
    /// By their distance from the value that stands for all.
    tuple: Tuple,
    low: i32,
    high: i32,
    parity: Option<i32>,
}

struct Ties<'a> {
    program: &'a Program,
    live: &'a Live,
    uniform: &'a Uniform<'a>,
    /// A value nearer to the one that stands for all, and the distance from it.
    up: SecondaryMap<LVal, Option<(LVal, i32)>>,
    /// Of values that stand for all of a tuple.
    sets: SecondaryMap<LVal, Option<Box<TupleBounds>>>,
    literal: SecondaryMap<LVal, bool>,
    /// The addend of each result of a matrix instruction.
    addend: FxHashMap<LVal, LVal>,
    /// What a choice gives, by what its second arm makes for that.
    otherwise: FxHashMap<LVal, LVal>,
    /// Questions that were asked: values on the way to one that stands for all, and pairs that may be alive at once.
    steps: u64,
}

impl Ties<'_> {
    /// Ties all that can be.
    fn new<'a>(program: &'a Program, live: &'a Live, uniform: &'a Uniform<'a>, packs: &Packs) -> Ties<'a> {
        let mut t = Ties {
            program,
            live,
            uniform,
            up: SecondaryMap::new(),
            sets: SecondaryMap::new(),
            literal: SecondaryMap::new(),
            addend: FxHashMap::default(),
            otherwise: FxHashMap::default(),
            steps: 0,
        };
        t.literals(&program.body);
        let body = &program.body;
        [Pass::Results, Pass::Matrices, Pass::Carried].into_iter().for_each(|pass| t.block(body, pass));
        for pair in packs.all() {
            t.tuple(&Vals::from_slice(pair));
        }
        [Pass::Loads, Pass::Operands, Pass::Stores].into_iter().for_each(|pass| t.block(body, pass));
        t
    }

    fn literals(&mut self, block: &Block) {
        for inst in block {
            if let Role::Literal(dst) = Role::of(inst) {
                self.literal[dst] = true;
            }
            visit::blocks(inst).for_each(|b| self.literals(b));
        }
    }

    fn block(&mut self, block: &Block, pass: Pass) {
        for (i, inst) in block.iter().enumerate() {
            if pass == Pass::Loads
                && let Some(second) = block.get(i + 1)
                && let Some(pair) = pair(self.program, inst, second)
            {
                self.tuple(&pair.dsts);
            }
            match Role::of(inst) {
                Role::Control(Control::For(l)) => {
                    self.carried(&l.carried, pass);
                    self.block(&l.body, pass);
                }
                Role::Control(Control::While(l)) => {
                    self.carried(&l.carried, pass);
                    self.block(&l.test, pass);
                    self.block(&l.body, pass);
                }
                Role::Control(Control::If(c)) => {
                    if pass == Pass::Results {
                        self.chosen(c);
                    }
                    self.block(&c.then, pass);
                    self.block(&c.otherwise, pass);
                }
                Role::Matrix { dsts, c, .. } if pass == Pass::Matrices => {
                    self.addend.extend(dsts.iter().copied().zip(c.iter().copied()));
                    self.tuple(c);
                    if self.tuple(dsts) {
                        for (&d, &c) in dsts.iter().zip(c) {
                            self.tie(c, d, 0);
                        }
                    }
                }
                Role::Matrix { a, b, .. } if pass == Pass::Operands => {
                    self.tuple(a);
                    self.tuple(b);
                }
                Role::Load(vals) if pass == Pass::Loads => {
                    self.tuple(vals);
                }
                Role::Store(vals) if pass == Pass::Stores => {
                    self.tuple(vals);
                }
                Role::Matrix { .. } | Role::Load(_) | Role::Store(_) => {}
                Role::Literal(_) | Role::Param { .. } | Role::Special { .. } | Role::Compute(_) | Role::Shuffle(_) | Role::Act => {}
                Role::Control(Control::Roles(_)) | Role::Foreign => {}
            }
        }
    }

    /// What a choice gives stands where its arms make it. Behind the first arm it is there, and is not while the second one runs.
    fn chosen(&mut self, c: &If) {
        let made: FxHashSet<LVal> = c.otherwise.iter().flat_map(visit::results).collect();
        for &(r, a, b) in &c.results {
            self.tie(r, a, 0);
            if made.contains(&b) {
                self.otherwise.insert(b, r);
                self.tie(r, b, 0);
            }
        }
    }

    fn carried(&mut self, carried: &[Carried], pass: Pass) {
        for c in carried {
            match pass {
                Pass::Results => {
                    self.tie(c.param, c.result, 0);
                }
                Pass::Carried => {
                    self.tie(c.param, c.next, 0);
                    self.tie(c.param, c.init, 0);
                }
                Pass::Matrices | Pass::Loads | Pass::Operands | Pass::Stores => {}
            }
        }
    }

    fn words(&self, v: LVal) -> i32 {
        match self.uniform.class(v) {
            RegisterClass::Mask => 2,
            RegisterClass::Scalar | RegisterClass::Vector => self.program.vals[v].bits().div_ceil(32) as i32,
        }
    }

    /// Puts values side by side, if they can be.
    fn tuple(&mut self, vals: &Vals) -> bool {
        let Some(parts) = words_of(self.program, vals) else { return false };
        if parts.len() < 2 || parts.iter().any(|&(v, _)| self.uniform.class(v) != RegisterClass::Vector) {
            return false;
        }
        let (first, mut at, mut all) = (parts[0].0, 0, true);
        for &(v, words) in &parts {
            all &= self.tie(first, v, at);
            at += i32::from(words);
        }
        let (root, distance) = self.find(first);
        match &mut self.sets[root] {
            Some(set) => match set.parity {
                Some(p) => all && p == distance & 1,
                None => {
                    set.parity = Some(distance & 1);
                    all
                }
            },
            None => all,
        }
    }

    /// The value that stands for all of a tuple, and the distance from it.
    fn find(&mut self, v: LVal) -> (LVal, i32) {
        let (mut root, mut distance) = (v, 0);
        while let Some((up, d)) = self.up[root] {
            (root, distance) = (up, distance + d);
            self.steps += 1;
        }
        // The way is short the next time.
        let (mut at, mut left) = (v, distance);
        while let Some((up, d)) = self.up[at].filter(|&(up, _)| up != root) {
            self.up[at] = Some((root, left));
            (at, left) = (up, left - d);
        }
        (root, distance)
    }

    fn set(&mut self, root: LVal) -> &mut TupleBounds {
        let words = self.words(root);
        let alone = || TupleBounds { tuple: Tuple::of(root, words), low: 0, high: words, parity: (words == 2).then_some(0) };
        self.sets[root].get_or_insert_with(|| Box::new(alone()))
    }

    /// Places `b` so many words behind `a`.
    fn tie(&mut self, a: LVal, b: LVal, behind: i32) -> bool {
        if self.literal[a] || self.literal[b] || self.uniform.class(a) != self.uniform.class(b) {
            return false;
        }
        let ((ra, da), (rb, db)) = (self.find(a), self.find(b));
        if ra == rb {
            return db == da + behind;
        }
        self.set(ra);
        self.set(rb);
        let (Some(sa), Some(sb)) = (&self.sets[ra], &self.sets[rb]) else { return false };
        // What the distances of the second set grow by.
        let by = da + behind - db;
        if let (Some(p), Some(q)) = (sa.parity, sb.parity)
            && (q + by) & 1 != p
        {
            return false;
        }
        let (low, high) = (sa.low.min(sb.low + by), sa.high.max(sb.high + by));
        if high - low > WORDS {
            return false;
        }
        let mut asked = 0;
        let clash = sa.tuple.clashes(&sb.tuple, by, &|v| self.live.life(v), |x, y| {
            asked += 1;
            self.together(x, y)
        });
        self.steps += asked;
        if clash {
            return false;
        }
        let (Some(sa), Some(sb)) = (self.sets[ra].take(), self.sets[rb].take()) else { return false };
        let parity = sa.parity.or(sb.parity.map(|q| (q + by) & 1));
        self.up[rb] = Some((ra, by));
        self.sets[ra] = Some(Box::new(TupleBounds { tuple: sa.tuple.with(sb.tuple, by, &|v| self.live.life(v)), low, high, parity }));
        true
    }

    /// True if two values are alive at once, so that one register can't hold both.
    fn together(&self, x: LVal, y: LVal) -> bool {
        if self.otherwise.get(&x) == Some(&y) || self.otherwise.get(&y) == Some(&x) {
            return false;
        }
        let ((dx, lx), (dy, ly)) = (self.live.life(x), self.live.life(y));
        if dx == dy {
            return true;
        }
        let (old, new, end, begin) = if dx < dy { (x, y, lx, dy) } else { (y, x, ly, dx) };
        if end != begin {
            return end > begin;
        }
        match self.live.step(begin) {
            Step::Hand | Step::Single => false,
            Step::Matrix => self.addend.get(&new) != Some(&old),
            Step::Several => true,
        }
    }

    fn finish(self) -> Webs {
        let mut out = Webs { webs: PrimaryMap::new(), place: SecondaryMap::new() };
        for (root, set) in self.sets.iter() {
            let Some(set) = set.as_ref().filter(|set| set.tuple.len() > 1) else { continue };
            let base = match set.parity {
                Some(p) if set.low & 1 != p => set.low - 1,
                _ => set.low,
            };
            let words = set.high - base;
            if words > WORDS {
                // The word in front that aligns it is one too many.
                continue;
            }
            let web = out.webs.push(WebData { class: self.uniform.class(root), words: words as u8 });
            for member in set.tuple.members() {
                out.place[member.val] = Some((web, (member.at - base) as u8));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::Chip;
    use crate::select::pairs::Reach;
    use crate::select::source::Source;
    use tilelift_ir::{CacheHint, CmpOp};
    use tilelift_lane::testing::Asm;
    use tilelift_lane::{BinOp, For, Inst, LTy, MatrixId, MatrixProduct, Special};

    fn steps(a: &Asm) -> (u64, usize) {
        let source = Source::new(&a.p, Chip::Gfx942).unwrap_or_else(|e| panic!("{e}"));
        let program = &*source.within(Reach::Far);
        let (live, uniform) = (Live::new(program), source.uniform(program));
        let ties = Ties::new(program, &live, &uniform, source.packs(Reach::Far));
        let most = ties.sets.values().flatten().map(|set| set.tuple.len()).max();
        (ties.steps, most.unwrap_or(0))
    }

    fn asm() -> Asm {
        let mut a = Asm::new(1);
        a.p.lanes = 64;
        a
    }

    fn store(a: &mut Asm, sums: &[LVal]) {
        let lane = a.special(Special::Lane);
        let addr = a.element(0, lane, 16);
        a.push(Inst::StoreGlobal { addr, offset: 0, guard: None, srcs: sums.iter().copied().collect(), cache: CacheHint::Normal });
    }

    /// Products, one added to the other.
    fn products(count: usize) -> Asm {
        let mut a = asm();
        let shared = a.alloc(4096);
        let parts = a.vals(LTy::B32, 4);
        a.push(Inst::LoadShared { dsts: parts.clone(), addr: shared, offset: 0 });
        let mut sums: Vals = (0..4).map(|at| a.load_shared(shared, 16 + 4 * at, LTy::F32)).collect();
        for _ in 0..count {
            let dsts = a.vals(LTy::F32, 4);
            let (x, y) = (Vals::from_slice(&parts[..2]), Vals::from_slice(&parts[2..]));
            // `v_mfma_f32_16x16x16_f16`
            a.push(Inst::Matrix(Box::new(MatrixProduct {
                dsts: dsts.clone(),
                instr: MatrixId::from_u32(1),
                a: x,
                b: y,
                c: sums,
                scales: Vals::new(),
            })));
            sums = dsts;
        }
        store(&mut a, &sums);
        a
    }

    /// Loops, one of which carries on with what the other one leaves.
    fn loops(count: usize) -> Asm {
        let mut a = asm();
        let shared = a.alloc(4096);
        let [zero, four, one] = [0, 4, 1].map(|k| a.i32(k));
        let mut sum = a.load_shared(shared, 0, LTy::F32);
        for _ in 0..count {
            let [param, next, result] = [0; 3].map(|_| a.val(LTy::F32));
            let iv = a.val(LTy::I32);
            let body = vec![Inst::Bin { dst: next, op: BinOp::Add, a: param, b: param }];
            let carried = vec![Carried { param, init: sum, next, result }];
            a.push(Inst::For(Box::new(For { iv, lo: zero, hi: four, step: one, runs: false, carried, body })));
            sum = result;
        }
        store(&mut a, &[sum]);
        a
    }

    /// Choices, one of which chooses from what the other one gave.
    fn choices(count: usize) -> Asm {
        let mut a = asm();
        let shared = a.alloc(4096);
        let mut x = a.load_shared(shared, 0, LTy::F32);
        let condition = a.load_shared(shared, 4, LTy::I32);
        let zero = a.i32(0);
        let condition = a.def(LTy::I1, |dst| Inst::Cmp { dst, op: CmpOp::Lt, a: condition, b: zero });
        for _ in 0..count {
            let [then, otherwise, result] = [0; 3].map(|_| a.val(LTy::F32));
            a.push(Inst::If(Box::new(If {
                condition,
                then: vec![Inst::Bin { dst: then, op: BinOp::Add, a: x, b: x }],
                otherwise: vec![Inst::Bin { dst: otherwise, op: BinOp::Mul, a: x, b: x }],
                results: vec![(result, then, otherwise)],
            })));
            x = result;
        }
        store(&mut a, &[x]);
        a
    }

    /// Eight times as many instructions, one behind the other, take no more than nine times the steps.
    #[test]
    fn steps_grow_as_the_program() {
        for (name, make) in [("products", products as fn(usize) -> Asm), ("loops", loops), ("choices", choices)] {
            let ((few, small), (many, large)) = (steps(&make(250)), steps(&make(2000)));
            assert!(few > 250 && large >= small, "{name}: {few} steps, {small} and {large} values in a tuple");
            assert!(many <= 9 * few, "{name}: {few} steps, then {many}");
        }
        assert!(steps(&products(2000)).1 > 8000, "sums stay where they are");
    }
}
