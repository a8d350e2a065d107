//! Launch descriptions: how a compiled text is launched, as JSON (`--emit launch`; the format is in `docs/launch.md`).
//!
//! ```text
//! Artifact ─┬─ text ───────────────────────────► cuModuleLoadDataEx        of a program in any language
//!           └─ launch facts ── [`describe`] ─► JSON ─► cuLaunchKernelEx
//! ```
//!
//! Everything is the artifact's and its neighbours', by which the CUDA device launches; nothing is decided here.

use super::json::{Fields, lines};
use super::tensor::{TENSOR_MAP_ALIGN, TENSOR_MAP_BYTES, TensorCodes};
use crate::artifact::{Argument, Artifact, Param, ParamSource, TensorBox};
use tilelift_ir::{Extent, GridAxis};

/// The version of the format: it grows when a field changes its meaning or goes, not when one is added.
pub const VERSION: u32 = 1;

/// The descriptor of several kernels, made of each one's.
pub fn document(each: &[String]) -> String {
    let kernels = lines(each.iter().cloned(), 4);
    format!("{{\n  \"version\": {VERSION},\n  \"kernels\": {kernels}\n}}\n")
}

/// The descriptor of a kernel, as a part of a [`document`].
pub fn describe(a: &Artifact) -> String {
    let (parameters, bytes) = parameters(a);
    // A code object asks for its shared memory by itself.
    let (dynamic, fixed, opt_in) = if a.object.is_empty() { (a.shared_bytes, 0, a.shared_opt_in()) } else { (0, a.shared_bytes, None) };
    let shared = Fields::default().with("dynamic", dynamic).with("static", fixed).with("opt_in", opt_in);
    Fields::default()
        .with("kernel", a.name.as_str())
        .with("entry", a.entry.as_str())
        .with("target", a.target.as_str())
        .with("block", vec![a.threads, 1, 1])
        .with("cluster", vec![a.cluster.max(1), 1, 1])
        .raw("shared_bytes", shared.in_a_line())
        .raw("grid", grid(a).in_a_line())
        .with("early_launch", a.early_launch)
        .raw("arguments", lines((0..a.arguments.len()).map(|n| argument(a, n).in_a_line()), 8))
        .with("parameter_bytes", bytes)
        .raw("parameters", lines(parameters.iter().map(Fields::in_a_line), 8))
        .in_lines(4)
}

/// How many blocks are launched of the grid that is asked for.
fn grid(a: &Artifact) -> Fields {
    let rule = a.grid_rule();
    let fields = Fields::default()
        .with("persistent", rule.persistent)
        .with("multiple_of", vec![rule.multiple_of, rule.positions[1], rule.positions[2]])
        .with("positions", rule.positions.to_vec())
        .with("max", rule.max.to_vec());
    match rule.max_positions {
        Some(most) => fields.with("max_positions", most).with("blocks_per_multiprocessor", 1u32),
        None => fields,
    }
}

/// What the kernel promises of an argument, which every launch is checked against.
fn argument(artifact: &Artifact, number: usize) -> Fields {
    let a = &artifact.arguments[number];
    let fields = promised(a);
    match artifact.in_place.iter().find(|p| p.0 as usize == number) {
        Some(&(_, input)) => fields.with("same_as", input),
        None => fields,
    }
}

fn promised(a: &Argument) -> Fields {
    match a {
        Argument::View { ty: v, written } => Fields::default()
            .with("kind", "view")
            .with("type", v.elem.name())
            .with("bits", v.elem.storage(2) as u32 * 4)
            .raw("extents", facts(&v.dims))
            .raw("strides", v.strides.as_ref().map_or_else(|| "null".to_owned(), |s| facts(s)))
            .with("align", a.align())
            .with("written", *written),
        Argument::Scalar { elem, multiple_of } => {
            Fields::default().with("kind", "scalar").with("type", elem.name()).with("multiple_of", *multiple_of)
        }
    }
}

/// What is known of extents or strides.
fn facts(list: &[Extent]) -> String {
    let each = list.iter().map(|e| {
        match e {
            Extent::Fixed(n) => Fields::default().with("fixed", *n),
            Extent::Dynamic(d) => Fields::default().with("multiple_of", *d),
        }
        .in_a_line()
    });
    format!("[{}]", each.collect::<Vec<_>>().join(", "))
}

/// The parameters in order, and the bytes that they take in the text's own order: each stands at the next multiple of its alignment. Where
/// there are tensor maps, the assembler aligns them by an address that its architecture chooses, so that no place is known.
fn parameters(a: &Artifact) -> (Vec<Fields>, Option<u32>) {
    let mut end = (!a.params.iter().any(|p| matches!(p.source, ParamSource::Tensor(_)))).then_some(0u32);
    let place = |p: &Param| {
        let (size, align) = room(p);
        let offset = end.map(|e| e.next_multiple_of(align));
        end = offset.map(|o| o + size);
        source(Fields::default().with("offset", offset).with("size", size).with("align", align), a, p)
    };
    (a.params.iter().map(place).collect(), end)
}

/// Bytes of a parameter, and its alignment.
fn room(p: &Param) -> (u32, u32) {
    match p.source {
        ParamSource::Tensor(_) => (TENSOR_MAP_BYTES, TENSOR_MAP_ALIGN),
        ParamSource::Pointer(_) | ParamSource::Extent(..) | ParamSource::Stride(..) | ParamSource::Scalar(_) | ParamSource::Grid(_) => {
            (p.elem.bytes(), p.elem.bytes())
        }
    }
}

/// What a parameter carries.
fn source(placed: Fields, a: &Artifact, p: &Param) -> Fields {
    match p.source {
        ParamSource::Pointer(view) => placed.with("kind", "pointer").with("argument", view),
        ParamSource::Extent(view, dim) => placed.with("kind", "extent").with("argument", view).with("dim", dim),
        ParamSource::Stride(view, dim) => placed.with("kind", "stride").with("argument", view).with("dim", dim),
        ParamSource::Scalar(n) => {
            let given = a.arguments.get(n as usize).map(|a| a.elem().name());
            placed.with("kind", "scalar").with("argument", n).with("type", given)
        }
        ParamSource::Grid(axis) => placed.with("kind", "grid").with("axis", axis_number(axis)),
        ParamSource::Tensor(t) => tensor(placed.with("kind", "tensor_map"), &t),
    }
}

const fn axis_number(axis: GridAxis) -> u32 {
    match axis {
        GridAxis::X => 0,
        GridAxis::Y => 1,
        GridAxis::Z => 2,
    }
}

/// What `cuTensorMapEncodeTiled` is told.
fn tensor(placed: Fields, t: &TensorBox) -> Fields {
    let rank = usize::from(t.rank);
    let codes = TensorCodes::of_box(t);
    let driver = Fields::default()
        .with("data_type", codes.data_type)
        .with("interleave", codes.interleave)
        .with("swizzle", codes.swizzle)
        .with("l2_promotion", codes.l2_promotion)
        .with("oob_fill", codes.oob_fill);
    placed
        .with("argument", t.view)
        .with("type", t.elem.name())
        .with("tf32", t.tf32)
        .with("rank", t.rank)
        .with("dims", t.order[..rank].to_vec())
        .with("stride_unit", t.elem.bytes())
        .with("box", t.extents[..rank].to_vec())
        .with("element_strides", vec![1u32; rank])
        .with("swizzle_bytes", t.swizzle)
        .raw("driver", driver.in_a_line())
}
