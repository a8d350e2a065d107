//! Instructions on memory: LDS, global, flat, scratch and buffers, and scalar loads.

use super::vector::{ALL, MI200, MI300, MI350};

/// What an atomic does to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Atomic {
    Add,
    Sub,
    Rsub,
    Inc,
    Dec,
    MinI,
    MaxI,
    MinU,
    MaxU,
    And,
    Or,
    Xor,
    MaskOr,
    Swap,
    CmpSwap,
    CmpSwapF,
    MinF,
    MaxF,
    AddF,
    PkAddF16,
    PkAddBf16,
}

/// Where a 16-bit load goes in its register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// All of it, extended.
    Whole,
    /// The low half; the high one is kept.
    Low,
    /// The high half; the low one is kept.
    High,
}

/// A load's element: bytes, whether they are sign-extended, where they go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Load {
    pub bytes: u8,
    pub signed: bool,
    pub part: Part,
}

const fn load(bytes: u8, signed: bool, part: Part) -> Load {
    Load { bytes, signed, part }
}

const fn whole(bytes: u8) -> Load {
    load(bytes, false, Part::Whole)
}

/// What an instruction on LDS does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DsKind {
    Read(Load),
    /// Two elements at two offsets in units of `step` bytes.
    Read2 {
        bytes: u8,
        step: u16,
    },
    /// From the low, or the high half of a register.
    Write {
        bytes: u8,
        high: bool,
    },
    Write2 {
        bytes: u8,
        step: u16,
    },
    Atomic {
        op: Atomic,
        bytes: u8,
        returns: bool,
    },
    Swizzle,
    Permute,
    BackPermute,
    /// The address is made of the lane's number.
    ReadAddTid,
    WriteAddTid,
    /// Transposing read: elements of so many bits.
    ReadTransposed {
        bits: u8,
    },
    Nop,
    Refused,
}

/// A row of the instructions on LDS.
#[derive(Clone, Debug)]
pub(crate) struct DsRow {
    pub name: &'static str,
    pub op: u8,
    pub chips: u8,
    pub kind: DsKind,
}

const fn ds(name: &'static str, op: u8, kind: DsKind) -> DsRow {
    DsRow { name, op, chips: ALL, kind }
}

const fn at(name: &'static str, op: u8, atomic: Atomic, bytes: u8, returns: bool) -> DsRow {
    DsRow { name, op, chips: ALL, kind: DsKind::Atomic { op: atomic, bytes, returns } }
}

use Atomic as A;
use DsKind::{Read, Read2, Refused, Write, Write2};

