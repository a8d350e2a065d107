//! Products of a batch as products of matrices, one by one: a dimension in front of the matrices becomes so many values.
//!
//! ```text
//! load a[g, 0, k] : tile<4x64x32>          ─►      load a[g, 0, k] : tile<1x64x32> ─ reshape : tile<64x32>, load a[g + 1, …] …      four of them
//! dot a, b, c : tile<4x64x64>                      four products of 64x64
//! for … carry c : tile<4x64x64>                    for … carry c0, c1, c2, c3
//! ```
//!
//! Matrix units take matrices, and rings bring what they take. The dimension is taken out of all that has it ([`Near`]); who needs it as it is leaves
//! it to all.

use super::Refusal;
use super::write::{Arg, Writer};
use crate::one_dimension::{Axis, Near, extent};
use std::collections::BTreeMap;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{Attr, Inst, Kernel, Literal, Op, Region, TileType, Type, Value};

/// Batches of more matrices than so many stay batches: each matrix has its own copies.
const MOST: u32 = 8;

/// Products of batches that are looked at, at most.
const TRIED: usize = 64;

/// Dimensions that are taken apart at most, one after the other.
const MOST_DIMENSIONS: usize = 8;

/// The kernel with its batches of products taken apart; `None` if it has none that can be.
pub fn batches_apart(kernel: &Kernel) -> Option<Kernel> {
    if kernel.is_explicit() || kernel.insts.values().any(|d| d.op == Op::RequireLayout) {
        return None;
    }
    let mut made: Option<Kernel> = None;
    for _ in 0..MOST_DIMENSIONS {
        let from = made.as_ref().unwrap_or(kernel);
        let Some((one, count)) = batch(from) else { break };
        let Ok(next) = (Apart { kernel: from, one, count, parts: BTreeMap::new() }).written() else { break };
        taken(Decision::Batches, || Told::of(format!("{count} products of matrices for one of a batch")));
        made = Some(next);
    }
    made
}

/// The dimension of a batch, by the values that have it, and its extent.
fn batch(kernel: &Kernel) -> Option<(BTreeMap<Value, usize>, u32)> {
    let near = Near::of(kernel);
    let (mut found, mut tried) = (None, 0);
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        if found.is_none() && d.op == Op::Dot && kernel.ty(d.results[0]).shape().is_some_and(|s| s.len() > 2) && tried < TRIED {
            tried += 1;
            found = apart(kernel, &near, (d.args[0], 0));
        }
    });
    found
}

/// The values that have a dimension, if it may be taken out of all of them: once of each, and a matrix is left.
fn apart(kernel: &Kernel, near: &Near<'_>, axis: Axis) -> Option<(BTreeMap<Value, usize>, u32)> {
    let count = extent(kernel, axis).filter(|&n| n <= MOST)?;
    let one = near.one(axis)?;
    let by_value: BTreeMap<Value, usize> = one.iter().copied().collect();
    let whole = |v: &Value| kernel.ty(*v).shape().is_some_and(|s| s.len() > 1);
    (by_value.len() == one.len() && by_value.keys().all(whole)).then_some((by_value, count))
}

/// What is written.
struct Apart<'k> {
    kernel: &'k Kernel,
    /// Where values have the dimension.
    one: BTreeMap<Value, usize>,
    count: u32,
    /// What stands for them.
    parts: BTreeMap<Value, Vec<Arg>>,
}

