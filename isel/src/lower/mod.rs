//! Tile to lane lowering: every tile op expands by its layouts, one module per op family.
//!
//! ```text
//! ValueLocation::Scalar(l4)                    the same number in every lane
//! ValueLocation::Tile { layout, regs }         register r of a lane holds element layout(r, lane, warp)
//! ValueLocation::Staged { map, base, … }       a dot operand that waits in shared memory
//! ```

mod combine;
mod commits;
mod control;
mod convert;
mod dies;
mod dot;
mod elementwise;
mod exchange;
mod explicit;
pub(crate) mod facts;
pub(crate) mod footprint;
mod functions;
mod global;
mod hazards;
mod history;
mod indexed;
mod keys;
mod location;
mod lookup;
mod masks;
mod narrow;
mod network;
pub(crate) mod origin;
mod packed;
mod picks;
mod planned;
mod points;
mod prefetch;
pub(crate) mod promised;
mod rearrange;
mod reduce;
mod rounds;
mod scan;
mod scratch;
mod shapes;
mod shared;
pub(crate) mod sizes;
mod sort;
mod sort_price;
pub(crate) mod stage;
mod task;
mod vectors;
mod warpgroup;
mod window;

use crate::layout::assign::Assignment;
use crate::layout::kept::Layouts;
use crate::lower::facts::{dim_of, products_behind, staged_of};
use crate::lower::history::{History, histories};
use crate::lower::location::{Tile, ValueLocation};
use crate::lower::origin::Origin;
use crate::lower::task::TaskState;
use cranelift_entity::SecondaryMap;
use std::rc::Rc;
use tilelift_egraph::physical::{InstLayouts, Source};
use tilelift_ir::layout::Layout;
use tilelift_ir::{Inst, Kernel, Op, ProgramOrder, Region, Type, Value};
use tilelift_lane::hash::Map;
use tilelift_lane::{AllocId, Budget, INSTRUCTIONS, LTy, LVal, LaneBuilder, Param, ParamSource, Program, Target, Traffic};
use tilelift_schedule::plan::{Plan, is_swizzle};
use tilelift_schedule::program::Refusal;
use tilelift_schedule::reason::{Lacking, Location, Remedy, Taker, Unsupported};
use tilelift_schedule::{DieOrder, LowerError, Resource};

/// A lowered kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct Lowered {
    /// The lane program.
    pub program: Program,
    /// The plan it follows.
    pub plan: Plan,
    /// Conversions between layouts in its text that move data: by selects, by shuffles, through shared memory.
    pub conversions: [u32; 3],
    /// True if it has layouts of a search: one was made, and gained enough over the plain ones.
    pub searched: bool,
    /// The kernel with tasks that the plan was written as, or why it was not; absent where there was nothing to write.
    pub written: Option<Result<Rc<Kernel>, Refusal>>,
    /// Why the layouts that were found gave way to the plain ones, if they did.
    pub fallback: Option<LowerError>,
    /// What its memory accesses will cost, as far as layouts say it.
    pub traffic: Traffic,
    /// The layouts of what was lowered.
    pub layouts: Layouts,
}

pub(crate) struct Lower<'a> {
    kernel: &'a Kernel,
    order: Rc<ProgramOrder>,
    target: &'a Target,
    plan: Plan,
    assigned: Rc<Assignment>,
    values: SecondaryMap<Value, Option<ValueLocation>>,
    /// Conversions done, with the block they were done in.
    variants: Map<Value, Vec<(Rc<Tile>, u32)>>,
    /// Loads that go to shared memory for dots.
    staged: SecondaryMap<Inst, bool>,
    /// See [`products_behind`].
    behind: SecondaryMap<Inst, Option<Inst>>,
    /// See [`sizes::left`].
    left: u64,
    /// Accesses of each view since the last barrier.
    histories: SecondaryMap<Value, History>,
    /// The task that is being lowered, of a kernel with explicit control.
    task: Option<TaskState>,
    /// Instructions in bodies of counted loops without products, and of those with products where lanes do all else, too.
    in_rounds: SecondaryMap<Inst, bool>,
    /// Loads are done in the layout in which their tile is wanted.
    direct: bool,
    /// Stores are done in the layout in which their tile is there.
    as_held: bool,
    /// The instruction that is being lowered, and its run, where layouts were searched.
    running: Option<(Inst, InstLayouts)>,
    /// See [`Lowered::conversions`].
    conversions: [u32; 3],
    /// How the last ones are done.
    planned: planned::Planned,
    /// It has products: what they sum is in registers until all is done.
    products: bool,
    /// Which instance works at which position of the grid, where it is another than it was launched at.
    dies: Option<DieOrder>,
}

