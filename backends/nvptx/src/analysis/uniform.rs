//! What the assembler knows to be alike in all lanes of a warp. All control flow and all addresses of units are, but it does not see why: it takes what is loaded
//! to differ, and what is computed where that decides which way to go.
//!
//! ```text
//! for i in 0..extent      uniform registers: one instruction adds 64 bits to a descriptor
//! for i in 0..loaded      registers of lanes: two, and their carry; words are copied to uniform registers for each product
//! ```

use super::visit::{Nest, nest};
use cranelift_entity::SecondaryMap;
use tilelift_isel::lane::visit::{computed, results};
use tilelift_isel::lane::{Block, Carried, Inst, LVal, Program, Special};

/// The values that are not known to be alike.
pub(crate) struct Uniform {
    torn: SecondaryMap<LVal, bool>,
    /// Products stand where lanes may be seen to come apart.
    apart: bool,
    changed: bool,
}

impl Uniform {
    /// Looks for them, if they are asked for.
    pub(crate) fn new(program: &Program, asked: bool) -> Uniform {
        let mut out = Uniform { torn: SecondaryMap::new(), apart: false, changed: asked };
        while std::mem::take(&mut out.changed) {
            out.block(&program.body, false);
        }
        out
    }

    /// True for a value that is known to be alike.
    pub(crate) fn holds(&self, v: LVal) -> bool {
        !self.torn[v]
    }

    /// True if what follows from constants alone is known to be alike wherever there are products.
    pub(crate) fn holds_at_products(&self) -> bool {
        !self.apart
    }

    fn tear(&mut self, v: LVal, torn: bool) {
        if torn && !self.torn[v] {
            self.torn[v] = true;
            self.changed = true;
        }
    }

    fn carried(&mut self, list: &[Carried], torn: bool) {
        for c in list {
            let torn = torn || self.torn[c.init] || self.torn[c.next];
            self.tear(c.param, torn);
            self.tear(c.result, torn);
        }
    }

    /// A block, which lanes may be seen to enter apart.
    fn block(&mut self, block: &Block, apart: bool) {
        for inst in block {
            match nest(inst) {
                Nest::For(l) => {
                    let apart = apart || [l.lo, l.hi, l.step].iter().any(|&v| self.torn[v]);
                    self.tear(l.iv, apart);
                    self.carried(&l.carried, apart);
                    self.block(&l.body, apart);
                }
                Nest::While(l) => {
                    let apart = apart || self.torn[l.condition];
                    self.carried(&l.carried, apart);
                    self.block(&l.test, apart);
                    self.block(&l.body, apart);
                }
                Nest::If(c) => {
                    let apart = apart || self.torn[c.condition];
                    self.block(&c.then, apart);
                    self.block(&c.otherwise, apart);
                    for &(result, a, b) in &c.results {
                        let torn = apart || self.torn[a] || self.torn[b];
                        self.tear(result, torn);
                    }
                }
                Nest::Roles(r) => r.roles.iter().for_each(|r| self.block(&r.body, apart)),
                Nest::Matrix { .. } => {
                    self.apart |= apart;
                    self.plain(inst, apart);
                }
                Nest::Plain => self.plain(inst, apart),
            }
        }
    }

    fn plain(&mut self, inst: &Inst, apart: bool) {
        let Some(made) = computed(inst) else {
            results(inst).into_iter().for_each(|v| self.tear(v, true));
            return;
        };
        let lane = matches!(inst, Inst::Special { what: Special::Lane, .. });
        let mut torn = apart || lane;
        inst.operands(|v, _| torn |= self.torn[v]);
        made.iter().for_each(|&v| self.tear(v, torn));
    }
}
