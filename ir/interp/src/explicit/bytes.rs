//! Elements that share bytes, on their way to buffers: they travel as bytes, half as many in a row.

use super::local::Buf;
use crate::access::View;
use crate::data::Data;
use crate::elementwise::bitcast;
use crate::error::Fault;

/// What a copy brings from a view to a buffer, by what loads a tile of the view of some extents.
pub(super) fn as_bytes(view: &View, to: &Buf, load: impl FnOnce(&[u32]) -> Result<Data, Fault>) -> Result<Data, Fault> {
    let elem = view.arg.elem;
    if !elem.is_packed() || to.elem.is_packed() {
        return load(&to.shape);
    }
    let mut shape = to.shape.clone();
    if let Some(last) = shape.last_mut() {
        *last *= 2;
    }
    Ok(bitcast(load(&shape)?, elem, to.elem))
}
