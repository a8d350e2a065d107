//! Dispatch of the asynchronous units of sm_90.

use crate::error::R;
use crate::program::hop::{Hop, ProxyFence};
use crate::state::Simulator;
use crate::state::warp::{Warp, lanes};

impl Simulator<'_> {
    /// Executes one operation on the lanes of `mask`.
    pub(crate) fn hop(&mut self, w: &mut Warp, at: u32, mask: u32, h: &Hop) -> R<()> {
        match h {
            Hop::MbarInit { addr, count } => self.mbar_init(w, at, mask, addr, *count),
            Hop::MbarInval { addr } => self.mbar_inval(w, at, mask, addr),
            Hop::MbarArrive(a) => self.mbar_arrive(w, at, mask, a),
            Hop::MbarTx { addr, bytes, expect } => self.mbar_count_tx(w, at, mask, addr, *bytes, *expect),
            Hop::MbarWait(m) => self.mbar_wait(w, at, mask, m),
            Hop::MbarPending { d, state } => {
                let p = w.poison(*state);
                let v = w.d64(*state).map(|s| (s & 0xf_ffff) as u32);
                w.set_r(*d, mask, &v, p);
                Ok(())
            }
            Hop::CpArrive { addr, noinc } => self.cp_arrive(w, at, mask, addr, *noinc),
            Hop::Bulk(b) => self.bulk(w, at, mask, b),
            Hop::BulkCommit => {
                self.bulk_commit(w, mask);
                Ok(())
            }
            Hop::BulkWait { n, read } => self.bulk_wait(w, mask, *n, *read),
            Hop::PrefetchMap { addr } => {
                let pl = self.addresses(w, at, mask, addr)?;
                for l in lanes(mask) {
                    self.map_at(w, at, l, pl.addr[l])?;
                }
                Ok(())
            }
            Hop::PrefetchBox { addr, coords } => {
                for l in lanes(mask) {
                    self.box_at(w, at, l, addr, coords)?;
                }
                Ok(())
            }
            Hop::FenceMap { addr } => {
                let pl = self.addresses(w, at, mask, addr)?;
                for l in lanes(mask) {
                    if !w.maps.contains(&pl.addr[l]) {
                        w.maps.push(pl.addr[l]);
                    }
                }
                Ok(())
            }
            Hop::Fence(ProxyFence::Async { shared, global }) => {
                self.fence_proxy(w, mask, *shared, *global);
                Ok(())
            }
            Hop::Fence(ProxyFence::MbarInit) => {
                self.mbar_fence(w);
                Ok(())
            }
            Hop::WgFence => self.wg_fence(w, at, mask),
            Hop::WgCommit => self.wg_commit(w, at, mask),
            Hop::WgWait { n } => self.wg_wait(w, at, mask, *n),
            Hop::Wgmma(o) => self.wgmma(w, at, mask, o),
            Hop::SetMaxNReg { inc, n } => self.set_max_nreg(w, at, mask, *inc, *n),
            Hop::ClusterArrive { relaxed, aligned } => self.cluster_arrive(w, at, mask, *relaxed, *aligned),
            Hop::ClusterWait { aligned } => self.cluster_wait(w, at, mask, *aligned),
            Hop::Mapa { d, a, rank, generic } => self.mapa(w, at, mask, [*d, *a, *rank], *generic),
            Hop::GetCtaRank { d, a, generic } => {
                self.get_cta_rank(w, mask, *d, *a, *generic);
                Ok(())
            }
            Hop::Remote(r) => self.remote(w, at, mask, r),
        }
    }
}
