//! Conversions through shared memory with a swizzle that is conflict-free on both sides.
//!
//! The offset columns are built as `[V | E | word | bank | S]`, low to high:
//!
//! * `V`: elements that both sides hold in registers, the common vector;
//! * `E`: optional extra vector bits of one side, chosen as the register components of the other
//!   side's lanes, so that the other side's lanes still spread over the banks;
//! * `S`: "same bank, other line": a common complement of the spans that one phase of either side
//!   covers. It exists whenever a phase is no larger than a line, by pairing the parts that only
//!   one side covers (`a ^ b`); those XORs are the swizzle.
//!
//! Vector bits are kept away from all lane and warp columns, so every lane groups its registers the
//! same way. Several candidates are built and the best by the exact wavefront count is returned, so
//! optimality of the construction is never needed for correctness.

use super::access::{AccessColumns, vector_count, vectors_without};
use super::bank::{BankModel, SharedOp, wavefronts};
use super::convert::{ConversionClass, Pair};
use super::error::LayoutError;
use super::linear::{self, Span};
use super::map::{Axis, Layout};
use super::shared::SharedMap;

/// Widest access of one lane in bytes.
const VECTOR_BYTES: u32 = 16;

/// A conversion through shared memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RoundTripPlan {
    /// Where each element lives meanwhile; [`SharedMap::elements`] is the scratch size.
    pub map: SharedMap,
    /// Elements per store instruction.
    pub store_vec: u32,
    /// Elements per load instruction.
    pub load_vec: u32,
    /// Source registers of each store instruction, in vector order; copies are stored once.
    pub store_regs: Vec<Vec<u32>>,
    /// Destination registers of each load instruction, in vector order.
    pub load_regs: Vec<Vec<u32>>,
    /// Offsets of the stores, in elements.
    pub store_columns: AccessColumns,
    /// Offsets of the loads, in elements.
    pub load_columns: AccessColumns,
    /// Lanes with a bit in this mask hold copies and must not store.
    pub idle_lanes: u32,
    /// Warps with a bit in this mask hold copies and must not store.
    pub idle_warps: u32,
    /// Per odd digit of the warp number: only value 0 stores.
    pub idle_warp_odd: Vec<bool>,
    /// Wavefronts of all stores of one warp.
    pub store_wavefronts: u32,
    /// Wavefronts of all loads of one warp.
    pub load_wavefronts: u32,
    /// Passes per phase: 1 and 1 when both sides are conflict-free.
    pub conflicts: (u32, u32),
    /// Every element stays in its warp, so warp-level ordering is enough.
    pub warp_local: bool,
}

/// One side of the trip while a map is being designed.
struct Side<'a> {
    layout: &'a Layout,
    op: SharedOp,
    /// Copies that do not take part.
    idle_regs: u32,
    idle_lanes: u32,
}

/// The best vector width of one side under a map.
struct SideAccess {
    columns: AccessColumns,
    width: u32,
    vectors: u32,
    per_phase: u32,
    total: u32,
}

impl Side<'_> {
    /// Columns of one phase at a width, as tensor vectors.
    fn phase(&self, model: &BankModel, bytes: u32) -> Vec<u32> {
        let lanes = self.layout.cols(Axis::Lane);
        let all = (1u32 << lanes.len()) - 1;
        let (_, phase) = model.phase(self.op, bytes);
        phase.iter().map(|v| linear::mul(lanes, u64::from(v & all))).collect()
    }

    fn others(&self) -> Vec<u32> {
        [self.layout.cols(Axis::Lane), self.layout.cols(Axis::Warp), self.layout.cols(Axis::Block)].concat()
    }

    fn access(&self, map: &SharedMap, e: u32, model: &BankModel) -> Result<SideAccess, LayoutError> {
        let columns = map.columns_from(self.layout)?;
        let active = (columns.lane.len() as u32).saturating_sub(self.idle_lanes.count_ones());
        // Width, vectors, passes of a phase, and of all.
        let mut best: Option<[u32; 4]> = None;
        let mut cap = VECTOR_BYTES.max(e);
        loop {
            let [width, vectors] = vector_count(&columns, e, cap, self.idle_regs);
            // There is no phase without a pass, so that many widths need no look.
            let phases = active.saturating_sub(model.phase(self.op, width * e).1.len() as u32);
            if best.is_none_or(|[_, of_best, _, total]| (vectors << phases, vectors) < (total, of_best)) {
                let w = wavefronts(&columns, e, width, self.op, model, self.idle_lanes);
                let total = w.total() * vectors;
                if best.is_none_or(|[_, of_best, _, least]| (total, vectors) < (least, of_best)) {
                    best = Some([width, vectors, w.per_phase, total]);
                }
            }
            let narrower = width * e / 2;
            if narrower < e {
                break;
            }
            cap = narrower;
        }
        let [width, vectors, per_phase, total] = best.ok_or(LayoutError::NotInvertible)?;
        Ok(SideAccess { columns, width, vectors, per_phase, total })
    }

    /// The registers of each vector.
    fn groups(&self, access: &SideAccess, e: u32) -> Vec<Vec<u32>> {
        vectors_without(&access.columns, e, access.width * e, self.idle_regs).groups
    }
}

