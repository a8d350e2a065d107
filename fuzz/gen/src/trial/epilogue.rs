//! What trials do with sums, and where results go.
//!
//! ```text
//! sum ─► + bias of a column ─► activation ─► + residual ─► cast ─┬─► one store, or in the arms of a choice
//!                                                                └─► a second result: wider, the other way round, sums of rows
//! ```
//! Numbers are small integers all the way, so that every device computes equal bits; the one function that is not exact comes last and has its
//! own tolerance.

use super::classes::{Axis, Classes};
use super::matrix::{Batch, Matrix, Params, Storage};
use crate::case::{Param, Tensor, Tolerance};
use crate::data::Init;
use crate::source::Source;
use tilelift_ir::{CmpOp, Extent, KernelBuilder, ReduceOp, Scalar, Value, ViewType};

/// Room for the rounding of a sum to its result's type, when sums differ.
fn rounding(out: Scalar) -> f64 {
    match out {
        Scalar::BF16 => 2f64.powi(-7),
        Scalar::F16 => 2f64.powi(-10),
        _ => 0.0,
    }
}

/// `exp2` is off by this, and by what follows from the rounding of its operand.
const EXP2: f64 = 1.0 / (1 << 20) as f64;

/// The function at the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Function {
    None,
    Relu,
    Leaky,
    Clamp,
    Exp2,
}

/// How results leave, decided before the kernel is built, so that its parameters are known.
pub(super) struct Epilogue {
    acc: Scalar,
    out: Scalar,
    tile: [u32; 2],
    bias: Option<Value>,
    function: Function,
    residual: Option<Matrix>,
    result: Matrix,
    /// Results of programs that stand elsewhere go here.
    other: Option<Matrix>,
    second: Option<Second>,
    /// Columns of the result in front of the first.
    behind: i64,
}

enum Second {
    /// Sums as they are.
    Wide(Matrix),
    /// The result the other way round.
    Transposed(Matrix),
    /// Sums of rows.
    Rows(Value),
}

/// What an epilogue is for.
pub(super) struct Sums {
    pub acc: Scalar,
    /// Rows and columns of a program's tile, and of all.
    pub tile: [u32; 2],
    pub extents: [i64; 2],
    pub storage: Storage,
    /// How far sums may be off.
    pub off: f64,
    /// Whether a multiple of the columns' width is added to where results go.
    pub shifts: bool,
}

impl Epilogue {
    pub fn declare(b: &mut KernelBuilder, src: &mut Source, params: &mut Params, classes: &mut Classes, sums: &Sums) -> Epilogue {
        let Sums { acc, tile, extents, storage, off, shifts } = *sums;
        let exact = off == 0.0;
        let narrow = src.chance(170);
        let out = match (narrow, acc) {
            (true, Scalar::F32) => *src.pick(&[Scalar::BF16, Scalar::F16]).unwrap_or(&Scalar::BF16),
            (true, _) => *src.pick(&[Scalar::F32, Scalar::BF16, Scalar::F16]).unwrap_or(&Scalar::F32),
            (false, acc) => acc,
        };
        classes.add(Axis::Results, out);
        let bias = src.chance(80).then(|| {
            classes.add(Axis::Epilogue, "bias");
            let elem = *src.pick(&[Scalar::F32, Scalar::BF16]).unwrap_or(&Scalar::F32);
            let shape = vec![extents[1]];
            let init = Init::Small(src.seed());
            params.0.push(Param::Tensor(Tensor { elem, shape, strides: vec![1], dense: true, offset: 0, init, tolerance: None }));
            b.param(ViewType::dense(elem, &[Extent::Dynamic(1)]))
        });
        let floats = acc.is_float();
        let function = match src.weighted(&[10, 4, 2, 2, 2]) {
            1 => Function::Relu,
            2 if floats => Function::Leaky,
            3 => Function::Clamp,
            4 if floats && exact => Function::Exp2,
            _ => Function::None,
        };
        match function {
            Function::None => {}
            Function::Relu | Function::Leaky | Function::Clamp => classes.add(Axis::Epilogue, "exact activation"),
            Function::Exp2 => classes.add(Axis::Epilogue, "exp2"),
        }
        let residual = src.chance(50).then(|| {
            classes.add(Axis::Epilogue, "residual");
            let init = Init::Small(src.seed());
            let elem = if src.chance(128) { Scalar::F32 } else { Scalar::BF16 };
            params.matrix(b, src, Storage { elem, ..storage }, extents, init)
        });
        let behind = if shifts && src.chance(40) { super::matrix::unit(out) } else { 0 };
        let wider = [extents[0], extents[1] + behind];
        let tolerance = match function {
            Function::Exp2 => Some(Tolerance { rel: EXP2 + rounding(out), abs: 2f64.powi(-120) }),
            _ if !exact => Some(Tolerance { rel: rounding(out), abs: off }),
            _ => None,
        };
        let mut declared = |b: &mut KernelBuilder, src: &mut Source, storage: Storage, extents: [i64; 2], exp2: bool| {
            let init = Init::Rand(src.seed());
            let m = params.matrix(b, src, storage, extents, init);
            if let Some(t) = tolerance.filter(|_| exp2 || !exact) {
                params.near(t);
            }
            m
        };
        let result = declared(b, src, Storage { elem: out, ..storage }, wider, true);
        let other = src.chance(40).then(|| declared(b, src, Storage { elem: out, ..storage }, wider, true));
        if other.is_some() {
            classes.add(Axis::Stores, "in the arms of a choice");
        }
        let second = match src.weighted(&[16, 3, 2, 2]) {
            1 => Some(Second::Wide(declared(b, src, Storage { elem: acc, ..storage }, extents, false))),
            2 => Some(Second::Transposed(declared(b, src, Storage { elem: out, transposed: true, ..storage }, extents, true))),
            3 if exact && storage.batch == Batch::None => {
                let (shape, init) = (vec![extents[0], 16], Init::Rand(src.seed()));
                let strides = vec![16, 1];
                params.0.push(Param::Tensor(Tensor { elem: acc, shape, strides, dense: true, offset: 0, init, tolerance: None }));
                Some(Second::Rows(b.param(ViewType::dense(acc, &[Extent::Dynamic(1), Extent::Fixed(16)]))))
            }
            _ => None,
        };
        match second {
            Some(Second::Wide(_)) => classes.add(Axis::Stores, "sums besides"),
            Some(Second::Transposed(_)) => classes.add(Axis::Stores, "transposed besides"),
            Some(Second::Rows(_)) => classes.add(Axis::Stores, "sums of rows besides"),
            None => {}
        }
        Epilogue { acc, out, tile, bias, function, residual, result, other, second, behind }
    }

