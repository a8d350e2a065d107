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

use super::inst::{Block, Inst};
use super::unit::{OperandA, Unit};
use super::value::{LTy, LVal};
use super::visit::{blocks, blocks_mut, computed, reads, results};
use crate::hash::{Map, Set};
use std::collections::VecDeque;

/// How global loads may move.
#[derive(Clone, Copy)]
pub(super) struct Loads<'a> {
    /// Registers of a lane that may be in use where a load is started ahead.
    pub room: u32,
    /// Registers of a lane that a value takes.
    pub words: &'a dyn Fn(LVal) -> u32,
}

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

/// Reorders a block and the blocks inside it; with `loads`, global loads may move, too.
pub(super) fn sink(block: &mut Block, loads: Option<Loads<'_>>) {
    inside(block, loads, &Set::default());
}

/// Reorders a block; `beside` are values of outside that something else reads while the block runs, or behind it.
fn inside(block: &mut Block, loads: Option<Loads<'_>>, beside: &Set<LVal>) {
    if block.iter().any(|i| !blocks(i).is_empty()) {
        // Where no load is, none goes ahead, and what lives there is nobody's question.
        let loading = |inst: &Inst| loads.is_some() && blocks(inst).into_iter().any(loading);
        let asked: Vec<bool> = block.iter().map(loading).collect();
        let lives = if asked.contains(&true) { Lives::of(block) } else { Lives::default() };
        for (n, inst) in block.iter_mut().enumerate() {
            let around = if asked[n] { lives.over(n, beside) } else { Set::default() };
            blocks_mut(inst).into_iter().for_each(|(inner, _)| inside(inner, loads.filter(|_| asked[n]), &around));
        }
    }
    let movable = loads.is_some();
    let mut makers: Map<LVal, usize> = Map::with_capacity_and_hasher(block.len(), Default::default());
    for (n, inst) in block.iter().enumerate() {
        moves(inst, movable).unwrap_or(&[]).iter().for_each(|&v| {
            makers.insert(v, n);
        });
    }
    let room = block.len();
    let left: Vec<Option<Inst>> = std::mem::replace(block, Vec::with_capacity(room)).into_iter().map(Some).collect();
    // Computations that nothing in the block needs are the block's results: they go last, in order.
    let anchors: Vec<usize> = (0..left.len()).filter(|&n| left[n].as_ref().is_some_and(|i| moves(i, movable).is_none())).collect();
    let whole: Vec<&Inst> = left.iter().flatten().collect();
    let mut early = fenced(&whole);
    early.extend(destinations(&whole, &makers));
    let mut order = Order { makers: &makers, early: &early, open: Vec::new() };
    let here = whole.iter().any(|i| matches!(i, Inst::LoadGlobal { .. }));
    let mut ahead = loads.filter(|_| here).map(|l| Ahead::new(&whole, &anchors, &mut order, l, beside));
    let mut left = left;
    let roots = anchors.into_iter().map(|n| (n, true)).chain((0..left.len()).map(|n| (n, false)));
    for (root, anchor) in roots {
        if let Some(ahead) = ahead.as_mut().filter(|_| anchor) {
            while let Some(load) = ahead.next(&left, root) {
                order.take(load, &mut left, |inst| {
                    ahead.passed(&inst);
                    block.push(inst);
                });
            }
        }
        order.take(root, &mut left, |inst| {
            if let Some(ahead) = &mut ahead {
                ahead.passed(&inst);
            }
            block.push(inst);
        });
    }
}

/// True if global loads are in a block, or inside one of its instructions.
fn loading(block: &Block) -> bool {
    block.iter().any(|i| matches!(i, Inst::LoadGlobal { .. }) || blocks(i).into_iter().any(loading))
}

/// Where the values that a block's instructions read are made, and read last.
#[derive(Default)]
struct Lives {
    made: Map<LVal, usize>,
    read: Map<LVal, usize>,
}

impl Lives {
    fn of(block: &Block) -> Lives {
        let mut lives = Lives::default();
        let mut within = Set::default();
        for (n, inst) in block.iter().enumerate() {
            within.clear();
            made_within(inst, &mut within);
            reads(inst, &mut |v| {
                if !within.contains(&v) {
                    lives.read.insert(v, n);
                }
            });
            results(inst).into_iter().for_each(|v| {
                lives.made.insert(v, n);
            });
        }
        lives
    }

