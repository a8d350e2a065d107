//! The kernel: arenas of values, instructions and regions, and the tree that orders them.
//!
//! ```text
//! Kernel ── params: Vec<Value>            views and scalars
//!        └─ body: Region ── insts: [Inst] each with operands, attributes, regions, results
//! ```
//!
//! Invariants (the verifier checks them): every instruction stands in one region; operands are defined before use in the same or
//! an enclosing region; every region but the body ends with the only `yield` in it.

use crate::entities::{Inst, Region, Value};
use crate::ops::{Attr, Literal, Op};
use crate::types::{Scalar, Type};
use cranelift_entity::{PrimaryMap, SecondaryMap};
use smallvec::SmallVec;
use std::fmt;

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueDef {
    /// Result number `.1` of an instruction.
    Result(Inst, u32),
    /// Parameter number `.1` of a region.
    RegionParam(Region, u32),
    /// Parameter number `.0` of the kernel.
    KernelParam(u32),
}

/// A value's type and origin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueData {
    /// Its type.
    pub ty: Type,
    /// Its origin.
    pub def: ValueDef,
}

/// An operand list.
pub type Operands = SmallVec<[Value; 4]>;
/// A result list.
pub type Results = SmallVec<[Value; 1]>;

/// An instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InstData {
    /// The op.
    pub op: Op,
    /// Operands in the row's order; keyword operands only if present.
    pub args: Operands,
    /// One bit per operand of the row: set for keyword operands that are present.
    pub present: u8,
    /// Lead, then trailing attribute.
    pub attrs: SmallVec<[Attr; 1]>,
    /// Regions.
    pub regions: SmallVec<[Region; 2]>,
    /// Results.
    pub results: Results,
}

/// A region: parameters and ordered instructions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RegionData {
    /// Parameters; of a `for`, the index and then the carried values.
    pub params: SmallVec<[Value; 4]>,
    /// Instructions in order.
    pub insts: Vec<Inst>,
    /// The instruction that it was made for; [`Kernel::holder`] asks that one.
    pub(crate) holder: Option<Inst>,
    /// Where what it belongs to begins in the text, if that is not the instruction's place: a task of `tasks`.
    pub loc: Loc,
}

/// A place in a `.tile` text, or in the program that built the kernel; zeros where it is not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Loc {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub col: u32,
    /// The source file of the call of the builder; `None` for a place in a text.
    pub file: Option<&'static str>,
}

impl Loc {
    /// A place in a text.
    pub const fn text(line: u32, col: u32) -> Loc {
        Loc { line, col, file: None }
    }
    /// The place of the call of the function that is marked `#[track_caller]` and calls this one.
    #[track_caller]
    pub(crate) fn caller() -> Loc {
        let place = std::panic::Location::caller();
        Loc { line: place.line(), col: place.column(), file: Some(place.file()) }
    }
    /// True if the place is known.
    pub const fn is_known(self) -> bool {
        self.line > 0
    }
    /// True for a place in a text.
    pub const fn is_text(self) -> bool {
        self.line > 0 && self.file.is_none()
    }
}

/// `12:5` of a text, `src/main.rs:42` of a program.
impl fmt::Display for Loc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.file {
            Some(file) => write!(f, "{file}:{}", self.line),
            None => write!(f, "{}:{}", self.line, self.col),
        }
    }
}

/// True for a letter or `_`, then letters, digits and `_`: what a kernel, a task or a value may be called.
pub(crate) fn is_identifier(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_') && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// How often a `for` with these bounds and this step runs; `None` if the step is not positive.
pub fn iterations(lo: i64, hi: i64, step: i64) -> Option<u64> {
    let span = if hi > lo { hi.abs_diff(lo) } else { 0 };
    (step > 0).then(|| span.div_ceil(step.unsigned_abs()))
}

/// What the author asks of the schedule; results never depend on it beyond the bound of `dot`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct Hints {
    /// Warps per program instance, a power of two (`warps=4`).
    pub warps: Option<u32>,
    /// Stages of pipelined loops (`stages=3`).
    pub stages: Option<u32>,
}

