//! Loads of which lanes take shares: where several lanes hold the same elements, in several registers, each loads other ones of them, and they give them to one
//! another where they are looked at.
//!
//! ```text
//! scales of a product's rows, by the lanes of one row:    each loads two        0 1 │ 0 1 │ 0 1 │ 0 1
//!                                                         each loads one        0   │ 1   │ 0   │ 1      and shuffles it to the others
//! scales and zeros, side by side:                         each loads one        s0  │ s1  │ z0  │ z1
//! ```
//!
//! An element costs an address, a guard and a load, and a place in what a loop carries; a shuffle is one instruction. What lies side by side comes by one load anyway.

use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::rc::Rc;
use tilelift_ir::layout::{AccessColumns, Axis, Coord, Layout, vectors_without};
use tilelift_ir::propagate::carried;
use tilelift_ir::{Extent, Inst, InstData, Kernel, Op, Value};
use tilelift_schedule::access::GlobalAccess;

/// Two loads of which each lane does one: those whose number has a bit set the second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pair {
    /// The loads of whose elements lanes without the bit have shares, and those with it.
    pub loads: [Inst; 2],
    /// The one that comes first.
    pub first: Inst,
    /// The bit of a lane's number.
    pub bit: u32,
}

/// The lanes that have a value: those whose number has a bit set, or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Half {
    /// The bit.
    pub bit: u32,
    /// Set or not.
    pub set: bool,
    /// What the others have is the value of the pair with this number.
    pub pair: u32,
}

/// What lanes share in a part.
#[derive(Default)]
pub(super) struct Shared {
    /// Classes by who leads each, and their layouts.
    pub classes: BTreeMap<Value, Rc<Layout>>,
    /// Those of which half of the lanes have the elements.
    pub halves: BTreeMap<Value, Half>,
    pub pairs: Vec<Pair>,
}

/// What is known of the instructions among which such loads are looked for.
pub(super) struct Among<'a> {
    pub kernel: &'a Kernel,
    pub insts: &'a [Inst],
    /// The instructions that take each value.
    pub users: &'a SecondaryMap<Value, SmallVec<[Inst; 2]>>,
    /// Which stand in loops.
    pub again: &'a SecondaryMap<Inst, bool>,
    /// Bytes that a vector has at most.
    pub vector_bytes: u32,
}

