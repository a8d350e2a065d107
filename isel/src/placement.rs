//! Where the values of a lowered kernel lie: which lane holds which element of a tile, and at which byte of shared memory it waits.
//!
//! ```text
//! kernel, what it was lowered to ─► tiles: a layout each ─ buffers: a swizzle or a map each ─ loads that wait for dots: a map each
//! ```
//!
//! It is said of what is lowered: of the program that specialised and pipelined loops are written as, whose instructions still have the places of
//! those that the author wrote.

use crate::layout::legal_width;
use crate::lower::Lowered;
use crate::lower::facts::{is_fetched, staged_of};
use crate::lower::stage::load_map;
use crate::pipeline::planned;
use std::rc::Rc;
use tilelift_ir::layout::{Layout, SharedMap, coalesced};
use tilelift_ir::verify::Verified;
use tilelift_ir::{Inst, Kernel, Loc, Op, Scalar, Type, Value};
use tilelift_lane::Target;
use tilelift_schedule::access::GlobalAccess;
use tilelift_schedule::plan::{BufferLayout, LowerOptions};
use tilelift_schedule::{LowerError, Named};

/// Where the values of a kernel lie.
#[derive(Clone, Debug)]
pub struct Placement {
    /// What is lowered: the kernel, or the program that its loops are written as.
    pub kernel: Kernel,
    /// Tiles in registers, in the order of its text.
    pub tiles: Vec<TilePlace>,
    /// What lies in shared memory under a name of the text: buffers, and loads that wait for dots.
    pub memories: Vec<MemoryPlace>,
}

/// A tile in registers.
#[derive(Clone, Debug)]
pub struct TilePlace {
    /// The value in [`Placement::kernel`].
    pub value: Value,
    /// As the author knows it.
    pub named: Named,
    /// Where what makes it stands in the author's text.
    pub loc: Loc,
    /// Element type.
    pub elem: Scalar,
    /// Its layout.
    pub layout: Rc<Layout>,
}

/// A tile, or a buffer, in shared memory.
#[derive(Clone, Debug)]
pub struct MemoryPlace {
    /// The value in [`Placement::kernel`].
    pub value: Value,
    /// As the author knows it.
    pub named: Named,
    /// Where what makes it stands in the author's text.
    pub loc: Loc,
    /// Element type.
    pub elem: Scalar,
    /// How it lies; of a load the map is that of one slot.
    pub layout: BufferLayout,
}

/// Says where the values of a kernel lie that was lowered with the same options.
///
/// # Errors
/// What the plan refuses.
pub fn placement(kernel: &Verified<'_>, target: &Target, options: &LowerOptions, done: &Lowered) -> Result<Placement, LowerError> {
    let kernel = match &done.written {
        Some(Ok(written)) => Kernel::clone(written),
        Some(Err(_)) | None => planned(kernel, target, options)?.0.into_owned(),
    };
    let (mut tiles, mut memories) = (Vec::new(), Vec::new());
    let staged = staged_of(&kernel, &done.layouts.assigned);
    kernel.walk(kernel.body, &mut |i| {
        let (d, loc) = (&kernel.insts[i], kernel.locs[i]);
        let carried = d.regions.iter().flat_map(|&r| kernel.regions[r].params.iter().copied());
        for value in d.results.iter().copied().chain(carried) {
            let named = Named::of(&kernel, value);
            match kernel.ty(value) {
                Type::Shared(t) if matches!(d.op, Op::LocalAlloc | Op::LocalReinterpret) => {
                    let found = done.layouts.tasks().and_then(|t| t.buffers.get(&i));
                    memories.extend(found.map(|b| MemoryPlace { value, named, loc, elem: t.elem, layout: b.clone() }));
                }
                Type::Tile(t) if staged[i] => {
                    let map = waits(&kernel, target, done, i, &t.shape);
                    memories.extend(map.map(|m| MemoryPlace { value, named, loc, elem: t.elem, layout: of_map(m, t.elem) }));
                }
                Type::Tile(t) => {
                    let fetched = done.layouts.tasks().is_some_and(|p| is_fetched(&p.fetches, None, i));
                    let layout = done.layouts.of(value).filter(|l| !fetched && !l.in_memory());
                    tiles.extend(layout.map(|l| TilePlace { value, named, loc, elem: t.elem, layout: l.clone() }));
                }
                Type::Scalar(_) | Type::View(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => {}
            }
        }
    });
    Ok(Placement { kernel, tiles, memories })
}

/// The map in which a load waits for dots; `None` where layouts refuse it, which the lowering has said already.
fn waits(kernel: &Kernel, target: &Target, done: &Lowered, i: Inst, shape: &[u32]) -> Option<SharedMap> {
    let access = GlobalAccess::of(kernel, i);
    let (bytes, order) = (access.view.elem.bytes(), access.order());
    let vec = legal_width(access.vector_elements(target.vector_bytes), access.view.elem);
    let layout = coalesced(shape, bytes, &order, vec, target.lanes, done.layouts.plan.warps).ok()?;
    load_map((kernel, target, &done.layouts.assigned), i, order[0], (&layout, vec * bytes)).ok()
}

fn of_map(map: SharedMap, elem: Scalar) -> BufferLayout {
    BufferLayout { shape: map.shape().to_vec(), size: elem.bytes(), swizzled: None, slot: Some(Rc::new(map)) }
}
