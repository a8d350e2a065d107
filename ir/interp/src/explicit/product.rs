//! Products in flight: their results are registers that the unit is writing, so that they stay where they are.
//!
//! ```text
//! accumulator ─► product ─► product …   in place: a product that is some other's accumulator is nothing else
//! carried       at the place of the loop from which the accumulator came; a loop's round waits for all others that it began
//! choices       have no products in flight for results, and tasks end without
//! ```

use super::cluster::Cluster;
use super::fiber::Fiber;
use super::operands::malformed;
use crate::data::Bundle;
use crate::error::{Fault, InterpError};
use crate::explicit::fiber::Product;
use crate::fold;
use crate::protocol::Protocol;
use tilelift_ir::kernel::{InstData, Kernel, ValueDef};
use tilelift_ir::ops::{Attr, Op, Precision};
use tilelift_ir::types::Type;
use tilelift_ir::{Inst, Region, Value};

/// The region parameter whose place a value has, by way of products.
fn home(k: &Kernel, mut v: Value) -> Option<(Region, u32)> {
    loop {
        match k.values[v].def {
            ValueDef::RegionParam(r, n) => return Some((r, n)),
            ValueDef::KernelParam(_) => return None,
            ValueDef::Result(i, _) => {
                let d = &k.insts[i];
                v = match d.op {
                    Op::AsyncDot => *d.args.get(2)?,
                    Op::AsyncDotWait => *d.args.first()?,
                    _ => return None,
                };
            }
        }
    }
}

/// True if a value has a use behind an instruction in the text, or in a later round of a loop around it.
fn wanted(k: &Kernel, at: Inst, v: Value) -> bool {
    let uses = |i: Inst| k.insts[i].args.contains(&v);
    let (mut behind, mut later) = (false, false);
    k.walk(k.body, &mut |i| {
        later |= behind && uses(i);
        behind |= i == at;
    });
    let made = |i: Inst| k.insts[i].results.contains(&v) || k.insts[i].regions.iter().any(|&r| k.regions[r].params.contains(&v));
    let again = |(_, d): (Inst, &InstData)| {
        let (mut around, mut inside, mut used) = (false, d.regions.iter().any(|&r| k.regions[r].params.contains(&v)), false);
        for &r in &d.regions {
            k.walk(r, &mut |i| (around, inside, used) = (around || i == at, inside || made(i), used || uses(i)));
        }
        around && !inside && used
    };
    later || k.insts.iter().filter(|(_, d)| matches!(d.op, Op::For | Op::While)).any(again)
}

impl Cluster<'_, '_> {
    /// No other instruction reads what is in flight.
    pub(super) fn check_products(&self, f: &Fiber, inst: Inst) -> Result<(), InterpError> {
        if f.products.is_empty() {
            return Ok(());
        }
        let mut args = self.machine.kernel.insts[inst].args.iter().filter_map(|&v| self.machine.env[v].as_ref());
        if args.any(|a| f.in_flight(a)) {
            return Err(self.machine.fault(inst, Fault::Protocol(Protocol::InFlight)));
        }
        Ok(())
    }

    /// The end of a round that began behind so many products: what is in flight stays where it is. Carried values are parameters from `first` on.
    pub(super) fn check_round(&self, f: &Fiber, region: Region, first: u32, since: u64, values: &Bundle) -> Result<(), InterpError> {
        let k = self.machine.kernel;
        let counted = k.holder(region).is_some_and(|i| k.insts[i].op == Op::For);
        // What a counted loop carries to its products has other registers in the next round, and these again in the one behind.
        let alternates = |v: Value| counted && k.regions[region].params[first as usize..].contains(&v);
        for p in &f.products {
            let mut at = (0u32..).zip(k.yields(region)).zip(values).filter(|(_, x)| x.is(&p.data)).peekable();
            let needed = |a: Value| alternates(a) != (p.number >= since);
            let fault = if p.tile.is_some_and(needed) {
                Protocol::LeftTile
            } else if p.number >= since && !p.further && at.peek().is_none() {
                Protocol::Lost
            } else if at.any(|((n, &v), _)| home(k, v).is_none_or(|(r, m)| !self.same_loop(r, region) || m != first + n)) {
                Protocol::Moved
            } else {
                continue;
            };
            return Err(self.machine.fault(p.inst, Fault::Protocol(fault)));
        }
        Ok(())
    }

    /// True for the regions of one loop.
    fn same_loop(&self, a: Region, b: Region) -> bool {
        let kernel = self.machine.kernel;
        a == b || kernel.holder(a).is_some_and(|i| kernel.insts[i].op == Op::While && kernel.holder(b) == Some(i))
    }

    /// The end of a way of a choice.
    pub(super) fn check_choice(&self, f: &Fiber, values: &Bundle) -> Result<(), InterpError> {
        match f.products.iter().find(|p| values.iter().any(|v| v.is(&p.data))) {
            Some(p) => Err(self.machine.fault(p.inst, Fault::Protocol(Protocol::Moved))),
            None => Ok(()),
        }
    }

    /// The end of a task.
    pub(super) fn check_end(&self, f: &Fiber) -> Result<(), InterpError> {
        match f.products.first() {
            Some(p) => Err(self.machine.fault(p.inst, Fault::Protocol(Protocol::Abandoned))),
            None => Ok(()),
        }
    }

    /// Begins a product.
    pub(super) fn async_dot(&mut self, f: &mut Fiber, inst: Inst) -> Result<(), Fault> {
        let kernel = self.machine.kernel;
        let d = &kernel.insts[inst];
        let &[a, b, c] = &d.args[..] else { return Err(malformed("no operands")) };
        let mut used = Vec::new();
        let mut operand = |this: &mut Self, v: Value| match kernel.ty(v) {
            Type::Shared(_) => {
                let buf = this.buf(f, v)?;
                let data = this.read(f, inst, f.block, &buf, true)?;
                used.push(buf);
                Ok(data)
            }
            _ => this.tile(f, v),
        };
        let (x, y) = (operand(self, a)?, operand(self, b)?);
        // The accumulator of a product may itself be in flight: products of a task end in their order.
        let c = self.machine.env[c].clone().ok_or(malformed("no accumulator"))?;
        if f.in_flight(&c) {
            // It goes on in place, so that nobody else may want it as it was.
            if self.machine.env.iter().any(|(v, x)| x.as_ref().is_some_and(|x| x.is(&c)) && wanted(kernel, inst, v)) {
                return Err(Fault::Protocol(Protocol::Moved));
            }
            f.products.iter_mut().filter(|p| p.data.is(&c)).for_each(|p| p.further = true);
        }
        let precision = if let Some(Attr::Precision(p)) = d.attrs.first() { *p } else { Precision::Exact };
        let result = kernel.ty(d.results[0]);
        let (Some(&[m, n]), Some(k)) = (result.shape(), used.last().map(|b| b.shape[0])) else { return Err(malformed("no matrices")) };
        let data = fold::dot([m as usize, k as usize, n as usize], result.elem(), precision, &x, &y, c)?;
        let site = f.here(inst);
        for buf in &used {
            self.blocks[f.block].locals[buf.local].used(buf, site, f.begun, true);
        }
        let tile = (used.len() == 1).then_some(a);
        f.products.push(Product { number: f.begun, inst, data: data.clone(), further: false, tile });
        f.begun += 1;
        self.machine.env[d.results[0]] = Some(data);
        Ok(())
    }
}
