//! What every blocked warp waits for.

use crate::error::{ErrorKind, SimError};
use crate::state::Simulator;
use crate::state::warp::Wait;

impl Simulator<'_> {
    /// Describes every blocked warp.
    pub(crate) fn deadlock(&mut self) -> Box<SimError> {
        let mut e = SimError::new(ErrorKind::Deadlock, "no warp can make progress");
        let mut registers = false;
        for c in 0..self.ctas.len() {
            self.cur = c;
            let lead = self.lead();
            for w in &self.ctas[c].warps {
                for g in &w.others {
                    // Barriers resume after the instruction, the others execute it again.
                    let at = if matches!(g.wait, Wait::Bar(_)) { g.pc - 1 } else { g.pc };
                    let s = self.site(w, at, None, None);
                    let what = match g.wait {
                        Wait::No => continue,
                        Wait::Converge => "for other lanes of the warp".to_string(),
                        Wait::Bar(id) => {
                            let b = &self.ctas[c].bars[id as usize];
                            let who: Vec<String> = b.log.iter().map(|x| x.0.to_string()).collect();
                            format!("for barrier {id}: {} of {} threads have arrived (warps {})", b.arrived, b.expected, who.join(", "))
                        }
                        Wait::Mbar(stream) => format!("for {}", self.mbar_words(stream, w.slot)),
                        Wait::Cluster => {
                            let b = &self.ctas[lead].barrier;
                            let n = self.n_warps as usize;
                            let live = |s: usize| self.ctas[lead + s / n].warps[s % n].live;
                            let missing: Vec<String> = (0..b.arrived.len())
                                .filter(|&s| live(s) & !b.arrived[s] != 0)
                                .map(|s| format!("CTA rank {} warp {}", s / n, s % n))
                                .collect();
                            format!("for the cluster barrier, where these have not arrived: {}", missing.join(", "))
                        }
                        Wait::Regs => {
                            format!("for registers: {} are free in the CTA and it has {} per thread", self.ctas[c].free_regs, w.nreg)
                        }
                        Wait::Wgmma => self.group_words(c, w),
                    };
                    // Who waits for registers keeps others waiting, and comes first.
                    let first = matches!(g.wait, Wait::Regs) && !std::mem::replace(&mut registers, true);
                    if e.site.is_none() || first {
                        e.site = Some(Box::new(s.clone()));
                    }
                    e.notes.push(format!("warp {} waits at {s} {what}", w.id));
                }
            }
            if std::mem::take(&mut registers) {
                e.notes.push(self.pool_words(c));
            }
            let gone: Vec<String> = self.ctas[c].warps.iter().filter(|w| w.done()).map(|w| w.id.to_string()).collect();
            if !gone.is_empty() {
                let [x, y, z] = self.ctas[c].id;
                e.notes.push(format!("CTA {x},{y},{z}: warps {} have exited", gone.join(", ")));
            }
        }
        e
    }

    /// Who holds which part of a CTA's registers.
    fn pool_words(&self, c: usize) -> String {
        let cta = &self.ctas[c];
        let [x, y, z] = cta.id;
        let held = cta.warps.chunk_by(|a, b| a.nreg == b.nreg).map(|run| {
            let (first, last) = (run[0].id, run[run.len() - 1].id);
            if first == last { format!("warp {first} {}", run[0].nreg) } else { format!("warps {first} to {last} {}", run[0].nreg) }
        });
        let held: Vec<String> = held.collect();
        format!("CTA {x},{y},{z}: registers per thread: {}; {} registers are free", held.join(", "), cta.free_regs)
    }
}
