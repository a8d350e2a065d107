//! The builder: makes kernels from Rust.
//!
//! Methods return values and never fail on the spot: a mistake is noted with its sentence, a value of a plausible type stands in,
//! and [`KernelBuilder::finish`] returns every noted mistake at once. Binary methods accept a scalar beside a tile, and tiles whose
//! extents are 1 where the other's are not: they insert the `splat`, `reshape` and `broadcast` that the IR asks for.
//!
//! ```
//! use tilelift_ir::{KernelBuilder, Scalar, ViewType, Extent};
//! let mut b = KernelBuilder::new("double");
//! let x = b.param(ViewType::dense(Scalar::F32, &[Extent::Dynamic(1)]));
//! let pid = b.program_id(0);
//! let at = b.mul(pid, 256);
//! let t = b.load(x, &[at], &[256]);
//! let t = b.mul(t, 2.0f32);
//! b.store(x, &[at], t);
//! let kernel = b.finish().expect("a valid kernel");
//! assert!(tilelift_ir::verify(&kernel).is_ok());
//! ```

mod control;
mod explicit;
mod memory;

use crate::cursor::Cursor;
use crate::entities::{Inst, Value};
use crate::kernel::{Kernel, Loc, is_identifier};
use crate::layout::LayoutSpec;
use crate::num;
use crate::ops::{Attr, CacheHint, CmpOp, GridAxis, Literal, MemoryOrder, Op, OperandKind, Precision, ReduceOp, Scope, SortOrder};
use crate::types::{Scalar, Shape, TileType, Type, ViewType};
use crate::typing::result_types;
use cranelift_entity::packed_option::ReservedValue;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::fmt;

/// A mistake in the use of the builder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BuildError {
    /// The method that was called.
    pub method: String,
    /// Where it was called.
    pub loc: Loc,
    /// What is wrong and how to mend it.
    pub message: String,
}

impl BuildError {
    /// A mistake in the call of a function that is marked `#[track_caller]`, or else of this one.
    #[track_caller]
    pub fn new(method: impl Into<String>, message: impl Into<String>) -> BuildError {
        BuildError { method: method.into(), loc: Loc::caller(), message: message.into() }
    }
}

/// Every mistake made with one builder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BuildErrors(pub Vec<BuildError>);

impl fmt::Display for BuildErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, e) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "builder method `{}`", e.method)?;
            if e.loc.is_known() {
                write!(f, " at {}", e.loc)?;
            }
            write!(f, ": {}", e.message)?;
        }
        Ok(())
    }
}
impl std::error::Error for BuildErrors {}

/// Anything a builder method takes as an operand: a value, or a Rust number that becomes a literal of the type its place asks for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Operand {
    /// A value.
    Value(Value),
    /// An integer literal.
    Int(i64),
    /// A float literal.
    Float(f64),
}
impl From<Value> for Operand {
    fn from(v: Value) -> Operand {
        Operand::Value(v)
    }
}
impl From<&Value> for Operand {
    fn from(v: &Value) -> Operand {
        Operand::Value(*v)
    }
}
impl From<i32> for Operand {
    fn from(v: i32) -> Operand {
        Operand::Int(i64::from(v))
    }
}
impl From<u32> for Operand {
    fn from(v: u32) -> Operand {
        Operand::Int(i64::from(v))
    }
}
impl From<i64> for Operand {
    fn from(v: i64) -> Operand {
        Operand::Int(v)
    }
}
impl From<f32> for Operand {
    fn from(v: f32) -> Operand {
        Operand::Float(f64::from(v))
    }
}
impl From<f64> for Operand {
    fn from(v: f64) -> Operand {
        Operand::Float(v)
    }
}

/// Options of a load or store.
#[derive(Clone, Copy, Default, Debug)]
pub struct Access {
    /// Only elements whose mask is true take part.
    pub mask: Option<Value>,
    /// What masked-off and outside elements of a load read; a scalar. Absent means 0.
    pub other: Option<Operand>,
    /// How caches should treat the access.
    pub cache: Option<CacheHint>,
}

