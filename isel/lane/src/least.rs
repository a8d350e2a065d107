//! Registers that a block takes in whatever order its computations stand.
//!
//! ```text
//! x = load            1     instructions that do more than compute stay in their order, and are numbered
//! m = shuffle x       2
//! y = sub x, m              behind number 2, wherever y stands, x and m are held: y needs both
//! store y             3
//! ```
//!
//! A computation is done in front of the first of those that need it, itself or through others, and behind the last of those whose results it needs. So in any
//! order a value is held from the one on in front of which its maker must be done, up to the last one behind which something that reads it is done. Where that
//! is no place at all, something made of the value may be held instead: that is not counted, so that it may be more.

use super::inst::{Block, Control, Inst};
use super::value::LVal;
use super::visit::{computed, reads, results};
use cranelift_entity::EntityRef;

/// The number of nothing.
const NONE: u32 = u32::MAX;

/// The bytes of values that are held at some place in any order of a program's body; 0, which is always true, where it has loops: computations go into these.
pub(super) fn least(body: &Block, sizes: &[u32]) -> u32 {
    let loops = |i: &Inst| matches!(i.control(), Some(Control::For(_) | Control::While(_) | Control::Roles(_)));
    if body.iter().any(loops) {
        return 0;
    }
    // The instruction behind each value, and of each instruction its own number, or that of the last one whose results it needs.
    let mut makers = vec![NONE; sizes.len()];
    let mut behind = Vec::with_capacity(body.len());
    let mut until: Vec<Option<u32>> = vec![None; sizes.len()];
    let mut count = 0;
    for (k, inst) in body.iter().enumerate() {
        let maker = |makers: &[u32], v: LVal| makers.get(v.index()).copied().filter(|&m| m != NONE);
        if computed(inst).is_some() {
            let mut last = 0;
            inst.operands(|v, _| last = last.max(maker(&makers, v).map_or(0, |m| behind[m as usize])));
            inst.operands(|v, _| until[v.index()] = until[v.index()].max(Some(last)));
            behind.push(last);
            inst.results().iter().for_each(|v| makers[v.index()] = k as u32);
        } else {
            // What it reads is held up to the one in front of it.
            reads(inst, &mut |v| until[v.index()] = until[v.index()].max(Some(count)));
            count += 1;
            behind.push(count);
            results(inst).into_iter().for_each(|v| makers[v.index()] = k as u32);
        }
    }
    // The number of the first one that needs each instruction; their own of those that have one.
    let mut need = vec![NONE; body.len()];
    for (k, inst) in body.iter().enumerate().rev() {
        if computed(inst).is_none() {
            need[k] = behind[k];
        }
        let first = need[k];
        reads(inst, &mut |v| {
            if let Some(m) = makers.get(v.index()).filter(|m| **m != NONE) {
                need[*m as usize] = need[*m as usize].min(first);
            }
        });
    }
    let mut steps = vec![0i64; count as usize + 2];
    for ((&maker, until), &bytes) in makers.iter().zip(until).zip(sizes) {
        let Some(until) = until.filter(|_| maker != NONE) else { continue };
        let from = need[maker as usize];
        if from <= until {
            steps[from as usize] += i64::from(bytes);
            steps[until as usize + 1] -= i64::from(bytes);
        }
    }
    let mut held = 0;
    steps.into_iter().fold(0, |most, step| {
        held += step;
        most.max(held)
    }) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inst::If;
    use crate::op::BinOp;
    use crate::pressure::{peak, sizes};
    use crate::testing::Asm;
    use crate::value::{LTy, ShuffleFrom};

    /// Loads so many words; takes from each what another lane has of their sum, if that is asked for, and stores them.
    fn words(count: i32, centred: bool) -> Asm {
        let mut a = Asm::new(1);
        let base = a.alloc(4 * 64);
        let x: Vec<LVal> = (0..count).map(|n| a.load_shared(base, 4 * n, LTy::I32)).collect();
        let sum = x.iter().copied().reduce(|x, y| a.bin(BinOp::Add, x, y)).expect("words");
        let other = if centred { a.def(LTy::I32, |dst| Inst::Shuffle { dst, a: sum, from: ShuffleFrom::Xor(1) }) } else { base };
        let y: Vec<LVal> = x.iter().map(|&x| a.bin(BinOp::Sub, x, other)).collect();
        y.iter().enumerate().for_each(|(n, &y)| a.store_shared(base, 4 * n as i32, &[y]));
        a
    }

    #[test]
    fn what_waits_for_others_is_held() {
        let a = words(32, true);
        let sizes = sizes(&a.p.body, &a.p.vals);
        assert_eq!(least(&a.p.body, &sizes), 4 * (1 + 32 + 1), "the address, all words, and what the other lane has");
        assert_eq!(peak(&a.p.body, &sizes), 4 * (1 + 32 + 1 + 1), "and the sum that the other lane takes");
    }

    #[test]
    fn what_waits_for_nothing_need_not_be() {
        let a = words(32, false);
        let sizes = sizes(&a.p.body, &a.p.vals);
        // Of a word either itself or the difference is held, and nobody says which: such words do not count.
        let fewest = least(&a.p.body, &sizes);
        assert!(fewest < 4 * 32 && peak(&a.p.body, &sizes) >= 4 * (1 + 32), "{fewest}");
    }

    #[test]
    fn what_a_choice_reads_is_held_up_to_it() {
        let mut a = Asm::new(1);
        let base = a.alloc(64);
        let [x, y] = [0, 4].map(|at| a.load_shared(base, at, LTy::I32));
        let c = a.constant(LTy::I1, 1);
        let outer = std::mem::take(&mut a.p.body);
        let sum = a.bin(BinOp::Add, x, y);
        a.store_shared(base, 8, &[sum]);
        let then = std::mem::replace(&mut a.p.body, outer);
        a.push(Inst::If(Box::new(If { condition: c, results: Vec::new(), then, otherwise: Vec::new() })));
        let sizes = sizes(&a.p.body, &a.p.vals);
        assert_eq!(least(&a.p.body, &sizes), 4 * 3);
    }
}