    /// The values that are read behind an instruction. Those from outside may be read by the block's next run.
    fn over(&self, n: usize, beside: &Set<LVal>) -> Set<LVal> {
        let live = |(v, last): &(&LVal, &usize)| self.made.get(v).is_none_or(|&m| m < n && n < **last);
        self.read.iter().filter(live).map(|(&v, _)| v).chain(beside.iter().copied()).collect()
    }
}

/// The order of instructions: operands first.
struct Order<'a> {
    makers: &'a Map<LVal, usize>,
    /// What else must be there in front of an instruction.
    early: &'a Map<usize, Vec<LVal>>,
    /// Instructions to look at, and whether their operands have been; without recursion, for chains may be long.
    open: Vec<(usize, bool)>,
}

impl Order<'_> {
    /// Pushes what an instruction needs, first operand on top.
    fn needs(&mut self, n: usize, inst: &Inst) {
        let start = self.open.len();
        reads(inst, &mut |v| self.open.extend(self.makers.get(&v).map(|&k| (k, false))));
        let early = self.early.get(&n).into_iter().flatten();
        self.open.extend(early.filter_map(|v| self.makers.get(v)).filter(|&&k| k < n).map(|&k| (k, false)));
        let mut at = start;
        for k in start..self.open.len() {
            if self.open[k].0 != n {
                self.open[at] = self.open[k];
                at += 1;
            }
        }
        self.open.truncate(at);
        self.open[start..].reverse();
    }

    /// Takes an instruction, behind all it needs that is left.
    fn take(&mut self, root: usize, left: &mut [Option<Inst>], mut out: impl FnMut(Inst)) {
        self.open.push((root, false));
        while let Some((n, ready)) = self.open.pop() {
            if ready {
                left[n].take().into_iter().for_each(&mut out);
                continue;
            }
            let Some(inst) = &left[n] else { continue };
            self.open.push((n, true));
            self.needs(n, inst);
        }
    }
}

/// Loads that are started ahead of the instructions that need them.
struct Ahead<'a> {
    loads: Loads<'a>,
    /// Loads to come, by first need.
    queue: VecDeque<usize>,
    /// How many instructions to come read each value.
    uses: Map<LVal, u32>,
    /// Registers in use.
    live: u32,
}

impl<'a> Ahead<'a> {
    fn new(block: &[&Inst], anchors: &[usize], order: &mut Order<'_>, loads: Loads<'a>, beside: &Set<LVal>) -> Ahead<'a> {
        let mut uses: Map<LVal, u32> = Map::default();
        let mut seen = Vec::new();
        for inst in block {
            distinct(inst, &mut seen);
            seen.iter().for_each(|&v| *uses.entry(v).or_default() += 1);
        }
        // What something else reads, too, stays.
        beside.iter().for_each(|&v| *uses.entry(v).or_default() += 1);
        // What comes from outside is there from the start.
        let mut own: Vec<LVal> = Vec::new();
        block.iter().for_each(|i| made(i, &mut own));
        let own: Set<LVal> = own.into_iter().collect();
        let live = uses.keys().filter(|v| !own.contains(v)).map(|&v| (loads.words)(v)).sum();
        let mut queue = VecDeque::new();
        let mut done = vec![false; block.len()];
        for &root in anchors {
            order.open.push((root, false));
            while let Some((n, ready)) = order.open.pop() {
                if ready {
                    if matches!(block[n], Inst::LoadGlobal { .. }) {
                        queue.push_back(n);
                    }
                } else if !std::mem::replace(&mut done[n], true) {
                    order.open.push((n, true));
                    order.needs(n, block[n]);
                }
            }
        }
        Ahead { loads, queue, uses, live }
    }

    /// The next load that may be started in front of an instruction.
    fn next(&mut self, left: &[Option<Inst>], anchor: usize) -> Option<usize> {
        while let Some(&n) = self.queue.front() {
            if let Some(Inst::LoadGlobal { dsts, .. }) = &left[n] {
                let size: u32 = dsts.iter().map(|&v| (self.loads.words)(v)).sum();
                if n > anchor || self.live + size > self.loads.room {
                    return None;
                }
                self.queue.pop_front();
                return Some(n);
            }
            self.queue.pop_front();
        }
        None
    }

    /// Counts registers behind an instruction.
    fn passed(&mut self, inst: &Inst) {
        let mut list = Vec::new();
        distinct(inst, &mut list);
        for v in list.drain(..) {
            if let Some(n) = self.uses.get_mut(&v) {
                *n = n.saturating_sub(1);
                if *n == 0 {
                    self.live = self.live.saturating_sub((self.loads.words)(v));
                }
            }
        }
        made(inst, &mut list);
        self.live += list.iter().filter(|v| self.uses.contains_key(v)).map(|&v| (self.loads.words)(v)).sum::<u32>();
    }
}

