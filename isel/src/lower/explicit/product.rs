//! Asynchronous products of buffers.

use super::super::Lower;
use super::super::warpgroup::{a_words, shares};
use super::copies::start;
use crate::lower::location::{Local, Tile};
use std::collections::BTreeMap;
use std::rc::Rc;
use tilelift_ir::layout::Axis;
use tilelift_ir::{Inst, Op, Precision, Value};
use tilelift_lane::{BinOp, GroupMatrix, GroupOperand, LTy, LVal, LaneBuilder, Multiply, OperandA, Place, SwizzleAtoms, Unit, Vals};
use tilelift_schedule::LowerError;
use tilelift_schedule::plan::{allocation, handle, is_zero};
use tilelift_schedule::reason::{Missing, NoOperand, NotAddressed, ProductOperand, Unsupported};

/// A swizzled operand.
struct SwizzledOperand {
    base: LVal,
    /// Bytes from the base to its first element.
    first: u32,
    /// Its first byte in a row of the buffer.
    column: u32,
    swizzle: u32,
    atom_stride: u32,
    along_k: bool,
}

impl SwizzledOperand {
    /// Bytes from the columns of a group that has so many to those of the next one; the operand B's alone.
    fn columns(&self, n: u32, row: &GroupMatrix) -> Result<u32, LowerError> {
        let bytes = n * row.operand.bytes();
        match self.along_k {
            true => Ok(n * self.swizzle),
            false if bytes.is_multiple_of(self.swizzle) => Ok(bytes / self.swizzle * self.atom_stride),
            false => Err(NotAddressed::Operand(NoOperand::Start).into()),
        }
    }

    /// Has each group, by its number, begin so many bytes behind the one before.
    fn move_on(&mut self, b: &mut LaneBuilder, number: LVal, bytes: u32) {
        let bytes = b.i32(i64::from(bytes));
        let own = b.mul(number, bytes);
        self.base = b.add(own, self.base);
    }

    /// The part from `k` on, `more` bytes further.
    fn at(&self, k: u32, size: u32, more: u32) -> GroupOperand {
        let byte = k * size;
        let offset = if self.along_k {
            let (from, to) = (self.column, self.column + byte);
            to / self.swizzle * self.atom_stride + to % self.swizzle - (from / self.swizzle * self.atom_stride + from % self.swizzle)
        } else {
            byte / size * self.swizzle
        };
        GroupOperand {
            at: Place { addr: self.base, offset: (self.first + offset + more) as i32 },
            atoms: SwizzleAtoms { swizzle: self.swizzle, along_k: self.along_k, stride: self.atom_stride },
        }
    }
}

/// The operand A.
enum SourceA {
    Shared(SwizzledOperand),
    Regs(BTreeMap<(u32, u32), Vals>),
}

/// A matrix in a buffer, whose dimension `k` is multiplied along.
fn operand(local: &Local, k: usize, row: &GroupMatrix) -> Result<SwizzledOperand, LowerError> {
    let refuse = |why: NoOperand| Err(NotAddressed::Operand(why).into());
    let buffer = &local.buffer;
    let (Some(swizzled), [_, _]) = (buffer.swizzled, &local.parts[..]) else { return refuse(NoOperand::NotSwizzled) };
    let Some(c) = local.parts.iter().position(|p| p.of == swizzled.contiguous) else { return refuse(NoOperand::Contiguous) };
    let (fast, slow) = (local.parts[c], local.parts[1 - c]);
    let together = buffer.block_rows();
    if buffer.row_step(slow.of) != 1 || slow.at % together + slow.extent > together {
        return refuse(NoOperand::Rows);
    }
    let along_k = c == k;
    if !along_k && !row.any_order {
        return refuse(NoOperand::AlongK);
    }
    let column = fast.at * buffer.size;
    let fits = if along_k { column.is_multiple_of(32) } else { column.is_multiple_of(swizzled.swizzle) };
    let Some(first) = start(buffer, &local.parts).filter(|_| fits) else {
        return refuse(NoOperand::Start);
    };
    Ok(SwizzledOperand { base: local.base, first, column, swizzle: swizzled.swizzle, atom_stride: buffer.atom_stride(), along_k })
}

