//! Dots by group matrix instructions, and results that leave through panels.
//!
//! ```text
//! sums of M x N, C warpgroups, instructions of m rows:   rows m(g + C r) to m(g + C r) + m - 1 belong to group g, repetition r
//! operand along K:        step k begins at panel k / swizzle, byte k mod swizzle of the rows
//! operand along M or N:   step k begins at row k of the panels
//! ```

use super::stage::Staged;
use super::{Lower, Tile, ValueLocation};
use crate::lane::{BinOp, GroupOperand, LTy, LVal, LaneBuilder, Multiply, OperandA, Panels, Place, Special, Unit, Vals};
use crate::lane::{GroupMatrix, GroupMatrixId};
use crate::layout::dots::DotPlan;
use std::collections::BTreeMap;
use std::rc::Rc;
use tilelift_ir::layout::{Axis, Layout, panel_swizzle};
use tilelift_ir::{Inst, Value};
use tilelift_schedule::LowerError;
use tilelift_schedule::access::GlobalAccess;
use tilelift_schedule::plan::{ALIGN, SwizzledTile, behind_reshapes, is_zero, trace};
use tilelift_schedule::reason::{Location, Missing, OfScalar, Product, Unsupported};

/// A sum that the main loop carries.
pub(super) struct Sum {
    pub layout: Rc<Layout>,
    pub count: usize,
    /// It begins at zero.
    pub zero: bool,
    /// What it begins at.
    pub regs: Vec<LVal>,
}

/// What a dot's result begins at.
pub(super) enum Start {
    /// Zero.
    Zero,
    /// These registers.
    Sum(Vec<LVal>),
    /// These registers where the condition holds, else zero.
    Later(Vec<LVal>, LVal),
}

/// The operand A of a dot.
pub(super) enum SourceA {
    /// In the ring: the address of the group's first row, how it lies, bytes of a group's rows.
    Shared { base: LVal, tile: SwizzledTile, along: bool, rows: u32 },
    /// Words of each fragment by its first row, in the first group, and its first column.
    Regs(BTreeMap<(u32, u32), Vals>),
}

impl SourceA {
    /// The operand of an instruction: its part from `k` on, in repetition `r` of the groups' rows.
    fn at(&self, row: &GroupMatrix, k: u32, r: u32, consumers: u32) -> Result<OperandA, LowerError> {
        match self {
            SourceA::Shared { base, tile, along, rows } => {
                Ok(OperandA::Shared(operand_at(*base, k, row, tile, *along, r * consumers * rows)))
            }
            SourceA::Regs(fragments) => {
                let at = (r * consumers * row.m, k);
                let words = fragments.get(&at).ok_or_else(|| Unsupported::Fragment(Product::GroupDot, at.into()))?;
                Ok(OperandA::Regs(words.clone()))
            }
        }
    }
}

/// The part of an operand in shared memory from `k` on, `more` bytes behind the base.
fn operand_at(base: LVal, k: u32, row: &GroupMatrix, t: &SwizzledTile, along_k: bool, more: u32) -> GroupOperand {
    let byte = k * row.operand.bytes();
    let offset = if along_k { byte / t.swizzle * t.panel_bytes() + byte % t.swizzle } else { k * t.swizzle };
    GroupOperand {
        at: Place { addr: base, offset: (offset + more) as i32 },
        panels: Panels { swizzle: t.swizzle, along_k, stride: t.panel_bytes() },
    }
}

