//! A launch: its checks, its arguments, its clusters.

use crate::config::{Arg, Launch, Rng};
use crate::error::{ErrorKind, SimError};
use crate::memory::{Memory, SHARED_BASE};
use crate::program::op::Program;
use crate::record::Recording;
use crate::report::{Report, Stat};
use crate::state::race::Shadow;
use crate::state::warp::Warp;
use crate::state::{Simulator, product};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Shared memory a CTA may have on the largest modelled device (sm_90), static and dynamic together.
const MAX_SHARED: u64 = 232_448;

/// More CTAs than this are not worth simulating; it also keeps warp numbers within 31 bits.
const MAX_CTAS: u64 = 1 << 24;

fn bad(m: impl Into<String>) -> Box<SimError> {
    SimError::new(ErrorKind::BadLaunch, m)
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
pub(crate) fn launch(
    prog: &Program,
    src: &str,
    globals: &[u64],
    l: &Launch<'_>,
    mem: &mut Memory,
    record: Option<&mut Recording>,
) -> Result<Report, Box<SimError>> {
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
    let mut m = Simulator {
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
        record,
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
