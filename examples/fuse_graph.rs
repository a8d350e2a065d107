//! `cargo run --release --example fuse_graph`: a product with bias, GELU and a residual, written as three kernels, becomes one.
//!
//! A graph holds tensors and kernels over them. The three kernels here know nothing of each other, and their tiles differ: 64 x 64 of the
//! product, 16 x 128 and 32 x 32 of the elementwise ones. `Graph::fuse` proves that the elementwise kernels cover the tensor and compute
//! each element from the same element, and writes them again at the product's tile, behind its loop. The tensors between them disappear:
//!  * what would have been stored is rounded to the tensor's type still, so results are the same bit for bit;
//!  * what divides the extents that the graph states becomes a fact of the fused kernel, so its accesses are wide;
//!  * the report says what was done with every pair, at which cost, or why not.
//!
//! The program fuses for `sm_80`, runs both graphs on the simulator, and compares every byte and the traffic.

use tilelift::graph::{FuseOptions, Graph, Role, TensorId};
use tilelift::interp::{Buffer, Memory};
use tilelift::ir::{BuildErrors, Extent, Kernel, KernelBuilder, Scalar, Value, ViewType};
use tilelift::runtime::sim::SimDevice;

const M: u32 = 128;
const N: u32 = 128;
const K: u32 = 64;

fn any(elem: Scalar, rank: usize) -> ViewType {
    ViewType::dense(elem, &vec![Extent::Dynamic(1); rank])
}

fn product() -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new("product");
    b.warps(4).stages(2);
    let [x, w, t] = [(); 3].map(|()| b.param(any(Scalar::F16, 2)));
    let (px, py) = (b.program_id(0), b.program_id(1));
    let (col, row) = (b.mul(px, 64), b.mul(py, 64));
    let depth = b.dim(x, 1);
    let zero = b.full(&[64, 64], 0, Scalar::F32);
    let sum = b.for_loop(0, depth, 32, &[zero], |b, k, sum| {
        let p = b.load(x, &[row, k], &[64, 32]);
        let q = b.load(w, &[k, col], &[32, 64]);
        vec![b.dot(p, q, sum[0])]
    });
    let tile = b.cast(sum[0], Scalar::F16);
    b.store(t, &[row, col], tile);
    b.finish()
}

/// `out = f(t, other)` at a tile; `other` is a matrix, or a vector along the columns.
fn elementwise(
    name: &str,
    tile: [u32; 2],
    rank: usize,
    f: impl Fn(&mut KernelBuilder, Value, Value) -> Value,
) -> Result<Kernel, BuildErrors> {
    let mut b = KernelBuilder::new(name);
    let (t, other, out) = (b.param(any(Scalar::F16, 2)), b.param(any(Scalar::F16, rank)), b.param(any(Scalar::F16, 2)));
    let (px, py) = (b.program_id(0), b.program_id(1));
    let (col, row) = (b.mul(px, tile[1]), b.mul(py, tile[0]));
    let x = b.load(t, &[row, col], &tile);
    let y = if rank == 1 {
        let v = b.load(other, &[col], &[tile[1]]);
        b.expand_dims(v, 0)
    } else {
        b.load(other, &[row, col], &tile)
    };
    let (x, y) = (b.cast(x, Scalar::F32), b.cast(y, Scalar::F32));
    let z = f(&mut b, x, y);
    let z = b.cast(z, Scalar::F16);
    b.store(out, &[row, col], z);
    b.finish()
}

/// `x / (1 + e^(-1.702 x))`, the short form of GELU.
fn gelu(b: &mut KernelBuilder, x: Value) -> Value {
    let e = b.mul(x, -1.702f32);
    let e = b.exp(e);
    let d = b.add(e, 1.0f32);
    b.div(x, d)
}

fn graph() -> Result<(Graph, TensorId), Box<dyn std::error::Error>> {
    let mut g = Graph::new();
    let mut tensor =
        |name: &str, dims: &[u32], role| g.tensor(name, Scalar::F16, &dims.iter().map(|&d| d.into()).collect::<Vec<_>>(), role);
    let (x, w) = (tensor("x", &[M, K], Role::Input), tensor("w", &[K, N], Role::Input));
    let (bias, residual) = (tensor("bias", &[N], Role::Input), tensor("residual", &[M, N], Role::Input));
    let (t, u) = (tensor("t", &[M, N], Role::Intermediate), tensor("u", &[M, N], Role::Intermediate));
    let y = tensor("y", &[M, N], Role::Output);
    g.add("product", product()?, [N / 64, M / 64, 1], &[x.into(), w.into(), t.into()])?;
    let bias_gelu = elementwise("bias_gelu", [16, 128], 1, |b, x, bias| {
        let x = b.add(x, bias);
        gelu(b, x)
    })?;
    g.add("bias_gelu", bias_gelu, [N / 128, M / 16, 1], &[t.into(), bias.into(), u.into()])?;
    let add = elementwise("residual", [32, 32], 2, |b, x, residual| b.add(x, residual))?;
    g.add("residual", add, [N / 32, M / 32, 1], &[u.into(), residual.into(), y.into()])?;
    Ok((g, y))
}

/// Fills the inputs, runs the graph on the simulator, and counts the bytes that its programs ask for.
fn run(graph: &Graph) -> Result<(Memory, u64), Box<dyn std::error::Error>> {
    let bound = tilelift::graph::Bound::default();
    let mut memory = graph.memory(&bound)?;
    for (i, _) in graph.tensors().iter().enumerate().filter(|(_, t)| t.role.is_filled()) {
        let count = memory.buffers[i].len() / 2;
        memory.buffers[i] = Buffer::from_f64(Scalar::F16, (0..count).map(|k| ((k * 7919 + i * 31) % 17) as f64 / 8.0 - 1.0));
    }
    let mut bytes = 0;
    graph.run(&bound, &mut memory, |launch, memory| -> Result<(), Box<dyn std::error::Error>> {
        let artifact = tilelift::compile(launch.kernel, &tilelift::targets::usual(), &tilelift::Options::default())?;
        let device = SimDevice::default();
        bytes += device.execute(&device.load(&artifact)?, launch.grid, &launch.args, memory)?.requested_bytes;
        Ok(())
    })?;
    Ok((memory, bytes))
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (graph, y) = graph()?;
    let fused = graph.fuse(&tilelift::targets::usual(), &FuseOptions::exact());
    println!("{}", fused.report);
    assert_eq!(fused.graph.nodes().len(), 1);
    let ((three, bytes), (one, fused_bytes)) = (run(&graph)?, run(&fused.graph)?);
    assert!(three.buffers[y.index()].bytes() == one.buffers[y.index()].bytes(), "y differs");
    assert!(fused_bytes < bytes);
    println!("{} kernels ask for {bytes} bytes, the fused one for {fused_bytes}; y is the same", graph.nodes().len());
    Ok(())
}