/// All rows.
pub(crate) static DS: &[DsRow] = &[
    at("ds_add_u32", 0, A::Add, 4, false),
    at("ds_sub_u32", 1, A::Sub, 4, false),
    at("ds_rsub_u32", 2, A::Rsub, 4, false),
    at("ds_inc_u32", 3, A::Inc, 4, false),
    at("ds_dec_u32", 4, A::Dec, 4, false),
    at("ds_min_i32", 5, A::MinI, 4, false),
    at("ds_max_i32", 6, A::MaxI, 4, false),
    at("ds_min_u32", 7, A::MinU, 4, false),
    at("ds_max_u32", 8, A::MaxU, 4, false),
    at("ds_and_b32", 9, A::And, 4, false),
    at("ds_or_b32", 10, A::Or, 4, false),
    at("ds_xor_b32", 11, A::Xor, 4, false),
    at("ds_mskor_b32", 12, A::MaskOr, 4, false),
    ds("ds_write_b32", 13, Write { bytes: 4, high: false }),
    ds("ds_write2_b32", 14, Write2 { bytes: 4, step: 4 }),
    ds("ds_write2st64_b32", 15, Write2 { bytes: 4, step: 256 }),
    at("ds_cmpst_b32", 16, A::CmpSwap, 4, false),
    at("ds_cmpst_f32", 17, A::CmpSwapF, 4, false),
    at("ds_min_f32", 18, A::MinF, 4, false),
    at("ds_max_f32", 19, A::MaxF, 4, false),
    ds("ds_nop", 20, DsKind::Nop),
    at("ds_add_f32", 21, A::AddF, 4, false),
    DsRow { chips: MI300, ..at("ds_pk_add_f16", 23, A::PkAddF16, 4, false) },
    DsRow { chips: MI300, ..at("ds_pk_add_bf16", 24, A::PkAddBf16, 4, false) },
    ds("ds_write_addtid_b32", 29, DsKind::WriteAddTid),
    ds("ds_write_b8", 30, Write { bytes: 1, high: false }),
    ds("ds_write_b16", 31, Write { bytes: 2, high: false }),
    at("ds_add_rtn_u32", 32, A::Add, 4, true),
    at("ds_sub_rtn_u32", 33, A::Sub, 4, true),
    at("ds_rsub_rtn_u32", 34, A::Rsub, 4, true),
    at("ds_inc_rtn_u32", 35, A::Inc, 4, true),
    at("ds_dec_rtn_u32", 36, A::Dec, 4, true),
    at("ds_min_rtn_i32", 37, A::MinI, 4, true),
    at("ds_max_rtn_i32", 38, A::MaxI, 4, true),
    at("ds_min_rtn_u32", 39, A::MinU, 4, true),
    at("ds_max_rtn_u32", 40, A::MaxU, 4, true),
    at("ds_and_rtn_b32", 41, A::And, 4, true),
    at("ds_or_rtn_b32", 42, A::Or, 4, true),
    at("ds_xor_rtn_b32", 43, A::Xor, 4, true),
    at("ds_mskor_rtn_b32", 44, A::MaskOr, 4, true),
    at("ds_wrxchg_rtn_b32", 45, A::Swap, 4, true),
    ds("ds_wrxchg2_rtn_b32", 46, Refused),
    ds("ds_wrxchg2st64_rtn_b32", 47, Refused),
    at("ds_cmpst_rtn_b32", 48, A::CmpSwap, 4, true),
    at("ds_cmpst_rtn_f32", 49, A::CmpSwapF, 4, true),
    at("ds_min_rtn_f32", 50, A::MinF, 4, true),
    at("ds_max_rtn_f32", 51, A::MaxF, 4, true),
    ds("ds_wrap_rtn_b32", 52, Refused),
    at("ds_add_rtn_f32", 53, A::AddF, 4, true),
    ds("ds_read_b32", 54, Read(whole(4))),
    ds("ds_read2_b32", 55, Read2 { bytes: 4, step: 4 }),
    ds("ds_read2st64_b32", 56, Read2 { bytes: 4, step: 256 }),
    ds("ds_read_i8", 57, Read(load(1, true, Part::Whole))),
    ds("ds_read_u8", 58, Read(whole(1))),
    ds("ds_read_i16", 59, Read(load(2, true, Part::Whole))),
    ds("ds_read_u16", 60, Read(whole(2))),
    ds("ds_swizzle_b32", 61, DsKind::Swizzle),
    ds("ds_permute_b32", 62, DsKind::Permute),
    ds("ds_bpermute_b32", 63, DsKind::BackPermute),
    at("ds_add_u64", 64, A::Add, 8, false),
    at("ds_sub_u64", 65, A::Sub, 8, false),
    at("ds_rsub_u64", 66, A::Rsub, 8, false),
    at("ds_inc_u64", 67, A::Inc, 8, false),
    at("ds_dec_u64", 68, A::Dec, 8, false),
    at("ds_min_i64", 69, A::MinI, 8, false),
    at("ds_max_i64", 70, A::MaxI, 8, false),
    at("ds_min_u64", 71, A::MinU, 8, false),
    at("ds_max_u64", 72, A::MaxU, 8, false),
    at("ds_and_b64", 73, A::And, 8, false),
    at("ds_or_b64", 74, A::Or, 8, false),
    at("ds_xor_b64", 75, A::Xor, 8, false),
    at("ds_mskor_b64", 76, A::MaskOr, 8, false),
    ds("ds_write_b64", 77, Write { bytes: 8, high: false }),
    ds("ds_write2_b64", 78, Write2 { bytes: 8, step: 8 }),
    ds("ds_write2st64_b64", 79, Write2 { bytes: 8, step: 512 }),
    at("ds_cmpst_b64", 80, A::CmpSwap, 8, false),
    at("ds_cmpst_f64", 81, A::CmpSwapF, 8, false),
    at("ds_min_f64", 82, A::MinF, 8, false),
    at("ds_max_f64", 83, A::MaxF, 8, false),
    ds("ds_write_b8_d16_hi", 84, Write { bytes: 1, high: true }),
    ds("ds_write_b16_d16_hi", 85, Write { bytes: 2, high: true }),
    ds("ds_read_u8_d16", 86, Read(load(1, false, Part::Low))),
    ds("ds_read_u8_d16_hi", 87, Read(load(1, false, Part::High))),
    ds("ds_read_i8_d16", 88, Read(load(1, true, Part::Low))),
    ds("ds_read_i8_d16_hi", 89, Read(load(1, true, Part::High))),
    ds("ds_read_u16_d16", 90, Read(load(2, false, Part::Low))),
    ds("ds_read_u16_d16_hi", 91, Read(load(2, false, Part::High))),
    at("ds_add_f64", 92, A::AddF, 8, false),
    at("ds_add_rtn_u64", 96, A::Add, 8, true),
    at("ds_sub_rtn_u64", 97, A::Sub, 8, true),
    at("ds_rsub_rtn_u64", 98, A::Rsub, 8, true),
    at("ds_inc_rtn_u64", 99, A::Inc, 8, true),
    at("ds_dec_rtn_u64", 100, A::Dec, 8, true),
    at("ds_min_rtn_i64", 101, A::MinI, 8, true),
    at("ds_max_rtn_i64", 102, A::MaxI, 8, true),
    at("ds_min_rtn_u64", 103, A::MinU, 8, true),
    at("ds_max_rtn_u64", 104, A::MaxU, 8, true),
    at("ds_and_rtn_b64", 105, A::And, 8, true),
    at("ds_or_rtn_b64", 106, A::Or, 8, true),
    at("ds_xor_rtn_b64", 107, A::Xor, 8, true),
    at("ds_mskor_rtn_b64", 108, A::MaskOr, 8, true),
    at("ds_wrxchg_rtn_b64", 109, A::Swap, 8, true),
    ds("ds_wrxchg2_rtn_b64", 110, Refused),
    ds("ds_wrxchg2st64_rtn_b64", 111, Refused),
    at("ds_cmpst_rtn_b64", 112, A::CmpSwap, 8, true),
    at("ds_cmpst_rtn_f64", 113, A::CmpSwapF, 8, true),
    at("ds_min_rtn_f64", 114, A::MinF, 8, true),
    at("ds_max_rtn_f64", 115, A::MaxF, 8, true),
    ds("ds_read_b64", 118, Read(whole(8))),
    ds("ds_read2_b64", 119, Read2 { bytes: 8, step: 8 }),
    ds("ds_read2st64_b64", 120, Read2 { bytes: 8, step: 512 }),
    at("ds_add_rtn_f64", 124, A::AddF, 8, true),
    ds("ds_condxchg32_rtn_b64", 126, Refused),
    ds("ds_gws_sema_release_all", 152, Refused),
    ds("ds_gws_init", 153, Refused),
    ds("ds_gws_sema_v", 154, Refused),
    ds("ds_gws_sema_br", 155, Refused),
    ds("ds_gws_sema_p", 156, Refused),
    ds("ds_gws_barrier", 157, Refused),
    ds("ds_read_addtid_b32", 182, DsKind::ReadAddTid),
    DsRow { chips: MI300, ..at("ds_pk_add_rtn_f16", 183, A::PkAddF16, 4, true) },
    DsRow { chips: MI300, ..at("ds_pk_add_rtn_bf16", 184, A::PkAddBf16, 4, true) },
    ds("ds_consume", 189, Refused),
    ds("ds_append", 190, Refused),
    ds("ds_write_b96", 222, Write { bytes: 12, high: false }),
    ds("ds_write_b128", 223, Write { bytes: 16, high: false }),
    DsRow { chips: MI350, ..ds("ds_read_b64_tr_b4", 224, DsKind::ReadTransposed { bits: 4 }) },
    DsRow { chips: MI350, ..ds("ds_read_b96_tr_b6", 225, Refused) },
    DsRow { chips: MI350, ..ds("ds_read_b64_tr_b8", 226, DsKind::ReadTransposed { bits: 8 }) },
    DsRow { chips: MI350, ..ds("ds_read_b64_tr_b16", 227, DsKind::ReadTransposed { bits: 16 }) },
    ds("ds_read_b96", 254, Read(whole(12))),
    ds("ds_read_b128", 255, Read(whole(16))),
];

