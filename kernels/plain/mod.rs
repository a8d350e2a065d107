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
pub mod integers;
pub mod layers;
pub mod loss;
pub mod normalised;
pub mod operators;
pub mod pictures;
pub mod preference;
pub mod quantised;
pub mod routing;
mod rows;
pub mod sampling;
pub mod sequences;
pub mod state;
pub mod turned;

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
    Entry {
        name: "attention_upcast",
        says: "attention over all keys, products and scale in 32 bits",
        extents: &[extent("rows", 4096, 70), extent("heads", 64, 2), extent("depth", 64, 16)],
        draw: |e, _| attention::variant(e, attention::Variant::Upcast),
    },
    Entry {
        name: "attention_bias",
        says: "attention over all keys with a bias for each query and key, without a scale",
        extents: &[extent("rows", 512, 70), extent("heads", 64, 2), extent("depth", 64, 16)],
        draw: |e, _| attention::variant(e, attention::Variant::Bias),
    },
    Entry {
        name: "attention_temperature",
        says: "attention over all keys with a learned scale for each head",
        extents: &[extent("rows", 1024, 70), extent("heads", 64, 2), extent("depth", 64, 16)],
        draw: |e, _| attention::variant(e, attention::Variant::Temperature),
    },
    Entry {
        name: "attention_composed",
        says: "attention under a mask composed of causal, window and padding",
        extents: &[extent("rows", 4096, 70), extent("heads", 64, 2), extent("depth", 128, 32)],
        draw: |e, _| attention::variant(e, attention::Variant::Composed),
    },
    Entry {
        name: "attention_linear",
        says: "attention over all keys without exponentials, weights over their sum",
        extents: &[extent("rows", 2048, 70), extent("heads", 64, 2), extent("depth", 64, 16)],
        draw: |e, _| attention::variant(e, attention::Variant::Linear),
    },
    Entry {
        name: "w8a8",
        says: "8-bit codes times scales in front of a product, bias as addmm",
        extents: &[extent("rows", 4096, 40), extent("width", 2048, 64), extent("cols", 4096, 40)],
        draw: |e, _| integers::w8a8(e[0], e[1], e[2]),
    },
    Entry {
        name: "fake_quantised",
        says: "8-bit codes over scales in front of a product, ReLU",
        extents: &[extent("rows", 4096, 40), extent("width", 2048, 64), extent("cols", 4096, 40)],
        draw: |e, _| integers::fake_quantised(e[0], e[1], e[2]),
    },
    Entry {
        name: "w4a16",
        says: "4-bit codes unpacked with scales of groups, product",
        extents: &[extent("rows", 4096, 40), extent("width", 4096, 256), extent("cols", 4096, 64)],
        draw: |e, target| integers::w4a16(e[0], e[1], e[2], target),
    },
    Entry {
        name: "layer_norm_2d",
        says: "channels last, LayerNorm in steps, channels first",
        extents: &[extent("images", 64, 2), extent("pixels", 3136, 40), extent("channels", 192, 24)],
        draw: |e, _| normalised::layer_norm_2d(e[0], e[1], e[2]),
    },
    Entry {
        name: "latents",
        says: "learned tokens for each image, LayerNorm, scale and shift of a condition",
        extents: &[extent("images", 256, 3), extent("tokens", 32, 6), extent("width", 768, 48)],
        draw: |e, _| normalised::latents(e[0], e[1], e[2]),
    },
    Entry {
        name: "add_norm_in_place",
        says: "a residual updated in memory, RMSNorm of what is read back",
        extents: &[extent("rows", 16384, 19), extent("width", 4096, 64)],
        draw: |e, _| normalised::add_norm_in_place(e[0], e[1]),
    },
    Entry {
        name: "padded_softmax",
        says: "logits scaled in place, softmax of those that are no padding",
        extents: &[extent("rows", 16384, 19), extent("width", 4096, 64)],
        draw: |e, _| normalised::padded_softmax(e[0], e[1]),
    },
    Entry {
        name: "rotary_back",
        says: "cached keys turned back, kept as bytes of 8-bit floats",
        extents: &[extent("rows", 16384, 40), extent("heads", 8, 2)],
        draw: |e, _| turned::rotary_back(e[0], e[1]),
    },
    Entry {
        name: "complex_state",
        says: "a step of a linear recurrent unit over complex numbers",
        extents: &[extent("rows", 4096, 6), extent("width", 4096, 160)],
        draw: |e, _| turned::complex_state(e[0], e[1]),
    },
    Entry {
        name: "short_conv",
        says: "tokens last, a convolution of four taps behind a state, SiLU, tokens first",
        extents: &[extent("rows", 256, 3), extent("tokens", 1, 4), extent("width", 8192, 300)],
        draw: |e, _| sequences::short_conv(e[0], e[1], e[2]),
    },
    Entry {
        name: "returns",
        says: "sums from the end by two flips and a scan",
        extents: &[extent("rows", 16384, 6), extent("steps", 1024, 64)],
        draw: |e, _| sequences::returns(e[0], e[1]),
    },
    Entry {
        name: "received",
        says: "sums over queries of what keys get, from their own place on",
        extents: &[extent("heads", 64, 2), extent("rows", 4096, 200)],
        draw: |e, _| sequences::received(e[0], e[1]),
    },
    Entry {
        name: "patches",
        says: "a picture cut into patches by flat indices, colours normalised",
        extents: &[extent("across", 128, 3)],
        draw: |e, _| pictures::patches(e[0]),
    },
    Entry {
        name: "resize",
        says: "nearest neighbours along one axis, hard swish in steps",
        extents: &[extent("rows", 1024, 6), extent("cols", 512, 10), extent("channels", 256, 70)],
        draw: |e, _| pictures::resize(e[0], e[1], e[2]),
    },
    Entry {
        name: "preference",
        says: "the loss of preferences, with log-likelihoods that are negated losses",
        extents: &[extent("sequences", 1_000_000, 700)],
        draw: |e, _| preference::preference(e[0]),
    },
];
