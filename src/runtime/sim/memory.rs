//! Host memory of a launch: copied to the simulated device, and what was written copied back.

use tilelift_interp::{Arg, Buffer, Memory};

/// What a buffer holds before the launch.
pub(super) enum Contents<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// So many bytes that nobody has written.
    Undefined(usize),
}

/// Gives every buffer to the device, which says where it lies there.
pub(super) fn copied_in(args: &[Arg], memory: &Memory, alloc: &mut dyn FnMut(&str, Contents<'_>) -> u64) -> Vec<u64> {
    let contents = |b: &Buffer| b.is_initialised(0..b.len());
    let each = memory.buffers.iter().enumerate();
    each.map(|(i, b)| alloc(&name_of(i, args), if contents(b) { Contents::Bytes(b.bytes()) } else { Contents::Undefined(b.len()) }))
        .collect()
}

/// Names a buffer after the first parameter that looks into it, as the printer names parameters.
fn name_of(buffer: usize, args: &[Arg]) -> String {
    let param = args.iter().position(|a| matches!(a, Arg::View(v) if v.buffer == buffer));
    param.map_or_else(|| format!("buffer {buffer}"), |p| format!("v{p}"))
}

/// Copies what is defined on the device back to host memory; bytes that the kernel left alone keep what the host had there.
pub(super) fn written_back<E>(
    memory: &mut Memory,
    bases: &[u64],
    is_written: impl Fn(u64, usize) -> Result<bool, E>,
    copy: impl Fn(u64, &mut [u8]) -> Result<(), E>,
) -> Result<(), E> {
    for (buffer, &base) in memory.buffers.iter_mut().zip(bases) {
        if is_written(base, buffer.len())? {
            copy(base, buffer.bytes_mut())?;
            continue;
        }
        let mut bytes = buffer.bytes().to_vec();
        copy(base, &mut bytes)?;
        *buffer = Buffer::from_bytes(bytes);
    }
    Ok(())
}
