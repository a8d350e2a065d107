//! Scalar loads.

use super::Ctx;
use crate::check::flight::{Kind, Landing, Pending};
use crate::decode::inst::Smem;
use crate::fault::{FaultKind, Result};
use crate::isa::memory::SmemKind;
use crate::state::races::Access;
use smallvec::{SmallVec, smallvec};

impl Ctx<'_, '_> {
    pub(super) fn smem(&mut self, s: &Smem) -> Result<()> {
        let mut global = Vec::new();
        let count = match s.kind {
            SmemKind::Load { dwords, buffer } => {
                let offset = i64::from(s.imm.unwrap_or(0)) + s.soffset.map_or(Ok(0), |o| self.address_part(o, 1))? as i64;
                let base = self.address_part(s.base, 2)?;
                let limit = if buffer { Some(self.address_part(s.base + 2, 2)? & 0xffff_ffff) } else { None };
                let base = if buffer { base & 0xffff_ffff_ffff } else { base };
                for i in 0..dwords {
                    let at = (offset + 4 * i64::from(i)) as u64;
                    let dst = s.dst + i;
                    if limit.is_some_and(|l| at.saturating_add(4) > l) {
                        self.wave.set_s(dst, 0, u32::MAX);
                        continue;
                    }
                    // The low bits of the address do not count.
                    let address = base.wrapping_add(at) & !3;
                    let mut data = [0; 4];
                    let defined = self.device.read(address, &mut data, None)?;
                    self.device.issue(self.group, self.wave.index, self.lds.epoch, address, 4, Access::default(), 0)?;
                    global.push((address, 4, false));
                    self.wave.set_s(dst, u32::from_le_bytes(data), if defined { u32::MAX } else { 0 });
                }
                dwords
            }
            SmemKind::Time => {
                let t = self.wave.steps * 4;
                self.wave.set_s64(s.dst, t, u64::MAX);
                2
            }
            SmemKind::Cache => 0,
            SmemKind::Refused => return Err(FaultKind::Unsupported { words: self.inst.words.to_vec() }),
        };
        let landings: SmallVec<[Landing; 1]> =
            if count > 0 { smallvec![Landing { vector: false, first: u16::from(s.dst), count }] } else { SmallVec::new() };
        self.issue(Pending { id: 0, from: self.inst.address, kind: Kind::Smem, landings, spans: Vec::new(), global });
        Ok(())
    }
}
