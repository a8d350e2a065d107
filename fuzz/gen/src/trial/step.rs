//! What an iteration of a walk does: its product, and what stands beside it.
//!
//! ```text
//! plain    sum + a · w                      scaled   sum + (a · w) * tile                 side    sum + a · w, and side + tile
//! added    (sum + a · w) + tile             fold     top' = max(top, rows of q · w), sum * 2^(top - top') + 2^(q · w - top') · v
//! besides  a store of what was looked at, an atomic count
//! ```

use super::classes::{Axis, Classes};
use super::matrix::{Matrix, Params, Storage};
use super::product::Kind;
use super::walk::{Place, Walk};
use crate::data::Init;
use crate::source::Source;
use tilelift_ir::builder::{Access, Update};
use tilelift_ir::{AtomicOp, CmpOp, Extent, KernelBuilder, ReduceOp, Scalar, Value, ViewType};

/// What happens to a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Between {
    Plain,
    Added,
    Scaled,
    Side,
    Fold,
}

impl Between {
    pub fn pick(src: &mut Source, classes: &mut Classes, kind: Kind) -> Between {
        let folds = kind.elem.bytes() == 2;
        let (it, word) = match src.weighted(&[8, 3, 3, 3, if folds { 5 } else { 0 }]) {
            1 => (Between::Added, "tile added"),
            2 => (Between::Scaled, "product scaled"),
            3 => (Between::Side, "tiles summed beside"),
            4 => (Between::Fold, "two products with a fold"),
            _ => (Between::Plain, "product"),
        };
        classes.add(Axis::Body, word);
        it
    }
}

/// What is done to operand A behind its load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    None,
    Neg,
    Double,
    Relu,
    Cast,
    Mask,
}

/// Where operand A comes from.
#[derive(Clone, Copy)]
enum Left {
    Matrix(Matrix),
    /// Boxes of images, whose rows are merged.
    Image {
        view: Value,
        across: u32,
    },
}

/// What is stored, or counted, in the body.
#[derive(Clone, Copy)]
enum Beside {
    None,
    Rows(Value),
    Number(Value),
    Count(Value),
    /// The table is written a place ahead.
    Feed(Value),
    /// The tile that is added was stored by the step before.
    Own(Value),
}

/// What is done only where a number of the walk says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Skips {
    /// All.
    All,
    /// All is done, and some of it forgotten.
    Results,
    /// The product once more.
    More,
    /// A product is in each arm.
    Arm,
}

/// What of an operand a mask leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mask {
    /// Up to a place along the depth.
    Until,
    /// Two of three places along the depth.
    Two,
    /// Some places across it.
    Across,
    /// Those of them up to a place along the depth.
    Both,
}

impl Mask {
    fn pick(src: &mut Source, classes: &mut Classes) -> Option<Mask> {
        let mask = [Mask::Until, Mask::Until, Mask::Two, Mask::Across, Mask::Both];
        let mask = src.chance(45).then(|| *src.pick(&mask).unwrap_or(&Mask::Until))?;
        classes.add(Axis::OperandA, "operands masked");
        Some(mask)
    }

    /// The mask of a tile, whose depth runs along an axis from a place on, up to an end.
    fn of(self, b: &mut KernelBuilder, shape: [u32; 2], (axis, from): (usize, Value), end: i64) -> Value {
        let along = b.iota(&shape, axis as u32);
        let from = b.splat(from, &shape);
        let at = b.add(along, from);
        let until = |b: &mut KernelBuilder| b.cmp(CmpOp::Lt, at, end);
        let across = |b: &mut KernelBuilder| {
            let i = b.iota(&shape, 1 - axis as u32);
            b.cmp(CmpOp::Ge, i, 3i64)
        };
        match self {
            Mask::Until => until(b),
            Mask::Two => {
                let third = b.rem(at, 3i64);
                b.cmp(CmpOp::Ne, third, 1i64)
            }
            Mask::Across => across(b),
            Mask::Both => {
                let (x, y) = (until(b), across(b));
                b.and(x, y)
            }
        }
    }
}

