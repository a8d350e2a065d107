//! Products with fewer rows, fewer columns or less depth than any matrix instruction has: padded with zeros, and the part that is asked for is taken.
//!
//! ```text
//! dot a, b, c : 8x128          ─►          p = concat a, 0      s = concat c, 0      d = dot p, b, s : 16x128      slice d, [0, 0] : 8x128
//! ```
//!
//! Lanes would multiply and add each element by itself. Layouts of instructions have the rows behind the eighth in other registers of the same lanes, so
//! padding moves nothing: those registers hold zeros. What is summed up for nothing is bounded by what an instruction is quicker than lanes
//! (`most_waste`).
//!
//! The rewrite is from tile IR to tile IR, and says nothing of how the kernel runs.

use crate::plan::is_zero;
use crate::rewrite::Rewrite;
use tilelift_decisions::{Decision, Told, taken};
use tilelift_ir::{Attr, Inst, Kernel, Op, Precision, Region, Scalar, Shape, Type, Value};
use tilelift_lane::Target;

/// How many sums a matrix instruction makes in the time in which lanes make one, at least, by the bytes of a factor.
fn most_waste(factor: Scalar) -> u64 {
    match factor.bytes() {
        1 => 32,
        2 => 16,
        4 => 4,
        _ => 2,
    }
}

/// More products than so many are left as they are: each takes a look at all that stands in front of it.
const MOST: usize = 512;

/// The kernel with those of its products padded that have no matrix instruction as they are; `None` if there are none or very many, or its author says how it runs.
pub fn padded(kernel: &Kernel, target: &Target) -> Option<Kernel> {
    if kernel.is_explicit() || !kernel.insts.values().any(|d| d.op == Op::Dot) || kernel.insts.values().any(|d| d.op == Op::RequireLayout) {
        return None;
    }
    let mut found: Vec<(Region, Inst, [u32; 3])> = Vec::new();
    for region in kernel.regions.keys() {
        let dots = kernel.regions[region].insts.iter().filter(|&&i| kernel.insts[i].op == Op::Dot);
        found.extend(dots.filter_map(|&i| Some((region, i, extents(kernel, target, i)?))));
    }
    if found.is_empty() || found.len() > MOST {
        return None;
    }
    taken(Decision::Padding, || Told::of(format!("{} products padded to the extents of a matrix instruction", found.len())));
    let mut out = Rewrite::of(kernel);
    for (region, i, to) in found {
        product(&mut out, region, i, to);
    }
    Some(out.finish())
}

/// The rows, columns and depth to which a product without an instruction is padded, if there is one then, and that pays.
fn extents(kernel: &Kernel, target: &Target, i: Inst) -> Option<[u32; 3]> {
    let d = &kernel.insts[i];
    let tile = |v: Value| kernel.ty(v).as_tile();
    let (a, b, c) = (tile(d.args[0])?, tile(d.args[1])?, tile(d.results[0])?);
    if a.elem.is_packed() || b.elem.is_packed() {
        return None;
    }
    let precision = match d.attrs.first() {
        Some(Attr::Precision(Precision::Tf32x3)) => Precision::Tf32,
        Some(Attr::Precision(p)) => *p,
        _ => Precision::Exact,
    };
    let rank = c.shape.len();
    let has = [c.shape[rank - 2], c.shape[rank - 1], a.shape[rank - 1]];
    let volume = |e: [u32; 3]| e.iter().map(|&e| u64::from(e)).product::<u64>();
    // Of powers of two one that is no multiple is less. Tiles of other extents are not put together.
    if !has.iter().all(|e| e.is_power_of_two()) {
        return None;
    }
    let padded = |q: usize| {
        let s = target.matrix[q].shape;
        [has[0].max(s[0]), has[1].max(s[1]), has[2].max(s[2])]
    };
    let best = target.matrices([a.elem, b.elem], c.elem, precision).map(padded).min_by_key(|&e| volume(e))?;
    (best != has && volume(best) <= most_waste(a.elem) * volume(has)).then_some(best)
}

/// Pads a product; everyone sees its result as it was.
fn product(out: &mut Rewrite, region: Region, i: Inst, [m, n, k]: [u32; 3]) {
    let d = out.kernel.insts[i].clone();
    let at = (region, i);
    let a = grown(out, at, d.args[0], [m, k]);
    let b = grown(out, at, d.args[1], [k, n]);
    let c = grown(out, at, d.args[2], [m, n]);
    let (result, whole) = (d.results[0], out.kernel.ty(c).clone());
    let sums = out.put(at, (Op::Dot, &[a, b, c], &d.attrs), whole);
    let was = out.kernel.ty(result).clone();
    let origin: Shape = was.shape().unwrap_or_default().iter().map(|_| 0).collect();
    let part = out.put(at, (Op::Slice, &[sums], &[Attr::Offsets(origin)]), was);
    out.replace(result, part);
    out.kernel.regions[region].insts.retain(|&j| j != i);
}

/// A tile whose last two extents are these, with zeros behind what it holds.
fn grown(out: &mut Rewrite, at: (Region, Inst), v: Value, to: [u32; 2]) -> Value {
    let Some(mut tile) = out.kernel.ty(v).as_tile().cloned() else { return v };
    let rank = tile.shape.len();
    if is_zero(&out.kernel, v) {
        tile.shape[rank - 2..].copy_from_slice(&to);
        return out.nothing(at, &Type::Tile(tile)).unwrap_or(v);
    }
    let mut v = v;
    for (axis, &to) in (rank - 2..rank).zip(&to) {
        while tile.shape[axis] < to {
            let Some(rest) = out.nothing(at, &Type::Tile(tile.clone())) else { return v };
            tile.shape[axis] *= 2;
            v = out.put(at, (Op::Concat, &[v, rest], &[Attr::Dim(axis as u32)]), Type::Tile(tile.clone()));
        }
    }
    v
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilelift_ir::text;
    use tilelift_lane::testing::target;

    /// So many products of 8 rows, each added to the one before.
    fn products(count: usize) -> Kernel {
        let dots: String = (0..count).map(|n| format!("    %c{} = dot %a, %b, %c{n}\n", n + 1)).collect();
        let source = format!(
            "kernel @k(%x: view<f16, [?, ?]>, %o: view<f32, [?, ?]>) {{
    %a = load %x[0, 0] : tile<8x16xf16>
    %b = load %x[8, 0] : tile<16x8xf16>
    %c0 = splat 0.0 : tile<8x8xf32>
{dots}    store %o[0, 0], %c{count}
}}
"
        );
        text::parse(&source).expect("it parses").kernels.remove(0)
    }

    #[test]
    fn products_short_of_an_instruction_are_padded_unless_there_are_very_many() {
        let made = padded(&products(3), &target()).expect("an instruction has 16 rows");
        let rows = |d: &tilelift_ir::InstData| made.ty(d.results[0]).shape().map(|s| s[0]);
        let dots = || made.regions[made.body].insts.iter().map(|&i| &made.insts[i]).filter(|d| d.op == Op::Dot);
        assert_eq!(dots().count(), 3);
        assert!(dots().all(|d| rows(d) == Some(16)));
        assert!(padded(&products(MOST + 1), &target()).is_none());
    }
}
