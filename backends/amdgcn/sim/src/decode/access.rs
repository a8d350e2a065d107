//! Which registers an instruction reads and writes, for the checks of counts, flights and hazards.
//!
//! EXEC and SCC are left to the code that knows: here are the registers that are named, and VCC where it is implied.

use super::inst::{Access, Ds, EXEC, File, M0, Matrix, Mem, Op, Role, Scalar, Smem, Src, VCC, Vector};
use crate::isa::memory::{Atomic, DsKind, MemKind, SmemKind, Space};
use crate::isa::scalar::Special;
use crate::isa::vector::{Kind, Ty};
use smallvec::SmallVec;

type List = SmallVec<[Access; 6]>;

fn push(list: &mut List, file: File, first: u8, count: u8, write: bool, role: Role) {
    if count > 0 {
        list.push(Access { file, first: u16::from(first), count, write, role });
    }
}

fn source(list: &mut List, src: Src, count: u8, role: Role) {
    let (file, first) = match src {
        Src::S(n) => (File::S, n),
        Src::V(n) => (File::V, n),
        Src::A(n) => (File::A, n),
        _ => return,
    };
    push(list, file, first, count, false, role);
}

pub(super) fn of(op: &Op) -> List {
    let mut list = List::new();
    match op {
        Op::Program(..) => {}
        Op::Scalar(s) => scalar(&mut list, s),
        Op::Smem(s) => smem(&mut list, s),
        Op::Vector(v) => vector(&mut list, v),
        Op::Matrix(m) => matrix(&mut list, m),
        Op::Ds(d) => ds(&mut list, d),
        Op::Mem(m) => mem(&mut list, m),
    }
    list
}

fn scalar(list: &mut List, s: &Scalar) {
    let tuple = |count: u8| if count > 1 { Role::Tuple } else { Role::Plain };
    source(list, s.a, s.row.a, tuple(s.row.a));
    source(list, s.b, s.row.b, tuple(s.row.b));
    if s.row.special == Special::DstSource || s.row.special == Special::CMov {
        push(list, File::S, s.dst, s.row.dst, false, Role::Plain);
    }
    push(list, File::S, s.dst, s.row.dst, true, tuple(s.row.dst));
    if matches!(s.row.special, Special::SaveExec | Special::WriteExec) {
        push(list, File::S, EXEC, 2, false, Role::Plain);
        push(list, File::S, EXEC, 2, true, Role::Plain);
    }
}

fn smem(list: &mut List, s: &Smem) {
    match s.kind {
        SmemKind::Load { dwords, buffer } => {
            push(list, File::S, s.base, if buffer { 4 } else { 2 }, false, Role::Plain);
            if let Some(o) = s.soffset {
                push(list, File::S, o, 1, false, Role::Plain);
            }
            push(list, File::S, s.dst, dwords, true, Role::Plain);
        }
        SmemKind::Time => push(list, File::S, s.dst, 2, true, Role::Plain),
        SmemKind::Cache | SmemKind::Refused => {}
    }
}

fn vector(list: &mut List, v: &Vector) {
    for (i, &src) in v.src.iter().enumerate() {
        let role = match (i, v.row.kind, v.row.src[i]) {
            (0, _, _) if v.dpp.is_some() => Role::Dpp,
            (0, Kind::ReadLane | Kind::ReadFirst, _) => Role::LaneSource,
            (_, _, Ty::Lane) => Role::LaneSelect,
            (_, _, ty) if ty.dwords() > 1 => Role::Tuple,
            _ => Role::Plain,
        };
        source(list, src, v.row.src[i].dwords(), role);
    }
    if v.row.kind == Kind::DivFmas {
        push(list, File::S, VCC, 2, false, Role::DivFmas);
    }
    let count = v.row.dst.dwords();
    let role = if count > 1 { Role::Tuple } else { Role::Plain };
    match v.row.kind {
        Kind::Cmp { exec } => {
            push(list, File::S, v.mask_dst, 2, true, Role::Plain);
            if exec {
                push(list, File::S, EXEC, 2, true, Role::Plain);
            }
        }
        Kind::ReadLane | Kind::ReadFirst => push(list, File::S, v.dst, 1, true, Role::Plain),
        Kind::AccWrite | Kind::AccMov => push(list, File::A, v.dst, 1, true, Role::Plain),
        Kind::Swap | Kind::SwapRows(_) => {
            push(list, File::V, v.dst, 1, false, Role::Plain);
            push(list, File::V, v.dst, 1, true, Role::Plain);
            if let Src::V(n) = v.src[0] {
                push(list, File::V, n, 1, true, Role::Plain);
            }
        }
        Kind::Nop | Kind::Refused => {}
        _ => {
            push(list, File::V, v.dst, count, true, role);
            if matches!(v.row.kind, Kind::Carry | Kind::Mad64 { .. } | Kind::DivScale) {
                push(list, File::S, v.mask_dst, 2, true, Role::Plain);
            }
        }
    }
}

