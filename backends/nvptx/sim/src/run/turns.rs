//! The run of a launch: who has its turn, what lands in between, what is reported behind it.

use crate::config::{Landing, Policy};
use crate::error::{ErrorKind, SimError};
use crate::program::op::Op;
use crate::record::{WaitFor, What};
use crate::report::{Report, SiteReport};
use crate::run::sched::Sched;
use crate::state::Simulator;
use crate::state::cta::Cta;
use crate::state::warp::{Wait, Warp};

/// How often polls that found nothing are let run again when nothing else can.
const FUTILE: u32 = 64;

/// Instructions without a poll after which a warp counts as working.
const WORK: u32 = 64;

/// Instructions after which something in flight lands although warps can run.
const LAZY: u64 = 20_000;

impl Simulator<'_> {
    /// Runs clusters; without clusters each is a CTA.
    pub(super) fn run_all(mut self, mut list: Vec<u32>) -> Result<Report, Box<SimError>> {
        let n = list.len() as u64 * u64::from(self.cluster_size);
        match self.cfg.policy {
            Policy::Random | Policy::Pct(_) => {
                for i in (1..list.len()).rev() {
                    let j = self.rng.below(i as u64 + 1) as usize;
                    list.swap(i, j);
                }
            }
            Policy::Reverse => list.reverse(),
            Policy::Lockstep | Policy::InOrder | Policy::Starve(_) => {}
        }
        let resident = self.cfg.resident.max(1) as usize;
        let mut waiting = list.into_iter();
        let mut left = self.cfg.max_instructions;
        let mut sched = Sched::new(self.cfg.policy);
        let mut unlanded = 0;
        loop {
            let size = self.cluster_size as usize;
            let mut i = 0;
            while i < self.ctas.len() {
                if self.ctas[i..i + size].iter().all(Cta::done) {
                    self.ctas.drain(i..i + size);
                } else {
                    i += size;
                }
            }
            while self.ctas.is_empty() || self.ctas.len() + size <= resident {
                let Some(c) = waiting.next() else { break };
                for rank in 0..self.cluster_size {
                    let cta = self.new_cta(c, rank);
                    if let Some(r) = &mut self.record {
                        r.push(cta.linear, 0, What::Begin { warps: self.n_warps });
                    }
                    self.ctas.push(cta);
                }
                sched.clear();
            }
            if self.ctas.is_empty() {
                break;
            }
            // Turns until some CTA has finished.
            loop {
                let Some((c, w, quantum)) = sched.pick(&self.ctas, &mut self.rng, self.n_warps) else {
                    if self.land_one()? {
                        self.futile = 0;
                        continue;
                    }
                    if self.futile < FUTILE && self.wake_polls() {
                        self.futile += 1;
                        continue;
                    }
                    return Err(self.deadlock());
                };
                self.cur = c;
                let mut warp = std::mem::take(&mut self.ctas[c].warps[w]);
                let was_live = warp.live;
                let quantum = quantum.min(left);
                if let Some(r) = &mut self.record {
                    r.turns(warp.linear, warp.id);
                }
                let used = self.run(&mut warp, quantum)?;
                left -= used;
                self.record_turn(&warp, used);
                if self.cfg.landing == Landing::Random && !warp.flights.is_empty() {
                    self.land_some(&mut warp);
                }
                let done = warp.done();
                let left_cluster = was_live != warp.live;
                let pc = warp.pc;
                if warp.since_poll > WORK {
                    self.futile = 0;
                }
                self.ctas[c].warps[w] = warp;
                if left_cluster {
                    self.futile = 0;
                    self.lanes_left(c, w)?;
                }
                if !self.flights.is_empty() {
                    // Nothing stays in flight for ever while somebody spins.
                    unlanded += used;
                    if unlanded > LAZY || self.cfg.landing == Landing::Random && self.rng.below(4) == 0 {
                        unlanded = 0;
                        self.land_one()?;
                    }
                }
                if done && self.ctas[c].done() {
                    sched.clear();
                    break;
                }
                if left == 0 {
                    let warp = std::mem::take(&mut self.ctas[c].warps[w]);
                    let m = format!(
                        "{} warp instructions were executed without finishing; mend the loop around this place, or allow more (`--steps`, `SimConfig::max_instructions`)",
                        self.cfg.max_instructions
                    );
                    return Err(self.fail(&warp, pc.min(self.prog.code.len() as u32 - 1), ErrorKind::Budget, m, None, None));
                }
            }
        }
        while self.land_one()? {}
        Ok(self.report(n))
    }

    /// Takes down how a warp stands behind a turn of so many instructions, if somebody wants it.
    fn record_turn(&mut self, w: &Warp, used: u64) {
        let Some(r) = &mut self.record else { return };
        r.instructions += used;
        let code = &self.prog.code;
        let line = |pc: u32| code.get(pc as usize).map_or(0, |i| i.line);
        if w.done() {
            return r.push(w.linear, 0, What::Exited { warp: w.id });
        }
        let group = w.others.iter().find(|_| !w.runnable());
        let on = group.and_then(|g| match g.wait {
            Wait::No => None,
            Wait::Converge => Some(WaitFor::Lanes),
            Wait::Bar(id) => Some(WaitFor::Barrier(id)),
            Wait::Mbar(stream) => {
                let b = self.ctas.iter().find_map(|c| c.mbars.iter().find(|b| b.stream == stream))?;
                Some(WaitFor::Mbarrier { offset: b.off, phase: b.phase })
            }
            Wait::Cluster => Some(WaitFor::Cluster),
            Wait::Regs => Some(WaitFor::Registers),
            Wait::Wgmma => Some(WaitFor::Products),
        });
        // Who waits at a barrier goes on behind the instruction.
        let at = group.map_or(0, |g| line(if matches!(g.wait, Wait::Bar(_)) { g.pc.saturating_sub(1) } else { g.pc }));
        r.turned((w.linear, w.id), at, on);
    }

    fn report(self, ctas: u64) -> Report {
        let mut r = Report { ctas, shared_bytes: self.shared_bytes, ..Report::default() };
        for (i, s) in self.prog.code.iter().zip(&self.stats) {
            let text = self.src.get(i.start as usize..i.end as usize).unwrap_or("");
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let text = text.trim_end_matches(';').to_string();
            r.instructions += s.executed;
            if s.executed > 0 && !matches!(i.op, Op::Exit) {
                let body = if text.starts_with('@') { text.split_once(' ').map_or("", |x| x.1) } else { &text };
                let opcode = body.split(' ').next().unwrap_or(body).to_string();
                *r.by_opcode.entry(opcode).or_insert(0) += s.executed;
            }
            if s.wavefronts + s.sectors > 0 {
                r.wavefronts += s.wavefronts;
                r.ideal_wavefronts += s.ideal_wavefronts;
                r.sectors += s.sectors;
                r.transactions += s.lines;
                r.requested_bytes += s.requested_bytes;
                r.sites.push(SiteReport {
                    line: i.line,
                    text,
                    executed: s.executed,
                    wavefronts: s.wavefronts,
                    ideal_wavefronts: s.ideal_wavefronts,
                    sectors: s.sectors,
                    transactions: s.lines,
                    requested_bytes: s.requested_bytes,
                });
            }
        }
        r
    }
}
