//! The dots of a specialised loop: which instruction of warpgroups each becomes, where its operands come from, and what they take of the registers.

use super::replay::{around, needs, slice_by};
use super::ring_layouts::RingLayouts;
use super::staged::may_be_staged;
use super::tensor_boxes::SwizzledTile;
use super::views::{is_view, keeps_extents, trace};
use crate::named::{Made, Named};
use crate::reason::{NoProduct, NotOperand, NotSpecialised};
use cranelift_entity::{EntityRef, SecondaryMap};
use tilelift_ir::{Attr, Inst, Kernel, Op, Precision, Region, Type, Value};
use tilelift_lane::hash::Set;
use tilelift_lane::{GroupMatrixId, Units};

/// An operand that is the same in every step, and waits in shared memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BroughtOperand {
    /// The operand.
    pub value: Value,
    /// The load behind it.
    pub load: Inst,
    /// Its tile.
    pub tile: SwizzledTile,
}

/// Why a load in the loop is not one that fills the ring.
pub(super) fn beside_products(kernel: &Kernel, load: Inst) -> NotSpecialised {
    NotSpecialised::Beside { load: Named::of(kernel, kernel.insts[load].results[0]), why: not_operand(kernel, load) }
}

/// Why a load is not for dots alone.
pub(crate) fn not_operand(kernel: &Kernel, load: Inst) -> NotOperand {
    let v = kernel.insts[load].results[0];
    if kernel.insts[load].present != 0 {
        return NotOperand::Masked;
    }
    if kernel.ty(v).elem().is_packed() {
        return NotOperand::Packed;
    }
    let mut seen = vec![v];
    let mut users = Vec::new();
    kernel.walk(kernel.body, &mut |i| {
        let d = &kernel.insts[i];
        let Some(n) = d.args.iter().position(|a| seen.contains(a)) else { return };
        let same = matches!(d.op, Op::Transpose) || d.op == Op::Reshape && keeps_extents(kernel, i) || is_view(kernel, i);
        match d.op {
            _ if same => seen.extend_from_slice(&d.results),
            Op::Dot if n < 2 && kernel.ty(d.args[n]).shape().is_some_and(|s| s.len() == 2) => {}
            _ => users.push(i),
        }
    });
    users.first().map_or(NotOperand::Unread, |&i| match kernel.insts[i].op {
        // Not what it adds to.
        Op::Dot if kernel.insts[i].args[..2].iter().any(|a| seen.contains(a)) => NotOperand::Batch,
        _ => NotOperand::Read { by: Made::of(kernel, i) },
    })
}

/// M and N of a dot.
pub(super) fn accumulator_shape(kernel: &Kernel, i: Inst) -> Option<[u32; 2]> {
    let t = kernel.ty(kernel.insts[i].results[0]).as_tile()?;
    (t.shape.len() == 2).then(|| [t.shape[0], t.shape[1]])
}

/// Registers per lane of the operands A that are in registers.
pub(super) fn a_from_registers(
    kernel: &Kernel,
    dots: &[(Inst, GroupMatrixId)],
    loads: &[(Inst, SwizzledTile)],
    elsewhere: &dyn Fn(Inst, Value) -> bool,
    lanes_of: &dyn Fn(Option<Inst>) -> u32,
) -> u32 {
    let contiguous = |j: Inst| loads.iter().find(|l| l.0 == j).map(|l| l.1.contiguous());
    let mut seen: Vec<Value> = Vec::new();
    for &(i, _) in dots {
        let a = kernel.insts[i].args[0];
        if trace(kernel, a, &contiguous).is_none() && !seen.contains(&a) && !elsewhere(i, a) {
            seen.push(a);
        }
    }
    seen.iter().map(|&v| operand_registers(kernel, v, lanes_of(kernel.def_inst(v)))).sum()
}

/// What stands in front of a loop, and of all loops around it, in the choices around those: it is done once where that loop is come to at all.
fn done_once(kernel: &Kernel, main: Inst) -> Set<Inst> {
    let mut out = Set::default();
    let mut region = kernel.body;
    for i in around(kernel, main).into_iter().chain([main]) {
        out.extend(kernel.regions[region].insts.iter().copied().take_while(|&j| j != i));
        let d = &kernel.insts[i];
        let inside = |r: &Region| {
            let mut found = false;
            kernel.walk(*r, &mut |j| found |= j == main);
            found
        };
        match d.regions.iter().copied().find(inside).filter(|_| d.op == Op::If) {
            Some(r) => region = r,
            None => break,
        }
    }
    out
}

