//! Where the elements of a staged operand lie in shared memory: the swizzle with the fewest bank wavefronts, writers and readers
//! together, counted exactly.
//!
//! ```text
//! copies into the tile ─► map ─► fragments: by matrix loads where they divide the access, else by vectors
//! ```
//!
//! A tile lies there alone, or in a slot of a ring, into which copies run ahead.

use crate::layout::assign::{Assignment, moved_layout};
use crate::layout::k_order::lines_of;
use crate::layout::{legal_width, memory_type};
use std::cell::RefCell;
use std::rc::Rc;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::layout::{
    Axis, Layout, LayoutError, SharedMap, SharedOp, coalesced, folded_swizzle, operand_swizzle, rotated_swizzle, vector_count, wavefronts,
};
use tilelift_ir::{Attr, Inst, Kernel, Op, Value};
use tilelift_lane::Target;
use tilelift_lane::hash::{Map, Set};
use tilelift_schedule::access::GlobalAccess;
use tilelift_schedule::plan::{BufferLayout, FetchedRing, Plan, Schedule, slots_of_steps};
use tilelift_schedule::transfers::fragments;

/// Another view of the same memory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum View {
    Transpose(Vec<usize>),
    Reshape(Vec<u32>),
}

/// A dot that reads a staged tile.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Reader {
    views: Vec<View>,
    layout: Rc<Layout>,
    /// Matrix loads may bring it.
    matrices: bool,
    /// A matrix instruction takes it.
    instruction: bool,
}

impl Reader {
    /// A reader of the tile itself.
    pub fn of(layout: &Rc<Layout>, matrices: bool) -> Reader {
        Reader { views: Vec::new(), layout: layout.clone(), matrices, instruction: matrices }
    }

    /// The layout of the tile itself where the dot sees one, if views are renaming.
    fn behind(&self, seen: &Rc<Layout>, shape: &[u32]) -> Option<Rc<Layout>> {
        let mut shapes = vec![shape.to_vec()];
        for view in &self.views {
            let last = shapes.last()?;
            let next = match view {
                View::Transpose(p) => p.iter().map(|&d| last.get(d).copied()).collect::<Option<Vec<u32>>>()?,
                View::Reshape(s) => s.clone(),
            };
            shapes.push(next);
        }
        self.views.iter().zip(&shapes).rev().try_fold(seen.clone(), |l, (view, before)| {
            let l = match view {
                View::Transpose(p) => {
                    let mut back = vec![0; p.len()];
                    p.iter().enumerate().for_each(|(k, &d)| back[d] = k);
                    l.transpose(&back)
                }
                View::Reshape(_) => l.reshape(before),
            };
            l.ok().map(Rc::new)
        })
    }

    /// The map as the dot sees it.
    pub fn seen(&self, map: &SharedMap) -> Result<SharedMap, LayoutError> {
        self.views.iter().try_fold(map.clone(), |m, v| match v {
            View::Transpose(p) => m.transpose(p),
            View::Reshape(s) => m.reshape(s),
        })
    }
}

/// The dots that read a value in shared memory, through transposes and reshapes.
pub(crate) fn readers(kernel: &Kernel, target: &Target, assigned: &Assignment, v: Value) -> Vec<Reader> {
    let mut out = Vec::new();
    let mut open: Vec<(Value, Vec<View>)> = vec![(v, Vec::new())];
    while let Some((v, views)) = open.pop() {
        for (i, d) in assigned.users[v].iter().map(|&i| (i, &kernel.insts[i])) {
            let mut further = views.clone();
            match (d.op, d.attrs.first()) {
                (Op::Transpose, Some(Attr::Perm(p))) => further.push(View::Transpose(p.iter().map(|&x| x as usize).collect())),
                (Op::Reshape, _) => further.push(View::Reshape(kernel.ty(d.results[0]).shape().unwrap_or(&[]).to_vec())),
                (Op::Dot | Op::DotScaled, _) => {
                    let Some(plan) = &assigned.dots[i] else { continue };
                    let elem = kernel.ty(v).elem();
                    for (k, (at, layout)) in plan.factors_at().into_iter().zip([&plan.a, &plan.b]).enumerate() {
                        if d.args[at] == v {
                            let matrices = target.load_matrix && plan.instr.is_some() && plan.factors[k] == elem;
                            let instruction = plan.instr.is_some();
                            out.push(Reader { views: views.clone(), layout: layout.clone(), matrices, instruction });
                        }
                    }
                    continue;
                }
                _ => continue,
            }
            open.push((d.results[0], further));
        }
    }
    out
}

