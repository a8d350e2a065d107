//! The state of a launch: its CTAs, its memory, its clocks, what is in flight.

use crate::config::{Rng, SimConfig};
use crate::memory::Memory;
use crate::program::op::Program;
use crate::record::{Recording, What};
use crate::report::Stat;
use crate::state::cta::Cta;
use crate::state::flight::Flight;
use crate::state::race::{Far, Shadow, Stream, StreamKind};
use crate::state::warp::Warp;
use std::collections::HashMap;

/// State of a launch.
pub(crate) struct Simulator<'a> {
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
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u64,
    pub(crate) dynamic: u64,
    pub(crate) globals: &'a [u64],
    pub(crate) template: Warp,
    /// Where events are taken down, if somebody wants them.
    pub(crate) record: Option<&'a mut Recording>,
}

/// Elements of a box.
pub(crate) fn product(d: [u32; 3]) -> u64 {
    d.iter().map(|&x| u64::from(x)).product()
}

impl Simulator<'_> {
    /// Coordinates of a linear CTA index.
    pub(crate) fn coords(&self, i: u32) -> [u32; 3] {
        let [x, y, _] = self.grid;
        [i % x, i / x % y, i / x / y]
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

    /// Takes an event of an instruction down, if somebody wants it.
    pub(crate) fn note(&mut self, block: u32, at: u32, what: What) {
        if let Some(r) = &mut self.record {
            r.push(block, self.prog.code[at as usize].line, what);
        }
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
}
