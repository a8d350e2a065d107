//! Computations that stay where they stand although others go to their uses: those that leave no more registers in use than they found.
//!
//! ```text
//! s = add a, b      a and b end here: it stays
//! y = mul x, w      x and w are read again: y would be one more, so it waits for whoever needs it
//! ```
//!
//! A computation is looked at together with those that it needs and that wait. If all of them free as much as they make, they are done: else what they
//! read would be held, across loads that stand in front of the use, say, while it holds what those bring.

use super::order::{Inside, UNNUMBERED, inside};
use super::{Over, Sinker};
use crate::inst::Inst;
use crate::nest::Table;
use crate::value::LVal;
use crate::visit::computed;
use cranelift_entity::EntityRef;

/// Computations that are looked at together.
const TOGETHER: usize = 16;

/// The place of a value that the block does not make.
const ELSEWHERE: u32 = u32::MAX;

/// A value that a block reads or makes.
struct Row {
    /// Where the block makes it; [`ELSEWHERE`] if it does not.
    place: u32,
    /// Bytes of a lane's registers that it takes.
    bytes: u32,
    /// How many instructions to come read it; those behind the block are one.
    left: u32,
    /// How many of those that are being looked at read it.
    reads: u32,
    /// Bytes of registers that it takes while it is held, and whether it is: made, and read by an instruction to come.
    registers: u32,
    held: bool,
}

/// What an instruction reads, each value once, or what it makes: numbers of rows.
struct Lists {
    /// Where the list of each instruction begins, and where the last one ends.
    starts: Vec<u32>,
    rows: Vec<u32>,
}

impl Lists {
    /// Lists of so many instructions.
    fn new(count: usize) -> Lists {
        let mut starts = Vec::with_capacity(count + 1);
        starts.push(0);
        Lists { starts, rows: Vec::with_capacity(2 * count) }
    }

    fn get(&self, k: u32) -> &[u32] {
        let k = k as usize;
        &self.rows[self.starts[k] as usize..self.starts[k + 1] as usize]
    }

    /// Ends the list of the next instruction.
    fn end(&mut self) {
        self.starts.push(self.rows.len() as u32);
    }
}

/// The look by which what is done was found.
const DONE: u32 = u32::MAX;

/// A walk over a block that tells what is done where it stands.
struct Walk<'a> {
    block: &'a [Inst],
    rows: Vec<Row>,
    reads: Lists,
    makes: Lists,
    /// The last look by which an instruction was found; [`DONE`] behind the one that found it done.
    found: Vec<u32>,
    looks: u32,
    /// What is being looked at together.
    all: Vec<u32>,
    /// Bytes of registers that what is done holds for what is not.
    held: u32,
}

