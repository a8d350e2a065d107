//! Graphs of plain kernels, one for each operator, as the tracer of an engine emits them: nothing in them says what should be fused.
//!
//! ```text
//! Entry { name, extents } ── draw(extents) ─► Operators { tensors, steps, products }    kernels in order, over tensors between them
//!                                                 └── floor() ─► seconds that bytes and operations take at least
//! ```
//!
//! Each result has a bound for how far two ways to compute it may be apart. Bounds follow from the roundings: `u` of an element type is
//! half a unit in its last place, relative; a sum of `n` terms in `f32` is off by `n` units of `f32` at most.

pub mod attention;
pub mod convolution;
mod fill;
pub mod floor;
pub mod layers;
pub mod loss;
pub mod operators;
pub mod quantised;
pub mod routing;
mod rows;
pub mod sampling;
pub mod state;

pub use floor::Floor;
pub use operators::{Fill, Id, Operators, Passed, Step, TensorOf, unit};

use tilelift_ir::BuildErrors;
use tilelift_lane::Target;

/// An extent of a graph.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExtentOf {
    /// Its name.
    pub name: &'static str,
    /// What it is in an engine.
    pub usual: u32,
    /// What it is where results are looked at.
    pub small: u32,
}

/// A graph by name.
#[derive(Clone, Copy)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it computes.
    pub says: &'static str,
    /// Its extents; the first is the number of rows.
    pub extents: &'static [ExtentOf],
    /// Makes it of extents, with the products' tiles for a target.
    pub draw: fn(&[u32], &Target) -> Result<Operators, BuildErrors>,
}

const fn extent(name: &'static str, usual: u32, small: u32) -> ExtentOf {
    ExtentOf { name, usual, small }
}

/// The graphs.
pub const ALL: &[Entry] = &[
    Entry {
        name: "qkv",
        says: "RMSNorm, products for queries, keys and values, rotary embedding, keys and values into a cache",
        extents: &[extent("rows", 4096, 32), extent("width", 4096, 128), extent("heads", 32, 2), extent("key-heads", 8, 1)],
        draw: |e, target| layers::qkv(e[0], e[1], [e[2], e[3]], target),
    },
    Entry {
        name: "swiglu",
        says: "gate and up products, silu times, down product, residual",
        extents: &[extent("rows", 4096, 32), extent("width", 4096, 64), extent("inner", 14336, 128)],
        draw: |e, target| layers::swiglu(e[0], e[1], e[2], target),
    },
    Entry {
        name: "gelu_mlp",
        says: "LayerNorm, product, bias and GELU, product, bias, residual",
        extents: &[extent("rows", 8192, 32), extent("width", 2048, 64), extent("inner", 8192, 128)],
        draw: |e, target| layers::gelu_mlp(e[0], e[1], e[2], target),
    },
    Entry {
        name: "norm_quantise",
        says: "residual, RMSNorm, 8-bit floats with a scale per row",
        extents: &[extent("rows", 16384, 24), extent("width", 4096, 256)],
        draw: |e, _| quantised::residual_norm_quantise(e[0], e[1]),
    },
    Entry {
        name: "routing",
        says: "softmax, the 8 largest, their sum made 1",
        extents: &[extent("rows", 16384, 37), extent("experts", 256, 64)],
        draw: |e, _| routing::routing(e[0], e[1]),
    },
    Entry {
        name: "group_norm_conv",
        says: "GroupNorm, SiLU, convolution of 3 x 3",
        extents: &[extent("images", 32, 1), extent("side", 64, 8), extent("channels", 256, 64)],
        draw: |e, _| convolution::group_norm_conv(e[0], e[1], e[2]),
    },
    Entry {
        name: "cross_entropy",
        says: "softmax cross entropy of rows over a vocabulary",
        extents: &[extent("rows", 8192, 5), extent("vocabulary", 128_256, 5000)],
        draw: |e, _| loss::cross_entropy(e[0], e[1]),
    },
    Entry {
        name: "state_update",
        says: "a step of a selective state space: softplus, discretisation, update, output, skip, gate",
        extents: &[extent("rows", 256, 3), extent("width", 8192, 300), extent("states", 16, 16)],
        draw: |e, _| state::state_update(e[0], e[1], e[2]),
    },
    Entry {
        name: "sampling",
        says: "temperature, softmax, exponential noise, the largest quotient",
        extents: &[extent("rows", 256, 3), extent("vocabulary", 128_256, 5000)],
        draw: |e, _| sampling::sampling(e[0], e[1]),
    },
    Entry {
        name: "attention_softcap",
        says: "causal attention, scores capped by tanh",
        extents: &[extent("rows", 4096, 70), extent("heads", 64, 2), extent("depth", 128, 32)],
        draw: |e, _| attention::variant(e, attention::Variant::SoftCap),
    },
    Entry {
        name: "attention_sink",
        says: "causal attention with a sink per head in the sum",
        extents: &[extent("rows", 4096, 70), extent("heads", 64, 2), extent("depth", 128, 32)],
        draw: |e, _| attention::variant(e, attention::Variant::Sink),
    },
    Entry {
        name: "attention_alibi",
        says: "causal attention with a bias per head that falls with the distance",
        extents: &[extent("rows", 4096, 70), extent("heads", 64, 2), extent("depth", 128, 32)],
        draw: |e, _| attention::variant(e, attention::Variant::Alibi),
    },
];
