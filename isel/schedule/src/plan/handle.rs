//! What a handle of local memory stands for.

use smallvec::SmallVec;
use tilelift_ir::{Attr, Inst, Kernel, Op, SharedType, Value};

/// A dimension of a handle: which one of the buffer, from where, and how far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The dimension of the buffer.
    pub of: usize,
    /// Its first element.
    pub at: u32,
    /// Elements.
    pub extent: u32,
}

/// Dimensions of a handle: mostly two or three.
pub type Parts = SmallVec<[Part; 4]>;

/// What a handle stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Handle {
    /// The instruction that gave the buffer its type: its allocation, or a reinterpretation.
    pub root: Inst,
    /// Its dimensions.
    pub parts: Parts,
}

pub(super) fn shared(kernel: &Kernel, v: Value) -> Option<&SharedType> {
    kernel.ty(v).as_shared()
}

/// What a handle stands for; `None` for what is none.
pub fn handle(kernel: &Kernel, v: Value) -> Option<Handle> {
    let i = kernel.def_inst(v)?;
    let d = &kernel.insts[i];
    let extents = &shared(kernel, v)?.shape;
    let whole = || {
        let parts = extents.iter().enumerate().map(|(of, &extent)| Part { of, at: 0, extent }).collect();
        Some(Handle { root: i, parts })
    };
    match (d.op, d.attrs.first()) {
        (Op::LocalAlloc | Op::LocalReinterpret, _) => whole(),
        (Op::LocalIndex, _) => {
            let mut h = handle(kernel, d.args[0])?;
            h.parts.remove(0);
            Some(h)
        }
        (Op::LocalSlice, Some(Attr::Offsets(at))) => {
            let mut h = handle(kernel, d.args[0])?;
            for ((p, &at), &extent) in h.parts.iter_mut().zip(at).zip(extents) {
                (p.at, p.extent) = (p.at + at, extent);
            }
            Some(h)
        }
        (Op::LocalTranspose, Some(Attr::Perm(perm))) => {
            let h = handle(kernel, d.args[0])?;
            Some(Handle { parts: perm.iter().map(|&p| h.parts[p as usize]).collect(), ..h })
        }
        _ => None,
    }
}

/// The allocation behind a handle's root.
pub fn allocation(kernel: &Kernel, root: Inst) -> Inst {
    let mut i = root;
    while kernel.insts[i].op == Op::LocalReinterpret {
        match handle(kernel, kernel.insts[i].args[0]) {
            Some(h) => i = h.root,
            None => break,
        }
    }
    i
}