/// The space and form of a vector instruction on memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Space {
    Flat,
    Scratch,
    Global,
    Buffer,
}

impl Space {
    pub fn prefix(self) -> &'static str {
        match self {
            Space::Flat => "flat_",
            Space::Scratch => "scratch_",
            Space::Global => "global_",
            Space::Buffer => "buffer_",
        }
    }
}

/// What a vector instruction on memory does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MemKind {
    Load(Load),
    Store {
        bytes: u8,
        high: bool,
    },
    /// Each lane's element goes to LDS.
    LoadLds {
        bytes: u8,
        signed: bool,
    },
    Atomic {
        op: Atomic,
        bytes: u8,
    },
    /// Invalidates or writes back a cache.
    Cache,
    Refused,
}

/// A row of the vector instructions on memory: the spaces that have it, by a letter each, and the chips of each space.
#[derive(Clone, Debug)]
pub(crate) struct MemRow {
    pub name: &'static str,
    pub op: u8,
    pub spaces: &'static [(Space, u8)],
    pub kind: MemKind,
}

const EVERY: &[(Space, u8)] = &[(Space::Flat, ALL), (Space::Scratch, ALL), (Space::Global, ALL), (Space::Buffer, ALL)];
const ATOMIC: &[(Space, u8)] = &[(Space::Flat, ALL), (Space::Global, ALL), (Space::Buffer, ALL)];
const ATOMIC_NEW: &[(Space, u8)] = &[(Space::Flat, MI300), (Space::Global, ALL), (Space::Buffer, ALL)];
const TO_LDS: &[(Space, u8)] = &[(Space::Scratch, MI300), (Space::Global, MI300)];
const ONLY: &[(Space, u8)] = &[(Space::Buffer, ALL)];

