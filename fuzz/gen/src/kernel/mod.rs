//! The generator: one function per family of steps, all driven by the [`Source`].
//!
//! Values live in scopes, one per open region. Beside its type a value carries a *bound*: if there is one, every element is an
//! integer of at most that magnitude. Dots of bounded values have exact sums in any order. What is added to a sum may be summed with it, so
//! behind products only bounded values are added to one another.

mod combine;
mod control;
mod dots;
mod indexed;
mod layouts;
mod ops;
mod pairs;
mod rows;
mod state;
mod views;

use crate::case::{Case, Param};
use crate::config::{Config, Mode};
use crate::source::Source;
use state::{Gen, Item};
use tilelift_interp::ScalarArg;
use tilelift_ir::{BuildErrors, Inst, Kernel, KernelBuilder, Op, Scalar, Shape, Type, Value};

/// Extents of tiles.
const EXTENTS: [u32; 22] = [16, 32, 1, 64, 8, 128, 4, 2, 3, 7, 12, 48, 33, 5, 80, 24, 96, 129, 176, 100, 256, 31];

/// Makes a case.
///
/// # Errors
/// The builder's complaints: a bug of the generator or of the builder.
pub fn generate(src: &mut Source, cfg: &Config) -> Result<Case, BuildErrors> {
    let mut b = KernelBuilder::new("fuzz");
    let warps = *src.pick(&[4, 1, 2, 8]).unwrap_or(&4);
    let stages = *src.pick(&[1, 2, 3, 4]).unwrap_or(&1);
    b.warps(warps).stages(stages);
    let grid = grid(src, cfg);
    let axes = [b.program_id(0), b.program_id(1)];
    let mut pid = axes[0];
    for (axis, &extent) in grid.iter().enumerate().skip(1) {
        if extent > 1 {
            // x + X * y, then + X * Y * z.
            let at = b.program_id(axis);
            let mut below = b.num_programs(0);
            if axis == 2 {
                let y = b.num_programs(1);
                below = b.mul(below, y);
            }
            let part = b.mul(at, below);
            pid = b.add(pid, part);
        }
    }
    let mut g = Gen {
        src,
        cfg,
        params: Vec::new(),
        views: Vec::new(),
        scopes: vec![Vec::new()],
        indices: vec![vec![pid]],
        used: Vec::new(),
        shapes: Vec::new(),
        grid,
        warps,
        lanes: 32,
        pid,
        axes,
        times: grid.iter().map(|&e| u64::from(e)).product(),
        work: 0,
        sums: Vec::new(),
        rand_only: false,
    };
    for _ in 0..3 {
        let s = g.new_shape();
        g.shapes.push(s);
    }
    if g.src.chance(64) {
        g.lanes = 64;
    }
    g.scalar_params(&mut b);
    g.load_new(&mut b);
    let steps = 1 + g.src.below(g.cfg.max_steps).max(g.src.below(g.cfg.max_steps));
    g.steps(&mut b, steps, 0);
    g.final_stores(&mut b);
    let (params, narrow) = (g.params, g.src.chance(128));
    let mut kernel = b.finish()?;
    if narrow {
        narrow_iotas(&mut kernel);
    }
    Ok(Case { kernel, grid, params })
}

/// Casts of an `iota` to another integer type become an `iota` of that type, which the builder does not make.
fn narrow_iotas(k: &mut Kernel) {
    let list: Vec<Inst> = k.insts.keys().collect();
    for i in list {
        let d = &k.insts[i];
        if d.op == Op::Cast
            && k.ty(d.results[0]).elem().is_int()
            && let Some(from) = k.def_inst(d.args[0])
            && k.insts[from].op == Op::Iota
        {
            let attrs = k.insts[from].attrs.clone();
            let d = &mut k.insts[i];
            d.op = Op::Iota;
            d.attrs = attrs;
            d.args.clear();
        }
    }
}

fn grid(src: &mut Source, cfg: &Config) -> [u32; 3] {
    let mut grid = [1; 3];
    for axis in 0..3 {
        let room = cfg.max_programs / grid.iter().product::<u32>();
        if room > 1 && (axis == 0 || src.chance(64)) {
            grid[axis] = 1 + src.below(room);
        }
    }
    grid
}

