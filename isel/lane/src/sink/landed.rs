//! What is computed of products that have landed, in front of those that take their registers.
//!
//! ```text
//! loop carry p        wait p; y = add p, x; p' = multiply … ; yield p'
//! ```
//!
//! A product that a loop hands on in flight takes the registers of the one before. What reads that one stays in front of it: behind it, both would be there, and
//! registers in flight would be copied.

use super::order::PARAM;
use super::{Sinker, moves};
use crate::hash::Map;
use crate::inst::{Block, Inst};
use crate::unit::{Multiply, Unit};
use crate::value::LVal;

/// The product of an instruction.
fn product(inst: &Inst) -> Option<&Multiply> {
    let Inst::Unit(u) = inst else { return None };
    match &**u {
        Unit::Multiply(m) => Some(m),
        _ => None,
    }
}

impl Sinker<'_> {
    /// What has to be computed in front of a block's products, by the place of the product, or of its fence.
    pub(super) fn landed(&self, block: &Block, n: u32) -> Map<usize, Vec<LVal>> {
        let mut out: Map<usize, Vec<LVal>> = Map::default();
        let Some(carried) = self.carried.get(&n) else { return out };
        let param = |v: LVal| {
            let maker = self.makers.get(v);
            maker.block == n && maker.at == PARAM
        };
        // The instructions that may move and read what the loop carries, and what that is.
        let mut readers: Vec<(usize, LVal)> = Vec::new();
        for (at, inst) in block.iter().enumerate() {
            if moves(inst, self.loads.is_some()).is_some() {
                inst.operands(|v, _| readers.extend(param(v).then_some((at, v))));
            }
        }
        let multiplied = |v: LVal| self.place(v, n).is_some_and(|at| product(&block[at]).is_some());
        let read = |v: LVal| readers.iter().any(|r| r.1 == v);
        let mut of: Map<LVal, LVal> = carried.iter().filter(|c| multiplied(c[1]) && read(c[0])).map(|c| (c[1], c[0])).collect();
        if of.is_empty() {
            return out;
        }
        // Where the registers of each are first taken.
        let mut taken: Map<LVal, usize> = Map::default();
        for (at, m) in block.iter().enumerate().rev().filter_map(|(at, i)| Some((at, product(i)?))) {
            for (&dst, &c) in m.dsts.iter().zip(&m.c) {
                if let Some(&p) = of.get(&dst) {
                    of.insert(c, p);
                    taken.insert(p, at);
                }
            }
        }
        let fence = |at: usize| block[..at].iter().rposition(|i| matches!(i, Inst::Unit(u) if **u == Unit::FenceMatrices));
        for (at, p) in readers {
            let Some(&by) = taken.get(&p).filter(|&&by| at < by) else { continue };
            let place = fence(by).filter(|&f| at < f).unwrap_or(by);
            out.entry(place).or_default().extend(block[at].results());
        }
        out
    }
}
