//! Matrices of trials: how they lie in memory, and tiles of them as the kernel reads and writes them.
//!
//! ```text
//! stored as it is read     [rows, columns]       with a batch     [h, rows, columns] or [rows, h, columns]
//! stored the other way     [columns, rows]                        [h, columns, rows] or [columns, h, rows]
//! ```

use crate::case::{Param, Tensor, Tolerance};
use crate::data::Init;
use crate::source::Source;
use tilelift_ir::builder::Access;
use tilelift_ir::{Extent, KernelBuilder, Scalar, Value, ViewType};

/// Elements of 16 bytes.
pub(super) fn unit(elem: Scalar) -> i64 {
    i64::from(16 / elem.bytes())
}

/// Where the dimension of a batch stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Batch {
    /// There is none.
    None,
    /// In front.
    Outer,
    /// Between rows and columns.
    Middle,
}

impl Batch {
    /// Its name in reports.
    pub fn word(self) -> &'static str {
        match self {
            Batch::None => "matrices",
            Batch::Outer => "outermost",
            Batch::Middle => "between rows and columns",
        }
    }
}

/// How a matrix lies in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Storage {
    /// Type of its elements.
    pub elem: Scalar,
    /// Stored the other way round.
    pub transposed: bool,
    /// Where the dimension of the batch stands.
    pub batch: Batch,
    /// Matrices of the batch.
    pub count: u32,
}

impl Storage {
    /// One matrix, stored as it is read.
    pub fn plain(elem: Scalar) -> Storage {
        Storage { elem, transposed: false, batch: Batch::None, count: 1 }
    }
}

/// A parameter that is a matrix.
#[derive(Clone, Copy)]
pub(super) struct Matrix {
    view: Value,
    storage: Storage,
}

/// The parameters of a kernel, as they are declared.
#[derive(Default)]
pub(super) struct Params(pub Vec<Param>);

impl Params {
    /// Declares a matrix of `[rows, columns]`, its rows at multiples of 16 bytes, as a rule: else of 8 bytes, or of an element.
    pub fn matrix(&mut self, b: &mut KernelBuilder, src: &mut Source, storage: Storage, extents: [i64; 2], init: Init) -> Matrix {
        let whole = unit(storage.elem);
        let u = [whole, whole / 2, 1][src.weighted(&[20, 3, 1])];
        let [rows, columns] = if storage.transposed { [extents[1], extents[0]] } else { extents };
        // Rows that begin at no multiple of 16 bytes leave a gap, or others would.
        let gap = if u < whole { 1 } else { i64::from(src.below(2)) };
        let step = (columns + u - 1) / u * u + u * gap;
        // That rows end with whole units of 16 bytes is often said where it is so.
        let whole = columns % u == 0 && src.chance(200);
        let last = Extent::Dynamic(if whole { u as u32 } else { 1 });
        let (any, aligned) = (Extent::Dynamic(1), Extent::Dynamic(u as u32));
        let count = i64::from(storage.count);
        let (shape, strides, dims, steps) = match storage.batch {
            Batch::None => (vec![rows, columns], vec![step, 1], vec![any, last], vec![aligned]),
            Batch::Outer => (vec![count, rows, columns], vec![rows * step, step, 1], vec![any, any, last], vec![aligned; 2]),
            Batch::Middle => (vec![rows, count, columns], vec![count * step, step, 1], vec![any, any, last], vec![aligned; 2]),
        };
        let steps: Vec<Extent> = steps.into_iter().chain([Extent::Fixed(1)]).collect();
        let ty = ViewType::dense(storage.elem, &dims).with_strides(&steps).with_align(16);
        let tensor = Tensor { elem: storage.elem, shape, strides, dense: false, offset: 0, init, tolerance: None };
        self.0.push(Param::Tensor(tensor));
        Matrix { view: b.param(ty), storage }
    }

    /// Declares a matrix whose rows are whole units of 16 bytes, and said to be.
    pub fn aligned(&mut self, b: &mut KernelBuilder, elem: Scalar, [rows, columns]: [i64; 2], init: Init) -> Matrix {
        let u = unit(elem) as u32;
        let ty = ViewType::dense(elem, &[Extent::Dynamic(1), Extent::Dynamic(u)]).with_align(16);
        let (shape, strides) = (vec![rows, columns], vec![columns, 1]);
        self.0.push(Param::Tensor(Tensor { elem, shape, strides, dense: true, offset: 0, init, tolerance: None }));
        Matrix { view: b.param(ty), storage: Storage::plain(elem) }
    }

