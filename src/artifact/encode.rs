//! An artifact as bytes.

use super::arguments::Argument;
use super::bytes::ByteWriter;
use super::image::Artifact;
use super::params::{Param, ParamSource};
use tilelift_ir::{Extent, GridAxis, Scalar};

/// What an artifact's bytes begin with.
pub(super) const MAGIC: &[u8; 8] = b"tileart\n";

/// The version of the format: any change of it is another version.
pub(crate) const VERSION: u32 = 3;

/// Marks of the kinds of parameters and arguments.
pub(super) mod mark {
    pub(in crate::artifact) const POINTER: u8 = 0;
    pub(in crate::artifact) const EXTENT: u8 = 1;
    pub(in crate::artifact) const STRIDE: u8 = 2;
    pub(in crate::artifact) const SCALAR: u8 = 3;
    pub(in crate::artifact) const GRID: u8 = 4;
    pub(in crate::artifact) const TENSOR: u8 = 5;
    pub(in crate::artifact) const VIEW: u8 = 6;
    pub(in crate::artifact) const FIXED: u8 = 7;
    pub(in crate::artifact) const DYNAMIC: u8 = 8;
}

impl Artifact {
    /// The artifact as bytes, which [`Artifact::from_bytes`] reads. The same artifact gives the same bytes.
    ///
    /// ```
    /// # use tilelift::{Artifact, Compiler, ir::text};
    /// let source = "kernel @one(v0: view<f32, [?]>) {\n    v1 = splat 1.0 : tile<32xf32>\n    store v0[0], v1\n}\n";
    /// let compiler = Compiler::new("sm_80")?;
    /// let artifact = compiler.compile_text(source, None)?;
    /// assert_eq!(Artifact::from_bytes(&artifact.to_bytes())?, *artifact);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut w = ByteWriter::default();
        w.0.extend_from_slice(MAGIC);
        w.u32(VERSION);
        w.list(self.key.as_slice(), |w, key| w.0.extend_from_slice(&key.bytes()));
        for text in [&self.name, &self.target, &self.text, &self.entry, &self.schedule] {
            w.bytes(text.as_bytes());
        }
        w.bytes(&self.object);
        for n in [self.threads, self.shared_bytes, self.cluster].into_iter().chain(self.positions) {
            w.u32(n);
        }
        w.bool(self.early_launch);
        w.list(&self.params, param);
        w.list(&self.arguments, argument);
        w.list(&self.together, |w, group| w.list(group, pair));
        w.list(&self.in_place, pair);
        w.0
    }
}

fn pair(w: &mut ByteWriter, &(a, b): &(u32, u32)) {
    w.u32(a);
    w.u32(b);
}

fn elem(w: &mut ByteWriter, elem: Scalar) {
    w.bytes(elem.name().as_bytes());
}

fn param(w: &mut ByteWriter, p: &Param) {
    elem(w, p.elem);
    match p.source {
        ParamSource::Pointer(view) => numbers(w, mark::POINTER, &[view]),
        ParamSource::Extent(view, dim) => numbers(w, mark::EXTENT, &[view, dim]),
        ParamSource::Stride(view, dim) => numbers(w, mark::STRIDE, &[view, dim]),
        ParamSource::Scalar(n) => numbers(w, mark::SCALAR, &[n]),
        ParamSource::Grid(axis) => {
            let axis = match axis {
                GridAxis::X => 0,
                GridAxis::Y => 1,
                GridAxis::Z => 2,
            };
            numbers(w, mark::GRID, &[axis]);
        }
        ParamSource::Tensor(t) => {
            numbers(w, mark::TENSOR, &[t.view, t.swizzle]);
            elem(w, t.elem);
            w.u8(t.rank);
            w.0.extend_from_slice(&t.order);
            t.extents.iter().for_each(|&e| w.u32(e));
            w.bool(t.tf32);
        }
    }
}

fn numbers(w: &mut ByteWriter, mark: u8, numbers: &[u32]) {
    w.u8(mark);
    numbers.iter().for_each(|&n| w.u32(n));
}

fn argument(w: &mut ByteWriter, a: &Argument) {
    match a {
        Argument::View { ty, written } => {
            w.u8(mark::VIEW);
            elem(w, ty.elem);
            w.list(&ty.dims, extent);
            w.list(ty.strides.as_slice(), |w, strides| w.list(strides, extent));
            w.u32(ty.align);
            w.bool(*written);
        }
        Argument::Scalar { elem: e, multiple_of } => {
            w.u8(mark::SCALAR);
            elem(w, *e);
            w.u32(*multiple_of);
        }
    }
}

fn extent(w: &mut ByteWriter, e: &Extent) {
    match *e {
        Extent::Fixed(n) => numbers(w, mark::FIXED, &[n]),
        Extent::Dynamic(n) => numbers(w, mark::DYNAMIC, &[n]),
    }
}
