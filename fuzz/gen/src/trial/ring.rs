//! Products by tasks, as an author writes them: a producer that copies, consumers that multiply, a ring of the author's own or a channel.
//!
//! ```text
//! producer    for each tile, each step:  wait empty[slot]   expect full[slot]   copy A's parts and B
//! consumers   for each tile, each step:  wait full[slot]    A from its slot, or through registers and changed there    product
//!                                        give a slot back: its own, or the one of the product before
//!             store by lanes, or through a buffer by a copy
//! ```
//! The protocol of every kernel is right, so that whatever fails is a bug of who runs or compiles it.

use super::classes::{Axis, Classes};
use super::matrix::{Matrix, Params, Storage, unit};
use super::options;
use super::product::{Kind, iterations, ragged};
use super::subject::Trial;
use crate::case::Case;
use crate::data::Init;
use crate::source::Source;
use tilelift_ir::{BuildErrors, CmpOp, KernelBuilder, Scalar, Task, TileType, Value};
use tilelift_isel::LowerOptions;

/// Where a consumer takes operand A from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OperandA {
    Slot,
    /// Through registers, changed there by so much: 0 as it is, 1 its negative, 2 its double.
    Registers(u32),
    /// In another type.
    Narrow(Scalar),
}

/// What carries the tiles.
#[derive(Clone, Copy)]
enum Carrier {
    Ring { a: Value, w: Value, full: Value, empty: Value },
    Channel(Value),
}

/// The kernel that is being built.
struct Ring {
    kind: Kind,
    a: Matrix,
    w: Matrix,
    result: Matrix,
    /// Rows of a consumer, columns, depth of a slot.
    shape: [u32; 3],
    parts: u32,
    slots: u32,
    carrier: Carrier,
    operand: OperandA,
    /// The newest product stays in flight.
    late: bool,
    out: Scalar,
    staging: Option<Value>,
    b_transposed: bool,
    persistent: bool,
}

/// A tile of the result: its first row and column.
type Origin = [Value; 2];

