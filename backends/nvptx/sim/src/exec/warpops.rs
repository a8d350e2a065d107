//! Communication between the lanes of a warp: shfl, vote, match, redux, elect.

use super::int;
use crate::error::{ErrorKind, R};
use crate::program::op::{IntOp, Shfl, Vote};
use crate::program::operand::{PSrc, Pred, Reg};
use crate::state::Simulator;
use crate::state::warp::{Wait, Warp, lanes};
use crate::types::Ty;

impl Simulator<'_> {
    /// Checks the member mask of a `.sync` operation executed by `mask`. `Ok(None)`: lanes are missing and
    /// the group was put aside to wait for them.
    pub(crate) fn members(&mut self, w: &mut Warp, at: u32, mask: u32, r: Reg) -> R<Option<u32>> {
        let bad = w.poison(r) & mask;
        if bad != 0 {
            let m = "the member mask is an undefined value";
            return Err(self.fail(w, at, ErrorKind::Poison, m, Some(bad.trailing_zeros()), None));
        }
        let first = mask.trailing_zeros() as usize;
        let want = w.r[r.i()][first];
        if let Some(l) = lanes(mask).find(|&l| w.r[r.i()][l] != want) {
            let m = format!("lanes {first} and {l} name different member masks");
            return Err(self.fail(w, at, ErrorKind::Undefined, m, Some(l as u32), None));
        }
        if mask & !want != 0 {
            let l = (mask & !want).trailing_zeros();
            let m = format!("lane {l} executes this but is not in its member mask {want:#010x}");
            return Err(self.fail(w, at, ErrorKind::Undefined, m, Some(l), None));
        }
        let missing = want & w.live & !mask;
        if missing == 0 {
            return Ok(Some(want & w.live));
        }
        let predicated_off = missing & w.active;
        if predicated_off != 0 {
            let m = format!("lanes {predicated_off:#010x} of the member mask are predicated off");
            return Err(self.fail(w, at, ErrorKind::Divergence, m, Some(predicated_off.trailing_zeros()), None));
        }
        self.await_lanes(w, at, missing)?;
        Ok(None)
    }

    /// Parks the running group at `at` until lanes `missing` arrive; an error if they cannot.
    pub(crate) fn await_lanes(&mut self, w: &mut Warp, at: u32, missing: u32) -> R<()> {
        if w.others.iter().all(|g| g.wait != Wait::No) {
            let there = w.others.iter().find(|g| g.mask & missing != 0).map_or(at, |g| g.pc);
            let there = self.site(w, there, None, None);
            let m =
                format!("lanes {:#010x} wait here for lanes {missing:#010x}, which are at line {}: `{}`", w.active, there.line, there.text);
            return Err(self.fail(w, at, ErrorKind::Divergence, m, Some(missing.trailing_zeros()), None));
        }
        self.stats[at as usize].executed -= 1;
        w.park(at, Wait::Converge);
        Ok(())
    }

    /// All 32 lanes must execute an `.aligned` whole-warp operation.
    pub(crate) fn whole_warp(&self, w: &Warp, at: u32, mask: u32) -> R<()> {
        if mask == u32::MAX {
            return Ok(());
        }
        let m = format!("a warp-wide instruction is executed by lanes {mask:#010x} only");
        Err(self.fail(w, at, ErrorKind::Divergence, m, Some((!mask).trailing_zeros()), None))
    }

    /// `shfl.sync`.
    #[expect(clippy::too_many_arguments, reason = "the operands of the instruction")]
    pub(crate) fn shfl(w: &mut Warp, mask: u32, mode: Shfl, d: Option<Reg>, p: Option<Pred>, a: Reg, b: Reg, c: Reg) {
        let (va, vb, vc) = (w.r32(a), w.r32(b), w.r32(c));
        let pa = w.poison(a);
        let ctl = w.poison(b) | w.poison(c);
        let (mut out, mut poison, mut pred) = ([0u32; 32], ctl, 0u32);
        for l in lanes(mask) {
            let lane = l as i32;
            let (bv, cv, seg) = ((vb[l] & 31) as i32, (vc[l] & 31) as i32, (vc[l] >> 8 & 31) as i32);
            let max = (lane & seg) | (cv & !seg);
            let min = lane & seg;
            let (j, ok) = match mode {
                Shfl::Up => (lane - bv, lane - bv >= max),
                Shfl::Down => (lane + bv, lane + bv <= max),
                Shfl::Bfly => (lane ^ bv, lane ^ bv <= max),
                Shfl::Idx => (min | (bv & !seg), (min | (bv & !seg)) <= max),
            };
            let j = if ok { j as usize } else { l };
            out[l] = va[j];
            pred |= u32::from(ok) << l;
            // Reading a lane that does not take part gives an undefined value.
            if mask >> j & 1 == 0 || pa >> j & 1 == 1 {
                poison |= 1 << l;
            }
        }
        if let Some(d) = d {
            w.set_r(d, mask, &out, poison);
        }
        if let Some(p) = p {
            w.set_p(p, mask, pred, ctl);
        }
    }

    /// `vote.sync`.
    pub(crate) fn vote(w: &mut Warp, mask: u32, mode: Vote, d: Option<Reg>, p: Option<Pred>, a: PSrc) {
        let v = w.pred(a) & mask;
        let poison = if w.px[a.p.0 as usize] & mask != 0 { u32::MAX } else { 0 };
        if let Some(d) = d {
            w.set_r(d, mask, &[v; 32], poison);
        }
        if let Some(p) = p {
            let yes = match mode {
                Vote::All => v == mask,
                Vote::Any | Vote::Ballot => v != 0,
                Vote::Uni => v == mask || v == 0,
            };
            w.set_p(p, mask, if yes { u32::MAX } else { 0 }, poison);
        }
    }

    /// `match.sync`.
    pub(crate) fn matching(w: &mut Warp, mask: u32, all: bool, d: Option<Reg>, p: Option<Pred>, a: Reg) {
        let v = w.wide(a);
        let poison = if w.poison(a) & mask != 0 { u32::MAX } else { 0 };
        let mut out = [0u32; 32];
        for l in lanes(mask) {
            out[l] = lanes(mask).filter(|&j| v[j] == v[l]).fold(0, |m, j| m | 1 << j);
        }
        let same = lanes(mask).all(|l| out[l] == mask);
        if all && !same {
            out = [0; 32];
        }
        if let Some(d) = d {
            w.set_r(d, mask, &out, poison);
        }
        if let Some(p) = p {
            w.set_p(p, mask, if same { u32::MAX } else { 0 }, poison);
        }
    }

    /// `redux.sync`.
    pub(crate) fn redux(w: &mut Warp, mask: u32, op: IntOp, ty: Ty, d: Reg, a: Reg) {
        let v = w.r32(a);
        let poison = if w.poison(a) & mask != 0 { u32::MAX } else { 0 };
        let sum = lanes(mask)
            .map(|l| u64::from(v[l]))
            // These operations are defined for all operands.
            .reduce(|x, y| int::lane(op, ty, x, y, 0).unwrap_or(0))
            .unwrap_or(0);
        w.set_r(d, mask, &[sum as u32; 32], poison);
    }
}
