//! An attention as a tracer emits it: scores, softmax of rows, product with the values, three plain kernels of a graph.

use tilelift::graph::{Graph, Role};
use tilelift_ir::{Access, BuildErrors, CmpOp, Kernel, KernelBuilder, ReduceOp, Scalar, Value, ViewType};
use tilelift_kernels::known;

/// Its extents.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attention {
    pub elem: Scalar,
    pub heads: u32,
    /// Rows, and as many keys.
    pub rows: u32,
    pub depth: u32,
    pub causal: bool,
}

/// Rows and columns of a tile of scores, rows and keys of a step of the product with the values, rows of a program of the softmax.
const TILE: [u32; 2] = [128, 128];
const STEP: [u32; 2] = [128, 64];
const LINES: u32 = 2;

impl Attention {
    /// The graph; results are in its last tensor.
    pub fn graph(&self) -> Result<Graph, Box<dyn std::error::Error>> {
        let mut g = Graph::new();
        let mut make = |name: &str, elem, cols: u32, role| g.tensor(name, elem, &[self.heads, self.rows, cols].map(Into::into), role);
        let [q, k, v] = ["q", "k", "v"].map(|name| make(name, self.elem, self.depth, Role::Input));
        let s = make("s", Scalar::F32, self.rows, Role::Intermediate);
        let p = make("p", self.elem, self.rows, Role::Intermediate);
        let o = make("o", self.elem, self.depth, Role::Output);
        let programs = |high| self.rows.div_ceil(high);
        let grid = [programs(TILE[1]), programs(TILE[0]), self.heads];
        g.add("scores", self.scores()?, grid, &[q.into(), k.into(), s.into()])?;
        g.add("softmax", self.softmax()?, [programs(LINES), self.heads, 1], &[s.into(), p.into()])?;
        g.add("values", self.values()?, [programs(STEP[0]), self.heads, 1], &[p.into(), v.into(), o.into()])?;
        Ok(g)
    }

    /// How far two results may be apart where inputs are at most 1: scores are at most the root of the depth, weights add up to 1.
    pub fn bound(&self) -> f64 {
        let (word, unit) = (2f64.powi(-24), if self.elem == Scalar::BF16 { 2f64.powi(-8) } else { 2f64.powi(-11) });
        let exponent = f64::from(self.depth).sqrt() * f64::from(self.depth + 1) * word;
        2.0 * (2.0 * exponent + 2f64.powi(-19) + 2.0 * f64::from(self.rows) * word + 2.0 * unit)
    }

    fn view(&self, elem: Scalar, cols: u32) -> ViewType {
        ViewType::dense(elem, &[known(self.heads), known(self.rows), known(cols)])
    }

    /// `s[h, i, j] = q[h, i, :] . k[h, j, :] / sqrt(depth)`, `-inf` for keys behind the row if they are not seen.
    fn scores(&self) -> Result<Kernel, BuildErrors> {
        let mut b = KernelBuilder::new("scores");
        b.warps(8);
        let [q, k] = [(); 2].map(|()| b.param(self.view(self.elem, self.depth)));
        let s = b.param(self.view(Scalar::F32, self.rows));
        let [j, i, h] = [0, 1, 2].map(|axis| b.program_id(axis));
        let (col, row, zero) = (b.mul(j, TILE[1]), b.mul(i, TILE[0]), b.constant(0, Scalar::I32));
        let p = b.load(q, &[h, row, zero], &[1, TILE[0], self.depth]);
        let r = b.load(k, &[h, col, zero], &[1, TILE[1], self.depth]);
        let (p, r) = (b.reshape(p, &[TILE[0], self.depth]), b.reshape(r, &[TILE[1], self.depth]));
        let r = b.transpose(r, &[1, 0]);
        let none = b.full(&TILE, 0, Scalar::F32);
        let t = b.dot(p, r, none);
        let mut t = b.mul(t, 1.0 / (self.depth as f32).sqrt());
        if self.causal {
            let along = |b: &mut KernelBuilder, start: Value, axis: u32| {
                let steps = b.iota(&TILE, axis);
                b.add(steps, start)
            };
            let (r, c) = (along(&mut b, row, 0), along(&mut b, col, 1));
            let sees = b.cmp(CmpOp::Le, c, r);
            let none = b.full(&TILE, f64::NEG_INFINITY, Scalar::F32);
            t = b.select(sees, t, none);
        }
        let t = b.reshape(t, &[1, TILE[0], TILE[1]]);
        b.store(s, &[h, row, col], t);
        b.finish()
    }

    /// Softmax of whole rows.
    fn softmax(&self) -> Result<Kernel, BuildErrors> {
        let mut b = KernelBuilder::new("softmax");
        b.warps(4);
        let cols = self.rows.next_power_of_two();
        let (x, y) = (b.param(self.view(Scalar::F32, self.rows)), b.param(self.view(self.elem, self.rows)));
        let (i, h) = (b.program_id(0), b.program_id(1));
        let (row, zero) = (b.mul(i, LINES), b.constant(0, Scalar::I32));
        let other = Access { other: Some(f64::NEG_INFINITY.into()), ..Access::default() };
        let t = b.load_with(x, &[h, row, zero], &[1, LINES, cols], other);
        let t = b.reshape(t, &[LINES, cols]);
        let most = b.reduce_keep(ReduceOp::Maximum, t, 1);
        let t = b.sub(t, most);
        let e = b.exp(t);
        let sum = b.reduce_keep(ReduceOp::Add, e, 1);
        let t = b.div(e, sum);
        let t = b.cast(t, self.elem);
        let t = b.reshape(t, &[1, LINES, cols]);
        b.store(y, &[h, row, zero], t);
        b.finish()
    }

    /// `o[h, i, :] = sum over j of p[h, i, j] * v[h, j, :]`.
    fn values(&self) -> Result<Kernel, BuildErrors> {
        let mut b = KernelBuilder::new("values");
        b.warps(8);
        let p = b.param(self.view(self.elem, self.rows));
        let [v, o] = [(); 2].map(|()| b.param(self.view(self.elem, self.depth)));
        let (i, h) = (b.program_id(0), b.program_id(1));
        let (row, zero) = (b.mul(i, STEP[0]), b.constant(0, Scalar::I32));
        let keys = b.dim(p, 2);
        let none = b.full(&[STEP[0], self.depth], 0, Scalar::F32);
        let sum = b.for_loop(0, keys, STEP[1], &[none], |b, j, sum| {
            let a = b.load(p, &[h, row, j], &[1, STEP[0], STEP[1]]);
            let c = b.load(v, &[h, j, zero], &[1, STEP[1], self.depth]);
            let (a, c) = (b.reshape(a, &STEP), b.reshape(c, &[STEP[1], self.depth]));
            vec![b.dot(a, c, sum[0])]
        });
        let t = b.cast(sum[0], self.elem);
        let t = b.reshape(t, &[1, STEP[0], self.depth]);
        b.store(o, &[h, row, zero], t);
        b.finish()
    }
}
