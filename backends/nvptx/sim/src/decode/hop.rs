//! Decoding of the asynchronous units of sm_90 (see [`crate::program::hop`]).

use super::instr::Ix;
use super::names::Res;
use crate::program::hop::{Arrive, Bulk, End, Hop, MbarWait, Phase, ProxyFence, Remote, Sem, WgA, Wgmma, reduction_ok};
use crate::program::op::Op;
use crate::program::operand::{Addr, AtomOp, MmaTy, Reg};
use crate::text::ast::OperandKind;
use crate::types::{Space, Ty};
use smallvec::SmallVec;

fn hop(h: Hop) -> Op {
    Op::Hop(Box::new(h))
}

impl Ix<'_, '_> {
    /// Decodes `name` if it belongs here.
    pub(super) fn hop_op(&mut self, name: &str) -> Res<Option<Op>> {
        let has = |m: &str| self.mods.iter().any(|x| x.0 == m);
        let first = self.mods.first().map_or("", |m| m.0);
        Ok(Some(match name {
            "mbarrier" => hop(self.mbarrier()?),
            "cp" if first == "reduce" || has("bulk") => hop(self.bulk_op()?),
            "cp" if has("mbarrier") => {
                for m in ["async", "mbarrier", "arrive"] {
                    self.need(m)?;
                }
                let noinc = self.has("noinc");
                let space = self.space()?;
                self.need("b64")?;
                self.n_ops(1, 1)?;
                self.d.prog.uses_cp_async = true;
                hop(Hop::CpArrive { addr: self.addr(0, space)?, noinc })
            }
            "fence" if first.starts_with("proxy") || first == "mbarrier_init" => self.proxy_fence()?,
            "wgmma" => hop(self.wgmma_op()?),
            "setmaxnreg" => {
                let inc = self.has("inc");
                if !inc {
                    self.need("dec")?;
                }
                for m in ["sync", "aligned", "u32"] {
                    self.need(m)?;
                }
                self.n_ops(1, 1)?;
                match self.operand(0)?.kind {
                    OperandKind::Int(n) if (24..=256).contains(&n) && n % 8 == 0 => hop(Hop::SetMaxNReg { inc, n: n as u32 }),
                    _ => return self.err_op(0, "the register count is a constant multiple of 8 from 24 to 256"),
                }
            }
            "mapa" | "getctarank" => {
                let generic = !self.has("shared::cluster");
                let ty = self.ty()?;
                if !matches!((generic, ty), (true, Ty::U64) | (false, Ty::U32 | Ty::U64)) {
                    return self.err("the type is .u32 or .u64 with .shared::cluster, .u64 without");
                }
                if name == "mapa" {
                    self.n_ops(3, 3)?;
                    let (d, a) = (self.dst(0, ty)?, self.src(1, ty)?);
                    hop(Hop::Mapa { d, a, rank: self.src(2, Ty::U32)?, generic })
                } else {
                    self.n_ops(2, 2)?;
                    hop(Hop::GetCtaRank { d: self.dst(0, Ty::U32)?, a: self.src(1, ty)?, generic })
                }
            }
            "prefetch" if has("tensormap") => {
                self.mods.clear();
                self.n_ops(1, 1)?;
                hop(Hop::PrefetchMap { addr: self.addr(0, Space::Generic)? })
            }
            "st" | "red" if first == "async" => hop(self.remote_op(name == "red")?),
            "barrier" if has("cluster") => {
                self.need("cluster")?;
                let arrive = self.has("arrive");
                if !arrive {
                    self.need("wait")?;
                }
                let relaxed = arrive && self.has("relaxed");
                self.has(if arrive { "release" } else { "acquire" });
                let aligned = self.has("aligned");
                self.n_ops(0, 0)?;
                hop(if arrive { Hop::ClusterArrive { relaxed, aligned } } else { Hop::ClusterWait { aligned } })
            }
            "clusterlaunchcontrol" => return self.err("cluster launch control is not modelled"),
            _ => return Ok(None),
        }))
    }

    /// Memory order and scope of an mbarrier operation.
    fn sem(&mut self, acquire: bool) -> Sem {
        let relaxed = self.has("relaxed");
        self.has(if acquire { "acquire" } else { "release" });
        let cluster = self.has("cluster") || self.has("gpu") || self.has("sys");
        self.has("cta");
        Sem { relaxed, cluster }
    }