/// Passes and instructions of one warp that writes a tile in a layout, in vectors of at most `bytes`.
pub(crate) fn writes(map: &SharedMap, layout: &Layout, elem: u32, bytes: u32, target: &Target) -> Result<[u32; 2], LayoutError> {
    let columns = map.columns_from(layout)?;
    let [width, n] = vector_count(&columns, elem, bytes, layout.free_mask(Axis::Reg));
    let w = wavefronts(&columns, elem, width, SharedOp::Store, &target.banks, layout.free_mask(Axis::Lane));
    Ok([w.total() * n, n])
}

/// Passes and instructions of one warp that fetches a dot's fragments.
pub(crate) fn reads(map: &SharedMap, reader: &Reader, elem: u32, target: &Target) -> Result<[u32; 2], LayoutError> {
    fragments(&reader.seen(map)?, &reader.layout, reader.matrices, elem, target)
}

/// The map for a tile, a swizzle or rows with gaps, that a layout writes in vectors of at most so many bytes (if that is known), and dots read. The plain swizzle wins
/// a tie.
///
/// # Errors
/// A tile that has no plain map.
pub(crate) fn choose(
    shape: &[u32],
    elem: u32,
    fast: usize,
    writer: Option<(&Layout, u32)>,
    readers: &[Reader],
    target: &Target,
) -> Result<(SharedMap, [u32; 2]), LayoutError> {
    let plain = operand_swizzle(shape, elem, fast)?;
    let each = counted(readers);
    let cost = |map: &SharedMap| -> Result<[u32; 2], LayoutError> {
        let first = writer.map_or(Ok([0, 0]), |(l, bytes)| writes(map, l, elem, bytes, target));
        each.iter().try_fold(first?, |sum, &(r, times)| {
            let more = reads(map, r, elem, target)?;
            Ok([sum[0] + times * more[0], sum[1] + times * more[1]])
        })
    };
    // What cannot be counted stays as it is.
    let Ok(first) = cost(&plain) else { return Ok((plain, [u32::MAX; 2])) };
    let least = least(writer.map(|w| w.0), readers, elem, target);
    let (mut chosen, mut best) = fewest((shape, elem, fast), (plain, first), least, target, &Some, &cost);
    // Lines in the order in which lanes hold them, where that is another one.
    let narrow = target.moves_by_lanes() && elem < 4 && wants_runs(readers, elem, best[1], target);
    for &(r, _) in each.iter().filter(|_| narrow) {
        let Some(lines) = r.behind(&r.layout, shape).and_then(|l| lines_of(&l, fast)) else { continue };
        let renamed = |map: SharedMap| SharedMap::from_layout(lines(map.layout())?).ok().filter(|_| is_dense(&map));
        if let Some(first) = renamed(operand_swizzle(shape, elem, fast)?)
            && let Ok(c) = cost(&first)
        {
            let (map, c) = fewest((shape, elem, fast), (first, c), least, target, &renamed, &cost);
            if c < best {
                (best, chosen) = (c, map);
            }
        }
    }
    taken(Decision::Swizzle, || {
        let what = if best == first { "the plain swizzle" } else { "another map" };
        Told::at(what, best[0].into()).before("the plain swizzle", Some(first[0].into()))
    });
    Ok((chosen, best))
}

/// Readers that differ, in their order, and how often each is there: many dots may read one tile alike.
fn counted(readers: &[Reader]) -> Vec<(&Reader, u32)> {
    let mut places: Map<&Reader, usize> = Map::default();
    let mut each: Vec<(&Reader, u32)> = Vec::new();
    for r in readers {
        let at = *places.entry(r).or_insert(each.len());
        match each.get_mut(at) {
            Some((_, times)) => *times += 1,
            None => each.push((r, 1)),
        }
    }
    each
}

