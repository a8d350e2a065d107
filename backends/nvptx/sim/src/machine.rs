//! The machine: CTAs in flight, the scheduler, launch checks, deadlock reports.

use crate::config::{Landing, Policy, Rng, SimConfig};
use crate::error::{ErrorKind, SimError, Site};
use crate::memory::{Memory, SHARED_BASE, Shared};
use crate::op::{Fill, LaneMask, Op, Program, Special};
use crate::race::{Clocks, Far, Shadow};
use crate::report::{Report, SiteReport, Stat};
use crate::warp::{FULL, Wait, Warp};
use crate::{Arg, Launch};
use std::collections::{BTreeMap, HashMap};

/// Shared memory a CTA may have on the largest modelled device (sm_90), static and dynamic together.
const MAX_SHARED: u64 = 232_448;
/// More CTAs than this are not worth simulating; it also keeps warp numbers within 31 bits.
const MAX_CTAS: u64 = 1 << 24;
/// Instructions a warp may run in one turn under run-until-blocked policies before others get a turn.
const LONG_TURN: u64 = 100_000;

/// A CTA barrier.
#[derive(Clone, Debug, Default)]
pub(crate) struct Barrier {
    /// Threads named by the arrivals so far, and threads arrived.
    pub(crate) expected: u32,
    pub(crate) arrived: u32,
    /// Lanes of warps that arrived in part.
    pub(crate) partial: BTreeMap<u32, u32>,
    /// (warp, instruction, whole warp) of this generation's arrivals.
    pub(crate) log: Vec<(u32, u32, bool)>,
    pub(crate) clocks: Clocks,
    pub(crate) popc: u32,
    pub(crate) and: bool,
    pub(crate) or: bool,
}

impl Barrier {
    fn new(warps: usize, threads: usize) -> Barrier {
        Barrier { clocks: Clocks::new(warps, threads), and: true, ..Barrier::default() }
    }

    pub(crate) fn reset(&mut self, warps: usize, threads: usize) {
        *self = Barrier::new(warps, threads);
    }

    /// The first arrival of the current generation.
    pub(crate) fn first_site(&self, m: &Machine<'_>, w: &Warp) -> Option<Site> {
        self.log.first().map(|&(warp, at, _)| {
            let mut s = m.site(w, at, None, None);
            s.warp = warp;
            s
        })
    }
}

/// A CTA in flight.
pub(crate) struct Cta {
    pub(crate) id: [u32; 3],
    pub(crate) linear: u32,
    pub(crate) shared: Shared,
    pub(crate) shadow: Shadow,
    pub(crate) bars: Vec<Barrier>,
    pub(crate) warps: Vec<Warp>,
}

/// State of a launch.
pub(crate) struct Machine<'a> {
    pub(crate) prog: &'a Program,
    pub(crate) src: &'a str,
    pub(crate) cfg: &'a SimConfig,
    pub(crate) mem: &'a mut Memory,
    pub(crate) params: Vec<u8>,
    pub(crate) n_warps: u32,
    /// Threads with cp.async clocks: 0 when the kernel has no cp.async.
    pub(crate) copy_threads: usize,
    pub(crate) ctas: Vec<Cta>,
    /// Index in `ctas` of the CTA whose warp runs.
    pub(crate) cur: usize,
    pub(crate) gshadow: Vec<Shadow>,
    /// What strong writes have published, by location.
    pub(crate) edges: HashMap<(u32, u64), Far>,
    pub(crate) stats: Vec<Stat>,
    pub(crate) rng: Rng,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u64,
    dynamic: u64,
    globals: &'a [u64],
    template: Warp,
}

fn bad(m: impl Into<String>) -> Box<SimError> {
    SimError::new(ErrorKind::BadLaunch, m)
}

fn product(d: [u32; 3]) -> u64 {
    d.iter().map(|&x| u64::from(x)).product()
}

