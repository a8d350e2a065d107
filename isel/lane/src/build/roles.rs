//! Roles and asynchronous units: what kernels with explicit control are made of, written by an author or by the compiler.

use super::{Filled, LaneBuilder};
use crate::choice::into_arms;
use crate::frame::Param;
use crate::inst::{Block, Inst, Role, Roles};
use crate::nest::Nest;
use crate::place::Life;
use crate::sink::{Loads, Moves, sink, words};
use crate::unit::{Multiply, Unit};
use crate::value::{LTy, LVal, Place, Vals};
use crate::visit::{blocks, computed};
use std::sync::Arc;
use tilelift_ir::Scalar;

/// Registers of a lane beside the values that are counted: what one chain of computations takes.
pub const SPARE: u32 = 24;

/// Registers that a quotient of f16 takes besides.
const QUOTIENT: u32 = 5;

/// The most quotients that one instruction makes.
fn widest_quotient(block: &Block) -> u32 {
    let own = |i: &Inst| if let Inst::Divide { dsts, .. } = i { dsts.len() as u32 } else { 0 };
    let inside = |i: &Inst| blocks(i).map(widest_quotient).max().unwrap_or(0);
    block.iter().map(|i| own(i).max(inside(i))).max().unwrap_or(0)
}

/// What a role is, but for its body.
#[derive(Clone, Copy)]
pub struct RoleSpec<'a> {
    /// Its name.
    pub name: &'a str,
    /// First warp and number of warps.
    pub warps: (u32, u32),
    /// Warps behind them that only take part in the change of registers.
    pub idle: u32,
    /// How many there are of it: those behind the first have the warps behind its own.
    pub replicas: u32,
    /// One lane runs it.
    pub single: bool,
    /// Registers per lane.
    pub registers: Option<u32>,
}

impl LaneBuilder {
    fn converts_f16(&self, block: &Block) -> bool {
        let half = |v: LVal| self.ty(v) == LTy::Num(Scalar::F16);
        block.iter().any(|i| matches!(*i, Inst::Cvt { a, .. } if half(a)) || blocks(i).any(|b| self.converts_f16(b)))
    }

    /// The number of a launch parameter that is no value, appended if it is new.
    pub fn tensor_param(&mut self, p: Param) -> u32 {
        match self.program.params.iter().position(|q| *q == p) {
            Some(i) => i as u32,
            None => {
                self.program.params.push(p);
                self.program.params.len() as u32 - 1
            }
        }
    }

    /// A value that nothing looks at.
    pub fn undefined(&mut self, ty: LTy) -> LVal {
        let dst = self.result(ty);
        self.effect(Inst::Undefined { dst });
        dst
    }

    /// What a unit does. Waits, fences and the life of the memory it uses are the caller's protocol.
    pub fn unit(&mut self, u: Unit) {
        self.effect(Inst::Unit(Arc::new(u)));
    }

    /// Program instances that form a cluster; 1 without this.
    pub fn set_cluster(&mut self, blocks: u32) {
        self.program.cluster = blocks;
    }

    /// Neighbouring grid positions that an instance stands for; one without this.
    pub fn set_positions(&mut self, each: [u32; 3]) {
        self.program.positions = each;
    }

    /// The address of a place in another block of the cluster.
    pub fn remote(&mut self, place: Place, rank: LVal) -> LVal {
        let dst = self.result(LTy::I32);
        self.unit(Unit::Remote { dst, place, rank });
        dst
    }

    /// Reads consecutive values from another block's shared memory. What orders it behind their writes is the caller's protocol.
    pub fn remote_load(&mut self, tys: &[LTy], from: Place) -> Vals {
        let dsts = self.results(tys);
        self.unit(Unit::RemoteLoad { dsts: dsts.clone(), from });
        dsts
    }

    /// Starts a multiplication; its results are made here.
    pub fn multiply(&mut self, mut m: Multiply) -> Vec<LVal> {
        let depth = self.here();
        m.dsts = self.new_vals(&m.c, depth);
        let dsts = m.dsts.clone();
        self.unit(Unit::Multiply(Box::new(m)));
        dsts
    }

