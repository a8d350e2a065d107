//! Layouts of a specialised loop's ring: how its operands wait in the ring, and how its results leave.
//!
//! ```text
//! load ─► swizzle of 128, 64 or 32 bytes ─┬─► descriptor ─────────────► group matrix instruction
//!                                         └─► operand A's registers ─► group matrix instruction
//! accumulators ─┬─► swizzled staging ─► bulk stores
//!               └─► stores of lanes
//! ```
//!
//! What nobody says is as wide as rows permit, read from memory, and stored by bulk copies where that fits. An author says it in the
//! kernel's text: `require_layout …, swizzle(64)` behind a load or in front of a store, `mma(a)` on an operand A, a layout of registers on what
//! is stored. A search says it with a [`RingLayouts`] of its own, and [`RingLayouts::written`] puts that into the text.

use super::options::LowerOptions;
use super::views::{behind_reshapes, is_swizzle, is_view, keeps_extents};
use crate::named::Named;
use crate::reason::NotSpecialised;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::require::{requirements, spec};
use tilelift_ir::{Attr, Cursor, DotPart, Inst, Kernel, LayoutSpec, Op, Region, Value};

/// How a result leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EpilogueStore {
    /// By bulk copies, through a tile with a swizzle width of so many bytes.
    Bulk(u32),
    /// From registers, by lanes.
    Lanes,
}

/// What is said of the layouts of a specialised loop.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RingLayouts {
    /// Swizzle widths in bytes, by load.
    pub swizzles: BTreeMap<Inst, u32>,
    /// Dots whose operand A comes from the ring, and whether it goes through registers.
    pub a_from_registers: BTreeMap<Inst, bool>,
    /// How results leave, by store.
    pub epilogue: BTreeMap<Inst, EpilogueStore>,
}

/// The requirements of swizzles, in the order of the text.
pub fn swizzle_sites(kernel: &Kernel) -> Vec<Inst> {
    let mut out = Vec::new();
    kernel.walk(kernel.body, &mut |i| out.extend(is_swizzle(kernel, i).then_some(i)));
    out
}

/// The load behind a value, through other views of it.
fn load_behind(kernel: &Kernel, mut v: Value) -> Option<Inst> {
    loop {
        let i = kernel.def_inst(v)?;
        match kernel.insts[i].op {
            Op::Load => return Some(i),
            Op::Transpose => {}
            Op::Reshape if keeps_extents(kernel, i) => {}
            _ if is_view(kernel, i) => {}
            _ => return None,
        }
        v = kernel.insts[i].args[0];
    }
}

/// Stores of a value, through reshapes that keep its elements in place.
fn stores_of(kernel: &Kernel, v: Value) -> Vec<Inst> {
    let reads = |i: &Inst| kernel.insts[*i].op == Op::Store && behind(kernel, kernel.operand(*i, "value")[0], v);
    let mut out = Vec::new();
    kernel.walk(kernel.body, &mut |i| out.extend(Some(i).filter(reads)));
    out
}

fn behind(kernel: &Kernel, mut from: Value, v: Value) -> bool {
    while from != v {
        let Some(i) = kernel.def_inst(from).filter(|&i| kernel.insts[i].op == Op::Reshape && keeps_extents(kernel, i)) else {
            return false;
        };
        from = kernel.insts[i].args[0];
    }
    true
}

/// Whether the kernel's author says how a value lies in registers.
fn in_registers(kernel: &Kernel, v: Value) -> bool {
    let Ok(held) = requirements(kernel) else { return false };
    [v, behind_reshapes(kernel, v)].into_iter().any(|v| held[v].is_some_and(|s| !is_swizzle(kernel, s)))
}

impl RingLayouts {
    /// What the kernel's author says.
    ///
    /// # Errors
    /// A swizzle of what is neither loaded nor stored, or two swizzles of one load.
    pub fn required(kernel: &Kernel) -> Result<RingLayouts, NotSpecialised> {
        let mut out = RingLayouts::default();
        let (mut swizzles, mut register_a, mut stores, mut any) = (Vec::new(), Vec::new(), Vec::new(), false);
        kernel.walk(kernel.body, &mut |i| {
            let d = &kernel.insts[i];
            any |= d.op == Op::RequireLayout;
            match spec(kernel, i) {
                Some(LayoutSpec::Swizzle(swizzle)) => swizzles.push((i, *swizzle)),
                Some(LayoutSpec::Mma(DotPart::A)) if load_behind(kernel, d.args[0]).is_some() => register_a.push(d.results[0]),
                _ if d.op == Op::Store => stores.push(i),
                _ => {}
            }
        });
        if !any {
            return Ok(out);
        }
        for i in stores {
            if in_registers(kernel, kernel.operand(i, "value")[0]) {
                out.epilogue.insert(i, EpilogueStore::Lanes);
            }
        }
        for (i, swizzle) in swizzles {
            let (from, to) = (kernel.insts[i].args[0], kernel.insts[i].results[0]);
            if let Some(load) = load_behind(kernel, from) {
                if out.swizzles.insert(load, swizzle).is_some_and(|other| other != swizzle) {
                    return Err(NotSpecialised::TwoSpans { load: Named::of(kernel, kernel.insts[load].results[0]) });
                }
                continue;
            }
            let stores = stores_of(kernel, to);
            if stores.is_empty() {
                return Err(NotSpecialised::NoSwizzle { value: Named::of(kernel, from) });
            }
            stores.into_iter().for_each(|s| {
                out.epilogue.insert(s, EpilogueStore::Bulk(swizzle));
            });
        }
        kernel.walk(kernel.body, &mut |i| {
            if kernel.insts[i].op == Op::Dot && register_a.contains(&kernel.insts[i].args[0]) {
                out.a_from_registers.insert(i, true);
            }
        });
        Ok(out)
    }

