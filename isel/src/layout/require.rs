//! Layouts that the kernel's author requires, on a machine: the layout of every value that a requirement holds.

use crate::layout::dot_plan::DotPlan;
use cranelift_entity::SecondaryMap;
use std::collections::BTreeMap;
use std::rc::Rc;
use tilelift_ir::layout::{Axis, Layout};
use tilelift_ir::require::{requirements, spec};
use tilelift_ir::{DotPart, Inst, Kernel, LayoutSpec, Value};
use tilelift_lane::Target;
use tilelift_schedule::plan::Plan;
use tilelift_schedule::{AtOdds, LowerError, Unmet};

/// The layouts of values that requirements hold.
pub(crate) type RequiredLayouts = SecondaryMap<Value, Option<Rc<Layout>>>;

/// Finds the layouts that requirements among the instructions `here` ask for.
///
/// # Errors
/// [`LowerError::Requirement`] for a layout that the program's lanes and warps do not fill, or whose dot does not exist.
pub(crate) fn holds(
    kernel: &Kernel,
    target: &Target,
    plan: &Plan,
    dots: &SecondaryMap<Inst, Option<Rc<DotPlan>>>,
    here: &SecondaryMap<Inst, bool>,
) -> Result<RequiredLayouts, LowerError> {
    let mut out = RequiredLayouts::new();
    let held = requirements(kernel).map_err(|m| refuse(kernel, m.sites[1], Unmet::Two, m.sites[0]))?;
    let mut known: SecondaryMap<Inst, Option<Rc<Layout>>> = SecondaryMap::new();
    let parts = parts(kernel);
    for (v, site) in held.iter() {
        let Some(site) = site.filter(|&s| here[s]) else { continue };
        let (Some(spec), Some(shape)) = (spec(kernel, site), kernel.ty(v).shape()) else { continue };
        if known[site].is_none() {
            let layout = match (spec, spec.layout(shape)?) {
                (_, Some(l)) => l,
                (LayoutSpec::Mma(part), None) => (*of_dot(kernel, (dots, &parts), *part, shape, site)?).clone(),
                (_, None) => continue,
            };
            fits(kernel, target, plan, spec, &layout, site)?;
            known[site] = Some(Rc::new(layout));
        }
        out[v] = known[site].clone();
    }
    Ok(out)
}

fn refuse(kernel: &Kernel, site: Inst, why: Unmet, other: Inst) -> LowerError {
    let other = AtOdds::Inst { op: kernel.insts[other].op, inst: other, loc: kernel.locs[other] };
    requirement(kernel, site, why, other)
}

fn requirement(kernel: &Kernel, site: Inst, why: Unmet, other: AtOdds) -> LowerError {
    let what = spec(kernel, site).cloned().map(Box::new);
    LowerError::Requirement { what, why: Box::new(why), other: Box::new(other), loc: kernel.locs[site] }
}

/// Lanes and warps of the layout are those of the program.
fn fits(kernel: &Kernel, target: &Target, plan: &Plan, spec: &LayoutSpec, layout: &Layout, site: Inst) -> Result<(), LowerError> {
    let have = [u64::from(target.lanes), u64::from(plan.warps)];
    let want = spec.spread().unwrap_or([Axis::Lane, Axis::Warp].map(|a| u64::from(layout.size(a))));
    if want == have {
        return Ok(());
    }
    let warps = match kernel.hints.warps {
        Some(n) if u64::from(n) == have[1] => AtOdds::Warps { warps: n, loc: kernel.hint_locs[0] },
        Some(_) | None => AtOdds::Plan(plan.outline()),
    };
    Err(requirement(kernel, site, Unmet::Spread { want, have, target: target.name }, warps))
}

/// The first dot, and the first with a tile of a shape as an operand of that number.
#[derive(Default)]
struct Parts<'k> {
    any: Option<Inst>,
    of: BTreeMap<(usize, &'k [u32]), Inst>,
}

fn parts(kernel: &Kernel) -> Parts<'_> {
    let mut out = Parts::default();
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        if let Some(factors) = d.op.factors() {
            out.any.get_or_insert(i);
            for (at, shape) in factors.into_iter().enumerate().filter_map(|(at, n)| Some((at, kernel.ty(d.args[n]).shape()?))) {
                out.of.entry((at, shape)).or_insert(i);
            }
        }
    });
    out
}

/// The layout of a part of the first dot that has the shape there.
fn of_dot(
    kernel: &Kernel,
    (dots, parts): (&SecondaryMap<Inst, Option<Rc<DotPlan>>>, &Parts<'_>),
    part: DotPart,
    shape: &[u32],
    site: Inst,
) -> Result<Rc<Layout>, LowerError> {
    let at = match part {
        DotPart::A => 0,
        DotPart::B => 1,
        DotPart::Acc => 2,
    };
    let found = parts.of.get(&(at, shape)).copied();
    let Some(dot) = found else {
        let why = Unmet::NoDot { shape: shape.to_vec() };
        return Err(match parts.any {
            Some(dot) => refuse(kernel, site, why, dot),
            None => requirement(kernel, site, why, AtOdds::NoDots),
        });
    };
    let takes = |p: &DotPlan| part == DotPart::Acc || part == DotPart::A && p.left;
    let plan = dots[dot].as_ref().filter(|p| p.instr.is_some() || p.group.is_some() && takes(p));
    let Some(plan) = plan else {
        let why = match dots[dot].as_ref().is_some_and(|p| p.group.is_some()) {
            true => Unmet::OperandInMemory,
            false => Unmet::ByLanes,
        };
        return Err(refuse(kernel, site, why, dot));
    };
    let operand = |l: &Rc<Layout>| -> Result<Rc<Layout>, LowerError> {
        match shape {
            &[n, _, _] => Ok(Rc::new(l.expand_dims(0).broadcast(0, n)?)),
            _ => Ok(l.clone()),
        }
    };
    match part {
        DotPart::A => operand(&plan.a),
        DotPart::B => operand(&plan.b),
        DotPart::Acc => Ok(plan.whole.clone()),
    }
}