impl Lower<'_> {
    pub(super) fn async_dot(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let (kernel, target) = (self.kernel, self.target);
        let d = &kernel.insts[i];
        let (Some(plan), Some(units)) = (self.assigned.dots[i].clone(), &target.units) else {
            return Err(Missing::AsyncDotPlan.into());
        };
        let Some(row) = plan.group.and_then(|q| units.matrix.get(q.as_u32() as usize)) else {
            return Err(Missing::AsyncDotInstruction.into());
        };
        let size = row.operand.bytes();
        let [groups, across] = plan.groups;
        let n = plan.d.shape()[1] / across;
        let mut right = operand(&*self.local(d.args[1])?, 0, row)?;
        if across > 1 {
            let bytes = right.columns(n, row)?;
            let mut own = self.group_number(b);
            if groups > 1 {
                let shift = b.i32(i64::from(groups.trailing_zeros()));
                own = b.bin(BinOp::ShrU, own, shift);
            }
            right.move_on(b, own, bytes);
        }
        let (a, step) = self.operand_a(b, d.args[0], &plan, row, groups)?;
        let c = d.args[2];
        let (mut regs, fresh) = if is_zero(kernel, c) {
            let ty = LTy::Num(row.acc);
            ((0..plan.d.size(Axis::Reg)).map(|_| b.undefined(ty)).collect::<Vec<LVal>>(), Some(b.constant(LTy::I1, 0)))
        } else if let Some(at) = self.task()?.fresh.get(&c).copied() {
            let later = at.later(b);
            (self.tile(b, c, &plan.d)?.regs.clone(), Some(later))
        } else {
            (self.tile(b, c, &plan.d)?.regs.clone(), None)
        };
        // What lanes have written is there for the whole group.
        if self.task()?.traces.stored {
            self.meet(b, true)?;
        }
        let depth = match kernel.ty(d.args[0]) {
            tilelift_ir::Type::Tile(t) => t.shape[1],
            tilelift_ir::Type::Shared(t) => t.shape[1],
            _ => 0,
        };
        let Some(instr) = plan.group else { return Ok(()) };
        let shares = shares(&plan.d, row, groups);
        let words = match &a {
            SourceA::Shared(_) => Vec::new(),
            SourceA::Regs(fragments) => fragments.values().flatten().copied().collect(),
        };
        b.fence_matrices(&[words, regs.clone()].concat());
        self.begin_turn(b);
        for k in (0..depth).step_by(row.k as usize) {
            for (r, list) in shares.iter().enumerate() {
                let r = r as u32;
                let a = match &a {
                    SourceA::Shared(o) => OperandA::Shared(o.at(k, size, r * groups * step)),
                    SourceA::Regs(words) => {
                        let at = (r * groups * row.m, k);
                        let Some(words) = words.get(&at) else {
                            return Err(Unsupported::Fragment(ProductOperand::AsyncDot, at.into()).into());
                        };
                        OperandA::Regs(words.clone())
                    }
                };
                let c: Vec<LVal> = list.iter().map(|&x| regs[x as usize]).collect();
                let accumulate = if k == 0 { fresh } else { None };
                let dsts = b.multiply(Multiply { dsts: Vec::new(), c, instr, n, a, b: right.at(k, size, 0), accumulate });
                list.iter().zip(dsts).for_each(|(&x, v)| regs[x as usize] = v);
            }
        }
        if self.task()?.commits.ends(i) {
            b.unit(Unit::CommitMatrices);
        }
        self.set_tile(d.results[0], Tile { layout: plan.d.clone(), regs });
        Ok(())
    }

    /// True for what is loaded from a buffer that copies have rounded to tf32.
    fn rounded(&self, v: Value) -> bool {
        let kernel = self.kernel;
        let of = |v: Value| handle(kernel, v).map(|h| allocation(kernel, h.root));
        let load = kernel.def_inst(v).filter(|&i| kernel.insts[i].op == Op::LocalLoad);
        let (Some(from), Some(task)) = (load.and_then(|i| of(kernel.insts[i].args[0])), &self.task) else { return false };
        let into = |i: Inst| kernel.operand(i, "buffer").first().and_then(|&v| of(v)) == Some(from);
        let mut copies = task.plan.boxes.iter().filter(|(i, _)| into(**i)).peekable();
        copies.peek().is_some() && copies.all(|(_, t)| t.tf32)
    }

    /// The operand A, and the bytes from one group's rows to the next one's if it is in a buffer.
    fn operand_a(
        &mut self,
        b: &mut LaneBuilder,
        v: Value,
        plan: &crate::layout::dot_plan::DotPlan,
        row: &GroupMatrix,
        groups: u32,
    ) -> Result<(SourceA, u32), LowerError> {
        if !self.kernel.ty(v).is_handle() {
            let mut held = self.tile(b, v, &plan.a)?;
            if row.precision == Precision::Tf32 && !self.rounded(v) {
                let regs = held.regs.iter().map(|&r| b.round_tf32(r)).collect();
                held = Rc::new(Tile { layout: held.layout.clone(), regs });
            }
            return Ok((SourceA::Regs(a_words(b, &held, plan, row)?), 0));
        }
        let mut o = operand(&*self.local(v)?, 1, row)?;
        let step = if o.along_k { row.m * o.swizzle } else { row.m * row.operand.bytes() / o.swizzle * o.atom_stride };
        if groups > 1 {
            let mut own = self.group_number(b);
            if self.task()?.groups > groups {
                let most = b.i32(i64::from(groups - 1));
                own = b.bin(BinOp::And, own, most);
            }
            o.move_on(b, own, step);
        }
        Ok((SourceA::Shared(o), step))
    }
}
