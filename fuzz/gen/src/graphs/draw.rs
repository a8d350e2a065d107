//! Random graphs: which kernels there are, and what they read and write.
//!
//! ```text
//! extents ─► tensors that the caller fills ─► step after step, most of them on what the last one wrote ─► who looks at what
//! ```

use super::expr::{self, Expr, Family, within};
use super::steps::{Place, Plan, Rows, Step, Tn};
use crate::source::Source;
use tilelift_ir::{ReduceOp, Scalar};

/// Extents of matrices: few are multiples of tiles.
const EXTENTS: [usize; 12] = [16, 33, 64, 8, 24, 48, 50, 40, 72, 17, 80, 96];

/// Elements of numbers in memory.
const ELEMS: [Scalar; 3] = [Scalar::F16, Scalar::F32, Scalar::BF16];

/// Multiply-adds of a graph, at most.
const WORK: usize = 1_500_000;

#[derive(Clone, Copy)]
enum Kind {
    Map,
    Norm,
    Softmax,
    Fold,
    Product,
}

/// How layers begin: an attention, normalisations in front of products, results of products that are normalised, statistics that are used.
const LAYERS: [&[Kind]; 5] = [
    &[Kind::Product, Kind::Softmax, Kind::Product],
    &[Kind::Norm, Kind::Product, Kind::Map],
    &[Kind::Product, Kind::Map, Kind::Softmax, Kind::Product],
    &[Kind::Fold, Kind::Fold, Kind::Map],
    &[Kind::Product, Kind::Norm, Kind::Product, Kind::Map],
];

struct Draw<'s> {
    src: &'s mut Source,
    plan: Plan,
    /// The matrix that was written last.
    last: usize,
}

/// A graph of two to six kernels.
pub(super) fn draw(src: &mut Source) -> Plan {
    let family = if src.chance(120) { Family::Real } else { Family::Whole };
    let extents = (0..2 + src.below(2)).map(|_| *src.pick(&EXTENTS).unwrap_or(&16)).collect();
    // Square ones can be turned, and multiplied by one another.
    let square = src.chance(40);
    let plan = Plan { family, extents, tensors: Vec::new(), steps: Vec::new() };
    let mut d = Draw { src, plan, last: 0 };
    d.filled(&[0, usize::from(!square)]);
    let steps = 2 + d.src.below(5);
    // Some begin as layers do.
    let layer: &[Kind] = if d.src.chance(100) { d.src.pick(&LAYERS).copied().unwrap_or(&[]) } else { &[] };
    while d.plan.steps.len() < steps as usize {
        const KINDS: [Kind; 4] = [Kind::Map, Kind::Norm, Kind::Fold, Kind::Product];
        let any = KINDS[d.src.weighted(&[10, 5, 4, 7])];
        match layer.get(d.plan.steps.len()).unwrap_or(&any) {
            Kind::Norm => d.norm(false),
            Kind::Softmax => d.norm(true),
            Kind::Fold => d.fold(),
            Kind::Product => d.product(),
            Kind::Map => d.map(),
        }
    }
    d.looked_at();
    d.plan
}