    /// Adds the argument of a dense tensor.
    pub fn tensor(&mut self, shape: Vec<i64>, elem: Scalar, init: Init) {
        let strides = (0..shape.len()).map(|d| shape[d + 1..].iter().product()).collect();
        self.0.push(Param::Tensor(Tensor { elem, shape, strides, dense: true, offset: 0, init, tolerance: None }));
    }

    /// Allows the last parameter that was declared to differ so much.
    pub fn near(&mut self, tolerance: Tolerance) {
        if let Some(Param::Tensor(t)) = self.0.last_mut() {
            t.tolerance = Some(tolerance);
        }
    }
}

impl Matrix {
    /// The extent of a dimension, as the matrix is read.
    pub fn extent(self, b: &mut KernelBuilder, d: usize) -> Value {
        let stored = if self.storage.transposed { 1 - d } else { d };
        let d = match self.storage.batch {
            Batch::None => stored,
            Batch::Outer => stored + 1,
            Batch::Middle => 2 * stored,
        };
        b.dim(self.view, d as u32)
    }

    /// Indices and shape of a tile in the view.
    fn place(self, h: Value, at: [Value; 2], shape: [u32; 2]) -> (Vec<Value>, Vec<u32>) {
        let swap = self.storage.transposed;
        let ([row, column], [r, c]) = if swap { ([at[1], at[0]], [shape[1], shape[0]]) } else { (at, shape) };
        match self.storage.batch {
            Batch::None => (vec![row, column], vec![r, c]),
            Batch::Outer => (vec![h, row, column], vec![1, r, c]),
            Batch::Middle => (vec![row, h, column], vec![r, 1, c]),
        }
    }

    /// The view.
    pub fn view(self) -> Value {
        self.view
    }

    /// A tile at a row and a column of matrix `h`.
    pub fn load(self, b: &mut KernelBuilder, h: Value, at: [Value; 2], shape: [u32; 2]) -> Value {
        let (place, tile) = self.place(h, at, shape);
        let mut t = b.load(self.view, &place, &tile);
        if self.storage.batch != Batch::None {
            let flat: Vec<u32> = if self.storage.transposed { vec![shape[1], shape[0]] } else { shape.to_vec() };
            t = b.reshape(t, &flat);
        }
        if self.storage.transposed { b.transpose(t, &[1, 0]) } else { t }
    }

    /// The same, where a mask as it is read says so.
    pub fn load_masked(self, b: &mut KernelBuilder, h: Value, at: [Value; 2], shape: [u32; 2], mask: Option<Value>) -> Value {
        let Some(mask) = mask else { return self.load(b, h, at, shape) };
        let (place, tile) = self.place(h, at, shape);
        let mut mask = if self.storage.transposed { b.transpose(mask, &[1, 0]) } else { mask };
        if self.storage.batch != Batch::None {
            mask = b.reshape(mask, &tile);
        }
        let mut t = b.load_with(self.view, &place, &tile, Access { mask: Some(mask), ..Access::default() });
        if self.storage.batch != Batch::None {
            let flat: Vec<u32> = if self.storage.transposed { vec![shape[1], shape[0]] } else { shape.to_vec() };
            t = b.reshape(t, &flat);
        }
        self.seen(b, t)
    }

    /// The same as it is stored, for who transposes it later.
    pub fn load_stored(self, b: &mut KernelBuilder, h: Value, at: [Value; 2], shape: [u32; 2]) -> Value {
        let (place, tile) = self.place(h, at, shape);
        b.load(self.view, &place, &tile)
    }

    /// A tile of what is stored, as it is read.
    pub fn seen(self, b: &mut KernelBuilder, tile: Value) -> Value {
        if self.storage.transposed { b.transpose(tile, &[1, 0]) } else { tile }
    }

    /// Stores a tile.
    pub fn store(self, b: &mut KernelBuilder, h: Value, at: [Value; 2], shape: [u32; 2], value: Value) {
        let (place, tile) = self.place(h, at, shape);
        let mut t = if self.storage.transposed { b.transpose(value, &[1, 0]) } else { value };
        if self.storage.batch != Batch::None {
            t = b.reshape(t, &tile);
        }
        b.store(self.view, &place, t);
    }
}
