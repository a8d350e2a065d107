//! Plans of dots: the matrix instruction, or multiply-adds of lanes; how warps share the product; the layouts that follow.

use crate::layout::dot_plan::DotPlan;
use crate::layout::k_order::{by_registers, following};
use std::rc::Rc;
use tilelift_ir::layout::{Coord, FragmentMap, Layout};
use tilelift_ir::typing::SCALE_BLOCK;
use tilelift_ir::{Attr, Inst, Kernel, Op, Precision, Scalar, TileType, Type};
use tilelift_lane::{GroupMatrix, GroupMatrixId, MatrixId, MatrixInstr, Target};
use tilelift_schedule::LowerError;
use tilelift_schedule::plan::{Copies, Plan};
use tilelift_schedule::reason::{Missing, OfScalar};
use tilelift_schedule::scaled::{scaled_extents, scaled_instruction};

/// Chooses the matrix instruction of a dot and spreads the warps over M and N. Types and extents without one are left to multiply-adds. With `turns`, plans for its
/// transpose stand among the others.
pub(crate) fn plan_dot(kernel: &Kernel, target: &Target, plan: &Plan, i: Inst, turns: bool) -> Result<DotPlan, LowerError> {
    let d = &kernel.insts[i];
    if let Some(e) = plan.task_plan()
        && let Some(&q) = e.dots.get(&i)
        && let Some(units) = &target.units
    {
        return plan_async_dot(kernel, &units.matrix[q.as_u32() as usize], q, (&e.copies, plan.warps / units.group_warps), i);
    }
    let Some([at_a, at_b, at_c]) = d.op.factors() else { return Err(Missing::DotPlan.into()) };
    let (Type::Tile(a), Type::Tile(bt), Type::Tile(c)) = (kernel.ty(d.args[at_a]), kernel.ty(d.args[at_b]), kernel.ty(d.args[at_c])) else {
        return Err(OfScalar::Dot.into());
    };
    if d.op == Op::DotScaled {
        return plan_scaled(target, plan, [a, bt, c]);
    }
    let precision = match d.attrs.first() {
        Some(Attr::Precision(p)) => *p,
        _ => Precision::Exact,
    };
    let rank = c.shape.len();
    let (m, n, k) = (c.shape[rank - 2], c.shape[rank - 1], a.shape[rank - 1]);
    // Three products of tf32 numbers.
    let precision = if precision == Precision::Tf32x3 { Precision::Tf32 } else { precision };
    let divides = |q: &usize| {
        let s = target.matrix[*q].shape;
        m.is_multiple_of(s[0]) && n.is_multiple_of(s[1]) && k.is_multiple_of(s[2])
    };
    let matrices = || target.matrices([a.elem, bt.elem], c.elem, precision).filter(divides);
    // Warps for which no sums are left would make those of others again: smaller instructions of the same types leave some for each.
    let found = matrices().next().map(|first| {
        let types = |q: usize| (target.matrix[q].operand, target.matrix[q].operand_b, target.matrix[q].acc);
        let for_all = |q: &usize| {
            let s = target.matrix[*q].shape;
            (m / s[0]) * (n / s[1]) >= plan.warps && types(*q) == types(first)
        };
        matrices().find(for_all).unwrap_or(first)
    });
    let (fragments, id) = match found {
        Some(q) => (of_instruction(&target.matrix[q]), Some(MatrixId::from_u32(q as u32))),
        None => (lane_fragments(target.lanes, plan.warps, [m, n]), None),
    };
    let factors = found.map_or([a.elem, bt.elem], |q| [target.matrix[q].operand, target.matrix[q].operand_b]);
    let straight =
        Product { extents: [m, n, k], batch: (rank == 3).then(|| c.shape[0]), instr: id, turned: false, factors, fragments, scales: None };
    let atom = straight.atom();
    let warps = split_warps(plan.warps, [m, n], atom);
    let mut first = straight.over(warps)?;
    let Some(q) = found else { return Ok(first) };
    // Rows alone: what is reduced along N stays in a warp, and the accumulator is an operand of the next product.
    let rows = (warps != [plan.warps, 1] && (m / atom[0]).is_multiple_of(plan.warps)).then_some([plan.warps, 1]);
    let turned = transpose_of(target, q).filter(|_| rank == 2 && turns).map(|q| straight.turned(target, q)).transpose()?;
    let mut others: Vec<DotPlan> = by_registers(&first).into_iter().collect();
    // Lines are summed where warps share rows alone, as far as they can.
    let plans = rows.into_iter().map(|w| (&straight, w)).chain(turned.iter().map(|t| (t, rows.unwrap_or(warps))));
    for (product, warps) in plans {
        let made = product.over(warps)?;
        let other = by_registers(&made);
        others.push(made);
        others.extend(other);
    }
    first.others = others.into_iter().map(Rc::new).collect();
    Ok(first)
}

