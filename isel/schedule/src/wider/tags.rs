//! What a grid position decides of each value.

use cranelift_entity::SecondaryMap;
use tilelift_ir::propagate::{Pass, pass_at};
use tilelift_ir::{Attr, GridAxis, Inst, Kernel, Literal, Op, Region, Value};

/// What a grid position decides of a value. Everything else of it is alike for all positions along the axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tag {
    /// Of a tile: each position has another part of a longer tile, along this dimension.
    pub along: Option<usize>,
    /// Of an integer, or of all elements of a tile of integers: so often the position is added.
    pub times: i64,
}

impl Tag {
    /// True where all positions have the same.
    pub fn alike(self) -> bool {
        self == Tag::default()
    }

    fn along(d: usize) -> Tag {
        Tag { along: Some(d), times: 0 }
    }
}

/// The tags of a kernel's values; `None` where a position decides what no tag says.
pub(super) fn tags(kernel: &Kernel, axis: GridAxis) -> Option<SecondaryMap<Value, Tag>> {
    let mut found = Tags { kernel, axis, of: SecondaryMap::new(), looks: LOOKS * (kernel.insts.len() + 1) };
    found.region(kernel.body)?;
    Some(found.of)
}

/// How often each instruction is looked at, at most, in the mean.
const LOOKS: usize = 16;

struct Tags<'k> {
    kernel: &'k Kernel,
    axis: GridAxis,
    of: SecondaryMap<Value, Tag>,
    /// Instructions that may still be looked at: loops in loops are looked at again and again.
    looks: usize,
}

