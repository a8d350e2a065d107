//! Loops and choices of tasks: accumulators that begin at zero, loops that are known to run, arrivals under a condition, what lanes may have stored.

use super::super::Lower;
use super::super::vectors::{from_words, to_words};
use crate::lower::location::{Slot, ValueLocation};
use crate::lower::task::{Fresh, Reads, TaskState, Traces};
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::{CmpOp, Effects, Inst, Kernel, Literal, Op, Region, Scalar, Type, Value, ValueDef};
use tilelift_lane::{LVal, LaneBuilder, Unit};
use tilelift_schedule::LowerError;
use tilelift_schedule::plan::is_zero;

/// Values that are looked at to find what a parity is made of.
const MAX_LOOKED_AT: usize = 64;

/// True if a scalar is 0 or 1 for every way that leads to it.
pub(super) fn is_bit(kernel: &Kernel, v: Value) -> bool {
    // The values carried by a loop are bits if they begin as bits and go on as bits.
    fn bit(kernel: &Kernel, v: Value, assumed: &mut BTreeSet<Value>) -> bool {
        let one = |v: Value| matches!(kernel.as_const(v), Some((Literal::Int(0 | 1), _)));
        if one(v) || !assumed.insert(v) {
            return true;
        }
        // Whoever counts so far round about is asked for the bit.
        if assumed.len() > MAX_LOOKED_AT {
            return false;
        }
        match kernel.values[v].def {
            ValueDef::KernelParam(_) => false,
            ValueDef::RegionParam(r, n) => {
                let Some(i) = kernel.holder(r).filter(|&i| kernel.insts[i].op == Op::For) else {
                    return false;
                };
                let n = n as usize;
                n > 0 && bit(kernel, kernel.insts[i].args[n + 2], assumed) && bit(kernel, kernel.yields(r)[n - 1], assumed)
            }
            ValueDef::Result(i, n) => {
                let d = &kernel.insts[i];
                match d.op {
                    Op::And => d.args.iter().any(|&a| one(a)),
                    Op::Xor | Op::Or => d.args.iter().all(|&a| bit(kernel, a, assumed)),
                    Op::Select => d.args[1..].iter().all(|&a| bit(kernel, a, assumed)),
                    Op::For => {
                        bit(kernel, d.args[n as usize + 3], assumed) && bit(kernel, kernel.yields(d.regions[0])[n as usize], assumed)
                    }
                    Op::If => d.regions.iter().all(|&r| bit(kernel, kernel.yields(r)[n as usize], assumed)),
                    _ => false,
                }
            }
        }
    }
    bit(kernel, v, &mut BTreeSet::new())
}

