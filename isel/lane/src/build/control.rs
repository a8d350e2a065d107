//! Loops, choices and the frames of the blocks inside them.

use super::room::BLOCK;
use super::{BuildFrame, LaneBuilder};
use crate::inst::{Block, For, If, Inst, While};
use crate::place::Life;
use crate::value::Carried;
use crate::value::LVal;

impl LaneBuilder {
    pub(super) fn open(&mut self) {
        // What was used right in front of the block is not used in it.
        self.clock += 1;
        let start = self.clock;
        let id = self.next_frame;
        self.next_frame += 1;
        self.frames.push(BuildFrame { id, start, block: Block::with_capacity(BLOCK) });
    }

    pub(super) fn close(&mut self) -> (Block, u32) {
        let frame = self.frames.pop().unwrap_or_default();
        (frame.block, frame.start)
    }

    /// What a loop uses that was made before it lives to its end.
    fn extend_lives(&mut self, start: u32) {
        let now = self.clock;
        for alloc in self.program.allocs.keys() {
            if let Some(Life { first, last }) = self.lives[alloc]
                && first < start
                && last >= start
            {
                self.lives[alloc] = Some(Life { first, last: now });
            }
        }
    }

    /// A counted loop. The body gets the index and the carried values and returns the next ones.
    ///
    /// # Errors
    /// The body's.
    pub fn for_loop<C, E>(
        &mut self,
        cx: &mut C,
        bounds: [LVal; 3],
        init: &[LVal],
        body: impl FnOnce(&mut C, &mut LaneBuilder, LVal, &[LVal]) -> Result<Vec<LVal>, E>,
    ) -> Result<Vec<LVal>, E> {
        self.counted(cx, bounds, init, false, body)
    }

    /// A counted loop that is known to run at least once.
    ///
    /// # Errors
    /// The body's.
    pub fn for_loop_that_runs<C, E>(
        &mut self,
        cx: &mut C,
        bounds: [LVal; 3],
        init: &[LVal],
        body: impl FnOnce(&mut C, &mut LaneBuilder, LVal, &[LVal]) -> Result<Vec<LVal>, E>,
    ) -> Result<Vec<LVal>, E> {
        self.counted(cx, bounds, init, true, body)
    }

    fn counted<C, E>(
        &mut self,
        cx: &mut C,
        bounds: [LVal; 3],
        init: &[LVal],
        runs: bool,
        body: impl FnOnce(&mut C, &mut LaneBuilder, LVal, &[LVal]) -> Result<Vec<LVal>, E>,
    ) -> Result<Vec<LVal>, E> {
        if self.role.is_none() && self.goes_round_once(bounds) {
            return body(cx, self, bounds[0], init);
        }
        self.open();
        let at = self.here();
        let iv = self.new_val(self.ty(bounds[0]), at);
        let params: Vec<LVal> = init.iter().map(|&v| self.new_val(self.ty(v), at)).collect();
        // The back edge: what the body's end did, its start must expect.
        (self.read, self.written) = (true, true);
        let next = body(cx, self, iv, &params)?;
        let (block, start) = self.close();
        self.extend_lives(start);
        (self.read, self.written) = (true, true);
        let carried = self.carried(&params, init, &next);
        let results = carried.iter().map(|c| c.result).collect();
        let [lo, hi, step] = bounds;
        self.effect(Inst::For(Box::new(For { iv, lo, hi, step, runs, carried, body: block })));
        Ok(results)
    }

    /// True for bounds that are known, and between which there is one index.
    fn goes_round_once(&self, bounds: [LVal; 3]) -> bool {
        let [lo, hi, step] = bounds.map(|v| self.as_const(v).map(|c| c as i64));
        matches!((lo, hi, step), (Some(lo), Some(hi), Some(step)) if lo < hi && hi.saturating_sub(lo) <= step)
    }

    /// The carried values of a loop, with results behind it.
    fn carried(&mut self, params: &[LVal], init: &[LVal], next: &[LVal]) -> Vec<Carried> {
        let depth = self.here();
        let mut one = |((&param, &init), &next): ((&LVal, &LVal), &LVal)| {
            let result = self.new_val(self.ty(param), depth);
            Carried { param, init, next, result }
        };
        params.iter().zip(init).zip(next).map(&mut one).collect()
    }

    /// A loop on a condition.
    ///
    /// # Errors
    /// Those of the two blocks.
    pub fn while_loop<C, E>(
        &mut self,
        cx: &mut C,
        init: &[LVal],
        test: impl FnOnce(&mut C, &mut LaneBuilder, &[LVal]) -> Result<LVal, E>,
        body: impl FnOnce(&mut C, &mut LaneBuilder, &[LVal]) -> Result<Vec<LVal>, E>,
    ) -> Result<Vec<LVal>, E> {
        self.open();
        let at = self.here();
        let params: Vec<LVal> = init.iter().map(|&v| self.new_val(self.ty(v), at)).collect();
        (self.read, self.written) = (true, true);
        // The test's values are seen by the body: two frames on one another, printed as two blocks.
        let condition = test(cx, self, &params)?;
        self.open();
        let next = body(cx, self, &params)?;
        let (run, _) = self.close();
        let (test, start) = self.close();
        self.extend_lives(start);
        (self.read, self.written) = (true, true);
        let carried = self.carried(&params, init, &next);
        let results = carried.iter().map(|c| c.result).collect();
        self.effect(Inst::While(Box::new(While { carried, test, condition, body: run })));
        Ok(results)
    }

    /// A choice between two blocks that make values of the same types.
    ///
    /// # Errors
    /// Those of the two blocks.
    pub fn if_else<C, E>(
        &mut self,
        cx: &mut C,
        condition: LVal,
        then: impl FnOnce(&mut C, &mut LaneBuilder) -> Result<Vec<LVal>, E>,
        otherwise: impl FnOnce(&mut C, &mut LaneBuilder) -> Result<Vec<LVal>, E>,
    ) -> Result<Vec<LVal>, E> {
        let before = (self.read, self.written);
        self.open();
        let a = then(cx, self)?;
        let (then, _) = self.close();
        let after = (self.read, self.written);
        (self.read, self.written) = before;
        self.open();
        let b = otherwise(cx, self)?;
        let (otherwise, _) = self.close();
        (self.read, self.written) = (self.read | after.0, self.written | after.1);
        let depth = self.here();
        let results: Vec<(LVal, LVal, LVal)> = a.iter().zip(&b).map(|(&a, &b)| (self.new_val(self.ty(a), depth), a, b)).collect();
        let values = results.iter().map(|r| r.0).collect();
        self.effect(Inst::If(Box::new(If { condition, then, otherwise, results })));
        Ok(values)
    }
}
