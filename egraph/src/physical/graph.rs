//! The graph: classes `value @ layout`, and the ways to have them.
//!
//! ```text
//! class  v7 @ L2 = { Slot, Run(mul v5 v6: [L2, L2] -> [L2]), Convert(from v7 @ L1) }
//! class  store 9 = { Done, Run(store v7: [L1] -> []), Run(store v7: [L2] -> []) }
//! ```
//!
//! Nodes are small integers into the tables of the [`LayoutContext`]; a class holds one slot, which is its name. Layouts, slots and runs
//! are numbered in the order in which they come up, so equal inputs give equal graphs.

use super::problem::{InstLayouts, Limits};
use crate::language::NotText;
use cranelift_entity::SecondaryMap;
use egg::{Analysis, DidMerge, EGraph, FromOp, Id, Language};
use indexmap::{IndexMap, IndexSet};
use smallvec::SmallVec;
use std::rc::Rc;
use tilelift_ir::layout::Layout;
use tilelift_ir::{Effects, Inst, Kernel, Op, Value, ValueDef};

/// A layout of a [`LayoutContext`].
pub(crate) type LayoutId = u32;

/// What a node is, besides its children.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum LayoutHead {
    /// The name of a class: a value in a layout.
    Slot(u32),
    /// The name of a class: an instruction without a tile result has run.
    Done(u32),
    /// The slot's value is carried so by control.
    Given(u32),
    /// A run of an instruction; which result.
    Run(u32, u8),
    /// A conversion into a slot.
    Convert(u32),
}

/// In place of a result's number: that the instruction has run.
pub(crate) const DONE: u8 = u8::MAX;

/// An e-node.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct LayoutNode {
    pub(crate) head: LayoutHead,
    pub(crate) kids: SmallVec<[Id; 4]>,
}

/// The kind of a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) enum LayoutHeadKind {
    Slot,
    Done,
    Given,
    Run,
    Convert,
}

impl Language for LayoutNode {
    type Discriminant = LayoutHeadKind;
    fn discriminant(&self) -> LayoutHeadKind {
        match self.head {
            LayoutHead::Slot(_) => LayoutHeadKind::Slot,
            LayoutHead::Done(_) => LayoutHeadKind::Done,
            LayoutHead::Given(_) => LayoutHeadKind::Given,
            LayoutHead::Run(..) => LayoutHeadKind::Run,
            LayoutHead::Convert(_) => LayoutHeadKind::Convert,
        }
    }
    fn matches(&self, other: &LayoutNode) -> bool {
        self.head == other.head && self.kids.len() == other.kids.len()
    }
    fn children(&self) -> &[Id] {
        &self.kids
    }
    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.kids
    }
}

impl FromOp for LayoutNode {
    type Error = NotText;
    fn from_op(_: &str, _: Vec<Id>) -> Result<LayoutNode, NotText> {
        Err(NotText)
    }
}

/// A value in a layout.
#[derive(Clone, Debug)]
pub(crate) struct LayoutSlot {
    pub(crate) value: Value,
    pub(crate) layout: LayoutId,
    pub(crate) id: Id,
    /// The rule that asked for it.
    pub(crate) rule: &'static str,
}

/// A run of an instruction, with its layouts as numbers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RunKey {
    pub(crate) inst: Inst,
    pub(crate) operands: SmallVec<[Option<LayoutId>; 4]>,
    pub(crate) results: SmallVec<[Option<LayoutId>; 2]>,
}