/// Extents of what steps multiply.
#[derive(Clone, Copy)]
pub(super) struct Size {
    pub rows: u32,
    pub columns: u32,
    /// Columns of A, or keys, of a step.
    pub k: u32,
    pub height: i64,
    pub width: i64,
    pub depth: i64,
    pub blocks: u32,
    /// The least and the largest score.
    pub scores: [i64; 2],
}

/// A step.
#[derive(Clone, Copy)]
pub(super) struct Step {
    kind: Kind,
    size: Size,
    between: Between,
    left: Left,
    change: Change,
    w: Matrix,
    /// Matrices of `w`, and not its columns, are what tables name.
    paged: bool,
    v: Option<Matrix>,
    tile: Option<(Value, u32, bool)>,
    beside: Beside,
    /// Iterations that a number of the walk names do something else.
    skips: Option<Skips>,
    /// The tile's type is the sum's.
    wide: bool,
    /// A goes where the table says, too.
    follows: bool,
    /// Masks of operand A, and of what tables name.
    masks: [Option<Mask>; 2],
}

/// Where a run of steps stands.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    /// Row of results, row of operands A (an image, where it comes from images), column.
    pub row: Value,
    pub left: Value,
    pub column: Value,
    /// The program, or the round.
    pub part: Value,
}

impl Step {
    pub fn declare(
        b: &mut KernelBuilder,
        src: &mut Source,
        params: &mut Params,
        classes: &mut Classes,
        (kind, size, between): (Kind, Size, Between),
    ) -> Step {
        let (elem, two) = (kind.elem, kind.elem.bytes() == 2);
        let small = |src: &mut Source| Init::Small(src.seed());
        let fold = between == Between::Fold;
        let paged = src.chance(60);
        let image = !fold && src.chance(45);
        let change = match src.weighted(&[20, 2, 2, 2, if two { 4 } else { 0 }, 3]) {
            1 if elem.is_float() && !fold && !kind.promoted() => Change::Neg,
            2 if !fold && !kind.promoted() => Change::Double,
            3 if !fold && !kind.promoted() => Change::Relu,
            4 if !fold && !image => Change::Cast,
            5 if !fold && !image => Change::Mask,
            _ => Change::None,
        };
        let word = match change {
            Change::None => "as it is",
            Change::Neg | Change::Double | Change::Relu => "computed",
            Change::Cast => "cast",
            Change::Mask => "masked",
        };
        classes.add(Axis::OperandA, word);
        let depth = if fold { i64::from(size.columns) } else { size.depth };
        let left = if image {
            classes.add(Axis::Storage, "images");
            let across = *src.pick(&[16u32, 8, 32]).unwrap_or(&16);
            let down = size.rows / across;
            let shape = [2, i64::from(down) + i64::from(src.below(3)), i64::from(across) - i64::from(src.below(3)), (depth + 15) / 16 * 16];
            Left::Image { view: params.image(b, elem, shape, small(src)), across }
        } else {
            let elem = if change == Change::Cast { Scalar::I8 } else { elem };
            let transposed = elem.bytes() == 2 && src.chance(60);
            let init = small(src);
            Left::Matrix(params.matrix(b, src, Storage { transposed, ..Storage::plain(elem) }, [size.height, depth], init))
        };
        let pages = if paged { size.blocks.max(1) } else { 1 };
        let tall = if paged { i64::from(size.k) - i64::from(src.below(2)) } else { size.depth };
        let batch = if paged { super::matrix::Batch::Outer } else { super::matrix::Batch::None };
        if paged {
            classes.add(Axis::Storage, "pages");
        }
        let init = small(src);
        let storage = Storage { elem, transposed: fold || !(two && src.chance(110)), batch, count: pages };
        let inner = if fold { [i64::from(size.columns), tall] } else { [tall, size.width] };
        let w = params.matrix(b, src, storage, inner, init);
        let init = small(src);
        let v = fold.then(|| params.matrix(b, src, Storage { transposed: false, ..storage }, [tall, size.width], init));
        let tile = matches!(between, Between::Added | Between::Scaled | Between::Side).then(|| {
            let elem = if kind.acc == Scalar::I32 {
                Scalar::I32
            } else {
                *src.pick(&[Scalar::F32, Scalar::F32, Scalar::BF16]).unwrap_or(&Scalar::F32)
            };
            let (rank, masked) = (1 + src.below(2), src.chance(60));
            let shape = if rank == 1 { vec![size.width] } else { vec![size.height, size.width] };
            let init = small(src);
            (params.dense(b, elem, shape, init), rank, masked)
        });
        let beside = match src.weighted(&[10, 2, 2, 2]) {
            1 => {
                classes.add(Axis::Body, "rows stored");
                Beside::Rows(params.dense(b, kind.acc, vec![1 + i64::from(src.below(6)), size.height], Init::Fill(7)))
            }
            2 => {
                classes.add(Axis::Body, "number stored");
                Beside::Number(params.dense(b, Scalar::I32, vec![4, 1 + i64::from(src.below(8))], Init::Fill(7)))
            }
            3 => {
                classes.add(Axis::Body, "atomic");
                Beside::Count(params.dense(b, Scalar::I32, vec![8], Init::Fill(0)))
            }
            _ => Beside::None,
        };
        let wide = tile.is_some_and(|(view, ..)| b.ty(view).elem() == kind.acc);
        let skips = src.chance(30).then(|| {
            let (it, word) = match src.below(4) {
                0 => (Skips::All, "steps left out"),
                1 => (Skips::Results, "results left out"),
                2 => (Skips::More, "products beside guarded ones"),
                _ => (Skips::Arm, "products in both arms"),
            };
            classes.add(Axis::Body, word);
            it
        });
        let masks = [Mask::pick(src, classes), Mask::pick(src, classes)];
        Step { skips, wide, kind, size, between, left, change, w, paged, v, tile, beside, follows: src.chance(128), masks }
    }