impl Tags<'_> {
    fn region(&mut self, r: Region) -> Option<()> {
        let kernel = self.kernel;
        self.looks = self.looks.checked_sub(kernel.regions[r].insts.len())?;
        kernel.regions[r].insts.iter().try_for_each(|&i| self.inst(i))
    }

    /// Both tags of a value that comes from two places.
    fn join(&self, v: Value, a: Tag, b: Tag) -> Option<Tag> {
        match (a.along, b.along) {
            (Some(x), Some(y)) if x != y => None,
            _ if self.kernel.ty(v).as_tile().is_some() && a.times == 0 && b.times == 0 => {
                Some(Tag { along: a.along.or(b.along), times: 0 })
            }
            _ => (a == b).then_some(a),
        }
    }

    /// Sets what a value is, or keeps what it was; true if it is something else now.
    fn meet(&mut self, v: Value, tag: Tag) -> Option<bool> {
        let now = self.join(v, self.of[v], tag)?;
        let changed = self.of[v] != now;
        self.of[v] = now;
        Some(changed)
    }

    fn inst(&mut self, i: Inst) -> Option<()> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        match d.op {
            Op::For => return self.counted(i),
            Op::If => return self.choice(i),
            Op::While | Op::Tasks => return None,
            Op::Yield => return Some(()),
            _ => {}
        }
        let tag = self.result(i)?;
        // Elements are combined alike at all positions.
        for &r in &d.regions {
            self.region(r)?;
            let last = kernel.terminator(r)?;
            if !kernel.insts[last].args.iter().all(|&v| self.of[v].alike()) {
                return None;
            }
        }
        for &v in &d.results {
            self.of[v] = tag;
        }
        Some(())
    }

    /// A loop: what it carries is what it begins as and what a round leaves.
    fn counted(&mut self, i: Inst) -> Option<()> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        if !d.args[..3].iter().all(|&v| self.of[v].alike()) {
            return None;
        }
        let body = d.regions[0];
        let params = &kernel.regions[body].params[1..];
        for (&param, &init) in params.iter().zip(&d.args[3..]) {
            self.of[param] = self.of[init];
        }
        // A dimension becomes longer once.
        for _ in 0..=params.len() {
            self.region(body)?;
            let last = kernel.terminator(body)?;
            let mut changed = false;
            for (&param, &next) in params.iter().zip(&kernel.insts[last].args) {
                changed |= self.meet(param, self.of[next])?;
            }
            if !changed {
                for (&result, &param) in d.results.iter().zip(params) {
                    self.of[result] = self.of[param];
                }
                return Some(());
            }
        }
        None
    }

    /// A choice that all positions make alike.
    fn choice(&mut self, i: Inst) -> Option<()> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        if !self.of[d.args[0]].alike() {
            return None;
        }
        for &v in &d.results {
            self.of[v] = Tag::default();
        }
        for (n, &arm) in d.regions.iter().enumerate() {
            self.region(arm)?;
            let last = kernel.terminator(arm)?;
            for (&v, &given) in d.results.iter().zip(&kernel.insts[last].args) {
                match n {
                    0 => self.of[v] = self.of[given],
                    _ => {
                        self.meet(v, self.of[given])?;
                    }
                }
            }
        }
        Some(())
    }

    fn shape(&self, v: Value) -> Option<&[u32]> {
        self.kernel.ty(v).as_tile().map(|t| &t.shape[..])
    }

    fn literal(&self, v: Value) -> Option<i64> {
        match self.kernel.as_const(v)?.0 {
            Literal::Int(n) => Some(n),
            _ => None,
        }
    }

    /// The tag of an instruction's results.
    fn result(&self, i: Inst) -> Option<Tag> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let pass = pass_at(kernel, i);
        match (d.op, d.attrs.first()) {
            (Op::ProgramId, Some(Attr::Grid(axis))) => return Some(Tag { along: None, times: i64::from(*axis == self.axis) }),
            (Op::Load | Op::Store, _) => return self.access(i),
            _ if d.args.iter().all(|&v| self.of[v].alike()) => {
                // What all positions do alike may be done once, unless others see how often.
                let seen = matches!(pass, Pass::Write | Pass::Update) || matches!(d.op, Op::Print);
                return (!seen).then(Tag::default);
            }
            _ => {}
        }
        if d.args.iter().any(|&v| self.of[v].times != 0) {
            return self.places(i);
        }
        let dims: Vec<usize> = d.args.iter().filter_map(|&v| self.of[v].along).collect();
        let &at = dims.first()?;
        let one = dims.iter().all(|&d| d == at);
        let axis = d.attrs.iter().find_map(|a| if let Attr::Dim(d) = a { Some(*d as usize) } else { None });
        let [from, to] = [&d.args[..], &d.results[..]].map(|list| list.first().and_then(|&v| self.shape(v)));
        let d_to = match pass {
            Pass::Elementwise if d.op == Op::Assert => return one.then(Tag::default),
            Pass::Elementwise | Pass::Read | Pass::Write | Pass::Update if one => Some(at),
            Pass::Broadcast => (from?.get(at) == to?.get(at)).then_some(at),
            Pass::Reshape => behind_reshape(from?, to?, at),
            Pass::Transpose => match d.attrs.first() {
                Some(Attr::Perm(p)) => p.iter().position(|&x| x as usize == at),
                _ => None,
            },
            Pass::Reduce if one && axis? != at => Some(at - usize::from(at > axis?)),
            Pass::Along | Pass::Pick | Pass::Sort | Pass::Concat if one && axis? != at => Some(at),
            Pass::Packing | Pass::Split if at + 1 < from?.len() => Some(at),
            Pass::Join if one => Some(at),
            Pass::Slice => (from?.get(at) == to?.get(at)).then_some(at),
            Pass::Accumulate if d.op == Op::Dot => self.product(i),
            _ => None,
        };
        d_to.map(Tag::along)
    }

    /// A product's dimension: rows of its left factor, columns of its right one, or the batch of both.
    fn product(&self, i: Inst) -> Option<usize> {
        let args = &self.kernel.insts[i].args;
        let [a, b, c] = [0, 1, 2].map(|k| self.of[args[k]].along);
        let rank = self.shape(args[0])?.len();
        let made = match (a, b) {
            (Some(x), None) if x + 2 == rank => x,
            (None, Some(x)) if x + 1 == rank => x,
            (Some(0), Some(0)) if rank == 3 => 0,
            _ => return None,
        };
        c.is_none_or(|c| c == made).then_some(made)
    }

    /// What is computed of places: a sum of multiples of the position, and of what is alike; or, of a tile, coordinates along a dimension.
    fn places(&self, i: Inst) -> Option<Tag> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let tag = |k: usize| d.args.get(k).map(|&v| self.of[v]);
        let times = |n: i64| Some(Tag { along: None, times: n });
        match d.op {
            Op::Add | Op::Sub => {
                let (a, b) = (tag(0)?, tag(1)?);
                if a.along.or(b.along).is_some() {
                    return None;
                }
                let n = if d.op == Op::Add { a.times.checked_add(b.times)? } else { a.times.checked_sub(b.times)? };
                if let (Op::Add, Some(shape)) = (d.op, self.shape(d.results[0])) {
                    let counted = [0, 1].into_iter().find_map(|k| if tag(k)?.alike() { counts(kernel, d.args[k]) } else { None });
                    if let Some(dim) = counted {
                        return (i64::from(*shape.get(dim)?) == n).then(|| Tag::along(dim));
                    }
                }
                times(n)
            }
            Op::Mul => match (tag(0)?.times, tag(1)?.times) {
                (n, 0) => times(n.checked_mul(self.literal(d.args[1])?)?),
                (0, n) => times(n.checked_mul(self.literal(d.args[0])?)?),
                _ => None,
            },
            Op::Shl => {
                let by = u32::try_from(self.literal(d.args[1])?).ok().filter(|&n| n < 31)?;
                times(tag(0)?.times.checked_mul(1 << by)?)
            }
            Op::Assume | Op::Splat | Op::Broadcast | Op::Reshape if self.kernel.ty(d.args[0]).elem().is_int() => times(tag(0)?.times),
            _ => None,
        }
    }

    /// A load or a store: at most one of its indices follows from the position, and steps over a tile's extent.
    fn access(&self, i: Inst) -> Option<Tag> {
        let kernel = self.kernel;
        let d = &kernel.insts[i];
        let store = d.op == Op::Store;
        let value = if store { *kernel.operand(i, "value").first()? } else { *d.results.first()? };
        let indices = kernel.operand(i, "indices");
        let mut moved = indices.iter().enumerate().filter(|(_, v)| self.of[**v].times != 0);
        let tiles = || d.args.iter().filter(|&&v| kernel.ty(v).as_tile().is_some());
        let Some((dim, index)) = moved.next() else {
            // Positions that write one place would do it as often as before.
            return (!store && tiles().all(|&v| self.of[v].alike())).then(Tag::default);
        };
        let extent = self.shape(value)?.get(dim).map(|&e| i64::from(e))?;
        let fits = moved.next().is_none() && self.of[*index].times == extent;
        let agree = tiles().all(|&v| self.of[v].times == 0 && self.of[v].along.is_none_or(|d| d == dim));
        (fits && agree).then(|| Tag::along(dim))
    }
}

