//! Writes a kernel anew: instructions of another kernel as they stand, and new ones between them.
//!
//! A literal stands in front of each of its users, as the parser of the text puts it, so that what is written is what its text parses to.

use super::Refusal;
use crate::longest_first::{BESIDE, LaunchOrder};
use crate::plan::SwizzledTile;
use cranelift_entity::SecondaryMap;
use smallvec::SmallVec;
use std::borrow::Cow;
use tilelift_ir::typing::result_type;
use tilelift_ir::{Attr, CmpOp, Cursor, GridAxis, Inst, Kernel, Literal, Loc, Op, Region, Scalar, TileType, Type, Value};

/// How many times as long as the other kernel a kernel may well become.
const WRITTEN: usize = 4;

/// An operand: a value of the kernel that is written, or a literal.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arg {
    Value(Value),
    Literal(Literal, Scalar),
}

/// Operands of an instruction.
type Values = SmallVec<[Value; 8]>;
/// Types of an instruction's operands or results.
type Types = SmallVec<[Type; 4]>;

/// An `i32` literal.
pub(super) fn number(n: u32) -> Arg {
    Arg::Literal(Literal::Int(i64::from(n)), Scalar::I32)
}

impl From<Value> for Arg {
    fn from(v: Value) -> Arg {
        Arg::Value(v)
    }
}

/// A kernel in the making.
pub(super) struct Writer<'k> {
    from: &'k Kernel,
    to: Kernel,
    /// Regions that are open, the innermost one last.
    open: Vec<Region>,
    /// What the values of the other kernel are here.
    map: SecondaryMap<Value, Option<Arg>>,
    /// Where the instance stands in the grid, as far as that is counted: it is not asked again.
    counted: SecondaryMap<Value, bool>,
    /// The order in which positions of the grid are taken.
    order: LaunchOrder,
    /// The place of what new instructions stand for.
    pub loc: Loc,
}

impl<'k> Writer<'k> {
    /// An empty kernel with the parameters of another one.
    pub fn new(from: &'k Kernel) -> Writer<'k> {
        // Several roles say most of it, and each literal stands in front of its users.
        let mut to = Kernel::with_capacity(&from.name, WRITTEN * from.insts.len(), WRITTEN * from.values.len());
        to.hints.stages = from.hints.stages;
        to.positions = from.positions;
        let mut map = from.by_value();
        for &p in &from.params {
            map[p] = Some(Arg::Value(to.add_param(from.ty(p).clone())));
        }
        let open = vec![to.body];
        Writer { from, to, open, map, counted: SecondaryMap::new(), order: LaunchOrder::default(), loc: Loc::default() }
    }

    /// Takes positions of the grid in an order.
    pub fn take_in_order(&mut self, order: LaunchOrder) {
        self.order = order;
    }

    /// Where an instance stands along an axis, in that order.
    fn position(&mut self, axis: GridAxis) -> Result<Value, Refusal> {
        if !self.order.beside {
            let here = self.make(Op::ProgramId, &[], &[Attr::Grid(axis)], None)?;
            let grid = self.grid(axis)?;
            let last = self.bin(Op::Sub, grid, number(1))?;
            return self.bin(Op::Sub, last, here);
        }
        // The hardware takes x first: of each group along y this is the number of the instance.
        let x = self.make(Op::ProgramId, &[], &[Attr::Grid(GridAxis::X)], None)?;
        let y = self.make(Op::ProgramId, &[], &[Attr::Grid(GridAxis::Y)], None)?;
        let (columns, rows) = (self.grid(GridAxis::X)?, self.grid(GridAxis::Y)?);
        let group = self.bin(Op::DivU, y, number(BESIDE))?;
        let first = self.bin(Op::Mul, group, number(BESIDE))?;
        let inside = self.bin(Op::Sub, y, first)?;
        let rest = self.bin(Op::Sub, rows, first)?;
        let beside = self.bin(Op::Minimum, rest, number(BESIDE))?;
        let before = self.bin(Op::Mul, columns, inside)?;
        let nth = self.bin(Op::Add, before, x)?;
        let column = self.bin(Op::DivU, nth, beside)?;
        if axis == GridAxis::X {
            let last = self.bin(Op::Sub, columns, number(1))?;
            return self.bin(Op::Sub, last, column);
        }
        let taken = self.bin(Op::Mul, column, beside)?;
        let row = self.bin(Op::Sub, nth, taken)?;
        self.bin(Op::Add, first, row)
    }

    /// The kernel.
    pub fn finish(self) -> Kernel {
        self.to
    }

    /// Says what a value of the other kernel is here.
    pub fn set(&mut self, v: Value, to: impl Into<Arg>) {
        self.map[v] = Some(to.into());
    }

    /// Says what a place in the grid is here, wherever it is asked for.
    pub fn set_position(&mut self, v: Value, to: Value) {
        self.set(v, to);
        self.counted[v] = true;
    }

    /// Says what a value of the other kernel is here, or that it is nothing; gives what it was.
    pub fn swap(&mut self, v: Value, to: Option<Arg>) -> Option<Arg> {
        std::mem::replace(&mut self.map[v], to)
    }

    /// Says that a value of the other kernel is nothing here.
    pub fn forget(&mut self, v: Value) {
        self.map[v] = None;
    }

    /// What a value of the other kernel is here.
    ///
    /// # Errors
    /// It is nothing.
    pub fn get(&self, v: Value) -> Result<Arg, Refusal> {
        match self.from.as_const(v) {
            Some((literal, ty)) => Ok(Arg::Literal(literal, ty)),
            None => self.map[v].ok_or(Refusal::Written { value: v }),
        }
    }

    /// The type of an operand.
    fn ty(&self, a: Arg) -> Cow<'_, Type> {
        match a {
            Arg::Value(v) => Cow::Borrowed(self.to.ty(v)),
            Arg::Literal(_, s) => Cow::Owned(Type::Scalar(s)),
        }
    }

