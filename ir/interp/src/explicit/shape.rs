//! What the allocations of a kernel are: local memory, barriers, channels.

use crate::explicit::local::Buf;
use cranelift_entity::SecondaryMap;
use tilelift_ir::Value;
use tilelift_ir::kernel::Kernel;
use tilelift_ir::ops::{Attr, Op};
use tilelift_ir::types::Type;

/// What a handle names.
#[derive(Clone, Debug)]
pub(super) enum Handle {
    Buf(Buf),
    /// Barriers from a first one on, how many, and the position if it is outside of them.
    Mbarriers(usize, u32, Option<i64>),
    Channel(usize),
}

/// What the allocations of a kernel are.
pub(super) struct Shape {
    /// What each allocation's result names.
    pub(super) handles: SecondaryMap<Value, Option<Handle>>,
    /// Bytes of each piece of local memory.
    pub(super) locals: Vec<usize>,
    /// Arrivals of each barrier.
    pub(super) mbarriers: Vec<u32>,
    /// Slots and consumers of each channel.
    pub(super) channels: Vec<(u32, u32)>,
    /// Tasks, replicas counted, or 1.
    pub(super) tasks: u32,
}

impl Shape {
    pub(super) fn new(kernel: &Kernel) -> Shape {
        let mut s = Shape { handles: SecondaryMap::new(), locals: Vec::new(), mbarriers: Vec::new(), channels: Vec::new(), tasks: 1 };
        for &inst in &kernel.regions[kernel.body].insts {
            let d = &kernel.insts[inst];
            let count = |at: usize| if let Some(Attr::Count(n)) = d.attrs.get(at) { *n } else { 1 };
            let result = d.results.first().map(|&v| (v, kernel.ty(v)));
            let handle = match (d.op, result) {
                (Op::LocalAlloc, Some((_, Type::Shared(ty)))) => match d.args.first().and_then(|&v| s.handles[v].clone()) {
                    Some(Handle::Buf(owner)) => Handle::Buf(Buf::new(owner.local, ty)),
                    _ => {
                        s.locals.push(ty.bytes() as usize);
                        Handle::Buf(Buf::new(s.locals.len() - 1, ty))
                    }
                },
                (Op::BarrierAlloc, Some((_, Type::Barrier(n)))) => {
                    let first = s.mbarriers.len();
                    s.mbarriers.extend(std::iter::repeat_n(count(0), *n as usize));
                    Handle::Mbarriers(first, *n, None)
                }
                (Op::ChannelAlloc, Some((_, Type::Channel(c)))) => {
                    s.channels.push((c.depth, count(0)));
                    Handle::Channel(s.channels.len() - 1)
                }
                _ => {
                    if let Some(Attr::Tasks(tasks)) = d.attrs.first() {
                        s.tasks = tasks.iter().map(|t| t.replicas).sum();
                    }
                    continue;
                }
            };
            if let Some((v, _)) = result {
                s.handles[v] = Some(handle);
            }
        }
        s
    }
}
