//! How a loop on a condition counts.
//!
//! ```text
//! condition ─► parts of an `and`, of which all but one stay the same ─► comparison: what is carried, plus what stays the same │ what stays the same
//! body      ─► the next number: the carried one, plus or minus what stays the same and is known to be above or below zero
//! ```

use super::certain::{Certain, CounterStep, all, range};
use crate::named::{Made, Named};
use crate::reason::UncountedLoop;
use tilelift_ir::{Attr, CmpOp, Effects, Inst, Kernel, Op, Region, Scalar, Type, Value, ValueDef};
use tilelift_lane::hash::Set;

/// Which of the values that a loop carries counts, and how far.
pub(super) struct Count {
    /// The number of the carried value.
    pub at: usize,
    /// The type that it counts in.
    pub elem: Scalar,
    /// What the condition computes of what stays the same, in order.
    pub asked: Vec<Inst>,
    /// What the condition adds to the counter, or takes from it, before it compares, in order.
    pub shift: Vec<(Op, Value)>,
    /// The loop goes on while this holds between the counter, so shifted, and `end`.
    pub op: CmpOp,
    /// What the counter is compared with.
    pub end: Value,
    /// What has to hold besides, and stays the same.
    pub also: Vec<Value>,
    /// What is added in a round, or taken away.
    pub step: CounterStep,
    /// The numbers of carried values that are always what they begin with.
    pub unchanged: Vec<usize>,
    /// What is certain about its numbers.
    pub certain: Certain,
}

/// What a condition compares.
struct Compared {
    at: usize,
    shift: Vec<(Op, Value)>,
    op: CmpOp,
    end: Value,
}

/// A loop that is looked at.
struct Looked<'a> {
    kernel: &'a Kernel,
    main: Inst,
    test: Region,
    body: Region,
    /// Values that are made in the loop.
    inside: Set<Value>,
    /// Those of them that are the same in all rounds.
    fixed: Set<Value>,
}

impl Count {
    /// How a loop counts.
    ///
    /// # Errors
    /// Why it does not.
    pub fn of(kernel: &Kernel, written: &Set<Value>, main: Inst) -> Result<Count, UncountedLoop> {
        let &[test, body] = &kernel.insts[main].regions[..] else { return Err(UncountedLoop::Nothing) };
        let unchanged = unchanged(kernel, main, body);
        let looked = Looked::of(kernel, (main, test, body), &unchanged, written);
        looked.pure()?;
        let (compares, also) = looked.condition()?;
        let Compared { at, shift, op, end } = looked.compared(compares)?;
        let elem = kernel.ty(kernel.insts[main].args[at]).elem();
        let step = looked.step(at)?;
        let toward = match op {
            CmpOp::Lt | CmpOp::Le => !step.down,
            CmpOp::Gt | CmpOp::Ge => step.down,
            CmpOp::Ne => true,
            CmpOp::Eq | CmpOp::Ult | CmpOp::Ule | CmpOp::Ugt | CmpOp::Uge => return Err(UncountedLoop::Comparison { op }),
        };
        if !toward {
            return Err(UncountedLoop::Away);
        }
        let asked = kernel.regions[test].insts.iter().copied().filter(|&i| looked.stays(i)).collect();
        let first = kernel.insts[main].args[at];
        let certain = Certain::of(kernel, (first, &shift), op, end, &step);
        // Who goes on until two numbers are equal may meet the end behind a wrap, and soon.
        if op == CmpOp::Ne && !(certain.ends && certain.way) {
            return Err(UncountedLoop::MayWrap);
        }
        Ok(Count { at, elem, asked, shift, op, end, also, step, unchanged, certain })
    }

    /// True if the counter is the index of the counted loop: elsewhere that is how far the counter has gone.
    pub fn is_index(&self) -> bool {
        !self.step.down && self.shift.is_empty()
    }

    /// True if the loop still goes on where the counter is what it is compared with.
    pub fn inclusive(&self) -> bool {
        matches!(self.op, CmpOp::Le | CmpOp::Ge)
    }
}

