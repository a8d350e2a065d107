//! Random kernels with explicit control: tiles that travel through tasks.
//!
//! ```text
//! source ──hop──► change ──hop──► sinks (replicas)         a hop: a channel, or slots with two barriers each, filled by copies or stores
//! rounds 0, 1, 2, … of each program: a tile of its own rows
//! ```
//! The protocol of every kernel is right, so that whatever fails is a bug of who runs or compiles it.

use crate::case::{Case, Param, Tensor};
use crate::data::Init;
use crate::source::Source;
use tilelift_interp::ScalarArg;
use tilelift_ir::{BuildErrors, Extent, KernelBuilder, Scalar, Task, TileType, Value, ViewType};

/// How tiles get from one task to the next.
enum Hop {
    Channel(Value),
    Slots { buffer: Value, full: Value, empty: Value, depth: u32 },
}

impl Hop {
    fn new(b: &mut KernelBuilder, src: &mut Source, tile: &TileType, takers: u32) -> Hop {
        let depth = 1 + src.below(4);
        if src.chance(128) {
            return Hop::Channel(b.channel_alloc(depth, std::slice::from_ref(tile), takers));
        }
        let shape: Vec<u32> = std::iter::once(depth).chain(tile.shape.iter().copied()).collect();
        let buffer = b.local_alloc(&shape, tile.elem);
        Hop::Slots { buffer, full: b.barrier_alloc(1, depth), empty: b.barrier_alloc(takers, depth), depth }
    }

    fn slot(b: &mut KernelBuilder, step: Value, depth: u32) -> (Value, Value) {
        (b.rem(step, depth), b.div(step, depth))
    }

    fn put(&self, b: &mut KernelBuilder, step: Value, tile: Value) {
        match *self {
            Hop::Channel(c) => b.channel_put(c, step, &[tile]),
            Hop::Slots { buffer, full, empty, depth } => {
                let (to, ready) = self.free(b, step, [buffer, full, empty], depth);
                b.local_store(to, tile);
                b.barrier_arrive(ready);
            }
        }
    }

    /// As `put` of a load, by a copy where the hop has slots: of a unit, or of the task's lanes.
    fn bring(&self, b: &mut KernelBuilder, src: &mut Source, step: Value, view: Value, at: &[Value], tile: &TileType) {
        match *self {
            Hop::Channel(c) => {
                let t = b.load(view, at, &tile.shape);
                b.channel_put(c, step, &[t]);
            }
            Hop::Slots { buffer, full, empty, depth } => {
                let (to, ready) = self.free(b, step, [buffer, full, empty], depth);
                if src.chance(64) {
                    b.copy_async(view, at, to);
                    if src.chance(128) {
                        b.copy_async_arrive(ready);
                        return;
                    }
                    b.copy_async_commit();
                    b.copy_async_wait(0);
                    b.task_barrier();
                    b.barrier_arrive(ready);
                    return;
                }
                b.barrier_expect(ready, tile.elements() as u32 * tile.elem.bytes());
                b.async_load(view, at, to, ready);
            }
        }
    }

    /// The slot of a step, when it is free, and the barrier that says when it is full.
    fn free(&self, b: &mut KernelBuilder, step: Value, [buffer, full, empty]: [Value; 3], depth: u32) -> (Value, Value) {
        let (slot, around) = Hop::slot(b, step, depth);
        let (gate, parity) = (b.barrier_index(empty, slot), b.add(around, 1));
        b.barrier_wait(gate, parity);
        (b.local_index(buffer, slot), b.barrier_index(full, slot))
    }

    fn take(&self, b: &mut KernelBuilder, step: Value) -> Value {
        match *self {
            Hop::Channel(c) => {
                let tile = b.channel_get(c, step)[0];
                b.channel_consumed(c, step);
                tile
            }
            Hop::Slots { buffer, full, empty, depth } => {
                let (slot, around) = Hop::slot(b, step, depth);
                let ready = b.barrier_index(full, slot);
                b.barrier_wait(ready, around);
                let from = b.local_index(buffer, slot);
                let tile = b.local_load(from);
                let gate = b.barrier_index(empty, slot);
                b.barrier_arrive(gate);
                tile
            }
        }
    }
}

/// An elementwise change that every device computes to the same bits.
fn change(b: &mut KernelBuilder, src: &mut Source, tile: Value, step: Value, elem: Scalar) -> Value {
    match src.below(4) {
        0 => b.neg(tile),
        1 => b.maximum(tile, if elem.is_float() { 0.5.into() } else { tilelift_ir::Operand::Int(1) }),
        2 => {
            let s = b.cast(step, elem);
            b.add(tile, s)
        }
        _ => b.add(tile, tile),
    }
}

