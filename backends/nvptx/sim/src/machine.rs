//! The machine: CTAs in flight, the scheduler, launch checks, deadlock reports.

use crate::cluster::ClusterBar;
use crate::config::{Landing, Policy, Rng, SimConfig};
use crate::error::{ErrorKind, SimError, Site};
use crate::flight::Flight;
use crate::mbarrier::Mbar;
use crate::memory::{Memory, SHARED_BASE, Shared};
use crate::op::{Fill, LaneMask, Op, Program, Special};
use crate::race::{Clocks, Far, Shadow, Stream, StreamKind};
use crate::report::{Report, SiteReport, Stat};
use crate::sched::Sched;
use crate::warp::{FULL, Warp};
use crate::wgmma::Group;
use crate::{Arg, Launch};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Shared memory a CTA may have on the largest modelled device (sm_90), static and dynamic together.
const MAX_SHARED: u64 = 232_448;
/// More CTAs than this are not worth simulating; it also keeps warp numbers within 31 bits.
const MAX_CTAS: u64 = 1 << 24;
/// How often polls that found nothing are let run again when nothing else can.
const FUTILE: u32 = 64;
/// Instructions without a poll after which a warp counts as working.
const WORK: u32 = 64;
/// Instructions after which something in flight lands although warps can run.
const LAZY: u64 = 20_000;

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
    /// Per barrier: generations completed, and the stream that counts them.
    pub(crate) generations: [(u32, Option<u32>); 16],
    pub(crate) warps: Vec<Warp>,
    /// Linear number of its cluster and its rank there. CTAs of a cluster are neighbours in `Machine::ctas`.
    pub(crate) cluster: u32,
    pub(crate) rank: u32,
    pub(crate) mbars: Vec<Mbar>,
    /// Per warpgroup.
    pub(crate) groups: Vec<Group>,
    /// Registers that `setmaxnreg` can give out.
    pub(crate) free_regs: u64,
    /// What this CTA must know before its last warp leaves.
    pub(crate) owed: Owed,
    /// Of the whole cluster; used in the CTA of rank 0.
    pub(crate) streams: u32,
    pub(crate) barrier: ClusterBar,
}

impl Cta {
    /// No thread is left.
    pub(crate) fn done(&self) -> bool {
        self.warps.iter().all(Warp::done)
    }
}

/// Instruction, CTA (linear) and warp of an event.
pub(crate) type Origin = (u32, u32, u32);

/// Events that touch a CTA's shared memory from outside its program order, and what its exited warps knew.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owed {
    /// Per warp of the cluster: clock and place of its newest remote operation here.
    pub(crate) remote: Vec<(u32, Option<Origin>)>,
    /// (stream, clock, instruction): asynchronous accesses to this shared memory.
    pub(crate) streams: Vec<(u32, u32, u32)>,
    /// What the warps knew when they left.
    pub(crate) known: Clocks,
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
    /// CTAs per cluster in each dimension, and together.
    pub(crate) cluster: [u32; 3],
    pub(crate) cluster_size: u32,
    pub(crate) streams: Vec<Stream>,
    /// Asynchronous operations that have not landed.
    pub(crate) flights: Vec<Flight>,
    /// mbarriers (by stream) whose phase has completed since the last step.
    pub(crate) wakes: Vec<u32>,
    /// Rounds in which waiting polls were given a chance and nothing else happened.
    pub(crate) futile: u32,
    /// Registers per thread at entry, when the text fixes them.
    pub(crate) entry_regs: Option<u32>,
    pub(crate) grid: [u32; 3],
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
            Arg::TensorMap(m) => m.encode().map_err(|e| bad(format!("argument {i} (`{}`): {e}", p.name)))?.to_vec(),
        };
        if b.len() as u64 != p.bytes {
            return Err(bad(format!("argument {i} (`{}`) has {} bytes but the parameter has {}", p.name, b.len(), p.bytes)));
        }
        out[p.offset as usize..][..b.len()].copy_from_slice(&b);
    }
    Ok(out)
}

