//! One program instance: instructions over columns. [`super::task`] has control flow, [`super::units`] what units do.

use super::error::{LaneError, LaneFault};
use super::matrix::MatrixTable;
use super::ops;
use super::ops::extend;
use super::shared::Who;
use crate::abi::ParamValue;
use crate::inst::{Atomic, AtomicKind, Inst};
use crate::interp::machine::{Interpreter, Trap};
use crate::machine::MatrixId;
use crate::op::BinOp;
use crate::table::Effect;
use crate::value::{LTy, LVal, ShuffleFrom, Space, Special, Vals};
use cranelift_entity::EntityRef;
use smallvec::SmallVec;
use tilelift_ir::{GridAxis, Scalar};

/// Bytes of the widest access.
const WIDEST: usize = 16;

impl<'a> Interpreter<'a> {
    /// Runs an instruction that is no control.
    pub(super) fn plain(&mut self, inst: &'a Inst) -> Result<(), LaneError> {
        match inst {
            Inst::Matrix(m) => self.matrix(&m.dsts, m.instr, [&m.a, &m.b, &m.c, &m.scales])?,
            Inst::Unit(u) => self.unit(u).map_err(|t| self.locate(inst, t))?,
            _ => self.simple(inst).map_err(|t| self.locate(inst, t))?,
        }
        if self.unready.replace(false) { Err(self.locate(inst, (LaneFault::NotReady, 0))) } else { Ok(()) }
    }

    // Computation.

    fn special(&self, what: Special, thread: usize) -> u64 {
        let axis = |a: GridAxis| match a {
            GridAxis::X => 0,
            GridAxis::Y => 1,
            GridAxis::Z => 2,
        };
        let thread = self.live.start + thread;
        match what {
            Special::Lane => (thread % self.lanes) as u64,
            Special::Warp => (thread / self.lanes - self.first_warp) as u64,
            Special::Worker => u64::from(self.worker[0]),
            Special::Workers => u64::from(self.worker[1]),
            Special::ClusterRank => self.rank as u64,
            // Roles are apart here: there is one of each.
            Special::Replica => 0,
            Special::ProgramId(a) => u64::from(self.at[axis(a)]),
            Special::NumPrograms(a) => u64::from(self.grid[axis(a)]),
        }
    }

