//! Reducing a failing case: ever simpler kernels, data and launches, as long as the failure stays.

use crate::case::{Case, Param};
use crate::data::Init;
use crate::rewrite::{Edit, rewrite};
use std::collections::BTreeSet;
use tilelift_ir::{Extent, Inst, Kernel, Op, Type};

/// Rounds over all edits.
const ROUNDS: usize = 8;

/// A smaller case that still fails. `fails` says whether a case shows the bug (and is otherwise sound: it should run in the interpreter).
pub fn reduce(case: &Case, fails: &dyn Fn(&Case) -> bool) -> Case {
    let mut best = case.clone();
    let keep_all = vec![true; best.params.len()];
    try_kernel(&mut best, &Edit::Clean, &keep_all, fails);
    for _ in 0..ROUNDS {
        let before = best.clone();
        launch(&mut best, fails);
        // Late instructions first: with them goes what they need.
        let mut tried: BTreeSet<String> = BTreeSet::new();
        loop {
            let edits = edits(&best.kernel);
            let mut progress = false;
            for e in edits {
                let keep = vec![true; best.params.len()];
                // Instructions are renumbered by every success, so what failed before is told by its text.
                if !tried.insert(format!("{e:?} {}", tilelift_ir::text::print(&best.kernel).len())) {
                    continue;
                }
                if try_kernel(&mut best, &e, &keep, fails) {
                    progress = true;
                    break;
                }
            }
            if !progress {
                break;
            }
        }
        params(&mut best, fails);
        if best == before {
            break;
        }
    }
    best
}

fn attempt(best: &mut Case, candidate: Case, fails: &dyn Fn(&Case) -> bool) -> bool {
    let better = candidate != *best && fails(&candidate);
    if better {
        *best = candidate;
    }
    better
}

fn try_kernel(best: &mut Case, edit: &Edit, keep: &[bool], fails: &dyn Fn(&Case) -> bool) -> bool {
    let Some(kernel) = rewrite(&best.kernel, edit, keep) else { return false };
    let params = best.params.iter().zip(keep).filter(|(_, k)| **k).map(|(p, _)| p.clone()).collect();
    if *edit != Edit::Clean && size(&kernel) >= size(&best.kernel) {
        return false;
    }
    attempt(best, Case { kernel, params, ..best.clone() }, fails)
}

/// What every edit must lower: instructions count most, then operands that are no literals.
fn size(k: &Kernel) -> (usize, usize, usize) {
    let (mut insts, mut args, mut weight) = (0, 0, 0);
    k.walk(k.body, &mut |i| {
        let d = &k.insts[i];
        insts += usize::from(!matches!(d.op, Op::Const | Op::Splat | Op::Yield));
        args += d.args.iter().filter(|&&a| k.as_const(a).is_none()).count();
        weight += d.args.len();
    });
    (insts, args, weight)
}

/// Every edit that may help, large ones first.
fn edits(k: &Kernel) -> Vec<Edit> {
    let mut insts: Vec<Inst> = Vec::new();
    k.walk(k.body, &mut |i| insts.push(i));
    insts.reverse();
    let mut list = Vec::new();
    for &i in &insts {
        let d = &k.insts[i];
        match d.op {
            Op::Store => list.push(Edit::Drop(i)),
            Op::For | Op::While => {
                list.extend([Edit::Unwrap(i, 0), Edit::Unwrap(i, d.regions.len())]);
                list.extend((0..d.results.len()).map(|n| Edit::Uncarry(i, n)));
            }
            Op::If => list.extend([Edit::Unwrap(i, 0), Edit::Unwrap(i, 1), Edit::Unwrap(i, 2)]),
            _ => {}
        }
    }
    for &i in &insts {
        let d = &k.insts[i];
        if d.results.len() == 1 && !matches!(d.op, Op::Const | Op::Splat | Op::For | Op::While | Op::If) {
            list.extend([Edit::Constant(i, 1), Edit::Constant(i, 0)]);
            let ty = k.ty(d.results[0]);
            list.extend(d.args.iter().filter(|&&a| k.ty(a) == ty).map(|&a| Edit::Replace(i, a)));
        }
        if matches!(d.op, Op::Load | Op::Store) {
            if d.present != 0 {
                list.push(Edit::NoKeywords(i));
            }
            let at = k.operand(i, "indices").len();
            list.extend((1..=at).filter(|&n| k.as_const(d.args[n]).is_none()).map(|n| Edit::ZeroIndex(i, n)));
        }
    }
    list
}