    /// Orders what ordinary instructions have written of these registers in front of multiplications, unless a fence in front of others of this
    /// block has done so.
    pub fn fence_matrices(&mut self, operands: &[LVal]) {
        let at = self.here() as usize;
        let mut before = self.frames[at].block.iter().rev().filter(|i| match i {
            Inst::Undefined { .. } => false,
            Inst::Unit(u) => !matches!(**u, Unit::Multiply(_) | Unit::CommitMatrices),
            other => computed(other).is_none_or(|made| made.iter().any(|v| operands.contains(v))),
        });
        let fenced = before.next().is_some_and(|i| matches!(i, Inst::Unit(u) if **u == Unit::FenceMatrices));
        if !fenced {
            self.unit(Unit::FenceMatrices);
        }
    }

    /// Waits until so many of the newest groups of multiplications are in flight, or fewer, unless a wait in front of it has seen that.
    pub fn wait_matrices(&mut self, pending: u32) {
        let at = self.here() as usize;
        let last = self.frames[at].block.iter().rev().find(|i| computed(i).is_none());
        let waited = last.is_some_and(|i| matches!(i, Inst::Unit(u) if matches!(**u, Unit::WaitMatrices { pending: p } if p <= pending)));
        if !waited {
            self.unit(Unit::WaitMatrices { pending });
        }
    }

    /// Fills the body of a role.
    ///
    /// # Errors
    /// The body's.
    pub fn role<C, E>(
        &mut self,
        cx: &mut C,
        spec: RoleSpec<'_>,
        body: impl FnOnce(&mut C, &mut LaneBuilder) -> Result<(), E>,
    ) -> Result<Role, E> {
        let first = self.program.vals.len();
        self.open();
        let counted = self.meter.counts;
        let warps = if spec.single { 1 } else { spec.warps.1 };
        self.role = Some(Filled { depth: self.here(), frame: self.block(), warps, replicas: spec.replicas });
        (self.read, self.written) = (false, false);
        let done = body(cx, self);
        self.role = None;
        self.meter.counts = self.meter.counts.repeated(counted, spec.replicas);
        let (mut body, _) = self.close();
        done?;
        let (nest, values) = (Nest::of(&body), [first, self.program.vals.len()]);
        into_arms(&mut body, &nest, values);
        // Quotients that share a check hold operands and results at once, and between conversions to and from f16 ptxas keeps each in a register
        // of its own.
        let spare = |body: &Block| SPARE + if self.converts_f16(body) { QUOTIENT * widest_quotient(body) } else { 0 };
        let room = self.sink_loads.map(|own| spec.registers.unwrap_or(own).saturating_sub(spare(&body)));
        // Literals are parts of instructions.
        let words = |v: LVal| if self.as_const(v).is_some() { 0 } else { words(self.ty(v)) };
        let moves = Moves { loads: room.map(|room| Loads { room, words: &words }), ..Moves::default() };
        let sunk = sink(&mut body, &nest, values, moves);
        debug_assert_eq!(sunk, Ok(()), "any order is wanted");
        Ok(Role {
            name: spec.name.to_owned(),
            first: spec.warps.0,
            warps: spec.warps.1,
            idle: spec.idle,
            replicas: spec.replicas,
            single: spec.single,
            registers: spec.registers,
            body,
        })
    }

    /// Ends the program with roles. They run side by side, so what stands in front of them is in use all along; what one of them allocates shares bytes with
    /// nothing but what the same role allocates.
    pub fn roles(&mut self, roles: Vec<Role>) {
        self.effect(Inst::Roles(Box::new(Roles { roles })));
        let now = self.clock;
        for alloc in self.program.allocs.keys() {
            if let (Some(life), None) = (&mut self.lives[alloc], self.owners[alloc]) {
                *life = Life { first: 0, last: now };
            }
        }
    }
}