    /// An instruction that is neither control nor has machinery of its own.
    fn simple(&mut self, inst: &Inst) -> Result<(), Trap> {
        if !matches!(inst.effect(), Effect::Compute | Effect::Stay) {
            self.shared.next_step();
        }
        match inst {
            Inst::Undefined { dst } => {
                let done = self.define(*dst, |_, _| Ok(()));
                self.units.make_undefined(*dst);
                done
            }
            Inst::Const { dst, bits } => {
                let bits = extend(*bits, self.ty(*dst));
                self.define(*dst, |_, d| {
                    d.fill(bits);
                    Ok(())
                })
            }
            Inst::Param { dst, index } => {
                let Some(ParamValue::Number { bits, .. }) = self.params.get(*index as usize) else {
                    return Err((LaneFault::Malformed("a missing launch parameter"), 0));
                };
                let bits = extend(*bits, self.ty(*dst));
                self.define(*dst, |_, d| {
                    d.fill(bits);
                    Ok(())
                })
            }
            Inst::Special { dst, what } => self.define(*dst, |m, d| {
                d.iter_mut().enumerate().for_each(|(t, x)| *x = m.special(*what, t));
                Ok(())
            }),
            Inst::SharedAddr { dst, alloc } => {
                let offset = u64::from(self.code.allocs[*alloc].offset);
                self.define(*dst, |_, d| {
                    d.fill(offset);
                    Ok(())
                })
            }
            Inst::Un { dst, op, a } => self.define(*dst, |m, d| ops::un(*op, m.ty(*a), d, m.reg(*a))),
            Inst::Bin { dst, op, a, b } => self.define(*dst, |m, d| ops::bin(*op, m.ty(*a), d, m.reg(*a), m.reg(*b))),
            Inst::Fma { dst, a, b, c } => self.define(*dst, |m, d| ops::fma(m.ty(*a), d, m.reg(*a), m.reg(*b), m.reg(*c))),
            Inst::MadWide { dst, a, b, c } => self.define(*dst, |m, d| ops::fma(LTy::I64, d, m.reg(*a), m.reg(*b), m.reg(*c))),
            Inst::MadWideU { dst, a, b, c } => self.define(*dst, |m, d| {
                let word = |x: u64| u64::from(x as u32);
                let operands = m.reg(*a).iter().zip(m.reg(*b)).zip(m.reg(*c));
                d.iter_mut().zip(operands).for_each(|(d, ((&a, &b), &c))| *d = word(a).wrapping_mul(word(b)).wrapping_add(c));
                Ok(())
            }),
            Inst::Funnel { dst, high, low, by } => self.define(*dst, |m, d| {
                let operands = m.reg(*high).iter().zip(m.reg(*low)).zip(m.reg(*by));
                let both = |high: u64, low: u64| high << 32 | u64::from(low as u32);
                d.iter_mut().zip(operands).for_each(|(d, ((&h, &l), &by))| *d = extend(both(h, l) << (by & 31) >> 32, LTy::I32));
                Ok(())
            }),
            Inst::FmaF16x2 { dst, a, b, c } => self.define(*dst, |m, d| ops::fma_pair(Scalar::F16, d, m.reg(*a), m.reg(*b), m.reg(*c))),
            Inst::FmaBf16x2 { dst, a, b, c } => self.define(*dst, |m, d| ops::fma_pair(Scalar::BF16, d, m.reg(*a), m.reg(*b), m.reg(*c))),
            Inst::CvtF16x2 { dst, low, high } => self.define(*dst, |m, d| ops::cvt_pair(Scalar::F16, d, m.reg(*low), m.reg(*high))),
            Inst::CvtBf16x2 { dst, low, high } => self.define(*dst, |m, d| ops::cvt_pair(Scalar::BF16, d, m.reg(*low), m.reg(*high))),
            Inst::CvtE4M3x2 { dst, low, high } => self.define(*dst, |m, d| ops::code_pair(Scalar::F8E4M3, d, m.reg(*low), m.reg(*high))),
            Inst::CvtE5M2x2 { dst, low, high } => self.define(*dst, |m, d| ops::code_pair(Scalar::F8E5M2, d, m.reg(*low), m.reg(*high))),
            Inst::MaskFlip { dst, a, mask, flip } => self.define(*dst, |m, d| {
                let operands = m.reg(*a).iter().zip(m.reg(*mask)).zip(m.reg(*flip));
                d.iter_mut().zip(operands).for_each(|(d, ((&a, &mask), &flip))| *d = extend(a & mask ^ flip, LTy::I32));
                Ok(())
            }),
            Inst::Permute { dst, low, high, picks } => self.define(*dst, |m, d| {
                let operands = m.reg(*low).iter().zip(m.reg(*high)).zip(m.reg(*picks));
                let both = |low: u64, high: u64| high << 32 | u64::from(low as u32);
                let byte = |of: u64, picks: u64, n: u64| (of >> (8 * (picks >> (4 * n) & 7)) & 0xff) << (8 * n);
                d.iter_mut()
                    .zip(operands)
                    .for_each(|(d, ((&l, &h), &p))| *d = extend((0..4).map(|n| byte(both(l, h), p, n)).sum(), LTy::I32));
                Ok(())
            }),
            Inst::Cmp { dst, op, a, b } => self.define(*dst, |m, d| ops::cmp(*op, m.ty(*a), d, m.reg(*a), m.reg(*b))),
            Inst::Select { dst, c, a, b } => self.define(*dst, |m, d| {
                let picks = m.reg(*c).iter().zip(m.reg(*a)).zip(m.reg(*b));
                d.iter_mut().zip(picks).for_each(|(d, ((&c, &a), &b))| *d = if c != 0 { a } else { b });
                Ok(())
            }),
            Inst::Cvt { dst, a } => self.define(*dst, |m, d| ops::cvt(m.ty(*a), m.ty(*dst), d, m.reg(*a))),
            Inst::RoundTf32 { dst, a } => self.define(*dst, |m, d| {
                ops::round_tf32(d, m.reg(*a));
                Ok(())
            }),
            Inst::Bitcast { dst, a } => self.define(*dst, |m, d| {
                let ty = m.ty(*dst);
                d.iter_mut().zip(m.reg(*a)).for_each(|(d, &a)| *d = extend(a, ty));
                Ok(())
            }),
            Inst::Pack { dst, parts } => self.define(*dst, |m, d| {
                d.fill(0);
                let bits = 32 / parts.len() as u32;
                let mask = u64::MAX >> (64 - bits);
                for (i, &p) in parts.iter().enumerate() {
                    d.iter_mut().zip(m.reg(p)).for_each(|(d, &x)| *d |= (x & mask) << (i as u32 * bits));
                }
                Ok(())
            }),
            Inst::Divide { dsts, a, b } => dsts
                .iter()
                .zip(a.iter().zip(b))
                .try_for_each(|(&dst, (&a, &b))| self.define(dst, |m, d| ops::bin(BinOp::Div, m.ty(a), d, m.reg(a), m.reg(b)))),
            Inst::Unpack { dsts, a } => {
                let bits = 32 / dsts.len() as u32;
                dsts.iter().enumerate().try_for_each(|(i, &dst)| {
                    self.define(dst, |m, d| {
                        let ty = m.ty(dst);
                        d.iter_mut().zip(m.reg(*a)).for_each(|(d, &x)| *d = extend(x >> (i as u32 * bits), ty));
                        Ok(())
                    })
                })
            }
            // Memory and other lanes.
            Inst::LoadGlobal { dsts, addr, offset, guard, other, .. } => self.load(dsts, other, |m, thread, bytes| {
                if !m.active(*guard, thread) {
                    return Ok(false);
                }
                m.stats.global_read += bytes.len() as u64;
                m.global.read(m.addr(*addr, *offset, thread) as u64, bytes).map(|()| true)
            }),
            Inst::StoreGlobal { srcs, addr, offset, guard, .. } => self.store(srcs, *guard, |m, thread, bytes| {
                m.stats.global_written += bytes.len() as u64;
                m.global.write(m.addr(*addr, *offset, thread) as u64, bytes)
            }),
            Inst::Prefetch { .. } => Ok(()),
            Inst::Atomic(a) => self.atomic(a),
            Inst::LoadShared { dsts, addr, offset } => self.load(dsts, &Vals::new(), |m, thread, bytes| {
                m.stats.shared_read += bytes.len() as u64;
                let (who, at) = (m.who(thread), m.addr(*addr, *offset, thread));
                m.shared.read(who, at, bytes).map(|()| true)
            }),
            Inst::StoreShared { srcs, addr, offset, guard } => self.store(srcs, *guard, |m, thread, bytes| {
                m.stats.shared_written += bytes.len() as u64;
                let (who, at) = (m.who(thread), m.addr(*addr, *offset, thread));
                m.shared.write(who, at, bytes)
            }),
            Inst::LoadMatrix { dsts, addr, offset, trans } => self.load_matrix(dsts, *addr, *offset, *trans),
            Inst::CopyAsync { shared, offset, global, global_offset, bytes, valid } => {
                for thread in 0..self.count() {
                    let mut data = [0; WIDEST];
                    let data = &mut data[..*bytes as usize];
                    let (to, from) = (self.addr(*shared, *offset, thread), self.addr(*global, *global_offset, thread));
                    if self.active(*valid, thread) {
                        self.global.read(from as u64, data).map_err(|f| (f, thread))?;
                        self.stats.global_read += u64::from(*bytes);
                    }
                    let who = self.who(thread);
                    self.shared.copy(who, to, data).map_err(|f| (f, thread))?;
                    self.stats.shared_written += u64::from(*bytes);
                    self.stats.copied += u64::from(*bytes);
                }
                Ok(())
            }
            Inst::CommitCopies => {
                self.shared.commit();
                Ok(())
            }
            Inst::WaitCopies { pending } => {
                self.shared.wait(*pending as usize);
                Ok(())
            }
            Inst::Assert { condition } => match self.reg(*condition).iter().position(|&x| x == 0) {
                Some(thread) => Err((LaneFault::Assertion, thread)),
                None => Ok(()),
            },
            Inst::Barrier => {
                self.shared.barrier();
                self.stats.barriers += 1;
                Ok(())
            }
            Inst::Shuffle { dst, a, from } => self.shuffle(*dst, *a, *from),
            Inst::Redux { dst, op, a } => self.redux(*dst, *op, *a),
            Inst::Matrix(_) | Inst::Unit(_) | Inst::For(_) | Inst::While(_) | Inst::If(_) | Inst::Roles(_) => {
                Err((LaneFault::Malformed("no simple instruction"), 0))
            }
        }
    }