    /// True if operand A comes from images.
    pub fn images(&self) -> bool {
        matches!(self.left, Left::Image { .. })
    }

    /// Its iterations write this table.
    pub fn feed(&mut self, view: Value) {
        self.beside = Beside::Feed(view);
    }

    /// Stores nothing where other programs do.
    pub fn alone(&mut self) {
        if !matches!(self.beside, Beside::Count(_)) {
            self.beside = Beside::None;
        }
    }

    /// What is added is stored by the step before, if that can be.
    pub fn accumulate(&mut self) -> bool {
        let adds = matches!(self.between, Between::Added | Between::Side);
        match self.tile {
            Some((view, 2, _)) if adds && self.wide => self.beside = Beside::Own(view),
            _ => return false,
        }
        true
    }

    /// Operands A are these.
    pub fn multiply(&mut self, m: Matrix) {
        (self.left, self.change) = (Left::Matrix(m), Change::None);
    }

    /// All of a walk: the sum behind it.
    pub fn run(&self, b: &mut KernelBuilder, walk: &Walk, base: Option<Value>, o: Origin, sum: Value) -> Value {
        let Size { rows, columns, .. } = self.size;
        let acc = self.kind.acc;
        let zero = b.constant(0, Scalar::I32);
        let mut held = vec![sum];
        match self.between {
            Between::Fold => held.push(b.full(&[rows, 1], self.size.scores[0], acc)),
            Between::Side => held.push(b.full(&[rows, columns], 0, acc)),
            Between::Plain | Between::Added | Between::Scaled => {}
        }
        let q = (self.between == Between::Fold).then(|| self.operand_a(b, o, zero, columns));
        let ends = walk.run(b, o.part, base, &held, |b, place, sums| {
            let all = |b: &mut KernelBuilder, sums: &[Value]| match q {
                Some(q) => self.fold(b, &place, q, sums),
                None => self.product(b, &place, o, sums),
            };
            let out = match self.skips {
                None => all(b, sums),
                Some(Skips::All) => {
                    let holds = self.holds(b, &place);
                    b.if_else(holds, |b| all(b, sums), |_| sums.to_vec())
                }
                Some(Skips::More) => {
                    let (holds, new) = (self.holds(b, &place), all(b, sums));
                    b.if_else(holds, |b| all(b, &new), |_| new.clone())
                }
                Some(Skips::Arm) => {
                    let holds = self.holds(b, &place);
                    b.if_else(holds, |b| all(b, sums), |b| all(b, sums))
                }
                Some(Skips::Results) => {
                    let (holds, new) = (self.holds(b, &place), all(b, sums));
                    b.if_else(holds, |_| new.clone(), |_| sums.to_vec())
                }
            };
            self.beside(b, &place, o, out[0]);
            out
        });
        match self.between {
            Between::Side => b.add(ends[0], ends[1]),
            Between::Plain | Between::Added | Between::Scaled | Between::Fold => ends[0],
        }
    }