/// What the graph's numbers mean.
pub(crate) struct LayoutContext<'k> {
    pub(crate) kernel: &'k Kernel,
    pub(crate) layouts: IndexSet<Rc<Layout>>,
    pub(crate) slots: Vec<LayoutSlot>,
    /// The slots of a value, oldest first.
    pub(crate) of: SecondaryMap<Value, SmallVec<[u32; 6]>>,
    /// Ways to run instructions, with the rule that found them.
    pub(crate) runs: IndexMap<RunKey, &'static str>,
    /// Classes of instructions without a tile result.
    pub(crate) done: Vec<(Inst, Id)>,
    /// Where an instruction stands among them.
    pub(crate) done_at: SecondaryMap<Inst, Option<u32>>,
    /// Values that have layouts.
    pub(crate) laid: SecondaryMap<Value, bool>,
    /// The instructions that make or read a value.
    pub(crate) touching: SecondaryMap<Value, Vec<Inst>>,
    /// Instructions that run in no other way than the machine's.
    pub(crate) fixed: SecondaryMap<Inst, bool>,
    /// Values between which control carries layouts: initial values, parameters, yields and results.
    pub(crate) ties: Vec<Vec<Value>>,
    /// The ties of a value.
    pub(crate) tied: SecondaryMap<Value, SmallVec<[u32; 1]>>,
    /// Values that are made in the first of their layouts only.
    pub(crate) pinned: SecondaryMap<Value, bool>,
    /// Candidates of a value.
    pub(crate) most: usize,
}

pub(crate) type LayoutGraph<'k> = EGraph<LayoutNode, LayoutContext<'k>>;

impl Analysis<LayoutNode> for LayoutContext<'_> {
    type Data = ();
    fn make(_: &mut EGraph<LayoutNode, Self>, _: &LayoutNode, _: Id) {}
    fn merge(&mut self, _: &mut (), _: ()) -> DidMerge {
        DidMerge(false, false)
    }
}

impl<'k> LayoutContext<'k> {
    pub(crate) fn new(
        kernel: &'k Kernel,
        laid: &dyn Fn(Value) -> bool,
        fixed: &dyn Fn(Inst) -> bool,
        ties: Vec<Vec<Value>>,
        limits: &Limits,
    ) -> LayoutContext<'k> {
        let mut cx = LayoutContext {
            kernel,
            layouts: IndexSet::new(),
            slots: Vec::new(),
            of: SecondaryMap::new(),
            runs: IndexMap::new(),
            done: Vec::new(),
            done_at: SecondaryMap::new(),
            laid: SecondaryMap::new(),
            touching: SecondaryMap::new(),
            fixed: SecondaryMap::new(),
            ties: Vec::new(),
            tied: SecondaryMap::new(),
            pinned: SecondaryMap::new(),
            most: limits.layouts,
        };
        kernel.values.keys().for_each(|v| cx.laid[v] = laid(v));
        kernel.walk(kernel.body, &mut |i| {
            let d = &kernel.insts[i];
            cx.fixed[i] = fixed(i);
            for &v in d.results.iter().chain(&d.args) {
                if cx.laid[v] && cx.touching[v].last() != Some(&i) {
                    cx.touching[v].push(i);
                }
            }
        });
        for (n, list) in ties.iter().enumerate() {
            list.iter().for_each(|&v| cx.tied[v].push(n as u32));
        }
        cx.ties = ties;
        cx
    }

    pub(crate) fn layout(&self, id: LayoutId) -> &Rc<Layout> {
        &self.layouts[id as usize]
    }

    pub(crate) fn layout_id(&mut self, l: &Rc<Layout>) -> LayoutId {
        match self.layouts.get_index_of(l) {
            Some(i) => i as u32,
            None => self.layouts.insert_full(l.clone()).0 as u32,
        }
    }

    pub(crate) fn find(&self, v: Value, l: LayoutId) -> Option<u32> {
        self.of[v].iter().copied().find(|&s| self.slots[s as usize].layout == l)
    }

    /// The run with its layouts.
    pub(crate) fn run(&self, key: &RunKey) -> InstLayouts {
        let named = |l: &Option<LayoutId>| l.map(|l| self.layout(l).clone());
        InstLayouts { operands: key.operands.iter().map(named).collect(), results: key.results.iter().map(named).collect() }
    }

    /// True if a value may be made in a layout: a pinned one in the first of its own, the plain one.
    pub(crate) fn made_in(&self, v: Value, l: LayoutId) -> bool {
        !self.pinned[v] || self.of[v].first().is_none_or(|&s| self.slots[s as usize].layout == l)
    }

    /// True if a value is carried by control.
    pub(crate) fn carried(&self, v: Value) -> bool {
        match self.kernel.values[v].def {
            ValueDef::RegionParam(..) => true,
            ValueDef::Result(i, _) => matches!(self.kernel.insts[i].op, Op::For | Op::While | Op::If),
            ValueDef::KernelParam(_) => false,
        }
    }
}