    /// The extents of a buffer.
    pub fn extents(&self, a: Arg) -> Option<Vec<u32>> {
        self.ty(a).as_shared().map(|t| t.shape.to_vec())
    }

    /// The type of a tile.
    pub fn tile(&self, a: Arg) -> Option<TileType> {
        self.ty(a).as_tile().cloned()
    }

    fn here(&self) -> Region {
        self.open.last().copied().unwrap_or(self.to.body)
    }

    fn place(&mut self, i: Inst) {
        self.to.locs[i] = self.loc;
        Cursor::end(&self.to, self.here()).insert(&mut self.to, i);
    }

    fn values(&mut self, args: &[Arg]) -> Values {
        let value = |w: &mut Self, a: &Arg| match *a {
            Arg::Value(v) => v,
            Arg::Literal(literal, ty) => {
                let i = w.to.add_inst(Op::Const, &[], 0, &[Attr::Literal(literal)], &[], &[Type::Scalar(ty)]);
                w.place(i);
                w.to.insts[i].results[0]
            }
        };
        args.iter().map(|a| value(self, a)).collect()
    }

    /// An instruction of the other kernel on other operands, with one result of another type.
    ///
    /// # Errors
    /// It has none, or several.
    pub fn copy_as(&mut self, i: Inst, args: &[Arg], ty: &Type) -> Result<Value, Refusal> {
        let d = &self.from.insts[i];
        let args = self.values(args);
        let made = self.to.add_inst(d.op, &args, d.present, &d.attrs, &[], std::slice::from_ref(ty));
        self.place(made);
        self.to.locs[made] = self.from.locs[i];
        self.to.insts[made].results.first().copied().ok_or(Refusal::Typed { op: d.op })
    }

    /// An instruction of the other kernel on other operands, without results.
    pub fn act_as(&mut self, i: Inst, args: &[Arg]) {
        let d = &self.from.insts[i];
        let args = self.values(args);
        let made = self.to.add_inst(d.op, &args, d.present, &d.attrs, &[], &[]);
        self.place(made);
        self.to.locs[made] = self.from.locs[i];
    }

    /// An instruction without results.
    pub fn act(&mut self, op: Op, args: &[Arg], attrs: &[Attr]) {
        let args = self.values(args);
        let i = self.to.add_inst(op, &args, 0, attrs, &[], &[]);
        self.place(i);
    }

    /// The same with optional operands, of which bits say which are there.
    pub fn act_with(&mut self, op: Op, args: &[Arg], present: u8) {
        let args = self.values(args);
        let i = self.to.add_inst(op, &args, present, &[], &[], &[]);
        self.place(i);
    }

    /// An instruction with one result, of a type that is written or follows.
    ///
    /// # Errors
    /// Operands of other types than the op takes.
    pub fn make(&mut self, op: Op, args: &[Arg], attrs: &[Attr], written: Option<&Type>) -> Result<Value, Refusal> {
        self.make_with(op, (args, 0), attrs, written)
    }