/// What a map costs: wavefronts and instructions.
type Cost<'a> = &'a dyn Fn(&SharedMap) -> Result<[u32; 2], LayoutError>;

/// True where so many instructions are more than as wide as can be.
fn wants_runs(readers: &[Reader], elem: u32, instructions: u32, target: &Target) -> bool {
    let registers = |r: &Reader| r.layout.size(Axis::Reg) >> r.layout.free_mask(Axis::Reg).count_ones();
    readers.iter().map(|r| (registers(r) * elem).div_ceil(target.vector_bytes)).sum::<u32>() < instructions
}

/// The map with the fewest wavefronts of those that are tried behind a first one, as they are seen; none has fewer than `least`.
fn fewest(
    (shape, elem, fast): (&[u32], u32, usize),
    (mut chosen, mut best): (SharedMap, [u32; 2]),
    least: u32,
    target: &Target,
    seen: &dyn Fn(SharedMap) -> Option<SharedMap>,
    cost: Cost<'_>,
) -> (SharedMap, [u32; 2]) {
    for swizzle in [128, 64, 32] {
        for (skip, rotate) in (0..4).flat_map(|s| (0..3).map(move |t| (s, t))) {
            // As few wavefronts as bytes need can't be undercut.
            if best[0] <= least {
                return (chosen, best);
            }
            let Some(map) = rotated_swizzle(shape, elem, fast, swizzle, [skip, rotate]).ok().and_then(seen) else { continue };
            if let Ok(c) = cost(&map)
                && c < best
            {
                (best, chosen) = (c, map);
            }
        }
    }
    // Where no matrix loads take whole rows of pieces, smaller pieces and rows far apart count.
    let pieces = [16, 8].into_iter().filter(|&c| target.moves_by_lanes() && c >= elem);
    for piece in pieces.flat_map(|chunk| (0..16).map(move |n| [chunk, n / 4, n % 4])) {
        if best[0] > least
            && let Some(map) = folded_swizzle(shape, elem, fast, piece).ok().and_then(seen)
            && let Ok(c) = cost(&map)
            && c < best
        {
            (best, chosen) = (c, map);
        }
    }
    // Rows with gaps instead. They take more memory, and gaps of less than 16 bytes narrow the vectors: wavefronts and instructions have to be
    // fewer together.
    for gap in GAPS {
        if let Some(map) = SharedMap::padded(shape, elem, fast, gap).ok().and_then(seen)
            && let Ok(c) = cost(&map)
            && c[0] + c[1] < best[0] + best[1]
        {
            (best, chosen) = (c, map);
        }
    }
    (chosen, best)
}

/// A tile that is staged: its shape, bytes of an element, dimension that lies in a row, who writes it in vectors of how many bytes, and who reads it.
type StagedTile = (Vec<u32>, u32, usize, (Layout, u32), Vec<Reader>);

/// Maps that were chosen. Kernels stage many tiles alike, and to choose takes long.
#[derive(Default)]
pub(crate) struct ChosenMaps(RefCell<Map<StagedTile, SharedMap>>);

impl ChosenMaps {
    /// The map of [`choose`].
    ///
    /// # Errors
    /// A tile that has no plain map.
    pub fn map(
        &self,
        shape: &[u32],
        elem: u32,
        fast: usize,
        (layout, bytes): (&Layout, u32),
        readers: &[Reader],
        target: &Target,
    ) -> Result<SharedMap, LayoutError> {
        let tile = (shape.to_vec(), elem, fast, (layout.clone(), bytes), readers.to_vec());
        if let Some(map) = self.0.borrow().get(&tile) {
            return Ok(map.clone());
        }
        let (map, _) = choose(shape, elem, fast, Some((layout, bytes)), readers, target)?;
        self.0.borrow_mut().insert(tile, map.clone());
        Ok(map)
    }
}

