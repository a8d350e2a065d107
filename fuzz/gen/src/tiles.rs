//! Kernels as authors write them: a program has a tile of a matrix at its place on the grid, and what belongs to its rows and columns.

use crate::case::{Case, Param, Tensor};
use crate::data::Init;
use crate::source::Source;
use tilelift_ir::{BuildErrors, CmpOp, Extent, KernelBuilder, ReduceOp, Scalar, Value, ViewType};

/// Numbers stay between these, so that sums of products are exact in any order.
const BOUND: f64 = 8.0;

struct Tiles<'s> {
    src: &'s mut Source,
    params: Vec<Param>,
    /// Rows and columns of a tile.
    tile: [u32; 2],
    /// Rows and columns of the matrix.
    whole: [i64; 2],
    /// Depth of products.
    depth: i64,
    /// Where the program's tile begins.
    at: [Value; 2],
    /// Tiles of that shape.
    pool: Vec<Value>,
}

/// A kernel of tiles at program positions, with arguments.
///
/// # Errors
/// The builder's complaints: a bug of the generator or of the builder.
pub fn generate_tiles(src: &mut Source) -> Result<Case, BuildErrors> {
    let mut b = KernelBuilder::new("tiles");
    b.warps(*src.pick(&[4, 8]).unwrap_or(&4)).stages(2 + src.below(3));
    let grid = [*src.pick(&[2, 4, 3, 1]).unwrap_or(&2), *src.pick(&[2, 4, 6, 1]).unwrap_or(&2), 1];
    let tile = [*src.pick(&[32, 16, 64]).unwrap_or(&32), *src.pick(&[32, 64, 16]).unwrap_or(&32)];
    let whole = [0, 1].map(|d| i64::from(grid[1 - d] * tile[d]) - i64::from(if src.chance(64) { 1 + src.below(8) } else { 0 }));
    let pids = [b.program_id(1), b.program_id(0)];
    let at = [0, 1].map(|d| if src.chance(64) && tile[d] == 32 { b.shl(pids[d], 5) } else { b.mul(pids[d], i64::from(tile[d])) });
    let depth = 16 * i64::from(1 + src.below(4));
    let mut t = Tiles { src, params: Vec::new(), tile, whole, depth, at, pool: Vec::new() };
    t.load(&mut b);
    for _ in 0..2 + t.src.below(7) {
        let v = t.step(&mut b);
        t.pool.push(v);
    }
    for _ in 0..1 + t.src.below(2) {
        t.store(&mut b);
    }
    let params = t.params;
    Ok(Case { kernel: b.finish()?, grid, params })
}