/// A kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct Kernel {
    /// Name, without the `@`.
    pub name: String,
    /// Parameters, in launch order.
    pub params: Vec<Value>,
    /// The outermost region; it has no parameters and no `yield`.
    pub body: Region,
    /// Schedule hints.
    pub hints: Hints,
    /// Program instances, neighbours along x, that form a cluster; 1 for none.
    pub cluster: u32,
    /// Neighbouring positions of the launch grid that a program instance stands for, along each axis: `program_id` and `num_programs` count instances.
    pub positions: [u32; 3],
    /// Values.
    pub values: PrimaryMap<Value, ValueData>,
    /// Instructions.
    pub insts: PrimaryMap<Inst, InstData>,
    /// Regions.
    pub regions: PrimaryMap<Region, RegionData>,
    /// Where the hints stand in the text: `warps`, `stages`, `cluster`, then `positions`.
    pub hint_locs: [Loc; 4],
    /// Where instructions stand in the text, or in the program that built the kernel.
    pub locs: SecondaryMap<Inst, Loc>,
    /// What the author wrote where a rewrite has put another op: a `while` that counts is a `for`.
    pub written_as: SecondaryMap<Inst, Option<Op>>,
    /// What the author calls values, without the `%`; most have a number only. Where two values of one name are seen in one place, the
    /// text numbers one of them.
    pub names: SecondaryMap<Value, Option<Box<str>>>,
}

/// Instructions, and values, that a kernel has room for from the start.
const USUAL: usize = 48;

/// A value's name in messages.
struct ValueName<'a>(Option<&'a str>, Value);

impl fmt::Display for ValueName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, "%{name}"),
            None => self.1.fmt(f),
        }
    }
}

impl Kernel {
    /// An empty kernel of that name.
    pub fn new(name: &str) -> Kernel {
        Kernel::with_capacity(name, USUAL, USUAL)
    }

    /// An empty kernel of that name, with room for as many instructions and values.
    pub fn with_capacity(name: &str, insts: usize, values: usize) -> Kernel {
        let mut regions = PrimaryMap::new();
        let body = regions.push(RegionData::default());
        Kernel {
            name: name.to_owned(),
            params: Vec::new(),
            body,
            hints: Hints::default(),
            cluster: 1,
            positions: [1; 3],
            hint_locs: [Loc::default(); 4],
            written_as: SecondaryMap::new(),
            values: PrimaryMap::with_capacity(values),
            insts: PrimaryMap::with_capacity(insts),
            regions,
            locs: SecondaryMap::with_capacity(insts),
            names: SecondaryMap::with_capacity(values),
        }
    }

    /// Appends a parameter.
    pub fn add_param(&mut self, ty: Type) -> Value {
        let def = ValueDef::KernelParam(self.params.len() as u32);
        let v = self.values.push(ValueData { ty, def });
        self.params.push(v);
        v
    }

    /// Makes a region without parameters or instructions.
    pub fn add_region(&mut self) -> Region {
        self.regions.push(RegionData::default())
    }

    /// Appends a parameter to a region.
    pub fn add_region_param(&mut self, r: Region, ty: Type) -> Value {
        let def = ValueDef::RegionParam(r, self.regions[r].params.len() as u32);
        let v = self.values.push(ValueData { ty, def });
        self.regions[r].params.push(v);
        v
    }

    /// Makes an instruction with results of the given types, outside any region; [`crate::Cursor`] places it.
    pub fn add_inst(&mut self, op: Op, args: &[Value], present: u8, attrs: &[Attr], regions: &[Region], results: &[Type]) -> Inst {
        let (inst, mut made) = (self.insts.next_key(), Results::new());
        for (i, ty) in results.iter().enumerate() {
            made.push(self.values.push(ValueData { ty: ty.clone(), def: ValueDef::Result(inst, i as u32) }));
        }
        self.insts.push(InstData {
            op,
            args: Operands::from_slice(args),
            present,
            attrs: copied(attrs),
            regions: SmallVec::from_slice(regions),
            results: made,
        });
        for &r in regions {
            if let Some(region) = self.regions.get_mut(r) {
                region.holder = Some(inst);
            }
        }
        inst
    }

    /// The instruction that a region belongs to; none has the kernel's body.
    pub fn holder(&self, r: Region) -> Option<Inst> {
        let inst = self.regions.get(r)?.holder?;
        self.insts.get(inst)?.regions.contains(&r).then_some(inst)
    }

    /// A value as messages name it: `%acc` if the author has a name for it, else `v12`.
    pub fn value_text(&self, v: Value) -> String {
        self.value_name(v).to_string()
    }