/// Lays out the arguments.
fn pack_args(prog: &Program, args: &[Arg]) -> Result<Vec<u8>, Box<SimError>> {
    if args.len() != prog.params.len() {
        return Err(bad(format!("`{}` has {} parameters but {} arguments are given", prog.name, prog.params.len(), args.len())));
    }
    let mut out = vec![0; prog.param_bytes as usize];
    for (i, (p, a)) in prog.params.iter().zip(args).enumerate() {
        let b: Vec<u8> = match a {
            Arg::U8(v) => v.to_le_bytes().to_vec(),
            Arg::U16(v) => v.to_le_bytes().to_vec(),
            Arg::U32(v) => v.to_le_bytes().to_vec(),
            Arg::U64(v) => v.to_le_bytes().to_vec(),
            Arg::S32(v) => v.to_le_bytes().to_vec(),
            Arg::S64(v) => v.to_le_bytes().to_vec(),
            Arg::F32(v) => v.to_le_bytes().to_vec(),
            Arg::F64(v) => v.to_le_bytes().to_vec(),
            Arg::Bytes(v) => v.clone(),
        };
        if b.len() as u64 != p.bytes {
            return Err(bad(format!("argument {i} (`{}`) has {} bytes but the parameter has {}", p.name, b.len(), p.bytes)));
        }
        out[p.offset as usize..][..b.len()].copy_from_slice(&b);
    }
    Ok(out)
}

/// Runs a launch.
pub(crate) fn launch(prog: &Program, src: &str, globals: &[u64], l: &Launch<'_>, mem: &mut Memory) -> Result<Report, Box<SimError>> {
    let params = pack_args(prog, l.args)?;
    let threads = product(l.block);
    if threads == 0 || threads > 1024 || l.block[2] > 64 {
        return Err(bad(format!("a block of {:?} threads is not from 1 to 1024 threads", l.block)));
    }
    let n_ctas = product(l.grid);
    if n_ctas == 0 || n_ctas > MAX_CTAS {
        return Err(bad(format!("a grid of {:?} CTAs is empty or beyond the simulator's limit of {MAX_CTAS} CTAs", l.grid)));
    }
    if let Some(r) = prog.reqntid
        && r != l.block
    {
        return Err(bad(format!("`.reqntid {r:?}` but the block is {:?}", l.block)));
    }
    if let Some(m) = prog.maxntid
        && threads > product(m)
    {
        return Err(bad(format!("`.maxntid {m:?}` but the block has {threads} threads")));
    }
    let dynamic = u64::from(l.shared_bytes);
    let base = (SHARED_BASE + prog.static_shared).next_multiple_of(prog.dyn_align) - SHARED_BASE;
    let shared_bytes = if dynamic > 0 { base + dynamic } else { prog.static_shared };
    if shared_bytes > MAX_SHARED {
        return Err(bad(format!("{shared_bytes} bytes of shared memory are more than {MAX_SHARED}")));
    }
    let list: Vec<u32> = match &l.config.ctas {
        None => (0..n_ctas as u32).collect(),
        Some(v) => {
            if let Some(c) = v.iter().find(|&&c| u64::from(c) >= n_ctas) {
                return Err(bad(format!("CTA {c} is not in a grid of {n_ctas}")));
            }
            v.clone()
        }
    };
    let n_warps = threads.div_ceil(32) as u32;
    let gshadow = if l.config.global_races { mem.buffers.iter().map(|b| Shadow::new(b.bytes.len())).collect() } else { Vec::new() };
    let mut m = Machine {
        prog,
        src,
        cfg: &l.config,
        mem,
        params,
        n_warps,
        copy_threads: if prog.uses_cp_async { n_warps as usize * 32 } else { 0 },
        ctas: Vec::new(),
        cur: 0,
        gshadow,
        edges: HashMap::new(),
        stats: vec![Stat::default(); prog.code.len()],
        rng: Rng::new(l.config.seed),
        grid: l.grid,
        block: l.block,
        shared_bytes,
        dynamic,
        globals,
        template: Warp::default(),
    };
    m.template = m.make_template();
    m.run_all(list)
}