impl Sinker<'_> {
    /// For each instruction of a block, whether it stays; those that do more than compute do. An order that holds more than is wanted is noted, and not
    /// looked at to its end.
    pub(super) fn stays(&mut self, block: &[Inst], n: u32, nested: &[(usize, Inside)], bytes: &dyn Fn(LVal) -> u32) -> Vec<bool> {
        let sizes = self.wanted.map_or(&[][..], |wanted| wanted.sizes);
        let mut numbers = std::mem::replace(&mut self.numbers, Table::new(0, 0, UNNUMBERED));
        let (mut values, mut rows): (Vec<LVal>, Vec<Row>) = (Vec::with_capacity(2 * block.len()), Vec::with_capacity(2 * block.len()));
        let (mut reads, mut makes) = (Lists::new(block.len()), Lists::new(block.len()));
        let mut number = |v: LVal| match numbers.get(v) {
            UNNUMBERED => {
                let place = self.place(v, n).map_or(ELSEWHERE, |k| k as u32);
                rows.push(Row {
                    place,
                    bytes: bytes(v),
                    left: self.leaves.get(v).into(),
                    reads: 0,
                    registers: sizes.get(v.index()).map_or(0, |&bytes| bytes),
                    held: false,
                });
                values.push(v);
                let new = rows.len() as u32 - 1;
                numbers.set(v, new);
                new
            }
            known => known,
        };
        for (k, inst) in block.iter().enumerate() {
            let first = reads.rows.len();
            match inside(nested, k) {
                Some(inside) => inside.reads.iter().for_each(|&v| reads.rows.push(number(v))),
                None => inst.operands(|v, _| {
                    let v = number(v);
                    if !reads.rows[first..].contains(&v) {
                        reads.rows.push(v);
                    }
                }),
            }
            reads.end();
            inst.results().iter().for_each(|&v| makes.rows.push(number(v)));
            makes.end();
        }
        values.into_iter().for_each(|v| numbers.set(v, UNNUMBERED));
        self.numbers = numbers;
        reads.rows.iter().for_each(|&v| rows[v as usize].left += 1);
        let mut walk = Walk { block, rows, reads, makes, found: vec![0; block.len()], looks: 0, all: Vec::new(), held: 0 };
        let mut stays = Vec::with_capacity(block.len());
        for k in 0..block.len() as u32 {
            let here = walk.stays(k);
            stays.push(here);
            // What is done here is done when the order comes to this instruction.
            let over = self.wanted.and_then(|wanted| match walk.held {
                held if held > wanted.most => Some(Over::Most(held)),
                held if here && held > wanted.across && (wanted.branches)(&block[k as usize]) => Some(Over::Across),
                _ => None,
            });
            if over.is_some() {
                self.over = over;
                break;
            }
        }
        stays
    }
}