/// Makes one.
pub(super) fn ring(src: &mut Source) -> Result<Trial, BuildErrors> {
    let mut classes = Classes::default();
    let kind = Kind::pick(src);
    let (elem, two) = (kind.elem, kind.elem.bytes() == 2);
    classes.add(Axis::Operands, kind.word());
    let parts = 1 + src.below(2);
    let rows = *src.pick(&[64u32, 64, 128]).unwrap_or(&64);
    let n = *src.pick(&[32u32, 64, 16, 48, 96, 128]).unwrap_or(&32);
    let widths: &[u32] = if kind.promoted() { &[64, 128, 32] } else { &[128, 64, 32] };
    let k = src.pick(widths).unwrap_or(&64) / elem.bytes();
    let slots = 1 + src.below(4);
    let channel = src.chance(80);
    let narrow = *src.pick(&[Scalar::I8, Scalar::F8E4M3, Scalar::F8E5M2]).unwrap_or(&Scalar::I8);
    let operand = match src.weighted(&[6, 4, 4]) {
        1 => OperandA::Registers(if elem.bytes() == 1 { 0 } else { src.below(3) }),
        2 if two && k.is_multiple_of(32) => OperandA::Narrow(narrow),
        _ => OperandA::Slot,
    };
    classes.add(
        Axis::OperandA,
        match operand {
            OperandA::Slot => "shared memory",
            OperandA::Registers(0) => "ring through registers",
            OperandA::Registers(_) => "computed",
            OperandA::Narrow(_) => "dequantised",
        },
    );
    let late = operand == OperandA::Slot && !kind.promoted() && !channel && slots > 1 && src.chance(140);
    let persistent = src.chance(128);
    let tiles = [1 + src.below(3), 1 + src.below(2)];
    let steps = iterations(src, &mut classes, rows * parts * n * k * tiles[0] * tiles[1]);
    let cut = [0, 0, unit(elem) / 2, unit(elem), 1][src.below(5) as usize];
    let depth = (i64::from(k * steps) - cut).max(1);
    let height = i64::from(rows * parts * tiles[1]) - [0, 0, 1, 17][src.below(4) as usize];
    let width = (i64::from(n * tiles[0]) - [0, 0, 8, 3][src.below(4) as usize]).max(1);
    ragged(&mut classes, [("M", height, rows * parts), ("N", width, n), ("K", depth, k)]);
    let b_transposed = !(two && src.chance(100));
    let a_transposed = two && operand == OperandA::Slot && channel && src.chance(80);
    classes.add(Axis::Storage, format_args!("{}{}", if a_transposed { 't' } else { 'n' }, if b_transposed { 't' } else { 'n' }));
    classes.add(Axis::Family, if channel { "channel of products" } else { "ring of products" });
    classes.add(Axis::Slots, slots);
    classes.add(Axis::Consumers, format_args!("cooperative, {parts}"));
    classes.add(Axis::Positions, if persistent { "persistent" } else { "one each" });
    classes.add(Axis::Sums, if kind.promoted() { "promoted" } else { "in the unit" });

    let mut b = KernelBuilder::new("ring");
    let mut params = Params::default();
    let from = if let OperandA::Narrow(from) = operand { from } else { elem };
    let init = Init::Small(src.seed());
    let a = params.matrix(&mut b, src, Storage { transposed: a_transposed, ..Storage::plain(from) }, [height, depth], init);
    let init = Init::Small(src.seed());
    let w = params.matrix(&mut b, src, Storage { transposed: b_transposed, ..Storage::plain(elem) }, [depth, width], init);
    let narrow = kind.acc == Scalar::F32 && src.chance(150);
    let out = if narrow { *src.pick(&[Scalar::BF16, Scalar::F16]).unwrap_or(&Scalar::BF16) } else { kind.acc };
    classes.add(Axis::Results, out);
    // Copies write whole units of 16 bytes: columns are whole units then, and said to be.
    let bulk = width % unit(out) == 0 && (n * out.bytes()).is_multiple_of(32) && !channel && src.chance(150);
    let init = Init::Rand(src.seed());
    let result = if bulk {
        classes.add(Axis::Stores, "bulk");
        params.aligned(&mut b, out, [height, width], init)
    } else {
        params.matrix(&mut b, src, Storage::plain(out), [height, width], init)
    };
    let bytes = (rows * parts * k * from.bytes(), n * k * elem.bytes());
    let carrier = if channel {
        let stored = if a_transposed { [k, rows * parts] } else { [rows * parts, k] };
        let tiles = [TileType::new(&stored, from), TileType::new(&if b_transposed { [n, k] } else { [k, n] }, elem)];
        Carrier::Channel(b.channel_alloc(slots, &tiles, 1))
    } else {
        let a = b.local_alloc(&[slots, parts, rows, k], from);
        let w = b.local_alloc(&if b_transposed { [slots, n, k] } else { [slots, k, n] }, elem);
        Carrier::Ring { a, w, full: b.barrier_alloc(1, slots), empty: b.barrier_alloc(parts, slots) }
    };
    let staging = bulk.then(|| b.local_alloc(&[parts, rows, n], out));
    let shape = [rows, n, k];
    let r = Ring { kind, a, w, result, shape, parts, slots, carrier, operand, late, out, staging, b_transposed, persistent };

    let wide = if channel { parts * 4 } else { 4 };
    let registers = [None, Some([40, 152]), Some([24, 200])][src.below(3) as usize].filter(|_| !channel || parts == 1);
    let copying = if src.chance(60) && !channel { 4 } else { 1 };
    let mut tasks = [Task::new("producer", copying), Task::new("consumers", wide)];
    if !channel {
        tasks[1] = Task::new("consumers", wide).replicas(parts);
    }
    if let Some([p, c]) = registers {
        tasks[0].registers = Some(p);
        tasks[1].registers = Some(c);
    }
    let end = a.extent(&mut b, 1);
    let end = b.add(end, i64::from(k) - 1);
    let steps = b.div(end, k);
    let across = tiles[0];
    b.tasks(&tasks, |b, task, replica| {
        let zero = b.constant(0, Scalar::I32);
        r.tiles(b, across, tiles[1], zero, &mut |b, at, step| match task {
            0 => r.produce(b, at, steps, step, bytes.0 + bytes.1),
            _ => r.consume(b, at, steps, step, replica),
        });
    });
    let all = tiles[0] * tiles[1];
    let programs = if persistent { all.min(2) } else { all };
    let case = Case { kernel: b.finish()?, grid: [programs, 1, 1], params: params.0 };
    let early_launch = if src.chance(50) { Some(false) } else { None };
    Ok(Trial::new(case, options::compile(src, LowerOptions { early_launch, ..LowerOptions::default() }), classes))
}

