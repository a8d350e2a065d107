//! The order of grid positions on chips of several dies, each with a cache of its own.
//!
//! ```text
//! as launched      instance w to die w % 8: neighbours, which read the same rows or columns, lie on eight dies, and each fetches them
//! in chunks        positions 0..32 on die 0, 32..64 on die 1, … 256..288 on die 0 again
//! what is left     less than 8 chunks at the end: a share of it for each die, one more for the first ones where it does not come out even
//! grouped          positions go down 8 rows of the plane x, y before they go to the next column, so that a chunk is 8 by 4
//! ```
//!
//! Instances keep to which die they go; which position of the grid they work at is computed. That is a bijection for every grid, and nobody can tell
//! the difference but by what caches hold: kernels with atomic updates, or that read what they write, stay as they are launched.
//!
//! What it gains is counted on grids of some size: the tiles that the instances on one die ask for ([`numbers`] follows their coordinates), each
//! once, since what one of them has loaded is in the cache for the others.

mod numbers;

use crate::plan::written_views;
use numbers::{Sample, number};
use std::fmt;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{Attr, Effects, GridAxis, Inst, Kernel, Op, Region, Type, Value};
use tilelift_lane::hash::{Map, Set};
use tilelift_lane::{Costs, Dies};

/// All axes of a launch grid.
const AXES: [GridAxis; 3] = [GridAxis::X, GridAxis::Y, GridAxis::Z];

/// Grids on which orders are priced, by how many axes a kernel asks for, and the extents of views there. In the first one instances of a die stand in
/// columns, since its rows are a multiple of 8; in the other they do not.
const SAMPLES: [[Sample; 2]; 3] = [
    [Sample { grid: [1024, 1, 1], extent: 4096 }, Sample { grid: [1089, 1, 1], extent: 4224 }],
    [Sample { grid: [32, 32, 1], extent: 4096 }, Sample { grid: [33, 33, 1], extent: 4224 }],
    [Sample { grid: [32, 32, 4], extent: 4096 }, Sample { grid: [33, 33, 4], extent: 4224 }],
];

/// Rows of a group.
const GROUP: u32 = 8;

/// What computing the position takes, in sixteenths of a cycle: some 40 instructions, most of which wait for the one before; and a division for each axis
/// behind the first, two for a group.
const COMPUTED: u64 = 16 * 100;
const DIVISION: u64 = 16 * 200;

/// Loads that are looked at: what the first ones ask for decides.
const MOST_LOADS: usize = 32;

/// Iterations of a loop that are counted.
const MOST_TRIPS: u64 = 1 << 10;

/// Bytes of a sector.
const SECTOR: u64 = 32;

/// Which instance works at which position of the grid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DieOrder {
    /// Axes that take part, x first; along the others each position has the same order.
    pub axes: u32,
    /// Dies, a power of two.
    pub count: u32,
    /// Positions of a chunk, a power of two.
    pub chunk: u32,
    /// Rows along y that are gone down before the next column; 1 for rows one after the other.
    pub group: u32,
}

impl fmt::Display for DieOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in chunks of {} for each of {} dies", self.chunk, self.count)?;
        if self.group > 1 { write!(f, ", down {} rows", self.group) } else { Ok(()) }
    }
}

impl DieOrder {
    /// The order of a kernel, if it gains more than it takes.
    pub fn of(kernel: &Kernel, dies: Dies, costs: &Costs) -> Option<DieOrder> {
        let found = TilesAsked::of(kernel)?;
        let price = |order: Option<DieOrder>| Some(found.bytes(kernel, dies, order)?.div_ceil(SECTOR) * costs.sector + takes(order));
        let groups: &[u32] = if found.axes > 1 { &[1, GROUP] } else { &[1] };
        let orders = groups.iter().map(|&group| Some(DieOrder { axes: found.axes, count: dies.count, chunk: dies.chunk, group }));
        let mut priced: Vec<(u64, Option<DieOrder>)> =
            std::iter::once(None).chain(orders).map(|order| Some((price(order)?, order))).collect::<Option<_>>()?;
        priced.sort_by_key(|p| p.0);
        let said = |order: Option<DieOrder>| order.map_or("as launched".to_owned(), |order| order.to_string());
        let (&(least, best), next) = (priced.first()?, priced.get(1)?);
        taken(Decision::DieOrder, || Told::at(said(best), least).before(said(next.1), Some(next.0)));
        best
    }

    /// Where instance `w` of a grid works, all axes that take part counted as one, as is the answer. What is lowered computes the same.
    pub fn position(self, w: u64, grid: [u64; 3]) -> [u64; 3] {
        let n: u64 = grid[..self.axes as usize].iter().product();
        let (count, chunk) = (u64::from(self.count), u64::from(self.chunk));
        let (begin, left) = (w / (count * chunk) * (count * chunk), n % (count * chunk));
        let (die, local) = (w % count, w / count % chunk);
        let (share, more) = if begin + left < n { (chunk, 0) } else { (left / count, left % count) };
        self.grouped(begin + die * share + die.min(more) + local, grid)
    }

    fn grouped(self, at: u64, [x, y, _]: [u64; 3]) -> [u64; 3] {
        if self.axes == 1 {
            return [at, 0, 0];
        }
        let group = u64::from(self.group);
        let (plane, inside) = (at / (x * y), at % (x * y));
        let (first, inside) = (inside / (x * group) * group, inside % (x * group));
        let height = group.min(y - first);
        if group == 1 { [inside, first, plane] } else { [inside / height, first + inside % height, plane] }
    }
}