/// What a lane may be told to do, and how much more per instruction of the kernel: what follows takes time and memory in proportion.
const CODE_PER_INSTRUCTION: u64 = 6;

/// The lane program of a kernel with a plan and layouts, and where what acts in it comes from, if that is asked for. `asked` are the instructions that
/// its author wrote.
///
/// # Errors
/// What the target lacks, or what does not fit it.
pub(crate) fn lane_program(
    (kernel, asked): (&Kernel, usize),
    target: &Target,
    plan: Plan,
    assigned: Rc<Assignment>,
    direct: bool,
    origins: bool,
) -> Result<(Lowered, Vec<Origin>), LowerError> {
    let staged = staged_of(kernel, &assigned);
    sizes::check_registers(kernel, &plan, &assigned, &staged)?;
    let order = ProgramOrder::of(kernel);
    let mut cx = Lower {
        kernel,
        target,
        left: sizes::left(kernel, &order, target, &plan),
        plan,
        behind: products_behind(kernel, target, &staged),
        staged,
        assigned,
        histories: histories(kernel),
        values: kernel.by_value(),
        variants: Map::default(),
        task: None,
        in_rounds: rounds::in_rounds(kernel, target.masked_lanes),
        direct,
        as_held: direct,
        running: None,
        conversions: [0; 3],
        planned: planned::Planned::default(),
        products: order.has(kernel.body, |op| op.factors().is_some()),
        order: Rc::new(order),
        dies: target.dies.and_then(|dies| DieOrder::of(kernel, dies, &target.costs)),
    };
    let explicit = cx.plan.task_plan().cloned();
    let mut b = LaneBuilder::new(&kernel.name, cx.plan.warps, target.lanes);
    b.set_positions(kernel.positions);
    b.code_casts = target.code_casts;
    b.packed_halves = target.packed_halves;
    b.into_arms = target.masked_lanes;
    b.orders_anew = target.orders_anew;
    b.functions = target.functions;
    b.quotients = target.quotients;
    b.extremes = target.extremes;
    b.budget = Budget::new(INSTRUCTIONS.max(CODE_PER_INSTRUCTION * asked as u64));
    b.meter.banks = Some(target.banks.clone());
    b.origins = origins.then(Vec::new);
    cx.declare_params(&mut b);
    match &explicit {
        Some(e) => cx.explicit(&mut b, e)?,
        None => cx.region(&mut b, kernel.body)?,
    }
    let traffic = b.meter.counts;
    let acts = b.origins.take().unwrap_or_default();
    let program = b.finish();
    if program.shared_bytes > target.shared_bytes {
        let takers = Taker::list(program.allocs.values().map(|a| (a.purpose, a.bytes.into())));
        return Err(sizes::no_room(program.shared_bytes.into(), target, takers));
    }
    let (conversions, searched) = (cx.conversions, cx.assigned.searched);
    let layouts = Layouts { assigned: cx.assigned, plan: cx.plan.clone() };
    let done = Lowered { program, plan: cx.plan, conversions, searched, written: None, fallback: None, traffic, layouts };
    Ok((done, acts))
}

