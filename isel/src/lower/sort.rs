//! Ops that order or count the elements of a tile, or look them up by position.
//!
//! Lines are sorted where their tile lies, by a network ([`super::network`]) or as far as they are asked for one by one ([`super::picks`]), whichever takes
//! less ([`super::sort_price`]), by keys ([`super::keys`]); lines whose length is no power of two, or whose
//! layout mixes the bits of the axis, go through shared memory into lines of a power of two first. `sort` and `argsort` of one tile, and
//! `top_k` and `arg_top_k`, are one sort.

use super::elementwise::Coords;
use super::keys::{Item, Keys};
use super::location::Tile;
use super::network::Network;
use super::picks::{Picks, picked};
use super::scratch::{Scratch, first_copies, position, row_major};
use super::shared::representative;
use super::sort_price::Work;
use super::{Lower, sizes};
use crate::layout::assign::{Assignment, scattered_layout};
use crate::layout::sorted_pairs::OtherHalf;
use std::rc::Rc;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::layout::{Axis, Coord, Layout};
use tilelift_ir::{AtomicOp, Attr, CmpOp, Inst, Kernel, MemoryOrder, Op, Scope, SortOrder, Value};
use tilelift_lane::{Atomic, AtomicKind, LTy, LVal, LaneBuilder, Space, Target};
use tilelift_schedule::plan::Plan;
use tilelift_schedule::reason::{NoAxis, Remedy};
use tilelift_schedule::{LowerError, Resource};

/// How lines are sorted.
enum SortWay {
    Network(Network),
    Picks(Picks),
}

impl SortWay {
    /// The cheaper way to the first elements of lines along `dim`, and the prices of both: of the network, and of picking them. `None` if the layout does not
    /// keep the bits of the line apart.
    fn new((from, dim): (&Layout, usize), first: u32, keys: Keys, target: &Target, warps: u32) -> Option<(SortWay, u64, Option<u64>)> {
        let price = |work: Work| work.price(target, u64::from(warps));
        let net = Network::new(from, dim, first.next_power_of_two())?;
        let network = price(net.work(keys));
        let picks = Picks::new(from, dim, first, target);
        let picked = picks.as_ref().map(|p| price(p.work(keys)));
        Some(match (picks, picked) {
            (Some(picks), Some(price)) if price < network => (SortWay::Picks(picks), network, picked),
            _ => (SortWay::Network(net), network, picked),
        })
    }

    /// Where the first elements lie behind it.
    fn to(&self) -> &Layout {
        match self {
            SortWay::Network(net) => &net.to,
            SortWay::Picks(picks) => &picks.to,
        }
    }

    /// Bytes of each array in shared memory, in order.
    fn scratch(&self, keys: Keys, threads: u32) -> Vec<u64> {
        match self {
            SortWay::Network(net) => net.scratch(keys, threads),
            SortWay::Picks(_) => Vec::new(),
        }
    }
}

/// A sort: its results, and how it is done.
pub(super) struct Sorting {
    dim: usize,
    keys: Keys,
    /// Elements and positions that are asked for.
    results: [Option<Value>; 2],
    /// The shape in which lines are sorted.
    padded: Vec<u32>,
    /// Where they lie in the network's first step, by their positions in the tile.
    layout: Rc<Layout>,
    /// They lie there from the start.
    in_place: bool,
    way: SortWay,
    /// The price of a network, and of picking elements one by one.
    prices: (u64, Option<u64>),
}

/// The most that goes through shared memory for lines that would be sorted where they lie.
const TRIP_BYTES: u64 = 1 << 15;

/// A layout in which each warp holds lines along `dim` whole: lanes have neighbouring elements, warps other lines, as far as there are any.
fn whole_lines(shape: &[u32], dim: usize, lanes: u32, warps: u32) -> Option<Layout> {
    if !shape.iter().all(|e| e.is_power_of_two()) || !warps.is_power_of_two() || shape[dim] < lanes {
        return None;
    }
    let at = |d: usize, bit: u32| -> Coord { (0..shape.len()).map(|k| if k == d { 1 << bit } else { 0 }).collect() };
    let [bits, lanes, warps] = [shape[dim], lanes, warps].map(u32::trailing_zeros);
    // Four elements lie side by side, as lanes like to load them.
    let side = (bits - lanes).min(2);
    let mut registers: Vec<Coord> = (0..side).chain(side + lanes..bits).map(|bit| at(dim, bit)).collect();
    let mut lines: Vec<Coord> = Vec::new();
    for d in (0..shape.len()).filter(|&d| d != dim) {
        for bit in 0..shape[d].trailing_zeros() {
            let list = if lines.len() < warps as usize { &mut lines } else { &mut registers };
            list.push(at(d, bit));
        }
    }
    if registers.len() > crate::layout::MAX_REGISTERS_PER_TILE.ilog2() as usize {
        return None;
    }
    lines.resize(warps as usize, Coord::from_elem(0, shape.len()));
    let lanes = (side..side + lanes).map(|bit| at(dim, bit)).collect();
    Layout::from_columns(shape, &[(Axis::Reg, registers), (Axis::Lane, lanes), (Axis::Warp, lines)]).ok()
}