/// The class of a value in a layout, made if there is room for another candidate.
pub(crate) fn slot(g: &mut LayoutGraph<'_>, v: Value, l: LayoutId, rule: &'static str) -> Option<u32> {
    if let Some(s) = g.analysis.find(v, l) {
        return Some(s);
    }
    if !g.analysis.laid[v] || g.analysis.of[v].len() >= g.analysis.most {
        return None;
    }
    let made = g.analysis.made_in(v, l);
    let number = g.analysis.slots.len() as u32;
    let id = g.add(LayoutNode { head: LayoutHead::Slot(number), kids: SmallVec::new() });
    g.analysis.slots.push(LayoutSlot { value: v, layout: l, id, rule });
    g.analysis.of[v].push(number);
    if made && g.analysis.carried(v) {
        let given = g.add(LayoutNode { head: LayoutHead::Given(number), kids: SmallVec::new() });
        g.union_trusted(id, given, rule);
    }
    Some(number)
}

/// Adds a way to run an instruction. Nothing happens if it is known, or if a value has no room for the layout.
pub(crate) fn add_run(g: &mut LayoutGraph<'_>, inst: Inst, run: &InstLayouts, rule: &'static str) {
    let kernel = g.analysis.kernel;
    let d = &kernel.insts[inst];
    let mut key = RunKey { inst, operands: SmallVec::new(), results: SmallVec::new() };
    for (l, &v) in run.operands.iter().zip(&d.args) {
        let id = l.as_ref().filter(|_| g.analysis.laid[v]).map(|l| g.analysis.layout_id(l));
        key.operands.push(id);
    }
    for (l, &v) in run.results.iter().zip(&d.results) {
        let id = l.as_ref().filter(|_| g.analysis.laid[v]).map(|l| g.analysis.layout_id(l));
        key.results.push(id);
    }
    if g.analysis.runs.contains_key(&key) {
        return;
    }
    if d.results.iter().zip(&key.results).any(|(&v, l)| l.is_some_and(|l| !g.analysis.made_in(v, l))) {
        return;
    }
    // Room for all of it, or none of it.
    let known = |g: &LayoutGraph<'_>, v: Value, l: Option<LayoutId>| {
        l.is_none_or(|l| g.analysis.find(v, l).is_some() || g.analysis.of[v].len() < g.analysis.most)
    };
    let fits = d.args.iter().zip(&key.operands).chain(d.results.iter().zip(&key.results)).all(|(&v, &l)| known(g, v, l));
    if !fits {
        return;
    }
    let mut kids = SmallVec::new();
    for (&v, &l) in d.args.iter().zip(&key.operands) {
        let Some(l) = l else { continue };
        let Some(s) = slot(g, v, l, rule) else { return };
        kids.push(g.find(g.analysis.slots[s as usize].id));
    }
    let results = key.results.clone();
    let number = g.analysis.runs.insert_full(key, rule).0 as u32;
    // What has effects runs although nobody may ask for its results; to read local memory leaves it as it is.
    let mut made = matches!(d.op.info().effects, Effects::Pure | Effects::Reads) || d.op == Op::LocalLoad;
    let mut asked = false;
    for (k, (&v, &l)) in d.results.iter().zip(&results).enumerate() {
        let Some(s) = l.and_then(|l| slot(g, v, l, rule)) else { continue };
        asked = true;
        let run = g.add(LayoutNode { head: LayoutHead::Run(number, k as u8), kids: kids.clone() });
        let id = g.analysis.slots[s as usize].id;
        g.union_trusted(id, run, rule);
    }
    made &= asked;
    if !made {
        let id = match g.analysis.done_at[inst] {
            Some(n) => g.analysis.done[n as usize].1,
            None => {
                let id = g.add(LayoutNode { head: LayoutHead::Done(inst.as_u32()), kids: SmallVec::new() });
                g.analysis.done_at[inst] = Some(g.analysis.done.len() as u32);
                g.analysis.done.push((inst, id));
                id
            }
        };
        let run = g.add(LayoutNode { head: LayoutHead::Run(number, DONE), kids });
        g.union_trusted(id, run, rule);
    }
}
