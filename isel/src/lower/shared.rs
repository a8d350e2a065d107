//! Addresses in shared memory: a register layout against a shared map, in bytes.

use tilelift_ir::layout::{AccessColumns, Axis, Pad};
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder, Special};

/// The xor of `columns[i]` over the set bits `i` of `source`, as shifts and masks: bits that move by the same distance move together.
/// `None` if it is always zero.
pub(crate) fn xor_map(b: &mut LaneBuilder, source: LVal, columns: &[u32]) -> Option<LVal> {
    // (distance, mask of source bits), distance = to - from.
    let mut diagonals: Vec<(i32, u32)> = Vec::new();
    for (from, &c) in columns.iter().enumerate() {
        let mut rest = c;
        while rest != 0 {
            let to = rest.trailing_zeros() as i32;
            rest &= rest - 1;
            let distance = to - from as i32;
            match diagonals.iter_mut().find(|(d, _)| *d == distance) {
                Some((_, m)) => *m |= 1 << from,
                None => diagonals.push((distance, 1 << from)),
            }
        }
    }
    diagonals.sort_unstable();
    let every = (1u64 << columns.len()) - 1;
    let mut sum: Option<(LVal, u64)> = None;
    for (distance, mask) in diagonals {
        let part = if u64::from(mask) == every {
            source
        } else {
            let m = b.i32(i64::from(mask));
            b.bin(BinOp::And, source, m)
        };
        let by = b.i32(i64::from(distance.unsigned_abs()));
        let part = match distance {
            0 => part,
            1.. => b.bin(BinOp::Shl, part, by),
            _ => b.bin(BinOp::ShrU, part, by),
        };
        let bits = if distance >= 0 { u64::from(mask) << distance } else { u64::from(mask) >> -distance };
        sum = Some(match sum {
            None => (part, bits),
            Some((s, seen)) => {
                let op = if seen & bits == 0 { BinOp::Or } else { BinOp::Xor };
                (b.bin(op, s, part), seen | bits)
            }
        });
    }
    sum.map(|(v, _)| v)
}

/// Accesses in an order in which those that are alike, as `key` says, follow one another.
pub(crate) fn beside_alike<A, K: PartialEq>(accesses: Vec<A>, key: impl Fn(&A) -> K) -> Vec<A> {
    let mut left: Vec<(K, A)> = accesses.into_iter().map(|a| (key(&a), a)).collect();
    let mut out = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let (first, access) = left.remove(0);
        out.push(access);
        out.extend(left.extract_if(.., |(key, _)| *key == first).map(|(_, access)| access));
    }
    out
}

/// Addresses of an access: the part that depends on the lane and warp is computed once, registers add constants.
pub(crate) struct SharedPoints<'a> {
    columns: &'a AccessColumns,
    base: LVal,
    dynamic: Option<LVal>,
    dynamic_mask: u32,
}

impl<'a> SharedPoints<'a> {
    /// `columns` in bytes, `base` the byte address of the map's start.
    pub fn new(b: &mut LaneBuilder, columns: &'a AccessColumns, base: LVal) -> SharedPoints<'a> {
        let lane = b.special(Special::Lane);
        let warp = b.special(Special::Warp);
        let lane = xor_map(b, lane, &columns.lane);
        let warp = xor_map(b, warp, &columns.warp);
        let dynamic = join(b, lane, warp);
        SharedPoints { columns, base, dynamic, dynamic_mask: columns.dynamic_mask() }
    }

    /// Address and constant offset of a register.
    pub fn at(&self, b: &mut LaneBuilder, reg: u32) -> (LVal, i32) {
        let (bits, sum) = self.columns.parts(Axis::Reg, reg);
        let Some(dynamic) = self.dynamic else { return (self.base, (self.columns.place(bits) + sum) as i32) };
        let swizzled = bits & self.dynamic_mask;
        let flip = b.i32(i64::from(swizzled));
        let dynamic = b.bin(BinOp::Xor, dynamic, flip);
        let dynamic = placed(b, dynamic, self.columns.pad);
        (b.add(self.base, dynamic), (self.columns.place(bits & !self.dynamic_mask) + sum) as i32)
    }
}

/// Where an offset lies in rows with gaps.
pub(crate) fn placed(b: &mut LaneBuilder, offset: LVal, pad: Option<Pad>) -> LVal {
    let Some(p) = pad else { return offset };
    let (shift, by) = (b.i32(i64::from(p.shift)), b.i32(i64::from(p.by)));
    let row = b.bin(BinOp::ShrU, offset, shift);
    let gaps = b.mul(row, by);
    b.add(offset, gaps)
}

fn join(b: &mut LaneBuilder, x: Option<LVal>, y: Option<LVal>) -> Option<LVal> {
    match (x, y) {
        (Some(x), Some(y)) => Some(b.bin(BinOp::Xor, x, y)),
        (x, y) => x.or(y),
    }
}

/// True in the lanes and warps that are no copies: `None` if all are.
pub(crate) fn representative(b: &mut LaneBuilder, idle_lanes: u32, idle_warps: u32) -> Option<LVal> {
    let mut guard = None;
    for (what, mask) in [(Special::Lane, idle_lanes), (Special::Warp, idle_warps)] {
        if mask != 0 {
            let at = b.special(what);
            let mask = b.i32(i64::from(mask));
            let bits = b.bin(BinOp::And, at, mask);
            let zero = b.constant(LTy::I32, 0);
            let here = b.cmp(tilelift_ir::CmpOp::Eq, bits, zero);
            guard = b.and_guard(guard, Some(here));
        }
    }
    guard
}