/// Bytes of gaps between rows that are tried.
const GAPS: [u32; 5] = [4, 8, 16, 32, 64];

/// Passes of one warp that bytes alone ask for: what it writes and reads, as many a pass as the banks have.
pub(crate) fn least(writer: Option<&Layout>, readers: &[Reader], elem: u32, target: &Target) -> u32 {
    let taken = |l: &Layout, op: SharedOp| {
        let copies = l.free_mask(Axis::Reg).count_ones() + l.free_mask(Axis::Lane).count_ones();
        let pass = 4 * target.banks.phase(op, target.vector_bytes).0;
        ((l.size(Axis::Reg) * l.size(Axis::Lane) * elem) >> copies) / pass.max(4)
    };
    readers.iter().fold(writer.map_or(0, |l| taken(l, SharedOp::Store)), |sum, r| sum + taken(&r.layout, SharedOp::Load))
}

/// A load that waits in shared memory: how lanes copy its tile there, and the maps to choose from. It is one of global memory, which copies as it
/// runs, or one of a ring, into which copies were begun before.
pub(crate) struct Waiting {
    pub load: Inst,
    /// What lanes copy, and bytes of a vector.
    writer: (Layout, u32),
    /// The map in the plain assignment; of a ring from which products do not fetch there, that of the buffer as far as it is one.
    pub plain: SharedMap,
    /// The plain map, if the tile waits there, then those that suit a reader better.
    pub maps: Vec<SharedMap>,
    /// Registers in which dots would take the tile of a ring, where that may be worth it.
    pub registers: Vec<Rc<Layout>>,
    /// Its tile is there, in a ring, as others have begun to copy it.
    pub ring: bool,
    /// They are copies that run by themselves.
    copied: bool,
    /// It stays in memory in the plain assignment, until dots fetch from it.
    pub stays: bool,
}

/// True if copies that run by themselves fill a ring.
fn by_copies(kernel: &Kernel, ring: &FetchedRing) -> bool {
    ring.copies.iter().all(|&i| kernel.insts[i].op == Op::CopyAsync)
}

/// True for a map without gaps.
fn is_dense(map: &SharedMap) -> bool {
    map.elements() == map.shape().iter().product::<u32>()
}

/// The layouts of operands with k in another order that dots may take, each once.
pub(crate) fn others(plain: &Assignment) -> Vec<Rc<Layout>> {
    let mut seen = Set::default();
    let all = plain.dots.values().flatten().flat_map(|p| &p.others).flat_map(|p| [&p.a, &p.b]);
    all.filter(|&l| seen.insert(l)).cloned().collect()
}

/// Maps of one load that are looked at.
const MAPS: usize = 3;

impl Waiting {
    /// A load of global memory that is staged in the plain assignment.
    ///
    /// # Errors
    /// A tile that has no plain map.
    pub fn of(
        kernel: &Kernel,
        target: &Target,
        plan: &Plan,
        known: (&Assignment, &[Rc<Layout>], &ChosenMaps),
        load: Inst,
    ) -> Result<Waiting, LayoutError> {
        let (writer, fast) = copied(kernel, target, plan, load, kernel.ty(kernel.insts[load].results[0]).shape().unwrap_or(&[]))?;
        let bytes = GlobalAccess::of(kernel, load).view.elem.bytes();
        let map = operand_swizzle(writer.0.shape(), bytes, fast)?;
        let out =
            Waiting { load, writer, plain: map.clone(), maps: vec![map], registers: Vec::new(), ring: false, copied: false, stays: true };
        out.with_maps(kernel, target, known, (bytes, fast))
    }