/// The same of a block-scaled product, whose instruction there is: k stays in its order, by which scales go.
fn plan_scaled(target: &Target, plan: &Plan, tiles: [&TileType; 3]) -> Result<DotPlan, LowerError> {
    let Some(q) = scaled_instruction(target, tiles) else { return Err(Missing::DotPlan.into()) };
    let ([m, n, k], instr) = (scaled_extents(tiles), &target.matrix[q]);
    let factors = [instr.operand, instr.operand_b];
    let (instr, fragments, scales) = (Some(MatrixId::from_u32(q as u32)), of_instruction(instr), instr.scales.clone());
    let product = Product { extents: [m, n, k], batch: None, instr, turned: false, factors, fragments, scales };
    let atom = product.atom();
    let warps = split_warps(plan.warps, [m, n], atom);
    let mut first = product.over(warps)?;
    // Rows alone, as of other products.
    if warps != [plan.warps, 1] && (m / atom[0]).is_multiple_of(plan.warps) {
        first.others.push(Rc::new(product.over([plan.warps, 1])?));
    }
    Ok(first)
}

/// The same products, plans aside that are there: with k in the order in which lanes hold it of an accumulator of which an operand is computed element by element.
/// Then that is in registers as the product takes it, word by word.
pub(crate) fn chain(plan: &DotPlan, operand: usize, accumulators: &[Rc<Layout>]) -> Vec<Rc<DotPlan>> {
    let known = |p: &DotPlan, made: &[Rc<DotPlan>]| {
        let same = |q: &DotPlan| q.a == p.a && q.b == p.b && q.whole == p.whole;
        same(plan) || plan.others.iter().chain(made).any(|q| same(q))
    };
    let mut made = Vec::new();
    for p in std::iter::once(plan).chain(plan.others.iter().map(|p| &**p)).filter(|p| p.instr.is_some()) {
        for l in accumulators {
            if let Some(p) = following(p, operand, l).filter(|p| !known(p, &made)) {
                made.push(Rc::new(p));
            }
        }
    }
    made
}

/// The instruction by which a product is the transpose of one of its operands exchanged. Only one of which A and B lie alike: the operands are then where they were,
/// and the sums where the transpose has them.
fn transpose_of(target: &Target, q: usize) -> Option<usize> {
    let x = &target.matrix[q];
    let lies = |f: &FragmentMap| (f.shape.clone(), f.reg.clone(), f.lane.clone());
    let alike = x.a.transposed(&[1, 0]).is_ok_and(|a| lies(&a) == lies(&x.b)) && x.d.shape[0] == x.d.shape[1];
    let exchanged =
        |y: &&MatrixInstr| (y.operand, y.operand_b, y.acc, y.precision, &y.shape) == (x.operand_b, x.operand, x.acc, x.precision, &x.shape);
    if alike { target.matrix.iter().position(|y| exchanged(&y)) } else { None }
}

/// Fragments of A, B and the accumulator.
type Fragments = (FragmentMap, FragmentMap, FragmentMap);

/// Neighbouring n tiles in neighbouring registers: one matrix load then feeds two instructions of one k step.
const B_ORDER: [usize; 2] = [1, 0];

