//! Loops that compute between their products: the consumers do what the loop does, and each product is waited for where it stands.
//!
//! ```text
//! producer      slices of the bounds and of the places of the copies; fills a slot a step
//! consumers     in front of the loop, the loop, what comes behind it
//! a step        wait for its slot ─ all that the step computes, each product begun and waited for ─ give the slot back
//! ```
//!
//! Where the plan takes the loop apart, so that products run while lanes compute, [`super::overlap`] writes it; where products end a step later,
//! [`super::late`]. Loops keep their own bounds, so that a mask sees the same index in both.

use super::Refusal;
use super::schedule::ProgramPlan;
use super::step_state::StepState;
use super::write::{Arg, Writer, number};
use crate::plan::{StepPart, Turns, in_ring, is_zero, slice_ahead, slice_by, step_order, written_views};
use cranelift_entity::EntityRef;
use tilelift_ir::{Attr, Inst, Literal, Op, Scalar, Value};
use tilelift_lane::Units;

impl<'k> ProgramPlan<'k> {
    /// The loop of the consumers; gives the number of the step behind it.
    pub(super) fn mixed(&self, w: &mut Writer<'_>, start: Arg) -> Result<Arg, Refusal> {
        let kernel = self.kernel;
        let d = &kernel.insts[self.plan.main];
        self.wait_brought(w)?;
        self.stage_in_front(w)?;
        let (bounds, params) = (self.slice_bounds(w)?, &kernel.regions[self.region].params);
        let mut init = self.slice_init(w)?;
        let held = init.len();
        init.push(start);
        init.extend(self.load_ahead(w, bounds[0])?);
        self.end_of_turn(w, Op::TurnFirst);
        let ends = w.for_loop(bounds, &init, |w, index, carried| {
            w.set(params[0], index);
            params[1..].iter().zip(carried).for_each(|(&p, &v)| w.set(p, v));
            let done = carried[held];
            let brought = self.plan.prefetched.iter().map(|&i| kernel.insts[i].results[0]);
            brought.zip(&carried[held + 1..]).for_each(|(v, &now)| w.set(v, now));
            let mut state = StepState::new(done.into(), [index.into(), bounds[2]]);
            // Nothing of another task's step is waited for, or no product: what the next one loads has all of this one's time.
            if self.plan.slices > 1 || self.plan.dots.is_empty() {
                self.begin_ahead(w, &mut state)?;
            }
            let slot = self.wait(w, done.into())?;
            self.apply_masks(w, slot, index.into())?;
            self.see_vectors(w, slot)?;
            self.see_lane_tiles(w, slot)?;
            self.see(w, slot, &self.plan.dots.iter().map(|d| d.0).collect::<Vec<Inst>>())?;
            let ahead = self.step(w, done.into(), state)?;
            self.release(w, done)?;
            let mut next = self.all(w, kernel.yields(self.region))?;
            next.push(self.next(w, done.into())?);
            next.extend(ahead);
            Ok(next)
        })?;
        self.end_of_turn(w, Op::TurnLast);
        d.results.iter().zip(&ends).for_each(|(&v, &end)| w.set(v, end));
        Ok(ends[held].into())
    }

    /// What a step computes, and what it loads for the next one. Lanes that add to accumulators wait for each product where it stands.
    fn step(&self, w: &mut Writer<'_>, step: Arg, mut state: StepState) -> Result<Vec<Arg>, Refusal> {
        let kernel = self.kernel;
        if self.plan.promoted {
            let scaled = |i: Inst| self.plan.dots.iter().any(|d| self.scaled(d.0).is_some_and(|s| s.0 == i));
            let mut insts = kernel.regions[self.region].insts.iter().copied().filter(|&i| self.computed(i) && !scaled(i));
            insts.try_for_each(|i| match kernel.insts[i].op {
                Op::Dot => {
                    self.begin_ahead(w, &mut state)?;
                    self.stage(w, i, &mut state.buffers)?;
                    self.product(w, i, step)
                }
                _ => self.compute_or_add(w, i, &mut state),
            })?;
            return Ok(state.ahead.unwrap_or_default());
        }
        for part in step_order(kernel, self.region, &written_views(kernel), &|i| self.computed(i)) {
            self.part(w, part, &mut state)?;
        }
        Ok(state.ahead.unwrap_or_default())
    }

