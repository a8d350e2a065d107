//! One instruction of one warp.

use crate::error::{ErrorKind, R};
use crate::exec::ctrl::BarArgs;
use crate::exec::int;
use crate::exec::{cvt, float, mem, mma};
use crate::memory::{PARAM_WINDOW, SHARED_WINDOW};
use crate::num::low;
use crate::program::op::Op;
use crate::state::Simulator;
use crate::state::warp::{Warp, lanes};
use crate::types::{Space, Ty};

impl Simulator<'_> {
    /// Runs up to `quantum` instructions, or until the warp cannot go on. Returns the number executed.
    pub(crate) fn run(&mut self, w: &mut Warp, quantum: u64) -> R<u64> {
        let mut n = 0;
        while n < quantum && w.active != 0 {
            self.step(w)?;
            n += 1;
            w.since_poll = w.since_poll.saturating_add(1);
            if !self.wakes.is_empty() {
                self.wake_waiters(w);
            }
            if !w.others.is_empty() {
                w.reconverge();
            }
        }
        Ok(n)
    }

    pub(super) fn step(&mut self, w: &mut Warp) -> R<()> {
        let prog = self.prog;
        let at = w.pc;
        let inst = &prog.code[at as usize];
        self.stats[at as usize].executed += 1;
        let mut mask = w.active;
        if let Some(g) = inst.guard {
            let bad = w.px[g.p.0 as usize] & mask;
            if bad != 0 {
                let m = "the guard predicate is an undefined value";
                return Err(self.fail(w, at, ErrorKind::Poison, m, Some(bad.trailing_zeros()), None));
            }
            mask &= w.pred(g);
        }
        w.pc = at + 1;
        if mask == 0 {
            return Ok(());
        }
        w.seq = w.seq.wrapping_add(1);
        if !prog.touched.is_empty() {
            self.touch(w, at)?;
        }
        match &inst.op {
            Op::Nop => {}
            Op::Mov { d, s } => {
                let p = w.poison(*s);
                if d.is_wide() {
                    let v = w.d64(*s);
                    w.set_d(*d, mask, &v, p);
                } else {
                    let v = w.r32(*s);
                    w.set_r(*d, mask, &v, p);
                }
            }
            Op::MovP { d, s } => {
                let (v, p) = (w.pred(*s), w.px[s.p.0 as usize]);
                w.set_p(*d, mask, v, p);
            }
            Op::Pack { d, parts, bits } => {
                let (mut v, mut p) = ([0u64; 32], 0);
                for (i, &r) in parts.iter().enumerate() {
                    let x = w.wide(r);
                    p |= w.poison(r);
                    for l in 0..32 {
                        v[l] |= (x[l] & low(*bits)) << (i as u32 * bits);
                    }
                }
                w.set(*d, mask, &v, p);
            }
            Op::Unpack { parts, s, bits } => {
                let (x, p) = (w.wide(*s), w.poison(*s));
                for (i, r) in parts.iter().enumerate() {
                    if let Some(r) = r {
                        w.set(*r, mask, &x.map(|v| v >> (i as u32 * bits) & low(*bits)), p);
                    }
                }
            }
            Op::Int { op, ty, d, a, b, c } => int::exec(w, mask, *op, *ty, [*d, *a, *b, *c]),
            Op::Lop3 { lut, d, a, b, c } => int::lop3(w, mask, *lut, [*d, *a, *b, *c]),
            Op::Shf { left, wrap, d, a, b, c } => int::shf(w, mask, *left, *wrap, [*d, *a, *b, *c]),
            Op::Prmt { mode, d, a, b, c } => int::prmt(w, mask, *mode, [*d, *a, *b, *c]),
            Op::Bfi { wide, d, a, b, pos, len } => int::bfi(w, mask, *wide, *d, [*a, *b, *pos, *len]),
            Op::Flt { op, ty, m, d, a, b, c } => float::exec(w, mask, *op, *ty, *m, [*d, *a, *b, *c]),
            Op::Testp { what, ty, d, a } => {
                let x = w.wide(*a);
                let v = (0..32).fold(0, |v, l| v | u32::from(float::testp(*what, *ty, x[l])) << l);
                let p = w.poison(*a);
                w.set_p(*d, mask, v, p);
            }
            Op::Cvt(c) => cvt::exec(w, mask, c),
            Op::CvtToCodes { ty, d, hi, lo } => cvt::to_codes(w, mask, *ty, [*d, *hi, *lo]),
            Op::CvtFromCodes { ty, d, s } => cvt::from_codes(w, mask, *ty, *d, *s),
            Op::CvtPack { to, round, relu, d, hi, lo } => cvt::pack2(w, mask, *to, *round, *relu, [*d, *hi, *lo]),
            Op::Setp { cmp, ty, ftz, d, q, a, b, comb } => {
                let (v, p) = cvt::compare(w, *cmp, *ty, *ftz, *a, *b);
                let out = cvt::combine(w, v, p, *comb);
                cvt::write_pair(w, mask, *d, *q, out);
            }
            Op::Setp2 { cmp, ty, ftz, d, q, a, b, comb } => {
                let lo = cvt::compare_half(w, *cmp, *ty, *ftz, [*a, *b], 0);
                let hi = cvt::compare_half(w, *cmp, *ty, *ftz, [*a, *b], 16);
                let (lo, hi) = (cvt::combine(w, lo.0, lo.1, *comb), cvt::combine(w, hi.0, hi.1, *comb));
                cvt::write_pair(w, mask, *d, *q, (lo.0, hi.0, lo.2));
            }
            Op::Set { cmp, to, ty, ftz, d, a, b, comb } => {
                let (v, p) = cvt::compare(w, *cmp, *ty, *ftz, *a, *b);
                let (v, _, p) = cvt::combine(w, v, p, *comb);
                let yes = if *to == Ty::F32 { 1f32.to_bits() } else { u32::MAX };
                let mut o = [0; 32];
                for l in lanes(v) {
                    o[l] = yes;
                }
                w.set_r(*d, mask, &o, p);
            }
            Op::Selp { d, a, b, p } => cvt::selp(w, mask, *d, *a, *b, *p),
            Op::Slct { d, a, b, c, ty } => {
                let x = w.r32(*c);
                let nonneg = |v: u32| if *ty == Ty::F32 { f32::from_bits(v) >= 0.0 } else { v as i32 >= 0 };
                let sel = (0..32).fold(0u32, |m, l| m | u32::from(nonneg(x[l])) << l);
                let p = w.poison(*c) | w.poison(*a) & sel | w.poison(*b) & !sel;
                cvt::pick(w, mask, *d, *a, *b, sel, p);
            }
            Op::LogicP { op, d, a, b } => {
                let v = op.apply(w.pred(*a), w.pred(*b));
                let p = w.px[a.p.0 as usize] | w.px[b.p.0 as usize];
                w.set_p(*d, mask, v, p);
            }
            Op::Ld(m) => self.load(w, at, mask, m)?,
            Op::St(m) => self.store(w, at, mask, m)?,
            Op::Atom(a) => self.atomic(w, at, mask, a)?,
            Op::Discard { addr } => self.discard(w, at, mask, addr)?,
            Op::Cvta { space, to_generic, d, s } => {
                let p = w.poison(*s);
                let delta = match (space, to_generic) {
                    (Space::Shared, true) => SHARED_WINDOW,
                    (Space::Shared, false) => SHARED_WINDOW.wrapping_neg(),
                    (Space::Cluster, true) => SHARED_WINDOW,
                    (Space::Cluster, false) => SHARED_WINDOW.wrapping_neg(),
                    (Space::Param, true) => PARAM_WINDOW,
                    (Space::Global | Space::Const | Space::Param | Space::Generic, _) => 0,
                };
                let v = w.d64(*s).map(|x| x.wrapping_add(delta));
                w.set_d(*d, mask, &v, p);
            }
            Op::Isspacep { space, d, a } => {
                let (x, p) = (w.d64(*a), w.poison(*a));
                let v = (0..32).fold(0u32, |m, l| {
                    let off = x[l].wrapping_sub(SHARED_WINDOW);
                    let shared = off < if *space == Space::Cluster { mem::WINDOW_SIZE } else { 1 << 24 };
                    m | u32::from(shared == matches!(space, Space::Shared | Space::Cluster)) << l
                });
                w.set_p(*d, mask, v, p);
            }
            Op::Bra { target, uni } => self.branch(w, at, mask, *target, *uni)?,
            Op::Exit => Self::exit(w, mask),
            Op::GridWait => {
                w.awaited |= mask;
                w.clocks.launched = true;
            }
            Op::Trap => {
                let m = "the kernel executed trap";
                return Err(self.fail(w, at, ErrorKind::Trap, m, Some(mask.trailing_zeros()), None));
            }
            Op::Bar { kind, id, count, aligned, d: _, dp: _, p } => {
                let b = BarArgs { kind: *kind, id: *id, count: *count, aligned: *aligned, p: *p };
                self.barrier(w, at, mask, b)?;
            }
            Op::BarWarp { mask: m } => {
                if let Some(who) = self.members(w, at, mask, *m)? {
                    Self::publish_copies(w, who);
                    if w.awaited & who != 0 {
                        w.awaited |= who;
                    }
                }
            }
            Op::Shfl { mode, d, p, a, b, c, mask: m } => {
                if self.members(w, at, mask, *m)?.is_some() {
                    Self::shfl(w, mask, *mode, *d, *p, *a, *b, *c);
                }
            }
            Op::Vote { mode, d, p, a, mask: m } => {
                if self.members(w, at, mask, *m)?.is_some() {
                    Self::vote(w, mask, *mode, *d, *p, *a);
                }
            }
            Op::Match { all, d, p, a, mask: m } => {
                if self.members(w, at, mask, *m)?.is_some() {
                    Self::matching(w, mask, *all, *d, *p, *a);
                }
            }
            Op::Redux { op, ty, d, a, mask: m } => {
                if self.members(w, at, mask, *m)?.is_some() {
                    Self::redux(w, mask, *op, *ty, *d, *a);
                }
            }
            Op::ActiveMask { d } => w.set_r(*d, mask, &[mask; 32], 0),
            Op::Elect { d, p, mask: m } => {
                if self.members(w, at, mask, *m)?.is_some() {
                    let leader = mask.trailing_zeros();
                    if let Some(d) = d {
                        w.set_r(*d, mask, &[leader; 32], 0);
                    }
                    w.set_p(*p, mask, 1 << leader, 0);
                }
            }
            Op::Fence { cta } => self.fence(w, *cta),
            Op::CpAsync(c) => self.cp_async(w, at, mask, c)?,
            Op::CpCommit => Self::cp_commit(w, mask),
            Op::CpWait { n } => self.cp_wait(w, at, mask, *n),
            Op::CpWaitAll => {
                Self::cp_commit(w, mask);
                self.cp_wait(w, at, mask, 0);
            }
            Op::LdMatrix { addr, trans, d } => {
                self.whole_warp(w, at, mask)?;
                self.ldmatrix(w, at, addr, *trans, d)?;
            }
            Op::StMatrix { addr, trans, s } => {
                self.whole_warp(w, at, mask)?;
                self.stmatrix(w, at, addr, *trans, s)?;
            }
            Op::MovMatrix { d, s } => {
                self.whole_warp(w, at, mask)?;
                Self::movmatrix(w, *d, *s);
            }
            Op::Mma(m) => {
                self.whole_warp(w, at, mask)?;
                mma::exec(w, m);
            }
            Op::Hop(h) => self.hop(w, at, mask, h)?,
        }
        Ok(())
    }
}