fn of_instruction(instr: &MatrixInstr) -> Fragments {
    (instr.a.clone(), FragmentMap { rep_order: B_ORDER.to_vec(), ..instr.b.clone() }, instr.d.clone())
}

/// A product of tiles by one instruction, or by multiply-adds.
struct Product {
    /// M, N and K.
    extents: [u32; 3],
    /// Products of a batch.
    batch: Option<u32>,
    instr: Option<MatrixId>,
    turned: bool,
    factors: [Scalar; 2],
    fragments: Fragments,
    /// Fragments of the scales of A and of B.
    scales: Option<[FragmentMap; 2]>,
}

impl Product {
    /// Layouts of the scales with so many warps along M and N: where the rows and columns are that they belong to.
    fn scale_layouts(&self, warps: [u32; 2]) -> Result<Option<[Rc<Layout>; 2]>, LowerError> {
        let ([m, n, k], Some([a, b])) = (self.extents, &self.scales) else { return Ok(None) };
        let (blocks, order) = (k / SCALE_BLOCK, [0, 1]);
        let of_a = Layout::operand_of(&[m, blocks], a, &warps, &order, &[Some(0), None])?;
        let of_b = Layout::operand_of(&[blocks, n], b, &warps, &order, &[None, Some(1)])?;
        Ok(Some([Rc::new(of_a), Rc::new(of_b)]))
    }

    /// Rows and columns of an accumulator's fragment.
    fn atom(&self) -> [u32; 2] {
        let shape = &self.fragments.2.shape;
        [shape[0], shape[1]]
    }

    /// The same product by an instruction that makes its transpose.
    fn turned(&self, target: &Target, q: usize) -> Result<Product, LowerError> {
        let instr = &target.matrix[q];
        let turn = |f: &FragmentMap| f.transposed(&[1, 0]);
        let b = FragmentMap { rep_order: B_ORDER.to_vec(), ..turn(&instr.a)? };
        let a = FragmentMap { rep_order: self.fragments.0.rep_order.clone(), ..turn(&instr.b)? };
        let d = FragmentMap { rep_order: self.fragments.2.rep_order.clone(), ..turn(&instr.d)? };
        let factors = [instr.operand_b, instr.operand];
        Ok(Product { instr: Some(MatrixId::from_u32(q as u32)), turned: true, factors, fragments: (a, b, d), scales: None, ..*self })
    }

    /// Its plan with so many warps along M and N.
    fn over(&self, warps: [u32; 2]) -> Result<DotPlan, LowerError> {
        let ([m, n, k], order, (a, b, d)) = (self.extents, [0, 1], &self.fragments);
        let acc = Layout::fragment(&[m, n], d, &warps, &order)?;
        let whole = match self.batch {
            Some(count) => acc.expand_dims(0).broadcast(0, count)?,
            None => acc.clone(),
        };
        Ok(DotPlan {
            whole: Rc::new(whole),
            instr: self.instr,
            group: None,
            groups: [1, 1],
            left: false,
            turned: self.turned,
            scales: self.scale_layouts(warps)?,
            factors: self.factors,
            a: Rc::new(Layout::operand_of(&[m, k], a, &warps, &order, &[Some(0), None])?),
            b: Rc::new(Layout::operand_of(&[k, n], b, &warps, &order, &[None, Some(1)])?),
            d: Rc::new(acc),
            others: Vec::new(),
        })
    }
}

