//! Stores whose elements no other write of the program meets: nothing orders two bulk stores of one element.
//!
//! ```text
//! two stores        store %o[%m, 0], %x       along one dimension both begin at known distances from one
//!                   store %o[%m, 128], %y     value, and neither reaches the other
//! rounds of a loop  %m = mul (div %t, %n), 64      from where a round stores, its index can be computed;
//!                   %n = mul (rem %t, %n), 128     so no two rounds store at one place
//! ```
//!
//! Invariant: what is not shown to be apart counts as one place. Places are numbers that do not wrap: a view has less than 2^31 elements along a dimension.

use crate::facts::constant;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use tilelift_ir::{Effects, Inst, Kernel, Op, Region, Type, Value, ValueDef};

/// How many definitions [`at_least_zero`] follows.
const DEEP: u32 = 8;

/// A write to a view, and the regions it stands in, outermost first, each with its holder.
struct Write {
    inst: Inst,
    within: Vec<(Inst, Region)>,
}

/// The writes to a view below a region.
fn writes(kernel: &Kernel, view: Value, r: Region, within: &mut Vec<(Inst, Region)>, found: &mut Vec<Write>) {
    for &i in &kernel.regions[r].insts {
        let d = &kernel.insts[i];
        if matches!(d.op.info().effects.global(), Effects::Writes | Effects::Updates) && d.args.first() == Some(&view) {
            found.push(Write { inst: i, within: within.clone() });
        }
        for &inner in &d.regions {
            within.push((i, inner));
            writes(kernel, view, inner, within, found);
            within.pop();
        }
    }
}

/// A value as another one and a known distance from it; a constant has none.
fn from(kernel: &Kernel, mut v: Value) -> (Option<Value>, i64) {
    let mut past = 0i64;
    loop {
        if let Some(c) = constant(kernel, v) {
            return (None, past.wrapping_add(c));
        }
        let Some(i) = kernel.def_inst(v).filter(|&i| kernel.insts[i].op == Op::Add) else { return (Some(v), past) };
        let [a, b] = [kernel.insts[i].args[0], kernel.insts[i].args[1]];
        match (constant(kernel, a), constant(kernel, b)) {
            (_, Some(c)) => (v, past) = (a, past.wrapping_add(c)),
            (Some(c), None) => (v, past) = (b, past.wrapping_add(c)),
            (None, None) => return (Some(v), past),
        }
    }
}

/// True for an integer that is never below zero. Positions and extents are not, nor is what is divided out of such.
fn at_least_zero(kernel: &Kernel, v: Value, deep: u32) -> bool {
    let Some(deep) = deep.checked_sub(1) else { return false };
    if let Some(c) = constant(kernel, v) {
        return c >= 0;
    }
    match kernel.values[v].def {
        ValueDef::Result(i, _) => {
            let d = &kernel.insts[i];
            match d.op {
                Op::ProgramId | Op::NumPrograms | Op::WorkerId | Op::NumWorkers | Op::Dim => true,
                Op::Add | Op::Mul | Op::Div | Op::DivU | Op::RemU | Op::Minimum => d.args.iter().all(|&a| at_least_zero(kernel, a, deep)),
                Op::Rem | Op::ShrU => at_least_zero(kernel, d.args[0], deep),
                Op::And | Op::Maximum => d.args.iter().any(|&a| at_least_zero(kernel, a, deep)),
                _ => false,
            }
        }
        // The index of a loop is never below its first.
        ValueDef::RegionParam(r, 0) => {
            kernel.holder(r).is_some_and(|i| kernel.insts[i].op == Op::For && at_least_zero(kernel, kernel.insts[i].args[0], deep))
        }
        _ => false,
    }
}

/// What a quotient or a remainder is of, and by which constant or value.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Parted {
    of: Value,
    by: Result<i64, Value>,
}

/// A quotient of an integer; one that is not signed, of an integer for which that is the same.
fn quotient(kernel: &Kernel, v: Value) -> Option<Parted> {
    let d = &kernel.insts[kernel.def_inst(v)?];
    let &[of, by] = &d.args[..] else { return None };
    let by = match d.op {
        Op::Div => constant(kernel, by).ok_or(by),
        Op::DivU if at_least_zero(kernel, of, DEEP) => constant(kernel, by).ok_or(by),
        Op::ShrU if at_least_zero(kernel, of, DEEP) => Ok(1 << constant(kernel, by).filter(|c| (0..31).contains(c))?),
        _ => return None,
    };
    Some(Parted { of, by })
}

