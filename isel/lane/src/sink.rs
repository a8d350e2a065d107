//! Puts every computation of a block right in front of the first instruction that needs it.
//!
//! The lowering expands a tile op for all registers before it comes to the next op, so of a chain of ops every step of every register
//! would be held at once. Behind this pass a chain is computed register by register, where its end is stored.
//!
//! ```text
//! x0 x1 x2 … y0 y1 y2 … store y0, y1 …      becomes      x0 y0 x1 y1 store y0, y1 …
//! ```
//!
//! Where bulk stores go is computed in front of the loop of multiplications, beside the way of its first operands.
//!
//! Loads of memory that the kernel only reads move likewise, if asked for, but not all the way: as far ahead of their uses as registers
//! allow, so that one load's wait covers those behind it.
//!
//! ```text
//! l0 l1 l2 … x0 x1 x2 … store x0 …      becomes      l0 l1 l2   x0 store x0   l3 l4   x1 store x1 …
//! ```

mod ahead;
mod landed;
mod order;
mod stays;

pub(super) use order::Loads;

use super::inst::{Block, Control, Inst};
use super::nest::{Nest, Table, each_block_mut};
use super::unit::{OperandA, Unit};
use super::value::{LTy, LVal};
use super::visit::{computed, reads};
use crate::hash::{Map, Set};
use order::{Inside, Maker, NOWHERE, Order, PARAM, UNNUMBERED};

/// What an instruction that may move makes.
fn moves(inst: &Inst, loads: bool) -> Option<&[LVal]> {
    match inst {
        Inst::LoadGlobal { dsts, .. } if loads => Some(dsts),
        other => computed(other),
    }
}

/// Registers that a value of a type takes. Conditions have registers of their own.
pub(super) fn words(ty: LTy) -> u32 {
    match ty {
        LTy::I1 => 0,
        other => other.bits().div_ceil(32),
    }
}

/// What moves beside computations, and what of them does not.
#[derive(Clone, Copy, Default)]
pub(crate) struct Moves<'a> {
    /// Global loads may move, too, and how.
    pub loads: Option<Loads<'a>>,
    /// Computations stay that leave no more in use than they find, by the bytes of a lane's registers that values take. All that are read are made in the
    /// block then.
    pub stays: Option<&'a dyn Fn(LVal) -> u32>,
    /// Where computations stay, which orders are wanted.
    pub wanted: Option<WantedOrder<'a>>,
}

/// An order that is wanted holds no more of a lane's registers at once, and no more across branches.
#[derive(Clone, Copy)]
pub(crate) struct WantedOrder<'a> {
    /// Bytes by value.
    pub sizes: &'a [u32],
    /// Bytes at once.
    pub most: u32,
    /// Bytes across branches.
    pub across: u32,
    /// True for a branch.
    pub branches: &'a dyn Fn(&Inst) -> bool,
}

/// Why an order is not wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Over {
    /// It holds so many bytes at once, at least.
    Most(u32),
    /// It holds too many across a branch.
    Across,
}

/// Reorders a block and the blocks inside it. The values that are made there have numbers from `values[0]` up to `values[1]`.
///
/// # Errors
/// The order is not wanted; some blocks are in order then, others not.
pub(super) fn sink(block: &mut Block, nest: &Nest, values: [usize; 2], Moves { loads, stays, wanted }: Moves<'_>) -> Result<(), Over> {
    let [first, end] = values;
    let loads = loads.filter(|_| nest.loads(nest.all()));
    // What was there before is looked for where its registers count.
    let known = if loads.is_some() { 0 } else { first };
    let makers = Table::new(first, end, NOWHERE);
    let mut sinker = Sinker {
        nest,
        loads,
        stays,
        wanted,
        over: None,
        makers,
        carried: Map::default(),
        leaves: Table::new(first, end, false),
        numbers: if stays.is_some() { Table::new(first, end, UNNUMBERED) } else { Table::new(0, 0, UNNUMBERED) },
        seen: Table::new(known, end, 0),
        looks: 0,
    };
    sinker.enter(block, 0, loads.is_some());
    sinker.block(block, 0, loads, &Set::default());
    sinker.over.map_or(Ok(()), Err)
}

