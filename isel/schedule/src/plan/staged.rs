//! Operands that lanes compute, and that the unit reads from shared memory: they store them there, in each step or once in front of the loop.
//!
//! ```text
//! operand B                                              the unit takes none from registers
//! operand A, transposed                                  lanes hold its rows as columns
//! operand A of a product whose columns groups share      each group needs all of it (unless each computes it, see [`super::shares`])
//! ```
//!
//! What products of tf32 take is rounded as it is stored (see [`super::buffers`]).
//!
//! A tile is stored as lanes have it where the unit takes operands in any order, else along K.

use super::tensor_boxes::SwizzledTile;
use super::views::trace;
use cranelift_entity::EntityRef;
use tilelift_ir::{Attr, Inst, Kernel, Op, Region, Value, ValueDef};
use tilelift_lane::{GroupMatrix, GroupMatrixId, Units};

/// A use of a tile by a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StagedUse {
    /// The product.
    pub product: Inst,
    /// Which operand: 0 for A, 1 for B.
    pub operand: usize,
    /// It is the tile, transposed.
    pub transposed: bool,
}

/// A tile that lanes store for products.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StagedOperand {
    /// What they compute.
    pub value: Value,
    /// It is stored transposed.
    pub transposed: bool,
    /// How it lies.
    pub tile: SwizzledTile,
    /// It is another one in each step.
    pub moves: bool,
    /// Who reads it.
    pub uses: Vec<StagedUse>,
}

/// The tile behind transposes of a matrix, and whether it is the matrix transposed.
pub(crate) fn origin(kernel: &Kernel, mut v: Value) -> (Value, bool) {
    let mut turned = false;
    while let Some(i) = kernel.def_inst(v)
        && let (Op::Transpose, Some(Attr::Perm(p))) = (kernel.insts[i].op, kernel.insts[i].attrs.first())
        && p[..] == [1, 0]
    {
        (v, turned) = (kernel.insts[i].args[0], !turned);
    }
    (v, turned)
}

/// True for what is computed element by element, in whatever shape: scales of groups meet their columns as a dimension of its own, numbers are looked up in
/// tables.
pub(crate) fn mapped(kernel: &Kernel, mut v: Value) -> bool {
    while let Some(i) = kernel.def_inst(v) {
        if kernel.insts[i].op != Op::Reshape {
            return kernel.is_elementwise(i) || kernel.insts[i].op == Op::GatherTile;
        }
        v = kernel.insts[i].args[0];
    }
    false
}

/// True for what is another value in each step of a loop.
pub(crate) fn moves(kernel: &Kernel, region: Region, v: Value) -> bool {
    match kernel.values[v].def {
        ValueDef::KernelParam(_) => false,
        ValueDef::RegionParam(r, _) => r == region,
        ValueDef::Result(i, _) => kernel.regions[region].insts.contains(&i),
    }
}

/// True for an operand A that lanes hold as the unit wants it.
pub(super) fn in_rows(kernel: &Kernel, a: Value) -> bool {
    !origin(kernel, a).1
}

/// True for an operand that may be stored for the unit.
pub(super) fn may_be_staged(kernel: &Kernel, units: &Units, row: &GroupMatrix, v: Value, operand: usize) -> bool {
    tile(kernel, units, row, v, (operand, 1)).is_some()
}

/// The tile that is stored for an operand: what it is made of, whether it is stored transposed, how it lies, and whether the operand is that, transposed.
/// Columns of B that groups share are whole columns of the buffer.
fn tile(
    kernel: &Kernel,
    units: &Units,
    row: &GroupMatrix,
    v: Value,
    (operand, groups): (usize, u32),
) -> Option<(Value, bool, SwizzledTile, bool)> {
    let (value, turned) = origin(kernel, v);
    // Along K: the last dimension of A, the first one of B.
    let transposed = !row.any_order && turned == (operand == 0);
    let t = kernel.ty(value).as_tile().filter(|t| t.shape.len() == 2)?;
    let shape = if transposed { [t.shape[1], t.shape[0]] } else { [t.shape[0], t.shape[1]] };
    let along_columns = operand == 1 && turned == transposed;
    let most = if along_columns { shape[1] / groups * t.elem.bytes() } else { u32::MAX };
    Some((value, transposed, SwizzledTile::filled(shape, t.elem, units, most)?, turned != transposed))
}

/// How many groups share the columns of a product, and whether each of them has its operand A whole.
type ColumnSharing<'a> = (&'a dyn Fn((Inst, GroupMatrixId)) -> u32, &'a dyn Fn(Inst) -> bool);

/// The operands of a loop's products that lanes store, unless they are `elsewhere`: in the ring, or brought. `across` says how many groups share the
/// columns of a product, and whether each of them has its operand A whole.
pub(super) fn staged_operands(
    kernel: &Kernel,
    units: &Units,
    region: Region,
    dots: &[(Inst, GroupMatrixId)],
    elsewhere: &dyn Fn(Value) -> bool,
    (across, whole): ColumnSharing<'_>,
) -> Vec<StagedOperand> {
    let mut out: Vec<StagedOperand> = Vec::new();
    for &(product, q) in dots {
        let (row, groups) = (&units.matrix[q.index()], across((product, q)));
        for operand in [0, 1] {
            let v = kernel.insts[product].args[operand];
            let held = operand == 0 && row.a.is_some() && in_rows(kernel, v) && (groups == 1 || whole(product));
            if elsewhere(v) || held {
                continue;
            }
            let Some((value, transposed, tile, seen)) = tile(kernel, units, row, v, (operand, groups)) else { continue };
            let one = StagedUse { product, operand, transposed: seen };
            match out.iter_mut().find(|s| s.value == value && s.transposed == transposed) {
                Some(s) => {
                    // The narrower columns are good for both.
                    if tile.swizzle < s.tile.swizzle {
                        s.tile = tile;
                    }
                    s.uses.push(one);
                }
                None => out.push(StagedOperand { value, transposed, tile, moves: moves(kernel, region, value), uses: vec![one] }),
            }
        }
    }
    // A register of a product in flight is not to be read: who stores a tile has all its products find it there.
    for &(product, q) in dots {
        let v = kernel.insts[product].args[0];
        let taken = |s: &StagedOperand| s.uses.iter().any(|u| u.product == product && u.operand == 0);
        if elsewhere(v) || out.iter().any(taken) {
            continue;
        }
        let Some((value, transposed, _, seen)) = tile(kernel, units, &units.matrix[q.index()], v, (0, 1)) else { continue };
        if let Some(s) = out.iter_mut().find(|s| s.value == value && s.transposed == transposed) {
            s.uses.push(StagedUse { product, operand: 0, transposed: seen });
        }
    }
    out
}

/// True for a value that loads of the ring bring.
pub(super) fn from_ring(kernel: &Kernel, loads: &[(Inst, SwizzledTile)], v: Value) -> bool {
    trace(kernel, v, &|j| loads.iter().find(|l| l.0 == j).map(|l| l.1.contiguous())).is_some()
}