/// Operands that are loaded in front of the loop, and of the loops around it, from what nobody writes, as bulk copies bring them: operands A, or operands
/// B (0, 1).
pub(super) fn invariant(
    kernel: &Kernel,
    units: &Units,
    (main, written): (Inst, &Set<Value>),
    dots: &[(Inst, GroupMatrixId)],
    loads: &[(Inst, SwizzledTile)],
    operand: usize,
) -> Vec<BroughtOperand> {
    let in_ring = |j: Inst| loads.iter().find(|l| l.0 == j).map(|l| l.1.contiguous());
    let once = done_once(kernel, main);
    let tile = |j: Inst| {
        let d = &kernel.insts[j];
        let shape = &kernel.ty(d.results[0]).as_tile()?.shape;
        let free = once.contains(&j) && d.present == 0 && !written.contains(&d.args[0]);
        SwizzledTile::of(kernel, j, shape, units, None).ok().filter(|_| free)
    };
    let mut out: Vec<BroughtOperand> = Vec::new();
    for &(i, q) in dots {
        let value = kernel.insts[i].args[operand];
        if trace(kernel, value, &in_ring).is_some() || out.iter().any(|b| b.value == value) {
            continue;
        }
        let found = trace(kernel, value, &|j| tile(j).map(|t| t.contiguous()));
        let fits = |along: usize| units.matrix[q.index()].any_order || along + operand == 1;
        if let Some((load, _)) = found.filter(|f| fits(f.1))
            && let Some(tile) = tile(load)
        {
            out.push(BroughtOperand { value, load, tile });
        }
    }
    out
}

/// The load behind an operand B that lies along its columns, and the bytes of a row of it that a group has where so many groups share the columns: whole
/// swizzle atoms.
pub(super) fn column_share(kernel: &Kernel, dot: Inst, across: u32, loads: &[(Inst, SwizzledTile)]) -> Option<(Inst, u32)> {
    let contiguous = |j: Inst| loads.iter().find(|l| l.0 == j).map(|l| l.1.contiguous());
    let b = kernel.insts[dot].args[1];
    let (load, along) = trace(kernel, b, &contiguous)?;
    let t = kernel.ty(b).as_tile()?;
    (across > 1 && along == 1).then(|| (load, t.shape[1] / across * t.elem.bytes()))
}

/// Registers per lane of an operand.
pub(super) fn operand_registers(kernel: &Kernel, v: Value, lanes: u32) -> u32 {
    let bytes = kernel.ty(v).as_tile().map_or(0, |t| t.elements() * u64::from(t.elem.bytes()));
    (bytes / 4 / u64::from(lanes)) as u32
}

/// True for a dot of a chain that adds, dot by dot, to what the loop carries, and whose accumulator nothing else looks at.
pub(crate) fn accumulates(kernel: &Kernel, region: Region, i: Inst) -> bool {
    let body = &kernel.regions[region].insts;
    let sole_use = |v: Value| {
        let mut uses = Vec::new();
        kernel.walk(kernel.body, &mut |j| {
            uses.extend((0..).zip(&kernel.insts[j].args).filter(|x| *x.1 == v).map(|(k, _): (usize, _)| (j, k)))
        });
        if let [only] = uses[..] { Some(only) } else { None }
    };
    let result = |i: Inst| kernel.insts[i].results[0];
    let mut first = i;
    let carried = loop {
        let accumulator = kernel.insts[first].args[2];
        if sole_use(accumulator) != Some((first, 2)) {
            return false;
        }
        match kernel.def_inst(accumulator) {
            Some(j) if kernel.insts[j].op == Op::Dot && body.contains(&j) => first = j,
            _ => break accumulator,
        }
    };
    let mut last = i;
    while let Some((j, 2)) = sole_use(result(last)).filter(|u| kernel.insts[u.0].op == Op::Dot && body.contains(&u.0)) {
        last = j;
    }
    let place = kernel.yields(region).iter().position(|&v| v == result(last));
    place.is_some_and(|k| kernel.regions[region].params[k + 1] == carried) && sole_use(result(last)).is_some()
}

/// How a dot of the loop is multiplied.
pub(super) struct Multiplication {
    /// The instruction.
    pub row: GroupMatrixId,
    /// Operand A goes from the ring through registers.
    pub through: bool,
    /// Operand B lies along its columns, and the instruction wants it along the rows: a task transposes it.
    pub transposed: bool,
}

