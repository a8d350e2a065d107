//! Saturation: candidates spread from the anchors, then conversions join the candidates of each value.
//!
//! ```text
//! spread    every new slot is shown to the rules of the instructions that make or read its value, until nothing is new
//! convert   between any two layouts of one value: a dense matrix, no chains
//! ```
//!
//! A slot is looked at once per rule, so the work grows with slots times rules. Fuel is layouts per value and nodes, never a clock.

use super::graph::{LayoutContext, LayoutGraph, LayoutHead, LayoutNode, add_run, slot};
use super::problem::{CostModel, InstLayouts, Limits, Problem};
use super::rules::{ANCHOR, CARRIED, CONVERT, LayoutRule, PLAIN};
use crate::options::Stop;
use cranelift_entity::SecondaryMap;
use egg::{Applier, Id, PatternAst, Rewrite, Runner, SearchMatches, Searcher, SimpleScheduler, StopReason, Subst, Symbol, Var};
use smallvec::smallvec;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tilelift_ir::propagate::{Touch, carried, pass_at};
use tilelift_ir::{Kernel, Op, Value};

/// What looks at new slots.
#[derive(Clone, Copy)]
enum SlotLook {
    Rule(&'static LayoutRule),
    Carried,
    Convert,
}

/// Finds the slots that are new since the last time.
struct Find {
    look: SlotLook,
    seen: AtomicUsize,
}

struct Add(SlotLook);

impl<'k> Searcher<LayoutNode, LayoutContext<'k>> for Find {
    fn search_eclass_with_limit(&self, _: &LayoutGraph<'k>, id: Id, limit: usize) -> Option<SearchMatches<'_, LayoutNode>> {
        (limit > 0).then(|| SearchMatches { eclass: id, substs: vec![Subst::default()], ast: None })
    }

    fn search_with_limit(&self, g: &LayoutGraph<'k>, limit: usize) -> Vec<SearchMatches<'_, LayoutNode>> {
        let slots = &g.analysis.slots;
        let seen = self.seen.swap(slots.len(), Ordering::Relaxed);
        let found = slots[seen.min(slots.len())..].iter().filter(|s| match self.look {
            SlotLook::Rule(r) => g.analysis.touching[s.value].iter().any(|&i| concerns(g, r, i)),
            SlotLook::Carried => !g.analysis.tied[s.value].is_empty(),
            SlotLook::Convert => g.analysis.of[s.value].len() > 1,
        });
        found.take(limit).filter_map(|s| self.search_eclass_with_limit(g, g.find(s.id), 1)).collect()
    }

    fn vars(&self) -> Vec<Var> {
        Vec::new()
    }
}

fn concerns(g: &LayoutGraph<'_>, rule: &LayoutRule, i: tilelift_ir::Inst) -> bool {
    !g.analysis.fixed[i] && rule.ops.contains(&pass_at(g.analysis.kernel, i))
}

impl<'k> Applier<LayoutNode, LayoutContext<'k>> for Add {
    fn apply_one(&self, g: &mut LayoutGraph<'k>, id: Id, _: &Subst, _: Option<&PatternAst<LayoutNode>>, _: Symbol) -> Vec<Id> {
        let before = g.total_size();
        let name = g[id].nodes.iter().find_map(|n| if let LayoutHead::Slot(s) = n.head { Some(s) } else { None });
        let Some(name) = name else { return Vec::new() };
        let s = g.analysis.slots[name as usize].clone();
        match self.0 {
            SlotLook::Rule(rule) => {
                let layout = g.analysis.layout(s.layout).clone();
                for i in g.analysis.touching[s.value].clone() {
                    if !concerns(g, rule, i) {
                        continue;
                    }
                    let kernel = g.analysis.kernel;
                    let d = &kernel.insts[i];
                    let results = (0..d.results.len()).filter(|&k| d.results[k] == s.value).map(Touch::Result);
                    let operands = (0..d.args.len()).filter(|&k| d.args[k] == s.value).map(Touch::Operand);
                    for touch in results.chain(operands) {
                        if let Some(run) = rule.run(kernel, i, touch, &layout) {
                            add_run(g, i, &run, rule.name);
                        }
                    }
                }
            }
            SlotLook::Carried => {
                for t in g.analysis.tied[s.value].clone() {
                    for v in g.analysis.ties[t as usize].clone() {
                        slot(g, v, s.layout, CARRIED);
                    }
                }
            }
            SlotLook::Convert => {
                for other in g.analysis.of[s.value].clone() {
                    if other != name {
                        let from = g.find(g.analysis.slots[other as usize].id);
                        let node = g.add(LayoutNode { head: LayoutHead::Convert(name), kids: smallvec![from] });
                        g.union_trusted(s.id, node, CONVERT);
                    }
                }
            }
        }
        if g.total_size() == before { Vec::new() } else { vec![g.find(id)] }
    }
}

/// The values that control carries from one to another: per carried tile its initial values, parameters, yields and results.
pub(super) fn ties(kernel: &Kernel, laid: &dyn Fn(Value) -> bool) -> Vec<Vec<Value>> {
    let mut out = Vec::new();
    kernel.walk(kernel.body, &mut |i| {
        for c in carried(kernel, i).into_iter().filter(|c| laid(c.result)) {
            let mut list = vec![c.result];
            list.extend(c.params.iter().chain(&c.init).chain(&c.yields));
            list.dedup();
            out.push(list);
        }
    });
    out
}

fn rewrite<'k>(name: &'static str, look: SlotLook) -> Rewrite<LayoutNode, LayoutContext<'k>> {
    Rewrite::new(name, Find { look, seen: AtomicUsize::new(0) }, Add(look)).expect("a rule without variables")
}

/// Builds the graph and saturates it.
pub(super) fn saturate<'k>(problem: &Problem<'k>, model: &dyn CostModel, limits: &Limits) -> (LayoutGraph<'k>, Stop) {
    let kernel = problem.kernel;
    let laid = |v: Value| problem.base[v].is_some();
    let mut context = LayoutContext::new(kernel, &laid, &|i| model.fixed(i), ties(kernel, &laid), limits);
    context.pinned = problem.pinned.clone();
    let mut g = LayoutGraph::new(context);
    let mut insts = Vec::new();
    kernel.walk(kernel.body, &mut |i| insts.push(i));
    // The plain layouts first, so that no value is without one; then what the machine proposes.
    for v in kernel.values.keys() {
        if let Some(l) = &problem.base[v] {
            let l = g.analysis.layout_id(l);
            slot(&mut g, v, l, PLAIN);
        }
    }
    for &i in &insts {
        for run in model.anchors(i) {
            add_run(&mut g, i, &run, ANCHOR);
        }
    }
    let spread: Vec<Rewrite<LayoutNode, LayoutContext<'k>>> = super::rules::all()
        .iter()
        .filter(|r| limits.only.is_none_or(|n| n == r.name))
        .map(|r| rewrite(r.name, SlotLook::Rule(r)))
        .chain([rewrite(CARRIED, SlotLook::Carried)])
        .collect();
    let run = |g: LayoutGraph<'k>, rules: &[Rewrite<LayoutNode, LayoutContext<'k>>], nodes: usize| {
        let context = LayoutContext::new(kernel, &|_| false, &|_| false, Vec::new(), limits);
        Runner::<LayoutNode, LayoutContext<'k>>::new(context)
            .with_egraph(g)
            .with_scheduler(SimpleScheduler)
            .with_iter_limit(limits.iterations)
            .with_node_limit(nodes)
            .with_time_limit(Duration::MAX)
            .run(rules)
    };
    let runner = run(g, &spread, limits.nodes);
    let stop = match &runner.stop_reason {
        Some(StopReason::Saturated) | None => Stop::Saturated,
        Some(StopReason::NodeLimit(_)) => Stop::Nodes,
        Some(StopReason::IterationLimit(_) | StopReason::TimeLimit(_) | StopReason::Other(_)) => Stop::Iterations,
    };
    let mut g = runner.egraph;
    // An instruction that no rule says anything of runs as in the plain assignment.
    let mut ruled = SecondaryMap::with_default(false);
    g.analysis.runs.keys().for_each(|k| ruled[k.inst] = true);
    for &i in &insts {
        let d = &kernel.insts[i];
        let of = |v: &Value| problem.base[*v].clone();
        let run = InstLayouts { operands: d.args.iter().map(of).collect(), results: d.results.iter().map(of).collect() };
        let carries = matches!(d.op, Op::For | Op::While | Op::If | Op::Yield);
        let tiles = run.operands.iter().chain(&run.results).any(Option::is_some);
        if !carries && tiles && !ruled[i] {
            add_run(&mut g, i, &run, PLAIN);
        }
    }
    g.rebuild();
    // As many as layouts per value allow.
    let mut g = run(g, &[rewrite(CONVERT, SlotLook::Convert)], usize::MAX).egraph;
    g.rebuild();
    (g, stop)
}
