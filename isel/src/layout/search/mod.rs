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
mod estimate;
mod folds;
mod machine;
pub(crate) mod staging;

pub use estimate::{estimate, seconds};

use crate::layout::assign::Assignment;
use cranelift_entity::SecondaryMap;
use machine::Prices;
use tilelift_egraph::physical::{Limits, Problem, Solution, Source, print, solve};
use tilelift_ir::{Inst, Kernel, Op, Value, ValueDef, Verified};
use tilelift_lane::Target;
use tilelift_schedule::LowerError;
use tilelift_schedule::candidates::Candidates;
use tilelift_schedule::plan::{LayoutChoice, LowerOptions, Plan};

/// The values that wait in shared memory for dots: staged loads, and other views of them.
fn in_memory(kernel: &Kernel, staged: &SecondaryMap<Inst, bool>) -> SecondaryMap<Value, bool> {
    let mut out = SecondaryMap::with_default(false);
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        let here = match d.op {
            Op::Load => staged[i],
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
    /// The kernel's text with a layout behind every tile, and where it is converted; of a specialised loop, with the forms of its ring as
    /// requirements behind a list of what was considered.
    pub text: String,
    /// Nodes and classes of the graph.
    pub size: [usize; 2],
    /// Costs of the programs that came behind the chosen one, in sixteenths of a cycle.
    pub others: Vec<u64>,
    /// Why the plain assignment's layouts stay, as far as they do.
    pub declined: Option<String>,
}

/// Searches the layouts of a kernel and shows them. With `reasons`, the rule behind each layout that is not the plain one is named.
/// `None` where nothing is searched.
///
/// # Errors
/// What the plan or the plain assignment refuses.
pub fn choose(kernel: &Verified<'_>, target: &Target, options: &LowerOptions, reasons: bool) -> Result<Option<Chosen>, LowerError> {
    let kernel: &Kernel = kernel;
    let plan = tilelift_schedule::plan::plan(kernel, target, options)?;
    if plan.specialised().is_some() {
        return Ok(Some(choose_forms(kernel, target, options, plan)));
    }
    let plain = crate::layout::assign::assign(kernel, target, &plan)?;
    let staged = tilelift_schedule::plan::staged_loads(kernel);
    let search = Search::new(kernel, target, &plan, &plain, &staged);
    let Some(found) = search.solve() else { return Ok(None) };
    Ok(Some(Chosen { text: search.print(&found, reasons), size: found.size, others: found.others.clone(), declined: None }))
}

/// The same for a specialised loop: the candidates of its schedule, and the forms of the first as requirements in the text.
fn choose_forms(kernel: &Kernel, target: &Target, options: &LowerOptions, plan: Plan) -> Chosen {
    let found = Candidates::of(kernel, target, &LowerOptions { layouts: LayoutChoice::Searched, ..*options }, plan);
    let first = found.first();
    let shown = first.forms.written(kernel);
    let mut text =
        "; decisions and their prices, in cycles of a multiprocessor for an iteration of the loop, or for the epilogue:\n".to_owned();
    text += &found.decisions(&shown, first);
    if let Some(price) = first.price {
        text += &format!("; cost {}", price.total() / 16);
        text += &found.own().price.map(|p| format!(", {} as the plan decides by itself", p.total() / 16)).unwrap_or_default();
        text += " (of a grid position, of what is decided here)\n";
    }
    text += &tilelift_ir::text::print(&shown);
    let others = found.list()[1..].iter().filter_map(|c| c.price.map(|p| p.total())).collect();
    Chosen { text, size: [0; 2], others, declined: Some(AROUND.to_owned()) }
}

/// Why what stands around a specialised loop is not searched.
const AROUND: &str = "the loop is specialised: its operands and results have the forms below; what stands around it keeps the plain assignment's layouts, \
                      because it runs once, on one or two warpgroups, and waits for latencies, and prices are of work";

/// A problem with its machine.
pub(crate) struct Search<'a> {
    problem: Problem<'a>,
    prices: Prices<'a>,
}

impl<'a> Search<'a> {
    /// The search for a kernel whose loops are not specialised.
    pub fn new(
        kernel: &'a Kernel,
        target: &'a Target,
        plan: &'a Plan,
        plain: &'a Assignment,
        staged: &SecondaryMap<Inst, bool>,
    ) -> Search<'a> {
        let prices = Prices::new(kernel, target, plan, plain, in_memory(kernel, staged));
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