/// The pass over the blocks of a role.
struct Sinker<'a> {
    nest: &'a Nest,
    /// How loads move in the role, if they do.
    loads: Option<Loads<'a>>,
    /// Sizes of values, where what frees as much as it makes stays.
    stays: Option<&'a dyn Fn(LVal) -> u32>,
    wanted: Option<WantedOrder<'a>>,
    /// Why the order of a block is not wanted.
    over: Option<Over>,
    makers: Table<Maker>,
    /// What loops with multiplications carry: parameters and next values, by the number of the loop's block.
    carried: Map<u32, Vec<[LVal; 2]>>,
    /// Values that are read where their block ends, or behind it.
    leaves: Table<bool>,
    /// Numbers of the values of a block, while it is looked at which of its computations stay.
    numbers: Table<u32>,
    /// The last look at instructions by which a value was found.
    seen: Table<u32>,
    looks: u32,
}

impl Sinker<'_> {
    /// Notes where values are made, all blocks through.
    fn enter(&mut self, block: &Block, n: u32, loads: bool) {
        let mut inner = self.nest.inner(n).iter();
        for (at, inst) in block.iter().enumerate() {
            let at = at as u32;
            let Some(control) = inst.control() else {
                let moves = moves(inst, loads).is_some();
                inst.results().iter().for_each(|&v| self.makers.set(v, Maker { block: n, at, moves }));
                continue;
            };
            let Some(&first) = inner.next() else { break };
            let made = Maker { block: n, at, moves: false };
            let param = |block: u32| Maker { block, at: PARAM, moves: false };
            match control {
                Control::For(l) => {
                    self.makers.set(l.iv, param(first));
                    if self.nest.multiplies([first, first]) {
                        self.carried.insert(first, l.carried.iter().map(|c| [c.param, c.next]).collect());
                    }
                    for c in &l.carried {
                        self.makers.set(c.param, param(first));
                        self.makers.set(c.result, made);
                        self.leaves.set(c.next, true);
                    }
                    self.enter(&l.body, first, loads);
                }
                Control::While(l) => {
                    for c in &l.carried {
                        self.makers.set(c.param, param(first));
                        self.makers.set(c.result, made);
                        self.leaves.set(c.next, true);
                    }
                    self.leaves.set(l.condition, true);
                    self.enter(&l.test, first, loads);
                    self.enter(&l.body, self.nest.behind(first), loads);
                }
                Control::If(c) => {
                    c.results.iter().for_each(|&(r, a, b)| {
                        self.makers.set(r, made);
                        [a, b].into_iter().for_each(|v| self.leaves.set(v, true));
                    });
                    self.enter(&c.then, first, loads);
                    self.enter(&c.otherwise, self.nest.behind(first), loads);
                }
                Control::Roles(r) => {
                    let mut at = first;
                    for r in &r.roles {
                        self.enter(&r.body, at, loads);
                        at = self.nest.behind(at);
                    }
                }
            }
        }
    }

    /// Reorders a block; `beside` are values of outside that something else reads while the block runs, or behind it. Gives what its instructions
    /// with blocks read; they stay in their order.
    fn block(&mut self, block: &mut Block, n: u32, loads: Option<Loads<'_>>, beside: &Set<LVal>) -> Vec<(usize, Inside)> {
        let nest = self.nest;
        let mut nested = Vec::with_capacity(nest.inner(n).len());
        if !nest.inner(n).is_empty() {
            // Where no load is, none goes ahead, and what lives there is nobody's question.
            let asked: Vec<bool> = (0..nest.inner(n).len()).map(|k| loads.is_some() && nest.loads(nest.range(n, k))).collect();
            let lives = if asked.contains(&true) { self.lives(block, n) } else { Map::default() };
            for (at, inst) in block.iter_mut().enumerate().filter(|(_, i)| i.control().is_some()) {
                let k = nested.len();
                let around = if asked[k] { self.over(at, n, &lives, beside) } else { Set::default() };
                let range = nest.range(n, k);
                let (mut inner, mut lists) = (range[0], Vec::new());
                each_block_mut(inst, &mut |b| {
                    lists.push(self.block(b, inner, loads.filter(|_| asked[k]), &around));
                    inner = nest.behind(inner);
                });
                nested.push((at, self.inside(inst, range, &lists)));
            }
        }
        self.reorder(block, n, &nested, loads, beside);
        nested
    }

    /// What an instruction with blocks reads, by what those inside of its blocks read: all of it where loads move in the role, though they need not
    /// stand there, else what is made in the role.
    fn inside(&mut self, inst: &Inst, range: [u32; 2], lists: &[Vec<(usize, Inside)>]) -> Inside {
        let loads = self.loads;
        self.looks += 1;
        let mut out = Inside { reads: Vec::new(), words: lists.iter().flatten().map(|(_, inside)| inside.words).sum() };
        let mut look = |v: LVal| {
            if self.seen.get(v) == self.looks {
                return;
            }
            self.seen.set(v, self.looks);
            let block = self.makers.get(v).block;
            if (range[0]..=range[1]).contains(&block) {
                out.words += loads.map_or(0, |l| (l.words)(v));
            } else if loads.is_some() || block != NOWHERE.block {
                out.reads.push(v);
            }
        };
        let mut lists = lists.iter();
        let mut all = |block: &Block, look: &mut dyn FnMut(LVal)| {
            let mut nested = lists.next().into_iter().flatten();
            for i in block {
                match i.control() {
                    None => i.operands(|v, _| look(v)),
                    Some(_) => nested.next().into_iter().flat_map(|(_, inside)| &inside.reads).for_each(|&v| look(v)),
                }
            }
        };
        match inst.control() {
            None => {}
            Some(Control::For(l)) => {
                [l.lo, l.hi, l.step].into_iter().for_each(&mut look);
                l.carried.iter().for_each(|c| [c.init, c.next].into_iter().for_each(&mut look));
                all(&l.body, &mut look);
            }
            Some(Control::While(l)) => {
                l.carried.iter().for_each(|c| [c.init, c.next].into_iter().for_each(&mut look));
                look(l.condition);
                all(&l.test, &mut look);
                all(&l.body, &mut look);
            }
            Some(Control::If(c)) => {
                look(c.condition);
                c.results.iter().for_each(|&(_, a, b)| [a, b].into_iter().for_each(&mut look));
                all(&c.then, &mut look);
                all(&c.otherwise, &mut look);
            }
            Some(Control::Roles(r)) => r.roles.iter().for_each(|r| all(&r.body, &mut look)),
        }
        out
    }

    /// Reorders the instructions of a block; those inside it are in order.
    fn reorder(&mut self, block: &mut Block, n: u32, nested: &[(usize, Inside)], loads: Option<Loads<'_>>, beside: &Set<LVal>) {
        let movable = loads.is_some();
        // Computations that nothing in the block needs are the block's results: they go last, in order.
        let stays = self.stays.map_or_else(Vec::new, |bytes| self.stays(block, n, nested, bytes));
        if self.over.is_some() {
            return;
        }
        let stays = |k: usize| stays.get(k) == Some(&true) || moves(&block[k], movable).is_none();
        let anchors: Vec<usize> = (0..block.len()).filter(|&k| stays(k)).collect();
        // Nothing moves.
        if anchors.len() == block.len() {
            return;
        }
        let order = Order { makers: &self.makers, n, block, nested, early: &self.early(block, n, nested), open: Vec::new() };
        let order = order.whole(&anchors, loads, beside);
        if order.iter().enumerate().all(|(k, &from)| k == from) {
            return;
        }
        // Each is taken once, and leaves something small behind. What is put in front of the first access of memory has room.
        let mut left = std::mem::replace(block, Block::with_capacity(block.len() + 1));
        block.extend(order.into_iter().map(|k| std::mem::replace(&mut left[k], Inst::Barrier)));
    }

    /// What else must be there in front of instructions of a block.
    fn early(&self, block: &Block, n: u32, nested: &[(usize, Inside)]) -> Map<usize, Vec<LVal>> {
        let mut early = fenced(block);
        early.extend(self.destinations(block, n, nested));
        for (at, values) in self.landed(block, n) {
            early.entry(at).or_default().extend(values);
        }
        early
    }

    /// Where the values that a block's instructions read are read last.
    fn lives(&self, block: &Block, n: u32) -> Map<LVal, usize> {
        let (mut last, mut k) = (Map::default(), 0);
        for (at, inst) in block.iter().enumerate() {
            let mut range = [n + 1, n];
            if inst.control().is_some() {
                range = self.nest.range(n, k);
                k += 1;
            }
            reads(inst, &mut |v| {
                if !(range[0]..=range[1]).contains(&self.makers.get(v).block) {
                    last.insert(v, at);
                }
            });
        }
        last
    }

    /// The values that are read behind an instruction. Those from outside may be read by the block's next run.
    fn over(&self, at: usize, n: u32, lives: &Map<LVal, usize>, beside: &Set<LVal>) -> Set<LVal> {
        let live = |(v, last): &(&LVal, &usize)| self.place(**v, n).is_none_or(|made| made < at && at < **last);
        lives.iter().filter(live).map(|(&v, _)| v).chain(beside.iter().copied()).collect()
    }

    /// The instruction of a block that makes a value.
    fn place(&self, v: LVal, n: u32) -> Option<usize> {
        let maker = self.makers.get(v);
        (maker.block == n && maker.at != PARAM).then_some(maker.at as usize)
    }

    /// What was computed in front of a loop of multiplications for the coordinates of bulk stores behind it, by the loop's place.
    fn destinations(&self, block: &Block, n: u32, nested: &[(usize, Inside)]) -> Map<usize, Vec<LVal>> {
        let mut all: Map<usize, Vec<LVal>> = Map::default();
        let Some(k) = (0..nested.len()).find(|&k| self.nest.multiplies(self.nest.range(n, k))) else { return all };
        let main = nested[k].0;
        for inst in &block[main + 1..] {
            let Inst::Unit(u) = inst else { continue };
            let Unit::BulkStore { at, .. } = &**u else { continue };
            let mut open: Vec<LVal> = at.to_vec();
            while let Some(v) = open.pop() {
                let maker = self.makers.get(v);
                match maker.block == n && maker.moves {
                    true if maker.at as usize > main => block[maker.at as usize].operands(|x, _| open.push(x)),
                    true => all.entry(main).or_default().push(v),
                    false => {}
                }
            }
        }
        all
    }
}