/// What is sorted together with an instruction, if neither runs in several layouts.
fn other_half(assigned: &Assignment, i: Inst) -> Option<OtherHalf> {
    let alone = |i: Inst| assigned.runs[i].len() < 2;
    assigned.sorted_pairs[i].filter(|other| alone(i) && alone(other.inst))
}

/// True if an instruction was sorted together with one in front of it.
pub(super) fn made_before(assigned: &Assignment, i: Inst) -> bool {
    other_half(assigned, i).is_some_and(|other| other.in_front)
}

impl Sorting {
    /// How lines of a tile in a layout are sorted; `left` are the bytes of shared memory that there are for it ([`sizes::left`]).
    ///
    /// # Errors
    /// No layout sorts them, or lines are too long.
    pub fn new(
        (kernel, i): (&Kernel, Inst),
        assigned: &Assignment,
        target: &Target,
        (plan, left): (&Plan, u64),
        tile: &Rc<Layout>,
    ) -> Result<Sorting, LowerError> {
        let d = &kernel.insts[i];
        let dim = super::facts::dim_of(kernel, i);
        let other = other_half(assigned, i).map(|j| kernel.insts[j.inst].results[0]);
        let places = matches!(d.op, Op::ArgSort | Op::ArgTopK);
        let results = if places { [other, Some(d.results[0])] } else { [Some(d.results[0]), other] };
        let descending = d.attrs.first() == Some(&Attr::Sort(SortOrder::Descending));
        let length = tile.shape()[dim].next_power_of_two();
        let keys = Keys::new(kernel.ty(d.args[0]).elem(), descending, results[1].is_some(), length);
        let first = kernel.ty(d.results[0]).shape().map_or(1, |s| s[dim]);
        let mut padded = tile.shape().to_vec();
        if let Some((way, network, picked)) = SortWay::new((tile, dim), first, keys, target, plan.warps) {
            let here = Sorting { dim, keys, results, padded, layout: tile.clone(), in_place: true, way, prices: (network, picked) };
            return Ok(if picked.is_none() { here.brought((kernel, first), target, (plan, left)) } else { here });
        }
        padded[dim] = padded[dim].next_power_of_two();
        let layout = scattered_layout(&padded, 4, target, plan)?;
        if layout.size(Axis::Reg) > crate::layout::MAX_REGISTERS_PER_TILE {
            return Err(LowerError::ResourceExceeded {
                resource: Resource::TileRegisters,
                need: u64::from(layout.size(Axis::Reg)),
                have: u64::from(crate::layout::MAX_REGISTERS_PER_TILE),
                remedy: Box::new(Remedy::Sort),
                loc: Default::default(),
            });
        }
        let (way, network, picked) = SortWay::new((&layout, dim), first, keys, target, plan.warps).ok_or(NoAxis::Sort)?;
        Ok(Sorting { dim, keys, results, padded, layout: Rc::new(layout), in_place: false, way, prices: (network, picked) })
    }

    /// The same, or, if that takes less, behind a trip through shared memory after which each warp holds lines whole, so that their first elements are picked.
    fn brought(self, (kernel, first): (&Kernel, u32), target: &Target, (plan, left): (&Plan, u64)) -> Sorting {
        let bytes = sizes::array(self.layout.shape(), self.keys.bare().bytes());
        let Some(layout) = whole_lines(self.layout.shape(), self.dim, target.lanes, plan.warps).filter(|_| bytes <= TRIP_BYTES) else {
            return self;
        };
        let Some(picks) = Picks::new(&layout, self.dim, first, target) else { return self };
        let trip =
            Work { traded: u64::from(layout.size(Axis::Reg)) * u64::from(self.keys.bare().bytes() / 4), meetings: 1, ..Work::default() };
        let warps = u64::from(plan.warps);
        let price = picks.work(self.keys).price(target, warps) + trip.price(target, warps);
        let prices = (self.prices.0, Some(price));
        if price >= self.prices.0 {
            return Sorting { prices, ..self };
        }
        let takes: u64 = self.leaving(kernel, &picks.to).chain([bytes]).map(|b| b.next_multiple_of(sizes::SCRATCH_ALIGN.into())).sum();
        if takes > left {
            return self;
        }
        Sorting { layout: Rc::new(layout), in_place: false, way: SortWay::Picks(picks), prices, ..self }
    }