    /// The same, written only where it is printed.
    pub(crate) fn value_name(&self, v: Value) -> impl fmt::Display + '_ {
        ValueName(self.names[v].as_deref(), v)
    }

    /// The type of a value.
    pub fn ty(&self, v: Value) -> &Type {
        &self.values[v].ty
    }

    /// The instruction that makes a value, if one does.
    pub fn def_inst(&self, v: Value) -> Option<Inst> {
        match self.values.get(v)?.def {
            ValueDef::Result(i, _) => Some(i),
            ValueDef::RegionParam(..) | ValueDef::KernelParam(_) => None,
        }
    }

    /// The literal and its type, if the value is a `const`.
    pub fn as_const(&self, v: Value) -> Option<(Literal, Scalar)> {
        let d = &self.insts[self.def_inst(v)?];
        match (d.op, d.attrs.first()) {
            (Op::Const, Some(Attr::Literal(l))) => Some((*l, self.ty(v).elem())),
            _ => None,
        }
    }

    /// The `yield` that closes a region, if it has one.
    pub fn terminator(&self, r: Region) -> Option<Inst> {
        self.regions[r].insts.last().copied().filter(|&i| self.insts[i].op == Op::Yield)
    }

    /// The operands of the `yield` that closes a region (none if it has no `yield`).
    pub fn yields(&self, r: Region) -> &[Value] {
        self.terminator(r).map_or(&[], |i| &self.insts[i].args)
    }

    /// Operand `name` of the row of `inst`'s op: its values (several for indices and variadic operands, none for an absent keyword).
    pub fn operand(&self, inst: Inst, name: &str) -> &[Value] {
        use crate::ops::OperandKind;
        let d = &self.insts[inst];
        let row = d.op.info().operands;
        let plain_after = |i: usize| row[i + 1..].iter().filter(|o| o.kind == OperandKind::Plain).count();
        let keywords_after =
            |i: usize| (i + 1..row.len()).filter(|&j| row[j].kind == OperandKind::Keyword && d.present >> j & 1 == 1).count();
        let mut at = 0;
        for (i, o) in row.iter().enumerate() {
            let n = match o.kind {
                OperandKind::Plain => 1,
                OperandKind::Keyword => usize::from(d.present >> i & 1 == 1),
                OperandKind::Indices | OperandKind::Variadic => d.args.len().saturating_sub(at + plain_after(i) + keywords_after(i)),
            };
            if o.name == name {
                return d.args.get(at..at + n).unwrap_or(&[]);
            }
            at += n;
        }
        &[]
    }

    /// True if the author says who does what: the kernel has tasks, local memory, barriers, a cluster or other explicit control.
    pub fn is_explicit(&self) -> bool {
        self.cluster != 1 || self.has(self.body, &|op| op.is_explicit())
    }

    /// True if fewer instances may run than the launch grid has positions: the kernel asks which of them it is.
    pub fn is_persistent(&self) -> bool {
        self.has(self.body, &|op| matches!(op, Op::WorkerId | Op::NumWorkers))
    }

    /// True if a region, or one inside it, has an op: as far as it takes to know.
    pub fn has(&self, r: Region, is: &dyn Fn(Op) -> bool) -> bool {
        self.regions[r].insts.iter().any(|&i| {
            let d = &self.insts[i];
            is(d.op) || d.regions.iter().any(|&inner| self.has(inner, is))
        })
    }

    /// A table with a row for each value.
    pub fn by_value<T: Clone + Default>(&self) -> SecondaryMap<Value, T> {
        let mut table = SecondaryMap::new();
        table.resize(self.values.len());
        table
    }

    /// A table with a row for each instruction.
    pub fn by_inst<T: Clone + Default>(&self) -> SecondaryMap<Inst, T> {
        let mut table = SecondaryMap::new();
        table.resize(self.insts.len());
        table
    }

    /// Every instruction of a region and the regions inside it, in program order.
    pub fn walk(&self, r: Region, visit: &mut dyn FnMut(Inst)) {
        #[cfg(debug_assertions)]
        WALKED.set(WALKED.get() + self.regions[r].insts.len() as u64);
        for &i in self.regions[r].insts.as_slice() {
            visit(i);
            for &inner in self.insts[i].regions.as_slice() {
                self.walk(inner, visit);
            }
        }
    }
}

#[cfg(debug_assertions)]
thread_local! {
    static WALKED: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Instructions that [`Kernel::walk`] went over on this thread so far, in builds with debug assertions: tests see by it what goes over a whole program for
/// each of its instructions. In other builds nobody counts.
pub fn walked() -> u64 {
    #[cfg(debug_assertions)]
    return WALKED.get();
    #[cfg(not(debug_assertions))]
    0
}

/// The attributes of a list: mostly none or one.
fn copied(attrs: &[Attr]) -> SmallVec<[Attr; 1]> {
    let mut list = SmallVec::new();
    for a in attrs {
        list.push(a.clone());
    }
    list
}

impl Kernel {
    /// True if each element of an instruction's result follows from the operands' elements at the same place.
    pub fn is_elementwise(&self, inst: Inst) -> bool {
        let d = &self.insts[inst];
        match (d.args.first(), d.results.first()) {
            (Some(&a), Some(&r)) => d.op.is_elementwise(self.ty(a).elem(), self.ty(r).elem()),
            _ => false,
        }
    }
}
