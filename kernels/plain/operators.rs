//! Operators of a graph: tensors, and kernels over them in the order in which they run.
//!
//! ```text
//! let x = g.input("x", …); let h = g.between("h", …);
//! g.pointwise("add", &[x, y], &[h], |b, t| vec![b.add(t[0], t[1])])?;         a kernel that works element by element
//! g.step("norm", kernel, grid, &[h.into(), w.into(), y.into(), 1e-5.into()]);   any kernel
//! ```

use crate::facts::{known, programs};
use crate::tensor::Role;
use tilelift_ir::{BuildErrors, Kernel, KernelBuilder, Scalar, Value, ViewType};

/// Numbers that a tensor starts from; every element depends on the tensor and its index only.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fill {
    /// Floats between these two.
    Between(f64, f64),
    /// Floats between these two, multiples of the third.
    Multiples(f64, f64, f64),
    /// Integers from 0 to below this.
    Below(u32),
    /// 0, and so much more for each element.
    Steps(u32),
}

/// A tensor of a graph; it is dense and row-major.
#[derive(Clone, PartialEq, Debug)]
pub struct TensorOf {
    /// Its name.
    pub name: &'static str,
    /// Element type.
    pub elem: Scalar,
    /// Extents, outermost first.
    pub shape: Vec<u32>,
    /// Who fills it and who looks at it.
    pub role: Role,
    /// What it starts from, if the caller fills it.
    pub fill: Fill,
    /// Elements of it that the graph has to read or write; all of them where it is not said.
    pub touched: Option<u64>,
    /// How far elements of two results may be apart: so much, and so much of the element.
    pub apart: [f64; 2],
}

impl TensorOf {
    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.shape.iter().map(|&e| u64::from(e)).product()
    }
}

/// A tensor's number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Id(pub usize);

/// What is passed for a parameter of a kernel.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Passed {
    /// A tensor.
    Tensor(Id),
    /// A number, an `f32`.
    Number(f32),
    /// A number, an `i32`.
    Count(i32),
}

impl From<Id> for Passed {
    fn from(id: Id) -> Passed {
        Passed::Tensor(id)
    }
}
impl From<f32> for Passed {
    fn from(x: f32) -> Passed {
        Passed::Number(x)
    }
}
impl From<i32> for Passed {
    fn from(n: i32) -> Passed {
        Passed::Count(n)
    }
}

/// A kernel with its grid and what it is launched with.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// Its name.
    pub name: &'static str,
    /// The kernel.
    pub kernel: Kernel,
    /// Its grid.
    pub grid: [u32; 3],
    /// What is passed, in parameter order.
    pub args: Vec<Passed>,
}

/// Operators as a tracer emits them.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Operators {
    /// The tensors, by their numbers.
    pub tensors: Vec<TensorOf>,
    /// The kernels in order.
    pub steps: Vec<Step>,
    /// Operations of products, by the type of their factors.
    pub products: Vec<(Scalar, f64)>,
}

/// Tile of the kernels that work element by element: rows of up to so many columns, and elements.
const WIDEST: u32 = 512;
const ELEMENTS: u32 = 4096;

impl Operators {
    /// Two graphs as one, that of the other behind this one's; they have nothing in common.
    #[must_use]
    pub fn and(mut self, other: Operators) -> Operators {
        let first = self.tensors.len();
        let moved = |a: &Passed| match *a {
            Passed::Tensor(id) => Passed::Tensor(Id(first + id.0)),
            Passed::Number(_) | Passed::Count(_) => *a,
        };
        self.tensors.extend(other.tensors);
        self.steps.extend(other.steps.into_iter().map(|s| Step { args: s.args.iter().map(moved).collect(), ..s }));
        self.products.extend(other.products);
        self
    }

    fn tensor(&mut self, name: &'static str, elem: Scalar, shape: &[u32], role: Role, fill: Fill) -> Id {
        self.tensors.push(TensorOf { name, elem, shape: shape.to_vec(), role, fill, touched: None, apart: [0.0; 2] });
        Id(self.tensors.len() - 1)
    }

    /// A tensor that the caller fills, with numbers between -1 and 1.
    pub fn input(&mut self, name: &'static str, elem: Scalar, shape: &[u32]) -> Id {
        self.filled(name, elem, shape, Fill::Between(-1.0, 1.0))
    }

    /// A tensor that the caller fills.
    pub fn filled(&mut self, name: &'static str, elem: Scalar, shape: &[u32], fill: Fill) -> Id {
        self.tensor(name, elem, shape, Role::In, fill)
    }

    /// A weight of a product: sums over `depth` of its elements and numbers up to 1 are about 1.
    pub fn weight(&mut self, name: &'static str, elem: Scalar, shape: &[u32], depth: u32) -> Id {
        let most = (3.0 / f64::from(depth.max(1))).sqrt();
        self.filled(name, elem, shape, Fill::Between(-most, most))
    }

    /// A tensor that the caller looks at.
    pub fn output(&mut self, name: &'static str, elem: Scalar, shape: &[u32]) -> Id {
        self.tensor(name, elem, shape, Role::Out, Fill::Between(0.0, 0.0))
    }