/// An asynchronous product: warpgroups share its rows, or its columns where there are too few, or compute the same.
fn plan_async_dot(
    kernel: &Kernel,
    row: &GroupMatrix,
    q: GroupMatrixId,
    (copies, all): (&Copies, u32),
    i: Inst,
) -> Result<DotPlan, LowerError> {
    let d = &kernel.insts[i];
    let Type::Tile(c) = kernel.ty(d.args[2]) else {
        return Err(OfScalar::Dot.into());
    };
    let Some(groups) = copies.shares(row, i, [c.shape[0], c.shape[1]], all) else {
        return Err(Missing::AsyncDotPlan.into());
    };
    let (order, same) = ([0, 1, 2], all / (groups[0] * groups[1]));
    let spread = [groups[0], groups[1], same];
    let part = if groups[1] > 1 { row.fragment(c.shape[1] / groups[1]) } else { row.d.clone() };
    let acc = Rc::new(Layout::operand_of(&c.shape, &part, &spread, &order, &[Some(0), Some(1), None])?);
    let a = match (&row.a, kernel.ty(d.args[0])) {
        (Some(map), Type::Tile(t)) => Rc::new(Layout::operand_of(&t.shape, map, &spread, &order, &[Some(0), None, None])?),
        _ => acc.clone(),
    };
    let (factors, whole, b) = ([row.operand, row.operand_b], acc.clone(), acc.clone());
    Ok(DotPlan {
        instr: None,
        group: Some(q),
        groups,
        left: false,
        turned: false,
        factors,
        whole,
        a,
        b,
        d: acc,
        scales: None,
        others: Vec::new(),
    })
}

/// Fragments of a dot by multiply-adds: a lane holds a block of up to 4x4 accumulators, the rows of A and the columns of B that they
/// need; lanes of one row (column) read the same elements of A (B).
fn lane_fragments(lanes: u32, warps: u32, [m, n]: [u32; 2]) -> (FragmentMap, FragmentMap, FragmentMap) {
    let (m, n) = (m.trailing_zeros(), n.trailing_zeros());
    let lane_bits = lanes.trailing_zeros();
    let spare = (m + n).saturating_sub(lane_bits + warps.trailing_zeros());
    let reg_n = n.min(2).min(spare);
    let reg_m = m.min(2).min(spare - reg_n);
    let lane_m = (m - reg_m).min(lane_bits.saturating_sub((n - reg_n).min(lane_bits.div_ceil(2))));
    let lane_n = (n - reg_n).min(lane_bits - lane_m);
    let idle = lane_bits - lane_m - lane_n;
    let run = |dim: usize, from: u32, count: u32| {
        (from..from + count).map(move |bit| {
            let mut c = Coord::from_elem(0, 2);
            if dim < 2 {
                c[dim] = 1 << bit;
            }
            c
        })
    };
    const NONE: usize = 2;
    let map = |shape: [u32; 2], reg: Vec<Coord>, lane: Vec<Coord>| FragmentMap {
        shape: Coord::from_slice(&shape),
        reg,
        lane,
        warp: Vec::new(),
        rep_order: vec![1, 0],
    };
    let (rows, columns) = (1 << (reg_m + lane_m), 1 << (reg_n + lane_n));
    let idle = || run(NONE, 0, idle);
    let a = map([rows, 1], run(0, 0, reg_m).collect(), run(NONE, 0, lane_n).chain(run(0, reg_m, lane_m)).chain(idle()).collect());
    let b = map([1, columns], run(1, 0, reg_n).collect(), run(1, reg_n, lane_n).chain(run(NONE, 0, lane_m)).chain(idle()).collect());
    let d = map(
        [rows, columns],
        run(1, 0, reg_n).chain(run(0, 0, reg_m)).collect(),
        run(1, reg_n, lane_n).chain(run(0, reg_m, lane_m)).chain(idle()).collect(),
    );
    (a, b, d)
}

/// Warps along M and N: halve the longer side of a warp's share as long as the instruction still fits; the rest hold copies.
fn split_warps(warps: u32, tile: [u32; 2], atom: [u32; 2]) -> [u32; 2] {
    let mut split = [1u32; 2];
    let room = |split: &[u32; 2], d: usize| (tile[d] / atom[d] / split[d]).is_multiple_of(2);
    while split[0] * split[1] < warps {
        let share = [tile[0] / split[0], tile[1] / split[1]];
        let long = usize::from(share[1] > share[0]);
        if room(&split, long) {
            split[long] *= 2;
        } else if room(&split, 1 - long) {
            split[1 - long] *= 2;
        } else {
            split[long] *= 2;
        }
    }
    split
}