    /// A load that fetches from a ring.
    ///
    /// # Errors
    /// A slot that has no plain map.
    pub fn of_ring(
        kernel: &Kernel,
        target: &Target,
        plan: &Plan,
        known: (&Assignment, &[Rc<Layout>], &ChosenMaps),
        (ring, buffer): (&FetchedRing, &BufferLayout),
    ) -> Result<Waiting, LayoutError> {
        let (writer, fast) = filled(kernel, target, plan, (ring, buffer))?;
        let writer = (writer.0.transpose(&ring.seen)?, writer.1);
        let fast = ring.seen.iter().position(|&of| of == fast).unwrap_or(0);
        let map = ring.plain(buffer)?;
        let maps = ring.fetched.then(|| map.clone()).into_iter().collect();
        let copied = !target.moves_by_lanes() || by_copies(kernel, ring);
        let out = Waiting { load: ring.load, writer, plain: map, maps, registers: Vec::new(), ring: true, copied, stays: ring.fetched };
        out.with_maps(kernel, target, known, (buffer.size, fast))
    }

    /// With the maps that suit its readers, and the registers that these would take.
    fn with_maps(
        mut self,
        kernel: &Kernel,
        target: &Target,
        (plain, others, chosen): (&Assignment, &[Rc<Layout>], &ChosenMaps),
        (bytes, fast): (u32, usize),
    ) -> Result<Waiting, LayoutError> {
        let v = kernel.insts[self.load].results[0];
        let shape = kernel.ty(v).shape().unwrap_or(&[]);
        let (layout, vec) = self.writer.clone();
        let mut add = |readers: &[Reader]| -> Result<(), LayoutError> {
            let map = chosen.map(shape, bytes, fast, (&layout, vec), readers, target)?;
            // Of copies that run ahead all have to, in every map.
            let copies = |map: &SharedMap| {
                let columns = map.columns_from(&layout)?;
                let size = vector_count(&columns, bytes, vec, layout.free_mask(Axis::Reg))[0] * bytes;
                Ok(target.copy_async.contains(&size) && (!target.copies_in_rows || is_dense(map)))
            };
            if self.copied && copies(&self.plain)? && !copies(&map)? {
                return Ok(());
            }
            if self.maps.len() < MAPS && !self.maps.contains(&map) {
                self.maps.push(map);
            }
            Ok(())
        };
        let all = readers(kernel, target, plain, v);
        add(&all)?;
        // What suits a dot whose operand has k in another order.
        for l in others.iter().filter(|l| all.iter().all(|r| r.layout != **l)) {
            if let Some(r) = all.iter().find(|r| r.layout.shape() == l.shape()) {
                add(&[Reader { layout: l.clone(), ..r.clone() }])?;
            }
        }
        // One dot fetches as it goes. What several read may be fetched once, and what is in registers as it is stays there.
        let once = self.ring && (all.len() > 1 || !self.stays);
        for r in all.iter().filter(|_| once) {
            let same = others.iter().filter(|l| l.shape() == r.layout.shape());
            for l in std::iter::once(&r.layout).chain(same) {
                if let Some(l) = r.behind(l, shape).filter(|_| r.instruction)
                    && !self.registers.contains(&l)
                {
                    self.registers.push(l);
                }
            }
        }
        Ok(self)
    }

    /// Passes and instructions of one warp that copies the tile into a map.
    pub fn copies(&self, map: &SharedMap, elem: u32, target: &Target) -> Option<[u32; 2]> {
        writes(map, &self.writer.0, elem, self.writer.1, target).ok()
    }

    /// The layout in which it is copied.
    pub fn layout(&self) -> &Layout {
        &self.writer.0
    }
}

/// How lanes fill a slot: the layout, the bytes of a vector, and the dimension along which these run. What they store they hold as they loaded it.
fn filled(
    kernel: &Kernel,
    target: &Target,
    plan: &Plan,
    (ring, buffer): (&FetchedRing, &BufferLayout),
) -> Result<((Layout, u32), usize), LayoutError> {
    let first = ring.copies[0];
    let lead = buffer.shape.len() - ring.shape.len();
    match (kernel.insts[first].op, buffer.swizzled) {
        (Op::Load, Some(p)) => Ok(((moved_layout(kernel, target, plan, (first, &ring.shape))?, target.vector_bytes), p.contiguous - lead)),
        _ => copied(kernel, target, plan, first, &ring.shape),
    }
}

