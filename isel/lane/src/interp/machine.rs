//! The state of a program instance: columns of values, memory, the blocks of its cluster, and what they have done so far.

use crate::abi::ParamValue;
use crate::inst::Inst;
use crate::interp::global::Global;
use crate::interp::matrix::MatrixTable;
use crate::interp::shared::{Shared, Who};
use crate::interp::unit_state::UnitState;
use crate::interp::{LaneError, LaneFault};
use crate::machine::Target;
use crate::print::inst_text;
use crate::program::Program;
use crate::value::{LTy, LVal};
use cranelift_entity::EntityRef;
use std::cell::Cell;
use std::ops::Range;

/// What a run did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaneStats {
    /// Program instances that ran.
    pub programs: u64,
    /// Instructions, counted once per thread.
    pub instructions: u64,
    /// Bytes read from global memory, asynchronous copies included.
    pub global_read: u64,
    /// Bytes written to global memory.
    pub global_written: u64,
    /// Bytes read from shared memory.
    pub shared_read: u64,
    /// Bytes written to shared memory, asynchronous copies included.
    pub shared_written: u64,
    /// Bytes copied asynchronously.
    pub copied: u64,
    /// Shuffles, counted once per warp.
    pub shuffles: u64,
    /// Matrix instructions, counted once per warp.
    pub matrices: u64,
    /// Barriers, counted once per program instance.
    pub barriers: u64,
}

/// Tables of the target's matrix instructions, each made at its first use.
pub(super) type Tables = Vec<Option<MatrixTable>>;

/// A fault and the thread that met it, from the first of the role.
pub(super) type Trap = (LaneFault, usize);

/// What a block of a cluster has for itself.
pub(super) struct Parked {
    at: [u32; 3],
    pub(super) regs: Vec<Vec<u64>>,
    shared: Shared,
    units: UnitState,
}

pub(crate) struct Interpreter<'a> {
    pub(super) code: &'a Program,
    pub(super) target: &'a Target,
    pub(super) tables: Tables,
    pub(super) params: &'a [ParamValue],
    pub(super) grid: [u32; 3],
    pub(super) at: [u32; 3],
    /// Number of the instance and of all instances, where an instance runs several grid positions.
    pub(super) worker: [u32; 2],
    pub(super) threads: usize,
    pub(super) lanes: usize,
    /// Threads that run now: all, or those of a role.
    pub(super) live: Range<usize>,
    /// The first warp of the role.
    pub(super) first_warp: usize,
    /// A column per value: the value of every thread. Empty before the first definition.
    pub(super) regs: Vec<Vec<u64>>,
    pub(super) shared: Shared,
    pub(super) global: Global<'a>,
    pub(super) units: UnitState,
    /// The block of the cluster that runs now, and the state of the others; its own place there is empty.
    pub(super) rank: usize,
    pub(super) parked: Vec<Parked>,
    /// An unready value was read.
    pub(super) unready: Cell<bool>,
    pub(super) fuel: u64,
    pub(super) limit: u64,
    /// Most rounds of a `while`.
    pub(super) steps: u64,
    pub(super) stats: LaneStats,
}