    /// The layout in which results are there behind it; `None` where they go through shared memory into their own.
    pub fn result(&self, kernel: &Kernel, v: Value) -> Option<Rc<Layout>> {
        (kernel.ty(v).shape() == Some(self.way.to().shape())).then(|| Rc::new(self.way.to().clone()))
    }

    /// Says what was decided.
    fn told(&self) {
        taken(Decision::Sorts, || match (&self.way, self.prices) {
            (SortWay::Picks(_), (network, Some(picked))) => Told::at("picked one by one", picked).before("a network", Some(network)),
            (_, (network, Some(picked))) => Told::at("a network", network).before("picked one by one", Some(picked)),
            (_, (network, None)) => Told::at("a network", network),
        });
    }

    /// What it makes.
    pub fn results(&self) -> impl Iterator<Item = Value> + '_ {
        self.results.iter().flatten().copied()
    }

    /// Bytes of each array in shared memory, in order; `shape` is that of the tile.
    pub fn scratch(&self, kernel: &Kernel, shape: &[u32], threads: u32) -> Vec<u64> {
        let mut list = Vec::new();
        if !self.in_place {
            list.push(sizes::array(shape, self.keys.bare().bytes()));
        }
        list.extend(self.way.scratch(self.keys, threads));
        list.extend(self.leaving(kernel, self.way.to()));
        list
    }

    /// Bytes of the arrays in which results go from where they lie into layouts of their own.
    fn leaving<'a>(&'a self, kernel: &'a Kernel, from: &'a Layout) -> impl Iterator<Item = u64> + 'a {
        self.results().filter(|&v| kernel.ty(v).shape() != Some(from.shape())).map(|v| {
            let ty = LTy::Num(kernel.ty(v).elem());
            sizes::array(from.shape(), sizes::scratch_type(ty).bytes())
        })
    }
}

