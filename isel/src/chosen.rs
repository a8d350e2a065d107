//! What the search over layouts says of a kernel, for people, and what a launch of it should take: of the program that is lowered, which the compiler
//! writes of pipelined loops.

use crate::fit::{Fitted, Written, fit};
use crate::layout::assign::Assignment;
use crate::layout::search::{self, Search, is_searched};
use crate::pipeline::planned;
use std::borrow::Cow;
use std::fmt;
use tilelift_ir::{Kernel, Verified};
use tilelift_lane::Target;
use tilelift_schedule::LowerError;
use tilelift_schedule::candidates::Candidates;
use tilelift_schedule::plan::{LayoutChoice, LowerOptions, Plan, RingLayouts};

/// What the search says of a kernel, for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chosen {
    /// The kernel's text with a layout behind every tile, and where it is converted; of a specialised loop, with the layouts of its ring as
    /// requirements behind a list of what was considered.
    pub text: String,
    /// Nodes and classes of the graph.
    pub size: [usize; 2],
    /// Costs of the programs that came behind the chosen one, in sixteenths of a cycle.
    pub others: Vec<u64>,
    /// Why the plain assignment's layouts stay, as far as they do.
    pub declined: Option<Declined>,
}

/// Why the plain assignment's layouts stay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Declined {
    /// What stands around a specialised loop is not searched.
    Around,
    /// Tasks, or tiles that are too large, are not searched.
    Tasks,
}

impl fmt::Display for Declined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Declined::Around => {
                "the loop is specialised: its operands and results have the layouts below; what stands around it keeps the plain assignment's layouts, \
                 because it runs once, on one or two warpgroups, and waits for latencies, and prices are of work"
            }
            Declined::Tasks => "its tasks, and what is in flight in a unit, keep the plain assignment's layouts, as do tiles that no lane can hold",
        })
    }
}

/// Searches the layouts of a kernel and shows them. With `reasons`, the rule behind each layout that is not the plain one is named.
/// `None` where no way through the program is found.
///
/// # Errors
/// What the plan or the plain assignment refuses, what does not fit.
pub fn choose(kernel: &Verified<'_>, target: &Target, options: &LowerOptions, reasons: bool) -> Result<Option<Chosen>, LowerError> {
    let (kernel, plan) = planned(kernel, target, options)?;
    if plan.specialised().is_some() {
        return Ok(Some(choose_forms(&kernel, target, options, plan)));
    }
    let (kernel, plan, plain) = written(&kernel, fit(&kernel, target, options, plan, &RingLayouts::default())?);
    if !is_searched(&kernel, target, &plan) {
        let declined = Some(Declined::Tasks);
        return Ok(Some(Chosen { text: tilelift_ir::text::print(&kernel), size: [0; 2], others: Vec::new(), declined }));
    }
    let search = Search::new(&kernel, target, &plan, &plain);
    let Some(found) = search.solve() else { return Ok(None) };
    Ok(Some(Chosen { text: search.print(&found, reasons), size: found.size, others: found.others.clone(), declined: None }))
}

/// What is lowered: the program that loops are written as, or the kernel itself.
fn written<'k>(kernel: &'k Kernel, fitted: Fitted) -> (Cow<'k, Kernel>, Plan, Assignment) {
    match fitted.written {
        Some(Ok(Written { kernel, plan })) => (Cow::Owned(kernel), plan, fitted.assigned),
        Some(Err(_)) | None => (Cow::Borrowed(kernel), fitted.plan, fitted.assigned),
    }
}

/// The cost of a program, in sixteenths of a cycle of a multiprocessor, with layouts as the options say; `None` where the machine has no
/// price for it. Loops count with the rounds that constant bounds give them.
///
/// # Errors
/// What the plan or the plain assignment refuses, what does not fit.
pub fn estimate(kernel: &Verified<'_>, target: &Target, options: &LowerOptions) -> Result<Option<u64>, LowerError> {
    let (kernel, plan) = planned(kernel, target, options)?;
    if let Some(s) = plan.specialised() {
        return Ok(search::specialised(&kernel, target, s, plan.warps));
    }
    let (kernel, plan, plain) = written(&kernel, fit(&kernel, target, options, plan, &RingLayouts::default())?);
    Ok(search::work(&kernel, target, (&plan, &plain), options.layouts))
}

/// The same for a specialised loop: the candidates of its schedule, and the ring layouts of the first as requirements in the text.
fn choose_forms(kernel: &Kernel, target: &Target, options: &LowerOptions, plan: Plan) -> Chosen {
    let found = Candidates::of(kernel, target, &LowerOptions { layouts: LayoutChoice::Searched, ..*options }, plan);
    let first = found.first();
    let shown = first.ring_layouts.written(kernel);
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
    Chosen { text, size: [0; 2], others, declined: Some(Declined::Around) }
}