/// A remainder, as [`quotient`].
fn remainder(kernel: &Kernel, v: Value) -> Option<Parted> {
    let d = &kernel.insts[kernel.def_inst(v)?];
    let &[of, by] = &d.args[..] else { return None };
    let by = match d.op {
        Op::Rem => constant(kernel, by).ok_or(by),
        Op::RemU if at_least_zero(kernel, of, DEEP) => constant(kernel, by).ok_or(by),
        Op::And if at_least_zero(kernel, of, DEEP) => {
            Ok(constant(kernel, by).map(|c| c.wrapping_add(1)).filter(|&c| c > 0 && c & (c - 1) == 0)?)
        }
        _ => return None,
    };
    Some(Parted { of, by })
}

/// A value that is another one times a constant, which is not 0.
fn scaled(kernel: &Kernel, v: Value) -> Option<(Value, i64)> {
    let d = &kernel.insts[kernel.def_inst(v)?];
    match (d.op, &d.args[..]) {
        (Op::Mul, &[a, b]) => {
            let (a, c) = constant(kernel, b).map(|c| (a, c)).or_else(|| constant(kernel, a).map(|c| (b, c)))?;
            (c != 0).then_some((a, c))
        }
        (Op::Shl, &[a, b]) => Some((a, 1 << constant(kernel, b).filter(|c| (0..31).contains(c))?)),
        _ => None,
    }
}

fn inside(kernel: &Kernel, l: Inst, visit: &mut dyn FnMut(Inst)) {
    kernel.insts[l].regions.iter().for_each(|&r| kernel.walk(r, visit));
}

/// Loops, and which values are the same in each of their rounds.
struct Rounds<'a> {
    kernel: &'a Kernel,
    loops: &'a [Inst],
    varying: BTreeSet<Value>,
}