impl Gen<'_> {
    fn new_shape(&mut self) -> Shape {
        let rank = [2, 1, 3, 4][self.src.weighted(&[8, 6, 4, 1])];
        let mut room = self.cfg.max_elements;
        let mut shape = Shape::new();
        for _ in 0..rank {
            let fit: Vec<u32> = EXTENTS.iter().copied().filter(|&e| e <= room).collect();
            let e = *self.src.pick(&fit).unwrap_or(&1);
            room /= e;
            shape.push(e);
        }
        shape
    }

    fn elem(&mut self) -> Scalar {
        use Scalar::*;
        [F32, I32, F16, BF16, I8, F64, I16, I64, I1][self.src.weighted(&[12, 8, 8, 6, 4, 3, 3, 3, 3])]
    }

    fn scalar_params(&mut self, b: &mut KernelBuilder) {
        for _ in 0..self.src.below(3) {
            let elem = self.elem();
            let value = self.src.range(0, 40) - 5;
            let arg = if elem.is_float() { ScalarArg::float(elem, value as f64 / 2.0) } else { ScalarArg::int(elem, value) };
            self.params.push(Param::Scalar(arg));
            let v = b.param(Type::Scalar(elem));
            let bound = if elem.is_float() { None } else { Some(40.0) };
            self.put(b, v, bound);
            if elem == Scalar::I32 {
                self.indices[0].push(v);
            }
        }
    }

    /// Adds a value to the innermost scope.
    fn put(&mut self, b: &KernelBuilder, v: Value, bound: Option<f64>) -> Item {
        let ty = b.ty(v).clone();
        let bound = bound.filter(|&x| x <= limit(ty.elem()));
        let item = Item { v, ty, bound };
        self.work += item.elements() * self.times;
        if let Some(scope) = self.scopes.last_mut() {
            scope.push(item.clone());
        }
        item
    }

    fn spent(&self) -> bool {
        self.work > self.cfg.max_work
    }

    /// A visible value that fits, late ones preferred.
    fn any(&mut self, fits: impl Fn(&Item) -> bool) -> Option<Item> {
        let list: Vec<&Item> = self.scopes.iter().flatten().filter(|i| fits(i)).collect();
        let n = list.len() as u32;
        let back = self.src.below(n).min(self.src.below(n));
        let found = list.get(list.len().checked_sub(1 + back as usize)?).map(|&i| i.clone())?;
        self.used.push(found.v);
        Some(found)
    }

    fn steps(&mut self, b: &mut KernelBuilder, count: u32, depth: u32) {
        for _ in 0..count {
            if self.spent() {
                return;
            }
            self.step(b, depth);
        }
    }

    fn step(&mut self, b: &mut KernelBuilder, depth: u32) {
        let control = if depth < self.cfg.max_depth { self.cfg.control } else { 0 };
        let approx = if self.cfg.mode == Mode::Approx { 12 } else { 0 };
        let weights = [
            24,
            10,
            6,
            7,
            10,
            4,
            9,
            6,
            6,
            7,
            4,
            8,
            5,
            5,
            4,
            4,
            self.cfg.dots,
            self.cfg.dots,
            2 * control,
            control,
            control,
            4,
            5,
            3,
            4,
            4,
            3,
            3,
            3,
            2,
            4,
            1,
            1,
            6,
            2,
            4,
            4,
            self.cfg.dots / 2,
            approx,
            3,
            2,
            8,
        ];
        match self.src.weighted(&weights) {
            0 => self.binary(b),
            1 => self.unary(b),
            2 => self.compare(b),
            3 => self.select(b),
            4 => self.cast(b),
            5 => self.bitcast(b),
            6 => self.reduce(b),
            7 => self.reshape(b),
            8 => self.transpose(b),
            9 => self.broadcast(b),
            10 => self.leaf(b),
            11 => self.load_new(b),
            12 => self.load_again(b),
            13 => self.store_any(b),
            14 => self.fma(b),
            15 => self.shrink_values(b),
            16 => self.dot_once(b),
            17 => self.dot_loop(b, depth),
            18 => self.for_loop(b, depth),
            19 => self.while_loop(b, depth),
            20 => self.if_else(b, depth),
            21 => self.rearrange(b),
            22 => self.scan(b),
            23 => self.arg_reduce(b),
            24 => self.gather(b),
            25 => self.scatter(b),
            26 => self.update_own(b),
            27 => self.update_shared(b),
            28 => self.gather_tile(b),
            29 => self.histogram(b),
            30 => self.sort(b),
            31 => self.assume(b),
            32 => self.assertion(b),
            33 => self.combine(b),
            34 => self.random(b),
            35 => self.narrow(b),
            36 => self.pairs(b),
            37 => self.dot_batched(b),
            38 => self.approx_store(b),
            39 => self.widths(b),
            40 => self.require(b),
            _ => self.vectors(b),
        }
    }

    /// Stores what nothing reads, so that nothing is dead.
    fn final_stores(&mut self, b: &mut KernelBuilder) {
        let left: Vec<Item> = self.scopes.iter().flatten().filter(|i| !self.used.contains(&i.v)).cloned().collect();
        for item in left.into_iter().rev().take(5) {
            self.store_item(b, &item);
        }
    }
}

/// Integers up to this magnitude are exact in a type.
fn limit(elem: Scalar) -> f64 {
    match elem {
        Scalar::I1 => 1.0,
        Scalar::I4 => 7.0,
        Scalar::F4E2M1 => 4.0,
        Scalar::I8 => 127.0,
        Scalar::I16 => 32767.0,
        Scalar::I32 => 2147483647.0,
        Scalar::I64 | Scalar::F64 => 9007199254740992.0,
        Scalar::F16 => 2048.0,
        Scalar::BF16 => 256.0,
        Scalar::F8E4M3 | Scalar::F8E4M3Fnuz => 16.0,
        Scalar::F8E5M2 | Scalar::F8E5M2Fnuz => 8.0,
        // Only powers of two.
        Scalar::F8E8M0 => 0.0,
        Scalar::F32 => 16777216.0,
    }
}