/// The numbers of carried values that a loop hands on as they are.
fn unchanged(kernel: &Kernel, main: Inst, body: Region) -> Vec<usize> {
    let (params, next, first) = (&kernel.regions[body].params, kernel.yields(body), &kernel.insts[main].args);
    (0..params.len()).filter(|&n| next.get(n).is_some_and(|v| *v == params[n] || Some(v) == first.get(n))).collect()
}

/// Which side of a sum is the number that counts: what is added to it, or taken from it.
fn sum(kernel: &Kernel, i: Inst, is_counter: &dyn Fn(Value) -> bool) -> Option<(Value, Value)> {
    let d = &kernel.insts[i];
    match (d.op, &d.args[..]) {
        (Op::Add | Op::Sub, &[a, b]) if is_counter(a) => Some((a, b)),
        (Op::Add, &[a, b]) if is_counter(b) => Some((b, a)),
        _ => None,
    }
}

impl<'a> Looked<'a> {
    fn of(kernel: &'a Kernel, (main, test, body): (Inst, Region, Region), unchanged: &[usize], written: &Set<Value>) -> Looked<'a> {
        let (mut inside, mut fixed) = (Set::default(), Set::default());
        for r in [test, body] {
            let params = &kernel.regions[r].params;
            inside.extend(params.iter().copied());
            fixed.extend(unchanged.iter().filter_map(|&n| params.get(n)).copied());
            kernel.walk(r, &mut |i| {
                inside.extend(kernel.insts[i].results.iter().copied());
                kernel.insts[i].regions.iter().for_each(|&r| inside.extend(kernel.regions[r].params.iter().copied()));
            });
            for &i in &kernel.regions[r].insts {
                let d = &kernel.insts[i];
                // The condition is asked once at least, so what it reads may be read in front of the loop.
                let may = match d.op.info().effects {
                    Effects::Pure => true,
                    Effects::Reads => r == test && d.args.first().is_some_and(|v| !written.contains(v)),
                    _ => false,
                };
                if may && d.regions.is_empty() && d.args.iter().all(|v| !inside.contains(v) || fixed.contains(v)) {
                    fixed.extend(d.results.iter().copied());
                }
            }
        }
        Looked { kernel, main, test, body, inside, fixed }
    }

    fn is_fixed(&self, v: Value) -> bool {
        !self.inside.contains(&v) || self.fixed.contains(&v)
    }

    /// True for an instruction whose results are the same in all rounds.
    fn stays(&self, i: Inst) -> bool {
        let d = &self.kernel.insts[i];
        !d.results.is_empty() && d.results.iter().all(|v| self.fixed.contains(v))
    }

    /// The condition does nothing but compute: what is left of it once the loop counts goes.
    fn pure(&self) -> Result<(), UncountedLoop> {
        let kernel = self.kernel;
        let acts = |&&i: &&Inst| {
            let d = &kernel.insts[i];
            d.op != Op::Yield && d.op.info().effects != Effects::Pure && !self.stays(i)
        };
        let found = kernel.regions[self.test].insts.iter().find(acts);
        found.map_or(Ok(()), |&i| Err(UncountedLoop::Effect { by: Made::of(kernel, i) }))
    }

    /// The comparison that decides whether the loop goes on, and what has to hold besides and stays the same.
    fn condition(&self) -> Result<(Inst, Vec<Value>), UncountedLoop> {
        let kernel = self.kernel;
        let (mut open, mut also, mut changes) = (kernel.yields(self.test).to_vec(), Vec::new(), Vec::new());
        while let Some(v) = open.pop() {
            match kernel.def_inst(v).map(|i| &kernel.insts[i]) {
                _ if self.is_fixed(v) => also.push(v),
                Some(d) if d.op == Op::And => open.extend(d.args.iter().copied()),
                Some(_) | None => changes.push(v),
            }
        }
        let &[decides] = &changes[..] else {
            return Err(if changes.is_empty() { UncountedLoop::Nothing } else { UncountedLoop::Several });
        };
        let compares = kernel.def_inst(decides).filter(|&i| kernel.insts[i].op == Op::Cmp);
        compares.map(|i| (i, also)).ok_or_else(|| UncountedLoop::Decided { by: Named::of(kernel, decides) })
    }

    /// What is compared: the number of the carried value, what is added to it before, the comparison with the counter on the left, and what the
    /// counter is compared with.
    fn compared(&self, compares: Inst) -> Result<Compared, UncountedLoop> {
        let kernel = self.kernel;
        let d = &kernel.insts[compares];
        let (&[a, b], Some(Attr::Cmp(op))) = (&d.args[..], d.attrs.first()) else { return Err(UncountedLoop::Counter { by: None }) };
        let (mut counter, op, end) = match (self.is_fixed(a), self.is_fixed(b)) {
            (false, true) => (a, *op, b),
            (true, false) => (b, exchanged(*op), a),
            _ => return Err(UncountedLoop::Several),
        };
        let mut shift = Vec::new();
        loop {
            if let ValueDef::RegionParam(r, n) = kernel.values[counter].def
                && r == self.test
            {
                shift.reverse();
                let whole = matches!(kernel.ty(counter), Type::Scalar(Scalar::I32 | Scalar::I64));
                return if whole {
                    Ok(Compared { at: n as usize, shift, op, end })
                } else {
                    Err(UncountedLoop::Decided { by: Named::of(kernel, counter) })
                };
            }
            let by = kernel.def_inst(counter).and_then(|i| Some((i, sum(kernel, i, &|v| !self.is_fixed(v))?)));
            let Some((i, (next, added))) = by.filter(|&(_, (_, added))| self.is_fixed(added)) else {
                return Err(UncountedLoop::Counter { by: None });
            };
            shift.push((kernel.insts[i].op, added));
            counter = next;
        }
    }

    /// What a round adds to a carried number.
    fn step(&self, at: usize) -> Result<CounterStep, UncountedLoop> {
        let kernel = self.kernel;
        let (Some(&index), Some(&next)) = (kernel.regions[self.body].params.get(at), kernel.yields(self.body).get(at)) else {
            return Err(UncountedLoop::Counter { by: None });
        };
        let by = kernel.def_inst(next);
        let found = by.filter(|i| kernel.regions[self.body].insts.contains(i)).and_then(|i| Some((i, sum(kernel, i, &|v| v == index)?)));
        let Some((i, (_, value))) = found else {
            return Err(UncountedLoop::Counter { by: by.or(Some(self.main)).map(|i| Made::of(kernel, i)) });
        };
        if !self.is_fixed(value) {
            return Err(UncountedLoop::Changes { step: Named::of(kernel, value) });
        }
        // At least one instance runs.
        let workers = kernel.def_inst(value).is_some_and(|i| kernel.insts[i].op == Op::NumPrograms);
        let [least, most] = range(kernel, value);
        // The least number has no other without its sign.
        let below = match (workers || least > 0, most < 0 && least > all(kernel, value)[0]) {
            (true, _) => false,
            (_, true) => true,
            _ => return Err(UncountedLoop::Sign { step: Named::of(kernel, value) }),
        };
        let down = below != (kernel.insts[i].op == Op::Sub);
        Ok(CounterStep { value, made: self.making(value), below, down })
    }

    /// What makes a value in the body, in order.
    fn making(&self, v: Value) -> Vec<Inst> {
        let kernel = self.kernel;
        let (mut needed, mut made) = (Set::default(), Vec::new());
        needed.insert(v);
        for &i in kernel.regions[self.body].insts.iter().rev() {
            let d = &kernel.insts[i];
            if d.results.iter().any(|v| needed.contains(v)) {
                needed.extend(d.args.iter().copied());
                made.push(i);
            }
        }
        made.reverse();
        made
    }
}

/// A comparison with its operands exchanged.
fn exchanged(op: CmpOp) -> CmpOp {
    match op {
        CmpOp::Lt => CmpOp::Gt,
        CmpOp::Le => CmpOp::Ge,
        CmpOp::Gt => CmpOp::Lt,
        CmpOp::Ge => CmpOp::Le,
        CmpOp::Ult => CmpOp::Ugt,
        CmpOp::Ule => CmpOp::Uge,
        CmpOp::Ugt => CmpOp::Ult,
        CmpOp::Uge => CmpOp::Ule,
        CmpOp::Eq | CmpOp::Ne => op,
    }
}
