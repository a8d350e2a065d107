//! What a task can compute again by itself, without what the other tasks make: the scalars that say how many copies there are, and from where.
//!
//! ```text
//! parameters, grid position ─┐
//! the loop's index ──────────┼─ pure ops, loops and choices of such ─┬─► bounds of the loop, indices of its copies
//! views that nobody writes ──┘  (page tables, offsets, block lists)  └─► scalars that the loop carries, if they follow from the same
//! ```
//!
//! A view that the kernel only reads gives the same numbers to whoever reads it, whenever. Tiles take part while they are small: each task
//! that needs them computes them again.

pub(crate) use crate::written::written_views;
use std::collections::BTreeSet;
use tilelift_ir::{Effects, Inst, Kernel, Op, Region, Type, Value, ValueDef};
use tilelift_lane::hash::Set;

/// Elements of a tile that is computed again at most: a few registers of each lane.
const SMALL: u64 = 1024;

/// What values are made of, as far as a task computes it again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Replay {
    /// The instructions, and those in their regions.
    pub insts: BTreeSet<Inst>,
    /// Which values that the loop, and loops around it, carry take part, by their number.
    pub carried: BTreeSet<(Inst, usize)>,
    /// Memory is read.
    pub reads: bool,
    /// Tiles of more than one element are computed.
    pub tiles: bool,
}

impl Replay {
    /// What is in another one, too.
    pub(crate) fn add(&mut self, other: Replay) {
        self.insts.extend(other.insts);
        self.carried.extend(other.carried);
        self.reads |= other.reads;
        self.tiles |= other.tiles;
    }
}

/// The loops and choices around an instruction, the outermost one first.
pub(crate) fn around(kernel: &Kernel, inst: Inst) -> Vec<Inst> {
    fn find(kernel: &Kernel, r: Region, inst: Inst, out: &mut Vec<Inst>) -> bool {
        kernel.regions[r].insts.iter().any(|&i| {
            out.push(i);
            let found = i == inst || kernel.insts[i].regions.iter().any(|&r| find(kernel, r, inst, out));
            if !found {
                out.pop();
            }
            found
        })
    }
    let mut out = Vec::new();
    find(kernel, kernel.body, inst, &mut out);
    out.pop();
    out
}

/// What decides how often a loop goes round, or which arm of a choice is taken.
pub(crate) fn decisions(kernel: &Kernel, i: Inst) -> Vec<Value> {
    let d = &kernel.insts[i];
    let n = if d.op == Op::For { 3 } else { 1 };
    d.args[..n.min(d.args.len())].to_vec()
}

/// The values that an instruction needs: its operands, and what its regions take from around them.
pub(crate) fn needs(kernel: &Kernel, i: Inst, take: &mut dyn FnMut(Value)) {
    kernel.insts[i].args.iter().for_each(|&v| take(v));
    for &r in &kernel.insts[i].regions {
        kernel.walk(r, &mut |j| kernel.insts[j].args.iter().for_each(|&v| take(v)));
    }
}

/// True if an instruction, or one in its regions, has such a value as operand.
pub(crate) fn looks_at(kernel: &Kernel, i: Inst, at: impl Fn(Value) -> bool) -> bool {
    let mut found = false;
    needs(kernel, i, &mut |v| found |= at(v));
    found
}

/// What values are made of.
pub(super) fn slice(kernel: &Kernel, open: Vec<Value>) -> BTreeSet<Inst> {
    slice_by(kernel, open, &|i, take| needs(kernel, i, take))
}

/// What is called for each value that an instruction is said to need.
pub(super) type Take<'a> = &'a mut dyn FnMut(Value);