impl Walk<'_> {
    /// Looks at an instruction and what it needs of the block that is not done, and counts what they read; false, and nothing is counted, if they
    /// are more than `most`.
    fn waiting(&mut self, k: u32, most: usize) -> bool {
        let Walk { rows, reads, found, all, .. } = self;
        self.looks += 1;
        found[k as usize] = self.looks;
        all.clear();
        all.push(k);
        let mut at = 0;
        while let Some(&k) = all.get(at) {
            at += 1;
            for &v in reads.get(k) {
                let row = &mut rows[v as usize];
                row.reads += 1;
                let Some(seen) = found.get_mut(row.place as usize) else { continue };
                if *seen < self.looks {
                    *seen = self.looks;
                    all.push(row.place);
                }
            }
            if all.len() > most {
                all[..at].iter().for_each(|&k| reads.get(k).iter().for_each(|&v| rows[v as usize].reads = 0));
                return false;
            }
        }
        true
    }

    /// True if an instruction is done where it stands, which is noted.
    fn stays(&mut self, k: u32) -> bool {
        if self.found[k as usize] == DONE {
            return false;
        }
        let moves = computed(&self.block[k as usize]).is_some();
        if !self.waiting(k, if moves { TOGETHER } else { usize::MAX }) || (moves && !self.frees()) {
            return false;
        }
        for &k in &self.all {
            self.found[k as usize] = DONE;
            for &v in self.reads.get(k) {
                let row = &mut self.rows[v as usize];
                row.left = row.left.saturating_sub(1);
                row.reads = 0;
                if row.left == 0 && row.held {
                    row.held = false;
                    self.held -= row.registers;
                }
            }
        }
        for &k in &self.all {
            for &v in self.makes.get(k) {
                let row = &mut self.rows[v as usize];
                row.held = row.left > 0;
                self.held += if row.held { row.registers } else { 0 };
            }
        }
        true
    }

    /// True if the instructions that are looked at leave together no more in use than they find. Nothing is counted behind that.
    fn frees(&mut self) -> bool {
        let Walk { rows, reads, makes, all, .. } = self;
        let mut made = 0;
        for &k in &*all {
            for &v in makes.get(k) {
                let row = &mut rows[v as usize];
                let within = std::mem::take(&mut row.reads);
                made += if row.left > within { row.bytes } else { 0 };
            }
        }
        // The rest is what others have made; what comes from outside of the block may be read in its next run.
        let mut ended = 0;
        for &k in &*all {
            for &v in reads.get(k) {
                let row = &mut rows[v as usize];
                let n = std::mem::take(&mut row.reads);
                ended += if n > 0 && row.left <= n && row.place != ELSEWHERE { row.bytes } else { 0 };
            }
        }
        made <= ended
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Moves, Over, WantedOrder, sink};
    use crate::inst::{Block, For, If, Inst};
    use crate::nest::Nest;
    use crate::op::BinOp;
    use crate::pressure::{Pressure, branches, pressure, sizes};
    use crate::testing::{Asm, memory};
    use crate::value::{Carried, LTy, LVal, Special};
    use crate::visit::computed;
    use cranelift_entity::EntityRef;
    use tilelift_interp::Buffer;

    /// Moves computations of a program; what takes no registers more than it frees stays.
    fn sunk(a: &mut Asm) {
        sunk_to(a, u32::MAX, u32::MAX).expect("any order is wanted");
    }

    /// The same, if no more bytes are held at once, as far as that is seen.
    fn sunk_to(a: &mut Asm, most: u32, across: u32) -> Result<(), Over> {
        let sizes = sizes(&a.p.body, &a.p.vals);
        let nest = Nest::of(&a.p.body);
        let taken = |v: LVal| sizes[v.index()].max(1);
        let vals = a.p.vals.clone();
        let wanted = WantedOrder { sizes: &sizes, most, across, branches: &|inst| branches(inst, &vals) };
        let moves = Moves { stays: Some(&taken), wanted: Some(wanted), ..Moves::default() };
        sink(&mut a.p.body, &nest, [0, a.p.vals.len()], moves)
    }

    fn bytes(a: &Asm) -> u32 {
        pressure(&a.p.body, &a.p.vals, &sizes(&a.p.body, &a.p.vals)).most
    }

    /// Where a value is made in a block.
    fn at(a: &Asm, v: LVal) -> usize {
        a.p.body.iter().position(|i| i.results().contains(&v)).expect("it is made there")
    }

    #[test]
    fn what_frees_its_operands_is_not_put_off() {
        let mut a = Asm::new(1);
        let base = a.alloc(64);
        let x: Vec<LVal> = (0..2).map(|n| a.load_shared(base, 4 * n, LTy::I32)).collect();
        let sum = a.bin(BinOp::Add, x[0], x[1]);
        // Needs a literal, which waits, and goes with it.
        let two = a.i32(2);
        let half = a.bin(BinOp::Div, sum, two);
        let more = a.bin(BinOp::Add, half, base);
        let y: Vec<LVal> = (0..4).map(|n| a.load_shared(base, 8 + 4 * n, LTy::I32)).collect();
        a.store_shared(base, 0, &[more, half]);
        a.store_shared(base, 16, &y);
        sunk(&mut a);
        assert!(at(&a, half) < at(&a, y[0]), "{}", a.p);
        assert!(at(&a, more) > at(&a, y[3]), "one more, for its operands stay: {}", a.p);
    }

    #[test]
    fn chains_over_what_stays_are_computed_one_by_one() {
        let mut a = Asm::new(1);
        let base = a.alloc(256);
        let scale = a.load_shared(base, 0, LTy::I32);
        let x: Vec<LVal> = (0..16).map(|n| a.load_shared(base, 4 * n, LTy::I32)).collect();
        let y: Vec<LVal> = x.iter().map(|&v| a.bin(BinOp::Mul, v, scale)).collect();
        let z: Vec<LVal> = y.iter().map(|&v| a.bin(BinOp::Xor, v, scale)).collect();
        let w: Vec<LVal> = y.iter().zip(&z).map(|(&y, &z)| a.bin(BinOp::Add, y, z)).collect();
        w.iter().enumerate().for_each(|(n, &v)| a.store_shared(base, 4 * n as i32, &[v]));
        assert_eq!(bytes(&a), 4 * (2 + 16 + 16));
        sunk(&mut a);
        assert_eq!(bytes(&a), 4 * (2 + 15 + 3), "all but one operand, and a chain");
    }

    #[test]
    fn what_a_block_hands_on_is_still_there() {
        // x + i is read behind the body, so that a sum with it frees nothing.
        let mut a = Asm::new(1);
        let base = a.alloc(64);
        let zero = a.i32(0);
        let (iv, param, result) = (a.val(LTy::I32), a.val(LTy::I32), a.val(LTy::I32));
        let outer = std::mem::take(&mut a.p.body);
        let next = a.load_shared(base, 0, LTy::I32);
        let one_more = a.bin(BinOp::Add, next, next);
        let y = a.load_shared(base, 4, LTy::I32);
        a.store_shared(base, 8, &[one_more, y]);
        let body = std::mem::replace(&mut a.p.body, outer);
        let carried = vec![Carried { param, init: zero, next, result }];
        a.push(Inst::For(Box::new(For { iv, lo: zero, hi: zero, step: zero, runs: false, carried, body })));
        sunk(&mut a);
        let Some(Inst::For(l)) = a.p.body.last() else { panic!("a loop") };
        let order: Vec<LVal> = l.body.iter().flat_map(|i| i.results().to_vec()).collect();
        assert_eq!(order, [next, y, one_more]);
    }

    /// A random number below `n`.
    fn below(state: &mut u64, n: usize) -> usize {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((*state >> 33) as usize) % n
    }

    /// Appends random instructions; gives the values that are there behind them.
    fn random(a: &mut Asm, state: &mut u64, [base, many]: [LVal; 2], mut there: Vec<LVal>, depth: u32) -> Vec<LVal> {
        for _ in 0..12 + below(state, 24) {
            let pick = |state: &mut u64, there: &[LVal]| there[there.len() - 1 - below(state, there.len().min(24))];
            match below(state, 12) {
                0 | 1 => there.push(a.load_shared(base, 4 * below(state, 16) as i32, LTy::I32)),
                2 => {
                    let v = pick(state, &there);
                    a.store_shared(base, 4 * below(state, 16) as i32, &[v]);
                }
                3 => a.push(Inst::Barrier),
                4 if depth > 0 => {
                    let (iv, param, result, init) = (a.val(LTy::I32), a.val(LTy::I32), a.val(LTy::I32), pick(state, &there));
                    let (lo, step) = (a.i32(0), a.i32(1));
                    let outer = std::mem::take(&mut a.p.body);
                    let inner = [&there[..], &[iv, param]].concat();
                    let made = random(a, state, [base, many], inner, depth - 1);
                    let body = std::mem::replace(&mut a.p.body, outer);
                    let carried = vec![Carried { param, init, next: made[made.len() - 1], result }];
                    a.push(Inst::For(Box::new(For { iv, lo, hi: many, step, runs: false, carried, body })));
                    there.push(result);
                }
                5 if depth > 0 => {
                    let (result, yes) = (a.val(LTy::I32), a.constant(LTy::I1, below(state, 2) as u64));
                    let mut arm = |a: &mut Asm| {
                        let outer = std::mem::take(&mut a.p.body);
                        let made = random(a, state, [base, many], there.clone(), depth - 1);
                        (std::mem::replace(&mut a.p.body, outer), made[made.len() - 1])
                    };
                    let ((then, x), (otherwise, y)) = (arm(a), arm(a));
                    a.push(Inst::If(Box::new(If { condition: yes, results: vec![(result, x, y)], then, otherwise })));
                    there.push(result);
                }
                n => {
                    let op = [BinOp::Add, BinOp::Mul, BinOp::Xor, BinOp::Sub][n % 4];
                    let (x, y) = (pick(state, &there), pick(state, &there));
                    there.push(a.bin(op, x, y));
                }
            }
        }
        there
    }

    /// Instructions that do more than compute, in order, blocks inside included.
    fn acts(block: &Block, out: &mut Vec<String>) {
        for inst in block {
            match crate::visit::blocks(inst) {
                inner if !inner.is_empty() => inner.into_iter().for_each(|b| acts(b, out)),
                _ if computed(inst).is_none() => out.push(format!("{inst:?}")),
                _ => {}
            }
        }
    }

    #[test]
    fn random_programs_do_the_same_in_the_same_order() {
        let (mut moved, mut fewer, mut given_up) = (0, 0, [0; 2]);
        for seed in 0..200u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut a = Asm::new(1);
            // Each lane has words of its own.
            let (all, lane, stride) = (a.alloc(32 * 64), a.special(Special::Lane), a.i32(64));
            let base = a.def(LTy::I32, |dst| Inst::Fma { dst, a: lane, b: stride, c: all });
            let (many, zero) = (a.i32(3), a.i32(0));
            (0..16).for_each(|n| a.store_shared(base, 4 * n, &[zero]));
            let first = vec![a.load(0, LTy::I32), lane];
            let there = random(&mut a, &mut state, [base, many], first, 2);
            let last: Vec<LVal> = (0..16).map(|n| a.load_shared(base, 4 * n, LTy::I32)).collect();
            let sum = last.iter().chain(&there).copied().reduce(|x, y| a.bin(BinOp::Add, x, y)).expect("values");
            a.store(1, &[sum]);
            let (mut before, mut order) = (buffers(), Vec::new());
            let ran = a.run(&mut before);
            acts(&a.p.body, &mut order);
            let (most, text) = (bytes(&a), a.p.to_string());
            let body = a.p.body.clone();
            sunk(&mut a);
            // An order that is given up holds too much indeed.
            let Pressure { most: held, across } = pressure(&a.p.body, &a.p.vals, &sizes(&a.p.body, &a.p.vals));
            let any = u32::MAX;
            for (most, wanted) in [(held, across), (held - 1, any), (held / 2, any), (any, across.saturating_sub(1)), (any, across / 2)] {
                let sunk = std::mem::replace(&mut a.p.body, body.clone());
                match sunk_to(&mut a, most, wanted) {
                    Ok(()) => assert_eq!(a.p.body, sunk, "seed {seed}"),
                    Err(Over::Most(least)) => {
                        assert!(most < least && least <= held, "seed {seed}: {least} of {held}, {most} wanted");
                        given_up[0] += 1;
                    }
                    Err(Over::Across) => {
                        assert!(wanted < across, "seed {seed}: {across} across branches, {wanted} wanted");
                        given_up[1] += 1;
                    }
                }
                a.p.body = sunk;
            }
            let (mut after, mut same) = (buffers(), Vec::new());
            acts(&a.p.body, &mut same);
            assert_eq!(order, same, "seed {seed}");
            assert!(ran.is_ok() && a.run(&mut after).is_ok(), "seed {seed}: {ran:?}\n{text}");
            assert_eq!(before.buffers[1].bytes(), after.buffers[1].bytes(), "seed {seed}\n{text}\n{}", a.p);
            moved += u32::from(text != a.p.to_string());
            fewer += u32::from(bytes(&a) < most);
        }
        assert!(moved > 150 && fewer > 100, "{moved} changed, {fewer} take fewer registers");
        assert!(given_up[0] > 150 && given_up[1] > 50, "{given_up:?} orders were given up");
    }

    fn buffers() -> tilelift_interp::Memory {
        let words: Vec<u8> = (0..32u32).flat_map(|n| n.wrapping_mul(2654435761).to_le_bytes()).collect();
        memory([Buffer::from_bytes(words), Buffer::zeroed(128)])
    }
}
