//! Small kernels to make graphs of.

use tilelift::ir::{Extent, Kernel, KernelBuilder, ReduceOp, Scalar, Value, ViewType};

pub const ANY: Extent = Extent::Dynamic(1);

pub fn matrix(elem: Scalar) -> ViewType {
    ViewType::dense(elem, &[ANY, ANY])
}

pub fn vector(elem: Scalar) -> ViewType {
    ViewType::dense(elem, &[ANY])
}

/// `x / (1 + e^-x)`.
pub fn silu(b: &mut KernelBuilder, x: Value) -> Value {
    let minus = b.neg(x);
    let e = b.exp(minus);
    let d = b.add(e, 1.0f32);
    b.div(x, d)
}

/// A pointwise kernel of matrices of `f16`: `z = f(x…)`, computed in `f32` on tiles of this shape; the grid is (columns, rows).
pub fn pointwise(name: &str, inputs: usize, tile: [u32; 2], f: impl FnOnce(&mut KernelBuilder, &[Value]) -> Value) -> Kernel {
    let mut b = KernelBuilder::new(name);
    b.warps(4);
    let views: Vec<Value> = (0..inputs).map(|_| b.param(matrix(Scalar::F16))).collect();
    let z = b.param(matrix(Scalar::F16));
    let (px, py) = (b.program_id(0), b.program_id(1));
    let (col, row) = (b.mul(px, tile[1]), b.mul(py, tile[0]));
    let tiles: Vec<Value> = views
        .iter()
        .map(|&v| {
            let t = b.load(v, &[row, col], &tile);
            b.cast(t, Scalar::F32)
        })
        .collect();
    let t = f(&mut b, &tiles);
    let t = b.cast(t, Scalar::F16);
    b.store(z, &[row, col], t);
    b.finish().expect("well built")
}

pub fn pointwise_grid(rows: u32, cols: u32, tile: [u32; 2]) -> [u32; 3] {
    [cols.div_ceil(tile[1]), rows.div_ceil(tile[0]), 1]
}

/// `z = act(x + bias)`, bias per column in `f32`.
pub fn bias_act(tile: [u32; 2], act: fn(&mut KernelBuilder, Value) -> Value) -> Kernel {
    let mut b = KernelBuilder::new("bias_act");
    b.warps(4);
    let x = b.param(matrix(Scalar::F16));
    let bias = b.param(vector(Scalar::F32));
    let z = b.param(matrix(Scalar::F16));
    let (px, py) = (b.program_id(0), b.program_id(1));
    let (col, row) = (b.mul(px, tile[1]), b.mul(py, tile[0]));
    let t = b.load(x, &[row, col], &tile);
    let t = b.cast(t, Scalar::F32);
    let v = b.load(bias, &[col], &[tile[1]]);
    let v = b.expand_dims(v, 0);
    let t = b.add(t, v);
    let t = act(&mut b, t);
    let t = b.cast(t, Scalar::F16);
    b.store(z, &[row, col], t);
    b.finish().expect("well built")
}

/// A product of matrices of `f16` with tiles of 64 x 64 x 32, programs in a row along the columns.
pub fn product() -> Kernel {
    let mut b = KernelBuilder::new("product");
    b.warps(4).stages(2);
    let [x, w, z] = [(); 3].map(|()| b.param(matrix(Scalar::F16)));
    let cols = b.dim(z, 1);
    let across = b.ceil_div(cols, 64);
    let pid = b.program_id(0);
    let (pm, pn) = (b.div(pid, across), b.rem(pid, across));
    let (row, col) = (b.mul(pm, 64), b.mul(pn, 64));
    let depth = b.dim(x, 1);
    let zero = b.full(&[64, 64], 0, Scalar::F32);
    let acc = b.for_loop(0, depth, 32, &[zero], |b, k, acc| {
        let p = b.load(x, &[row, k], &[64, 32]);
        let q = b.load(w, &[k, col], &[32, 64]);
        vec![b.dot(p, q, acc[0])]
    });
    let t = b.cast(acc[0], Scalar::F16);
    b.store(z, &[row, col], t);
    b.finish().expect("well built")
}

pub fn product_grid(rows: u32, cols: u32) -> [u32; 3] {
    [rows.div_ceil(64) * cols.div_ceil(64), 1, 1]
}

/// `y = x / sqrt(mean(x²) + eps) * w` of rows of up to `cols` columns, `rows` rows a program.
pub fn rms_norm(rows: u32, cols: u32) -> Kernel {
    let mut b = KernelBuilder::new("rms_norm");
    b.warps(4);
    let x = b.param(matrix(Scalar::F16));
    let w = b.param(vector(Scalar::F16));
    let y = b.param(matrix(Scalar::F16));
    let eps = b.param(Scalar::F32);
    let pid = b.program_id(0);
    let row = b.mul(pid, rows);
    let col = b.constant(0, Scalar::I32);
    let t = b.load(x, &[row, col], &[rows, cols]);
    let t = b.cast(t, Scalar::F32);
    let square = b.mul(t, t);
    let sum = b.reduce_keep(ReduceOp::Add, square, 1);
    let n = b.dim(x, 1);
    let n = b.cast(n, Scalar::F32);
    let mean = b.div(sum, n);
    let mean = b.add(mean, eps);
    let scale = b.rsqrt(mean);
    let t = b.mul(t, scale);
    let v = b.load(w, &[col], &[cols]);
    let v = b.cast(v, Scalar::F32);
    let v = b.expand_dims(v, 0);
    let t = b.mul(t, v);
    let t = b.cast(t, Scalar::F16);
    b.store(y, &[row, col], t);
    b.finish().expect("well built")
}

