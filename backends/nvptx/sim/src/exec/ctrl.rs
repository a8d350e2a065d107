//! Branches, exit, CTA barriers.

use crate::error::{ErrorKind, R};
use crate::program::op::{BarKind, Op};
use crate::program::operand::{PSrc, Reg};
use crate::state::Simulator;
use crate::state::race::StreamKind;
use crate::state::warp::{Group, Wait, Warp, lanes};

/// Operands of a CTA barrier.
#[derive(Clone, Copy)]
pub(crate) struct BarArgs {
    pub(crate) kind: BarKind,
    pub(crate) id: Reg,
    pub(crate) count: Option<Reg>,
    pub(crate) aligned: bool,
    pub(crate) p: Option<PSrc>,
}

impl Simulator<'_> {
    /// A branch taken by `taken` out of the active lanes. `w.pc` is already the next instruction.
    pub(crate) fn branch(&self, w: &mut Warp, at: u32, taken: u32, target: u32, uni: bool) -> R<()> {
        let stay = w.active & !taken;
        if taken == 0 {
            return Ok(());
        }
        if stay == 0 {
            w.pc = target;
            return Ok(());
        }
        if uni {
            let m = format!("a branch marked .uni is taken by lanes {taken:#010x} and not by {stay:#010x}");
            return Err(self.fail(w, at, ErrorKind::Divergence, m, Some(taken.trailing_zeros()), None));
        }
        // The lower instruction runs first.
        let (lo, hi) = if target < w.pc { ((target, taken), (w.pc, stay)) } else { ((w.pc, stay), (target, taken)) };
        w.others.push(Group { pc: hi.0, mask: hi.1, wait: Wait::No });
        (w.pc, w.active) = lo;
        Ok(())
    }

    /// Lanes leave for good.
    pub(crate) fn exit(w: &mut Warp, mask: u32) {
        w.live &= !mask;
        w.active &= !mask;
        // Groups that wait for other lanes may now be complete.
        w.wake_converge();
        if w.active == 0 {
            w.pick();
        }
    }

    /// One value of a register that must agree in all lanes of `mask`.
    pub(crate) fn uniform(&self, w: &Warp, at: u32, mask: u32, r: Reg, what: &str) -> R<u32> {
        let bad = w.poison(r) & mask;
        if bad != 0 {
            let m = format!("the {what} is an undefined value");
            return Err(self.fail(w, at, ErrorKind::Poison, m, Some(bad.trailing_zeros()), None));
        }
        let v = &w.r[r.i()];
        let first = v[mask.trailing_zeros() as usize];
        match lanes(mask).find(|&l| v[l] != first) {
            None => Ok(first),
            Some(l) => {
                let m = format!("the {what} is not the same in all lanes");
                Err(self.fail(w, at, ErrorKind::Barrier, m, Some(l as u32), None))
            }
        }
    }

    /// `bar`/`barrier` on a CTA barrier.
    pub(crate) fn barrier(&mut self, w: &mut Warp, at: u32, mask: u32, b: BarArgs) -> R<()> {
        if b.aligned && mask != w.live {
            let missing = w.live & !mask;
            let off = missing & w.active;
            let lowest = w.others.iter().all(|g| g.pc > at);
            if off != 0 || lowest {
                let m =
                    format!("an aligned barrier is executed by lanes {mask:#010x} while lanes {missing:#010x} of the warp are elsewhere");
                return Err(self.fail(w, at, ErrorKind::Divergence, m, Some(missing.trailing_zeros()), None));
            }
            return self.await_lanes(w, at, missing);
        }
        let id = self.uniform(w, at, mask, b.id, "barrier number")?;
        if id > 15 {
            let m = format!("barrier {id} does not exist: there are 16");
            return Err(self.fail(w, at, ErrorKind::Barrier, m, None, None));
        }
        let all = self.n_warps * 32;
        let count = match b.count {
            None => all,
            Some(r) => self.uniform(w, at, mask, r, "thread count")?,
        };
        if count == 0 || count % 32 != 0 || count > all {
            let m = format!("thread count {count} is not a multiple of 32 from 32 to {all}");
            return Err(self.fail(w, at, ErrorKind::Barrier, m, None, None));
        }
        let bar = &self.ctas[self.cur].bars[id as usize];
        if bar.arrived > 0 && bar.expected != count {
            let m = format!("barrier {id} is in use for {} threads but this names {count}", bar.expected);
            let mut e = self.fail(w, at, ErrorKind::Barrier, m, None, None);
            e.other = self.first_arrival(bar, w).map(Box::new);
            return Err(e);
        }
        if bar.log.iter().any(|x| x.0 == w.id && x.2) {
            let m = format!("this warp arrives twice at barrier {id} before it completes");
            return Err(self.fail(w, at, ErrorKind::Barrier, m, None, None));
        }
        if let (done, Some(stream)) = self.ctas[self.cur].generations[id as usize]
            && w.clocks.stream(self.streams[stream as usize].dense) < done
        {
            let m = format!(
                "this warp arrives at barrier {id} without an order after the barrier's last completion: it could have been counted there"
            );
            let mut e = self.fail(w, at, ErrorKind::Barrier, m, None, None);
            e.notes.push("another barrier number is needed, or an order between the two uses of this one".to_string());
            return Err(e);
        }
        let (popc, and, or) = match b.p {
            None => (0, true, false),
            Some(p) => {
                let bad = w.px[p.p.0 as usize] & mask;
                if bad != 0 {
                    let m = "the predicate is undefined";
                    return Err(self.fail(w, at, ErrorKind::Poison, m, Some(bad.trailing_zeros()), None));
                }
                let v = w.pred(p) & mask;
                (v.count_ones(), v == mask, v != 0)
            }
        };
        Self::publish_copies(w, mask);
        let cta = &mut self.ctas[self.cur];
        let bar = &mut cta.bars[id as usize];
        bar.expected = count;
        bar.popc += popc;
        bar.and &= and;
        bar.or |= or;
        let here = bar.partial.entry(w.id).or_insert(0);
        *here |= mask;
        let complete = *here & w.live == w.live;
        bar.clocks.join(&w.clocks);
        Self::tick(w);
        match bar.log.iter_mut().find(|x| x.0 == w.id) {
            Some(x) => x.2 = complete,
            None => bar.log.push((w.id, at, complete)),
        }
        if complete {
            bar.partial.remove(&w.id);
            bar.arrived += 32;
        }
        let full = bar.arrived == bar.expected;
        if b.kind != BarKind::Arrive {
            // The group resumes after the instruction, with its results written on release.
            let pc = w.pc;
            w.others.push(Group { pc, mask: w.active, wait: Wait::Bar(id) });
            w.active = 0;
        }
        if full {
            self.release(w, id);
        }
        if w.active == 0 {
            w.pick();
        }
        Ok(())
    }

    /// Completes a barrier: everyone who waits learns what everyone who arrived knew.
    fn release(&mut self, w: &mut Warp, id: u32) {
        let (done, stream) = self.ctas[self.cur].generations[id as usize];
        let stream = stream.unwrap_or_else(|| self.new_stream(StreamKind::Bar, w.linear, w.id));
        let dense = self.streams[stream as usize].dense;
        self.ctas[self.cur].generations[id as usize] = (done + 1, Some(stream));
        let mut warps = std::mem::take(&mut self.ctas[self.cur].warps);
        let bar = std::mem::take(&mut self.ctas[self.cur].bars[id as usize]);
        let me = w.id as usize;
        for (i, other) in warps.iter_mut().enumerate() {
            let x = if i == me { &mut *w } else { other };
            let mut woken = false;
            for k in 0..x.others.len() {
                if x.others[k].wait != Wait::Bar(id) {
                    continue;
                }
                x.others[k].wait = Wait::No;
                woken = true;
                let (pc, mask) = (x.others[k].pc, x.others[k].mask);
                if let Op::Bar { kind, d, dp, .. } = &self.prog.code[pc as usize - 1].op {
                    if let Some(d) = d {
                        x.set_r(*d, mask, &[bar.popc; 32], 0);
                    }
                    if let Some(p) = dp {
                        let v = if *kind == BarKind::RedAnd { bar.and } else { bar.or };
                        x.set_p(*p, mask, if v { u32::MAX } else { 0 }, 0);
                    }
                }
            }
            if woken {
                x.learn(&bar.clocks);
                x.clocks.raise(dense, done + 1);
                if i != me {
                    x.pick();
                }
            }
        }
        self.ctas[self.cur].warps = warps;
        let b = &mut self.ctas[self.cur].bars[id as usize];
        b.reset((self.n_warps * self.cluster_size) as usize, self.copy_threads);
    }
}
