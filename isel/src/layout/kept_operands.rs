//! Operands that stay in registers: what products of a loop take in every step, and nobody makes anew, is loaded once, as the products take it.
//!
//! ```text
//! load Q ─► loop: dot Q, Kᵀ     its fragments are in registers in front of the loop, and shared memory is for what comes in steps
//! ```
//!
//! Such loads are not staged. That is so on machines whose lanes bring all fragments by themselves: others have units that fetch operands from shared memory beside
//! what lanes do.

use crate::layout::dot_plan::DotPlan;
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use std::rc::Rc;
use tilelift_ir::layout::{Axis, Layout};
use tilelift_ir::{Attr, Inst, Kernel, Op, Region, Value};
use tilelift_lane::Target;
use tilelift_schedule::plan::staged_loads;

/// Of the registers of a lane, such operands take at most one of so many.
const SHARE: u32 = 8;
/// The same where shared memory does not hold all tiles that products take.
const CROWDED: u32 = 4;

/// What is known of a kernel.
pub(super) struct Known<'a> {
    pub kernel: &'a Kernel,
    pub dots: &'a SecondaryMap<Inst, Option<Rc<DotPlan>>>,
    /// The instructions that take each value.
    pub users: &'a SecondaryMap<Value, SmallVec<[Inst; 2]>>,
}

/// The loads, among some instructions, of operands that stay in registers, each with the layout in which products take them.
pub(super) fn kept_operands(known: &Known<'_>, target: &Target, insts: &[Inst]) -> Vec<(Inst, Rc<Layout>)> {
    let kernel = known.kernel;
    if !target.moves_by_lanes() || !insts.iter().any(|&i| kernel.insts[i].op == Op::Dot) {
        return Vec::new();
    }
    let (staged, mut depth) = (staged_loads(kernel), kernel.by_inst());
    depths(kernel, kernel.body, 0, &mut depth);
    let tiles = insts.iter().filter(|&&i| staged[i]).filter_map(|&i| kernel.ty(kernel.insts[i].results[0]).as_tile());
    let bytes: u64 = tiles.map(|t| t.shape.iter().map(|&n| u64::from(n)).product::<u64>() * u64::from(t.elem.bytes())).sum();
    let mut room = target.registers / if bytes > u64::from(target.shared_bytes) { CROWDED } else { SHARE };
    let mut kept = Vec::new();
    for &i in insts.iter().filter(|&&i| staged[i]) {
        let v = kernel.insts[i].results[0];
        let Some(layout) = known.wanted(v, &|dot| depth[dot] > depth[i]) else { continue };
        let elements = layout.size(Axis::Reg) >> layout.free_mask(Axis::Reg).count_ones();
        let words = (elements * kernel.ty(v).elem().bytes()).div_ceil(4);
        if words <= room {
            room -= words;
            kept.push((i, layout));
        }
    }
    kept
}

impl Known<'_> {
    /// The layout in which all products take a value that nothing else reads, if it is one, and all of them do so `again`.
    fn wanted(&self, v: Value, again: &dyn Fn(Inst) -> bool) -> Option<Rc<Layout>> {
        let kernel = self.kernel;
        let (shape, elem) = (kernel.ty(v).shape()?, kernel.ty(v).elem());
        let mut found: Option<Rc<Layout>> = None;
        for &i in &self.users[v] {
            let d = &kernel.insts[i];
            let mut layouts: SmallVec<[Rc<Layout>; 2]> = SmallVec::new();
            match (d.op, d.attrs.first()) {
                (Op::Transpose, Some(Attr::Perm(p))) => {
                    let mut back = vec![0; p.len()];
                    p.iter().enumerate().for_each(|(k, &d)| back[d as usize] = k);
                    layouts.push(Rc::new(self.wanted(d.results[0], again)?.transpose(&back).ok()?));
                }
                (Op::Reshape, _) => layouts.push(Rc::new(self.wanted(d.results[0], again)?.reshape(shape).ok()?)),
                (Op::Dot, _) if again(i) => {
                    let plan = self.dots[i].as_ref().filter(|p| p.instr.is_some())?;
                    let operands = plan.factors_at().into_iter().zip([&plan.a, &plan.b]).zip(plan.factors);
                    let taken = operands.filter(|((at, _), _)| d.args[*at] == v);
                    for ((_, layout), factor) in taken {
                        // What is converted to be multiplied would be so in every step.
                        layouts.push(Some(layout).filter(|_| factor == elem)?.clone());
                    }
                }
                _ => return None,
            }
            for l in layouts {
                if l.shape() != shape || found.as_ref().is_some_and(|f| *f != l) {
                    return None;
                }
                found = Some(l);
            }
        }
        found
    }
}

/// How many loops each instruction of a region stands in.
fn depths(kernel: &Kernel, r: Region, around: u32, out: &mut SecondaryMap<Inst, u32>) {
    for &i in &kernel.regions[r].insts {
        out[i] = around;
        let inside = around + u32::from(matches!(kernel.insts[i].op, Op::For | Op::While));
        kernel.insts[i].regions.iter().for_each(|&inner| depths(kernel, inner, inside, out));
    }
}
