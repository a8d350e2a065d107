//! Dots. On matrix instructions: for each k step the fragments of A and B are fetched, then all instructions of the step run. Types
//! and extents without one are summed by multiply-adds of single lanes.
//!
//! An operand comes from registers (converted to the operand layout) or from shared memory, where it was staged: by matrix loads
//! when they divide its access, else by the widest vectors.

use super::location::{Staged, Tile, ValueLocation};
use super::shared::{SharedPoints, beside_alike};
use super::vectors::{from_words, to_words, word_types};
use super::{Lower, narrow, packed};
use crate::layout::dot_plan::DotPlan;
use crate::layout::legal_width;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::rc::Rc;
use tilelift_ir::layout::{AccessColumns, Axis, Layout, LdMatrixPlan, SharedOp, ldmatrix_applies, vectors_without};
use tilelift_ir::typing::SCALE_BLOCK;
use tilelift_ir::{Attr, Inst, Precision, Scalar, Value};
use tilelift_lane::hash::Map;
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder, MatrixId, MatrixInstr, Special, Target, Vals};
use tilelift_schedule::reason::{Missing, Offer, ProductOperand, Remedy, Unsupported};
use tilelift_schedule::{LowerError, Resource};

/// Bytes of a lane's vector up to which two of them from one address may be one access.
const PAIRED: u32 = 8;

/// A block of sums: its first row, its first column, its first register.
type SumBlock = (u32, u32, u32);

/// Steps of a product: the depth, and the blocks of sums to which it is added.
///
/// Each depth is added to all blocks. Where lanes do all else, sums begin at zero, and one operand is in registers, those of the first rows, or columns, of the other one are there before the
/// next ones are begun: what is computed of them runs beside products, and no fragment is held longer.
fn steps(target: &Target, ks: &[u32], blocks: &[SumBlock], [a, b]: [&Operand; 2], begins: bool) -> Vec<(u32, Vec<SumBlock>)> {
    let fetched = |o: &Operand| matches!(o.source, Source::Vectors { .. });
    let by: Option<fn(&SumBlock) -> u32> = match [fetched(a), fetched(b)] {
        [true, false] if begins && target.moves_by_lanes() => Some(|block| block.0),
        [false, true] if begins && target.moves_by_lanes() => Some(|block| block.1),
        _ => None,
    };
    let Some(by) = by else { return ks.iter().map(|&k| (k, blocks.to_vec())).collect() };
    let lines: BTreeSet<u32> = blocks.iter().map(by).collect();
    let line = |at: u32| blocks.iter().filter(|block| by(block) == at).copied().collect::<Vec<SumBlock>>();
    lines.into_iter().flat_map(|at| ks.iter().map(move |&k| (k, at))).map(|(k, at)| (k, line(at))).collect()
}

/// Where the fragments of an operand come from.
enum Source {
    Regs(Vec<LVal>),
    Matrices { plan: LdMatrixPlan, staged: Rc<Staged> },
    Vectors { columns: AccessColumns, groups: Vec<Vec<u32>>, staged: Rc<Staged> },
}

/// An operand and the words fetched so far.
struct Operand {
    source: Source,
    /// Type of the elements where they come from.
    elem: Scalar,
    /// Type in which they are multiplied.
    factor: Scalar,
    precision: Precision,
    /// Elements per word.
    per_word: u32,
    /// Word by its first register.
    words: Map<u32, LVal>,
    /// Instruction by register, for staged operands.
    group_of: Map<u32, usize>,
    /// Register of the fragment's first element by the fragment's coordinate.
    bases: Map<(u32, u32), u32>,
}