    /// Whether an iteration counts: its block is odd.
    fn holds(&self, b: &mut KernelBuilder, place: &Place) -> Value {
        let block = place.block(b);
        let odd = b.and(block, 1);
        b.cmp(CmpOp::Ne, odd, 0)
    }

    fn operand_a(&self, b: &mut KernelBuilder, o: Origin, column: Value, k: u32) -> Value {
        let rows = self.size.rows;
        let x = match self.left {
            Left::Matrix(m) => {
                let mask = match (self.change, self.masks[0]) {
                    (Change::Mask, _) => {
                        let at = b.iota(&[rows, k], 0);
                        Some(b.cmp(CmpOp::Lt, at, i64::from(rows) - 5))
                    }
                    (_, Some(mask)) => Some(mask.of(b, [rows, k], (1, column), self.end())),
                    (_, None) => None,
                };
                m.load_masked(b, o.left, [o.left, column], [rows, k], mask)
            }
            Left::Image { view, across } => {
                let (y, x) = (b.constant(-1, Scalar::I32), b.constant(0, Scalar::I32));
                let t = b.load(view, &[o.left, y, x, column], &[1, rows / across, across, k]);
                b.reshape(t, &[rows, k])
            }
        };
        match self.change {
            Change::None | Change::Mask => x,
            Change::Neg => b.neg(x),
            Change::Double => b.add(x, x),
            Change::Relu => b.maximum(x, 0i64),
            Change::Cast => b.cast(x, self.kind.elem),
        }
    }

    /// Where masks end along the depth: two thirds of the way.
    fn end(&self) -> i64 {
        self.size.depth * 2 / 3
    }

    /// The mask of what tables name, whose depth runs along an axis from a place on.
    fn mask(&self, b: &mut KernelBuilder, shape: [u32; 2], at: (usize, Value)) -> Option<Value> {
        self.masks[1].map(|mask| mask.of(b, shape, at, self.end()))
    }

    /// Where the step's part of `w` is: a matrix, and a place along the depth.
    fn part(&self, b: &mut KernelBuilder, place: &Place) -> (Value, Value) {
        if self.paged {
            (place.block(b), b.constant(0, Scalar::I32))
        } else {
            let c = place.column(b);
            (c, c)
        }
    }

    fn product(&self, b: &mut KernelBuilder, place: &Place, o: Origin, sums: &[Value]) -> Vec<Value> {
        let Size { rows, columns, k, .. } = self.size;
        let (kind, acc) = (self.kind, self.kind.acc);
        let column = if self.follows { place.column(b) } else { place.straight(b) };
        let x = self.operand_a(b, o, column, k);
        let (h, deep) = self.part(b, place);
        let mask = self.mask(b, [k, columns], (0, deep));
        let y = self.w.load_masked(b, h, [deep, o.column], [k, columns], mask);
        match self.between {
            Between::Scaled => {
                let none = b.full(&[rows, columns], 0, acc);
                let p = kind.dot(b, x, y, none);
                let scale = self.tile(b, place, o);
                let p = b.mul(p, scale);
                vec![b.add(sums[0], p)]
            }
            Between::Added => {
                let p = kind.dot(b, x, y, sums[0]);
                let more = self.tile(b, place, o);
                vec![b.add(p, more)]
            }
            Between::Side => {
                let more = self.tile(b, place, o);
                let side = b.add(sums[1], more);
                vec![kind.dot(b, x, y, sums[0]), side]
            }
            Between::Plain | Between::Fold => vec![kind.dot(b, x, y, sums[0])],
        }
    }