impl Among<'_> {
    /// True for a tile that is loaded or carried, and that nobody looks at but to repeat its elements.
    fn is_passed_on(&self, v: Value) -> bool {
        let kernel = self.kernel;
        let made = kernel.def_inst(v).is_none_or(|i| match kernel.insts[i].op {
            Op::Load => kernel.operand(i, "mask").is_empty() && kernel.operand(i, "other").is_empty(),
            op => op == Op::For,
        });
        let passes = |&i: &Inst| matches!(kernel.insts[i].op, Op::For | Op::Yield | Op::Broadcast);
        made && self.users[v].iter().all(passes)
    }

    /// The classes, by who leads each, of which lanes take shares, with the layouts of these. Given are the tiles of a part, the class of a value, and the layout
    /// of a class.
    pub fn shared(
        &self,
        tiles: impl Iterator<Item = Value>,
        class: impl Fn(Value) -> Value,
        layout: impl Fn(Value) -> Option<Rc<Layout>>,
    ) -> Shared {
        let kernel = self.kernel;
        let loads = self.insts.iter().filter(|&&i| kernel.insts[i].op == Op::Load).map(|&i| (class(kernel.insts[i].results[0]), i));
        let loads: Vec<(Value, Inst)> = loads.collect();
        if !loads.iter().any(|&(_, i)| self.again[i]) {
            return Shared::default();
        }
        // What else is in one class with a load.
        let mut others: BTreeMap<Value, bool> = loads.iter().map(|l| (l.0, true)).collect();
        for v in tiles {
            if let Some(passed_on) = others.get_mut(&class(v)) {
                *passed_on &= self.is_passed_on(v);
            }
        }
        let mut out: BTreeMap<Value, Rc<Layout>> = BTreeMap::new();
        for &(of, i) in loads.iter().filter(|(of, i)| self.again[*i] && others[of]) {
            if let Some(shares) = layout(of).and_then(|l| self.shares(i, &l)) {
                out.insert(of, Rc::new(shares));
            }
        }
        // What such a loop begins with is loaded likewise.
        for c in self.insts.iter().flat_map(|&i| carried(kernel, i)) {
            let (Some(init), Some(shares)) = (c.init.map(&class), out.get(&class(c.result)).cloned()) else { continue };
            if others.get(&init) == Some(&true) && layout(init) == layout(class(c.result)) {
                out.entry(init).or_insert(shares);
            }
        }
        let mut shared = Shared { classes: out, ..Shared::default() };
        self.pairs(&loads, &class, &layout, &mut shared);
        shared
    }

    /// Finds loads of loops, a step ahead, that go side by side with another one of a like view: lanes that would hold copies do the other one.
    fn pairs(
        &self,
        loads: &[(Value, Inst)],
        class: &dyn Fn(Value) -> Value,
        layout: &dyn Fn(Value) -> Option<Rc<Layout>>,
        shared: &mut Shared,
    ) {
        let kernel = self.kernel;
        let only = |of: Value| {
            let mut own = loads.iter().filter(|l| l.0 == of);
            own.next().filter(|_| own.next().is_none()).map(|l| l.1)
        };
        let mut taken: Vec<Value> = Vec::new();
        for &i in self.insts.iter().filter(|&&i| kernel.insts[i].op == Op::For) {
            let list: Vec<(Value, Value)> = carried(kernel, i).iter().filter_map(|c| Some((class(c.result), class(c.init?)))).collect();
            for (n, a) in list.iter().enumerate() {
                for b in &list[n + 1..] {
                    let all = [a.0, b.0, a.1, b.1];
                    let apart = (0..4).all(|k| !all[..k].contains(&all[k]) && !taken.contains(&all[k]));
                    let (true, Some(shares)) = (apart, shared.classes.get(&a.0).cloned()) else { continue };
                    let alike = all.iter().all(|v| shared.classes.get(v) == Some(&shares));
                    let [Some(la), Some(lb), Some(fa), Some(fb)] = all.map(only) else { continue };
                    let begun = [fa, fb].iter().all(|&l| self.users[kernel.insts[l].results[0]].as_slice() == [i]);
                    let looked_at = [a, b].iter().all(|c| self.is_looked_at_alike(c.0, class, layout));
                    if !(alike && begun && looked_at && self.go_side_by_side(la, lb) && self.go_side_by_side(fa, fb)) {
                        continue;
                    }
                    let zero = |k: &u32| shares.column(Axis::Lane, *k).iter().all(|&x| x == 0);
                    let Some(bit) = (0..shares.bits(Axis::Lane)).find(zero).filter(|_| shares.size(Axis::Reg) == 1) else { continue };
                    let pair = shared.pairs.len() as u32;
                    let first = |loads: [Inst; 2]| self.insts.iter().copied().find(|i| loads.contains(i)).unwrap_or(loads[0]);
                    shared.pairs.extend([[la, lb], [fa, fb]].map(|loads| Pair { loads, first: first(loads), bit }));
                    for (k, v) in all.into_iter().enumerate() {
                        shared.halves.insert(v, Half { bit, set: k % 2 == 1, pair });
                    }
                    taken.extend(all);
                }
            }
        }
    }

    /// True if all that repeat elements of a class want them as the class has them before lanes take shares.
    fn is_looked_at_alike(&self, of: Value, class: &dyn Fn(Value) -> Value, layout: &dyn Fn(Value) -> Option<Rc<Layout>>) -> bool {
        let kernel = self.kernel;
        let broadcasts = self.insts.iter().map(|&i| &kernel.insts[i]).filter(|d| d.op == Op::Broadcast && class(d.args[0]) == of);
        let mut all = broadcasts.map(|d| {
            let (from, to) = (kernel.ty(d.args[0]).shape()?, kernel.ty(d.results[0]).shape()?);
            let whole = layout(class(d.results[0]))?;
            let wanted = (0..to.len()).filter(|&k| from.get(k) != to.get(k)).fold((*whole).clone(), |l, k| l.with_dim_broadcast(k));
            Some(layout(of)? == Rc::new(wanted))
        });
        all.all(|alike| alike == Some(true))
    }

    /// True for loads of one place of two views of one type, one right behind the other.
    fn go_side_by_side(&self, a: Inst, b: Inst) -> bool {
        let (one, other) = (&self.kernel.insts[a], &self.kernel.insts[b]);
        let at = self.insts.iter().position(|&i| i == a);
        let next = at.is_some_and(|n| self.insts.get(n + 1) == Some(&b) || n > 0 && self.insts[n - 1] == b);
        let types = |d: &InstData| [d.args[0], d.results[0]].map(|v| self.kernel.ty(v).clone());
        next && one.args[1..] == other.args[1..] && one.attrs == other.attrs && types(one) == types(other)
    }

    /// The layout in which each lane has a share of what it has in this one, to load it: registers become bits of lanes that hold copies.
    fn shares(&self, load: Inst, layout: &Layout) -> Option<Layout> {
        let access = GlobalAccess::of(self.kernel, load);
        let bytes = access.view.elem.bytes();
        let columns = AccessColumns::global(layout, &access.order()).ok()?;
        let free = layout.free_mask(Axis::Reg);
        let alone = vectors_without(&columns, bytes, access.vector_elements(self.vector_bytes) * bytes, free).width == 1;
        if access.packed || free != 0 || !alone || !layout.odd(Axis::Reg).is_empty() {
            return None;
        }
        let zero = |c: &Coord| c.iter().all(|&x| x == 0);
        let columns = |a: Axis| (0..layout.bits(a)).map(|k| layout.column(a, k)).collect::<Vec<Coord>>();
        let [mut registers, mut lanes, warps] = [Axis::Reg, Axis::Lane, Axis::Warp].map(columns);
        // Elements a row apart have addresses of their own; along the contiguous dimension they follow from one another.
        let apart = |c: &Coord| (0..c.len()).any(|d| c[d] > 0 && matches!(access.view.stride(d), Extent::Dynamic(_)));
        let mut moved = false;
        for copies in lanes.iter_mut().filter(|c| zero(c)) {
            let Some(k) = registers.iter().position(apart) else { break };
            *copies = registers.remove(k);
            moved = true;
        }
        if !moved {
            return None;
        }
        Layout::from_columns(layout.shape(), &[(Axis::Reg, registers), (Axis::Lane, lanes), (Axis::Warp, warps)]).ok()
    }
}