impl Operand {
    fn new(layout: &Layout, fragment_bits: usize, [elem, factor]: [Scalar; 2], precision: Precision, source: Source) -> Operand {
        let mut bases = Map::default();
        for r in (0..layout.size(Axis::Reg)).filter(|r| r & ((1 << fragment_bits) - 1) == 0) {
            let c = layout.reg_coord(r);
            bases.entry((c[0], c[1])).or_insert(r);
        }
        let mut group_of = Map::default();
        match &source {
            Source::Regs(_) => {}
            Source::Matrices { plan, .. } => {
                for (n, g) in plan.groups.iter().enumerate() {
                    g.regs.iter().for_each(|&r| {
                        group_of.insert(r, n);
                    });
                }
            }
            Source::Vectors { groups, .. } => {
                for (n, g) in groups.iter().enumerate() {
                    g.iter().for_each(|&r| {
                        group_of.insert(r, n);
                    });
                }
            }
        }
        let per_word = (32 / factor.bits()).max(1);
        Operand { source, elem, factor, precision, per_word, words: Map::default(), group_of, bases }
    }

    /// The words of the fragment at a coordinate.
    fn fragment(&mut self, b: &mut LaneBuilder, at: (u32, u32), registers: u32) -> Result<Vals, LowerError> {
        let base = *self.bases.get(&at).ok_or_else(|| Unsupported::Fragment(ProductOperand::Dot, at.into()))?;
        (0..registers / self.per_word).map(|w| self.word(b, base + w * self.per_word)).collect()
    }

    /// What the addresses of fragments differ in, beside constants, where they are fetched by vectors that two at a time may be one access.
    fn places(&self, of: impl Fn(&(u32, u32)) -> bool) -> BTreeSet<u32> {
        let Source::Vectors { columns, groups, .. } = &self.source else { return BTreeSet::new() };
        let bases = self.bases.iter().filter(|(c, _)| of(c)).filter_map(|(_, base)| groups.get(*self.group_of.get(base)?));
        let narrow = bases.filter(|group| group.len() as u32 * self.elem.bytes() <= PAIRED);
        narrow.filter_map(|group| group.first()).map(|&first| columns.parts(Axis::Reg, first).0 & columns.dynamic_mask()).collect()
    }

    fn word(&mut self, b: &mut LaneBuilder, first: u32) -> Result<LVal, LowerError> {
        if let Some(&w) = self.words.get(&first) {
            return Ok(w);
        }
        match &self.source {
            Source::Regs(regs) => {
                let elems = &regs[first as usize..(first + self.per_word) as usize];
                let elems: Vec<LVal> = elems.iter().map(|&v| narrow::cast(b, v, self.elem, self.factor)).collect();
                let w = self.packed(b, &elems);
                let w = self.rounded(b, w);
                self.words.insert(first, w);
            }
            Source::Matrices { plan, staged } => {
                let group = &plan.groups[self.group_of[&first]];
                let words = load_matrices(b, plan, staged, group.xor, group.add);
                let firsts: Vec<u32> = group.regs.chunks(self.per_word as usize).map(|c| c[0]).collect();
                for (f, w) in firsts.into_iter().zip(words) {
                    let w = if self.elem == Scalar::F32 { b.bitcast(w, LTy::F32) } else { w };
                    let w = self.rounded(b, w);
                    self.words.insert(f, w);
                }
            }
            Source::Vectors { columns, groups, staged } => {
                let group = groups[self.group_of[&first]].clone();
                if group.len() < self.per_word as usize {
                    return self.gather(b, first);
                }
                let points = SharedPoints::new(b, columns, staged.base);
                let mut elems = Map::default();
                for part in group.chunks(legal_width(group.len() as u32, self.elem) as usize) {
                    let n = part.len() as u32;
                    let (addr, offset) = points.at(b, part[0]);
                    let warps = b.warps();
                    b.meter.shared(columns, n * self.elem.bytes(), SharedOp::Load, 0, warps);
                    let words = b.load_shared(&word_types(n, self.elem), staged.alloc, addr, offset);
                    let values = from_words(b, &words, self.elem, n);
                    for (&r, v) in part.iter().zip(values) {
                        elems.insert(r, narrow::cast(b, v, self.elem, self.factor));
                    }
                }
                self.put_elements(b, elems)?;
            }
        }
        match self.words.get(&first) {
            Some(&w) => Ok(w),
            // A word whose elements come from several instructions: the others are fetched now.
            None => self.gather(b, first),
        }
    }