impl Tiles<'_> {
    fn param(&mut self, b: &mut KernelBuilder, elem: Scalar, shape: &[i64], init: Init) -> Value {
        let strides = (0..shape.len()).map(|d| shape[d + 1..].iter().product()).collect();
        let tensor = Tensor { elem, shape: shape.to_vec(), strides, dense: true, offset: 0, init, tolerance: None };
        self.params.push(Param::Tensor(tensor));
        let divisor = |&e: &i64| Extent::Dynamic(if e % 16 == 0 { 16 } else { 1 });
        b.param(ViewType::dense(elem, &shape.iter().map(divisor).collect::<Vec<_>>()))
    }

    fn any(&mut self) -> Value {
        let n = self.src.below(self.pool.len() as u32) as usize;
        self.pool[n]
    }

    /// A number that is small again.
    fn bounded(&self, b: &mut KernelBuilder, v: Value) -> Value {
        let v = b.minimum(v, BOUND);
        b.maximum(v, -BOUND)
    }

    fn load(&mut self, b: &mut KernelBuilder) {
        let init = Init::Small(self.src.seed());
        let elem = *self.src.pick(&[Scalar::F32, Scalar::F16, Scalar::BF16]).unwrap_or(&Scalar::F32);
        let view = self.param(b, elem, &self.whole.clone(), init);
        let v = b.load(view, &self.at, &self.tile);
        let v = b.cast(v, Scalar::F32);
        self.pool.push(v);
    }

    fn step(&mut self, b: &mut KernelBuilder) -> Value {
        let tile = self.tile;
        match self.src.below(13) {
            0 => {
                self.load(b);
                self.any()
            }
            // A number to a row, or to a column.
            1 | 2 => {
                let d = self.src.below(2) as usize;
                let init = Init::Small(self.src.seed());
                let view = self.param(b, Scalar::F32, &[self.whole[d]], init);
                let v = b.load(view, &[self.at[d]], &[tile[d]]);
                self.spread(b, v, d)
            }
            // Coordinates, and a mask of them.
            3 | 4 => {
                let d = self.src.below(2) as usize;
                let count = b.iota(&[tile[d]], 0);
                let first = b.splat(self.at[d], &[tile[d]]);
                let places = if self.src.chance(128) { b.add(first, count) } else { b.add(count, first) };
                let places = self.spread(b, places, d);
                let end = self.whole[d] - self.src.range(0, 20);
                let end = b.splat(end, &tile);
                let holds = b.cmp(CmpOp::Lt, places, end);
                let (x, y) = (self.any(), self.any());
                b.select(holds, x, y)
            }
            5 => {
                let (x, y) = (self.any(), self.any());
                let v = b.mul(x, y);
                self.bounded(b, v)
            }
            6 => {
                let (x, y) = (self.any(), self.any());
                let v = b.sub(x, y);
                self.bounded(b, v)
            }
            7 => {
                let x = self.any();
                let v = b.transpose(x, &[1, 0]);
                let v = b.neg(v);
                b.transpose(v, &[1, 0])
            }
            // A fold of rows or of columns, and what is done with it.
            8 => {
                let (x, axis) = (self.any(), self.src.below(2));
                let v = b.reduce_keep(ReduceOp::Maximum, x, axis);
                b.broadcast(v, &tile)
            }
            9 => {
                let (x, axis) = (self.any(), self.src.below(2));
                let v = if self.src.chance(128) { b.flip(x, axis) } else { b.scan(ReduceOp::Maximum, x, axis) };
                self.bounded(b, v)
            }
            10 => {
                let n = self.src.range(-2, 2) as f64;
                let (x, y) = (b.splat(n, &tile), self.any());
                let v = b.add(x, y);
                self.bounded(b, v)
            }
            _ => self.product(b),
        }
    }

    /// Numbers of rows or of columns as a tile.
    fn spread(&self, b: &mut KernelBuilder, v: Value, d: usize) -> Value {
        let shape = if d == 0 { [self.tile[0], 1] } else { [1, self.tile[1]] };
        let v = b.reshape(v, &shape);
        b.broadcast(v, &self.tile)
    }

    /// A loop of products, its operands as they are loaded or computed first.
    fn product(&mut self, b: &mut KernelBuilder) -> Value {
        let (tile, step, elem) = (self.tile, 16u32, *self.src.pick(&[Scalar::F16, Scalar::BF16]).unwrap_or(&Scalar::F16));
        let inits = [0, 1].map(|_| Init::Small(self.src.seed()));
        let turned = self.src.chance(128);
        let views = [[self.whole[0], self.depth], if turned { [self.whole[1], self.depth] } else { [self.depth, self.whole[1]] }];
        let [x, y] = [0, 1].map(|n| self.param(b, elem, &views[n], inits[n]));
        let (scaled, at, depth) = (self.src.chance(100), self.at, self.depth);
        let init = if self.src.chance(128) { self.any() } else { b.splat(0.0, &tile) };
        let done = b.for_loop(0, depth, i64::from(step), &[init], |b, k, carried| {
            let p = b.load(x, &[at[0], k], &[tile[0], step]);
            let q = if turned {
                let q = b.load(y, &[at[1], k], &[tile[1], step]);
                b.transpose(q, &[1, 0])
            } else {
                b.load(y, &[k, at[1]], &[step, tile[1]])
            };
            let q = if scaled { b.add(q, q) } else { q };
            vec![b.dot(p, q, carried[0])]
        });
        self.bounded(b, done[0])
    }

    fn store(&mut self, b: &mut KernelBuilder) {
        let v = self.any();
        let view = self.param(b, Scalar::F32, &self.whole.clone(), Init::Fill(7));
        b.store(view, &self.at, v);
    }
}
