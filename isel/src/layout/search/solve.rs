//! The search for a kernel: its problem with the prices of a machine, and what of the solution goes back to the plan.

use super::prices::Prices;
use crate::layout::MAX_REGISTERS_PER_TILE;
use crate::layout::assign::Assignment;
use cranelift_entity::SecondaryMap;
use std::rc::Rc;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_egraph::physical::{InstLayouts, Limits, Problem, Solution, Source, print, solve};
use tilelift_ir::layout::SharedMap;
use tilelift_ir::{Inst, Kernel, Op, Value, ValueDef};
use tilelift_lane::Target;
use tilelift_lane::hash::Set;
use tilelift_schedule::LowerError;
use tilelift_schedule::plan::{LayoutChoice, Plan, Schedule, needs_units, slots, staged_loads};

/// The values that wait in shared memory for dots: staged loads, tiles of rings that dots fetch, and other views of them.
fn waiting(kernel: &Kernel, plan: &Plan, plain: &Assignment) -> SecondaryMap<Value, bool> {
    let staged = staged_loads(kernel);
    let fetched = |i| plan.task_plan().is_some_and(|e| e.fetches.loads[i]);
    let mut out = SecondaryMap::with_default(false);
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        let here = match d.op {
            Op::Load => staged[i] && !plain.kept[i],
            Op::LocalLoad => fetched(i),
            Op::Transpose | Op::Reshape => out[d.args[0]],
            _ => false,
        };
        if here {
            d.results.iter().for_each(|&v| out[v] = true);
        }
    });
    out
}

/// A problem with its machine.
pub(crate) struct Search<'a> {
    problem: Problem<'a>,
    prices: Prices<'a>,
    /// Loads that wait where they wait in the plain assignment.
    stay: Set<Inst>,
}

impl<'a> Search<'a> {
    /// The search for a kernel that [`is_searched`].
    pub fn new(kernel: &'a Kernel, target: &'a Target, plan: &'a Plan, plain: &'a Assignment) -> Search<'a> {
        Search::with(kernel, target, plan, plain, Set::default())
    }

    /// The same, where some loads stay where they wait.
    fn with(kernel: &'a Kernel, target: &'a Target, plan: &'a Plan, plain: &'a Assignment, stay: Set<Inst>) -> Search<'a> {
        let prices = Prices::new(kernel, target, plan, plain, (waiting(kernel, plan, plain), &stay));
        let mut pinned = SecondaryMap::with_default(false);
        plain.held.iter().for_each(|(v, l)| pinned[v] = l.is_some());
        let mut base = SecondaryMap::new();
        // Only what the walk reaches: a region that nobody runs has no layouts.
        kernel.walk(kernel.body, &mut |i| {
            let d = &kernel.insts[i];
            let params = d.regions.iter().flat_map(|&r| kernel.regions[r].params.iter());
            for &v in d.results.iter().chain(params) {
                base[v] = prices.base(v);
            }
        });
        Search { problem: Problem { kernel, base, pinned }, prices, stay }
    }

    /// The solution, if there is one.
    pub fn solve(&self) -> Option<Solution> {
        self.solve_within(&self.limits())
    }

    /// The same, within limits. A load waits for dots, or its tile is in registers: one that would do both stays where it is.
    fn solve_within(&self, limits: &Limits) -> Option<Solution> {
        let found = solve(&self.problem, &self.prices, limits)?;
        let p = &self.prices;
        let both = |i: &Inst| {
            let waits = |run: &InstLayouts| run.results.iter().flatten().any(|l| l.in_memory());
            let waiting = found.runs[*i].iter().filter(|run| waits(run)).count();
            waiting > 0 && waiting < found.runs[*i].len()
        };
        let mut stay: Set<Inst> = p.waiting.keys().copied().filter(both).collect();
        if stay.is_empty() {
            return Some(found);
        }
        stay.extend(&self.stay);
        Search::with(p.kernel, p.target, p.plan, p.plain, stay).solve_within(limits)
    }

    /// How much is looked at: products that are computed transposed, too, are of more layouts.
    fn limits(&self) -> Limits {
        let usual = Limits::default();
        if self.prices.target.moves_by_lanes() { Limits { layouts: usual.layouts + 2, ..usual } } else { usual }
    }

    /// The solution, by random prices if that is asked for; `None` if the plain assignment is as good. Its lowering converts where a value is
    /// read, so a conversion that would stand in front of a loop, or of a choice, is worth the search's way.
    pub fn solve_as(&self, layouts: LayoutChoice) -> Option<Solution> {
        let found = self.solve_by(layouts);
        taken(Decision::Layout, || match &found {
            Some(s) => {
                let next = s.others.first().map(|&c| ("another program".to_owned(), Some(c)));
                let plain = s.plain.map(|c| ("the plain layouts".to_owned(), Some(c)));
                Told { runner_up: next.or(plain), ..Told::at("layouts of the search", s.cost) }
            }
            None => Told::of("the plain layouts, which are as good"),
        });
        found
    }

    fn solve_by(&self, layouts: LayoutChoice) -> Option<Solution> {
        match layouts {
            LayoutChoice::Random(seed) => self.solve_within(&Limits { chaos: Some(seed), ..self.limits() }),
            LayoutChoice::Spread | LayoutChoice::Searched => self.solve().filter(|s| s.gains() || self.converts_early(s)),
        }
    }

    /// True if a value is converted in a region around the one where it is read.
    fn converts_early(&self, solution: &Solution) -> bool {
        let kernel = self.problem.kernel;
        let mut region = SecondaryMap::with_default(kernel.body);
        kernel.regions.iter().for_each(|(r, data)| data.insts.iter().for_each(|&i| region[i] = r));
        let made = |v: Value| match kernel.values[v].def {
            ValueDef::Result(i, _) => region[i],
            ValueDef::RegionParam(r, _) => r,
            ValueDef::KernelParam(_) => kernel.body,
        };
        let converted = |v: Value| solution.values[v].iter().any(|x| matches!(x.source, Source::Convert(_)));
        kernel.insts.iter().any(|(i, d)| d.args.iter().any(|&v| region[i] != made(v) && converted(v)))
    }

    /// The kernel with the solution's layouts.
    pub fn print(&self, solution: &Solution, reasons: bool) -> String {
        print(&self.problem, solution, reasons)
    }
}

