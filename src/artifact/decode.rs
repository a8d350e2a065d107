//! An artifact from bytes.

use super::arguments::Argument;
use super::bytes::{Malformed, Reader};
use super::encode::{MAGIC, VERSION, mark};
use super::image::Artifact;
use super::params::{Param, ParamSource, TensorBox};
use crate::key::Key;
use smallvec::SmallVec;
use tilelift_ir::{Extent, GridAxis, Scalar, ViewType};

impl Artifact {
    /// The artifact that [`Artifact::to_bytes`] wrote. Bytes carry no proof of who wrote them: read only what you trust as you trust the program.
    ///
    /// # Errors
    /// The bytes are no artifact, of another version, or damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Artifact, Malformed> {
        let mut r = Reader::new(bytes);
        if r.take(MAGIC.len()).ok() != Some(MAGIC) {
            return Err(Malformed::Magic);
        }
        match r.u32()? {
            VERSION => {}
            got => return Err(Malformed::Version { got }),
        }
        let wrong = r.wrong();
        let key = match r.list(|r| Ok(Key::from_bytes(r.array()?)))?[..] {
            [] => None,
            [key] => Some(key),
            [..] => return Err(wrong),
        };
        let mut text = || r.string();
        let (name, target, text, entry, schedule) = (text()?, text()?, text()?, text()?, text()?);
        let object = r.bytes()?.to_vec();
        let (threads, shared_bytes, cluster) = (r.u32()?, r.u32()?, r.u32()?);
        let positions = [r.u32()?, r.u32()?, r.u32()?];
        let early_launch = r.bool()?;
        let (params, arguments) = (r.list(param)?, r.list(argument)?);
        let together = r.list(|r| r.list(pair))?;
        let in_place = r.list(pair)?;
        r.end()?;
        Ok(Artifact {
            key,
            name,
            target,
            text,
            object,
            entry,
            threads,
            shared_bytes,
            early_launch,
            cluster,
            positions,
            params,
            arguments,
            together,
            in_place,
            schedule,
        })
    }
}

fn pair(r: &mut Reader<'_>) -> Result<(u32, u32), Malformed> {
    Ok((r.u32()?, r.u32()?))
}

fn elem(r: &mut Reader<'_>) -> Result<Scalar, Malformed> {
    let wrong = r.wrong();
    std::str::from_utf8(r.bytes()?).ok().and_then(Scalar::from_name).ok_or(wrong)
}

fn param(r: &mut Reader<'_>) -> Result<Param, Malformed> {
    let number = elem(r)?;
    let wrong = r.wrong();
    let source = match r.u8()? {
        mark::POINTER => ParamSource::Pointer(r.u32()?),
        mark::EXTENT => ParamSource::Extent(r.u32()?, r.u32()?),
        mark::STRIDE => ParamSource::Stride(r.u32()?, r.u32()?),
        mark::SCALAR => ParamSource::Scalar(r.u32()?),
        mark::GRID => ParamSource::Grid(match r.u32()? {
            0 => GridAxis::X,
            1 => GridAxis::Y,
            2 => GridAxis::Z,
            _ => return Err(wrong),
        }),
        mark::TENSOR => {
            let (view, swizzle) = (r.u32()?, r.u32()?);
            let (elem, rank, order) = (elem(r)?, r.u8()?, r.array()?);
            let mut extents = [0; TensorBox::RANK];
            for e in &mut extents {
                *e = r.u32()?;
            }
            // The dimensions index arrays of that many, and the innermost one is always there.
            if !(1..=TensorBox::RANK).contains(&usize::from(rank)) {
                return Err(wrong);
            }
            ParamSource::Tensor(TensorBox { view, elem, rank, order, extents, swizzle, tf32: r.bool()? })
        }
        _ => return Err(wrong),
    };
    Ok(Param::new(number, source))
}

fn argument(r: &mut Reader<'_>) -> Result<Argument, Malformed> {
    let wrong = r.wrong();
    match r.u8()? {
        mark::VIEW => {
            let elem = elem(r)?;
            let dims = SmallVec::from_vec(r.list(extent)?);
            let mut strides = r.list(|r| r.list(extent))?;
            let (align, written) = (r.u32()?, r.bool()?);
            let known = strides.pop();
            let fits = known.as_ref().is_none_or(|s| s.len() == dims.len());
            if !strides.is_empty() || !fits || !align.is_power_of_two() {
                return Err(wrong);
            }
            Ok(Argument::View { ty: ViewType { elem, dims, strides: known.map(SmallVec::from_vec), align }, written })
        }
        mark::SCALAR => {
            let (elem, multiple_of) = (elem(r)?, r.u32()?);
            if multiple_of == 0 { Err(wrong) } else { Ok(Argument::Scalar { elem, multiple_of }) }
        }
        _ => Err(wrong),
    }
}

fn extent(r: &mut Reader<'_>) -> Result<Extent, Malformed> {
    let wrong = r.wrong();
    match r.u8()? {
        mark::FIXED => r.u32().map(Extent::Fixed),
        mark::DYNAMIC => r.u32().map(Extent::Dynamic),
        _ => Err(wrong),
    }
}
