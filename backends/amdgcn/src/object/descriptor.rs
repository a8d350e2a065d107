//! The kernel descriptor: 64 bytes that the command processor reads before it starts waves.

use super::bytes::Bytes;
use crate::kernel::{Resources, argument_bytes};
use crate::mir::Program;

/// Registers of a lane are handed out by so many, and counted so.
const LANE_GRANULE: u32 = 8;
/// Scalar registers are counted by so many.
const SCALAR_GRANULE: u32 = 8;
/// The kernel asks for the address of the argument segment in the first two scalar registers.
const KERNARG_ADDRESS: u16 = 1 << 3;
/// It asks for the address of scratch memory in the next two.
const SCRATCH_ADDRESS: u16 = 1 << 5;

/// The descriptor of a program whose code begins so many bytes behind it.
pub(super) fn descriptor(program: &Program, code_offset: u64) -> Vec<u8> {
    let resources = Resources::of(program);
    let granules = |n: u32, granule: u32| n.max(1).div_ceil(granule) - 1;
    // Subnormal numbers are kept in all types; rounding is to nearest.
    let modes = 3 << 16 | 3 << 18;
    let (clamp_nan, ieee) = (1 << 21, 1 << 23);
    let registers = granules(resources.lane_registers(), LANE_GRANULE)
        | granules(resources.all_scalars(), SCALAR_GRANULE) << 6
        | modes
        | clamp_nan
        | ieee;
    let [x, y, z] = program.entry.workgroup.map(u32::from);
    let addresses = KERNARG_ADDRESS | if program.scratch_setup().is_some() { SCRATCH_ADDRESS } else { 0 };
    let user_scalars = 2 * addresses.count_ones();
    let given = u32::from(program.scratch_bytes != 0) | user_scalars << 1 | x << 7 | y << 8 | z << 9;
    let files = resources.acc_offset() / 4 - 1;
    let mut out = Bytes::default();
    out.u32(&[program.lds_bytes, program.scratch_bytes, argument_bytes(program), 0]);
    out.u64(&[code_offset]).zeros_to(44);
    out.u32(&[files, registers, given]).u16(&[addresses, 0]).zeros_to(64);
    out.0
}
