//! The kernel descriptor: 64 bytes in the read-only data of a code object.

use super::bytes::{u16_at, u32_at, u64_at};
use crate::chip::Chip;

/// Bytes of scratch per lane, and of arguments, that no kernel exceeds.
const MOST_SCRATCH: u32 = 1 << 18;
const MOST_ARGUMENTS: u32 = 1 << 20;

/// What the descriptor asks the hardware for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Descriptor {
    /// Bytes of LDS, without what a launch adds.
    pub lds_bytes: u32,
    /// Bytes of scratch per lane.
    pub scratch_bytes: u32,
    /// Bytes of the segment of kernel arguments.
    pub kernarg_bytes: u32,
    /// The entry, relative to the descriptor.
    pub entry: i64,
    /// 32-bit registers per lane, VGPRs and AGPRs together.
    pub registers: u32,
    /// The first AGPR among them.
    pub accum_offset: u32,
    /// SGPRs with those the hardware reserves.
    pub sgprs: u32,
    /// SGPRs that are set before the start, arguments included.
    pub user_sgprs: u32,
    /// Which ids of the workgroup follow them.
    pub workgroup_ids: [bool; 3],
    /// A register with facts of the workgroup follows.
    pub workgroup_info: bool,
    /// Scratch is used.
    pub scratch: bool,
    /// Ids of the work item in `v0`: x, y, z up to this one.
    pub workitem_ids: u32,
    /// The mode register's low byte at the start: rounding and denormals.
    pub float_mode: u8,
    /// Signalling NaNs are quieted.
    pub ieee: bool,
    /// A clamp turns NaN into zero.
    pub dx10_clamp: bool,
    /// Waves of a workgroup may be on several compute units.
    pub split: bool,
    /// Which pointers are in user SGPRs.
    pub properties: u16,
    /// Dwords of arguments that are loaded into user SGPRs, and the first of them.
    pub preload: (u32, u32),
}

impl Descriptor {
    /// Reads 64 bytes; `None` if there are fewer, or if the numbers contradict each other.
    pub(super) fn read(b: &[u8], chip: Chip) -> Option<Descriptor> {
        let (rsrc3, rsrc1, rsrc2) = (u32_at(b, 44)?, u32_at(b, 48)?, u32_at(b, 52)?);
        let preload = u32::from(u16_at(b, 58)?);
        let registers = ((rsrc1 & 63) + 1) * 8;
        let d = Descriptor {
            lds_bytes: u32_at(b, 0)?,
            scratch_bytes: u32_at(b, 4)?,
            kernarg_bytes: u32_at(b, 8)?,
            entry: u64_at(b, 16)? as i64,
            registers,
            accum_offset: ((rsrc3 & 63) + 1) * 4,
            split: rsrc3 >> 16 & 1 != 0,
            sgprs: (((rsrc1 >> 6) & 15) / 2 + 1) * 16,
            user_sgprs: (rsrc2 >> 1) & 31,
            workgroup_ids: [rsrc2 >> 7 & 1 != 0, rsrc2 >> 8 & 1 != 0, rsrc2 >> 9 & 1 != 0],
            workgroup_info: rsrc2 >> 10 & 1 != 0,
            scratch: rsrc2 & 1 != 0,
            workitem_ids: rsrc2 >> 11 & 3,
            float_mode: (rsrc1 >> 12) as u8,
            dx10_clamp: rsrc1 >> 21 & 1 != 0,
            ieee: rsrc1 >> 23 & 1 != 0,
            properties: u16_at(b, 56)?,
            preload: (preload & 127, preload >> 7),
        };
        let sizes = d.lds_bytes <= chip.lds_bytes() && d.scratch_bytes <= MOST_SCRATCH && d.kernarg_bytes <= MOST_ARGUMENTS;
        (sizes && d.registers <= 512 && d.user_sgprs <= 16).then_some(d)
    }

    /// VGPRs that instructions may name.
    pub fn vgprs(&self) -> u32 {
        self.accum_offset.min(self.registers).min(256)
    }

    /// AGPRs that instructions may name.
    pub fn agprs(&self) -> u32 {
        self.registers.saturating_sub(self.accum_offset).min(256)
    }
}
