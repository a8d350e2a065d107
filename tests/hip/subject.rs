//! An artifact for the mock, and arguments for it.

use tilelift::interp::{Arg, ScalarArg, ViewArg};
use tilelift::ir::{Extent, GridAxis, KernelBuilder, Scalar, ViewType};
use tilelift::launch::{Param, ParamSource};
use tilelift::{Artifact, Options, compile, targets};

/// Elements of the view that the arguments give.
pub(crate) const ELEMENTS: usize = 1000;
/// Bytes of its buffer.
pub(crate) const BYTES: usize = 4 * ELEMENTS;

/// `x[..] *= factor`, compiled for a target.
pub(crate) fn compiled(target: &str) -> Artifact {
    let mut b = KernelBuilder::new("scale");
    let x = b.param(ViewType::dense(Scalar::F32, &[Extent::Dynamic(1)]));
    let factor = b.param(Scalar::F32);
    let pid = b.program_id(0);
    let at = b.mul(pid, 256);
    let t = b.load(x, &[at], &[256]);
    let t = b.mul(t, factor);
    b.store(x, &[at], t);
    let kernel = b.finish().unwrap_or_else(|e| panic!("{e}"));
    let target = targets::by_name(target).expect("a known target");
    compile(&kernel, &target, &Options::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// The same with parameters that the tests count on: address, extent and factor. The code object is a header without code.
pub(crate) fn artifact() -> Artifact {
    let params = vec![
        Param::new(Scalar::I64, ParamSource::Pointer(0)),
        Param::new(Scalar::I32, ParamSource::Extent(0, 0)),
        Param::new(Scalar::F32, ParamSource::Scalar(1)),
    ];
    let mut a = compiled("gfx942");
    (a.object, a.entry, a.threads, a.shared_bytes, a.params) = (object(0x4c), "scale".into(), 256, 1024, params);
    a
}

/// The same as a program whose instances run several grid positions.
pub(crate) fn persistent_artifact() -> Artifact {
    let mut artifact = artifact();
    artifact.params.extend([GridAxis::X, GridAxis::Y, GridAxis::Z].map(|axis| Param::new(Scalar::I32, ParamSource::Grid(axis))));
    artifact
}

/// The header of a code object for the chip of that number, and a table of one section, which is none.
pub(crate) fn object(chip: u8) -> Vec<u8> {
    let mut bytes = vec![0; 128];
    bytes[..8].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 64]);
    bytes[18] = 224;
    bytes[40] = 64;
    bytes[48] = chip;
    bytes[58] = 64;
    bytes[60] = 1;
    bytes
}

/// The whole of the first buffer, and a factor of 2.
pub(crate) fn args() -> Vec<Arg> {
    vec![ViewArg::dense(0, Scalar::F32, &[ELEMENTS as i64]).into(), ScalarArg::float(Scalar::F32, 2.0).into()]
}
