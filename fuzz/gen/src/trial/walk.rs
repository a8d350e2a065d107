//! How a loop goes through the depth of its products.
//!
//! ```text
//! columns    for deep in 0..extent step k              listed     block = table[i]
//! counted    for i in 0..n: deep = i * k               blocks     for i in offsets[p]..offsets[p + 1]: block = table[i]
//! bounded    for i in from[p]..to[p]                   ahead      carries the block, and looks the next one up
//! queue      block = what an atomic counter gives, of the only program
//! carried    carries deep, and adds k                  chain      carries the block, and looks up which one follows it
//! skipped    if mask[i] { … }                          condition  while i < n { …; i = i + 1 }
//! ```
//! Tables hold what is there, and sometimes what is not: loads outside of a view give zeros.

use super::classes::{Axis, Classes};
use super::matrix::Params;
use crate::case::{Param, Tensor};
use crate::data::Init;
use crate::source::Source;
use tilelift_interp::ScalarArg;
use tilelift_ir::builder::Update;
use tilelift_ir::{AtomicOp, CmpOp, Extent, KernelBuilder, Scalar, Value, ViewType};

/// How iterations find what they multiply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Columns,
    Counted,
    Listed,
    Blocks,
    Bounded,
    Carried,
    Ahead,
    Chain,
    Queue,
    Skipped,
    Condition,
}

const FORMS: [(Form, &str); 11] = [
    (Form::Columns, "columns"),
    (Form::Counted, "counted"),
    (Form::Listed, "looked up"),
    (Form::Blocks, "blocks of a list"),
    (Form::Bounded, "bounds from memory"),
    (Form::Carried, "carried column"),
    (Form::Ahead, "looked up ahead"),
    (Form::Chain, "chain"),
    (Form::Queue, "queue"),
    (Form::Skipped, "some skipped"),
    (Form::Condition, "on a condition"),
];

/// Declares a vector of numbers.
pub(super) fn table(b: &mut KernelBuilder, params: &mut Params, count: u32, init: Init) -> Value {
    let shape = vec![i64::from(count.max(1))];
    let tensor = Tensor { elem: Scalar::I32, shape, strides: vec![1], dense: true, offset: 0, init, tolerance: None };
    params.0.push(Param::Tensor(tensor));
    b.param(ViewType::dense(Scalar::I32, &[Extent::Dynamic(1)]))
}

/// Declares a number.
pub(super) fn number(b: &mut KernelBuilder, params: &mut Params, n: i64) -> Value {
    params.0.push(Param::Scalar(ScalarArg::int(Scalar::I32, n)));
    b.param(Scalar::I32)
}

/// A loop's way.
pub(super) struct Walk {
    form: Form,
    k: i64,
    /// Iterations: a number of the kernel, or an argument.
    steps: Option<Value>,
    fixed: i64,
    tables: Vec<Value>,
    /// What is carried stands in front of the sums.
    front: bool,
}

/// Where an iteration stands.
pub(super) struct Place {
    iv: Value,
    by_columns: bool,
    block: Option<Value>,
    column: Option<Value>,
    k: i64,
}

impl Place {
    /// Its number.
    pub fn index(&self, b: &mut KernelBuilder) -> Value {
        if self.by_columns { b.div(self.iv, self.k) } else { self.iv }
    }

    /// The column of its number, whatever tables say.
    pub fn straight(&self, b: &mut KernelBuilder) -> Value {
        if self.by_columns { self.iv } else { b.mul(self.iv, self.k) }
    }

    /// Its column.
    pub fn column(&self, b: &mut KernelBuilder) -> Value {
        match (self.column, self.block) {
            (Some(c), _) => c,
            (None, Some(n)) => b.mul(n, self.k),
            (None, None) => self.straight(b),
        }
    }

    /// Its block of columns.
    pub fn block(&self, b: &mut KernelBuilder) -> Value {
        match (self.block, self.column) {
            (Some(n), _) => n,
            (None, Some(c)) => b.div(c, self.k),
            (None, None) => self.index(b),
        }
    }
}

impl Walk {
    /// Declares what a loop of so many iterations reads; `lists` is how many programs, or rounds, have their own.
    pub fn declare(
        b: &mut KernelBuilder,
        src: &mut Source,
        params: &mut Params,
        classes: &mut Classes,
        [steps, k, lists, programs]: [u32; 4],
    ) -> Walk {
        let (form, word) = FORMS[src.weighted(&[2, 2, 4, 4, 2, 3, 2, 2, u32::from(programs == 1), 3, 2])];
        classes.add(Axis::Walk, word);
        let last = i64::from(steps) - 1;
        // Some of what is named is not there.
        let (lo, hi) = if src.chance(70) { (-1, last + 2) } else { (0, last) };
        let some = Init::Between { seed: src.seed(), lo, hi: hi.max(lo) };
        let tables = match form {
            Form::Columns | Form::Counted | Form::Carried | Form::Condition => vec![],
            Form::Skipped => vec![table(b, params, lists * steps, Init::Between { seed: src.seed(), lo: 0, hi: 3 })],
            Form::Listed | Form::Ahead | Form::Chain => vec![table(b, params, steps + src.below(2), some)],
            Form::Queue => vec![table(b, params, 1, Init::Fill(0))],
            Form::Blocks => {
                let most = u64::from(steps.max(1));
                let offsets = table(b, params, lists + 1, Init::Ascending { seed: src.seed(), most });
                vec![offsets, table(b, params, lists * steps, some)]
            }
            Form::Bounded => {
                let from = table(b, params, lists, Init::Between { seed: src.seed(), lo: 0, hi: 2 });
                let to = table(b, params, lists, Init::Between { seed: src.seed(), lo: 0, hi: i64::from(steps) + 1 });
                vec![from, to]
            }
        };
        let given = src.chance(128).then(|| number(b, params, if form == Form::Columns { i64::from(steps * k) } else { i64::from(steps) }));
        let fixed = if form == Form::Columns { i64::from(steps * k) } else { i64::from(steps) };
        Walk { form, k: i64::from(k), steps: given, fixed, tables, front: src.chance(128) }
    }