impl<'a> Interpreter<'a> {
    pub(crate) fn new(
        code: &'a Program,
        target: &'a Target,
        tables: Tables,
        params: &'a [ParamValue],
        grid: [u32; 3],
        global: Global<'a>,
        [fuel, steps]: [u64; 2],
    ) -> Interpreter<'a> {
        let blocks = code.cluster.max(1) as usize;
        let (lanes, threads) = (code.lanes as usize, code.threads() as usize);
        let shared = || Shared::new(code.shared_bytes as usize, lanes, threads * blocks);
        let parked =
            |_| Parked { at: [0; 3], regs: vec![Vec::new(); code.vals.len()], shared: shared(), units: UnitState::new(code.vals.len()) };
        Interpreter {
            code,
            target,
            tables,
            params,
            grid,
            at: [0; 3],
            worker: [0, 1],
            threads: code.threads() as usize,
            lanes: code.lanes as usize,
            live: 0..code.threads() as usize,
            first_warp: 0,
            regs: vec![Vec::new(); code.vals.len()],
            shared: shared(),
            global,
            units: UnitState::new(code.vals.len()),
            rank: 0,
            parked: (0..if blocks > 1 { blocks } else { 0 }).map(parked).collect(),
            unready: Cell::new(false),
            fuel,
            limit: fuel,
            steps,
            stats: LaneStats::default(),
        }
    }

    /// Writes memory back.
    pub(crate) fn finish(self) -> LaneStats {
        self.global.finish();
        self.stats
    }

    /// Program instances that run together.
    pub(super) fn blocks(&self) -> usize {
        self.parked.len().max(1)
    }

    /// Goes on with another block of the cluster.
    pub(super) fn switch(&mut self, rank: usize) {
        if rank != self.rank {
            self.swap(self.rank);
            self.rank = rank;
            self.swap(rank);
        }
    }

    pub(super) fn swap(&mut self, rank: usize) {
        let p = &mut self.parked[rank];
        std::mem::swap(&mut self.at, &mut p.at);
        std::mem::swap(&mut self.regs, &mut p.regs);
        std::mem::swap(&mut self.shared, &mut p.shared);
        std::mem::swap(&mut self.units, &mut p.units);
    }

    /// Does something in the memory of a block of the cluster.
    pub(super) fn in_block<R>(&mut self, rank: usize, f: impl FnOnce(&mut Self) -> R) -> R {
        let own = self.rank;
        self.switch(rank);
        let result = f(self);
        self.switch(own);
        result
    }

    pub(super) fn locate(&self, inst: &Inst, (fault, thread): Trap) -> LaneError {
        LaneError::Fault { fault, inst: inst_text(self.code, inst), program: self.at, thread: self.live.start + thread }
    }

    pub(super) fn spend(&mut self) -> Result<(), Trap> {
        let cost = self.live.len() as u64;
        self.fuel = self.fuel.checked_sub(cost).ok_or((LaneFault::Fuel { limit: self.limit }, 0))?;
        self.stats.instructions += cost;
        Ok(())
    }

    pub(super) fn ty(&self, v: LVal) -> LTy {
        self.code.vals[v]
    }

    /// The threads that run, by their number in the role.
    pub(super) fn count(&self) -> usize {
        self.live.len()
    }

    /// What the running threads hold.
    pub(super) fn reg(&self, v: LVal) -> &[u64] {
        if !self.units.ready(v) {
            self.unready.set(true);
        }
        self.regs[v.index()].get(self.live.clone()).unwrap_or(&[])
    }

    /// Takes a column out to be written, sized for the program.
    pub(super) fn take(&mut self, v: LVal) -> Vec<u64> {
        let mut column = std::mem::take(&mut self.regs[v.index()]);
        column.resize(self.threads, 0);
        column
    }

    /// Writes a column from others.
    pub(super) fn define(&mut self, v: LVal, f: impl FnOnce(&Self, &mut [u64]) -> Result<(), LaneFault>) -> Result<(), Trap> {
        let mut column = self.take(v);
        let done = f(self, &mut column[self.live.clone()]);
        self.regs[v.index()] = column;
        self.units.make_ready(v);
        done.map_err(|fault| (fault, 0))
    }

    /// The number of a thread of the role in the cluster.
    pub(super) fn number(&self, thread: usize) -> usize {
        self.rank * self.threads + self.live.start + thread
    }

    pub(super) fn who(&self, thread: usize) -> Who {
        let thread = self.number(thread);
        Who { thread, warp: thread / self.lanes }
    }

    /// The value of a column that must be the same in every thread.
    pub(super) fn uniform(&self, v: LVal) -> Result<u64, Trap> {
        let column = self.reg(v);
        let first = column.first().copied().unwrap_or(0);
        match column.iter().position(|&x| x != first) {
            None => Ok(first),
            Some(thread) => Err((LaneFault::Divergent { first, here: column[thread] }, thread)),
        }
    }

    pub(super) fn active(&self, guard: Option<LVal>, thread: usize) -> bool {
        guard.is_none_or(|g| self.reg(g)[thread] != 0)
    }

    /// Address of an access of a thread.
    pub(super) fn addr(&self, base: LVal, offset: i32, thread: usize) -> i64 {
        (self.reg(base)[thread] as i64).wrapping_add(i64::from(offset))
    }
}
