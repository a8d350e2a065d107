//! The shared memory of the other blocks of a cluster.
//!
//! A remote address has the block's rank plus one above bit 24, the place in its shared memory below: no access to the own memory takes it.

use super::super::unit::Unit;
use super::error::LaneFault;
use super::machine::{Interpreter, Trap};
use super::ops::extend;
use super::unit_state::Flight;
use crate::value::{Place, Space};
use cranelift_entity::EntityRef;

/// The lowest bit of the rank in a remote address.
const RANK: u32 = 24;

impl Interpreter<'_> {
    /// Block and address of a remote place.
    fn remote_place(&self, p: &Place, thread: usize) -> Result<(usize, i64), Trap> {
        let at = self.addr(p.addr, p.offset, thread);
        match usize::try_from((at >> RANK) - 1) {
            Ok(rank) if rank < self.blocks() => Ok((rank, at & ((1 << RANK) - 1))),
            Ok(_) | Err(_) => Err((LaneFault::Outside { space: Space::Shared, addr: at as u64, bytes: 1 }, thread)),
        }
    }

    pub(super) fn remote(&mut self, u: &Unit) -> Result<(), Trap> {
        match u {
            Unit::Remote { dst, place, rank } => {
                let mut column = self.take(*dst);
                let start = self.live.start;
                for t in 0..self.count() {
                    let (at, rank) = (self.addr(place.addr, place.offset, t), self.reg(*rank)[t] as i64);
                    if !(0..self.blocks() as i64).contains(&rank) {
                        return Err((LaneFault::ClusterRank { rank, size: self.blocks() as u32 }, t));
                    }
                    column[start + t] = ((rank + 1) << RANK | at) as u64;
                }
                self.regs[dst.index()] = column;
                Ok(())
            }
            Unit::RemoteLoad { dsts, from } => {
                let ty = self.ty(dsts[0]);
                let size = ty.bytes() as usize;
                let mut columns: Vec<Vec<u64>> = dsts.iter().map(|&v| self.take(v)).collect();
                let start = self.live.start;
                for t in 0..self.count() {
                    let (rank, at) = self.remote_place(from, t)?;
                    let who = self.who(t);
                    let mut raw = [0; 16];
                    let bytes = &mut raw[..size * dsts.len()];
                    self.in_block(rank, |m| m.shared.read(who, at, bytes)).map_err(|f| (f, t))?;
                    self.stats.shared_read += bytes.len() as u64;
                    for (column, part) in columns.iter_mut().zip(bytes.chunks(size)) {
                        let mut word = [0; 8];
                        word[..size].copy_from_slice(part);
                        column[start + t] = extend(u64::from_le_bytes(word), ty);
                    }
                }
                for (v, column) in dsts.iter().zip(columns) {
                    self.regs[v.index()] = column;
                }
                Ok(())
            }
            Unit::RemoteStore { srcs, to, guard } => {
                for rank in 0..self.blocks() {
                    self.in_block(rank, |m| m.shared.next_step());
                }
                for t in self.guarded(*guard) {
                    let (rank, at) = self.remote_place(to, t)?;
                    let (who, bytes) = (self.who(t), self.bytes_of(srcs, t));
                    self.in_block(rank, |m| m.shared.write(who, at, &bytes)).map_err(|f| (f, t))?;
                    self.stats.shared_written += bytes.len() as u64;
                }
                Ok(())
            }
            Unit::RemoteStoreAsync { srcs, to, barrier, guard } => {
                for t in self.guarded(*guard) {
                    let (rank, at) = self.remote_place(to, t)?;
                    let (other, mbarrier) = self.remote_place(barrier, t)?;
                    if rank != other {
                        return Err((
                            LaneFault::Mbarrier { addr: mbarrier as u64, problem: "is not in the block that the bytes go to" },
                            t,
                        ));
                    }
                    let data = self.bytes_of(srcs, t);
                    let (at, mbarrier) = (at as usize, mbarrier as usize);
                    self.stats.shared_written += data.len() as u64;
                    self.in_block(rank, |m| {
                        m.shared.next_step();
                        m.units.mbarrier(mbarrier)?;
                        m.shared.bulk_start(at..at + data.len())?;
                        let counts = data.len() as u32;
                        m.units.flights.push(Flight { mbarrier, to: at, data, counts });
                        Ok(())
                    })
                    .map_err(|f| (f, t))?;
                }
                Ok(())
            }
            Unit::RemoteArrive { barrier, guard } => {
                for t in self.guarded(*guard) {
                    let (rank, at) = self.remote_place(barrier, t)?;
                    self.in_block(rank, |m| m.units.arrive(at as usize, 0)).map_err(|f| (f, t))?;
                }
                Ok(())
            }
            _ => Err((LaneFault::Malformed("nothing that is remote"), 0)),
        }
    }

    fn bytes_of(&self, srcs: &[crate::value::LVal], thread: usize) -> Vec<u8> {
        srcs.iter().flat_map(|&v| self.reg(v)[thread].to_le_bytes()[..self.ty(v).bytes() as usize].to_vec()).collect()
    }
}