/// What an order takes to compute.
fn takes(order: Option<DieOrder>) -> u64 {
    order.map_or(0, |o| COMPUTED + DIVISION * u64::from(o.axes - 1 + if o.group > 1 { 2 } else { 0 }))
}

/// A load whose coordinates are known: each its number.
struct Tile {
    /// The counted loops around it.
    loops: Vec<Inst>,
    coordinates: Vec<Value>,
    bytes: u64,
}

/// What a kernel asks for.
struct TilesAsked {
    axes: u32,
    tiles: Vec<Tile>,
}

impl TilesAsked {
    /// Nothing if its instances could tell in which order they run, or if it has no loads.
    fn of(kernel: &Kernel) -> Option<TilesAsked> {
        let written = written_views(kernel);
        let (mut axes, mut tells) = (0, false);
        kernel.walk(kernel.body, &mut |i| {
            let d = &kernel.insts[i];
            let effects = d.op.info().effects.global();
            tells |= effects == Effects::Updates || matches!(d.op, Op::ClusterRank | Op::WorkerId);
            tells |= effects == Effects::Reads && d.args.first().is_some_and(|v| written.contains(v));
            if let (Op::ProgramId, Some(Attr::Grid(axis))) = (d.op, d.attrs.first()) {
                axes = axes.max(1 + AXES.iter().position(|a| a == axis).unwrap_or(0) as u32);
            }
        });
        let mut tiles = Vec::new();
        if axes > 0 && !tells {
            tiles_in(kernel, kernel.body, &mut Vec::new(), &mut tiles);
        }
        (axes > 0 && !tells && !tiles.is_empty()).then_some(TilesAsked { axes, tiles })
    }

    /// Bytes that come to the first die's cache for each of as many instances as run there at a time. `None` if no load's coordinates are known.
    fn bytes(&self, kernel: &Kernel, dies: Dies, order: Option<DieOrder>) -> Option<u64> {
        let samples = SAMPLES.get(self.axes as usize - 1)?;
        let all: Option<Vec<u64>> = samples.iter().map(|sample| self.bytes_on(kernel, dies, order, sample)).collect();
        Some(all?.iter().sum::<u64>() / samples.len() as u64)
    }

    fn bytes_on(&self, kernel: &Kernel, dies: Dies, order: Option<DieOrder>, sample: &Sample) -> Option<u64> {
        let mut seen: Vec<Set<Vec<i64>>> = vec![Set::default(); self.tiles.len()];
        let mut unknown = 0;
        for n in 0..dies.processors {
            let w = u64::from(n * dies.count);
            let [x, y, _] = sample.grid;
            let at = order.map_or([w % x, w / x % y, w / (x * y)], |o| o.position(w, sample.grid));
            let mut memo = Map::default();
            for (tile, seen) in self.tiles.iter().zip(&mut seen) {
                let numbers: Option<Vec<i64>> = tile.coordinates.iter().map(|&v| number(kernel, v, (&at, sample), &mut memo)).collect();
                match numbers {
                    Some(numbers) => drop(seen.insert(numbers)),
                    None => unknown += tile.bytes,
                }
            }
        }
        let bytes =
            self.tiles.iter().zip(&seen).map(|(tile, seen)| tile.bytes.saturating_mul(seen.len() as u64 * tile.times(kernel, sample)));
        let bytes = bytes.fold(0, u64::saturating_add);
        (bytes > 0).then(|| (bytes + unknown) / u64::from(dies.processors.max(1)))
    }
}

impl Tile {
    /// How often it is loaded, by the first instance.
    fn times(&self, kernel: &Kernel, sample: &Sample) -> u64 {
        let mut memo = Map::default();
        let mut trips = |i: Inst| {
            let [lo, hi, step] = kernel.insts[i].args.get(..3)?.try_into().ok()?;
            let [lo, hi, step] = [lo, hi, step].map(|v| number(kernel, v, (&[0; 3], sample), &mut memo));
            u64::try_from(hi?.checked_sub(lo?)?).ok()?.checked_div(step?.try_into().ok()?)
        };
        self.loops.iter().map(|&i| trips(i).unwrap_or(1).clamp(1, MOST_TRIPS)).fold(1, u64::saturating_mul)
    }
}

/// Loads of a region and of those in it.
fn tiles_in(kernel: &Kernel, region: Region, loops: &mut Vec<Inst>, out: &mut Vec<Tile>) {
    for &i in &kernel.regions[region].insts {
        let d = &kernel.insts[i];
        if out.len() == MOST_LOADS {
            return;
        }
        if d.op == Op::Load {
            out.extend(tile(kernel, i, loops));
        }
        let counted = d.op == Op::For;
        loops.extend(counted.then_some(i));
        d.regions.iter().for_each(|&r| tiles_in(kernel, r, loops, out));
        loops.truncate(loops.len() - usize::from(counted));
    }
}

fn tile(kernel: &Kernel, i: Inst, loops: &[Inst]) -> Option<Tile> {
    let d = &kernel.insts[i];
    let ty = kernel.ty(*d.results.first()?);
    let elements: u64 = ty.shape()?.iter().map(|&n| u64::from(n)).product();
    let Type::View(view) = kernel.ty(*d.args.first()?) else { return None };
    let rank = view.rank();
    let coordinates = d.args.get(1..1 + rank)?.to_vec();
    Some(Tile { loops: loops.to_vec(), coordinates, bytes: elements * u64::from(ty.elem().bits()) / 8 })
}

#[cfg(test)]
mod tests;
