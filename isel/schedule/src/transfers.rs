//! What moving a tile takes, counted from layouts: sectors of global memory, bank wavefronts of shared memory.
//!
//! ```text
//! global memory ── sectors, lines, addresses ─► registers        tile in shared memory ── matrix loads or vectors ─► fragments
//! ```

use crate::access::{GlobalAccess, legal_width, memory_type};
use crate::plan::is_view;
use tilelift_ir::layout::{
    AccessColumns, Axis, Layout, LayoutError, SharedMap, SharedOp, ldmatrix_applies, sectors, vector_count, wavefronts,
};
use tilelift_ir::{Attr, Inst, Kernel, Op, Value};
use tilelift_lane::Target;

/// Bytes of a sector, and of a line of the cache.
pub const SECTOR: u32 = 32;
const LINE: u32 = 128;
/// Instructions for the address and the bounds of one access.
pub const ADDRESS: u64 = 4;

/// Cost of a global access by so many warps, in a layout, in sixteenths of a cycle; `None` for a layout that no vector follows.
pub fn global_access(kernel: &Kernel, target: &Target, warps: u64, i: Inst, layout: &Layout, is_load: bool) -> Option<u64> {
    let access = GlobalAccess::of(kernel, i);
    let elem = access.view.elem;
    let bytes = elem.bytes();
    let columns = AccessColumns::global(layout, &access.order()).ok()?;
    let vec = legal_width(access.vector_elements(target.vector_bytes), memory_type(elem));
    let [width, vectors] = vector_count(&columns, bytes, vec * bytes, layout.free_mask(Axis::Reg));
    let touched = u64::from(sectors(&columns, bytes, width, SECTOR));
    let lines = u64::from(sectors(&columns, bytes, width, LINE));
    let groups = u64::from(vectors) * u64::from((width * bytes).div_ceil(target.vector_bytes).max(1));
    let copies = layout.free_mask(Axis::Warp).count_ones();
    // Warps that read what others read find it in the cache; those that would write it again do not.
    let distinct = warps >> copies;
    let issuing = if is_load { warps } else { distinct };
    let c = &target.costs;
    // Sectors stream while lines are looked up.
    let moving = (distinct * touched * c.sector).max(issuing * lines * c.line);
    Some(groups * (moving + warps * ADDRESS * c.alu))
}

/// The pieces in which a lane loads a tile from global memory in a layout: bytes of each, and how many.
pub fn pieces(kernel: &Kernel, target: &Target, i: Inst, layout: &Layout) -> Option<[u32; 2]> {
    let access = GlobalAccess::of(kernel, i);
    let bytes = access.view.elem.bytes();
    let columns = AccessColumns::global(layout, &access.order()).ok()?;
    let vec = legal_width(access.vector_elements(target.vector_bytes), memory_type(access.view.elem));
    let [width, vectors] = vector_count(&columns, bytes, vec * bytes, layout.free_mask(Axis::Reg));
    Some([width * bytes, vectors])
}

/// Passes over the banks, and instructions, of one warp that fetches fragments of a tile: by matrix loads where they are wanted and divide
/// the access, else by vectors.
///
/// # Errors
/// A layout that is none of the map's.
pub fn fragments(map: &SharedMap, layout: &Layout, matrices: bool, elem: u32, target: &Target) -> Result<[u32; 2], LayoutError> {
    let columns = map.columns_from(layout)?;
    let plan = if matrices { ldmatrix_applies(&columns, elem) } else { None };
    if let Some(plan) = plan {
        let n = plan.groups.len() as u32;
        return Ok([plan.wavefronts() * plan.count * n, n]);
    }
    let [width, n] = vector_count(&columns, elem, target.vector_bytes, layout.free_mask(Axis::Reg));
    let w = wavefronts(&columns, elem, width, SharedOp::Load, &target.banks, 0);
    Ok([w.total() * n, n])
}

/// The load behind a dot's operand, of global memory or of a buffer, and the views between them, the load's first.
pub fn behind(kernel: &Kernel, v: Value) -> Option<(Inst, Vec<Value>)> {
    let i = kernel.def_inst(v)?;
    let d = &kernel.insts[i];
    match d.op {
        Op::Load | Op::LocalLoad => Some((i, Vec::new())),
        op if matches!(op, Op::Transpose | Op::Reshape) || is_view(kernel, i) => {
            let (load, mut views) = behind(kernel, d.args[0])?;
            views.push(v);
            Some((load, views))
        }
        _ => None,
    }
}

/// A map of a load as a value sees it through transposes and reshapes.
pub fn through(kernel: &Kernel, map: &SharedMap, views: &[Value]) -> Option<SharedMap> {
    views.iter().try_fold(map.clone(), |m, &v| {
        let d = &kernel.insts[kernel.def_inst(v)?];
        match (d.op, d.attrs.first()) {
            (Op::Transpose, Some(Attr::Perm(p))) => m.transpose(&p.iter().map(|&x| x as usize).collect::<Vec<_>>()).ok(),
            _ => m.reshape(kernel.ty(v).shape()?).ok(),
        }
    })
}