    // Memory and other lanes.

    /// Defines consecutive values of every thread from memory; a thread whose bytes `read` doesn't fetch gets `other`, or zeros.
    fn load(
        &mut self,
        dsts: &Vals,
        other: &Vals,
        mut read: impl FnMut(&mut Self, usize, &mut [u8]) -> Result<bool, LaneFault>,
    ) -> Result<(), Trap> {
        let ty = self.ty(dsts[0]);
        let size = ty.bytes() as usize;
        let mut columns: SmallVec<[Vec<u64>; 4]> = dsts.iter().map(|&v| self.take(v)).collect();
        let mut buffer = [0; WIDEST];
        let start = self.live.start;
        for thread in 0..self.count() {
            let bytes = &mut buffer[..size * dsts.len()];
            let fetched = read(self, thread, bytes).map_err(|f| (f, thread))?;
            for (i, column) in columns.iter_mut().enumerate() {
                column[start + thread] = if fetched {
                    let mut raw = [0; 8];
                    raw[..size].copy_from_slice(&bytes[i * size..(i + 1) * size]);
                    extend(u64::from_le_bytes(raw), ty)
                } else {
                    other.get(i).map_or(0, |&o| self.reg(o)[thread])
                };
            }
        }
        self.put(dsts, columns.into_iter());
        Ok(())
    }