/// `y = e^(x - max) / sum` of rows, without a mask beyond the row but `-inf`.
pub fn softmax(rows: u32, cols: u32) -> Kernel {
    use tilelift::ir::Access;
    let mut b = KernelBuilder::new("softmax");
    b.warps(4);
    let [x, y] = [(); 2].map(|()| b.param(matrix(Scalar::F16)));
    let pid = b.program_id(0);
    let row = b.mul(pid, rows);
    let col = b.constant(0, Scalar::I32);
    let other = Access { other: Some(f64::NEG_INFINITY.into()), ..Access::default() };
    let t = b.load_with(x, &[row, col], &[rows, cols], other);
    let t = b.cast(t, Scalar::F32);
    let max = b.reduce_keep(ReduceOp::Maximum, t, 1);
    let t = b.sub(t, max);
    let e = b.exp(t);
    let sum = b.reduce_keep(ReduceOp::Add, e, 1);
    let p = b.div(e, sum);
    let p = b.cast(p, Scalar::F16);
    b.store(y, &[row, col], p);
    b.finish().expect("well built")
}

/// `z = silu(x) * y` of vectors, 256 elements a program.
pub fn gate() -> Kernel {
    let mut b = KernelBuilder::new("gate");
    b.warps(4);
    let [x, y, z] = [(); 3].map(|()| b.param(vector(Scalar::F16)));
    let pid = b.program_id(0);
    let at = b.mul(pid, 256);
    let p = b.load(x, &[at], &[256]);
    let q = b.load(y, &[at], &[256]);
    let (p, q) = (b.cast(p, Scalar::F32), b.cast(q, Scalar::F32));
    let p = silu(&mut b, p);
    let t = b.mul(p, q);
    let t = b.cast(t, Scalar::F16);
    b.store(z, &[at], t);
    b.finish().expect("well built")
}

/// `z = z + f(x)` of matrices, in place.
pub fn accumulate(tile: [u32; 2]) -> Kernel {
    let mut b = KernelBuilder::new("accumulate");
    b.warps(4);
    let [x, z] = [(); 2].map(|()| b.param(matrix(Scalar::F16)));
    let (px, py) = (b.program_id(0), b.program_id(1));
    let (col, row) = (b.mul(px, tile[1]), b.mul(py, tile[0]));
    let [p, q] = [x, z].map(|v| {
        let t = b.load(v, &[row, col], &tile);
        b.cast(t, Scalar::F32)
    });
    let t = b.fma(p, 0.5f32, q);
    let t = b.cast(t, Scalar::F16);
    b.store(z, &[row, col], t);
    b.finish().expect("well built")
}

/// `z = x` where column and row are of one parity, else 1: needs to know where it is.
pub fn checkered(tile: [u32; 2]) -> Kernel {
    let mut b = KernelBuilder::new("checkered");
    b.warps(4);
    let [x, z] = [(); 2].map(|()| b.param(matrix(Scalar::F16)));
    let (px, py) = (b.program_id(0), b.program_id(1));
    let (col, row) = (b.mul(px, tile[1]), b.mul(py, tile[0]));
    let t = b.load(x, &[row, col], &tile);
    let along = |b: &mut KernelBuilder, start: Value, axis: u32| {
        let steps = b.iota(&tile, axis);
        b.add(steps, start)
    };
    let (r, c) = (along(&mut b, row, 0), along(&mut b, col, 1));
    let sum = b.add(r, c);
    let odd = b.and(sum, 1);
    let odd = b.cmp(tilelift::ir::CmpOp::Eq, odd, 1);
    let one = b.full(&tile, 1.0, Scalar::F16);
    let t = b.select(odd, one, t);
    b.store(z, &[row, col], t);
    b.finish().expect("well built")
}

/// `z = x + transpose(y)`.
pub fn add_transposed(tile: [u32; 2]) -> Kernel {
    let mut b = KernelBuilder::new("add_transposed");
    b.warps(4);
    let [x, y, z] = [(); 3].map(|()| b.param(matrix(Scalar::F16)));
    let (px, py) = (b.program_id(0), b.program_id(1));
    let (col, row) = (b.mul(px, tile[1]), b.mul(py, tile[0]));
    let p = b.load(x, &[row, col], &tile);
    let q = b.load(y, &[col, row], &[tile[1], tile[0]]);
    let q = b.transpose(q, &[1, 0]);
    let t = b.add(p, q);
    b.store(z, &[row, col], t);
    b.finish().expect("well built")
}

/// The largest element so far, along rows (`by_rows`, this many of them a program) or along columns.
pub fn running_maximum(by_rows: bool, lines: u32) -> Kernel {
    let mut b = KernelBuilder::new("running_maximum");
    let [x, y] = [(); 2].map(|()| b.param(matrix(Scalar::F16)));
    let at = b.program_id(0);
    let at = b.mul(at, lines);
    let zero = b.constant(0, Scalar::I32);
    let (place, shape) = if by_rows { ([at, zero], [lines, 64]) } else { ([zero, at], [64, lines]) };
    let t = b.load(x, &place, &shape);
    let t = b.scan(ReduceOp::Maximum, t, u32::from(by_rows));
    b.store(y, &place, t);
    b.finish().expect("well built")
}
