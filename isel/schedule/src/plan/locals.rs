//! Who touches which allocation of local memory, found in one walk, so that nobody has to walk the kernel once per buffer.

use super::handle::{allocation, handle};
use crate::error::LowerError;
use crate::reason::{Remedy, Resource};
use cranelift_entity::SecondaryMap;
use std::collections::{BTreeMap, BTreeSet};
use tilelift_ir::{Inst, Kernel, Op, Value};

/// The longest way from a handle to its allocation, in views: whoever asks what a handle names goes it.
const MAX_VIEWS: u32 = 64;

/// Allocations of local memory and their users.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Locals {
    /// Instructions with an operand that is a handle of the allocation, and the allocation itself, in program order.
    uses: BTreeMap<Inst, Vec<Inst>>,
    /// Allocations that share the bytes of one.
    aliases: BTreeMap<Inst, Vec<Inst>>,
    /// The handles that something looks into, and not only makes further handles of.
    used: BTreeSet<Value>,
}

impl Locals {
    /// Those of a kernel with these instructions, in program order.
    pub(super) fn of(kernel: &Kernel, insts: &[Inst]) -> Locals {
        let mut out = Locals { used: used_handles(kernel, insts), ..Locals::default() };
        for &i in insts {
            let d = &kernel.insts[i];
            let alias = d.op == Op::LocalAlloc && !d.args.is_empty();
            for &v in d.args.iter().filter(|&&v| kernel.ty(v).as_shared().is_some()) {
                let Some(h) = handle(kernel, v) else { continue };
                let alloc = allocation(kernel, h.root);
                let list = out.uses.entry(alloc).or_default();
                if list.last() != Some(&i) {
                    list.push(i);
                }
                if alias {
                    out.aliases.entry(h.root).or_default().push(i);
                }
            }
            if d.op == Op::LocalAlloc {
                out.uses.entry(i).or_default().push(i);
            }
        }
        out
    }

    /// The users of an allocation, itself among them, in program order.
    pub fn uses(&self, alloc: Inst) -> &[Inst] {
        self.uses.get(&alloc).map_or(&[], Vec::as_slice)
    }

    /// The allocations that share its bytes.
    pub fn aliases(&self, alloc: Inst) -> &[Inst] {
        self.aliases.get(&alloc).map_or(&[], Vec::as_slice)
    }

    /// True if something looks into a handle, or into what is made of it.
    pub fn is_used(&self, v: Value) -> bool {
        self.used.contains(&v)
    }
}

/// The handles that something looks into, and not only makes further handles of.
fn used_handles(kernel: &Kernel, insts: &[Inst]) -> BTreeSet<Value> {
    let mut used = BTreeSet::new();
    for &i in insts {
        let d = &kernel.insts[i];
        // Who shares the bytes of an allocation does not look into it.
        if d.results.iter().any(|&v| kernel.ty(v).is_handle()) {
            continue;
        }
        for &v in d.args.iter().filter(|&&v| kernel.ty(v).is_handle()) {
            let mut at = Some(v);
            while let Some(v) = at.filter(|&v| used.insert(v)) {
                at = kernel
                    .def_inst(v)
                    .filter(|&i| kernel.insts[i].op != Op::LocalAlloc)
                    .and_then(|i| kernel.insts[i].args.first().copied());
            }
        }
    }
    used
}

/// Refuses views of views that are too many to be followed from each of their uses, of a kernel with these instructions.
///
/// # Errors
/// The first handle that is further from its allocation.
pub(super) fn views(kernel: &Kernel, insts: &[Inst]) -> Result<(), LowerError> {
    let mut depth: SecondaryMap<Value, u32> = SecondaryMap::new();
    let mut wrong = None;
    for &i in insts {
        let d = &kernel.insts[i];
        let view = matches!(d.op, Op::LocalIndex | Op::LocalSlice | Op::LocalTranspose | Op::LocalReinterpret | Op::BarrierIndex);
        if let (true, Some(&of), Some(&v)) = (view, d.args.first(), d.results.first()) {
            depth[v] = depth[of] + 1;
            if depth[v] > MAX_VIEWS {
                wrong.get_or_insert((i, depth[v]));
            }
        }
    }
    wrong.map_or(Ok(()), |(i, need)| {
        Err(LowerError::ResourceExceeded {
            resource: Resource::Views,
            need: need.into(),
            have: MAX_VIEWS.into(),
            remedy: Box::new(Remedy::View),
            loc: kernel.locs[i],
        })
    })
}