/// The dimension of a reshape's result that is the operand's dimension, with all in front of it in front of it.
pub(super) fn behind_reshape(from: &[u32], to: &[u32], d: usize) -> Option<usize> {
    let in_front = |shape: &[u32], d: usize| shape[..d].iter().map(|&e| u64::from(e)).product::<u64>();
    (0..to.len()).find(|&e| to[e] == from[d] && in_front(to, e) == in_front(from, d))
}

/// The dimension along which a tile's elements count upwards from a number that is the same for all of them.
pub(super) fn counts(kernel: &Kernel, v: Value) -> Option<usize> {
    let i = kernel.def_inst(v)?;
    let d = &kernel.insts[i];
    let shape = |v: Value| kernel.ty(v).as_tile().map(|t| &t.shape[..]);
    match (d.op, d.attrs.first()) {
        (Op::Iota, Some(Attr::Dim(d))) => Some(*d as usize),
        (Op::Broadcast, _) => {
            let at = counts(kernel, d.args[0])?;
            (shape(d.args[0])?.get(at) == shape(v)?.get(at)).then_some(at)
        }
        (Op::Reshape, _) => behind_reshape(shape(d.args[0])?, shape(v)?, counts(kernel, d.args[0])?),
        (Op::Transpose, Some(Attr::Perm(p))) => {
            let at = counts(kernel, d.args[0])?;
            p.iter().position(|&x| x as usize == at)
        }
        (Op::Add, _) => {
            let same = |v: Value| kernel.def_inst(v).is_some_and(|i| kernel.insts[i].op == Op::Splat);
            [0, 1].into_iter().find_map(|k| if same(d.args[1 - k]) { counts(kernel, d.args[k]) } else { None })
        }
        _ => None,
    }
}
