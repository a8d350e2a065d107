//! Operands of instructions of explicit control, and what is said of those that clash.

use crate::data::Data;
use crate::error::Fault;
use crate::explicit::cluster::Cluster;
use crate::explicit::fiber::Fiber;
use crate::explicit::local::{Buf, Clash};
use crate::explicit::shape::Handle;
use crate::protocol::Protocol;
use tilelift_ir::ops::Op;
use tilelift_ir::{Inst, Value};

pub(super) fn malformed(what: &'static str) -> Fault {
    Fault::Malformed(what)
}

impl Cluster<'_, '_> {
    pub(super) fn int(&self, v: Value) -> Result<i64, Fault> {
        self.machine.env[v].as_ref().map_or(Err(malformed("a number is used before it is defined")), Data::as_int)
    }

    pub(super) fn tile(&self, f: &Fiber, v: Value) -> Result<Data, Fault> {
        let data = self.machine.env[v].clone().ok_or(malformed("a tile is used before it is defined"))?;
        if f.in_flight(&data) {
            return Err(Fault::Protocol(Protocol::InFlight));
        }
        Ok(data)
    }

    pub(super) fn buf(&self, f: &Fiber, v: Value) -> Result<Buf, Fault> {
        match &f.handles[v] {
            Some(Handle::Buf(Buf { outside: Some((index, count)), .. })) => {
                Err(Fault::Protocol(Protocol::Outside { index: *index, count: *count }))
            }
            Some(Handle::Buf(b)) => Ok(b.clone()),
            _ => Err(malformed("no local memory")),
        }
    }

    pub(super) fn mbarrier(&self, f: &Fiber, v: Value) -> Result<usize, Fault> {
        match &f.handles[v] {
            Some(Handle::Mbarriers(_, count, Some(index))) => Err(Fault::Protocol(Protocol::Outside { index: *index, count: *count })),
            Some(Handle::Mbarriers(first, ..)) => Ok(*first),
            _ => Err(malformed("no barrier")),
        }
    }

    /// The block of a rank; its memory stays until all blocks of the cluster have ended.
    pub(super) fn rank(&self, v: Value) -> Result<usize, Fault> {
        let rank = self.int(v)?;
        let size = self.blocks.len() as u32;
        let block = usize::try_from(rank).ok().filter(|&b| b < self.blocks.len());
        block.ok_or(Fault::Protocol(Protocol::Rank { rank, size }))
    }

    pub(super) fn clash(&self, f: &Fiber, clash: Clash) -> Fault {
        Fault::Protocol(match clash {
            Clash::Undefined => Protocol::Undefined,
            Clash::Coming(site) if self.machine.kernel.insts[site.inst].op == Op::CopyAsync => Protocol::Copying { by: self.site(f, site) },
            Clash::Unmet(site) => Protocol::Unmet { by: self.site(f, site) },
            Clash::Coming(site) => Protocol::Arriving { by: self.site(f, site) },
            Clash::Race(site) => Protocol::Race { by: self.site(f, site) },
            Clash::Used(site) => Protocol::InUse { by: self.site(f, site) },
            Clash::Unfenced(fiber) if fiber == f.id => Protocol::Unfenced { by: self.name(f) },
            Clash::Unfenced(fiber) => Protocol::Unfenced { by: self.name(&self.fibers[fiber]) },
        })
    }

    /// The indices, in front of which stands the view.
    pub(super) fn at(&self, inst: Inst, rank: usize) -> Result<Vec<Data>, Fault> {
        let args = &self.machine.kernel.insts[inst].args;
        (0..rank).map(|i| self.int(*args.get(1 + i).ok_or(malformed("no index"))?).map(Data::int)).collect()
    }
}
