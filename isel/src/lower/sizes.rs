//! Bytes of shared memory that lowering takes, by what for: one place for those who allocate and for those who ask before.

use crate::layout::MAX_REGISTERS_PER_TILE;
use crate::layout::assign::Assignment;
use cranelift_entity::SecondaryMap;
use tilelift_ir::layout::{Axis, Layout};
use tilelift_ir::{Inst, InstData, Kernel, Loc, Op, ProgramOrder, Scalar, Type};
use tilelift_lane::{LTy, Target};
use tilelift_schedule::plan::{BufferLayout, Plan, TaskPlan, handle};
use tilelift_schedule::reason::{Remedy, Taker};
use tilelift_schedule::{LowerError, Resource};

/// Scratch memory begins at multiples of this.
pub(crate) const SCRATCH_ALIGN: u32 = 128;

/// A conversion between layouts through shared memory.
pub(super) fn conversion(from: &Layout, bytes: u32) -> u64 {
    array(from.shape(), bytes)
}

/// An array of a shape.
pub(super) fn array(shape: &[u32], bytes: u32) -> u64 {
    shape.iter().fold(u64::from(bytes), |n, &e| n * u64::from(e))
}

/// An exchange between warps: so many bundles of every lane.
pub(super) fn exchange(target: &Target, warps: u32, count: u32, tys: &[LTy]) -> u64 {
    tys.iter().map(|ty| u64::from(count) * u64::from(warps * target.lanes * ty.bytes())).sum()
}

/// Alignment of buffers: of swizzled ones that of eight of the widest rows, of others that of rows of banks.
const BUFFER_ALIGN: [u32; 2] = [128, 1024];

/// The buffer in whose bytes a buffer lies.
pub(super) fn shares(kernel: &Kernel, i: Inst) -> Option<Inst> {
    kernel.operand(i, "alias").first().and_then(|&v| handle(kernel, v)).map(|h| h.root)
}

/// Bytes and alignment of a buffer: as large, and as aligned, as any buffer that shares its bytes.
pub(super) fn buffer(plan: &TaskPlan, i: Inst) -> Option<(u64, u32)> {
    plan.buffers.get(&i)?;
    let same = std::iter::once(&i).chain(plan.locals.aliases(i));
    let all: Vec<&BufferLayout> = same.filter_map(|j| plan.buffers.get(j)).collect();
    let bytes = all.iter().map(|f| f.bytes()).max().unwrap_or(0);
    Some((bytes, BUFFER_ALIGN[usize::from(all.iter().any(|f| f.swizzled.is_some()))]))
}

/// Bytes of shared memory that there are, at least, for what an instruction would only do better with: what the kernel's buffers and barriers leave. Tasks keep all that
/// they take side by side, and operands of products wait in what there is: none is left beside those.
pub(super) fn left(kernel: &Kernel, order: &ProgramOrder, target: &Target, plan: &Plan) -> u64 {
    let tasks = plan.task_plan();
    if tasks.is_some_and(|t| !t.roles.is_empty()) || order.has(kernel.body, |op| op.factors().is_some()) {
        return 0;
    }
    let whole = |bytes: u64| bytes.next_multiple_of(BUFFER_ALIGN[1].into());
    let buffers: u64 = tasks.iter().flat_map(|t| &t.buffers).map(|(_, b)| whole(b.bytes())).sum();
    let barriers =
        |d: &InstData| d.results.iter().map(|&v| if let Type::Barrier(n) = kernel.ty(v) { u64::from(8 * n) } else { 0 }).sum::<u64>();
    let barriers: u64 = kernel.insts.values().filter(|d| d.op == Op::BarrierAlloc).map(barriers).sum();
    u64::from(target.shared_bytes).saturating_sub(buffers + whole(barriers))
}

/// How a type lies in an array of scratch memory: truth values are words.
pub(super) fn scratch_type(ty: LTy) -> LTy {
    if ty == LTy::I1 { LTy::I32 } else { ty }
}

/// The type in which an element is combined and travels: truth values are words.
pub(super) fn combined_type(elem: Scalar) -> LTy {
    if elem == Scalar::I1 { LTy::I32 } else { LTy::holding(elem) }
}

/// What takes shared memory does not fit.
pub(super) fn no_room(need: u64, target: &Target, takers: Vec<Taker>) -> LowerError {
    LowerError::ResourceExceeded {
        resource: Resource::SharedMemory,
        need,
        have: target.shared_bytes.into(),
        remedy: Box::new(Remedy::Memory(takers)),
        loc: Loc::default(),
    }
}

/// Refuses tiles of which a lane holds too much; those that wait in shared memory do not count.
pub(super) fn check_registers(
    kernel: &Kernel,
    plan: &Plan,
    assigned: &Assignment,
    staged: &SecondaryMap<Inst, bool>,
) -> Result<(), LowerError> {
    let fetched = |i: Inst| plan.task_plan().is_some_and(|e| e.fetches.loads[i]);
    for (i, d) in kernel.insts.iter() {
        for &r in &d.results {
            let Some(layout) = assigned.layout(r) else { continue };
            let n = layout.size(Axis::Reg);
            if n > MAX_REGISTERS_PER_TILE && !staged[i] && !fetched(i) {
                return Err(LowerError::ResourceExceeded {
                    resource: Resource::TileRegisters,
                    need: u64::from(n),
                    have: u64::from(MAX_REGISTERS_PER_TILE),
                    remedy: Box::new(Remedy::Tile),
                    loc: kernel.locs[i],
                });
            }
        }
    }
    Ok(())
}
