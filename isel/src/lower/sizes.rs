//! Bytes of shared memory that lowering takes, by what for: one place for those who allocate and for those who ask before.

use crate::layout::assign::Assignment;
use cranelift_entity::SecondaryMap;
use tilelift_ir::layout::{Axis, RoundTripPlan};
use tilelift_ir::{Inst, Kernel, Loc, Scalar};
use tilelift_lane::{LTy, Target};
use tilelift_schedule::plan::{BufferLayout, Explicit, Locals, Plan, fetches, handle};
use tilelift_schedule::{LowerError, Resource};

/// Tiles with more registers per lane than this are refused: no register allocator could hold them.
pub(crate) const MAX_REGISTERS_PER_TILE: u32 = 1024;

/// Scratch memory begins at multiples of this.
pub(crate) const SCRATCH_ALIGN: u32 = 128;

/// A conversion between layouts.
pub(super) fn conversion(p: &RoundTripPlan, bytes: u32) -> u64 {
    u64::from(p.map.elements()) * u64::from(bytes)
}

/// An array of a shape.
pub(super) fn array(shape: &[u32], bytes: u32) -> u64 {
    shape.iter().fold(u64::from(bytes), |n, &e| n * u64::from(e))
}

/// An exchange between warps: so many bundles of every lane.
pub(super) fn exchange(target: &Target, warps: u32, count: u32, tys: &[LTy]) -> u64 {
    tys.iter().map(|ty| u64::from(count) * u64::from(warps * target.lanes * ty.bytes())).sum()
}

/// Alignment of buffers: of panels that of eight of the widest rows, of others that of rows of banks.
const BUFFER_ALIGN: [u32; 2] = [128, 1024];

/// The buffer in whose bytes a buffer lies.
pub(super) fn shares(kernel: &Kernel, i: Inst) -> Option<Inst> {
    kernel.operand(i, "alias").first().and_then(|&v| handle(kernel, v)).map(|h| h.root)
}

/// Bytes and alignment of a buffer: as large, and as aligned, as any buffer that shares its bytes.
pub(super) fn buffer(plan: &Explicit, locals: &Locals, i: Inst) -> Option<(u64, u32)> {
    plan.forms.get(&i)?;
    let same = std::iter::once(&i).chain(locals.aliases(i));
    let all: Vec<&BufferLayout> = same.filter_map(|j| plan.forms.get(j)).collect();
    let bytes = all.iter().map(|f| f.bytes()).max().unwrap_or(0);
    Some((bytes, BUFFER_ALIGN[usize::from(all.iter().any(|f| f.panels.is_some()))]))
}

/// How a type lies in an array of scratch memory: truth values are words.
pub(super) fn scratch_type(ty: LTy) -> LTy {
    if ty == LTy::I1 { LTy::I32 } else { ty }
}

/// The type in which an element is combined and travels: truth values are words.
pub(super) fn combined_type(elem: Scalar) -> LTy {
    if elem == Scalar::I1 { LTy::I32 } else { LTy::holding(elem) }
}

/// An allocation for one purpose does not fit.
pub(super) fn no_room_for(bytes: u64, purpose: &'static str, target: &Target) -> LowerError {
    no_room(bytes, target, format!("this is for one {purpose}: use a smaller tile or fewer stages (`stages=`)"))
}

/// All of a program does not fit, and so much would without one allocation and those behind it.
pub(super) fn no_room_beside(need: u64, beside: u64, purpose: &'static str, target: &Target) -> LowerError {
    let remedy = match beside {
        0 => format!("this is for one {purpose}: use a smaller tile or fewer stages (`stages=`)"),
        _ => format!(
            "buffers and what is beside them take {beside} in front of one {purpose}: use smaller tiles or fewer stages (`stages=`)"
        ),
    };
    no_room(need, target, remedy)
}

/// All of a program does not fit.
pub(super) fn no_room_in_all(need: u64, target: &Target) -> LowerError {
    no_room(need, target, "use smaller tiles or fewer stages (`stages=`)".into())
}

fn no_room(need: u64, target: &Target, remedy: String) -> LowerError {
    let have = u64::from(target.shared_bytes);
    LowerError::ResourceExceeded { resource: Resource::SharedMemory, need, have, remedy, loc: Loc::default() }
}

/// Refuses tiles of which a lane holds too much; those that wait in shared memory do not count.
pub(super) fn check_registers(
    kernel: &Kernel,
    plan: &Plan,
    assigned: &Assignment,
    staged: &SecondaryMap<Inst, bool>,
) -> Result<(), LowerError> {
    let fetched = plan.explicit().map(|e| fetches(kernel, e)).unwrap_or_default();
    for (i, d) in kernel.insts.iter() {
        for &r in &d.results {
            let Some(layout) = assigned.layout(r) else { continue };
            let n = layout.size(Axis::Reg);
            if n > MAX_REGISTERS_PER_TILE && !staged[i] && !fetched.loads[i] {
                return Err(LowerError::ResourceExceeded {
                    resource: Resource::TileRegisters,
                    need: u64::from(n),
                    have: u64::from(MAX_REGISTERS_PER_TILE),
                    remedy:
                        "use a smaller tile, an extent with more factors of 2 (odd factors are held by every lane), or more warps (`warps=`)"
                            .into(),
                    loc: kernel.locs[i],
                });
            }
        }
    }
    Ok(())
}
