//! Puts computations that only one arm of a choice needs into that arm.
//!
//! The builder puts what it computes as far out as it can be known. Where a choice decides whether it is needed at all, that is too far:
//!
//! ```text
//! m = cmp …; s = select m …; if c { x } else { s }      becomes      if c { x } else { m = cmp …; s = select m … }
//! ```
//!
//! Nothing moves into a loop.

use super::inst::{Block, Inst};
use super::value::LVal;
use super::visit::{blocks_mut, computed, reads};
use crate::hash::Map;

/// Who needs a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum User {
    /// An arm of the choice at that place of the block: the first, or the other.
    Arm(usize, bool),
    /// Something else, or more than one.
    Any,
}

/// Moves the computations of a block and of the blocks inside it; `results` are the block's values that something around it reads.
pub(super) fn into_arms(block: &mut Block, results: &[LVal]) {
    let choices = block.iter().any(|i| matches!(i, Inst::If(_)));
    if choices {
        narrow(block, results);
    }
    block.iter_mut().flat_map(blocks_mut).for_each(|(inner, results)| into_arms(inner, &results));
}

fn narrow(block: &mut Block, results: &[LVal]) {
    let mut users: Map<LVal, User> = Map::default();
    let need = |users: &mut Map<LVal, User>, v: LVal, who: User| {
        users.entry(v).and_modify(|old| *old = if *old == who { who } else { User::Any }).or_insert(who);
    };
    results.iter().for_each(|&v| need(&mut users, v, User::Any));
    // Where each computation goes; users come before what they use.
    let mut goes: Vec<Option<(usize, bool)>> = vec![None; block.len()];
    for (n, inst) in block.iter().enumerate().rev() {
        if let Inst::If(c) = inst {
            need(&mut users, c.condition, User::Any);
            for &(_, a, b) in &c.results {
                need(&mut users, a, User::Arm(n, true));
                need(&mut users, b, User::Arm(n, false));
            }
            for (arm, first) in [(&c.then, true), (&c.otherwise, false)] {
                arm.iter().for_each(|i| reads(i, &mut |v| need(&mut users, v, User::Arm(n, first))));
            }
            continue;
        }
        let mut who = User::Any;
        if let Some(made) = computed(inst) {
            let mut all = made.iter().filter_map(|v| users.get(v).copied());
            if let Some(User::Arm(at, first)) = all.next()
                && all.all(|u| u == User::Arm(at, first))
            {
                who = User::Arm(at, first);
                goes[n] = Some((at, first));
            }
        }
        reads(inst, &mut |v| need(&mut users, v, who));
    }
    if goes.iter().all(Option::is_none) {
        return;
    }
    let mut moved: Map<(usize, bool), Block> = Map::default();
    for (n, inst) in std::mem::take(block).into_iter().enumerate() {
        if let Some(to) = goes[n] {
            moved.entry(to).or_default().push(inst);
            continue;
        }
        block.push(inst);
        if let Some(Inst::If(c)) = block.last_mut() {
            for (arm, first) in [(&mut c.then, true), (&mut c.otherwise, false)] {
                let mut front = moved.remove(&(n, first)).unwrap_or_default();
                front.append(arm);
                *arm = front;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inst::If;
    use crate::interp::tests::Asm;
    use crate::op::BinOp;
    use crate::value::LTy;

    #[test]
    fn what_one_arm_needs_moves_into_it_and_what_both_need_stays() {
        let mut a = Asm::new(1);
        let base = a.alloc(8);
        let [x, y] = [a.i32(3), a.i32(4)];
        let both = a.bin(BinOp::Add, x, y);
        let inner = a.bin(BinOp::Mul, both, y);
        let one = a.bin(BinOp::Add, inner, y);
        let condition = a.constant(LTy::I1, 0);
        let r = a.val(LTy::I32);
        a.push(Inst::If(Box::new(If { condition, then: Block::new(), otherwise: Block::new(), results: vec![(r, both, one)] })));
        a.store_shared(base, 0, &[r]);
        into_arms(&mut a.p.body, &[]);
        let Some(Inst::If(c)) = a.p.body.iter().find(|i| matches!(i, Inst::If(_))) else { panic!() };
        let made: Vec<LVal> = c.otherwise.iter().flat_map(|i| computed(i).unwrap_or(&[]).to_vec()).collect();
        assert_eq!((made, c.then.len()), (vec![inner, one], 0));
        assert!(a.p.body.iter().any(|i| computed(i) == Some(&[both])));
        a.run(&mut Default::default()).unwrap();
    }
}