    /// The same with optional operands, of which bits say which are there.
    pub fn make_with(&mut self, op: Op, (args, present): (&[Arg], u8), attrs: &[Attr], written: Option<&Type>) -> Result<Value, Refusal> {
        let ty = {
            let types: SmallVec<[Cow<'_, Type>; 4]> = args.iter().map(|&a| self.ty(a)).collect();
            let types: SmallVec<[&Type; 4]> = types.iter().map(|ty| &**ty).collect();
            result_type(op, &types, present, attrs, written)
        };
        let Ok(Some(ty)) = ty else { return Err(Refusal::Typed { op }) };
        let args = self.values(args);
        let i = self.to.add_inst(op, &args, present, attrs, &[], &[ty]);
        self.place(i);
        Ok(self.to.insts[i].results[0])
    }

    /// A binary op.
    ///
    /// # Errors
    /// As [`Writer::make`].
    pub fn bin(&mut self, op: Op, a: impl Into<Arg>, b: impl Into<Arg>) -> Result<Value, Refusal> {
        self.make(op, &[a.into(), b.into()], &[], None)
    }

    /// A comparison.
    ///
    /// # Errors
    /// As [`Writer::make`].
    pub fn cmp(&mut self, op: CmpOp, a: impl Into<Arg>, b: impl Into<Arg>) -> Result<Value, Refusal> {
        self.make(Op::Cmp, &[a.into(), b.into()], &[Attr::Cmp(op)], None)
    }

    /// A buffer for tiles as bulk copies bring or take them.
    ///
    /// # Errors
    /// As [`Writer::make`].
    pub fn buffer(&mut self, ty: &Type, tile: &SwizzledTile) -> Result<Value, Refusal> {
        self.buffer_in(ty, tile, None)
    }

    /// The same in the bytes of another one, if one is given.
    ///
    /// # Errors
    /// As [`Writer::make`].
    pub fn buffer_in(&mut self, ty: &Type, tile: &SwizzledTile, other: Option<Value>) -> Result<Value, Refusal> {
        // What is as wide as rows permit need not be said.
        let swizzle = if tile.swizzle == tile.widest { 0 } else { tile.swizzle };
        let other: SmallVec<[Arg; 1]> = other.into_iter().map(Arg::from).collect();
        self.make_with(Op::LocalAlloc, (&other, u8::from(!other.is_empty())), &[Attr::Count(swizzle)], Some(ty))
    }

    /// The launch grid's extent along an axis.
    ///
    /// # Errors
    /// As [`Writer::make`].
    pub fn grid(&mut self, axis: GridAxis) -> Result<Value, Refusal> {
        self.make(Op::NumPrograms, &[], &[Attr::Grid(axis)], None)
    }

    /// An instruction of the other kernel, with all that is in its regions.
    ///
    /// # Errors
    /// It uses what is not here.
    pub fn copy(&mut self, i: Inst) -> Result<(), Refusal> {
        let d = &self.from.insts[i];
        if d.op == Op::Const || d.results.first().is_some_and(|&v| self.counted[v]) {
            return Ok(());
        }
        let args = d.args.iter().map(|&v| self.get(v)).collect::<Result<SmallVec<[Arg; 8]>, Refusal>>()?;
        let args = self.values(&args);
        if let (Op::ProgramId, Some(&Attr::Grid(axis))) = (d.op, d.attrs.first())
            && (self.order.backwards.contains(&axis) || self.order.beside && axis == GridAxis::Y)
        {
            let place = self.position(axis)?;
            self.set(d.results[0], place);
            return Ok(());
        }
        let mut regions: SmallVec<[Region; 2]> = SmallVec::new();
        for &r in &d.regions {
            let region = self.to.add_region();
            for &p in &self.from.regions[r].params {
                let v = self.to.add_region_param(region, self.from.ty(p).clone());
                self.set(p, v);
            }
            self.open.push(region);
            let done = self.from.regions[r].insts.iter().try_for_each(|&j| self.copy(j));
            self.open.pop();
            done?;
            regions.push(region);
        }
        let from = self.from;
        let several: Types;
        let types = match d.results[..] {
            [v] => std::slice::from_ref(from.ty(v)),
            _ => {
                several = d.results.iter().map(|&v| from.ty(v).clone()).collect();
                &several[..]
            }
        };
        let made = self.to.add_inst(d.op, &args, d.present, &d.attrs, &regions, types);
        self.place(made);
        self.to.locs[made] = self.from.locs[i];
        for (n, &v) in d.results.iter().enumerate() {
            let to = self.to.insts[made].results[n];
            self.set(v, to);
        }
        Ok(())
    }

    /// A region, filled; it ends with what it gives.
    fn region(
        &mut self,
        params: &[Type],
        body: impl FnOnce(&mut Self, &[Value]) -> Result<Vec<Arg>, Refusal>,
    ) -> Result<(Region, Types), Refusal> {
        let region = self.to.add_region();
        let params: Values = params.iter().map(|ty| self.to.add_region_param(region, ty.clone())).collect();
        self.open.push(region);
        let done = body(self, &params);
        let types = done.as_ref().map(|list| list.iter().map(|&a| self.ty(a).into_owned()).collect());
        if let Ok(list) = &done {
            self.act(Op::Yield, list, &[]);
        }
        self.open.pop();
        Ok((region, types.unwrap_or_default())).and_then(|made| done.map(|_| made))
    }

    /// `for`: the body gets the index and the carried values, and gives the next ones.
    ///
    /// # Errors
    /// The body's.
    pub fn for_loop(
        &mut self,
        bounds: [Arg; 3],
        init: &[Arg],
        body: impl FnOnce(&mut Self, Value, &[Value]) -> Result<Vec<Arg>, Refusal>,
    ) -> Result<Vec<Value>, Refusal> {
        let all: SmallVec<[Arg; 8]> = bounds.iter().chain(init).copied().collect();
        let args = self.values(&all);
        let params: Types = [args[0]].iter().chain(&args[3..]).map(|&v| self.to.ty(v).clone()).collect();
        let (region, types) = self.region(&params, |w, p| body(w, p[0], &p[1..]))?;
        let i = self.to.add_inst(Op::For, &args, 0, &[], &[region], &types);
        self.place(i);
        Ok(self.to.insts[i].results.to_vec())
    }

    /// `while`: the test gets the carried values and says whether to go on, the body gets them and gives the next ones.
    ///
    /// # Errors
    /// Those of the bodies.
    pub fn while_loop(
        &mut self,
        init: &[Arg],
        test: impl FnOnce(&mut Self, &[Value]) -> Result<Vec<Arg>, Refusal>,
        body: impl FnOnce(&mut Self, &[Value]) -> Result<Vec<Arg>, Refusal>,
    ) -> Result<Vec<Value>, Refusal> {
        let args = self.values(init);
        let params: Types = args.iter().map(|&v| self.to.ty(v).clone()).collect();
        let (test, _) = self.region(&params, test)?;
        let (run, _) = self.region(&params, body)?;
        let i = self.to.add_inst(Op::While, &args, 0, &[], &[test, run], &params);
        self.place(i);
        Ok(self.to.insts[i].results.to_vec())
    }

    /// What a body writes; what values of the other kernel are in there is forgotten behind it.
    pub fn apart<T>(&mut self, body: impl FnOnce(&mut Self) -> T) -> T {
        let outside = self.map.clone();
        let done = body(self);
        self.map = outside;
        done
    }

    /// `if`.
    ///
    /// # Errors
    /// Those of the bodies.
    pub fn choice(
        &mut self,
        condition: impl Into<Arg>,
        then: impl FnOnce(&mut Self) -> Result<Vec<Arg>, Refusal>,
        otherwise: impl FnOnce(&mut Self) -> Result<Vec<Arg>, Refusal>,
    ) -> Result<Vec<Arg>, Refusal> {
        let condition = self.values(&[condition.into()]);
        let (a, types) = self.region(&[], |w, _| then(w))?;
        let (b, _) = self.region(&[], |w, _| otherwise(w))?;
        let i = self.to.add_inst(Op::If, &condition, 0, &[], &[a, b], &types);
        self.place(i);
        Ok(self.to.insts[i].results.iter().map(|&v| v.into()).collect())
    }

    /// The region of a task.
    ///
    /// # Errors
    /// The body's.
    pub fn task(&mut self, body: impl FnOnce(&mut Self) -> Result<(), Refusal>) -> Result<Region, Refusal> {
        self.replicas(|w, _| body(w))
    }

    /// The region of a task of several replicas; the body gets the number of the one that runs it.
    ///
    /// # Errors
    /// The body's.
    pub fn replicas(&mut self, body: impl FnOnce(&mut Self, Value) -> Result<(), Refusal>) -> Result<Region, Refusal> {
        let done = self.apart(|w| w.region(&[Type::Scalar(Scalar::I32)], |w, own| body(w, own[0]).map(|()| Vec::new())));
        done.map(|(region, _)| region)
    }

    /// `tasks`.
    pub fn tasks(&mut self, list: Vec<tilelift_ir::Task>, regions: &[Region]) {
        let i = self.to.add_inst(Op::Tasks, &[], 0, &[Attr::Tasks(list)], regions, &[]);
        self.place(i);
    }
}