impl Lower<'_> {
    pub(super) fn sort(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        if made_before(&self.assigned, i) {
            return Ok(());
        }
        let tile = self.own_tile(b, d.args[0])?;
        let how = Sorting::new((self.kernel, i), &self.assigned, self.target, (&self.plan, self.left), &tile.layout)?;
        let (keys, dim) = (how.keys, how.dim);
        let bare: Vec<LVal> = tile.regs.iter().map(|&x| keys.key(b, x)).collect();
        let coords = Coords::new(b, &how.layout);
        let mut items = Vec::new();
        let lines = if how.in_place { None } else { Some(self.lines(b, &how, &tile, bare.clone())?) };
        for r in 0..how.layout.size(Axis::Reg) {
            let place = coords.at(b, dim, how.layout.reg_coord(r)[dim]);
            let key = match &lines {
                None => bare[r as usize],
                Some(lines) => lines[r as usize],
            };
            items.push(keys.item(b, key, place));
        }
        how.told();
        let items = match &how.way {
            SortWay::Network(net) => self.network(b, net, keys, items)?,
            SortWay::Picks(picks) => picked(b, picks, keys, &items),
        };
        for v in how.results().collect::<Vec<_>>() {
            let places = how.results[1] == Some(v);
            let regs: Vec<LVal> = items.iter().map(|&x: &Item| if places { keys.place(b, x) } else { keys.value(b, x) }).collect();
            let made = Tile { layout: Rc::new(how.way.to().clone()), regs };
            if how.result(self.kernel, v).is_some() {
                self.set_tile(v, made);
                continue;
            }
            // Fewer than a power of two: through shared memory.
            let (layout, ty) = (self.layout_of(v)?, LTy::Num(self.kernel.ty(v).elem()));
            let shape = how.way.to().shape();
            let scratch = Scratch::new(self, b, shape.iter().map(|&e| u64::from(e)).product(), ty, "sort")?;
            let strides = row_major(shape);
            scratch.store_tile(b, &made, &strides);
            let regs = scratch.load_tile(b, &layout, &strides);
            self.set_tile(v, Tile { layout, regs });
        }
        Ok(())
    }

    /// Keys on their way through shared memory into lines of a power of two.
    fn lines(&self, b: &mut LaneBuilder, how: &Sorting, tile: &Tile, keys: Vec<LVal>) -> Result<Vec<LVal>, LowerError> {
        let (shape, dim) = (tile.layout.shape().to_vec(), how.dim);
        let strides = row_major(&shape);
        let elements: u64 = shape.iter().map(|&e| u64::from(e)).product();
        let scratch = Scratch::new(self, b, elements, how.keys.bare(), "sort")?;
        scratch.store_tile(b, &Tile { layout: tile.layout.clone(), regs: keys }, &strides);
        let coords = Coords::new(b, &how.layout);
        let mut lines = Vec::new();
        for r in 0..how.layout.size(Axis::Reg) {
            let place = coords.at(b, dim, how.layout.reg_coord(r)[dim]);
            let at = position(b, &coords, &how.layout, r, &strides);
            if how.padded[dim] == shape[dim] {
                let at = scratch.address(b, at);
                lines.push(scratch.load(b, at, 0));
                continue;
            }
            // Behind the line's end any address will do, as long as something was written there.
            let (end, zero) = (b.i32(i64::from(shape[dim])), b.i32(0));
            let inside = b.cmp(CmpOp::Lt, place, end);
            let at = b.select(inside, at, zero);
            let at = scratch.address(b, at);
            let key = scratch.load(b, at, 0);
            let last = how.keys.largest(b);
            lines.push(b.select(inside, key, last));
        }
        Ok(lines)
    }

    pub(super) fn histogram(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let result = d.results[0];
        let tile = self.own_tile(b, d.args[0])?;
        let mask = match d.args.get(1) {
            Some(&m) => Some(self.tile(b, m, &tile.layout.clone())?),
            None => None,
        };
        let out = self.layout_of(result)?;
        let bins = out.shape()[0];
        let scratch = Scratch::new(self, b, u64::from(bins), LTy::I32, "histogram")?;
        let zero = b.i32(0);
        let zeros = Tile { layout: out.clone(), regs: vec![zero; out.size(Axis::Reg) as usize] };
        scratch.store_tile(b, &zeros, &[1]);
        b.barrier();
        let layout = &tile.layout;
        let counter = representative(b, layout.free_mask(Axis::Lane), layout.free_mask(Axis::Warp));
        let one = b.i32(1);
        for (r, first) in first_copies(layout).into_iter().enumerate() {
            if first < r {
                continue;
            }
            let wide = b.cvt(tile.regs[r], LTy::I64);
            let end = b.i64(i64::from(bins));
            let inside = b.cmp(CmpOp::Ult, wide, end);
            let guard = b.and_guard(counter, Some(inside));
            let guard = b.and_guard(guard, mask.as_ref().map(|m| m.regs[r]));
            let at = b.cvt(wide, LTy::I32);
            let addr = scratch.address(b, at);
            let add = Atomic {
                dst: None,
                kind: AtomicKind::Op(AtomicOp::Add),
                space: Space::Shared,
                addr,
                offset: 0,
                value: one,
                guard,
                order: MemoryOrder::Relaxed,
                scope: Scope::Cta,
            };
            b.atomic(Some(scratch.alloc), add);
        }
        let regs = scratch.load_tile(b, &out, &[1]);
        self.set_tile(result, Tile { layout: out, regs });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_ir::Scalar;

    /// A row in a warp, eight elements a lane.
    fn row() -> Layout {
        Layout::blocked(&[1, 256], &[1, 8], &[1, 32], &[1, 1], &[0, 1]).expect("a layout")
    }

    fn way(layout: &Layout, first: u32, target: &Target) -> SortWay {
        let keys = Keys::new(Scalar::F32, true, true, 256);
        SortWay::new((layout, 1), first, keys, target, 1).expect("bits apart").0
    }

    #[test]
    fn a_few_are_picked_and_all_go_through_a_network() {
        let target = tilelift_lane::testing::target();
        assert!([1, 2, 4, 8].iter().all(|&first| matches!(way(&row(), first, &target), SortWay::Picks(_))));
        assert!(matches!(way(&row(), 256, &target), SortWay::Network(_)));
    }

    #[test]
    fn a_warp_holds_lines_whole_behind_a_trip() {
        let target = tilelift_lane::testing::target();
        for (shape, dim, warps) in [([4, 256], 1, 4), ([8, 64], 1, 2), ([128, 2], 0, 4), ([1, 32], 1, 2)] {
            let layout = whole_lines(&shape, dim, 32, warps).expect("a layout");
            assert!(layout.is_surjective() && layout.size(Axis::Lane) == 32 && layout.size(Axis::Warp) == warps, "{shape:?}");
            assert!(Picks::new(&layout, dim, 2, &target).is_some(), "{shape:?}");
        }
    }

    #[test]
    fn nothing_is_picked_where_a_warp_holds_several_lines_or_finds_no_least_word() {
        let target = tilelift_lane::testing::target();
        let two = Layout::blocked(&[2, 256], &[1, 8], &[2, 16], &[1, 1], &[0, 1]).expect("a layout");
        let parts = Layout::blocked(&[1, 256], &[1, 4], &[1, 32], &[1, 2], &[0, 1]).expect("a layout");
        assert!([two, parts].iter().all(|layout| matches!(way(layout, 2, &target), SortWay::Network(_))));
        let none = Target { redux: false, ..target };
        assert!(matches!(way(&row(), 2, &none), SortWay::Network(_)));
    }
}