    fn mbar_space(&mut self) -> Res<Space> {
        match self.space()? {
            s @ (Space::Shared | Space::Cluster | Space::Generic) => Ok(s),
            Space::Global | Space::Param | Space::Const => self.err("an mbarrier is in shared memory"),
        }
    }

    fn mbarrier(&mut self) -> Res<Hop> {
        let what = self.mods.first().map_or("", |m| m.0);
        self.need(what)?;
        let h = match what {
            "init" | "inval" => {
                let space = self.mbar_space()?;
                self.need("b64")?;
                if space == Space::Cluster {
                    return self.err("only mbarriers of the own CTA are initialised and invalidated");
                }
                let n = if what == "init" { 2 } else { 1 };
                self.n_ops(n, n)?;
                let addr = self.addr(0, space)?;
                if n == 2 { Hop::MbarInit { addr, count: self.src(1, Ty::U32)? } } else { Hop::MbarInval { addr } }
            }
            "arrive" | "arrive_drop" => {
                let expect = self.has("expect_tx");
                let no_complete = self.has("noComplete");
                let sem = self.sem(false);
                let space = self.mbar_space()?;
                self.need("b64")?;
                self.n_ops(2, 3)?;
                let state = if matches!(self.operand(0)?.kind, OperandKind::Sink) { None } else { Some(self.dst(0, Ty::B64)?) };
                if state.is_some() && space == Space::Cluster {
                    return self.err_op(0, "an arrival on shared::cluster returns no state: use `_`");
                }
                let addr = self.addr(1, space)?;
                let third = if self.count() == 3 { Some(self.src(2, Ty::U32)?) } else { None };
                if (expect || no_complete) && third.is_none() {
                    return self.err("a third operand is required here");
                }
                let (count, tx) = if expect { (None, third) } else { (third, None) };
                Hop::MbarArrive(Arrive { addr, state, count, tx, drop: what == "arrive_drop", no_complete, sem })
            }
            "expect_tx" | "complete_tx" => {
                self.sem(false);
                let space = self.mbar_space()?;
                self.need("b64")?;
                self.n_ops(2, 2)?;
                Hop::MbarTx { addr: self.addr(0, space)?, bytes: self.src(1, Ty::U32)?, expect: what == "expect_tx" }
            }
            "test_wait" | "try_wait" => {
                let parity = self.has("parity");
                let sem = self.sem(true);
                let space = self.mbar_space()?;
                if space == Space::Cluster {
                    return self.err("only an mbarrier of the own CTA can be waited for");
                }
                self.need("b64")?;
                let suspend = what == "try_wait";
                self.n_ops(3, 3 + usize::from(suspend))?;
                let p = self.pred_dst(0)?;
                let addr = self.addr(1, space)?;
                let phase = if parity { Phase::Parity(self.src(2, Ty::U32)?) } else { Phase::State(self.src(2, Ty::B64)?) };
                if self.count() == 4 {
                    self.src(3, Ty::U32)?;
                }
                Hop::MbarWait(MbarWait { addr, phase, p, suspend, sem })
            }
            "pending_count" => {
                self.need("b64")?;
                self.n_ops(2, 2)?;
                Hop::MbarPending { d: self.dst(0, Ty::U32)?, state: self.src(1, Ty::B64)? }
            }
            _ => return self.err("this mbarrier operation is not modelled"),
        };
        Ok(h)
    }