/// Which side gets extra vector bits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Widen {
    None,
    Store,
    Load,
}

/// Everything that candidate maps share.
struct Problem<'a> {
    sides: [Side<'a>; 2],
    /// Element size in bytes, a power of two.
    elem: u32,
    model: &'a BankModel,
    bits: usize,
    /// Common vector, longest first choice.
    common: Vec<u32>,
    /// Columns of all lanes, warps and blocks of both sides.
    outer: Vec<u32>,
}

impl Problem<'_> {
    /// Offset columns for the first `v` common vector bits and a widened side.
    fn columns(&self, v: usize, widen: Widen) -> Option<Vec<u32>> {
        let units = || (0..self.bits).map(|i| 1u32 << i);
        let vector = &self.common[..v];
        // U: a complement of V that contains all lanes and warps.
        let outer = Span::of(&self.outer).basis();
        let used = [vector, &outer].concat();
        let mut space = outer;
        space.extend(linear::complement(&used, units()));
        let whole = Span::of(&[vector, &space].concat());
        let project = |x: u32| {
            let (_, used) = whole.reduce(x);
            linear::mul(&space, used >> v)
        };
        let bytes = self.elem << v;
        let mut extra: Vec<u32> = Vec::new();
        let mut widths = [bytes, bytes];
        if widen != Widen::None {
            let (wide, other) = if widen == Widen::Store { (0, 1) } else { (1, 0) };
            let (x, y) = (&self.sides[wide], &self.sides[other]);
            let regs: Vec<u32> = x.layout.cols(Axis::Reg).iter().map(|&c| project(c)).collect();
            let outer_x = x.others();
            let all = [regs.clone(), outer_x.clone()].concat();
            let mut modulo = Span::of(&outer_x);
            for lane in y.phase(self.model, bytes) {
                if self.elem << (v + extra.len() + 1) > VECTOR_BYTES {
                    break;
                }
                let used = linear::solve(&all, lane)?;
                let part = linear::mul(&regs, used & ((1 << regs.len()) - 1));
                if modulo.insert(part) {
                    extra.push(part);
                }
            }
            if extra.is_empty() {
                return None;
            }
            widths[wide] = bytes << extra.len();
            // ker g: contains the wide side's lanes and warps.
            let keep = Span::of(&outer_x).basis();
            let rest = linear::complement(&[keep.clone(), extra.clone()].concat(), space);
            space = [keep, rest].concat();
        }
        // What one phase of each side covers inside the remaining space.
        let covers: Vec<Vec<u32>> = (0..2).map(|i| linear::intersect(&self.sides[i].phase(self.model, widths[i]), &space)).collect();
        // Fill the 4-byte word with vectors that no phase covers, if there are any.
        let low = v + extra.len();
        let word = (4 / self.elem.min(4)).ilog2() as usize;
        let outside = linear::complement(&covers.concat(), space.iter().copied());
        let filler = linear::complement(&[], outside.into_iter().chain(space.iter().copied()));
        let word: Vec<u32> = filler.into_iter().take(word.saturating_sub(low)).collect();
        let line = (self.model.banks * 4 / self.elem).max(1).ilog2() as usize;
        let segment = self.segments(&covers, &word, &space, self.bits.saturating_sub(line));
        let head = [vector, &extra, &word].concat();
        let taken = [head.clone(), segment.clone()].concat();
        let bank = linear::complement(&taken, space.iter().copied());
        Some([head, bank, segment].concat())
    }

    /// `count` vectors that meet what either side covers as little as possible.
    fn segments(&self, covers: &[Vec<u32>], word: &[u32], space: &[u32], count: usize) -> Vec<u32> {
        let a = [word, &covers[0]].concat();
        let b = [word, &covers[1]].concat();
        let both = [a.clone(), b.clone()].concat();
        let shared = linear::intersect(&a, &b);
        let only_a = linear::complement(&shared, a.iter().copied());
        let only_b = linear::complement(&shared, b.iter().copied());
        let mut list = linear::complement(&both, space.iter().copied());
        list.extend(only_a.iter().zip(&only_b).map(|(x, y)| x ^ y));
        // Oversubscribed phases: whatever is left, outside the word.
        let sofar = [word, &list].concat();
        let rest = only_a.into_iter().chain(only_b).chain(shared);
        list.extend(linear::complement(&sofar, rest));
        list.truncate(count);
        list
    }
}

