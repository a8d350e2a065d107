//! The physical stage of the optimizer, on this side: prices for the search over layouts, and its outcome as an assignment.
//!
//! ```text
//! Assignment (plain) ─► Problem ── tilelift_egraph::physical::solve ─► Solution ─► Assignment with forms and variants
//!                         prices: machine.rs, folds.rs
//! ```
//!
//! The lowering runs an instruction once per form, operands and results in its layouts, and makes the conversions of a value where the
//! value is made. Whatever the search leaves open is done as the plain assignment says, and a value that is wanted in another layout
//! than it is there in is converted on demand: a choice can be slow, never wrong.

mod chains;
mod folds;
mod foresee;
mod machine;
pub(crate) mod staging;

pub use foresee::{foresee, seconds};

use crate::assign::Assignment;
use crate::error::LowerError;
use crate::plan::{LayoutChoice, LowerOptions, Plan};
use crate::target::Target;
use cranelift_entity::SecondaryMap;
use machine::Prices;
use tilelift_egraph::physical::{Limits, Problem, Solution, Source, print, solve};
use tilelift_ir::{Inst, Kernel, Op, Value, ValueDef, Verified};

/// The values that wait in shared memory for dots: staged loads, and other views of them.
fn in_memory(kernel: &Kernel, plan: &Plan, staged: &SecondaryMap<Inst, bool>) -> SecondaryMap<Value, bool> {
    let mut out = SecondaryMap::with_default(false);
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        let here = match d.op {
            Op::Load => staged[i] || plan.specialised().is_some_and(|s| s.loads.iter().any(|l| l.0 == i)),
            Op::Transpose | Op::Reshape => out[d.args[0]],
            _ => false,
        };
        if here {
            d.results.iter().for_each(|&v| out[v] = true);
        }
    });
    out
}

/// What the search says of a kernel, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// The kernel's text with a layout behind every tile, and where it is converted.
    pub text: String,
    /// Nodes and classes of the graph.
    pub size: [usize; 2],
    /// Costs of the programs that came behind the chosen one, in sixteenths of a cycle.
    pub others: Vec<u64>,
    /// Why the plain assignment's layouts stay, if they do; the text is the kernel's then.
    pub declined: Option<String>,
}

/// Searches the layouts of a kernel and shows them. With `reasons`, the rule behind each layout that is not the plain one is named.
/// `None` where nothing is searched.
///
/// # Errors
/// What the plan or the plain assignment refuses.
pub fn choose(kernel: &Verified<'_>, target: &Target, options: &LowerOptions, reasons: bool) -> Result<Option<Chosen>, LowerError> {
    let kernel: &Kernel = kernel;
    let plan = crate::plan::plan(kernel, target, options)?;
    let plain = crate::assign::assign(kernel, target, &plan)?;
    let staged = crate::lower::staged_loads(kernel);
    let search = Search::new(kernel, target, &plan, &plain, &staged);
    let found = search.solve();
    if plan.specialised().is_some() {
        let declined = Some(around(found.as_ref()));
        let (size, others) = found.map(|f| (f.size, f.others)).unwrap_or_default();
        return Ok(Some(Chosen { text: tilelift_ir::text::print(kernel), size, others, declined }));
    }
    let Some(found) = found else { return Ok(None) };
    Ok(Some(Chosen { text: search.print(&found, reasons), size: found.size, others: found.others.clone(), declined: None }))
}

/// Why nothing is searched around a specialised loop. What stands there runs once per program, on one or two groups of warps: it takes as
/// long as its latencies, which are not what the prices add up.
fn around(found: Option<&Solution>) -> String {
    let mut why = "the loop is specialised: its ring, its matrix instructions and the bulk copies of results fix their layouts; \
                   what stands around it keeps the plain assignment's, because it waits for latencies, and prices are of work"
        .to_owned();
    if let Some((cost, plain)) = found.and_then(|f| Some((f.cost, f.plain?))) {
        why +=
            &format!(" (a search would bring it from {} to {} cycles of a multiprocessor per program)", plain / 16, cost.min(plain) / 16);
    }
    why
}

/// A problem with its machine.
pub(crate) struct Search<'a> {
    problem: Problem<'a>,
    prices: Prices<'a>,
}

impl<'a> Search<'a> {
    /// The search for a kernel. Of a specialised loop everything stays where it is: the ring, its matrix instructions and the bulk copies of
    /// its results fix it; what stands around it is searched.
    pub fn new(
        kernel: &'a Kernel,
        target: &'a Target,
        plan: &'a Plan,
        plain: &'a Assignment,
        staged: &SecondaryMap<Inst, bool>,
    ) -> Search<'a> {
        let ring = |i: Inst| plan.specialised().is_none_or(|s| s.loads.iter().any(|l| l.0 == i));
        let mut beside = staged.clone();
        kernel.insts.keys().for_each(|i| beside[i] = staged[i] && ring(i));
        let memory = in_memory(kernel, plan, &beside);
        let prices = Prices::new(kernel, target, plan, plain, memory);
        let mut base = SecondaryMap::new();
        // Only what the walk reaches: a region that nobody runs has no layouts.
        kernel.walk(kernel.body, &mut |i| {
            let d = &kernel.insts[i];
            let params = d.regions.iter().flat_map(|&r| kernel.regions[r].params.iter());
            for &v in d.results.iter().chain(params) {
                base[v] = prices.base(v);
            }
        });
        let mut pinned = SecondaryMap::with_default(false);
        plain.held.iter().for_each(|(v, l)| pinned[v] = l.is_some());
        if let Some(s) = plan.specialised() {
            let d = &kernel.insts[s.main];
            d.results.iter().for_each(|&v| pinned[v] = true);
            for &r in &d.regions {
                kernel.regions[r].params.iter().for_each(|&v| pinned[v] = true);
                kernel.walk(r, &mut |i| kernel.insts[i].results.iter().for_each(|&v| pinned[v] = true));
            }
        }
        Search { problem: Problem { kernel, base, pinned }, prices }
    }

    /// The solution, if there is one.
    pub fn solve(&self) -> Option<Solution> {
        solve(&self.problem, &self.prices, &Limits::default())
    }

    /// The solution, by random prices if that is asked for; `None` if the plain assignment is as good. Its lowering converts where a value is
    /// read, so a conversion that would stand in front of a loop, or of a choice, is worth the search's way.
    pub fn solve_as(&self, layouts: LayoutChoice) -> Option<Solution> {
        match layouts {
            LayoutChoice::Random(seed) => solve(&self.problem, &self.prices, &Limits { chaos: Some(seed), ..Limits::default() }),
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