/// What values are made of, by way of the values that each instruction is said to need.
pub(crate) fn slice_by(kernel: &Kernel, mut open: Vec<Value>, by: &dyn Fn(Inst, Take<'_>)) -> BTreeSet<Inst> {
    let mut slice = BTreeSet::new();
    while let Some(v) = open.pop() {
        if let ValueDef::Result(i, _) = kernel.values[v].def
            && slice.insert(i)
        {
            by(i, &mut |v| open.push(v));
        }
    }
    slice
}

/// What values are made of, if a task computes them again: in the loop `main`, in loops around it or in front of it, as far as they are not
/// `there`.
///
/// # Errors
/// A value that follows from what others make.
pub(crate) fn replay(
    kernel: &Kernel,
    (main, around): (Inst, &[Inst]),
    written: &Set<Value>,
    wanted: Vec<Value>,
    there: &dyn Fn(Value) -> bool,
) -> Result<Replay, Value> {
    // The task goes through the loops as well.
    let runs = |r: Region| kernel.holder(r).filter(|i| *i == main || around.contains(i)).filter(|&i| kernel.insts[i].op == Op::For);
    let mut out = Replay::default();
    let mut seen: Set<Value> = Set::default();
    let mut open = wanted;
    while let Some(v) = open.pop() {
        if !seen.insert(v) || there(v) {
            continue;
        }
        match kernel.values[v].def {
            ValueDef::KernelParam(_) => {}
            ValueDef::RegionParam(r, n) if runs(r).is_some() => {
                let (Some(i), Some(n)) = (runs(r), (n as usize).checked_sub(1)) else { continue };
                let (first, next) = (kernel.insts[i].args.get(3 + n), kernel.yields(r).get(n));
                let (Some(&first), Some(&next), Type::Scalar(_)) = (first, next, kernel.ty(v)) else { return Err(v) };
                out.carried.insert((i, n));
                open.extend([first, next]);
            }
            // Those of loops and choices that are computed again with all that is in them.
            ValueDef::RegionParam(r, _) => {
                if !encloses(kernel, &out.insts, r) {
                    return Err(v);
                }
            }
            ValueDef::Result(i, _) => {
                if i == main || around.contains(&i) || !again(kernel, i, written, &mut out) {
                    return Err(v);
                }
                out.insts.insert(i);
                for &r in &kernel.insts[i].regions {
                    kernel.walk(r, &mut |j| _ = out.insts.insert(j));
                }
                needs(kernel, i, &mut |v| open.push(v));
            }
        }
    }
    Ok(out)
}

/// True if a region belongs to an instruction that is taken whole.
fn encloses(kernel: &Kernel, insts: &BTreeSet<Inst>, r: Region) -> bool {
    kernel.holder(r).is_some_and(|i| insts.contains(&i))
}

/// True for an instruction that may be done again, with all that its regions hold.
fn again(kernel: &Kernel, i: Inst, written: &Set<Value>, out: &mut Replay) -> bool {
    let d = &kernel.insts[i];
    let read_only = || d.args.first().is_some_and(|v| !written.contains(v));
    let may = match d.op.info().effects {
        Effects::Pure => d.op != Op::Dot,
        Effects::Reads => {
            out.reads = true;
            read_only()
        }
        Effects::Control => true,
        Effects::Writes
        | Effects::Updates
        | Effects::Observes
        | Effects::Shared
        | Effects::AsyncReads
        | Effects::AsyncWrites
        | Effects::AsyncUpdates => false,
    };
    let elements = d.results.iter().filter_map(|&v| kernel.ty(v).as_tile()).map(|t| t.elements()).max().unwrap_or(0);
    out.tiles |= elements > 1;
    // Lanes make of a tile of indices what they look at.
    let taken = d.args.iter().filter_map(|&v| kernel.ty(v).as_tile()).map(|t| t.elements()).max().unwrap_or(0);
    let spread = kernel.is_elementwise(i) || matches!(d.op, Op::Iota | Op::Splat | Op::Broadcast | Op::Reshape);
    may && (spread || elements.max(taken) <= SMALL)
        && d.regions.iter().all(|&r| kernel.regions[r].insts.iter().all(|&j| again(kernel, j, written, out)))
}

#[cfg(test)]
mod tests {
    use super::{around, replay, written_views};
    use tilelift_ir::{Op, text};

    /// What a task needs for the first index of the loads of tiles of 64 columns in the loop; the line of what it can't compute.
    fn of(body: &str) -> Result<(usize, bool, bool), u32> {
        let head = "kernel @k(v0: view<f32, [?, 64]>, v1: view<i32, [?]>, v2: i32, v3: view<i32, [?]>) {\n";
        let file = text::parse(&format!("{head}{body}\n}}")).unwrap_or_else(|e| panic!("{e}\n{body}"));
        let k = &file.kernels[0];
        let main = k.regions[k.body].insts.iter().copied().rfind(|&i| k.insts[i].op == Op::For).expect("a loop");
        let mut wanted = k.insts[main].args[..3].to_vec();
        for &i in &k.regions[k.insts[main].regions[0]].insts {
            let wide = |i| k.ty(k.insts[i].results[0]).shape().is_some_and(|s| s.last() == Some(&64));
            if k.insts[i].op == Op::Load && wide(i) {
                wanted.extend(k.operand(i, "indices"));
            }
        }
        match replay(k, (main, &around(k, main)), &written_views(k), wanted, &|_| false) {
            Ok(r) => Ok((r.carried.len(), r.reads, r.tiles)),
            Err(v) => Err(k.def_inst(v).map_or(0, |i| k.locs[i].line)),
        }
    }

    #[test]
    fn tables_that_nobody_writes_are_read_again() {
        let body = |more: &str| {
            format!(
                "for v10 in 0..v2 step 1 {{
                     v11 = load v1[v10] : tile<1xi32>
                     v12 = reshape v11 : i32
                     v13 = load v0[v12, 0] : tile<16x64xf32>
                     {more}
                 }}"
            )
        };
        assert_eq!(of(&body("")), Ok((0, true, false)));
        assert_eq!(of(&body("store v3[v10], v11")), Ok((0, true, false)));
        assert_eq!(of(&body("store v1[v10], v11")), Err(3));
    }

    #[test]
    fn carried_scalars_follow_if_their_beginning_and_their_next_do() {
        let body = |next: &str| {
            format!(
                "v9 = splat 0.0 : tile<16x64xf32>
                 v20, v21 = for v10 in 0..v2 step 1 carry v11 = 5, v12 = v9 {{
                     v13 = load v0[v11, 0] : tile<16x64xf32>
                     v14 = add v12, v13
                     v15 = {next}
                     yield v15, v14
                 }}"
            )
        };
        assert_eq!(of(&body("add v11, 16")), Ok((1, false, false)));
        let summed = "reduce add v14, axis 0\n v16 = reduce add v15, axis 0\n v17 = cast v16 : i32";
        assert_eq!(of(&body(summed).replace("yield v15", "yield v17")).ok(), None);
    }

    #[test]
    fn tiles_and_loops_in_front_are_computed_again_while_they_are_small() {
        let front = |extent: u32| {
            format!(
                "v4 = load v1[0] : tile<{extent}xi32>
                 v5 = scan add v4, axis 0
                 v6 = reduce add v5, axis 0
                 v7 = for v30 in 0..v2 step 1 carry v31 = v6 {{
                     v32 = load v1[v30] : tile<1xi32>
                     v33 = reshape v32 : i32
                     v34 = add v31, v33
                     yield v34
                 }}
                 for v10 in v7..v2 step 1 {{
                     v13 = load v0[v10, 0] : tile<16x64xf32>
                 }}"
            )
        };
        assert_eq!(of(&front(64)), Ok((0, true, true)));
        assert_eq!(of(&front(2048)), Err(4));
    }
}
