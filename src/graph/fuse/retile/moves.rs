//! Ops that move or combine elements: along dimensions that are kept they do what they did.

use super::super::maker::Maker;
use super::super::report::Refusal;
use super::tags::{Tag, Tags};
use super::write::{Rep, Retile};
use tilelift_ir::ops::Rule;
use tilelift_ir::{Attr, Inst, Op, Type, Value};

impl<'g> Retile<'_, 'g> {
    pub(super) fn broadcast(&self, inst: Inst) -> Result<Rep, Refusal> {
        let kernel = &self.seen.node.kernel;
        let d = &kernel.insts[inst];
        let (from, to) = (kernel.ty(d.args[0]).shape().unwrap_or(&[]), kernel.ty(d.results[0]).shape().unwrap_or(&[]));
        match self.rep(d.args[0]) {
            Rep::Tile { value, tags } => {
                let grows = |k: usize| from[k] != to[k] && tags[k] != Tag::Same && tags[k] != Tag::Own(1);
                if (0..from.len()).any(grows) {
                    return Err(self.no(inst, "repeats elements of different places"));
                }
                let tags = tags.iter().map(|&t| if t == Tag::Own(1) { Tag::Same } else { t }).collect();
                Ok(Rep::Tile { value, tags })
            }
            other => Ok(other),
        }
    }

    pub(super) fn transpose(&self, maker: &mut Maker<'g>, inst: Inst, perm: &[u32]) -> Result<Rep, Refusal> {
        let d = &self.seen.node.kernel.insts[inst];
        match self.rep(d.args[0]) {
            Rep::Splat(v) => Ok(Rep::Splat(v)),
            Rep::Steps { axis, extent } => {
                let axis = perm.iter().position(|&p| p as usize == axis).unwrap_or(axis);
                Ok(Rep::Steps { axis, extent })
            }
            Rep::Tile { value, tags } if !self.unrolled => {
                let value = maker.op(Op::Transpose, &[value], &d.attrs, None)?;
                Ok(Rep::Tile { value, tags: perm.iter().map(|&p| tags[p as usize]).collect() })
            }
            Rep::Tile { value, tags } => Ok(Rep::Tile { value, tags }),
        }
    }

    /// Ops that combine or move elements along one dimension.
    pub(super) fn along(&mut self, maker: &mut Maker<'g>, inst: Inst, axis: usize) -> Result<Rep, Refusal> {
        let d = &self.seen.node.kernel.insts[inst];
        let rule = d.op.info().rule;
        let mut tags: Tags = Vec::new();
        for &a in &d.args {
            let rank = self.rank(a);
            let own = self.own(a, &[axis], rank, inst)?;
            for (k, t) in own.into_iter().enumerate() {
                match tags.get_mut(k) {
                    None => tags.push(t),
                    // The indices say how many.
                    Some(have) if k == axis && rule == Rule::GatherTile => *have = t,
                    Some(have) if k == axis && rule == Rule::Concat => *have = Tag::Own(self.frame.extent(*have) + self.frame.extent(t)),
                    Some(have) => {
                        *have = self.frame.join(*have, t).ok_or_else(|| self.no(inst, "combines elements of different places"))?
                    }
                }
            }
        }
        let mut args = Vec::new();
        for &a in &d.args {
            let mut wanted = tags.clone();
            wanted[axis] = match self.rep(a) {
                Rep::Tile { tags, .. } if tags[axis] != Tag::Same => tags[axis],
                _ => Tag::Own(self.seen.node.kernel.ty(a).shape().map_or(1, |s| s[axis])),
            };
            args.push(self.tile(maker, &self.rep(a), &wanted, inst)?);
        }
        let result = self.seen.node.kernel.ty(d.results[0]).shape().unwrap_or(&[]);
        match rule {
            Rule::Reduce | Rule::ArgReduce => {
                tags.remove(axis);
            }
            Rule::TopK | Rule::ArgTopK => tags[axis] = Tag::Own(result[axis]),
            _ => {}
        }
        let explicit = d.op.info().typed().then(|| Type::tile(&self.shape(&tags), self.seen.node.kernel.ty(d.results[0]).elem()));
        Ok(Rep::Tile { value: maker.op(d.op, &args, &d.attrs, explicit.as_ref())?, tags })
    }

    /// A part of a tile: dimensions that it cuts are kept.
    pub(super) fn slice(&mut self, maker: &mut Maker<'g>, inst: Inst) -> Result<Rep, Refusal> {
        let kernel = &self.seen.node.kernel;
        let d = &kernel.insts[inst];
        let (from, to) = (kernel.ty(d.args[0]).shape().unwrap_or(&[]), kernel.ty(d.results[0]).shape().unwrap_or(&[]));
        let Rep::Tile { value, mut tags } = self.rep(d.args[0]) else { return Err(self.no(inst, "cuts equal elements")) };
        let Some(Attr::Offsets(offsets)) = d.attrs.first() else { return Err(self.no(inst, "has no offsets")) };
        let mut offsets = offsets.clone();
        for k in 0..from.len() {
            match tags[k] {
                Tag::Same => offsets[k] = 0,
                _ if from[k] == to[k] => {}
                t if self.frame.is_kept(t) => tags[k] = Tag::Own(to[k]),
                _ => return Err(self.no(inst, "mixes the elements of a tile")),
            }
        }
        let ty = Type::tile(&self.shape(&tags), kernel.ty(d.results[0]).elem());
        Ok(Rep::Tile { value: maker.op(Op::Slice, &[value], &[Attr::Offsets(offsets)], Some(&ty))?, tags })
    }

    /// A reshape: dimensions stay, or extents of 1 come and go, or what is kept is cut and joined.
    pub(super) fn reshape(&mut self, maker: &mut Maker<'g>, inst: Inst) -> Result<Rep, Refusal> {
        let kernel = &self.seen.node.kernel;
        let d = &kernel.insts[inst];
        let shapes = (kernel.ty(d.args[0]).shape(), kernel.ty(d.results[0]).shape());
        let (Some(from), Some(to)) = shapes else { return Err(self.no(inst, "is not pointwise")) };
        let mixes = || self.no(inst, "mixes the dimensions of a tile");
        match self.rep(d.args[0]) {
            Rep::Splat(v) => Ok(Rep::Splat(v)),
            Rep::Steps { axis, extent } => {
                let places = places(from, to, &|k| from[k] != 1).ok_or_else(mixes)?;
                Ok(Rep::Steps { axis: places[axis].ok_or_else(mixes)?, extent })
            }
            Rep::Tile { .. } if self.unrolled => Err(mixes()),
            Rep::Tile { value, tags } => {
                // A tile of one element is at its place already.
                let moves = |t: Tag| self.frame.extent(t) > 1 || !self.frame.is_kept(t);
                let (value, new) = match places(from, to, &|k| from[k] != 1 || moves(tags[k])) {
                    Some(places) => {
                        let mut new: Tags = vec![Tag::Same; to.len()];
                        for (k, p) in places.iter().enumerate() {
                            if let Some(p) = p {
                                new[*p] = tags[k];
                            }
                        }
                        (value, new)
                    }
                    None => {
                        let (old, new) = self.regrouped(from, to, &tags).ok_or_else(mixes)?;
                        (self.tile(maker, &Rep::Tile { value, tags }, &old, inst)?, new)
                    }
                };
                let ty = Type::tile(&self.shape(&new), maker.kernel.ty(value).elem());
                Ok(Rep::Tile { value: maker.op(Op::Reshape, &[value], &[], Some(&ty))?, tags: new })
            }
        }
    }

    /// Groups of dimensions that hold the same elements: a group of one on both sides stays, others have to be kept.
    fn regrouped(&self, from: &[u32], to: &[u32], tags: &Tags) -> Option<(Tags, Tags)> {
        let (mut i, mut j) = (0, 0);
        let (mut old, mut new) = (tags.clone(), vec![Tag::Same; to.len()]);
        while i < from.len() || j < to.len() {
            let (a, b) = (i, j);
            let (mut m, mut n) = (1u64, 1u64);
            while a == i || b == j || m != n {
                match (from.get(i), to.get(j)) {
                    (Some(&e), _) if i == a || m < n => (m, i) = (m * u64::from(e), i + 1),
                    (_, Some(&e)) if j == b || n < m => (n, j) = (n * u64::from(e), j + 1),
                    _ => break,
                }
            }
            // Extents of 1 at the end belong to the last group.
            if i == a && j == b {
                return None;
            }
            if m != n {
                return None;
            }
            if let (1, 1) = (i - a, j - b) {
                new[b] = tags[a];
                continue;
            }
            if !(a..i).all(|k| self.frame.is_kept(tags[k])) {
                return None;
            }
            for k in a..i {
                old[k] = if let Tag::Of(_) = tags[k] { tags[k] } else { Tag::Own(from[k]) };
            }
            for k in b..j {
                new[k] = Tag::Own(to[k]);
            }
        }
        Some((old, new))
    }

    /// The tags of an operand whose dimensions along these axes have to be kept; what is the same all along there counts in full.
    fn own(&self, v: Value, axes: &[usize], rank: usize, inst: Inst) -> Result<Tags, Refusal> {
        let shape = self.seen.node.kernel.ty(v).shape().unwrap_or(&[]);
        let mut tags = match self.rep(v) {
            Rep::Tile { tags, .. } => tags,
            Rep::Steps { axis, extent } => {
                let mut tags = vec![Tag::Same; rank];
                tags[axis] = Tag::Own(extent);
                tags
            }
            Rep::Splat(_) => vec![Tag::Same; rank],
        };
        for &k in axes {
            if !self.frame.is_kept(tags[k]) {
                return Err(self.no(inst, "mixes the elements of a tile"));
            }
            if tags[k] == Tag::Same {
                tags[k] = Tag::Own(shape[k]);
            }
        }
        Ok(tags)
    }

    fn rank(&self, v: Value) -> usize {
        self.seen.node.kernel.ty(v).shape().map_or(0, <[u32]>::len)
    }
}

/// For each dimension of a reshape's operand that counts, its place in the result.
fn places(from: &[u32], to: &[u32], counts: &dyn Fn(usize) -> bool) -> Option<Vec<Option<usize>>> {
    let mut places = vec![None; from.len()];
    let mut next = 0;
    for k in (0..from.len()).filter(|&k| counts(k)) {
        let at = (next..to.len()).find(|&j| to[j] == from[k])?;
        if to[next..at].iter().any(|&e| e != 1) {
            return None;
        }
        (places[k], next) = (Some(at), at + 1);
    }
    to[next..].iter().all(|&e| e == 1).then_some(places)
}