    /// Keeps single elements until all of a word are there.
    fn put_elements(&mut self, b: &mut LaneBuilder, elems: Map<u32, LVal>) -> Result<(), LowerError> {
        let mut firsts: Vec<u32> = elems.keys().map(|r| r - r % self.per_word).collect();
        firsts.sort_unstable();
        firsts.dedup();
        for f in firsts {
            let parts: Option<Vec<LVal>> = (f..f + self.per_word).map(|r| elems.get(&r).copied()).collect();
            if let Some(parts) = parts {
                let w = self.packed(b, &parts);
                let w = self.rounded(b, w);
                self.words.insert(f, w);
            }
        }
        Ok(())
    }

    /// Fetches the elements of one word one by one.
    fn gather(&mut self, b: &mut LaneBuilder, first: u32) -> Result<LVal, LowerError> {
        let Source::Vectors { columns, staged, .. } = &self.source else {
            return Err(Missing::Word.into());
        };
        let points = SharedPoints::new(b, columns, staged.base);
        let mut parts = Vec::new();
        for r in first..first + self.per_word {
            let (addr, offset) = points.at(b, r);
            let warps = b.warps();
            b.meter.shared(columns, self.elem.bytes(), SharedOp::Load, 0, warps);
            let v = b.load_shared(&word_types(1, self.elem), staged.alloc, addr, offset)[0];
            parts.push(narrow::cast(b, v, self.elem, self.factor));
        }
        let w = self.packed(b, &parts);
        let w = self.rounded(b, w);
        self.words.insert(first, w);
        Ok(w)
    }

    /// The elements of a word, packed.
    fn packed(&self, b: &mut LaneBuilder, elems: &[LVal]) -> LVal {
        match elems {
            [one] => *one,
            _ if self.factor.is_packed() => packed::word_of_halves(b, elems),
            _ => b.pack(elems),
        }
    }

    fn rounded(&self, b: &mut LaneBuilder, w: LVal) -> LVal {
        match self.precision {
            // Of three products each takes its part.
            Precision::Exact | Precision::Tf32x3 => w,
            Precision::Tf32 => b.round_tf32(w),
        }
    }
}

/// Scales in registers, as words whose low byte the instruction takes.
struct Scales {
    /// By the first row (column) and block of an instruction.
    codes: Map<(u32, u32), LVal>,
    words: Map<LVal, LVal>,
}

impl Scales {
    fn word(&mut self, b: &mut LaneBuilder, at: (u32, u32)) -> Result<LVal, LowerError> {
        let code = *self.codes.get(&at).ok_or_else(|| Unsupported::Fragment(ProductOperand::Dot, at.into()))?;
        Ok(*self.words.entry(code).or_insert_with(|| {
            let wide = b.cvt(code, LTy::I32);
            b.bitcast(wide, LTy::B32)
        }))
    }
}

fn load_matrices(b: &mut LaneBuilder, plan: &LdMatrixPlan, staged: &Staged, xor: u32, add: u32) -> Vals {
    let lane = b.special(Special::Lane);
    let warp = b.special(Special::Warp);
    let row = super::shared::xor_map(b, lane, &plan.lane_address);
    let warp = super::shared::xor_map(b, warp, &plan.warp_address);
    let dynamic = match (row, warp) {
        (Some(x), Some(y)) => Some(b.bin(BinOp::Xor, x, y)),
        (x, y) => x.or(y),
    };
    let mask = plan.lane_address.iter().chain(&plan.warp_address).fold(0, |m, c| m | c);
    let mut addr = staged.base;
    if let Some(d) = dynamic {
        let flip = b.i32(i64::from(xor & mask));
        let d = b.bin(BinOp::Xor, d, flip);
        let d = super::shared::placed(b, d, plan.pad);
        addr = b.add(addr, d);
    }
    let still = plan.pad.map_or(xor & !mask, |p| p.place(xor & !mask));
    let warps = b.warps();
    b.meter.matrices(plan.count, plan.wavefronts(), warps);
    b.load_matrix(plan.count as usize, staged.alloc, addr, (still + add) as i32, plan.trans)
}