const fn mem(name: &'static str, op: u8, spaces: &'static [(Space, u8)], kind: MemKind) -> MemRow {
    MemRow { name, op, spaces, kind }
}

const fn ld(name: &'static str, op: u8, load: Load) -> MemRow {
    mem(name, op, EVERY, MemKind::Load(load))
}

const fn st(name: &'static str, op: u8, bytes: u8, high: bool) -> MemRow {
    mem(name, op, EVERY, MemKind::Store { bytes, high })
}

const fn to_lds(name: &'static str, op: u8, bytes: u8, signed: bool) -> MemRow {
    mem(name, op, TO_LDS, MemKind::LoadLds { bytes, signed })
}

const fn atomic(name: &'static str, op: u8, atomic: Atomic, bytes: u8) -> MemRow {
    mem(name, op, ATOMIC, MemKind::Atomic { op: atomic, bytes })
}

/// All rows.
pub(crate) static MEM: &[MemRow] = &[
    ld("load_ubyte", 16, whole(1)),
    ld("load_sbyte", 17, load(1, true, Part::Whole)),
    ld("load_ushort", 18, whole(2)),
    ld("load_sshort", 19, load(2, true, Part::Whole)),
    ld("load_dword", 20, whole(4)),
    ld("load_dwordx2", 21, whole(8)),
    ld("load_dwordx3", 22, whole(12)),
    ld("load_dwordx4", 23, whole(16)),
    st("store_byte", 24, 1, false),
    st("store_byte_d16_hi", 25, 1, true),
    st("store_short", 26, 2, false),
    st("store_short_d16_hi", 27, 2, true),
    st("store_dword", 28, 4, false),
    st("store_dwordx2", 29, 8, false),
    st("store_dwordx3", 30, 12, false),
    st("store_dwordx4", 31, 16, false),
    ld("load_ubyte_d16", 32, load(1, false, Part::Low)),
    ld("load_ubyte_d16_hi", 33, load(1, false, Part::High)),
    ld("load_sbyte_d16", 34, load(1, true, Part::Low)),
    ld("load_sbyte_d16_hi", 35, load(1, true, Part::High)),
    ld("load_short_d16", 36, load(2, false, Part::Low)),
    ld("load_short_d16_hi", 37, load(2, false, Part::High)),
    to_lds("load_lds_ubyte", 38, 1, false),
    to_lds("load_lds_sbyte", 39, 1, true),
    to_lds("load_lds_ushort", 40, 2, false),
    to_lds("load_lds_sshort", 41, 2, true),
    to_lds("load_lds_dword", 42, 4, false),
    mem("load_lds_dwordx4", 125, &[(Space::Global, MI350)], MemKind::LoadLds { bytes: 16, signed: false }),
    mem("load_lds_dwordx3", 126, &[(Space::Global, MI350)], MemKind::LoadLds { bytes: 12, signed: false }),
    mem("wbl2", 40, ONLY, MemKind::Cache),
    mem("inv", 41, &[(Space::Buffer, MI300)], MemKind::Cache),
    mem("invl2", 41, &[(Space::Buffer, MI200)], MemKind::Cache),
    mem("wbinvl1", 62, ONLY, MemKind::Cache),
    mem("wbinvl1_vol", 63, ONLY, MemKind::Cache),
    mem("load_format_x", 0, ONLY, MemKind::Refused),
    mem("load_format_xy", 1, ONLY, MemKind::Refused),
    mem("load_format_xyz", 2, ONLY, MemKind::Refused),
    mem("load_format_xyzw", 3, ONLY, MemKind::Refused),
    mem("store_format_x", 4, ONLY, MemKind::Refused),
    mem("store_format_xy", 5, ONLY, MemKind::Refused),
    mem("store_format_xyz", 6, ONLY, MemKind::Refused),
    mem("store_format_xyzw", 7, ONLY, MemKind::Refused),
    mem("load_format_d16_x", 8, ONLY, MemKind::Refused),
    mem("load_format_d16_xy", 9, ONLY, MemKind::Refused),
    mem("load_format_d16_xyz", 10, ONLY, MemKind::Refused),
    mem("load_format_d16_xyzw", 11, ONLY, MemKind::Refused),
    mem("store_format_d16_x", 12, ONLY, MemKind::Refused),
    mem("store_format_d16_xy", 13, ONLY, MemKind::Refused),
    mem("store_format_d16_xyz", 14, ONLY, MemKind::Refused),
    mem("store_format_d16_xyzw", 15, ONLY, MemKind::Refused),
    mem("load_format_d16_hi_x", 38, ONLY, MemKind::Refused),
    mem("store_format_d16_hi_x", 39, ONLY, MemKind::Refused),
    atomic("atomic_swap", 64, A::Swap, 4),
    atomic("atomic_cmpswap", 65, A::CmpSwap, 4),
    atomic("atomic_add", 66, A::Add, 4),
    atomic("atomic_sub", 67, A::Sub, 4),
    atomic("atomic_smin", 68, A::MinI, 4),
    atomic("atomic_umin", 69, A::MinU, 4),
    atomic("atomic_smax", 70, A::MaxI, 4),
    atomic("atomic_umax", 71, A::MaxU, 4),
    atomic("atomic_and", 72, A::And, 4),
    atomic("atomic_or", 73, A::Or, 4),
    atomic("atomic_xor", 74, A::Xor, 4),
    atomic("atomic_inc", 75, A::Inc, 4),
    atomic("atomic_dec", 76, A::Dec, 4),
    mem("atomic_add_f32", 77, ATOMIC_NEW, MemKind::Atomic { op: A::AddF, bytes: 4 }),
    mem("atomic_pk_add_f16", 78, ATOMIC_NEW, MemKind::Atomic { op: A::PkAddF16, bytes: 4 }),
    atomic("atomic_add_f64", 79, A::AddF, 8),
    atomic("atomic_min_f64", 80, A::MinF, 8),
    atomic("atomic_max_f64", 81, A::MaxF, 8),
    mem(
        "atomic_pk_add_bf16",
        82,
        &[(Space::Flat, MI300), (Space::Global, MI300), (Space::Buffer, MI350)],
        MemKind::Atomic { op: A::PkAddBf16, bytes: 4 },
    ),
    atomic("atomic_swap_x2", 96, A::Swap, 8),
    atomic("atomic_cmpswap_x2", 97, A::CmpSwap, 8),
    atomic("atomic_add_x2", 98, A::Add, 8),
    atomic("atomic_sub_x2", 99, A::Sub, 8),
    atomic("atomic_smin_x2", 100, A::MinI, 8),
    atomic("atomic_umin_x2", 101, A::MinU, 8),
    atomic("atomic_smax_x2", 102, A::MaxI, 8),
    atomic("atomic_umax_x2", 103, A::MaxU, 8),
    atomic("atomic_and_x2", 104, A::And, 8),
    atomic("atomic_or_x2", 105, A::Or, 8),
    atomic("atomic_xor_x2", 106, A::Xor, 8),
    atomic("atomic_inc_x2", 107, A::Inc, 8),
    atomic("atomic_dec_x2", 108, A::Dec, 8),
];