impl Lower<'_> {
    /// Binds values to the registers of sums.
    pub(super) fn bind_sums(&mut self, values: &[Value], sums: &[Sum], regs: &[LVal]) {
        let mut at = 0;
        for (&v, s) in values.iter().zip(sums) {
            let regs = regs[at..at + s.count].to_vec();
            at += s.count;
            self.values[v] = Some(ValueLocation::Tile(Rc::new(Tile { layout: s.layout.clone(), regs })));
        }
    }

    /// The registers of sums.
    pub(super) fn sums_of(&self, values: &[Value]) -> Result<Vec<LVal>, LowerError> {
        let mut out = Vec::new();
        for &v in values {
            match &self.values[v] {
                Some(ValueLocation::Tile(t)) => out.extend_from_slice(&t.regs),
                Some(ValueLocation::Scalar(_) | ValueLocation::Staged(_) | ValueLocation::Local(_) | ValueLocation::Words(_)) | None => {
                    return Err(Unsupported::Location(v, Location::Accumulator).into());
                }
            }
        }
        Ok(out)
    }

    fn group_row(&self, q: GroupMatrixId) -> Result<&GroupMatrix, LowerError> {
        let units = self.target.units.as_ref();
        units.and_then(|u| u.matrix.get(q.as_u32() as usize)).ok_or_else(|| Missing::DotInstruction.into())
    }

    /// The number of the lane's group among the consumers.
    pub(super) fn group_number(&self, b: &mut LaneBuilder) -> LVal {
        let warps = self.target.units.as_ref().map_or(1, |u| u.group_warps);
        let warp = b.special(Special::Warp);
        let shift = b.i32(i64::from(warps.trailing_zeros()));
        b.bin(BinOp::ShrU, warp, shift)
    }

    /// An operand in the slot that is being read: its load's number, its tile, and whether it is contiguous along K.
    fn panels(&self, v: Value, k_dim: usize) -> Result<(usize, SwizzledTile, bool), LowerError> {
        let plan = &self.role_state()?.plan;
        let contiguous = |j: Inst| plan.loads.iter().find(|l| l.0 == j).map(|l| l.1.contiguous());
        let found = trace(self.kernel, v, &contiguous);
        let at = found.and_then(|(load, c)| plan.loads.iter().position(|l| l.0 == load).map(|n| (n, c)));
        match at {
            Some((n, c)) => Ok((n, plan.loads[n].1.clone(), c == k_dim)),
            None => Err(Unsupported::Location(v, Location::Ring).into()),
        }
    }

    /// A dot of the main loop.
    pub(super) fn group_dot(&mut self, b: &mut LaneBuilder, i: Inst, plan: &DotPlan, q: GroupMatrixId) -> Result<(), LowerError> {
        let c = self.kernel.insts[i].args[2];
        let kept = self.group_row(q)?.kept_depth;
        let role = self.role_state()?;
        let Some([_, later]) = role.reading else {
            return Err(Missing::DotInLoop.into());
        };
        let (mixed, fetched) = (role.plan.mixed, role.fetched.get(&i).cloned());
        // The products alone, where lanes add them to the sum.
        let alone = if mixed { kept.is_some() } else { role.plan.promoted };
        let fresh = if mixed { is_zero(self.kernel, c) } else { self.sum_is_fresh(c) };
        let acc = if mixed && fresh { None } else { Some(self.tile(b, c, &plan.d)?.regs.clone()) };
        let start = match (mixed, alone, fresh, &acc) {
            (false, false, true, Some(regs)) => Start::Later(regs.clone(), later),
            (_, false, _, Some(regs)) => Start::Sum(regs.clone()),
            _ => Start::Zero,
        };
        let left = match fetched {
            Some(fetched) => fetched,
            None => Rc::new(self.left(b, i, plan, q)?),
        };
        if mixed {
            b.unit(Unit::FenceMatrices);
        }
        let mut regs = self.start_dot(b, i, plan, q, &left, start)?;
        if mixed {
            // What comes behind may look at the result at once.
            b.unit(Unit::CommitMatrices);
            b.unit(Unit::WaitMatrices { pending: 0 });
            if let (true, Some(acc)) = (alone, acc) {
                regs = acc.iter().zip(&regs).map(|(&x, &y)| b.add(x, y)).collect();
            }
        }
        self.set_tile(self.kernel.insts[i].results[0], Tile { layout: plan.d.clone(), regs });
        Ok(())
    }

    /// Starts the multiplications of a dot, with what is in the slot that is being read; gives the registers of the result.
    pub(super) fn start_dot(
        &mut self,
        b: &mut LaneBuilder,
        i: Inst,
        plan: &DotPlan,
        q: GroupMatrixId,
        left: &SourceA,
        start: Start,
    ) -> Result<Vec<LVal>, LowerError> {
        let d = &self.kernel.insts[i];
        let row = self.group_row(q)?.clone();
        let consumers = self.role_state()?.plan.consumers;
        let (mut regs, anew) = match start {
            Start::Sum(regs) => (regs, None),
            Start::Later(regs, later) => (regs, Some(later)),
            Start::Zero => {
                let ty = LTy::Num(row.acc);
                let regs = (0..plan.d.size(Axis::Reg)).map(|_| b.undefined(ty)).collect();
                (regs, Some(b.constant(LTy::I1, 0)))
            }
        };
        let (bn, bt, along_b) = self.panels(d.args[1], 0)?;
        let b_base = self.ring_base(b, bn, &bt)?;
        let depth = self.kernel.ty(d.args[0]).as_tile().map_or(0, |t| t.shape[1]);
        let n = plan.d.shape()[1];
        let shares = shares(&plan.d, &row, consumers);
        for step in 0..depth / row.k {
            let k = step * row.k;
            for (r, list) in shares.iter().enumerate() {
                let c: Vec<LVal> = list.iter().map(|&x| regs[x as usize]).collect();
                let dsts = b.multiply(Multiply {
                    dsts: Vec::new(),
                    c,
                    instr: q,
                    n,
                    a: left.at(&row, k, r as u32, consumers)?,
                    b: operand_at(b_base, k, &row, &bt, along_b, 0),
                    accumulate: if step == 0 { anew } else { None },
                });
                list.iter().zip(dsts).for_each(|(&x, v)| regs[x as usize] = v);
            }
        }
        Ok(regs)
    }

    /// The address of the slot that is being read, of a load's ring.
    fn ring_base(&self, b: &mut LaneBuilder, load: usize, tile: &SwizzledTile) -> Result<LVal, LowerError> {
        let role = self.role_state()?;
        let Some([slot, _]) = role.reading else {
            return Err(Missing::DotInLoop.into());
        };
        Ok(super::stage::slot_base(b, role.rings[load], slot, tile.bytes().next_multiple_of(ALIGN)))
    }

    /// The operand A of a dot: in the ring, or the words of its fragments in registers.
    pub(super) fn left(&mut self, b: &mut LaneBuilder, i: Inst, plan: &DotPlan, q: GroupMatrixId) -> Result<SourceA, LowerError> {
        let row = self.group_row(q)?.clone();
        let v = self.kernel.insts[i].args[0];
        let Ok((number, tile, along)) = self.panels(v, 1) else {
            let held = self.tile(b, v, &plan.a)?;
            return a_words(b, &held, plan, &row).map(SourceA::Regs);
        };
        if self.role_state()?.plan.register_a.contains(&i) {
            return self.left_from_ring(b, i, number, &tile, along, &row);
        }
        // Bytes from one group's rows to the next one's.
        let rows = if along { row.m * tile.swizzle } else { row.m / tile.per * tile.panel_bytes() };
        let group = self.group_number(b);
        let step = b.i32(i64::from(rows));
        let own = b.mul(group, step);
        let base = self.ring_base(b, number, &tile)?;
        Ok(SourceA::Shared { base: b.add(own, base), tile, along, rows })
    }

    /// The fragments of an operand A that goes from its slot through registers. A part of the rows, as the groups share them, and of the columns
    /// that is whole in its panels is fetched at a time: elsewhere it lies likewise.
    fn left_from_ring(
        &mut self,
        b: &mut LaneBuilder,
        i: Inst,
        number: usize,
        tile: &SwizzledTile,
        along: bool,
        row: &GroupMatrix,
    ) -> Result<SourceA, LowerError> {
        let Some(map) = &row.a else {
            return Err(Unsupported::RegisterA(row.name).into());
        };
        let group_warps = self.target.units.as_ref().map_or(1, |u| u.group_warps);
        let consumers = self.role_state()?.plan.consumers;
        let alloc = self.role_state()?.rings[number];
        let base = self.ring_base(b, number, tile)?;
        let Some([rows, depth]) = self.kernel.ty(self.kernel.insts[i].args[0]).as_tile().map(|t| [t.shape[0], t.shape[1]]) else {
            return Err(OfScalar::Dot.into());
        };
        let (size, share) = (tile.elem.bytes(), consumers * row.m);
        let right = if along { tile.per } else { depth };
        let map_of_part = panel_swizzle(&[share, right], size, usize::from(along), tile.swizzle)?;
        let layout = Rc::new(Layout::operand_of(&[share, right], map, &[consumers, 1], &[0, 1], &[Some(0), None])?);
        // Bytes from a part to the next one, down and to the right.
        let down = if along { share * tile.swizzle } else { share / tile.per * tile.panel_bytes() };
        let mut fragments = BTreeMap::new();
        for (r, p) in (0..rows / share).flat_map(|r| (0..depth / right).map(move |p| (r, p))) {
            let at = b.add_const(base, i64::from(r * down + p * tile.panel_bytes()));
            let staged = Rc::new(Staged { map: map_of_part.clone(), base: at, alloc });
            for ((y, x), words) in self.fetch_fragments(b, staged, &layout, map.reg.len(), tile.elem)? {
                let words = words.iter().map(|&w| b.bitcast(w, LTy::B32)).collect();
                fragments.insert((r * share + y, p * right + x), words);
            }
        }
        // One lane of the group gives the slot back, to be filled by units: when all have what they want of it.
        b.unit(Unit::FenceUnits);
        b.unit(Unit::GroupBarrier { warps: group_warps });
        Ok(SourceA::Regs(fragments))
    }

    /// True for a carried sum that begins at zero, whose registers have no value before the first multiplication.
    fn sum_is_fresh(&self, carried: Value) -> bool {
        let Ok(role) = self.role_state() else { return false };
        let main = &self.kernel.insts[role.plan.main];
        let params = &self.kernel.regions[main.regions[0]].params;
        params.iter().position(|&p| p == carried).is_some_and(|p| p > 0 && is_zero(self.kernel, main.args[p + 2]))
    }

    /// A store through shared memory, if it was planned so and the value is held as the multiplications left it.
    pub(super) fn panel_store(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<bool, LowerError> {
        let kernel = self.kernel;
        let Some(role) = &self.role else { return Ok(false) };
        let Some(n) = role.plan.stores.iter().position(|s| s.0 == i) else { return Ok(false) };
        let plan = role.plan.clone();
        let (tile, map, staging, elected) = (&plan.stores[n].1, role.store_maps[n], role.staging[role.set][n], role.elected);
        let value = behind_reshapes(kernel, kernel.operand(i, "value")[0]);
        let Some(ValueLocation::Tile(held)) = self.values[value].clone() else { return Ok(false) };
        let dots: Vec<Rc<DotPlan>> = plan.dots.iter().filter_map(|&(j, _)| self.assigned.dots[j].clone()).collect();
        let (Some(&(_, q)), true) = (plan.dots.first(), dots.iter().any(|p| *p.d == *held.layout)) else { return Ok(false) };
        let row = self.group_row(q)?.clone();
        let group_warps = self.target.units.as_ref().map_or(1, |u| u.group_warps);
        let access = GlobalAccess::of(kernel, i);
        let indices = self.index_values(&access.indices)?;
        self.order_access(b, access.view_value, true, &held.layout, &indices);
        let indices = self.bulk_indices(b, access.view_value, tile.slowest(), indices);
        // A group's rows of one repetition, panel by panel.
        let share = row.m * tile.swizzle * tile.panels();
        let shares = shares(&held.layout, &row, plan.consumers);
        let group = self.group_number(b);
        let base = {
            let start = b.shared_addr(staging);
            let bytes = b.i32(i64::from(share * shares.len() as u32 / plan.staging_parts));
            let own = b.mul(group, bytes);
            b.add(start, own)
        };
        // Lane l stores row l mod 16 of its warp's 16, columns of 8 from l / 16 on; chunks are swizzled by the row.
        let lane = b.special(Special::Lane);
        let warp = b.special(Special::Warp);
        let mut part = |source: LVal, mask: u32, times: u32| {
            let m = b.i32(i64::from(mask));
            let v = b.bin(BinOp::And, source, m);
            let t = b.i32(i64::from(times));
            b.mul(v, t)
        };
        let (down, warps_down) = (part(lane, 15, tile.swizzle), part(warp, group_warps - 1, 16 * tile.swizzle));
        let row_part = b.add(down, warps_down);
        let chunks = tile.swizzle / 16;
        let swizzle = {
            // Rows repeat the swizzle every eight; with narrow panels it moves on every second or fourth row.
            let by = b.i32(i64::from(7 - (chunks.trailing_zeros() + 4)));
            let moved = b.bin(BinOp::ShrU, lane, by);
            let mask = b.i32(i64::from(chunks - 1));
            b.bin(BinOp::And, moved, mask)
        };
        let four = b.i32(4);
        let right = b.bin(BinOp::ShrU, lane, four);
        let chunk = b.bin(BinOp::Xor, right, swizzle);
        let chunk = b.bin(BinOp::Shl, chunk, four);
        let own = b.add(base, row_part);

        let columns = held.layout.shape()[1];
        let m = b.i32(i64::from(row.m));
        let first = b.mul(group, m);
        let (fast, slow) = (tile.order[0], tile.order[1]);
        let down = b.add(indices[slow], first);
        // Repetitions that leave together, side by side; the next ones take their place.
        let together = shares.len().div_ceil(plan.staging_parts as usize);
        for (part, lists) in shares.chunks(together).enumerate() {
            b.unit(Unit::WaitStoresRead { pending: 0, guard: elected });
            b.unit(Unit::GroupBarrier { warps: group_warps });
            for (r, list) in lists.iter().enumerate() {
                for c in (0..columns).step_by(16) {
                    // Eight registers of 16 columns: rows g and g + 8 of the left half, then of the right.
                    let at = (c / 8 * 4) as usize;
                    let words: Vals = list[at..at + 8]
                        .chunks(2)
                        .map(|pair| {
                            let pair: Vec<LVal> = pair.iter().map(|&x| held.regs[x as usize]).collect();
                            b.pack(&pair)
                        })
                        .collect();
                    let inside = c % tile.per * tile.elem.bytes();
                    let flip = b.i32(i64::from(inside));
                    let chunk = b.bin(BinOp::Xor, chunk, flip);
                    let addr = b.add(own, chunk);
                    let offset = r as u32 * share + c / tile.per * row.m * tile.swizzle;
                    b.unit(Unit::StoreMatrix { srcs: words, to: Place { addr, offset: offset as i32 } });
                }
            }
            b.unit(Unit::FenceUnits);
            b.unit(Unit::GroupBarrier { warps: group_warps });
            for r in 0..lists.len() as u32 {
                let repetition = (part * together) as u32 + r;
                for p in 0..tile.panels() {
                    let right = b.add_const(indices[fast], i64::from(p * tile.per));
                    let down = b.add_const(down, i64::from(repetition * plan.consumers * row.m));
                    let from = Place { addr: base, offset: (r * share + p * row.m * tile.swizzle) as i32 };
                    let at = [right, down].into_iter().chain(tile.order[2..].iter().map(|&d| indices[d])).collect();
                    b.unit(Unit::BulkStore { map, from, at, reduce: None, guard: elected });
                }
            }
            b.unit(Unit::CommitStores { guard: elected });
        }
        Ok(true)
    }
}