    /// The tile that feeds no product, as large as a sum.
    fn tile(&self, b: &mut KernelBuilder, place: &Place, o: Origin) -> Value {
        let Size { rows, columns, .. } = self.size;
        let Some((view, rank, masked)) = self.tile else { return b.full(&[rows, columns], 1, self.kind.acc) };
        let by = place.index(b);
        let (at, shape) =
            if rank == 1 { (vec![b.add(o.column, by)], vec![columns]) } else { (vec![b.add(o.row, by), o.column], vec![rows, columns]) };
        let mask = masked.then(|| {
            let i = b.iota(&shape, rank - 1);
            b.cmp(CmpOp::Lt, i, 9i64)
        });
        let t = b.load_with(view, &at, &shape, Access { mask, ..Access::default() });
        let t = if b.ty(t).elem() == self.kind.acc { t } else { b.cast(t, self.kind.acc) };
        if rank == 2 {
            return t;
        }
        let t = b.reshape(t, &[1, columns]);
        b.broadcast(t, &[rows, columns])
    }

    fn fold(&self, b: &mut KernelBuilder, place: &Place, q: Value, sums: &[Value]) -> Vec<Value> {
        let Size { rows, columns, k, .. } = self.size;
        let (kind, acc) = (self.kind, self.kind.acc);
        let zero = b.constant(0, Scalar::I32);
        let (h, deep) = self.part(b, place);
        let mask = self.mask(b, [columns, k], (1, deep));
        let keys = self.w.load_masked(b, h, [zero, deep], [columns, k], mask);
        let none = b.full(&[rows, k], 0, acc);
        let s = kind.dot(b, q, keys, none);
        // Few powers of two, so that sums of them are exact.
        let s = b.maximum(s, self.size.scores[0]);
        let s = b.minimum(s, self.size.scores[1]);
        let top = b.reduce_keep(ReduceOp::Maximum, s, 1);
        let most = b.maximum(sums[1], top);
        let all = b.broadcast(most, &[rows, k]);
        let p = b.sub(s, all);
        let p = b.exp2(p);
        let fade = b.sub(sums[1], most);
        let fade = b.exp2(fade);
        let fade = b.broadcast(fade, &[rows, columns]);
        let sum = b.mul(sums[0], fade);
        let p = b.cast(p, kind.elem);
        let Some(v) = self.v else { return vec![sum, most] };
        let mask = self.mask(b, [k, columns], (0, deep));
        let y = v.load_masked(b, h, [deep, zero], [k, columns], mask);
        vec![kind.dot(b, p, y, sum), most]
    }

    fn beside(&self, b: &mut KernelBuilder, place: &Place, o: Origin, sum: Value) {
        match self.beside {
            Beside::None => {}
            Beside::Rows(view) => {
                let top = b.reduce(ReduceOp::Maximum, sum, 1);
                let top = b.reshape(top, &[1, self.size.rows]);
                let at = place.index(b);
                b.store(view, &[at, o.row], top);
            }
            Beside::Number(view) => {
                let (pid, at, number) = (b.program_id(0), place.index(b), place.block(b));
                let number = b.splat(number, &[1, 1]);
                b.store(view, &[pid, at], number);
            }
            Beside::Own(view) => b.store(view, &[o.row, o.column], sum),
            Beside::Feed(view) => {
                let (at, number) = (place.index(b), place.block(b));
                let at = b.add(at, 1);
                let number = b.add(number, 3);
                let number = b.rem(number, i64::from(self.size.blocks.max(1)));
                let number = b.splat(number, &[1]);
                b.store(view, &[at], number);
            }
            Beside::Count(view) => {
                let at = place.block(b);
                let at = b.splat(at, &[1]);
                b.atomic(AtomicOp::Add, view, &[at], 1, Update::default());
            }
        }
    }
}

impl Params {
    /// Declares a dense tensor.
    fn dense(&mut self, b: &mut KernelBuilder, elem: Scalar, shape: Vec<i64>, init: Init) -> Value {
        let dims = vec![Extent::Dynamic(1); shape.len()];
        self.tensor(shape, elem, init);
        b.param(ViewType::dense(elem, &dims))
    }

    /// Declares images: number, rows, columns, depth.
    fn image(&mut self, b: &mut KernelBuilder, elem: Scalar, shape: [i64; 4], init: Init) -> Value {
        let any = Extent::Dynamic(1);
        self.tensor(shape.to_vec(), elem, init);
        b.param(ViewType::dense(elem, &[any, any, any, Extent::Dynamic(16 / elem.bytes())]).with_align(16))
    }
}