/// The cheapest round trip from one layout to another for elements of `elem_bytes`.
///
/// # Errors
/// [`LayoutError::TensorMismatch`], [`LayoutError::AxisMismatch`];
/// [`LayoutError::NotPowerOfTwo`] for the element size; [`LayoutError::Unsupported`] when elements
/// cross blocks.
pub fn plan_round_trip(from: &Layout, to: &Layout, elem_bytes: u32, model: &BankModel) -> Result<RoundTripPlan, LayoutError> {
    plan_pair(&Pair::new(from, to)?, elem_bytes, model)
}

pub(crate) fn plan_pair(pair: &Pair, elem_bytes: u32, model: &BankModel) -> Result<RoundTripPlan, LayoutError> {
    super::digits::log2("element size", elem_bytes)?;
    let class = pair.class();
    if class == ConversionClass::Cluster {
        return Err(LayoutError::Unsupported { what: "a layout conversion across blocks of a cluster; keep block columns equal".into() });
    }
    let (from, to) = (&pair.from, &pair.to);
    let idle_lanes = from.free_mask(Axis::Lane);
    let idle_regs = from.free_mask(Axis::Reg);
    let store = Side { layout: from, op: SharedOp::Store, idle_regs, idle_lanes };
    let load = Side { layout: to, op: SharedOp::Load, idle_regs: 0, idle_lanes: 0 };
    let outer = [store.others(), load.others()].concat();
    let registers = linear::intersect(from.cols(Axis::Reg), to.cols(Axis::Reg));
    // Natural register order first, so that vectors follow memory-like runs.
    let inside = Span::of(&registers);
    let natural = from.cols(Axis::Reg).iter().copied().filter(|&c| inside.contains(c));
    let candidates: Vec<u32> = natural.chain(registers.iter().copied()).collect();
    let blocked = linear::intersect(&registers, &outer);
    let most = (VECTOR_BYTES / elem_bytes.min(VECTOR_BYTES)).ilog2() as usize;
    let mut common = linear::complement(&blocked, candidates);
    common.truncate(most);
    let problem = Problem { sides: [store, load], elem: elem_bytes, model, bits: from.space.nbits() as usize, common, outer };
    let odd_order: Vec<usize> = (0..from.space.odd.len()).collect();
    let mut best: Option<(SharedMap, SideAccess, SideAccess)> = None;
    for v in (0..=problem.common.len()).rev() {
        for widen in [Widen::None, Widen::Load, Widen::Store] {
            let Some(columns) = problem.columns(v, widen) else {
                continue;
            };
            let map = SharedMap::from_packed(from.space.clone(), &columns, &odd_order)?;
            let a = problem.sides[0].access(&map, elem_bytes, model)?;
            let b = problem.sides[1].access(&map, elem_bytes, model)?;
            let key = |a: &SideAccess, b: &SideAccess| (a.total + b.total, a.vectors + b.vectors);
            if best.as_ref().is_none_or(|(_, x, y)| key(&a, &b) < key(x, y)) {
                best = Some((map, a, b));
            }
        }
    }
    let (map, a, b) = best.ok_or(LayoutError::NotInvertible)?;
    Ok(RoundTripPlan {
        map,
        store_vec: a.width,
        load_vec: b.width,
        store_regs: problem.sides[0].groups(&a, elem_bytes),
        load_regs: problem.sides[1].groups(&b, elem_bytes),
        store_columns: a.columns,
        load_columns: b.columns,
        idle_lanes,
        idle_warps: from.free_mask(Axis::Warp),
        idle_warp_odd: from.free_odd(Axis::Warp).to_vec(),
        store_wavefronts: a.total,
        load_wavefronts: b.total,
        conflicts: (a.per_phase, b.per_phase),
        warp_local: class <= ConversionClass::InWarp && from.free_mask(Axis::Warp) == 0 && from.free_odd(Axis::Warp).iter().all(|f| !f),
    })
}