/// Options of an atomic update.
#[derive(Clone, Copy, Default, Debug)]
pub struct Update {
    /// Only elements whose mask is true take part.
    pub mask: Option<Value>,
    /// What the update orders; absent means relaxed.
    pub order: Option<MemoryOrder>,
    /// Among whom it is atomic; absent means all programs of the device.
    pub scope: Option<Scope>,
}

/// Makes a kernel, instruction by instruction.
pub struct KernelBuilder {
    kernel: Kernel,
    at: Cursor,
    errors: Vec<BuildError>,
    /// The values that have names.
    named: HashMap<String, Value>,
}

/// The methods of the elementwise ops whose operands and result have one type, from the op table.
macro_rules! elementwise_methods {
    ({ $($first:tt)* } { $($elementwise:tt)* } { $($rest:tt)* }) => {
        elementwise_methods! { @rows $($elementwise)* }
    };
    (@rows $($(#[$doc:meta])+ $op:ident $name:ident ($($operand:ident),*) $lead:tt - $rule:ident Pure 0 $work:ident $(($steps:literal))? $(within($($bound:literal),+))?;)*) => {
        impl KernelBuilder {
            $(elementwise_methods! { @method $rule $(#[$doc])+ $op $name $($operand)* })*
        }
    };
    (@method Compare $($row:tt)*) => {};
    (@method Select $($row:tt)*) => {};
    (@method Cast $($row:tt)*) => {};
    (@method Bitcast $($row:tt)*) => {};
    (@method $rule:ident $(#[$doc:meta])+ $op:ident $name:ident $a:ident) => {
        $(#[$doc])+
        #[track_caller]
        pub fn $name(&mut self, $a: impl Into<Operand>) -> Value {
            let a = self.value($a.into(), None);
            self.push(Op::$op, &[a], 0, &[], None)
        }
    };
    (@method $rule:ident $(#[$doc:meta])+ $op:ident $name:ident $a:ident $b:ident) => {
        $(#[$doc])+
        #[track_caller]
        pub fn $name(&mut self, $a: impl Into<Operand>, $b: impl Into<Operand>) -> Value {
            let (a, b) = self.unify($a.into(), $b.into());
            self.push(Op::$op, &[a, b], 0, &[], None)
        }
    };
    (@method $rule:ident $(#[$doc:meta])+ $op:ident $name:ident $a:ident $b:ident $c:ident) => {
        $(#[$doc])+
        #[track_caller]
        pub fn $name(&mut self, $a: impl Into<Operand>, $b: impl Into<Operand>, $c: impl Into<Operand>) -> Value {
            let (a, b) = self.unify($a.into(), $b.into());
            let (a, c) = self.unify(a.into(), $c.into());
            let (b, c) = self.unify(b.into(), c.into());
            self.push(Op::$op, &[a, b, c], 0, &[], None)
        }
    };
}

op_rows!(elementwise_methods);

impl KernelBuilder {
    /// Starts a kernel of that name.
    pub fn new(name: &str) -> KernelBuilder {
        let kernel = Kernel::new(name);
        let at = Cursor::start(kernel.body);
        KernelBuilder { kernel, at, errors: Vec::new(), named: HashMap::new() }
    }

    /// Asks for a number of warps per program instance.
    pub fn warps(&mut self, n: u32) -> &mut Self {
        self.kernel.hints.warps = Some(n);
        self
    }

    /// Asks for a number of stages of pipelined loops.
    pub fn stages(&mut self, n: u32) -> &mut Self {
        self.kernel.hints.stages = Some(n);
        self
    }

    /// The kernel, or every mistake made on the way.
    ///
    /// # Errors
    /// The mistakes, in the order they were made.
    pub fn finish(mut self) -> Result<Kernel, BuildErrors> {
        let strange = |k: &Kernel, v: Value| !k.values.is_valid(v);
        let strangers = self.kernel.insts.iter().filter_map(|(i, d)| Some((i, d.op, *d.args.iter().find(|&&v| strange(&self.kernel, v))?)));
        for (inst, op, v) in strangers.collect::<Vec<_>>() {
            let message = format!("{v} is no value of this kernel; a value belongs to the builder that made it");
            self.errors.push(BuildError { method: op.info().name.to_owned(), loc: self.kernel.locs[inst], message });
        }
        if self.errors.is_empty() { Ok(self.kernel) } else { Err(BuildErrors(self.errors)) }
    }

    /// The type of a value; of one that another builder made, and that is none here, `i32`.
    pub fn ty(&self, v: Value) -> &Type {
        static NONE: Type = Type::Scalar(Scalar::I32);
        self.kernel.values.get(v).map_or(&NONE, |d| &d.ty)
    }

    #[track_caller]
    fn note(&mut self, method: &str, message: String) {
        self.errors.push(BuildError::new(method, message));
    }

    /// Gives a value a name, by which the text and messages call it: `%acc`. A literal stays a number in the text.
    #[track_caller]
    pub fn name(&mut self, v: Value, name: &str) -> Value {
        if !self.kernel.values.is_valid(v) {
            self.note("name", format!("{v} is no value of this kernel; a value belongs to the builder that made it"));
        } else if !is_identifier(name) {
            self.note("name", format!("{name:?} is no name of a value; use a letter or _, then letters, digits and _"));
        } else if self.named.insert(name.to_owned(), v).is_some_and(|other| other != v) {
            self.note("name", format!("%{name} is another value already; choose another name"));
        } else if let Some(old) = self.kernel.names[v].replace(name.into()).filter(|old| **old != *name) {
            self.named.remove(&*old);
        }
        v
    }

    /// Appends a view or scalar parameter.
    pub fn param(&mut self, ty: impl Into<Type>) -> Value {
        self.kernel.add_param(ty.into())
    }

    /// Places an instruction.
    #[track_caller]
    fn insert(&mut self, inst: Inst) {
        self.kernel.locs[inst] = Loc::caller();
        self.at.insert(&mut self.kernel, inst);
    }

    #[track_caller]
    fn push(&mut self, op: Op, args: &[Value], present: u8, attrs: &[Attr], explicit: Option<Type>) -> Value {
        if let Some((takes, open)) = self.operands_of(op, args, present)
            && (args.len() < takes || args.len() > takes && !open)
        {
            self.note(op.info().name, format!("{} operands are given; it takes {takes}", args.len()));
        }
        let typed = {
            let types: SmallVec<[&Type; 6]> = args.iter().map(|&a| self.ty(a)).collect();
            result_types(op, &types, present, attrs, explicit.as_ref())
        };
        let results = match typed {
            Ok(results) => results,
            Err(message) => {
                let stand_in = explicit.or_else(|| args.first().map(|&a| self.ty(a).clone())).unwrap_or(Type::Scalar(Scalar::I32));
                self.note(op.info().name, message);
                std::iter::repeat_n(stand_in, op.info().results()).collect()
            }
        };
        let inst = self.kernel.add_inst(op, args, present, attrs, &[], &results);
        self.insert(inst);
        // An op without a result (a store) hands back its first operand, which no caller uses.
        self.kernel.insts[inst].results.first().copied().or(args.first().copied()).unwrap_or(Value::reserved_value())
    }

    /// Operands that an op on a view takes, one index per dimension among them, and whether more may follow; `None` for other ops, whose
    /// methods see to it.
    fn operands_of(&self, op: Op, args: &[Value], present: u8) -> Option<(usize, bool)> {
        let of = |kind| op.info().operands.iter().filter(|o| o.kind == kind).count();
        match self.ty(*args.first()?) {
            Type::View(v) if of(OperandKind::Indices) > 0 => {
                Some((of(OperandKind::Plain) + present.count_ones() as usize + v.rank(), of(OperandKind::Variadic) > 0))
            }
            Type::View(_) | Type::Scalar(_) | Type::Tile(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => None,
        }
    }

    /// Places an op that makes several values of one type.
    #[track_caller]
    pub(crate) fn push_many<const N: usize>(&mut self, op: Op, args: &[Value]) -> [Value; N] {
        let first = self.push(op, args, 0, &[], None);
        let made = self.kernel.def_inst(first).map(|i| self.kernel.insts[i].results.to_vec()).unwrap_or_default();
        std::array::from_fn(|i| made.get(i).copied().unwrap_or(first))
    }

    /// A scalar literal of a type.
    #[track_caller]
    pub fn constant(&mut self, value: impl Into<Operand>, ty: Scalar) -> Value {
        let literal = match value.into() {
            Operand::Value(v) => return v,
            Operand::Int(i) if ty.is_float() => Literal::Float(num::round(i as f64, ty).to_bits()),
            Operand::Int(i) => {
                // A value of the type, read with or without a sign.
                if ty.bits() < 64 && (i < -(1 << (ty.bits() - 1)) || i >= 1 << ty.bits()) {
                    self.note("constant", format!("{i} does not fit {ty}; use a wider type"));
                }
                Literal::Int(num::wrap(i, ty))
            }
            Operand::Float(x) if ty.is_float() => Literal::Float(num::round(x, ty).to_bits()),
            Operand::Float(x) => {
                self.note("constant", format!("{x} is no {ty} literal; use an integer or a float type"));
                Literal::Int(0)
            }
        };
        self.push(Op::Const, &[], 0, &[Attr::Literal(literal)], Some(Type::Scalar(ty)))
    }

    /// The value of an operand; a literal takes the wanted element type, else `i32` or `f32`.
    #[track_caller]
    fn value(&mut self, o: Operand, want: Option<Scalar>) -> Value {
        match o {
            Operand::Value(v) => v,
            Operand::Int(_) => self.constant(o, want.unwrap_or(Scalar::I32)),
            Operand::Float(_) => self.constant(o, want.unwrap_or(Scalar::F32)),
        }
    }

    #[track_caller]
    fn unify(&mut self, a: Operand, b: Operand) -> (Value, Value) {
        let elem = |s: &Self, o: Operand| if let Operand::Value(v) = o { Some(s.ty(v).elem()) } else { None };
        let (ea, eb) = (elem(self, a), elem(self, b));
        let (a, b) = (self.value(a, eb), self.value(b, ea));
        let (ta, tb) = (self.ty(a).clone(), self.ty(b).clone());
        match (&ta, &tb) {
            (Type::Tile(t), Type::Scalar(_)) => {
                let b = self.splat(b, &t.shape.clone());
                (a, b)
            }
            (Type::Scalar(_), Type::Tile(t)) => {
                let a = self.splat(a, &t.shape.clone());
                (a, b)
            }
            (Type::Tile(x), Type::Tile(y)) if x.shape != y.shape && x.shape.len() == y.shape.len() => {
                let shape: Shape = x.shape.iter().zip(&y.shape).map(|(&p, &q)| if p == 1 { q } else { p }).collect();
                let a = self.spread(a, &shape);
                let b = self.spread(b, &shape);
                (a, b)
            }
            (Type::Tile(_) | Type::Scalar(_) | Type::View(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_), _) => (a, b),
        }
    }

    /// An elementwise op without attributes on values of one type, for those who choose it from the table ([`Op::info`]).
    #[track_caller]
    pub fn elementwise(&mut self, op: Op, args: &[Value]) -> Value {
        self.push(op, args, 0, &[], None)
    }

    /// This program instance's position on grid axis 0, 1 or 2.
    #[track_caller]
    pub fn program_id(&mut self, axis: usize) -> Value {
        self.grid_op(Op::ProgramId, axis)
    }

    /// The grid's extent along axis 0, 1 or 2.
    #[track_caller]
    pub fn num_programs(&mut self, axis: usize) -> Value {
        self.grid_op(Op::NumPrograms, axis)
    }

    #[track_caller]
    fn grid_op(&mut self, op: Op, axis: usize) -> Value {
        if axis >= GridAxis::ALL.len() {
            self.note(op.info().name, format!("the grid has axes 0, 1 and 2, not {axis}"));
        }
        let axis = GridAxis::ALL.get(axis).copied().unwrap_or(GridAxis::X);
        self.push(op, &[], 0, &[Attr::Grid(axis)], None)
    }

    /// A view's extent along a dimension, as `i32`.
    #[track_caller]
    pub fn dim(&mut self, view: Value, d: u32) -> Value {
        self.push(Op::Dim, &[view], 0, &[Attr::Dim(d)], None)
    }

    /// The index of each element along dimension `d` of a tile, as `i32`.
    #[track_caller]
    pub fn iota(&mut self, shape: &[u32], d: u32) -> Value {
        self.push(Op::Iota, &[], 0, &[Attr::Dim(d)], Some(Type::tile(shape, Scalar::I32)))
    }

    /// A tile of equal elements.
    #[track_caller]
    pub fn splat(&mut self, value: impl Into<Operand>, shape: &[u32]) -> Value {
        let v = self.value(value.into(), None);
        let ty = Type::tile(shape, self.ty(v).elem());
        self.push(Op::Splat, &[v], 0, &[], Some(ty))
    }

    /// A tile filled with a literal of a type.
    #[track_caller]
    pub fn full(&mut self, shape: &[u32], value: impl Into<Operand>, elem: Scalar) -> Value {
        let v = self.constant(value, elem);
        self.splat(v, shape)
    }

    /// A comparison.
    #[track_caller]
    pub fn cmp(&mut self, c: CmpOp, a: impl Into<Operand>, b: impl Into<Operand>) -> Value {
        let (a, b) = self.unify(a.into(), b.into());
        self.push(Op::Cmp, &[a, b], 0, &[Attr::Cmp(c)], None)
    }

    /// `a` where the condition holds, else `b`.
    #[track_caller]
    pub fn select(&mut self, condition: Value, a: impl Into<Operand>, b: impl Into<Operand>) -> Value {
        let (mut a, mut b) = self.unify(a.into(), b.into());
        if let (Type::Tile(c), Type::Scalar(_)) = (self.ty(condition).clone(), self.ty(a)) {
            a = self.splat(a, &c.shape);
            b = self.splat(b, &c.shape);
        }
        self.push(Op::Select, &[condition, a, b], 0, &[], None)
    }

    /// Conversion by value to another element type; the value itself if it has that type already.
    #[track_caller]
    pub fn cast(&mut self, a: Value, elem: Scalar) -> Value {
        if self.ty(a).elem() == elem {
            return a;
        }
        let ty = self.ty(a).with_elem(elem);
        self.push(Op::Cast, &[a], 0, &[], Some(ty))
    }

    /// The same bits as another element type of that width. Between elements of 8 and of 4 bits the last extent doubles or halves.
    #[track_caller]
    pub fn bitcast(&mut self, a: Value, elem: Scalar) -> Value {
        let from = self.ty(a);
        let mut ty = from.with_elem(elem);
        if let Type::Tile(t) = &mut ty
            && let Some(last) = t.shape.last_mut()
        {
            match (from.elem().bits(), elem.bits()) {
                (8, 4) => *last = last.saturating_mul(2),
                (4, 8) => *last /= 2,
                _ => {}
            }
        }
        self.push(Op::Bitcast, &[a], 0, &[], Some(ty))
    }

    /// Repeats extents that are 1 up to a shape.
    #[track_caller]
    pub fn broadcast(&mut self, a: Value, shape: &[u32]) -> Value {
        let ty = Type::tile(shape, self.ty(a).elem());
        self.push(Op::Broadcast, &[a], 0, &[], Some(ty))
    }

    /// The same elements under other extents; an empty shape makes a one-element tile a scalar, and a scalar becomes a tile.
    #[track_caller]
    pub fn reshape(&mut self, a: Value, shape: &[u32]) -> Value {
        let ty = Type::of_shape(shape, self.ty(a).elem());
        self.push(Op::Reshape, &[a], 0, &[], Some(ty))
    }

    /// Inserts an extent 1 in front of dimension `d`.
    #[track_caller]
    pub fn expand_dims(&mut self, a: Value, d: usize) -> Value {
        let mut shape = Shape::from_slice(self.ty(a).shape().unwrap_or(&[]));
        shape.insert(d.min(shape.len()), 1);
        self.reshape(a, &shape)
    }

    /// Permutes dimensions: result dimension `i` is operand dimension `perm[i]`.
    #[track_caller]
    pub fn transpose(&mut self, a: Value, perm: &[u32]) -> Value {
        self.push(Op::Transpose, &[a], 0, &[Attr::Perm(Shape::from_slice(perm))], None)
    }

    /// Combines the elements along an axis, which disappears.
    #[track_caller]
    pub fn reduce(&mut self, op: ReduceOp, a: Value, axis: u32) -> Value {
        self.push(Op::Reduce, &[a], 0, &[Attr::Reduce(op), Attr::Dim(axis)], None)
    }

    /// Two tiles interleaved along a new innermost dimension of extent 2.
    #[track_caller]
    pub fn join(&mut self, a: impl Into<Operand>, b: impl Into<Operand>) -> Value {
        let (a, b) = self.unify(a.into(), b.into());
        self.push(Op::Join, &[a, b], 0, &[], None)
    }

    /// The inverse of [`KernelBuilder::join`].
    #[track_caller]
    pub fn split(&mut self, a: Value) -> (Value, Value) {
        let first = self.push(Op::Split, &[a], 0, &[], None);
        let second = self.kernel.def_inst(first).and_then(|i| self.kernel.insts[i].results.get(1).copied());
        (first, second.unwrap_or(first))
    }

    /// The second tile behind the first along an axis.
    #[track_caller]
    pub fn concat(&mut self, a: Value, b: Value, axis: u32) -> Value {
        self.push(Op::Concat, &[a, b], 0, &[Attr::Dim(axis)], None)
    }

    /// The part of a tile at constant offsets.
    #[track_caller]
    pub fn slice(&mut self, a: Value, offsets: &[u32], shape: &[u32]) -> Value {
        let ty = Type::tile(shape, self.ty(a).elem());
        self.push(Op::Slice, &[a], 0, &[Attr::Offsets(Shape::from_slice(offsets))], Some(ty))
    }

    /// Reverses the order along an axis.
    #[track_caller]
    pub fn flip(&mut self, a: Value, axis: u32) -> Value {
        self.push(Op::Flip, &[a], 0, &[Attr::Dim(axis)], None)
    }

    /// Inclusive scan along an axis.
    #[track_caller]
    pub fn scan(&mut self, op: ReduceOp, a: Value, axis: u32) -> Value {
        self.push(Op::Scan, &[a], 0, &[Attr::Reduce(op), Attr::Dim(axis)], None)
    }

    /// Inclusive scan along an axis from the last element backward.
    #[track_caller]
    pub fn scan_reverse(&mut self, op: ReduceOp, a: Value, axis: u32) -> Value {
        self.push(Op::ScanReverse, &[a], 0, &[Attr::Reduce(op), Attr::Dim(axis)], None)
    }

    /// Position of the smallest element along an axis, as `i32`.
    #[track_caller]
    pub fn argmin(&mut self, a: Value, axis: u32) -> Value {
        self.push(Op::ArgMin, &[a], 0, &[Attr::Dim(axis)], None)
    }

    /// Position of the largest element along an axis, as `i32`.
    #[track_caller]
    pub fn argmax(&mut self, a: Value, axis: u32) -> Value {
        self.push(Op::ArgMax, &[a], 0, &[Attr::Dim(axis)], None)
    }

    /// The value, with the promise that it is a multiple of `n`.
    #[track_caller]
    pub fn assume_multiple(&mut self, a: Value, n: u32) -> Value {
        self.push(Op::Assume, &[a], 0, &[Attr::Divisor(n)], None)
    }

    /// The tile, which lies in registers in a layout from here on, up to a release: [`Op::RequireLayout`].
    #[track_caller]
    pub fn require_layout(&mut self, a: Value, layout: LayoutSpec) -> Value {
        self.push(Op::RequireLayout, &[a], 0, &[Attr::Layout(Box::new(layout))], None)
    }

    /// The tile, whose layout is free again.
    #[track_caller]
    pub fn release_layout(&mut self, a: Value) -> Value {
        self.push(Op::ReleaseLayout, &[a], 0, &[], None)
    }

    /// Stops the launch unless every element of the condition holds.
    #[track_caller]
    pub fn assert(&mut self, condition: Value) {
        self.push(Op::Assert, &[condition], 0, &[], None);
    }

    /// Reports values; for the interpreter only.
    #[track_caller]
    pub fn print(&mut self, values: &[Value]) {
        if values.is_empty() {
            self.note("print", "there is nothing to report; name a value".into());
        } else {
            self.push(Op::Print, values, 0, &[], None);
        }
    }

    /// Combines the elements along an axis, which stays with extent 1.
    #[track_caller]
    pub fn reduce_keep(&mut self, op: ReduceOp, a: Value, axis: u32) -> Value {
        let mut shape = Shape::from_slice(self.ty(a).shape().unwrap_or(&[]));
        let r = self.reduce(op, a, axis);
        if let Some(e) = shape.get_mut(axis as usize) {
            *e = 1;
        }
        self.reshape(r, &shape)
    }

    /// `a * b + c`.
    #[track_caller]
    pub fn dot(&mut self, a: Value, b: Value, c: Value) -> Value {
        self.push(Op::Dot, &[a, b, c], 0, &[Attr::Precision(Precision::Exact)], None)
    }

    /// `a * b + c` with operands rounded to tf32.
    #[track_caller]
    pub fn dot_tf32(&mut self, a: Value, b: Value, c: Value) -> Value {
        self.push(Op::Dot, &[a, b, c], 0, &[Attr::Precision(Precision::Tf32)], None)
    }

    /// `a * b + c` with operands as sums of two tf32 numbers: three products, nearly as exact as `f32`.
    #[track_caller]
    pub fn dot_tf32x3(&mut self, a: Value, b: Value, c: Value) -> Value {
        self.push(Op::Dot, &[a, b, c], 0, &[Attr::Precision(Precision::Tf32x3)], None)
    }

    /// `a * b + c` of operands `f8e4m3`, `f8e5m2` or `f4e2m1` with a scale of `f8e8m0` for each 32 elements along K: `[operand, scales]` of A and of B.
    #[track_caller]
    pub fn dot_scaled(&mut self, [a, scale_a]: [Value; 2], [b, scale_b]: [Value; 2], c: Value) -> Value {
        self.push(Op::DotScaled, &[a, scale_a, b, scale_b, c], 0, &[], None)
    }

    /// The lines along an axis in order.
    #[track_caller]
    pub fn sort(&mut self, order: SortOrder, a: Value, axis: u32) -> Value {
        self.push(Op::Sort, &[a], 0, &[Attr::Sort(order), Attr::Dim(axis)], None)
    }

    /// Where the elements of [`KernelBuilder::sort`] came from.
    #[track_caller]
    pub fn argsort(&mut self, order: SortOrder, a: Value, axis: u32) -> Value {
        self.push(Op::ArgSort, &[a], 0, &[Attr::Sort(order), Attr::Dim(axis)], None)
    }

    /// The first `k` elements of a sort and where they came from.
    #[track_caller]
    pub fn top_k(&mut self, order: SortOrder, a: Value, axis: u32, k: u32) -> (Value, Value) {
        let mut shape = Shape::from_slice(self.ty(a).shape().unwrap_or(&[]));
        if let Some(e) = shape.get_mut(axis as usize) {
            *e = k;
        }
        let attrs = [Attr::Sort(order), Attr::Dim(axis)];
        let at = self.push(Op::ArgTopK, &[a], 0, &attrs, Some(Type::tile(&shape, Scalar::I32)));
        let elem = self.ty(a).elem();
        (self.push(Op::TopK, &[a], 0, &attrs, Some(Type::tile(&shape, elem))), at)
    }

    /// A value in a shape, if splatting or repeating extents of 1 makes it so; else the value itself, for the typing rule to refuse.
    #[track_caller]
    fn spread(&mut self, v: Value, shape: &Shape) -> Value {
        match self.ty(v) {
            Type::Scalar(_) if !shape.is_empty() => self.splat(v, shape),
            Type::Tile(t)
                if t.shape != *shape && t.shape.len() == shape.len() && t.shape.iter().zip(shape).all(|(&p, &q)| p == q || p == 1) =>
            {
                self.broadcast(v, shape)
            }
            Type::Scalar(_) | Type::Tile(_) | Type::View(_) | Type::Shared(_) | Type::Barrier(_) | Type::Channel(_) => v,
        }
    }

    /// Ceiling division of two `i32` scalars by the usual formula; `b` must be positive.
    #[track_caller]
    pub fn ceil_div(&mut self, a: Value, b: impl Into<Operand>) -> Value {
        let b = self.value(b.into(), Some(Scalar::I32));
        let s = self.add(a, b);
        let s = self.sub(s, 1);
        self.div(s, b)
    }
}

impl From<ViewType> for Type {
    fn from(v: ViewType) -> Type {
        Type::View(Box::new(v))
    }
}
impl From<TileType> for Type {
    fn from(t: TileType) -> Type {
        Type::Tile(t)
    }
}