/// True for a kernel whose layouts are searched: all its lanes do the same, by themselves, and its tiles are such as a lane can hold.
pub(crate) fn is_searched(kernel: &Kernel, target: &Target, plan: &Plan) -> bool {
    let explicit = plan.task_plan().is_some();
    // What is in flight in a unit stays where it is.
    let alone = |op: Op| !op.is_explicit() || explicit && !needs_units(op);
    let most = u64::from(MAX_REGISTERS_PER_TILE) * u64::from(plan.warps) * u64::from(target.lanes);
    let read = |op: Op| matches!(op, Op::Load | Op::LocalLoad);
    let fits = |v: &Value| kernel.ty(*v).as_tile().is_none_or(|t| t.elements() <= most);
    plan.specialised().is_none()
        && plan.task_plan().is_none_or(|e| e.roles.is_empty())
        && kernel.insts.values().all(|d| alone(d.op) && (read(d.op) || d.results.iter().all(fits)))
}

/// A plan with the maps in which a solution lets the slots of rings lie, where these are others than the plan's.
///
/// # Errors
/// A layout that is no map of a slot.
pub(crate) fn with_slots(kernel: &Kernel, plan: &Plan, found: &Solution) -> Result<Plan, LowerError> {
    let Some(e) = plan.task_plan() else { return Ok(plan.clone()) };
    let mut buffers = e.buffers.clone();
    for ring in slots(kernel, e) {
        let Some(buffer) = buffers.get_mut(&ring.root) else { continue };
        let stays = found.runs[ring.load].iter().flat_map(|f| f.results.iter().flatten()).find(|l| l.in_memory());
        let Some(map) = stays.map(|l| SharedMap::from_layout((**l).clone())).transpose()? else { continue };
        if !ring.fetched || map != ring.plain(buffer)? {
            buffer.slot = Some(ring.slot(&map)?);
        }
    }
    Ok(Plan { schedule: Schedule::Explicit(Rc::new(e.with_buffers(kernel, buffers))), ..plan.clone() })
}
