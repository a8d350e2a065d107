//! The rewriting.

use super::capabilities::Capabilities;
use super::sites::Sites;
use crate::entities::{Inst, Region, Value};
use crate::kernel::{Kernel, Operands};
use crate::ops::{Attr, Literal, Op};
use crate::types::{ChannelType, Scalar, Shape, SharedType, Type};
use crate::typing::result_types;
use cranelift_entity::packed_option::ReservedValue;
use std::collections::BTreeMap;

/// What stands for a channel.
struct Made {
    ty: ChannelType,
    buffers: Vec<Value>,
    full: Value,
    empty: Value,
    /// Tiles that async units read, or write, in their slots: what tasks store there has to be fenced.
    by_units: Vec<bool>,
}

struct Expand<'k> {
    from: &'k Kernel,
    sites: Sites<'k>,
    to: Kernel,
    channels: BTreeMap<Value, Made>,
    /// The slots of the results of `channel_get`.
    slots: BTreeMap<Value, Value>,
    replaced: BTreeMap<Value, Value>,
    /// Instructions of the region that is being written.
    out: Vec<Inst>,
    loc: crate::kernel::Loc,
}

/// The kernel with its channels expanded; a kernel without channels as it is. `kernel` is verified, and so is the result.
pub fn expand(kernel: &Kernel, can: &Capabilities<'_>) -> Kernel {
    let sites = Sites::new(kernel, can);
    let mut e = Expand {
        from: kernel,
        sites,
        to: kernel.clone(),
        channels: BTreeMap::new(),
        slots: BTreeMap::new(),
        replaced: BTreeMap::new(),
        out: Vec::new(),
        loc: Default::default(),
    };
    e.region(kernel.body);
    let Expand { mut to, replaced, .. } = e;
    for d in to.insts.values_mut() {
        d.args.iter_mut().for_each(|v| *v = replaced.get(v).copied().unwrap_or(*v));
    }
    to
}

