//! Kernels of steps: each with tiles, a grid and loops of its own.

use super::expr::{At, Expr};
use super::steps::{Place, Plan, Step};
use crate::source::Source;
use tilelift::graph::{Count, Grid, NodeArg, Size, TensorId};
use tilelift_ir::{BuildErrors, Extent, Kernel, KernelBuilder, Scalar, Value, ViewType};

/// An extent of a graph.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Dim {
    /// Its value.
    pub n: u32,
    /// As the graph has it.
    pub size: Size,
    /// A power of two that is known to divide it.
    pub divisor: u32,
}

/// A kernel with its grid and arguments.
pub(super) struct Made {
    pub kernel: Kernel,
    pub grid: Grid,
    pub args: Vec<NodeArg>,
}

/// What makes a kernel of a step.
pub(super) struct Maker<'a> {
    pub src: &'a mut Source,
    pub plan: &'a Plan,
    pub dims: &'a [Dim],
    pub ids: &'a [TensorId],
    /// The parameters, with their tensors.
    views: Vec<(usize, Value)>,
    habits: Habits,
}

/// What many kernels of a graph have in common: tiles, programs and lines, so that some line up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Habits {
    tile: [u32; 2],
    form: Form,
    lines: u32,
}

impl Habits {
    pub fn any(src: &mut Source) -> Habits {
        let tile = *src.pick(&TILES).unwrap_or(&TILES[0]);
        let form = *src.pick(&FORMS).unwrap_or(&Form::Across);
        Habits { tile, form, lines: *src.pick(&[4, 1, 2, 8, 16]).unwrap_or(&4) }
    }
}

/// Tiles of steps that work element by element.
const TILES: [[u32; 2]; 8] = [[16, 16], [8, 32], [32, 32], [4, 64], [64, 16], [1, 64], [64, 64], [16, 128]];

/// How programs go over a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    /// Columns along x, rows along y.
    Across,
    /// Rows along x, columns along y.
    Down,
    /// One after the other.
    Flat,
    /// A program for some rows, with a loop over strips of columns.
    Strips,
}

const FORMS: [Form; 4] = [Form::Across, Form::Down, Form::Flat, Form::Strips];

