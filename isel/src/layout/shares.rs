//! Loads of which lanes take shares: where several lanes hold the same elements, in several registers, each loads other ones of them, and they give them to one
//! another where they are looked at.
//!
//! ```text
//! scales of a product's rows, by the lanes of one row:    each loads two        0 1 │ 0 1 │ 0 1 │ 0 1
//!                                                         each loads one        0   │ 1   │ 0   │ 1      and shuffles it to the others
//! ```
//!
//! An element costs an address, a guard and a load, and a place in what a loop carries; a shuffle is one instruction. What lies side by side comes by one load anyway.

use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::rc::Rc;
use tilelift_ir::layout::{AccessColumns, Axis, Coord, Layout, vectors_without};
use tilelift_ir::propagate::carried;
use tilelift_ir::{Extent, Inst, Kernel, Op, Value};
use tilelift_schedule::access::GlobalAccess;

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
    ) -> Vec<(Value, Rc<Layout>)> {
        let kernel = self.kernel;
        let loads = self.insts.iter().filter(|&&i| kernel.insts[i].op == Op::Load).map(|&i| (class(kernel.insts[i].results[0]), i));
        let loads: Vec<(Value, Inst)> = loads.collect();
        if !loads.iter().any(|&(_, i)| self.again[i]) {
            return Vec::new();
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
        out.into_iter().collect()
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