    /// Stores what becomes of the sums of a program. `ids` are its positions along columns and rows.
    pub fn store(&self, b: &mut KernelBuilder, h: Value, at: [Value; 2], ids: [Value; 2], sum: Value) {
        let (tile, acc) = (self.tile, self.acc);
        match self.second {
            Some(Second::Wide(m)) => m.store(b, h, at, tile, sum),
            // A column for each column of programs.
            Some(Second::Rows(view)) => {
                let total = b.reduce_keep(ReduceOp::Add, sum, 1);
                b.store(view, &[at[0], ids[0]], total);
            }
            Some(Second::Transposed(_)) | None => {}
        }
        let mut v = sum;
        if let Some(bias) = self.bias {
            let row = b.load(bias, &[at[1]], &[tile[1]]);
            let row = if b.ty(row).elem() == acc { row } else { b.cast(row, acc) };
            let row = b.expand_dims(row, 0);
            let all = b.broadcast(row, &tile);
            v = b.add(v, all);
        }
        if let Some(m) = self.residual {
            let t = m.load(b, h, at, tile);
            let t = if b.ty(t).elem() == acc { t } else { b.cast(t, acc) };
            v = b.add(v, t);
        }
        v = match self.function {
            Function::None => v,
            Function::Relu => b.maximum(v, 0i64),
            Function::Leaky => {
                let zero = b.full(&tile, 0, acc);
                let (up, less) = (b.cmp(CmpOp::Gt, v, zero), b.mul(v, 0.25));
                b.select(up, v, less)
            }
            Function::Clamp => {
                let v = b.maximum(v, -6i64);
                b.minimum(v, 40i64)
            }
            Function::Exp2 => {
                let v = b.mul(v, 0.0625);
                let v = b.minimum(v, 9i64);
                b.exp2(v)
            }
        };
        let v = if self.out == acc { v } else { b.cast(v, self.out) };
        if let Some(Second::Transposed(m)) = self.second {
            m.store(b, h, at, tile, v);
        }
        let column = if self.behind == 0 { at[1] } else { b.add(at[1], self.behind) };
        let place = [at[0], column];
        let Some(other) = self.other else { return self.result.store(b, h, place, tile, v) };
        let here = b.cmp(CmpOp::Eq, ids[1], 0);
        let store = |m: Matrix| {
            move |b: &mut KernelBuilder| {
                m.store(b, h, place, tile, v);
                vec![]
            }
        };
        b.if_else(here, store(self.result), store(other));
    }
}
