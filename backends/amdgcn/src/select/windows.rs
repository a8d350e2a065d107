//! Accesses of global memory whose guard is no more than the bound of a window: an address alike in all lanes, an offset of 32 bits, and how many
//! bytes there are from the address on. A buffer instruction has all three, and asks the bound by itself.
//!
//! ```text
//! a = mad_wide_u at, 1, base      g = cmp ult at, bytes      load.global a if g      buffer_load at, [base, bytes]
//! ```
//!
//! The hardware asks for each word of an access, the guard for its first byte. Both are one where offset and bound are multiples of its size, which
//! is read off how they are computed.

use super::uniform::Uniform;
use cranelift_entity::SecondaryMap;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tilelift_lane::{BinOp, Block, Inst, LTy, LVal, Program, Special, Vals, visit};

/// A window, and the place in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Window {
    /// The offset: 32 bits, unsigned.
    pub at: LVal,
    /// An address alike in all lanes.
    pub base: LVal,
    /// Bytes from there on, alike in all lanes.
    pub bytes: LVal,
}

/// The windows of a program's accesses, by address and guard; and addresses of local data share at which lanes' pieces of 16 bytes lie side by side, with
/// the values alike in all lanes that they are sums of, but for the lane's part.
#[derive(Default)]
pub(super) struct Windows {
    windows: FxHashMap<(LVal, LVal), Window>,
    rows: FxHashMap<LVal, UniformAddends>,
}

/// Values alike in all lanes.
type UniformAddends = SmallVec<[LVal; 4]>;

/// Powers of two that are told apart.
const MOST: u32 = 16;

/// Bytes of a lane's piece, and how deep sums are followed.
const PIECE: u32 = 16;
const DEEP: u32 = 12;
/// Lanes of a wavefront.
const LANES: u32 = 64;

struct Makers<'a> {
    program: &'a Program,
    of: SecondaryMap<LVal, Option<&'a Inst>>,
    /// Powers of two that divide values, as far as they were asked for.
    powers: FxHashMap<LVal, u32>,
}

impl Windows {
    /// Finds them.
    pub(super) fn new(program: &Program, uniform: &Uniform<'_>) -> Windows {
        let mut windows = Windows::default();
        if !has_offsets(&program.body) {
            return windows;
        }
        let mut makers = Makers { program, of: SecondaryMap::new(), powers: FxHashMap::default() };
        makers.note(&program.body);
        windows.block(&program.body, &mut makers, uniform);
        windows
    }

    /// The window of an access.
    pub(super) fn of(&self, addr: LVal, guard: Option<LVal>) -> Option<Window> {
        self.windows.get(&(addr, guard?)).copied()
    }

    /// What an address of local data share is the sum of, beside 16 times the lane's number.
    pub(super) fn row(&self, addr: LVal) -> Option<&[LVal]> {
        self.rows.get(&addr).map(SmallVec::as_slice)
    }

    fn block(&mut self, block: &Block, makers: &mut Makers<'_>, uniform: &Uniform<'_>) {
        for inst in block {
            let found = match inst {
                Inst::LoadGlobal { dsts, addr, offset: 0, guard: Some(guard), other, .. } if makers.zeros(other) => {
                    makers.size(dsts).map(|size| (*addr, *guard, size))
                }
                Inst::StoreGlobal { srcs, addr, offset: 0, guard: Some(guard), .. } => makers.size(srcs).map(|size| (*addr, *guard, size)),
                Inst::CopyAsync { global, global_offset: 0, valid: Some(guard), bytes, .. } => Some((*global, *guard, *bytes)),
                _ => None,
            };
            if let Some((addr, guard, size)) = found
                && let Some(window) = makers.window(addr, guard, size)
                && uniform.alike(window.base)
                && uniform.alike(window.bytes)
            {
                self.windows.insert((addr, guard), window);
            }
            if let Inst::CopyAsync { shared, .. } = inst
                && let Some((row, PIECE)) = makers.row(*shared, uniform, DEEP)
            {
                self.rows.insert(*shared, row);
            }
            visit::blocks(inst).for_each(|b| self.block(b, makers, uniform));
        }
    }
}

/// True if there is an address with an offset of 32 bits.
fn has_offsets(block: &Block) -> bool {
    block.iter().any(|inst| matches!(inst, Inst::MadWideU { .. }) || visit::blocks(inst).any(has_offsets))
}

impl<'a> Makers<'a> {
    fn note(&mut self, block: &'a Block) {
        for inst in block {
            if inst.effect().computes() {
                inst.results().iter().for_each(|&v| self.of[v] = Some(inst));
            }
            visit::blocks(inst).for_each(|b| self.note(b));
        }
    }

    fn constant(&self, v: LVal) -> Option<u64> {
        match self.of[v] {
            Some(Inst::Const { bits, .. }) => Some(*bits),
            _ => None,
        }
    }