    /// A tensor that the caller fills and looks at, of which so many elements are written.
    pub fn updated(&mut self, name: &'static str, elem: Scalar, shape: &[u32], written: u64) -> Id {
        let id = self.tensor(name, elem, shape, Role::InOut, Fill::Between(-1.0, 1.0));
        self.tensors[id.0].touched = Some(written);
        id
    }

    /// A tensor between operators.
    pub fn between(&mut self, name: &'static str, elem: Scalar, shape: &[u32]) -> Id {
        self.tensor(name, elem, shape, Role::Scratch, Fill::Between(0.0, 0.0))
    }

    /// States how far elements of two results may be apart: so much, and so much of the element.
    pub fn bound(&mut self, id: Id, absolute: f64, relative: f64) {
        self.tensors[id.0].apart = [absolute, relative];
    }

    /// Appends a kernel.
    pub fn step(&mut self, name: &'static str, kernel: Kernel, grid: [u32; 3], args: &[Passed]) {
        self.steps.push(Step { name, kernel, grid, args: args.to_vec() });
    }

    /// The type of a parameter for a tensor.
    pub fn view(&self, id: Id) -> ViewType {
        let t = &self.tensors[id.0];
        ViewType::dense(t.elem, &t.shape.iter().map(|&e| known(e)).collect::<Vec<_>>())
    }

    /// Extents of a tensor that is a matrix; of others the first ones, as a column.
    pub fn matrix(&self, id: Id) -> [u32; 2] {
        match self.tensors[id.0].shape[..] {
            [rows, cols] => [rows, cols],
            [rows, ..] => [rows, 1],
            [] => [1, 1],
        }
    }

    /// Counts operations of products: two for each element of a factor that meets an element of the other.
    pub fn counts(&mut self, elem: Scalar, [m, n, k]: [u32; 3]) {
        self.products.push((elem, 2.0 * f64::from(m) * f64::from(n) * f64::from(k)));
    }

    /// Appends a kernel that works element by element, in `f32`. Inputs are as large as the first result, or have extents of 1, or lack
    /// outer dimensions; integers come as they are.
    ///
    /// # Errors
    /// The builder's.
    pub fn pointwise(
        &mut self,
        name: &'static str,
        from: &[Id],
        to: &[Id],
        body: impl FnOnce(&mut KernelBuilder, &[Value]) -> Vec<Value>,
    ) -> Result<(), BuildErrors> {
        let shape = to.first().map(|t| self.tensors[t.0].shape.clone()).unwrap_or_default();
        let tile = tile_of(&shape);
        let mut b = KernelBuilder::new(name);
        b.warps(4);
        let params: Vec<Value> = from.iter().chain(to).map(|&id| b.param(self.view(id))).collect();
        let zero = b.constant(0, Scalar::I32);
        // The last dimension is that of the first axis of the grid.
        let mut at = Vec::new();
        for (d, &e) in tile.iter().enumerate() {
            let pid = b.program_id(tile.len() - 1 - d);
            at.push(b.mul(pid, e));
        }
        let mut tiles = Vec::new();
        for (&id, &param) in from.iter().zip(&params) {
            let t = &self.tensors[id.0];
            let outer = shape.len() - t.shape.len();
            let one = |d: usize| t.shape[d] == 1;
            let place: Vec<Value> = (0..t.shape.len()).map(|d| if one(d) { zero } else { at[outer + d] }).collect();
            let piece: Vec<u32> = (0..t.shape.len()).map(|d| if one(d) { 1 } else { tile[outer + d] }).collect();
            let mut v = b.load(param, &place, &piece);
            for _ in 0..outer {
                v = b.expand_dims(v, 0);
            }
            tiles.push(if t.elem.is_float() { b.cast(v, Scalar::F32) } else { v });
        }
        for (v, (&id, &param)) in body(&mut b, &tiles).into_iter().zip(to.iter().zip(&params[from.len()..])) {
            let v = b.cast(v, self.tensors[id.0].elem);
            b.store(param, &at, v);
        }
        let args: Vec<Passed> = from.iter().chain(to).map(|&id| id.into()).collect();
        let mut grid = [1; 3];
        for (d, (&e, &t)) in shape.iter().zip(&tile).enumerate() {
            grid[tile.len() - 1 - d] = programs(e, t);
        }
        self.step(name, b.finish()?, grid, &args);
        Ok(())
    }
}

/// Tile of a kernel that works element by element.
pub(super) fn tile_of(shape: &[u32]) -> Vec<u32> {
    let mut left = ELEMENTS;
    let mut tile: Vec<u32> = shape
        .iter()
        .rev()
        .enumerate()
        .map(|(n, &e)| {
            let most = match n {
                0 => WIDEST,
                1 => left,
                _ => 1,
            };
            let t = e.next_power_of_two().min(most);
            left /= t;
            t
        })
        .collect();
    tile.reverse();
    tile
}

/// Half a unit in the last place of a float, relative.
pub fn unit(elem: Scalar) -> f64 {
    match elem {
        Scalar::F8E4M3 => 2f64.powi(-4),
        Scalar::BF16 => 2f64.powi(-8),
        Scalar::F16 => 2f64.powi(-11),
        _ => 2f64.powi(-24),
    }
}