    fn proxy_fence(&mut self) -> Res<Op> {
        if self.has("mbarrier_init") {
            self.need("release")?;
            self.need("cluster")?;
            self.n_ops(0, 0)?;
            return Ok(hop(Hop::Fence(ProxyFence::MbarInit)));
        }
        let kind = self.mods.remove(0).0;
        match kind {
            "proxy" if self.has("async") => {
                let (mut shared, mut global) = (true, true);
                if self.has("shared::cta") || self.has("shared::cluster") {
                    global = false;
                } else if self.has("global") {
                    shared = false;
                }
                self.n_ops(0, 0)?;
                Ok(hop(Hop::Fence(ProxyFence::Async { shared, global })))
            }
            "proxy" if self.has("tensormap::generic") => {
                let acquire = self.has("acquire");
                if !acquire {
                    self.need("release")?;
                }
                if !["gpu", "cta", "cluster", "sys"].iter().any(|s| self.has(s)) {
                    return self.err("a scope is required");
                }
                if !acquire {
                    self.n_ops(0, 0)?;
                    return Ok(Op::Nop);
                }
                self.n_ops(2, 2)?;
                if !matches!(self.operand(1)?.kind, OperandKind::Int(128)) {
                    return self.err_op(1, "the size is 128");
                }
                Ok(hop(Hop::FenceMap { addr: self.addr(0, Space::Generic)? }))
            }
            _ => self.err("this proxy fence is not modelled"),
        }
    }

    /// `[map, {coordinates}]`.
    fn tensor_operand(&mut self, i: usize, rank: usize) -> Res<End> {
        let o = self.operand(i)?;
        let OperandKind::Tensor(base, coords) = &o.kind else {
            return self.err_op(i, "a tensor map and its coordinates are expected: `[map, {x, y}]`");
        };
        if coords.len() != rank {
            return self.err_op(i, format!("{rank} coordinates are needed"));
        }
        let Some(super::names::Found::Reg(r, t)) = self.d.find(base) else {
            return self.err_op(i, format!("`{base}` is not a register"));
        };
        if t.bits() != 64 || t.is_float() {
            return self.err_op(i, format!("`{base}` is not a 64-bit address"));
        }
        let c: Res<SmallVec<[Reg; 5]>> = coords.iter().map(|c| self.value(c, Ty::S32, false)).collect();
        Ok(End::Tensor(Addr { base: r, off: 0, space: Space::Generic }, c?))
    }

    fn bulk_op(&mut self) -> Res<Hop> {
        let reduce = self.has("reduce");
        self.need("async")?;
        self.need("bulk")?;
        if self.has("commit_group") {
            self.n_ops(0, 0)?;
            return Ok(Hop::BulkCommit);
        }
        if self.has("wait_group") {
            let read = self.has("read");
            self.n_ops(1, 1)?;
            return match self.operand(0)?.kind {
                OperandKind::Int(n) if (0..1 << 20).contains(&n) => Ok(Hop::BulkWait { n: n as u32, read }),
                _ => self.err_op(0, "the number of pending groups is a small constant"),
            };
        }
        let prefetch = self.has("prefetch");
        let tensor = self.has("tensor");
        let rank = if tensor {
            match self.take(|m| m.strip_suffix('d')?.parse::<usize>().ok().filter(|r| (1..=5).contains(r))) {
                Some(r) => r,
                None => return self.err("`.1d` to `.5d` is required"),
            }
        } else {
            0
        };
        if self.mods.iter().any(|m| m.0.starts_with("im2col") || m.0.starts_with("tile::") || m.0.starts_with("cta_group")) {
            return self.err("only the tile mode of tensor copies is modelled");
        }
        if tensor {
            self.has("tile");
        }
        let policy = self.has("L2::cache_hint");
        if prefetch {
            self.need("L2")?;
            self.need("global")?;
            let n = if tensor { 1 } else { 2 } + usize::from(policy);
            self.n_ops(n, n)?;
            if tensor {
                let End::Tensor(addr, coords) = self.tensor_operand(0, rank)? else {
                    return self.err_op(0, "a tensor map is expected");
                };
                return Ok(Hop::PrefetchBox { addr, coords });
            }
            // A hint: nothing but the operands is checked.
            self.addr(0, Space::Global)?;
            self.src(1, Ty::U32)?;
            return Ok(Hop::Fence(ProxyFence::Async { shared: false, global: false }));
        }
        let spaces: Vec<&str> =
            self.mods.iter().map(|m| m.0).filter(|m| matches!(*m, "global" | "shared::cta" | "shared::cluster")).collect();
        let [to, from] = spaces[..] else {
            return self.err("a destination and a source state space are required");
        };
        self.mods.retain(|m| !matches!(m.0, "global" | "shared::cta" | "shared::cluster"));
        let inward = to != "global";
        if !inward && from != "shared::cta" || inward && from == "shared::cluster" || tensor && inward && from != "global" {
            return self.err("this pair of state spaces does not exist");
        }
        if reduce && inward && from == "global" {
            return self.err("reductions go from shared memory to global or shared memory");
        }
        self.need(if inward { "mbarrier::complete_tx::bytes" } else { "bulk_group" })?;
        let multicast = self.has("multicast::cluster");
        if multicast && !(inward && from == "global" && to == "shared::cluster") {
            return self.err("`.multicast::cluster` is for copies from global to shared::cluster");
        }
        let mut red = None;
        if reduce {
            let Some(op) = self.take(super::mem::atom_op) else {
                return self.err("a reduction (.add, .min, ...) is required");
            };
            let noftz = self.has("noftz");
            let ty = if tensor { None } else { Some(self.ty()?) };
            if let Some(ty) = ty {
                let half = matches!(ty, Ty::F16 | Ty::Bf16);
                if !reduction_ok(op, ty) || (half && op == AtomOp::Add) != noftz {
                    return self.err(format!("this reduction does not exist for .{}", ty.name()));
                }
                if half && inward {
                    return self.err("this reduction goes to global memory only");
                }
            }
            red = Some((op, ty));
        }
        let n = 2 + usize::from(!tensor) + usize::from(inward) + usize::from(multicast) + usize::from(policy);
        self.n_ops(n, n)?;
        let space = |s: &str| if s == "shared::cluster" { Space::Cluster } else { Space::Shared };
        let dst = match (inward, tensor) {
            (true, _) => End::Shared(self.addr(0, space(to))?),
            (false, true) => self.tensor_operand(0, rank)?,
            (false, false) => End::Global(self.addr(0, Space::Global)?),
        };
        let src = match (from, tensor) {
            ("global", true) => self.tensor_operand(1, rank)?,
            ("global", false) => End::Global(self.addr(1, Space::Global)?),
            _ => End::Shared(self.addr(1, Space::Shared)?),
        };
        let mut i = 2;
        let size = if tensor {
            None
        } else {
            i += 1;
            Some(self.src(2, Ty::U32)?)
        };
        let mbar = if inward {
            i += 1;
            Some(self.addr(i - 1, space(to))?)
        } else {
            None
        };
        let mask = if multicast {
            i += 1;
            Some(self.src(i - 1, Ty::B16)?)
        } else {
            None
        };
        if policy {
            self.src(i, Ty::B64)?;
        }
        Ok(Hop::Bulk(Bulk { dst, src, size, mbar, multicast: mask, reduce: red }))
    }