    /// A part of a step, of none before it.
    pub(super) fn part(&self, w: &mut Writer<'_>, part: StepPart, state: &mut StepState) -> Result<(), Refusal> {
        let kernel = self.kernel;
        match part {
            StepPart::Begin(i) => {
                let d = &kernel.insts[i];
                self.stage(w, i, &mut state.buffers)?;
                let a = self.operand_a(w, i)?;
                let accumulator = self.accumulator(w, d.args[2])?;
                let product = self.begin(w, i, state.step, [a, accumulator])?;
                w.set(d.results[0], product);
                state.begun.push(i);
            }
            StepPart::Wait(i, behind) => {
                self.begin_ahead(w, state)?;
                let product = w.get(kernel.insts[i].results[0])?;
                let made = w.make(Op::AsyncDotWait, &[product], &[Attr::Count(behind)], None)?;
                self.pass_turn(w, i);
                w.set(kernel.insts[i].results[0], made);
                self.read_by(i, &mut state.buffers);
            }
            StepPart::Compute(i) => self.compute_or_add(w, i, state)?,
            StepPart::WaitBefore(..) | StepPart::After | StepPart::Cut => {}
        }
        Ok(())
    }

    /// The loads of the next step begin while products run.
    pub(super) fn begin_ahead(&self, w: &mut Writer<'_>, state: &mut StepState) -> Result<(), Refusal> {
        if state.ahead.is_none() {
            state.ahead = Some(match self.plan.prefetched.is_empty() {
                true => Vec::new(),
                false => {
                    let next = w.bin(Op::Add, state.index, state.by)?;
                    self.load_ahead(w, next.into())?
                }
            });
        }
        Ok(())
    }

    /// What lanes compute in a step, sums that bulk copies add among it.
    fn compute_or_add(&self, w: &mut Writer<'_>, i: Inst, state: &mut StepState) -> Result<(), Refusal> {
        match self.plan.updates.iter().position(|u| u.inst == i) {
            Some(n) => self.bulk_update(w, n, &mut state.buffers),
            None => self.compute_lanes(w, i),
        }
    }

    /// What lanes compute in a step: what the ring has brought for them is read from its slot.
    pub(super) fn compute_lanes(&self, w: &mut Writer<'_>, i: Inst) -> Result<(), Refusal> {
        if !self.brings_vector(i) && self.read_lane_tile(w, i)? { Ok(()) } else { self.compute(w, i) }
    }

    /// Loads for the step of an index. What the values are here stays as it is.
    pub(super) fn load_ahead(&self, w: &mut Writer<'_>, index: Arg) -> Result<Vec<Arg>, Refusal> {
        let loads = &self.plan.prefetched;
        let slice = slice_ahead(self.kernel, self.region, loads);
        self.at_index(w, &slice, index, |w| loads.iter().map(|&i| w.get(self.kernel.insts[i].results[0])).collect())
    }