impl<'a> Maker<'a> {
    /// `usual` are the habits of the graph, which most kernels keep.
    pub fn new(src: &'a mut Source, plan: &'a Plan, dims: &'a [Dim], ids: &'a [TensorId], usual: Habits) -> Maker<'a> {
        let habits = if src.chance(150) { usual } else { Habits::any(src) };
        Maker { src, plan, dims, ids, views: Vec::new(), habits }
    }

    /// Lines of a program.
    pub(super) fn usual_lines(&self) -> u32 {
        self.habits.lines
    }

    /// The kernel of a step.
    pub fn make(&mut self, step: &Step) -> Result<Made, BuildErrors> {
        let mut b = KernelBuilder::new(step.word());
        b.warps(*self.src.pick(&[4, 1, 2, 8]).unwrap_or(&4));
        let flat = self.is_flat(step);
        for t in step.tensors() {
            let view = b.param(self.view_type(t, flat));
            self.views.push((t, view));
        }
        let grid = match step {
            Step::Map { ins, outs } if flat => self.flat(&mut b, ins, outs),
            Step::Map { ins, outs } => {
                let tile = self.habits.tile;
                self.over(&mut b, outs, tile, |m, b, at| m.finish(b, at, &[], ins, outs))
            }
            Step::Fold { x, pre, along, outs } => self.fold(&mut b, *x, pre, *along, outs),
            Step::Norm { x, kind, gain, out } => self.norm(&mut b, *x, *kind, *gain, *out),
            Step::Product { ins, outs, .. } => self.product(&mut b, step, ins, outs),
        };
        let arg = |t: &(usize, Value)| if flat { NodeArg::Flat(self.ids[t.0]) } else { self.ids[t.0].into() };
        let args = self.views.iter().map(arg).collect();
        Ok(Made { kernel: b.finish()?, grid, args })
    }

    /// Whether tensors are seen as vectors.
    fn is_flat(&mut self, step: &Step) -> bool {
        let Step::Map { ins, outs } = step else { return false };
        let same = ins.iter().all(|i| i.1 == Place::Same) && !outs.iter().any(|o| o.1.placed());
        same && self.src.chance(64)
    }

    /// The type of a tensor's parameter: extents are said, or what divides them, or nothing.
    fn view_type(&mut self, t: usize, flat: bool) -> ViewType {
        let dims = self.plan.tensors[t].dims.clone();
        let (say, divide) = (self.src.chance(60), self.src.chance(128));
        let extent = |d: usize| {
            let Dim { n, size, divisor } = &self.dims[d];
            if say && size.fixed().is_some() { Extent::Fixed(*n) } else { Extent::Dynamic(if divide { *divisor } else { 1 }) }
        };
        let extents: Vec<Extent> = if flat { vec![Extent::Dynamic(1)] } else { dims.into_iter().map(extent).collect() };
        ViewType::dense(self.plan.tensors[t].elem, &extents)
    }

    pub(super) fn view(&self, t: usize) -> Value {
        self.views.iter().find(|v| v.0 == t).map_or(Value::from_u32(0), |v| v.1)
    }

    pub(super) fn extent(&self, t: usize, d: usize) -> &Dim {
        &self.dims[self.plan.tensors[t].dims[d]]
    }

    pub(super) fn tiles(&self, t: usize, d: usize, tile: u32) -> Count {
        Count::tiles(&self.extent(t, d).size, tile)
    }

    /// A body for each tile of what is written.
    fn over(
        &mut self,
        b: &mut KernelBuilder,
        outs: &[(usize, Expr)],
        tile: [u32; 2],
        mut body: impl FnMut(&mut Self, &mut KernelBuilder, At<'_>),
    ) -> Grid {
        let out = outs[0].0;
        let form = self.habits.form;
        let [down, across] = [0, 1].map(|d| self.tiles(out, d, tile[d]));
        let one = Count::from(1);
        let scaled = |b: &mut KernelBuilder, at: Value, by: u32| b.mul(at, by);
        match form {
            Form::Across | Form::Down => {
                let (x, y) = (b.program_id(0), b.program_id(1));
                let (row, col) = if form == Form::Across { (y, x) } else { (x, y) };
                let at = At { row: scaled(b, row, tile[0]), col: scaled(b, col, tile[1]), tile: &tile };
                body(self, b, at);
                Grid(if form == Form::Across { [across, down, one] } else { [down, across, one] })
            }
            Form::Flat => {
                let cols = b.dim(self.view(out), 1);
                let (id, wide) = (b.program_id(0), b.ceil_div(cols, tile[1]));
                let (row, col) = (b.div(id, wide), b.rem(id, wide));
                let at = At { row: scaled(b, row, tile[0]), col: scaled(b, col, tile[1]), tile: &tile };
                body(self, b, at);
                Grid::row(down.times(&across))
            }
            Form::Strips => {
                let id = b.program_id(0);
                let (row, cols) = (scaled(b, id, tile[0]), b.dim(self.view(out), 1));
                b.for_loop(0, cols, tile[1], &[], |b, col, _| {
                    body(self, b, At { row, col, tile: &tile });
                    vec![]
                });
                Grid::row(down)
            }
        }
    }

    /// A tile of `f32` of what a step reads.
    pub(super) fn load(&self, b: &mut KernelBuilder, (t, place): (usize, Place), at: At<'_>) -> Value {
        let view = self.view(t);
        let &[rows, cols] = at.tile else { return view };
        let x = match place {
            Place::Same => b.load(view, &[at.row, at.col], at.tile),
            Place::Row => b.load(view, &[at.col], &[cols]),
            Place::Col => b.load(view, &[at.row], &[rows]),
            Place::Turned => b.load(view, &[at.col, at.row], &[cols, rows]),
        };
        let x = b.cast(x, Scalar::F32);
        match place {
            Place::Same => x,
            Place::Turned => b.transpose(x, &[1, 0]),
            Place::Row | Place::Col => {
                let x = b.expand_dims(x, usize::from(place == Place::Col));
                b.broadcast(x, at.tile)
            }
        }
    }

    /// Loads, computes and stores the results of a tile; `first` is what is there already.
    fn finish(&self, b: &mut KernelBuilder, at: At<'_>, first: &[Value], ins: &[(usize, Place)], outs: &[(usize, Expr)]) {
        let loaded: Vec<Value> = ins.iter().map(|&i| self.load(b, i, at)).collect();
        let of = [first, &loaded].concat();
        let made: Vec<Value> = outs.iter().map(|(_, e)| e.tile(b, &of, at)).collect();
        for (&(t, _), v) in outs.iter().zip(made) {
            let v = b.cast(v, self.plan.tensors[t].elem);
            b.store(self.view(t), &[at.row, at.col], v);
        }
    }

    /// Element by element, of tensors as vectors.
    fn flat(&mut self, b: &mut KernelBuilder, ins: &[(usize, Place)], outs: &[(usize, Expr)]) -> Grid {
        let size = *self.src.pick(&[256, 128, 1024]).unwrap_or(&256);
        let id = b.program_id(0);
        let place = b.mul(id, size);
        let at = At { row: place, col: place, tile: &[size] };
        let load = |&(t, _): &(usize, Place)| {
            let x = b.load(self.view(t), &[place], at.tile);
            b.cast(x, Scalar::F32)
        };
        let of: Vec<Value> = ins.iter().map(load).collect();
        let made: Vec<Value> = outs.iter().map(|(_, e)| e.tile(b, &of, at)).collect();
        for (&(t, _), v) in outs.iter().zip(made) {
            let v = b.cast(v, self.plan.tensors[t].elem);
            b.store(self.view(t), &[place], v);
        }
        let out = outs[0].0;
        let size_of = self.plan.tensors[out].dims.iter().map(|&d| &self.dims[d].size);
        Grid::row(Count::tiles(&size_of.fold(Size::from(1), |n, d| n.times(d)), size))
    }

    fn product(&mut self, b: &mut KernelBuilder, step: &Step, ins: &[(usize, Place)], outs: &[(usize, Expr)]) -> Grid {
        let &Step::Product { a, b: right, turned, operand, .. } = step else { return Grid::row(Count::from(1)) };
        let tile = *self.src.pick(&[[32, 32], [16, 16], [64, 64], [16, 64], [64, 32]]).unwrap_or(&[32, 32]);
        let depth = self.extent(a, 1).n;
        let whole = depth.next_power_of_two().max(16);
        let step = if whole <= 64 && self.src.chance(64) { None } else { self.src.pick(&[32, 16, 64]).copied() };
        b.stages(1 + self.src.below(3));
        self.over(b, outs, tile, |m, b, at| {
            let none = b.full(at.tile, 0, Scalar::F32);
            let (p, q) = (m.view(a), m.view(right));
            let multiply = |b: &mut KernelBuilder, k: Value, deep: u32, sum: Value| {
                let x = b.load(p, &[at.row, k], &[tile[0], deep]);
                let y = if turned { b.load(q, &[at.col, k], &[tile[1], deep]) } else { b.load(q, &[k, at.col], &[deep, tile[1]]) };
                let (x, y) = (b.cast(x, operand), b.cast(y, operand));
                let y = if turned { b.transpose(y, &[1, 0]) } else { y };
                b.dot(x, y, sum)
            };
            let sum = match step {
                None => {
                    let zero = b.constant(0, Scalar::I32);
                    multiply(b, zero, whole, none)
                }
                Some(step) => {
                    let end = b.dim(p, 1);
                    b.for_loop(0, end, step, &[none], |b, k, sum| vec![multiply(b, k, step, sum[0])])[0]
                }
            };
            m.finish(b, at, &[sum], ins, outs);
        })
    }
}
