//! Products whose loops stand in loops and choices, one behind the other, and go where memory says.
//!
//! ```text
//! nest    plain | if guard | for round: … store | for round carry sum: … | if guard: for round: … store
//! …       sum = walk of steps (and another walk behind it)          store out[row, column], sum
//! ```

use super::classes::{Axis, Classes};
use super::matrix::{Matrix, Params, Storage};
use super::options;
use super::product::{KINDS, Kind};
use super::step::{Between, Origin, Size, Step};
use super::subject::Trial;
use super::walk::{Walk, number, table};
use crate::case::Case;
use crate::data::Init;
use crate::source::Source;
use tilelift_ir::{BuildErrors, CmpOp, KernelBuilder, Scalar, Value};
use tilelift_isel::{LowerOptions, ScheduleKind};

/// Products of numbers of all programs together, at most.
const MOST_WORK: u32 = 3_000_000;

/// What a guard looks at.
#[derive(Clone, Copy)]
enum Guard {
    Number(Value),
    Loaded(Value),
}

/// What is around the walks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rounds {
    None,
    /// Each round has columns of its own.
    Stored,
    /// The sum goes from one to the next.
    Carried,
    /// The same, in a loop that looks whether there is more to do.
    While,
}

/// A kernel as it is built.
struct Nest {
    kind: Kind,
    size: Size,
    walks: Vec<(Walk, Step)>,
    /// The second walk has a sum of its own.
    apart: bool,
    starts: Option<Value>,
    rounds: Rounds,
    count: Value,
    /// Rounds read tables from other places on.
    moves: i64,
    guard: Option<Guard>,
    /// The guard's choice gives the sum, which is stored behind it.
    sum_out: bool,
    /// What the other arm stores.
    otherwise: bool,
    /// What each round, or program, does: both walks one behind the other, or one of them, as memory says.
    arms: Option<Value>,
    /// The first walk's sum is stored here, and the second walk multiplies it.
    between: Option<Matrix>,
    /// How many rounds a program has is in memory.
    listed: Option<Value>,
    out: Matrix,
    narrow: Scalar,
    /// Rows of programs are the second axis of the grid.
    turned: bool,
}