impl<'a> Lower<'a> {
    /// All launch parameters in the order of the kernel's, used or not: the ABI does not depend on the body.
    fn declare_params(&mut self, b: &mut LaneBuilder) {
        for (n, &p) in self.kernel.params.iter().enumerate() {
            let n = n as u32;
            match self.kernel.ty(p) {
                Type::Scalar(s) => {
                    let v = b.param(Param { ty: LTy::holding(*s), source: ParamSource::Scalar(n) });
                    self.values[p] = Some(ValueLocation::Scalar(v));
                }
                Type::View(_) => self.declare_view(b, n, p),
                // The verifier refuses tiles and handles as parameters.
                Type::Tile(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => {}
            }
        }
    }

    fn region(&mut self, b: &mut LaneBuilder, r: Region) -> Result<(), LowerError> {
        for k in 0..self.kernel.regions[r].insts.len() {
            let i = self.kernel.regions[r].insts[k];
            self.inst(b, i).map_err(|e| e.at(self.kernel.locs[i]))?;
        }
        Ok(())
    }

    /// An instruction: once, or once per run; then the conversions of its results.
    fn inst(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let around = std::mem::replace(&mut b.origin, self.kernel.locs[i]);
        let stores = self.kernel.insts[i].op == Op::LocalStore;
        if !stores && let Some(t) = &mut self.task {
            t.beside.clear();
        }
        self.turn_is_due(b, self.kernel.insts[i].op);
        let done = self.inst_in_runs(b, i);
        b.origin = around;
        done?;
        if stores && let Some(t) = &mut self.task {
            t.beside.push(i);
        }
        for &v in &self.kernel.insts[i].results {
            if let Some(ValueLocation::Tile(t)) = &self.values[v] {
                b.budget.take_names(t.regs.len());
            }
        }
        self.small_enough(b)
    }

    /// Refuses a program that became too large.
    fn small_enough(&self, b: &LaneBuilder) -> Result<(), LowerError> {
        b.exceeded().map_or(Ok(()), |(need, have)| {
            Err(LowerError::ResourceExceeded {
                resource: Resource::Code,
                need,
                have,
                remedy: Box::new(Remedy::Code),
                loc: Default::default(),
            })
        })
    }

    fn inst_in_runs(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let kernel = self.kernel;
        let results = &kernel.insts[i].results;
        let runs = self.assigned.runs[i].clone();
        if runs.is_empty() {
            self.inst_once(b, i)?;
            self.hold(b, results)?;
        }
        let mut first: Vec<Option<ValueLocation>> = Vec::new();
        for (n, run) in runs.iter().enumerate() {
            self.running = Some((i, run.clone()));
            let done = self.inst_once(b, i);
            self.running = None;
            done?;
            self.hold(b, results)?;
            if n == 0 {
                first = results.iter().map(|&v| self.values[v].clone()).collect();
                continue;
            }
            for (&v, first) in results.iter().zip(&first) {
                let again = std::mem::replace(&mut self.values[v], first.clone());
                if let Some(ValueLocation::Tile(t)) = again {
                    self.keep_variant(b, v, t);
                }
            }
        }
        self.convert_all(b, results)
    }

    /// Brings values that a requirement holds into its layout, if what made them had to work in another.
    fn hold(&mut self, b: &mut LaneBuilder, values: &[Value]) -> Result<(), LowerError> {
        for &v in values {
            if let (Some(want), Some(ValueLocation::Tile(t))) = (self.assigned.held[v].clone(), &self.values[v])
                && t.layout != want
            {
                let tile = self.convert(b, &t.clone(), &want, self.kernel.ty(v).elem())?;
                self.set_tile(v, tile);
            }
        }
        Ok(())
    }

    /// Makes the conversions of values that have just come to be.
    fn convert_all(&mut self, b: &mut LaneBuilder, values: &[Value]) -> Result<(), LowerError> {
        for &v in values {
            let list = self.assigned.variants[v].clone();
            for x in list.iter() {
                let Source::Convert(from) = x.source else { continue };
                let from = self.tile(b, v, &list[from].layout)?;
                let tile = Rc::new(self.convert(b, &from, &x.layout, self.kernel.ty(v).elem())?);
                self.keep_variant(b, v, tile);
            }
        }
        Ok(())
    }

    /// True if the layouts of the instruction that is being lowered were searched.
    fn searched(&self) -> bool {
        self.running.is_some()
    }

    fn inst_once(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        match d.op {
            Op::Const | Op::ProgramId | Op::NumPrograms | Op::Dim => {
                let v = self.leaf(b, i);
                self.values[d.results[0]] = Some(ValueLocation::Scalar(v));
            }
            Op::Iota | Op::Splat => {
                let layout = self.layout_of(d.results[0])?;
                let tile = self.born(b, i, &layout);
                self.set_tile(d.results[0], tile);
            }
            Op::Select if self.masked_select(b, i)? => {}
            tilelift_ir::elementwise_ops!() => self.elementwise(b, i)?,
            Op::Broadcast => self.broadcast(b, i)?,
            Op::Reshape => self.reshape(b, i)?,
            Op::Transpose => self.transpose(b, i)?,
            Op::Join => self.join(b, i)?,
            Op::Split => self.split(b, i)?,
            Op::Concat => self.concat(b, i)?,
            Op::Slice => self.slice(b, i)?,
            Op::Flip => self.flip(b, i)?,
            Op::Reduce => self.reduce(b, i)?,
            Op::Scan => self.scan(b, i, false)?,
            Op::ScanReverse => self.scan(b, i, true)?,
            Op::ArgMin => self.arg_reduce(b, i, false)?,
            Op::ArgMax => self.arg_reduce(b, i, true)?,
            Op::ReduceBy => self.reduce_by(b, i)?,
            Op::ScanBy => self.scan_by(b, i, false)?,
            Op::ScanReverseBy => self.scan_by(b, i, true)?,
            Op::Philox => self.philox(b, i)?,
            Op::Assume => {
                let v = self.scalar(d.args[0])?;
                self.values[d.results[0]] = Some(ValueLocation::Scalar(v));
            }
            // On its way to a swizzle it stays as it is.
            Op::RequireLayout if is_swizzle(kernel, i) => self.values[d.results[0]] = self.values[d.args[0]].clone(),
            Op::RequireLayout | Op::ReleaseLayout => {
                let layout = self.layout_of(d.results[0])?;
                let tile = self.tile(b, d.args[0], &layout)?;
                self.values[d.results[0]] = Some(ValueLocation::Tile(tile));
            }
            Op::Assert => self.assert(b, i)?,
            Op::Print => {
                return Err(Lacking::Print(self.target.name).into());
            }
            tilelift_ir::explicit_ops!() => self.explicit_inst(b, i)?,
            Op::Dot | Op::DotScaled => self.dot(b, i)?,
            Op::Load => self.load(b, i)?,
            Op::Store => self.store(b, i)?,
            Op::Prefetch => self.prefetch(b, i)?,
            Op::Gather => self.gather(b, i)?,
            Op::Scatter => self.scatter(b, i)?,
            Op::Atomic | Op::AtomicCas => self.update(b, i)?,
            Op::GatherTile => self.gather_tile(b, i)?,
            Op::Histogram => self.histogram(b, i)?,
            Op::Sort | Op::ArgSort | Op::TopK | Op::ArgTopK => self.sort(b, i)?,
            Op::For => self.for_op(b, i)?,
            Op::While => self.while_op(b, i)?,
            Op::If => self.if_op(b, i)?,
            // Read by the control op that owns the region.
            Op::Yield => {}
        }
        Ok(())
    }

    /// The value of a scalar operand.
    fn scalar(&self, v: Value) -> Result<LVal, LowerError> {
        match &self.values[v] {
            Some(ValueLocation::Scalar(l)) => Ok(*l),
            Some(ValueLocation::Tile(_) | ValueLocation::Staged(_) | ValueLocation::Local(_) | ValueLocation::Mbarriers(_)) | None => {
                Err(Unsupported::Location(v, Location::Scalar).into())
            }
        }
    }

    /// The layout of a value: as the present run has it, else its own.
    fn layout_of(&self, v: Value) -> Result<Rc<Layout>, LowerError> {
        if let Some((i, run)) = &self.running {
            let d = &self.kernel.insts[*i];
            let result = d.results.iter().position(|&r| r == v).and_then(|k| run.results[k].as_ref());
            let operand = || d.args.iter().position(|&a| a == v).and_then(|k| run.operands[k].as_ref());
            if let Some(l) = result.or_else(operand) {
                return Ok(l.clone());
            }
        }
        match self.assigned.layout(v) {
            Some(l) => Ok(l.clone()),
            None => Err(Unsupported::Location(v, Location::Tile).into()),
        }
    }

    fn set_tile(&mut self, v: Value, tile: Tile) {
        self.values[v] = Some(ValueLocation::Tile(Rc::new(tile)));
    }

    /// A tile operand in its own layout.
    fn own_tile(&mut self, b: &mut LaneBuilder, v: Value) -> Result<Rc<Tile>, LowerError> {
        let layout = self.layout_of(v)?;
        self.tile(b, v, &layout)
    }

    /// Keeps a tile in a further layout while its block is open; those of closed blocks are of no use any more.
    fn keep_variant(&mut self, b: &LaneBuilder, v: Value, tile: Rc<Tile>) {
        let list = self.variants.entry(v).or_default();
        list.retain(|(_, block)| b.is_open(*block));
        list.push((tile, b.block()));
    }

    /// A tile operand in a layout: as it is, converted before, born again, or converted now.
    fn tile(&mut self, b: &mut LaneBuilder, v: Value, want: &Rc<Layout>) -> Result<Rc<Tile>, LowerError> {
        let same = |l: &Rc<Layout>| Rc::ptr_eq(l, want) || **l == **want;
        let held = match &self.values[v] {
            Some(ValueLocation::Tile(t)) => t.clone(),
            Some(ValueLocation::Scalar(_) | ValueLocation::Staged(_) | ValueLocation::Local(_) | ValueLocation::Mbarriers(_)) | None => {
                return Err(Unsupported::Location(v, Location::Registers).into());
            }
        };
        if same(&held.layout) {
            return Ok(held);
        }
        if let Some(list) = self.variants.get(&v)
            && let Some((t, _)) = list.iter().find(|(t, block)| same(&t.layout) && b.is_open(*block))
        {
            return Ok(t.clone());
        }
        let reborn = match self.kernel.def_inst(v) {
            Some(i) if matches!(self.kernel.insts[i].op, Op::Iota | Op::Splat) => Some(self.born(b, i, want)),
            Some(_) | None => None,
        };
        let tile = match reborn {
            Some(t) => t,
            None => self.convert(b, &held, want, self.kernel.ty(v).elem())?,
        };
        let tile = Rc::new(tile);
        self.keep_variant(b, v, tile.clone());
        Ok(tile)
    }

    /// Shared memory for one purpose, which must fit the target.
    fn alloc(&self, b: &mut LaneBuilder, bytes: u64, purpose: &'static str) -> Result<AllocId, LowerError> {
        match u32::try_from(bytes) {
            Ok(n) if n <= self.target.shared_bytes => Ok(b.alloc_aligned(n, sizes::SCRATCH_ALIGN, purpose)),
            Ok(_) | Err(_) => Err(sizes::no_room(bytes, self.target, Taker::list([(purpose, bytes)]))),
        }
    }

    /// The dimension attribute of an instruction, 0 if it has none (the verifier sees to it that it has).
    fn dim_attr(&self, i: Inst) -> usize {
        dim_of(self.kernel, i)
    }
}
