//! The last steps: dead instructions go, computations go to where they are needed, products get words of their own, allocations get their places.

use super::LaneBuilder;
use crate::choice::into_arms;
use crate::inst::{Block, Inst};
use crate::into_loops::into_loops;
use crate::nest::Nest;
use crate::own_words::own_words;
use crate::place::place;
use crate::pressure::{Pressure, branches, pressure, sizes};
use crate::program::Program;
use crate::sink::{Moves, Over, WantedOrder, sink};
use crate::sweep::sweep;
use crate::unit::Unit;
use crate::value::LVal;
use crate::visit::blocks;
use cranelift_entity::{EntityRef, SecondaryMap};
use tilelift_decisions::{Decision, Told, taken};

/// Registers of a lane from which on fewer run at once than hide what they wait for: 1024 lanes have the 65536 of a multiprocessor.
const WANTED: u32 = 64;
/// The order changes if one register in so many becomes free: what waits side by side in the order that was, no longer does.
const WORTH: u32 = 4;

/// True if there are matrix instructions. Where they are, registers hold sums, and loops copy ahead in an order of their own.
fn multiplies(block: &Block) -> bool {
    block.iter().any(|i| match i {
        Inst::Matrix(_) | Inst::Roles(_) => true,
        Inst::Unit(u) => matches!(**u, Unit::Multiply(_)),
        other => blocks(other).any(multiplies),
    })
}

impl LaneBuilder {
    /// The program: dead instructions gone, computations near their uses where registers ask for it, allocations placed.
    pub fn finish(mut self) -> Program {
        let (mut body, _) = self.close();
        let mut live = SecondaryMap::with_default(false);
        sweep(&mut body, &mut live);
        let values = [0, self.program.vals.len()];
        if self.into_arms {
            let nest = Nest::of(&body);
            into_arms(&mut body, &nest, values);
        }
        body = self.depth_first(body);
        let mut vals = std::mem::take(&mut self.program.vals);
        own_words(&mut body, &mut vals, &|v| self.as_const(v).is_some());
        self.program.vals = vals;
        self.program.body = body;
        self.program.shared_bytes = place(&mut self.program.allocs, &self.lives, &self.owners);
        self.program
    }