/// The cluster shape of a launch.
fn cluster_of(prog: &Program, l: &Launch<'_>) -> Result<[u32; 3], Box<SimError>> {
    let c = match (prog.reqcluster, l.config.cluster) {
        (Some(a), Some(b)) if a != b => return Err(bad(format!("`.reqnctapercluster {a:?}` but the launch names clusters of {b:?}"))),
        (Some(c), _) | (None, Some(c)) => c,
        (None, None) => [1; 3],
    };
    if product(c) == 0 || product(c) > 16 {
        return Err(bad(format!("a cluster of {c:?} CTAs is not from 1 to 16 CTAs")));
    }
    if (0..3).any(|i| !l.grid[i].is_multiple_of(c[i])) {
        return Err(bad(format!("a grid of {:?} CTAs is not a multiple of the cluster {c:?}", l.grid)));
    }
    Ok(c)
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
    let cluster = cluster_of(prog, l)?;
    let dynamic = u64::from(l.shared_bytes);
    let base = (SHARED_BASE + prog.static_shared).next_multiple_of(prog.dyn_align) - SHARED_BASE;
    let shared_bytes = if dynamic > 0 { base + dynamic } else { prog.static_shared };
    if shared_bytes > MAX_SHARED {
        return Err(bad(format!("{shared_bytes} bytes of shared memory are more than {MAX_SHARED}")));
    }
    let list: Vec<u32> = match &l.config.ctas {
        None => (0..(n_ctas / product(cluster)) as u32).collect(),
        Some(v) => {
            if let Some(c) = v.iter().find(|&&c| u64::from(c) >= n_ctas) {
                return Err(bad(format!("CTA {c} is not in a grid of {n_ctas}")));
            }
            whole_clusters(v, l.grid, cluster).ok_or_else(|| bad("the choice of CTAs holds a part of a cluster: name all CTAs of it"))?
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
        copy_threads: if prog.uses_cp_async { (n_warps * product(cluster) as u32) as usize * 32 } else { 0 },
        ctas: Vec::new(),
        cur: 0,
        gshadow,
        edges: HashMap::new(),
        stats: vec![Stat::default(); prog.code.len()],
        rng: Rng::new(l.config.seed),
        cluster,
        cluster_size: product(cluster) as u32,
        streams: Vec::new(),
        flights: Vec::new(),
        wakes: Vec::new(),
        futile: 0,
        entry_regs: prog.maxnreg.or_else(|| prog.minnctapersm.map(|n| (65536 / (n.max(1) * threads as u32) / 8 * 8).min(255))),
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

/// The clusters of chosen CTAs, in the order of their first ones; `None` if some of a cluster's are missing.
fn whole_clusters(ctas: &[u32], grid: [u32; 3], cluster: [u32; 3]) -> Option<Vec<u32>> {
    let size = product(cluster) as usize;
    if size == 1 {
        return Some(ctas.to_vec());
    }
    let mut members: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let mut order = Vec::new();
    for &c in ctas {
        let at = [c % grid[0], c / grid[0] % grid[1], c / grid[0] / grid[1]];
        let [x, y, z] = [0, 1, 2].map(|i| at[i] / cluster[i]);
        let of = x + grid[0] / cluster[0] * (y + grid[1] / cluster[1] * z);
        let list = members.entry(of).or_default();
        if list.is_empty() {
            order.push(of);
        }
        list.insert(c);
    }
    members.values().all(|m| m.len() == size).then_some(order)
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
            Special::ClusterId(i) => cta[usize::from(i)] / self.cluster[usize::from(i)],
            Special::NClusterId(i) => self.grid[usize::from(i)] / self.cluster[usize::from(i)],
            Special::ClusterCtaId(i) => cta[usize::from(i)] % self.cluster[usize::from(i)],
            Special::ClusterNCtaId(i) => self.cluster[usize::from(i)],
            Special::ClusterCtaRank => self.rank_of(cta),
            Special::ClusterNCtaRank => self.cluster_size,
            Special::DynSmemSize => self.dynamic as u32,
            Special::TotalSmemSize => self.shared_bytes as u32,
        })
    }

    /// Rank in its cluster of the CTA with these coordinates.
    pub(crate) fn rank_of(&self, cta: [u32; 3]) -> u32 {
        let [x, y, z] = self.cluster;
        cta[0] % x + x * (cta[1] % y + y * (cta[2] % z))
    }

    /// Coordinates of the CTA of some rank in a cluster.
    pub(crate) fn cta_of(&self, cluster: u32, rank: u32) -> [u32; 3] {
        let [x, y, _] = self.cluster;
        let nx = self.grid[0] / x;
        let ny = self.grid[1] / y;
        let at = [cluster % nx, cluster / nx % ny, cluster / nx / ny];
        let r = [rank % x, rank / x % y, rank / x / y];
        [0, 1, 2].map(|i| at[i] * self.cluster[i] + r[i])
    }

    fn linear_of(&self, id: [u32; 3]) -> u32 {
        id[0] + self.grid[0] * (id[1] + self.grid[1] * id[2])
    }

    /// Position of the cluster's CTA of rank 0.
    pub(crate) fn lead(&self) -> usize {
        self.cur - self.ctas[self.cur].rank as usize
    }

    /// Position of a CTA in flight by its linear number.
    pub(crate) fn position(&self, linear: u32) -> Option<usize> {
        self.ctas.iter().position(|c| c.linear == linear)
    }

    /// First global agent number of the current cluster.
    pub(crate) fn agent_base(&self) -> u32 {
        self.ctas[self.cur].cluster * self.n_warps * self.cluster_size
    }

    /// A new stream of the current cluster; returns its number in the launch.
    pub(crate) fn new_stream(&mut self, kind: StreamKind, cta: u32, warp: u32) -> u32 {
        let (lead, cluster) = (self.lead(), self.ctas[self.cur].cluster);
        let dense = self.ctas[lead].streams;
        self.ctas[lead].streams += 1;
        self.streams.push(Stream { cluster, dense, kind, cta, warp });
        self.streams.len() as u32 - 1
    }

    fn new_cta(&self, cluster: u32, rank: u32) -> Cta {
        let id = self.cta_of(cluster, rank);
        let linear = self.linear_of(id);
        let n = (self.n_warps * self.cluster_size) as usize;
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
                w.slot = rank * self.n_warps + wi;
                w.home = id;
                w.linear = linear;
                w.nreg = self.entry_regs.unwrap_or(0);
                w.clocks = Clocks::new(n, self.copy_threads);
                w.clocks.g[w.slot as usize] = 1;
                w.clocks.hb[w.slot as usize] = 1;
                w
            })
            .collect();
        Cta {
            id,
            linear,
            shared: Shared::new(len),
            shadow: Shadow::new(len),
            bars: (0..16).map(|_| Barrier::new(n, self.copy_threads)).collect(),
            generations: [(0, None); 16],
            warps,
            cluster,
            rank,
            mbars: Vec::new(),
            groups: (0..self.n_warps.div_ceil(4)).map(|_| Group::default()).collect(),
            free_regs: 0,
            owed: Owed { remote: vec![(0, None); n], ..Owed::default() },
            streams: 0,
            barrier: ClusterBar::new(n, self.copy_threads),
        }
    }

    /// Runs clusters; without clusters each is a CTA.
    fn run_all(mut self, mut list: Vec<u32>) -> Result<Report, Box<SimError>> {
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
                let used = self.run(&mut warp, quantum)?;
                left -= used;
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