    fn zeros(&self, other: &Vals) -> bool {
        other.iter().all(|&v| self.constant(v) == Some(0))
    }

    /// Bytes of an access.
    fn size(&self, vals: &Vals) -> Option<u32> {
        let ty = vals.first().map(|&v| self.program.vals[v]).filter(|&ty| ty != LTy::I1)?;
        Some(ty.bytes() * vals.len() as u32)
    }

    /// A sum of what is alike in all lanes and a multiple of the lane's number.
    fn row(&mut self, v: LVal, uniform: &Uniform<'_>, deep: u32) -> Option<(UniformAddends, u32)> {
        let deep = deep.checked_sub(1)?;
        if uniform.alike(v) {
            return Some((SmallVec::from_slice(&[v]), 0));
        }
        match self.of[v] {
            Some(Inst::Special { what: Special::Lane, .. }) => Some((UniformAddends::new(), 1)),
            Some(&Inst::Bin { op: BinOp::Shl, a, b, .. }) => match (self.row(a, uniform, deep)?, self.constant(b)) {
                ((row, step), Some(by @ 0..16)) if row.is_empty() => Some((row, step << by)),
                _ => None,
            },
            Some(&Inst::Bin { op: BinOp::Mul, a, b, .. }) => match (self.row(a, uniform, deep)?, self.constant(b)) {
                ((row, step), Some(by @ 0..0x1_0000)) if row.is_empty() => Some((row, step * by as u32)),
                _ => None,
            },
            Some(&Inst::Bin { op, a, b, .. }) => {
                let (mut x, y) = (self.row(a, uniform, deep)?, self.row(b, uniform, deep)?);
                // Without a carry, all are sums: lanes' bits below those of what is alike.
                let (lanes, alike) = if x.1 > 0 { (&x, b) } else { (&y, a) };
                let apart = lanes.0.is_empty() && x.1.min(y.1) == 0 && LANES * lanes.1 <= 1 << self.power(alike, 24);
                match op {
                    BinOp::Add => {}
                    BinOp::Or | BinOp::Xor if apart => {}
                    _ => return None,
                }
                x.0.extend(y.0);
                Some((x.0, x.1 + y.1))
            }
            _ => None,
        }
    }

    fn window(&mut self, addr: LVal, guard: LVal, size: u32) -> Option<Window> {
        let Some(&Inst::MadWideU { a: at, b: one, c: base, .. }) = self.of[addr] else { return None };
        let Some(&Inst::Cmp { op: tilelift_ir::CmpOp::Ult, a, b: bytes, .. }) = self.of[guard] else { return None };
        let aligned = size.is_power_of_two() && [at, bytes].iter().all(|&v| self.power(v, 24) >= size.trailing_zeros());
        (a == at && self.constant(one) == Some(1) && aligned).then_some(Window { at, base, bytes })
    }

    /// A power of two that divides a value.
    fn power(&mut self, v: LVal, deep: u32) -> u32 {
        if let Some(&known) = self.powers.get(&v) {
            return known;
        }
        let found = deep.checked_sub(1).map_or(0, |deep| self.power_of(v, deep)).min(MOST);
        self.powers.insert(v, found);
        found
    }

    fn power_of(&mut self, v: LVal, deep: u32) -> u32 {
        match self.of[v] {
            Some(Inst::Const { bits: 0, .. }) => MOST,
            Some(Inst::Const { bits, .. }) => bits.trailing_zeros(),
            Some(&Inst::Bin { op, a, b, .. }) => match op {
                BinOp::Add | BinOp::Sub | BinOp::Or | BinOp::Xor => self.power(a, deep).min(self.power(b, deep)),
                BinOp::Minimum | BinOp::Maximum | BinOp::MinimumU | BinOp::MaximumU => self.power(a, deep).min(self.power(b, deep)),
                BinOp::And => self.power(a, deep).max(self.power(b, deep)),
                BinOp::Mul => self.power(a, deep) + self.power(b, deep),
                BinOp::Shl => match self.constant(b) {
                    Some(by @ 0..32) => self.power(a, deep) + by as u32,
                    _ => 0,
                },
                BinOp::ShrU => match self.constant(b) {
                    Some(by @ 0..32) => self.power(a, deep).saturating_sub(by as u32),
                    _ => 0,
                },
                _ => 0,
            },
            Some(&Inst::Select { a, b, .. }) => self.power(a, deep).min(self.power(b, deep)),
            // Words of 64 bits, and words as 64 bits.
            Some(&Inst::Cvt { dst, a }) if [dst, a].iter().all(|&v| matches!(self.program.vals[v], LTy::I32 | LTy::I64)) => {
                self.power(a, deep)
            }
            _ => 0,
        }
    }
}