/// Registers of A or B of the formats that the fields `cbsz` and `blgp` name.
fn any8_registers(format: u8) -> u8 {
    match format {
        0 | 1 => 8,
        2 | 3 => 6,
        _ => 4,
    }
}

fn matrix(list: &mut List, m: &Matrix) {
    let any = m.row.a == crate::isa::matrix::Elem::Any8;
    let (a, b) = if any {
        (any8_registers(m.cbsz), any8_registers(m.blgp))
    } else {
        (m.row.sources(m.row.a.bits()) as u8, m.row.sources(m.row.b.bits()) as u8)
    };
    push(list, m.a.0, m.a.1, a, false, Role::MatAB);
    push(list, m.b.0, m.b.1, b, false, Role::MatAB);
    for (src, _) in m.scales.into_iter().flatten() {
        source(list, src, 1, Role::Plain);
    }
    source(list, m.c, m.row.results() as u8, Role::MatC);
    push(list, m.dst.0, m.dst.1, m.row.results() as u8, true, Role::MatC);
}

fn ds(list: &mut List, d: &Ds) {
    let file = if d.acc { File::A } else { File::V };
    let data = |list: &mut List, i: usize, bytes: u8| push(list, file, d.data[i], bytes.div_ceil(4), false, Role::Data);
    let addr = |list: &mut List| push(list, File::V, d.addr, 1, false, Role::Plain);
    match d.row.kind {
        DsKind::Read(l) => {
            addr(list);
            push(list, file, d.dst, l.bytes.div_ceil(4), true, Role::Plain);
        }
        DsKind::Read2 { bytes, .. } => {
            addr(list);
            push(list, file, d.dst, bytes / 2, true, Role::Plain);
        }
        DsKind::Write { bytes, .. } => {
            addr(list);
            data(list, 0, bytes);
        }
        DsKind::Write2 { bytes, .. } => {
            addr(list);
            data(list, 0, bytes);
            data(list, 1, bytes);
        }
        DsKind::Atomic { op, bytes, returns } => {
            addr(list);
            data(list, 0, bytes);
            if matches!(op, Atomic::CmpSwap | Atomic::CmpSwapF | Atomic::MaskOr) {
                data(list, 1, bytes);
            }
            if returns {
                push(list, file, d.dst, bytes / 4, true, Role::Plain);
            }
        }
        DsKind::Swizzle => {
            addr(list);
            push(list, file, d.dst, 1, true, Role::Plain);
        }
        DsKind::Permute | DsKind::BackPermute => {
            addr(list);
            data(list, 0, 4);
            push(list, file, d.dst, 1, true, Role::Plain);
        }
        DsKind::ReadAddTid => {
            push(list, File::S, M0, 1, false, Role::Plain);
            push(list, file, d.dst, 1, true, Role::Plain);
        }
        DsKind::WriteAddTid => {
            push(list, File::S, M0, 1, false, Role::Plain);
            data(list, 0, 4);
        }
        DsKind::ReadTransposed { .. } => {
            addr(list);
            push(list, file, d.dst, 2, true, Role::Plain);
        }
        DsKind::Nop | DsKind::Refused => {}
    }
}

fn mem(list: &mut List, m: &Mem) {
    let file = if m.acc { File::A } else { File::V };
    if let Some(v) = m.vaddr {
        let count = match m.space {
            Space::Flat => 2,
            Space::Global => {
                if m.saddr.is_some() {
                    1
                } else {
                    2
                }
            }
            Space::Scratch => 1,
            Space::Buffer => u8::from(m.offen) + u8::from(m.idxen),
        };
        push(list, File::V, v, count, false, Role::Plain);
    }
    if let (Some(s), false) = (m.saddr, matches!(m.kind, MemKind::Cache)) {
        let count = match m.space {
            Space::Buffer => 4,
            Space::Scratch => 1,
            Space::Global | Space::Flat => 2,
        };
        push(list, File::S, s, count, false, Role::Plain);
    }
    source(list, m.soffset, 1, Role::Plain);
    match m.kind {
        MemKind::Load(_) => push(list, file, m.dst, m.dwords(), true, Role::Plain),
        MemKind::Store { .. } => push(list, file, m.data, m.dwords(), false, Role::Data),
        MemKind::LoadLds { .. } => push(list, File::S, M0, 1, false, Role::Plain),
        MemKind::Atomic { op, .. } => {
            let compares = matches!(op, Atomic::CmpSwap);
            push(list, file, m.data, m.dwords() * if compares { 2 } else { 1 }, false, Role::Data);
            if m.glc {
                push(list, file, m.dst, m.dwords(), true, Role::Plain);
            }
        }
        MemKind::Cache | MemKind::Refused => {}
    }
}