/// Makes one.
pub(super) fn loops(src: &mut Source) -> Result<Trial, BuildErrors> {
    let mut classes = Classes::default();
    let kind = KINDS[src.weighted(&[9, 6, 1, 1, 2, 2])].1;
    classes.add(Axis::Family, "loops");
    classes.add(Axis::Operands, kind.word());
    let rows = *src.pick(&[64u32, 128]).unwrap_or(&64);
    let columns = *src.pick(&[32u32, 64, 16, 128]).unwrap_or(&32);
    let k = (src.pick(&[32u32, 64, 128]).unwrap_or(&64) / kind.elem.bytes()).max(kind.k);
    let programs = 1 + src.below(3);
    let two = src.chance(90);
    let rounds = match src.weighted(&[10, 4, 3, 1]) {
        1 => Rounds::Stored,
        2 => Rounds::Carried,
        3 => Rounds::While,
        _ => Rounds::None,
    };
    let times = if rounds == Rounds::None { 1 } else { src.below(4) };
    let each = rows * columns * k * programs * times.max(1) * if two { 2 } else { 1 };
    let steps = if src.chance(12) { 0 } else { (1 + src.below(9)).min((MOST_WORK / each).max(1)) };
    classes.add(Axis::Iterations, steps);
    let between = Between::pick(src, &mut classes, kind);
    let fold = between == Between::Fold;
    // Programs side by side, or rounds.
    let across = if rounds == Rounds::None && !fold && src.chance(80) { 2 } else { 1 };
    let wide = if rounds == Rounds::Stored && !fold { times.max(1) } else { across };
    let cut = [0, 0, 8, 3, 1, 16][src.below(6) as usize];
    let size = Size {
        rows,
        columns,
        k,
        height: i64::from(rows * programs) - [0, 0, 1, 17, 40][src.below(5) as usize],
        width: (i64::from(columns * wide) - [0, 0, 8, 1, 2][src.below(5) as usize]).max(1),
        depth: (i64::from(k * steps) - cut).max(1),
        blocks: steps,
        // What fades often must have few bits.
        scores: if two || matches!(rounds, Rounds::Carried | Rounds::While) { [0, 1] } else { [-3, 2] },
    };
    let mut b = KernelBuilder::new("loops");
    let mut params = Params::default();
    let lists = programs.max(times + 1);
    let walk = |b: &mut KernelBuilder, src: &mut Source, params: &mut Params, classes: &mut Classes, same: Option<Step>| {
        let mut step = same.unwrap_or_else(|| Step::declare(b, src, params, classes, (kind, size, between)));
        let walk = Walk::declare(b, src, params, classes, [steps, k, lists, programs * across]);
        // A table that the loop itself writes.
        if let (Some(view), true) = (walk.looked(), programs * across == 1 && src.chance(50)) {
            classes.add(Axis::Body, "table written");
            step.feed(view);
        } else if programs * across == 1 && src.chance(90) && step.accumulate() {
            classes.add(Axis::Body, "adds what was stored");
        }
        if across > 1 {
            step.alone();
        }
        (walk, step)
    };
    if src.chance(60) {
        b.warps(*src.pick(&[4, 8]).unwrap_or(&4)).stages(1 + src.below(4));
    }
    let mut walks = vec![walk(&mut b, src, &mut params, &mut classes, None)];
    if two {
        // Of the same matrices, whose tiles all fit one ring; or of others.
        let same = src.chance(150).then_some(walks[0].1);
        walks.push(walk(&mut b, src, &mut params, &mut classes, same));
    }
    let arms = src.chance(50).then(|| {
        classes.add(Axis::Nest, if two { "one loop or the other" } else { "a loop or none" });
        table(&mut b, &mut params, lists, Init::Between { seed: src.seed(), lo: 0, hi: 1 })
    });
    let layers =
        two && across == 1 && arms.is_none() && !fold && kind.elem.is_float() && !kind.promoted() && !walks[1].1.images() && src.chance(60);
    let between = layers.then(|| {
        classes.add(Axis::Nest, "one loop multiplies what the other stored");
        let m = params.matrix(&mut b, src, Storage::plain(kind.elem), [size.height, i64::from(columns)], Init::Rand(1));
        walks[1].1.multiply(m);
        m
    });
    let far = if src.chance(60) { 9 } else { 0 };
    let starts = src.chance(90).then(|| {
        classes.add(Axis::Walk, "row looked up");
        table(&mut b, &mut params, lists, Init::Between { seed: src.seed(), lo: -far, hi: size.height / 2 + far })
    });
    let guard = src.chance(100).then(|| {
        if src.chance(128) {
            classes.add(Axis::Nest, "guarded by a number");
            Guard::Number(number(&mut b, &mut params, i64::from(src.below(programs + 1))))
        } else {
            classes.add(Axis::Nest, "guarded by memory");
            Guard::Loaded(table(&mut b, &mut params, programs, Init::Between { seed: src.seed(), lo: 0, hi: 2 }))
        }
    });
    classes.add(
        Axis::Nest,
        match (rounds, two) {
            (Rounds::None, false) => "one loop",
            (Rounds::None, true) => "two loops",
            (Rounds::Stored, false) => "rounds that store",
            (Rounds::Stored, true) => "rounds of two loops that store",
            (Rounds::Carried, false) => "rounds that carry",
            (Rounds::While, _) => "rounds of a while",
            (Rounds::Carried, true) => "rounds of two loops that carry",
        },
    );
    let count = if src.chance(128) { number(&mut b, &mut params, i64::from(times)) } else { b.constant(i64::from(times), Scalar::I32) };
    let listed = (rounds != Rounds::None && src.chance(60)).then(|| {
        classes.add(Axis::Nest, "rounds counted in memory");
        table(&mut b, &mut params, programs, Init::Between { seed: src.seed(), lo: 0, hi: i64::from(times) })
    });
    let narrow =
        if kind.acc == Scalar::F32 { *src.pick(&[Scalar::BF16, Scalar::F32, Scalar::F16]).unwrap_or(&Scalar::F32) } else { kind.acc };
    let init = Init::Rand(src.seed());
    let out = params.matrix(&mut b, src, Storage::plain(narrow), [size.height, size.width], init);
    let (apart, sum_out, otherwise) = (src.chance(80), src.chance(90), src.chance(60));
    let moves = if src.chance(100) { 1 } else { 0 };
    let turned = across > 1 && src.chance(128);
    let nest = Nest {
        turned,
        kind,
        size,
        walks,
        apart,
        starts,
        rounds,
        count,
        moves,
        guard,
        sum_out,
        otherwise,
        arms,
        between,
        listed,
        out,
        narrow,
    };
    nest.build(&mut b);
    let schedule = [None, None, None, Some(ScheduleKind::Specialised), Some(ScheduleKind::Pipelined)][src.below(5) as usize];
    let any = options::random(src, vec![]);
    let plain = src.chance(128);
    let lower = LowerOptions { schedule, ..if plain { LowerOptions::default() } else { any } };
    let case = Case { kernel: b.finish()?, grid: if turned { [across, programs, 1] } else { [programs, across, 1] }, params: params.0 };
    Ok(Trial { any: true, ..Trial::new(case, options::compile(src, lower), classes) })
}