    /// Computes a slice of a step for an index, and does something with it. What the values are here stays as it is.
    pub(super) fn at_index<T>(
        &self,
        w: &mut Writer<'_>,
        slice: &[Inst],
        index: Arg,
        then: impl FnOnce(&mut Writer<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let kernel = self.kernel;
        let param = kernel.regions[self.region].params[0];
        let made = || slice.iter().flat_map(|&i| kernel.insts[i].results.iter().copied()).chain([param]);
        let before: Vec<Option<Arg>> = made().map(|v| w.swap(v, None)).collect();
        w.set(param, index);
        slice.iter().try_for_each(|&i| w.copy(i))?;
        let done = then(w);
        made().zip(before).for_each(|(v, was)| _ = w.swap(v, was));
        done
    }

    /// What values are here.
    pub fn all(&self, w: &Writer<'_>, values: &[Value]) -> Result<Vec<Arg>, Refusal> {
        values.iter().map(|&v| w.get(v)).collect()
    }

    /// Waits until the slot of a step is full; gives the slot.
    pub fn wait(&self, w: &mut Writer<'_>, step: Arg) -> Result<Arg, Refusal> {
        let [slot, round] = match step {
            Arg::Value(step) => self.ring.slot_and_round(w, step)?.map(Arg::from),
            // One of the very first ones.
            Arg::Literal(Literal::Int(n), _) => {
                let [own, of] = self.ring.turn;
                let (n, slots) = (n as u32, self.ring.depth / of);
                [number(n % slots * of + own), number(n / slots)]
            }
            Arg::Literal(..) => [number(0); 2],
        };
        self.ring.wait_full(w, slot, round)?;
        Ok(slot)
    }

    /// The number of the step behind one.
    pub fn next(&self, w: &mut Writer<'_>, step: Arg) -> Result<Arg, Refusal> {
        match step {
            Arg::Value(_) => Ok(w.bin(Op::Add, step, number(1))?.into()),
            Arg::Literal(Literal::Int(n), _) => Ok(number(n as u32 + 1)),
            Arg::Literal(..) => Ok(number(1)),
        }
    }

    /// What a product adds to.
    pub fn accumulator(&self, w: &mut Writer<'_>, c: Value) -> Result<Arg, Refusal> {
        if is_zero(self.kernel, c) { self.zero(w, c).map(Arg::from) } else { w.get(c) }
    }

    /// True for loads of the ring, and other views of what they bring.
    pub(super) fn in_ring(&self, i: Inst) -> bool {
        in_ring(self.kernel, &self.plan.loads, i)
    }

    /// True for what lanes compute and products make in a step.
    pub fn computed(&self, i: Inst) -> bool {
        self.live.contains(&i) && !self.in_ring(i) && !self.plan.prefetched.contains(&i)
    }

    /// Names the operands that products find in a slot.
    pub fn see(&self, w: &mut Writer<'_>, slot: Arg, dots: &[Inst]) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let operands: Vec<Value> = dots.iter().flat_map(|&i| kernel.insts[i].args[..2].iter().copied()).collect();
        let views = |i: Inst| self.in_ring(i) && !matches!(kernel.insts[i].op, Op::Load | Op::Gather);
        let seen = slice_by(kernel, operands, &|i, take| {
            if views(i) {
                kernel.insts[i].args.iter().for_each(|&v| take(v));
            }
        });
        for &i in kernel.regions[self.region].insts.iter().filter(|i| seen.contains(i) && self.in_ring(**i)) {
            match self.plan.loads.iter().position(|l| l.0 == i) {
                Some(n) => {
                    let buffer = w.bin(Op::LocalIndex, self.slots[n], slot)?;
                    w.set(kernel.insts[i].results[0], buffer);
                }
                None => self.look(w, i)?,
            }
        }
        Ok(())
    }

    /// Begins a product of a step, with its operand A, on an accumulator; gives it as it is in flight.
    pub fn begin(&self, w: &mut Writer<'_>, i: Inst, step: Arg, [a, accumulator]: [Arg; 2]) -> Result<Value, Refusal> {
        let d = &self.kernel.insts[i];
        let b = self.operand_b(w, i, step)?;
        let a = if self.regrouped(i) { self.regroup(w, a, 1)?.into() } else { a };
        if matches!(self.plan.turns, Some(Turns::Products { last, .. }) if last == i) {
            self.end_of_turn(w, Op::TurnWait);
        }
        w.make(Op::AsyncDot, &[a, b, accumulator], &d.attrs, None)
    }

    /// Behind a step's first product, where groups multiply in turns, the next one's turn begins.
    fn pass_turn(&self, w: &mut Writer<'_>, i: Inst) {
        if matches!(self.plan.turns, Some(Turns::Products { first, .. }) if first == i) {
            self.end_of_turn(w, Op::TurnPass);
        }
    }

    /// One end of a turn, where groups multiply in turns.
    pub(super) fn end_of_turn(&self, w: &mut Writer<'_>, end: Op) {
        if self.plan.turns.is_some() {
            w.act(end, &[], &[]);
        }
    }

    /// The operand A of a product: in its slot, brought in front of the loop, or a tile in registers.
    pub fn operand_a(&self, w: &mut Writer<'_>, i: Inst) -> Result<Arg, Refusal> {
        if let Some(brought) = self.brought(w, self.kernel.insts[i].args[0])? {
            return Ok(brought);
        }
        if let Some(stored) = self.staged(w, i, 0, None)? {
            return Ok(stored);
        }
        let a = w.get(self.kernel.insts[i].args[0])?;
        match self.plan.register_a.contains(&i) {
            true => Ok(w.make(Op::LocalLoad, &[a], &[], None)?.into()),
            false => Ok(a),
        }
    }

    /// True for a product that the lanes add to its accumulator, since the unit does not keep its bits.
    fn alone(&self, i: Inst) -> bool {
        let rows = |u: &'k Units| self.plan.dots.iter().find(|x| x.0 == i).and_then(|x| u.matrix.get(x.1.index()));
        !is_zero(self.kernel, self.kernel.insts[i].args[2]) && self.units.and_then(rows).is_some_and(|row| row.promotion_depth.is_some())
    }

    /// The multiplication that scales the accumulator of such a product, and its factors, if nobody else looks at what it makes: it is done with the addition.
    fn scaled(&self, i: Inst) -> Option<(Inst, [Value; 2])> {
        let kernel = self.kernel;
        let c = kernel.insts[i].args[2];
        let body = &kernel.regions[self.region].insts;
        let mul = kernel.def_inst(c).filter(|j| kernel.insts[*j].op == Op::Mul && body.contains(j) && self.alone(i))?;
        let mut uses = 0;
        kernel.walk(kernel.body, &mut |j| uses += kernel.insts[j].args.iter().filter(|&&v| v == c).count());
        let &[x, y] = kernel.insts[mul].args.as_slice() else { return None };
        (uses == 1).then_some((mul, [x, y]))
    }

    /// A product, begun and waited for. Where the unit does not keep the bits of an accumulator the lanes add to it.
    fn product(&self, w: &mut Writer<'_>, i: Inst, step: Arg) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let (c, result) = (d.args[2], d.results[0]);
        let alone = self.alone(i);
        let a = self.operand_a(w, i)?;
        let accumulator = if alone { self.zero(w, result)?.into() } else { self.accumulator(w, c)? };
        let product = self.begin(w, i, step, [a, accumulator])?;
        let mut made = w.make(Op::AsyncDotWait, &[product.into()], &[Attr::Count(0)], None)?;
        self.pass_turn(w, i);
        if let Some((_, [x, y])) = self.scaled(i) {
            let factors = [w.get(x)?, w.get(y)?];
            made = w.make(Op::Fma, &[factors[0], factors[1], made.into()], &[], None)?;
        } else if alone {
            let c = w.get(c)?;
            made = w.bin(Op::Add, c, made)?;
        }
        w.set(result, made);
        Ok(())
    }

    /// A tile of zeros, of a value's type.
    pub(super) fn zero(&self, w: &mut Writer<'_>, like: Value) -> Result<Value, Refusal> {
        let ty = self.kernel.ty(like);
        let elem: Scalar = ty.elem();
        let zero = if elem.is_float() { Literal::Float(0f64.to_bits()) } else { Literal::Int(0) };
        w.make(Op::Splat, &[Arg::Literal(zero, elem)], &[], Some(ty))
    }
}