impl Ring {
    /// The tiles of a program, one after the other; `body` gets the number of the ring's step, and gives the one behind.
    fn tiles(
        &self,
        b: &mut KernelBuilder,
        across: u32,
        down: u32,
        zero: Value,
        body: &mut dyn FnMut(&mut KernelBuilder, Origin, Value) -> Value,
    ) {
        let (first, programs) = (b.program_id(0), b.num_programs(0));
        let mut one = |b: &mut KernelBuilder, tile: Value, step: Value| {
            let (x, y) = (b.rem(tile, across), b.div(tile, across));
            let at = [b.mul(y, self.shape[0] * self.parts), b.mul(x, self.shape[1])];
            body(b, at, step)
        };
        if self.persistent {
            b.for_loop(first, i64::from(across * down), programs, &[zero], |b, tile, step| vec![one(b, tile, step[0])]);
        } else {
            one(b, first, zero);
        }
    }

    /// Slot of a step, and how often the ring went round before.
    fn slot(&self, b: &mut KernelBuilder, step: Value) -> (Value, Value) {
        (b.rem(step, self.slots), b.div(step, self.slots))
    }

    fn produce(&self, b: &mut KernelBuilder, at: Origin, steps: Value, begin: Value, bytes: u32) -> Value {
        let [rows, n, k] = self.shape;
        b.for_loop(0, steps, 1, &[begin], |b, i, step| {
            let deep = b.mul(i, k);
            let h = deep;
            match self.carrier {
                Carrier::Channel(c) => {
                    let x = self.a.load_stored(b, h, [at[0], deep], [rows * self.parts, k]);
                    let y = self.w.load_stored(b, h, [deep, at[1]], [k, n]);
                    b.channel_put(c, step[0], &[x, y]);
                }
                Carrier::Ring { a, w, full, empty } => {
                    let (slot, around) = self.slot(b, step[0]);
                    let (free, ready) = (b.barrier_index(empty, slot), b.barrier_index(full, slot));
                    let before = b.add(around, 1);
                    b.barrier_wait(free, before);
                    b.barrier_expect(ready, bytes);
                    let to = b.local_index(a, slot);
                    for part in 0..self.parts {
                        let to = b.local_index(to, part);
                        let row = b.add(at[0], part * rows);
                        b.async_load(self.a.view(), &[row, deep], to, ready);
                    }
                    let to = b.local_index(w, slot);
                    let place = if self.b_transposed { [at[1], deep] } else { [deep, at[1]] };
                    b.async_load(self.w.view(), &place, to, ready);
                }
            }
            vec![b.add(step[0], 1)]
        })[0]
    }

    /// Operand A of a tile in registers.
    fn changed(&self, b: &mut KernelBuilder, x: Value) -> Value {
        match self.operand {
            OperandA::Registers(1) => b.neg(x),
            OperandA::Registers(2) => b.add(x, x),
            OperandA::Narrow(_) => b.cast(x, self.kind.elem),
            OperandA::Slot | OperandA::Registers(_) => x,
        }
    }

