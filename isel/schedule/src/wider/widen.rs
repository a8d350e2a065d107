//! The kernel with its wider tiles.

use super::tags::{Tag, behind_reshape, counts};
use crate::rewrite::Rewrite;
use cranelift_entity::SecondaryMap;
use std::collections::BTreeMap;
use tilelift_ir::{Attr, GridAxis, Inst, Kernel, Op, Region, Scalar, Type, Value};

/// Most elements of a tile that is made: larger ones fit no registers.
const MOST: u64 = 1 << 17;

/// Positions that become one.
const FACTOR: u32 = 2;

/// The kernel with tiles of two positions in place of one; `None` where a tile that is alike for both can't be repeated, or one is too large.
pub(super) fn widened(kernel: &Kernel, axis: usize, grid: GridAxis, tags: &SecondaryMap<Value, Tag>) -> Option<Kernel> {
    let mut out = Widen { made: Rewrite::of(kernel), was: kernel, tags };
    let mut any = false;
    for v in kernel.values.keys() {
        if let Some(d) = tags[v].along {
            out.made.kernel.values[v].ty = longer(kernel.ty(v), d)?;
            any = true;
        }
    }
    if !any {
        return None;
    }
    out.region(kernel.body)?;
    let mut made = out.made.kernel;
    count_instances(&mut made, grid);
    made.positions[axis] *= FACTOR;
    Some(made)
}

/// A tile type with a longer dimension.
fn longer(ty: &Type, d: usize) -> Option<Type> {
    let mut out = ty.clone();
    let Type::Tile(t) = &mut out else { return None };
    let extent = t.shape.get_mut(d)?;
    *extent = extent.checked_mul(FACTOR)?;
    (t.elements() <= MOST).then_some(out)
}

/// Has `program_id` and `num_programs` of an axis, which count instances from now on, say positions.
fn count_instances(kernel: &mut Kernel, grid: GridAxis) {
    let mut found: Vec<(Region, Inst)> = Vec::new();
    for (r, data) in kernel.regions.iter() {
        let asks = |&&i: &&Inst| {
            let d = &kernel.insts[i];
            matches!(d.op, Op::ProgramId | Op::NumPrograms) && d.attrs.first() == Some(&Attr::Grid(grid))
        };
        found.extend(data.insts.iter().filter(asks).map(|&i| (r, i)));
    }
    let mut by: BTreeMap<Value, Value> = BTreeMap::new();
    let users: Vec<Inst> = kernel.insts.keys().collect();
    for (r, i) in found {
        let (loc, asked) = (kernel.locs[i], kernel.insts[i].results[0]);
        let int = Type::Scalar(Scalar::I32);
        let factor =
            kernel.add_inst(Op::Const, &[], 0, &[Attr::Literal(tilelift_ir::Literal::Int(FACTOR.into()))], &[], std::slice::from_ref(&int));
        let factor_value = kernel.insts[factor].results[0];
        let first = kernel.add_inst(Op::Mul, &[asked, factor_value], 0, &[], &[], &[int]);
        by.insert(asked, kernel.insts[first].results[0]);
        let insts = &mut kernel.regions[r].insts;
        let at = insts.iter().position(|&j| j == i).map_or(0, |at| at + 1);
        insts.splice(at..at, [factor, first]);
        kernel.locs[factor] = loc;
        kernel.locs[first] = loc;
    }
    for i in users {
        kernel.insts[i].args.iter_mut().for_each(|a| *a = by.get(a).copied().unwrap_or(*a));
    }
}

struct Widen<'k> {
    made: Rewrite,
    was: &'k Kernel,
    tags: &'k SecondaryMap<Value, Tag>,
}