/// The instruction for a dot of the loop. Unless more is done with it there, its accumulator must be carried from step to step, by other dots perhaps, and looked at by
/// nothing else, and its operands come from the loop's loads.
pub(super) fn multiplication(
    kernel: &Kernel,
    units: &Units,
    i: Inst,
    loads: &mut [(Inst, SwizzledTile)],
    by_lanes: &[Inst],
    ring_layouts: &RingLayouts,
) -> Result<Multiplication, NoProduct> {
    let d = &kernel.insts[i];
    let result = d.results[0];
    let named = || Named::of(kernel, result);
    let contiguous = |j: Inst| loads.iter().find(|l| l.0 == j).map(|l| l.1.contiguous());
    let [a, b] = [0, 1].map(|n| trace(kernel, d.args[n], &contiguous));
    let precision = match d.attrs.first() {
        Some(Attr::Precision(p)) => *p,
        _ => Precision::Exact,
    };
    let elem = |v: Value| kernel.ty(v).elem();
    let (Type::Tile(ta), Some([m, n])) = (kernel.ty(d.args[0]), accumulator_shape(kernel, i)) else {
        return Err(NoProduct::NoMatrices);
    };
    let k = ta.shape[1];
    let [ea, eb, acc] = [d.args[0], d.args[1], result].map(elem);
    let Some(at) = units.matrix.iter().position(|x| x.takes([ea, eb], acc, precision)) else {
        return Err(NoProduct::Types { elems: [ea, eb, acc], precision });
    };
    let row = &units.matrix[at];
    if !k.is_multiple_of(row.k) || (1..=2).all(|groups| row.shares([m, n], groups).is_none()) {
        return Err(NoProduct::Shape { shape: [m, n, k], groups: None, each: [row.m, row.k], columns: [row.n_step, row.n_max] });
    }
    if let Some(most) = row.promotion_depth.filter(|&most| k > most) {
        return Err(NoProduct::Depth { elem: row.operand, most, depth: k });
    }
    let staged = |n: usize| may_be_staged(kernel, units, row, d.args[n], n);
    if b.is_none() && !staged(1) {
        return Err(NoProduct::Right { result: named() });
    }
    if a.is_none() && row.a.is_none() && !staged(0) {
        return Err(NoProduct::AFromRegisters { result: named(), instruction: row.name });
    }
    let along_k = [a.is_none_or(|a| a.1 == 1), b.is_none_or(|b| b.1 == 0)];
    // Lanes fetch an operand as it is wanted, in whatever order it lies; otherwise it comes from memory, which is quicker.
    let transposed = !row.any_order && !along_k[0] && row.a.is_some();
    // Tensor maps round to tf32 on the way, lanes that copy do not: operand A is rounded in registers, and there is no way for B.
    let unrounded = |x: Option<(Inst, usize)>| precision == Precision::Tf32 && x.is_some_and(|x| by_lanes.contains(&x.0));
    if unrounded(b) {
        return Err(NoProduct::Unrounded { result: named() });
    }
    let through = a.is_some() && (unrounded(a) || ring_layouts.a_from_registers.get(&i).copied().unwrap_or(transposed));
    if through && row.a.is_none() {
        return Err(NoProduct::NoRegisters { instruction: row.name });
    }
    // A task transposes operands B. Words it takes about as long for as products take; they come here where operand A does not run along the depth, either.
    let transposable = matches!(row.operand.bytes(), 1 | 4);
    let lies = (along_k[0] || through) && (along_k[1] || transposable);
    if !(row.any_order || lies) {
        return Err(NoProduct::AlongK { elem: row.operand, through: transposed });
    }
    for (load, _) in a.into_iter().chain(b) {
        for (j, tile) in loads.iter_mut() {
            tile.tf32 |= *j == load && precision == Precision::Tf32;
        }
    }
    Ok(Multiplication { row: GroupMatrixId::new(at), through, transposed: !row.any_order && !along_k[1] })
}

/// True if an instruction holds dots.
pub(super) fn multiplies(kernel: &Kernel, i: Inst) -> bool {
    let mut found = false;
    kernel.insts[i].regions.iter().for_each(|&r| kernel.walk(r, &mut |j| found |= kernel.insts[j].op == Op::Dot));
    found
}

/// Why a dot is not multiplied: where an operand is not from the ring, by the load that brings it.
pub(super) fn unstaged(kernel: &Kernel, dot: Inst, staged: &SecondaryMap<Inst, bool>, why: NoProduct) -> NotSpecialised {
    if !matches!(why, NoProduct::Right { .. }) {
        return why.into();
    }
    let made = slice_by(kernel, vec![kernel.insts[dot].args[1]], &|i, take| needs(kernel, i, take));
    let load = made.into_iter().find(|&i| kernel.insts[i].op == Op::Load && !staged[i]);
    load.map_or_else(|| why.into(), |load| beside_products(kernel, load))
}