/// Fewer programs, warps and stages.
fn launch(best: &mut Case, fails: &dyn Fn(&Case) -> bool) {
    let mut grids = vec![[1, 1, 1]];
    grids.extend((0..3).map(|axis| {
        let mut g = best.grid;
        g[axis] = 1;
        g
    }));
    for grid in grids {
        attempt(best, Case { grid, ..best.clone() }, fails);
    }
    for warps in [1, 2, 4] {
        if best.kernel.hints.warps > Some(warps) {
            let mut c = best.clone();
            c.kernel.hints.warps = Some(warps);
            attempt(best, c, fails);
        }
    }
    for stages in [1, 2] {
        if best.kernel.hints.stages > Some(stages) {
            let mut c = best.clone();
            c.kernel.hints.stages = Some(stages);
            attempt(best, c, fails);
        }
    }
}

/// Unused parameters go, data become plain, views dense and without facts.
fn params(best: &mut Case, fails: &dyn Fn(&Case) -> bool) {
    for n in (0..best.params.len()).rev() {
        let p = best.kernel.params[n];
        let mut used = false;
        best.kernel.walk(best.kernel.body, &mut |i| used |= best.kernel.insts[i].args.contains(&p));
        if !used {
            let keep: Vec<bool> = (0..best.params.len()).map(|m| m != n).collect();
            if let Some(kernel) = rewrite(&best.kernel, &Edit::Clean, &keep) {
                let mut params = best.params.clone();
                params.remove(n);
                attempt(best, Case { kernel, params, ..best.clone() }, fails);
            }
        }
    }
    for n in 0..best.params.len() {
        let with = |best: &Case, f: &dyn Fn(&mut crate::case::Tensor, &mut tilelift_ir::ViewType)| {
            let mut c = best.clone();
            let v = c.kernel.params[n];
            if let (Param::Tensor(t), Type::View(ty)) = (&mut c.params[n], &mut c.kernel.values[v].ty) {
                f(t, ty);
            }
            c
        };
        for init in [Init::Fill(1), Init::Iota, Init::Rand(1)] {
            let simpler = matches!((&best.params[n], init), (Param::Tensor(t), Init::Fill(_)) if !matches!(t.init, Init::Fill(_)))
                || matches!(&best.params[n], Param::Tensor(t) if matches!(t.init, Init::Small(_) | Init::Edge(_) | Init::Bits(_) | Init::Rand(_)) && t.init != init);
            if simpler
                && !(init == Init::Rand(1) && matches!(&best.params[n], Param::Tensor(t) if matches!(t.init, Init::Iota | Init::Rand(_))))
            {
                let c = with(best, &|t, _| t.init = init);
                attempt(best, c, fails);
            }
        }
        let c = with(best, &|t, ty| {
            t.dense = true;
            t.offset = 0;
            for d in (0..t.shape.len()).rev() {
                t.strides[d] = t.shape[d + 1..].iter().map(|e| (*e).max(1)).product();
            }
            ty.strides = None;
        });
        attempt(best, c, fails);
        let c = with(best, &|t, _| t.offset = 0);
        attempt(best, c, fails);
        let c = with(best, &|_, ty| ty.dims.iter_mut().for_each(|e| *e = Extent::Dynamic(1)));
        attempt(best, c, fails);
        let c = with(best, &|_, ty| ty.align = ty.align.max(16).min(ty.elem.bytes().max(16)));
        attempt(best, c, fails);
    }
}