/// Bits of the registers of a fragment of each operand of a product.
fn fragment_bits(turned: bool, instr: &MatrixInstr) -> [usize; 2] {
    let own = [instr.a.reg.len(), instr.b.reg.len()];
    if turned { [own[1], own[0]] } else { own }
}

impl Lower<'_> {
    /// The operand `v` of a dot in operand layout.
    fn operand(
        &mut self,
        b: &mut LaneBuilder,
        v: Value,
        layout: &Rc<Layout>,
        fragment_bits: usize,
        (factor, precision): (Scalar, Precision),
    ) -> Result<Operand, LowerError> {
        let elem = self.kernel.ty(v).elem();
        let source = match self.values[v].clone() {
            Some(ValueLocation::Staged(staged)) => self.source(staged, layout, elem, factor)?,
            Some(ValueLocation::Tile(_) | ValueLocation::Scalar(_) | ValueLocation::Local(_) | ValueLocation::Mbarriers(_)) | None => {
                Source::Regs(self.tile(b, v, layout)?.regs.clone())
            }
        };
        Ok(Operand::new(layout, fragment_bits, [elem, factor], precision, source))
    }

    /// The scales `v` of an operand.
    fn scales(&mut self, b: &mut LaneBuilder, v: Value, layout: &Rc<Layout>) -> Result<Scales, LowerError> {
        let tile = self.tile(b, v, layout)?;
        let at = |r: usize| {
            let c = layout.reg_coord(r as u32);
            (c[0], c[1])
        };
        Ok(Scales { codes: tile.regs.iter().enumerate().map(|(r, &v)| (at(r), v)).collect(), words: Map::default() })
    }

    /// How an operand in shared memory is fetched: by matrix loads where these bring it, else by vectors.
    fn source(&mut self, staged: Rc<Staged>, layout: &Rc<Layout>, elem: Scalar, factor: Scalar) -> Result<Source, LowerError> {
        let columns = staged.map.columns_from(layout)?;
        let plan = if self.target.load_matrix && factor == elem { ldmatrix_applies(&columns, elem.bytes()) } else { None };
        match plan {
            Some(plan) => Ok(Source::Matrices { plan, staged }),
            None => self.vectors(staged, layout, elem),
        }
    }

    pub(super) fn dot(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let Some(plan) = self.assigned.dots[i].clone() else {
            return Err(Missing::DotPlan.into());
        };
        let Some([at_a, at_b, at_sums]) = d.op.factors() else {
            return Err(Missing::DotPlan.into());
        };
        let acc = self.tile(b, d.args[at_sums], &plan.whole)?;
        let held = self.kernel.ty(d.args[at_sums]).elem();
        let sum = match plan.instr {
            Some(q) => self.target.matrix_instr(q).acc,
            None if held == Scalar::F16 => Scalar::F32,
            None => held,
        };
        let mut regs: Vec<LVal> = acc.regs.iter().map(|&v| b.cvt(v, LTy::Num(sum))).collect();
        if plan.whole.rank() == 3 {
            self.batched(b, i, &plan, sum, &mut regs)?;
        } else {
            match plan.instr {
                Some(q) => {
                    let instr = self.target.matrix_instr(q);
                    let precision = if self.precision(i) == Precision::Tf32x3 { Precision::Tf32x3 } else { instr.precision };
                    let bits = fragment_bits(plan.turned, instr);
                    let scales = match &plan.scales {
                        Some([of_a, of_b]) => Some([self.scales(b, d.args[1], of_a)?, self.scales(b, d.args[3], of_b)?]),
                        None => None,
                    };
                    let left = self.operand(b, d.args[at_a], &plan.a, bits[0], (plan.factors[0], precision))?;
                    let right = self.operand(b, d.args[at_b], &plan.b, bits[1], (plan.factors[1], precision))?;
                    self.matrix_dot(b, &plan, q, ([left, right], scales), &mut regs)?;
                }
                None => {
                    let left = self.in_shared(b, d.args[0], &plan.a)?;
                    let right = if d.args[1] == d.args[0] { left.clone() } else { self.in_shared(b, d.args[1], &plan.b)? };
                    self.lane_dot(b, i, &plan, LTy::Num(sum), [left, right], &mut regs)?;
                }
            }
        }
        let regs = regs.into_iter().map(|v| b.cvt(v, LTy::Num(held))).collect();
        self.set_tile(d.results[0], Tile { layout: plan.whole.clone(), regs });
        // Of a product in one step they begin behind it.
        self.late_copies(b)
    }

    fn precision(&self, i: Inst) -> Precision {
        match self.kernel.insts[i].attrs.first() {
            Some(Attr::Precision(p)) => *p,
            _ => Precision::Exact,
        }
    }

    /// The matrix products of a batch one after the other; every matrix of it lies in registers.
    fn batched(&mut self, b: &mut LaneBuilder, i: Inst, plan: &DotPlan, sum: Scalar, regs: &mut [LVal]) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let count = plan.whole.shape()[0];
        let mut operands = Vec::new();
        for (v, layout) in [(d.args[0], &plan.a), (d.args[1], &plan.b)] {
            let whole = Rc::new(layout.expand_dims(0).broadcast(0, count)?);
            operands.push((self.tile(b, v, &whole)?, layout, self.kernel.ty(v).elem()));
        }
        for z in 0..count {
            let parts: Vec<Tile> = operands
                .iter()
                .map(|(t, l, _)| Tile { layout: (*l).clone(), regs: matrix_of(&t.layout, z).iter().map(|&r| t.regs[r]).collect() })
                .collect();
            let places = matrix_of(&plan.whole, z);
            let mut own: Vec<LVal> = places.iter().map(|&r| regs[r]).collect();
            match plan.instr {
                Some(q) => {
                    let instr = self.target.matrix_instr(q);
                    let precision = if self.precision(i) == Precision::Tf32x3 { Precision::Tf32x3 } else { instr.precision };
                    let bits = fragment_bits(plan.turned, instr);
                    let operand = |k: usize| {
                        let elems = [operands[k].2, plan.factors[k]];
                        Operand::new(operands[k].1, bits[k], elems, precision, Source::Regs(parts[k].regs.clone()))
                    };
                    self.matrix_dot(b, plan, q, ([operand(0), operand(1)], None), &mut own)?;
                }
                None => {
                    let left = Rc::new(self.stage_tile(b, &parts[0], operands[0].2, &plan.a)?);
                    let right = Rc::new(self.stage_tile(b, &parts[1], operands[1].2, &plan.b)?);
                    self.lane_dot(b, i, plan, LTy::Num(sum), [left, right], &mut own)?;
                }
            }
            places.iter().zip(own).for_each(|(&r, v)| regs[r] = v);
        }
        Ok(())
    }

    fn matrix_dot(
        &mut self,
        b: &mut LaneBuilder,
        plan: &DotPlan,
        q: MatrixId,
        ([mut a, mut bb], mut scales): ([Operand; 2], Option<[Scales; 2]>),
        regs: &mut [LVal],
    ) -> Result<(), LowerError> {
        let target = self.target;
        let instr = target.matrix_instr(q);
        let thrice = a.precision == Precision::Tf32x3;
        let count = |bits: usize| 1u32 << bits;
        let acc_bits = instr.d.reg.len();
        let tiles = blocks(&plan.d, acc_bits);
        let ks: BTreeSet<u32> = a.bases.keys().map(|c| c.1).collect();
        let mut ks: Vec<u32> = ks.into_iter().collect();
        if target.moves_by_lanes() {
            // The sum may be taken in any order.
            ks = beside_alike(ks, |&k| [a.places(|c| c.1 == k), bb.places(|c| c.0 == k)]);
        }
        let [regs_a, regs_b] = fragment_bits(plan.turned, instr).map(count);
        let steps = steps(target, &ks, &tiles, [&a, &bb], regs.iter().all(|&v| b.as_const(v).is_some()));
        for (step, (k, tiles)) in steps.iter().enumerate() {
            let k = *k;
            // The fragments of a step are asked for while the step before runs.
            for (ahead, tiles) in &steps[if step == 0 { 0 } else { step + 1 }.min(steps.len())..(step + 2).min(steps.len())] {
                for &(m, n, _) in tiles {
                    a.fragment(b, (m, *ahead), regs_a)?;
                    bb.fragment(b, (*ahead, n), regs_b)?;
                }
            }
            if step == 1 {
                self.late_copies(b)?;
            }
            for &(m, n, base) in tiles {
                let af = a.fragment(b, (m, k), regs_a)?;
                let bf = bb.fragment(b, (k, n), regs_b)?;
                let of_both = match &mut scales {
                    Some([of_a, of_b]) => Vals::from_slice(&[of_a.word(b, (m, k / SCALE_BLOCK))?, of_b.word(b, (k / SCALE_BLOCK, n))?]),
                    None => Vals::new(),
                };
                let range = base as usize..(base + count(acc_bits)) as usize;
                let mut c: Vals = if instr.acc.bytes() >= 4 {
                    SmallVec::from_slice(&regs[range.clone()])
                } else {
                    to_words(b, &regs[range.clone()], instr.acc).iter().copied().collect()
                };
                // The instruction's own A and B.
                let [af, bf] = if plan.turned { [bf, af] } else { [af, bf] };
                if thrice {
                    let [[ah, al], [bh, bl]] = [af, bf].map(|f| tf32_parts(b, &f));
                    c = b.matrix(q, al, bh.clone(), c);
                    c = b.matrix(q, ah.clone(), bl, c);
                    c = b.matrix(q, ah, bh, c);
                } else {
                    c = b.matrix_scaled(q, [af, bf], c, of_both);
                }
                let elems = from_words(b, &c, instr.acc, count(acc_bits));
                regs[range].copy_from_slice(&elems);
            }
        }
        Ok(())
    }

    /// Multiply-adds in every lane, k by k; operands lie in shared memory, where lanes that need the same element read it at once.
    fn lane_dot(
        &mut self,
        b: &mut LaneBuilder,
        i: Inst,
        plan: &DotPlan,
        sum: LTy,
        [left, right]: [Rc<Staged>; 2],
        regs: &mut [LVal],
    ) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let depth = u64::from(plan.a.shape()[1]);
        let precision = self.precision(i);
        let thrice = precision == Precision::Tf32x3;
        let steps = depth * regs.len() as u64 * if thrice { 3 } else { 1 };
        if steps > MAX_LANE_STEPS {
            return Err(LowerError::ResourceExceeded {
                resource: Resource::MultiplyAdds,
                need: steps,
                have: MAX_LANE_STEPS,
                remedy: Box::new(Remedy::Matrix { target: self.target.name, rows: offers(self.target) }),
                loc: Default::default(),
            });
        }
        let elems = [d.args[0], d.args[1]].map(|v| self.kernel.ty(v).elem());
        let operand = |staged, layout, elem: Scalar| -> Result<Operand, LowerError> {
            let source = self.vectors(staged, layout, elem)?;
            Ok(Operand { per_word: 1, ..Operand::new(layout, 0, [elem; 2], precision, source) })
        };
        let mut a = operand(left, &plan.a, elems[0])?;
        let mut bb = operand(right, &plan.b, elems[1])?;
        let wide = if let LTy::Num(s) = sum { s } else { elems[0] };
        let cells = blocks(&plan.d, 0);
        for k in 0..depth as u32 {
            for &(m, n, r) in &cells {
                let x = a.fragment(b, (m, k), 1)?;
                let y = bb.fragment(b, (k, n), 1)?;
                let acc = &mut regs[r as usize];
                if thrice {
                    let [[xh, xl], [yh, yl]] = [x, y].map(|f| tf32_parts(b, &f).map(|p| p[0]));
                    *acc = b.fma(xl, yh, *acc);
                    *acc = b.fma(xh, yl, *acc);
                    *acc = b.fma(xh, yh, *acc);
                } else {
                    let (x, y) = (narrow::cast(b, x[0], elems[0], wide), narrow::cast(b, y[0], elems[1], wide));
                    *acc = b.fma(x, y, *acc);
                }
            }
        }
        Ok(())
    }

    /// An operand of a dot in shared memory, brought there if it is in registers.
    fn in_shared(&mut self, b: &mut LaneBuilder, v: Value, reader: &Rc<Layout>) -> Result<Rc<Staged>, LowerError> {
        if let Some(ValueLocation::Staged(s)) = &self.values[v] {
            return Ok(s.clone());
        }
        let tile = self.own_tile(b, v)?;
        Ok(Rc::new(self.stage_tile(b, &tile, self.kernel.ty(v).elem(), reader)?))
    }

    /// The widest vectors that read a layout's elements from shared memory.
    fn vectors(&self, staged: Rc<Staged>, layout: &Layout, elem: Scalar) -> Result<Source, LowerError> {
        let columns = staged.map.columns_from(layout)?;
        let free = layout.free_mask(Axis::Reg);
        let vectors = vectors_without(&columns, elem.bytes(), self.target.vector_bytes, free);
        Ok(Source::Vectors { columns: columns.scaled(elem.bytes())?, groups: vectors.groups, staged })
    }
}

