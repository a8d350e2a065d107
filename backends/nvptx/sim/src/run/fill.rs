//! CTAs as they begin: registers, special registers, barriers.

use crate::memory::{RANK_SHIFT, Shared};
use crate::program::op::{Fill, LaneMask, Special};
use crate::state::cta::{Barrier, ClusterBar, Cta, Owed};
use crate::state::race::{Clocks, Shadow};
use crate::state::warp::{FULL, Warp};
use crate::state::wgmma::Group;
use crate::state::{Simulator, product};

impl Simulator<'_> {
    /// Registers as every warp starts with them; special registers are filled per warp.
    pub(super) fn make_template(&self) -> Warp {
        let value = |f: &Fill| match f {
            Fill::Undefined => (0xDEAD_BEEF_DEAD_BEEF, FULL),
            Fill::Const(v) => (*v, 0),
            Fill::Special(_) | Fill::Shared(_) => (0, 0),
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

    pub(super) fn special(&self, s: Special, cta: [u32; 3], warp: u32, lane: u32) -> u64 {
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

    pub(super) fn new_cta(&self, cluster: u32, rank: u32) -> Cta {
        let id = self.cta_of(cluster, rank);
        let linear = self.linear_of(id);
        let n = (self.n_warps * self.cluster_size) as usize;
        let threads = product(self.block) as u32;
        let len = self.shared_bytes as usize;
        let warps = (0..self.n_warps)
            .map(|wi| {
                let mut w = self.template.clone();
                w.id = wi;
                let own = |f: &Fill, l: u32| match *f {
                    Fill::Special(s) => Some(self.special(s, id, wi, l)),
                    // The rank stands above the address, as `mapa` gives it.
                    Fill::Shared(at) if rank > 0 => Some(at | u64::from(rank + 1) << RANK_SHIFT),
                    Fill::Shared(at) => Some(at),
                    Fill::Undefined | Fill::Const(_) | Fill::Global(..) => None,
                };
                let filled = |f: &Fill| matches!(f, Fill::Special(_) | Fill::Shared(_));
                for (f, r) in self.prog.r.iter().zip(&mut w.r).filter(|x| filled(x.0)) {
                    r.iter_mut().zip(0..).for_each(|(x, l)| *x = own(f, l).map_or(*x, |v| v as u32));
                }
                for (f, d) in self.prog.d.iter().zip(&mut w.d).filter(|x| filled(x.0)) {
                    d.iter_mut().zip(0..).for_each(|(x, l)| *x = own(f, l).unwrap_or(*x));
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

    pub(super) fn linear_of(&self, id: [u32; 3]) -> u32 {
        id[0] + self.grid[0] * (id[1] + self.grid[1] * id[2])
    }
}