impl Apart<'_> {
    fn written(mut self) -> Result<Kernel, Refusal> {
        let mut w = Writer::new(self.kernel);
        self.region(&mut w, self.kernel.body)?;
        let mut out = w.finish();
        out.hints = self.kernel.hints;
        for (&v, &own) in self.kernel.params.iter().zip(&out.params) {
            out.names[own].clone_from(&self.kernel.names[v]);
        }
        Ok(out)
    }

    fn region(&mut self, w: &mut Writer<'_>, r: Region) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let insts = kernel.regions[r].insts.iter().filter(|&&i| kernel.insts[i].op != Op::Yield);
        insts.copied().try_for_each(|i| self.inst(w, i))
    }

    /// What stands for values, one behind the other.
    fn all(&self, w: &Writer<'_>, list: &[Value]) -> Result<Vec<Arg>, Refusal> {
        let mut out = Vec::new();
        for &v in list {
            match self.parts.get(&v) {
                Some(parts) => out.extend(parts),
                None => out.push(w.get(v)?),
            }
        }
        Ok(out)
    }

    /// Says what stands for values.
    fn set_all(&mut self, w: &mut Writer<'_>, list: &[Value], to: &[Arg]) {
        let mut to = to.iter().copied();
        for &v in list {
            if self.one.contains_key(&v) {
                self.parts.insert(v, to.by_ref().take(self.count as usize).collect());
            } else if let Some(to) = to.next() {
                w.set(v, to);
            }
        }
    }

    fn inst(&mut self, w: &mut Writer<'_>, i: Inst) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        w.loc = kernel.locs[i];
        let has = |list: &[Value]| list.iter().any(|v| self.one.contains_key(v));
        let mut inside = false;
        d.regions.iter().for_each(|&r| kernel.walk(r, &mut |j| inside |= has(&kernel.insts[j].args) || has(&kernel.insts[j].results)));
        match d.op {
            Op::For | Op::While | Op::If if inside || has(&d.args) || has(&d.results) => self.control(w, i),
            _ if has(&d.args) || has(&d.results) => {
                let mut made = Vec::new();
                for n in 0..self.count {
                    made.extend(self.part(w, i, n)?);
                }
                self.set_all(w, &d.results, &made);
                Ok(())
            }
            _ => w.copy(i),
        }
    }

    fn control(&mut self, w: &mut Writer<'_>, i: Inst) -> Result<(), Refusal> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let params = |r: usize| &kernel.regions[d.regions[r]].params[..];
        let args = |v: &[Value]| v.iter().map(|&v| Arg::from(v)).collect::<Vec<Arg>>();
        let results = match d.op {
            Op::For => {
                let bounds = [w.get(d.args[0])?, w.get(d.args[1])?, w.get(d.args[2])?];
                let init = self.all(w, &d.args[3..])?;
                args(&w.for_loop(bounds, &init, |w, index, carried| {
                    w.set(params(0)[0], index);
                    self.set_all(w, &params(0)[1..], &args(carried));
                    self.body(w, i, d.regions[0])
                })?)
            }
            Op::While => {
                let init = self.all(w, &d.args)?;
                let this = std::cell::RefCell::new(&mut *self);
                let part = |w: &mut Writer<'_>, r: usize, carried: &[Value]| {
                    let mut this = this.borrow_mut();
                    this.set_all(w, params(r), &args(carried));
                    this.body(w, i, d.regions[r])
                };
                args(&w.while_loop(&init, |w, carried| part(w, 0, carried), |w, carried| part(w, 1, carried))?)
            }
            _ => {
                let condition = w.get(d.args[0])?;
                let this = std::cell::RefCell::new(&mut *self);
                let arm = |w: &mut Writer<'_>, r: usize| this.borrow_mut().body(w, i, d.regions[r]);
                w.choice(condition, |w| arm(w, 0), |w| arm(w, 1))?
            }
        };
        self.set_all(w, &d.results, &results);
        Ok(())
    }

    /// A region of an instruction, and what it gives.
    fn body(&mut self, w: &mut Writer<'_>, i: Inst, r: Region) -> Result<Vec<Arg>, Refusal> {
        self.region(w, r)?;
        w.loc = self.kernel.locs[i];
        self.all(w, self.kernel.yields(r))
    }

    /// One part of an instruction.
    fn part(&self, w: &mut Writer<'_>, i: Inst, n: u32) -> Result<Option<Arg>, Refusal> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let value = |w: &Writer<'_>, v: Value| match self.parts.get(&v) {
            Some(parts) => Ok(parts[n as usize]),
            None => w.get(v),
        };
        let mut args = d.args.iter().map(|&v| value(w, v)).collect::<Result<Vec<Arg>, Refusal>>()?;
        let Some(&result) = d.results.first() else {
            // A store: the dimension is one of the view's again.
            let (v, indices) = (kernel.operand(i, "value")[0], kernel.operand(i, "indices").len());
            let Some(&axis) = self.one.get(&v) else { return Err(Refusal::Typed { op: d.op }) };
            args[1 + axis] = further(w, args[1 + axis], n, kernel.ty(d.args[1 + axis]))?;
            args[1 + indices] = w.make(Op::Reshape, &[args[1 + indices]], &[], Some(&single(kernel, v, axis)))?.into();
            w.act_as(i, &args);
            return Ok(None);
        };
        let Some(&axis) = self.one.get(&result) else { return Err(Refusal::Typed { op: d.op }) };
        let ty = without(kernel, result, axis);
        let made = match (d.op, d.attrs.first()) {
            (Op::Load, _) => {
                args[1 + axis] = further(w, args[1 + axis], n, kernel.ty(d.args[1 + axis]))?;
                let loaded = w.copy_as(i, &args, &single(kernel, result, axis))?;
                w.make(Op::Reshape, &[loaded.into()], &[], Some(&ty))?
            }
            (Op::Iota, Some(&Attr::Dim(dim))) if dim as usize == axis => {
                w.make(Op::Splat, &[Arg::Literal(Literal::Int(n.into()), kernel.ty(result).elem())], &[], Some(&ty))?
            }
            (Op::Transpose, Some(Attr::Perm(p))) => {
                let gone = p[axis];
                let rest = p.iter().filter(|&&x| x != gone).map(|&x| x - u32::from(x > gone)).collect();
                w.make(Op::Transpose, &args, &[Attr::Perm(rest)], None)?
            }
            (Op::Reshape, _) => w.make(Op::Reshape, &args, &[], Some(&ty))?,
            (Op::Broadcast, _) => {
                if !self.one.contains_key(&d.args[0]) {
                    args[0] = w.make(Op::Reshape, &args, &[], Some(&without(kernel, d.args[0], axis)))?.into();
                }
                w.make(Op::Broadcast, &args, &[], Some(&ty))?
            }
            (Op::Iota | Op::Reduce, _) => {
                let from = d.args.first().and_then(|v| self.one.get(v)).copied().unwrap_or(axis);
                let own = |a: &Attr| match a {
                    Attr::Dim(dim) => Attr::Dim(dim - u32::from(*dim as usize > from)),
                    a => a.clone(),
                };
                let attrs: Vec<Attr> = d.attrs.iter().map(own).collect();
                w.make(d.op, &args, &attrs, Some(&ty).filter(|_| d.op == Op::Iota))?
            }
            _ => w.copy_as(i, &args, &ty)?,
        };
        Ok(Some(made.into()))
    }
}

/// So many elements further.
fn further(w: &mut Writer<'_>, at: Arg, n: u32, ty: &Type) -> Result<Arg, Refusal> {
    Ok(match at {
        _ if n == 0 => at,
        Arg::Literal(Literal::Int(x), s) => Arg::Literal(Literal::Int(x.wrapping_add(n.into())), s),
        _ => w.bin(Op::Add, at, Arg::Literal(Literal::Int(n.into()), ty.elem()))?.into(),
    })
}

/// The type of a tile without a dimension.
fn without(kernel: &Kernel, v: Value, axis: usize) -> Type {
    resized(kernel, v, |shape| {
        shape.remove(axis);
    })
}

/// The type of a tile of which a dimension is 1.
fn single(kernel: &Kernel, v: Value, axis: usize) -> Type {
    resized(kernel, v, |shape| shape[axis] = 1)
}

fn resized(kernel: &Kernel, v: Value, change: impl FnOnce(&mut tilelift_ir::Shape)) -> Type {
    match kernel.ty(v) {
        Type::Tile(t) => {
            let mut shape = t.shape.clone();
            change(&mut shape);
            Type::Tile(TileType { shape, elem: t.elem })
        }
        ty => ty.clone(),
    }
}