impl Expand<'_> {
    fn region(&mut self, r: Region) {
        let outer = std::mem::take(&mut self.out);
        for &inst in &self.from.regions[r].insts {
            self.loc = self.from.locs[inst];
            self.inst(inst);
        }
        self.to.regions[r].insts = std::mem::replace(&mut self.out, outer);
    }

    fn inst(&mut self, inst: Inst) {
        let d = &self.from.insts[inst];
        match d.op {
            Op::ChannelAlloc => self.alloc(inst),
            Op::ChannelPut => self.put(inst),
            Op::ChannelGet => self.get(inst),
            Op::ChannelConsumed => {
                let Some((slot, _)) = self.slot_and_round(inst) else { return };
                let empty = self.channels[&d.args[0]].empty;
                let empty = self.push(Op::BarrierIndex, &[empty, slot], &[], None);
                self.push(Op::BarrierArrive, &[empty], &[], None);
            }
            Op::Load if self.sites.copied.contains(&inst) => {}
            Op::Transpose if self.sites.source(d.results[0]).is_some() => {}
            Op::Dot if self.sites.source(d.args[1]).is_some() => self.product(inst),
            _ => {
                d.regions.iter().for_each(|&r| self.region(r));
                self.out.push(inst);
            }
        }
    }

    /// Appends an instruction; its result, or its first operand.
    fn push(&mut self, op: Op, args: &[Value], attrs: &[Attr], ty: Option<Type>) -> Value {
        let typed = {
            let types: Vec<&Type> = args.iter().map(|&v| self.to.ty(v)).collect();
            result_types(op, &types, 0, attrs, ty.as_ref()).expect("the expansion of a verified channel is well typed")
        };
        let inst = self.to.add_inst(op, args, 0, attrs, &[], &typed);
        self.to.locs[inst] = self.loc;
        self.out.push(inst);
        self.to.insts[inst].results.first().or(args.first()).copied().unwrap_or_else(Value::reserved_value)
    }

    fn number(&mut self, n: i64) -> Value {
        self.push(Op::Const, &[], &[Attr::Literal(Literal::Int(n))], Some(Type::Scalar(Scalar::I32)))
    }

    fn alloc(&mut self, inst: Inst) {
        let d = &self.from.insts[inst];
        let channel = d.results[0];
        let Type::Channel(ty) = self.from.ty(channel).clone() else { return };
        let consumers = if let Some(Attr::Count(n)) = d.attrs.first() { *n } else { 1 };
        let buffers = ty.tiles.iter().map(|t| {
            let shape: Shape = std::iter::once(ty.depth).chain(t.shape.iter().copied()).collect();
            Type::Shared(SharedType { shape, elem: t.elem })
        });
        let buffers: Vec<Value> =
            buffers.collect::<Vec<_>>().into_iter().map(|t| self.push(Op::LocalAlloc, &[], &[Attr::Count(0)], Some(t))).collect();
        let bars = Some(Type::Barrier(ty.depth));
        let full = self.push(Op::BarrierAlloc, &[], &[Attr::Count(1)], bars.clone());
        let empty = self.push(Op::BarrierAlloc, &[], &[Attr::Count(consumers)], bars);
        let by_units = (0..ty.tiles.len()).map(|n| self.touched_by_units(channel, n)).collect();
        self.channels.insert(channel, Made { ty, buffers, full, empty, by_units });
    }

    /// True if an async unit reads or writes tile `n` of a channel somewhere.
    fn touched_by_units(&self, channel: Value, n: usize) -> bool {
        self.sites.on(channel).map(|i| &self.from.insts[i]).any(|d| match d.op {
            Op::ChannelGet => self.sites.in_slot.contains(&d.results[n]),
            Op::ChannelPut => self.from.def_inst(d.args[2 + n]).is_some_and(|i| self.sites.copied.contains(&i)),
            _ => false,
        })
    }

    /// Slot of a step, and how often the ring was gone around.
    fn slot_and_round(&mut self, inst: Inst) -> Option<(Value, Value)> {
        let args = &self.from.insts[inst].args;
        let (depth, step) = (self.channels.get(&args[0])?.ty.depth, args[1]);
        let depth = self.number(i64::from(depth));
        let around = self.push(Op::Div, &[step, depth], &[], None);
        Some((self.push(Op::Rem, &[step, depth], &[], None), around))
    }

    fn put(&mut self, inst: Inst) {
        let Some((slot, around)) = self.slot_and_round(inst) else { return };
        let d = &self.from.insts[inst];
        let Made { ty, buffers, full, empty, by_units } = &self.channels[&d.args[0]];
        let (tiles, buffers, full, empty, by_units) = (ty.tiles.clone(), buffers.clone(), *full, *empty, by_units.clone());
        let free = self.push(Op::BarrierIndex, &[empty, slot], &[], None);
        let one = self.number(1);
        let before = self.push(Op::Add, &[around, one], &[], None);
        self.push(Op::BarrierWait, &[free, before], &[], None);
        let ready = self.push(Op::BarrierIndex, &[full, slot], &[], None);
        let (mut copies, mut bytes, mut stored, mut fenced) = (Vec::new(), 0u64, false, false);
        for (n, &tile) in d.args[2..].iter().enumerate() {
            let to = self.push(Op::LocalIndex, &[buffers[n], slot], &[], None);
            match self.from.def_inst(tile).filter(|i| self.sites.copied.contains(i)) {
                Some(load) => {
                    copies.push((load, to));
                    bytes += SharedType { shape: tiles[n].shape.clone(), elem: tiles[n].elem }.bytes();
                }
                None => {
                    self.push(Op::LocalStore, &[to, tile], &[], None);
                    stored = true;
                    fenced |= by_units[n];
                }
            }
        }
        if fenced {
            self.push(Op::FenceAsync, &[], &[], None);
        }
        if copies.is_empty() {
            self.push(Op::BarrierArrive, &[ready], &[], None);
            return;
        }
        // The arrival speaks for all lanes' stores.
        if stored {
            self.push(Op::TaskBarrier, &[], &[], None);
        }
        self.push(Op::BarrierExpect, &[ready], &[Attr::Count(bytes as u32)], None);
        for (load, to) in copies {
            let args: Operands = self.from.insts[load].args.iter().copied().chain([to, ready]).collect();
            self.push(Op::AsyncLoad, &args, &[], None);
        }
    }

    fn get(&mut self, inst: Inst) {
        let Some((slot, around)) = self.slot_and_round(inst) else { return };
        let d = &self.from.insts[inst];
        let made = &self.channels[&d.args[0]];
        let (full, buffers) = (made.full, made.buffers.clone());
        let ready = self.push(Op::BarrierIndex, &[full, slot], &[], None);
        self.push(Op::BarrierWait, &[ready, around], &[], None);
        for (n, &tile) in d.results.iter().enumerate() {
            let at = self.push(Op::LocalIndex, &[buffers[n], slot], &[], None);
            if self.sites.in_slot.contains(&tile) {
                self.slots.insert(tile, at);
            } else {
                let loaded = self.push(Op::LocalLoad, &[at], &[], None);
                self.replaced.insert(tile, loaded);
            }
        }
    }

    fn product(&mut self, inst: Inst) {
        let d = &self.from.insts[inst];
        let operand = |this: &mut Self, v: Value| match this.sites.source(v) {
            None => v,
            Some((tile, transposed)) => {
                let slot = this.slots[&tile];
                if transposed { this.push(Op::LocalTranspose, &[slot], &[Attr::Perm(Shape::from_slice(&[1, 0]))], None) } else { slot }
            }
        };
        let (a, b) = (operand(self, d.args[0]), operand(self, d.args[1]));
        let product = self.push(Op::AsyncDot, &[a, b, d.args[2]], &d.attrs, None);
        let done = self.push(Op::AsyncDotWait, &[product], &[Attr::Count(0)], None);
        self.replaced.insert(d.results[0], done);
    }
}