impl Widen<'_> {
    fn region(&mut self, r: Region) -> Option<()> {
        let kernel = self.was;
        for &i in &kernel.regions[r].insts {
            self.inst(r, i)?;
            for &inner in &kernel.insts[i].regions {
                self.region(inner)?;
            }
        }
        Some(())
    }

    /// Has an instruction read longer tiles where it makes one, or hands one on.
    fn inst(&mut self, r: Region, i: Inst) -> Option<()> {
        let kernel = self.was;
        let d = &kernel.insts[i];
        let wants: Vec<(usize, usize)> = match d.op {
            Op::Yield => {
                let Some(holder) = kernel.holder(r) else { return Some(()) };
                // What a region that combines elements yields are scalars.
                let handed = &kernel.insts[holder].results;
                d.args
                    .iter()
                    .enumerate()
                    .filter_map(|(k, _)| Some((k, self.tags[*handed.get(k)?].along?)))
                    .filter(|&(k, _)| self.is_tile(d.args[k]))
                    .collect()
            }
            Op::For => (3..d.args.len()).filter_map(|k| Some((k, self.tags[d.results[k - 3]].along?))).collect(),
            Op::If => Vec::new(),
            Op::Store | Op::Scatter | Op::Atomic | Op::AtomicCas | Op::Assert => self.all_along(i),
            Op::Dot => self.factors(i),
            Op::Splat | Op::Iota | Op::Broadcast | Op::Reshape => Vec::new(),
            Op::Add if self.makes_places(i) => return self.places(r, i),
            _ if d.results.iter().any(|&v| self.tags[v].along.is_some()) => self.all_along(i),
            _ => Vec::new(),
        };
        for (k, dim) in wants {
            let v = d.args[k];
            if self.is_tile(v) && self.tags[v].along.is_none() {
                let again = self.repeated((r, i), v, dim)?;
                self.made.kernel.insts[i].args[k] = again;
            }
        }
        Some(())
    }

    fn is_tile(&self, v: Value) -> bool {
        self.was.ty(v).as_tile().is_some()
    }

    /// All tiles that an instruction reads, along the dimension of one that is longer.
    fn all_along(&self, i: Inst) -> Vec<(usize, usize)> {
        let d = &self.was.insts[i];
        let dim = d.results.iter().chain(&d.args).find_map(|&v| self.tags[v].along);
        let dim = match d.op {
            // Of what the index steps over, where no tile that is read is longer.
            Op::Store => self.was.operand(i, "indices").iter().position(|&v| self.tags[v].times != 0),
            // Operands have a dimension that results lack.
            _ => d.args.iter().find_map(|&v| self.tags[v].along).or(dim),
        };
        dim.map_or_else(Vec::new, |dim| (0..d.args.len()).map(|k| (k, dim)).collect())
    }

    /// The accumulator of a product that is longer.
    fn factors(&self, i: Inst) -> Vec<(usize, usize)> {
        let d = &self.was.insts[i];
        let Some(dim) = self.tags[d.results[0]].along else { return Vec::new() };
        vec![(2, dim)]
    }

    /// True for a sum of the position's multiples and of what counts upwards: coordinates.
    fn makes_places(&self, i: Inst) -> bool {
        let d = &self.was.insts[i];
        self.tags[d.results[0]].along.is_some() && d.args.iter().all(|&v| self.tags[v].along.is_none())
    }

    /// Coordinates of a longer tile count further, from the first position's on.
    fn places(&mut self, r: Region, i: Inst) -> Option<()> {
        let d = &self.was.insts[i];
        let dim = self.tags[d.results[0]].along?;
        for k in 0..2 {
            let v = d.args[k];
            let again = if self.tags[v].alike() { self.counted((r, i), v, dim)? } else { self.repeated((r, i), v, dim)? };
            self.made.kernel.insts[i].args[k] = again;
        }
        Some(())
    }

    /// A tile that is alike for all positions, as often as there are some, behind one another along a dimension.
    fn repeated(&mut self, at: (Region, Inst), v: Value, dim: usize) -> Option<Value> {
        let kernel = self.was;
        let ty = longer(kernel.ty(v), dim)?;
        if kernel.ty(v).shape()?.get(dim) == Some(&1) {
            return Some(self.made.put(at, (Op::Broadcast, &[v], &[]), ty));
        }
        let d = &kernel.insts[kernel.def_inst(v)?];
        let args = match d.op {
            Op::Splat => d.args.to_vec(),
            Op::Broadcast if kernel.ty(d.args[0]).shape()?.get(dim) == Some(&1) => d.args.to_vec(),
            Op::Broadcast => vec![self.repeated(at, d.args[0], dim)?],
            Op::Reshape => {
                let (from, to) = (kernel.ty(d.args[0]).shape()?, kernel.ty(v).shape()?);
                vec![self.repeated(at, d.args[0], behind_reshape(to, from, dim)?)?]
            }
            op if kernel.is_elementwise(kernel.def_inst(v)?) && op.info().results() == 1 => {
                let again = |this: &mut Self, v: Value| if this.is_tile(v) { this.repeated(at, v, dim) } else { Some(v) };
                d.args.clone().iter().map(|&v| again(self, v)).collect::<Option<_>>()?
            }
            _ => return None,
        };
        Some(self.made.put(at, (d.op, &args, &d.attrs), ty))
    }

    /// A tile that counts upwards along a dimension, further.
    fn counted(&mut self, at: (Region, Inst), v: Value, dim: usize) -> Option<Value> {
        let kernel = self.was;
        let ty = longer(kernel.ty(v), dim)?;
        let d = &kernel.insts[kernel.def_inst(v)?];
        let args = match (d.op, d.attrs.first()) {
            (Op::Iota, _) => Vec::new(),
            (Op::Broadcast, _) => vec![self.counted(at, d.args[0], dim)?],
            (Op::Reshape, _) => {
                let (from, to) = (kernel.ty(d.args[0]).shape()?, kernel.ty(v).shape()?);
                vec![self.counted(at, d.args[0], behind_reshape(to, from, dim)?)?]
            }
            (Op::Transpose, Some(Attr::Perm(p))) => vec![self.counted(at, d.args[0], *p.get(dim)? as usize)?],
            (Op::Add, _) => {
                let one = |this: &mut Self, v: Value| {
                    if counts(kernel, v).is_some() { this.counted(at, v, dim) } else { this.repeated(at, v, dim) }
                };
                vec![one(self, d.args[0])?, one(self, d.args[1])?]
            }
            _ => return None,
        };
        Some(self.made.put(at, (d.op, &args, &d.attrs), ty))
    }
}
