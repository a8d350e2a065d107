//! The asynchronous units: bulk and tensor copies, mbarriers, `wgmma`, clusters, and the proxies between them and ordinary code.

mod bulk;
mod cluster;
mod flight;
mod mbarrier;
mod proxy;
mod tma;
mod wgmma;
mod wgmma_math;