impl Draw<'_> {
    fn elem(&mut self) -> Scalar {
        *self.src.pick(&ELEMS).unwrap_or(&Scalar::F16)
    }

    fn tensor(&mut self, elem: Scalar, dims: &[usize], most: f64, filled: bool) -> usize {
        self.plan.tensors.push(Tn { elem, dims: dims.to_vec(), most, filled, seen: false });
        self.plan.tensors.len() - 1
    }

    /// A tensor that the caller fills.
    fn filled(&mut self, dims: &[usize]) -> usize {
        let elem = self.elem();
        let most = if self.plan.family == Family::Whole { 2.0 } else { 1.0 };
        self.tensor(elem, dims, most, true)
    }

    /// Tensors of these extents, the newest first.
    fn like(&self, dims: &[usize]) -> Vec<usize> {
        (0..self.plan.tensors.len()).rev().filter(|&t| self.plan.tensors[t].dims == dims).collect()
    }

    /// One of these extents: what is there, or what the caller fills.
    fn some(&mut self, dims: &[usize], without: &[usize]) -> usize {
        let there: Vec<usize> = self.like(dims).into_iter().filter(|t| !without.contains(t)).collect();
        let old = self.src.chance(170);
        match self.src.pick(&there) {
            Some(&t) if old => t,
            _ => self.filled(dims),
        }
    }

    /// A matrix to go on with: mostly what was written last.
    fn matrix(&mut self) -> usize {
        if self.src.chance(60) {
            let all: Vec<usize> = (0..self.plan.tensors.len()).filter(|&t| self.plan.tensors[t].dims.len() == 2).collect();
            return *self.src.pick(&all).unwrap_or(&self.last);
        }
        self.last
    }

    fn most(&self, of: &[(usize, Place)]) -> Vec<f64> {
        of.iter().map(|&(t, _)| self.plan.tensors[t].most).collect()
    }

    /// A tensor for what an expression makes, which is clamped to what its type holds.
    fn result(&mut self, expr: Expr, of: &[f64], dims: &[usize]) -> (usize, Expr) {
        let elem = self.elem();
        let expr = within(expr, of, self.plan.family.most(elem));
        let most = expr.most(of);
        let out = self.tensor(elem, dims, most, false);
        (out, expr)
    }

    /// What else a step reads, element by element, beside a matrix of these extents.
    fn beside(&mut self, dims: &[usize], without: &[usize]) -> Vec<(usize, Place)> {
        let mut ins: Vec<(usize, Place)> = Vec::new();
        for _ in 0..self.src.below(3) {
            let taken: Vec<usize> = ins.iter().map(|i| i.0).chain(without.iter().copied()).collect();
            let at = match self.src.weighted(&[6, 4, 3, 1]) {
                1 => (self.some(&dims[1..], &taken), Place::Row),
                2 => (self.some(&dims[..1], &taken), Place::Col),
                3 => (self.some(&[dims[1], dims[0]], &taken), Place::Turned),
                _ => (self.some(dims, &taken), Place::Same),
            };
            if !ins.iter().any(|i| i.0 == at.0) {
                ins.push(at);
            }
        }
        // A fold of rows that nobody has read yet.
        let unread = |t: usize| !self.plan.tensors[t].filled && !self.plan.steps.iter().any(|s| s.reads().contains(&t));
        let col = self.like(&dims[..1]).into_iter().find(|&t| unread(t) && !ins.iter().any(|i| i.0 == t));
        ins.extend(col.map(|t| (t, Place::Col)));
        ins
    }

    /// Outputs of a step that works element by element: one or two, or one of its inputs.
    fn outs(&mut self, of: &[f64], dims: &[usize], ins: &[(usize, Place)]) -> Vec<(usize, Expr)> {
        let family = self.plan.family;
        let mut expr = expr::any(self.src, family, of);
        let here: Vec<usize> = ins.iter().filter(|i| i.1 == Place::Same).map(|i| i.0).collect();
        let mut outs = Vec::new();
        let place = self.src.pick(&here).copied();
        match place.filter(|_| self.src.chance(56)) {
            Some(t) => {
                let tensor = &mut self.plan.tensors[t];
                expr = within(expr, of, family.most(tensor.elem));
                tensor.most = tensor.most.max(expr.most(of));
                outs.push((t, expr));
            }
            None => outs.push(self.result(expr, of, dims)),
        }
        if self.src.chance(48) {
            let expr = expr::any(self.src, family, of);
            outs.push(self.result(expr, of, dims));
        }
        outs
    }

    fn map(&mut self) {
        let x = self.matrix();
        let dims = self.plan.tensors[x].dims.clone();
        let mut ins = vec![(x, Place::Same)];
        ins.extend(self.beside(&dims, &[x]));
        let of = self.most(&ins);
        let outs = self.outs(&of, &dims, &ins);
        self.push(Step::Map { ins, outs });
    }

    fn fold(&mut self) {
        let x = self.matrix();
        let dims = self.plan.tensors[x].dims.clone();
        let most = self.plan.tensors[x].most;
        let along = usize::from(!self.src.chance(56));
        let count = self.plan.extents[dims[along]] as f64;
        let mut pre = expr::any(self.src, self.plan.family, &[most]);
        pre = within(pre, &[most], (self.plan.family.inside() / count).min(256.0));
        let mut outs = Vec::new();
        for _ in 0..1 + u32::from(self.src.chance(64)) {
            let op = *self.src.pick(&[ReduceOp::Add, ReduceOp::Maximum, ReduceOp::Minimum]).unwrap_or(&ReduceOp::Add);
            let most = pre.most(&[most]) * if op == ReduceOp::Add { count } else { 1.0 };
            let narrow = self.elem();
            let elem = if most <= self.plan.family.most(narrow) { narrow } else { Scalar::F32 };
            outs.push((self.tensor(elem, &[dims[1 - along]], most, false), op));
        }
        self.push(Step::Fold { x, pre, along, outs });
    }

    fn norm(&mut self, softmax: bool) {
        let x = self.matrix();
        let dims = self.plan.tensors[x].dims.clone();
        let [most, count] = [self.plan.tensors[x].most, self.plan.extents[dims[1]] as f64];
        let real = self.plan.family == Family::Real;
        let kind = match self.src.below(5) {
            _ if real && softmax => Rows::Softmax { causal: self.src.chance(64) },
            0 if real => Rows::Softmax { causal: self.src.chance(64) },
            1 if real => Rows::Rms,
            2 if real => Rows::Layer,
            3 if (count + 1.0) * most <= self.plan.family.inside() => Rows::LessSum,
            _ => Rows::LessMost,
        };
        let gain = self.src.chance(80).then(|| self.some(&dims[1..], &[x]));
        let by = gain.map_or(1.0, |g| self.plan.tensors[g].most);
        let most = by
            * match kind {
                Rows::LessMost => 2.0 * most,
                Rows::LessSum => (count + 1.0) * most,
                Rows::Softmax { .. } => 1.0,
                // One element has all of the squares.
                Rows::Rms | Rows::Layer => count.sqrt().min(8.0 * 2.0 * most),
            };
        let narrow = self.elem();
        let elem = if most <= self.plan.family.most(narrow) { narrow } else { Scalar::F32 };
        let fits = most <= self.plan.family.most(elem);
        if !fits {
            return self.map();
        }
        let same = self.plan.tensors[x].elem == elem && self.src.chance(48);
        let out = if same { x } else { self.tensor(elem, &dims, most, false) };
        self.plan.tensors[out].most = self.plan.tensors[out].most.max(most);
        self.push(Step::Norm { x, kind, gain, out });
    }

    fn product(&mut self) {
        let a = self.matrix();
        let [rows, depth] = [self.plan.tensors[a].dims[0], self.plan.tensors[a].dims[1]];
        let cols = self.src.below(self.plan.extents.len() as u32) as usize;
        let work = [rows, depth, cols].iter().map(|&d| self.plan.extents[d]).product::<usize>();
        let before: usize = self.plan.steps.iter().filter(|s| matches!(s, Step::Product { .. })).count();
        if work * (before + 1) > WORK {
            return self.map();
        }
        let turned = self.src.chance(80);
        let dims = if turned { [cols, depth] } else { [depth, cols] };
        let b = self.some(&dims, &[a]);
        let [p, q] = [a, b].map(|t| self.plan.tensors[t].most);
        // Operands of a type that holds what they are.
        let family = self.plan.family;
        let fits = |elem: &Scalar| [a, b].iter().all(|&t| family == Family::Real || family.most(*elem) >= self.plan.tensors[t].most);
        let same = self.plan.tensors[a].elem;
        let narrow: Vec<Scalar> = [same, Scalar::F16, Scalar::BF16].into_iter().filter(fits).collect();
        let operand = self.src.pick(&narrow).copied().unwrap_or(Scalar::F32);
        let sum = p * q * self.plan.extents[depth] as f64;
        if sum > family.inside() {
            return self.map();
        }
        let dims = [rows, cols];
        let ins = self.beside(&dims, &[a, b]);
        let of: Vec<f64> = [sum].into_iter().chain(self.most(&ins)).collect();
        let outs = self.outs(&of, &dims, &ins);
        self.push(Step::Product { a, b, turned, operand, ins, outs });
    }

    fn push(&mut self, step: Step) {
        if let Some(&t) = step.writes().iter().find(|&&t| self.plan.tensors[t].dims.len() == 2) {
            self.last = t;
        }
        self.plan.steps.push(step);
    }

    /// What nobody reads, the caller looks at, and at some of the others.
    fn looked_at(&mut self) {
        for t in 0..self.plan.tensors.len() {
            let writes = self.plan.steps.iter().rposition(|s| s.writes().contains(&t));
            let reads = self.plan.steps.iter().rposition(|s| s.reads().contains(&t));
            let unread = writes.is_some() && reads.is_none_or(|r| writes >= Some(r));
            self.plan.tensors[t].seen = writes.is_some() && (unread || self.src.chance(40));
        }
    }
}
