//! Ops with a combining region: the region expands once per pair of elements, in the trees of `reduce.rs` and `scan.rs`.
//!
//! An op need not be commutative, so lanes look which of the two elements comes first. Truth values travel as words, which can be
//! shuffled and stored, and are truth values inside the region only.

use super::Lower;
use super::elementwise::scalar_op;
use super::location::{Bundle, Tile, ValueLocation};
use super::reduce::{Fold, spread_layout};
use super::scan::{Scan, Travel};
use super::sizes::combined_type;
use crate::layout::owners;
use std::rc::Rc;
use tilelift_ir::layout::Layout;
use tilelift_ir::reduce::reduce_order;
use tilelift_ir::{CmpOp, Inst, Op, Region, Scalar, Type, Value};
use tilelift_lane::hash::Map;
use tilelift_lane::{BinOp, LTy, LVal, LaneBuilder};
use tilelift_schedule::LowerError;
use tilelift_schedule::reason::OfScalar;

impl Lower<'_> {
    /// The tiles of a combining op in one layout that keeps the bits of the axis apart.
    fn combine_operands(&mut self, b: &mut LaneBuilder, i: Inst, dim: usize) -> Result<(Rc<Layout>, Vec<Rc<Tile>>), LowerError> {
        let kernel = self.kernel;
        let args = &kernel.insts[i].args;
        let Type::Tile(t) = kernel.ty(args[0]) else {
            return Err(OfScalar::Combine(kernel.insts[i].op).into());
        };
        let mut layout = self.layout_of(args[0])?;
        if owners(&layout, dim).is_none() {
            layout = spread_layout(t, self.target, &self.plan)?;
        }
        let tiles = args.iter().map(|&a| self.tile(b, a, &layout)).collect::<Result<_, _>>()?;
        Ok((layout, tiles))
    }

    /// The elements of each register, as they travel.
    fn bundles(&self, b: &mut LaneBuilder, elems: &[Scalar], tiles: &[Rc<Tile>]) -> Vec<Bundle> {
        let (one, zero) = (b.i32(1), b.i32(0));
        let word = |b: &mut LaneBuilder, e: Scalar, v: LVal| if e == Scalar::I1 { b.select(v, one, zero) } else { v };
        (0..tiles[0].regs.len()).map(|r| tiles.iter().zip(elems).map(|(t, &e)| word(b, e, t.regs[r])).collect()).collect()
    }

    /// What travelled, as an element.
    fn arrived(b: &mut LaneBuilder, elem: Scalar, v: LVal) -> LVal {
        let zero = b.i32(0);
        if elem == Scalar::I1 { b.cmp(CmpOp::Ne, v, zero) } else { v }
    }

    /// The region on one pair.
    fn combined(&self, b: &mut LaneBuilder, region: Region, x: &[LVal], y: &[LVal]) -> Bundle {
        // Nobody will use it.
        if b.exceeded().is_some() {
            return Bundle::from_slice(x);
        }
        let kernel = self.kernel;
        let data = &kernel.regions[region];
        let elem = |v: Value| kernel.ty(v).elem();
        let mut known: Map<Value, LVal> = Map::default();
        for (&p, &v) in data.params.iter().zip(x.iter().chain(y)) {
            known.insert(p, Self::arrived(b, elem(p), v));
        }
        let (one, zero) = (b.i32(1), b.i32(0));
        for &i in &data.insts {
            let d = &kernel.insts[i];
            let value = |v: &Value| match (known.get(v), &self.values[*v]) {
                (Some(l), _) | (None, Some(ValueLocation::Scalar(l))) => *l,
                // The verifier sees to it that operands are scalars.
                (
                    None,
                    Some(ValueLocation::Tile(_) | ValueLocation::Staged(_) | ValueLocation::Local(_) | ValueLocation::Mbarriers(_)) | None,
                ) => zero,
            };
            let args: Vec<LVal> = d.args.iter().map(value).collect();
            if d.op == Op::Yield {
                let word = |(&a, &l): (&Value, &LVal)| if elem(a) == Scalar::I1 { b.select(l, one, zero) } else { l };
                return d.args.iter().zip(&args).map(word).collect();
            }
            let l = if d.op == Op::Const { self.leaf(b, i) } else { self.element_op(b, i, &args) };
            known.insert(d.results[0], l);
        }
        Bundle::from_slice(x)
    }

    pub(super) fn reduce_by(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let (dim, region) = (self.dim_attr(i), d.regions[0]);
        let (layout, tiles) = self.combine_operands(b, i, dim)?;
        let elems: Vec<Scalar> = d.args.iter().map(|&a| self.kernel.ty(a).elem()).collect();
        let live = self.bundles(b, &elems, &tiles);
        let order = reduce_order(layout.shape()[dim]);
        let tys: Vec<LTy> = elems.iter().map(|&e| combined_type(e)).collect();
        let fold = Fold { layout: &layout, dim, owned: &self.owned(&layout, dim, i)?, bits: &order.bits, tys: &tys, commutes: false };
        let live = self.fold(b, &fold, live, &|b, x, y| self.combined(b, region, x, y))?;
        for (c, &elem) in elems.iter().enumerate() {
            let done: Vec<Option<LVal>> = live.iter().map(|v| v.as_ref().map(|v| Self::arrived(b, elem, v[c]))).collect();
            self.reduced(d.results[c], &layout, dim, &done)?;
        }
        Ok(())
    }

    pub(super) fn scan_by(&mut self, b: &mut LaneBuilder, i: Inst, reverse: bool) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let (dim, region) = (self.dim_attr(i), d.regions[0]);
        let (layout, tiles) = self.combine_operands(b, i, dim)?;
        let elems: Vec<Scalar> = d.args.iter().map(|&a| self.kernel.ty(a).elem()).collect();
        let x = self.bundles(b, &elems, &tiles);
        let tys: Vec<LTy> = elems.iter().map(|&e| combined_type(e)).collect();
        let owned = self.owned(&layout, dim, i)?;
        let travel = Travel { tys: &tys, reverse, commutes: false };
        let mut s = Scan { pre: x.clone(), total: x };
        self.scanned(b, &layout, dim, &owned, &mut s, &travel, &|b, x, y| self.combined(b, region, x, y))?;
        for (c, &elem) in elems.iter().enumerate() {
            let regs = s.pre.iter().map(|v| Self::arrived(b, elem, v[c])).collect();
            self.set_tile(d.results[c], Tile { layout: layout.clone(), regs });
        }
        Ok(())
    }

    /// Philox4x32-10, register by register.
    pub(super) fn philox(&mut self, b: &mut LaneBuilder, i: Inst) -> Result<(), LowerError> {
        let d = &self.kernel.insts[i];
        let scalar = matches!(self.kernel.ty(d.args[0]), Type::Scalar(_));
        let layout = if scalar { None } else { Some(self.layout_of(d.results[0])?) };
        let words: Vec<Vec<LVal>> = match &layout {
            Some(l) => d.args.iter().map(|&a| self.tile(b, a, l).map(|t| t.regs.clone())).collect::<Result<_, _>>()?,
            None => d.args.iter().map(|&a| self.scalar(a).map(|v| vec![v])).collect::<Result<_, _>>()?,
        };
        let mut out: [Vec<LVal>; 4] = Default::default();
        for (r, &c0) in words[0].iter().enumerate() {
            let made = philox_words(b, [c0, words[1][r], words[2][r], words[3][r]], [words[4][r], words[5][r]]);
            out.iter_mut().zip(made).for_each(|(o, v)| o.push(v));
        }
        for (&v, regs) in d.results.iter().zip(out) {
            match &layout {
                Some(l) => self.set_tile(v, Tile { layout: l.clone(), regs }),
                None => self.values[v] = Some(ValueLocation::Scalar(regs[0])),
            }
        }
        Ok(())
    }
}