/// The values that an instruction reads, each once.
fn distinct(inst: &Inst, out: &mut Vec<LVal>) {
    out.clear();
    reads(inst, &mut |v| out.push(v));
    out.sort_unstable();
    out.dedup();
}

/// Appends the values that an instruction makes for those behind it.
fn made(inst: &Inst, out: &mut Vec<LVal>) {
    match inst.control() {
        None => out.extend_from_slice(inst.results()),
        Some(_) => out.extend(results(inst)),
    }
}

/// The values that the blocks of an instruction make for themselves.
fn made_within(inst: &Inst, out: &mut Set<LVal>) {
    match inst {
        Inst::For(l) => {
            out.insert(l.iv);
            out.extend(l.carried.iter().map(|c| c.param));
        }
        Inst::While(l) => out.extend(l.carried.iter().map(|c| c.param)),
        _ => {}
    }
    for i in blocks(inst).into_iter().flatten() {
        out.extend(results(i));
        made_within(i, out);
    }
}

/// What the multiplications behind each fence read, by the fence's place: registers that are written between fence and multiplication
/// would want a fence of their own.
fn fenced(block: &[&Inst]) -> Map<usize, Vec<LVal>> {
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

/// What was computed in front of a loop of multiplications for the coordinates of bulk stores behind it, by the loop's place.
fn destinations(block: &[&Inst], makers: &Map<LVal, usize>) -> Map<usize, Vec<LVal>> {
    fn multiplies(inst: &Inst) -> bool {
        match inst {
            Inst::Unit(u) => matches!(**u, Unit::Multiply(_)),
            other => blocks(other).into_iter().any(|b| b.iter().any(multiplies)),
        }
    }
    let mut all: Map<usize, Vec<LVal>> = Map::default();
    let mut main = None;
    for (n, inst) in block.iter().enumerate() {
        let Some(main) = main else {
            main = (!blocks(inst).is_empty() && multiplies(inst)).then_some(n);
            continue;
        };
        let Inst::Unit(u) = inst else { continue };
        let Unit::BulkStore { at, .. } = &**u else { continue };
        let mut open: Vec<LVal> = at.to_vec();
        while let Some(v) = open.pop() {
            match makers.get(&v) {
                Some(&k) if k > main => reads(block[k], &mut |x| open.push(x)),
                Some(_) => all.entry(main).or_default().push(v),
                None => {}
            }
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

    #[test]
    fn chains_are_computed_where_they_are_stored() {
        let mut a = Asm::new(1);
        let base = a.alloc(8);
        let x: Vec<LVal> = (0..2).map(|i| a.i32(i)).collect();
        let y: Vec<LVal> = x.iter().map(|&v| a.bin(BinOp::Add, v, v)).collect();
        let z: Vec<LVal> = y.iter().map(|&v| a.bin(BinOp::Mul, v, v)).collect();
        a.store_shared(base, 0, &z[..1]);
        a.store_shared(base, 4, &z[1..]);
        sink(&mut a.p.body, None);
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
            sink(&mut a.p.body, room.map(|room| Loads { room, words: &taken }));
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
            sink(&mut a.p.body, Some(Loads { room: 11, words: &taken }));
            let inner = a.p.body.iter().find_map(|i| if let Inst::If(c) = i { Some(order(&c.then)) } else { None });
            inner.expect("the choice").find('s').unwrap_or(0)
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
        sink(&mut a.p.body, Some(Loads { room: 100, words: &|_| 1 }));
        assert_eq!(order(&a.p.body), "sls");
    }
}