    fn remote_op(&mut self, red: bool) -> Res<Hop> {
        self.need("async")?;
        self.has(if red { "relaxed" } else { "weak" });
        self.has("cluster");
        self.has("shared::cluster");
        self.need("mbarrier::complete_tx::bytes")?;
        let mut op = None;
        if red {
            op = self.take(super::mem::atom_op);
            if op.is_none() {
                return self.err("a reduction (.add, .min, ...) is required");
            }
        }
        let n = self
            .take(|m| match m {
                "v2" => Some(2),
                "v4" => Some(4),
                _ => None,
            })
            .unwrap_or(1usize);
        let ty = self.ty()?;
        let ok = match op {
            Some(o) => reduction_ok(o, ty) && ty.bits() >= 32 && !ty.is_float() && n == 1,
            None => {
                matches!(ty, Ty::B32 | Ty::U32 | Ty::S32 | Ty::F32 | Ty::B64 | Ty::U64 | Ty::S64 | Ty::F64) && n as u32 * ty.bytes() <= 16
            }
        };
        if !ok {
            return self.err(format!("this asynchronous store does not exist for .{}", ty.name()));
        }
        self.n_ops(3, 3)?;
        let addr = self.addr(0, Space::Cluster)?;
        let vals = self.vec_src(1, ty, n, false)?;
        Ok(Hop::Remote(Remote { addr, vals, ty, mbar: self.addr(2, Space::Cluster)?, op }))
    }

