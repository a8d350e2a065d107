//! Which 32-bit planes an instruction names: what the register rules of wgmma need to know.

use crate::program::hop::{Hop, Phase};
use crate::program::op::Op;
use crate::program::operand::{Addr, Reg};
use smallvec::SmallVec;

/// Planes of the 32-bit file, in no order. The wgmma operations themselves keep their own book.
pub(super) fn planes(op: &Op) -> SmallVec<[u32; 4]> {
    let mut v: SmallVec<[u32; 4]> = SmallVec::new();
    let mut put = |r: Reg| {
        if !r.is_wide() {
            v.push(r.i() as u32);
        }
    };
    visit(op, &mut put);
    v
}

fn visit(op: &Op, f: &mut impl FnMut(Reg)) {
    let addr = |a: &Addr, f: &mut dyn FnMut(Reg)| f(a.base);
    match op {
        Op::Nop | Op::GridWait | Op::MovP { .. } | Op::LogicP { .. } | Op::Bra { .. } | Op::Exit | Op::Trap => {}
        Op::Mov { d, s } | Op::Cvta { d, s, .. } | Op::MovMatrix { d, s } => [*d, *s].map(f).into_iter().collect(),
        Op::Pack { d, parts, .. } => {
            f(*d);
            parts.iter().copied().for_each(f);
        }
        Op::Unpack { parts, s, .. } => {
            f(*s);
            parts.iter().flatten().copied().for_each(f);
        }
        Op::Int { d, a, b, c, .. }
        | Op::Lop3 { d, a, b, c, .. }
        | Op::Shf { d, a, b, c, .. }
        | Op::Prmt { d, a, b, c, .. }
        | Op::Flt { d, a, b, c, .. }
        | Op::Slct { d, a, b, c, .. } => [*d, *a, *b, *c].map(f).into_iter().collect(),
        Op::Bfi { d, a, b, pos, len, .. } => [*d, *a, *b, *pos, *len].map(f).into_iter().collect(),
        Op::Testp { a, .. } | Op::Isspacep { a, .. } => f(*a),
        Op::Cvt(c) => [c.d, c.s].map(f).into_iter().collect(),
        Op::CvtPack { d, hi, lo, .. } | Op::CvtToCodes { d, hi, lo, .. } => [*d, *hi, *lo].map(f).into_iter().collect(),
        Op::CvtFromCodes { d, s, .. } => [*d, *s].map(f).into_iter().collect(),
        Op::Setp { a, b, .. } | Op::Setp2 { a, b, .. } => [*a, *b].map(f).into_iter().collect(),
        Op::Set { d, a, b, .. } | Op::Selp { d, a, b, .. } => [*d, *a, *b].map(f).into_iter().collect(),
        Op::Ld(m) | Op::St(m) => {
            addr(&m.addr, f);
            m.regs.iter().copied().for_each(f);
        }
        Op::Atom(a) => {
            addr(&a.addr, f);
            a.d.into_iter().chain([a.b, a.c]).for_each(f);
        }
        Op::Discard { addr: a } => addr(a, f),
        Op::Bar { id, count, d, .. } => std::iter::once(*id).chain(*count).chain(*d).for_each(f),
        Op::BarWarp { mask } => f(*mask),
        Op::Shfl { d, a, b, c, mask, .. } => d.iter().copied().chain([*a, *b, *c, *mask]).for_each(f),
        Op::Vote { d, mask, .. } | Op::Elect { d, mask, .. } => d.iter().copied().chain([*mask]).for_each(f),
        Op::Match { d, a, mask, .. } => d.iter().copied().chain([*a, *mask]).for_each(f),
        Op::Redux { d, a, mask, .. } => [*d, *a, *mask].map(f).into_iter().collect(),
        Op::ActiveMask { d } => f(*d),
        Op::Fence { .. } | Op::CpCommit | Op::CpWait { .. } | Op::CpWaitAll => {}
        Op::CpAsync(c) => {
            addr(&c.dst, f);
            addr(&c.src, f);
            c.src_size.into_iter().for_each(f);
        }
        Op::LdMatrix { addr: a, d, .. } => {
            addr(a, f);
            d.iter().copied().for_each(f);
        }
        Op::StMatrix { addr: a, s, .. } => {
            addr(a, f);
            s.iter().copied().for_each(f);
        }
        Op::Mma(m) => m.d.iter().chain(&m.a).chain(&m.b).chain(&m.c).copied().for_each(f),
        Op::Hop(h) => hop(h, f),
    }
}

fn hop(h: &Hop, f: &mut impl FnMut(Reg)) {
    match h {
        Hop::MbarInit { addr, count } => [addr.base, *count].map(f).into_iter().collect(),
        Hop::MbarInval { addr } | Hop::CpArrive { addr, .. } => f(addr.base),
        Hop::MbarArrive(a) => {
            f(a.addr.base);
            a.count.into_iter().chain(a.tx).for_each(f);
        }
        Hop::MbarTx { addr, bytes, .. } => [addr.base, *bytes].map(f).into_iter().collect(),
        Hop::MbarWait(m) => {
            f(m.addr.base);
            match m.phase {
                Phase::State(r) | Phase::Parity(r) => f(r),
            }
        }
        Hop::MbarPending { d, .. } => f(*d),
        Hop::Bulk(b) => {
            use crate::program::hop::End;
            for e in [&b.dst, &b.src] {
                match e {
                    End::Shared(a) | End::Global(a) => f(a.base),
                    End::Tensor(a, c) => std::iter::once(a.base).chain(c.iter().copied()).for_each(&mut *f),
                }
            }
            b.size.into_iter().chain(b.mbar.as_ref().map(|a| a.base)).chain(b.multicast).for_each(f);
        }
        Hop::PrefetchMap { addr } | Hop::FenceMap { addr } => f(addr.base),
        Hop::PrefetchBox { addr, coords } => std::iter::once(addr.base).chain(coords.iter().copied()).for_each(f),
        Hop::Mapa { d, a, rank, .. } => [*d, *a, *rank].map(f).into_iter().collect(),
        Hop::GetCtaRank { d, a, .. } => [*d, *a].map(f).into_iter().collect(),
        Hop::Remote(r) => {
            f(r.addr.base);
            f(r.mbar.base);
            r.vals.iter().copied().for_each(f);
        }
        Hop::BulkCommit
        | Hop::BulkWait { .. }
        | Hop::Fence(_)
        | Hop::WgFence
        | Hop::WgCommit
        | Hop::WgWait { .. }
        | Hop::Wgmma(_)
        | Hop::SetMaxNReg { .. }
        | Hop::ClusterArrive { .. }
        | Hop::ClusterWait { .. } => {}
    }
}