    /// A body with its computations in front of what needs them, if it takes more registers than are wanted and fewer like that. Where an assembler orders
    /// anew what stands between two branches, what is held across them, if anything is, has to be less as well: else registers stay as many, and loads that
    /// stood side by side end up apart.
    fn depth_first(&self, body: Block) -> Block {
        if multiplies(&body) {
            return body;
        }
        let sizes = sizes(&body, &self.program.vals);
        let Pressure { most: before, across } = pressure(&body, &self.program.vals, &sizes);
        if before <= 4 * WANTED {
            return body;
        }
        let mut sunk = body.clone();
        into_loops(&mut sunk, &|v| self.as_const(v).is_some());
        // A condition that waits for nothing is not made early.
        let bytes = |v: LVal| match sizes[v.index()] {
            0 if self.as_const(v).is_none() => 1,
            n => n,
        };
        let nest = Nest::of(&sunk);
        let less = |bytes: u32| bytes - bytes / WORTH;
        let most = less(before);
        let across = if self.orders_anew { less(across) } else { u32::MAX };
        let wanted = WantedOrder { sizes: &sizes, most, across, branches: &|inst| branches(inst, &self.program.vals) };
        let moves = Moves { loads: None, stays: Some(&bytes), wanted: Some(wanted) };
        let ordered = sink(&mut sunk, &nest, [0, sizes.len()], moves).map(|()| pressure(&sunk, &self.program.vals, &sizes));
        let sinks = ordered.is_ok_and(|p| p.most <= most && p.across <= across);
        taken(Decision::LaneOrder, || {
            // Of an order that is given up it is known what it holds at least, if it is for that.
            let after = match ordered {
                Ok(p) => Some(p.most.into()),
                Err(Over::Most(least)) => Some(least.into()),
                Err(Over::Across) => None,
            };
            match after {
                Some(after) if sinks => Told::at("depth first", after).before("as lowered", Some(before.into())),
                after => Told::at("as lowered", before.into()).before("depth first", after),
            }
        });
        if sinks { sunk } else { body }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::AllocId;
    use crate::op::BinOp;
    use crate::value::{LTy, Special, Vals};
    use std::convert::Infallible;

    /// A program that loads so many words, and the chain of each.
    fn chains(many: usize) -> Program {
        let mut b = LaneBuilder::new("k", 1, 32);
        let alloc = b.alloc(1024, "test");
        let base = b.shared_addr(alloc);
        let scale = b.special(Special::Lane);
        let x: Vec<LVal> = (0..many).map(|n| b.load_shared(&[LTy::I32], alloc, base, 4 * n as i32)[0]).collect();
        chain(&mut b, &x, scale, (alloc, base));
        b.finish()
    }

    /// Does three things with each word, all with the first before all with the second, and stores them.
    fn chain(b: &mut LaneBuilder, x: &[LVal], scale: LVal, (alloc, base): (AllocId, LVal)) {
        let y: Vec<LVal> = x.iter().map(|&x| b.bin(BinOp::Mul, x, scale)).collect();
        let z: Vec<LVal> = y.iter().map(|&y| b.bin(BinOp::Xor, y, scale)).collect();
        let w: Vec<LVal> = y.iter().zip(&z).map(|(&y, &z)| b.add(y, z)).collect();
        w.iter().enumerate().for_each(|(n, &w)| b.store_shared(Vals::from_slice(&[w]), alloc, base, 4 * n as i32, None));
    }

    /// Instructions in front of the first store.
    fn in_front(p: &Program) -> usize {
        p.body.iter().take_while(|i| !matches!(i, Inst::StoreShared { .. })).count()
    }

    #[test]
    fn chains_are_computed_one_by_one_where_registers_are_many() {
        // The products are stored last if nobody puts them elsewhere.
        let (few, many) = (chains(16), chains(64));
        assert_eq!(in_front(&few), 2 + 16 * 4, "few stay in their order: {few}");
        assert_eq!(in_front(&many), 2 + 64 + 3, "many do not: {many}");
        assert_eq!([few.registers(), many.registers()], [2 + 2 * 16, 2 + 63 + 3]);
    }

    #[test]
    fn what_is_held_across_branches_in_any_order_lets_the_others_stay() {
        // Sixty-four words are loaded in front of a loop, or behind it. Behind it three things are computed of each.
        let program = |ahead: bool, orders_anew: bool| {
            let mut b = LaneBuilder::new("k", 1, 32);
            b.orders_anew = orders_anew;
            let alloc = b.alloc(1024, "test");
            let base = b.shared_addr(alloc);
            let lane = b.special(Special::Lane);
            let load = |b: &mut LaneBuilder| (0..64).map(|n| b.load_shared(&[LTy::I32], alloc, base, 4 * n)[0]).collect();
            let early: Vec<LVal> = if ahead { load(&mut b) } else { Vec::new() };
            let bounds = [0, 256, 1].map(|n| b.i32(n));
            let done: Result<Vec<LVal>, Infallible> = b.for_loop(&mut (), bounds, &[], |(), b, iv, _| {
                b.store_shared(Vals::from_slice(&[iv]), alloc, base, 512, None);
                Ok(Vec::new())
            });
            assert_eq!(done, Ok(Vec::new()));
            let x = if ahead { early } else { load(&mut b) };
            chain(&mut b, &x, lane, (alloc, base));
            let p = b.finish();
            let last = p.body.iter().rposition(|i| matches!(i, Inst::Bin { .. }));
            let first = p.body.iter().position(|i| matches!(i, Inst::StoreShared { .. }));
            first < last
        };
        assert_eq!(
            [(true, false), (false, false), (true, true), (false, true)].map(|(ahead, anew)| program(ahead, anew)),
            [true, true, false, true]
        );
    }

    #[test]
    fn constants_of_a_place_are_added_inside_of_the_loop() {
        let mut b = LaneBuilder::new("k", 1, 32);
        let alloc = b.alloc(4096, "test");
        let base = b.shared_addr(alloc);
        let lane = b.special(Special::Lane);
        let places: Vec<LVal> = (0..8).map(|n| b.add_const(lane, 32 * n)).collect();
        let bounds = [0, 256, 1].map(|n| b.i32(n));
        let done: Result<Vec<LVal>, Infallible> = b.for_loop(&mut (), bounds, &[], |(), b, iv, _| {
            for &p in &places {
                let v = b.add(p, iv);
                b.store_shared(Vals::from_slice(&[v]), alloc, base, 0, None);
            }
            Ok(Vec::new())
        });
        assert_eq!(done, Ok(Vec::new()));
        let p = b.finish();
        // The address, the lane and the counter, their sum and one place.
        assert!(p.registers() <= 5, "{} in {p}", p.registers());
        let adds = |block: &Block| block.iter().filter(|i| matches!(i, Inst::Bin { op: BinOp::Add, .. })).count();
        assert_eq!(adds(&p.body), 0, "{p}");
    }
}