    fn wgmma_op(&mut self) -> Res<Hop> {
        let what = self.mods.first().map_or("", |m| m.0);
        self.need(what)?;
        self.need("sync")?;
        self.need("aligned")?;
        match what {
            "fence" | "commit_group" => {
                self.n_ops(0, 0)?;
                return Ok(if what == "fence" { Hop::WgFence } else { Hop::WgCommit });
            }
            "wait_group" => {
                self.n_ops(1, 1)?;
                return match self.operand(0)?.kind {
                    OperandKind::Int(n) if (0..8).contains(&n) => Ok(Hop::WgWait { n: n as u32 }),
                    _ => self.err_op(0, "the number of pending groups is a constant from 0 to 7"),
                };
            }
            "mma_async" => {}
            _ => return self.err("this wgmma operation is not modelled"),
        }
        if self.has("sp") {
            return self.err("sparse wgmma is not modelled");
        }
        let shape = self.take(|m| {
            let (n, k) = m.strip_prefix("m64n")?.split_once('k')?;
            Some((n.parse::<u32>().ok()?, k.parse::<u32>().ok()?))
        });
        let Some((n, k)) = shape else {
            return self.err("a shape such as .m64n128k16 is required");
        };
        let sat = self.has("satfinite");
        let acc = self.ty()?;
        let (Some(a_ty), Some(b_ty)) = (self.take(super::matrix::mma_ty), self.take(super::matrix::mma_ty)) else {
            return self.err("these operand types are not modelled");
        };
        use MmaTy as M;
        let int8 = |t| matches!(t, M::S8 | M::U8);
        let float8 = |t| matches!(t, M::E4m3 | M::E5m2);
        let ok = match a_ty {
            M::F16 => b_ty == M::F16 && k == 16 && matches!(acc, Ty::F16 | Ty::F32),
            M::Bf16 => b_ty == M::Bf16 && k == 16 && acc == Ty::F32,
            M::Tf32 => b_ty == M::Tf32 && k == 8 && acc == Ty::F32,
            M::E4m3 | M::E5m2 => float8(b_ty) && k == 32 && matches!(acc, Ty::F16 | Ty::F32),
            M::S8 | M::U8 => int8(b_ty) && k == 32 && acc == Ty::S32,
            M::F64 => false,
        };
        let n_ok = n.is_multiple_of(8) && (8..=256).contains(&n) && (!int8(a_ty) || n <= 24 || n.is_multiple_of(16));
        if !ok || !n_ok || (sat && acc != Ty::S32) {
            return self.err("this shape and these types do not go together");
        }
        let (rt, regs) = if acc == Ty::F16 { (Ty::B32, n / 4) } else { (acc, n / 2) };
        let half = matches!(a_ty, M::F16 | M::Bf16);
        let in_regs = matches!(self.operand(1)?.kind, OperandKind::Vec(_));
        let scales = if int8(a_ty) { 0 } else { 2 };
        let trans = if !half {
            0
        } else if in_regs {
            1
        } else {
            2
        };
        let total = 4 + scales + trans;
        self.n_ops(total, total)?;
        let d: Vec<Reg> = self.vec_dst(0, rt, regs as usize, false)?.into_iter().collect();
        if (1..d.len()).any(|i| d[..i].contains(&d[i])) {
            return self.err_op(0, "an accumulator register is named twice");
        }
        let a = if in_regs { WgA::Regs(self.vec_src(1, Ty::B32, 4, false)?) } else { WgA::Desc(self.src(1, Ty::B64)?) };
        let b = self.src(2, Ty::B64)?;
        let scale_d = self.pred_src(3)?;
        let mut neg = [false; 2];
        for (i, x) in neg.iter_mut().enumerate().take(scales) {
            *x = match self.operand(4 + i)?.kind {
                OperandKind::Int(1) => false,
                OperandKind::Int(-1) => true,
                _ => return self.err_op(4 + i, "a scale is 1 or -1"),
            };
        }
        let mut mn_major = [false; 2];
        for i in 0..trans {
            let t = match self.operand(4 + scales + i)?.kind {
                OperandKind::Int(v @ (0 | 1)) => v == 1,
                _ => return self.err_op(4 + scales + i, "a transposition is 0 or 1"),
            };
            mn_major[if in_regs { 1 } else { i }] = t;
        }
        self.d.prog.uses_wgmma = true;
        Ok(Hop::Wgmma(Wgmma { n, k, acc, a_ty, b_ty, sat, d, a, b, scale_d, neg, mn_major }))
    }
}