impl Machine<'_> {
    /// Coordinates of a linear CTA index.
    pub(crate) fn coords(&self, i: u32) -> [u32; 3] {
        let [x, y, _] = self.grid;
        [i % x, i / x % y, i / x / y]
    }

    /// Registers as every warp starts with them; special registers are filled per warp.
    fn make_template(&self) -> Warp {
        let value = |f: &Fill| match f {
            Fill::Undefined => (0xDEAD_BEEF_DEAD_BEEF, FULL),
            Fill::Const(v) => (*v, 0),
            Fill::Special(_) => (0, 0),
            Fill::Global(g, off) => (self.globals[*g as usize].wrapping_add(*off as u64), 0),
        };
        let mut w = Warp::default();
        for f in &self.prog.r {
            let (v, p) = value(f);
            w.r.push([v as u32; 32]);
            w.rx.push(p);
        }
        for f in &self.prog.d {
            let (v, p) = value(f);
            w.d.push([v; 32]);
            w.dx.push(p);
        }
        w.p = vec![0; self.prog.preds as usize];
        w.px = vec![FULL; self.prog.preds as usize];
        for &(p, v) in &self.prog.const_preds {
            w.p[p as usize] = if v { FULL } else { 0 };
            w.px[p as usize] = 0;
        }
        w
    }

    fn special(&self, s: Special, cta: [u32; 3], warp: u32, lane: u32) -> u64 {
        let t = warp * 32 + lane;
        let [bx, by, _] = self.block;
        u64::from(match s {
            Special::Tid(0) => t % bx,
            Special::Tid(1) => t / bx % by,
            Special::Tid(_) => t / bx / by,
            Special::Ntid(i) => self.block[usize::from(i)],
            Special::Ctaid(i) => cta[usize::from(i)],
            Special::Nctaid(i) => self.grid[usize::from(i)],
            Special::LaneId => lane,
            Special::WarpId => warp,
            Special::NWarpId => self.n_warps,
            Special::LaneMask(m) => match m {
                LaneMask::Eq => 1 << lane,
                LaneMask::Le => (2u64 << lane).wrapping_sub(1) as u32,
                LaneMask::Lt => (1u32 << lane) - 1,
                LaneMask::Ge => !((1u32 << lane) - 1),
                LaneMask::Gt => !((2u64 << lane).wrapping_sub(1) as u32),
            },
            // One CTA per multiprocessor, as far as a kernel can tell.
            Special::SmId => cta[0],
            Special::NSmId => self.grid[0],
            Special::GridId => 1,
            Special::DynSmemSize => self.dynamic as u32,
            Special::TotalSmemSize => self.shared_bytes as u32,
        })
    }

    fn new_cta(&self, linear: u32) -> Cta {
        let id = self.coords(linear);
        let n = self.n_warps as usize;
        let threads = product(self.block) as u32;
        let len = self.shared_bytes as usize;
        let warps = (0..self.n_warps)
            .map(|wi| {
                let mut w = self.template.clone();
                w.id = wi;
                let specials = |f: &Fill| if let Fill::Special(s) = f { Some(*s) } else { None };
                for (i, s) in self.prog.r.iter().enumerate().filter_map(|(i, f)| Some((i, specials(f)?))) {
                    for l in 0..32 {
                        w.r[i][l as usize] = self.special(s, id, wi, l) as u32;
                    }
                }
                for (i, s) in self.prog.d.iter().enumerate().filter_map(|(i, f)| Some((i, specials(f)?))) {
                    for l in 0..32 {
                        w.d[i][l as usize] = self.special(s, id, wi, l);
                    }
                }
                let lanes = (threads - wi * 32).min(32);
                w.live = if lanes == 32 { FULL } else { (1 << lanes) - 1 };
                w.active = w.live;
                w.clocks = Clocks::new(n, self.copy_threads);
                w.clocks.g[wi as usize] = 1;
                w
            })
            .collect();
        Cta {
            id,
            linear,
            shared: Shared::new(len),
            shadow: Shadow::new(len),
            bars: (0..16).map(|_| Barrier::new(n, self.copy_threads)).collect(),
            warps,
        }
    }

    fn run_all(mut self, mut list: Vec<u32>) -> Result<Report, Box<SimError>> {
        let n = list.len() as u64;
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
        loop {
            self.ctas.retain(|c| !c.warps.iter().all(Warp::done));
            while self.ctas.len() < resident {
                let Some(c) = waiting.next() else { break };
                let c = self.new_cta(c);
                self.ctas.push(c);
                sched.clear();
            }
            if self.ctas.is_empty() {
                break;
            }
            // Turns until some CTA has finished.
            loop {
                let Some((c, w, quantum)) = sched.pick(&self.ctas, &mut self.rng, self.n_warps) else {
                    return Err(self.deadlock());
                };
                self.cur = c;
                let mut warp = std::mem::take(&mut self.ctas[c].warps[w]);
                let quantum = quantum.min(left);
                let used = self.run(&mut warp, quantum)?;
                left -= used;
                if self.cfg.landing == Landing::Random && !warp.flights.is_empty() {
                    self.land_some(&mut warp);
                }
                let done = warp.done();
                let pc = warp.pc;
                self.ctas[c].warps[w] = warp;
                if done && self.ctas[c].warps.iter().all(Warp::done) {
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
        Ok(self.report(n))
    }

    /// Describes every blocked warp.
    fn deadlock(&mut self) -> Box<SimError> {
        let mut e = SimError::new(ErrorKind::Deadlock, "no warp can make progress");
        for c in 0..self.ctas.len() {
            self.cur = c;
            for w in &self.ctas[c].warps {
                for g in &w.others {
                    let Wait::Bar(id) = g.wait else { continue };
                    let s = self.site(w, g.pc - 1, None, None);
                    if e.site.is_none() {
                        e.site = Some(Box::new(s.clone()));
                    }
                    let b = &self.ctas[c].bars[id as usize];
                    let who: Vec<String> = b.log.iter().map(|x| x.0.to_string()).collect();
                    e.notes.push(format!(
                        "warp {} waits at {s} for barrier {id}: {} of {} threads have arrived (warps {})",
                        w.id,
                        b.arrived,
                        b.expected,
                        who.join(", ")
                    ));
                }
            }
            let gone: Vec<String> = self.ctas[c].warps.iter().filter(|w| w.done()).map(|w| w.id.to_string()).collect();
            if !gone.is_empty() {
                let [x, y, z] = self.ctas[c].id;
                e.notes.push(format!("CTA {x},{y},{z}: warps {} have exited", gone.join(", ")));
            }
        }
        e
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

/// Chooses who runs next.
struct Sched {
    policy: Policy,
    next: usize,
    /// Priorities of the PCT policy, by (CTA, warp) position; higher runs first.
    prio: Vec<u64>,
    /// Consecutive long turns given to the same warp.
    last: (usize, usize),
    turns: u32,
}

impl Sched {
    fn new(policy: Policy) -> Sched {
        Sched { policy, next: 0, prio: Vec::new(), last: (usize::MAX, 0), turns: 0 }
    }

    /// The set of CTAs changed.
    fn clear(&mut self) {
        self.prio.clear();
    }

    /// (CTA position, warp, instructions to run), or `None` when nobody can run.
    fn pick(&mut self, ctas: &[Cta], rng: &mut Rng, n: u32) -> Option<(usize, usize, u64)> {
        let n = n as usize;
        let total = ctas.len() * n;
        let at = |i: usize| (i / n, i % n);
        let ready = |i: usize| ctas[i / n].warps[i % n].runnable();
        // Round robin, used directly by some policies and for fairness by the others.
        let robin = |from: usize| (0..total).map(|k| (from + k) % total).find(|&i| ready(i));
        let (i, quantum) = match self.policy {
            Policy::Lockstep => (robin(self.next)?, 1),
            Policy::InOrder => ((0..total).find(|&i| ready(i))?, LONG_TURN),
            Policy::Reverse => ((0..total).rev().find(|&i| ready(i))?, LONG_TURN),
            Policy::Random => {
                let count = (0..total).filter(|&i| ready(i)).count();
                if count == 0 {
                    return None;
                }
                let k = rng.below(count as u64) as usize;
                let exp = rng.below(8);
                ((0..total).filter(|&i| ready(i)).nth(k)?, 1 + rng.below(1 << exp))
            }
            Policy::Pct(changes) => {
                if self.prio.len() != total {
                    self.prio = (0..total).map(|_| rng.next() | 1 << 63).collect();
                }
                let best = (0..total).filter(|&i| ready(i)).max_by_key(|&i| self.prio[i])?;
                // A turn is 64 instructions: `changes` demotions per 1024 turns on average.
                if rng.below(1024) < u64::from(changes) {
                    self.prio[best] = rng.next() >> 1;
                }
                (best, 64)
            }
            Policy::Starve(s) => {
                let poor = |i: usize| i % n == s as usize;
                match (0..total).map(|k| (self.next + k) % total).find(|&i| ready(i) && !poor(i)) {
                    Some(i) => (i, 64),
                    None => (robin(self.next)?, 64),
                }
            }
        };
        // Whoever has had very many turns in a row may be waiting for somebody else.
        let (mut i, mut quantum) = (i, quantum);
        self.turns = if self.last == at(i) { self.turns + 1 } else { 0 };
        if self.turns > 4 && quantum == LONG_TURN || self.turns > 4096 {
            i = robin(i + 1)?;
            quantum = 64;
            self.turns = 0;
        }
        self.last = at(i);
        self.next = i + 1;
        let (c, w) = at(i);
        Some((c, w, quantum))
    }
}