impl<'a> Rounds<'a> {
    fn of(kernel: &'a Kernel, loops: &'a [Inst]) -> Rounds<'a> {
        let mut varying = BTreeSet::new();
        let mut vary = |i: Inst| {
            let d = &kernel.insts[i];
            if d.op != Op::Const {
                varying.extend(d.results.iter().copied());
            }
            d.regions.iter().for_each(|&r| varying.extend(kernel.regions[r].params.iter().copied()));
        };
        for &l in loops {
            vary(l);
            inside(kernel, l, &mut vary);
        }
        Rounds { kernel, loops, varying }
    }

    fn same(&self, v: Value) -> bool {
        !self.varying.contains(&v)
    }

    /// The loop whose index a value is.
    fn index_of(&self, v: Value) -> Option<Inst> {
        match self.kernel.values[v].def {
            ValueDef::RegionParam(r, 0) => self.kernel.holder(r).filter(|i| self.loops.contains(i) && self.kernel.insts[*i].op == Op::For),
            _ => None,
        }
    }

    /// A value without what is added in each round.
    fn bare(&self, v: Value) -> Value {
        let Some(i) = self.kernel.def_inst(v) else { return v };
        let d = &self.kernel.insts[i];
        match (d.op, &d.args[..]) {
            (Op::Add, &[a, b]) if self.same(b) => self.bare(a),
            (Op::Add, &[a, b]) if self.same(a) => self.bare(b),
            (Op::Sub, &[a, b]) if self.same(b) => self.bare(a),
            _ => v,
        }
    }

    /// A value and a number: where two rounds have different ones of that value, this one differs by the number or more.
    fn spaced(&self, v: Value) -> (Value, i64) {
        let v = self.bare(v);
        if let Some(i) = self.index_of(v) {
            let args = &self.kernel.insts[i].args;
            let step = constant(self.kernel, args[2]).filter(|_| self.same(args[0]));
            return (v, step.map_or(1, |s| s.saturating_abs().max(1)));
        }
        if let Some((a, c)) = scaled(self.kernel, v) {
            let (inner, by) = self.spaced(a);
            return (inner, by.saturating_mul(c.saturating_abs()));
        }
        (v, 1)
    }

    /// The largest number that a value stays below, if it is a remainder and never below zero.
    fn below(&self, v: Value) -> Option<i64> {
        let kernel = self.kernel;
        let Parted { of, by } = remainder(kernel, v)?;
        if !at_least_zero(kernel, of, DEEP) {
            return None;
        }
        let by = match by {
            Ok(c) => return Some(c),
            Err(by) if self.some(by) => by,
            Err(_) => return None,
        };
        let least = &kernel.insts[kernel.def_inst(by)?];
        (least.op == Op::Minimum).then(|| least.args.iter().find_map(|&a| constant(kernel, a))).flatten()
    }

    /// True for a divisor that is never below zero: rows of a group of tiles, too, the last of which has fewer.
    fn some(&self, v: Value) -> bool {
        let kernel = self.kernel;
        at_least_zero(kernel, v, DEEP)
            || kernel.def_inst(v).map(|i| &kernel.insts[i]).is_some_and(|d| {
                let left = |a: Value| at_least_zero(kernel, a, DEEP) || self.rows_left(a).is_some();
                d.op == Op::Minimum && d.args.iter().all(|&a| left(a))
            })
    }

    /// `rows - g * (t / (g * columns))` where the loop of the index `t` ends at `rows * columns`: as `t` is below that, the quotient's
    /// multiple is below `rows`.
    fn rows_left(&self, v: Value) -> Option<()> {
        let kernel = self.kernel;
        let of = |v: Value, op: Op| kernel.def_inst(v).map(|i| &kernel.insts[i]).filter(|d| d.op == op).map(|d| [d.args[0], d.args[1]]);
        let [rows, first] = of(v, Op::Sub)?;
        let (number, g) = scaled(kernel, first)?;
        let Parted { of: t, by } = quotient(kernel, number)?;
        let end = kernel.insts[self.index_of(t)?].args[1];
        let ends = match by {
            Ok(wide) => scaled(kernel, end) == Some((rows, wide / g)) && wide % g == 0,
            Err(wide) => {
                let (columns, by) = scaled(kernel, wide)?;
                let end = of(end, Op::Mul)?;
                by == g && at_least_zero(kernel, columns, DEEP) && (end == [rows, columns] || end == [columns, rows])
            }
        };
        (g > 0 && ends && at_least_zero(kernel, t, DEEP)).then_some(())
    }

    /// What else is known where a value is, given what is.
    fn follows(&self, v: Value, known: &BTreeSet<Value>) -> SmallVec<[Value; 2]> {
        let kernel = self.kernel;
        let given = |v: Value| self.same(v) || known.contains(&v);
        let Some(i) = kernel.def_inst(v).filter(|_| known.contains(&v)) else { return SmallVec::new() };
        let d = &kernel.insts[i];
        match (d.op, &d.args[..]) {
            (Op::Add | Op::Sub, &[a, b]) if given(b) => SmallVec::from_slice(&[a]),
            (Op::Add | Op::Sub, &[a, b]) if given(a) => SmallVec::from_slice(&[b]),
            (Op::Mul | Op::Shl, _) => scaled(kernel, v).into_iter().map(|(a, _)| a).collect(),
            // Two digits of one number.
            (Op::Add, &[a, b]) => {
                let digits = |high, low| scaled(kernel, high).zip(self.below(low)).is_some_and(|((_, by), n)| n <= by);
                if digits(a, b) || digits(b, a) { SmallVec::from_slice(&[a, b]) } else { SmallVec::new() }
            }
            _ => SmallVec::new(),
        }
    }

    /// True if the rounds can be told from these values: the index of each loop, of which the first is around the others, follows from them.
    fn told_by(&self, mut known: BTreeSet<Value>) -> bool {
        let kernel = self.kernel;
        let mut scalars: Vec<Inst> = Vec::new();
        let mut take = |i: Inst| {
            let d = &kernel.insts[i];
            let scalar = |&v: &Value| matches!(kernel.ty(v), Type::Scalar(_));
            if d.op.info().effects == Effects::Pure && d.regions.is_empty() && d.results.iter().all(scalar) {
                scalars.push(i);
            }
        };
        self.loops.iter().take(1).for_each(|&outer| inside(kernel, outer, &mut take));
        let results = scalars.iter().flat_map(|&i| &kernel.insts[i].results);
        let remainders: Vec<(Value, Parted)> = results.filter_map(|&v| Some((v, remainder(kernel, v)?))).collect();
        loop {
            let before = known.len();
            for &i in &scalars {
                let d = &kernel.insts[i];
                let given = |v: &Value, known: &BTreeSet<Value>| self.same(*v) || known.contains(v);
                if d.args.iter().all(|v| given(v, &known)) {
                    known.extend(d.results.iter().copied());
                }
                for &v in &d.results {
                    let more = self.follows(v, &known);
                    known.extend(more);
                }
                // A quotient and a remainder by the same number tell what was divided.
                if let Some(q) = d.results.first().filter(|v| known.contains(v)).and_then(|&v| quotient(kernel, v))
                    && q.by.err().is_none_or(|v| given(&v, &known))
                    && remainders.iter().any(|(v, r)| *r == q && known.contains(v))
                {
                    known.insert(q.of);
                }
            }
            if known.len() == before {
                break;
            }
        }
        let index = |l: Inst| kernel.insts[l].regions.first().and_then(|&r| kernel.regions[r].params.first());
        self.loops.iter().all(|&l| kernel.insts[l].op == Op::For && index(l).is_some_and(|v| known.contains(v)))
    }

    /// The values that two rounds have in common if their boxes at these indices, of these extents, meet.
    fn common(&self, indices: &[Value], shape: &[u32]) -> BTreeSet<Value> {
        let spaced = indices.iter().zip(shape).map(|(&v, &extent)| (self.spaced(v), extent));
        spaced.filter(|((_, by), extent)| *by >= i64::from(*extent)).map(|((v, _), _)| v).collect()
    }

    /// True if two boxes have no element in common, whichever rounds they are of: along some dimension.
    fn never_meet(&self, [x, y]: [(&[Value], &[u32]); 2]) -> bool {
        x.0.len() == y.0.len()
            && (0..x.0.len().min(x.1.len()).min(y.1.len())).any(|d| {
                let ((rx, ox), (ry, oy)) = (from(self.kernel, x.0[d]), from(self.kernel, y.0[d]));
                let (ex, ey) = (ox.saturating_add(x.1[d].into()), oy.saturating_add(y.1[d].into()));
                let same = rx.is_none_or(|r| self.same(r));
                let window = || rx.is_some_and(|r| ex.max(ey).saturating_sub(ox.min(oy)) <= self.spaced(r).1);
                rx == ry && (ex <= oy || ey <= ox) && (same || window())
            })
    }
}

