//! Plans of the products of a part: each by its types and by the products that its operands are computed of. Equal ones have one plan.

use crate::layout::dot_plan::DotPlan;
use crate::layout::dots::{chain, plan_dot};
use cranelift_entity::SecondaryMap;
use std::rc::Rc;
use tilelift_ir::layout::Layout;
use tilelift_ir::{Inst, Kernel, Op, Value};
use tilelift_lane::Target;
use tilelift_schedule::LowerError;
use tilelift_schedule::plan::Plan;

/// Plans the products of a part. What is reduced of one, or multiplied by another one, decides where its sums should lie.
pub(super) fn plan_dots(
    kernel: &Kernel,
    target: &Target,
    plan: &Plan,
    insts: &[Inst],
    dots: &mut SecondaryMap<Inst, Option<Rc<DotPlan>>>,
) -> Result<(), LowerError> {
    let all: Vec<Inst> = insts.iter().copied().filter(|&i| kernel.insts[i].op.factors().is_some()).collect();
    let turns = all.len() > 1 || insts.iter().any(|&i| kernel.insts[i].op == Op::Reduce);
    let mut known: Vec<PlannedDot> = Vec::new();
    for &i in &all {
        let behind = [0, 1].map(|operand| {
            let (of, turned) = product_behind(kernel, kernel.insts[i].args[operand], dots).filter(|_| all.len() > 1)?;
            Some((dots[of].clone()?, turned))
        });
        let is_async = plan.task_plan().is_some_and(|t| t.dots.contains_key(&i));
        if let Some(same) = known.iter().find(|p| !is_async && p.is_like(kernel, i, &behind)) {
            dots[i] = Some(same.plan.clone());
            continue;
        }
        let mut own = plan_dot(kernel, target, plan, i, turns).map_err(|e| e.at(kernel.locs[i]))?;
        for (operand, of) in behind.iter().enumerate().filter(|_| own.instr.is_some() && own.scales.is_none()) {
            let Some((of, turned)) = of else { continue };
            let accumulators = std::iter::once(of).chain(&of.others).filter(|p| p.instr.is_some());
            let lies = |p: &Rc<DotPlan>| if *turned { p.whole.transpose(&[1, 0]).ok().map(Rc::new) } else { Some(p.whole.clone()) };
            let mut accumulators: Vec<Rc<Layout>> = accumulators.filter_map(lies).collect();
            accumulators.dedup();
            let made = chain(&own, operand, &accumulators);
            own.others.splice(0..0, made);
        }
        // One that is there already stands for it, so that products of it are like those of the other.
        let same = known.iter().find(|p| *p.plan == own).map(|p| p.plan.clone());
        let own = same.unwrap_or_else(|| Rc::new(own));
        if !is_async && known.len() < PLANNED {
            known.push(PlannedDot { inst: i, behind, plan: own.clone() });
        }
        dots[i] = Some(own);
    }
    Ok(())
}

/// Products of which the plans are remembered: those behind them are compared with so many.
const PLANNED: usize = 16;

/// A product with its plan.
struct PlannedDot {
    inst: Inst,
    /// The plans of products of which its operands are computed, and whether transposed.
    behind: [Option<(Rc<DotPlan>, bool)>; 2],
    plan: Rc<DotPlan>,
}

impl PlannedDot {
    /// True if another product of the same operation, types and operands comes to the same plan.
    fn is_like(&self, kernel: &Kernel, i: Inst, behind: &[Option<(Rc<DotPlan>, bool)>; 2]) -> bool {
        let [d, own] = [i, self.inst].map(|i| &kernel.insts[i]);
        let types = || d.args.iter().zip(&own.args).all(|(&x, &y)| kernel.ty(x) == kernel.ty(y));
        let same = |(x, y): (&Option<(Rc<DotPlan>, bool)>, _)| match (x, y) {
            (Some((x, turned)), &Some((ref y, other))) => Rc::ptr_eq(x, y) && *turned == other,
            (x, y) => x.is_none() && y.is_none(),
        };
        let operations = || (d.op, &d.attrs, d.present, d.args.len()) == (own.op, &own.attrs, own.present, own.args.len());
        self.behind.iter().zip(behind).all(same) && operations() && types()
    }
}

/// Instructions that are looked at behind an operand.
const MOST_BEHIND: usize = 32;

/// The product of which a value is computed element by element, and whether transposed.
pub(super) fn product_behind(kernel: &Kernel, v: Value, dots: &SecondaryMap<Inst, Option<Rc<DotPlan>>>) -> Option<(Inst, bool)> {
    let mut open = vec![(v, false)];
    for _ in 0..MOST_BEHIND {
        let (v, turned) = open.pop()?;
        let Some(i) = kernel.def_inst(v) else { continue };
        let d = &kernel.insts[i];
        if dots[i].is_some() {
            return Some((i, turned));
        }
        let turns = d.op == Op::Transpose && kernel.ty(v).shape().is_some_and(|s| s.len() == 2);
        if turns || kernel.is_elementwise(i) {
            open.extend(d.args.iter().map(|&a| (a, turned != turns)));
        }
    }
    None
}