/// A plan in which slots that lanes store to lie in the map with the fewest passes for them and for the products that fetch.
///
/// # Errors
/// A slot that has no plain map.
pub(crate) fn suited(kernel: &Kernel, target: &Target, plan: &Plan, assigned: &Assignment) -> Result<Plan, LayoutError> {
    let Some(e) = plan.task_plan() else { return Ok(plan.clone()) };
    let mut buffers = e.buffers.clone();
    let in_rows = |r: &FetchedRing| target.copies_in_rows && by_copies(kernel, r);
    for ring in slots_of_steps(kernel, e).into_iter().filter(|r| r.fetched && (kernel.insts[r.copies[0]].op == Op::Load || in_rows(r))) {
        let Some(buffer) = buffers.get_mut(&ring.root) else { continue };
        let ((layout, bytes), fast) = filled(kernel, target, plan, (&ring, buffer))?;
        let readers = readers(kernel, target, assigned, kernel.insts[ring.load].results[0]);
        let fast = ring.seen.iter().position(|&of| of == fast).unwrap_or(0);
        let shape: Vec<u32> = ring.seen.iter().map(|&of| ring.shape[of]).collect();
        let writer = layout.transpose(&ring.seen)?;
        let (map, _) = choose(&shape, buffer.size, fast, Some((&writer, bytes)), &readers, target)?;
        // Pieces that lie side by side are whole ones.
        if in_rows(&ring) && !(is_dense(&map) && vector_count(&map.columns_from(&writer)?, buffer.size, bytes, 0)[0] * buffer.size == bytes)
        {
            continue;
        }
        buffer.slot = Some(ring.slot(&map)?);
    }
    Ok(Plan { schedule: Schedule::Explicit(Rc::new(e.with_buffers(kernel, buffers))), ..plan.clone() })
}

/// How lanes copy a tile from global memory: the layout, the bytes of a vector, and the dimension along which these run.
fn copied(kernel: &Kernel, target: &Target, plan: &Plan, copy: Inst, shape: &[u32]) -> Result<((Layout, u32), usize), LayoutError> {
    let access = GlobalAccess::of(kernel, copy);
    let (bytes, order) = (access.view.elem.bytes(), access.order());
    let vec = legal_width(access.vector_elements(target.vector_bytes), memory_type(access.view.elem));
    let layout = coalesced(shape, bytes, &order, vec, target.lanes, plan.warps)?;
    Ok(((layout, vec * bytes), order[0]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_ir::layout::FragmentMap;

    fn chosen(shape: [u32; 2], elem: u32, reader: Layout, matrices: bool) -> (SharedMap, [u32; 2]) {
        let target = Target { load_matrix: true, ..tilelift_lane::testing::target() };
        choose(&shape, elem, 1, None, &[Reader::of(&Rc::new(reader), matrices)], &target).expect("a plain map")
    }

    /// Lanes that read a column, a word each, meet in few chunks, however these are swizzled; a gap of a word puts each into a bank of its own.
    #[test]
    fn columns_of_words_lie_in_rows_with_gaps() {
        let column = Layout::blocked(&[32, 32], &[1, 1], &[32, 1], &[1, 32], &[0, 1]).expect("a layout");
        let (map, [wavefronts, instructions]) = chosen([32, 32], 4, column, false);
        assert_eq!(map, SharedMap::padded(&[32, 32], 4, 1, 4).expect("a map"));
        assert_eq!([wavefronts, instructions], [1, 1]);
    }

    /// What matrix loads bring without conflicts stays where it was.
    #[test]
    fn fragments_without_conflicts_lie_in_the_plain_swizzle() {
        let lanes: [&[u32]; 5] = [&[0, 2], &[0, 4], &[1, 0], &[2, 0], &[4, 0]];
        let a = FragmentMap::new(&[16, 16], &[&[0, 1], &[8, 0], &[0, 8]], &lanes, &[]).expect("a fragment");
        let layout = Layout::fragment(&[64, 64], &a, &[1, 1], &[0, 1]).expect("a layout");
        assert_eq!(chosen([64, 64], 2, layout, true).0, operand_swizzle(&[64, 64], 2, 1).expect("a map"));
    }
}