/// Where a plain store begins and how far it reaches.
fn box_of(kernel: &Kernel, i: Inst) -> Option<(&[Value], &[u32])> {
    let d = &kernel.insts[i];
    let tile = (d.op == Op::Store).then(|| kernel.operand(i, "value").first().and_then(|&v| kernel.ty(v).as_tile())).flatten()?;
    Some((kernel.operand(i, "indices"), &tile.shape))
}

/// True if no write of the program, this one in another round of the loops around it included, meets an element that a store writes.
pub(super) fn meets_no_write(kernel: &Kernel, store: Inst) -> bool {
    let mut found = Vec::new();
    writes(kernel, kernel.insts[store].args[0], kernel.body, &mut Vec::new(), &mut found);
    let loops = |w: &Write| w.within.iter().map(|w| w.0).filter(|&i| matches!(kernel.insts[i].op, Op::For | Op::While)).collect::<Vec<_>>();
    let (Some(own), Some(at)) = (found.iter().find(|w| w.inst == store), box_of(kernel, store)) else { return false };
    let around = loops(own);
    let rounds = Rounds::of(kernel, &around);
    let told = rounds.told_by(rounds.common(at.0, at.1));
    found.iter().all(|w| {
        if w.inst == store {
            return told;
        }
        let Some(other) = box_of(kernel, w.inst) else { return false };
        // Of the arms of a choice one is taken.
        let exclusive = own.within.iter().zip(&w.within).any(|(a, b)| a.0 == b.0 && a.1 != b.1 && kernel.insts[a.0].op == Op::If);
        let others = loops(w);
        let all: Vec<Inst> = around.iter().chain(&others).copied().collect();
        Rounds::of(kernel, &all).never_meet([at, other]) || exclusive && told && others == around && at == other
    })
}