impl Nest {
    fn build(&self, b: &mut KernelBuilder) {
        let axes = if self.turned { [1, 0] } else { [0, 1] };
        let [pid, beside] = axes.map(|axis| b.program_id(axis));
        let row = b.mul(pid, i64::from(self.size.rows));
        let column = b.mul(beside, i64::from(self.size.columns));
        let Some(guard) = self.guard else {
            if let Some(sum) = self.rounds(b, pid, [row, column]) {
                self.store(b, row, column, sum);
            }
            return;
        };
        let holds = match guard {
            Guard::Number(n) => b.cmp(CmpOp::Lt, pid, n),
            Guard::Loaded(view) => {
                let n = b.load_scalar(view, &[pid]);
                b.cmp(CmpOp::Ne, n, 0)
            }
        };
        if self.sum_out && self.rounds != Rounds::Stored {
            let none = self.none(b);
            let sums = b.if_else(holds, |b| self.rounds(b, pid, [row, column]).into_iter().collect(), |_| vec![none]);
            return self.store(b, row, column, sums[0]);
        }
        b.if_else(
            holds,
            |b| {
                if let Some(sum) = self.rounds(b, pid, [row, column]) {
                    self.store(b, row, column, sum);
                }
                vec![]
            },
            |b| {
                if self.otherwise {
                    let none = self.none(b);
                    self.store(b, row, column, none);
                }
                vec![]
            },
        );
    }

    fn none(&self, b: &mut KernelBuilder) -> Value {
        b.full(&[self.size.rows, self.size.columns], 0, self.kind.acc)
    }

    fn store(&self, b: &mut KernelBuilder, row: Value, column: Value, sum: Value) {
        let v = if self.narrow == self.kind.acc { sum } else { b.cast(sum, self.narrow) };
        self.out.store(b, row, [row, column], [self.size.rows, self.size.columns], v);
    }

    /// All rounds; the sum that is not stored yet.
    fn rounds(&self, b: &mut KernelBuilder, pid: Value, [row, own]: [Value; 2]) -> Option<Value> {
        let zero = b.constant(0, Scalar::I32);
        let none = self.none(b);
        let count = self.listed.map_or(self.count, |view| b.load_scalar(view, &[pid]));
        match self.rounds {
            Rounds::None => Some(self.sums(b, pid, None, [row, own], none)),
            Rounds::Stored => {
                b.for_loop(0, count, 1, &[], |b, j, _| {
                    let column = b.mul(j, i64::from(self.size.columns));
                    let base = (self.moves != 0).then_some(j);
                    let sum = self.sums(b, j, base, [row, column], none);
                    self.store(b, row, column, sum);
                    vec![]
                });
                None
            }
            Rounds::While => {
                let more = |b: &mut KernelBuilder, held: &[Value]| b.cmp(CmpOp::Lt, held[0], count);
                let ends = b.while_loop(&[zero, none], more, |b, held| {
                    let sum = self.sums(b, held[0], None, [row, zero], held[1]);
                    vec![b.add(held[0], 1), sum]
                });
                Some(ends[1])
            }
            Rounds::Carried => {
                let ends = b.for_loop(0, count, 1, &[none], |b, j, sum| {
                    let base = (self.moves != 0).then_some(j);
                    vec![self.sums(b, j, base, [row, zero], sum[0])]
                });
                Some(ends[0])
            }
        }
    }

    /// The walks, one behind the other.
    fn sums(&self, b: &mut KernelBuilder, part: Value, base: Option<Value>, [row, column]: [Value; 2], sum: Value) -> Value {
        let looked = self.starts.map(|view| b.load_scalar(view, &[part]));
        let one = |b: &mut KernelBuilder, n: usize, sum: Value| {
            let (walk, step) = &self.walks[n];
            let left = match (step.images(), looked) {
                _ if n > 0 && self.between.is_some() => row,
                (true, _) => part,
                (false, Some(r)) => r,
                (false, None) => row,
            };
            step.run(b, walk, base, Origin { row, left, column, part }, sum)
        };
        if let Some(arms) = self.arms {
            let number = b.load_scalar(arms, &[part]);
            let first = b.cmp(CmpOp::Ne, number, 0);
            let last = self.walks.len() - 1;
            return b.if_else(first, |b| vec![one(b, 0, sum)], |b| vec![if last > 0 { one(b, last, sum) } else { sum }])[0];
        }
        let mut sum = one(b, 0, sum);
        if self.walks.len() > 1 {
            if let Some(m) = self.between {
                // Few bits, so that sums of products of them are exact.
                let v = b.maximum(sum, -2i64);
                let v = b.minimum(v, 2i64);
                let v = if self.kind.elem == Scalar::F32 { v } else { b.cast(v, self.kind.elem) };
                let zero = b.constant(0, Scalar::I32);
                m.store(b, row, [row, zero], [self.size.rows, self.size.columns], v);
            }
            sum = if self.apart {
                let none = self.none(b);
                let own = one(b, 1, none);
                b.add(sum, own)
            } else {
                one(b, 1, sum)
            };
        }
        sum
    }
}
