//! What other lanes hold.
//!
//! ```text
//! xor by 1 to 3         quad_perm                          4 to 15    half_mirror (7), ror:8 (8) or mirror (15), then quad_perm
//!        16 to 31       ds_swizzle                         from 32    ds_bpermute
//! by number             ds_bpermute
//! ```

use super::selector::{Done, Selector};
use crate::isa::Opcode;
use crate::mir::{Dpp, Inst, Mods, Operand, Span};
use tilelift_lane::{LVal, ShuffleFrom};

/// `row_half_mirror`: xor by 7. `row_ror:8`: xor by 8. `row_mirror`: xor by 15.
const ROWS: [(u32, u16); 3] = [(7, 0x141), (8, 0x128), (15, 0x140)];

/// `quad_perm` that takes lane `i ^ mask` of four.
const fn quad(mask: u32) -> u16 {
    let mut ctrl = 0;
    let mut lane = 0;
    while lane < 4 {
        ctrl |= ((lane ^ mask) << (2 * lane)) as u16;
        lane += 1;
    }
    ctrl
}

impl Selector<'_> {
    fn by_dpp(&mut self, to: Span, from: Span, ctrl: u16) {
        let dpp = Dpp { ctrl, row_mask: 15, bank_mask: 15, bound_ctrl: true };
        self.push(Inst::new(Opcode::VMovB32, [to.into(), from.into()]).with(Mods { dpp: Some(dpp), ..Mods::default() }));
    }

    /// The value that another lane holds.
    pub(super) fn shuffle(&mut self, dst: LVal, a: LVal, from: ShuffleFrom) -> Done {
        let x = self.vector(a);
        match from {
            ShuffleFrom::Xor(mask) => {
                let to = self.def(dst);
                self.exchange(to, x, mask);
            }
            ShuffleFrom::Lane(lane) => {
                let lane = self.op(lane);
                let at = self.v_of(Opcode::VLshlrevB32, &[2.into(), lane]);
                let to = self.def(dst);
                self.emit(Opcode::DsBpermuteB32, [to.into(), at.into(), x.into()]);
            }
        }
        Ok(())
    }

    /// What `ds_bpermute` takes for the lane at a distance.
    pub(super) fn far_lane(&mut self, mask: u32) -> Span {
        let bytes = self.v_of(Opcode::VLshlrevB32, &[2.into(), self.entry.lane()]);
        self.v_of(Opcode::VXorB32, &[Operand::Imm(i64::from(4 * mask)), bytes.into()])
    }

    fn exchange(&mut self, to: Span, x: Span, mask: u32) {
        match mask {
            0 => self.valu(Opcode::VMovB32, to, &[x.into()]),
            1..=3 => self.by_dpp(to, x, quad(mask)),
            4..=15 => {
                // What is left behind the first step stays within four lanes.
                let (by, ctrl) = ROWS.into_iter().find(|(by, _)| by ^ mask < 4).unwrap_or(ROWS[0]);
                if by == mask {
                    return self.by_dpp(to, x, ctrl);
                }
                let t = self.v();
                self.by_dpp(t, x, ctrl);
                self.by_dpp(to, t, quad(by ^ mask));
            }
            16..=31 => {
                let offset = (mask << 10 | 0x1f) as i32;
                self.push(Inst::new(Opcode::DsSwizzleB32, [to.into(), x.into()]).with(Mods { offset, ..Mods::default() }));
            }
            _ => {
                let known = self.entry.far.iter().find(|f| f.0 == mask).map(|f| f.1);
                let at = known.unwrap_or_else(|| self.far_lane(mask));
                self.emit(Opcode::DsBpermuteB32, [to.into(), at.into(), x.into()]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lane that a lane reads by a control, within 16.
    fn reads(ctrl: u16, lane: u32) -> u32 {
        match ctrl {
            0..=0xff => (lane & !3) | ((u32::from(ctrl) >> (2 * (lane & 3))) & 3),
            0x128 => (lane & !15) | ((lane + 8) % 16),
            0x140 => (lane & !15) | (15 - lane % 16),
            0x141 => (lane & !7) | (7 - lane % 8),
            _ => unreachable!(),
        }
    }

    #[test]
    fn steps_add_up_to_the_mask() {
        for mask in 1..16 {
            for lane in 0..64 {
                let got = if mask < 4 {
                    reads(quad(mask), lane)
                } else {
                    let (by, ctrl) = ROWS.into_iter().find(|(by, _)| by ^ mask < 4).unwrap();
                    reads(ctrl, reads(quad(by ^ mask), lane))
                };
                assert_eq!(got, lane ^ mask);
            }
        }
    }
}