/// Registers that some tasks ask for. All that is asked for can be had, if the others give theirs up.
fn wishes(src: &mut Source, tasks: &mut [Task]) {
    let last = tasks.len() - 1;
    match src.below(4) {
        0 => tasks.iter_mut().enumerate().for_each(|(n, t)| t.registers = Some(if n == 0 { 40 } else { 152 })),
        1 => tasks[last].registers = Some(200),
        _ => {}
    }
}

/// Makes a case with explicit control.
///
/// # Errors
/// The builder's complaints: a bug of the generator or of the builder.
pub fn generate_explicit(src: &mut Source) -> Result<Case, BuildErrors> {
    let elem = *src.pick(&[Scalar::F32, Scalar::F16, Scalar::I32, Scalar::BF16]).unwrap_or(&Scalar::F32);
    let rows = *src.pick(&[16u32, 8, 64, 32, 4]).unwrap_or(&16);
    let cols = *src.pick(&[32u32, 64, 16, 128]).unwrap_or(&32);
    let tile = TileType::new(&[rows, cols], elem);
    let (programs, rounds, sinks) = (1 + src.below(2), src.below(7), 1 + src.below(2));
    let (brought, middle) = (src.chance(128), src.chance(128));
    let warps = |src: &mut Source| *src.pick(&[4u32, 1, 2]).unwrap_or(&4);
    // Rows of zeros below, and columns beside.
    let width = cols as i64 - *src.pick(&[0i64, 8]).unwrap_or(&0);
    let height = i64::from(rows) * i64::from(rounds.max(1)) * i64::from(programs) - i64::from(src.below(3));
    let mut b = KernelBuilder::new("explicit");
    let dims = [Extent::Dynamic(1), Extent::Dynamic(8)];
    let (x, y) = (b.param(ViewType::dense(elem, &dims)), b.param(ViewType::dense(elem, &dims)));
    let n = b.param(Scalar::I32);
    let first = Hop::new(&mut b, src, &tile, if middle { 1 } else { sinks });
    let second = middle.then(|| Hop::new(&mut b, src, &tile, sinks));
    let pid = b.program_id(0);
    let own = b.mul(pid, n);
    let zero = b.constant(0, Scalar::I32);
    // Copies that the kernel itself writes begin at multiples of 16 bytes; what a channel brings may come another way.
    let columns: &[i64] = if matches!(first, Hop::Channel(_)) { &[0, 8, 1, 6, -8] } else { &[0, 8, 16, -8] };
    let column = *src.pick(columns).unwrap_or(&0);
    let column = b.constant(column, Scalar::I32);
    let mut tasks = vec![Task::new("source", warps(src))];
    if middle {
        tasks.push(Task::new("change", warps(src)));
    }
    tasks.push(Task::new("sinks", warps(src)).replicas(sinks));
    wishes(src, &mut tasks);
    b.tasks(&tasks, |b, task, replica| {
        if task + 1 == tasks.len() {
            let hop = second.as_ref().unwrap_or(&first);
            let none = b.full(&tile.shape, 0, elem);
            let sum = b.for_loop(0, n, 1, &[none], |b, step, sum| {
                let t = hop.take(b, step);
                let t = change(b, src, t, step, elem);
                vec![b.add(sum[0], t)]
            })[0];
            let block = b.mul(pid, sinks);
            let block = b.add(block, replica);
            let row = b.mul(block, rows);
            b.store(y, &[row, zero], sum);
            return;
        }
        b.for_loop(0, n, 1, &[], |b, step, _| {
            if task > 0 {
                let t = first.take(b, step);
                let t = change(b, src, t, step, elem);
                if let Some(next) = &second {
                    next.put(b, step, t);
                }
                return vec![];
            }
            let block = b.add(own, step);
            let row = b.mul(block, rows);
            if brought {
                first.bring(b, src, step, x, &[row, column], &tile);
            } else {
                let t = b.load(x, &[row, column], &tile.shape);
                let t = change(b, src, t, step, elem);
                first.put(b, step, t);
            }
            vec![]
        });
    });
    let tensor = |shape: [i64; 2], init: Init| {
        let strides = vec![shape[1], 1];
        Param::Tensor(Tensor { elem, shape: shape.to_vec(), strides, dense: true, offset: 0, init, tolerance: None })
    };
    let out = i64::from(rows) * i64::from(programs * sinks);
    let params = vec![
        tensor([height, width], Init::Rand(src.seed())),
        tensor([out, i64::from(cols)], Init::Rand(src.seed())),
        Param::Scalar(ScalarArg::int(Scalar::I32, i64::from(rounds))),
    ];
    Ok(Case { kernel: b.finish()?, grid: [programs, 1, 1], params })
}
