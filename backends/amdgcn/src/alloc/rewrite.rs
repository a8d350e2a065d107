//! Physical registers in the place of virtual ones.

use super::assign::Places;
use super::bundle::{self, Bundles};
use super::clean;
use super::result::{Allocated, Facts, Spills};
use super::work::Work;
use crate::mir::{BlockData, File, Inst, Operand, Reg, Span, Spilled};
use cranelift_entity::EntityRef;

/// Puts physical registers in the place of virtual ones, and removes moves of registers to themselves.
pub(super) fn rewrite(work: Work, bundles: &Bundles, places: &Places, spills: Spills) -> Allocated {
    let Work { mut program, mut origin, .. } = work;
    let place = |span: Span| match span.reg {
        Reg::Virtual(reg) => {
            let (bundle, word) = bundles.of[reg.index()];
            let base = places.base[bundle].unwrap_or(0) + u16::from(word) + u16::from(span.first);
            Span::physical(bundles.all[bundle].file, base, span.words)
        }
        Reg::Physical(file, number) => Span::physical(file, number + u16::from(span.first), span.words),
        Reg::Fixed(_) => span,
    };
    for (block, data) in program.blocks.iter_mut() {
        let BlockData { insts, .. } = data;
        for operand in insts.iter_mut().flat_map(|i| &mut i.operands) {
            if let Operand::Reg(span) = operand {
                *span = place(*span);
            }
        }
        let keep: Vec<bool> = insts.iter().map(|i| !moves_to_itself(i)).collect();
        clean::retain(insts, &mut origin[block.index()], &keep);
    }
    let used = |file: File| places.used[file as usize] as u32;
    let facts = Facts { vgprs: used(File::Vector), agprs: used(File::Acc), sgprs: used(File::Scalar), spills };
    program.spilled = Spilled { scalars: spills.to_lanes, vectors: spills.to_acc + spills.to_scratch };
    Allocated { program, facts, origin }
}

fn moves_to_itself(inst: &Inst) -> bool {
    bundle::copy(inst).is_some_and(|(to, from)| to == from)
}