    /// What the caller pins, of everything that it may concern.
    pub fn asked(kernel: &Kernel, options: &LowerOptions) -> RingLayouts {
        let mut out = RingLayouts::default();
        let LowerOptions { swizzle, a_from_registers, bulk_stores, .. } = *options;
        if swizzle.is_none() && a_from_registers.is_none() && bulk_stores.is_none() {
            return out;
        }
        kernel.walk(kernel.body, &mut |i| match kernel.insts[i].op {
            Op::Load => out.swizzles.extend(swizzle.map(|s| (i, s))),
            Op::Dot => out.a_from_registers.extend(a_from_registers.map(|l| (i, l))),
            Op::Store if bulk_stores == Some(false) => out.epilogue.extend([(i, EpilogueStore::Lanes)]),
            _ => {}
        });
        out
    }

    /// These layouts where they say something, else those of another.
    pub fn or(&self, other: &RingLayouts) -> RingLayouts {
        fn join<T: Copy>(a: &BTreeMap<Inst, T>, b: &BTreeMap<Inst, T>) -> BTreeMap<Inst, T> {
            b.iter().chain(a).map(|(&i, &x)| (i, x)).collect()
        }
        RingLayouts {
            swizzles: join(&self.swizzles, &other.swizzles),
            a_from_registers: join(&self.a_from_registers, &other.a_from_registers),
            epilogue: join(&self.epilogue, &other.epilogue),
        }
    }

    /// True if another one decides what this one does in the same way.
    pub fn agrees(&self, with: &RingLayouts) -> bool {
        fn same<T: PartialEq>(a: &BTreeMap<Inst, T>, b: &BTreeMap<Inst, T>) -> bool {
            a.iter().all(|(i, x)| b.get(i) == Some(x))
        }
        same(&self.swizzles, &with.swizzles) && same(&self.a_from_registers, &with.a_from_registers) && same(&self.epilogue, &with.epilogue)
    }

    /// The kernel with these layouts as requirements in its text, where its author has not said so.
    pub fn written(&self, kernel: &Kernel) -> Kernel {
        let mut k = kernel.clone();
        let said = RingLayouts::required(kernel).unwrap_or_default();
        for (&load, &swizzle) in self.swizzles.iter().filter(|(i, _)| !said.swizzles.contains_key(i)) {
            let v = kernel.insts[load].results[0];
            k.require_behind(load, v, LayoutSpec::Swizzle(swizzle));
        }
        for (&dot, _) in self.a_from_registers.iter().filter(|(i, left)| **left && !said.a_from_registers.contains_key(i)) {
            let v = k.insts[dot].args[0];
            k.require_at(dot, v, LayoutSpec::Mma(DotPart::A));
        }
        for (&store, &way) in self.epilogue.iter().filter(|(i, _)| !said.epilogue.contains_key(i)) {
            let (mut user, mut v) = (store, k.insts[store].args[value_at(kernel, store)]);
            let layout = match way {
                EpilogueStore::Bulk(swizzle) => LayoutSpec::Swizzle(swizzle),
                EpilogueStore::Lanes => LayoutSpec::Mma(DotPart::Acc),
            };
            // Accumulators have their own shape in front of reshapes only.
            while let Some(i) = k.def_inst(v).filter(|&i| k.insts[i].op == Op::Reshape && keeps_extents(&k, i)) {
                (user, v) = (i, k.insts[i].args[0]);
            }
            k.require_at(user, v, layout);
        }
        k
    }
}

/// The operand of a store that is stored, by number.
pub fn value_at(kernel: &Kernel, store: Inst) -> usize {
    let value = kernel.operand(store, "value")[0];
    kernel.insts[store].args.iter().position(|&v| v == value).unwrap_or(0)
}

/// Requirements put into a kernel.
trait Require {
    /// A requirement in front of an instruction, of one of its operands, for it alone.
    fn require_at(&mut self, user: Inst, v: Value, layout: LayoutSpec);
    /// A requirement behind an instruction, of its result, for all that read it.
    fn require_behind(&mut self, maker: Inst, v: Value, layout: LayoutSpec);
}

fn place(k: &Kernel, i: Inst) -> Option<(Region, usize)> {
    k.regions.iter().find_map(|(r, d)| Some((r, d.insts.iter().position(|&j| j == i)?)))
}

impl Require for Kernel {
    fn require_at(&mut self, user: Inst, v: Value, layout: LayoutSpec) {
        let Some((region, at)) = place(self, user) else { return };
        let made = self.add_inst(Op::RequireLayout, &[v], 0, &[Attr::Layout(Box::new(layout))], &[], &[self.ty(v).clone()]);
        Cursor { region, at }.insert(self, made);
        let to = self.insts[made].results[0];
        self.insts[user].args.iter_mut().filter(|a| **a == v).for_each(|a| *a = to);
    }

    fn require_behind(&mut self, maker: Inst, v: Value, layout: LayoutSpec) {
        let Some((region, at)) = place(self, maker) else { return };
        let made = self.add_inst(Op::RequireLayout, &[v], 0, &[Attr::Layout(Box::new(layout))], &[], &[self.ty(v).clone()]);
        let to = self.insts[made].results[0];
        let others: BTreeSet<Inst> = self.insts.keys().filter(|&i| i != made).collect();
        for i in others {
            self.insts[i].args.iter_mut().filter(|a| **a == v).for_each(|a| *a = to);
        }
        Cursor { region, at: at + 1 }.insert(self, made);
    }
}