/// The words of each fragment of an operand A in registers, by its first row, in the first group, and its first column.
pub(super) fn a_words(
    b: &mut LaneBuilder,
    held: &Tile,
    plan: &DotPlan,
    row: &GroupMatrix,
) -> Result<BTreeMap<(u32, u32), Vals>, LowerError> {
    let Some(map) = &row.a else {
        return Err(Unsupported::RegisterA(row.name).into());
    };
    let per_word = (4 / row.operand.bytes()).max(1) as usize;
    let mut fragments = BTreeMap::new();
    for first in (0..plan.a.size(Axis::Reg)).step_by(1 << map.reg.len()) {
        let regs = &held.regs[first as usize..][..1 << map.reg.len()];
        let words: Vals =
            regs.chunks(per_word).map(|part| if per_word == 1 { b.bitcast(part[0], LTy::B32) } else { b.pack(part) }).collect();
        let at = plan.a.reg_coord(first);
        fragments.entry((at[0], at[1])).or_insert(words);
    }
    Ok(fragments)
}

/// The registers of each repetition of a group's rows, in the order in which the instruction lists them.
pub(super) fn shares(layout: &Layout, row: &GroupMatrix, consumers: u32) -> Vec<Vec<u32>> {
    let mut lists: BTreeMap<u32, Vec<([u32; 2], u32)>> = BTreeMap::new();
    for r in 0..layout.size(Axis::Reg) {
        let c = layout.reg_coord(r);
        let (step, width) = (row.m * consumers, row.d.shape[1]);
        // Inside the fragment, registers count by the table's bits.
        let bits = row.d.reg.iter().enumerate().fold(0, |n, (bit, column)| {
            let on = (0..2).all(|d| column[d] == 0 || [c[0] % step, c[1] % width][d] & column[d] != 0);
            n | u32::from(on) << bit
        });
        lists.entry(c[0] / step).or_default().push(([c[1] / width, bits], r));
    }
    lists
        .into_values()
        .map(|mut list| {
            list.sort_unstable();
            list.into_iter().map(|(_, r)| r).collect()
        })
        .collect()
}