    fn consume(&self, b: &mut KernelBuilder, at: Origin, steps: Value, begin: Value, replica: Value) -> Value {
        let [rows, n, _] = self.shape;
        let acc = self.kind.acc;
        let own = if matches!(self.carrier, Carrier::Channel(_)) { rows * self.parts } else { rows };
        let none = b.full(&[own, n], 0, acc);
        let some = b.cmp(CmpOp::Gt, steps, 0);
        let run = |b: &mut KernelBuilder| {
            let ends = b.for_loop(0, steps, 1, &[none, begin], |b, i, carried| self.step(b, i, carried[0], carried[1], replica, none));
            let mut sum = ends[0];
            if self.late {
                sum = b.async_dot_wait(sum, 0);
                self.give_back(b, ends[1]);
            }
            vec![sum, ends[1]]
        };
        let ends = if self.late { b.if_else(some, run, |_| vec![none, begin]) } else { run(b) };
        let sum = if self.out == acc { ends[0] } else { b.cast(ends[0], self.out) };
        let mine = b.mul(replica, rows);
        let row = if own == rows { b.add(at[0], mine) } else { at[0] };
        match self.staging {
            Some(staging) => {
                let stage = b.local_index(staging, replica);
                b.async_store_wait(0);
                b.local_store(stage, sum);
                b.fence_async();
                b.task_barrier();
                b.async_store(self.result.view(), &[row, at[1]], stage);
            }
            None => {
                let h = row;
                self.result.store(b, h, [row, at[1]], [own, n], sum);
            }
        }
        ends[1]
    }

    /// The slot of the step before one is free.
    fn give_back(&self, b: &mut KernelBuilder, step: Value) {
        if let Carrier::Ring { empty, .. } = self.carrier {
            let before = b.sub(step, 1);
            let (slot, _) = self.slot(b, before);
            let free = b.barrier_index(empty, slot);
            b.barrier_arrive(free);
        }
    }

    /// A step's product: the sum, and the next step's number.
    fn step(&self, b: &mut KernelBuilder, i: Value, sum: Value, step: Value, replica: Value, none: Value) -> Vec<Value> {
        let tf32 = self.kind.elem == Scalar::F32;
        let next = |b: &mut KernelBuilder, sum: Value| vec![sum, b.add(step, 1)];
        let (a, w, full, empty) = match self.carrier {
            Carrier::Channel(c) => {
                let tiles = b.channel_get(c, step);
                let x = self.a.seen(b, tiles[0]);
                let x = self.changed(b, x);
                let y = self.w.seen(b, tiles[1]);
                let sum = self.kind.dot(b, x, y, sum);
                b.channel_consumed(c, step);
                return next(b, sum);
            }
            Carrier::Ring { a, w, full, empty } => (a, w, full, empty),
        };
        let (slot, around) = self.slot(b, step);
        let ready = b.barrier_index(full, slot);
        b.barrier_wait(ready, around);
        let x = b.local_index(a, slot);
        let mut x = b.local_index(x, replica);
        let y = b.local_index(w, slot);
        let y = if self.b_transposed { b.local_transpose(y, &[1, 0]) } else { y };
        if self.operand != OperandA::Slot {
            x = b.local_load(x);
            b.fence_async();
            b.task_barrier();
            x = self.changed(b, x);
        }
        let precision = if tf32 { tilelift_ir::Precision::Tf32 } else { tilelift_ir::Precision::Exact };
        let promoted = self.kind.promoted();
        let product = b.async_dot_with(precision, x, y, if promoted { none } else { sum });
        let product = b.async_dot_wait(product, u32::from(self.late));
        if self.late {
            let later = b.cmp(CmpOp::Ne, i, 0);
            b.if_then(later, |b| self.give_back(b, step));
        } else {
            let free = b.barrier_index(empty, slot);
            b.barrier_arrive(free);
        }
        let sum = if promoted { b.add(sum, product) } else { product };
        next(b, sum)
    }
}