    /// Puts written columns back.
    fn put(&mut self, dsts: &[LVal], columns: impl Iterator<Item = Vec<u64>>) {
        for (&v, column) in dsts.iter().zip(columns) {
            self.regs[v.index()] = column;
            self.units.make_ready(v);
        }
    }

    /// Hands the bytes of consecutive values of every active thread to `write`.
    fn store(
        &mut self,
        srcs: &Vals,
        guard: Option<LVal>,
        mut write: impl FnMut(&mut Self, usize, &[u8]) -> Result<(), LaneFault>,
    ) -> Result<(), Trap> {
        let size = self.ty(srcs[0]).bytes() as usize;
        let mut bytes = [0; WIDEST];
        for thread in 0..self.count() {
            if !self.active(guard, thread) {
                continue;
            }
            for (i, &v) in srcs.iter().enumerate() {
                bytes[i * size..(i + 1) * size].copy_from_slice(&self.reg(v)[thread].to_le_bytes()[..size]);
            }
            write(self, thread, &bytes[..size * srcs.len()]).map_err(|f| (f, thread))?;
        }
        Ok(())
    }

    /// Updates of the threads, one after the other.
    fn atomic(&mut self, a: &Atomic) -> Result<(), Trap> {
        let ty = self.ty(a.value);
        let size = ty.bytes() as usize;
        let mut column = vec![0; self.threads];
        let start = self.live.start;
        for thread in 0..self.count() {
            let old = &mut column[start + thread];
            if !self.active(a.guard, thread) {
                continue;
            }
            let at = self.addr(a.addr, a.offset, thread);
            let who = self.who(thread);
            let mut raw = [0; 8];
            match a.space {
                Space::Global => self.global.read(at as u64, &mut raw[..size]),
                Space::Shared => self.shared.before_update(who, at, &mut raw[..size]),
            }
            .map_err(|f| (f, thread))?;
            *old = extend(u64::from_le_bytes(raw), ty);
            let value = self.reg(a.value)[thread];
            let new = match a.kind {
                AtomicKind::Cas(c) => {
                    if self.reg(c)[thread] == *old {
                        value
                    } else {
                        *old
                    }
                }
                AtomicKind::Op(op) => ops::update(op, ty, *old, value).map_err(|f| (f, thread))?,
            };
            let bytes = &new.to_le_bytes()[..size];
            match a.space {
                Space::Global => self.global.write(at as u64, bytes),
                Space::Shared => self.shared.update(who, at, bytes),
            }
            .map_err(|f| (f, thread))?;
            let (read, written) = match a.space {
                Space::Global => (&mut self.stats.global_read, &mut self.stats.global_written),
                Space::Shared => (&mut self.stats.shared_read, &mut self.stats.shared_written),
            };
            (*read, *written) = (*read + size as u64, *written + size as u64);
        }
        if let Some(d) = a.dst {
            self.put(&[d], std::iter::once(column));
        }
        Ok(())
    }