/// The tf32 numbers whose sum stands for an `f32`: the nearest one, and the one nearest to the rest.
fn tf32_parts(b: &mut LaneBuilder, words: &Vals) -> [Vals; 2] {
    let high: Vals = words.iter().map(|&w| b.round_tf32(w)).collect();
    let low = words.iter().zip(&high).map(|(&w, &h)| {
        let rest = b.bin(BinOp::Sub, w, h);
        b.round_tf32(rest)
    });
    let low = low.collect();
    [high, low]
}

/// The registers of one matrix of a batch that lies in registers, in the order of the matrix's own layout.
fn matrix_of(whole: &Layout, index: u32) -> Vec<usize> {
    let mut own: Vec<(u32, usize)> = (whole.slice_registers(0).into_iter().enumerate())
        .filter(|&(r, _)| whole.reg_coord(r as u32)[0] == index)
        .map(|(r, at)| (at, r))
        .collect();
    own.sort_unstable();
    own.into_iter().map(|(_, r)| r).collect()
}

/// Multiply-adds of one dot that a lane may run: they are not in a loop, and the text grows with them.
const MAX_LANE_STEPS: u64 = 1 << 15;

/// What the matrix instructions of a target take, for messages.
fn offers(target: &Target) -> Vec<Offer> {
    let rows = target.matrix.iter();
    rows.map(|x| Offer { elems: [x.operand, x.operand_b, x.acc], precision: x.precision, shape: x.shape }).collect()
}

/// Coordinates and first registers of the instruction blocks of an accumulator, in order.
fn blocks(layout: &Layout, bits: usize) -> Vec<(u32, u32, u32)> {
    let mut blocks: Vec<(u32, u32, u32)> = (0..layout.size(Axis::Reg))
        .filter(|r| r & ((1u32 << bits) - 1) == 0)
        .map(|r| {
            let c = layout.reg_coord(r);
            (c[0], c[1], r)
        })
        .collect();
    blocks.sort_unstable();
    blocks
}