/// What a scalar instruction on memory does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SmemKind {
    Load {
        dwords: u8,
        buffer: bool,
    },
    /// A clock.
    Time,
    Cache,
    Refused,
}

/// Scalar instructions on memory: name, number, what they do.
pub(crate) static SMEM: &[(&str, u8, SmemKind)] = &[
    ("s_load_dword", 0, SmemKind::Load { dwords: 1, buffer: false }),
    ("s_load_dwordx2", 1, SmemKind::Load { dwords: 2, buffer: false }),
    ("s_load_dwordx4", 2, SmemKind::Load { dwords: 4, buffer: false }),
    ("s_load_dwordx8", 3, SmemKind::Load { dwords: 8, buffer: false }),
    ("s_load_dwordx16", 4, SmemKind::Load { dwords: 16, buffer: false }),
    ("s_scratch_load_dword", 5, SmemKind::Refused),
    ("s_scratch_load_dwordx2", 6, SmemKind::Refused),
    ("s_scratch_load_dwordx4", 7, SmemKind::Refused),
    ("s_buffer_load_dword", 8, SmemKind::Load { dwords: 1, buffer: true }),
    ("s_buffer_load_dwordx2", 9, SmemKind::Load { dwords: 2, buffer: true }),
    ("s_buffer_load_dwordx4", 10, SmemKind::Load { dwords: 4, buffer: true }),
    ("s_buffer_load_dwordx8", 11, SmemKind::Load { dwords: 8, buffer: true }),
    ("s_buffer_load_dwordx16", 12, SmemKind::Load { dwords: 16, buffer: true }),
    ("s_store_dword", 16, SmemKind::Refused),
    ("s_store_dwordx2", 17, SmemKind::Refused),
    ("s_store_dwordx4", 18, SmemKind::Refused),
    ("s_dcache_inv", 32, SmemKind::Cache),
    ("s_dcache_wb", 33, SmemKind::Cache),
    ("s_dcache_inv_vol", 34, SmemKind::Cache),
    ("s_dcache_wb_vol", 35, SmemKind::Cache),
    ("s_memtime", 36, SmemKind::Time),
    ("s_memrealtime", 37, SmemKind::Time),
];
