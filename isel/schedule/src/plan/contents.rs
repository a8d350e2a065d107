//! What the body of a loop holds that is to be specialised: loads for the ring, products, and whether anything is computed between them.

use super::lane_copies::copied_by_lanes;
use super::masked::is_masked;
use super::products::{beside_products, multiplies};
use super::ring_layouts::RingLayouts;
use super::tensor_boxes::SwizzledTile;
use super::views::is_view;
use crate::reason::NotSpecialised;
use cranelift_entity::SecondaryMap;
use std::collections::BTreeSet;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{Effects, Inst, Kernel, Op, Type, Value};
use tilelift_lane::hash::Set;
use tilelift_lane::{Target, Units};

/// What a loop's body holds.
pub(super) struct Contents {
    /// Loads and gathers that the ring brings, in program order.
    pub loads: Vec<(Inst, SwizzledTile)>,
    /// Those of them that the producer's lanes copy.
    pub by_lanes: Vec<Inst>,
    /// Pieces that each lane copies in a step.
    pub pieces: u32,
    /// Products.
    pub dots: Vec<Inst>,
    /// The loop does more than multiply and add up.
    pub mixed: bool,
}

/// Looks at the body of a loop, of which `live` is what consumers do.
///
/// # Errors
/// It does what neither producer nor consumers do, or loads what nobody brings.
pub(super) fn contents(
    kernel: &Kernel,
    target: &Target,
    units: &Units,
    ring_layouts: &RingLayouts,
    (staged, written): (&SecondaryMap<Inst, bool>, &Set<Value>),
    (body, live): (&[Inst], &BTreeSet<Inst>),
) -> Result<Contents, NotSpecialised> {
    let mut out = Contents { loads: Vec::new(), by_lanes: Vec::new(), pieces: 0, dots: Vec::new(), mixed: false };
    let by = |i: Inst| copied_by_lanes(kernel, target, units, written, i, ring_layouts.swizzles.get(&i).copied());
    for &i in body {
        let d = &kernel.insts[i];
        let effects = d.op.info().effects;
        let scalar = effects == Effects::Pure && d.results.iter().all(|&r| matches!(kernel.ty(r), Type::Scalar(_)));
        match d.op {
            Op::Load if staged[i] => {
                let Type::Tile(t) = kernel.ty(d.results[0]) else { return Err(NotSpecialised::ScalarLoad) };
                let tile = match SwizzledTile::of(kernel, i, &t.shape, units, ring_layouts.swizzles.get(&i).copied()) {
                    Ok(tile) => tile,
                    Err(why) => {
                        let copy = by(i).map_err(|_| why)?;
                        out.by_lanes.push(i);
                        out.pieces += copy.pieces;
                        copy.tile
                    }
                };
                let lanes = out.by_lanes.last() == Some(&i);
                taken(Decision::Travel, || {
                    let cut = if is_masked(kernel, i) { ", zeros where its mask cuts it" } else { "" };
                    Told::of(format!("{}: {}{cut}", d.results[0], if lanes { "lanes copy it" } else { "boxes of a tensor map" }))
                });
                out.loads.push((i, tile));
            }
            Op::Gather if staged[i] => {
                let copy = by(i)?;
                out.by_lanes.push(i);
                out.pieces += copy.pieces;
                out.loads.push((i, copy.tile));
            }
            // A swizzle is one of the ring.
            Op::Load if ring_layouts.swizzles.contains_key(&i) => return Err(beside_products(kernel, i)),
            Op::Dot => out.dots.push(i),
            Op::Transpose | Op::Reshape | Op::Yield => {}
            Op::Const => {}
            _ if is_view(kernel, i) => {}
            _ if scalar && d.regions.is_empty() => {}
            op if effects.is_shared() || multiplies(kernel, i) => return Err(NotSpecialised::Effect { op }),
            // The consumers do it, unless it only says where copies come from.
            _ => out.mixed |= live.contains(&i),
        }
    }
    Ok(out)
}