    fn shuffle(&mut self, dst: LVal, a: LVal, from: ShuffleFrom) -> Result<(), Trap> {
        let mut column = self.take(dst);
        for (thread, d) in column[self.live.clone()].iter_mut().enumerate() {
            let lane = match from {
                ShuffleFrom::Xor(mask) => (thread % self.lanes) as i64 ^ i64::from(mask),
                ShuffleFrom::Lane(l) => self.reg(l)[thread] as i64,
            };
            let lane = lane.rem_euclid(self.lanes as i64);
            *d = self.reg(a)[thread / self.lanes * self.lanes + lane as usize];
        }
        self.put(&[dst], std::iter::once(column));
        self.stats.shuffles += (self.count() / self.lanes) as u64;
        Ok(())
    }

    fn redux(&mut self, dst: LVal, op: BinOp, a: LVal) -> Result<(), Trap> {
        let mut column = self.take(dst);
        // Registers of the live threads alone, whose columns begin with them.
        let words = self.reg(a).to_vec();
        for (d, warp) in column[self.live.clone()].chunks_mut(self.lanes).zip(words.chunks(self.lanes)) {
            let mut all = [warp[0]];
            for &word in warp {
                let before = all;
                ops::bin(op, LTy::I32, &mut all, &before, &[word]).map_err(|f| (f, 0))?;
            }
            d.fill(all[0]);
        }
        self.put(&[dst], std::iter::once(column));
        Ok(())
    }

    fn load_matrix(&mut self, dsts: &Vals, addr: LVal, offset: i32, trans: bool) -> Result<(), Trap> {
        let mut columns: SmallVec<[Vec<u64>; 4]> = dsts.iter().map(|&v| self.take(v)).collect();
        let start = self.live.start;
        for first in (0..self.count()).step_by(self.lanes) {
            for (q, column) in columns.iter_mut().enumerate() {
                let mut rows = [[0; WIDEST]; 8];
                for (r, row) in rows.iter_mut().enumerate() {
                    let thread = first + 8 * q + r;
                    // The rows go to all lanes of the warp, so that the lane's own view of its copies doesn't count.
                    let who = Who { thread: Who::NOBODY, warp: self.number(first) / self.lanes };
                    let at = self.addr(addr, offset, thread);
                    self.shared.read(who, at, row).map_err(|f| (f, thread))?;
                    self.stats.shared_read += WIDEST as u64;
                }
                let element = |r: usize, c: usize| u64::from(u16::from_le_bytes([rows[r][2 * c], rows[r][2 * c + 1]]));
                for (lane, d) in column[start + first..start + first + self.lanes].iter_mut().enumerate() {
                    let (line, pair) = (lane / 4 % 8, 2 * (lane % 4));
                    let [low, high] =
                        if trans { [element(pair, line), element(pair + 1, line)] } else { [element(line, pair), element(line, pair + 1)] };
                    *d = low | high << 16;
                }
            }
        }
        self.put(dsts, columns.into_iter());
        Ok(())
    }

    fn matrix(&mut self, dsts: &[LVal], instr: MatrixId, operands: [&[LVal]; 4]) -> Result<(), LaneError> {
        let mut columns: SmallVec<[Vec<u64>; 16]> = dsts.iter().map(|&v| self.take(v)).collect();
        let slot = &mut self.tables[instr.index()];
        let table = match slot {
            Some(table) => table,
            None => slot.insert(MatrixTable::new(self.target.matrix_instr(instr), self.lanes)?),
        };
        table.run(&self.regs, &mut columns, operands, self.live.clone(), self.lanes);
        self.put(dsts, columns.into_iter());
        self.stats.matrices += (self.count() / self.lanes) as u64;
        Ok(())
    }
}