/// What the multiplications behind each fence read, by the fence's place: registers that are written between fence and multiplication
/// would want a fence of their own.
fn fenced(block: &[Inst]) -> Map<usize, Vec<LVal>> {
    let mut all = Map::default();
    let (mut fence, mut first) = (None, true);
    for (n, inst) in block.iter().enumerate() {
        let Inst::Unit(u) = inst else { continue };
        match (&**u, fence) {
            (Unit::FenceMatrices, _) => (fence, first) = (Some(n), true),
            // Of later groups registers alone are fenced; addresses may come as they are wanted.
            (Unit::CommitMatrices, _) => first = false,
            (Unit::Multiply(m), Some(f)) => {
                let list: &mut Vec<LVal> = all.entry(f).or_default();
                match &m.a {
                    _ if first => u.operands(|v, _| list.push(v)),
                    OperandA::Regs(words) => list.extend(words.iter().chain(&m.c)),
                    OperandA::Shared(_) => list.extend(&m.c),
                }
            }
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interp::tests::Asm;
    use crate::op::BinOp;
    use crate::value::LTy;

    fn sunk(a: &mut Asm, loads: Option<Loads<'_>>) {
        let nest = Nest::of(&a.p.body);
        sink(&mut a.p.body, &nest, [0, a.p.vals.len()], Moves { loads, ..Moves::default() }).expect("any order is wanted");
    }

    #[test]
    fn chains_are_computed_where_they_are_stored() {
        let mut a = Asm::new(1);
        let base = a.alloc(8);
        let x: Vec<LVal> = (0..2).map(|i| a.i32(i)).collect();
        let y: Vec<LVal> = x.iter().map(|&v| a.bin(BinOp::Add, v, v)).collect();
        let z: Vec<LVal> = y.iter().map(|&v| a.bin(BinOp::Mul, v, v)).collect();
        a.store_shared(base, 0, &z[..1]);
        a.store_shared(base, 4, &z[1..]);
        sunk(&mut a, None);
        let order: Vec<LVal> = a.p.body.iter().flat_map(|i| computed(i).unwrap_or(&[]).to_vec()).collect();
        assert_eq!(order, [base, x[0], y[0], z[0], x[1], y[1], z[1]]);
        assert!(matches!(a.p.body[4], Inst::StoreShared { .. }));
        assert_eq!(a.p.vals[z[0]], LTy::I32);
        a.run(&mut Default::default()).unwrap();
    }

    /// Loads and stores of a block in order: `l` or `s` each.
    fn order(block: &Block) -> String {
        let letter = |i: &Inst| match i {
            Inst::LoadGlobal { .. } => Some('l'),
            Inst::StoreShared { .. } => Some('s'),
            _ => None,
        };
        block.iter().filter_map(letter).collect()
    }

    #[test]
    fn loads_go_ahead_as_far_as_registers_allow() {
        let stored = |room: Option<u32>| {
            let mut a = Asm::new(1);
            let base = a.alloc(16);
            let x: Vec<LVal> = (0..4).map(|_| a.load(0, LTy::I32)).collect();
            for (n, v) in x.iter().enumerate() {
                a.store_shared(base, 4 * n as i32, &[*v]);
            }
            let types = a.p.vals.clone();
            let taken = |v: LVal| words(types[v]);
            sunk(&mut a, room.map(|room| Loads { room, words: &taken }));
            order(&a.p.body)
        };
        assert_eq!(stored(None), "llllssss", "where nothing was asked for, loads stay");
        assert_eq!(stored(Some(0)), "lslslsls", "no room: each where it is needed");
        assert_eq!(stored(Some(100)), "llllssss");
        // Loads in front of the first store, room by room.
        let ahead: Vec<usize> = (0..16).map(|n| stored(Some(n)).find('s').unwrap_or(0)).collect();
        assert!(ahead.is_sorted() && ahead.contains(&2) && ahead.contains(&3), "{ahead:?}");
    }

    #[test]
    fn what_lives_across_a_block_takes_room_in_it() {
        // Loads inside a choice, with values around it that are read behind it.
        let stored = |across: usize| {
            let mut a = Asm::new(1);
            let base = a.alloc(64);
            let kept: Vec<LVal> = (0..8).map(|_| a.load(0, LTy::I32)).collect();
            let yes = a.constant(LTy::I1, 1);
            let outer = std::mem::take(&mut a.p.body);
            let x: Vec<LVal> = (0..4).map(|_| a.load(0, LTy::I32)).collect();
            for (n, v) in x.iter().enumerate() {
                a.store_shared(base, 4 * n as i32, &[*v]);
            }
            let then = std::mem::replace(&mut a.p.body, outer);
            a.p.body.push(Inst::If(Box::new(crate::inst::If { condition: yes, results: Vec::new(), then, otherwise: Vec::new() })));
            for (n, v) in kept[..across].iter().enumerate() {
                a.store_shared(base, 16 + 4 * n as i32, &[*v]);
            }
            let types = a.p.vals.clone();
            let taken = |v: LVal| words(types[v]);
            sunk(&mut a, Some(Loads { room: 11, words: &taken }));
            let inner = a.p.body.iter().find_map(|i| if let Inst::If(c) = i { Some(order(&c.then)) } else { None });
            inner.expect("the choice").find('s').unwrap_or(0)
        };
        let ahead: Vec<usize> = (0..=8).map(stored).collect();
        assert!(ahead[0] == 4 && ahead[8] < 4 && ahead.iter().rev().is_sorted(), "{ahead:?}");
    }

    #[test]
    fn what_blocks_inside_blocks_make_for_themselves_takes_room() {
        let stored = |inside: usize| {
            let mut a = Asm::new(1);
            let base = a.alloc(64);
            let yes = a.constant(LTy::I1, 1);
            let x: Vec<LVal> = (0..4).map(|_| a.load(0, LTy::I32)).collect();
            for (n, v) in x.iter().enumerate() {
                a.store_shared(base, 4 * n as i32, &[*v]);
            }
            let outer = std::mem::take(&mut a.p.body);
            // No load stands in the choices.
            for n in 0..inside {
                let v = a.i32(n as i64);
                a.store_shared(base, 16 + 4 * n as i32, &[v]);
            }
            for _ in 0..2 {
                let then = std::mem::take(&mut a.p.body);
                a.p.body.push(Inst::If(Box::new(crate::If { condition: yes, results: Vec::new(), then, otherwise: Vec::new() })));
            }
            let choice = std::mem::replace(&mut a.p.body, outer);
            a.p.body.extend(choice);
            let types = a.p.vals.clone();
            let taken = |v: LVal| words(types[v]);
            sunk(&mut a, Some(Loads { room: 6, words: &taken }));
            order(&a.p.body).find('s').unwrap_or(0)
        };
        let ahead: Vec<usize> = (0..=8).map(stored).collect();
        assert!(ahead[0] == 4 && ahead[8] < 4 && ahead.iter().rev().is_sorted(), "{ahead:?}");
    }

    #[test]
    fn loads_stay_behind_what_stood_in_front_of_them() {
        let mut a = Asm::new(1);
        let base = a.alloc(8);
        let one = a.i32(1);
        a.store_shared(base, 0, &[one]);
        let x = a.load(0, LTy::I32);
        a.store_shared(base, 4, &[x]);
        sunk(&mut a, Some(Loads { room: 100, words: &|_| 1 }));
        assert_eq!(order(&a.p.body), "sls");
    }
}