/// The definition stands in the op table.
fn philox_words(b: &mut LaneBuilder, mut c: [LVal; 4], mut k: [LVal; 2]) -> [LVal; 4] {
    let [m0, m1, w0, w1] = [0xd251_1f53u32, 0xcd9e_8d57, 0x9e37_79b9, 0xbb67_ae85].map(|x| b.i32(i64::from(x as i32)));
    let op = |b: &mut LaneBuilder, op: Op, x: LVal, y: LVal| scalar_op(b, op, &[], &[x, y], LTy::I32);
    for _ in 0..10 {
        let ((h0, l0), (h1, l1)) = (product(b, m0, c[0]), product(b, m1, c[2]));
        let (x, y) = (op(b, Op::Xor, h1, c[1]), op(b, Op::Xor, h0, c[3]));
        c = [b.bin(BinOp::Xor, x, k[0]), l1, b.bin(BinOp::Xor, y, k[1]), l0];
        k = [b.add(k[0], w0), b.add(k[1], w1)];
    }
    c
}

/// The upper and the lower word of a product of two words without sign.
fn product(b: &mut LaneBuilder, x: LVal, y: LVal) -> (LVal, LVal) {
    if b.as_const(x).is_some() && b.as_const(y).is_some() {
        return (b.bin(BinOp::MulHiU, x, y), b.mul(x, y));
    }
    let (zero, by) = (b.i64(0), b.i64(32));
    let both = b.mad_wide_u(x, y, zero);
    let upper = b.bin(BinOp::ShrU, both, by);
    (b.cvt(upper, LTy::I32), b.cvt(both, LTy::I32))
}