impl Lower<'_> {
    /// What lanes may have done to local memory that others wait for.
    pub(in super::super) fn traces(&self) -> Traces {
        self.task.as_ref().map_or(Traces::default(), |t| t.traces)
    }

    pub(in super::super) fn trace(&mut self, traces: Traces) {
        if let Some(t) = &mut self.task {
            t.traces = traces;
        }
    }

    /// The same behind a region, if it is so in front of it.
    pub(in super::super) fn traces_of(&self, r: Region, at: Traces) -> Traces {
        let Some(task) = &self.task else { return at };
        let known = task.regions.0.borrow().get(&r).copied();
        known.unwrap_or_else(|| self.summary(r))[at.number()]
    }

    /// What a region makes of every state, once found: loops ask for that of what they hold again and again.
    fn summary(&self, r: Region) -> [Traces; 12] {
        let mut all = Traces::ALL;
        for &i in &self.kernel.regions[r].insts {
            let d = &self.kernel.insts[i];
            let reads = if d.op == Op::LocalLoad { self.reads_of(d.args[0]) } else { Reads::None };
            for at in &mut all {
                match d.op {
                    Op::LocalStore | Op::RemoteStore | Op::CopyAsync | Op::GatherAsync | Op::CopyAsyncWait => at.stored = true,
                    Op::LocalLoad | Op::RemoteLoad => (at.reads, at.looked) = (at.reads.max(reads), true),
                    Op::FenceAsync => at.fenced(),
                    Op::TaskBarrier | Op::AsyncStoreWait => at.met(),
                    Op::If => *at = d.regions.iter().fold(Traces::default(), |all, &arm| all.or(self.traces_of(arm, *at))),
                    Op::For | Op::While => {
                        let once = d.regions.iter().fold(*at, |s, &r| s.or(self.traces_of(r, s)));
                        *at = d.regions.iter().fold(once, |s, &r| s.or(self.traces_of(r, s)));
                    }
                    _ => {}
                }
            }
        }
        if let Some(task) = &self.task {
            task.regions.0.borrow_mut().insert(r, all);
        }
        all
    }

    /// A comparison holds in what follows; gives how many did before.
    pub(in super::super) fn assume(&mut self, condition: Value) -> usize {
        let kernel = self.kernel;
        let known = self.task.as_ref().map_or(0, |t| t.less.len());
        let d = kernel.def_inst(condition).map(|i| &kernel.insts[i]);
        let less = d.filter(|d| d.op == Op::Cmp && d.attrs.first() == Some(&tilelift_ir::Attr::Cmp(CmpOp::Lt)));
        let bounds = less.and_then(|d| Some([self.scalar(d.args[0]).ok()?, self.scalar(d.args[1]).ok()?]));
        if let (Some(t), Some(bounds)) = (&mut self.task, bounds) {
            t.less.push(bounds);
        }
        known
    }

    /// Only so many comparisons still hold.
    pub(in super::super) fn assume_no_more(&mut self, known: usize) {
        if let Some(t) = &mut self.task {
            t.less.truncate(known);
        }
    }

    /// True if a choice around says that a loop goes round at least once.
    pub(in super::super) fn known_to_run(&self, [lo, hi, _]: [LVal; 3]) -> bool {
        self.task.as_ref().is_some_and(|t| t.less.contains(&[lo, hi]))
    }

    /// True for the number of instances that run, of which there is one, and multiples of it.
    pub(in super::super) fn counts_workers(&self, v: Value) -> bool {
        let kernel = self.kernel;
        let times = |&a: &Value| matches!(kernel.as_const(a), Some((Literal::Int(n), _)) if n > 0);
        let mut at = kernel.def_inst(v);
        for _ in 0..MAX_LOOKED_AT {
            let Some(d) = at.map(|i| &kernel.insts[i]) else { return false };
            match d.op {
                Op::NumWorkers => return true,
                Op::Mul if d.args.iter().any(times) => at = d.args.iter().find(|a| !times(a)).and_then(|&a| kernel.def_inst(a)),
                _ => return false,
            }
        }
        false
    }

    /// The carried values of a loop that begin at zero and are summed up by products alone, by number, if the loop is known to run.
    pub(in super::super) fn fresh_sums(&self, b: &LaneBuilder, i: Inst, [lo, hi, step]: [LVal; 3]) -> Vec<usize> {
        if self.task.is_none() {
            return Vec::new();
        }
        let runs = self.known_to_run([lo, hi, step]) || b.as_const(lo).zip(b.as_const(hi)).is_some_and(|(lo, hi)| (lo as i64) < hi as i64);
        if !runs {
            return Vec::new();
        }
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let region = d.regions[0];
        let params = &kernel.regions[region].params;
        let from_zero: Vec<usize> = (0..params.len() - 1).filter(|&n| is_zero(kernel, d.args[n + 3])).collect();
        if from_zero.is_empty() {
            return from_zero;
        }
        let mut uses: BTreeMap<Value, u32> = from_zero.iter().map(|&n| (params[n + 1], 0)).collect();
        let mut products = uses.clone();
        let count = |list: &mut BTreeMap<Value, u32>, v: &Value| list.get_mut(v).into_iter().for_each(|n| *n += 1);
        self.order.insts(region).iter().for_each(|&j| kernel.insts[j].args.iter().for_each(|a| count(&mut uses, a)));
        for d in kernel.regions[region].insts.iter().map(|&j| &kernel.insts[j]).filter(|d| d.op == Op::AsyncDot) {
            count(&mut products, &d.args[2]);
        }
        let once = |list: &BTreeMap<Value, u32>, n: usize| list.get(&params[n + 1]) == Some(&1);
        from_zero.into_iter().filter(|&n| once(&uses, n) && once(&products, n)).collect()
    }

    /// What such accumulators begin at is not looked at.
    pub(in super::super) fn undefined_at_first(&self, b: &mut LaneBuilder, slots: &[Slot], fresh: &[usize], init: &mut [LVal]) {
        let mut at = 0;
        for (n, s) in slots.iter().enumerate() {
            for v in &mut init[at..at + s.count] {
                if fresh.contains(&n) {
                    let ty = b.ty(*v);
                    *v = b.undefined(ty);
                }
            }
            at += s.count;
        }
    }

    /// Such accumulators in a step of the loop.
    pub(in super::super) fn begin_sums(&mut self, params: &[Value], fresh: &[usize], at: [LVal; 2]) {
        if let Some(t) = &mut self.task {
            t.fresh.extend(fresh.iter().map(|&n| (params[n], Fresh { at })));
        }
    }

    /// Brings operands A of products in a loop or choice that are tiles from in front of it into their layout, once.
    pub(in super::super) fn bring_operands(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        if self.task.is_none() {
            return Ok(());
        }
        let kernel = self.kernel;
        let order = self.order.clone();
        for j in kernel.insts[i].regions.iter().flat_map(|&r| order.with(r, |op| op == Op::AsyncDot)) {
            let a = kernel.insts[j].args[0];
            if let (Some(ValueLocation::Tile(_)), Some(dot)) = (&self.values[a], self.assigned.dots[j].clone()) {
                self.tile(b, a, &dot.a)?;
            }
        }
        Ok(())
    }

    /// The elements of the carried tiles of a loop that only products read, from registers: they take words of several elements, and are carried
    /// as such. `None` for all others.
    pub(in super::super) fn carried_as_words(&self, i: Inst, slots: &[Slot]) -> Vec<Option<Scalar>> {
        let kernel = self.kernel;
        let region = kernel.insts[i].regions[0];
        let params = &kernel.regions[region].params[1..];
        let narrow = |(&v, s): (&Value, &Slot)| {
            let elem = kernel.ty(v).as_tile()?.elem;
            let per = 4usize.checked_div(elem.bytes() as usize).filter(|&n| n > 1)?;
            (!elem.is_packed() && elem != Scalar::I1 && s.count.is_multiple_of(per)).then_some(elem)
        };
        let mut words: Vec<Option<Scalar>> = params.iter().zip(slots).map(narrow).collect();
        if !self.task.as_ref().is_some_and(TaskState::multiplies) {
            words.fill(None);
        }
        if words.iter().all(Option::is_none) {
            return words;
        }
        let (mut products, mut others) = (BTreeSet::<Value>::new(), BTreeSet::<Value>::new());
        self.order.insts(region).iter().for_each(|&j| {
            let d = &kernel.insts[j];
            let left = d.op == Op::AsyncDot;
            products.extend(d.args.iter().take(usize::from(left)));
            others.extend(d.args.iter().skip(usize::from(left)));
        });
        for (elem, v) in words.iter_mut().zip(params) {
            *elem = elem.filter(|_| products.contains(v) && !others.contains(v));
        }
        words
    }

    /// Carried lane values with words for such tiles.
    pub(in super::super) fn join_words(&self, b: &mut LaneBuilder, narrow: &[Option<Scalar>], slots: &[Slot], lanes: &[LVal]) -> Vec<LVal> {
        let (mut out, mut at) = (Vec::with_capacity(lanes.len()), 0);
        for (elem, s) in narrow.iter().zip(slots) {
            let own = &lanes[at..at + s.count];
            at += s.count;
            match elem {
                Some(elem) if elem.bytes() == 2 => out.extend(own.chunks(2).map(|part| b.pack_computed(part))),
                Some(elem) => out.extend(to_words(b, own, *elem)),
                None => out.extend_from_slice(own),
            }
        }
        out
    }

    /// The elements of such words.
    pub(in super::super) fn split_words(
        &self,
        b: &mut LaneBuilder,
        narrow: &[Option<Scalar>],
        slots: &[Slot],
        lanes: &[LVal],
    ) -> Vec<LVal> {
        let (mut out, mut at) = (Vec::with_capacity(lanes.len()), 0);
        for (elem, s) in narrow.iter().zip(slots) {
            let count = elem.map_or(s.count, |e| s.count * e.bytes() as usize / 4);
            let own = &lanes[at..at + count];
            at += count;
            match elem {
                Some(elem) => out.extend(from_words(b, own, *elem, s.count as u32)),
                None => out.extend_from_slice(own),
            }
        }
        out
    }

    /// A choice that does no more than arrive at barriers is no choice but a condition of the arrival; false if it does more, or lanes would
    /// have to meet first.
    pub(in super::super) fn arrive_if(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<bool, LowerError> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let Some(task) = &self.task else { return Ok(false) };
        let first = task.arrives.or(task.first);
        if !d.results.is_empty() || (first.is_some() && (!task.met || task.traces.stored)) || task.traces.reads != Reads::None {
            return Ok(false);
        }
        let plain = |&j: &Inst| {
            let d = &kernel.insts[j];
            let scalars = d.results.iter().all(|&v| matches!(kernel.ty(v), Type::Scalar(_) | Type::Barrier(_)));
            let pure = d.op.info().effects == Effects::Pure && d.regions.is_empty() && scalars;
            pure || matches!(d.op, Op::BarrierArrive | Op::Yield)
        };
        let [then, otherwise] = [d.regions[0], d.regions[1]].map(|r| &kernel.regions[r].insts);
        if !then.iter().all(plain) || otherwise.len() > 1 {
            return Ok(false);
        }
        let holds = self.scalar(d.args[0])?;
        for &j in then {
            if kernel.insts[j].op != Op::BarrierArrive {
                self.inst(b, j).map_err(|e| e.at(kernel.locs[j]))?;
                continue;
            }
            let barrier = self.mbarrier(kernel.insts[j].args[0])?;
            let guard = b.and_guard(first, Some(holds));
            b.unit(Unit::Arrive { barrier, guard });
        }
        Ok(true)
    }
}
