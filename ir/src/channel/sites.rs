//! Where a kernel uses its channels, and which tiles need not pass through registers.

use super::capabilities::Capabilities;
use crate::entities::{Inst, Region, Value};
use crate::kernel::Kernel;
use crate::ops::{Attr, Effects, Op};
use crate::types::Type;
use cranelift_entity::SecondaryMap;
use std::collections::BTreeSet;

/// Places and uses of a kernel's instructions.
pub(super) struct Sites<'k> {
    kernel: &'k Kernel,
    /// Region and position of each instruction.
    place: SecondaryMap<Inst, Option<(Region, usize)>>,
    /// The instructions that use a value, with the operand's number.
    uses: SecondaryMap<Value, Vec<(Inst, usize)>>,
    /// Results of `channel_get` that products read in their slot.
    pub(super) in_slot: BTreeSet<Value>,
    /// Loads that become copies, with the put that they are for.
    pub(super) copied: BTreeSet<Inst>,
}

impl<'k> Sites<'k> {
    pub(super) fn new(kernel: &'k Kernel, can: &Capabilities<'_>) -> Sites<'k> {
        let mut s =
            Sites { kernel, place: SecondaryMap::new(), uses: SecondaryMap::new(), in_slot: BTreeSet::new(), copied: BTreeSet::new() };
        for (region, data) in kernel.regions.iter() {
            for (at, &inst) in data.insts.iter().enumerate() {
                s.place[inst] = Some((region, at));
                for (n, &v) in kernel.insts[inst].args.iter().enumerate() {
                    s.uses[v].push((inst, n));
                }
            }
        }
        let all: Vec<Inst> = kernel.insts.keys().filter(|&i| s.place[i].is_some()).collect();
        for &put in all.iter().filter(|&&i| kernel.insts[i].op == Op::ChannelPut) {
            let tiles = &kernel.insts[put].args[2..];
            s.copied.extend(tiles.iter().filter_map(|&t| s.copied_by(t, put, can)).collect::<Vec<_>>());
        }
        for &get in all.iter().filter(|&&i| kernel.insts[i].op == Op::ChannelGet) {
            let read: Vec<Value> = kernel.insts[get].results.iter().copied().filter(|&v| s.read_in_place(get, v)).collect();
            s.in_slot.extend(read);
        }
        s.keep_products(can);
        s
    }

    /// The instructions whose first operand a channel is.
    pub(super) fn on(&self, channel: Value) -> impl Iterator<Item = Inst> + '_ {
        self.uses[channel].iter().filter(|u| u.1 == 0).map(|u| u.0)
    }

    /// The load that does nothing but bring a tile to a put: all of a box, in front of the put, with nothing in between that writes.
    fn copied_by(&self, tile: Value, put: Inst, can: &Capabilities<'_>) -> Option<Inst> {
        let k = self.kernel;
        let load = k.def_inst(tile)?;
        let d = &k.insts[load];
        let ((region, from), (there, to)) = (self.place[load]?, self.place[put]?);
        if d.op != Op::Load || d.present != 0 || region != there || self.uses[tile].len() != 1 {
            return None;
        }
        let between = &k.regions[region].insts[from + 1..to];
        let still = between.iter().all(|&i| matches!(k.insts[i].op.info().effects, Effects::Pure | Effects::Reads));
        (still && matches!(k.ty(tile), Type::Tile(_)) && (can.copies)(load)).then_some(load)
    }

    /// The transposed tiles of a value that are nothing but operands of products, and those products, with the operand's number; `None` if
    /// the value is used otherwise.
    fn products_of(&self, v: Value) -> Option<Vec<(Inst, usize)>> {
        let mut out = Vec::new();
        for &(user, n) in &self.uses[v] {
            let d = &self.kernel.insts[user];
            match d.op {
                Op::Dot if n < 2 => out.push((user, n)),
                Op::Transpose if is_swap(d.attrs.first()) => {
                    for &(dot, m) in &self.uses[d.results[0]] {
                        if self.kernel.insts[dot].op != Op::Dot || m > 1 {
                            return None;
                        }
                        out.push((dot, m));
                    }
                }
                _ => return None,
            }
        }
        Some(out)
    }

    /// True if all uses of a tile are products between the get and the slot's return, in one region.
    fn read_in_place(&self, get: Inst, v: Value) -> bool {
        let k = self.kernel;
        let (Some((region, from)), Some(products)) = (self.place[get], self.products_of(v)) else { return false };
        if k.ty(v).shape().map(<[u32]>::len) != Some(2) || products.is_empty() {
            return false;
        }
        let channel = k.insts[get].args[0];
        let back = |&&i: &&Inst| k.insts[i].op == Op::ChannelConsumed && k.insts[i].args[0] == channel;
        let Some(&back) = k.regions[region].insts[from..].iter().find(back) else { return false };
        let to = self.place[back].map_or(from, |p| p.1);
        products.iter().all(|&(dot, _)| self.place[dot].is_some_and(|(r, at)| r == region && (from..to).contains(&at)))
    }

    /// Drops what no product can read in place: a first operand without the second, and what the target does not multiply.
    fn keep_products(&mut self, can: &Capabilities<'_>) {
        loop {
            let k = self.kernel;
            let good = |v: &Value| {
                self.products_of(*v).unwrap_or_default().iter().all(|&(dot, _)| {
                    let args = &k.insts[dot].args;
                    let tiles = [0, 1, 2].map(|n| k.ty(args[n]).as_tile());
                    let [Some(a), Some(b), Some(c)] = tiles else { return false };
                    let both = self.source(args[0]).is_some();
                    self.source(args[1]).is_some() && (can.multiplies)([a, b, c], both)
                })
            };
            let kept: BTreeSet<Value> = self.in_slot.iter().copied().filter(good).collect();
            if kept.len() == self.in_slot.len() {
                return;
            }
            self.in_slot = kept;
        }
    }

    /// The tile of a slot that an operand is, and whether it is transposed.
    pub(super) fn source(&self, v: Value) -> Option<(Value, bool)> {
        if self.in_slot.contains(&v) {
            return Some((v, false));
        }
        let d = &self.kernel.insts[self.kernel.def_inst(v)?];
        (d.op == Op::Transpose && is_swap(d.attrs.first()) && self.in_slot.contains(&d.args[0])).then(|| (d.args[0], true))
    }
}

fn is_swap(attr: Option<&Attr>) -> bool {
    matches!(attr, Some(Attr::Perm(p)) if p[..] == [1, 0])
}