    /// The table that says which block comes when.
    pub fn looked(&self) -> Option<Value> {
        match self.form {
            Form::Listed | Form::Ahead | Form::Chain => self.tables.first().copied(),
            Form::Blocks => self.tables.get(1).copied(),
            Form::Columns | Form::Counted | Form::Bounded | Form::Carried | Form::Queue | Form::Skipped | Form::Condition => None,
        }
    }

    /// The loop. `part` is the program, or the round, whose list it is; a table is read from `base` on.
    pub fn run(
        &self,
        b: &mut KernelBuilder,
        part: Value,
        base: Option<Value>,
        init: &[Value],
        body: impl Fn(&mut KernelBuilder, Place, &[Value]) -> Vec<Value>,
    ) -> Vec<Value> {
        let zero = b.constant(0, Scalar::I32);
        let k = self.k;
        let end = match self.steps {
            Some(n) => n,
            None => b.constant(self.fixed, Scalar::I32),
        };
        let at = |b: &mut KernelBuilder, i: Value| base.map_or(i, |n| b.add(n, i));
        let plain = |iv| Place { iv, by_columns: false, block: None, column: None, k };
        let carrying = |b: &mut KernelBuilder, first: Value, next: &dyn Fn(&mut KernelBuilder, Value, Value) -> Value, blocks: bool| {
            let mut held = init.to_vec();
            let here = if self.front { 0 } else { held.len() };
            held.insert(here, first);
            let mut ends = b.for_loop(zero, end, 1, &held, |b, iv, carried| {
                let mut sums = carried.to_vec();
                let own = sums.remove(here);
                let place = Place { block: blocks.then_some(own), column: (!blocks).then_some(own), ..plain(iv) };
                let mut out = body(b, place, &sums);
                let following = next(b, iv, own);
                out.insert(here, following);
                out
            });
            ends.remove(here);
            ends
        };
        match self.form {
            Form::Columns => b.for_loop(zero, end, k, init, |b, iv, sums| body(b, Place { by_columns: true, ..plain(iv) }, sums)),
            Form::Counted => b.for_loop(zero, end, 1, init, |b, iv, sums| body(b, plain(iv), sums)),
            Form::Listed => b.for_loop(zero, end, 1, init, |b, iv, sums| {
                let entry = at(b, iv);
                let block = b.load_scalar(self.tables[0], &[entry]);
                body(b, Place { block: Some(block), ..plain(iv) }, sums)
            }),
            Form::Skipped => b.for_loop(zero, end, 1, init, |b, iv, sums| {
                let entry = at(b, iv);
                let word = b.load_scalar(self.tables[0], &[entry]);
                let bit = b.and(word, 1);
                let taken = b.cmp(CmpOp::Ne, bit, 0);
                b.if_else(taken, |b| body(b, plain(iv), sums), |_| sums.to_vec())
            }),
            Form::Condition => {
                let held: Vec<Value> = [zero].into_iter().chain(init.iter().copied()).collect();
                let ends = b.while_loop(
                    &held,
                    |b, carried| b.cmp(CmpOp::Lt, carried[0], end),
                    |b, carried| {
                        let sums = body(b, plain(carried[0]), &carried[1..]);
                        [b.add(carried[0], 1)].into_iter().chain(sums).collect()
                    },
                );
                ends[1..].to_vec()
            }
            Form::Queue => b.for_loop(zero, end, 1, init, |b, iv, sums| {
                let first = b.splat(zero, &[1]);
                let old = b.atomic(AtomicOp::Add, self.tables[0], &[first], 1, Update::default());
                let block = b.reshape(old, &[]);
                body(b, Place { block: Some(block), ..plain(iv) }, sums)
            }),
            Form::Blocks => {
                let lo = b.load_scalar(self.tables[0], &[part]);
                let next = b.add(part, 1);
                let hi = b.load_scalar(self.tables[0], &[next]);
                b.for_loop(lo, hi, 1, init, |b, iv, sums| {
                    let block = b.load_scalar(self.tables[1], &[iv]);
                    body(b, Place { block: Some(block), ..plain(iv) }, sums)
                })
            }
            Form::Bounded => {
                let lo = b.load_scalar(self.tables[0], &[part]);
                let hi = b.load_scalar(self.tables[1], &[part]);
                b.for_loop(lo, hi, 1, init, |b, iv, sums| body(b, plain(iv), sums))
            }
            Form::Carried => {
                let first = if base.is_some() { b.mul(part, k) } else { zero };
                carrying(b, first, &|b, _, own| b.add(own, k), false)
            }
            Form::Ahead => {
                let entry = at(b, zero);
                let first = b.load_scalar(self.tables[0], &[entry]);
                let next = |b: &mut KernelBuilder, iv: Value, _: Value| {
                    let i = at(b, iv);
                    let i = b.add(i, 1);
                    b.load_scalar(self.tables[0], &[i])
                };
                carrying(b, first, &next, true)
            }
            Form::Chain => carrying(b, part, &|b, _, own| b.load_scalar(self.tables[0], &[own]), true),
        }
    }
}
